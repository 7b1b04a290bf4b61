//! Reads the answer off the samples: each statistic once, and claims, facts, charts and tables made of them.

use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Table, units};
use threadgauge_stats::{Between, bca, geometric_mean, slope, summarise};

use super::case::{
    Buffering, CPU, Case, ELAPSED, LOGGED_PRINTS, READER_CPU, Series, Sink, TORN, Unit, published_line_ns,
};

/// Rounds from which a bootstrap may be used (METHOD rule 5).
const BOOTSTRAP_ROUNDS: usize = 20;
const RESAMPLES: usize = 10_000;
/// Any fixed number: the interval must be the same whenever a report is written again.
const BOOTSTRAP_SEED: u64 = 3;

pub(super) fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: key_number(view),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(view),
        rankings: rankings(view),
        figures: charts(view),
        tables: Series::ALL.map(|series| source_table(view, series)).to_vec(),
        ..Answer::default()
    }
}

/// What is printed into, and how lines become writes.
type Destination = (Sink, Buffering);

/// The one that decides claims, as in [`Series::at`].
const CONSOLE: Destination = LINES[0];
const PIPE: Destination = LINES[1];
/// All with a write a line.
const LINES: [Destination; 5] = [
    (Sink::Console, Buffering::Line),
    (Sink::Pipe, Buffering::Line),
    (Sink::Null, Buffering::Line),
    (Sink::Pty, Buffering::Line),
    (Sink::File, Buffering::Line),
];
/// Where block buffering is compared with it.
const BLOCKS: Destination = (Sink::Pipe, Buffering::Block);

/// The one that answers and tables show: that which decides, in runs from before it the pipe.
fn shown(view: &View<'_>) -> Destination {
    let console = Params::new().with("sink", CONSOLE.0.name());
    let runs_have_it = view.planned(console).next().is_some() || view.planned(Params::new()).next().is_none();
    if runs_have_it { CONSOLE } else { PIPE }
}

/// Its name in sentences and charts.
fn name((sink, buffering): Destination) -> String {
    let sink = match sink {
        Sink::Null => "/dev/null",
        Sink::Pipe => "a pipe",
        Sink::File => "a file",
        Sink::Pty => "a pseudo-terminal",
        Sink::Console => "the matched console",
        Sink::Logged => "the matched console and a log file",
    };
    match buffering {
        Buffering::Line => sink.to_owned(),
        Buffering::Block => format!("{sink} in blocks"),
    }
}

/// The same with the preposition that goes with it.
fn to(into: Destination) -> String {
    let word = match into.0 {
        Sink::Console | Sink::Logged => "on",
        _ => "into",
    };
    format!("{word} {}", name(into))
}

/// The cases of this run with 255 threads that print 11 characters on one CPU, by lines per unit: the source's, and
/// those that a user has set.
fn row(view: &View<'_>, (sink, buffering): Destination) -> Vec<Case> {
    let pattern = Series::Prints.at(1).sink(sink).buffering(buffering);
    let planned = view.planned(pattern.any(&["prints", "unit"]));
    let mut cases: Vec<Case> = planned.filter_map(|params| Case::read(params).ok()).collect();
    cases.sort_unstable_by_key(|case| case.prints);
    cases.dedup_by_key(|case| case.prints);
    cases.into_iter().map(|case| case.unit(Unit::Thread)).collect()
}

/// Those that were measured with both kinds.
fn measured(view: &View<'_>, into: Destination) -> Vec<Case> {
    let both = |case: &Case| view.measured(&process_over_thread(*case));
    row(view, into).into_iter().filter(both).collect()
}

fn process_over_thread(case: Case) -> Statistic {
    ratio(case, Unit::Process, Unit::Thread)
}

fn thread_over_process(case: Case) -> Statistic {
    ratio(case, Unit::Thread, Unit::Process)
}

fn ratio(case: Case, over: Unit, under: Unit) -> Statistic {
    case.unit(over).time().over(case.unit(under).time())
}

