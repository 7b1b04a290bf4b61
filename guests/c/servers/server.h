/* What the twins share: the protocol `bytes`, the listening socket, a bounded queue, the command line.
 *
 * A twin is a server design as a plain C program would have it: what threadgauge's own server of the same design is
 * held against. It does what the design needs and no more, so it has no time-outs and no counters.
 *
 * The protocol is that of Stevens' server: a line with a number from 1 to 16,384 is answered with that many bytes, and
 * the connection is closed. ` keep` after the number leaves it open for the next line. Any other line closes it at
 * once.
 *
 *   PROGRAM DESIGN PORT [UNITS]    on 127.0.0.1; port 0 takes a free one. Says `listening on 127.0.0.1:PORT`, serves
 *                                  until SIGTERM or SIGINT, ends what it started, waits for it and exits with 0.
 */

#ifndef SERVER_H
#define SERVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_BYTES = 16384, LONGEST_LINE = 32, BACKLOG = 4096, MOST_UNITS = 1024 };

__attribute__((noreturn)) static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- the protocol ---- */

struct request {
    size_t bytes;
    bool keep;
};

/* What was received and not yet used. */
struct input {
    size_t held;
    char bytes[LONGEST_LINE];
};

/* The next request that is whole. 1: there it is; 0: its line has not ended yet; -1: this is no request. */
static inline int take_request(struct input *input, struct request *request)
{
    static const char keep[] = " keep";
    char *newline = memchr(input->bytes, '\n', input->held);
    if (!newline)
        return input->held == sizeof input->bytes ? -1 : 0;
    char *at = input->bytes, *end = newline > at && newline[-1] == '\r' ? newline - 1 : newline;
    size_t bytes = 0;
    for (; *at >= '0' && *at <= '9' && bytes <= MOST_BYTES; at++)
        bytes = 10 * bytes + (size_t)(*at - '0');
    if (bytes == 0 || bytes > MOST_BYTES)
        return -1;
    request->keep = end - at == sizeof keep - 1 && memcmp(at, keep, sizeof keep - 1) == 0;
    if (at != end && !request->keep)
        return -1;
    request->bytes = bytes;
    input->held -= (size_t)(newline + 1 - input->bytes);
    memmove(input->bytes, newline + 1, input->held);
    return 1;
}

/* Receives once. 1: something came; 0: nothing yet (only with MSG_DONTWAIT); -1: the connection is over. */
static inline int receive(int client, struct input *input, int flags)
{
    for (;;) {
        ssize_t got = recv(client, input->bytes + input->held, sizeof input->bytes - input->held, flags);
        if (got > 0) {
            input->held += (size_t)got;
            return 1;
        }
        if (got < 0 && errno == EINTR)
            continue;
        return got < 0 && errno == EAGAIN ? 0 : -1;
    }
}

/* Sends what is `left` of an answer. 1: all of it; 0: the socket is full (only with MSG_DONTWAIT); -1: it is over. */
static inline int send_answer(int client, size_t *left, int flags)
{
    static const char answer[MOST_BYTES];
    while (*left > 0) {
        ssize_t sent = send(client, answer, *left, flags | MSG_NOSIGNAL);
        if (sent >= 0)
            *left -= (size_t)sent;
        else if (errno == EAGAIN)
            return 0;
        else if (errno != EINTR)
            return -1;
    }
    return 1;
}

/* Serves one client to its end, waiting whenever there is nothing to do, and closes the connection. */
static inline void serve(int client)
{
    struct input input = {.held = 0};
    struct request request = {.keep = true};
    while (request.keep) {
        int whole;
        while ((whole = take_request(&input, &request)) == 0 && receive(client, &input, 0) > 0) {
        }
        if (whole <= 0 || send_answer(client, &request.bytes, 0) < 0)
            break;
    }
    close(client);
}

/* ---- sockets ---- */

/* A listening socket on the loopback address; with `shared`, one of several on the same port. */
static inline int listen_on(unsigned short port, bool shared)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (listener < 0)
        die("socket");
    struct sockaddr_in here = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0 ||
        (shared && setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) < 0))
        die("setsockopt");
    if (bind(listener, (struct sockaddr *)&here, sizeof here) < 0)
        die("bind");
    if (listen(listener, BACKLOG) < 0)
        die("listen");
    return listener;
}

