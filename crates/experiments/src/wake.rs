//! Question: how soon does a unit that is woken answer?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `guests/c/wake.c` does it.

use std::process::Stdio;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Table};

use crate::channels::{Means, Placement, Unit, WAKE};
use crate::guests::{Found, figures};

/// From asking to the answer: the middle, what 99 of 100 are not above, and the last.
const MEDIAN: Metric = metric("answer_ns_p50", "ns");
const P99: Metric = metric("answer_ns_p99", "ns");
const WORST: Metric = metric("answer_ns_max", "ns");
const SWITCHES: Metric = metric("switches_per_ask", "switches");

words! {
    /// How many waiters an event wakes.
    enum Wakes { One = "one", All = "all" }
}

point! {
    /// A point of the grid.
    struct Case {
        unit: Unit,
        means: Means,
        waiters: u64 = 1..=4096,
        wakes: Wakes,
        asks: u64 = 1..=1_000_000,
        placement: Placement,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "wake",
    question: "How soon does a unit that is woken answer, by what, on which CPU, and how much longer where one event wakes many?",
    first_run: true,
    sources: &[],
    primary: &[MEDIAN, P99],
    how: "A small C program has one unit ask, which wakes another and sleeps until that one answers by the same means; each \
          of `asks` questions is timed by itself, after a tenth as many that are not. A sample has their median, 99th \
          percentile and largest. With several waiters all of them wait for one event, in epoll instances of their own at \
          one eventfd (epoll) or at one word in memory (futex); whoever takes the event answers by a futex. It wakes one \
          of them (EPOLLEXCLUSIVE; FUTEX_WAKE of 1) or all, and the next event comes when those woken in vain have had \
          time to sleep again.",
    control: "spin: two units that look at one word in memory again and again and never sleep, each on its own CPU: what \
              passing a word from CPU to CPU takes without the kernel.",
    traps: &[
        "An answer is two wake-ups, there and back: half of it is about one.",
        "Across CPUs the one that is woken may be halted, which in a virtual machine costs tens of microseconds, or \
         not yet, which takes less: look at the distribution and not at its middle alone.",
        "The largest of 2,000 answers (1,000 where several wait) is what other programs and the hypervisor do, more than the means.",
        "A futex's waiter may find its word set before it sleeps, and saves the system call; a pipe's may not.",
        "Waiters that an event wakes in vain are mostly seen by the kernel alone: they sleep again without returning. \
         switches_per_ask has them, by getrusage, with the pause between two events.",
    ],
    source: "No source measured a wake-up. Source 003 names what many waiters cost, the thundering herd of accept; \
             `server-designs` tests it on servers.",
    calls: &[],
    plan,
    run,
    read,
};

/// Of one that waits.
const ASKS: u64 = 2_000;
/// Of waiters that have to sleep again in between: the fewest for a 99th percentile.
const ASKS_OF_MANY: u64 = 1_000;
/// How many wait for one event.
const CROWDS: [u64; 3] = [4, 16, 64];
const CROWD: u64 = CROWDS[1];
const BOTH: [Unit; 2] = [Unit::Thread, Unit::Process];
const MEANS: [Means; 6] = [
    Means::Futex,
    Means::Eventfd,
    Means::Pipe,
    Means::Condvar,
    Means::Unix,
    Means::Tcp,
];
const OF_EVENTS: [Means; 2] = [Means::Epoll, Means::Futex];

/// A thread that is woken by a futex, on one CPU.
const THREAD: Case = Case {
    unit: Unit::Thread,
    means: Means::Futex,
    waiters: 1,
    wakes: Wakes::One,
    asks: ASKS,
    placement: Placement::Same,
    cpus: 1,
};

impl Case {
    const fn across(self) -> Self {
        self.placement(Placement::Across).cpus(2)
    }

    const fn of_event(self, means: Means, waiters: u64, wakes: Wakes) -> Self {
        self.means(means).waiters(waiters).wakes(wakes).asks(ASKS_OF_MANY)
    }

    fn of(self, metric: Metric) -> Statistic {
        metric.of(self.any(&["asks"]))
    }

    /// Reads parameters, which `--set` may have changed.
    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        let wants = |name, wanted: &str| Err(refused(params, name, wanted));
        if case.unit == Unit::Coroutine {
            return wants(
                "unit",
                "one that the kernel can wake: thread, process or shared-process",
            );
        }
        if case.means == Means::Jump {
            return wants("means", "one that wakes; jump is between coroutines, in `ring`");
        }
        if case.means == Means::Spin && case.placement != Placement::Across {
            return wants(
                "means",
                "one that sleeps, but with placement=across: on one CPU the other would wait for it",
            );
        }
        if case.waiters > 1 && !OF_EVENTS.contains(&case.means) {
            return wants("means", "epoll or futex, where several wait for one event");
        }
        if case.waiters == 1 && case.wakes == Wakes::All {
            return wants("wakes", "one, where one waits");
        }
        case.placement.check(params).map(|()| case)
    }

    fn planned(self) -> PlannedCase {
        PlannedCase {
            skip: WAKE.missing(),
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, self.takes())
        }
    }

    /// On a virtual machine with two CPUs.
    fn takes(self) -> Duration {
        let each_us = match self.unit {
            Unit::Process => 170,
            _ => 40,
        };
        let woken = if self.wakes == Wakes::All { self.waiters } else { 1 };
        let pause_us = if OF_EVENTS.contains(&self.means) && (self.waiters > 1 || self.means == Means::Epoll)
        {
            105 + 5 * self.waiters
        } else {
            0
        };
        let answer_us = match self.placement {
            _ if self.means == Means::Spin => 1,
            Placement::Same => 6,
            Placement::Across | Placement::Sibling | Placement::Free => 45,
        };
        let ask_us = pause_us + answer_us + 3 * woken;
        Duration::from_micros(10_000 + (1 + self.waiters) * each_us + self.asks * 11 / 10 * ask_us)
    }
}

