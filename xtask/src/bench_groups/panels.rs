//! The parts that differ in level alone: levels, servers and targets, and one table for all of them.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use threadgauge_stats::Estimate;

use super::contenders::{Contenders, Who};
use super::talk::{Demand, Figures, GROUP, Level, Names, Run, measure};
use crate::rig::figures::{NOTHING, Spread, at_least, at_most, estimate, middle, spread, spread_of};
use crate::rig::rounds::Rounds;
use crate::rig::{Part, Site};

const SPAN: Duration = Duration::from_secs(1);
/// Under a rate, for a 99th percentile that holds.
const LONG_SPAN: Duration = Duration::from_secs(3);
const BYTES: usize = 128;
const THOUSAND: f64 = 1e3;
const MS: f64 = 1e6;
/// What half the connections may change of a delivery's cost.
const CHANGE: f64 = 0.03;
/// The most of the best peer's 99th percentile.
const LATENCY: f64 = 1.2;

const fn level(connections: usize, payload_bytes: usize, demand: Demand) -> Level {
    Level {
        connections,
        payload_bytes,
        demand,
        names: Names::Alike,
    }
}

/// One outstanding, at every number of connections.
pub fn saturated(site: &mut Site, contenders: &Contenders) -> Result<Part> {
    let levels = [100, 1_000, 5_000, 10_000].map(|n| level(n, BYTES, Demand::Outstanding(1)));
    against_peers(
        "saturated",
        "One message outstanding",
        &levels,
        SPAN,
        site,
        contenders,
    )
}

/// Sixteen outstanding.
pub fn pipelined(site: &mut Site, contenders: &Contenders) -> Result<Part> {
    let levels = [100, 1_000].map(|n| level(n, BYTES, Demand::Outstanding(16)));
    against_peers(
        "pipelined",
        "Sixteen messages outstanding",
        &levels,
        SPAN,
        site,
        contenders,
    )
}

/// Small and large messages.
pub fn sizes(site: &mut Site, contenders: &Contenders) -> Result<Part> {
    let levels = [16, 1024].map(|bytes| level(1_000, bytes, Demand::Outstanding(1)));
    against_peers("sizes", "16 bytes and 1 KiB", &levels, SPAN, site, contenders)
}

/// Names of subscriptions that differ, where names are told with every delivery.
pub fn names(site: &mut Site, contenders: &Contenders) -> Result<Part> {
    let levels = [1, 16].map(|messages| Level {
        names: Names::Different,
        ..level(1_000, BYTES, Demand::Outstanding(messages))
    });
    against_peers(
        "names",
        "No two subscriptions of the same name",
        &levels,
        SPAN,
        site,
        contenders,
    )
}

/// Fixed rates.
pub fn rates(site: &mut Site, contenders: &Contenders) -> Result<Part> {
    let levels = [20_000, 200_000].map(|rate| level(1_000, BYTES, Demand::Rate(rate)));
    against_peers(
        "rates",
        "Fixed deliveries a second",
        &levels,
        LONG_SPAN,
        site,
        contenders,
    )
}

/// What a panel measured.
struct Panel {
    measured: Rounds<Run, Figures>,
    /// The figure that is compared.
    per_cpu_second: Rounds<Run>,
}

impl Panel {
    /// Each level's servers stay together in a round, since they are compared.
    fn measure(
        name: &str,
        groups: Vec<Vec<Run>>,
        span: Duration,
        site: &mut Site,
        contenders: &Contenders,
    ) -> Self {
        let span = span / u32::try_from(site.share).unwrap_or(u32::MAX);
        let cpus = site.server_on(1);
        let programs = &site.programs;
        let measured = Rounds::measure(name, groups, site.rounds, &mut site.rng, |run| {
            measure(run, contenders, programs, &cpus, span)
        });
        let per_cpu_second = measured.map(|figures| figures.per_cpu_second);
        Self {
            measured,
            per_cpu_second,
        }
    }

    fn part(&self, text: String) -> Part {
        Part {
            text: text + &self.measured.missing(),
            values: self.measured.json(),
        }
    }

    fn spread_of(&self, run: Run, figure: impl Fn(Figures) -> f64) -> Option<Spread> {
        let rounds = self.measured.of(run).iter().flatten();
        spread_of(rounds.map(|&figures| figure(figures)))
    }

    /// The one of these with the most deliveries a CPU second, by its median.
    fn best(&self, level: Level, of: impl Iterator<Item = Who>) -> Option<Run> {
        let runs = of.map(|who| Run { level, who });
        let medians = runs.filter_map(|run| Some((run, self.per_cpu_second.spread(run)?.median)));
        medians.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(run, _)| run)
    }

    /// `a` over `b` in the 99th percentile.
    fn latency_ratio(&self, a: Run, b: Run) -> Option<Estimate> {
        let high = self
            .measured
            .map(|figures| figures.latency_ns.map_or(f64::NAN, |ns| ns[1]));
        high.ratio(a, b)
    }
}

