//! Question: what does a user get who takes another server for messages to groups?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print.

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_load::{LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES};
use threadgauge_results::{Figure, Table};

use crate::servers::clients::{Addresses, WARM_UP, halved, has_room};
use crate::servers::contenders::{PEERS, Who};
use crate::servers::groups::{Demand, Drivers, GROUP, GroupClients, HALF, fills_groups, takes};
use crate::servers::{cpu_since, pairs, times_others};

/// CPU time of all threads of the server for a delivery.
const CPU: Metric = metric("server_cpu_ns_per_delivery", "ns");
/// Wall time of a delivery.
const TIME: Metric = metric("ns_per_delivery", "ns");
/// Of deliveries from the intended start of their message, under a fixed rate.
const DELAY: Metric = metric("delay_ns_p50", "ns");
const DELAY_P99: Metric = metric("delay_ns_p99", "ns");
/// The share of its time that a thread of clients was on a CPU.
const CLIENTS: Metric = metric("client_cpu_share", "share");

point! {
    /// A point of the grid.
    struct Case {
        who: Who,
        connections: u64 = 10..=10_000,
        /// Messages that each member has on their way; 0 under a fixed rate.
        outstanding: u64 = 0..=64,
        /// Deliveries a second; 0 as fast as possible.
        rate: u64 = 0..=10_000_000,
        payload_bytes: u64 = LEAST_PAYLOAD_BYTES as u64..=MOST_PAYLOAD_BYTES as u64,
        span_ms: u64 = 1..=60_000,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "peers",
    question: "What does a message to a group cost on nats-server, redis-server, mosquitto and uWebSockets, beside ours?",
    first_run: false,
    sources: &[],
    primary: &[CPU],
    how: "Each server runs alone on one CPU and the clients, threads of the worker, on the others, one on each. Clients form groups of \
          ten in the server's own protocol: NATS, RESP, MQTT 3.1.1 or WebSocket. A message goes to the nine others; every \
          delivery is checked. A message has 128 bytes, in the paper profile also 16 and 1,024. Saturated, each member has 1 \
          or 16 messages on their way; under a fixed rate messages start at random times whatever becomes of those before, and \
          the delay counts from the intended start. The figure is the server's CPU time for a delivery, after 100 ms of warm-up.",
    control: "floor: a plain C program, one loop that does nothing but forward, all sends of a turn in one submission to io_uring. \
              Beyond the quick profile, half the connections: where a delivery then costs a server another CPU time, its figure is \
              of these clients and not of the server alone.",
    traps: &[
        "Servers are compared in protocols of their own: a server's figure is that of a server with its protocol. Redis and MQTT \
         3.1.1 deliver a message to its sender too, which is work and counts as a delivery.",
        "How much one turn of a server finds to do depends on how fast the clients are, which speak each protocol at a speed of \
         its own. Elapsed times say little; CPU time for a delivery is the server's own.",
        "Under a fixed rate a sample fails where under 99 % of the rate was reached, or a thread of clients used over 85 % of its CPU.",
        "uWebSockets is a library: what is measured is `guests/cpp/uws_groups.cpp`, where somebody has compiled it to `uws_groups` on \
         the path. nginx forwards no messages to groups: the experiment `http` has it.",
        "A server that is not on the path is skipped, and a claim about it is not testable.",
    ],
    source: "No source compared its server with others. The bounds are targets of this project.",
    calls: &[],
    plan,
    run,
    read,
};

const LOADS: [u64; 4] = [100, 1_000, 5_000, 10_000];
const RATES: [u64; 2] = [20_000, 200_000];
const PIPELINED: u64 = 16;
/// Of messages, besides the size that the claims are about; in the largest profile alone.
const SIZES: [u64; 2] = [16, 1024];

/// Ours with 1,000 connections, each with one message on its way.
const OURS: Case = Case {
    who: Who::Ours,
    connections: 1_000,
    outstanding: 1,
    rate: 0,
    payload_bytes: 128,
    span_ms: 250,
    cpus: 2,
};

impl Case {
    const fn fixed(self, rate: u64) -> Self {
        self.outstanding(0).rate(rate)
    }

    fn of(self, metric: Metric) -> Statistic {
        metric.of(self.any(&["span_ms", "cpus"]))
    }

    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        fills_groups(params, case.connections)?;
        if (case.outstanding == 0) == (case.rate == 0) {
            return Err(refused(params, "outstanding", "at least 1, or 0 with a rate"));
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
    let fixed = base.span_ms(profile.pick(120, 1_000, 3_000));
    let levels: Vec<Case> = match profile {
        Profile::Quick => vec![base.connections(100)],
        Profile::Standard | Profile::Paper => {
            let saturated = LOADS.map(|load| base.connections(load)).into_iter();
            let pipelined = LOADS[..2]
                .iter()
                .map(|&load| base.connections(load).outstanding(PIPELINED));
            let sizes = profile.pick(&[][..], &[], &SIZES);
            let sizes = sizes.iter().map(|&bytes| base.payload_bytes(bytes));
            let rates = RATES.map(|rate| fixed.fixed(rate));
            let control = [base.connections(HALF)].into_iter();
            saturated
                .chain(pipelined)
                .chain(sizes)
                .chain(rates)
                .chain(control)
                .collect()
        }
    };
    let cases = levels
        .into_iter()
        .flat_map(|level| Who::ALL.map(|who| level.who(who)));
    Plan {
        cases: cases.map(Case::planned).collect(),
        reference: base.connections(LOADS[0]).params(),
        budget: Duration::from_secs(profile.pick(25, 330, 3600)),
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
        codec: case.who.codec(),
        group: GROUP,
        connections: case.connections,
        payload_bytes: case.payload_bytes,
    };
    let demand = match case.rate {
        0 => Demand::Outstanding(case.outstanding),
        rate => Demand::Rate(rate),
    };
    let drivers = Drivers::connect(clients, &cpus)?;
    drivers.talk(Demand::Outstanding(case.outstanding.max(1)), WARM_UP)?;
    let before = server.activity()?;
    let talked = drivers.talk(demand, Duration::from_millis(case.span_ms))?;
    let after = server.activity()?;
    let deliveries = talked.deliveries as f64;
    worker.record(CPU, cpu_since(&before, &after).as_nanos() as f64 / deliveries);
    worker.record(TIME, talked.elapsed.as_nanos() as f64 / deliveries);
    worker.record(CLIENTS, talked.cpu_share(drivers.threads()));
    for (metric, q) in [(DELAY, 0.5), (DELAY_P99, 0.99)] {
        if let Some(ns) = talked.latency.ns(q) {
            worker.record(metric, ns as f64);
        }
    }
    drop(drivers);
    contender.end(worker)
}

/// How many times as many deliveries a CPU second ours makes: by CPU time of one, so the other way round.
fn gain(level: Case, who: Who) -> Statistic {
    level.who(who).of(CPU).over(level.of(CPU))
}

/// Deliveries for a second of the server's CPU time.
fn per_cpu(case: Case) -> Statistic {
    Statistic::function([case.of(CPU)], |v| 1e6 / v[0])
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view.number(
            format!(
                "{} ÷ ours: CPU time of a delivery, {} connections",
                PEERS[0].name(),
                LOADS[0]
            ),
            &gain(OURS.connections(LOADS[0]), PEERS[0]),
            "ratio",
        ),
        claims: claims(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: [Some(levels_table(view)), halved_table(view)]
            .into_iter()
            .flatten()
            .collect(),
        ..Answer::default()
    }
}

/// What a run lacks for a server whose program was not there: every profile has its fewest connections.
fn lacks(view: &View<'_>, who: Who) -> Option<Lack> {
    let lack = view.estimated(&OURS.connections(LOADS[0]).who(who).of(CPU)).err();
    lack.filter(|lack| lack.of == Need::Program)
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let saturated = |loads: &[u64]| {
        loads
            .iter()
            .map(|&load| OURS.connections(load))
            .collect::<Vec<_>>()
    };
    let pipelined = LOADS[..2]
        .iter()
        .map(|&load| OURS.connections(load).outstanding(PIPELINED));
    let pipelined: Vec<Case> = pipelined.collect();
    let over = |levels: &[Case], who: Who| -> Test {
        if let Some(lack) = lacks(view, who) {
            return lack.into();
        }
        let is_planned = |level: &&Case| {
            view.planned(level.who(who).any(&["span_ms", "cpus"]))
                .next()
                .is_some()
        };
        let planned: Vec<Case> = levels.iter().filter(is_planned).copied().collect();
        let cells = planned.iter().map(|&level| (level.words(), gain(level, who)));
        each(Quote::Smallest, cells).of_a_part(
            planned.len() == levels.len(),
            "`threadgauge run peers --profile standard` has all loads",
        )
    };
    let rated = |rate: u64, of: fn(Case, Who) -> Statistic, quote: Quote| -> Test {
        let level = OURS.fixed(rate);
        let (here, missing): (Vec<Who>, Vec<Who>) =
            PEERS.into_iter().partition(|&who| lacks(view, who).is_none());
        if here.is_empty() {
            let missing = missing.into_iter().find_map(|who| lacks(view, who));
            return missing.map_or_else(|| each(quote, []), Test::from);
        }
        let measured = |who: &Who| view.measured(&of(level, *who));
        let any = here.iter().any(measured);
        let judged = here.into_iter().filter(|who| !any || measured(who));
        each(quote, judged.map(|who| (who.name().to_owned(), of(level, who))))
    };
    vec![
        (
            "groups-3-5-times-nats-server-of-few",
            over(&saturated(&LOADS[..1]), Who::NatsServer),
        ),
        (
            "groups-4-times-nats-server-of-many",
            over(&saturated(&LOADS[1..]), Who::NatsServer),
        ),
        (
            "groups-ahead-of-redis-server",
            over(&saturated(&LOADS), Who::Redis),
        ),
        (
            "groups-as-good-as-uwebsockets",
            over(&saturated(&LOADS), Who::UWebSockets),
        ),
        ("groups-near-a-floor-in-c", over(&saturated(&LOADS), Who::Floor)),
        (
            "groups-pipelined-5-times-nats-server",
            over(&pipelined, Who::NatsServer),
        ),
        (
            "groups-pipelined-3-times-redis-server",
            over(&pipelined, Who::Redis),
        ),
        (
            "groups-ahead-of-peers-at-20000-a-second",
            rated(RATES[0], gain, Quote::Smallest),
        ),
        (
            "groups-as-good-as-peers-at-200000-a-second",
            rated(RATES[1], gain, Quote::Smallest),
        ),
        (
            "groups-no-later-than-peers-at-200000-a-second",
            rated(
                RATES[1],
                |level, who| level.of(DELAY_P99).over(level.who(who).of(DELAY_P99)),
                Quote::Largest,
            ),
        ),
    ]
}

impl Case {
    /// Its load, in words.
    fn words(self) -> String {
        let load = match self.rate {
            0 => format!("{} outstanding", self.outstanding),
            rate => format!("{rate} deliveries a second"),
        };
        let bytes = match self.payload_bytes {
            usual if usual == OURS.payload_bytes => String::new(),
            bytes => format!(", {bytes} bytes"),
        };
        format!("{} connections, {load}{bytes}", self.connections)
    }
}

/// Every load of any profile.
fn levels() -> Vec<Case> {
    let saturated = LOADS.map(|load| OURS.connections(load));
    let pipelined = [LOADS[0], LOADS[1]].map(|load| OURS.connections(load).outstanding(PIPELINED));
    let sizes = SIZES.map(|bytes| OURS.payload_bytes(bytes));
    let rates = RATES.map(|rate| OURS.fixed(rate));
    let all = saturated.into_iter().chain(pipelined);
    all.chain(sizes)
        .chain(rates)
        .chain([OURS.connections(HALF)])
        .collect()
}

fn answer(view: &View<'_>) -> String {
    let level = OURS.connections(LOADS[0]);
    let Some(ours) = view.estimate(&per_cpu(level)) else {
        return String::new();
    };
    let others = [&PEERS[..], &[Who::Floor]].concat();
    let gains = others.into_iter().map(|who| (gain(level, who), who.name()));
    let beside = times_others(view, gains);
    let is_absent = |who: &Who| {
        let of_it = level.who(*who);
        view.planned(of_it).next().is_some() && !view.measured(&per_cpu(of_it))
    };
    let absent: Vec<&str> = PEERS.into_iter().filter(is_absent).map(Who::name).collect();
    let absent = match absent.is_empty() {
        true => String::new(),
        false => format!(" Not measured: {}.", absent.join(", ")),
    };
    format!(
        "With {} connections ours forwards {} messages for a second of its CPU time{beside}.{absent}",
        level.connections,
        ours.plain("thousand")
    )
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let others = Who::ALL.into_iter().filter(|&who| who != Who::Ours);
    let beside = |level: Case| others.clone().map(move |who| (level.who(who), level));
    pairs(view, &["span_ms", "cpus"], levels().into_iter().flat_map(beside))
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let by_load = |id: &str, title: &str, axis: &str, of: fn(Case) -> Statistic| {
        let chart = Chart::new(view, id, title)
            .note("One message outstanding for each member. The server on one CPU, the clients on others.")
            .x(Scale::Log, "connections")
            .y(Scale::Log, axis);
        Who::ALL.into_iter().fold(chart, |chart, who| {
            chart.line(
                who.name(),
                LOADS.map(|load| (load, of(OURS.who(who).connections(load)))),
            )
        })
    };
    let mut delay = Chart::new(view, "delay", "Delay under a fixed rate")
        .note("From the intended start of a message until one of its nine receivers has it; 1,000 connections. 99th percentile.")
        .x(Scale::Log, "deliveries a second")
        .y(Scale::Log, "delay, ms");
    for who in Who::ALL {
        delay = delay.line(
            who.name(),
            RATES.map(|rate| (rate, OURS.fixed(rate).who(who).of(DELAY_P99).times(1e-6))),
        );
    }
    let efficiency = by_load(
        "efficiency",
        "What a second of a server's CPU time forwards",
        "thousand messages a server CPU second",
        per_cpu,
    );
    [efficiency, delay].into_iter().filter_map(Chart::drawn).collect()
}

fn levels_table(view: &View<'_>) -> Table {
    let mut rows = Vec::new();
    for level in levels() {
        for who in Who::ALL {
            let case = level.who(who);
            if !view.measured(&case.of(CPU)) {
                continue;
            }
            let rate = Statistic::function([case.of(TIME)], |v| 1e6 / v[0]);
            let times = if who == Who::Ours {
                String::new()
            } else {
                view.shown(&gain(level, who), "ratio")
            };
            rows.push(vec![
                level.words(),
                who.name().to_owned(),
                view.shown(&per_cpu(case), ""),
                view.shown(&rate, ""),
                times,
                view.shown(&case.of(CLIENTS), "share"),
                view.shown(&case.of(DELAY), "ns"),
                view.shown(&case.of(DELAY_P99), "ns"),
            ]);
        }
    }
    table(
        "peers",
        "Ours beside others",
        "A ratio above 1: ours forwards more for a second of its CPU time.",
        [
            "load",
            "server",
            "thousand messages a CPU second",
            "thousand a second",
            "ours over it",
            "clients' CPU",
            "delay, median",
            "delay, 99 %",
        ],
        rows,
    )
}

/// Whether the clients are a part of what is measured.
fn halved_table(view: &View<'_>) -> Option<Table> {
    let halves = Who::ALL.map(|who| {
        let whole = OURS.who(who);
        (
            who.name().to_owned(),
            whole.connections(HALF).of(CPU),
            whole.of(CPU),
        )
    });
    halved(view, ("server", "delivery"), HALF, halves)
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::{Status, Verdict};

    use super::*;

    #[test]
    fn the_floor_forwards_everything_and_what_is_not_here_is_skipped() {
        let base = OURS.connections(20).span_ms(20);
        for case in [base.who(Who::Floor), base.who(Who::Floor).fixed(2_000)] {
            // On a busy machine a rate is reached only over a longer time.
            let spans = [20, 100, 500, 2_500].map(|ms| case.span_ms(ms).params());
            let mut samples = spans.iter().map(|params| testing::sample(&EXPERIMENT, params));
            let served = samples.find(|sample| sample.status == Status::Ok);
            let served = served.unwrap_or_else(|| panic!("{case:?} failed over any time"));
            assert!(served.value(CPU.name).unwrap() > 0.0, "{served:?}");
        }
        let sample = testing::sample(&EXPERIMENT, &base.who(Who::UWebSockets).params());
        if sample.status != Status::Ok {
            assert_eq!(sample.status, Status::Skipped, "{:?}", sample.reason);
            assert!(sample.reason.unwrap().contains("uws_groups"));
        }
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                OURS.connections(15),
                "connections is 15; it must be a multiple of 10",
            ),
            (
                OURS.rate(7),
                "outstanding is 1; it must be at least 1, or 0 with a rate",
            ),
            (
                OURS.outstanding(0),
                "outstanding is 0; it must be at least 1, or 0 with a rate",
            ),
        ] {
            let reason = testing::sample(&EXPERIMENT, &case.params()).reason.unwrap();
            assert!(reason.contains(says), "{reason}");
        }
    }

    /// All cases of the largest profile: ours takes 1 µs of CPU for a delivery, the others so many times that.
    fn view(profile: Profile, times: f64) -> View<'static> {
        let cases = plan(&testing::site(profile, 2)).cases.into_iter();
        let case = |planned: PlannedCase| {
            let case = Case::possible(&planned.params).unwrap();
            let ns = if case.who == Who::Ours {
                1_000.0
            } else {
                1_000.0 * times
            };
            let figures = [CPU, TIME, DELAY_P99].map(|metric| (metric, vec![ns; 7]));
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
    fn our_targets_are_met_where_others_take_more_and_missed_where_they_take_less() {
        let all = |verdict: Verdict, of: Vec<Option<Verdict>>| of.iter().all(|found| *found == Some(verdict));
        assert!(all(Verdict::Holds, verdicts(&view(Profile::Paper, 6.0))));
        assert!(all(Verdict::DoesNotHold, verdicts(&view(Profile::Paper, 0.5))));
        // Standard has all that the claims are about.
        assert!(all(Verdict::Holds, verdicts(&view(Profile::Standard, 6.0))));
        // One load refutes, and does not confirm.
        let quick = |times| verdicts(&view(Profile::Quick, times))[2];
        assert_eq!(quick(6.0), Some(Verdict::Inconclusive));
        assert_eq!(quick(0.5), Some(Verdict::DoesNotHold));
        assert_eq!(
            verdicts(&view(Profile::Quick, 6.0))[5],
            Some(Verdict::NotMeasured)
        );
    }

    #[test]
    fn a_claim_about_a_program_that_is_not_here_is_not_testable_and_the_others_are_judged_without_it() {
        let without = |missing: &'static [Who], profile| {
            testing::changed(view(profile, 6.0), |cases| {
                for case in cases {
                    if missing.contains(&Case::read(&case.params).unwrap().who) {
                        let lack = Lack::new(Need::Program, "needs a program that is not here");
                        *case = testing::lacking(case.params.clone(), lack);
                    }
                }
            })
        };
        for profile in Profile::ALL {
            let one = verdicts(&without(&[Who::UWebSockets], profile));
            let all = verdicts(&without(&PEERS, profile));
            let ids: Vec<&str> = read(&view(profile, 6.0))
                .claims
                .iter()
                .map(|(id, _)| *id)
                .collect();
            for ((id, one), all) in ids.into_iter().zip(one).zip(all) {
                let about_it = id == "groups-as-good-as-uwebsockets";
                assert_eq!(one == Some(Verdict::NotTestable), about_it, "{id}: {one:?}");
                let about_ours_alone = id == "groups-near-a-floor-in-c";
                assert_eq!(
                    all == Some(Verdict::NotTestable),
                    !about_ours_alone,
                    "{id}: {all:?}"
                );
            }
        }
    }

    #[test]
    fn the_answer_the_table_and_the_charts_have_the_figures() {
        let whole = read(&view(Profile::Standard, 2.0));
        assert!(
            whole
                .answer
                .starts_with("With 100 connections ours forwards 1.00 million messages"),
            "{}",
            whole.answer
        );
        assert!(
            whole.answer.contains("2.00 times nats-server"),
            "{}",
            whole.answer
        );
        assert_eq!(whole.figures.len(), 2);
        assert_eq!(whole.tables[0].rows[1][4], "2.00 [2.00, 2.00]");
        let nothing = read(&testing::view(EXPERIMENT.id, Profile::Quick, Vec::new()));
        assert!(nothing.answer.is_empty() && nothing.figures.is_empty());
        assert_eq!(nothing.tables.len(), 1);
    }

    #[test]
    fn a_delivery_that_costs_another_time_with_half_the_connections_is_told() {
        let unchanged = |view: &View<'_>| -> Vec<String> {
            let table = read(view).tables.into_iter().find(|table| table.id == "halved");
            let rows = table.unwrap().rows.into_iter();
            rows.map(|row| row[2].clone()).collect()
        };
        let same = view(Profile::Standard, 2.0);
        assert_eq!(unchanged(&same), ["yes"; Who::ALL.len()]);
        let dearer = testing::changed(same, |cases| {
            for case in cases {
                if Case::read(&case.params).unwrap().connections == HALF {
                    *case = testing::case(case.params.clone(), [(CPU, vec![2_200.0; 7])]);
                }
            }
        });
        assert_eq!(unchanged(&dearer), ["no"; Who::ALL.len()]);
    }
}
