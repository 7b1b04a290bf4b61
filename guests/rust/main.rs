//! The cases of the experiments as a Rust program would have them: tasks of Tokio, and the stackful coroutines of may.
//!
//!     guest create UNIT COUNT                   makes and ends COUNT units, one after the other, in ten batches
//!     guest ring UNIT RING WARM_NS TIMED_NS     a token goes round RING units by the runtime's channels
//!     guest idle UNIT COUNT                     keeps COUNT units that wait, until its standard input ends
//!     guest most UNIT LIMIT                     makes LIMIT units that wait: neither runtime refuses one
//!     guest pool UNIT DEGREE KIND MS/MS/…       runs computations, DEGREE at a time: KIND is cpu or io
//!     guest past UNIT COUNT                     makes units that wait once its input has ended; tasks block threads
//!     guest print UNIT UNITS PRINTS TEXT LOG    prints lines into what standard input is, and into the file LOG, or -
//!     guest serve DESIGN PROTOCOL PORT          a server (`serve.rs`), until it is ended: says where it listens
//!
//! UNIT is task or coroutine. It answers as the programs in C do (`guests/c/guest.h`): one line, `done NAME=NUMBER …`
//! or `error WORDS`. `idle` and `past` say `ready made=NUMBER` first.

mod serve;

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BATCHES: usize = 10;

fn done(figures: &[(String, u128)]) {
    let words: Vec<String> = figures
        .iter()
        .map(|(name, number)| format!("{name}={number}"))
        .collect();
    println!("done {}", words.join(" "));
}

fn fail(words: String) -> ! {
    println!("error {words}");
    exit(1);
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| fail(format!("{text} is no number")))
}

fn until_end_of_input() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn made(count: usize) -> (String, u128) {
    ("made".to_owned(), count as u128)
}

fn batch(number: usize, begun: Instant) -> (String, u128) {
    (format!("batch_{number}_ns"), begun.elapsed().as_nanos())
}

fn hops(wall: Duration, laps: u64, ring: usize) {
    let hops = u128::from(laps) * ring as u128;
    done(&[("wall_ns".to_owned(), wall.as_nanos()), ("hops".to_owned(), hops)]);
}

fn refused_none(count: usize) {
    done(&[made(count), ("refused".to_owned(), 0)]);
}

/// How long units may take to begin: those that are made and have no thread do not.
const TO_BEGIN: Duration = Duration::from_millis(500);

/// Until as many have begun as were made, or their time is over; how many have.
fn begun(counter: &AtomicUsize, made: usize) -> usize {
    let since = Instant::now();
    while counter.load(Relaxed) < made && since.elapsed() < TO_BEGIN {
        std::thread::sleep(Duration::from_millis(1));
    }
    counter.load(Relaxed)
}

fn went_past(made: usize, begun: usize, took: Duration) {
    let figures = [("made", made as u128), ("begun", begun as u128), ("refused", 0)];
    let figures = figures
        .into_iter()
        .chain([("took_ns", took.as_nanos()), ("again", 1)]);
    let figures: Vec<(String, u128)> = figures.map(|(name, number)| (name.to_owned(), number)).collect();
    done(&figures);
}

/// Where lines go: each into what standard input is when it is printed, and into the log, if there is one, in blocks.
struct Sinks {
    sink: File,
    log: Option<Mutex<BufWriter<File>>>,
}

impl Sinks {
    fn open(log: &str) -> std::io::Result<Self> {
        let sink = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let file = (log != "-")
            .then(|| OpenOptions::new().append(true).open(log))
            .transpose()?;
        let log = file.map(|file| Mutex::new(BufWriter::with_capacity(4096, file)));
        Ok(Self { sink, log })
    }

    /// Lines with their counter, and how many bytes they are.
    fn lines(&self, prints: usize, text: &str) -> std::io::Result<u64> {
        let mut bytes = 0;
        for counter in 0..prints {
            let line = format!("[{counter}]{text}\n");
            (&self.sink).write_all(line.as_bytes())?;
            if let Some(log) = &self.log {
                log.lock()
                    .expect("nobody panics with it")
                    .write_all(line.as_bytes())?;
            }
            bytes += line.len() as u64;
        }
        Ok(bytes)
    }

    /// The last word, and what is left of the log.
    fn end(&self) -> std::io::Result<()> {
        (&self.sink).write_all(b"Okay\n")?;
        match &self.log {
            Some(log) => log.lock().expect("nobody panics with it").flush(),
            None => Ok(()),
        }
    }
}

fn printed(begun: Instant, bytes: u64) {
    let wall = begun.elapsed().as_nanos();
    done(&[("wall_ns".to_owned(), wall), ("bytes".to_owned(), bytes.into())]);
}