fn against_peers(
    name: &str,
    title: &str,
    levels: &[Level],
    span: Duration,
    site: &mut Site,
    contenders: &Contenders,
) -> Result<Part> {
    let mut servers = contenders.against_peers();
    if levels.iter().any(|level| level.names == Names::Different) {
        servers.retain(|who| who.speaks_nats());
    }
    let groups = levels
        .iter()
        .map(|&level| servers.iter().map(|&who| Run { level, who }).collect());
    let panel = Panel::measure(name, groups.collect(), span, site, contenders);
    let place = site.server_on(1);
    let rated = levels.iter().any(|level| matches!(level.demand, Demand::Rate(_)));
    let mut text = format!(
        "## {title}: deliveries for each CPU second of the server

Groups of {GROUP}; a message goes to the other {}, and where a protocol knows no other way back to its sender as well: every \
delivery counts. Each is checked. Server on CPU {}, driver on {}. In thousands: median (least – most) over rounds. The best design of ours over \
each, paired by round: Hodges–Lehmann [95 % interval].\n",
        GROUP - 1,
        place.server,
        place.clients,
    );
    for &level in levels {
        let Level {
            connections,
            payload_bytes,
            demand,
            ..
        } = level;
        let best = panel.best(level, servers.iter().copied().filter(|who| who.is_ours()));
        let _ = write!(
            text,
            "\n### {connections} connections, {payload_bytes} bytes, {demand}\n\n| server | thousand deliveries a CPU second | thousand a second | driver's CPU | best of ours over it | at least | met |{}\n|---|---:|---:|---:|---:|---:|---|{}\n",
            if rated {
                " p50 ms | p99 ms | p99 of ours over it | ≤ 1.2 |"
            } else {
                ""
            },
            if rated { "---:|---:|---:|---|" } else { "" },
        );
        for &who in &servers {
            let run = Run { level, who };
            let ratio = best
                .filter(|_| !who.is_ours())
                .and_then(|best| panel.per_cpu_second.ratio(best, run));
            let target = target(level, who);
            let _ = write!(
                text,
                "| {who} | {} | {} | {} | {} | {} | {} |",
                spread(panel.per_cpu_second.spread(run), THOUSAND),
                middle(panel.spread_of(run, |figures| figures.rate), THOUSAND),
                percent(panel.spread_of(run, |figures| figures.driver_share)),
                estimate(ratio.as_ref()),
                target.map_or_else(|| NOTHING.to_owned(), |target| target.to_string()),
                target.map_or(NOTHING, |target| at_least(ratio.as_ref(), target)),
            );
            if rated {
                let latency =
                    |i: usize| move |figures: Figures| figures.latency_ns.map_or(f64::NAN, |ns| ns[i]);
                let ratio = best
                    .filter(|_| who.is_peer())
                    .and_then(|best| panel.latency_ratio(best, run));
                let _ = write!(
                    text,
                    " {} | {} | {} | {} |",
                    spread(panel.spread_of(run, latency(0)), MS),
                    spread(panel.spread_of(run, latency(1)), MS),
                    estimate(ratio.as_ref()),
                    at_most(ratio.as_ref(), LATENCY),
                );
            }
            text.push('\n');
        }
    }
    Ok(panel.part(text))
}

/// How many times its deliveries a CPU second ours must make at least.
fn target(level: Level, who: Who) -> Option<f64> {
    match (level.demand, who) {
        _ if level.names == Names::Different => None,
        (Demand::Outstanding(1), Who::NatsServer) if level.payload_bytes == BYTES => {
            Some(if level.connections <= 100 { 3.5 } else { 4.0 })
        }
        (Demand::Outstanding(1), Who::Redis) if level.payload_bytes == BYTES => Some(1.1),
        (Demand::Outstanding(1), Who::UWebSockets) if level.payload_bytes == BYTES => Some(1.0),
        (Demand::Outstanding(1), Who::Floor) if level.payload_bytes == BYTES => Some(0.85),
        (Demand::Outstanding(16), Who::NatsServer) => Some(5.0),
        (Demand::Outstanding(16), Who::Redis) => Some(3.0),
        (Demand::Rate(20_000), who) if who.is_peer() => Some(1.25),
        (Demand::Rate(_), who) if who.is_peer() => Some(1.0),
        _ => None,
    }
}

fn percent(of: Option<Spread>) -> String {
    of.map_or_else(
        || NOTHING.to_owned(),
        |spread| format!("{:.0} %", 100.0 * spread.median),
    )
}

/// Whether the driver is what is measured: with half its connections, a delivery must cost the server the same.
pub fn halved(site: &mut Site, contenders: &Contenders) -> Result<Part> {
    let servers = contenders.against_peers();
    let [whole, half] = [1_000, 500].map(|n| level(n, BYTES, Demand::Outstanding(1)));
    let groups = servers
        .iter()
        .map(|&who| [whole, half].map(|level| Run { level, who }).to_vec());
    let panel = Panel::measure("halved", groups.collect(), SPAN, site, contenders);
    let mut text = format!(
        "## Half the connections

CPU a delivery with {} connections over that with {}: it must change by under 3 %, or the driver is part of what is measured.

| server | thousand deliveries a CPU second, {} | {} | CPU a delivery, halved over whole | within 3 % |
|---|---:|---:|---:|---|
",
        half.connections, whole.connections, whole.connections, half.connections
    );
    for who in servers {
        let [whole, half] = [whole, half].map(|level| Run { level, who });
        // More deliveries a CPU second are less CPU a delivery.
        let ratio = panel.per_cpu_second.ratio(whole, half);
        let _ = writeln!(
            text,
            "| {who} | {} | {} | {} | {} |",
            spread(panel.per_cpu_second.spread(whole), THOUSAND),
            spread(panel.per_cpu_second.spread(half), THOUSAND),
            estimate(ratio.as_ref()),
            match ratio.map(|ratio| (ratio.estimate - 1.0).abs() < CHANGE) {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => NOTHING,
            }
        );
    }
    Ok(panel.part(text))
}
