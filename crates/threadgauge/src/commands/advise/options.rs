//! What can be asked of `threadgauge advise`: a workload, a machine and a program, in flags or in a file with the names
//! of the flags; and what answers a question on a terminal.

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
        value_parser = span_with_unit,
        allow_hyphen_values = true,
        value_name = "TIME",
        help_heading = "What a task is"
    )]
    pub cpu: Option<Span>,
    /// For how long a task waits for others: a disk, a network, a database
    #[arg(
        long,
        value_parser = span_with_unit,
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
        value_parser = span_with_unit,
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

/// The machine that it is for, as far as the user says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub struct MachineOptions {
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
}

/// All that a file says, too: a workload, the machine that it is for, and the program whose settings are wanted.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Question {
    #[command(flatten)]
    pub workload: WorkloadOptions,
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Say it as settings of this program, too
    #[arg(long, value_name = "PROGRAM", value_parser = PossibleValuesParser::new(programs()))]
    pub program: Option<String>,
}

#[derive(Debug, Args)]
pub struct AdviseOptions {
    #[command(flatten)]
    pub question: Question,
    /// The workload in a TOML file with the names of these options (rate = "1000/h"), those of the machine and the
    /// program, too (quota = 1.5); an option on the command line wins
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Observe this process for CPU time and waits of a task, and for the CPUs, the quota and the memory that it may
    /// use; needs --rate, how many tasks it does now
    #[arg(long, value_name = "PID", value_parser = process_id, allow_negative_numbers = true)]
    pub like: Option<i32>,
    /// Take costs, and the machine, from this run: a results folder or its results.json
    #[arg(long, value_name = "DIR", help_heading = "The machine")]
    pub from: Option<PathBuf>,
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

/// A length of time with its unit, since a bare `200` may be meant in any; only 0 may go without.
fn span_with_unit(text: &str) -> Result<Span, String> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => {
            Err(format!("`{text}` of what? Say {text}ms or {text}s"))
        }
        _ => text.parse(),
    }
}

/// Options as words, elsewhere than on the command line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words<T: Args> {
    #[command(flatten)]
    options: T,
}

/// Options of words as on the command line. An error is what clap says of them, in a line.
fn of_words<T: Args>(words: &[String]) -> Result<T> {
    let parsed = Words::<T>::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let useful = lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
        anyhow!(useful.collect::<Vec<_>>().join("; ").replace("error: ", ""))
    })?;
    Ok(parsed.options)
}

impl Question {
    /// What a file asks.
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
                // Nothing is said by it, but a wrong name is as wrong as with `true`.
                toml::Value::Boolean(false) => {
                    of_words::<Self>(&[format!("--{name}")])?;
                }
                _ => bail!("`{name}` is a list or a table; it is one value, as in rate = \"1000/h\""),
            }
        }
        of_words(&words)
    }

    /// This, and what it leaves out from `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            workload: self.workload.or(others.workload),
            machine: self.machine.or(others.machine),
            program: self.program.or(others.program),
        }
    }
}

impl MachineOptions {
    fn or(self, others: Self) -> Self {
        Self {
            cpu_count: self.cpu_count.or(others.cpu_count),
            quota: self.quota.or(others.quota),
            memory_limit: self.memory_limit.or(others.memory_limit),
        }
    }
}

/// The words of an answer to the question for `field`, with the names of options before values that have none. Those
/// come first: of times the CPU time and then the wait, else a rate if there is a `/`, or a number of tasks.
fn named(field: &str, words: &[String]) -> Vec<String> {
    let bare = words.iter().take_while(|word| !word.starts_with("--")).count();
    let (bare, others) = words.split_at(bare);
    let name = |place: usize, value: &str| match (field, place) {
        ("--cpu", 0) => "--cpu",
        ("--cpu", _) => "--wait",
        _ if value.contains('/') => "--rate",
        _ => "--tasks",
    };
    let named = bare.iter().enumerate().map(|(place, word)| {
        let value = word.trim_end_matches(',');
        format!("{}={value}", name(place, value))
    });
    named.chain(others.iter().cloned()).collect()
}

