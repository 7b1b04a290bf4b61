//! `cargo xtask within`: a test binary, ended where it takes much longer than it did before.
//!
//! A changed line that makes a test spin would otherwise have all CPUs until the time of a whole crate's tests is over
//! twice. It is what `cargo test` starts its binaries with in `check-deep --mutants-only`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::shell;

/// Which binary, and where it is kept how long it took.
#[derive(Args)]
pub struct Options {
    /// A folder with a file a binary, in seconds; what is not there yet has all the time it wants, and is kept
    #[arg(value_name = "DIR")]
    times: PathBuf,
    /// The binary, and what it is given
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Runs it, in the folder in which this was started. Blocks.
///
/// # Errors
///
/// Where it fails, or takes longer than it may.
pub fn run(options: &Options) -> Result<()> {
    let [program, arguments @ ..] = options.command.as_slice() else {
        bail!("no command")
    };
    let name = Path::new(program)
        .file_name()
        .context("the command has no name")?;
    let kept = options.times.join(name);
    let before = fs::read_to_string(&kept).ok();
    let before = before.map(|text| text.parse().map(Duration::from_secs_f64));
    let limit = before.transpose()?.map(may_take);
    let began = Instant::now();
    ended(limit, program, arguments)?;
    if limit.is_none() {
        fs::write(kept, began.elapsed().as_secs_f64().to_string())?;
    }
    Ok(())
}

/// As many changes as CPUs are tried at once, so each has less of them than the tests had alone.
fn may_take(before: Duration) -> Duration {
    Duration::from_secs(10) + 3 * before
}

fn ended(limit: Option<Duration>, program: &OsString, arguments: &[OsString]) -> Result<()> {
    let mut command = match limit {
        None => shell::command_at(Path::new(program)),
        Some(limit) => {
            let mut command = shell::command_at(Path::new("timeout"));
            let seconds = limit.as_secs_f64().to_string();
            command.args(["--kill-after=5", &seconds]).arg(program);
            command
        }
    };
    let status = command
        .args(arguments)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let is_over = status.code() == Some(124) || status.code() == Some(137);
    if let Some(limit) = limit.filter(|_| is_over) {
        bail!("{} was ended after {limit:?}", program.display());
    }
    ensure!(status.success(), "{} ended with {status}", program.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_a_while_once_may_take_some_times_as_long_and_no_more() {
        let times = std::env::temp_dir().join(format!("threadgauge-within-{}", std::process::id()));
        fs::create_dir_all(&times).unwrap();
        let run = |words: [&str; 2]| {
            run(&Options {
                times: times.clone(),
                command: words.map(OsString::from).to_vec(),
            })
        };
        run(["sleep", "0"]).unwrap();
        let kept: f64 = fs::read_to_string(times.join("sleep")).unwrap().parse().unwrap();
        assert!(kept > 0.0, "{kept}");
        run(["sleep", "0.01"]).unwrap();
        assert_eq!(
            fs::read_to_string(times.join("sleep")).unwrap(),
            kept.to_string(),
            "the first counts"
        );
        let says = run(["sleep", "nonsense"]).unwrap_err().to_string();
        assert!(says.starts_with("sleep ended with"), "{says}");
        fs::remove_dir_all(&times).unwrap();

        assert_eq!(may_take(Duration::from_secs(2)), Duration::from_secs(16));
        let of = |arguments: &str| {
            ended(
                Some(Duration::from_millis(50)),
                &OsString::from("sleep"),
                &[arguments.into()],
            )
        };
        of("0").unwrap();
        let says = of("600").unwrap_err().to_string();
        assert_eq!(says, "sleep was ended after 50ms");
    }
}
