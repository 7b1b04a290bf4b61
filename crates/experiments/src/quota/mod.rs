//! Question: what does a pool of threads cost that is sized by the machine where a quota grants less?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `case` has the grid, `measure`
//! runs a case, `read` reads the answer off the samples. `threadgauge_machine` makes and removes the control group.

mod case;
mod measure;
mod read;

use threadgauge_lab::prelude::*;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "quota",
    question: "What does a pool sized by the machine cost in a container with a CPU quota, and does a quota hurt below its limit?",
    first_run: false,
    sources: &["automaxprocs", "buffer"],
    primary: &[case::MEAN, case::P99, case::PER_TASK],
    how: "The worker makes a control group below its own, gives it a quota of `quota_percent` of a CPU in periods of 100 ms \
          (as containers have it), and moves into it. There a pool of `threads` threads does tasks that each compute for \
          `task_us`. `load=full`: there is always another task; after a whole number of periods, five at least (and up to four \
          times as many while others have the CPUs), the tasks done are counted. The latency of a task is from when a thread \
          takes it to its end. `load=half`: tasks come at random times (Poisson; the same in all cases of a round), and \
          together want half of what the quota grants; latency is from when a task was due, so a wait for a thread is in it. \
          `tasks` is how many there are, at full load at least. A percentile is recorded where ten tasks lie beyond it. The \
          worker then goes back and removes the group.",
    control: "`limit=none`: as many tasks of the same length without a quota. At full load, the pool sized by the quota: a thread \
              for each whole CPU that it grants, and one at least.",
    traps: &[
        "A quota is time, and not a number of CPUs: two threads use up the time of one CPU in half of a period and then both \
         stand still for the other half.",
        "Whether a quota hurts below its limit depends on how much comes at once. What needs little of a period's time is \
         never stopped, and a task that needs more than that always is: `task_us` is that length.",
        "At full load the wait for a thread is not in the latency: how long a queue is depends on who fills it.",
        "Tasks here only compute. A pool whose tasks wait needs more threads, with a quota and without.",
        "It makes a control group, which needs root or a delegated group. Without either the cases are skipped, and say so.",
        "On a machine of two CPUs two threads stand still for half of the time at a quota of one. The more CPUs a machine \
         has, the longer: 96 threads use up a quota of 1.5 CPUs in 1.6 ms and stand still for 98.",
    ],
    source: "Source automaxprocs gives a load balancer in Go, with a quota of 2 CPUs on a machine of 24, from 1 to 24 threads: with \
             24 it has half of the throughput and three times the latency of 2. Here there is no runtime in the way, and tasks \
             only compute. Source buffer says that containers are throttled while they use less than their limit, and removed \
             the limits; it does not say how long its requests compute.",
    calls: &[
        "threadgauge run quota --set quota_percent=150 --set threads=1,2,8 --only load=full",
        "threadgauge run quota --profile standard --set task_us=5000,50000 --only load=half",
    ],
    plan: case::plan,
    run: measure::run,
    read: read::read,
};
