//! Question: what do subscriptions with names of their own, and subscriptions that change, cost a server of messages?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_load::codec::Nats;
use threadgauge_results::{Figure, Table};

use crate::servers::clients::{Addresses, WARM_UP, has_room};
use crate::servers::contenders::Who;
use crate::servers::groups::{Demand, Drivers, GROUP, GroupClients, Talked, fills_groups, takes};
use crate::servers::{cpu_since, pairs};

/// CPU time of all threads of the server for a delivery, with what the changes take.
const CPU: Metric = metric("server_cpu_ns_per_delivery", "ns");
/// Subscriptions that were entered or taken back.
const CHANGES: Metric = metric("changes_per_s", "changes/s");

words! {
    /// What is special about subscriptions.
    enum Kind {
        /// Nothing: each client counts its own from the same number on.
        Alike = "alike",
        /// No two have the same name.
        Different = "different",
        /// As alike, and one more client subscribes and unsubscribes all the time.
        Changing = "changing",
    }
}

point! {
    /// A point of the grid.
    struct Case {
        who: Who,
        subscriptions: Kind,
        connections: u64 = 10..=10_000,
        /// Messages that each member has on their way.
        outstanding: u64 = 1..=64,
        span_ms: u64 = 1..=60_000,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "subscriptions",
    question: "What do subscriptions of different names, and subscriptions that change, add to the cost of a message?",
    first_run: false,
    sources: &[],
    primary: &[CPU],
    how: "The server runs alone on one CPU and the clients, threads of the worker, on the others. Clients form groups of ten, each \
          member with 1 or 16 messages of 128 bytes on their way; every delivery is checked. In `alike` members call their \
          subscription by the same name, as clients do that count their own. In `different` no two names are the same, and the \
          server has to write another into each delivery. In `changing` one more client subscribes and unsubscribes a thousand \
          times a second beside the full load, to subjects that nobody uses, every other one with a wildcard; it has a hundred at \
          a time. The figure is the server's CPU time for a delivery, with that of the changes.",
    control: "The same server and load with subscriptions alike. floor: a plain C program, one loop that does nothing but forward; it \
              takes no subscription back.",
    traps: &[
        "A server that keeps for a publisher what it found may lose all of that with any change. A thousand changes a second show \
         it; at one a second it would be in no figure.",
        "A sample fails where under half of the changes came about that are due.",
        "Redis, MQTT and WebSocket have no names of subscriptions, so servers of these are not here.",
        "A server that is not on the path is skipped.",
    ],
    source: "No source asks this; the question is this project's own.",
    calls: &[],
    plan,
    run,
    read,
};

const SERVERS: [Who; 3] = [Who::Ours, Who::NatsServer, Who::Floor];
const OUTSTANDING: [u64; 2] = [1, 16];
const PAYLOAD_BYTES: u64 = 128;
/// Between two changes.
const APART: Duration = Duration::from_millis(1);
/// Subscriptions that the client which changes them has at a time.
const HELD: u64 = 100;

/// Ours, and nothing special.
const OURS: Case = Case {
    who: Who::Ours,
    subscriptions: Kind::Alike,
    connections: 1_000,
    outstanding: 1,
    span_ms: 250,
    cpus: 2,
};

impl Case {
    fn cpu(self) -> Statistic {
        CPU.of(self.any(&["span_ms", "cpus"]))
    }

    /// Its cost over that of subscriptions alike.
    fn over_alike(self) -> Statistic {
        self.cpu().over(self.subscriptions(Kind::Alike).cpu())
    }

    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        fills_groups(params, case.connections)?;
        case.who.must_speak_nats(params)?;
        if (case.who, case.subscriptions) == (Who::Floor, Kind::Changing) {
            return Err(refused(
                params,
                "subscriptions",
                "alike or different for the floor",
            ));
        }
        Ok(case)
    }

    fn planned(self) -> PlannedCase {
        let takes = takes(self.connections, self.span_ms);
        self.who
            .planned(self, takes, |params| Self::possible(params).map(drop))
    }
}