/// One CPU's time over that of a case on two.
fn two_cpu_gain(case: Case) -> Statistic {
    case.cpus(1).time().over(case.time())
}

/// The time over that of 255 units.
fn against_255(case: Case) -> Statistic {
    case.time().over(case.units(255).time())
}

/// The geometric mean of process over thread in all cells of these series.
fn mean_ratio(series: &[Series]) -> Statistic {
    let cases = series.iter().copied().flat_map(Series::cases);
    Statistic::geometric_mean(cases.map(process_over_thread))
}

/// The number of lines per unit from which on processes are faster, among these cases.
fn crossover(row: &[Case]) -> Statistic {
    let ratio = |case: &Case| (case.prints as f64, process_over_thread(*case));
    Statistic::crossing(row.iter().map(ratio), Between::Interpolated)
}

/// What a doubling of the units adds to thread/process.
fn share_slope(cases: &[Case]) -> Statistic {
    let units: Vec<f64> = cases.iter().map(|case| (case.units as f64).log2()).collect();
    let shares = cases.iter().map(|case| process_over_thread(*case).inverse());
    Statistic::function(shares, move |shares| slope(&units, shares).unwrap_or(f64::NAN))
}

/// The slope of the time over the number of units, both as logarithms: 1 is linear.
fn growth(cases: &[Case], unit: Unit) -> Statistic {
    let units: Vec<f64> = cases.iter().map(|case| (case.units as f64).ln()).collect();
    let times = cases.iter().map(|case| case.unit(unit).time());
    Statistic::function(times, move |times| {
        let times: Vec<f64> = times.iter().map(|time| time.ln()).collect();
        slope(&units, &times).unwrap_or(f64::NAN)
    })
}

