/* See linuxthreads.h. Below: threads and what they wait in, the manager, the end of the program, and then each part of
 * the interface. */

#include "linuxthreads.h"
/* Here those of the C library are meant. */
#undef getrusage
#undef pthread_create
#undef pthread_join

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(__x86_64__) || !defined(__GLIBC__)
#error "threads of their own processes need thread-local storage, which is made here for glibc on x86-64 alone"
#endif

/* ---- threads ---- */

enum { KEYS = 1024, BLOCK = 32, DESTROY_ROUNDS = 4 };

/* What a thread has by a key, and which of the keys of that number it was. */
struct value {
    const void *value;
    unsigned long of;
};

struct thread {
    /* Those that live, the newest first: the manager's. */
    struct thread *next;
    /* Written by the kernel before the thread runs. */
    pid_t pid;
    void *(*body)(void *);
    void *with;
    sigset_t mask;
    /* Set before the restart signal is sent: it is let go on. */
    atomic_int restarted;
    /* Behind it in the queue that it waits in, which is whose lock this needs. */
    struct thread *behind;
    /* Guards what follows. */
    atomic_int lock;
    bool ended, detached;
    struct thread *joiner;
    void *value;
    /* The manager's: its process is gone; nobody will ask for it. */
    bool reaped, unwanted;
    /* What was mapped for it; none where its stack was given. */
    void *mapped;
    size_t mapped_bytes;
    void *storage;
    struct value *values[KEYS / BLOCK];
};

/* The one that is not the manager's child. */
static struct thread first;
static __thread struct thread *own;

static struct thread *self(void)
{
    return own ? own : &first;
}

static void hold(atomic_int *lock)
{
    for (unsigned tries = 1; atomic_exchange_explicit(lock, 1, memory_order_acquire); tries++)
        if (tries % 64 == 0)
            sched_yield();
}

static void release(atomic_int *lock)
{
    atomic_store_explicit(lock, 0, memory_order_release);
}

/* ---- waiting: by a signal that is blocked wherever nobody waits ---- */

static int restart_signal(void)
{
    return SIGRTMIN;
}

static void on_restart(int signal)
{
    (void)signal;
}

static void restart(struct thread *thread)
{
    /* It may be gone as soon as it can go on. */
    pid_t pid = thread->pid;
    atomic_store(&thread->restarted, 1);
    kill(pid, restart_signal());
}

/* Sleeps until it is restarted, or until `until` by the clock of the day. Whether it was restarted. */
static bool suspend_until(struct thread *thread, const struct timespec *until)
{
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigdelset(&mask, restart_signal());
    /* The signal may be one of before; one that comes after the look waits for the sleep. */
    while (!atomic_exchange(&thread->restarted, 0)) {
        if (!until) {
            sigsuspend(&mask);
            continue;
        }
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        struct timespec left = {until->tv_sec - now.tv_sec, until->tv_nsec - now.tv_nsec};
        if (left.tv_nsec < 0) {
            left.tv_sec--;
            left.tv_nsec += 1000000000;
        }
        if (left.tv_sec < 0)
            return false;
        ppoll(NULL, 0, &left, &mask);
    }
    return true;
}

static void suspend(struct thread *thread)
{
    suspend_until(thread, NULL);
}

/* Who waits, the longest first. */
struct queue {
    struct thread *first, *last;
};

static void join_queue(struct queue *queue, struct thread *thread)
{
    thread->behind = NULL;
    *(queue->first ? &queue->last->behind : &queue->first) = thread;
    queue->last = thread;
}

static struct thread *leave_queue(struct queue *queue)
{
    struct thread *thread = queue->first;
    if (thread)
        queue->first = thread->behind;
    return thread;
}

/* Whether it was still there. */
static bool leave_queue_early(struct queue *queue, struct thread *thread)
{
    struct thread *before = NULL;
    for (struct thread *at = queue->first; at; before = at, at = at->behind) {
        if (at != thread)
            continue;
        *(before ? &before->behind : &queue->first) = at->behind;
        if (queue->last == at)
            queue->last = before;
        return true;
    }
    return false;
}

/* ---- the manager ---- */

struct request {
    enum { MAKE, FORGET, FIRST_ENDS, PROGRAM_ENDS, TELL_USAGE } what;
    /* Whoever asks; of FORGET whoever is not asked for any more. */
    struct thread *thread;
    /* The thread to be made, and where an error's number is to be told. */
    struct thread *made;
    size_t stack_bytes;
    int *error;
    int code;
    /* Where what was used is to be told. */
    struct rusage *usage;
};

