//! The event-driven designs over real sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use threadgauge_reactor::protocol::bytes::Bytes;
use threadgauge_reactor::protocol::echo::Echo;
use threadgauge_reactor::{
    CloseReason, ConnectionId, Design, Io, Meter, Overflow, Placement, Protocol, Sends, Server, Session,
    Stop, Totals, WhenFull,
};

/// A design, and how it sends.
#[derive(Clone, Copy, Debug)]
struct Way(Design, Sends);

impl Way {
    /// A server of this way.
    fn server<P: Protocol>(self, protocol: P) -> Server<P> {
        let server = Server::new(protocol).design(self.0);
        match self.1 {
            Sends::Call => server,
            sends => server.sends(sends),
        }
    }
}

/// The ways of this file.
const WAYS: &[Way] = &[
    Way(Design::Reactor, Sends::Call),
    Way(Design::OneHandlerReactor, Sends::Call),
    Way(Design::SplitReactor, Sends::Call),
    Way(Design::ReactorPool, Sends::Call),
    Way(Design::ReactorPerCore, Sends::Call),
    Way(Design::Proactor, Sends::Call),
    Way(Design::LeaderFollowers, Sends::Call),
    Way(Design::HalfSyncHalfAsync, Sends::Call),
    Way(Design::Reactor, Sends::IoUring),
    Way(Design::SplitReactor, Sends::IoUring),
    Way(Design::ReactorPerCore, Sends::IoUring),
];

/// Serves while `test` runs, then stops and returns what was counted.
fn serve<P: Protocol>(server: Server<P>, test: impl FnOnce(SocketAddr, &Meter, &Stop)) -> Totals {
    let stop = Stop::new().expect("a pipe");
    let bound = server.bind("127.0.0.1:0").expect("a port");
    let (address, meter) = (bound.local_addr(), bound.meter());
    let stopped = stop.clone();
    let running = thread::spawn(move || bound.run(&stopped).expect("served"));
    let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        test(address, &meter, &stop);
    }));
    stop.stop();
    let totals = running.join().expect("the server does not panic");
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
    totals
}

/// How long anything may take before a test gives up.
const DEADLINE: Duration = Duration::from_secs(120);

/// Waits until `condition` holds.
fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn read_back(client: &mut TcpStream, bytes: &[u8]) {
    let mut back = vec![0; bytes.len()];
    client.read_exact(&mut back).expect("an answer");
    assert_eq!(back, bytes);
}

#[test]
fn echo_comes_back_in_pieces_of_any_size() {
    for &way in WAYS {
        let totals = serve(way.server(Echo), |address, _, _| {
            let mut client = TcpStream::connect(address).expect("connects");
            let message: Vec<u8> = (0..=255).collect();
            for split in 0..message.len() {
                client.write_all(&message[..split]).expect("sent");
                client.write_all(&message[split..]).expect("sent");
                read_back(&mut client, &message);
            }
            let large: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
            let mut writer = client.try_clone().expect("a descriptor");
            thread::scope(|scope| {
                scope.spawn(|| {
                    writer.write_all(&large).expect("sent");
                    writer.shutdown(Shutdown::Write).expect("half closed");
                });
                let mut back = Vec::new();
                client.read_to_end(&mut back).expect("all of it");
                assert!(back == large, "{way:?}: {} bytes", back.len());
            });
        });
        assert_eq!((totals.accepted, totals.closed(CloseReason::PeerEnded)), (1, 1));
        assert_eq!(totals.bytes_in, totals.bytes_out);
    }
}

