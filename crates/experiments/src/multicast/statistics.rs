//! The figures of `multicast` as statistics of its cells.

use threadgauge_lab::prelude::*;

use super::case::{CPU, Case, NETWORK, TIME};

const NS: f64 = 1e9;
pub(super) const THOUSAND: f64 = 1e-3;
pub(super) const MS: f64 = 1e-6;

/// Deliveries a second.
pub(super) fn rate(case: Case) -> Statistic {
    Statistic::function([case.of(TIME)], |v| NS / v[0])
}

/// Deliveries for a second of the server's CPU time.
pub(super) fn per_cpu(case: Case) -> Statistic {
    Statistic::function([case.of(CPU)], |v| NS / v[0])
}

/// How many times as many deliveries a second `case` makes as `base`: by time of one, so the other way round.
pub(super) fn gain(case: Case, base: Case) -> Statistic {
    base.of(TIME).over(case.of(TIME))
}

/// Mbit a second over the network.
pub(super) fn mbits(case: Case) -> Statistic {
    Statistic::function([case.of(NETWORK), case.of(TIME)], |v| 8e3 * v[0] / v[1])
}
