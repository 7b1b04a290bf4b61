//! Outside the worker: starting it, watching it, and ending it with everything it left behind.
//!
//! A worker answers with JSON on its standard output, or fails to; either way the result is a [`Sample`]. It runs in a
//! process group of its own, so that Ctrl-C reaches the command alone. The command is a child subreaper, so that even
//! children that called `setsid` are found and ended. What a worker that was ended, or a run that was killed, could not
//! remove of its own is removed here: its control group.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, WaitId, WaitIdOptions, pidfd_open, prlimit, waitid,
};
pub use threadgauge_machine::{Interrupts, Waited};
use threadgauge_machine::{Stops, become_subreaper, clock, kill_descendants, remove_left_groups};
use threadgauge_results::{Sample, Status};

use crate::worker::Order;

/// The most a worker may answer, bytes.
const ANSWER_LIMIT: usize = 1 << 20;
/// How much of a worker's standard error is kept for the reason, bytes.
const COMPLAINT_LIMIT: usize = 2 << 10;

/// Starts workers, one after the other.
#[derive(Debug)]
pub struct Launcher {
    program: OsString,
    arguments: Vec<OsString>,
    interrupts: Interrupts,
    stops: Stops,
}

/// The outcome of a worker.
#[derive(Debug)]
pub struct Outcome {
    /// Its answer, or why there is none; `None` when the user stopped it.
    pub sample: Option<Sample>,
    /// From starting it to its end, with everything it left behind gone, without the time that it was stopped.
    pub wall: Duration,
    /// For how long, at most, it or the command was stopped meanwhile; its deadline does not count that.
    pub stopped: Duration,
}

impl Launcher {
    /// A launcher of `program arguments…`, which makes this process a child subreaper. From here on it owns
    /// every child of this process. What a killed run left of control groups is removed.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the subreaper or a signal handler.
    pub fn new(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
        interrupts: Interrupts,
    ) -> std::io::Result<Self> {
        become_subreaper()?;
        // Of a run before that was killed.
        remove_left_groups();
        Ok(Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            interrupts,
            stops: Stops::new()?,
        })
    }

    /// The user's wish to stop.
    pub const fn interrupts(&mut self) -> &mut Interrupts {
        &mut self.interrupts
    }

    /// Runs one worker to its end; one that takes longer than `deadline` is ended.
    pub fn run(&mut self, order: &Order, deadline: Duration) -> Outcome {
        let begun = Instant::now();
        let mut stopped = Duration::ZERO;
        let sample = self
            .start(order)
            .map_err(|e| format!("its worker could not be started: {e}"))
            .and_then(|child| self.watch(child, order, deadline, &mut stopped))
            .unwrap_or_else(|why| Some(Sample::without_figures(Status::Failed, why)));
        // The worker itself too, where it has not ended.
        kill_descendants(&[]);
        let ended_by_itself =
            (sample.as_ref()).is_some_and(|of| matches!(of.status, Status::Ok | Status::Skipped));
        if !ended_by_itself {
            remove_left_groups();
        }
        Outcome {
            sample,
            wall: begun.elapsed().saturating_sub(stopped),
            stopped,
        }
    }

    fn start(&self, order: &Order) -> std::io::Result<Child> {
        let order = Order {
            launched_ns: clock::monotonic_ns(),
            ..order.clone()
        };
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        // The worker waits for its order: its limits are in force before it does anything.
        limit(&child)?;
        let mut input = child.stdin.take().expect("standard input is piped");
        // A worker that does not get its order, since it has died or cannot read, says why by its exit status.
        let _ = input.write_all(serde_json::to_string(&order)?.as_bytes());
        Ok(child)
    }

    /// The worker's answer; `None` when the user stopped it, else why there is none. `stopped` is then for how long
    /// somebody was.
    fn watch(
        &mut self,
        mut child: Child,
        order: &Order,
        deadline: Duration,
        stopped: &mut Duration,
    ) -> Result<Option<Sample>, String> {
        let pid = Pid::from_child(&child);
        let mut answer = Gatherer::new(
            child.stdout.take().expect("standard output is piped"),
            Keep::First,
        );
        let mut complaint = Gatherer::new(child.stderr.take().expect("standard error is piped"), Keep::Last);
        let end = end_of(pid).map_err(|e| format!("its worker cannot be watched: {e}"))?;
        let mut watch = self.stops.watch();
        let mut left = deadline;
        loop {
            if self.interrupts.count() > 1 {
                return Ok(None);
            }
            if left.is_zero() {
                let seconds = deadline.as_secs_f64();
                return Err(format!(
                    "it took longer than its deadline of {seconds:.0} s and was ended; a smaller --set may fit"
                ));
            }
            let at_most = left.min(Stops::STEP);
            let (ended, took) = watch.step(pid, at_most, || {
                wait(&self.interrupts, &end, &mut answer, &mut complaint, at_most)
            });
            left = left.saturating_sub(took);
            *stopped = watch.stopped();
            if ended {
                break;
            }
        }
        // The worker has ended. Its children may hold the pipes open, so the end of the pipe is not waited for.
        answer.take_what_is_there();
        complaint.take_what_is_there();
        let status = child
            .wait()
            .map_err(|e| format!("its worker could not be waited for: {e}"))?;
        judge(status, &answer, &complaint, order).map(Some)
    }
}

