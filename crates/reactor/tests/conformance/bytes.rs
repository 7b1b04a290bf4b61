//! `bytes`: as many bytes as asked for.

use crate::any::stop_while_it_lingers;
use crate::{Case, Pair};

pub const CASES: &[Case] = &[
    ("a_stop_waits_for_no_socket_that_lingers", stop_while_it_lingers),
    ("a_number_is_answered_with_so_many_bytes_and_the_end", answered),
    ("requests_cut_at_every_place_are_answered", cut_at_every_place),
    ("requests_in_one_piece_are_answered_in_order", in_one_piece),
    ("a_half_closed_client_gets_its_answers", half_closed),
    ("a_wrong_request_is_refused_with_a_message", refused),
    ("an_endless_line_is_cut_off", endless),
    ("what_comes_behind_the_end_is_received", received_behind_the_end),
    ("clients_that_come_and_go_at_once_all_get_theirs", come_and_go),
];

fn answer(count: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(count).collect()
}

fn answered(pair: Pair) {
    let server = pair.serve(&[]);
    for count in [1, 4_000, 16_384] {
        let mut client = server.connect();
        client.send(format!("{count}\n"));
        client.expect(answer(count));
        client.expect_end();
    }
    server.stop().expect("finished", 3);
}

fn cut_at_every_place(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    for cut in 1..9 {
        let (start, end) = b"100 keep\n".split_at(cut);
        client.send_apart(start);
        client.send(end);
        client.expect(answer(100));
    }
    server.stop().expect("messages", 8);
}

fn in_one_piece(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    let counts = || (1..300).map(|i| i * 7 % 97 + 1);
    let requests: String = counts().map(|count| format!("{count} keep\n")).collect();
    client.send(requests + "5\n");
    for count in counts() {
        client.expect(answer(count));
    }
    client.expect("abcde");
    client.expect_end();
    server.stop();
}

fn half_closed(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    client.send("3 keep\n2 keep\n77");
    client.end();
    client.expect("abcab");
    client.expect_end();
    server.stop().expect("ended by client", 1);
}

fn refused(pair: Pair) {
    let server = pair.serve(&[]);
    for wrong in ["0\n", "16385\n", "many\n", "\n", "GET / HTTP/1.1\r\n"] {
        let mut client = server.connect();
        client.send(wrong);
        let said = client.rest();
        assert!(
            said.starts_with(b"refused: ") && said.ends_with(b"\n"),
            "{wrong:?}: {said:?}"
        );
    }
    server.stop().expect("refused", 5);
}

fn endless(pair: Pair) {
    let server = pair.serve(&[]);
    server.connect().send_without_end(b'1');
    let mut next = server.connect();
    next.send("3\n");
    next.expect("abc");
    server.stop().expect("message too long", 1);
}

/// Whatever has ended it, and whether there was anything to send.
fn received_behind_the_end(pair: Pair) {
    let server = pair.serve(&[]);
    // More than a receive, and more after that.
    let (at_once, apart) = ([b'x'; 300_000], b"more");
    for last in ["16384\n".to_owned(), "many\n".to_owned(), "1".repeat(100)] {
        let mut client = server.connect();
        client.send([last.as_bytes(), &at_once].concat());
        client.rest();
        client.send_apart(apart);
        client.send_apart(apart);
        client.end();
    }
    let sent = 6 + 5 + 100 + 3 * (at_once.len() + 2 * apart.len());
    assert_eq!(server.stop().of("bytes_in"), sent as u64);
}

fn come_and_go(pair: Pair) {
    let server = pair.serve(&[]);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let mut client = server.connect();
                    client.send("4000\n");
                    client.expect(answer(4_000));
                    client.expect_end();
                }
            });
        }
    });
    let counted = server.stop();
    assert_eq!((counted.of("accepted"), counted.of("bytes_out")), (100, 400_000));
}