/// What a unit more costs from 500 to 1,000, over what it costs from 100 to 500.
fn extra_unit(unit: Unit) -> Statistic {
    let times = [100, 500, 1_000].map(|units| Series::Units.at(units).unit(unit).time());
    Statistic::function(times, |t| {
        let few = (t[1] - t[0]) / 400.0;
        let many = (t[2] - t[1]) / 500.0;
        // Where more units took less time the quotient would mean nothing.
        if few > 0.0 { many / few } else { f64::NAN }
    })
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    use Quote::{Largest, Smallest};
    use Series::{Payload, Prints, TwoCpus, Units};
    let cases = [Prints, Payload, TwoCpus].map(|series| series.cases().collect::<Vec<_>>());
    let [prints, wide, on_two] = &cases;
    let ((small, large), (small_on_two, large_on_two)) = (prints.split_at(5), on_two.split_at(1));
    // Those that a run has can refute a claim, and only all of them confirm it.
    let over = |quote, cases: &[Case], cells: &dyn Fn(&Case) -> Vec<(String, Statistic)>| {
        let (seen, missing): (Vec<Case>, Vec<Case>) = cases.iter().partition(|case| is_planned(view, **case));
        if seen.is_empty() {
            return not_measured(lacking(&missing));
        }
        each(quote, seen.iter().flat_map(cells)).of_a_part(missing.is_empty(), lacking(&missing))
    };
    let each_ratio = |quote, cases: &[Case], ratio: fn(Case) -> Statistic| {
        over(quote, cases, &|case| {
            vec![(format!("{} prints", case.prints), ratio(*case))]
        })
    };
    let each_count = |quote, cases| each_ratio(quote, cases, process_over_thread);
    let gains = |quote, cases: &[Case]| match view.lacks_cpus(2) {
        Some(lack) => lack.clone().into(),
        None => over(quote, cases, &|case| {
            let named = |case: Case| {
                let name = format!("{} prints, {}", case.prints, case.unit.name());
                (name, two_cpu_gain(case))
            };
            case.of_both_kinds().map(named).to_vec()
        }),
    };
    // Those that need every cell.
    let all_of = |series: &[Series], test: Test| {
        let cases = series.iter().copied().flat_map(Series::cases);
        let missing: Vec<Case> = cases.filter(|case| !is_planned(view, *case)).collect();
        if missing.is_empty() {
            test
        } else {
            not_measured(lacking(&missing))
        }
    };
    let by_units: Vec<Case> = Units.cases().collect();
    let both = |statistic: &dyn Fn(Unit) -> Statistic| {
        let cell = |unit: Unit| (unit.name().to_owned(), statistic(unit));
        each(Largest, Unit::ALL.map(cell))
    };
    let spread = log_spread(view).map_or_else(
        |lack| Test::Lacking {
            lack,
            // No round has a spread: this says which cells must go on until there are enough.
            figure: Some(Statistic::function(log_times(), |_| f64::NAN)),
        },
        Test::Given,
    );
    vec![
        (
            "threads-10-to-100-times-faster",
            all_of(&[Prints], mean_ratio(&[Prints]).into()),
        ),
        ("small-jobs-threads-faster", each_count(Smallest, small)),
        (
            "large-jobs-processes-faster",
            each_ratio(Smallest, large, thread_over_process),
        ),
        (
            "print-crossover-near-600",
            all_of(&[Prints], crossover(prints).into()),
        ),
        (
            "print-processes-and-threads-equally-fast",
            each_count(Largest, prints),
        ),
        (
            "thread-share-falls-with-unit-count",
            all_of(&[Units], share_slope(&by_units).into()),
        ),
        (
            "run-time-linear-to-1000-units",
            all_of(&[Units], both(&|unit| growth(&by_units, unit))),
        ),
        (
            "efficiency-collapses-past-600-units",
            all_of(&[Units], both(&extra_unit)),
        ),
        ("payload-256-no-thread-advantage", each_count(Largest, wide)),
        // 255 units × 1,000 lines stand in two of the source's tables and count twice in its mean, as here.
        (
            "linux-threads-not-faster-than-processes",
            all_of(
                &[Prints, Units, Payload],
                mean_ratio(&[Prints, Units, Payload]).into(),
            ),
        ),
        ("file-logging-disturbs-timing", spread),
        ("dual-core-doubles-small-jobs", gains(Smallest, small_on_two)),
        ("dual-core-no-gain-large-jobs", gains(Largest, large_on_two)),
    ]
}

fn is_planned(view: &View<'_>, case: Case) -> bool {
    let mut kinds = case.of_both_kinds().into_iter();
    kinds.all(|case| view.planned(case.params()).next().is_some())
}

/// What a run lacks of these cells, and the profile that has them.
fn lacking(cases: &[Case]) -> String {
    let prints = cases.iter().map(|case| case.prints);
    let most = prints.clone().max().unwrap_or(0);
    let lines = match prints.min() {
        Some(fewest) if fewest < most => format!("{} to {}", count(fewest), count(most)),
        _ => count(most),
    };
    let beyond_standard = most > 100 || cases.iter().any(|case| case.payload_bytes != 11);
    let profile = if beyond_standard { "paper" } else { "standard" };
    format!(
        "needs {lines} lines a unit on the matched console, which this run does not have; \
         `threadgauge run print --profile {profile}` has them"
    )
}

/// The times on the console with a log file beside it and without, of each kind of unit.
fn log_times() -> Vec<Statistic> {
    let time = |unit, sink| Series::Prints.at(LOGGED_PRINTS).unit(unit).sink(sink).time();
    let times = Unit::ALL.map(|unit| [Sink::Logged, Sink::Console].map(|sink| time(unit, sink)));
    times.into_iter().flatten().collect()
}

