//! The re-created thread library (`guests/c/linuxthreads`) does what programs expect of pthreads, as the C library's
//! own does, and ends with the program in whatever way that ends.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

#[path = "../../../guests/compile.rs"]
mod guests;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/c/linuxthreads");

/// What it says and how it ends: 0, or a signal's number behind 128.
const CASES: [(&str, &str, i32); 17] = [
    ("values", "", 0),
    ("detached", "", 0),
    ("mutexes", "", 0),
    ("conditions", "", 0),
    ("timed", "", 0),
    ("once", "", 0),
    ("keys", "", 0),
    ("library", "", 0),
    ("thousand", "", 0),
    ("stacks", "", 0),
    ("refused", "", 0),
    ("signals", "", 0),
    ("usage", "", 0),
    ("first-exits", "late\n", 0),
    ("thread-exits", "flushed\n", 7),
    ("first-returns", "", 0),
    ("thread-crashes", "", 128 + 11),
];

/// The program of `conformance.c`, on the re-created library or on the C library's.
fn compiled(folder: &Path, is_recreated: bool) -> PathBuf {
    let [header, library, source] =
        ["linuxthreads.h", "linuxthreads.c", "conformance.c"].map(|name| format!("{FOLDER}/{name}"));
    let usual = ["-O2", "-pthread", "-Wall", "-Wextra", "-Werror"];
    let recreated = ["-include", &header, &library];
    let program = folder.join(if is_recreated { "recreated" } else { "usual" });
    let options = [&usual[..], if is_recreated { &recreated } else { &[] }].concat();
    guests::compile("cc", &options, Path::new(&source), &program).unwrap();
    program
}

/// In a process group of its own, by which all its processes are found.
fn started(program: &Path, case: &str) -> Child {
    let mut command = Command::new(program);
    command.arg(case).process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// How it ended, and what it said and was said about it, once nobody of it is left.
fn ended(mut child: Child) -> (ExitStatus, String, String) {
    let (mut said, mut complaint) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut complaint)
        .unwrap();
    let status = child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let left = alive_in_group(child.id());
        if left.is_empty() {
            return (status, said, complaint);
        }
        assert!(Instant::now() < deadline, "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes of a group that have not ended.
fn alive_in_group(group: u32) -> Vec<String> {
    let stats = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let of = entry.ok()?.path();
        of.file_name()?.to_str()?.parse::<u32>().ok()?;
        fs::read_to_string(of.join("stat")).ok()
    });
    let is_alive = |stat: &String| {
        // Behind the name, which may hold anything: state, parent, group.
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        let mut fields = rest.split(' ');
        let (state, is_of_group) = (fields.next().unwrap(), fields.nth(1) == Some(&*group.to_string()));
        is_of_group && !["Z", "X"].contains(&state)
    };
    stats.filter(is_alive).collect()
}

#[test]
fn what_holds_of_the_c_librarys_threads_holds_of_the_recreated_ones() {
    let folder = tempfile::tempdir().unwrap();
    for is_recreated in [false, true] {
        let program = compiled(folder.path(), is_recreated);
        for (case, says, ends_with) in CASES {
            let (status, said, complaint) = ended(started(&program, case));
            let code = status.code().or(status.signal().map(|signal| 128 + signal));
            assert_eq!(
                (said.as_str(), complaint.as_str(), code),
                (says, "", Some(ends_with)),
                "{case}, re-created: {is_recreated}"
            );
        }
    }
}

#[test]
fn who_loses_the_manager_or_the_first_thread_ends_and_leaves_nobody_behind() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), true);
    for kills_manager in [true, false] {
        let mut child = started(&program, "waiting");
        let mut says = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        says.read_line(&mut line).unwrap();
        let manager = line.trim_end().strip_prefix("parent=").expect(&line);
        assert!(alive_in_group(child.id()).len() > 20, "a process for each thread");
        let first = child.id().to_string();
        let killed = if kills_manager { manager } else { first.as_str() };
        assert!(
            Command::new("kill")
                .args(["-9", killed])
                .status()
                .unwrap()
                .success()
        );
        child.stdout = Some(says.into_inner());
        let (status, _, complaint) = ended(child);
        let expected = match kills_manager {
            true => (
                Some(1),
                None,
                "linuxthreads: the manager has died, and so all threads end\n",
            ),
            false => (None, Some(9), ""),
        };
        assert_eq!((status.code(), status.signal(), complaint.as_str()), expected);
    }
}

/// What is on the PATH but these programs.
fn path_without(folder: &Path, hidden: &[&str]) {
    let path = std::env::var_os("PATH").unwrap();
    let programs = std::env::split_paths(&path)
        .filter_map(|of| fs::read_dir(of).ok())
        .flatten();
    for program in programs.flatten() {
        let name = program.file_name();
        if hidden.iter().all(|of| name != *of) {
            // The first of a name is the one that counts; another fails here.
            let _ = std::os::unix::fs::symlink(program.path(), folder.join(&name));
        }
    }
}

#[test]
fn without_a_musl_compiler_all_is_built_and_what_is_for_musl_says_what_it_lacks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let [programs, made] = ["bin", "out"].map(|name| folder.path().join(name));
    let script = folder.path().join("build-script");
    for of in [&programs, &made] {
        fs::create_dir(of).unwrap();
    }
    path_without(&programs, &["musl-gcc"]);
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    compile
        .args(["--edition", "2024", "-o"])
        .arg(&script)
        .arg(root.join("build.rs"));
    assert!(compile.status().unwrap().success());
    // What is not for musl compiles as it did for this test.
    let triple = "x86_64-unknown-linux-gnu";
    let mut run = Command::new(&script);
    run.current_dir(root)
        .env_remove("THREADGAUGE_MUSL_CC")
        .env("CC", "true");
    run.env_remove(format!("CC_{}", triple.replace('-', "_")));
    run.env("PATH", &programs)
        .env("OUT_DIR", &made)
        .env("TARGET", triple)
        .env("HOST", triple);
    let output = run.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let said = String::from_utf8(output.stdout).unwrap();
    let lacks = |name: &str| {
        let variable = format!("cargo:rustc-env=THREADGAUGE_WITHOUT_{name}=");
        said.lines()
            .find_map(|line| line.strip_prefix(&variable))
            .unwrap()
            .to_owned()
    };
    for name in ["units", "ring", "ids", "idle", "print", "crash", "chat_threads"] {
        assert_eq!([lacks(name), lacks(&format!("{name}_linuxthreads"))], ["", ""]);
        let musl = lacks(&format!("{name}_musl"));
        assert!(
            musl.starts_with("the compiler musl-gcc cannot be started: "),
            "{musl}"
        );
        assert!(
            musl.ends_with("to have it, install Debian's musl-tools and build again"),
            "{musl}"
        );
        // Nothing inside is what a case is skipped for.
        assert_eq!(fs::read(made.join(format!("{name}_musl"))).unwrap(), b"");
    }
}
