//! What differs in the setting of two runs: the machine, how it let the program run, the version and the choices.

use serde_json::Value;

use super::compared::{Repeated, RunData};
use super::emulated::{emulated, emulated_machines};
use crate::Results;
use crate::units::counted;

/// The facts of two fingerprints that make their figures incomparable where they differ: of the machine, and of how it
/// let the program run. A fact that an earlier version did not look for is in one document alone, and is no difference.
#[must_use]
pub fn machine_differences(a: &Value, b: &Value) -> Vec<String> {
    let says = |of: Differs| format!("{} is {} in A and {} in B", of.fact, of.a, of.b);
    differences(a, b).map(says).collect()
}

/// A fact that differs, as it is shown.
pub(super) struct Differs {
    pub(super) fact: &'static str,
    pub(super) a: String,
    pub(super) b: String,
}

const FACTS: [&str; 29] = [
    "cpu_model",
    "cpus",
    "smt",
    "topology.smt_siblings",
    "topology.cache_siblings",
    "kernel",
    "preemption",
    "scheduler",
    "thread_library",
    "hypervisor",
    "governor",
    "transparent_huge_pages",
    "mitigations",
    "clocksource",
    "effective_cpus",
    "autogroup",
    "scheduling.policy",
    "scheduling.realtime_priority",
    "scheduling.niceness",
    "scheduling.autogroup_niceness",
    "scheduling.sched_ext",
    "scheduling.timer_slack_ns",
    "scheduling.isolated_cpus",
    "scheduling.tickless_cpus",
    "scheduling.random_addresses",
    WEIGHTS,
    "cgroup.idle",
    "cgroup.memory_limit_kib",
    QUOTA,
];

/// What a fact is called that is null.
pub(super) const UNTOLD: &str = "none or not known";

pub(super) fn differences(a: &Value, b: &Value) -> impl Iterator<Item = Differs> {
    FACTS.into_iter().filter_map(move |name| {
        let (x, y) = (fact(a, name)?, fact(b, name)?);
        (x != y).then(|| {
            let mut both = [Some(x), Some(y)];
            keep_parts_that_differ(&mut both);
            let [a, b] = both.map(|fact| fact.as_ref().map_or_else(String::new, shown));
            Differs { fact: name, a, b }
        })
    })
}

/// Of facts with parts, as the mitigations are, keeps those parts alone that are not the same in all.
fn keep_parts_that_differ(facts: &mut [Option<Value>]) {
    let known: Vec<&Value> = facts.iter().flatten().collect();
    let objects: Vec<_> = known.iter().filter_map(|fact| fact.as_object()).collect();
    if objects.is_empty() || objects.len() < known.len() {
        return;
    }
    let is_same = |key: &String| objects.iter().all(|of| of.get(key) == objects[0].get(key));
    let same: Vec<String> = objects[0].keys().filter(|key| is_same(key)).cloned().collect();
    for fact in facts.iter_mut().flatten().filter_map(Value::as_object_mut) {
        fact.retain(|key, _| !same.contains(key));
    }
}

/// The facts that several machines differ in, each with what it is on which.
pub(super) fn what_differs(machines: &[&Value]) -> Vec<(&'static str, Vec<String>)> {
    let of = |name| {
        machines
            .iter()
            .map(|machine| fact(machine, name))
            .collect::<Vec<_>>()
    };
    // What is known of one alone is no difference.
    let differ = |facts: &[Option<Value>]| {
        let mut known = facts.iter().flatten();
        let first = known.next();
        known.any(|fact| Some(fact) != first)
    };
    let differing = FACTS.into_iter().map(|name| (name, of(name)));
    let says = |fact: Option<Value>| fact.as_ref().map_or_else(|| "not known".to_owned(), plain);
    differing
        .filter(|(_, facts)| differ(facts))
        .map(|(name, mut facts)| {
            keep_parts_that_differ(&mut facts);
            (name, facts.into_iter().map(says).collect())
        })
        .collect()
}

