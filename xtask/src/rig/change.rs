//! What a change costs: servers of this build beside those of another, design by design.
//!
//! The two servers of a design stand side by side and are driven in many short turns, which go first in turn: what
//! changes slower than two turns falls on both alike.

use std::fmt::{self, Write as _};
use std::path::Path;

use anyhow::Result;
use serde_json::json;
use threadgauge_stats::{Estimate, geometric_mean, paired_ratio};

use super::figures::{at_most, estimate, spread};
use super::programs::Programs;
use super::rounds::Rounds;
use super::{Part, Site};

/// In which a server of a round is driven; an even number.
const TURNS: u64 = 20;
/// The most of the cost before that ours may have now, over all designs.
pub const LIMIT: f64 = 1.03;
const US: f64 = 1e3;

/// Which build a server is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Build {
    Before,
    Now,
}

/// A server of a design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    design: &'static str,
    build: Build,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let build = match self.build {
            Build::Before => "before",
            Build::Now => "now",
        };
        write!(f, "{}, {build}", self.design)
    }
}

/// A server that is driven in turns.
pub trait Driven {
    /// Drives it through one of so many equal turns.
    ///
    /// # Errors
    ///
    /// If it does not do what it must.
    fn turn(&mut self) -> Result<()>;

    /// Ends it: its CPU time for a unit of work, in nanoseconds.
    ///
    /// # Errors
    ///
    /// If it does not end well.
    fn end(self: Box<Self>) -> Result<f64>;
}

/// How much of `work` one turn does.
pub fn of_a_turn(work: u64) -> u64 {
    (work / TURNS).max(1)
}

/// Every design of both builds; `unit` is what the CPU time is for, `start` starts a server of a design.
pub fn measure(
    site: &mut Site,
    before: &Path,
    name: &str,
    unit: &str,
    designs: &[&'static str],
    start: impl Fn(&Programs, &'static str) -> Result<Box<dyn Driven>>,
) -> Result<Part> {
    let programs = [
        (Build::Before, site.programs.with_threadgauge(before)?),
        (Build::Now, site.programs.clone()),
    ];
    let of = |build| &programs.iter().find(|(b, _)| *b == build).expect("one of both").1;
    let pair = |&design: &&'static str| [Build::Before, Build::Now].map(|build| Run { design, build });
    let groups = designs.iter().map(|design| pair(design).to_vec()).collect();
    let measured = Rounds::measure_together(name, groups, site.rounds, &mut site.rng, |group, announce| {
        let mut servers: Vec<Result<Box<dyn Driven>>> = group
            .iter()
            .map(|run| {
                announce(run);
                start(of(run.build), run.design)
            })
            .collect();
        for turn in 0..TURNS {
            let mut order: Vec<_> = servers.iter_mut().collect();
            if turn % 2 == 1 {
                order.reverse();
            }
            for server in order {
                if let Ok(driven) = server
                    && let Err(error) = driven.turn()
                {
                    *server = Err(error);
                }
            }
        }
        servers
            .into_iter()
            .map(|server| server.and_then(Driven::end))
            .collect()
    });

    let mut text = format!(
        "## `{name}`: before and now

CPU time of the server for {unit}, in µs: median (least – most) over rounds. Ratios are Hodges–Lehmann estimates over rounds \
[95 % interval]; that of all is the geometric mean over designs in each round.

| design | before | now | now over before | ≤ {LIMIT} |
|---|---:|---:|---:|---|
"
    );
    for design in designs {
        let [before, now] = pair(design);
        let ratio = measured.ratio(now, before);
        let _ = writeln!(
            text,
            "| {design} | {} | {} | {} | {} |",
            spread(measured.spread(before), US),
            spread(measured.spread(now), US),
            estimate(ratio.as_ref()),
            at_most(ratio.as_ref(), LIMIT)
        );
    }
    let pairs: Vec<_> = designs.iter().map(pair).collect();
    let all = over_all(&measured, &pairs, site.rounds);
    let _ = writeln!(
        text,
        "| **all** | | | **{}** | {} |",
        estimate(all.as_ref()),
        at_most(all.as_ref(), LIMIT)
    );
    Ok(Part {
        text: text + &measured.missing(),
        values: json!({"unit": "ns", "cells": measured.json()}),
    })
}

/// The geometric mean over designs, of the rounds that have all of them.
fn over_all(measured: &Rounds<Run>, designs: &[[Run; 2]], rounds: usize) -> Option<Estimate> {
    mean_by_round(rounds, |round| {
        let ratio = |&[before, now]: &[Run; 2]| Some(measured.of(now)[round]? / measured.of(before)[round]?);
        designs.iter().map(ratio).collect()
    })
}

/// The geometric mean of each round's ratios, of the rounds that have them.
pub fn mean_by_round(rounds: usize, ratios: impl Fn(usize) -> Option<Vec<f64>>) -> Option<Estimate> {
    let means = (0..rounds).filter_map(|round| geometric_mean(&ratios(round)?).ok());
    let means: Vec<f64> = means.collect();
    paired_ratio(&vec![1.0; means.len()], &means, 0.05).ok()
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn all_designs_together_are_their_geometric_mean_in_each_round() {
        let run = |design, build| Run { design, build };
        let pairs = ["a", "b"].map(|design| [Build::Before, Build::Now].map(|build| run(design, build)));
        let groups = pairs.iter().map(|pair| pair.to_vec()).collect();
        let measured = Rounds::measure("test", groups, 7, &mut Rng::with_seed(1), |run| {
            Ok(match (run.design, run.build) {
                (_, Build::Before) => 10.0,
                ("a", _) => 20.0,
                _ => 5.0 * 1.21,
            })
        });
        let all = over_all(&measured, &pairs, 7).unwrap();
        assert!((all.estimate - 1.1).abs() < 1e-12, "{all:?}");
        assert!(all.ci.is_some());
    }
}