/// The spread of the times on the console with a log file over that without, for 255 units of 100 lines: the geometric
/// mean of the ratios of processes and of threads.
///
/// # Errors
///
/// What is missing.
fn log_spread(view: &View<'_>) -> Result<Estimate, Lack> {
    let times = log_times();
    // By cell and then by round, with rounds that have all four.
    let column = |i: usize| view.rounds(&Statistic::function(times.iter().cloned(), move |t| t[i]));
    let columns: Result<Vec<Vec<f64>>, Lack> = (0..times.len()).map(column).collect();
    let columns = columns.map_err(|lack| {
        let says = format!(
            "{lack}; `threadgauge run print --profile standard` has its log file, and the {BOOTSTRAP_ROUNDS} rounds \
             that a ratio of two spreads needs"
        );
        Lack::new(lack.of, says)
    })?;
    if view.disturbance(&Statistic::function(times, |t| t[0])).is_some() {
        let says = "disturbed rounds say nothing of how far undisturbed ones lie apart";
        return Err(Lack::new(Need::Figures, says));
    }
    let n = columns[0].len();
    if n < BOOTSTRAP_ROUNDS {
        let says = format!(
            "a ratio of two spreads needs {BOOTSTRAP_ROUNDS} rounds, this run has {n} (--rounds {BOOTSTRAP_ROUNDS})"
        );
        return Err(Lack::new(Need::Figures, says));
    }
    // The bootstrap draws rounds, not values: all four times of a round stay together.
    let rounds: Vec<f64> = (0..n).map(|round| round as f64).collect();
    let statistic = |drawn: &[f64]| {
        let spread = |column: &Vec<f64>| {
            let values: Vec<f64> = drawn.iter().map(|round| column[*round as usize]).collect();
            let summary = summarise(&values, 0.05).ok();
            summary.and_then(|summary| summary.cv).unwrap_or(f64::NAN)
        };
        spread_ratio(&columns.iter().map(spread).collect::<Vec<_>>())
    };
    let estimate = bca(&rounds, statistic, 0.05, RESAMPLES, BOOTSTRAP_SEED).map_err(|e| {
        let says = format!("the ratio of two spreads cannot be estimated: {e}");
        Lack::new(Need::Figures, says)
    })?;
    Ok(Estimate {
        value: estimate.estimate,
        ci95: estimate.ci.map(|ci| [ci.low, ci.high]),
    })
}

/// The geometric mean ratio, of spreads in the order with and without, with and without.
fn spread_ratio(spreads: &[f64]) -> f64 {
    let pairs = spreads.chunks_exact(2);
    let ratios: Vec<f64> = pairs.map(|pair| pair[0] / pair[1]).collect();
    geometric_mean(&ratios).unwrap_or(f64::NAN)
}

fn answer(view: &View<'_>) -> String {
    let times_as_long = |case: Case| {
        let ratio = view.estimate(&process_over_thread(case))?.plain("ratio");
        let lines = count(case.prints);
        Some(format!("{ratio} times as long with {lines} lines each"))
    };
    let into = shown(view);
    let row: Vec<String> = row(view, into).into_iter().filter_map(times_as_long).collect();
    let ends = match &row[..] {
        [] => return String::new(),
        [only] => only.clone(),
        [first, .., last] => format!("{first} and {last}"),
    };
    let lead = lead(view, into).map_or_else(String::new, |(says, _)| format!("; {says}"));
    format!(
        "Compared with 255 threads, 255 processes that print {} on one CPU take {ends}{lead}.",
        to(into)
    )
}

fn key_number(view: &View<'_>) -> Option<KeyNumber> {
    let into = shown(view);
    row(view, into).into_iter().find_map(|case| {
        let of = "255 processes ÷ 255 threads: time to print";
        let of = format!("{of} {} lines each {}, one CPU", count(case.prints), to(into));
        view.number(of, &process_over_thread(case), "ratio")
    })
}

