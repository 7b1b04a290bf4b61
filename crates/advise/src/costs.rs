//! What units cost: from a run of this machine, or, where there is none, from one that is shipped and named.
//!
//! Owns which costs of a results document advice rests on. A run is read from its `results.json`; nothing is measured
//! here.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use threadgauge_machine::CpuList;
use threadgauge_results::{Results, Verdict, claim, machine_differences};

/// Where what a cost is comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The run.
    Measured,
    /// Shipped: another machine's.
    Shipped,
    /// The same, since a run under these conditions cannot tell it.
    Untold,
}

/// A cost with its interval, in s or bytes or, of a gain, a share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Price {
    /// The figure.
    pub value: f64,
    /// Its interval.
    pub low: f64,
    /// Its interval.
    pub high: f64,
    /// Where it comes from.
    pub origin: Origin,
}

macro_rules! prices {
    ($($(#[doc = $doc:literal])+ $name:ident: $what:literal, $kind:literal, $per:expr, $shipped:expr, $from:literal;)+) => {
        /// What advice rests on.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub struct Costs {
            $($(#[doc = $doc])+ pub $name: Price,)+
        }

        impl Costs {
            /// Those that are shipped.
            #[must_use]
            pub fn shipped() -> Self {
                Self { $($name: shipped($shipped),)+ }
            }

            /// Those of a run, and shipped ones for what it did not measure.
            fn of(results: &Results) -> Self {
                let mut costs =
                    Self { $($name: measured(results, $what, $kind, $per).unwrap_or(shipped($shipped)),)+ };
                if !has_two_whole_cpus(&results.machine) {
                    costs.second_cpu = Price { origin: Origin::Untold, ..Self::shipped().second_cpu };
                }
                costs
            }

            /// Whether any of them was measured.
            #[must_use]
            pub fn has_measured(&self) -> bool {
                [$(self.$name.origin),+].contains(&Origin::Measured)
            }

            /// Takes from an older run what this one did not measure; whether there was anything.
            fn complete(&mut self, older: &Self) -> bool {
                let mut has_taken = false;
                $(if self.$name.origin == Origin::Shipped && older.$name.origin == Origin::Measured {
                    self.$name = older.$name;
                    has_taken = true;
                })+
                has_taken
            }

            /// The experiments that measure what is shipped here, each once.
            #[must_use]
            pub fn lacking(&self) -> Vec<&'static str> {
                let mut lacking: Vec<&'static str> = Vec::new();
                $(if self.$name.origin == Origin::Shipped && !lacking.contains(&$from) {
                    lacking.push($from);
                })+
                lacking
            }
        }
    };
}

const NS: f64 = 1e-9;

prices! {
    /// Making a thread and ending it, s.
    thread_make: "make and end", "thread", NS, 21.3e-6, "create";
    /// Making a process and ending it, s.
    process_make: "make and end", "process", NS, 114e-6, "create";
    /// Giving a job to a thread that waits for one, s.
    thread_job: "hand over a job", "thread", NS, 6.4e-6, "create";
    /// From one thread to another on a CPU, s.
    thread_switch: "switch, one CPU", "thread", NS, 1.78e-6, "ring";
    /// From one process to another on a CPU, s.
    process_switch: "switch, one CPU", "process", NS, 2.0e-6, "ring";
    /// From one coroutine to another, s.
    task_switch: "switch, one CPU", "coroutine", NS, 18e-9, "ring";
    /// A write and a read without a switch, s.
    two_calls: "two system calls: write, read", "thread", NS, 0.85e-6, "ring";
    /// Giving 4 KiB to a thread, s.
    thread_page: "hand over 4 KiB, one CPU", "thread", NS, 2.46e-6, "handover";
    /// Giving 4 KiB to a process, s.
    process_page: "hand over 4 KiB, one CPU", "process", NS, 3.09e-6, "handover";
    /// Giving a few bytes to a thread, s.
    thread_note: "hand over 64 bytes, one CPU", "thread", NS, 2.15e-6, "handover";
    /// Giving a few bytes to a process, s.
    process_note: "hand over 64 bytes, one CPU", "process", NS, 2.71e-6, "handover";
    /// Memory of a thread that does nothing, B.
    thread_bytes: "keep, idle", "thread", 1.0, 35_510.0, "footprint";
    /// Memory of a process that does nothing, B.
    process_bytes: "keep, idle", "process", 1.0, 118_970.0, "footprint";
    /// What a second CPU adds to computing, as a share of the first.
    second_cpu: "gain of a second CPU, computing", "thread", 1.0, 0.98, "compute";
}

/// The run whose costs are shipped.
pub const SHIPPED_FROM: &str = "two virtual CPUs of an AMD EPYC, Linux 6.18, 2026-11-24";

fn shipped(value: f64) -> Price {
    // Machines of this decade differ by about as much in what a switch or a thread costs.
    Price {
        value,
        low: value / 3.0,
        high: value * 3.0,
        origin: Origin::Shipped,
    }
}

fn measured(results: &Results, what: &str, kind: &str, per: f64) -> Option<Price> {
    let experiments = results.experiments.iter();
    // Of much noise nothing is told that another machine's figures do not tell better.
    let mut costs = experiments
        .filter(|experiment| !experiment.disturbed.is_much_beside_a_quota())
        .flat_map(|experiment| &experiment.costs);
    let cost = costs.find(|cost| cost.what == what && cost.kind == kind)?;
    let [low, high] = cost.ci95.unwrap_or([cost.value / 1.5, cost.value * 1.5]);
    let fits = cost.value.is_finite() && cost.value > 0.0 && low.is_finite() && high.is_finite();
    fits.then_some(Price {
        value: cost.value * per,
        low: low.max(0.0) * per,
        high: high * per,
        origin: Origin::Measured,
    })
}

/// Whether two CPUs may compute all the time: under a quota, what a second one adds would be what the quota lets it.
fn has_two_whole_cpus(fingerprint: &Value) -> bool {
    let number = |pointer: &str| fingerprint.pointer(pointer).and_then(Value::as_f64);
    let allowed = fingerprint.get("allowed_cpus").and_then(Value::as_str);
    let allowed = allowed.and_then(|list| list.parse::<CpuList>().ok());
    let cpus = allowed.map_or_else(|| number("/cpus"), |list| Some(list.len() as f64));
    let at_least_two = |cpus: Option<f64>| cpus.is_none_or(|cpus| cpus >= 2.0);
    at_least_two(cpus) && at_least_two(number("/cgroup/quota_cpus"))
}

impl Costs {
    /// CPUs' worth of speed of so many CPUs that all compute: each beyond the first adds what the second does.
    #[must_use]
    pub fn speed(&self, cpus: f64) -> f64 {
        // More than a whole CPU is an artefact of frequencies.
        let gain = self.second_cpu.value.clamp(0.1, 1.0);
        if cpus <= 1.0 {
            cpus
        } else {
            1.0 + (cpus - 1.0) * gain
        }
    }
}

/// A verdict on a published claim, from the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saying {
    /// The claim's id.
    pub claim: String,
    /// In short.
    pub says: String,
    /// What the run says of it, in a word; none where no run was read.
    pub verdict: Option<Verdict>,
}

/// Costs and where they are from.
#[derive(Debug, Clone, PartialEq)]
pub struct Basis {
    /// The costs.
    pub costs: Costs,
    /// The runs they are from, in words; or why there is none.
    runs: Result<Vec<String>, String>,
    /// The folder of the run, where one was read.
    pub folder: Option<PathBuf>,
    /// Its fingerprint.
    pub machine: Option<Value>,
    /// Verdicts of its claims, by id.
    verdicts: Vec<(String, Verdict)>,
    /// Whether costs of it are left out, since others disturbed it.
    pub is_disturbed: bool,
}

/// Why a run tells nothing of this machine's costs.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, String),
    /// It is of another machine, or of this one as it was.
    #[error("{0} was measured on another machine or under other settings: {1}")]
    Elsewhere(PathBuf, String),
}