fn not_printed(error: std::io::Error) -> ! {
    fail(format!("printing: {error}"))
}

/// Burns CPU time of its own. Nothing tells that of a unit, so it is as many steps as take so long alone.
fn burn(steps: u64) {
    let mut value = 1_u64;
    for step in 0..steps {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
    }
}

/// The most of a few tries: whatever comes between makes it less.
fn steps_of_millisecond() -> f64 {
    const STEPS: u64 = 2_000_000;
    let rate = |_| {
        let begun = Instant::now();
        burn(STEPS);
        STEPS as f64 * 1e6 / begun.elapsed().as_nanos() as f64
    };
    (0..8).map(rate).fold(0.0, f64::max)
}

/// A set of computations: how each is done, and when each has ended.
#[derive(Clone, Copy)]
struct Work {
    is_cpu: bool,
    steps_of_millisecond: f64,
}

impl Work {
    fn of(kind: &str) -> Self {
        let is_cpu = kind == "cpu";
        let steps_of_millisecond = if is_cpu { steps_of_millisecond() } else { 0.0 };
        Self {
            is_cpu,
            steps_of_millisecond,
        }
    }

    fn compute(self, milliseconds: f64) {
        burn((milliseconds * self.steps_of_millisecond) as u64);
    }
}

fn ended(ends: &[Duration]) {
    let last = ends.iter().max().copied().unwrap_or_default();
    let mut figures = vec![("elapsed_ns".to_owned(), last.as_nanos())];
    let turnarounds = ends.iter().enumerate();
    figures.extend(turnarounds.map(|(i, end)| (format!("turnaround_{}_ns", i + 1), end.as_nanos())));
    done(&figures);
}

fn wait(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1e3)
}

mod task {
    use super::*;
    use tokio::sync::{mpsc, Semaphore};

    pub async fn create(count: usize) {
        let mut figures = vec![made(count / BATCHES * BATCHES)];
        for number in 1..=BATCHES {
            let begun = Instant::now();
            for _ in 0..count / BATCHES {
                tokio::spawn(async {}).await.expect("it ends well");
            }
            figures.push(batch(number, begun));
        }
        done(&figures);
    }

    /// Unit 0 has the clock, and a lap is a token that comes back.
    pub async fn ring(size: usize, warm: Duration, timed: Duration) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..size).map(|_| mpsc::channel::<u64>(1)).unzip();
        let mut receivers = receivers.into_iter();
        let mut last = receivers.next().expect("a ring has units");
        let mut all = Vec::new();
        for (i, mut own) in receivers.enumerate() {
            let following = senders[(i + 2) % size].clone();
            all.push(tokio::spawn(async move {
                while let Some(token) = own.recv().await {
                    if following.send(token).await.is_err() {
                        break;
                    }
                }
            }));
        }
        let first = senders[1 % size].clone();
        drop(senders);
        let mut laps = async |count: u64| {
            for token in 0..count {
                first.send(token).await.expect("the ring is whole");
                last.recv().await.expect("the ring is whole");
            }
        };
        // Twice as many laps as before until they have lasted for the warm-up; then so many again and again, timed.
        let (mut count, begun) = (1, Instant::now());
        while begun.elapsed() < warm {
            laps(count).await;
            count *= 2;
        }
        let (mut made, begun) = (0, Instant::now());
        while begun.elapsed() < timed {
            laps(count).await;
            made += count;
        }
        let wall = begun.elapsed();
        drop(first);
        for unit in all {
            unit.await.expect("it ends well");
        }
        hops(wall, made, size);
    }

    pub async fn keep(count: usize, ready: impl FnOnce()) {
        let gate = Arc::new(Semaphore::new(0));
        let waiting = Arc::new(Semaphore::new(0));
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let (gate, waiting) = (gate.clone(), waiting.clone());
            all.push(tokio::spawn(async move {
                waiting.add_permits(1);
                // It is closed when all may go.
                let _ = gate.acquire().await;
            }));
        }
        for _ in 0..count {
            waiting.acquire().await.expect("it is open").forget();
        }
        ready();
        gate.close();
        for unit in all {
            unit.await.expect("it ends well");
        }
    }

    pub async fn print(count: usize, prints: usize, text: String, log: &str) {
        let sinks = Arc::new(Sinks::open(log).unwrap_or_else(|e| not_printed(e)));
        let begun = Instant::now();
        let unit = |_| {
            let (sinks, text) = (sinks.clone(), text.clone());
            tokio::spawn(async move { sinks.lines(prints, &text) })
        };
        let all: Vec<_> = (0..count).map(unit).collect();
        let mut bytes = 0;
        for unit in all {
            bytes += unit
                .await
                .expect("it ends well")
                .unwrap_or_else(|e| not_printed(e));
        }
        sinks.end().unwrap_or_else(|e| not_printed(e));
        printed(begun, bytes);
    }

    /// Each unit keeps a thread of those that the runtime has for calls that block.
    pub async fn past(count: usize) {
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().expect("nobody panics with it");
        let counter = Arc::new(AtomicUsize::new(0));
        let since = Instant::now();
        let unit = |_| {
            let (gate, counter) = (gate.clone(), counter.clone());
            tokio::task::spawn_blocking(move || {
                counter.fetch_add(1, Relaxed);
                drop(gate.lock());
            })
        };
        let all: Vec<_> = (0..count).map(unit).collect();
        let took = since.elapsed();
        let begun = begun(&counter, count);
        drop(closed);
        for unit in all {
            unit.await.expect("it ends well");
        }
        tokio::task::spawn_blocking(|| {}).await.expect("it ends well");
        went_past(count, begun, took);
    }

    pub async fn pool(degree: usize, kind: &str, lengths: Vec<f64>) {
        let work = Work::of(kind);
        let permits = Arc::new(Semaphore::new(degree));
        let begun = Instant::now();
        let mut all = Vec::new();
        for milliseconds in lengths {
            let permit = permits.clone().acquire_owned().await.expect("it is open");
            all.push(tokio::spawn(async move {
                if work.is_cpu {
                    work.compute(milliseconds);
                } else {
                    tokio::time::sleep(wait(milliseconds)).await;
                }
                drop(permit);
                begun.elapsed()
            }));
        }
        let mut ends = Vec::new();
        for unit in all {
            ends.push(unit.await.expect("it ends well"));
        }
        ended(&ends);
    }
}

