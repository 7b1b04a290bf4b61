//! What else is worth knowing, the answer in one sentence, and the pairs to compare.

use threadgauge_results::Finding;

use super::figures::{Figure, Group, figure, processes, threads};
use super::grid::{COUNTS, Mode};
use super::statistic::{gain, mean_gain, overhead, per_switch};
use threadgauge_lab::compat::params;
use threadgauge_lab::experiment::Pair;
use threadgauge_lab::statistic::Cell;
use threadgauge_lab::view::View;

/// The answer to the question.
pub(super) fn answer(view: &View<'_>) -> String {
    let one = threads(Mode::Yield, 1);
    let over = |n| figure(view, &[one.time(n), one.base()], |t| overhead(t[0], t[1]));
    let growth: Vec<String> = [2, 64, 1024, 8192]
        .into_iter()
        .filter_map(|n| Some(format!("{:+.0} % at {n}", over(n)?.median * 100.0)))
        .collect();
    let mut parts = Vec::new();
    if !growth.is_empty() {
        parts.push(format!(
            "On one CPU threads that yield after every slice take longer than one thread by {}.",
            growth.join(", ")
        ));
    }
    if let Some(cost) =
        switch_cost(view, one, 64).filter(|_| view.resolved_cells(&one.time(64), &neither(one).time(64)))
    {
        parts.push(format!(
            "A switch among 64 of them costs {:.2} µs.",
            cost.median / 1e3
        ));
    }
    if let Some(gain) = average_gain(view) {
        parts.push(format!(
            "A second CPU adds {:.0} % on average from 2 to 8,192 threads.",
            gain.median * 100.0
        ));
    }
    if parts.is_empty() {
        return "The cells that would answer this have no figures in this run.".to_owned();
    }
    parts.join(" ")
}

/// Facts, each with its figure.
pub(super) fn facts(view: &View<'_>) -> Vec<Finding> {
    let mut facts = Vec::new();
    for count in [2, 64, 1024, 8192] {
        facts.extend(switching(view, threads(Mode::Yield, 1), count));
    }
    for count in [64, 1024] {
        facts.extend(switching(view, processes(Mode::Yield, 1), count));
    }
    facts.extend(really_switched(view));
    facts.extend(best_count(view));
    facts.extend(starting_and_ending(view));
    facts.extend(a_sleep(view));
    facts
}

/// Pairs that a reader asks about.
pub(super) fn comparisons() -> Vec<Pair> {
    let pair = |a: String, b: String| Pair {
        a: params(&a),
        b: params(&b),
    };
    let mut pairs = Vec::new();
    for cpus in [1, 2] {
        for count in [64, 1024] {
            let yielding = threads(Mode::Yield, cpus);
            pairs.push(pair(neither(yielding).pattern(count), yielding.pattern(count)));
            pairs.push(pair(
                yielding.pattern(count),
                processes(Mode::Yield, cpus).pattern(count),
            ));
        }
    }
    let one = threads(Mode::Yield, 1);
    pairs.push(pair(one.pattern(32), one.pattern(128)));
    pairs
}

fn neither(group: Group) -> Group {
    Group {
        mode: Mode::Neither,
        ..group
    }
}

/// Time and both kinds of switches, with and without yielding.
fn switch_cells(group: Group, count: u64, time: &str) -> [Cell; 6] {
    let metrics = [time, "voluntary_switches", "involuntary_switches"];
    let [a, b, c] = metrics.map(|metric| group.of(count, metric));
    let [d, e, f] = metrics.map(|metric| neither(group).of(count, metric));
    [a, b, c, d, e, f]
}

fn switch_cost(view: &View<'_>, group: Group, count: u64) -> Option<Figure> {
    figure(view, &switch_cells(group, count, "elapsed_ns"), |v| {
        per_switch([v[0], v[1] + v[2]], [v[3], v[4] + v[5]])
    })
}

fn switching(view: &View<'_>, group: Group, count: u64) -> Option<Finding> {
    let units = match group.unit {
        super::grid::Unit::Thread => "threads",
        super::grid::Unit::Process => "processes",
    };
    let cost = switch_cost(view, group, count)?;
    if !view.resolved_cells(&group.time(count), &neither(group).time(count)) {
        let says =
            format!("What a switch among {count} yielding {units} on one CPU costs is below resolution.");
        return Some(fact(says, None, "ns"));
    }
    let says = format!(
        "A switch among {count} yielding {units} on one CPU costs {:.2} µs{} (time with yields less time without, over the \
         switches that happened).",
        cost.median / 1e3,
        within(cost, 1e3, 2),
    );
    Some(fact(says, Some(cost), "ns"))
}

