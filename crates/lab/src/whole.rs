//! A run seen whole: what a table over several experiments is read from.
//!
//! Owns nothing but the way from an experiment's name to its [`View`]. An experiment reads its own samples by itself.

use threadgauge_machine::Fingerprint;
use threadgauge_results::Table;

use crate::site::Site;
use crate::view::View;

/// Reads a table over several experiments off a run; none where the run has no figure for it.
pub type RunTable = fn(&Whole<'_>) -> Option<Table>;

/// All experiments of a run, and where it was made.
#[derive(Debug)]
pub struct Whole<'a> {
    /// What each of the run's experiments sees of it.
    pub views: Vec<View<'a>>,
    /// What one sees that the run has not.
    pub other: View<'a>,
    /// The CPUs and the profile of the run.
    pub site: &'a Site,
    /// The machine; unknown where another version wrote it down otherwise.
    pub machine: &'a Fingerprint,
}

impl<'a> Whole<'a> {
    /// What an experiment sees of the run; one that is no part of it sees no cases.
    #[must_use]
    pub fn view(&self, experiment: &'a str) -> View<'a> {
        let own = self.views.iter().find(|view| view.experiment == experiment);
        own.copied().unwrap_or(View {
            experiment,
            ..self.other
        })
    }
}
