/* The least a server for groups can do: one loop, a large batch, every member's output joined and sent once a turn.
 *
 * It is what threadgauge's `groups` is held against. Of core NATS it speaks what a benchmark needs: INFO, CONNECT
 * (whose options it takes no notice of: it never echoes), SUB without queue groups, PUB, MSG, PING, PONG. No wildcards,
 * no limits, no time-outs, no slow consumers; whatever else a client says ends its connection.
 *
 *   groups_floor SENDS PORT    SENDS is `uring`, all sends of a turn in one submission, or `calls`, one call each.
 *                              On 127.0.0.1; port 0 takes a free one. Says `listening on 127.0.0.1:PORT`, serves until
 *                              SIGTERM or SIGINT and exits with 0.
 */

#include "server.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum {
    BATCH = 1024,
    MOST_AT_ONCE = 256 * 1024,
    MOST_SUBJECT = 64,
    MOST_SID = 16,
    MOST_LINE = 4096,
    MOST_PAYLOAD = 1 << 20,
    SUBSCRIPTIONS = 4,
    GROUPS = 1 << 16,
    ENTRIES = 1024
};

static const char INFO[] = "INFO {\"server_id\":\"floor\",\"version\":\"2.0.0\",\"proto\":1,\"headers\":false,"
                           "\"max_payload\":1048576}\r\n";

struct bytes {
    char *at;
    size_t held, room;
};

/* By descriptor. */
struct client {
    bool open, dirty, waits_to_send;
    /* How many groups it is in, and which. */
    int subscriptions;
    uint32_t groups[SUBSCRIPTIONS];
    /* Received and not whole; to be sent. */
    struct bytes in, out;
};

struct member {
    int client;
    uint8_t sid_length;
    char sid[MOST_SID];
};

/* By place in an open hash table; free while it has no subject. */
struct group {
    uint8_t subject_length;
    char subject[MOST_SUBJECT];
    size_t count, room;
    struct member *members;
};

static int epoll;
static struct client *clients;
static struct group *groups;
/* Those with output, in the order in which they got it. */
static int *dirty;
static size_t dirty_count;

/* ---- bytes ---- */

static char *room_for(struct bytes *bytes, size_t more)
{
    if (bytes->held + more > bytes->room) {
        bytes->room = 2 * (bytes->held + more);
        bytes->at = realloc(bytes->at, bytes->room);
        if (!bytes->at)
            die("realloc");
    }
    return bytes->at + bytes->held;
}

static void append(struct bytes *bytes, const char *more, size_t size)
{
    memcpy(room_for(bytes, size), more, size);
    bytes->held += size;
}

static void drop_front(struct bytes *bytes, size_t size)
{
    bytes->held -= size;
    memmove(bytes->at, bytes->at + size, bytes->held);
}

/* ---- clients ---- */

static void watch(int operation, int client, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = client};
    if (epoll_ctl(epoll, operation, client, &event) < 0)
        die("epoll_ctl");
}

static struct bytes *output_of(int client)
{
    if (!clients[client].dirty) {
        clients[client].dirty = true;
        dirty[dirty_count++] = client;
    }
    return &clients[client].out;
}

static void close_client(int client)
{
    struct client *of = &clients[client];
    for (int i = 0; i < of->subscriptions; i++) {
        struct group *group = &groups[of->groups[i]];
        for (size_t j = 0; j < group->count; j++)
            if (group->members[j].client == client)
                group->members[j--] = group->members[--group->count];
    }
    free(of->in.at);
    free(of->out.at);
    /* It stays among the dirty, if it is there, until the end of the turn, and its number is not taken before that. */
    *of = (struct client){.dirty = of->dirty};
    epoll_ctl(epoll, EPOLL_CTL_DEL, client, NULL);
    if (!of->dirty)
        close(client);
}

