//! Two runs that take turns.

use std::fs;
use std::io::{BufRead, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use threadgauge_machine::{CpuList, allowed_cpus};
use threadgauge_results::{Params, RunRecord, Store, StoredSample};

use super::{
    Slow, TINY, children, command, json, record, refused, refused_in, results, send_signal, stored_case,
    stored_run, text, threadgauge, tiny,
};

/// A run in the background; one that waits for another for ever is ended with its test.
struct Started(Child);

impl Started {
    fn new(dir: &Path, arguments: &[&str]) -> Self {
        let run = command(dir, arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Self(run.unwrap())
    }

    /// Its exit code and what it said.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap().code(), said)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The samples that are no repeats, with when each began and ended, of both runs in the order of time.
fn in_order(dir: &Path) -> Vec<(Timestamp, Timestamp, &'static str, StoredSample)> {
    let mut all = Vec::new();
    for run in ["a", "b"] {
        let samples = Store::read(&dir.join(run)).unwrap().samples("null").unwrap();
        for sample in samples.into_iter().filter(|s| s.attempt == 0) {
            let begun: Timestamp = sample.started.parse().unwrap();
            let ended = begun + Duration::from_nanos(sample.wall_ns);
            all.push((begun, ended, run, sample));
        }
    }
    all.sort_by_key(|(begun, ..)| *begun);
    all
}

#[test]
fn samples_of_both_alternate_and_compare_pairs_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut of_a = Started::new(dir.path(), &tiny("6", &["--turns", "t", "--out", "a"]));
    let of_b = threadgauge(
        dir.path(),
        &tiny("6", &["--turns", "t", "--out", "b", "--seed", "11"]),
    );
    assert!(of_b.status.success(), "{}", text(&of_b.stderr));
    assert_eq!(of_a.end().0, Some(0));
    let [a, b] = ["a", "b"].map(|run| results(&dir.path().join(run))["run"].clone());
    assert_eq!([&a["in_turns_with"], &b["in_turns_with"]], [&b["id"], &a["id"]]);
    assert_eq!([&a["seed"], &b["seed"]], [11, 11]);

    let order = in_order(dir.path());
    assert_eq!(order.len(), 2 * 6 * 2, "six rounds of a case and its copy, twice");
    for two in order.windows(2) {
        assert!(two[0].1 <= two[1].0, "one at a time: {two:#?}");
    }
    for pair in order.chunks(2) {
        let [(.., run, sample), (.., other_run, other)] = pair else {
            unreachable!("an even number")
        };
        assert_ne!(run, other_run);
        assert_eq!((sample.round, sample.copy), (other.round, other.copy));
    }
    assert!(!dir.path().join("t").exists());
    let compared = json(&threadgauge(dir.path(), &["compare", "a", "b", "--json"]));
    assert_eq!(compared["paired"], true);
}

#[test]
fn what_the_machine_does_to_both_is_no_difference_and_no_noise() {
    let dir = tempfile::tempdir().unwrap();
    let store = |name: &str, partner: &str, factor: f64| {
        let record = RunRecord {
            in_turns_with: Some(partner.to_owned()),
            ..record(name)
        };
        // The machine becomes slower by half in each round; in the third somebody disturbed one of the two.
        // What runs second is slower in one of them: its order is disturbed.
        let second = if name == "e" { 1.1 } else { 1.0 };
        stored_run(&dir.path().join(name), &record, |round, copy| {
            let level = 1.5_f64.powi(round.try_into().unwrap());
            let disturbed = (name, round, copy) == ("b", 3, 0);
            // Too few rounds are left for pairs of others.
            let gated = disturbed || (["g", "i"].contains(&name) && round > 2 && copy == 0);
            let own = 1.0 + 0.001 * f64::from((round * 3 + copy) % 7);
            (
                factor
                    * level
                    * own
                    * f64::powi(second, copy.cast_signed())
                    * if disturbed { 50.0 } else { 1.0 },
                gated,
            )
        });
    };
    store("a", "b", 100.0);
    store("b", "a", 110.0);
    store("c", "somebody", 110.0);
    let row = |b| json(&threadgauge(dir.path(), &["compare", "a", b, "--json"]))["rows"][0].clone();
    let paired = row("b");
    assert_eq!(paired["verdict"], "slower", "{paired}");
    assert!((paired["ratio"].as_f64().unwrap() - 1.1).abs() < 0.01, "{paired}");
    assert_eq!(paired["disturbed"], Value::Null, "{paired}");
    let apart = row("c");
    assert_eq!(apart["verdict"], "unknown", "these took no turns");
    assert!(
        apart["reason"].as_str().unwrap().contains("without turns"),
        "{apart}"
    );
    for (a, b, factor, verdict) in [("f", "g", 1.1, "slower"), ("h", "i", 1.0, "unknown")] {
        store(a, b, 100.0);
        store(b, a, 100.0 * factor);
        let compared = json(&threadgauge(dir.path(), &["compare", a, b, "--json"]));
        let row = &compared["rows"][0];
        assert_eq!(
            (&row["verdict"], &row["disturbed"]),
            (&verdict.into(), &true.into()),
            "{row}"
        );
        let is_same = row["reason"].as_str() == Some("disturbed rounds do not show that two are the same");
        assert_eq!(is_same, factor == 1.0, "{row}");
        let shown = text(&threadgauge(dir.path(), &["compare", a, b]).stdout);
        let says = if factor == 1.0 {
            "1: disturbed rounds do not show"
        } else {
            "in disturbed rounds"
        };
        assert!(shown.contains(says), "{shown}");
    }
    store("d", "e", 100.0);
    store("e", "d", 110.0);
    let misled = json(&threadgauge(dir.path(), &["compare", "d", "e", "--json"]));
    assert_eq!(misled["paired"], true);
    assert_eq!(misled["rows"][0]["verdict"], "unknown", "{misled}");
    assert!(
        misled["warnings"]
            .to_string()
            .contains("differs from its own copy"),
        "{misled}"
    );
    assert_eq!(
        (&misled["false_alarms_at_most"], &misled["level"]),
        (&0.05.into(), &Value::Null)
    );
}

#[test]
fn who_is_left_goes_on_alone_and_who_comes_back_is_nobodys_pair() {
    let dir = tempfile::tempdir().unwrap();
    let of_b = Started::new(dir.path(), &tiny("1000", &["--turns", "t", "--out", "b"]));
    let mut of_a = Slow::with(dir, &tiny("1000", &["--turns", "t", "--out", "a"]));
    drop(of_b);
    let mut line = String::new();
    while !line.contains("goes on alone") {
        line.clear();
        assert!(
            of_a.said.read_line(&mut line).unwrap() > 0,
            "it ended without a word"
        );
    }
    of_a.signal("-INT");
    assert_eq!(of_a.end().0, Some(130));
    let dir = std::mem::replace(&mut of_a.dir, tempfile::tempdir().unwrap());
    assert!(threadgauge(dir.path(), &["report", "b"]).status.success());
    let compared = json(&threadgauge(dir.path(), &["compare", "a", "b", "--json"]));
    assert_eq!(compared["paired"], true, "what both have was taken in turns");

    let mut again = Slow::with(dir, &["run", "--resume", "b"]);
    again.signal("-INT");
    assert_eq!(again.end().0, Some(130));
    let here = again.dir.path();
    assert!(results(&here.join("b"))["run"]["in_turns_with"].is_null());
    let compared = json(&threadgauge(here, &["compare", "a", "b", "--json"]));
    assert_eq!(compared["paired"], false);
}

#[test]
fn runs_that_do_not_fit_together_are_both_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut of_a = Started::new(dir.path(), &["run", "null", "--turns", "t", "--out", "a"]);
    let of_b = threadgauge(dir.path(), &tiny("6", &["--turns", "t", "--out", "b"]));
    for (code, said) in [of_a.end(), (of_b.status.code(), text(&of_b.stderr))] {
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("the same experiments, profile, --rounds"), "{said}");
    }
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn a_path_where_nobody_can_meet_is_refused() {
    assert!(refused(&["run", "null", "--turns", "nowhere/t"]).contains("nowhere/t"));
    assert!(refused(&["run", "--resume", "r", "--turns", "t"]).contains("cannot be used with"));
}

#[test]
fn who_waits_there_and_says_nothing_is_named_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let _silent = UnixListener::bind(dir.path().join("t")).unwrap();
    let output = Command::new("timeout")
        .args([
            "60",
            env!("CARGO_BIN_EXE_threadgauge"),
            "run",
            "null",
            "--turns",
            "t",
        ])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let who = format!("process {} (", std::process::id());
    assert!(said.contains(&who) && said.contains("says nothing"), "{said}");
}

