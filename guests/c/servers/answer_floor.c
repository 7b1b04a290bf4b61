/* The least a server on epoll that answers can do: one loop, a large batch, a recv and a send for all that has come.
 *
 * It is what threadgauge's `echo` and `http` are held against. What a peer is too slow to take is kept and the
 * connection is not read until it is gone; nothing else is looked after.
 *
 *   answer_floor PORT                  sends back what comes
 *   answer_floor PORT BYTES            answers each head of a request of HTTP with the same page of so many bytes
 *   answer_floor PORT BYTES close      and closes the connection after the first
 *
 * On 127.0.0.1; port 0 takes a free one. Says `listening on 127.0.0.1:PORT`, serves until SIGTERM or SIGINT and exits
 * with 0.
 */

#include "server.h"

#include <sys/epoll.h>
#include <sys/resource.h>

enum { BATCH = 1024, MOST_AT_ONCE = 65536, MOST_PIPELINED = 64 };

/* By descriptor: what its peer has still to take, and how much of the end of a head has come. */
struct peer {
    char *bytes;
    size_t left;
    unsigned matched;
};

static int epoll;
static struct peer *peers;
/* MOST_PIPELINED answers of HTTP, one behind the other; none: what comes is sent back. */
static char *answers;
static size_t answer_size;
static bool close_after;

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
    free(peers[client].bytes);
    peers[client] = (struct peer){NULL, 0, 0};
    close(client);
}

static void keep(int client, const char *bytes, size_t size)
{
    char *copy = malloc(size);
    if (!copy)
        die("malloc");
    memcpy(copy, bytes, size);
    free(peers[client].bytes);
    peers[client].bytes = copy;
    peers[client].left = size;
}

/* How many heads end in these bytes; the next may end in those that come later. */
static size_t heads(unsigned *matched, const char *bytes, size_t size)
{
    static const char end[] = "\r\n\r\n";
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == end[*matched])
            ++*matched;
        else
            *matched = bytes[i] == end[0];
        if (*matched == sizeof end - 1) {
            *matched = 0;
            count++;
        }
    }
    return count;
}

static void respond(int client)
{
    static char message[MOST_AT_ONCE];
    ssize_t got = recv(client, message, sizeof message, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close_client(client);
        return;
    }
    const char *answer = message;
    size_t size = (size_t)got;
    if (answers) {
        size_t count = heads(&peers[client].matched, message, size);
        if (count > MOST_PIPELINED) {
            close_client(client);
            return;
        }
        answer = answers;
        size = count * answer_size;
    }
    ssize_t sent = size > 0 ? send_some(client, answer, size) : 0;
    if (sent < 0) {
        close_client(client);
    } else if ((size_t)sent < size) {
        keep(client, answer + sent, size - (size_t)sent);
        watch(EPOLL_CTL_MOD, client, EPOLLOUT);
    } else if (close_after && size > 0) {
        close_client(client);
    }
}

static void send_kept(int client)
{
    struct peer *rest = &peers[client];
    ssize_t sent = send_some(client, rest->bytes, rest->left);
    if (sent < 0) {
        close_client(client);
    } else if ((size_t)sent < rest->left) {
        rest->left -= (size_t)sent;
        memmove(rest->bytes, rest->bytes + sent, rest->left);
    } else {
        rest->left = 0;
        if (close_after)
            close_client(client);
        else
            watch(EPOLL_CTL_MOD, client, EPOLLIN);
    }
}

/* With the headers of threadgauge's. */
static void make_answers(size_t bytes)
{
    char head[256];
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
                          "Content-Type: text/plain; charset=utf-8\r\n%sContent-Length: %zu\r\n\r\n",
                          close_after ? "Connection: close\r\n" : "", bytes);
    answer_size = (size_t)length + bytes;
    answers = malloc(MOST_PIPELINED * answer_size);
    if (!answers)
        die("malloc");
    for (size_t i = 0; i < MOST_PIPELINED; i++) {
        char *answer = answers + i * answer_size;
        memcpy(answer, head, (size_t)length);
        for (size_t at = 0; at < bytes; at++)
            answer[(size_t)length + at] = (char)('a' + at % 26);
    }
}

int main(int argc, char **argv)
{
    close_after = argc == 4 && strcmp(argv[3], "close") == 0;
    if (argc < 2 || argc > 4 || (argc == 4 && !close_after)) {
        fprintf(stderr, "%s PORT [BYTES [close]]\n", argv[0]);
        return 2;
    }
    if (argc > 2)
        make_answers((size_t)number(argv[2], MOST_BYTES));
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("getrlimit");
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        die("epoll_create1");
    peers = calloc(descriptors.rlim_cur, sizeof *peers);
    if (!peers)
        die("calloc");
    on_end(end_at_once);
    int listener = listen_on((unsigned short)number(argv[1], 65535), false);
    send_at_once(listener);
    watch(EPOLL_CTL_ADD, listener, EPOLLIN);
    announce(listener);
    for (;;) {
        static struct epoll_event events[BATCH];
        int count = epoll_wait(epoll, events, BATCH, -1);
        for (int i = 0; i < count; i++) {
            int ready = events[i].data.fd;
            if (ready == listener)
                watch(EPOLL_CTL_ADD, accept_client(listener), EPOLLIN);
            else if (peers[ready].left > 0)
                send_kept(ready);
            else
                respond(ready);
        }
    }
}
