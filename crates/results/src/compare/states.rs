//! Two sides as two states of one machine: with and without kernel preemption, under two kernels, with SMT on and off.
//!
//! Claims about such states are decided by no single run. Here it is held to what they ask for: that nothing differs
//! but the state, and that a state has three runs at least, by turns with those of the other. The unit is a run, so the
//! spread between runs of a state (between boots, where it takes a boot) is in every interval.

use std::collections::BTreeMap;

use serde_json::Value;
use threadgauge_stats::{Estimate, paired_ratio, ratio_of_runs};

use super::all_cpus::{with_all, with_all_cpus};
use super::compared::{Repeated, RunData};
use super::cpus::{how_many, ranges, ranges_of};
use super::emulated::is_emulated;
use super::setting::{Differs, UNTOLD, differences};
use super::several::{alternate, figure, rounds};
use super::two::took_turns;
use crate::units::counted;
use crate::{Lack, Need, Params, WaitsFor};

/// A state needs so many runs: of two nothing is known of how far its runs lie apart.
const FEWEST_RUNS: usize = 3;

/// The two sides in the order in which claims name them as base and change: preemption or SMT off and on, the older
/// kernel and the newer; of two systems the order says nothing.
///
/// # Errors
///
/// What they lack for being two states of one machine that `waits` is about: in words that name the sides.
pub fn two_states<'a>(waits: WaitsFor, a: &'a Repeated, b: &'a Repeated) -> Result<[&'a Repeated; 2], Lack> {
    let states = [state(waits, a)?, state(waits, b)?];
    let [of_a, of_b] = &states;
    if of_a == of_b {
        return Err(lacks(format!(
            "{} and {} do not differ in {}: {of_a} in both",
            a.name,
            b.name,
            subject(waits)
        )));
    }
    let more = |more: String| {
        format!(
            "{} and {} differ in more than {}: {more}",
            a.name,
            b.name,
            subject(waits)
        )
    };
    let sides = [(a, of_a), (b, of_b)];
    if let Some((side, _)) = sides.iter().find(|(_, of)| **of == State::OneThreadACore) {
        return Err(lacks(format!(
            "the runs of {} had one CPU of each core with SMT on; that the other is idle is not SMT off",
            side.name
        )));
    }
    if let Some(fact) = differs_besides(waits, a, b) {
        return Err(lacks(more(fact)));
    }
    if let Some(fact) = measured_otherwise(a, b) {
        return Err(Lack::new(Need::Profile, more(fact)));
    }
    for side in [a, b] {
        if side.runs.iter().any(|run| is_emulated(&run.results.machine)) {
            return Err(lacks(format!(
                "the runs called {} are of an emulated processor, whose times are not a machine's",
                side.name
            )));
        }
        if side.runs.len() < FEWEST_RUNS && pair(a, b).is_none() {
            return Err(Lack::new(
                Need::Figures,
                format!(
                    "{} has {}, and how far runs of a state lie apart takes {FEWEST_RUNS}",
                    side.name,
                    counted(side.runs.len(), "run")
                ),
            ));
        }
    }
    // All runs of both are in the ratio, not those alone that have a partner.
    if pair(a, b).is_none() && !alternate(&a.runs, &b.runs) {
        return Err(Lack::new(
            Need::Figures,
            format!(
                "the runs of {} and {} were not made by turns, so what the machine did in between is not told from the state",
                a.name, b.name
            ),
        ));
    }
    Ok(if of_a <= of_b { [a, b] } else { [b, a] })
}

/// Whether two sides differ in the state that `waits` is about, whatever else they lack.
#[must_use]
pub fn differ_in_state(waits: WaitsFor, a: &Repeated, b: &Repeated) -> bool {
    match (state(waits, a), state(waits, b)) {
        (Ok(of_a), Ok(of_b)) => of_a != of_b,
        _ => false,
    }
}

/// What two states differ in, in words.
const fn subject(waits: WaitsFor) -> &'static str {
    match waits {
        WaitsFor::Preemption => "kernel preemption",
        WaitsFor::Smt => "SMT",
        WaitsFor::Kernel => "the kernel",
        _ => "the system",
    }
}

