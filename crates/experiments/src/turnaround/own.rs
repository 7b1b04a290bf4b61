//! What the user has set: sets of computations that no profile has, one after the other and at once.

use threadgauge_lab::prelude::*;
use threadgauge_results::units::of_cpus;
use threadgauge_results::{Figure, Table};

use super::case::{Carrier, Case, Degree, Extra, Lengths, Mode, Order};
use super::claims::{ELAPSED, Pair, TURNAROUND, drawn, ideal};
use super::grid;

/// Those of which the run has figures both ways, in plan order. Of equal ones no order is the longest first: they are
/// told once.
pub(super) fn pairs(view: &View<'_>) -> Vec<Pair> {
    let of_profiles = grid::of_profiles(view.all_cpus().unwrap_or(2));
    let is_told_already = |case: &Case| {
        let told = case.order(Order::Descending);
        case.lengths == Lengths::Equal && *case != told && view.measured(&ELAPSED.of(told))
    };
    let cases = view
        .planned(Params::new())
        .filter_map(|params| Case::checked(params).ok());
    cases
        .filter(|case| case.mode == Mode::Concurrent && !of_profiles.contains(case))
        .filter(|case| !is_told_already(case))
        .map(|concurrent| Pair {
            serial: concurrent.one_after_the_other(),
            concurrent,
        })
        .filter(|pair| view.measured(&pair.ratio(ELAPSED)))
        .collect()
}

/// What the largest set of each kind says, and what to do. Where several say one thing, the first is told and the
/// others are named.
pub(super) fn answer(view: &View<'_>) -> Option<String> {
    let mut says: Vec<(&str, String, Vec<String>)> = Vec::new();
    for pair in largest(view) {
        let Some((what_to_do, why)) = advice(view, pair) else {
            continue;
        };
        match says.iter_mut().find(|(said, ..)| *said == what_to_do) {
            Some((.., others)) => others.push(format!("{} {}", pair.serial.count, pair.serial.kind.bound())),
            None => says.push((what_to_do, why, Vec::new())),
        }
    }
    let sentences = says.into_iter().map(|(what_to_do, why, others)| {
        let so_is = match others.as_slice() {
            [] => String::new(),
            [others @ .., last] if !others.is_empty() => {
                format!(
                    " The same holds of {} and {last} computations.",
                    others.join(", ")
                )
            }
            [other, ..] => format!(" The same holds of {other} computations."),
        };
        format!("{what_to_do}: {why}.{so_is}")
    });
    let says: Vec<String> = sentences.chain(others(view)).collect();
    (!says.is_empty()).then(|| says.join(" "))
}

/// How many of the sets that are not told say something else than the largest of their kind.
fn others(view: &View<'_>) -> Option<String> {
    let told = largest(view);
    let all = pairs(view);
    let others: Vec<&Pair> = all.iter().filter(|pair| !told.contains(pair)).collect();
    let what = |pair: Pair| advice(view, pair).map(|(what_to_do, _)| what_to_do);
    let is_otherwise = |pair: &&&Pair| {
        let largest = told.iter().find(|told| told.serial.kind == pair.serial.kind);
        what(***pair) != largest.and_then(|largest| what(*largest))
    };
    let otherwise = others.iter().filter(is_otherwise).count();
    Some(match (others.len(), otherwise) {
        (0, _) => return None,
        (1, 0) => "The same is to be done with the other set.".to_owned(),
        (1, _) => "The other set asks for something else: see the table of sets.".to_owned(),
        (n, 0) => format!("The same is to be done with the {n} other sets."),
        (n, k) => format!("Of the {n} other sets {k} ask for something else: see the table of sets."),
    })
}

/// What running the first of these at once changes.
pub(super) fn number(view: &View<'_>) -> Option<KeyNumber> {
    let pair = largest(view).into_iter().next()?;
    let (count, kind) = (pair.serial.count, pair.serial.kind.bound());
    let of =
        format!("{count} {kind} computations, at once ÷ one after the other: mean turnaround, less 100 %");
    view.number(of, &pair.ratio(TURNAROUND).less_one(), "difference")
}

