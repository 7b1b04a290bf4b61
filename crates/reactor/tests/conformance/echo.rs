//! `echo`: every byte comes back, once and in order.

use crate::client::pattern;
use crate::{Case, Pair};

pub const CASES: &[Case] = &[
    ("bytes_cut_at_every_place_come_back", cut_at_every_place),
    (
        "a_client_that_reads_only_when_it_must_gets_all",
        reads_only_when_it_must,
    ),
    ("what_came_before_a_half_close_comes_back", half_closed),
    ("a_reset_ends_one_connection_and_no_other", reset),
    ("garbage_comes_back", garbage),
    ("a_server_that_a_case_lets_go_leaves_nobody", let_go),
];

fn cut_at_every_place(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    let message = pattern(40);
    for (start, end) in (1..message.len()).map(|cut| message.split_at(cut)) {
        for part in [start, end] {
            client.send(part);
            client.expect(part);
        }
    }
    let counted = server.stop();
    let bytes = 39 * 40;
    assert_eq!((counted.of("bytes_in"), counted.of("bytes_out")), (bytes, bytes));
}

fn reads_only_when_it_must(pair: Pair) {
    let server = pair.serve(&["output_limit=65536"]);
    let mut client = server.connect();
    client.take_little();
    let message = pattern(18 << 20);
    let (mut sent, mut read) = (0, 0);
    while read < message.len() {
        let went = client.send_at_once(&message[sent..]);
        sent += went;
        if went == 0 {
            // Little at a time, so that it is full again at once.
            let came = client.read(100_000);
            assert!(!came.is_empty(), "the server ended after {read} bytes");
            assert!(message[read..].starts_with(&came), "other bytes after {read}");
            read += came.len();
        }
    }
    server.held_little(message.len());
    server.stop();
}

fn half_closed(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    client.send("the last words");
    client.end();
    client.expect("the last words");
    client.expect_end();
    server.stop().expect("ended by client", 1);
}

fn reset(pair: Pair) {
    let server = pair.serve(&[]);
    let mut others: Vec<_> = (1..pair.at_once(3)).map(|_| server.connect()).collect();
    let mut rude = server.connect();
    rude.send("x");
    rude.expect("x");
    server.until_closed(rude.reset());
    others.push(server.connect());
    for other in &mut others {
        other.send("still here");
        other.expect("still here");
    }
    server.stop().expect("lost", 1);
}

fn garbage(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    let garbage: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    client.send(&garbage);
    client.end();
    client.expect(&garbage);
    client.expect_end();
    server.stop();
}

/// As a case does that is tried again: whoever it has forked is looked for behind each.
fn let_go(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    client.send("x");
    client.expect("x");
}
