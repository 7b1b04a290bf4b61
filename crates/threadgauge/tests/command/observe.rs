//! `threadgauge observe` on programs whose behaviour is known, and on processes that end, are not there or may not be
//! looked at.
//!
//! The programs are those of `guests/c/observed.c`. Other tests use the CPUs, too, so a program is observed until a
//! verdict holds, and not once.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use threadgauge_machine::allowed_cpus;

use super::limited::{Group, cpu_percent};
use super::terminal::on_a_terminal;
use super::{children, json, json_of, piped, refused, send_signal, text, threadgauge};

#[path = "../../../../guests/compile.rs"]
mod guests;

const PATIENCE: Duration = Duration::from_secs(120);

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("observed");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/c/observed.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        guests::compile(&compiler, &["-O2", "-pthread"], &source, &path).unwrap();
        (dir, path)
    });
    path
}

/// A program of known behaviour, which runs. Ended with the test.
struct Known(Child);

impl Known {
    fn start(what: &str, count: usize) -> Self {
        Self::by(Command::new(program()), what, count)
    }

    /// Started by this command, in whose place it is.
    fn by(mut command: Command, what: &str, count: usize) -> Self {
        let command = command.args([what, &count.to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut said)
            .unwrap();
        assert_eq!(said, "ready\n");
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The process id of the program where this is a command that has started it.
    fn inner_pid(&self) -> String {
        let started = children(&[self.pid()]);
        let [inner] = &started[..] else {
            panic!("not one child: {started:?}")
        };
        inner.clone()
    }

    /// The command that observes it until something else ends that.
    fn observer(&self, dir: &Path) -> Child {
        let often = ["--for", "1h", "--interval", "100ms", "--json"];
        piped(dir, &[&["observe", &*self.pid()], &often[..]].concat())
    }

    /// What is said of it once all of these verdicts hold.
    fn observed(&self, arguments: &[&str], verdicts: &[&str]) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pid = self.pid();
            let seen = observed(&[&[&*pid], arguments].concat());
            let kinds = kinds(&seen);
            if verdicts.iter().all(|wanted| kinds.contains(wanted)) {
                return seen;
            }
            assert!(
                Instant::now() < deadline,
                "no {verdicts:?} in {kinds:?}: {seen:#}"
            );
        }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the command says as JSON.
fn observed(arguments: &[&str]) -> Value {
    json(&observe(arguments))
}

fn observe(arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    threadgauge(dir.path(), &[&["observe", "--json"], arguments].concat())
}

/// How a program is started with users, processes and mounts of its own, as in a container.
const CONTAINED: [&str; 7] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child",
];

/// Whether it can be.
#[allow(clippy::print_stderr, reason = "it says why it is skipped")]
fn can_be_contained() -> bool {
    let [unshare, options @ ..] = CONTAINED;
    let tried = Command::new(unshare).args(options).arg("true").output();
    let can = tried.is_ok_and(|tried| tried.status.success());
    if !can {
        eprintln!("skipped: no namespaces of its own can be made for a program here");
    }
    can
}

/// What a command that observes goes on to say once it has seen something.
fn has_looked(observer: &mut Child) -> BufReader<ChildStderr> {
    let mut said = BufReader::new(observer.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(" CPUs · ") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it has seen nothing");
    }
    said
}

fn kinds(seen: &Value) -> Vec<&str> {
    let verdicts = seen["verdicts"].as_array().unwrap();
    verdicts
        .iter()
        .map(|verdict| verdict["kind"].as_str().unwrap())
        .collect()
}

fn group<'a>(seen: &'a Value, name: &str) -> &'a Value {
    let groups = seen["groups"].as_array().unwrap();
    let found = groups.iter().find(|group| group["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {groups:#?}"))
}

fn share(unit: &Value, of: &str) -> f64 {
    unit[of].as_f64().unwrap_or_else(|| panic!("no {of}: {unit}"))
}

/// The share of the time for which it waited like that; of a user who may not see it, for something not known.
fn waits(seen: &Value, unit: &Value, kind: &str) -> f64 {
    let is_hidden = seen["not_known"]
        .as_array()
        .unwrap()
        .iter()
        .any(|lack| lack.as_str().is_some_and(|lack| lack.contains("system calls")));
    let unknown = match is_hidden {
        true => share(&unit["waits"], "unknown") + share(&unit["waits"], "other"),
        false => 0.0,
    };
    share(&unit["waits"], kind) + unknown
}

