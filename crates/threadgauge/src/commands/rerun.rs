//! What a comparison flagged, measured again in turns: the base's program beside this one.
//!
//! Two runs behind each other differ by what the machine did; two in turns do not. So of the cases that are called
//! slower or faster, or fail a check, both programs run just these, try by try, and what the pairs say counts.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use threadgauge_experiments::gate;
use threadgauge_results::units::counted;
use threadgauge_results::{Compared, ComparisonResult, Gate, Repeated, Run, compare_sides};

use crate::folder;
use crate::output::{say, shown};

/// How often it is looked whether the first run waits for the second.
const LOOK: Duration = Duration::from_millis(20);

/// The same comparison with the flagged cases measured again, as the runs of the two sides were (`base` and `change`);
/// as it was where none is flagged. Blocks while both run.
///
/// # Errors
///
/// Where a program cannot be started or a run fails, or the runs were of a kind that cannot be measured again.
pub fn rerun(
    compared: Compared,
    [base, change]: [&Run; 2],
    program: &Path,
    gate: Option<&Gate>,
) -> Result<Compared> {
    let flagged = flagged(&compared, gate);
    if flagged.is_empty() {
        say("Nothing is flagged, so nothing is measured again.");
        return Ok(compared);
    }
    let shared = arguments(change, &flagged)?;
    let started = Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let dir = folder::default_out(&started, &format!("rerun-{:06x}", fastrand::u32(..1 << 24)));
    std::fs::create_dir_all(&dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    // A path of a socket is short, and that of a folder may not be.
    let meeting = tempfile::tempdir().context("there is no room for a socket")?;
    say(&format!(
        "Measures {} again in turns, by {} and by this program; results go to {}",
        counted(flagged.len(), "flagged case"),
        shown(program),
        shown(&dir)
    ));
    let own = std::env::current_exe().context("this program does not know where it is")?;
    let at = meeting.path().join("t");
    let outs = ["base", "change"].map(|name| dir.join(name));
    let start = |program: &Path, of: &Run, out: &Path| -> Result<Child> {
        let mut command = Command::new(program);
        command.args(&shared).args(state(of)).arg("--out").arg(out);
        command.arg("--turns").arg(&at);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
            .spawn()
            .with_context(|| format!("--rerun: {} cannot be started", shown(program)))
    };
    let mut of_base = start(program, base, &outs[0])?;
    wait_until_it_waits(&mut of_base, &at);
    let of_change = start(&own, change, &outs[1]);
    if of_change.is_err() {
        end(&mut of_base);
    }
    let mut of_change = of_change?;
    let first = of_base.wait()?;
    if !first.success() {
        // It would go on alone, for nothing.
        end(&mut of_change);
        bail!(
            "--rerun: {} ended with {first}; what it said stands above",
            shown(program)
        );
    }
    let second = of_change.wait()?;
    if !second.success() {
        bail!("--rerun: this program ended with {second}; what it said stands above");
    }
    let sides = [folder::read(&outs[0])?, folder::read(&outs[1])?].map(Repeated::once);
    let again = compare_sides(&sides[0], &sides[1])?;
    Ok(merged(compared, again, &flagged, &dir))
}

/// Waits until a run waits for the other there, or has ended: what it notes of the machine is then of its own state,
/// and not of that which the other brings about.
fn wait_until_it_waits(run: &mut Child, at: &Path) {
    while !at.exists() && matches!(run.try_wait(), Ok(None)) {
        thread::sleep(LOOK);
    }
}

/// Ends a run at once.
fn end(run: &mut Child) {
    // It may have ended by itself.
    let _ = run.kill();
    let _ = run.wait();
}

/// The ids of the cases that are called slower or faster, or that fail a check; each once.
fn flagged(compared: &Compared, gate: Option<&Gate>) -> Vec<String> {
    let is_flagged = |row: &&ComparisonResult| {
        ["slower", "faster"].contains(&row.verdict.as_str()) || gate.is_some_and(|gate| gate.is_beyond(row))
    };
    compared
        .rows
        .iter()
        .filter(is_flagged)
        .map(|row| row.b.clone())
        .collect()
}

/// How both are called: as the run was, but for which cases, and for what brings about the state of either.
fn arguments(of: &Run, flagged: &[String]) -> Result<Vec<String>> {
    let mut arguments = vec!["run".to_owned(), "--profile".to_owned(), of.profile.clone()];
    // The cases for a gate are named by their ids, and so have to have its rounds as well.
    let is_gate = of.options.iter().any(|option| option == gate::NAME);
    if is_gate && !of.options.iter().any(|option| option.starts_with("--rounds ")) {
        arguments.extend(["--rounds".to_owned(), of.rounds.to_string()]);
    }
    for option in &of.options {
        match option.split_once(' ') {
            Some(("--each" | "--items", _)) => bail!(
                "--rerun: a run of one's own commands (--each) takes no turns; measure both again, several runs a side"
            ),
            Some((name @ ("--set" | "--rounds" | "--cpus" | "--runtime"), value)) => {
                arguments.extend([name.to_owned(), value.to_owned()]);
            }
            // Experiments, and which of their cases: these are given by their ids.
            _ => {}
        }
    }
    for case in flagged {
        arguments.extend(["--case".to_owned(), case.clone()]);
    }
    Ok(arguments)
}

/// What a run of either side has of its own: what puts the machine into its state, and the work that it was to do more.
fn state(of: &Run) -> impl Iterator<Item = String> {
    let options = of.options.iter().filter_map(|option| option.split_once(' '));
    let own = options.filter(|(name, _)| ["--before-try", "--handicap"].contains(name));
    own.flat_map(|(name, value)| [name.to_owned(), value.to_owned()])
}

/// What was measured again in the place of what it was before.
fn merged(compared: Compared, again: Compared, flagged: &[String], dir: &Path) -> Compared {
    let mut missing = 0;
    let rows = compared.rows.into_iter().map(|row| {
        if !flagged.contains(&row.b) {
            return row;
        }
        let new = again.rows.iter().find(|new| new.b == row.b);
        missing += usize::from(new.is_none());
        new.cloned().unwrap_or(row)
    });
    let rows = rows.collect();
    let mut warnings = compared.warnings;
    warnings.push(format!(
        "{} measured again in turns: {} over these pairs of rounds, and not over the level",
        counted(flagged.len() - missing, "flagged case"),
        if flagged.len() == 1 {
            "its ratio is"
        } else {
            "their ratios are"
        },
    ));
    warnings.extend(
        (missing > 0).then(|| format!("{} could not be measured again", counted(missing, "flagged case"))),
    );
    warnings.extend(
        again
            .warnings
            .into_iter()
            .map(|says| format!("again ({}): {says}", dir.display())),
    );
    Compared {
        warnings,
        rows,
        ..compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, verdict: &str, low: f64) -> ComparisonResult {
        ComparisonResult {
            a: case.to_owned(),
            b: case.to_owned(),
            metric: "ns".to_owned(),
            ratio: Some(low + 0.01),
            ci95: Some([low, low + 0.02]),
            verdict: verdict.to_owned(),
            rounds_needed: None,
            reason: None,
            disturbed: false,
        }
    }

    fn compared(rows: Vec<ComparisonResult>) -> Compared {
        Compared {
            a_name: "a".to_owned(),
            b_name: "b".to_owned(),
            warnings: Vec::new(),
            paired: false,
            level: None,
            between: None,
            lost: Vec::new(),
            rows,
        }
    }

    #[test]
    fn what_differs_or_fails_a_check_is_flagged_and_replaced_by_what_was_measured_again() {
        let before = compared(vec![
            row("x", "slower", 1.1),
            row("y", "same", 0.99),
            row("z", "unknown", 1.04),
            row("w", "faster", 0.8),
        ]);
        assert_eq!(flagged(&before, None), ["x", "w"]);
        let gate = Gate::of(&["slower:3%".parse().unwrap()]).unwrap();
        let names = flagged(&before, Some(&gate));
        assert_eq!(names, ["x", "z", "w"]);
        let again = compared(vec![row("x", "same", 0.99), row("z", "slower", 1.05)]);
        let merged = merged(before, again, &names, Path::new("d"));
        let verdicts: Vec<&str> = merged.rows.iter().map(|row| row.verdict.as_str()).collect();
        assert_eq!(verdicts, ["same", "same", "slower", "faster"]);
        assert!(
            merged.warnings[0].starts_with("2 flagged cases measured again in turns"),
            "{:?}",
            merged.warnings
        );
        assert_eq!(merged.warnings[1], "1 flagged case could not be measured again");
    }

    fn run(options: &[&str]) -> Run {
        Run {
            id: "1".to_owned(),
            started: String::new(),
            profile: "standard".to_owned(),
            seed: 1,
            version: "0.1.0".to_owned(),
            rounds: 7,
            complete: true,
            measured_s: 1.0,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            in_turns_with: None,
        }
    }

    #[test]
    fn both_are_called_as_the_run_was_but_for_the_cases() {
        let of = run(&[
            "create",
            "--only unit=thread",
            "--set count=5",
            "--rounds 9",
            "--cpus 0",
        ]);
        let typed = arguments(&of, &["create/a=1".to_owned()]).unwrap().join(" ");
        assert_eq!(
            typed,
            "run --profile standard --set count=5 --rounds 9 --cpus 0 --case create/a=1"
        );
        let own = arguments(&run(&["turnaround", "--each 'x {}'", "--items l"]), &[]).unwrap_err();
        assert!(own.to_string().contains("takes no turns"), "{own}");
        assert_eq!(state(&of).count(), 0);
    }

    #[test]
    fn either_side_keeps_the_command_that_brings_its_state_about() {
        let of = run(&["ring", "--before-try echo none > /sys/x", "--rounds 6"]);
        let own: Vec<String> = state(&of).collect();
        assert_eq!(own, ["--before-try", "echo none > /sys/x"]);
        let shared = arguments(&of, &[]).unwrap().join(" ");
        assert_eq!(
            shared, "run --profile standard --rounds 6",
            "it is not the other side's"
        );
    }

    #[test]
    fn what_was_measured_for_a_gate_has_its_rounds_again() {
        let flagged = ["create/a=1".to_owned()];
        let typed = |options: &[&str]| arguments(&run(options), &flagged).unwrap().join(" ");
        assert_eq!(
            typed(&[gate::NAME]),
            "run --profile standard --rounds 7 --case create/a=1",
            "as many as the run had"
        );
        assert_eq!(
            typed(&[gate::NAME, "--rounds 20"]),
            "run --profile standard --rounds 20 --case create/a=1"
        );
        assert_eq!(typed(&["ring"]), "run --profile standard --case create/a=1");
    }
}
