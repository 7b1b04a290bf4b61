//! The command as a user has it: real runs, bad input, interruptions.

#[path = "command/advise.rs"]
mod advise;
#[path = "command/ci.rs"]
mod ci;
#[path = "command/each.rs"]
mod each;
#[path = "command/history.rs"]
mod history;
#[path = "command/limited.rs"]
mod limited;
#[path = "command/link.rs"]
mod link;
#[path = "command/load.rs"]
mod load;
#[path = "command/memory.rs"]
mod memory;
#[path = "command/misbehaving.rs"]
mod misbehaving;
#[path = "command/mixed.rs"]
mod mixed;
#[path = "command/monitor.rs"]
mod monitor;
#[path = "command/multicast.rs"]
mod multicast;
#[path = "command/observe.rs"]
mod observe;
#[path = "command/outside.rs"]
mod outside;
#[path = "command/past_the_limit.rs"]
mod past_the_limit;
#[path = "command/quota.rs"]
mod quota;
#[path = "command/runtimes.rs"]
mod runtimes;
#[path = "command/serve.rs"]
mod serve;
#[path = "command/sides.rs"]
mod sides;
#[path = "command/signals.rs"]
mod signals;
#[path = "command/terminal.rs"]
mod terminal;
#[path = "command/turns.rs"]
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Once};

use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
use signal_hook::flag;
use tempfile::TempDir;
use threadgauge_results::{
    Metric, Params, RunRecord, Sample, Status, Store, StoredCase, StoredExperiment, StoredSample,
};

/// The cheapest real run: one experiment without side conditions.
const TINY: [&str; 5] = ["run", "null", "--only", "what=clock", "--rounds"];

fn threadgauge(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments)
        .output()
        .expect("the command can be started")
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    hear_signals();
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadgauge"));
    command.args(arguments).current_dir(dir).stdin(Stdio::null());
    // What a terminal of whoever runs the tests would say.
    for terminals in ["COLUMNS", "LINES", "CLICOLOR_FORCE", "FORCE_COLOR"] {
        command.env_remove(terminals);
    }
    command
}

/// What a shell that runs the tests in the background has them ignore, and `nohup`, the command would ignore too,
/// though tests send it. What this process handles has its default action in what it starts.
fn hear_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
        for signal in [SIGHUP, SIGINT, SIGQUIT] {
            if ignored & 1 << (signal - 1) != 0 {
                flag::register(signal, Arc::default()).unwrap();
            }
        }
    });
}

/// Starts it; what it says is to be read.
fn piped(dir: &Path, arguments: &[&str]) -> Child {
    let mut command = command(dir, arguments);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command can be started")
}

/// The cases of one round of an experiment, chosen by these arguments; its folder is `r`.
fn one_round_of(dir: &Path, chosen: &[&str]) -> Vec<Value> {
    let arguments = [&["run"], chosen, &["--rounds", "1", "--out", "r"]].concat();
    let output = threadgauge(dir, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let results = results(&dir.join("r"));
    let cases = results["experiments"][0]["cases"].as_array().unwrap();
    cases.clone()
}

fn median(case: &Value, metric: &str) -> f64 {
    let figure = case["summaries"][metric]["median"].as_f64();
    figure.unwrap_or_else(|| panic!("no {metric}: {case}"))
}

fn send_signal(to: &Child, signal: &str) {
    let pid = to.id().to_string();
    assert!(
        Command::new("kill")
            .args([signal, &pid])
            .status()
            .unwrap()
            .success()
    );
}

fn tiny(rounds: &'static str, more: &[&'static str]) -> Vec<&'static str> {
    let mut arguments = TINY.to_vec();
    arguments.push(rounds);
    arguments.extend(more);
    arguments
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Refused: exit code 2, nothing on standard output, and what was wrong on standard error.
fn refused(arguments: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let error = refused_in(dir.path(), arguments);
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        0,
        "{arguments:?} left something behind"
    );
    error
}

