//! Which experiments and which of their cases: names, `--only` and `--set`.
//!
//! `--only` picks cases and `--set` replaces parameters. An unknown name is refused, with the nearest known one; it is
//! never ignored.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use threadgauge_results::{Params, Value};

use crate::experiment::{Catalogue, Experiment};
use crate::grid::{Plan, PlannedCase};
use crate::schedule::Chosen;
use crate::site::Site;

/// Why a selection is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// Not `NAME=VALUE`.
    #[error("`{0}` is not NAME=VALUE, as in unit=thread,count=64")]
    Malformed(String),
    /// There is no such experiment.
    #[error("there is no experiment `{name}`{}; `threadgauge list` shows them", nearest(.known, .name))]
    UnknownExperiment {
        /// What was typed.
        name: String,
        /// The known ones.
        known: Vec<String>,
    },
    /// No chosen experiment has such a parameter.
    #[error("{option}: no parameter `{key}`{}; there are: {}", nearest(.known, .key), .known.join(", "))]
    UnknownKey {
        /// `--only` or `--set`.
        option: &'static str,
        /// What was typed.
        key: String,
        /// The known ones.
        known: Vec<String>,
    },
    /// No case has this value.
    #[error("--only: no case of this profile has {key}={value}; there are: {}", .known.join(", "))]
    UnknownValue {
        /// The parameter.
        key: String,
        /// What was typed.
        value: String,
        /// The known ones.
        known: Vec<String>,
    },
    /// Each value exists, but not together.
    #[error("--only: no case of this profile has all of {0}; `threadgauge list --cases` shows them")]
    NoCase(String),
    /// No case can have what was set.
    #[error("--set: no case of {experiment} can run so: {why}")]
    Impossible {
        /// The experiment.
        experiment: &'static str,
        /// The parameter, what it is and what it must be.
        why: String,
    },
}

/// The nearest of these to what was typed, as words for the end of a message; empty where none is near.
pub fn nearest(known: &[String], typed: &str) -> String {
    known
        .iter()
        .map(|name| (strsim::jaro_winkler(name, typed), name))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, name)| format!(" (did you mean `{name}`?)"))
}

/// `NAME=VALUE,NAME=VALUE`; a name may come more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<(String, Value)>);

impl FromStr for Selector {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pair = |part: &str| {
            let malformed = || SelectionError::Malformed(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(malformed)?;
            let (name, value) = (name.trim(), value.trim());
            if name.is_empty() || value.is_empty() {
                return Err(malformed());
            }
            Ok((name.to_owned(), Value::parse(value)))
        };
        text.split(',').map(pair).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        f.write_str(&pairs.join(","))
    }
}

impl Selector {
    /// One selector of several.
    #[must_use]
    pub fn joined(parts: &[Self]) -> Self {
        Self(parts.iter().flat_map(|s| s.0.iter().cloned()).collect())
    }

    fn keys(&self) -> BTreeSet<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Whether the case has, for every name, one of its values.
    fn picks(&self, params: &Params) -> bool {
        self.keys().into_iter().all(|key| {
            let mut wanted = self.0.iter().filter(|(name, _)| name == key);
            wanted.any(|(_, value)| params.get(key) == Some(value))
        })
    }
}

/// The experiment of this name.
///
/// # Errors
///
/// When there is none.
pub fn experiment(catalogue: Catalogue, name: &str) -> Result<&'static Experiment, SelectionError> {
    let unknown = || SelectionError::UnknownExperiment {
        name: name.to_owned(),
        known: catalogue.iter().map(|e| e.id.to_owned()).collect(),
    };
    catalogue.get(name).ok_or_else(unknown)
}

/// The experiments of these names in the order of the catalogue; those of a first run where no name is given.
///
/// # Errors
///
/// When there is no experiment of a name.
pub fn experiments(
    catalogue: Catalogue,
    names: &[String],
) -> Result<Vec<&'static Experiment>, SelectionError> {
    for name in names {
        experiment(catalogue, name)?;
    }
    let named = |e: &Experiment| names.iter().any(|name| name == e.id);
    let wanted = |e: &&'static Experiment| named(e) || (names.is_empty() && e.first_run);
    Ok(catalogue.iter().filter(wanted).collect())
}