/// The largest set of each kind.
fn largest(view: &View<'_>) -> Vec<Pair> {
    let mut largest: Vec<Pair> = Vec::new();
    for pair in pairs(view) {
        match largest
            .iter_mut()
            .find(|other| other.serial.kind == pair.serial.kind)
        {
            Some(other) if other.serial.count < pair.serial.count => *other = pair,
            Some(_) => {}
            None => largest.push(pair),
        }
    }
    largest
}

/// What to do with a set, and what was found of it.
fn advice(view: &View<'_>, pair: Pair) -> Option<(&'static str, String)> {
    let changes = [ELAPSED, TURNAROUND].map(|metric| pair.ratio(metric).less_one());
    let [elapsed, turnaround] = &changes;
    let shown = [view.estimate(elapsed)?, view.estimate(turnaround)?].map(Estimate::change);
    let better = changes.each_ref().map(|change| match view.resolved(change) {
        true => view.value(change).map(|change| change < 0.0),
        false => None,
    });
    let what_to_do = match better {
        [Some(true), Some(true)] => "Run them at once",
        [Some(false), Some(false)] => "Run them one after the other",
        [_, Some(true)] => "Run them at once if each result counts when it is there, not only the last",
        [_, Some(false)] => "Run them one after the other, unless only the last result counts",
        [Some(true), None] => "Run them at once if the last result counts",
        [Some(false), None] => "Run them one after the other if the last result counts",
        [None, None] if view.estimate(elapsed)?.ci95.is_none() => {
            "With 6 rounds or more it is said what to do"
        }
        [None, None] => "It makes no difference that these rounds could show",
    };
    let Case { count, cpus, .. } = pair.serial;
    let found = format!(
        "{count} {} computations {} on {}, {}: elapsed time {}, mean turnaround {}",
        pair.serial.kind.bound(),
        lengths(pair.serial),
        of_cpus(cpus),
        runs(pair.concurrent),
        shown[0],
        shown[1],
    );
    Some((what_to_do, found))
}

const fn order(case: Case) -> &'static str {
    match case.order {
        Order::Descending => ", longest first,",
        Order::Ascending => ", shortest first,",
        Order::Shuffled => " in an order by chance",
    }
}

fn lengths(case: Case) -> String {
    let Case { count, base_ms, .. } = case;
    let order = order(case);
    match case.lengths {
        Lengths::Equal => format!("of {base_ms} ms each"),
        Lengths::Steps => format!("of {base_ms} to {} ms{order}", base_ms * count),
        Lengths::Random => format!("of 1 to {} ms by chance{order}", base_ms * count),
        Lengths::Listed(list) => {
            let lengths: Vec<String> = list.ms().iter().map(u32::to_string).collect();
            format!("of {} ms{order}", lengths.join(", "))
        }
    }
}

fn runs(case: Case) -> String {
    let at_a_time = match case.degree {
        Degree::AtMost(most) if most >= case.count => "all at once".to_owned(),
        Degree::AtMost(most) => format!("{most} at a time"),
        Degree::Adaptive => "as many at a time as the executor finds worth it".to_owned(),
    };
    let by = match case.carrier {
        Carrier::Caller => "by the caller",
        Carrier::Thread => "a thread each in its turn",
        Carrier::UpFront => "a thread each",
        Carrier::Pool => "by a pool",
        Carrier::Process => "by helper processes",
    };
    let besides = match case.extra {
        Extra::None => "",
        Extra::Chain => ", each after the one before it",
        Extra::Finisher => ", and each finished on the caller's thread",
    };
    format!("{at_a_time}, {by}{besides}")
}

