//! The command where it is given little: few processes and threads, half a CPU, 256 MiB.
//!
//! A control group of either version sees to that, where this user may make one; else limits of the process, as far as
//! there are such.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use serde_json::Value;
use threadgauge_machine::allowed_cpus;

use super::{json, results, text, threadgauge};

const COMMAND: &str = env!("CARGO_BIN_EXE_threadgauge");
/// Where control groups are: of version 2 all, of version 1 those of a controller in its folder.
const ROOT: &str = "/sys/fs/cgroup";
/// Says which controllers the groups below have, in version 2.
const CONTROLLERS: &str = "cgroup.subtree_control";

/// What a control group may have: files and what they say, by version.
pub(super) struct Limit {
    controller: &'static str,
    v1: Vec<(&'static str, String)>,
    v2: Vec<(&'static str, String)>,
}

fn tasks(most: u32) -> Limit {
    let file = vec![("pids.max", most.to_string())];
    Limit {
        controller: "pids",
        v1: file.clone(),
        v2: file,
    }
}

/// The time of so much of a CPU.
pub(super) fn cpu_percent(percent: u64) -> Limit {
    const PERIOD_US: u64 = 100_000;
    let quota_us = PERIOD_US * percent / 100;
    Limit {
        controller: "cpu",
        v1: vec![
            ("cpu.cfs_period_us", PERIOD_US.to_string()),
            ("cpu.cfs_quota_us", quota_us.to_string()),
        ],
        v2: vec![("cpu.max", format!("{quota_us} {PERIOD_US}"))],
    }
}

fn memory_mib(mib: u64) -> Limit {
    let bytes = (mib << 20).to_string();
    Limit {
        controller: "memory",
        v1: vec![("memory.limit_in_bytes", bytes.clone())],
        v2: vec![("memory.max", bytes)],
    }
}

/// A control group with limits, where this user may make one. Removed when dropped.
#[derive(Default)]
pub(super) struct Group {
    /// Its folder; in version 1 one for each controller.
    folders: BTreeSet<PathBuf>,
    /// The controllers of version 2 that were switched on for it.
    switched_on: Vec<&'static str>,
}

impl Group {
    /// `name` tells it from others of this process.
    pub(super) fn new(name: &str, limits: Vec<Limit>) -> io::Result<Self> {
        let name = format!("threadgauge-test-{}-{name}", std::process::id());
        let mut group = Self::default();
        for Limit { controller, v1, v2 } in limits {
            let of_controller = Path::new(ROOT).join(controller);
            let (root, files) = if of_controller.is_dir() {
                (of_controller.as_path(), v1)
            } else {
                group.switch_on(controller)?;
                (Path::new(ROOT), v2)
            };
            let folder = root.join(&name);
            if !group.folders.contains(&folder) {
                fs::create_dir(&folder)?;
                group.folders.insert(folder.clone());
            }
            for (file, says) in files {
                fs::write(folder.join(file), says)?;
            }
        }
        let entered = group.command("true", &[]).status()?;
        if entered.success() {
            return Ok(group);
        }
        Err(io::Error::other("a process cannot enter the group that was made"))
    }

    /// Lets groups of version 2 have this controller.
    fn switch_on(&mut self, controller: &'static str) -> io::Result<()> {
        let file = Path::new(ROOT).join(CONTROLLERS);
        let on = fs::read_to_string(&file)?;
        if !on.split_whitespace().any(|on| on == controller) {
            fs::write(file, format!("+{controller}"))?;
            self.switched_on.push(controller);
        }
        Ok(())
    }

    /// Its folder, in version 1 that of its first controller.
    pub(super) fn folder(&self) -> &Path {
        self.folders.first().expect("it was made")
    }

    /// A program that is started in it.
    pub(super) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let enters = "while [ \"$1\" != -- ]; do echo $$ > \"$1/cgroup.procs\" || exit; shift; done; shift; exec \"$@\"";
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", enters, "sh"]).args(&self.folders);
        shell.args(["--", program]).args(arguments);
        shell
    }

    /// The command, run in it.
    fn run(&self, dir: &Path, arguments: &[&str]) -> Output {
        self.command(COMMAND, arguments)
            .current_dir(dir)
            .output()
            .unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What has ended leaves the group a moment later.
        let deadline = Instant::now() + Duration::from_secs(60);
        for folder in &self.folders {
            while fs::remove_dir(folder).is_err() && Instant::now() < deadline {
                yield_now();
            }
            let gone = !folder.exists();
            assert!(
                gone || std::thread::panicking(),
                "{} is still in use",
                folder.display()
            );
        }
        for controller in &self.switched_on {
            // Others may have come to need it.
            let _ = fs::write(Path::new(ROOT).join(CONTROLLERS), format!("-{controller}"));
        }
    }
}

/// Runs where the system refuses units, by `run` in `dir`: every refused case names the `limit`, and the rest runs.
fn refused_units_are_named_and_the_rest_runs(dir: &Path, limit: &str, run: impl Fn(&[&str]) -> Output) {
    let measured = |out: &str, arguments: &[&str]| {
        let output = run(&[&["run", "--rounds", "1", "--out", out], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        results(&dir.join(out))
    };
    let only = "count=8192,cpus=1,mode=yield";
    let many = measured("refused", &["oversubscription", "--only", only]);
    assert!(cases(&many).next().is_some());
    let report = fs::read_to_string(dir.join("refused/report.md")).unwrap();
    for case in cases(&many) {
        let reason = case["reason"].as_str().unwrap();
        assert_eq!(case["status"], "failed");
        assert!(reason.contains(limit) && reason.contains("is 400"), "{reason}");
        assert!(report.contains(reason), "the report does not say why");
    }
    let kept = measured("kept", &["footprint", "identity"]);
    // A thousand are more than the guard allows; eight are not.
    assert_eq!(statuses(&kept, "footprint/"), ["skipped", "skipped"]);
    assert_eq!(statuses(&kept, "identity/"), ["ok", "ok"]);
}

#[test]
#[allow(clippy::print_stderr, reason = "it says why it is skipped")]
fn where_a_control_group_refuses_units_the_limit_is_named_and_the_rest_runs() {
    let group = match Group::new("tasks", vec![tasks(400)]) {
        Ok(group) => group,
        Err(error) => {
            eprintln!("skipped: no control group can be made here: {error}");
            return;
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let limit = "the limit pids.max of the control group";
    refused_units_are_named_and_the_rest_runs(dir.path(), limit, |arguments| {
        group.run(dir.path(), arguments)
    });
}

/// A user without rights.
const NOBODY: u32 = 65_534;

fn of_nobody(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.uid(NOBODY).gid(NOBODY).current_dir(dir);
    command
}

/// The command as a user without rights, who is given this folder; `None` where it cannot be run so.
pub(super) fn as_nobody(dir: &Path) -> Option<Command> {
    std::os::unix::fs::chown(dir, Some(NOBODY), Some(NOBODY)).ok()?;
    of_nobody(COMMAND, dir).arg("--version").output().ok()?;
    Some(of_nobody(COMMAND, dir))
}

#[test]
#[allow(clippy::print_stderr, reason = "it says why it is skipped")]
fn where_a_user_may_have_no_more_units_the_limit_is_named_and_the_rest_runs() {
    let dir = tempfile::tempdir().unwrap();
    // The superuser is not held to the limit; whoever sets it and becomes another user is.
    if as_nobody(dir.path()).is_none() {
        eprintln!("skipped: the command cannot be run as another user here");
        return;
    }
    refused_units_are_named_and_the_rest_runs(dir.path(), "the limit nproc", |arguments| {
        let limited = "ulimit -u 400 && exec \"$0\" \"$@\"";
        let mut shell = of_nobody("bash", dir.path());
        shell.args(["-c", limited, COMMAND]);
        shell.args(arguments).output().unwrap()
    });
}

/// The command on one CPU and with so much address space: what can be had without a control group.
fn run_limited(dir: &Path, mib: u64, arguments: &[&str]) -> Output {
    let cpu = allowed_cpus().unwrap().first(1).to_string();
    let limits = format!("ulimit -v {} && exec taskset -c {cpu} \"$0\" \"$@\"", mib * 1024);
    let mut shell = Command::new("bash");
    shell.args(["-c", &limits, COMMAND]).args(arguments);
    shell.current_dir(dir).output().unwrap()
}

/// Cases that are picked by having one value of each of these lists.
type Only<'a> = &'a [&'a [&'a str]];

/// The ids of all cases that these experiments plan, of those that are picked.
fn planned(listed: &Value, experiments: &[&str], only: Only<'_>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for experiment in listed.as_array().unwrap() {
        let id = experiment["id"].as_str().unwrap();
        if !experiments.contains(&id) {
            continue;
        }
        for params in experiment["cases"].as_array().unwrap() {
            let params = params.as_str().unwrap();
            let has = |value: &&str| params.split(',').any(|of_case| of_case == *value);
            if only.iter().all(|values| values.iter().any(has)) {
                ids.insert(format!("{id}/{params}"));
            }
        }
    }
    ids
}

/// What became of the cases of a run whose id begins so.
fn statuses<'a>(results: &'a Value, id: &str) -> Vec<&'a str> {
    let of = cases(results).filter(|case| case["id"].as_str().unwrap().starts_with(id));
    of.map(|case| case["status"].as_str().unwrap()).collect()
}

fn cases(results: &Value) -> impl Iterator<Item = &Value> {
    let experiments = results["experiments"].as_array().unwrap();
    experiments.iter().flat_map(|e| e["cases"].as_array().unwrap())
}

#[test]
#[allow(clippy::print_stderr, reason = "it says what it does without a control group")]
fn on_half_a_cpu_and_256_mib_what_fits_runs_and_the_rest_says_what_it_lacks() {
    const MIB: u64 = 256;
    let dir = tempfile::tempdir().unwrap();
    let group = Group::new("little", vec![cpu_percent(50), memory_mib(MIB)]);
    if let Err(error) = &group {
        eprintln!("on one CPU and by ulimit, since no control group can be made here: {error}");
    }
    let listed = json(&threadgauge(dir.path(), &["list", "--json"]));
    let run = |experiments: &[&str], only: Only<'_>| {
        let out = experiments.join("-");
        let picked = only.concat().join(",");
        let mut arguments = [&["run"], experiments, &["--rounds", "1", "--out", out.as_str()]].concat();
        if !picked.is_empty() {
            arguments.extend(["--only", picked.as_str()]);
        }
        let output = match &group {
            Ok(group) => group.run(dir.path(), &arguments),
            Err(_) => run_limited(dir.path(), MIB, &arguments),
        };
        assert_eq!(output.status.code(), Some(0), "{out}: {}", text(&output.stderr));
        let results = results(&dir.path().join(&out));
        let report = fs::read_to_string(dir.path().join(&out).join("report.md")).unwrap();
        let ids = cases(&results).map(|case| case["id"].as_str().unwrap().to_owned());
        assert_eq!(ids.collect::<BTreeSet<_>>(), planned(&listed, experiments, only));
        for case in cases(&results).filter(|case| case["status"] != "ok") {
            let reason = case["reason"].as_str().unwrap();
            assert!(!reason.is_empty() && report.contains(reason), "{case}");
        }
        (results, report)
    };

