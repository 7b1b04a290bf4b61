//! What every protocol promises, on every design that accepts it, over real sockets.
//!
//! The server side of each case is a process of its own (this program, executed again), so that designs which fork can,
//! and so that what is left over can be read from `/proc`. A case is `DESIGN::PROTOCOL::what_is_true`
//! (`DESIGN+io_uring` where it sends by io_uring); there is one
//! suite a protocol, and [`any`] has the cases that ask little of the protocol.
//! `cargo test -p threadgauge-reactor --test conformance -- WORDS` runs the cases whose names contain all of the words.
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

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
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

fn main() -> ExitCode {
    if let Some(code) = server::child() {
        return code;
    }
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    // What a server leaves behind becomes our child, and is seen.
    set_child_subreaper(Some(rustix::process::getpid())).expect("Linux has subreapers");
    let all = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: all,
        maximum: all,
    };
    setrlimit(Resource::Nofile, limit).expect("up to the maximum is allowed");
    let began = Instant::now();
    let (mut passed, mut failed) = (0, Vec::new());
    for (design, sends) in ways() {
        let way = match sends {
            None => design.name().to_owned(),
            Some(sends) => format!("{}+{}", design.name(), sends.name()),
        };
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
                match outcome {
                    Ok(()) => passed += 1,
                    Err(_) => failed.push(name),
                }
            }
        }
    }
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
