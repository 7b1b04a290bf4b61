/* One server in three stages, each where the arrangement says: message I/O, decoding, logic. The experiment `stages`.
 *
 *   stages staged PORT BYTES SLOTS       I/O is a process; decoding and logic are threads of another
 *   stages threads PORT BYTES SLOTS      all three are threads of one process
 *   stages processes PORT BYTES SLOTS    each is a process of its own
 *
 * On 127.0.0.1; port 0 takes a free one. Says `listening on 127.0.0.1:PORT` and serves until SIGTERM or SIGINT.
 *
 * A message has BYTES bytes, numbers in network order: at 0 its length (4), at 4 its kind (4: 1 adds, 2 makes the logic
 * crash), at 8 an account (8), at 16 an amount (8), at 24 eight bytes of zero, then anything, and in the last four the
 * FNV-1a checksum of all before. Its answer is the same with kind 3 and, at 24, the account's sum. What cannot be
 * decoded is answered with kind 4.
 *
 * Work is the same in each arrangement, and so is the hand-over: a ring in memory with one writer and one reader, who
 * makes a system call only to sleep, and the writer only to wake who sleeps: after its batch, not after each message.
 * SLOTS is a power of two and bounds the messages under way: beyond it, sockets are not read.
 *
 * A stage that ends is started again: by the I/O process, or where all are threads of one process by its parent, which
 * has the listening socket too. Rings outlive a stage that is a process of its own; the message that it had in hand is
 * lost with it, as are its sums. A client that is too slow to take an answer is left.
 */

#include "server.h"

#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { EVENTS = 512, BATCH = 64, LEAST_BYTES = 64, MOST_MESSAGE_BYTES = 4096, MOST_SLOTS = 65536, ACCOUNTS = 65536 };
/* Decoding and logic each have a message in hand at most. */
enum { IN_HAND = 2 };
enum kind { ADD = 1, CRASH = 2, ANSWER = 3, REFUSAL = 4 };

static size_t message_bytes, slot_count, slot_bytes;

/* ---- rings ---- */

struct slot {
    int client;
    /* A descriptor is taken again for another client. */
    uint32_t generation;
    /* As decoding left it. */
    uint64_t account, amount;
    uint32_t kind;
    unsigned char message[];
};

struct ring {
    /* Of the writer: how many messages were put. Paired with the reader's load in `has_next`. */
    _Alignas(64) _Atomic uint64_t put;
    /* Of the reader: how many were taken. Paired with the writer's load in `under_way`. */
    _Alignas(64) _Atomic uint64_t taken;
    /* Whether the reader sleeps, or is about to and will look once more. */
    _Alignas(64) _Atomic uint32_t sleeps;
    /* What wakes the reader: an eventfd, or the futex that `sleeps` is. */
    int eventfd, futex_private;
    unsigned char *slots;
};

/* From I/O to decoding, from there to logic, and back to I/O. */
static struct ring *received, *decoded, *answered;

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("mmap");
    return memory;
}

/* `within`: writer and reader are of one process, where the kernel finds a futex by its address alone. */
static struct ring *make_ring(int eventfd, bool within)
{
    struct ring *ring = shared_memory(sizeof *ring);
    ring->eventfd = eventfd;
    ring->futex_private = within ? FUTEX_PRIVATE_FLAG : 0;
    ring->slots = shared_memory(slot_count * slot_bytes);
    return ring;
}

static struct slot *slot_of(const struct ring *ring, uint64_t number)
{
    return (struct slot *)(ring->slots + (number & (slot_count - 1)) * slot_bytes);
}

/* Where the next message is to be written, before `publish`. There is room: see `under_way`. */
static struct slot *next_free(struct ring *ring)
{
    return slot_of(ring, atomic_load_explicit(&ring->put, memory_order_relaxed));
}

static void publish(struct ring *ring)
{
    uint64_t put = atomic_load_explicit(&ring->put, memory_order_relaxed);
    atomic_store_explicit(&ring->put, put + 1, memory_order_release);
}