fn plan(site: &Site) -> Plan {
    let profile = site.profile;
    let all_cpus = (site.cpus.len() as u64).max(2);
    let placed = |case: Case| [case, case.across()];
    let by_means = |unit: Unit, means: &[Means]| -> Vec<Case> {
        let cases = means.iter().map(|&means| THREAD.unit(unit).means(means));
        cases.flat_map(placed).collect()
    };
    let some = profile.pick(&MEANS[..5], &MEANS, &MEANS);
    let of_processes = profile.pick(&MEANS[..1], &MEANS, &MEANS);
    let mut cases = [
        by_means(Unit::Thread, some),
        by_means(Unit::Process, of_processes),
    ]
    .concat();
    cases.extend(
        BOTH.map(|unit| THREAD.unit(unit).means(Means::Spin).across())
            .iter()
            .take(profile.pick(1, 2, 2)),
    );
    let crowds = profile.pick(&CROWDS[1..2], &CROWDS, &CROWDS);
    let mut of_events = vec![THREAD.of_event(Means::Epoll, 1, Wakes::One)];
    for &waiters in crowds {
        for means in OF_EVENTS {
            of_events.extend(Wakes::ALL.map(|wakes| THREAD.of_event(means, waiters, wakes)));
        }
    }
    if profile != Profile::Quick {
        let free = of_events
            .clone()
            .into_iter()
            .map(|case| case.placement(Placement::Free).cpus(all_cpus));
        let elsewhere: Vec<Case> = free.collect();
        let siblings = BOTH.map(|unit| THREAD.unit(unit).placement(Placement::Sibling).cpus(all_cpus));
        cases.extend(siblings);
        of_events.extend(elsewhere);
    }
    cases.extend(of_events);
    Plan {
        cases: cases.into_iter().map(Case::planned).collect(),
        reference: THREAD.params(),
        budget: Duration::from_secs(profile.pick(20, 300, 3600)),
    }
}

