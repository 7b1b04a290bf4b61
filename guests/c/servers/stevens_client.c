/* Stevens' client: processes that ask at once, each connection after connection, B bytes asked of each and every one
 * counted; what each answer took is kept.
 *
 *   stevens_client PORT PROCESSES REQUESTS KEPT BYTES DEADLINE    of 127.0.0.1
 *
 * Each process asks REQUESTS times. After KEPT answers it makes a new connection: with 1 for each request, as he did,
 * and the time of an answer counts from before the connection until the server has closed it; else from the request to
 * its last byte. With 0 BYTES it asks nothing and waits until the server closes. It answers as `guest.h` says:
 *
 *   done wall_ns=… cpu_ns=… p50_ns=… p99_ns=… max_ns=…
 *
 * and fails if a connection fails, ends early, or brings more or fewer bytes.
 */

#include "../guest.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { MOST_PROCESSES = 1024 };

static struct sockaddr_in server;
static char line[64];
static size_t line_size;

static int begin(void)
{
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connection < 0)
        fail("a socket: %s", strerror(errno));
    while (connect(connection, (const struct sockaddr *)&server, sizeof server) < 0)
        if (errno != EINTR)
            fail("a connection: %s", strerror(errno));
    return connection;
}

/* Receives `bytes`, or until the server closes: how many came. */
static uint64_t counted(int connection, uint64_t bytes)
{
    static char answer[65536];
    uint64_t came = 0;
    while (came < bytes) {
        ssize_t got = recv(connection, answer, sizeof answer, 0);
        if (got == 0)
            break;
        if (got > 0)
            came += (uint64_t)got;
        else if (errno != EINTR)
            fail("an answer after %llu bytes: %s", (unsigned long long)came, strerror(errno));
    }
    return came;
}

static void be_client(uint64_t *answer_ns, uint64_t requests, uint64_t kept, uint64_t bytes)
{
    int connection = -1;
    for (uint64_t i = 0; i < requests; i++) {
        uint64_t begun_ns = now_ns();
        if (connection < 0)
            connection = begin();
        if (bytes > 0 && send(connection, line, line_size, MSG_NOSIGNAL) != (ssize_t)line_size)
            fail("a request: %s", strerror(errno));
        uint64_t came = counted(connection, kept > 1 ? bytes : UINT64_MAX);
        if (came != bytes)
            fail("request %llu: %llu bytes instead of %llu", (unsigned long long)i, (unsigned long long)came,
                 (unsigned long long)bytes);
        answer_ns[i] = now_ns() - begun_ns;
        if (i % kept == kept - 1) {
            close(connection);
            connection = -1;
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
    if (argc != 7)
        fail("PORT PROCESSES REQUESTS KEPT BYTES DEADLINE are wanted");
    server = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)number(argv, 1)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint64_t processes = number(argv, 2), requests = number(argv, 3), kept = number(argv, 4), bytes = number(argv, 5);
    if (processes < 1 || processes > MOST_PROCESSES || requests < 1 || kept < 1)
        fail("1 to %d processes are wanted, and at least one request", MOST_PROCESSES);
    end_with_parent((unsigned)number(argv, 6));
    line_size = (size_t)snprintf(line, sizeof line, "%llu%s\n", (unsigned long long)bytes, kept > 1 ? " keep" : "");

    struct shared {
        _Atomic uint32_t closed;
        uint64_t ended_ns[MOST_PROCESSES];
        uint64_t answer_ns[];
    } *shared = shared_memory(sizeof *shared + processes * requests * sizeof(uint64_t));
    shared->closed = 1;
    pid_t children[MOST_PROCESSES], parent = getpid();
    for (uint64_t i = 0; i < processes; i++) {
        children[i] = fork();
        if (children[i] < 0)
            refuse(i + 1, errno);
        if (children[i] == 0) {
            end_with(parent);
            pass(&shared->closed);
            be_client(shared->answer_ns + i * requests, requests, kept, bytes);
            shared->ended_ns[i] = now_ns();
            _exit(0);
        }
    }
    uint64_t begun_ns = now_ns(), ended_ns = 0, count = processes * requests;
    open_gate(&shared->closed);
    for (uint64_t i = 0; i < processes; i++) {
        wait_for(children[i]);
        if (shared->ended_ns[i] > ended_ns)
            ended_ns = shared->ended_ns[i];
    }
    qsort(shared->answer_ns, count, sizeof(uint64_t), by_size);
    printf("done wall_ns=%llu cpu_ns=%llu p50_ns=%llu p99_ns=%llu max_ns=%llu\n",
           (unsigned long long)(ended_ns - begun_ns), (unsigned long long)cpu_ns(),
           (unsigned long long)shared->answer_ns[(count - 1) * 50 / 100],
           (unsigned long long)shared->answer_ns[(count - 1) * 99 / 100],
           (unsigned long long)shared->answer_ns[count - 1]);
    return 0;
}
