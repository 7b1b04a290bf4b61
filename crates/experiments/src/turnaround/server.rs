//! A server on the loopback network that answers each request after the delay it asks for.
//!
//! One thread and `poll`, so that however many clients wait, the server is one thread that mostly sleeps.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The server; dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    /// Closing it ends the server.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it on a free port.
    pub(super) fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = UnixStream::pair()?;
        let thread = thread::Builder::new()
            .name("server".to_owned())
            .spawn(move || serve(&listener, &stopped))?;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Connects, asks for an answer after `after` and waits for it.
    pub(super) fn ask(&self, after: Duration) -> Result<(), String> {
        let asked = || {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.write_all(&(after.as_nanos() as u64).to_le_bytes())?;
            stream.read_exact(&mut [0; 1])
        };
        asked().map_err(|e| format!("the server on the loopback network did not answer: {e}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A failure of the thread has been reported by a request already.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, stopped: &UnixStream) {
    let mut silent: Vec<TcpStream> = Vec::new();
    let mut waiting: Vec<(Instant, TcpStream)> = Vec::new();
    loop {
        let now = Instant::now();
        for (_, mut client) in waiting.extract_if(.., |(due, _)| *due <= now) {
            // A client that has gone needs no answer.
            let _ = client.write_all(&[1]);
        }
        let next = waiting
            .iter()
            .map(|(due, _)| due.saturating_duration_since(now))
            .min();
        let timeout = next.and_then(|after| Timespec::try_from(after).ok());
        let mut fds = vec![
            PollFd::new(stopped, PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        fds.extend(silent.iter().map(|client| PollFd::new(client, PollFlags::IN)));
        // An error here is an interrupting signal: the loop polls again.
        if poll(&mut fds, timeout.as_ref()).is_err() {
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            return;
        }
        let mut asks = ready[2..].iter();
        for mut client in silent.extract_if(.., |_| asks.next() == Some(&true)) {
            if let Some(after) = request(&mut client) {
                waiting.push((Instant::now() + after, client));
            }
        }
        if ready[1]
            && let Ok((client, _)) = listener.accept()
        {
            silent.push(client);
        }
    }
}

/// A request is eight bytes that a client sends at once: the delay of the answer, ns.
fn request(stream: &mut TcpStream) -> Option<Duration> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes).ok()?;
    Some(Duration::from_nanos(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_answered_when_it_asked_to_be() {
        let server = Server::start().unwrap();
        let begun = Instant::now();
        let longest = Duration::from_millis(60);
        thread::scope(|scope| {
            for i in 1..=6 {
                let (server, after) = (&server, longest / 6 * i);
                scope.spawn(move || {
                    server.ask(after).unwrap();
                    assert!(begun.elapsed() >= after);
                });
            }
        });
    }

    #[test]
    fn a_client_that_says_nothing_holds_nobody_up() {
        let server = Server::start().unwrap();
        let silent = TcpStream::connect(server.address).unwrap();
        server.ask(Duration::ZERO).unwrap();
        drop(silent);
        server.ask(Duration::from_millis(1)).unwrap();
    }

    #[test]
    fn it_ends_with_its_owner() {
        let server = Server::start().unwrap();
        // Not the port, which may be another's by then.
        let mut client = TcpStream::connect(server.address).unwrap();
        drop(server);
        assert!(!matches!(client.read(&mut [0]), Ok(1..)));
    }
}
