//! Which experiments and which of their cases: names, `--only`, `--case` and `--set`.
//!
//! `--only` picks cases by their parameters, `--case` by their id, and `--set` replaces parameters: of several values
//! each makes a case. An unknown name is refused, with the nearest known one; it is never ignored. Cases with an
//! optional parameter are picked by their id, or where `--only` names it, or names nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use threadgauge_results::{Params, Value};

use crate::experiment::{Catalogue, Experiment};
use crate::grid::{Plan, PlannedCase};
use crate::schedule::Chosen;
use crate::site::{Profile, Site};

/// Why a selection is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// Not `NAME=VALUE`.
    #[error("`{0}` is not NAME=VALUE, as in unit=thread,count=64,128")]
    Malformed(String),
    /// A parameter cannot be set to the same value twice.
    #[error("--set: {key}={value} is given twice; each value of a name makes cases of its own")]
    Twice {
        /// The parameter.
        key: String,
        /// What was typed.
        value: String,
    },
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
    /// No case has this id.
    #[error("--case: no case of this profile is `{case}`{}", elsewhere(.known, .case, *.profile))]
    UnknownCase {
        /// What was typed.
        case: String,
        /// The ids of this profile, with their experiment and without.
        known: Vec<String>,
        /// A profile that has it.
        profile: Option<Profile>,
    },
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

/// Where a case is that this profile does not have, or which one may have been meant.
fn elsewhere(known: &[String], typed: &str, profile: Option<Profile>) -> String {
    match profile {
        Some(profile) => format!("; `--profile {}` has it", profile.name()),
        None => format!("{}; `threadgauge list --cases` shows them", nearest(known, typed)),
    }
}

/// What people write behind a name whose values have it.
const UNITS: [&str; 7] = ["ns", "us", "ms", "s", "bytes", "kib", "mib"];

/// `NAME=VALUE,NAME=VALUE`; a name may come more than once, and a part without a name is a further value of the one
/// before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<(String, Value)>);

impl FromStr for Selector {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut pairs: Vec<(String, Value)> = Vec::new();
        for part in text.split(',') {
            let before = pairs.last().map_or("", |(name, _)| name);
            let (name, value) = part.split_once('=').unwrap_or((before, part));
            let (name, value) = (name.trim(), value.trim());
            if name.is_empty() || value.is_empty() {
                return Err(SelectionError::Malformed(part.to_owned()));
            }
            pairs.push((name.to_owned(), Value::parse(value)));
        }
        Ok(Self(pairs))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for (name, value) in &self.0 {
            match before {
                Some(before) if before == name => write!(f, ",{value}")?,
                Some(_) => write!(f, ",{name}={value}")?,
                None => write!(f, "{name}={value}")?,
            }
            before = Some(name);
        }
        Ok(())
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

    /// The same, where a name that is not known, but is without the unit behind it, is that: `lengths_ms` is `lengths`.
    fn without_units(&self, known: &BTreeSet<String>) -> Self {
        let as_known = |name: &String| match name.rsplit_once('_') {
            Some((bare, unit)) if UNITS.contains(&unit) && !known.contains(name) && known.contains(bare) => {
                bare.to_owned()
            }
            _ => name.clone(),
        };
        let pairs = self.0.iter();
        Self(
            pairs
                .map(|(name, value)| (as_known(name), value.clone()))
                .collect(),
        )
    }

    /// The values of a name, in the order given.
    pub fn values(&self, key: &str) -> impl Iterator<Item = &Value> {
        let of_it = self.0.iter().filter(move |(name, _)| name == key);
        of_it.map(|(_, value)| value)
    }

