//! What `threadgauge load` does besides a plain load: mixed clients, watching the server, the preflight; and how much
//! memory ten thousand connections take.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::serve::{Served, served};
use super::{command, piped, send_signal, text, threadgauge};

/// However slow the machine is.
const PATIENCE: Duration = Duration::from_secs(300);

const WORKLOAD: &str = "\
before = ['echo before']
monitor = ['echo looks; exec sleep 1000']
after = ['echo after']
think = '5ms'

[class.browser]
kind = 'fast'
weight = 5

[class.modem]
kind = 'slow-reader'
bytes-per-second = 100000

[class.hasty]
kind = 'impatient'
patience = '5s'

[class.open]
kind = 'idle'

[class.upload]
kind = 'large'
bytes = 10000

[class.loris]
kind = 'slow-loris'
every = '10ms'

[class.noise]
kind = 'garbage'
";

/// Exit code 2 and nothing on standard output: what was said instead.
fn refused(output: &std::process::Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(2), String::new()),
        "{said}"
    );
    said
}

fn loaded(dir: &Path, server: &Served, protocol: &str, more: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["load", protocol, "--target", &server.address, "--json"], more].concat();
    let output = threadgauge(dir, &arguments);
    let document = serde_json::from_slice(&output.stdout);
    let document = document.unwrap_or_else(|_| panic!("{more:?}: {}", text(&output.stderr)));
    (output.status.code(), document)
}

/// Every answer is right, and nothing is to blame but that the generator had no CPU for a while, on a busy machine.
fn passed(code: Option<i32>, document: &Value) {
    let runs = document["runs"].as_array().unwrap();
    for run in runs {
        let reasons = run["invalid_because"].as_array().unwrap();
        let is_the_generators = |reason: &Value| reason["name"].as_str().unwrap().starts_with("generator_");
        assert_eq!(run["right"], true, "{run:#}");
        assert!(reasons.iter().all(is_the_generators), "{run:#}");
        assert_eq!(run["passes"], run["valid"], "{run:#}");
    }
    let all_pass = runs.iter().all(|run| run["passes"] == true);
    assert_eq!(code, Some(if all_pass { 0 } else { 1 }), "{document:#}");
}

#[test]
fn mixed_clients_have_results_by_class_and_the_workload_stands_beside_them() {
    let schema = include_str!("../../../results/schema/load-1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mix.toml"), WORKLOAD).unwrap();
    for protocol in ["echo", "bytes"] {
        let server = served(protocol);
        let more = [
            "-c",
            "22",
            "-d",
            "1s",
            "--workload",
            "mix.toml",
            "--out",
            protocol,
        ];
        let (code, document) = loaded(dir.path(), &server, protocol, &more);
        let faults: Vec<String> = schema
            .iter_errors(&document)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{protocol}: {faults:#?}");
        passed(code, &document);
        let runs = document["runs"].as_array().unwrap();
        let of = |class: &str| runs.iter().find(|run| run["class"] == class).unwrap();
        assert_eq!(
            (runs.len(), &of("browser")["connections"]),
            (7, &10.into()),
            "{protocol}"
        );
        for class in ["browser", "modem", "hasty", "upload"] {
            assert!(
                of(class)["answered"].as_u64() > Some(0),
                "{protocol}, {class}: {}",
                of(class)
            );
        }
        for class in ["open", "loris"] {
            assert_eq!(
                of(class)["unfinished"],
                of(class)["connections"],
                "{protocol}, {class}"
            );
        }
        let workload = &document["workload"];
        assert_eq!(workload["before_said"][0]["output"], "before\n");
        assert_eq!(workload["monitor_said"][0]["lines"][0]["line"], "looks");
        assert_eq!(workload["after_said"][0]["output"], "after\n");
        let browser = &workload["classes"][0];
        assert_eq!(
            (&browser["name"], &browser["think_s"]),
            (&"browser".into(), &0.005.into())
        );
        kept_by_class(&dir.path().join(protocol));
    }
}