static struct thread manager;
static int asking, asked;
static struct thread *alive;
/* Who ends the program, and with which code. */
static struct thread *_Atomic ending;
static atomic_int end_code;

/* What a child that ends sends to the manager, and the manager to the first thread. */
static int end_signal(void)
{
    return SIGRTMIN + 1;
}

extern void *_dl_allocate_tls(void *);
extern void _dl_deallocate_tls(void *, bool);
extern void __ctype_init(void);
/* Where the kernel may write on which CPU a thread is; there since glibc 2.35. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));

/* Storage for a thread: its own copy of thread-local variables, and in front the few words that the compiler and the C
 * library look for at fixed places. NULL without memory. */
static char *make_storage(void)
{
    enum { OWN = 0x00, OWN_TOO = 0x10, HAS_THREADS = 0x18, STACK_GUARD = 0x28, POINTER_GUARD = 0x30 };
    char *storage = _dl_allocate_tls(NULL);
    if (!storage)
        return NULL;
    uintptr_t stack_guard, pointer_guard;
    __asm__("mov %%fs:%c1, %0" : "=r"(stack_guard) : "i"(STACK_GUARD));
    __asm__("mov %%fs:%c1, %0" : "=r"(pointer_guard) : "i"(POINTER_GUARD));
    *(void **)(storage + OWN) = *(void **)(storage + OWN_TOO) = storage;
    *(int *)(storage + HAS_THREADS) = 1;
    *(uintptr_t *)(storage + STACK_GUARD) = stack_guard;
    *(uintptr_t *)(storage + POINTER_GUARD) = pointer_guard;
    /* It is not told on which CPU it is, and has to ask. */
    if (&__rseq_offset)
        *(int32_t *)(storage + __rseq_offset + 4) = -1;
    return storage;
}

/* A process that begins with `body`, shares all that threads do, and sends the end signal when it is gone. 0, or an
 * error's number. */
static int begin(struct thread *thread, int (*body)(void *), char *stack_end)
{
    enum { SHARED = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM };
    thread->storage = make_storage();
    if (!thread->storage)
        return ENOMEM;
    int flags = SHARED | CLONE_SETTLS | CLONE_PARENT_SETTID | end_signal();
    if (clone(body, stack_end, flags, thread, &thread->pid, thread->storage, NULL) >= 0)
        return 0;
    int error = errno;
    _dl_deallocate_tls(thread->storage, true);
    return error;
}

/* A process whose parent is dead ends: of the manager the first thread, of a thread the manager. */
static void end_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

static int live(void *of)
{
    own = of;
    end_with_parent(manager.pid);
    __ctype_init();
    sigprocmask(SIG_SETMASK, &own->mask, NULL);
    lt_exit(own->body(own->with));
}

static void make(const struct request *request)
{
    struct thread *thread = request->made;
    thread->next = alive;
    alive = thread;
    /* The thread lies at the end of its stack. */
    *request->error = begin(thread, live, (char *)((uintptr_t)thread & ~(uintptr_t)15));
    if (*request->error)
        alive = thread->next;
    restart(request->thread);
}

static void free_thread(struct thread *thread)
{
    if (thread != &first && thread->mapped)
        munmap(thread->mapped, thread->mapped_bytes);
}

/* Ends all threads but `who`, and waits until they are gone. */
static void kill_others(const struct thread *who)
{
    for (struct thread *thread = alive; thread; thread = thread->next)
        if (thread != who)
            kill(thread->pid, SIGKILL);
    for (struct thread *thread = alive; thread; thread = thread->next)
        if (thread != who)
            waitpid(thread->pid, NULL, __WALL);
}

/* Ends the manager, and all threads before; the first one is left. */
__attribute__((noreturn)) static void end_with(struct thread *who, int code)
{
    end_code = code;
    ending = who;
    _exit(0);
}

static void note_end(pid_t pid, int status)
{
    struct thread *thread = NULL;
    for (struct thread **at = &alive; *at; at = &(*at)->next) {
        if ((*at)->pid != pid)
            continue;
        thread = *at;
        *at = thread->next;
        break;
    }
    if (WIFSIGNALED(status)) {
        kill_others(NULL);
        kill(first.pid, WTERMSIG(status));
        /* Should it outlive that. */
        end_with(&manager, 128 + WTERMSIG(status));
    }
    if (!thread)
        return;
    _dl_deallocate_tls(thread->storage, true);
    if (thread->unwanted)
        free_thread(thread);
    else
        thread->reaped = true;
}

