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
}

/// Every fact, in the order of the document, unknown ones in place.
pub(crate) fn facts(machine: &Value) -> Vec<Fact> {
    let mut out = Vec::new();
    let unknown = machine.get("unknown").unwrap_or(&Value::Null);
    if let Value::Object(map) = machine {
        for (key, value) in map.iter().filter(|(k, _)| *k != "unknown") {
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
    let text = |key: &str| match machine.get(key) {
        Some(Value::String(s)) if !s.is_empty() => Some(s.clone()),
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
        }),
    }
}

fn missing(path: &str, reason: Option<&Value>) -> Fact {
    let reason = reason.map_or_else(|| "no reason was stored".to_owned(), text);
    Fact {
        name: name(path),
        value: format!("not known: {reason}"),
        known: false,
    }
}

fn name(path: &str) -> String {
    path.replace('_', " ")
        .replace('.', ", ")
        .replace("cpus", "CPUs")
        .replace("cpu ", "CPU ")
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
