//! What has all CPUs of its run, beside what has all of a run with more of them or fewer.
//!
//! The parameters of such cases differ, since they say how many CPUs there are. Here that number is said to be all, and
//! the cases are called by it.

use std::collections::BTreeMap;

use super::compared::Repeated;
use crate::Params;

/// Parameters that say how many units share the CPUs.
const UNITS: [&str; 2] = ["units", "threads"];

/// Parameters in which the number of all CPUs is said so, where that is several: one CPU there is in every run.
#[must_use]
pub fn with_all_cpus(params: &Params, all: Option<u64>) -> Params {
    with_all(params, all.filter(|&all| all > 1))
}

/// The same where all may be one CPU, too.
pub(super) fn with_all(params: &Params, all: Option<u64>) -> Params {
    let are_all = |name: &&str| params.int(name).is_some() && params.int(name) == all;
    let said = ["cpus", "server_cpus"].into_iter().filter(are_all);
    said.fold(params.clone(), |params, name| params.with(name, "all"))
}

/// What a case on all CPUs is called on a machine of any size: with as many units as it has, and, where these are so
/// many for each CPU, with that. Of any other case nothing.
pub(super) fn on_all_cpus(params: &Params, all: Option<u64>) -> Vec<Params> {
    let named = with_all_cpus(params, all);
    if named == *params {
        return Vec::new();
    }
    let for_each_cpu = UNITS.into_iter().find_map(|name| {
        let (units, all) = (params.int(name)?, all?);
        let times = match units.checked_div(all)? {
            1 => "all".to_owned(),
            times => format!("{times}×all"),
        };
        let is_whole = units > 0 && units.is_multiple_of(all);
        is_whole.then(|| named.clone().with(name, times.as_str()))
    });
    std::iter::once(named).chain(for_each_cpu).collect()
}

/// A side whose cases on all CPUs of a run are called alike in a state with other CPUs. Their parameters stay: how many
/// CPUs they had counts where they were disturbed.
pub(super) fn named_by_all_cpus(side: &Repeated) -> Repeated {
    let mut side = side.clone();
    for run in &mut side.runs {
        let all = run.results.cpus();
        for experiment in &mut run.results.experiments {
            let mut names: BTreeMap<String, String> = BTreeMap::new();
            for case in &mut experiment.cases {
                let name = with_all_cpus(&case.params, all).case_id(&experiment.id);
                names.insert(std::mem::replace(&mut case.id, name.clone()), name);
            }
            let samples = run.samples.get_mut(&experiment.id).into_iter().flatten();
            let ids = samples.map(|sample| &mut sample.case);
            for id in ids.chain(&mut experiment.reference) {
                if let Some(name) = names.get(id.as_str()) {
                    id.clone_from(name);
                }
            }
        }
    }
    side
}

#[cfg(test)]
mod tests {
    use super::super::made::{on_cpus, timed};
    use super::*;

    #[test]
    fn units_on_all_cpus_are_counted_and_where_each_cpu_has_as_many_so_is_that() {
        let on = |units: u64, all: Option<u64>| -> Vec<String> {
            let params = Params::new().with("units", units).with("cpus", 4);
            let names = on_all_cpus(&params, all).into_iter();
            names.map(|params| params.to_string()).collect()
        };
        assert_eq!(on(8, Some(4)), ["units=8,cpus=all", "units=2×all,cpus=all"]);
        assert_eq!(on(4, Some(4)), ["units=4,cpus=all", "units=all,cpus=all"]);
        assert_eq!(on(6, Some(4)), ["units=6,cpus=all"]);
        assert_eq!(on(0, Some(4)), ["units=0,cpus=all"]);
        for other in [Some(8), Some(0), None] {
            assert_eq!(on(8, other), [""; 0], "{other:?}");
        }
    }

    #[test]
    fn the_number_of_all_cpus_is_said_so_where_it_is_one_of_cpus_and_several() {
        let named = |params: Params, all| with_all_cpus(&params, Some(all)).to_string();
        let few = Params::new().with("cpus", 2).with("server_cpus", 4);
        assert_eq!(named(few, 4), "cpus=2,server_cpus=all");
        assert_eq!(named(Params::new().with("n", 4), 4), "n=4");
        let one = Params::new().with("cpus", 1);
        assert_eq!(with_all(&one, Some(1)).to_string(), "cpus=all");
        assert_eq!(named(one, 1), "cpus=1");
    }

    #[test]
    fn a_side_is_called_by_all_cpus_in_its_cases_samples_and_reference() {
        let on = [2_u64, 1].map(|cpus| Params::new().with("cpus", cpus));
        let run = on_cpus(timed("a", &[(1, 100.0), (2, 200.0)], 1.0), 2, on);
        let side = named_by_all_cpus(&Repeated::once(run));
        let run = &side.runs[0];
        let [all, one] = ["e/cpus=all", "e/cpus=1"];
        let experiment = &run.results.experiments[0];
        let ids = experiment.cases.iter().map(|case| case.id.as_str());
        assert_eq!(ids.collect::<Vec<_>>(), [all, one]);
        assert_eq!(experiment.cases[0].params.int("cpus"), Some(2));
        assert_eq!(experiment.reference.as_deref(), Some(all));
        let of_samples = run.samples["e"].iter().map(|sample| sample.case.as_str());
        assert_eq!(of_samples.take(3).collect::<Vec<_>>(), [all, one, all]);
    }
}