    /// Whether a case has, for every name, one of its values, as `of` says.
    fn picks<'a>(&self, of: impl Fn(&str, &Value) -> Option<&'a Value>) -> bool {
        let mut keys = self.keys().into_iter();
        keys.all(|key| self.values(key).any(|value| of(key, value) == Some(value)))
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
    let offered = Offered::new(experiments, site, set)?;
    let only = &offered.known("--only", only)?;
    let planned: BTreeSet<(&str, &Value)> = offered.all().flat_map(|case| case.planned.iter()).collect();
    let made: BTreeSet<(&str, &Value)> = offered.all().flat_map(|case| case.case.params.iter()).collect();
    if let Some((key, value)) = (only.0.iter())
        .map(|(key, value)| (key.as_str(), value))
        .find(|wanted| !planned.contains(wanted) && !made.contains(wanted))
    {
        let known: BTreeSet<&Value> = planned
            .iter()
            .chain(&made)
            .filter(|(k, _)| *k == key)
            .map(|(_, v)| *v)
            .collect();
        return Err(SelectionError::UnknownValue {
            key: key.to_owned(),
            value: value.to_string(),
            known: known.iter().map(ToString::to_string).collect(),
        });
    }
    // What the profile has is picked there, whatever it is set to; else what was set.
    let named = only.keys();
    let picks = |_: &Experiment, case: &Changed| {
        // Whoever wants some cases and names no runtime has those of before there were others.
        let is_beside = !named.is_empty() && !case.planned.has_only_what(|name| named.contains(name));
        !is_beside
            && only.picks(|key, value| match planned.contains(&(key, value)) {
                true => case.planned.get(key),
                false => case.case.params.get(key),
            })
    };
    let chosen = offered.picked(site, picks)?;
    if chosen.is_empty() {
        return Err(SelectionError::NoCase(only.to_string()));
    }
    Ok(chosen)
}

