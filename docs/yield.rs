//! `yield`: what giving up the CPU costs when nobody else wants it.
//!
//! Question: what does a call of `sched_yield` cost a unit that is alone on its CPU?
//! Method: a loop of calls, timed whole, divided by their number.
//! Control: the same loop without the call, which is what the loop itself costs.
//! Traps: with another unit on the CPU it would switch, which costs more and is another question.
//! Source: 001 calls `Sleep(0)` in a similar loop and never measures it alone.

use std::hint::black_box;
use std::time::Duration;

use threadgauge_results::{Method, Params};
use threadgauge_stats::paired_difference;

use threadgauge_lab::compat::{cell, params};
use threadgauge_lab::experiment::{Answer, Experiment, Pair};
use threadgauge_lab::grid::{Plan, PlannedCase};
use threadgauge_lab::site::{Profile, Site};
use threadgauge_lab::view::View;
use threadgauge_lab::worker::{CaseError, Worker};

/// See the header of this file.
pub struct Yield;

impl Experiment for Yield {
    fn id(&self) -> &'static str {
        "yield"
    }

    fn question(&self) -> &'static str {
        "What does giving up the CPU cost when nobody else wants it?"
    }

    fn sources(&self) -> &'static [&'static str] {
        &["001"]
    }

    fn method(&self) -> Method {
        Method {
            how: "A loop of sched_yield on one CPU, timed whole and divided by the number of calls."
                .to_owned(),
            control: "The same loop without the call.".to_owned(),
            traps: vec!["With another unit on the CPU a yield switches, and costs more.".to_owned()],
            source: "001 yields among many threads and never measures a yield alone.".to_owned(),
        }
    }

    fn primary_metrics(&self) -> &'static [&'static str] {
        &["ns_per_call"]
    }

    fn claims(&self) -> &'static [&'static str] {
        &[]
    }

    fn plan(&self, site: &Site) -> Plan {
        let calls: u64 = match site.profile {
            Profile::Quick | Profile::Standard => 100_000,
            Profile::Paper => 1_000_000,
        };
        // A call takes at most about a microsecond.
        let estimate = Duration::from_millis(5) + Duration::from_micros(calls);
        let case = |call: &str| {
            PlannedCase::new(
                Params::new()
                    .with("call", call)
                    .with("calls", calls)
                    .with("cpus", 1),
                estimate,
            )
        };
        Plan {
            cases: vec![case("none"), case("yield")],
            reference: params("call=none"),
            budget: Duration::from_secs(30),
            twice_up_to: Duration::ZERO,
        }
    }

    fn run(&self, case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
        let calls = case
            .int("calls")
            .filter(|n| *n > 0)
            .ok_or_else(|| CaseError::Failed("calls must be a number above 0; see --set".to_owned()))?;
        let stopwatch = worker.stopwatch();
        match case.text("call") {
            Some("yield") => (0..calls).for_each(|_| std::thread::yield_now()),
            Some("none") => (0..calls).for_each(|i| {
                black_box(i);
            }),
            other => {
                return Err(CaseError::Failed(format!(
                    "there is no call {other:?}: none or yield"
                )));
            }
        }
        let lap = stopwatch.stop();
        worker.metric("ns_per_call", "ns", lap.wall_ns as f64 / calls as f64);
        worker.tag("cold");
        Ok(())
    }

    fn read(&self, view: &View<'_>) -> Answer {
        let cells = [
            cell("call=yield", "ns_per_call"),
            cell("call=none", "ns_per_call"),
        ];
        // Only as a paired difference, and only where it can be told from nothing (METHOD rule 11).
        let with = view.by_round(&cells, |ns| ns[0]);
        let without = view.by_round(&cells, |ns| ns[1]);
        let answer = match (with, without) {
            (Ok(with), Ok(without)) => match paired_difference(&with, &without, 0.05) {
                Ok(net) if net.below_resolution => "What a lone yield costs is below resolution.".to_owned(),
                Ok(net) => format!("A yield that finds nobody waiting costs {:.0} ns.", net.estimate),
                Err(why) => why.to_string(),
            },
            (Err(why), _) | (_, Err(why)) => why,
        };
        Answer {
            answer,
            comparisons: vec![Pair {
                a: params("call=none"),
                b: params("call=yield"),
            }],
            ..Answer::default()
        }
    }
}
