//! Two states of this machine, measured in turns by two runs of this program and compared.
//!
//! Each run has the user's command before each of its tries, and has it once before it looks at the machine and plans:
//! a state may have CPUs of its own. So the second run begins only when the first waits for it. Or a state is CPUs, and
//! a run has those of its state from its start on.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};
use threadgauge_lab::launch::Interrupts;
use threadgauge_lab::site::Profile;
use threadgauge_machine::{
    CpuList, allowed_cpus, cores_first, end_with_this_thread, pin_thread, smt_siblings,
};
use threadgauge_report::comparison_text;
use threadgauge_results::{Repeated, compare_sides, machine_differences};

use crate::cli::RunOptions;
use crate::commands::run::{interrupts, typed, usable};
use crate::folder;
use crate::output::{Done, Verdict, print, say, shown, style};

/// How often it is looked whether a run has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long a run that was asked to end at once may take for what it has started, and for its report.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// What a run ends with whose cases failed, where that was to be an error.
const CHECK_FAILED: i32 = 1;

/// The two sides, which their folders and their lines are called by.
const SIDES: [&str; 2] = ["a", "b"];
/// What a side begins with that is CPUs.
const CPUS: &str = "cpus=";

/// What brings a state about.
#[derive(Debug, PartialEq)]
enum State {
    /// The user's command, before each try.
    Command(String),
    /// That there are these CPUs alone for the whole run.
    Cpus(CpuList),
}

/// What the two sides are, as typed.
fn states(typed: [&str; 2]) -> Result<[State; 2]> {
    let states = [state(typed[0])?, state(typed[1])?];
    match &states {
        [State::Cpus(of_a), State::Cpus(of_b)] => {
            ensure!(
                of_a != of_b,
                "--switch: both sides have CPUs {of_a}, so nothing would differ"
            );
        }
        [State::Command(_), State::Command(_)] => {}
        _ => bail!(
            "--switch: one side is CPUs and the other a command, and what that changes would stay so for both: give \
             commands on both sides, or CPUs"
        ),
    }
    Ok(states)
}

fn state(typed: &str) -> Result<State> {
    let Some(named) = typed.strip_prefix(CPUS) else {
        return Ok(State::Command(typed.to_owned()));
    };
    Ok(State::Cpus(match named {
        "all" => usable(None, "--switch")?,
        "one-a-core" => one_a_core(&usable(None, "--switch")?, &smt_siblings()),
        list => {
            let list = list
                .parse::<CpuList>()
                .with_context(|| format!("--switch {typed}"))?;
            usable(Some(&list), "--switch")?
        }
    }))
}

/// Of each core the first of these CPUs.
fn one_a_core(cpus: &CpuList, siblings: &[CpuList]) -> CpuList {
    let (cpus, cores) = cores_first(cpus, siblings);
    CpuList::new(cpus.into_iter().take(cores))
}

