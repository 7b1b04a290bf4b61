//! What the designs that serve with processes share: the parent's care for its children.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::fork::{self, Child, Ended, Order};
use crate::stop::timespec;
use crate::trace;

/// How long children that were told to give up have for it before they are killed.
const GRACE: Duration = Duration::from_secs(1);

/// The children of a server, by slot. None is left when it is dropped.
#[derive(Debug)]
pub(super) struct Children {
    /// As long as the highest slot used.
    children: Vec<Option<Child>>,
    living: usize,
    /// Waits for their ends, and for what else the parent wants to know. Only a child has none.
    epoll: Option<OwnedFd>,
}

/// What the parent waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The child in this slot has ended.
    Ended(usize),
    /// What was [watched](Children::watch) by this number is ready.
    Ready(usize),
}

impl Children {
    /// Without children.
    ///
    /// # Errors
    ///
    /// If the process has other threads than the caller, no descriptor is left, or the kernel cannot watch children.
    pub fn new(design: &'static str) -> Result<Self, Error> {
        let threads = fork::threads_that_stay().map_err(Error::io("counting the threads of this process"))?;
        if threads > 1 {
            return Err(Error::Threads { design, threads });
        }
        fork::can_watch().map_err(Error::io("watching children, which Linux can from 5.3 on"))?;
        Self::without_children().map_err(Error::io("making a descriptor to wait with"))
    }

    /// As [`new`](Self::new), and unasked whether it can have any.
    pub fn without_children() -> Result<Self, Errno> {
        Ok(Self {
            children: Vec::new(),
            living: 0,
            epoll: Some(epoll::create(CreateFlags::CLOEXEC)?),
        })
    }

    /// From now on [`wait`](Self::wait) brings [`News::Ready`] with this number when it can be read.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn watch(&self, what: impl AsFd, number: usize) -> Result<(), Error> {
        self.add(what, News::Ready(number), EventFlags::IN)
            .map_err(Error::io("waiting for descriptors"))
    }

    /// It is not waited for any more.
    pub fn unwatch(&self, what: impl AsFd) {
        if let Some(epoll) = &self.epoll {
            // It can only fail if it was not watched.
            let _ = epoll::delete(epoll, what);
        }
    }

    fn add(&self, what: impl AsFd, news: News, flags: EventFlags) -> Result<(), Errno> {
        let epoll = self.epoll.as_ref().ok_or(Errno::BADF)?;
        epoll::add(epoll, what, EventData::new_u64(news.number()), flags)
    }

    /// Makes a child in a free slot, which does `work` and ends. It has none of the descriptors by which the parent
    /// looks after the children, so that it keeps nothing of its siblings' alive. A socket handed over is closed in the
    /// parent, where it stays if this fails.
    ///
    /// # Errors
    ///
    /// If there is no process, memory or descriptor for it.
    pub fn fork(
        &mut self,
        slot: usize,
        socket: &mut Option<OwnedFd>,
        work: impl FnOnce(Option<OwnedFd>) -> Result<(), Error>,
    ) -> Result<(), Errno> {
        // Either the child takes it or, in another process, the parent: each has a copy of its own.
        let handed = std::cell::Cell::new(socket.take());
        let child = fork::fork(
            || {
                self.children.clear();
                self.epoll = None;
                match work(handed.take()) {
                    Ok(()) => 0,
                    Err(error) => {
                        trace::worker_failed(slot, error);
                        1
                    }
                }
            },
            // First of all, since with the limit reached it is the one descriptor that the parent can have.
            || drop(handed.take()),
        );
        *socket = handed.take();
        let child = child?;
        let watched = self.add(&child, News::Ended(slot), EventFlags::IN | EventFlags::ONESHOT);
        if let Err(error) = watched {
            child.tell(Order::Die);
            child.wait();
            return Err(error);
        }
        if self.children.len() <= slot {
            self.children.resize_with(slot + 1, || None);
        }
        self.children[slot] = Some(child);
        self.living += 1;
        Ok(())
    }

    /// Waits for news, but not longer than `limit`. A signal ends it without any.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn wait(&self, limit: Option<Duration>, news: &mut Vec<News>) -> Result<(), Error> {
        const MOST: usize = 256;
        news.clear();
        let Some(epoll) = &self.epoll else {
            return Ok(());
        };
        let mut events: Vec<Event> = Vec::with_capacity(MOST);
        let limit = limit.map(timespec);
        match epoll::wait(epoll, spare_capacity(&mut events), limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::io("waiting for children and clients")(error)),
        }
        news.extend(events.iter().map(|event| News::from_number(event.data.u64())));
        // Ends first: each is told once, and who hears of the stop looks no further.
        news.sort_unstable_by_key(|news| matches!(news, News::Ready(_)));
        Ok(())
    }

    /// Tells the child in a slot something, if there is one.
    pub fn tell(&self, slot: usize, order: Order) {
        if let Some(Some(child)) = self.children.get(slot) {
            child.tell(order);
        }
    }

    /// Removes what is left of a child that has ended, and says how it did.
    pub fn reap(&mut self, slot: usize) -> Option<Ended> {
        let child = self.children.get_mut(slot)?.take()?;
        self.living -= 1;
        Some(child.wait())
    }

    /// Has all children finish, give up when the drain time is over, and killed if they do not. `gone` hears of each.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to wait; they are killed when this is dropped.
    pub fn drain(&mut self, limit: Duration, mut gone: impl FnMut(usize)) -> Result<(), Error> {
        let mut news = Vec::new();
        for (order, limit) in [
            (Order::Drain, limit),
            (Order::GiveUp, GRACE),
            (Order::Die, Duration::MAX),
        ] {
            let begun = Instant::now();
            for child in self.children.iter().flatten() {
                child.tell(order);
            }
            while self.living > 0 {
                let left = limit.saturating_sub(begun.elapsed());
                if left.is_zero() {
                    break;
                }
                self.wait(Some(left), &mut news)?;
                for news in &news {
                    if let News::Ended(slot) = *news {
                        self.reap(slot);
                        gone(slot);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in self.children.iter_mut().filter_map(Option::take) {
            child.tell(Order::Die);
            child.wait();
        }
    }
}

impl News {
    fn number(self) -> u64 {
        match self {
            Self::Ended(slot) => slot as u64,
            Self::Ready(number) => number as u64 | 1 << 63,
        }
    }

    fn from_number(number: u64) -> Self {
        match number >> 63 {
            0 => Self::Ended(number as usize),
            _ => Self::Ready((number & !(1 << 63)) as usize),
        }
    }
}