/// The folder has a case for each class, with figures for those that want answers, and the workload.
fn kept_by_class(folder: &Path) {
    assert!(folder.join("report.html").exists());
    let results: Value = serde_json::from_slice(&fs::read(folder.join("results.json")).unwrap()).unwrap();
    let loads = results["experiments"].as_array().unwrap();
    let load = loads.iter().find(|of| of["id"] == "load").unwrap();
    let cases = load["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 7, "{load:#}");
    for case in cases {
        let class = case["params"]["class"].as_str().unwrap();
        let wants = ["browser", "modem", "hasty", "upload"].contains(&class);
        let summaries = case["summaries"].as_object().unwrap();
        assert_eq!(summaries.contains_key("achieved_per_second"), wants, "{case:#}");
        assert!(summaries.contains_key("unfinished"), "{case:#}");
    }
    assert_eq!(load["figures"].as_array().unwrap().len(), 1, "{load:#}");
    let text = results.to_string();
    assert!(text.contains("--workload") && text.contains("slow-loris"));
}

/// Each class that wants answers is held against the conditions, and those that want none against nothing.
#[test]
fn conditions_are_on_each_class_that_wants_answers() {
    let dir = tempfile::tempdir().unwrap();
    let workload = "[class.a]\nkind = 'fast'\nthink = '1ms'\n[class.b]\nkind = 'idle'\n";
    fs::write(dir.path().join("mix.toml"), workload).unwrap();
    let server = served("echo");
    let more = [
        "-c",
        "4",
        "-d",
        "1s",
        "--workload",
        "mix.toml",
        "--slo",
        "p50<1us,errors<1%",
    ];
    let (code, document) = loaded(dir.path(), &server, "echo", &more);
    let [asks, idle] = &document["runs"].as_array().unwrap()[..] else {
        panic!("{document:#}");
    };
    // A generator that had no CPU judges nobody.
    let objection = match asks["valid"] == true {
        true => asks["slo_broken"].as_str().unwrap(),
        false => asks["invalid_because"][0]["name"].as_str().unwrap(),
    };
    assert!(
        ["p50<1us does not hold: ", "generator_"]
            .iter()
            .any(|part| objection.starts_with(part)),
        "{asks:#}"
    );
    assert_eq!(
        (code, &asks["passes"], &document["passes"]),
        (Some(1), &false.into(), &false.into())
    );
    assert_eq!(
        (&idle["passes"], &idle["slo_broken"]),
        (&true.into(), &Value::Null)
    );
}

#[test]
fn a_workload_has_rounds_and_all_of_it_is_done_in_each() {
    let dir = tempfile::tempdir().unwrap();
    let server = served("echo");
    let mix =
        "before = ['echo one']\n[class.a]\nkind = 'fast'\n[class.b]\nkind = 'large'\nbytes = '500..5000'\n";
    fs::write(dir.path().join("mix.toml"), mix).unwrap();
    for out in ["a", "b"] {
        let more = [
            "-c",
            "4",
            "-d",
            "400ms",
            "--workload",
            "mix.toml",
            "--rounds",
            "2",
            "--out",
            out,
        ];
        let (_, document) = loaded(dir.path(), &server, "echo", &more);
        let runs = document["runs"].as_array().unwrap();
        let of: Vec<_> = runs
            .iter()
            .map(|run| (run["class"].as_str().unwrap(), run["round"].as_u64().unwrap()))
            .collect();
        assert_eq!(of, [("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
        assert!(
            runs.iter()
                .all(|run| run["right"] == true && run["answered"].as_u64() > Some(0)),
            "{runs:#?}"
        );
        let workload = &document["workload"];
        let before = workload["before_said"].as_array().unwrap();
        let rounds: Vec<_> = before
            .iter()
            .map(|said| (&said["output"], &said["round"]))
            .collect();
        assert_eq!(
            rounds,
            [(&"one\n".into(), &1.into()), (&"one\n".into(), &2.into())]
        );
        assert_eq!(workload["classes"][1]["bytes"], "500..5000");
        let results = fs::read(dir.path().join(out).join("results.json")).unwrap();
        let results: Value = serde_json::from_slice(&results).unwrap();
        let loads = results["experiments"].as_array().unwrap();
        let cases = loads.iter().find(|of| of["id"] == "load").unwrap()["cases"]
            .as_array()
            .unwrap();
        assert_eq!(cases.len(), 2);
        for case in cases {
            assert_eq!(case["summaries"]["achieved_per_second"]["n"], 2, "{case:#}");
        }
    }
    let compared = threadgauge(dir.path(), &["compare", "a", "b"]);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    let shown = threadgauge(
        dir.path(),
        &[
            "load",
            "echo",
            "--target",
            &server.address,
            "-c",
            "2",
            "-d",
            "50ms",
            "--workload",
            "mix.toml",
            "--rounds",
            "2",
        ],
    );
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("round 1 of 2\na ") && shown.contains("\nround 2 of 2\na "),
        "{shown}"
    );
}

#[test]
fn what_was_measured_is_kept_although_a_command_fails_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = served("echo");
    for (commands, runs, says) in [
        // After the first round, and before the second.
        (
            "after = ['echo left; exit 3']",
            1,
            "`echo left; exit 3` ended with exit status: 3: left",
        ),
        (
            "before = ['test ! -e made; mkdir made']",
            1,
            "`test ! -e made; mkdir made` ended with",
        ),
    ] {
        fs::write(
            dir.path().join("mix.toml"),
            format!("{commands}\n[class.a]\nkind = 'fast'\n"),
        )
        .unwrap();
        let mix = [
            "-c",
            "2",
            "-d",
            "200ms",
            "--workload",
            "mix.toml",
            "--rounds",
            "3",
            "--json",
        ];
        let arguments = [&["load", "echo", "--target", &server.address], &mix[..]].concat();
        let output = threadgauge(dir.path(), &arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["runs"].as_array().unwrap().len(), runs, "{said}");
        assert!(document["runs"][0]["answered"].as_u64() > Some(0), "{document:#}");
    }
}

#[test]
fn what_was_set_up_is_taken_down_where_setting_up_fails_half_way() {
    let dir = tempfile::tempdir().unwrap();
    let mix = "before = ['touch begun', 'exit 3']\nafter = ['rm begun; exit 4']\n[class.a]\nkind = 'fast'\n";
    fs::write(dir.path().join("mix.toml"), mix).unwrap();
    // Nobody listens there.
    let load = ["load", "echo", "--target", "1", "--workload", "mix.toml"];
    let said = refused(&threadgauge(dir.path(), &load));
    assert!(!dir.path().join("begun").exists(), "{said}");
    let places = ["`rm begun; exit 4`", "`exit 3`"].map(|command| said.find(command));
    assert!(
        places[0].is_some() && places[0] < places[1],
        "of two failures the first is the error: {said}"
    );
}

/// Waits until there is such a file.
fn exists(path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} is not made", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A load of what `mix.toml` says, begun.
fn loading(dir: &Path, address: &str) -> Child {
    piped(
        dir,
        &["load", "echo", "--target", address, "--workload", "mix.toml"],
    )
}

#[test]
fn ctrl_c_ends_a_command_before_the_load_and_what_was_set_up_is_taken_down() {
    let dir = tempfile::tempdir().unwrap();
    let server = served("echo");
    let mix = "before = ['touch begun; sleep 1000']\nafter = ['touch ended']\n[class.a]\nkind = 'fast'\n";
    fs::write(dir.path().join("mix.toml"), mix).unwrap();
    let load = loading(dir.path(), &server.address);
    exists(&dir.path().join("begun"));
    send_signal(&load, "-INT");
    let output = load.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("interrupted while `touch begun; sleep 1000` ran"),
        "{said}"
    );
    assert!(text(&output.stdout).contains("nothing was measured"), "{said}");
    assert!(dir.path().join("ended").exists(), "{said}");
}

/// It does not wait for the command that takes down what was set up.
#[test]
fn the_second_signal_ends_a_load_at_once_with_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let server = served("echo");
    let file = dir.path().join("mix.toml");
    let until_it_goes = "while [ -e mix.toml ]; do sleep 0.1; done";
    let mix = format!(
        "before = ['touch begun; sleep 1000']\nafter = ['touch ending; {until_it_goes}']\n[class.a]\nkind = 'fast'\n"
    );
    fs::write(&file, mix).unwrap();
    let mut load = loading(dir.path(), &server.address);
    for (begins, signal) in [("begun", "-INT"), ("ending", "-TERM")] {
        exists(&dir.path().join(begins));
        send_signal(&load, signal);
    }
    let status = load.wait().unwrap();
    // The command is left, and ends now.
    fs::remove_file(file).unwrap();
    let output = load.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(status.code(), Some(143), "{said}");
    assert_eq!(text(&output.stdout), "", "{said}");
}

#[test]
fn all_classes_together_send_no_more_requests_than_they_may() {
    let dir = tempfile::tempdir().unwrap();
    let server = served("echo");
    fs::write(dir.path().join("mix.toml"), WORKLOAD).unwrap();
    let more = [
        "-c",
        "22",
        "-d",
        "1h",
        "--workload",
        "mix.toml",
        "--requests",
        "100",
        "--timeout",
        "1s",
    ];
    let (_, document) = loaded(dir.path(), &server, "echo", &more);
    let runs = document["runs"].as_array().unwrap();
    let sent: u64 = runs.iter().map(|run| run["sent"].as_u64().unwrap()).sum();
    assert_eq!(sent, 100, "{document:#}");
    assert!(runs.iter().all(|run| run["bounded"] == true), "{document:#}");
    for run in runs.iter().filter(|run| run["class"] == "modem") {
        assert_eq!(run["unfinished"], 0, "{run:#}");
    }

    // Who gets the only request is not said, and the others are not to blame.
    fs::write(
        dir.path().join("mix.toml"),
        "[class.a]\nkind = 'fast'\n[class.b]\nkind = 'slow-reader'\n",
    )
    .unwrap();
    let more = ["-c", "2", "-d", "1h", "--workload", "mix.toml", "--requests", "1"];
    let (code, document) = loaded(dir.path(), &server, "echo", &more);
    passed(code, &document);
}

#[test]
fn the_live_view_of_mixed_clients_has_the_times_of_all_together() {
    let dir = tempfile::tempdir().unwrap();
    let server = served("echo");
    let mix = "think = '2ms'\n[class.a]\nkind = 'fast'\n[class.b]\nkind = 'large'\nbytes = 500\n[class.c]\nkind = 'idle'\n";
    fs::write(dir.path().join("mix.toml"), mix).unwrap();
    let arguments = [
        "load",
        "echo",
        "--target",
        &server.address,
        "-c",
        "9",
        "-d",
        "3s",
        "--workload",
        "mix.toml",
    ];
    let output = threadgauge(dir.path(), &arguments);
    let said = text(&output.stderr);
    let mut seconds = said.lines().filter(|line| line.contains(" s · "));
    // A second with so few answers that they have no median, or in which nobody looked at the server, is no fault of
    // the view.
    assert!(
        seconds
            .clone()
            .any(|line| line.contains(" · median ") && !line.contains("median –")),
        "{said}"
    );
    assert!(
        seconds.any(|line| line.contains(" · server ") && line.ends_with(" CPUs")),
        "{said}"
    );
}

#[test]
fn a_wrong_workload_is_named_by_line_and_nearest_word_before_anything_connects() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |workload: &str, more: &[&str]| {
        fs::write(dir.path().join("mix.toml"), workload).unwrap();
        // Nobody listens there.
        let arguments = [&["load", "echo", "--target", "1", "--workload", "mix.toml"], more].concat();
        refused(&threadgauge(dir.path(), &arguments))
    };
    let said = refusal("[class.a]\nkind = 'fast'\nwieght = 3", &[]);
    assert!(
        said.contains("mix.toml") && said.contains("line 3") && said.contains("`weight`"),
        "{said}"
    );
    let said = refusal(WORKLOAD, &["-c", "6"]);
    assert!(said.contains("--connections 7"), "{said}");
    let said = refusal("[class.a]\nkind = 'large'\nbytes = 1000000", &[]);
    assert!(said.contains("[class.a]") && said.contains("65536"), "{said}");
    let said = refusal(WORKLOAD, &["--rate", "5"]);
    assert!(said.contains("--workload") && said.contains("--rate"), "{said}");
    let said = refusal("before = ['exit 3']\n[class.a]\nkind = 'fast'", &[]);
    assert!(
        said.contains("`exit 3`") && said.contains("exit status: 3"),
        "{said}"
    );
    let groups = ["load", "groups", "--target", "1", "--workload", "mix.toml"];
    assert!(refused(&threadgauge(dir.path(), &groups)).contains("not with groups"));
}