static void accept_all(int listener)
{
    int client;
    while ((client = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        clients[client] = (struct client){.open = true};
        watch(EPOLL_CTL_ADD, client, EPOLLIN | EPOLLET);
        append(output_of(client), INFO, sizeof INFO - 1);
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        die("accept");
}

/* ---- groups ---- */

static struct group *group_of(const char *subject, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)subject[i]) * 16777619u;
    for (size_t tries = 0; tries < GROUPS; tries++, hash++) {
        struct group *group = &groups[hash % GROUPS];
        if (group->subject_length == 0) {
            group->subject_length = (uint8_t)length;
            memcpy(group->subject, subject, length);
        }
        if (group->subject_length == length && memcmp(group->subject, subject, length) == 0)
            return group;
    }
    errno = ENOMEM;
    die("groups");
}

static void join(int client, struct group *group, const char *sid, size_t length)
{
    if (group->count == group->room) {
        group->room = 2 * group->room + 10;
        group->members = realloc(group->members, group->room * sizeof *group->members);
        if (!group->members)
            die("realloc");
    }
    struct member *member = &group->members[group->count++];
    *member = (struct member){.client = client, .sid_length = (uint8_t)length};
    memcpy(member->sid, sid, length);
    clients[client].groups[clients[client].subscriptions++] = (uint32_t)(group - groups);
}

static char *paste(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
    return to + size;
}

/* `size` is the last word of the line that published it; `payload` has its CRLF. */
static void deliver(int from, const struct group *group, const char *size, size_t digits, const char *payload,
                    size_t length)
{
    size_t most = 4 + MOST_SUBJECT + 1 + MOST_SID + 1 + digits + 2 + length;
    for (size_t i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        if (member->client == from)
            continue;
        struct bytes *out = output_of(member->client);
        char *to = room_for(out, most);
        to = paste(to, "MSG ", 4);
        to = paste(to, group->subject, group->subject_length);
        *to++ = ' ';
        to = paste(to, member->sid, member->sid_length);
        *to++ = ' ';
        to = paste(to, size, digits);
        to = paste(to, "\r\n", 2);
        to = paste(to, payload, length);
        out->held = (size_t)(to - out->at);
    }
}

/* ---- the protocol ---- */

struct word {
    const char *at;
    size_t length;
};

/* Up to `most` words of a line. */
static int words_of(const char *line, const char *end, struct word *words, int most)
{
    int count = 0;
    while (line < end) {
        const char *space = memchr(line, ' ', (size_t)(end - line));
        const char *stop = space ? space : end;
        if (stop > line) {
            if (count == most)
                return -1;
            words[count++] = (struct word){line, (size_t)(stop - line)};
        }
        line = stop + 1;
    }
    return count;
}

static long size_of(struct word word)
{
    long size = 0;
    for (size_t i = 0; i < word.length; i++) {
        if (word.at[i] < '0' || word.at[i] > '9' || size > MOST_PAYLOAD)
            return -1;
        size = 10 * size + (word.at[i] - '0');
    }
    return word.length > 0 && size <= MOST_PAYLOAD ? size : -1;
}

/* How many bytes of the input one message took; 0: it is not whole; -1: it is none. */
static ssize_t take_message(int client, const char *input, size_t held)
{
    const char *newline = memchr(input, '\n', held);
    if (!newline)
        return held > MOST_LINE ? -1 : 0;
    size_t line = (size_t)(newline + 1 - input);
    if (line < 3 || newline[-1] != '\r')
        return -1;
    const char *end = newline - 1;
    struct word words[3];
    if (memcmp(input, "PUB ", 4) == 0) {
        int count = words_of(input + 4, end, words, 3);
        if (count < 2 || words[0].length > MOST_SUBJECT)
            return -1;
        struct word digits = words[count - 1];
        long size = size_of(digits);
        if (size < 0)
            return -1;
        if (held < line + (size_t)size + 2)
            return 0;
        deliver(client, group_of(words[0].at, words[0].length), digits.at, digits.length, newline + 1,
                (size_t)size + 2);
        return (ssize_t)(line + (size_t)size + 2);
    }
    if (memcmp(input, "SUB ", 4) == 0) {
        if (words_of(input + 4, end, words, 3) != 2 || words[0].length > MOST_SUBJECT ||
            words[1].length > MOST_SID || clients[client].subscriptions == SUBSCRIPTIONS)
            return -1;
        join(client, group_of(words[0].at, words[0].length), words[1].at, words[1].length);
        return (ssize_t)line;
    }
    if (line == 6 && memcmp(input, "PING", 4) == 0) {
        append(output_of(client), "PONG\r\n", 6);
        return (ssize_t)line;
    }
    if ((line == 6 && memcmp(input, "PONG", 4) == 0) || (line > 8 && memcmp(input, "CONNECT ", 8) == 0))
        return (ssize_t)line;
    return -1;
}

