/* One event loop that sends back what comes, by three ways to wait: epoll, poll and select. What is done once a
 * connection is ready is the same code for all three, so they differ by what waiting costs alone.
 *
 *   event_loops epoll PORT      told once what it waits for, it answers with what is ready
 *   event_loops poll PORT       is handed all descriptors each time, and all are looked at
 *   event_loops select PORT     the same with sets of bits: descriptors below FD_SETSIZE, which is 1,024
 *
 * A client beyond what a way can wait for is closed at once. What a client is too slow to take is kept, and it is not
 * read until that is gone. On 127.0.0.1; port 0 takes a free one.
 */

#include "server.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>

enum { BATCH = 1024, MOST_AT_ONCE = 65536 };

/* By descriptor: what its client has still to take. */
struct peer {
    char *bytes;
    size_t left;
};

/* What a connection wants next. */
enum wants { TO_RECEIVE, TO_SEND, TO_CLOSE };

static struct peer *peers;
static size_t most_descriptors;

/* How much of it went out; -1: the connection is over. */
static ssize_t send_some(int client, const char *bytes, size_t size)
{
    ssize_t sent;
    do
        sent = send(client, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && errno == EAGAIN ? 0 : sent;
}

static enum wants send_kept(int client)
{
    struct peer *rest = &peers[client];
    ssize_t sent = send_some(client, rest->bytes, rest->left);
    if (sent < 0)
        return TO_CLOSE;
    rest->left -= (size_t)sent;
    memmove(rest->bytes, rest->bytes + sent, rest->left);
    return rest->left > 0 ? TO_SEND : TO_RECEIVE;
}

static enum wants send_back(int client)
{
    static char message[MOST_AT_ONCE];
    ssize_t got = recv(client, message, sizeof message, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return TO_RECEIVE;
    if (got <= 0)
        return TO_CLOSE;
    ssize_t sent = send_some(client, message, (size_t)got);
    if (sent < 0)
        return TO_CLOSE;
    size_t left = (size_t)(got - sent);
    if (left == 0)
        return TO_RECEIVE;
    struct peer *peer = &peers[client];
    free(peer->bytes);
    peer->bytes = malloc(left);
    if (!peer->bytes)
        die("malloc");
    memcpy(peer->bytes, message + sent, left);
    peer->left = left;
    return TO_SEND;
}

/* Does what the connection is ready for. A closed one is to be forgotten before. */
static enum wants react(int client)
{
    return peers[client].left > 0 ? send_kept(client) : send_back(client);
}

static void close_client(int client)
{
    free(peers[client].bytes);
    peers[client] = (struct peer){NULL, 0};
    close(client);
}

/* The next client, or -1 where `most` descriptors do not reach it. */
static int accept_below(int listener, size_t most)
{
    int client = accept_client(listener);
    if ((size_t)client < most)
        return client;
    close(client);
    return -1;
}

static int start(unsigned short port)
{
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("getrlimit");
    descriptors.rlim_cur = descriptors.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("setrlimit");
    enum { ENOUGH = 1 << 20 };
    most_descriptors = descriptors.rlim_cur < ENOUGH ? descriptors.rlim_cur : ENOUGH;
    peers = calloc(most_descriptors, sizeof *peers);
    if (!peers)
        die("calloc");
    on_end(end_at_once);
    int listener = listen_on(port, false);
    send_at_once(listener);
    announce(listener);
    return listener;
}

/* ---- epoll ---- */

static void watch(int epoll, int operation, int descriptor, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = descriptor};
    if (epoll_ctl(epoll, operation, descriptor, &event) < 0)
        die("epoll_ctl");
}

static void by_epoll(unsigned short port, struct units units)
{
    (void)units;
    static struct epoll_event events[BATCH];
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = start(port);
    if (epoll < 0)
        die("epoll_create1");
    watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN);
    for (;;) {
        int count = epoll_wait(epoll, events, BATCH, -1);
        if (count < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < count; i++) {
            int ready = events[i].data.fd;
            if (ready == listener) {
                int client = accept_below(listener, most_descriptors);
                if (client >= 0)
                    watch(epoll, EPOLL_CTL_ADD, client, EPOLLIN);
                continue;
            }
            bool sent = peers[ready].left > 0;
            enum wants wants = react(ready);
            if (wants == TO_CLOSE)
                close_client(ready);
            else if (sent != (wants == TO_SEND))
                watch(epoll, EPOLL_CTL_MOD, ready, wants == TO_SEND ? EPOLLOUT : EPOLLIN);
        }
    }
}

/* ---- poll ---- */

static void by_poll(unsigned short port, struct units units)
{
    (void)units;
    int listener = start(port);
    struct pollfd *waited = calloc(most_descriptors, sizeof *waited);
    if (!waited)
        die("calloc");
    nfds_t held = 1;
    waited[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (;;) {
        int ready = poll(waited, held, -1);
        if (ready < 0 && errno != EINTR)
            die("poll");
        /* From behind, so that the last can take the place of one that is closed. */
        for (nfds_t i = held; ready > 0 && i-- > 1;) {
            if (!waited[i].revents)
                continue;
            ready--;
            enum wants wants = react(waited[i].fd);
            if (wants == TO_CLOSE) {
                close_client(waited[i].fd);
                waited[i] = waited[--held];
            } else {
                waited[i].events = wants == TO_SEND ? POLLOUT : POLLIN;
            }
        }
        if (ready > 0 && waited[0].revents) {
            int client = accept_below(listener, most_descriptors);
            if (client >= 0)
                waited[held++] = (struct pollfd){.fd = client, .events = POLLIN};
        }
    }
}

/* ---- select ---- */

static void by_select(unsigned short port, struct units units)
{
    (void)units;
    int listener = start(port), highest = listener;
    fd_set to_read, to_write;
    FD_ZERO(&to_read);
    FD_ZERO(&to_write);
    FD_SET(listener, &to_read);
    for (;;) {
        fd_set readable = to_read, writable = to_write;
        int ready = select(highest + 1, &readable, &writable, NULL, NULL);
        if (ready < 0 && errno != EINTR)
            die("select");
        int looked = highest;
        for (int fd = 0; ready > 0 && fd <= looked; fd++) {
            if (!FD_ISSET(fd, &readable) && !FD_ISSET(fd, &writable))
                continue;
            ready--;
            if (fd == listener) {
                int client = accept_below(listener, FD_SETSIZE);
                if (client >= 0) {
                    FD_SET(client, &to_read);
                    highest = client > highest ? client : highest;
                }
                continue;
            }
            enum wants wants = react(fd);
            FD_CLR(fd, &to_read);
            FD_CLR(fd, &to_write);
            if (wants == TO_CLOSE)
                close_client(fd);
            else
                FD_SET(fd, wants == TO_SEND ? &to_write : &to_read);
        }
        while (highest > listener && !FD_ISSET(highest, &to_read) && !FD_ISSET(highest, &to_write))
            highest--;
    }
}

int main(int argc, char **argv)
{
    static const struct design designs[] = {
        {"epoll", NO_UNITS, by_epoll},
        {"poll", NO_UNITS, by_poll},
        {"select", NO_UNITS, by_select},
    };
    return run_design(designs, sizeof designs / sizeof *designs, argc, argv);
}
