/* Threads or processes that change data again and again: the experiment `contention`.
 *
 *   contention rate UNIT BY COUNT STEPS INSIDE READS CPUS WARM_NS TIMED_NS DEADLINE_S
 *   contention trials UNIT BY COUNT INCREMENTS 0 0 CPUS 0 TRIALS DEADLINE_S
 *
 * COUNT units, pinned to CPUS one after the other.
 *
 * rate: each computes STEPS - INSIDE steps by itself and then changes a number that all share, by means of BY, which
 * keeps it whole: it reads the number, computes INSIDE steps, and writes one more. Of ten such operations READS only
 * read. It goes on until told; after WARM_NS the operations of TIMED_NS are counted. In the end the number must be that
 * of the changes, but where BY is plain: `lost` is how many are missing.
 *
 * trials: in each of TRIALS, units add 1 to a number INCREMENTS times, plainly. Threads have one number together, each
 * process has its own, of the same name. `with_losses` is the trials in which a number is not what was added to it.
 */

#include "channel.h"

enum { MOST_UNITS = 1024, LINE = 64 };

/* Goes on from `value`, so that no operation begins before the last has been computed. */
static inline uint64_t compute(uint64_t value, uint64_t steps)
{
    for (uint64_t step = 0; step < steps; step++) {
        value = value * 6364136223846793005u + step;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

/* --- The number, and by what it is kept whole. --- */

enum by { MUTEX, SPIN_LOCK, RWLOCK, ATOMIC, SHARDED, PLAIN, WAYS };

static const char *const ways[] = {"mutex", "spin", "rwlock", "atomic", "sharded", "plain"};

static enum by means_of_change;
static uint64_t count, inside;

/* Each on a cache line of its own. */
static pthread_mutex_t mutex __attribute__((aligned(LINE))) = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock __attribute__((aligned(LINE))) = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic int taken __attribute__((aligned(LINE)));
static volatile uint64_t number_of_all __attribute__((aligned(LINE)));
static _Atomic uint64_t atomic_number __attribute__((aligned(LINE)));

/* What a unit alone writes. */
static struct own {
    _Atomic uint64_t operations, shard;
    uint64_t writes, counted;
} __attribute__((aligned(LINE))) *own;

static inline void lock_spinning(void)
{
    while (atomic_exchange_explicit(&taken, 1, memory_order_acquire))
        while (atomic_load_explicit(&taken, memory_order_relaxed)) {
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
}

static inline void read_or_write(int reads)
{
    uint64_t value = number_of_all;
    compute(value, inside);
    if (!reads)
        number_of_all = value + 1;
}

static inline void use_shards(uint64_t index, int reads)
{
    uint64_t sum = 0;
    if (!reads) {
        _Atomic uint64_t *shard = &own[index].shard;
        uint64_t value = atomic_load_explicit(shard, memory_order_relaxed);
        atomic_store_explicit(shard, value + 1, memory_order_relaxed);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        sum += atomic_load_explicit(&own[i].shard, memory_order_relaxed);
    __asm__ volatile("" : : "r"(sum));
}

static inline void operate(uint64_t index, int reads)
{
    switch (means_of_change) {
    case MUTEX:
        pthread_mutex_lock(&mutex);
        read_or_write(reads);
        pthread_mutex_unlock(&mutex);
        return;
    case SPIN_LOCK:
        lock_spinning();
        read_or_write(reads);
        atomic_store_explicit(&taken, 0, memory_order_release);
        return;
    case RWLOCK:
        (reads ? pthread_rwlock_rdlock : pthread_rwlock_wrlock)(&rwlock);
        read_or_write(reads);
        pthread_rwlock_unlock(&rwlock);
        return;
    case ATOMIC:
        if (reads)
            (void)atomic_load_explicit(&atomic_number, memory_order_relaxed);
        else
            atomic_fetch_add_explicit(&atomic_number, 1, memory_order_relaxed);
        return;
    case SHARDED:
        use_shards(index, reads);
        return;
    default:
        read_or_write(reads);
    }
}

/* What the number has come to. */
static uint64_t total(void)
{
    uint64_t sum = number_of_all + atomic_load(&atomic_number);
    for (uint64_t i = 0; i < count; i++)
        sum += atomic_load(&own[i].shard);
    return sum;
}

/* --- Operations until told to stop. --- */

static struct start *start_line;
static _Atomic int stop __attribute__((aligned(LINE)));
static uint64_t outside, reads_of_ten;

static void operate_until_told(uint64_t index)
{
    uint64_t done = 0, writes = 0, value = index;
    stand_ready(start_line);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        int reads = done % 10 < reads_of_ten;
        value = compute(value, outside);
        operate(index, reads);
        writes += !reads;
        atomic_store_explicit(&own[index].operations, ++done, memory_order_relaxed);
    }
    own[index].writes = writes;
}

static uint64_t operations(void)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += atomic_load_explicit(&own[i].operations, memory_order_relaxed);
    return sum;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&time, &time) != 0)
        ;
}

