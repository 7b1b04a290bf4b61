//! The driver against a NATS server of a few lines that can lie: what is right passes, and every lie is found and
//! named.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use threadgauge_load::codec::Nats;
use threadgauge_load::{
    Arrivals, Failure, Faults, Flaw, Groups, Load, LoadError, Plan, Record, Tally, WrongDelivery,
};

const SPAN: Duration = Duration::from_millis(200);
/// With a server that is not silent but slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the server does with the fifth message that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    None,
    /// One of the others does not get it.
    Lose,
    /// One of the others gets it twice.
    Double,
    /// It comes after the sender's next one.
    Delay,
    /// With another last byte.
    Change,
    /// Its sender gets it.
    Echo,
    /// The other group gets it too.
    Mislead,
    /// Instead of it, a complaint.
    Complain,
}

/// Who is there, and what was said.
struct Room {
    /// The group, the port and the way there.
    members: Vec<(String, u16, TcpStream)>,
    published: usize,
    /// A delivery that waits for the next message of the client at this port.
    delayed: Option<(u16, Vec<u8>)>,
    lie: Lie,
}

impl Room {
    fn publish(&mut self, sender: &str, own: u16, payload: &[u8]) {
        self.published += 1;
        let lie = if self.published == 5 { self.lie } else { Lie::None };
        let frame = |payload: &[u8]| {
            [
                format!("MSG {sender} 1 {}\r\n", payload.len()).as_bytes(),
                payload,
                b"\r\n",
            ]
            .concat()
        };
        let mut bytes = frame(payload);
        match lie {
            Lie::Change => {
                let mut changed = payload.to_vec();
                *changed.last_mut().unwrap() ^= 1;
                bytes = frame(&changed);
            }
            Lie::Complain => bytes = b"-ERR 'Slow Consumer'\r\n".to_vec(),
            Lie::Delay => {
                self.delayed = Some((own, bytes));
                return;
            }
            _ => {}
        }
        let late = self.delayed.take_if(|(sender, _)| *sender == own);
        let late = late.map_or(Vec::new(), |(_, bytes)| bytes);
        let mut lost = lie != Lie::Lose;
        for (group, port, stream) in &mut self.members {
            let is_for_it = match lie {
                Lie::Mislead => *port != own,
                Lie::Echo => group == sender,
                _ => group == sender && *port != own,
            };
            if !is_for_it || !std::mem::replace(&mut lost, true) {
                continue;
            }
            let twice: &[u8] = if lie == Lie::Double { &bytes } else { &late };
            // A driver that has found the lie is gone.
            let _ = stream.write_all(&[&bytes, twice].concat());
        }
    }
}

/// A server for the one test that connects to it.
fn server(lie: Lie) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let room = Arc::new(Mutex::new(Room {
        members: Vec::new(),
        published: 0,
        delayed: None,
        lie,
    }));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let room = Arc::clone(&room);
            thread::spawn(move || serve(&client, &room));
        }
    });
    at
}

/// Until the client has gone.
fn serve(mut client: &TcpStream, room: &Mutex<Room>) -> Option<()> {
    let own = client.peer_addr().ok()?.port();
    let mut input = BufReader::new(client.try_clone().ok()?);
    client.write_all(b"INFO {}\r\n").ok()?;
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["CONNECT", _] => {}
            ["SUB", group, _] => {
                let member = (group.to_owned(), own, client.try_clone().ok()?);
                room.lock().unwrap().members.push(member);
            }
            // Wants to know that the client is there, too.
            ["PING"] => client.write_all(b"PING\r\nPONG\r\n").ok()?,
            ["PONG"] => {}
            ["PUB", group, bytes] => {
                let mut payload = vec![0; bytes.parse::<usize>().unwrap() + 2];
                input.read_exact(&mut payload).ok()?;
                room.lock()
                    .unwrap()
                    .publish(group, own, &payload[..payload.len() - 2]);
            }
            _ => panic!("the driver said {line:?}"),
        }
    }
}