static void reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0;)
        note_end(pid, status);
}

/* Whoever calls exit is left, with the first thread, when it goes on. */
__attribute__((noreturn)) static void end_program(struct thread *who, int code)
{
    kill_others(who);
    bool is_first = who == &first;
    restart(who);
    if (!is_first)
        waitpid(who->pid, NULL, __WALL);
    end_with(is_first ? &first : &manager, code);
}

static void add_time(struct timeval *sum, struct timeval more)
{
    sum->tv_sec += more.tv_sec + (sum->tv_usec + more.tv_usec) / 1000000;
    sum->tv_usec = (sum->tv_usec + more.tv_usec) % 1000000;
}

/* Adds what is told of time, switches and page faults; of memory the most. */
static void add_usage(int who, struct rusage *sum)
{
    struct rusage more;
    getrusage(who, &more);
    add_time(&sum->ru_utime, more.ru_utime);
    add_time(&sum->ru_stime, more.ru_stime);
    sum->ru_nvcsw += more.ru_nvcsw;
    sum->ru_nivcsw += more.ru_nivcsw;
    sum->ru_minflt += more.ru_minflt;
    sum->ru_majflt += more.ru_majflt;
    if (sum->ru_maxrss < more.ru_maxrss)
        sum->ru_maxrss = more.ru_maxrss;
}

static volatile sig_atomic_t somebody_ended;

__attribute__((noreturn)) static int manage(void *of)
{
    own = of;
    sigset_t all, all_but_ends;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    all_but_ends = all;
    sigdelset(&all_but_ends, end_signal());
    end_with_parent(first.pid);
    bool first_ends = false;
    for (;;) {
        if (somebody_ended) {
            somebody_ended = 0;
            reap();
        }
        if (first_ends && !alive) {
            first_ends = false;
            restart(&first);
        }
        struct pollfd request_comes = {.fd = asked, .events = POLLIN};
        if (ppoll(&request_comes, 1, NULL, &all_but_ends) <= 0)
            continue;
        struct request request;
        if (read(asked, &request, sizeof request) != sizeof request)
            continue;
        switch (request.what) {
        case MAKE:
            make(&request);
            break;
        case FORGET:
            if (request.thread->reaped)
                free_thread(request.thread);
            else
                request.thread->unwanted = true;
            break;
        case FIRST_ENDS:
            first_ends = true;
            break;
        case PROGRAM_ENDS:
            end_program(request.thread, request.code);
        case TELL_USAGE:
            reap();
            getrusage(RUSAGE_CHILDREN, request.usage);
            add_usage(RUSAGE_SELF, request.usage);
            restart(request.thread);
        }
    }
}

static void ask(struct request request)
{
    /* Whole, since it is shorter than what a pipe takes at once. */
    while (write(asking, &request, sizeof request) < 0 && errno == EINTR) {
    }
}

/* ---- the end of the program ---- */

/* Of the manager: a thread has ended. Of the first thread: the manager has. */
static void on_end(int signal)
{
    static const char words[] = "linuxthreads: the manager has died, and so all threads end\n";
    (void)signal;
    if (own == &manager) {
        somebody_ended = 1;
        return;
    }
    if (getpid() != first.pid || ending == &first)
        return;
    if (ending)
        _exit(end_code);
    if (waitpid(manager.pid, NULL, __WALL | WNOHANG) != manager.pid)
        return;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0) {
        /* Nobody reads it. */
    }
    _exit(1);
}

/* exit was called. */
static void end_all(int code, void *nothing)
{
    (void)nothing;
    struct thread *thread = self();
    /* A child by fork has none. */
    if (getpid() != thread->pid)
        return;
    ask((struct request){.what = PROGRAM_ENDS, .thread = thread, .code = code});
    suspend(thread);
    if (thread == &first)
        waitpid(manager.pid, NULL, __WALL);
}

/* ---- the beginning ---- */

static void *nothing_to_do(void *nothing)
{
    return nothing;
}

