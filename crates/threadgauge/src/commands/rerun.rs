//! What a comparison flagged, measured again in turns: the base's program beside this one.
//!
//! Two runs behind each other differ by what the machine did; two in turns do not. So of the cases that are called
//! slower or faster, or fail a check, both programs run just these, try by try, and what the pairs say counts.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use threadgauge_results::units::counted;
use threadgauge_results::{Compared, ComparisonResult, Gate, Repeated, Run, compare_sides};

use crate::folder;
use crate::output::{say, shown};

/// The same comparison with the flagged cases measured again; as it was where none is flagged. Blocks while both run.
///
/// # Errors
///
/// Where a program cannot be started or a run fails, or the runs were of a kind that cannot be measured again.
pub fn rerun(compared: Compared, of: &Run, program: &Path, gate: Option<&Gate>) -> Result<Compared> {
    let flagged = flagged(&compared, gate);
    if flagged.is_empty() {
        say("Nothing is flagged, so nothing is measured again.");
        return Ok(compared);
    }
    let arguments = arguments(of, &flagged)?;
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
    let [base, change] = ["base", "change"].map(|name| dir.join(name));
    let start = |program: &Path, out: &Path| -> Result<Child> {
        let mut command = Command::new(program);
        command.args(&arguments).arg("--out").arg(out);
        command.arg("--turns").arg(meeting.path().join("t"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
            .spawn()
            .with_context(|| format!("--rerun: {} cannot be started", shown(program)))
    };
    let mut of_base = start(program, &base)?;
    let of_change = start(&own, &change);
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
    let sides = [folder::read(&base)?, folder::read(&change)?].map(Repeated::once);
    let again = compare_sides(&sides[0], &sides[1])?;
    Ok(merged(compared, again, &flagged, &dir))
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

/// How both are called: as the run was, but for which cases.
fn arguments(of: &Run, flagged: &[String]) -> Result<Vec<String>> {
    let mut arguments = vec!["run".to_owned(), "--profile".to_owned(), of.profile.clone()];
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

    #[test]
    fn both_are_called_as_the_run_was_but_for_the_cases() {
        let run = |options: &[&str]| Run {
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
        };
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
    }
}
