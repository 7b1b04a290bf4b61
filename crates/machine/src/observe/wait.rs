//! What a thread waits for, as far as `/proc` tells: the system call that it is in, or the place in the kernel.
//!
//! The system call (`syscall`) is shown to whoever may trace the thread, the place (`wchan`) to fewer and on fewer
//! machines; the state in `stat` to all. Nothing here can tell whether a thread that waits has nothing to do or is held
//! up: both are the same call.

use serde::{Deserialize, Serialize};

/// What a thread that neither runs nor wants a CPU waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A lock, a condition variable, a semaphore, the end of another thread: all of them are `futex`.
    Futex,
    /// Any of several descriptors: `epoll_wait`, `poll`, `select`, `io_uring_enter`.
    Poll,
    /// Something to read, from a socket, a pipe or a terminal.
    Read,
    /// Room to write.
    Write,
    /// A connection.
    Accept,
    /// A time: `nanosleep`.
    Sleep,
    /// The end of a child.
    Child,
    /// A disk, or whatever else cannot be interrupted: state `D`.
    Disk,
    /// To be continued: a signal or a debugger has stopped it.
    Stopped,
    /// Something else.
    Other,
    /// Not known: it may not be looked at, or was not.
    Unknown,
}

impl WaitKind {
    /// How many there are.
    pub const COUNT: usize = 11;

    /// All, in the order of [`index`](Self::index).
    pub const ALL: [Self; Self::COUNT] = [
        Self::Futex,
        Self::Poll,
        Self::Read,
        Self::Write,
        Self::Accept,
        Self::Sleep,
        Self::Child,
        Self::Disk,
        Self::Stopped,
        Self::Other,
        Self::Unknown,
    ];

    /// Its place among all.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::Poll => "poll",
            Self::Read => "read",
            Self::Write => "write",
            Self::Accept => "accept",
            Self::Sleep => "sleep",
            Self::Child => "child",
            Self::Disk => "disk",
            Self::Stopped => "stopped",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }

    /// What it is, for a person.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Futex => "futex (a lock, a condition variable or a queue)",
            Self::Poll => "epoll, poll or select (any of several descriptors)",
            Self::Read => "read (a socket, pipe or terminal)",
            Self::Write => "write (room in a socket or pipe)",
            Self::Accept => "accept (a connection)",
            Self::Sleep => "nanosleep (a time)",
            Self::Child => "wait (the end of a child)",
            Self::Disk => "uninterruptible (usually a disk)",
            Self::Stopped => "stopped by a signal or a debugger",
            Self::Other => "other system calls",
            Self::Unknown => "not known for what",
        }
    }

    /// Whether a thread that has nothing to do waits like that as well as one that is held up.
    #[must_use]
    pub const fn may_be_idle(self) -> bool {
        !matches!(self, Self::Disk | Self::Stopped | Self::Write | Self::Child)
    }
}

/// What a thread does at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// It runs, or is ready to.
    Runnable,
    /// It waits.
    Waits(WaitKind),
}

/// What a `syscall` file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// It runs, or is ready to.
    Runnable,
    /// This system call.
    Call(i64),
    /// The kernel, but no system call: a page fault, say.
    NoCall,
}

/// A `syscall` file; `None` where it says nothing that is understood.
pub(super) fn parse_syscall(text: &str) -> Option<Inside> {
    let first = text.split_ascii_whitespace().next()?;
    match first.parse::<i64>() {
        Ok(-1) => Some(Inside::NoCall),
        Ok(number) if number >= 0 => Some(Inside::Call(number)),
        Err(_) if first == "running" => Some(Inside::Runnable),
        _ => None,
    }
}

/// What a thread does in this state, in this system call and at this place in the kernel, as far as they are known.
pub(super) fn moment(state: char, inside: Option<Inside>, wchan: Option<&str>) -> Moment {
    let kind = match state {
        'R' => return Moment::Runnable,
        'D' => WaitKind::Disk,
        'T' | 't' => WaitKind::Stopped,
        // It has ended, and only its number is left; or it is a thread of the kernel that has nothing to do.
        'Z' | 'X' | 'x' | 'I' => WaitKind::Other,
        _ => match inside {
            // Between the two looks it went on.
            Some(Inside::Runnable) => return Moment::Runnable,
            Some(Inside::Call(number)) => of_call(number),
            Some(Inside::NoCall) => WaitKind::Other,
            None => wchan.map_or(WaitKind::Unknown, of_place),
        },
    };
    Moment::Waits(kind)
}

/// What a system call waits for.
fn of_call(number: i64) -> WaitKind {
    if let Some(kind) = of_old_call(number) {
        return kind;
    }
    match number {
        libc::SYS_futex => WaitKind::Futex,
        libc::SYS_ppoll
        | libc::SYS_pselect6
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2
        | libc::SYS_io_uring_enter
        | libc::SYS_io_getevents => WaitKind::Poll,
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg => WaitKind::Read,
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_sendfile => WaitKind::Write,
        libc::SYS_accept | libc::SYS_accept4 => WaitKind::Accept,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => WaitKind::Sleep,
        libc::SYS_wait4 | libc::SYS_waitid => WaitKind::Child,
        _ => WaitKind::Other,
    }
}

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
fn of_old_call(number: i64) -> Option<WaitKind> {
    match number {
        libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => Some(WaitKind::Poll),
        _ => None,
    }
}

/// Calls that newer architectures do not have.
#[cfg(not(target_arch = "x86_64"))]
fn of_old_call(_: i64) -> Option<WaitKind> {
    None
}

