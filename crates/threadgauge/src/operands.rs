//! What a command compares: one grammar of operands for all that do.
//!
//! ```text
//! A B                   two sides of one run each
//! A B C …               a column a run
//! --base A1 A2 -- B1 B2 two sides of several runs each
//! ```
//!
//! Each operand is a results folder, a file that `export` wrote, or a folder of such, which is one side of all the runs
//! in it; or the name of a baseline.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use threadgauge_results::{Repeated, RunData};

use crate::output::shown;
use crate::{baselines, folder};

#[derive(Debug, Clone, Default, Args)]
pub struct Operands {
    /// Results folders, exported runs, names of baselines, or folders of runs, which are one side of all the runs in
    /// them. Two are compared, the second with the first; of more each is a column. Behind --base … -- all are one side
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// The folders of the base, up to `--`: what follows that is compared with them, and the spread between runs of a
    /// side is in the intervals
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub base: Vec<PathBuf>,
    /// What each side is called, in their order; what differs between them, or their folders, if not given
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub name: Vec<String>,
}

impl Operands {
    /// What was asked for, read by `read`: a side an operand, or two where there is a base.
    ///
    /// # Errors
    ///
    /// A folder that cannot be read, a folder that is named twice, a base that nothing is compared with, or names that
    /// are not as many as the sides.
    pub fn sides(&self, read: fn(&Path) -> Result<RunData>) -> Result<Vec<Repeated>> {
        if !self.base.is_empty() && self.dirs.is_empty() {
            bail!("what is compared with --base stands behind `--`: --base A1 A2 -- B1 B2");
        }
        self.refuse_options()?;
        self.refuse_equal_names()?;
        self.refuse_twice()?;
        let mut sides = if self.base.is_empty() {
            let each = self.dirs.iter();
            each.map(|dir| side(std::slice::from_ref(dir), read))
                .collect::<Result<Vec<_>>>()?
        } else {
            vec![side(&self.base, read)?, side(&self.dirs, read)?]
        };
        if !self.name.is_empty() && self.name.len() != sides.len() {
            bail!(
                "--name has {} and there are {}: give each its name, or none",
                self.name.join(", "),
                counted(sides.len())
            );
        }
        for (side, name) in sides.iter_mut().zip(&self.name) {
            side.name.clone_from(name);
        }
        Ok(sides)
    }

    /// Behind `--` every word is an operand.
    fn refuse_options(&self) -> Result<()> {
        let is_option = |operand: &&PathBuf| operand.to_string_lossy().starts_with("--");
        if let Some(option) = self.base.iter().chain(&self.dirs).find(is_option) {
            bail!(
                "{} stands behind `--`, where every word is a folder: options go before --base, as in `--name old,new --base \
                 A1 A2 -- B1 B2`; a folder that is called so is ./{}",
                shown(option),
                shown(option)
            );
        }
        Ok(())
    }

    /// Of two sides of one name nobody knows which is meant.
    fn refuse_equal_names(&self) -> Result<()> {
        let mut seen = BTreeSet::new();
        if let Some(name) = self.name.iter().find(|name| !seen.insert(*name)) {
            bail!("--name has `{name}` twice: give each side a name of its own");
        }
        Ok(())
    }

    /// A folder that counts twice makes a spread look small, and two sides equal.
    fn refuse_twice(&self) -> Result<()> {
        let mut seen = BTreeSet::new();
        for operand in self.base.iter().chain(&self.dirs) {
            // What does not exist is said where it is read.
            if let Ok(path) = baselines::resolve(operand).and_then(|dir| Ok(dir.canonicalize()?))
                && !seen.insert(path)
            {
                bail!("{} is named twice, and would count twice", shown(operand));
            }
        }
        Ok(())
    }
}

fn counted(sides: usize) -> String {
    threadgauge_results::units::counted(sides, "side")
}

/// The side of all runs of these operands.
fn side(operands: &[PathBuf], read: fn(&Path) -> Result<RunData>) -> Result<Repeated> {
    let mut runs = Vec::new();
    for operand in operands {
        let folders = folders(operand)?;
        for dir in &folders {
            let run = read(dir);
            runs.push(match folders.len() {
                1 => run?,
                several => run.with_context(|| {
                    format!(
                        "one of {} in {} cannot be read; mend it, or move it out of there",
                        threadgauge_results::units::counted(several, "run"),
                        shown(operand)
                    )
                })?,
            });
        }
    }
    let name = match operands {
        [one] => one.display().to_string(),
        [first, others @ ..] => format!("{} and {} more", first.display(), others.len()),
        [] => String::new(),
    };
    Ok(Repeated { name, runs })
}

/// The runs that an operand means: itself, or those in it. What is none is left to whoever reads it, who says so.
///
/// # Errors
///
/// Those of [`baselines::resolve`].
fn folders(operand: &Path) -> Result<Vec<PathBuf>> {
    let operand = baselines::resolve(operand)?;
    let runs = folder::runs_in(&operand).unwrap_or_default();
    Ok(if runs.is_empty() { vec![operand] } else { runs })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use threadgauge_results::STORE_FILE;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        operands: Operands,
    }

    fn typed(words: &str) -> Operands {
        Typed::try_parse_from(format!("x {words}").split_whitespace())
            .unwrap()
            .operands
    }

    #[test]
    fn a_base_ends_at_two_dashes() {
        let both = typed("--base a1 a2 a3 -- b1 b2");
        let names = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(names(&both.base), ["a1", "a2", "a3"]);
        assert_eq!(names(&both.dirs), ["b1", "b2"]);
        let plain = typed("a b c --name x,y,z");
        assert_eq!((plain.dirs.len(), plain.base.len()), (3, 0));
        assert_eq!(plain.name, ["x", "y", "z"]);
        let alone = refused("--base a b");
        assert!(alone.contains("--base A1 A2 -- B1 B2"), "{alone}");
    }

    fn refused(words: &str) -> String {
        typed(words).sides(folder::read).unwrap_err().to_string()
    }

    #[test]
    fn an_option_among_the_folders_is_told_where_it_belongs() {
        let says = refused("--base a1 -- b1 --fail-on slower:5%");
        assert!(
            says.starts_with("--fail-on stands behind `--`") && says.contains("options go before --base"),
            "{says}"
        );
    }

    #[test]
    fn two_sides_have_two_names() {
        let says = refused("a b --name x,x");
        assert_eq!(says, "--name has `x` twice: give each side a name of its own");
    }

    #[test]
    fn a_folder_of_folders_means_the_runs_in_it_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let run = |name: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir(&at).unwrap();
            std::fs::write(at.join(STORE_FILE), "").unwrap();
            at
        };
        let (second, first) = (run("2"), run("1"));
        std::fs::create_dir(dir.path().join("none")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(folders(dir.path()).unwrap(), [first.clone(), second]);
        assert_eq!(folders(&first).unwrap(), [first]);
        let empty = dir.path().join("none");
        assert_eq!(folders(&empty).unwrap(), [empty]);
        let file = dir.path().join("file");
        assert_eq!(folders(&file).unwrap(), [file]);
    }

    #[test]
    fn a_folder_that_is_named_twice_is_refused_by_whatever_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display();
        let twice = typed(&format!("{path} {path}/."))
            .sides(folder::read)
            .unwrap_err()
            .to_string();
        assert!(twice.contains("is named twice"), "{twice}");
    }
}
