//! `cargo xtask size --check`: what must hold of files and lines.
//!
//! A circle is mended by moving what its files share into a file of its own, which both import. A limit on lines is met
//! by saying once what is said several times, not by longer lines.

use anyhow::{Result, bail};

use super::imports::Crate;
use super::{WITHOUT_CIRCLES, circles_of, experiment_of, is_laboratory};

/// What `lab` and `experiments` may have together.
const MOST_LINES: usize = 10_000;
/// What a file of an experiment may have.
const MOST_LINES_OF_A_FILE: usize = 700;

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
        "no circle of files in {}; lab and experiments have at most {MOST_LINES} lines of code",
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
    let files = || crates.iter().flat_map(|(_, whole)| &whole.files);
    for file in files().filter(|file| experiment_of(&file.path).is_some()) {
        if file.lines > MOST_LINES_OF_A_FILE {
            let path = file.path.display();
            faults.push(format!(
                "{path} has {} lines of code; a file of an experiment has at most {MOST_LINES_OF_A_FILE}",
                file.lines
            ));
        }
    }
    let laboratory = crates.iter().filter(|(name, _)| is_laboratory(name));
    let lines: usize = laboratory
        .flat_map(|(_, whole)| whole.files.iter().map(|file| file.lines))
        .sum();
    if lines > MOST_LINES {
        faults.push(format!(
            "lab and experiments have {lines} lines of code; together they have at most {MOST_LINES}"
        ));
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

    #[test]
    fn experiments_have_a_circle_a_long_file_or_too_many_lines() {
        let circle = crates("experiments", &CIRCLE);
        // One line more is in the crate's root.
        let with_lines = |lines: [usize; 3]| {
            let mut crates = crates(
                "experiments",
                &[
                    ("lib.rs", "mod create; mod point;"),
                    ("create.rs", ""),
                    ("point.rs", ""),
                ],
            );
            let (_, experiments) = crates.iter_mut().find(|(name, _)| name == "experiments").unwrap();
            experiments.files[1].path = "crates/experiments/src/create.rs".into();
            experiments.files[1].lines = lines[0];
            experiments.files[2].lines = lines[1];
            let (_, lab) = crates.iter_mut().find(|(name, _)| name == "lab").unwrap();
            lab.files[0].lines = lines[2];
            crates
        };
        let fits = with_lines([700, 1_000, 8_299]);
        assert_eq!(faults(&fits), [""; 0]);
        let long_file = with_lines([701, 0, 0]);
        let long_in_all = with_lines([700, 1_000, 8_300]);
        for (crates, part) in [
            (circle, "in a circle"),
            (long_file, "crates/experiments/src/create.rs has 701"),
            (long_in_all, "10001 lines"),
        ] {
            let found = faults(&crates);
            assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
        }
    }
}