fn plan(site: &Site) -> Plan {
    let profile = site.profile;
    let cpus = (site.cpus.len() as u64).clamp(1, 4);
    let base = OURS.cpus(cpus).span_ms(profile.pick(120, 250, 1_000));
    let (servers, outstanding) = match profile {
        Profile::Quick => (&SERVERS[..2], &OUTSTANDING[..1]),
        Profile::Standard | Profile::Paper => (&SERVERS[..], &OUTSTANDING[..]),
    };
    let cases = outstanding.iter().flat_map(|&messages| {
        let of =
            move |&who: &Who| Kind::ALL.map(|kind| base.outstanding(messages).who(who).subscriptions(kind));
        servers.iter().flat_map(of)
    });
    Plan {
        cases: cases
            .filter(|case| Case::possible(&case.params()).is_ok())
            .map(Case::planned)
            .collect(),
        reference: base.params(),
        budget: Duration::from_secs(profile.pick(25, 120, 900)),
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let cpus = Cpus::divided(1)?;
    has_room(case.connections, Addresses::Many)?;
    let contender = case.who.start(case.connections, &cpus)?;
    let server = &contender.server;
    let clients = GroupClients {
        server: server.address(),
        codec: match case.subscriptions {
            Kind::Different => &Nats::DIFFERENT,
            Kind::Alike | Kind::Changing => &Nats::ALIKE,
        },
        group: GROUP,
        connections: case.connections,
        payload_bytes: PAYLOAD_BYTES,
    };
    let demand = Demand::Outstanding(case.outstanding);
    let span = Duration::from_millis(case.span_ms);
    let drivers = Drivers::connect(clients, &cpus)?;
    drivers.talk(demand, WARM_UP)?;
    let before = server.activity()?;
    let talked = if case.subscriptions == Kind::Changing {
        let (talked, changes) = beside_changes(server.address(), || drivers.talk(demand, span))?;
        worker.record(CHANGES, changes as f64 / talked.elapsed.as_secs_f64());
        talked
    } else {
        drivers.talk(demand, span)?
    };
    let after = server.activity()?;
    worker.record(
        CPU,
        cpu_since(&before, &after).as_nanos() as f64 / talked.deliveries as f64,
    );
    drop(drivers);
    contender.end(worker)
}

/// What they came to while a client of its own changed subscriptions, and how often it did.
fn beside_changes(
    server: SocketAddr,
    talk: impl FnOnce() -> Result<Talked, CaseError>,
) -> Result<(Talked, u64), CaseError> {
    let (talked, changes) = thread::scope(|scope| {
        let (over, is_over) = channel::<()>();
        let changing = scope.spawn(move || change(server, &is_over));
        let talked = talk();
        drop(over);
        (talked, changing.join().expect("it does not panic"))
    });
    let (talked, changes) = (talked?, changes?);
    enough(changes, talked.elapsed)?;
    Ok((talked, changes))
}

/// Whether at least half of those subscriptions changed that were to.
fn enough(changes: u64, elapsed: Duration) -> Result<(), CaseError> {
    let due = elapsed.as_millis() / APART.as_millis();
    if u128::from(changes) < due / 2 {
        let says = format!("only {changes} of {due} subscriptions changed that were due");
        return Err(CaseError::Failed(says));
    }
    Ok(())
}

/// Subscribes and unsubscribes until the other end is gone: how often it did.
fn change(server: SocketAddr, is_over: &Receiver<()>) -> Result<u64, CaseError> {
    let failed = |error| CaseError::failed("the client whose subscriptions change", error);
    let mut client = TcpStream::connect(server).map_err(failed)?;
    client.set_nodelay(true).map_err(failed)?;
    client.set_nonblocking(true).map_err(failed)?;
    let mut say = |words: &str| client.write_all(words.as_bytes()).map_err(failed);
    say("CONNECT {\"verbose\":false}\r\n")?;
    let began = Instant::now();
    let mut changes = 0;
    loop {
        // As many as are due: a wait may take longer.
        let due = began.elapsed().as_nanos() / APART.as_nanos();
        while u128::from(changes) < due {
            say(&words_of(changes))?;
            changes += 1;
        }
        match is_over.recv_timeout(APART) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // What it said meanwhile: a complaint would be in it.
    let mut said = Vec::new();
    match client.read_to_end(&mut said) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
        Ok(_) => {
            return Err(CaseError::Failed(
                "the server closed the client whose subscriptions change".to_owned(),
            ));
        }
        Err(error) => return Err(failed(error)),
    }
    let said = String::from_utf8_lossy(&said);
    match said.lines().find(|line| line.starts_with("-ERR")) {
        Some(complaint) => Err(CaseError::Failed(format!(
            "the server says {complaint:?} to subscriptions that change"
        ))),
        None => Ok(changes),
    }
}

/// The change of this number: every other one takes back what was entered [`HELD`] subscriptions before.
fn words_of(change: u64) -> String {
    match change % 4 {
        0 => format!("SUB own.{change} {change}\r\n"),
        2 => format!("SUB own.*.{change} {change}\r\n"),
        _ => format!("UNSUB {}\r\n", (change - 1).saturating_sub(2 * HELD)),
    }
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view.number(
            "a delivery where names differ ÷ where they are the same: CPU time",
            &OURS.subscriptions(Kind::Different).over_alike(),
            "ratio",
        ),
        comparisons: comparisons(view),
        figures: beside_alike(view).into_iter().collect(),
        tables: vec![kinds_table(view)],
        ..Answer::default()
    }
}

