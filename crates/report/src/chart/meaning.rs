//! What a colour and a mark mean in the whole report, by the words of a series' name.
//!
//! A name has a *kind* (a thread, a design of a server, a lock), a *degree* (so many CPUs, connections, KiB), or
//! both, and words that qualify them. A kind has a hue and a mark of its own. Degrees are ordered, and so are their
//! colours: a ramp from the least to the most. How many CPUs there are, and what qualifies, changes the mark of a
//! kind alone, so that a thread is blue on one CPU and on 16. Published figures and theory have the colour of what
//! they are of. The words of a new experiment belong into these tables; what has none there gets what is left in its
//! chart.

use threadgauge_results::{Origin, Series};

use super::mark::{
    CIRCLE, CROSS, Colour, DIAMOND, DOWN, HOURGLASS, MARKS, PLUS, RIBBON, RIGHT, SQUARE, STAR, STEPS, UP,
};

/// Kinds: words that a name begins with, the hue, the mark. Blue is a thread, orange a process, and nothing else.
const KINDS: [(&str, usize, usize); 61] = [
    // Units.
    (
        "thread|threads|a thread|one thread|pthread|pinned threads",
        1,
        CIRCLE,
    ),
    ("process|processes|one process|fork|helper processes", 2, SQUARE),
    ("pool|reactor-pool|JAWS-O", 3, UP),
    ("reactor", 4, DIAMOND),
    ("coroutine|coroutines", 5, DOWN),
    ("one asynchronous thread", 3, RIBBON),
    // Ways of making a process.
    ("clone-vm", 6, DIAMOND),
    ("posix_spawn", 7, UP),
    ("fork-exec", 8, DIAMOND),
    ("vfork", 5, CIRCLE),
    // Designs of servers.
    ("iterative", 8, CIRCLE),
    ("process-per-connection", 2, SQUARE),
    ("preforked-accept", 2, CIRCLE),
    ("preforked-file-lock", 2, UP),
    ("preforked-mutex", 2, DIAMOND),
    ("preforked-descriptor", 2, DOWN),
    ("preforked-reuseport", 2, STAR),
    ("thread-per-connection", 1, CIRCLE),
    ("prethreaded-mutex", 1, SQUARE),
    ("prethreaded-acceptor", 1, UP),
    ("one-handler-reactor|JAWS-B", 6, STAR),
    ("split-reactor", 5, PLUS),
    ("reactor-per-core", 8, SQUARE),
    ("proactor", 7, DOWN),
    ("leader-followers", 3, DOWN),
    ("half-sync-half-async", 7, SQUARE),
    // Locks, and what does without.
    ("mutex", 6, SQUARE),
    ("spin", 8, UP),
    ("rwlock", 7, DIAMOND),
    ("atomic", 3, CIRCLE),
    ("sharded", 4, DOWN),
    ("plain", 5, STAR),
    // Servers and programs.
    ("threadgauge|this machine", 6, CIRCLE),
    ("C programs|C", 7, PLUS),
    ("floor", 8, DOWN),
    ("nats-server|nginx", 3, STAR),
    ("redis-server", 7, HOURGLASS),
    ("mosquitto", 4, UP),
    ("uws_groups|nginx-file", 5, DIAMOND),
    // The order of computations.
    ("serial|one after the other", 6, DOWN),
    ("concurrent|at once", 7, CIRCLE),
    ("one queue", 6, PLUS),
    ("a counter for each", 7, STAR),
    // What a thread does after its slice, and systems that were measured so.
    ("yield|a yield after each message", 6, HOURGLASS),
    ("neither|no yield", 5, UP),
    ("sleep", 8, STAR),
    ("NT 4 Server|averaged", 3, DIAMOND),
    ("2000|Windows 2000 alone", 4, CIRCLE),
    ("XP|98 SE", 5, SQUARE),
    // Who uses a CPU.
    ("server|the server's", 6, UP),
    ("server: only writes|shared", 5, HOURGLASS),
    ("clients|the clients'", 8, PLUS),
    // How files are read, how threads wait, and whether a part fails.
    ("one thread with io_uring", 8, HOURGLASS),
    ("4 KiB from the device", 3, SQUARE),
    ("4 KiB from the page cache", 4, STAR),
    ("epoll|no crash", 3, PLUS),
    ("poll", 4, HOURGLASS),
    ("select", 8, RIBBON),
    ("futex|crash", 4, PLUS),
    ("uniform", 3, HOURGLASS),
    ("mixed", 4, SQUARE),
];