const SHORT: [&str; 4] = ["--for", "2s", "--interval", "200ms"];

#[test]
fn a_burner_is_bound_by_the_cpu() {
    let known = Known::start("burn", 1);
    let seen = known.observed(&SHORT, &["cpu_bound"]);
    let burn = group(&seen, "burn-1");
    assert!(
        share(burn, "running") + share(burn, "waiting_for_cpu") > 0.9,
        "{burn:#}"
    );
    assert!(
        share(group(&seen, "observed"), "waiting") > 0.9,
        "its main thread reads"
    );
    assert!(seen["own"]["cpu_share"].as_f64().unwrap() > 0.0);
    assert_eq!(
        (&seen["ending"], &seen["pid"].to_string()),
        (&"time".into(), &known.pid())
    );
    if allowed_cpus().unwrap().len() > 1 {
        let seen = known.observed(&SHORT, &["cpu_bound", "one_thread"]);
        assert!(!kinds(&seen).contains(&"lock_bound"), "{seen:#}");
    }
}

#[test]
fn sleepers_wait_for_a_time() {
    let known = Known::start("sleep", 3);
    let seen = known.observed(&SHORT, &["waiting", "idle"]);
    let sleepers = group(&seen, "sleeper-*");
    assert!(waits(&seen, sleepers, "sleep") > 0.9, "{sleepers:#}");
    assert_eq!(sleepers["threads"], 3);
    assert!(
        share(sleepers, "given_cpu_per_s") > 10.0,
        "three wake twenty times a second: {sleepers:#}"
    );
}

#[test]
fn threads_that_fight_for_a_lock_go_one_at_a_time() {
    // With one CPU one at a time goes on anyway.
    if allowed_cpus().unwrap().len() == 1 {
        return;
    }
    let known = Known::start("lock", 4);
    let seen = known.observed(&SHORT, &["lock_bound"]);
    let fight = group(&seen, "fight-*");
    assert!(waits(&seen, fight, "futex") > 0.4, "{fight:#}");
}

#[test]
fn a_pool_without_work_is_larger_than_needed() {
    let known = Known::start("pool", 8);
    let seen = known.observed(&["--for", "4s"], &["pool_too_large", "idle"]);
    let workers = group(&seen, "worker-*");
    assert_eq!(
        (&workers["threads"], &workers["most_used"]),
        (&8.into(), &0.into())
    );
    assert!(waits(&seen, workers, "futex") > 0.99, "{workers:#}");
    let of = |seen: &Value, kind: &str| {
        let verdicts = seen["verdicts"].as_array().unwrap();
        verdicts
            .iter()
            .find(|verdict| verdict["kind"] == kind)
            .cloned()
            .unwrap()
    };
    assert!(
        of(&seen, "idle")["doubt"]
            .as_str()
            .unwrap()
            .contains("/proc cannot tell")
    );
}

#[test]
fn four_times_as_many_burners_as_cpus_are_too_many() {
    let known = Known::start("burn", 4 * allowed_cpus().unwrap().len());
    let seen = known.observed(&SHORT, &["oversubscribed"]);
    let burn = group(&seen, "burn-*");
    assert!(share(burn, "waiting_for_cpu") > 0.5, "{burn:#}");
}

