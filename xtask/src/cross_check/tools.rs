//! The tools: how each is asked, where it is found, and how its figure is read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::shell;

/// Where lmbench's programs are if not on the path.
const LMBENCH_FOLDER: &str = "/usr/lib/lmbench/bin";

/// How long a tool may take to start the process that is to be pinned.
const PATIENCE: Duration = Duration::from_secs(30);

/// What lmbench is told: to time 100 ms where it would first look for minutes how long is enough. What it takes off for
/// a loop and for reading the clock is nothing beside that, and it would measure both at each start.
const LMBENCH: [(&str, &str); 3] = [("ENOUGH", "100000"), ("LOOP_O", "0"), ("TIMING_O", "0")];
/// And across CPUs: each of its processes on one of its own, of those that it may use. Each does that itself, so that
/// on one CPU it would only add to what is measured.
const LMBENCH_ACROSS: [(&str, &str); 1] = [("LMBENCH_SCHED", "UNIQUE")];

/// How the tools begin, and what each prints before its figure and behind it.
const PRINTS: [(&str, [&str; 2]); 10] = [
    ("perf bench sched pipe", ["[sec]", " usecs/op"]),
    ("perf bench sched messaging", ["Total time:", " [sec]"]),
    ("hackbench", ["Time:", "\n"]),
    ("lat_proc", ["Process fork+exit:", " microseconds"]),
    ("lat_pipe", ["Pipe latency:", " microseconds"]),
    ("lat_ctx", ["\n2 ", "\n"]),
    (
        "stress-ng",
        ["miscellaneous metrics:", " nanosecs per context switch (pipe"],
    ),
    ("go test", ["\nBenchmark", " ns/op"]),
    ("java -jar", ["\nResult \"", " ±("]),
    ("python ", ["Mean +- std dev: ", " +- "]),
];

/// The units of a tool that chooses one for each figure, in ns.
const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("sec", 1e9)];

/// A tool and what it is asked.
#[derive(Debug)]
pub struct Tool {
    /// The program and its arguments.
    pub line: String,
    /// What it is told behind these of how to measure.
    told: &'static [&'static str],
    prints: [&'static str; 2],
    one: f64,
}

/// A tool that is there.
#[derive(Debug, Clone)]
pub struct Installed {
    pub program: PathBuf,
    /// Where it is started.
    pub folder: PathBuf,
}

/// Where a tool runs.
#[derive(Debug, Clone, Copy)]
pub enum On<'a> {
    /// One CPU; of several, each of its two processes on its own.
    Pinned(&'a [usize]),
    /// Wherever it and the scheduler like.
    Default,
}

impl Tool {
    /// Where the tool says 1, ours is so many ns (`one`).
    ///
    /// # Panics
    ///
    /// If it is none of those that can be read.
    pub fn new(line: &str, one: f64) -> Self {
        let known = PRINTS.iter().find(|(begin, _)| line.starts_with(begin));
        let (_, prints) = known.expect("only tools that can be read are asked");
        Self {
            line: line.to_owned(),
            told: &[],
            prints: *prints,
            one,
        }
    }

    /// The same, told this too.
    pub fn told(self, told: &'static [&'static str]) -> Self {
        Self { told, ..self }
    }

    pub fn program(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// Where it is installed, if it is.
    pub fn found(&self) -> Option<Installed> {
        let lmbench = Path::new(LMBENCH_FOLDER).join(self.program());
        let found = shell::find(self.program()).or_else(|| lmbench.is_file().then_some(lmbench));
        found.map(Installed::at)
    }

    /// Runs the tool once, and gives its figure in ns. Blocks.
    ///
    /// # Errors
    ///
    /// If it cannot be started or pinned, fails, or prints no figure.
    pub fn run(&self, installed: &Installed, on: On<'_>) -> Result<f64> {
        let Installed { program, folder } = installed;
        let mut command = match on {
            On::Pinned(cpus) => shell::pinned(program, cpus),
            On::Default => shell::command_at(program),
        };
        command.args(self.line.split(' ').skip(1)).args(self.told);
        command.current_dir(folder).envs(LMBENCH);
        let across = match on {
            On::Pinned(cpus) if cpus.len() > 1 => cpus,
            _ => &[],
        };
        if !across.is_empty() {
            command.envs(LMBENCH_ACROSS);
        }
        let said = match self.program() {
            "perf" if !across.is_empty() => said_apart(command, across)?,
            _ => said(command.output(), &command)?,
        };
        Ok(self.figure(&said)? * self.one)
    }

    /// The last word between what it prints before and behind, or the one before it where that is a unit.
    fn figure(&self, said: &str) -> Result<f64> {
        let [before, behind] = self.prints;
        let text = said
            .split_once(before)
            .and_then(|(_, rest)| Some(rest.split_once(behind)?.0));
        let figure = text.and_then(|text| {
            let mut words = text.split_whitespace().rev();
            let last = words.next()?;
            let unit = UNITS.iter().find(|(unit, _)| *unit == last);
            let (number, one) = unit.map_or(Some((last, 1.0)), |(_, ns)| Some((words.next()?, *ns)))?;
            Some(number.parse::<f64>().ok()? * one)
        });
        figure
            .filter(|figure| figure.is_finite() && *figure > 0.0)
            .with_context(|| {
                format!(
                    "{} printed no number between {before:?} and {behind:?}; its version may be another: {said:?}",
                    self.program()
                )
            })
    }
}

