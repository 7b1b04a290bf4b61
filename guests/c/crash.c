/* One of several processes, or of several threads of one process, fails: the experiment `crash`.
 *
 *   crash UNIT CAUSE COUNT TRIALS DEADLINE_S
 *
 * This program supervises COUNT units: processes by fork, or threads of one process by fork. Each does a little work,
 * waits, and does it again. Then the first fails by CAUSE. The supervisor waits at pidfds until it knows, starts again
 * what is missing (one process, or the process with all its threads), and when that works tells every unit to finish.
 * TRIALS times.
 *
 * In a trial the others were `spared` when all of them finished, and `lost` when none did. `knows_ns` and `works_ns`
 * are the medians of the time from the failure until the supervisor knew, and until every unit worked that had been
 * lost: `again` is the number of units, over all trials, that worked by then.
 */

#include "guest.h"
#include <poll.h>

enum { MOST_UNITS = 64, MOST_TRIALS = 1000, FIRST = 0, AGAIN = 1 };

/* In memory that processes share. */
static struct {
    /* What units wait at between two pieces of work, until told. */
    _Atomic uint32_t fail, finish;
    _Atomic uint64_t failed_ns;
    /* Of the units as first started, and as started again. */
    struct {
        _Atomic uint64_t worked_ns;
        _Atomic uint32_t finished;
    } units[2][MOST_UNITS];
} *shared;

static pid_t self;
static uint64_t count;

/* --- How a unit fails. The time is that of the last thing it did. --- */

static void failing_now(void)
{
    atomic_store(&shared->failed_ns, now_ns());
}

static volatile int *volatile nowhere;

static void segfault(void)
{
    failing_now();
    *nowhere = 1;
}

static void call_abort(void)
{
    failing_now();
    abort();
}

static uint64_t deeper(uint64_t depth)
{
    volatile char local[1024];
    local[depth % sizeof local] = (char)depth;
    failing_now();
    return depth == UINT64_MAX ? 0 : deeper(depth + 1) + (uint64_t)local[depth % sizeof local];
}

static void overflow(void)
{
    deeper(1);
}

/* Takes memory under a limit on address space, and does not look whether it was given. */
static void run_out_of_memory(void)
{
    enum { PIECE = 1 << 20 };
    limit_address_space(1024);
    for (;;) {
        char *piece = malloc(PIECE);
        failing_now();
        *(volatile char *)piece = 1;
    }
}

static const struct {
    const char *name;
    void (*fail)(void);
} causes[] = {
    {"segfault", segfault},
    {"abort", call_abort},
    {"stack-overflow", overflow},
    {"out-of-memory", run_out_of_memory},
};

static void (*fail_by)(void);

/* --- Units. --- */

/* The place in `shared->units` of a unit that runs; in a process of threads, of its first. */
struct place {
    int start;
    uint64_t unit;
};

static void *live(void *own)
{
    const struct place *place = own;
    int fails = place->start == FIRST && place->unit == 0;
    atomic_store(&shared->units[place->start][place->unit].worked_ns, now_ns());
    while (!atomic_load(&shared->finish)) {
        if (fails && atomic_load(&shared->fail))
            fail_by();
        usleep(500);
    }
    atomic_store(&shared->units[place->start][place->unit].finished, 1);
    return NULL;
}

/* A process that is one unit, or has all of them as threads. */
static pid_t start(int threads, struct place place)
{
    pid_t child = fork();
    if (child < 0)
        refuse(place.unit + 1, errno);
    if (child > 0)
        return child;
    end_with(self);
    leave_no_core();
    if (!threads) {
        live(&place);
        _exit(0);
    }
    pthread_t units[MOST_UNITS];
    struct place places[MOST_UNITS];
    for (uint64_t i = 0; i < count; i++) {
        places[i] = (struct place){place.start, i};
        if (pthread_create(&units[i], NULL, live, &places[i]) != 0)
            _exit(1);
    }
    for (uint64_t i = 0; i < count; i++)
        pthread_join(units[i], NULL);
    _exit(0);
}