/* Wakes the reader where it sleeps. Either the writer sees that it does, or the reader sees what was put. */
static void flush_ring(struct ring *ring)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&ring->sleeps, memory_order_relaxed) || !atomic_exchange(&ring->sleeps, 0))
        return;
    if (ring->eventfd >= 0) {
        uint64_t one = 1;
        if (write(ring->eventfd, &one, sizeof one) < 0)
            die("eventfd");
    } else {
        syscall(SYS_futex, &ring->sleeps, FUTEX_WAKE | ring->futex_private, 1, NULL, NULL, 0);
    }
}

static bool has_next(struct ring *ring)
{
    return atomic_load_explicit(&ring->put, memory_order_acquire) !=
           atomic_load_explicit(&ring->taken, memory_order_relaxed);
}

/* To be called by a reader that is about to sleep: whether it may. */
static bool may_sleep(struct ring *ring)
{
    atomic_store(&ring->sleeps, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return !has_next(ring);
}

/* Takes the next message. It is taken before it is used, so that one which crashes its stage does so once. Its slot is
 * not written again meanwhile, since fewer messages than slots are under way. */
static struct slot *take_next(struct ring *ring)
{
    uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
    return slot_of(ring, taken);
}

/* How many messages may be between being received and being answered: those of which a stage crashed are no more. */
static size_t under_way(void)
{
    size_t count = IN_HAND;
    struct ring *all[] = {received, decoded, answered};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        count += (size_t)(atomic_load_explicit(&all[i]->put, memory_order_acquire) -
                          atomic_load_explicit(&all[i]->taken, memory_order_acquire));
    return count;
}

/* ---- messages ---- */

static uint64_t number_at(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static void set_number(unsigned char *at, int bytes, uint64_t value)
{
    for (int i = bytes; i-- > 0; value >>= 8)
        at[i] = (unsigned char)value;
}

static uint32_t checksum(const unsigned char *message)
{
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < message_bytes - 4; i++)
        sum = (sum ^ message[i]) * 16777619u;
    return sum;
}

/* ---- decoding and logic ---- */

static void decode(struct slot *slot)
{
    const unsigned char *message = slot->message;
    uint64_t kind = number_at(message + 4, 4);
    bool is_whole = number_at(message, 4) == message_bytes && (kind == ADD || kind == CRASH) &&
                    number_at(message + message_bytes - 4, 4) == checksum(message);
    slot->kind = is_whole ? (uint32_t)kind : REFUSAL;
    slot->account = number_at(message + 8, 8);
    slot->amount = number_at(message + 16, 8);
}

static uint64_t sums[ACCOUNTS];
static volatile int *volatile nowhere;

__attribute__((noreturn)) static void crash(void)
{
    /* No core file, and no program that the system calls to collect one. */
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
    *nowhere = 1;
    abort();
}

static void apply(struct slot *slot)
{
    if (slot->kind == CRASH)
        crash();
    uint64_t kind = slot->kind == ADD ? ANSWER : REFUSAL;
    if (kind == ANSWER)
        set_number(slot->message + 24, 8, sums[slot->account % ACCOUNTS] += slot->amount);
    set_number(slot->message + 4, 4, kind);
    set_number(slot->message + message_bytes - 4, 4, checksum(slot->message));
}

struct stage {
    struct ring **from, **to;
    void (*work)(struct slot *slot);
};

static const struct stage decoding = {&received, &decoded, decode}, logic = {&decoded, &answered, apply};

static void *run_stage(void *of)
{
    const struct stage *stage = of;
    struct ring *from = *stage->from, *to = *stage->to;
    for (unsigned since = 0;;) {
        if (!has_next(from)) {
            flush_ring(to);
            since = 0;
            while (may_sleep(from))
                syscall(SYS_futex, &from->sleeps, FUTEX_WAIT | from->futex_private, 1, NULL, NULL, 0);
            atomic_store(&from->sleeps, 0);
        }
        struct slot *next = next_free(to);
        memcpy(next, take_next(from), sizeof *next + message_bytes);
        stage->work(next);
        publish(to);
        if (++since == BATCH) {
            flush_ring(to);
            since = 0;
        }
    }
    return NULL;
}

/* ---- stages that are processes of their own ---- */

enum { MOST_CHILDREN = 2 };

static struct child {
    volatile pid_t pid;
    int pidfd;
    void (*run)(void);
} children[MOST_CHILDREN];
static int child_count, highest_descriptor;

static void end_children(int signal)
{
    (void)signal;
    for (int i = 0; i < MOST_CHILDREN; i++)
        if (children[i].pid > 0 && kill(children[i].pid, SIGKILL) == 0)
            waitpid(children[i].pid, NULL, 0);
    _exit(0);
}

static void start_child(struct child *child)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        on_end(SIG_DFL);
        child->run();
        _exit(1);
    }
    child->pid = pid;
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (child->pidfd < 0)
        die("pidfd_open");
    if (child->pidfd > highest_descriptor)
        highest_descriptor = child->pidfd;
}

