/* What the programs share in which units wake each other: starting and ending units, and the means by which one is
 * woken.
 *
 * A channel holds one token at most. Whoever waits for it sleeps until it is there, except by SPIN.
 */

#include "guest.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* --- Units. --- */

enum kind { PROCESS, THREAD, SHARED_PROCESS, KINDS };

static const char *const kinds[] = {"process", "thread", "shared-process"};

enum { STACK_BYTES = 64 * 1024, MOST_CPUS = 64 };

/* The CPUs that units are pinned to, one after the other; none where they are left to the scheduler. */
static struct {
    size_t count;
    int at[MOST_CPUS];
} cpus;

struct unit {
    pid_t parent;
    uint64_t index;
    void (*body)(uint64_t index);
    pthread_t thread;
};

/* What units do before the clock runs, and how many are done with it; then when they were let go. */
struct start {
    _Atomic uint32_t closed;
    _Atomic uint64_t here;
    uint64_t opened_ns;
};

/* Which of `count` names stands at `index` of the arguments. */
static inline int one_of(char **argv, int index, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], argv[index]) == 0)
            return i;
    fail("argument %d is %s, which is none of %d words", index, argv[index], count);
}

/* CPUs by number, as in 0,1; `-` for none. */
static inline void read_cpus(char *list)
{
    if (strcmp(list, "-") == 0)
        return;
    for (char *next = strtok(list, ","); next != NULL && cpus.count < MOST_CPUS; next = strtok(NULL, ","))
        cpus.at[cpus.count++] = atoi(next);
}

static inline void pin(uint64_t index)
{
    if (cpus.count == 0)
        return;
    int cpu = cpus.at[index % cpus.count];
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("pinning a unit to CPU %d: %s", cpu, strerror(errno));
}

static inline void *live(void *of)
{
    struct unit *unit = of;
    pin(unit->index);
    unit->body(unit->index);
    return NULL;
}

static inline int live_in_memory(void *of)
{
    end_with(((struct unit *)of)->parent);
    live(of);
    return 0;
}

/* Starts a unit that runs `body`. An error's number, or 0. */
static inline int start(enum kind kind, struct unit *unit)
{
    unit->parent = getpid();
    if (kind == THREAD)
        return pthread_create(&unit->thread, NULL, live, unit);
    if (kind == SHARED_PROCESS) {
        char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (stack == MAP_FAILED)
            return errno;
        return clone(live_in_memory, stack + STACK_BYTES, CLONE_VM | SIGCHLD, unit) < 0 ? errno : 0;
    }
    pid_t child = fork();
    if (child == 0) {
        live_in_memory(unit);
        _exit(0);
    }
    return child < 0 ? errno : 0;
}

/* Starts `count` units, and lets them go when all have come to `start->here`. The units are in memory that they
 * share. */
static inline struct unit *start_all(enum kind kind, uint64_t count, void (*body)(uint64_t), struct start *at)
{
    struct unit *units = shared_memory(count * sizeof *units);
    atomic_store(&at->closed, 1);
    for (uint64_t i = 0; i < count; i++) {
        units[i].index = i;
        units[i].body = body;
        int error = start(kind, &units[i]);
        if (error != 0)
            refuse(i + 1, error);
    }
    while (atomic_load(&at->here) < count)
        wait_while_starting();
    at->opened_ns = now_ns();
    open_gate(&at->closed);
    return units;
}

/* To be called by a unit that is ready. */
static inline void stand_ready(struct start *at)
{
    atomic_fetch_add(&at->here, 1);
    pass(&at->closed);
}

/* Waits for all. A process that ends badly ends this program, and so all others: they may wait for it. */
static inline void end_all(enum kind kind, uint64_t count, struct unit *units)
{
    for (uint64_t i = 0; i < count; i++) {
        if (kind == THREAD) {
            int error = pthread_join(units[i].thread, NULL);
            if (error != 0)
                fail("joining a thread: %s", strerror(error));
        } else {
            wait_for(-1);
        }
    }
}

