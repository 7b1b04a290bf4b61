//! Units that other runtimes make and end: their cases, how one is run, and what is read off them.
//!
//! A guest makes a unit, waits for its end and makes the next, in ten batches of as many. The first batch is cold, and
//! what the unit costs is said of the last five: a virtual machine has compiled its loop by then. The start of the
//! runtime is no part of either, and stands beside.

use threadgauge_lab::prelude::*;
use threadgauge_results::Figure;
use threadgauge_stats::median;

use crate::create::grid::{Case, Method};
use crate::create::measure::PER_UNIT;
use crate::guests::{Found, figures};
use crate::runtimes::{self, Does, Kind, Name, Unit, guest};

/// Of the first batch.
const COLD: Metric = metric("cold_ns_per_unit", "ns");
/// Of all batches, as a program sees it that times its whole loop.
const WHOLE: Metric = metric("whole_ns_per_unit", "ns");
/// From the guest's start to its end without the loop.
const STARTUP: Metric = metric("startup_ns", "ns");
/// Of each batch.
const BATCHES: [Metric; 10] = [
    metric("batch_01_ns_per_unit", "ns"),
    metric("batch_02_ns_per_unit", "ns"),
    metric("batch_03_ns_per_unit", "ns"),
    metric("batch_04_ns_per_unit", "ns"),
    metric("batch_05_ns_per_unit", "ns"),
    metric("batch_06_ns_per_unit", "ns"),
    metric("batch_07_ns_per_unit", "ns"),
    metric("batch_08_ns_per_unit", "ns"),
    metric("batch_09_ns_per_unit", "ns"),
    metric("batch_10_ns_per_unit", "ns"),
];
/// The batches of the figure: the last ones.
const STEADY: usize = 5;
/// The units of source 003's runs.
const COUNT_003: u64 = 100_000;

point! {
    /// Units that a guest makes and ends one after the other.
    pub struct Guests {
        runtime: Name,
        unit: Name,
        /// All batches together.
        count: u64 = 10..=100_000_000,
        cpus: u64 = 1..,
    }
}

figures! {
    /// What a guest answers.
    struct Batches {
        made,
        batch_1_ns,
        batch_2_ns,
        batch_3_ns,
        batch_4_ns,
        batch_5_ns,
        batch_6_ns,
        batch_7_ns,
        batch_8_ns,
        batch_9_ns,
        batch_10_ns,
    }
}

impl Guests {
    fn planned(self, kind: &Kind, unit: &Unit) -> PlannedCase {
        let work = Duration::from_micros(self.count * unit.create_us);
        let start = Duration::from_millis(15 + kind.starts_ms);
        PlannedCase::new(self, start + work)
    }
}

/// The cases of each unit of the runtimes that were asked for.
pub fn plan(site: &Site) -> Vec<PlannedCase> {
    // What a sample's loop is to take; paper makes as many as the source where that takes less.
    let loop_us = site.profile.pick(100_000, 200_000, 30_000_000);
    let all_cpus = (site.cpus.len() as u64).max(2);
    let on = site.profile.pick(vec![1], vec![1, all_cpus], vec![1, all_cpus]);
    runtimes::plan(site, Does::Create, |runtime, kind, unit| {
        let case = Guests {
            runtime,
            unit: Name::new(unit.name),
            count: (loop_us / unit.create_us).clamp(20, COUNT_003) / 10 * 10,
            cpus: 1,
        };
        on.iter().map(move |&cpus| case.cpus(cpus).planned(kind, unit))
    })
}

/// Runs the case with these parameters.
///
/// # Errors
///
/// Those of [`guest::begin`] and [`guest::ask`].
pub fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Guests::read(params)?;
    let (runtime, kind, unit) = guest::begin(params, case.unit, worker)?;
    let found: Found<Batches> = guest::ask(
        &runtime,
        worker,
        &[&"create", &unit.name, &case.count],
        case.planned(kind, unit).deadline(),
    )?;
    let of = found.figures;
    let batches = [
        of.batch_1_ns,
        of.batch_2_ns,
        of.batch_3_ns,
        of.batch_4_ns,
        of.batch_5_ns,
        of.batch_6_ns,
        of.batch_7_ns,
        of.batch_8_ns,
        of.batch_9_ns,
        of.batch_10_ns,
    ];
    if of.made == 0 || of.made > case.count {
        let says = format!("the guest made {} units of {}", of.made, case.count);
        return Err(CaseError::Failed(says));
    }
    let in_batch = of.made as f64 / batches.len() as f64;
    let each = batches.map(|ns| ns as f64 * found.stretch / in_batch);
    let steady = median(&each[each.len() - STEADY..]).map_err(|e| CaseError::failed("the batches", e))?;
    let loop_ns: u64 = batches.iter().sum();
    worker.record(PER_UNIT, steady);
    worker.record(COLD, each[0]);
    worker.record(WHOLE, each.iter().sum::<f64>() / each.len() as f64);
    worker.record(STARTUP, found.ran_ns.saturating_sub(loop_ns) as f64);
    for (metric, ns) in BATCHES.into_iter().zip(each) {
        worker.record(metric, ns);
    }
    Ok(())
}

