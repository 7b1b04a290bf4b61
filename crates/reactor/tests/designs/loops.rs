//! Which threads the event-driven designs have, and which of them accept, read and write.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use threadgauge_reactor::{
    Design, Protocol, Sends, Server, Stop, Totals, protocol::chat::Chat, protocol::echo::Echo,
};

use crate::served::{Served, until};
use crate::{Test, on_each, test};

pub fn tests() -> Vec<Test> {
    let mut tests = vec![
        test("loops::one_reactor_does_it_all", one_reactor),
        test("loops::one_reads_and_one_writes", one_reads_and_one_writes),
        test("loops::pools_read_and_write", pools_read_and_write),
        test("loops::each_core_has_its_own", each_core_has_its_own),
        test("loops::whoever_gets_an_event_handles_it", whoever_gets_an_event),
        test("loops::one_does_the_io_and_others_the_work", half_and_half),
        test("loops::what_a_design_does_not_use_is_refused", refusals),
        test("loops::nobody_receives_by_a_call", nobody_receives_by_a_call),
        test("loops::one_call_sends_to_all", one_call_sends_to_all),
        test("loops::no_io_uring_is_said", no_io_uring),
    ];
    tests.extend(on_each(
        "loops::threads",
        &THREADS.map(|(design, ..)| design),
        threads,
    ));
    let pools = &["leader-followers", "half-sync-half-async"];
    tests.extend(on_each("loops::grows_and_shrinks", pools, grows_and_shrinks));
    tests
}

/// The threads of each design beside the first, with these settings.
const THREADS: [(&str, &[&str], &[&str]); 8] = [
    ("reactor", &[], &[]),
    ("one-handler-reactor", &[], &[]),
    ("split-reactor", &[], &["writes-1"]),
    (
        "reactor-pool",
        &["readers=2", "writers=2"],
        &["reads-1", "writes-2", "writes-3"],
    ),
    ("reactor-per-core", &["workers=3"], &["reactor-1", "reactor-2"]),
    ("proactor", &["workers=3"], &["reactor-1", "reactor-2"]),
    ("leader-followers", &["workers=3"], &["follower-1", "follower-2"]),
    (
        "half-sync-half-async",
        &["workers=3"],
        &["worker-0", "worker-1", "worker-2"],
    ),
];

fn threads(design: &str) {
    let (_, settings, expected) = THREADS
        .into_iter()
        .find(|(name, ..)| *name == design)
        .expect("listed");
    let server = Served::start(design, "echo", settings);
    until("all are there", || server.thread_names() == expected);
    server.serve_at_once(40);
    assert_eq!(server.thread_names(), expected);
    assert_eq!(server.children().len(), 0);
    let summary = server.stop();
    assert_eq!(summary.of("units_created"), expected.len() as u64);
    assert_eq!((summary.of("accepted"), summary.of("threads")), (40, 1));
}

/// One more thread for each step that blocks, up to the most; and when they have nothing to do, one again.
fn grows_and_shrinks(design: &str) {
    let server = Served::start(design, "numbered", &["workers=1..4"]);
    let first = match design {
        "leader-followers" => 1,
        _ => 2, // the loop, and a worker
    };
    until("the first are there", || server.threads() == first);
    let mut clients: Vec<_> = (0..6).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send("1 500 slept\n");
    }
    until("all block", || {
        // Whoever looks too late sees the next ones block.
        for client in clients.iter_mut().filter(|client| client.has_something()) {
            assert_eq!(client.line(), "1 slept\n");
            client.send("1 500 slept\n");
        }
        server.threads() == first + 3
    });
    for client in &mut clients {
        assert_eq!(client.line(), "1 slept\n");
    }
    // Who comes back to wait, when nobody was missing for a while, leaves.
    until("one is left", || {
        clients[0].send("2 0 awake\n");
        assert_eq!(clients[0].line(), "2 awake\n");
        // Whoever answered has left or waits; another request before would call for another thread again.
        server.fall_asleep();
        server.threads() == first
    });
    drop(clients);
    let summary = server.stop();
    assert_eq!((summary.of("accepted"), summary.of("threads")), (6, 1));
}

/// What each loop or thread counts while thirty clients have their bytes sent back ten times.
fn parts<P: Protocol>(server: Server<P>) -> Vec<Totals> {
    let stop = Stop::new().expect("a pipe");
    let bound = server.bind("127.0.0.1:0").expect("a port");
    let (address, meter) = (bound.local_addr(), bound.meter());
    thread::scope(|scope| {
        let running = scope.spawn(|| bound.run(&stop).expect("served"));
        let mut clients: Vec<_> = (0..30)
            .map(|_| TcpStream::connect(address).expect("connects"))
            .collect();
        for _ in 0..10 {
            for client in &mut clients {
                client.write_all(b"there and back").expect("sent");
                client.read_exact(&mut [0; 14]).expect("an answer");
            }
        }
        drop(clients);
        // The stop could overtake what the kernel still has under way.
        until("all ends are seen", || meter.totals().all_closed() == 30);
        stop.stop();
        running.join().expect("it does not panic");
    });
    meter.parts()
}

