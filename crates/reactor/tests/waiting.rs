//! What waits for a client that does not read, on every design whose connections send to each other: it is told, and
//! who makes it wait is held up before the client is dropped.

#[path = "common/flood.rs"]
mod flood;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use threadgauge_reactor::protocol::chat::Chat;
use threadgauge_reactor::{
    BuiltIn, CloseReason, Design, Meter, Overflow, Sends, Server, Setting, Stop, Waiting,
};

use crate::flood::{Next, Rounds, flood};

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

/// A server that runs, as a test sees it.
struct Running {
    design: String,
    address: SocketAddr,
    meter: Meter,
    waiting: Waiting,
}

/// Stops a server also when a test fails, or its thread would be waited for, for ever.
struct StopAtEnd<'a>(&'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Tests a room on each design, and on two of them with sends by io_uring.
fn on_each(limit: usize, overflow: Overflow, test: impl Fn(&Running)) {
    let designs = Design::ALL
        .iter()
        .filter(|&&design| BuiltIn::Chat.fits(design).is_ok());
    let by_call = designs.map(|&design| (design, None));
    let together = [Design::Reactor, Design::ReactorPool].map(|design| (design, Some(Sends::IoUring)));
    for (design, sends) in by_call.chain(together) {
        let limit = NonZeroUsize::new(limit).expect("not zero");
        let mut server = Server::new(Chat::default())
            .design(design)
            .output_limit(limit, overflow);
        if design.uses(Setting::Workers) {
            server = server.workers(3..=3);
        }
        if let Some(sends) = sends {
            server = server.sends(sends);
        }
        let bound = server.bind("127.0.0.1:0").expect("a free port");
        let running = Running {
            design: format!("{design:?} {sends:?}"),
            address: bound.local_addr(),
            meter: bound.meter(),
            waiting: bound.waiting(),
        };
        assert_eq!(running.waiting.bytes(), []);
        let stop = Stop::new().expect("a pipe");
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| bound.run(&stop));
            {
                let _stopped = StopAtEnd(&stop);
                test(&running);
            }
            serving.join().expect("no panic").expect("it serves");
        });
        assert_eq!(running.waiting.bytes(), [], "{design:?}: it runs no more");
    }
}

#[test]
fn what_waits_is_told_while_it_waits() {
    on_each(2 * SAID_BYTES, Overflow::Wait, |server| {
        let (silent, mut speaker) = (joined(server.address), joined(server.address));
        let line = [&[b'x'; 10_000][..], b"\n"].concat();
        for _ in 0..SAID_BYTES / line.len() {
            speaker.write_all(&line).expect("taken");
        }
        until("much waits", || {
            // For nobody, where a loop is slow to say.
            let all = server.waiting.bytes();
            assert!(all.len() <= 1, "{}: {all:?} wait", server.design);
            all.iter().any(|&(_, bytes)| bytes > SAID_BYTES / 4)
        });
        drop(silent);
        until("nothing waits", || server.waiting.bytes().is_empty());
    });
}

/// A quarter of it has room for what is on its way between loops.
const LIMIT: usize = 16 << 20;

#[test]
fn who_reads_slowly_holds_a_fast_sender_up_and_gets_all_in_order() {
    const ROUNDS: usize = 3;
    on_each(LIMIT, Overflow::Drop, |server| {
        let [speaker, one, other] = [(); 3].map(|()| joined(server.address));
        let mut rounds = Rounds::default();
        flood(&speaker, &[&one, &other], |_| match rounds.count {
            ROUNDS => Next::End,
            _ => rounds.next(server.meter.totals().held_up, LIMIT),
        });
        let totals = server.meter.totals();
        assert_eq!(
            (totals.closed(CloseReason::Slow), totals.undeliverable),
            (0, 0),
            "{}",
            server.design
        );
    });
}

#[test]
fn who_reads_nothing_is_dropped_and_the_sender_and_the_others_go_on() {
    const SAID_AFTER: usize = 8 << 20;
    on_each(LIMIT, Overflow::Drop, |server| {
        let [_stuck, speaker, hearer] = [(); 3].map(|()| joined(server.address));
        let mut said_before = None;
        flood(&speaker, &[&hearer], |said| {
            if said_before.is_none() && server.meter.totals().closed(CloseReason::Slow) > 0 {
                said_before = Some(said);
            }
            match said_before {
                Some(before) if said >= before + SAID_AFTER => Next::End,
                _ => Next::Hear(usize::MAX / 2),
            }
        });
        let totals = server.meter.totals();
        assert_eq!(totals.closed(CloseReason::Slow), 1, "{}", server.design);
        assert!(totals.held_up > 0, "{}", server.design);
    });
}
