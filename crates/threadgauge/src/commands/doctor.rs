//! What on this machine can spoil a measurement. Looks, never touches.

use std::time::Duration;

use threadgauge_machine::{Advice, Severity, examine, fingerprint, noise_probe};

use crate::cli::DoctorOptions;
use crate::output::{Done, Verdict, print_json, print_words, say};

/// Prints the advice, the worst first.
pub fn doctor(options: &DoctorOptions) -> Done {
    say(&format!("Watching this machine for {} s …", options.seconds));
    let machine = fingerprint();
    let noise = noise_probe(Duration::from_secs(options.seconds));
    let mut advice = examine(&machine, &noise);
    advice.sort_by_key(|a| std::cmp::Reverse(a.severity));
    if options.json {
        let all = serde_json::json!({"machine": machine, "noise": noise, "advice": advice});
        print_json(&all)?;
    } else {
        print_words(&advice.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(Verdict::Done)
}

fn line(advice: &Advice) -> String {
    let mark = match advice.severity {
        Severity::Serious => "!!",
        Severity::Warning => "! ",
        Severity::Note => "· ",
        Severity::Fine => "ok",
    };
    let fix = advice
        .fix
        .as_ref()
        .map_or_else(String::new, |m| format!("\n     fix: {m}"));
    format!("{mark} {}: {}{fix}", advice.subject, advice.says)
}
