//! What a run ends with: a screen that answers, of at most [`MOST`] lines whatever was measured.
//!
//! The machine, what things cost here, an answer for each experiment, decided claims as far as there is room, warnings.

use std::fmt::Write as _;

use threadgauge_results::{ExperimentResult, Results, Trust, Trusted, rule};

use super::text::{Ink, Style, clean, paint, wrap};
use super::{ink, rows};
use crate::costs::{self, Group};
use crate::facts::headline;
use crate::lead::{self, Lead};
use crate::{sayings, words};

/// Lines; two more are for what the command says of the folder.
const MOST: usize = 58;
/// Lines of warnings, and of an answer.
const WARNINGS: usize = 6;
const ANSWER: usize = 2;
/// The least lines that claims get: answers give way to them.
const CLAIMS: usize = 12;
/// Characters of a scale, where the terminal is this wide.
const SCALE: usize = 24;
const WIDE: usize = 96;

/// The whole run in a screen.
#[must_use]
pub fn terminal_screen(results: &Results, style: &Style) -> String {
    let run = &results.run;
    let day = run.started.get(..10).unwrap_or(&run.started);
    let profile = lead::profile(results).map_or_else(String::new, |profile| format!("{profile}, "));
    let machine = format!("{}; {profile}{day}", headline(&results.machine));
    let mut lines = vec![paint(style, Ink::Bold, &cut(&clean(&machine), style.width))];
    let Trust { answer, says } = Trust::of(results);
    let believed = at_most(
        2,
        &format!("Can this run be trusted? {}: {says}", answer.word()),
        style,
        "",
    );
    let ink = match answer {
        Trusted::Yes => Ink::Good,
        Trusted::InPart => Ink::Doubt,
        Trusted::No => Ink::Bad,
    };
    lines.extend(believed.iter().map(|line| paint(style, ink, line)));
    section(&mut lines, style, "What things cost here", costs(results, style));
    let mut warnings: Vec<String> = results
        .warnings
        .iter()
        .cloned()
        .chain(results.experiments.iter().filter_map(words::skipped))
        .flat_map(|w| wrap(&w, style.width, "! "))
        .collect();
    shorten(&mut warnings, WARNINGS, "!", "the report has the rest");
    let room = MOST.saturating_sub(lines.len() + warnings.len() + 1);
    let lead = Lead::of(results);
    // Each of the two sections has an empty line and a head.
    let for_answers = match lead {
        Lead::CostsAndClaims => room.saturating_sub(4 + CLAIMS),
        Lead::Answers => room.saturating_sub(2),
    };
    let mut answers = answers(results, style, lead, for_answers);
    shorten(&mut answers, for_answers, " ", "the report has the rest");
    let left = room.saturating_sub(answers.len() + 4);
    section(&mut lines, style, "Answers", answers);
    if lead == Lead::CostsAndClaims {
        let claims = claims(results, style, left);
        section(&mut lines, style, "What held and what did not", claims);
    }
    if !warnings.is_empty() {
        lines.push(String::new());
        lines.extend(warnings.iter().map(|line| paint(style, Ink::Doubt, line)));
    }
    lines.join("\n") + "\n"
}

/// An experiment's answer in a line: its first thought.
#[must_use]
pub fn short_answer(experiment: &ExperimentResult) -> String {
    first_thought(&clean(&experiment.answer)).to_owned()
}

/// The first sentence; of a long one what comes before its first semicolon.
fn first_thought(text: &str) -> &str {
    /// Two lines.
    const LONG: usize = 185;
    let until = |text, end| str::split(text, end).next().unwrap_or(text);
    let sentence = until(text, ". ").trim_end_matches('.');
    if sentence.chars().count() <= LONG {
        return sentence;
    }
    until(sentence, "; ")
}

/// What the experiments answer: each in so many lines as fit. Where the screen begins with that, their tables, too.
fn answers(results: &Results, style: &Style, lead: Lead, room: usize) -> Vec<String> {
    let answered = || results.experiments.iter().filter(|e| !e.answer.is_empty());
    if lead == Lead::Answers {
        let of = |e: &ExperimentResult| {
            let tables = e.tables.iter().flat_map(|table| rows::lines(table, style));
            wrap(&format!("{}: {}", e.id, clean(&e.answer)), style.width, "  ")
                .into_iter()
                .chain(tables)
                .collect::<Vec<_>>()
        };
        return answered().flat_map(of).collect();
    }
    let lines: Vec<String> = answered().flat_map(|e| answer(e, style, ANSWER)).collect();
    match lines.len() <= room {
        true => lines,
        false => answered().flat_map(|e| answer(e, style, 1)).collect(),
    }
}

