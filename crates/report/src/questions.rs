//! What people ask first, answered in words from a run's costs and verdicts.
//!
//! *Can this run be trusted?* is answered by [`Trust`](threadgauge_results::Trust), above all. The others are here. The
//! figures are those of the costs, so that no answer differs from the list of costs.

use threadgauge_results::units::with_unit;
use threadgauge_results::{Act, Claim, Cost, Results, Verdict};

use crate::{costs, sayings, words};

/// A question with its answer.
pub(crate) struct Answered {
    /// As people ask it.
    pub question: &'static str,
    /// In words; none where the run did not measure it.
    pub answer: Option<String>,
    /// The sayings that the answer names after its words.
    pub sayings: Vec<&'static Claim>,
    /// How many more it could name.
    pub more: usize,
    /// The experiment that measures it; none where any may.
    pub experiment: Option<&'static str>,
}

/// From so many threads on a process is called dear.
const DEAR: f64 = 2.0;
/// From so much more work on a second CPU is said to help.
const HELPS: f64 = 0.1;

/// How many sayings that are wrong are named.
const NAMED: usize = 3;

/// All of them, in their order.
pub(crate) fn asked(results: &Results) -> [Answered; 4] {
    let of = |question, answer, experiment| Answered {
        question,
        answer,
        sayings: Vec::new(),
        more: 0,
        experiment: Some(experiment),
    };
    [
        of("Is a process dear here?", is_a_process_dear(results), "create"),
        of(
            "Does a second CPU help?",
            does_a_second_cpu_help(results),
            "oversubscription",
        ),
        of(
            "How many threads before it hurts?",
            how_many_threads(results),
            "oversubscription",
        ),
        which_is_wrong(results),
    ]
}

/// What a process and a thread cost, for the same.
fn pair(results: &Results, act: Act) -> Option<[&Cost; 2]> {
    let of = |kind: &str, what: Option<&str>| {
        costs::all(results).find(|cost| {
            cost.act() == Some(act) && cost.kind == kind && what.is_none_or(|what| cost.what == what)
        })
    };
    let process = of("process", None)?;
    Some([process, of("thread", Some(&process.what))?])
}

/// Whether the intervals of two meet, so that nothing is said of a difference.
fn meet(a: &Cost, b: &Cost) -> bool {
    let (Some([low_a, high_a]), Some([low_b, high_b])) = (a.ci95, b.ci95) else {
        return false;
    };
    low_a <= high_b && low_b <= high_a
}

fn is_a_process_dear(results: &Results) -> Option<String> {
    let acts = [Act::Make, Act::Keep, Act::Switch];
    let pairs: Vec<(Act, [&Cost; 2])> = acts
        .iter()
        .filter_map(|act| Some((*act, pair(results, *act)?)))
        .collect();
    let figure = |cost: &Cost| with_unit(cost.value, None, &cost.unit);
    let parts = pairs.iter().map(|(act, [process, thread])| {
        let is_alike = meet(process, thread);
        let [process, thread] = [process, thread].map(|cost| figure(cost));
        let says = match act {
            Act::Make => format!("making and ending one takes {process}, a thread {thread}"),
            Act::Keep => format!("an idle one keeps {process}, a thread {thread}"),
            _ => format!("a switch to one takes {process}, to a thread {thread}"),
        };
        match is_alike {
            true => format!("{says}, and their intervals meet"),
            false => says,
        }
    });
    let is_dear = pairs
        .iter()
        .any(|(_, [process, thread])| process.value >= DEAR * thread.value);
    let parts: Vec<String> = parts.collect();
    let word = if is_dear { "Yes" } else { "Hardly" };
    (!parts.is_empty()).then(|| format!("{word}: {}.", parts.join("; ")))
}

fn cost<'a>(results: &'a Results, what: &str) -> Option<&'a Cost> {
    costs::all(results).find(|cost| cost.what == what)
}

fn does_a_second_cpu_help(results: &Results) -> Option<String> {
    let gain = cost(results, "gain of a second CPU")?;
    let word = if gain.value >= HELPS { "Yes" } else { "Hardly" };
    let figure = with_unit(gain.value, gain.ci95, &gain.unit);
    Some(format!(
        "{word}: on average it adds {figure} to what one does ({}s: {}).",
        gain.kind, gain.how
    ))
}

fn how_many_threads(results: &Results) -> Option<String> {
    let dear = cost(results, "number from which work takes 10 % longer")?;
    Some(format!(
        "From {} on that only compute, and never yield, work takes 10 % longer ({}).",
        with_unit(dear.value, None, &dear.unit),
        dear.how
    ))
}

/// By name, the most surprising first, in the order of the cards.
fn which_is_wrong(results: &Results) -> Answered {
    let is_wrong = |verdict: Verdict| verdict == Verdict::DoesNotHold;
    let decided = words::decided(results);
    let wrong: Vec<&Claim> = (decided.iter())
        .filter(|(_, verdict, _)| is_wrong(*verdict))
        .map(|(claim, ..)| *claim)
        .collect();
    // Those that a second condition refutes have no figure that says so, and come last.
    let by_figure = sayings::all(results).into_iter();
    let mut named: Vec<&Claim> = by_figure
        .filter(|of| is_wrong(of.verdict))
        .map(|of| of.claim)
        .collect();
    let by_words: Vec<&Claim> = (wrong.iter().copied())
        .filter(|claim| !named.contains(claim))
        .collect();
    named.extend(by_words);
    named.truncate(NAMED);
    let answer = match (wrong.len(), decided.len()) {
        (_, 0) => "This run decides none.".to_owned(),
        (0, 1) => "None: the one that this run decided holds.".to_owned(),
        (0, all) => format!("None of the {all} that this run decided."),
        _ => String::new(),
    };
    Answered {
        question: "Which saying is wrong here?",
        answer: Some(answer),
        more: wrong.len() - named.len(),
        sayings: named,
        experiment: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_touch_meet_and_without_one_nothing_is_said() {
        let cost = |ci95| Cost::new(("switch", "thread"), "", (2.0, ci95), "ns");
        let of = |a, b| meet(&cost(Some(a)), &cost(Some(b)));
        assert!(of([1.0, 2.0], [2.0, 3.0]) && of([2.0, 3.0], [1.0, 2.0]) && of([1.0, 9.0], [2.0, 3.0]));
        assert!(!of([1.0, 1.9], [2.0, 3.0]) && !of([2.0, 3.0], [1.0, 1.9]));
        assert!(!meet(&cost(None), &cost(Some([1.0, 9.0]))));
    }
}
