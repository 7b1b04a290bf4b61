//! What the runs come to: one statistic a round, its median over the rounds, the least and the most beside it.
//!
//! Ratios are taken within a round, so that the machine's drift falls on both sides.

use std::fmt::Write as _;

use bench_rig::figures::{NOTHING, Spread, at_most, estimate, middle, show, spread, spread_of};
use threadgauge_stats::{Estimate, geometric_mean, paired_ratio};

use super::peers::{Peer, Role};
use super::workload::{self, BURN_1_MS, BURN_10_US, EMPTY_2, EMPTY_8, SLEEP, THREADS, Workload};
use super::{Measured, Sample};

const NS: f64 = 1.0;
const US: f64 = 1e3;
const PERCENT: f64 = 0.01;
/// The most of the cost before that ours may have now, over all workloads.
const LIMIT: f64 = 1.03;

impl Measured {
    fn samples(&self, peer: &str, workload: &Workload) -> &[Option<Sample>] {
        self.cells
            .iter()
            .find(|(key, _)| **key == (workload.id, peer))
            .map_or(&[], |(_, samples)| samples)
    }

    fn objects(&self, peer: &str, workload: &Workload) -> f64 {
        self.objects
            .iter()
            .find(|(key, _)| **key == (workload.id, peer))
            .map_or(f64::NAN, |(_, n)| *n as f64)
    }

    /// A statistic of each round's sample.
    fn each(&self, peer: &str, workload: &Workload, of: impl Fn(&Sample) -> Option<f64>) -> Option<Spread> {
        spread_of(self.samples(peer, workload).iter().flatten().filter_map(of))
    }

    fn ns_per_object(&self, peer: &str, workload: &Workload) -> Option<Spread> {
        let objects = self.objects(peer, workload);
        self.each(peer, workload, |sample| Some(sample.elapsed_ns / objects))
    }

    fn cpu_per_object(&self, peer: &str, workload: &Workload) -> Option<Spread> {
        let objects = self.objects(peer, workload);
        self.each(peer, workload, |sample| Some(sample.cpu_ns / objects))
    }

    fn wait(&self, peer: &str, workload: &Workload, which: usize) -> Option<Spread> {
        self.each(peer, workload, |sample| sample.wait_ns.map(|wait| wait[which]))
    }

    /// An object's time with `a` over that with `b`, round by round.
    fn ratio(&self, a: &str, b: &str, workload: &Workload) -> Option<Spread> {
        let scale = self.objects(b, workload) / self.objects(a, workload);
        let pairs = self.samples(a, workload).iter().zip(self.samples(b, workload));
        spread_of(pairs.filter_map(|(a, b)| Some(a.as_ref()?.elapsed_ns / b.as_ref()?.elapsed_ns * scale)))
    }

    /// What an object costs with `after` over what it costs with `before`, by round.
    fn change(
        &self,
        [before, after]: [&str; 2],
        workload: &Workload,
        cost: impl Fn(&Sample) -> f64,
    ) -> Vec<Option<f64>> {
        let scale = self.objects(before, workload) / self.objects(after, workload);
        let pairs = self
            .samples(before, workload)
            .iter()
            .zip(self.samples(after, workload));
        pairs
            .map(|(before, after)| Some(cost(after.as_ref()?) / cost(before.as_ref()?) * scale))
            .collect()
    }

    /// Share over the ideal that ran beside it.
    fn over(&self, peer: &str, workload: &Workload) -> Option<Spread> {
        let objects = self.objects(peer, workload);
        self.each(peer, workload, |sample| {
            Some(sample.elapsed_ns / objects / sample.ideal_ns? - 1.0)
        })
    }

    /// All ideals of a workload.
    fn ideal(&self, workload: &Workload) -> Option<Spread> {
        let cells = self.cells.iter().filter(|((id, _), _)| *id == workload.id);
        spread_of(
            cells.flat_map(|(_, samples)| samples.iter().flatten().filter_map(|sample| sample.ideal_ns)),
        )
    }
}