#[test]
fn one_hot_thread_among_two_hundred_is_named() {
    if allowed_cpus().unwrap().len() == 1 {
        return;
    }
    let known = Known::start("hot", 200);
    let seen = known.observed(&["--for", "4s"], &["one_thread", "pool_too_large"]);
    let says = seen["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|verdict| verdict["kind"] == "one_thread");
    assert!(
        says.unwrap()["says"]
            .as_str()
            .unwrap()
            .starts_with("Thread `hot` ("),
        "{says:?}"
    );
    assert_eq!(seen["thread_count"], 201);
    assert_eq!(seen["threads"][0]["name"], "hot");
}

#[test]
#[allow(clippy::print_stderr, reason = "it says why it is skipped")]
fn a_program_that_a_quota_throttles_says_so() {
    let group = match Group::new("observed", vec![cpu_percent(10)]) {
        Ok(group) => group,
        Err(error) => {
            eprintln!("skipped: no control group can be made here: {error}");
            return;
        }
    };
    let known = Known::by(group.command(program().to_str().unwrap(), &[]), "burn", 2);
    let seen = known.observed(&SHORT, &["throttled"]);
    assert_eq!(seen["capacity"]["quota"], 0.1);
    assert!(!kinds(&seen).contains(&"oversubscribed"), "{seen:#}");
    let quota = &seen["quotas"][0];
    assert!(
        share(quota, "throttled_periods") >= 2.0 && share(quota, "throttled_s") > 0.0,
        "{quota}"
    );
}

#[test]
fn a_process_in_a_container_is_observed_by_its_id_here_and_that_is_said() {
    if !can_be_contained() {
        return;
    }
    let [unshare, options @ ..] = CONTAINED;
    let mut command = Command::new(unshare);
    command.args(options).arg(program());
    let known = Known::by(command, "sleep", 2);
    let pid = known.inner_pid();
    let seen = observed(&[&[&*pid], &SHORT[..]].concat());
    assert_eq!(
        (seen["pid"].to_string(), &seen["name"]),
        (pid, &"observed".into())
    );
    assert_eq!(group(&seen, "sleeper-*")["threads"], 2);
    assert!(waits(&seen, group(&seen, "sleeper-*"), "sleep") > 0.9, "{seen:#}");
    assert!(
        seen["not_known"].to_string().contains("in a container"),
        "{seen:#}"
    );
    // From outside it is a part of what has started it, whatever numbers it has inside.
    let seen = observed(&[&[&*known.pid()], &SHORT[..]].concat());
    assert_eq!(group(&seen, "sleeper-*")["threads"], 2);
}

#[test]
#[allow(clippy::print_stderr, reason = "it says why it is skipped")]
fn what_is_advised_like_a_process_in_a_container_is_for_its_quota_and_its_cpus() {
    let contained = match Group::new("contained", vec![cpu_percent(50)]) {
        Ok(group) => group,
        Err(error) => {
            eprintln!("skipped: no control group can be made here: {error}");
            return;
        }
    };
    if !can_be_contained() {
        return;
    }
    let one = allowed_cpus().unwrap().first(1).to_string();
    let program = program().to_str().unwrap();
    let words = [&["--cpu-list", &*one], &CONTAINED[..], &[program]].concat();
    let known = Known::by(contained.command("taskset", &words), "sleep", 3);
    let pid = known.inner_pid();
    let dir = tempfile::tempdir().unwrap();
    // As many as its three threads wake.
    let output = threadgauge(
        dir.path(),
        &["advise", "--like", &pid, "--rate", "60/s", "--json"],
    );
    let advice = json(&output);
    assert_eq!(advice["machine"]["cpus"], 1.0);
    assert_eq!(advice["machine"]["quota"], 0.5);
    let assumed = advice["workload"]["assumed"].to_string();
    for part in [
        "the process may use 0.5 CPUs: a quota of its control group",
        "of CPU time, as observed (--cpu)",
        "idle and blocked look alike (--wait)",
    ] {
        assert!(assumed.contains(part), "no {part} in {assumed}");
    }
    let [low, high] = [0_usize, 1].map(|end| advice["workload"]["uncertain"]["cpu"][end].as_f64().unwrap());
    assert!(0.0 < low && low < 1.0 && 1.0 < high, "{low} {high}");
    // Whether its threads sleep or wait for others cannot be told, and four of them are there.
    let undecided = advice["undecided"].as_str().unwrap();
    assert!(undecided.contains("of waiting for each task: "), "{undecided}");
}

/// What is advised like sleepers where something ends observing them once they were seen, and within ten seconds.
fn advised_until(ends: impl FnOnce(&Child, &mut Known), more: &[&str], code: i32) -> Value {
    let mut known = Known::start("sleep", 3);
    let dir = tempfile::tempdir().unwrap();
    let pid = known.pid();
    let words = ["advise", "--like", &pid, "--rate", "60/s", "--json"];
    let mut observer = piped(dir.path(), &[&words[..], more].concat());
    let mut said = has_looked(&mut observer);
    ends(&observer, &mut known);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let output = observer.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{rest}");
    json_of(&output, code)
}

#[test]
fn after_ctrl_c_what_was_seen_is_advised_like_and_nothing_is_measured() {
    let advice = advised_until(|observer, _| send_signal(observer, "-INT"), &["--measure"], 130);
    let assumed = advice["workload"]["assumed"].to_string();
    for part in [
        "observing was interrupted: it took ",
        "of CPU time, as observed (--cpu)",
    ] {
        assert!(assumed.contains(part), "no {part} in {assumed}");
    }
    assert_eq!(advice["measured"], Value::Null);
}

#[test]
fn what_is_advised_like_a_process_that_ends_says_so() {
    // It ends with its standard input.
    let advice = advised_until(|_, known| drop(known.0.stdin.take()), &[], 0);
    let assumed = advice["workload"]["assumed"].to_string();
    assert!(
        assumed.contains("the process has ended: it was observed for "),
        "{assumed}"
    );
}

#[test]
fn a_process_that_ends_while_it_is_observed_is_told_until_then() {
    let mut known = Known::start("sleep", 1);
    let dir = tempfile::tempdir().unwrap();
    let mut observer = known.observer(dir.path());
    let mut said = BufReader::new(observer.stderr.take().unwrap());
    let mut line = String::new();
    // It has begun; and some looks.
    for _ in 0..3 {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0);
    }
    // Its standard input ends, and so does it.
    drop(known.0.stdin.take());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let seen = json(&observer.wait_with_output().unwrap());
    assert_eq!(
        (&seen["ending"], &seen["exit"]),
        (&"process_ended".into(), &Value::Null)
    );
    assert!(seen["looks"].as_u64().unwrap() >= 2, "{seen:#}");
}

