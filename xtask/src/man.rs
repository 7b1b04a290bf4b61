//! `cargo xtask man`: the man page and the shell completions, from the command's own definitions.
//!
//! The command generates the texts; this only gives them the names that packagers expect.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::shell;

/// What `threadgauge generate` is asked for, and the file it becomes.
const FILES: &[(&str, &str)] = &[
    ("man", "threadgauge.1"),
    ("bash", "threadgauge.bash"),
    ("zsh", "_threadgauge"),
    ("fish", "threadgauge.fish"),
];

/// Writes all of [`FILES`] into `dir`.
pub fn write(dir: &Path) -> Result<()> {
    let threadgauge = shell::build(shell::Profile::Debug)?;
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (what, file) in FILES {
        let text = shell::output(shell::command_at(&threadgauge).args(["generate", what]))?;
        ensure!(
            !text.trim().is_empty(),
            "threadgauge generate {what} printed nothing"
        );
        let path = dir.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
