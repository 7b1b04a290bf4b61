//! What a run says: what a process of its own for message I/O costs, what it saves in a crash, and what to do.

use threadgauge_lab::prelude::*;
use threadgauge_results::units::of_cpus;
use threadgauge_results::{Figure, Table};

use super::case::{Arrangement, CPU, Case, LOST, Load, P50, P99, RATE, SILENCE, SURVIVED, TIME};

/// Of the threads' throughput, what an arrangement may lose for its price to be small.
const SMALL_PRICE: f64 = 0.9;

impl Arrangement {
    /// As the first of a sentence names it.
    const fn words(self) -> &'static str {
        match self {
            Self::Threads => "threads of one process",
            Self::Staged => "staged (message I/O is a process, the rest are threads of another)",
            Self::Processes => "processes (each stage is one)",
        }
    }
}

/// What cases have in common that differ in their arrangement and load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting(Case);

impl Setting {
    fn of(case: Case) -> Self {
        Self(case.arrangement(Arrangement::Threads).load(Load::Saturated))
    }

    const fn case(self, arrangement: Arrangement, load: Load) -> Case {
        Case {
            arrangement,
            load,
            ..self.0
        }
    }

    fn words(self) -> String {
        let cpus = of_cpus(self.0.server_cpus);
        format!(
            "{} connections, {} bytes, {cpus}",
            self.0.connections, self.0.message_bytes
        )
    }

    /// How many times the threads' throughput an arrangement has.
    fn of_threads(self, arrangement: Arrangement) -> Statistic {
        let time = |arrangement| TIME.of(self.case(arrangement, Load::Saturated));
        time(Arrangement::Threads).over(time(arrangement))
    }
}

/// In the order of the plan.
fn settings(view: &View<'_>) -> Vec<Setting> {
    let planned = view.planned(Params::new());
    let mut all = Vec::new();
    for setting in planned
        .filter_map(|params| Case::read(params).ok())
        .map(Setting::of)
    {
        if !all.contains(&setting) {
            all.push(setting);
        }
    }
    all
}

pub(super) fn read(view: &View<'_>) -> Answer {
    let settings = settings(view);
    let has_an_answer = |of: &&Setting| !sentence(view, **of).is_empty();
    let first = settings.iter().find(has_an_answer).copied();
    Answer {
        answer: first.map(|of| sentence(view, of)).unwrap_or_default(),
        advice: first.and_then(|of| advice(view, of)).unwrap_or_default(),
        number: first.and_then(|of| {
            let what = "message I/O in a process of its own ÷ all stages threads of one process";
            let what = format!("{what}: throughput, {}", of.words());
            view.number(what, &of.of_threads(Arrangement::Staged), "ratio")
        }),
        facts: settings.iter().flat_map(|&of| facts(view, of)).collect(),
        comparisons: settings.iter().flat_map(|&of| comparisons(view, of)).collect(),
        figures: charts(view, &settings),
        tables: vec![speed_table(view, &settings), crash_table(view, &settings)],
        ..Answer::default()
    }
}

/// The other arrangements than threads.
const APART: [Arrangement; 2] = [Arrangement::Staged, Arrangement::Processes];

fn sentence(view: &View<'_>, of: Setting) -> String {
    let parts = [
        in_short(view, of),
        throughput(view, of),
        delay(view, of),
        crash(view, of),
    ];
    let says: Vec<String> = parts.into_iter().flatten().collect();
    says.join(" ")
}

/// Its price and what it saves.
fn in_short(view: &View<'_>, of: Setting) -> Option<String> {
    let survived = |arrangement| {
        let survived = view.estimate(&SURVIVED.of(of.case(arrangement, Load::Crash)))?;
        Some(survived.plain("share"))
    };
    Some(format!(
        "Message I/O in a process of its own has {} times the throughput of threads of one process, and keeps {} of the \
         connections when the logic crashes, instead of {}.",
        view.estimate(&of.of_threads(Arrangement::Staged))?.plain("ratio"),
        survived(Arrangement::Staged)?,
        survived(Arrangement::Threads)?
    ))
}

