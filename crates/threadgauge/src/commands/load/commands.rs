//! Commands of a workload: before and after the load, and monitors beside it. What they say is kept with the results.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use threadgauge_load::Span;

use crate::output::say;

/// Of what a command says, this much is kept.
const MOST_BYTES: usize = 1 << 20;
/// Lines of a monitor that are kept.
const MOST_LINES: usize = 10_000;
/// Until a program that was asked to end is ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);
/// Between two looks at whether a monitor has: each wakes a thread of the generator while it measures. What a monitor
/// says, and that it closes its output, is heard at once.
const MONITOR_LOOK: Duration = Duration::from_millis(200);

/// What ends a command before it does so itself.
#[derive(Debug, Clone, Copy)]
pub struct Limit<'a> {
    /// For so long one may run.
    pub time: Duration,
    /// Somebody wants all to end.
    pub stop: &'a AtomicBool,
}

impl Limit<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs these by the shell, one after the other, until one fails or somebody stops it, and adds what each has said.
/// Blocks meanwhile, and not for what a command started and left running.
///
/// # Errors
///
/// If one fails, with what it said last, or does not end in time: it is ended then, with all that it started.
pub fn run(commands: &[String], limit: Limit<'_>, said: &mut Vec<Value>) -> Result<()> {
    let mut all = commands.iter().take_while(|_| !limit.is_stopped());
    all.try_for_each(|command| run_one(command, limit, said))
}