/// Two runs that took turns: their state was switched before each try, so that each round is a pair.
fn pair<'a>(a: &'a Repeated, b: &'a Repeated) -> Option<[&'a RunData; 2]> {
    match (&a.runs[..], &b.runs[..]) {
        ([a], [b]) => took_turns(&a.results.run, &b.results.run).then_some([a, b]),
        _ => None,
    }
}

fn lacks(says: String) -> Lack {
    Lack::new(Need::System, says)
}

/// What a side's state is; states of a kind are ordered as a claim names them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Switch(bool),
    /// SMT is on, and the run had one CPU of each core alone.
    OneThreadACore,
    Version(Vec<u64>, String),
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::OneThreadACore => f.write_str("one thread a core"),
            Self::Version(_, name) => f.write_str(name),
        }
    }
}

/// The state of all runs of a side.
fn state(waits: WaitsFor, side: &Repeated) -> Result<State, Lack> {
    let of = |run: &RunData| match state_of(waits, &run.results.machine)? {
        State::Switch(true) if waits == WaitsFor::Smt && has_one_thread_a_core(run) => {
            Some(State::OneThreadACore)
        }
        state => Some(state),
    };
    let unknown = || lacks(format!("{} is not known of {}", subject(waits), side.name));
    let first = side.runs.first().and_then(of).ok_or_else(unknown)?;
    match side.runs.iter().all(|run| of(run).as_ref() == Some(&first)) {
        true => Ok(first),
        false => Err(lacks(format!(
            "{} is not the same in all runs of {}",
            subject(waits),
            side.name
        ))),
    }
}

fn state_of(waits: WaitsFor, machine: &Value) -> Option<State> {
    let text = |name: &str| machine.get(name).and_then(Value::as_str);
    match waits {
        WaitsFor::Preemption => match text("preemption")?.split(' ').next()? {
            "none" | "voluntary" => Some(State::Switch(false)),
            "full" => Some(State::Switch(true)),
            // A lazy kernel is neither.
            _ => None,
        },
        WaitsFor::Smt => machine.get("smt")?.as_bool().map(State::Switch),
        WaitsFor::Kernel | WaitsFor::System => {
            let name = text("kernel")?;
            // What answers in a kernel's place is a system, and no older or newer kernel.
            if waits == WaitsFor::Kernel && name.contains("gvisor") {
                return None;
            }
            let numbers = name.split(|c: char| !c.is_ascii_digit());
            let numbers = numbers.filter_map(|number| number.parse().ok()).collect();
            Some(State::Version(numbers, name.to_owned()))
        }
        _ => None,
    }
}

/// Whether a run had no two CPUs of one core, as far as that is known.
fn has_one_thread_a_core(run: &RunData) -> bool {
    let cores = run.results.machine.pointer("/topology/smt_siblings");
    let cores = cores.and_then(Value::as_array).into_iter().flatten();
    let cores: Option<Vec<_>> = cores.map(|core| ranges(core.as_str()?)).collect();
    let (Some(cores), Some(cpus)) = (cores, ranges_of(&run.results)) else {
        return false;
    };
    let shared = |core: &Vec<[u64; 2]>| {
        let both = core.iter().flat_map(|of| {
            cpus.iter()
                .map(move |[first, last]| [of[0].max(*first), of[1].min(*last)])
        });
        how_many(both)
    };
    !cores.is_empty() && cores.iter().all(|core| shared(core) < 2)
}

/// The first fact in which any run of both sides differs from the first of A, beyond what belongs to the state.
fn differs_besides(waits: WaitsFor, a: &Repeated, b: &Repeated) -> Option<String> {
    let first = a.runs.first()?;
    let others = a.runs.iter().skip(1).chain(&b.runs);
    others
        .flat_map(|other| {
            let differ = differences(&first.results.machine, &other.results.machine);
            differ
                .filter(|of| !(belongs(waits, of.fact) || waits == WaitsFor::System && is_untold(of)))
                .map(|Differs { fact, a, b }| {
                    format!("{fact} is {a} in {} and {b} in {}", first.name, other.name)
                })
                .collect::<Vec<_>>()
        })
        .next()
}

