//! Question: what do message I/O in one process and decoding and logic in another cost, and what do they save in a
//! crash?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. The server is a program in C,
//! `guests/c/servers/stages.c`, which has the same stages in each arrangement. `case` has the grid, `message` what
//! clients say and check, `measure` runs a case, `read` reads the answer off the samples.

mod case;
mod measure;
mod message;
mod read;

use threadgauge_lab::prelude::*;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "stages",
    question: "What does it cost to have message I/O in a process of its own, and what survives when the logic crashes?",
    first_run: false,
    sources: &["003"],
    primary: &[case::TIME, case::SILENCE],
    how: "A small C server has three stages: message I/O (an event loop over all sockets), decoding (length, kind, checksum) and \
          logic (adds an amount to an account, and makes the answer). `arrangement=threads`: all three are threads of one process. \
          `staged`: I/O is a process, decoding and logic are threads of another. `processes`: each is a process. 1,000 connections \
          send messages of 128 bytes and check every answer. `load=saturated`: each sends its next message when it has its \
          answer. `load=half`: messages come at random times, at half of the rate that the same sample has just found saturated; \
          delay is from when a message was due. `load=crash`: saturated, and after 50 ms one message makes the logic write to \
          the address 0. A connection survives that is not ended; an answer is lost that is not there 300 ms after its \
          message was sent; *silence* is the longest time in which nobody has an answer, so it ends when the server serves \
          again. Stages hand messages over by the same ring in memory in each arrangement (shared memory where they are \
          processes): it has no lock, and makes a system call only to sleep and to wake who sleeps, once a batch. It is the \
          cheapest that processes can have, and so what differs is where stages run alone.",
    control: "All threads of one process. The silence of the saturated server is what there is of it without a crash.",
    traps: &[
        "Pipes or sockets between the processes copy each message twice and cost a system call a batch: they make `staged` and \
         `processes` slower than here.",
        "With one CPU for the server its stages take turns, and what is measured is work and switches; stages at the same time \
         need `server_cpus=3`, from four CPUs on; *paper* has them.",
        "Each arrangement has half of its own rate, which the table has. At saturation the delay is the number of connections over \
         the rate, and says nothing more.",
        "Where the clients used over 85 % of their CPU the sample is tagged `client-busy`: throughput may then be theirs, and the \
         server's CPU time a message says which arrangement is cheaper.",
        "Whoever serves again has lost the sums of its accounts. To keep them is work that is not measured here.",
        "With threads the listening socket is kept by a parent process, so that clients that come meanwhile wait instead of being \
         refused. A service manager that waits before it starts again takes that much longer.",
        "A crash that writes into shared memory before it ends may take the other process along. Here it does not.",
    ],
    source: "Source 003 names it and measured nothing: a server's message I/O and its message processing are loosely related, so \
             they can be processes, and decoding and logic, which are closely related, threads of one. 1,000 connections, 128 \
             bytes and the work of each stage are ours.",
    calls: &[
        "threadgauge run stages --set connections=100,5000 --set message_bytes=128,1024 --only load=saturated",
        "threadgauge run stages --profile standard --only load=crash",
    ],
    plan: case::plan,
    run: measure::run,
    read: read::read,
};