/// The cases of `experiments` that are selected on `site`. An experiment without a selected case is left out.
///
/// # Errors
///
/// When a key or value is unknown, or nothing is left.
pub fn choose(
    experiments: &[&'static Experiment],
    site: &Site,
    only: &Selector,
    set: &Selector,
) -> Result<Vec<Chosen>, SelectionError> {
    let mut chosen: Vec<Chosen> = experiments.iter().map(|e| Chosen::all(e, site)).collect();
    for (option, selector) in [("--set", set), ("--only", only)] {
        let known: BTreeSet<String> = cases(&chosen)
            .flat_map(Params::iter)
            .map(|(name, _)| name.to_owned())
            .collect();
        if let Some(key) = selector.keys().into_iter().find(|k| !known.contains(*k)) {
            return Err(SelectionError::UnknownKey {
                option,
                key: key.to_owned(),
                known: known.into_iter().collect(),
            });
        }
    }
    for c in &mut chosen {
        replace(&mut c.plan, set);
        c.plan.fit(site);
    }
    for (key, value) in &only.0 {
        let known: BTreeSet<&Value> = cases(&chosen).filter_map(|p| p.get(key)).collect();
        if !known.contains(value) {
            return Err(SelectionError::UnknownValue {
                key: key.clone(),
                value: value.to_string(),
                known: known.iter().map(ToString::to_string).collect(),
            });
        }
    }
    for c in &mut chosen {
        c.plan.cases.retain(|case| only.picks(&case.params));
    }
    chosen.retain(|c| !c.plan.cases.is_empty());
    if chosen.is_empty() {
        return Err(SelectionError::NoCase(only.to_string()));
    }
    for c in &chosen {
        let checked = c.plan.cases.iter().map(|case| (case.check)(&case.params).err());
        // Where some can be, the others fail as they run, each with its reason.
        if let Some([why, ..]) = checked.collect::<Option<Vec<_>>>().as_deref() {
            return Err(SelectionError::Impossible {
                experiment: c.experiment.id,
                why: why.to_string(),
            });
        }
    }
    Ok(chosen)
}

fn cases(chosen: &[Chosen]) -> impl Iterator<Item = &Params> {
    chosen.iter().flat_map(|c| &c.plan.cases).map(|case| &case.params)
}

/// Replaces parameters where cases have them; cases that become the same are one.
fn replace(plan: &mut Plan, set: &Selector) {
    for (key, value) in &set.0 {
        for case in &mut plan.cases {
            let Some(old) = case.params.get(key).cloned() else {
                continue;
            };
            case.estimate = scaled(case, &old, value);
            case.params.set(key, value.clone());
        }
    }
    let mut seen = BTreeSet::new();
    plan.cases.retain(|case| seen.insert(case.params.to_string()));
}

/// More work takes longer, at most in proportion. An estimate is at most a day.
fn scaled(case: &PlannedCase, old: &Value, new: &Value) -> Duration {
    match (old, new) {
        (Value::Int(old), Value::Int(new)) if new > old => {
            let factor = (new / (*old).max(1)).saturating_add(1);
            case.estimate
                .saturating_mul(u32::try_from(factor).unwrap_or(u32::MAX))
                .min(Duration::from_secs(24 * 3600))
        }
        _ => case.estimate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Answer;
    use crate::point::{Point as _, refused};

    fn selector(text: &str) -> Selector {
        text.parse().unwrap()
    }

    crate::words! {
        enum Unit { Thread = "thread", Process = "process" }
    }
    crate::point! {
        struct Case { unit: Unit, count: u64 = 1..=500 }
    }

    fn plan() -> Plan {
        let case = |unit, count| PlannedCase {
            check: |params| match Case::read(params)? {
                Case {
                    unit: Unit::Process,
                    count: 100..,
                } => Err(refused(params, "count", "below 100 where unit is process")),
                _ => Ok(()),
            },
            ..PlannedCase::new(Case { unit, count }, Duration::from_millis(10))
        };
        Plan {
            cases: vec![
                case(Unit::Thread, 1),
                case(Unit::Thread, 64),
                case(Unit::Process, 1),
            ],
            reference: Params::new(),
            budget: Duration::from_secs(1),
        }
    }

    #[test]
    fn several_values_of_a_name_are_alternatives_and_names_add_up() {
        let only = selector("unit=thread,count=1,count=64");
        let picked = plan().cases.iter().filter(|c| only.picks(&c.params)).count();
        assert_eq!(picked, 2);
        assert!(!selector("unit=process,count=64").picks(&plan().cases[2].params));
    }

    const fn experiment(id: &'static str, first_run: bool) -> Experiment {
        Experiment {
            id,
            question: "",
            first_run,
            sources: &[],
            primary: &[],
            how: "",
            control: "",
            traps: &[],
            source: "",
            plan: |_| plan(),
            run: |_, _| Ok(()),
            read: |_| Answer::default(),
        }
    }

    #[test]
    fn without_names_a_run_has_the_experiments_of_a_first_run_and_with_names_those() {
        const FIRST: Experiment = experiment("first", true);
        const LATER: Experiment = experiment("later", false);
        const BOTH: Catalogue = Catalogue(&[&LATER, &FIRST]);
        let chosen = |names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let chosen = experiments(BOTH, &names).unwrap();
            chosen.iter().map(|e| e.id).collect()
        };
        assert_eq!(chosen(&[]), ["first"]);
        assert_eq!(chosen(&["later"]), ["later"]);
        assert_eq!(chosen(&["first", "later"]), ["later", "first"]);
    }

    #[test]
    fn what_is_not_name_and_value_is_refused() {
        for text in ["", "unit", "=3", "unit=", "unit=thread,,count=1"] {
            assert!(
                matches!(text.parse::<Selector>(), Err(SelectionError::Malformed(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn replacing_makes_equal_cases_one_and_gives_larger_ones_more_time() {
        let mut plan = plan();
        replace(&mut plan, &selector("count=128"));
        let left: Vec<String> = plan.cases.iter().map(|c| c.params.to_string()).collect();
        assert_eq!(left, ["unit=thread,count=128", "unit=process,count=128"]);
        assert!(plan.cases[0].estimate >= Duration::from_millis(1280));
    }

    #[test]
    fn what_no_case_can_be_is_refused_before_it_runs_and_what_some_can_be_is_not() {
        const ANY: Experiment = experiment("any", true);
        let site = crate::testing::site(crate::site::Profile::Quick, 1);
        let chosen = |only: &str, set: &str| {
            let only = if only.is_empty() {
                Selector::default()
            } else {
                selector(only)
            };
            let chosen = choose(&[&ANY], &site, &only, &selector(set));
            chosen.map(|chosen| chosen[0].plan.cases.len())
        };
        let says = |only: &str, set: &str| chosen(only, set).unwrap_err().to_string();
        let is = "--set: no case of any can run so: the parameter";
        for (only, set, why) in [
            ("", "count=0", "count is 0; it must be a number from 1 to 500"),
            (
                "",
                "count=many",
                "count is many; it must be a number from 1 to 500",
            ),
            ("", "unit=3", "unit is 3; it must be one of thread, process"),
            (
                "unit=process",
                "count=100",
                "count is 100; it must be below 100 where unit is process",
            ),
        ] {
            assert_eq!(says(only, set), format!("{is} {why}"));
        }
        assert_eq!(chosen("", "count=100"), Ok(2));
    }

    #[test]
    fn a_mistyped_name_is_answered_with_the_nearest() {
        let known = vec!["create".to_owned(), "print".to_owned()];
        let refused = SelectionError::UnknownExperiment {
            name: "craete".to_owned(),
            known,
        };
        assert_eq!(
            refused.to_string(),
            "there is no experiment `craete` (did you mean `create`?); `threadgauge list` shows them"
        );
    }
}
