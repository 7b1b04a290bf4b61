//! What a colour and a mark mean in the whole report, by the first word of a series' name.

use threadgauge_results::{Origin, Series};

/// Meanings by their words. The place of a meaning is its colour and its mark.
const MEANINGS: [&[&str]; 5] = [
    &["thread", "threads", "pthread", "pinned threads"],
    &["process", "processes", "fork", "helper processes"],
    &["pool"],
    &["reactor"],
    &["coroutines"],
];
/// The colours and the marks there are.
const LOOKS: usize = 8;

/// The place of the meaning of a series, if it has one of those of the whole report.
pub(super) fn of(name: &str) -> Option<usize> {
    let begins = |words: &&str| {
        let rest = name.strip_prefix(*words);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',', ':']))
    };
    MEANINGS.iter().position(|words| words.iter().any(begins))
}

/// The colour and the mark of each series of a chart. A meaning has its colour in every chart, and its first series
/// its mark; further ones have the same colour and another mark. What has none of these meanings has what is left.
pub(super) fn looks(series: &[Series]) -> Vec<(usize, usize)> {
    let meanings: Vec<Option<usize>> = series.iter().map(|series| of(&series.name)).collect();
    let mut colours: Vec<usize> = meanings.iter().flatten().copied().collect();
    let mut marks = Vec::new();
    // First those that mean nothing in other charts.
    let free = |taken: &[usize]| {
        (MEANINGS.len()..LOOKS)
            .chain(0..MEANINGS.len())
            .find(|look| !taken.contains(look))
    };
    let mut looks = vec![(0, 0); series.len()];
    for (i, meaning) in meanings.iter().enumerate() {
        if let Some(meaning) = *meaning {
            looks[i] = (meaning, meaning);
            marks.push(meaning);
        }
    }
    let mut seen = Vec::new();
    // Theory is grey, and has a mark of its own.
    let ours = meanings.iter().enumerate();
    for (i, meaning) in ours.filter(|(i, _)| series[*i].origin != Origin::Ideal) {
        let (colour, mark) = match *meaning {
            Some(meaning) if !seen.contains(&(meaning, series[i].origin)) => {
                seen.push((meaning, series[i].origin));
                continue;
            }
            Some(meaning) => (meaning, free(&marks).unwrap_or(i % LOOKS)),
            None => (
                free(&colours).unwrap_or(i % LOOKS),
                free(&marks).unwrap_or(i % LOOKS),
            ),
        };
        colours.push(colour);
        marks.push(mark);
        looks[i] = (colour, mark);
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meaning_has_its_colour_wherever_it_is_and_others_have_what_is_left() {
        let named = |names: &[&str]| {
            let series = |name: &&str| Series {
                name: (*name).to_owned(),
                origin: Origin::Measured,
                points: Vec::new(),
            };
            looks(&names.iter().map(series).collect::<Vec<_>>())
        };
        assert_eq!(named(&["process", "thread"]), [(1, 1), (0, 0)]);
        assert_eq!(
            named(&[
                "thread on one CPU",
                "thread on 2 CPUs",
                "floor",
                "process: works again"
            ]),
            [(0, 0), (0, 5), (5, 6), (1, 1)]
        );
        assert_eq!(
            named(&["thread-per-connection", "reactor-per-core"]),
            [(5, 5), (6, 6)]
        );
    }
}
