//! `cargo xtask cross-check`: figures of threadgauge beside those of the tools that people trust.
//!
//! Owns the list of what is compared, the limit (10 % to either side) and the table. How a tool is asked is in
//! [`tools`]. Ours is a case of an experiment, in a worker as `run` starts it; what no experiment has is a load of
//! `guests/c/loads.c`. Where the two do not measure the same, the next row is without the difference, and the limit is
//! for that one. `docs/limitations.md` says what each of the two measures.

mod tools;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Error, Result, ensure};
use clap::Args;
use fastrand::Rng;
use threadgauge_machine::{allowed_cpus, fingerprint};

use crate::rig::figures::{NOTHING, Spread, estimate, middle, number, within};
use crate::rig::rounds::Rounds;
use crate::rig::worker::Case;
use crate::{guests, shell};
use tools::{On, Tool};

const SOURCE: &str = "guests/c/loads.c";
const SEED: u64 = 0x5EED;
/// Ours over the tool's must lie between these.
const LIMITS: [f64; 2] = [0.9, 1.1];

/// How much to measure, and of what.
#[derive(Args)]
pub struct Options {
    /// Rounds; each runs everything once. An interval takes six
    #[arg(long, default_value_t = 20, value_name = "N")]
    rounds: usize,
    /// Only what is measured by tools whose command line contains one of these
    #[arg(long, value_name = "WORD,…", value_delimiter = ',')]
    only: Vec<String>,
}

/// Where a figure of ours comes from, in ns.
#[derive(Debug)]
enum Ours {
    Case(Case),
    /// A case less another.
    Less(Case, Case),
    /// Arguments of `loads`, which says how long all took and how many that were.
    Load(String),
}

/// What both measure.
#[derive(Debug)]
struct Figure {
    says: String,
    ours: Ours,
    tool: Tool,
    cpus: usize,
    /// Whether the limit is for it: not where the two are known to differ.
    limited: bool,
}

fn figure(says: &str, ours: Ours, tool: Tool) -> Figure {
    Figure {
        says: says.to_owned(),
        ours,
        tool,
        cpus: 1,
        limited: true,
    }
}

fn load(arguments: &str) -> Ours {
    Ours::Load(arguments.to_owned())
}

/// A process by `fork`, of `create`'s program in C.
const FORK: Case = Case {
    experiment: "create",
    params: "unit=process,method=fork,program=c,count=1000,alive=1,busy=0,parent_mib=0,huge_pages=no,cpus=1",
    metric: "ns_per_unit",
};

/// A token handed on by two units through pipes, with parameters of `ring`.
const fn hop(params: &'static str) -> Case {
    Case {
        experiment: "ring",
        params,
        metric: "ns_per_hop",
    }
}

const PROCESSES: Case = hop("unit=process,means=pipe,ring=2,kib=0,hop=to-other,placement=same,cpus=1");
const TO_ITSELF: Case = hop("unit=process,means=pipe,ring=2,kib=0,hop=to-itself,placement=same,cpus=1");
const ACROSS: Case = hop("unit=process,means=pipe,ring=2,kib=0,hop=to-other,placement=across,cpus=2");
const THREADS: Case = hop("unit=thread,means=pipe,ring=2,kib=0,hop=to-other,placement=same,cpus=1");

const US: f64 = 1e3;
/// What tools call an operation, or latency, is a lap of two hops.
const HOP_OF_LAP: f64 = US / 2.0;

fn lat_proc() -> Tool {
    Tool::new("lat_proc -N 1 fork", ["Process fork+exit:", " microseconds"], US)
}

fn lat_ctx() -> Tool {
    Tool::new("lat_ctx -N 1 -s 0 2", ["\n2 ", "\n"], US)
}

fn lat_pipe() -> Tool {
    Tool::new("lat_pipe -N 1", ["Pipe latency:", " microseconds"], HOP_OF_LAP)
}

fn stress_ng() -> Tool {
    let line = "stress-ng --switch 1 --switch-method pipe --switch-ops 50000 --metrics";
    let prints = ["miscellaneous metrics:", " nanosecs per context switch (pipe"];
    Tool::new(line, prints, 1.0)
}

