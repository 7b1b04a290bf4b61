/* What a program may expect of pthreads, one case each: of the re-created library, and, built without it, of the C
 * library's own, for comparison.
 *
 *   conformance CASE    exits with 0 where all is as expected; `error WORDS` and 1 where it is not. Cases whose end is
 *                       theirs to tell say so below.
 */

#include "../guest.h"

#include <sched.h>
#include <setjmp.h>
#include <sys/syscall.h>

#define EXPECT(what)                                                                                                   \
    do {                                                                                                               \
        if (!(what))                                                                                                   \
            fail("line %d: %s", __LINE__, #what);                                                                      \
    } while (0)

static pthread_t make(void *(*body)(void *), void *with)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, with);
    if (error != 0)
        fail("making a thread: %s", strerror(error));
    return thread;
}

static void *joined(pthread_t thread)
{
    void *value;
    EXPECT(pthread_join(thread, &value) == 0);
    return value;
}

/* --- create, join, detach, exit value --- */

static void *twice(void *of)
{
    return (char *)of + (uintptr_t)of;
}

static void *exits_from_within(void *of)
{
    pthread_exit(of);
}

static void *itself(void *nothing)
{
    (void)nothing;
    return (void *)pthread_self();
}

static void values(void)
{
    pthread_t threads[50];
    for (uintptr_t i = 0; i < 50; i++)
        threads[i] = make(i % 2 ? twice : exits_from_within, (void *)i);
    for (uintptr_t i = 0; i < 50; i++)
        EXPECT(joined(threads[i]) == (void *)(i % 2 ? 2 * i : i));
    pthread_t thread = make(itself, NULL);
    EXPECT(joined(thread) == (void *)thread);
    EXPECT(pthread_join(pthread_self(), NULL) == EDEADLK);
}

/* How many are done with what they do. */
static _Atomic uint32_t done;

static void wait_for_done(uint32_t count)
{
    while (done < count)
        sched_yield();
}

static void *is_done(void *nothing)
{
    done++;
    return nothing;
}

/* Both ways to be detached; and nobody may wait for such a thread. */
static void detached(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        if (i % 2)
            EXPECT(pthread_create(&thread, &attributes, is_done, NULL) == 0);
        else
            EXPECT(pthread_detach(make(is_done, NULL)) == 0);
    }
    wait_for_done(200);
}

/* --- mutexes --- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static uint64_t counted;

enum { COUNTERS = 4, TO_COUNT = 20000 };

static void *counts(void *nothing)
{
    for (int i = 0; i < TO_COUNT; i++) {
        pthread_mutex_lock(&mutex);
        uint64_t now = counted;
        if (i % 1000 == 0)
            sched_yield();
        counted = now + 1;
        pthread_mutex_unlock(&mutex);
    }
    return nothing;
}

static void *tries(void *of)
{
    return (void *)(intptr_t)pthread_mutex_trylock(of);
}

static void *unlocks(void *of)
{
    return (void *)(intptr_t)pthread_mutex_unlock(of);
}

static void mutexes(void)
{
    pthread_t threads[COUNTERS];
    for (int i = 0; i < COUNTERS; i++)
        threads[i] = make(counts, NULL);
    for (int i = 0; i < COUNTERS; i++)
        joined(threads[i]);
    EXPECT(counted == COUNTERS * TO_COUNT);

    pthread_mutex_lock(&mutex);
    EXPECT((intptr_t)joined(make(tries, &mutex)) == EBUSY);
    pthread_mutex_unlock(&mutex);

    pthread_mutexattr_t kind;
    pthread_mutex_t other;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&other, &kind);
    EXPECT(pthread_mutex_lock(&other) == 0 && pthread_mutex_lock(&other) == 0 && pthread_mutex_trylock(&other) == 0);
    EXPECT(pthread_mutex_unlock(&other) == 0 && pthread_mutex_unlock(&other) == 0);
    EXPECT((intptr_t)joined(make(tries, &other)) == EBUSY);
    EXPECT(pthread_mutex_unlock(&other) == 0);
    EXPECT(pthread_mutex_destroy(&other) == 0);

    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&other, &kind);
    EXPECT(pthread_mutex_unlock(&other) == EPERM);
    EXPECT(pthread_mutex_lock(&other) == 0 && pthread_mutex_lock(&other) == EDEADLK);
    EXPECT((intptr_t)joined(make(unlocks, &other)) == EPERM);
    EXPECT(pthread_mutex_unlock(&other) == 0);
}

/* --- conditions --- */

enum { PAIRS = 5000, LISTENERS = 20 };
static uint64_t turn;

static void take_turns(uint64_t own)
{
    for (int i = 0; i < PAIRS; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % 2 != own)
            pthread_cond_wait(&condition, &mutex);
        turn++;
        pthread_mutex_unlock(&mutex);
        pthread_cond_signal(&condition);
    }
}

static void *takes_odd_turns(void *nothing)
{
    take_turns(1);
    return nothing;
}

static int told;

