//! Question: what does a connection cost a server of messages: to accept, to keep, and to lose?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print.

use std::thread::sleep;
use std::time::Instant;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_load::{Answers, ClientPool, Codec, Event, Frames, LoadError};
use threadgauge_machine::Activity;
use threadgauge_results::{Figure, Table, units};

use crate::servers::clients::{Addresses, has_room};
use crate::servers::contenders::Who;
use crate::servers::groups::{self, Drivers, fills_groups};
use crate::servers::{ACCEPT_FLOOR, cpu_since, pairs};

/// CPU time of the server for each connection: to accept it, to make it a member, or for all that it hears and says.
const CPU: Metric = metric("server_cpu_ns_per_connection", "ns");
/// What each adds to the server's own memory (PSS) while all are there.
const MEMORY: Metric = metric("bytes_per_connection", "B");
/// The share of a CPU that the server uses while nothing happens.
const IDLE: Metric = metric("idle_cpu_share", "share");
/// CPU time of the server for a delivery, while members come and speak.
const DELIVERY: Metric = metric("server_cpu_ns_per_delivery", "ns");
/// CPU time of the server for each member that leaves.
const LEAVE: Metric = metric("server_cpu_ns_per_leave", "ns");
/// What is left of each member's memory when all are gone.
const LEFT: Metric = metric("bytes_left_per_connection", "B");

words! {
    /// A part of connections' lives.
    enum What {
        /// They are accepted, and told what the protocol says first.
        Accept = "accept",
        /// Each is a member of a group, and nothing happens.
        Keep = "keep",
        /// All enter one room, speak once there, and leave.
        Room = "room",
    }
}

point! {
    /// A point of the grid.
    struct Case {
        who: Who,
        what: What,
        connections: u64 = 10..=10_000,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "connections",
    question: "What does a connection cost a server of messages: to accept, to keep while nothing happens, and to come, speak once and go?",
    first_run: false,
    sources: &[],
    primary: &[CPU],
    how: "The server runs alone on one CPU and the clients, in the worker, on others. `accept`: connections are made, no more than \
          64 of them unaccepted, until the server has said to each what NATS says first. `keep`: each is a member of a group of ten. \
          When all were greeted the server rests for 3 s, and then for 1 s nothing happens. `room`: all enter one room, fifty at a \
          time; each speaks once, and the next fifty come when every member has heard all of that. Then all leave at once. Every \
          delivery is counted and checked for each member.",
    control: "floor: to accept, a loop around accept in C that says INFO to each client and keeps it; to keep, a plain C program, one \
              loop that does nothing but forward.",
    traps: &[
        "Memory is the server's own (its proportional set size), not the kernel's: sockets take more than most servers do. One \
         that grows its heap in steps shows them where connections are few.",
        "In the rest of 3 s a server does what it does once for new clients: ours and nats-server ask each after 2 s whether it is \
         there. What they ask every two minutes is not seen.",
        "A server that kept for each member what it knew of the room when it spoke would have the square of their number in \
         memory: the memory of a member grows with the room.",
        "A server that is not on the path is skipped.",
    ],
    source: "No source asks this. The bounds are targets of this project.",
    calls: &[],
    plan,
    run,
    read,
};

const SERVERS: [Who; 3] = [Who::Ours, Who::NatsServer, Who::Floor];
/// The number that the claims are about.
const CLAIMED: u64 = 10_000;
/// Connections that are made before the server is looked at again: fewer than any lets wait.
const STEP: u64 = 64;
/// So many enter the room together: the client of one message at a time would be all that is measured.
const WAVE: usize = 50;
const SAID: &[u8] = b"hello";
/// For the server to come to rest.
const REST: Duration = Duration::from_secs(3);
const WATCHED: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at something that sends no event.
const LOOK: Duration = Duration::from_millis(1);
const KIB: f64 = 1024.0;

const OURS: Case = Case {
    who: Who::Ours,
    what: What::Accept,
    connections: 1_000,
    cpus: 2,
};

impl Case {
    fn of(self, metric: Metric) -> Statistic {
        metric.of(self.any(&["cpus"]))
    }

    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        fills_groups(params, case.connections)?;
        case.who.must_speak_nats(params)?;
        if (case.who, case.what) == (Who::Floor, What::Room) {
            return Err(refused(params, "what", "accept or keep for the floor"));
        }
        Ok(case)
    }

    fn planned(self) -> PlannedCase {
        let each = Duration::from_micros(100 * self.connections);
        let takes = match self.what {
            What::Accept => each,
            What::Keep => REST + WATCHED + each,
            // Each hears about half of them, and a delivery takes up to a microsecond.
            What::Room => each + Duration::from_micros(self.connections * self.connections / 2),
        };
        let takes = Duration::from_millis(100) + takes;
        self.who
            .planned(self, takes, |params| Self::possible(params).map(drop))
    }
}