/// Which kind finishes first over the measured counts, and from which count on where that changes.
fn lead(view: &View<'_>, into: Destination) -> Option<(String, Option<Estimate>)> {
    let row = measured(view, into);
    let [first, .., last] = &row[..] else {
        return None;
    };
    let [fewest, most] = [first.prints, last.prints];
    let at = view.estimate(&crossover(&row))?;
    let range = format!("measured count, from {} to {} lines", count(fewest), count(most));
    let says = if at.value >= most as f64 {
        format!("threads finish first at every {range}")
    } else if at.value <= fewest as f64 {
        format!("processes finish first at every {range}")
    } else {
        let from = count(at.value.round() as u64);
        return Some((
            format!("processes finish first from about {from} lines on"),
            Some(at),
        ));
    };
    Some((says, None))
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let leads = LINES.map(|into| crossover_of(view, into));
    let ratios = LINES
        .into_iter()
        .chain([BLOCKS])
        .filter(|into| *into != shown(view));
    let ratios: Vec<_> = ratios.map(|into| ratios_of(view, into)).collect();
    let of_kinds = [torn, saved_by_blocks, readers_share].map(|fact| Unit::ALL.map(|unit| fact(view, unit)));
    let speeds = [11, 256].map(|payload_bytes| console_speed(view, payload_bytes));
    let facts = [&leads[..], &speeds, &ratios, of_kinds.as_flattened()].concat();
    facts.into_iter().flatten().collect()
}

fn crossover_of(view: &View<'_>, into: Destination) -> Option<Finding> {
    let (says, prints) = lead(view, into)?;
    let says = format!("255 units printing {} on one CPU: {says}.", to(into));
    let (value, ci95) = (prints.map(|p| p.value), prints.and_then(|p| p.ci95));
    Some(Finding::fact(says, value, ci95, "prints per unit"))
}

/// What a line takes on the matched console, beside what it took in the source: how far the match came.
fn console_speed(view: &View<'_>, payload_bytes: u64) -> Option<Finding> {
    let case = Series::Prints.at(100).payload_bytes(payload_bytes);
    let times = case.of_both_kinds().map(Case::time);
    let lines = case.lines() as f64;
    let line = Statistic::function(times, move |times| (times[0] * times[1]).sqrt() / lines);
    let took = view.estimate(&line)?;
    let says = format!(
        "A line of {payload_bytes} characters takes {} of the whole program on the matched console (255 units of 100 \
         lines on one CPU, the mean of both kinds); in the source it took {}. The reader was chosen for that, so no claim \
         is about it.",
        took.plain("ns"),
        units::with_unit(published_line_ns(payload_bytes), None, "ns")
    );
    Some(took.fact(says, "ns"))
}

/// Process over thread at the fewest and the most lines.
fn ratios_of(view: &View<'_>, into: Destination) -> Option<Finding> {
    let row = measured(view, into);
    let (first, last) = (row.first()?, row.last()?);
    let ratio = |case: &Case| view.estimate(&process_over_thread(*case));
    let most = ratio(last)?;
    let fewest = ratio(first).filter(|_| first != last);
    let fewest = fewest.map_or_else(String::new, |fewest| {
        let lines = count(first.prints);
        format!("{} with {lines} lines each and ", fewest.plain("ratio"))
    });
    let (into, times, lines) = (to(into), most.plain("ratio"), count(last.prints));
    let says = format!(
        "Printing {into} on one CPU, the ratio of 255 processes' time to that of 255 threads is {fewest}{times} \
         with {lines} lines each."
    );
    Some(most.fact(says, "ratio"))
}

/// Torn lines where there are most: the largest count in blocks.
fn torn(view: &View<'_>, unit: Unit) -> Option<Finding> {
    let case = measured(view, BLOCKS).last()?.unit(unit);
    let torn = TORN.of(case);
    let median = view.estimate(&torn)?;
    let many = if view.summary(torn.cells()[0])?.max > 0.0 {
        format!("{} are torn", count(median.value.round() as u64))
    } else {
        "none is torn".to_owned()
    };
    let (lines, kind) = (count(case.lines()), kinds(unit));
    let says = format!("Of {lines} lines that 255 {kind} print into a pipe in blocks, {many}.");
    Some(median.fact(says, "lines"))
}

