//! The memory of idle units of other runtimes.
//!
//! A guest keeps its units until its input ends, and says when all wait. Then its memory is read from outside, with
//! that of all processes it has. The same guest with one unit is the baseline: what a runtime takes by itself is no
//! unit's.

use threadgauge_lab::prelude::*;
use threadgauge_results::Runtime;

use super::parts::{MEMORY, PARTS};
use crate::guests::figures;
use crate::runtimes::memory::Memory;
use crate::runtimes::talk::TalkError;
use crate::runtimes::{self, Does, Kind, Name, Unit, guest};

/// What the runtime takes with one unit: its own pages and the page tables to them.
const RUNTIME: Metric = metric("runtime_bytes", "B");

point! {
    /// Idle units of a guest.
    pub struct Guests {
        runtime: Name,
        unit: Name,
        count: u64 = 2..=10_000_000,
        cpus: u64 = 1..,
    }
}

figures! {
    /// How many units of a guest wait.
    struct Waiting {
        made,
    }
}

impl Guests {
    fn planned(self, kind: &Kind, unit: &Unit) -> PlannedCase {
        let made = Duration::from_micros((self.count + 1) * unit.create_us);
        // Twice the guest, and each time until nothing more is freed.
        let start = Duration::from_millis(15 + 2 * kind.starts_ms + 2 * 50);
        PlannedCase::new(self, start + made)
    }
}

/// The cases of each unit of the runtimes that were asked for.
pub fn plan(site: &Site) -> Vec<PlannedCase> {
    runtimes::plan(site, Does::Idle, |runtime, kind, unit| {
        let case = Guests {
            runtime,
            unit: Name::new(unit.name),
            count: unit.idle,
            cpus: 1,
        };
        [case.planned(kind, unit)]
    })
}

/// Runs the case with these parameters.
///
/// # Errors
///
/// Those of [`guest::begin`] and [`guest::ask`]; skipped where the system refused a unit.
pub fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Guests::read(params)?;
    let (runtime, kind, unit) = guest::begin(params, case.unit, worker)?;
    // One has half of the time of both.
    let deadline = case.planned(kind, unit).deadline() / 2;
    let one = idle(&runtime, unit, 1, deadline)?;
    let all = idle(&runtime, unit, case.count, deadline)?;
    let more = (case.count - 1) as f64;
    let grown = |of: fn(&Memory) -> u64| (of(&all) as f64 - of(&one) as f64) * 1024.0 / more;
    let parts = [
        grown(|memory| memory.private_kib),
        grown(|memory| memory.page_tables_kib),
        grown(|memory| memory.kernel_stacks_kib),
        grown(|memory| memory.slab_kib),
    ];
    worker.tag("cold");
    worker.record(MEMORY, parts.iter().sum());
    for ((_, metric), bytes) in PARTS.into_iter().zip(parts) {
        worker.record(metric, bytes);
    }
    worker.record(RUNTIME, (one.private_kib + one.page_tables_kib) as f64 * 1024.0);
    Ok(())
}

/// The memory of a guest with so many idle units.
fn idle(runtime: &Runtime, unit: &Unit, count: u64, deadline: Duration) -> Result<Memory, CaseError> {
    let mut talk =
        guest::start(runtime, &[&"idle", &unit.name, &count], deadline).map_err(TalkError::of_case)?;
    let Waiting { made } = talk.told("ready").map_err(TalkError::of_case)?;
    if made < count {
        let says = format!("{} {} of {count} was refused", unit.kind, made + 1);
        return Err(CaseError::Skipped(Lack::new(Need::System, says)));
    }
    let memory = Memory::of_group(talk.id());
    talk.end_input();
    let Waiting { made } = talk.told("done").map_err(TalkError::of_case)?;
    talk.end().map_err(TalkError::of_case)?;
    match made == count {
        true => Ok(memory),
        false => Err(CaseError::Failed(format!(
            "the guest kept {made} units of {count}"
        ))),
    }
}

/// The memory of an idle unit, of however many.
pub fn memory(case: Guests) -> Statistic {
    MEMORY.of(case.any(&["count"]))
}

