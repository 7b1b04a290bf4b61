/* How long an empty loop takes, in ns, on standard output.
 *
 * Compiled twice by crates/experiments/build.rs, with and without optimisation: the question is what the compiler
 * makes of a loop that does nothing. The count is an argument, so that it is not known beforehand.
 *
 *   empty_loop 20000000
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 0;
    long long begun = now_ns();
    for (long i = 0; i < count; i++) {
    }
    printf("%lld\n", now_ns() - begun);
    return 0;
}
