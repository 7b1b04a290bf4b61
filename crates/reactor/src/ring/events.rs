//! What a proactor waits for: requests to receive and to watch, and their answers. An unsafe leaf.
//!
//! A request is named by whoever makes it, and its answers bear the name. It stays with the kernel until its last
//! answer; one that is not wanted any more is cancelled, and then answers once more.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Submitter, cqueue, opcode, squeue};
use rustix::io::Errno;

use super::buffers::{Buffers, Filled, GROUP};

/// The most requests that are made at once.
const REQUESTS: u32 = 256;
/// The most answers that the kernel has ready without looking for memory.
pub(crate) const ANSWERS: u32 = 4096;
/// The name of what needs no answer.
const NOBODY: u64 = u64::MAX;

/// A ring of one thread.
pub(crate) struct Events {
    ring: IoUring,
    /// Dropped by hand, once the kernel has no request that could fill one.
    buffers: ManuallyDrop<Buffers>,
    /// Requests that have not had their last answer.
    with_the_kernel: usize,
    /// Requests that name a descriptor are made, and the kernel has not seen them.
    unseen: bool,
    enabled: bool,
}

/// When a watched descriptor is reported: once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// When it can be read.
    Read,
    /// Each time that it has become readable anew, until it is cancelled.
    ReadAgain,
    /// When it can be written.
    Write,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its name.
    pub name: u64,
    /// What was received; of anything else and of the end, nothing.
    pub result: Result<Option<Filled>, Errno>,
    /// More answers come.
    pub goes_on: bool,
}

impl Events {
    /// Without requests. The thread that first waits is its own.
    ///
    /// # Errors
    ///
    /// If the kernel refuses io_uring, or has no memory or descriptor left.
    pub fn new() -> io::Result<Self> {
        Self::with(Buffers::register)
    }

