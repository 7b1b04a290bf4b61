//! The source's six environments, from one run: one, two and four CPUs for the server, before its optimisations (B) and
//! with the pool (O). A table, and its three charts.

use threadgauge_lab::prelude::*;
use threadgauge_results::Table;

use super::case::{
    CLAIMED, CLIENTS, CPU, Case, DELAY, DELAY_P99, LOADS, MEMORY, ORIGINAL, READING, TIME, WINDOW, WRITING,
    environments,
};
use super::statistics::{MS, THOUSAND, mbits, rate};

/// What a run has of them.
pub(super) struct Environments<'v> {
    view: &'v View<'v>,
    cases: Vec<Case>,
}

/// As the source calls it.
fn name(case: Case) -> String {
    let version = match case.design == ORIGINAL.design {
        true => 'B',
        false => 'O',
    };
    format!("CPU-{}-JAWS-{version}", case.server_cpus)
}

impl<'v> Environments<'v> {
    /// Of the run that has `base` on all its CPUs.
    pub(super) fn of(view: &'v View<'v>, base: Case) -> Self {
        let planned = |case: &Case| view.planned(case.any(&["span_ms"])).next().is_some();
        let cases = environments(base);
        let cases = match cases.iter().all(planned) {
            true => cases,
            false => Vec::new(),
        };
        Self { view, cases }
    }

    /// Throughput, delay and the white box; none where they were not measured.
    pub(super) fn charts(&self) -> Vec<Chart<'v>> {
        if self.cases.is_empty() {
            return Vec::new();
        }
        vec![
            self.by_load(
                "environment-throughput",
                "Throughput in the source's six environments (its figure 7)",
                "thousand deliveries a second",
                |case| rate(case).times(THOUSAND),
            ),
            self.by_load(
                "environment-delay",
                "Delay in the source's six environments (its figure 8)",
                "until the last of the others has it, 99th percentile, ms",
                |case| case.of(DELAY_P99).times(MS),
            ),
            self.white_box(),
        ]
    }

    fn by_load(&self, id: &str, title: &str, axis: &str, of: impl Fn(Case) -> Statistic) -> Chart<'v> {
        let chart = Chart::new(self.view, id, title)
            .note("The clients have the same CPUs in all six. The source printed its curves as pictures without numbers.")
            .x(Scale::Linear, "connections")
            .y(Scale::Log, axis)
            .at_least(2);
        self.cases.iter().fold(chart, |chart, &case| {
            let points = LOADS.map(|load| (load, of(case.connections(load))));
            chart.line(name(case), points)
        })
    }

    fn white_box(&self) -> Chart<'v> {
        let title = format!("Who used the CPUs in the source's six environments, {CLAIMED} connections");
        let chart = Chart::new(self.view, "environment-white-box", title)
            .note("The source announces such a chart, and its text has none of its figures.")
            .x(Scale::Category, "environment")
            .y(Scale::Linear, "CPUs used");
        let lines = [
            ("server: reads, or does both", READING),
            ("server: only writes", WRITING),
            ("clients", CLIENTS),
        ];
        lines.into_iter().fold(chart, |chart, (line, metric)| {
            let cases = self.cases.iter();
            chart.line(line, cases.map(|case| (name(*case), case.of(metric))))
        })
    }

    /// Throughput, delay and the white box of each environment and load; none where nothing was measured.
    pub(super) fn table(&self) -> Option<Table> {
        let all = LOADS.into_iter().flat_map(|load| {
            let cases = self.cases.iter();
            cases.map(move |case| case.connections(load))
        });
        let rows: Vec<Vec<String>> = all
            .filter(|case| self.view.measured(&case.of(TIME)))
            .map(|case| self.row(case))
            .collect();
        (!rows.is_empty()).then(|| {
            table(
                "environments",
                "The source's six environments",
                "B is the server before its optimisations (one-handler-reactor), O the pool of reactors, as many as the server has \
                 CPUs and one of each at least. The clients have the same CPUs in all.",
                [
                    "environment",
                    "design",
                    "connections",
                    "messages on their way, each client",
                    "thousand deliveries a second",
                    "delay, median",
                    "delay, 99 %",
                    "server's CPUs: reading",
                    "writing",
                    "clients' CPUs",
                    "server's CPU time a delivery",
                    "memory a connection",
                    "network, Mbit/s",
                ],
                rows,
            )
        })
    }

    fn row(&self, case: Case) -> Vec<String> {
        let plain = |of: Statistic, unit: &str| {
            let estimate = self.view.estimate(&of);
            estimate.map_or_else(String::new, |estimate| estimate.plain(unit))
        };
        vec![
            name(case),
            case.label(),
            case.connections.to_string(),
            plain(case.of(WINDOW), "count"),
            self.view.shown(&rate(case).times(THOUSAND), ""),
            plain(case.of(DELAY), "ns"),
            plain(case.of(DELAY_P99), "ns"),
            plain(case.of(READING), ""),
            plain(case.of(WRITING), ""),
            plain(case.of(CLIENTS), ""),
            self.view.shown(&case.of(CPU), "ns"),
            plain(case.of(MEMORY), "B"),
            plain(mbits(case), "count"),
        ]
    }
}
