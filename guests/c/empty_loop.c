/* How long an empty loop takes.
 *
 * Compiled twice by crates/experiments/build.rs, with and without optimisation: the question is what the compiler
 * makes of a loop that does nothing. The count is an argument, so that it is not known beforehand.
 *
 *   empty_loop COUNT DEADLINE_S
 */

#include "guest.h"

int main(int argc, char **argv)
{
    if (argc != 3)
        fail("%d arguments; it takes 2", argc - 1);
    end_with_parent((unsigned)number(argv, 2));
    uint64_t count = number(argv, 1);
    uint64_t begun_ns = now_ns();
    for (uint64_t i = 0; i < count; i++) {
    }
    printf("done ns=%llu\n", (unsigned long long)(now_ns() - begun_ns));
    return 0;
}
