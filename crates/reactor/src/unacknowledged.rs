//! How much of what a socket was given to send is not with the client's kernel yet. An unsafe leaf.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};

use crate::counters::Counters;

/// In bytes: sent and not acknowledged, or not sent. `None` where the kernel does not say, as of what is no TCP socket
/// any more.
pub(crate) fn unacknowledged(socket: impl AsFd, counters: &Counters) -> Option<usize> {
    counters.other_calls.add(1);
    let mut bytes: libc::c_int = 0;
    // `SIOCOUTQ`, under the name and with the number that it has for terminals.
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel writes one `int` to where the
    // pointer points, which is one.
    let outcome = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    (outcome == 0).then(|| usize::try_from(bytes).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_is_read_is_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut server, _) = listener.accept().expect("accepts");
        server.set_nonblocking(true).expect("a socket");
        let mut sent = 0;
        while let Ok(count) = server.write(&[7; 65_536]) {
            sent += count;
        }
        let counters = Counters::default();
        let left = || unacknowledged(&server, &counters).expect("a socket");
        let full = left();
        assert!((1..=sent).contains(&full), "{full} of {sent}");
        let (mut read, mut room) = (0, vec![0; 65_536]);
        while left() > 0 {
            read += client.read(&mut room).expect("more");
        }
        assert!((sent - full..=sent).contains(&read), "{read} of {sent}");
        let no_socket = std::io::pipe().expect("a pipe").0;
        assert_eq!(unacknowledged(no_socket, &counters), None);
    }
}