fn run_one(command: &str, limit: Limit<'_>, all: &mut Vec<Value>) -> Result<()> {
    let mut child = shell(command)
        .spawn()
        .with_context(|| format!("cannot start `{command}`"))?;
    let mut said = Vec::new();
    let mut output = child.stdout.take().context("its output is not there")?;
    let begin = Instant::now();
    let mut status = None;
    let mut goes_on = || {
        status = child.try_wait().unwrap_or(None);
        status.is_none() && !limit.is_stopped() && begin.elapsed() < limit.time
    };
    let heard = listen(&mut output, LOOK, &mut goes_on, |bytes| {
        // What it says beyond is not kept.
        said.extend_from_slice(&bytes[..bytes.len().min(MOST_BYTES - said.len())]);
    });
    // It may have closed its output before its end.
    while goes_on() {
        std::thread::sleep(LOOK);
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    all.push(json!({"command": command, "output": said}));
    let Some(status) = status else {
        end_group(&mut child);
        if limit.is_stopped() {
            say(&format!("interrupted while `{command}` ran"));
            return Ok(());
        }
        bail!(
            "the workload's command `{command}` did not end within {}; its file may say a longer command-timeout",
            Span(limit.time)
        );
    };
    heard.with_context(|| format!("cannot read what `{command}` says"))?;
    // What it left running may say more, and must not wait for somebody to read it.
    let read = move || io::copy(&mut output, &mut io::sink());
    let _ = std::thread::Builder::new().spawn(read);
    if !status.success() {
        let last = said
            .lines()
            .last()
            .map_or_else(String::new, |line| format!(": {line}"));
        bail!("the workload's command `{command}` ended with {status}{last}");
    }
    Ok(())
}

/// Gives `take` what comes until its end; where it does not go on, what is there then. Asks `goes_on` whenever
/// something came, and after each `look` without that.
fn listen(
    output: &mut ChildStdout,
    look: Duration,
    mut goes_on: impl FnMut() -> bool,
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    // As much as a pipe holds, so that one read has all that is there.
    let mut buffer = vec![0; 64 * 1024];
    loop {
        // Asked before the look: what was said before it ended is there.
        let is_last = !goes_on();
        let limit = if is_last { Duration::ZERO } else { look };
        let limit = Timespec::try_from(limit).map_err(|_| Errno::INVAL)?;
        let ready = match poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&limit)) {
            Err(Errno::INTR) => 0,
            ready => ready?,
        };
        if ready > 0 {
            match output.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => take(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Commands that run beside the load. Dropped, they are ended.
#[derive(Debug)]
pub struct Monitors(Vec<Monitor>);

#[derive(Debug)]
struct Monitor {
    command: String,
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
    /// Its shell has ended.
    ended: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Monitors {
    /// Starts them. Lines are timed from now on.
    ///
    /// # Errors
    ///
    /// If the shell cannot be started; those that were are ended.
    pub fn start(commands: &[String]) -> Result<Self> {
        let start = Instant::now();
        let mut monitors = Self(Vec::new());
        for command in commands {
            monitors.0.push(Monitor::start(command, start)?);
        }
        Ok(monitors)
    }

    /// Ends them, and gives back what each said and when.
    pub fn stop(mut self) -> Vec<Value> {
        self.0.iter_mut().map(Monitor::stop).collect()
    }
}

impl Monitor {
    fn start(command: &str, start: Instant) -> Result<Self> {
        let mut child = shell(command)
            .spawn()
            .with_context(|| format!("cannot start the monitor `{command}`"))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let (kept, has_ended) = (Arc::clone(&lines), Arc::clone(&ended));
        let mut output = child.stdout.take().context("its output is not there")?;
        let reads = move || {
            let keep = |line: &[u8]| {
                let at_s = start.elapsed().as_secs_f64();
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                // The rest is read and forgotten, so that it does not wait for a reader.
                if kept.len() < MOST_LINES {
                    kept.push(json!({"at_s": at_s, "line": String::from_utf8_lossy(line)}));
                }
            };
            let mut line = Vec::new();
            // Whatever ends it, what was said until then is kept.
            let _ = listen(
                &mut output,
                MONITOR_LOOK,
                || !has_ended.load(Ordering::Acquire),
                |bytes| {
                    for part in bytes.split_inclusive(|&byte| byte == b'\n') {
                        match part.strip_suffix(b"\n") {
                            Some(end) => {
                                line.extend_from_slice(end);
                                keep(&line);
                                line.clear();
                            }
                            None => line.extend_from_slice(part),
                        }
                    }
                },
            );
            if !line.is_empty() {
                keep(&line);
            }
        };
        let reader = std::thread::Builder::new().spawn(reads).map_err(|error| {
            end_group(&mut child);
            anyhow!("no thread can be made to read what the monitor `{command}` says: {error}")
        })?;
        Ok(Self {
            command: command.to_owned(),
            child,
            lines,
            ended,
            reader: Some(reader),
        })
    }

    fn stop(&mut self) -> Value {
        if let Some(reader) = self.reader.take() {
            end_group(&mut self.child);
            // Pairs with the reader's look: what was said before is read.
            self.ended.store(true, Ordering::Release);
            let _ = reader.join();
        }
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        json!({"command": self.command, "lines": lines})
    }
}

/// Asks a child that has a process group of its own to end with all that it started, and ends those that do not. Blocks
/// meanwhile.
pub fn end_group(child: &mut Child) {
    let group = Pid::from_child(child);
    // Fails only where all have ended.
    let _ = kill_process_group(group, Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
    // Also those of its children that did not hear: its output would stay open.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop();
    }
}

/// In a process group of its own, so that what it starts ends with it, and not by the Ctrl-C of a terminal.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    shell
}

#[cfg(test)]
mod tests {
    use rustix::process::{kill_process, test_kill_process};

    use super::*;

    fn commands(all: &[&str]) -> Vec<String> {
        all.iter().map(|command| (*command).to_owned()).collect()
    }

    /// What came of these, and what they said.
    fn ran(all: &[&str]) -> (Result<()>, Vec<Value>) {
        let stop = AtomicBool::new(false);
        within(all, Duration::from_secs(120), &stop)
    }

    fn within(all: &[&str], time: Duration, stop: &AtomicBool) -> (Result<()>, Vec<Value>) {
        let mut said = Vec::new();
        (run(&commands(all), Limit { time, stop }, &mut said), said)
    }

    fn wait_until(is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !is_so() {
            assert!(Instant::now() < deadline, "it does not come to be");
            std::thread::sleep(LOOK);
        }
    }

    /// The process whose number was said.
    fn pid(said: &Value) -> Pid {
        let number = said["output"].as_str().unwrap().trim().parse().unwrap();
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn what_a_command_leaves_running_is_not_waited_for_and_goes_on() {
        let (ended, said) = ran(&["sleep 1000 & echo $!"]);
        ended.unwrap();
        let left = pid(&said[0]);
        test_kill_process(left).unwrap();
        kill_process(left, Signal::KILL).unwrap();
    }

    #[test]
    fn one_that_does_not_end_is_ended_at_its_time_with_all_that_it_started() {
        let stop = AtomicBool::new(false);
        for command in [
            "sleep 1000 & echo $!; wait",
            "sleep 1000 & echo $!; exec >&-; wait",
        ] {
            let (ended, said) = within(&[command, "echo next"], Duration::from_secs(2), &stop);
            let error = ended.unwrap_err().to_string();
            assert!(error.contains("did not end within 2s"), "{error}");
            assert_eq!(said.len(), 1);
            let left = pid(&said[0]);
            // Of one that has ended, and that nobody has waited for yet, the state is Z.
            wait_until(|| {
                let stat = std::fs::read_to_string(format!("/proc/{left}/stat"));
                stat.map_or(true, |stat| stat.contains(") Z "))
            });
        }
    }

    #[test]
    fn who_stops_it_ends_the_command_and_no_other_begins() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("made");
        let command = format!("echo begun; touch {}; sleep 1000", made.display());
        let stop = AtomicBool::new(false);
        let (ended, said) = std::thread::scope(|scope| {
            let ran = scope.spawn(|| within(&[&command, "echo next"], Duration::from_secs(1000), &stop));
            wait_until(|| made.exists());
            stop.store(true, Ordering::Relaxed);
            ran.join().unwrap()
        });
        ended.unwrap();
        assert_eq!((said.len(), &said[0]["output"]), (1, &"begun\n".into()));
    }

    #[test]
    fn commands_run_in_order_and_what_they_say_is_kept() {
        let (ended, said) = ran(&["echo one; echo two", "printf three"]);
        ended.unwrap();
        assert_eq!(
            said[0],
            json!({"command": "echo one; echo two", "output": "one\ntwo\n"})
        );
        assert_eq!(said[1]["output"], "three");
    }

    #[test]
    fn one_that_fails_is_quoted_and_the_next_is_not_run() {
        let (ended, said) = ran(&["echo a table", "echo no table; exit 3", "exit 4"]);
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("exit status: 3: no table"), "{error}");
        assert_eq!(said.len(), 2, "what they said is kept: {said:?}");
    }

    #[test]
    fn one_that_says_too_much_ends_all_the_same() {
        let (ended, said) = ran(&["head -c 3000000 /dev/zero | tr '\\0' x; true"]);
        ended.unwrap();
        assert_eq!(said[0]["output"].as_str().map(str::len), Some(1 << 20));
    }

    #[test]
    fn monitors_are_ended_with_all_that_they_started() {
        let dir = tempfile::tempdir().unwrap();
        let heard = dir.path().join("heard");
        let waits = format!("until [ -e {} ]; do sleep 0.01; done", heard.display());
        let monitors = Monitors::start(&commands(&[
            &format!("trap 'echo last; exit' TERM; echo first; {waits}; sleep 1000 & echo second; wait"),
            "trap '' TERM; echo deaf; while :; do sleep 1; done",
        ]))
        .unwrap();
        let groups: Vec<Pid> = monitors.0.iter().map(|of| Pid::from_child(&of.child)).collect();
        let lines = |of: &Monitor| of.lines.lock().unwrap().len();
        // What one says later is heard, too.
        wait_until(|| lines(&monitors.0[0]) == 1);
        std::fs::write(&heard, "").unwrap();
        wait_until(|| lines(&monitors.0[0]) == 2 && lines(&monitors.0[1]) == 1);
        let said = monitors.stop();
        let lines: Vec<&str> = said[0]["lines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["line"].as_str().unwrap())
            .collect();
        assert_eq!(lines, ["first", "second", "last"]);
        assert!(said[0]["lines"][0]["at_s"].as_f64().unwrap() >= 0.0);
        for group in groups {
            wait_until(|| kill_process_group(group, Signal::CONT).is_err());
        }
    }
}
