//! What can be asked of `threadgauge load`, and what is refused before anything connects.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use threadgauge_load::{Arrivals, BitRate, Pace, Ramp, Sizes, Slo, Span};
use threadgauge_results::LARGEST_SEED;

use crate::commands::serve::values::Whole;

/// What clients speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Speaks {
    /// HTTP/1.1, to any server
    Http,
    /// A line with a number, that many bytes back: Stevens' clients, to `serve bytes`
    Bytes,
    /// Every byte comes back: any echo server
    Echo,
    /// Core NATS: what a member sends goes to the others of its group; any NATS server
    Groups,
    /// Lines to everyone else in the room, to `serve chat`
    Chat,
}

impl Speaks {
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Bytes => "bytes",
            Self::Echo => "echo",
            Self::Groups => "groups",
            Self::Chat => "chat",
        }
    }

    /// Whether what one says goes to others.
    pub fn is_group(self) -> bool {
        matches!(self, Self::Groups | Self::Chat)
    }
}

/// When requests start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Loop {
    /// At a fixed rate, whatever becomes of those before
    #[default]
    Open,
    /// Each connection asks again after an answer (groups, chat: when all have its message) and a thought
    Closed,
    /// As fast as possible: each connection asks again at once
    Fast,
}

/// How they follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Arrive {
    /// Independently, as from many people
    #[default]
    Poisson,
    /// At equal distances
    Uniform,
}

impl From<Arrive> for Arrivals {
    fn from(arrive: Arrive) -> Self {
        match arrive {
            Arrive::Poisson => Self::Poisson,
            Arrive::Uniform => Self::Uniform,
        }
    }
}

/// The highest rate of all connections together, a second.
const HIGHEST_RATE: f64 = 1e8;

/// A rate, a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, per) = match text.strip_suffix('k') {
            Some(digits) => (digits, 1e3),
            None => (text, 1.0),
        };
        match digits.parse::<f64>().map(|rate| rate * per) {
            Ok(rate) if rate > 0.0 && rate <= HIGHEST_RATE => Ok(Self(rate)),
            _ => Err(format!(
                "`{text}` is no rate: it is a number a second above 0 and up to 100,000,000, as 500, 0.5 or 20k are"
            )),
        }
    }
}

fn whole(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map(|Whole(number)| number)
}

/// Which process is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Watching {
    /// The one that listens at the target, where that is on this machine.
    #[default]
    Found,
    /// This one.
    Process(i32),
    /// None.
    Nobody,
}

impl FromStr for Watching {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Self::Found),
            ("none", _) => Ok(Self::Nobody),
            (_, Ok(pid)) if pid > 0 => Ok(Self::Process(pid)),
            _ => Err(format!(
                "`{text}` is no process: it is a process id, auto or none"
            )),
        }
    }
}

