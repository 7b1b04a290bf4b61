//! Runs a command for each line of standard input, four at a time: what `xargs -P 4` does, with the outcome of each.
//!
//! ```text
//! ls *.rs | cargo run -p threadgauge-exec --example children -- wc -l
//! ```
//!
//! The lines are read only as fast as there are free hands. A child's output is printed whole, in the order of the
//! lines; the first that fails ends it. What was read by then and not started is named; the rest of the input is left
//! unread, as it may have no end.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{self, BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::process::{Command, ExitCode, Output};

use threadgauge_exec::ConcurrentExecution;

fn main() -> ExitCode {
    let mut command = std::env::args_os().skip(1);
    let Some(program) = command.next() else {
        eprintln!("usage: children PROGRAM [ARGUMENT…], with a last argument a line on standard input");
        return ExitCode::from(2);
    };
    let arguments: Vec<_> = command.collect();
    let (four, sixteen) = (
        NonZeroUsize::new(4).expect("not zero"),
        NonZeroUsize::new(16).expect("not zero"),
    );
    let tried = ConcurrentExecution::new(four).in_order(sixteen).try_for_each(
        BufReader::new(io::stdin()).lines().map_while(Result::ok),
        |line| run(Command::new(&program).args(&arguments).arg(line)),
        |done| {
            io::stdout()
                .write_all(&done.result.stdout)
                .expect("standard output is open");
        },
    );
    for failed in &tried.failed {
        eprint!("{}: {}", failed.object, failed.error);
    }
    // Lines promise no number, so the lower bound counts those that were read already.
    let read = tried.report.rest.size_hint().0;
    for line in tried.report.rest.take(read) {
        eprintln!("{line}: not started");
    }
    if tried.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{error}\n"))?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(format!(
            "{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}
