//! What the preforked designs share: children made beforehand that each accept and serve, and a parent that replaces
//! those that die and sizes the pool. A design says how a child gets its next connection.

use std::io;
use std::time::{Duration, Instant};

use crate::back_off::BackOff;
use crate::blocking::Worker;
use crate::counters::{CloseReason, Counters};
use crate::design::processes::{Children, News};
use crate::error::Error;
use crate::fork::{InChild, Order};
use crate::id::ConnectionId;
use crate::listen::{Accepted, RETRY};
use crate::pool::{self, Change, Scoreboard, Sizing};
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::stop::{poll_once, timespec};
use crate::trace;

/// What every parent watches beside the children.
pub(super) const STOP: usize = 0;
pub(super) const WAKE: usize = 1;

/// How a preforked design differs from another.
pub(super) trait Prefork {
    /// In a child: gets the next connection. Blocks until there is one, a signal comes or the listener is closed.
    fn next(&self, slot: usize, counters: &Counters) -> Result<Accepted, Error>;

    /// In the parent: a child is about to be made.
    fn prepare(&self, slot: usize) -> io::Result<()> {
        let _ = slot;
        Ok(())
    }

    /// In a new child: lets go of what is its siblings'.
    fn inherit(&self, slot: usize) {
        let _ = slot;
    }

    /// In the parent: a child has come to be.
    fn began(&self, slot: usize, children: &Children) -> Result<(), Error> {
        let _ = (slot, children);
        Ok(())
    }

    /// In the parent: how many connections the children in this slot have had, of which `counters` are.
    fn given(&self, slot: usize, counters: &Counters) -> u64 {
        let _ = slot;
        counters.accepted.get()
    }

    /// In the parent: a child is told to end when it serves nobody.
    fn retired(&self, slot: usize) {
        let _ = slot;
    }

    /// In the parent: a child has ended, perhaps in the middle of [`next`](Self::next).
    fn ended(&self, slot: usize, children: &Children, counters: &Counters) {
        let _ = (slot, children, counters);
    }

    /// In the parent: wakes every child that waits in [`next`](Self::next), for good.
    fn close(&self);
}

/// Serves with a pool of children that get their connections themselves, until the stop.
pub(super) fn run<P: Protocol>(
    serving: &Serving<P>,
    name: &'static str,
    design: &impl Prefork,
) -> Result<(), Error> {
    let mut parent = Parent::new(serving, name, design)?;
    let outcome = parent.look_after();
    parent.drain().and(outcome)
}

/// What the parent knows.
pub(super) struct Parent<'a, P, D> {
    pub serving: &'a Serving<P>,
    /// Its own.
    pub counters: &'a Counters,
    pub children: Children,
    pub scoreboard: Scoreboard,
    design: &'a D,
    sizing: Sizing,
    /// By slot, how many connections its children took with them when they died.
    lost: Vec<u64>,
    back_off: BackOff,
}

impl<'a, P: Protocol, D: Prefork> Parent<'a, P, D> {
    /// Without children yet.
    pub fn new(serving: &'a Serving<P>, name: &'static str, design: &'a D) -> Result<Self, Error> {
        let workers = pool::workers(&serving.options);
        let most = *workers.end();
        let children = Children::new(name)?;
        let scoreboard =
            Scoreboard::new(&workers).map_err(Error::io("making memory shared with children"))?;
        children.watch(serving.stop(), STOP)?;
        children.watch(scoreboard.wake_fd(), WAKE)?;
        Ok(Self {
            serving,
            counters: serving.counters.block(most),
            children,
            scoreboard,
            design,
            sizing: Sizing::new(workers),
            lost: vec![0; most],
            back_off: BackOff::default(),
        })
    }

    fn look_after(&mut self) -> Result<(), Error> {
        let mut news = Vec::new();
        loop {
            let limit = self.resize()?;
            self.wait(limit, &mut news)?;
            for news in &news {
                match *news {
                    News::Ended(slot) => self.reap(slot),
                    News::Ready(STOP) => return Ok(()),
                    News::Ready(_) => self.scoreboard.wake_fd().clear(),
                }
            }
        }
    }

