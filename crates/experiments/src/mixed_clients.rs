//! Question: does the order of designs under uniform clients predict their order under mixed ones?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. The clients are
//! [`threadgauge_load`]'s.

use std::num::NonZeroUsize;

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_lab::worker::Lap;
use threadgauge_load::exchange::Bytes;
use threadgauge_load::{Behaviour, Class, ClassRecord, Clients as Connections, run_mixed};
use threadgauge_results::{Figure, Table};
use threadgauge_stats::kendall_tau;

use crate::servers::Design;

/// Wall time over the good answers to those who want answers; where there was none, the time of all.
const TIME: Metric = metric("ns_per_answer", "ns");
const RATE: Metric = metric("answers_per_s", "answers/s");
/// Of the requests of those who want answers, those that had none within the timeout.
const FAILED: Metric = metric("failed_share", "share");
/// Of the fast clients, the 99th percentile from sending a request to its answer.
const LATENCY: Metric = metric("fast_p99_latency_ns", "ns");
/// CPU time of the server's processes and threads, over good answers.
const SERVER: Metric = metric("server_cpu_ns_per_answer", "ns");
/// How busy the clients kept their CPUs.
const BUSY: Metric = metric("clients_cpu_share", "share");

words! {
    /// Who asks.
    enum Clients {
        Uniform = "uniform",
        /// The same a second time: how far two orders agree where nothing differs.
        UniformAgain = "uniform-again",
        Mixed = "mixed",
    }
}