#[test]
#[allow(clippy::print_stderr, reason = "it says why it is skipped")]
fn a_run_of_another_user_is_refused_and_the_one_that_waits_waits_on() {
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir().unwrap();
    let for_anybody = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    for_anybody(dir.path());
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadgauge"));
        command
            .args(arguments)
            .current_dir(dir.path())
            .uid(NOBODY)
            .gid(NOBODY);
        command.output()
    };
    if let Err(error) = as_nobody(&["--version"]) {
        eprintln!("skipped: the command cannot be run as another user here: {error}");
        return;
    }
    let mut waits = Started::new(dir.path(), &tiny("6", &["--turns", "t", "--out", "a"]));
    let (path, deadline) = (dir.path().join("t"), Instant::now() + Duration::from_secs(60));
    while !path.exists() {
        assert!(Instant::now() < deadline, "it does not wait at its path");
        std::thread::yield_now();
    }
    for_anybody(&path);
    let refused = as_nobody(&tiny("6", &["--turns", "t", "--out", "b"])).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(
        said.contains("of user 0 is there and only runs of one user"),
        "{said}"
    );
    let met = threadgauge(dir.path(), &tiny("6", &["--turns", "t", "--out", "b"]));
    assert_eq!(met.status.code(), Some(0), "{}", text(&met.stderr));
    assert_eq!(waits.end().0, Some(0));
}

