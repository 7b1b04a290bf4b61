//! The report as Markdown, in the order of the page: for a README, an issue, a commit.
//!
//! Primary metrics only, and charts as the tables they stand for in the source's layout; the page has the rest.

use std::fmt::Write as _;

use threadgauge_results::outside::steers;
use threadgauge_results::published::cited;
use threadgauge_results::units::{self, Scale};
use threadgauge_results::{Claim, Cost, ExperimentResult, Finding, Results, Table, Trust, Verdict};

use crate::by_kind::{self, ASPECTS, ByKind, Lacks, Row, TITLE, about_aspects};
use crate::cases::Cases;
use crate::costs;
use crate::facts::{facts, headline};
use crate::lead::{self, Lead, NO_EXPERIMENT};
use crate::{glossary, sayings, words};

/// The report as Markdown, in the order of the page.
#[must_use]
pub fn markdown(results: &Results) -> String {
    let run = &results.run;
    let asked = lead::headline(results);
    let mut out = format!("# {}\n\n", cell(asked));
    let _ = writeln!(
        out,
        "{}. {}{}, threadgauge {}, seed {}.\n",
        cell(&headline(&results.machine)),
        lead::profile(results).map_or_else(String::new, |profile| format!("Profile **{}**, ", cell(profile))),
        cell(&run.started),
        cell(&run.version),
        run.seed
    );
    if !run.complete {
        out.push_str("> **Warning:** this run is not complete: planned rounds are missing.\n\n");
    }
    let trust = Trust::of(results);
    let _ = writeln!(
        out,
        "Can this run be trusted? **{}:** {}\n",
        trust.answer.word(),
        cell(&trust.says)
    );
    for warning in &results.warnings {
        let _ = writeln!(out, "> **Warning:** {}\n", cell(warning));
    }
    match Lead::of(results) {
        Lead::CostsAndClaims => {
            costs(&mut out, results);
            findings(&mut out, results);
            machine(&mut out, results);
            for of in by_kind::tables_beside(results) {
                table(&mut out, "##", of);
            }
            experiments(&mut out, results, asked);
        }
        Lead::Answers => {
            experiments(&mut out, results, asked);
            for of in &results.tables {
                table(&mut out, "##", of);
            }
            if results.experiments.iter().any(|e| !e.findings.is_empty()) {
                findings(&mut out, results);
            }
            machine(&mut out, results);
        }
    }
    glossary::markdown(&mut out);
    out
}

fn machine(out: &mut String, results: &Results) {
    out.push_str("## This machine\n\n| fact | value |\n|---|---|\n");
    for fact in facts(&results.machine) {
        let _ = writeln!(out, "| {} | {} |", cell(&fact.name), cell(&fact.value));
    }
    out.push('\n');
}

fn experiments(out: &mut String, results: &Results, headline: &str) {
    if results.experiments.is_empty() {
        let _ = writeln!(out, "{NO_EXPERIMENT}\n");
    }
    for e in &results.experiments {
        experiment(out, e, headline);
    }
}

/// What things cost, and by kind of unit all that experiments know of it.
fn costs(out: &mut String, results: &Results) {
    let listed = costs::listed(results);
    let costs: Vec<_> = listed.iter().flat_map(|group| &group.rows).collect();
    if !costs.is_empty() {
        out.push_str("## What things cost here\n\n");
        let heads = ["what", "here", "how", "published"].map(str::to_owned);
        let body = costs.iter().map(|row| {
            let published = row.cost.published.clone().unwrap_or_default();
            vec![
                row.name.to_owned(),
                row.figure.clone(),
                row.cost.how.clone(),
                published,
            ]
        });
        rows(out, &heads, body);
    }
    if let Some(units) = ByKind::of(results) {
        by_kind(out, &units);
    }
}

