//! Computations of the user's own.

use serde::{Deserialize, Serialize};

/// A command that is run once for each item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Each {
    /// The program and its arguments; [`ITEM`] in them stands for the item.
    pub command: Vec<String>,
    /// In the order of the list.
    pub items: Vec<String>,
    /// What each takes by itself, in the same order; empty until that is known.
    pub alone: Vec<Alone>,
}

/// What stands for the item in a command.
pub const ITEM: &str = "{}";

/// What a command took for one item, with nothing beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {
    /// From its start to its end, ns.
    pub wall_ns: u64,
    /// CPU time of it and of what it waited for, ns.
    pub cpu_ns: u64,
}

impl Each {
    /// The program and its arguments for one item.
    #[must_use]
    pub fn of(&self, item: &str) -> Vec<String> {
        self.command.iter().map(|word| word.replace(ITEM, item)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_item_takes_its_place_in_every_word() {
        let each = Each {
            command: ["convert", "{}", "small/{}.png", "-v"]
                .map(str::to_owned)
                .to_vec(),
            items: Vec::new(),
            alone: Vec::new(),
        };
        assert_eq!(each.of("a b"), ["convert", "a b", "small/a b.png", "-v"]);
    }
}