static void measure_rate(uint64_t warm_ns, uint64_t timed_ns)
{
    struct unit *units = start_all(THREAD, count, operate_until_told, start_line);
    sleep_ns(warm_ns);
    uint64_t before = operations(), used_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID), begun_ns = now_ns();
    sleep_ns(timed_ns);
    uint64_t done = operations() - before, wall_ns = now_ns() - begun_ns;
    used_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - used_ns;
    atomic_store(&stop, 1);
    end_all(THREAD, count, units);
    uint64_t writes = 0;
    for (uint64_t i = 0; i < count; i++)
        writes += own[i].writes;
    uint64_t lost = writes - total();
    if (lost > 0 && means_of_change != PLAIN)
        fail("%llu of %llu changes were lost by %s", (unsigned long long)lost, (unsigned long long)writes,
             ways[means_of_change]);
    printf("done wall_ns=%llu cpu_ns=%llu operations=%llu writes=%llu lost=%llu\n", (unsigned long long)wall_ns,
           (unsigned long long)used_ns, (unsigned long long)done, (unsigned long long)writes, (unsigned long long)lost);
}

/* --- Trials of plain increments. --- */

static uint64_t increments;

static void add_plainly(uint64_t index)
{
    stand_ready(start_line);
    for (uint64_t i = 0; i < increments; i++)
        number_of_all = number_of_all + 1;
    own[index].counted = number_of_all;
}

static void try(enum kind kind, uint64_t trials)
{
    uint64_t with_losses = 0, lost = 0;
    for (uint64_t i = 0; i < trials; i++) {
        number_of_all = 0;
        memset((void *)start_line, 0, sizeof *start_line);
        end_all(kind, count, start_all(kind, count, add_plainly, start_line));
        uint64_t counted = number_of_all;
        for (uint64_t unit = 0; kind != THREAD && unit < count; unit++)
            counted += own[unit].counted;
        uint64_t of_trial = count * increments - counted;
        lost += of_trial;
        with_losses += of_trial > 0;
    }
    printf("done trials=%llu with_losses=%llu updates=%llu lost=%llu\n", (unsigned long long)trials,
           (unsigned long long)with_losses, (unsigned long long)(trials * count * increments), (unsigned long long)lost);
}

int main(int argc, char **argv)
{
    static const char *const tasks[] = {"rate", "trials"};
    if (argc != 12)
        fail("%d arguments; it takes 11", argc - 1);
    end_with_parent((unsigned)number(argv, 11));
    int trials = one_of(argv, 1, tasks, 2);
    enum kind kind = (enum kind)one_of(argv, 2, kinds, KINDS);
    means_of_change = (enum by)one_of(argv, 3, ways, WAYS);
    count = number(argv, 4);
    uint64_t steps = number(argv, 5);
    inside = number(argv, 6);
    reads_of_ten = number(argv, 7);
    read_cpus(argv[8]);
    if (count < 1 || count > MOST_UNITS || inside > steps)
        fail("%llu units with %llu of %llu steps inside; it takes 1 to %d units", (unsigned long long)count,
             (unsigned long long)inside, (unsigned long long)steps, MOST_UNITS);
    start_line = shared_memory(sizeof *start_line);
    own = shared_memory(count * sizeof *own);
    increments = steps;
    outside = steps - inside;
    if (trials)
        try(kind, number(argv, 10));
    else
        measure_rate(number(argv, 9), number(argv, 10));
    return 0;
}