fn drive(lie: Lie, load: Load, patience: Duration) -> Result<Tally, LoadError> {
    let plan = Plan {
        connections: 20,
        group_size: 10,
        payload_bytes: 64,
        patience,
    };
    Groups::connect(server(lie), &Nats::ALIKE, plan)?.talk(load, SPAN)
}

fn closed(outstanding: usize) -> Load {
    Load::Closed {
        outstanding: NonZeroUsize::new(outstanding).unwrap(),
    }
}

/// Sixteen messages on their way show what is wrong by what comes next.
fn lied(lie: Lie) -> LoadError {
    drive(lie, closed(16), PATIENCE).unwrap_err()
}

#[test]
fn every_message_of_an_honest_server_has_nine_deliveries() {
    for outstanding in [1, 16] {
        let tally = drive(Lie::None, closed(outstanding), PATIENCE).unwrap();
        assert!(tally.messages >= 20 * outstanding as u64);
        assert_eq!(tally.deliveries, 9 * tally.messages);
        assert_eq!(tally.latency.count(), 0);
    }
}

#[test]
fn under_a_rate_every_delivery_has_a_latency() {
    for arrivals in [Arrivals::Uniform, Arrivals::Poisson] {
        let load = Load::Open {
            deliveries_per_second: 9.0 * 1_000.0,
            arrivals,
            seed: 1,
        };
        let tally = drive(Lie::None, load, PATIENCE).unwrap();
        assert_eq!(tally.deliveries, 9 * tally.messages);
        assert_eq!(tally.latency.count(), tally.deliveries);
        assert_eq!(tally.lateness.count(), tally.messages);
        assert!(tally.pace.is_some_and(|pace| pace > 0.0 && pace.is_finite()));
        // Of 200 expected; a Poisson count is off by six standard deviations once in 10⁹.
        assert!((115..=285).contains(&tally.messages), "{}", tally.messages);
    }
}

#[test]
fn what_is_lost_doubled_or_late_is_named() {
    for lie in [Lie::Lose, Lie::Double, Lie::Delay] {
        let (connection, sender, expected, got) = match lied(lie) {
            LoadError::Wrong(WrongDelivery::OutOfOrder {
                connection,
                sender,
                expected,
                got,
                ..
            }) => (connection, sender, expected, got),
            other => panic!("{lie:?} was not found, but {other}"),
        };
        assert!(connection != sender && connection / 10 == sender / 10);
        match lie {
            Lie::Double => assert_eq!(got + 1, expected),
            _ => assert_eq!(got, expected + 1, "{lie:?}"),
        }
    }
}

#[test]
fn what_is_changed_or_comes_to_the_wrong_one_is_named() {
    assert!(matches!(
        lied(Lie::Change),
        LoadError::Wrong(WrongDelivery::Changed { .. })
    ));
    let not_for_it = |lie| match lied(lie) {
        LoadError::Wrong(WrongDelivery::NotForIt {
            connection, sender, ..
        }) => (connection, sender),
        other => panic!("{lie:?} was not found, but {other}"),
    };
    let (connection, sender) = not_for_it(Lie::Echo);
    assert_eq!(connection, sender);
    let (connection, sender) = not_for_it(Lie::Mislead);
    assert_ne!(connection / 10, sender / 10);
}

/// All of a run that goes on whatever is wrong.
fn counted(lie: Lie, load: Load) -> Record {
    let plan = Plan {
        connections: 20,
        group_size: 10,
        payload_bytes: 64,
        // After it what has not come is lost. On a slow machine more would be, so it is tried again with more.
        patience: Duration::from_secs(2),
    };
    let mut groups = Groups::connect(server(lie), &Nats::ALIKE, plan).unwrap();
    groups.run(load, SPAN, u64::MAX, &mut ()).unwrap()
}

