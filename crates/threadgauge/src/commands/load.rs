//! Loading: clients of a protocol, at a pace, against a server that is there already.
//!
//! Clients, schedules, checks and figures are `crates/load`'s. Here is what the user says, whom the load may be for,
//! and how what came is shown.

mod asked;
pub mod commands;
mod drive;
pub mod experiment;
pub mod keep;
mod live;
mod mixed;
pub mod options;
mod server;
mod show;
mod table;
pub mod target;
mod workload;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use threadgauge_load::{LoadError, Search};
use threadgauge_results::LARGEST_SEED;
use threadgauge_results::units::counted;

use crate::commands::load::keep::Kept;
use crate::commands::load::live::Live;
use crate::commands::load::mixed::Mixed;
use crate::commands::load::options::{Level, LoadOptions, Loop};
use crate::commands::load::server::{ServerSide, seen};
use crate::commands::load::show::{Done as RunDone, per_second};
use crate::commands::load::target::Target;
use crate::commands::load::workload::Workload;
use crate::output::{Done, Verdict, print_json, print_words, say, shown};
use crate::signals::{self, Asked};

/// No search goes beyond this, requests a second.
const MOST_RATE: f64 = 1e7;
/// How often a search tries a rate at which the generator stood still: such a run says nothing of the server.
const TRIES: u32 = 3;
/// Said of a load that ended before its first run began.
const NOTHING_MEASURED: &str = "Interrupted while connections were made: nothing was measured.\n";

/// Loads a server, and prints what came of it.
pub fn load(options: &LoadOptions) -> Done {
    options.check()?;
    let mut target = Target::read(&options.target, options.yes_i_may_load_this_host)?;
    drive::check(options, &target)?;
    let workload = options.workload.as_deref();
    let workload = workload.map(|file| mixed::read(file, options)).transpose()?;
    let levels = options.levels(0);
    let most = levels.iter().map(|level| level.connections.get()).max();
    if let Some(dir) = &options.out {
        keep::check(dir)?;
    }
    if options.link.is_none() {
        let reached = target.reach();
        // What a workload runs before it may start the server.
        if workload.is_none() {
            reached?;
        }
    }
    let server = ServerSide::prepare(options, &mut target, most.unwrap_or(0) as u64)?;
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..=LARGEST_SEED));
    let started = Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let kept = options.out.as_deref();
    let kept = kept.map(|dir| Kept::new(dir, options, seed, &started, workload.as_ref()));
    let (stop, asked) = signals::stop().context("signals cannot be handled")?;
    let mut load = Load {
        server,
        options,
        target,
        stop,
        asked,
        seed,
        kept: kept.transpose()?,
        started,
    };
    if let Some(workload) = workload {
        return load.mixed(&workload);
    }
    let mut runs = Vec::new();
    let mut search = options.find_max.then(Search::default);
    let ended = match &mut search {
        Some(search) => load.search(&mut runs, search),
        None => load.steps(&mut runs),
    };
    let passes = match &search {
        Some(search) => search.highest.is_some() || !search.is_over,
        None => runs.iter().all(RunDone::passes),
    };
    let document = load.json(&runs, search.as_ref(), passes);
    let text = load.text(&runs, search.as_ref());
    load.conclude(&runs, ended, &document, &text, passes)
}

/// The last run at the lowest rate that did not pass.
fn lowest_failed<'a>(search: &Search, runs: &'a [RunDone]) -> Option<&'a RunDone> {
    search.failed?;
    runs.iter().rev().find(|run| run.rate == search.failed)
}

struct Load<'a> {
    options: &'a LoadOptions,
    target: Target,
    server: ServerSide,
    stop: Arc<AtomicBool>,
    asked: Asked,
    seed: u64,
    /// The results folder, where one is asked for.
    kept: Option<Kept<'a>>,
    started: String,
}