    let (together, report) = run(&["identity", "footprint"], &[]);
    assert_eq!(statuses(&together, "identity/"), ["ok", "ok"]);
    let machine = &together["machine"];
    let cpus = if group.is_ok() { 0.5 } else { 1.0 };
    assert_eq!(machine["effective_cpus"], cpus);
    assert!(
        report.contains(&format!("| effective CPUs | {cpus:?} |")),
        "{report}"
    );

    let (many, _) = run(
        &["limits"],
        &[&["trial=most"], &["unit=thread"], &["stack_kib=1024"]],
    );
    let (made, _) = run(
        &["create"],
        &[
            &["method=fork", "method=pthread"],
            &["alive=1"],
            &["busy=0"],
            &["cpus=1"],
        ],
    );
    if group.is_err() {
        return;
    }
    assert_eq!(machine["effective_cpus_bound"], "quota");
    assert!(report.contains("| effective CPUs bound | quota |"), "{report}");
    // A thousand idle units may take more than half of the memory; what they are skipped for is what the group has.
    assert_eq!(statuses(&together, "footprint/"), ["skipped", "skipped"]);
    for case in cases(&together).filter(|case| case["status"] == "skipped") {
        let reason = case["reason"].as_str().unwrap();
        let free = reason.strip_prefix("needs 375 MiB of free memory, ");
        let free = free.and_then(|rest| rest.strip_suffix(" are free"));
        let free_mib: u64 = free.expect(reason).parse().unwrap();
        assert!(free_mib <= MIB, "{reason}");
    }
    // As many as are sure to leave half of the memory to others.
    assert_eq!(statuses(&many, "limits/"), ["ok"]);
    let summaries = &cases(&many).next().unwrap()["summaries"];
    assert_eq!(summaries["the guard for memory"]["median"], 1.0, "{summaries}");
    let alive = summaries["alive"]["median"].as_f64().unwrap();
    assert!((1.0..=682.0).contains(&alive), "{summaries}");
    let all_made = statuses(&made, "create/");
    assert!(
        !all_made.is_empty() && all_made.iter().all(|status| *status == "ok"),
        "{made}"
    );
}