#[test]
fn the_server_is_found_and_watched_on_the_clock_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let server = served("echo");
    let run = |more: &[&str]| {
        let (_, document) = loaded(
            dir.path(),
            &server,
            "echo",
            &[&["-c", "5", "-r", "200", "-d", "1200ms"], more].concat(),
        );
        document["runs"][0].clone()
    };
    let found = run(&[]);
    let watched = &found["server"];
    assert_eq!(watched["pid"], server.child.id());
    assert_eq!(watched["notes"], serde_json::json!([]));
    let seconds = watched["seconds"].as_array().unwrap();
    assert!(seconds.len() >= 2, "{watched}");
    let ns = |value: &Value| value.as_u64().unwrap();
    let (begun, first) = (ns(&found["started_ns"]), &seconds[0]);
    assert!(
        begun >= ns(&first["from_ns"]) && begun < ns(&first["to_ns"]),
        "{begun}: {first}"
    );
    let threads = first["server"]["threads"].as_array().unwrap();
    assert!(!threads.is_empty() && !first["cpus"].as_array().unwrap().is_empty());
    assert!(first["server"]["pss_kib"].as_u64() > Some(100));

    assert_eq!(run(&["--watch", "none"])["server"], Value::Null);
    let gone = run(&["--watch", &i32::MAX.to_string()]);
    assert!(
        gone["answered"].as_u64() > Some(0),
        "a process that is not there ends nothing"
    );
    assert!(
        gone["server"]["notes"][0]
            .as_str()
            .unwrap()
            .contains("no process"),
        "{gone}"
    );
}

