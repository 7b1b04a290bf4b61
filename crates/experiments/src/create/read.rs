//! Reads the answer off the samples: the sentence, the facts, and what is compared and ranked.

use threadgauge_results::{Finding, Params};

use crate::create::cells::{
    Figured, PRIMARY, Pick, all_cpus, base, digits, figure, ratio, ratio_between, statistic, time,
    time_between,
};
use crate::create::grid::{ALIVE, BUSY, PARENT_MIB};
use crate::create::way::Way;
use crate::create::{claims, figures, table};
use threadgauge_lab::experiment::{Answer, Pair};
use threadgauge_lab::view::View;

/// Everything that is read off.
pub fn answer(view: &View<'_>) -> Answer {
    Answer {
        answer: sentence(view),
        claims: claims::evidence(view),
        tests: Vec::new(),
        facts: facts(view),
        comparisons: comparisons(view),
        rankings: rankings(view),
        figures: figures::all(view),
        tables: vec![table::source_003(view)],
    }
}

fn sentence(view: &View<'_>) -> String {
    let mut parts = Vec::new();
    let (process, thread) = (base(Way::Fork), base(Way::Pthread));
    match (figure(view, process, PRIMARY), figure(view, thread, PRIMARY)) {
        (Some(p), Some(t)) => {
            let times = ratio(view, process, thread).map_or(p.value / t.value, |r| r.value);
            parts.push(format!(
                "on one CPU, making and ending a process by fork takes {} and a thread {}, so a process costs {} threads",
                time(p.value),
                time(t.value),
                digits(times)
            ));
        }
        (Some(p), None) => parts.push(format!("on one CPU, a process by fork takes {}", time(p.value))),
        (None, Some(t)) => parts.push(format!("on one CPU, a thread takes {}", time(t.value))),
        (None, None) => {}
    }
    if let Some(pool) = figure(view, base(Way::Pool), PRIMARY) {
        parts.push(format!(
            "handing a job to a waiting thread takes {}",
            time(pool.value)
        ));
    }
    if let Some(large) = figure(view, process.parent(PARENT_MIB[1], false), PRIMARY) {
        parts.push(format!(
            "a fork from a parent of 1 GiB takes {}",
            time(large.value)
        ));
    }
    if parts.is_empty() {
        return "No case of this run says what making a process or a thread costs.".to_owned();
    }
    let mut sentence = parts.join("; ");
    sentence.push('.');
    sentence[..1].make_ascii_uppercase();
    sentence
}

fn fact(says: String, measured: Figured, unit: &str) -> Finding {
    Finding::fact(says, Some(measured.value), measured.ci95, unit)
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    [
        count_behind_the_claims(view),
        the_sources_way(view),
        threads_as_processes(view),
        single_creation(view),
        spawn_against_fork_exec(view),
    ]
    .into_iter()
    .flatten()
    .chain(parents(view))
    .chain(many_alive(view))
    .collect()
}

/// The source's claims name 100,000; other profiles make fewer and say so.
fn count_behind_the_claims(view: &View<'_>) -> Option<Finding> {
    let (process, thread) = (base(Way::Fork), base(Way::Pthread));
    let count = process.planned(view)?.int("count")?;
    let ratio = ratio(view, process, thread).ok()?;
    let stands = if count == 100_000 {
        "as many as source 003 made".to_owned()
    } else {
        "source 003 made 100,000, as the profile paper does; the figure is a time per unit, each made and ended \
         before the next"
            .to_owned()
    };
    Some(fact(
        format!(
            "Process over thread is measured here over {count} of each, one at a time ({stands}): {}.",
            ratio_between(ratio)
        ),
        ratio,
        "ratio",
    ))
}

fn the_sources_way(view: &View<'_>) -> Option<Finding> {
    let way = base(Way::ForkSigchld);
    let ratio = ratio(view, way, base(Way::Fork)).ok()?;
    let [created, failed, reaped, most] = ["created", "failed", "reaped", "most_unreaped"].map(|metric| {
        figure(view, way, metric).map_or_else(|| "?".to_owned(), |f| format!("{:.0}", f.value))
    });
    Some(fact(
        format!(
            "Reaping in a SIGCHLD handler, as source 003 did, takes {} times waiting for each child. At the median {created} \
             were created, {failed} failed, {reaped} reaped, and up to {most} were made and not yet reaped: the source's \
             processes were not one at a time, its threads were.",
            ratio_between(ratio)
        ),
        ratio,
        "ratio",
    ))
}

