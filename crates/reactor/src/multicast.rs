//! Messages to many, collected during a turn: what all receivers get is kept once, beside what is a receiver's own.

use std::ops::Range;

/// The bytes of a message as one receiver gets them: what all get first, what it alone gets, what all get last. Or of
/// several messages in a row, which all get alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// How many messages these are.
    pub messages: u32,
    pub head: &'a [u8],
    pub own: &'a [u8],
    pub tail: &'a [u8],
}

impl<'a> Parts<'a> {
    /// So many messages, whole.
    pub fn whole(messages: u32, bytes: &'a [u8]) -> Self {
        Self {
            messages,
            head: &[],
            own: bytes,
            tail: &[],
        }
    }

    /// How long they are together, in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.own.len() + self.tail.len()
    }

    /// Puts them behind what is in `output`.
    #[inline]
    pub fn append_to(&self, output: &mut Vec<u8>) {
        if !(self.head.is_empty() && self.own.is_empty()) {
            output.reserve(self.len());
            self.append_before_tail(output);
        }
        output.extend_from_slice(self.tail);
    }

    /// The same for what comes before the tail.
    #[inline]
    pub fn append_before_tail(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(self.head);
        output.extend_from_slice(self.own);
    }

    /// All of it in one piece.
    pub fn to_vec(self) -> Vec<u8> {
        [self.head, self.own, self.tail].concat()
    }
}

/// What all receivers of one message get: its number among those of one [`Multicast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(u32);

/// A multicast batch: messages in the order sent, each to an addressee `T`. Emptied and filled again, so that a message
/// costs no allocation.
#[derive(Debug)]
pub(crate) struct Multicast<T> {
    bytes: Vec<u8>,
    shared: Vec<Shared>,
    sent: Vec<Sent>,
    /// Of all that is sent, one behind the other.
    receivers: Vec<T>,
    /// How many messages are sent, each to one.
    messages: usize,
}

/// What all receivers get.
#[derive(Debug)]
struct Shared {
    messages: u32,
    head: Range<usize>,
    tail: Range<usize>,
}

/// What receivers get: one, or several who get nothing of their own.
#[derive(Debug)]
struct Sent {
    /// `None`: `own` is all of it.
    composed: Option<Number>,
    own: Range<usize>,
    /// Where their names end among all receivers; they begin where those before end.
    receivers_end: usize,
}

impl<T> Default for Multicast<T> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            shared: Vec::new(),
            sent: Vec::new(),
            receivers: Vec::new(),
            messages: 0,
        }
    }
}

impl<T: Copy> Multicast<T> {
    /// Keeps what all receivers of a message get. Nobody gets it yet.
    pub fn compose(&mut self, head: &[&[u8]], tail: &[&[u8]]) -> Number {
        self.compose_several(1, head, tail)
    }

    /// The same for several messages, with one head before and one tail behind all of them.
    pub fn compose_several(&mut self, messages: u32, head: &[&[u8]], tail: &[&[u8]]) -> Number {
        let head = self.keep(head);
        let tail = self.keep(tail);
        // Each takes more memory than its number could count.
        let number = Number(self.shared.len() as u32);
        self.shared.push(Shared { messages, head, tail });
        number
    }

    /// Puts another message behind the one that was composed last, before anybody gets it.
    ///
    /// # Panics
    ///
    /// If something was composed or sent since.
    #[inline]
    pub fn extend(&mut self, composed: Number, message: &[&[u8]]) {
        let more = self.keep(message);
        let is_last = composed.0 as usize + 1 == self.shared.len();
        let is_unsent = self
            .sent
            .last()
            .is_none_or(|sent| sent.composed != Some(composed));
        let last = self
            .shared
            .last_mut()
            .filter(|last| is_last && is_unsent && last.tail.end == more.start);
        assert!(last.is_some(), "nothing came between");
        if let Some(last) = last {
            last.tail.end = more.end;
            last.messages += 1;
        }
    }

    /// Sends a composed message, with bytes of the receiver's own in the middle.
    ///
    /// # Panics
    ///
    /// If it was not composed here since the last [`clear`](Self::clear).
    #[inline]
    pub fn send(&mut self, composed: Number, to: T, own: &[u8]) {
        self.messages += self.shared[composed.0 as usize].messages as usize;
        let own = self.keep(&[own]);
        self.receivers.push(to);
        self.sent.push(Sent {
            composed: Some(composed),
            own,
            receivers_end: self.receivers.len(),
        });
    }

    /// Sends a composed message to several, who get nothing of their own.
    ///
    /// # Panics
    ///
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_to_all(&mut self, composed: Number, receivers: impl Iterator<Item = T>) {
        let before = self.receivers.len();
        self.receivers.extend(receivers);
        let count = self.receivers.len() - before;
        if count > 0 {
            self.messages += count * self.shared[composed.0 as usize].messages as usize;
            self.sent.push(Sent {
                composed: Some(composed),
                own: 0..0,
                receivers_end: self.receivers.len(),
            });
        }
    }

    /// To append bytes for one receiver to; [`sent_since`](Self::sent_since) then says whose they are.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What was appended since the buffer had `start` bytes is for `to`.
    pub fn sent_since(&mut self, start: usize, to: T) {
        let own = start..self.bytes.len();
        self.messages += 1;
        self.receivers.push(to);
        self.sent.push(Sent {
            composed: None,
            own,
            receivers_end: self.receivers.len(),
        });
    }

