//! `cargo xtask cross-check`: figures of threadgauge beside those of the tools that people trust.
//!
//! Owns the list of what is compared, the limit (10 % to either side) and the table. How a tool is asked is in
//! [`tools`]; runtimes' own benchmarks, whose limit is 15 %, are in [`runtimes`]. Ours is a case of an experiment, in a
//! worker as `run` starts it; what no experiment has is a load of `guests/c/loads.c`, or the program of `ring` or a
//! guest for longer. Where the two do not measure the same, the next row is without the difference, and the limit is
//! for that one. `docs/limitations.md` says what each of the two measures.

mod runtimes;
mod tools;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Error, Result, ensure};
use clap::Args;
use fastrand::Rng;
use threadgauge_machine::{allowed_cpus, fingerprint};
use threadgauge_results::Runtime;

use crate::figures::{NOTHING, Spread, estimate, middle, number, within};
use crate::rounds::Rounds;
use crate::worker::Case;
use crate::{guests, shell};
use runtimes::Runtimes;
use tools::{On, Tool};

const LOADS: &str = "guests/c/loads.c";
const RING: &str = "guests/c/ring.c";
const SEED: u64 = 0x5EED;
/// When the program of `ring` ends itself.
const DEADLINE_S: &str = "60";
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
    /// The program of `ring`, with the token of [`ACROSS`]: for how many ms it warms up and times.
    Ring([u32; 2]),
}

/// What both measure.
#[derive(Debug)]
struct Figure {
    says: String,
    ours: Ours,
    tool: Tool,
    cpus: usize,
    /// Whether the tool is measured where it would run if nobody pinned it, too.
    by_default: bool,
    /// Whether the limits are for it: not where the two are known to differ.
    limited: bool,
    /// Ours over the tool's must lie between these.
    limits: [f64; 2],
}

/// On one CPU, of a tool whose 1 is so many ns (`one`).
fn figure(says: &str, ours: Ours, line: &str, one: f64) -> Figure {
    Figure {
        says: says.to_owned(),
        ours,
        tool: Tool::new(line, one),
        cpus: 1,
        by_default: true,
        limited: true,
        limits: LIMITS,
    }
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

/// What tools print in µs, of a lap of two hops or of the figure itself.
const HOP_OF_LAP_US: f64 = 1e3 / 2.0;
const US: f64 = 1e3;

/// A message of 100 bytes, of those that each of 20 units sends to each of 20 others, so many times (`loops`). Where
/// few messages are mostly the start and the end of forty units, both tools are asked for `many` too, and the limit is
/// for these.
fn messages(unit: &str, means: &str, loops: u32, many: Option<u32>) -> Vec<Figure> {
    let pipe = if means == "pipe" { " -p" } else { "" };
    let [perf, hackbench] = if unit == "thread" {
        [" -t", " -T"]
    } else {
        ["", ""]
    };
    let of = |says: &str, tool: String, loops| {
        let ours = Ours::Load(format!("messages {unit} {means} 20 {loops} 100"));
        let s = 1e9 / (20.0 * 20.0 * f64::from(loops));
        figure(says, ours, &format!("{tool}{pipe} -g 1 -l {loops}"), s)
    };
    let says = format!("a message, {unit} to {unit}, {means}");
    let perf = |says, loops| of(says, format!("perf bench sched messaging{perf}"), loops);
    let mut figures = vec![perf(&says, loops)];
    if let Some(many) = many {
        figures[0].limited = false;
        figures.push(perf("the same, of more messages", many));
    }
    figures.push(of(&says, format!("hackbench{hackbench}"), many.unwrap_or(loops)));
    figures
}

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    // As long as the tool: a hop across CPUs is not the same after 40 ms and after half a second.
    let across = |line, ms: [u32; 2]| {
        let at = |says, ours, limited| Figure {
            cpus: 2,
            // There it is the same as on one CPU, and once is enough.
            by_default: false,
            limited,
            ..figure(says, ours, line, HOP_OF_LAP_US)
        };
        [
            at("a hop between processes across CPUs", Ours::Case(ACROSS), false),
            at("the same, for as long", Ours::Ring(ms), true),
        ]
    };
    let hop = |says, case, line| figure(says, Ours::Case(case), line, HOP_OF_LAP_US);
    let differs = |says, case, line, one| Figure {
        limited: false,
        ..figure(says, Ours::Case(case), line, one)
    };
    let load = |says, load: &str, line, one| figure(says, Ours::Load(load.to_owned()), line, one);
    let (lat_proc, stress_ng) = (
        "lat_proc -N 1 fork",
        "stress-ng --switch 1 --switch-method pipe --switch-ops 50000 --metrics",
    );
    let exits = "the same, with its libraries and as many page faults a child";
    let one_way = "the same, of messages one way, two switches each";
    let switch = Ours::Less(PROCESSES, TO_ITSELF);
    let mut figures = vec![
        differs("a process, made and reaped", FORK, lat_proc, US),
        load(exits, "exit 1000", lat_proc, US),
        hop(
            "a hop between processes",
            PROCESSES,
            "perf bench sched pipe -l 30000",
        ),
        hop("a hop between processes", PROCESSES, "lat_pipe -N 1"),
        hop(
            "a hop between threads",
            THREADS,
            "perf bench sched pipe -T -l 30000",
        ),
        figure("a switch between processes", switch, "lat_ctx -N 1 -s 0 2", US),
        differs("a hop between processes", PROCESSES, stress_ng, 1.0),
        load(one_way, "stream 50000", stress_ng, 1.0),
    ];
    figures.extend(across("perf bench sched pipe -l 10000", [5, 400]));
    figures.extend(across("lat_pipe -N 1", [200, 1000]));
    figures.extend(messages("process", "unix", 200, Some(1000)));
    figures.extend(messages("thread", "unix", 200, None));
    figures.extend(messages("process", "pipe", 400, Some(3000)));
    figures.extend(messages("thread", "pipe", 400, Some(3000)));
    figures.extend(runtimes::figures());
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
    ring: PathBuf,
}

