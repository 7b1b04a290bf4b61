//! What is much is done in turns: by what a session has done after one of them.

use super::super::member::tests::{ask, connect, hear, server};
use super::super::{Groups, Options};
use super::*;
use crate::testing::Rehearsal;

/// So many are many: each has a name of its own, so that none is like the next.
const MANY: usize = 10_000;
/// No turn has more deliveries.
const MOST_IN_A_TURN: usize = 4 * 1024;

/// A client that has so many subscriptions to this subject.
fn hearer(server: &mut Rehearsal<Groups>, subject: &str, count: usize) -> ConnectionId {
    let client = connect(server);
    let all: String = (0..count).map(|sid| format!("SUB {subject} {sid}\r\n")).collect();
    assert_eq!(ask(server, client, &all), "");
    client
}

/// Has a session go on until it has nothing more to do. How often it was called, and the most messages that the hearer
/// got at once; and all that it got.
fn in_turns(
    server: &mut Rehearsal<Groups>,
    speaker: ConnectionId,
    to: ConnectionId,
) -> (usize, usize, String) {
    let (mut turns, mut most, mut all) = (0, 0, String::new());
    loop {
        let came = hear(server, to);
        most = most.max(came.matches("MSG ").count());
        all += &came;
        if !server.go_on(speaker) {
            return (turns, most, all + &hear(server, to));
        }
        turns += 1;
    }
}

fn delivered(sids: impl Iterator<Item = usize>, text: &str) -> String {
    sids.map(|sid| format!("MSG a {sid} {}\r\n{text}\r\n", text.len()))
        .collect()
}

#[test]
fn a_message_to_many_is_sent_in_turns_and_in_order() {
    let mut server = server(Options::default());
    let many = hearer(&mut server, "a", MANY);
    let [speaker, other] = [(); 2].map(|()| connect(&mut server));
    assert!(server.receive_for_a_turn(speaker, b"PUB a 3\r\none\r\nPUB a 3\r\ntwo\r\nPING\r\n"));
    // Others are served in between, and what comes after is not heard before.
    assert_eq!(ask(&mut server, other, "PING\r\n"), "PONG\r\n");
    assert_eq!(hear(&mut server, speaker), "");
    let (turns, most, all) = in_turns(&mut server, speaker, many);
    assert!(
        turns >= 2 * MANY / MOST_IN_A_TURN && most <= MOST_IN_A_TURN,
        "{most} in one of {turns}"
    );
    assert!(all == ["one", "two"].map(|text| delivered(0..MANY, text)).concat());
    assert_eq!(hear(&mut server, speaker), "PONG\r\n");
}

#[test]
fn a_message_to_its_own_sender_is_no_exception() {
    let mut server = server(Options::default());
    let own = hearer(&mut server, "a", MANY);
    assert!(server.receive_for_a_turn(own, b"PUB a 3\r\none\r\n"));
    let (_, most, all) = in_turns(&mut server, own, own);
    assert!(
        most <= MOST_IN_A_TURN && all == delivered(0..MANY, "one"),
        "{most}"
    );
}

#[test]
fn a_large_message_counts_for_as_many_as_copying_it_takes() {
    let mut server = server(Options::default());
    let many = hearer(&mut server, "a", 300);
    let speaker = connect(&mut server);
    assert!(!server.receive_for_a_turn(speaker, b"PUB a 3\r\none\r\nPUB a 3\r\ntwo\r\n"));
    assert!(hear(&mut server, many) == ["one", "two"].map(|text| delivered(0..300, text)).concat());
    // Sixteen times as much as is copied in the time of a delivery.
    let large = "x".repeat(16 * COPIED_IN_A_DELIVERY);
    let message = format!("PUB a {}\r\n{large}\r\n", large.len());
    assert!(server.receive_for_a_turn(speaker, message.as_bytes()));
    let (_, most, all) = in_turns(&mut server, speaker, many);
    assert_eq!(most, MOST_IN_A_TURN.div_ceil(17));
    assert!(all == delivered(0..300, &large));
}

#[test]
fn so_many_that_they_are_not_found_at_once_get_it_once() {
    let mut server = server(Options::default());
    let count = 90_000;
    let many = hearer(&mut server, "a", count);
    let queue = connect(&mut server);
    let members: String = (0..5).map(|sid| format!("SUB * q {sid}\r\n")).collect();
    server.receive(queue, members.as_bytes());
    let speaker = connect(&mut server);
    for text in ["one", "two"] {
        assert!(server.receive_for_a_turn(speaker, format!("PUB a 3\r\n{text}\r\n").as_bytes()));
        let (_, most, all) = in_turns(&mut server, speaker, many);
        assert!(
            most <= MOST_IN_A_TURN && all == delivered(0..count, text),
            "{most}"
        );
        assert_eq!(hear(&mut server, queue).matches("MSG a ").count(), 1);
    }
}

