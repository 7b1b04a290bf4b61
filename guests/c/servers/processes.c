/* Stevens' designs that serve with processes: iterative, process-per-connection, preforked-accept, -file-lock, -mutex,
 * -descriptor; and preforked-reuseport, which he did not have. Beside them preforked-poll, whose children wait for the
 * listening socket by poll before they accept: each connection wakes all that wait. It accepts and closes, to show what
 * a herd looks like.
 *
 * A parent that gets SIGTERM ends its children and waits for them, so that their CPU time becomes its own. A preforked
 * child that ends by itself ends the server: it would be one of fewer, and might have held the lock.
 *
 *   processes iterative PORT
 *   processes preforked-accept PORT 15
 */

#include "server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void iterative(unsigned short port, struct units units)
{
    (void)units;
    on_end(end_at_once);
    int listener = listen_on(port, false);
    announce(listener);
    for (;;)
        serve(accept_client(listener));
}

/* ---- a process per connection ---- */

static int shut_on_end;

/* Every later accept fails, whether it has begun or not: no race between looking at a flag and waiting. */
static void shut_listener(int signal)
{
    (void)signal;
    int saved = errno;
    shutdown(shut_on_end, SHUT_RD);
    errno = saved;
}

/* The children alive. */
static struct {
    pid_t *pids;
    size_t count, room;
} children;

static void remember(pid_t child)
{
    if (children.count == children.room) {
        children.room = 2 * children.room + 16;
        children.pids = realloc(children.pids, children.room * sizeof *children.pids);
        if (!children.pids)
            die("realloc");
    }
    children.pids[children.count++] = child;
}

static void forget(pid_t child)
{
    for (size_t i = 0; i < children.count; i++)
        if (children.pids[i] == child)
            children.pids[i] = children.pids[--children.count];
}

static void end_children(void)
{
    for (size_t i = 0; i < children.count; i++)
        kill(children.pids[i], SIGTERM);
    while (wait(NULL) > 0 || errno == EINTR) {
    }
    free(children.pids);
}

/* The dead are waited for at the next connection and not by a handler of SIGCHLD, which would interrupt accept. */
static void process_per_connection(unsigned short port, struct units units)
{
    (void)units;
    int listener = shut_on_end = listen_on(port, false);
    on_end(shut_listener);
    announce(listener);
    int client;
    while ((client = accept_client(listener)) >= 0) {
        pid_t child;
        while ((child = waitpid(-1, NULL, WNOHANG)) > 0)
            forget(child);
        child = fork();
        if (child == 0) {
            on_end(SIG_DFL);
            close(listener);
            serve(client);
            _exit(0);
        }
        if (child < 0)
            perror("fork");
        else
            remember(child);
        close(client);
    }
    end_children();
}

/* ---- preforked: children that accept ---- */

/* Forks, with SIGTERM, SIGINT and SIGCHLD blocked in the parent. A child never outlives it, even if it is killed. */
static pid_t fork_child(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child > 0) {
        remember(child);
    } else {
        sigprocmask(SIG_UNBLOCK, &ends, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return child;
}

/* Sleeps until the server or a child is to end, or has ended. */
static void wait_for_end(void)
{
    sigset_t ends;
    int signal;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGCHLD);
    sigwait(&ends, &signal);
    end_children();
    if (signal == SIGCHLD) {
        fputs("a child ended by itself\n", stderr);
        exit(1);
    }
}

/* Whose turn it is to accept. */
struct turn {
    void (*take)(void), (*give)(void);
};

static void prefork(int listener, int count, struct turn turn)
{
    announce(listener);
    for (int i = 0; i < count; i++) {
        if (fork_child() > 0)
            continue;
        for (;;) {
            turn.take();
            int client = accept_client(listener);
            turn.give();
            serve(client);
        }
    }
    wait_for_end();
}

static void anyone(void)
{
}

static void preforked_accept(unsigned short port, struct units units)
{
    prefork(listen_on(port, false), units.count, (struct turn){anyone, anyone});
}

static int lock_file;

static void change_lock(short type)
{
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    while (fcntl(lock_file, F_SETLKW, &whole) < 0)
        if (errno != EINTR)
            die("fcntl");
}

static void take_file(void)
{
    change_lock(F_WRLCK);
}

static void give_file(void)
{
    change_lock(F_UNLCK);
}

static void preforked_file_lock(unsigned short port, struct units units)
{
    char name[] = "/tmp/lock.XXXXXX";
    lock_file = mkostemp(name, O_CLOEXEC);
    if (lock_file < 0)
        die(name);
    unlink(name);
    prefork(listen_on(port, false), units.count, (struct turn){take_file, give_file});
}

static pthread_mutex_t *mutex;

static void take_mutex(void)
{
    pthread_mutex_lock(mutex);
}

static void give_mutex(void)
{
    pthread_mutex_unlock(mutex);
}

static void preforked_mutex(unsigned short port, struct units units)
{
    mutex = mmap(NULL, sizeof *mutex, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mutex == MAP_FAILED)
        die("mmap");
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(mutex, &shared);
    prefork(listen_on(port, false), units.count, (struct turn){take_mutex, give_mutex});
}

