/* Hands messages from one unit to another, and says what that took: the experiment `handover`.
 *
 *   handover UNIT MEANS BYTES BURST CPUS WARM_NS TIMED_NS DEADLINE_S
 *
 * Whoever hands a message over writes all of it before, and whoever takes it reads all of it. A lap is BURST messages
 * of BYTES by MEANS from one unit by UNIT to another, and one back. CPUS are those that the units are pinned to.
 */

#include "channel.h"
#include <sys/uio.h>

enum carrier { SHARED, QUEUE, BY_PIPE, BY_SOCKET, VM_READV, CARRIERS };

static const char *const carriers[] = {"shared", "channel", "pipe", "unix", "vm-readv"};

/* By what each of them wakes. */
static const enum means woken_by[] = {FUTEX, CONDVAR, PIPE, UNIX_SOCKET, FUTEX};

static struct shared {
    struct start start;
    /* Set before the last message. */
    _Atomic int over;
    /* Until it was read, whose memory it may be in does not end. */
    _Atomic uint32_t unread;
    struct laps laps;
} *shared;

/* One direction. A pipe or a socket has one channel, and a message is written into it. Otherwise each message of a
 * burst has a place of its own and a channel that tells that it is there: in memory that both share, or in that of
 * whoever hands it over (VM_READV), from where it is copied. */
struct lane {
    struct channel *channels;
    char *places;
    struct {
        pid_t pid;
        char *places;
    } *sender;
};

static struct lane there, back;
static enum carrier carrier;
static uint64_t bytes, burst, warm_ns, timed_ns;

static int is_through_kernel(void)
{
    return carrier == BY_PIPE || carrier == BY_SOCKET;
}

static struct lane make_lane(enum kind kind)
{
    struct lane lane = {make_channels(woken_by[carrier], kind, is_through_kernel() ? 1 : burst), NULL, NULL};
    if (carrier == SHARED || carrier == QUEUE) {
        lane.places = shared_memory(burst * bytes);
        memset(lane.places, 0, burst * bytes);
    }
    lane.sender = shared_memory(sizeof *lane.sender);
    return lane;
}

/* Memory of a unit, all of it there. */
static char *own_memory(size_t size)
{
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mapping %zu bytes: %s", size, strerror(errno));
    memset(memory, 0, size);
    return memory;
}

static void write_message(char *at, uint64_t word)
{
    uint64_t *words = (uint64_t *)at;
    for (uint64_t i = 0; i < bytes / sizeof word; i++)
        words[i] = word;
    __asm__ volatile("" : : "r"(words) : "memory");
}

static void read_message(const char *at)
{
    const uint64_t *words = (const uint64_t *)at;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < bytes / sizeof sum; i++)
        sum += words[i];
    __asm__ volatile("" : : "r"(sum) : "memory");
}

static void moved(ssize_t now, uint64_t *sofar)
{
    if (now <= 0)
        fail("moving a message: %s", now < 0 ? strerror(errno) : "its end is closed");
    *sofar += (uint64_t)now;
}

static void hand_over(struct lane *lane, char *own, uint64_t number)
{
    if (is_through_kernel()) {
        write_message(own, number);
        for (uint64_t sofar = 0; sofar < bytes;)
            moved(write(lane->channels->writing, own + sofar, bytes - sofar), &sofar);
        return;
    }
    char *places = carrier == VM_READV ? lane->sender->places : lane->places;
    write_message(places + number * bytes, number);
    send_token(&lane->channels[number]);
}

static void take(struct lane *lane, char *own, uint64_t number)
{
    if (is_through_kernel()) {
        for (uint64_t sofar = 0; sofar < bytes;)
            moved(read(lane->channels->reading, own + sofar, bytes - sofar), &sofar);
        read_message(own);
        return;
    }
    receive_token(&lane->channels[number]);
    if (carrier == VM_READV) {
        struct iovec to = {own, bytes}, from = {lane->sender->places + number * bytes, bytes};
        ssize_t copied = process_vm_readv(lane->sender->pid, &to, 1, &from, 1, 0);
        if (copied != (ssize_t)bytes)
            fail("process_vm_readv is refused: %s", copied < 0 ? strerror(errno) : "cut short");
        read_message(own);
    } else {
        read_message(lane->places + number * bytes);
    }
}

static void lap(void *own)
{
    for (uint64_t i = 0; i < burst; i++)
        hand_over(&there, own, i);
    take(&back, own, 0);
}

/* Whether it was the last lap, which is known when its messages are there. */
static int answer(char *own)
{
    for (uint64_t i = 0; i < burst; i++)
        take(&there, own, i);
    int last = atomic_load(&shared->over);
    hand_over(&back, own, 0);
    return last;
}

static void member(uint64_t index)
{
    char *own = own_memory(bytes);
    struct lane *from_here = index == 0 ? &there : &back;
    if (carrier == VM_READV) {
        from_here->sender->pid = getpid();
        from_here->sender->places = own_memory(burst * bytes);
        /* Where only a parent may read the memory of another (Yama), this lets anyone. */
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    }
    stand_ready(&shared->start);
    if (index == 0) {
        time_laps(lap, own, warm_ns, timed_ns, &shared->laps);
        atomic_store(&shared->over, 1);
        lap(own);
        open_gate(&shared->unread);
    } else {
        while (!answer(own))
            continue;
        pass(&shared->unread);
    }
}

int main(int argc, char **argv)
{
    if (argc != 9)
        fail("%d arguments; it takes 8", argc - 1);
    end_with_parent((unsigned)number(argv, 8));
    enum kind kind = (enum kind)one_of(argv, 1, kinds, KINDS);
    carrier = (enum carrier)one_of(argv, 2, carriers, CARRIERS);
    bytes = number(argv, 3);
    burst = number(argv, 4);
    read_cpus(argv[5]);
    warm_ns = number(argv, 6);
    timed_ns = number(argv, 7);
    shared = shared_memory(sizeof *shared);
    shared->unread = 1;
    there = make_lane(kind);
    back = make_lane(kind);
    end_all(kind, 2, start_all(kind, 2, member, &shared->start));
    printf("done wall_ns=%llu messages=%llu\n", (unsigned long long)shared->laps.wall_ns,
           (unsigned long long)(shared->laps.timed * (burst + 1)));
    return 0;
}