/// Two runs that took turns, of which a case takes so many ns; each with these options beside six rounds of `null`.
fn stored_pair(dir: &Path, [one, other]: [(&str, f64); 2], options: impl Fn(&str) -> Vec<String>) {
    for ((name, ns), (partner, _)) in [(one, other), (other, one)] {
        let record = RunRecord {
            in_turns_with: Some(partner.to_owned()),
            options: [vec!["null".to_owned(), "--rounds 6".to_owned()], options(name)].concat(),
            ..record(name)
        };
        let clock = Params::new().with("what", "clock").with("cpus", 1);
        stored_case(&dir.join(name), &record, clock, |round, copy| {
            (ns * (1.0 + 0.001 * f64::from((round * 3 + copy) % 7)), false)
        });
    }
}

#[test]
fn what_is_flagged_is_measured_again_by_both_programs_in_turns() {
    let dir = tempfile::tempdir().unwrap();
    // Of the two runs that are compared nothing but a pair in turns calls this case slower.
    stored_pair(dir.path(), [("a", 100.0), ("b", 200.0)], |_| Vec::new());
    let before = json(&threadgauge(dir.path(), &["compare", "a", "b", "--json"]));
    assert_eq!(before["rows"][0]["verdict"], "slower", "{before}");
    let rerun = [
        "compare",
        "a",
        "b",
        "--json",
        "--rerun",
        env!("CARGO_BIN_EXE_threadgauge"),
    ];
    let output = threadgauge(dir.path(), &rerun);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("Measures 1 flagged case again in turns"), "{said}");
    let after = json(&output);
    let ratio = after["rows"][0]["ratio"].as_f64().unwrap();
    assert!(ratio < 1.8, "one program is not twice as slow as itself: {after}");
    let warnings = after["warnings"].to_string();
    assert!(
        warnings.contains("1 flagged case measured again in turns"),
        "{warnings}"
    );
    let kept = fs::read_dir(dir.path().join("threadgauge-results")).unwrap();
    assert_eq!(kept.count(), 1);

    let missing = threadgauge(dir.path(), &["compare", "a", "b", "--rerun", "./none"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        text(&missing.stderr).contains("./none cannot be started"),
        "{}",
        text(&missing.stderr)
    );
    let failing = threadgauge(dir.path(), &["compare", "a", "b", "--rerun", "false"]);
    assert_eq!(failing.status.code(), Some(2));
    assert!(
        text(&failing.stderr).contains("false ended with"),
        "{}",
        text(&failing.stderr)
    );
    // Nothing is flagged of a run against its equal.
    stored_pair(dir.path(), [("c", 100.0), ("d", 100.0)], |_| Vec::new());
    let none = threadgauge(dir.path(), &["compare", "c", "d", "--rerun", "./none"]);
    assert_eq!(none.status.code(), Some(0), "{}", text(&none.stderr));
    assert!(
        text(&none.stderr).contains("Nothing is flagged"),
        "{}",
        text(&none.stderr)
    );
}

