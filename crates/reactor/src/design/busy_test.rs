//! What is true of a client whose session is busy, however long that takes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::{ConnectionId, Design, Io, Memory, Protocol, Server, Session, Stop};

const IDLE: Duration = Duration::from_secs(1);

const WORK: Duration = Duration::from_millis(60);
const ALARM: Duration = Duration::from_millis(20);

/// Each byte is answered with itself: `w` when the test says so, and `a` by an alarm that is set after some work, if
/// that does not come too early.
#[derive(Clone)]
struct Busy {
    test: Arc<(Sender<()>, Mutex<Receiver<()>>)>,
    alarm: Option<Instant>,
}

impl Protocol for Busy {
    type Session = Self;

    fn open(&self, _: ConnectionId) -> Self {
        self.clone()
    }
}

impl Session for Busy {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        match input[0] {
            b'a' => {
                thread::sleep(WORK);
                io.set_alarm(Some(ALARM));
                self.alarm = Some(Instant::now());
                return 1;
            }
            b'm' => io.set_alarm(Some(Duration::MAX)),
            b'w' => {
                self.test.0.send(()).expect("the test hears it");
                let _ = self.test.1.lock().expect("nobody panics here").recv();
            }
            _ => {}
        }
        io.send(&input[..1]);
        1
    }

    fn alarm(&mut self, io: &mut Io<'_>) {
        let is_late = self.alarm.is_some_and(|set| set.elapsed() >= ALARM);
        io.send(if is_late { b"a" } else { b"?" });
    }
}

/// A server with one client, and what says that its session is busy and may go on.
fn serve(case: &str, design: Design, talk: impl FnOnce(TcpStream, Receiver<()>, Sender<()>)) {
    let stop = Stop::new().expect("a pipe");
    let (enters, entered) = channel();
    let (open, gate) = channel();
    let busy = Busy {
        test: Arc::new((enters, Mutex::new(gate))),
        alarm: None,
    };
    let server = Server::new(busy).design(design).idle(IDLE).bind("127.0.0.1:0");
    let server = server.expect("a port");
    let address = server.local_addr();
    thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop));
        // Its ends of the channels go with it, also when it fails: the server would be waited for, for ever.
        let talk = || talk(TcpStream::connect(address).expect("connects"), entered, open);
        let talk = catch_unwind(AssertUnwindSafe(talk));
        stop.stop();
        running.join().expect(case).expect(case);
        talk.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

fn who_waits_for_its_session_has_its_time_after_that(design: Design, speaks_meanwhile: bool) {
    let case = format!("{design:?}, speaks meanwhile: {speaks_meanwhile}");
    serve(&case, design, |mut client, entered, open| {
        client.write_all(b"w").expect("sent");
        entered.recv().expect("the session is called");
        if speaks_meanwhile {
            client.write_all(b"x").expect("sent");
        }
        thread::sleep(IDLE + IDLE / 4);
        drop(open);
        let mut answers = [0; 2];
        client.read_exact(&mut answers[..1]).expect("it is answered");
        if !speaks_meanwhile {
            thread::sleep(IDLE / 4);
            client.write_all(b"x").expect("sent");
        }
        let heard = client.read_exact(&mut answers[1..]);
        assert!(heard.is_ok(), "{case}: {heard:?}");
        assert_eq!(&answers, b"wx", "{case}");
    });
}

fn alarms_are_set_from_when_they_are_asked_for(design: Design) {
    let case = format!("{design:?}");
    serve(&case, design, |mut client, _, _| {
        for said in [b"a", b"m"] {
            client.write_all(said).expect("sent");
            let mut answer = [0];
            let heard = client.read_exact(&mut answer);
            assert!(heard.is_ok(), "{case}: {heard:?}");
            assert_eq!(&answer, said, "{case}");
        }
    });
}

fn nobody_waits_for_the_session_of_another(design: Design) {
    let case = format!("{design:?}");
    serve(&case, design, |mut client, entered, open| {
        let mut other = TcpStream::connect(client.peer_addr().expect("connected")).expect("connects");
        other.write_all(b"x").expect("sent");
        other.read_exact(&mut [0]).expect("there are two workers");
        client.write_all(b"w").expect("sent");
        entered.recv().expect("the session is called");
        client.write_all(b"x").expect("sent");
        // So that whoever looks at the first has seen that.
        thread::sleep(WORK);
        other.set_read_timeout(Some(10 * IDLE)).expect("a socket");
        other.write_all(b"x").expect("sent");
        let heard = other.read_exact(&mut [0]);
        drop(open);
        assert!(heard.is_ok(), "{case}: {heard:?}");
    });
}

/// All designs whose workers share memory, and so the test's channels.
fn designs() -> impl Iterator<Item = Design> {
    let shared = |design: &Design| design.about().memory == Memory::Shared;
    Design::ALL.iter().copied().filter(shared)
}

#[test]
fn the_time_that_a_session_takes_is_none_of_its_client() {
    thread::scope(|scope| {
        for design in designs() {
            for speaks_meanwhile in [true, false] {
                scope.spawn(move || {
                    who_waits_for_its_session_has_its_time_after_that(design, speaks_meanwhile);
                });
            }
        }
    });
}

#[test]
fn an_alarm_waits_from_when_it_was_asked_for_and_one_that_no_clock_reaches_never_comes() {
    thread::scope(|scope| {
        for design in designs() {
            scope.spawn(move || alarms_are_set_from_when_they_are_asked_for(design));
        }
    });
}

#[test]
fn where_sessions_have_threads_of_their_own_nobody_waits_for_anothers() {
    thread::scope(|scope| {
        for design in [
            Design::ThreadPerConnection,
            Design::PrethreadedMutex,
            Design::PrethreadedAcceptor,
            Design::LeaderFollowers,
            Design::HalfSyncHalfAsync,
        ] {
            scope.spawn(move || nobody_waits_for_the_session_of_another(design));
        }
    });
}
