//! How one event loop waits: epoll, poll and select, by connections and by how many of these never say anything.

use std::net::{SocketAddr, TcpStream};

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_machine::{Resource, raise_to_hard};
use threadgauge_results::{Figure, Table, units};

use super::case::{CPU, MEDIAN, P99, RATE};
use super::measure::{connected, exchange, record_messages};
use crate::servers::clients::{Addresses, has_room};
use crate::servers::{EVENT_LOOPS, cpu_since};

words! {
    /// What a loop waits by.
    pub(super) enum Waiter { Epoll = "epoll", Poll = "poll", Select = "select" }
}

point! {
    /// One loop in C that sends back what comes.
    pub(super) struct Loop {
        waits_by: Waiter,
        clients: u64 = 2..=16_000,
        /// Of the clients: these are connected and silent.
        idle_percent: u64 = 0..=99,
        /// Of each client that is not.
        requests: u64 = 1..=1_000_000,
        cpus: u64 = 1..,
    }
}

/// What select can wait for, with the listening socket and the three streams that a program has.
const MOST_OF_SELECT: u64 = 1_024 - 8;
const CONNECTIONS: [u64; 5] = [16, 64, 256, 1_000, 4_000];
const IDLE_PERCENT: [u64; 4] = [0, 50, 90, 99];
/// Where the share of idle ones is varied, …
const MANY: u64 = 1_000;
/// … and the connections.
const MOSTLY_IDLE: u64 = 90;

impl Loop {
    const fn of(waits_by: Waiter, clients: u64, idle_percent: u64) -> Self {
        Self {
            waits_by,
            clients,
            idle_percent,
            requests: 1,
            cpus: 1,
        }
    }

    /// As many of each as make about so many in all.
    fn messages(self, messages: u64) -> Self {
        self.requests((messages / self.active()).max(1))
    }

    fn idle(self) -> u64 {
        (self.clients * self.idle_percent / 100).min(self.clients - 1)
    }

    fn active(self) -> u64 {
        self.clients - self.idle()
    }

    fn metric(self, metric: Metric) -> Statistic {
        metric.of(self.any(&["requests"]))
    }

    /// What it can never have.
    fn lack(self) -> Option<Lack> {
        let is_over = self.waits_by == Waiter::Select && self.clients > MOST_OF_SELECT;
        let says = || {
            format!(
                "select waits for descriptors below 1,024 alone, which are too few for {} connections; poll and epoll have \
                 no such bound",
                units::count(self.clients as usize)
            )
        };
        is_over.then(|| Lack::new(Need::Program, says()))
    }

    fn planned(self) -> PlannedCase {
        // Each connection is accepted behind a look at those before, and each message comes with some others.
        let look_ns = match self.waits_by {
            Waiter::Epoll => 0,
            Waiter::Poll | Waiter::Select => 30 * self.clients,
        };
        let connecting_us = self.clients * (60 + look_ns / 2_000);
        let messages_us = self.active() * self.requests * (15 + look_ns / 2_000);
        let takes = Duration::from_micros(15_000 + connecting_us + messages_us);
        PlannedCase {
            skip: EVENT_LOOPS.missing().or(self.lack()),
            check: |params| Self::read(params).map(drop),
            ..PlannedCase::new(self, takes)
        }
    }
}

/// The cells that are read: what is varied, and its line.
fn by_connections(waits_by: Waiter, idle_percent: u64) -> [(u64, Loop); CONNECTIONS.len()] {
    CONNECTIONS.map(|clients| (clients, Loop::of(waits_by, clients, idle_percent)))
}

fn by_idle_share(waits_by: Waiter) -> [(u64, Loop); IDLE_PERCENT.len()] {
    IDLE_PERCENT.map(|idle| (idle, Loop::of(waits_by, MANY, idle)))
}