fn threads_as_processes(view: &View<'_>) -> Option<Finding> {
    let ratio = ratio(view, base(Way::CloneVm), base(Way::Pthread)).ok()?;
    Some(fact(
        format!(
            "A process of its own in shared memory (clone-vm), which is what a thread was before NPTL, takes {} times a \
             thread; the old library's manager thread is not part of it.",
            ratio_between(ratio)
        ),
        ratio,
        "ratio",
    ))
}

/// The claim about creation beside others is about the creating call; the wait for the new thread is another matter.
fn single_creation(view: &View<'_>) -> Option<Finding> {
    let thread = base(Way::Pthread);
    let whole = ratio(view, thread.busy(BUSY), thread).ok()?;
    let done = figure(view, thread.busy(BUSY), "units_done")?;
    Some(fact(
        format!(
            "With {BUSY} threads computing beside on the same CPU, a thread made and joined takes {} times as long as \
             alone: the new thread waits for its turn. {:.0} were made within the time limit of the case.",
            ratio_between(whole),
            done.value
        ),
        whole,
        "ratio",
    ))
}

fn spawn_against_fork_exec(view: &View<'_>) -> Option<Finding> {
    let ratio = ratio(view, base(Way::ForkExec), base(Way::PosixSpawn)).ok()?;
    Some(fact(
        format!(
            "Starting a static program by fork and exec takes {} times posix_spawn, from an empty parent.",
            ratio_between(ratio)
        ),
        ratio,
        "ratio",
    ))
}

/// What a parent's memory does to each way.
fn parents(view: &View<'_>) -> Vec<Finding> {
    let mut facts = Vec::new();
    for way in [Way::Fork, Way::Vfork, Way::PosixSpawn, Way::Pthread] {
        for (parent_mib, huge_pages) in parent_kinds() {
            let pick = base(way).parent(parent_mib, huge_pages);
            let (Some(figure), Ok(times)) = (figure(view, pick, PRIMARY), ratio(view, pick, base(way)))
            else {
                continue;
            };
            let pages = if huge_pages { "huge" } else { "small" };
            facts.push(fact(
                format!(
                    "{} from a parent with {parent_mib} MiB in {pages} pages takes {}, {} times an empty parent.",
                    way.name(),
                    time_between(figure),
                    ratio_between(times)
                ),
                figure,
                "ns",
            ));
        }
    }
    facts.extend(fork_per_mib(view));
    facts
}

fn parent_kinds() -> impl Iterator<Item = (u64, bool)> {
    PARENT_MIB.into_iter().flat_map(|mib| [(mib, false), (mib, true)])
}

/// How much longer a fork takes for each MiB of small pages, from the largest parent.
fn fork_per_mib(view: &View<'_>) -> Option<Finding> {
    let mib = PARENT_MIB[1];
    let cells = [base(Way::Fork).parent(mib, false), base(Way::Fork)].map(|pick| pick.cell(PRIMARY));
    let rounds = view.by_round(&cells, |v| (v[0] - v[1]) / mib as f64).ok()?;
    let per_mib = statistic(&rounds)?;
    if !view.resolved_cells(&cells[0], &cells[1]) {
        let says = format!("What each of {mib} MiB in small pages adds to a fork is below resolution.");
        return Some(Finding::fact(says, None, None, "ns"));
    }
    Some(fact(
        format!(
            "Each MiB in small pages lengthens a fork by {}: the kernel copies the parent's page tables.",
            time_between(per_mib)
        ),
        per_mib,
        "ns",
    ))
}

/// What it does to the price of a unit that a thousand are there.
fn many_alive(view: &View<'_>) -> Vec<Finding> {
    let most = ALIVE[1];
    let ways = [Way::Fork, Way::CloneVm, Way::Pthread];
    ways.into_iter()
        .filter_map(|way| {
            let times = ratio(view, base(way).alive(most), base(way)).ok()?;
            Some(fact(
                format!(
                    "With {most} kept alive together, a unit made by {} takes {} times one at a time.",
                    way.name(),
                    ratio_between(times)
                ),
                times,
                "ratio",
            ))
        })
        .collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let mut pairs: Vec<(Pick, Pick)> = Vec::new();
    let thread = base(Way::Pthread);
    for way in Way::ALL {
        if way != Way::Pthread {
            pairs.push((thread, base(way)));
        }
    }
    pairs.push((base(Way::Fork), base(Way::ForkSigchld)));
    pairs.push((base(Way::PosixSpawn), base(Way::ForkExec)));
    for way in Way::ALL {
        if let Some(all) = all_cpus(view) {
            pairs.push((base(way), base(way).cpus(all)));
        }
        pairs.extend(ALIVE.map(|alive| (base(way), base(way).alive(alive))));
        pairs.push((base(way), base(way).busy(BUSY)));
        pairs.extend(parent_kinds().map(|(mib, huge)| (base(way), base(way).parent(mib, huge))));
    }
    pairs
        .into_iter()
        .filter_map(|(a, b)| {
            Some(Pair {
                a: a.planned(view)?,
                b: b.planned(view)?,
            })
        })
        .collect()
}