static void *listens(void *nothing)
{
    pthread_mutex_lock(&mutex);
    done++;
    while (!told)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return nothing;
}

static void conditions(void)
{
    pthread_t other = make(takes_odd_turns, NULL);
    take_turns(0);
    joined(other);
    EXPECT(turn == 2 * PAIRS);

    pthread_t listeners[LISTENERS];
    for (int i = 0; i < LISTENERS; i++)
        listeners[i] = make(listens, NULL);
    wait_for_done(LISTENERS);
    pthread_mutex_lock(&mutex);
    told = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < LISTENERS; i++)
        joined(listeners[i]);
}

static void *signals_at_any_time(void *nothing)
{
    while (!done)
        pthread_cond_signal(&condition);
    return nothing;
}

/* A time that is over, one that comes, and many that come just when somebody signals. */
static void timed(void)
{
    struct timespec until;
    pthread_mutex_lock(&mutex);
    clock_gettime(CLOCK_REALTIME, &until);
    EXPECT(pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT);
    until.tv_nsec = 1000000000;
    EXPECT(pthread_cond_timedwait(&condition, &mutex, &until) == EINVAL);
    uint64_t before_ns = now_ns();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    EXPECT(pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT);
    EXPECT(now_ns() - before_ns >= 19000000);
    pthread_mutex_unlock(&mutex);

    pthread_t other = make(signals_at_any_time, NULL);
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&mutex);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000 * (i % 100);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        int error = pthread_cond_timedwait(&condition, &mutex, &until);
        EXPECT(error == 0 || error == ETIMEDOUT);
        pthread_mutex_unlock(&mutex);
    }
    done = 1;
    joined(other);
}

/* --- once, and keys --- */

static pthread_once_t only = PTHREAD_ONCE_INIT;
static int made_once;

static void make_once(void)
{
    usleep(10000);
    made_once++;
}

static void *calls_once(void *nothing)
{
    pthread_once(&only, make_once);
    EXPECT(made_once == 1);
    return nothing;
}

static void once(void)
{
    pthread_t threads[10];
    for (int i = 0; i < 10; i++)
        threads[i] = make(calls_once, NULL);
    for (int i = 0; i < 10; i++)
        joined(threads[i]);
}

static pthread_key_t key, key_of_destructor;
static _Atomic uint32_t destroyed, destroyed_again;

static void destroys(void *of)
{
    EXPECT(*(int *)of == 7);
    free(of);
    destroyed++;
    pthread_setspecific(key_of_destructor, &destroyed_again);
}

static void destroys_again(void *of)
{
    EXPECT(of == &destroyed_again);
    destroyed_again++;
}

static void *has_values(void *of)
{
    int *value = malloc(sizeof *value);
    *value = 7;
    EXPECT(pthread_getspecific(key) == NULL);
    EXPECT(pthread_setspecific(key, value) == 0);
    EXPECT(pthread_getspecific(key) == value);
    return of;
}

static void by_key(void)
{
    EXPECT(pthread_key_create(&key, destroys) == 0);
    EXPECT(pthread_key_create(&key_of_destructor, destroys_again) == 0);
    pthread_t threads[10];
    for (int i = 0; i < 10; i++)
        threads[i] = make(has_values, NULL);
    for (int i = 0; i < 10; i++)
        joined(threads[i]);
    EXPECT(destroyed == 10 && destroyed_again == 10);

    int old;
    pthread_key_t again;
    EXPECT(pthread_setspecific(key, &old) == 0 && pthread_key_delete(key) == 0 && pthread_key_delete(key) == EINVAL);
    EXPECT(pthread_key_create(&again, NULL) == 0);
    EXPECT(pthread_getspecific(again) == NULL);
}

/* --- the C library in many threads: their own errno and variables, and its locks --- */

static __thread int of_thread;

static void *uses_the_library(void *of)
{
    int index = (int)(intptr_t)of;
    of_thread = index;
    FILE *sink = fopen("/dev/null", "w");
    for (int i = 0; i < 300; i++) {
        errno = index;
        size_t size = (size_t)(1 + (index * 37 + i * 101) % 5000);
        unsigned char *memory = malloc(size);
        memset(memory, index, size);
        fprintf(sink, "%d %zu\n", index, size);
        sched_yield();
        EXPECT(memory[0] == (unsigned char)index && memory[size - 1] == (unsigned char)index);
        free(memory);
        EXPECT(errno == index && of_thread == index);
        jmp_buf place;
        if (_setjmp(place) == 0)
            _longjmp(place, 1);
    }
    fclose(sink);
    return NULL;
}

static void library(void)
{
    pthread_t threads[16];
    of_thread = 99;
    for (intptr_t i = 0; i < 16; i++)
        threads[i] = make(uses_the_library, (void *)(i + 1));
    for (int i = 0; i < 16; i++)
        joined(threads[i]);
    EXPECT(of_thread == 99);
}

/* --- a thousand at once, again and again --- */

static _Atomic uint32_t closed = 1;

static void *waits(void *of)
{
    done++;
    pass(&closed);
    return of;
}

