//! Question: what does each server design do when no descriptor, thread or process can be made under load?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `case` has the grid, `measure`
//! runs a case, `read` reads the answer off the samples. `guests` has other runtimes make units past a limit.

mod case;
mod guests;
mod measure;
mod read;

use threadgauge_lab::prelude::*;

use crate::runtimes;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "past-the-limit",
    question: "What does each server design do when no descriptor, thread or process can be made under load?",
    first_run: false,
    sources: &["003"],
    primary: &[case::RECOVERY],
    how: "`threadgauge serve echo` serves eight connections, which send 128 bytes a hundred times a second each, by schedule. Then a \
          limit is set on the running server that leaves room for four more: on the descriptors of each of its processes \
          (`lacking=descriptors`, RLIMIT_NOFILE) or on the threads and processes of its user (`lacking=units`, RLIMIT_NPROC). 24 \
          newcomers connect at once and ask. 120 ms later each is answered, refused (its connection was ended) or still waiting. \
          All of them leave, the limit stays, and a new client asks until it is answered: that is the time to recover. An \
          answer of the first eight is lost if it never comes, and late if it comes more than 50 ms after it was due. Last, the \
          server is looked at: whether it still runs, and how it ends when it is asked to. Guests of other runtimes are started, \
          the limit is set, and they are told to make `count` units that wait: what they do is told by their answer, or their \
          end; they have five seconds.",
    control: "The same with no limit (`lacking=nothing`), on each design in *paper* and on one event loop elsewhere: answers count as \
              late for a limit where more are than without one. Designs with processes or threads made beforehand have 15 and serve as \
              many connections at once, so that of 24 newcomers 17 wait for them whatever the limit is.",
    traps: &[
        "A limit that a design does not meet changes nothing: event loops and pools make no units under load, and \
         processes made beforehand have descriptors of their own. A process for each connection takes one of its parent's.",
        "The kernel accepts a connection before the server does: to connect proves nothing, and who waits hears nothing.",
        "The kernel holds the superuser to no number of units. So a superuser's server runs as a user whom nobody else is; \
         another user's limit counts all that this user has, and room is then less exact where something else of it starts \
         or ends meanwhile.",
        "That a limit of a control group (`pids.max`), or memory, refuses a unit is the same error to the server.",
        "Recovery has in it what the server waits before it tries again (at most 100 ms), and the newcomers' dead connections.",
        "A superuser's guest runs as another user, too, who may still read all files: a runtime may lie where others cannot. \
         A JVM and Go start threads of their own as well, which take of the room.",
        "Designs that surely serve one connection at once (iterative, preforked-reuseport) have no newcomers to serve.",
    ],
    source: "Source 003 names what becomes of a server at its limits as the difference between designs, and measured none. \
             Counts, limits and times are ours.",
    calls: &[
        "threadgauge run past-the-limit --set room=1,16 --set newcomers=200 --only design=thread-per-connection,lacking=units",
        "threadgauge run past-the-limit --profile paper --only lacking=descriptors",
    ],
    plan: |site| runtimes::beside(case::plan(site), site, guests::plan(site)),
    run: |params, worker| match params.get("runtime") {
        Some(_) => guests::run(params, worker),
        None => measure::run(params, worker),
    },
    read: |view| {
        let mut answer = read::read(view);
        guests::read(view, &mut answer);
        answer
    },
};
