/* Stevens' designs that serve with threads: thread-per-connection, prethreaded-mutex, prethreaded-acceptor.
 *
 *   threads thread-per-connection PORT
 *   threads prethreaded-mutex PORT 15
 */

#include "server.h"

static int listener;

static int start(unsigned short port)
{
    on_end(end_at_once);
    listener = listen_on(port, false);
    announce(listener);
    return listener;
}

/* A descriptor fits into a pointer, which is what threads and queues carry. */
static void *as_item(int client)
{
    return (void *)(intptr_t)client;
}

static int as_client(void *item)
{
    return (int)(intptr_t)item;
}

static void *serve_one(void *client)
{
    serve(as_client(client));
    return NULL;
}

static void thread_per_connection(unsigned short port, struct units units)
{
    (void)units;
    start(port);
    for (;;)
        start_thread(serve_one, as_item(accept_client(listener)));
}

static void *accept_in_turn(void *nothing)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    for (;;) {
        pthread_mutex_lock(&turn);
        int client = accept_client(listener);
        pthread_mutex_unlock(&turn);
        serve(client);
    }
    return nothing;
}

static void prethreaded_mutex(unsigned short port, struct units units)
{
    start(port);
    for (int i = 0; i < units.count; i++)
        start_thread(accept_in_turn, NULL);
    for (;;)
        pause();
}

static struct queue accepted = EMPTY_QUEUE;

static void *serve_accepted(void *nothing)
{
    for (;;)
        serve(as_client(take(&accepted)));
    return nothing;
}

static void prethreaded_acceptor(unsigned short port, struct units units)
{
    start(port);
    for (int i = 0; i < units.count; i++)
        start_thread(serve_accepted, NULL);
    for (;;)
        put(&accepted, as_item(accept_client(listener)));
}

int main(int argc, char **argv)
{
    static const struct design designs[] = {
        {"thread-per-connection", NO_UNITS, thread_per_connection},
        {"prethreaded-mutex", UNITS, prethreaded_mutex},
        {"prethreaded-acceptor", UNITS, prethreaded_acceptor},
    };
    return run_design(designs, sizeof designs / sizeof *designs, argc, argv);
}