/// Words that change the mark of a kind or of a degree, wherever they stand.
const QUALIFIERS: [(&str, usize); 18] = [
    ("made up front", RIGHT),
    ("pinned", RIGHT),
    ("in shared memory", RIGHT),
    ("stack of", RIBBON),
    ("matched slice", RIGHT),
    ("over a memory map", RIGHT),
    ("by chance", RIGHT),
    ("C, ", SQUARE),
    ("that nap", CROSS),
    ("that do not", CROSS),
    ("matrix", CROSS),
    ("huge pages", CROSS),
    ("works again", CROSS),
    (", long", CROSS),
    ("wakes all", CROSS),
    ("the shortest first", CROSS),
    ("CPU-bound", CROSS),
    ("99th percentile", CROSS),
];

/// Words for the place in a distribution, from the middle to the end, with their step.
const PLACES: [(&str, usize); 3] = [("median", 0), ("99th percentile", 3), ("largest", STEPS - 1)];

/// In what degrees are counted, besides CPUs.
const UNITS: [&str; 6] = ["KiB", "connections", "threads", "at once", "% inside", "%"];

/// The hues in the order in which what has no meaning takes them.
const LEFT: [usize; 8] = [6, 7, 8, 3, 4, 5, 1, 2];

/// The colour and the mark of each series of a chart.
pub(super) fn looks(series: &[Series]) -> Vec<(Colour, usize)> {
    let bases: Vec<&str> = series.iter().map(|series| base(&series.name)).collect();
    let mut looks: Vec<Option<(Colour, usize)>> = bases.iter().map(|name| known(name, &bases)).collect();
    for i in 0..series.len() {
        let taken = || looks.iter().flatten();
        let hue = LEFT
            .map(Colour::Hue)
            .into_iter()
            .find(|hue| !taken().any(|look| look.0 == *hue));
        let mark = (0..MARKS).find(|mark| !taken().any(|look| look.1 == *mark));
        let left = if series[i].origin == Origin::Ideal {
            (Colour::Grey, CIRCLE)
        } else {
            (
                hue.unwrap_or(Colour::Hue(LEFT[i % LEFT.len()])),
                mark.unwrap_or(i % MARKS),
            )
        };
        let same = (0..i)
            .find(|other| bases[*other] == bases[i])
            .and_then(|other| looks[other]);
        looks[i] = looks[i].or(same).or(Some(left));
    }
    let mut looks: Vec<(Colour, usize)> = looks.into_iter().flatten().collect();
    // Two of one look have another mark each.
    for i in 1..series.len() {
        let others = || (0..i).filter(|other| series[*other].origin == series[i].origin);
        let is_taken = |mark: usize| others().any(|other| looks[other] == (looks[i].0, mark));
        if is_taken(looks[i].1) {
            looks[i].1 = (0..MARKS)
                .rev()
                .find(|mark| !is_taken(*mark))
                .unwrap_or(looks[i].1);
        }
    }
    looks
}

/// The colour and the mark of what a row is called after, if that is a kind.
pub(super) fn of_row(name: &str) -> Option<(Colour, usize)> {
    kind(name).map(|(hue, mark)| (Colour::Hue(hue), mark))
}

/// The look that the tables give a name, in a chart with these.
fn known(name: &str, all: &[&str]) -> Option<(Colour, usize)> {
    let (step, kind) = (step(name, all), kind(name));
    let (of_cpus, counted) = cpus(name).map(of_cpus).unzip();
    let colour = (step.map(Colour::Step))
        .or(kind.map(|(hue, _)| Colour::Hue(hue)))
        .or(of_cpus.map(Colour::Step))?;
    let own = step.map(|step| [CIRCLE, SQUARE, UP, DIAMOND, DOWN, STAR][step]);
    let own = own.or(kind.map(|(_, mark)| mark)).unwrap_or(CIRCLE);
    let mut qualifiers = QUALIFIERS.iter().filter(|(words, _)| name.contains(words));
    let qualified = qualifiers.next().map(|(_, mark)| *mark);
    let mark = nth_cpu(name).or(qualified).or(counted.flatten()).unwrap_or(own);
    Some((colour, mark))
}

