//! The CPUs that a run had, as its document has them.

use serde_json::Value;

use crate::Results;

impl Results {
    /// How many CPUs the run had: those that it was given by `--cpus`, else all that it might use. A machine may have
    /// more.
    #[must_use]
    pub fn cpus(&self) -> Option<u64> {
        let of_machine = || self.machine.get("cpus").and_then(Value::as_u64);
        ranges_of(self).map(how_many).or_else(of_machine)
    }
}

/// The CPUs of a run: those that it was given, else all that it might use.
pub(super) fn ranges_of(run: &Results) -> Option<Vec<[u64; 2]>> {
    let mut options = run.run.options.iter();
    let given = options.find_map(|option| option.strip_prefix("--cpus "));
    let allowed = || run.machine.get("allowed_cpus").and_then(Value::as_str);
    ranges(given.or_else(allowed)?)
}

/// A list of CPUs as the kernel writes it, `0,2-3`: the first and the last of each range. It is not written out, since
/// others may have made the document.
pub(super) fn ranges(list: &str) -> Option<Vec<[u64; 2]>> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some([first.parse().ok()?, last.parse().ok()?])
    };
    list.split(',').map(range).collect()
}

/// How many CPUs these ranges have; one that ends before it begins has none.
pub(super) fn how_many(ranges: impl IntoIterator<Item = [u64; 2]>) -> u64 {
    let cpus = |[first, last]: [u64; 2]| last.saturating_add(1).saturating_sub(first);
    ranges.into_iter().map(cpus).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::made::timed;
    use super::*;

    #[test]
    fn a_run_had_the_cpus_that_it_was_given_else_those_that_it_might_use_else_the_machines() {
        let mut of = timed("a", &[(1, 100.0)], 1.0).results;
        of.run.options = vec!["create".to_owned(), "--cpus 0,2-3".to_owned()];
        of.machine = json!({"cpus": 16, "allowed_cpus": "0-3,8"});
        assert_eq!(of.cpus(), Some(3));
        of.run.options.pop();
        assert_eq!(of.cpus(), Some(5));
        of.machine = json!({"cpus": 16, "allowed_cpus": null});
        assert_eq!(of.cpus(), Some(16));
        of.machine = json!({});
        assert_eq!(of.cpus(), None);
    }

    #[test]
    fn a_list_that_others_made_is_not_written_out() {
        assert_eq!(how_many(ranges("0-18446744073709551615,3-1").unwrap()), u64::MAX);
    }
}
