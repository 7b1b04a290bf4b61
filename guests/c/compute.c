/* The same computation by processes and by threads: the experiment `compute`.
 *
 *   compute UNIT WORK COUNT KSTEPS CPUS DEADLINE_S
 *
 * COUNT units compute KSTEPS thousand steps each, and the clock goes from before the first is made until the last has
 * ended. They are pinned to CPUS, one after the other, unless that is `-`.
 *
 * integer: a step is a multiplication and an addition in registers. matrix: rows of the product of two matrices that
 * were there before the first unit; four of these are a step.
 *
 * `computing_ns` is the CPU time of the computing alone, of all units together; `cpu_ns` what the program used while
 * the clock ran. `result` is the same for every kind of unit.
 */

#include "channel.h"

enum { SIDE = 128, STEPS_TO_A_ROW = SIDE * SIDE / 4 };

enum work { INTEGER, MATRIX, WORKS };

static const char *const works[] = {"integer", "matrix"};

static enum work work;
static uint64_t steps;
static double left[SIDE][SIDE], right[SIDE][SIDE];

/* What a unit found; in memory that all share. */
static struct found {
    uint64_t computing_ns, result;
} __attribute__((aligned(64))) *found;

static uint64_t count_in_registers(void)
{
    uint64_t value = 1;
    for (uint64_t step = 0; step < steps; step++) {
        value = value * 6364136223846793005u + step;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

static uint64_t multiply_rows(void)
{
    double row[SIDE], sum = 0;
    for (uint64_t done = 0; done < steps; done += STEPS_TO_A_ROW) {
        const double *factors = left[done / STEPS_TO_A_ROW % SIDE];
        memset(row, 0, sizeof row);
        for (int k = 0; k < SIDE; k++)
            for (int j = 0; j < SIDE; j++)
                row[j] += factors[k] * right[k][j];
        sum += row[done / STEPS_TO_A_ROW % SIDE];
        __asm__ volatile("" : : "r"(row) : "memory");
    }
    /* All numbers are small and whole. */
    return (uint64_t)sum;
}

static void compute(uint64_t index)
{
    uint64_t begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    found[index].result = work == INTEGER ? count_in_registers() : multiply_rows();
    found[index].computing_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        fail("%d arguments; it takes 6", argc - 1);
    end_with_parent((unsigned)number(argv, 6));
    enum kind kind = (enum kind)one_of(argv, 1, kinds, KINDS);
    work = (enum work)one_of(argv, 2, works, WORKS);
    uint64_t count = number(argv, 3);
    steps = number(argv, 4) * 1000;
    read_cpus(argv[5]);
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            left[i][j] = (i + j) % 7;
            right[i][j] = (i * j) % 5;
        }
    found = shared_memory(count * sizeof *found);
    struct unit *units = shared_memory(count * sizeof *units);
    memset(found, 0, count * sizeof *found);
    memset(units, 0, count * sizeof *units);

    uint64_t used_ns = cpu_ns(), begun_ns = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        units[i].index = i;
        units[i].body = compute;
        int error = start(kind, &units[i]);
        if (error != 0)
            refuse(i + 1, error);
    }
    end_all(kind, count, units);
    uint64_t wall_ns = now_ns() - begun_ns;
    used_ns = cpu_ns() - used_ns;

    uint64_t computing_ns = 0;
    for (uint64_t i = 0; i < count; i++) {
        computing_ns += found[i].computing_ns;
        if (found[i].result != found[0].result)
            fail("unit %llu computed %llu, the first %llu", (unsigned long long)i + 1,
                 (unsigned long long)found[i].result, (unsigned long long)found[0].result);
    }
    printf("done wall_ns=%llu computing_ns=%llu cpu_ns=%llu result=%llu\n", (unsigned long long)wall_ns,
           (unsigned long long)computing_ns, (unsigned long long)used_ns, (unsigned long long)found[0].result);
    return 0;
}
