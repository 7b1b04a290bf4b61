//! Source 004's plan as one table: what its nine figures show, by kernel, preemption, library and size.
//!
//! `create`, `ring` and `chat` measure it; a run has one state of the machine. A cell without a figure says what it
//! lacks. A second table answers the source's own question by library.

use threadgauge_lab::prelude::*;
use threadgauge_lab::whole::Whole;
use threadgauge_machine::Fingerprint;
use threadgauge_results::{Lack, Need, Table};

use crate::conditions::SOURCES_CPUS;
use crate::libraries::{Library, NOT_SHOWN};
use crate::{chat, create, footprint, ring};

const NOTE: &str = "The source's figures are pictures, and their data are not in its text: 1 is creation and 2 switching, \
                    with both libraries on one CPU and on four; 3 to 6 are both by kernel and preemption; 3, 4, 7 and 8 have two \
                    threads a core as well; 9 is the chat server. Creation is pthread_create and pthread_join, switching a hop of a \
                    token less its own cost, chat the messages sent and received a second. Where a cell says that it was not \
                    run, `threadgauge run` with what it names measures it.";

/// A benchmark of the source.
#[derive(Clone, Copy)]
struct Benchmark {
    /// The source's figures that show it.
    figures: &'static str,
    what: &'static str,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    Creation,
    /// Of so many threads in a ring.
    Switching(u64),
    Chat,
}

const BENCHMARKS: [Benchmark; 5] = [
    benchmark("1, 3, 4", "creation", Of::Creation),
    benchmark("2, 5–8", "switching, 2 threads", Of::Switching(ring::TABLED[0])),
    benchmark("2, 5–8", "switching, 16 threads", Of::Switching(ring::TABLED[1])),
    benchmark("2, 5–8", "switching, 96 threads", Of::Switching(ring::TABLED[2])),
    benchmark("9", "chat", Of::Chat),
];

const fn benchmark(figures: &'static str, what: &'static str, of: Of) -> Benchmark {
    Benchmark { figures, what, of }
}

/// A size of the source: its head, and how many CPUs that is here, or what it lacks.
type Size = (String, Result<u64, String>);

/// A state that a machine can be in: kernel, preemption and library.
type State = [String; 3];

/// What a benchmark comes to by size: a figure, or what it lacks.
type Figures = [Result<String, String>; 4];

/// The old library, as a run here can have it.
const RECREATED: &str = "LinuxThreads, re-created";

/// The table; none where a run has none of its figures.
pub fn table(run: &Whole<'_>) -> Option<Table> {
    let sizes = sizes(run.site.cpus.len() as u64, run.site.cores as u64);
    let figures_of =
        |library| BENCHMARKS.map(|of| sizes.each_ref().map(|size| figure(run, library, of.of, &size.1)));
    let (figures, old) = (figures_of(None), figures_of(Some(Library::LinuxThreads)));
    let is_measured = figures.iter().flatten().any(Result::is_ok);
    let [own, recreated, others @ ..] = states(run.machine);
    let row = |figures: &str, what: &str, (state, _): &(State, &str), cells: [String; 4]| -> Vec<String> {
        let head = [figures, what].map(str::to_owned).into_iter();
        head.chain(state.clone()).chain(cells).collect()
    };
    let told = |figures: [Figures; 5], state: &(State, &str)| -> Vec<Vec<String>> {
        let rows = BENCHMARKS.iter().zip(figures).map(|(of, figures)| {
            let cells = figures.map(|figure| figure.unwrap_or_else(|lacks| lacks));
            row(of.figures, of.what, state, cells)
        });
        rows.collect()
    };
    let lacking = |other: &(State, &str)| {
        let cells = [other.1; 4].map(str::to_owned);
        row("1–9", "all of these", other, cells)
    };
    let mut rows = told(figures, &own);
    rows.extend(told(old, &recreated));
    rows.extend(others.iter().map(lacking));
    let heads = ["figure", "what", "kernel", "preemption", "library"].map(str::to_owned);
    let heads = heads
        .into_iter()
        .chain(sizes.iter().map(|(head, _)| head.clone()));
    is_measured.then(|| Table {
        id: "source-004".to_owned(),
        title: "The plan of source 004: its nine figures".to_owned(),
        note: NOTE.to_owned(),
        columns: heads.collect(),
        rows,
    })
}

