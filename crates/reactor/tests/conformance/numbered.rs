//! `numbered`: each request is answered once, in any order.

use std::collections::BTreeMap;

use crate::client::Client;
use crate::{Case, Pair};

pub const CASES: &[Case] = &[
    ("each_of_many_requests_under_way_is_answered_once", pipelined),
    ("clients_get_their_own_answers", own_answers),
    ("requests_cut_at_every_place_are_answered", cut_at_every_place),
    ("a_half_closed_client_gets_what_is_under_way", half_closed),
    ("a_client_that_is_gone_costs_nothing", gone),
    ("a_wrong_request_is_refused_after_the_answers_before_it", refused),
];

/// The lines that come until there are `count`.
fn lines(client: &mut Client, count: usize) -> BTreeMap<String, usize> {
    let mut came = Vec::new();
    while came.iter().filter(|&&byte| byte == b'\n').count() < count {
        let more = client.read(65_536);
        assert!(
            !more.is_empty(),
            "the server ended after {:?}",
            String::from_utf8_lossy(&came)
        );
        came.extend(more);
    }
    let mut lines = BTreeMap::new();
    for line in String::from_utf8(came).unwrap().lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

fn requests(name: &str, ids: impl Iterator<Item = usize>) -> (String, BTreeMap<String, usize>) {
    ids.map(|id| {
        let ms = if id % 8 == 0 { 1 } else { 0 };
        let request = format!("{id} {ms} {name}{id}\n");
        (request, (format!("{id} {name}{id}"), 1))
    })
    .unzip()
}

fn pipelined(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    let (requests, answers) = requests("x", 0..1_000);
    let mut sender = client.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(requests));
        assert_eq!(lines(&mut client, 1_000), answers);
    });
    assert!(!client.has_something());
    server.stop().expect("messages", 1_000);
}

fn own_answers(pair: Pair) {
    let server = pair.serve(&[]);
    let mut clients: Vec<_> = (0..pair.at_once(5)).map(|_| server.connect()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(requests(&format!("of {i}: "), 0..50).0);
    }
    for (i, client) in clients.iter_mut().enumerate() {
        assert_eq!(lines(client, 50), requests(&format!("of {i}: "), 0..50).1);
    }
    server.stop();
}

fn cut_at_every_place(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    let request = b"12 1 ab\r\n";
    for cut in 1..request.len() {
        client.send_apart(&request[..cut]);
        client.send(&request[cut..]);
        client.expect("12 ab\n");
    }
    server.stop();
}

fn half_closed(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    let (requests, answers) = requests("y", 0..100);
    client.send(requests);
    client.end();
    assert_eq!(lines(&mut client, 100), answers);
    client.expect_end();
    server.stop().expect("ended by client", 1);
}

fn gone(pair: Pair) {
    let server = pair.serve(&[]);
    let mut rude = server.connect();
    rude.send("1 0 x\n");
    rude.expect("1 x\n");
    rude.send_apart(b"2 20 y\n3 20 z\n");
    rude.reset();
    let mut next = server.connect();
    next.send("4 1 x\n");
    next.expect("4 x\n");
    server.stop();
}

fn refused(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    client.send("1 0 x\n2 0 y\nnonsense\n3 0 z\n");
    client.expect("1 x\n2 y\nrefused: ");
    assert!(client.rest().ends_with(b"\n"));
    server.stop().expect("refused", 1);
}