/// All of them, with theory beside.
pub(super) fn table_of(view: &View<'_>) -> Option<Table> {
    let pairs = pairs(view);
    let row = |pair: &Pair| {
        let text = |statistic: Statistic, unit| {
            view.estimate(&statistic)
                .map_or_else(String::new, |value| value.plain(unit))
        };
        let figures = [
            text(ELAPSED.of(pair.serial), "ns"),
            text(ELAPSED.of(pair.concurrent), "ns"),
            text(pair.ratio(ELAPSED), "ratio"),
            text(pair.ratio(ideal(ELAPSED)), "ratio"),
            text(pair.ratio(TURNAROUND), "ratio"),
            text(pair.ratio(ideal(TURNAROUND)), "ratio"),
        ];
        let Case {
            kind, count, cpus, ..
        } = pair.serial;
        let point = [
            kind.name().to_owned(),
            count.to_string(),
            lengths(pair.serial).replace(',', ""),
            runs(pair.concurrent),
            cpus.to_string(),
        ];
        point.into_iter().chain(figures).collect()
    };
    let names = [
        "kind",
        "computations",
        "lengths",
        "at once",
        "CPUs",
        "one after the other",
        "at once, time",
        "elapsed, ratio",
        "by theory",
        "turnaround, ratio",
        "turnaround by theory",
    ];
    (!pairs.is_empty()).then(|| {
        table(
            "own".to_owned(),
            "Sets of computations: at once ÷ one after the other".to_owned(),
            "Medians over rounds; a ratio is that of each round, and so not the quotient of two medians. Theory is first come, \
             first served, and equal sharing of the CPUs, at no cost.",
            names,
            pairs.iter().map(row).collect(),
        )
    })
}

/// For each that differs in more than the number of computations, and was measured with several: both ways over that.
pub(super) fn charts(view: &View<'_>) -> Vec<Figure> {
    let mut groups: Vec<Vec<Pair>> = Vec::new();
    for pair in pairs(view) {
        let alike = |group: &&mut Vec<Pair>| {
            let count = pair.concurrent.count;
            Case {
                count,
                ..group[0].concurrent
            } == pair.concurrent
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(pair),
            None => groups.push(vec![pair]),
        }
    }
    groups.retain(|group| group.len() > 1);
    let both = |(number, group): (usize, &Vec<Pair>)| {
        [TURNAROUND, ELAPSED].map(|metric| chart(view, number + 1, group, metric))
    };
    groups.iter().enumerate().flat_map(both).flatten().collect()
}

fn chart(view: &View<'_>, number: usize, group: &[Pair], metric: Metric) -> Option<Figure> {
    let (name, id, label, scale) = drawn(metric);
    let of = |metric: Metric, case: fn(&Pair) -> Case| {
        group
            .iter()
            .map(move |pair| (pair.serial.count, metric.of(case(pair)).times(scale)))
    };
    let case = group[0].concurrent;
    let base = case.base_ms;
    let lengths = match case.lengths {
        Lengths::Equal => format!("of {base} ms each"),
        Lengths::Steps => format!("of {base} ms and its multiples{}", order(case)),
        Lengths::Random => format!("of lengths by chance up to {base} ms for each{}", order(case)),
        // Another number of computations is another list.
        Lengths::Listed(_) => return None,
    };
    let title = format!(
        "{} computations {lengths} on {}, {}: {name}",
        case.kind.bound(),
        of_cpus(case.cpus),
        runs(case)
    );
    Chart::new(view, format!("own-{id}-{number}"), title)
        .note("Both ways, and what theory says of them at no cost.")
        .x(Scale::Linear, "computations")
        .y(Scale::Linear, label)
        .line("one after the other", of(metric, |pair| pair.serial))
        .line("at once", of(metric, |pair| pair.concurrent))
        .theory(
            "one after the other at no cost",
            of(ideal(metric), |pair| pair.serial),
        )
        .theory("at once at no cost", of(ideal(metric), |pair| pair.concurrent))
        .drawn()
}

#[cfg(test)]
mod tests {
    use super::super::case::Kind;
    use super::*;

    #[test]
    fn how_many_run_at_a_time_is_said_where_they_are_fewer_than_all() {
        let case = Case::serial(Kind::Cpu, 3, 10).concurrent();
        let says = |degree, carrier| {
            runs(Case {
                degree,
                carrier,
                ..case
            })
        };
        for (most, at_a_time) in [(2, "2 at a time"), (3, "all at once"), (4, "all at once")] {
            let said = says(Degree::AtMost(most), Carrier::Pool);
            assert_eq!(said, format!("{at_a_time}, by a pool"));
        }
        assert_eq!(
            says(Degree::Adaptive, Carrier::Thread),
            "as many at a time as the executor finds worth it, a thread each in its turn"
        );
    }
}
