//! What can be asked of `threadgauge advise`: a workload in flags, or in a file with the names of the flags.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, ValueEnum};
use threadgauge_advise::quantity::{Bytes, Count, Rate, Share, Spread};
use threadgauge_advise::settings::programs;
use threadgauge_advise::{Description, workload};
use threadgauge_load::Span;

use crate::commands::observe::options::process_id;

/// A workload, as far as the user says it. A value below nothing is refused as a value, not taken for an option.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub struct WorkloadOptions {
    /// So many tasks, all there at the start
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "N",
        help_heading = "How tasks come"
    )]
    pub tasks: Option<Count>,
    /// Or so many as they come, as 50/s, 90/min or 1000/h
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "RATE",
        help_heading = "How tasks come"
    )]
    pub rate: Option<Rate>,
    /// Or so many clients that stay connected, as of a chat
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "N",
        help_heading = "How tasks come"
    )]
    pub connections: Option<Count>,
    /// Messages of each client, as 6/min
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "RATE",
        help_heading = "How tasks come"
    )]
    pub messages: Option<Rate>,
    /// To how many others a message goes
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "N",
        help_heading = "How tasks come"
    )]
    pub fan_out: Option<Count>,
    /// CPU time of a task
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "TIME",
        help_heading = "What a task is"
    )]
    pub cpu: Option<Span>,
    /// For how long a task waits for others: a disk, a network, a database
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "TIME",
        help_heading = "What a task is"
    )]
    pub wait: Option<Span>,
    /// By how much tasks differ: the standard deviation over the mean, as 50%
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "SHARE",
        help_heading = "What a task is"
    )]
    pub spread: Option<Spread>,
    /// Memory of a task at work, as 64MiB
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "BYTES",
        help_heading = "What a task is"
    )]
    pub memory: Option<Bytes>,
    /// The part of its CPU time in which a task holds a lock that others want, as 10%
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "SHARE",
        help_heading = "What a task is"
    )]
    pub lock: Option<Share>,
    /// Threads that the library of a task starts for it
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "N",
        help_heading = "What a task is"
    )]
    pub inner_threads: Option<Count>,
    /// Data that a task is given, or that is passed on between stages
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "BYTES",
        help_heading = "What a task is"
    )]
    pub passes: Option<Bytes>,
    /// Stages of a task that pass data on, one to the next
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "N",
        help_heading = "What a task is"
    )]
    pub stages: Option<Count>,
    /// So many at once is what those allow for whom tasks wait, as connections of a database
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "N",
        help_heading = "What bounds it"
    )]
    pub limit: Option<Count>,
    /// So many in a time do they allow, as 100/s
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "RATE",
        help_heading = "What bounds it"
    )]
    pub limit_rate: Option<Rate>,
    /// A task may crash or leak, and is not to harm the others
    #[arg(long, help_heading = "What bounds it")]
    pub isolate: bool,
    /// A person waits meanwhile, before the same program
    #[arg(long, help_heading = "What is wanted")]
    pub interactive: bool,
    /// Whether each result is of use at once, or only all together
    #[arg(long, value_enum, value_name = "WHEN", help_heading = "What is wanted")]
    pub useful: Option<Useful>,
    /// What is known of the lengths of tasks before they run
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "What bounds it")]
    pub lengths: Option<Lengths>,
    /// Each task needs the result of the one before it
    #[arg(long, help_heading = "What bounds it")]
    pub depend: bool,
    /// Threads or processes come and go with tasks, and are not kept
    #[arg(long, help_heading = "What bounds it")]
    pub come_and_go: bool,
    /// It may outgrow one machine
    #[arg(long, help_heading = "What is wanted")]
    pub outgrow: bool,
    /// 99 of 100 tasks are to be done within this
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "TIME",
        help_heading = "What is wanted"
    )]
    pub goal: Option<Span>,
    /// In which language it is written
    #[arg(long, value_enum, value_name = "NAME", help_heading = "What bounds it")]
    pub language: Option<Language>,
    /// How many at once there are now
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "N",
        help_heading = "What is wanted"
    )]
    pub now: Option<Count>,
}