/// The time of a unit once its runtime is warm, of however many.
pub fn time(case: Guests) -> Statistic {
    PER_UNIT.of(case.any(&["count"]))
}

fn of(metric: Metric, case: Guests) -> Statistic {
    metric.of(case.any(&["count"]))
}

/// Creating and joining in Java over the same in C, by whole loops as the source timed them.
pub fn java_over_c(view: &View<'_>) -> Test {
    let is_it = |case: &Guests| {
        let is_java = Kind::of(case.runtime.name()).is_some_and(|kind| kind.name == "java");
        is_java && case.unit.name() == "platform" && (case.count, case.cpus) == (COUNT_003, 1)
    };
    let Some(java) = runtimes::cases::<Guests>(view).into_iter().find(is_it) else {
        return not_measured(
            "the claim is about 100,000 threads in Java and as many in C, which `threadgauge run create --profile paper \
             --runtime java` makes",
        );
    };
    let c = PER_UNIT.of(Case::base(Method::Pthread, COUNT_003));
    WHOLE.of(java).over(c).into()
}

/// What guests add to the answer; nothing where there are none.
pub fn read(view: &View<'_>, answer: &mut Answer) {
    let cases = runtimes::cases::<Guests>(view);
    answer.figures.extend(warm_up(view, &cases));
    let rows = cases.iter().filter_map(|&case| {
        let shown = |metric: Metric| view.shown(&of(metric, case), "ns");
        let time = view.estimate(&time(case))?.show("ns");
        Some(vec![
            runtimes::label(case.runtime, case.unit),
            case.cpus.to_string(),
            time,
            shown(COLD),
            shown(WHOLE),
            shown(STARTUP),
        ])
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        answer.tables.push(table(
            "guests",
            "Making and ending a unit, by runtime",
            "One at a time. warm: the median of the last five of ten batches. cold: the first batch. whole: all ten. start: \
             the runtime's start and end, which are in none of these.",
            ["unit", "CPUs", "warm", "cold", "whole", "start"],
            rows,
        ));
    }
}

/// What a unit takes from batch to batch: the curve that says whether it is warm.
fn warm_up(view: &View<'_>, cases: &[Guests]) -> Option<Figure> {
    let chart = Chart::new(view, "warm-up", "Making and ending a unit by runtime, from batch to batch")
        .x(Scale::Linear, "batches so far")
        .y(Scale::Log, "time per unit, µs")
        .note("Ten batches of one loop, on one CPU, from the runtime's start on. The figure of a unit is of the last five.");
    let on_one = cases.iter().filter(|case| case.cpus == 1);
    let chart = on_one.fold(chart, |chart, &case| {
        let points = BATCHES.into_iter().enumerate();
        let points = points.map(|(i, metric)| (i as u64 + 1, of(metric, case).times(1e-3)));
        chart.line(runtimes::label(case.runtime, case.unit), points)
    });
    chart.drawn()
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::{Runtime, Status, Verdict};

    use super::*;
    use crate::create::EXPERIMENT;
    use crate::runtimes::guest::testing::{sample, script};

    fn case(runtime: &str, unit: &str, count: u64) -> Guests {
        Guests {
            runtime: Name::new(runtime),
            unit: Name::new(unit),
            count,
            cpus: 1,
        }
    }

    /// What a guest says that takes so many µs for each batch.
    fn says(batches_us: [u32; 10]) -> String {
        let batches = batches_us
            .iter()
            .zip(1..)
            .map(|(us, number)| format!(" batch_{number}_ns={us}000"));
        format!("echo done made=100{}", batches.collect::<String>())
    }

    #[test]
    fn the_figure_is_of_the_last_batches_and_the_cold_one_stands_beside() {
        let script = script("go", "1.26", &says([900, 90, 80, 70, 60, 50, 30, 40, 20, 10]));
        let sample = sample(&EXPERIMENT, &case("go", "goroutine", 100).params(), Some(script));
        assert_eq!(sample.status, Status::Ok, "{:?}", sample.reason);
        let near = |metric: Metric, us: f64| {
            let value = sample.value(metric.name).unwrap();
            // Stretched by what a look at the clock takes.
            assert!(
                (0.999..2.0).contains(&(value / (us * 1e3))),
                "{metric:?}: {value}"
            );
        };
        near(PER_UNIT, 3.0);
        near(COLD, 90.0);
        near(WHOLE, 13.5);
        near(BATCHES[9], 1.0);
        assert!(sample.value(STARTUP.name).unwrap() > 0.0);
        assert!(
            sample.tags.contains(&"version-1.26".to_owned()),
            "{:?}",
            sample.tags
        );
    }

    #[test]
    fn a_guest_that_does_something_else_is_a_failure_with_its_reason() {
        let of = |text: &str| Some(script("go", "1.26", text));
        let none = says([1; 10]).replace("made=100", "made=0");
        let lacking = Runtime::lacking("go", "go", Lack::new(Need::Program, "go not found"));
        for (runtime, unit, status, says) in [
            (
                of("echo nonsense"),
                "goroutine",
                Status::Failed,
                "the guest: it answered \"nonsense\"",
            ),
            (
                of("echo done made=100"),
                "goroutine",
                Status::Failed,
                "batch_1_ns=NUMBER is wanted",
            ),
            (
                of("kill -9 $$"),
                "goroutine",
                Status::Failed,
                "the guest: it ended with signal: 9",
            ),
            (
                of("exit 3"),
                "goroutine",
                Status::Failed,
                "the guest: it ended with exit status: 3",
            ),
            (of(&none), "goroutine", Status::Failed, "made 0 units of 100"),
            (
                of("echo error no memory; exit 1"),
                "goroutine",
                Status::Failed,
                "the guest: no memory",
            ),
            (
                of(""),
                "thread",
                Status::Failed,
                "unit is thread; it must be one of goroutine of go",
            ),
            (Some(lacking), "goroutine", Status::Skipped, "go not found"),
            (None, "goroutine", Status::Failed, "begin again with --runtime go"),
        ] {
            let sample = sample(&EXPERIMENT, &case("go", unit, 100).params(), runtime);
            let reason = sample.reason.unwrap_or_default();
            assert!(
                sample.status == status && reason.contains(says),
                "{status:?}: {reason}"
            );
        }
        let old = script("java", "17.0.13", "");
        let sample = sample(&EXPERIMENT, &case("java", "virtual", 100).params(), Some(old));
        assert_eq!(sample.status, Status::Skipped);
        assert!(sample.reason.unwrap().contains("needs java 21 or later"));
    }

    #[test]
    fn nothing_is_planned_unless_somebody_asked_for_it() {
        let site = testing::site(Profile::Standard, 2);
        assert!(plan(&site).is_empty());
        let with = |profile| Site {
            runtimes: vec![
                script("java", "17.0.13", ""),
                Runtime::lacking("go", "go", Lack::new(Need::Program, "go not found")),
            ],
            ..testing::site(profile, 2)
        };
        let planned = |profile| -> Vec<(String, Option<Need>)> {
            let cases = plan(&with(profile)).into_iter();
            cases
                .map(|case| (case.params.to_string(), case.skip.map(|lack| lack.of)))
                .collect()
        };
        let program = Some(Need::Program);
        let quick = [
            ("runtime=java,unit=platform,count=1250,cpus=1", None),
            ("runtime=java,unit=virtual,count=33330,cpus=1", program),
            ("runtime=go,unit=goroutine,count=100000,cpus=1", program),
        ];
        assert_eq!(
            planned(Profile::Quick),
            quick.map(|(case, lack)| (case.to_owned(), lack))
        );
        assert_eq!(planned(Profile::Standard).len(), 6);
        let whole = (EXPERIMENT.plan)(&with(Profile::Quick));
        let usual = (EXPERIMENT.plan)(&testing::site(Profile::Quick, 2));
        assert_eq!(whole.cases.len(), usual.cases.len() + 3);
        assert!(whole.budget > usual.budget);
    }

    #[test]
    fn java_is_set_against_c_where_both_made_as_many_as_the_source() {
        let id = "java-thread-create-slower-than-c";
        let view = |count| {
            let java = testing::case(case("java", "platform", count), [(WHOLE, vec![123e3; 7])]);
            let c = testing::case(Case::base(Method::Pthread, count), [(PER_UNIT, vec![20e3; 7])]);
            testing::view("create", Profile::Paper, vec![c, java])
        };
        let verdict = |view: &View<'_>| testing::verdict(&java_over_c(view), id, view);
        assert_eq!(verdict(&view(100_000)), Some(Verdict::Holds));
        assert_eq!(verdict(&view(1_000)), Some(Verdict::NotMeasured));
    }

    #[test]
    fn guests_add_a_table_and_their_curves_and_without_them_there_is_nothing() {
        let of = |case: Guests, us: f64| {
            let metrics = [PER_UNIT, COLD, WHOLE, STARTUP].into_iter().chain(BATCHES);
            testing::case(case, metrics.map(|metric| (metric, vec![us * 1e3; 7])))
        };
        let cases = vec![
            of(case("java", "platform", 10), 80.0),
            of(case("java-25", "virtual", 10), 2.0),
        ];
        let view = testing::view("create", Profile::Quick, cases);
        let mut answer = Answer::default();
        read(&view, &mut answer);
        let labels = ["Java thread", "Java virtual thread (java-25)"];
        let names: Vec<&str> = answer.figures[0]
            .series
            .iter()
            .map(|line| line.name.as_str())
            .collect();
        assert_eq!(names, labels);
        assert_eq!(answer.figures[0].series[0].points.len(), 10);
        let rows = &answer.tables[0].rows;
        assert_eq!([&rows[0][0], &rows[1][0]], labels);
        assert!(rows[0][2].starts_with("80.0"), "{rows:?}");
        let mut nothing = Answer::default();
        read(&testing::view("create", Profile::Quick, Vec::new()), &mut nothing);
        assert!(nothing.figures.is_empty() && nothing.tables.is_empty());
    }
}