static uint64_t latest_work(int start, uint64_t units)
{
    uint64_t latest = 0;
    for (uint64_t i = 0; i < units; i++) {
        uint64_t worked;
        while ((worked = atomic_load(&shared->units[start][i].worked_ns)) == 0)
            usleep(50);
        latest = worked > latest ? worked : latest;
    }
    return latest;
}

struct trial {
    uint64_t survivors, again, knows_ns, works_ns;
};

static struct trial try(int threads)
{
    memset((void *)shared, 0, sizeof *shared);
    uint64_t processes = threads ? 1 : count;
    pid_t children[MOST_UNITS];
    for (uint64_t i = 0; i < processes; i++)
        children[i] = start(threads, (struct place){FIRST, i});
    latest_work(FIRST, count);

    /* The first child is the one that fails, or has the thread that does. */
    int watched = (int)syscall(SYS_pidfd_open, children[0], 0);
    if (watched < 0)
        fail("watching a process: %s", strerror(errno));
    atomic_store(&shared->fail, 1);
    struct pollfd event = {.fd = watched, .events = POLLIN};
    while (poll(&event, 1, -1) < 0)
        if (errno != EINTR)
            fail("waiting for a process to end: %s", strerror(errno));
    uint64_t knew_ns = now_ns();
    close(watched);
    int status;
    if (waitpid(children[0], &status, 0) < 0 || !WIFSIGNALED(status))
        fail("the unit that was to fail ended otherwise, with status %d", status);
    children[0] = start(threads, (struct place){AGAIN, 0});
    uint64_t failed_ns = atomic_load(&shared->failed_ns);
    uint64_t worked_ns = latest_work(AGAIN, threads ? count : 1);
    struct trial trial = {.knows_ns = knew_ns - failed_ns, .works_ns = worked_ns - failed_ns};
    for (uint64_t i = 0; i < count; i++) {
        uint64_t began_ns = atomic_load(&shared->units[AGAIN][i].worked_ns);
        trial.again += began_ns > knew_ns && began_ns <= worked_ns;
    }
    atomic_store(&shared->finish, 1);
    for (uint64_t i = 0; i < processes; i++)
        wait_for(children[i]);
    for (uint64_t i = 1; i < count; i++)
        trial.survivors += atomic_load(&shared->units[FIRST][i].finished);
    return trial;
}

static int by_size(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static uint64_t median(uint64_t *values, uint64_t size)
{
    qsort(values, size, sizeof values[0], by_size);
    return size % 2 != 0 ? values[size / 2] : (values[size / 2 - 1] + values[size / 2]) / 2;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        fail("%d arguments; it takes 5", argc - 1);
    end_with_parent((unsigned)number(argv, 5));
    int threads = strcmp(argv[1], "thread") == 0;
    if (!threads && strcmp(argv[1], "process") != 0)
        fail("there is no unit %s", argv[1]);
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        if (strcmp(causes[i].name, argv[2]) == 0)
            fail_by = causes[i].fail;
    if (fail_by == NULL)
        fail("there is no cause %s", argv[2]);
    count = number(argv, 3);
    uint64_t trials = number(argv, 4);
    if (count < 2 || count > MOST_UNITS || trials < 1 || trials > MOST_TRIALS)
        fail("%llu units and %llu trials; it takes 2 to %d and 1 to %d", (unsigned long long)count,
             (unsigned long long)trials, MOST_UNITS, MOST_TRIALS);
    self = getpid();
    shared = shared_memory(sizeof *shared);

    static uint64_t knows_ns[MOST_TRIALS], works_ns[MOST_TRIALS];
    uint64_t spared = 0, lost = 0, again = 0;
    for (uint64_t i = 0; i < trials; i++) {
        struct trial trial = try(threads);
        spared += trial.survivors == count - 1;
        lost += trial.survivors == 0;
        again += trial.again;
        knows_ns[i] = trial.knows_ns;
        works_ns[i] = trial.works_ns;
    }
    printf("done spared=%llu lost=%llu again=%llu knows_ns=%llu works_ns=%llu\n", (unsigned long long)spared,
           (unsigned long long)lost, (unsigned long long)again, (unsigned long long)median(knows_ns, trials),
           (unsigned long long)median(works_ns, trials));
    return 0;
}