/// All tables.
pub fn markdown(measured: &Measured, chosen: &[&Peer]) -> String {
    let mut text = String::new();
    let rounds = measured.rounds;
    let _ = writeln!(
        text,
        "{rounds} interleaved rounds; each figure is the median over them (least – most). A round has one run of a cell; of 10 µs and of threads the quicker of two. The ideal runs beside each burn, as often. Ours in bold, what keeps no contract in italics.
Names end in the most objects that are out at once (`k` or 1,024). The JVM counts its CPU time in steps of 10 ms; Python's memory is without its child processes.\n"
    );
    let foreign: Vec<String> = measured
        .foreign
        .iter()
        .map(|share| format!("{share:.2}"))
        .collect();
    if !foreign.is_empty() {
        let _ = writeln!(
            text,
            "CPUs that other programs used meanwhile, by round: {}.\n",
            foreign.join(", ")
        );
    }
    targets(&mut text, measured, chosen);
    before_and_after(&mut text, measured, chosen);
    empty(&mut text, measured, chosen);
    burns(&mut text, measured, chosen, &BURN_10_US);
    burns(&mut text, measured, chosen, &BURN_1_MS);
    threads(&mut text, measured, chosen);
    sleep(&mut text, measured, chosen);
    if !measured.remarks.is_empty() {
        text.push_str("\n## Remarks\n\n");
        for remark in &measured.remarks {
            let _ = writeln!(text, "- {remark}");
        }
    }
    text
}

/// The geometric mean of each round's ratios, of the rounds that have them.
fn mean_by_round(rounds: usize, ratios: impl Fn(usize) -> Option<Vec<f64>>) -> Option<Estimate> {
    let means: Vec<Option<f64>> = (0..rounds)
        .map(|round| geometric_mean(&ratios(round)?).ok())
        .collect();
    over_rounds(&means)
}

/// The estimate of ratios by round.
fn over_rounds(ratios: &[Option<f64>]) -> Option<Estimate> {
    let ratios: Vec<f64> = ratios.iter().copied().flatten().collect();
    paired_ratio(&vec![1.0; ratios.len()], &ratios, 0.05).ok()
}

/// Ours over ours of another build, workload by workload.
fn before_and_after(text: &mut String, measured: &Measured, chosen: &[&Peer]) {
    let mut rows = String::new();
    let mut changes = [Vec::new(), Vec::new()];
    let cells = |changes: [Option<Estimate>; 2]| {
        changes
            .map(|of| format!("{} | {}", estimate(of.as_ref()), at_most(of.as_ref(), LIMIT)))
            .join(" | ")
    };
    for workload in workload::ALL {
        for before in chosen
            .iter()
            .filter(|peer| peer.role == Role::Before && peer.runs(workload))
        {
            let pair = [before.name, before.asked_for];
            let [time, cpu] = [
                measured.change(pair, workload, |sample| sample.elapsed_ns),
                measured.change(pair, workload, |sample| sample.cpu_ns),
            ];
            let [was, is] = pair.map(|peer| spread(measured.ns_per_object(peer, workload), NS));
            let _ = writeln!(
                rows,
                "| {}, {} | {was} | {is} | {} |",
                before.asked_for,
                workload.name,
                cells([over_rounds(&time), over_rounds(&cpu)])
            );
            changes[0].push(time);
            changes[1].push(cpu);
        }
    }
    if rows.is_empty() {
        return;
    }
    let all = changes.map(|rows| {
        mean_by_round(measured.rounds, |round| {
            rows.iter().map(|row| row.get(round).copied().flatten()).collect()
        })
    });
    let _ = writeln!(
        text,
        "\n## Before and after\n
Ratios are Hodges–Lehmann estimates over rounds [95 % interval]; that of all is the geometric mean over the rows in each round.\n
| | ns an object, before | after | time, after over before | ≤ {LIMIT} | CPU time, after over before | ≤ {LIMIT} |
|---|---:|---:|---:|---|---:|---|
{rows}| **all** | | | {} |",
        cells(all)
    );
}

/// Those that have a figure, least first.
fn ranked<'p>(chosen: &[&'p Peer], by: impl Fn(&Peer) -> Option<Spread>) -> Vec<(&'p Peer, Spread)> {
    let mut rows: Vec<_> = chosen
        .iter()
        .filter_map(|peer| Some((*peer, by(peer)?)))
        .collect();
    rows.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    rows
}

fn name(peer: &Peer) -> String {
    match peer.role {
        Role::Ours => format!("**{}**", peer.name),
        Role::Peer | Role::Before => peer.name.to_owned(),
        Role::Floor => format!("*{}*", peer.name),
    }
}

