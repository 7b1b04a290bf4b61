//! What is said where the cells that would answer an experiment's question have no figures.
//!
//! Who sets values of their own, or chooses cells, wants to read about those. So of a selection the least and the most
//! are told, with a chart; of a run with all its profile's cells, that they have no figures.

use std::collections::{BTreeMap, BTreeSet};

use threadgauge_results::{Figure, Params, Scale as AxisScale, Value, units};

use crate::chart::Chart;
use crate::statistic::{Estimate, Metric, Statistic};
use crate::view::View;

const NO_FIGURES: &str = "The cells that would answer this have no figures in this run.";
const THIS_MACHINE: &str = "this machine";
/// More would not be told apart.
const MOST_LINES: usize = 8;
const MOST_NAMED: usize = 16;
/// From the largest over the smallest on, an axis is logarithmic.
const LOG_FROM: f64 = 20.0;

/// The sentence, and the chart where there is one to draw.
pub(super) fn of(view: &View<'_>, metric: Option<Metric>) -> (String, Option<Figure>) {
    let profile = view
        .planned
        .iter()
        .filter(|(_, profile, _)| *profile == view.profile);
    let mut planned = profile.filter(|(id, ..)| *id == view.experiment);
    let is_all = planned.all(|(_, _, params)| view.own().iter().any(|case| case.params == *params));
    let measured = metric
        .filter(|_| !is_all)
        .map(|metric| Measured::of(view, metric));
    let says = measured.as_ref().and_then(Measured::says);
    (
        says.unwrap_or_else(|| NO_FIGURES.to_owned()),
        measured.and_then(|measured| measured.chart()),
    )
}

/// The cases with figures, and in which parameters they differ.
struct Measured<'v> {
    view: &'v View<'v>,
    metric: Metric,
    cases: Vec<(&'v Params, Estimate)>,
    differs: Vec<&'v str>,
}