impl Load<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// One run after the other, until somebody stops it or one fails: those that were made.
    fn steps(&mut self, runs: &mut Vec<RunDone>) -> Result<()> {
        let mut order = fastrand::Rng::with_seed(self.seed);
        for round in 0..self.options.rounds {
            let mut levels = self.options.levels(self.seed.wrapping_add(round.into()));
            // Of several rounds none is always first.
            if self.options.rounds > 1 {
                order.shuffle(&mut levels);
            }
            for level in levels {
                if self.is_stopped() {
                    return Ok(());
                }
                let Some(run) = self.run(level)? else {
                    return Ok(());
                };
                runs.push(RunDone {
                    round: round + 1,
                    ..run
                });
                self.keep(runs);
            }
        }
        Ok(())
    }

    /// Searches the highest rate that meets the condition, until somebody stops it or a run fails: with the runs that
    /// were made.
    fn search(&mut self, runs: &mut Vec<RunDone>, search: &mut Search) -> Result<()> {
        let (first, least) = (self.options.first_rate(), self.options.least_rate());
        let found = search.find_max(first, least, MOST_RATE, |rate| -> Result<bool, Option<Error>> {
            if self.is_stopped() {
                return Err(None);
            }
            let mut others = 1..TRIES;
            let run = loop {
                let level = Level {
                    connections: self.options.connections,
                    pace: self.options.pace(rate, self.seed.wrapping_add(runs.len() as u64)),
                };
                let run = self.run(level)?.ok_or(None)?;
                match run.stood_still().filter(|_| others.next().is_some()) {
                    None => break run,
                    Some(reason) => say(&format!("{}: tried again: {reason}", per_second(rate))),
                }
                runs.push(run);
                self.keep(runs);
            };
            let (interrupted, objection) = (run.record.interrupted, run.objection());
            let says = match &objection {
                Some(objection) => format!("does not pass: {objection}"),
                None if interrupted => "interrupted".to_owned(),
                None => "passes".to_owned(),
            };
            say(&format!("{}: {says}", per_second(rate)));
            runs.push(run);
            self.keep(runs);
            match interrupted {
                // It had no time to pass, or not to.
                true => Err(None),
                false => Ok(objection.is_none()),
            }
        });
        match found {
            Err(Some(error)) => Err(error),
            Ok(()) | Err(None) => Ok(()),
        }
    }

    /// One run; none where it was told to end before all connections were made.
    fn run(&self, level: Level) -> Result<Option<RunDone>> {
        say(&self.about(level));
        let goes_on = &mut || !self.is_stopped();
        let mut clients = match drive::connect(self.options, &self.target, level, goes_on) {
            Err(ended @ LoadError::Interrupted { .. }) => {
                say(&ended.to_string());
                return Ok(None);
            }
            connected => connected?,
        };
        let connections = clients.connections();
        if connections < level.connections.get() {
            say(&format!(
                "going on with {connections} of {} connections: the others could not be made",
                level.connections
            ));
        }
        let watch = self.server.watch();
        let mut live = Live::new(Arc::clone(&self.stop), self.takes(), watch.clone());
        let record = clients.run(self.options, level.pace, &mut live)?;
        drop(live);
        Ok(Some(RunDone {
            server: seen(watch),
            class: None,
            wanted: level.connections.get(),
            rate: level.pace.rate(),
            connections,
            round: 1,
            is_group: self.options.protocol.is_group(),
            slo: self.options.slo.clone(),
            record,
        }))
    }

    /// All classes of a workload at once, as many rounds of it as are asked for, and their results.
    fn mixed(&mut self, workload: &Workload) -> Done {
        let options = self.options;
        let mut mixed = Mixed::of(workload);
        let mut ended = Ok(());
        // No two rounds, and no two classes, have the same.
        let seeds = (self.seed..).step_by(workload.classes.len());
        for (round, seed) in (1..=options.rounds).zip(seeds) {
            if self.is_stopped() || ended.is_err() {
                break;
            }
            say(&format!(
                "{} to {}: {} of {}, for {}{}",
                options.protocol.name(),
                self.target.address(),
                counted(options.connections.get(), "connection"),
                counted(workload.classes.len(), "class"),
                options.duration,
                mixed::of_rounds(round, options.rounds)
            ));
            let watch = self.server.watch();
            let live = Live::new(Arc::clone(&self.stop), self.takes(), watch.clone());
            let first = mixed.runs.len();
            ended = mixed.run(workload, options, &self.target, (round, seed), live, &self.stop);
            // One server, and one look at it for all classes: it stands with the first.
            if let Some(first) = mixed.runs.get_mut(first) {
                first.server = seen(watch);
                self.keep(&mixed.runs);
            }
        }
        let passes = mixed.passes();
        let mut document = self.json(&mixed.runs, None, passes);
        document["workload"] = mixed.workload.clone();
        let text = match mixed.runs.is_empty() {
            true => NOTHING_MEASURED.to_owned(),
            false => mixed.text(options.rounds),
        };
        self.conclude(&mixed.runs, ended, &document, &text, passes)
    }

    /// Keeps and shows what was measured and, where something failed, says what did after that. Where nothing was
    /// measured it only says why.
    fn conclude(
        &mut self,
        runs: &[RunDone],
        ended: Result<()>,
        document: &Value,
        text: &str,
        passes: bool,
    ) -> Done {
        if runs.is_empty()
            && let Err(error) = ended
        {
            return Err(error);
        }
        // Where one of the two cannot be done the other is.
        let written = self.write(runs);
        if self.options.json {
            print_json(document)?;
        } else {
            print_words(text)?;
        }
        written?;
        ended?;
        Ok(match passes {
            true if self.is_stopped() => self.asked.verdict(),
            true => Verdict::Done,
            false => Verdict::CheckFailed,
        })
    }

    /// Keeps what was measured until now, so that it is there whatever ends this process. Where that fails the load
    /// goes on: it is tried again.
    fn keep(&mut self, runs: &[RunDone]) {
        if let Some(Err(error)) = self.kept.as_mut().map(|kept| kept.keep(runs)) {
            say(&format!("not kept yet: {error:#}"));
        }
    }

    /// Writes the results folder with all its reports, where one is asked for.
    fn write(&mut self, runs: &[RunDone]) -> Result<()> {
        let is_stopped = self.is_stopped();
        if let Some(kept) = self.kept.as_mut().filter(|_| !runs.is_empty()) {
            let report = kept.write(runs, is_stopped)?;
            say(&format!("report: {}", shown(&report)));
        }
        Ok(())
    }

    fn takes(&self) -> Duration {
        self.options.ramp().total()
    }

    /// What a run does, in a line.
    fn about(&self, level: Level) -> String {
        let options = self.options;
        let pace = match (options.kind, level.pace.rate()) {
            (Loop::Open, Some(rate)) => format!("{}, whatever is answered", per_second(rate)),
            (Loop::Closed, _) => "each asks again after an answer and a thought".to_owned(),
            _ => "as fast as possible".to_owned(),
        };
        format!(
            "{} to {}: {}, {pace}, for {}",
            options.protocol.name(),
            self.target.address(),
            counted(level.connections.get(), "connection"),
            options.duration
        )
    }

    fn text(&self, runs: &[RunDone], search: Option<&Search>) -> String {
        let mut parts: Vec<String> = match search {
            // Of a search the runs that failed are no result.
            Some(search) => {
                let highest = runs.iter().rev().find(|run| run.rate == search.highest);
                highest.map(RunDone::text).into_iter().collect()
            }
            None if runs.is_empty() => vec![NOTHING_MEASURED.to_owned()],
            None => {
                let table = table::of_steps(runs);
                let each = runs.iter().map(RunDone::text);
                each.chain((!table.is_empty()).then_some(table)).collect()
            }
        };
        parts.extend(search.map(|search| found(self.options, search, runs, self.is_stopped())));
        parts.join("\n")
    }

    fn json(&self, runs: &[RunDone], search: Option<&Search>, passes: bool) -> Value {
        let options = self.options;
        let found = search.map(|search| {
            json!({
                "slo": options.slo.as_ref().map(ToString::to_string),
                "highest_per_second": search.highest.filter(|_| search.is_over),
                "lowest_failed_per_second": search.failed,
                "lowest_failed_because": lowest_failed(search, runs).and_then(RunDone::objection),
                "trials": runs.len(),
            })
        });
        json!({
            "schema": 1,
            "setting": self.server.json(options),
            "version": env!("CARGO_PKG_VERSION"),
            "started": self.started,
            "protocol": options.protocol.name(),
            "target": self.target.address().to_string(),
            "loop": options.loop_name(),
            "seed": self.seed,
            "duration_s": options.duration.0.as_secs_f64(),
            "interrupted": self.is_stopped(),
            "slo": options.slo.as_ref().map(ToString::to_string),
            "find_max": found,
            "passes": passes,
            "runs": runs.iter().map(RunDone::json).collect::<Vec<_>>(),
        })
    }
}

