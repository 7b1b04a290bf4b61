//! What things cost here: which costs are listed, which share a scale, and where each stands on it.
//!
//! The page, the picture and the terminal draw this list; it decides what they show. Costs of one dimension, such as
//! times, stand on one logarithmic scale; a cost that is alone in its dimension has no scale.

use std::collections::BTreeSet;

use threadgauge_results::published::marks;
use threadgauge_results::units::{self, Scale as Print};
use threadgauge_results::{Cost, Results, Scale, TWO_SYSTEM_CALLS};

use crate::chart::{Axis, Bounds};

/// The most that the list holds: a screen.
const MOST: usize = 10;

/// Costs of one dimension, in order of their figure.
pub(crate) struct Group<'a> {
    /// The listed ones, cheapest first.
    pub rows: Vec<Row<'a>>,
    /// Where the scale has a mark, 0 to 1, and what is written there; empty for a cost that is alone.
    pub ticks: Vec<(f64, String)>,
}

/// A line of the list.
pub(crate) struct Row<'a> {
    /// The cost; it has a name.
    pub cost: &'a Cost,
    /// What it is called.
    pub name: &'a str,
    /// The figure with its interval and unit.
    pub figure: String,
    /// Where the low end, the figure and the high end stand, 0 to 1; none on no scale.
    pub places: Option<[f64; 3]>,
}

/// The latency ladder: times of this machine on one logarithmic scale, among times that people know by heart.
pub(crate) struct Ladder<'a> {
    /// The shortest first.
    pub rungs: Vec<Rung<'a>>,
    /// Where the scale has a mark, 0 to 1, and what is written there.
    pub ticks: Vec<(f64, String)>,
}

/// A line of the ladder.
pub(crate) struct Rung<'a> {
    /// What takes so long.
    pub name: &'a str,
    /// How long.
    pub figure: String,
    /// Its interval, in the same unit, where it was measured here; else empty.
    pub interval: String,
    /// Where the low end, the figure and the high end stand, 0 to 1.
    pub places: [f64; 3],
    /// Whether it was measured here; where it was not, `published` says of what machine it is.
    pub is_measured: bool,
    /// What was published, of what machine and when.
    pub published: Option<&'a str>,
    /// Where that stands, 0 to 1.
    pub published_place: Option<f64>,
}

/// The ladder of a run; none where it measured no time that belongs there.
pub(crate) fn ladder(results: &Results) -> Option<Ladder<'_>> {
    let mut names = BTreeSet::new();
    let familiar = |cost: &&Cost| cost.what == TWO_SYSTEM_CALLS;
    let mut measured: Vec<(&Cost, &str)> = all(results)
        .filter(|cost| dimension(&cost.unit) == "time" && (cost.name.is_some() || familiar(cost)))
        .map(|cost| (cost, cost.name.as_deref().unwrap_or(&cost.what)))
        .filter(|(_, name)| names.insert(*name))
        .take(MOST)
        .collect();
    if measured.is_empty() {
        return None;
    }
    measured.sort_by(|(a, _), (b, _)| a.value.total_cmp(&b.value));
    let of_marks = marks().iter().map(|mark| mark.value_ns);
    let of_costs = measured
        .iter()
        .flat_map(|(cost, _)| ends(cost).into_iter().chain(cost.published_value));
    let axis = Axis::of(Scale::Log, of_costs.chain(of_marks), Bounds::of("ns"));
    fn scale(cost: &Cost) -> Print<'_> {
        Print::of(&cost.unit, cost.value)
    }
    let here = measured.iter().map(|&(cost, name)| {
        let rung = Rung {
            name,
            figure: scale(cost).quantity_beside(cost.value, cost.ci95),
            interval: (cost.ci95).map_or_else(String::new, |ends| scale(cost).interval(cost.value, ends)),
            places: ends(cost).map(|value| axis.place(value)),
            is_measured: true,
            published: cost.published.as_deref(),
            published_place: cost.published_value.map(|value| axis.place(value)),
        };
        (cost.value, rung)
    });
    let familiar = marks().iter().map(|mark| {
        let place = axis.place(mark.value_ns);
        let rung = Rung {
            name: &mark.name,
            figure: Print::bounds("ns", &[mark.value_ns]),
            interval: String::new(),
            places: [place; 3],
            is_measured: false,
            published: Some(&mark.who),
            published_place: Some(place),
        };
        (mark.value_ns, rung)
    });
    let mut rungs: Vec<(f64, Rung<'_>)> = here.chain(familiar).collect();
    rungs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let labels = axis
        .ticks
        .iter()
        .map(|tick| (axis.place(*tick), Print::bounds("ns", &[*tick])));
    Some(Ladder {
        rungs: rungs.into_iter().map(|(_, rung)| rung).collect(),
        ticks: thinned(labels.collect()),
    })
}

/// Every cost of a run, in the order of the experiments.
pub(crate) fn all(results: &Results) -> impl Iterator<Item = &Cost> {
    results.experiments.iter().flat_map(|e| &e.costs)
}