/* With the first thread that is made. 0, or an error's number. */
static int begin_manager(void)
{
    enum { STACK_BYTES = 64 * 1024 };
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    asked = ends[0];
    asking = ends[1];
    own = &first;
    first.pid = getpid();
    struct sigaction restarts = {.sa_handler = on_restart, .sa_flags = SA_RESTART};
    struct sigaction ended = {.sa_handler = on_end, .sa_flags = SA_RESTART};
    sigaction(restart_signal(), &restarts, NULL);
    sigaction(end_signal(), &ended, NULL);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, restart_signal());
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    /* From the first thread of its own on the C library uses its locks. */
    pthread_t thread;
    int error = pthread_create(&thread, NULL, nothing_to_do, NULL);
    if (error == 0)
        pthread_join(thread, NULL);
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (error == 0)
        error = stack == MAP_FAILED ? errno : begin(&manager, manage, stack + STACK_BYTES);
    if (error != 0) {
        close(asked);
        close(asking);
        return error;
    }
    on_exit(end_all, NULL);
    return 0;
}

/* ---- threads: the interface ---- */

/* Maps a stack with a guard before it, or takes the one given. The thread is at its end; NULL without memory. */
static struct thread *map_thread(const pthread_attr_t *attributes)
{
    pthread_attr_t usual;
    if (!attributes) {
        pthread_getattr_default_np(&usual);
        attributes = &usual;
    }
    void *given;
    size_t bytes, guard;
    int is_detached;
    pthread_attr_getdetachstate(attributes, &is_detached);
    pthread_attr_getguardsize(attributes, &guard);
    pthread_attr_getstack(attributes, &given, &bytes);
    /* One that was not given ends at nothing, and may have the usual size. */
    bool is_given = (uintptr_t)given + bytes != 0;
    pthread_attr_getstacksize(attributes, &bytes);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    guard = (guard + page - 1) / page * page;
    bytes = is_given ? bytes : (bytes + page - 1) / page * page + guard;
    char *stack = given;
    if (!is_given) {
        stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (stack == MAP_FAILED)
            return NULL;
        if (guard > 0 && mprotect(stack, guard, PROT_NONE) != 0) {
            munmap(stack, bytes);
            return NULL;
        }
    }
    uintptr_t end = ((uintptr_t)stack + bytes - sizeof(struct thread)) & ~(uintptr_t)63;
    struct thread *thread = (struct thread *)end;
    if (is_given)
        memset(thread, 0, sizeof *thread);
    else
        thread->mapped = stack;
    thread->mapped_bytes = bytes;
    thread->detached = thread->unwanted = is_detached == PTHREAD_CREATE_DETACHED;
    return thread;
}

int lt_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *with)
{
    if (manager.pid == 0) {
        int error = begin_manager();
        if (error != 0)
            return error == ENOMEM ? EAGAIN : error;
    }
    struct thread *made = map_thread(attributes);
    if (!made)
        return EAGAIN;
    made->body = body;
    made->with = with;
    sigprocmask(SIG_SETMASK, NULL, &made->mask);
    int error = 0;
    *thread = (pthread_t)made;
    ask((struct request){.what = MAKE, .thread = self(), .made = made, .error = &error});
    suspend(self());
    if (error != 0) {
        free_thread(made);
        return error == ENOMEM ? EAGAIN : error;
    }
    return 0;
}

static void destroy_values(struct thread *thread);

void lt_exit(void *value)
{
    struct thread *thread = self();
    destroy_values(thread);
    hold(&thread->lock);
    thread->value = value;
    thread->ended = true;
    struct thread *joiner = thread->joiner;
    release(&thread->lock);
    if (joiner)
        restart(joiner);
    if (thread != &first)
        _exit(0);
    if (manager.pid != 0) {
        ask((struct request){.what = FIRST_ENDS, .thread = thread});
        suspend(thread);
    }
    exit(0);
}

int lt_join(pthread_t of, void **value)
{
    struct thread *thread = (struct thread *)of;
    if (thread == self())
        return EDEADLK;
    hold(&thread->lock);
    bool is_taken = thread->detached || thread->joiner, has_ended = thread->ended;
    if (!is_taken)
        thread->joiner = self();
    release(&thread->lock);
    if (is_taken)
        return EINVAL;
    if (!has_ended)
        suspend(self());
    if (value)
        *value = thread->value;
    ask((struct request){.what = FORGET, .thread = thread});
    return 0;
}

int lt_detach(pthread_t of)
{
    struct thread *thread = (struct thread *)of;
    hold(&thread->lock);
    bool is_taken = thread->detached || thread->joiner;
    if (!is_taken)
        thread->detached = true;
    release(&thread->lock);
    if (is_taken)
        return EINVAL;
    ask((struct request){.what = FORGET, .thread = thread});
    return 0;
}

pthread_t lt_self(void)
{
    return (pthread_t)self();
}

