//! One way of bounded concurrent execution, run once on one workload: a line of JSON says what it took.
//!
//! `exec-peers PEER DEGREE OBJECTS ITERATIONS SLEEP_US`, or `exec-peers calibrate`, or `exec-peers list`. Started by
//! `bench-exec`, which knows when and how often; the peers in other languages answer to the same words.
//!
//! The contract is the same for all: at most DEGREE processors at work, each result finished on the thread that
//! made the call, as soon as it is known there. ITERATIONS of the burner and a sleep are the processor's work; with
//! neither it is empty, and no clock is read.

mod bare;
mod channels;
mod measure;
mod ours;
mod pools;
mod tokio_peers;
mod work;

use std::process::ExitCode;

use measure::{Finisher, Measured};
use work::{Work, ns_per_iteration};

/// A call: what to do, how many of it, how many at once.
#[derive(Clone, Copy)]
pub struct Call {
    /// At most so many at work.
    pub degree: usize,
    /// So many objects, numbered from 0.
    pub objects: u64,
    /// What a processor does with each.
    pub work: Work,
}

/// What a peer does with a call: every result goes to the finisher, on this thread.
type Run = fn(Call, &mut Finisher);

const PEERS: &[(&str, Run)] = &[
    ("ours-prompt", ours::prompt),
    ("ours-throughput", ours::throughput),
    ("ours-free-caller", ours::free_caller),
    ("ours-thread-per-object", ours::thread_per_object),
    ("crossbeam-k", |call, finisher| {
        channels::crossbeam(call, call.degree, finisher)
    }),
    ("crossbeam-1024", |call, finisher| {
        channels::crossbeam(call, 1024, finisher)
    }),
    ("kanal-k", |call, finisher| {
        channels::kanal(call, call.degree, finisher)
    }),
    ("kanal-1024", |call, finisher| {
        channels::kanal(call, 1024, finisher)
    }),
    ("std-k", |call, finisher| {
        channels::std(call, call.degree, finisher)
    }),
    ("std-1024", |call, finisher| channels::std(call, 1024, finisher)),
    ("rayon-k", |call, finisher| {
        pools::rayon(call, call.degree, finisher)
    }),
    ("rayon-1024", |call, finisher| pools::rayon(call, 1024, finisher)),
    ("threadpool-k", |call, finisher| {
        pools::threadpool(call, call.degree, finisher)
    }),
    ("threadpool-1024", |call, finisher| {
        pools::threadpool(call, 1024, finisher)
    }),
    ("tokio-blocking-k", |call, finisher| {
        tokio_peers::blocking(call, call.degree, finisher)
    }),
    ("tokio-blocking-1024", |call, finisher| {
        tokio_peers::blocking(call, 1024, finisher)
    }),
    ("tokio-tasks-k", |call, finisher| {
        tokio_peers::tasks(call, call.degree, finisher)
    }),
    ("tokio-tasks-1024", |call, finisher| {
        tokio_peers::tasks(call, 1024, finisher)
    }),
    ("std-thread-per-object", bare::std_threads),
    ("bare-pthread", bare::pthreads),
    ("ideal", bare::ideal),
    ("floor", bare::floor),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["calibrate"] => println!("{{\"ns_per_iteration\": {}}}", ns_per_iteration()),
        ["list"] => PEERS.iter().for_each(|(name, _)| println!("{name}")),
        [name, degree, objects, iterations, sleep_us] => {
            let Some((_, run)) = PEERS.iter().find(|(peer, _)| *peer == name) else {
                eprintln!("there is no peer {name:?}; try: exec-peers list");
                return ExitCode::from(2);
            };
            let numbers = (
                degree.parse(),
                objects.parse(),
                iterations.parse(),
                sleep_us.parse(),
            );
            let (Ok(degree), Ok(objects), Ok(iterations), Ok(sleep_us)) = numbers else {
                eprintln!("DEGREE, OBJECTS, ITERATIONS and SLEEP_US are whole numbers");
                return ExitCode::from(2);
            };
            let work = Work { iterations, sleep_us };
            println!(
                "{}",
                Measured::of(
                    *run,
                    Call {
                        degree,
                        objects,
                        work
                    }
                )
            );
        }
        _ => {
            eprintln!("usage: exec-peers PEER DEGREE OBJECTS ITERATIONS SLEEP_US | calibrate | list");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
