//! Children made beforehand; the parent accepts, and passes each connection to one that is idle.
//!
//! Each child has a channel to the parent. Down it go descriptors, up it comes a byte for each connection served. The
//! parent accepts only while a child is idle.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, write};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};

use crate::counters::{CloseReason, Counters};
use crate::design::preforked::{Parent, Prefork, STOP, WAKE};
use crate::design::processes::{Children, News};
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::listen::{Accepted, Listener, RETRY};
use crate::pool;
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "preforked-descriptor",
    summary: "children made beforehand; the parent accepts and passes the descriptor to an idle one",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 5",
    memory: Memory::Separate,
    at_once: AtOnce::Workers,
    settings: &[Setting::Workers],
    made_of: made_of::processes,
    check: any_settings,
};

/// What the parent watches beside its children: the channel of each slot, and
const LISTENER: usize = WAKE + 1;
const FIRST_CHANNEL: usize = LISTENER + 1;

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let most = *pool::workers(&serving.options).end();
    let design = PassDescriptor {
        listener: &serving.listener,
        channels: (0..most).map(|_| RefCell::default()).collect(),
        given: (0..most).map(|_| Cell::new(0)).collect(),
        idle: RefCell::default(),
        served_one: Cell::new(false),
    };
    serving.listener.set_nonblocking(true)?;
    let mut parent = Parent::new(serving, ABOUT.name, &design)?;
    let outcome = accept_until_stopped(&mut parent, &design);
    parent.drain().and(outcome)
}

fn accept_until_stopped<P: Protocol>(
    parent: &mut Parent<'_, P, PassDescriptor<'_>>,
    design: &PassDescriptor<'_>,
) -> Result<(), Error> {
    let counters = parent.counters;
    let mut news = Vec::new();
    let mut listening = false;
    // Accepted, and waiting for a child: the one it was meant for has died.
    let mut waiting = None;
    // Something was lacking: wait a little before trying again.
    let mut pause = None;
    loop {
        let resize_in = parent.resize()?;
        while let Some(socket) = waiting.take() {
            let Some(slot) = design.idle.borrow_mut().pop() else {
                waiting = Some(socket);
                break;
            };
            match design.pass(slot, &socket, counters) {
                Ok(()) => parent.scoreboard.busy(slot, counters),
                Err(Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS | Errno::AGAIN) => {
                    design.idle.borrow_mut().push(slot);
                    (waiting, pause) = (Some(socket), Some(RETRY));
                    break;
                }
                // That child is dead.
                Err(_) => waiting = Some(socket),
            }
        }
        // The permit comes first: without an idle child nobody is accepted.
        let listen = waiting.is_none() && pause.is_none() && !design.idle.borrow().is_empty();
        if listen != listening {
            counters.other_calls.add(1);
            match listen {
                true => parent.children.watch(design.listener, LISTENER)?,
                false => parent.children.unwatch(design.listener),
            }
            listening = listen;
        }
        let limit = [pause.take(), resize_in].into_iter().flatten().min();
        parent.wait(limit, &mut news)?;
        for news in &news {
            match *news {
                News::Ended(slot) => parent.reap(slot),
                News::Ready(STOP) => {
                    if waiting.is_some() {
                        counters.closed(CloseReason::Stopped);
                    }
                    return Ok(());
                }
                News::Ready(WAKE) => parent.scoreboard.wake_fd().clear(),
                News::Ready(LISTENER) => match design.listener.accept(SocketFlags::empty(), counters)? {
                    Accepted::Connection(socket) => waiting = Some(socket),
                    Accepted::Nobody => {}
                    Accepted::Exhausted => pause = Some(RETRY),
                    Accepted::Closed => return Ok(()),
                },
                News::Ready(channel) => design.hear(channel - FIRST_CHANNEL, &parent.children, counters),
            }
        }
    }
}

struct PassDescriptor<'a> {
    listener: &'a Listener,
    /// By slot.
    channels: Vec<RefCell<Channel>>,
    /// By slot, how many connections its children were given.
    given: Vec<Cell<u64>>,
    /// Children that wait for a connection.
    idle: RefCell<Vec<usize>>,
    /// In a child: it has a connection to tell the end of.
    served_one: Cell<bool>,
}

/// The two ends of a child's channel, where they are open.
#[derive(Default)]
struct Channel {
    parents: Option<OwnedFd>,
    childs: Option<OwnedFd>,
}