#[derive(Debug, Args)]
pub struct LoadOptions {
    /// What the clients speak
    #[arg(value_enum)]
    pub protocol: Speaks,
    /// The server: HOST:PORT, a port of 127.0.0.1, or http://HOST:PORT/PATH
    #[arg(long, value_name = "ADDR")]
    pub target: String,
    /// How many connections
    #[arg(long, short = 'c', value_name = "N", default_value = "100", value_parser = whole)]
    pub connections: NonZeroUsize,
    /// When requests start
    #[arg(long = "loop", value_enum, default_value_t)]
    pub kind: Loop,
    /// In an open loop, requests (groups, chat: messages) a second of all connections together [default: 1000]
    #[arg(long, short = 'r', value_name = "N")]
    pub rate: Option<Rate>,
    /// In an open loop, requests (groups, chat: messages) a second of each connection, in place of --rate
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "find_max", "go_on"])]
    pub rate_each: Option<Rate>,
    /// How requests follow each other, and whether all thoughts are equally long
    #[arg(long, value_enum, default_value_t)]
    pub arrivals: Arrive,
    /// In a closed loop, the mean time from an answer to the next request, e.g. 100ms
    #[arg(long, value_name = "TIME")]
    pub think: Option<Span>,
    /// Requests (groups, chat: messages) of one connection that may be on their way
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole)]
    pub pipeline: NonZeroUsize,
    /// How long the load holds; only what was to start meanwhile is in the percentiles
    #[arg(long, short = 'd', value_name = "TIME", default_value = "10s")]
    pub duration: Span,
    /// Before that, how long it takes to rise from nothing
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub ramp_up: Span,
    /// After that, how long it takes to fall to nothing
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub ramp_down: Span,
    /// Send no more than this many in a run, of mixed clients all classes together
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: u64,
    /// A request without an answer for so long has failed
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub timeout: Span,
    /// One run after the other: rates in an open loop, else and with --rate-each numbers of connections
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        conflicts_with = "find_max"
    )]
    pub steps: Vec<Rate>,
    /// Find the highest rate that meets --slo: doubling, bisection, three confirmations
    #[arg(long, requires = "slo")]
    pub find_max: bool,
    /// What must hold, else exit with 1: e.g. p99<5ms, mean<2ms (of good answers) or errors<1%, several with commas;
    /// where none is on errors, nothing may fail
    #[arg(long, value_name = "CONDITION,…")]
    pub slo: Option<Slo>,
    /// Of arrivals and thoughts, below 2^53; random if not given, and in the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    pub seed: Option<u64>,
    /// Go on with fewer connections where not all can be made
    #[arg(long)]
    pub go_on: bool,
    /// Load a host that is not this one
    #[arg(long)]
    pub yes_i_may_load_this_host: bool,
    /// Bytes of a message (echo, groups, chat), or of an answer (bytes): 128, 16..1024 for any size in between, or
    /// several with weights, as 128:90,1024:10 [default: 128, bytes: 4000]
    #[arg(long, value_name = "SIZES")]
    pub payload: Option<Sizes>,
    /// A connection for each request (http, bytes)
    #[arg(long)]
    pub close: bool,
    /// The method of requests (http)
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub method: String,
    /// A header of requests, several times for several; it replaces one of ours of the same name (http)
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The body of requests (http)
    #[arg(long, value_name = "TEXT")]
    pub body: Option<String>,
    /// Members of a group (groups, chat)
    #[arg(long, value_name = "N", default_value = "10", value_parser = whole)]
    pub group_size: NonZeroUsize,
    /// A member's own messages come back to it, too (groups)
    #[arg(long)]
    pub own_echo: bool,
    /// Clients of several kinds at once, as this file says (http, bytes, echo; docs/load.md has its words)
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "kind", "rate", "rate_each", "arrivals", "think", "pipeline", "ramp_up", "ramp_down", "steps", "find_max",
        "close",
    ])]
    pub workload: Option<PathBuf>,
    /// The server's process, whose CPU time, memory and switches are shown by second; none watches nothing
    #[arg(long, value_name = "PID|auto|none", default_value = "auto")]
    pub watch: Watching,
    /// A limited link to a server that --start starts behind it, e.g. 100mbit, in network namespaces (needs root)
    #[arg(long, value_name = "RATE", requires = "start")]
    pub link: Option<BitRate>,
    /// The shell's command that starts the server at its end of --link; it must listen at all addresses
    #[arg(long, value_name = "COMMAND", requires = "link")]
    pub start: Option<String>,
    /// Run everything so often, in an order shuffled anew each time; 6 or more give intervals in the report
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "find_max")]
    pub rounds: u32,
    /// Write a results folder as well, with a report; must not hold results yet
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The results as JSON (docs/load.md has the fields)
    #[arg(long)]
    pub json: bool,
}

/// One run: so many connections, at this pace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    pub connections: NonZeroUsize,
    pub pace: Pace,
}

impl LoadOptions {
    /// Members of a group where nothing else is asked for: those of source 002.
    pub const USUAL_GROUP_SIZE: usize = 10;

