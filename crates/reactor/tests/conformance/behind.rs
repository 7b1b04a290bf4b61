//! What a client sends behind the request that ends its connection, and reads only later: it gets all of its answers.

use threadgauge_reactor::BuiltIn;

use crate::client::Client;
use crate::dates::undated;
use crate::{Case, Pair, http};

/// Those for this protocol.
pub fn cases(protocol: BuiltIn) -> &'static [Case] {
    match protocol {
        BuiltIn::Http => CASES,
        _ => &[],
    }
}

const CASES: &[Case] = &[(
    "who_sends_megabytes_behind_a_refused_request_and_reads_late_gets_all_answers",
    reads_late,
)];

/// More than the client's socket holds: the rest is with the server's kernel when the server has closed.
const PAGES: usize = 40;
const PAGE: usize = 16_384;
/// At once, each with so many megabytes behind its requests.
const BODIES: [usize; 8] = [1, 2, 3, 4, 1, 2, 3, 4];

fn reads_late(pair: Pair) {
    let server = pair.serve(&[]);
    std::thread::scope(|scope| {
        for &megabytes in &BODIES[..pair.at_once(BODIES.len())] {
            let mut client = server.connect();
            scope.spawn(move || {
                client.send(http::request(PAGE).repeat(PAGES));
                let body = vec![b'x'; megabytes << 20];
                let length = body.len();
                client.send(format!(
                    "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
                ));
                client.send(&body);
                client.until_received();
                expect_all(client);
            });
        }
    });
    server.stop();
}

fn expect_all(mut client: Client) {
    client.expect(http::answer(PAGE).repeat(PAGES));
    let mut refusal = client.rest();
    undated(&mut refusal);
    assert!(
        refusal.starts_with(b"HTTP/1.1 405 Method Not Allowed\r\n"),
        "{}",
        String::from_utf8_lossy(&refusal)
    );
}