fn perf_pipe(options: &str) -> Tool {
    let line = format!("perf bench sched pipe {options}");
    Tool::new(&line, ["[sec]", " usecs/op"], HOP_OF_LAP)
}

fn perf_messages(options: &str, loops: u32) -> Tool {
    let line = format!("perf bench sched messaging{options} -g 1 -l {loops}");
    Tool::new(&line, ["Total time:", " [sec]"], 1e9 / messages_of(loops))
}

fn hackbench(options: &str, loops: u32) -> Tool {
    let line = format!("hackbench{options} -g 1 -l {loops}");
    Tool::new(&line, ["Time:", "\n"], 1e9 / messages_of(loops))
}

/// So many does each of 20 senders send to each of 20 receivers.
fn messages_of(loops: u32) -> f64 {
    20.0 * 20.0 * f64::from(loops)
}

/// A message of 100 bytes between units by `means`. Of processes perf is asked for `many` too.
fn messages(unit: &str, means: &str, loops: u32, many: Option<u32>) -> Vec<Figure> {
    let says = format!("a message, {unit} to {unit}, {means}");
    let ours = |loops| Ours::Load(format!("messages {unit} {means} 20 {loops} 100"));
    let pipe = if means == "pipe" { " -p" } else { "" };
    let [of_perf, of_hackbench] = if many.is_some() { ["", ""] } else { [" -t", " -T"] };
    let perf = |loops| perf_messages(&format!("{of_perf}{pipe}"), loops);
    let hackbench = hackbench(&format!("{of_hackbench}{pipe}"), loops);
    let mut figures = vec![figure(&says, ours(loops), perf(loops))];
    if let Some(many) = many {
        figures[0].limited = false;
        figures.push(figure("the same, of more messages", ours(many), perf(many)));
    }
    figures.push(figure(&says, ours(loops), hackbench));
    figures
}

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let hop = "a hop between processes";
    let across = "a hop between processes across CPUs";
    let differs = |of: Figure| Figure { limited: false, ..of };
    let apart = |of: Figure| Figure { cpus: 2, ..of };
    let mut figures = vec![
        differs(figure("a process, made and reaped", Ours::Case(FORK), lat_proc())),
        figure(
            "the same, of a program with libm, the child ends by exit",
            load("exit 1000"),
            lat_proc(),
        ),
        figure(hop, Ours::Case(PROCESSES), perf_pipe("-l 30000")),
        figure(hop, Ours::Case(PROCESSES), lat_pipe()),
        figure(
            "a hop between threads",
            Ours::Case(THREADS),
            perf_pipe("-T -l 30000"),
        ),
        figure(
            "a switch between processes",
            Ours::Less(PROCESSES, TO_ITSELF),
            lat_ctx(),
        ),
        differs(figure(hop, Ours::Case(PROCESSES), stress_ng())),
        figure(
            "the same, of messages one way, two switches each",
            load("stream 50000"),
            stress_ng(),
        ),
        apart(figure(across, Ours::Case(ACROSS), perf_pipe("-l 10000"))),
        apart(figure(across, Ours::Case(ACROSS), lat_pipe())),
    ];
    figures.extend(messages("process", "unix", 200, Some(1000)));
    figures.extend(messages("thread", "unix", 200, None));
    figures.extend(messages("process", "pipe", 400, Some(3000)));
    figures.extend(messages("thread", "pipe", 400, None));
    figures
});

/// Who measures a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Ours,
    Pinned,
    Default,
}

/// A figure by its place in the list, and who measures it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell(usize, Who);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figure { says, tool, .. } = &FIGURES[self.0];
        match self.1 {
            Who::Ours => write!(f, "{says}, ours beside {}", tool.line),
            Who::Pinned => write!(f, "{}, pinned", tool.line),
            Who::Default => write!(f, "{}, by default", tool.line),
        }
    }
}

/// What ours is measured with.
struct Programs {
    threadgauge: PathBuf,
    loads: PathBuf,
}

