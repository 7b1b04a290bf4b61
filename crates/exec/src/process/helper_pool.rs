//! A call on helper processes, driven from the caller's thread alone.
//!
//! A turn of the loop: every idle helper gets an object; one more is started if there are objects for it; then the
//! caller sleeps until a channel has something or a time has come; then answers are finished as they come. An
//! object is claimed only for a helper that has said that it is ready, so that one which cannot start costs
//! no object. Nobody waits for a channel that is full: objects leave and results arrive in pieces.

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::child::{Helper, Job, Program, State};
use super::crash::Crash;
use super::frame::{Answer, Received, Unsendable, decode, encode};
use super::helper::monotonic_ns;
use crate::adaptive::Governor;
use crate::outcome::Done;
use crate::report::Ran;
use crate::result_sink::ResultSink;
use crate::settings::Settings;
use crate::shared::{Claim, Claimed, HaltReason, Shared, Who};
use crate::trace::Traced;
use crate::work::Raw;

/// How long a helper may take to end when it is told that there is nothing more; then it is killed.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a call. `flat` makes an object's result from what its helper brought, `halts` says whether it ends the call.
pub(super) fn run<I, R, T, F, B>(
    program: &Program,
    shared: Shared<'_, I, ()>,
    settings: &Settings,
    sink: &mut ResultSink<I::Item, T, F, B>,
    flat: impl Fn(Result<R, Crash>) -> T,
    halts: impl Fn(&T) -> bool,
) -> Ran<I>
where
    I: Iterator,
    I::Item: Serialize,
    R: DeserializeOwned,
    F: FnMut(Done<I::Item, T>) -> ControlFlow<B>,
{
    let _within = Traced::new(&(), settings.degree).enter();
    let epoch_ns = monotonic_ns() - shared.now_ns();
    let governor = Governor::new(settings.degree, false);
    shared.source().degree = governor.degree();
    let mut pool = HelperPool {
        program,
        settings,
        governor,
        most: settings.degree.most(),
        shared: &shared,
        sink,
        flat,
        halts,
        epoch_ns,
        helpers: Vec::new(),
        shortage: None,
        claimed: Claimed::default(),
        result: std::marker::PhantomData,
    };
    pool.drive();
    dismiss(&mut pool.helpers);
    let thread_shortage = pool.shortage.take();
    drop(pool);
    Ran::of(shared, thread_shortage)
}

struct HelperPool<'a, 'c, I: Iterator, R, T, F, B, M, H> {
    program: &'a Program,
    settings: &'a Settings,
    governor: Governor,
    /// As many helpers at most: the highest degree, less those that could not be started.
    most: usize,
    shared: &'a Shared<'c, I, ()>,
    sink: &'a mut ResultSink<I::Item, T, F, B>,
    flat: M,
    halts: H,
    /// The start of the call on the clock of all processes.
    epoch_ns: u64,
    /// When it is dropped, even by a panic of the finisher, they are killed and reaped.
    helpers: Vec<Helper<I::Item>>,
    shortage: Option<io::Error>,
    claimed: Claimed<I::Item>,
    result: std::marker::PhantomData<fn() -> R>,
}

/// When the finisher panics, the token says so.
impl<I: Iterator, R, T, F, B, M, H> Drop for HelperPool<'_, '_, I, R, T, F, B, M, H> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.halt(HaltReason::Panicked);
        }
    }
}

