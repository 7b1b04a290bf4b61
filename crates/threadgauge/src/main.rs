//! threadgauge: measures, on your own machine, what each way of running things at once costs.
//!
//! Arguments in, exit code out. Nothing here measures or draws: each command asks the laboratory, the
//! store or the report.
#![forbid(unsafe_code)]

mod baselines;
mod cli;
mod commands;
#[cfg(test)]
mod documented;
mod earlier;
mod folder;
mod operands;
mod output;
mod progress;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::output::Verdict;

fn main() -> ExitCode {
    threadgauge_experiments::helper();
    signals::settle();
    let cli = Cli::parse();
    let command = cli.command.unwrap_or_default();
    let done = match command {
        Command::Run(options) => match &options.switch[..] {
            [a, b] => commands::switch::switch(&options, [a, b]),
            _ => commands::run::run(&options),
        },
        Command::List(options) => commands::list::list(&options),
        Command::Explain { experiment } => commands::explain::explain(&experiment),
        Command::Claims(options) => commands::claims::claims(&options),
        Command::Compare(options) => commands::compare::compare(&options),
        Command::History(options) => commands::history::history(&options),
        Command::Export(options) => commands::export::export(&options),
        Command::Report(options) => commands::report::report(&options),
        Command::Doctor(options) => commands::doctor::doctor(&options),
        Command::Serve(options) => commands::serve::serve(options),
        Command::Load(options) => commands::load::load(&options),
        Command::Observe(options) => commands::observe::observe(&options),
        Command::Advise(options) => commands::advise::advise(&options),
        Command::Worker => commands::worker::worker(),
        Command::Generate { what } => commands::generate::generate(what),
    };
    match done {
        Ok(Verdict::Done) => ExitCode::SUCCESS,
        Ok(Verdict::CheckFailed) => ExitCode::from(1),
        Ok(Verdict::Interrupted(signal)) => ExitCode::from(128 + signal),
        Err(error) => {
            output::complain(&signals::explained(error));
            ExitCode::from(2)
        }
    }
}