/// A plan with these beside its own, and the time that they take. None in quick.
pub(super) fn beside(mut plan: Plan, site: &Site) -> Plan {
    let (messages, of): (u64, Vec<(u64, u64)>) = match site.profile {
        Profile::Quick => return plan,
        Profile::Standard => (2_000, vec![(64, MOSTLY_IDLE), (MANY, MOSTLY_IDLE)]),
        Profile::Paper => {
            let all = CONNECTIONS.into_iter();
            let all = all.flat_map(|clients| IDLE_PERCENT.map(|idle| (clients, idle)));
            // Of sixteen, one is not idle at 90 % already.
            (
                20_000,
                all.filter(|&(clients, idle)| clients > 16 || idle < 99).collect(),
            )
        }
    };
    let of_each = of.into_iter().flat_map(|(clients, idle)| {
        Waiter::ALL.map(|waits_by| Loop::of(waits_by, clients, idle).messages(messages))
    });
    let cases: Vec<PlannedCase> = of_each.map(Loop::planned).collect();
    let round: Duration = cases.iter().map(|case| case.estimate).sum();
    plan.budget += round * site.profile.pick(10, 10, 20);
    plan.cases.extend(cases);
    plan
}

pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Loop::read(params)?;
    if let Some(lack) = case.lack() {
        return Err(CaseError::Skipped(lack));
    }
    has_room(case.clients, Addresses::One)?;
    let deadline = case.planned().deadline();
    let server = EVENT_LOOPS.serve(&[&case.waits_by.name(), &0], &Cpus::divided(1)?)?;
    // They come first: whoever talks was accepted behind them, so that all are once each has had an answer.
    let idle = silent(server.address(), case.idle())?;
    let mut clients = connected(case.active(), &server)?;
    exchange(&mut clients, case.active(), deadline, worker)?;
    let before = server.activity()?;
    let seen = exchange(&mut clients, case.active() * case.requests, deadline, worker)?;
    let after = server.activity()?;
    drop((idle, clients));
    server.end()?;
    record_messages(worker, &seen, cpu_since(&before, &after));
    Ok(())
}

/// Connections that say nothing.
fn silent(server: SocketAddr, count: u64) -> Result<Vec<TcpStream>, CaseError> {
    // Too low a hard limit shows when a connection fails.
    let _ = raise_to_hard(Resource::OpenFiles);
    let streams = (0..count).map(|_| TcpStream::connect(server));
    let streams: Result<Vec<_>, _> = streams.collect();
    streams.map_err(|e| CaseError::failed("connecting to a server", e))
}

/// From which of these on epoll takes less CPU time for a message than `other`, at all that were measured.
fn worth_from(view: &View<'_>, other: Waiter, of: &[(u64, Loop)]) -> Worth {
    let mut found = Worth::Unmeasured;
    for &(x, case) in of.iter().rev() {
        let of = |waits_by| case.waits_by(waits_by).metric(CPU);
        let more = of(other).over(of(Waiter::Epoll)).less_one();
        // Of too few rounds it has no interval, and shows nothing.
        let Some([low, _]) = view.estimate(&more).and_then(|more| more.ci95) else {
            continue;
        };
        if low <= 0.0 {
            return match found {
                Worth::Unmeasured => Worth::Nowhere,
                found => found,
            };
        }
        found = Worth::From(x);
    }
    found
}

/// Where epoll takes less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worth {
    Unmeasured,
    /// Not at the most of them.
    Nowhere,
    From(u64),
}

