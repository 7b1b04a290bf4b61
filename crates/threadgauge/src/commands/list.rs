//! The catalogue.

use std::fmt::Write as _;
use std::time::Duration;

use threadgauge_experiments::CATALOGUE;
use threadgauge_lab::experiment::Experiment;
use threadgauge_lab::schedule::{Chosen, Forecast, expected_rounds, stopping_rule};
use threadgauge_lab::site::Site;
use threadgauge_results::published::named;
use threadgauge_results::units::counted;
use threadgauge_results::{Decisions, Offers, Times, claims};

use crate::cli::ListOptions;
use crate::commands::run::site;
use crate::output::{Done, Verdict, print_json, print_words};
use crate::progress::about;

/// Prints every experiment with what it takes.
pub fn list(options: &ListOptions) -> Done {
    let site = site(options.profile.into(), None)?;
    let entries: Vec<Entry> = CATALOGUE.iter().map(|e| Entry::new(e, &site)).collect();
    if options.json {
        print_json(&entries.iter().map(Entry::json).collect::<Vec<_>>())?;
    } else {
        print_words(&text(&entries, &site, options))?;
    }
    Ok(Verdict::Done)
}

struct Entry {
    id: &'static str,
    question: &'static str,
    first_run: bool,
    sources: &'static [&'static str],
    cases: Vec<(String, Option<String>)>,
    rounds: u32,
    takes: Duration,
}

impl Entry {
    fn new(experiment: &'static Experiment, site: &Site) -> Self {
        let chosen = [Chosen::all(experiment, site)];
        let rule = stopping_rule(site.profile, None);
        let forecast = Forecast::new(&chosen, site.profile, &rule, Times::default());
        let takes = forecast.of(&chosen);
        let [chosen] = chosen;
        Self {
            id: experiment.id,
            question: experiment.question,
            first_run: experiment.first_run,
            sources: experiment.sources,
            cases: chosen
                .plan
                .cases
                .iter()
                .map(|c| (c.params.to_string(), c.skip.as_ref().map(ToString::to_string)))
                .collect(),
            rounds: expected_rounds(&rule),
            takes,
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "id": self.id, "question": self.question, "first_run": self.first_run, "sources": self.sources,
            "rounds": self.rounds, "seconds": self.takes.as_secs_f64(),
            "cases": self.cases.iter().map(|(params, _)| params).collect::<Vec<_>>(),
        })
    }
}

fn text(entries: &[Entry], site: &Site, options: &ListOptions) -> String {
    let mut text = String::new();
    for entry in entries {
        let sources = if entry.sources.is_empty() {
            String::new()
        } else {
            let names: Vec<String> = entry.sources.iter().copied().map(named).collect();
            format!("\n    after {}", names.join("; "))
        };
        let by_name = if entry.first_run { "" } else { "; by name only" };
        let _ = writeln!(
            text,
            "{}\n    {}\n    {}, {}, {}{by_name}{sources}",
            entry.id,
            entry.question,
            counted(entry.cases.len(), "case"),
            counted(entry.rounds as usize, "round"),
            about(entry.takes),
        );
        for (params, skip) in entry.cases.iter().filter(|_| options.cases) {
            let skip = skip
                .as_ref()
                .map_or_else(String::new, |why| format!("   (skipped: {why})"));
            let _ = writeln!(text, "      {params}{skip}");
        }
    }
    let whole: Duration = entries.iter().map(|e| e.takes).sum();
    let first: Duration = entries.iter().filter(|e| e.first_run).map(|e| e.takes).sum();
    let offers = Offers {
        cpus: u32::try_from(site.cpus.len()).unwrap_or(u32::MAX),
        siblings: site.cores < site.cpus.len(),
    };
    let decisions = Decisions::of(claims().iter().map(|claim| claim.waits_for), offers);
    let _ = write!(
        text,
        "All of them: {}; those that a run without names measures: {}\n{}",
        about(whole),
        about(first),
        decisions.says("this machine")
    );
    text
}
