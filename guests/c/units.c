/* Makes and ends processes or threads, one batch after the other, and says what that took: the experiment `create`.
 *
 *   units METHOD COUNT ALIVE BUSY MIB HUGE GIVE_UP_NS WARM_UP DEADLINE_S
 *
 * COUNT units by METHOD, ALIVE of them together at the end of a batch. BUSY others compute meanwhile (beside processes,
 * processes; beside threads, threads); no new unit is made after GIVE_UP_NS. When the others have ended, as many units
 * as were made beside them are made once more: the same work alone. MIB of memory are written beforehand, in huge pages
 * where HUGE is 1. WARM_UP units are made before that. Programs to be started are what standard input is.
 *
 * One clock goes round the whole loop. Inside it the clock is read three times a unit, so that making and reaping can
 * be told apart and the single creation has a median.
 */

#include "guest.h"
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>

#define PROGRAM "/proc/self/fd/0"
enum { NOT_STARTED = 127, STACK_BYTES = 64 * 1024, KEPT = 1024 };

/* --- One unit: made by `create`, which returns an error's number, and ended by `reap`. --- */

union unit {
    pthread_t thread;
    struct {
        pid_t child;
        /* Of a child in this process's memory. */
        char *stack;
    };
};

/* What is written while units are made, in one piece of shared memory: of a page of its own this process would have to
 * write another copy after every fork, and that would be measured. */
static struct {
    /* What held units wait at. Where none is held nobody touches it: it would cost each child a page fault. */
    _Atomic uint32_t closed;
    /* Durations of single creations, every k-th: a page of them at most. */
    uint32_t ns[KEPT];
    uint64_t kept, every, seen;
    union unit units[];
} *shared;

static pid_t self;
/* Whether units stay until their batch is reaped. */
static int held;

/* Keeps a child, in the parent alone: the memory is the child's as well. */
static int made(union unit *unit, pid_t child)
{
    unit->child = child;
    return child < 0 ? errno : 0;
}

static void live_as_process(void)
{
    if (held) {
        end_with(self);
        pass(&shared->closed);
    }
}

static int by_fork(union unit *unit)
{
    pid_t child = fork();
    if (child == 0) {
        live_as_process();
        _exit(0);
    }
    return made(unit, child);
}

static void reap_child(union unit *unit)
{
    wait_for(unit->child);
}

static int by_vfork(union unit *unit)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(0);
    return made(unit, child);
}

/* The end of a pipe from which held programs read until it is closed here. */
static int writing = -1;
static char reading[16];

static char **arguments(void)
{
    static char *without[] = {"exit", NULL}, *with[] = {"exit", reading, NULL};
    return held ? with : without;
}

static char *no_environment[] = {NULL};

static int by_posix_spawn(union unit *unit)
{
    return posix_spawn(&unit->child, PROGRAM, NULL, NULL, arguments(), no_environment);
}

static int by_fork_exec(union unit *unit)
{
    pid_t child = fork();
    if (child == 0) {
        execve(PROGRAM, arguments(), no_environment);
        _exit(NOT_STARTED);
    }
    return made(unit, child);
}

/* In this process's memory, as threads were before NPTL. Stacks are kept for the next, as the C library keeps those of
 * its threads; a free one holds the address of the next. */
static char *free_stacks;

static int run_in_memory(void *nothing)
{
    (void)nothing;
    live_as_process();
    return 0;
}

static int by_clone_vm(union unit *unit)
{
    char *stack = free_stacks;
    if (stack != NULL) {
        memcpy(&free_stacks, stack, sizeof free_stacks);
    } else {
        stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (stack == MAP_FAILED)
            return errno;
    }
    unit->stack = stack;
    return made(unit, clone(run_in_memory, stack + STACK_BYTES, CLONE_VM | SIGCHLD, NULL));
}

static void reap_in_memory(union unit *unit)
{
    wait_for(unit->child);
    memcpy(unit->stack, &free_stacks, sizeof free_stacks);
    free_stacks = unit->stack;
}

static void *run_thread(void *nothing)
{
    if (held)
        pass(&shared->closed);
    return nothing;
}

static int by_pthread(union unit *unit)
{
    return pthread_create(&unit->thread, NULL, run_thread, NULL);
}

static void reap_thread(union unit *unit)
{
    int error = pthread_join(unit->thread, NULL);
    if (error != 0)
        fail("joining a thread: %s", strerror(error));
}