/// When results are of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Useful {
    /// Each at once
    Each,
    /// Only all together
    Together,
}

/// What is known of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lengths {
    /// Which are longer than which
    Known,
    /// Between which bounds they are
    Range,
    /// Nothing
    Unknown,
}

/// A language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    C,
    Cpp,
    Rust,
    Go,
    Java,
    Python,
    Node,
    Ruby,
    Erlang,
    Other,
}

#[derive(Debug, Args)]
pub struct AdviseOptions {
    #[command(flatten)]
    pub workload: WorkloadOptions,
    /// The workload in a TOML file with the names of these options (rate = "1000/h"); an option on the command line
    /// wins
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Observe this process for CPU time and waits of a task; needs --rate, how many tasks a second it does now
    #[arg(long, value_name = "PID", value_parser = process_id, allow_negative_numbers = true, requires = "rate")]
    pub like: Option<i32>,
    /// CPUs of the machine it is for, if not this one
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "N",
        help_heading = "The machine"
    )]
    pub cpu_count: Option<Count>,
    /// CPUs' worth of time that a container may use, as 1.5
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "CPUS",
        help_heading = "The machine"
    )]
    pub quota: Option<f64>,
    /// Memory that it may have
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "BYTES",
        help_heading = "The machine"
    )]
    pub memory_limit: Option<Bytes>,
    /// Take costs, and the machine, from this run: a results folder or its results.json
    #[arg(long, value_name = "DIR", help_heading = "The machine")]
    pub from: Option<PathBuf>,
    /// Say it as settings of this program, too
    #[arg(long, value_name = "PROGRAM", value_parser = PossibleValuesParser::new(programs()))]
    pub program: Option<String>,
    /// Then measure a twin of the workload here: the advised way, its neighbours, --now and rules of thumb
    #[arg(long)]
    pub measure: bool,
    /// Rounds of measuring; 6 or more give intervals
    #[arg(long, value_name = "N", requires = "measure", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The results folder of what is measured; must not hold results yet
    #[arg(long, value_name = "DIR", requires = "measure")]
    pub out: Option<PathBuf>,
    /// Measure these numbers at once in place of the usual ways
    #[arg(
        long,
        value_name = "N,…",
        requires = "measure",
        value_delimiter = ',',
        hide = true
    )]
    pub degrees: Vec<usize>,
    /// Draw what each number at once does, with the advised one among them, as SVG into this file
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Words that say a workload, elsewhere than on the command line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    workload: WorkloadOptions,
}