/// What guests add to the answer; nothing where there are none.
pub fn read(view: &View<'_>, answer: &mut Answer) {
    let rows = runtimes::cases::<Guests>(view).into_iter().filter_map(|case| {
        let whole = view.estimate(&memory(case))?.show("B");
        let mut row = vec![
            runtimes::label(case.runtime, case.unit),
            case.count.to_string(),
            whole,
        ];
        let metrics = PARTS.into_iter().map(|(_, metric)| metric).chain([RUNTIME]);
        row.extend(metrics.map(|metric| view.shown(&metric.of(case), "B")));
        Some(row)
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        answer.tables.push(table(
            "guests",
            "Memory of an idle unit, by runtime",
            "What a guest with so many units holds beyond the same with one, for each unit. runtime: what it holds with one. \
             Page tables here are the guest's own; kernel stacks and other kernel memory are the machine's growth.",
            [
                "unit",
                "units",
                "each",
                "its own pages",
                "page tables",
                "kernel stack",
                "other kernel memory",
                "runtime",
            ],
            rows,
        ));
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    use super::*;
    use crate::footprint::EXPERIMENT;
    use crate::runtimes::guest::testing::{sample, script};

    fn case(count: u64) -> Guests {
        Guests {
            runtime: Name::new("go"),
            unit: Name::new("goroutine"),
            count,
            cpus: 1,
        }
    }

    #[test]
    fn a_unit_is_what_a_guest_holds_with_many_beyond_what_it_holds_with_one() {
        // A "unit" is a process, and one shell is the runtime.
        let text = "i=0; while [ $i -lt $3 ]; do sleep 600 >&- 2>&- <&- & i=$((i + 1)); done; \
                    echo ready made=$3; read x; echo done made=$3";
        let sample = sample(&EXPERIMENT, &case(9).params(), Some(script("go", "1.26", text)));
        assert_eq!(sample.status, Status::Ok, "{:?}", sample.reason);
        let value = |metric: Metric| sample.value(metric.name).unwrap();
        // Nine processes, each with a page of its own at least.
        assert!(value(PARTS[0].1) >= 4096.0, "{sample:?}");
        assert!(
            value(PARTS[1].1) >= 4096.0 && value(RUNTIME) >= 4096.0,
            "{sample:?}"
        );
        let parts: f64 = PARTS.into_iter().map(|(_, part)| value(part)).sum();
        assert!((value(MEMORY) - parts).abs() < 1.0, "{sample:?}");
    }

    #[test]
    fn a_guest_that_keeps_fewer_or_says_so_is_told_apart() {
        for (text, status, says) in [
            (
                "echo ready made=$(($3 - 1))",
                Status::Skipped,
                "goroutine 1 of 1 was refused",
            ),
            (
                "echo ready made=$3; read x; echo done made=7",
                Status::Failed,
                "kept 7 units of 1",
            ),
            ("echo done made=$3", Status::Failed, "it is to begin with ready"),
            (
                "echo ready made=$3; exit 4",
                Status::Failed,
                "it ended with exit status: 4",
            ),
        ] {
            let sample = sample(&EXPERIMENT, &case(9).params(), Some(script("go", "1.26", text)));
            let reason = sample.reason.unwrap();
            assert!(
                sample.status == status && reason.contains(says),
                "{text}: {reason}"
            );
        }
    }

    #[test]
    fn guests_are_planned_where_they_were_asked_for_and_have_a_table() {
        let site = Site {
            runtimes: vec![script("python", "3.11", "")],
            ..testing::site(Profile::Quick, 2)
        };
        let cases = plan(&site).into_iter().map(|case| case.params.to_string());
        let expected = [("thread", 1_000), ("process", 100), ("task", 10_000)]
            .map(|(unit, count)| format!("runtime=python,unit={unit},count={count},cpus=1"));
        assert_eq!(cases.collect::<Vec<_>>(), expected);
        let measured = testing::case(case(10), [(MEMORY, vec![2048.0; 7]), (RUNTIME, vec![8192.0; 7])]);
        let mut answer = Answer::default();
        read(
            &testing::view("footprint", Profile::Quick, vec![measured]),
            &mut answer,
        );
        let row = &answer.tables[0].rows[0];
        assert_eq!(row.len(), answer.tables[0].columns.len());
        assert!(
            row[0] == "goroutine" && row[2].starts_with("2.00") && row[7].starts_with("8.00"),
            "{row:?}"
        );
    }
}