fn saved_by_blocks(view: &View<'_>, unit: Unit) -> Option<Finding> {
    let case = measured(view, BLOCKS).last()?.unit(unit);
    let by_line = ELAPSED.of(case.buffering(Buffering::Line));
    let ratio = view.estimate(&by_line.over(ELAPSED.of(case)))?;
    let (kind, times, lines) = (kinds(unit), ratio.plain("ratio"), count(case.prints));
    let says = format!(
        "To print {lines} lines each into a pipe, 255 {kind} take {times} times as long with a write per line as in \
         blocks of 4,096 bytes."
    );
    Some(ratio.fact(says, "ratio"))
}

fn readers_share(view: &View<'_>, unit: Unit) -> Option<Finding> {
    let case = measured(view, PIPE).last()?.unit(unit);
    let cpu = [READER_CPU, CPU].map(|metric| metric.of(case));
    let share = view.estimate(&Statistic::function(cpu, |cpu| cpu[0] / (cpu[0] + cpu[1])))?;
    let (kind, lines, percent) = (kinds(unit), count(case.prints), share.plain("share"));
    let says = format!(
        "Of the CPU time that 255 {kind} and their reader use for {lines} lines each, the reader of the pipe uses \
         {percent}."
    );
    Some(share.fact(says, "share"))
}

const fn kinds(unit: Unit) -> &'static str {
    match unit {
        Unit::Process => "processes",
        Unit::Thread => "threads",
    }
}

/// Threads against processes in every cell; blocks against lines.
fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let all: Vec<Params> = view.planned(Params::new()).cloned().collect();
    let mut pairs = Vec::new();
    for (name, from, to) in [
        ("unit", Unit::Process.name(), Unit::Thread.name()),
        ("buffering", Buffering::Line.name(), Buffering::Block.name()),
    ] {
        for a in all.iter().filter(|case| case.text(name) == Some(from)) {
            let (a, b) = (a.clone(), a.clone().with(name, to));
            if all.contains(&b) {
                pairs.push(Pair { a, b });
            }
        }
    }
    pairs
}

fn rankings(view: &View<'_>) -> Vec<(String, Vec<Params>)> {
    let same_work = Series::Prints.at(1_000).any(&["unit", "sink", "buffering"]);
    let cases: Vec<Params> = view.planned(same_work).cloned().collect();
    if cases.len() < 2 {
        return Vec::new();
    }
    let title = "255 units of 1,000 lines on one CPU, by sink and buffering";
    vec![(title.to_owned(), cases)]
}

