//! Reading the answer off the samples: claims, charts, and tables with Stevens' columns.

use threadgauge_lab::prelude::*;
use threadgauge_results::published::server_designs;
use threadgauge_results::{Figure, Table, units};

use super::case::{
    AT_ONCE, CLIENTS, COMPETING, CPU, CROWDS, Case, FORK, Load, MEDIAN, MEMORY, OF_STEVENS, P99, PREFORKED,
    PRETHREADED, Program, RATE, START, SWITCHES, THREAD, WHOLE, accept, echo, in_c, many, short,
};
use crate::servers::{Design, WORKERS};

/// A ratio of process control takes at least this, ns: what is less cannot be told from nothing.
const LEAST_CONTROL_NS: f64 = 100.0;

pub(super) fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        advice: advice(view),
        number: view.number(
            "a process for each client ÷ one client after the other: the server's CPU time",
            &short(Program::C, FORK)
                .of(CPU)
                .over(short(Program::C, Design::Iterative).of(CPU)),
            "ratio",
        ),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(view),
        rankings: rankings(view),
        figures: charts(view),
        tables: tables(view),
        ..Answer::default()
    }
}

/// Process control: the server's CPU time for a request less that of the iterative server of the same kind.
fn control(program: Program, design: Design) -> Statistic {
    let cpu = |design| short(program, design).of(CPU);
    cpu(design).less(cpu(Design::Iterative))
}

/// Process control of one design over that of another, of the C programs.
fn control_ratio(a: Design, b: Design) -> Statistic {
    let cpu = |design| short(Program::C, design).of(CPU);
    let ratio = |v: &[f64]| (v[0] - v[2]) / (v[1] - v[2]).max(LEAST_CONTROL_NS);
    Statistic::function([a, b, Design::Iterative].map(cpu), ratio)
}

/// The one of these with the least estimate of a metric; the first where none has one. It is chosen once, from all
/// rounds: the least of each round would be the luckiest.
fn least(view: &View<'_>, designs: &[Design], metric: Metric) -> Design {
    let value = |design: Design| {
        view.value(&short(Program::C, design).of(metric))
            .unwrap_or(f64::INFINITY)
    };
    let least = designs
        .iter()
        .copied()
        .min_by(|a, b| value(*a).total_cmp(&value(*b)));
    least.unwrap_or(designs[0])
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let named = |design: Design, of: Statistic| (design.name().to_owned(), of);
    let others =
        |of: &[Design], but: Design| of.iter().copied().filter(move |d| *d != but).collect::<Vec<_>>();
    let cpu = |design| short(Program::C, design).of(CPU);
    let over_iterative = others(&OF_STEVENS, Design::Iterative)
        .into_iter()
        .map(|design| named(design, cpu(design).over(cpu(Design::Iterative)).less_one()));
    let than_others = others(&OF_STEVENS[1..], FORK)
        .into_iter()
        .map(|d| named(d, control_ratio(FORK, d)));
    let passing = Design::PreforkedDescriptor;
    let than_preforked = others(&PREFORKED, passing)
        .into_iter()
        .map(|d| named(d, control_ratio(passing, d)));
    let rate = |design| short(Program::C, design).of(RATE);
    let on_demand = |name: &str, design, pools: &[Design]| {
        // The least CPU time is the highest rate where a CPU is what is short.
        (name.to_owned(), rate(design).over(rate(least(view, pools, CPU))))
    };
    let pools = [
        on_demand("processes", FORK, &PREFORKED),
        on_demand("threads", THREAD, &PRETHREADED),
    ];
    vec![
        ("iterative-server-cheapest", each(Quote::Smallest, over_iterative)),
        ("fork-per-client-dearest", each(Quote::Smallest, than_others)),
        (
            "fork-per-client-20x-prefork",
            control_ratio(FORK, least(view, &PREFORKED, CPU)).into(),
        ),
        (
            "thread-per-client-cheaper-than-fork-per-client",
            control_ratio(FORK, THREAD).into(),
        ),
        ("pools-bring-no-efficiency", each(Quote::Smallest, pools)),
        (
            "prethreading-not-cheaper-than-thread-per-client",
            control_ratio(least(view, &PRETHREADED, CPU), THREAD).into(),
        ),
        (
            "accept-contention-wakes-many",
            accept(Program::Ours, Design::PreforkedAccept).of(SWITCHES).into(),
        ),
        (
            "mutex-accept-cheaper-than-file-lock",
            control_ratio(Design::PreforkedFileLock, Design::PreforkedMutex).into(),
        ),
        (
            "descriptor-passing-dearest-prefork",
            each(Quote::Smallest, than_preforked),
        ),
        (
            "prethread-mutex-cheaper-than-main-accept",
            control_ratio(Design::PrethreadedAcceptor, Design::PrethreadedMutex).into(),
        ),
        (
            "servers-within-15-percent-of-plain-c",
            each(Quote::Largest, over_c()),
        ),
        ("echo-within-5-percent-of-one-loop-in-c", over_floor(view).into()),
    ]
}