fn empty(text: &mut String, measured: &Measured, chosen: &[&Peer]) {
    text.push_str("\n## Empty processors\n\n| | ns an object, k = 2 | CPU | ns an object, k = 8 | CPU | peak memory, MiB: N → 10 N objects |\n|---|---:|---:|---:|---:|---:|\n");
    for (peer, two) in ranked(chosen, |peer| measured.ns_per_object(peer.name, &EMPTY_2)) {
        let memory = measured.memory.get(peer.name).map_or_else(
            || NOTHING.to_owned(),
            |[few, many]| format!("{:.1} → {:.1}", few / 1024.0, many / 1024.0),
        );
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {memory} |",
            name(peer),
            show(&two, NS),
            middle(measured.cpu_per_object(peer.name, &EMPTY_2), NS),
            spread(measured.ns_per_object(peer.name, &EMPTY_8), NS),
            middle(measured.cpu_per_object(peer.name, &EMPTY_8), NS),
        );
    }
}

fn burns(text: &mut String, measured: &Measured, chosen: &[&Peer], workload: &Workload) {
    let _ = write!(
        text,
        "\n## {}\n\nIdeal: {} µs an object.\n\n| | % over ideal | finisher waits, µs: median | 99th percentile | longest | CPU µs an object |\n|---|---:|---:|---:|---:|---:|\n",
        workload.name,
        spread(measured.ideal(workload), US),
    );
    for (peer, over) in ranked(chosen, |peer| measured.over(peer.name, workload)) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            name(peer),
            show(&over, PERCENT),
            spread(measured.wait(peer.name, workload, 0), US),
            middle(measured.wait(peer.name, workload, 1), US),
            middle(measured.wait(peer.name, workload, 2), US),
            middle(measured.cpu_per_object(peer.name, workload), US),
        );
    }
}

fn threads(text: &mut String, measured: &Measured, chosen: &[&Peer]) {
    let _ = write!(
        text,
        "\n## {}\n\n| | µs an object | over bare create and join | CPU µs |\n|---|---:|---:|---:|\n",
        THREADS.name
    );
    for (peer, took) in ranked(chosen, |peer| measured.ns_per_object(peer.name, &THREADS)) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            name(peer),
            show(&took, US),
            spread(measured.ratio(peer.name, "bare-pthread", &THREADS), 1.0),
            middle(measured.cpu_per_object(peer.name, &THREADS), US),
        );
    }
}

fn sleep(text: &mut String, measured: &Measured, chosen: &[&Peer]) {
    let _ = write!(
        text,
        "\n## {}\n\nWhoever uses CPU time here spins.\n\n| | CPU µs an object | finisher waits, µs: median | longest |\n|---|---:|---:|---:|\n",
        SLEEP.name
    );
    for (peer, cpu) in ranked(chosen, |peer| measured.cpu_per_object(peer.name, &SLEEP)) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            name(peer),
            show(&cpu, US),
            spread(measured.wait(peer.name, &SLEEP, 0), US),
            middle(measured.wait(peer.name, &SLEEP, 2), US),
        );
    }
}

