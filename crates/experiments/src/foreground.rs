//! Question: does moving a long computation to a background thread keep the foreground responsive?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print.

use std::collections::BTreeSet;
use std::thread;

use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;
use threadgauge_machine::{Burner, clock};
use threadgauge_results::Figure;
use threadgauge_stats::median;

/// How often the heart beats: as many times as the computation takes, and before and after.
const BEATS: usize = 11;
const PERIOD: Duration = Duration::from_millis(10);
/// The beat that asks for the computation.
const ASKED_AT: usize = 2;
const COMPUTATION: Duration = Duration::from_millis(60);

const LATEST: Metric = metric("worst_lateness_ns", "ns");
const MEDIAN: Metric = metric("median_lateness_ns", "ns");

words! {
    /// Where the computation is done.
    enum How { Idle = "idle", Inline = "inline", Background = "background" }
}

point! {
    struct Case { how: How, cpus: u64 = 1.. }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "foreground",
    question: "Does moving a long computation to a background thread keep the foreground responsive?",
    first_run: true,
    sources: &["000", "003"],
    primary: &[LATEST],
    how: "A foreground beats every 10 ms, 11 times; its third beat asks for a computation of 60 ms of CPU time, done on \
         the spot (inline) or by a thread started for it (background). Lateness is a beat's beginning after its \
         intended time; a beat that is held up does not move the next. `worst_lateness_ns` is the latest of the 11.",
    control: "How idle: no computation; the lateness of the timer itself.",
    traps: &[
        "A sleep ends up to 50 µs late by the timer's slack: no lateness is below that.",
        "The claim's 99th percentile needs a thousand beats, ten seconds a sample, of which sixty milliseconds of \
         computation would touch six; the latest of the beats around the computation stands for it.",
    ],
    source: "Source 000 and source 003 advise a background thread for the sake of the foreground; neither measured it. The \
         heartbeat of 10 ms is that of the claim's wording.",
    calls: &[],
    plan,
    run,
    read,
};

fn plan(site: &Site) -> Plan {
    let all = (site.cpus.len() as u64).max(2);
    let every_case = [1, all].map(|cpus| How::ALL.map(|how| (how, cpus))).concat();
    let quick = vec![(How::Inline, 1), (How::Background, 1), (How::Background, all)];
    let cases = site.profile.pick(quick, every_case.clone(), every_case);
    let planned = |(how, cpus)| PlannedCase::new(Case { how, cpus }, Duration::from_millis(112));
    Plan {
        cases: cases.into_iter().map(planned).collect(),
        // The steadiest: in the background the latest beat is a matter of luck.
        reference: latest(How::Inline, 1).pattern(),
        budget: Duration::from_secs(site.profile.pick(4, 30, 60)),
    }
}

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let how = Case::read(case)?.how;
    let steps = worker.burner().iterations(COMPUTATION);
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let late_ns = act(how, steps)?;
    let taken_ns = clock::monotonic_ns() - begun_ns;
    // A handicapped worker is late in proportion.
    let stretch = watch.stop().wall_ns as f64 / taken_ns.max(1) as f64;
    let late_ns: Vec<f64> = late_ns.into_iter().map(|ns| ns * stretch).collect();
    worker.record(MEDIAN, median(&late_ns).unwrap_or(f64::NAN));
    worker.record(LATEST, largest(&late_ns));
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view.number(
            "how late the latest beat is with the computation in a background thread: one CPU",
            &latest(How::Background, 1),
            "ns",
        ),
        claims: vec![("background-work-keeps-foreground-responsive", responsive(view))],
        facts: facts(view),
        figures: chart(view).into_iter().collect(),
        costs: waits(view),
        ..Answer::default()
    }
}

