//! The runtimes whose guests take part in a run, as they were found and built on this machine.

use serde::{Deserialize, Serialize};

use crate::Lack;

/// A runtime that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// What cases call it, e.g. `java` or `java-21`: several of a kind differ in this.
    pub name: String,
    /// Its kind in the catalogue of runtimes, e.g. `java`.
    pub kind: String,
    /// What it says of its version, e.g. `21.0.5`; empty where it is lacking.
    pub version: String,
    /// The program that was found; empty where none was.
    pub program: String,
    /// The program and the arguments that those of a case follow. They are of this session: whoever goes on with a run
    /// builds its guests again.
    pub command: Vec<String>,
    /// Why its guest cannot run, if so.
    pub lack: Option<Lack>,
}

impl Runtime {
    /// One that takes no part, and why.
    #[must_use]
    pub fn lacking(name: impl Into<String>, kind: impl Into<String>, lack: Lack) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            version: String::new(),
            program: String::new(),
            command: Vec::new(),
            lack: Some(lack),
        }
    }

    /// Whether a run that was begun with this can go on with the `other`: its samples would be of the same program.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        let of = |runtime: &Self| {
            (
                runtime.name.clone(),
                runtime.kind.clone(),
                runtime.version.clone(),
            )
        };
        of(self) == of(other) && self.lack.is_some() == other.lack.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Need;

    #[test]
    fn a_run_goes_on_with_the_same_versions_wherever_its_guests_were_built() {
        let java = Runtime {
            name: "java-21".to_owned(),
            kind: "java".to_owned(),
            version: "21.0.5".to_owned(),
            program: "/usr/bin/java".to_owned(),
            command: vec!["/tmp/one".to_owned()],
            lack: None,
        };
        let moved = Runtime {
            command: vec!["/tmp/two".to_owned()],
            ..java.clone()
        };
        let newer = Runtime {
            version: "21.0.6".to_owned(),
            ..java.clone()
        };
        let gone = Runtime::lacking("java-21", "java", Lack::new(Need::Program, "it is gone"));
        assert!(java.is_as(&moved));
        assert!(!java.is_as(&newer) && !java.is_as(&gone));
    }
}