/// The rate of one event loop over that of a thread for each connection.
pub(crate) fn loop_over_threads() -> Statistic {
    let echoed = |design| echo(Program::Ours, design, CROWDS[0]).of(RATE);
    echoed(Design::Reactor).over(echoed(THREAD))
}

/// Ours over its C program, by design.
fn over_c() -> impl Iterator<Item = (String, Statistic)> {
    let cpu = |program, design| short(program, design).of(CPU);
    in_c().map(move |design| {
        (
            design.name().to_owned(),
            cpu(Program::Ours, design).over(cpu(Program::C, design)),
        )
    })
}

/// Our cheapest design for a message, over the least that one loop in C can do.
fn over_floor(view: &View<'_>) -> Statistic {
    let cpu = |program, design| echo(program, design, CROWDS[0]).of(CPU);
    let value = |design: Design| view.value(&cpu(Program::Ours, design)).unwrap_or(f64::INFINITY);
    let best = many()
        .min_by(|a, b| value(*a).total_cmp(&value(*b)))
        .unwrap_or(Design::Reactor);
    cpu(Program::Ours, best).over(cpu(Program::C, Design::Reactor))
}

fn answer(view: &View<'_>) -> String {
    let of = |design| Some(view.estimate(&short(Program::C, design).of(CPU))?.plain("ns"));
    let cheapest = least(view, &PREFORKED, CPU);
    let figures = [Design::Iterative, FORK, THREAD, cheapest].map(of);
    let [Some(iterative), Some(fork), Some(thread), Some(prefork)] = figures else {
        return String::new();
    };
    format!(
        "To serve a client with a connection of its own, plain C programs take {iterative} of CPU time one after the other, \
         {prefork} with children made beforehand ({}), {thread} with a thread for each and {fork} with a process for each.",
        cheapest.name()
    )
}

