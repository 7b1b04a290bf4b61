//! What is committed, against what this version says: stored runs analysed and compared again, and what `explain`,
//! `list` and the plans of the experiments say.
//!
//! A change that moves none of it has changed nothing that a user sees. One that is meant to: `cargo xtask golden`
//! writes all of it anew and lists what moved.
// The list of what moved is for whoever runs the chore.
#![allow(clippy::print_stderr)]

#[path = "golden/gate.rs"]
mod gate;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::available_parallelism;

use serde_json::Value;
use threadgauge_experiments::{CATALOGUE, runnable};
use threadgauge_lab::analysis::analyse;
use threadgauge_lab::schedule::Chosen;
use threadgauge_lab::site::{Profile, Site};
use threadgauge_machine::CpuList;
use threadgauge_report::{FILES, Style, markdown, picture, terminal, terminal_screen, terminal_summary};
use threadgauge_results::{Act, Need, Results, STORE_FILE, Store};

/// Set where one store that differs is enough, as in `check-deep`.
const FAIL_FAST: &str = "FAIL_FAST";
/// Set by `cargo xtask golden`.
const UPDATE: &str = "UPDATE_GOLDEN";
/// Figures that differ by less, of their size, are the same: libraries of other systems may round otherwise.
const SAME: f64 = 1e-12;
/// How many differences a failed test lists.
const LISTED: usize = 60;

#[test]
fn stored_runs_say_what_is_committed_beside_them() {
    let stores = stores();
    assert!(stores.len() >= 5, "{stores:?}");
    let moved = Mutex::new(BTreeMap::new());
    on_all_cpus(stores, |dir| {
        let found = check_store(dir);
        let is_same = found.is_empty();
        moved.lock().unwrap().insert(dir.to_owned(), found);
        is_same
    });
    let moved: Vec<String> = moved.into_inner().unwrap().into_values().flatten().collect();
    hold(&moved);
}

#[test]
fn files_of_a_stored_run_are_those_of_its_analysis() {
    if is_updating() {
        return;
    }
    on_all_cpus(stores(), |dir| {
        let fresh = tempfile::tempdir().unwrap();
        said(&["report", text(dir), "--out", text(fresh.path())]);
        let written = |name| fs::read_to_string(fresh.path().join(name));
        for name in FILES {
            assert!(fresh.path().join(name).is_file(), "{}: {name}", dir.display());
        }
        let results = analysed(dir);
        for (name, expected) in [
            ("results.json", json(&results)),
            ("report.md", markdown(&results)),
        ] {
            assert!(written(name).unwrap() == expected, "{}: {name}", dir.display());
        }
        true
    });
}

#[test]
fn the_picture_in_the_readme_is_what_its_run_gives() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let results = analysed(&root.join("runs/2026-11-24-standard"));
    hold(&check_lines(
        &root.join("docs/images/picture.svg"),
        &picture(&results),
    ));
}

#[test]
fn a_gate_is_red_for_nothing_as_often_as_its_document_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ci.md");
    let mut now = read(&page);
    for (name, table) in gate::tables() {
        let [begin, end] = ["begin", "end"].map(|place| format!("<!-- {name}: {place} -->\n"));
        let (before, rest) = now.split_once(&begin).expect("the table begins");
        let (_, after) = rest.split_once(&end).expect("the table ends");
        now = [before, &begin, &table, &end, after].concat();
    }
    hold(&check_lines(&page, &now));
}

/// Checks each store, as many at a time as there are CPUs, the largest first; or last, where one that differs is
/// enough.
fn on_all_cpus(mut stores: Vec<PathBuf>, is_same: impl Fn(&Path) -> bool + Sync) {
    stores.sort_by_key(|dir| fs::metadata(dir.join(STORE_FILE)).map_or(0, |file| file.len()));
    let is_one_enough = std::env::var_os(FAIL_FAST).is_some();
    if is_one_enough {
        stores.reverse();
    }
    let waiting = Mutex::new(stores);
    let check = || {
        loop {
            // Not in the loop's head, where the lock would be held while a store is checked.
            let next = waiting.lock().unwrap().pop();
            let Some(dir) = next else { break };
            if !is_same(&dir) && is_one_enough {
                waiting.lock().unwrap().clear();
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(check);
        }
    });
}

