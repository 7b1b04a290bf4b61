//! Runs from before groups had a size and links a rate: what they lack is added for what is shown, and taken off again
//! where their own cases are named. Of claims they decide nothing: their clients waited for each message.

use threadgauge_lab::point::Parameter as _;
use threadgauge_lab::prelude::*;
use threadgauge_lab::view::Cases;

use super::case::REACTOR;

/// The parameters that they lack.
const ADDED: [&str; 2] = ["group", "link"];

/// All cases of the run, with the parameters of today.
pub(super) fn completed(view: &View<'_>) -> Cases {
    let mut cases = view.cases.clone();
    for case in cases.get_mut(view.experiment).into_iter().flatten() {
        if is_from_before(&case.params) {
            let params = std::mem::take(&mut case.params);
            case.params = params
                .with(ADDED[0], REACTOR.group.value())
                .with(ADDED[1], REACTOR.link.value());
        }
    }
    cases
}

fn is_from_before(params: &Params) -> bool {
    ADDED.iter().all(|name| params.get(name).is_none())
}

/// As this run has it.
fn as_stored(view: &View<'_>, params: Params) -> Params {
    match view.planned(Params::new()).any(is_from_before) {
        true => params
            .iter()
            .filter(|(name, _)| !ADDED.contains(name))
            .fold(Params::new(), |kept, (name, value)| {
                kept.with(name, value.clone())
            }),
        false => params,
    }
}

/// These pairs, as this run has their cases.
pub(super) fn pairs(view: &View<'_>, pairs: Vec<Pair>) -> Vec<Pair> {
    let stored = |params| as_stored(view, params);
    let pair = |Pair { a, b }| Pair {
        a: stored(a),
        b: stored(b),
    };
    pairs.into_iter().map(pair).collect()
}

/// These rankings, as this run has their cases.
pub(super) fn rankings(view: &View<'_>, rankings: Vec<(String, Vec<Params>)>) -> Vec<(String, Vec<Params>)> {
    let ranking = |(title, cases): (String, Vec<Params>)| {
        let cases = cases.into_iter().map(|params| as_stored(view, params));
        (title, cases.collect())
    };
    rankings.into_iter().map(ranking).collect()
}