/// What to take where connections are kept, and where each request has one of its own.
fn advice(view: &View<'_>) -> String {
    let clients = CROWDS[0];
    let rate = |design| echo(Program::Ours, design, clients).of(RATE);
    let mut kept: Vec<(f64, Design)> = many()
        .filter_map(|design| Some((view.value(&rate(design))?, design)))
        .collect();
    kept.sort_by(|a, b| b.0.total_cmp(&a.0));
    let kept = kept.split_first().map(|(&(most, best), others)| {
        let is_alike =
            |(_, design): &&(f64, Design)| !view.resolved(&rate(best).over(rate(*design)).less_one());
        let alike: Vec<&str> = others
            .iter()
            .filter(is_alike)
            .map(|(_, design)| design.name())
            .collect();
        let alike = match alike.as_slice() {
            [] => String::new(),
            names => format!(" These rounds tell no difference from {}.", names.join(", ")),
        };
        let next = others.first().map_or_else(String::new, |(next, design)| {
            let times = units::with_unit(most / next, None, "ratio");
            format!(" ({times} times {})", design.name())
        });
        let most = units::with_unit(most * 1e-3, None, "thousand messages/s");
        format!(
            "For {clients} clients that keep their connections take {}: it answers the most, {most}{next}.{alike}",
            best.name()
        )
    });
    let made_beforehand = [
        (FORK, &PREFORKED[..], "processes"),
        (THREAD, &PRETHREADED[..], "threads"),
    ];
    let short_ones = made_beforehand.into_iter().filter_map(|(on_demand, pools, unit)| {
        let pool = least(view, pools, CPU);
        let cpu = |design| short(Program::C, design).of(CPU);
        let times = cpu(on_demand).over(cpu(pool));
        let saves = view.resolved(&times.clone().less_one()) && view.value(&times)? > 1.0;
        let times = view.estimate(&times)?.plain("ratio");
        Some(match saves {
            true => format!(
                "For requests with a connection each, make {unit} beforehand ({}): one made for each costs {times} times the \
                 CPU time.",
                pool.name()
            ),
            false => format!("To make {unit} beforehand saves no CPU time that these rounds could show."),
        })
    });
    kept.into_iter().chain(short_ones).collect::<Vec<_>>().join(" ")
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |of: Statistic, unit: &str, says: String| {
        let figure = view.estimate(&of)?;
        Some(figure.fact(says.replace("{}", &figure.show(unit)), unit))
    };
    let waits = |case: Case| case.of(SWITCHES);
    let ours_over_c = |design: Design| {
        let of = |program| short(program, design).of(CPU);
        let says = format!(
            "A client costs our server of {} {{}} times the CPU time of a plain C program's.",
            design.name()
        );
        fact(of(Program::Ours).over(of(Program::C)), "ratio", says)
    };
    let kept = |design: Design| {
        let case = short(Program::C, design);
        let says = format!(
            "A request on a connection that is kept costs {} in C {{}} times as much as one by a connection of its own.",
            design.name()
        );
        fact(case.load(Load::Long).of(CPU).over(case.of(CPU)), "ratio", says)
    };
    let facts = [
        fact(
            waits(accept(Program::C, Design::PreforkedAccept)),
            "count",
            format!(
                "Where {WORKERS} children wait by poll, each connection wakes {{}} of them: what a herd looks like."
            ),
        ),
        fact(
            waits(accept(Program::Ours, Design::PreforkedAccept)),
            "count",
            format!(
                "Where {WORKERS} children of `threadgauge serve` wait in accept, each connection wakes {{}}."
            ),
        ),
        ours_over_c(FORK),
        ours_over_c(THREAD),
        ours_over_c(Design::Reactor),
        kept(FORK),
        kept(THREAD),
        fact(
            short(Program::C, Design::PreforkedAccept).of(MEMORY),
            "B",
            format!(
                "{WORKERS} children in C hold {{}} of memory with {AT_ONCE} clients, what they share counted once."
            ),
        ),
    ];
    facts.into_iter().flatten().collect()
}

/// The planned cases among these.
fn planned(view: &View<'_>, cases: impl IntoIterator<Item = Case>) -> Vec<Params> {
    let of = |case: Case| view.planned(case.any(&["requests"])).next().cloned();
    cases.into_iter().filter_map(of).collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let designs = Design::ALL.into_iter();
    let programs = in_c().map(|design| [Program::C, Program::Ours].map(|program| short(program, design)));
    let pooled = [(FORK, &PREFORKED[..]), (THREAD, &PRETHREADED)]
        .into_iter()
        .flat_map(|(on_demand, pools)| pools.iter().map(move |&pool| [on_demand, pool]))
        .map(|two| two.map(|design| short(Program::C, design)));
    let echoed = designs
        .filter(|&design| design != THREAD)
        .map(|design| [THREAD, design].map(|design| echo(Program::Ours, design, CROWDS[0])));
    let pairs = programs.chain(pooled).chain(echoed);
    let pairs = pairs.filter_map(|pair| <[Params; 2]>::try_from(planned(view, pair)).ok());
    pairs.map(|[a, b]| Pair { a, b }).collect()
}

fn rankings(view: &View<'_>) -> Vec<(String, Vec<Params>)> {
    let of = |title: &str, cases: Vec<Case>| (title.to_owned(), planned(view, cases));
    let shorts = |program| Design::ALL.map(|design| short(program, design)).to_vec();
    let echoed = |clients| {
        many()
            .map(|design| echo(Program::Ours, design, clients))
            .collect()
    };
    let rankings = [
        of("C programs, a connection for each request", shorts(Program::C)),
        of(
            "threadgauge, a connection for each request",
            shorts(Program::Ours),
        ),
        of(
            "threadgauge, a message of echo on 64 connections",
            echoed(CROWDS[0]),
        ),
        of(
            "threadgauge, a message of echo on 1,000 connections",
            echoed(CROWDS[1]),
        ),
    ];
    rankings
        .into_iter()
        .filter(|(_, cases)| cases.len() > 2)
        .collect()
}

