//! What an experiment is: a question, the cases that answer it, and how the answer is read off them.
//!
//! Owns the type that every experiment fills in. It starts no process and stores nothing: the
//! [`schedule`](crate::schedule) decides when a case runs, the [`Worker`] runs it in a process of its own.

use threadgauge_results::{Cost, Figure, Finding, KeyNumber, Method, Params, Table};

use crate::claim::Claim;
use crate::grid::Plan;
use crate::site::{Profile, Site};
use crate::statistic::{Metric, Statistic};
use crate::view::{Planned, View};
use crate::whole::RunTable;
use crate::worker::{CaseError, Worker};

/// A question about concurrency, put to this machine: what it asks, how it measures, and the functions that do.
///
/// Its texts are the one description of its method: `explain` and the report print them. A new experiment is one file
/// and one line in the catalogue; CONTRIBUTING.md shows how.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line: what it varies.
    pub id: &'static str,
    /// The question, as a reader would ask it.
    pub question: &'static str,
    /// Whether a run that names no experiment has it. The others run only by name.
    pub first_run: bool,
    /// The documents it re-tests, e.g. `["003", "004"]`; empty for a question of this project.
    pub sources: &'static [&'static str],
    /// At most three metrics whose precision decides when to stop; comparisons use the first. Lower is better.
    pub primary: &'static [Metric],
    /// What is done and timed.
    pub how: &'static str,
    /// What is run beside it to tell the effect from everything else.
    pub control: &'static str,
    /// What can mislead the reader.
    pub traps: &'static [&'static str],
    /// What the sources did, and where this differs; or that there is no source.
    pub source: &'static str,
    /// Commands that measure values of the user's own.
    pub calls: &'static [&'static str],
    /// The cases of the site's profile, with what each is expected to take. It measures nothing and starts nothing.
    pub plan: fn(&Site) -> Plan,
    /// Runs one case once. Called in a worker: a fresh, single-threaded process, pinned to the case's CPUs. Its error
    /// says why the case cannot run here, or what was wrong with its outcome.
    pub run: fn(&Params, &mut Worker) -> Result<(), CaseError>,
    /// Reads the answer off the samples. Any of them may be missing.
    pub read: fn(&View<'_>) -> Answer,
}

impl Experiment {
    /// Its method, for the results document.
    #[must_use]
    pub fn method(&self) -> Method {
        Method {
            how: self.how.to_owned(),
            control: self.control.to_owned(),
            traps: self.traps.iter().map(ToString::to_string).collect(),
            source: self.source.to_owned(),
        }
    }
}

/// The experiments there are, in the order in which they run and are reported.
#[derive(Clone, Copy)]
pub struct Catalogue {
    /// The experiments.
    pub experiments: &'static [&'static Experiment],
    /// The tables over several of them.
    pub tables: &'static [RunTable],
}

impl Catalogue {
    /// The experiment with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&'static Experiment> {
        self.iter().find(|e| e.id == id)
    }

    /// Where an experiment is reported, in whatever order a run has measured: one that is not in it at the end.
    #[must_use]
    pub(crate) fn place(&self, id: &str) -> usize {
        self.iter().position(|e| e.id == id).unwrap_or(usize::MAX)
    }

    /// Every case of every profile on the CPUs of this site and with memory for all, the shortest profile first.
    #[must_use]
    pub fn planned(&self, site: &Site) -> Vec<Planned> {
        let sites = Profile::ALL.map(|profile| Site {
            profile,
            cpus: site.cpus.clone(),
            free_memory_mib: 1 << 20,
            each: None,
            runtimes: site.runtimes.clone(),
            ..*site
        });
        let of_site = |site: &Site| -> Vec<Planned> {
            let plans = self.iter().map(|e| (e.id, (e.plan)(site).cases));
            plans
                .flat_map(|(id, cases)| cases.into_iter().map(move |c| (id, site.profile, c.params)))
                .collect()
        };
        sites.iter().flat_map(of_site).collect()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Experiment> {
        self.experiments.iter().copied()
    }
}

/// What an experiment reads off its samples.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The answer to the question, with its numbers: the first sentence is the answer in short, what follows is for
    /// those who want more. Empty where the cells that would answer it have no figures: then the analysis says what
    /// has.
    pub answer: String,
    /// What the reader should do, where the figures say so: whole sentences, told after the answer.
    pub advice: String,
    /// The one number that stands for the answer: see [`View::number`].
    pub number: Option<KeyNumber>,
    /// For each claim that `claims.csv` gives to the experiment, what decides it.
    pub claims: Vec<Claim>,
    /// What else is worth knowing, each as a finding without a claim.
    pub facts: Vec<Finding>,
    /// Pairs to compare by round on the first primary metric: `b` against `a`.
    pub comparisons: Vec<Pair>,
    /// Groups of cases to put in order, by title.
    pub rankings: Vec<(String, Vec<Params>)>,
    /// What to draw, ours and published: the first is the picture that belongs to the answer.
    pub figures: Vec<Figure>,
    /// Tables, in the source's layout where there is one: ours beside theirs.
    pub tables: Vec<Table>,
    /// What it adds to *what things cost here* and to the table of threads and processes: see [`View::cost`].
    pub costs: Vec<Cost>,
}

/// Two cases to compare.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The base.
    pub a: Params,
    /// What is compared with it.
    pub b: Params,
}

impl Pair {
    /// The cases of two statistics.
    #[must_use]
    pub fn of(a: &Statistic, b: &Statistic) -> Self {
        Self {
            a: a.pattern(),
            b: b.pattern(),
        }
    }
}
