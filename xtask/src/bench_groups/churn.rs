//! `churn`: what it costs that members come and go: one room that all enter, speak in once and leave, and subscriptions
//! that change beside full load.
//!
//! Into the room they come fifty at a time, when all before them have heard the fifty before; each speaks once. So a
//! server that keeps for each what it knew of the room when it spoke has the square of their number in memory. Beside
//! full load, one more client subscribes and unsubscribes a thousand times a second, to subjects that nobody uses,
//! every other one with a wildcard; what that takes of the deliveries is seen in each round.

use std::fmt::{self, Write as _};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use threadgauge_load::{Codec, Crowd, Event, LoadError};

use super::contenders::{Contenders, Who, stop};
use super::talk::{Demand, Level, Names, address, connect, load};
use crate::rig::activity::Activity;
use crate::rig::figures::{estimate, spread, spread_of};
use crate::rig::memory::pss_kib;
use crate::rig::rounds::Rounds;
use crate::rig::{Part, Site};

/// In the one room.
const MEMBERS: usize = 10_000;
/// So many come together: the client of one message at a time would be all that is measured.
const WAVE: usize = 50;
/// Beside which subscriptions change.
const CONNECTIONS: usize = 1_000;
const SPAN: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(1);
/// Between two changes.
const APART: Duration = Duration::from_millis(1);
/// Subscriptions that the one that changes them has at a time.
const HELD: usize = 100;
const THOUSAND: f64 = 1e3;
const US: f64 = 1e3;

/// The measurement and its tables.
pub fn measure(site: &mut Site, contenders: &Contenders) -> Result<Part> {
    let servers: Vec<Who> = contenders
        .against_peers()
        .into_iter()
        .filter(|who| who.speaks_nats() && *who != Who::Floor && *who != Who::FloorByCalls)
        .collect();
    let (room, beside) = (
        one_room(site, contenders, &servers),
        beside_load(site, contenders, &servers),
    );
    Ok(Part {
        text: room.text + &beside.text,
        values: json!({"room": room.values, "beside": beside.values}),
    })
}

/// What one room came to.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// CPU time of the server for each delivery, while all came and spoke.
    delivery_ns: f64,
    /// What each member added to its memory, and what is left of that when all are gone.
    kib: [f64; 2],
    /// CPU time for each that left.
    leave_ns: f64,
}

impl From<Room> for Value {
    fn from(room: Room) -> Self {
        json!({"delivery_cpu_ns": room.delivery_ns, "kib_a_member": room.kib[0], "kib_left": room.kib[1], "leave_cpu_ns": room.leave_ns})
    }
}

fn one_room(site: &mut Site, contenders: &Contenders, servers: &[Who]) -> Part {
    let members = site.share_of(MEMBERS as u64) as usize;
    let cpus = site.server_on(1);
    let programs = &site.programs;
    let measured = Rounds::measure(
        "churn",
        vec![servers.to_vec()],
        site.rounds,
        &mut site.rng,
        |who| {
            let server = contenders.start(who, programs, &cpus)?;
            let start = (pss_kib(server.pid())?, Activity::of(server.pid())?);
            let mut room = Crowd::new()?;
            let mut deliveries = 0;
            let codec = who.codec(Names::Alike);
            for first in (0..members).step_by(WAVE) {
                let wave = first..members.min(first + WAVE);
                for member in wave.clone() {
                    room.connect(address(server.port()))?;
                    room.say(member, |unsent| codec.greet(member, 0, unsent));
                }
                hear(&mut room, codec, [0, wave.len()])?;
                for member in wave.clone() {
                    room.say(member, |unsent| codec.publish(0, b"hello", unsent));
                }
                let heard = wave.len() * (wave.end - 1);
                hear(&mut room, codec, [heard, 0])?;
                deliveries += heard;
            }
            let spoken = Activity::of(server.pid())?;
            let share = |kib: f64| kib / members as f64;
            let full = share(pss_kib(server.pid())? - start.0);
            let own = server.descriptors()?.saturating_sub(members);
            drop(room);
            let deadline = Instant::now() + PATIENCE;
            while server.descriptors()? > own {
                ensure!(
                    Instant::now() < deadline,
                    "the server keeps connections that are gone"
                );
                sleep(LOOK);
            }
            let left = Activity::of(server.pid())?;
            let empty = share(pss_kib(server.pid())? - start.0);
            stop(who, server)?;
            Ok(Room {
                delivery_ns: spoken.since(start.1).cpu_ns as f64 / deliveries as f64,
                kib: [full, empty],
                leave_ns: left.since(spoken).cpu_ns as f64 / members as f64,
            })
        },
    );
    let mut text = format!(
        "## One room that {members} members enter, speak in once each, and leave

They come {WAVE} at a time, when all have heard the {WAVE} before. Median (least – most) over rounds; memory is the server's PSS.

| server | CPU ns a delivery | KiB a member | KiB left of it at the end | CPU µs a member that leaves |
|---|---:|---:|---:|---:|
"
    );
    for &who in servers {
        let of = |figure: fn(Room) -> f64| {
            let rounds = measured.of(who).iter().flatten();
            spread_of(rounds.map(|&room| figure(room)))
        };
        let _ = writeln!(
            text,
            "| {who} | {} | {} | {} | {} |",
            spread(of(|room| room.delivery_ns), 1.0),
            spread(of(|room| room.kib[0]), 1.0),
            spread(of(|room| room.kib[1]), 1.0),
            spread(of(|room| room.leave_ns), US),
        );
    }
    Part {
        text: text + &measured.missing(),
        values: measured.json(),
    }
}