impl PassDescriptor<'_> {
    /// In the parent: gives a child a connection.
    fn pass(&self, slot: usize, socket: &OwnedFd, counters: &Counters) -> Result<(), Errno> {
        let channel = self.channels[slot].borrow();
        let channel = channel.parents.as_ref().ok_or(Errno::PIPE)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        let sockets = [socket.as_fd()];
        message.push(SendAncillaryMessage::ScmRights(&sockets));
        counters.other_calls.add(2); // and the close of ours
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(channel, &[IoSlice::new(b"c")], &mut message, flags)?;
        self.given[slot].set(self.given[slot].get() + 1);
        Ok(())
    }

    /// In the parent: a child has served a connection, or has gone.
    fn hear(&self, slot: usize, children: &Children, counters: &Counters) {
        let channel = self.channels[slot].borrow();
        let Some(channel) = &channel.parents else {
            return;
        };
        counters.other_calls.add(1);
        match recv(channel, &mut [0; 1], RecvFlags::DONTWAIT) {
            Ok((1, _)) => self.idle.borrow_mut().push(slot),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Its death will be heard too.
            _ => children.unwatch(channel),
        }
    }
}

impl Prefork for PassDescriptor<'_> {
    fn next(&self, slot: usize, counters: &Counters) -> Result<Accepted, Error> {
        let channel = self.channels[slot].borrow();
        let Some(channel) = &channel.childs else {
            return Ok(Accepted::Closed);
        };
        if self.served_one.take() {
            counters.other_calls.add(1);
            // It can only fail if the parent has closed the channel, which the next call finds out.
            let _ = write(channel, b"s");
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        counters.waits.add(1);
        let received = recvmsg(
            channel,
            &mut [IoSliceMut::new(&mut byte)],
            &mut message,
            RecvFlags::CMSG_CLOEXEC,
        );
        counters.wake_ups.add(1);
        match received {
            Ok(received) if received.bytes == 0 => return Ok(Accepted::Closed),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Accepted::Nobody),
            Err(error) => return Err(Error::io("receiving a connection")(error)),
        }
        self.served_one.set(true);
        let socket = message.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        // Without a descriptor left for it, the kernel drops the connection: its client is lost.
        if socket.is_none() {
            counters.closed(CloseReason::Lost);
        }
        Ok(socket.map_or(Accepted::Nobody, Accepted::Connection))
    }

    fn prepare(&self, slot: usize) -> io::Result<()> {
        let (parents, childs) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        *self.channels[slot].borrow_mut() = Channel {
            parents: Some(parents),
            childs: Some(childs),
        };
        Ok(())
    }

    fn inherit(&self, slot: usize) {
        self.listener.close_for_good();
        for (other, channel) in self.channels.iter().enumerate() {
            let mut channel = channel.borrow_mut();
            channel.parents = None;
            if other != slot {
                channel.childs = None;
            }
        }
    }

    fn began(&self, slot: usize, children: &Children) -> Result<(), Error> {
        let mut channel = self.channels[slot].borrow_mut();
        channel.childs = None;
        if let Some(parents) = &channel.parents {
            children.watch(parents, FIRST_CHANNEL + slot)?;
        }
        self.idle.borrow_mut().push(slot);
        Ok(())
    }

    fn given(&self, slot: usize, _: &Counters) -> u64 {
        self.given[slot].get()
    }

    fn retired(&self, slot: usize) {
        self.idle.borrow_mut().retain(|&other| other != slot);
    }

    fn ended(&self, slot: usize, children: &Children, _: &Counters) {
        let channel = self.channels[slot].take();
        // To close it would not be enough: a sibling that has not run yet since it was forked has it open too, and its
        // end would be taken for news of the next channel in this slot.
        if let Some(parents) = &channel.parents {
            children.unwatch(parents);
        }
        self.retired(slot);
    }

    fn close(&self) {
        self.listener.close_for_all();
        for channel in &self.channels {
            *channel.borrow_mut() = Channel::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_channel_that_is_gone_is_not_heard_of_though_a_sibling_has_it_open() {
        let listener = Listener::bind("127.0.0.1:0", 1).expect("a port");
        let design = PassDescriptor {
            listener: &listener,
            channels: vec![RefCell::default()],
            given: vec![Cell::new(0)],
            idle: RefCell::default(),
            served_one: Cell::new(false),
        };
        let (children, counters) = (
            Children::without_children().expect("a descriptor"),
            Counters::default(),
        );
        let begin = || {
            design.prepare(0).expect("a channel");
            let childs = design.channels[0].borrow_mut().childs.take();
            design.began(0, &children).expect("watched");
            childs.expect("just made")
        };
        let child = begin();
        let siblings = {
            let channel = design.channels[0].borrow();
            let parents = channel.parents.as_ref().expect("just made");
            parents.try_clone().expect("a descriptor")
        };
        drop(child);
        let mut news = Vec::new();
        children.wait(None, &mut news).expect("waited");
        assert_eq!(news, [News::Ready(FIRST_CHANNEL)], "its end");
        design.ended(0, &children, &counters);
        let next = begin();
        children.wait(Some(Duration::ZERO), &mut news).expect("waited");
        assert_eq!(news, [], "the next one has said nothing");
        // Nor is anything waited for that has not come.
        design.hear(0, &children, &counters);
        assert_eq!(*design.idle.borrow(), [0]);
        drop((next, siblings));
    }
}
