/* Designs around event loops: reactor, split-reactor, reactor-pool, reactor-per-core, leader-followers and
 * half-sync-half-async.
 *
 * Sockets stay in blocking mode: each call says with MSG_DONTWAIT whether it may wait. Where several threads could meet
 * on a connection its interest is EPOLLONESHOT, so it belongs to the one thread that got its event, which ends by
 * giving it to the next: epoll is the only hand-over there is.
 *
 *   reactors reactor PORT
 *   reactors reactor-pool PORT 1 3
 *   reactors leader-followers PORT 15
 */

#include "server.h"

#include <sched.h>
#include <sys/epoll.h>

enum { BATCH = 512 };

struct connection {
    int client;
    bool keep, waits_to_send, known_to_writer;
    size_t left;
    struct input input;
};

enum wants { TO_RECEIVE, TO_SEND, TO_CLOSE };

static struct connection *connect_client(int client)
{
    struct connection *c = malloc(sizeof *c);
    if (!c)
        die("malloc");
    *c = (struct connection){.client = client, .keep = true};
    return c;
}

static void close_connection(struct connection *c)
{
    close(c->client);
    free(c);
}

/* Whether there is an answer to send: what is left of one, or a request that was received whole. */
static enum wants next_answer(struct connection *c)
{
    if (c->left > 0)
        return TO_SEND;
    struct request request;
    int whole = c->keep ? take_request(&c->input, &request) : -1;
    if (whole <= 0)
        return whole == 0 ? TO_RECEIVE : TO_CLOSE;
    c->left = request.bytes;
    c->keep = request.keep;
    return TO_SEND;
}

/* Answers everything that was received whole. */
static enum wants answer(struct connection *c, int flags)
{
    enum wants wants;
    while ((wants = next_answer(c)) == TO_SEND) {
        int sent = send_answer(c->client, &c->left, flags);
        if (sent <= 0)
            return sent == 0 ? TO_SEND : TO_CLOSE;
    }
    return wants;
}

static int new_epoll(void)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        die("epoll_create1");
    return epoll;
}

/* The listening socket is the one that is watched without a connection. */
static void watch(int epoll, int operation, int descriptor, struct connection *c, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(epoll, operation, descriptor, &event) < 0)
        die("epoll_ctl");
}

static int wait_for_events(int epoll, struct epoll_event *events, int most)
{
    int count = epoll_wait(epoll, events, most, -1);
    if (count < 0 && errno != EINTR)
        die("epoll_wait");
    return count;
}

/* ---- one loop, alone or one for each CPU ---- */

static void react(int epoll, struct connection *c)
{
    if (!c->waits_to_send && receive(c->client, &c->input, MSG_DONTWAIT) < 0) {
        close_connection(c);
        return;
    }
    enum wants wants = answer(c, MSG_DONTWAIT);
    if (wants == TO_CLOSE) {
        close_connection(c);
    } else if (c->waits_to_send != (wants == TO_SEND)) {
        c->waits_to_send = wants == TO_SEND;
        watch(epoll, EPOLL_CTL_MOD, c->client, c, c->waits_to_send ? EPOLLOUT : EPOLLIN);
    }
}

__attribute__((noreturn)) static void loop(int listener)
{
    int epoll = new_epoll();
    struct epoll_event events[BATCH];
    watch(epoll, EPOLL_CTL_ADD, listener, NULL, EPOLLIN);
    for (;;) {
        int count = wait_for_events(epoll, events, BATCH);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr) {
                react(epoll, events[i].data.ptr);
            } else {
                int client = accept_client(listener);
                watch(epoll, EPOLL_CTL_ADD, client, connect_client(client), EPOLLIN);
            }
        }
    }
}

static void reactor(unsigned short port, struct units units)
{
    (void)units;
    int listener = listen_on(port, false);
    announce(listener);
    loop(listener);
}

static void *loop_on_core(void *listener)
{
    loop(*(int *)listener);
}

/* As many loops as there are CPUs that the process may use. Which of them runs where is left to the kernel. */
static void reactor_per_core(unsigned short port, struct units units)
{
    (void)units;
    static int listeners[CPU_SETSIZE];
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        die("sched_getaffinity");
    int count = CPU_COUNT(&allowed);
    for (int i = 0; i < count; i++)
        listeners[i] = listen_on(i == 0 ? port : port_of(listeners[0]), true);
    announce(listeners[0]);
    for (int i = 1; i < count; i++)
        start_thread(loop_on_core, &listeners[i]);
    loop_on_core(&listeners[0]);
}

/* ---- reading and writing on different loops ---- */

static struct {
    int listener, readers, writers;
    int reader[MOST_UNITS], writer[MOST_UNITS];
} pool;

/* By handle: the same client is always read here and written there. */
static int reader_of(const struct connection *c)
{
    return pool.reader[c->client % pool.readers];
}

static int writer_of(const struct connection *c)
{
    return pool.writer[c->client % pool.writers];
}

static void read_request(struct connection *c)
{
    if (receive(c->client, &c->input, MSG_DONTWAIT) < 0) {
        close_connection(c);
        return;
    }
    switch (next_answer(c)) {
    case TO_RECEIVE:
        watch(reader_of(c), EPOLL_CTL_MOD, c->client, c, EPOLLIN | EPOLLONESHOT);
        break;
    case TO_SEND: {
        int operation = c->known_to_writer ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
        c->known_to_writer = true;
        watch(writer_of(c), operation, c->client, c, EPOLLOUT | EPOLLONESHOT);
        break;
    }
    case TO_CLOSE:
        close_connection(c);
    }
}