#[test]
fn ctrl_c_ends_with_the_report_and_changes_nothing() {
    let known = Known::start("sleep", 1);
    let dir = tempfile::tempdir().unwrap();
    let mut observer = known.observer(dir.path());
    let mut said = has_looked(&mut observer);
    send_signal(&observer, "-INT");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let seen = json_of(&observer.wait_with_output().unwrap(), 130);
    assert_eq!(seen["ending"], "interrupted");
    let status = fs::read_to_string(format!("/proc/{}/status", known.pid())).unwrap();
    assert!(
        status.contains("TracerPid:\t0") && status.contains("State:\tS"),
        "{status}"
    );
}

#[test]
fn a_command_is_observed_with_all_that_it_starts_until_its_end() {
    // The shell that starts others is not to put in what they count.
    let script = r"i=0; while [ \$i -lt 300000 ]; do i=\$((i+1)); done";
    let command = format!("sh -c 'echo heard; sh -c \"{script}\"; sh -c \"{script}\"; exit 3'");
    let output = observe(&["--command", &command, "--interval", "100ms"]);
    let seen = json(&output);
    assert_eq!(
        (&seen["ending"], &seen["exit"]["code"]),
        (&"process_ended".into(), &3.into())
    );
    assert!(seen["exit"]["cpu_s"].as_f64().unwrap() > 0.0);
    assert!(
        text(&output.stderr).contains("heard\n"),
        "what it prints is no result"
    );
    assert_eq!(seen["command"], command);
}

#[test]
fn what_cannot_be_observed_is_named() {
    let said = refused(&["observe", "--command", "/no/such/program"]);
    assert!(said.contains("`/no/such/program` cannot be started"), "{said}");
    let said = refused(&["observe", "--command", "sh -c 'a"]);
    assert!(said.contains("a quote is open"), "{said}");
    for none in ["-1", "0", "nginx"] {
        let said = refused(&["observe", none]);
        assert!(said.contains("which `pgrep -n NAME` finds"), "{said}");
    }
    // Process ids end below this.
    let said = refused(&["observe", "1073741824"]);
    assert!(said.contains("there is no process 1073741824"), "{said}");
    let mut zombie = Command::new("true").spawn().unwrap();
    let pid = zombie.id().to_string();
    let stat = format!("/proc/{pid}/stat");
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        assert!(Instant::now() < deadline, "it has nothing to do");
    }
    let said = refused(&["observe", &pid]);
    assert!(said.contains("has ended and waits for its parent"), "{said}");
    zombie.wait().unwrap();
    let said = refused(&["observe", "1", "--counter", "http://127.0.0.1:1/metrics#a"]);
    assert!(
        said.contains("http://127.0.0.1:1/metrics cannot be read"),
        "{said}"
    );
    let said = refused(&["observe", "1", "--log", "nowhere.log"]);
    assert!(said.contains("nowhere.log cannot be read"), "{said}");
    let said = refused(&["observe", "1", "--interval", "1ms"]);
    assert!(said.contains("100ms to 1h"), "{said}");
}