/// Measures all, prints the table, and fails where the limit is missed.
pub fn run(options: &Options) -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let loads = std::path::absolute(target)?.join("loads");
    compile(&loads)?;
    let cpus: Vec<usize> = allowed_cpus()?.iter().collect();
    let is_chosen = |figure: &Figure| {
        let line = &figure.tool.line;
        options.only.is_empty() || options.only.iter().any(|word| line.contains(word.as_str()))
    };
    let (mut found, mut lacking) = (Vec::new(), Vec::new());
    for (index, figure) in FIGURES.iter().enumerate() {
        match figure.tool.found() {
            _ if !is_chosen(figure) || figure.cpus > cpus.len() => {}
            Some(program) => found.push((index, program)),
            None => lacking.push(index),
        }
    }
    ensure!(
        !found.is_empty(),
        "nothing to compare with: install perf, hackbench (rt-tests), stress-ng or lmbench, or choose others by --only"
    );
    let programs = Programs {
        threadgauge: shell::build("threadgauge", shell::Profile::Release)?,
        loads,
    };
    let groups = found.iter().map(|&(index, _)| cells(index)).collect();
    let mut rng = Rng::with_seed(SEED);
    let measured = Rounds::measure("cross-check", groups, options.rounds, &mut rng, |cell| {
        let Cell(index, who) = cell;
        let figure = &FIGURES[index];
        let cpus = &cpus[..figure.cpus];
        let on = match who {
            Who::Ours => return programs.measure(&figure.ours, cpus),
            Who::Pinned => On::Pinned(cpus),
            Who::Default => On::Default,
        };
        let program = found.iter().find(|(of, _)| *of == index);
        figure.tool.run(&program.context("only what was found")?.1, on)
    });
    print!("{}", heading(options.rounds));
    let mut missed = Vec::new();
    for &(index, _) in &found {
        let (row, met) = row(&measured, index);
        print!("{row}");
        if FIGURES[index].limited && met == "**no**" {
            missed.push(FIGURES[index].tool.line.as_str());
        }
    }
    for index in lacking {
        let Figure { says, tool, .. } = &FIGURES[index];
        println!("| {says} | `{}` | not installed | | | | | | |", tool.line);
    }
    print!("{}", measured.missing());
    ensure!(
        missed.is_empty(),
        "off by more than 10 % from: {}",
        missed.join("; ")
    );
    Ok(())
}

fn compile(loads: &Path) -> Result<()> {
    // libm, which it does not use, is in lmbench's programs, and makes a fork dearer.
    let options = [
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        "-Wl,--no-as-needed",
        "-lm",
    ];
    guests::compile("cc", &options, &shell::root()?.join(SOURCE), loads).map_err(Error::msg)
}

/// What is measured of a figure. Across CPUs a tool is the same by default as on one, and once is enough.
fn cells(index: usize) -> Vec<Cell> {
    let by_default = (FIGURES[index].cpus == 1).then_some(Who::Default);
    let who = [Who::Ours, Who::Pinned].into_iter().chain(by_default);
    who.map(|who| Cell(index, who)).collect()
}

fn heading(rounds: usize) -> String {
    let machine = fingerprint();
    let or_unknown = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_owned());
    format!(
        "{rounds} interleaved rounds, orders from seed {SEED}. {}, {} CPUs, Linux {}.\n\n\
         | figure | tool | ours, µs | tool, µs | ours over the tool's | within 10 % | spread (CV) of ours | of the tool | \
         of the tool by default |\n|---|---|---:|---:|---|---|---:|---:|---:|\n",
        or_unknown(machine.cpu_model),
        or_unknown(machine.cpus.map(|cpus| cpus.to_string())),
        or_unknown(machine.kernel),
    )
}

/// A figure's row, and whether the figure is within the limit.
fn row(measured: &Rounds<Cell>, index: usize) -> (String, &'static str) {
    let [ours, pinned, by_default] = [Who::Ours, Who::Pinned, Who::Default].map(|who| Cell(index, who));
    let ratio = measured.ratio(ours, pinned);
    let met = within(ratio.as_ref(), LIMITS);
    let figure = &FIGURES[index];
    let scatter = |cell| scatter(measured.spread(cell));
    let text = format!(
        "| {} | `{}` | {} | {} | {} | {} | {} | {} | {} |\n",
        figure.says,
        figure.tool.line,
        middle(measured.spread(ours), US),
        middle(measured.spread(pinned), US),
        estimate(ratio.as_ref()),
        if figure.limited { met } else { "they differ" },
        scatter(ours),
        scatter(pinned),
        scatter(by_default),
    );
    (text, met)
}

