//! What waits for a client that does not read is told while it waits, on every design whose connections send to each other.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use threadgauge_reactor::protocol::chat::Chat;
use threadgauge_reactor::{BuiltIn, Design, Overflow, Server, Setting, Stop};

const DEADLINE: Duration = Duration::from_secs(120);
/// More than the sockets of one connection hold.
const SAID_BYTES: usize = 24 << 20;

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

fn joined(server: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(server).expect("it listens");
    client.set_write_timeout(Some(DEADLINE)).expect("a time");
    client.write_all(b"join room\n").expect("sent");
    let mut answer = String::new();
    BufReader::with_capacity(1, &client)
        .read_line(&mut answer)
        .expect("answered");
    assert_eq!(answer, "joined room\n");
    client
}

#[test]
fn what_waits_is_told_while_it_waits() {
    let designs = Design::ALL
        .iter()
        .filter(|&&design| BuiltIn::Chat.fits(design).is_ok());
    for &design in designs {
        let mut server = Server::new(Chat::default()).design(design).output_limit(
            NonZeroUsize::new(2 * SAID_BYTES).expect("not zero"),
            Overflow::Wait,
        );
        if design.uses(Setting::Workers) {
            server = server.workers(3..=3);
        }
        let bound = server.bind("127.0.0.1:0").expect("a free port");
        let (waiting, address) = (bound.waiting(), bound.local_addr());
        assert_eq!(waiting.bytes(), []);
        let stop = Stop::new().expect("a pipe");
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| bound.run(&stop));
            let (silent, mut speaker) = (joined(address), joined(address));
            let line = [&[b'x'; 10_000][..], b"\n"].concat();
            for _ in 0..SAID_BYTES / line.len() {
                speaker.write_all(&line).expect("taken");
            }
            until("much waits", || {
                // Nobody, where a loop is slow to say.
                let all = waiting.bytes();
                assert!(all.len() <= 1, "{design:?}: {all:?} wait");
                all.iter().any(|&(_, bytes)| bytes > SAID_BYTES / 4)
            });
            drop(silent);
            until("nothing waits", || waiting.bytes().is_empty());
            drop(speaker);
            stop.stop();
            serving.join().expect("no panic").expect("it serves");
        });
        assert_eq!(waiting.bytes(), [], "{design:?}: it runs no more");
    }
}
