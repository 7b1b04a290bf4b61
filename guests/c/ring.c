/* Passes a token round a ring of units, and says what that took: the experiment `ring`. After lmbench's lat_ctx and
 * source 004's lat_thread_ctx.
 *
 *   ring UNIT MEANS RING BYTES HOP CPUS WARM_NS TIMED_NS DEADLINE_S
 *
 * RING units by UNIT, each of which reads a private array of BYTES when the token comes, and hands it on by MEANS.
 * Where HOP is to-itself there is one unit instead, which sends itself the token through the RING channels one after
 * the other and reads one array, in its cache: the same work without a switch. CPUS are those that the units are pinned
 * to, one after the other.
 *
 * Unit 0 has the clock: laps that last WARM_NS at least are the warm-up, and then as many as last TIMED_NS are timed.
 */

/* Coroutines jump between stacks, which the checked longjmp takes for a fault. */
#undef _FORTIFY_SOURCE
#include "channel.h"
#include <setjmp.h>
#include <ucontext.h>

static const char *const hops[] = {"to-other", "to-itself"};

static struct shared {
    struct start start;
    /* Set before the last token. */
    _Atomic int over;
    struct laps laps;
} *shared;

static struct channel *channels;
static uint64_t ring, words, warm_ns, timed_ns;
static int to_itself;

/* --- The array of a unit. --- */

/* In small pages, whoever asks: threads' arrays lie side by side, and would get huge ones where a process's would not.
 * */
static uint64_t *own_array(void)
{
    if (words == 0)
        return NULL;
    size_t bytes = words * sizeof(uint64_t);
    uint64_t *array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (array == MAP_FAILED)
        fail("mapping an array of %zu bytes: %s", bytes, strerror(errno));
    madvise(array, bytes, MADV_NOHUGEPAGE);
    memset(array, 1, bytes);
    return array;
}

static inline void read_all(const uint64_t *array)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < words; i++)
        sum += array[i];
    __asm__ volatile("" : : "r"(sum) : "memory");
}

/* --- Laps. --- */

static void lap_through_others(void *array)
{
    read_all(array);
    send_token(&channels[1]);
    receive_token(&channels[0]);
}

static void lap_alone(void *array)
{
    for (uint64_t i = 0; i < ring; i++) {
        read_all(array);
        send_token(&channels[i]);
        receive_token(&channels[i]);
    }
}

static void member(uint64_t index)
{
    uint64_t *array = own_array();
    stand_ready(&shared->start);
    if (to_itself) {
        time_laps(lap_alone, array, warm_ns, timed_ns, &shared->laps);
    } else if (index == 0) {
        time_laps(lap_through_others, array, warm_ns, timed_ns, &shared->laps);
        atomic_store(&shared->over, 1);
        send_token(&channels[1]);
        receive_token(&channels[0]);
    } else {
        struct channel *own = &channels[index], *next = &channels[(index + 1) % ring];
        for (;;) {
            receive_token(own);
            if (atomic_load_explicit(&shared->over, memory_order_relaxed))
                break;
            read_all(array);
            send_token(next);
        }
        send_token(next);
    }
}

/* --- Coroutines: the token is the jump. Their contexts are made as the C library does it; it also switches the signal
 * mask at each swapcontext, a system call, which a jump does not. --- */

#ifdef __GLIBC__
static jmp_buf *places;
static ucontext_t first;
/* The one being started. */
static uint64_t starting;
static ucontext_t starting_context;

static inline void jump(uint64_t from, uint64_t to)
{
    if (_setjmp(places[from]) == 0)
        _longjmp(places[to], 1);
}

static void coroutine(void)
{
    uint64_t index = starting, next = (index + 1) % ring;
    uint64_t *array = own_array();
    if (_setjmp(places[index]) == 0)
        swapcontext(&starting_context, &first);
    for (;;) {
        read_all(array);
        jump(index, next);
    }
}

static void lap_of_coroutines(void *array)
{
    read_all(array);
    jump(0, 1);
}

static void run_coroutines(void)
{
    places = calloc(ring, sizeof *places);
    for (starting = 1; starting < ring; starting++) {
        char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (places == NULL || stack == MAP_FAILED)
            refuse(starting + 1, errno);
        getcontext(&starting_context);
        starting_context.uc_stack.ss_sp = stack;
        starting_context.uc_stack.ss_size = STACK_BYTES;
        starting_context.uc_link = NULL;
        makecontext(&starting_context, coroutine, 0);
        swapcontext(&first, &starting_context);
    }
    time_laps(lap_of_coroutines, own_array(), warm_ns, timed_ns, &shared->laps);
}
#else
/* Other C libraries have no calls that make contexts. */
static void run_coroutines(void)
{
    fail("coroutines need makecontext, which this C library lacks");
}
#endif

int main(int argc, char **argv)
{
    if (argc != 10)
        fail("%d arguments; it takes 9", argc - 1);
    end_with_parent((unsigned)number(argv, 9));
    ring = number(argv, 3);
    words = number(argv, 4) / sizeof(uint64_t);
    to_itself = one_of(argv, 5, hops, 2);
    read_cpus(argv[6]);
    warm_ns = number(argv, 7);
    timed_ns = number(argv, 8);
    shared = shared_memory(sizeof *shared);
    if (strcmp(argv[1], "coroutine") == 0) {
        pin(0);
        run_coroutines();
    } else {
        enum kind kind = (enum kind)one_of(argv, 1, kinds, KINDS);
        channels = make_channels((enum means)one_of(argv, 2, all_means, MEANS), kind, ring);
        uint64_t units = to_itself ? 1 : ring;
        end_all(kind, units, start_all(kind, units, member, &shared->start));
    }
    printf("done wall_ns=%llu hops=%llu all_hops=%llu switches=%llu\n", (unsigned long long)shared->laps.wall_ns,
           (unsigned long long)(shared->laps.timed * ring), (unsigned long long)(shared->laps.all * ring),
           (unsigned long long)switches());
    return 0;
}
