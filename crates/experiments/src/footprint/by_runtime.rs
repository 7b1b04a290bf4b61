//! What a unit costs by runtime, in one picture: making and ending one, handing on a token, and its memory while idle,
//! each over the same of a thread in C.
//!
//! It stands in `footprint`, the last of the three experiments that it is read off. Where a run has not all of them it
//! shows what there is.

use threadgauge_lab::prelude::*;
use threadgauge_results::{BY_RUNTIME, Figure};

use super::guests::{Guests, memory};
use crate::{create, ring, runtimes};

/// The chart; none where no guest was measured. `in_c` is the memory of a thread in C and of a process.
pub fn chart(view: &View<'_>, [thread, process]: [Statistic; 2]) -> Option<Figure> {
    let cases = runtimes::cases::<Guests>(view);
    if cases.is_empty() {
        return None;
    }
    let made = |of: Statistic| {
        let of = of.in_experiment(create::EXPERIMENT.id);
        of.over(create::thread_on(1).in_experiment(create::EXPERIMENT.id))
    };
    let handed = |of: Statistic| {
        let of = of.in_experiment(ring::EXPERIMENT.id);
        of.over(ring::thread_hop().in_experiment(ring::EXPERIMENT.id))
    };
    let kept = |of: Statistic| of.over(thread.clone());
    let guests = |of: &dyn Fn(&Guests) -> Statistic| -> Vec<(String, Statistic)> {
        let points = cases
            .iter()
            .map(|case| (runtimes::label(case.runtime, case.unit), of(case)));
        points.collect()
    };
    let line = |of_process: Statistic, of_guest: &dyn Fn(&Guests) -> Statistic| {
        let process = ("process in C".to_owned(), of_process);
        std::iter::once(process)
            .chain(guests(of_guest))
            .collect::<Vec<_>>()
    };
    let made = line(made(create::process_on_one()), &|case| {
        made(create::guests::time(created(case)))
    });
    let handed = line(handed(ring::process_hop()), &|case| {
        handed(ring::guests::hop(handing(case)))
    });
    let kept = line(kept(process), &|case| kept(memory(*case)));
    Chart::new(view, BY_RUNTIME, "What a unit costs by runtime")
        .x(Scale::Category, "unit")
        .y(Scale::Log, "times a thread in C")
        .note(
            "A thread in C (pthread) is 1. On one CPU and warm; what a runtime takes to start, and holds by itself, is in \
             none of these. Handing on is a whole hop of a token in a ring of two, by the runtime's own means.",
        )
        .line("make and end", made)
        .line("hand on a token", handed)
        .line("memory while idle", kept)
        .drawn()
}

/// The same unit, made and ended on one CPU, however often.
pub fn created(case: &Guests) -> create::guests::Guests {
    create::guests::Guests {
        runtime: case.runtime,
        unit: case.unit,
        count: 1,
        cpus: 1,
    }
}

/// The same unit in a ring of two, on one CPU.
pub fn handing(case: &Guests) -> ring::guests::Guests {
    ring::guests::Guests {
        runtime: case.runtime,
        unit: case.unit,
        ring: 2,
        cpus: 1,
    }
}
