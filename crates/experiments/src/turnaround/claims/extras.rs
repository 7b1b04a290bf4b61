//! The claims about one background thread, long finishers and dependencies.

use threadgauge_results::{Condition, Evidence, Quote, Range};

use super::{cpu, each, ratio};
use crate::turnaround::case::{Carrier, Case, Degree, Extra};
use crate::turnaround::cells::{Measure, all_cpus};
use crate::turnaround::grid::{COUNTS, SHORT_MS};
use threadgauge_lab::view::View;

pub(super) fn background(view: &View<'_>, all: u64) -> Evidence {
    let alone = |n| Case {
        carrier: Carrier::Pool,
        degree: Degree::AtMost(1),
        ..cpu(n, SHORT_MS).on(all).concurrent
    };
    let counts = COUNTS.into_iter().filter(|&n| alone(n).measured(view));
    let cells = counts.map(|n| {
        let cells = [alone(n), cpu(n, SHORT_MS).on(all).concurrent].map(|case| case.of(Measure::Elapsed));
        (
            cpu(n, SHORT_MS).on(all).name(),
            view.by_round(&cells, |v| v[0] / v[1]),
        )
    });
    each(Quote::Largest, cells)
}

/// The counts and CPU numbers at which a case with `extra` was measured.
fn with_extra(view: &View<'_>, extra: Extra) -> Vec<Case> {
    let cpus = [Some(1), all_cpus(view)];
    let of = |n, cpus| Case {
        cpus,
        extra,
        ..cpu(n, SHORT_MS).concurrent
    };
    let all = cpus
        .into_iter()
        .flatten()
        .flat_map(|cpus| COUNTS.map(|n| of(n, cpus)));
    all.filter(|case| case.measured(view)).collect()
}

fn plain(case: Case) -> Case {
    Case {
        extra: Extra::None,
        ..case
    }
}

pub(super) fn finalizer(view: &View<'_>) -> Evidence {
    let cells = with_extra(view, Extra::Finisher).into_iter().map(|case| {
        let cells = [case, plain(case)].map(|case| case.of(Measure::Elapsed));
        let finishing_ns = (case.count * case.base_ms) as f64 * 1e6;
        (
            name(case),
            view.by_round(&cells, |v| (v[0] - v[1]) / finishing_ns),
        )
    });
    each(Quote::Smallest, cells)
}

pub(super) fn dependencies(view: &View<'_>) -> Evidence {
    let chained = with_extra(view, Extra::Chain);
    let concurrent = chained.iter().map(|&case| {
        let cells = [case, plain(case)].map(|case| case.of(Measure::Elapsed));
        (name(case), view.by_round(&cells, |v| v[0] / v[1]))
    });
    let serial = |case: Case| Case {
        cpus: 1,
        carrier: Carrier::Caller,
        degree: Degree::AtMost(1),
        ..case
    };
    let one = chained.iter().find(|case| case.cpus == 1);
    let unaffected = one.map_or_else(
        || Evidence::Missing("no chain was measured on one CPU".to_owned()),
        |&case| {
            let cells = [serial(case), serial(plain(case))].map(|case| case.of(Measure::Elapsed));
            ratio(view.by_round(&cells, |v| v[0] / v[1]))
        },
    );
    Evidence::With {
        main: Box::new(each(Quote::Smallest, concurrent)),
        also: vec![Condition {
            says: "one after the other takes the same with dependencies (2 %)".to_owned(),
            range: Range { min: 0.98, max: 1.02 },
            evidence: unaffected,
        }],
    }
}

fn name(case: Case) -> String {
    format!("count={},cpus={}", case.count, case.cpus)
}
