//! `http`: pages, in the order in which they are asked for.

use crate::dates::THE_FIRST_DATE;
use crate::http_requests::{requests, summary};
use crate::{Case, Pair};

pub const CASES: &[Case] = &[
    ("requests_cut_at_every_place_are_answered", cut_at_every_place),
    ("requests_in_one_piece_are_answered_in_order", in_one_piece),
    ("who_wants_one_page_gets_it_and_the_end", one_page),
    ("a_half_closed_client_gets_its_answers", half_closed),
    ("the_table_of_requests_holds", table),
    ("a_wrong_request_is_refused_after_the_answers_before_it", refused),
    ("an_endless_head_is_cut_off", endless),
];

/// Asks for a page of so many bytes.
pub fn request(count: usize) -> String {
    format!("GET /{count} HTTP/1.1\r\nHost: x\r\n\r\n")
}

/// What a client takes for the answer.
pub fn answer(count: usize) -> String {
    answer_with("", count)
}

fn answer_with(header: &str, count: usize) -> String {
    let page: String = ('a'..='z').cycle().take(count).collect();
    format!(
        "HTTP/1.1 200 OK\r\nDate: {THE_FIRST_DATE}\r\nContent-Type: text/plain; charset=utf-8\r\n{header}\
         Content-Length: {count}\r\n\r\n{page}"
    )
}

fn cut_at_every_place(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    let request = request(100);
    for cut in 1..request.len() {
        let (start, end) = request.split_at(cut);
        client.send_apart(start.as_bytes());
        client.send(end);
        client.expect(answer(100));
    }
    server.stop().expect("messages", request.len() as u64 - 1);
}

fn in_one_piece(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    let counts = || (1..300).map(|i| i * 7 % 97 + 1);
    client.send(counts().map(request).collect::<String>());
    for count in counts() {
        client.expect(answer(count));
    }
    server.stop();
}

fn one_page(pair: Pair) {
    let server = pair.serve(&[]);
    for request in [
        "GET /16384 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /16384 HTTP/1.0\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.send(request);
        client.expect(answer_with("Connection: close\r\n", 16_384));
        client.expect_end();
    }
    server.stop().expect("finished", 2);
}

fn half_closed(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    client.send(request(3) + &request(2) + "GET /77 HT");
    client.end();
    client.expect(answer(3) + &answer(2));
    client.expect_end();
    server.stop().expect("ended by client", 1);
}

fn table(pair: Pair) {
    let server = pair.serve(&[]);
    let (mut refused, mut finished) = (0, 0);
    for (request, expected) in requests() {
        let mut client = server.connect();
        client.send(&request);
        client.end();
        assert_eq!(summary(&client.rest()), expected, "{request:?}");
        match expected.rsplit(", ").next() {
            Some(last) if !last.contains("close") => {}
            Some(last) if last.starts_with("200") => finished += 1,
            _ => refused += 1,
        }
    }
    let counted = server.stop();
    counted.expect("refused", refused);
    counted.expect("finished", finished);
}

fn refused(pair: Pair) {
    let server = pair.serve(&[]);
    let mut client = server.connect();
    client.send(request(5) + "5 keep\r\n\r\n" + &request(7));
    client.expect(answer(5));
    let said = String::from_utf8(client.rest()).expect("text");
    assert!(said.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{said}");
    assert_eq!(said.matches("HTTP/1.1").count(), 1, "{said}");
    server.stop().expect("refused", 1);
}

fn endless(pair: Pair) {
    let server = pair.serve(&[]);
    server.connect().send_without_end(b'G');
    let mut next = server.connect();
    next.send(request(3));
    next.expect(answer(3));
    server.stop().expect("refused", 1);
}
