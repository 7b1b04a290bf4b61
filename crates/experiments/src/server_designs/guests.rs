//! Servers of other runtimes for `echo`, each in its runtime's own way, beside a loop in C and ours.
//!
//! A server is warmed up by messages for a fixed time, whose rate is looked at in parts: the first is what it does when
//! it is cold. Then come the messages that are measured, on the same connections; its CPU time is looked at before and
//! behind them.

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_results::{Figure, Runtime};

use super::case::{CPU, CROWDS, MEDIAN, MEMORY, P99, Program, RATE, THREAD, echo};
use super::measure::{connected, exchange, exchange_for, memory_bytes, record_messages};
use crate::runtimes::serving::{self, STARTUP};
use crate::runtimes::{Name, Serves};
use crate::servers::{Design, cpu_since};

/// Of the warm-up, one behind the other.
const PART: Duration = Duration::from_millis(250);
const PARTS: [Metric; 6] = [
    metric("warm_up_1_requests_per_second", "requests/s"),
    metric("warm_up_2_requests_per_second", "requests/s"),
    metric("warm_up_3_requests_per_second", "requests/s"),
    metric("warm_up_4_requests_per_second", "requests/s"),
    metric("warm_up_5_requests_per_second", "requests/s"),
    metric("warm_up_6_requests_per_second", "requests/s"),
];

point! {
    /// A server of a guest, and its clients.
    pub(super) struct Guests {
        runtime: Name,
        design: Name,
        clients: u64 = 1..=10_000,
        /// Of each client.
        requests: u64 = 1..=1_000_000,
        cpus: u64 = 1..,
    }
}

impl Guests {
    fn planned(self, starts: Duration) -> PlannedCase {
        let connecting = Duration::from_micros(self.clients * 100);
        // A message through asyncio, the slowest, on one CPU with its clients.
        let messages = Duration::from_micros(self.clients * self.requests * 35);
        let takes =
            Duration::from_millis(40) + starts * 2 + connecting + PART * PARTS.len() as u32 + messages;
        PlannedCase::new(self, takes)
    }

    fn metric(self, metric: Metric) -> Statistic {
        metric.of(self.any(&["requests"]))
    }
}

/// The cases of each server of the runtimes that were asked for.
pub(super) fn plan(site: &Site) -> Vec<PlannedCase> {
    let messages = site.profile.pick(10_000, 20_000, 100_000);
    let crowds = site.profile.pick(&CROWDS[..1], &CROWDS[..], &CROWDS[..]);
    let of_server = |(runtime, server, lack): (&Runtime, &'static Serves, Option<Lack>)| {
        let starts = serving::starts(runtime);
        let (runtime, design) = (Name::new(&runtime.name), Name::new(server.design));
        let planned = move |&clients: &u64| {
            let case = Guests {
                runtime,
                design,
                clients,
                requests: messages / clients,
                cpus: 1,
            };
            PlannedCase {
                skip: lack.clone(),
                ..case.planned(starts)
            }
        };
        crowds.iter().map(planned).collect::<Vec<_>>()
    };
    serving::servers(&site.runtimes).flat_map(of_server).collect()
}

/// Runs the case with these parameters.
///
/// # Errors
///
/// Those of [`serving`]; failed where a message does not come back as it was sent.
pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Guests::read(params)?;
    let (runtime, server) = serving::begin(params, case.design, worker)?;
    let deadline = case.planned(serving::starts(&runtime)).deadline();
    let cpus = Cpus::divided(1)?;
    let server = serving::start(&runtime, server, "echo", &cpus, worker)?;
    let mut clients = connected(case.clients, &server)?;
    for part in PARTS {
        let rate = exchange_for(&mut clients, PART, worker)?;
        worker.record(part, rate);
    }
    let before = server.activity()?;
    let messages = case.clients * case.requests;
    let seen = exchange(&mut clients, messages, deadline, worker)?;
    let after = server.activity()?;
    let memory = memory_bytes(&server)?;
    drop(clients);
    serving::end(server)?;
    record_messages(worker, &seen, cpu_since(&before, &after));
    if let Some(bytes) = memory {
        worker.record(MEMORY, bytes);
    }
    Ok(())
}

