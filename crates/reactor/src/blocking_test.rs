//! What a client says while its session is busy, however long that takes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::{ConnectionId, Design, Io, Protocol, Server, Session, Stop};

const IDLE: Duration = Duration::from_secs(1);

/// Each byte is answered with itself; `w` when the test says so.
#[derive(Clone)]
struct Busy(Arc<(Sender<()>, Mutex<Receiver<()>>)>);

impl Protocol for Busy {
    type Session = Self;

    fn open(&self, _: ConnectionId) -> Self {
        self.clone()
    }
}

impl Session for Busy {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        if input[0] == b'w' {
            self.0.0.send(()).expect("the test hears it");
            let _ = self.0.1.lock().expect("nobody panics here").recv();
        }
        io.send(&input[..1]);
        1
    }
}

fn who_speaks_while_its_session_is_busy_is_heard(design: Design) {
    let stop = Stop::new().expect("a pipe");
    let (enters, entered) = channel();
    let (open, gate) = channel();
    let server = Server::new(Busy(Arc::new((enters, Mutex::new(gate)))))
        .design(design)
        .idle(IDLE)
        .bind("127.0.0.1:0")
        .expect("a port");
    let address = server.local_addr();
    thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop));
        // Ended with the closure, also when it fails: the server would be waited for, for ever.
        let talk = || {
            let (open, mut client) = (open, TcpStream::connect(address).expect("connects"));
            client.write_all(b"w").expect("sent");
            entered.recv().expect("the session is called");
            client.write_all(b"x").expect("sent");
            thread::sleep(IDLE + IDLE / 4);
            drop(open);
            let mut answers = [0; 2];
            client.read_exact(&mut answers).expect("it is heard");
            assert_eq!(&answers, b"wx");
        };
        let talk = catch_unwind(AssertUnwindSafe(talk));
        stop.stop();
        running.join().expect("no panic").expect("served");
        talk.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

#[test]
fn the_time_that_a_session_takes_is_none_of_its_client() {
    thread::scope(|scope| {
        for design in [
            Design::Iterative,
            Design::ThreadPerConnection,
            Design::PrethreadedMutex,
            Design::LeaderFollowers,
            Design::HalfSyncHalfAsync,
            Design::Reactor,
        ] {
            scope.spawn(move || who_speaks_while_its_session_is_busy_is_heard(design));
        }
    });
}