fn scatter(of: Option<Spread>) -> String {
    let cv = of.and_then(|of| of.cv);
    cv.map_or_else(|| NOTHING.to_owned(), |cv| format!("{} %", number(100.0 * cv)))
}

impl Programs {
    /// Measures ours once, ns.
    fn measure(&self, ours: &Ours, cpus: &[usize]) -> Result<f64> {
        match ours {
            Ours::Case(case) => case.run(&self.threadgauge, cpus),
            Ours::Less(case, less) => {
                Ok(case.run(&self.threadgauge, cpus)? - less.run(&self.threadgauge, cpus)?)
            }
            Ours::Load(load) => {
                let mut command = tools::pinned(&self.loads, cpus);
                each_ns(&shell::output(command.args(load.split(' ')))?)
            }
        }
    }
}

/// What `loads` says: `done wall_ns=N of=M`.
fn each_ns(said: &str) -> Result<f64> {
    let figures = said.trim().strip_prefix("done wall_ns=");
    let figures = figures.and_then(|figures| figures.split_once(" of="));
    let each = figures.and_then(|(ns, of)| Some(ns.parse::<f64>().ok()? / of.parse::<f64>().ok()?));
    each.with_context(|| format!("{SOURCE} answered {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_of_ours_runs_and_an_unknown_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let programs = Programs {
            threadgauge: PathBuf::from("/nowhere"),
            loads: folder.path().join("loads"),
        };
        compile(&programs.loads).unwrap();
        let cpus: Vec<usize> = allowed_cpus().unwrap().iter().take(1).collect();
        let small = [
            "messages process unix 3 5 100",
            "messages thread pipe 3 5 100",
            "exit 3",
            "stream 100",
        ];
        for load in small {
            assert!(
                programs.measure(&super::load(load), &cpus).unwrap() > 0.0,
                "{load}"
            );
        }
        let said = shell::output(tools::pinned(&programs.loads, &cpus).args(small[0].split(' '))).unwrap();
        assert!(
            said.trim().ends_with(" of=45"),
            "each of 3 sends 5 to each of 3: {said}"
        );
        assert!(programs.measure(&load("sleep 3"), &cpus).is_err());
        for Figure { ours, .. } in FIGURES.iter() {
            if let Ours::Load(load) = ours {
                let known = small.map(|small| small.split(' ').next());
                assert!(known.contains(&load.split(' ').next()), "{load} was not tried");
            }
        }
    }

    #[test]
    fn a_row_has_the_ratio_and_no_limit_where_the_two_differ() {
        let index = |limited| {
            FIGURES
                .iter()
                .position(|figure| figure.limited == limited)
                .unwrap()
        };
        for (index, says) in [(index(true), "**no**"), (index(false), "they differ")] {
            let mut rng = Rng::with_seed(1);
            let measured = Rounds::measure("test", vec![cells(index)], 6, &mut rng, |Cell(_, who)| {
                ensure!(who != Who::Default, "no place");
                Ok(if who == Who::Ours { 500.0 } else { 1000.0 })
            });
            let (row, met) = row(&measured, index);
            assert_eq!(met, "**no**");
            let end = format!("| 0.50 | 1.00 | 0.50 [0.50, 0.50] | {says} | 0 % | 0 % | – |\n");
            assert!(row.ends_with(&end), "{row}");
        }
    }

    #[test]
    fn every_difference_has_a_row_without_it() {
        for pair in FIGURES.windows(2).filter(|pair| !pair[0].limited) {
            assert!(
                pair[1].limited && pair[1].says.starts_with("the same, "),
                "{:?}",
                pair[1]
            );
            assert_eq!(pair[0].tool.program(), pair[1].tool.program());
        }
    }
}
