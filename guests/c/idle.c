/* Makes processes or threads that do nothing, keeps them all, and says what memory they take: the experiments
 * `footprint` and `limits`.
 *
 *   idle UNIT COUNT STACK_BY STACK_KIB GUARD_KIB ADDRESS_MIB DEADLINE_S
 *
 * COUNT units, UNIT being process (by fork) or thread (with stacks of STACK_KIB by ulimit or attribute, as STACK_BY
 * says, and a guard area of GUARD_KIB). With an ADDRESS_MIB that is not 0 this process may map no more than that
 * (RLIMIT_AS), as the sources' 32-bit processes.
 *
 * No unit is made when less than half is left of the memory that was available at first: others live on this machine.
 * Then `made` is less than COUNT.
 *
 * Memory, in KiB, is read before the first unit and when all wait. `anonymous` is what belongs to the units and to this
 * process, by its proportional share (PSS) where processes have a page in common. The program's and the C library's
 * files are left out: all processes of the machine share them. The rest is of the whole machine.
 */

#include "guest.h"

/* --- What /proc says. --- */

/* The sum of the numbers that follow `name` on the lines of a file; 0 where there are none, or no such file. */
static uint64_t sum_of(const char *path, const char *name)
{
    char line[256];
    unsigned long long value;
    uint64_t sum = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *word = line + strspn(line, " ");
        if (strncmp(word, name, strlen(name)) == 0 && sscanf(word + strlen(name), "%llu", &value) == 1)
            sum += value;
    }
    if (file != NULL)
        fclose(file);
    return sum;
}

static uint64_t of_machine(const char *name)
{
    return sum_of("/proc/meminfo", name);
}

static uint64_t anonymous_kib(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)process);
    return sum_of(path, "Pss_Anon:");
}

/* Free pages that a CPU keeps for itself are available, and the kernel does not count them. They may be hundreds of
 * MiB. */
static uint64_t available_kib(void)
{
    uint64_t page_kib = (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
    return of_machine("MemAvailable:") + sum_of("/proc/zoneinfo", "count:") * page_kib;
}

struct memory {
    uint64_t anonymous, page_tables, kernel_stacks, slab, available;
};

static struct memory memory_of_machine(void)
{
    return (struct memory){
        .page_tables = of_machine("PageTables:"),
        .kernel_stacks = of_machine("KernelStack:"),
        .slab = of_machine("SUnreclaim:"),
        .available = available_kib(),
    };
}

/* The kernel frees what ended processes had some hundredths of a second later: waits until it no longer does. */
static void settle(void)
{
    enum { LONGEST = 100, STEADY = 3, NOISE_KIB = 64 };
    uint64_t last = UINT64_MAX;
    for (int looks = 0, steady = 0; looks < LONGEST && steady < STEADY; looks++) {
        struct memory now = memory_of_machine();
        uint64_t kib = now.page_tables + now.kernel_stacks + now.slab;
        steady = kib + NOISE_KIB >= last ? steady + 1 : 0;
        last = kib;
        usleep(10000);
    }
}

/* --- Units. --- */

union unit {
    pthread_t thread;
    pid_t child;
};

/* In memory that processes share. */
static struct {
    /* What units wait at. */
    _Atomic uint32_t closed;
    /* How many have started. */
    _Atomic uint32_t here;
} *shared;

static pid_t self;
static pthread_attr_t attributes;

static void *live(void *nothing)
{
    atomic_fetch_add_explicit(&shared->here, 1, memory_order_release);
    pass(&shared->closed);
    return nothing;
}

static int make_thread(union unit *unit)
{
    return pthread_create(&unit->thread, &attributes, live, NULL);
}

static int make_process(union unit *unit)
{
    pid_t child = fork();
    if (child == 0) {
        end_with(self);
        live(NULL);
        _exit(0);
    }
    /* In the parent alone: the memory is the child's as well. */
    unit->child = child;
    return child < 0 ? errno : 0;
}

static void end_thread(union unit *unit)
{
    int error = pthread_join(unit->thread, NULL);
    if (error != 0)
        fail("joining a thread: %s", strerror(error));
}

static void end_process(union unit *unit)
{
    wait_for(unit->child);
}

struct kind {
    const char *name;
    int (*make)(union unit *);
    void (*end)(union unit *);
};

static const struct kind kinds[] = {{"process", make_process, end_process}, {"thread", make_thread, end_thread}};

/* Makes units until they are `count` or there is less than `floor_kib` of memory, and returns their number when all
 * wait. */
static uint64_t make(const struct kind *kind, union unit *units, uint64_t count, uint64_t floor_kib)
{
    enum { LOOK_AFTER = 64 };
    uint64_t made = 0;
    atomic_store(&shared->closed, 1);
    atomic_store(&shared->here, 0);
    for (; made < count && (made % LOOK_AFTER != 0 || available_kib() >= floor_kib); made++) {
        int error = kind->make(&units[made]);
        if (error != 0)
            refuse(made + 1, error);
    }
    while (atomic_load_explicit(&shared->here, memory_order_acquire) < made)
        wait_while_starting();
    return made;
}

static void end(const struct kind *kind, union unit *units, uint64_t made)
{
    open_gate(&shared->closed);
    for (uint64_t i = 0; i < made; i++)
        kind->end(&units[i]);
}

int main(int argc, char **argv)
{
    if (argc != 8)
        fail("%d arguments; it takes 7", argc - 1);
    end_with_parent((unsigned)number(argv, 7));
    const struct kind *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, argv[1]) == 0)
            kind = &kinds[i];
    if (kind == NULL)
        fail("there is no unit %s", argv[1]);
    uint64_t count = number(argv, 2), address_mib = number(argv, 6);

    prepare_stacks(&attributes, argv, argv[3], number(argv, 4), number(argv, 5));
    self = getpid();
    shared = shared_memory(sizeof *shared);
    /* Its pages are there before memory is read. */
    union unit *units = shared_memory(count * sizeof *units);
    memset(units, 0, count * sizeof *units);
    limit_address_space(address_mib);

    /* The first unit is no steady cost. */
    end(kind, units, make(kind, units, 1, 0));
    settle();
    struct memory before = memory_of_machine();
    before.anonymous = anonymous_kib(self);
    uint64_t made = make(kind, units, count, before.available / 2);
    struct memory after = memory_of_machine();
    after.anonymous = anonymous_kib(self);
    for (uint64_t i = 0; kind->make == make_process && i < made; i++)
        after.anonymous += anonymous_kib(units[i].child);
    end(kind, units, made);

    printf("done made=%llu anonymous_before_kib=%llu anonymous_kib=%llu page_tables_before_kib=%llu page_tables_kib=%llu "
           "kernel_stacks_before_kib=%llu kernel_stacks_kib=%llu slab_before_kib=%llu slab_kib=%llu available_before_kib=%llu "
           "available_kib=%llu\n",
           (unsigned long long)made, (unsigned long long)before.anonymous, (unsigned long long)after.anonymous,
           (unsigned long long)before.page_tables, (unsigned long long)after.page_tables,
           (unsigned long long)before.kernel_stacks, (unsigned long long)after.kernel_stacks,
           (unsigned long long)before.slab, (unsigned long long)after.slab, (unsigned long long)before.available,
           (unsigned long long)after.available);
    return 0;
}
