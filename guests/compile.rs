//! Compiling the programs of this folder: one way for the build script that puts some into the laboratory and for the
//! chores that measure beside the others. Included by path, and written with the standard library alone.

use std::path::Path;
use std::process::{Command, Stdio};

/// Compiles `source` into `program`. The options stand behind the source, so that libraries may be among them. Blocks.
///
/// # Errors
///
/// In one line: that the compiler cannot be started, or the first error it told.
pub fn compile(compiler: &str, options: &[&str], source: &Path, program: &Path) -> Result<(), String> {
    let mut command = Command::new(compiler);
    command.arg("-o").arg(program).arg(source).args(options);
    let made = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("the compiler {compiler} cannot be started: {e}"))?;
    if made.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&made.stderr);
    let first = said.lines().find(|line| line.contains("error"));
    Err(format!(
        "the compiler {compiler} cannot make {}: {}",
        source.display(),
        first.unwrap_or("it gave no reason")
    ))
}
