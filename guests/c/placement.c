/* On which CPUs units run, and how often they move: the experiment `placement`.
 *
 *   placement UNIT DOES COUNT CPUS LASTS_NS EVERY_NS DEADLINE_S
 *
 * COUNT units start together and do what DOES says for LASTS_NS: computes, without a pause; naps, half a millisecond of
 * that and a sleep as long, again and again. They are pinned to CPUS, one after the other, unless that is `-`.
 *
 * Each asks for its CPU about every microsecond and keeps the changes. No unit looks at the others, since that would
 * take a CPU. Afterwards one look is taken every EVERY_NS from when the last unit ran: `looks` are those with two units
 * at work or more, or with the only one; `different` of them had each on a CPU of its own. `moves` are the changes from
 * one CPU to another.
 */

#include "channel.h"

enum { MOST_CHANGES = 8192, ASLEEP = -1, NAP_NS = 500000 };

static const char *const doings[] = {"computes", "naps"};

struct change {
    uint64_t ns;
    int64_t cpu;
};

/* In memory that all share. */
static struct history {
    uint64_t changes, moves;
    struct change at[MOST_CHANGES];
} *histories;

static struct start *start_line;
static _Atomic int *stop;
static int naps;

static void note(struct history *own, int cpu)
{
    if (own->changes >= MOST_CHANGES)
        fail("a unit changed its CPU more than %d times", MOST_CHANGES);
    own->at[own->changes++] = (struct change){now_ns(), cpu};
}

/* About a microsecond. */
static inline void compute(void)
{
    uint64_t value = 1;
    for (uint32_t step = 0; step < 700; step++) {
        value = value * 6364136223846793005u + step;
        __asm__ volatile("" : "+r"(value));
    }
}

static void run(uint64_t index)
{
    struct history *own = &histories[index];
    int last = ASLEEP, before_nap = ASLEEP;
    stand_ready(start_line);
    uint64_t awake_ns = now_ns();
    while (!atomic_load_explicit(stop, memory_order_relaxed)) {
        int cpu = sched_getcpu();
        if (cpu != last) {
            own->moves += before_nap != ASLEEP && cpu != before_nap;
            note(own, cpu);
            last = before_nap = cpu;
        }
        compute();
        if (naps && now_ns() - awake_ns >= NAP_NS) {
            note(own, last = ASLEEP);
            usleep(NAP_NS / 1000);
            awake_ns = now_ns();
        }
    }
}

/* How many of the units are at work at `ns`, and whether each has a CPU of its own. `next` is where each history goes
 * on. */
static uint64_t look(uint64_t ns, uint64_t count, uint64_t *next, int *different)
{
    enum { CPUS = 4096 };
    static uint64_t seen_at[CPUS];
    uint64_t at_work = 0;
    *different = 1;
    for (uint64_t i = 0; i < count; i++) {
        const struct history *of = &histories[i];
        while (next[i] < of->changes && of->at[next[i]].ns <= ns)
            next[i]++;
        int64_t cpu = next[i] > 0 ? of->at[next[i] - 1].cpu : ASLEEP;
        if (cpu == ASLEEP)
            continue;
        at_work++;
        if (seen_at[cpu % CPUS] == ns)
            *different = 0;
        seen_at[cpu % CPUS] = ns;
    }
    return at_work;
}

int main(int argc, char **argv)
{
    if (argc != 8)
        fail("%d arguments; it takes 7", argc - 1);
    end_with_parent((unsigned)number(argv, 7));
    enum kind kind = (enum kind)one_of(argv, 1, kinds, KINDS);
    naps = one_of(argv, 2, doings, 2);
    uint64_t count = number(argv, 3), lasts_ns = number(argv, 5), every_ns = number(argv, 6);
    read_cpus(argv[4]);
    start_line = shared_memory(sizeof *start_line);
    stop = shared_memory(sizeof *stop);
    histories = shared_memory(count * sizeof *histories);
    uint64_t *next = calloc(count, sizeof *next);
    if (next == NULL || every_ns == 0)
        fail("no memory for %llu units, or a look every 0 ns", (unsigned long long)count);

    struct unit *units = start_all(kind, count, run, start_line);
    struct timespec rest = {(time_t)(lasts_ns / 1000000000u), (long)(lasts_ns % 1000000000u)};
    while (nanosleep(&rest, &rest) != 0)
        ;
    uint64_t ended_ns = now_ns(), begun_ns = 0, looks = 0, all_different = 0, moves = 0;
    atomic_store(stop, 1);
    end_all(kind, count, units);
    for (uint64_t i = 0; i < count; i++) {
        moves += histories[i].moves;
        if (histories[i].at[0].ns > begun_ns)
            begun_ns = histories[i].at[0].ns;
    }
    for (uint64_t ns = begun_ns; ns < ended_ns; ns += every_ns) {
        int different;
        uint64_t at_work = look(ns, count, next, &different);
        if (at_work < 2 && at_work < count)
            continue;
        looks++;
        all_different += (uint64_t)different;
    }
    if (looks == 0)
        fail("no two units were at work at the same time");
    printf("done wall_ns=%llu looks=%llu different=%llu moves=%llu\n", (unsigned long long)(ended_ns - begun_ns),
           (unsigned long long)looks, (unsigned long long)all_different, (unsigned long long)moves);
    return 0;
}
