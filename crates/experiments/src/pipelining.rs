//! Question: what do numbered requests in flight bring over one request and one answer at a time?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. The clients are
//! [`threadgauge_load`]'s.

use std::num::NonZeroUsize;

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_load::exchange::Numbered;
use threadgauge_load::{Clients, Pace, Ramp, Record, Requests};
use threadgauge_results::{Figure, Table};

use crate::servers::clients::all_answered;
use crate::servers::{Design, cpu_since};

/// Wall time over the answers of all connections.
const TIME: Metric = metric("ns_per_answer", "ns");
const RATE: Metric = metric("answers_per_s", "answers/s");
/// From sending a request to its answer, the median.
const LATENCY: Metric = metric("p50_latency_ns", "ns");
/// The mean number of requests without an answer, over all connections.
const IN_FLIGHT: Metric = metric("in_flight", "requests");
/// CPU time of the server over the answers.
const SERVER: Metric = metric("server_cpu_ns_per_answer", "ns");
/// How busy the client kept its CPU.
const BUSY: Metric = metric("client_cpu_share", "share");

point! {
    /// A point of the grid.
    struct Case {
        design: Design,
        /// How long the step blocks that makes an answer.
        step_ms: u64 = 0..=1_000,
        /// One request of so many has the step, the others none.
        every: u64 = 1..=1_000,
        /// Requests of a connection that may wait for their answers.
        depth: u64 = 1..=256,
        connections: u64 = 1..=1_000,
        server_cpus: u64 = 1..,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "pipelining",
    question: "Do numbered requests that do not wait for the answer before them raise throughput, and on which servers?",
    first_run: false,
    sources: &["002"],
    primary: &[TIME],
    how: "A client on a connection of its own sends requests `NUMBER MS TEXT` to `threadgauge serve numbered` as fast as answers \
          come, with at most `depth` of them unanswered: 1 is request and answer in turns, as HTTP and SMTP have it; more are \
          numbered requests in flight, as IMAP and SIP have them, whose answers may come in any order. To make an answer takes a \
          step that blocks for `step_ms`, here a sleep. With `every=8` only one request of eight has it. After 20 ms the next \
          300 ms are measured. The server has one CPU, the client another where there is one.",
    control: "The same server, client and step with a depth of 1. Every answer is compared with what its number was asked with, \
              and one that is missing or changed fails the sample.",
    traps: &[
        "Only a server that works on several requests of a connection at once gains from a step that blocks. The claim is \
         about those here that do: threads that take turns at events (leader-followers), and a pool behind one event loop \
         (half-sync-half-async), with 15 threads each. The others do a step on the thread that receives.",
        "Where nothing blocks, requests in flight still save system calls and wake-ups, on any server: several come with one \
         receive and go with one send. That gain is step_ms=0, and depends on how fast the client is.",
        "With as many connections as threads nothing is gained: the other connections' requests fill the threads.",
        "A sleep of 1 ms takes about 60 µs more, in all cases alike.",
    ],
    source: "Source 002 says that asynchronous requests with numbers do not wait for each other and that the server schedules \
             them by its resources, and measured neither. The step, its length and the eight requests in flight are the \
             probe's; other depths, designs and the mix of long and short steps are ours.",
    calls: &[],
    plan,
    run,
    read,
};

/// Before what is measured, and that.
const WARM: Duration = Duration::from_millis(20);
const TIMED: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_secs(20);
const TEXT_BYTES: usize = 64;
const DEPTHS: [u64; 6] = [1, 2, 4, CLAIMED, 16, 32];
/// The depth that the claim is about.
const CLAIMED: u64 = 8;
/// Designs that work on several requests of a connection at once.
const AT_ONCE: [Design; 2] = [Design::HalfSyncHalfAsync, Design::LeaderFollowers];
const DESIGNS: [Design; 5] = [
    AT_ONCE[0],
    AT_ONCE[1],
    Design::Reactor,
    Design::ReactorPerCore,
    Design::ThreadPerConnection,
];
/// Of the client's CPU, the most that it may use where the server is to be what is measured.
const BUSIEST: f64 = 0.85;

/// What a case does besides its design and depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    name: &'static str,
    step_ms: u64,
    every: u64,
    connections: u64,
}

