//! A command that is started to be observed.
//!
//! It has a process group of its own, so that a Ctrl-C ends observing, and that then asks the command to end.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use threadgauge_machine::{Usage, end_with_this_thread, usage_children};

use crate::commands::load::commands::end_group;

/// A command that runs. Dropped, it is ended with all that it started.
#[derive(Debug)]
pub struct Started {
    child: Child,
    begun: Instant,
    before: Usage,
    /// How it ended, and after how long.
    ended: Option<(ExitStatus, Duration)>,
}

/// How a command ended by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// How long it took, from its start to when its end was seen.
    pub took: Duration,
    /// CPU time of it and of all that it waited for.
    pub cpu: Duration,
}

impl Started {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// If there is no such program, or it cannot be run.
    pub fn new(words: &[String]) -> Result<Self> {
        let [program, arguments @ ..] = words else {
            return Err(anyhow!("--command is empty"));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::null())
            // Standard output is for results.
            .stdout(Stdio::from(io::stderr()));
        // Whatever ends this process.
        end_with_this_thread(&mut command);
        let before = usage_children();
        let child = command.spawn().with_context(|| {
            format!("--command: `{program}` cannot be started; is it installed, and its path right?")
        })?;
        Ok(Self {
            child,
            begun: Instant::now(),
            before,
            ended: None,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// How it ended, once it has; does not wait for that.
    pub fn ended(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            let status = self.child.try_wait().ok().flatten();
            self.ended = status.map(|status| (status, self.begun.elapsed()));
        }
        let (status, took) = self.ended?;
        Some(Ended {
            status,
            took,
            cpu: usage_children().cpu().saturating_sub(self.before.cpu()),
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // What it left running of its own will is left, as a shell would leave it.
        if self.ended().is_none() {
            end_group(&mut self.child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(words: &[&str]) -> Result<Started> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Started::new(&words)
    }

    #[test]
    fn how_a_command_ends_is_told_once_it_has() {
        let mut started = start(&["sh", "-c", "exit 3"]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        let ended = loop {
            if let Some(ended) = started.ended() {
                break ended;
            }
            assert!(Instant::now() < deadline, "it has nothing to do");
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(started.ended().unwrap().took, ended.took);
    }

    #[test]
    fn one_that_cannot_be_started_is_named() {
        let error = format!("{:#}", start(&["/no/such/program", "x"]).unwrap_err());
        assert!(
            error.starts_with("--command: `/no/such/program` cannot be started"),
            "{error}"
        );
        assert!(start(&[]).is_err());
    }

    #[test]
    fn one_that_goes_on_is_ended_when_nobody_wants_it_any_more() {
        let started = start(&["sleep", "1000"]).unwrap();
        let stat = format!("/proc/{}/stat", started.pid());
        assert!(std::fs::exists(&stat).unwrap());
        drop(started);
        assert!(!std::fs::exists(&stat).unwrap());
    }
}
