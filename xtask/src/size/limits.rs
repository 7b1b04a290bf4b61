//! `cargo xtask size --check`: what must hold of files and lines.
//!
//! A circle is undone by moving what its files share into a file of its own, which both import. A limit on lines is met
//! by saying once what is said several times, not by longer lines.
//!
//! The limit on the laboratory holds for `lab`, what experiments share, and the experiments for which it was set. A
//! newer experiment is bounded by itself: by its largest file, and all of them by their median. What it alone uses lies
//! in its own file or folder.

use anyhow::{Result, bail};

use super::imports::Crate;
use super::{CHORES, File, WITHOUT_CIRCLES, circles_of, experiments, first_and_newer, laboratory};

/// What `lab`, what experiments share and the first experiments may have together.
const MOST_LINES: usize = 10_000;
/// Each newer experiment has a line in `lib.rs`, which the limit does not count.
const LINES_IN_LISTS: usize = 1;
/// What a file of an experiment may have.
const MOST_LINES_OF_A_FILE: usize = 700;
/// What the median newer experiment may have.
const MOST_LINES_OF_THE_MEDIAN: usize = 500;
/// What the chores may have: what measures is an experiment, or lies in `benches`.
const MOST_LINES_OF_CHORES: usize = 3_300;

/// Fails naming every circle and everything that is too long.
pub fn check(crates: &[(String, Crate)]) -> Result<()> {
    let faults = faults(crates);
    if !faults.is_empty() {
        bail!(
            "the limits on files and lines do not hold (`cargo xtask size` shows all figures):\n  {}",
            faults.join("\n  ")
        );
    }
    eprintln!(
        "no circle of files in {}; lab and the first experiments have at most {MOST_LINES} lines of code, a file of an \
         experiment {MOST_LINES_OF_A_FILE}, the median newer experiment {MOST_LINES_OF_THE_MEDIAN}, {CHORES} \
         {MOST_LINES_OF_CHORES}",
        WITHOUT_CIRCLES.join(", ")
    );
    Ok(())
}

fn faults(crates: &[(String, Crate)]) -> Vec<String> {
    let mut faults = Vec::new();
    for wanted in WITHOUT_CIRCLES {
        match crates.iter().find(|(name, _)| name == wanted) {
            Some((_, whole)) => faults.extend(circles(whole)),
            None => faults.push(format!("there is no crate {wanted}, which may have no circle")),
        }
    }
    for file in experiments(crates).into_iter().flat_map(|(_, files)| files) {
        if file.lines > MOST_LINES_OF_A_FILE {
            let path = file.path.display();
            faults.push(format!(
                "{path} has {} lines of code; a file of an experiment has at most {MOST_LINES_OF_A_FILE}",
                file.lines
            ));
        }
    }
    let [_, newer] = first_and_newer(crates);
    let lines = lines_of(&laboratory(crates)).saturating_sub(LINES_IN_LISTS * newer.len());
    if lines > MOST_LINES {
        faults.push(format!(
            "lab, what experiments share and the first experiments have {lines} lines of code, and together at most \
             {MOST_LINES}; what one newer experiment alone uses belongs in its own file or folder"
        ));
    }
    let median = median(newer.iter().map(|(_, files)| lines_of(files)).collect());
    if median > MOST_LINES_OF_THE_MEDIAN {
        faults.push(format!(
            "the median newer experiment has {median} lines of code; it has at most {MOST_LINES_OF_THE_MEDIAN}"
        ));
    }
    for (_, chores) in crates.iter().filter(|(name, _)| name == CHORES) {
        let lines = lines_of(&chores.files.iter().collect::<Vec<_>>());
        if lines > MOST_LINES_OF_CHORES {
            faults.push(format!(
                "{CHORES} has {lines} lines of code, and at most {MOST_LINES_OF_CHORES}: what measures is an experiment, \
                 or lies in benches"
            ));
        }
    }
    faults
}

fn lines_of(files: &[&File]) -> usize {
    files.iter().map(|file| file.lines).sum()
}

/// Of an even number the larger of the two in the middle; 0 of none.
fn median(mut lines: Vec<usize>) -> usize {
    lines.sort_unstable();
    lines.get(lines.len() / 2).copied().unwrap_or(0)
}