impl WorkloadOptions {
    /// What an answer to the question for `field` says: options as on the command line, or their values alone.
    ///
    /// # Errors
    ///
    /// What clap says of it, in a line.
    pub fn of_answer(field: &str, words: &[String]) -> Result<Self> {
        of_words(&named(field, words))
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

    fn split(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn words(text: &str) -> Result<Question> {
        of_words(&split(text))
    }

    #[test]
    fn a_file_says_what_flags_say_and_flags_win() {
        let file = Question::of_toml(
            "rate = \"1000/h\"\ncpu = \"200ms\"\nnow = 4\nisolate = true\ninteractive = false\nwait = 0\n",
        )
        .unwrap();
        assert_eq!(
            file,
            words("--rate 1000/h --cpu 200ms --now 4 --isolate --wait 0").unwrap()
        );
        let both = words("--cpu 1s").unwrap().or(file);
        assert_eq!(
            both,
            words("--rate 1000/h --cpu 1s --now 4 --isolate --wait 0").unwrap()
        );
    }

    #[test]
    fn a_file_says_the_machine_and_the_program_too() {
        let file = Question::of_toml(
            "cpu-count = 96\nquota = 1.5\nmemory-limit = \"1GiB\"\nprogram = \"gunicorn\"\n",
        )
        .unwrap();
        assert_eq!(
            file,
            words("--cpu-count 96 --quota 1.5 --memory-limit 1GiB --program gunicorn").unwrap()
        );
        let both = words("--quota 2 --program node").unwrap().or(file);
        assert_eq!(
            both,
            words("--cpu-count 96 --quota 2 --memory-limit 1GiB --program node").unwrap()
        );
    }

    #[test]
    fn a_file_that_says_something_else_names_the_word() {
        let says = |text: &str| format!("{:#}", Question::of_toml(text).unwrap_err());
        assert!(says("ratte = 5").contains("--ratte") && says("ratte = 5").contains("--rate"));
        let wrong = says("cpu = \"-1ms\"");
        assert!(wrong.contains("--cpu") && wrong.contains("-1ms"), "{wrong}");
        assert!(says("tasks = [1]").contains("one value"));
        assert!(says("tasks = ").contains("line 1"));
        assert!(says("lengths = \"short\"").contains("known"));
        assert!(says("foo = false").contains("--foo"), "{}", says("foo = false"));
        assert!(says("cpu = false").contains("--cpu"), "{}", says("cpu = false"));
        // What only a command line can say.
        assert!(says("measure = true").contains("--measure"));
    }

    #[test]
    fn a_time_without_a_unit_is_refused_but_for_none() {
        for name in ["cpu", "wait", "goal"] {
            let wrong = format!("{:#}", words(&format!("--{name} 200")).unwrap_err());
            assert!(wrong.contains("`200` of what? Say 200ms or 200s"), "{wrong}");
            assert!(words(&format!("--{name} 0")).is_ok(), "{name}");
        }
        assert_eq!(
            span_with_unit("1m30s"),
            Ok(Span(std::time::Duration::from_secs(90)))
        );
        for wrong in ["-1", "nan", "inf", ""] {
            let why = span_with_unit(wrong).unwrap_err();
            assert!(why.contains("is no length of time"), "{why}");
        }
    }

    #[test]
    fn an_answer_is_values_alone_or_options() {
        let named = |field: &str, answer: &str| named(field, &split(answer)).join(" ");
        assert_eq!(named("--cpu", "200ms"), "--cpu=200ms");
        assert_eq!(named("--cpu", "200ms, 30ms"), "--cpu=200ms --wait=30ms");
        assert_eq!(named("--cpu", "200ms --wait 30ms"), "--cpu=200ms --wait 30ms");
        assert_eq!(named("--rate", "1000/h"), "--rate=1000/h");
        assert_eq!(named("--rate", "500"), "--tasks=500");
        assert_eq!(named("--rate", "--connections 5000"), "--connections 5000");
        let wrong = WorkloadOptions::of_answer("--cpu", &split("1ms 2ms 3ms")).unwrap_err();
        assert!(wrong.to_string().contains("--wait"), "{wrong}");
    }
}
