//! Objects that say what their processor is to do: the same in a thread, in another process and in a future.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::DEADLINE;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Computes, for as many thousand additions.
    Burn(u32),
    /// Until the file is there.
    WaitFor(PathBuf),
    /// Writes the processor's process id into a file.
    Touch(PathBuf),
    /// Makes a result of so many bytes.
    Grow(usize),
    /// Writes to standard output.
    Print,
    /// Reads standard input to its end; fails if there is something.
    ReadInput,
    Fail,
    Panic,
    Exit(i32),
    Abort,
    Signal(i32),
    Hang,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Object {
    pub id: usize,
    pub steps: Vec<Step>,
    pub load: Vec<u64>,
}

pub fn object(id: usize, steps: impl Into<Vec<Step>>) -> Object {
    Object {
        id,
        steps: steps.into(),
        load: Vec::new(),
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Output {
    pub id: usize,
    pub pid: u32,
    /// On the clock of all processes, in ns.
    pub began: u64,
    pub ended: u64,
    pub bytes: Vec<u8>,
}

pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Output {
    fn begin(id: usize) -> Self {
        Self {
            id,
            pid: std::process::id(),
            began: now(),
            ended: 0,
            bytes: Vec::new(),
        }
    }

    fn end(mut self) -> Self {
        self.ended = now();
        self
    }

    /// One step; `false` if it has to be tried again.
    fn step(&mut self, step: &Step) -> Result<bool, String> {
        match step {
            Step::Burn(thousands) => {
                std::hint::black_box(
                    (0..u64::from(*thousands) * 1000).fold(1, |a, b| a ^ std::hint::black_box(b)),
                );
            }
            Step::WaitFor(path) if path.exists() => {}
            Step::WaitFor(path) => {
                let waited = Duration::from_nanos(now() - self.began);
                return if waited < DEADLINE {
                    Ok(false)
                } else {
                    Err(format!("waited in vain for {}", path.display()))
                };
            }
            Step::Touch(path) => {
                // In one go, for whoever waits for it and reads.
                let unfinished = path.with_extension("part");
                fs::write(&unfinished, std::process::id().to_string()).map_err(|e| e.to_string())?;
                fs::rename(unfinished, path).map_err(|e| e.to_string())?;
            }
            Step::Grow(bytes) => self.bytes = vec![7; *bytes],
            #[allow(clippy::print_stdout)]
            Step::Print => println!("a processor prints"),
            Step::ReadInput => {
                let mut all = Vec::new();
                let n = std::io::stdin()
                    .read_to_end(&mut all)
                    .map_err(|e| e.to_string())?;
                if n > 0 {
                    return Err(format!("{n} bytes on standard input"));
                }
            }
            Step::Fail => return Err(format!("{} fails", self.id)),
            Step::Panic => panic!("{} panics", self.id),
            Step::Exit(status) => std::process::exit(*status),
            Step::Abort => std::process::abort(),
            Step::Signal(number) => {
                let signal = rustix::process::Signal::from_named_raw(*number).ok_or("no such signal")?;
                rustix::process::kill_process(rustix::process::getpid(), signal)
                    .map_err(|e| e.to_string())?;
                return Ok(false);
            }
            Step::Hang => return Ok(false),
        }
        Ok(true)
    }
}

pub fn perform(object: &Object) -> Result<Output, String> {
    let mut output = Output::begin(object.id);
    for step in &object.steps {
        while !output.step(step)? {
            std::thread::yield_now();
        }
    }
    Ok(output.end())
}

/// The same, giving way where it waits.
pub async fn perform_async(object: &Object) -> Result<Output, String> {
    let mut output = Output::begin(object.id);
    for step in &object.steps {
        while !output.step(step)? {
            give_way().await;
        }
        give_way().await;
    }
    Ok(output.end())
}

/// Lets other futures run.
async fn give_way() {
    let mut once = false;
    std::future::poll_fn(|cx| {
        if once {
            return std::task::Poll::Ready(());
        }
        once = true;
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