/// Each circle, with a path for each import in it.
fn circles(whole: &Crate) -> Vec<String> {
    let path = |file: usize| whole.files[file].path.display();
    let (circles, imports) = circles_of(whole);
    let said = |circle: &Vec<usize>| {
        let within = imports
            .iter()
            .filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
        let within =
            within.map(|((from, to), said)| format!("{} imports {} (`{said}`)", path(*from), path(*to)));
        format!(
            "these import each other in a circle; move what they share into a file of its own:\n    {}",
            within.collect::<Vec<_>>().join("\n    ")
        )
    };
    circles.iter().map(said).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::imports::tests::read;
    use super::*;

    /// The checked crates, of one file each but `changed`.
    fn crates(changed: &str, files: &[(&str, &str)]) -> Vec<(String, Crate)> {
        WITHOUT_CIRCLES
            .map(|name| {
                let files = if name == changed { files } else { &[("lib.rs", "")] };
                (name.to_owned(), read(files).0)
            })
            .into()
    }

    const CIRCLE: [(&str, &str); 3] = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ];

    #[test]
    fn a_circle_is_named_with_its_imports() {
        for name in WITHOUT_CIRCLES {
            let [fault] = &faults(&crates(name, &CIRCLE))[..] else {
                panic!("one circle in {name}");
            };
            for part in [
                "src/a.rs imports",
                "`crate::b::B`",
                "src/b.rs imports",
                "`crate::a::A`",
            ] {
                assert!(fault.contains(part), "{fault}");
            }
        }
    }

    #[test]
    fn without_circles_there_is_no_fault_and_a_crate_that_went_is_one() {
        let mut crates = crates("", &[]);
        assert_eq!(faults(&crates), [""; 0]);
        crates.retain(|(name, _)| name != "results");
        assert_eq!(faults(&crates).len(), 1);
    }

    /// The checked crates, with so many lines in `lab`, in an experiment's files, and in what experiments share.
    fn with_lines(lab: usize, of_experiments: &[(&str, usize)], shared: usize) -> Vec<(String, Crate)> {
        let mut crates = crates("", &[]);
        let file = |path: &str, lines| File {
            path: path.into(),
            lines,
        };
        for (name, whole) in &mut crates {
            whole.files = match name.as_str() {
                "lab" => vec![file("crates/lab/src/lib.rs", lab)],
                "experiments" => vec![file("crates/experiments/src/lib.rs", shared)],
                _ => vec![],
            };
            if name == "experiments" {
                let of =
                    |(path, lines): &(&str, usize)| file(&format!("crates/experiments/src/{path}"), *lines);
                whole.files.extend(of_experiments.iter().map(of));
            }
        }
        crates
    }

    fn assert_one_fault(crates: &[(String, Crate)], part: &str) {
        let found = faults(crates);
        assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
    }

    #[test]
    fn the_laboratory_is_lab_what_experiments_share_and_the_first_experiments() {
        let first = [("create/mod.rs", 700), ("create/grid.rs", 600), ("null.rs", 200)];
        assert_eq!(faults(&with_lines(8_000, &first, 500)), [""; 0]);
        assert_one_fault(&with_lines(8_001, &first, 500), "10001 lines");
        assert_one_fault(&with_lines(8_000, &first, 501), "10001 lines");
        // Of a newer one only the line in the list is there, and is not counted.
        let newer = [("create/mod.rs", 700), ("ring.rs", 400), ("ring/sys.rs", 99)];
        assert_eq!(faults(&with_lines(9_000, &newer, 301)), [""; 0]);
        assert_one_fault(&with_lines(9_000, &newer, 302), "10001 lines");
        // Nor what newer ones alone share.
        let shared = [
            ("create/mod.rs", 700),
            ("channels.rs", 400),
            ("servers/mod.rs", 99),
        ];
        assert_eq!(faults(&with_lines(9_000, &shared, 300)), [""; 0]);
        let mut with_server = with_lines(9_000, &shared, 300);
        for path in ["server.rs", "server_of_its_own.rs"] {
            let lab = with_server.iter_mut().find(|(name, _)| name == "lab").unwrap();
            lab.1.files.push(File {
                path: Path::new("crates/lab/src").join(path),
                lines: 1,
            });
        }
        assert_one_fault(&with_server, "10001 lines");
    }

    #[test]
    fn chores_have_at_most_3200_lines() {
        let with = |lines| {
            let mut crates = crates("", &[]);
            let mut chores = read(&[("lib.rs", "")]).0;
            chores.files[0].lines = lines;
            crates.push((CHORES.to_owned(), chores));
            crates
        };
        assert_eq!(faults(&with(3_200)), [""; 0]);
        assert_one_fault(&with(3_201), "xtask has 3201");
    }

    #[test]
    fn a_file_of_any_experiment_has_at_most_700_lines() {
        assert_eq!(faults(&with_lines(0, &[("create/mod.rs", 700)], 0)), [""; 0]);
        let newer = |lines| [("wake.rs", 10), ("ring.rs", 20), ("handover.rs", lines)];
        assert_eq!(faults(&with_lines(0, &newer(700), 900)), [""; 0]);
        assert_one_fault(&with_lines(0, &newer(701), 900), "handover.rs has 701");
        assert_one_fault(
            &with_lines(0, &[("create/mod.rs", 701)], 0),
            "create/mod.rs has 701",
        );
    }

    #[test]
    fn the_median_newer_experiment_has_at_most_500_lines_in_all_its_files() {
        // The first experiments are left out.
        let with = |wake| {
            [
                ("create/mod.rs", 10),
                ("null.rs", 10),
                ("ring.rs", 300),
                ("ring/sys.rs", 300),
                ("wake.rs", wake),
                ("limits.rs", 10),
            ]
        };
        assert_eq!(faults(&with_lines(0, &with(500), 0)), [""; 0]);
        assert_one_fault(
            &with_lines(0, &with(501), 0),
            "the median newer experiment has 501",
        );
        let of_two = [("wake.rs", 501), ("limits.rs", 10)];
        assert_one_fault(&with_lines(0, &of_two, 0), "the median newer experiment has 501");
    }
}
