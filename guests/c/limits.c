/* What happens past a limit: the experiment `limits`.
 *
 *   limits unchecked COUNT STACK_BY STACK_KIB GUARD_KIB ADDRESS_MIB TRIALS DEADLINE_S
 *   limits recursion 1 STACK_BY STACK_KIB GUARD_KIB ADDRESS_MIB TRIALS DEADLINE_S
 *   limits growing CALLS STACK_BY STACK_KIB GUARD_KIB ADDRESS_MIB TRIALS DEADLINE_S
 *
 * TRIALS processes, one after the other, each with ADDRESS_MIB of address space (all there is, where that is 0).
 *
 * unchecked: starts COUNT threads with stacks of STACK_KIB and joins them all, without looking at whether they were
 * made, as source 003's program does. Its array of handles is local and not initialised; here each trial fills it with
 * the next pattern, so that what a stack may hold is tried. recursion: a thread calls itself until its stack is used
 * up; `depth` is its number of calls. growing: a thread is to make CALLS such calls; below its stack lies a guard area,
 * and a handler of SIGSEGV on a stack of its own gets it out of there. It is begun anew on a stack of twice the size at
 * another address, until one is large enough; `grown` is how often.
 *
 * `ended_well` of them ended with 0, `segfaults` by SIGSEGV, `signals` by another signal, `hung` waited for a thread
 * that was never made, and the unchecked had `made` threads together.
 */

#include "guest.h"

#include <setjmp.h>

/* In memory that processes share. */
static struct {
    /* What threads wait at until all were tried. */
    _Atomic uint32_t closed;
    /* Threads that were made, in all trials: the trial itself does not look. */
    volatile uint64_t made;
    volatile uint64_t depth;
    volatile uint64_t grown;
} *shared;

static pthread_attr_t attributes;

static void *wait_here(void *nothing)
{
    pass(&shared->closed);
    return nothing;
}

/* What the words of an array may be that nobody has initialised. */
enum pattern { ZEROS, ONES, SMALL_NUMBERS, OF_THE_STACK, OF_THE_HEAP, RANDOM, PATTERNS };

static void fill(uintptr_t *words, uint64_t count, enum pattern pattern)
{
    uint64_t random = now_ns() | 1;
    for (uint64_t i = 0; i < count; i++) {
        /* xorshift64 */
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        switch (pattern) {
        case ZEROS: words[i] = 0; break;
        case ONES: words[i] = UINTPTR_MAX; break;
        case SMALL_NUMBERS: words[i] = i + 1; break;
        case OF_THE_STACK: words[i] = (uintptr_t)__builtin_frame_address(0) + random % 64 * sizeof *words; break;
        case OF_THE_HEAP: words[i] = (uintptr_t)&words[random % count]; break;
        default: words[i] = (uintptr_t)random; break;
        }
    }
}