#[test]
fn who_ends_a_subscription_gets_nothing_more_though_a_message_is_on_its_way() {
    let mut server = server(Options::default());
    let many = hearer(&mut server, "a", MANY);
    let speaker = connect(&mut server);
    assert!(server.receive_for_a_turn(speaker, b"PUB a 3\r\none\r\n"));
    let before = hear(&mut server, many);
    let last = MANY - 1;
    assert_eq!(
        ask(&mut server, many, &format!("UNSUB {last}\r\nPING\r\n")),
        "PONG\r\n"
    );
    let (_, _, after) = in_turns(&mut server, speaker, many);
    assert!(before + &after == delivered(0..last, "one"));
}

#[test]
fn what_a_client_has_said_comes_to_all_though_it_is_lost() {
    let mut server = server(Options::default());
    let many = hearer(&mut server, "a", MANY);
    let speaker = connect(&mut server);
    assert!(server.receive_for_a_turn(speaker, b"PUB a 3\r\none\r\n"));
    server.lose(speaker);
    assert_eq!(server.closed(speaker), Some(crate::CloseReason::Lost));
    assert!(hear(&mut server, many) == delivered(0..MANY, "one"));
}

#[test]
fn many_subscriptions_are_taken_away_in_turns() {
    let groups = Groups::default();
    let monitor = groups.monitor();
    let mut server = Rehearsal::new(groups);
    let wrong = hearer(&mut server, "a", MANY);
    assert!(server.receive_for_a_turn(wrong, b"WRONG\r\n"));
    let left = monitor.server().subscriptions;
    assert!(left >= MANY - MOST_IN_A_TURN, "{left}");
    while server.go_on(wrong) {}
    assert_eq!((monitor.server().subscriptions, monitor.closed().len()), (0, 1));
    assert_eq!(monitor.closed()[0].client.subscriptions, MANY);
}

#[test]
fn a_change_that_revokes_much_is_much() {
    let groups = Groups::default();
    let monitor = groups.monitor();
    let mut server = Rehearsal::new(groups);
    let speaker = connect(&mut server);
    let all: String = (0..MANY)
        .map(|first| format!("PUB {first}.a 0\r\n\r\n"))
        .collect();
    server.receive(speaker, all.as_bytes());
    let other = connect(&mut server);
    // Each of them looks through all that is known.
    let all: String = (0..100).map(|sid| format!("SUB *.{sid} {sid}\r\n")).collect();
    assert!(server.receive_for_a_turn(other, all.as_bytes()));
    assert!(
        monitor.server().subscriptions < 10,
        "{}",
        monitor.server().subscriptions
    );
    while server.go_on(other) {}
    assert_eq!(monitor.server().subscriptions, 100);
}

fn traced(only: bool, destination: &str) -> String {
    let only = if only { "Nats-Trace-Only: true\r\n" } else { "" };
    let headers = format!("NATS/1.0\r\nNats-Trace-Dest: {destination}\r\n{only}\r\n");
    format!("HPUB a {0} {0}\r\n{headers}\r\n", headers.len())
}

#[test]
fn a_trace_that_nobody_hears_is_not_made() {
    let mut server = server(Options::default());
    let many = hearer(&mut server, "a", MANY);
    let speaker = connect(&mut server);
    // Nobody gets the message either, so there is nothing to do, however often.
    let often = traced(true, "to").repeat(100);
    assert!(!server.receive_for_a_turn(speaker, often.as_bytes()));
    assert_eq!(hear(&mut server, many), "");
    server.receive(speaker, traced(false, "to").as_bytes());
    assert_eq!(hear(&mut server, many).matches("MSG a ").count(), MANY);
    let listener = hearer(&mut server, "to", 1);
    server.receive(speaker, traced(true, "to").as_bytes());
    assert!(
        hear(&mut server, listener).contains("\"seq\":1,"),
        "it is the first"
    );
}

#[test]
fn a_trace_of_many_deliveries_is_made_in_turns_and_whole() {
    let mut server = server(Options::default());
    hearer(&mut server, "a", MANY);
    let listener = hearer(&mut server, "to", 1);
    let speaker = connect(&mut server);
    assert!(server.receive_for_a_turn(speaker, traced(true, "to").as_bytes()));
    let (turns, _, report) = in_turns(&mut server, speaker, listener);
    // To write down where it went takes longer than to send it.
    assert!(turns > MANY / MOST_IN_A_TURN, "{turns}");
    let (_, json) = report.split_once("\r\n").expect("a message");
    let trace: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(trace["events"].as_array().map(Vec::len), Some(1 + MANY));
}
