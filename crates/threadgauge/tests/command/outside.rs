//! What comes from outside: folders that others made, and places in which little is allowed.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::Mode;
use threadgauge_results::outside::steers;
use threadgauge_results::{
    Metric, Params, RunRecord, STORE_FILE, Sample, Status, Store, StoredCase, StoredExperiment, StoredSample,
};

use super::serve::served;
use super::terminal::on_a_terminal;
use super::{Slow, json, refused, text, threadgauge, tiny};

const COMMAND: &str = env!("CARGO_BIN_EXE_threadgauge");

/// Would set the title of a window, clear it, and be an error of a build.
const WORDS: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\n::error::owned\n##[error]owned";

/// A run of one case, named by `words`; of so many rounds, of which all fail where `failed` says why.
fn begun(dir: &Path, experiment: &str, words: &str, failed: Option<&str>) -> Store {
    let record = RunRecord {
        id: format!("id{words}"),
        started: "2026-11-21T09:12:44Z".to_owned(),
        profile: "quick".to_owned(),
        seed: 1,
        version: format!("0.1.0{words}"),
        rounds: Some(7),
        cpus: vec![0],
        handicap_percent: 0,
        options: vec![words.to_owned()],
        in_turns_with: None,
        each: None,
        runtimes: Vec::new(),
    };
    let params = Params::new().with("what", format!("clock{words}").as_str());
    let case = params.case_id(experiment);
    let plan = [StoredExperiment {
        id: experiment.to_owned(),
        reference: None,
        stopped_because: Some(format!("rounds{words}")),
        cases: vec![StoredCase {
            id: case.clone(),
            params,
            estimate_ms: 1,
            skip: None,
        }],
    }];
    let machine = serde_json::json!({"cpu_model": format!("model{words}")});
    let mut store = Store::create(dir, &record, &machine, &plan).unwrap();
    for round in 1..=7 {
        let sample = match failed {
            Some(why) => Sample::without_figures(Status::Failed, why),
            None => Sample {
                metrics: vec![Metric {
                    name: "call_ns".to_owned(),
                    unit: "ns".to_owned(),
                    value: 20.0 + f64::from(round),
                }],
                ..Sample::without_figures(Status::Ok, "")
            },
        };
        store
            .add(&StoredSample {
                experiment: experiment.to_owned(),
                case: case.clone(),
                round,
                copy: 0,
                nth_try: 0,
                attempt: 0,
                gated: false,
                started: "2026-11-21T09:12:44Z".to_owned(),
                wall_ns: 1,
                sample,
            })
            .unwrap();
    }
    store
}

/// The same run with another seed: none that is there twice.
fn again(mut store: Store) -> Store {
    let run = store.run().unwrap();
    store.set_run(&RunRecord { seed: 2, ..run }).unwrap();
    store
}

/// Neither steers a terminal nor has a line that a build server takes for a command.
fn assert_harmless(output: &Output) {
    for said in [text(&output.stdout), text(&output.stderr)] {
        assert!(
            !said.contains(|c| steers(c) && c != '\n' && c != '\t'),
            "{said:?}"
        );
        assert!(
            said.lines()
                .all(|line| !line.trim_start().starts_with("::") && !line.contains("##[")),
            "{said:?}"
        );
    }
}

#[test]
fn no_word_of_a_folder_steers_a_terminal_or_a_build_server() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (format!("good{WORDS}"), format!("bad{}", WORDS.replace('/', "")));
    let other = format!("other{WORDS}");
    begun(&dir.path().join(&good), "null", WORDS, None)
        .close()
        .unwrap();
    again(begun(&dir.path().join(&other), "null", WORDS, None))
        .close()
        .unwrap();
    begun(
        &dir.path().join(&bad),
        "null",
        WORDS,
        Some(&format!("why{WORDS}")),
    )
    .close()
    .unwrap();
    begun(
        &dir.path().join("unknown"),
        &format!("an experiment{WORDS}"),
        WORDS,
        None,
    )
    .close()
    .unwrap();
    let said = |arguments: &[&str]| {
        let output = threadgauge(dir.path(), arguments);
        assert_harmless(&output);
        output
    };
    let gate = said(&["compare", &good, &bad, "--fail-on", "slower:5%"]);
    assert_eq!(gate.status.code(), Some(1));
    assert!(text(&gate.stderr).contains(": B has no figures of a case that A has"));
    said(&["compare", &good, &other, "--format", "markdown"]);
    json(&said(&["compare", &good, &other, "--json"]));
    json(&said(&["claims", &good, "--json"]));
    said(&["claims", &bad]);
    said(&["report", &good]);
    said(&["report", "unknown"]);
    said(&["report", &format!("none{WORDS}")]);
    said(&["run", "--resume", &good]);
    said(&["run", &format!("no experiment{WORDS}")]);
    let page = fs::read_to_string(dir.path().join(&good).join("report.html")).unwrap();
    assert!(!page.contains(|c| steers(c) && c != '\n' && c != '\t'));
}

