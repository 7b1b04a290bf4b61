//! What stands beside the cells that claims are about: one message at a time, groups of four, the source's network; and
//! how many messages saturate a server.

use threadgauge_lab::prelude::*;
use threadgauge_results::{Finding, Table};

use super::case::{CLAIMED, CPU, Case, DELAY_P99, FOUR, TIME, WINDOW};
use super::statistics::{THOUSAND, gain, mbits, rate};

/// What a run has of them.
pub(super) struct Variations<'v> {
    view: &'v View<'v>,
    /// One reactor, as claims are judged.
    base: Case,
}

/// The source's server, one reactor, and the source's pool.
fn compared(case: Case) -> [Case; 3] {
    [case.original(), case, case.sized_pool()]
}

impl<'v> Variations<'v> {
    /// Of the run that has `base`.
    pub(super) fn of(view: &'v View<'v>, base: Case) -> Self {
        Self { view, base }
    }

    /// How many messages saturate a server, and what one at a time leaves of it.
    pub(super) fn facts(&self, placed: &str) -> Vec<Option<Finding>> {
        let fact = |of: Statistic, unit: &str, says: &str| {
            let figure = self.view.estimate(&of)?;
            let says = says.replace("{}", &figure.show(unit));
            Some(figure.fact(says, unit))
        };
        let of = |case: Case| {
            let on = format!("{} ({placed}, {CLAIMED} connections)", case.label());
            let window = format!("{{}} messages of each client saturate {on}.");
            let one = format!(
                "Where each client waits until all have its message, {on} forwards {{}} times as much as when saturated."
            );
            [
                fact(case.of(WINDOW), "count", &window),
                fact(gain(case.one_at_a_time(), case), "ratio", &one),
            ]
        };
        compared(self.base).map(of).concat()
    }

    /// None where nothing of them was measured.
    pub(super) fn table(&self, placed: &str) -> Option<Table> {
        let base = self.base;
        let conditions = [
            ("the base: groups of ten that send all the time", base),
            ("one message at a time", base.one_at_a_time()),
            ("groups of four: a read, three writes", base.group(FOUR)),
            ("a link of 100 Mbit/s", base.on_its_network()),
        ];
        let measured = |case: &Case| self.view.measured(&case.of(TIME));
        let rows: Vec<Vec<String>> = conditions
            .into_iter()
            .flat_map(|(says, case)| compared(case).map(|case| (says, case)))
            .filter(|(_, case)| measured(case))
            .map(|(says, case)| self.row(says, case))
            .collect();
        let is_varied = conditions[1..].iter().any(|(_, case)| measured(case));
        is_varied.then(|| {
            table(
                "variations",
                format!("Other conditions: {placed}, {CLAIMED} connections"),
                "The source had a network of 100 Mbit/s for each machine. Over it go what clients say and what the server forwards.",
                [
                    "condition",
                    "design",
                    "thousand deliveries a second",
                    "over the source's server",
                    "delay, 99 %",
                    "server's CPU time a delivery",
                    "network, Mbit/s",
                ],
                rows,
            )
        })
    }

    fn row(&self, says: &str, case: Case) -> Vec<String> {
        let shown = |of: Statistic, unit: &str| self.view.shown(&of, unit);
        vec![
            says.to_owned(),
            case.label(),
            shown(rate(case).times(THOUSAND), ""),
            shown(gain(case, case.original()), "ratio"),
            shown(case.of(DELAY_P99), "ns"),
            shown(case.of(CPU), "ns"),
            shown(mbits(case), "count"),
        ]
    }
}