/// A promise and how it was kept.
struct Target {
    what: String,
    limit: f64,
    found: Option<Spread>,
    /// What one of the unit is, and its name.
    unit: (f64, &'static str),
}

fn targets(text: &mut String, measured: &Measured, chosen: &[&Peer]) {
    let mut rows = Vec::new();
    for workload in [&EMPTY_2, &EMPTY_8] {
        let peers: Vec<&Peer> = chosen
            .iter()
            .copied()
            .filter(|peer| peer.role == Role::Peer)
            .collect();
        if let Some((best, _)) = ranked(&peers, |peer| measured.ns_per_object(peer.name, workload)).first() {
            rows.push(Target {
                what: format!(
                    "{}: ours-prompt over the best peer ({})",
                    workload.name, best.name
                ),
                limit: 0.6,
                found: measured.ratio("ours-prompt", best.name, workload),
                unit: (1.0, "×"),
            });
        }
    }
    let mut push = |what: &str, limit, found, unit| {
        rows.push(Target {
            what: what.to_owned(),
            limit,
            found,
            unit,
        });
    };
    let over = |peer| measured.over(peer, &BURN_10_US);
    push(
        "10 µs, k = 2: ours-prompt over the ideal",
        12.0,
        over("ours-prompt"),
        (PERCENT, "%"),
    );
    push(
        "10 µs, k = 2: ours-prompt, the finisher's median wait",
        10.0,
        measured.wait("ours-prompt", &BURN_10_US, 0),
        (US, "µs"),
    );
    push(
        "10 µs, k = 2: ours-throughput over the ideal",
        3.0,
        over("ours-throughput"),
        (PERCENT, "%"),
    );
    push(
        "a thread an object, k = 1: over bare create and join",
        1.1,
        measured.ratio("ours-thread-per-object", "bare-pthread", &THREADS),
        (1.0, "×"),
    );
    for ours in chosen
        .iter()
        .filter(|peer| peer.role == Role::Ours && !peer.threads)
    {
        let idle = measured.each(ours.name, &SLEEP, |s| {
            Some(s.cpu_ns / s.elapsed_ns / SLEEP.degree as f64)
        });
        push(
            &format!("{}: CPU time of a thread that waits", ours.name),
            1.0,
            idle,
            (PERCENT, "% of its time"),
        );
        let grown = measured
            .memory
            .get(ours.name)
            .and_then(|[few, many]| spread_of([(many - few) / 1024.0]));
        push(
            &format!("{}: memory at ten times the objects", ours.name),
            0.5,
            grown,
            (1.0, "MiB more"),
        );
    }
    text.push_str("## Targets\n\n| target | limit | measured | met |\n|---|---:|---:|---|\n");
    for Target {
        what,
        limit,
        found,
        unit: (one, unit),
    } in rows
    {
        let Some(found) = found else { continue };
        let met = if found.median / one <= limit {
            "yes"
        } else {
            "**no**"
        };
        let _ = writeln!(
            text,
            "| {what} | ≤ {limit} {unit} | {} {unit} | {met} |",
            show(&found, one)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::peers::PEERS;
    use super::*;

    fn sample(elapsed_ns: f64, wait_ns: Option<[f64; 3]>) -> Option<Sample> {
        Some(Sample {
            elapsed_ns,
            cpu_ns: 2.0 * elapsed_ns,
            peak_rss_kib: 2048.0,
            wait_ns,
            ideal_ns: wait_ns.map(|_| 9.0),
        })
    }

    fn measured() -> Measured {
        let mut measured = Measured {
            rounds: 3,
            ..Measured::default()
        };
        let mut cell = |workload: &Workload, peer, objects, samples: [Option<Sample>; 3]| {
            measured.cells.insert((workload.id, peer), samples.to_vec());
            measured.objects.insert((workload.id, peer), objects);
        };
        let times = |ns: [f64; 3], wait| ns.map(|ns| sample(ns, wait));
        cell(&EMPTY_2, "ours-prompt", 10, times([100.0, 300.0, 200.0], None));
        cell(&EMPTY_2, "kanal-1024", 5, times([250.0, 250.0, 250.0], None));
        cell(&EMPTY_2, "std-1024", 5, times([900.0, 900.0, 900.0], None));
        cell(&EMPTY_2, "before-prompt", 5, times([100.0, 100.0, 100.0], None));
        cell(
            &BURN_10_US,
            "ours-prompt",
            10,
            times([110.0, 104.0, 120.0], Some([9e3, 2e4, 3e4])),
        );
        measured
    }

    #[test]
    fn ratios_are_of_objects_and_by_round() {
        let ratio = measured().ratio("ours-prompt", "kanal-1024", &EMPTY_2).unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.2, 0.4, 0.6));
        let over = measured().over("ours-prompt", &BURN_10_US).unwrap();
        assert!((over.median - 2.0 / 9.0).abs() < 1e-9, "{over:?}");
    }

    #[test]
    fn a_change_is_of_objects_and_over_what_was_before() {
        let by_round = measured().change(["before-prompt", "ours-prompt"], &EMPTY_2, |sample| sample.cpu_ns);
        assert_eq!(by_round, [Some(0.5), Some(1.5), Some(1.0)]);
        let chosen: Vec<&Peer> = PEERS.iter().collect();
        let text = markdown(&measured(), &chosen);
        assert!(
            text.contains("| ours-prompt, empty, k = 2 | 20.0 (20.0 – 20.0) | 20.0 (10.0 – 30.0) | 0.93 "),
            "{text}"
        );
    }

    #[test]
    fn the_targets_name_the_best_peer_and_what_was_missed() {
        let chosen: Vec<&Peer> = PEERS.iter().collect();
        let text = markdown(&measured(), &chosen);
        assert!(
            text.contains("over the best peer (kanal-1024) | ≤ 0.6 × | 0.40 (0.20 – 0.60) × | yes |"),
            "{text}"
        );
        assert!(
            text.contains("ours-prompt over the ideal | ≤ 12 % | 22.2 (15.6 – 33.3) % | **no** |"),
            "{text}"
        );
        assert!(
            text.contains("median wait | ≤ 10 µs | 9.00 (9.00 – 9.00) µs | yes |"),
            "{text}"
        );
    }
}
