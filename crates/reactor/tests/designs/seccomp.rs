//! A process to which the kernel refuses io_uring, as it does in most containers, to accept, or to make
//! threads. Unsafe, for two calls.
#![allow(unsafe_code)]

use std::ptr::from_ref;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, EAGAIN, EPERM, EUCLEAN, PR_SET_NO_NEW_PRIVS,
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SYS_accept4, SYS_clone3,
    SYS_io_uring_setup, sock_filter, sock_fprog,
};

/// From now on this process and its children make no rings.
pub fn refuse_io_uring() {
    refuse(SYS_io_uring_setup, EPERM);
}

/// From now on this process and its children accept nobody, for a reason that accept(2) does not know.
pub fn refuse_to_accept() {
    refuse(SYS_accept4, EUCLEAN);
}

/// From now on this process and its children make no threads. Processes are made by another call.
pub fn refuse_threads() {
    refuse(SYS_clone3, EAGAIN);
}

fn refuse(call: i64, error: i32) {
    let statement = |code: u32, jf: u8, k: u32| sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let mut filter = [
        // The number of the system call is the first word.
        statement(BPF_LD | BPF_W | BPF_ABS, 0, 0),
        statement(BPF_JMP | BPF_JEQ | BPF_K, 1, call as u32),
        statement(BPF_RET | BPF_K, 0, SECCOMP_RET_ERRNO | error as u32),
        statement(BPF_RET | BPF_K, 0, SECCOMP_RET_ALLOW),
    ];
    let program = sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: plain numbers.
    let promised = unsafe { libc::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(promised, 0, "no new privileges");
    // SAFETY: the program and its filter are as long as they say, and are copied.
    let filtered = unsafe { libc::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, from_ref(&program)) };
    assert_eq!(filtered, 0, "a filter");
}
