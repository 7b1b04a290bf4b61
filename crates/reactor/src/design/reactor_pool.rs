//! Pools of event loops that read and that write: the second optimisation of JAWS.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use crate::design::{About, AtOnce, Memory, any_settings, made_of::count};
use crate::error::Error;
use crate::options::Options;
use crate::protocol::Protocol;
use crate::reactor::{Acceptors, Kernel, ReactorManager, loops};
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "reactor-pool",
    summary: "r threads read and w threads write, the CPUs divided 1:3 unless told otherwise",
    source: "JAWS, second optimisation: a pool of reactors in the read:write ratio",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[
        Setting::Readers,
        Setting::Writers,
        Setting::Placement,
        Setting::Sends,
    ],
    made_of,
    check: any_settings,
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let (readers, writers) = loops(&serving.options);
    let placement = serving.options.placement.unwrap_or_default();
    let manager = ReactorManager::split(readers, writers, placement);
    loops::serve(serving, manager, Acceptors::First, Kernel::Epoll)
}

/// So many readers and writers.
fn made_of(options: &Options) -> Option<String> {
    let (readers, writers) = loops(options);
    Some(format!(
        "{} and {}",
        count(readers.get(), "reader"),
        count(writers.get(), "writer")
    ))
}

/// How many read and how many write.
fn loops(options: &Options) -> (NonZeroUsize, NonZeroUsize) {
    numbers(options, available_parallelism().unwrap_or(NonZeroUsize::MIN))
}

/// What is given, else the rest of the CPUs, else the ratio that JAWS had.
fn numbers(options: &Options, cpus: NonZeroUsize) -> (NonZeroUsize, NonZeroUsize) {
    let readers = options.readers.and_then(NonZeroUsize::new);
    let writers = options.writers.and_then(NonZeroUsize::new);
    let rest = |taken: NonZeroUsize| {
        NonZeroUsize::new(cpus.get().saturating_sub(taken.get())).unwrap_or(NonZeroUsize::MIN)
    };
    match (readers, writers) {
        (Some(readers), Some(writers)) => (readers, writers),
        (Some(readers), None) => (readers, rest(readers)),
        (None, Some(writers)) => (rest(writers), writers),
        (None, None) => ReactorManager::numbers(1, 3, cpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_made_of_is_said() {
        let made_of = |readers, writers| {
            made_of(&Options {
                readers: Some(readers),
                writers: Some(writers),
                ..Options::default()
            })
        };
        assert_eq!(made_of(1, 1).as_deref(), Some("1 reader and 1 writer"));
        assert_eq!(made_of(2, 5).as_deref(), Some("2 readers and 5 writers"));
    }

    #[test]
    fn what_is_not_given_is_the_rest() {
        let cpus = NonZeroUsize::new(4).expect("not zero");
        for (readers, writers, expected) in [
            (None, None, (1, 3)),
            (Some(2), None, (2, 2)),
            (None, Some(1), (3, 1)),
            (Some(9), None, (9, 1)),
            (Some(2), Some(5), (2, 5)),
        ] {
            let options = Options {
                readers,
                writers,
                ..Options::default()
            };
            let (readers, writers) = numbers(&options, cpus);
            assert_eq!((readers.get(), writers.get()), expected);
        }
    }
}