fn answer(view: &View<'_>) -> String {
    let of = |who: Who| {
        let times = |kind| {
            let of = OURS.who(who).subscriptions(kind).over_alike();
            let times = view.estimate(&of)?.plain("ratio");
            Some((times, view.resolved(&of.less_one())))
        };
        let [different, changing] = [times(Kind::Different)?, times(Kind::Changing)?];
        let name = who.name();
        let says = format!("on {name} {} and {} times the CPU time", different.0, changing.0);
        Some(match [different.1, changing.1] {
            [true, true] => says,
            [false, false] => format!("{says}, neither of which these rounds tell from as much"),
            [false, true] => format!("{says}, the first of which these rounds do not tell from as much"),
            [true, false] => format!("{says}, the second of which these rounds do not tell from as much"),
        })
    };
    let said: Vec<String> = SERVERS.into_iter().filter_map(of).collect();
    if said.is_empty() {
        return String::new();
    }
    format!(
        "With {} connections a delivery costs, where names differ and beside a thousand changes a second, {}.",
        OURS.connections,
        said.join("; ")
    )
}

/// What each server needs where names differ or change, beside what it needs where they do not.
fn beside_alike(view: &View<'_>) -> Option<Figure> {
    let chart = Chart::new(
        view,
        "beside-alike",
        "What a delivery costs by the names of subscriptions",
    )
    .note("1 is the same server where the names are the same.")
    .x(Scale::Category, "names")
    .y(Scale::Log, "CPU time of a delivery, times that of the same names");
    let of = |who: Who| {
        [
            ("that differ", Kind::Different),
            ("that change meanwhile", Kind::Changing),
        ]
        .map(|(name, kind)| (name, OURS.who(who).subscriptions(kind).over_alike()))
    };
    SERVERS
        .into_iter()
        .fold(chart, |chart, who| chart.line(who.name(), of(who)))
        .drawn()
}

fn levels() -> impl Iterator<Item = Case> {
    let of = |messages| SERVERS.map(|who| OURS.outstanding(messages).who(who));
    OUTSTANDING.into_iter().flat_map(of)
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let kinds =
        |level: Case| [Kind::Different, Kind::Changing].map(|kind| (level, level.subscriptions(kind)));
    pairs(view, &["span_ms", "cpus"], levels().flat_map(kinds))
}