impl WorkloadOptions {
    /// Those of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read or holds something else, with the nearest known word for an unknown one.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::of_toml(&text).with_context(|| format!("{} is no workload", file.display()))
    }

    fn of_toml(text: &str) -> Result<Self> {
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| anyhow!("{error}"))?;
        let mut words = Vec::new();
        for (name, value) in &table {
            match value {
                toml::Value::String(text) => words.push(format!("--{name}={text}")),
                toml::Value::Integer(number) => words.push(format!("--{name}={number}")),
                toml::Value::Float(number) => words.push(format!("--{name}={number}")),
                toml::Value::Boolean(true) => words.push(format!("--{name}")),
                toml::Value::Boolean(false) => {}
                _ => bail!("`{name}` is a list or a table; it is one value, as in rate = \"1000/h\""),
            }
        }
        Self::of_words(&words)
    }

    /// Those of words as on the command line.
    ///
    /// # Errors
    ///
    /// What clap says of them, in a line.
    pub fn of_words(words: &[String]) -> Result<Self> {
        let parsed = Words::try_parse_from(words).map_err(|error| {
            let text = error.to_string();
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let useful =
                lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
            anyhow!(useful.collect::<Vec<_>>().join("; ").replace("error: ", ""))
        })?;
        Ok(parsed.workload)
    }

    /// These, and what they leave out from `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            tasks: self.tasks.or(others.tasks),
            rate: self.rate.or(others.rate),
            connections: self.connections.or(others.connections),
            messages: self.messages.or(others.messages),
            fan_out: self.fan_out.or(others.fan_out),
            cpu: self.cpu.or(others.cpu),
            wait: self.wait.or(others.wait),
            spread: self.spread.or(others.spread),
            memory: self.memory.or(others.memory),
            lock: self.lock.or(others.lock),
            inner_threads: self.inner_threads.or(others.inner_threads),
            passes: self.passes.or(others.passes),
            stages: self.stages.or(others.stages),
            limit: self.limit.or(others.limit),
            limit_rate: self.limit_rate.or(others.limit_rate),
            isolate: self.isolate || others.isolate,
            interactive: self.interactive || others.interactive,
            useful: self.useful.or(others.useful),
            lengths: self.lengths.or(others.lengths),
            depend: self.depend || others.depend,
            come_and_go: self.come_and_go || others.come_and_go,
            outgrow: self.outgrow || others.outgrow,
            goal: self.goal.or(others.goal),
            language: self.language.or(others.language),
            now: self.now.or(others.now),
        }
    }

    /// What they say.
    #[must_use]
    pub fn description(&self) -> Description {
        let seconds = |span: Option<Span>| span.map(|Span(time)| time.as_secs_f64());
        Description {
            tasks: self.tasks,
            rate: self.rate,
            connections: self.connections,
            messages: self.messages,
            fan_out: self.fan_out,
            cpu_s: seconds(self.cpu),
            wait_s: seconds(self.wait),
            spread: self.spread,
            memory: self.memory,
            lock: self.lock,
            inner_threads: self.inner_threads,
            limit: self.limit,
            limit_rate: self.limit_rate,
            isolate: self.isolate,
            interactive: self.interactive,
            useful: self.useful.map(|useful| match useful {
                Useful::Each => workload::Useful::Each,
                Useful::Together => workload::Useful::Together,
            }),
            lengths: self.lengths.map(|lengths| match lengths {
                Lengths::Known => workload::Lengths::Known,
                Lengths::Range => workload::Lengths::Range,
                Lengths::Unknown => workload::Lengths::Unknown,
            }),
            depend: self.depend,
            stages: self.stages,
            passes: self.passes,
            come_and_go: self.come_and_go,
            outgrow: self.outgrow,
            goal_s: seconds(self.goal),
            language: self.language.map(|language| match language {
                Language::C => workload::Language::C,
                Language::Cpp => workload::Language::Cpp,
                Language::Rust => workload::Language::Rust,
                Language::Go => workload::Language::Go,
                Language::Java => workload::Language::Java,
                Language::Python => workload::Language::Python,
                Language::Node => workload::Language::Node,
                Language::Ruby => workload::Language::Ruby,
                Language::Erlang => workload::Language::Erlang,
                Language::Other => workload::Language::Other,
            }),
            now: self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<WorkloadOptions> {
        WorkloadOptions::of_words(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_file_says_what_flags_say_and_flags_win() {
        let file = WorkloadOptions::of_toml("rate = \"1000/h\"\ncpu = \"200ms\"\nnow = 4\nisolate = true\n")
            .unwrap();
        assert_eq!(
            file,
            words("--rate 1000/h --cpu 200ms --now 4 --isolate").unwrap()
        );
        let both = words("--cpu 1s").unwrap().or(file);
        assert_eq!(both, words("--rate 1000/h --cpu 1s --now 4 --isolate").unwrap());
    }

    #[test]
    fn a_file_that_says_something_else_names_the_word() {
        let says = |text: &str| format!("{:#}", WorkloadOptions::of_toml(text).unwrap_err());
        assert!(says("ratte = 5").contains("--ratte") && says("ratte = 5").contains("--rate"));
        let wrong = says("cpu = \"-1ms\"");
        assert!(wrong.contains("--cpu") && wrong.contains("-1ms"), "{wrong}");
        assert!(says("tasks = [1]").contains("one value"));
        assert!(says("tasks = ").contains("line 1"));
        assert!(says("lengths = \"short\"").contains("known"));
    }
}