fn rankings(view: &View<'_>) -> Vec<(String, Vec<Params>)> {
    let on = |cpus| -> Vec<Params> {
        Way::ALL
            .into_iter()
            .filter_map(|way| base(way).cpus(cpus).planned(view))
            .collect()
    };
    let mut rankings = vec![(
        "Making and ending one unit at a time, on one CPU".to_owned(),
        on(1),
    )];
    if let Some(all) = all_cpus(view) {
        let title = format!("Making and ending one unit at a time, on {all} CPUs");
        rankings.push((title, on(all)));
    }
    rankings.retain(|(_, cases)| cases.len() > 1);
    rankings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::cells::by_hand::{lacking, measured, view};
    use crate::create::way::Case;
    use threadgauge_lab::view::ViewCase;

    fn cell(case: &Case, cpus: u64, ns: f64) -> ViewCase {
        let values: Vec<f64> = (0..7).map(|i| ns * (1.0 + 0.001 * f64::from(i))).collect();
        measured(case, cpus, &[(PRIMARY, &values)])
    }

    #[test]
    fn the_answer_has_the_numbers_there_are() {
        let large = Case {
            parent_mib: 1024,
            ..Case::base(Way::Fork, 20)
        };
        let full = view(vec![
            cell(&Case::base(Way::Fork, 200), 1, 112_000.0),
            cell(&Case::base(Way::Pthread, 200), 1, 20_000.0),
            cell(&Case::base(Way::Pool, 200), 1, 5_000.0),
            cell(&large, 1, 32_000_000.0),
        ]);
        assert_eq!(
            sentence(&full),
            "On one CPU, making and ending a process by fork takes 112 µs and a thread 20.1 µs, so a process costs 5.60 \
             threads; handing a job to a waiting thread takes 5.01 µs; a fork from a parent of 1 GiB takes 32.1 ms."
        );
        let little = view(vec![cell(&Case::base(Way::Pool, 200), 1, 5_000.0)]);
        assert_eq!(
            sentence(&little),
            "Handing a job to a waiting thread takes 5.01 µs."
        );
        assert!(sentence(&view(Vec::new())).starts_with("No case of this run"));
    }

    #[test]
    fn nothing_measured_gives_no_fact_and_no_panic() {
        let skipped = Way::ALL.map(|way| lacking(Case::base(way, 200).params(1), "not here"));
        let answer = answer(&view(skipped.into_iter().collect()));
        assert!(answer.facts.is_empty());
        assert!(
            answer
                .figures
                .iter()
                .all(|f| f.series.iter().all(|s| !s.points.is_empty()))
        );
    }

    #[test]
    fn the_memory_of_the_parent_is_priced_by_the_mib() {
        let large = Case {
            parent_mib: 1024,
            ..Case::base(Way::Fork, 20)
        };
        let view = view(vec![
            measured(&Case::base(Way::Fork, 200), 1, &[(PRIMARY, &[100_000.0; 7])]),
            measured(&large, 1, &[(PRIMARY, &[100_000.0 + 1024.0 * 30_000.0; 7])]),
        ]);
        let per_mib = fork_per_mib(&view).unwrap();
        assert!((per_mib.measured.unwrap() - 30_000.0).abs() < 1e-6);
        let grown = parents(&view);
        assert!(
            grown[0]
                .says
                .starts_with("fork from a parent with 1024 MiB in small pages takes 30.8 ms")
        );
    }

    #[test]
    fn only_planned_cases_are_compared_and_ranked() {
        let view = view(vec![
            cell(&Case::base(Way::Fork, 200), 1, 112_000.0),
            cell(&Case::base(Way::Pthread, 200), 1, 20_000.0),
            cell(&Case::base(Way::Pthread, 200), 4, 36_000.0),
        ]);
        let pairs = comparisons(&view);
        assert_eq!(pairs.len(), 2);
        assert_eq!(pairs[0].b.text("method"), Some("fork"));
        assert_eq!(pairs[1].b.int("cpus"), Some(4));
        assert_eq!(rankings(&view).len(), 1, "one case is no ranking");
    }
}
