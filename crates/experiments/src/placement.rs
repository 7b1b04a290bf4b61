//! Question: where do threads run while there are no more of them than CPUs, and how often do they move?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `guests/c/placement.c` does it.

use std::process::Stdio;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Table};

use crate::channels::{Placement, Unit};
use crate::guests::{Found, Guest, figures, guest};

/// Looks where its units are.
const PLACEMENT: Guest = guest!("placement");
/// The share of looks in which each unit at work has a CPU of its own.
const APART: Metric = metric("each_on_its_own_share", "share");
/// Moves from one CPU to another, of one unit.
const MOVES: Metric = metric("moves_per_s", "1/s");

words! {
    /// What units do.
    enum Does {
        /// Without a pause.
        Computes = "computes",
        /// In turns with sleeping.
        Naps = "naps",
    }
}

point! {
    /// A point of the grid.
    struct Case { unit: Unit, does: Does, units: u64 = 1..=4096, pinned: bool, cpus: u64 = 1.. }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "placement",
    question: "Where do threads run while there are no more of them than CPUs, and how often do they move?",
    first_run: false,
    sources: &["003"],
    primary: &[APART],
    how: "Threads or processes of a small C program start together on all CPUs of the case and compute for 100 ms: without a pause, \
          or in turns with naps of half a millisecond. Each asks the kernel about every microsecond on which CPU it is, and keeps \
          the changes. Afterwards a look is taken every 97 µs from when the last of them ran: \
          `each_on_its_own_share` of the looks found every unit that was at work on a CPU of its own. `moves_per_s` are the \
          changes of CPU of a unit.",
    control: "pinned=yes: each is bound to a CPU of its own, where no two can meet and none can move.",
    traps: &[
        "Asking from outside would take a CPU and move what is looked at: the units themselves keep where they were.",
        "A unit that waits for its CPU is where it last was, and so meets the one that has it.",
        "Another program that computes makes the kernel put two of them together, or move them: a marked sample says less.",
        "The first hundredths of a second count: units begin where they were made or woken, and the kernel spreads them then.",
        "Whether two CPUs are of one core is not looked at.",
    ],
    source: "Source 003 says in words that while there are no more threads than CPUs each runs on its own. It did not look.",
    calls: &[],
    plan,
    run,
    read,
};

const LASTS: Duration = Duration::from_millis(100);
/// No multiple of a nap.
const LOOK_EVERY: Duration = Duration::from_micros(97);
/// What the charts and tables set side by side.
const KINDS: [(&str, Case); 5] = [
    ("threads that compute", THREADS),
    ("processes that compute", THREADS.unit(Unit::Process)),
    ("threads that nap", THREADS.does(Does::Naps)),
    ("processes that nap", THREADS.unit(Unit::Process).does(Does::Naps)),
    ("pinned threads", THREADS.pinned(true)),
];

/// Two threads that compute, where the scheduler puts them.
const THREADS: Case = Case {
    unit: Unit::Thread,
    does: Does::Computes,
    units: 2,
    pinned: false,
    cpus: 2,
};

impl Case {
    /// Reads parameters, which `--set` may have changed.
    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        if case.unit == Unit::Coroutine {
            return Err(refused(
                params,
                "unit",
                "one that the kernel places: thread, process or shared-process",
            ));
        }
        Ok(case)
    }

    fn planned(self) -> PlannedCase {
        let each_us = match self.unit {
            Unit::Process => 250,
            _ => 80,
        };
        PlannedCase {
            skip: PLACEMENT.missing(),
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, LASTS + Duration::from_micros(12_000 + self.units * each_us))
        }
    }
}

/// From `least` on in powers of two, and one for each CPU.
fn counts(least: u64, cpus: u64) -> Vec<u64> {
    let powers = (0..).map(|power| least << power).take_while(|n| *n < cpus);
    powers.chain([cpus]).collect()
}

fn plan(site: &Site) -> Plan {
    let all_cpus = (site.cpus.len() as u64).max(2);
    let on_all = |case: Case, units: u64| case.units(units).cpus(all_cpus);
    let cases: Vec<Case> = match site.profile {
        Profile::Quick => counts(2, all_cpus)
            .into_iter()
            .map(|n| on_all(THREADS, n))
            .collect(),
        Profile::Standard | Profile::Paper => KINDS
            .into_iter()
            .flat_map(|(_, case)| counts(1, all_cpus).into_iter().map(move |n| on_all(case, n)))
            .collect(),
    };
    Plan {
        cases: cases.into_iter().map(Case::planned).collect(),
        reference: on_all(THREADS, all_cpus).params(),
        budget: Duration::from_secs(site.profile.pick(24, 180, 600)),
    }
}

