//! Source 003's tables, ours beside theirs.

use threadgauge_results::{MetricSummary, Table};

use super::ELAPSED;
use super::answer::DECIDING;
use super::grid::{Point, Series};
use super::published;
use super::reading::{count, ratio_of};
use super::setting::Unit;
use super::statistics::{Statistic, process_over_thread, two_cpu_gain};
use threadgauge_lab::view::View;

/// The tables of experiments 1, 2, 3 and 5.
pub(super) fn all(view: &View<'_>) -> Vec<Table> {
    Series::ALL.iter().map(|series| table(view, *series)).collect()
}

fn table(view: &View<'_>, series: Series) -> Table {
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
    let rows = series.points().into_iter().flat_map(|point| {
        let kinds = Unit::ALL.iter();
        kinds
            .map(move |unit| row(view, *unit, &point))
            .collect::<Vec<_>>()
    });
    let general = "Seconds are the source's, on a console; milliseconds are ours, into a pipe that is read, a write a \
                   line, without starting the program.";
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        note: format!("{general} {note}").trim_end().to_owned(),
        columns: columns(series),
        rows: rows.collect(),
    }
}

fn columns(series: Series) -> Vec<String> {
    let first = match series {
        Series::Units => "Units",
        _ => "Prints per unit",
    };
    let mut columns = vec![first, "Kind"];
    columns.extend(["Run 1, s", "Run 2, s", "Run 3, s", "Run 4, s", "Run 5, s"]);
    columns.extend(["Published mean, s", "Mean of its runs, s"]);
    columns.extend(["Here: median, ms", "95 % interval, ms", "Trimmed mean, ms"]);
    columns.extend(["Process / thread, published", "Process / thread, here"]);
    if series == Series::TwoCpus {
        columns.extend(["One CPU / two, published", "One CPU / two, here"]);
    }
    columns.into_iter().map(str::to_owned).collect()
}

fn row(view: &View<'_>, unit: Unit, point: &Point) -> Vec<String> {
    let mean = published::mean(unit, point);
    let mut row = vec![count(point.x()), unit.name().to_owned()];
    row.extend(published::runs(unit, point).iter().map(|run| seconds(*run)));
    row.push(mean.map_or_else(String::new, |m| seconds(m.published_mean_s)));
    row.push(published::seconds(unit, point).map_or_else(String::new, seconds));
    row.extend(ours(view.summary(&DECIDING.cell((unit, *point), ELAPSED))));
    // Once for both kinds, beside the first.
    if unit == Unit::Process {
        row.push(
            published::pair(point).map_or_else(String::new, |[process, thread]| ratio(process / thread)),
        );
        row.push(here(view, &process_over_thread(*point)));
    } else {
        row.extend([String::new(), String::new()]);
    }
    if point.series == Series::TwoCpus {
        let one = published::seconds(unit, &Series::Prints.at(point.prints));
        let gain = one
            .zip(published::seconds(unit, point))
            .map(|(one, two)| one / two);
        row.push(gain.map_or_else(String::new, ratio));
        row.push(here(view, &two_cpu_gain(unit, point.prints)));
    }
    row
}

fn ours(summary: Option<&MetricSummary>) -> [String; 3] {
    let Some(summary) = summary else {
        return [const { String::new() }; 3];
    };
    let ms = |ns: f64| format!("{:.1}", ns / 1e6);
    [
        ms(summary.median),
        summary
            .ci95
            .map_or_else(String::new, |[low, high]| format!("{}–{}", ms(low), ms(high))),
        summary.trimmed_mean.map_or_else(String::new, ms),
    ]
}

fn here(view: &View<'_>, statistic: &Statistic) -> String {
    let rounds = DECIDING.rounds(view, statistic);
    let estimate = rounds.ok().as_deref().and_then(ratio_of);
    estimate.map_or_else(String::new, |e| ratio(e.value))
}

fn seconds(s: f64) -> String {
    format!("{s:.3}")
}

fn ratio(value: f64) -> String {
    format!("{value:.3}")
}
