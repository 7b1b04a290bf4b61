//! A command of the user's own before each try: what puts the machine into the state that is to be measured.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

/// A switch of a state takes milliseconds; who waits for ever is told so.
const LONGEST: Duration = Duration::from_secs(30);
/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(2);

/// A command for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeforeTry {
    command: String,
    longest: Duration,
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
        }
    }

    /// Runs it by `sh`, without input; what it prints is not shown, what it says on standard error is. Blocks until it
    /// has ended, half a minute at most.
    ///
    /// # Errors
    ///
    /// It cannot be started, fails, or does not end, in which case it is killed.
    pub fn run(&self) -> Result<(), BeforeTryError> {
        let error = |why: String| BeforeTryError {
            command: self.command.clone(),
            why,
        };
        let mut child = Command::new("sh")
            .args(["-c", &self.command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|why| error(format!("cannot be started: {why}")))?;
        let until = Instant::now() + self.longest;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < until => thread::sleep(LOOK),
                Ok(None) => {
                    // It may have ended just now.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(error(format!(
                        "had not ended after {} s and was killed",
                        self.longest.as_secs_f64()
                    )));
                }
                Err(why) => return Err(error(format!("cannot be waited for: {why}"))),
            }
        };
        match status.success() {
            true => Ok(()),
            false => Err(error(format!("ended with {status}; what it said stands above"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(command: &str) -> String {
        BeforeTry::new(command).run().unwrap_err().to_string()
    }

    #[test]
    fn it_is_run_by_a_shell_and_its_failure_is_named() {
        BeforeTry::new("true && cat").run().unwrap();
        assert_eq!(
            why("exit 3"),
            "the command before a try, `exit 3`, ended with exit status: 3; what it said stands above"
        );
        assert!(why("/no/such/program 2>/dev/null").contains("ended with exit status: 127"));
        assert!(why("kill -9 $$").contains("signal: 9"));
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let hangs = BeforeTry {
            longest: Duration::from_millis(50),
            ..BeforeTry::new("exec sleep 600")
        };
        let why = hangs.run().unwrap_err().to_string();
        assert!(why.contains("had not ended after 0.05 s"), "{why}");
    }
}
