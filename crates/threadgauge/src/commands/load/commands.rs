//! Commands of a workload: before and after the load, and monitors beside it. What they say is kept with the results.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// Of what a command says, this much is kept.
const MOST_BYTES: u64 = 1 << 20;
/// Lines of a monitor that are kept.
const MOST_LINES: usize = 10_000;
/// Until a program that was asked to end is ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// Runs these by the shell, one after the other, until one fails, and adds what each has said. Blocks meanwhile.
///
/// # Errors
///
/// If one fails: what it said last.
pub fn run(commands: &[String], said: &mut Vec<Value>) -> Result<()> {
    commands.iter().try_for_each(|command| run_one(command, said))
}

fn run_one(command: &str, all: &mut Vec<Value>) -> Result<()> {
    let mut child = shell(command)
        .spawn()
        .with_context(|| format!("cannot start `{command}`"))?;
    let mut said = Vec::new();
    let output = child.stdout.take().context("its output is not there")?;
    let mut output = output.take(MOST_BYTES);
    output
        .read_to_end(&mut said)
        .with_context(|| format!("cannot read what `{command}` says"))?;
    // What it says beyond is not kept, and it must not wait for somebody to read it.
    drop(output);
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{command}`"))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    all.push(json!({"command": command, "output": said}));
    if !status.success() {
        let last = said
            .lines()
            .last()
            .map_or_else(String::new, |line| format!(": {line}"));
        bail!("the workload's command `{command}` ended with {status}{last}");
    }
    Ok(())
}

/// Commands that run beside the load. Dropped, they are ended.
#[derive(Debug)]
pub struct Monitors(Vec<Monitor>);

#[derive(Debug)]
struct Monitor {
    command: String,
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
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
        // A group of its own, so that what the shell starts ends with it.
        let mut child = shell(command)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start the monitor `{command}`"))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let output = child.stdout.take().context("its output is not there")?;
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let at_s = start.elapsed().as_secs_f64();
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                // The rest is read and forgotten, so that it does not wait for a reader.
                if kept.len() < MOST_LINES {
                    kept.push(json!({"at_s": at_s, "line": String::from_utf8_lossy(&line)}));
                }
            }
        });
        Ok(Self {
            command: command.to_owned(),
            child,
            lines,
            reader: Some(reader),
        })
    }

    fn stop(&mut self) -> Value {
        if let Some(reader) = self.reader.take() {
            end_group(&mut self.child);
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

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(all: &[&str]) -> Vec<String> {
        all.iter().map(|command| (*command).to_owned()).collect()
    }

    /// What came of these, and what they said.
    fn ran(all: &[&str]) -> (Result<()>, Vec<Value>) {
        let mut said = Vec::new();
        (run(&commands(all), &mut said), said)
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
        let monitors = Monitors::start(&commands(&[
            "echo first; sleep 1000 & echo second; wait",
            "trap '' TERM; echo deaf; while :; do sleep 1; done",
        ]))
        .unwrap();
        let groups: Vec<Pid> = monitors.0.iter().map(|of| Pid::from_child(&of.child)).collect();
        let deadline = Instant::now() + Duration::from_secs(120);
        let lines = |of: &Monitor| of.lines.lock().unwrap().len();
        while lines(&monitors.0[0]) < 2 || lines(&monitors.0[1]) < 1 {
            assert!(Instant::now() < deadline, "they say nothing");
            std::thread::sleep(LOOK);
        }
        let said = monitors.stop();
        let lines: Vec<&str> = said[0]["lines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["line"].as_str().unwrap())
            .collect();
        assert_eq!(lines, ["first", "second"]);
        assert!(said[0]["lines"][0]["at_s"].as_f64().unwrap() >= 0.0);
        for group in groups {
            let deadline = Instant::now() + Duration::from_secs(120);
            while kill_process_group(group, Signal::CONT).is_ok() {
                assert!(Instant::now() < deadline, "one of the group is left");
                std::thread::sleep(LOOK);
            }
        }
    }
}
