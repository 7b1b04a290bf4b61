//! What can be asked of `threadgauge observe`, and what is refused before anything is looked at.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{ArgGroup, Args};
use threadgauge_load::Span;

use crate::commands::load::options::Rate;
use crate::commands::observe::page::CounterAt;

/// For how long a process is observed where nothing else is said.
const USUAL: Duration = Duration::from_secs(10);
/// Looks more often than that would cost more than they tell.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// And with longer ones what comes and goes is missed.
const MOST_INTERVAL: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("whom").required(true).args(["pid", "command"])))]
pub struct ObserveOptions {
    /// The process; all below it is observed, too
    #[arg(value_name = "PID", value_parser = process_id, allow_negative_numbers = true)]
    pub pid: Option<i32>,
    /// A command to start and observe; it is split into words as a shell does, and no shell runs it. What it prints
    /// goes to standard error; it is asked to end when observing ends before it
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// For how long; if not given ten seconds, and a command until its end
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<Span>,
    /// The time between two looks, from 100 ms on; longer where looks would cost more than 1 % of a CPU
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: Span,
    /// How many tasks are done meanwhile: tells CPU time and waits of one
    #[arg(long, value_name = "N", group = "tasks", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// How many tasks are done a second, as 500, 0.5 or 20k
    #[arg(long, value_name = "R", group = "tasks")]
    pub rate: Option<Rate>,
    /// A counter of tasks on a Prometheus page; all its series are added up, or those with these labels:
    /// 'http://HOST:PORT/metrics#http_requests_total{code="200"}'
    #[arg(long, value_name = "URL#METRIC", group = "tasks")]
    pub counter: Option<CounterAt>,
    /// A log that grows by a line a task
    #[arg(long, value_name = "FILE", group = "tasks")]
    pub log: Option<PathBuf>,
    /// Write a results folder with a page that shows the course over time; must not hold results yet
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

impl ObserveOptions {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        let interval = self.interval.0;
        ensure!(
            (LEAST_INTERVAL..=MOST_INTERVAL).contains(&interval),
            "--interval {} is not from 100ms to 1h: more often looks cost more than they tell",
            self.interval
        );
        if let Some(duration) = self.duration {
            ensure!(
                duration.0 >= interval,
                "--for {duration} is shorter than --interval {}: there would be no look at its end; say a longer --for \
                 or a shorter --interval",
                self.interval
            );
        }
        Ok(())
    }

    /// For how long it is observed; `None` until the end of the command.
    pub fn takes(&self) -> Option<Duration> {
        match (self.duration, &self.command) {
            (Some(duration), _) => Some(duration.0),
            (None, Some(_)) => None,
            // With rare looks it takes as long as some of them.
            (None, None) => Some(USUAL.max(self.interval.0 * 2)),
        }
    }

    /// The words of the command.
    pub fn words(&self) -> Result<Option<Vec<String>>> {
        let Some(command) = &self.command else {
            return Ok(None);
        };
        let words = shlex::split(command).filter(|words| !words.is_empty());
        let words = words.with_context(|| {
            format!(
                "--command: `{command}` is no command: a quote is open, or it is empty; as in --command 'make -j8', \
                 and with pipes --command \"sh -c 'a | b'\""
            )
        })?;
        Ok(Some(words))
    }

    /// What was asked for, as typed: how a results folder says it.
    pub fn as_asked(&self) -> Vec<String> {
        // All of them, so that one more cannot be forgotten here.
        let Self {
            pid,
            command,
            duration,
            interval,
            requests,
            rate,
            counter,
            log,
            // Where the results go.
            out: _,
            json: _,
        } = self;
        let mut asked = vec!["observe".to_owned()];
        asked.extend(pid.map(|pid| pid.to_string()));
        asked.extend(command.as_ref().map(|command| format!("--command '{command}'")));
        asked.extend(duration.map(|duration| format!("--for {duration}")));
        asked.push(format!("--interval {interval}"));
        asked.extend(requests.map(|requests| format!("--requests {requests}")));
        asked.extend(rate.map(|rate| format!("--rate {}", rate.0)));
        asked.extend(counter.as_ref().map(|counter| format!("--counter '{counter}'")));
        asked.extend(log.as_ref().map(|log| format!("--log {}", log.display())));
        asked
    }
}

/// A process by its number.
///
/// # Errors
///
/// Anything else: what it should be, and what finds it.
pub fn process_id(text: &str) -> Result<i32, &'static str> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or("a process is named by its number, such as 1234, which `pgrep -n NAME` finds")
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    /// Those of a command line.
    pub(in crate::commands::observe) fn options(words: &[&str]) -> ObserveOptions {
        let all = ["threadgauge", "observe"].iter().chain(words);
        match Cli::try_parse_from(all).unwrap().command {
            Some(Command::Observe(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn how_long_it_takes_is_said_or_follows_from_what_is_observed() {
        let takes = |words: &[&str]| options(words).takes().map(|takes| takes.as_secs());
        assert_eq!(takes(&["7"]), Some(10));
        assert_eq!(takes(&["7", "--for", "1m"]), Some(60));
        assert_eq!(takes(&["7", "--interval", "30s"]), Some(60));
        assert_eq!(takes(&["--command", "true"]), None);
        assert_eq!(takes(&["--command", "true", "--for", "3"]), Some(3));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let parsed = |words: &[&str]| {
            let all = ["threadgauge", "observe"].iter().chain(words);
            Cli::try_parse_from(all).map(|_| ())
        };
        parsed(&["7", "--requests", "5"]).unwrap();
        for words in [
            &[] as &[&str],
            &["0"],
            &["-3"],
            &["x"],
            &["7", "--command", "true"],
            &["7", "--requests", "5", "--rate", "3"],
            &["7", "--requests", "0"],
            &["7", "--rate", "-1"],
            &["7", "--counter", "http://localhost/metrics"],
        ] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
        let refusal = |words: &[&str]| options(words).check().unwrap_err().to_string();
        assert!(refusal(&["7", "--interval", "10ms"]).contains("100ms to 1h"));
        assert!(refusal(&["7", "--for", "500ms"]).contains("shorter than --interval"));
    }

    #[test]
    fn a_command_is_split_into_words_and_an_open_quote_is_named() {
        let words = |command: &str| options(&["--command", command]).words();
        assert_eq!(words("sh -c 'a | b'").unwrap().unwrap(), ["sh", "-c", "a | b"]);
        for none in ["", "  ", "sh -c 'a"] {
            assert!(
                words(none).unwrap_err().to_string().contains("is no command"),
                "{none:?}"
            );
        }
        assert_eq!(options(&["7"]).words().unwrap(), None);
    }

    #[test]
    fn what_was_asked_for_is_kept_as_typed() {
        let of = options(&["7", "--for", "10s", "--rate", "2k"]);
        assert_eq!(
            of.as_asked(),
            ["observe", "7", "--for 10s", "--interval 1s", "--rate 2000"]
        );
    }
}
