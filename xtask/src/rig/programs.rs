//! The servers: building them, and the command that starts each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Error, Result};

use crate::{guests, shell};

const SOURCES: &str = "guests/c/servers";
const C_PROGRAMS: [&str; 2] = ["groups_floor", "accept_floor"];
/// Compiled only where uWebSockets is.
const UWS_GROUPS: &str = "guests/cpp/uws_groups.cpp";
const CPP: &str = "c++";

/// Where the built programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    threadgauge: PathBuf,
    folder: PathBuf,
}

impl Programs {
    /// Builds the C programs into the target folder, and the release `threadgauge` where no other is named.
    pub fn build(threadgauge: Option<&Path>) -> Result<Self> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        let folder = std::path::absolute(target)?.join("servers");
        build_c(&folder, &C_PROGRAMS)?;
        let threadgauge = match threadgauge {
            Some(program) => shell::given(program)?,
            None => shell::build("threadgauge", shell::Profile::Release)?,
        };
        Ok(Self { threadgauge, folder })
    }

    /// The same with another `threadgauge`.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub fn with_threadgauge(&self, program: &Path) -> Result<Self> {
        let threadgauge = shell::given(program)?;
        Ok(Self {
            threadgauge,
            folder: self.folder.clone(),
        })
    }

    /// `threadgauge`, without arguments.
    pub fn threadgauge(&self) -> Command {
        shell::command_at(&self.threadgauge)
    }

    /// A server of `guests` that takes these arguments and then a port, here any that is free.
    pub fn guest(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = shell::command_at(&self.folder.join(program));
        command.args(arguments).arg("0");
        command
    }

    /// Compiles the server over uWebSockets, optimised as its own examples are, with what `LDFLAGS` adds.
    ///
    /// # Errors
    ///
    /// If it does not compile, with the first error.
    pub fn build_uwebsockets(&self) -> Result<()> {
        let (compiling, linking) = (uws_options(), flags("LDFLAGS"));
        let options = compiling.iter().chain(&linking).map(String::as_str);
        let options: Vec<&str> = options.chain(["-luSockets", "-lz"]).collect();
        let source = shell::root()?.join(UWS_GROUPS);
        guests::compile(CPP, &options, &source, &self.folder.join("uws_groups"))
            .map_err(Error::msg)
            .context("uWebSockets is here and the server over it does not compile")
    }

    /// Where there is room for files that belong to programs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Whether there is a C++ compiler that finds uWebSockets.
pub fn finds_uwebsockets() -> bool {
    let source = shell::root().map(|root| root.join(UWS_GROUPS));
    source.is_ok_and(|source| {
        shell::quietly(shell::command(CPP).args(uws_options()).arg("-E").arg(source)).is_ok()
    })
}

/// How the server over uWebSockets is compiled; `CXXFLAGS` may tell where that is.
fn uws_options() -> Vec<String> {
    let own = ["-std=c++20", "-O3", "-march=native", "-flto=auto", "-w"].map(str::to_owned);
    own.into_iter().chain(flags("CXXFLAGS")).collect()
}

/// What this variable of the environment adds to a command.
fn flags(variable: &str) -> Vec<String> {
    let flags = std::env::var(variable).unwrap_or_default();
    flags.split_whitespace().map(str::to_owned).collect()
}

/// Compiles these, with warnings as errors: they are part of this project.
fn build_c(folder: &Path, programs: &[&str]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for program in programs {
        let source = shell::root()?.join(SOURCES).join(program).with_extension("c");
        let options = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"];
        guests::compile("cc", &options, &source, &folder.join(program)).map_err(Error::msg)?;
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// These C programs alone, for tests that drive them, in a folder of their own.
    pub fn c_programs(folder: &Path, programs: &[&str]) -> Programs {
        build_c(folder, programs).expect("a C compiler, and programs without warnings");
        Programs {
            threadgauge: PathBuf::from("not-built"),
            folder: folder.to_owned(),
        }
    }

    #[test]
    fn what_does_not_compile_is_told_with_its_first_error_and_so_is_a_compiler_that_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("wrong.c"), folder.path().join("wrong"));
        fs::write(&source, "int main(void) {\n    return missing;\n}\n").unwrap();
        let told = guests::compile("cc", &[], &source, &program).unwrap_err();
        let place = format!("the compiler cc cannot make {0}: {0}:2:", source.display());
        assert!(told.starts_with(&place) && told.contains("missing"), "{told}");
        assert!(!told.contains('\n') && !program.exists(), "{told}");
        let told = guests::compile("no-such-compiler", &[], &source, &program).unwrap_err();
        assert!(
            told.starts_with("the compiler no-such-compiler cannot be started: "),
            "{told}"
        );
    }
}