figures! {
    /// What `guests/c/placement.c` answers.
    struct Looked {
        wall_ns,
        looks,
        different,
        moves,
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let pinned = if case.pinned {
        Placement::Across
    } else {
        Placement::Free
    }
    .pinned()?;
    let found: Found<Looked> = PLACEMENT.ask(
        worker,
        Stdio::null(),
        &[
            &case.unit.name(),
            &case.does.name(),
            &case.units,
            &pinned,
            &LASTS.as_nanos(),
            &LOOK_EVERY.as_nanos(),
        ],
        case.planned().deadline(),
        case.unit.made_by(),
    )?;
    let looked = found.figures;
    let unit_s = looked.wall_ns as f64 * 1e-9 * case.units as f64;
    worker.tag("cold");
    worker.record(APART, looked.different as f64 / looked.looks as f64);
    worker.record(MOVES, looked.moves as f64 / unit_s);
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view.all_cpus().and_then(|all| {
            let of = format!("looks at which each of {all} threads is on a CPU of its own ÷ all looks");
            view.number(of, &APART.of(THREADS.units(all).cpus(all)), "share")
        }),
        claims: vec![("threads-on-distinct-cpus", apart(view))],
        facts: facts(view),
        figures: charts(view),
        tables: vec![where_they_are(view)],
        ..Answer::default()
    }
}

/// Of two threads, and of more up to one for each CPU. Beside other programs that compute there are not so many CPUs.
fn apart(view: &View<'_>) -> Test {
    on_all_cpus(view, |all| {
        let cell = |units: u64| (format!("units={units}"), APART.of(THREADS.units(units).cpus(all)));
        let cells: Vec<_> = counts(2, all).into_iter().map(cell).collect();
        if cells.iter().any(|(_, apart)| view.disturbance(apart).is_some()) {
            let says = "other programs computed meanwhile, so that there were fewer CPUs than threads; end them and run it again";
            return Lack::new(Need::Figures, says).into();
        }
        each(Quote::Smallest, cells)
    })
}

fn answer(view: &View<'_>) -> String {
    let all = view.all_cpus().unwrap_or(1);
    let case = THREADS.units(all).cpus(all);
    let (Some(apart), Some(moves)) = (view.estimate(&APART.of(case)), view.estimate(&MOVES.of(case))) else {
        return String::new();
    };
    format!(
        "Of {all} threads that compute on {all} CPUs each is on a CPU of its own in {} of the looks, and moves {} times a second.",
        apart.plain("share"),
        moves.plain("count")
    )
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let Some(all) = view.all_cpus() else {
        return Vec::new();
    };
    let of_kind = |(kind, case): (&str, Case)| {
        let case = case.units(all).cpus(all);
        let apart = view.estimate(&APART.of(case))?;
        let says = format!(
            "Of {all} {kind} on {all} CPUs each is on its own in {} of the looks, and moves {} times a second.",
            apart.show("share"),
            view.shown(&MOVES.of(case), "count")
        );
        Some(apart.fact(says, "share"))
    };
    KINDS.into_iter().filter_map(of_kind).collect()
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let all = view.all_cpus().unwrap_or(1);
    let drawn = |id: &str, title: String, label: &str, metric: Metric| {
        let chart = Chart::new(view, id, title)
            .x(Scale::Category, "units")
            .y(Scale::Linear, label)
            .note("The last has one for each CPU.");
        let points = |case: Case| {
            let of = move |n: u64| (n.to_string(), metric.of(case.units(n).cpus(all)));
            counts(1, all).into_iter().map(of)
        };
        KINDS
            .into_iter()
            .fold(chart, |chart, (kind, case)| chart.line(kind, points(case)))
    };
    let apart = drawn(
        "apart",
        format!("How often each unit has a CPU of its own, of {all}"),
        "share of looks",
        APART,
    );
    let moves = drawn(
        "moves",
        format!("How often a unit moves to another of {all} CPUs"),
        "moves of a unit, 1/s",
        MOVES,
    );
    [apart, moves].into_iter().filter_map(Chart::drawn).collect()
}