impl Basis {
    /// The costs that are shipped; `why` there are no others.
    #[must_use]
    pub fn shipped(why: &str) -> Self {
        Self {
            costs: Costs::shipped(),
            runs: Err(why.to_owned()),
            folder: None,
            machine: None,
            verdicts: Vec::new(),
            is_disturbed: false,
        }
    }

    /// Those of a run in `folder`. With a fingerprint, it must be of that machine. Blocks while it reads.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is of another machine.
    pub fn read(folder: &Path, fingerprint: Option<&Value>) -> Result<Self, Unusable> {
        let file = if folder.is_dir() {
            folder.join("results.json")
        } else {
            folder.to_owned()
        };
        let unreadable = |why: String| Unusable::Unreadable(file.clone(), why);
        let text = std::fs::read(&file).map_err(|error| unreadable(error.to_string()))?;
        let results: Results =
            serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        if let Some(here) = fingerprint {
            let differences = machine_differences(&results.machine, here);
            if let Some(first) = differences.first() {
                let said = first.replace(" in A", " there").replace(" in B", " here");
                return Err(Unusable::Elsewhere(file, said));
            }
        }
        Ok(Self::of(&results, folder))
    }

    /// Those of a results document.
    #[must_use]
    pub fn of(results: &Results, folder: &Path) -> Self {
        let day = results.run.started.split('T').next().unwrap_or_default();
        let findings = results
            .experiments
            .iter()
            .flat_map(|experiment| &experiment.findings);
        let verdicts = findings.filter_map(|finding| Some((finding.claim.clone()?, finding.verdict?)));
        Self {
            runs: Ok(vec![format!("run {} ({day})", results.run.id)]),
            costs: Costs::of(results),
            folder: Some(folder.to_owned()),
            machine: Some(results.machine.clone()),
            verdicts: verdicts.collect(),
            is_disturbed: (results.experiments.iter()).any(|experiment| {
                !experiment.costs.is_empty() && experiment.disturbed.is_much_beside_a_quota()
            }),
        }
    }

