//! How often a gate is red where nothing changed, and of how much nothing is known, as measured and by simulation: two
//! tables of `docs/ci.md`.
//!
//! Where nothing changed, either run of a pair in turns could have had the figures of the other, round by round. So a
//! simulated pair is a stored one whose runs change sides in about half of their rounds, at random, and it is compared
//! as any pair is: what scatters is a machine, and no distribution. A difference between two whole runs becomes scatter
//! between their rounds; only the stored pairs themselves show it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem;
use std::path::Path;

use threadgauge_experiments::gate::CASES;
use threadgauge_experiments::runnable;
use threadgauge_lab::analysis::analyse;
use threadgauge_results::units::percent;
use threadgauge_results::{EXPORT_ENDING, Gate, Limit, RunData, StoredSample, compare, import};

/// Pairs of runs of the selection with nothing changed between them, exported: `1a` and `1b`, `2a` and `2b`, ….
const FOLDER: &str = "runs/2026-11-29-gate";
/// How many there are.
const STORED: usize = 20;
/// How many are simulated of each.
const EACH: usize = 50;
/// A pair is little disturbed if less than this share of its tries was, as its runs noted: others used the machine
/// meanwhile. What the comparison of a pair says has no part in that.
const LITTLE: f64 = 0.1;

/// What is counted, and how many of it a pair has at most.
const COUNTED: [(&str, usize); 4] = [
    ("red for `slower:5%`", 1),
    ("red for `unknown:20%`", 1),
    ("cells called faster or slower", CASES.len()),
    ("cells of which nothing was known", CASES.len()),
];
/// [`COUNTED`] of a pair, or of several.
type Counts = [usize; COUNTED.len()];

