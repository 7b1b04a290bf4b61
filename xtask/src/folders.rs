//! `cargo xtask folders`: does the folder map in ARCHITECTURE.md match the tree?
//!
//! A map kept by hand is wrong within a month, so this compares both ways: every folder of the map
//! exists, and every folder that holds files is on the map. Two kinds need no line: the folders cargo
//! itself names ([`CONVENTIONAL`]), and what lies below a line that ends in `/**`.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell;

/// The document that holds the map.
const DOCUMENT: &str = "ARCHITECTURE.md";
/// The head of the map's table.
const HEAD: &str = "| folder |";
/// Last parts of a path that explain themselves.
const CONVENTIONAL: &[&str] = &["src", "tests", "examples", "benches", "snapshots"];

/// Fails naming what is missing on either side.
pub fn check() -> Result<()> {
    let text = fs::read_to_string(DOCUMENT).with_context(|| format!("{DOCUMENT} holds the folder map"))?;
    let map = Map::parse(&text)?;
    let files = shell::output(shell::command("git").args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let faults = map.compare(files.lines());
    if !faults.is_empty() {
        bail!(
            "the folder map in {DOCUMENT} and the tree differ:\n  {}",
            faults.join("\n  ")
        );
    }
    eprintln!(
        "{} folders on the map, all there and none missing",
        map.folders.len()
    );
    Ok(())
}

/// The folders that the map names.
#[derive(Debug, PartialEq, Eq)]
struct Map {
    /// Without a trailing slash, and without `/**`.
    folders: BTreeSet<String>,
    /// Those of them whose inside needs no line.
    closed: BTreeSet<String>,
}

impl Map {
    /// Reads the table under [`HEAD`]: the folder in the first cell, in backticks, what for in the second.
    fn parse(document: &str) -> Result<Self> {
        let mut map = Self {
            folders: BTreeSet::new(),
            closed: BTreeSet::new(),
        };
        let rows = document
            .lines()
            .skip_while(|line| !line.starts_with(HEAD))
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [folder, purpose, ..] = cells[..] else {
                bail!("this row of the map has one cell: {row}")
            };
            let Some(folder) = folder.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else {
                bail!("the first cell of this row of the map is not a folder in backticks: {row}");
            };
            if purpose.is_empty() {
                bail!("the map does not say what {folder} is for");
            }
            let bare = folder.trim_end_matches("/**").trim_end_matches('/').to_owned();
            if folder.ends_with("/**") {
                map.closed.insert(bare.clone());
            }
            if !map.folders.insert(bare) {
                bail!("the map names {folder} twice");
            }
        }
        if map.folders.is_empty() {
            bail!("no table that begins with {HEAD:?} was found in {DOCUMENT}");
        }
        Ok(map)
    }

    /// What differs between the map and the folders of `files`.
    fn compare<'a>(&self, files: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut exist = BTreeSet::new();
        let mut hold_files = BTreeSet::new();
        for file in files {
            let Some((folder, _)) = file.rsplit_once('/') else {
                continue;
            };
            hold_files.insert(folder);
            exist.extend(ancestors(folder));
        }
        let missing = hold_files
            .into_iter()
            .filter(|folder| !self.knows(folder))
            .map(|folder| format!("{folder}/ holds files and is not on the map"));
        let gone = self
            .folders
            .iter()
            .filter(|folder| !exist.contains(folder.as_str()))
            .map(|folder| format!("{folder}/ is on the map and does not exist"));
        missing.chain(gone).collect()
    }

    fn knows(&self, folder: &str) -> bool {
        if self.folders.contains(folder) || ancestors(folder).any(|above| self.closed.contains(above)) {
            return true;
        }
        // `crates/lab/src/snapshots` needs no line because `crates/lab` has one.
        folder
            .rsplit_once('/')
            .is_some_and(|(above, last)| CONVENTIONAL.contains(&last) && self.knows(above))
    }
}

/// `a/b/c`, `a/b`, `a`.
fn ancestors(folder: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(folder), |folder| {
        folder.rsplit_once('/').map(|(above, _)| above)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
# Architecture

| word | meaning |
|---|---|
| `not/a/folder` | of another table |

| folder | what lives there |
|---|---|
| `crates/lab` | cases |
| `crates/lab/src/experiments` | one file each |
| `docs/` | documents |
| `runs/**` | dated tables |

The rest.
";

    fn faults(files: &[&str]) -> Vec<String> {
        Map::parse(DOCUMENT).unwrap().compare(files.iter().copied())
    }

    const TREE: [&str; 5] = [
        "README.md",
        "crates/lab/Cargo.toml",
        "crates/lab/src/experiments/create.rs",
        "docs/method.md",
        "runs/2026-11-21/results.json",
    ];

    #[test]
    fn a_map_that_matches_has_no_faults() {
        assert_eq!(faults(&TREE), [""; 0]);
    }

    #[test]
    fn folders_that_cargo_names_need_no_line() {
        let mut tree = TREE.to_vec();
        tree.extend([
            "crates/lab/src/lib.rs",
            "crates/lab/tests/all.rs",
            "crates/lab/src/experiments/snapshots/a.snap",
        ]);
        assert_eq!(faults(&tree), [""; 0]);
    }

    #[test]
    fn a_new_folder_is_named() {
        let mut tree = TREE.to_vec();
        tree.extend([
            "crates/lab/src/sys/fork.rs",
            "docs/adr/0001.md",
            "crates/new/src/lib.rs",
        ]);
        assert_eq!(
            faults(&tree),
            [
                "crates/lab/src/sys/ holds files and is not on the map",
                "crates/new/src/ holds files and is not on the map",
                "docs/adr/ holds files and is not on the map",
            ]
        );
    }

    #[test]
    fn a_folder_that_went_is_named() {
        let tree: Vec<&str> = TREE
            .into_iter()
            .filter(|file| !file.starts_with("docs"))
            .collect();
        assert_eq!(faults(&tree), ["docs/ is on the map and does not exist"]);
    }

    #[test]
    fn a_map_without_its_table_or_its_purposes_is_refused() {
        assert!(Map::parse("# Architecture\n").is_err());
        assert!(Map::parse("| folder | for |\n|---|---|\n| `a` |  |\n").is_err());
        assert!(Map::parse("| folder | for |\n|---|---|\n| a | b |\n").is_err());
        assert!(Map::parse("| folder | for |\n|---|---|\n| `a` | b |\n| `a/` | c |\n").is_err());
    }
}