/// The cases of these ids, as `list --cases` prints them or with their experiment before them, as a report has them.
/// What the profile has is picked there, whatever it is set to; else what was set.
///
/// # Errors
///
/// When no case has one of the ids, a key of `set` is unknown, or nothing is left.
pub fn choose_cases(
    experiments: &[&'static Experiment],
    site: &Site,
    ids: &[String],
    set: &Selector,
) -> Result<Vec<Chosen>, SelectionError> {
    let offered = Offered::new(experiments, site, set)?;
    let planned = offered.ids(|case| &case.planned);
    let made = offered.ids(|case| &case.case.params);
    if let Some(case) = ids
        .iter()
        .find(|id| !planned.contains(*id) && !made.contains(*id))
    {
        let has = |profile: &Profile| {
            let site = Site {
                profile: *profile,
                ..site.clone()
            };
            let other = Offered::new(experiments, &site, &Selector::default());
            other.is_ok_and(|other| other.ids(|case| &case.planned).contains(case))
        };
        return Err(SelectionError::UnknownCase {
            case: case.clone(),
            profile: Profile::ALL.into_iter().find(has),
            known: planned.into_iter().chain(made).collect(),
        });
    }
    let picks = |experiment: &Experiment, case: &Changed| {
        ids.iter().any(|id| {
            let params = match planned.contains(id) {
                true => &case.planned,
                false => &case.case.params,
            };
            ids_of(experiment, params).contains(id)
        })
    };
    offered.picked(site, picks)
}

/// As a case is called in a list of its experiment's, and anywhere.
fn ids_of(experiment: &Experiment, params: &Params) -> [String; 2] {
    [params.to_string(), params.case_id(experiment.id)]
}

/// All cases of some experiments, with what was set.
struct Offered {
    chosen: Vec<Chosen>,
    names: BTreeSet<String>,
    cases: Vec<Vec<Changed>>,
}

impl Offered {
    /// An error where what is to be set is unknown.
    fn new(experiments: &[&'static Experiment], site: &Site, set: &Selector) -> Result<Self, SelectionError> {
        let chosen: Vec<Chosen> = experiments.iter().map(|e| Chosen::all(e, site)).collect();
        let params = chosen.iter().flat_map(|c| &c.plan.cases).map(|case| &case.params);
        let names = params.flat_map(Params::iter).map(|(name, _)| name.to_owned());
        let mut offered = Self {
            names: names.collect(),
            chosen,
            cases: Vec::new(),
        };
        let set = offered.known("--set", set)?;
        let mut seen = BTreeSet::new();
        if let Some((key, value)) = set.0.iter().find(|&(key, value)| !seen.insert((key, value))) {
            return Err(SelectionError::Twice {
                key: key.clone(),
                value: value.to_string(),
            });
        }
        offered.cases = offered.chosen.iter().map(|c| replace(&c.plan, &set)).collect();
        Ok(offered)
    }

    /// The same with the names that the cases have; an error where one is none of them.
    fn known(&self, option: &'static str, selector: &Selector) -> Result<Selector, SelectionError> {
        let selector = selector.without_units(&self.names);
        let unknown = selector.keys().into_iter().find(|k| !self.names.contains(*k));
        if let Some(key) = unknown {
            return Err(SelectionError::UnknownKey {
                option,
                key: key.to_owned(),
                known: self.names.iter().cloned().collect(),
            });
        }
        Ok(selector)
    }

    fn all(&self) -> impl Iterator<Item = &Changed> {
        self.cases.iter().flatten()
    }

    /// Every id by which a case is known.
    fn ids(&self, params: impl Fn(&Changed) -> &Params) -> BTreeSet<String> {
        let of = |(c, cases): (&Chosen, &Vec<Changed>)| -> Vec<String> {
            let ids = cases.iter().flat_map(|case| ids_of(c.experiment, params(case)));
            ids.collect()
        };
        self.chosen.iter().zip(&self.cases).flat_map(of).collect()
    }

    /// The experiments that have a case which is picked, with those cases; an error where none of one can be.
    fn picked(
        &self,
        site: &Site,
        picks: impl Fn(&Experiment, &Changed) -> bool,
    ) -> Result<Vec<Chosen>, SelectionError> {
        let mut chosen = Vec::new();
        for (c, cases) in self.chosen.iter().zip(&self.cases) {
            let picked = cases.iter().filter(|case| picks(c.experiment, case));
            let mut plan = Plan {
                cases: once(picked.map(|case| case.case.clone())),
                ..c.plan.clone()
            };
            plan.fit(site);
            if plan.cases.is_empty() {
                continue;
            }
            let checked = plan.cases.iter().map(|case| (case.check)(&case.params).err());
            // Where some can be, the others fail as they run, each with its reason.
            if let Some([why, ..]) = checked.collect::<Option<Vec<_>>>().as_deref() {
                return Err(SelectionError::Impossible {
                    experiment: c.experiment.id,
                    why: why.to_string(),
                });
            }
            chosen.push(Chosen {
                experiment: c.experiment,
                plan,
            });
        }
        Ok(chosen)
    }
}

/// A case as it is planned, with one of the values that were set in place of each.
struct Changed {
    planned: Params,
    case: PlannedCase,
}

/// Replaces parameters where cases have them: of several values each makes a case.
fn replace(plan: &Plan, set: &Selector) -> Vec<Changed> {
    let as_planned = |case: &PlannedCase| Changed {
        planned: case.params.clone(),
        case: case.clone(),
    };
    let mut all: Vec<Changed> = plan.cases.iter().map(as_planned).collect();
    for key in set.keys() {
        let with_each = |Changed { planned, case }: Changed| {
            let Some(old) = case.params.get(key).cloned() else {
                return vec![Changed { planned, case }];
            };
            let with = |value: &Value| {
                let mut case = case.clone();
                case.params.set(key, value.clone());
                let known = case.takes.and_then(|takes| takes(&case.params));
                case.estimate = known.map_or_else(|| scaled(&case, &old, value), |known| known.min(MOST));
                Changed {
                    planned: planned.clone(),
                    case,
                }
            };
            set.values(key).map(with).collect()
        };
        all = all.into_iter().flat_map(with_each).collect();
    }
    all
}

/// Cases that have become the same are one.
fn once(cases: impl Iterator<Item = PlannedCase>) -> Vec<PlannedCase> {
    let mut seen = BTreeSet::new();
    cases
        .filter(|case| seen.insert(case.params.to_string()))
        .collect()
}

/// The most that a case is expected to take.
const MOST: Duration = Duration::from_secs(24 * 3600);

/// More work takes longer, at most in proportion.
fn scaled(case: &PlannedCase, old: &Value, new: &Value) -> Duration {
    match (old, new) {
        (Value::Int(old), Value::Int(new)) if new > old => {
            let factor = (new / (*old).max(1)).saturating_add(1);
            case.estimate
                .saturating_mul(u32::try_from(factor).unwrap_or(u32::MAX))
                .min(MOST)
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
        let picks = |only: &str, case: &PlannedCase| selector(only).picks(|key, _| case.params.get(key));
        for only in ["unit=thread,count=1,count=64", "unit=thread,count=1,64"] {
            assert_eq!(plan().cases.iter().filter(|case| picks(only, case)).count(), 2);
            assert_eq!(selector(only).to_string(), "unit=thread,count=1,64");
        }
        assert!(!picks("unit=process,count=64", &plan().cases[2]));
    }

    #[test]
    fn joined_selectors_have_what_each_has() {
        let parts = ["unit=thread", "count=1,64", "unit=process"].map(selector);
        assert_eq!(
            Selector::joined(&parts).to_string(),
            "unit=thread,count=1,64,unit=process"
        );
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
            calls: &[],
            plan: |_| plan(),
            run: |_, _| Ok(()),
            read: |_| Answer::default(),
        }
    }

    #[test]
    fn without_names_a_run_has_the_experiments_of_a_first_run_and_with_names_those() {
        const FIRST: Experiment = experiment("first", true);
        const LATER: Experiment = experiment("later", false);
        const BOTH: Catalogue = Catalogue {
            experiments: &[&LATER, &FIRST],
            tables: &[],
        };
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
        for text in ["", "unit", "3,unit=thread", "=3", "unit=", "unit=thread,,count=1"] {
            assert!(
                matches!(text.parse::<Selector>(), Err(SelectionError::Malformed(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn replacing_makes_equal_cases_one_and_gives_larger_ones_more_time() {
        let left = chosen("", "count=128").unwrap();
        let params: Vec<String> = left.iter().map(|c| c.params.to_string()).collect();
        assert_eq!(params, ["unit=thread,count=128", "unit=process,count=128"]);
        assert!(left[0].estimate >= Duration::from_millis(1280));
    }

    #[test]
    fn each_of_several_values_makes_cases_in_the_order_given() {
        let params = |only: &str, set: &str| -> Vec<String> {
            let chosen = chosen(only, set).unwrap();
            chosen.iter().map(|case| case.params.to_string()).collect()
        };
        assert_eq!(
            params("unit=thread", "count=128,2"),
            ["unit=thread,count=128", "unit=thread,count=2"]
        );
        assert_eq!(
            params("", "count=3,unit=process,thread"),
            ["unit=process,count=3", "unit=thread,count=3"]
        );
        let twice = chosen("", "count=3,count=2,3").map(drop).unwrap_err();
        assert!(twice.to_string().contains("count=3 is given twice"), "{twice}");
    }

    #[test]
    fn what_is_picked_may_be_set_to_another_value_and_what_was_set_may_be_picked() {
        let params = |only: &str, set: &str| -> Vec<String> {
            let chosen = chosen(only, set).unwrap();
            chosen.iter().map(|case| case.params.to_string()).collect()
        };
        assert_eq!(params("count=64", "count=2"), ["unit=thread,count=2"]);
        assert_eq!(
            params("count=3", "count=2,3"),
            ["unit=thread,count=3", "unit=process,count=3"]
        );
        let unknown = chosen("count=5", "count=2,3").map(drop).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "--only: no case of this profile has count=5; there are: 1, 2, 3, 64"
        );
    }

    #[test]
    fn an_experiment_may_know_better_how_long_other_values_take() {
        let mut plan = plan();
        for case in &mut plan.cases {
            case.takes = Some(|params| (params.int("count")? < 1_000).then_some(Duration::from_secs(7)));
        }
        let estimate = |count: &str| replace(&plan, &selector(count))[0].case.estimate;
        assert_eq!(estimate("count=500"), Duration::from_secs(7));
        assert_eq!(estimate("count=1000"), Duration::from_millis(10_010));
        assert_eq!(estimate("count=99999999999"), MOST);
    }

    const ANY: Experiment = experiment("any", true);

    /// With a case of a runtime.
    const BESIDE: Experiment = Experiment {
        plan: |_| {
            let mut plan = plan();
            let mut other = plan.cases[0].clone();
            other.params.set("runtime", "go");
            plan.cases.push(other);
            plan
        },
        ..experiment("beside", true)
    };

    #[test]
    fn cases_with_an_optional_parameter_are_picked_by_its_name_or_with_all() {
        let site = crate::testing::site(Profile::Quick, 1);
        let picked = |only: Selector| {
            let chosen = choose(&[&BESIDE], &site, &only, &Selector::default()).unwrap();
            let ids: Vec<String> = chosen[0]
                .plan
                .cases
                .iter()
                .map(|case| case.params.to_string())
                .collect();
            ids
        };
        assert_eq!(picked(Selector::default()).len(), 4);
        assert_eq!(
            picked(selector("unit=thread")),
            ["unit=thread,count=1", "unit=thread,count=64"]
        );
        assert_eq!(picked(selector("runtime=go")), ["unit=thread,count=1,runtime=go"]);
    }

    #[test]
    fn a_case_is_picked_by_its_id_with_its_experiment_or_without_and_whatever_it_has_of_its_own() {
        let site = crate::testing::site(Profile::Quick, 1);
        let picked = |ids: &[&str], set: &str| -> Vec<String> {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let set = if set.is_empty() {
                Selector::default()
            } else {
                selector(set)
            };
            let chosen = choose_cases(&[&BESIDE, &ANY], &site, &ids, &set).unwrap();
            let of = |c: &Chosen| -> Vec<String> {
                let ids = c
                    .plan
                    .cases
                    .iter()
                    .map(|case| case.params.case_id(c.experiment.id));
                ids.collect()
            };
            chosen.iter().flat_map(of).collect()
        };
        // Not the one of a runtime beside it.
        assert_eq!(
            picked(&["beside/unit=thread,count=1"], ""),
            ["beside/unit=thread,count=1"]
        );
        assert_eq!(
            picked(&["unit=process,count=1", "any/unit=thread,count=64"], ""),
            [
                "beside/unit=process,count=1",
                "any/unit=thread,count=64",
                "any/unit=process,count=1"
            ]
        );
        assert_eq!(
            picked(&["unit=thread,count=1,runtime=go"], ""),
            ["beside/unit=thread,count=1,runtime=go"]
        );
        // By what it is in the profile, or by what it has become.
        assert_eq!(
            picked(&["any/unit=thread,count=64"], "count=2,3"),
            ["any/unit=thread,count=2", "any/unit=thread,count=3"]
        );
        assert_eq!(
            picked(&["any/unit=thread,count=3"], "count=2,3"),
            ["any/unit=thread,count=3"]
        );
    }

    #[test]
    fn a_case_that_is_none_is_refused_with_the_nearest_or_the_profile_that_has_it() {
        const LONGER: Experiment = Experiment {
            plan: |site| {
                let mut plan = plan();
                if site.profile == Profile::Paper {
                    plan.cases[0].params.set("count", 9_u64);
                }
                plan
            },
            ..experiment("longer", true)
        };
        let site = crate::testing::site(Profile::Quick, 1);
        let says = |id: &str| {
            let refused = choose_cases(&[&LONGER], &site, &[id.to_owned()], &Selector::default());
            refused.map(drop).unwrap_err().to_string()
        };
        assert_eq!(
            says("longer/unit=thread,count=65"),
            "--case: no case of this profile is `longer/unit=thread,count=65` \
             (did you mean `longer/unit=thread,count=64`?); `threadgauge list --cases` shows them"
        );
        assert_eq!(
            says("unit=thread,count=9"),
            "--case: no case of this profile is `unit=thread,count=9`; `--profile paper` has it"
        );
        // A part of an id is none.
        assert!(says("unit=thread").contains("did you mean `unit=thread,count="));
    }

    /// The cases of one experiment; empty: nothing is picked.
    fn chosen(only: &str, set: &str) -> Result<Vec<PlannedCase>, SelectionError> {
        let site = crate::testing::site(Profile::Quick, 1);
        let only = match only {
            "" => Selector::default(),
            only => selector(only),
        };
        let mut chosen = choose(&[&ANY], &site, &only, &selector(set))?;
        Ok(chosen.remove(0).plan.cases)
    }

    #[test]
    fn what_no_case_can_be_is_refused_before_it_runs_and_what_some_can_be_is_not() {
        let says = |only: &str, set: &str| chosen(only, set).map(drop).unwrap_err().to_string();
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
        assert_eq!(chosen("", "count=100").unwrap().len(), 2);
    }

    #[test]
    fn a_name_with_its_unit_is_the_name_where_that_is_known() {
        let known = BTreeSet::from(["lengths".to_owned(), "base_ms".to_owned()]);
        let named = |text: &str| {
            let selector: Selector = text.parse().unwrap();
            selector.without_units(&known).to_string()
        };
        assert_eq!(named("lengths_ms=10/20/500"), "lengths=10/20/500");
        for same in [
            "base_ms=10",
            "lengths=equal",
            "base_us=10",
            "lengths_cm=3",
            "wait_ms=1",
        ] {
            assert_eq!(named(same), same);
        }
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
