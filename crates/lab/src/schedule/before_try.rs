//! A command of the user's own before each try: what puts the machine into the state that is to be measured.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use threadgauge_machine::{CpuList, allowed_cpus};

/// A switch of a state takes milliseconds; who waits for ever is told so.
const LONGEST: Duration = Duration::from_secs(30);
/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(2);

/// A command for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeforeTry {
    command: String,
    longest: Duration,
    /// Those that this process had in the state when all was planned, once that is known.
    cpus: Option<CpuList>,
}

/// Why the machine may not be in the state that was asked for.
#[derive(Debug, Error)]
#[error("the command before a try, `{command}`, {why}")]
pub struct BeforeTryError {
    command: String,
    why: String,
}

impl BeforeTry {
    /// As a user types it.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            longest: LONGEST,
            cpus: None,
        }
    }

    /// Runs it before anything is planned, since a state may have CPUs of its own: those that this process has then it
    /// is to have after each later [run](Self::run), too.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and if the CPUs cannot be read.
    pub fn run_first(self, is_interrupted: impl FnMut() -> bool) -> Result<Self, BeforeTryError> {
        self.run(is_interrupted)?;
        let cpus = Some(self.cpus_here()?);
        Ok(Self { cpus, ..self })
    }

    /// Runs it by `sh`, without input; what it prints is not shown, what it says on standard error is. Blocks until it
    /// has ended, half a minute at most, or the user asks to stop.
    ///
    /// # Errors
    ///
    /// It cannot be started, fails, or leaves this process other CPUs than it was planned for. It does not end or is
    /// interrupted: then it is killed with all that it has started in its process group.
    pub fn run(&self, mut is_interrupted: impl FnMut() -> bool) -> Result<(), BeforeTryError> {
        let error = |why| self.error(why);
        let mut child = self
            .start()
            .map_err(|why| error(format!("cannot be started: {why}")))?;
        let until = Instant::now() + self.longest;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if is_interrupted() => {
                    end(&mut child);
                    return Err(error("was interrupted".to_owned()));
                }
                Ok(None) if Instant::now() < until => thread::sleep(LOOK),
                Ok(None) => {
                    end(&mut child);
                    return Err(error(format!(
                        "had not ended after {} s and was killed",
                        self.longest.as_secs_f64()
                    )));
                }
                Err(why) => return Err(error(format!("cannot be waited for: {why}"))),
            }
        };
        match status.success() {
            true => self.keeps_cpus(),
            false => Err(error(format!("ended with {status}; what it said stands above"))),
        }
    }

    fn keeps_cpus(&self) -> Result<(), BeforeTryError> {
        let Some(planned) = &self.cpus else {
            return Ok(());
        };
        let here = self.cpus_here()?;
        match here == *planned {
            true => Ok(()),
            false => Err(self.error(format!(
                "left this run CPUs {here}, and it was planned for CPUs {planned}, which were there after the command \
                 first ran"
            ))),
        }
    }

    fn cpus_here(&self) -> Result<CpuList, BeforeTryError> {
        allowed_cpus().map_err(|why| self.error(format!("ran, and which CPUs it left cannot be read: {why}")))
    }

    fn error(&self, why: String) -> BeforeTryError {
        BeforeTryError {
            command: self.command.clone(),
            why,
        }
    }

    /// In a process group of its own, so that what the shell has started can be ended with it.
    fn start(&self) -> io::Result<Child> {
        Command::new("sh")
            .args(["-c", &self.command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
    }
}

/// Kills the shell and what it has started.
fn end(shell: &mut Child) {
    // They may have ended just now.
    let _ = kill_process_group(Pid::from_child(shell), Signal::KILL);
    let _ = shell.wait();
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn why(command: &str) -> String {
        BeforeTry::new(command).run(|| false).unwrap_err().to_string()
    }

    #[test]
    fn it_is_run_by_a_shell_and_its_failure_is_named() {
        BeforeTry::new("true && cat").run(|| false).unwrap();
        assert_eq!(
            why("exit 3"),
            "the command before a try, `exit 3`, ended with exit status: 3; what it said stands above"
        );
        assert!(why("/no/such/program 2>/dev/null").contains("ended with exit status: 127"));
        assert!(why("kill -9 $$").contains("signal: 9"));
    }

    #[test]
    fn one_that_leaves_other_cpus_than_all_was_planned_for_is_refused() {
        let first = BeforeTry::new("true").run_first(|| false).unwrap();
        first.run(|| false).unwrap();
        let planned = CpuList::new([0, 60_000]);
        let other = BeforeTry {
            cpus: Some(planned.clone()),
            ..first
        };
        let why = other.run(|| false).unwrap_err().to_string();
        let here = allowed_cpus().unwrap();
        let says = format!("left this run CPUs {here}, and it was planned for CPUs {planned}");
        assert!(why.contains(&says), "{why}");
    }

    #[test]
    fn one_that_is_interrupted_is_killed() {
        let hangs = BeforeTry::new("sleep 600");
        let why = hangs.run(|| true).unwrap_err().to_string();
        assert!(why.contains("was interrupted"), "{why}");
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let hangs = BeforeTry {
            longest: Duration::from_millis(50),
            ..BeforeTry::new("exec sleep 600")
        };
        let why = hangs.run(|| false).unwrap_err().to_string();
        assert!(why.contains("had not ended after 0.05 s"), "{why}");
    }

    #[test]
    fn what_a_hanging_command_has_started_is_killed_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let command = format!("sleep 600 & echo $! > {}; wait", file.display());
        let mut shell = BeforeTry::new(command).start().unwrap();
        let started = wait_for(|| fs::read_to_string(&file).ok()?.trim().parse().ok());
        end(&mut shell);
        // Whoever is its parent now may not have asked for how it ended.
        let status = format!("/proc/{}/stat", started.unwrap_or(0_u32));
        let gone = wait_for(|| match fs::read_to_string(&status) {
            Ok(text) => text.contains(") Z ").then_some(()),
            Err(_) => Some(()),
        });
        assert!(started.is_some() && gone.is_some(), "{started:?} lives on");
    }

    /// What there is when there is something; none where that takes much longer than it may.
    fn wait_for<T>(look: impl Fn() -> Option<T>) -> Option<T> {
        let until = Instant::now() + LONGEST;
        loop {
            let found = look();
            if found.is_some() || Instant::now() > until {
                return found;
            }
            thread::sleep(LOOK);
        }
    }
}
