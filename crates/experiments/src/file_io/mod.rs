//! Question: when does asynchronous I/O on one thread beat threads that wait for their reads?
//!
//! How it is measured is said in `EXPERIMENT`. `case` and `grid` say what is run, `file` is what is read, `measure`
//! runs one case once, and `read` finds the answer. The system calls are in `crate::sys`.

use threadgauge_lab::prelude::*;

use self::case::{CPU, Case, ELAPSED, RATE, READ, TURNAROUND};

mod case;
mod file;
mod grid;
mod measure;
mod read;
#[cfg(test)]
mod tests;

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "file-io",
    question: "When does asynchronous I/O on one thread read a file sooner than threads that wait?",
    first_run: false,
    sources: &["000"],
    primary: &[ELAPSED, TURNAROUND, CPU],
    how: "A file of `file_mib` without a name is written in `folder` (temporary: TMPDIR, or /tmp) and synced. The same `reads` \
          of `block_kib`, at places shuffled alike in every sample, are then done by `k` threads with pread (threads; k=1 is \
          the caller, one read after the other), by one thread with `k` reads in flight (io_uring), or by `k` threads that \
          copy out of a memory map (map). from=device reads past the page cache (O_DIRECT), and for a map what the \
          page cache was told to forget; from=cache what has just been read through. Threads, ring and map are made before \
          the clock runs. `elapsed_ns` runs from the start to the last read's end, `turnaround_ns` to a read's end at the mean, \
          `read_ns` from asking for a read to its end at the mean; `cpu_ns_per_read` is the CPU time of all threads. \
          Measured cold, once an invocation.",
    control: "As many threads as reads in flight do the same reads at the same places, and each block must hold what was \
              written there.",
    traps: &[
        "The figures are of one device and what is before it: a hypervisor's or a controller's cache answers sooner than a \
         disk. Set `folder` to one on the device in question; what is in memory (tmpfs) has no from=device.",
        "A map is told to bring no pages beside the one asked for, so a large block from the device is a fault for each \
         page. From the cache, the first touch of a page is a fault all the same: pages are mapped when touched.",
        "What is in the page cache is copied when asked for: io_uring then waits for nothing and is one thread that \
         copies, however many CPUs there are.",
        "Each sample writes its file, so a run of standard writes some 5 GB to the device. A disk that seeks needs fewer reads: \
         --set reads=100.",
        "CPU time of interrupts and of the device's driver may fall on others and is not in cpu_ns_per_read.",
    ],
    source: "Source 000 says that one thread with asynchronous I/O may do as well as threads for work that waits, announces \
             an article about it, and measured sleeps. All here is ours. It had one CPU, so its claim is judged on one: on reads of \
             4 KiB from the device, and on sockets (`server-designs`: one event loop against a thread for each connection).",
    calls: &[
        "threadgauge run file-io --set k=1,2,4,8 --set block_kib=4,64 --set reads=200",
        "threadgauge run file-io --profile standard --set folder=/var/tmp --only from=device,cpus=1",
        "threadgauge run file-io server-designs",
    ],
    plan: grid::plan,
    run,
    read: read::read,
};

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let measured = measure::measure(case, worker)?;
    let reads = case.reads as f64;
    worker.tag("cold");
    worker.record(ELAPSED, measured.elapsed_ns);
    worker.record(TURNAROUND, measured.turnaround_ns);
    worker.record(READ, measured.read_ns);
    worker.record(CPU, measured.cpu_ns / reads);
    worker.record(RATE, reads * 1e9 / measured.elapsed_ns);
    Ok(())
}
