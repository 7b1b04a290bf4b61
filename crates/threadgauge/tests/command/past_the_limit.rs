//! The experiment `past-the-limit` with the command as its server.

use serde_json::Value;

use super::{median, one_round_of};

#[test]
fn past_its_limit_a_server_has_no_more_clients_than_there_is_room_for_and_runs_on() {
    let dir = tempfile::tempdir().unwrap();
    let chosen = ["past-the-limit", "--profile", "quick", "--set", "room=3"];
    let cases = one_round_of(dir.path(), &chosen);
    let limited = |case: &&Value| case["params"]["lacking"] != "nothing";
    let limited: Vec<&Value> = cases.iter().filter(limited).collect();
    assert_eq!(limited.len(), 2);
    for case in limited {
        if case["status"] == "skipped" {
            // A superuser who may not start a server as another user, or not limit it.
            let reason = case["reason"].as_str().unwrap();
            assert!(reason.contains("user") || reason.contains("limit"), "{reason}");
            continue;
        }
        assert_eq!(case["status"], "ok", "{case}");
        let [answered, refused, waiting] = ["newcomers_answered", "newcomers_refused", "newcomers_waiting"]
            .map(|metric| median(case, metric));
        assert!((answered + refused + waiting - 1.0).abs() < 1e-9, "{case}");
        // Those who come later than a busy machine looks are fewer.
        assert!(answered <= 3.0 / 24.0 + 1e-9, "{case}");
        assert_eq!(
            [median(case, "runs_on"), median(case, "exit_code")],
            [1.0, 0.0],
            "{case}"
        );
    }
    let report = std::fs::read_to_string(dir.path().join("r/report.md")).unwrap();
    assert!(
        report.contains("What each design does past the limit"),
        "{report}"
    );
}
