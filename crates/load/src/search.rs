//! The highest load that passes a test: doubling, bisection, three confirmations.

/// How near the highest that passes and the lowest that fails must come, as a ratio.
const NEAR: f64 = 1.05;
/// How often the end is tried again. All of them must pass.
const CONFIRMATIONS: u32 = 3;
/// How far it goes back where they do not.
const BACK: f64 = 0.95;
/// How far under the first load it looks, in halvings, and how often it goes back.
const MOST_STEPS: u32 = 12;

/// What a search has found until now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// The highest load that passed and did not fail after that; `None` where there was none. Where the search came to
    /// its end it was confirmed.
    pub highest: Option<f64>,
    /// The lowest that failed; `None` where none did.
    pub failed: Option<f64>,
    /// Whether the search came to its end.
    pub is_over: bool,
}

impl Search {
    /// Searches from `first` up to `most` and down to `least`, by `passes`, which is given a load and tries it. What
    /// was found before an error stays.
    ///
    /// # Errors
    ///
    /// The first of `passes`.
    pub fn find_max<E>(
        &mut self,
        first: f64,
        least: f64,
        most: f64,
        mut passes: impl FnMut(f64) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut passed = Vec::new();
        let mut trial = |search: &mut Self, load: f64| -> Result<bool, E> {
            let is_passed = passes(load)?;
            match is_passed {
                true => passed.push(load),
                false => {
                    search.failed = Some(load);
                    // One that passed once and then failed did not pass.
                    passed.retain(|&before| before < load);
                }
            }
            search.highest = passed.iter().copied().max_by(f64::total_cmp);
            Ok(is_passed)
        };
        let mut load = first.min(most);
        for _ in 0..MOST_STEPS {
            if trial(self, load)? {
                break;
            }
            load /= 2.0;
            if load < least {
                break;
            }
        }
        while let (Some(highest), None) = (self.highest, self.failed) {
            if highest >= most {
                break;
            }
            trial(self, (2.0 * highest).min(most))?;
        }
        while let (Some(highest), Some(failed)) = (self.highest, self.failed) {
            if failed / highest <= NEAR {
                break;
            }
            trial(self, (highest * failed).sqrt())?;
        }
        let mut confirmed = self.highest;
        let mut back = 0;
        while let Some(load) = confirmed {
            let mut times = 0;
            while times < CONFIRMATIONS && trial(self, load)? {
                times += 1;
            }
            if times == CONFIRMATIONS {
                break;
            }
            back += 1;
            confirmed = (back < MOST_STEPS).then_some(BACK * load);
        }
        self.highest = confirmed;
        self.is_over = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// What was found, and by how many trials.
    fn find([first, least, most]: [f64; 3], mut passes: impl FnMut(f64) -> bool) -> (Search, u32) {
        let (mut search, mut trials) = (Search::default(), 0);
        let found = search.find_max(first, least, most, |load| {
            trials += 1;
            Ok::<_, Infallible>(passes(load))
        });
        found.unwrap();
        assert!(search.is_over);
        (search, trials)
    }

    #[test]
    fn it_comes_within_five_percent_from_above_and_from_below() {
        for first in [1.0, 900.0, 1_000.0, 100_000.0] {
            let (found, trials) = find([first, 0.0, 1e9], |load| load <= 1_234.0);
            let highest = found.highest.unwrap();
            assert!((1_234.0 / NEAR..=1_234.0).contains(&highest), "{found:?}");
            assert!(found.failed.is_some_and(|failed| failed > 1_234.0));
            assert!(trials < 40, "{found:?}");
        }
    }

    #[test]
    fn what_does_not_confirm_goes_back() {
        let mut tried = Vec::new();
        // Passes once where it should not.
        let (found, _) = find([1_000.0, 0.0, 1e9], |load| {
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
    fn what_never_confirms_is_given_up() {
        // The most passes once, and nothing after it.
        let mut is_first = true;
        let (found, trials) = find([1_000.0, 0.0, 1_000.0], |_| std::mem::take(&mut is_first));
        assert_eq!((found.highest, trials), (None, 1 + MOST_STEPS));
    }

    #[test]
    fn one_that_an_error_ends_after_a_confirmation_failed_does_not_contradict_itself() {
        let (mut search, mut answers) = (Search::default(), [true, true, false].into_iter());
        // The most passes once and is not confirmed.
        let ended = search.find_max(500.0, 0.0, 1_000.0, |_| answers.next().ok_or("interrupted"));
        assert_eq!(ended, Err("interrupted"));
        let found = Search {
            highest: Some(500.0),
            failed: Some(1_000.0),
            is_over: false,
        };
        assert_eq!(search, found);
    }

    #[test]
    fn all_or_nothing_passes() {
        let (all, _) = find([100.0, 0.0, 1_000.0], |_| true);
        assert_eq!((all.highest, all.failed), (Some(1_000.0), None));
        let (none, trials) = find([100.0, 0.0, 1_000.0], |_| false);
        assert_eq!((none.highest, trials), (None, MOST_STEPS));
        let (none, trials) = find([100.0, 30.0, 1_000.0], |_| false);
        assert_eq!((none.failed, trials), (Some(50.0), 2), "25 is under the least");
    }

    #[test]
    fn one_that_an_error_ends_keeps_what_it_found_and_invents_nothing() {
        let mut search = Search::default();
        let ended = search.find_max(100.0, 0.0, 1e9, |load| match load < 500.0 {
            true => Ok(true),
            false => Err("the server is gone"),
        });
        assert_eq!(ended, Err("the server is gone"));
        let found = Search {
            highest: Some(400.0),
            failed: None,
            is_over: false,
        };
        assert_eq!(search, found);
    }
}