/// What the libraries are compared by, on one CPU.
struct Measure {
    /// The head of its column.
    head: &'static str,
    /// To follow a library's name.
    does: &'static str,
    unit: &'static str,
    /// Whether more of it is better.
    is_gain: bool,
    experiment: &'static str,
    of: fn(Option<Library>) -> Statistic,
}

const MEASURES: [Measure; 4] = [
    Measure {
        head: "make and end a thread",
        does: "makes threads fastest",
        unit: "ns",
        is_gain: false,
        experiment: create::EXPERIMENT.id,
        of: |library| create::thread_of(library, 1),
    },
    Measure {
        head: "switch, 2 threads",
        does: "switches fastest",
        unit: "ns",
        is_gain: false,
        experiment: ring::EXPERIMENT.id,
        of: |library| ring::switch_on(library, ring::TABLED[0], 1),
    },
    Measure {
        head: "chat",
        does: "passes on the most messages",
        unit: "thousand messages/s",
        is_gain: true,
        experiment: chat::EXPERIMENT.id,
        of: |library| chat::score_of(library, 1).times(1e-3),
    },
    Measure {
        head: "memory of an idle thread",
        does: "takes the least memory",
        unit: "B",
        is_gain: false,
        experiment: footprint::EXPERIMENT.id,
        of: footprint::thread_memory_on,
    },
];

/// The C library's own threads, and those beside.
const LIBRARIES: [Option<Library>; 3] = [None, Some(Library::Musl), Some(Library::LinuxThreads)];

/// The source's question, by library; none where a run has figures of one library alone.
pub fn libraries(run: &Whole<'_>) -> Option<Table> {
    let own = run.machine.thread_library.as_deref().unwrap_or("the C library");
    let name = |library: Option<Library>| match library {
        None => own,
        Some(Library::Musl) => "musl",
        Some(Library::LinuxThreads) => RECREATED,
    };
    let of = |measure: &Measure| {
        let view = run.view(measure.experiment);
        LIBRARIES.map(|library| view.estimate(&(measure.of)(library)))
    };
    let figures = MEASURES.each_ref().map(of);
    let is_compared = |of: &&[Option<Estimate>; 3]| of.iter().flatten().count() > 1;
    figures.iter().find(is_compared)?;
    let leads: Vec<String> = MEASURES
        .iter()
        .zip(&figures)
        .filter_map(|(measure, figures)| {
            let [first, ..] = led_by(figures, measure.is_gain)?;
            Some(format!("{} {}", name(LIBRARIES[first]), measure.does))
        })
        .collect();
    let answer = match &leads[..] {
        [] => "On one CPU this run tells none of them apart.".to_owned(),
        [only] => format!("On one CPU {only}."),
        [others @ .., last] => format!("On one CPU {} and {last}.", others.join(", ")),
    };
    let row = |(i, library): (usize, &Option<Library>)| -> Vec<String> {
        let shown = MEASURES.iter().zip(&figures).map(|(measure, of)| {
            let shown = of[i].as_ref().map(|of| of.show(measure.unit));
            shown.unwrap_or_else(|| "not run".to_owned())
        });
        std::iter::once(name(*library).to_owned()).chain(shown).collect()
    };
    let heads = MEASURES.each_ref().map(|measure| measure.head.to_owned());
    Some(Table {
        id: "thread-libraries".to_owned(),
        title: "Which thread library for a small Linux system?".to_owned(),
        note: format!(
            "{answer} All on one CPU. LinuxThreads is re-created on this kernel, which cannot show {NOT_SHOWN}."
        ),
        columns: std::iter::once("library".to_owned()).chain(heads).collect(),
        rows: LIBRARIES.iter().enumerate().map(row).collect(),
    })
}

/// The best of them and the second, where their intervals tell them apart.
fn led_by(figures: &[Option<Estimate>; 3], is_gain: bool) -> Option<[usize; 2]> {
    let known = figures
        .iter()
        .enumerate()
        .filter_map(|(i, of)| Some((i, of.as_ref()?)));
    let mut known: Vec<(usize, &Estimate)> = known.collect();
    known.sort_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    if is_gain {
        known.reverse();
    }
    let [(first, best), (second, next), ..] = known[..] else {
        return None;
    };
    let ([best_low, best_high], [next_low, next_high]) = (best.ci95?, next.ci95?);
    let is_apart = if is_gain {
        best_low > next_high
    } else {
        best_high < next_low
    };
    is_apart.then_some([first, second])
}