#[test]
fn every_experiment_is_in_a_stored_run() {
    let experiments = |dir: PathBuf| Store::read(&dir).and_then(|store| store.experiments()).unwrap();
    let stored = stores().into_iter().flat_map(experiments);
    let stored: BTreeSet<String> = stored.map(|e| e.id).collect();
    let all: BTreeSet<String> = CATALOGUE.iter().map(|e| e.id.to_owned()).collect();
    let missing: Vec<&String> = all.difference(&stored).collect();
    let gone: Vec<&String> = stored.difference(&all).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "in no stored run: {missing:?}; not in the catalogue: {gone:?}. Store a run of a new experiment in a folder of its \
         own in runs/golden, only its {STORE_FILE}, and let `cargo xtask golden` write the rest"
    );
}

#[test]
fn what_is_done_with_a_unit_has_a_cost_of_its_experiment_in_a_stored_run() {
    let results =
        |dir: PathBuf| -> Results { serde_json::from_str(&read(&dir.join("results.json"))).unwrap() };
    let experiments = stores().into_iter().flat_map(|dir| results(dir).experiments);
    let found: Vec<(Act, String)> = experiments
        .flat_map(|e| e.costs.into_iter().map(move |cost| (cost, e.id.clone())))
        .filter_map(|(cost, id)| Some((cost.act()?, id)))
        .collect();
    for act in Act::ALL {
        let wanted = (act, act.experiment().to_owned());
        assert!(
            found.contains(&wanted),
            "no stored run has a cost of {wanted:?}: {found:?}"
        );
    }
}

#[test]
fn every_experiment_is_explained_as_committed() {
    let explained = CATALOGUE.iter().map(|e| said(&["explain", e.id]));
    let text: Vec<String> = explained.collect();
    hold(&check_lines(&golden("explain.txt"), &text.join("\n")));
}

#[test]
fn the_list_is_as_committed_but_for_what_depends_on_the_machine() {
    let list = said(&["list", "--profile", "paper"]);
    let lines = list.lines().map(|line| match line.split_once(" cases, ") {
        Some((_, rest)) => {
            let (rounds, rest) = rest.split_once(", about ").expect("what it takes");
            let sources = rest.split_once("; ").map_or("", |(_, sources)| sources);
            format!("    … cases, {rounds}, about …; {sources}\n")
        }
        None if line.starts_with("All of them: ") => "All of them: …\n".to_owned(),
        None if line.starts_with("Of 1") => "Of … published claims …\n".to_owned(),
        None => format!("{line}\n"),
    });
    hold(&check_lines(&golden("list.txt"), &lines.collect::<String>()));
}

#[test]
fn the_plans_are_as_committed() {
    let committed = fs::read_to_string(golden("plans.txt")).unwrap_or_default();
    let committed: BTreeMap<&str, &str> = committed
        .lines()
        .filter_map(|line| line.split_once(": "))
        .collect();
    let whole = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden/plans");
    let [known, other] = ["committed", "now"].map(|folder| whole.join(folder));
    let plans = plans();
    let mut summary = String::new();
    let mut moved = Vec::new();
    for (name, plan) in &plans {
        let is_case = |line: &&str| line.starts_with("case ");
        let cases = plan.lines().filter(is_case).count();
        let skipped = plan
            .lines()
            .filter(is_case)
            .filter(|line| line.contains("; skipped: "))
            .count();
        let now = format!("{cases} cases, {skipped} skipped, {:016x}", fnv(plan));
        let _ = writeln!(summary, "{name}: {now}");
        // The text of the last plan that was as committed stays, to compare the next with.
        match committed.get(name.as_str()) {
            Some(before) if *before == now => write(&known.join(name), plan),
            before => {
                write(&other.join(name), plan);
                let before = before.unwrap_or(&"nothing");
                moved.push(format!("plan {name}: {before} → {now}"));
            }
        }
    }
    let gone = committed.keys().filter(|name| !plans.contains_key(**name));
    moved.extend(gone.map(|name| format!("plan {name}: gone")));
    if !moved.is_empty() && is_updating() {
        write(&golden("plans.txt"), &summary);
    }
    if !moved.is_empty() {
        let [known, other] = [known, other].map(|folder| folder.display().to_string());
        moved.insert(0, format!("diff -ru {known} {other}   # the plans in words"));
    }
    hold(&moved);
}

