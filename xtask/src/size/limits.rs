//! `cargo xtask size --check`: what must hold of files and lines.
//!
//! A circle is undone by moving what its files share into a file of its own, which both import. A limit on lines is met
//! by saying once what is said several times, not by longer lines.
//!
//! An experiment is bounded by itself: by its largest file, and by all of them together. What several use is no part of
//! it. Crates have no limit: more experiments are more lines.

use anyhow::{Result, bail};

use super::imports::Crate;
use super::{WITHOUT_CIRCLES, circles_of, experiments};

/// What a file of an experiment may have.
const MOST_LINES_OF_A_FILE: usize = 700;
/// What an experiment may have in all its files.
const MOST_LINES_OF_AN_EXPERIMENT: usize = 2_500;

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
        "no circle of files in {}; an experiment has at most {MOST_LINES_OF_AN_EXPERIMENT} lines of code, a file of one \
         {MOST_LINES_OF_A_FILE}",
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
    for (name, files) in experiments(crates) {
        let long = files.iter().filter(|file| file.lines > MOST_LINES_OF_A_FILE);
        faults.extend(long.map(|file| {
            format!(
                "{} has {} lines of code; a file of an experiment has at most {MOST_LINES_OF_A_FILE}",
                file.path.display(),
                file.lines
            )
        }));
        let lines: usize = files.iter().map(|file| file.lines).sum();
        if lines > MOST_LINES_OF_AN_EXPERIMENT {
            faults.push(format!(
                "{name} has {lines} lines of code; an experiment has at most {MOST_LINES_OF_AN_EXPERIMENT}, and what \
                 several use belongs beside it"
            ));
        }
    }
    faults
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
    use super::super::File;
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

    /// The checked crates, with so many lines in an experiment's files.
    fn with_lines(of_files: &[(&str, usize)]) -> Vec<(String, Crate)> {
        let mut crates = crates("", &[]);
        let file = |(path, lines): &(&str, usize)| File {
            path: format!("crates/experiments/src/{path}").into(),
            lines: *lines,
        };
        let experiments = crates.iter_mut().find(|(name, _)| name == "experiments");
        let (_, experiments) = experiments.expect("it is checked");
        experiments.files = of_files.iter().map(file).collect();
        crates
    }

    fn assert_one_fault(files: &[(&str, usize)], part: &str) {
        let found = faults(&with_lines(files));
        assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
    }

    #[test]
    fn a_file_of_an_experiment_has_at_most_700_lines() {
        let with = |lines| [("wake.rs", 10), ("ring/mod.rs", lines), ("lib.rs", 900)];
        assert_eq!(faults(&with_lines(&with(700))), [""; 0]);
        assert_one_fault(&with(701), "ring/mod.rs has 701");
    }

    #[test]
    fn an_experiment_has_at_most_2500_lines_in_all_its_files() {
        let with = |lines| {
            [
                ("ring/mod.rs", 700),
                ("ring/read.rs", 700),
                ("ring/sys.rs", 700),
                ("ring/grid.rs", lines),
                ("wake.rs", 700),
            ]
        };
        assert_eq!(faults(&with_lines(&with(400))), [""; 0]);
        assert_one_fault(&with(401), "ring has 2501");
    }
}