#[test]
fn what_was_measured_in_two_states_is_measured_again_in_them() {
    let dir = tempfile::tempdir().unwrap();
    stored_pair(dir.path(), [("a", 100.0), ("b", 200.0)], |name| {
        vec![format!("--before-try echo {name} >> log")]
    });
    let program = env!("CARGO_BIN_EXE_threadgauge");
    let output = threadgauge(dir.path(), &["compare", "a", "b", "--json", "--rerun", program]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    for name in ["a", "b"] {
        let tries = log.lines().filter(|line| *line == name).count();
        // Each of six rounds has the case and its copy.
        assert!(tries >= 12, "{name}: {log}");
    }
    assert!(
        log.starts_with("a\nb\n"),
        "what either notes of the machine is of its own state: {log}"
    );
}

#[test]
fn two_states_are_measured_in_turns_each_after_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let switch = [
        "--switch",
        "echo a $(date +%s%N) >> log",
        "echo b $(date +%s%N) >> log",
        "--out",
        "s",
    ];
    let output = threadgauge(dir.path(), &tiny("6", &switch));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        text(&output.stdout).contains("nothing is known"),
        "{}",
        text(&output.stdout)
    );
    // Neither command did anything to the machine.
    assert!(
        said.contains("Nothing that a results folder knows of the machine differs"),
        "{said}"
    );
    // Whatever a run says has its side.
    for words in [
        "Takes turns with ",
        "Measuring takes ",
        "Results go to ",
        "Report: ",
    ] {
        let lines = said.lines().filter_map(|line| line.split_once(words));
        let mut sides: Vec<&str> = lines.map(|(side, _)| side).collect();
        sides.sort_unstable();
        assert_eq!(sides, ["a: ", "b: "], "{words}: {said}");
    }
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    let ran: Vec<(&str, i128)> = log
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(command, ns)| (command, ns.parse().unwrap()))
        .collect();
    // Each is looked at in its state, and then come its tries.
    assert_eq!([ran[0].0, ran[1].0], ["a", "b"]);
    for command in ["a", "b"] {
        let at = dir.path().join("s").join(command);
        let options = results(&at)["run"]["options"].to_string();
        assert!(
            options.contains(&format!("--before-try echo {command} ")),
            "{options}"
        );
        let samples = Store::read(&at).unwrap().samples("null").unwrap();
        assert!(
            samples.len() >= 12,
            "six rounds of a case and its copy: {samples:#?}"
        );
        for sample in samples {
            let begun: Timestamp = sample.started.parse().unwrap();
            let before = ran.iter().rev().find(|(_, ns)| *ns <= begun.as_nanosecond());
            assert_eq!(before.unwrap().0, command, "{begun}: {log}");
        }
    }
    let compared = json(&threadgauge(dir.path(), &["compare", "s/a", "s/b", "--json"]));
    assert_eq!(compared["paired"], true);
}

#[test]
fn a_state_that_cannot_be_brought_about_ends_both_runs_and_the_command_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for commands in [["exit 3", "true", "--out", "s"], ["true", "exit 3", "--out", "t"]] {
        let arguments = tiny("1", &[&["--switch"], &commands[..]].concat());
        let said = refused_in(dir.path(), &arguments);
        assert!(said.contains("`exit 3`, ended with exit status: 3"), "{said}");
        assert!(said.contains("--switch: a run ended with"), "{said}");
    }
    // In the middle of a run, too, and what was measured before is kept.
    let fails_later = "[ $(wc -l < log) -lt 4 ] && echo >> log";
    fs::write(dir.path().join("log"), "").unwrap();
    let output = threadgauge(
        dir.path(),
        &tiny("6", &["--before-try", fails_later, "--out", "r"]),
    );
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("the command before a try"), "{said}");
    let kept = Store::read(&dir.path().join("r"))
        .unwrap()
        .samples("null")
        .unwrap();
    assert_eq!(kept.len(), 3, "{kept:#?}");
}

/// Longer than any test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Has a process sleep, and wait for it; its id is in `pid`.
const HANGS: &str = "sleep 600 & echo $! > pid; wait";

/// What `look` finds, once it finds something.
fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The words of a process; none of one that is gone, or dead and waited for by nobody.
fn words(pid: &str) -> Option<String> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    (!words.is_empty()).then(|| text(&words))
}