#[test]
fn where_the_oldest_goes_neither_the_silent_nor_those_who_read_nothing_keep_others_out() {
    const MOST: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");
    for sends in Sends::ALL {
        let server = Server::new(Echo).sends(sends).max_connections(MOST);
        let totals = serve(server.when_full(WhenFull::OldestGoes), |address, meter, _| {
            let connect = || {
                let client = TcpStream::connect(address).expect("connects");
                client.set_read_timeout(Some(DEADLINE)).expect("a time");
                client
            };
            let mut silent: Vec<_> = (1..=MOST.get() as u64)
                .map(|count| {
                    let client = connect();
                    wait_for("it to be accepted", || meter.totals().accepted == count);
                    client
                })
                .collect();
            let speaks = |client: &mut TcpStream| {
                client.write_all(b"hello").expect("sent");
                read_back(client, b"hello");
            };
            speaks(&mut silent[0]);
            let mut next = connect();
            speaks(&mut next);
            // The one that spoke is not the oldest any more.
            assert!(!matches!(silent[1].read(&mut [0]), Ok(1..)), "{sends:?}");
            speaks(&mut silent[0]);
            // One who reads nothing is soon read from no more, and then the oldest.
            next.set_nonblocking(true).expect("set");
            let mut sent = 0;
            while let Ok(count) = next.write(&[7; 65_536]) {
                sent += count;
                assert!(sent < 1 << 30, "it is read from for ever");
            }
            let others: Vec<_> = (0..20)
                .map(|_| {
                    let mut client = connect();
                    speaks(&mut client);
                    client
                })
                .collect();
            wait_for(
                "one who reads nothing to be closed",
                || !matches!(next.write(&[7]), Err(error) if error.kind() == ErrorKind::WouldBlock),
            );
            drop(others);
        });
        assert_eq!(totals.closed(CloseReason::MadeRoom), 21, "{sends:?}: {totals:?}");
    }
}

/// What comes from one goes to all others.
#[derive(Clone, Default)]
struct Room(Arc<Mutex<Vec<ConnectionId>>>);

struct RoomSession(Room);

impl Protocol for Room {
    type Session = RoomSession;
    const SHARED: bool = true;
    fn open(&self, id: ConnectionId) -> RoomSession {
        self.0.lock().expect("no panics").push(id);
        RoomSession(self.clone())
    }
}

impl Session for RoomSession {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        let others = self.0.0.lock().expect("no panics").clone();
        let sender = io.id();
        io.send_to_all(others.into_iter().filter(|&other| other != sender), input);
        input.len()
    }

    fn closed(&mut self, _: CloseReason, io: &mut Io<'_>) {
        self.0.0.lock().expect("no panics").retain(|&id| id != io.id());
    }
}

#[test]
fn what_one_says_all_hear_in_order() {
    for &way in WAYS {
        let room = Room::default();
        let members = || room.0.lock().expect("no panics").len();
        let totals = serve(way.server(room.clone()), |address, _, _| {
            let mut clients: Vec<_> = (0..10)
                .map(|_| TcpStream::connect(address).expect("connects"))
                .collect();
            wait_for("ten members", || members() == 10);
            // Each says its number, so that each hears nine times as much as it says.
            let said = 2_000;
            thread::scope(|scope| {
                for (number, client) in clients.iter_mut().enumerate() {
                    scope.spawn(move || {
                        let mut writer = client.try_clone().expect("a descriptor");
                        thread::scope(|scope| {
                            scope.spawn(move || {
                                for i in 0..said {
                                    writer.write_all(&[number as u8, (i % 251) as u8]).expect("sent");
                                }
                            });
                            let mut heard = vec![0; 2 * 9 * said];
                            client.read_exact(&mut heard).expect("all of it");
                            let mut next = [0usize; 10];
                            for pair in heard.chunks(2) {
                                let next = &mut next[usize::from(pair[0])];
                                assert_eq!(usize::from(pair[1]), *next % 251);
                                *next += 1;
                            }
                            let mut expected = [said; 10];
                            expected[number] = 0;
                            assert_eq!(next, expected);
                        });
                    });
                }
            });
        });
        assert_eq!(totals.bytes_out, 9 * totals.bytes_in, "{way:?}");
        assert_eq!(totals.all_closed(), 10);
    }
}