/// What a search of these runs found, in a sentence.
fn found(options: &LoadOptions, search: &Search, runs: &[RunDone], is_stopped: bool) -> String {
    // Whether the lowest rate that does not pass was judged at all.
    let invalid = lowest_failed(search, runs).and_then(|run| run.invalid_because().first().copied());
    let runs = counted(runs.len(), "run");
    let slo = options.slo.as_ref().map_or_else(String::new, ToString::to_string);
    let failed = search.failed.map_or_else(String::new, |rate| {
        format!("; the lowest that did not pass: {}", per_second(rate))
    });
    match search.highest {
        Some(rate) if search.is_over => format!(
            "Highest rate that meets {slo}, confirmed three times: {}{failed} ({runs}).\n",
            per_second(rate)
        ),
        highest if !search.is_over => {
            let ended = match is_stopped {
                true => "Interrupted",
                false => "A run failed",
            };
            let met = highest.map_or_else(String::new, |rate| {
                format!("; the highest that met {slo}: {}", per_second(rate))
            });
            format!("{ended}: no rate was confirmed{met}{failed} ({runs}).\n")
        }
        _ => {
            // It went down until a run would have had too few answers.
            let lowest = search
                .failed
                .is_some_and(|rate| rate / 2.0 < options.least_rate());
            let longer = if lowest {
                "; for lower ones say a longer --duration"
            } else {
                ""
            };
            match invalid {
                None => format!("No rate meets {slo}{failed}{longer} ({runs}).\n"),
                Some(reason) => {
                    format!(
                        "Whether a rate meets {slo} is not known{failed}, invalid: {reason}{longer} ({runs}).\n"
                    )
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn only_a_search_that_came_to_its_end_has_confirmed_a_rate() {
        let asked = "threadgauge load echo --target 1 -d 10s --find-max --slo p90<5ms";
        let Some(Command::Load(options)) = Cli::parse_from(asked.split(' ')).command else {
            panic!("{asked} is a load");
        };
        let of = |highest, failed, is_over, is_stopped| {
            let search = Search {
                highest,
                failed,
                is_over,
            };
            found(&options, &search, &[], is_stopped)
        };
        let (some, other) = (Some(200.0), Some(400.0));
        assert_eq!(
            of(some, other, true, false),
            "Highest rate that meets p90<5ms, confirmed three times: 200 a second; the lowest that did not pass: 400 a \
             second (0 runs).\n"
        );
        assert_eq!(
            of(some, None, false, true),
            "Interrupted: no rate was confirmed; the highest that met p90<5ms: 200 a second (0 runs).\n"
        );
        assert_eq!(
            of(None, other, false, false),
            "A run failed: no rate was confirmed; the lowest that did not pass: 400 a second (0 runs).\n"
        );
        assert_eq!(
            of(None, other, true, false),
            "No rate meets p90<5ms; the lowest that did not pass: 400 a second (0 runs).\n"
        );
        // Fourteen a second are needed for as many answers.
        assert_eq!(
            of(None, Some(27.0), true, false),
            "No rate meets p90<5ms; the lowest that did not pass: 27.0 a second; for lower ones say a longer --duration \
             (0 runs).\n"
        );
    }
}
