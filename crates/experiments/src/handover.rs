//! Question: is passing data between threads faster than between processes?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `guests/c/handover.c` does it.

use std::process::Stdio;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Table};

use crate::channels::{HANDOVER, Placement, Unit};
use crate::guests::{Found, figures};

/// Time of a hand-over: of writing the message, passing it on and reading it.
const TIME: Metric = metric("ns_per_handover", "ns");
const BANDWIDTH: Metric = metric("mib_per_s", "MiB/s");

words! {
    /// By what messages go.
    enum Means {
        Shared = "shared",
        Channel = "channel",
        Pipe = "pipe",
        Unix = "unix",
        VmReadv = "vm-readv",
    }
}

point! {
    /// A point of the grid.
    struct Case {
        unit: Unit,
        means: Means,
        bytes: u64 = 8..=1_073_741_824,
        /// Messages before one comes back.
        burst: u64 = 1..=1024,
        placement: Placement,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "handover",
    question: "Is passing data between threads faster than between processes, and by what means?",
    first_run: false,
    sources: &["003"],
    primary: &[TIME],
    how: "A small C program has one unit hand messages to another: it writes all of a message, passes it on, and the other \
          reads all of it. `burst` messages go one way and then one comes back, and `ns_per_handover` is the time of all over \
          their number: with a burst of 1 it is the latency, with one of 8 the flow, which mib_per_s has as bandwidth. shared: \
          in memory that both have, told by a futex; channel: the same told by a mutex and a condition variable; pipe and \
          unix: written into it and read out of it; vm-readv: told by a futex, and copied out of the other's memory. Laps of \
          5 ms are the warm-up, laps of the 40 ms after them are timed.",
    control: "Each means is run between threads and between processes, by the same program: what differs then is the kind of \
              unit alone. What differs between means of one kind is the copying.",
    traps: &[
        "Processes can share memory as threads do: between them too it is the means that is dear, and not the process.",
        "The claim sets shared memory in threads against a pipe between processes, as programs mostly have it: two things \
         change at once.",
        "Small messages cost a wake-up, on which placement decides; large ones cost copying, on which caches do.",
        "A pipe holds 64 KiB: a message of 1 MiB goes through in sixteen pieces, with switches in between.",
        "In memory that both have nothing is copied, and whoever reads must have done so before it is written again.",
    ],
    source: "Source 003 says that data of threads are shared simply and those of processes need IPC (its matrix), and \
             measured neither. Sizes and means are ours; the claim's are 64 bytes and 4 KiB.",
    calls: &[],
    plan,
    run,
    read,
};

/// How long laps are repeated before they are timed, and then.
const WARM: Duration = Duration::from_millis(5);
const TIMED: Duration = Duration::from_millis(40);

const SIZES: [u64; 3] = [64, 4096, 1 << 20];
/// Those that the claim is about.
const CLAIMED: [u64; 2] = [SIZES[0], SIZES[1]];
/// In a flow.
const BURST: u64 = 8;
const BOTH: [Unit; 2] = [Unit::Thread, Unit::Process];

/// 64 bytes in memory that two threads share, on one CPU.
const THREADS: Case = Case {
    unit: Unit::Thread,
    means: Means::Shared,
    bytes: SIZES[0],
    burst: 1,
    placement: Placement::Same,
    cpus: 1,
};
/// What the claim sets against it.
const PROCESSES: Case = THREADS.unit(Unit::Process).means(Means::Pipe);

impl Case {
    const fn across(self) -> Self {
        self.placement(Placement::Across).cpus(2)
    }

    fn time(self) -> Statistic {
        TIME.of(self)
    }

    /// Reads parameters, which `--set` may have changed.
    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        if !BOTH.contains(&case.unit) {
            return Err(refused(params, "unit", "thread or process"));
        }
        if case.bytes % 8 != 0 {
            return Err(refused(params, "bytes", "a multiple of 8"));
        }
        case.placement.check(params).map(|()| case)
    }

    /// Memory of both units, MiB.
    const fn mib(self) -> u64 {
        ((2 * self.burst + 2) * self.bytes) >> 20
    }

    fn planned(self, site: &Site) -> PlannedCase {
        let fits = self.mib() <= site.free_memory_mib / 2;
        let lack = || Lack::memory(2 * self.mib(), site.free_memory_mib);
        PlannedCase {
            skip: HANDOVER.missing().or_else(|| (!fits).then(lack)),
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, self.takes())
        }
    }

    /// On a virtual machine with two CPUs.
    fn takes(self) -> Duration {
        Duration::from_micros(11_000 + 1_000 * self.mib()) + WARM * 2 + TIMED * 9 / 8
    }
}

