/* The protocol `chat` as the server of VolanoMark has it: two threads for each connection, one that receives and one
 * that sends. Whoever receives a line puts it into the queue of each other member of the room; each queue's thread
 * sends line after line, one system call each. With `yield` a receiving thread gives up the CPU after each line that
 * it has handed on.
 *
 *   chat_threads chat-threads PORT       `join NAME` is answered with `joined NAME`; each further line goes to the
 *   chat_threads chat-threads-yield PORT others in the room. A line has at most 16 KiB, a name 64 bytes.
 *
 * A queue holds 1,024 lines. A client that does not read holds up its room when they are there: there is no time-out.
 */

#include "server.h"

#include <sched.h>
#include <stdatomic.h>

enum { MOST_LINE = 16384, MOST_NAME = 64 };

/* A line, with its end, that so many queues hold. */
struct line {
    atomic_size_t holders;
    size_t length;
    char text[];
};

struct member {
    int socket;
    struct room *room;
    struct member *next;
    struct queue lines;
};

/* Rooms stay, empty or not: there are as many as names. */
struct room {
    char name[MOST_NAME + 1];
    pthread_mutex_t mutex;
    struct member *members;
    size_t size;
    struct room *next;
};

static pthread_mutex_t rooms_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct room *rooms;
static bool yields;

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        die("calloc");
    return memory;
}

static struct room *room_named(const char *name)
{
    pthread_mutex_lock(&rooms_mutex);
    struct room *room = rooms;
    while (room && strcmp(room->name, name) != 0)
        room = room->next;
    if (!room) {
        room = allocate(sizeof *room);
        strcpy(room->name, name);
        pthread_mutex_init(&room->mutex, NULL);
        room->next = rooms;
        rooms = room;
    }
    pthread_mutex_unlock(&rooms_mutex);
    return room;
}

static void release(struct line *line)
{
    if (atomic_fetch_sub(&line->holders, 1) == 1)
        free(line);
}

static struct line *line_of(const char *text, size_t length, size_t holders)
{
    struct line *line = malloc(sizeof *line + length);
    if (!line)
        die("malloc");
    atomic_init(&line->holders, holders);
    line->length = length;
    memcpy(line->text, text, length);
    return line;
}

static bool send_all(int socket, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(socket, text, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        text += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* Sends what is in the queue until the receiving thread has put nothing into it: the last word of a member. */
static void *sends(void *of)
{
    struct member *member = of;
    bool is_open = true;
    for (struct line *line; (line = take(&member->lines));) {
        is_open = is_open && send_all(member->socket, line->text, line->length);
        release(line);
    }
    close(member->socket);
    free(member);
    return NULL;
}

static void to_others(struct member *member, const char *text, size_t length)
{
    struct room *room = member->room;
    pthread_mutex_lock(&room->mutex);
    if (room->size > 1) {
        struct line *line = line_of(text, length, room->size - 1);
        for (struct member *other = room->members; other; other = other->next)
            if (other != member)
                put(&other->lines, line);
    }
    pthread_mutex_unlock(&room->mutex);
}

/* The first line says which room. It is answered before anybody else's line can be in the queue. */
static bool joins(struct member *member, char *text, size_t length)
{
    static const char join[] = "join ";
    size_t word = sizeof join - 1, end = length - 1;
    if (end > word && text[end - 1] == '\r')
        end--;
    if (end <= word || end - word > MOST_NAME || memcmp(text, join, word) != 0)
        return false;
    char answer[MOST_NAME + 16];
    text[end] = 0;
    struct room *room = member->room = room_named(text + word);
    size_t said = (size_t)snprintf(answer, sizeof answer, "joined %s\n", room->name);
    pthread_mutex_lock(&room->mutex);
    put(&member->lines, line_of(answer, said, 1));
    member->next = room->members;
    room->members = member;
    room->size++;
    pthread_mutex_unlock(&room->mutex);
    return true;
}

static void leaves(struct member *member)
{
    struct room *room = member->room;
    if (room) {
        pthread_mutex_lock(&room->mutex);
        struct member **at = &room->members;
        while (*at != member)
            at = &(*at)->next;
        *at = member->next;
        room->size--;
        pthread_mutex_unlock(&room->mutex);
    }
    put(&member->lines, NULL);
}

/* Receives until the client ends or says what is no line of the protocol. */
static void *receives(void *of)
{
    struct member *member = of;
    char *input = allocate(MOST_LINE);
    size_t held = 0;
    for (bool goes_on = true; goes_on;) {
        ssize_t got = held < MOST_LINE ? recv(member->socket, input + held, MOST_LINE - held, 0) : 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        held += (size_t)got;
        size_t used = 0;
        for (char *newline; goes_on && (newline = memchr(input + used, '\n', held - used));) {
            size_t length = (size_t)(newline + 1 - (input + used));
            if (member->room) {
                to_others(member, input + used, length);
                if (yields)
                    sched_yield();
            } else {
                goes_on = joins(member, input + used, length);
            }
            used += length;
        }
        held -= used;
        memmove(input, input + used, held);
    }
    free(input);
    leaves(member);
    return NULL;
}

static void serve_chat(unsigned short port, struct units units)
{
    static const struct queue empty = EMPTY_QUEUE;
    (void)units;
    on_end(end_at_once);
    int listener = listen_on(port, false);
    announce(listener);
    for (;;) {
        struct member *member = allocate(sizeof *member);
        member->socket = accept_client(listener);
        member->lines = empty;
        send_at_once(member->socket);
        start_thread(receives, member);
        start_thread(sends, member);
    }
}

static void serve_chat_yielding(unsigned short port, struct units units)
{
    yields = true;
    serve_chat(port, units);
}

int main(int argc, char **argv)
{
    static const struct design designs[] = {
        {"chat-threads", NO_UNITS, serve_chat},
        {"chat-threads-yield", NO_UNITS, serve_chat_yielding},
    };
    return run_design(designs, sizeof designs / sizeof *designs, argc, argv);
}
