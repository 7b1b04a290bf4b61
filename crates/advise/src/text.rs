//! Advice as text, for a person who has none of our vocabulary: whether it matters, what to do, and the figures.

use std::fmt::Write as _;

use threadgauge_results::Verdict;
use threadgauge_results::units::{count, percent, with_unit};

use crate::advice::{Advice, Thumb, noun};
use crate::choose::Goal;
use crate::predict::{Figure, Prediction};
use crate::quantity::time;
use crate::workload::Coming;

/// Advice as text.
#[must_use]
pub fn text(advice: &Advice) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "Does it matter?  {}", advice.matters.says);
    let _ = writeln!(text, "What to do:      {}", advice.says);
    for caution in [&advice.undecided, &advice.doubt].into_iter().flatten() {
        let _ = writeln!(text, "                 {caution}");
    }
    if let Some(advised) = &advice.advised {
        table(&mut text, advice, advised);
        let _ = writeln!(text, "\n{}", in_full(advice, advised));
    }
    if let Some(now) = now(advice) {
        let _ = writeln!(text, "\n{now}");
    }
    list(
        &mut text,
        "Rules of thumb would have it",
        advice.thumbs.iter().map(|thumb| of_thumb(thumb, advice)),
    );
    list(
        &mut text,
        "What would change the answer",
        advice.changes.iter().cloned(),
    );
    list(
        &mut text,
        "What known rules say of it",
        advice.rules.iter().map(|said| {
            let word = if said.holds { "" } else { "Not here. " };
            format!("{word}{}", said.says)
        }),
    );
    if let Some(first) = advice.settings.first() {
        let lines = advice.settings.iter().map(|setting| match setting.value {
            Some(value) => format!(
                "{} = {value}: {}. Source: {}",
                setting.setting, setting.says, setting.source
            ),
            None => setting.says.clone(),
        });
        list(&mut text, &format!("As settings of {}", first.program), lines);
    }
    list(
        &mut text,
        "It rests on",
        std::iter::once(advice.costs.clone()).chain(advice.rests_on.iter().map(|saying| {
            let verdict = match saying.verdict {
                Some(Verdict::Holds) => "it holds here",
                Some(Verdict::DoesNotHold) => "it does not hold here",
                Some(Verdict::Inconclusive) => "the figures do not decide it here",
                Some(Verdict::NotMeasured | Verdict::NotTestable) | None => "not measured here",
            };
            format!("\"{}\" (claim {}): {verdict}", saying.says, saying.claim)
        })),
    );
    list(
        &mut text,
        "Assumed, since it was not said",
        advice.workload.assumed.iter().cloned(),
    );
    text
}

/// A head with lines below it, where there are any.
fn list(text: &mut String, head: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "\n{head}:");
    for line in lines {
        let _ = writeln!(text, "  - {line}");
    }
}

/// The advised way and the others, a row each.
fn table(text: &mut String, advice: &Advice, advised: &Prediction) {
    let is_batch = matches!(advice.workload.coming, Coming::Batch(_));
    let head = match is_batch {
        true => [
            "way",
            "all done after",
            "a result after",
            "CPU time each",
            "memory",
        ],
        false => ["way", "a task takes", "99 of 100 within", "busy", "memory"],
    };
    let row = |prediction: &Prediction, mark: &str| -> [String; 5] {
        let way = format!("{}{mark}", prediction.says);
        let of = |figure: Option<Figure>| match figure {
            Some(figure) => with_interval(figure.times(1e9), "ns"),
            None => "does not keep up".to_owned(),
        };
        let memory = with_unit(prediction.memory_bytes.value, None, "B");
        let memory = format!("{memory}{}", if prediction.fits { "" } else { ", too much" });
        match is_batch {
            true => [
                way,
                of(prediction.elapsed_s),
                of(prediction.mean_s),
                time(prediction.cpu_s.value),
                memory,
            ],
            false => [
                way,
                of(prediction.mean_s),
                of(prediction.p99_s),
                percent(prediction.busy.unwrap_or(0.0)),
                memory,
            ],
        }
    };
    let mut rows = vec![head.map(str::to_owned), row(advised, " (advised)")];
    rows.extend(advice.others.iter().map(|other| row(other, "")));
    let widths: Vec<usize> = (0..5)
        .map(|column| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    text.push('\n');
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell}{}  ", " ".repeat(width - cell.chars().count()));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn with_interval(figure: Figure, unit: &str) -> String {
    with_unit(figure.value, Some([figure.low, figure.high]), unit)
}

/// Of the advised way what the table has no room for, each with its interval.
fn in_full(advice: &Advice, advised: &Prediction) -> String {
    let noun = noun(&advice.workload);
    let time = |figure: Figure| with_interval(figure.times(1e9), "ns");
    let does = match (advice.workload.coming, advised.p99_s) {
        (Coming::Batch(_), Some(p99_s)) => format!("99 of 100 results after {}", time(p99_s)),
        _ => format!(
            "it keeps up with {} {noun}s a second",
            with_interval(advised.throughput, "count")
        ),
    };
    format!(
        "The advised way in full: {does}; {} of CPU time for each {noun}; {} of memory.",
        time(advised.cpu_s),
        with_interval(advised.memory_bytes, "B")
    )
}

/// What is to be said of the number that the user has now.
fn now(advice: &Advice) -> Option<String> {
    let now = advice.workload.now?;
    let advised = advice.advised.as_ref()?;
    if advised.candidate.at_once == now {
        return Some(format!("Now you have {}: that is what is advised.", count(now)));
    }
    let of_now = advice
        .others
        .iter()
        .find(|other| other.candidate.at_once == now)?;
    let [value, best] = [of_now, advised].map(|prediction| advice.goal.value(prediction));
    let words = advice.goal.words();
    if !of_now.fits {
        let memory = with_unit(of_now.memory_bytes.value, None, "B");
        return Some(format!(
            "Now you have {}: they need {memory}, which is not there.",
            count(now)
        ));
    }
    Some(match value.is_finite() {
        true => format!(
            "Now you have {}: {words} {}, with what is advised {}.",
            count(now),
            time(value),
            time(best)
        ),
        false => format!("Now you have {}: that does not keep up.", count(now)),
    })
}

fn of_thumb(thumb: &Thumb, advice: &Advice) -> String {
    let number = match thumb.at_once {
        Some(n) => format!(", here {}", count(n)),
        None => String::new(),
    };
    let source = match thumb.source {
        "" => String::new(),
        source => format!(" ({source})"),
    };
    let worse = match thumb.regret {
        None if !thumb.fits => "that does not fit into memory".to_owned(),
        None => "that does not keep up".to_owned(),
        Some(regret) if regret.abs() < 0.01 => "as good".to_owned(),
        Some(regret) if regret < 0.0 => format!("{} sooner", percent(-regret)),
        Some(regret) if regret > 1.0 => format!("{} times as long", crate::quantity::short(1.0 + regret)),
        Some(regret) => format!("{} longer", percent(regret)),
    };
    let tail = match (advice.goal, thumb.p99_s, thumb.regret) {
        (Goal::Response, Some(p99_s), Some(_)) => format!("; 99 of 100 within {}", time(p99_s)),
        _ => String::new(),
    };
    let memory = with_unit(thumb.memory_bytes, None, "B");
    format!("{}{source}{number}: {worse}{tail}; {memory}", thumb.rule)
}
