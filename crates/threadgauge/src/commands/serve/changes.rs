//! What differs between settings and those of a file that is read again.

use std::fmt::{self, Display};

/// Which settings are otherwise in a file that was read again, by their names.
#[derive(Debug, Default)]
pub struct Changes {
    /// They hold from now on.
    pub now: Vec<&'static str>,
    /// They stay as they were.
    pub later: Vec<&'static str>,
}

impl Changes {
    /// Those that are otherwise, of some that cannot change.
    pub fn add_fixed(&mut self, settings: &[(&'static str, bool)]) {
        self.later.extend(otherwise(settings));
    }

    /// Those that are otherwise, of some that can.
    pub fn add_changed(&mut self, settings: &[(&'static str, bool)]) {
        self.now.extend(otherwise(settings));
    }

    /// Whether nothing is otherwise.
    pub fn is_empty(&self) -> bool {
        self.now.is_empty() && self.later.is_empty()
    }
}

fn otherwise(settings: &[(&'static str, bool)]) -> impl Iterator<Item = &'static str> {
    settings
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(name, _)| *name)
}

impl Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [("changed", &self.now), ("stays until a restart", &self.later)];
        let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
        let lists: Vec<String> = lists
            .map(|(what, names)| format!("{what}: {}", names.join(", ")))
            .collect();
        f.write_str(&lists.join("; "))
    }
}