figures! {
    /// What `guests/c/wake.c` answers.
    struct Answers {
        p50_ns,
        p99_ns,
        max_ns,
        switches,
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let warm_asks = case.asks / 10;
    let found: Found<Answers> = WAKE.ask(
        worker,
        Stdio::null(),
        &[
            &case.unit.name(),
            &case.means.name(),
            &case.waiters,
            &case.wakes.name(),
            &case.asks,
            &warm_asks,
            &case.placement.pinned()?,
        ],
        PlannedCase::new(case, case.takes()).deadline(),
        case.unit.made_by(),
    )?;
    let answers = found.figures;
    worker.record(MEDIAN, answers.p50_ns as f64 * found.stretch);
    // Of fewer, a 99th percentile is one of a few.
    if case.asks >= ASKS_OF_MANY {
        worker.record(P99, answers.p99_ns as f64 * found.stretch);
    }
    worker.record(WORST, answers.max_ns as f64 * found.stretch);
    worker.record(SWITCHES, answers.switches as f64 / (case.asks + warm_asks) as f64);
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view.number(
            "until a thread answers that slept at a futex, on the same CPU",
            &THREAD.of(MEDIAN),
            "ns",
        ),
        facts: facts(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: vec![distributions(view)],
        costs: costs(view),
        ..Answer::default()
    }
}

/// An event that wakes all over one that wakes one of them.
fn herd(means: Means, metric: Metric) -> Statistic {
    let of = |wakes| THREAD.of_event(means, CROWD, wakes).of(metric);
    of(Wakes::All).over(of(Wakes::One))
}

fn answer(view: &View<'_>) -> String {
    let answers = |on: &str, case: Case| {
        let [middle, most] = [MEDIAN, P99].map(|metric| view.estimate(&case.of(metric)));
        let (middle, most) = (middle?.plain("ns"), most?.plain("ns"));
        Some(format!("after {middle} on {on} (99 of 100 within {most})"))
    };
    let mut parts = Vec::new();
    let placed = [("the same CPU", THREAD), ("another", THREAD.across())];
    let placed: Vec<String> = placed
        .into_iter()
        .filter_map(|(on, case)| answers(on, case))
        .collect();
    if !placed.is_empty() {
        parts.push(format!(
            "A thread that sleeps at a futex answers {}.",
            placed.join(", and ")
        ));
    }
    if let Some(times) = view.estimate(&herd(Means::Epoll, MEDIAN)) {
        parts.push(format!(
            "An event that wakes all of {CROWD} waiters is answered after {} times as long as one that wakes one.",
            times.plain("ratio")
        ));
    }
    if parts.is_empty() {
        return String::new();
    }
    parts.join(" ")
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |of: Statistic, unit: &str, says: String| {
        let figure = view.estimate(&of)?;
        Some(figure.fact(says.replace("{}", &figure.show(unit)), unit))
    };
    let processes = THREAD.unit(Unit::Process);
    let mut facts = vec![
        fact(
            processes.of(MEDIAN).over(THREAD.of(MEDIAN)),
            "ratio",
            "A process that is woken by a futex on the same CPU takes {} times as long to answer as a thread.".to_owned(),
        ),
        fact(
            THREAD.across().of(MEDIAN).over(THREAD.of(MEDIAN)),
            "ratio",
            "A thread on another CPU takes {} times as long to answer as one on the same.".to_owned(),
        ),
        fact(
            THREAD.means(Means::Spin).across().of(MEDIAN),
            "ns",
            "Two threads that never sleep, each on its own CPU, ask and answer in {}: the floor.".to_owned(),
        ),
    ];
    for means in OF_EVENTS {
        let by = means.name();
        facts.push(fact(
            herd(means, MEDIAN),
            "ratio",
            format!("With {CROWD} threads that wait for one event by {by} on one CPU, waking all takes {{}} times as long as \
                     waking one."),
        ));
        let switches = |wakes| THREAD.of_event(means, CROWD, wakes).of(SWITCHES);
        let more = switches(Wakes::All).less(switches(Wakes::One));
        facts.push(fact(
            more,
            "count",
            format!("Waking all of {CROWD} by {by} adds {{}} switches to an event."),
        ));
    }
    facts.into_iter().flatten().collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for unit in BOTH {
        for base in [THREAD.unit(unit), THREAD.unit(unit).across()] {
            pairs.extend(MEANS[1..].iter().map(|&means| (base, base.means(means))));
        }
        pairs.push((THREAD.unit(unit), THREAD.unit(unit).across()));
    }
    pairs.extend(MEANS.map(|means| (THREAD.means(means), THREAD.means(means).unit(Unit::Process))));
    for means in OF_EVENTS {
        let of = |waiters, wakes| THREAD.of_event(means, waiters, wakes);
        pairs.extend(CROWDS.map(|waiters| (of(waiters, Wakes::One), of(waiters, Wakes::All))));
    }
    let planned = |case: Case| view.planned(case.any(&["asks"])).next().cloned();
    let pair = |(a, b)| {
        Some(Pair {
            a: planned(a)?,
            b: planned(b)?,
        })
    };
    pairs.into_iter().filter_map(pair).collect()
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let spread = |id: &str, title: &str, placed: fn(Case) -> Case| {
        let of = |means: Means| placed(THREAD.means(means));
        let all = [&MEANS[..], &[Means::Spin]].concat();
        let chart = Chart::new(view, id, title)
            .note("From asking to the answer, two wake-ups: of each sample's answers the middle, the 99th percentile and the largest.")
            .x(Scale::Category, "means")
            .y(Scale::Log, "time until the answer, µs");
        let lines = [("median", MEDIAN), ("99th percentile", P99), ("largest", WORST)];
        lines.into_iter().fold(chart, |chart, (name, metric)| {
            let points = all
                .iter()
                .map(|&means| (means.name(), of(means).of(metric).times(1e-3)));
            chart.line(name, points)
        })
    };
    let mut crowd = Chart::new(view, "waiters", "One event, many waiters, on one CPU")
        .note("Until the one that takes the event has answered; the median. One waiter by futex is asked by its own word.")
        .x(Scale::Log, "threads that wait")
        .y(Scale::Log, "time until the answer, µs")
        .at_least(2);
    for means in OF_EVENTS {
        for wakes in Wakes::ALL {
            let alone = match means {
                Means::Futex => THREAD,
                _ => THREAD.of_event(means, 1, Wakes::One),
            };
            let of_crowd = CROWDS.map(|waiters| THREAD.of_event(means, waiters, wakes));
            let points = std::iter::once(alone).chain(of_crowd);
            let name = format!("{}, wakes {}", means.name(), wakes.name());
            crowd = crowd.line(
                name,
                points.map(|case| (case.waiters, case.of(MEDIAN).times(1e-3))),
            );
        }
    }
    let all = [&MEANS[..], &[Means::Spin]].concat();
    let medians = |placed: fn(Case) -> Case| {
        let of = move |means: Means| placed(THREAD.means(means)).of(MEDIAN).times(1e-3);
        all.iter().map(move |&means| (means.name(), of(means)))
    };
    let middle = Chart::new(view, "median", "How long until a thread that waits has answered")
        .note("From asking to the answer, two wake-ups: the median. Each waits at one of these means.")
        .x(Scale::Category, "means")
        .y(Scale::Log, "time until the answer, µs")
        .line("on the same CPU", medians(|case| case))
        .line("on another CPU", medians(Case::across));
    [
        middle,
        spread("same", "A thread on the same CPU answers", |case| case),
        spread("across", "A thread on another CPU answers", Case::across),
        crowd,
    ]
    .into_iter()
    .filter_map(Chart::drawn)
    .collect()
}

/// Each means with its distribution.
fn distributions(view: &View<'_>) -> Table {
    let mut rows = Vec::new();
    for unit in BOTH {
        for (on, placed) in [
            ("the same CPU", THREAD.unit(unit)),
            ("another CPU", THREAD.unit(unit).across()),
        ] {
            for means in [&MEANS[..], &[Means::Spin]].concat() {
                let case = placed.means(means);
                if view.measured(&case.of(MEDIAN)) {
                    let mut row = vec![unit.name().to_owned(), on.to_owned(), means.name().to_owned()];
                    row.extend([MEDIAN, P99, WORST].map(|metric| view.shown(&case.of(metric), "ns")));
                    rows.push(row);
                }
            }
        }
    }
    table(
        "distribution",
        "Until one waiter answers",
        "Each figure is the median over rounds of that of a round.",
        ["unit", "on", "by", "median", "99th percentile", "largest"],
        rows,
    )
}

fn costs(view: &View<'_>) -> Vec<Cost> {
    let of = |what: &str, how: &str, case: Case, metric: Metric| {
        view.cost((what, case.unit.kind()), how, &case.of(metric), "ns")
    };
    let by = "by futex, there and back";
    let mut costs = Vec::new();
    for unit in BOTH {
        let same = THREAD.unit(unit);
        costs.push(of("wake and be answered, one CPU", by, same, MEDIAN));
        let across = of("wake and be answered, another CPU", by, same.across(), MEDIAN);
        costs.push(match unit {
            Unit::Thread => across.map(|cost| cost.named("wake a thread on another CPU, and be answered")),
            _ => across,
        });
        costs.push(of(
            "wake and be answered, another CPU, 99 of 100",
            by,
            same.across(),
            P99,
        ));
    }
    costs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;

    #[test]
    fn every_ask_is_answered_by_every_unit_and_means() {
        let pairs = [Unit::Thread, Unit::Process, Unit::SharedProcess]
            .into_iter()
            .flat_map(|unit| MEANS.map(|means| THREAD.unit(unit).means(means)));
        let crowds = BOTH.into_iter().flat_map(|unit| {
            OF_EVENTS
                .into_iter()
                .flat_map(move |means| Wakes::ALL.map(|wakes| THREAD.unit(unit).of_event(means, 5, wakes)))
        });
        let alone = THREAD.of_event(Means::Epoll, 1, Wakes::One);
        for case in pairs.chain(crowds).chain([alone]).map(|case| case.asks(30)) {
            let sample = testing::measured(&EXPERIMENT, &case.params());
            let value = |metric: Metric| sample.value(metric.name);
            let (middle, worst) = (value(MEDIAN).unwrap(), value(WORST).unwrap());
            assert!(0.0 < middle && middle <= worst, "{case:?}: {sample:?}");
            assert_eq!(value(P99), None, "thirty have no 99th percentile");
        }
    }

    #[test]
    fn a_99th_percentile_lies_between_the_middle_and_the_largest() {
        let sample = testing::sample(&EXPERIMENT, &THREAD.asks(1_000).params());
        let [middle, most, worst] = [MEDIAN, P99, WORST].map(|metric| sample.value(metric.name).unwrap());
        assert!(middle <= most && most <= worst, "{sample:?}");
    }

    #[test]
    fn an_event_that_wakes_all_switches_more_often_than_one_that_wakes_one() {
        let switches = |wakes| {
            let case = THREAD.of_event(Means::Epoll, 16, wakes).asks(50);
            testing::sample(&EXPERIMENT, &case.params())
                .value(SWITCHES.name)
                .unwrap()
        };
        // Fifteen in vain, and not one; other programs add a few to either.
        let [one, all] = Wakes::ALL.map(switches);
        assert!(all > one + 5.0, "{one} and {all}");
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                THREAD.unit(Unit::Coroutine),
                "unit is coroutine; it must be one that the kernel can wake",
            ),
            (
                THREAD.means(Means::Jump),
                "means is jump; it must be one that wakes",
            ),
            (
                THREAD.means(Means::Spin),
                "means is spin; it must be one that sleeps",
            ),
            (
                THREAD.means(Means::Pipe).waiters(2),
                "means is pipe; it must be epoll or futex",
            ),
            (
                THREAD.wakes(Wakes::All),
                "wakes is all; it must be one, where one waits",
            ),
            (THREAD.cpus(2), "cpus is 2; it must be 1, where placement is same"),
            (
                THREAD.across().cpus(1),
                "cpus is 1; it must be 2, where placement is across",
            ),
        ] {
            let error = Case::possible(&case.params()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn the_herd_is_told_against_one_and_the_distribution_has_all_three() {
        let cases = plan(&testing::site(Profile::Quick, 2))
            .cases
            .into_iter()
            .map(|planned| {
                let case = Case::possible(&planned.params).unwrap();
                let ns = if case.wakes == Wakes::All {
                    40_000.0
                } else {
                    5_000.0
                };
                let rounds = |times: f64| (0..7).map(|i| (ns + f64::from(i)) * times).collect();
                let figures = [
                    (MEDIAN, rounds(1.0)),
                    (P99, rounds(3.0)),
                    (WORST, rounds(9.0)),
                    (SWITCHES, rounds(1e-3)),
                ];
                testing::case(planned.params, figures)
            });
        let view = testing::view("wake", Profile::Quick, cases.collect());
        let says = answer(&view);
        assert!(
            says.contains("after 5.00 µs on the same CPU (99 of 100 within 15.0 µs)"),
            "{says}"
        );
        assert!(
            says.contains("all of 16 waiters is answered after 8.00 times"),
            "{says}"
        );
        assert!(
            facts(&view).iter().any(|fact| fact.says.contains("adds 35")),
            "{:?}",
            facts(&view)
        );
        let ids: Vec<String> = charts(&view).into_iter().map(|chart| chart.id).collect();
        assert_eq!(ids, ["median", "same", "across", "waiters"]);
        let nothing = testing::view("wake", Profile::Quick, Vec::new());
        assert!(charts(&nothing).is_empty() && answer(&nothing).is_empty());
    }
}
