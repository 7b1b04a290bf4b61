//! One run: a server is started, groups of ten talk on it, and its CPU time is counted meanwhile.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use threadgauge_load::{Arrivals, Groups, Load, Plan, Quantile, Tally};

use super::contenders::{Contenders, Who, stop};
use crate::rig::activity::Activity;
use crate::rig::programs::Programs;
use threadgauge_lab::server::Cpus;

/// Members of a group.
pub const GROUP: usize = 10;
const WARM_UP: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(120);
/// Every server has the same arrivals.
const SEED: u64 = 1;

/// Who drives a server how hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level {
    pub connections: usize,
    pub payload_bytes: usize,
    pub demand: Demand,
    pub names: Names,
}

/// What members call their subscription, in protocols that repeat it with every delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Names {
    /// As clients do that count their subscriptions.
    Alike,
    /// No two the same.
    Different,
}

/// When members send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Each has so many messages on their way.
    Outstanding(usize),
    /// All together cause so many deliveries a second.
    Rate(u64),
}

/// A level, and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub level: Level,
    pub who: Who,
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outstanding(messages) => write!(f, "{messages} outstanding"),
            Self::Rate(deliveries) => write!(f, "{deliveries} a second"),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Level {
            connections,
            payload_bytes,
            demand,
            names,
        } = self.level;
        let who = self.who;
        let names = match names {
            Names::Alike => "",
            Names::Different => ", different names",
        };
        write!(
            f,
            "{who}, {connections} connections, {payload_bytes} B, {demand}{names}"
        )
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Deliveries for each CPU second of the server.
    pub per_cpu_second: f64,
    /// Deliveries a second.
    pub rate: f64,
    /// The share of its CPU that the driver used.
    pub driver_share: f64,
    /// Of deliveries from their intended start: the middle and 99 %, in nanoseconds. Under a fixed rate alone.
    pub latency_ns: Option<[f64; 2]>,
}

impl From<Figures> for Value {
    fn from(figures: Figures) -> Self {
        json!({
            "deliveries_per_cpu_second": figures.per_cpu_second,
            "deliveries_per_second": figures.rate,
            "driver_cpu_share": figures.driver_share,
            "latency_p50_p99_ns": figures.latency_ns,
        })
    }
}

/// Where a server listens.
pub fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Connects the groups of a level.
///
/// # Errors
///
/// If a connection fails or a greeting is not answered.
pub fn connect(port: u16, who: Who, level: Level) -> Result<Groups> {
    let plan = Plan {
        connections: level.connections,
        group_size: GROUP,
        payload_bytes: level.payload_bytes.into(),
        patience: PATIENCE,
    };
    Ok(Groups::connect(address(port), who.codec(level.names), plan)?)
}

/// The load of a demand.
///
/// # Errors
///
/// If it is none.
pub fn load(demand: Demand) -> Result<Load> {
    Ok(match demand {
        Demand::Outstanding(messages) => Load::Closed {
            outstanding: NonZeroUsize::new(messages).context("nothing outstanding is no load")?,
        },
        Demand::Rate(deliveries) => Load::Open {
            deliveries_per_second: deliveries as f64,
            arrivals: Arrivals::Poisson,
            seed: SEED,
        },
    })
}

/// Starts the server, drives it for `span` and stops it.
///
/// # Errors
///
/// If it does not start or stop, a delivery is not the one that must come next, or the run is invalid.
pub fn measure(
    run: Run,
    contenders: &Contenders,
    programs: &Programs,
    cpus: &Cpus,
    span: Duration,
) -> Result<Figures> {
    let Run { level, who } = run;
    let server = contenders.start(who, programs, cpus)?;
    let mut groups = connect(server.port(), who, level)?;
    let load = load(level.demand)?;
    groups.talk(load, WARM_UP.min(span))?;
    let before = Activity::of(server.pid())?;
    let tally = groups.talk(load, span)?;
    let meanwhile = Activity::of(server.pid())?.since(before);
    drop(groups);
    stop(who, server)?;
    figures(&tally, meanwhile)
}

fn figures(tally: &Tally, meanwhile: Activity) -> Result<Figures> {
    if let Some(flaw) = tally.flaw() {
        bail!("a run that is invalid, since {flaw}");
    }
    let quantile = |q| match tally.latency.quantile(q)? {
        Quantile::Ns(ns) => Some(ns as f64),
        Quantile::Overflow => Some(f64::INFINITY),
    };
    Ok(Figures {
        per_cpu_second: tally.deliveries as f64 / (meanwhile.cpu_ns as f64 / 1e9),
        rate: tally.rate(),
        driver_share: tally.driver_share(),
        latency_ns: quantile(0.5)
            .zip(quantile(0.99))
            .map(|(middle, high)| [middle, high]),
    })
}

#[cfg(test)]
mod tests {
    use threadgauge_machine::allowed_cpus;

    use super::*;
    use crate::rig::programs::tests::c_programs;

    /// The floor, both ways of sending, driven by the project's own driver: it loses nothing and ends well.
    #[test]
    fn the_floor_delivers_everything_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let programs = c_programs(folder.path(), &["groups_floor"]);
        let contenders = Contenders::find(None, None, &[]).unwrap();
        let everywhere = allowed_cpus().unwrap();
        let cpus = Cpus {
            server: everywhere.clone(),
            clients: everywhere,
        };
        for who in [Who::Floor, Who::FloorByCalls] {
            for (payload_bytes, outstanding) in [(16, 1), (1024, 16), (16_000, 40)] {
                let level = Level {
                    connections: 20,
                    payload_bytes,
                    demand: Demand::Outstanding(outstanding),
                    names: Names::Different,
                };
                let run = Run { level, who };
                let span = Duration::from_millis(50);
                let figures = measure(run, &contenders, &programs, &cpus, span).unwrap();
                assert!(figures.rate > 0.0 && figures.latency_ns.is_none(), "{run}");
            }
        }
    }

    /// A floor that one client leaves in the middle, or that hears something else, still serves the others.
    #[test]
    fn the_floor_outlives_its_clients() {
        use std::io::{Read as _, Write as _};
        use std::net::TcpStream;

        let folder = tempfile::tempdir().unwrap();
        let programs = c_programs(folder.path(), &["groups_floor"]);
        let contenders = Contenders::find(None, None, &[]).unwrap();
        let everywhere = allowed_cpus().unwrap();
        let cpus = Cpus {
            server: everywhere.clone(),
            clients: everywhere,
        };
        let server = contenders.start(Who::Floor, &programs, &cpus).unwrap();
        let level = Level {
            connections: 20,
            payload_bytes: 128,
            demand: Demand::Outstanding(1),
            names: Names::Alike,
        };
        let mut groups = connect(server.port(), Who::Floor, level).unwrap();
        for words in [
            "SUB g0 7\r\nPUB g0 5\r\nhel",
            "GET / HTTP/1.1\r\n\r\n",
            "PUB g0 99999999\r\n",
        ] {
            let mut stranger = TcpStream::connect(address(server.port())).unwrap();
            stranger.write_all(words.as_bytes()).unwrap();
            if !words.starts_with("SUB") {
                let mut said = String::new();
                // INFO, and then the end.
                stranger.read_to_string(&mut said).unwrap();
                assert!(said.starts_with("INFO "), "{said:?}");
            }
        }
        let tally = groups
            .talk(load(level.demand).unwrap(), Duration::from_millis(50))
            .unwrap();
        assert!(tally.deliveries > 0);
        drop(groups);
        server.end().unwrap();
    }
}