static inline int by_size(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static inline void sort_ns(uint32_t *ns, size_t count)
{
    qsort(ns, count, sizeof *ns, by_size);
}

/* The least of sorted times that so many per cent are not above. */
static inline uint64_t quantile(const uint32_t *ns, size_t count, unsigned percent)
{
    return ns[(count * percent + 99) / 100 - 1];
}

/* --- Laps that are timed. --- */

struct laps {
    /* So many laps were timed, which took so long; and there were so many with those of the warm-up. */
    uint64_t wall_ns, timed, all;
};

static inline uint64_t took_ns(void (*lap)(void *), void *of, uint64_t count)
{
    uint64_t started_ns = now_ns();
    for (uint64_t i = 0; i < count; i++)
        lap(of);
    return now_ns() - started_ns;
}

/* Twice as many laps as before, until they have lasted `warm_ns`, which is the warm-up; then so many again and again,
 * which are timed, until they have lasted `timed_ns`. Their number is not found from that of the warm-up: another
 * program may have come between. */
static inline void time_laps(void (*lap)(void *), void *of, uint64_t warm_ns, uint64_t timed_ns, struct laps *laps)
{
    uint64_t count = 1;
    for (uint64_t ns = 0; (ns += took_ns(lap, of, count)) < warm_ns; count *= 2)
        laps->all += count;
    while (laps->wall_ns < timed_ns) {
        laps->wall_ns += took_ns(lap, of, count);
        laps->timed += count;
    }
    laps->all += count + laps->timed;
}

/* How often this process and the children that it waited for were switched away from. */
static inline uint64_t switches(void)
{
    struct rusage own, children;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    return (uint64_t)(own.ru_nvcsw + own.ru_nivcsw + children.ru_nvcsw + children.ru_nivcsw);
}

/* --- Channels. --- */

enum means { PIPE, EVENTFD, FUTEX, CONDVAR, UNIX_SOCKET, TCP, SPIN, MEANS };

static const char *const all_means[] = {"pipe", "eventfd", "futex", "condvar", "unix", "tcp", "spin"};

struct channel {
    int reading, writing;
    _Atomic uint32_t full;
    pthread_mutex_t lock;
    pthread_cond_t told;
} __attribute__((aligned(64)));

static enum means by;
/* Where units are of one process, the kernel finds a futex by its address alone. */
static int futex_private;

static inline void connect_over_loopback(struct channel *channel, int listener)
{
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    int one = 1;
    if (getsockname(listener, (struct sockaddr *)&at, &size) != 0 ||
        (channel->writing = socket(AF_INET, SOCK_STREAM, 0)) < 0 ||
        connect(channel->writing, (struct sockaddr *)&at, size) != 0 ||
        (channel->reading = accept(listener, NULL, NULL)) < 0 ||
        setsockopt(channel->writing, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        fail("connecting over the loopback address: %s", strerror(errno));
}

static inline int listener_on_loopback(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1) != 0)
        fail("listening on the loopback address: %s", strerror(errno));
    return listener;
}

static inline void make_channel(struct channel *channel, int listener)
{
    int ends[2] = {-1, -1}, made = 0;
    pthread_mutexattr_t lock;
    pthread_condattr_t told;
    switch (by) {
    case PIPE:
        made = pipe(ends);
        break;
    case EVENTFD:
        ends[0] = ends[1] = eventfd(0, 0);
        made = ends[0] < 0 ? -1 : 0;
        break;
    case UNIX_SOCKET:
        made = socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        break;
    case CONDVAR:
        pthread_mutexattr_init(&lock);
        pthread_condattr_init(&told);
        if (!futex_private) {
            pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
            pthread_condattr_setpshared(&told, PTHREAD_PROCESS_SHARED);
        }
        pthread_mutex_init(&channel->lock, &lock);
        pthread_cond_init(&channel->told, &told);
        break;
    case TCP:
        connect_over_loopback(channel, listener);
        return;
    default:
        break;
    }
    if (made != 0)
        fail("making a channel by %s: %s", all_means[by], strerror(errno));
    channel->reading = ends[0];
    channel->writing = ends[1];
}

/* `count` channels by `means`, between units of one kind; as many descriptors as that takes, if the system lets. */
static inline struct channel *make_channels(enum means means, enum kind kind, uint64_t count)
{
    by = means;
    futex_private = kind == THREAD ? FUTEX_PRIVATE_FLAG : 0;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    struct channel *channels = shared_memory(count * sizeof *channels);
    int listener = by == TCP ? listener_on_loopback() : -1;
    for (uint64_t i = 0; i < count; i++)
        make_channel(&channels[i], listener);
    if (listener >= 0)
        close(listener);
    return channels;
}

static inline void transfer(ssize_t bytes, const char *what)
{
    if (bytes != sizeof(uint64_t))
        fail("%s a token: %s", what, bytes < 0 ? strerror(errno) : "cut short");
}

static inline void send_token(struct channel *channel)
{
    static const uint64_t token = 1;
    switch (by) {
    case FUTEX:
        atomic_store_explicit(&channel->full, 1, memory_order_release);
        syscall(SYS_futex, &channel->full, FUTEX_WAKE | futex_private, 1, NULL, NULL, 0);
        return;
    case SPIN:
        atomic_store_explicit(&channel->full, 1, memory_order_release);
        return;
    case CONDVAR:
        pthread_mutex_lock(&channel->lock);
        channel->full = 1;
        pthread_mutex_unlock(&channel->lock);
        pthread_cond_signal(&channel->told);
        return;
    default:
        transfer(write(channel->writing, &token, sizeof token), "writing");
    }
}

static inline void receive_token(struct channel *channel)
{
    uint64_t token;
    switch (by) {
    case FUTEX:
        while (atomic_exchange_explicit(&channel->full, 0, memory_order_acquire) == 0)
            syscall(SYS_futex, &channel->full, FUTEX_WAIT | futex_private, 0, NULL, NULL, 0);
        return;
    case SPIN:
        while (atomic_load_explicit(&channel->full, memory_order_acquire) == 0) {
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
        atomic_store_explicit(&channel->full, 0, memory_order_relaxed);
        return;
    case CONDVAR:
        pthread_mutex_lock(&channel->lock);
        while (channel->full == 0)
            pthread_cond_wait(&channel->told, &channel->lock);
        channel->full = 0;
        pthread_mutex_unlock(&channel->lock);
        return;
    default:
        transfer(read(channel->reading, &token, sizeof token), "reading");
    }
}
