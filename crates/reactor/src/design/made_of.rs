//! How many units a design serves with, in words, the defaults included.

use std::ops::RangeInclusive;

use crate::options::Options;
use crate::pool;
use crate::reactor::thread_count::ThreadCount;

/// Of a design that leaves no choice.
pub(super) fn no_choice(_: &Options) -> Option<String> {
    None
}

/// Of a pool of processes.
pub(super) fn processes(options: &Options) -> Option<String> {
    Some(range(pool::workers(options), "process"))
}

/// Of a pool of threads.
pub(super) fn threads(options: &Options) -> Option<String> {
    Some(range(pool::workers(options), "thread"))
}

/// Threads beside or around an event loop, as it calls them.
pub(super) fn some(options: &Options, what: &str) -> String {
    range(ThreadCount::bounds(options.workers.clone()), what)
}

/// So many of a kind.
pub(super) fn count(number: usize, what: &str) -> String {
    let ending = match (number, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {what}{ending}")
}

fn range(units: RangeInclusive<usize>, what: &str) -> String {
    let (least, most) = units.into_inner();
    let many = count(most, what);
    if least == most {
        many
    } else {
        format!("{least} to {many}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_words() {
        let of = |least, most| Options {
            workers: Some(least..=most),
            ..Options::default()
        };
        assert_eq!(processes(&of(1, 1)).as_deref(), Some("1 process"));
        assert_eq!(processes(&of(2, 8)).as_deref(), Some("2 to 8 processes"));
        assert_eq!(threads(&of(3, 3)).as_deref(), Some("3 threads"));
        assert_eq!(some(&of(1, 4), "worker"), "1 to 4 workers");
    }
}