fn plan(site: &Site) -> Plan {
    let cpus = (site.cpus.len() as u64).clamp(1, 4);
    let base = OURS.cpus(cpus);
    let of = |what: What, loads: &[u64]| -> Vec<Case> {
        let at = |&load: &u64| SERVERS.map(|who| base.what(what).who(who).connections(load));
        loads.iter().flat_map(at).collect()
    };
    let cases = match site.profile {
        Profile::Quick => [of(What::Accept, &[1_000]), of(What::Room, &[500])].concat(),
        Profile::Standard => [
            of(What::Accept, &[1_000, CLAIMED]),
            of(What::Keep, &[CLAIMED]),
            of(What::Room, &[500, 2_000]),
        ]
        .concat(),
        Profile::Paper => [
            of(What::Accept, &[1_000, CLAIMED]),
            of(What::Keep, &[1_000, CLAIMED]),
            of(What::Room, &[500, 2_000, 5_000]),
        ]
        .concat(),
    };
    Plan {
        cases: cases
            .into_iter()
            .filter(|case| Case::possible(&case.params()).is_ok())
            .map(Case::planned)
            .collect(),
        reference: base.params(),
        budget: Duration::from_secs(site.profile.pick(25, 330, 1800)),
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let cpus = Cpus::divided(1)?;
    has_room(case.connections, Addresses::Many)?;
    if (case.who, case.what) == (Who::Floor, What::Accept) {
        let floor = ACCEPT_FLOOR.serve(&[&"info", &0], &cpus)?;
        accept(case, &floor, worker)?;
        return floor.end().map(|_| ());
    }
    let contender = case.who.start(case.connections, &cpus)?;
    let server = &contender.server;
    match case.what {
        What::Accept => accept(case, server, worker)?,
        What::Keep => keep(case, server, &cpus, worker)?,
        What::Room => room(case, server, worker)?,
    }
    contender.end(worker)
}

fn accept(case: Case, server: &Server, worker: &mut Worker) -> Result<(), CaseError> {
    let mut pool = ClientPool::new().map_err(broken)?;
    let (before, own) = (server.activity()?, server.descriptors()?);
    let mut heard = vec![false; count(case.connections)];
    for made in 1..=case.connections {
        pool.connect(server.address()).map_err(broken)?;
        if made.is_multiple_of(STEP) || made == case.connections {
            // So that none waits longer than the kernel lets it.
            let all = || Ok(server.descriptors()? >= own + count(made));
            wait_until("the server to accept", all)?;
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while heard.contains(&false) {
        let silent = || {
            format!(
                "{} connections heard nothing",
                heard.iter().filter(|&&has| !has).count()
            )
        };
        if Instant::now() > deadline {
            return Err(CaseError::Failed(silent()));
        }
        pool.hear(PATIENCE, |connection, said| {
            heard[connection] = true;
            Ok(said.len())
        })
        .map_err(broken)?;
    }
    let used = cpu_ns(&before, &server.activity()?);
    worker.record(CPU, used / case.connections as f64);
    Ok(())
}

fn keep(case: Case, server: &Server, cpus: &Cpus, worker: &mut Worker) -> Result<(), CaseError> {
    let clients = groups::GroupClients {
        server: server.address(),
        codec: case.who.codec(),
        group: groups::GROUP,
        connections: case.connections,
        payload_bytes: 16,
    };
    let empty = server.activity()?;
    let drivers = Drivers::connect(clients, cpus)?;
    sleep(REST);
    let full = server.activity()?;
    sleep(WATCHED);
    let after = server.activity()?;
    drop(drivers);
    record_kept(worker, case.connections as f64, [&empty, &full, &after])
}

/// What so many connections took of a server that was empty, then full, and after a rest full still.
fn record_kept(
    worker: &mut Worker,
    connections: f64,
    [empty, full, after]: [&Activity; 3],
) -> Result<(), CaseError> {
    worker.record(CPU, cpu_ns(empty, full) / connections);
    worker.record(MEMORY, grown(empty, full)? / connections);
    let watched_ns = (after.at_ns - full.at_ns) as f64;
    worker.record(IDLE, cpu_ns(full, after) / watched_ns);
    Ok(())
}

fn room(case: Case, server: &Server, worker: &mut Worker) -> Result<(), CaseError> {
    let codec = case.who.codec();
    let members = count(case.connections);
    let empty = server.activity()?;
    let mut room = Room {
        pool: ClientPool::new().map_err(broken)?,
        codec,
        ready: 0,
        heard: vec![0; members],
    };
    let mut deliveries = 0;
    for first in (0..members).step_by(WAVE) {
        let wave = first..members.min(first + WAVE);
        for member in wave.clone() {
            room.pool.connect(server.address()).map_err(broken)?;
            room.pool.say(member, |unsent| codec.greet(member, 0, unsent));
        }
        room.hear_until(|room| room.ready == wave.end)?;
        for member in wave.clone() {
            room.pool.say(member, |unsent| codec.publish(0, SAID, unsent));
        }
        let due = wave.len() * (wave.end - 1);
        room.hear_until(|room| room.heard.iter().sum::<usize>() >= due)?;
        room.each_heard(
            |member| wave.len() - usize::from(wave.contains(&member)),
            wave.end,
        )?;
        deliveries += due;
    }
    let full = server.activity()?;
    let own = server.descriptors()?.saturating_sub(members);
    drop(room);
    wait_until("the server to close what is gone", || {
        Ok(server.descriptors()? <= own)
    })?;
    let after = server.activity()?;
    let connections = case.connections as f64;
    let spoken = cpu_ns(&empty, &full);
    worker.record(CPU, spoken / connections);
    worker.record(DELIVERY, spoken / deliveries as f64);
    worker.record(MEMORY, grown(&empty, &full)? / connections);
    worker.record(LEAVE, cpu_ns(&full, &after) / connections);
    worker.record(LEFT, grown(&empty, &after)? / connections);
    Ok(())
}

/// One room, and what each of its members has heard since it was last looked at.
struct Room {
    pool: ClientPool,
    codec: &'static dyn Codec,
    /// Members that were greeted.
    ready: usize,
    /// By member: messages.
    heard: Vec<usize>,
}

impl Room {
    /// Sends what waits, and hears until so.
    fn hear_until(&mut self, is_so: impl Fn(&Self) -> bool) -> Result<(), CaseError> {
        self.pool.flush().map_err(broken)?;
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            if Instant::now() > deadline {
                let says = format!("{} members were greeted, and not all messages came", self.ready);
                return Err(CaseError::Failed(says));
            }
            self.hear()?;
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<(), CaseError> {
        let Self {
            pool,
            codec,
            ready,
            heard,
        } = self;
        let mut answers = Answers::default();
        let mut wrong = false;
        pool.hear(PATIENCE, |connection, input| {
            let mut frames = Frames::of(*codec, input);
            let lost = |source| LoadError::Codec { connection, source };
            while let Some(event) = frames.next_event().map_err(lost)? {
                match event {
                    Event::Delivery(said) => {
                        heard[connection] += 1;
                        wrong |= said != SAID;
                    }
                    Event::Ready => *ready += 1,
                    Event::Wants(answer) => answers.want(connection, answer),
                    Event::Noise => {}
                }
            }
            Ok(frames.used())
        })
        .map_err(broken)?;
        if wrong {
            return Err(CaseError::Failed("a message came changed".to_owned()));
        }
        let mut unread = None;
        answers.say(pool, |_, error| unread = Some(error));
        if let Some(error) = unread {
            return Err(broken(error));
        }
        // What sockets did not take goes with the next.
        pool.flush().map(|_| ()).map_err(broken)
    }

    /// Whether each of so many members heard what it had to, and no more; counting begins anew.
    fn each_heard(&mut self, due: impl Fn(usize) -> usize, members: usize) -> Result<(), CaseError> {
        for (member, heard) in self.heard[..members].iter_mut().enumerate() {
            if *heard != due(member) {
                let says = format!(
                    "member {member} heard {heard} messages instead of {}",
                    due(member)
                );
                return Err(CaseError::Failed(says));
            }
            *heard = 0;
        }
        Ok(())
    }
}

fn broken(error: LoadError) -> CaseError {
    CaseError::failed("the clients", error)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool, CaseError>) -> Result<(), CaseError> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > deadline {
            return Err(CaseError::Failed(format!("waited {PATIENCE:?} for {what}")));
        }
        sleep(LOOK);
    }
    Ok(())
}

/// CPU time of the server between two looks at it.
fn cpu_ns(before: &Activity, after: &Activity) -> f64 {
    cpu_since(before, after).as_nanos() as f64
}

/// By how many bytes the server's own memory grew.
fn grown(before: &Activity, after: &Activity) -> Result<f64, CaseError> {
    let kib = |of: &Activity| {
        let lack = || CaseError::Failed(format!("the server's memory: {}", of.lacks.join("; ")));
        of.pss_kib.ok_or_else(lack)
    };
    Ok((kib(after)? as f64 - kib(before)? as f64) * KIB)
}

/// A number of a case, all of which are small.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Accepting by ours over accepting by a loop in C.
fn over_floor(connections: u64) -> Statistic {
    let case = OURS.connections(connections);
    case.of(CPU).over(case.who(Who::Floor).of(CPU))
}

fn memory(connections: u64) -> Statistic {
    OURS.what(What::Keep).connections(connections).of(MEMORY)
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: [CLAIMED, OURS.connections].into_iter().find_map(|connections| {
            let of = "ours ÷ a loop in C: CPU time of accepting one of";
            view.number(
                format!("{of} {} connections", units::count(count(connections))),
                &over_floor(connections),
                "ratio",
            )
        }),
        claims: claims(),
        comparisons: comparisons(view),
        figures: accepted(view).into_iter().collect(),
        tables: vec![connections_table(view), room_table(view)],
        ..Answer::default()
    }
}

fn claims() -> Vec<Claim> {
    vec![
        ("groups-accepting-near-a-loop-in-c", over_floor(CLAIMED).into()),
        (
            "groups-connection-under-3-kib",
            memory(CLAIMED).times(1.0 / KIB).into(),
        ),
    ]
}

fn answer(view: &View<'_>) -> String {
    let accepting = [CLAIMED, OURS.connections].into_iter().find_map(|connections| {
        let estimate = view.estimate(&over_floor(connections))?;
        Some(format!(
            "To accept one of {} connections costs ours {} times the CPU time of a loop in C",
            units::count(count(connections)),
            estimate.plain("ratio")
        ))
    });
    let Some(accepting) = accepting else {
        return String::new();
    };
    let kept = view.estimate(&memory(CLAIMED));
    let kept = kept.map_or_else(String::new, |bytes| {
        format!("; to keep one takes {} of memory", bytes.plain("B"))
    });
    let at_once = cases(What::Room).into_iter().rev().find_map(|case| {
        let estimate = view.estimate(&OURS.what(What::Room).connections(case.connections).of(CPU))?;
        Some((case.connections, estimate.plain("ns")))
    });
    let spoken = at_once.map_or_else(String::new, |(members, cpu)| {
        format!("; one that comes, speaks once to a room of {members} and goes takes {cpu} of CPU time")
    });
    format!("{accepting}{kept}{spoken}.")
}

/// What each server needs to accept.
fn accepted(view: &View<'_>) -> Option<Figure> {
    let chart = Chart::new(view, "accept", "What it costs a server to accept a connection")
        .note("The floor is a loop around accept that says INFO.")
        .x(Scale::Category, "connections")
        .y(Scale::Log, "CPU time of a connection, µs");
    let of = |who: Who| {
        [1_000, CLAIMED].map(|connections| {
            let case = OURS.who(who).connections(connections);
            (units::count(count(connections)), case.of(CPU).times(1e-3))
        })
    };
    SERVERS
        .into_iter()
        .fold(chart, |chart, who| chart.line(who.name(), of(who)))
        .drawn()
}

/// Every case of any profile, in the order of the tables.
fn cases(what: What) -> Vec<Case> {
    let loads: &[u64] = match what {
        What::Accept | What::Keep => &[1_000, CLAIMED],
        What::Room => &[500, 2_000, 5_000],
    };
    let at = |&load: &u64| SERVERS.map(|who| OURS.what(what).who(who).connections(load));
    loads.iter().flat_map(at).collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let all = What::ALL.into_iter().flat_map(cases);
    let others = all.filter(|case| case.who != Who::Ours);
    pairs(view, &["cpus"], others.map(|case| (case, case.who(Who::Ours))))
}

fn connections_table(view: &View<'_>) -> Table {
    let row = |case: Case| {
        let kept = case.what(What::Keep);
        let over = case.of(CPU).over(case.who(Who::Floor).of(CPU));
        vec![
            case.who.name().to_owned(),
            units::count(count(case.connections)),
            view.shown(&case.of(CPU), "ns"),
            if case.who == Who::Floor {
                String::new()
            } else {
                view.shown(&over, "ratio")
            },
            view.shown(&kept.of(CPU), "ns"),
            view.shown(&kept.of(MEMORY), "B"),
            view.shown(&kept.of(IDLE), "share"),
        ]
    };
    let rows = cases(What::Accept).into_iter();
    table(
        "connections",
        "Connections on which nothing happens",
        "CPU time and memory of the server for each. The floor of accepting is a loop around accept that says INFO.",
        [
            "server",
            "connections",
            "CPU time to accept",
            "over the floor",
            "CPU time of a new member",
            "memory",
            "share of a CPU when idle",
        ],
        rows.filter(|case| view.measured(&case.of(CPU)))
            .map(row)
            .collect(),
    )
}

fn room_table(view: &View<'_>) -> Table {
    let row = |case: Case| {
        vec![
            case.who.name().to_owned(),
            units::count(count(case.connections)),
            view.shown(&case.of(DELIVERY), "ns"),
            view.shown(&case.of(MEMORY), "B"),
            view.shown(&case.of(LEFT), "B"),
            view.shown(&case.of(LEAVE), "ns"),
        ]
    };
    let rows = cases(What::Room).into_iter();
    table(
        "room",
        "One room that all enter, speak in once and leave",
        "Fifty enter at a time, when all have heard the fifty before.",
        [
            "server",
            "members",
            "CPU time of a delivery",
            "memory of a member",
            "left of it at the end",
            "CPU time of a member that leaves",
        ],
        rows.filter(|case| view.measured(&case.of(DELIVERY)))
            .map(row)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use threadgauge_lab::testing;
    use threadgauge_results::Verdict;

    use super::*;

    #[test]
    fn the_floor_accepts() {
        let sample = testing::measured(&EXPERIMENT, &OURS.who(Who::Floor).connections(150).params());
        assert!(sample.value(CPU.name).unwrap() > 0.0, "{sample:?}");
    }

    #[test]
    fn what_a_room_takes_is_by_connection_and_by_delivery() {
        let cpus = Cpus::divided(1).unwrap();
        let case = OURS.who(Who::Floor).what(What::Room).connections(60);
        let floor = case.who.start(case.connections, &cpus).unwrap();
        let mut worker = testing::worker(&EXPERIMENT, &case.params());
        room(case, &floor.server, &mut worker).unwrap();
        let sample = worker.finish(Ok(()));
        let [cpu, delivery] = [CPU, DELIVERY].map(|metric| sample.value(metric.name).unwrap());
        // Of fifty all hear all others, and then all sixty hear what ten say, but for who says it.
        let deliveries = f64::from(50 * 49 + 10 * 59);
        assert!(delivery > 0.0 && (cpu * 60.0 / (delivery * deliveries) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn coming_and_staying_are_of_each_connection_and_rest_is_of_the_time() {
        let seen = |at_ms: u64, cpu_us, pss_kib| Activity {
            at_ns: at_ms * 1_000_000,
            cpu: Duration::from_micros(cpu_us),
            pss_kib,
            ..Activity::default()
        };
        let [empty, full, after] = [
            seen(10, 500, Some(1_000)),
            seen(20, 710, Some(1_100)),
            seen(120, 735, None),
        ];
        let mut worker = testing::worker(&EXPERIMENT, &OURS.params());
        record_kept(&mut worker, 40.0, [&empty, &full, &after]).unwrap();
        let sample = worker.finish(Ok(()));
        let figures = [CPU, MEMORY, IDLE].map(|metric| sample.value(metric.name).unwrap());
        assert_eq!(figures, [5_250.0, 2_560.0, 25e-5]);
        let mut worker = testing::worker(&EXPERIMENT, &OURS.params());
        let unread = record_kept(&mut worker, 40.0, [&empty, &after, &full]);
        assert!(unread.is_err(), "its memory could not be read");
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
                OURS.who(Who::Floor).what(What::Room),
                "what is room; it must be accept or keep for the floor",
            ),
        ] {
            let reason = testing::sample(&EXPERIMENT, &case.params()).reason.unwrap();
            assert!(reason.contains(says), "{reason}");
        }
    }

    #[test]
    fn what_members_hear_is_counted_and_a_changed_word_fails() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut room = Room {
            pool: ClientPool::new().unwrap(),
            codec: Who::Ours.codec(),
            ready: 0,
            heard: vec![0],
        };
        room.pool.connect(server.local_addr().unwrap()).unwrap();
        let (mut peer, _) = server.accept().unwrap();
        let hello = b"MSG g0 1 5\r\nhello\r\n";
        peer.write_all(&[b"PONG\r\n", &hello[..], hello].concat())
            .unwrap();
        room.hear_until(|room| room.heard == [2]).unwrap();
        assert_eq!(room.ready, 1);
        peer.write_all(b"MSG g0 1 5\r\nhallo\r\n").unwrap();
        let error = room.hear_until(|room| room.heard == [3]).unwrap_err();
        assert!(error.to_string().contains("a message came changed"), "{error}");
    }

    #[test]
    fn who_hears_too_much_or_too_little_is_named() {
        let mut room = Room {
            pool: ClientPool::new().unwrap(),
            codec: Who::Ours.codec(),
            ready: 2,
            heard: vec![2, 1, 0],
        };
        let due = |member| 2 - member;
        room.each_heard(due, 2).unwrap();
        assert_eq!(room.heard, [0; 3], "it counts anew");
        room.heard = vec![2, 2, 0];
        let error = room.each_heard(due, 3).unwrap_err().to_string();
        assert_eq!(error, "member 1 heard 2 messages instead of 1");
    }

    /// All cases of a profile: ours takes so many times the CPU time of the floor, and each connection so many bytes.
    fn view(profile: Profile, times: f64, bytes: f64) -> View<'static> {
        let cases = plan(&testing::site(profile, 2)).cases.into_iter();
        let case = |planned: PlannedCase| {
            let case = Case::possible(&planned.params).unwrap();
            let ns = if case.who == Who::Floor {
                1_000.0
            } else {
                1_000.0 * times
            };
            let figures = match case.what {
                What::Accept => vec![(CPU, vec![ns; 7])],
                What::Keep => [(CPU, ns), (MEMORY, bytes), (IDLE, 0.0)]
                    .map(|(metric, value)| (metric, vec![value; 7]))
                    .to_vec(),
                What::Room => [(DELIVERY, ns), (MEMORY, bytes), (LEFT, bytes), (LEAVE, ns)]
                    .map(|(metric, value)| (metric, vec![value; 7]))
                    .to_vec(),
            };
            testing::case(planned.params, figures)
        };
        testing::view(EXPERIMENT.id, profile, cases.map(case).collect())
    }

    fn verdicts(view: &View<'_>) -> Vec<Option<Verdict>> {
        let claims = read(view).claims.into_iter();
        claims
            .map(|(id, test)| testing::verdict(&test, id, view))
            .collect()
    }

    #[test]
    fn the_targets_are_for_ten_thousand_connections() {
        let good = verdicts(&view(Profile::Standard, 1.4, 3_000.0));
        assert_eq!(good, [Some(Verdict::Holds); 2]);
        let bad = verdicts(&view(Profile::Standard, 1.6, 3_100.0));
        assert_eq!(bad, [Some(Verdict::DoesNotHold); 2]);
        let quick = verdicts(&view(Profile::Quick, 1.4, 3_000.0));
        assert_eq!(quick, [Some(Verdict::NotMeasured); 2]);
    }

    #[test]
    fn the_answer_and_the_tables_have_the_figures() {
        let whole = read(&view(Profile::Standard, 1.5, 2_048.0));
        assert_eq!(
            whole.answer,
            "To accept one of 10\u{202f}000 connections costs ours 1.50 times the CPU time of a loop in C; to keep one \
             takes 2.00 KiB of memory."
        );
        assert_eq!((whole.tables[0].rows.len(), whole.tables[1].rows.len()), (6, 4));
        assert_eq!(whole.tables[0].rows[0][3], "1.50 [1.50, 1.50]");
        let quick = read(&view(Profile::Quick, 1.5, 2_048.0));
        assert!(
            quick.answer.contains("one of 1000 connections"),
            "{}",
            quick.answer
        );
        let nothing = read(&testing::view(EXPERIMENT.id, Profile::Quick, Vec::new()));
        assert!(nothing.answer.is_empty());
    }
}
