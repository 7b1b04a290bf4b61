//! The most units of other runtimes that are alive at once.
//!
//! A guest makes units that wait until one is refused, or until a guard ends it: as for units in C no case takes more
//! than four fifths of a limit that others share, or half of the memory that is free.

use threadgauge_lab::prelude::*;

use super::case::{ALIVE, CENSORED};
use crate::footprint::{memory_room, room};
use crate::guests::{Found, figures};
use crate::runtimes::{self, Does, Kind, Name, Unit, guest};

point! {
    /// As many units of a guest as there can be, up to `count`.
    pub struct Guests {
        runtime: Name,
        unit: Name,
        count: u64 = 1..=10_000_000,
        cpus: u64 = 1..,
    }
}

figures! {
    /// What a guest answers.
    struct Most {
        made,
        refused,
    }
}

impl Guests {
    fn planned(self, kind: &Kind, unit: &Unit) -> PlannedCase {
        let made = Duration::from_micros(self.count * unit.create_us);
        PlannedCase::new(self, Duration::from_millis(15 + kind.starts_ms) + made)
    }
}

/// The cases of each unit of the runtimes that were asked for; quick has none.
pub fn plan(site: &Site) -> Vec<PlannedCase> {
    if site.profile == Profile::Quick {
        return Vec::new();
    }
    runtimes::plan(site, Does::Most, |runtime, kind, unit| {
        let case = Guests {
            runtime,
            unit: Name::new(unit.name),
            count: unit.most,
            cpus: 1,
        };
        [case.planned(kind, unit)]
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
    // The kernel knows nothing of those that the runtime schedules: they take memory alone.
    let guard = match unit.in_runtime {
        true => memory_room(),
        false => room().0.min(memory_room()),
    };
    let most = case.count.min(guard);
    if most == 0 {
        let says = "there is no room for a unit: half of the memory that is free, or four fifths of a limit";
        return Err(CaseError::Skipped(Lack::new(Need::System, says)));
    }
    let found: Found<Most> = guest::ask(
        &runtime,
        worker,
        &[&"most", &unit.name, &most],
        case.planned(kind, unit).deadline(),
    )?;
    let Most { made, refused } = found.figures;
    if made > most || (refused == 0) != (made == most) {
        let says = format!("the guest made {made} units of {most}, and says that {refused} was refused");
        return Err(CaseError::Failed(says));
    }
    worker.tag("cold");
    worker.record(ALIVE, made as f64);
    worker.record(CENSORED, f64::from(u8::from(refused == 0)));
    Ok(())
}

/// What guests add to the answer; nothing where there are none.
pub fn read(view: &View<'_>, answer: &mut Answer) {
    let cases = view
        .beside("runtime")
        .filter(|params| params.get("trial").is_none());
    let rows = cases
        .filter_map(|params| Guests::read(params).ok())
        .filter_map(|case| {
            let alive = view.estimate(&ALIVE.of(case))?.show("count");
            let by_guard = view
                .value(&CENSORED.of(case))
                .is_some_and(|censored| censored > 0.5);
            let end = match by_guard {
                true => "a guard: the system allows at least so many",
                false => "the system refused another",
            };
            Some(vec![
                runtimes::label(case.runtime, case.unit),
                case.count.to_string(),
                alive,
                end.to_owned(),
            ])
        });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        answer.tables.push(table(
            "guests",
            "The most units alive, by runtime",
            "With the stacks and limits that a program has by default.",
            ["unit", "asked for", "alive", "ended by"],
            rows,
        ));
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    use super::*;
    use crate::limits::EXPERIMENT;
    use crate::runtimes::guest::testing::{sample, script};

    fn case() -> Guests {
        Guests {
            runtime: Name::new("python"),
            unit: Name::new("thread"),
            count: 30,
            cpus: 1,
        }
    }

    #[test]
    fn what_a_guard_ended_is_told_from_what_the_system_refused() {
        for (text, expected) in [
            ("echo done made=$3 refused=0", Ok((30.0, 1.0))),
            ("echo done made=12 refused=1", Ok((12.0, 0.0))),
            (
                "echo done made=12 refused=0",
                Err("made 12 units of 30, and says that 0 was refused"),
            ),
            ("echo done made=31 refused=0", Err("made 31 units of 30")),
            ("echo done made=30 refused=1", Err("says that 1 was refused")),
        ] {
            let sample = sample(
                &EXPERIMENT,
                &case().params(),
                Some(script("python", "3.11", text)),
            );
            let reason = sample.reason.clone().unwrap_or_default();
            match expected {
                Ok((alive, censored)) => {
                    assert_eq!(sample.status, Status::Ok, "{text}: {reason}");
                    assert_eq!(sample.value(ALIVE.name), Some(alive));
                    assert_eq!(sample.value(CENSORED.name), Some(censored));
                }
                Err(says) => assert!(reason.contains(says), "{text}: {reason}"),
            }
        }
    }

    #[test]
    fn guests_are_planned_from_standard_on_and_have_a_table() {
        let with = |profile| Site {
            runtimes: vec![script("go", "1.26", "")],
            ..testing::site(profile, 2)
        };
        assert_eq!(Profile::ALL.map(|profile| plan(&with(profile)).len()), [0, 1, 1]);
        let measured = testing::case(case(), [(ALIVE, vec![12.0; 7]), (CENSORED, vec![0.0; 7])]);
        let mut answer = Answer::default();
        read(
            &testing::view("limits", Profile::Standard, vec![measured]),
            &mut answer,
        );
        let row = &answer.tables[0].rows[0];
        assert!(
            row[0] == "Python thread" && row[3] == "the system refused another",
            "{row:?}"
        );
    }
}
