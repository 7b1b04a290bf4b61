//! The highest load that passes a test: doubling, bisection, three confirmations.

/// How near the highest that passes and the lowest that fails must come, as a ratio.
const NEAR: f64 = 1.05;
/// How often the end is tried again. All of them must pass.
const CONFIRMATIONS: u32 = 3;
/// How far it goes back where they do not.
const BACK: f64 = 0.95;
/// How far under the first load it looks, in halvings, and how often it goes back.
const MOST_STEPS: u32 = 12;

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The highest load that passed, and was confirmed; `None` where there was none.
    pub highest: Option<f64>,
    /// The lowest that failed; `None` where the highest allowed passed.
    pub failed: Option<f64>,
    /// How many loads were tried.
    pub trials: u32,
}

/// Searches from `first` up to `most` and down to `least`, by `passes`, which is given a load and tries it.
///
/// # Errors
///
/// The first of `passes`.
pub fn find_max<E>(
    first: f64,
    least: f64,
    most: f64,
    mut passes: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Search, E> {
    let mut search = Search {
        highest: None,
        failed: None,
        trials: 0,
    };
    let mut trial = |search: &mut Search, load: f64| -> Result<bool, E> {
        search.trials += 1;
        let passed = passes(load)?;
        match passed {
            true => search.highest = Some(search.highest.map_or(load, |highest| highest.max(load))),
            false => search.failed = Some(load),
        }
        Ok(passed)
    };
    let mut load = first.min(most);
    for _ in 0..MOST_STEPS {
        if trial(&mut search, load)? {
            break;
        }
        load /= 2.0;
        if load < least {
            break;
        }
    }
    while let (Some(highest), None) = (search.highest, search.failed) {
        if highest >= most {
            break;
        }
        trial(&mut search, (2.0 * highest).min(most))?;
    }
    while let (Some(highest), Some(failed)) = (search.highest, search.failed) {
        if failed / highest <= NEAR {
            break;
        }
        trial(&mut search, (highest * failed).sqrt())?;
    }
    let mut back = 0;
    while let Some(highest) = search.highest {
        let mut confirmed = 0;
        while confirmed < CONFIRMATIONS && trial(&mut search, highest)? {
            confirmed += 1;
        }
        if confirmed == CONFIRMATIONS {
            break;
        }
        back += 1;
        search.highest = (back < MOST_STEPS).then_some(BACK * highest);
    }
    Ok(search)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn search(first: f64, most: f64, mut passes: impl FnMut(f64) -> bool) -> Search {
        find_max(first, 0.0, most, |load| Ok::<_, Infallible>(passes(load))).unwrap()
    }

    #[test]
    fn it_comes_within_five_percent_from_above_and_from_below() {
        for first in [1.0, 900.0, 1_000.0, 100_000.0] {
            let found = search(first, 1e9, |load| load <= 1_234.0);
            let highest = found.highest.unwrap();
            assert!((1_234.0 / NEAR..=1_234.0).contains(&highest), "{found:?}");
            assert!(found.failed.is_some_and(|failed| failed > 1_234.0));
            assert!(found.trials < 40, "{found:?}");
        }
    }

    #[test]
    fn what_does_not_confirm_goes_back() {
        let mut tried = Vec::new();
        // Passes once where it should not.
        let found = search(1_000.0, 1e9, |load| {
            let again = tried.contains(&load.to_bits());
            tried.push(load.to_bits());
            load <= 1_000.0 || (load < 1_100.0 && !again)
        });
        assert!(
            found.highest.is_some_and(|highest| highest <= 1_000.0),
            "{found:?}"
        );
    }

    #[test]
    fn all_or_nothing_passes() {
        let all = search(100.0, 1_000.0, |_| true);
        assert_eq!((all.highest, all.failed), (Some(1_000.0), None));
        let none = search(100.0, 1_000.0, |_| false);
        assert_eq!(none.highest, None);
        assert_eq!(none.trials, MOST_STEPS);
        let none = find_max(100.0, 30.0, 1_000.0, |_| Ok::<_, Infallible>(false)).unwrap();
        assert_eq!(
            (none.failed, none.trials),
            (Some(50.0), 2),
            "25 is under the least"
        );
    }
}
