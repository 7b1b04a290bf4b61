//! How long a request may take to come: the first from the beginning on, each other from its first byte on.

use std::thread::sleep;
use std::time::Duration;

use threadgauge_reactor::BuiltIn;

use crate::any::exchange;
use crate::client::Client;
use crate::{Case, Pair};

/// Those for this protocol.
pub fn cases(protocol: BuiltIn) -> &'static [Case] {
    match protocol {
        // Any byte is a message.
        BuiltIn::Echo | BuiltIn::Null => &[],
        BuiltIn::Groups => CASES,
        _ => &CASES[..1],
    }
}

const CASES: &[Case] = &[
    (
        "who_does_not_finish_a_later_request_in_time_is_closed_and_who_rests_is_not",
        later_request,
    ),
    ("a_payload_may_take_longer_than_its_line", payload),
];

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Tries with longer and longer times until what came first was in time.
fn in_time(pair: Pair, test: impl Fn(Client, Duration)) {
    let mut limit = Duration::from_millis(50);
    loop {
        let handshake = format!("handshake_ms={}", limit.as_millis());
        // Ends it in the end whatever happens.
        let idle = format!("idle_ms={}", 20 * limit.as_millis());
        let server = pair.serve(&[&handshake, &idle]);
        let mut client = server.connect();
        if is_answered(pair, &mut client) {
            test(client, limit);
            return server.stop().expect("no message in time", 1);
        }
        limit *= 2;
        assert!(limit < PATIENCE, "nothing came in time");
    }
}

fn is_answered(pair: Pair, client: &mut Client) -> bool {
    let (request, answer) = exchange(pair.protocol, 0);
    if client.try_send(request.as_bytes()).is_err() {
        return false;
    }
    if pair.protocol == BuiltIn::Groups && !client.line().starts_with("INFO") {
        return false;
    }
    client.read_up_to(answer.len()).len() == answer.len()
}

/// It is sent byte by byte, each of them in time.
fn later_request(pair: Pair) {
    in_time(pair, |mut client, limit| {
        sleep(3 * limit);
        let (mut request, answer) = exchange(pair.protocol, 1);
        client.send(&request);
        client.expect(answer);
        sleep(3 * limit);
        if request.is_empty() {
            "a line".clone_into(&mut request);
        }
        for byte in &request.as_bytes()[..request.len() - 1] {
            if client.has_something() || client.try_send(&[*byte]).is_err() {
                break;
            }
            sleep(limit / 4);
        }
        client.expect_end();
    });
}

fn payload(pair: Pair) {
    in_time(pair, |mut client, limit| {
        client.send("PUB a 5\r\nhe");
        sleep(3 * limit);
        client.send("llo\r\nPING\r\nPIN");
        client.expect("+OK\r\nPONG\r\n");
        client.expect_end();
    });
}
