//! Two states of this machine, measured in turns by two runs of this program and compared.
//!
//! Each run has the user's command before each of its tries, and a machine of its own in its results: the command has
//! run before that is looked at. So the second run begins only when the first waits for it.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};
use threadgauge_lab::launch::Interrupts;
use threadgauge_lab::site::Profile;
use threadgauge_report::comparison_text;
use threadgauge_results::{Repeated, compare_sides, machine_differences};

use crate::cli::RunOptions;
use crate::commands::run::{interrupts, typed};
use crate::folder;
use crate::output::{Done, Verdict, print, say, shown, style};

/// How often it is looked whether a run has ended.
const LOOK: Duration = Duration::from_millis(20);
/// What a run ends with whose cases failed, where that was to be an error.
const CHECK_FAILED: i32 = 1;

/// Measures in the states that `commands` bring about, and prints what the second is against the first. Blocks.
pub fn switch(options: &RunOptions, commands: [&str; 2]) -> Done {
    let (mut interrupts, asked) = interrupts()?;
    let dir = match &options.out {
        Some(dir) => dir.clone(),
        None => {
            let started = Timestamp::now().round(jiff::Unit::Second)?.to_string();
            folder::default_out(&started, &format!("switch-{:06x}", fastrand::u32(..1 << 24)))
        }
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("{} cannot be made", shown(&dir)))?;
    // A path of a socket is short, and that of a folder may not be.
    let meeting = tempfile::tempdir().context("there is no room for a socket")?;
    let at = meeting.path().join("t");
    let states = ["a", "b"].map(|name| dir.join(name));
    say(&format!(
        "Before its tries the one state has `{}`, the other `{}`; what they change stays changed",
        commands[0], commands[1]
    ));
    let mut runs = Runs::default();
    runs.begin(options, commands[0], &at, &states[0])?;
    let met = runs.wait_until(&mut interrupts, |_| at.exists())?;
    if met {
        runs.begin(options, commands[1], &at, &states[1])?;
        runs.wait_until(&mut interrupts, |ended| ended == 2)?;
    }
    if interrupts.count() > 0 {
        return Ok(asked.verdict());
    }
    let sides = [folder::read(&states[0])?, folder::read(&states[1])?].map(Repeated::once);
    let compared = compare_sides(&sides[0], &sides[1])?;
    print(&comparison_text(&compared, &style()))?;
    let [a, b] = sides.each_ref().map(|side| &side.runs[0].results.machine);
    if machine_differences(a, b).is_empty() {
        say(
            "Nothing that a results folder knows of the machine differs between the two states: either the commands \
             changed nothing, or what they changed is not looked at",
        );
    }
    say(&format!(
        "The runs are in {} and {}",
        shown(&states[0]),
        shown(&states[1])
    ));
    Ok(match runs.checks_failed {
        true => Verdict::CheckFailed,
        false => Verdict::Done,
    })
}

/// The runs that were begun; who is left is ended with this.
#[derive(Default)]
struct Runs {
    going: Vec<Child>,
    ended: usize,
    checks_failed: bool,
    /// How often they were asked to end.
    asked: u32,
}

impl Runs {
    fn begin(&mut self, options: &RunOptions, command: &str, at: &Path, out: &Path) -> Result<()> {
        let own = std::env::current_exe().context("this program does not know where it is")?;
        let mut run = Command::new(own);
        run.arg("run");
        for option in typed(options) {
            match option.split_once(' ') {
                Some((name, value)) if name.starts_with("--") => run.args([name, value]),
                _ => run.arg(option),
            };
        }
        run.args(["--profile", Profile::from(options.profile).name()]);
        run.args(options.seed.map(|seed| format!("--seed={seed}")));
        run.args(options.strict.then_some("--strict"));
        run.arg("--before-try").arg(command);
        run.arg("--turns").arg(at).arg("--out").arg(out);
        // It hears from this one that it is to end, not from the terminal as well.
        run.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        self.going
            .push(run.spawn().context("this program cannot be started again")?);
        Ok(())
    }

    /// Waits until `is_enough` of how many have ended, or all have; what asks to end is passed on. False where all
    /// ended before.
    ///
    /// # Errors
    ///
    /// A run that failed.
    fn wait_until(&mut self, interrupts: &mut Interrupts, is_enough: impl Fn(usize) -> bool) -> Result<bool> {
        loop {
            if is_enough(self.ended) {
                return Ok(true);
            }
            if self.going.is_empty() {
                return Ok(false);
            }
            self.pass_on(interrupts.count());
            let mut ended = Vec::new();
            for run in &mut self.going {
                ended.extend(run.try_wait()?.map(|status| (run.id(), status)));
            }
            for (id, status) in ended {
                self.going.retain(|run| run.id() != id);
                self.ended += 1;
                self.judge(status)?;
            }
            thread::sleep(LOOK);
        }
    }

    fn pass_on(&mut self, asked: u32) {
        for _ in self.asked..asked {
            for run in &self.going {
                // It may have ended just now.
                let _ = kill_process_group(Pid::from_child(run), Signal::INT);
            }
        }
        self.asked = asked;
    }

    fn judge(&mut self, status: ExitStatus) -> Result<()> {
        match status.code() {
            Some(0) => {}
            Some(CHECK_FAILED) => self.checks_failed = true,
            _ if self.asked > 0 => {}
            _ => bail!("--switch: a run ended with {status}; what it said stands above"),
        }
        Ok(())
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        for run in &mut self.going {
            // It may have ended by itself.
            let _ = run.kill();
            let _ = run.wait();
        }
    }
}