point! {
    /// A point of the grid.
    struct Case {
        design: Design,
        clients: Clients,
        connections: u64 = 20..=1_000,
        server_cpus: u64 = 1..,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "mixed-clients",
    question: "Does the order of server designs under uniform clients predict their order under mixed ones?",
    first_run: false,
    sources: &["003"],
    primary: &[TIME],
    how: "40 clients ask `threadgauge serve bytes` for 400 ms, a connection for each request, as fast as answers come. \
          `clients=uniform`: all want 4,000 bytes and read them at once. `clients=mixed`: of 20, eight do so, four want 16,000 \
          bytes, three read 32 KB a second, two give up after 50 ms and try again, two connect and say nothing, and one sends a \
          byte every 50 ms and never a whole request. The order of the designs is that of good answers a second to those who \
          want answers. The agreement of two orders is Kendall's tau: 1 where all pairs of designs stand alike, -1 where none \
          does, 0 where as many do as do not. It is taken in each round. The server has one CPU, the clients another where \
          there is one; designs with processes or threads made beforehand have 15.",
    control: "The uniform clients are measured twice in each round, as cells of their own (`uniform-again`). Their two orders \
              differ by noise alone, and their tau is the most that any other can be.",
    traps: &[
        "Designs that are equally fast change places by chance, which lowers tau. So the claim holds only where the uniform \
         order is found again (tau of at least 0.6), and mixed clients change it all the same.",
        "A design with a fixed number of processes or threads serves as many connections at once, and clients that hold \
         theirs for long keep them from the others: how many are idle or slow decides more than the design. The weights are \
         ours.",
        "No time-out is set on the server: with one it would get rid of idle and slow clients, and the order would be another.",
        "Where the clients used over 85 % of their CPU the sample is tagged `clients-busy`: cheap designs are then equally fast.",
    ],
    source: "Source 003 says that tests with identical clients do not represent fast, slow, patient, impatient and hostile ones, \
             and measured none. The classes are its words; their weights and figures are ours.",
    calls: &[],
    plan,
    run,
    read,
};

const CONNECTIONS: u64 = 40;
const HOLD: Duration = Duration::from_millis(400);
/// Of a request. No longer than what is measured, since a run waits so long for what a starved server leaves.
const TIMEOUT: Duration = Duration::from_millis(400);
const BYTES: usize = 4_000;
const LARGE_BYTES: usize = 16_000;
/// Of their CPUs, the most that clients may use where the server is to be what is measured.
const BUSIEST: f64 = 0.85;
/// The least agreement of the uniform order with itself.
const FOUND_AGAIN: f64 = 0.6;
/// Those whose order is asked for.
const DESIGNS: [Design; 11] = [
    Design::Iterative,
    Design::ProcessPerConnection,
    Design::PreforkedAccept,
    Design::PreforkedDescriptor,
    Design::ThreadPerConnection,
    Design::PrethreadedMutex,
    Design::PrethreadedAcceptor,
    Design::Reactor,
    Design::SplitReactor,
    Design::LeaderFollowers,
    Design::HalfSyncHalfAsync,
];
const QUICK: [Design; 2] = [Design::Reactor, Design::PrethreadedMutex];

impl Clients {
    /// The classes, each with its weight.
    fn classes(self) -> Vec<Class> {
        let think = Duration::ZERO;
        let class = |name: &str, weight: f64, behaviour| Class {
            name: name.to_owned(),
            weight,
            behaviour,
        };
        let fast = |weight| class("fast", weight, Behaviour::Fast { think });
        if self != Self::Mixed {
            return vec![fast(1.0)];
        }
        let slow = Behaviour::SlowReader {
            bytes_per_second: 32_000.0,
            think,
        };
        let patience = Duration::from_millis(50);
        vec![
            fast(8.0),
            class(
                "large",
                4.0,
                Behaviour::Large {
                    bytes: LARGE_BYTES.into(),
                    think,
                },
            ),
            class("slow reader", 3.0, slow),
            class("impatient", 2.0, Behaviour::Impatient { patience, think }),
            class("idle", 2.0, Behaviour::Idle),
            class("slow loris", 1.0, Behaviour::SlowLoris { every: patience }),
        ]
    }
}

impl Case {
    const fn of(design: Design, clients: Clients, cpus: u64) -> Self {
        Self {
            design,
            clients,
            connections: CONNECTIONS,
            server_cpus: 1,
            cpus,
        }
    }

    fn time(self) -> Statistic {
        TIME.of(self)
    }

    fn planned(self) -> PlannedCase {
        let waits = match self.clients {
            Clients::Mixed => Duration::from_millis(40),
            Clients::Uniform | Clients::UniformAgain => Duration::from_millis(30),
        };
        PlannedCase::new(self, Duration::from_millis(30) + HOLD + waits)
    }
}

/// Of the server and its clients.
fn cpus_of(site: &Site) -> u64 {
    site.cpus.len().min(2) as u64
}

fn plan(site: &Site) -> Plan {
    let cpus = cpus_of(site);
    let of = |designs: &[Design], clients: &[Clients]| -> Vec<Case> {
        let of_design = |&design: &Design| {
            clients
                .iter()
                .map(move |&clients| Case::of(design, clients, cpus))
        };
        designs.iter().flat_map(of_design).collect()
    };
    let cases = match site.profile {
        Profile::Quick => of(&QUICK, &[Clients::Uniform, Clients::Mixed]),
        Profile::Standard | Profile::Paper => of(&DESIGNS, &Clients::ALL),
    };
    Plan {
        cases: cases.into_iter().map(Case::planned).collect(),
        reference: Case::of(Design::Reactor, Clients::Uniform, cpus).params(),
        budget: Duration::from_secs(site.profile.pick(25, 300, 1200)),
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::read(params)?;
    let cpus = Cpus::divided(case.server_cpus as usize)?;
    let server = case.design.serve("bytes", &cpus)?;
    let plan = Connections {
        target: server.address(),
        connections: NonZeroUsize::new(case.connections as usize).expect("its range begins at 20"),
        pipeline: NonZeroUsize::MIN,
        timeout: TIMEOUT,
        go_on: false,
    };
    let exchange = |class: &Class| match class.behaviour {
        Behaviour::Large { bytes, .. } => Bytes::new(bytes),
        _ => Bytes::new(BYTES),
    };
    let stopwatch = worker.stopwatch();
    let classes = run_mixed(&case.clients.classes(), plan, HOLD, u64::MAX, 1, exchange, &())
        .map_err(|error| CaseError::failed("the clients", error))?;
    let lap = stopwatch.stop();
    // Children that served a connection have ended, and their time with them is in what the end tells.
    let used = server.end()?;
    record(worker, Heard::of(&classes), lap, cpus.clients.len(), used);
    Ok(())
}

/// What clients on so many CPUs heard while the load held, and what the server used for it.
fn record(worker: &mut Worker, heard: Heard, lap: Lap, cpus: usize, used: Duration) {
    let span_ns = HOLD.as_nanos() as f64;
    let each_ns = span_ns / heard.answered.max(1) as f64;
    let busy = lap.cpu_ns as f64 / lap.wall_ns as f64 / cpus as f64;
    if busy > BUSIEST {
        worker.tag("clients-busy");
    }
    worker.record(TIME, each_ns);
    worker.record(RATE, 1e9 * heard.answered as f64 / span_ns);
    worker.record(
        FAILED,
        heard.failed as f64 / (heard.answered + heard.failed).max(1) as f64,
    );
    worker.record(BUSY, busy);
    if heard.answered > 0 {
        worker.record(SERVER, used.as_nanos() as f64 / heard.answered as f64);
    }
    if let Some(p99_ns) = heard.fast_p99_ns {
        worker.record(LATENCY, p99_ns as f64);
    }
}

/// What became of the requests of those who want answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    answered: u64,
    failed: u64,
    fast_p99_ns: Option<u64>,
}

impl Heard {
    fn of(classes: &[ClassRecord]) -> Self {
        let want = || classes.iter().filter(|of| of.class.behaviour.wants_answers());
        let fast = want().find(|of| matches!(of.class.behaviour, Behaviour::Fast { .. }));
        Self {
            answered: want().map(|of| of.record.answered).sum(),
            failed: want()
                .map(|of| of.record.failures.total() + of.record.unfinished)
                .sum(),
            fast_p99_ns: fast.and_then(|of| of.record.service.ns(0.99)),
        }
    }
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        advice: advice(view).map(|(_, advice)| advice).unwrap_or_default(),
        number: view.number(
            "Kendall's tau of the orders under uniform and under mixed clients: 1 where they are the same",
            &agreement(view, TIME, UNLIKE),
            "",
        ),
        claims: vec![("uniform-load-does-not-predict-mixed-load", claimed(view))],
        facts: facts(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: std::iter::once(figures_table(view))
            .chain(orders_table(view))
            .collect(),
        ..Answer::default()
    }
}

fn cpus(view: &View<'_>) -> u64 {
    view.all_cpus().unwrap_or(1)
}

/// How far the orders of the designs under two loads agree, in each round.
fn agreement(view: &View<'_>, of: Metric, [a, b]: [Clients; 2]) -> Statistic {
    tau(&[a, b].map(|clients| cells(view, of, clients)))
}

/// A figure of all designs under a load.
fn cells(view: &View<'_>, of: Metric, clients: Clients) -> [Statistic; DESIGNS.len()] {
    DESIGNS.map(|design| of.of(Case::of(design, clients, cpus(view))))
}

/// How far two orders of the designs agree.
fn tau(orders: &[[Statistic; DESIGNS.len()]; 2]) -> Statistic {
    Statistic::function(orders.concat(), |figures| {
        let (a, b) = figures.split_at(DESIGNS.len());
        kendall_tau(a, b).unwrap_or(f64::NAN)
    })
}

const UNLIKE: [Clients; 2] = [Clients::Uniform, Clients::Mixed];
const ALIKE: [Clients; 2] = [Clients::Uniform, Clients::UniformAgain];

/// By the times of an answer. Where there is no order twice alike, noise alone would decide.
fn claimed(view: &View<'_>) -> Test {
    let is_planned = |&design: &Design| {
        view.planned(Case::of(design, Clients::UniformAgain, cpus(view)))
            .next()
            .is_some()
    };
    if !DESIGNS.iter().all(is_planned) {
        return not_measured(
            "needs all designs under both loads; `threadgauge run mixed-clients --profile standard` has them",
        );
    }
    let found_again = Range {
        min: FOUND_AGAIN,
        max: 1.0,
    };
    Test::from(agreement(view, TIME, UNLIKE)).also(
        "the order under uniform clients is found again when it is measured twice",
        found_again.of("Kendall tau"),
        agreement(view, TIME, ALIKE),
    )
}

fn answer(view: &View<'_>) -> String {
    let tau = |loads| Some(view.estimate(&agreement(view, TIME, loads))?.plain("ratio"));
    let (Some(unlike), Some(alike)) = (tau(UNLIKE), tau(ALIKE)) else {
        return "An order needs all designs under both loads; `--profile standard` has them.".to_owned();
    };
    let orders = advice(view).map(|(orders, _)| orders).unwrap_or_default();
    format!(
        "The orders of eleven designs under uniform and under mixed clients agree with Kendall's tau of {unlike}, where the \
         uniform order agrees with itself, measured again, with {alike}.{orders}"
    )
}

/// What designs are ranked by under mixed clients, the least first: by speed, and by two kinds of steadiness.
const RANKED_BY: [(Metric, &str); 3] = [
    (TIME, "answers a second"),
    (LATENCY, "99th percentile of the fast ones"),
    (FAILED, "share without an answer in time"),
];

/// The place of each design that has a figure: the first is nobody's but those to whom no other is better by more than
/// could be chance. So designs that cannot be told apart share a place.
fn places(view: &View<'_>, of: Metric) -> Vec<(Design, usize)> {
    let figure = |design| of.of(Case::of(design, Clients::Mixed, cpus(view)));
    let there: Vec<Design> = DESIGNS
        .into_iter()
        .filter(|&design| view.measured(&figure(design)))
        .collect();
    let is_better = |other: Design, design: Design| {
        let apart = figure(other).less(figure(design));
        view.resolved(&apart) && view.value(&apart).is_some_and(|apart| apart < 0.0)
    };
    let place = |&design: &Design| {
        let better = there.iter().filter(|&&other| is_better(other, design)).count();
        (design, better + 1)
    };
    there.iter().map(place).collect()
}

/// Which design to take for mixed clients, and that the source prefers the steadier where that is another.
/// In what the orders differ, where they do, and what to do.
fn advice(view: &View<'_>) -> Option<(String, String)> {
    let first = |(of, _): (Metric, &str)| -> Vec<Design> {
        let places = places(view, of).into_iter();
        places
            .filter_map(|(design, place)| (place == 1).then_some(design))
            .collect()
    };
    let named = |designs: &[Design]| {
        let names: Vec<&str> = designs.iter().map(|design| design.name()).collect();
        names.join(", ")
    };
    let [fast, prompt, kept] = RANKED_BY.map(first);
    if [&fast, &prompt, &kept].iter().any(|first| first.is_empty()) {
        return None;
    }
    let in_all: Vec<Design> = fast
        .iter()
        .copied()
        .filter(|design| prompt.contains(design) && kept.contains(design))
        .collect();
    Some(if in_all.is_empty() {
        let orders = format!(
            " Under mixed clients the orders differ: first by answers a second: {}; by the 99th percentile of the fast ones: \
             {}; by the share without an answer in time: {}.",
            named(&fast),
            named(&prompt),
            named(&kept)
        );
        let advice = format!(
            "Where somebody waits for answers take {}; where only their number counts take {}.",
            named(&prompt),
            named(&fast)
        );
        (orders, advice)
    } else {
        let advice = format!(
            "For mixed clients take {}: no other gives more answers a second, has a smaller 99th percentile of the fast \
             clients or leaves fewer without an answer in time.",
            named(&in_all)
        );
        (String::new(), advice)
    })
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |of: &Statistic, unit: &str, says: String| {
        let figure = view.estimate(of)?;
        Some(figure.fact(says.replace("{}", &figure.show(unit)), unit))
    };
    let taus = [
        (
            TIME,
            UNLIKE,
            "By answers a second, the uniform and the mixed order agree with a tau of {}.",
        ),
        (
            TIME,
            ALIKE,
            "By answers a second, two measurements of the uniform order agree with a tau of {}.",
        ),
        (
            SERVER,
            ALIKE,
            "By the server's CPU time an answer, two measurements of the uniform order agree with a tau of {}.",
        ),
    ];
    let taus = taus.map(|(of, loads, says)| fact(&agreement(view, of, loads), "ratio", says.to_owned()));
    let steadier = [LATENCY, FAILED].into_iter().zip(&RANKED_BY[1..]).map(|(of, (_, by))| {
        let orders = [TIME, of].map(|of| cells(view, of, Clients::Mixed));
        let says = format!("Under mixed clients the order by the {by} agrees with that by answers a second with a tau of {{}}.");
        fact(&tau(&orders), "ratio", says)
    });
    let slower = DESIGNS.map(|design| {
        let case = |clients| Case::of(design, clients, cpus(view)).time();
        let says = format!(
            "{} takes {{}} times as long for an answer under mixed clients as under uniform ones.",
            design.name()
        );
        fact(&case(Clients::Mixed).over(case(Clients::Uniform)), "ratio", says)
    });
    taus.into_iter().chain(steadier).chain(slower).flatten().collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let of = |design, clients| Case::of(design, clients, cpus(view));
    let reactor = |clients| of(Design::Reactor, clients);
    let mut pairs = Vec::new();
    for design in DESIGNS {
        pairs.push((of(design, Clients::Uniform), of(design, Clients::Mixed)));
        pairs.extend(UNLIKE.map(|clients| (reactor(clients), of(design, clients))));
    }
    let is_planned = |case: Case| view.planned(case).next().is_some();
    pairs.retain(|(a, b)| a != b && is_planned(*a) && is_planned(*b));
    pairs
        .into_iter()
        .map(|(a, b)| Pair::of(&a.time(), &b.time()))
        .collect()
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let by_design = |id: &str, title: &str, of: Metric, factor: f64| {
        let chart = Chart::new(view, id, title).x(Scale::Category, "design");
        UNLIKE.into_iter().fold(chart, |chart, clients| {
            let point = |design: Design| {
                (
                    design.name(),
                    of.of(Case::of(design, clients, cpus(view))).times(factor),
                )
            };
            chart.line(clients.name(), DESIGNS.map(point))
        })
    };
    let rate = by_design(
        "rate",
        "Good answers under uniform and under mixed clients",
        RATE,
        1e-3,
    )
    .y(Scale::Linear, "thousand answers a second");
    let latency = by_design(
        "latency",
        "The 99th percentile of the fast clients",
        LATENCY,
        1e-6,
    )
    .y(Scale::Log, "from request to answer, ms")
    .note("Of answers alone: a design that gives none within the timeout has no point.");
    [rate, latency].into_iter().filter_map(Chart::drawn).collect()
}

fn figures_table(view: &View<'_>) -> Table {
    let mut rows = Vec::new();
    for design in DESIGNS {
        for clients in Clients::ALL {
            let case = Case::of(design, clients, cpus(view));
            let figures = [RATE, FAILED, LATENCY, SERVER, BUSY].map(|of| view.shown(&of.of(case), of.unit));
            if figures.iter().any(|figure| !figure.is_empty()) {
                let place = [design.name().to_owned(), clients.name().to_owned()];
                rows.push(place.into_iter().chain(figures).collect());
            }
        }
    }
    table(
        "figures",
        "Every design under both loads",
        "Answers and failures are those of clients that want answers. The server's CPU time includes its start and end.",
        [
            "design",
            "clients",
            "answers",
            "failed",
            "99th percentile, fast ones",
            "server's CPU, an answer",
            "clients' CPUs busy",
        ],
        rows,
    )
}

/// The places of the designs under mixed clients.
fn orders_table(view: &View<'_>) -> Option<Table> {
    let orders = RANKED_BY.map(|(of, _)| places(view, of));
    let place = |order: &[(Design, usize)], design: Design| {
        let found = order.iter().find(|(of, _)| *of == design);
        found.map(|(_, place)| *place)
    };
    let mut designs: Vec<Design> = orders[0].iter().map(|(design, _)| *design).collect();
    designs.sort_by_key(|&design| {
        orders
            .each_ref()
            .map(|order| place(order, design).unwrap_or(usize::MAX))
    });
    let row = |design: Design| {
        let places = orders.each_ref().map(|order| place(order, design));
        let places = places.map(|place| place.map_or_else(String::new, |place| place.to_string()));
        std::iter::once(design.name().to_owned()).chain(places).collect()
    };
    let rows: Vec<Vec<String>> = designs.into_iter().map(row).collect();
    (rows.len() > 1).then(|| {
        table(
            "orders",
            "Places of the designs under mixed clients",
            "By three figures. A design's place is the number of designs that are better by more than could be chance \
             (95 %, each pair by itself), and one: those that these rounds cannot tell apart share it. Empty: no fast client had an answer.",
            std::iter::once("design").chain(RANKED_BY.map(|(_, by)| by)),
            rows,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_load::Record;
    use threadgauge_results::{Need, Verdict, claim, decide};

    const CLAIM: &str = "uniform-load-does-not-predict-mixed-load";

    /// A run of a profile in which each design takes so long for an answer, by its place, load and round.
    fn run_of(profile: Profile, us: impl Fn(usize, Clients, u32) -> f64) -> View<'static> {
        run_with(profile, |place, clients, round| {
            [us(place, clients, round), 1.0, 0.0]
        })
    }

    /// The same with the 99th percentile, too, in µs, and the share without an answer.
    fn run_with(profile: Profile, figures: impl Fn(usize, Clients, u32) -> [f64; 3]) -> View<'static> {
        let cases = plan(&testing::site(profile, 2)).cases.into_iter().map(|planned| {
            let case = Case::read(&planned.params).unwrap();
            let place = DESIGNS.iter().position(|design| *design == case.design).unwrap();
            let rounds = |which: usize, factor: f64| {
                (0..7)
                    .map(|round| figures(place, case.clients, round)[which] * factor)
                    .collect()
            };
            let figures = [
                (TIME, rounds(0, 1e3)),
                (SERVER, rounds(0, 1e2)),
                (LATENCY, rounds(1, 1e3)),
                (FAILED, rounds(2, 1.0)),
            ];
            testing::case(planned.params, figures)
        });
        testing::view("mixed-clients", profile, cases.collect())
    }

    fn found(view: &View<'_>) -> (Verdict, Option<f64>) {
        let claim = claim(CLAIM).expect("a published claim");
        let evidence = claimed(view).evidence(view, claim);
        let found = decide(claim, &claim.unit, &evidence, testing::ALPHA);
        (found.verdict.unwrap(), found.measured)
    }

    #[test]
    fn times_are_of_each_answer_while_the_load_held() {
        let case = Case::of(DESIGNS[0], Clients::Mixed, 2);
        let figures = [TIME, RATE, FAILED, BUSY, SERVER, LATENCY];
        let recorded = |heard, cpu_ms: u64| {
            let mut worker = testing::worker(&EXPERIMENT, &case.params());
            let lap = Lap {
                wall_ns: 100_000_000,
                cpu_ns: cpu_ms * 1_000_000,
            };
            record(&mut worker, heard, lap, 2, Duration::from_micros(600));
            let sample = worker.finish(Ok(()));
            let values = figures.map(|metric| sample.value(metric.name));
            (values, sample.tags.iter().any(|tag| tag == "clients-busy"))
        };
        let heard = Heard {
            answered: 300,
            failed: 100,
            fast_p99_ns: Some(7),
        };
        let hold_ns = HOLD.as_nanos() as f64;
        let of_each = [hold_ns / 300.0, 3e11 / hold_ns, 0.25, 0.5, 2_000.0, 7.0];
        assert_eq!(recorded(heard, 100), (of_each.map(Some), false));
        assert!(
            recorded(heard, 199).1,
            "clients that need all of their CPUs are named"
        );
        let silent = Heard {
            answered: 0,
            failed: 0,
            fast_p99_ns: None,
        };
        let nothing = [Some(hold_ns), Some(0.0), Some(0.0), Some(0.5), None, None];
        assert_eq!(recorded(silent, 100), (nothing, false));
    }

    #[test]
    fn mixed_clients_that_turn_the_order_round_bear_the_claim_out_and_the_same_order_refutes_it() {
        let turned = |place: usize, clients, _| match clients {
            Clients::Mixed => 100.0 - place as f64,
            Clients::Uniform | Clients::UniformAgain => 10.0 + place as f64,
        };
        assert_eq!(
            found(&run_of(Profile::Standard, turned)),
            (Verdict::Holds, Some(-1.0))
        );
        let same = |place: usize, _, round: u32| 10.0 + place as f64 + f64::from(round) / 100.0;
        assert_eq!(
            found(&run_of(Profile::Standard, same)),
            (Verdict::DoesNotHold, Some(1.0))
        );
    }

    #[test]
    fn an_order_that_noise_makes_does_not_bear_the_claim_out() {
        // Nothing but noise, another one in each cell and round.
        let noise = |place: usize, clients: Clients, round: u32| {
            let seed = place as u64 * 1_000 + clients as u64 * 100 + u64::from(round);
            10.0 + fastrand::Rng::with_seed(seed).f64()
        };
        let (verdict, _) = found(&run_of(Profile::Standard, noise));
        assert_ne!(verdict, Verdict::Holds);
    }

    #[test]
    fn two_designs_are_no_order() {
        let view = run_of(Profile::Quick, |_, _, _| 1.0);
        assert_eq!(found(&view).0, Verdict::NotMeasured);
        let Test::Lacking { lack, .. } = claimed(&view) else {
            panic!("it is lacking");
        };
        assert!(
            lack.of == Need::Profile && lack.says.contains("--profile standard"),
            "{lack}"
        );
        assert!(answer(&view).contains("all designs under both loads"));
    }

    #[test]
    fn what_is_read_off_has_its_figures() {
        let view = run_of(Profile::Standard, |place, clients, _| match clients {
            Clients::Mixed => 20.0 + 2.0 * place as f64,
            Clients::Uniform | Clients::UniformAgain => 10.0 + place as f64,
        });
        assert!(
            answer(&view).contains("agree with Kendall's tau of 1.00"),
            "{}",
            answer(&view)
        );
        let facts = facts(&view);
        // Where all have one latency there is no order to agree with.
        assert_eq!(facts.len(), 3 + DESIGNS.len());
        assert!(
            facts
                .iter()
                .any(|fact| fact.says.starts_with("reactor takes 2.00"))
        );
        assert_eq!(figures_table(&view).rows.len(), 3 * DESIGNS.len());
        assert!(!comparisons(&view).is_empty());
    }

    #[test]
    fn those_that_cannot_be_told_apart_share_a_place_and_the_steadier_is_named_beside_the_faster() {
        // The first is fastest; the last two are the steadiest, and differ by noise alone. All leave as many.
        let view = run_with(Profile::Standard, |place, _, round| {
            let noise = f64::from((round + place as u32) % 3) / 100.0;
            let last_two = (DESIGNS.len() - 2).min(place);
            [
                10.0 + place as f64 + noise,
                900.0 - 10.0 * last_two as f64 + noise,
                0.1,
            ]
        });
        let count = DESIGNS.len();
        let placed = |of| places(&view, of).into_iter().map(|(_, place)| place);
        assert!(placed(TIME).eq(1..=count));
        assert!(placed(LATENCY).eq((3..=count).rev().chain([1, 1])));
        assert!(placed(FAILED).all(|place| place == 1));
        let says = answer(&view);
        assert!(
            says.contains("first by answers a second: iterative; by the 99th percentile of the fast ones: leader-followers, half-sync-half-async;"),
            "{says}"
        );
        assert!(
            advice(&view)
                .unwrap()
                .1
                .starts_with("Where somebody waits for answers take leader-followers, half-sync-half-async; where only their number counts take iterative.")
        );
        let table = orders_table(&view).unwrap();
        assert_eq!(table.rows[0], ["iterative", "1", "11", "1"]);
        assert_eq!(table.rows[count - 1], ["half-sync-half-async", "11", "1", "1"]);
        let agree = |by: &str| {
            facts(&view)
                .into_iter()
                .find(|fact| fact.says.contains(by))
                .unwrap()
                .says
        };
        assert!(
            agree("by the 99th percentile of the fast ones agrees").contains("a tau of −0."),
            "{}",
            agree("by the 99th")
        );
    }

    #[test]
    fn what_is_first_in_all_is_what_to_take() {
        let view = run_with(Profile::Standard, |place, _, _| {
            let place = place as f64;
            [10.0 + place, 100.0 + place, place / 100.0]
        });
        let (orders, says) = advice(&view).unwrap();
        assert!(
            orders.is_empty() && says.starts_with("For mixed clients take iterative: no other gives"),
            "{says}"
        );
    }

    #[test]
    fn only_those_who_want_answers_count_and_weights_are_those_that_the_text_names() {
        let classes = Clients::Mixed.classes();
        let weights: f64 = classes.iter().map(|class| class.weight).sum();
        assert_eq!(weights, 20.0);
        assert_eq!(Clients::Uniform.classes(), Clients::UniformAgain.classes());
        let records: Vec<ClassRecord> = classes
            .into_iter()
            .map(|class| ClassRecord {
                class,
                connections: 1,
                record: Record {
                    answered: 10,
                    unfinished: 1,
                    ..Record::default()
                },
            })
            .collect();
        let heard = Heard::of(&records);
        assert_eq!((heard.answered, heard.failed, heard.fast_p99_ns), (40, 4, None));
    }
}