static void start_and_join(uint64_t count, enum pattern pattern)
{
    pthread_t *threads = malloc(count * sizeof *threads);
    if (threads == NULL)
        _exit(1);
    fill((uintptr_t *)threads, count, pattern);
    for (uint64_t i = 0; i < count; i++)
        shared->made += pthread_create(&threads[i], &attributes, wait_here, NULL) == 0;
    open_gate(&shared->closed);
    for (uint64_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* Calls after which it is enough. */
static uint64_t deepest = UINT64_MAX;

/* 256 bytes of local data and what a call takes. */
__attribute__((noinline)) static uint64_t deeper(uint64_t depth)
{
    volatile char local[256];
    local[depth % sizeof local] = (char)depth;
    shared->depth = depth;
    return depth == deepest ? 0 : deeper(depth + 1) + (uint64_t)local[depth % sizeof local];
}

static void *recurse(void *nothing)
{
    deeper(1);
    return nothing;
}

static void use_up_stack(void)
{
    pthread_t thread;
    if (pthread_create(&thread, &attributes, recurse, NULL) == 0)
        pthread_join(thread, NULL);
    _exit(1);
}

/* --- The way past a full stack. --- */

/* Below the stack of the thread that climbs. */
static char *guard, *guard_end;
static sigjmp_buf out;

/* On a stack of its own, since that of the thread is full. Anything but the guard is a fault as any other. */
static void leave_full_stack(int signal, siginfo_t *fault, void *nothing)
{
    char *at = fault->si_addr;
    (void)nothing;
    if (at >= guard && at < guard_end)
        siglongjmp(out, 1);
    struct sigaction as_usual = {.sa_handler = SIG_DFL};
    sigaction(signal, &as_usual, NULL);
}

/* Returns `done` where its stack was large enough. */
static void *climb(void *done)
{
    stack_t own = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    struct sigaction full = {.sa_sigaction = leave_full_stack, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (own.ss_sp == NULL || sigaltstack(&own, NULL) != 0 || sigaction(SIGSEGV, &full, NULL) != 0)
        _exit(1);
    void *volatile enough = NULL;
    if (sigsetjmp(out, 1) == 0) {
        deeper(1);
        enough = done;
    }
    own.ss_flags = SS_DISABLE;
    sigaltstack(&own, NULL);
    free(own.ss_sp);
    return enough;
}

static void climb_on_larger_stacks(uint64_t stack_kib, uint64_t guard_kib)
{
    char *last = NULL;
    size_t last_bytes = 0, guard_bytes = (size_t)(guard_kib << 10), stack_bytes = (size_t)(stack_kib << 10);
    for (;; stack_bytes *= 2, shared->grown++) {
        size_t bytes = guard_bytes + stack_bytes;
        guard = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (guard == MAP_FAILED || mprotect(guard, guard_bytes, PROT_NONE) != 0)
            _exit(1);
        guard_end = guard + guard_bytes;
        /* Kept until now, so that the larger one lies elsewhere. */
        if (last != NULL)
            munmap(last, last_bytes);
        last = guard;
        last_bytes = bytes;
        pthread_attr_t own;
        pthread_t thread;
        void *done = NULL;
        pthread_attr_init(&own);
        if (pthread_attr_setstack(&own, guard_end, stack_bytes) != 0 || pthread_create(&thread, &own, climb, guard_end) != 0)
            _exit(1);
        pthread_join(thread, &done);
        pthread_attr_destroy(&own);
        if (done != NULL)
            return;
    }
}

/* Whether a trial has opened its gate and its first thread sleeps alone: nobody is left to wake it. */
static int waits_for_nobody(pid_t trial)
{
    char path[64], line[256], state = 0;
    unsigned long threads = 0;
    if (atomic_load(&shared->closed))
        return 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)trial);
    FILE *status = fopen(path, "r");
    if (status == NULL)
        return 0;
    while (fgets(line, sizeof line, status) != NULL) {
        sscanf(line, "State: %c", &state);
        sscanf(line, "Threads: %lu", &threads);
    }
    fclose(status);
    return state == 'S' && threads == 1;
}

/* Waits for the end of a trial; whether it hung, and was killed for that. */
static int hangs(pid_t trial, int *status)
{
    const struct timespec pause = {0, 1000000};
    /* A thread that is about to be woken by the last other one sleeps alone for a moment. */
    for (int alone = 0; alone < 5;) {
        pid_t ended = waitpid(trial, status, WNOHANG);
        if (ended == trial)
            return 0;
        if (ended < 0 && errno != EINTR)
            fail("waiting for a trial: %s", strerror(errno));
        alone = waits_for_nobody(trial) ? alone + 1 : 0;
        nanosleep(&pause, NULL);
    }
    kill(trial, SIGKILL);
    while (waitpid(trial, status, 0) < 0)
        if (errno != EINTR)
            fail("waiting for a trial: %s", strerror(errno));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 9)
        fail("%d arguments; it takes 8", argc - 1);
    end_with_parent((unsigned)number(argv, 8));
    int recursion = strcmp(argv[1], "recursion") == 0, growing = strcmp(argv[1], "growing") == 0;
    if (!recursion && !growing && strcmp(argv[1], "unchecked") != 0)
        fail("there is no trial %s", argv[1]);
    uint64_t count = number(argv, 2), stack_kib = number(argv, 4), guard_kib = number(argv, 5);
    uint64_t address_mib = number(argv, 6), trials = number(argv, 7);
    prepare_stacks(&attributes, argv, argv[3], stack_kib, guard_kib);
    if (growing)
        deepest = count;
    shared = shared_memory(sizeof *shared);

    uint64_t ended_well = 0, segfaults = 0, signals = 0, hung = 0;
    pid_t self = getpid();
    for (uint64_t i = 0; i < trials; i++) {
        atomic_store(&shared->closed, 1);
        pid_t child = fork();
        if (child == 0) {
            end_with(self);
            leave_no_core();
            limit_address_space(address_mib);
            if (recursion)
                use_up_stack();
            else if (growing)
                climb_on_larger_stacks(stack_kib, guard_kib);
            else
                start_and_join(count, (enum pattern)(i % PATTERNS));
            _exit(0);
        }
        int status;
        if (child < 0)
            refuse(i + 1, errno);
        if (hangs(child, &status)) {
            hung++;
            continue;
        }
        int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (signal == SIGKILL)
            fail("a trial was ended by signal %d", SIGKILL);
        ended_well += status == 0;
        segfaults += signal == SIGSEGV;
        signals += signal != 0 && signal != SIGSEGV;
    }
    printf("done trials=%llu ended_well=%llu segfaults=%llu signals=%llu hung=%llu made=%llu depth=%llu grown=%llu\n",
           (unsigned long long)trials, (unsigned long long)ended_well, (unsigned long long)segfaults,
           (unsigned long long)signals, (unsigned long long)hung, (unsigned long long)shared->made,
           (unsigned long long)shared->depth, (unsigned long long)shared->grown);
    return 0;
}
