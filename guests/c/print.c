/* Processes or threads that print lines, and what that took: the experiment `print`, after source 003's fork.c and
 * thread.c.
 *
 *   print process|thread UNITS PRINTS PAYLOAD_BYTES line|block LOG DEADLINE_S
 *
 * All units are made, each prints PRINTS lines into what standard input is, all are waited for, and a final word is
 * printed. Lines are printed by printf, as the source's: a counter in brackets, and a text of PAYLOAD_BYTES. `line` is
 * one write a line, as stdio does on a terminal. `block` fills 4,096 bytes to the last and writes these, as stdio does
 * into anything else: a process has a buffer of its own, threads share one under its lock. LOG is a file into which
 * each line is printed too, in blocks, as into the source's log file, which was switched off; - for none.
 */

#include "guest.h"

enum { BLOCK_BYTES = 4096, LONGEST_PAYLOAD_BYTES = 480 };

/* The source's texts, of 11 characters and, sixteen times, of 16. Others are the beginning of the first, or the second
 * over and over. */
static const char SHORT_TEXT[] = "hello linux", LONG_TEXT[] = "1234567890abcdef", FINAL_WORD[] = "Okay\n";

static FILE *sink, *log_file;
static char text[LONGEST_PAYLOAD_BYTES + 1];
static uint64_t prints;

/* What units tell the parent, in memory that processes share. */
static struct {
    _Atomic uint64_t bytes, alive_ns, failed, error;
} *told;

static void compose(uint64_t payload_bytes)
{
    size_t short_bytes = sizeof SHORT_TEXT - 1, long_bytes = sizeof LONG_TEXT - 1;
    for (uint64_t i = 0; i < payload_bytes; i++)
        text[i] = payload_bytes <= short_bytes ? SHORT_TEXT[i] : LONG_TEXT[i % long_bytes];
}

/* A unit's life: prints its lines; a process has a buffer of its own, which is written at its end. */
static void live(int is_process)
{
    uint64_t began_ns = now_ns(), bytes = 0;
    int could = 1;
    for (uint64_t counter = 0; counter < prints && could; counter++) {
        int printed = fprintf(sink, "[%llu]%s\n", (unsigned long long)counter, text);
        could = printed > 0 && (log_file == NULL || fprintf(log_file, "[%llu]%s\n", (unsigned long long)counter, text) > 0);
        bytes += could ? (uint64_t)printed : 0;
    }
    could = could && (!is_process || (fflush(sink) == 0 && (log_file == NULL || fflush(log_file) == 0)));
    told->alive_ns += now_ns() - began_ns;
    if (could) {
        told->bytes += bytes;
    } else {
        told->error = (uint64_t)errno;
        told->failed++;
    }
}

static void *live_as_thread(void *nothing)
{
    live(0);
    return nothing;
}

/* As the source's fork.c: fork all, then wait for all. */
static void by_processes(uint64_t units)
{
    pid_t *children = calloc(units, sizeof *children);
    for (uint64_t i = 0; i < units; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            live(1);
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
    if (fflush(sink) != 0 || (log_file != NULL && fflush(log_file) != 0))
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
    if (argc != 8)
        fail("%d arguments; it takes 7", argc - 1);
    end_with_parent((unsigned)number(argv, 7));
    uint64_t units = number(argv, 2);
    prints = number(argv, 3);
    uint64_t payload_bytes = number(argv, 4);
    int by_line = strcmp(argv[5], "line") == 0;
    if (payload_bytes > LONGEST_PAYLOAD_BYTES)
        fail("a payload of %s bytes; at most %d fit a line", argv[4], LONGEST_PAYLOAD_BYTES);
    compose(payload_bytes);
    sink = fdopen(STDIN_FILENO, "w");
    if (sink == NULL || setvbuf(sink, NULL, by_line ? _IOLBF : _IOFBF, BLOCK_BYTES) != 0)
        fail("opening what is printed into: %s", strerror(errno));
    if (strcmp(argv[6], "-") != 0) {
        log_file = fopen(argv[6], "a");
        if (log_file == NULL)
            fail("opening the log file: %s", strerror(errno));
    }
    told = shared_memory(sizeof *told);

    uint64_t before_cpu_ns = cpu_ns();
    struct rusage before = used();
    uint64_t begun_ns = now_ns();
    (strcmp(argv[1], "thread") == 0 ? by_threads : by_processes)(units);
    if (told->failed > 0)
        fail("%llu units could not print: %s", (unsigned long long)told->failed, strerror((int)told->error));
    if (fputs(FINAL_WORD, sink) < 0 || fclose(sink) != 0)
        fail("printing the final word: %s", strerror(errno));
    uint64_t ended_ns = now_ns();
    struct rusage after = used();
    printf("done begun_ns=%llu ended_ns=%llu cpu_ns=%llu voluntary=%ld involuntary=%ld bytes=%llu alive_ns=%llu\n",
           (unsigned long long)begun_ns, (unsigned long long)ended_ns, (unsigned long long)(cpu_ns() - before_cpu_ns),
           after.ru_nvcsw - before.ru_nvcsw, after.ru_nivcsw - before.ru_nivcsw, (unsigned long long)told->bytes,
           (unsigned long long)told->alive_ns);
    return 0;
}
