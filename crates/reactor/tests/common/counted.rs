//! What a server has counted, printed by its process and read by the test.

use std::collections::HashMap;

use threadgauge_reactor::{CloseReason, Totals};

/// Prints each counter, how many connections ended for each reason, and for any.
pub fn report(totals: &Totals) {
    for (name, count) in totals.each() {
        say(name, count);
    }
    for reason in CloseReason::ALL {
        say(reason.name(), totals.closed(reason));
    }
    say("closed", totals.all_closed());
}

/// Prints one more count.
pub fn say(name: &str, count: u64) {
    println!("{name}={count}");
}

/// What a server has counted.
#[derive(Debug)]
pub struct Counted(HashMap<String, u64>);

impl Counted {
    /// From what it printed.
    pub fn read(printed: &str) -> Self {
        let counts = printed
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, count)| (name.to_owned(), count.parse().expect("a count")));
        Self(counts.collect())
    }

    /// The counter of this name, or how many connections ended for the reason of this name.
    pub fn of(&self, name: &str) -> u64 {
        let count = self.0.get(name);
        *count.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}
