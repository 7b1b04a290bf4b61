//! What every protocol promises, on every design that accepts it, over real sockets.
//!
//! The server side of each case is a process of its own (this program, executed again), so that designs which fork can,
//! and so that what is left over can be read from `/proc`. A case is `DESIGN::PROTOCOL::what_is_true`
//! (`DESIGN+io_uring` where it sends by io_uring); there is one
//! suite a protocol, and [`any`] has the cases that ask little of the protocol.
//! `cargo test -p threadgauge-reactor --test conformance -- WORDS` runs the cases whose names contain all of the words.
//! The cases of a design are run one after the other by a process of its own, several designs at once; what they say
//! is printed as each design is done. With `FAIL_FAST` in the environment nothing is begun after the first failure.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod any;
mod behind;
mod bytes;
mod chat;
mod client;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/dates.rs"]
mod dates;
mod diag;
mod echo;
mod groups;
#[allow(
    dead_code,
    reason = "where `nats-server` answers otherwise is for the tests beside it"
)]
#[path = "../common/groups_answers.rs"]
mod groups_answers;
mod heads;
mod http;
#[path = "../common/http_requests.rs"]
mod http_requests;
mod null;
mod numbered;
mod panics;
mod processes;
mod server;
mod talk;
mod times;

use std::env;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Mutex;
use std::thread::{self, available_parallelism};
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, set_child_subreaper, setrlimit};
use threadgauge_reactor::{AtOnce, BuiltIn, Design, Sends};

use crate::server::Running;

/// A protocol on a design, for which a case is run.
#[derive(Clone, Copy)]
pub struct Pair {
    /// What is served.
    pub protocol: BuiltIn,
    /// On what.
    pub design: Design,
    /// How it sends, where that is to be other than its default.
    pub sends: Option<Sends>,
}

impl Pair {
    /// Starts a server of this pair. Settings are `key=value`, as [`server`] reads them.
    pub fn serve(self, settings: &[&str]) -> Running {
        let sends = self.sends.map(|sends| format!("sends={}", sends.name()));
        let settings: Vec<&str> = settings.iter().copied().chain(sends.as_deref()).collect();
        Running::start(self, &settings)
    }

    /// How many connections it is sure to serve at once, up to `most`.
    pub fn at_once(self, most: usize) -> usize {
        match self.design.about().at_once {
            AtOnce::One => 1,
            // The kernel gives connections to the workers by a hash, so that two may have to wait for the same one.
            AtOnce::Workers if self.design.name() == "preforked-reuseport" => 1,
            AtOnce::Workers => server::WORKERS.min(most),
            AtOnce::Many => most,
        }
    }

    /// Whether connections cost it neither a thread nor a process.
    pub fn is_event_driven(self) -> bool {
        self.design.about().at_once == AtOnce::Many && !self.design.name().ends_with("-per-connection")
    }
}

/// What is true, and how that is seen.
pub type Case = (&'static str, fn(Pair));

fn suite(protocol: BuiltIn) -> &'static [Case] {
    match protocol {
        BuiltIn::Echo => echo::CASES,
        BuiltIn::Bytes => bytes::CASES,
        BuiltIn::Http => http::CASES,
        BuiltIn::Null => null::CASES,
        BuiltIn::Numbered => numbered::CASES,
        BuiltIn::Chat => chat::CASES,
        BuiltIn::Groups => groups::CASES,
    }
}

/// Every design; and those with sends by io_uring that have all there is to them: both halves of a connection on one
/// loop, and on two.
fn ways() -> impl Iterator<Item = (Design, Option<Sends>)> {
    let by_call = Design::ALL.iter().map(|&design| (design, None));
    by_call.chain([Design::Reactor, Design::ReactorPool].map(|design| (design, Some(Sends::IoUring))))
}

fn named((design, sends): (Design, Option<Sends>)) -> String {
    match sends {
        None => design.name().to_owned(),
        Some(sends) => format!("{}+{}", design.name(), sends.name()),
    }
}