/// The foreground: how late each action began, ns.
fn act(how: How, steps: u64) -> Result<Vec<f64>, CaseError> {
    thread::scope(|scope| {
        let mut late_ns = Vec::with_capacity(BEATS);
        let begun_ns = clock::monotonic_ns() + PERIOD.as_nanos() as u64;
        for i in 0..BEATS {
            let intended_ns = begun_ns + i as u64 * PERIOD.as_nanos() as u64;
            let now_ns = clock::monotonic_ns();
            if now_ns < intended_ns {
                thread::sleep(Duration::from_nanos(intended_ns - now_ns));
            }
            late_ns.push(clock::monotonic_ns().saturating_sub(intended_ns) as f64);
            if i == ASKED_AT {
                match how {
                    How::Idle => {}
                    How::Inline => Burner::burn_units(steps),
                    How::Background => {
                        let thread = thread::Builder::new().name("background".to_owned());
                        thread
                            .spawn_scoped(scope, move || Burner::burn_units(steps))
                            .map_err(|e| refused("the background thread", &e))?;
                    }
                }
            }
        }
        Ok(late_ns)
    })
}

fn latest(how: How, cpus: u64) -> Statistic {
    LATEST.of(Case { how, cpus })
}

fn latest_ms(how: How, cpus: u64) -> Statistic {
    latest(how, cpus).times(1e-6)
}

/// The CPU numbers of this run's cases.
fn cpu_numbers(view: &View<'_>) -> BTreeSet<u64> {
    let planned = view.planned(Params::new());
    planned.filter_map(|params| params.int("cpus")).collect()
}

fn responsive(view: &View<'_>) -> Test {
    let planned = |ratio: &Statistic| {
        let mut cells = ratio.cells().into_iter();
        cells.all(|cell| view.planned(cell.pattern.clone()).next().is_some())
    };
    let ratios = cpu_numbers(view).into_iter().filter_map(|cpus| {
        let ratio = latest(How::Inline, cpus).over(latest(How::Background, cpus));
        // What was skipped for want of CPUs is no part of the claim here.
        let wanted = cpus == 1 || view.measured(&ratio);
        (planned(&ratio) && wanted).then(|| (format!("cpus={cpus}"), ratio))
    });
    let ratios: Vec<_> = ratios.collect();
    if ratios.is_empty() {
        return not_measured(
            "needs how=inline and how=background on the same CPUs; `threadgauge run foreground` has them",
        );
    }
    each(Quote::Smallest, ratios)
}

/// How long the latest beat waits while another thread computes.
fn waits(view: &View<'_>) -> Vec<Cost> {
    let wait = |cpus: u64| {
        let what = format!("longest wait behind one that computes, CPUs: {cpus}");
        let late = latest(How::Background, cpus);
        let how = format!("the latest of {BEATS} beats, one every {} ms", PERIOD.as_millis());
        let cost = view.cost((&what, "thread"), &how, &late, "ns")?;
        Some(if cpus == 1 {
            cost.named("longest wait behind a busy thread")
        } else {
            cost
        })
    };
    cpu_numbers(view).into_iter().filter_map(wait).collect()
}

fn answer(view: &View<'_>) -> String {
    let late = |how, cpus| view.estimate(&latest(how, cpus));
    let (Some(inline), Some(background)) = (late(How::Inline, 1), late(How::Background, 1)) else {
        return String::new();
    };
    let mut several = cpu_numbers(view).into_iter().filter(|&cpus| cpus > 1);
    let several = several.find_map(|cpus| {
        let background = late(How::Background, cpus)?;
        Some(format!(", and {} on {cpus} CPUs", background.plain("ns")))
    });
    let several = several.unwrap_or_default();
    let times = latest(How::Inline, 1).over(latest(How::Background, 1));
    let helps = match view.resolved(&times.clone().less_one()) {
        true if view.value(&times) > Some(1.0) => "A background thread keeps the foreground responsive: with",
        true => "A background thread makes the foreground less responsive: with",
        false => "With",
    };
    format!(
        "{helps} a computation of 60 ms done inline, the latest beat comes {} late, and \
         with a background thread on the same CPU {}{several}.",
        inline.plain("ns"),
        background.plain("ns")
    )
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |cpus: u64| {
        let late = view.estimate(&latest(How::Idle, cpus))?;
        let says = format!(
            "Without any computation the latest beat comes {} late (cpus={cpus}): the timer \
             itself.",
            late.plain("ns")
        );
        Some(late.fact(says, "ns"))
    };
    cpu_numbers(view).into_iter().filter_map(fact).collect()
}

