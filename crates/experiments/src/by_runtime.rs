//! What a unit costs by runtime as a table over three experiments, and the cells that it takes: `run runtimes`.

use threadgauge_lab::prelude::*;
use threadgauge_lab::statistic::Estimate;
use threadgauge_lab::whole::Whole;
use threadgauge_results::units::with_unit;
use threadgauge_results::{BY_RUNTIME, Table};

use crate::footprint::by_runtime::{created, handing};
use crate::footprint::guests::{Guests, memory};
use crate::{create, footprint, ring, runtimes};

/// The experiments that the table is read off, in the order in which they run.
pub const EXPERIMENTS: [&str; 3] = [
    create::EXPERIMENT.id,
    ring::EXPERIMENT.id,
    footprint::EXPERIMENT.id,
];

const NOTE: &str = "On one CPU and warm. Made and ended one at a time; a hop is one hand-over of a token in a ring of two by the \
                    runtime's own channel, queue or mailbox, with all that belongs to it, and between C's units by pipe; memory \
                    is what each idle unit adds to its runtime. What a runtime takes to start is in the tables of these \
                    experiments.";

/// What the others are set against.
const THREAD: &str = "thread in C";

/// In the order of the columns.
const UNITS: [&str; 3] = ["ns", "ns", "B"];

/// A unit and its figures.
type Measured = (String, [Option<Estimate>; 3]);

/// What a row shows.
struct Row {
    unit: String,
    made: Statistic,
    handed: Statistic,
    kept: Statistic,
}

/// The table; none where a run has no guest in any of the three.
pub fn table(run: &Whole<'_>) -> Option<Table> {
    let [makes, hands_on, keeps] = EXPERIMENTS.map(|id| run.view(id));
    let in_c = [
        (
            THREAD,
            create::thread_on(1),
            ring::thread_hop(),
            footprint::thread_memory(),
        ),
        (
            "process in C",
            create::process_on_one(),
            ring::process_hop(),
            footprint::process_memory(),
        ),
    ];
    let in_c = in_c.map(|(unit, made, handed, kept)| Row {
        unit: unit.to_owned(),
        made,
        handed,
        kept,
    });
    let guests = units(&[makes, hands_on, keeps]).into_iter().map(|case| Row {
        unit: runtimes::label(case.runtime, case.unit),
        made: create::guests::time(created(&case)),
        handed: ring::guests::hop(handing(&case)),
        kept: memory(case),
    });
    let estimated = |row: Row| {
        let figures = [
            makes.estimate(&row.made),
            hands_on.estimate(&row.handed),
            keeps.estimate(&row.kept),
        ];
        let has_any = figures.iter().any(Option::is_some);
        has_any.then_some((row.unit, figures))
    };
    let guests: Vec<Measured> = guests.filter_map(estimated).collect();
    if guests.is_empty() {
        return None;
    }
    let all: Vec<Measured> = in_c.into_iter().filter_map(estimated).chain(guests).collect();
    let rows = all.iter().map(|(unit, figures)| {
        let figures = figures.iter().zip(UNITS);
        let figures =
            figures.map(|(figure, unit)| figure.as_ref().map_or_else(String::new, |e| e.show(unit)));
        std::iter::once(unit.clone()).chain(figures).collect()
    });
    let heads = ["unit", "make and end", "a hop", "memory while idle"];
    Some(threadgauge_lab::chart::table(
        BY_RUNTIME,
        "What a unit costs by runtime",
        format!("{} {NOTE}", advice(&all)),
        heads,
        rows.collect(),
    ))
}

/// What the reader should do: which unit costs least in each column, and when that does not matter.
fn advice(all: &[Measured]) -> String {
    let show = |column: usize, value| with_unit(value, None, UNITS[column]);
    let value = |(_, figures): &Measured, column: usize| Some(figures[column]?.value);
    let least = |(column, does): (usize, &str)| {
        let figures = all.iter().filter_map(|of| Some((&of.0, value(of, column)?)));
        let (unit, least) = figures.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(format!("{does} {unit}, {}", show(column, least)))
    };
    let does = ["To make and end:", "to hand on to:", "to keep idle:"];
    let least: Vec<String> = does.into_iter().enumerate().filter_map(least).collect();
    let mut says = format!("The cheapest. {}.", least.join("; "));
    let thread = all.iter().find(|(unit, _)| unit == THREAD);
    if let Some(made) = thread.and_then(|thread| value(thread, 0)) {
        says.push_str(&format!(
            " A thread in C takes {}: where each does over {} of work, even making it is less than 1 % of that, so take what is \
             easiest to write.",
            show(0, made),
            show(0, made * 100.0)
        ));
    }
    says + " For thousands that wait take one that its runtime schedules; for computing take as many as there are CPUs: \
            none of them computes faster."
}

