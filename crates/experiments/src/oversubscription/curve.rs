//! What a forced switch costs against the work between two of them: from how much work on it does not matter here.
//!
//! The base is the same units with the same work that never give up the CPU. The model says that the overhead is the
//! cost of a switch over the work between two.

use std::collections::BTreeSet;

use threadgauge_lab::prelude::*;
use threadgauge_results::Figure;
use threadgauge_stats::Between;

use super::case::{Case, Mode, Slice, Work};
use super::statistics::{ONE, slices};
use super::units::{ELAPSED, SLICE};

/// From about a switch to far beyond.
pub(super) const SLICES: [Slice; 6] = [
    Slice::SHORT,
    Slice::us(6),
    Slice::us(25),
    Slice::us(100),
    Slice::us(400),
    Slice::us(1_000),
];
/// How many threads.
pub(super) const COUNTS: [u64; 3] = [2, 32, 1024];
/// That of which the figure to take home is.
const MIDDLE: u64 = COUNTS[1];

/// Each thread has so many slices.
const FEWEST_SLICES: u64 = 16;
const LEAST_WORK_MS: u64 = 50;

/// The cells of a profile, but those of the shortest slice, which every profile has for the cost of a switch.
pub(super) fn cases(profile: Profile) -> Vec<Case> {
    // The most work of a cell on one CPU and on two, ms.
    let most_ms = profile.pick([210, 0], [410, 60], [10_000, 10_000]);
    let mut cases = Vec::new();
    for (cpus, most_ms) in (1..).zip(most_ms) {
        for slice in &SLICES[1..] {
            // Two threads on two CPUs never switch.
            for count in COUNTS.into_iter().filter(|&n| n > cpus) {
                let group = ONE.slice_us(*slice).cpus(cpus).count(count);
                let fits = |ms: &u64| {
                    group.work_s(Work::ms(*ms)).share() >= FEWEST_SLICES * slice.steps().unwrap_or(1)
                };
                let work = (LEAST_WORK_MS..=most_ms).step_by(10).find(fits);
                let both = [Mode::Yield, Mode::Neither];
                cases.extend(
                    work.into_iter()
                        .flat_map(|ms| both.map(|mode| group.mode(mode).work_s(Work::ms(ms)))),
                );
            }
        }
    }
    cases
}

/// One line: so many threads, with the lengths of which both are measured, from the shortest on, ns.
struct Line {
    group: Case,
    points: Vec<(f64, Case)>,
}

impl Line {
    fn count(&self) -> u64 {
        self.group.count
    }

    /// The overhead at each length, %.
    fn overheads<'a>(&'a self, view: &'a View<'_>) -> impl Iterator<Item = (f64, Option<Estimate>)> + 'a {
        let overhead = |case: &Case| case.over_control(self.count()).less_one().times(100.0);
        self.points
            .iter()
            .map(move |(ns, case)| (ns / 1e3, view.estimate(&overhead(case)).map(drawable)))
    }

    /// What a switch costs at the shortest length, ns.
    fn switch(&self, view: &View<'_>) -> Option<Estimate> {
        let (_, case) = self.points.first()?;
        let cost = view.estimate(&case.per_switch(ELAPSED, self.count()))?;
        (cost.value > 0.0).then_some(cost)
    }

    /// The work between two switches from which on they cost less than `lost` of the time, ns.
    fn enough(&self, view: &View<'_>, lost: f64) -> Option<Statistic> {
        // The model is a straight line between powers of ten, on which the crossing is sought.
        let below = |case: &Case| {
            Statistic::function([case.over_control(self.count())], move |ratio| {
                (ratio[0] - 1.0).max(LEAST_OVERHEAD) / lost
            })
        };
        // Between lengths that were measured: at the shortest they cost more, at the longest less.
        let [shortest, longest] =
            [self.points.first()?, self.points.last()?].map(|(_, case)| view.value(&below(case)));
        (shortest? >= 1.0 && longest? < 1.0).then_some(())?;
        let points = self.points.iter().map(|(ns, case)| (*ns, below(case)));
        Some(Statistic::crossing(points, Between::Interpolated))
    }
}

/// The least overhead that is told from nothing.
const LEAST_OVERHEAD: f64 = 0.001;

/// For an axis of powers of ten, on which nothing is 0.
fn drawable(estimate: Estimate) -> Estimate {
    let least = LEAST_OVERHEAD * 100.0;
    let ci95 = estimate.ci95.map(|ends| ends.map(|end| end.max(least)));
    Estimate { ci95, ..estimate }
}

