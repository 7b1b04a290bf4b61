//! `cargo xtask size`: how much code there is, and which files import each other in a circle.
//!
//! A *line of code* is a line, as rustfmt leaves it, that holds at least a part of a token. Blank lines are none, nor
//! comments, nor documentation, nor what only a test build contains: `#[cfg(test)]`, and
//! `#[cfg(any(test, feature = "testing"))]` for what tests of other crates use too, with the files of such modules.
//! Attributes, `use`, closing brackets and the bodies of macros count; so does each line of a long string that is not
//! blank. A crate is what its `lib.rs`, `main.rs` and `build.rs` declare: `tests`, `examples` and `benches` are left
//! out. `xtask` is one of them.
//!
//! What an import is, [`imports`] says; what must hold, [`limits`]. Here are the tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;

use crate::shell;

mod imports;
mod limits;
mod source;

use imports::{Crate, File, Imports};

/// Where experiments lie: one file or one folder each.
const EXPERIMENTS: &str = "crates/experiments/src";
/// What lies beside them and is none.
const NO_EXPERIMENT: [&str; 6] = ["catalogue", "channels", "guests", "lib", "servers", "sys"];
/// The crates that may have no circle.
const WITHOUT_CIRCLES: [&str; 5] = ["experiments", "lab", "report", "results", "threadgauge"];

/// The crate of the chores, and where it lies.
const CHORES: &str = "xtask";

/// What to print besides the tables, or instead of them.
#[derive(Args)]
pub struct Options {
    /// Every import within a circle, and the path that says so
    #[arg(long)]
    imports: bool,
    /// Print no table; fail where a limit on files and lines does not hold
    #[arg(long, conflicts_with = "imports")]
    check: bool,
}

/// Prints the tables as Markdown, or checks the limits.
///
/// # Errors
///
/// If a file is not as rustfmt leaves it, or cannot be read; if a limit does not hold that was to be checked.
pub fn run(options: &Options) -> Result<()> {
    if options.check {
        return check();
    }
    let crates = read_formatted()?;
    print!("{}", sizes(&crates));
    print!("{}", circles(&crates, options.imports));
    Ok(())
}

/// Fails where a limit does not hold.
///
/// # Errors
///
/// As [`run`].
pub fn check() -> Result<()> {
    limits::check(&read_formatted()?)
}

fn read_formatted() -> Result<Vec<(String, Crate)>> {
    shell::run(shell::cargo().args(["fmt", "--all", "--check"]))?;
    let mut crates = read_all(Path::new("crates"))?;
    crates.push((CHORES.to_owned(), Crate::read(Path::new(CHORES))?));
    Ok(crates)
}

fn read_all(folder: &Path) -> Result<Vec<(String, Crate)>> {
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    folders.sort();
    ensure!(!folders.is_empty(), "{} holds no crate", folder.display());
    let name = |folder: &PathBuf| {
        folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    folders
        .iter()
        .map(|folder| Ok((name(folder), Crate::read(folder)?)))
        .collect()
}

fn sizes(crates: &[(String, Crate)]) -> String {
    let mut out = "## Lines of code\n\n| crate | lines | files | largest file | its lines |\n".to_owned();
    out.push_str("|---|---:|---:|---|---:|\n");
    for (name, whole) in crates {
        out.push_str(&row(name, &whole.files.iter().collect::<Vec<_>>()));
    }
    let all: Vec<&File> = crates.iter().flat_map(|(_, whole)| &whole.files).collect();
    out.push_str(&row("all", &all));

    out.push_str("\n| experiment | lines | files | largest file | its lines |\n|---|---:|---:|---|---:|\n");
    for (name, files) in &experiments(crates) {
        out.push_str(&row(name, files));
    }
    out
}

fn row(name: &str, files: &[&File]) -> String {
    let lines: usize = files.iter().map(|file| file.lines).sum();
    let Some(largest) = files.iter().max_by_key(|file| file.lines) else {
        return String::new();
    };
    let path = largest.path.display();
    format!(
        "| {name} | {lines} | {} | `{path}` | {} |\n",
        files.len(),
        largest.lines
    )
}

/// An experiment and its files.
type Experiment<'a> = (String, Vec<&'a File>);

/// All of them, by name.
fn experiments(crates: &[(String, Crate)]) -> Vec<Experiment<'_>> {
    let mut experiments: BTreeMap<String, Vec<&File>> = BTreeMap::new();
    for file in crates.iter().flat_map(|(_, whole)| &whole.files) {
        if let Some(name) = experiment_of(&file.path) {
            experiments.entry(name).or_default().push(file);
        }
    }
    experiments.into_iter().collect()
}

/// The experiment that a file belongs to.
fn experiment_of(path: &Path) -> Option<String> {
    name_inside(path).filter(|name| !NO_EXPERIMENT.contains(&name.as_str()))
}

/// The file or folder among the experiments in which a file lies.
fn name_inside(path: &Path) -> Option<String> {
    let inside = path.strip_prefix(EXPERIMENTS).ok()?;
    let first = Path::new(inside.components().next()?.as_os_str());
    Some(first.file_stem()?.to_str()?.to_owned())
}

fn circles(crates: &[(String, Crate)], with_imports: bool) -> String {
    let mut out = "\n## Circles of files\n\n".to_owned();
    let checked = crates
        .iter()
        .filter(|(name, _)| WITHOUT_CIRCLES.contains(&name.as_str()));
    for (name, whole) in checked {
        let (circles, imports) = circles_of(whole);
        let path = |file: usize| whole.files[file].path.display();
        if circles.is_empty() {
            out.push_str(&format!("- {name}: none\n"));
        }
        for circle in circles {
            out.push_str(&format!(
                "- {name}: {} of {} files\n",
                circle.len(),
                whole.files.len()
            ));
            for file in &circle {
                out.push_str(&format!("  - `{}`\n", path(*file)));
                let from_file = imports.range((*file, 0)..(file + 1, 0));
                for ((_, to), said) in from_file.filter(|((_, to), _)| with_imports && circle.contains(to)) {
                    out.push_str(&format!("    - imports `{}`: `{said}`\n", path(*to)));
                }
            }
        }
    }
    out
}

/// The circles of a crate's files, and all its imports.
fn circles_of(whole: &Crate) -> (Vec<Vec<usize>>, Imports) {
    let imports = whole.imports();
    (imports::circles(whole.files.len(), &imports), imports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_is_a_file_or_a_folder() {
        let of = |path: &str| experiment_of(Path::new(path));
        assert_eq!(of("crates/experiments/src/create.rs").as_deref(), Some("create"));
        assert_eq!(
            of("crates/experiments/src/create/measure.rs").as_deref(),
            Some("create")
        );
        assert_eq!(of("crates/experiments/src/catalogue.rs"), None);
        assert_eq!(of("crates/experiments/src/sys/fork.rs"), None);
        assert_eq!(of("crates/lab/src/schedule.rs"), None);
    }

    #[test]
    fn a_row_sums_its_files_and_names_the_largest() {
        let file = |path: &str, lines| File {
            path: path.into(),
            lines,
        };
        let files = [file("a.rs", 3), file("b.rs", 40)];
        assert_eq!(
            row("x", &files.iter().collect::<Vec<_>>()),
            "| x | 43 | 2 | `b.rs` | 40 |\n"
        );
    }
}