/* Takes all whole messages: how many bytes they are, or -1. */
static ssize_t take_all(int client, const char *input, size_t held)
{
    size_t used = 0;
    ssize_t took;
    while (used < held && (took = take_message(client, input + used, held - used)) != 0) {
        if (took < 0)
            return -1;
        used += (size_t)took;
    }
    return (ssize_t)used;
}

static void receive_all(int client)
{
    static char input[MOST_AT_ONCE];
    struct client *of = &clients[client];
    for (;;) {
        ssize_t got = recv(client, input, sizeof input, 0);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got < 0 && errno == EINTR)
            continue;
        ssize_t used = -1;
        if (got > 0 && of->in.held == 0) {
            used = take_all(client, input, (size_t)got);
            if (used >= 0 && used < got)
                append(&of->in, input + used, (size_t)(got - used));
        } else if (got > 0) {
            append(&of->in, input, (size_t)got);
            used = take_all(client, of->in.at, of->in.held);
            if (used > 0)
                drop_front(&of->in, (size_t)used);
        }
        if (used < 0) {
            close_client(client);
            return;
        }
        /* Less than there was room for: the socket is empty, and the next edge tells of more. */
        if ((size_t)got < sizeof input)
            return;
    }
}

/* ---- sending ---- */

enum { SEND_FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL };

/* `result` is what a send came to: bytes, or an error as a negative number. */
static void sent(int client, ssize_t result)
{
    struct client *of = &clients[client];
    of->dirty = false;
    if (!of->open) {
        close(client);
        return;
    }
    if (result < 0 && result != -EAGAIN && result != -EINTR) {
        close_client(client);
        return;
    }
    drop_front(&of->out, result > 0 ? (size_t)result : 0);
    bool waits = of->out.held > 0;
    if (waits != of->waits_to_send) {
        of->waits_to_send = waits;
        watch(EPOLL_CTL_MOD, client, EPOLLIN | EPOLLET | (waits ? EPOLLOUT : 0));
    }
}

static void send_by_calls(void)
{
    for (size_t i = 0; i < dirty_count; i++) {
        int client = dirty[i];
        struct bytes *out = &clients[client].out;
        ssize_t result = clients[client].open ? send(client, out->at, out->held, SEND_FLAGS) : 0;
        sent(client, result < 0 ? -errno : result);
    }
}

static struct {
    int descriptor;
    unsigned *sq_tail, sq_mask, *cq_head, *cq_tail, cq_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *results;
} ring;

static void set_up_ring(void)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    ring.descriptor = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (ring.descriptor < 0)
        die("io_uring_setup");
    if (!(params.features & IORING_FEAT_SINGLE_MMAP)) {
        errno = ENOSYS;
        die("io_uring");
    }
    size_t queue = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t results = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    char *rings = mmap(NULL, queue > results ? queue : results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                       ring.descriptor, IORING_OFF_SQ_RING);
    ring.entries = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_POPULATE, ring.descriptor, IORING_OFF_SQES);
    if (rings == MAP_FAILED || ring.entries == MAP_FAILED)
        die("mmap");
    ring.sq_tail = (unsigned *)(rings + params.sq_off.tail);
    ring.sq_mask = *(unsigned *)(rings + params.sq_off.ring_mask);
    ring.cq_head = (unsigned *)(rings + params.cq_off.head);
    ring.cq_tail = (unsigned *)(rings + params.cq_off.tail);
    ring.cq_mask = *(unsigned *)(rings + params.cq_off.ring_mask);
    ring.results = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
    /* Entry i of the queue is always entry i of the array. */
    unsigned *array = (unsigned *)(rings + params.sq_off.array);
    for (unsigned i = 0; i < params.sq_entries; i++)
        array[i] = i;
}