    /// What contradicts itself, or goes with another protocol.
    pub fn check(&self) -> Result<()> {
        let name = self.protocol.name();
        let is_open = self.kind == Loop::Open;
        ensure!(
            is_open || (self.rate.is_none() && self.rate_each.is_none()),
            "--rate and --rate-each go with --loop open: a closed loop has the rate that the server gives it"
        );
        ensure!(
            self.kind == Loop::Closed || self.think.is_none(),
            "--think goes with --loop closed"
        );
        ensure!(
            is_open || !self.find_max,
            "--find-max searches a rate, so it goes with --loop open"
        );
        ensure!(
            !self.duration.0.is_zero(),
            "--duration 0 measures nothing; say e.g. --duration 10s"
        );
        ensure!(
            !self.timeout.0.is_zero(),
            "--timeout 0 gives no answer a chance; say e.g. --timeout 10s"
        );
        if let Some(slo) = self.slo.as_ref().filter(|_| self.find_max) {
            ensure!(
                self.first_rate() >= self.least_rate(),
                "--slo {slo} cannot be told of what {} at --rate {} bring: it takes {:.0} answers; say a longer \
                 --duration or a higher --rate",
                self.duration,
                self.first_rate(),
                slo.least_answers()
            );
        }
        let http = self.protocol == Speaks::Http;
        let only = |given: bool, flag: &str, of: &str| -> Result<()> {
            ensure!(!given, "{flag} goes with {of}, not with {name}");
            Ok(())
        };
        only(!http && self.method != "GET", "--method", "http")?;
        only(!http && !self.header.is_empty(), "--header", "http")?;
        only(!http && self.body.is_some(), "--body", "http")?;
        only(http && self.payload.is_some(), "--payload", "the other protocols")?;
        let closes = matches!(self.protocol, Speaks::Http | Speaks::Bytes);
        only(!closes && self.close, "--close", "http and bytes")?;
        only(
            self.protocol != Speaks::Groups && self.own_echo,
            "--own-echo",
            "groups",
        )?;
        if self.close && self.pipeline.get() > 1 {
            bail!("--close has a connection for each request: nothing can be pipelined on it");
        }
        let most = self.levels(0).into_iter().filter_map(|level| level.pace.rate());
        ensure!(
            most.fold(0.0, f64::max) <= HIGHEST_RATE,
            "--rate-each of all connections together is over 100,000,000 a second"
        );
        if self.steps_are_connections() {
            for Rate(step) in &self.steps {
                ensure!(
                    step.fract() == 0.0 && *step >= 1.0,
                    "--steps are numbers of connections with --rate-each or without --loop open, and {step} is none"
                );
            }
        }
        Ok(())
    }

    /// Rather than rates.
    fn steps_are_connections(&self) -> bool {
        self.kind != Loop::Open || self.rate_each.is_some()
    }

