//! A token that goes round a ring of another runtime's units, by the runtime's own means: a channel, a queue, a
//! mailbox.
//!
//! What a guest tells is the whole hop. Nothing is taken off, since no two runtimes have the same token's own cost.

use threadgauge_lab::prelude::*;

use crate::guests::{Found, figures};
use crate::runtimes::{self, Does, Kind, Name, Unit, guest};

/// Time of a hop: of handing the token on, with all that belongs to it.
pub const HOP: Metric = metric("ns_per_hop", "ns");

/// How long laps are timed, at the least.
const TIMED: Duration = Duration::from_millis(100);

point! {
    /// A ring of a guest's units.
    pub struct Guests {
        runtime: Name,
        unit: Name,
        ring: u64 = 2..=16_384,
        cpus: u64 = 1..,
    }
}

figures! {
    /// What a guest answers.
    struct Laps {
        wall_ns,
        hops,
    }
}

/// How long laps are repeated before they are timed.
const fn warm(kind: &Kind) -> Duration {
    Duration::from_millis(kind.warms_ms)
}

impl Guests {
    fn planned(self, kind: &Kind, unit: &Unit) -> PlannedCase {
        let made = Duration::from_micros(self.ring * unit.create_us);
        let start = Duration::from_millis(15 + kind.starts_ms);
        PlannedCase::new(self, start + made + warm(kind) * 2 + TIMED * 3 / 2)
    }
}

/// The cases of each unit of the runtimes that were asked for.
pub fn plan(site: &Site) -> Vec<PlannedCase> {
    let all_cpus = (site.cpus.len() as u64).max(2);
    let more = vec![(2, 1), (16, 1), (2, all_cpus), (16, all_cpus)];
    let rings = site.profile.pick(vec![(2, 1)], more.clone(), more);
    runtimes::plan(site, Does::Ring, |runtime, kind, unit| {
        rings.iter().map(move |&(ring, cpus)| {
            let case = Guests {
                runtime,
                unit: Name::new(unit.name),
                ring,
                cpus,
            };
            case.planned(kind, unit)
        })
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
    let found: Found<Laps> = guest::ask(
        &runtime,
        worker,
        &[
            &"ring",
            &unit.name,
            &case.ring,
            &warm(kind).as_nanos(),
            &TIMED.as_nanos(),
        ],
        case.planned(kind, unit).deadline(),
    )?;
    let Laps { wall_ns, hops } = found.figures;
    if hops == 0 {
        return Err(CaseError::Failed("the token of the guest made no hop".to_owned()));
    }
    worker.record(HOP, wall_ns as f64 * found.stretch / hops as f64);
    Ok(())
}

/// The time of a hop.
pub fn hop(case: Guests) -> Statistic {
    HOP.of(case)
}

/// What guests add to the answer; nothing where there are none.
pub fn read(view: &View<'_>, answer: &mut Answer) {
    let rows = runtimes::cases::<Guests>(view).into_iter().filter_map(|case| {
        let hop = view.estimate(&hop(case))?.show("ns");
        Some(vec![
            runtimes::label(case.runtime, case.unit),
            case.ring.to_string(),
            case.cpus.to_string(),
            hop,
        ])
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        answer.tables.push(table(
            "guests",
            "A hop between units of other runtimes",
            "The whole hop by the runtime's own channel, queue or mailbox, with what the token itself costs: set it \
             against a hop in C, not against a switch.",
            ["unit", "ring", "CPUs", "hop"],
            rows,
        ));
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    use super::*;
    use crate::ring::EXPERIMENT;
    use crate::runtimes::guest::testing::{sample, script};

    const fn case(runtime: Name, unit: Name) -> Guests {
        Guests {
            runtime,
            unit,
            ring: 2,
            cpus: 1,
        }
    }

    fn goroutines() -> Guests {
        case(Name::new("go"), Name::new("goroutine"))
    }

    #[test]
    fn a_hop_is_the_time_of_the_laps_over_their_hops() {
        // It is told the ring and how long to warm up and to time.
        let script = script(
            "go",
            "1.26",
            "[ \"$1 $2 $3 $4 $5\" = 'ring goroutine 2 200000000 100000000' ] && echo done wall_ns=100000 hops=500",
        );
        let sample = sample(&EXPERIMENT, &goroutines().params(), Some(script));
        assert_eq!(sample.status, Status::Ok, "{:?}", sample.reason);
        let hop_ns = sample.value(HOP.name).unwrap();
        assert!((199.0..400.0).contains(&hop_ns), "{hop_ns}");
    }

    #[test]
    fn a_token_that_does_not_move_is_a_failure() {
        let still = script("go", "1.26", "echo done wall_ns=100000 hops=0");
        let sample = sample(&EXPERIMENT, &goroutines().params(), Some(still));
        assert_eq!(sample.status, Status::Failed);
        assert_eq!(
            sample.reason.as_deref(),
            Some("the token of the guest made no hop")
        );
    }

    #[test]
    fn guests_are_planned_where_they_were_asked_for_and_have_a_table() {
        let site = |profile| Site {
            runtimes: vec![script("node", "20", "")],
            ..testing::site(profile, 2)
        };
        let count = |profile| plan(&site(profile)).len();
        assert_eq!(Profile::ALL.map(count), [2, 8, 8]);
        assert!(plan(&testing::site(Profile::Paper, 2)).is_empty());
        let measured = testing::case(goroutines(), [(HOP, vec![250.0; 7])]);
        let mut answer = Answer::default();
        read(
            &testing::view("ring", Profile::Quick, vec![measured]),
            &mut answer,
        );
        assert_eq!(answer.tables[0].rows[0][..3], ["goroutine", "2", "1"]);
        assert!(
            answer.tables[0].rows[0][3].starts_with("250"),
            "{:?}",
            answer.tables
        );
    }
}