fn by_kind(out: &mut String, units: &ByKind<'_>) {
    let _ = writeln!(out, "## {TITLE}\n");
    if let Some(command) = units.command() {
        let _ = writeln!(
            out,
            "Not all of it was measured in this run. `{command}` measures the rest.\n"
        );
    }
    let heads = std::iter::once("what is paid for").chain(units.kinds.iter().copied());
    let heads: Vec<String> = heads.map(str::to_owned).collect();
    let figure = |cost: &Option<&Cost>| {
        let figure = cost.map(|c| (units::with_unit(c.value, c.ci95, &c.unit), c.published.as_deref()));
        match figure {
            Some((figure, Some(published))) => format!("{figure}; published: {published}"),
            Some((figure, None)) => figure,
            None => "–".to_owned(),
        }
    };
    let row = |row: &Row<'_>| {
        let what = std::iter::once(row.what.to_owned());
        what.chain(row.costs.iter().map(figure)).collect()
    };
    if !units.kinds.is_empty() {
        let parts = units.parts.iter();
        rows(out, &heads, parts.flat_map(|part| &part.rows).map(row));
    }
    for part in &units.parts {
        if let (Some(act), Some(lacks)) = (part.act, part.lacks) {
            let _ = writeln!(out, "- {}: {}.", act.words(), cell(&lacks.says()));
        }
    }
    if let Some(of) = units.by_runtime {
        out.push('\n');
        table(out, "###", of);
    }
    let _ = writeln!(out, "\n### {ASPECTS}\n");
    let _ = writeln!(out, "{}\n", about_aspects());
    let heads = ["aspect", "processes", "threads", "in favour of", "here"].map(str::to_owned);
    let body = units.aspects.iter().map(|of| {
        let said = of.claims.iter().map(|(claim, told)| answer(claim, *told));
        let open = (!of.aspect.open.is_empty()).then(|| of.aspect.open.clone());
        let here: Vec<String> = said.chain(open).collect();
        let [aspect, process, thread, favours] = [
            &of.aspect.aspect,
            &of.aspect.process,
            &of.aspect.thread,
            &of.aspect.favours,
        ]
        .map(Clone::clone);
        vec![aspect, process, thread, favours, here.join(" ")]
    });
    rows(out, &heads, body);
}

/// A claim and what this run says of it, in a sentence.
fn answer(claim: &Claim, told: Result<&Finding, Lacks<'_>>) -> String {
    let verdict = told.ok().and_then(|finding| finding.verdict);
    let (sign, said) = match (told, verdict) {
        (Ok(finding), Some(verdict)) => {
            let here = words::measured(finding).map(|figure| format!(", here {figure}"));
            let here = here.or_else(|| Some(format!(": {}", finding.reason.as_deref()?)));
            (
                words::sign(verdict),
                format!("{}{}", words::word(verdict), here.unwrap_or_default()),
            )
        }
        (Ok(_), None) => return claim.claim.clone(),
        (Err(lacks), _) => (words::sign(Verdict::NotMeasured), lacks.says()),
    };
    format!("{sign} {} ({said}).", claim.claim.trim_end_matches('.'))
}

fn findings(out: &mut String, results: &Results) {
    let tally = words::tally(results.experiments.iter().flat_map(|e| &e.findings));
    let _ = writeln!(out, "## Findings\n\n{}\n", words::tally_line(tally));
    let all: Vec<(&ExperimentResult, &Finding)> = (results.experiments.iter())
        .flat_map(|e| words::in_order(&e.findings).into_iter().map(move |f| (e, f)))
        .collect();
    if all.is_empty() {
        return;
    }
    out.push_str("| verdict | finding | here | published | experiment |\n|---|---|---|---|---|\n");
    for (e, f) in all {
        let verdict = f.verdict.map_or_else(
            || "• fact".to_owned(),
            |v| format!("{} {}", words::sign(v), words::word(v)),
        );
        let mut says = cell(&words::statement(f));
        if let Some(reason) = &f.reason {
            let _ = write!(says, " Why: {}", cell(reason));
        }
        if let Some(claim) = &f.claim {
            let _ = write!(says, " (`{}`)", cell(claim));
        }
        let figure = |text: Option<String>| text.map_or_else(|| "–".to_owned(), |t| cell(&t));
        let (ours, theirs) = (figure(words::measured(f)), figure(words::published(f)));
        let _ = writeln!(
            out,
            "| {verdict} | {says} | {ours} | {theirs} | {} |",
            cell(&e.id)
        );
    }
    out.push('\n');
}

/// An experiment. Its question is left out where it is the `headline`.
fn experiment(out: &mut String, e: &ExperimentResult, headline: &str) {
    let _ = writeln!(out, "## {}\n", cell(&e.id));
    if e.question != headline {
        let _ = writeln!(out, "*{}*\n", cell(&e.question));
    }
    if !e.answer.is_empty() {
        let _ = writeln!(out, "**{}**\n", cell(&e.answer));
    }
    if let Some(number) = &e.number {
        let (figure, interval) = sayings::in_unit(&number.unit, number.value, number.ci95);
        let figure = format!("{figure} {interval}");
        let _ = writeln!(out, "**{}**: {}.\n", cell(figure.trim_end()), cell(&number.of));
    }
    for of in &e.tables {
        table(out, "###", of);
    }
    cases(out, e);
    rankings(out, e);
    comparisons(out, e);
    let m = &e.method;
    let _ = writeln!(out, "### Method of {}\n", cell(&e.id));
    let _ = writeln!(out, "- How: {}", cell(&m.how));
    let _ = writeln!(out, "- Control: {}", cell(&m.control));
    for trap in &m.traps {
        let _ = writeln!(out, "- Trap: {}", cell(trap));
    }
    let _ = writeln!(out, "- The source: {}", cell(&m.source));
    for d in &e.diagnostics {
        let warning = if d.warning { "**Warning**, " } else { "" };
        let _ = writeln!(out, "- {warning}{}: {}", cell(&d.name), cell(&d.says));
    }
    out.push('\n');
}