/// The first run of both sides that was made otherwise than the first of A, and in what: what the program itself does
/// otherwise is not told from the state. The command that brings a state about belongs to it.
fn measured_otherwise(a: &Repeated, b: &Repeated) -> Option<String> {
    let facts = |run: &RunData| {
        let run = &run.results.run;
        let options = run.options.iter().map(String::as_str);
        let chosen: Vec<&str> = options.filter(|option| !option.starts_with(BEFORE_TRY)).collect();
        [
            ("version", run.version.clone()),
            ("profile", run.profile.clone()),
            ("options", chosen.join(" ")),
        ]
    };
    let first = a.runs.first()?;
    let others = a.runs.iter().skip(1).chain(&b.runs);
    let mut differ = others.flat_map(|other| {
        let both = facts(first).into_iter().zip(facts(other));
        both.filter(|((_, of_first), (_, of_other))| of_first != of_other)
            .map(|((fact, of_first), (_, of_other))| {
                format!(
                    "{fact} is \"{of_first}\" in {} and \"{of_other}\" in {}",
                    first.name, other.name
                )
            })
            .collect::<Vec<_>>()
    });
    differ.next()
}

/// How the command before each try is kept among a run's options.
const BEFORE_TRY: &str = "--before-try ";

/// Whether one of two systems does not say what the machine below it is; no quota is a quota of none.
fn is_untold(of: &Differs) -> bool {
    of.fact != "cgroup.quota_cpus" && [&of.a, &of.b].iter().any(|says| *says == UNTOLD)
}

/// Whether a fact is, or comes with, the state that a claim is about.
fn belongs(waits: WaitsFor, fact: &str) -> bool {
    match waits {
        WaitsFor::Preemption => fact == "preemption",
        // What is done against faults of processors says what it does about siblings.
        WaitsFor::Smt => {
            fact.starts_with("topology.") || ["smt", "cpus", "effective_cpus", "mitigations"].contains(&fact)
        }
        WaitsFor::Kernel => ["kernel", "scheduler", "mitigations"].contains(&fact),
        // All that a system says of itself is its own; the machine below is the same.
        WaitsFor::System => !["cpu_model", "cpus", "smt", "cgroup.quota_cpus"].contains(&fact),
        _ => false,
    }
}

/// A figure of some cases in one state over that in another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfStates {
    /// The second over the first.
    pub ratio: f64,
    /// With the spread between runs of a state.
    pub ci: Option<[f64; 2]>,
    /// How many cases it is of.
    pub cases: usize,
}

/// `metric` of those cases of `experiment` that all runs have figures of and `is_meant` chooses: of each run the
/// geometric mean over them, and of the second side's runs the ratio to the first's, with an interval of level
/// 1 − `alpha`. Of two runs in turns it is of their rounds. What has all CPUs of one machine is set against what has
/// all of another: with SMT there are more of them. All may be one CPU, but for two runs in turns: they both measured
/// what is on one. None where there is no such case.
#[must_use]
pub fn ratio_of_states(
    [first, second]: [&Repeated; 2],
    experiment: &str,
    metric: &str,
    alpha: f64,
    is_meant: impl Fn(&Params) -> bool,
) -> Option<OfStates> {
    let runs: Vec<&RunData> = first.runs.iter().chain(&second.runs).collect();
    let pair = pair(first, second);
    // By these names it was chosen what two runs in turns both measure.
    let named = if pair.is_some() { with_all_cpus } else { with_all };
    let cases = in_each(&runs, experiment, named, is_meant);
    let (of, cases) = match pair {
        Some(runs) => of_pair(runs, experiment, metric, alpha, &cases)?,
        None => of_runs(&runs, first.runs.len(), experiment, metric, alpha, &cases)?,
    };
    Some(OfStates {
        ratio: of.estimate,
        ci: of.ci.map(|ci| [ci.low, ci.high]),
        cases,
    })
}

/// The chosen cases that all runs have by such a name, each by its id in each of them.
fn in_each<'a>(
    runs: &[&'a RunData],
    experiment: &str,
    named: fn(&Params, Option<u64>) -> Params,
    is_meant: impl Fn(&Params) -> bool,
) -> Vec<Vec<&'a str>> {
    let of_run = |run: &&'a RunData| {
        let all = run.results.cpus();
        let of = run.results.experiments.iter().filter(|e| e.id == experiment);
        let meant = of.flat_map(|e| &e.cases).filter(|case| is_meant(&case.params));
        let by_name = meant.map(|case| (named(&case.params, all).to_string(), case.id.as_str()));
        by_name.collect::<BTreeMap<String, &str>>()
    };
    let ids: Vec<BTreeMap<String, &str>> = runs.iter().map(of_run).collect();
    let names = ids.first().map(|of_first| of_first.keys()).into_iter().flatten();
    let in_all = |name: &String| ids.iter().map(|of| of.get(name).copied()).collect();
    names.filter_map(in_all).collect()
}