#[test]
fn no_more_are_accepted_than_there_may_be() {
    for &way in WAYS {
        let most = NonZeroUsize::new(3).expect("not zero");
        let server = way.server(Echo).max_connections(most);
        let totals = serve(server, |address, meter, _| {
            let mut clients: Vec<_> = (0..9)
                .map(|_| TcpStream::connect(address).expect("connects"))
                .collect();
            for client in &mut clients {
                client.write_all(b"me?").expect("sent");
            }
            while !clients.is_empty() {
                // Whoever is served is among those that are left; which, only the kernel knows.
                let served = clients.iter().position(|client| {
                    client.set_nonblocking(true).expect("set");
                    let served = matches!((&*client).read(&mut [0; 3]), Ok(3));
                    client.set_nonblocking(false).expect("set");
                    served
                });
                let open = meter.totals().accepted - meter.totals().all_closed();
                assert!(open <= 3, "{open} at once");
                match served {
                    Some(served) => drop(clients.swap_remove(served)),
                    None => thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        assert_eq!(totals.accepted, 9, "{way:?}");
    }
}

#[test]
fn who_takes_nothing_is_waited_for_or_dropped() {
    for &way in WAYS {
        for overflow in [Overflow::Wait, Overflow::Drop] {
            let limit = NonZeroUsize::new(100_000).expect("not zero");
            let room = Room::default();
            let members = || room.0.lock().expect("no panics").len();
            let server = way.server(room.clone()).output_limit(limit, overflow);
            let totals = serve(server, |address, meter, _| {
                let mut slow = TcpStream::connect(address).expect("connects");
                wait_for("the slow one", || members() == 1);
                let fast = TcpStream::connect(address).expect("connects");
                wait_for("both", || members() == 2);
                let said = 30_000_000;
                let mut writer = fast;
                thread::scope(|scope| {
                    scope.spawn(move || writer.write_all(&vec![7; said]).expect("sent"));
                    let slow = &mut slow;
                    scope.spawn(move || {
                        if overflow == Overflow::Drop {
                            wait_for("the end of the slow one", || {
                                meter.totals().closed(CloseReason::Slow) == 1
                            });
                        } else {
                            let mut heard = vec![0; said];
                            slow.read_exact(&mut heard).expect("all of it");
                        }
                    });
                });
            });
            let slow = totals.closed(CloseReason::Slow);
            assert_eq!(slow, u64::from(overflow == Overflow::Drop), "{way:?}");
        }
    }
}

#[test]
fn who_is_refused_and_stays_is_gone_in_the_end() {
    for &way in WAYS {
        // A time that comes while it may still hear why, and that was set before.
        let server = way.server(Bytes).idle(Duration::from_millis(500));
        let totals = serve(server, |address, meter, _| {
            let mut client = TcpStream::connect(address).expect("connects");
            client.write_all(b"what?\n").expect("sent");
            let mut said = String::new();
            client.read_to_string(&mut said).expect("why, and the end");
            wait_for("the end of one who does not leave", || {
                meter.totals().all_closed() == 1
            });
        });
        assert_eq!(totals.all_closed(), 1, "{way:?}");
    }
}

#[test]
fn a_stop_under_load_loses_no_connection() {
    for &way in WAYS {
        // Nobody is cut off, however long it takes to finish what has begun.
        let server = way.server(Echo).drain(DEADLINE);
        let totals = serve(server, |address, meter, stop| {
            // Served before the load begins: who comes after the stop is refused.
            let clients = [(); 20].map(|()| {
                let mut client = TcpStream::connect(address).expect("connects");
                client.write_all(b"first").expect("sent");
                read_back(&mut client, b"first");
                client
            });
            thread::scope(|scope| {
                for mut client in clients {
                    scope.spawn(move || {
                        // Until the server ends it.
                        let mut back = [0; 64];
                        while client.write_all(&[1; 64]).is_ok() && client.read_exact(&mut back).is_ok() {}
                    });
                }
                wait_for("load", || meter.totals().messages > 2_000);
                stop.stop();
            });
        });
        assert_eq!(totals.accepted, 20);
        assert_eq!(totals.all_closed(), 20, "{way:?}");
        assert_eq!(totals.closed(CloseReason::DrainTime), 0);
    }
}

/// Every byte goes back to its sender, and to the next client too; and with every message the client joins another
/// group, so that both its halves move from loop to loop all the time.
#[derive(Clone, Default)]
struct Hop(Arc<Mutex<Vec<ConnectionId>>>);

struct Hopper {
    all: Hop,
    groups: u64,
}

const GROUPS: u64 = 7;

impl Protocol for Hop {
    type Session = Hopper;
    const SHARED: bool = true;
    fn open(&self, id: ConnectionId) -> Hopper {
        self.0.lock().expect("no panics").push(id);
        Hopper {
            all: self.clone(),
            groups: id_number(id),
        }
    }
}

fn id_number(id: ConnectionId) -> u64 {
    id.to_string().bytes().map(u64::from).sum()
}

impl Session for Hopper {
    /// Messages have four bytes: who, 0 (1 where it is not the sender's own), and a number.
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        let Some(message) = input.first_chunk::<4>() else {
            return 0;
        };
        io.send(message);
        let all = self.all.0.lock().expect("no panics").clone();
        let own = all.iter().position(|&id| id == io.id()).expect("it is there");
        let [who, _, high, low] = *message;
        io.send_to(all[(own + 1) % all.len()], &[who, 1, high, low]);
        self.groups += 1;
        io.join(self.groups % GROUPS);
        4
    }
}

/// The move protocol under load: everything once, in order, on whichever loops the halves are and wherever they go.
#[test]
fn connections_that_move_all_the_time_lose_nothing_and_turn_nothing_around() {
    let count = |count| NonZeroUsize::new(count).expect("not zero").get();
    let hop = Hop::default();
    for server in [
        Server::new(hop.clone())
            .design(Design::ReactorPool)
            .readers(count(2))
            .writers(count(3))
            .placement(Placement::ByGroup),
        Server::new(hop.clone())
            .design(Design::ReactorPerCore)
            .workers(4..=4)
            .placement(Placement::ByGroup),
    ] {
        let (clients, said) = (12, 3_000u16);
        let totals = serve(server, |address, _, _| {
            let clients: Vec<_> = (0..clients)
                .map(|_| TcpStream::connect(address).expect("connects"))
                .collect();
            wait_for("all sessions", || {
                hop.0.lock().expect("no panics").len() == clients.len()
            });
            thread::scope(|scope| {
                for (who, mut client) in clients.iter().enumerate() {
                    scope.spawn(move || {
                        for number in 0..said {
                            let [high, low] = number.to_be_bytes();
                            client.write_all(&[who as u8, 0, high, low]).expect("sent");
                        }
                    });
                    scope.spawn(move || {
                        client.set_read_timeout(Some(DEADLINE)).expect("set");
                        let (mut own, mut next, mut sender) = (0, 0, None);
                        while own < said || next < said {
                            let mut message = [0; 4];
                            client.read_exact(&mut message).expect("all of it");
                            let number = u16::from_be_bytes([message[2], message[3]]);
                            let place = match message[1] {
                                0 => &mut own,
                                _ => &mut next,
                            };
                            assert_eq!(number, *place, "of {message:?}");
                            *place += 1;
                            if message[1] == 0 {
                                assert_eq!(usize::from(message[0]), who);
                            } else {
                                assert_eq!(*sender.get_or_insert(message[0]), message[0]);
                            }
                        }
                    });
                }
            });
        });
        assert_eq!(totals.bytes_out, 2 * totals.bytes_in);
        assert_eq!(totals.undeliverable, 0);
        assert_eq!(totals.all_closed(), clients);
        hop.0.lock().expect("no panics").clear();
    }
}
