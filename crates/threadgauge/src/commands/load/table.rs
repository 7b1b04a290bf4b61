//! What steps came to, a row each: how far the server kept up, and who was at an end first.

use std::fmt::Write as _;

use threadgauge_results::units::{count, counted, with_unit};

use crate::commands::load::show::{Done, per_second};

const HEAD: [&str; 6] = ["step", "reached", "median", "99 %", "errors", "bottleneck"];

/// The table of several runs, in the order they were made, and which was the last good one; of one run nothing.
pub fn of_steps(runs: &[Done]) -> String {
    if runs.len() < 2 {
        return String::new();
    }
    let rows: Vec<[String; 6]> = std::iter::once(HEAD.map(str::to_owned))
        .chain(runs.iter().map(row))
        .collect();
    let mut text = String::new();
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    for row in &rows {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        // Writing into memory cannot fail.
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text + &last_good(runs)
}

fn row(run: &Done) -> [String; 6] {
    let record = &run.record;
    let times = match run.rate {
        Some(_) => &record.response,
        None => &record.service,
    };
    let time = |q| {
        times
            .ns(q)
            .map_or("–".to_owned(), |ns| with_unit(ns as f64, None, "ns"))
    };
    let reached = record.held.achieved.map_or("–".to_owned(), per_second);
    let errors = count(record.failed() as usize);
    [step(run), reached, time(0.5), time(0.99), errors, bottleneck(run)]
}

/// What was asked for.
fn step(run: &Done) -> String {
    run.rate
        .map_or_else(|| counted(run.wanted, "connection"), per_second)
}

/// Who was at an end first. What an invalid run lacks is the generator's or this machine's, not the server's.
fn bottleneck(run: &Done) -> String {
    match run.invalid_because().first() {
        Some(reason) => reason.name().replace('_', " "),
        None if run.record.interrupted => "interrupted".to_owned(),
        None if run.passes() => "none".to_owned(),
        None => "the server".to_owned(),
    }
}

/// The highest step up to which all runs are good, in words.
fn last_good(runs: &[Done]) -> String {
    let load = |run: &Done| (run.rate.unwrap_or(0.0), run.wanted);
    let failed = runs.iter().filter(|run| !run.passes());
    let first_bad = failed.min_by(|a, b| load(a).partial_cmp(&load(b)).unwrap_or(std::cmp::Ordering::Equal));
    let below = |run: &&Done| first_bad.is_none_or(|bad| load(run) < load(bad));
    let good = runs.iter().filter(below);
    let last = good.max_by(|a, b| load(a).partial_cmp(&load(b)).unwrap_or(std::cmp::Ordering::Equal));
    let why = |bad: &Done| format!("{}: {}", step(bad), bad.objection().unwrap_or_default());
    match (last, first_bad) {
        (Some(last), None) => format!("Last good step: {}, the highest that was tried.\n", step(last)),
        (Some(last), Some(bad)) => format!(
            "Last good step: {}. The first that was not is {}.\n",
            step(last),
            why(bad)
        ),
        (None, Some(bad)) => format!("No step was good. The lowest is {}.\n", why(bad)),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_load::Record;

    use super::*;

    /// What a row says of a run on two connections as fast as possible.
    fn said(record: Record) -> String {
        let run = Done {
            wanted: 2,
            rate: None,
            connections: 2,
            round: 1,
            is_group: false,
            record,
            slo: None,
            server: None,
            class: None,
        };
        let [step, .., errors, bottleneck] = row(&run);
        assert_eq!(step, "2 connections");
        format!("{errors}, {bottleneck}")
    }

    #[test]
    fn who_was_at_an_end_first_is_named() {
        let answered = |answered| Record {
            answered,
            ..Record::default()
        };
        assert_eq!(said(answered(7)), "0, none");
        assert_eq!(said(answered(0)), "0, no answer");
        assert_eq!(
            said(Record {
                interrupted: true,
                ..answered(7)
            }),
            "0, interrupted"
        );
        assert_eq!(
            said(Record {
                unfinished: 3,
                ..answered(7)
            }),
            "3, the server"
        );
    }
}
