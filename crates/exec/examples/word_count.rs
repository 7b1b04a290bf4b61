//! Reads files concurrently and adds up what is in them: no `Arc`, no `Mutex`, no channel.
//!
//! ```text
//! cargo run -p threadgauge-exec --example word_count -- FILE…
//! ```
//!
//! Shows progress and the words so far as each file comes in, and stops at the first that cannot be read.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use threadgauge_exec::ConcurrentExecution;

fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    let four = NonZeroUsize::new(4).expect("not zero");
    // Local state that only this thread touches, though four read.
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let tried = ConcurrentExecution::new(four).try_for_each(
        &files,
        |file| std::fs::read_to_string(file),
        |done| {
            for word in done.result.split_whitespace() {
                *counts.entry(word.to_lowercase()).or_default() += 1;
            }
            eprintln!("{} of {}: {}", done.order + 1, files.len(), done.object.display());
        },
    );
    for failed in &tried.failed {
        eprintln!("{}: {}", failed.object.display(), failed.error);
    }
    for (word, count) in &counts {
        println!("{count:7} {word}");
    }
    if tried.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
