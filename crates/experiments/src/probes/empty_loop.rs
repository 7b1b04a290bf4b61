//! A loop that does nothing, compiled without and with optimisation by the machine's own C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use threadgauge_machine::clock;

use threadgauge_lab::prelude::*;

/// The beginning of the reason where there is none.
pub(super) const NO_COMPILER: &str = "there is no C compiler";

const SOURCE: &str = include_str!("../../../../guests/c/empty_loop.c");
const COUNT: &str = "20000000";

pub(super) fn plain(worker: &mut Worker) -> Result<f64, CaseError> {
    compiled(worker, "-O0")
}

pub(super) fn optimised(worker: &mut Worker) -> Result<f64, CaseError> {
    compiled(worker, "-O2")
}

fn compiled(worker: &mut Worker, level: &str) -> Result<f64, CaseError> {
    let folder = Folder::new()?;
    let program = compile(&folder.0, level)?;
    let watch = worker.stopwatch();
    let begun_ns = clock::monotonic_ns();
    let ran = Command::new(&program)
        .arg(COUNT)
        .output()
        .map_err(|e| CaseError::failed("starting the compiled loop", e))?;
    let ran_ns = clock::monotonic_ns() - begun_ns;
    // A handicapped worker's extra work is in proportion to the program's whole run.
    let stretch = watch.stop().wall_ns as f64 / ran_ns.max(1) as f64;
    let said = String::from_utf8_lossy(&ran.stdout);
    let ns: f64 = said.trim().parse().map_err(|_| {
        CaseError::Failed(format!(
            "the compiled loop answered {said:?} and ended with {}",
            ran.status
        ))
    })?;
    // A loop that is gone takes no time the clock can see.
    Ok(ns.max(1.0) * stretch)
}

/// A folder of this worker's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, CaseError> {
        let path = env::temp_dir().join(format!(
            "threadgauge-loop-{}-{}",
            std::process::id(),
            clock::monotonic_ns()
        ));
        fs::create_dir(&path).map_err(|e| CaseError::failed(format!("making {}", path.display()), e))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is a file in a folder for temporary ones.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compile(folder: &Path, level: &str) -> Result<PathBuf, CaseError> {
    let (source, program) = (folder.join("empty_loop.c"), folder.join("empty_loop"));
    fs::write(&source, SOURCE).map_err(|e| CaseError::failed(format!("writing {}", source.display()), e))?;
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let made = Command::new(&compiler)
        .arg(level)
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .output()
        .map_err(|e| CaseError::Skipped(format!("{NO_COMPILER}: {compiler} cannot be started ({e})")))?;
    if made.status.success() {
        return Ok(program);
    }
    let said = String::from_utf8_lossy(&made.stderr);
    let first = said
        .lines()
        .find(|l| l.contains("error"))
        .unwrap_or("it gave no reason");
    Err(CaseError::Failed(format!(
        "{compiler} {level} cannot compile the loop: {first}"
    )))
}