fn answer(e: &ExperimentResult, style: &Style, most: usize) -> Vec<String> {
    at_most(most, &format!("{}: {}", e.id, short_answer(e)), style, "  ")
}

fn costs(results: &Results, style: &Style) -> Vec<String> {
    let groups = costs::listed(results);
    let rows = || groups.iter().flat_map(|group| &group.rows);
    let longest = |of: &mut dyn Iterator<Item = usize>| of.max().unwrap_or(0);
    let figures = longest(&mut rows().map(|row| row.figure.chars().count()));
    let names = longest(&mut rows().map(|row| row.name.chars().count()));
    let scale = if style.width >= WIDE && names + figures + SCALE + 6 <= style.width {
        SCALE
    } else {
        0
    };
    let line = |group: &Group<'_>, i: usize| {
        let row = &group.rows[i];
        let name = clean(row.name);
        if names + figures + 4 > style.width {
            return wrap(&format!("{name}: {}", row.figure), style.width, "  ");
        }
        let pad = " ".repeat(names - name.chars().count() + figures - row.figure.chars().count());
        let marks = match row.places {
            Some([low, at, high]) if scale > 0 => format!("  {}", marks(scale, low, at, high)),
            _ => String::new(),
        };
        vec![format!("  {name}{pad}  {}{marks}", row.figure)]
    };
    let lines = groups
        .iter()
        .flat_map(|group| (0..group.rows.len()).flat_map(move |i| line(group, i)));
    lines.collect()
}

/// A scale of so many characters with the interval and the figure on it.
fn marks(length: usize, low: f64, at: f64, high: f64) -> String {
    let place = |share: f64| (share * (length - 1) as f64).round() as usize;
    let sign = |i: usize| match i {
        _ if i == place(at) => '●',
        _ if (place(low)..=place(high)).contains(&i) => '━',
        _ => '·',
    };
    (0..length).map(sign).collect()
}

/// As many decided claims as there is room for, the rest counted.
fn claims(results: &Results, style: &Style, room: usize) -> Vec<String> {
    let decided = words::decided(results);
    let tally = words::tally(results.experiments.iter().flat_map(|e| &e.findings));
    let counts = wrap(&words::tally_line((tally.0, 0)), style.width, "  ");
    let mut lines = Vec::new();
    let mut shown = 0;
    for (claim, verdict, finding) in &decided {
        let noise = words::noise(finding);
        let here = sayings::told(claim, finding).map_or_else(
            || format!("The rule: {}", rule(claim)),
            |told| {
                format!(
                    "Here, {}: {}{noise}; the rule: {}",
                    told.of,
                    told.line(),
                    told.rule
                )
            },
        );
        let mut text = format!("{} {here}.", claim.claim);
        if let Some(why) = words::why(claim, finding) {
            let _ = write!(text, " But {}.", why.trim_end_matches('.'));
        }
        let sign = words::sign(*verdict);
        let of = wrap(&text, style.width, &format!("  {sign} "));
        if lines.len() + of.len() + counts.len() + 1 > room {
            break;
        }
        shown += 1;
        let painted = paint(style, ink(*verdict), sign);
        lines.extend(of.into_iter().map(|line| line.replacen(sign, &painted, 1)));
    }
    if shown < decided.len() {
        let more = format!(
            "  … and {} more decided: see the report, or `threadgauge claims DIR`",
            decided.len() - shown
        );
        lines.push(cut(&more, style.width));
    }
    lines.extend(counts);
    lines
}

fn section(lines: &mut Vec<String>, style: &Style, head: &str, body: Vec<String>) {
    if !body.is_empty() {
        lines.push(String::new());
        lines.push(paint(style, Ink::Bold, head));
        lines.extend(body);
    }
}

/// `text` in so many lines, cut at the end where it has more.
fn at_most(most: usize, text: &str, style: &Style, indent: &str) -> Vec<String> {
    let mut lines = wrap(text, style.width, indent);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), style.width);
        }
    }
    lines
}

/// What does not fit gives way to a line that says so.
fn shorten(lines: &mut Vec<String>, most: usize, sign: &str, says: &str) {
    if lines.len() > most {
        lines.truncate(most.saturating_sub(1));
        lines.push(format!("{sign} … {says}"));
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end_matches([' ', '…']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_not_fit_gives_way_to_a_line_that_says_so() {
        for (count, kept) in [(3, &["a", "a", "a"][..]), (4, &["a", "a", "! … more"])] {
            let mut lines = vec!["a".to_owned(); count];
            shorten(&mut lines, 3, "!", "more");
            assert_eq!(lines, kept);
        }
    }
}
