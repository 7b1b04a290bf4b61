/* The ids that processes and threads have: the experiment `identity`.
 *
 *   ids UNIT COUNT DEADLINE_S
 *
 * COUNT units, processes by fork or threads, each ask for the ids of their process and of their thread, and wait until
 * all have. `process_ids` and `thread_ids` say how many of each are different among them, `own_process` how many units
 * have the process id of this program. `tasks` is how many the kernel lists of this process meanwhile, its own first
 * one with them.
 */

#include "guest.h"
#include <dirent.h>

struct ids {
    _Atomic pid_t process, thread;
};

/* In memory that processes share. */
static struct {
    _Atomic uint32_t closed, here;
    struct ids ids[];
} *shared;

static void *live(void *own)
{
    struct ids *ids = own;
    atomic_store(&ids->process, getpid());
    atomic_store(&ids->thread, (pid_t)syscall(SYS_gettid));
    atomic_fetch_add(&shared->here, 1);
    pass(&shared->closed);
    return NULL;
}

/* How many files there are in the folder of this process's tasks. */
static uint64_t tasks(void)
{
    DIR *folder = opendir("/proc/self/task");
    if (folder == NULL)
        fail("reading /proc/self/task: %s", strerror(errno));
    uint64_t found = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        found += entry->d_name[0] != '.';
    closedir(folder);
    return found;
}

static uint64_t different(uint64_t count, pid_t (*id)(uint64_t))
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t same = 0;
        while (same < i && id(same) != id(i))
            same++;
        found += same == i;
    }
    return found;
}

static pid_t process_id(uint64_t unit)
{
    return atomic_load(&shared->ids[unit].process);
}

static pid_t thread_id(uint64_t unit)
{
    return atomic_load(&shared->ids[unit].thread);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        fail("%d arguments; it takes 3", argc - 1);
    end_with_parent((unsigned)number(argv, 3));
    int threads = strcmp(argv[1], "thread") == 0;
    if (!threads && strcmp(argv[1], "process") != 0)
        fail("there is no unit %s", argv[1]);
    uint64_t count = number(argv, 2);
    pid_t self = getpid();
    shared = shared_memory(sizeof *shared + count * sizeof shared->ids[0]);
    atomic_store(&shared->closed, 1);
    union {
        pthread_t thread;
        pid_t child;
    } *units = calloc(count, sizeof *units);
    if (units == NULL)
        fail("there is no memory for %llu units", (unsigned long long)count);

    for (uint64_t i = 0; i < count; i++) {
        int error = 0;
        if (threads) {
            error = pthread_create(&units[i].thread, NULL, live, &shared->ids[i]);
        } else if ((units[i].child = fork()) == 0) {
            end_with(self);
            live(&shared->ids[i]);
            _exit(0);
        } else if (units[i].child < 0) {
            error = errno;
        }
        if (error != 0)
            refuse(i + 1, error);
    }
    while (atomic_load(&shared->here) < count)
        usleep(100);
    uint64_t listed = tasks(), own = 0;
    for (uint64_t i = 0; i < count; i++)
        own += process_id(i) == self;
    open_gate(&shared->closed);
    for (uint64_t i = 0; i < count; i++)
        if (!threads)
            wait_for(units[i].child);
        else if (pthread_join(units[i].thread, NULL) != 0)
            fail("a thread could not be joined");
    printf("done process_ids=%llu thread_ids=%llu own_process=%llu tasks=%llu\n",
           (unsigned long long)different(count, process_id), (unsigned long long)different(count, thread_id),
           (unsigned long long)own, (unsigned long long)listed);
    return 0;
}