/// Measures in the states that the two sides are, and prints what the second is against the first. Blocks.
pub fn switch(options: &RunOptions, sides: [&str; 2]) -> Done {
    let states = states(sides)?;
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
    let dirs = SIDES.map(|name| dir.join(name));
    say(&match &states {
        [State::Cpus(of_a), State::Cpus(of_b)] => format!("Side a has CPUs {of_a}, side b CPUs {of_b}"),
        _ => format!(
            "Before its tries side a has `{}`, side b `{}`; what they change stays changed",
            sides[0], sides[1]
        ),
    });
    let mut runs = Runs::default();
    runs.begin(options, SIDES[0], &states[0], &at, &dirs[0])?;
    let met = runs.wait_until(&mut interrupts, |_| at.exists())?;
    // What asked the first to end is not passed on again: the second would wait for it for ever.
    if met && interrupts.count() == 0 {
        runs.begin(options, SIDES[1], &states[1], &at, &dirs[1])?;
        runs.wait_until(&mut interrupts, |ended| ended == 2)?;
    }
    if interrupts.count() > 0 {
        return Ok(asked.verdict());
    }
    let [a, b] = [folder::read(&dirs[0])?, folder::read(&dirs[1])?];
    let machines = [&a, &b].map(|run| &run.results.machine);
    let has_other_cpus = machines[0].get("allowed_cpus") != machines[1].get("allowed_cpus");
    let differs = has_other_cpus || !machine_differences(machines[0], machines[1]).is_empty();
    let sides = [a, b].map(Repeated::once);
    let compared = compare_sides(&sides[0], &sides[1])?;
    print(&comparison_text(&compared, &style()))?;
    if !differs {
        say(
            "Nothing that a results folder knows of the machine differs between the two states: either the commands \
             changed nothing, or what they changed is not looked at",
        );
    }
    say(&format!(
        "The runs are in {} and {}",
        shown(&dirs[0]),
        shown(&dirs[1])
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
    fn begin(
        &mut self,
        options: &RunOptions,
        side: &str,
        state: &State,
        at: &Path,
        out: &Path,
    ) -> Result<()> {
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
        if let State::Command(command) = state {
            run.arg("--before-try").arg(command);
        }
        run.args(["--side", side]);
        run.arg("--turns").arg(at).arg("--out").arg(out);
        // It hears from this one that it is to end, not from the terminal as well.
        run.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        end_with_this_thread(&mut run);
        let started = match state {
            State::Command(_) => run.spawn(),
            State::Cpus(cpus) => pinned(cpus, || run.spawn())?,
        };
        self.going
            .push(started.context("this program cannot be started again")?);
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
            self.ask_to_end();
        }
        self.asked = asked;
    }

    /// Not by SIGINT: a shell has what it starts in the background ignore that, and so would they.
    fn ask_to_end(&self) {
        for run in &self.going {
            // It may have ended just now.
            let _ = kill_process_group(Pid::from_child(run), Signal::TERM);
        }
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

/// Does it with this thread on these CPUs alone: what it starts has no others.
fn pinned<T>(cpus: &CpuList, act: impl FnOnce() -> T) -> Result<T> {
    let before = allowed_cpus()?;
    pin_thread(cpus)?;
    let done = act();
    pin_thread(&before)?;
    Ok(done)
}

impl Drop for Runs {
    /// Asks again and again, which is more than once: so each ends at once, with all that it has started.
    fn drop(&mut self) {
        let until = Instant::now() + ENDS_WITHIN;
        while Instant::now() < until {
            self.going.retain_mut(|run| matches!(run.try_wait(), Ok(None)));
            if self.going.is_empty() {
                return;
            }
            self.ask_to_end();
            thread::sleep(LOOK);
        }
        for run in &mut self.going {
            // It may have ended by itself.
            let _ = run.kill();
            let _ = run.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_results::Results;

    use super::*;

    fn refused(typed: [&str; 2]) -> String {
        format!("{:#}", states(typed).unwrap_err())
    }

    #[test]
    fn a_side_is_a_command_or_cpus_and_both_are_of_a_kind() {
        let all = allowed_cpus().unwrap();
        let first = all.first(1);
        let command = |typed: &str| State::Command(typed.to_owned());
        assert_eq!(
            states(["true", "x y"]).unwrap(),
            [command("true"), command("x y")]
        );
        // A word before it makes it a command.
        assert_eq!(state("env cpus=1 x").unwrap(), command("env cpus=1 x"));
        assert_eq!(state(&format!("cpus={first}")).unwrap(), State::Cpus(first));
        assert_eq!(state("cpus=all").unwrap(), State::Cpus(all));
        assert!(refused(["cpus=all", "true"]).contains("one side is CPUs and the other a command"));
        assert!(refused(["cpus=all", "cpus=all"]).contains("nothing would differ"));
        assert!(refused(["true", "cpus=a"]).contains("\"a\" in the CPU list"));
        assert!(refused(["cpus=60000", "cpus=all"]).contains("--switch: CPU 60000 is not one"));
    }

    #[test]
    fn one_thread_a_core_is_the_first_of_each() {
        let list = |of: &str| of.parse::<CpuList>().unwrap();
        let siblings = [list("0,4"), list("1,5")];
        assert_eq!(one_a_core(&list("0-2,4-5"), &siblings), list("0-2"));
        assert_eq!(one_a_core(&list("2,4-5"), &siblings), list("2,4-5"));
        assert_eq!(one_a_core(&list("0-1"), &[]), list("0-1"));
    }

    #[test]
    fn what_is_started_on_some_cpus_has_no_others_and_this_thread_has_all_again() {
        let all = allowed_cpus().unwrap();
        let first = all.first(1);
        let status = pinned(&first, || {
            let mut command = Command::new("cat");
            command.arg("/proc/self/status").output().unwrap().stdout
        });
        let status = String::from_utf8(status.unwrap()).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(line.unwrap().trim(), first.to_string());
        assert_eq!(allowed_cpus().unwrap(), all);
    }

    /// The comparison knows a side's CPUs by its document, which has what was typed.
    #[test]
    fn how_many_cpus_a_run_was_given_is_read_from_what_was_typed() {
        let text = include_str!("../../../../runs/golden/computing/results.json");
        let mut results: Results = serde_json::from_str(text).unwrap();
        let options = RunOptions {
            cpus: Some("0,2-3".parse().unwrap()),
            ..RunOptions::default()
        };
        results.run.options = typed(&options);
        assert_eq!(results.cpus(), Some(3));
    }
}
