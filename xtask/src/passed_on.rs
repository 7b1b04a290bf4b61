//! In the place of each chore that measures: the same command line, given to an `xtask` that has the chore.
//!
//! They need what the product measures with, minutes of building that `cargo xtask test` would spend before its first
//! step; so it is built when one is asked for.

use std::ffi::OsString;

use anyhow::Result;
use clap::Args;

use crate::shell;

/// Whatever was typed after the name of the chore, a question for help too.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Options {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _rest: Vec<OsString>,
}

/// Builds the other `xtask`, and lets it do the chore. Blocks.
///
/// # Errors
///
/// If it cannot be built, or fails.
pub fn run(_: &Options) -> Result<()> {
    shell::run(
        shell::cargo()
            .args([
                "run",
                "--quiet",
                "--package",
                "xtask",
                "--features",
                "measuring",
                "--",
            ])
            .args(std::env::args_os().skip(1)),
    )
}
