//! Observing: why a live program is as fast as it is.
//!
//! Reading `/proc`, where time went and the verdicts are `crates/machine`'s (`observe`); intervals are `crates/stats`'.
//! Here is what the user says, when it is looked, who counts tasks, and how what was seen is shown.

pub mod experiment;
mod keep;
mod live;
mod log;
pub mod options;
mod page;
pub mod seen;
mod show;
mod started;
mod table;
pub mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use threadgauge_load::Span;
use threadgauge_machine::observe::{Capacity, Course, Look, ObserveError, Sampler};
use threadgauge_machine::{Resource, allowed_cpus, clock, raise_to_hard};

use crate::commands::load::keep::check as check_folder;
use crate::commands::observe::live::Live;
use crate::commands::observe::options::ObserveOptions;
use crate::commands::observe::seen::{Ending, Seen};
use crate::commands::observe::started::Started;
use crate::commands::observe::tasks::{Counter, Tasks};
use crate::output::{Done, Verdict, print_json, print_words, say, shown};
use crate::signals;

/// Between two looks at whether somebody wants it to end.
const SLICE: Duration = Duration::from_millis(50);
/// A last look that comes sooner after the one before tells nothing more.
const LEAST_LAST: Duration = Duration::from_millis(20);
/// Once looks cost so much that they come this much more rarely than was asked for, it is said.
const NOTICED: f64 = 1.1;

/// Observes a process or a command, and prints what was seen.
pub fn observe(options: &ObserveOptions) -> Done {
    let (seen, verdict) = watch(options)?;
    conclude(options, &seen)?;
    Ok(verdict)
}

/// Observes a process or a command, and prints nothing but what is shown meanwhile. With what was seen comes how a
/// command ends that has observed: 130 after Ctrl-C.
pub fn watch(options: &ObserveOptions) -> Result<(Seen, Verdict)> {
    let (stop, asked) = signals::stop().context("signals cannot be handled")?;
    let seen = seen(options, stop)?;
    let verdict = match seen.ending {
        Ending::Interrupted => asked.verdict(),
        Ending::Over | Ending::ProcessEnded => Verdict::Done,
    };
    Ok((seen, verdict))
}

fn seen(options: &ObserveOptions, stop: Arc<AtomicBool>) -> Result<Seen> {
    options.check()?;
    let words = options.words()?;
    if let Some(dir) = &options.out {
        check_folder(dir)?;
    }
    let tasks = Counter::open(options)?.map(Tasks::new);
    let began = Timestamp::now().round(jiff::Unit::Second)?.to_string();
    // Before files are kept open: what it starts has the limits of this process.
    let started = words.map(|words| Started::new(&words)).transpose()?;
    // Each thread has some files. Where there may not be so many, they are opened for each look.
    let _ = raise_to_hard(Resource::OpenFiles);
    let mut observed = Observed::begin(options, started, tasks, stop)?;
    let ending = observed.go_on()?;
    observed.seen(ending, began)
}

/// Keeps and shows what was seen.
fn conclude(options: &ObserveOptions, seen: &Seen) -> Result<()> {
    // Where one of the two cannot be done the other is.
    let kept = match &options.out {
        Some(dir) => keep::keep(dir, options, seen).map(Some),
        None => Ok(None),
    };
    if options.json {
        print_json(&show::json(seen))?;
    } else {
        print_words(&show::text(seen))?;
    }
    if let Some(report) = kept? {
        say(&format!("report: {}", shown(&report)));
    }
    Ok(())
}

/// A program as it is observed.
struct Observed<'a> {
    options: &'a ObserveOptions,
    /// The command, where one was started.
    started: Option<Started>,
    sampler: Sampler,
    course: Course,
    tasks: Option<Tasks>,
    live: Live,
    stop: Arc<AtomicBool>,
    name: String,
    own_before_ns: u64,
    /// When the last look was.
    last: Instant,
    has_said_slow: bool,
}

