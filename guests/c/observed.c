/* Programs of known behaviour, for the tests of `threadgauge observe`.
 *
 *   observed WHAT COUNT
 *
 * COUNT threads, which do until the end of the program:
 *
 *   burn   each computes: burn-N
 *   sleep  each sleeps for 50 ms, again and again: sleeper-N
 *   lock   each holds a lock that all want for a millisecond, in which it computes a little and waits: fight-N
 *   pool   each waits for work that never comes: worker-N
 *   hot    one computes, hot; the others wait for work that never comes: idle-N
 *
 * Once all are there it says `ready`. It ends with its standard input.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t of_work = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t all_there;

static void compute(uint64_t steps)
{
    uint64_t value = 1;
    for (uint64_t step = 0; step < steps; step++) {
        value = value * 6364136223846793005u + step;
        __asm__ volatile("" : "+r"(value));
    }
}

static void *burns(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&all_there);
    for (;;)
        compute(1000000);
    return NULL;
}

static void *sleeps(void *unused)
{
    (void)unused;
    struct timespec time = {0, 50000000};
    pthread_barrier_wait(&all_there);
    for (;;)
        nanosleep(&time, NULL);
    return NULL;
}

static void *fights(void *unused)
{
    (void)unused;
    /* Were it to compute all the time, others that want its CPU would decide who has the lock. */
    struct timespec time = {0, 1000000};
    pthread_barrier_wait(&all_there);
    for (;;) {
        pthread_mutex_lock(&mutex);
        compute(100000);
        nanosleep(&time, NULL);
        pthread_mutex_unlock(&mutex);
        /* So that another one can have it. */
        compute(3000);
    }
    return NULL;
}

static void *waits(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&all_there);
    pthread_mutex_lock(&of_work);
    for (;;)
        pthread_cond_wait(&work, &of_work);
    return NULL;
}

static int start(void *(*does)(void *), const char *name)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    int error = pthread_create(&thread, &attributes, does, NULL);
    if (error != 0) {
        fprintf(stderr, "a thread cannot be made: %s\n", strerror(error));
        return error;
    }
    return pthread_setname_np(thread, name);
}

int main(int count_of_words, char **words)
{
    if (count_of_words != 3) {
        fprintf(stderr, "usage: observed burn|sleep|lock|pool|hot COUNT\n");
        return 2;
    }
    const char *what = words[1];
    int count = atoi(words[2]);
    if (count < 1 || count > MOST) {
        fprintf(stderr, "COUNT is from 1 to %d\n", MOST);
        return 2;
    }
    void *(*does)(void *) = NULL;
    const char *begin = NULL;
    if (strcmp(what, "burn") == 0) {
        does = burns;
        begin = "burn";
    } else if (strcmp(what, "sleep") == 0) {
        does = sleeps;
        begin = "sleeper";
    } else if (strcmp(what, "lock") == 0) {
        does = fights;
        begin = "fight";
    } else if (strcmp(what, "pool") == 0) {
        does = waits;
        begin = "worker";
    } else if (strcmp(what, "hot") == 0) {
        does = waits;
        begin = "idle";
    } else {
        fprintf(stderr, "nothing is called %s\n", what);
        return 2;
    }
    pthread_barrier_init(&all_there, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "%s-%d", begin, i + 1);
        int is_hot = i == 0 && strcmp(what, "hot") == 0;
        if (start(is_hot ? burns : does, is_hot ? "hot" : name) != 0)
            return 1;
    }
    pthread_barrier_wait(&all_there);
    printf("ready\n");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return 0;
}
