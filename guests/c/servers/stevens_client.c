/* Stevens' client: P processes, each N connections one after the other, B bytes asked of each and every one counted.
 *
 * It ends with 1 and says why if a connection fails, ends early, or brings more or fewer bytes; a server that falls
 * silent ends it after two minutes.
 *
 *   stevens_client PORT PROCESSES CONNECTIONS BYTES    of 127.0.0.1
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SECONDS = 120 };

__attribute__((noreturn)) static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Sends `line` on a connection of its own and counts what comes until the server closes. */
static long ask(const struct sockaddr_in *server, const char *line)
{
    static char bytes[65536];
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connection < 0)
        die("socket");
    if (connect(connection, (const struct sockaddr *)server, sizeof *server) < 0)
        die("connect");
    size_t size = strlen(line);
    if (send(connection, line, size, MSG_NOSIGNAL) != (ssize_t)size)
        die("send");
    long counted = 0;
    ssize_t got;
    while ((got = recv(connection, bytes, sizeof bytes, 0)) != 0) {
        if (got > 0)
            counted += got;
        else if (errno != EINTR)
            die("recv");
    }
    close(connection);
    return counted;
}

static void be_client(const struct sockaddr_in *server, long connections, long bytes)
{
    char line[32];
    snprintf(line, sizeof line, "%ld\n", bytes);
    alarm(MOST_SECONDS);
    for (long i = 0; i < connections; i++) {
        long counted = ask(server, line);
        if (counted != bytes) {
            fprintf(stderr, "connection %ld: %ld bytes instead of %ld\n", i, counted, bytes);
            exit(1);
        }
    }
    exit(0);
}

static long number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 0) {
        fprintf(stderr, "%s is not a number\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "%s PORT PROCESSES CONNECTIONS BYTES\n", argv[0]);
        return 2;
    }
    struct sockaddr_in server = {.sin_family = AF_INET,
                                 .sin_port = htons((unsigned short)number(argv[1])),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    long processes = number(argv[2]), connections = number(argv[3]), bytes = number(argv[4]);
    for (long i = 0; i < processes; i++) {
        pid_t child = fork();
        if (child < 0)
            die("fork");
        if (child == 0)
            be_client(&server, connections, bytes);
    }
    int status, failed = 0;
    while (wait(&status) > 0 || errno == EINTR) {
        if (WIFSIGNALED(status))
            fprintf(stderr, "a client was ended by signal %d\n", WTERMSIG(status));
        failed |= status != 0;
    }
    return failed;
}
