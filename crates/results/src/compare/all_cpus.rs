//! What has all CPUs of its machine, beside what has all of a machine with more of them or fewer.
//!
//! The parameters of such cases differ, since they say how many CPUs there are. That the number of all is said so is the
//! rule of claims about two states; here are the names that a case has by it.

use super::states::with_all_cpus;
use crate::Params;

/// Parameters that say how many units share the CPUs.
const UNITS: [&str; 2] = ["units", "threads"];

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

#[cfg(test)]
mod tests {
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
}
