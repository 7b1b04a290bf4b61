//! What a loop does about clients that take too little, and about those of whom it has heard nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use super::by_hand::{Loops, drive};
use super::loops::Kernel;
use super::manager::ReactorManager;
use super::peer::{ReadHalf, WriteHalf};
use crate::options::Placement;
use crate::outbox::Spares;
use crate::protocol::chat::Chat;
use crate::protocol::echo::Echo;
use crate::{CloseReason, ConnectionId, Overflow, Protocol, Server};

fn one_loop() -> ReactorManager {
    ReactorManager::joined(NonZeroUsize::MIN, Placement::ByHandle)
}

/// A client of the only loop, which does not wait for it.
fn connect<P: Protocol>(loops: &mut Loops<'_, P>) -> (ConnectionId, TcpStream) {
    let (id, client) = loops.connect(0, 0);
    client.set_nonblocking(true).expect("a socket");
    (id, client)
}

fn read_half<'a, P: Protocol>(loops: &'a mut Loops<'_, P>, id: ConnectionId) -> &'a mut ReadHalf<P::Session> {
    let peer = loops.all[0].0.peers.get(id).expect("it is here");
    peer.read.as_mut().expect("all of it")
}

fn write_half<'a, P: Protocol>(loops: &'a mut Loops<'_, P>, id: ConnectionId) -> &'a mut WriteHalf {
    let peer = loops.all[0].0.peers.get(id).expect("it is here");
    peer.write.as_mut().expect("all of it")
}

#[test]
fn who_sends_to_one_who_takes_too_little_is_held_up_until_half_is_left() {
    // Several times what a socket takes at once.
    const LIMIT: usize = 16 << 20;
    let limit = NonZeroUsize::new(LIMIT).expect("not zero");
    let server = Server::new(Chat::default()).output_limit(limit, Overflow::Wait);
    drive(server, one_loop(), Kernel::Epoll, |loops| {
        let [mut sender, mut receiver] = [connect(loops), connect(loops)];
        for (id, client) in [&mut sender, &mut receiver] {
            client.write_all(b"join room\n").expect("sent");
            while read_half(loops, *id).connection.messages() == 0 {
                loops.turn(0);
            }
        }
        let line = [&[b'x'; 7_999][..], b"\n"].concat();
        while !read_half(loops, sender.0).is_held_up() {
            let left = write_half(loops, receiver.0).outbox.len();
            assert!(left <= 2 * LIMIT, "nobody is held up");
            // As much as the socket takes of it: a line may become longer, but not too long.
            let _ = sender.1.write(&line);
            loops.turn(0);
        }
        let mut room = vec![0; 64 * 1024];
        while read_half(loops, sender.0).is_held_up() {
            let left = write_half(loops, receiver.0).outbox.len();
            assert!(left > LIMIT / 2, "{left} bytes are left");
            // Nothing, if it was quicker than the kernel.
            let _ = receiver.1.read(&mut room);
            loops.turn(0);
        }
        // What the sender had sent meanwhile has come to it.
        let left = write_half(loops, receiver.0).outbox.len();
        assert!(left <= LIMIT / 2 + 4 * line.len(), "{left} bytes are left");
    });
}

#[test]
fn who_has_said_what_nobody_has_looked_at_is_not_idle() {
    const LIMIT: Duration = Duration::from_secs(1);
    let server = Server::new(Echo).idle(LIMIT);
    drive(server, one_loop(), Kernel::Epoll, |loops| {
        let [(speaker, mut client), (silent, _silent), (kept, mut heard)] =
            [connect(loops), connect(loops), connect(loops)];
        client.write_all(b"x").expect("sent");
        let deadline = Instant::now() + Duration::from_secs(60);
        let unread = |loops: &mut Loops<'_, Echo>| {
            let peer = loops.all[0].0.peers.get(speaker).expect("it is here");
            rustix::io::ioctl_fionread(&peer.link.socket).expect("a socket")
        };
        while unread(loops) == 0 {
            assert!(Instant::now() < deadline, "it did not come");
        }
        let before = loops.all[0].1.now().checked_sub(LIMIT);
        // As where others have said something first.
        read_half(loops, kept).keep(b"y", &mut Spares::default());
        for id in [speaker, silent, kept] {
            read_half(loops, id).looked_at(before.expect("the clock began before"));
            let (serving, reactor) = &mut loops.all[0];
            serving.timer(id.slot(), reactor);
        }
        assert_eq!(read_half(loops, speaker).connection.ending(), None);
        let silent = loops.all[0].0.peers.get(silent);
        let has_ended = silent.and_then(|peer| peer.read.as_ref()).is_none_or(|read| {
            let reason = read.connection.ending();
            reason == Some(CloseReason::Idle)
        });
        assert!(has_ended);
        loops.all[0].0.read_on(kept.slot());
        for (client, said) in [(&mut client, b'x'), (&mut heard, b'y')] {
            let mut answer = [0];
            while client.read(&mut answer).is_err() {
                assert!(Instant::now() < deadline, "no answer");
                loops.turn(0);
            }
            assert_eq!(answer, [said]);
        }
    });
}
