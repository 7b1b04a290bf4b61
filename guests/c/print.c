/* Processes or threads that print lines, and what that took: the experiment `print`, after source 003's fork.c and
 * thread.c.
 *
 *   print process|thread UNITS PRINTS PAYLOAD_BYTES line|block DEADLINE_S
 *
 * All units are made, each prints PRINTS lines into what standard input is, all are waited for, and a final word is
 * printed. A line is PAYLOAD_BYTES of the source's text and a counter in brackets. `line` is one write a line, as stdio
 * does on a terminal. `block` fills 4,096 bytes to the last and writes these, as stdio does into anything else: a
 * process has a buffer of its own, threads share one under its lock. Lines are formatted by hand: stdio's formatting is
 * none of the question.
 */

#include "guest.h"

enum { BLOCK_BYTES = 4096, LONGEST_PAYLOAD_BYTES = 480, DIGITS = 20 };

static const char TEXT[] = "hello linux", FINAL_WORD[] = "all done\n";

static uint64_t prints, payload_bytes;
static int by_line;

/* What units tell the parent, in memory that processes share. */
static struct {
    _Atomic uint64_t bytes, alive_ns, failed, error;
} *told;

/* Writes all of it; whether it could. A signal that interrupts is no error. */
static int write_all(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDIN_FILENO, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return 0;
        bytes += written;
        size -= (size_t)written;
    }
    return 1;
}

static struct {
    char bytes[BLOCK_BYTES];
    size_t used;
} block;

static int flush_block(void)
{
    size_t used = block.used;
    block.used = 0;
    return write_all(block.bytes, used);
}

static int into_block(const char *line, size_t size)
{
    for (;;) {
        size_t room = BLOCK_BYTES - block.used, now = size < room ? size : room;
        memcpy(block.bytes + block.used, line, now);
        block.used += now;
        line += now;
        size -= now;
        if (size == 0)
            return 1;
        if (!flush_block())
            return 0;
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int into_shared_block(const char *line, size_t size)
{
    pthread_mutex_lock(&lock);
    int could = into_block(line, size);
    pthread_mutex_unlock(&lock);
    return could;
}

/* Puts the counter behind the payload in `line`; the length of all. */
static size_t with_counter(char *line, uint64_t counter)
{
    char digits[DIGITS];
    size_t first = DIGITS;
    do {
        digits[--first] = (char)('0' + counter % 10);
        counter /= 10;
    } while (counter > 0);
    char *end = line + payload_bytes + 1;
    memcpy(end, digits + first, DIGITS - first);
    end += DIGITS - first;
    *end++ = ']';
    *end++ = '\n';
    return (size_t)(end - line);
}

/* A unit's life: prints its lines with `output`, ends with `finish`. */
static void live(int (*output)(const char *, size_t), int (*finish)(void))
{
    uint64_t began_ns = now_ns(), bytes = 0;
    char line[LONGEST_PAYLOAD_BYTES + 2 + DIGITS + 1];
    for (uint64_t i = 0; i < payload_bytes; i++)
        line[i] = TEXT[i % (sizeof TEXT - 1)];
    line[payload_bytes] = '[';
    int could = 1;
    for (uint64_t counter = 0; counter < prints && could; counter++) {
        size_t size = with_counter(line, counter);
        could = output(line, size);
        bytes += size;
    }
    could = could && finish();
    told->alive_ns += now_ns() - began_ns;
    if (could) {
        told->bytes += bytes;
    } else {
        told->error = (uint64_t)errno;
        told->failed++;
    }
}

static int nothing_left(void)
{
    return 1;
}

static void *live_as_thread(void *nothing)
{
    live(by_line ? write_all : into_shared_block, nothing_left);
    return nothing;
}

/* As the source's fork.c: fork all, then wait for all. */
static void by_processes(uint64_t units)
{
    pid_t *children = calloc(units, sizeof *children);
    for (uint64_t i = 0; i < units; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            live(by_line ? write_all : into_block, by_line ? nothing_left : flush_block);
            _exit(0);
        }
        if (children[i] < 0)
            refuse(i + 1, errno);
    }
    for (uint64_t i = 0; i < units; i++)
        wait_for(children[i]);
}

/* As the source's thread.c: create all, then join all. */
static void by_threads(uint64_t units)
{
    pthread_t *threads = calloc(units, sizeof *threads);
    for (uint64_t i = 0; i < units; i++) {
        int error = pthread_create(&threads[i], NULL, live_as_thread, NULL);
        if (error != 0)
            refuse(i + 1, error);
    }
    for (uint64_t i = 0; i < units; i++)
        pthread_join(threads[i], NULL);
    if (!flush_block())
        fail("printing the last block: %s", strerror(errno));
}

/* What this process and the children that it has waited for have used. */
static struct rusage used(void)
{
    struct rusage own, children;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    own.ru_nvcsw += children.ru_nvcsw;
    own.ru_nivcsw += children.ru_nivcsw;
    return own;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        fail("%d arguments; it takes 6", argc - 1);
    end_with_parent((unsigned)number(argv, 6));
    uint64_t units = number(argv, 2);
    prints = number(argv, 3);
    payload_bytes = number(argv, 4);
    by_line = strcmp(argv[5], "line") == 0;
    if (payload_bytes > LONGEST_PAYLOAD_BYTES)
        fail("a payload of %s bytes; at most %d fit a line", argv[4], LONGEST_PAYLOAD_BYTES);
    told = shared_memory(sizeof *told);

    uint64_t before_cpu_ns = cpu_ns();
    struct rusage before = used();
    uint64_t begun_ns = now_ns();
    (strcmp(argv[1], "thread") == 0 ? by_threads : by_processes)(units);
    if (told->failed > 0)
        fail("%llu units could not print: %s", (unsigned long long)told->failed, strerror((int)told->error));
    if (!write_all(FINAL_WORD, sizeof FINAL_WORD - 1))
        fail("printing the final word: %s", strerror(errno));
    close(STDIN_FILENO);
    uint64_t ended_ns = now_ns();
    struct rusage after = used();
    printf("done begun_ns=%llu ended_ns=%llu cpu_ns=%llu voluntary=%ld involuntary=%ld bytes=%llu alive_ns=%llu\n",
           (unsigned long long)begun_ns, (unsigned long long)ended_ns, (unsigned long long)(cpu_ns() - before_cpu_ns),
           after.ru_nvcsw - before.ru_nvcsw, after.ru_nivcsw - before.ru_nivcsw, (unsigned long long)told->bytes,
           (unsigned long long)told->alive_ns);
    return 0;
}
