//! What several tries of a sample make: the sample is the least disturbed of them.

use threadgauge_results::{Status, StoredSample};

/// How many workers a sample is the least of.
const TRIES: &str = "tries";
/// The greatest of their values over the one that was kept.
const GREATEST_TO_LEAST: &str = "greatest_to_least";

/// Whether a sample has had all its tries. One that fails stands for all.
pub fn is_complete(stored: &StoredSample, tries: u32) -> bool {
    stored.sample.status != Status::Ok || tries_of(stored) >= f64::from(tries)
}

pub fn tries_of(stored: &StoredSample) -> f64 {
    stored.sample.noise.get(TRIES).copied().unwrap_or(1.0)
}

/// What a sample is after one more try: the one with the least `metric`, of those that were undisturbed where there are any.
/// The time is that of all tries.
pub fn least_of(so_far: StoredSample, tried: StoredSample, metric: &str) -> StoredSample {
    let tries = tries_of(&so_far) + 1.0;
    let wall_ns = so_far.wall_ns.saturating_add(tried.wall_ns);
    let (Some(least), Some(value)) = (so_far.sample.value(metric), tried.sample.value(metric)) else {
        return StoredSample { wall_ns, ..tried };
    };
    let spread = so_far.sample.noise.get(GREATEST_TO_LEAST).copied().unwrap_or(1.0);
    let greatest = (least * spread).max(value);
    let better = match (so_far.gated, tried.gated) {
        (false, true) => false,
        (true, false) => true,
        _ => value < least,
    };
    let (mut kept, least) = if better { (tried, value) } else { (so_far, least) };
    kept.wall_ns = wall_ns;
    kept.sample.noise.insert(TRIES.to_owned(), tries);
    kept.sample
        .noise
        .insert(GREATEST_TO_LEAST.to_owned(), greatest / least);
    kept
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use threadgauge_results::{Metric, Sample};

    use super::*;

    pub fn tried(ns: f64, gated: bool) -> StoredSample {
        let metric = Metric {
            name: "ns".to_owned(),
            unit: "ns".to_owned(),
            value: ns,
        };
        StoredSample {
            experiment: "e".to_owned(),
            case: "e/a=1".to_owned(),
            round: 1,
            copy: 0,
            attempt: 0,
            gated,
            started: String::new(),
            wall_ns: 5,
            sample: Sample {
                status: Status::Ok,
                reason: None,
                tags: Vec::new(),
                metrics: vec![metric],
                noise: BTreeMap::new(),
            },
        }
    }

    pub fn of(tries: &[(f64, bool)]) -> StoredSample {
        let all = tries.iter().map(|(ns, gated)| tried(*ns, *gated));
        all.reduce(|so_far, next| least_of(so_far, next, "ns")).unwrap()
    }

    #[test]
    fn a_sample_is_the_least_of_its_tries_and_took_all_their_time() {
        let sample = of(&[(12.0, false), (10.0, false), (15.0, false)]);
        assert_eq!(sample.sample.value("ns"), Some(10.0));
        assert_eq!((tries_of(&sample), sample.wall_ns), (3.0, 15));
        assert!((sample.sample.noise[GREATEST_TO_LEAST] - 1.5).abs() < 1e-12);
        assert!(is_complete(&sample, 3) && !is_complete(&sample, 4));
    }

    #[test]
    fn a_disturbed_try_counts_only_where_all_were() {
        let sample = of(&[(10.0, true), (14.0, false), (12.0, false), (9.0, true)]);
        assert_eq!((sample.sample.value("ns"), sample.gated), (Some(12.0), false));
        let sample = of(&[(10.0, true), (9.0, true)]);
        assert_eq!((sample.sample.value("ns"), sample.gated), (Some(9.0), true));
    }

    #[test]
    fn a_try_that_fails_stands_for_all() {
        let failed = StoredSample {
            sample: Sample::without_figures(Status::Failed, "refused".to_owned()),
            ..tried(0.0, false)
        };
        let sample = least_of(of(&[(10.0, false), (11.0, false)]), failed, "ns");
        assert_eq!((sample.sample.status, sample.wall_ns), (Status::Failed, 15));
        assert!(is_complete(&sample, 5));
    }
}