    /// These, and of what they lack what an older run measured.
    #[must_use]
    pub fn completed_by(mut self, older: Self) -> Self {
        if self.costs.complete(&older.costs) {
            match (&mut self.runs, older.runs) {
                (Ok(runs), Ok(older)) => runs.extend(older),
                (runs, older) => *runs = older,
            }
        }
        let is_new = |claim: &str| self.verdicts.iter().all(|(of, _)| of != claim);
        let verdicts: Vec<_> = (older.verdicts.into_iter())
            .filter(|(claim, _)| is_new(claim))
            .collect();
        self.verdicts.extend(verdicts);
        self
    }

    /// In words, where the costs are from.
    #[must_use]
    pub fn says(&self) -> String {
        let runs = match &self.runs {
            Ok(runs) => runs,
            Err(why) => {
                return format!(
                    "{why}: costs of {SHIPPED_FROM} stand in, and a third of them to three times as much is allowed for"
                );
            }
        };
        let runs = match &runs[..] {
            [newest, older @ ..] if !older.is_empty() => {
                format!("{newest}, and of {} what that one lacks", older.join(" and "))
            }
            runs => runs.concat(),
        };
        let rest = match &self.costs.lacking()[..] {
            [] => String::new(),
            some => format!(
                "; what is lacking or was disturbed ({}) is of {SHIPPED_FROM}, and `threadgauge run {}` measures it",
                some.join(", "),
                some.join(" ")
            ),
        };
        let untold = match self.costs.second_cpu.origin {
            Origin::Untold => format!(
                "; what a second CPU adds could not be measured there (one CPU, or a quota below two) and is of \
                 {SHIPPED_FROM}"
            ),
            _ => String::new(),
        };
        format!("Costs are those of {runs}{rest}{untold}")
    }