impl<'a> Observed<'a> {
    /// Takes the first look.
    fn begin(
        options: &'a ObserveOptions,
        mut started: Option<Started>,
        mut tasks: Option<Tasks>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let own_before_ns = clock::process_cpu_ns();
        let pid = match (&started, options.pid) {
            (Some(started), _) => started.pid(),
            (None, Some(pid)) => pid,
            (None, None) => bail!("whom? A process id, or --command '…'"),
        };
        let first = Sampler::new(pid).and_then(|mut sampler| Ok((sampler.look()?, sampler)));
        let (look, sampler) = match first {
            Ok(first) => first,
            Err(error) => return Err(nothing_seen(started.as_mut(), error)),
        };
        let name = name(&look, pid);
        if options.pid.is_some() {
            say(&format!("observing process {pid} (`{name}`)"));
        }
        if let Some(tasks) = &mut tasks {
            tasks.begin();
        }
        let mut course = Course::default();
        course.add(look);
        Ok(Self {
            options,
            started,
            sampler,
            course,
            tasks,
            live: Live::new(),
            stop,
            name,
            own_before_ns,
            last: Instant::now(),
            has_said_slow: false,
        })
    }

    /// Looks until the time is over, the process has ended or somebody wants it to end. Blocks.
    fn go_on(&mut self) -> Result<Ending> {
        let begin = Instant::now();
        let end = self.options.takes().map(|takes| begin + takes);
        let mut next = begin;
        loop {
            let interval = self.interval();
            // Those that were missed are not made up for.
            next = (next + interval).max(Instant::now());
            let is_last = end.is_some_and(|end| next >= end);
            self.wait(end.map_or(next, |end| next.min(end)), interval);
            let is_stopped = self.stop.load(Ordering::Relaxed);
            if is_stopped && self.last.elapsed() < LEAST_LAST {
                return Ok(Ending::Interrupted);
            }
            let look = match is_last || is_stopped {
                true => self.sampler.last_look(),
                false => self.sampler.look(),
            };
            match look {
                Ok(look) => self.add(look),
                Err(ObserveError::Ended(_)) => return Ok(Ending::ProcessEnded),
                Err(error) => return Err(error.into()),
            }
            match (is_stopped, is_last) {
                (true, _) => return Ok(Ending::Interrupted),
                (false, true) => return Ok(Ending::Over),
                (false, false) => {}
            }
        }
    }

    /// The time between two looks: as asked for, or longer where they cost too much.
    fn interval(&mut self) -> Duration {
        let asked = self.options.interval.0;
        let least = self.sampler.least_interval();
        if least > asked.mul_f64(NOTICED) && !self.has_said_slow {
            self.has_said_slow = true;
            self.live.say(&format!(
                "a look each {asked} would cost more than 1 % of a CPU: one comes each {least:.1?}",
                asked = Span(asked)
            ));
        }
        asked.max(least)
    }

    /// Waits until then, and sees the states of threads meanwhile; ends early when somebody wants it to, or the command
    /// has ended.
    fn wait(&mut self, until: Instant, interval: Duration) {
        let mut next_pass = Instant::now() + self.sampler.between_passes(interval);
        loop {
            let now = Instant::now();
            let has_ended = self
                .started
                .as_mut()
                .is_some_and(|started| started.ended().is_some());
            if now >= until || has_ended || self.stop.load(Ordering::Relaxed) {
                return;
            }
            if now >= next_pass {
                self.sampler.pass();
                next_pass = Instant::now() + self.sampler.between_passes(interval);
            }
            let wake = until.min(next_pass).min(now + SLICE);
            sleep(wake.saturating_duration_since(Instant::now()));
        }
    }

    fn add(&mut self, look: Look) {
        self.last = Instant::now();
        self.course.add(look);
        if let (Some(tasks), Some(interval)) = (&mut self.tasks, self.course.intervals().last()) {
            tasks.add(interval);
        }
        self.live.show(&self.course);
    }

