//! The driver against servers of NATS' protocol that make mistakes: what is right passes, and every mistake is counted
//! under its own word.

mod faulty;

use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use faulty::{Mistake, Server};
use threadgauge_load::codec::Nats;
use threadgauge_load::{Arrivals, FaultKind, Groups, Load, LoadError, MessageId, Plan};

const SPAN: Duration = Duration::from_millis(200);
/// With a server that is not silent but slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// With a mistake in one of so many messages.
const RARE: u64 = 10_000;

fn connect(server: &Server, patience: Duration) -> Result<Groups, LoadError> {
    let plan = Plan {
        connections: 20,
        group_size: 10,
        payload_bytes: 64,
        patience,
    };
    Groups::connect(server.at, &Nats::ALIKE, plan)
}

fn closed(outstanding: usize) -> Load {
    Load::Closed {
        outstanding: NonZeroUsize::new(outstanding).unwrap(),
    }
}

/// Talks with sixteen messages on their way until the server has made a mistake twice: what it did, and what was found,
/// both in the order of [`FaultKind::ALL`].
fn found(mistake: Mistake, every: u64, patience: Duration) -> Result<([u64; 5], [u64; 5]), LoadError> {
    let server = Server::start(mistake, every);
    let mut groups = connect(&server, patience)?;
    let mut counted = [0; 5];
    let deadline = Instant::now() + PATIENCE;
    while server.mistakes() < 2 {
        assert!(Instant::now() < deadline, "{mistake:?}: no mistake is made");
        match groups.talk(closed(16), SPAN) {
            Ok(tally) => assert_eq!(tally.deliveries, 9 * tally.messages),
            Err(LoadError::Faulty(tally)) => {
                for kind in FaultKind::ALL {
                    counted[kind as usize] += tally.faults.count(kind);
                    assert_eq!(tally.faults.first(kind).is_some(), tally.faults.count(kind) > 0);
                }
            }
            Err(other) => return Err(other),
        }
    }
    let mut made = [0; 5];
    if let Some(kind) = mistake.is() {
        made[kind as usize] = server.mistakes();
    }
    Ok((made, counted))
}

#[test]
fn every_message_of_an_honest_server_has_nine_deliveries() {
    let server = Server::start(Mistake::None, 1);
    for outstanding in [1, 16] {
        let mut groups = connect(&server, PATIENCE).unwrap();
        let tally = groups.talk(closed(outstanding), SPAN).unwrap();
        assert!(tally.messages >= 20 * outstanding as u64);
        assert_eq!(tally.deliveries, 9 * tally.messages);
        assert_eq!(tally.last.count(), tally.messages);
        assert_eq!((tally.latency.count(), tally.service.count()), (0, 0));
    }
}

#[test]
fn under_a_rate_every_delivery_has_a_latency() {
    for arrivals in [Arrivals::Uniform, Arrivals::Poisson] {
        let server = Server::start(Mistake::None, 1);
        let load = Load::Open {
            deliveries_per_second: 9.0 * 1_000.0,
            arrivals,
            seed: 1,
        };
        let tally = connect(&server, PATIENCE).unwrap().talk(load, SPAN).unwrap();
        assert_eq!(tally.deliveries, 9 * tally.messages);
        assert_eq!(tally.latency.count(), tally.deliveries);
        assert_eq!(tally.service.count(), tally.deliveries);
        assert_eq!(tally.last.count(), tally.messages);
        assert_eq!(tally.lateness.count(), tally.messages);
        assert!(tally.pace.is_some_and(|pace| pace > 0.0 && pace.is_finite()));
        // Of 200 expected; a Poisson count is off by six standard deviations once in 10⁹.
        assert!((115..=285).contains(&tally.messages), "{}", tally.messages);
    }
}

#[test]
fn one_mistake_in_ten_thousand_messages_is_found_each_time_by_its_word() {
    for mistake in [Mistake::Duplicate, Mistake::Swap, Mistake::Echo, Mistake::Mislead] {
        let (made, counted) = found(mistake, RARE, PATIENCE).unwrap();
        assert_eq!(counted, made, "{mistake:?}");
    }
}

/// What is changed beyond recognition is missing for as long as what was lost.
#[test]
fn a_mistake_that_leaves_a_delivery_missing_is_found_each_time_by_its_word() {
    for mistake in [Mistake::Lose, Mistake::Corrupt] {
        let exactly = |patience| match found(mistake, RARE, patience) {
            Ok((made, counted)) => {
                // No mistake is ever missed, while on a busy machine what is right may take longer than the patience.
                assert!(
                    counted[0] >= made[0] && counted[1..] == made[1..],
                    "{mistake:?}: {counted:?}"
                );
                counted == made
            }
            Err(LoadError::NotGreeted(..)) => false,
            Err(other) => panic!("{other}"),
        };
        assert!(
            (0..8).any(|times| exactly(Duration::from_millis(300 << times))),
            "{mistake:?}: the server is silent for 38 s"
        );
    }
}

#[test]
fn a_run_goes_on_after_a_loss() {
    // Each sender has one message on its way, so that one loss would stop it for good, and all of them after a hundred.
    let server = Server::start(Mistake::Lose, 5);
    let mut groups = connect(&server, Duration::from_millis(50)).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut messages = 0;
    while messages <= 150 {
        assert!(
            Instant::now() < deadline,
            "twenty senders stop at their first loss"
        );
        match groups.talk(closed(1), 5 * SPAN) {
            Err(LoadError::Faulty(tally)) => messages = tally.messages,
            other => panic!("one of five is lost, and it says {other:?}"),
        }
    }
}

#[test]
fn the_first_of_each_kind_is_named() {
    let server = Server::start(Mistake::Mislead, 100);
    let mut groups = connect(&server, PATIENCE).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let faults = loop {
        assert!(Instant::now() < deadline, "no mistake is made");
        match groups.talk(closed(16), SPAN) {
            Ok(_) => {}
            Err(LoadError::Faulty(tally)) => break tally.faults,
            Err(other) => panic!("{other}"),
        }
    };
    let first = faults.first(FaultKind::Misdelivered).unwrap();
    let MessageId::Known { sender, .. } = first.message else {
        panic!("{first}");
    };
    assert_ne!(first.connection / 10, sender / 10);
    assert!(faults.to_string().contains(" misdelivered ("), "{faults}");
}

#[test]
fn a_complaint_is_quoted() {
    let server = Server::start(Mistake::Complain, 5);
    let complaint = connect(&server, PATIENCE).unwrap().talk(closed(16), SPAN);
    let complaint = complaint.unwrap_err().to_string();
    assert!(
        complaint.ends_with("the server says \"-ERR 'Slow Consumer'\""),
        "{complaint}"
    );
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
