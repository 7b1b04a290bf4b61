//! Connections move and loops change their kind while they serve, by readings that a test makes up: nothing is lost
//! and nothing turned around.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicI32;
use std::thread;
use std::time::Duration;

use super::balance::{Gauge, Watch};
use super::loops::{Kernel, serve_watched};
use super::manager::ReactorManager;
use super::serving_loop::Acceptors;
use crate::counters::{CloseReason, Totals};
use crate::options::{Overflow, Placement};
use crate::protocol::chat::Chat;
use crate::protocol::echo::Echo;
use crate::{Design, Meter, Protocol, Server, Stop};

#[path = "../../tests/common/flood.rs"]
mod flood;

use self::flood::{Next, Rounds, flood};

const LOOPS: usize = 4;
/// Readings under which each loop, at first two that read and two that write, comes to do the other and goes back, and
/// one under which loops of a kind even out.
const READINGS: [[f64; LOOPS]; 9] = [
    [0.9, 0.9, 0.05, 0.1], // reads reads writes writes: loop 2 shall read
    [0.05, 0.1, 0.1, 0.9], // reads reads reads writes: loop 0 shall write
    [0.1, 0.9, 0.9, 0.05], // writes reads reads writes: loop 3 shall read
    [0.9, 0.05, 0.1, 0.1], // writes reads reads reads: loop 1 shall write
    [0.5, 0.1, 0.5, 0.1],  // writes writes reads reads: some connections of 0 go to 1, and of 2 to 3
    [0.05, 0.1, 0.9, 0.9], // loop 0 shall read
    [0.1, 0.9, 0.05, 0.1], // reads writes reads reads: loop 2 shall write
    [0.9, 0.05, 0.1, 0.9], // reads writes writes reads: loop 1 shall read
    [0.1, 0.1, 0.9, 0.05], // reads reads writes reads: loop 3 shall write
];
/// A reading is made up at every so many looks, so that some connections arrive before they go on.
const LOOKS: usize = 5;
const CLIENTS: usize = 6;
/// More rounds than it takes by far for all loops to have done both.
const MOST_ROUNDS: usize = 20_000;

struct MadeUp {
    looks: usize,
}

impl Gauge for MadeUp {
    fn busy(&mut self, _: &[AtomicI32], _: Duration) -> Option<Vec<f64>> {
        self.looks += 1;
        let reading = READINGS[self.looks / LOOKS % READINGS.len()];
        self.looks.is_multiple_of(LOOKS).then(|| reading.to_vec())
    }
}

/// Stops a server when it is dropped.
pub(super) struct StopAtEnd<'a>(pub &'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Whether some loop has not read or not written, or there were few rounds.
fn goes_on(meter: &Meter, round: usize) -> bool {
    let parts = meter.parts();
    let all = parts.len() == LOOPS && parts.iter().all(|part| part.receives > 0 && part.sends > 0);
    assert!(all || round < MOST_ROUNDS, "they do not move: {parts:?}");
    !all || round < 100
}

/// Serves while `drive` is at work.
fn serve<P: Protocol>(server: Server<P>, drive: impl FnOnce(SocketAddr, &Meter)) -> Totals {
    let two = NonZeroUsize::new(LOOPS / 2).expect("not zero");
    let stop = Stop::new().expect("a pipe");
    let server = server.design(Design::ReactorPool);
    let bound = server.bind("127.0.0.1:0").expect("a port");
    let (address, meter) = (bound.local_addr(), bound.meter());
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            bound.run_by(&stop, |serving| {
                let manager = ReactorManager::split(two, two, Placement::Adaptive);
                let gauge = Box::new(MadeUp { looks: 0 });
                let watch = Watch::by(gauge, Duration::ZERO, LOOPS);
                serve_watched(serving, manager, Acceptors::First, Kernel::Epoll, Some(watch))
            })
        });
        {
            // Also when it fails: the server would be waited for, for ever.
            let _stopped = StopAtEnd(&stop);
            drive(address, &meter);
        }
        running.join().expect("it does not panic").expect("served")
    })
}

