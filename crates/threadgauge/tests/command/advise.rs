//! `advise` as a user has it: the questions of the documents, bad input, a twin measured.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use serde_json::Value;

use super::terminal::{terminal, written};
use super::{command, text, threadgauge};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Each `$ threadgauge advise …` of a page, with the lines that are shown below it.
fn shown(page: &str) -> Vec<(String, Vec<String>)> {
    let blocks = page.split("```console\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split_once("\n```").map(|(block, _)| block));
    let of_advise = blocks.filter_map(|block| {
        let mut lines = block.lines();
        let mut command = lines.next()?.strip_prefix("$ threadgauge advise ")?.to_owned();
        while let Some(begin) = command.strip_suffix('\\') {
            command = format!("{begin}{}", lines.next()?.trim_start());
        }
        Some((command, lines.map(str::to_owned).collect()))
    });
    of_advise.collect()
}

/// Whether these lines are shown as they are; `…` stands for any that are left out.
fn is_as_shown(lines: &[String], printed: &[&str]) -> bool {
    match lines.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "…" => {
            (0..=printed.len()).any(|at| is_as_shown(rest, &printed[at..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, printed)| line == first && is_as_shown(rest, printed)),
    }
}

#[test]
fn what_the_documents_show_is_what_is_printed() {
    let (mut seen, mut drawn) = (0, 0);
    let dir = tempfile::tempdir().unwrap();
    for page in ["README.md", "docs/decide.md"] {
        let page_text = fs::read_to_string(root().join(page)).unwrap();
        for (command, lines) in shown(&page_text) {
            seen += 1;
            let mut words = vec!["advise".to_owned()];
            words.extend(shlex::split(&command).unwrap());
            let chart = words.iter().position(|word| word == "--chart").map(|at| at + 1);
            let name = chart.map(|at| {
                let here = dir.path().join(&words[at]).display().to_string();
                std::mem::replace(&mut words[at], here)
            });
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = threadgauge(root(), &words);
            assert!(
                output.status.success(),
                "{page}: {command}: {}",
                text(&output.stderr)
            );
            let printed = text(&output.stdout);
            let printed: Vec<&str> = printed.lines().collect();
            assert!(
                is_as_shown(&lines, &printed),
                "{page}: {command} prints\n{}",
                printed.join("\n")
            );
            if let Some(name) = name {
                drawn += 1;
                let image = root().join("docs/images").join(&name);
                let is = fs::read_to_string(dir.path().join(&name)).unwrap();
                if std::env::var_os("UPDATE_GOLDEN").is_some() {
                    fs::write(&image, &is).unwrap();
                }
                let said = format!("{page}: {command}: UPDATE_GOLDEN=1 writes docs/images/{name} anew");
                assert!(fs::read_to_string(&image).is_ok_and(|was| was == is), "{said}");
                assert!(
                    page_text.contains(&format!("(images/{name})")),
                    "{page} shows {name}"
                );
            }
        }
    }
    assert!(seen >= 4 && drawn >= 3, "{seen} {drawn}");
}

#[test]
fn one_chart_of_a_run_is_printed_and_one_that_is_not_there_is_refused_with_those_that_are() {
    let chart = |name| threadgauge(root(), &["report", "runs/2026-11-24-standard", "--chart", name]);
    let printed = text(&chart("server-designs/stevens").stdout);
    assert!(
        printed.starts_with("<svg") && printed.ends_with("</svg>\n"),
        "{printed}"
    );
    assert!(
        printed.contains("prethreaded-acceptor") && printed.contains("threadgauge 0."),
        "{printed}"
    );
    for (name, there) in [
        ("server-designs/x", "server-designs/cpu, "),
        ("x", "ring/…, "),
        ("x/y", "ring/…, "),
    ] {
        let refused = chart(name);
        assert_eq!(refused.status.code(), Some(2));
        let said = text(&refused.stderr);
        assert!(
            said.contains("no such chart; there are") && said.contains(there),
            "{said}"
        );
    }
}

#[test]
fn a_chart_that_cannot_be_drawn_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |words: &str| {
        let words: Vec<&str> = ["advise"].into_iter().chain(words.split(' ')).collect();
        let output = threadgauge(dir.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        text(&output.stderr)
    };
    let said = refused("--tasks 9 --cpu 1ms --chart x.png");
    assert!(said.contains("x.png: the chart is SVG"), "{said}");
    let said = refused("--tasks 9 --cpu 1ms --chart nowhere/x.svg");
    assert!(said.contains("cannot write nowhere/x.svg"), "{said}");
    let said = refused("--connections 9 --messages 6/min --chart x.svg");
    assert!(said.contains("no number at once"), "{said}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_page_that_shows_something_else_is_noticed() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(is_as_shown(&lines("a … d"), &["a", "b", "c", "d"]));
    assert!(is_as_shown(&lines("a …"), &["a"]));
    assert!(!is_as_shown(&lines("a c"), &["a", "b"]));
    assert!(!is_as_shown(&lines("a … c"), &["a", "b"]));
    assert!(!is_as_shown(&lines("a"), &["a", "b"]));
}

#[test]
fn a_workload_that_makes_no_sense_says_which_field_and_an_example() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |words: &[&str]| {
        let output = threadgauge(dir.path(), &[&["advise"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        text(&output.stderr)
    };
    assert!(refused(&[]).contains("--rate 1000/h"));
    assert!(refused(&["--tasks", "5"]).contains("--cpu 200ms"));
    assert!(refused(&["--tasks", "5", "--rate", "1/s", "--cpu", "1s"]).contains("contradict"));
    assert!(refused(&["--tasks", "5", "--cpu=-1s"]).contains("--cpu"));
    for below in [
        "--cpu -1s --tasks 5",
        "--tasks -3 --cpu 1s",
        "--rate -1/s --cpu 1s",
        "--quota -1 --tasks 5 --cpu 1s",
    ] {
        let words: Vec<&str> = below.split(' ').collect();
        let said = refused(&words);
        assert!(
            said.contains(words[0]) && said.contains(words[1]) && !said.contains("unexpected"),
            "{below}: {said}"
        );
    }
    assert!(refused(&["--tasks", "0", "--cpu", "1s"]).contains("--tasks"));
    assert!(refused(&["--tasks", "5", "--cpu", "1s", "--quota", "0"]).contains("--quota 1.5"));
    assert!(
        refused(&["--tasks", "5", "--cpu", "1s", "--cpu-count", "2", "--quota", "3"])
            .contains("no more than 2 CPUs can be used")
    );
    assert!(refused(&["--tasks", "5", "--cpu", "1s", "--quota", "0.005"]).contains("no less than 0.01"));
    assert!(refused(&["--tasks", "5", "--cpu", "1s", "--cpu-count", "8193"]).contains("8192 CPUs at most"));
    assert!(refused(&["--tasks", "99999999999999", "--cpu", "1s"]).contains("the most is 1,000,000M"));
    for time in ["--cpu", "--wait", "--goal"] {
        let said = refused(&["--rate", "5/s", time, "200"]);
        assert!(
            said.contains(time) && said.contains("`200` of what? Say 200ms or 200s"),
            "{said}"
        );
    }
    assert!(refused(&["--tasks", "5", "--cpu", "1s", "--program", "apache"]).contains("gunicorn"));
    assert!(refused(&["--tasks", "5", "--cpu", "1s", "--from", "nowhere"]).contains("nowhere"));
    assert!(refused(&["--like", "1"]).contains("--rate"));
    fs::write(dir.path().join("w.toml"), "ratte = \"5/s\"\n").unwrap();
    let unknown = refused(&["--file", "w.toml"]);
    assert!(
        unknown.contains("w.toml") && unknown.contains("--rate"),
        "{unknown}"
    );
    fs::write(dir.path().join("w.toml"), "foo = false\n").unwrap();
    let unknown = refused(&["--file", "w.toml"]);
    assert!(
        unknown.contains("w.toml") && unknown.contains("--foo"),
        "{unknown}"
    );
}

#[test]
fn a_rate_for_a_process_may_be_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("w.toml"), "rate = \"50/s\"\n").unwrap();
    // There is no such process; with the rate it is looked for.
    let said = |file: &[&str]| {
        let words = [&["advise", "--like", "999999999"], file].concat();
        let output = threadgauge(dir.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{file:?}");
        text(&output.stderr)
    };
    assert!(said(&[]).contains("--rate 50/s"), "{}", said(&[]));
    let with_rate = said(&["--file", "w.toml"]);
    assert!(!with_rate.contains("--rate 50/s"), "{with_rate}");
}

#[test]
fn a_file_and_flags_are_one_workload_and_json_has_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("w.toml"),
        "rate = \"1000/h\"\ncpu = \"200ms\"\nwait = \"30ms\"\n",
    )
    .unwrap();
    let words = [
        "advise",
        "--file",
        "w.toml",
        "--cpu-count",
        "2",
        "--now",
        "4",
        "--json",
    ];
    let output = threadgauge(dir.path(), &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let at = |pointer: &str| {
        json.pointer(pointer)
            .unwrap_or_else(|| panic!("{pointer}: {json:#}"))
    };
    assert_eq!(at("/matters/does"), false);
    assert_eq!(at("/advised/candidate/design"), "serial");
    assert_eq!(at("/workload/now"), 4);
    assert_eq!(at("/measured"), &Value::Null);
    // There is no run in an empty folder, and it says so.
    assert!(
        at("/costs")
            .as_str()
            .unwrap()
            .contains("No run of this machine is here")
    );
}

/// Advice as JSON, in a folder without a run.
fn advice(file: &str, words: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("w.toml"), file).unwrap();
    let words = ["advise", "--file", "w.toml", "--json"]
        .into_iter()
        .chain(words.split(' '));
    let output = threadgauge(dir.path(), &words.collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_str(&text(&output.stdout)).unwrap()
}

#[test]
fn a_file_says_the_machine_and_the_program_and_flags_win() {
    let file = "rate = \"40/s\"\ncpu = \"25ms\"\nwait = \"20ms\"\nlanguage = \"python\"\ncpu-count = 96\nquota = 1.5\n\
                memory-limit = \"1GiB\"\nprogram = \"gunicorn\"\n";
    let json = advice(file, "--memory-limit 2GiB");
    assert_eq!(json["machine"]["cpus"], 96.0);
    assert_eq!(json["machine"]["quota"], 1.5);
    assert_eq!(json["machine"]["memory_bytes"], 2_147_483_648.0);
    assert_eq!(json["settings"][0]["program"], "gunicorn");
}

#[test]
fn settings_are_those_of_the_design_that_is_advised() {
    let settings = |json: &Value| -> Vec<(String, Option<u64>)> {
        let all = json["settings"].as_array().unwrap().iter();
        all.map(|setting| {
            let name = setting["setting"].as_str().unwrap().to_owned();
            (name, setting["value"].as_u64())
        })
        .collect()
    };
    let container = "rate = \"40/s\"\ncpu = \"25ms\"\nwait = \"20ms\"\nlanguage = \"python\"\n\
                     cpu-count = 96\nquota = 1.5\n";
    let json = advice(container, "--program gunicorn");
    let advised = &json["advised"]["candidate"];
    assert_eq!(advised["design"], "processes");
    let processes = advised["at_once"].as_u64();
    assert!(processes > Some(1), "{advised}");
    assert_eq!(
        settings(&json),
        [
            ("--workers".to_owned(), processes),
            ("--threads".to_owned(), Some(1))
        ]
    );
    let json = advice("connections = 5000\ncpu-count = 4", "--program gunicorn");
    assert_eq!(json["advised"]["candidate"]["design"], "loops");
    assert_eq!(settings(&json), [(String::new(), None)]);
    let says = json["settings"][0]["says"].as_str().unwrap();
    assert!(says.starts_with("gunicorn has no setting for"), "{says}");
}

/// What the command writes on a terminal on which somebody types these lines and then ends the input, and how it ends.
fn typed(dir: &Path, arguments: &[&str], lines: &str) -> (ExitStatus, String) {
    let (mut ours, theirs) = terminal(80);
    // The terminal keeps them until they are read; Ctrl-D is the end.
    ours.write_all(format!("{lines}\u{4}").as_bytes()).unwrap();
    let mut command = command(dir, arguments);
    command
        .env("TERM", "xterm")
        .stdin(Stdio::from(theirs.try_clone().unwrap()))
        .stdout(Stdio::from(theirs.try_clone().unwrap()))
        .stderr(Stdio::from(theirs));
    written(command, ours)
}

#[test]
fn on_a_terminal_values_alone_are_answers_and_a_wrong_one_is_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let answers = "many\n500\n0\n200\n--wait 120ms\n";
    let (status, written) = typed(dir.path(), &["advise"], answers);
    assert!(status.success(), "{written}");
    assert!(written.contains("What to do:"), "{written}");
    // After `many` once more; after 0, which contradicts, and 200, which has no unit, twice more.
    assert_eq!(
        written.matches("how many tasks are there").count(),
        2,
        "{written}"
    );
    assert_eq!(written.matches("how much CPU time does").count(), 3, "{written}");
    assert!(written.contains("neither"), "{written}");
    let (status, written) = typed(dir.path(), &["advise"], "500\n");
    assert_eq!(status.code(), Some(2), "{written}");
    assert!(written.contains("no answer"), "{written}");
}

#[test]
fn a_twin_is_measured_and_kept_as_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "advise",
        "--tasks",
        "6",
        "--cpu",
        "300us",
        "--wait",
        "3ms",
        "--measure",
        "--rounds",
        "2",
        "--out",
        "twin",
        "--json",
    ];
    let output = threadgauge(dir.path(), &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let ways = json.pointer("/measured/ways").and_then(Value::as_array).unwrap();
    assert!(ways.len() >= 2, "{ways:?}");
    for way in ways {
        assert!(way["measured_s"].as_f64().unwrap() >= 0.003, "{way}");
        assert!(way["predicted_s"].as_f64().unwrap() >= 0.003, "{way}");
    }
    assert!(dir.path().join("twin/report.html").exists());
    // There was no run: what units cost was measured first, and whoever asks next has it.
    let costs = |json: &Value| json["costs"].as_str().unwrap().to_owned();
    assert!(
        costs(&json).starts_with("Costs are those of run"),
        "{}",
        costs(&json)
    );
    assert!(
        text(&output.stderr).contains("measured first"),
        "{}",
        text(&output.stderr)
    );
    let again = threadgauge(dir.path(), &[&words[..7], &["--json"]].concat());
    let json: Value = serde_json::from_str(&text(&again.stdout)).unwrap();
    // Where other tests compute meanwhile, its figures are not taken, and that is said.
    let says = costs(&json);
    assert!(
        says.starts_with("Costs are those of run") || says.contains("disturbed by other programs"),
        "{says}"
    );
    let elsewhere = [&words[..8], &["--cpu-count", "64"]].concat();
    let refused = threadgauge(dir.path(), &elsewhere[..]);
    assert!(
        text(&refused.stderr).contains("measures this machine"),
        "{}",
        text(&refused.stderr)
    );
}
