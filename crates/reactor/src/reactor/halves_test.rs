//! What moves keeps what it was told: halves that come to a loop in the midst of something go on there.

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::by_hand::{Loops, drive};
use super::loops::Kernel;
use super::manager::ReactorManager;
use super::peer::{HeldUpBy, WriteHalf};
use super::tasks::{MovingReader, MovingWriter};
use crate::options::Placement;
use crate::protocol::chat::Chat;
use crate::protocol::echo::Echo;
use crate::protocol::http::Http;
use crate::{ConnectionId, Io, Overflow, Protocol, Server, Session};

/// A loop that reads and one that writes.
fn split() -> ReactorManager {
    ReactorManager::split(NonZeroUsize::MIN, NonZeroUsize::MIN, Placement::ByHandle)
}

#[test]
fn a_read_half_that_moves_while_it_is_queued_is_read_on() {
    drive(Server::new(Http::default()), split(), Kernel::Epoll, |loops| {
        let (id, mut client) = loops.connect(0, 1);
        // More than a receive, and all of it is there before the first: nothing comes later that would be an event.
        let refused = b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 205000\r\n\r\n";
        client
            .write_all(&[&refused[..], &[b'x'; 205_000]].concat())
            .expect("sent");
        let unread = |loops: &mut Loops<'_, Http>, index: usize| {
            let peer = loops.all[index].0.peers.get(id).expect("it is here");
            rustix::io::ioctl_fionread(&peer.link.socket).expect("a socket")
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while unread(loops, 0) <= 205_000 {
            assert!(Instant::now() < deadline, "not all of it came");
        }
        loops.turn(0);
        for _ in 0..100 {
            loops.turn(1);
        }
        assert_eq!(unread(loops, 1), 0);
    });
}

#[test]
fn without_a_bound_on_what_waits_several_of_one_turn_are_answered() {
    let server = Server::new(Echo).output_limit(NonZeroUsize::MAX, Overflow::Wait);
    drive(server, split(), Kernel::Epoll, |loops| {
        let mut clients = [loops.connect(0, 1), loops.connect(0, 1)];
        let deadline = Instant::now() + Duration::from_secs(60);
        for (id, client) in &mut clients {
            client.write_all(b"x").expect("sent");
            let unread = |loops: &mut Loops<'_, Echo>| {
                let peer = loops.all[0].0.peers.get(*id).expect("it is here");
                rustix::io::ioctl_fionread(&peer.link.socket).expect("a socket")
            };
            while unread(loops) == 0 {
                assert!(Instant::now() < deadline, "it did not come");
            }
        }
        loops.turn(0);
        loops.turn(1);
        for (id, client) in &mut clients {
            let peer = loops.all[0].0.peers.get(*id).expect("it is here");
            assert!(!peer.read.as_ref().expect("all of it").connection.is_held());
            client.read_exact(&mut [0]).expect("its answer");
        }
    });
}

#[test]
fn a_group_is_noted_where_connections_move_to_theirs() {
    for (placement, place) in [(Placement::ByHandle, None), (Placement::ByGroup, Some((0, 0)))] {
        let manager = ReactorManager::joined(NonZeroUsize::MIN, placement);
        drive(Server::new(Chat::default()), manager, Kernel::Epoll, |loops| {
            let (id, _client) = loops.connect(0, 0);
            loops.all[0].0.join(id.slot(), 7);
            assert_eq!(loops.shared.manager.group(7), place, "{placement:?}");
        });
    }
}

#[test]
fn who_waits_for_a_write_half_that_moves_once_it_is_empty_goes_on() {
    drive(Server::new(Chat::default()), split(), Kernel::Epoll, |loops| {
        let (sender, _speaker) = loops.connect(0, 1);
        let (receiver, _hearer) = loops.connect(0, 1);
        let held_up = |loops: &mut Loops<'_, Chat>| {
            let peer = loops.all[0].0.peers.get(sender).expect("it is here");
            peer.read.as_ref().expect("all of it").is_held_up()
        };
        loops.all[0].0.hold_up(sender, HeldUpBy::Receiver);
        assert!(held_up(loops));
        // As it is when all was sent before the turn's end, and it left in that turn.
        let (home, reactor) = &mut loops.all[1];
        let peer = home.peers.remove(receiver.slot()).expect("it is here");
        let mut emptied = WriteHalf::default();
        emptied.waiters.push((0, sender));
        home.writer_moved(MovingWriter::new(receiver, peer.link, 0, emptied), reactor);
        loops.turn(1);
        loops.turn(0);
        assert!(!held_up(loops));
    });
}

#[test]
fn an_answer_is_kept_for_a_write_half_that_is_on_its_way() {
    let joined = ReactorManager::joined(NonZeroUsize::MIN, Placement::ByHandle);
    drive(Server::new(Echo), joined, Kernel::Epoll, |loops| {
        let (id, mut client) = loops.connect(0, 0);
        let home = &mut loops.all[0].0;
        let peer = home.peers.get(id).expect("it is here");
        let (link, half) = (Arc::clone(&peer.link), peer.write.take().expect("all of it"));
        home.moves.coming.insert(id, Vec::new());
        client.write_all(b"x").expect("sent");
        let deadline = Instant::now() + Duration::from_secs(60);
        while loops.all[0].0.moves.coming[&id].is_empty() {
            assert!(Instant::now() < deadline, "it is not kept");
            loops.turn(0);
        }
        let (home, reactor) = &mut loops.all[0];
        home.writer_moved(MovingWriter::new(id, link, 0, half), reactor);
        loops.turn(0);
        let mut answer = [0];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"x");
    });
}

/// Sessions that have more to do for as long as `goes_on`, a call at a time.
#[derive(Clone, Default)]
struct Busy {
    goes_on: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl Protocol for Busy {
    type Session = Self;

    fn open(&self, _: ConnectionId) -> Self {
        self.clone()
    }
}

impl Session for Busy {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        self.resumed(io);
        input.len()
    }

    fn resumed(&mut self, io: &mut Io<'_>) {
        self.calls.fetch_add(1, Relaxed);
        match self.goes_on.load(Relaxed) {
            true => io.again(),
            false => io.send(b"done"),
        }
    }
}

#[test]
fn a_session_that_moves_while_it_has_more_to_do_goes_on_there() {
    let busy = Busy::default();
    let Busy { goes_on, calls } = busy.clone();
    goes_on.store(true, Relaxed);
    drive(Server::new(busy), split(), Kernel::Epoll, |loops| {
        let (id, mut client) = loops.connect(0, 1);
        client.write_all(b"x").expect("sent");
        while calls.load(Relaxed) == 0 {
            loops.turn(0);
        }
        let peer = loops.all[0].0.peers.remove(id.slot()).expect("it is here");
        let read = peer.read.expect("all of it");
        assert!(read.connection.is_interrupted());
        let (home, reactor) = &mut loops.all[1];
        home.reader_moved(MovingReader::new(id, peer.link, read), reactor);
        let before = calls.load(Relaxed);
        for _ in 0..3 {
            loops.turn(0);
        }
        assert_eq!(calls.load(Relaxed), before, "it is not there any more");
        goes_on.store(false, Relaxed);
        loops.turn(1);
        assert_eq!(calls.load(Relaxed), before + 1);
        let mut answer = [0; 4];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"done");
    });
}