#[test]
fn a_command_before_a_try_ends_with_the_runs_whatever_ends_them() {
    let at_its_third_run = format!("echo >> log; [ $(wc -l < log) -lt 3 ] || {{ {HANGS}; }}");
    for (command, by, code) in [
        // Before anything is planned.
        (HANGS, "-INT", 130),
        (at_its_third_run.as_str(), "-TERM", 143),
        // The run of the other side is killed.
        (at_its_third_run.as_str(), "-KILL", 2),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let switch = ["6", "--switch", command, "true", "--out", "s"];
        let mut both = Started::new(dir.path(), &[&TINY[..], &switch[..]].concat());
        let sleeper = wait_for("nobody sleeps", || {
            let pid = fs::read_to_string(dir.path().join("pid")).ok()?;
            pid.strip_suffix('\n').map(str::to_owned)
        });
        if by == "-KILL" {
            let runs = children(&[both.0.id().to_string()]);
            let is_b = |pid: &&String| words(pid).is_some_and(|words| words.contains("--side\0b\0"));
            let run = runs.iter().find(is_b).unwrap();
            assert!(Command::new("kill").args([by, run]).status().unwrap().success());
        } else {
            send_signal(&both.0, by);
        }
        let (ended, said) = both.end();
        assert_eq!(ended, Some(code), "{by}: {said}");
        assert!(
            !said.contains("had not ended"),
            "{by}: the command's own limit ended it: {said}"
        );
        wait_for("the command is left", || words(&sleeper).is_none().then_some(()));
    }
}

/// All CPUs and the first of them; none where there is one, or no `taskset`, as is said then.
#[allow(clippy::print_stderr, reason = "it says why a test is skipped")]
fn cpus_and_first() -> Option<[CpuList; 2]> {
    let all = allowed_cpus().unwrap();
    if all.len() < 2 || Command::new("taskset").arg("--version").output().is_err() {
        eprintln!("skipped: it needs two CPUs and taskset");
        return None;
    }
    let first = all.first(1);
    Some([all, first])
}

#[test]
fn a_state_is_planned_with_its_own_cpus_and_what_the_other_lacks_is_left_out() {
    let Some([all, first]) = cpus_and_first() else {
        return;
    };
    // The parent of the shell is the run.
    let command = |cpus: &CpuList| format!("taskset -pc {cpus} $PPID");
    let cpus = |cpus: &CpuList| format!("cpus={cpus}");
    for sides in [[command(&first), command(&all)], [cpus(&first), cpus(&all)]] {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = sides.each_ref().map(String::as_str);
        let only = "method=pthread,alive=1,busy=0,parent_mib=0";
        let of = ["run", "create", "--only", only, "--rounds", "2"];
        let output = threadgauge(dir.path(), &[&of[..], &["--switch", a, b, "--out", "s"]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{a}: {said}");
        assert!(
            said.contains("which the other state does not have"),
            "{a}: {said}"
        );
        assert!(
            !said.contains("Nothing that a results folder knows"),
            "{a}: {said}"
        );
        for (name, cpus) in [("a", &first), ("b", &all)] {
            let results = results(&dir.path().join("s").join(name));
            assert_eq!(results["machine"]["allowed_cpus"], cpus.to_string(), "{a}");
            let cases = results["experiments"][0]["cases"].as_array().unwrap();
            let on_one = cases.iter().filter(|case| case["params"]["cpus"] == 1);
            assert!(on_one.count() > 0 && cases.iter().any(|case| case["params"]["cpus"] != 1));
            for case in cases {
                let is_measured = case["status"] == "ok";
                assert_eq!(is_measured, case["params"]["cpus"] == 1, "{a}: {case}");
            }
        }
    }
}

#[test]
fn a_try_on_other_cpus_than_were_planned_for_is_refused_with_both() {
    let Some([all, first]) = cpus_and_first() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let widens = format!(
        "echo >> log; [ $(wc -l < log) -lt 3 ] && taskset -pc {first} $PPID || taskset -pc {all} $PPID"
    );
    let arguments = [&TINY[..], &["6", "--before-try", &widens, "--out", "r"]].concat();
    let output = threadgauge(dir.path(), &arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let both = format!("left this run CPUs {all}, and it was planned for CPUs {first}");
    assert!(said.contains(&both), "{said}");
    let kept = Store::read(&dir.path().join("r"))
        .unwrap()
        .samples("null")
        .unwrap();
    assert_eq!(kept.len(), 1, "{kept:#?}");
}

#[test]
fn sides_that_are_no_two_states_are_refused() {
    let refused = |a: &str, b: &str| refused(&["run", "null", "--switch", a, b]);
    assert!(refused("cpus=all", "true").contains("one side is CPUs and the other a command"));
    assert!(refused("cpus=all", "cpus=all").contains("nothing would differ"));
    assert!(refused("cpus=4095", "cpus=all").contains("CPU 4095 is not one this process may use"));
    assert!(refused("cpus=x", "cpus=all").contains("--switch cpus=x"));
}
