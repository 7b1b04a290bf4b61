//! What a processor does: nothing, a burn of fixed length, or a sleep.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The work of one processor.
#[derive(Clone, Copy)]
pub struct Work {
    /// Of the burner.
    pub iterations: u64,
    /// After it.
    pub sleep_us: u64,
}

/// What a processor leaves.
#[derive(Clone, Copy)]
pub struct Outcome {
    /// So that the work is needed.
    pub value: u64,
    /// When it ended, by [`now_ns`]; 0 for an empty one.
    pub ended_ns: u64,
}

impl Work {
    /// Whether there is nothing to do, and so no clock to read.
    pub fn is_empty(&self) -> bool {
        self.iterations == 0 && self.sleep_us == 0
    }

    /// The processor.
    #[inline]
    pub fn run(&self, object: u64) -> Outcome {
        if self.is_empty() {
            return Outcome {
                value: black_box(object),
                ended_ns: 0,
            };
        }
        let value = burn(object, self.iterations);
        if self.sleep_us > 0 {
            std::thread::sleep(Duration::from_micros(self.sleep_us));
        }
        Outcome {
            value,
            ended_ns: now_ns(),
        }
    }
}

/// A chain in which each step needs the one before. The same in every language of this comparison; the shift
/// keeps a compiler from folding two steps into one.
#[inline(never)]
pub fn burn(seed: u64, iterations: u64) -> u64 {
    let mut x = black_box(seed);
    for _ in 0..iterations {
        x = (x ^ (x >> 29))
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(x)
}

/// Nanoseconds since the first call.
#[inline]
pub fn now_ns() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The least of many short burns by this thread's CPU clock.
pub fn ns_per_iteration() -> f64 {
    const ITERATIONS: u64 = 100_000;
    (0..60)
        .map(|seed| {
            let start = thread_cpu_ns();
            burn(seed, ITERATIONS);
            thread_cpu_ns() - start
        })
        .min()
        .map_or(0.0, |least| least as f64 / ITERATIONS as f64)
}

fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