/// Those that servers of guests stand beside.
fn ours(clients: u64) -> [(&'static str, Statistic); 3] {
    let of = |program, design| CPU.of(echo(program, design, clients).any(&["requests"]));
    [
        ("C, one loop", of(Program::C, Design::Reactor)),
        ("threadgauge, one loop", of(Program::Ours, Design::Reactor)),
        ("threadgauge, threads", of(Program::Ours, THREAD)),
    ]
}

/// What guests add to the answer; nothing where there are none.
pub(super) fn read(view: &View<'_>, answer: &mut Answer) {
    let cases = crate::runtimes::cases::<Guests>(view);
    let shown = |name: String, clients: u64, of: &dyn Fn(Metric) -> Statistic| {
        let cpu = view.estimate(&of(CPU))?.show("ns");
        let others = [RATE, MEDIAN, P99, MEMORY, STARTUP, PARTS[0]].map(|m| view.shown(&of(m), m.unit));
        let place = vec![name, clients.to_string(), cpu];
        Some(place.into_iter().chain(others).collect::<Vec<_>>())
    };
    let guests: Vec<Vec<String>> = cases
        .iter()
        .filter_map(|&case| shown(label(case), case.clients, &|m| case.metric(m)))
        .collect();
    if guests.is_empty() {
        return;
    }
    let beside = CROWDS.into_iter().flat_map(|clients| {
        [
            ("C, one loop", Program::C, Design::Reactor),
            ("threadgauge, one loop", Program::Ours, Design::Reactor),
            ("threadgauge, threads", Program::Ours, THREAD),
        ]
        .map(|(name, program, design)| {
            let case = echo(program, design, clients);
            shown(name.to_owned(), clients, &|m| m.of(case.any(&["requests"])))
        })
    });
    let rows: Vec<Vec<String>> = beside.flatten().chain(guests).collect();
    answer.tables.push(table(
        "guests",
        "Messages that come back, by runtime",
        "128 bytes each, one on its way on each connection; server and clients on one CPU. Servers of other runtimes are warm: \
         cold is the rate of the first quarter of a second. Start: until it listens.",
        [
            "server",
            "connections",
            "CPU a message",
            "messages a second",
            "answer, median",
            "answer, 99th percentile",
            "memory",
            "start",
            "cold",
        ],
        rows,
    ));
    answer.facts.extend(facts(view, &cases));
    answer.figures.extend(charts(view, &cases));
}

fn label(case: Guests) -> String {
    serving::label(case.runtime, case.design)
}

fn facts(view: &View<'_>, cases: &[Guests]) -> Vec<Finding> {
    let floor = |clients| ours(clients)[0].1.clone();
    let fact = |&case: &Guests| {
        let times = case.metric(CPU).over(floor(case.clients));
        let figure = view.estimate(&times)?;
        let says = format!(
            "A message on {} connections costs the server in {} {} times the CPU time of one loop in C.",
            case.clients,
            label(case),
            figure.show("ratio")
        );
        Some(figure.fact(says, "ratio"))
    };
    cases.iter().filter_map(fact).collect()
}

fn charts(view: &View<'_>, cases: &[Guests]) -> Vec<Figure> {
    let mut names: Vec<String> = ours(CROWDS[0]).map(|(name, _)| name.to_owned()).to_vec();
    for case in cases {
        if !names.contains(&label(*case)) {
            names.push(label(*case));
        }
    }
    let mut cpu = Chart::new(view, "guests", "The server's CPU time for a message, by runtime")
        .note("128 bytes that come back, one on its way on each connection, the runtime warm.")
        .x(Scale::Category, "server")
        .y(Scale::Log, "CPU time a message, µs");
    for clients in CROWDS {
        let of_name = |name: &String| {
            let ours = ours(clients).into_iter().find(|(own, _)| own == name);
            let guest = || {
                let mut guests = cases.iter();
                guests.find(|case| case.clients == clients && label(**case) == *name)
            };
            ours.map(|(_, cpu)| cpu)
                .or_else(|| guest().map(|case| case.metric(CPU)))
                .map(|cpu| cpu.times(1e-3))
        };
        let points: Vec<_> = names.iter().map(|name| (&**name, of_name(name))).collect();
        cpu = cpu.line(format!("{clients} connections"), points);
    }
    let mut warm = Chart::new(view, "warm-up", "Until a server is warm, 64 connections")
        .note("Messages a second in each quarter of a second from the first message on.")
        .x(Scale::Linear, "since the first message, ms")
        .y(Scale::Log, "thousand messages a second");
    for &case in cases.iter().filter(|case| case.clients == CROWDS[0]) {
        let half = PART.as_millis() as u64 / 2;
        let points = (0_u64..).zip(PARTS).map(|(i, part)| {
            let middle_ms = i * PART.as_millis() as u64 + half;
            (middle_ms, case.metric(part).times(1e-3))
        });
        warm = warm.line(label(case), points.collect::<Vec<_>>());
    }
    [cpu, warm].into_iter().filter_map(Chart::drawn).collect()
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    use super::*;
    use crate::runtimes::guest::testing::{sample, script};
    use crate::server_designs::EXPERIMENT;

    fn goroutines() -> Guests {
        Guests {
            runtime: Name::new("go"),
            design: Name::new("goroutine-per-connection"),
            clients: 3,
            requests: 20,
            cpus: 1,
        }
    }

    #[test]
    fn a_server_that_does_not_listen_or_says_something_else_fails_with_what_it_said() {
        for (text, says) in [
            ("echo error no memory; exit 1", "exit status: 1: error no memory"),
            ("exit 0", "the server ended with exit status: 0 and said nothing"),
        ] {
            let sample = sample(
                &EXPERIMENT,
                &goroutines().params(),
                Some(script("go", "1.26", text)),
            );
            assert_eq!(sample.status, Status::Failed);
            assert!(
                sample.reason.as_ref().is_some_and(|why| why.contains(says)),
                "{sample:?}"
            );
        }
        let without = sample(&EXPERIMENT, &goroutines().params(), None);
        assert!(without.reason.unwrap().contains("begin again with --runtime go"));
    }

    #[test]
    fn servers_are_planned_where_they_were_asked_for() {
        let site = |profile| Site {
            runtimes: vec![script("java", "21", ""), script("erlang", "27", "")],
            ..testing::site(profile, 2)
        };
        let count = |profile| plan(&site(profile)).len();
        assert_eq!(Profile::ALL.map(count), [3, 6, 6]);
        assert!(plan(&testing::site(Profile::Paper, 2)).is_empty());
        let old = Site {
            runtimes: vec![script("java", "17", "")],
            ..testing::site(Profile::Quick, 2)
        };
        let lacks = plan(&old).into_iter().filter(|case| case.skip.is_some());
        assert_eq!(lacks.count(), 1, "virtual threads");
    }

    #[test]
    fn a_server_has_its_row_beside_the_loop_in_c_and_its_places_in_the_charts() {
        let rounds = |value: f64| vec![value; 7];
        let figures = |cpu| {
            let parts = PARTS.into_iter().map(|part| (part, rounds(40_000.0)));
            let own = [
                (CPU, rounds(cpu)),
                (RATE, rounds(50_000.0)),
                (STARTUP, rounds(9e6)),
            ];
            own.into_iter().chain(parts).collect::<Vec<_>>()
        };
        let guest = goroutines().clients(CROWDS[0]);
        let in_c = echo(Program::C, Design::Reactor, CROWDS[0]);
        let view = testing::view(
            "server-designs",
            Profile::Quick,
            vec![
                testing::case(guest.params(), figures(12_000.0)),
                testing::case(in_c.params(), figures(4_000.0)),
            ],
        );
        let mut answer = Answer::default();
        read(&view, &mut answer);
        let rows = &answer.tables[0].rows;
        assert_eq!([&rows[0][0], &rows[1][0]], ["C, one loop", "Go, goroutines"]);
        assert_eq!(answer.facts.len(), 1);
        let times = answer.facts[0].measured.unwrap();
        assert!((times - 3.0).abs() < 1e-9, "{times}");
        let ids: Vec<&str> = answer.figures.iter().map(|chart| chart.id.as_str()).collect();
        assert_eq!(ids, ["guests", "warm-up"]);
        assert_eq!(answer.figures[1].series[0].points.len(), PARTS.len());
        let mut nothing = Answer::default();
        read(
            &testing::view("server-designs", Profile::Quick, Vec::new()),
            &mut nothing,
        );
        assert!(nothing.tables.is_empty() && nothing.figures.is_empty());
    }
}