#[test]
fn every_lie_is_counted_once_and_by_its_own_word() {
    let none = Faults::default();
    for (lie, expected) in [
        (Lie::None, none),
        (Lie::Lose, Faults { lost: 1, ..none }),
        (
            Lie::Double,
            Faults {
                duplicated: 9,
                ..none
            },
        ),
        // The message came late to all nine others, each of whom had heard a later one.
        (Lie::Delay, Faults { reordered: 9, ..none }),
        (Lie::Change, Faults { corrupted: 9, ..none }),
        (
            Lie::Echo,
            Faults {
                misdelivered: 1,
                ..none
            },
        ),
        (
            Lie::Mislead,
            Faults {
                misdelivered: 10,
                ..none
            },
        ),
    ] {
        let record = counted(lie, closed(16));
        assert_eq!(record.faults, Some(expected), "{lie:?}");
        let whole = 9 * record.sent;
        assert_eq!(record.answered + record.unfinished, whole, "{lie:?}");
        assert_eq!(record.unfinished, expected.lost, "{lie:?}");
        // One of a message that a receiver never had is not heard by all.
        let by_all = record.last.map(|last| last.count());
        assert_eq!(by_all, Some(record.sent - expected.lost), "{lie:?}");
    }
}

#[test]
fn a_connection_that_fails_ends_the_run_and_what_was_measured_is_kept() {
    let record = counted(Lie::Complain, closed(16));
    assert!(record.ended_early && record.answered > 0);
    assert_eq!(record.failures.of(Failure::Garbage), 1);
    assert!(
        record
            .failures
            .said(Failure::Garbage)
            .is_some_and(|said| said.contains("Slow Consumer"))
    );
    assert_eq!(record.flaws(), [Flaw::Ended]);
    assert_eq!(
        record.faults,
        Some(Faults::default()),
        "nobody waited for what is missing"
    );
}

#[test]
fn a_counted_run_keeps_its_rate_and_ends_by_its_bound() {
    let load = Load::Open {
        deliveries_per_second: 9.0 * 500.0,
        arrivals: Arrivals::Uniform,
        seed: 1,
    };
    let record = counted(Lie::None, load);
    assert!((98..=100).contains(&record.sent), "{}", record.sent);
    assert_eq!(
        (record.held.intended, record.answered),
        (9 * record.sent, 9 * record.sent)
    );
    assert_eq!(record.response.count(), record.answered);
    assert_eq!(record.lag.count(), record.sent);
    assert_eq!(record.connects, 20);
    let plan = Plan {
        connections: 20,
        group_size: 10,
        payload_bytes: 64,
        patience: PATIENCE,
    };
    let mut groups = Groups::connect(server(Lie::None), &Nats::ALIKE, plan).unwrap();
    let bounded = groups.run(closed(2), PATIENCE, 30, &mut ()).unwrap();
    assert_eq!((bounded.sent, bounded.answered, bounded.bounded), (30, 270, true));
}

#[test]
fn a_complaint_is_quoted() {
    let complaint = lied(Lie::Complain).to_string();
    assert!(
        complaint.ends_with("the server says \"-ERR 'Slow Consumer'\""),
        "{complaint}"
    );
}

#[test]
fn what_never_comes_is_named_once_it_is_silent() {
    let impatient = |patience| match drive(Lie::Lose, closed(1), patience).unwrap_err() {
        LoadError::Lost {
            on_the_way: 1,
            connection,
            sender,
            ..
        } => Some((connection, sender)),
        // On a busy machine the server is silent for a while although it will go on: then more is missing.
        LoadError::Lost { on_the_way, .. } if on_the_way > 1 => None,
        LoadError::NotGreeted(..) => None,
        other => panic!("the loss was not found, but {other}"),
    };
    let found = (0..8).find_map(|times| impatient(Duration::from_millis(300 << times)));
    let (connection, sender) = found.expect("the server is silent for 38 s");
    assert_eq!(connection / 10, sender / 10);
}

#[test]
fn a_server_that_greets_nobody_is_no_server() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let plan = Plan {
        connections: 10,
        group_size: 10,
        payload_bytes: 64,
        patience: Duration::from_millis(100),
    };
    let groups = Groups::connect(listener.local_addr().unwrap(), &Nats::ALIKE, plan);
    assert!(matches!(groups, Err(LoadError::NotGreeted(10, _))));
}
