/* The least that accepting can cost: a loop around accept, which keeps what it accepted.
 *
 *   accept_floor WORDS PORT    WORDS is `silent`, or `info` to say to each client what core NATS begins with. On
 *                              127.0.0.1; port 0 takes a free one. Says `listening on 127.0.0.1:PORT`, serves until
 *                              SIGTERM or SIGINT and exits with 0.
 */

#include "server.h"

#include <sys/resource.h>

static const char INFO[] = "INFO {\"server_id\":\"floor\",\"version\":\"2.0.0\",\"proto\":1,\"headers\":false,"
                           "\"max_payload\":1048576}\r\n";

int main(int argc, char **argv)
{
    bool speaks = argc == 3 && strcmp(argv[1], "info") == 0;
    if (argc != 3 || (!speaks && strcmp(argv[1], "silent") != 0)) {
        fprintf(stderr, "%s silent|info PORT\n", argv[0]);
        return 2;
    }
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("getrlimit");
    descriptors.rlim_cur = descriptors.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("setrlimit");
    on_end(end_at_once);
    int listener = listen_on((unsigned short)number(argv[2], 65535), false);
    announce(listener);
    for (;;) {
        int client = accept_client(listener);
        /* One that has gone already is no concern of a loop that does nothing else. */
        if (speaks && send(client, INFO, sizeof INFO - 1, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
            die("send");
    }
}
