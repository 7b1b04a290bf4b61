//! `threadgauge load` against our own servers: what it prints, how it ends, and whether its percentiles are true.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use threadgauge_results::Store;

use super::serve::{Served, served};
use super::{command, json_of, piped, refused, results, send_signal, text, threadgauge};

fn load(server: &Served, protocol: &str, more: &[&str]) -> std::process::Output {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        &["load", protocol, "--target", &server.address, "-d", "300ms"],
        more,
    ]
    .concat();
    threadgauge(dir.path(), &arguments)
}

/// What a load printed that was measured to its end, be it valid or, on a machine that is busy, not.
fn measured(output: &std::process::Output) -> Value {
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

#[test]
fn every_protocol_of_ours_is_loaded_and_the_json_meets_its_schema() {
    let schema = include_str!("../../../results/schema/load-1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    for (protocol, more) in [
        ("echo", &["-c", "5", "-r", "200"][..]),
        ("bytes", &["-c", "5", "--loop", "closed", "--think", "10ms"]),
        ("bytes", &["-c", "5", "--close", "-r", "100"]),
        ("groups", &["-c", "20", "-r", "100"]),
        ("groups", &["-c", "20", "-r", "100", "--own-echo"]),
        ("chat", &["-c", "20", "--loop", "fast", "--pipeline", "2"]),
        ("groups", &["-c", "20", "-r", "100", "--payload", "16..1024"]),
        (
            "groups",
            &[
                "-c",
                "20",
                "--loop",
                "closed",
                "--think",
                "10ms",
                "--ramp-up",
                "50ms",
            ],
        ),
        (
            "chat",
            &["-c", "20", "--loop", "closed", "--payload", "20:90,16000:10"],
        ),
        ("echo", &["-c", "5", "-r", "200", "--payload", "1..9000"]),
        (
            "bytes",
            &["-c", "5", "--close", "-r", "100", "--payload", "7,4000..16384:2"],
        ),
    ] {
        let server = served(protocol);
        // However slow the machine is: that the rate was reached is no matter here.
        let output = load(&server, protocol, &[&["--json"], more].concat());
        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | 1)),
            "{protocol} {more:?}: {}",
            text(&output.stderr)
        );
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let faults: Vec<String> = schema
            .iter_errors(&document)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{protocol}: {faults:#?}");
        let run = &document["runs"][0];
        assert!(run["answered"].as_u64().unwrap() > 0, "{protocol}: {run}");
        assert_eq!(
            (&run["right"], &run["failures"]),
            (&true.into(), &serde_json::json!({})),
            "{protocol}"
        );
        // In a group of ten a message is for the nine others, and for its sender where each hears itself.
        if ["groups", "chat"].contains(&protocol) {
            let copies = if more.contains(&"--own-echo") { 10 } else { 9 };
            let number = |name: &str| run[name].as_u64().unwrap();
            assert_eq!(
                number("answered") + number("unfinished"),
                number("sent") * copies,
                "{protocol} {more:?}: {run}"
            );
        }
        assert_eq!(code == Some(0), run["passes"] == true, "{protocol}: {run}");
        assert_eq!(run["passes"], run["valid"], "nothing failed: {protocol}: {run}");
    }
}

