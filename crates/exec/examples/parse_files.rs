//! Parses files concurrently, and goes on past those that are broken.
//!
//! ```text
//! cargo run -p threadgauge-exec --example parse_files -- FILE…
//! ```
//!
//! A file holds a number a line. Eight are read and parsed at once; totals and complaints are plain local variables.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;

use threadgauge_exec::{ConcurrentExecution, OnError};

fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    let eight = NonZeroUsize::new(8).expect("not zero");
    let (mut numbers, mut sum) = (0, 0.0);
    let tried = ConcurrentExecution::new(eight)
        .on_error(OnError::Collect)
        .try_for_each(
            files,
            |file| parse(Path::new(file)),
            |done| {
                numbers += done.result.len();
                sum += done.result.iter().sum::<f64>();
            },
        );
    for failed in &tried.failed {
        eprintln!("{}: {}", failed.object.display(), failed.error);
    }
    println!("{numbers} numbers in {} files, sum {sum}", tried.report.finished);
    if tried.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn parse(file: &Path) -> Result<Vec<f64>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let number = |(i, line): (usize, &str)| {
        line.trim()
            .parse()
            .map_err(|_| format!("line {}: {line:?} is not a number", i + 1))
    };
    text.lines().enumerate().map(number).collect()
}