    /// Waits for news.
    pub fn wait(&self, limit: Option<Duration>, news: &mut Vec<News>) -> Result<(), Error> {
        self.counters.waits.add(1);
        self.children.wait(limit, news)?;
        self.counters.wake_ups.add(1);
        Ok(())
    }

    /// Makes and ends children until there are as many as there should be, and says how long that holds at most.
    pub fn resize(&mut self) -> Result<Option<Duration>, Error> {
        loop {
            let now = Instant::now();
            match self.sizing.decide(self.scoreboard.counts(), now) {
                Change::Grow => match self.back_off.left(now) {
                    None => self.begin(now)?,
                    left => return Ok(left),
                },
                Change::Shrink => {
                    self.scoreboard.retire(None);
                }
                Change::None(limit) => {
                    self.wake_retiring();
                    return Ok(limit);
                }
            }
        }
    }

    /// Makes a child, or puts that off.
    fn begin(&mut self, now: Instant) -> Result<(), Error> {
        let Some(slot) = self.scoreboard.free() else {
            return Ok(());
        };
        // Before it exists, so that a child which is slow to come up does not call for others.
        self.scoreboard.idle(slot);
        let (serving, design, scoreboard) = (self.serving, self.design, &self.scoreboard);
        self.counters.other_calls.add(3); // fork, and two to watch it
        let forked = design.prepare(slot).and_then(|()| {
            Ok(self
                .children
                .fork(slot, &mut None, |_| work(serving, design, scoreboard, slot))?)
        });
        let Err(error) = forked else {
            self.counters.units_created.add(1);
            return self.design.began(slot, &self.children);
        };
        trace::worker_not_made(error);
        self.design.ended(slot, &self.children, self.counters);
        self.scoreboard.empty(slot);
        self.back_off.failed(now);
        Ok(())
    }

    /// Tells those that shall end and have not, again: a signal that comes just before a child blocks is seen only
    /// when it wakes.
    fn wake_retiring(&self) {
        for slot in self.scoreboard.retiring() {
            self.counters.other_calls.add(1);
            self.design.retired(slot);
            self.children.tell(slot, Order::Retire);
        }
    }

    /// A child has ended; if not as it should, the next one waits a little longer.
    pub fn reap(&mut self, slot: usize) {
        let ended = self.children.reap(slot);
        self.counters.other_calls.add(2);
        if let Some(ended) = ended.filter(|ended| !ended.is_well()) {
            trace::worker_lost(slot, ended);
            self.counters.units_lost.add(1);
            self.back_off.failed(Instant::now());
        }
        self.ended(slot, CloseReason::Lost);
    }

    fn ended(&mut self, slot: usize, reason: CloseReason) {
        self.design.ended(slot, &self.children, self.counters);
        self.scoreboard.empty(slot);
        let block = self.serving.counters.block(slot);
        let lost = self.design.given(slot, block).saturating_sub(block.all_closed());
        for _ in self.lost[slot]..lost {
            self.counters.closed(reason);
        }
        self.lost[slot] = lost;
    }

    /// Ends all children.
    pub fn drain(&mut self) -> Result<(), Error> {
        self.design.close();
        let mut ended = Vec::new();
        let drained = self.children.drain(self.serving.drain(), |slot| ended.push(slot));
        for slot in ended {
            self.ended(slot, CloseReason::DrainTime);
        }
        drained
    }
}

/// The life of a child.
fn work<P: Protocol>(
    serving: &Serving<P>,
    design: &impl Prefork,
    scoreboard: &Scoreboard,
    slot: usize,
) -> Result<(), Error> {
    let counters = serving.counters.block(slot);
    let mut generation = design.given(slot, counters) as u32;
    let mut worker = Worker::new(serving, counters, InChild);
    design.inherit(slot);
    while !InChild.shall_end() {
        match design.next(slot, counters)? {
            Accepted::Connection(socket) => {
                scoreboard.busy(slot, counters);
                worker.serve(socket, ConnectionId::new(0, generation, slot as u32));
                scoreboard.idle(slot);
                generation = generation.wrapping_add(1);
            }
            Accepted::Nobody => {}
            Accepted::Exhausted => {
                counters.waits.add(1);
                // A signal ends it early.
                let _ = poll_once(&mut [], Some(&timespec(RETRY)));
                counters.wake_ups.add(1);
            }
            Accepted::Closed => break,
        }
    }
    Ok(())
}