fn really_switched(view: &View<'_>) -> Option<Finding> {
    let one = threads(Mode::Yield, 1);
    let per_slice = |group: Group, n| figure(view, &[group.of(n, "switches_per_slice")], |v| v[0]);
    let measured = COUNTS[1..].iter().filter_map(|&n| Some((n, per_slice(one, n)?)));
    let (count, least) = measured.min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let verdict = if least.median >= 0.9 {
        "Yields really switched"
    } else {
        "The scheduler ignored yields"
    };
    let alone = per_slice(threads(Mode::Yield, 2), 2).map_or_else(String::new, |f| {
        let why = if f.median < 0.1 {
            "each has a CPU to itself, so the base of all overheads on two CPUs has hardly a switch in it"
        } else {
            "they shared a CPU, so the base of all overheads on two CPUs is not what it should be; look for other programs"
        };
        format!(" Two threads on two CPUs switched {:.3} times a slice: {why}.", f.median)
    });
    let says = format!(
        "{verdict}: on one CPU at least {:.3} switches a slice from 2 threads on (least at {count}).{alone}",
        least.median
    );
    Some(fact(says, Some(least), "switches per slice"))
}

/// The source says that two threads are best on two CPUs.
fn best_count(view: &View<'_>) -> Option<Finding> {
    let two = threads(Mode::Yield, 2);
    let measured = COUNTS
        .iter()
        .filter_map(|&n| Some((n, figure(view, &[two.time(n)], |t| t[0])?)));
    let (best, time) = measured.min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let says = format!(
        "Of the counts measured {best} {} on two CPUs finished first, in {:.2} ms{}.",
        if best == 1 { "thread" } else { "threads" },
        time.median / 1e6,
        within(time, 1e6, 2),
    );
    Some(fact(says, Some(time), "ns"))
}

fn starting_and_ending(view: &View<'_>) -> Option<Finding> {
    let group = threads(Mode::Neither, 1);
    let count = 8192;
    let cells = ["start_ns", "end_ns", "elapsed_ns", "total_ns"].map(|metric| group.of(count, metric));
    let each = figure(view, &cells, |v| (v[0] + v[1]) / count as f64)?;
    let share = figure(view, &cells, |v| 1.0 - v[2] / v[3])?;
    let says = format!(
        "Starting and ending {count} threads that are all alive takes {:.1} µs each{} on one CPU: together with lining up \
         {:.0} % of the whole time, which `elapsed_ns` leaves out and `total_ns` includes.",
        each.median / 1e3,
        within(each, 1e3, 1),
        share.median * 100.0,
    );
    Some(fact(says, Some(each), "ns"))
}

/// A sleep costs more than a yield; sleeping programs lose less because they do it less often.
fn a_sleep(view: &View<'_>) -> Option<Finding> {
    let count = 64;
    let cost = |mode| {
        figure(view, &switch_cells(threads(mode, 1), count, "cpu_ns"), |v| {
            per_switch([v[0], v[1] + v[2]], [v[3], v[4] + v[5]])
        })
    };
    let (sleep, turn) = (cost(Mode::Sleep)?, cost(Mode::Yield)?);
    let cpu = |mode| threads(mode, 1).of(count, "cpu_ns");
    for (mode, what) in [(Mode::Sleep, "sleep of 1 ms"), (Mode::Yield, "yield")] {
        if !view.resolved_cells(&cpu(mode), &cpu(Mode::Neither)) {
            let says = format!("What a {what} costs {count} threads in CPU time is below resolution.");
            return Some(fact(says, None, "ns"));
        }
    }
    let lesson = if sleep.median > turn.median {
        ": sleeping threads lose less where they switch less often, not because a sleep is cheaper"
    } else {
        ""
    };
    let says = format!(
        "Among {count} threads on one CPU a sleep of 1 ms costs {:.2} µs of CPU time{}, a yield {:.2} µs{lesson}.",
        sleep.median / 1e3,
        within(sleep, 1e3, 2),
        turn.median / 1e3,
    );
    Some(fact(says, Some(sleep), "ns"))
}