/// Measures all, prints the table, and fails where the limit is missed.
pub fn run(options: &Options) -> Result<()> {
    let cpus: Vec<usize> = allowed_cpus()?.iter().collect();
    let is_chosen =
        |line: &str| options.only.is_empty() || options.only.iter().any(|word| line.contains(word));
    let chosen: Vec<usize> = (0..FIGURES.len())
        .filter(|&index| is_chosen(&FIGURES[index].tool.line))
        .collect();
    let target = shell::target()?;
    let runtimes = Runtimes::prepare(chosen.iter().map(|&index| &FIGURES[index].tool), &target)?;
    let (found, lacking): (Vec<usize>, Vec<usize>) = chosen
        .into_iter()
        .partition(|&index| lack(index, cpus.len(), &runtimes).is_none());
    ensure!(
        !found.is_empty(),
        "nothing to compare with: install perf, hackbench (rt-tests), stress-ng, lmbench, Go, Java or Python, or choose \
         others (--only)"
    );
    let threadgauge = shell::build(shell::Profile::Release)?;
    let programs = Programs::compile(threadgauge, &target)?;
    let groups = found.iter().map(|&index| cells(index)).collect();
    let mut rng = Rng::with_seed(SEED);
    let measured = Rounds::measure(
        "cross-check",
        groups,
        options.rounds,
        &mut rng,
        |Cell(index, who)| {
            let Figure {
                ours,
                tool,
                cpus: wanted,
                ..
            } = &FIGURES[index];
            let cpus = &cpus[..*wanted];
            let installed = runtimes.installed(tool).map_err(Error::msg)?;
            match who {
                Who::Ours => programs.measure(ours, &installed.program, runtimes.guest(tool), cpus),
                Who::Pinned => tool.run(&installed, On::Pinned(cpus)),
                Who::Default => tool.run(&installed, On::Default),
            }
        },
    );
    print!("{}", heading(options.rounds, &runtimes.versions()));
    let mut missed = Vec::new();
    for index in found {
        let (row, met) = row(&measured, index);
        print!("{row}");
        if FIGURES[index].limited && met == "**no**" {
            missed.push(FIGURES[index].tool.line.as_str());
        }
    }
    for index in lacking {
        let Figure { says, tool, .. } = &FIGURES[index];
        let why = lack(index, cpus.len(), &runtimes).unwrap_or_else(|| NOTHING.to_owned());
        println!("| {says} | `{}` | {why} | | | | | | |", tool.line);
    }
    print!("{}", measured.missing());
    ensure!(
        missed.is_empty(),
        "off by more than the limit from: {}",
        missed.join("; ")
    );
    Ok(())
}

/// Why a figure cannot be measured with so many CPUs, if so.
fn lack(index: usize, cpus: usize, runtimes: &Runtimes) -> Option<String> {
    let figure = &FIGURES[index];
    match runtimes.installed(&figure.tool) {
        Err(why) => Some(why),
        Ok(_) => (figure.cpus > cpus).then(|| "needs two CPUs".to_owned()),
    }
}

/// What is measured of a figure.
fn cells(index: usize) -> Vec<Cell> {
    let by_default = FIGURES[index].by_default.then_some(Who::Default);
    let who = [Who::Ours, Who::Pinned].into_iter().chain(by_default);
    who.map(|who| Cell(index, who)).collect()
}

fn heading(rounds: usize, versions: &str) -> String {
    let machine = fingerprint();
    let or_unknown = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_owned());
    format!(
        "{rounds} interleaved rounds, orders from seed {SEED}. {}, {} CPUs, Linux {}.{versions} Limit: 10 % to either \
         side, 15 % beside a runtime's own benchmark.\n\n\
         | figure | tool | ours, µs | tool, µs | ours over the tool's | within the limit | spread (CV) of ours | the \
         tool's | by default |\n|---|---|---:|---:|---|---|---:|---:|---:|\n",
        or_unknown(machine.cpu_model),
        or_unknown(machine.cpus.map(|cpus| cpus.to_string())),
        or_unknown(machine.kernel),
    )
}

