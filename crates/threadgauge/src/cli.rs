//! The command line: what can be asked, in the words of the user. Completions and the man page come
//! from here too.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use threadgauge_experiments::runtimes::prepare::Asked;
use threadgauge_lab::selection::Selector;
use threadgauge_lab::site::Profile;
use threadgauge_machine::CpuList;
use threadgauge_results::{LARGEST_SEED, Limit};

use crate::commands::advise::options::AdviseOptions;
use crate::commands::load::options::LoadOptions;
use crate::commands::observe::options::ObserveOptions;
use crate::commands::serve::settings::Settings;
use crate::operands::Operands;

/// Measures, on your own machine, what processes, threads and oversubscription cost, with error bars,
/// beside what has been published about them.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    max_term_width = 100,
    after_help = "\
Examples:
  threadgauge                           three to four minutes of measuring, then a report
  threadgauge run create --profile standard
  threadgauge doctor                    what on this machine can spoil a measurement
  threadgauge compare before/ after/ --fail-on slower:5%

Exit codes: 0 done, 1 a check you asked for failed, 2 used wrongly or it could not be done.
A run that a signal ends early keeps what it measured; `run.complete` is false in results.json, and
the exit code 128 and the signal's number: 130 of Ctrl-C. What nohup or a shell ignores stays ignored.
Results go to standard output, everything else to standard error."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure, and write a report; the default command, with the quick profile
    #[command(after_help = "\
Examples:
  threadgauge run
  threadgauge run create print --profile standard --out before
  threadgauge run oversubscription --only count=64,count=1024,mode=yield --rounds 20
  threadgauge run create --set count=5000
  threadgauge run null --case what=clock,cpus=1
  threadgauge run runtimes              what a unit costs in Java, Go, Python, Node and Erlang, beside C
  threadgauge run create --runtime java,java-21=/opt/jdk-21/bin/java
  threadgauge run --resume threadgauge-results/2026-11-21-4f2a
  threadgauge run create --baseline main    and later: threadgauge compare main DIR
  threadgauge run --out a --turns t & nice threadgauge run --out b --turns t; wait; threadgauge compare a b")]
    Run(RunOptions),
    /// The experiments: what each asks, where it comes from, how long it takes
    #[command(after_help = "Example:\n  threadgauge list --profile standard")]
    List(ListOptions),
    /// What an experiment measures, how, and what the sources published
    #[command(after_help = "Example:\n  threadgauge explain create")]
    Explain {
        /// Its name, as in `threadgauge list`
        experiment: String,
    },
    /// Every published claim, and what a run, or several side by side, say about it
    #[command(after_help = "\
Examples:
  threadgauge claims
  threadgauge claims threadgauge-results/2026-11-21-4f2a --json
  threadgauge claims threadgauge-results/2026-11-21-4f2a --verdict held,not-held
  threadgauge claims old-kernel new-kernel    what each run says, side by side
  threadgauge claims --source JAWS --text reactor")]
    Claims(ClaimsOptions),
    /// Runs side by side: what changed, by how much, and how certain that is
    #[command(after_help = "\
Examples:
  threadgauge compare before after
  threadgauge compare before after --fail-on slower:5%,unknown:20% --format markdown
  threadgauge compare --base a1 a2 a3 -- b1 b2 b3     several runs a side
  threadgauge compare old/ new/                       the same, of folders of runs
  threadgauge compare before after --rerun ../before/threadgauge
  threadgauge compare c5 c6 c7 --format html > three.html   a column a machine")]
    Compare(CompareOptions),
    /// Many runs: each figure's course, and from which run on it changed
    #[command(after_help = "\
Examples:
  threadgauge history                   of threadgauge-results
  threadgauge history kept --format html --out history.html

A folder of runs has results folders, or files that `export` wrote. A figure is the median of a case by
its first metric. Change points are those of E-divisive (Matteson and James, 2014), as Hunter (2023) has
them for benchmarks: looked for from eight runs on, and a new level has three runs at least.")]
    History(HistoryOptions),
    /// What `compare` and `history` need of a run, as one small file to commit or to keep
    #[command(after_help = "\
