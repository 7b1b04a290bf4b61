//! The caller's side of a run: the finisher, and what the run took.

use std::fmt;
use std::time::Instant;

use crate::work::{Outcome, now_ns};
use crate::{Call, Run};

/// Finishes results: counts them, adds them up and notes how long each waited.
pub struct Finisher {
    count: u64,
    sum: u64,
    waits_ns: Vec<u64>,
    took_ns: Option<u64>,
}

impl Finisher {
    fn new(call: Call) -> Self {
        let waits = if call.work.is_empty() {
            0
        } else {
            call.objects as usize
        };
        Self {
            count: 0,
            sum: 0,
            waits_ns: Vec::with_capacity(waits),
            took_ns: None,
        }
    }

    /// For one result, on the caller's thread.
    #[inline]
    pub fn finish(&mut self, outcome: Outcome) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(outcome.value);
        if outcome.ended_ns != 0 {
            self.waits_ns.push(now_ns().saturating_sub(outcome.ended_ns));
        }
    }

    /// For a peer that knows better than the clock around it what counts.
    pub fn took(&mut self, ns: u64) {
        self.took_ns = Some(ns);
    }
}

/// What a run took.
pub struct Measured {
    elapsed_ns: u64,
    cpu_ns: u64,
    peak_rss_kib: u64,
    waits_ns: Vec<u64>,
}

impl Measured {
    /// Runs a tenth of it to warm up, then all of it.
    pub fn of(run: Run, call: Call) -> Self {
        now_ns();
        let warm_up = Call {
            objects: (call.objects / 10).max(1),
            ..call
        };
        run(warm_up, &mut Finisher::new(warm_up));
        let mut finisher = Finisher::new(call);
        let cpu_before = cpu_ns();
        let start = Instant::now();
        run(call, &mut finisher);
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        let cpu_ns = cpu_ns() - cpu_before;
        assert_eq!(finisher.count, call.objects, "objects lost or finished twice");
        std::hint::black_box(finisher.sum);
        finisher.waits_ns.sort_unstable();
        let elapsed_ns = finisher.took_ns.unwrap_or(elapsed_ns);
        Self {
            elapsed_ns,
            cpu_ns,
            peak_rss_kib: peak_rss_kib(),
            waits_ns: finisher.waits_ns,
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            elapsed_ns,
            cpu_ns,
            peak_rss_kib,
            waits_ns,
        } = self;
        write!(
            f,
            "{{\"elapsed_ns\": {elapsed_ns}, \"cpu_ns\": {cpu_ns}, \"peak_rss_kib\": {peak_rss_kib}"
        )?;
        if let Some(max) = waits_ns.last() {
            let at =
                |share: f64| waits_ns[((waits_ns.len() as f64 * share) as usize).min(waits_ns.len() - 1)];
            write!(
                f,
                ", \"wait_p50_ns\": {}, \"wait_p99_ns\": {}, \"wait_max_ns\": {max}",
                at(0.5),
                at(0.99)
            )?;
        }
        f.write_str("}")
    }
}

/// CPU time of this process so far.
fn cpu_ns() -> u64 {
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// Not by getrusage, whose peak begins with that of the program that started this one. 0 where it cannot be read.
fn peak_rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|kib| kib.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}