/// A name without whose figures they are, and without that they are theory.
fn base(name: &str) -> &str {
    let name = name.strip_prefix("model, ").unwrap_or(name);
    let name = name
        .strip_suffix(" at no cost")
        .or_else(|| name.strip_suffix(", law"))
        .unwrap_or(name);
    let theirs = name
        .strip_prefix("source")
        .and_then(|rest| rest.split_once([',', ':']));
    match theirs {
        Some((id, of)) if id.trim().chars().all(|c| c.is_ascii_digit()) => of.trim_start(),
        _ => name,
    }
}

/// The parts of a name.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split([',', ':']).map(str::trim)
}

/// The hue and the mark of the kind that a name says first, of the longest words for it.
fn kind(name: &str) -> Option<(usize, usize)> {
    let name = name
        .strip_prefix("CPU-")
        .and_then(|rest| rest.split_once('-'))
        .map_or(name, |(_, rest)| rest);
    let begins = |part: &str, words: &str| {
        let rest = part.strip_prefix(words);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',', ':']))
    };
    let longest = |part: &str| {
        let all = KINDS
            .iter()
            .flat_map(|(words, hue, mark)| words.split('|').map(move |words| (words, (*hue, *mark))));
        let found = all.filter(|(words, _)| begins(part, words));
        found.max_by_key(|(words, _)| words.len()).map(|(_, look)| look)
    };
    longest(name).or_else(|| parts(name).skip(1).find_map(longest))
}

/// How many CPUs a name says.
fn cpus(name: &str) -> Option<u64> {
    if let Some((cpus, _)) = name.strip_prefix("CPU-").and_then(|rest| rest.split_once('-')) {
        return cpus.parse().ok();
    }
    let words: Vec<&str> = name.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let counts = words
        .windows(2)
        .filter(|pair| ["CPU", "CPUs", "core"].contains(&pair[1]));
    counts
        .filter_map(|pair| match pair[0] {
            "one" | "same" => Some(1),
            "two" => Some(2),
            count => count.parse().ok(),
        })
        .next()
}

/// The step of so many CPUs, and their mark where there is more than one.
const fn of_cpus(cpus: u64) -> (usize, Option<usize>) {
    match cpus {
        ..=1 => (0, None),
        2 => (2, Some(PLUS)),
        3..=4 => (3, Some(HOURGLASS)),
        5..=8 => (4, Some(DIAMOND)),
        _ => (5, Some(STAR)),
    }
}

/// The mark of one CPU of several.
fn nth_cpu(name: &str) -> Option<usize> {
    let (number, _) = name.strip_prefix("CPU ")?.split_once(',')?;
    number
        .parse()
        .ok()
        .map(|number: usize| number.wrapping_sub(1) % MARKS)
}