/// The list, by dimension in the order in which they first come. Where two experiments have a cost of the same name, it
/// is that of the first.
pub(crate) fn listed(results: &Results) -> Vec<Group<'_>> {
    let mut dimensions: Vec<(&str, Vec<(&Cost, &str)>)> = Vec::new();
    let mut names = BTreeSet::new();
    let named = all(results).filter_map(|cost| Some((cost, cost.name.as_deref()?)));
    let named = named.filter(|(_, name)| names.insert(*name));
    for (cost, name) in named.take(MOST) {
        let of = dimension(&cost.unit);
        match dimensions.iter_mut().find(|(dimension, _)| *dimension == of) {
            Some((_, costs)) => costs.push((cost, name)),
            None => dimensions.push((of, vec![(cost, name)])),
        }
    }
    dimensions.into_iter().map(|(_, costs)| group(costs)).collect()
}

fn group<'a>(mut costs: Vec<(&'a Cost, &'a str)>) -> Group<'a> {
    costs.sort_by(|(a, _), (b, _)| a.value.total_cmp(&b.value));
    let alone = costs.len() < 2;
    let unit = costs.first().map_or("", |(cost, _)| cost.unit.as_str());
    // Memory is told in KiB, and marked at whole ones.
    let per = if dimension(unit) == "memory" { 1024.0 } else { 1.0 };
    let axis = Axis::of(
        Scale::Log,
        costs.iter().flat_map(|(cost, _)| ends(cost)).map(|v| v / per),
        Bounds::of(""),
    );
    let rows = costs.iter().map(|&(cost, name)| Row {
        cost,
        name,
        figure: units::with_unit(cost.value, cost.ci95, &cost.unit),
        places: (!alone).then(|| ends(cost).map(|value| axis.place(value / per))),
    });
    let label = |tick: &f64| (axis.place(*tick), Print::bounds(unit, &[*tick * per]));
    let labels = axis.ticks.iter().map(label).collect();
    Group {
        rows: rows.collect(),
        ticks: if alone { Vec::new() } else { thinned(labels) },
    }
}

/// How long a scale is at the least, and how wide a character of its labels, pixels.
const LENGTH: f64 = 150.0;
const CHARACTER: f64 = 7.5;

/// The labels that have room: every first, second, ….
fn thinned(labels: Vec<(f64, String)>) -> Vec<(f64, String)> {
    let fits = |every: &usize| {
        let shown: Vec<_> = labels.iter().step_by(*every).collect();
        shown.windows(2).all(|pair| {
            let wide = pair
                .iter()
                .map(|(_, text)| text.chars().count() as f64)
                .sum::<f64>()
                / 2.0;
            (pair[1].0 - pair[0].0) * LENGTH >= (wide + 1.0) * CHARACTER
        })
    };
    let every = (1..=labels.len()).find(fits).unwrap_or(1);
    labels.into_iter().step_by(every).collect()
}

/// The low end of the interval, the figure, the high end.
fn ends(cost: &Cost) -> [f64; 3] {
    let [low, high] = cost.ci95.unwrap_or([cost.value; 2]);
    [low, cost.value, high]
}

/// What can stand on one scale.
pub(crate) fn dimension(unit: &str) -> &str {
    match unit {
        "ns" | "us" | "µs" | "ms" | "s" => "time",
        "B" | "byte" | "bytes" => "memory",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_would_touch_are_left_out_evenly() {
        let labels = |count: u32, characters: usize| -> Vec<(f64, String)> {
            let place = |i: u32| f64::from(i) / f64::from(count - 1);
            (0..count)
                .map(|i| (place(i), format!("{i:0characters$}")))
                .collect()
        };
        let shown = |count, characters| -> Vec<String> {
            let labels = thinned(labels(count, characters));
            labels.into_iter().map(|(_, text)| text).collect()
        };
        // Of four characters: with the room between two, 37.5 pixels. Four have 50 pixels from one to the next, five
        // 37.5: exactly enough; six have 30.
        assert_eq!(shown(4, 4).len(), 4);
        assert_eq!(shown(5, 4).len(), 5);
        assert_eq!(shown(6, 4), ["0000", "0002", "0004"]);
        // Of two: 22.5. Seven have 25, eight 21.4.
        assert_eq!(shown(7, 2).len(), 7);
        assert_eq!(shown(8, 2), ["00", "02", "04", "06"]);
    }

    #[test]
    fn the_scale_of_memory_is_marked_at_whole_kib() {
        let costs = [9_831.0, 50.0 * 1024.0, 91_000.0]
            .map(|bytes| Cost::new(("keep", "thread"), "", (bytes, None), "B"));
        let group = group(costs.iter().map(|cost| (cost, "memory")).collect());
        let labels: Vec<&str> = group.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert!(labels.len() >= 2, "{labels:?}");
        for label in &labels {
            let number = label.strip_suffix(" KiB").expect("memory is told in KiB");
            assert!(number.parse::<u32>().is_ok(), "{labels:?}");
        }
        // A mark stands where a cost of that size does.
        let [_, of_cost, _] = group.rows[1].places.unwrap();
        let (of_mark, _) = group.ticks.iter().find(|(_, label)| label == "50 KiB").unwrap();
        assert!((of_mark - of_cost).abs() < 1e-9, "{of_mark} and {of_cost}");
    }
}