impl<I, R, T, F, B, M, H> HelperPool<'_, '_, I, R, T, F, B, M, H>
where
    I: Iterator,
    I::Item: Serialize,
    R: DeserializeOwned,
    F: FnMut(Done<I::Item, T>) -> ControlFlow<B>,
    M: Fn(Result<R, Crash>) -> T,
    H: Fn(&T) -> bool,
{
    /// Until the last object is finished.
    fn drive(&mut self) {
        loop {
            let claim = self.give_objects();
            let over = self.shared.source().over();
            if over && !self.helpers.iter().any(Helper::at_work) {
                return;
            }
            let tried = !over && claim != Claim::Wait && self.start_one();
            if self.most == 0 && self.helpers.is_empty() {
                self.shared.halt(HaltReason::NoCarrier);
                continue;
            }
            self.sleep(tried);
            self.attend();
            self.end_overdue();
        }
    }

    /// Every idle helper gets an object, as far as there are some.
    fn give_objects(&mut self) -> Claim {
        self.release_idle();
        let mut number = 0;
        while number < self.helpers.len() {
            if !matches!(self.helpers[number].state, State::Idle) {
                number += 1;
                continue;
            }
            let held = &mut self.helpers[number].held;
            let claim = self.shared.claim(Who::Caller, held, 1, &mut self.claimed, |_| ());
            let (Claim::Got, Some((index, object))) = (claim, self.claimed.objects.pop()) else {
                return claim;
            };
            let job = Job {
                index,
                object,
                sent_ns: self.shared.now_ns(),
            };
            match encode(&job.object, self.program.largest) {
                Ok(frame) => self.helpers[number].give(job, frame, self.program.time_limit),
                // The helper is idle still, and next in turn.
                Err(why) => {
                    let crash = match why {
                        Unsendable::Encoding(why) => Crash::Object(why),
                        Unsendable::TooLarge(bytes) => Crash::ObjectTooLarge {
                            bytes,
                            largest: self.program.largest,
                        },
                    };
                    self.fail(job, crash);
                }
            }
        }
        Claim::Got
    }

    /// Idle helpers give their permits back: an adaptive degree may have fallen below the number of those who wait.
    fn release_idle(&mut self) {
        let mut source = self.shared.source();
        for helper in &mut self.helpers {
            if matches!(helper.state, State::Idle) && std::mem::take(&mut helper.held) {
                source.running -= 1;
            }
        }
    }

    /// Starts a helper if one more is allowed and there may be an object for it; `true` if that was tried.
    fn start_one(&mut self) -> bool {
        let starting = self
            .helpers
            .iter()
            .filter(|helper| matches!(helper.state, State::Starting))
            .count();
        let objects = self.shared.at_most();
        // One at least, to find that there are none.
        if self.helpers.len() >= self.most.min(self.governor.degree()) || starting >= objects.max(1) {
            return false;
        }
        match Helper::start(self.program) {
            Ok(helper) => self.helpers.push(helper),
            Err(error) => self.not_started(error),
        }
        true
    }

    fn not_started(&mut self, error: io::Error) {
        self.most -= 1;
        self.shortage.get_or_insert(error);
    }

    /// Until a channel has something to say or to take, or a time has come.
    fn sleep(&self, not_at_all: bool) {
        let due = self.helpers.iter().filter_map(|helper| helper.due);
        let until = due.chain(self.deadline()).min();
        let at_most = if not_at_all {
            Some(Duration::ZERO)
        } else {
            until.map(|until| until.saturating_duration_since(Instant::now()))
        };
        wait(&self.helpers, at_most);
    }

    /// The deadline, while it is to come.
    fn deadline(&self) -> Option<Instant> {
        let passed = self.shared.source().halt == Some(HaltReason::Deadline);
        self.shared.deadline().filter(|_| !passed)
    }

    /// Sends and receives what can be, and finishes what came.
    fn attend(&mut self) {
        let mut number = 0;
        while number < self.helpers.len() {
            self.helpers[number].send();
            match self.helpers[number].receive() {
                Received::Nothing => number += 1,
                Received::Frame(content) => self.answered(number, &content),
                Received::Closed => self.closed(number, None),
                Received::TooLarge(bytes) => {
                    let largest = self.program.largest;
                    self.closed(number, Some(Crash::ResultTooLarge { bytes, largest }));
                }
            }
        }
    }

    /// A helper has answered; it keeps its number unless it has to go.
    fn answered(&mut self, number: usize, content: &[u8]) {
        let largest = self.program.largest;
        let helper = &mut self.helpers[number];
        helper.due = None;
        let answer = decode::<Answer<R>>(content);
        let job = match std::mem::replace(&mut helper.state, State::Idle) {
            State::AtWork(job) => job,
            State::Starting if matches!(answer, Ok(Answer::Ready)) => return,
            state => {
                helper.state = state;
                let why = match answer {
                    Ok(Answer::Unregistered) => format!(
                        "the helper has no processor {:?}: pass it to process::helper",
                        self.program.processor
                    ),
                    _ => "the helper answers in another form: is it the same program?".to_owned(),
                };
                let mut helper = self.helpers.swap_remove(number);
                helper.end();
                self.not_started(io::Error::other(why));
                return;
            }
        };
        let output = match answer {
            Ok(Answer::Done {
                started_ns,
                ended_ns,
                result,
            }) => {
                let since = |ns: u64| ns.saturating_sub(self.epoch_ns).max(job.sent_ns);
                let (started_ns, ended_ns) = (since(started_ns), since(ended_ns));
                self.finish(job, started_ns, ended_ns, Ok(result));
                return;
            }
            Ok(Answer::Panicked(message)) => {
                self.replace(number);
                Crash::Panicked(message)
            }
            Ok(Answer::Object(why)) => Crash::Object(why),
            Ok(Answer::Result(why)) => Crash::Result(why),
            Ok(Answer::TooLarge(bytes)) => Crash::ResultTooLarge { bytes, largest },
            Ok(Answer::Ready | Answer::Unregistered) => Crash::Result("an answer out of turn".to_owned()),
            Err(why) => Crash::Result(why),
        };
        self.fail(job, output);
    }

    /// A helper has gone, or has to go for the reason given.
    fn closed(&mut self, number: usize, why: Option<Crash>) {
        let mut helper = self.take(number);
        let status = helper.end();
        match std::mem::replace(&mut helper.state, State::Idle) {
            State::AtWork(job) => {
                let crash = why.unwrap_or_else(|| Crash::from_status(status));
                self.fail(job, crash);
            }
            State::Starting => {
                let how = Crash::from_status(status);
                self.not_started(io::Error::other(format!(
                    "a helper was not ready in time, or ended before ({how}): does main call process::helper first?"
                )));
            }
            State::Idle => {}
        }
    }

    /// Takes a helper out, with its permit.
    fn take(&mut self, number: usize) -> Helper<I::Item> {
        let mut helper = self.helpers.swap_remove(number);
        if std::mem::take(&mut helper.held) {
            self.shared.source().running -= 1;
        }
        helper
    }

    /// Ends a helper; the next turn starts another if there are objects for it.
    fn replace(&mut self, number: usize) {
        drop(self.take(number));
    }

    /// Ends those whose time is over, or everybody's; but not one that has answered while the caller was busy.
    fn end_overdue(&mut self) {
        let now = Instant::now();
        let deadline = self.deadline().is_some_and(|deadline| deadline <= now);
        if deadline {
            self.shared.halt(HaltReason::Deadline);
        }
        let mut number = 0;
        while number < self.helpers.len() {
            let helper = &mut self.helpers[number];
            let overdue = helper.due.is_some_and(|due| due <= now);
            let crash = match (&helper.state, self.program.time_limit) {
                (State::AtWork(_), Some(limit)) if overdue => Some(Crash::TimeLimit(limit)),
                (State::AtWork(_), _) if deadline => Some(Crash::Deadline),
                (State::Starting, _) if overdue => None,
                _ => {
                    number += 1;
                    continue;
                }
            };
            match helper.receive() {
                Received::Frame(content) => self.answered(number, &content),
                Received::Closed => self.closed(number, None),
                Received::Nothing | Received::TooLarge(_) => self.closed(number, crash),
            }
        }
    }

    fn fail(&mut self, job: Job<I::Item>, crash: Crash) {
        let now_ns = self.shared.now_ns();
        let sent_ns = job.sent_ns;
        self.finish(job, sent_ns, now_ns, Err(crash));
    }

    fn finish(&mut self, job: Job<I::Item>, started_ns: u64, ended_ns: u64, output: Result<R, Crash>) {
        if output.is_ok() {
            self.governor.observe(started_ns, ended_ns, &self.shared.cpu);
            self.shared.source().degree = self.governor.degree();
        }
        let result = (self.flat)(output);
        if (self.halts)(&result) {
            self.shared.halt(HaltReason::Failed);
        }
        self.sink.deliver(Raw {
            index: job.index,
            started_ns,
            ended_ns,
            object: job.object,
            result,
        });
        if self.sink.broken.is_some() {
            self.shared.halt(HaltReason::Broken);
        }
        if let (true, Some(look_ahead)) = (self.sink.in_order(), self.settings.look_ahead) {
            self.shared.source().horizon = self.sink.next.saturating_add(look_ahead.get());
        }
    }
}

/// Sleeps until a channel is ready, or for as long as given.
fn wait<O>(helpers: &[Helper<O>], at_most: Option<Duration>) {
    let channels: Vec<_> = helpers.iter().map(Helper::channel).collect();
    let mut ready: Vec<_> = helpers
        .iter()
        .zip(&channels)
        .map(|(helper, channel)| PollFd::new(channel, helper.interest()))
        .collect();
    let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
    // A signal wakes it early, and then the caller looks again.
    let _ = poll(&mut ready, at_most.as_ref());
}

/// Ends the helpers: in peace where they end by themselves, but one that has not begun has nothing to put in order.
fn dismiss<O>(helpers: &mut Vec<Helper<O>>) {
    helpers.retain(|helper| !matches!(helper.state, State::Starting));
    for helper in helpers.iter() {
        helper.dismiss();
    }
    let until = Instant::now() + GRACE;
    while !helpers.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        helpers.retain_mut(|helper| !left.is_zero() && !matches!(helper.receive(), Received::Closed));
        // With nobody left there is nothing to wait for but the time itself.
        if left.is_zero() || helpers.is_empty() {
            break;
        }
        wait(helpers, Some(left));
    }
    helpers.clear();
}