impl<'v> Measured<'v> {
    fn of(view: &'v View<'v>, metric: Metric) -> Self {
        let own = view.own().iter().map(|case| &case.params);
        let cases: Vec<_> = own
            .filter_map(|params| Some((params, view.estimate(&metric.of(params.clone()))?)))
            .collect();
        let mut values: Vec<(&str, BTreeSet<&Value>)> = Vec::new();
        for (name, value) in cases.iter().flat_map(|(params, _)| params.iter()) {
            match values.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => drop(values.insert(value)),
                None => values.push((name, BTreeSet::from([value]))),
            }
        }
        values.retain(|(_, values)| values.len() > 1);
        Self {
            view,
            metric,
            cases,
            differs: values.into_iter().map(|(name, _)| name).collect(),
        }
    }

    /// Of the largest figure and the smallest, the cases; none without figures.
    fn ends(&self) -> Option<[&(&'v Params, Estimate); 2]> {
        let by_value = |a: &&(_, Estimate), b: &&(_, Estimate)| a.1.value.total_cmp(&b.1.value);
        let least = self.cases.iter().min_by(by_value)?;
        Some([least, self.cases.iter().max_by(by_value)?])
    }

    fn says(&self) -> Option<String> {
        let what = self.what();
        let [(least, figure), (most, _)] = self.ends()?;
        let count = self.cases.len();
        if count > MOST_NAMED {
            return Some(format!(
                "What would answer this is not among the {} of this run, which are in the table of cases.",
                units::counted(count, "case")
            ));
        }
        let figure = figure.show(self.metric.unit);
        if self.differs.is_empty() {
            return Some(format!(
                "In the one case of this run, which does not answer this, {what} is {figure}."
            ));
        }
        let ratio = self
            .metric
            .of((*most).clone())
            .over(self.metric.of((*least).clone()));
        let times = self.view.shown(&ratio, "ratio");
        Some(format!(
            "Of the {} of this run, {} has the least {what}, {figure}, and {} the most, {times} times as much. What \
             would answer the question is not among them.",
            units::counted(count, "case"),
            self.named(least, None),
            self.named(most, None),
        ))
    }

    /// The metric in words.
    fn what(&self) -> String {
        match self.metric.name {
            "ns" => "time".to_owned(),
            name => units::metric_name(name),
        }
    }

    /// What sets a case apart from the others, but for one parameter.
    fn named(&self, params: &Params, but: Option<&str>) -> String {
        let names = self.differs.iter().filter(|name| Some(**name) != but);
        let parts = names.filter_map(|name| Some(format!("{name}={}", params.get(name)?)));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The number that most cases differ in, and its values.
    fn over(&self) -> Option<(&'v str, BTreeSet<u64>)> {
        let numbers = self.differs.iter().rev().filter_map(|name| {
            let all: Option<BTreeSet<u64>> = self.cases.iter().map(|(params, _)| params.int(name)).collect();
            Some((*name, all?))
        });
        numbers.max_by_key(|(_, values)| values.len())
    }

    /// Over the number that most cases differ in, a line for each of what else differs; without one, a dot a case.
    fn chart(&self) -> Option<Figure> {
        let [(_, least), (_, most)] = self.ends()?;
        let unit = units::Scale::of_column(
            self.metric.unit,
            self.cases.iter().map(|(_, figure)| figure.value),
        );
        let what = self.what();
        let statistic = |params: &Params| self.metric.of(params.clone()).times(1.0 / unit.per);
        let (by, places) = self.over().unwrap_or(("case", BTreeSet::new()));
        let title = format!("The cases of this run: {what} by {by}");
        let chart = Chart::new(self.view, "measured", title).y(
            scale(least.value, most.value),
            [&what, unit.name].join(if unit.name.is_empty() { "" } else { ", " }),
        );
        let Some((first, last)) = places.first().zip(places.last()) else {
            let dots = self
                .cases
                .iter()
                .map(|(params, _)| (self.named(params, None), statistic(params)));
            let can_be_named = (2..=MOST_NAMED).contains(&self.cases.len());
            let chart = chart.x(AxisScale::Category, by).line(THIS_MACHINE, dots);
            return chart.drawn().filter(|_| can_be_named);
        };
        let mut lines: BTreeMap<String, BTreeMap<u64, Statistic>> = BTreeMap::new();
        for (params, _) in &self.cases {
            let line = lines.entry(self.named(params, Some(by))).or_default();
            line.insert(params.int(by)?, statistic(params));
        }
        let can_be_told_apart = lines.len() <= MOST_LINES;
        let chart = chart.x(scale(*first as f64, *last as f64), by);
        let chart = lines.into_iter().fold(chart, |chart, (name, points)| {
            let name = if name.is_empty() {
                THIS_MACHINE.to_owned()
            } else {
                name
            };
            chart.line(name, points)
        });
        chart.drawn().filter(|_| can_be_told_apart)
    }
}

fn scale(least: f64, most: f64) -> AxisScale {
    match least > 0.0 && most / least >= LOG_FROM {
        true => AxisScale::Log,
        false => AxisScale::Linear,
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_results::Origin;

    use super::*;
    use crate::site::Profile;
    use crate::statistic::metric;
    use crate::testing;
    use crate::view::{Planned, ViewCase};

    const TIME: Metric = metric("ns_per_line", "ns");
    const NS: Metric = metric("ns", "ns");

    fn case(unit: &str, lines: u64) -> Params {
        Params::new()
            .with("unit", unit)
            .with("lines", lines)
            .with("cpus", 1_u64)
    }

    /// These cases of a run whose profile has another one.
    fn selection_of(cases: Vec<ViewCase>) -> View<'static> {
        let planned: [Planned; 1] = [("print", Profile::Quick, case("thread", 5))];
        View {
            planned: Box::leak(Box::new(planned)),
            ..testing::view("print", Profile::Quick, cases)
        }
    }

    /// Each with its figure of three rounds.
    fn selection(cases: &[(Params, f64)]) -> View<'static> {
        let measured = |(params, ns): &(Params, f64)| testing::case(params.clone(), [(TIME, vec![*ns; 3])]);
        selection_of(cases.iter().map(measured).collect())
    }

    fn four() -> [(Params, f64); 4] {
        [
            (case("process", 20), 6e6),
            (case("process", 200), 60e6),
            (case("thread", 20), 2e6),
            (case("thread", 200), 80e6),
        ]
    }

    #[test]
    fn of_a_selection_the_least_and_the_most_are_told_with_a_line_for_each_kind() {
        let (says, figure) = of(&selection(&four()), Some(TIME));
        assert_eq!(
            says,
            "Of the 4 cases of this run, unit=thread, lines=20 has the least time per line, 2.00 ms, and unit=thread, lines=200 \
             the most, 40.0 times as much. What would answer the question is not among them."
        );
        let figure = figure.unwrap();
        assert_eq!(figure.title, "The cases of this run: time per line by lines");
        assert_eq!(
            (figure.x.label.as_str(), figure.y.label.as_str()),
            ("lines", "time per line, ms")
        );
        assert_eq!(
            (figure.x.scale, figure.y.scale),
            (AxisScale::Linear, AxisScale::Log)
        );
        let line = |name: &str| {
            let series = figure.series.iter().find(|line| line.name == name).unwrap();
            assert_eq!(series.origin, Origin::Measured);
            series
                .points
                .iter()
                .map(|point| (point.x, point.y))
                .collect::<Vec<_>>()
        };
        assert_eq!(line("unit=process"), [(20.0, 6.0), (200.0, 60.0)]);
        assert_eq!(line("unit=thread"), [(20.0, 2.0), (200.0, 80.0)]);
    }

    #[test]
    fn without_a_number_that_differs_each_case_is_a_dot() {
        let (_, figure) = of(
            &selection(&[(case("process", 20), 3.0), (case("thread", 20), 2.0)]),
            Some(TIME),
        );
        let figure = figure.unwrap();
        assert_eq!((figure.x.scale, figure.series.len()), (AxisScale::Category, 1));
        let points = figure.series[0].points.iter();
        let dots: Vec<_> = points
            .map(|point| (point.label.as_deref().unwrap(), point.y))
            .collect();
        assert_eq!(dots, [("unit=process", 3.0), ("unit=thread", 2.0)]);
    }

    #[test]
    fn one_case_is_told_by_itself() {
        let (says, figure) = of(&selection(&[(case("thread", 20), 2e6)]), Some(TIME));
        assert_eq!(
            says,
            "In the one case of this run, which does not answer this, time per line is 2.00 ms."
        );
        let plain = selection_of(vec![testing::case(case("thread", 20), [(NS, vec![7.0])])]);
        let (says, _) = of(&plain, Some(NS));
        assert!(says.ends_with("time is 7.00 ns."), "{says}");
        assert!(figure.is_none());
    }

    #[test]
    fn of_many_cases_it_is_said_where_they_are() {
        let many: Vec<_> = (20..37)
            .map(|lines| (case("thread", lines), lines as f64))
            .collect();
        assert_eq!(
            of(&selection(&many), Some(TIME)).0,
            "What would answer this is not among the 17 cases of this run, which are in the table of cases."
        );
        assert!(of(&selection(&many[1..]), Some(TIME)).0.contains("has the least"));
    }

    #[test]
    fn more_lines_than_can_be_told_apart_are_not_drawn() {
        let kinds = |count: u64| -> Vec<(Params, f64)> {
            let units = (0..count).map(|unit| unit.to_string());
            let cases = units.flat_map(|unit| [20, 200].map(|lines| case(&unit, lines)));
            cases.map(|case| (case, 1.0)).collect()
        };
        assert!(of(&selection(&kinds(8)), Some(TIME)).1.is_some());
        assert!(of(&selection(&kinds(9)), Some(TIME)).1.is_none());
    }

    #[test]
    fn where_all_that_was_planned_ran_its_cells_have_no_figures() {
        let all = |cases: &[(Params, f64)]| of(&selection(cases), Some(TIME)).0;
        assert_eq!(
            all(&[(case("thread", 5), 1.0), (case("process", 5), 2.0)]),
            NO_FIGURES
        );
        let failed = selection_of(vec![testing::case(case("thread", 20), [])]);
        assert_eq!(of(&failed, Some(TIME)), (NO_FIGURES.to_owned(), None));
        assert_eq!(of(&selection(&four()), None), (NO_FIGURES.to_owned(), None));
    }
}
