/* The least that accepting can cost: a loop around accept, which keeps what it accepted.
 *
 *   accept_floor PORT    on 127.0.0.1; port 0 takes a free one. Says `listening on 127.0.0.1:PORT`, serves until SIGTERM
 *                        or SIGINT and exits with 0.
 */

#include "server.h"

#include <sys/resource.h>

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "%s PORT\n", argv[0]);
        return 2;
    }
    struct rlimit descriptors;
    if (getrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("getrlimit");
    descriptors.rlim_cur = descriptors.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        die("setrlimit");
    on_end(end_at_once);
    int listener = listen_on((unsigned short)number(argv[1], 65535), false);
    announce(listener);
    for (;;)
        accept_client(listener);
}
