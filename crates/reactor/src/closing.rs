//! When and how the socket of a connection is closed: so that the client gets to read what it was sent, and the kernel
//! keeps nothing for one who reads no more.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};

use crate::counters::{CloseReason, Counters};

/// How long a client may go on sending to a connection that has ended: closing a socket with unread input resets the
/// connection, and the client might lose what it was sent. While the server stops it is not waited for: what has come
/// until then is [thrown away](discard), and the socket closed.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// The most that is thrown away of a client that sends faster than that, in receives of so many bytes.
const MOST_RECEIVES: usize = 64;
const RECEIVE_BYTES: usize = 16 * 1024;

/// Whether nothing has come that was not received: asked before a client is called idle, since a busy server may have
/// had no time to look.
pub(crate) fn is_silent(socket: impl AsFd, counters: &Counters) -> bool {
    counters.receives.add(1);
    let peeked = recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(peeked, Err(Errno::AGAIN))
}

/// Throws away what has come. Does not wait for more.
// Not inlined: its buffer would be in the frame of every conversation, and a forked child pays a fault for each page of
// that.
#[inline(never)]
pub(crate) fn discard(socket: impl AsFd, counters: &Counters) {
    let mut room = [0; RECEIVE_BYTES];
    for _ in 0..MOST_RECEIVES {
        counters.receives.add(1);
        match recv(&socket, &mut room, RecvFlags::DONTWAIT) {
            Ok((count @ 1.., _)) => counters.bytes_in.add(count as u64),
            _ => return,
        }
    }
}

/// The socket is about to be closed for this reason. Of a client that takes nothing the kernel would keep what it has
/// taken to send, for minutes; so that is dropped too, with a reset.
pub(crate) fn prepare(socket: impl AsFd, reason: CloseReason, counters: &Counters) {
    if matches!(reason, CloseReason::WriteTimeout | CloseReason::MadeRoom) {
        counters.other_calls.add(1);
        // It can only fail for what is no socket.
        let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
    }
}