/// Each request blocks for a millisecond.
const EACH: Work = Work {
    name: "each blocks 1 ms",
    step_ms: 1,
    every: 1,
    connections: 1,
};
const WORKS: [Work; 4] = [
    EACH,
    Work {
        name: "none blocks",
        step_ms: 0,
        ..EACH
    },
    Work {
        name: "one of eight blocks 8 ms",
        step_ms: 8,
        every: 8,
        ..EACH
    },
    Work {
        name: "each blocks 1 ms, 16 connections",
        connections: 16,
        ..EACH
    },
];

impl Case {
    fn of(work: Work, design: Design, cpus: u64) -> Self {
        Self {
            design,
            step_ms: work.step_ms,
            every: work.every,
            depth: 1,
            connections: work.connections,
            server_cpus: 1,
            cpus,
        }
    }

    fn time(self) -> Statistic {
        TIME.of(self)
    }

    fn planned(self) -> PlannedCase {
        PlannedCase::new(self, Duration::from_millis(30) + WARM + TIMED)
    }
}

/// Of the server and its client.
fn cpus_of(site: &Site) -> u64 {
    site.cpus.len().min(2) as u64
}

fn plan(site: &Site) -> Plan {
    let cpus = cpus_of(site);
    let of = |work: Work, designs: &[Design], depths: &[u64]| -> Vec<Case> {
        let of_design = |&design: &Design| {
            depths
                .iter()
                .map(move |&depth| Case::of(work, design, cpus).depth(depth))
        };
        designs.iter().flat_map(of_design).collect()
    };
    let ends = [1, CLAIMED];
    let cases = match site.profile {
        Profile::Quick => of(EACH, &AT_ONCE, &ends),
        Profile::Standard => {
            let others = WORKS[1..].iter().flat_map(|&work| of(work, &DESIGNS, &ends));
            of(EACH, &DESIGNS, &DEPTHS).into_iter().chain(others).collect()
        }
        Profile::Paper => WORKS
            .iter()
            .flat_map(|&work| of(work, &DESIGNS, &DEPTHS))
            .collect(),
    };
    Plan {
        cases: cases.into_iter().map(Case::planned).collect(),
        reference: Case::of(EACH, AT_ONCE[0], cpus).params(),
        budget: Duration::from_secs(site.profile.pick(25, 190, 1200)),
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::read(params)?;
    let whole = |n: u64| NonZeroUsize::new(n as usize).expect("its range begins at 1");
    let cpus = Cpus::divided(case.server_cpus as usize)?;
    let server = case.design.serve_all("numbered", case.connections, &cpus)?;
    let clients = Clients {
        target: server.address(),
        connections: whole(case.connections),
        pipeline: whole(case.depth),
        timeout: TIMEOUT,
        go_on: false,
    };
    let failed = |error| CaseError::failed("the client", error);
    let exchange = Numbered::new(TEXT_BYTES, case.step_ms, case.every);
    let mut requests = Requests::connect(exchange, clients).map_err(failed)?;
    let mut runs = |span| {
        let record = requests.run(Pace::FAST, Ramp::hold(span), u64::MAX, &mut ());
        record.map_err(failed)
    };
    all_answered(&runs(WARM)?)?;
    let before = server.activity()?;
    let record = runs(TIMED)?;
    let after = server.activity()?;
    drop(requests);
    server.end()?;
    all_answered(&record)?;
    tell(worker, &record, cpu_since(&before, &after));
    Ok(())
}

/// What a client saw, and what the server used for it.
fn tell(worker: &mut Worker, record: &Record, used: Duration) {
    let answers = record.answered as f64;
    let each_ns = record.elapsed.as_nanos() as f64 / answers;
    let busy = record.cpu.as_secs_f64() / record.elapsed.as_secs_f64();
    if busy > BUSIEST {
        worker.tag("client-busy");
    }
    worker.record(TIME, each_ns);
    worker.record(RATE, 1e9 / each_ns);
    worker.record(IN_FLIGHT, record.in_flight_by_law);
    worker.record(SERVER, used.as_nanos() as f64 / answers);
    worker.record(BUSY, busy);
    if let Some(p50_ns) = record.service.ns(0.5) {
        worker.record(LATENCY, p50_ns as f64);
    }
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: DESIGNS.into_iter().find_map(|design| {
            let of = format!(
                "eight requests in flight ÷ one: answers a second of {}",
                design.name()
            );
            view.number(of, &gain(Case::of(EACH, design, cpus(view)), CLAIMED), "ratio")
        }),
        claims: vec![("pipelining-beats-request-response", claimed(view))],
        facts: facts(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: vec![figures_table(view)],
        ..Answer::default()
    }
}

fn cpus(view: &View<'_>) -> u64 {
    view.all_cpus().unwrap_or(1)
}

/// How many times as many answers a second with so many in flight as with one.
fn gain(case: Case, depth: u64) -> Statistic {
    case.depth(1).time().over(case.depth(depth).time())
}

/// On each design that works on several requests at once.
fn claimed(view: &View<'_>) -> Test {
    let cell = |design: Design| {
        let case = Case::of(EACH, design, cpus(view));
        (format!("design={}", design.name()), gain(case, CLAIMED))
    };
    each(Quote::Smallest, AT_ONCE.map(cell))
}

fn answer(view: &View<'_>) -> String {
    let of = |design: Design| {
        let gain = view.estimate(&gain(Case::of(EACH, design, cpus(view)), CLAIMED))?;
        Some(format!("{} times on {}", gain.plain("ratio"), design.name()))
    };
    let gains: Vec<String> = DESIGNS.into_iter().filter_map(of).collect();
    if gains.is_empty() {
        return String::new();
    }
    format!(
        "Where making an answer blocks for a millisecond, eight requests in flight on one connection raise throughput {}.",
        gains.join(", ")
    )
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let of_work = |work: Work| {
        DESIGNS.map(|design| {
            let case = Case::of(work, design, cpus(view));
            let gain = view.estimate(&gain(case, CLAIMED))?;
            let in_flight = view.estimate(&IN_FLIGHT.of(case.depth(CLAIMED)));
            let in_flight = in_flight.map_or_else(String::new, |mean| {
                format!(", with {} unanswered in the mean", mean.plain(""))
            });
            let says = format!(
                "{}, {}: eight requests in flight raise throughput {} times{in_flight}.",
                work.name,
                design.name(),
                gain.show("ratio")
            );
            Some(gain.fact(says, "ratio"))
        })
    };
    WORKS.map(of_work).into_iter().flatten().flatten().collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for work in WORKS {
        for design in DESIGNS {
            let case = Case::of(work, design, cpus(view));
            pairs.extend(DEPTHS[1..].iter().map(|&depth| (case, case.depth(depth))));
        }
    }
    let is_planned = |case: Case| view.planned(case).next().is_some();
    pairs.retain(|(a, b)| is_planned(*a) && is_planned(*b));
    pairs
        .into_iter()
        .map(|(a, b)| Pair::of(&a.time(), &b.time()))
        .collect()
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let by_depth = |what: &str, work: Work, id: String, of: fn(Case) -> Statistic| {
        let title = format!("{what} by requests in flight: {}", work.name);
        let chart = Chart::new(view, id, title).x(Scale::Log, "requests in flight");
        DESIGNS.into_iter().fold(chart, |chart, design| {
            let case = Case::of(work, design, cpus(view));
            chart.line(design.name(), DEPTHS.map(|depth| (depth, of(case.depth(depth)))))
        })
    };
    let rates = WORKS.into_iter().enumerate().map(|(i, work)| {
        by_depth("Answers a second", work, format!("rate-{i}"), |case| {
            RATE.of(case)
        })
        .y(Scale::Log, "answers a second")
    });
    let latency = by_depth("Latency", WORKS[2], "latency".to_owned(), |case| {
        LATENCY.of(case).times(1e-6)
    })
    .y(Scale::Log, "median latency, ms")
    .note(
        "Seven of eight requests have no step. Where answers keep the order they wait for the one that has.",
    );
    rates.chain([latency]).filter_map(Chart::drawn).collect()
}

fn figures_table(view: &View<'_>) -> Table {
    let mut rows = Vec::new();
    for work in WORKS {
        for design in DESIGNS {
            for depth in DEPTHS {
                let case = Case::of(work, design, cpus(view)).depth(depth);
                let figures = [RATE, LATENCY, IN_FLIGHT, SERVER].map(|of| view.shown(&of.of(case), of.unit));
                if figures.iter().any(|figure| !figure.is_empty()) {
                    let place = [work.name.to_owned(), design.name().to_owned(), depth.to_string()];
                    rows.push(place.into_iter().chain(figures).collect());
                }
            }
        }
    }
    table(
        "figures",
        "Throughput, latency and what is unanswered",
        "Request and answer in turns leave at most one unanswered on a connection.",
        [
            "requests",
            "design",
            "in flight, at most",
            "throughput",
            "median latency",
            "in flight, mean",
            "server's CPU, an answer",
        ],
        rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_results::{Sample, Verdict};

    const CLAIM: &str = "pipelining-beats-request-response";

    /// A run of a profile on two CPUs in which a request takes 1 ms, and with several in flight so many times less.
    fn run_of(profile: Profile, gain: impl Fn(Case) -> f64) -> View<'static> {
        let cases = plan(&testing::site(profile, 2)).cases.into_iter().map(|planned| {
            let case = Case::read(&planned.params).unwrap();
            let gain = if case.depth == 1 { 1.0 } else { gain(case) };
            let rounds = |value: f64| (0..7).map(|i| value * (1.0 + f64::from(i) / 1000.0)).collect();
            let figures = [
                (TIME, rounds(1e6 / gain)),
                (RATE, rounds(1e3 * gain)),
                (LATENCY, rounds(1e6)),
                (IN_FLIGHT, rounds(case.depth as f64)),
                (SERVER, rounds(1e4)),
            ];
            testing::case(planned.params, figures)
        });
        testing::view("pipelining", profile, cases.collect())
    }

    fn verdict(view: &View<'_>) -> Verdict {
        testing::verdict(&claimed(view), CLAIM, view).unwrap()
    }

    #[test]
    fn the_claim_is_about_each_design_that_works_on_several_requests_at_once() {
        assert_eq!(verdict(&run_of(Profile::Quick, |_| 7.0)), Verdict::Holds);
        let one_alone = |case: Case| if case.design == AT_ONCE[1] { 1.0 } else { 7.0 };
        assert_eq!(verdict(&run_of(Profile::Quick, one_alone)), Verdict::DoesNotHold);
        let one_cpu = plan(&testing::site(Profile::Quick, 1)).cases;
        assert!(one_cpu.iter().all(|case| case.params.int("cpus") == Some(1)));
        let none = testing::view("pipelining", Profile::Quick, Vec::new());
        assert_eq!(verdict(&none), Verdict::NotMeasured);
    }

    #[test]
    fn what_is_read_off_has_its_figures() {
        let gain = |case: Case| if AT_ONCE.contains(&case.design) { 7.5 } else { 1.1 };
        let view = run_of(Profile::Standard, gain);
        let says = answer(&view);
        assert!(says.contains("7.50 times on half-sync-half-async"), "{says}");
        let facts = facts(&view);
        assert_eq!(facts.len(), WORKS.len() * DESIGNS.len());
        assert!(
            facts[0].says.contains("with 8.02 unanswered"),
            "{}",
            facts[0].says
        );
        assert_eq!(charts(&view).len(), WORKS.len() + 1);
        let rows = DESIGNS.len() * (DEPTHS.len() + 2 * (WORKS.len() - 1));
        assert_eq!(figures_table(&view).rows.len(), rows);
        assert_eq!(figures_table(&run_of(Profile::Quick, gain)).rows.len(), 4);
    }

    #[test]
    fn times_are_of_each_answer() {
        let record = |cpu_ms| Record {
            answered: 300,
            elapsed: Duration::from_millis(6),
            cpu: Duration::from_millis(cpu_ms),
            in_flight_by_law: 3.5,
            ..Record::default()
        };
        let told = |cpu_ms| {
            let case = &plan(&testing::site(Profile::Quick, 2)).cases[0];
            let mut worker = testing::worker(&EXPERIMENT, &case.params);
            tell(&mut worker, &record(cpu_ms), Duration::from_micros(600));
            worker.finish(Ok(()))
        };
        let sample = told(3);
        let figures = [TIME, RATE, IN_FLIGHT, SERVER, BUSY].map(|of| sample.value(of.name).unwrap());
        assert_eq!(figures, [2e4, 5e4, 3.5, 2_000.0, 0.5]);
        assert_eq!(sample.value(LATENCY.name), None, "nothing was timed");
        let is_busy = |sample: &Sample| sample.tags.iter().any(|tag| tag == "client-busy");
        assert!(!is_busy(&sample) && is_busy(&told(6)));
    }
}
