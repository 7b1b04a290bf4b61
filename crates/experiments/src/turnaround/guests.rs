//! The bounded set of computations by other runtimes' pools: a pool of threads, a semaphore, a channel of jobs, as
//! their programs have it.
//!
//! As many equal computations as fill two CPUs for a while, all given at once, `degree` at work. Where a runtime cannot
//! tell the CPU time of a unit a computation is as many steps as take its length alone, so beside others it takes
//! longer.

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;

use super::case::{Kind as Work, as_usize};
use super::claims::{ELAPSED, TURNAROUND};
use crate::guests::{Figures, Found};
use crate::runtimes::{self, Does, Kind, Name, guest};

/// Computations in a set, and the length of each.
const COUNT: u64 = 8;
const LENGTH_MS: u64 = 20;
/// Of the elapsed time that theory has for it: the work over those that can be at it.
const OVER_IDEAL: Metric = metric("elapsed_over_ideal", "ratio");

point! {
    /// A set of equal computations by a guest's pool.
    pub(super) struct Guests {
        runtime: Name,
        unit: Name,
        kind: Work,
        degree: u64 = 1..=1_000,
        count: u64 = 1..=1_000,
        length_ms: u64 = 1..=60_000,
        cpus: u64 = 1..,
    }
}

impl Guests {
    /// The time of a set, if nothing cost anything but the work itself.
    fn ideal(self) -> Duration {
        let at_once = match self.kind {
            Work::Cpu => self.degree.min(self.cpus),
            _ => self.degree,
        };
        Duration::from_millis(self.length_ms * self.count.div_ceil(at_once))
    }

    fn planned(self, kind: &Kind) -> PlannedCase {
        // Finding out how many steps a millisecond is takes some tenths of a second.
        let start = Duration::from_millis(200 + kind.starts_ms);
        PlannedCase {
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, start + self.ideal() * 2)
        }
    }

    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        match case.kind {
            Work::Cpu | Work::Io => Ok(case),
            _ => Err(refused(params, "kind", "cpu or io, where a runtime is named")),
        }
    }
}

/// The end of each computation since the start, in the order in which they were given, and of all.
#[derive(Debug)]
struct Ends {
    elapsed_ns: u64,
    turnarounds_ns: Vec<u64>,
}

impl Figures for Ends {
    fn take(mut next: impl FnMut(&str) -> Result<u64, String>) -> Result<Self, String> {
        let elapsed_ns = next("elapsed_ns")?;
        // As many as there are: whoever asked knows how many.
        let turnarounds_ns = (1..)
            .map_while(|i: u64| next(&format!("turnaround_{i}_ns")).ok())
            .collect();
        Ok(Self {
            elapsed_ns,
            turnarounds_ns,
        })
    }
}

/// The cases of each unit of the runtimes that were asked for: computing by as many as there are CPUs, and waiting.
pub(super) fn plan(site: &Site) -> Vec<PlannedCase> {
    let all_cpus = (site.cpus.len() as u64).max(2);
    runtimes::plan(site, Does::Pool, |runtime, kind, unit| {
        let of = move |(work, degree, cpus): (Work, u64, u64)| {
            let case = Guests {
                runtime,
                unit: Name::new(unit.name),
                kind: work,
                degree,
                count: COUNT,
                length_ms: LENGTH_MS,
                cpus,
            };
            case.planned(kind)
        };
        let sets = [
            (Work::Cpu, 1, 1),
            (Work::Cpu, all_cpus, all_cpus),
            (Work::Io, COUNT, 1),
        ];
        sets.map(of)
    })
}

/// Runs the case with these parameters.
///
/// # Errors
///
/// Those of [`guest::begin`] and [`guest::ask`]; failed where the guest did not tell of each computation.
pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Guests::possible(params)?;
    let (runtime, kind, unit) = guest::begin(params, case.unit, worker)?;
    let lengths = vec![case.length_ms.to_string(); as_usize(case.count)].join("/");
    let found: Found<Ends> = guest::ask(
        &runtime,
        worker,
        &[&"pool", &unit.name, &case.degree, &case.kind.name(), &lengths],
        case.planned(kind).deadline(),
    )?;
    let Ends {
        elapsed_ns,
        turnarounds_ns,
    } = found.figures;
    if turnarounds_ns.len() as u64 != case.count {
        let says = format!(
            "the guest told of {} computations of {}",
            turnarounds_ns.len(),
            case.count
        );
        return Err(CaseError::Failed(says));
    }
    let length_ns = case.length_ms as f64 * 1e6;
    let slowdowns = turnarounds_ns.iter().map(|ns| *ns as f64 / length_ns);
    let elapsed_ns = elapsed_ns as f64 * found.stretch;
    worker.tag("cold");
    worker.record(ELAPSED, elapsed_ns);
    worker.record(TURNAROUND, slowdowns.sum::<f64>() / case.count as f64);
    worker.record(OVER_IDEAL, elapsed_ns / case.ideal().as_nanos() as f64);
    Ok(())
}