/// Fails for what moved, or says it where all is written anew.
fn hold(moved: &[String]) {
    let mut list = moved.iter().take(LISTED).cloned().collect::<Vec<_>>().join("\n");
    if moved.len() > LISTED {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden/moved.txt");
        write(&all, &moved.join("\n"));
        let _ = write!(list, "\n… {} in all: {}", moved.len(), all.display());
    }
    if is_updating() {
        eprintln!("{list}");
    } else {
        assert!(
            moved.is_empty(),
            "{} differ from what is committed; if they are meant to, `cargo xtask golden` writes them anew:\n{list}",
            moved.len()
        );
    }
}

fn is_updating() -> bool {
    std::env::var_os(UPDATE).is_some()
}

/// Every folder under `runs/` with a store in it.
fn stores() -> Vec<PathBuf> {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../runs")
        .canonicalize()
        .unwrap();
    let inside = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    };
    let mut stores = inside(&runs);
    stores.extend(inside(&runs.join("golden")));
    stores.retain(|dir| dir.join(STORE_FILE).is_file());
    stores.sort();
    stores
}

/// What a store says now, against the files beside it.
fn check_store(dir: &Path) -> Vec<String> {
    let results = analysed(dir);
    let mut moved = check_json(&dir.join("results.json"), &json(&results));
    let style = Style {
        width: 100,
        colour: false,
    };
    let shown = || {
        let each = results.experiments.iter().map(|e| terminal(e, &style));
        each.chain([terminal_summary(&results, &style)]).collect()
    };
    let texts: [(&str, &dyn Fn() -> String); 4] = [
        ("report.md", &|| markdown(&results)),
        ("terminal.txt", &shown),
        ("screen.txt", &|| terminal_screen(&results, &style)),
        ("claims.txt", &|| said(&["claims", text(dir)])),
    ];
    for (name, now) in texts {
        // A published run has its report, one that is here for this test what a terminal shows.
        if dir.join(name).is_file() {
            moved.extend(check_lines(&dir.join(name), &now()));
        }
    }
    moved
}

/// A stored run analysed anew.
fn analysed(dir: &Path) -> Results {
    analyse(runnable(), &Store::read(dir).unwrap()).unwrap()
}

fn json(results: &Results) -> String {
    serde_json::to_string_pretty(results).unwrap()
}

fn check_json(committed: &Path, now: &str) -> Vec<String> {
    let parse = |text: &str| -> Value { serde_json::from_str(text).expect("results are JSON") };
    let before = fs::read_to_string(committed).map_or(Value::Null, |text| parse(&text));
    let mut moved = Vec::new();
    differences(&short(committed), &before, &parse(now), &mut moved);
    if !moved.is_empty() && is_updating() {
        write(committed, now);
    }
    moved
}

/// Compares line by line; a missing file is an empty one.
fn check_lines(committed: &Path, now: &str) -> Vec<String> {
    let before = fs::read_to_string(committed).unwrap_or_default();
    if before == now {
        return Vec::new();
    }
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("golden")
        .join(short(committed));
    write(if is_updating() { committed } else { &fresh }, now);
    vec![format!(
        "{}, {} (diff -u {} {})",
        short(committed),
        first_change(&before, now),
        committed.display(),
        fresh.display()
    )]
}

/// The first line that differs, its number counted from 1; where the rest has another length, by how many lines.
fn first_change(before: &str, now: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), now.lines().collect());
    let at = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let change = match (old.get(at), new.get(at)) {
        (Some(old), Some(new)) => reworded(old, new),
        (Some(old), None) => format!("gone, was {old:?}"),
        (None, Some(new)) => format!("new: {new:?}"),
        (None, None) => "another end of the last line".to_owned(),
    };
    let (before, now) = (old.len(), new.len());
    let longer = if before == now {
        String::new()
    } else {
        format!("; {before} lines are {now}")
    };
    format!("line {}: {change}{longer}", at + 1)
}