    /// The name of `--loop`.
    pub fn loop_name(&self) -> &'static str {
        match self.kind {
            // Mixed clients ask again after an answer and a thought.
            _ if self.workload.is_some() => "closed",
            Loop::Open => "open",
            Loop::Closed => "closed",
            Loop::Fast => "fast",
        }
    }

    pub fn ramp(&self) -> Ramp {
        Ramp {
            up: self.ramp_up.0,
            hold: self.duration.0,
            down: self.ramp_down.0,
        }
    }

    /// The rate to begin with, in an open loop.
    pub fn first_rate(&self) -> f64 {
        self.rate_of(self.connections)
    }

    /// Of so many connections together, in an open loop.
    fn rate_of(&self, connections: NonZeroUsize) -> f64 {
        match self.rate_each {
            Some(Rate(each)) => each * connections.get() as f64,
            None => self.rate.map_or(1_000.0, |rate| rate.0),
        }
    }

    /// The lowest rate whose answers tell whether `--slo` holds.
    pub fn least_rate(&self) -> f64 {
        let answers = self.slo.as_ref().map_or(0.0, Slo::least_answers);
        let of_each = match self.protocol.is_group() {
            true => self.group_size.get() as f64 - f64::from(u8::from(!self.own_echo)),
            false => 1.0,
        };
        // Chance brings fewer now and then.
        let enough = answers / of_each.max(1.0);
        (enough + 4.0 * enough.sqrt()) / self.duration.0.as_secs_f64()
    }

    /// The runs, in order.
    pub fn levels(&self, seed: u64) -> Vec<Level> {
        let of = |connections, rate| Level {
            connections,
            pace: self.pace(rate, seed),
        };
        if self.steps.is_empty() {
            return vec![of(self.connections, self.first_rate())];
        }
        let step = |&Rate(step): &Rate| match self.steps_are_connections() {
            true => {
                let connections = NonZeroUsize::new(step as usize).unwrap_or(self.connections);
                of(connections, self.rate_of(connections))
            }
            false => of(self.connections, step),
        };
        self.steps.iter().map(step).collect()
    }

    pub fn pace(&self, per_second: f64, seed: u64) -> Pace {
        let arrivals = self.arrivals.into();
        match self.kind {
            Loop::Open => Pace::Open {
                per_second,
                arrivals,
                seed,
            },
            Loop::Closed => Pace::Closed {
                think: self.think.unwrap_or(Span(std::time::Duration::ZERO)).0,
                arrivals,
                seed,
            },
            Loop::Fast => Pace::FAST,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Asked {
        #[command(flatten)]
        load: LoadOptions,
    }

    fn asked(arguments: &str) -> Result<LoadOptions, clap::Error> {
        let words = ["load", "groups", "--target", "4222"]
            .into_iter()
            .chain(arguments.split_whitespace());
        Asked::try_parse_from(words).map(|asked| asked.load)
    }

    fn levels(arguments: &str) -> Vec<(usize, Option<f64>)> {
        let options = asked(arguments).unwrap();
        options.check().unwrap();
        let level = |level: Level| (level.connections.get(), level.pace.rate());
        options.levels(1).into_iter().map(level).collect()
    }

    #[test]
    fn a_rate_is_above_0_and_no_higher_than_any_server_could_bear() {
        let rate = |text: &str| text.parse::<Rate>().map(|rate| rate.0);
        assert_eq!(rate("0.5"), Ok(0.5));
        assert_eq!(rate("20k"), Ok(20_000.0));
        assert_eq!(rate("100000k"), Ok(HIGHEST_RATE));
        for wrong in ["0", "-1", "100001k", "nan", "inf", "many"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn steps_are_rates_or_connections_which_may_have_a_rate_each() {
        assert_eq!(levels("-c 20 --rate 50"), [(20, Some(50.0))]);
        assert_eq!(
            levels("-c 20 --steps 50,100"),
            [(20, Some(50.0)), (20, Some(100.0))]
        );
        assert_eq!(levels("--loop fast --steps 20,1k"), [(20, None), (1_000, None)]);
        assert_eq!(levels("-c 20 --rate-each 0.5"), [(20, Some(10.0))]);
        assert_eq!(
            levels("--rate-each 0.5 --steps 20,1k"),
            [(20, Some(10.0)), (1_000, Some(500.0))]
        );
    }

    /// Of 100 answers, chance may bring 40 fewer; in a group of five the four others hear each message.
    #[test]
    fn a_condition_can_be_told_of_as_many_answers_as_lie_beyond_it_and_chance_may_take() {
        let least = |more: &str| asked(&format!("-d 10s {more}")).unwrap().least_rate();
        assert_eq!(least("--group-size 5"), 0.0);
        assert_eq!(least("--slo p90<5ms --group-size 5"), 4.5);
        assert_eq!(least("--slo p90<5ms,p50<1ms --group-size 4 --own-echo"), 4.5);
        assert_eq!(least("--slo p90<5ms --group-size 1 --own-echo"), 14.0);
    }

    #[test]
    fn a_rate_of_each_connection_contradicts_another_rate_and_a_loop_without_one() {
        for contradicted in ["--rate 5", "--find-max --slo p99<5ms", "--go-on"] {
            assert!(
                asked(&format!("--rate-each 5 {contradicted}")).is_err(),
                "{contradicted}"
            );
        }
        for wrong in [
            "--rate-each 5 --loop fast",
            "--rate-each 5 --steps 2.5",
            "--rate-each 1e8 -c 2",
        ] {
            assert!(asked(wrong).unwrap().check().is_err(), "{wrong}");
        }
    }

    #[test]
    fn whom_to_watch_is_a_process_auto_or_none() {
        assert_eq!("auto".parse(), Ok(Watching::Found));
        assert_eq!("none".parse(), Ok(Watching::Nobody));
        assert_eq!("42".parse(), Ok(Watching::Process(42)));
        for wrong in ["", "0", "-3", "nginx"] {
            assert!(wrong.parse::<Watching>().is_err(), "{wrong}");
        }
    }
}
