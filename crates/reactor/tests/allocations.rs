//! A message costs no allocation once a server has served a while, and a look at a client not more where there are
//! many: counted by an allocator that stands before the system's.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use threadgauge_reactor::protocol::{bytes::Bytes, chat::Chat, echo::Echo, groups::Groups};
use threadgauge_reactor::testing::Rehearsal;
use threadgauge_reactor::{Design, Protocol, Server, Stop};

/// Of all threads that are not the clients'.
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_CLIENT: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

impl Counting {
    fn count(bytes: usize) {
        // A thread that is at its end has no such value any more, and serves nobody.
        if IS_CLIENT.try_with(Cell::get) == Ok(false) {
            ALLOCATIONS.fetch_add(1, Relaxed);
            BYTES.fetch_add(bytes, Relaxed);
        }
    }
}

// SAFETY: each call goes on to the system's allocator with what it was given; to count allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; all memory comes from there.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count(size);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CLIENTS: usize = 4;
/// Rounds of one message a client that must pass without an allocation.
const ROUNDS: usize = 300;
/// Buffers grow to what they need in the first of so many attempts. What allocates for each message never passes.
const ATTEMPTS: usize = 20;

/// Designs that serve several at once in this process.
const DESIGNS: [Design; 11] = [
    Design::ThreadPerConnection,
    Design::PrethreadedMutex,
    Design::PrethreadedAcceptor,
    Design::Reactor,
    Design::OneHandlerReactor,
    Design::SplitReactor,
    Design::ReactorPool,
    Design::ReactorPerCore,
    Design::Proactor,
    Design::LeaderFollowers,
    Design::HalfSyncHalfAsync,
];

/// With as many units as the clients keep busy: one that has not been needed before would fill its own buffers late.
fn server<P: Protocol>(protocol: P, design: Design) -> Server<P> {
    let server = Server::new(protocol).design(design);
    match design {
        Design::PrethreadedMutex | Design::PrethreadedAcceptor => server.workers(CLIENTS..=CLIENTS),
        Design::LeaderFollowers | Design::HalfSyncHalfAsync => server.workers(1..=1),
        Design::ReactorPerCore | Design::Proactor => server.workers(CLIENTS..=CLIENTS),
        _ => server,
    }
}

/// What a client says to begin with and in each round, how the answer to the first ends, and how many bytes it hears in
/// a round.
struct Talk {
    hello: &'static [u8],
    welcome: &'static [u8],
    says: &'static [u8],
    hears: usize,
}

fn served_without_allocations<P: Protocol>(protocol: impl Fn() -> P, talk: &Talk) {
    IS_CLIENT.set(true);
    for design in DESIGNS {
        let stop = Stop::new().expect("a pipe");
        let bound = server(protocol(), design).bind("127.0.0.1:0").expect("a port");
        let address = bound.local_addr();
        let attempts: Vec<usize> = thread::scope(|scope| {
            let running = scope.spawn(|| bound.run(&stop).expect("served"));
            let attempts = attempts(address, talk);
            stop.stop();
            running.join().expect("it does not panic");
            attempts
        });
        assert!(
            attempts.last() == Some(&0),
            "{} allocates: {attempts:?} times in {} messages",
            design.name(),
            ROUNDS * CLIENTS
        );
    }
}

/// How many allocations there were in each attempt, until one without.
fn attempts(address: SocketAddr, talk: &Talk) -> Vec<usize> {
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = TcpStream::connect(address).expect("connects");
            client.set_nodelay(true).expect("set");
            client.write_all(talk.hello).expect("sent");
            let mut welcome = Vec::new();
            while !welcome.ends_with(talk.welcome) {
                let mut byte = [0];
                client.read_exact(&mut byte).expect("a welcome");
                welcome.extend(byte);
            }
            client
        })
        .collect();
    let mut answer = vec![0; talk.hears];
    let mut attempts = Vec::new();
    while attempts.len() < ATTEMPTS && attempts.last() != Some(&0) {
        let before = ALLOCATIONS.load(Relaxed);
        for _ in 0..ROUNDS {
            for client in &mut clients {
                client.write_all(talk.says).expect("sent");
            }
            for client in &mut clients {
                client.read_exact(&mut answer).expect("an answer");
            }
        }
        attempts.push(ALLOCATIONS.load(Relaxed) - before);
    }
    attempts
}

/// How many bytes are allocated to see what one client is subscribed to.
fn bytes_to_see_one_of(clients: usize) -> usize {
    let groups = Groups::default();
    let monitor = groups.monitor();
    let mut server = Rehearsal::new(groups);
    for _ in 0..clients {
        let client = server.connect();
        server.receive(client, b"SUB room.x 1\r\n");
    }
    let before = BYTES.load(Relaxed);
    assert_eq!(monitor.subscriptions(clients as u64).len(), 1);
    BYTES.load(Relaxed) - before
}

/// One test, since all threads of the process are counted.
#[test]
fn no_message_costs_an_allocation_and_no_look_more_where_there_are_many() {
    let echo = Talk {
        hello: b"hello",
        welcome: b"hello",
        says: &[b'x'; 128],
        hears: 128,
    };
    served_without_allocations(|| Echo, &echo);
    let bytes = Talk {
        hello: b"1 keep\n",
        welcome: b"a",
        says: b"4000 keep\n",
        hears: 4000,
    };
    served_without_allocations(|| Bytes, &bytes);
    let line = b"what somebody says to everyone else in the room\n";
    let chat = Talk {
        hello: b"join x\n",
        welcome: b"joined x\n",
        says: line,
        hears: line.len() * (CLIENTS - 1),
    };
    served_without_allocations(Chat::default, &chat);
    let groups = Talk {
        hello: b"CONNECT {\"verbose\":false,\"echo\":false}\r\nSUB room.x 1\r\nPING\r\n",
        welcome: b"PONG\r\n",
        says: b"PUB room.x 5\r\nhello\r\n",
        hears: b"MSG room.x 1 5\r\nhello\r\n".len() * (CLIENTS - 1),
    };
    served_without_allocations(Groups::default, &groups);
    IS_CLIENT.set(false);
    assert_eq!(bytes_to_see_one_of(1_000), bytes_to_see_one_of(10));
}
