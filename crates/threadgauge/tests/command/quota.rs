//! The experiment that makes control groups: that it does, what it says where it cannot, and that none is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use serde_json::Value;
use threadgauge_machine::allowed_cpus;

use super::limited::{Group, as_nobody, cpu_percent};
use super::{hear_signals, median, results, send_signal, text};

const COMMAND: &str = env!("CARGO_BIN_EXE_threadgauge");
/// Each case lasts for the fewest periods, and uses its quota up whoever else computes.
const SHORT: [&str; 8] = [
    "run",
    "quota",
    "--rounds",
    "1",
    "--set",
    "tasks=10,quota_percent=5",
    "--out",
    "r",
];
/// Its first case lasts until somebody ends it.
const ENDLESS: [&str; 7] = ["run", "quota", "--rounds", "1", "--set", "tasks=1000000", "--out"];
/// For what takes a moment.
const SOON: Duration = Duration::from_secs(60);

/// A group for the command, below which it makes its own; no other test's is there. `None`, and it says why, where no
/// group can be made or there is one CPU, so that the cases of the quick profile are skipped.
#[allow(clippy::print_stderr, reason = "it says why a test is skipped")]
fn group(name: &str) -> Option<Group> {
    if allowed_cpus().unwrap().len() < 2 {
        eprintln!("skipped: the quick profile's cases need two CPUs");
        return None;
    }
    let made = Group::new(name, vec![cpu_percent(10_000)]);
    made.inspect_err(|why| eprintln!("skipped: no control group can be made here: {why}"))
        .ok()
}

fn in_group(group: &Group, dir: &Path, arguments: &[&str]) -> Command {
    hear_signals();
    let mut command = group.command(COMMAND, arguments);
    command
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The groups that there are below a group.
fn below(group: &Group) -> Vec<PathBuf> {
    let all = fs::read_dir(group.folder()).unwrap().map(|of| of.unwrap().path());
    all.filter(|path| path.is_dir()).collect()
}

fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        yield_now();
    }
}

/// A command that is ended with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command within its first case, and that case's worker, which is in a group of its own.
fn within_a_case(group: &Group, dir: &Path) -> (Running, i32) {
    let mut command = in_group(group, dir, &[&ENDLESS[..], &["r"]].concat());
    let child = Running(command.spawn().unwrap());
    let worker = until("no worker is in a group of its own", || {
        let members = fs::read_to_string(below(group).first()?.join("cgroup.procs")).ok()?;
        members.trim().parse().ok()
    });
    (child, worker)
}

fn cases(output: &Output, dir: &Path) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let results = results(&dir.join("r"));
    results["experiments"][0]["cases"].as_array().unwrap().clone()
}

#[test]
fn a_pool_under_a_quota_is_stopped_when_it_is_used_up_and_no_group_is_left() {
    let Some(group) = group("quota") else { return };
    let dir = tempfile::tempdir().unwrap();
    let output = in_group(&group, dir.path(), &SHORT).output().unwrap();
    let cases = cases(&output, dir.path());
    let throttled: Vec<f64> = cases.iter().map(|case| median(case, "throttled_share")).collect();
    assert_eq!(throttled.len(), 2, "{cases:?}");
    assert!(throttled.iter().all(|share| *share > 0.0), "{throttled:?}");
    assert_eq!(below(&group), Vec::<PathBuf>::new());
}

#[test]
#[allow(clippy::print_stderr, reason = "it says why it is skipped")]
fn whoever_may_make_no_group_is_told_what_is_lacking_and_how_to_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut command) = as_nobody(dir.path()) else {
        eprintln!("skipped: the command cannot be run as another user here");
        return;
    };
    // The claims are about these cases and no others.
    let all = ["run", "quota", "--rounds", "1", "--out", "r"];
    let output = command.args(all).output().unwrap();
    for case in cases(&output, dir.path()) {
        let reason = case["reason"].as_str().unwrap();
        let needs_cpus = reason.starts_with("needs 2 CPUs");
        assert_eq!(case["status"], "skipped");
        assert!(
            needs_cpus
                || reason.starts_with("needs a control group of its own")
                    && reason.contains("run it as root"),
            "{reason}"
        );
    }
    let results = results(&dir.path().join("r"));
    let findings = results["experiments"][0]["findings"].as_array().unwrap();
    let tail = findings
        .iter()
        .find(|of| of["claim"] == "pool-beyond-quota-has-longer-tail");
    assert_eq!(tail.unwrap()["verdict"], "not-testable", "{tail:?}");
}

#[test]
fn a_second_ctrl_c_within_a_case_leaves_no_group() {
    let Some(group) = group("quota-interrupted") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (mut running, _) = within_a_case(&group, dir.path());
    // The first waits for the case to end; two at once may be one.
    until("it does not end", || {
        send_signal(&running.0, "-INT");
        let stat = fs::read_to_string(format!("/proc/{}/stat", running.0.id())).unwrap();
        stat.contains(") Z ").then_some(())
    });
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    assert_eq!(below(&group), Vec::<PathBuf>::new());
}

#[test]
fn what_a_killed_run_left_the_next_one_removes_whatever_it_measures() {
    let Some(group) = group("quota-killed") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (running, worker) = within_a_case(&group, dir.path());
    // Killed, so that it ends nothing that it has started.
    drop(running);
    let killed = Command::new("kill").args(["-KILL", &worker.to_string()]).status();
    assert!(killed.unwrap().success());
    let left = below(&group);
    until("the killed worker stays in its group", || {
        let members = fs::read_to_string(left[0].join("cgroup.procs")).unwrap();
        members.is_empty().then_some(())
    });
    assert_eq!(below(&group), left, "nobody removed it");
    let another = [
        "run",
        "null",
        "--only",
        "what=start",
        "--rounds",
        "1",
        "--out",
        "another",
    ];
    let output = in_group(&group, dir.path(), &another).output().unwrap();
    assert!(output.status.success());
    assert_eq!(below(&group), Vec::<PathBuf>::new());
}
