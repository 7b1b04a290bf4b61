/* The smallest program: it ends at once, or, given the number of a descriptor, when that one's pipe is closed.
 *
 * What starting a program costs is the question, so this one brings nothing of its own: no C library, no
 * dynamic linker, one page of code. Built by crates/experiments/build.rs with -static -nostdlib, carried
 * inside the laboratory and run from memory.
 *
 *   exit          ends with 0
 *   exit 7        reads descriptor 7 until it ends, then ends with 0 (2: the descriptor could not be read)
 */

#if defined(__x86_64__)
enum { READ = 0, EXIT_GROUP = 231 };

static long call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

/* The kernel enters with argc on top of the stack and argv behind it. */
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov (%rsp), %rdi\n\tlea 8(%rsp), %rsi\n\tand $-16, %rsp\n\tcall run\n");

#elif defined(__aarch64__)
enum { READ = 63, EXIT_GROUP = 94 };

static long call(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tldr x0, [sp]\n\tadd x1, sp, #8\n\tbl run\n");

#else
#error "exit.c knows x86_64 and aarch64: add this machine's system call"
#endif

enum { EINTR_RESULT = -4 };

__attribute__((noreturn, used)) void run(long argc, char **argv)
{
    long status = 0;
    if (argc > 1) {
        long descriptor = 0;
        for (const char *digit = argv[1]; *digit; digit++)
            descriptor = descriptor * 10 + (*digit - '0');
        char byte;
        long got;
        do
            got = call(READ, descriptor, (long)&byte, 1);
        while (got > 0 || got == EINTR_RESULT);
        if (got < 0)
            status = 2;
    }
    for (;;)
        call(EXIT_GROUP, status, 0, 0);
}