int lt_kill(pthread_t of, int signal)
{
    struct thread *thread = (struct thread *)of;
    pid_t pid = thread == &first && first.pid == 0 ? getpid() : thread->pid;
    return kill(pid, signal) == 0 ? 0 : errno;
}

int lt_getrusage(int who, struct rusage *usage)
{
    if (who != RUSAGE_CHILDREN || manager.pid == 0)
        return getrusage(who, usage);
    ask((struct request){.what = TELL_USAGE, .thread = self(), .usage = usage});
    suspend(self());
    add_usage(RUSAGE_CHILDREN, usage);
    return 0;
}

/* ---- mutexes: in the memory of the C library's, whose initial values are these, too ---- */

struct mutex {
    atomic_int lock;
    /* How often a recursive one is held besides. */
    int count;
    struct thread *owner;
    /* PTHREAD_MUTEX_…_NP */
    int kind;
    struct queue waiting;
};

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "a mutex fits");

int lt_mutex_init(pthread_mutex_t *of, const pthread_mutexattr_t *attributes)
{
    int kind = PTHREAD_MUTEX_NORMAL, is_shared = PTHREAD_PROCESS_PRIVATE;
    if (attributes) {
        pthread_mutexattr_gettype(attributes, &kind);
        pthread_mutexattr_getpshared(attributes, &is_shared);
    }
    if (is_shared != PTHREAD_PROCESS_PRIVATE)
        return ENOSYS;
    memset(of, 0, sizeof *of);
    ((struct mutex *)of)->kind = kind;
    return 0;
}

int lt_mutex_destroy(pthread_mutex_t *of)
{
    return ((struct mutex *)of)->owner ? EBUSY : 0;
}

static int lock_mutex(struct mutex *mutex, bool waits)
{
    struct thread *thread = self();
    hold(&mutex->lock);
    int error = 0;
    bool has_to_wait = false;
    if (!mutex->owner) {
        mutex->owner = thread;
    } else if (mutex->owner == thread && mutex->kind == PTHREAD_MUTEX_RECURSIVE) {
        mutex->count++;
    } else if (!waits) {
        error = EBUSY;
    } else if (mutex->owner == thread && mutex->kind == PTHREAD_MUTEX_ERRORCHECK) {
        error = EDEADLK;
    } else {
        join_queue(&mutex->waiting, thread);
        has_to_wait = true;
    }
    release(&mutex->lock);
    if (has_to_wait)
        suspend(thread);
    return error;
}

int lt_mutex_lock(pthread_mutex_t *of)
{
    return lock_mutex((struct mutex *)of, true);
}

int lt_mutex_trylock(pthread_mutex_t *of)
{
    return lock_mutex((struct mutex *)of, false);
}

int lt_mutex_unlock(pthread_mutex_t *of)
{
    struct mutex *mutex = (struct mutex *)of;
    struct thread *next = NULL;
    hold(&mutex->lock);
    bool is_others = mutex->kind != PTHREAD_MUTEX_NORMAL && mutex->owner != self();
    if (!is_others && mutex->count > 0)
        mutex->count--;
    else if (!is_others)
        next = mutex->owner = leave_queue(&mutex->waiting);
    release(&mutex->lock);
    if (next)
        restart(next);
    return is_others ? EPERM : 0;
}

/* ---- conditions ---- */

struct condition {
    atomic_int lock;
    struct queue waiting;
};

_Static_assert(sizeof(struct condition) <= sizeof(pthread_cond_t), "a condition fits");

int lt_cond_init(pthread_cond_t *of, const pthread_condattr_t *attributes)
{
    int is_shared = PTHREAD_PROCESS_PRIVATE;
    clockid_t clock = CLOCK_REALTIME;
    if (attributes) {
        pthread_condattr_getpshared(attributes, &is_shared);
        pthread_condattr_getclock(attributes, &clock);
    }
    if (is_shared != PTHREAD_PROCESS_PRIVATE || clock != CLOCK_REALTIME)
        return ENOSYS;
    memset(of, 0, sizeof *of);
    return 0;
}

int lt_cond_destroy(pthread_cond_t *of)
{
    return ((struct condition *)of)->waiting.first ? EBUSY : 0;
}

static int wait_until(struct condition *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    struct thread *thread = self();
    hold(&condition->lock);
    join_queue(&condition->waiting, thread);
    release(&condition->lock);
    int error = lt_mutex_unlock(mutex);
    bool is_late = error == 0 && !suspend_until(thread, until);
    if (error != 0 || is_late) {
        hold(&condition->lock);
        bool was_there = leave_queue_early(&condition->waiting, thread);
        release(&condition->lock);
        /* Somebody has just taken it from there, and restarts it. */
        if (!was_there) {
            suspend(thread);
            is_late = false;
        }
    }
    if (error != 0)
        return error;
    lt_mutex_lock(mutex);
    return is_late ? ETIMEDOUT : 0;
}