/// A descriptor that can be read once this child has ended: a pidfd, or where there is none (gVisor), a pipe that a
/// thread closes.
fn end_of(child: Pid) -> std::io::Result<OwnedFd> {
    match pidfd_open(child, PidfdFlags::empty()) {
        Err(Errno::NOSYS) => end_by_thread(child),
        pidfd => Ok(pidfd?),
    }
}

fn end_by_thread(child: Pid) -> std::io::Result<OwnedFd> {
    let (end, closed) = std::io::pipe()?;
    let watch = move || {
        // Who has ended stays to be waited for.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(child), options), Err(Errno::INTR)) {}
        drop(closed);
    };
    std::thread::Builder::new()
        .name("worker's end".to_owned())
        .spawn(watch)?;
    Ok(end.into())
}

/// Waits for the worker's end, its output, an interrupt or this time; true when the worker has ended.
fn wait(
    interrupts: &Interrupts,
    end: &OwnedFd,
    answer: &mut Gatherer,
    complaint: &mut Gatherer,
    at_most: Duration,
) -> bool {
    let mut fds = vec![
        PollFd::new(end, PollFlags::IN),
        PollFd::new(interrupts, PollFlags::IN),
    ];
    fds.extend(answer.poll_fd());
    fds.extend(complaint.poll_fd());
    let timeout = Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    // An error here is a signal of ours: the loop looks again.
    let _ = poll(&mut fds, Some(&timeout));
    let ended = !fds[0].revents().is_empty();
    drop(fds);
    answer.take_what_is_there();
    complaint.take_what_is_there();
    ended
}

fn limit(child: &Child) -> std::io::Result<()> {
    let nothing = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // A case that crashes is a result; nobody asked for a core file.
    prlimit(Some(Pid::from_child(child)), Resource::Core, nothing)?;
    // If memory runs out all the same, the kernel kills the worker first. Not every system has this file.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
    Ok(())
}

/// The sample that follows from a worker's exit status and its answer.
fn judge(
    status: ExitStatus,
    answer: &Gatherer,
    complaint: &Gatherer,
    order: &Order,
) -> Result<Sample, String> {
    let said = complaint.words();
    if let Some(signal) = status.signal() {
        return Err(format!("its worker was killed by {}{said}", signal_name(signal)));
    }
    if !status.success() {
        let code = status.code().unwrap_or(-1);
        return Err(format!("its worker ended with exit code {code}{said}"));
    }
    if answer.bytes.len() > ANSWER_LIMIT {
        return Err(format!("its worker answered more than {ANSWER_LIMIT} bytes"));
    }
    let case = &order.params;
    parse_answer(&answer.bytes)
        .map_err(|why| format!("the answer of the worker for {case} is not a sample ({why}){said}"))
}

/// Reads a worker's answer. Bytes from outside: it may be anything.
///
/// # Errors
///
/// Says what is wrong with it.
pub fn parse_answer(bytes: &[u8]) -> Result<Sample, String> {
    let sample: Sample = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if let Some(metric) = sample.metrics.iter().find(|m| !m.value.is_finite()) {
        return Err(format!("{} is not finite", metric.name));
    }
    let mut seen = BTreeSet::new();
    if let Some(metric) = sample.metrics.iter().find(|m| !seen.insert(&m.name)) {
        return Err(format!("{} is there twice", metric.name));
    }
    Ok(sample)
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGKILL => "SIGKILL (memory of the system, or of a control group, may have run out)",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGILL => "SIGILL",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGXFSZ => "SIGXFSZ (a file was to grow beyond the limit: see `ulimit -f`)",
        libc::SIGXCPU => "SIGXCPU (it used more CPU time than the limit: see `ulimit -t`)",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

/// Which end of too much output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    First,
    Last,
}

/// Reads a pipe without ever waiting for it, and keeps a bounded part.
#[derive(Debug)]
struct Gatherer {
    pipe: Option<OwnedFd>,
    keep: Keep,
    bytes: Vec<u8>,
}

