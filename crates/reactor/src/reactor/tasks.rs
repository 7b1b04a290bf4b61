//! What the loops of a server ask of each other, and how it is collected during a turn.
//!
//! Everything that one loop says to another arrives in the order said: tasks and bytes go through one queue, whole
//! turns at a time. What moves connections rests on that order.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::balance::Migration;
use super::peer::{Finish, HeldUpBy, Link, ReadHalf, WriteHalf};
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::multicast::{Multicast, Number, Parts};
use crate::protocol::Session;

/// A new connection, between the loop that accepted it and those that have its halves.
#[derive(Clone, Debug)]
pub(crate) struct NewConnection {
    pub id: ConnectionId,
    pub link: Arc<Link>,
    /// The loop that reads.
    pub reader: usize,
    /// The loop that writes.
    pub writer: usize,
}

/// What one loop asks of another.
#[derive(Debug)]
pub(crate) enum Task<S> {
    /// Have the write half. It is [posted](crate::reactor::Mailbox::post_without_wake) before the read half begins, so
    /// that whoever learns of the connection from its session finds it in place.
    OpenWriter(NewConnection),
    /// Have the read half, and begin.
    OpenReader(NewConnection),
    /// Bytes for write halves, from a loop.
    Output(usize, Batch),
    /// To the write half: the session has ended. The read half comes along, so that nothing has to go back.
    Finish(Box<MovingReader<S>>, Finish),
    /// To the read half: the write half is gone, for this reason if it was not asked to.
    Gone(ConnectionId, Option<CloseReason>),
    /// To the read half: its client has taken half of what may wait.
    Taken(ConnectionId),
    /// To a read half: one more holds it up.
    HoldUp(ConnectionId, HeldUpBy),
    /// To a read half: one less.
    Release(ConnectionId, HeldUpBy),
    /// Have this read half, which has moved here.
    ReaderMoved(Box<MovingReader<S>>),
    /// To the write half: the read half is on this loop now.
    ReaderIs(ConnectionId, usize),
    /// Move the write half to this loop.
    MoveWriter(ConnectionId, usize),
    /// A write half is about to move.
    WriterWillMove {
        /// Whose.
        id: ConnectionId,
        /// From this loop, which is to be told once nothing more will come to it.
        from: usize,
        /// To this loop.
        to: usize,
    },
    /// To the loop that a write half is leaving: nothing more comes for it from one of the loops.
    WriterDetached(ConnectionId),
    /// Have this write half, which has moved here.
    WriterMoved(Box<MovingWriter>),
    /// A connection that has moved is gone.
    Forget(ConnectionId),
    /// Move some halves away.
    Migrate(Migration),
    /// From this loop: answer it with an [`Ack`](Self::Ack), now that all that it said before is done.
    RequestAck(usize),
    /// This loop has done all that was said to it before it was asked.
    Ack(usize),
    /// Say how many bytes wait in the outboxes here that are not empty.
    QueryPending(Sender<Vec<(ConnectionId, usize)>>),
    /// A connection has ended, so that another may be accepted.
    Permit,
    /// The server stops.
    Stop,
    /// The last connection is gone.
    Exit,
}

/// A read half on its way.
#[derive(Debug)]
pub(crate) struct MovingReader<S> {
    pub id: ConnectionId,
    pub link: Arc<Link>,
    pub read: Box<ReadHalf<S>>,
}

impl<S: Session> MovingReader<S> {
    /// Leaves its loop.
    pub fn new(id: ConnectionId, link: Arc<Link>, mut read: Box<ReadHalf<S>>) -> Self {
        read.leave();
        Self { id, link, read }
    }
}

/// A write half on its way.
#[derive(Debug)]
pub(crate) struct MovingWriter {
    pub id: ConnectionId,
    pub link: Arc<Link>,
    pub reader: usize,
    pub write: WriteHalf,
}

impl MovingWriter {
    /// Leaves its loop. Its read half is on the loop `reader`.
    pub fn new(id: ConnectionId, link: Arc<Link>, reader: usize, mut write: WriteHalf) -> Self {
        write.leave();
        Self {
            id,
            link,
            reader,
            write,
        }
    }
}

/// Bytes for the write halves of one loop, from one other loop. To each: for whom, and the session whose message it is;
/// nobody if it is the receiver's session's own output.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    messages: Multicast<(ConnectionId, Option<ConnectionId>)>,
    /// The message added last, as the loop tells it from others, and here.
    last: Option<(MessageId, Number)>,
}