fn server(design: Design) -> Server<Echo> {
    Server::new(Echo).design(design)
}

fn one_reactor() {
    let [only] = &parts(server(Design::Reactor))[..] else {
        panic!("one loop");
    };
    assert_eq!((only.accepted, only.messages), (30, 300));
    // Ten messages and the end.
    assert_eq!(
        (only.receives, only.sends),
        (330, 300),
        "no call that brings nothing"
    );
}

fn one_reads_and_one_writes() {
    let [reads, writes] = &parts(server(Design::SplitReactor))[..] else {
        panic!("two loops");
    };
    assert_eq!((reads.accepted, writes.accepted), (30, 0));
    assert_eq!((reads.receives, writes.receives), (330, 0));
    assert_eq!((reads.sends, writes.sends), (0, 300));
}

fn pools_read_and_write() {
    let server = server(Design::ReactorPool).readers(2).writers(3);
    let parts = parts(server);
    let (readers, writers) = parts.split_at(2);
    assert_eq!(
        readers.iter().map(|part| part.accepted).collect::<Vec<_>>(),
        [30, 0]
    );
    assert!(readers.iter().all(|part| part.receives > 0 && part.sends == 0));
    assert_eq!(writers.len(), 3);
    assert!(writers.iter().all(|part| part.receives == 0 && part.sends > 0));
}

fn each_core_has_its_own() {
    let parts = parts(server(Design::ReactorPerCore).workers(3..=3));
    assert_eq!(parts.len(), 3);
    for part in &parts {
        // Whoever accepts a connection reads it, writes it and closes it.
        assert_eq!(part.receives, 11 * part.accepted);
        assert_eq!(part.sends, 10 * part.accepted);
        assert_eq!(part.all_closed(), part.accepted);
    }
}

/// The kernel receives for each loop.
fn nobody_receives_by_a_call() {
    let parts = parts(server(Design::Proactor).workers(3..=3));
    assert_eq!(parts.len(), 3);
    for part in &parts {
        assert_eq!((part.receives, part.bytes_in), (0, 14 * part.messages));
        assert_eq!(part.bytes_out, part.bytes_in);
        assert_eq!(part.all_closed(), part.accepted);
    }
    assert_eq!(parts.iter().map(|part| part.messages).sum::<u64>(), 300);
}

fn whoever_gets_an_event() {
    let parts = parts(server(Design::LeaderFollowers).workers(3..=3));
    assert!((1..=3).contains(&parts.len()));
    for part in &parts {
        // Who receives a message uses it and sends the answer.
        assert_eq!((part.sends, part.bytes_out), (part.messages, part.bytes_in));
    }
    assert_eq!(parts.iter().map(|part| part.accepted).sum::<u64>(), 30);
}

fn half_and_half() {
    let parts = parts(server(Design::HalfSyncHalfAsync).workers(3..=3));
    let (io, workers) = parts.split_first().expect("a loop");
    assert_eq!((io.accepted, io.messages), (30, 0));
    // Ten messages and the end.
    assert_eq!((io.receives, io.sends), (330, 0));
    // Who uses a message sends the answer.
    for part in workers {
        assert_eq!((part.receives, part.sends), (0, part.messages));
    }
    assert_eq!(workers.iter().map(|part| part.messages).sum::<u64>(), 300);
}

fn refusals() {
    let refused = Served::refused("leader-followers", &["readers=2"]);
    assert!(refused.contains("setting: Readers"), "{refused}");
}

/// What one says to twenty goes to all of them in one call.
fn one_call_sends_to_all() {
    let stop = Stop::new().expect("a pipe");
    let server = Server::new(Chat::default()).design(Design::Reactor);
    let bound = server.sends(Sends::IoUring).bind("127.0.0.1:0").expect("a port");
    let (address, meter) = (bound.local_addr(), bound.meter());
    thread::scope(|scope| {
        let running = scope.spawn(|| bound.run(&stop).expect("served"));
        let mut clients: Vec<_> = (0..21)
            .map(|_| TcpStream::connect(address).expect("connects"))
            .collect();
        for client in &mut clients {
            client.write_all(b"join x\n").expect("sent");
            client.read_exact(&mut [0; 9]).expect("joined");
        }
        let before = meter.totals().sends;
        clients[0].write_all(b"to all of you\n").expect("sent");
        for client in &mut clients[1..] {
            client.read_exact(&mut [0; 14]).expect("heard");
        }
        let sends = meter.totals().sends - before;
        stop.stop();
        running.join().expect("it does not panic");
        assert_eq!(sends, 1);
    });
}

fn no_io_uring() {
    let settings = ["io_uring=refused", "sends=io_uring"];
    let refused = Served::refused("reactor", &settings);
    for said in ["NoIoUring", "seccomp", "send by system calls"] {
        assert!(refused.contains(said), "{refused}");
    }
    let refused = Served::refused("proactor", &["io_uring=refused"]);
    assert!(
        refused.contains("serve on the design `reactor-per-core`"),
        "{refused}"
    );
    // Nobody who does not need it misses it.
    let server = Served::start("reactor", "echo", &["io_uring=refused"]);
    server.client().echo();
    server.stop();
}