/* Of these; none is left with the kernel afterwards, since a send that would wait fails instead. */
static void submit(const int *who, size_t count)
{
    unsigned tail = *ring.sq_tail;
    for (size_t i = 0; i < count; i++, tail++) {
        const struct bytes *out = &clients[who[i]].out;
        ring.entries[tail & ring.sq_mask] = (struct io_uring_sqe){.opcode = IORING_OP_SEND,
                                                                  .fd = who[i],
                                                                  .addr = (uintptr_t)out->at,
                                                                  .len = (uint32_t)out->held,
                                                                  .msg_flags = SEND_FLAGS,
                                                                  .user_data = (uint64_t)who[i]};
    }
    __atomic_store_n(ring.sq_tail, tail, __ATOMIC_RELEASE);
    size_t unsubmitted = count, missing = count;
    while (missing > 0) {
        long took = syscall(SYS_io_uring_enter, ring.descriptor, (unsigned)unsubmitted, (unsigned)missing,
                            IORING_ENTER_GETEVENTS, NULL, 0);
        if (took < 0 && errno != EINTR)
            die("io_uring_enter");
        unsubmitted -= took > 0 ? (size_t)took : 0;
        unsigned head = *ring.cq_head, last = __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE);
        for (; head != last; head++, missing--) {
            const struct io_uring_cqe *result = &ring.results[head & ring.cq_mask];
            sent((int)result->user_data, result->res);
        }
        __atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
    }
}

static void send_by_ring(void)
{
    static int batch[ENTRIES];
    size_t count = 0;
    for (size_t i = 0; i < dirty_count; i++) {
        if (clients[dirty[i]].open)
            batch[count++] = dirty[i];
        else
            sent(dirty[i], 0);
        if (count == ENTRIES || (i + 1 == dirty_count && count > 0)) {
            submit(batch, count);
            count = 0;
        }
    }
}

int main(int argc, char **argv)
{
    bool by_ring = argc == 3 && strcmp(argv[1], "uring") == 0;
    if (argc != 3 || (!by_ring && strcmp(argv[1], "calls") != 0)) {
        fprintf(stderr, "%s uring|calls PORT\n", argv[0]);
        return 2;
    }
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("getrlimit");
    descriptors.rlim_cur = descriptors.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("setrlimit");
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        die("epoll_create1");
    clients = calloc(descriptors.rlim_cur, sizeof *clients);
    dirty = calloc(descriptors.rlim_cur, sizeof *dirty);
    groups = calloc(GROUPS, sizeof *groups);
    if (!clients || !dirty || !groups)
        die("calloc");
    if (by_ring)
        set_up_ring();
    on_end(end_at_once);
    int listener = listen_on((unsigned short)number(argv[2], 65535), false);
    if (fcntl(listener, F_SETFL, O_NONBLOCK) < 0)
        die("fcntl");
    send_at_once(listener);
    watch(EPOLL_CTL_ADD, listener, EPOLLIN);
    announce(listener);
    for (;;) {
        static struct epoll_event events[BATCH];
        int count = epoll_wait(epoll, events, BATCH, -1);
        for (int i = 0; i < count; i++) {
            int ready = events[i].data.fd;
            if (ready == listener) {
                accept_all(listener);
                continue;
            }
            /* Closed earlier in this turn. */
            if (!clients[ready].open)
                continue;
            if (events[i].events & EPOLLOUT)
                output_of(ready);
            if (events[i].events & ~(uint32_t)EPOLLOUT)
                receive_all(ready);
        }
        (by_ring ? send_by_ring : send_by_calls)();
        dirty_count = 0;
    }
}
