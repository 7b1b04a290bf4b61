//! The driver against servers of NATS' protocol that make mistakes: what is right passes, and every mistake is counted
//! under its own word.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use threadgauge_load::codec::{Chat, Nats};
use threadgauge_load::{
    Arrivals, Failure, FaultKind, Groups, IfFewer, InvalidRun, Load, LoadError, MessageId, Plan, Ramp,
};
use threadgauge_machine::clock::thread_cpu_ns;

use super::faulty::{Mistake, Server};
use super::{accepts_nobody, goes_on_until};

const SPAN: Duration = Duration::from_millis(200);
/// With a server that is not silent but slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// With a mistake in one of so many messages.
const RARE: u64 = 10_000;

fn connect(server: &Server, patience: Duration) -> Result<Groups, LoadError> {
    let plan = Plan {
        connections: 20,
        group_size: 10,
        payload_bytes: "40..104".parse().unwrap(),
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
        assert_eq!((groups.copies(), groups.connections()), (9, 20));
        let (begun, cpu_ns) = (Instant::now(), thread_cpu_ns());
        let tally = groups.talk(closed(outstanding), SPAN).unwrap();
        let used = Duration::from_nanos(thread_cpu_ns() - cpu_ns);
        assert!((SPAN..=begun.elapsed()).contains(&tally.elapsed), "{tally:?}");
        assert!(!tally.cpu.is_zero() && tally.cpu <= used, "{tally:?}");
        assert!(tally.messages >= 20 * outstanding as u64);
        assert_eq!(tally.deliveries, 9 * tally.messages);
        assert_eq!(tally.last.count(), tally.messages);
        assert_eq!((tally.latency.count(), tally.service.count()), (0, 0));
    }
}

#[test]
fn who_is_to_send_so_many_sends_so_many_however_long_that_takes() {
    let server = Server::start(Mistake::None, 1);
    let mut groups = connect(&server, PATIENCE).unwrap();
    for outstanding in [1, 16] {
        let load = Load::Counted {
            messages: 25,
            outstanding: NonZeroUsize::new(outstanding).unwrap(),
        };
        let tally = groups.talk(load, Duration::ZERO).unwrap();
        assert_eq!((tally.messages, tally.deliveries), (20 * 25, 9 * 20 * 25));
        assert_eq!(tally.pace, None);
    }
}

#[test]
fn members_that_think_say_little_and_each_of_their_messages_is_delivered() {
    let server = Server::start(Mistake::None, 1);
    let mut groups = connect(&server, PATIENCE).unwrap();
    let load = Load::Thinking {
        outstanding: NonZeroUsize::MIN,
        think: SPAN / 4,
        arrivals: Arrivals::Uniform,
        seed: 1,
    };
    let tally = groups.talk(load, SPAN).unwrap();
    // A first thought of up to a quarter of the span, then at most one message in a quarter of each.
    assert!((20..=20 * 5).contains(&tally.messages), "{}", tally.messages);
    assert_eq!(tally.deliveries, 9 * tally.messages);
    let record = groups.run(load, SPAN, 7, &mut ()).unwrap();
    assert_eq!((record.sent, record.answered, record.bounded), (7, 9 * 7, true));
}

#[test]
fn in_a_closed_loop_members_come_and_go_with_the_ramp() {
    let server = Server::start(Mistake::None, 1);
    let mut groups = connect(&server, PATIENCE).unwrap();
    let ramp = Ramp {
        up: SPAN,
        hold: SPAN,
        down: SPAN,
    };
    let load = Load::Thinking {
        outstanding: NonZeroUsize::MIN,
        think: SPAN / 10,
        arrivals: Arrivals::Uniform,
        seed: 1,
    };
    let record = groups.run_ramped(load, ramp, u64::MAX, &mut ()).unwrap();
    // Half of the members on average while they come and go, each with at most ten messages in a span and one more.
    assert!((20..=460).contains(&record.sent), "{}", record.sent);
    assert!(
        record.held.intended > 0 && record.held.intended < 9 * record.sent,
        "{:?}",
        record.held
    );
    assert_eq!(record.answered, 9 * record.sent);
}