static void *read_loop(void *epoll)
{
    struct epoll_event events[BATCH];
    for (;;) {
        int count = wait_for_events(*(int *)epoll, events, BATCH);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr) {
                read_request(events[i].data.ptr);
            } else {
                struct connection *c = connect_client(accept_client(pool.listener));
                watch(reader_of(c), EPOLL_CTL_ADD, c->client, c, EPOLLIN | EPOLLONESHOT);
            }
        }
    }
    return NULL;
}

/* What came in behind a request is answered here too: the connection is this thread's until it wants to receive. */
static void *write_loop(void *epoll)
{
    struct epoll_event events[BATCH];
    for (;;) {
        int count = wait_for_events(*(int *)epoll, events, BATCH);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            switch (answer(c, MSG_DONTWAIT)) {
            case TO_RECEIVE:
                watch(reader_of(c), EPOLL_CTL_MOD, c->client, c, EPOLLIN | EPOLLONESHOT);
                break;
            case TO_SEND:
                watch(*(int *)epoll, EPOLL_CTL_MOD, c->client, c, EPOLLOUT | EPOLLONESHOT);
                break;
            case TO_CLOSE:
                close_connection(c);
            }
        }
    }
    return NULL;
}

static void reactor_pool(unsigned short port, struct units units)
{
    pool.listener = listen_on(port, false);
    pool.readers = units.count;
    pool.writers = units.writers;
    announce(pool.listener);
    for (int i = 0; i < pool.readers; i++)
        pool.reader[i] = new_epoll();
    for (int i = 0; i < pool.writers; i++) {
        pool.writer[i] = new_epoll();
        start_thread(write_loop, &pool.writer[i]);
    }
    watch(pool.reader[0], EPOLL_CTL_ADD, pool.listener, NULL, EPOLLIN);
    for (int i = 1; i < pool.readers; i++)
        start_thread(read_loop, &pool.reader[i]);
    read_loop(&pool.reader[0]);
}

static void split_reactor(unsigned short port, struct units units)
{
    (void)units;
    reactor_pool(port, (struct units){.count = 1, .writers = 1});
}

/* ---- leader and followers: whoever waits for the next event has the lead, and gives it up to handle what came ---- */

static struct {
    int listener, epoll;
} shared;

static void wait_again(struct connection *c, enum wants wants)
{
    if (wants == TO_CLOSE) {
        close_connection(c);
        return;
    }
    c->waits_to_send = wants == TO_SEND;
    watch(shared.epoll, EPOLL_CTL_MOD, c->client, c, EPOLLONESHOT | (c->waits_to_send ? EPOLLOUT : EPOLLIN));
}

static void share(unsigned short port)
{
    shared.listener = listen_on(port, false);
    shared.epoll = new_epoll();
    announce(shared.listener);
    watch(shared.epoll, EPOLL_CTL_ADD, shared.listener, NULL, EPOLLIN);
}

static void accept_one(void)
{
    int client = accept_client(shared.listener);
    watch(shared.epoll, EPOLL_CTL_ADD, client, connect_client(client), EPOLLIN | EPOLLONESHOT);
}

/* The leader accepts without giving up the lead: a new client is no work, and the socket would only wake the next. */
static struct connection *lead(void)
{
    static pthread_mutex_t leadership = PTHREAD_MUTEX_INITIALIZER;
    struct connection *c = NULL;
    pthread_mutex_lock(&leadership);
    while (!c) {
        struct epoll_event event;
        if (wait_for_events(shared.epoll, &event, 1) < 1)
            continue;
        c = event.data.ptr;
        if (!c)
            accept_one();
    }
    pthread_mutex_unlock(&leadership);
    return c;
}

static void *follow_and_lead(void *nothing)
{
    for (;;) {
        struct connection *c = lead();
        if (!c->waits_to_send && receive(c->client, &c->input, MSG_DONTWAIT) < 0)
            close_connection(c);
        else
            wait_again(c, answer(c, MSG_DONTWAIT));
    }
    return nothing;
}

static void leader_followers(unsigned short port, struct units units)
{
    share(port);
    for (int i = 1; i < units.count; i++)
        start_thread(follow_and_lead, NULL);
    follow_and_lead(NULL);
}

/* ---- half synchronous, half asynchronous: a reactor receives, and threads that may wait answer ---- */

static struct queue requests = EMPTY_QUEUE;

static void *work(void *nothing)
{
    for (;;) {
        struct connection *c = take(&requests);
        wait_again(c, answer(c, 0));
    }
    return nothing;
}

static void queue_request(struct connection *c)
{
    if (receive(c->client, &c->input, MSG_DONTWAIT) < 0) {
        close_connection(c);
        return;
    }
    enum wants wants = next_answer(c);
    if (wants == TO_SEND)
        put(&requests, c);
    else
        wait_again(c, wants);
}

static void half_sync_half_async(unsigned short port, struct units units)
{
    share(port);
    for (int i = 0; i < units.count; i++)
        start_thread(work, NULL);
    for (;;) {
        struct epoll_event events[BATCH];
        int count = wait_for_events(shared.epoll, events, BATCH);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                queue_request(events[i].data.ptr);
            else
                accept_one();
        }
    }
}

int main(int argc, char **argv)
{
    static const struct design designs[] = {
        {"reactor", NO_UNITS, reactor},
        {"split-reactor", NO_UNITS, split_reactor},
        {"reactor-pool", READERS_AND_WRITERS, reactor_pool},
        {"reactor-per-core", NO_UNITS, reactor_per_core},
        {"leader-followers", UNITS, leader_followers},
        {"half-sync-half-async", UNITS, half_sync_half_async},
    };
    on_end(end_at_once);
    return run_design(designs, sizeof designs / sizeof *designs, argc, argv);
}