/* What is sent goes out at once; what a listener accepts has it from there. */
static inline void send_at_once(int socket)
{
    int yes = 1;
    if (setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) < 0)
        die("setsockopt");
}

static inline unsigned short port_of(int listener)
{
    struct sockaddr_in here;
    socklen_t size = sizeof here;
    if (getsockname(listener, (struct sockaddr *)&here, &size) < 0)
        die("getsockname");
    return ntohs(here.sin_port);
}

static inline void announce(int listener)
{
    if (dprintf(STDOUT_FILENO, "listening on 127.0.0.1:%u\n", port_of(listener)) < 0)
        die("standard output");
}

/* The next client; -1 once the listening socket was shut down. */
static inline int accept_client(int listener)
{
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            return client;
        if (errno == EINVAL)
            return -1;
        if (errno != EINTR && errno != ECONNABORTED)
            die("accept");
    }
}

/* ---- the end ---- */

static inline void on_end(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    if (sigaction(SIGTERM, &action, NULL) < 0 || sigaction(SIGINT, &action, NULL) < 0)
        die("sigaction");
}

/* For a single process: the kernel ends its threads and closes its sockets. */
static inline void end_at_once(int signal)
{
    (void)signal;
    _exit(0);
}

/* ---- a bounded queue between threads ---- */

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t filled, drained;
    size_t first, held;
    void *items[MOST_UNITS];
};

#define EMPTY_QUEUE                                                                                                    \
    {.mutex = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .drained = PTHREAD_COND_INITIALIZER}

static inline void put(struct queue *queue, void *item)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->held == MOST_UNITS)
        pthread_cond_wait(&queue->drained, &queue->mutex);
    queue->items[(queue->first + queue->held++) % MOST_UNITS] = item;
    pthread_mutex_unlock(&queue->mutex);
    pthread_cond_signal(&queue->filled);
}

static inline void *take(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->held == 0)
        pthread_cond_wait(&queue->filled, &queue->mutex);
    void *item = queue->items[queue->first];
    queue->first = (queue->first + 1) % MOST_UNITS;
    bool was_full = queue->held-- == MOST_UNITS;
    pthread_mutex_unlock(&queue->mutex);
    if (was_full)
        pthread_cond_broadcast(&queue->drained);
    return item;
}

static inline void start_thread(void *(*body)(void *), void *with)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, with);
    if (error) {
        errno = error;
        die("pthread_create");
    }
    pthread_detach(thread);
}

/* ---- the command line ---- */

/* How many of a design's units there are: processes, threads or loops; of a pool of reactors, readers and writers. */
struct units {
    int count, writers;
};

struct design {
    const char *name;
    enum { NO_UNITS, UNITS, READERS_AND_WRITERS } takes;
    void (*run)(unsigned short port, struct units units);
};

static inline int number(const char *text, int most)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 0 || value > most) {
        fprintf(stderr, "%s is not a number from 0 to %d\n", text, most);
        exit(2);
    }
    return (int)value;
}

/* `main` of a program of designs. A design's `run` comes back once it has ended all that it started. */
static inline int run_design(const struct design *designs, size_t count, int argc, char **argv)
{
    for (size_t i = 0; argc >= 3 && i < count; i++) {
        const struct design *design = &designs[i];
        int wanted = design->takes == NO_UNITS ? 3 : design->takes == UNITS ? 4 : 5;
        if (strcmp(argv[1], design->name) != 0 || argc != wanted)
            continue;
        struct units units = {.count = argc > 3 ? number(argv[3], MOST_UNITS) : 1,
                              .writers = argc > 4 ? number(argv[4], MOST_UNITS) : 1};
        if (units.count < 1 || units.writers < 1)
            break;
        design->run((unsigned short)number(argv[2], 65535), units);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s %s PORT%s\n", argv[0], designs[i].name,
                designs[i].takes == NO_UNITS ? "" : designs[i].takes == UNITS ? " UNITS" : " READERS WRITERS");
    return 2;
}

#endif