/// Stevens' systems, as the published table names them.
const SYSTEMS: [&str; 3] = ["Solaris 2.5.1", "Digital Unix 4.0B", "BSD/OS 3.0"];

/// His process-control seconds.
fn published(design: Design, system: &str) -> Option<f64> {
    let row = design.row()?;
    let mut rows = server_designs().iter();
    rows.find(|of| of.design_row == row && of.system == system)?
        .process_control_cpu_s
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let programs = [("C programs", Program::C), ("threadgauge", Program::Ours)];
    let controlled = &OF_STEVENS[2..];
    let share = |program: Program, design: Design| {
        let cpu = |design| short(program, design).of(CPU);
        // A logarithmic axis has no nought.
        let share = |v: &[f64]| ((v[0] - v[2]) / (v[1] - v[2])).max(1e-3);
        Statistic::function([design, FORK, Design::Iterative].map(cpu), share)
    };
    let mut stevens = Chart::new(view, "stevens", "Process control, a process for each client = 1")
        .note(
            "CPU time beyond that of the iterative server, over that of a process for each client. Stevens' figures, of \
             1998, are shares of their own first row, since only a column can be compared. Under a thousandth is drawn as \
             that.",
        )
        .x(Scale::Category, "design")
        .y(Scale::Log, "share of a process for each client");
    for (name, program) in programs {
        stevens = stevens.line(name, controlled.iter().map(|&d| (d.name(), share(program, d))));
    }
    for system in SYSTEMS {
        let of = |design| Some(published(design, system)? / published(FORK, system)?);
        stevens = stevens.figures(
            system,
            Origin::Published,
            controlled.iter().map(|&d| (d.name(), of(d))),
        );
    }
    let by_design = |id: &str, title: &str, y: &str| {
        Chart::new(view, id, title)
            .x(Scale::Category, "design")
            .y(Scale::Log, y)
    };
    let mut cpu = by_design(
        "cpu",
        "The server's CPU time for a request",
        "CPU time a request, µs",
    )
    .note(
        "4,000 bytes each; short: a connection for each request; long: a hundred requests on a connection.",
    );
    for (name, program) in programs {
        for load in [Load::Short, Load::Long] {
            let of = |design| short(program, design).load(load).of(CPU).times(1e-3);
            let name = format!("{name}, {}", load.name());
            cpu = cpu.line(name, Design::ALL.map(|design| (design.name(), of(design))));
        }
    }
    let mut answers = by_design(
        "answer",
        "Until a client of ten has its answer",
        "time of an answer, µs",
    )
    .note("Server and clients on one CPU, a connection for each request, connecting and closing included.");
    for (name, program) in programs {
        for (which, metric) in [("median", MEDIAN), ("99th percentile", P99)] {
            let of = |design| short(program, design).of(metric).times(1e-3);
            let name = format!("{name}, {which}");
            answers = answers.line(name, Design::ALL.map(|design| (design.name(), of(design))));
        }
    }
    let waits = by_design(
        "accept",
        "Wake-ups of a server by a connection",
        "wake-ups a connection",
    )
    .note("One client, connections that are closed at once; fifteen processes or threads wait for them.")
    .line(
        "threadgauge",
        COMPETING.map(|design| (design.name(), accept(Program::Ours, design).of(SWITCHES))),
    )
    .line(
        "C, all wait by poll",
        [(
            "preforked-accept",
            accept(Program::C, Design::PreforkedAccept).of(SWITCHES),
        )],
    );
    let mut echoed = by_design(
        "echo",
        "The server's CPU time for a message",
        "CPU time a message, µs",
    )
    .note(
        "128 bytes that come back, one on its way on each connection. C: one loop with nothing else to do.",
    );
    for clients in CROWDS {
        let of = |program, design| echo(program, design, clients).of(CPU).times(1e-3);
        let ours = many().map(|design| (design.name(), of(Program::Ours, design)));
        let floor = |design| (design == Design::Reactor).then(|| of(Program::C, design));
        echoed = echoed
            .line(format!("{clients} connections"), ours)
            // Each line has all places of the axis.
            .line(
                format!("C, {clients} connections"),
                many().map(|design| (design.name(), floor(design))),
            );
    }
    let charts = [stevens, cpu, answers, waits, echoed];
    charts.into_iter().filter_map(Chart::drawn).collect()
}