fn throughput(view: &View<'_>, of: Setting) -> Option<String> {
    let rate = |arrangement| RATE.of(of.case(arrangement, Load::Saturated)).times(1e-3);
    let threads = view
        .estimate(&rate(Arrangement::Threads))?
        .plain("thousand messages/s");
    let times = |arrangement: Arrangement| {
        let times = view.estimate(&of.of_threads(arrangement))?.plain("ratio");
        Some(format!("{} {times} times that", arrangement.words()))
    };
    let apart: Vec<String> = APART.into_iter().filter_map(times).collect();
    let apart = match apart.is_empty() {
        true => String::new(),
        false => format!("; {}", apart.join(", ")),
    };
    Some(format!(
        "{}: threads of one process answer {threads}{apart}.",
        of.words()
    ))
}

fn delay(view: &View<'_>, of: Setting) -> Option<String> {
    let p99 = |arrangement: Arrangement| {
        let p99 = view.estimate(&P99.of(of.case(arrangement, Load::Half)))?;
        Some(format!("{} ({})", p99.plain("ns"), arrangement.name()))
    };
    let each: Vec<String> = Arrangement::ALL.into_iter().filter_map(p99).collect();
    (!each.is_empty()).then(|| {
        format!(
            "At half of its own rate each answers 99 of 100 messages within {}.",
            each.join(", ")
        )
    })
}

fn crash(view: &View<'_>, of: Setting) -> Option<String> {
    let each = |arrangement: Arrangement| {
        let case = of.case(arrangement, Load::Crash);
        let value = |metric: Metric| view.estimate(&metric.of(case));
        let usual = view.estimate(&SILENCE.of(of.case(arrangement, Load::Saturated)));
        let usual = usual.map_or_else(String::new, |usual| {
            format!(", without a crash {}", usual.plain("ns"))
        });
        Some(format!(
            "{}: {} of the connections survive, {}, the longest time without an answer is {}{usual}",
            arrangement.name(),
            value(SURVIVED)?.plain("share"),
            lost(value(LOST)?.value),
            value(SILENCE)?.plain("ns")
        ))
    };
    let each: Vec<String> = Arrangement::ALL.into_iter().filter_map(each).collect();
    (!each.is_empty()).then(|| format!("When the logic crashes, {}.", each.join("; ")))
}

fn lost(count: f64) -> String {
    match count.round() {
        0.0 => "no answer is lost".to_owned(),
        1.0 => "1 answer is lost".to_owned(),
        whole => format!("{whole} answers are lost"),
    }
}

/// What the reader should do.
fn advice(view: &View<'_>, of: Setting) -> Option<String> {
    let survived = |arrangement| view.value(&SURVIVED.of(of.case(arrangement, Load::Crash)));
    let saves = survived(Arrangement::Staged)? > survived(Arrangement::Threads)?;
    let price = of.of_threads(Arrangement::Staged);
    let keeps = view.estimate(&price)?;
    let is_dear = keeps.value < SMALL_PRICE;
    let costs = match keeps.value < 1.0 && view.resolved(&price.less_one()) {
        true => format!("has {} times the throughput here", keeps.plain("ratio")),
        false => "costs no throughput that these rounds could show".to_owned(),
    };
    Some(match (saves, is_dear) {
        (true, false) => format!(
            "Where the logic may crash, give message I/O a process of its own: it keeps the clients, and {costs}."
        ),
        (true, true) => format!(
            "Where clients must not be lost when the logic crashes, give message I/O a process of its own, which {costs}; else \
             keep all stages threads of one process."
        ),
        (false, _) => {
            "Keep all stages threads of one process: another arrangement saves no connection here.".to_owned()
        }
    })
}