    /// What the run says of these claims. One that is not published is left out: a defect that a test finds.
    #[must_use]
    pub fn sayings(&self, ids: &[&str]) -> Vec<Saying> {
        let saying = |id: &&str| {
            let of_run = self.verdicts.iter().find(|(of, _)| of == id);
            Some(Saying {
                claim: (*id).to_owned(),
                says: claim(id)?.short.clone(),
                verdict: of_run.map(|(_, verdict)| *verdict),
            })
        };
        ids.iter().filter_map(saying).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn basis(run: &str, measured: impl FnOnce(&mut Costs)) -> Basis {
        let mut basis = Basis::shipped("none");
        basis.runs = Ok(vec![run.to_owned()]);
        measured(&mut basis.costs);
        basis
    }

    fn price(value: f64) -> Price {
        Price {
            value,
            low: value,
            high: value,
            origin: Origin::Measured,
        }
    }

    #[test]
    fn what_was_measured_beside_others_is_of_another_machine() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../runs/2026-11-24-standard/results.json"
        );
        let mut results: Results = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let lacking = |results: &Results| Costs::of(results).lacking();
        assert!(lacking(&results).is_empty());
        let compute = results
            .experiments
            .iter_mut()
            .find(|e| e.id == "compute")
            .unwrap();
        compute.disturbed.disturbed = compute.disturbed.samples;
        compute.disturbed.by_quota = compute.disturbed.samples;
        assert!(lacking(&results).is_empty(), "a quota is of the machine");
        let compute = results
            .experiments
            .iter_mut()
            .find(|e| e.id == "compute")
            .unwrap();
        compute.disturbed.by_quota = 0;
        assert_eq!(lacking(&results), ["compute"]);
    }

    #[test]
    fn what_a_second_cpu_adds_is_told_where_two_may_compute_all_the_time() {
        let has = |machine: Value| has_two_whole_cpus(&machine);
        assert!(has(
            json!({"cpus": 2, "allowed_cpus": "0-1", "cgroup": {"quota_cpus": null}})
        ));
        assert!(has(json!({"cpus": 8, "cgroup": {"quota_cpus": 2.0}})));
        assert!(has(json!({})));
        assert!(!has(json!({"cpus": 2, "allowed_cpus": "1"})));
        assert!(!has(
            json!({"cpus": 8, "allowed_cpus": "0-7", "cgroup": {"quota_cpus": 1.2}})
        ));
        let says = basis("run a", |costs| costs.second_cpu.origin = Origin::Untold).says();
        assert!(
            says.contains("what a second CPU adds could not be measured there"),
            "{says}"
        );
        assert!(!says.contains("compute"), "{says}");
    }

    #[test]
    fn what_a_run_lacks_is_of_an_older_one_and_then_of_another_machine() {
        let newer = basis("run b", |costs| costs.thread_make = price(2.0));
        let older = basis("run a", |costs| {
            costs.thread_make = price(1.0);
            costs.second_cpu = price(0.5);
        });
        let alone = newer.says();
        assert!(
            alone.starts_with("Costs are those of run b; what is lacking or was disturbed"),
            "{alone}"
        );
        let both = newer.completed_by(older.clone());
        assert_eq!(
            (both.costs.thread_make.value, both.costs.second_cpu.value),
            (2.0, 0.5)
        );
        let says = both.says();
        assert!(
            says.starts_with(
                "Costs are those of run b, and of run a what that one lacks; what is lacking or was disturbed (create,"
            ),
            "{says}"
        );
        assert!(!says.contains("compute"), "{says}");
        // Nothing of a run that adds nothing.
        assert_eq!(both.clone().completed_by(older), both);
        let shipped = Basis::shipped("No run is here");
        assert!(
            shipped.says().starts_with("No run is here: costs of"),
            "{}",
            shipped.says()
        );
        assert_eq!(shipped.completed_by(both).says(), says);
    }
}