/// Ratios and shares, so that the source's curves are comparable with ours.
fn charts(view: &View<'_>) -> Vec<Figure> {
    let ratios = |cases: Vec<Case>| {
        let of = |case: Case| (case.prints, process_over_thread(case));
        cases.into_iter().map(of).collect::<Vec<_>>()
    };
    let title = "Who finishes first by how much is printed and where it goes: 255 processes over 255 threads, one CPU";
    let mut by_prints = Chart::new(view, "ratio-by-prints", title)
        .note(
            "Above 1 threads finish first, below 1 processes. Claims are decided on the matched console, by the time of \
             the whole program; elsewhere the clock runs from the first unit until all is read. The source measured the \
             same 255 units of 1,000 lines twice, 19 % (processes) and 32 % (threads) apart: more than the distance of \
             its curve from 1 at 1,000 lines.",
        )
        .x(Scale::Log, "lines per unit")
        .y(Scale::Log, "processes / threads, elapsed time");
    for into in LINES {
        by_prints = by_prints.line(to(into), ratios(row(view, into)));
    }
    let theirs = ratios(Series::Prints.cases().collect()).into_iter();
    let theirs = theirs.map(|(prints, ratio)| (prints, Series::Prints.published(&ratio)));
    let by_prints = by_prints.figures("source 003, on a console", Origin::Published, theirs);

    let title = "Time of 1,000 lines a unit, over that of 255 units";
    let by_units = Chart::new(view, "time-by-units", title)
        .note(
            "On the straight line a unit costs the same however many there are. The source ran threads from 350 units \
             on with stacks of 1 MiB, since the default failed (its reason, a bound of 384, does not explain that); \
             whether it did for 100 and 255 is not said.",
        )
        .x(Scale::Linear, "units")
        .y(Scale::Linear, "elapsed time, 255 units = 1");
    let units = Series::Units.counts().iter();
    let linear = units.map(|units| (*units, Some(*units as f64 / 255.0)));
    let by_units =
        by_kind(view, by_units, Series::Units, against_255).figures("linear", Origin::Ideal, linear);

    let title = "What a second CPU gains: time on one over time on two, 255 units";
    let two_cpus = Chart::new(view, "two-cpus", title)
        .note(
            "2 is a whole second CPU, 1 is nothing, below 1 it costs. The source's \"twice as fast for little work\" \
             rests on 10 lines alone: at 100 lines its two cores were slower than one.",
        )
        .x(Scale::Log, "lines per unit")
        .y(Scale::Linear, "one CPU / two CPUs, elapsed time");
    let two_cpus = by_kind(view, two_cpus, Series::TwoCpus, two_cpu_gain);

    let charts = [by_prints, by_units, two_cpus].map(Chart::drawn);
    charts.into_iter().flatten().chain(torn_lines(view)).collect()
}

/// A statistic at every count of a series: ours for each kind, then the source's.
fn by_kind<'v>(
    view: &View<'_>,
    mut chart: Chart<'v>,
    series: Series,
    statistic: fn(Case) -> Statistic,
) -> Chart<'v> {
    let sink = shown(view).0;
    let points = |unit| {
        let counts = series.counts().iter();
        counts.map(move |count| (*count, statistic(series.at(*count).sink(sink).unit(unit))))
    };
    for unit in Unit::ALL {
        chart = chart.line(unit.name(), points(unit));
    }
    for unit in Unit::ALL {
        let theirs = points(unit).map(|(count, statistic)| (count, series.published(&statistic)));
        let name = format!("source 003, {}", unit.name());
        chart = chart.figures(name, Origin::Published, theirs);
    }
    chart
}

fn torn_lines(view: &View<'_>) -> Option<Figure> {
    let columns = row(view, BLOCKS)
        .into_iter()
        .flat_map(|case| case.of_both_kinds());
    let columns = columns.filter(|case| view.measured(&TORN.of(*case)));
    let columns: Vec<Case> = columns.collect();
    let title = "Lines torn when 255 units print in blocks of 4,096 bytes";
    let mut chart = Chart::new(view, "torn-lines", title)
        .note(
            "Every process has a buffer of its own, and what follows its block in the pipe is another's; threads share \
             one buffer. A unit that prints less than a block writes once and tears nothing. The source does not count \
             torn lines.",
        )
        .x(Scale::Category, "unit and lines per unit")
        .y(Scale::Linear, "torn lines per 1,000");
    for sink in [Sink::Pipe, Sink::File, Sink::Pty] {
        let points = columns.iter().map(|case| {
            let torn = TORN.of(case.sink(sink));
            let column = format!("{}, {} lines", case.unit.name(), count(case.prints));
            (column, torn.times(1_000.0 / case.lines() as f64))
        });
        let into = name((sink, Buffering::Block));
        chart = chart.line(format!("into {into}"), points);
    }
    chart.drawn()
}

