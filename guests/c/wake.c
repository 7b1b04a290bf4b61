/* Wakes a unit and waits for its answer, again and again, and says how long the answers took: the experiment `wake`.
 *
 *   wake UNIT MEANS WAITERS WAKES ASKS WARM_ASKS CPUS DEADLINE_S
 *
 * A unit by UNIT asks, WAITERS others wait, and one of them answers; each is timed by itself. With one waiter, asking
 * and answering are by MEANS. Where all wait for one event, in epoll instances of their own (epoll) or at one word
 * (futex), the event wakes `one` of them or `all`, whoever takes it answers by a futex, and the next comes when those
 * who were woken in vain sleep again. WARM_ASKS come before those that count. CPUS are those that the units are pinned
 * to, one after the other.
 */

#include "channel.h"
#include <sys/epoll.h>

static const char *const wakes[] = {"one", "all"};

static struct shared {
    struct start start;
    /* Set before the last event. */
    _Atomic int over;
    /* What waiters at one word sleep at. */
    _Atomic uint32_t full;
    uint32_t ns[];
} *shared;

static struct channel *answers, *questions;
static uint64_t waiters, asks, warm_asks;
/* Readable while there is an event, for epoll; and whether one event wakes all. */
static int event, is_epoll, wakes_all;

/* --- One event for all. --- */

static void wake_waiters(int count)
{
    static const uint64_t one = 1;
    if (is_epoll) {
        transfer(write(event, &one, sizeof one), "writing");
    } else {
        atomic_store_explicit(&shared->full, 1, memory_order_release);
        syscall(SYS_futex, &shared->full, FUTEX_WAKE | futex_private, count, NULL, NULL, 0);
    }
}

static int own_epoll(void)
{
    struct epoll_event wanted = {.events = EPOLLIN | (wakes_all ? 0 : EPOLLEXCLUSIVE)};
    int own = epoll_create1(0);
    if (own < 0 || epoll_ctl(own, EPOLL_CTL_ADD, event, &wanted) != 0)
        fail("waiting by epoll: %s", strerror(errno));
    return own;
}

static int takes_event(void)
{
    uint64_t token;
    return is_epoll ? read(event, &token, sizeof token) == sizeof token
                    : atomic_exchange_explicit(&shared->full, 0, memory_order_acquire) != 0;
}

static void sleep_until_event(int own)
{
    struct epoll_event came;
    if (is_epoll)
        epoll_wait(own, &came, 1, -1);
    else
        syscall(SYS_futex, &shared->full, FUTEX_WAIT | futex_private, 0, NULL, NULL, 0);
}

static void wait_for_events(void)
{
    int own = is_epoll ? own_epoll() : -1;
    stand_ready(&shared->start);
    while (!atomic_load(&shared->over)) {
        if (takes_event())
            send_token(answers);
        else
            sleep_until_event(own);
    }
    /* An event that wakes one wakes the next through it. */
    wake_waiters(INT_MAX);
}

/* --- Both ways. --- */

static void answer_each(void)
{
    stand_ready(&shared->start);
    for (;;) {
        receive_token(questions);
        if (atomic_load_explicit(&shared->over, memory_order_relaxed))
            break;
        send_token(answers);
    }
}

/* Whether all wait for one event, and not the only one at a channel of its own. */
static int is_event(void)
{
    return is_epoll || waiters > 1;
}

static void ask(void)
{
    if (is_event())
        wake_waiters(wakes_all ? INT_MAX : 1);
    else
        send_token(questions);
    receive_token(answers);
}

static void ask_all(void)
{
    stand_ready(&shared->start);
    for (uint64_t i = 0; i < warm_asks + asks; i++) {
        if (is_event())
            usleep((useconds_t)(50 + 5 * waiters));
        uint64_t asked_ns = now_ns();
        ask();
        uint64_t ns = now_ns() - asked_ns;
        if (i >= warm_asks)
            shared->ns[i - warm_asks] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    }
    atomic_store(&shared->over, 1);
    if (is_event())
        wake_waiters(INT_MAX);
    else
        send_token(questions);
}

static void member(uint64_t index)
{
    if (index == 0)
        ask_all();
    else
        is_event() ? wait_for_events() : answer_each();
}

int main(int argc, char **argv)
{
    if (argc != 9)
        fail("%d arguments; it takes 8", argc - 1);
    end_with_parent((unsigned)number(argv, 8));
    enum kind kind = (enum kind)one_of(argv, 1, kinds, KINDS);
    waiters = number(argv, 3);
    wakes_all = one_of(argv, 4, wakes, 2);
    asks = number(argv, 5);
    warm_asks = number(argv, 6);
    read_cpus(argv[7]);
    is_epoll = strcmp(argv[2], "epoll") == 0;
    enum means means = is_epoll ? FUTEX : (enum means)one_of(argv, 2, all_means, MEANS);
    if (is_epoll && (event = eventfd(0, EFD_NONBLOCK)) < 0)
        fail("making an event: %s", strerror(errno));
    struct channel *channels = make_channels(means, kind, 2);
    answers = &channels[0];
    questions = &channels[1];
    size_t bytes = sizeof *shared + asks * sizeof shared->ns[0];
    shared = shared_memory(bytes);
    memset(shared, 0, bytes);
    end_all(kind, 1 + waiters, start_all(kind, 1 + waiters, member, &shared->start));
    sort_ns(shared->ns, asks);
    printf("done p50_ns=%llu p99_ns=%llu max_ns=%llu switches=%llu\n",
           (unsigned long long)quantile(shared->ns, asks, 50), (unsigned long long)quantile(shared->ns, asks, 99),
           (unsigned long long)quantile(shared->ns, asks, 100), (unsigned long long)switches());
    return 0;
}