Examples:
  threadgauge export threadgauge-results/2026-11-21-4f2a
  threadgauge export main --out baseline.run.json.gz
  threadgauge compare baseline.run.json.gz threadgauge-results/2026-11-21-4f2a")]
    Export(ExportOptions),
    /// Write the report again from stored results
    #[command(after_help = "Example:\n  threadgauge report threadgauge-results/2026-11-21-4f2a")]
    Report(ReportOptions),
    /// What on this machine can spoil a measurement, and how to fix it; changes nothing
    #[command(after_help = "Example:\n  threadgauge doctor --seconds 2")]
    Doctor(DoctorOptions),
    /// Serve a protocol on a concurrency design until SIGTERM or Ctrl-C
    #[command(after_help = "\
Examples:
  threadgauge serve --list              which protocol runs on which design, and why not
  threadgauge serve groups              on port 4222, as NATS' clients expect it
  threadgauge serve echo --design iterative --listen 127.0.0.1:7000
  threadgauge serve --config server.toml --listen 0.0.0.0:7000

A file uses the names of the options. Those of the protocol groups are in a table of their own.
An option on the command line wins over the file:
  protocol = \"groups\"
  listen = 4222
  [groups]
  token = \"secret\"

The first line on standard error is `listening on ADDRESS`. The first SIGTERM or Ctrl-C stops
accepting and drains the open connections; the second ends the server at once. The summary goes
to standard output.")]
    Serve(ServeOptions),
    /// Load a server with clients of a protocol, and say how it answered
    #[command(after_help = "\
Examples:
  threadgauge load http --target http://localhost:8080/ --rate 2000
  threadgauge load http --target 8080 --loop fast --connections 64 --duration 5s
  threadgauge load groups --target 4222 --connections 1000 --rate 500
  threadgauge load echo --target 7000 --steps 1k,2k,5k,10k --slo 'p99<5ms'
  threadgauge load http --target 8080 --find-max --slo 'p99<5ms,errors<0.1%'

In an open loop (the default) the latency of a request counts from the moment when it was to start,
so that a server that stops for a second is seen to. A run that did not reach its rate, or whose
generator was busy itself, is invalid and says so.

Exit codes: 0 done, 1 the run is invalid, --slo is not met or something came wrong, 2 used wrongly
or no connection, 130 ended early by Ctrl-C, which keeps what was measured, and marks it.")]
    Load(LoadOptions),
    /// Why a live program is as fast as it is: running, waiting, blocked, throttled
    #[command(after_help = "\
Examples:
  threadgauge observe 1234              process 1234 and all below it, for ten seconds
  threadgauge observe 1234 --for 1m --rate 2000
  threadgauge observe 1234 --counter 'http://localhost:9090/metrics#http_requests_total'
  threadgauge observe --command 'make -j8' --out build
  threadgauge observe --command 'gzip -kc big' --requests 1

What is observed is never attached to, stopped or changed. Special rights are not needed, but of a
process of another user less can be read; what is missing is said. Observing takes less than 1 % of
a CPU; how much it took is said. With --requests, --rate, --counter or --log the CPU time and the
waits of one task are told, with intervals from 20 looks on.

Exit codes: 0 done, also where the process ended meanwhile; 2 used wrongly, or there was nothing to
observe; 130 ended early by Ctrl-C, which ends with the report of what was seen.")]
    Observe(ObserveOptions),
    /// How many, and which design, for a workload: predicted from what units cost here
    #[command(after_help = "\
Examples:
  threadgauge advise --rate 1000/h --cpu 200ms --wait 30ms
  threadgauge advise --tasks 500 --wait 120ms
  threadgauge advise --connections 5000 --messages 6/min --fan-out 20
  threadgauge advise --rate 40/s --cpu 25ms --wait 20ms --cpu-count 96 --quota 1.5 --program gunicorn
  threadgauge advise --tasks 40 --cpu 2s --spread 80% --useful each --lengths known
  threadgauge advise --like 1234 --rate 50/s --now 8
  threadgauge advise --file workload.toml --json