mod coroutine {
    use super::*;
    use may::coroutine::sleep;
    use may::go;
    use may::sync::{mpsc, Semphore, SyncFlag};

    pub fn create(count: usize) {
        let mut figures = vec![made(count / BATCHES * BATCHES)];
        for number in 1..=BATCHES {
            let begun = Instant::now();
            for _ in 0..count / BATCHES {
                go!(|| {}).join().expect("it ends well");
            }
            figures.push(batch(number, begun));
        }
        done(&figures);
    }

    pub fn ring(size: usize, warm: Duration, timed: Duration) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..size).map(|_| mpsc::channel::<u64>()).unzip();
        let mut receivers = receivers.into_iter();
        let last = receivers.next().expect("a ring has units");
        let mut all = Vec::new();
        for (i, own) in receivers.enumerate() {
            let following = senders[(i + 2) % size].clone();
            all.push(go!(move || {
                while let Ok(token) = own.recv() {
                    if following.send(token).is_err() {
                        break;
                    }
                }
            }));
        }
        let first = senders[1 % size].clone();
        drop(senders);
        let laps = |count: u64| {
            for token in 0..count {
                first.send(token).expect("the ring is whole");
                last.recv().expect("the ring is whole");
            }
        };
        let (mut count, begun) = (1, Instant::now());
        while begun.elapsed() < warm {
            laps(count);
            count *= 2;
        }
        let (mut made, begun) = (0, Instant::now());
        while begun.elapsed() < timed {
            laps(count);
            made += count;
        }
        let wall = begun.elapsed();
        drop(first);
        for unit in all {
            unit.join().expect("it ends well");
        }
        hops(wall, made, size);
    }

    pub fn keep(count: usize, ready: impl FnOnce()) {
        let gate = Arc::new(SyncFlag::new());
        let waiting = Arc::new(Semphore::new(0));
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let (gate, waiting) = (gate.clone(), waiting.clone());
            all.push(go!(move || {
                waiting.post();
                gate.wait();
            }));
        }
        (0..count).for_each(|_| waiting.wait());
        ready();
        gate.fire();
        for unit in all {
            unit.join().expect("it ends well");
        }
    }

    pub fn print(count: usize, prints: usize, text: String, log: &str) {
        let sinks = Arc::new(Sinks::open(log).unwrap_or_else(|e| not_printed(e)));
        let begun = Instant::now();
        let unit = |_| {
            let (sinks, text) = (sinks.clone(), text.clone());
            go!(move || sinks.lines(prints, &text))
        };
        let all: Vec<_> = (0..count).map(unit).collect();
        let ended = all.into_iter().map(|unit| unit.join().expect("it ends well"));
        let bytes = ended.map(|bytes| bytes.unwrap_or_else(|e| not_printed(e))).sum();
        sinks.end().unwrap_or_else(|e| not_printed(e));
        printed(begun, bytes);
    }

    pub fn past(count: usize) {
        let since = Instant::now();
        let mut took = Duration::ZERO;
        keep(count, || took = since.elapsed());
        go!(|| {}).join().expect("it ends well");
        went_past(count, count, took);
    }

    pub fn pool(degree: usize, kind: &str, lengths: Vec<f64>) {
        let work = Work::of(kind);
        let permits = Arc::new(Semphore::new(degree));
        let begun = Instant::now();
        let mut all = Vec::new();
        for milliseconds in lengths {
            permits.wait();
            let permits = permits.clone();
            all.push(go!(move || {
                if work.is_cpu {
                    work.compute(milliseconds);
                } else {
                    sleep(wait(milliseconds));
                }
                permits.post();
                begun.elapsed()
            }));
        }
        let ends: Vec<Duration> = all
            .into_iter()
            .map(|unit| unit.join().expect("it ends well"))
            .collect();
        ended(&ends);
    }
}