#[test]
fn more_connections_than_there_can_be_are_refused_with_the_command_that_helps() {
    let dir = tempfile::tempdir().unwrap();
    let server = served("echo");
    // More than there are local ports, whatever is set.
    let arguments = [
        "load",
        "echo",
        "--target",
        &server.address,
        "-c",
        "70000",
        "-d",
        "1s",
    ];
    let said = refused(&threadgauge(dir.path(), &arguments));
    assert!(said.contains("70000 connections"), "{said}");
    assert!(said.contains("ulimit -n") || said.contains("ports"), "{said}");
}

/// The most memory that a process had, in MiB.
fn peak_mib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? / 1024)
}

#[test]
fn ten_thousand_connections_of_one_process_take_under_200_mib() {
    const CONNECTIONS: u64 = 10_000;
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let (soft, _) = threadgauge_machine::parse_limits(&limits, "Max open files").unwrap();
    if !soft.allows(CONNECTIONS + 200) {
        let said = "a process may not have the 10,200 descriptors that are needed (`ulimit -n 10200`)";
        let _ = writeln!(std::io::stderr(), "skipped: {said}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (protocol, rate) in [("echo", "2000"), ("groups", "300")] {
        let server = served(protocol);
        let arguments = [
            "load",
            protocol,
            "--target",
            &server.address,
            "-c",
            "10000",
            "-r",
            rate,
            "-d",
            "2s",
            "--timeout",
            "60s",
            "--json",
        ];
        let mut load = command(dir.path(), &arguments);
        let said = fs::File::create(dir.path().join("said")).unwrap();
        let mut load = load.stdout(said).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut peak = 0;
        while load.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "{protocol}: it does not end");
            // Of one that has ended and was not waited for there is none.
            peak = peak_mib(load.id()).unwrap_or(peak);
            std::thread::sleep(Duration::from_millis(1));
        }
        let document: Value = serde_json::from_slice(&fs::read(dir.path().join("said")).unwrap()).unwrap();
        let run = &document["runs"][0];
        assert_eq!(
            (&run["connections"], &run["right"]),
            (&CONNECTIONS.into(), &true.into()),
            "{protocol}"
        );
        assert!(run["answered"].as_u64() > Some(0));
        assert!(peak > 10 && peak < 200, "{protocol}: {peak} MiB");
    }
}