The first line says whether it matters at all. Then: what to do, with its figures beside those of other
ways; what rules of thumb would cost; what would change the answer; and what all of it rests on. Costs
are those of the newest run of this machine in ./threadgauge-results or in the current folder.
What is missing is asked for on a terminal, or assumed and said.")]
    Advise(Box<AdviseOptions>),
    /// Run one case in a process of its own; started by `run`
    #[command(hide = true)]
    Worker,
    /// The man page or shell completions, to standard output
    #[command(hide = true)]
    Generate {
        /// What to write
        what: Generated,
    },
}

impl Default for Command {
    fn default() -> Self {
        Self::Run(RunOptions::default())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ProfileName {
    /// Three to four minutes for a first run
    #[default]
    Quick,
    /// About an hour, where all are named
    Standard,
    /// As the sources did, and more rounds: hours
    Paper,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Quick => Self::Quick,
            ProfileName::Standard => Self::Standard,
            ProfileName::Paper => Self::Paper,
        }
    }
}

#[derive(Debug, Default, Args)]
pub struct RunOptions {
    /// Experiments to run; those of a first run if none is named (`list` says which run by name only). `runtimes` alone
    /// is create, ring and footprint, with the cells of one table over all runtimes that are found; `gate` alone is
    /// thirteen cases of several that vary little, in 32 rounds: for a gate
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,
    /// How much to run
    #[arg(long, value_enum, default_value_t)]
    pub profile: ProfileName,
    /// Only the cases with these parameters; several values of one name (count=2,5) are alternatives
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub only: Vec<Selector>,
    /// Only this case, by its id as `list --cases` prints it; may be given several times. Where no experiment is
    /// named, that of the id: create/unit=thread,…
    #[arg(long, value_name = "CASE", conflicts_with = "only")]
    pub case: Vec<String>,
    /// Replace parameters of the cases; several values of one name (count=2,5) make cases of their own
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub set: Vec<Selector>,
    /// Runtimes beside C, where experiments have cases for them: all, or some of java, go, python, node and erlang. A
    /// version beside another has a name of its own, with where its program is: java-mine=/opt/jdk/bin/java
    #[arg(long, value_name = "NAME[=PATH],…", value_delimiter = ',')]
    pub runtime: Vec<Asked>,
    /// Of turnaround: a command of your own, run once for each item of --items, which takes the place of {}; it is
    /// split into words as a shell does, and no shell runs it
    #[arg(long, value_name = "COMMAND", requires = "items", conflicts_with_all = ["turns"])]
    pub each: Option<String>,
    /// The items of --each: a file with one a line, or - for standard input
    #[arg(long, value_name = "LIST", requires = "each")]
    pub items: Option<PathBuf>,
    /// Exactly this many rounds, at least 1; 6 or more give intervals
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Seed of the shuffles, below 2^53; random if not given, and stored with the results
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    pub seed: Option<u64>,
    /// CPUs to measure on, e.g. 0,2-3; all that this process may use if not given
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// The results folder; must not hold results yet
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Alternate, try by try, with another run that is given the same path; a socket is made there.
    /// The machine's changes then fall on both runs, and `compare` pairs them by round
    #[arg(long, value_name = "PATH")]
    pub turns: Option<PathBuf>,
    /// Run this by a shell before each try, to put the machine into the state that is to be measured. It is your own
    /// command: what it changes stays changed
    #[arg(long, value_name = "COMMAND")]
    pub before_try: Option<String>,
    /// Measure two states of the machine in turns, try by try, and compare them: each command is run by a shell before
    /// the tries in its state. They are your own commands: what they change stays changed. The folder has a run of
    /// each. A state may be CPUs in place of a command: cpus=0,2-3, cpus=one-a-core or cpus=all
    #[arg(long, num_args = 2, value_names = ["COMMAND", "COMMAND"], conflicts_with_all = ["turns", "before_try", "baseline", "each", "resume", "json", "tables"])]
    pub switch: Vec<String>,
    /// Which side of a --switch it is
    #[arg(long, hide = true, requires = "turns")]
    pub side: Option<String>,
    /// Give the run this name, by which `compare` finds it; in place of the run that had it
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Continue an interrupted run: same cases, same seed, nothing measured twice
    #[arg(long, value_name = "DIR", conflicts_with_all = ["experiments", "profile", "only", "case", "set", "runtime", "each", "items", "rounds", "seed", "cpus", "out", "turns", "before_try", "handicap"])]
    pub resume: Option<PathBuf>,
    /// Exit with 1 when a case failed
    #[arg(long)]
    pub strict: bool,
    /// Print results.json to standard output instead of a summary
    #[arg(long)]
    pub json: bool,
    /// Print every case and every finding instead of a summary
    #[arg(long, conflicts_with = "json")]
    pub tables: bool,
    /// Per cent of extra work in every timed section: the harness's own test
    #[arg(long, hide = true, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub handicap: u32,
}

