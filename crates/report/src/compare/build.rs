//! A comparison for what stands around a build: annotations of a change, a badge.

use std::fmt::Write as _;

use serde_json::json;
use threadgauge_results::outside::clean;
use threadgauge_results::{Compared, ComparisonResult, Judged};

use super::{known_line, ratio};
use crate::words;

/// `slower, 1.15 [1.12, 1.18], elapsed_ns`
pub(super) fn line(row: &ComparisonResult) -> String {
    let figure = ratio(row).map_or_else(String::new, |ratio| format!(", {ratio}"));
    format!("{}{figure}, {}", words::outcome(row), row.metric)
}

/// GitHub shows so many annotations of a kind that one step makes.
const ANNOTATIONS: usize = 10;

/// The comparison as workflow commands of GitHub Actions: an error for each thing that a check fails on, without a
/// check a warning for each case that is slower, and a notice of what is known. Beyond ten of a kind they are counted.
#[must_use]
pub fn comparison_github(compared: &Compared, judged: Option<&Judged>) -> String {
    let mut out = String::new();
    let (kind, all): (&str, Vec<(String, String)>) = match judged {
        Some(judged) => {
            let breaches = judged.breaches.iter().map(|breach| {
                let title = breach.case.clone().unwrap_or_else(|| judged.to_string());
                (title, breach.says.clone())
            });
            ("error", breaches.collect())
        }
        None => {
            let slower = compared.rows.iter().filter(|row| row.verdict == "slower");
            ("warning", slower.map(|row| (row.b.clone(), line(row))).collect())
        }
    };
    let shown = if all.len() > ANNOTATIONS {
        ANNOTATIONS - 1
    } else {
        all.len()
    };
    for (title, says) in &all[..shown] {
        command(&mut out, kind, title, says);
    }
    if all.len() > shown {
        let more = format!("{} more, which the log has", all.len() - shown);
        command(&mut out, kind, "And more", &more);
    }
    command(&mut out, "notice", "threadgauge compare", &known_line(compared));
    out
}

/// A line that GitHub takes for a command, with what others wrote encoded as it asks for.
fn command(out: &mut String, kind: &str, title: &str, says: &str) {
    let message = |text: &str| clean(text).replace('%', "%25");
    let property = |text: &str| message(text).replace(':', "%3A").replace(',', "%2C");
    let _ = writeln!(out, "::{kind} title={}::{}", property(title), message(says));
}