#[test]
fn a_rate_rises_and_falls_and_only_what_held_is_measured() {
    let server = Server::start(Mistake::None, 1);
    let mut groups = connect(&server, PATIENCE).unwrap();
    let load = Load::Open {
        deliveries_per_second: 9.0 * 1_000.0,
        arrivals: Arrivals::Uniform,
        seed: 1,
    };
    let ramp = Ramp {
        up: SPAN,
        hold: SPAN,
        down: SPAN,
    };
    let record = groups.run_ramped(load, ramp, u64::MAX, &mut ()).unwrap();
    // 100 while it rises, 200 while it holds, 100 while it falls.
    assert!((390..=400).contains(&record.sent), "{}", record.sent);
    assert!(
        (9 * 195..=9 * 200).contains(&record.held.intended),
        "{:?}",
        record.held
    );
    assert_eq!(record.held.answered, record.held.intended);
    assert_eq!(record.answered, 9 * record.sent);
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
fn what_a_rate_beyond_all_bounds_leaves_unsent_is_given_up() {
    let server = Server::start(Mistake::None, 1);
    let load = Load::Open {
        deliveries_per_second: 9.0 * 2e8,
        arrivals: Arrivals::Uniform,
        seed: 1,
    };
    let span = Duration::from_millis(10);
    let mut groups = connect(&server, Duration::from_millis(300)).unwrap();
    let record = groups.run(load, span, u64::MAX, &mut ()).unwrap();
    let all = 9 * 2_000_000;
    assert!(9 * record.sent < all / 2, "{} were sent", record.sent);
    let told = record.answered + record.unfinished;
    assert!((all - 9..=all).contains(&told), "{told}");
    assert!((all - 9..=all).contains(&record.held.intended));
    assert!(record.invalid_because(None).contains(&InvalidRun::Slow));
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
    for mistake in [Mistake::Lose, Mistake::Corrupt, Mistake::Shorten] {
        let exactly = |patience| match found(mistake, RARE, patience) {
            Ok((made, counted)) => {
                // No mistake is ever missed, while on a busy machine what is right may take longer than the patience.
                assert!(
                    counted[0] >= made[0] && counted[1..] == made[1..],
                    "{mistake:?}: {counted:?}"
                );
                counted == made
            }
            Err(LoadError::NotGreeted { .. }) => false,
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
    let deadline = Instant::now() + PATIENCE;
    // Where there is no CPU, a greeting takes longer than a message may.
    let (mut patience, mut messages) = (Duration::from_millis(50), 0);
    let mut groups = loop {
        match connect(&server, patience) {
            Err(LoadError::NotGreeted { .. }) if Instant::now() < deadline => patience *= 2,
            connected => break connected.unwrap(),
        }
    };
    while messages <= 150 {
        assert!(
            Instant::now() < deadline,
            "twenty senders stop at their first loss"
        );
        match groups.talk(closed(1), 20 * patience) {
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
fn a_record_has_every_delivery_and_every_fault_by_its_word() {
    for mistake in [Mistake::None, Mistake::Duplicate, Mistake::Mislead] {
        let server = Server::start(mistake, 20);
        let mut groups = connect(&server, PATIENCE).unwrap();
        let mut counted = [0; 5];
        // What should not come at all may come when a run has all that it waits for: the second run hears that.
        for outstanding in [16, 1] {
            let span = SPAN / (17 - outstanding as u32).pow(2);
            let record = groups.run(closed(outstanding), span, u64::MAX, &mut ()).unwrap();
            let faults = record.faults.as_ref().unwrap();
            FaultKind::ALL
                .iter()
                .for_each(|&kind| counted[kind as usize] += faults.count(kind));
            assert_eq!(
                (record.answered, record.unfinished),
                (9 * record.sent, 0),
                "{mistake:?}"
            );
            assert_eq!(
                record.last.map(|last| last.count()),
                Some(record.sent),
                "{mistake:?}"
            );
            assert_eq!(record.service.count(), record.held.intended, "{mistake:?}");
            assert!(record.bytes_in > 9 * 40 * record.sent && record.bytes_out > 40 * record.sent);
        }
        for kind in FaultKind::ALL {
            let made = if mistake.is() == Some(kind) {
                server.mistakes()
            } else {
                0
            };
            let found = counted[kind as usize];
            // The very last may be late again.
            assert!(
                (made.saturating_sub(1)..=made).contains(&found),
                "{mistake:?}: {found} of {made} {kind:?}"
            );
            assert_eq!(found > 0, made > 0, "{mistake:?}: {kind:?}");
        }
    }
}

#[test]
fn what_is_lost_is_unfinished_and_in_the_percentiles() {
    let server = Server::start(Mistake::Lose, 50);
    let mut groups = connect(&server, Duration::from_millis(500)).unwrap();
    let record = groups.run(closed(16), SPAN, u64::MAX, &mut ()).unwrap();
    let lost = record.faults.as_ref().unwrap().count(FaultKind::Lost);
    assert!(lost > 0 && lost >= server.mistakes(), "{lost}");
    assert_eq!(
        (record.unfinished, record.answered + lost),
        (lost, 9 * record.sent)
    );
    // Each that was to come of what was sent in the span is in the percentiles; the last turn may send after it.
    let (timed, intended) = (record.response.count(), record.held.intended);
    assert_eq!(timed, intended);
    assert!(timed > record.good.count(), "with those that were lost: {timed}");
}

#[test]
fn a_connection_that_fails_ends_the_run_and_what_was_measured_is_kept() {
    let server = Server::start(Mistake::Complain, 100);
    let record = connect(&server, PATIENCE)
        .unwrap()
        .run(closed(16), PATIENCE, u64::MAX, &mut ())
        .unwrap();
    assert!(record.ended_early && record.answered > 0);
    assert_eq!(record.failures.of(Failure::Garbage), 1);
    assert!(
        record
            .failures
            .said(Failure::Garbage)
            .is_some_and(|said| said.contains("Slow Consumer"))
    );
    // Before all that a machine that is busy does to it.
    assert_eq!(record.invalid_because(None)[0], InvalidRun::Ended);
    assert!(
        record.faults.is_some_and(|faults| faults.is_empty()),
        "nobody waited for what is missing"
    );
}

#[test]
fn a_record_keeps_its_rate_and_ends_by_its_bound() {
    let load = Load::Open {
        deliveries_per_second: 9.0 * 500.0,
        arrivals: Arrivals::Uniform,
        seed: 1,
    };
    let server = Server::start(Mistake::None, 1);
    let record = connect(&server, PATIENCE)
        .unwrap()
        .run(load, SPAN, u64::MAX, &mut ())
        .unwrap();
    assert!((98..=100).contains(&record.sent), "{}", record.sent);
    assert_eq!(
        (record.held.intended, record.answered),
        (9 * record.sent, 9 * record.sent)
    );
    assert_eq!(
        (record.response.count(), record.lag.count()),
        (record.answered, record.sent)
    );
    assert_eq!(record.connects, 20);
    let bounded = connect(&server, PATIENCE)
        .unwrap()
        .run(closed(2), PATIENCE, 30, &mut ())
        .unwrap();
    assert_eq!((bounded.sent, bounded.answered, bounded.bounded), (30, 270, true));
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
        payload_bytes: 64.into(),
        patience: Duration::from_millis(100),
    };
    let groups = Groups::connect(listener.local_addr().unwrap(), &Nats::ALIKE, plan);
    assert!(matches!(
        groups,
        Err(LoadError::NotGreeted { connections: 10, .. })
    ));
}

#[test]
fn while_connections_are_made_it_looks_at_whether_to_go_on() {
    let plan = Plan {
        connections: 1_000,
        group_size: 10,
        payload_bytes: 64.into(),
        patience: PATIENCE,
    };
    // While they are made, while nobody answers their greeting, and while the server accepts no more.
    for (most_asked, backlog, most_made) in [(10, 1_000, 9), (70, 1_000, 64), (20, 1, 19)] {
        let listener = accepts_nobody(backlog);
        let mut goes_on = goes_on_until(most_asked);
        let at = listener.local_addr().unwrap();
        let ended = Groups::connect_while(at, &Nats::ALIKE, plan, IfFewer::GoOn, &mut goes_on).unwrap_err();
        let LoadError::Interrupted { made, wanted, .. } = ended else {
            panic!("{ended}");
        };
        assert!(made <= most_made, "{made} of {wanted}");
        assert_eq!(wanted, 1_000);
    }
}

#[test]
fn connections_that_are_refused_in_the_greeting_are_counted_and_it_goes_on_if_asked() {
    let plan = |connections| Plan {
        connections,
        group_size: 10,
        payload_bytes: 64.into(),
        patience: PATIENCE,
    };
    // What the server does with the fifteenth of fifty connections and those after it.
    let full: &[u8] = b"-ERR 'maximum connections exceeded'\r\n";
    for (says, closes, quoted) in [
        (full, true, "maximum connections exceeded"),
        (full, false, "maximum connections exceeded"),
        (&[], true, "before all were greeted"),
    ] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut refused = Vec::new();
            for (nth, client) in listener.incoming().map_while(Result::ok).enumerate() {
                if nth % 50 < 14 {
                    std::thread::spawn(move || {
                        for line in BufReader::new(&client).lines().map_while(Result::ok) {
                            if line == "PING" && (&client).write_all(b"PONG\r\n").is_err() {
                                return;
                            }
                        }
                    });
                } else {
                    let _ = (&client).write_all(says);
                    refused.extend((!closes).then_some(client));
                }
            }
        });
        let connect = |if_fewer| Groups::connect_while(at, &Nats::ALIKE, plan(50), if_fewer, &mut || true);
        let error = connect(IfFewer::Fail).unwrap_err().to_string();
        assert!(
            error.contains("only 14 of 50 connections") && error.contains(quoted),
            "{error}"
        );
        assert_eq!(connect(IfFewer::GoOn).unwrap().connections(), 10);
    }
}

#[test]
fn who_ends_connections_or_speaks_of_something_else_is_quoted() {
    let plan = Plan {
        connections: 10,
        group_size: 10,
        payload_bytes: 64.into(),
        patience: Duration::from_millis(100),
    };
    let refused = |greets: &'static [u8]| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut clients = Vec::new();
            for mut client in listener.incoming().map_while(Result::ok) {
                if greets.is_empty() {
                    continue;
                }
                // Who has heard enough is gone.
                let _ = client.write_all(greets);
                clients.push(client);
            }
        });
        Groups::connect(at, &Chat, plan).unwrap_err().to_string()
    };
    let ended = refused(b"");
    assert!(
        ended.contains("before all were greeted") && ended.ends_with("does it speak chat?"),
        "{ended}"
    );
    let other = refused(b"220 mail.example\r\n");
    assert!(
        other.contains("10 connections") && other.contains("but sent \"220 mail.example\""),
        "{other}"
    );
}