/// Sends, and waits until so many deliveries and greetings have come.
fn hear(room: &mut Crowd, codec: &dyn Codec, [mut deliveries, mut ready]: [usize; 2]) -> Result<()> {
    room.flush()?;
    while deliveries + ready > 0 {
        let mut answers = Vec::new();
        let count = room.hear(PATIENCE, |connection, input| {
            let mut used = 0;
            loop {
                let next = codec.next(&input[used..]);
                let Some(frame) = next.map_err(|source| LoadError::Codec { connection, source })? else {
                    return Ok(used);
                };
                used += frame.bytes;
                match frame.event {
                    Event::Delivery(_) => deliveries = deliveries.saturating_sub(1),
                    Event::Ready => ready = ready.saturating_sub(1),
                    Event::Wants(answer) => answers.push((connection, answer)),
                    Event::Noise => {}
                }
            }
        })?;
        ensure!(count > 0, "{deliveries} deliveries are missing");
        for (connection, answer) in answers {
            room.say(connection, |unsent| unsent.extend_from_slice(answer));
        }
        room.flush()?;
    }
    Ok(())
}

/// A server with full load, and whether subscriptions change beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    who: Who,
    changes: bool,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = if self.changes {
            ", subscriptions change"
        } else {
            ""
        };
        write!(f, "{}{changes}", self.who)
    }
}

fn beside_load(site: &mut Site, contenders: &Contenders, servers: &[Who]) -> Part {
    let level = Level {
        connections: CONNECTIONS,
        payload_bytes: 128,
        demand: Demand::Outstanding(1),
        names: Names::Alike,
    };
    let span = SPAN / u32::try_from(site.share).unwrap_or(u32::MAX);
    let cpus = site.server_on(1);
    let programs = &site.programs;
    let groups = servers
        .iter()
        .map(|&who| [false, true].map(|changes| Run { who, changes }).to_vec());
    let measured = Rounds::measure("churn", groups.collect(), site.rounds, &mut site.rng, |run| {
        let server = contenders.start(run.who, programs, &cpus)?;
        let mut groups = connect(server.port(), run.who, level)?;
        let load = load(level.demand)?;
        groups.talk(load, WARM_UP.min(span))?;
        let per_cpu_second = thread::scope(|scope| {
            let (over, is_over) = channel::<()>();
            let changing = run.changes.then(|| {
                let port = server.port();
                scope.spawn(move || {
                    change(port, |apart| {
                        is_over.recv_timeout(apart) != Err(RecvTimeoutError::Timeout)
                    })
                })
            });
            let before = Activity::of(server.pid())?;
            let tally = groups.talk(load, span)?;
            let meanwhile = Activity::of(server.pid())?.since(before);
            drop(over);
            if let Some(changing) = changing {
                let changes = changing
                    .join()
                    .ok()
                    .context("the client that changes panicked")??;
                let least = tally.elapsed.as_millis() as usize / 2;
                ensure!(changes >= least, "only {changes} subscriptions changed");
            }
            anyhow::Ok(tally.deliveries as f64 / (meanwhile.cpu_ns as f64 / 1e9))
        })?;
        drop(groups);
        stop(run.who, server)?;
        Ok(per_cpu_second)
    });
    let mut text = format!(
        "
## A thousand subscriptions a second change beside full load

{CONNECTIONS} connections in groups, 128 bytes, one outstanding; deliveries for each CPU second of the server, in thousands: median (least – \
most) over rounds; ratio paired by round: Hodges–Lehmann [95 % interval].

| server | nothing changes | subscriptions change | ratio |
|---|---:|---:|---:|
"
    );
    for &who in servers {
        let [without, with] = [false, true].map(|changes| Run { who, changes });
        let _ = writeln!(
            text,
            "| {who} | {} | {} | {} |",
            spread(measured.spread(without), THOUSAND),
            spread(measured.spread(with), THOUSAND),
            estimate(measured.ratio(with, without).as_ref()),
        );
    }
    Part {
        text: text + &measured.missing(),
        values: measured.json(),
    }
}

/// Subscribes and unsubscribes until `is_over`, which waits for so long: how often it did.
fn change(port: u16, is_over: impl Fn(Duration) -> bool) -> Result<usize> {
    let mut client = TcpStream::connect(address(port))?;
    client.set_nodelay(true)?;
    client.set_nonblocking(true)?;
    client.write_all(b"CONNECT {\"verbose\":false}\r\n")?;
    let began = Instant::now();
    let mut changes = 0_usize;
    loop {
        // As many as are due: a wait may take longer.
        let due = began.elapsed().as_nanos() / APART.as_nanos();
        while (changes as u128) < due {
            let words = match changes % 4 {
                0 => format!("SUB own.{changes} {changes}\r\n"),
                2 => format!("SUB own.*.{changes} {changes}\r\n"),
                _ => format!("UNSUB {}\r\n", (changes - 1).saturating_sub(2 * HELD)),
            };
            client.write_all(words.as_bytes())?;
            changes += 1;
        }
        // What it says of itself, and whether we are there.
        let mut heard = [0; 4096];
        if client
            .read(&mut heard)
            .is_ok_and(|bytes| heard[..bytes].ends_with(b"PING\r\n"))
        {
            client.write_all(b"PONG\r\n")?;
        }
        if is_over(APART) {
            return Ok(changes);
        }
    }
}