/// The facts by which a machine is called, in the order in which they are asked.
const NAMING: [&str; 8] = [
    "kernel",
    "preemption",
    "smt",
    "cpus",
    "cpu_model",
    "hypervisor",
    "thread_library",
    QUOTA,
];

/// What several machines are called: the first two facts that they differ in, where that tells all apart.
pub(super) fn called(machines: &[&Value]) -> Option<Vec<String>> {
    let differing = what_differs(machines);
    let facts = NAMING
        .into_iter()
        .filter_map(|name| differing.iter().find(|(fact, _)| *fact == name));
    let facts: Vec<&(&str, Vec<String>)> = facts.take(2).collect();
    let name = |machine: usize| {
        let parts = facts
            .iter()
            .map(|(fact, values)| in_words(fact, &values[machine]));
        parts.collect::<Vec<_>>().join(", ")
    };
    let names: Vec<String> = (0..machines.len()).map(name).collect();
    let different: std::collections::BTreeSet<&String> = names.iter().collect();
    (different.len() == names.len() && !facts.is_empty()).then_some(names)
}

/// A fact as a name: `kernel 6.1`, `2 CPUs`, `SMT off`.
fn in_words(fact: &str, value: &str) -> String {
    match (fact, value.parse::<usize>()) {
        ("cpus", Ok(cpus)) => counted(cpus, "CPU"),
        ("smt", _) => format!("SMT {}", if value == "true" { "on" } else { "off" }),
        // What is in brackets says where it was read.
        ("preemption", _) => format!("preemption {}", value.split(" (").next().unwrap_or(value)),
        ("kernel", _) => format!("kernel {value}"),
        (QUOTA, _) => format!("quota {value}"),
        (_, _) => value.to_owned(),
    }
}

/// A fact without the marks of JSON around words.
fn plain(fact: &Value) -> String {
    match fact {
        Value::String(words) => words.clone(),
        other => shown(other),
    }
}

/// How many CPUs' worth of time a quota grants.
const QUOTA: &str = "cgroup.quota_cpus";
/// The CPU weights of the control groups on the way, and that of a group that nobody changed.
const WEIGHTS: &str = "cgroup.weights";
const DEFAULT_WEIGHT: f64 = 100.0;

/// A fact of a fingerprint by its path; `None` where the document has no such field.
fn fact(of: &Value, path: &str) -> Option<Value> {
    let mut fact = path.split('.').try_fold(of, |of, name| of.get(name))?.clone();
    // How many groups there are is no difference; that one of them has another weight is.
    if let (WEIGHTS, Value::Array(weights)) = (path, &mut fact) {
        weights.retain(|weight| weight.as_f64() != Some(DEFAULT_WEIGHT));
    }
    Some(fact)
}

fn shown(fact: &Value) -> String {
    match fact {
        Value::Null => UNTOLD.to_owned(),
        known => known.to_string(),
    }
}

/// Where one of two runs was under a CPU quota and the other was not, or under another one: what that does to figures.
fn quotas([a_name, b_name]: [&str; 2], a: &Value, b: &Value) -> Option<String> {
    let quota = |of: &Value| fact(of, QUOTA)?.as_f64();
    let says = |quota: Option<f64>| match quota {
        Some(cpus) => format!("under a CPU quota of {cpus}"),
        None => "under no CPU quota".to_owned(),
    };
    let (of_a, of_b) = (quota(a), quota(b));
    (of_a != of_b).then(|| {
        format!(
            "A QUOTA DIFFERS: {a_name} ran {}, {b_name} {}. What the quota stops takes longer for that alone",
            says(of_a),
            says(of_b)
        )
    })
}

