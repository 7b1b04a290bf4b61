//! The experiment `multicast` with the command as its server.

use serde_json::Value;

use super::{median, one_round_of};

/// The cases of one round of `multicast`, each of which has figures.
fn cases(only: &str, set: &str) -> Vec<Value> {
    let cases = tried(only, set);
    for case in &cases {
        assert_eq!(case["status"], "ok", "{case}");
    }
    cases
}

/// The same, with what could not be tried here.
fn tried(only: &str, set: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let chosen = ["multicast", "--profile", "standard", "--only", only, "--set", set];
    one_round_of(dir.path(), &chosen)
}

#[test]
fn groups_talk_on_every_design_and_each_delivery_is_checked() {
    let only = "load=talk,server_cpus=1,link=loopback";
    let cases = cases(only, "connections=40,span_ms=20");
    // Each design on a window that saturates it, and some with one message at a time and in groups of four.
    assert!(cases.len() >= 14, "{}", cases.len());
    for case in &cases {
        for metric in [
            "ns_per_delivery",
            "server_cpu_ns_per_delivery",
            "delay_ns_p50",
            "client_cpus",
            "window_messages",
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
fn clients_talk_over_a_link_or_the_run_says_what_it_lacks() {
    let cases = tried("link=100mbit", "connections=40,span_ms=20");
    assert_eq!(cases.len(), 3);
    for case in &cases {
        if case["status"] == "skipped" {
            let lack = case["reason"].to_string();
            assert!(lack.contains("limited link") && lack.contains("root"), "{case}");
            continue;
        }
        assert_eq!(case["status"], "ok", "{case}");
        // A message to the server and nine to others, each with its headers.
        assert!(median(case, "network_bytes_per_delivery") > 128.0, "{case}");
    }
}

#[test]
fn a_client_that_takes_nothing_is_heard_where_a_read_is_pending_beside_a_write() {
    for case in cases("load=clogged", "server_cpus=1") {
        let pending = match case["params"]["design"].as_str() {
            Some("one-handler-reactor") => 1.0,
            _ => 2.0,
        };
        assert_eq!(median(&case, "operations_pending"), pending, "{case}");
    }
}
