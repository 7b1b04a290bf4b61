//! The machine as the schedule sees it: it runs workers, and has a clock and counters of its load.
//!
//! It is a trait, so that tests can simulate one: its clock runs only while a worker does, and its load is scripted.

use std::time::Duration;

use threadgauge_machine::{MachineError, Meter, Reading, clock};

use super::before_try::{BeforeTry, BeforeTryError};
use crate::launch::{Interrupts, Launcher, Outcome};
use crate::worker::Order;

/// What the schedule needs of a machine.
pub trait Machine {
    /// Time since some fixed moment; it never goes back.
    fn now(&self) -> Duration;

    /// Reads the counters.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    fn read(&mut self) -> Result<Reading, MachineError>;

    /// Puts the machine into the state that is to be measured, if it has others. Blocks.
    ///
    /// # Errors
    ///
    /// Where it cannot, or not for certain.
    fn prepare(&mut self) -> Result<(), BeforeTryError> {
        Ok(())
    }

    /// Runs one worker to its end, at most for `deadline`. Blocks.
    fn run(&mut self, order: &Order, deadline: Duration) -> Outcome;

    /// Waits until `then`, or until the user asks to stop. Blocks.
    fn wait_until(&mut self, then: Duration);

    /// The user's requests to stop.
    fn interrupts(&mut self) -> &mut Interrupts;
}

/// The machine this process runs on.
#[derive(Debug)]
pub struct ThisMachine {
    launcher: Launcher,
    meter: Meter,
    before_try: Option<BeforeTry>,
}

impl ThisMachine {
    /// This machine, with `launcher` to start its workers. Takes a few milliseconds.
    ///
    /// # Errors
    ///
    /// When its counters cannot be opened.
    pub fn new(launcher: Launcher) -> Result<Self, MachineError> {
        let meter = Meter::new()?;
        Ok(Self {
            launcher,
            meter,
            before_try: None,
        })
    }

    /// The same with a command before each try.
    #[must_use]
    pub fn with_before_try(self, before_try: Option<BeforeTry>) -> Self {
        Self { before_try, ..self }
    }
}

impl Machine for ThisMachine {
    fn now(&self) -> Duration {
        Duration::from_nanos(clock::monotonic_ns())
    }

    fn read(&mut self) -> Result<Reading, MachineError> {
        self.meter.read()
    }

    fn prepare(&mut self) -> Result<(), BeforeTryError> {
        let interrupts = self.launcher.interrupts();
        let is_interrupted = || interrupts.count() > 0;
        self.before_try
            .as_ref()
            .map_or(Ok(()), |command| command.run(is_interrupted))
    }

    fn run(&mut self, order: &Order, deadline: Duration) -> Outcome {
        self.launcher.run(order, deadline)
    }

    fn wait_until(&mut self, then: Duration) {
        const STEP: Duration = Duration::from_millis(50);
        while self.now() < then && self.interrupts().count() == 0 {
            std::thread::sleep(STEP.min(then.saturating_sub(self.now())));
        }
    }

    fn interrupts(&mut self) -> &mut Interrupts {
        self.launcher.interrupts()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn it_has_cpus_and_waits_until_then_and_no_longer_than_the_user_does() {
        let (mut user, ours) = UnixStream::pair().unwrap();
        let interrupts = Interrupts::new(ours).unwrap();
        let launcher = Launcher::new("/nowhere", [""; 0], interrupts).unwrap();
        let mut machine = ThisMachine::new(launcher).unwrap();
        assert!(!machine.read().unwrap().cpus.is_empty());
        let before = machine.now();
        machine.wait_until(before);
        let then = before + Duration::from_millis(120);
        machine.wait_until(then);
        assert!(machine.now() >= then);
        user.write_all(b"!").unwrap();
        let long = Duration::from_secs(3_600);
        machine.wait_until(then + long);
        assert!(machine.now() < then + long, "the user has asked to stop");
    }
}
