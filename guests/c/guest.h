/* What the programs share that make processes and threads for an experiment: the clock, arguments, how they answer, and
 * a gate that units wait at.
 *
 * A program prints one line and ends:
 *
 *   done NAME=NUMBER …        its figures, in a fixed order; exit code 0
 *   refused unit=N errno=E    the system refused unit N. It then waits to be killed, so that whoever started it can
 *                             still see what is in use
 *   error WORDS               anything else that went wrong; exit code 1
 *
 * It is killed when the thread that started it ends, and when its deadline is over. A child of its own that might
 * outlive it asks for the same.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

__attribute__((noreturn, format(printf, 1, 2))) static inline void fail(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    printf("error ");
    vprintf(format, words);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

/* Tells that unit `number`, counted from 1, was refused with `error`, while those before it are still there. */
__attribute__((noreturn)) static inline void refuse(uint64_t number, int error)
{
    printf("refused unit=%llu errno=%d\n", (unsigned long long)number, error);
    fflush(stdout);
    for (;;)
        pause();
}

/* The `index`th argument, a number. */
static inline uint64_t number(char **argv, int index)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(argv[index], &end, 10);
    if (errno != 0 || end == argv[index] || *end != '\0')
        fail("argument %d is %s; it must be a number", index, argv[index]);
    return value;
}

/* To be killed when the parent ends, and at the latest after so many seconds. */
static inline void end_with_parent(unsigned seconds)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        fail("the parent's end cannot be heard of: %s", strerror(errno));
    alarm(seconds);
}

/* The same for a child of process `parent` which may wait for ever. No deadline: its parent has one. */
static inline void end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

/* This process is about to crash: no core file, and no program that the system calls to collect one. */
static inline void leave_no_core(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
}

static inline void limit_address_space(uint64_t mib)
{
    struct rlimit limit = {mib << 20, mib << 20};
    if (mib > 0 && setrlimit(RLIMIT_AS, &limit) != 0)
        fail("limiting the address space to %llu MiB: %s", (unsigned long long)mib, strerror(errno));
}

/* What a program of 32 bits has of its addresses, as under a kernel of 32 bits: under one of 64 it would have 4 GiB. In
 * the legacy layout mappings begin at a third of them, which leaves 2 GiB for stacks. */
#ifdef LEGACY_LAYOUT
enum { ADDRESSES = ADDR_LIMIT_3GB | ADDR_COMPAT_LAYOUT };
#else
enum { ADDRESSES = ADDR_LIMIT_3GB };
#endif

/* Begins this program anew where what it is to have is fixed at its start, and prepares what threads are made with.
 *
 * BY is ulimit or attribute: the C library gives a thread that has no stack size of its own that of `ulimit -s`, which
 * it reads when a program starts. A program of 32 bits gets its 3 GiB of address space. The guard area of a stack is
 * GUARD_KIB. */
static inline void prepare_stacks(pthread_attr_t *attributes, char **argv, const char *by, uint64_t stack_kib,
                                  uint64_t guard_kib)
{
    static const char begun_anew[] = "THREADGAUGE_GUEST_BEGUN_ANEW";
    int by_ulimit = strcmp(by, "ulimit") == 0;
    if (!by_ulimit && strcmp(by, "attribute") != 0)
        fail("a stack by %s; it must be by ulimit or attribute", by);
    if ((by_ulimit || sizeof(void *) == 4) && getenv(begun_anew) == NULL) {
        struct rlimit stack;
        getrlimit(RLIMIT_STACK, &stack);
        stack.rlim_cur = (rlim_t)(stack_kib << 10);
        if (by_ulimit && setrlimit(RLIMIT_STACK, &stack) != 0)
            fail("ulimit -s %llu: %s", (unsigned long long)stack_kib, strerror(errno));
        if (sizeof(void *) == 4 && personality(ADDRESSES) < 0)
            fail("an address space of 3 GiB: %s", strerror(errno));
        setenv(begun_anew, "1", 1);
        execv("/proc/self/exe", argv);
        fail("beginning anew: %s", strerror(errno));
    }
    pthread_attr_init(attributes);
    int error = by_ulimit ? 0 : pthread_attr_setstacksize(attributes, (size_t)(stack_kib << 10));
    if (error == 0)
        error = pthread_attr_setguardsize(attributes, (size_t)(guard_kib << 10));
    if (error != 0)
        fail("stacks of %llu KiB with a guard of %llu: %s", (unsigned long long)stack_kib, (unsigned long long)guard_kib,
             strerror(error));
}

static inline void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mapping %zu bytes to share: %s", bytes, strerror(errno));
    return memory;
}

/* What units sleep at while it is closed; in memory that processes share. */
static inline void pass(_Atomic uint32_t *closed)
{
    while (atomic_load_explicit(closed, memory_order_acquire))
        syscall(SYS_futex, closed, FUTEX_WAIT, 1, NULL, NULL, 0);
}

static inline void open_gate(_Atomic uint32_t *closed)
{
    atomic_store_explicit(closed, 0, memory_order_release);
    syscall(SYS_futex, closed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Waits for a child, which must have ended with 0. */
static inline void wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail("waiting for a child: %s", strerror(errno));
    if (WIFSIGNALED(status))
        fail("a child was ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) == 127)
        fail("a child could not execute the program");
    if (WEXITSTATUS(status) != 0)
        fail("a child ended with exit code %d", WEXITSTATUS(status));
}

/* Sleeps a little, for whoever waits until all units have started. A child that has ended instead never will. */
static inline void wait_while_starting(void)
{
    siginfo_t ended = {0};
    usleep(200);
    if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
        wait_for(ended.si_pid);
}

static inline uint64_t ns_of(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

/* CPU time of this process and of the children that it has waited for. */
static inline uint64_t cpu_ns(void)
{
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) + ns_of(children.ru_utime) + ns_of(children.ru_stime);
}
