//! Sends what waits on many connections at once: one io_uring submission for all, or a call for each.
//!
//! Sends never wait (`MSG_DONTWAIT`), so each is over when the submission that holds it comes back: no buffer is the
//! kernel's between two calls, and a full socket shows as `EAGAIN`.
#![allow(unsafe_code)]

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;

use io_uring::{IoUring, opcode, types::Fd};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Sends in one submission, at most.
const ENTRIES: u32 = 1024;

/// The way out.
pub(crate) enum BatchSender {
    /// One submission for many.
    Ring(Box<IoUring>),
    /// A system call for each, where the kernel has no io_uring or refuses it.
    Calls,
}

impl BatchSender {
    pub(crate) fn new() -> Self {
        // No interruption for what completed: it is asked for in the call that submits.
        IoUring::builder()
            .setup_coop_taskrun()
            .build(ENTRIES)
            .map_or(Self::Calls, |ring| Self::Ring(Box::new(ring)))
    }

    /// Sends the bytes of each of these connections, whose streams `stream` has, and tells `sent` how many went out, or
    /// why none.
    ///
    /// # Errors
    ///
    /// If the submission itself fails. The ring is gone then, with what the kernel has not seen of it: there is a call
    /// for each from then on.
    pub(crate) fn send<'a>(
        &mut self,
        stream: impl Fn(usize) -> &'a TcpStream,
        bytes: &[Vec<u8>],
        who: &[usize],
        mut sent: impl FnMut(usize, io::Result<usize>),
    ) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match self {
            Self::Ring(ring) => {
                for some in who.chunks(ENTRIES as usize) {
                    if let Err(error) = Self::submit(ring, &stream, bytes, some, flags, &mut sent) {
                        *self = Self::Calls;
                        return Err(error);
                    }
                }
            }
            Self::Calls => {
                for &i in who {
                    sent(i, send(stream(i), &bytes[i], flags).map_err(io::Error::from));
                }
            }
        }
        Ok(())
    }

    fn submit<'a>(
        ring: &mut IoUring,
        stream: &impl Fn(usize) -> &'a TcpStream,
        bytes: &[Vec<u8>],
        who: &[usize],
        flags: SendFlags,
        sent: &mut impl FnMut(usize, io::Result<usize>),
    ) -> io::Result<()> {
        let mut queue = ring.submission();
        for &i in who {
            let length = u32::try_from(bytes[i].len()).unwrap_or(u32::MAX);
            let entry = opcode::Send::new(Fd(stream(i).as_raw_fd()), bytes[i].as_ptr(), length)
                .flags(flags.bits().cast_signed())
                .build()
                .user_data(i as u64);
            // SAFETY: `bytes` is borrowed until this function returns, and `length` is at most what the vector holds.
            // The loop below returns once all have completed; where it returns before, because submitting failed, those
            // that the kernel has were executed while they were submitted, since MSG_DONTWAIT never leaves one for
            // later; and those that it has not seen it never sees, since the caller drops the ring.
            unsafe { queue.push(&entry) }.map_err(io::Error::other)?;
        }
        drop(queue);
        let mut missing = who.len();
        while missing > 0 {
            match ring.submit_and_wait(missing) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            for done in ring.completion() {
                missing -= 1;
                let result = usize::try_from(done.result());
                sent(
                    done.user_data() as usize,
                    result.map_err(|_| Errno::from_raw_os_error(-done.result()).into()),
                );
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for BatchSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ring(_) => "io_uring",
            Self::Calls => "calls",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn senders() -> [BatchSender; 2] {
        [BatchSender::new(), BatchSender::Calls]
    }

    /// Both ends of so many connections.
    fn pairs(count: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let pair = |_| (TcpStream::connect(at).unwrap(), listener.accept().unwrap().0);
        (0..count).map(pair).unzip()
    }

    #[test]
    fn each_peer_receives_its_own_bytes() {
        for mut sender in senders() {
            let (near, mut far) = pairs(20);
            let bytes: Vec<Vec<u8>> = (0..20).map(|i| vec![i; 10 + usize::from(i)]).collect();
            let who: Vec<usize> = (0..20).filter(|i| i % 3 == 0).collect();
            let mut answered = Vec::new();
            sender
                .send(
                    |i| &near[i],
                    &bytes,
                    &who,
                    |i, sent| answered.push((i, sent.unwrap())),
                )
                .unwrap();
            answered.sort_unstable();
            assert_eq!(answered, who.iter().map(|&i| (i, 10 + i)).collect::<Vec<_>>());
            for i in who {
                let mut received = vec![0; 10 + i];
                far[i].read_exact(&mut received).unwrap();
                assert_eq!(received, bytes[i], "{sender:?}");
            }
        }
    }

    /// They name buffers that are gone when the next are sent.
    #[test]
    fn entries_that_could_not_be_submitted_are_never_sent() {
        // Such a ring takes entries, and submits none.
        let ring = IoUring::builder().setup_r_disabled().build(ENTRIES).unwrap();
        let mut sender = BatchSender::Ring(Box::new(ring));
        let (near, mut far) = pairs(1);
        let lost = sender.send(
            |i| &near[i],
            &[b"gone".to_vec()],
            &[0],
            |_, _| panic!("nothing was sent"),
        );
        assert!(lost.is_err());
        if let BatchSender::Ring(ring) = &sender {
            ring.submitter().register_enable_rings().unwrap();
        }
        let mut sent = None;
        sender
            .send(
                |i| &near[i],
                &[b"here".to_vec()],
                &[0],
                |_, result| sent = result.ok(),
            )
            .unwrap();
        assert_eq!(sent, Some(4));
        let mut received = [0; 4];
        far[0].read_exact(&mut received).unwrap();
        assert_eq!(&received, b"here");
    }

    #[test]
    fn a_full_socket_takes_a_part_and_then_says_so() {
        for mut sender in senders() {
            let (near, _far) = pairs(1);
            let bytes = [vec![0; 64 << 20]];
            let mut once = || {
                let mut result = None;
                sender
                    .send(|i| &near[i], &bytes, &[0], |_, sent| result = Some(sent))
                    .unwrap();
                result.unwrap()
            };
            let mut taken = 0;
            let refusal = loop {
                match once() {
                    Ok(sent) => taken += sent,
                    Err(refusal) => break refusal,
                }
            };
            assert_eq!(refusal.kind(), io::ErrorKind::WouldBlock);
            assert!(taken > 0 && taken < 64 << 20);
        }
    }
}