#[test]
fn every_line_reaches_everyone_else_in_order_while_all_move() {
    const LINES: usize = 8;
    let mut rounds = 0;
    let totals = serve(Server::new(Chat::default()), |address, meter| {
        let mut members: Vec<_> = (0..CLIENTS).map(|_| join(address)).collect();
        while goes_on(meter, rounds) {
            for (name, (_, stream)) in members.iter_mut().enumerate() {
                let lines: String = (0..LINES)
                    .map(|number| format!("{name} {}\n", rounds * LINES + number))
                    .collect();
                stream.write_all(lines.as_bytes()).expect("sent");
            }
            for (name, (reader, _)) in members.iter_mut().enumerate() {
                let mut next = [rounds * LINES; CLIENTS];
                for _ in 0..LINES * (CLIENTS - 1) {
                    let line = line(reader);
                    let (sender, number) = line.trim_end().split_once(' ').expect("whole");
                    let sender: usize = sender.parse().expect("a name");
                    assert_ne!(sender, name, "its own line");
                    assert_eq!(number, next[sender].to_string(), "{line:?} out of order");
                    next[sender] += 1;
                }
            }
            rounds += 1;
        }
    });
    assert_eq!(totals.undeliverable, 0);
    assert_eq!(
        totals.deliveries,
        (rounds * LINES * CLIENTS * (CLIENTS - 1)) as u64
    );
}

#[test]
fn every_byte_comes_back_to_clients_that_come_and_go() {
    let mut bytes = 0;
    let totals = serve(Server::new(Echo), |address, meter| {
        let mut rounds = 0;
        while goes_on(meter, rounds) {
            thread::scope(|scope| {
                for client in 0..CLIENTS {
                    scope.spawn(move || there_and_back(address, rounds * CLIENTS + client));
                }
            });
            rounds += 1;
        }
        bytes = rounds * CLIENTS * PIECES * PIECE_BYTES;
    });
    assert_eq!((totals.bytes_in, totals.bytes_out), (bytes as u64, bytes as u64));
    assert_eq!(totals.all_closed(), totals.accepted);
}

/// A quarter of it has room for what is on its way from each loop to another when senders are held up.
const LIMIT: usize = 48 << 20;

#[test]
fn who_is_held_up_goes_on_and_nobody_is_dropped_while_all_move() {
    const LEAST_ROUNDS: usize = 2;
    let limit = NonZeroUsize::new(LIMIT).expect("not zero");
    let server = Server::new(Chat::default()).output_limit(limit, Overflow::Drop);
    let totals = serve(server, |address, meter| {
        let [(_, hearer), (_, speaker)] = [(); 2].map(|()| join(address));
        let moved = || {
            let parts = meter.parts();
            let loops = |did: fn(&Totals) -> u64| parts.iter().filter(|part| did(part) > 0).count();
            // They began on two that read and two that write.
            loops(|part| part.receives) > 2 && loops(|part| part.sends) > 2
        };
        let mut rounds = Rounds::default();
        flood(&speaker, &[&hearer], |_| {
            match rounds.count >= LEAST_ROUNDS && moved() {
                true => Next::End,
                false => rounds.next(meter.totals().held_up, LIMIT),
            }
        });
    });
    assert_eq!((totals.closed(CloseReason::Slow), totals.undeliverable), (0, 0));
}

const PIECES: usize = 5;
const PIECE_BYTES: usize = 10_000;

/// Sends piece after piece, each compared; reads the last one after it has ended its own side.
fn there_and_back(address: SocketAddr, name: usize) {
    let mut stream = TcpStream::connect(address).expect("connects");
    for piece in 1..=PIECES {
        let sent: Vec<u8> = (0..PIECE_BYTES).map(|i| (i * piece + name) as u8).collect();
        stream.write_all(&sent).expect("sent");
        let mut back = vec![0; PIECE_BYTES];
        if piece < PIECES {
            stream.read_exact(&mut back).expect("an answer");
        } else {
            stream.shutdown(Shutdown::Write).expect("half closed");
            back.clear();
            stream.read_to_end(&mut back).expect("an answer");
        }
        assert!(back == sent, "piece {piece} of client {name} came back changed");
    }
}

/// A new member of the room `x`.
fn join(address: SocketAddr) -> (BufReader<TcpStream>, TcpStream) {
    let stream = TcpStream::connect(address).expect("connects");
    let mut member = (BufReader::new(stream.try_clone().expect("a descriptor")), stream);
    member.1.write_all(b"join x\n").expect("sent");
    assert_eq!(line(&mut member.0), "joined x\n");
    member
}

fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    line
}
