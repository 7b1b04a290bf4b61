/* The least an echo server on epoll can do: one loop, a large batch, a recv and a send for each message.
 *
 * It is what threadgauge's `echo` is held against. What a peer is too slow to take is kept and the connection is not
 * read until it is gone; nothing else is looked after.
 *
 *   echo_floor PORT    on 127.0.0.1; port 0 takes a free one. Says `listening on 127.0.0.1:PORT`, serves until SIGTERM
 *                      or SIGINT and exits with 0.
 */

#include "server.h"

#include <sys/epoll.h>
#include <sys/resource.h>

enum { BATCH = 1024, MOST_AT_ONCE = 65536 };

/* By descriptor: what its peer has still to take. */
struct kept {
    char *bytes;
    size_t left;
};

static int epoll;
static struct kept *kept;

static void watch(int operation, int descriptor, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = descriptor};
    if (epoll_ctl(epoll, operation, descriptor, &event) < 0)
        die("epoll_ctl");
}

/* How much of it went out; -1: the connection is over. */
static ssize_t send_some(int client, const char *bytes, size_t size)
{
    ssize_t sent;
    do
        sent = send(client, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && errno == EAGAIN ? 0 : sent;
}

static void close_client(int client)
{
    free(kept[client].bytes);
    kept[client] = (struct kept){NULL, 0};
    close(client);
}

static void keep(int client, const char *bytes, size_t size)
{
    char *copy = malloc(size);
    if (!copy)
        die("malloc");
    memcpy(copy, bytes, size);
    free(kept[client].bytes);
    kept[client] = (struct kept){copy, size};
}

static void echo(int client)
{
    static char message[MOST_AT_ONCE];
    ssize_t got = recv(client, message, sizeof message, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    ssize_t sent = got > 0 ? send_some(client, message, (size_t)got) : -1;
    if (sent < 0) {
        close_client(client);
    } else if (sent < got) {
        keep(client, message + sent, (size_t)(got - sent));
        watch(EPOLL_CTL_MOD, client, EPOLLOUT);
    }
}

static void send_kept(int client)
{
    struct kept *rest = &kept[client];
    ssize_t sent = send_some(client, rest->bytes, rest->left);
    if (sent < 0) {
        close_client(client);
    } else if ((size_t)sent < rest->left) {
        rest->left -= (size_t)sent;
        memmove(rest->bytes, rest->bytes + sent, rest->left);
    } else {
        rest->left = 0;
        watch(EPOLL_CTL_MOD, client, EPOLLIN);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "%s PORT\n", argv[0]);
        return 2;
    }
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("getrlimit");
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        die("epoll_create1");
    kept = calloc(descriptors.rlim_cur, sizeof *kept);
    if (!kept)
        die("calloc");
    on_end(end_at_once);
    int listener = listen_on((unsigned short)number(argv[1], 65535), false);
    watch(EPOLL_CTL_ADD, listener, EPOLLIN);
    announce(listener);
    for (;;) {
        static struct epoll_event events[BATCH];
        int count = epoll_wait(epoll, events, BATCH, -1);
        for (int i = 0; i < count; i++) {
            int ready = events[i].data.fd;
            if (ready == listener)
                watch(EPOLL_CTL_ADD, accept_client(listener), EPOLLIN);
            else if (kept[ready].left > 0)
                send_kept(ready);
            else
                echo(ready);
        }
    }
}
