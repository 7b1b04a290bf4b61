//! The machine's fingerprint as a flat list of facts.
//!
//! The fingerprint is free-form JSON: whatever is in it is shown, nested names joined. What is null is
//! shown with its reason from `unknown`; nothing is guessed.

use serde_json::Value;

/// One fact about the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// In words, nested names joined by `, `.
    pub name: String,
    /// As text; `not known: reason` where it is null.
    pub value: String,
    /// Whether it could be read.
    pub known: bool,
    /// Whether the reader looks for it first.
    pub main: bool,
}

/// What the reader looks for first; the rest follows in the order of the document.
const FIRST: [&str; 12] = [
    "cpu_model",
    "cpus",
    "effective_cpus",
    "smt",
    "hypervisor",
    "governor",
    "kernel",
    "preemption",
    "scheduler",
    "thread_library",
    "libc",
    "clocksource",
];

/// Every fact, unknown ones in place.
pub(crate) fn facts(machine: &Value) -> Vec<Fact> {
    let mut out = Vec::new();
    let unknown = machine.get("unknown").unwrap_or(&Value::Null);
    if let Value::Object(map) = machine {
        let place = |key: &str| FIRST.iter().position(|f| *f == key).unwrap_or(FIRST.len());
        let mut entries: Vec<_> = map.iter().filter(|(k, _)| *k != "unknown").collect();
        entries.sort_by_key(|(k, _)| place(k));
        for (key, value) in entries {
            flatten(key, value, unknown, &mut out);
        }
        // A fact that is not even null is still owed to the reader.
        for (key, reason) in unknown.as_object().into_iter().flatten() {
            if machine.pointer(&format!("/{}", key.replace('.', "/"))).is_none() {
                out.push(missing(key, Some(reason)));
            }
        }
    }
    out
}

/// The few words that name the machine: its processor and kernel, where known.
pub(crate) fn headline(machine: &Value) -> String {
    // A model without marks of trade, which would fill half of a line.
    let text = |key: &str| match machine.get(key) {
        Some(Value::String(s)) if !s.is_empty() => {
            Some(s.replace("(R)", "").replace("(TM)", "").replace(" CPU @", " @"))
        }
        Some(Value::Number(n)) => Some(n.to_string()),
        _ => None,
    };
    let cpus = text("cpus").map(|n| {
        if n == "1" {
            "1 CPU".to_owned()
        } else {
            format!("{n} CPUs")
        }
    });
    let parts = [
        text("cpu_model"),
        cpus,
        text("kernel").map(|k| format!("kernel {k}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "an unknown machine".to_owned()
    } else {
        parts.join(", ")
    }
}

fn flatten(path: &str, value: &Value, unknown: &Value, out: &mut Vec<Fact>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, inner) in map {
                flatten(&format!("{path}.{key}"), inner, unknown, out);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (i, inner) in items.iter().enumerate() {
                flatten(&format!("{path}.{i}"), inner, unknown, out);
            }
        }
        Value::Null => {
            let last = path.rsplit('.').next().unwrap_or(path);
            out.push(missing(path, unknown.get(path).or_else(|| unknown.get(last))));
        }
        other => out.push(Fact {
            name: name(path),
            value: text(other),
            known: true,
            main: is_main(path),
        }),
    }
}

fn missing(path: &str, reason: Option<&Value>) -> Fact {
    let reason = reason.map_or_else(|| "no reason was stored".to_owned(), text);
    Fact {
        name: name(path),
        value: format!("not known: {reason}"),
        known: false,
        main: is_main(path),
    }
}

fn is_main(path: &str) -> bool {
    FIRST.contains(&path)
}

fn name(path: &str) -> String {
    let words = path
        .replace('.', ", ")
        .replace("io_uring", "io\u{0}uring")
        .replace('_', " ");
    let spelled = words.split(' ').map(|word| {
        let (word, comma) = word.strip_suffix(',').map_or((word, ""), |w| (w, ","));
        let word = match word {
            "cpu" | "smt" | "numa" | "tlb" => word.to_uppercase(),
            "cpus" => "CPUs".to_owned(),
            "kib" => "KiB".to_owned(),
            "mib" => "MiB".to_owned(),
            "l1d" | "l1i" | "l2" | "l3" => word.replacen('l', "L", 1),
            other => other.to_owned(),
        };
        word + comma
    });
    spelled.collect::<Vec<_>>().join(" ").replace('\u{0}', "_")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Object(_) => "none".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_null_is_shown_with_its_reason() {
        let machine = json!({"governor": null, "limits": {"nproc": 5, "stack": null}, "unknown": {
            "governor": "no cpufreq here", "limits.stack": "unlimited", "pmu": "hidden by the hypervisor"}});
        let lines: Vec<String> = facts(&machine)
            .into_iter()
            .map(|f| format!("{} = {}", f.name, f.value))
            .collect();
        assert_eq!(
            lines,
            [
                "governor = not known: no cpufreq here",
                "limits, nproc = 5",
                "limits, stack = not known: unlimited",
                "pmu = not known: hidden by the hypervisor",
            ]
        );
    }

    #[test]
    fn a_fingerprint_of_another_shape_does_no_harm() {
        assert_eq!(facts(&json!(null)), []);
        assert_eq!(facts(&json!([1, 2])), []);
        assert_eq!(headline(&json!("x")), "an unknown machine");
    }
}