/// What is asked of a unit.
enum Case {
    Create(usize),
    Ring(usize, Duration, Duration),
    Idle(usize),
    Most(usize),
    Past(usize),
    Print(usize, usize, String, String),
    Pool(usize, String, Vec<f64>),
}

impl Case {
    fn of(words: &[String]) -> Self {
        let at = |i: usize| words.get(i).map_or("", String::as_str);
        let (name, count) = (at(0), number(at(2)) as usize);
        let time = |i: usize| Duration::from_nanos(number(at(i)));
        let length = |text: &str| {
            text.parse()
                .unwrap_or_else(|_| fail(format!("{text} is no number")))
        };
        match name {
            "create" => Self::Create(count),
            "ring" => Self::Ring(count, time(3), time(4)),
            "idle" => Self::Idle(count),
            "most" => Self::Most(count),
            "past" => Self::Past(count),
            "print" => Self::Print(count, number(at(3)) as usize, at(4).to_owned(), at(5).to_owned()),
            "pool" => Self::Pool(count, at(3).to_owned(), at(4).split('/').map(length).collect()),
            _ => fail(format!("there is no case {name}")),
        }
    }
}

fn told_to_begin() {
    println!("ready made=0");
    until_end_of_input();
}

fn wait_idle(count: usize) {
    println!("ready made={count}");
    until_end_of_input();
    done(&[made(count)]);
}

async fn by_tasks(case: Case) {
    match case {
        Case::Create(count) => task::create(count).await,
        Case::Ring(size, warm, timed) => task::ring(size, warm, timed).await,
        Case::Idle(count) => task::keep(count, || wait_idle(count)).await,
        Case::Most(count) => task::keep(count, || refused_none(count)).await,
        Case::Past(count) => {
            told_to_begin();
            task::past(count).await;
        }
        Case::Print(count, prints, text, log) => task::print(count, prints, text, &log).await,
        Case::Pool(degree, kind, lengths) => task::pool(degree, &kind, lengths).await,
    }
}

fn by_coroutines(case: Case) {
    match case {
        Case::Create(count) => coroutine::create(count),
        Case::Ring(size, warm, timed) => coroutine::ring(size, warm, timed),
        Case::Idle(count) => coroutine::keep(count, || wait_idle(count)),
        Case::Most(count) => coroutine::keep(count, || refused_none(count)),
        Case::Past(count) => {
            told_to_begin();
            coroutine::past(count);
        }
        Case::Print(count, prints, text, log) => coroutine::print(count, prints, text, &log),
        Case::Pool(degree, kind, lengths) => coroutine::pool(degree, &kind, lengths),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.len() < 3 {
        fail(format!(
            "{} arguments; it takes a case, a unit and more",
            words.len()
        ));
    }
    if words[0] == "serve" {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build();
        let runtime = runtime.unwrap_or_else(|e| fail(format!("there is no runtime: {e}")));
        let port = words.get(3).map_or(0, |port| number(port) as u16);
        runtime
            .block_on(serve::serve(&words[1], &words[2], port))
            .unwrap_or_else(|e| fail(e));
        return;
    }
    match words[1].as_str() {
        // Unit 0 is of the same kind as the others: it is made as they are.
        "task" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build();
            let runtime = runtime.unwrap_or_else(|e| fail(format!("there is no runtime: {e}")));
            let case = Case::of(&words);
            runtime.block_on(async { tokio::spawn(by_tasks(case)).await.expect("it ends well") });
        }
        "coroutine" => {
            let case = Case::of(&words);
            may::go!(move || by_coroutines(case))
                .join()
                .expect("it ends well");
        }
        unit => fail(format!("there is no unit {unit}")),
    }
}
