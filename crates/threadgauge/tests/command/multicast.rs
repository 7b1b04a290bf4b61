//! The experiment `multicast` with the command as its server.

use serde_json::Value;

use super::{results, text, threadgauge};

/// The cases of one round of `multicast`.
fn cases(only: &str, set: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "run",
        "multicast",
        "--profile",
        "standard",
        "--rounds",
        "1",
        "--only",
        only,
        "--set",
        set,
        "--out",
        "r",
    ];
    let output = threadgauge(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let results = results(&dir.path().join("r"));
    let cases = results["experiments"][0]["cases"].as_array().unwrap();
    for case in cases {
        assert_eq!(case["status"], "ok", "{case}");
    }
    cases.clone()
}

fn median(case: &Value, metric: &str) -> f64 {
    let figure = case["summaries"][metric]["median"].as_f64();
    figure.unwrap_or_else(|| panic!("no {metric}: {case}"))
}

#[test]
fn groups_talk_on_every_design_and_each_delivery_is_checked() {
    let cases = cases("load=talk,server_cpus=1", "connections=40,span_ms=20");
    assert!(cases.len() >= 7, "{}", cases.len());
    for case in &cases {
        for metric in [
            "ns_per_delivery",
            "server_cpu_ns_per_delivery",
            "delay_ns_p50",
            "client_cpus",
        ] {
            assert!(median(case, metric) > 0.0, "{metric}: {case}");
        }
        let design = case["params"]["design"].as_str().unwrap();
        let writes = median(case, "writing_cpus") > 0.0;
        assert_eq!(
            writes,
            ["split-reactor", "reactor-pool"].contains(&design),
            "{case}"
        );
    }
}

#[test]
fn a_client_that_takes_nothing_is_heard_where_a_read_is_pending_beside_a_write() {
    for case in cases("load=clogged", "server_cpus=1") {
        assert_eq!(median(&case, "operations_pending"), 2.0, "{case}");
    }
}