fn average_gain(view: &View<'_>) -> Option<Figure> {
    let (one, two) = (threads(Mode::Yield, 1), threads(Mode::Yield, 2));
    let cells: Vec<Cell> = COUNTS[1..]
        .iter()
        .flat_map(|&n| [one.time(n), two.time(n)])
        .collect();
    figure(view, &cells, |times| {
        let pairs: Vec<[f64; 2]> = times.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        mean_gain(&pairs)
    })
}

/// The gain of a second CPU at one count, for the drawings too.
pub(super) fn gain_at(view: &View<'_>, mode: Mode, count: u64) -> Option<Figure> {
    let times = [threads(mode, 1).time(count), threads(mode, 2).time(count)];
    figure(view, &times, |t| gain(t[0], t[1]))
}

fn within(figure: Figure, unit: f64, digits: usize) -> String {
    figure.ci95.map_or_else(String::new, |[low, high]| {
        format!(" [{:.digits$}, {:.digits$}]", low / unit, high / unit)
    })
}

fn fact(says: String, figure: Option<Figure>, unit: &str) -> Finding {
    Finding::fact(says, figure.map(|f| f.median), figure.and_then(|f| f.ci95), unit)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{as_published, run};
    use super::*;

    #[test]
    fn a_switch_costs_the_extra_time_over_the_switches() {
        // 50 ms with 10,000 switches against 30 ms without: 2 µs.
        let view = run(7, 2, |case| {
            Some(if case.mode == Mode::Yield {
                (50.0, 10_000.0)
            } else {
                (30.0, 0.0)
            })
        });
        let cost = switch_cost(&view, threads(Mode::Yield, 1), 64).unwrap();
        assert!((cost.median - 2_000.0).abs() < 1e-6, "{cost:?}");
        let says = facts(&view);
        assert!(
            says[1]
                .says
                .contains("64 yielding threads on one CPU costs 2.00 µs"),
            "{}",
            says[1].says
        );
    }

    #[test]
    fn a_difference_of_nothing_is_below_resolution_and_has_no_number() {
        let view = run(7, 2, |case| {
            Some((30.0, if case.mode == Mode::Yield { 10_000.0 } else { 0.0 }))
        });
        let first = &facts(&view)[0];
        assert!(
            first.says.contains("below resolution") && first.measured.is_none(),
            "{first:?}"
        );
    }

    #[test]
    fn a_scheduler_that_ignores_yields_is_found_out() {
        let view = run(7, 2, |_| Some((30.0, 12.0)));
        let fact = facts(&view)
            .into_iter()
            .find(|f| f.unit == "switches per slice")
            .unwrap();
        assert!(
            fact.says.starts_with("The scheduler ignored yields"),
            "{}",
            fact.says
        );
    }

    #[test]
    fn a_base_whose_two_threads_shared_a_cpu_is_found_out() {
        let says = |switches| {
            let view = run(7, 2, |case| {
                Some((30.0, if case.cpus == 2 { switches } else { 16_384.0 }))
            });
            let mut facts = facts(&view).into_iter();
            facts.find(|f| f.unit == "switches per slice").unwrap().says
        };
        assert!(says(16.0).contains("a CPU to itself"), "{}", says(16.0));
        assert!(says(16_000.0).contains("they shared a CPU"), "{}", says(16_000.0));
    }

    #[test]
    fn the_answer_has_its_numbers() {
        let says = answer(&as_published(7));
        assert!(says.starts_with("On one CPU threads that yield"), "{says}");
        assert!(
            says.contains("+54 % at 8192") && says.contains("A second CPU adds 84 %"),
            "{says}"
        );
    }

    #[test]
    fn without_figures_nothing_is_said() {
        let view = run(7, 1, |_| None);
        assert_eq!(
            answer(&view),
            "The cells that would answer this have no figures in this run."
        );
        assert!(facts(&view).is_empty());
    }

    #[test]
    fn what_is_compared_exists_in_every_profile() {
        let view = as_published(7);
        for pair in comparisons() {
            for side in [&pair.a, &pair.b] {
                assert_eq!(view.cases(side).count(), 1, "{side}");
            }
        }
    }
}