/// What a badge says, and in which colour.
fn badge(compared: &Compared, judged: Option<&Judged>) -> (String, &'static str) {
    let known = compared.known();
    let parts = [
        (known.slower, "slower"),
        (known.faster, "faster"),
        (known.unknown, "unknown"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let said = match (&parts[..], compared.level_apart()) {
        ([], None) => "nothing differs".to_owned(),
        ([], Some(_)) => "level unknown".to_owned(),
        _ => parts.join(", "),
    };
    let said = match judged {
        Some(judged) if !judged.passed => format!("failed, {said}"),
        Some(_) => format!("passed, {said}"),
        None => said,
    };
    let colour = match judged {
        Some(judged) if !judged.passed => "red",
        Some(_) => "brightgreen",
        None if known.slower > 0 => "red",
        None if known.unknown_share() > 0.2 || compared.level_apart().is_some() => "lightgrey",
        None => "brightgreen",
    };
    (said, colour)
}

const LABEL: &str = "threadgauge";

/// The comparison as a badge of shields.io: what its endpoint badges read.
#[must_use]
pub fn comparison_badge(compared: &Compared, judged: Option<&Judged>) -> String {
    let (message, color) = badge(compared, judged);
    let document = json!({"schemaVersion": 1, "label": LABEL, "message": message, "color": color});
    format!("{document:#}")
}

/// The same badge as a picture.
#[must_use]
pub fn comparison_badge_svg(compared: &Compared, judged: Option<&Judged>) -> String {
    let (message, colour) = badge(compared, judged);
    let fill = match colour {
        "red" => "#a3271c",
        "brightgreen" => "#1d6b3a",
        _ => "#5d5b55",
    };
    // Of a sans-serif of 11 pixels, about; `textLength` makes it so.
    let width = |text: &str| 7 * text.chars().count() + 12;
    let (of_label, of_message) = (width(LABEL), width(&message));
    let all = of_label + of_message;
    let text = |at: usize, of: usize, words: &str| {
        let (middle, length) = (at + of / 2, of - 12);
        format!("<text x=\"{middle}\" y=\"14\" textLength=\"{length}\">{words}</text>")
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{all}\" height=\"20\" role=\"img\" \
         aria-label=\"{LABEL}: {message}\">\n<title>{LABEL}: {message}</title>\n\
         <rect width=\"{all}\" height=\"20\" rx=\"3\" fill=\"#3b3c3f\"/>\n\
         <path d=\"M{of_label} 0h{inner}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{inner}z\" fill=\"{fill}\"/>\n\
         <g fill=\"#fff\" text-anchor=\"middle\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\">\n\
         {}\n{}\n</g>\n</svg>\n",
        text(0, of_label, LABEL),
        text(of_label, of_message, &message),
        inner = of_message - 3,
    )
}

#[cfg(test)]
mod tests {
    use threadgauge_results::{Breach, Known};

    use super::*;
    use crate::compare::made;

    fn compared(verdicts: &[&str]) -> Compared {
        made::compared(
            verdicts
                .iter()
                .map(|verdict| made::row("e/n=1,m=2", verdict))
                .collect(),
        )
    }

    fn judged(breaches: usize) -> Judged {
        let breach = Breach {
            case: Some("e/n=1,m=2".to_owned()),
            says: "100 % too slow\n::error::mine".to_owned(),
        };
        Judged {
            passed: breaches == 0,
            breaches: vec![breach; breaches],
        }
    }

    #[test]
    fn an_annotation_is_one_line_whatever_its_words_and_beyond_ten_they_are_counted() {
        let text = comparison_github(&compared(&["slower"]), Some(&judged(1)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "::error title=e/n=1%2Cm=2::100 %25 too slow ::error::mine"
        );
        assert!(
            lines[1].starts_with("::notice title=threadgauge compare::No level"),
            "{text}"
        );
        assert_eq!(lines.len(), 2);
        let many = comparison_github(&compared(&["slower"]), Some(&judged(30)));
        assert_eq!(many.matches("::error title=").count(), 10);
        assert!(many.contains("::error title=And more::21 more"), "{many}");
        assert_eq!(
            comparison_github(&compared(&["slower"]), Some(&judged(10)))
                .lines()
                .count(),
            11
        );
        let warned = comparison_github(&compared(&["slower", "same"]), None);
        assert!(warned.starts_with("::warning title=e/n=1%2Cm=2::slower, 1.20 [1.10, 1.30], elapsed_ns\n"));
    }

    #[test]
    fn a_badge_says_in_words_what_its_colour_says() {
        for (verdicts, judged, said, colour) in [
            (&["same"][..], None, "nothing differs", "brightgreen"),
            (&["slower", "same"], None, "1 slower", "red"),
            (&["faster", "unknown"], None, "1 faster, 1 unknown", "lightgrey"),
            (
                &["same"],
                Some(judged(0)),
                "passed, nothing differs",
                "brightgreen",
            ),
            (&["slower"], Some(judged(0)), "passed, 1 slower", "brightgreen"),
            (&["same"], Some(judged(1)), "failed, nothing differs", "red"),
        ] {
            let compared = compared(verdicts);
            assert_eq!(badge(&compared, judged.as_ref()), (said.to_owned(), colour));
            let json: serde_json::Value =
                serde_json::from_str(&comparison_badge(&compared, judged.as_ref())).unwrap();
            assert_eq!(json["schemaVersion"], 1);
            assert_eq!((&json["message"], &json["color"]), (&said.into(), &colour.into()));
            let svg = comparison_badge_svg(&compared, judged.as_ref());
            let drawn = roxmltree::Document::parse(&svg).unwrap();
            let texts: Vec<&str> = drawn
                .descendants()
                .filter(|n| n.has_tag_name("text"))
                .filter_map(|n| n.text())
                .collect();
            assert_eq!(texts, ["threadgauge", said]);
        }
        assert_eq!(Known::of(&compared(&["odd"]).rows).unknown, 1);
    }
}
