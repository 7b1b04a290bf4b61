//! What has been posted to a loop is ahead of what a client of that loop says later, and of what confirms it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::by_hand::{drive, turn};
use super::loops::Kernel;
use super::manager::ReactorManager;
use crate::options::Placement;
use crate::{ConnectionId, Io, Protocol, Server, Session};

/// Each byte is answered with itself. `h`: hears from now on; `p`: sends `M` to who hears; `w`: waits until the test
/// has done something.
#[derive(Clone)]
struct Talk {
    hearer: Arc<Mutex<Option<ConnectionId>>>,
    waits: Sender<()>,
    done: Arc<Mutex<Receiver<()>>>,
}

impl Protocol for Talk {
    type Session = Self;
    const SHARED: bool = true;

    fn open(&self, _: ConnectionId) -> Self {
        self.clone()
    }
}

impl Session for Talk {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        let hearer = || self.hearer.lock().expect("nobody panics here");
        match input[0] {
            b'h' => *hearer() = Some(io.id()),
            b'p' => io.send_to(hearer().expect("came before"), b"M"),
            b'w' => {
                self.waits.send(()).expect("the test hears it");
                let done = self.done.lock().expect("nobody panics here");
                done.recv().expect("the test does it");
            }
            _ => {}
        }
        io.send(&input[..1]);
        1
    }
}

/// With what says that a session waits, and what lets it go on.
fn talk() -> (Talk, Receiver<()>, Sender<()>) {
    let (waits, waiting) = channel();
    let (go_on, done) = channel();
    let talk = Talk {
        hearer: Arc::default(),
        waits,
        done: Arc::new(Mutex::new(done)),
    };
    (talk, waiting, go_on)
}

fn count(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).expect("not zero")
}

/// For a while.
fn hears_nothing(client: &mut TcpStream) {
    client.set_nonblocking(true).expect("a socket");
    for _ in 0..100 {
        let early = client.read(&mut [0]).expect_err("nothing before");
        assert_eq!(early.kind(), ErrorKind::WouldBlock);
        thread::sleep(Duration::from_millis(1));
    }
    client.set_nonblocking(false).expect("a socket");
}

/// A loop that cannot post yet does not send either.
#[test]
fn an_answer_is_not_sent_before_what_it_confirms_is_posted() {
    for kernel in [Kernel::Epoll, Kernel::IoUring] {
        let (talk, ..) = talk();
        let manager = ReactorManager::joined(count(2), Placement::LeastLoaded);
        drive(Server::new(talk), manager, kernel, |loops| {
            let (_, mut publisher) = loops.connect(0, 0);
            let (_, mut hearer) = loops.connect(1, 1);
            hearer.write_all(b"h").expect("sent");
            loops.turn(1);
            publisher.write_all(b"p").expect("sent");
            let cannot_post = loops.shared.posting(0);
            let publishes = &mut loops.all[0];
            thread::scope(|scope| {
                scope.spawn(|| turn(publishes));
                hears_nothing(&mut publisher);
                drop(cannot_post);
            });
            publisher.read_exact(&mut [0]).expect("the answer");
            loops.turn(1);
            let mut heard = [0; 2];
            hearer.read_exact(&mut heard).expect("all of it");
            assert_eq!(&heard, b"hM", "{kernel:?}");
        });
    }
}

#[test]
fn what_was_posted_before_a_client_is_read_comes_before_its_answer() {
    for kernel in [Kernel::Epoll, Kernel::IoUring] {
        let (talk, waiting, go_on) = talk();
        let manager = ReactorManager::joined(count(2), Placement::LeastLoaded);
        drive(Server::new(talk), manager, kernel, |loops| {
            let (_, mut publisher) = loops.connect(0, 0);
            let (_, mut hearer) = loops.connect(1, 1);
            let (_, mut other) = loops.connect(1, 1);
            hearer.write_all(b"h").expect("sent");
            loops.turn(1);
            publisher.write_all(b"p").expect("sent");
            // Both are ready in one turn. While the one is served, the other loop posts; then the other is read.
            other.write_all(b"w").expect("sent");
            hearer.write_all(b"q").expect("sent");
            let (first, second) = loops.all.split_at_mut(1);
            thread::scope(|scope| {
                scope.spawn(move || {
                    waiting.recv().expect("it waits");
                    turn(&mut first[0]);
                    go_on.send(()).expect("it waits");
                });
                turn(&mut second[0]);
            });
            loops.turn(1);
            publisher.read_exact(&mut [0]).expect("the answer");
            let mut heard = [0; 3];
            hearer.read_exact(&mut heard).expect("all of it");
            assert_eq!(String::from_utf8_lossy(&heard), "hMq", "{kernel:?}");
            // One of them waited for the end of its turn, which is no reason to allocate for the next that does.
            let second = &loops.all[1].0;
            assert!(
                second.queued.is_empty() && second.queued.capacity() > 0,
                "{kernel:?}"
            );
        });
    }
}

/// A loop that posts has posted to the one that sends the answer, and not yet to the one that sends the message.
#[test]
fn an_answer_is_not_sent_before_every_loop_has_what_it_confirms() {
    let (talk, ..) = talk();
    let manager = ReactorManager::split(count(1), count(2), Placement::ByHandle);
    drive(Server::new(talk), manager, Kernel::Epoll, |loops| {
        let (_, mut publisher) = loops.connect(0, 1);
        let (_, mut hearer) = loops.connect(0, 2);
        hearer.write_all(b"h").expect("sent");
        loops.turn(0);
        publisher.write_all(b"p").expect("sent");
        loops.turn(0);
        let still_posting = loops.shared.posting(0);
        let sends = &mut loops.all[1];
        thread::scope(|scope| {
            scope.spawn(|| turn(sends));
            hears_nothing(&mut publisher);
            drop(still_posting);
        });
        publisher.read_exact(&mut [0]).expect("the answer");
    });
}