/// The ratio of runs, the first ones' and the others', each with its mean over the cases that all have, and how many
/// these are.
fn of_runs(
    runs: &[&RunData],
    first: usize,
    experiment: &str,
    metric: &str,
    alpha: f64,
    cases: &[Vec<&str>],
) -> Option<(Estimate, usize)> {
    let of_case = |ids: &Vec<&str>| {
        let of_runs = runs.iter().zip(ids);
        of_runs
            .map(|(run, id)| figure(run, experiment, id, metric))
            .collect()
    };
    let figures: Vec<Vec<f64>> = cases.iter().filter_map(of_case).collect();
    let means = geometric_means(&figures)?;
    let (of_first, of_second) = means.split_at(first);
    Some((ratio_of_runs(of_first, of_second, alpha).ok()?, figures.len()))
}

/// The ratio of two runs by the rounds that both have of all cases of which both have any.
fn of_pair(
    [first, second]: [&RunData; 2],
    experiment: &str,
    metric: &str,
    alpha: f64,
    cases: &[Vec<&str>],
) -> Option<(Estimate, usize)> {
    let of_case = |ids: &Vec<&str>| {
        let both = [(first, 0), (second, 1)].map(|(run, n)| rounds(run, experiment, ids[n], metric));
        both.iter().all(|of| !of.is_empty()).then_some(both)
    };
    let figures: Vec<_> = cases.iter().filter_map(of_case).collect();
    let common: Vec<u32> = (figures.first()?[0].keys().copied())
        .filter(|round| figures.iter().flatten().all(|of| of.contains_key(round)))
        .collect();
    let [of_first, of_second] = [0, 1].map(|side| {
        let of_case = |of: &[ByRoundOfCase; 2]| common.iter().map(|round| of[side][round]).collect();
        geometric_means(&figures.iter().map(of_case).collect::<Vec<Vec<f64>>>())
    });
    Some((paired_ratio(&of_first?, &of_second?, alpha).ok()?, figures.len()))
}

/// The figures of a case by round.
type ByRoundOfCase = BTreeMap<u32, f64>;