static struct child *add_child(void (*run)(void))
{
    struct child *child = &children[child_count++];
    child->run = run;
    start_child(child);
    return child;
}

static void start_again(struct child *child)
{
    pid_t ended = child->pid;
    child->pid = 0;
    waitpid(ended, NULL, 0);
    close(child->pidfd);
    start_child(child);
}

/* A client whose connection the I/O process ends would otherwise not notice. */
static void leave_others_descriptors(void)
{
    for (int descriptor = STDERR_FILENO + 1; descriptor <= highest_descriptor; descriptor++)
        if (descriptor != answered->eventfd)
            close(descriptor);
}

static void decoding_alone(void)
{
    leave_others_descriptors();
    run_stage((void *)&decoding);
}

static void logic_alone(void)
{
    leave_others_descriptors();
    run_stage((void *)&logic);
}

static void decoding_and_logic(void)
{
    leave_others_descriptors();
    start_thread(run_stage, (void *)&decoding);
    run_stage((void *)&logic);
}

/* ---- message I/O ---- */

/* By descriptor. */
static struct peer {
    unsigned char *bytes;
    size_t held;
    uint32_t generation;
} *peers;
static size_t peer_count;
static int listener, epoll;

static void watch(int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) < 0)
        die("epoll_ctl");
    if (descriptor > highest_descriptor)
        highest_descriptor = descriptor;
}

static void connect_client(int client)
{
    if ((size_t)client >= peer_count || (!peers[client].bytes && !(peers[client].bytes = malloc(message_bytes)))) {
        close(client);
        return;
    }
    watch(client);
}

static void close_client(int client)
{
    peers[client].held = 0;
    peers[client].generation++;
    close(client);
}