/// The same, with what is in this folder.
fn refused_in(dir: &Path, arguments: &[&str]) -> String {
    let output = threadgauge(dir, arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    error
}

fn json(output: &Output) -> Value {
    json_of(output, 0)
}

/// What a command has printed that ended with this exit code.
fn json_of(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

fn results(dir: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(dir.join("results.json")).unwrap()).unwrap()
}

#[test]
fn a_run_writes_every_file_and_its_json_meets_the_schema() {
    let dir = tempfile::tempdir().unwrap();
    let output = threadgauge(dir.path(), &tiny("6", &["--json", "--out", "r"]));
    let printed = json(&output);
    assert_eq!(printed, results(&dir.path().join("r")));
    let schema = include_str!("../../results/schema/results-1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema
        .iter_errors(&printed)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(printed["experiments"][0]["stopped_because"], "rounds");
    assert_eq!(printed["experiments"][0]["cases"][0]["status"], "ok");
    for file in [
        "results.sqlite",
        "results.json",
        "report.html",
        "report.md",
        "report.svg",
        "report.png",
        "results.xlsx",
        "samples.csv",
    ] {
        assert!(
            dir.path().join("r").join(file).metadata().unwrap().len() > 0,
            "{file}"
        );
    }
}

#[test]
fn a_run_says_its_answer_once_and_ends_with_a_screen_or_with_all_tables() {
    let dir = tempfile::tempdir().unwrap();
    let short = threadgauge(dir.path(), &tiny("1", &["--out", "short"]));
    let long = threadgauge(dir.path(), &tiny("1", &["--out", "long", "--tables"]));
    let said = text(&short.stderr) + &text(&short.stdout);
    let answers = said.matches("In the one case of this run").count();
    assert_eq!(answers, 1, "{said}");
    assert!(
        !text(&long.stderr).contains("In the one case"),
        "only with its table"
    );
    let [screen, tables] = [short, long].map(|output| text(&output.stdout));
    assert_eq!(
        tables.matches("In the one case of this run").count(),
        1,
        "{tables}"
    );
    assert!(
        screen.contains("\nAnswers\n") && screen.contains("Can this run be trusted?"),
        "{screen}"
    );
    let table = "an interval needs at least 6";
    assert!(tables.contains(table) && !screen.contains(table), "{tables}");
    assert!(!screen.contains('\u{1b}'), "a pipe gets no colour");
}

#[test]
fn the_default_folder_is_under_the_current_one_and_nothing_else_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let output = threadgauge(dir.path(), &tiny("1", &[]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    assert_eq!(names(dir.path()), ["threadgauge-results"]);
    let [folder] = &names(&dir.path().join("threadgauge-results"))[..] else {
        panic!("one folder a run");
    };
    let year = folder.get(..2);
    assert_eq!(year, Some("20"), "{folder} begins with the date");
}

#[test]
fn a_mistyped_experiment_is_answered_with_the_nearest_name() {
    assert!(refused(&["run", "craete"]).contains("did you mean `create`?"));
    assert!(refused(&["explain", "nul"]).contains("did you mean `null`?"));
}

#[test]
fn bad_numbers_and_lists_are_refused_with_what_is_right() {
    assert!(refused(&["run", "--rounds", "0"]).contains("1..=1000"));
    assert!(refused(&["run", "--cpus", "a-b"]).contains("a-b"));
    assert!(refused(&["run", "--cpus", "3-1"]).contains("3-1"));
    assert!(refused(&["run", "--cpus", "0,4095"]).contains("4095"));
    assert!(refused(&["run", "--only", "unit"]).contains("NAME=VALUE"));
    assert!(refused(&["run", "null", "--only", "colour=red"]).contains("no parameter `colour`"));
    assert!(refused(&["run", "null", "--only", "what=nothing"]).contains("clock"));
    let nothing = refused(&["run", "null", "--set", "what=3"]);
    assert!(
        nothing.contains("--set: no case of null can run so: the parameter what is 3; it must be one of"),
        "{nothing}"
    );
    for (experiment, set, range) in [
        ("multicast", "connections=0", "a number from 2 to 60000"),
        ("multicast", "connections=15", "a multiple of 10"),
        ("peers", "connections=70000", "a number from 10 to 10000"),
        ("chat", "messages=0", "a number from 1 to 100000"),
        ("server-designs", "clients=0", "a number from 1"),
        ("pipelining", "depth=0", "a number from 1"),
        ("mixed-clients", "connections=0", "a number from 20"),
        ("past-the-limit", "room=0", "a number from 1 to 1000"),
        ("past-the-limit", "connections=999999", "a number from 1 to 1000"),
        ("stages", "message_bytes=63", "a number from 64 to 4096"),
        ("stages", "connections=0", "a number from 1 to 10000"),
        ("stages", "load=full", "one of saturated, half, crash"),
        ("create", "count=0", "a number from 1"),
    ] {
        let said = refused(&["run", experiment, "--set", set]);
        let (name, value) = set.split_once('=').unwrap();
        let wanted = format!(
            "no case of {experiment} can run so: the parameter {name} is {value}; it must be {range}"
        );
        assert!(said.contains(&wanted), "{said}");
    }
    assert!(
        refused(&["compare", "a", "b", "--fail-on", "faster"]).contains("neither slower:N% nor unknown:N%")
    );
    assert!(refused(&["frobnicate"]).contains("unrecognized subcommand"));
    for without_arguments in ["advise", "load", "observe"] {
        refused(&[without_arguments]);
    }
}

#[test]
fn folders_without_results_are_named() {
    for arguments in [
        &["report", "nowhere"][..],
        &["claims", "nowhere"],
        &["compare", "nowhere", "elsewhere"],
        &["run", "--resume", "nowhere"],
    ] {
        assert!(
            refused(arguments).contains("no results in nowhere"),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let error = refused(&["run", "null", "--out", "/proc/nowhere"]);
    assert!(
        error.contains("/proc/nowhere") && error.contains("--out"),
        "{error}"
    );
}

#[test]
fn results_are_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        threadgauge(dir.path(), &tiny("1", &["--out", "r"]))
            .status
            .success()
    );
    let before = fs::read(dir.path().join("r/results.sqlite")).unwrap();
    let again = threadgauge(dir.path(), &tiny("1", &["--out", "r"]));
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--resume"));
    assert_eq!(fs::read(dir.path().join("r/results.sqlite")).unwrap(), before);
}

#[test]
fn more_cpus_than_there_are_skip_the_case_and_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let set = ["run", "null", "--set", "cpus=4000", "--rounds", "1", "--out", "r"];
    let output = threadgauge(dir.path(), &set);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let case = &results(&dir.path().join("r"))["experiments"][0]["cases"][0];
    assert_eq!(case["status"], "skipped");
    assert!(
        case["reason"]
            .as_str()
            .unwrap()
            .starts_with("needs 4000 CPUs, this run has "),
        "{case}"
    );
    assert!(
        refused(&["run", "null", "--set", "cpus=0"]).contains("cpus is 0; it must be a number from 1 on")
    );
}

#[test]
fn files_of_our_names_that_are_not_ours_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("report.md"), "mine").unwrap();
    let output = threadgauge(dir.path(), &tiny("1", &["--out", "."]));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("report.md"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(fs::read_to_string(dir.path().join("report.md")).unwrap(), "mine");
}

#[test]
fn a_case_that_fails_is_reported_and_fatal_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let run = |out: &str, more: &[&str]| {
        // No room for so many stacks. The shuffle begins with the second copy of the case, which then has no first.
        let little = "ulimit -v 1500000 && exec \"$0\" run print --rounds 1 --seed 2 \"$@\"";
        let only = [
            "--only",
            "units=255,prints=5,sink=pipe,unit=thread,cpus=1",
            "--out",
            out,
        ];
        let mut shell = Command::new("bash");
        shell.args(["-c", little, env!("CARGO_BIN_EXE_threadgauge")]);
        shell
            .args(only)
            .args(more)
            .current_dir(dir.path())
            .output()
            .unwrap()
    };
    let lenient = run("lenient", &[]);
    assert_eq!(lenient.status.code(), Some(0), "{}", text(&lenient.stderr));
    let screen = text(&lenient.stdout);
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(screen.contains("1 case failed"), "{screen}");
    assert_eq!(run("strict", &["--strict"]).status.code(), Some(1));
    let case = &results(&dir.path().join("lenient"))["experiments"][0]["cases"][0];
    assert_eq!(case["status"], "failed");
    assert!(case["reason"].as_str().unwrap().contains("was refused"), "{case}");
}