fn facts(view: &View<'_>, of: Setting) -> Vec<Finding> {
    let price = |arrangement: Arrangement| {
        let times = view.estimate(&of.of_threads(arrangement))?;
        let says = format!(
            "{}: {} has {} times the throughput of threads of one process.",
            of.words(),
            arrangement.name(),
            times.show("ratio")
        );
        Some(times.fact(says, "ratio"))
    };
    let silence = |arrangement: Arrangement| {
        let silence = view.estimate(&SILENCE.of(of.case(arrangement, Load::Crash)))?;
        let says = format!(
            "{}: {}: the longest time without an answer is {} when the logic crashes.",
            of.words(),
            arrangement.name(),
            silence.show("ns")
        );
        Some(silence.fact(says, "ns"))
    };
    let prices = APART.into_iter().filter_map(price);
    prices
        .chain(Arrangement::ALL.into_iter().filter_map(silence))
        .collect()
}

fn comparisons(view: &View<'_>, of: Setting) -> Vec<Pair> {
    let case = |arrangement| of.case(arrangement, Load::Saturated);
    let is_planned = |case: Case| view.planned(case).next().is_some();
    let pairs = APART
        .into_iter()
        .map(|apart| [case(Arrangement::Threads), case(apart)]);
    pairs
        .filter(|pair| pair.iter().all(|&case| is_planned(case)))
        .map(|[threads, apart]| Pair::of(&TIME.of(threads), &TIME.of(apart)))
        .collect()
}

/// A line with a point for each arrangement.
fn by_arrangement<'v>(chart: Chart<'v>, name: String, of: impl Fn(Arrangement) -> Statistic) -> Chart<'v> {
    let point = |arrangement: Arrangement| (arrangement.name(), of(arrangement));
    chart.line(name, Arrangement::ALL.map(point))
}

fn charts(view: &View<'_>, settings: &[Setting]) -> Vec<Figure> {
    let chart = |id: &str, title: &str| Chart::new(view, id, title).x(Scale::Category, "arrangement");
    let rates = settings.iter().fold(
        chart("rate", "Throughput by where the stages run"),
        |chart, of| {
            let rate = |arrangement| RATE.of(of.case(arrangement, Load::Saturated)).times(1e-3);
            by_arrangement(chart, of.words(), rate)
        },
    );
    let delays = settings
        .iter()
        .fold(chart("delay", "Delay at half of that"), |chart, of| {
            let delay = |metric: Metric, arrangement| metric.of(of.case(arrangement, Load::Half)).times(1e-6);
            let chart = by_arrangement(chart, format!("median: {}", of.words()), |of| delay(P50, of));
            by_arrangement(chart, format!("99th percentile: {}", of.words()), |of| {
                delay(P99, of)
            })
        });
    let silences = settings.iter().fold(
        chart("silence", "The longest time without an answer"),
        |chart, of| {
            let silence = |load, arrangement| SILENCE.of(of.case(arrangement, load)).times(1e-6);
            let chart = by_arrangement(chart, format!("crash: {}", of.words()), |of| {
                silence(Load::Crash, of)
            });
            by_arrangement(chart, format!("no crash: {}", of.words()), |of| {
                silence(Load::Saturated, of)
            })
        },
    );
    let charts = [
        rates
            .y(Scale::Linear, "thousand messages a second")
            .note("Saturated. staged: message I/O is a process, decoding and logic are threads of another."),
        delays
            .y(Scale::Log, "delay, ms")
            .note("From when a message was due. Each arrangement has half of its own rate."),
        silences
            .y(Scale::Log, "longest time without an answer, ms")
            .note("One message crashes the logic of a saturated server. What there is without a crash is the control."),
    ];
    charts.into_iter().filter_map(Chart::drawn).collect()
}

/// A row of figures for each arrangement in each setting that has any.
fn rows(settings: &[Setting], figures: impl Fn(Setting, Arrangement) -> Vec<String>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for &of in settings {
        for arrangement in Arrangement::ALL {
            let figures = figures(of, arrangement);
            if figures.iter().any(|figure| !figure.is_empty()) {
                let place = [arrangement.name().to_owned(), of.words()];
                rows.push(place.into_iter().chain(figures).collect());
            }
        }
    }
    rows
}