static void deliver(void)
{
    while (has_next(answered)) {
        struct slot *slot = take_next(answered);
        if (slot->generation != peers[slot->client].generation)
            continue;
        ssize_t sent;
        do
            sent = send(slot->client, slot->message, message_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        if (sent != (ssize_t)message_bytes)
            close_client(slot->client);
    }
}

static void clear_wakes(void)
{
    uint64_t wakes;
    if (read(answered->eventfd, &wakes, sizeof wakes) < 0 && errno != EAGAIN && errno != EINTR)
        die("eventfd");
}

/* Starts the child again whose end one hears of here. Whether it is one. */
static bool replace_child(int descriptor)
{
    for (int i = 0; i < child_count; i++)
        if (children[i].pidfd == descriptor) {
            start_again(&children[i]);
            watch(children[i].pidfd);
            return true;
        }
    return false;
}

/* Waits until one more message may be under way. */
static void wait_for_room(void)
{
    while (under_way() >= slot_count) {
        flush_ring(received);
        struct pollfd wakes[1 + MOST_CHILDREN] = {{.fd = answered->eventfd, .events = POLLIN}};
        for (int i = 0; i < child_count; i++)
            wakes[1 + i] = (struct pollfd){.fd = children[i].pidfd, .events = POLLIN};
        if (may_sleep(answered) && poll(wakes, (nfds_t)(1 + child_count), -1) > 0) {
            for (int i = 0; i < child_count; i++)
                if (wakes[1 + i].revents)
                    replace_child(wakes[1 + i].fd);
        }
        atomic_store(&answered->sleeps, 0);
        clear_wakes();
        deliver();
    }
}

/* Receives once, and hands a message over that is whole. */
static void receive_from(int client)
{
    struct peer *peer = &peers[client];
    ssize_t got = recv(client, peer->bytes + peer->held, message_bytes - peer->held, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close_client(client);
        return;
    }
    peer->held += (size_t)got;
    if (peer->held < message_bytes)
        return;
    peer->held = 0;
    uint32_t generation = peer->generation;
    wait_for_room();
    /* Meanwhile the client may have been left. */
    if (generation != peer->generation)
        return;
    struct slot *slot = next_free(received);
    slot->client = client;
    slot->generation = generation;
    memcpy(slot->message, peer->bytes, message_bytes);
    publish(received);
}

__attribute__((noreturn)) static void message_io(void)
{
    static struct epoll_event events[EVENTS];
    watch(listener);
    watch(answered->eventfd);
    for (int i = 0; i < child_count; i++)
        watch(children[i].pidfd);
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, may_sleep(answered) ? -1 : 0);
        atomic_store(&answered->sleeps, 0);
        for (int i = 0; i < count; i++) {
            int ready = events[i].data.fd;
            if (ready == listener)
                connect_client(accept_client(listener));
            else if (ready == answered->eventfd)
                clear_wakes();
            else if (!replace_child(ready))
                receive_from(ready);
        }
        flush_ring(received);
        deliver();
    }
}

static int new_eventfd(void)
{
    int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0)
        die("eventfd");
    return made;
}

/* What messages need that are handed over, before any stage runs. */
static void make_rings(bool decoding_is_here, bool logic_is_with_it)
{
    received = make_ring(-1, decoding_is_here);
    decoded = make_ring(-1, logic_is_with_it);
    answered = make_ring(new_eventfd(), decoding_is_here);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        die("epoll_create1");
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("getrlimit");
    peer_count = descriptors.rlim_cur < MOST_SLOTS ? descriptors.rlim_cur : MOST_SLOTS;
    peers = calloc(peer_count, sizeof *peers);
    if (!peers)
        die("calloc");
    highest_descriptor = epoll;
}

/* ---- arrangements ---- */

static void staged(void)
{
    make_rings(false, true);
    add_child(decoding_and_logic);
    message_io();
}

static void processes(void)
{
    make_rings(false, false);
    add_child(decoding_alone);
    add_child(logic_alone);
    message_io();
}

static void all_threads(void)
{
    make_rings(true, true);
    start_thread(run_stage, (void *)&decoding);
    start_thread(run_stage, (void *)&logic);
    child_count = 0;
    message_io();
}

static void threads(void)
{
    struct child *child = add_child(all_threads);
    for (;;) {
        struct pollfd ended = {.fd = child->pidfd, .events = POLLIN};
        if (poll(&ended, 1, -1) > 0)
            start_again(child);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} arrangements[] = {{"staged", staged}, {"threads", threads}, {"processes", processes}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 5 && i < sizeof arrangements / sizeof *arrangements; i++) {
        if (strcmp(argv[1], arrangements[i].name) != 0)
            continue;
        message_bytes = (size_t)number(argv[3], MOST_MESSAGE_BYTES);
        slot_count = (size_t)number(argv[4], MOST_SLOTS);
        if (message_bytes < LEAST_BYTES || slot_count <= IN_HAND || (slot_count & (slot_count - 1)) != 0)
            break;
        slot_bytes = (sizeof(struct slot) + message_bytes + 63) / 64 * 64;
        on_end(end_children);
        listener = listen_on((unsigned short)number(argv[2], 65535), false);
        send_at_once(listener);
        announce(listener);
        arrangements[i].run();
    }
    fprintf(stderr, "%s staged|threads|processes PORT BYTES SLOTS, from %d bytes on, and slots a power of two\n", argv[0],
            LEAST_BYTES);
    return 2;
}