fn chart(view: &View<'_>) -> Option<Figure> {
    let title = "How late the latest beat comes";
    let chart = Chart::new(view, "lateness", title)
        .note(format!(
            "{BEATS} beats, one every 10 ms, during which 60 ms are computed."
        ))
        .x(Scale::Category, "where the computation is done")
        .y(Scale::Log, "lateness of the latest beat, ms");
    let lines = cpu_numbers(view).into_iter().fold(chart, |chart, cpus| {
        let name = match cpus {
            1 => "one CPU".to_owned(),
            cpus => format!("{cpus} CPUs"),
        };
        chart.line(name, How::ALL.map(|how| (how.name(), latest_ms(how, cpus))))
    });
    lines.drawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_results::{Claim as Published, Evidence, Lack, claim};

    #[test]
    fn an_inline_computation_delays_all_that_fall_into_it() {
        let steps = Burner::calibrate().iterations(Duration::from_millis(20));
        let late_ns = act(How::Inline, steps).unwrap();
        assert_eq!(late_ns.len(), BEATS);
        // The beat after it was due 10 ms after its beginning; the computation took 20 ms, or the calibration erred.
        assert!(late_ns[ASKED_AT + 1] > 5e6, "{}", late_ns[ASKED_AT + 1]);
    }

    #[test]
    fn a_background_computation_ends_before_the_case_does() {
        let steps = Burner::calibrate().iterations(Duration::from_millis(5));
        let before_ns = clock::process_cpu_ns();
        act(How::Background, steps).unwrap();
        assert!(clock::process_cpu_ns() - before_ns > 2_000_000);
    }

    fn view(cells: &[(How, u64, f64)]) -> View<'static> {
        let case =
            |&(how, cpus, ns): &(How, u64, f64)| testing::case(Case { how, cpus }, [(LATEST, vec![ns; 7])]);
        testing::view("foreground", Profile::Quick, cells.iter().map(case).collect())
    }

    fn published() -> &'static Published {
        claim("background-work-keeps-foreground-responsive").unwrap()
    }

    #[test]
    fn the_claim_compares_on_the_same_cpus() {
        let quick = view(&[
            (How::Inline, 1, 60e6),
            (How::Background, 1, 3e6),
            (How::Background, 2, 1e5),
        ]);
        let Evidence::Each { cells, .. } = responsive(&quick).evidence(&quick, published()) else {
            panic!()
        };
        assert_eq!((cells.len(), cells[0].0.as_str()), (1, "cpus=1"));
        assert_eq!(cells[0].1.values(), [20.0; 7]);
        assert_eq!(
            answer(&quick),
            "A background thread keeps the foreground responsive: with a computation of 60 ms done inline, the latest beat comes 60.0 ms late, and with a \
             background thread on the same CPU 3.00 ms, and 100 µs on 2 CPUs."
        );
        let none = view(&[]);
        let Evidence::Lacking { lack, .. } = responsive(&none).evidence(&none, published()) else {
            panic!()
        };
        assert!(lack.says.contains("`threadgauge run foreground`"), "{lack}");
    }

    #[test]
    fn a_wait_is_the_latest_of_as_many_beats_as_there_are() {
        let view = view(&[(How::Background, 1, 3e6), (How::Background, 2, 1e5)]);
        let costs = waits(&view);
        let how: Vec<&str> = costs.iter().map(|cost| cost.how.as_str()).collect();
        assert_eq!(how, ["the latest of 11 beats, one every 10 ms"; 2]);
        // The texts that nothing can compute.
        let (often, latest) = (format!(", {BEATS} times;"), format!("the latest of the {BEATS}."));
        assert!(EXPERIMENT.how.contains(&often) && EXPERIMENT.how.contains(&latest));
        let note = chart(&view).unwrap().note;
        assert!(note.starts_with(&format!("{BEATS} beats, one every")), "{note}");
    }

    #[test]
    fn on_one_cpu_the_claim_is_about_one() {
        let measured = view(&[(How::Inline, 1, 60e6), (How::Background, 1, 3e6)]);
        let one = testing::changed(measured, |cases| {
            for how in [How::Inline, How::Background] {
                cases.push(testing::lacking(Case { how, cpus: 2 }, Lack::cpus(2, 1)));
            }
        });
        let Evidence::Each { cells, .. } = responsive(&one).evidence(&one, published()) else {
            panic!()
        };
        assert_eq!((cells.len(), cells[0].0.as_str()), (1, "cpus=1"));
    }
}
