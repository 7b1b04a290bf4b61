//! Compiles the programs of `guests/c` that the laboratory carries inside itself.
//!
//! A machine without a C compiler for the target still builds: a program that cannot be made is empty, the reason is
//! kept beside it, and the cases that need it are planned with that reason.

use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "../../guests/compile.rs"]
mod guests;

/// Nothing but the program: no C library, no dynamic linker.
const BARE: &[&str] = &[
    "-O2",
    "-static",
    "-nostdlib",
    "-ffreestanding",
    "-fno-pie",
    "-no-pie",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-Wl,--build-id=none",
    "-s",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../guests/compile.rs");
    for header in ["guest.h", "channel.h", "servers/server.h"] {
        println!("cargo:rerun-if-changed=../../guests/c/{header}");
    }
    let compiler = compiler();
    carry(&compiler, "exit", "exit.c", BARE);
    // With the C library of the machine that they are built on, as the sources' programs were: inside each it would be
    // fifty times the program.
    let programs = "units print ring wake handover contention compute placement idle limits crash ids";
    for name in programs.split(' ') {
        carry(&compiler, name, &format!("{name}.c"), &["-O2", "-pthread", "-s"]);
    }
    let servers = "processes threads reactors stages answer_floor groups_floor accept_floor stevens_client \
                   chat_threads event_loops";
    for name in servers.split(' ') {
        let source = format!("servers/{name}.c");
        carry(&compiler, name, &source, &["-O2", "-pthread", "-s"]);
    }
    carry_on_libraries(&compiler);
    // The source's programs were of 32 bits.
    for name in ["idle", "limits"] {
        let (source, options) = (format!("{name}.c"), ["-O2", "-pthread", "-s", "-m32"]);
        carry(&compiler, &format!("{name}_32"), &source, &options);
        let options = [&options[..], &["-DLEGACY_LAYOUT"]].concat();
        carry(&compiler, &format!("{name}_32_legacy"), &source, &options);
    }
    carry(&compiler, "empty_loop_plain", "empty_loop.c", &["-O0", "-s"]);
    carry(&compiler, "empty_loop_optimised", "empty_loop.c", &["-O2", "-s"]);
}

/// The programs whose threads are compared, on the thread library before NPTL, re-created, and on musl.
fn carry_on_libraries(compiler: &str) {
    const RECREATED: [&str; 2] = [
        "../../guests/c/linuxthreads/linuxthreads.h",
        "../../guests/c/linuxthreads/linuxthreads.c",
    ];
    for file in RECREATED {
        println!("cargo:rerun-if-changed={file}");
    }
    let [header, library] = RECREATED;
    let recreated = ["-O2", "-pthread", "-s", "-include", header, library];
    println!("cargo:rerun-if-env-changed=THREADGAUGE_MUSL_CC");
    let musl_compiler = env::var("THREADGAUGE_MUSL_CC").unwrap_or_else(|_| "musl-gcc".to_owned());
    // The kernel's headers are not musl's own. Behind its own they are harmless: no program uses those of glibc.
    let of_machine = format!("/usr/include/{}-linux-gnu", machine(&set_by_cargo("TARGET")));
    let musl = [
        "-O2",
        "-pthread",
        "-s",
        "-static",
        "-idirafter",
        "/usr/include",
        "-idirafter",
        &of_machine,
    ];
    for (name, source) in [
        ("units", "units.c"),
        ("ring", "ring.c"),
        ("ids", "ids.c"),
        ("idle", "idle.c"),
        ("print", "print.c"),
        ("crash", "crash.c"),
        ("chat_threads", "servers/chat_threads.c"),
    ] {
        carry(compiler, &format!("{name}_linuxthreads"), source, &recreated);
        carry(&musl_compiler, &format!("{name}_musl"), source, &musl);
    }
}

/// Makes `name` of `source`, for `guests.rs` to take in.
fn carry(compiler: &str, name: &str, source: &str, options: &[&str]) {
    let source = Path::new("../../guests/c").join(source);
    println!("cargo:rerun-if-changed={}", source.display());
    let program = PathBuf::from(set_by_cargo("OUT_DIR")).join(name);
    let reason = match guests::compile(compiler, options, &source, &program) {
        Ok(()) => String::new(),
        Err(reason) => {
            fs::write(&program, []).expect("OUT_DIR can be written");
            let to_have_it = match compiler.ends_with("musl-gcc") {
                true => "; to have it, install Debian's musl-tools and build again",
                false => "",
            };
            format!("{reason} (for {}){to_have_it}", set_by_cargo("TARGET"))
        }
    };
    println!("cargo:rustc-env=THREADGAUGE_WITHOUT_{name}={reason}");
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