fn tables(view: &View<'_>) -> Vec<Table> {
    let stevens = OF_STEVENS.into_iter().map(|design| {
        let ours = [Program::C, Program::Ours].map(|program| match design {
            Design::Iterative => "0".to_owned(),
            _ => view.shown(&control(program, design), "ns"),
        });
        let his = SYSTEMS.map(|system| {
            published(design, system).map_or_else(|| "not supported".to_owned(), |s| s.to_string())
        });
        let row = design.row().map_or_else(String::new, |row| row.to_string());
        [vec![row, design.name().to_owned()], ours.to_vec(), his.to_vec()].concat()
    });
    let columns = ["row", "design", "C program, a client", "threadgauge, a client"];
    let stevens = table(
        "stevens",
        "Process control, as Stevens has it",
        "CPU time beyond that of the iterative server. Ours for one client, on one CPU; his of 1998, as source 003 quotes \
         them, in seconds for all of his clients: comparable only down a column.",
        columns.into_iter().chain(SYSTEMS),
        stevens.collect(),
    );
    let rows = |cases: Vec<Case>| -> Vec<Vec<String>> {
        let measured = cases.into_iter().filter(|case| view.measured(&case.of(CPU)));
        let row = |case: Case| {
            let figures = TOTALS.map(|(_, metric)| view.shown(&case.of(metric), metric.unit));
            let names = [case.design.name(), case.program.name()].map(str::to_owned);
            [&names[..], &figures].concat()
        };
        measured.map(row).collect()
    };
    let both = |of: &dyn Fn(Program, Design) -> Case| {
        let of = |design| Program::ALL.map(|program| of(program, design));
        Design::ALL.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    let totals = |id: &str, title: &str, note: String, cases: Vec<Case>| {
        let columns = ["design", "program"]
            .into_iter()
            .chain(TOTALS.map(|(name, _)| name));
        table(id, title, note, columns, rows(cases))
    };
    let whole = "Whole: the server's CPU time from start to end for all requests. Clients: their CPU time for a request.";
    let mut tables = vec![stevens];
    for (id, title, cases) in [
        (
            "short",
            "Totals: a connection for each request, one CPU",
            both(&short),
        ),
        (
            "apart",
            "Totals: a connection for each request, the server on one CPU and the clients on another",
            both(&|program, design| short(program, design).cpus(2)),
        ),
        (
            "long",
            "Totals: a hundred requests on a connection, one CPU",
            both(&|program, design| short(program, design).load(Load::Long)),
        ),
        (
            "accept",
            "Totals: connections that are closed at once",
            both(&accept),
        ),
        (
            "echo",
            "Totals: messages that come back, 64 connections",
            both(&|p, d| echo(p, d, CROWDS[0])),
        ),
        (
            "echo-many",
            "Totals: messages that come back, 1,000 connections",
            both(&|p, d| echo(p, d, CROWDS[1])),
        ),
    ] {
        let note = match id {
            "accept" => format!(
                "{whole} The C program is the control, whose children all wait by poll: no twin of ours."
            ),
            _ => whole.to_owned(),
        };
        tables.push(totals(id, title, note, cases));
    }
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// What he missed, and the rest.
const TOTALS: [(&str, Metric); 8] = [
    ("CPU a request", CPU),
    ("whole", WHOLE),
    ("start and end", START),
    ("clients, a request", CLIENTS),
    ("requests a second", RATE),
    ("answer, median", MEDIAN),
    ("answer, 99th percentile", P99),
    ("memory", MEMORY),
];

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::point::Parameter as _;
    use threadgauge_lab::statistic::Cell;
    use threadgauge_lab::testing;
    use threadgauge_results::Verdict;

    use super::super::case::plan;

    /// His seconds as if they were nanoseconds for a client, on top of 16 µs for serving.
    fn of_stevens(cell: &Cell, system: &str) -> Option<f64> {
        let design = cell.pattern.get("design").and_then(Design::read)?;
        Some(16_000.0 + published(design, system)? * 1e3)
    }

    #[test]
    fn his_table_gives_his_ratios() {
        let on = |system: &'static str, a, b| {
            let of = control_ratio(a, b).of_cells(|cell| of_stevens(cell, system));
            of.map(|ratio| (ratio * 10.0).round() / 10.0)
        };
        let passing = Design::PreforkedDescriptor;
        assert_eq!(
            SYSTEMS.map(|system| on(system, FORK, passing)),
            [13.7, 15.5, 4.9].map(Some)
        );
        let mutex = on(SYSTEMS[0], FORK, Design::PreforkedMutex);
        assert_eq!((mutex, on(SYSTEMS[2], FORK, THREAD)), (Some(23.5), None));
        // What is below resolution makes no ratio of thousands, and none below nought.
        let same = control_ratio(FORK, Design::Iterative).of_cells(|cell| of_stevens(cell, SYSTEMS[0]));
        assert_eq!(same, Some(504_200.0 / LEAST_CONTROL_NS));
    }

    /// A run whose CPU time for a client is this, and whose rate what that leaves beside 30 µs of clients.
    fn measured(cpu_ns: impl Fn(Case) -> f64) -> View<'static> {
        let cases = plan(&testing::site(Profile::Standard, 2))
            .cases
            .into_iter()
            .map(|planned| {
                let case = Case::possible(&planned.params).unwrap();
                let rounds = |middle: f64| -> Vec<f64> {
                    (0..10)
                        .map(|i| middle * (1.0 + f64::from(i - 5) * 1e-4))
                        .collect()
                };
                let cpu = cpu_ns(case);
                let waits = if case.program == Program::C { 14.0 } else { 1.05 };
                let figures = [
                    (CPU, rounds(cpu)),
                    (RATE, rounds(1e9 / (cpu + 30_000.0))),
                    (SWITCHES, rounds(waits)),
                    (MEMORY, rounds(1e6)),
                    (MEDIAN, rounds(1e5)),
                ];
                testing::case(planned.params, figures)
            });
        testing::view("server-designs", Profile::Standard, cases.collect())
    }

    /// As his figures on Solaris, and what he did not have there.
    fn as_his(case: Case) -> f64 {
        let cpu = match case.design {
            Design::PreforkedAccept => 22.0 + 16.0,
            design => published(design, SYSTEMS[0]).unwrap_or(10.0) + 16.0,
        };
        let ours = if case.program == Program::Ours { 1.1 } else { 1.0 };
        cpu * ours * 1e3
    }

    fn verdict(view: &View<'_>, id: &str) -> Verdict {
        let (_, test) = claims(view).into_iter().find(|(of, _)| *of == id).unwrap();
        testing::verdict(&test, id, view).unwrap()
    }

    #[test]
    fn his_figures_decide_his_claims_and_turned_ones_refute_them() {
        let his = measured(as_his);
        let turned = measured(|case| match case.design {
            // Serving alone is the dearest, then a thread, then the mutexes; a fork is the cheapest.
            Design::Iterative => 10_000.0,
            FORK => 9_000.0,
            THREAD => 90_000.0,
            Design::PreforkedMutex | Design::PrethreadedMutex => 80_000.0,
            _ => {
                20_000.0
                    + if case.program == Program::Ours {
                        10_000.0
                    } else {
                        0.0
                    }
            }
        });
        use Verdict::{DoesNotHold, Holds};
        for (id, of_his, of_turned) in [
            ("iterative-server-cheapest", Holds, DoesNotHold),
            ("fork-per-client-dearest", Holds, DoesNotHold),
            ("fork-per-client-20x-prefork", Holds, DoesNotHold),
            (
                "thread-per-client-cheaper-than-fork-per-client",
                Holds,
                DoesNotHold,
            ),
            ("pools-bring-no-efficiency", DoesNotHold, DoesNotHold),
            (
                "prethreading-not-cheaper-than-thread-per-client",
                DoesNotHold,
                DoesNotHold,
            ),
            ("accept-contention-wakes-many", DoesNotHold, DoesNotHold),
            ("mutex-accept-cheaper-than-file-lock", Holds, DoesNotHold),
            ("descriptor-passing-dearest-prefork", Holds, DoesNotHold),
            ("prethread-mutex-cheaper-than-main-accept", Holds, DoesNotHold),
            ("servers-within-15-percent-of-plain-c", Holds, DoesNotHold),
            ("echo-within-5-percent-of-one-loop-in-c", DoesNotHold, Holds),
        ] {
            assert_eq!(
                (verdict(&his, id), verdict(&turned, id)),
                (of_his, of_turned),
                "{id}"
            );
        }
        // A pool that costs as much as a unit for each client is no gain, and one that costs more none either.
        let no_gain = measured(|case| {
            if PRETHREADED.contains(&case.design) {
                25_000.0
            } else {
                20_000.0
            }
        });
        assert_eq!(verdict(&no_gain, "pools-bring-no-efficiency"), Holds);
        let herd = testing::changed(his, |cases| {
            let accepting = accept(Program::Ours, Design::PreforkedAccept).any(&["requests"]);
            let case = cases
                .iter_mut()
                .find(|case| case.params.matches(&accepting))
                .unwrap();
            case.values.insert(
                SWITCHES.name.to_owned(),
                (1..=10).map(|round| (round, 14.0)).collect(),
            );
        });
        assert_eq!(verdict(&herd, "accept-contention-wakes-many"), Holds);
    }

    #[test]
    fn the_cheapest_is_chosen_over_all_rounds() {
        let view = measured(as_his);
        assert_eq!(least(&view, &PREFORKED, CPU), Design::PreforkedMutex);
        let nothing = testing::view("server-designs", Profile::Quick, Vec::new());
        assert_eq!(least(&nothing, &PREFORKED, CPU), Design::PreforkedAccept);
    }

    #[test]
    fn the_report_has_his_columns_beside_ours() {
        let view = measured(as_his);
        let answer = read(&view);
        assert!(
            answer
                .answer
                .contains("take 16.0 µs of CPU time one after the other, 37.5 µs"),
            "{}",
            answer.answer
        );
        let ids: Vec<&str> = answer.figures.iter().map(|chart| chart.id.as_str()).collect();
        assert_eq!(ids, ["stevens", "cpu", "answer", "accept", "echo"]);
        let systems = answer.figures[0]
            .series
            .iter()
            .filter(|series| series.origin == Origin::Published);
        assert_eq!(
            systems.map(|series| series.points.len()).collect::<Vec<_>>(),
            [6, 6, 3]
        );
        let floors = answer.figures[4]
            .series
            .iter()
            .filter(|series| series.name.starts_with("C, "));
        let places: Vec<f64> = floors
            .flat_map(|series| series.points.iter().map(|point| point.x))
            .collect();
        let reactor = many().position(|design| design == Design::Reactor).unwrap() as f64;
        assert_eq!(places, [reactor; 2], "beside our reactor");
        insta::assert_snapshot!(answer.advice, @"For 64 clients that keep their connections take reactor: it answers the most, 17.1 thousand messages/s (1.00 times one-handler-reactor). These rounds tell no difference from one-handler-reactor, split-reactor, reactor-pool, reactor-per-core, proactor, leader-followers, half-sync-half-async. For requests with a connection each, make processes beforehand (preforked-mutex): one made for each costs 13.9 times the CPU time. For requests with a connection each, make threads beforehand (prethreaded-mutex): one made for each costs 1.41 times the CPU time.");
        let stevens = &answer.tables[0].rows[1];
        assert_eq!(stevens[1], "process-per-connection");
        assert!(
            stevens[2].starts_with("504.2 ") && stevens[2].ends_with("µs"),
            "{stevens:?}"
        );
        assert_eq!(stevens[4..], ["504.2", "168.9", "29.6"]);
        assert_eq!(answer.tables[0].rows[2][4], "not supported");
        assert_eq!(answer.tables.len(), 7);
        assert_eq!(answer.rankings.len(), 4);
        let nothing = read(&testing::view("server-designs", Profile::Quick, Vec::new()));
        assert!(nothing.figures.is_empty() && nothing.answer.is_empty());
    }
}