/// What a loop tells a message by: the delivery, and its number in that.
pub(crate) type MessageId = (u64, Option<Number>);

/// An emptied batch with more room than this gives its memory back.
const KEPT_BYTES: usize = 256 * 1024;

impl Batch {
    /// To append one connection's own output to; [`own`](Self::own) then says whose it is.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.messages.buffer()
    }

    /// What was appended since `start` is `connection`'s own output.
    pub fn own(&mut self, connection: ConnectionId, start: usize) {
        self.messages.sent_since(start, (connection, None));
    }

    /// A message: one for several receivers has what all of them get kept once.
    pub fn message(&mut self, id: MessageId, to: ConnectionId, sender: ConnectionId, parts: &Parts<'_>) {
        let composed = match self.last {
            Some((last, composed)) if last == id => composed,
            _ => self
                .messages
                .compose_several(parts.messages, &[parts.head], &[parts.tail]),
        };
        self.last = Some((id, composed));
        self.messages.send(composed, (to, Some(sender)), parts.own);
    }

    /// Receivers and bytes for each of them, in order; with every receiver the sender, none where it is its own
    /// session.
    pub fn entries(&self) -> impl Iterator<Item = (&[(ConnectionId, Option<ConnectionId>)], Parts<'_>)> {
        self.messages
            .iter()
            .map(|(receivers, _, parts)| (receivers, parts))
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// How much memory its messages take, in bytes.
    fn size(&self) -> usize {
        self.messages.size()
    }

    /// Ready to be used again.
    pub fn clear(&mut self) {
        self.last = None;
        self.messages.clear(KEPT_BYTES);
    }
}

/// After so many bytes another loop is asked whether it has caught up. Until it has, nobody says more than as many
/// again.
const MOST_UNACKNOWLEDGED: usize = 1024 * 1024;

/// What one loop has for another at the end of the turn.
#[derive(Debug)]
pub(crate) struct Outgoing<S> {
    from: usize,
    tasks: Vec<Task<S>>,
    batch: Batch,
    /// The bytes posted, or about to be, since the other loop was asked last.
    unacknowledged: usize,
    /// It was asked, and has not answered.
    awaits_ack: bool,
    /// Sessions here that say no more until it has.
    held_up: Vec<ConnectionId>,
}

impl<S> Outgoing<S> {
    /// From the loop `from`.
    pub fn new(from: usize) -> Self {
        Self {
            from,
            tasks: Vec::new(),
            batch: Batch::default(),
            unacknowledged: 0,
            awaits_ack: false,
            held_up: Vec::new(),
        }
    }

    /// Whether much was said since the other loop was asked last: then [`hold_up`](Self::hold_up) decides.
    #[inline]
    pub fn is_much(&self) -> bool {
        self.unacknowledged + self.batch.size() >= MOST_UNACKNOWLEDGED
    }

    /// Asks the other loop, if that is not under way, or else holds `sender` up, who has just said something: `true`
    /// if it was not held up for that already.
    pub fn hold_up(&mut self, sender: ConnectionId, spare: impl FnOnce() -> Batch) -> bool {
        if !self.awaits_ack {
            self.push(Task::RequestAck(self.from), spare);
            (self.awaits_ack, self.unacknowledged) = (true, 0);
            return false;
        }
        // Messages of one session come one after the other.
        let is_new = self.held_up.last() != Some(&sender);
        if is_new {
            self.held_up.push(sender);
        }
        is_new
    }

    /// The other loop has acknowledged: who can go on.
    pub fn acknowledged(&mut self) -> Vec<ConnectionId> {
        self.awaits_ack = false;
        std::mem::take(&mut self.held_up)
    }

    /// For bytes, after all that was added before.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// A task, after all that was added before. `spare` gives an empty batch.
    pub fn push(&mut self, task: Task<S>, spare: impl FnOnce() -> Batch) {
        self.seal(spare);
        self.tasks.push(task);
    }

    /// All of it in order, to be drained; empty if there is nothing.
    pub fn sealed(&mut self, spare: impl FnOnce() -> Batch) -> &mut Vec<Task<S>> {
        self.seal(spare);
        &mut self.tasks
    }

    fn seal(&mut self, spare: impl FnOnce() -> Batch) {
        if !self.batch.is_empty() {
            self.unacknowledged += self.batch.size();
            let batch = std::mem::replace(&mut self.batch, spare());
            self.tasks.push(Task::Output(self.from, batch));
        }
    }
}