#[test]
fn a_report_follows_no_link_that_stands_in_the_place_of_a_file() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = dir.path().join("r");
    begun(&folder, "null", "", None).close().unwrap();
    let own = elsewhere.path().join("own");
    fs::write(&own, "mine").unwrap();
    symlink(&own, folder.join("report.html")).unwrap();
    fs::hard_link(&own, folder.join("report.md")).unwrap();
    symlink(elsewhere.path().join("none"), folder.join("results.json")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("samples.csv"), Mode::RUSR).unwrap();
    // Nor where it is written before it is put in its place: the shell becomes the command.
    let beside =
        "for name in results.json report.html; do ln -sf \"$0\" \"r/.$name.$$.tmp\"; done; exec \"$@\"";
    for arguments in [&["report", "r"][..], &["report", "r", "--out", "r"]] {
        let mut shell = Command::new("sh");
        shell.args(["-c", beside]).arg(&own).arg(COMMAND).args(arguments);
        let output = shell.current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).lines().count(), 7);
    }
    assert_eq!(fs::read_to_string(&own).unwrap(), "mine");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    for file in fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()) {
        let is_beside = file.extension().is_some_and(|end| end == "tmp");
        assert!(
            is_beside || fs::symlink_metadata(&file).unwrap().is_file(),
            "{}",
            file.display()
        );
    }
}

#[test]
fn a_store_whose_table_is_a_view_is_none_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    begun(&dir.path().join("r"), "null", "", None).close().unwrap();
    let store = rusqlite::Connection::open(dir.path().join("r").join(STORE_FILE)).unwrap();
    store
        .execute_batch(
            "DROP TABLE look;
             CREATE VIEW look AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
               SELECT 'null' AS experiment, i AS rounds, i AS tries FROM n",
        )
        .unwrap();
    drop(store);
    for arguments in [
        &["report", "r"][..],
        &["claims", "r"],
        &["compare", "r", "nowhere"],
        &["run", "--resume", "r"],
    ] {
        // One that is read never ends.
        let mut command = Command::new("timeout");
        command.args(["60", COMMAND]).args(arguments);
        let output = command.current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains("is not a store of ours"),
            "{}",
            text(&output.stderr)
        );
    }
}

/// A run that has not ended, in another folder: a store and its log.
fn unfinished(to: &Path, seeded: impl Fn(Store) -> Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = seeded(begun(dir.path(), "null", "", None));
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    drop(store);
}