/// The children of these processes.
fn children(of: &[String]) -> Vec<String> {
    let of_each = of.iter().flat_map(|pid| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        let listed = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
        listed.collect::<Vec<_>>()
    });
    let pids = of_each.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    pids.collect()
}

#[test]
fn a_case_whose_unit_is_killed_fails_with_the_reason_and_the_rest_runs() {
    let dir = tempfile::tempdir().unwrap();
    let only = "unit=process,placement=same,waiters=1,means=pipe,means=unix";
    let arguments = [
        &["run", "wake", "--profile", "standard", "--only", only][..],
        // Long enough to be killed in the middle; the first sample is no second copy.
        &[
            "--set",
            "asks=100000",
            "--rounds",
            "1",
            "--seed",
            "1",
            "--out",
            "r",
        ],
    ];
    let mut run = command(dir.path(), &arguments.concat());
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let killed = loop {
        // The command starts the worker, that starts the program in C, and that the units.
        let units = children(&children(&children(&[run.id().to_string()])));
        if let Some(unit) = units.first() {
            break Command::new("kill").args(["-KILL", unit]).status().unwrap();
        }
        assert!(
            run.try_wait().unwrap().is_none(),
            "it ended before a unit was seen"
        );
    };
    assert!(killed.success());
    assert_eq!(
        run.wait().unwrap().code(),
        Some(0),
        "a case that fails is not fatal"
    );
    let reason = "a child was ended by signal 9";
    let results = results(&dir.path().join("r"));
    let cases = results["experiments"][0]["cases"].as_array().unwrap();
    let (failed, rest): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case["status"] == "failed");
    assert_eq!((failed.len(), rest.len()), (1, 1), "{cases:?}");
    assert_eq!(failed[0]["reason"], reason);
    assert_eq!(rest[0]["status"], "ok");
    for report in ["report.html", "report.md"] {
        let written = fs::read_to_string(dir.path().join("r").join(report)).unwrap();
        assert!(written.contains(reason), "{report} does not say why");
    }
}