#[derive(Debug, Args)]
pub struct ListOptions {
    /// For which profile
    #[arg(long, value_enum, default_value_t)]
    pub profile: ProfileName,
    /// Every case with its parameters
    #[arg(long)]
    pub cases: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(mut_arg("dirs", |dirs| dirs.help(
    "Results folders, names of baselines, or folders of runs, which are one side of all the runs in them. Each side is a \
     column. What `export` wrote has not all figures that claims need"
)))]
pub struct ClaimsOptions {
    #[command(flatten)]
    pub operands: Operands,
    /// Only claims that stand so; several are alternatives
    #[arg(long, value_enum, value_name = "VERDICT", value_delimiter = ',')]
    pub verdict: Vec<Standing>,
    /// Only claims of this source: a part of its name or year, or its number; several are alternatives
    #[arg(long, value_name = "NAME")]
    pub source: Vec<String>,
    /// Only claims that have this in their words or id, in either case
    #[arg(long, value_name = "WORDS")]
    pub text: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Where a claim stands, coarser than its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Standing {
    /// It holds here
    Held,
    /// It does not hold here
    NotHeld,
    /// Inconclusive, not measured in this run, or not run
    Open,
    /// Not testable on this machine
    Elsewhere,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For reading
    #[default]
    Text,
    /// For a pull request, at most 60 KB
    Markdown,
    /// For programs
    Json,
    /// A page with the charts of both
    Html,
    /// For build servers: test results as JUnit XML
    Junit,
    /// For GitHub Actions: annotations
    Github,
    /// What an endpoint badge of shields.io reads, as JSON
    Badge,
    /// The badge itself
    BadgeSvg,
}

#[derive(Debug, Args)]
pub struct CompareOptions {
    #[command(flatten)]
    pub operands: Operands,
    /// Exit with 1 when more than this is so; several all count. slower:5%: the whole interval of a case lies beyond.
    /// unknown:20%: nothing is known of so large a share of the cases. Without the latter a comparison in which nothing
    /// at all is known fails
    #[arg(long, value_name = "slower:N%|unknown:N%", value_delimiter = ',')]
    pub fail_on: Vec<Limit>,
    /// Measure again what is flagged, in turns: this program of the base beside the one that compares. What the pairs
    /// say then counts
    #[arg(long, value_name = "PROGRAM")]
    pub rerun: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

impl CompareOptions {
    pub const fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum HistoryFormat {
    /// For reading
    #[default]
    Text,
    /// A page with charts
    Html,
    /// For programs
    Json,
}

#[derive(Debug, Args)]
pub struct HistoryOptions {
    /// A folder of runs; threadgauge-results if not given
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// How to write it
    #[arg(long, value_enum, default_value_t)]
    pub format: HistoryFormat,
    /// Write it into this file and not to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ExportOptions {
    /// The results folder, or the name of a baseline
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The file; in the current folder by the name of the results folder if not given
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ReportOptions {
    /// The results folder
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Write the report here and leave the results folder as it is
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write no report, and print one chart as SVG, as quota/tail
    #[arg(long, value_name = "EXPERIMENT/CHART", conflicts_with = "out")]
    pub chart: Option<String>,
}

#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// How long the noise probe watches
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ServeOptions {
    /// Which protocols run on which designs, and why not
    #[arg(long, conflicts_with = "config")]
    pub list: bool,
    /// The summary, or the list, as JSON
    #[arg(long)]
    pub json: bool,
    /// A TOML file with settings
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    Man,
    Bash,
    Zsh,
    Fish,
}