fn where_they_are(view: &View<'_>) -> Table {
    let all = view.all_cpus().unwrap_or(1);
    let row = |(kind, case): (&str, Case), units: u64| {
        let case = case.units(units).cpus(all);
        let row = vec![
            kind.to_owned(),
            units.to_string(),
            view.shown(&APART.of(case), "share"),
            view.shown(&MOVES.of(case), "count"),
        ];
        view.measured(&APART.of(case)).then_some(row)
    };
    let rows = KINDS
        .into_iter()
        .flat_map(|kind| counts(1, all).into_iter().map(move |n| (kind, n)));
    table(
        "where",
        format!("Units on {all} CPUs"),
        "Each on its own: the share of looks in which no two that were at work were on one CPU.",
        ["units", "how many", "each on its own", "moves a second of a unit"],
        rows.filter_map(|(kind, n)| row(kind, n)).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_lab::view::ViewCase;
    use threadgauge_machine::allowed_cpus;
    use threadgauge_results::{Sample, Verdict};

    fn sample(case: Case) -> Sample {
        testing::measured(&EXPERIMENT, &case.params())
    }

    #[test]
    fn more_units_than_cpus_meet_and_one_does_not() {
        let cpus = allowed_cpus().unwrap().len() as u64;
        for unit in [Unit::Thread, Unit::Process] {
            for does in Does::ALL {
                let case = THREADS.unit(unit).does(does);
                assert_eq!(sample(case.units(1)).value(APART.name), Some(1.0), "{case:?}");
            }
            let crowd = sample(THREADS.unit(unit).units(cpus + 1));
            assert_eq!(crowd.value(APART.name), Some(0.0), "{crowd:?}");
        }
    }

    #[test]
    fn pinned_units_stay_where_they_are() {
        let cpus = allowed_cpus().unwrap().len() as u64;
        let pinned = sample(THREADS.units(cpus).pinned(true));
        assert_eq!(
            (pinned.value(APART.name), pinned.value(MOVES.name)),
            (Some(1.0), Some(0.0))
        );
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let error = Case::possible(&THREADS.unit(Unit::Coroutine).params())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("unit is coroutine; it must be one that the kernel places"),
            "{error}"
        );
    }

    #[test]
    fn counts_rise_in_powers_of_two_up_to_one_for_each_cpu() {
        assert_eq!(counts(2, 2), [2]);
        assert_eq!(counts(1, 6), [1, 2, 4, 6]);
        assert_eq!(counts(2, 8), [2, 4, 8]);
    }

    /// The standard profile on so many CPUs, in which units are apart in this share of the looks.
    fn run_of(cpus: usize, apart: impl Fn(Case) -> f64) -> View<'static> {
        let of = |planned: PlannedCase| -> ViewCase {
            let case = Case::possible(&planned.params).unwrap();
            testing::case(
                planned.params,
                [(APART, vec![apart(case); 7]), (MOVES, vec![2.0; 7])],
            )
        };
        let cases = plan(&testing::site(Profile::Standard, cpus)).cases;
        testing::view(
            "placement",
            Profile::Standard,
            cases.into_iter().map(of).collect(),
        )
    }

    fn verdict(view: &View<'_>) -> Verdict {
        testing::verdict(&apart(view), "threads-on-distinct-cpus", view).unwrap()
    }

    #[test]
    fn threads_are_apart_at_every_count_or_the_claim_does_not_hold() {
        assert_eq!(verdict(&run_of(4, |_| 1.0)), Verdict::Holds);
        assert_eq!(
            verdict(&run_of(4, |case| if case.units == 4 { 0.9 } else { 1.0 })),
            Verdict::DoesNotHold
        );
        // Other kinds of units are not what it is about.
        assert_eq!(
            verdict(&run_of(4, |case| if case == THREADS.units(case.units).cpus(4) {
                1.0
            } else {
                0.5
            })),
            Verdict::Holds
        );
        let one = testing::changed(run_of(2, |_| 1.0), |cases| {
            for case in cases {
                *case = testing::lacking(case.params.clone(), Lack::cpus(2, 1));
            }
        });
        assert_eq!(verdict(&one), Verdict::NotTestable);
    }

    #[test]
    fn beside_other_programs_that_compute_the_claim_stays_open() {
        let meeting = |_: Case| 0.5;
        assert_eq!(verdict(&run_of(2, meeting)), Verdict::DoesNotHold);
        let disturbed = testing::changed(run_of(2, meeting), |cases| {
            let figures = cases.iter_mut().flat_map(|case| case.values.values_mut());
            figures.for_each(|rounds| rounds.clear());
        });
        assert_eq!(verdict(&disturbed), Verdict::Inconclusive);
    }

    #[test]
    fn what_is_read_off_has_its_figures() {
        let view = run_of(2, |_| 0.98);
        assert_eq!(
            answer(&view),
            "Of 2 threads that compute on 2 CPUs each is on a CPU of its own in 98.0 % of the looks, and moves 2 times a second."
        );
        assert_eq!(
            (
                facts(&view).len(),
                charts(&view).len(),
                where_they_are(&view).rows.len()
            ),
            (5, 2, 10)
        );
        let nothing = testing::view("placement", Profile::Quick, Vec::new());
        assert!(answer(&nothing).is_empty());
        assert!(charts(&nothing).is_empty() && facts(&nothing).is_empty());
    }
}
