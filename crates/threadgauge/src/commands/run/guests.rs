//! The runtimes whose guests take part in a run: which were asked for, and making them ready before the first case.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use threadgauge_experiments::runtimes::find::Places;
use threadgauge_experiments::runtimes::prepare::{self, Asked, Prepared};
use threadgauge_lab::selection::Selector;
use threadgauge_results::Runtime;

use crate::cli::RunOptions;
use crate::output::{say, shown};

/// What stands for the experiments of one table, in place of their names.
const SHORTCUT: &str = "runtimes";

/// Whether the cells of the table over runtimes are asked for.
pub fn is_shortcut(experiments: &[String]) -> bool {
    experiments == [SHORTCUT]
}

/// The runtimes that were asked for: by `--runtime`, as values of `--only`, in the ids of `--case`, and all for the
/// shortcut where none is named.
///
/// # Errors
///
/// When `--only` or `--case` names one that is of no kind.
pub fn asked(options: &RunOptions) -> Result<Vec<Asked>> {
    let only = Selector::joined(&options.only);
    let by_value = only.values("runtime").map(|value| ("--only", value.to_string()));
    let parts = options.case.iter().flat_map(|id| id.split(','));
    let by_id = parts.filter_map(|part| Some(("--case", part.strip_prefix("runtime=")?.to_owned())));
    let mut asked = options.runtime.clone();
    for (option, name) in by_value.chain(by_id) {
        let is_known = asked
            .iter()
            .any(|of| matches!(of, Asked::One { name: known, .. } if *known == name));
        if !is_known && !asked.contains(&Asked::All) {
            let one = name.parse::<Asked>();
            asked.push(one.map_err(|says| anyhow!("{option}: {says}"))?);
        }
    }
    if asked.is_empty() && is_shortcut(&options.experiments) {
        asked.push(Asked::All);
    }
    Ok(asked)
}

/// The runtimes found and their guests built; `None` where none was asked for. Says what was found. Blocks.
///
/// # Errors
///
/// When there is no folder for the guests.
pub fn prepared(asked: &[Asked]) -> Result<Option<Prepared>> {
    if asked.is_empty() {
        return Ok(None);
    }
    say("Looks for runtimes and builds their guests");
    let prepared = prepare::prepare(asked, &Places::here()).context(FOLDER)?;
    for runtime in &prepared.runtimes {
        match &runtime.lack {
            None => say(&format!(
                "{} {}: {}",
                runtime.name, runtime.version, runtime.program
            )),
            Some(lack) => say(&format!("skipped: {lack}")),
        }
    }
    Ok(Some(prepared))
}

/// The runtimes of a run that goes on; `None` where it has none.
///
/// # Errors
///
/// When there is no folder for the guests, or one of the runtimes is not as it was.
pub fn again(dir: &Path, before: &[Runtime]) -> Result<Option<Prepared>> {
    if before.is_empty() {
        return Ok(None);
    }
    let prepared = prepare::again(before, &Places::here()).context(FOLDER)?;
    for (before, now) in before.iter().zip(&prepared.runtimes) {
        if !before.is_as(now) {
            let now = match &now.lack {
                Some(lack) => lack.to_string(),
                None => format!("it is {} now", now.version),
            };
            bail!(
                "{} was begun with {} {} ({}): {now}; its figures cannot be mixed with those of another: begin a new run",
                shown(dir),
                before.name,
                before.version,
                before.program
            );
        }
    }
    Ok(Some(prepared))
}

const FOLDER: &str = "there is no folder for guests; set TMPDIR to one that can be written to";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn asked_by(words: &str) -> Result<Vec<String>> {
        let words = format!("threadgauge run {words}");
        let Some(Command::Run(options)) = Cli::parse_from(words.split(' ')).command else {
            panic!("it is a run");
        };
        let asked = asked(&options)?;
        Ok(asked.iter().map(Asked::to_string).collect())
    }

    #[test]
    fn runtimes_are_asked_for_by_name_by_the_cases_that_are_picked_and_by_the_shortcut() {
        let none: [&str; 0] = [];
        assert_eq!(asked_by("create --only unit=thread").unwrap(), none);
        assert_eq!(
            asked_by("create --runtime go,java=/opt/java").unwrap(),
            ["go", "java=/opt/java"]
        );
        assert_eq!(
            asked_by("create --only runtime=go,java-21").unwrap(),
            ["go", "java-21"]
        );
        // Who says where one is has named it.
        let both = "create --runtime java=/opt/java --only runtime=java,go";
        assert_eq!(asked_by(both).unwrap(), ["java=/opt/java", "go"]);
        assert_eq!(asked_by("runtimes").unwrap(), ["all"]);
        assert_eq!(asked_by("runtimes --runtime go").unwrap(), ["go"]);
        assert_eq!(
            asked_by("create --runtime all --only runtime=java-25").unwrap(),
            ["all"]
        );
        assert_eq!(
            asked_by("create --case unit=a,runtime=go --case create/unit=b,runtime=go --case unit=c")
                .unwrap(),
            ["go"]
        );
        for (words, says) in [
            ("create --only runtime=ruby", "--only: there is no runtime `ruby`"),
            (
                "create --case unit=a,runtime=ruby",
                "--case: there is no runtime `ruby`",
            ),
        ] {
            let unknown = asked_by(words).unwrap_err().to_string();
            assert!(unknown.starts_with(says), "{unknown}");
        }
    }

    #[test]
    fn a_run_that_goes_on_with_another_version_is_refused() {
        let dir = Path::new("somewhere");
        assert!(again(dir, &[]).unwrap().is_none());
        let gone = Runtime {
            name: "go".to_owned(),
            kind: "go".to_owned(),
            version: "1.26".to_owned(),
            program: "/nowhere/go".to_owned(),
            command: Vec::new(),
            lack: None,
        };
        let refused = again(dir, &[gone]).unwrap_err().to_string();
        assert!(
            refused.starts_with("somewhere was begun with go 1.26 (/nowhere/go): go: /nowhere/go "),
            "{refused}"
        );
    }
}