impl Installed {
    /// One that is started here.
    fn at(program: PathBuf) -> Self {
        Self {
            program,
            folder: PathBuf::from("."),
        }
    }
}

/// What a program printed that has ended, on both outputs.
fn said(ended: std::io::Result<std::process::Output>, command: &Command) -> Result<String> {
    let ended = ended.with_context(|| format!("cannot start {}", shell::line(command)))?;
    let said = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(
        ended.status.success(),
        "{} ended with {}: {}",
        shell::line(command),
        ended.status,
        said[1].trim()
    );
    Ok(said.concat())
}

/// The same of a program that does its work in itself and in its child: each is put on a CPU of its own as soon as both
/// are there.
fn said_apart(mut command: Command, cpus: &[usize]) -> Result<String> {
    let mut program = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", shell::line(&command)))?;
    let begun = Instant::now();
    let both = loop {
        let both = with_children(program.id());
        if both.len() == cpus.len() || program.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
            break both;
        }
    };
    let pinned = pin_each(&both, cpus);
    if pinned.is_err() {
        let _ = program.kill();
    }
    let ended = said(program.wait_with_output(), &command);
    match &ended {
        // It may have failed before it had a child.
        Err(failed) => pinned.with_context(|| format!("{failed:#}"))?,
        Ok(_) => pinned?,
    }
    ended
}