    fn with(buffers: impl FnOnce(&Submitter<'_>) -> io::Result<Buffers>) -> io::Result<Self> {
        let ring = super::ring(REQUESTS, ANSWERS, super::Later::AnyCall)?;
        let buffers = buffers(&ring.submitter())?;
        Ok(Self {
            ring,
            buffers: ManuallyDrop::new(buffers),
            with_the_kernel: 0,
            unseen: false,
            enabled: false,
        })
    }

    /// Reports a descriptor, which stays open until then or until it is cancelled.
    pub fn watch(&mut self, descriptor: impl AsFd, watch: Watch, name: u64) {
        let events = match watch {
            Watch::Read | Watch::ReadAgain => libc::POLLIN,
            Watch::Write => libc::POLLOUT,
        };
        let descriptor = Fd(descriptor.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(descriptor, events as u32)
            .multi(watch == Watch::ReadAgain)
            .build();
        self.unseen = true;
        self.request(&entry.user_data(name));
    }

    /// Receives whatever comes, in any number of answers, until the end, a failure, a want of buffers or until it is
    /// cancelled.
    pub fn receive(&mut self, socket: impl AsFd, name: u64) {
        let socket = Fd(socket.as_fd().as_raw_fd());
        let entry = opcode::RecvMulti::new(socket, GROUP).build();
        self.unseen = true;
        self.request(&entry.user_data(name));
    }

    /// Wants no more answers of this name. One more comes, if it was not the last already.
    pub fn cancel(&mut self, name: u64) {
        let entry = opcode::AsyncCancel::new(name).build();
        self.request(&entry.user_data(NOBODY));
    }

    /// The same of all requests for a descriptor.
    pub fn cancel_all(&mut self, descriptor: impl AsFd) {
        let descriptor = Fd(descriptor.as_fd().as_raw_fd());
        let entry = opcode::AsyncCancel2::new(CancelBuilder::fd(descriptor).all()).build();
        self.unseen = true;
        self.request(&entry.user_data(NOBODY));
    }

    /// Has the kernel see every request before a descriptor is closed: another would soon have its number. Whether
    /// that was a system call.
    pub fn before_close(&mut self) -> bool {
        let unseen = self.unseen;
        if unseen {
            self.submit();
        }
        unseen
    }

    /// Makes all requests, and waits for an answer, but no longer than `limit`.
    ///
    /// # Errors
    ///
    /// If the thread is another than before.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.enable()?;
        let limit = limit.map(|limit| Timespec::new().sec(limit.as_secs()).nsec(limit.subsec_nanos()));
        let mut arguments = SubmitArgs::new();
        if let Some(limit) = &limit {
            arguments = arguments.timespec(limit);
        }
        let waited = self.ring.submitter().submit_with_args(1, &arguments);
        self.look_what_is_seen();
        match waited {
            Err(error) if !is_transient(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// The next answer that has come.
    pub fn next(&mut self) -> Option<Answer> {
        loop {
            let entry = self.ring.completion().next()?;
            let answer = self.read(&entry);
            if answer.name != NOBODY {
                return Some(answer);
            }
        }
    }

    /// What was received, at the front of `into`: how much.
    pub fn take(&mut self, filled: Filled, into: &mut [u8]) -> usize {
        self.buffers.take(filled, into)
    }

    fn read(&mut self, entry: &cqueue::Entry) -> Answer {
        let goes_on = cqueue::more(entry.flags());
        self.with_the_kernel -= usize::from(!goes_on);
        let filled = cqueue::buffer_select(entry.flags()).map(|number| {
            let count = usize::try_from(entry.result()).unwrap_or(0);
            let more = cqueue::buffer_more(entry.flags());
            self.buffers.filled(number, count, more)
        });
        Answer {
            name: entry.user_data(),
            result: match entry.result() {
                0.. => Ok(filled),
                code => Err(Errno::from_raw_os_error(-code)),
            },
            goes_on,
        }
    }

    /// Makes a request that names no memory but the registered buffers.
    fn request(&mut self, entry: &squeue::Entry) {
        // SAFETY: the kernel writes only to the registered buffers, which stay until it has no request any more: see
        // `drop`. That a descriptor is another by now would be an error, and not one of memory.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit();
        }
        self.with_the_kernel += 1;
    }

    fn submit(&mut self) {
        // It can only fail for want of memory or before the ring is enabled; then it is tried again with the wait.
        if self.enable().is_ok() && self.ring.submit().is_ok() {
            self.look_what_is_seen();
        }
    }

    fn look_what_is_seen(&mut self) {
        self.unseen &= !self.ring.submission().is_empty();
    }

    fn enable(&mut self) -> io::Result<()> {
        if !self.enabled {
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        Ok(())
    }

    /// Cancels every request and waits for the last answer of each.
    fn end(&mut self) -> io::Result<()> {
        if !self.enabled {
            // The kernel has seen none.
            self.with_the_kernel = 0;
        }
        if self.with_the_kernel == 0 {
            return Ok(());
        }
        let all = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.request(&all.user_data(NOBODY));
        while self.with_the_kernel > 0 {
            self.wait(None)?;
            while self.next().is_some() {}
        }
        Ok(())
    }
}

/// When all is cancelled, nothing more is written to the buffers, and no descriptor is kept open.
impl Drop for Events {
    fn drop(&mut self) {
        if self.end().is_ok() {
            // SAFETY: once, and they are not used after.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
        // Else the buffers are never given back: the kernel may write to them.
    }
}

fn is_transient(error: &io::Error) -> bool {
    // The time is over, a signal came, or answers must be taken first.
    let transient = [libc::ETIME, libc::EINTR, libc::EAGAIN, libc::EBUSY, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| transient.contains(&code))
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("with_the_kernel", &self.with_the_kernel)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::connection::RECEIVE_BYTES;

    /// As they are on this kernel, and as on an older one.
    fn both() -> [Events; 2] {
        [
            Events::new().expect("a ring"),
            Events::with(Buffers::register_old).expect("a ring"),
        ]
    }

    fn bytes(events: &mut Events, answer: Answer) -> Vec<u8> {
        let filled = answer.result.expect("received").expect("not the end");
        let mut into = vec![0; RECEIVE_BYTES];
        let count = events.take(filled, &mut into);
        into.truncate(count);
        into
    }

    #[test]
    fn one_request_receives_all_that_comes_and_the_end() {
        for mut events in both() {
            let (reader, mut writer) = UnixStream::pair().expect("sockets");
            events.receive(&reader, 7);
            // More, and more often, than all buffers together have room for.
            for i in 0..1_000 {
                let text = format!("{i} ").repeat(1 + i % 50 * 40);
                writer.write_all(text.as_bytes()).expect("sent");
                let mut came = Vec::new();
                while came.len() < text.len() {
                    events.wait(None).expect("waited");
                    while let Some(answer) = events.next() {
                        assert_eq!((answer.name, answer.goes_on), (7, true));
                        came.extend(bytes(&mut events, answer));
                    }
                }
                assert_eq!(came, text.as_bytes());
            }
            drop(writer);
            events.wait(None).expect("waited");
            let end = events.next().expect("an answer");
            assert!(matches!(end.result, Ok(None)) && !end.goes_on, "{end:?}");
            assert_eq!(events.with_the_kernel, 0);
        }
    }

    #[test]
    fn what_is_not_taken_yet_is_not_written_over() {
        for mut events in both() {
            let (quick, mut to_quick) = UnixStream::pair().expect("sockets");
            let (late, mut to_late) = UnixStream::pair().expect("sockets");
            events.receive(&quick, 1);
            events.receive(&late, 2);
            to_late.write_all(b"not taken yet").expect("sent");
            events.wait(None).expect("waited");
            let not_taken = events.next().expect("an answer");
            // The rest is full, and is used again and again.
            let (mut kept, mut was_full) = (Vec::new(), false);
            for _ in 0..2_000 {
                to_quick.write_all(&[b'x'; 3_000]).expect("sent");
                events.wait(None).expect("waited");
                let answer = events.next().expect("an answer");
                if matches!(answer.result, Err(Errno::NOBUFS)) {
                    was_full = true;
                    for answer in kept.drain(..) {
                        assert!(bytes(&mut events, answer).iter().all(|&byte| byte == b'x'));
                    }
                    events.receive(&quick, 1);
                } else {
                    kept.push(answer);
                }
            }
            assert!(was_full);
            assert_eq!(bytes(&mut events, not_taken), b"not taken yet");
        }
    }

    #[test]
    fn what_is_cancelled_answers_once_more() {
        let (reader, _writer) = UnixStream::pair().expect("sockets");
        let mut events = Events::new().expect("a ring");
        events.receive(&reader, 1);
        assert!(events.before_close(), "the kernel has to see it");
        assert!(!events.before_close(), "it has seen it");
        let shown = format!("{events:?}");
        assert!(shown.starts_with("Events { with_the_kernel: "), "{shown}");
        events.cancel(1);
        events.wait(None).expect("waited");
        let answer = events.next().expect("an answer");
        assert_eq!((answer.name, answer.goes_on), (1, false));
        assert!(matches!(answer.result, Err(Errno::CANCELED)), "{answer:?}");
        assert!(events.next().is_none());
    }

    #[test]
    fn all_of_a_descriptor_is_cancelled_and_nothing_of_another() {
        let [(reader, _writer), (other, mut to_other)] =
            [(); 2].map(|()| UnixStream::pair().expect("sockets"));
        let mut events = Events::new().expect("a ring");
        events.watch(&reader, Watch::Read, 1);
        events.watch(&reader, Watch::ReadAgain, 2);
        events.watch(&other, Watch::Read, 3);
        assert!(events.before_close(), "the kernel has to see them");
        events.cancel_all(&reader);
        assert!(events.before_close(), "and which descriptor that was");
        let mut answers = std::iter::from_fn(|| {
            events.wait(None).expect("waited");
            Some(std::iter::from_fn(|| events.next()).collect::<Vec<_>>())
        })
        .flatten();
        let mut cancelled: Vec<_> = answers.by_ref().take(2).collect();
        cancelled.sort_unstable_by_key(|answer| answer.name);
        for (answer, name) in cancelled.iter().zip([1, 2]) {
            assert_eq!((answer.name, answer.goes_on), (name, false));
            assert!(matches!(answer.result, Err(Errno::CANCELED)), "{answer:?}");
        }
        to_other.write_all(b"still watched").expect("sent");
        let answer = answers.next().expect("an answer");
        assert!(answer.name == 3 && answer.result.is_ok(), "{answer:?}");
    }

    #[test]
    fn a_wait_ends_with_its_time() {
        let (reader, _writer) = UnixStream::pair().expect("sockets");
        let mut events = Events::new().expect("a ring");
        events.watch(&reader, Watch::Read, 1);
        events.watch(&reader, Watch::Write, 2);
        events.wait(None).expect("waited");
        assert_eq!(
            events.next().expect("an answer").name,
            2,
            "an empty socket can be written"
        );
        events.wait(Some(Duration::from_millis(1))).expect("waited");
        assert!(events.next().is_none());
    }

    /// Neither the descriptor nor the memory is kept.
    #[test]
    fn a_ring_that_is_gone_keeps_no_descriptor_open() {
        let (reader, mut writer) = UnixStream::pair().expect("sockets");
        let mut events = Events::new().expect("a ring");
        events.receive(&reader, 1);
        events.wait(Some(Duration::ZERO)).expect("waited");
        drop(reader);
        writer.write_all(b"it is open").expect("the ring keeps it open");
        drop(events);
        let error = writer.write_all(b"anybody there?").expect_err("nobody");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
