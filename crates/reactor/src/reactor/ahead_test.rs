//! A loop that is slow to write holds up those who send through it, before what waits for it takes much memory.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::loops::{Kernel, serve};
use super::manager::ReactorManager;
use super::moving_test::StopAtEnd;
use super::serving_loop::Acceptors;
use crate::options::Placement;
use crate::{ConnectionId, Design, Io, Protocol, Server, Session, Stop};

/// All that is sent: more than sockets and two loops hold together.
const ALL_BYTES: usize = 48 << 20;
/// What the loops may have taken of it while one of them is stuck.
const MOST_TAKEN: u64 = 8 << 20;
const FRAME_BYTES: usize = 1_000;
/// How often a loop must have had its turn without taking anything, to be holding the sender up.
const TURNS: usize = 50;

/// `h`: hears; `s`, then frames of a fixed length: sends to who hears; `w`: answered; `b`: blocks its loop.
struct Stuck {
    hearer: Arc<Mutex<Option<ConnectionId>>>,
    /// To say that a loop is blocked.
    blocks: Sender<()>,
    /// Until this is closed.
    gate: Arc<Mutex<Receiver<()>>>,
}

struct StuckSession {
    of: Arc<Mutex<Option<ConnectionId>>>,
    blocks: Sender<()>,
    gate: Arc<Mutex<Receiver<()>>>,
    sends: bool,
}

impl Protocol for Stuck {
    type Session = StuckSession;
    const SHARED: bool = true;

    fn open(&self, _: ConnectionId) -> StuckSession {
        StuckSession {
            of: Arc::clone(&self.hearer),
            blocks: self.blocks.clone(),
            gate: Arc::clone(&self.gate),
            sends: false,
        }
    }
}

impl Session for StuckSession {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        if self.sends {
            if input.len() < FRAME_BYTES {
                return 0;
            }
            let hearer = *self.of.lock().expect("nobody panics here");
            io.send_to(hearer.expect("came before"), &input[..FRAME_BYTES]);
            return FRAME_BYTES;
        }
        match input[0] {
            b'h' => *self.of.lock().expect("nobody panics here") = Some(io.id()),
            b's' => self.sends = true,
            b'b' => {
                self.blocks.send(()).expect("the test hears it");
                // Blocks until the other end is dropped.
                let _ = self.gate.lock().expect("nobody panics here").recv();
            }
            _ => {}
        }
        io.send(&input[..1]);
        1
    }
}

/// A client that has had its first byte answered.
fn client(address: SocketAddr, first: u8) -> TcpStream {
    let mut client = TcpStream::connect(address).expect("connects");
    ask(&mut client, first);
    client
}

fn ask(client: &mut TcpStream, byte: u8) {
    client.write_all(&[byte]).expect("sent");
    let mut answer = [0];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, [byte]);
}

fn frames() -> Vec<u8> {
    (0..ALL_BYTES / FRAME_BYTES)
        .flat_map(|number| format!("{number:0FRAME_BYTES$}").into_bytes())
        .collect()
}

#[test]
fn who_sends_through_a_loop_that_is_stuck_is_held_up_and_all_arrives_in_the_end() {
    let stop = Stop::new().expect("a pipe");
    let (blocks, blocked) = channel();
    let (open, gate) = channel::<()>();
    let protocol = Stuck {
        hearer: Arc::default(),
        blocks,
        gate: Arc::new(Mutex::new(gate)),
    };
    let server = Server::new(protocol).design(Design::ReactorPerCore);
    let bound = server.bind("127.0.0.1:0").expect("a port");
    let (address, meter) = (bound.local_addr(), bound.meter());
    let all = frames();
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            bound.run_by(&stop, |serving| {
                let two = NonZeroUsize::new(2).expect("not zero");
                // One after the other: who comes first is on the first loop, who comes second on the second.
                let manager = ReactorManager::joined(two, Placement::LeastLoaded);
                serve(serving, manager, Acceptors::First, Kernel::Epoll)
            })
        });
        {
            // Also when it fails: the server would be waited for, for ever.
            let _stopped = StopAtEnd(&stop);
            let open = open;
            let mut witness = client(address, b'w');
            let mut hearer = client(address, b'h');
            let mut speaker = client(address, b's');
            let mut blocker = TcpStream::connect(address).expect("connects");
            blocker.write_all(b"b").expect("sent");
            blocked.recv().expect("the loop is blocked");

            let (mut sent, mut turns) = (0, 0);
            speaker.set_nonblocking(true).expect("a socket");
            while turns < TURNS {
                match speaker.write(&all[sent..]) {
                    Ok(count) => (sent, turns) = (sent + count, 0),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                // The first loop has its turn.
                ask(&mut witness, b'w');
                turns += 1;
                assert!(sent < all.len(), "all of it was taken");
            }
            let taken = meter.totals().bytes_in;
            assert!(taken < MOST_TAKEN, "{taken} bytes wait for a loop");

            drop(open);
            speaker.set_nonblocking(false).expect("a socket");
            let rest = &all[sent..];
            scope.spawn(move || speaker.write_all(rest).map(|()| speaker));
            let mut came = vec![0; all.len()];
            hearer.read_exact(&mut came).expect("all of it");
            assert!(came == all, "other bytes came, or in another order");
        }
        running.join().expect("it does not panic").expect("served");
    });
}