#[test]
#[allow(clippy::print_stderr, reason = "it says why it is skipped")]
fn of_another_users_process_what_can_be_read_is_told_and_the_rest_is_named() {
    const NOBODY: u32 = 65_534;
    let known = Known::start("sleep", 2);
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadgauge"));
        command.uid(NOBODY).gid(NOBODY).args(arguments).current_dir("/");
        command.stdin(Stdio::null()).output()
    };
    if let Err(error) = as_nobody(&["--version"]) {
        eprintln!("skipped: the command cannot be run as another user here: {error}");
        return;
    }
    let pid = known.pid();
    let all = [&["observe", &*pid, "--json"], &SHORT[..]].concat();
    let output = as_nobody(&all).unwrap();
    if output.status.code() == Some(2) {
        // Where /proc is mounted so, nothing is told, and it is said why.
        let said = text(&output.stderr);
        assert!(said.contains("hidepid"), "{said}");
        return;
    }
    let seen = json(&output);
    let not_known = seen["not_known"].to_string();
    assert!(
        not_known.contains("system calls") && not_known.contains("reads and writes"),
        "{not_known}"
    );
    assert_eq!(group(&seen, "sleeper-*")["threads"], 2);
    assert!(share(&seen["all"], "waiting") > 0.9);
}

#[test]
fn a_task_has_its_cpu_time_by_a_rate_a_page_and_a_log() {
    let known = Known::start("burn", 1);
    let pid = known.pid();
    let long = ["--for", "4s", "--interval", "100ms"];
    let cpu_ns = |seen: &Value| {
        seen["task"]["cpu"]["ns"]
            .as_f64()
            .unwrap_or_else(|| panic!("{seen:#}"))
    };
    let seen = observed(&[&[&*pid, "--rate", "1000"], &long[..]].concat());
    let per_task = seen["cpus"].as_f64().unwrap() * 1e9 / 1e3;
    assert!(
        (cpu_ns(&seen) / per_task - 1.0).abs() < 0.05,
        "{per_task} {:#}",
        seen["task"]
    );
    assert!(seen["task"]["cpu"]["ci95_ns"].is_array(), "{:#}", seen["task"]);
    // A page on which a hundred more are done each time that it is asked for.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let page = format!("http://{}/metrics#done_total", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (asked, client) in listener.incoming().map_while(Result::ok).enumerate() {
            let mut client = client;
            let mut request = [0; 1024];
            let _ = client.read(&mut request);
            let _ = write!(client, "HTTP/1.0 200 OK\r\n\r\ndone_total {}\n", 100 * asked);
        }
    });
    let seen = observed(&[&[&*pid, "--counter", &page], &SHORT[..]].concat());
    // One at its first look, and one more at each that follows.
    let looks = seen["looks"].as_f64().unwrap();
    assert_eq!(seen["task"]["tasks"], 100.0 * (looks - 1.0), "{seen:#}");
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    fs::write(&log, "before\n").unwrap();
    let arguments = [
        &["observe", &*pid, "--json", "--log", log.to_str().unwrap()],
        &SHORT[..],
    ]
    .concat();
    let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
    let mut observer = piped(dir.path(), &arguments);
    let mut said = BufReader::new(observer.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(said.any(|line| line.contains(" CPUs · ")));
    file.write_all(b"one\ntwo\nthree\n").unwrap();
    said.for_each(drop);
    let seen = json(&observer.wait_with_output().unwrap());
    assert_eq!(seen["task"]["tasks"], 3.0, "{seen:#}");
}

#[test]
fn a_results_folder_has_the_page_with_the_course() {
    let known = Known::start("sleep", 2);
    let dir = tempfile::tempdir().unwrap();
    let pid = known.pid();
    let arguments = [&["observe", &*pid, "--out", "r"], &SHORT[..]].concat();
    let output = threadgauge(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for part in [
        "Waiting for others: ",
        "By group of threads",
        "The busiest threads",
        "Observing took ",
    ] {
        assert!(shown.contains(part), "no {part} in\n{shown}");
    }
    let page = fs::read_to_string(dir.path().join("r/report.html")).unwrap();
    assert!(page.contains("Why is this program as fast as it is?") && page.contains("sleeper-*"));
    let again = threadgauge(dir.path(), &arguments);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("already holds results"),
        "{}",
        text(&again.stderr)
    );
    let resumed = threadgauge(dir.path(), &["run", "--resume", "r"]);
    assert!(
        text(&resumed.stderr).contains("holds what was observed"),
        "{}",
        text(&resumed.stderr)
    );
}

#[test]
fn on_a_terminal_a_table_fits_into_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let command = ["observe", "--command", "sleep 1", "--interval", "200ms"];
    let (status, drawn) = on_a_terminal("xterm", 60, dir.path(), &command);
    assert!(status.success(), "{drawn}");
    assert!(drawn.contains("waiting for a CPU"), "{drawn:?}");
}