    /// What was sent and to whom, in the order sent.
    pub fn iter(&self) -> impl Iterator<Item = (&[T], Option<Number>, Parts<'_>)> {
        let mut begin = 0;
        self.sent.iter().map(move |sent| {
            let own = &self.bytes[sent.own.clone()];
            let parts = match sent.composed {
                Some(composed) => self.parts_of(composed, own),
                None => Parts::whole(1, own),
            };
            let receivers = &self.receivers[begin..sent.receivers_end];
            begin = sent.receivers_end;
            (receivers, sent.composed, parts)
        })
    }

    /// What was composed, with a receiver's own.
    #[inline]
    pub fn parts_of<'a>(&'a self, composed: Number, own: &'a [u8]) -> Parts<'a> {
        let shared = &self.shared[composed.0 as usize];
        Parts {
            messages: shared.messages,
            head: &self.bytes[shared.head.clone()],
            own,
            tail: &self.bytes[shared.tail.clone()],
        }
    }

    /// How many messages are sent, each to one.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// How many bytes are kept for them.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How much memory they take, in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.sent.len() * size_of::<Sent>() + self.receivers.len() * size_of::<T>()
    }

    /// Whether nothing is kept: no message, and none composed that nobody got.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.shared.is_empty()
    }

    /// Forgets all of it, and gives memory back of which it has more than `kept_bytes`.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.messages = 0;
        self.sent.clear();
        self.receivers.clear();
        self.shared.clear();
        self.bytes.clear();
        if self.bytes.capacity() > kept_bytes {
            self.bytes = Vec::new();
        }
        if self.sent.capacity() > kept_bytes / size_of::<Sent>() {
            self.sent = Vec::new();
        }
        if self.receivers.capacity() > kept_bytes / size_of::<T>() {
            self.receivers = Vec::new();
        }
    }

    fn keep(&mut self, pieces: &[&[u8]]) -> Range<usize> {
        let start = self.bytes.len();
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        start..self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_get_is_kept_once_and_read_as_sent() {
        let mut multicast = Multicast::default();
        let first = multicast.compose(&[b"to ", b"all: "], &[b" first\n"]);
        let second = multicast.compose(&[], &[b" second\n"]);
        multicast.send(first, 'a', b"anna");
        multicast.send_to_all(second, "ab".chars());
        multicast.send_to_all(second, "".chars());
        multicast.send(first, 'b', b"ben");
        let start = multicast.buffer().len();
        multicast.buffer().extend_from_slice(b"ben alone");
        multicast.sent_since(start, 'b');
        let read: Vec<_> = multicast
            .iter()
            .map(|(to, composed, parts)| (to, composed, String::from_utf8(parts.to_vec()).expect("text")))
            .collect();
        assert_eq!(
            read,
            [
                (&['a'][..], Some(first), "to all: anna first\n".to_owned()),
                (&['a', 'b'], Some(second), " second\n".to_owned()),
                (&['b'], Some(first), "to all: ben first\n".to_owned()),
                (&['b'], None, "ben alone".to_owned()),
            ]
        );
        assert_eq!(multicast.parts_of(second, b"x").to_vec(), b"x second\n");
        assert_eq!(multicast.len(), 5);
        for (_, _, parts) in multicast.iter() {
            let mut output = b"before ".to_vec();
            parts.append_to(&mut output);
            assert_eq!(output.len(), 7 + parts.len());
        }
        multicast.clear(0);
        assert!(multicast.is_empty() && multicast.buffer().capacity() == 0);
    }

    #[test]
    fn memory_is_given_back_of_which_there_is_more_than_may_be_kept() {
        const BYTES: usize = 64 * 1024;
        let filled = || {
            let mut multicast = Multicast::default();
            let all = multicast.compose(&[], &[&[b'x'; BYTES]]);
            (0..BYTES).for_each(|to| multicast.send(all, to, b"own"));
            multicast
        };
        let room = |multicast: &Multicast<usize>| {
            [
                multicast.bytes.capacity(),
                multicast.sent.capacity(),
                multicast.receivers.capacity(),
            ]
        };
        let mut multicast = filled();
        let before = room(&multicast);
        multicast.clear(usize::MAX);
        assert_eq!((multicast.is_empty(), room(&multicast)), (true, before));
        let mut multicast = filled();
        multicast.clear(BYTES);
        assert_eq!((multicast.is_empty(), room(&multicast)), (true, [0; 3]));
    }

    #[test]
    fn messages_in_a_row_are_one() {
        let mut multicast = Multicast::default();
        let first = multicast.compose(&[], &[b"one", b"\n"]);
        multicast.extend(first, &[b"two\n"]);
        multicast.send_to_all(first, "a".chars());
        multicast.send(first, 'b', b"to b: ");
        let (to, _, parts) = multicast.iter().last().expect("two receivers");
        assert_eq!((to, parts.messages, multicast.len()), (&['b'][..], 2, 4));
        assert_eq!(parts.to_vec(), b"to b: one\ntwo\n");
    }

    #[test]
    #[should_panic(expected = "nothing came between")]
    fn a_message_does_not_grow_once_something_else_was_said() {
        let mut multicast = Multicast::default();
        let first = multicast.compose(&[], &[b"one"]);
        multicast.send(first, 'a', b"");
        multicast.extend(first, &[b"two"]);
    }
}