/// The tables, each with what it is called in the document, where two comments mark its beginning and its end.
pub fn tables() -> [(&'static str, String); 2] {
    let mut pairs: Vec<[RunData; 2]> = (1..=STORED).map(stored).collect();
    [
        ("a gate, measured", measured(&pairs)),
        ("a gate by simulation", simulated(&mut pairs)),
    ]
}

/// Of all stored pairs, and of those that were little disturbed. Cells of a pair depend on one another, so in the
/// intervals a pair is one observation.
fn measured(pairs: &[[RunData; 2]]) -> String {
    let all: Vec<(f64, Counts)> = pairs
        .iter()
        .map(|pair| (disturbed(pair), counted(pair)))
        .collect();
    let little: Vec<(f64, Counts)> = all.iter().copied().filter(|(share, _)| *share < LITTLE).collect();
    let mut table = format!(
        "| | all {} pairs | 95 % | {} little disturbed | 95 % |\n|---|---:|---:|---:|---:|\n",
        all.len(),
        little.len(),
    );
    for (row, (what, most)) in COUNTED.into_iter().enumerate() {
        let cells = [&all, &little].map(|pairs| {
            let times: usize = pairs.iter().map(|(_, counts)| counts[row]).sum();
            let of = pairs.len() * most;
            let interval = range(wilson(times as f64 / of as f64, pairs.len()));
            format!("{times} of {of} | {interval}")
        });
        writeln!(table, "| {what} | {} |", cells.join(" | ")).expect("writing to a string");
    }
    table
}

/// The share of a pair's tries that were disturbed.
fn disturbed(pair: &[RunData; 2]) -> f64 {
    let tries = || pair.iter().flat_map(|run| run.samples.values().flatten());
    tries().filter(|tried| tried.gated).count() as f64 / tries().count() as f64
}

/// Of pairs that are simulated of the stored ones, which change on the way.
fn simulated(pairs: &mut [[RunData; 2]]) -> String {
    let mut rng = fastrand::Rng::with_seed(23);
    let by_stored: Vec<Counts> = pairs.iter_mut().map(|pair| simulate(pair, &mut rng)).collect();
    let mut table = String::from(
        "| of the simulated pairs | | 95 % | of those of one measured pair |\n|---|---:|---:|---:|\n",
    );
    for (row, (what, most)) in COUNTED.into_iter().enumerate() {
        let shares = by_stored
            .iter()
            .map(|counts| counts[row] as f64 / (EACH * most) as f64);
        let share = shares.clone().sum::<f64>() / by_stored.len() as f64;
        let apart = [
            shares.clone().fold(f64::INFINITY, f64::min),
            shares.fold(f64::NEG_INFINITY, f64::max),
        ];
        writeln!(
            table,
            "| {what} | {} | {} | {} |",
            percent(share),
            range(wilson(share, by_stored.len() * EACH)),
            range(apart),
        )
        .expect("writing to a string");
    }
    table
}

/// [`COUNTED`] of all pairs that are simulated of a stored one.
fn simulate(pair: &mut [RunData; 2], rng: &mut fastrand::Rng) -> Counts {
    let mut counts = [0; COUNTED.len()];
    for _ in 0..EACH {
        change_sides(pair, rng);
        for (count, more) in counts.iter_mut().zip(counted(pair)) {
            *count += more;
        }
    }
    counts
}

/// A stored pair.
fn stored(pair: usize) -> [RunData; 2] {
    ["a", "b"].map(|side| run(&format!("{pair}{side}")))
}

/// A stored run, as the command reads it.
fn run(name: &str) -> RunData {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(FOLDER);
    let store = import(&folder.join(format!("{name}{EXPORT_ENDING}"))).unwrap_or_else(|e| panic!("{e}"));
    let results = analyse(runnable(), &store).unwrap();
    let samples = results
        .experiments
        .iter()
        .map(|e| (e.id.clone(), store.samples(&e.id).unwrap()))
        .collect();
    RunData {
        name: name.to_owned(),
        results,
        samples,
    }
}

/// In about half of the rounds of each experiment either run gets all that the other measured.
fn change_sides([a, b]: &mut [RunData; 2], rng: &mut fastrand::Rng) {
    for (experiment, of_a) in &mut a.samples {
        let of_b = b.samples.get_mut(experiment).expect("both ran it");
        let mut by_round = BTreeMap::new();
        let mut stays = |sample: &StoredSample| *by_round.entry(sample.round).or_insert_with(|| rng.bool());
        let (mut new_a, to_b): (Vec<_>, Vec<_>) = mem::take(of_a).into_iter().partition(&mut stays);
        let (mut new_b, to_a): (Vec<_>, Vec<_>) = mem::take(of_b).into_iter().partition(stays);
        new_a.extend(to_a);
        new_b.extend(to_b);
        *of_a = new_a;
        *of_b = new_b;
    }
}

/// [`COUNTED`] of one pair.
fn counted([a, b]: &[RunData; 2]) -> Counts {
    let compared = compare(a, b);
    assert!(
        compared.paired,
        "the runs {} and {} took no turns",
        a.name, b.name
    );
    assert_eq!(compared.rows.len(), CASES.len(), "of {} and {}", a.name, b.name);
    let is_red = |limits: &[&str]| {
        let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
        !Gate::of(&limits)
            .expect("there are limits")
            .judge(&compared)
            .passed
    };
    let known = compared.known();
    [
        // However little is known: without that a comparison that knows nothing is red here, too.
        usize::from(is_red(&["slower:5%", "unknown:100%"])),
        usize::from(is_red(&["unknown:20%"])),
        known.faster + known.slower,
        known.unknown,
    ]
}

/// Wilson's interval at 95 % of a share of so many.
fn wilson(share: f64, of: usize) -> [f64; 2] {
    const Z: f64 = 1.96;
    let of = of as f64;
    let middle = 2.0 * of * share + Z * Z;
    let half = Z * (Z * Z + 4.0 * of * share * (1.0 - share)).sqrt();
    [middle - half, middle + half].map(|end| end / (2.0 * (of + Z * Z)))
}

fn range([low, high]: [f64; 2]) -> String {
    format!("{} to {}", percent(low).trim_end_matches(" %"), percent(high))
}

#[test]
fn the_interval_of_a_share_is_wilsons() {
    let shown = |times: usize, of: usize| range(wilson(times as f64 / of as f64, of));
    assert_eq!(shown(16, 20), "58 to 92 %");
    assert_eq!(shown(0, 20), "0 to 16 %");
    assert_eq!(shown(0, 340), "0 to 1.1 %");
    assert_eq!(shown(129, 340), "33 to 43 %");
}