/// What differs in the setting of two runs that are called so, loudly, and what each warns of.
pub(super) fn guard(names: [&str; 2], a: &Results, b: &Results) -> Vec<String> {
    let mut says = apart(names, a, b);
    let machines = [&a.machine, &b.machine];
    says.extend(emulated_machines(names.into_iter().zip(machines)));
    for (name, of) in names.into_iter().zip([a, b]) {
        says.extend(of.warnings.iter().map(|warning| format!("{name}: {warning}")));
    }
    says
}

/// The same of two sides, by the first run of each; what their runs warn of is left to [`of_runs`].
pub(super) fn of_sides(a: &Repeated, b: &Repeated) -> Vec<String> {
    let names = [a.name.as_str(), b.name.as_str()];
    let mut says = apart(names, &a.runs[0].results, &b.runs[0].results);
    says.extend(emulated(names.into_iter().zip([a, b])));
    says
}

fn apart(names: [&str; 2], a: &Results, b: &Results) -> Vec<String> {
    let [a_name, b_name] = names;
    let machine = differences(&a.machine, &b.machine)
        .filter(|of| of.fact != QUOTA)
        .map(|Differs { fact, a, b }| {
            format!("THE MACHINES DIFFER: {fact} is {a} in {a_name} and {b} in {b_name}")
        });
    let machine = quotas(names, &a.machine, &b.machine).into_iter().chain(machine);
    let options = other_options(&a.run.options, &b.run.options);
    let run = [
        ("version", a.run.version.clone(), b.run.version.clone()),
        ("profile", a.run.profile.clone(), b.run.profile.clone()),
        ("options", options[0].clone(), options[1].clone()),
    ];
    let run = run.into_iter().filter(|(_, x, y)| x != y).map(|(name, x, y)| {
        format!("THE RUNS DIFFER: {name} is \"{x}\" in {a_name} and \"{y}\" in {b_name}")
    });
    machine.chain(run).collect()
}

/// The options that one of two runs has and the other has not; all of both where they have the same in another order.
fn other_options(a: &[String], b: &[String]) -> [String; 2] {
    let lacking = |own: &[String], other: &[String]| {
        let own = own.iter().filter(|option| !other.contains(option));
        own.cloned().collect::<Vec<_>>().join(" ")
    };
    let [of_a, of_b] = [lacking(a, b), lacking(b, a)];
    match of_a == of_b {
        true => [a.join(" "), b.join(" ")],
        false => [of_a, of_b],
    }
}

