//! Signals, as every command has them.
//!
//! One that was ignored when the command began stays ignored, whoever would have had a use for it: `nohup` ignores
//! SIGHUP, and a shell SIGINT and SIGQUIT of what it starts in the background. So no command handles a signal but by
//! [`handle`].
//!
//! Two are not left as they were found. The end of a child must be heard of, whose SIGCHLD a careless parent ignored;
//! and a file that may not grow (`ulimit -f`) is an error that is said, rather than the end by SIGXFSZ without a word.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use anyhow::Error;
use signal_hook::consts::{SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;

use crate::output::Verdict;

/// Those that programs which this one starts must not ignore: workers, servers and guests end by them, or wait for
/// them.
const FOR_CHILDREN: [i32; 5] = [SIGCHLD, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2];
/// A file may not grow beyond a limit. `signal_hook` has no name for it.
const SIGXFSZ: i32 = rustix::process::Signal::XFSZ.as_raw();

/// The set of signals that were ignored when the command began: of signal n the bit n - 1.
static IGNORED: OnceLock<u64> = OnceLock::new();
/// A file was to grow beyond what is allowed.
static TOO_LARGE: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The first thing that a command does, before it has a thread or a child.
pub fn settle() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = *IGNORED.get_or_init(|| ignored_in(&status));
    // A handler that does nothing: to this process they are as if ignored, and what it starts has their default action.
    for signal in FOR_CHILDREN.into_iter().filter(|&signal| has(ignored, signal)) {
        // It can only fail for signals that nobody may handle.
        let _ = flag::register(signal, Arc::default());
    }
    let _ = flag::register(SIGXFSZ, Arc::clone(&TOO_LARGE));
}

/// What `error` comes from, where that is known here.
pub fn explained(error: Error) -> Error {
    match TOO_LARGE.load(Ordering::Relaxed) {
        true => error.context("no file may grow beyond a limit here (see `ulimit -f`)"),
        false => error,
    }
}

/// Has `register` handle each of `signals`, but for those that were ignored when the command began; with what that
/// gives back.
///
/// # Errors
///
/// Those of `register`.
pub fn handle<T>(signals: &[i32], register: impl FnMut(i32) -> io::Result<T>) -> io::Result<Vec<T>> {
    let handled = signals.iter().copied().filter(|&signal| !is_ignored(signal));
    handled.map(register).collect()
}

/// Whether it was when the command began.
pub fn is_ignored(signal: i32) -> bool {
    has(IGNORED.get().copied().unwrap_or(0), signal)
}

/// Has `register` handle what asks a command to end early: Ctrl-C, a request to end, and the end of the terminal.
///
/// # Errors
///
/// Those of `register`, and if there is no room for another handler.
pub fn ask_to_end(mut register: impl FnMut(i32) -> io::Result<()>) -> io::Result<Asked> {
    let asked = Asked::default();
    handle(&[SIGINT, SIGTERM, SIGHUP], |signal| {
        register(signal)?;
        flag::register_usize(signal, Arc::clone(&asked.0), signal as usize)
    })?;
    Ok(asked)
}

/// What a signal sets that asks to end. The second ends the process at once.
///
/// # Errors
///
/// If there is no room for another handler.
pub fn stop() -> io::Result<(Arc<AtomicBool>, Asked)> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = ask_to_end(|signal| {
        // In this order: what ends it at the second looks before the first is noted.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop)).map(drop)
    })?;
    Ok((stop, asked))
}

/// The last signal that asked the command to end.
#[derive(Debug, Default)]
pub struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// How a command ends that has ended early: as a shell has it, so that no script takes it for one that is done.
    pub fn verdict(&self) -> Verdict {
        match self.0.load(Ordering::Relaxed) {
            0 => Verdict::Done,
            signal => Verdict::Interrupted(signal as u8),
        }
    }
}

/// The set of ignored signals in `/proc/…/status`.
fn ignored_in(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}

fn has(set: u64, signal: i32) -> bool {
    set & 1 << (signal - 1) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_as_the_kernel_writes_it() {
        let ignored =
            ignored_in("Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000011001\nSigCgt:\t0\n");
        let found: Vec<i32> = (1..=64).filter(|&signal| has(ignored, signal)).collect();
        assert_eq!(found, [SIGHUP, 13, SIGCHLD]);
        assert_eq!(ignored_in("SigIgn:\tx\n"), 0);
        assert_eq!(ignored_in(""), 0);
    }
}