fn kinds_table(view: &View<'_>) -> Table {
    let [alike, different, changing] = Kind::ALL;
    let row = |level: Case| {
        let of = |kind: Kind| level.subscriptions(kind);
        vec![
            level.who.name().to_owned(),
            level.outstanding.to_string(),
            view.shown(&of(alike).cpu(), "ns"),
            view.shown(&of(different).cpu(), "ns"),
            view.shown(&of(different).over_alike(), "ratio"),
            view.shown(&of(changing).cpu(), "ns"),
            view.shown(&of(changing).over_alike(), "ratio"),
        ]
    };
    table(
        "subscriptions",
        "CPU time of the server for a delivery",
        "1,000 connections in groups of ten, messages of 128 bytes.",
        [
            "server",
            "outstanding",
            "alike",
            "different names",
            "over alike",
            "a thousand changes a second",
            "over alike",
        ],
        levels()
            .filter(|level| view.measured(&level.cpu()))
            .map(row)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::*;

    #[test]
    fn the_floor_takes_names_that_differ() {
        let base = OURS.who(Who::Floor).connections(20).span_ms(20);
        for kind in [Kind::Alike, Kind::Different] {
            let sample = testing::measured(&EXPERIMENT, &base.subscriptions(kind).params());
            assert!(sample.value(CPU.name).unwrap() > 0.0, "{sample:?}");
        }
    }

    #[test]
    fn half_of_the_changes_that_were_due_are_enough() {
        let ten = 10 * APART;
        assert!(enough(5, ten).is_ok() && enough(10, ten).is_ok());
        let error = enough(4, ten).unwrap_err().to_string();
        assert!(error.contains("only 4 of 10 subscriptions changed"), "{error}");
        assert!(enough(0, APART).is_ok(), "hardly any time, and none was due");
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                OURS.connections(15),
                "connections is 15; it must be a multiple of 10",
            ),
            (
                OURS.who(Who::Redis),
                "who is redis-server; it must be threadgauge, nats-server or floor",
            ),
            (
                OURS.who(Who::Floor).subscriptions(Kind::Changing),
                "subscriptions is changing; it must be alike or different for the floor",
            ),
        ] {
            let reason = testing::sample(&EXPERIMENT, &case.params()).reason.unwrap();
            assert!(reason.contains(says), "{reason}");
        }
    }

    /// Entered and not taken back after so many changes, by the words that were said.
    #[test]
    fn a_hundred_subscriptions_are_held_at_a_time() {
        let mut held = Vec::new();
        for change in 0..2_000 {
            let words = words_of(change);
            match words.trim().rsplit_once(' ').unwrap() {
                ("UNSUB", sid) => held.retain(|held| held != sid),
                (_, sid) => held.push(sid.to_owned()),
            }
            // The first is taken back before it is time; the one of the moment is one more.
            assert!(held.len() as u64 <= HELD + 1, "{change}: {}", held.len());
        }
        assert!(held.len() as u64 >= HELD - 1, "{}", held.len());
    }

    #[test]
    fn the_answer_and_the_table_have_the_figures() {
        let cases = plan(&testing::site(Profile::Standard, 2)).cases.into_iter();
        let case = |planned: PlannedCase| {
            let ns = match Case::possible(&planned.params).unwrap().subscriptions {
                Kind::Alike => 1_000.0,
                Kind::Different => 1_500.0,
                Kind::Changing => 2_000.0,
            };
            testing::case(planned.params, [(CPU, vec![ns; 7])])
        };
        let whole = read(&testing::view(
            EXPERIMENT.id,
            Profile::Standard,
            cases.map(case).collect(),
        ));
        assert!(
            whole.answer.contains("on nats-server 1.50 and 2.00 times"),
            "{}",
            whole.answer
        );
        // The floor has no changes.
        assert!(!whole.answer.contains("floor"), "{}", whole.answer);
        assert_eq!((whole.tables[0].rows.len(), whole.comparisons.len()), (6, 10));
        assert_eq!(whole.tables[0].rows[0][4], "1.50 [1.50, 1.50]");
        let nothing = read(&testing::view(EXPERIMENT.id, Profile::Quick, Vec::new()));
        assert!(nothing.answer.is_empty() && nothing.tables[0].rows.is_empty());
    }
}