/// Every place where two documents differ, each with its path.
fn differences(at: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(olds), Value::Object(news)) => {
            let keys: BTreeSet<&String> = olds.keys().chain(news.keys()).collect();
            for key in keys {
                member(&format!("{at} {key}"), olds.get(key), news.get(key), found);
            }
        }
        (Value::Array(olds), Value::Array(news)) => {
            let (old_names, new_names) = (names(olds), names(news));
            let find = |names: &[String], name| names.iter().position(|n| n == name);
            for (old, name) in olds.iter().zip(&old_names) {
                let new = find(&new_names, name).map(|i| &news[i]);
                member(&format!("{at} [{name}]"), Some(old), new, found);
            }
            for (new, name) in news.iter().zip(&new_names) {
                if !old_names.contains(name) {
                    member(&format!("{at} [{name}]"), None, Some(new), found);
                }
            }
            let is_reordered = old_names != new_names && olds.len() == news.len();
            if is_reordered && old_names.iter().all(|name| new_names.contains(name)) {
                found.push(format!("{at}: in another order: {old_names:?} → {new_names:?}"));
            }
        }
        (Value::Number(old), Value::Number(new)) if is_same(old.as_f64(), new.as_f64()) => {}
        _ if old == new => {}
        (Value::String(old), Value::String(new)) => found.push(format!("{at}: {}", reworded(old, new))),
        _ => found.push(format!("{at}: {} → {}", brief(old), brief(new))),
    }
}

/// A value, or its beginning.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What of a text differs, with a few words around it.
fn reworded(old: &str, new: &str) -> String {
    const AROUND: usize = 24;
    let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    let same =
        |pairs: &mut dyn Iterator<Item = (&char, &char)>| pairs.take_while(|(old, new)| old == new).count();
    let before = same(&mut old.iter().zip(&new));
    let most = old.len().min(new.len()) - before;
    let after = same(&mut old.iter().rev().zip(new.iter().rev())).min(most);
    let part = |text: &[char]| {
        let from = before.saturating_sub(AROUND);
        let to = (text.len() - after + AROUND).min(text.len());
        let dots = |is_cut| if is_cut { "…" } else { "" };
        let shown: String = text[from..to].iter().collect();
        format!("\"{}{shown}{}\"", dots(from > 0), dots(to < text.len()))
    };
    format!("{} → {}", part(&old), part(&new))
}

fn member(at: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<String>) {
    match (old, new) {
        (Some(old), Some(new)) => differences(at, old, new, found),
        (Some(old), None) => found.push(format!("{at}: gone, was {}", brief(old))),
        (None, Some(new)) => found.push(format!("{at}: new: {}", brief(new))),
        (None, None) => {}
    }
}

fn is_same(old: Option<f64>, new: Option<f64>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return old == new;
    };
    old == new || (old - new).abs() <= SAME * old.abs().max(new.abs())
}

/// What the elements of a list are called, so that one more of them does not move all that follow.
fn names(list: &[Value]) -> Vec<String> {
    let name = |value: &Value| {
        let word = |key: &str| value.get(key).and_then(Value::as_str);
        if let (Some(a), Some(b)) = (word("a"), word("b")) {
            return Some(format!("{b} against {a}"));
        }
        ["id", "claim", "case", "title", "name"]
            .into_iter()
            .find_map(word)
            .map(str::to_owned)
    };
    let mut seen: BTreeMap<Option<String>, usize> = BTreeMap::new();
    let mut number = |name: Option<String>| {
        let before = seen.entry(name.clone()).or_default();
        *before += 1;
        match (name, *before - 1) {
            (Some(name), 0) => name,
            (Some(name), again) => format!("{name} {again}"),
            (None, place) => place.to_string(),
        }
    };
    list.iter().map(|value| number(name(value))).collect()
}

/// The machines that plans are made for, by name: CPUs, and how many of these are of different cores.
const MACHINES: [(&str, usize, usize); 5] = [
    ("1", 1, 1),
    ("2", 2, 2),
    ("4", 4, 4),
    ("16", 16, 16),
    ("16-smt", 16, 8),
];