#[test]
fn a_run_that_has_not_ended_is_read_where_nothing_may_be_written() {
    let dir = tempfile::tempdir().unwrap();
    unfinished(&dir.path().join("r"), |store| store);
    unfinished(&dir.path().join("s"), again);
    let content = || -> Vec<_> {
        let files = fs::read_dir(dir.path().join("r")).unwrap();
        files
            .map(|file| file.unwrap().path())
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect()
    };
    let before = content();
    for arguments in [
        &["claims", "r"][..],
        &["compare", "r", "s"],
        &["report", "r", "--out", "elsewhere"],
    ] {
        let output = threadgauge(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(content(), before, "{arguments:?}");
    }
    fs::remove_file(dir.path().join("r").join(format!("{STORE_FILE}-wal"))).unwrap();
    let output = threadgauge(dir.path(), &["claims", "r"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("copy both files"),
        "{}",
        text(&output.stderr)
    );
}

/// A user who may have no second process or thread; nothing where nobody else may run the command.
#[allow(clippy::print_stderr, reason = "it says why it is skipped")]
fn with_one_thread(dir: &Path, arguments: &[&str]) -> Option<Output> {
    const NOBODY: u32 = 65_534;
    let as_nobody = |program: &str| {
        let mut command = Command::new(program);
        command.uid(NOBODY).gid(NOBODY).current_dir(dir);
        command
    };
    let given = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(dir)
        .status()
        .unwrap();
    let runs = as_nobody(COMMAND).arg("--version").output();
    if !given.success() || runs.is_err() {
        eprintln!("skipped: the command cannot be run as another user here");
        return None;
    }
    let mut shell = as_nobody("bash");
    shell.args(["-c", "ulimit -u 1 && exec \"$0\" \"$@\"", COMMAND]);
    Some(shell.args(arguments).output().unwrap())
}

#[test]
fn where_there_may_be_no_thread_the_workbook_is_missing_with_its_reason_and_all_else_is_there() {
    let dir = tempfile::tempdir().unwrap();
    begun(&dir.path().join("r"), "null", "", None).close().unwrap();
    // Of earlier figures, which it must not be taken for those of these.
    fs::write(dir.path().join("r/results.xlsx"), "old").unwrap();
    let Some(output) = with_one_thread(dir.path(), &["report", "r"]) else {
        return;
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(text(&output.stdout).lines().count(), 6, "{said}");
    assert!(
        said.contains("results.xlsx is missing: there may be no more threads"),
        "{said}"
    );
    assert!(!dir.path().join("r/results.xlsx").exists());
    let Some(output) = with_one_thread(dir.path(), &tiny("1", &["--out", "run"])) else {
        return;
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for file in [
        "results.json",
        "report.html",
        "samples.csv",
        "report.md",
        "report.svg",
        "report.png",
    ] {
        assert!(dir.path().join("run").join(file).exists(), "{file}: {said}");
    }
    assert!(said.contains("results.xlsx is missing"), "{said}");
}

/// Two classes of clients, of which each has a thread of its own.
#[test]
fn where_there_may_be_no_thread_a_load_says_so() {
    let server = served("echo");
    let dir = tempfile::tempdir().unwrap();
    let classes = "[class.a]\nkind = 'fast'\n[class.b]\nkind = 'idle'\n";
    for (workload, why) in [
        (classes.to_owned(), "thread"),
        (format!("monitor = ['sleep 1000']\n{classes}"), "monitor"),
    ] {
        fs::write(dir.path().join("mix.toml"), workload).unwrap();
        let load = [
            "load",
            "echo",
            "--target",
            &server.address,
            "-c",
            "2",
            "-d",
            "1s",
            "--workload",
            "mix.toml",
        ];
        let Some(output) = with_one_thread(dir.path(), &load) else {
            return;
        };
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && !said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_dumb_terminal_gets_no_colours_and_no_line_that_changes() {
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &'static str| tiny("1", &["--out", name]);
    let said = on_a_terminal("xterm", 80, dir.path(), &out("a")).1;
    assert!(said.contains('\u{1b}') && said.contains("round 1/1"), "{said:?}");
    let said = on_a_terminal("dumb", 80, dir.path(), &out("b")).1;
    assert!(
        said.contains("Results go to b") && !said.contains('\u{1b}'),
        "{said:?}"
    );
    assert!(
        !on_a_terminal("dumb", 80, dir.path(), &["claims"])
            .1
            .contains('\u{1b}')
    );
}

#[test]
fn a_seed_that_other_readers_of_json_would_read_as_another_is_refused() {
    for arguments in [
        &["run", "null", "--seed"][..],
        &["load", "echo", "--target", "1", "--seed"],
    ] {
        let said = refused(&[arguments, &["9007199254740992"]].concat());
        assert!(said.contains("9007199254740991"), "{said}");
    }
}

#[test]
fn a_folder_that_is_renamed_while_a_run_goes_on_is_said_to_be_and_not_made_again() {
    let mut slow = Slow::start();
    let (before, after) = (slow.folder(), slow.folder().with_file_name("renamed"));
    fs::rename(&before, &after).unwrap();
    slow.signal("-INT");
    let (code, said) = slow.end();
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("was moved or removed while the run went on"),
        "{said}"
    );
    assert!(!before.exists(), "{said}");
    let output = threadgauge(after.parent().unwrap(), &["report", "renamed"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