static void thousand(void)
{
    enum { MANY = 1000 };
    static pthread_t threads[MANY];
    for (int round = 0; round < 3; round++) {
        closed = 1;
        done = 0;
        for (uintptr_t i = 0; i < MANY; i++)
            threads[i] = make(waits, (void *)i);
        wait_for_done(MANY);
        open_gate(&closed);
        for (uintptr_t i = 0; i < MANY; i++)
            EXPECT(joined(threads[i]) == (void *)i);
    }
}

/* A stack of the caller's is used, and a size that is asked for is there. */
static void *fills_its_stack(void *of)
{
    volatile char local[600 * 1024];
    memset((char *)local, 1, sizeof local);
    return (char *)of + local[0] - 1;
}

static void stacks(void)
{
    enum { BYTES = 1 << 20 };
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    EXPECT(pthread_attr_setstacksize(&attributes, BYTES) == 0);
    EXPECT(pthread_create(&thread, &attributes, fills_its_stack, stacks) == 0 && joined(thread) == stacks);
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pthread_attr_setstack(&attributes, memory, BYTES) == 0);
    EXPECT(pthread_create(&thread, &attributes, fills_its_stack, memory) == 0 && joined(thread) == memory);
    int was_used = 0;
    for (size_t i = 0; i < BYTES; i++)
        was_used |= memory[i];
    EXPECT(was_used);
}

/* Without room for a stack there is none, and with room again there is. */
static void refused(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    EXPECT(pthread_attr_setstacksize(&attributes, (size_t)1 << 47) == 0);
    EXPECT(pthread_create(&thread, &attributes, twice, NULL) == EAGAIN);
    EXPECT(joined(make(twice, (void *)4)) == (void *)8);
}

/* A signal to one thread is handled by that one. */
static _Atomic pthread_t handled_by;

static void on_signal(int signal)
{
    (void)signal;
    handled_by = pthread_self();
}

static void *waits_for_a_signal(void *nothing)
{
    done++;
    while (!handled_by)
        usleep(1000);
    return nothing;
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread = make(waits_for_a_signal, NULL);
    wait_for_done(1);
    EXPECT(pthread_kill(thread, SIGUSR1) == 0);
    joined(thread);
    EXPECT(handled_by == thread);
}

/* What threads have used is known when they are joined, if not of the last. */
static void *burns(void *nothing)
{
    uint64_t until_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 10000000;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns) {
    }
    return nothing;
}

static void usage(void)
{
    uint64_t before_ns = cpu_ns();
    for (int i = 0; i < 6; i++)
        joined(make(burns, NULL));
    EXPECT(cpu_ns() - before_ns >= 50000000);
}

/* --- ends of the program: each leaves nobody behind --- */

static void *ends_late(void *nothing)
{
    usleep(50000);
    printf("late\n");
    return nothing;
}

/* The first thread exits early: says `late` and exits with 0. */
static void first_exits(void)
{
    make(ends_late, NULL);
    pthread_exit(NULL);
}

static void *calls_exit(void *nothing)
{
    (void)nothing;
    printf("flushed\n");
    exit(7);
}

static void make_waiters(void)
{
    for (int i = 0; i < 20; i++)
        make(waits, NULL);
    wait_for_done(20);
}

__attribute__((noreturn)) static void wait_for_ever(void)
{
    for (;;)
        pause();
}

/* A thread calls exit: says `flushed` and exits with 7. */
static void thread_exits(void)
{
    make_waiters();
    make(calls_exit, NULL);
    wait_for_ever();
}

/* The first thread returns while others wait: exits with 0. */
static void first_returns(void)
{
    make_waiters();
}

static void *crashes(void *nothing)
{
    (void)nothing;
    raise(SIGSEGV);
    return NULL;
}

/* A thread is ended by a signal: so is the program. */
static void thread_crashes(void)
{
    leave_no_core();
    make_waiters();
    make(crashes, NULL);
    wait_for_ever();
}

static void *says_its_parent(void *nothing)
{
    (void)nothing;
    printf("parent=%d\n", (int)getppid());
    fflush(stdout);
    return NULL;
}

/* Says what the parent of a thread is, and waits: to be killed, or to hear of the parent's end. */
static void waiting(void)
{
    make_waiters();
    joined(make(says_its_parent, NULL));
    wait_for_ever();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"values", values},       {"detached", detached},         {"mutexes", mutexes},
        {"conditions", conditions}, {"timed", timed},             {"once", once},
        {"keys", by_key},         {"library", library},           {"thousand", thousand},
        {"stacks", stacks},       {"refused", refused},           {"signals", signals},
        {"usage", usage},
        {"first-exits", first_exits}, {"thread-exits", thread_exits}, {"first-returns", first_returns},
        {"thread-crashes", thread_crashes}, {"waiting", waiting},
    };
    if (argc != 2)
        fail("%d arguments; it takes 1", argc - 1);
    end_with_parent(60);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fail("there is no case %s", argv[1]);
}