fn with_children(process: u32) -> Vec<i32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let all = format!("{process} {children}");
    all.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn pin_each(processes: &[i32], cpus: &[usize]) -> Result<()> {
    let [has, wanted] = [processes.len(), cpus.len()];
    ensure!(has == wanted, "{has} processes to be put on {wanted} CPUs");
    for (&process, &cpu) in processes.iter().zip(cpus) {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(Pid::from_raw(process), &set)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use threadgauge_machine::allowed_cpus;

    use super::*;

    #[test]
    fn what_each_tool_prints_is_read() {
        let pipe = "# Running 'sched/pipe' benchmark:\n# Executed 50000 pipe operations between two processes\n\n     \
                    Total time: 0.230 [sec]\n\n       4.609740 usecs/op\n         216931 ops/sec\n";
        let messaging = "# Running 'sched/messaging' benchmark:\n# 20 sender and receiver processes per group\n\
                         # 1 groups == 40 processes run\n\n     Total time: 0.524 [sec]\n";
        let hack = "Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)\n\
                    Each sender will pass 200 messages of 100 bytes\nTime: 0.504\n";
        let stress = "stress-ng: metrc: [28541] switch           100000      0.78      0.05      0.41    128121.13      \
                      215314.92        59.50          2544\nstress-ng: metrc: [28541] miscellaneous metrics:\n\
                      stress-ng: metrc: [28541] switch              7748.28 nanosecs per context switch (pipe method) \
                      (geometic mean of 1 instances)\nstress-ng: info:  [28541] successful run completed in 0.79s\n";
        let go = "goos: linux\ngoarch: amd64\npkg: cross-check\ncpu: AMD EPYC\n\
                  BenchmarkCreate-2   \t  988551\t       334.7 ns/op\nPASS\nok  \tcross-check\t0.959s\n";
        let jmh = "Iteration   3: 1210.114 ns/op\n\n\nResult \"crosscheck.Units.lap\":\n  1273.908 ±(99.9%) 1446.243 \
                   ns/op [Average]\n  (min, avg, max) = (1210.114, 1273.908, 1362.656), stdev = 79.273\n";
        let jmh_once = "\nResult \"crosscheck.Units.pool\":\n  N = 3\n  mean = 35210417.000 ±(99.9%) 7446243.113 ns/op\n";
        for (line, said, figure) in [
            ("perf bench sched pipe -T", pipe, 4.609_740),
            ("perf bench sched messaging", messaging, 0.524),
            ("hackbench -g 1", hack, 0.504),
            (
                "lat_proc fork",
                "Process fork+exit: 360.7876 microseconds\n",
                360.7876,
            ),
            ("lat_pipe", "Pipe latency: 11.3211 microseconds\n", 11.3211),
            ("lat_ctx -s 0 2", "\n\"size=0k ovr=0.80\n2 2.62\n", 2.62),
            ("stress-ng --switch 1", stress, 7748.28),
            ("go test -bench Create", go, 334.7),
            ("java -jar benchmarks.jar Units.lap", jmh, 1273.908),
            (
                "java -jar benchmarks.jar Units.pool -bm ss",
                jmh_once,
                35_210_417.0,
            ),
            (
                "python units.py create thread",
                "create thread: Mean +- std dev: 62.1 us +- 1.9 us\n",
                62_100.0,
            ),
            (
                "python units.py create process",
                "Mean +- std dev: 4.25 ms +- 1.09 ms\n",
                4_250_000.0,
            ),
            (
                "python units.py pool task",
                "WARNING: slow\n\nMean +- std dev: 1.5 sec +- 0.01 sec\n",
                1.5e9,
            ),
            (
                "python units.py lap task",
                "Mean +- std dev: 812 ns +- 9 ns\n",
                812.0,
            ),
        ] {
            let tool = Tool::new(line, 1.0);
            assert_eq!(tool.figure(said).unwrap(), figure);
            // Cut short, of another version, or of nothing.
            for other in [&said[..said.find(tool.prints[1]).unwrap()], "usage: other\n", ""] {
                let error = tool.figure(other).unwrap_err().to_string();
                assert!(error.contains("printed no number between"), "{error}");
            }
        }
        for nothing in ["nan", "inf", "0.0", "-1", "?"] {
            let said = format!("Pipe latency: {nothing} microseconds\n");
            assert!(Tool::new("lat_pipe", 1.0).figure(&said).is_err(), "{nothing}");
        }
    }

    /// The figure of a tool that is this script. The shell reads it: while another test starts a program, a file that
    /// was just written cannot be executed.
    fn run(script: &str, on: On<'_>) -> Result<f64, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        fs::write(&file, script).unwrap();
        let mut tool = Tool::new("perf bench sched pipe", 1.0);
        tool.line = format!("perf {} bench", file.display());
        let figure = tool.run(&Installed::at(PathBuf::from("/bin/sh")), on);
        figure.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_tool_is_told_its_arguments_and_settings_and_where_to_be() {
        let cpus: Vec<usize> = allowed_cpus().unwrap().iter().take(1).collect();
        let script = format!(
            "[ \"$*\" = bench ] && [ $ENOUGH = 100000 ] && [ -z \"$LMBENCH_SCHED\" ] || exit 3\n\
             [ \"$(taskset -cp $$ | sed 's/.*: //')\" = {} ] && echo '[sec] 3 usecs/op'",
            cpus[0]
        );
        assert_eq!(run(&script, On::Pinned(&cpus)), Ok(3.0));
        let anywhere = "[ $ENOUGH = 100000 ] && echo '[sec] 3 usecs/op' >&2";
        assert_eq!(run(anywhere, On::Default), Ok(3.0));
    }

    #[test]
    fn a_tool_is_started_where_its_files_are_with_what_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("bench"), "echo \"[sec] $1 usecs/op\"").unwrap();
        let mut tool = Tool::new("perf bench sched pipe", 2.0);
        (tool.line, tool.told) = ("sh bench".to_owned(), &["4"]);
        let installed = Installed {
            folder: folder.path().to_owned(),
            ..Installed::at(PathBuf::from("/bin/sh"))
        };
        assert_eq!(tool.run(&installed, On::Default).unwrap(), 8.0);
    }

    #[test]
    fn the_two_processes_of_a_tool_are_put_on_a_cpu_each() {
        let cpus: Vec<usize> = allowed_cpus().unwrap().iter().take(2).collect();
        if cpus.len() < 2 {
            eprintln!("skipped: it takes two CPUs");
            return;
        }
        // Each begins on both CPUs. It ends when each is on one.
        let script = "of() { taskset -cp $1 | sed 's/.*: //'; }\nsleep 60 >/dev/null 2>&1 &\nn=5000\n\
                      while a=$(of $$) b=$(of $!) n=$((n - 1)) && [ $n -gt 0 ]; do\n\
                      case $a$b in *[-,]*) ;; *) break ;; esac; done\n\
                      kill $!; [ $a != $b ] && [ $LMBENCH_SCHED = UNIQUE ] && echo '[sec] 3 usecs/op'";
        assert_eq!(run(script, On::Pinned(&cpus)), Ok(3.0));
    }

    #[test]
    fn a_tool_that_is_missing_or_fails_is_told() {
        let mut missing = Tool::new("lat_pipe", 1.0);
        missing.line = "threadgauge-no-such-tool -x".to_owned();
        assert_eq!(
            (missing.program(), missing.found().is_none()),
            ("threadgauge-no-such-tool", true)
        );
        let nowhere = Installed::at(PathBuf::from("/nowhere/tool"));
        let gone = missing.run(&nowhere, On::Default).unwrap_err();
        assert!(
            format!("{gone:#}").starts_with("cannot start /nowhere/tool -x: "),
            "{gone:#}"
        );
        let cpus: Vec<usize> = allowed_cpus().unwrap().iter().collect();
        for on in [On::Default, On::Pinned(&cpus[..1]), On::Pinned(&cpus)] {
            let failed = run("echo no pipes >&2; exit 3", on).unwrap_err();
            assert!(failed.contains("ended with exit status: 3: no pipes"), "{failed}");
        }
        let else_said = run("echo 3 milliseconds", On::Default).unwrap_err();
        assert!(else_said.contains("its version may be another"), "{else_said}");
    }
}