/// What differs between the machines of a side's runs, each fact once; and what they warn of, which of many is no more
/// than counted.
pub(super) fn of_runs(name: &str, side: &Repeated) -> Vec<String> {
    let mut says: Vec<String> = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    let first = &side.runs[0];
    for other in &side.runs[1..] {
        for of in differences(&first.results.machine, &other.results.machine) {
            if !told.contains(&of.fact) {
                told.push(of.fact);
                says.push(format!(
                    "THE RUNS OF {name} DIFFER: {} is {} in {} and {} in {}",
                    of.fact, of.a, first.name, of.b, other.name
                ));
            }
        }
    }
    let warned: Vec<(&RunData, &String)> = (side.runs.iter())
        .flat_map(|run| run.results.warnings.iter().map(move |warning| (run, warning)))
        .collect();
    match &warned[..] {
        [] => {}
        [(run, warning)] => says.push(format!("{}: {warning}", run.name)),
        [(run, warning), ..] => says.push(format!(
            "{} in the runs of {name}. The first, in {}: {warning}",
            counted(warned.len(), "warning"),
            run.name
        )),
    }
    says
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_mitigations_those_are_said_that_differ() {
        let machine = |retbleed: &str| serde_json::json!({"mitigations": {"l1tf": "Not affected", "retbleed": retbleed}});
        let says = machine_differences(&machine("Not affected"), &machine("Mitigation: IBPB"));
        assert_eq!(
            says,
            [r#"mitigations is {"retbleed":"Not affected"} in A and {"retbleed":"Mitigation: IBPB"} in B"#]
        );
        let [one, other, unknown] = [
            machine("Not affected"),
            machine("Vulnerable"),
            serde_json::json!({"smt": true}),
        ];
        let says = what_differs(&[&unknown, &one, &other]);
        let values = [
            "not known",
            r#"{"retbleed":"Not affected"}"#,
            r#"{"retbleed":"Vulnerable"}"#,
        ];
        assert_eq!(says, [("mitigations", values.map(str::to_owned).to_vec())]);
    }

    #[test]
    fn of_options_those_are_said_that_one_run_alone_has() {
        let of = |a: &[&str], b: &[&str]| {
            let [a, b] = [a, b].map(|of| of.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>());
            other_options(&a, &b)
        };
        assert_eq!(of(&["ring", "--rounds 6"], &["ring"]), ["--rounds 6", ""]);
        assert_eq!(
            of(&["ring", "--before-try x"], &["ring", "--before-try y"]),
            ["--before-try x", "--before-try y"]
        );
        assert_eq!(of(&["a", "b"], &["b", "a"]), ["a b", "b a"]);
        assert_eq!(of(&["a"], &["a"]), ["a", "a"]);
    }

    #[test]
    fn how_a_run_was_scheduled_is_said_where_it_differs_and_a_quota_first() {
        let machine = |policy: &str, nice: i32, quota: Value| {
            serde_json::json!({
                "cpus": 2,
                "scheduling": {"policy": policy, "niceness": nice},
                "cgroup": {"quota_cpus": quota, "weights": vec![100.0; 1 + nice as usize]},
                "topology": {"smt_siblings": ["0-1"]},
            })
        };
        let usual = machine("other", 0, Value::Null);
        assert_eq!(machine_differences(&usual, &usual), [""; 0]);
        let text = include_str!("../../../../runs/golden/computing/results.json");
        let results: Results = serde_json::from_str(text).unwrap();
        let of = |machine: Value| Results {
            machine,
            warnings: Vec::new(),
            ..results.clone()
        };
        let differing = machine("idle", 5, serde_json::json!(0.5));
        let names = ["before", "after"];
        assert_eq!(
            guard(names, &of(usual.clone()), &of(differing.clone())),
            [
                "A QUOTA DIFFERS: before ran under no CPU quota, after under a CPU quota of 0.5. What the quota stops takes \
                 longer for that alone",
                "THE MACHINES DIFFER: scheduling.policy is \"other\" in before and \"idle\" in after",
                "THE MACHINES DIFFER: scheduling.niceness is 0 in before and 5 in after",
            ]
        );
        // Figures under a quota are not gone on with without it.
        assert!(
            machine_differences(&usual, &differing)
                .iter()
                .any(|says| says.starts_with("cgroup.quota_cpus"))
        );
        // An earlier version looked for none of it.
        let old = serde_json::json!({"cpus": 2});
        assert_eq!(guard(names, &of(old), &of(usual)), [""; 0]);
    }

    #[test]
    fn what_a_run_warns_of_and_an_emulated_processor_are_said_by_the_names_of_the_sides() {
        let text = include_str!("../../../../runs/golden/computing/results.json");
        let results: Results = serde_json::from_str(text).unwrap();
        let of = |hypervisor: &str, warning: &str| Results {
            machine: serde_json::json!({"hypervisor": hypervisor}),
            warnings: vec![warning.to_owned()],
            ..results.clone()
        };
        let says = guard(["before", "after"], &of("kvm", "x"), &of("qemu-tcg", "y"));
        assert_eq!(says.len(), 4, "{says:?}");
        assert!(says[0].contains("hypervisor is \"kvm\" in before"), "{says:?}");
        assert!(
            says[1].starts_with("after was measured on an emulated processor"),
            "{says:?}"
        );
        assert_eq!(says[2..], ["before: x", "after: y"]);
    }
}