fn speed_table(view: &View<'_>, settings: &[Setting]) -> Table {
    let figures = |of: Setting, arrangement| {
        let saturated = of.case(arrangement, Load::Saturated);
        let half = of.case(arrangement, Load::Half);
        let shown = |metric: Metric, case: Case| view.shown(&metric.of(case), metric.unit);
        vec![
            view.shown(&RATE.of(saturated).times(1e-3), "thousand messages/s"),
            match arrangement {
                Arrangement::Threads => String::new(),
                _ => view.shown(&of.of_threads(arrangement), "ratio"),
            },
            shown(CPU, saturated),
            view.shown(&RATE.of(half).times(1e-3), "thousand messages/s"),
            shown(CPU, half),
            shown(P50, half),
            shown(P99, half),
        ]
    };
    table(
        "speed",
        "Throughput, CPU time and delay",
        "Delay is from when a message was due to its answer.",
        [
            "arrangement",
            "setting",
            "saturated",
            "times threads",
            "server's CPU, a message",
            "at half",
            "server's CPU, a message at half",
            "median delay at half",
            "99th percentile at half",
        ],
        rows(settings, figures),
    )
}

fn crash_table(view: &View<'_>, settings: &[Setting]) -> Table {
    let figures = |of: Setting, arrangement| {
        let shown = |metric: Metric, load| view.shown(&metric.of(of.case(arrangement, load)), metric.unit);
        let crash = [SURVIVED, LOST, SILENCE].map(|metric| shown(metric, Load::Crash));
        if crash.iter().all(String::is_empty) {
            return Vec::new();
        }
        crash
            .into_iter()
            .chain([shown(SILENCE, Load::Saturated)])
            .collect()
    };
    table(
        "crash",
        "When the logic crashes",
        "Every connection has one message under way. Who was not answered within 300 ms lost the answer.",
        [
            "arrangement",
            "setting",
            "connections that survive",
            "answers lost",
            "longest time without an answer",
            "without a crash",
        ],
        rows(settings, figures),
    )
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::super::EXPERIMENT;
    use super::super::case::plan;
    use super::*;

    /// Messages a second that are answered, of those of threads; what survives; and the silence.
    type Made = fn(Case) -> (f64, f64, f64);

    fn as_hoped(case: Case) -> (f64, f64, f64) {
        match case.arrangement {
            Arrangement::Threads => (1.0, 0.0, 8e6),
            Arrangement::Staged => (0.95, 1.0, 4e6),
            Arrangement::Processes => (0.8, 1.0, 3e6),
        }
    }

    fn figures_of(case: Case, made: Made) -> Vec<(Metric, Vec<f64>)> {
        let (speed, survive, silence_ns) = made(case);
        let rate = match case.load {
            Load::Half => 50e3 * speed,
            Load::Saturated | Load::Crash => 100e3 * speed,
        };
        let lost = (1.0 - survive).mul_add(case.connections as f64, 1.0);
        let figures = match case.load {
            Load::Crash => vec![(SURVIVED, survive), (LOST, lost), (SILENCE, silence_ns)],
            Load::Half => vec![
                (TIME, 1e9 / rate),
                (RATE, rate),
                (P50, 1e5),
                (P99, 4e5 / speed),
                (CPU, 9e3),
            ],
            Load::Saturated => vec![(TIME, 1e9 / rate), (RATE, rate), (SILENCE, 2e6), (CPU, 8e3)],
        };
        figures
            .into_iter()
            .map(|(metric, value)| (metric, vec![value; 7]))
            .collect()
    }

    fn run_of(profile: Profile, cpus: usize, made: Made) -> View<'static> {
        let site = testing::site(profile, cpus);
        let cases = plan(&site).cases.into_iter().map(|planned| {
            let figures = figures_of(Case::read(&planned.params).unwrap(), made);
            testing::case(planned.params, figures)
        });
        testing::view(EXPERIMENT.id, profile, cases.collect())
    }

    #[test]
    fn the_answer_has_the_price_and_what_it_saves_and_what_to_do() {
        let Answer { answer, advice, .. } = read(&run_of(Profile::Standard, 2, as_hoped));
        insta::assert_snapshot!(
            [answer, advice].join(" "),
            @"Message I/O in a process of its own has 0.95 times the throughput of threads of one process, and keeps 100 % of the connections when the logic crashes, instead of 0 %. 1000 connections, 128 bytes, one CPU: threads of one process answer 100 thousand messages/s; staged (message I/O is a process, the rest are threads of another) 0.95 times that, processes (each stage is one) 0.80 times that. At half of its own rate each answers 99 of 100 messages within 400 µs (threads), 421 µs (staged), 500 µs (processes). When the logic crashes, threads: 0 % of the connections survive, 1001 answers are lost, the longest time without an answer is 8.00 ms, without a crash 2.00 ms; staged: 100 % of the connections survive, 1 answer is lost, the longest time without an answer is 4.00 ms, without a crash 2.00 ms; processes: 100 % of the connections survive, 1 answer is lost, the longest time without an answer is 3.00 ms, without a crash 2.00 ms. Where the logic may crash, give message I/O a process of its own: it keeps the clients, and has 0.95 times the throughput here."
        );
    }

    #[test]
    fn what_to_do_depends_on_the_price_and_on_what_is_saved() {
        let says = |made| read(&run_of(Profile::Quick, 2, made)).advice;
        assert!(says(as_hoped).ends_with("and has 0.95 times the throughput here."));
        let dear = says(|case| match case.arrangement {
            Arrangement::Threads => as_hoped(case),
            _ => (0.7, 1.0, 4e6),
        });
        assert!(
            dear.contains("which has 0.70 times the throughput here; else keep all stages threads"),
            "{dear}"
        );
        let useless = says(|case| (as_hoped(case).0, 0.0, 4e6));
        assert!(useless.contains("saves no connection here"), "{useless}");
        // Quick has no half, and no process for each stage.
        let answer = read(&run_of(Profile::Quick, 2, as_hoped)).answer;
        assert!(
            !answer.contains("At half") && !answer.contains("processes"),
            "{answer}"
        );
    }

    #[test]
    fn every_setting_has_its_rows_lines_facts_and_comparisons() {
        let answer = read(&run_of(Profile::Paper, 4, as_hoped));
        let rows: Vec<usize> = answer.tables.iter().map(|table| table.rows.len()).collect();
        assert_eq!(rows, [12, 12]);
        let lines: Vec<usize> = answer.figures.iter().map(|figure| figure.series.len()).collect();
        assert_eq!(lines, [4, 8, 8]);
        assert_eq!((answer.facts.len(), answer.comparisons.len()), (20, 8));
        let of_row = |row: usize| answer.tables[1].rows[row].join(" | ");
        insta::assert_snapshot!(of_row(0), @"threads | 1000 connections, 128 bytes, one CPU | 0 [0, 0] % | 1001 [1001, 1001] answers | 8.00 [8.00, 8.00] ms | 2.00 [2.00, 2.00] ms");
        assert!(answer.tables[0].rows[3][1].contains("3 CPUs"));
    }

    #[test]
    fn values_of_the_users_own_are_a_setting_and_a_choice_of_cells_leaves_the_rest_unsaid() {
        let case = Case::of(Arrangement::Staged, Load::Crash, 1)
            .connections(7)
            .message_bytes(64);
        let view = testing::view(
            EXPERIMENT.id,
            Profile::Quick,
            vec![testing::case(case, figures_of(case, as_hoped))],
        );
        let answer = read(&view);
        assert!(
            answer.answer.starts_with(
                "When the logic crashes, staged: 100 % of the connections survive, 1 answer is lost, the longest"
            ),
            "{}",
            answer.answer
        );
        assert_eq!(answer.tables[1].rows[0][1], "7 connections, 64 bytes, one CPU");
        assert!(answer.tables[0].rows.is_empty());
    }

    #[test]
    fn without_figures_nothing_is_said() {
        let answer = read(&testing::view(EXPERIMENT.id, Profile::Quick, Vec::new()));
        assert!(answer.answer.is_empty() && answer.facts.is_empty() && answer.figures.is_empty());
    }
}