/// From where on epoll is worth it, in a sentence; nothing where these rounds do not show it.
fn sentence(view: &View<'_>) -> String {
    let by_connections = |other, idle| match worth_from(view, other, &by_connections(other, idle)) {
        Worth::Unmeasured => None,
        Worth::Nowhere => Some(format!("at no number of connections where {idle} % are idle")),
        Worth::From(n) => Some(format!(
            "from {} connections on where {idle} % are idle",
            units::count(n as usize)
        )),
    };
    let of = |other: Waiter| {
        let many = units::count(MANY as usize);
        let share = match worth_from(view, other, &by_idle_share(other)) {
            Worth::Unmeasured => None,
            Worth::Nowhere => Some(format!("with {many} at no share of idle ones")),
            Worth::From(0) => Some(format!("with {many} at every share of idle ones")),
            Worth::From(idle) => Some(format!("with {many} from {idle} % of idle ones on")),
        };
        let parts = [
            by_connections(other, 0),
            by_connections(other, MOSTLY_IDLE),
            share,
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let (last, before) = parts.split_last()?;
        let before = match before.is_empty() {
            true => String::new(),
            false => format!("{} and ", before.join(", ")),
        };
        Some(format!("over {} {before}{last}", other.name()))
    };
    let of_each: Vec<String> = [Waiter::Poll, Waiter::Select]
        .into_iter()
        .filter_map(of)
        .collect();
    match of_each.is_empty() {
        true => String::new(),
        false => format!("For one loop in C epoll is worth it {}.", of_each.join("; ")),
    }
}

/// What these add to the answer; nothing where there are none.
pub(super) fn read(view: &View<'_>, answer: &mut Answer) {
    let says = sentence(view);
    if !says.is_empty() {
        let before = match answer.answer.is_empty() {
            true => "",
            false => " ",
        };
        answer.answer += before;
        answer.answer += &says;
    }
    answer.facts.extend(facts(view));
    answer.figures.extend(charts(view));
    answer.tables.extend(totals(view));
}

fn facts(view: &View<'_>) -> impl Iterator<Item = Finding> {
    let of = |other: Waiter, clients: u64, idle: u64| {
        let cpu = |waits_by| Loop::of(waits_by, clients, idle).metric(CPU);
        let figure = view.estimate(&cpu(other).over(cpu(Waiter::Epoll)))?;
        let says = format!(
            "With {} connections of which {idle} % are idle a message costs a loop that waits by {} {} times the CPU time of \
             one by epoll.",
            units::count(clients as usize),
            other.name(),
            figure.show("ratio")
        );
        Some(figure.fact(says, "ratio"))
    };
    let cells = [(64, 0), (MANY, 0), (MANY, MOSTLY_IDLE), (MANY, 99)];
    let all = cells.into_iter().flat_map(move |(clients, idle)| {
        [Waiter::Poll, Waiter::Select].map(|other| of(other, clients, idle))
    });
    all.flatten().collect::<Vec<_>>().into_iter()
}

fn charts(view: &View<'_>) -> impl Iterator<Item = Figure> {
    let cpu = |case: Loop| case.metric(CPU).times(1e-3);
    let y = "CPU time a message, µs";
    let mut connections = Chart::new(
        view,
        "waits-by",
        "One loop in C that waits by epoll, poll or select",
    )
    .note("128 bytes that come back; 90 % of the connections say nothing. select has 1,024 descriptors.")
    .x(Scale::Log, "connections")
    .y(Scale::Log, y);
    let mut idle = Chart::new(
        view,
        "waits-by-idle",
        "The same, of 1,000 connections, by how many are idle",
    )
    .x(Scale::Linear, "connections that say nothing, %")
    .y(Scale::Log, y);
    for waits_by in Waiter::ALL {
        let of = |cells: &[(u64, Loop)]| cells.iter().map(|&(x, case)| (x, cpu(case))).collect::<Vec<_>>();
        connections = connections.line(waits_by.name(), of(&by_connections(waits_by, MOSTLY_IDLE)));
        idle = idle.line(waits_by.name(), of(&by_idle_share(waits_by)));
    }
    [connections, idle].into_iter().filter_map(Chart::drawn)
}

fn totals(view: &View<'_>) -> Option<Table> {
    let mut rows = Vec::new();
    for params in view.beside("waits_by") {
        let Ok(case) = Loop::read(params) else {
            continue;
        };
        let figures = [CPU, RATE, MEDIAN, P99].map(|metric| view.shown(&metric.of(case), metric.unit));
        if figures.iter().any(|figure| !figure.is_empty()) {
            let place = [
                case.waits_by.name().to_owned(),
                units::count(case.clients as usize),
                format!("{} %", case.idle_percent),
            ];
            rows.push(place.into_iter().chain(figures).collect());
        }
    }
    (!rows.is_empty()).then(|| {
        table(
            "waits-by",
            "Totals: one loop in C by what it waits by",
            "Messages that come back, one on its way on each connection that is not idle; one CPU.",
            [
                "waits by",
                "connections",
                "idle",
                "CPU a message",
                "messages a second",
                "answer, median",
                "answer, 99th percentile",
            ],
            rows,
        )
    })
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::*;
    use crate::server_designs::EXPERIMENT;

    #[test]
    fn each_way_of_waiting_serves_those_who_talk_beside_those_who_do_not() {
        for waits_by in Waiter::ALL {
            for idle_percent in [0, 75] {
                let case = Loop::of(waits_by, 40, idle_percent).messages(400);
                let sample = testing::measured(&EXPERIMENT, &case.params());
                let rate = sample.value(RATE.name).unwrap();
                assert!(rate > 0.0, "{case:?}: {sample:?}");
            }
        }
    }

    #[test]
    fn more_than_select_can_wait_for_is_a_lack_in_the_plan_and_in_the_sample() {
        let case = |waits_by| Loop::of(waits_by, 4_000, 99).requests(5);
        let lack = case(Waiter::Select).planned().skip.unwrap();
        assert!(
            lack.says
                .starts_with("select waits for descriptors below 1,024 alone"),
            "{lack}"
        );
        assert_eq!(case(Waiter::Poll).lack(), None);
        assert_eq!(Loop::of(Waiter::Select, MANY, 0).lack(), None);
        let sample = testing::sample(&EXPERIMENT, &case(Waiter::Select).params());
        assert_eq!(sample.reason, Some(lack.says));
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let refused = |case: Loop| Loop::read(&case.params()).unwrap_err().to_string();
        let case = Loop::of(Waiter::Poll, 10, 0);
        assert!(refused(case.clients(1)).contains("clients is 1"));
        assert!(refused(case.idle_percent(100)).contains("idle_percent is 100"));
        // One always talks.
        assert_eq!(Loop::of(Waiter::Poll, 2, 99).active(), 1);
    }

    /// A run in which a message costs 10 µs, and by poll and select what `more_ns` says for each connection.
    fn run_of(profile: Profile, more_ns: impl Fn(Loop) -> f64) -> View<'static> {
        let nothing = Plan {
            cases: Vec::new(),
            reference: Params::new(),
            budget: Duration::ZERO,
        };
        let planned = beside(nothing, &testing::site(profile, 2)).cases.into_iter();
        let cases = planned.filter(|planned| planned.skip.is_none()).map(|planned| {
            let case = Loop::read(&planned.params).unwrap();
            let more = match case.waits_by {
                Waiter::Epoll => 0.0,
                _ => more_ns(case),
            };
            let rounds = (0..10).map(|i| (10_000.0 + more) * (1.0 + f64::from(i) * 1e-4));
            testing::case(planned.params, [(CPU, rounds.collect())])
        });
        testing::view("server-designs", profile, cases.collect())
    }

    #[test]
    fn the_answer_says_from_where_on_epoll_is_worth_it() {
        let mut answer = Answer::default();
        // What is looked at for a message: all connections over those that are ready at once.
        let view = run_of(Profile::Paper, |case| {
            10.0 * case.clients as f64 / case.active() as f64 + case.clients as f64 * 2.0 - 200.0
        });
        read(&view, &mut answer);
        let says = "For one loop in C epoll is worth it over poll from 256 connections on where 0 % are idle, from 64 \
                    connections on where 90 % are idle and with 1000 at every share of idle ones; over select from 256";
        assert!(answer.answer.starts_with(says), "{}", answer.answer);
        assert_eq!(answer.figures.len(), 2);
        assert_eq!(answer.figures[0].series.len(), 3);
        assert_eq!(answer.facts.len(), 8);
        // All that have figures: select has none of 4,000.
        assert_eq!(answer.tables[0].rows.len(), 19 * 3 - 4);
        let view = run_of(
            Profile::Standard,
            |case| if case.clients > 64 { 5_000.0 } else { 0.0 },
        );
        assert_eq!(
            sentence(&view),
            "For one loop in C epoll is worth it over poll from 1000 connections on where 90 % are idle and with 1000 from \
             90 % of idle ones on; over select from 1000 connections on where 90 % are idle and with 1000 from 90 % of idle \
             ones on."
        );
        let same = sentence(&run_of(Profile::Standard, |_| 0.0));
        let says = "over poll at no number of connections where 90 % are idle and with 1000 at no share of idle ones";
        assert!(same.contains(says), "{same}");
        // Few rounds have figures and show no difference.
        let few = testing::changed(run_of(Profile::Standard, |_| 5_000.0), |cases| {
            for case in cases {
                case.values
                    .values_mut()
                    .for_each(|rounds| rounds.retain(|round, _| *round <= 3));
                case.all
                    .values_mut()
                    .for_each(|rounds| rounds.retain(|round, _| *round <= 3));
            }
        });
        let mut answer = Answer::default();
        read(&few, &mut answer);
        assert!(
            answer.answer.is_empty() && !answer.facts.is_empty(),
            "{}",
            answer.answer
        );
        let mut nothing = Answer::default();
        read(&run_of(Profile::Quick, |_| 0.0), &mut nothing);
        assert!(nothing.answer.is_empty() && nothing.tables.is_empty() && nothing.figures.is_empty());
    }
}
