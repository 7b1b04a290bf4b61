//! Many sends in one system call. An unsafe leaf.
//!
//! The kernel reads a buffer until its send is done, and here that is before the call returns: each send is one that
//! does not wait (`MSG_DONTWAIT`), which io_uring does at once as it takes it, or answers with `EAGAIN`; and the
//! call waits until every send is answered for. So the buffers are borrowed for the call and no longer.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use super::Later;
use crate::counters::Counters;

/// The most sends of one submission.
const MOST: u32 = 1024;

/// Sends to many sockets at once.
pub(crate) struct JointSends {
    ring: IoUring,
    enabled: bool,
    /// How many the kernel has not answered.
    open: usize,
    /// For whom each is, and what came of it.
    results: Vec<(u32, Result<usize, Errno>)>,
}

impl JointSends {
    /// For the thread that first sends.
    ///
    /// # Errors
    ///
    /// If the kernel refuses io_uring, or has no memory or descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            ring: super::ring(MOST, 2 * MOST, Later::Wait)?,
            enabled: false,
            open: 0,
            results: Vec::new(),
        })
    }

    /// Sends to each socket what it takes of the bytes, and says for each name how much that was, in the order given.
    /// Does not wait for anybody. Counts its system calls.
    pub fn send<'a>(
        &mut self,
        sends: impl Iterator<Item = (u32, BorrowedFd<'a>, &'a [u8])>,
        counters: &Counters,
    ) -> &[(u32, Result<usize, Errno>)] {
        self.results.clear();
        for (name, socket, bytes) in sends {
            let entry = opcode::Send::new(
                types::Fd(socket.as_raw_fd()),
                bytes.as_ptr(),
                bytes.len().try_into().unwrap_or(u32::MAX),
            )
            .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
            .build()
            .user_data(self.results.len() as u64);
            // SAFETY: the buffer and the socket are borrowed until this function returns, and it does not return before
            // every send is answered for: then the kernel uses neither any more.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            assert!(pushed.is_ok(), "the queue has room for `MOST`");
            self.open += 1;
            self.results.push((name, Err(Errno::AGAIN)));
            if self.open == MOST as usize {
                self.submit(counters);
            }
        }
        if self.open > 0 {
            self.submit(counters);
        }
        &self.results
    }

    /// Has the kernel do all that are in the queue, and takes the answers.
    fn submit(&mut self, counters: &Counters) {
        if !self.enabled {
            let enabled = self.ring.submitter().register_enable_rings();
            assert!(enabled.is_ok(), "it was not enabled before");
            self.enabled = true;
        }
        while self.open > 0 {
            counters.sends.add(1);
            if let Err(error) = self.ring.submit_and_wait(self.open) {
                // What is transient is tried again; after anything else it would not be known whether the kernel
                // still reads the buffers, and they must not be given back.
                let transient = [libc::EINTR, libc::EAGAIN, libc::EBUSY, libc::ENOMEM];
                if !error.raw_os_error().is_some_and(|code| transient.contains(&code)) {
                    std::process::abort();
                }
            }
            for answer in self.ring.completion() {
                let (_, result) = &mut self.results[answer.user_data() as usize];
                *result = match answer.result() {
                    count @ 0.. => Ok(count as usize),
                    code => Err(Errno::from_raw_os_error(-code)),
                };
                self.open -= 1;
            }
        }
    }
}

impl std::fmt::Debug for JointSends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JointSends").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pairs(count: usize) -> Vec<(UnixStream, UnixStream)> {
        (0..count).map(|_| UnixStream::pair().expect("sockets")).collect()
    }

    #[test]
    fn each_gets_its_own_in_one_call() {
        let mut pairs = pairs(2 * MOST as usize + 7);
        let texts: Vec<String> = (0..pairs.len()).map(|i| format!("to {i}")).collect();
        let mut sends = JointSends::new().expect("a ring");
        let counters = Counters::default();
        let sent = sends.send(
            pairs
                .iter()
                .zip(&texts)
                .enumerate()
                .map(|(i, (pair, text))| (i as u32, pair.0.as_fd(), text.as_bytes())),
            &counters,
        );
        for (i, &(name, sent)) in sent.iter().enumerate() {
            assert_eq!((name, sent), (i as u32, Ok(texts[i].len())));
        }
        assert_eq!(counters.sends.get(), 3);
        for ((_, reader), text) in pairs.iter_mut().zip(&texts) {
            let mut came = vec![0; text.len()];
            reader.read_exact(&mut came).expect("it is there");
            assert_eq!(came, text.as_bytes());
        }
        assert!(sends.send(std::iter::empty(), &counters).is_empty());
        assert_eq!(counters.sends.get(), 3, "nothing costs nothing");
    }

    /// Though the sockets would block: a partial send, a full socket and a closed one are answered at once.
    #[test]
    fn it_waits_for_nobody() {
        let mut pairs = pairs(3);
        let reader = pairs.pop().expect("a pair").0;
        let much = vec![7; 10_000_000];
        let mut sends = JointSends::new().expect("a ring");
        let counters = Counters::default();
        let to_all = |bytes: &'static str| {
            pairs
                .iter()
                .map(move |pair| (1, pair.0.as_fd(), bytes.as_bytes()))
        };
        let sent = sends.send([(5, pairs[0].0.as_fd(), &much[..])].into_iter(), &counters);
        let &[(5, Ok(count))] = sent else {
            panic!("{sent:?}");
        };
        assert!(count > 0 && count < much.len(), "{count} bytes");
        // The other end of this one is closed already.
        let gone = (9, reader.as_fd(), &b"nobody"[..]);
        let sent = sends.send(to_all("more").chain([gone]), &counters);
        assert_eq!(sent, [(1, Err(Errno::AGAIN)), (1, Ok(4)), (9, Err(Errno::PIPE))]);
    }
}