int lt_cond_wait(pthread_cond_t *of, pthread_mutex_t *mutex)
{
    return wait_until((struct condition *)of, mutex, NULL);
}

int lt_cond_timedwait(pthread_cond_t *of, pthread_mutex_t *mutex, const struct timespec *until)
{
    if (until->tv_nsec < 0 || until->tv_nsec >= 1000000000)
        return EINVAL;
    return wait_until((struct condition *)of, mutex, until);
}

int lt_cond_signal(pthread_cond_t *of)
{
    struct condition *condition = (struct condition *)of;
    hold(&condition->lock);
    struct thread *thread = leave_queue(&condition->waiting);
    release(&condition->lock);
    if (thread)
        restart(thread);
    return 0;
}

int lt_cond_broadcast(pthread_cond_t *of)
{
    struct condition *condition = (struct condition *)of;
    hold(&condition->lock);
    struct queue waiting = condition->waiting;
    condition->waiting = (struct queue){NULL, NULL};
    release(&condition->lock);
    for (struct thread *thread; (thread = leave_queue(&waiting));)
        restart(thread);
    return 0;
}

/* ---- once, and values by key ---- */

int lt_once(pthread_once_t *of, void (*body)(void))
{
    enum { FRESH = PTHREAD_ONCE_INIT, RUNS, DONE };
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
    _Atomic pthread_once_t *once = (_Atomic pthread_once_t *)of;
    if (*once == DONE)
        return 0;
    lt_mutex_lock(&mutex);
    while (*once == RUNS)
        lt_cond_wait(&done, &mutex);
    if (*once == FRESH) {
        *once = RUNS;
        lt_mutex_unlock(&mutex);
        body();
        lt_mutex_lock(&mutex);
        *once = DONE;
        lt_cond_broadcast(&done);
    }
    lt_mutex_unlock(&mutex);
    return 0;
}

static atomic_int keys_lock;
static unsigned long made_keys;
static struct {
    /* Which of all keys it is; 0: it is free. */
    unsigned long is;
    void (*destroy)(void *);
} keys[KEYS];

int lt_key_create(pthread_key_t *key, void (*destroy)(void *))
{
    int error = EAGAIN;
    hold(&keys_lock);
    for (pthread_key_t at = 0; error != 0 && at < KEYS; at++) {
        if (keys[at].is != 0)
            continue;
        keys[at].is = ++made_keys;
        keys[at].destroy = destroy;
        *key = at;
        error = 0;
    }
    release(&keys_lock);
    return error;
}

int lt_key_delete(pthread_key_t key)
{
    hold(&keys_lock);
    bool was_used = key < KEYS && keys[key].is != 0;
    if (was_used)
        keys[key].is = 0;
    release(&keys_lock);
    return was_used ? 0 : EINVAL;
}

void *lt_getspecific(pthread_key_t key)
{
    struct value *block = key < KEYS ? self()->values[key / BLOCK] : NULL;
    return block && block[key % BLOCK].of == keys[key].is ? (void *)block[key % BLOCK].value : NULL;
}

int lt_setspecific(pthread_key_t key, const void *value)
{
    if (key >= KEYS || keys[key].is == 0)
        return EINVAL;
    struct value **block = &self()->values[key / BLOCK];
    if (!*block && !(*block = calloc(BLOCK, sizeof **block)))
        return ENOMEM;
    (*block)[key % BLOCK] = (struct value){value, keys[key].is};
    return 0;
}

/* A destructor may set values again: after a few rounds they are left. */
static void destroy_values(struct thread *thread)
{
    bool has_some = true;
    for (int round = 0; has_some && round < DESTROY_ROUNDS; round++) {
        has_some = false;
        for (int at = 0; at < KEYS / BLOCK; at++) {
            for (int i = 0; thread->values[at] && i < BLOCK; i++) {
                pthread_key_t key = (pthread_key_t)(at * BLOCK + i);
                void *value = lt_getspecific(key);
                thread->values[at][i].value = NULL;
                if (value && keys[key].destroy) {
                    has_some = true;
                    keys[key].destroy(value);
                }
            }
        }
    }
    for (int at = 0; at < KEYS / BLOCK; at++)
        free(thread->values[at]);
}
