//! What the drivers share: connections, and waiting for any of them.
//!
//! Sockets stay in blocking mode and only receiving says that it will not wait: a driver has so little on its way that
//! it always fits into a socket.

use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use threadgauge_machine::{Resource, raise_to_hard};

/// A server that sends nothing for so long has lost something.
pub const PATIENCE: Duration = Duration::from_secs(120);
const BATCH: usize = 1024;

/// Connections to the server on this port of the loopback address.
pub fn connect(port: u16, count: usize) -> Result<Vec<TcpStream>> {
    // A soft limit of 1,024 is common. Too low a hard one shows when a connection fails.
    raise_to_hard(Resource::OpenFiles)?;
    (0..count)
        .map(|i| {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .with_context(|| format!("cannot make connection {} of {count}", i + 1))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
        .collect()
}

/// Waits for the connections that something came on.
pub struct Readable {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Readable {
    /// Of these; each is named by its place.
    pub fn of(streams: &[TcpStream]) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (i, stream) in streams.iter().enumerate() {
            epoll::add(
                &epoll,
                stream,
                epoll::EventData::new_u64(i as u64),
                epoll::EventFlags::IN,
            )?;
        }
        Ok(Self {
            epoll,
            events: Vec::with_capacity(BATCH),
        })
    }

    /// Waits at most `limit` and fills `ready` with the places of those that can be read; none when the time is over.
    pub fn wait(&mut self, limit: Duration, ready: &mut Vec<usize>) -> Result<()> {
        let limit = Timespec::try_from(limit)?;
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the server"),
        }
        ready.clear();
        ready.extend(self.events.iter().map(|event| event.data.u64() as usize));
        Ok(())
    }

    /// As [`wait`](Self::wait), and a silence of [`PATIENCE`] is an error.
    pub fn expect(&mut self, ready: &mut Vec<usize>) -> Result<()> {
        self.wait(PATIENCE, ready)?;
        ensure!(!ready.is_empty(), "the server sent nothing for {PATIENCE:?}");
        Ok(())
    }
}

/// What is there, without waiting; 0 if that is nothing.
///
/// # Errors
///
/// If the server has closed.
pub fn receive(stream: &TcpStream, into: &mut [u8]) -> Result<usize> {
    match recv(stream, into, RecvFlags::DONTWAIT) {
        Ok((received, _)) => {
            ensure!(received > 0, "the server closed a connection");
            Ok(received)
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error).context("receiving from the server"),
    }
}
