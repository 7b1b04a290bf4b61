/* Loads of public tools that no experiment has, as those tools make them, and how long each took. Measured beside the
 * tools by `cargo xtask cross-check`. Prints `done wall_ns=N of=M`: M messages, children or laps.
 *
 *   loads messages UNIT MEANS PAIRS LOOPS BYTES   the load of hackbench and `perf bench sched messaging`: PAIRS senders
 *                                                 write LOOPS messages of BYTES to each of PAIRS receivers, by MEANS
 *   loads exit COUNT                              lmbench's lat_proc fork: children that look up a setting and end by
 *                                                 exit
 *   loads stream COUNT                            stress-ng's switch by pipe: messages one way, through a pipe that
 *                                                 holds one of them
 */

#include "channel.h"

enum { DEADLINE_S = 60 };

static struct start *at;
static struct channel *channels;
static uint64_t pairs, loops, bytes;

static void done(uint64_t begun_ns, uint64_t of)
{
    printf("done wall_ns=%llu of=%llu\n", (unsigned long long)(now_ns() - begun_ns), (unsigned long long)of);
    fflush(stdout);
}

/* --- Messages. --- */

static void send_all(void)
{
    char *message = calloc(1, bytes);
    for (uint64_t i = 0; i < loops * pairs; i++)
        if (message == NULL || write(channels[i % pairs].writing, message, bytes) != (ssize_t)bytes)
            fail("writing a message: %s", strerror(errno));
}

static void receive_all(struct channel *from)
{
    char *message = malloc(bytes);
    for (uint64_t left = loops * pairs * bytes; left > 0;) {
        /* Of a message that came in parts, the rest. */
        uint64_t rest = left % bytes == 0 ? bytes : left % bytes;
        ssize_t got = message == NULL ? -1 : read(from->reading, message, rest);
        if (got <= 0)
            fail("reading a message: %s", strerror(errno));
        left -= (uint64_t)got;
    }
}

static void member(uint64_t index)
{
    stand_ready(at);
    index < pairs ? receive_all(&channels[index]) : send_all();
}

static void messages(char **argv)
{
    enum kind kind = (enum kind)one_of(argv, 2, kinds, KINDS);
    enum means means = (enum means)one_of(argv, 3, all_means, MEANS);
    pairs = number(argv, 4);
    loops = number(argv, 5);
    bytes = number(argv, 6);
    channels = make_channels(means, kind, pairs);
    at = shared_memory(sizeof *at);
    end_all(kind, 2 * pairs, start_all(kind, 2 * pairs, member, at));
    done(at->opened_ns, pairs * pairs * loops);
}

/* --- The other two. --- */

/* The child asks where it is to run and ends by exit, both of which touch pages that a child has to get anew. */
static void fork_and_exit(uint64_t count)
{
    uint64_t begun_ns = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0) {
            __asm__ volatile("" : : "r"(getenv("LMBENCH_SCHED")));
            exit(0);
        }
        if (child < 0)
            fail("making child %llu: %s", (unsigned long long)i + 1, strerror(errno));
        wait_for(child);
    }
    done(begun_ns, count);
}

static void stream(uint64_t count)
{
    int ends[2];
    char byte = 0;
    if (pipe2(ends, O_DIRECT) != 0 || fcntl(ends[1], F_SETPIPE_SZ, 1) < 0)
        fail("making a pipe that holds one message: %s", strerror(errno));
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        end_with(parent);
        close(ends[1]);
        while (read(ends[0], &byte, 1) == 1)
            continue;
        _exit(0);
    }
    uint64_t begun_ns = now_ns();
    for (uint64_t i = 0; i < count; i++)
        if (child < 0 || write(ends[1], &byte, 1) != 1)
            fail("writing into a pipe: %s", strerror(errno));
    done(begun_ns, count);
    close(ends[1]);
    wait_for(child);
}

int main(int argc, char **argv)
{
    const char *load = argc > 1 ? argv[1] : "";
    end_with_parent(DEADLINE_S);
    if (argc == 7 && strcmp(load, "messages") == 0)
        messages(argv);
    else if (argc == 3 && strcmp(load, "exit") == 0)
        fork_and_exit(number(argv, 2));
    else if (argc == 3 && strcmp(load, "stream") == 0)
        stream(number(argv, 2));
    else
        fail("%d arguments for the load %s; the head of loads.c says how it is called", argc - 1, load);
    return 0;
}