/// What is waited for at a place in the kernel, by the begin of its name: the names change with versions.
const PLACES: [(&str, WaitKind); 33] = [
    ("futex_", WaitKind::Futex),
    ("do_futex", WaitKind::Futex),
    ("ep_poll", WaitKind::Poll),
    ("do_epoll_wait", WaitKind::Poll),
    ("do_poll", WaitKind::Poll),
    ("do_sys_poll", WaitKind::Poll),
    ("do_select", WaitKind::Poll),
    ("poll_schedule", WaitKind::Poll),
    ("io_cqring_wait", WaitKind::Poll),
    ("read_events", WaitKind::Poll),
    ("inet_csk_", WaitKind::Accept),
    ("inet_accept", WaitKind::Accept),
    ("unix_accept", WaitKind::Accept),
    ("hrtimer_nanosleep", WaitKind::Sleep),
    ("do_nanosleep", WaitKind::Sleep),
    ("do_wait", WaitKind::Child),
    ("kernel_wait", WaitKind::Child),
    ("pipe_read", WaitKind::Read),
    ("anon_pipe_read", WaitKind::Read),
    ("pipe_wait_writable", WaitKind::Write),
    // Before Linux 5.5 of either end; who waits for room is rare.
    ("pipe_wait", WaitKind::Read),
    ("sk_wait_data", WaitKind::Read),
    ("tcp_recvmsg", WaitKind::Read),
    // Of TCP and of terminals.
    ("wait_woken", WaitKind::Read),
    ("skb_wait_for_more", WaitKind::Read),
    ("unix_stream_", WaitKind::Read),
    ("n_tty_read", WaitKind::Read),
    ("pipe_write", WaitKind::Write),
    ("anon_pipe_write", WaitKind::Write),
    ("sk_stream_wait_memory", WaitKind::Write),
    ("sock_alloc_send", WaitKind::Write),
    ("do_signal_stop", WaitKind::Stopped),
    ("ptrace_stop", WaitKind::Stopped),
];

/// What is waited for at this place in the kernel. Where names are hidden it is `0`, or nothing.
fn of_place(wchan: &str) -> WaitKind {
    let wchan = wchan.trim_start_matches('_').trim();
    if wchan.is_empty() || wchan == "0" {
        return WaitKind::Unknown;
    }
    let of = PLACES.iter().find(|(begin, _)| wchan.starts_with(begin));
    of.map_or(WaitKind::Other, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_has_its_place_and_a_name_of_its_own() {
        for (i, kind) in WaitKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), i);
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        let names: BTreeSet<&str> = WaitKind::ALL.map(WaitKind::name).into_iter().collect();
        assert_eq!(names.len(), WaitKind::COUNT);
    }

    #[test]
    fn a_system_call_is_its_number_or_that_there_is_none() {
        assert_eq!(parse_syscall("running\n"), Some(Inside::Runnable));
        assert_eq!(parse_syscall("-1 0x7ffe 0x7f00\n"), Some(Inside::NoCall));
        let text = "230 0x0 0x0 0x7ffe33481980 0x7ffe334819c0 0x0 0x0 0x7ffe33481968 0x7fb96cfa6503\n";
        assert_eq!(parse_syscall(text), Some(Inside::Call(230)));
        for none in ["", "\n", "-2 0x0", "stands", "0x12"] {
            assert_eq!(parse_syscall(none), None, "{none:?}");
        }
    }

    #[test]
    fn the_state_goes_before_the_call_and_the_call_before_the_place() {
        let futex = Some(Inside::Call(libc::SYS_futex));
        assert_eq!(moment('R', futex, None), Moment::Runnable);
        assert_eq!(moment('S', Some(Inside::Runnable), None), Moment::Runnable);
        for (state, inside, place, wanted) in [
            ('S', futex, None, WaitKind::Futex),
            ('D', futex, None, WaitKind::Disk),
            ('T', futex, None, WaitKind::Stopped),
            ('t', None, None, WaitKind::Stopped),
            (
                'S',
                Some(Inside::Call(libc::SYS_read)),
                Some("futex_wait"),
                WaitKind::Read,
            ),
            ('S', Some(Inside::Call(libc::SYS_ppoll)), None, WaitKind::Poll),
            ('S', Some(Inside::Call(libc::SYS_accept4)), None, WaitKind::Accept),
            (
                'S',
                Some(Inside::Call(libc::SYS_clock_nanosleep)),
                None,
                WaitKind::Sleep,
            ),
            ('S', Some(Inside::Call(libc::SYS_wait4)), None, WaitKind::Child),
            ('S', Some(Inside::Call(libc::SYS_sendto)), None, WaitKind::Write),
            ('S', Some(Inside::Call(100_000)), None, WaitKind::Other),
            ('S', Some(Inside::NoCall), None, WaitKind::Other),
            ('S', None, Some("futex_wait_queue"), WaitKind::Futex),
            ('S', None, Some("__futex_wait"), WaitKind::Futex),
            ('S', None, Some("ep_poll"), WaitKind::Poll),
            ('S', None, Some("pipe_wait_readable"), WaitKind::Read),
            ('S', None, Some("pipe_wait_writable"), WaitKind::Write),
            ('S', None, Some("some_driver"), WaitKind::Other),
            ('S', None, Some("0"), WaitKind::Unknown),
            ('S', None, Some(""), WaitKind::Unknown),
            ('S', None, None, WaitKind::Unknown),
            ('Z', None, None, WaitKind::Other),
        ] {
            let says = format!("{state} {inside:?} {place:?}");
            assert_eq!(moment(state, inside, place), Moment::Waits(wanted), "{says}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_of_old_are_known_too() {
        for call in [libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait] {
            assert_eq!(of_call(call), WaitKind::Poll);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9a-z_ \\-\n\\PC]{0,40}", state in any::<char>()) {
            let _ = moment(state, parse_syscall(&text), Some(&text));
        }
    }
}
