//! Question: what does a server's design cost under Stevens' clients?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. The designs, the C programs and
//! the clients are in [`servers`](crate::servers).

mod case;
mod guests;
mod measure;
mod read;
mod waiting;

use threadgauge_lab::prelude::*;

use case::CPU;

use crate::runtimes;

pub(crate) use read::loop_over_threads;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "server-designs",
    question: "What does a server's design cost under Stevens' clients: CPU time, latency, throughput and memory?",
    first_run: false,
    sources: &["003", "000"],
    primary: &[CPU],
    how: "Stevens' clients, as he had them: ten processes (two machines of five) ask at once, each connection after \
          connection for 4,000 bytes, and count them. The server is started on the first CPU of the case, the clients have \
          the others; of one CPU both have the same. Its CPU time, of all its threads and processes, is read when it has \
          ended. Each case has two lives of the server: one with a few connections, in which its memory is looked at, and one \
          with all; the difference is what requests cost. Whole figures with start and end stand beside it. `long` asks \
          a hundred times by each connection, `echo` sends 128 bytes on connections made beforehand and compares every byte \
          that comes back, `accept` has connections that are closed at once, and counts how often the server's processes \
          waited. `waits_by` is one loop in C for `echo` that waits by epoll, by poll or by select, with so many \
          connections of which a share never says anything. With `runtime` the server is another runtime's: it is warmed \
          up, and its CPU time is looked at before and behind the messages of one life; so it is with `waits_by`. The claims are \
          decided by small C programs of the designs, as the source's were, with `threadgauge serve` beside them; those that `accept` and `echo` decide, by `threadgauge serve` itself.",
    control: "The iterative server, whose CPU time is what serving takes without any process control. For `accept`, a C \
              program whose children all wait by poll: each connection wakes all of them. For `echo`, the least that one \
              loop in C can do (program=c).",
    traps: &[
        "On one CPU requests a second have the clients' work in them, equally for all designs. On two, a server that sleeps \
         while its clients work is charged for being woken; a fast one waits for them, and its rate is theirs.",
        "Fifteen children made beforehand, or fifteen threads, as in Stevens' measurement, for ten clients: no client waits \
         for a child.",
        "Process control is a difference, and that of cheap designs is small: where it is not above 0.1 µs, a ratio takes \
         0.1 µs.",
        "A fork copies its parent. The C program is small; `threadgauge` has more memory and mappings to copy.",
        "Over the loopback address the kernel does much of the receiver's work in the sender's time.",
        "waits_per_request counts voluntary switches of all processes and threads of the server that had ended and been \
         waited for: each is a wait, and so a wake-up.",
        "The iterative server and a listening socket for each child are looked at with one connection open: more might wait \
         for each other. The others with all clients connected, at most fifteen of a pool.",
    ],
    source: "Source 003 quotes Stevens' table of nine designs on three systems, comparable only down a column: process-control CPU \
             seconds, and no totals, which it misses. His clients were on other machines and his 15 units made beforehand; \
             here all is on one machine over the loopback address. Cells without a figure were not supported there. Source 000 \
             holds one thread with asynchronous I/O against many that block.",
    calls: &[],
    plan: |site| {
        let plan = waiting::beside(case::plan(site), site);
        runtimes::beside(plan, site, guests::plan(site))
    },
    run: |params, worker| match (params.get("runtime"), params.get("waits_by")) {
        (Some(_), _) => guests::run(params, worker),
        (None, Some(_)) => waiting::run(params, worker),
        (None, None) => measure::run(params, worker),
    },
    read: |view| {
        let mut answer = read::read(view);
        waiting::read(view, &mut answer);
        guests::read(view, &mut answer);
        answer
    },
};