/* Threads that are there already, and jobs that are all the same, so that their number is enough. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    uint64_t waiting, unfinished, idle;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};

__attribute__((noreturn)) static void *run_pool(void *nothing)
{
    pthread_mutex_lock(&pool.lock);
    pool.idle++;
    pthread_cond_signal(&pool.done);
    for (;;) {
        while (pool.waiting == 0)
            pthread_cond_wait(&pool.work, &pool.lock);
        pool.waiting--;
        pthread_mutex_unlock(&pool.lock);
        run_thread(nothing);
        pthread_mutex_lock(&pool.lock);
        if (--pool.unfinished == 0)
            pthread_cond_signal(&pool.done);
    }
}

static void start_pool(uint64_t size)
{
    for (uint64_t i = 0; i < size; i++) {
        pthread_t thread;
        int error = pthread_create(&thread, NULL, run_pool, NULL);
        if (error != 0)
            refuse(i + 1, error);
    }
    pthread_mutex_lock(&pool.lock);
    while (pool.idle < size)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static int by_pool(union unit *unit)
{
    (void)unit;
    pthread_mutex_lock(&pool.lock);
    pool.waiting++;
    pool.unfinished++;
    pthread_mutex_unlock(&pool.lock);
    pthread_cond_signal(&pool.work);
    return 0;
}

static void reap_pool(union unit *unit)
{
    (void)unit;
    pthread_mutex_lock(&pool.lock);
    while (pool.unfinished > 0)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

/* Children that a signal handler reaps, as source 003's: nobody waits for a single one. The source's handler itself
 * waits until there is no child left. */
static volatile sig_atomic_t reaped, ended_badly;
static int handler_waits;

static void on_child(int signal)
{
    (void)signal;
    int kept = errno, status;
    while (waitpid(-1, &status, handler_waits ? 0 : WNOHANG) > 0) {
        reaped++;
        if (status != 0)
            ended_badly++;
    }
    errno = kept;
}

static void install_handler(void)
{
    reaped = 0;
    struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    if (sigaction(SIGCHLD, &action, NULL) != 0)
        fail("installing the handler: %s", strerror(errno));
}

static void wait_for_handler(uint64_t count)
{
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    /* Blocked but while it sleeps, so that no signal comes between the look and the sleep. */
    sigprocmask(SIG_BLOCK, &child, &before);
    while ((uint64_t)reaped < count)
        sigsuspend(&before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (ended_badly > 0)
        fail("%d children did not end with 0", (int)ended_badly);
}

struct method {
    const char *name;
    int (*create)(union unit *);
    void (*reap)(union unit *);
    int is_thread, is_program;
};

static const struct method methods[] = {
    {"fork", by_fork, reap_child, 0, 0},
    {"fork-sigchld", by_fork, NULL, 0, 0},
    {"fork-sigchld-wait", by_fork, NULL, 0, 0},
    {"vfork", by_vfork, reap_child, 0, 0},
    {"posix_spawn", by_posix_spawn, reap_child, 0, 1},
    {"fork-exec", by_fork_exec, reap_child, 0, 1},
    {"clone-vm", by_clone_vm, reap_in_memory, 0, 0},
    {"pthread", by_pthread, reap_thread, 1, 0},
    {"pool", by_pool, reap_pool, 1, 0},
};

/* --- Others that compute meanwhile. --- */

struct busy {
    _Atomic int stop;
    _Atomic uint32_t here;
    /* CPU time of the threads so far, as each last said. */
    _Atomic uint64_t cpu_ns[];
};

static struct busy *busy;

/* Some 20 µs without touching memory. */
static void compute(void)
{
    uint64_t value = 1;
    for (uint32_t step = 0; step < 10000; step++) {
        value = value * 6364136223846793005u + step;
        __asm__ volatile("" : "+r"(value));
    }
}

static void *run_busy(void *own)
{
    _Atomic uint64_t *own_ns = own;
    atomic_fetch_add(&busy->here, 1);
    while (!atomic_load_explicit(&busy->stop, memory_order_relaxed)) {
        compute();
        atomic_store_explicit(own_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID), memory_order_relaxed);
    }
    return NULL;
}

