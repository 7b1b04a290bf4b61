/* Groups over uWebSockets, as short as its own examples: a peer that our servers are measured against.
 *
 * A room is a path. Who upgrades `GET /ROOM` to a WebSocket is a member, and each message of a member goes to the
 * others: `publish` of a WebSocket leaves itself out. One loop, no compression, no message dropped before 64 MiB wait
 * for a member.
 *
 *   uws_groups PORT    on 127.0.0.1; port 0 takes a free one. Says `listening on 127.0.0.1:PORT` and serves until
 *                      SIGTERM, which ends it as it ends any program.
 *
 * The experiments look for it on the path. In a clone of uWebSockets with its submodules:
 *
 *   make -C uSockets && ln -s uSockets.a uSockets/libuSockets.a
 *   c++ -std=c++20 -O3 -march=native -flto=auto -w -I src -I uSockets/src -o uws_groups \
 *       …/guests/cpp/uws_groups.cpp -L uSockets -luSockets -lz
 *
 * uWebSockets sends up to 32 messages of a turn at once; beyond, one by one, since the member that is being read holds
 * its buffer: sixteen outstanding in rooms of ten cost it a system call a delivery.
 */

#if __has_include(<uWebSockets/App.h>)
#include <uWebSockets/App.h>
#else
#include <App.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/resource.h>

struct Member {
    std::string room;
};

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::fprintf(stderr, "error: say uws_groups PORT\n");
        return 2;
    }
    /* As many connections as it may have. */
    rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    uWS::App()
        .ws<Member>("/*", {
            .maxPayloadLength = 1 << 20,
            .maxBackpressure = 64 << 20,
            .upgrade = [](auto *response, auto *request, auto *context) {
                response->template upgrade<Member>(
                    {std::string(request->getUrl())}, request->getHeader("sec-websocket-key"),
                    request->getHeader("sec-websocket-protocol"), request->getHeader("sec-websocket-extensions"), context);
            },
            .open = [](auto *member) { member->subscribe(member->getUserData()->room); },
            .message = [](auto *member, std::string_view message, uWS::OpCode kind) {
                member->publish(member->getUserData()->room, message, kind);
            },
        })
        .listen("127.0.0.1", std::atoi(argv[1]), LIBUS_LISTEN_EXCLUSIVE_PORT, [](us_listen_socket_t *listener) {
            if (!listener) {
                std::perror("error: cannot listen");
                std::exit(1);
            }
            std::printf("listening on 127.0.0.1:%d\n", us_socket_local_port(0, (us_socket_t *) listener));
            std::fflush(stdout);
        })
        .run();
}
