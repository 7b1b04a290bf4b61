//! `cargo xtask golden`: what the stored runs, the plans, `explain` and `list` say, written anew.
//!
//! The test `golden` of the command compares them with what is committed. Told so, it writes instead, and lists what
//! moved; that list belongs in the commit's message.

use anyhow::Result;

use crate::shell;

/// Writes everything anew and lists what moved.
pub fn write() -> Result<()> {
    shell::run(
        shell::cargo()
            .args([
                "test",
                "--quiet",
                "--locked",
                "--package",
                "threadgauge",
                "--test",
                "golden",
            ])
            .args(["--", "--nocapture"])
            .env("UPDATE_GOLDEN", "1"),
    )
}