fn plan(site: &Site) -> Plan {
    let placed = |case: Case| [case, case.across()];
    let claimed = CLAIMED.map(|bytes| [THREADS, PROCESSES].map(|case| case.bytes(bytes)));
    let every = || {
        let by_means = BOTH
            .into_iter()
            .flat_map(|unit| Means::ALL.map(|means| THREADS.unit(unit).means(means)));
        let by_size = by_means.flat_map(|case| SIZES.map(|bytes| case.bytes(bytes)));
        by_size
            .flat_map(|case| [case, case.burst(BURST)])
            .collect::<Vec<_>>()
    };
    let cases = match site.profile {
        Profile::Quick => claimed.concat(),
        Profile::Standard | Profile::Paper => every(),
    };
    Plan {
        cases: cases
            .into_iter()
            .flat_map(placed)
            .map(|case| case.planned(site))
            .collect(),
        reference: THREADS.params(),
        budget: Duration::from_secs(site.profile.pick(15, 200, 1800)),
    }
}

figures! {
    /// What `guests/c/handover.c` answers.
    struct Passed {
        wall_ns,
        messages,
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let found: Result<Found<Passed>, CaseError> = HANDOVER.ask(
        worker,
        Stdio::null(),
        &[
            &case.unit.name(),
            &case.means.name(),
            &case.bytes,
            &case.burst,
            &case.placement.pinned()?,
            &WARM.as_nanos(),
            &TIMED.as_nanos(),
        ],
        PlannedCase::new(case, case.takes()).deadline(),
        case.unit.made_by(),
    );
    let found = found.map_err(of_this_machine)?;
    let passed = found.figures;
    let each_ns = passed.wall_ns as f64 * found.stretch / passed.messages as f64;
    worker.record(TIME, each_ns);
    worker.record(
        BANDWIDTH,
        case.bytes as f64 / f64::from(1 << 20) / (each_ns * 1e-9),
    );
    Ok(())
}

/// Where a process may not read another's memory, the case cannot run; it did not fail.
fn of_this_machine(error: CaseError) -> CaseError {
    match error {
        CaseError::Failed(says) if says.starts_with("process_vm_readv is refused") => {
            let says = format!("{says}; see kernel.yama.ptrace_scope, and what a container allows");
            CaseError::Skipped(Lack::new(Need::System, says))
        }
        other => other,
    }
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view.number(
            "between processes ÷ between threads, in memory that both share: 64 bytes, one CPU",
            &PROCESSES
                .means(Means::Shared)
                .bytes(CLAIMED[0])
                .time()
                .over(THREADS.bytes(CLAIMED[0]).time()),
            "ratio",
        ),
        claims: vec![("thread-sharing-faster-than-ipc", faster(view))],
        facts: facts(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: vec![flows(view)],
        costs: costs(view),
        ..Answer::default()
    }
}

/// What the claim compares: a pipe between processes over shared memory in threads.
fn claimed(placed: impl Fn(Case) -> Case, bytes: u64) -> Statistic {
    let of = |case: Case| placed(case).bytes(bytes).time();
    of(PROCESSES).over(of(THREADS))
}

/// On one CPU, and across two where there are two.
fn faster(view: &View<'_>) -> Test {
    let of = |name: &str, placed: fn(Case) -> Case| {
        CLAIMED.map(|bytes| (format!("bytes={bytes},placement={name}"), claimed(placed, bytes)))
    };
    let mut cells = Vec::from(of("same", |case| case));
    if view.lacks_cpus(2).is_none() {
        cells.extend(of("across", Case::across));
    }
    each(Quote::Smallest, cells)
}

fn answer(view: &View<'_>) -> String {
    let took = |case: Case| Some(view.estimate(&case.time())?.plain("ns"));
    let sizes = CLAIMED.map(|bytes| {
        let [threads, processes] = [THREADS, PROCESSES].map(|case| took(case.bytes(bytes)));
        let size = size(bytes);
        Some(format!(
            "{size} take {} between threads in shared memory and {} between processes by a pipe",
            threads?, processes?
        ))
    });
    let sizes: Vec<String> = sizes.into_iter().flatten().collect();
    if sizes.is_empty() {
        return String::new();
    }
    let alike = PROCESSES.means(Means::Shared).time().over(THREADS.time());
    let alike = view.estimate(&alike).map_or_else(String::new, |times| {
        format!(
            "; processes that share memory need {} times what threads need",
            times.plain("ratio")
        )
    });
    format!("On one CPU, {}{alike}.", sizes.join(", "))
}

fn size(bytes: u64) -> String {
    match bytes {
        1_048_576.. => format!("{} MiB", bytes >> 20),
        1024.. => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |of: &Statistic, says: String| {
        let figure = view.estimate(of)?;
        Some(figure.fact(says.replace("{}", &figure.show("ratio")), "ratio"))
    };
    let of_each = |bytes: u64| {
        let kinds = |means| {
            let of = |unit| THREADS.unit(unit).means(means).bytes(bytes).time();
            of(Unit::Process).over(of(Unit::Thread))
        };
        let pipe = |unit| {
            let of = |means| THREADS.unit(unit).means(means).bytes(bytes).time();
            of(Means::Pipe).over(of(Means::Shared))
        };
        let size = size(bytes);
        [
            fact(
                &kinds(Means::Shared),
                format!(
                    "In memory that they share, {size} between processes take {{}} times as long as between threads."
                ),
            ),
            fact(
                &kinds(Means::Pipe),
                format!("By a pipe, {size} between processes take {{}} times as long as between threads."),
            ),
            fact(
                &pipe(Unit::Thread),
                format!("Between threads, {size} by a pipe take {{}} times as long as in shared memory."),
            ),
        ]
    };
    SIZES.map(of_each).into_iter().flatten().flatten().collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for bytes in SIZES {
        for placed in [THREADS.bytes(bytes), THREADS.bytes(bytes).across()] {
            let processes = placed.unit(Unit::Process);
            pairs.extend(Means::ALL.map(|means| (placed.means(means), processes.means(means))));
            pairs.push((placed, processes.means(Means::Pipe)));
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
    let lines = BOTH.map(|unit| {
        [
            (format!("{} on the same CPU", unit.name()), THREADS.unit(unit)),
            (
                format!("{} on two CPUs", unit.name()),
                THREADS.unit(unit).across(),
            ),
        ]
    });
    let lines = lines.concat();
    let of_size = |bytes: u64| {
        let chart = Chart::new(
            view,
            format!("latency-{bytes}"),
            format!("Handing over {}", size(bytes)),
        )
        .note("One message there and one back; the time of one. Written before and read after, all of it.")
        .x(Scale::Category, "means")
        .y(Scale::Log, "time of a hand-over, µs");
        lines.iter().fold(chart, |chart, (name, case)| {
            let of = |means: Means| (means.name(), case.means(means).bytes(bytes).time().times(1e-3));
            chart.line(name, Means::ALL.map(of))
        })
    };
    let flow = Chart::new(view, "bandwidth", "Bandwidth of a flow of 1 MiB messages")
        .note(format!("{BURST} messages one way before one comes back."))
        .x(Scale::Category, "means")
        .y(Scale::Log, "GiB/s");
    let flow = lines.iter().fold(flow, |chart, (name, case)| {
        let of = |means: Means| {
            let case = case.means(means).bytes(SIZES[2]).burst(BURST);
            (means.name(), BANDWIDTH.of(case).times(1.0 / 1024.0))
        };
        chart.line(name, Means::ALL.map(of))
    });
    SIZES
        .map(of_size)
        .into_iter()
        .chain([flow])
        .filter_map(Chart::drawn)
        .collect()
}

/// Latency and bandwidth of each means.
fn flows(view: &View<'_>) -> Table {
    let mut rows = Vec::new();
    for unit in BOTH {
        for means in Means::ALL {
            for bytes in SIZES {
                let case = THREADS.unit(unit).means(means).bytes(bytes);
                let cells = [case, case.across()].map(|case| {
                    let flow = BANDWIDTH.of(case.burst(BURST));
                    [view.shown(&case.time(), "ns"), view.shown(&flow, BANDWIDTH.unit)]
                });
                let cells = cells.concat();
                if cells.iter().any(|cell| !cell.is_empty()) {
                    let mut row = vec![unit.name().to_owned(), means.name().to_owned(), size(bytes)];
                    row.extend(cells);
                    rows.push(row);
                }
            }
        }
    }
    table(
        "flows",
        "Latency and bandwidth",
        format!("Latency: one there, one back. Bandwidth: {BURST} there before one comes back."),
        [
            "unit",
            "means",
            "message",
            "one CPU",
            "bandwidth",
            "two CPUs",
            "bandwidth",
        ],
        rows,
    )
}

fn costs(view: &View<'_>) -> Vec<Cost> {
    let of = |case: Case| {
        let what = format!("hand over {}, one CPU", size(case.bytes));
        view.cost((&what, case.unit.kind()), case.means.name(), &case.time(), "ns")
    };
    let of_each = |bytes: u64| [THREADS, PROCESSES].map(|case| of(case.bytes(bytes)));
    CLAIMED.map(of_each).into_iter().flatten().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_results::{Status, Verdict};

    #[test]
    fn messages_of_every_size_arrive_by_every_means() {
        for unit in BOTH {
            for means in Means::ALL {
                for (bytes, burst) in [(64, 1), (64, 8), (1 << 20, 1), (200_000, 3)] {
                    let case = THREADS.unit(unit).means(means).bytes(bytes).burst(burst);
                    let sample = testing::sample(&EXPERIMENT, &case.params());
                    if means == Means::VmReadv && sample.status == Status::Skipped {
                        let says = sample.reason.unwrap();
                        assert!(says.contains("kernel.yama.ptrace_scope"), "{says}");
                        continue;
                    }
                    assert_eq!(sample.status, Status::Ok, "{case:?}: {:?}", sample.reason);
                    let [each_ns, mib_per_s] =
                        [TIME, BANDWIDTH].map(|metric| sample.value(metric.name).unwrap());
                    let bytes_per_ns = mib_per_s * f64::from(1 << 20) * 1e-9;
                    assert!(
                        (bytes_per_ns * each_ns / bytes as f64 - 1.0).abs() < 1e-9,
                        "{sample:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn both_units_and_what_is_measured_have_room_twice() {
        // 2 × 3 messages of 1 MiB, and one of each unit.
        let case = THREADS.bytes(1 << 20).burst(3);
        let skip = |free_memory_mib| {
            let site = Site {
                free_memory_mib,
                ..testing::site(Profile::Quick, 1)
            };
            case.planned(&site).skip.map(|lack| lack.says)
        };
        let says = "needs 16 MiB of free memory, 15 are free".to_owned();
        assert_eq!([skip(16), skip(15)], [None, Some(says)]);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                THREADS.unit(Unit::Coroutine),
                "unit is coroutine; it must be thread or process",
            ),
            (THREADS.bytes(100), "bytes is 100; it must be a multiple of 8"),
            (
                THREADS.cpus(2),
                "cpus is 2; it must be 1, where placement is same",
            ),
        ] {
            let error = Case::possible(&case.params()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let refused = CaseError::Failed("process_vm_readv is refused: Operation not permitted".to_owned());
        let CaseError::Skipped(lack) = of_this_machine(refused) else {
            panic!("it is no failure");
        };
        assert!(
            lack.of == Need::System && lack.says.contains("ptrace_scope"),
            "{lack}"
        );
    }

    /// A run in which shared memory takes 2 µs, and a pipe so many.
    fn run_of(pipe_us: impl Fn(Case) -> f64) -> View<'static> {
        let cases = plan(&testing::site(Profile::Quick, 2))
            .cases
            .into_iter()
            .map(|planned| {
                let case = Case::possible(&planned.params).unwrap();
                let us = if case.means == Means::Pipe {
                    pipe_us(case)
                } else {
                    2.0
                };
                let rounds = |factor: f64| {
                    (0..7)
                        .map(|i| us * factor * (1.0 + f64::from(i) / 1000.0))
                        .collect()
                };
                testing::case(planned.params, [(TIME, rounds(1000.0)), (BANDWIDTH, rounds(1.0))])
            });
        testing::view("handover", Profile::Quick, cases.collect())
    }

    fn verdict(view: &View<'_>) -> Verdict {
        testing::verdict(&faster(view), "thread-sharing-faster-than-ipc", view).unwrap()
    }

    #[test]
    fn the_claim_is_about_both_sizes_on_one_cpu_and_on_two() {
        assert_eq!(verdict(&run_of(|_| 4.0)), Verdict::Holds);
        let as_fast = |case: Case| {
            if case.placement == Placement::Across && case.bytes == 4096 {
                2.0
            } else {
                4.0
            }
        };
        assert_eq!(verdict(&run_of(as_fast)), Verdict::DoesNotHold);
        let one_cpu = testing::changed(run_of(|_| 4.0), |cases| {
            for case in cases.iter_mut().filter(|c| c.params.int("cpus") == Some(2)) {
                *case = testing::lacking(case.params.clone(), Lack::cpus(2, 1));
            }
        });
        assert_eq!(
            verdict(&one_cpu),
            Verdict::Holds,
            "it is about one CPU where there is one"
        );
        assert_eq!(
            verdict(&testing::view("handover", Profile::Quick, Vec::new())),
            Verdict::NotMeasured
        );
    }

    #[test]
    fn what_is_read_off_has_its_figures() {
        let view = run_of(|_| 5.0);
        let says = answer(&view);
        assert!(
            says.contains("64 bytes take 2.01 µs between threads") && says.contains("4 KiB take"),
            "{says}"
        );
        assert_eq!(costs(&view).len(), 4);
        assert_eq!(flows(&view).rows.len(), 4);
        assert_eq!(charts(&view).len(), 2, "of the sizes that were measured");
    }
}