fn line(view: &View<'_>, count: u64, cpus: u64) -> Line {
    let group = ONE.cpus(cpus).count(count);
    let point = |slice: Slice| {
        slice.steps()?;
        let case = group.slice_us(slice);
        view.value(&case.over_control(count))?;
        Some((view.value(&case.of(SLICE, count))?, case))
    };
    let points = slices(view).into_iter().filter_map(point).collect();
    Line { group, points }
}

/// The lines with several points: of the counts of profiles, where there are such, else of any.
fn lines(view: &View<'_>) -> Vec<Line> {
    let cases = view
        .planned(Params::new())
        .filter_map(|params| Case::read(params).ok());
    let measured: BTreeSet<(u64, u64)> = cases.map(|case| (case.cpus, case.count)).collect();
    let lines = measured.into_iter().map(|(cpus, count)| line(view, count, cpus));
    let mut lines: Vec<Line> = lines
        .filter(|line| line.count() > line.group.cpus && line.points.len() > 1)
        .collect();
    let known = |line: &Line| COUNTS.contains(&line.count());
    if lines.iter().any(known) {
        lines.retain(known);
    }
    lines
}

/// The line of which the figure to take home is.
fn to_take_home(view: &View<'_>) -> Option<Line> {
    let mut lines: Vec<Line> = lines(view)
        .into_iter()
        .filter(|line| line.group.cpus == 1)
        .collect();
    let middle = lines.iter().position(|line| line.count() == MIDDLE).unwrap_or(0);
    (!lines.is_empty()).then(|| lines.swap_remove(middle))
}

/// From what amount of work on switches cost less than a tenth and a hundredth.
pub(super) fn answer(view: &View<'_>) -> Option<String> {
    let line = to_take_home(view)?;
    let from = |lost| Some(view.estimate(&line.enough(view, lost)?)?.plain("ns"));
    let hundredth = from(0.01).map_or_else(String::new, |work| format!(", and less than 1 % from {work} on"));
    Some(format!(
        "Switching costs {} threads on one CPU less than 10 % from {} of work between two switches on{hundredth}.",
        line.count(),
        from(0.1)?
    ))
}

pub(super) fn costs(view: &View<'_>) -> Vec<Cost> {
    let Some(line) = to_take_home(view) else {
        return Vec::new();
    };
    let how = format!("{} yielding, on one CPU", line.count());
    let of = |lost: f64| {
        let what = format!("work between two switches for less than {} % lost", lost * 100.0);
        let cost = view.cost((&what, "thread"), &how, &line.enough(view, lost)?, "ns")?;
        Some((what, cost))
    };
    let tenth =
        of(0.1).map(|(_, cost)| cost.named("work between two switches until they cost less than 10 %"));
    tenth.into_iter().chain(of(0.01).map(|(_, cost)| cost)).collect()
}

/// The same beside the model.
pub(super) fn facts(view: &View<'_>) -> Option<Finding> {
    let line = to_take_home(view)?;
    let work = view.estimate(&line.enough(view, 0.1)?)?;
    let switch = line.switch(view)?;
    let says = format!(
        "Switching costs {} threads on one CPU less than 10 % from {} of work between two switches on; by the cost of a \
         switch alone, {}, it would be {}.",
        line.count(),
        work.show("ns"),
        switch.plain("ns"),
        switch.times(10.0).plain("ns"),
    );
    Some(work.fact(says, "ns"))
}

/// Overhead against the work between two switches, with the model's line.
pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let lines = lines(view);
    let mut chart = Chart::new(
        view,
        "work-between-switches",
        "What yielding costs, by the work between two switches",
    )
    .note(
        "Over the same threads with the same work that never give up the CPU. The model is the cost of a switch, \
         measured at the shortest work, over the work between two. Less than 0.1 % is not drawn.",
    )
    .x(Scale::Log, "work between two switches, µs")
    .y(Scale::Log, "overhead, %");
    for line in &lines {
        let name = match line.group.cpus {
            1 => format!("{} threads, one CPU", line.count()),
            cpus => format!("{} threads, {cpus} CPUs", line.count()),
        };
        let drawn = |(_, overhead): &(f64, Option<Estimate>)| {
            overhead.is_some_and(|overhead| overhead.value >= 100.0 * LEAST_OVERHEAD)
        };
        chart = chart.estimates(name, Origin::Measured, line.overheads(view).filter(drawn));
    }
    for line in lines.iter().filter(|line| line.group.cpus == 1) {
        let Some(switch) = line.switch(view) else { continue };
        let model = line
            .points
            .iter()
            .map(|(ns, _)| (ns / 1e3, Some(switch.value / ns * 100.0)));
        chart = chart.figures(
            format!("model, {} threads, one CPU", line.count()),
            Origin::Ideal,
            model,
        );
    }
    chart.drawn()
}