/// A figure's row, and whether the figure is within the limit.
fn row(measured: &Rounds<Cell>, index: usize) -> (String, &'static str) {
    let [ours, pinned, by_default] = [Who::Ours, Who::Pinned, Who::Default].map(|who| Cell(index, who));
    let ratio = measured.ratio(ours, pinned);
    let figure = &FIGURES[index];
    let met = within(ratio.as_ref(), figure.limits);
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
    /// Makes those in C, in `folder`.
    fn compile(threadgauge: PathBuf, folder: &Path) -> Result<Self> {
        let program = |source: &str, name: &str| -> Result<PathBuf> {
            let options = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"];
            let (program, source) = (folder.join(name), shell::root()?.join(source));
            guests::compile("cc", &options, &source, &program).map_err(Error::msg)?;
            Ok(program)
        };
        Ok(Self {
            threadgauge,
            loads: program(LOADS, "loads")?,
            ring: program(RING, "ring")?,
        })
    }

    /// Measures ours once, ns. A load has the shared libraries of the tool's `program` too: each makes a fork dearer.
    fn measure(&self, ours: &Ours, program: &Path, guest: Option<&Runtime>, cpus: &[usize]) -> Result<f64> {
        match ours {
            Ours::Case(case) => case.run_by(&self.threadgauge, cpus, guest),
            Ours::Less(case, less) => {
                Ok(case.run(&self.threadgauge, cpus)? - less.run(&self.threadgauge, cpus)?)
            }
            Ours::Load(load) => {
                let mut command = shell::pinned(&self.loads, cpus);
                command.env("LD_PRELOAD", libraries(program)?);
                each_ns(&shell::output(command.args(load.split(' ')))?)
            }
            Ours::Ring([warm_ms, timed_ms]) => {
                let mut command = shell::pinned(&self.ring, cpus);
                let on: Vec<String> = cpus.iter().map(ToString::to_string).collect();
                let ns = [warm_ms, timed_ms].map(|ms| (u64::from(*ms) * 1_000_000).to_string());
                command.args(["process", "pipe", "2", "0", "to-other", &on.join(",")]);
                each_ns(&shell::output(command.args(ns).arg(DEADLINE_S))?)
            }
        }
    }
}

/// The shared libraries of a program, as `LD_PRELOAD` takes them.
fn libraries(program: &Path) -> Result<String> {
    let said = shell::output(shell::command("ldd").arg(program))?;
    let paths = said
        .lines()
        .filter_map(|line| line.split_once("=> ")?.1.split(' ').next());
    let found = paths.filter(|path| path.starts_with('/'));
    Ok(found.collect::<Vec<_>>().join(" "))
}

/// What a program in C says, `done wall_ns=N of=M` or with its own word for `of`: how long each took.
fn each_ns(said: &str) -> Result<f64> {
    let mut figures = said.trim().strip_prefix("done ").unwrap_or_default().split(' ');
    let mut figure = || figures.next()?.split_once('=')?.1.parse::<f64>().ok();
    let each = figure().zip(figure()).map(|(wall_ns, of)| wall_ns / of);
    each.with_context(|| format!("a program in guests answered {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_of_ours_runs_and_an_unknown_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let programs = Programs::compile(PathBuf::from("/nowhere"), folder.path()).unwrap();
        let cpus: Vec<usize> = allowed_cpus().unwrap().iter().take(1).collect();
        let small = [
            "messages process unix 3 5 100",
            "messages thread pipe 3 5 100",
            "exit 3",
            "stream 100",
        ];
        for load in small {
            assert!(
                programs
                    .measure(&Ours::Load(load.to_owned()), &programs.loads, None, &cpus)
                    .unwrap()
                    > 0.0,
                "{load}"
            );
        }
        let said = shell::output(shell::pinned(&programs.loads, &cpus).args(small[0].split(' '))).unwrap();
        assert!(
            said.trim().ends_with(" of=45"),
            "each of 3 sends 5 to each of 3: {said}"
        );
        assert!(
            programs
                .measure(&Ours::Load("sleep 3".to_owned()), &programs.loads, None, &cpus)
                .is_err()
        );
        assert!(
            programs
                .measure(&Ours::Ring([1, 1]), &programs.ring, None, &cpus)
                .unwrap()
                > 0.0
        );
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
    fn what_needs_two_cpus_is_told_on_one() {
        let none = Runtimes::prepare(std::iter::empty(), Path::new("/nowhere")).unwrap();
        let across = (0..FIGURES.len()).filter(|&index| FIGURES[index].cpus == 2);
        let told: Vec<_> = across
            .map(|index| (lack(index, 1, &none), FIGURES[index].tool.found()))
            .collect();
        assert!(!told.is_empty());
        for (why, found) in told {
            let wanted = if found.is_some() {
                "needs two CPUs"
            } else {
                "not installed"
            };
            assert_eq!(why.as_deref(), Some(wanted));
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