/// One CPU, four, one of each core, and all where cores have several.
fn sizes(all: u64, cores: u64) -> [Size; 4] {
    let fits = |cpus: u64, of: &str| match cpus <= cores {
        true => Ok(cpus),
        false => Err(format!("needs {cpus} {of}")),
    };
    let several = if all > cores { "cores" } else { "CPUs" };
    let whole = match all > cores {
        true => format!("all {cores} cores, one thread each"),
        false => format!("all CPUs ({all})"),
    };
    let doubled = match all > cores {
        true => Ok(all),
        false => Err("needs cores with two threads (SMT)".to_owned()),
    };
    [
        ("1 CPU".to_owned(), Ok(1)),
        (format!("{SOURCES_CPUS} CPUs"), fits(SOURCES_CPUS, several)),
        (whole, fits(cores.max(2), several)),
        ("all, two threads a core".to_owned(), doubled),
    ]
}

/// The states that the source compared, and what a run here lacks for each: nothing for the first two.
fn states(machine: &Fingerprint) -> [(State, &'static str); 6] {
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not known".to_owned());
    let [kernel, library] = [&machine.kernel, &machine.thread_library].map(known);
    // Where it was read stands behind it in brackets.
    let word = machine
        .preemption
        .as_ref()
        .and_then(|word| word.split(" (").next());
    let (preemption, other) = match word {
        Some(word @ ("full" | "lazy" | "real-time")) => (format!("on ({word})"), "off"),
        Some(word) => (format!("off ({word})"), "on"),
        None => ("not known".to_owned(), "the other"),
    };
    let (kernel, library, old) = (kernel.as_str(), library.as_str(), RECREATED);
    let (boot, another) = ("needs a boot with the other preemption", "needs another kernel");
    let state = |words: [&str; 3], lacks| (words.map(str::to_owned), lacks);
    [
        state([kernel, &preemption, library], ""),
        state([kernel, &preemption, old], ""),
        state([kernel, other, library], boot),
        state([kernel, other, old], boot),
        state(["another", "any", library], another),
        state(["another", "any", old], another),
    ]
}

/// The figure of this run with its interval, or in a few words what is lacking.
fn figure(
    run: &Whole<'_>,
    library: Option<Library>,
    of: Of,
    cpus: &Result<u64, String>,
) -> Result<String, String> {
    let cpus = *cpus.as_ref().map_err(String::clone)?;
    let found = |view: View<'_>, statistic: Statistic, unit: &str| {
        let estimate = view.estimated(&statistic);
        let lacking = |lack| lacking(&view, &statistic, lack);
        estimate.map(|estimate| estimate.show(unit)).map_err(lacking)
    };
    match of {
        Of::Creation => found(
            run.view(create::EXPERIMENT.id),
            create::thread_of(library, cpus),
            "ns",
        ),
        Of::Switching(threads) => {
            let (view, switch) = (
                run.view(ring::EXPERIMENT.id),
                ring::switch_on(library, threads, cpus),
            );
            match view.estimated(&switch) {
                Ok(estimate) if !ring::is_above_0(&estimate) => Ok("below resolution".to_owned()),
                _ => found(view, switch, "ns"),
            }
        }
        Of::Chat => found(
            run.view(chat::EXPERIMENT.id),
            chat::score_of(library, cpus).times(1e-3),
            "thousand messages/s",
        ),
    }
}