/// The step of a name's degree, by its rank among those of the same unit in the chart.
fn step(name: &str, all: &[&str]) -> Option<usize> {
    if let Some((_, step)) = PLACES
        .iter()
        .find(|(words, _)| parts(name).any(|part| part == *words))
    {
        // Of programs and units that have several of these, they are the marks.
        return kind(name).is_none().then_some(*step);
    }
    let (value, unit) = degree(name)?;
    let of_unit = all
        .iter()
        .filter_map(|name| degree(name))
        .filter(|(_, other)| *other == unit);
    let mut values: Vec<f64> = of_unit.map(|(value, _)| value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let rank = values.iter().position(|other| *other == value)?;
    // One that all have tells none from another.
    let (count, last) = (values.len(), STEPS - 1);
    (count > 1).then(|| (rank * last + (count - 1) / 2) / (count - 1))
}

/// What a name counts, and in what.
fn degree(name: &str) -> Option<(f64, &'static str)> {
    let of_part = |part: &str| {
        let (value, unit) = part.split_once(' ')?;
        let unit = UNITS.into_iter().find(|known| *known == unit)?;
        // A share of a law is the same share.
        Some((value.parse().ok()?, unit.trim_end_matches(" inside")))
    };
    parts(name).find_map(of_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<(Colour, usize)> {
        let series = |name: &&str| Series {
            name: (*name).to_owned(),
            origin: if name.contains("at no cost") || *name == "linear" {
                Origin::Ideal
            } else if name.starts_with("source") {
                Origin::Published
            } else {
                Origin::Measured
            },
            points: Vec::new(),
        };
        looks(&names.iter().map(series).collect::<Vec<_>>())
    }

    fn colours(names: &[&str]) -> Vec<Colour> {
        named(names).into_iter().map(|(colour, _)| colour).collect()
    }

    #[test]
    fn a_meaning_has_its_look_wherever_it_is_and_others_have_what_is_left() {
        use Colour::Hue;
        assert_eq!(
            named(&["process", "thread"]),
            [(Hue(2), SQUARE), (Hue(1), CIRCLE)]
        );
        let ring = [
            "thread on one CPU",
            "thread on 2 CPUs",
            "process: works again",
            "coroutine",
        ];
        let expected = [(Hue(1), CIRCLE), (Hue(1), PLUS), (Hue(2), CROSS), (Hue(5), DOWN)];
        assert_eq!(named(&ring), expected);
        let designs = ["reactor", "thread-per-connection", "pool 1:3", "reactor-per-core"];
        let expected = [
            (Hue(4), DIAMOND),
            (Hue(1), CIRCLE),
            (Hue(3), UP),
            (Hue(8), SQUARE),
        ];
        assert_eq!(named(&designs), expected);
        assert_eq!(
            named(&["thread", "something"]),
            [(Hue(1), CIRCLE), (Hue(6), SQUARE)]
        );
    }

    #[test]
    fn what_is_ordered_has_a_ramp_and_a_count_of_cpus_one_step_whatever_it_is_called() {
        use Colour::Step;
        assert_eq!(
            colours(&["2 CPUs", "one CPU", "16 CPUs"]),
            [Step(2), Step(0), Step(5)]
        );
        assert_eq!(named(&["two CPUs"]), named(&["2 CPUs"]));
        assert_eq!(
            colours(&["64 KiB", "0 KiB", "4 KiB"]),
            [Step(5), Step(0), Step(3)]
        );
        let pools = ["pool, 10000 connections", "pool, 1000 connections"];
        assert_eq!(colours(&pools), [Step(5), Step(0)]);
        assert_eq!(colours(&["pool, 1000 connections"]), [Colour::Hue(3)]);
        assert_eq!(
            colours(&["median", "99th percentile", "largest"]),
            [Step(0), Step(3), Step(5)]
        );
    }

    #[test]
    fn no_two_kinds_have_one_look_but_a_unit_and_the_design_of_a_server_made_of_it() {
        let mut seen = std::collections::BTreeMap::new();
        for (words, hue, mark) in KINDS {
            if words.ends_with("-per-connection") {
                continue;
            }
            let before = seen.insert((hue, mark), words);
            assert_eq!(before, None, "{words} looks like it");
        }
    }

    #[test]
    fn published_figures_and_theory_have_the_colour_of_what_they_are_of() {
        let names = [
            "thread",
            "source 003, thread",
            "serial",
            "serial at no cost",
            "linear",
        ];
        let expected = [1, 1, 6, 6].map(Colour::Hue).into_iter().chain([Colour::Grey]);
        assert_eq!(colours(&names), expected.collect::<Vec<_>>());
    }

    #[test]
    fn two_of_one_look_have_another_mark_each() {
        let names = ["thread, 3 GiB", "thread, no limit", "thread, 3 GiB, at least"];
        let looks = named(&names);
        for (i, look) in looks.iter().enumerate() {
            assert!(!looks[..i].contains(look), "{looks:?}");
        }
    }

    #[test]
    fn kinds_that_a_chart_can_have_together_have_a_look_each() {
        let together = [
            "thread process pool coroutine clone-vm posix_spawn fork-exec vfork",
            "iterative process-per-connection preforked-accept preforked-file-lock preforked-mutex preforked-descriptor \
             preforked-reuseport thread-per-connection prethreaded-mutex prethreaded-acceptor reactor one-handler-reactor \
             split-reactor reactor-pool reactor-per-core proactor leader-followers half-sync-half-async",
            "mutex spin rwlock atomic sharded plain",
            "threadgauge C floor nats-server redis-server mosquitto uws_groups",
        ];
        for names in together {
            let kinds: Vec<_> = names.split_whitespace().map(|name| (name, kind(name))).collect();
            for (i, (name, kind)) in kinds.iter().enumerate() {
                assert!(kind.is_some(), "{name} has none");
                assert!(
                    kinds[..i].iter().all(|(_, other)| other != kind),
                    "{name}: {kind:?}"
                );
            }
        }
    }
}
