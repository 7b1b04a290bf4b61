//! Every design behaves as every other: what clients see, what sessions see and what is counted is the same on all, or
//! the difference is named in the documentation (`docs/designs.md`).
//!
//! Random traces (bytes in pieces, half-closes, resets, slow and late readers, clients that are silent or take nothing,
//! stops, limits) are played on each design over real sockets, and compared with what a rehearsal of the protocol does.
//! Beside them stand what no trace of a few bytes comes to, the table of requests of HTTP with its right answers, and
//! what a server still holds of clients that have left.
//! `THREADGAUGE_TRACES` says how many are played on each design, `THREADGAUGE_SEED` which, and `THREADGAUGE_ROUND`
//! plays one round of them alone: so a trace comes again.
//! `cargo test -p threadgauge-reactor --test equal -- WORDS` plays them on the designs whose names contain one of the
//! words.
//!
//! Each server is a process of its own, which is this program again; so its `main` is its own.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod beside;
mod client;
#[path = "../common/dates.rs"]
mod dates;
mod differences;
mod ending;
#[path = "../common/http_requests.rs"]
mod http_requests;
mod leaving;
mod model;
#[expect(dead_code, reason = "others ask for more than the children of a process")]
#[path = "../common/proc.rs"]
mod proc;
mod round;
mod server;
#[path = "../common/settings.rs"]
mod settings;
mod staying;
mod table;
mod trace;
mod watched;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use threadgauge_reactor::{Design, Sends};

use crate::differences::{Difference, is_documented};
use crate::round::{Way, play};
use crate::trace::Round;

/// How long anything may take before a trace fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The traces of a round, most of which run at once.
const TRACES_A_ROUND: usize = 10;

/// How many designs are tried at once: a trace mostly waits.
const AT_ONCE: usize = 8;

const TRACES: &str = "THREADGAUGE_TRACES";
const SEED: &str = "THREADGAUGE_SEED";
/// With it, few traces find what many have found.
const USUAL_SEED: u64 = 9;
const ROUND: &str = "THREADGAUGE_ROUND";

/// Every design; and those with sends by io_uring that have all there is to them: both halves of a connection on one
/// loop, and on two.
fn ways() -> impl Iterator<Item = Way> {
    let by_call = Design::ALL.iter().map(|&design| Way { design, sends: None });
    by_call.chain([Design::Reactor, Design::ReactorPool].map(|design| Way {
        design,
        sends: Some(Sends::IoUring),
    }))
}

fn main() -> ExitCode {
    if let Some(code) = server::child() {
        return code;
    }
    differences::are_those_of_the_document();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("up to the maximum is allowed");
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let (traces, seed) = (
        number(TRACES).unwrap_or(50) as usize,
        number(SEED).unwrap_or(USUAL_SEED),
    );
    let ways: Vec<(String, Way)> = ways()
        .map(|way| (name(way), way))
        .filter(|(name, _)| words.is_empty() || words.iter().any(|word| name.contains(word)))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, way)) = ways.get(next.fetch_add(1, Relaxed)) {
                    let began = Instant::now();
                    let outcome = thread::scope(|beside| {
                        // They mostly wait.
                        let ending = beside.spawn(|| ending::keeps_nobody(*way));
                        let staying = beside.spawn(|| staying::is_heard_as_documented(*way));
                        let table = beside.spawn(|| table::holds(*way));
                        let leaving = beside.spawn(|| leaving::leaves_nothing(*way));
                        let rounds = all_rounds(*way, seed, traces);
                        let others =
                            [ending, staying, table, leaving].map(|one| one.join().expect("no panic"));
                        others.into_iter().chain([rounds]).collect::<Result<(), _>>()
                    });
                    let took = began.elapsed().as_millis();
                    match outcome {
                        Ok(()) => println!("test {name} ... ok ({took} ms)"),
                        Err(fault) => {
                            failed.fetch_add(1, Relaxed);
                            println!("test {name} ... FAILED ({took} ms)\n{name}: {fault}");
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!(
        "{} passed; {failed} failed: {traces} traces each, with {SEED}={seed}",
        ways.len() - failed
    );
    // Words that fit nothing are a mistake, not a success.
    match failed == 0 && !ways.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn name(way: Way) -> String {
    match way.sends {
        None => way.design.name().to_owned(),
        Some(sends) => format!("{}+{}", way.design.name(), sends.name()),
    }
}

fn number(variable: &str) -> Option<u64> {
    let given = std::env::var(variable).ok();
    given.map(|given| given.parse().expect("a number"))
}

/// Up to the first that fails.
fn all_rounds(way: Way, seed: u64, traces: usize) -> Result<(), String> {
    let shared = !(way.design.accepts_shared().is_err() && is_documented(Difference::Apart));
    let only = number(ROUND).map(|round| round as usize);
    for number in 0..traces.div_ceil(TRACES_A_ROUND) {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let count = TRACES_A_ROUND.min(traces - number * TRACES_A_ROUND);
        let round = Round::new(seed, number, count, shared);
        play(&round, way).map_err(|fault| {
            format!(
                "{fault}\n  with {SEED}={seed} {TRACES}={traces} {ROUND}={number}: {} with {}",
                round.protocol.name(),
                round.settings.join(" ")
            )
        })?;
    }
    Ok(())
}