    /// All that was seen. A command that has not ended is ended.
    fn seen(mut self, ending: Ending, started: String) -> Result<Seen> {
        let ended = self.started.as_mut().and_then(Started::ended);
        let cpus = match self.sampler.allowed_cpus() {
            Some(cpus) => cpus,
            None => allowed_cpus()
                .context("on which CPUs it may run cannot be found out")?
                .len(),
        };
        let mut lacks: Vec<String> = self.sampler.lacks().map(str::to_owned).collect();
        lacks.extend(self.tasks.as_ref().and_then(Tasks::failed));
        Ok(Seen {
            pid: self.sampler.pid(),
            name: self.name,
            command: self.options.command.clone(),
            started,
            interval: self.options.interval.0,
            capacity: Capacity {
                allowed: cpus as f64,
                quota: self.sampler.quota_cpus(),
            },
            memory_limit_kib: self.sampler.memory_limit_kib(),
            course: self.course,
            ending,
            task: self.tasks.as_ref().map(Tasks::cost),
            lacks,
            own_process_cpu: Duration::from_nanos(clock::process_cpu_ns() - self.own_before_ns),
            ended,
        })
    }
}

/// The name of a process: that of its first thread.
fn name(look: &Look, pid: i32) -> String {
    let first = look.threads.iter().find(|thread| thread.key.tid == pid);
    first.map_or_else(|| "?".to_owned(), |thread| thread.name.clone())
}

/// Why there was nothing to see. A command that ended at once says how.
fn nothing_seen(started: Option<&mut Started>, error: ObserveError) -> anyhow::Error {
    let Some(started) = started else {
        return error.into();
    };
    let deadline = Instant::now() + Duration::from_secs(1);
    // It is reaped a moment after it is gone.
    while Instant::now() < deadline {
        if let Some(ended) = started.ended() {
            return anyhow::anyhow!(
                "the command ended with {} within {:.0?}, before it could be looked at; CPU time {:.1?}. Observe \
                 something that takes longer",
                ended.status,
                ended.took,
                ended.cpu
            );
        }
        sleep(Duration::from_millis(1));
    }
    anyhow::Error::from(error).context("the command was started and cannot be observed")
}

#[cfg(test)]
mod tests {
    use super::options::tests::options;
    use super::*;

    /// What was seen of a command, and how observing it ended.
    fn seen_of(words: &[&str], stop: &Arc<AtomicBool>) -> Result<Seen> {
        let options = options(words);
        let started = options.words()?.map(|words| Started::new(&words)).transpose()?;
        let tasks = Counter::open(&options)?.map(Tasks::new);
        let mut observed = Observed::begin(&options, started, tasks, Arc::clone(stop))?;
        let ending = observed.go_on()?;
        observed.seen(ending, "2026-11-27T00:00:00Z".to_owned())
    }

    #[test]
    fn a_command_is_observed_until_it_ends() {
        let stop = Arc::default();
        let seen = seen_of(
            &["--command", "sleep 1", "--interval", "100ms", "--rate", "5"],
            &stop,
        )
        .unwrap();
        assert_eq!(seen.ending, Ending::ProcessEnded);
        assert!(seen.ended.is_some_and(|ended| ended.status.success()));
        assert!(seen.course.looks() >= 1 && seen.name == "sleep", "{seen:?}");
        assert!(seen.task.is_some());
    }

    #[test]
    fn observing_ends_with_its_time_and_so_does_the_command() {
        let stop = Arc::default();
        let words = ["--command", "sleep 1000", "--interval", "100ms", "--for", "300ms"];
        let seen = seen_of(&words, &stop).unwrap();
        assert_eq!((seen.ending, seen.ended), (Ending::Over, None));
        assert!(seen.course.looks() >= 2, "{seen:?}");
        assert!(!std::fs::exists(format!("/proc/{}/stat", seen.pid)).unwrap());
    }

    #[test]
    fn who_wants_it_to_end_ends_it() {
        let stop = Arc::new(AtomicBool::new(true));
        let seen = seen_of(&["--command", "sleep 1000", "--for", "1h"], &stop).unwrap();
        assert_eq!((seen.ending, seen.ended), (Ending::Interrupted, None));
    }

    #[test]
    fn a_command_that_ends_at_once_says_how() {
        let stop = Arc::default();
        // It may be fast enough to be seen.
        let seen = (0..100).find_map(|_| seen_of(&["--command", "sh -c 'exit 3'"], &stop).err());
        let error = seen.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("exit status: 3") || error.is_empty(), "{error}");
    }
}