#[test]
fn steps_are_runs_and_a_condition_that_is_not_met_is_exit_code_1() {
    let server = served("echo");
    let output = load(
        &server,
        "echo",
        &["-c", "4", "--steps", "50,100", "--slo", "p50<1us"],
    );
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    // A generator that had no CPU judges nobody.
    let verdicts = ["NOT MET        p50<1us ", "INVALID  "];
    let (shown, table) = shown.split_once("\nstep ").expect("a table of the steps is last");
    let begins: Vec<&str> = table.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(begins[1..3], ["50.0 a second", "100 a second"], "{table}");
    assert!(
        table.contains("No step was good. The lowest is 50.0 a second: "),
        "{table}"
    );
    let runs: Vec<&str> = shown.split("connections  ").skip(1).collect();
    let says_one = |run: &&str| verdicts.iter().filter(|verdict| run.contains(**verdict)).count() == 1;
    assert!(runs.len() == 2 && runs.iter().all(says_one), "{shown}");
    let said = text(&output.stderr);
    for step in [
        "50.0 a second, whatever is answered",
        "100 a second, whatever is answered",
    ] {
        assert!(said.contains(&format!(": 4 connections, {step}, for ")), "{said}");
    }
    let output = load(&server, "echo", &["--loop", "fast", "--steps", "1,3", "--json"]);
    let said = text(&output.stderr);
    assert!(
        said.contains(": 3 connections, as fast as possible, for "),
        "{said}"
    );
    let document = measured(&output);
    let connections: Vec<_> = document["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["connections"])
        .collect();
    assert_eq!(connections, [1, 3]);
}

#[test]
fn a_folder_holds_every_run_and_second_and_is_reported_and_compared_like_any_other() {
    let server = served("echo");
    let dir = tempfile::tempdir().unwrap();
    let to = |out: &str, more: &[&str]| {
        let all = [
            "load",
            "echo",
            "--target",
            &server.address,
            "-c",
            "4",
            "-d",
            "2100ms",
            "--out",
            out,
        ];
        threadgauge(dir.path(), &[&all, more].concat())
    };
    for out in ["a", "b"] {
        let output = to(out, &["--steps", "100,200", "--rounds", "2"]);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{}",
            text(&output.stderr)
        );
    }
    for file in [
        "results.sqlite",
        "results.json",
        "report.html",
        "results.xlsx",
        "samples.csv",
    ] {
        assert!(dir.path().join("a").join(file).exists(), "{file}");
    }
    let results = results(&dir.path().join("a"));
    let schema = include_str!("../../../results/schema/results-1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(&results).map(|e| e.to_string()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let [load, seconds] = &results["experiments"].as_array().unwrap()[..] else {
        panic!("{results}");
    };
    assert_eq!(
        (&load["id"], &seconds["id"]),
        (&"load".into(), &"load-by-second".into())
    );
    let mut rates: Vec<_> = load["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| &case["params"]["rate"])
        .collect();
    rates.sort_by_key(|rate| rate.as_u64());
    assert_eq!(rates, [100, 200]);
    for case in load["cases"].as_array().unwrap() {
        let achieved = &case["summaries"]["achieved_per_second"];
        assert_eq!(
            (&case["status"], &achieved["n"]),
            (&"ok".into(), &2.into()),
            "{case}"
        );
    }
    // Two whole seconds of each of two loads, at least.
    assert!(seconds["cases"].as_array().unwrap().len() >= 4);
    let rate = seconds["figures"]
        .as_array()
        .unwrap()
        .iter()
        .find(|figure| figure["id"] == "rate");
    let lines = rate.unwrap()["series"].as_array().unwrap();
    let names: Vec<_> = lines.iter().map(|line| &line["name"]).collect();
    assert_eq!(names, ["rate 100", "rate 200"], "what tells them apart");
    let table = &load["tables"][0];
    let heads = table["columns"].as_array().unwrap();
    for row in table["rows"].as_array().unwrap() {
        let cell = |head: &str| {
            let at = heads.iter().position(|known| known == head);
            row[at.unwrap_or_else(|| panic!("no {head}: {heads:?}"))]
                .as_str()
                .unwrap()
        };
        assert!(["100 a second", "200 a second"].contains(&cell("asked")), "{row}");
        assert_eq!(cell("errors"), "none", "{row}");
        // However slow the machine is.
        let valid = cell("valid");
        assert!(
            valid == "yes" || valid.contains(" of 2 runs are invalid: "),
            "{row}"
        );
        for head in ["answered a second", "median", "server's CPUs"] {
            assert!(!cell(head).is_empty(), "{head}: {row}");
        }
    }
    let used = &load["tables"][1];
    assert_eq!(used["id"], "server");
    let rows = used["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for cell in rows.iter().flat_map(|row| row.as_array().unwrap()) {
        assert_ne!(cell, "", "all of a server of the same user is seen: {used}");
    }
    let hidden = |file: fs::DirEntry| file.file_name().to_string_lossy().starts_with('.');
    let left = fs::read_dir(dir.path().join("a")).unwrap();
    assert!(
        !left.map(Result::unwrap).any(hidden),
        "only what is whole is left"
    );
    let compared = threadgauge(dir.path(), &["compare", "a", "b"]);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    let again = threadgauge(dir.path(), &["report", "a"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let options: Vec<_> = results["run"]["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o.as_str().unwrap())
        .collect();
    assert!(options[0].starts_with("load echo --target "), "{options:?}");
    for option in [
        "--connections 4",
        "--duration 2.1s",
        "--steps 100,200",
        "--rounds 2",
        "--timeout 10s",
    ] {
        assert!(options.contains(&option), "{option}: {options:?}");
    }
    let refused = to("a", &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("already holds results"));
    // Before anything is measured.
    fs::write(dir.path().join("file"), "no folder").unwrap();
    let refused = to("file", &[]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(
        said.contains("file cannot be made") && !said.contains("4 connections"),
        "{said}"
    );
    let resumed = threadgauge(dir.path(), &["run", "--resume", "a"]);
    assert_eq!(resumed.status.code(), Some(2));
    assert!(text(&resumed.stderr).contains("`threadgauge load`"));
}

#[test]
fn a_report_of_a_load_begins_with_what_it_found() {
    let dir = tempfile::tempdir().unwrap();
    for (protocol, more) in [
        ("echo", &["-c", "4", "--loop", "fast"][..]),
        ("groups", &["-c", "20", "-r", "100", "--arrivals", "uniform"]),
    ] {
        let server = served(protocol);
        let all = [
            "load",
            protocol,
            "--target",
            &server.address,
            "-d",
            "300ms",
            "--json",
            "--out",
            protocol,
        ];
        let output = threadgauge(dir.path(), &[&all, more].concat());
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "{}",
            text(&output.stderr)
        );
        for (file, headline, found, machine) in [
            (
                "report.html",
                "<h1>How does this server answer",
                "What came of each load",
                "id=\"machine\"",
            ),
            (
                "report.md",
                "# How does this server answer",
                "### What came of each load",
                "## This machine",
            ),
        ] {
            let report = fs::read_to_string(dir.path().join(protocol).join(file)).unwrap();
            let place = |part: &str| {
                report
                    .find(part)
                    .unwrap_or_else(|| panic!("{file} has no {part}"))
            };
            assert!(
                place(headline) < place(found) && place(found) < place(machine),
                "{file}"
            );
            for empty in [
                "What running things at once costs",
                "No claim is decided",
                "no findings",
                "Profile <b>",
                "Profile **",
            ] {
                assert!(!report.contains(empty), "{file}: {empty}");
            }
            assert_eq!(
                report.contains("until the last of a group"),
                protocol == "groups",
                "{file}"
            );
        }
        let results = results(&dir.path().join(protocol));
        let loads = &results["experiments"][0];
        // Once, although each second is a case of its own, too.
        let [said, kept] = [
            &measured(&output)["runs"][0]["elapsed_s"],
            &results["run"]["measured_s"],
        ];
        assert!(
            (said.as_f64().unwrap() - kept.as_f64().unwrap()).abs() < 1e-6,
            "{said} and {kept}"
        );
        let median = loads["tables"][0]["rows"][0][3].as_str().unwrap();
        let used = &loads["cases"][0]["summaries"]["generator_cpu_share"]["median"];
        let valid = loads["tables"][0]["rows"][0][6].as_str().unwrap();
        let is_busy = protocol == "echo" && used.as_f64().unwrap() > 0.85;
        assert_eq!(
            valid.starts_with("yes; the generator used"),
            is_busy,
            "{used}: {valid}"
        );
        assert!(!median.is_empty(), "{loads:#}");
        assert_eq!(
            loads["answer"].as_str().unwrap().contains(" to the last"),
            protocol == "groups",
            "{loads:#}"
        );
    }
}

#[test]
fn what_was_measured_is_in_the_folder_although_the_load_is_killed() {
    let server = served("echo");
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "load",
        "echo",
        "--target",
        &server.address,
        "-c",
        "2",
        "-r",
        "200",
        "-d",
        "200ms",
        "--rounds",
        "1000",
        "--out",
        "a",
    ];
    let mut child = command(dir.path(), &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let folder = dir.path().join("a");
    let rounds = || {
        let samples = Store::read(&folder).and_then(|store| store.samples("load"));
        samples.map_or(0, |samples| samples.len())
    };
    while rounds() < 2 {
        assert_eq!(child.try_wait().unwrap(), None, "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = rounds();
    let output = threadgauge(dir.path(), &["report", "a"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results = results(&folder);
    let case = &results["experiments"][0]["cases"][0];
    assert_eq!(case["summaries"]["achieved_per_second"]["n"], kept, "{case:#}");
    assert_eq!(results["run"]["complete"], false);
    assert!(results["warnings"][0].as_str().unwrap().contains("interrupted"));
}

#[test]
fn ctrl_c_while_connections_are_made_ends_it_and_says_how_many_there_were() {
    let schema = include_str!("../../../results/schema/load-1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mix.toml"), "[class.a]\nkind = 'fast'\n").unwrap();
    // Nobody answers the greeting, and nobody accepts more than a few.
    for (protocol, more, says) in [
        ("groups", &[] as &[&str], "interrupted while connections to"),
        ("echo", &[], "interrupted while connections to"),
        (
            "echo",
            &["--workload", "mix.toml"],
            "interrupted while connections were made",
        ),
    ] {
        for out in [&["--json"][..], &["--out", protocol]] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            rustix::net::listen(&listener, 1).unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let all = [
                "load",
                protocol,
                "--target",
                &address,
                "-c",
                "100",
                "--timeout",
                "120s",
                "--watch",
                "none",
            ];
            let mut child = piped(dir.path(), &[&all, more, out].concat());
            let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
            let begins = format!("{protocol} to ");
            assert!(said.any(|line| line.unwrap().starts_with(&begins)));
            // It connects now.
            let _client = listener.accept().unwrap();
            send_signal(&child, "-INT");
            let said: Vec<String> = said.map(Result::unwrap).collect();
            assert!(said.iter().any(|line| line.starts_with(says)), "{said:?}");
            let output = child.wait_with_output().unwrap();
            if out == ["--json"] {
                let document = json_of(&output, 130);
                assert!(schema.is_valid(&document), "{document:#}");
                assert_eq!(
                    (&document["interrupted"], &document["runs"]),
                    (&true.into(), &serde_json::json!([]))
                );
            } else {
                assert_eq!(output.status.code(), Some(130), "{said:?}");
                assert!(text(&output.stdout).contains("nothing was measured"), "{said:?}");
                let folder = dir.path().join(protocol);
                let left = fs::read_dir(&folder).unwrap().count();
                assert_eq!(left, 0, "the folder can be used again");
            }
        }
    }
}

#[test]
fn a_search_that_finds_nothing_says_so() {
    let server = served("echo");
    let arguments = [
        "-c",
        "4",
        "-d",
        "100ms",
        "--find-max",
        "--slo",
        "p50<1us",
        "-r",
        "2000",
    ];
    let dir = tempfile::tempdir().unwrap();
    let all = [&["load", "echo", "--target", &server.address], &arguments[..]].concat();
    let output = threadgauge(dir.path(), &all);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let shown = text(&output.stdout);
    // The last at the lowest rate.
    let (_, why) = said.rsplit_once("does not pass: ").unwrap();
    match why.strip_prefix("the run is invalid: ") {
        None => assert!(
            shown.starts_with("No rate meets p50<1us; ") && why.starts_with("p50<1us does not hold: it is "),
            "{shown}{said}"
        ),
        // On a machine that is busy.
        Some(_) => assert!(
            shown.starts_with("Whether a rate meets p50<1us is not known; ") && shown.contains("invalid: "),
            "{shown}{said}"
        ),
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let load = |arguments: &[&str]| refused(&[&["load"], arguments].concat());
    let here = |more: &[&str]| load(&[&["echo", "--target", "1"], more].concat());
    assert!(here(&["--rate", "0"]).contains("a number a second above 0"));
    assert!(here(&["--duration", "0"]).contains("measures nothing"));
    assert!(here(&["--think", "1s"]).contains("--loop closed"));
    assert!(here(&["--loop", "fast", "--rate", "5"]).contains("--loop open"));
    assert!(here(&["--find-max"]).contains("--slo"));
    let few = here(&["--find-max", "--slo", "p99<5ms", "-d", "1s", "-r", "500"]);
    assert!(
        few.contains("1000 answers") && few.contains("--duration"),
        "{few}"
    );
    assert!(here(&["--connections", "0"]).contains("no whole number above 0"));
    assert!(here(&["--slo", "p99"]).contains("p99<5ms"));
    assert!(here(&["--header", "A: b"]).contains("goes with http"));
    assert!(load(&["http", "--target", "1", "--header", "nonsense"]).contains("no header"));
    assert!(load(&["groups", "--target", "1", "-c", "15"]).contains("--connections 20"));
    assert!(load(&["groups", "--target", "1", "--payload", "3"]).contains("16 to"));
    assert!(load(&["groups", "--target", "1", "--payload", "3..100"]).contains("16 to"));
    assert!(load(&["bytes", "--target", "1", "--payload", "1,20000"]).contains("1 to 16384"));
    assert!(here(&["--payload", "100..10"]).contains("as in 10..100"));
    assert!(here(&["--payload", "100:x"]).contains("no weight"));
    assert!(here(&["--payload", "big"]).contains("128:90,1024:10"));
    assert!(load(&["echo", "--target", "192.0.2.1:7"]).contains("--yes-i-may-load-this-host"));
    assert!(load(&["http", "--target", "https://localhost/"]).contains("TLS"));
    assert!(load(&["http", "--target", "localhost"]).contains("no target"));
    assert!(load(&["nonsense", "--target", "1"]).contains("[possible values: http"));
}

#[test]
fn nobody_there_and_somebody_else_there_are_said() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    for protocol in ["echo", "groups"] {
        let said = refused(&["load", protocol, "--target", &nobody]);
        assert!(
            said.contains("no connection to") && said.contains("is the server started"),
            "{said}"
        );
    }
    let groups = served("groups");
    let said = refused(&["load", "http", "--target", &groups.address]);
    assert!(
        said.contains("does not speak") && said.contains("it sent \"INFO"),
        "{said}"
    );
}

/// A load of this many connections by a process that may have sixty descriptors.
fn with_few_descriptors(server: &Served, protocol: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "ulimit -n 60; exec \"$0\" load \"$@\"",
        env!("CARGO_BIN_EXE_threadgauge"),
    ]);
    shell.args([
        protocol,
        "--target",
        &server.address,
        "-c",
        "100",
        "-d",
        "200ms",
        "-r",
        "50",
    ]);
    let output = shell.args(more).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn connections_refused_half_way_are_counted_and_it_goes_on_if_asked() {
    for protocol in ["echo", "groups"] {
        let server = served(protocol);
        let (code, shown, said) = with_few_descriptors(&server, protocol, &[]);
        assert_eq!((code, shown.as_str()), (Some(2), ""), "{said}");
        // It is known before the first of them connects.
        assert!(
            said.contains("100 connections need") && said.contains("ulimit -n"),
            "{said}"
        );
        let (code, shown, said) = with_few_descriptors(&server, protocol, &["--go-on", "--json"]);
        assert!(matches!(code, Some(0 | 1)), "{said}");
        assert!(said.contains("going on with"), "{said}");
        let document: Value = serde_json::from_str(&shown).unwrap();
        let schema = include_str!("../../../results/schema/load-1.schema.json");
        let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
        let faults: Vec<String> = schema
            .iter_errors(&document)
            .map(|fault| fault.to_string())
            .collect();
        assert_eq!(faults, [""; 0], "with advice before the run");
        assert_ne!(document["preflight"], serde_json::json!([]));
        let run = &document["runs"][0];
        assert!((20..60).contains(&run["connections"].as_u64().unwrap()), "{run}");
        assert!(run["answered"].as_u64().unwrap() > 0);
    }
}

#[test]
fn connections_refused_in_the_greeting_are_counted_and_it_goes_on_if_asked() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["groups", "--listen", "127.0.0.1:0", "--max-connections", "10"];
    let server = Served::start(dir.path(), &arguments);
    let all = ["-c", "20", "-r", "50", "--timeout", "2s"];
    let output = load(&server, "groups", &all);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("only 10 of 20 connections"), "{said}");
    // The server may not have noticed yet that the others have left.
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let output = load(&server, "groups", &[&all[..], &["--go-on", "--json"]].concat());
        let said = text(&output.stderr);
        if said.contains("going on with 10 of 20 connections") {
            let run = &measured(&output)["runs"][0];
            assert_eq!(
                (&run["connections"], &run["right"]),
                (&10.into(), &true.into()),
                "{run}"
            );
            assert!(run["answered"].as_u64().unwrap() > 0);
            return;
        }
        assert!(Instant::now() < deadline, "{said}");
    }
}

#[test]
fn what_was_measured_before_a_step_that_fails_is_kept_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "groups",
        "--design",
        "reactor",
        "--listen",
        "127.0.0.1:0",
        "--max-connections",
        "30",
    ];
    let server = Served::start(dir.path(), &arguments);
    // The server lets the last ten wait.
    let steps = ["--rate-each", "5", "--steps", "20,40", "--timeout", "1s"];
    let to = |more: &[&str]| {
        let load = ["load", "groups", "--target", &server.address, "-d", "300ms"];
        threadgauge(dir.path(), &[&load[..], &steps, more].concat())
    };
    let output = to(&["--out", "kept"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("connections    20"),
        "{}",
        text(&output.stdout)
    );
    let cases = results(&dir.path().join("kept"))["experiments"][0]["cases"].clone();
    assert_eq!(cases.as_array().unwrap().len(), 1, "{cases}");
    let document: Value = serde_json::from_str(&text(&to(&["--json"]).stdout)).unwrap();
    assert_eq!(document["runs"].as_array().unwrap().len(), 1);
}

/// A search of many runs, until the most is found that comes through. A machine that is busy may let none pass.
const SEARCH: [&str; 8] = [
    "-c",
    "4",
    "-r",
    "100",
    "--find-max",
    "--slo",
    "errors<99%",
    "--json",
];

#[test]
fn a_search_that_is_interrupted_says_what_passed_and_invents_no_failure() {
    let server = served("echo");
    let dir = tempfile::tempdir().unwrap();
    // Long enough to be interrupted in the midst of a run.
    let load = ["load", "echo", "--target", &server.address, "-d", "2s"];
    let arguments = [&load, &SEARCH[..]].concat();
    let mut child = piped(dir.path(), &arguments);
    let mut said = Vec::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut until = |part: &str| loop {
        said.push(
            lines
                .next()
                .unwrap_or_else(|| panic!("{part:?} is not said: {said:?}")),
        );
        if said.last().unwrap().contains(part) {
            return;
        }
    };
    // One is judged, and another begun.
    until("pass");
    until(" s · ");
    send_signal(&child, "-INT");
    said.extend(lines);
    let document = json_of(&child.wait_with_output().unwrap(), 130);
    let (found, runs) = (&document["find_max"], document["runs"].as_array().unwrap());
    assert_eq!(found["highest_per_second"], Value::Null);
    let did_not = said.iter().any(|line| line.contains(": does not pass: "));
    assert_eq!(
        found["lowest_failed_per_second"] != Value::Null,
        did_not,
        "{said:?}"
    );
    assert_eq!(found["trials"], runs.len());
    let last = runs.last().unwrap();
    assert_eq!(last["interrupted"], true, "{said:?}");
    let judged: Vec<_> = said
        .iter()
        .filter_map(|line| line.split_once(" a second: "))
        .collect();
    let (_, says) = judged.last().unwrap();
    assert_eq!(*says, "interrupted", "{said:?}");
}

#[test]
fn a_search_whose_server_dies_keeps_the_runs_before() {
    let mut server = served("echo");
    let dir = tempfile::tempdir().unwrap();
    let out = ["--out", "kept"];
    let load = ["load", "echo", "--target", &server.address, "-d", "200ms"];
    let arguments = [&load, &SEARCH[..], &out].concat();
    let mut child = piped(dir.path(), &arguments);
    // Two runs at least.
    let mut said = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    for _ in 0..2 {
        let is_over = |line: String| ["pass", "tried again"].iter().any(|part| line.contains(part));
        assert!(said.any(is_over), "no run is over");
    }
    server.child.kill().unwrap();
    let said: Vec<String> = said.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{said:?}");
    assert!(said.last().unwrap().contains("no connection to"), "{said:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = document["runs"].as_array().unwrap();
    assert!(
        runs.len() >= 2 && document["find_max"]["trials"] == runs.len(),
        "{said:?}"
    );
    let cases = results(&dir.path().join("kept"))["experiments"][0]["cases"].clone();
    // A rate that was tried again is a case of two runs.
    let kept = cases.as_array().unwrap().iter();
    let kept: u64 = kept
        .filter_map(|case| case["summaries"]["answered_in_all"]["n"].as_u64())
        .sum();
    assert!(kept >= 2, "{cases}");
}

#[test]
fn ctrl_c_keeps_what_is_there_and_marks_it() {
    let server = served("echo");
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "load",
        "echo",
        "--target",
        &server.address,
        "-d",
        "1h",
        "-r",
        "100",
        "--json",
    ];
    let mut child = piped(dir.path(), &arguments);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    // A line a second, elsewhere than on a terminal.
    assert!(said.any(|line| line.unwrap().starts_with("   1 s · ")));
    send_signal(&child, "-INT");
    said.for_each(drop);
    let document = json_of(&child.wait_with_output().unwrap(), 130);
    assert_eq!(
        (&document["interrupted"], &document["runs"][0]["interrupted"]),
        (&true.into(), &true.into())
    );
    assert!(document["runs"][0]["answered"].as_u64().unwrap() > 0);
}

/// A server that answers one request in so many by ending the connection, and the others after a while.
fn closes_one_in(many: usize, after: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let asked = Arc::clone(&asked);
            std::thread::spawn(move || {
                let mut message = [0; 128];
                while stream.read_exact(&mut message).is_ok() {
                    let nth = asked.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(after);
                    if nth % many == many - 1 || stream.write_all(&message).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// That none may fail is said by text, JSON and exit code alike, unless a condition lets some.
#[test]
fn any_failure_is_not_met_unless_a_condition_lets_it() {
    let dir = tempfile::tempdir().unwrap();
    let address = closes_one_in(10, Duration::ZERO);
    // Whatever is sent within a minute is on schedule, so the rate is there on any machine.
    let paces: [&[&str]; 2] = [&["--loop", "closed"], &["--rate", "1000"]];
    let conditions = [
        (None, false),
        (Some("p50<60s"), false),
        (Some("errors<50%"), true),
    ];
    for (pace, (slo, is_met)) in paces.iter().flat_map(|pace| conditions.map(|slo| (*pace, slo))) {
        let slo: Vec<&str> = slo.into_iter().flat_map(|slo| ["--slo", slo]).collect();
        let echo = ["load", "echo", "--target", &address, "-c", "4", "--watch", "none"];
        let all = [&echo[..], pace, &["-d", "60s", "--requests", "200"], &slo].concat();
        let shown = threadgauge(dir.path(), &all);
        let output = threadgauge(dir.path(), &[&all[..], &["--json"]].concat());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let run = &document["runs"][0];
        let reasons = run["invalid_because"].as_array().unwrap();
        let is_slow = reasons.iter().any(|reason| reason["name"] == "rate_not_reached");
        assert!(!is_slow, "all was sent: {run:#}");
        if run["valid"] != true || text(&shown.stdout).contains("INVALID") {
            // The generator was stopped, or a latency is judged that it had no CPU for.
            continue;
        }
        let shown_row = text(&shown.stdout).contains("\nfailed         20 closed");
        assert!(shown_row, "{}", text(&shown.stdout));
        let says = "failed (20 closed), and without a condition as errors<1% none may";
        let is_said = |text: &str| text.contains(says);
        assert_eq!(is_said(&text(&shown.stdout)), !is_met, "{}", text(&shown.stdout));
        assert_eq!(
            is_said(run["slo_broken"].as_str().unwrap_or("")),
            !is_met,
            "{run:#}"
        );
        assert_eq!(
            (&run["passes"], &document["passes"]),
            (&is_met.into(), &is_met.into())
        );
        let code = Some(i32::from(!is_met));
        assert_eq!(
            (shown.status.code(), output.status.code()),
            (code, code),
            "{slo:?}"
        );
    }
}

/// What a generator does not do while it is stopped is not the server's.
#[test]
fn a_generator_that_was_stopped_says_so_and_judges_nobody() {
    let server = served("echo");
    let dir = tempfile::tempdir().unwrap();
    for pace in [&["-r", "400"][..], &["--loop", "closed", "--think", "10ms"]] {
        let load = [
            "load",
            "echo",
            "--target",
            &server.address,
            "-d",
            "4s",
            "--json",
            "--slo",
            "p99<1us",
        ];
        // A machine that is busy may keep it from its CPU for even longer.
        let is_named = (0..5).any(|_| {
            let mut child = piped(dir.path(), &[&load[..], pace].concat());
            let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
            assert!(said.any(|line| line.unwrap().starts_with("   1 s · ")));
            send_signal(&child, "-STOP");
            // It is what is done to the generator, not a wait for anything.
            std::thread::sleep(Duration::from_millis(1_200));
            send_signal(&child, "-CONT");
            said.for_each(drop);
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
            let run = &measured(&output)["runs"][0];
            let stood = &run["generator"]["stood_still"];
            assert!(stood["longest_s"].as_f64().unwrap() > 1.0, "{stood}");
            assert_eq!((&run["valid"], &run["slo_broken"]), (&false.into(), &Value::Null));
            run["invalid_because"][0]["name"] == "generator_stopped"
        });
        assert!(is_named, "{pace:?}");
    }
}

/// Of requests at equal distances for `span_s`, in which the server stops once for `stop_s`: the quantile `q`, in ns.
/// Those that were to start `t` before its end wait for `t`; all others are as good as at once.
fn truth_ns(q: f64, span_s: f64, stop_s: f64) -> f64 {
    1e9 * (stop_s - (1.0 - q) * span_s)
}

/// What a load of ten seconds says of its 95th and 99th percentiles, and for how long the server was stopped meanwhile.
fn stopped_for_a_second(kind: &[&str]) -> ([f64; 2], f64) {
    const SECOND: Duration = Duration::from_secs(1);
    let server = served("echo");
    let dir = tempfile::tempdir().unwrap();
    let all = [
        &[
            "load",
            "echo",
            "--target",
            &server.address,
            "-c",
            "50",
            "-d",
            "10s",
            "--json",
        ],
        kind,
    ]
    .concat();
    let mut child = piped(dir.path(), &all);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().starts_with("   1 s · ")));
    server.signal("-STOP");
    let begin = Instant::now();
    // It is what is done to the server, not a wait for anything.
    std::thread::sleep(SECOND);
    server.signal("-CONT");
    let stop_s = begin.elapsed().as_secs_f64();
    said.for_each(drop);
    let output = child.wait_with_output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| document["runs"][0]["response_ns"][name].as_f64().unwrap();
    ([of("p95"), of("p99")], stop_s)
}

#[test]
fn of_a_server_that_stops_for_a_second_the_percentiles_are_true() {
    let is_true = |found: [f64; 2], stop_s: f64| {
        let truths = [0.95, 0.99].map(|q| truth_ns(q, 10.0, stop_s));
        std::iter::zip(found, truths).all(|(found, truth)| (found / truth - 1.0).abs() < 0.05)
    };
    // A machine that is busy stops the server once more, so it may be tried again.
    let mut tries = Vec::new();
    let found = (0..5).any(|_| {
        let (found, stop_s) = stopped_for_a_second(&["-r", "400", "--arrivals", "uniform"]);
        tries.push((found, stop_s));
        is_true(found, stop_s)
    });
    assert!(
        found,
        "95th and 99th percentiles in ns, and the stop in s: {tries:?}"
    );
    // The control: a closed loop asks nothing while the server stops, and does not see it.
    let (closed, stop_s) = stopped_for_a_second(&["--loop", "closed", "--think", "100ms"]);
    assert!(!is_true(closed, stop_s), "{closed:?}");
}

#[test]
fn the_help_and_the_page_say_the_same_flags() {
    let dir = tempfile::tempdir().unwrap();
    let help = text(&threadgauge(dir.path(), &["load", "--help"]).stdout);
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/load.md")).unwrap();
    let flags = |text: &str| -> std::collections::BTreeSet<String> {
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .filter(|word| word.starts_with("--") && word.len() > 2)
            .map(str::to_owned)
            .collect()
    };
    let missing: Vec<_> = flags(&help).difference(&flags(&page)).cloned().collect();
    assert!(
        missing.is_empty() || missing == ["--help"],
        "docs/load.md does not have {missing:?}"
    );
}