/// A table of words, under a head of this level.
fn table(out: &mut String, level: &str, table: &Table) {
    let _ = writeln!(out, "{level} {}\n", cell(&table.title));
    if !table.note.is_empty() {
        let _ = writeln!(out, "{}\n", cell(&table.note));
    }
    rows(out, &table.columns, table.rows.iter().cloned());
}

fn cases(out: &mut String, e: &ExperimentResult) {
    let columns = Cases::of(e);
    let notes = columns.has_notes();
    let _ = writeln!(out, "### Cases of {}\n", cell(&e.id));
    let line = format!(
        "{}; {} {}; {}. {} {}",
        words::case_counts(e),
        e.rounds,
        words::plural(e.rounds as usize, "round", "rounds"),
        words::stopped(&e.stopped_because),
        columns.figures_line(),
        columns.shared_line()
    );
    let _ = writeln!(out, "{}\n", cell(line.trim_end()));
    let mut heads: Vec<String> = columns.params.iter().map(|p| (*p).to_owned()).collect();
    heads.extend(columns.main_metrics().iter().map(crate::cases::Metric::head));
    if notes {
        heads.push("note".to_owned());
    }
    let body = e.cases.iter().map(|case| {
        let params = columns.params.iter().map(|p| Cases::param(case, p));
        let figures = columns.main_metrics().iter().map(|m| match m.of(case) {
            Some(s) => m.scale.estimate_number(s.median, s.ci95),
            None => "–".to_owned(),
        });
        params
            .chain(figures)
            .chain(notes.then(|| columns.note(case)))
            .collect()
    });
    rows(out, &heads, body);
}

fn rankings(out: &mut String, e: &ExperimentResult) {
    let columns = Cases::of(e);
    for ranking in &e.rankings {
        let ids: Vec<&str> = ranking.entries.iter().map(|entry| entry.case.as_str()).collect();
        let (names, shared) = columns.names(&ids);
        let _ = writeln!(out, "### {}\n", cell(&ranking.title));
        let shared = if shared.is_empty() {
            shared
        } else {
            format!(" All: {shared}.")
        };
        let _ = writeln!(out, "{}{}\n", words::about_letters(ranking), cell(&shared));
        let heads = ["case", "against the best", "letters"].map(str::to_owned);
        let body = ranking.entries.iter().zip(names).map(|(entry, name)| {
            let ratio = Scale::of("ratio", entry.ratio).estimate(entry.ratio, entry.ci95);
            vec![name, ratio, entry.letters.clone()]
        });
        rows(out, &heads, body);
    }
}

fn comparisons(out: &mut String, e: &ExperimentResult) {
    if e.comparisons.is_empty() {
        return;
    }
    let columns = Cases::of(e);
    let _ = writeln!(out, "### Comparisons of {}\n", cell(&e.id));
    let _ = writeln!(out, "{}\n", words::by_chance(&e.comparisons));
    let heads = ["case", "against", "both", "metric", "ratio", "verdict"].map(str::to_owned);
    let body = e.comparisons.iter().map(|c| {
        let (mut names, shared) = columns.names(&[&c.b, &c.a]);
        let ratio = c.ratio.map(|r| Scale::of("ratio", r).estimate(r, c.ci95));
        let against = names.pop().unwrap_or_default();
        let case = names.pop().unwrap_or_default();
        let verdict = format!("{} {}", words::comparison_sign(&c.verdict), words::outcome(c));
        vec![
            case,
            against,
            shared,
            c.metric.clone(),
            ratio.unwrap_or_else(|| "–".to_owned()),
            verdict,
        ]
    });
    rows(out, &heads, body);
}

fn rows(out: &mut String, heads: &[String], body: impl Iterator<Item = Vec<String>>) {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| cell(c)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    out.push_str(&line(heads));
    out.push_str(&format!("|{}\n", "---|".repeat(heads.len())));
    for row in body {
        out.push_str(&line(&row));
    }
    out.push('\n');
}

/// Text that is neither markup, nor a link or picture, nor the end of a cell, with sources by their names.
pub(crate) fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for c in cited(text).chars() {
        match c {
            '|' | '*' | '\\' => out.extend(['\\', c]),
            // One begins code, which is for us to write; several, a block that has no end.
            '`' | '~' if before == c => out.extend(['\\', c]),
            // Brackets stand around intervals, and mean something else only beside these.
            '[' if matches!(before, '!' | ']') => out.push_str("\\["),
            '(' | ':' if before == ']' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\n' | '\r' | '\t' => out.push(' '),
            c if steers(c) => continue,
            c => out.push(c),
        }
        before = c;
    }
    out
}
