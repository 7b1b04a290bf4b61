/* The work that experiments do in the command itself, as a plain program in C does it; and plain loops of fork and of
 * pthread_create, beside `units`. Prints how long it took, in ns. Measured beside the command by
 * `cargo xtask bench-harness --against-c`.
 *
 *   plain clock READINGS                        readings of the clock
 *   plain matrix N PRODUCTS REPEATS             products of N × N matrices
 *   plain thread|process COUNT SLICES STEPS YIELD
 *                                               COUNT units share SLICES of STEPS dependent integer steps, and give up
 *                                               the CPU after each where YIELD is 1; from when all are ready to the
 *                                               last one's finish
 *   plain fork|create COUNT                     a unit, made and waited for
 */

#include "guest.h"
#include <sched.h>

/* The chain of the command's burner. */
__attribute__((noinline)) static uint64_t chain(uint64_t value, uint64_t steps)
{
    for (; steps > 0; steps--) {
        value *= 0xD1342543DE82EF95u;
        value = (value << 23 | value >> 41) ^ 0x5851F42Du;
    }
    return value;
}

static void burn(uint64_t steps)
{
    uint64_t value = 0x9E3779B97F4A7C15u;
    __asm__ volatile("" : "+r"(value));
    value = chain(value, steps);
    __asm__ volatile("" : : "r"(value));
}

static uint64_t read_clock(uint64_t readings)
{
    uint64_t begun_ns = now_ns();
    for (uint64_t i = 0; i < readings; i++) {
        uint64_t now = now_ns();
        __asm__ volatile("" : : "r"(now));
    }
    return now_ns() - begun_ns;
}

static void multiply(size_t n, const double *restrict a, const double *restrict b, double *restrict product)
{
    for (size_t i = 0; i < n; i++) {
        double *row = product + i * n;
        memset(row, 0, n * sizeof *row);
        /* Two rows at a time, as the command does; n is even. */
        for (size_t k = 0; k < n; k += 2) {
            const double *first = b + k * n, *second = first + n;
            double by = a[i * n + k], and_by = a[i * n + k + 1];
            for (size_t j = 0; j < n; j++)
                row[j] = row[j] + by * first[j] + and_by * second[j];
        }
    }
    __asm__ volatile("" : : "r"(product) : "memory");
}

static uint64_t multiply_all(size_t n, size_t products, size_t repeats)
{
    double **matrices = calloc(3 * products, sizeof *matrices);
    for (size_t m = 0; m < 3 * products; m++) {
        matrices[m] = calloc(n * n, sizeof **matrices);
        for (size_t i = 0; i < n * n; i++)
            matrices[m][i] = (double)((i * (2 * (m % 3) + 3) + m / 3) % 7);
    }
    uint64_t begun_ns = 0;
    /* Once before the clock runs, so that the memory is there. */
    for (size_t round = 0; round <= repeats * products; round++) {
        size_t p = round == 0 ? 0 : (round - 1) / repeats;
        if (round == 1) {
            for (size_t other = 1; other < products; other++)
                multiply(n, matrices[3 * other], matrices[3 * other + 1], matrices[3 * other + 2]);
            begun_ns = now_ns();
        }
        multiply(n, matrices[3 * p], matrices[3 * p + 1], matrices[3 * p + 2]);
    }
    return now_ns() - begun_ns;
}

/* What the units share: gates before the work and behind it, the start that all wait for ready to run, the latest
 * finish. */
static struct {
    _Atomic uint32_t start, exit;
    _Alignas(64) _Atomic uint64_t ready;
    _Alignas(64) _Atomic uint64_t started_ns;
    _Alignas(64) _Atomic uint64_t finished, finished_ns;
} *shared;

static uint64_t count, slices, steps;
static int yields;

static void *share(void *nothing)
{
    pass(&shared->start);
    if (atomic_fetch_add(&shared->ready, 1) + 1 == count)
        atomic_store(&shared->started_ns, now_ns());
    while (atomic_load(&shared->started_ns) == 0)
        sched_yield();
    for (uint64_t slice = 1; slice <= slices / count; slice++) {
        burn(steps);
        if (yields && slice < slices / count)
            sched_yield();
    }
    uint64_t now = now_ns(), latest = atomic_load(&shared->finished_ns);
    while (latest < now && !atomic_compare_exchange_weak(&shared->finished_ns, &latest, now)) {
    }
    if (atomic_fetch_add(&shared->finished, 1) + 1 == count)
        open_gate(&shared->exit);
    pass(&shared->exit);
    return nothing;
}

static uint64_t share_work(int as_threads)
{
    enum { STACK_BYTES = 64 * 1024 };
    pid_t *children = calloc(count, sizeof *children);
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    shared = shared_memory(sizeof *shared);
    shared->start = shared->exit = 1;
    for (uint64_t i = 0; i < count; i++) {
        if (as_threads) {
            int error = pthread_create(&threads[i], &small, share, NULL);
            if (error != 0)
                fail("thread %llu: %s", (unsigned long long)i + 1, strerror(error));
        } else if ((children[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            share(NULL);
            _exit(0);
        } else if (children[i] < 0) {
            fail("process %llu: %s", (unsigned long long)i + 1, strerror(errno));
        }
    }
    open_gate(&shared->start);
    for (uint64_t i = 0; i < count; i++) {
        if (as_threads)
            pthread_join(threads[i], NULL);
        else
            wait_for(children[i]);
    }
    return shared->finished_ns - shared->started_ns;
}

static void *nothing_to_do(void *nothing)
{
    return nothing;
}

static void make(int as_thread)
{
    if (as_thread) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing_to_do, NULL) != 0)
            fail("a thread was refused");
        pthread_join(thread, NULL);
        return;
    }
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child < 0)
        fail("a process was refused: %s", strerror(errno));
    wait_for(child);
}

static uint64_t make_all(int as_threads, uint64_t units)
{
    enum { WARM_UP = 50 };
    for (int i = 0; i < WARM_UP; i++)
        make(as_threads);
    uint64_t begun_ns = now_ns();
    for (uint64_t i = 0; i < units; i++)
        make(as_threads);
    return now_ns() - begun_ns;
}

int main(int argc, char **argv)
{
    const char *work = argc > 2 ? argv[1] : "nothing";
    uint64_t ns;
    end_with_parent(60);
    if (strcmp(work, "clock") == 0) {
        ns = read_clock(number(argv, 2));
    } else if (strcmp(work, "matrix") == 0 && argc == 5) {
        ns = multiply_all(number(argv, 2), number(argv, 3), number(argv, 4));
    } else if ((strcmp(work, "thread") == 0 || strcmp(work, "process") == 0) && argc == 6) {
        count = number(argv, 2);
        slices = number(argv, 3);
        steps = number(argv, 4);
        yields = number(argv, 5) != 0;
        ns = share_work(strcmp(work, "thread") == 0);
    } else if (strcmp(work, "fork") == 0 || strcmp(work, "create") == 0) {
        ns = make_all(strcmp(work, "create") == 0, number(argv, 2));
    } else {
        fail("there is no work %s with %d arguments", work, argc - 2);
    }
    printf("%llu\n", (unsigned long long)ns);
    return 0;
}