/// Of rows of as many figures each, the mean of each column; none of no row.
fn geometric_means(rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    let columns = rows.first()?.len();
    let mean = |column: usize| {
        let logs = rows.iter().map(|row| row[column].ln());
        (logs.sum::<f64>() / rows.len() as f64).exp()
    };
    Some((0..columns).map(mean).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::made::{in_turns, on_cpus, timed};
    use super::*;

    /// Runs of one case at these times, on such a machine, begun at every other minute from `minute` on.
    fn side(name: &str, machine: &Value, minute: usize, ns: &[f64]) -> Repeated {
        let run = |(n, ns): (usize, &f64)| {
            let mut run = timed(&format!("{name}/{n}"), &[(1, *ns), (2, 2.0 * ns)], 1.0);
            run.results.machine = machine.clone();
            run.results.run.started = format!("2026-01-01T00:{:02}:00Z", minute + 2 * n);
            run
        };
        Repeated {
            name: name.to_owned(),
            runs: ns.iter().enumerate().map(run).collect(),
        }
    }

    fn machine(kernel: &str, preemption: &str, smt: bool) -> Value {
        json!({
            "kernel": kernel, "preemption": preemption, "smt": smt, "cpus": if smt { 4 } else { 2 },
            "cpu_model": "A processor", "hypervisor": null,
        })
    }

    const OLD: &str = "6.9.1-generic";
    const NEW: &str = "6.12.0-generic";
    const NS: [f64; 3] = [100.0, 101.0, 99.0];

    fn lack(waits: WaitsFor, a: &Repeated, b: &Repeated) -> (Need, String) {
        let lack = two_states(waits, a, b).unwrap_err();
        (lack.of, lack.says)
    }

    #[test]
    fn sides_come_in_the_order_in_which_claims_name_states() {
        let of = |name: &str, machine: Value, minute| side(name, &machine, minute, &NS);
        for (waits, first, second) in [
            (
                WaitsFor::Preemption,
                machine(OLD, "voluntary (dynamic)", true),
                machine(OLD, "full (dynamic)", true),
            ),
            (
                WaitsFor::Smt,
                machine(OLD, "none", false),
                machine(OLD, "none", true),
            ),
            // By number, not by letter.
            (
                WaitsFor::Kernel,
                machine(OLD, "none", true),
                machine(NEW, "none", true),
            ),
        ] {
            let (first, second) = (of("first", first, 0), of("second", second, 1));
            for (a, b) in [(&first, &second), (&second, &first)] {
                let sides = two_states(waits, a, b).unwrap().map(|side| side.name.as_str());
                assert_eq!(sides, ["first", "second"], "{waits}");
            }
        }
        let (a, b) = (
            of("a", machine(NEW, "full", false), 0),
            of("b", machine("4.4.0-gvisor", "none", false), 1),
        );
        assert!(two_states(WaitsFor::System, &a, &b).is_ok());
        // It does not say whether there is SMT below it.
        let mut untold = machine("4.4.0-gvisor", "none", false);
        untold["smt"] = Value::Null;
        let b = of("b", untold, 1);
        assert!(two_states(WaitsFor::System, &a, &b).is_ok());
        // It is no older kernel.
        assert_eq!(lack(WaitsFor::Kernel, &a, &b).1, "the kernel is not known of b");
    }

    #[test]
    fn one_thread_a_core_is_a_state_of_its_own_and_is_not_smt_off() {
        let of = |name: &str, smt: bool, allowed: &str, options: &[&str]| {
            let mut machine = machine(OLD, "none", smt);
            machine["allowed_cpus"] = json!(allowed);
            let cores: &[&str] = if smt { &["0-1", "2,3"] } else { &[] };
            machine["topology"] = json!({"smt_siblings": cores});
            let mut side = side(name, &machine, 0, &NS);
            for run in &mut side.runs {
                run.results.run.options = options.iter().map(|option| (*option).to_owned()).collect();
            }
            side
        };
        let shown = |side: &Repeated| state(WaitsFor::Smt, side).unwrap().to_string();
        let (off, on) = (of("off", false, "0,2", &[]), of("on", true, "0-3", &[]));
        // By the affinity of the whole run, or by the CPUs that it was given.
        let by_affinity = of("idle", true, "0,2", &[]);
        let given = of("idle", true, "0-3", &["--cpus 1-2"]);
        for (side, says) in [
            (&off, "off"),
            (&on, "on"),
            (&of("on", true, "0,2-3", &[]), "on"),
            (&of("on", true, "", &[]), "on"),
            (&by_affinity, "one thread a core"),
            (&given, "one thread a core"),
        ] {
            assert_eq!(shown(side), says);
        }
        assert_eq!(
            lack(WaitsFor::Smt, &by_affinity, &given).1,
            "idle and idle do not differ in SMT: one thread a core in both"
        );
        for other in [&off, &on] {
            let (of, says) = lack(WaitsFor::Smt, other, &by_affinity);
            assert_eq!(of, Need::System);
            assert!(says.ends_with("that the other is idle is not SMT off"), "{says}");
            assert!(differ_in_state(WaitsFor::Smt, other, &by_affinity));
        }
        // Preemption has nothing to do with it.
        assert!(state(WaitsFor::Preemption, &by_affinity).is_ok());
    }

    #[test]
    fn sides_with_smt_on_and_off_of_other_cases_or_cpus_are_no_states() {
        let with = |options: [&[&str]; 2]| {
            let [off, on] = [("off", false, 0), ("on", true, 1)].map(|(name, smt, minute)| {
                let mut side = side(name, &machine(OLD, "none", smt), minute, &NS);
                for run in &mut side.runs {
                    let of = options[usize::from(smt)];
                    run.results.run.options = of.iter().map(|option| (*option).to_owned()).collect();
                }
                side
            });
            two_states(WaitsFor::Smt, &off, &on).map(|_| ())
        };
        assert_eq!(with([&["create"], &["create"]]), Ok(()));
        for option in ["--case create/n=1", "--cpus 0-1"] {
            let says = format!(
                "off and on differ in more than SMT: options is \"create\" in off/0 and \"create {option}\" in on/0"
            );
            let lack = with([&["create"], &["create", option]]);
            assert_eq!(lack, Err(Lack::new(Need::Profile, says)));
        }
    }

    #[test]
    fn what_differs_besides_or_not_at_all_is_named() {
        let usual = side("usual", &machine(OLD, "none", true), 0, &NS);
        let with = |change: fn(&mut Value)| {
            let mut other = machine(OLD, "full", true);
            change(&mut other);
            side("other", &other, 1, &NS)
        };
        let preemption = |other: &Repeated| lack(WaitsFor::Preemption, &usual, other);
        assert_eq!(
            preemption(&with(|m| m["kernel"] = json!("6.12"))),
            (
                Need::System,
                r#"usual and other differ in more than kernel preemption: kernel is "6.9.1-generic" in usual/0 and "6.12" in other/0"#
                    .to_owned()
            )
        );
        assert_eq!(
            preemption(&with(|m| m["preemption"] = json!("none"))),
            (
                Need::System,
                "usual and other do not differ in kernel preemption: off in both".to_owned()
            )
        );
        assert_eq!(
            preemption(&with(|m| m["preemption"] = json!("lazy"))).1,
            "kernel preemption is not known of other"
        );
        assert!(
            preemption(&with(|m| m["hypervisor"] = json!("qemu-tcg")))
                .1
                .contains("differ in more")
        );
        let mut mixed = with(|_| ());
        mixed.runs[2].results.machine = usual.runs[0].results.machine.clone();
        assert_eq!(
            preemption(&mixed).1,
            "kernel preemption is not the same in all runs of other"
        );
        let emulated = |preemption: &str, minute| {
            let mut of = machine(OLD, preemption, true);
            of["hypervisor"] = json!("qemu-tcg");
            side(preemption, &of, minute, &NS)
        };
        let (of, says) = lack(WaitsFor::Preemption, &emulated("none", 0), &emulated("full", 1));
        assert_eq!(
            (of, says.as_str()),
            (
                Need::System,
                "the runs called none are of an emulated processor, whose times are not a machine's"
            )
        );
    }

    #[test]
    fn runs_that_were_made_otherwise_are_no_states_but_for_the_command_that_brings_a_state_about() {
        let [off, on] = ["none", "full"].map(|preemption| machine(OLD, preemption, true));
        let usual = side("usual", &off, 0, &NS);
        let with = |change: fn(&mut crate::Run)| {
            let mut other = side("other", &on, 1, &NS);
            for run in &mut other.runs {
                change(&mut run.results.run);
            }
            two_states(WaitsFor::Preemption, &usual, &other).map(|_| ())
        };
        let run = &usual.runs[0].results.run;
        for (fact, of_usual, lack) in [
            ("version", &run.version, with(|run| run.version = "9".to_owned())),
            ("profile", &run.profile, with(|run| run.profile = "9".to_owned())),
            (
                "options",
                &run.options.join(" "),
                with(|run| run.options = vec!["9".to_owned()]),
            ),
        ] {
            let says = format!(
                "usual and other differ in more than kernel preemption: {fact} is \"{of_usual}\" in usual/0 and \"9\" in \
                 other/0"
            );
            assert_eq!(lack, Err(Lack::new(Need::Profile, says)));
        }
        assert_eq!(
            with(|run| run.options.push("--before-try x y".to_owned())),
            Ok(())
        );
    }

    #[test]
    fn too_few_runs_and_runs_not_by_turns_leave_it_open() {
        let [off, on] = ["none", "full"].map(|preemption| machine(OLD, preemption, true));
        let usual = side("usual", &off, 0, &NS);
        let few = lack(WaitsFor::Preemption, &usual, &side("few", &on, 1, &NS[..2]));
        assert_eq!(
            few,
            (
                Need::Figures,
                "few has 2 runs, and how far runs of a state lie apart takes 3".to_owned()
            )
        );
        let (of, says) = lack(WaitsFor::Preemption, &usual, &side("later", &on, 30, &NS));
        assert_eq!(of, Need::Figures);
        assert!(says.contains("were not made by turns"), "{says}");
    }

    #[test]
    fn two_runs_in_turns_are_states_by_their_rounds() {
        let [off, on] = ["none", "full"].map(|preemption| machine(OLD, preemption, true));
        let [mut off, mut on] = [side("off", &off, 0, &[100.0]), side("on", &on, 1, &[120.0])];
        assert_eq!(lack(WaitsFor::Preemption, &off, &on).0, Need::Figures);
        let (a, b) = in_turns(off.runs.remove(0), on.runs.remove(0));
        let [off, on] = [Repeated::once(a), Repeated::once(b)];
        let sides = two_states(WaitsFor::Preemption, &on, &off).unwrap();
        let of = ratio_of_states(sides, "e", "elapsed_ns", 0.05, |_| true).unwrap();
        assert!((of.ratio - 1.2).abs() < 1e-9 && of.ci.is_some(), "{of:?}");
        assert_eq!(of.cases, 2);
    }

    #[test]
    fn the_ratio_is_of_runs_and_of_the_cases_that_are_meant() {
        let [off, on] = ["none", "full"].map(|preemption| machine(OLD, preemption, true));
        let usual = side("usual", &off, 0, &NS);
        let slower = side("slower", &on, 1, &NS.map(|ns| 1.2 * ns));
        let of = |is_meant: fn(&Params) -> bool| {
            ratio_of_states([&usual, &slower], "e", "elapsed_ns", 0.05, is_meant)
        };
        let all = of(|_| true).unwrap();
        let [low, high] = all.ci.unwrap();
        assert!(
            (all.ratio - 1.2).abs() < 1e-9 && low < 1.19 && high > 1.21,
            "{all:?}"
        );
        assert_eq!(all.cases, 2);
        assert_eq!(of(|params| params.int("n") == Some(2)).unwrap().cases, 1);
        assert_eq!(of(|_| false), None);
        // A case without figures in one of the runs is not among them.
        let mut lacking = slower;
        let samples = lacking.runs[1].samples.get_mut("e").unwrap();
        samples.retain(|sample| sample.case != "e/n=2");
        let left = ratio_of_states([&usual, &lacking], "e", "elapsed_ns", 0.05, |_| true).unwrap();
        assert_eq!(left.cases, 1);
    }

    #[test]
    fn what_has_all_cpus_of_one_machine_is_set_against_what_has_all_of_another() {
        // Without SMT a machine of one core has one CPU.
        for [without, with] in [[2, 4], [1, 2]] {
            // The second case has all CPUs.
            let of = |name: &str, smt: bool, cpus: u64, minute: usize, ns: f64| {
                let machine = machine(OLD, "none", smt);
                let mut side = side(name, &machine, minute, &[ns, 1.01 * ns, 0.99 * ns]);
                let n = |n: u64| Params::new().with("n", n);
                let on = |run| on_cpus(run, cpus, [n(1), n(2).with("cpus", cpus)]);
                side.runs = side.runs.into_iter().map(on).collect();
                side
            };
            let (off, on) = (of("off", false, without, 0, 100.0), of("on", true, with, 1, 90.0));
            let found = ratio_of_states([&off, &on], "e", "elapsed_ns", 0.05, |params| {
                params.int("n") == Some(2)
            });
            let found = found.unwrap();
            assert_eq!(found.cases, 1);
            assert!((found.ratio - 0.9).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn of_runs_in_turns_on_one_cpu_and_on_two_what_both_measured_on_one_is_set_against_each_other() {
        let on = |name: &str, cpus: u64, ns: f64| {
            let cases: Vec<(u64, f64)> = (1..=cpus).map(|n| (n, ns)).collect();
            let of_cases = (1..=cpus).map(|n| Params::new().with("cpus", n));
            on_cpus(timed(name, &cases, 1.0), cpus, of_cases)
        };
        let (off, mut on) = in_turns(on("off", 1, 100.0), on("on", 2, 90.0));
        let samples = on.samples.get_mut("e").unwrap();
        samples.retain(|sample| sample.case == "e/cpus=1");
        let sides = [off, on].map(Repeated::once);
        let found = ratio_of_states(sides.each_ref(), "e", "elapsed_ns", 0.05, |_| true).unwrap();
        assert_eq!(found.cases, 1);
        assert!((found.ratio - 0.9).abs() < 1e-9, "{found:?}");
    }
}