fn lacking(view: &View<'_>, statistic: &Statistic, lack: Lack) -> String {
    match lack.of {
        Need::Profile => match view.command(statistic) {
            Some(command) => format!("not run: {}", command.trim_start_matches("threadgauge run ")),
            None => "not planned here".to_owned(),
        },
        Need::Figures => "no figure in this run".to_owned(),
        Need::Cpus | Need::Memory | Need::Program | Need::System => lack.says,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use threadgauge_lab::grid::Plan;
    use threadgauge_lab::testing;
    use threadgauge_lab::view::{Planned, ViewCase};

    const EXPERIMENTS: [&Experiment; 3] = [&create::EXPERIMENT, &ring::EXPERIMENT, &chat::EXPERIMENT];

    /// A machine on which a thread takes 10 µs and 2 µs more for each CPU, a switch 1 µs and 0.1 µs for each, and the
    /// chat server passes on so many thousand messages as there are CPUs.
    fn measured(experiment: &str, params: &Params) -> ViewCase {
        const NOISE: [f64; 7] = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.0];
        let cpus = params.int("cpus").unwrap() as f64;
        let alone = params
            .get("hop")
            .is_some_and(|hop| hop.to_string() == "to-itself");
        let (metric, value) = match experiment {
            "create" => (create::EXPERIMENT.primary[0], 10_000.0 + 2_000.0 * cpus),
            "ring" if alone => (ring::EXPERIMENT.primary[0], 500.0),
            "ring" => (ring::EXPERIMENT.primary[0], 1_500.0 + 100.0 * cpus),
            _ => (chat::SCORE, 1_000.0 * cpus),
        };
        testing::case(
            params.clone(),
            [(metric, NOISE.map(|noise| noise * value).to_vec())],
        )
    }

    #[test]
    fn what_the_old_librarys_cells_lack_is_the_command_that_measures_them() {
        let site = testing::site(Profile::Quick, 2);
        let table = of(&site, &ALL, &machine()).unwrap();
        let old: Vec<&Vec<String>> = table.rows.iter().filter(|row| row[4] == RECREATED).collect();
        let [creation, ..] = &old[..] else {
            panic!("{old:?}");
        };
        assert!(
            creation[5].starts_with("not run: create --profile "),
            "{creation:?}"
        );
        assert!(
            table
                .rows
                .iter()
                .flatten()
                .all(|cell| !cell.contains("LinuxThreads") || cell == RECREATED)
        );
    }

    /// The table of a run of these experiments on `site`.
    fn of(site: &Site, experiments: &[&str], machine: &Fingerprint) -> Option<Table> {
        let plans = Profile::ALL.map(|profile| {
            (
                profile,
                Site {
                    profile,
                    ..site.clone()
                },
            )
        });
        let planned: Vec<Planned> = (plans.iter())
            .flat_map(|(profile, site)| EXPERIMENTS.map(|e| (e.id, *profile, (e.plan)(site))))
            .flat_map(|(id, profile, Plan { cases, .. })| {
                cases.into_iter().map(move |case| (id, profile, case.params))
            })
            .collect();
        let planned = &planned[..];
        let view = |e: &&Experiment| {
            let mut plan = (e.plan)(site);
            plan.fit(site);
            let cases = plan.cases.into_iter().map(|case| match case.skip {
                Some(lack) if lack.of == Need::Cpus => testing::lacking(case.params, lack),
                _ => measured(e.id, &case.params),
            });
            View {
                planned,
                ..testing::view(e.id, site.profile, cases.collect())
            }
        };
        let run = EXPERIMENTS.iter().filter(|e| experiments.contains(&e.id));
        table(&Whole {
            views: run.map(view).collect(),
            other: View {
                planned,
                ..testing::view("", site.profile, Vec::new())
            },
            site,
            machine,
        })
    }

    fn machine() -> Fingerprint {
        Fingerprint {
            kernel: Some("6.1".to_owned()),
            preemption: Some("none (dynamic)".to_owned()),
            thread_library: Some("NPTL 2.36".to_owned()),
            ..Fingerprint::default()
        }
    }

    /// As it is read, a row a line.
    fn lines(table: Option<Table>) -> String {
        let table = table.expect("it has figures");
        std::iter::once(&table.columns)
            .chain(&table.rows)
            .fold(String::new(), |mut text, row| {
                let _ = writeln!(text, "{}", row.join(" | "));
                text
            })
    }

    const ALL: [&str; 3] = ["create", "ring", "chat"];

    #[test]
    fn the_table_reads_as_agreed() {
        let standard = |cpus| testing::site(Profile::Standard, cpus);
        for (name, site, experiments) in [
            ("two", standard(2), &ALL[..]),
            ("sixteen", standard(16), &ALL),
            ("sixteen-smt", testing::site_with_smt(Profile::Standard, 16), &ALL),
            ("quick", testing::site(Profile::Quick, 2), &ALL[..2]),
        ] {
            insta::assert_snapshot!(name, lines(of(&site, experiments, &machine())));
        }
    }

    #[test]
    fn the_sources_question_is_answered_by_who_is_told_apart() {
        let site = testing::site(Profile::Standard, 2);
        let machine = machine();
        let told = |musl: f64, has_old: bool| {
            let cells = |measure: &Measure| {
                let cell = |library: Option<Library>, value: f64| {
                    let statistic = (measure.of)(library);
                    let name = statistic.cells()[0].metric.clone().leak();
                    let rounds = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.0].map(|noise| noise * value);
                    testing::case(
                        statistic.pattern(),
                        [(metric(name, measure.unit), rounds.to_vec())],
                    )
                };
                let old = has_old.then(|| cell(Some(Library::LinuxThreads), 300.0));
                [cell(None, 100.0), cell(Some(Library::Musl), musl)]
                    .into_iter()
                    .chain(old)
                    .collect()
            };
            // Of the ring a switch is a hop less what the token itself costs.
            let [created, _, talked, kept] = &MEASURES;
            let cases = [created, talked, kept].map(|of| (of.experiment.to_owned(), cells(of)));
            let cases = threadgauge_lab::view::Cases::from(cases);
            let base = testing::view("", Profile::Standard, Vec::new());
            let of = |experiment| View {
                experiment,
                cases: &cases,
                ..base
            };
            libraries(&Whole {
                views: [created, talked, kept]
                    .map(|measure| of(measure.experiment))
                    .to_vec(),
                other: of(""),
                site: &site,
                machine: &machine,
            })
        };
        let table = told(50.0, true).unwrap();
        let says = "On one CPU musl makes threads fastest, LinuxThreads, re-created passes on the most messages and \
                    musl takes the least memory. All on one CPU.";
        assert!(table.note.starts_with(says), "{}", table.note);
        let names: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names, ["NPTL 2.36", "musl", RECREATED]);
        assert!(table.rows.iter().all(|row| row[2] == "not run"));
        let equal = told(100.0, false).unwrap();
        assert!(
            equal
                .note
                .starts_with("On one CPU this run tells none of them apart."),
            "{}",
            equal.note
        );
        assert_eq!(equal.rows[2][1..], ["not run"; 4]);
        assert!(of(&site, &[], &machine).is_none());
    }

    #[test]
    fn a_run_without_any_of_its_figures_has_no_table() {
        let site = testing::site(Profile::Quick, 2);
        assert!(of(&site, &[], &machine()).is_none());
        assert!(of(&site, &["chat"], &machine()).is_some());
    }

    #[test]
    fn each_size_has_a_case_or_says_what_it_lacks() {
        let of = |all, cores| sizes(all, cores).map(|(_, size)| size.map_err(|lack| lack.contains("needs")));
        assert_eq!(of(1, 1), [Ok(1), Err(true), Err(true), Err(true)]);
        assert_eq!(of(2, 2), [Ok(1), Err(true), Ok(2), Err(true)]);
        assert_eq!(of(4, 4), [Ok(1), Ok(4), Ok(4), Err(true)]);
        // Two cores with two CPUs each are no four CPUs of the source.
        assert_eq!(of(4, 2), [Ok(1), Err(true), Ok(2), Ok(4)]);
        assert_eq!(of(8, 4), [Ok(1), Ok(4), Ok(4), Ok(8)]);
        assert_eq!(of(64, 32), [Ok(1), Ok(4), Ok(32), Ok(64)]);
    }

    #[test]
    fn the_other_preemption_is_the_one_that_the_machine_has_not() {
        let own_and_other = |preemption: Option<&str>| {
            let machine = Fingerprint {
                preemption: preemption.map(str::to_owned),
                ..machine()
            };
            let states = states(&machine);
            [0, 2]
                .map(|state: usize| states[state].0[1].clone())
                .join(" and ")
        };
        for (preemption, says) in [
            (Some("voluntary (dynamic)"), "off (voluntary) and on"),
            (Some("none"), "off (none) and on"),
            (Some("full (dynamic, config default)"), "on (full) and off"),
            (Some("real-time"), "on (real-time) and off"),
            (Some("lazy (dynamic)"), "on (lazy) and off"),
            (None, "not known and the other"),
        ] {
            assert_eq!(own_and_other(preemption), says);
        }
    }
}