static void start_busy(int as_threads, uint64_t count, union unit *others)
{
    busy = shared_memory(sizeof *busy + count * sizeof busy->cpu_ns[0]);
    for (uint64_t i = 0; i < count; i++) {
        int error;
        if (as_threads) {
            error = pthread_create(&others[i].thread, NULL, run_busy, &busy->cpu_ns[i]);
        } else {
            pid_t child = fork();
            if (child == 0) {
                end_with(self);
                run_busy(&busy->cpu_ns[i]);
                _exit(0);
            }
            error = made(&others[i], child);
        }
        if (error != 0)
            fail("starting a competing unit: %s", strerror(error));
    }
    while (atomic_load(&busy->here) < count)
        usleep(1000);
}

/* All are told before the first is waited for: each needs the CPU once more to end. */
static void end_busy(int as_threads, uint64_t count, union unit *others)
{
    atomic_store(&busy->stop, 1);
    for (uint64_t i = 0; i < count; i++)
        as_threads ? reap_thread(&others[i]) : reap_child(&others[i]);
}

/* --- The loop. --- */

static void keep(uint64_t ns)
{
    if (shared->seen++ % shared->every == 0 && shared->kept < KEPT)
        shared->ns[shared->kept++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static int by_size(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static uint64_t median_ns(void)
{
    const uint32_t *ns = shared->ns;
    uint64_t half = shared->kept / 2;
    qsort(shared->ns, shared->kept, sizeof shared->ns[0], by_size);
    return shared->kept % 2 != 0 ? ns[half] : ((uint64_t)ns[half - 1] + ns[half]) / 2;
}

struct work {
    uint64_t wall_ns, cpu_ns, create_ns, reap_ns, median_ns, made, refused;
    /* All lives together, from a unit's creation to its batch's end. */
    uint64_t lives_ns;
    /* The most that were made and not yet reaped, where a handler reaps. */
    uint64_t most_unreaped;
};

static uint64_t others_cpu_ns(uint64_t others)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < others; i++)
        sum += atomic_load_explicit(&busy->cpu_ns[i], memory_order_relaxed);
    return sum;
}

static void hold(int is_program)
{
    held = 1;
    if (!is_program) {
        atomic_store(&shared->closed, 1);
        return;
    }
    int ends[2];
    if (pipe(ends) != 0 || fcntl(ends[1], F_SETFD, FD_CLOEXEC) != 0)
        fail("making the pipe that programs wait at: %s", strerror(errno));
    snprintf(reading, sizeof reading, "%d", ends[0]);
    writing = ends[1];
}

static void let_go(int is_program)
{
    if (!is_program) {
        open_gate(&shared->closed);
        return;
    }
    close(atoi(reading));
    close(writing);
}

/* Makes and reaps `count` units, `alive` of them together, until `give_up_ns` are over. `others` are the threads of
 * this process whose CPU time is not this loop's. */
static struct work work(const struct method *by, union unit *units, uint64_t count, uint64_t alive, uint64_t give_up_ns,
                        uint64_t others)
{
    struct work work = {0};
    /* A handler reaps while units are made, and is waited for once, at the end. */
    int handler = by->reap == NULL;
    uint64_t batch = handler ? count : alive, tried = 0;
    shared->kept = shared->seen = 0;
    shared->every = (count + KEPT - 1) / KEPT;
    uint64_t before_cpu_ns = cpu_ns() - others_cpu_ns(others);
    uint64_t started_ns = now_ns(), now = started_ns;
    while (tried < count && now - started_ns < give_up_ns) {
        uint64_t size = batch < count - tried ? batch : count - tried, made = 0, births_ns = 0;
        if (alive > 1)
            hold(by->is_program);
        /* A single batch is ended by the limit as well. */
        while (made < size && (made == 0 || now - started_ns < give_up_ns)) {
            uint64_t before_ns = now_ns();
            int error = by->create(&units[handler ? 0 : made]);
            now = now_ns();
            if (error != 0 && !handler)
                refuse(tried + made + 1, error);
            work.refused += error != 0;
            keep(now - before_ns);
            work.create_ns += now - before_ns;
            births_ns += before_ns - started_ns;
            made++;
            uint64_t unreaped = tried + made - work.refused - (uint64_t)reaped;
            if (handler && unreaped > work.most_unreaped)
                work.most_unreaped = unreaped;
        }
        uint64_t filled_ns = now;
        tried += made;
        if (alive > 1)
            let_go(by->is_program);
        if (handler && !handler_waits)
            wait_for_handler(tried - work.refused);
        for (uint64_t i = 0; i < made && !handler; i++)
            by->reap(&units[i]);
        now = now_ns();
        work.reap_ns += now - filled_ns;
        work.lives_ns += made * (now - started_ns) - births_ns;
    }
    work.wall_ns = now_ns() - started_ns;
    work.cpu_ns = cpu_ns() - others_cpu_ns(others) - before_cpu_ns;
    work.median_ns = median_ns();
    work.made = tried - work.refused;
    held = 0;
    return work;
}

/* --- What this process holds while it makes units. --- */

/* Huge pages that were asked for may not be there: how much is in them is told. */
static void hold_memory(uint64_t mib, int huge)
{
    size_t bytes = mib << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("giving the parent %llu MiB: %s", (unsigned long long)mib, strerror(errno));
    /* Refused where the kernel has no huge pages, where there is nothing to advise. */
    madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#ifdef MADV_POPULATE_WRITE
    /* Sooner than the loop, which does it alone on kernels before 5.14. */
    madvise(memory, bytes, MADV_POPULATE_WRITE);
#endif
    for (size_t offset = 0; offset < bytes; offset += 4096)
        ((volatile char *)memory)[offset] = 1;
}

static uint64_t huge_kib(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
    if (rollup == NULL)
        fail("reading /proc/self/smaps_rollup: %s", strerror(errno));
    while (fgets(line, sizeof line, rollup) != NULL)
        if (sscanf(line, "AnonHugePages: %llu kB", &kib) == 1)
            break;
    fclose(rollup);
    return kib;
}

int main(int argc, char **argv)
{
    uint64_t program_ns = now_ns();
    if (argc != 10)
        fail("%d arguments; it takes 9", argc - 1);
    end_with_parent((unsigned)number(argv, 9));
    const struct method *by = NULL;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i].name, argv[1]) == 0)
            by = &methods[i];
    if (by == NULL)
        fail("there is no method %s", argv[1]);
    handler_waits = strcmp(by->name, "fork-sigchld-wait") == 0;
    uint64_t count = number(argv, 2), alive = number(argv, 3), others = number(argv, 4), mib = number(argv, 5);
    uint64_t give_up_ns = others > 0 ? number(argv, 7) : UINT64_MAX;

    self = getpid();
    fcntl(STDIN_FILENO, F_SETFD, FD_CLOEXEC);
    size_t bytes = sizeof *shared + (alive + others) * sizeof(union unit);
    shared = shared_memory(bytes);
    /* Its pages are there before the clock runs. */
    memset(shared, 0, bytes);
    union unit *units = shared->units;
    if (by->reap == reap_pool)
        start_pool(alive);

    /* Its handler counts; a fork is a fork. */
    const struct method *warm = by->reap == NULL ? &methods[0] : by;
    work(warm, units, number(argv, 8), 1, UINT64_MAX, 0);
    uint64_t in_huge_kib = 0;
    if (mib > 0) {
        hold_memory(mib, number(argv, 6) != 0);
        in_huge_kib = huge_kib();
        work(warm, units, 1, 1, UINT64_MAX, 0);
    }
    if (by->reap == NULL)
        install_handler();

    struct work done, alone = {0};
    if (others > 0) {
        uint64_t threads = by->is_thread ? others : 0;
        start_busy(by->is_thread, others, units + alive);
        done = work(by, units, count, alive, give_up_ns, threads);
        /* A handler would take the others. */
        signal(SIGCHLD, SIG_DFL);
        end_busy(by->is_thread, others, units + alive);
        if (by->reap == NULL)
            install_handler();
        alone = work(by, units, done.made, alive, UINT64_MAX, threads);
    } else {
        done = work(by, units, count, alive, give_up_ns, 0);
    }
    /* The source's program ends here, whoever is left, and was timed as a whole. */
    if (handler_waits)
        done.wall_ns = now_ns() - program_ns;
    printf("done wall_ns=%llu cpu_ns=%llu create_ns=%llu reap_ns=%llu median_ns=%llu made=%llu refused=%llu lives_ns=%llu "
           "most_unreaped=%llu reaped=%llu huge_kib=%llu alone_ns=%llu alone_median_ns=%llu\n",
           (unsigned long long)done.wall_ns, (unsigned long long)done.cpu_ns, (unsigned long long)done.create_ns,
           (unsigned long long)done.reap_ns, (unsigned long long)done.median_ns, (unsigned long long)done.made,
           (unsigned long long)done.refused, (unsigned long long)done.lives_ns, (unsigned long long)done.most_unreaped,
           (unsigned long long)reaped, (unsigned long long)in_huge_kib, (unsigned long long)alone.wall_ns, (unsigned long long)alone.median_ns);
    return 0;
}