impl Gatherer {
    fn new(pipe: impl Into<OwnedFd>, keep: Keep) -> Self {
        let pipe = pipe.into();
        let nonblocking = rustix::io::ioctl_fionbio(&pipe, true);
        Self {
            pipe: nonblocking.is_ok().then_some(pipe),
            keep,
            bytes: Vec::new(),
        }
    }

    fn poll_fd(&self) -> Option<PollFd<'_>> {
        Some(PollFd::from_borrowed_fd(
            self.pipe.as_ref()?.as_fd(),
            PollFlags::IN,
        ))
    }

    fn take_what_is_there(&mut self) {
        let mut buffer = [0; 16 << 10];
        while let Some(pipe) = &self.pipe {
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(n) => self.take(&buffer[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        match self.keep {
            Keep::First => {
                // One byte more than the limit, to notice that it was exceeded.
                let room = ANSWER_LIMIT + 1 - self.bytes.len();
                self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            Keep::Last => {
                self.bytes.extend_from_slice(bytes);
                let surplus = self.bytes.len().saturating_sub(COMPLAINT_LIMIT);
                self.bytes.drain(..surplus);
            }
        }
    }

    /// The output as text, to follow a reason.
    fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let text = text.trim();
        if text.is_empty() {
            String::new()
        } else {
            format!(": {}", text.replace('\n', " · "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of output that came in these pieces.
    fn gathered(keep: Keep, pieces: &[&[u8]]) -> Gatherer {
        let mut gatherer = Gatherer {
            pipe: None,
            keep,
            bytes: Vec::new(),
        };
        for piece in pieces {
            gatherer.take(piece);
        }
        gatherer
    }

    fn judged(status: i32, answer: &[u8]) -> Result<Sample, String> {
        let order = Order {
            experiment: "null".to_owned(),
            params: threadgauge_results::Params::new(),
            cpus: Vec::new(),
            handicap_percent: 0,
            launched_ns: 0,
            seed: 0,
            each: None,
            runtime: None,
        };
        let [answer, complaint] = [gathered(Keep::First, &[answer]), gathered(Keep::Last, &[])];
        judge(ExitStatus::from_raw(status), &answer, &complaint, &order)
    }

    #[test]
    fn a_childs_end_can_be_read_whatever_tells_of_it() {
        for end_of in [end_of, end_by_thread] {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let end = end_of(Pid::from_child(&child)).unwrap();
            let is_there = |timeout: Option<&Timespec>| {
                let mut fds = [PollFd::new(&end, PollFlags::IN)];
                poll(&mut fds, timeout).unwrap() == 1
            };
            assert!(!is_there(Some(&Timespec::default())), "it is still alive");
            drop(child.stdin.take());
            assert!(is_there(None));
            // It was only looked at.
            assert!(child.wait().unwrap().success());
        }
    }

    #[test]
    fn of_too_much_output_one_end_is_kept() {
        let answer = gathered(Keep::First, &[&[1; 1_000_000], &[2; 1_000_000], &[3; 9]]);
        // One byte more than is allowed.
        assert_eq!(answer.bytes.len(), 1_048_577);
        assert_eq!(answer.bytes[999_999..1_000_001], [1, 2]);
        let complaint = gathered(Keep::Last, &[&[1; 2_000], &[2; 2_000], &[3; 9]]);
        assert_eq!(complaint.bytes.len(), 2_048);
        assert_eq!(complaint.bytes[38..40], [1, 2]);
        assert_eq!(complaint.bytes[2_038..2_040], [2, 3]);
    }

    #[test]
    fn an_answer_may_have_a_mebibyte() {
        let mut answer = br#"{"status":"ok"}"#.to_vec();
        answer.resize(1_048_576, b' ');
        assert_eq!(judged(0, &answer).unwrap().status, Status::Ok);
        answer.push(b' ');
        let refused = judged(0, &answer).unwrap_err();
        assert!(refused.contains("more than 1048576 bytes"), "{refused}");
    }

    #[test]
    fn a_signal_has_its_name() {
        for (signal, name) in [
            (4, "SIGILL"),
            (5, "signal 5"),
            (6, "SIGABRT"),
            (7, "SIGBUS"),
            (9, "SIGKILL"),
            (11, "SIGSEGV"),
            (13, "SIGPIPE"),
            (15, "SIGTERM"),
            (24, "SIGXCPU"),
            (25, "SIGXFSZ"),
        ] {
            let said = judged(signal, b"").unwrap_err();
            assert!(
                said.starts_with(&format!("its worker was killed by {name}")),
                "{said}"
            );
        }
    }
}
