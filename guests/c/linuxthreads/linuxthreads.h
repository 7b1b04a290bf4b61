/* The thread library that Linux had before NPTL, re-created: programs that include this file before any other are built
 * on it, with linuxthreads.c beside them.
 *
 *   cc -include linuxthreads/linuxthreads.h PROGRAM.c linuxthreads/linuxthreads.c
 *
 * Written from what its author and the manual pages of the time say of its design, not from its code:
 *
 *   - A thread is a process of its own that shares memory, files, the working directory and signal handlers with the
 *     others (`clone` without CLONE_THREAD), so each has a process id of its own.
 *   - A manager, one process more, is made with the first thread. It makes every thread, and reaps it: who wants one
 *     asks for it through a pipe and waits.
 *   - No futex existed. Who has to wait, for a mutex, a condition or a thread's end, puts itself into a queue and
 *     sleeps until a restart signal comes; who lets it go on sends that.
 *   - A thread that is ended by a signal takes all others with it, and so does a call of exit in any of them.
 *
 * What that says of the old library is its design's cost on today's kernel, and neither the old scheduler's nor the old
 * kernel's. Where its description leaves a choice it was made so: who releases a mutex hands it to whoever has waited
 * longest; stacks are mapped for a thread and unmapped after it, and have the size that the C library gives one today.
 * Each thread has thread-local storage of its own, from the dynamic linker of glibc, so that it may use the C library;
 * what `malloc` keeps for a thread is not given back when it ends.
 *
 * Not there: cancellation, scheduling policies, barriers, spin locks, what is shared between processes, and read-write
 * locks. The signals SIGRTMIN and SIGRTMIN + 1 are its own. A child by `fork` has one thread, and the library no more.
 */

#ifndef LINUXTHREADS_H
#define LINUXTHREADS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

int lt_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *with);
int lt_join(pthread_t thread, void **value);
int lt_detach(pthread_t thread);
__attribute__((noreturn)) void lt_exit(void *value);
pthread_t lt_self(void);
int lt_kill(pthread_t thread, int signal);

int lt_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int lt_mutex_destroy(pthread_mutex_t *mutex);
int lt_mutex_lock(pthread_mutex_t *mutex);
int lt_mutex_trylock(pthread_mutex_t *mutex);
int lt_mutex_unlock(pthread_mutex_t *mutex);

int lt_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int lt_cond_destroy(pthread_cond_t *condition);
int lt_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int lt_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int lt_cond_signal(pthread_cond_t *condition);
int lt_cond_broadcast(pthread_cond_t *condition);

int lt_once(pthread_once_t *once, void (*body)(void));
int lt_key_create(pthread_key_t *key, void (*destroy)(void *));
int lt_key_delete(pthread_key_t key);
void *lt_getspecific(pthread_key_t key);
int lt_setspecific(pthread_key_t key, const void *value);

/* As getrusage; of RUSAGE_CHILDREN with what the manager has used, and the threads that it has reaped: to the kernel
 * they are children of somebody else. */
int lt_getrusage(int who, struct rusage *usage);

#define getrusage lt_getrusage
#define pthread_create lt_create
#define pthread_join lt_join
#define pthread_detach lt_detach
#define pthread_exit lt_exit
#define pthread_self lt_self
#define pthread_kill lt_kill
#define pthread_mutex_init lt_mutex_init
#define pthread_mutex_destroy lt_mutex_destroy
#define pthread_mutex_lock lt_mutex_lock
#define pthread_mutex_trylock lt_mutex_trylock
#define pthread_mutex_unlock lt_mutex_unlock
#define pthread_cond_init lt_cond_init
#define pthread_cond_destroy lt_cond_destroy
#define pthread_cond_wait lt_cond_wait
#define pthread_cond_timedwait lt_cond_timedwait
#define pthread_cond_signal lt_cond_signal
#define pthread_cond_broadcast lt_cond_broadcast
#define pthread_once lt_once
#define pthread_key_create lt_key_create
#define pthread_key_delete lt_key_delete
#define pthread_getspecific lt_getspecific
#define pthread_setspecific lt_setspecific

#endif
