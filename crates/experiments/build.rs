//! Compiles the program of `guests/c` that the laboratory carries inside itself.
//!
//! A machine without a C compiler for the target still builds: the program is then empty, the reason is
//! kept beside it, and the cases that need it are skipped with that reason.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const SOURCE: &str = "../../guests/c/exit.c";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={SOURCE}");
    let out = PathBuf::from(set_by_cargo("OUT_DIR")).join("exit.elf");
    let reason = match compile(Path::new(SOURCE), &out) {
        Ok(()) => String::new(),
        Err(reason) => {
            fs::write(&out, []).expect("OUT_DIR can be written");
            reason
        }
    };
    println!("cargo:rustc-env=THREADGAUGE_EXIT_PROGRAM_MISSING={reason}");
}

/// Compiles `source` into a static program without a library; the reason in one line where that fails.
fn compile(source: &Path, out: &Path) -> Result<(), String> {
    let compiler = compiler();
    let made = Command::new(&compiler)
        .args([
            "-O2",
            "-static",
            "-nostdlib",
            "-ffreestanding",
            "-fno-pie",
            "-no-pie",
        ])
        .args(["-fno-stack-protector", "-fno-asynchronous-unwind-tables"])
        .args(["-Wl,--build-id=none", "-s", "-o"])
        .arg(out)
        .arg(source)
        .output()
        .map_err(|e| format!("the C compiler {compiler} cannot be started: {e}"))?;
    if made.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&made.stderr);
    let first = said
        .lines()
        .find(|l| l.contains("error"))
        .unwrap_or("it gave no reason");
    Err(format!(
        "the C compiler {compiler} cannot make it for {}: {first}",
        set_by_cargo("TARGET")
    ))
}

/// `CC_<target>`, else `CC` or `cc` at home and `<target>-gcc` for another machine.
fn compiler() -> String {
    let (target, host) = (set_by_cargo("TARGET"), set_by_cargo("HOST"));
    let of_target = format!("CC_{}", target.replace('-', "_"));
    println!("cargo:rerun-if-env-changed={of_target}");
    println!("cargo:rerun-if-env-changed=CC");
    if let Ok(compiler) = env::var(of_target) {
        return compiler;
    }
    if machine(&target) == machine(&host) {
        return env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    }
    format!("{}-gcc", target.replace("-unknown-", "-"))
}

/// The processor a triple names.
fn machine(triple: &str) -> &str {
    triple.split('-').next().unwrap_or(triple)
}

fn set_by_cargo(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