/// What each experiment plans, in words: every profile on small and large machines.
fn plans() -> BTreeMap<String, String> {
    let mut plans = BTreeMap::new();
    for profile in [Profile::Quick, Profile::Standard, Profile::Paper] {
        for ((machine, cpus, cores), free_memory_mib) in MACHINES
            .into_iter()
            .flat_map(|machine| [(machine, 500), (machine, 65_536)])
        {
            let siblings = (cores..cpus).map(|second| CpuList::new([second - cores, second]));
            let siblings: Vec<CpuList> = siblings.collect();
            let site = Site::new(profile, &CpuList::new(0..cpus), &siblings, free_memory_mib);
            for experiment in CATALOGUE.iter() {
                let plan = Chosen::all(experiment, &site).plan;
                let primary: Vec<&str> = experiment.primary.iter().map(|m| m.name).collect();
                let mut text = format!(
                    "reference {}\nbudget {:?}\ntries {}\nmetrics {}\n",
                    plan.reference,
                    plan.budget,
                    plan.tries(),
                    primary.join(", ")
                );
                for case in &plan.cases {
                    // Which programs are installed is this machine's affair.
                    let lack = case.skip.as_ref().filter(|lack| lack.of != Need::Program);
                    let skip = lack.map_or(String::new(), |why| format!("; skipped: {why}"));
                    let _ = writeln!(
                        text,
                        "case {}; {:?}, deadline {:?}{skip}",
                        case.params,
                        case.estimate,
                        case.deadline()
                    );
                }
                let (id, profile) = (experiment.id, profile.name());
                let name = format!("{id}-{profile}-{machine}-cpus-{free_memory_mib}-mib");
                plans.insert(name, text);
            }
        }
    }
    plans
}

/// FNV-1a: the standard library's hashes may change with its version.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What the command says to these arguments, into a pipe.
fn said(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_threadgauge"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the command can be started");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("the command says UTF-8")
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// The end of a path: its folder and its name.
fn short(path: &Path) -> String {
    let parts: Vec<_> = path
        .iter()
        .rev()
        .take(2)
        .map(|part| part.to_string_lossy())
        .collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths here are UTF-8")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).unwrap();
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[test]
fn a_difference_is_named_by_its_path() {
    let old =
        serde_json::json!({"e": [{"id": "a", "v": 1.0}, {"id": "b", "v": 2.0}, {"says": "x"}], "n": null});
    let mut found = Vec::new();
    differences("r", &old, &old, &mut found);
    assert_eq!(found, [""; 0]);
    let new = serde_json::json!({"e": [{"id": "b", "v": 2.000_001}, {"id": "c"}, {"says": "y"}], "n": null, "m": 1});
    differences("r", &old, &new, &mut found);
    assert_eq!(
        found,
        [
            r#"r e [a]: gone, was {"id":"a","v":1.0}"#,
            "r e [b] v: 2.0 → 2.000001",
            r#"r e [0] says: "x" → "y""#,
            r#"r e [c]: new: {"id":"c"}"#,
            "r m: new: 1",
        ]
    );
}

#[test]
fn of_a_reworded_text_the_change_is_shown() {
    assert_eq!(reworded("a b", "a c b"), r#""a b" → "a c b""#);
    let long = "x".repeat(100);
    let ends = "x".repeat(24);
    let (old, new) = (format!("{long}old{long}"), format!("{long}new{long}"));
    assert_eq!(
        reworded(&old, &new),
        format!("\"…{ends}old{ends}…\" → \"…{ends}new{ends}…\"")
    );
}

#[test]
fn of_an_inserted_line_it_is_said_that_there_is_one_more() {
    assert_eq!(first_change("a\nb\n", "a\nc\n"), r#"line 2: "b" → "c""#);
    assert_eq!(
        first_change("a\n\nb\n", "a\n\n\nb\n"),
        r#"line 3: "b" → ""; 3 lines are 4"#
    );
    assert_eq!(first_change("a\n", "a\n\n"), r#"line 2: new: ""; 1 lines are 2"#);
    assert_eq!(
        first_change("a\nb\n", "a\n"),
        r#"line 2: gone, was "b"; 2 lines are 1"#
    );
}

#[test]
fn figures_are_the_same_to_twelve_digits_and_not_beyond() {
    let of = |old: f64, new: f64| {
        let mut found = Vec::new();
        differences("r", &old.into(), &new.into(), &mut found);
        found.is_empty()
    };
    assert!(of(0.1 + 0.2, 0.3) && of(0.0, 0.0));
    assert!(!of(1.0, 1.0 + 1e-11) && !of(0.0, 1e-300) && !of(1.0, -1.0));
}