/// A table of source 003, ours beside theirs.
fn source_table(view: &View<'_>, series: Series) -> Table {
    let (id, title, note) = match series {
        Series::Prints => (
            "source-experiment-1",
            "Source 003, experiment 1: 255 units, 11 characters, one CPU",
            "The published mean of processes at 10,000 prints, 134.137 s, does not follow from its runs, which give \
             134.127 s. 255 × 1,000 stands in experiment 2 again, 19 % and 32 % faster.",
        ),
        Series::Units => (
            "source-experiment-2",
            "Source 003, experiment 2: 1,000 prints, 11 characters, one CPU",
            "The published mean of 500 processes, 22.413 s, does not follow from its runs, which give 22.447 s. \
             From 350 units on the source's threads ran with stacks of 1 MiB, after failing with 8 MiB below the bound \
             it states (384); whether the smaller groups did is not said. Ours have the default everywhere.",
        ),
        Series::Payload => (
            "source-experiment-3",
            "Source 003, experiment 3: 255 units, 256 characters, one CPU",
            "",
        ),
        Series::TwoCpus => (
            "source-experiment-5",
            "Source 003, experiment 5: 255 units, 11 characters, two CPUs",
            "One CPU's times are those of experiment 1. That two cores are twice as fast for little work rests on 10 \
             prints alone.",
        ),
    };
    let on_console = shown(view) == CONSOLE;
    let general = if on_console {
        "Columns in s are the source's, on a console; the others are ours, on the matched console: the time of the whole \
         program, as the source's, and beside it that from the first unit until all is read."
    } else {
        "Columns in s are the source's, on a console; the others are ours, into a pipe that is read, a write a line, \
         without starting the program."
    };
    let first = if series == Series::Units {
        "Units"
    } else {
        "Prints per unit"
    };
    let mut columns = vec![first, "Kind"];
    columns.extend(["Run 1, s", "Run 2, s", "Run 3, s", "Run 4, s", "Run 5, s"]);
    columns.extend(["Published mean, s", "Mean of its runs, s"]);
    columns.extend(["Here", "Trimmed mean"]);
    if on_console {
        columns.push("Here, until all is read");
    }
    columns.extend(["Process / thread, published", "Process / thread, here"]);
    if series == Series::TwoCpus {
        columns.extend(["One CPU / two, published", "One CPU / two, here"]);
    }
    let counts = series.counts().iter();
    let rows = counts.flat_map(|count| Unit::ALL.map(|unit| table_row(view, series, *count, unit)));
    let note = format!("{general} {note}");
    table(id, title, note.trim_end(), columns, rows.collect())
}

fn table_row(view: &View<'_>, series: Series, x: u64, unit: Unit) -> Vec<String> {
    let sink = shown(view).0;
    let case = series.at(x).sink(sink).unit(unit);
    let shown = |statistic: &Statistic, unit| Some(view.shown(statistic, unit));
    let both = |ratio: &Statistic| {
        let theirs = series.published(ratio);
        [
            theirs.map(|times| units::with_unit(times, None, "ratio")),
            shown(ratio, "ratio"),
        ]
    };
    let time = case.time();
    let mut row = vec![Some(count(x)), Some(unit.name().to_owned())];
    row.extend(
        series
            .runs(case)
            .into_iter()
            .map(|run| Some(units::published(run))),
    );
    let theirs = [
        series.mean(case).map(|mean| mean.published_mean_s),
        series.seconds(case),
    ];
    row.extend(theirs.map(|mean| mean.map(units::published)));
    row.push(shown(&time, "ns"));
    let trimmed = view.summary(time.cells()[0]).and_then(|times| times.trimmed_mean);
    row.push(trimmed.map(|ns| units::with_unit(ns, None, "ns")));
    if sink == Sink::Console {
        row.push(shown(&ELAPSED.of(case), "ns"));
    }
    // Once for both kinds, beside the first.
    row.extend(match unit {
        Unit::Process => both(&process_over_thread(case)),
        Unit::Thread => [None, None],
    });
    if series == Series::TwoCpus {
        row.extend(both(&two_cpu_gain(case)));
    }
    row.into_iter().map(Option::unwrap_or_default).collect()
}

/// With its digits grouped.
fn count(number: u64) -> String {
    units::with_unit(number as f64, None, "count")
}

#[cfg(test)]
mod tests;