static void preforked_poll(unsigned short port, struct units units)
{
    int listener = listen_on(port, false);
    if (fcntl(listener, F_SETFL, O_NONBLOCK) < 0)
        die("fcntl");
    announce(listener);
    for (int i = 0; i < units.count; i++) {
        if (fork_child() > 0)
            continue;
        for (;;) {
            struct pollfd arrival = {.fd = listener, .events = POLLIN};
            int client = poll(&arrival, 1, -1) == 1 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
            if (client >= 0)
                close(client);
            else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                die("accept");
        }
    }
    wait_for_end();
}

/* All sockets listen before any child is started: from then on the kernel spreads the connections over them. */
static void preforked_reuseport(unsigned short port, struct units units)
{
    int listeners[MOST_UNITS];
    for (int i = 0; i < units.count; i++)
        listeners[i] = listen_on(i == 0 ? port : port_of(listeners[0]), true);
    announce(listeners[0]);
    for (int i = 0; i < units.count; i++) {
        if (fork_child() > 0)
            continue;
        for (int other = 0; other < units.count; other++)
            if (other != i)
                close(listeners[other]);
        for (;;)
            serve(accept_client(listeners[i]));
    }
    for (int i = 0; i < units.count; i++)
        close(listeners[i]);
    wait_for_end();
}

/* ---- preforked: the parent accepts and passes the descriptor ---- */

/* The one byte that a descriptor travels with, and the room for the descriptor. */
struct parcel {
    char byte;
    struct iovec bytes;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message;
};

static void wrap(struct parcel *parcel)
{
    memset(parcel, 0, sizeof *parcel);
    parcel->bytes = (struct iovec){.iov_base = &parcel->byte, .iov_len = 1};
    parcel->message = (struct msghdr){.msg_iov = &parcel->bytes,
                                      .msg_iovlen = 1,
                                      .msg_control = parcel->control.room,
                                      .msg_controllen = sizeof parcel->control.room};
}

static void pass(int channel, int client)
{
    struct parcel parcel;
    wrap(&parcel);
    struct cmsghdr *header = CMSG_FIRSTHDR(&parcel.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof client);
    memcpy(CMSG_DATA(header), &client, sizeof client);
    while (sendmsg(channel, &parcel.message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            die("sendmsg");
}

static int receive_client(int channel)
{
    struct parcel parcel;
    wrap(&parcel);
    ssize_t got;
    do
        got = recvmsg(channel, &parcel.message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    struct cmsghdr *header = got == 1 ? CMSG_FIRSTHDR(&parcel.message) : NULL;
    if (!header || header->cmsg_type != SCM_RIGHTS)
        exit(1);
    int client;
    memcpy(&client, CMSG_DATA(header), sizeof client);
    return client;
}

__attribute__((noreturn)) static void serve_what_is_passed(int channel)
{
    for (;;) {
        serve(receive_client(channel));
        while (send(channel, "", 1, MSG_NOSIGNAL) < 0)
            if (errno != EINTR)
                exit(1);
    }
}

static void watch(int epoll, int operation, int descriptor, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = descriptor};
    if (epoll_ctl(epoll, operation, descriptor, &event) < 0)
        die("epoll_ctl");
}

/* An idle child is a channel on the stack of idle ones. While there is none, nobody is accepted. */
static void preforked_descriptor(unsigned short port, struct units units)
{
    int listener = shut_on_end = listen_on(port, false);
    int epoll = epoll_create1(EPOLL_CLOEXEC), idle[MOST_UNITS], idle_count = 0;
    if (epoll < 0)
        die("epoll_create1");
    announce(listener);
    for (int i = 0; i < units.count; i++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
            die("socketpair");
        if (fork_child() == 0) {
            close(listener);
            close(epoll);
            while (idle_count > 0)
                close(idle[--idle_count]);
            close(ends[0]);
            serve_what_is_passed(ends[1]);
        }
        close(ends[1]);
        watch(epoll, EPOLL_CTL_ADD, ends[0], EPOLLIN);
        idle[idle_count++] = ends[0];
    }
    watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN);
    on_end(shut_listener);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);

    for (bool accepting = true;;) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < count; i++) {
            int ready = events[i].data.fd;
            if (ready == listener) {
                int client = idle_count > 0 ? accept_client(listener) : -1;
                if (client < 0 && events[i].events & EPOLLHUP) {
                    end_children();
                    return;
                }
                if (client >= 0) {
                    pass(idle[--idle_count], client);
                    close(client);
                }
            } else {
                char done;
                if (recv(ready, &done, 1, 0) != 1) {
                    end_children();
                    fputs("a child ended by itself\n", stderr);
                    exit(1);
                }
                idle[idle_count++] = ready;
            }
        }
        if (accepting != (idle_count > 0)) {
            accepting = idle_count > 0;
            watch(epoll, EPOLL_CTL_MOD, listener, accepting ? EPOLLIN : 0);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct design designs[] = {
        {"iterative", NO_UNITS, iterative},
        {"process-per-connection", NO_UNITS, process_per_connection},
        {"preforked-accept", UNITS, preforked_accept},
        {"preforked-file-lock", UNITS, preforked_file_lock},
        {"preforked-mutex", UNITS, preforked_mutex},
        {"preforked-descriptor", UNITS, preforked_descriptor},
        {"preforked-reuseport", UNITS, preforked_reuseport},
        {"preforked-poll", UNITS, preforked_poll},
    };
    return run_design(designs, sizeof designs / sizeof *designs, argc, argv);
}