/// What guests add to the answer; nothing where there are none.
pub(super) fn read(view: &View<'_>, answer: &mut Answer) {
    let rows = runtimes::cases::<Guests>(view).into_iter().filter_map(|case| {
        let elapsed = view.estimate(&ELAPSED.of(case))?.show("ns");
        Some(vec![
            runtimes::label(case.runtime, case.unit),
            case.kind.name().to_owned(),
            format!("{} of {} ms", case.count, case.length_ms),
            case.degree.to_string(),
            case.cpus.to_string(),
            elapsed,
            view.shown(&OVER_IDEAL.of(case), "ratio"),
            view.shown(&TURNAROUND.of(case), "ratio"),
        ])
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        answer.tables.push(table(
            "guests",
            "A bounded set of computations by other runtimes' pools",
            "Over ideal: against the work divided by as many as can be at it. Who has no thread of the kernel for each unit \
             computes on one CPU, however many there are.",
            ["pool of", "work", "set", "degree", "CPUs", "elapsed", "over ideal", "turnaround"],
            rows,
        ));
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    use super::*;
    use crate::runtimes::guest::testing::{sample, script};
    use crate::turnaround::EXPERIMENT;

    fn case() -> Guests {
        Guests {
            runtime: Name::new("go"),
            unit: Name::new("goroutine"),
            kind: Work::Cpu,
            degree: 2,
            count: 3,
            length_ms: 10,
            cpus: 1,
        }
    }

    #[test]
    fn a_set_is_told_by_the_end_of_each() {
        let text = "[ \"$1 $2 $3 $4 $5\" = 'pool goroutine 2 cpu 10/10/10' ] || exit 5
                    echo done elapsed_ns=30000000 turnaround_1_ns=10000000 turnaround_2_ns=20000000 turnaround_3_ns=30000000";
        let sample = sample(&EXPERIMENT, &case().params(), Some(script("go", "1.26", text)));
        assert_eq!(sample.status, Status::Ok, "{:?}", sample.reason);
        assert_eq!(sample.value(TURNAROUND.name), Some(2.0));
        let over_ideal = sample.value(OVER_IDEAL.name).unwrap();
        assert!((0.999..2.0).contains(&over_ideal), "{over_ideal}");
    }

    #[test]
    fn who_does_not_tell_of_each_has_failed() {
        for (text, says) in [
            (
                "echo done elapsed_ns=3 turnaround_1_ns=1",
                "told of 1 computations of 3",
            ),
            ("echo done elapsed_ns=3", "told of 0 computations of 3"),
            (
                "echo done elapsed_ns=3 turnaround_2_ns=1",
                "told of 0 computations of 3",
            ),
            ("echo done turnaround_1_ns=1", "elapsed_ns=NUMBER is wanted"),
        ] {
            let sample = sample(&EXPERIMENT, &case().params(), Some(script("go", "1.26", text)));
            let reason = sample.reason.unwrap();
            assert!(reason.contains(says), "{text}: {reason}");
        }
        let other = Guests {
            kind: Work::Mix50,
            ..case()
        };
        let refused = Guests::possible(&other.params()).unwrap_err().to_string();
        assert!(
            refused.contains("kind is mix50; it must be cpu or io"),
            "{refused}"
        );
    }

    #[test]
    fn theory_divides_the_work_by_those_that_can_be_at_it() {
        let ms = |kind, degree, cpus| {
            let case = Guests {
                kind,
                degree,
                cpus,
                count: 8,
                ..case()
            };
            case.ideal().as_millis()
        };
        assert_eq!(
            [ms(Work::Cpu, 8, 1), ms(Work::Cpu, 8, 2), ms(Work::Cpu, 3, 4)],
            [80, 40, 30]
        );
        assert_eq!([ms(Work::Io, 8, 1), ms(Work::Io, 1, 4)], [10, 80]);
    }

    #[test]
    fn guests_are_planned_where_they_were_asked_for_and_have_a_table() {
        let site = Site {
            runtimes: vec![script("go", "1.26", "")],
            ..testing::site(Profile::Quick, 2)
        };
        assert_eq!(plan(&site).len(), 3);
        assert!(plan(&testing::site(Profile::Quick, 2)).is_empty());
        let metrics = [(ELAPSED, 160e6), (TURNAROUND, 4.5), (OVER_IDEAL, 1.0)];
        let measured = testing::case(case(), metrics.map(|(metric, value)| (metric, vec![value; 7])));
        let mut answer = Answer::default();
        read(
            &testing::view("turnaround", Profile::Quick, vec![measured]),
            &mut answer,
        );
        let row = &answer.tables[0].rows[0];
        assert_eq!(row[..5], ["goroutine", "cpu", "3 of 10 ms", "2", "1"]);
    }
}