/// The first argument of a process that tries one of the ways.
const WAY: &str = "way";
/// What fails so often on one way fails for one reason.
const ENOUGH: usize = 10;

fn main() -> ExitCode {
    if let Some(code) = server::child() {
        return code;
    }
    let words: Vec<String> = env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    match words.as_slice() {
        [first, way, words @ ..] if first == WAY => try_way(way, words),
        words => try_all(words),
    }
}

/// Tries the ways, each in a process of its own, and some at once: a case waits more than it computes.
fn try_all(words: &[String]) -> ExitCode {
    let began = Instant::now();
    let at_once = 2 * available_parallelism().map_or(1, usize::from) + 1;
    let fail_fast = env::var_os("FAIL_FAST").is_some();
    let (next, outcomes) = (Mutex::new(ways()), Mutex::new((0, Vec::new())));
    let worker = || {
        while let Some(way) = { next.lock().unwrap().next() } {
            let (said, status) = output(&named(way), words).expect("this program is executed again");
            let mut outcomes = outcomes.lock().unwrap();
            let (passed, failed) = &mut *outcomes;
            print!("{said}");
            let is = |line: &&str, what| line.starts_with("test ") && line.contains(what);
            *passed += said.lines().filter(|line| is(line, " ... ok (")).count();
            let mut these: Vec<String> = said
                .lines()
                .filter(|line| is(line, " ... FAILED ("))
                .map(str::to_owned)
                .collect();
            if these.is_empty() && !status.success() {
                these.push(format!("{}: {status}", named(way)));
            }
            failed.append(&mut these);
            if fail_fast && !failed.is_empty() {
                break;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(worker);
        }
    });
    let (passed, failed) = outcomes.into_inner().unwrap();
    println!(
        "{passed} passed; {} failed: {failed:#?}; {} s",
        failed.len(),
        began.elapsed().as_secs()
    );
    // Words that fit nothing are a mistake, not a success.
    if failed.is_empty() && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What is said of the cases of a way, on both streams, and how its process ended.
fn output(way: &str, words: &[String]) -> io::Result<(String, ExitStatus)> {
    let (mut said, says) = io::pipe()?;
    let mut tries = Command::new(env::current_exe()?)
        .args([WAY, way])
        .args(words)
        .stdout(says.try_clone()?)
        .stderr(says)
        .spawn()?;
    let mut bytes = Vec::new();
    said.read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), tries.wait()?))
}

fn try_way(way: &str, words: &[String]) -> ExitCode {
    // What a server leaves behind becomes our child, and is seen.
    set_child_subreaper(Some(rustix::process::getpid())).expect("Linux has subreapers");
    let all = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: all,
        maximum: all,
    };
    setrlimit(Resource::Nofile, limit).expect("up to the maximum is allowed");
    let (design, sends) = ways().find(|&it| named(it) == way).expect("one of the ways");
    let fail_fast = env::var_os("FAIL_FAST").is_some();
    let mut failed = 0;
    for &protocol in BuiltIn::ALL {
        if protocol.fits(design).is_err() {
            continue;
        }
        let cases = suite(protocol)
            .iter()
            .chain(any::cases(protocol))
            .chain(times::cases(protocol))
            .chain(behind::cases(protocol))
            .chain(heads::cases(protocol))
            .chain(panics::cases(protocol));
        for (what, run) in cases {
            let name = format!("{way}::{}::{what}", protocol.name());
            if !words.iter().all(|word| name.contains(word)) {
                continue;
            }
            let start = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                run(Pair {
                    protocol,
                    design,
                    sends,
                });
                processes::no_children();
            }));
            processes::end_children();
            println!(
                "test {name} ... {} ({} ms)",
                if outcome.is_ok() { "ok" } else { "FAILED" },
                start.elapsed().as_millis()
            );
            failed += usize::from(outcome.is_err());
            if failed == ENOUGH || fail_fast && failed > 0 {
                println!("the cases of {way} after this one were not tried");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::from(u8::from(failed > 0))
}
