//! What chores make once below `target` of what a registry has, and again where what it was made of has changed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell;

/// Makes it, unless `done` says that it was made of this. Blocks.
///
/// # Errors
///
/// Those of making it, and if `done` cannot be written: its folder is there once it is made.
pub fn once(done: &Path, of: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
    if fs::read_to_string(done).is_ok_and(|made| made == of) {
        return Ok(());
    }
    make()?;
    fs::write(done, of).with_context(|| format!("cannot write {}", done.display()))
}

/// A Python in the folder `venv` with the packages that the file `requirements` lists. Blocks.
///
/// # Errors
///
/// Where `python` has no module `venv`, or a package cannot be had.
pub fn venv(python: &Path, requirements: &Path, venv: &Path) -> Result<PathBuf> {
    let own = venv.join("bin/python");
    let wanted = fs::read_to_string(requirements).context("what Python needs")?;
    // Python itself is a part of it, where it lies in a place of its own.
    let of = match python.is_absolute() {
        true => format!("{wanted}# {}\n", python.display()),
        false => wanted,
    };
    once(&venv.join("installed.txt"), &of, || {
        eprintln!(
            "making {} with what {} lists",
            venv.display(),
            requirements.display()
        );
        shell::run(
            shell::command_at(python)
                .args(["-m", "venv", "--clear"])
                .arg(venv),
        )
        .context("on Debian, venv is the package python3-venv")?;
        shell::run_patiently(
            shell::command_at(&own)
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .arg("--requirement")
                .arg(requirements),
        )
    })?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_thing_is_made_again_only_of_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let done = folder.path().join("done");
        let mut times = 0;
        for of in ["a", "a", "b"] {
            once(&done, of, || {
                times += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(times, 2);
        assert!(once(&done, "c", || bail!("no")).is_err());
        assert_eq!(
            fs::read_to_string(&done).unwrap(),
            "b",
            "what failed was not made"
        );
    }
}
