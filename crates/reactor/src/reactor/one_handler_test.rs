//! One handler on a handle: a read or a write is pending, and each has its place in turn.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::by_hand::{Loops, drive};
use super::loops::Kernel;
use super::manager::ReactorManager;
use crate::protocol::chat::Chat;
use crate::protocol::echo::Echo;
use crate::{ConnectionId, Protocol, Server};

/// Whether the loop waits to write to this connection, and not to read from it.
fn writes<P: Protocol>(loops: &mut Loops<'_, P>, id: ConnectionId) -> bool {
    let peer = loops.all[0].0.peers.get(id).expect("it is here");
    let read = peer.read.as_ref().expect("all of it");
    let write = peer.write.as_ref().expect("all of it");
    assert_eq!(read.is_replaced, write.watched);
    write.watched
}

/// How often the loop has received and sent.
fn calls<P: Protocol>(loops: &Loops<'_, P>) -> (u64, u64) {
    let totals = loops.all[0].1.totals();
    (totals.receives, totals.sends)
}

fn hears(client: &mut TcpStream, expected: &[u8]) {
    let mut heard = vec![0; expected.len()];
    client.read_exact(&mut heard).expect("something");
    assert_eq!(heard, expected);
}

#[test]
fn an_answer_takes_the_place_of_the_read_and_gives_it_back() {
    let manager = ReactorManager::of_one_handler();
    drive(Server::new(Echo), manager, Kernel::Epoll, |loops| {
        let (id, mut client) = loops.connect(0, 0);
        client.write_all(b"one").expect("sent");
        loops.turn(0);
        assert!(writes(loops, id));
        assert_eq!(calls(loops), (1, 0), "the answer waits for its place");
        // Nothing of it is read while the answer is the operation that is pending.
        client.write_all(b"two").expect("sent");
        loops.turn(0);
        assert!(!writes(loops, id));
        assert_eq!(calls(loops), (1, 1));
        hears(&mut client, b"one");
        loops.turn(0);
        assert_eq!(calls(loops), (2, 1), "what came meanwhile is read");
        loops.turn(0);
        hears(&mut client, b"two");
    });
}

#[test]
fn what_is_for_a_member_that_waits_to_be_read_takes_the_place_of_its_read() {
    let manager = ReactorManager::of_one_handler();
    drive(Server::new(Chat::default()), manager, Kernel::Epoll, |loops| {
        let (_, mut speaker) = loops.connect(0, 0);
        let (member, mut hearer) = loops.connect(0, 0);
        for client in [&mut speaker, &mut hearer] {
            client.write_all(b"join x\n").expect("sent");
            loops.turn(0);
            loops.turn(0);
            hears(client, b"joined x\n");
        }
        assert!(!writes(loops, member));
        speaker.write_all(b"hello\n").expect("sent");
        loops.turn(0);
        assert!(writes(loops, member), "it said nothing");
        loops.turn(0);
        assert!(!writes(loops, member));
        hears(&mut hearer, b"hello\n");
    });
}

#[test]
fn who_takes_nothing_is_not_read_from_until_it_has_taken_all() {
    let manager = ReactorManager::of_one_handler();
    drive(Server::new(Echo), manager, Kernel::Epoll, |loops| {
        let (id, mut client) = loops.connect(0, 0);
        client.set_nonblocking(true).expect("a socket");
        let mut sent = 0;
        // Until the socket of the server takes no more of the answers, and that of the client no more of what it says.
        for _ in 0..10_000 {
            sent += client.write(&[b'x'; 4096]).unwrap_or(0);
            loops.turn(0);
        }
        assert!(writes(loops, id));
        let (received, _) = calls(loops);
        loops.turn(0);
        assert_eq!(calls(loops).0, received, "nothing more is read");
        let mut heard = 0;
        while heard < sent {
            heard += client.read(&mut [0; 65_536]).unwrap_or(0);
            loops.turn(0);
        }
        assert_eq!(heard, sent);
        assert!(!writes(loops, id));
    });
}