/// Each unit of a runtime that any of these has a case of, once, in the order of the first that has it.
fn units(views: &[View<'_>]) -> Vec<Guests> {
    let mut units: Vec<Guests> = Vec::new();
    for params in views.iter().flat_map(|view| view.beside("runtime")) {
        let [runtime, unit] = ["runtime", "unit"].map(|name| params.text(name).map(runtimes::Name::new));
        if let (Some(runtime), Some(unit)) = (runtime, unit) {
            let is_known = units
                .iter()
                .any(|known| (known.runtime, known.unit) == (runtime, unit));
            if !is_known {
                units.push(Guests {
                    runtime,
                    unit,
                    count: 1,
                    cpus: 1,
                });
            }
        }
    }
    units
}

/// Leaves of a plan the cells of the table: those of guests on one CPU, and of C those that they stand beside. At most
/// a minute and a half of quick each.
pub fn keep(experiment: &str, plan: &mut Plan) {
    let in_c: Vec<Statistic> = match experiment {
        "create" => vec![create::thread_on(1), create::process_on_one()],
        "ring" => vec![ring::thread_hop(), ring::process_hop()],
        _ => vec![footprint::thread_memory(), footprint::process_memory()],
    };
    let in_c: Vec<Params> = in_c.iter().map(Statistic::pattern).collect();
    plan.cases.retain(|case| match case.params.get("runtime") {
        Some(_) => case.params.int("cpus") == Some(1) && case.params.int("ring").is_none_or(|ring| ring == 2),
        None => in_c.iter().any(|pattern| case.params.matches(pattern)),
    });
    let able = plan.cases.iter().filter(|case| case.skip.is_none());
    let round: Duration = able.map(|case| case.estimate).sum();
    // Seven rounds and a half, and as many tries again as disturbed ones may take.
    plan.budget = plan.budget.min(round * 15);
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::schedule::Chosen;
    use threadgauge_lab::testing;
    use threadgauge_lab::view::Cases;
    use threadgauge_machine::Fingerprint;
    use threadgauge_results::Runtime;

    use super::*;
    use crate::runtimes::guest::testing::script;
    use crate::runtimes::{KINDS, Name};

    /// A site where every kind is found, of a version that has all.
    fn site(profile: Profile) -> Site {
        let runtimes: Vec<Runtime> = KINDS.map(|kind| script(kind.name, "99", "")).to_vec();
        Site {
            runtimes,
            ..testing::site(profile, 2)
        }
    }

    #[test]
    fn the_shortcut_takes_the_cells_of_the_table_alone_and_four_minutes_at_most() {
        let units: usize = KINDS.iter().map(|kind| kind.units.len()).sum();
        for profile in Profile::ALL {
            let site = site(profile);
            let mut all = Duration::ZERO;
            for id in EXPERIMENTS {
                let experiment = crate::CATALOGUE.get(id).unwrap();
                let mut chosen = Chosen::all(experiment, &site);
                keep(id, &mut chosen.plan);
                assert_eq!(chosen.plan.cases.len(), units + 2, "{id}");
                all += chosen.expected(7);
            }
            assert!(
                profile != Profile::Quick || all < Duration::from_secs(240),
                "{all:?}"
            );
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_unit_and_is_none_without_guests() {
        let site = testing::site(Profile::Quick, 2);
        let go = Guests {
            runtime: Name::new("go"),
            unit: Name::new("goroutine"),
            count: 1,
            cpus: 1,
        };
        let cell = |statistic: Statistic, value: f64| {
            let metric = metric(statistic.cells()[0].metric.clone().leak(), "ns");
            testing::case(statistic.pattern(), [(metric, vec![value; 7])])
        };
        let told = |with_guests: bool| {
            let mut made = vec![cell(create::thread_on(1), 20e3)];
            let mut handed = vec![cell(ring::thread_hop(), 3e3)];
            if with_guests {
                made.push(cell(create::guests::time(created(&go)), 200.0));
                handed.push(cell(ring::guests::hop(handing(&go)), 100.0));
            }
            let cases = Cases::from([("create".to_owned(), made), ("ring".to_owned(), handed)]);
            let base = testing::view("", Profile::Quick, Vec::new());
            let of = |experiment| View {
                experiment,
                cases: &cases,
                ..base
            };
            let machine = Fingerprint::default();
            table(&Whole {
                views: EXPERIMENTS.map(of).to_vec(),
                other: of(""),
                site: &site,
                machine: &machine,
            })
        };
        let Table { rows, note, .. } = told(true).unwrap();
        assert!(
            note.starts_with("The cheapest. To make and end: goroutine, 200 ns; to hand on to: goroutine, 100 ns. A thread in C takes 20.0 µs: where each does over 2.00 ms of work"),
            "{note}"
        );
        let units: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(units, ["thread in C", "goroutine"]);
        assert!(rows[1][1].starts_with("200") && rows[1][2].starts_with("100") && rows[1][3].is_empty());
        assert!(told(false).is_none());
    }
}
