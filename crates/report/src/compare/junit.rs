//! A comparison as test results, for build servers: JUnit's XML, as Jenkins and GitLab read it.
//!
//! A case fails where a check fails on it; without a check nothing fails. What nothing is known of is no success: it is
//! a test that was skipped.

use std::collections::BTreeMap;
use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use threadgauge_results::outside::clean;
use threadgauge_results::{Compared, ComparisonResult, Judged};

use super::build::line;
use super::known_line;
use crate::words;

/// A test, and what became of it.
struct Test {
    name: String,
    /// The element in it, and its message; none of a test that passed.
    not_passed: Option<(&'static str, String)>,
    /// What it printed.
    says: String,
}

impl Test {
    fn is(&self, kind: &str) -> bool {
        self.not_passed.as_ref().is_some_and(|(of, _)| *of == kind)
    }
}

const FAILED: &str = "failure";
const SKIPPED: &str = "skipped";

/// The comparison as JUnit XML: a suite an experiment, a test a case; and one test of all cases together, which fails
/// for what a check says of them.
///
/// # Errors
///
/// None that is known: it writes into memory.
pub fn comparison_junit(compared: &Compared, judged: Option<&Judged>) -> io::Result<String> {
    let mut suites: BTreeMap<String, Vec<Test>> = BTreeMap::new();
    let rows = compared
        .rows
        .iter()
        .map(|row| (row.b.as_str(), of_row(row, judged)));
    // A lost case may be none of the rows.
    let lost = compared
        .lost
        .iter()
        .filter(|case| compared.rows.iter().all(|row| row.b != **case));
    let lost = lost.map(|case| {
        let test = Test {
            name: xml(case),
            not_passed: breach(judged, case),
            says: "no figures in B".to_owned(),
        };
        (case.as_str(), test)
    });
    for (case, test) in rows.chain(lost) {
        let experiment = case.split('/').next().unwrap_or_default();
        suites.entry(xml(experiment)).or_default().push(test);
    }
    let breaches = judged.iter().flat_map(|judged| &judged.breaches);
    let of_all: Vec<&str> = (breaches.filter(|breach| breach.case.is_none()))
        .map(|breach| breach.says.as_str())
        .collect();
    let all = Test {
        name: "all cases together".to_owned(),
        not_passed: (!of_all.is_empty()).then(|| (FAILED, xml(&of_all.join("; ")))),
        says: xml(&known_line(compared)),
    };
    let suites: Vec<(String, Vec<Test>)> = suites
        .into_iter()
        .chain([("comparison".to_owned(), vec![all])])
        .collect();
    write(&suites)
}

fn write(suites: &[(String, Vec<Test>)]) -> io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let tests = || suites.iter().flat_map(|(_, tests)| tests);
    let root = writer.create_element("testsuites");
    root.with_attribute(("name", "threadgauge compare"))
        .with_attributes(
            counts(tests())
                .iter()
                .map(|(name, count)| (*name, count.as_str())),
        )
        .write_inner_content(|writer| {
            for (name, tests) in suites {
                writer
                    .create_element("testsuite")
                    .with_attribute(("name", name.as_str()))
                    .with_attributes(
                        counts(tests.iter())
                            .iter()
                            .map(|(name, count)| (*name, count.as_str())),
                    )
                    .write_inner_content(|writer| {
                        tests.iter().try_for_each(|test| case(writer, name, test))
                    })?;
            }
            Ok(())
        })?;
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

fn counts<'a>(tests: impl Iterator<Item = &'a Test>) -> [(&'static str, String); 4] {
    let tests: Vec<&Test> = tests.collect();
    let of = |kind: &str| tests.iter().filter(|test| test.is(kind)).count().to_string();
    [
        ("tests", tests.len().to_string()),
        ("failures", of(FAILED)),
        ("errors", "0".to_owned()),
        ("skipped", of(SKIPPED)),
    ]
}

fn case(writer: &mut Writer<Vec<u8>>, suite: &str, test: &Test) -> io::Result<()> {
    writer
        .create_element("testcase")
        .with_attribute(("name", test.name.as_str()))
        .with_attribute(("classname", suite))
        .write_inner_content(|writer| {
            if let Some((kind, message)) = &test.not_passed {
                writer
                    .create_element(*kind)
                    .with_attribute(("message", message.as_str()))
                    .write_empty()?;
            }
            writer
                .create_element("system-out")
                .write_text_content(BytesText::new(&test.says))?;
            Ok(())
        })?;
    Ok(())
}

fn of_row(row: &ComparisonResult, judged: Option<&Judged>) -> Test {
    let told = ["slower", "faster", "small", "same"].contains(&row.verdict.as_str());
    let skipped = || (!told).then(|| (SKIPPED, xml(&words::outcome(row))));
    Test {
        name: xml(&row.b),
        not_passed: breach(judged, &row.b).or_else(skipped),
        says: xml(&line(row)),
    }
}

/// Why a check fails on a case, if it does.
fn breach(judged: Option<&Judged>, case: &str) -> Option<(&'static str, String)> {
    let mut breaches = judged.into_iter().flat_map(|judged| &judged.breaches);
    let of_case = breaches.find(|breach| breach.case.as_deref() == Some(case))?;
    Some((FAILED, xml(&of_case.says)))
}

/// Words of others, in signs that XML can hold.
fn xml(text: &str) -> String {
    clean(text)
        .chars()
        .filter(|c| !matches!(c, '\u{fffe}' | '\u{ffff}'))
        .collect()
}

#[cfg(test)]
mod tests {
    use threadgauge_results::Gate;

    use super::*;
    use crate::compare::made;

    fn row(case: &str, verdict: &str, low: f64) -> ComparisonResult {
        ComparisonResult {
            ratio: Some(low + 0.05),
            ci95: Some([low, low + 0.1]),
            reason: (verdict == "unknown").then(|| "the <interval> is \"wide\"\u{1}\u{ffff}".to_owned()),
            ..made::row(case, verdict)
        }
    }

    fn compared() -> Compared {
        let rows = [
            row("create/n=1", "slower", 1.1),
            row("create/n=2", "same", 0.95),
            row("ring/n=3", "unknown", 0.9),
        ];
        Compared {
            lost: vec!["ring/gone=1".to_owned()],
            ..made::compared(rows.to_vec())
        }
    }

    #[test]
    fn a_case_fails_where_the_check_does_and_one_of_which_nothing_is_known_is_skipped() {
        let gate = Gate::of(&["slower:5%".parse().unwrap(), "unknown:20%".parse().unwrap()]).unwrap();
        let judged = gate.judge(&compared());
        insta::assert_snapshot!(comparison_junit(&compared(), Some(&judged)).unwrap());
    }

    #[test]
    fn without_a_check_nothing_fails_and_it_is_well_formed() {
        let text = comparison_junit(&compared(), None).unwrap();
        let read = roxmltree::Document::parse(&text).unwrap();
        let count = |name: &str| read.descendants().filter(|node| node.has_tag_name(name)).count();
        assert_eq!((count("testcase"), count("failure"), count("skipped")), (5, 0, 1));
        let skipped = read
            .descendants()
            .find(|node| node.has_tag_name("skipped"))
            .unwrap();
        assert_eq!(
            skipped.attribute("message"),
            Some("unknown: the <interval> is \"wide\"")
        );
        assert_eq!(read.root_element().attribute("tests"), Some("5"));
    }
}