#[test]
fn the_report_can_be_written_again_and_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    threadgauge(dir.path(), &tiny("6", &["--out", "r"]));
    let first = fs::read_to_string(dir.path().join("r/report.html")).unwrap();
    fs::remove_file(dir.path().join("r/report.html")).unwrap();
    let output = threadgauge(dir.path(), &["report", "r"]);
    assert!(text(&output.stdout).contains("report.html"));
    assert_eq!(
        fs::read_to_string(dir.path().join("r/report.html")).unwrap(),
        first
    );
    assert!(
        threadgauge(dir.path(), &["report", "r", "--out", "elsewhere"])
            .status
            .success()
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("elsewhere/report.html")).unwrap(),
        first
    );
}

/// A stored run of seven rounds whose one case took `ns` a time, so that nothing depends on the machine.
fn stored(dir: &Path, handicap_percent: u32, ns: f64) {
    let record = RunRecord {
        handicap_percent,
        ..record("1")
    };
    stored_run(dir, &record, |round, copy| {
        (ns * (1.0 + 0.001 * f64::from((round * 3 + copy) % 7)), false)
    });
}

fn record(id: &str) -> RunRecord {
    RunRecord {
        id: id.to_owned(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        profile: "quick".to_owned(),
        seed: 1,
        version: "0.1.0".to_owned(),
        rounds: None,
        cpus: vec![0],
        handicap_percent: 0,
        options: Vec::new(),
        in_turns_with: None,
        each: None,
        runtimes: Vec::new(),
    }
}

/// A stored run of seven rounds, whose one case took what `value` says of a round and copy, and whether it was
/// disturbed.
fn stored_run(dir: &Path, record: &RunRecord, value: impl Fn(u32, u32) -> (f64, bool)) {
    stored_case(dir, record, Params::new().with("what", "clock"), value);
}

/// The same of the case of `null` with these parameters.
fn stored_case(dir: &Path, record: &RunRecord, params: Params, value: impl Fn(u32, u32) -> (f64, bool)) {
    let case = StoredCase {
        id: params.case_id("null"),
        params,
        estimate_ms: 1,
        skip: None,
    };
    let plan = StoredExperiment {
        id: "null".to_owned(),
        reference: Some(case.id.clone()),
        stopped_because: Some("rounds".to_owned()),
        cases: vec![case.clone()],
    };
    let mut store = Store::create(dir, record, &serde_json::json!({"kernel": dir}), &[plan]).unwrap();
    for (round, copy) in (1..=7).flat_map(|round| [(round, 0), (round, 1)]) {
        let metric = threadgauge_experiments::CATALOGUE.get("null").unwrap().primary[0].name;
        let (value, gated) = value(round, copy);
        let sample = StoredSample {
            experiment: "null".to_owned(),
            case: case.id.clone(),
            round,
            copy,
            nth_try: 0,
            attempt: 0,
            gated,
            started: record.started.clone(),
            wall_ns: 1,
            sample: Sample {
                status: Status::Ok,
                reason: None,
                tags: Vec::new(),
                metrics: vec![Metric {
                    name: metric.to_owned(),
                    unit: "ns".to_owned(),
                    value,
                }],
                noise: BTreeMap::new(),
            },
        };
        store.add(&sample).unwrap();
    }
    store.close().unwrap();
}

#[test]
fn a_slower_run_fails_the_check_and_so_does_one_of_which_nothing_is_known() {
    let dir = tempfile::tempdir().unwrap();
    stored(&dir.path().join("a"), 0, 100.0);
    stored(&dir.path().join("b"), 0, 110.0);
    stored(&dir.path().join("c"), 0, 100.01);
    let rows = |a, b| json(&threadgauge(dir.path(), &["compare", a, b, "--json"]))["rows"].clone();
    // One case of two runs that took no turns: a change cannot be told from the machine's level.
    for (a, b) in [("a", "c"), ("a", "b"), ("b", "a")] {
        assert_eq!(rows(a, b)[0]["verdict"], "unknown");
    }
    let check = |b, fail_on| {
        let checked = threadgauge(dir.path(), &["compare", "a", b, "--fail-on", fail_on]);
        (checked.status.code(), text(&checked.stderr))
    };
    let (code, says) = check("b", "slower:5%,unknown:100%");
    assert_eq!(code, Some(1));
    assert!(
        says.contains("null/what=clock: slower than --fail-on allows")
            && says.contains("The check failed for"),
        "{says}"
    );
    for b in ["b", "c"] {
        let (code, says) = check(b, "slower:20%");
        assert_eq!(code, Some(1));
        assert!(says.contains("nothing is known of any of 1 case"), "{says}");
        assert_eq!(check(b, "slower:20%,unknown:100%").0, Some(0));
        assert_eq!(check(b, "unknown:99%").0, Some(1));
    }
    let shell = format!(
        "set -o pipefail; {} compare a b --fail-on slower:5% | head -n 1",
        env!("CARGO_BIN_EXE_threadgauge")
    );
    let piped = Command::new("bash")
        .args(["-c", &shell])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(
        piped.status.code(),
        Some(1),
        "a reader that leaves does not hide the verdict"
    );
    let first = text(&piped.stdout);
    assert!(
        first.starts_with("Level unknown, of too few cases. Of 1 case 0 differ, 0 are the same within 3 %,"),
        "{first}"
    );
    for format in ["text", "markdown"] {
        let compared = threadgauge(dir.path(), &["compare", "a", "b", "--format", format]);
        let compared = text(&compared.stdout);
        assert!(compared.contains("THE MACHINES DIFFER: kernel"), "{compared}");
    }
}

/// A run that takes its time, in a folder of its own.
struct Slow {
    dir: TempDir,
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Slow {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::with(dir, &tiny("1000", &["--seed", "5", "--out", "r"]))
    }

    /// Starts the run and waits until its first line says that a third round has begun.
    fn with(dir: TempDir, arguments: &[&str]) -> Self {
        let mut child = command(dir.path(), arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut slow = Self { dir, child, said };
        let mut rounds = 0;
        while rounds < 3 {
            let mut line = String::new();
            assert!(
                slow.said.read_line(&mut line).unwrap() > 0,
                "it ended before its third round"
            );
            rounds += usize::from(line.contains(": round "));
        }
        slow
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("r")
    }

    fn signal(&self, signal: &str) {
        send_signal(&self.child, signal);
    }

    fn end(&mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many samples the folder's store holds.
fn samples(folder: &Path) -> usize {
    Store::read(folder).unwrap().samples("null").unwrap().len()
}

#[test]
fn an_interrupt_keeps_everything_and_says_how_to_go_on() {
    let mut slow = Slow::start();
    slow.signal("-INT");
    let (code, said) = slow.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("--resume r"), "{said}");
    assert!(samples(&slow.folder()) >= 2 * 2);
    let results = results(&slow.folder());
    assert_eq!(results["run"]["complete"], false);
    assert_eq!(results["experiments"][0]["stopped_because"], "interrupted");
}

#[test]
fn a_killed_run_is_resumed_with_the_same_cases_and_loses_nothing() {
    let mut slow = Slow::start();
    slow.signal("-KILL");
    slow.end();
    assert!(threadgauge(slow.dir.path(), &["report", "r"]).status.success());
    let (before, kept) = (results(&slow.folder()), samples(&slow.folder()));
    assert!(
        kept >= 2 * 2,
        "two rounds of a case and its copy were over: {kept}"
    );

    let mut again = Slow::with(
        std::mem::replace(&mut slow.dir, tempfile::tempdir().unwrap()),
        &["run", "--resume", "r"],
    );
    again.signal("-INT");
    again.end();
    let after = results(&again.folder());
    let cases = |of: &Value| -> Vec<String> {
        let cases = of["experiments"][0]["cases"].as_array().unwrap().iter();
        cases.map(|c| c["id"].to_string()).collect()
    };
    assert_eq!(cases(&before), cases(&after));
    assert_eq!(before["run"]["seed"], after["run"]["seed"]);
    assert!(samples(&again.folder()) > kept);
}

#[test]
fn every_try_of_a_short_case_is_stored_and_one_that_a_killed_run_lacks_is_taken_when_it_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let only = "method=pool,alive=1,parent_mib=0,cpus=1";
    let run = ["run", "create", "--only", only, "--rounds", "1", "--out", "whole"];
    assert!(threadgauge(dir.path(), &run).status.success());
    let first_attempts = |run: &str| {
        let samples = Store::read(&dir.path().join(run))
            .unwrap()
            .samples("create")
            .unwrap();
        let first = samples.into_iter().filter(|s| s.attempt == 0);
        first.map(|s| (s.copy, s.nth_try)).collect::<BTreeSet<_>>()
    };
    let all = BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(first_attempts("whole"), all);

    // As a run leaves it that was killed before the last of them.
    let whole = Store::read(&dir.path().join("whole")).unwrap();
    let plan: Vec<StoredExperiment> = whole.experiments().unwrap();
    let begun = plan.into_iter().map(|e| StoredExperiment {
        stopped_because: None,
        ..e
    });
    let begun: Vec<StoredExperiment> = begun.collect();
    let (record, machine) = (whole.run().unwrap(), whole.machine().unwrap());
    let mut killed = Store::create(&dir.path().join("killed"), &record, &machine, &begun).unwrap();
    for tried in &whole.samples("create").unwrap()[..3] {
        killed.add(tried).unwrap();
    }
    killed.close().unwrap();
    assert_eq!(first_attempts("killed").len(), 3);
    let resumed = threadgauge(dir.path(), &["run", "--resume", "killed"]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert_eq!(first_attempts("killed"), all);
}

#[test]
fn a_second_run_on_a_folder_in_use_is_refused() {
    let slow = Slow::start();
    for arguments in [&["run", "--resume", "r"][..], &["report", "r"]] {
        let output = threadgauge(slow.dir.path(), arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains("in use by another run"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("{} claims | head -n 1", env!("CARGO_BIN_EXE_threadgauge"));
    let output = Command::new("bash")
        .args(["-c", &format!("set -o pipefail; {script}")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn results_that_cannot_be_written_are_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut claims = command(dir.path(), &["claims"]);
    let output = claims.stdout(full).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("standard output cannot be written: No space left"),
        "{said}"
    );
}

#[test]
fn without_a_terminal_there_are_no_escape_codes_and_each_round_is_a_line() {
    for named in ["xterm", "dumb"] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = command(dir.path(), &tiny("2", &[]));
        let output = run.env("TERM", named).output().unwrap();
        let [out, said] = [&output.stdout, &output.stderr].map(|written| text(written));
        assert!(!out.contains('\x1b') && !said.contains('\x1b'), "{out}{said}");
        for round in [": round 1 of 2,", ": round 2 of 2,"] {
            assert!(said.contains(round), "{named}: {said}");
        }
    }
}

#[test]
fn the_list_says_how_long_each_experiment_takes() {
    let dir = tempfile::tempdir().unwrap();
    for profile in ["quick", "standard", "paper"] {
        let list = json(&threadgauge(
            dir.path(),
            &["list", "--profile", profile, "--json"],
        ));
        let list = list.as_array().unwrap();
        assert_eq!(list.len(), threadgauge_experiments::CATALOGUE.iter().count());
        for experiment in list {
            assert!(experiment["seconds"].as_f64().unwrap() > 0.1, "{experiment}");
        }
    }
}

#[test]
fn computations_run_in_threads_up_front_or_in_turn_in_a_pool_and_in_helper_processes() {
    let dir = tempfile::tempdir().unwrap();
    let output = threadgauge(
        dir.path(),
        &[
            "run",
            "turnaround",
            "--profile",
            "standard",
            "--rounds",
            "1",
            "--only",
            "carrier=up-front,carrier=thread,carrier=pool,carrier=process,kind=io,count=8,cpus=1,degree=25",
            // So long that on a busy machine, too, the last is started before the first is done.
            "--set",
            "lengths=equal,base_ms=3000",
            "--out",
            "r",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let results = results(&dir.path().join("r"));
    let cases = results["experiments"][0]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        assert_eq!(case["status"], "ok", "{case}");
        assert_eq!(case["summaries"]["most_running"]["median"], 8.0, "{case}");
        // Sleepers that overlap.
        assert!(
            case["summaries"]["elapsed_ns"]["median"].as_f64().unwrap() >= 3e9,
            "{case}"
        );
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let dir = tempfile::tempdir().unwrap();
    for command in [
        "run", "list", "explain", "claims", "compare", "history", "export", "report", "doctor", "advise",
    ] {
        let help = text(&threadgauge(dir.path(), &[command, "--help"]).stdout);
        assert!(
            help.contains(&format!("threadgauge {command}")) && help.contains("Example"),
            "{help}"
        );
    }
    insta::assert_snapshot!("help", text(&threadgauge(dir.path(), &["--help"]).stdout));
}

#[test]
fn every_experiment_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let list = json(&threadgauge(dir.path(), &["list", "--json"]));
    for experiment in list.as_array().unwrap() {
        let id = experiment["id"].as_str().unwrap();
        let output = threadgauge(dir.path(), &["explain", id]);
        assert!(text(&output.stdout).contains("How\n"), "{id}");
    }
}

#[test]
fn claims_are_chosen_by_where_they_stand_whose_they_are_and_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let chosen = |options: &[&str]| {
        let all = json(&threadgauge(
            dir.path(),
            &[&["claims", "--json"], options].concat(),
        ));
        let ids = all.as_array().unwrap().iter();
        let ids = ids.map(|claim| {
            (
                claim["source"].as_str().unwrap().to_owned(),
                claim["id"].to_string(),
            )
        });
        ids.collect::<Vec<_>>()
    };
    let all = chosen(&[]);
    let of = |source: &str| all.iter().filter(|(of, _)| of == source).count();
    assert_eq!(chosen(&["--source", "jaws"]).len(), of("002"));
    assert_eq!(
        chosen(&["--source", "001", "--source", "JAWS"]).len(),
        of("001") + of("002")
    );
    assert_eq!(chosen(&["--verdict", "open"]).len(), all.len(), "nothing was run");
    assert_eq!(chosen(&["--verdict", "held,not-held,elsewhere"]), []);
    let pooled = chosen(&["--source", "jaws", "--text", "POOLED"]);
    assert!(!pooled.is_empty() && pooled.len() < of("002"), "{pooled:?}");
    let shown = text(&threadgauge(dir.path(), &["claims", "--source", "jaws"]).stdout);
    assert!(shown.contains("claims: ✓ 0 held · ✗ 0 not held · ? "), "{shown}");
    assert!(shown.contains("the JAWS case (2005): "), "{shown}");
    let unknown = refused(&["claims", "--source", "nobody"]);
    assert!(
        unknown.contains("no source is called `nobody`; there are 000 (Asche, THRDPERF (1995)), "),
        "{unknown}"
    );
    assert!(
        refused(&["claims", "--verdict", "none"])
            .contains("possible values: held, not-held, open, elsewhere")
    );
}

#[test]
fn every_claim_is_listed_with_where_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let claims = json(&threadgauge(dir.path(), &["claims", "--json"]));
    let claims = claims.as_array().unwrap();
    assert_eq!(claims.len(), threadgauge_results::claims().len());
    for claim in claims {
        let state = claim["state"].as_str().unwrap();
        assert!(
            state.starts_with("planned: ") || state.starts_with("not run: "),
            "{claim}"
        );
    }
}

#[test]
fn the_man_page_and_completions_come_from_the_same_definitions() {
    let dir = tempfile::tempdir().unwrap();
    let man = text(&threadgauge(dir.path(), &["generate", "man"]).stdout);
    assert!(man.contains(".TH threadgauge") && man.contains("COMMAND RUN") && man.contains("fail\\-on"));
    assert!(man.contains("threadgauge serve groups "), "examples, too");
    for shell in ["bash", "zsh", "fish"] {
        let completions = text(&threadgauge(dir.path(), &["generate", shell]).stdout);
        assert!(completions.contains("compare"), "{shell}");
    }
}

#[test]
fn a_worker_started_by_hand_says_what_it_is() {
    assert!(refused(&["worker"]).contains("not by hand"));
}
