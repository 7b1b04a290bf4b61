//! What a client says, and what it and others hear of it.

use std::time::Duration;

use proptest::prelude::*;

use super::super::groups_answers::{rows, summary};
use super::super::{Groups, Options};
use super::*;
use crate::CloseReason;
use crate::clock::Clock;
use crate::connection::{Connection, Turn};
use crate::protocol::{Asked, Effects};
use crate::testing::{Rehearsal, split_anywhere};

/// Quiet, and knows headers.
const CONNECT: &str =
    "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n";
/// Said after that: it takes an `INFO` at any time.
const TAKES_NEWS: &[u8] = b"CONNECT {\"protocol\":1}\r\n";

pub fn server(options: Options) -> Rehearsal<Groups> {
    Rehearsal::new(Groups::new(options))
}

pub fn hear(server: &mut Rehearsal<Groups>, client: ConnectionId) -> String {
    String::from_utf8(server.take_output(client)).expect("text")
}

/// A client that has said nothing but what was read.
fn stranger(server: &mut Rehearsal<Groups>) -> ConnectionId {
    let client = server.connect();
    let info = hear(server, client);
    assert!(info.starts_with("INFO {") && info.ends_with("} \r\n"), "{info}");
    client
}

pub fn connect(server: &mut Rehearsal<Groups>) -> ConnectionId {
    let client = stranger(server);
    server.receive(client, CONNECT.as_bytes());
    client
}

/// Says something, and what comes of it.
pub fn ask(server: &mut Rehearsal<Groups>, client: ConnectionId, text: &str) -> String {
    server.receive(client, text.as_bytes());
    hear(server, client)
}

#[test]
fn a_message_goes_to_all_who_are_subscribed() {
    let mut server = server(Options::default());
    let [a, b, c] = [(); 3].map(|()| connect(&mut server));
    assert_eq!(ask(&mut server, a, "SUB room.1 7\r\n"), "");
    assert_eq!(ask(&mut server, b, "SUB room.* x\r\nSUB > all\r\n"), "");
    assert_eq!(
        ask(&mut server, c, "PUB room.1 5\r\nhello\r\nPUB room.2 re 0\r\n\r\n"),
        ""
    );
    assert_eq!(hear(&mut server, a), "MSG room.1 7 5\r\nhello\r\n");
    let mut came: Vec<_> = hear(&mut server, b)
        .split_inclusive("\n")
        .map(str::to_owned)
        .collect();
    came.sort();
    let mut expected = vec![
        "MSG room.1 x 5\r\n",
        "hello\r\n",
        "MSG room.1 all 5\r\n",
        "hello\r\n",
        "MSG room.2 x re 0\r\n",
        "\r\n",
        "MSG room.2 all re 0\r\n",
        "\r\n",
    ];
    expected.sort_unstable();
    assert_eq!(came, expected);
    assert_eq!(hear(&mut server, c), "");
}

#[test]
fn the_sender_gets_it_too_unless_it_says_no_and_before_what_it_asks_next() {
    let mut server = server(Options::default());
    let a = connect(&mut server);
    let echoed = "SUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n";
    assert_eq!(ask(&mut server, a, echoed), "MSG a 1 2\r\nhi\r\nPONG\r\n");
    assert_eq!(
        ask(
            &mut server,
            a,
            "CONNECT {\"echo\":false}\r\nPUB a 2\r\nhi\r\nPING\r\n"
        ),
        "PONG\r\n"
    );
}

#[test]
fn one_member_of_each_queue_gets_it() {
    let mut server = server(Options::default());
    let [a, b, asker] = [(); 3].map(|()| connect(&mut server));
    for client in [a, b] {
        server.receive(client, b"SUB work q 1\r\nSUB * other 2\r\n");
    }
    server.receive(
        asker,
        b"CONNECT {\"echo\":false}\r\nSUB work q 3\r\nSUB work 4\r\n",
    );
    for _ in 0..40 {
        assert_eq!(
            ask(&mut server, asker, "PUB work 1\r\nx\r\n"),
            "",
            "not to itself"
        );
    }
    let [a, b] = [a, b].map(|client| hear(&mut server, client));
    for sid in [1, 2] {
        let counts = [&a, &b].map(|came| came.matches(&format!("MSG work {sid} 1\r\nx\r\n")).count());
        assert_eq!(counts[0] + counts[1], 40, "{sid}");
        assert!(counts[0] > 0 && counts[1] > 0, "{sid}: {counts:?}");
    }
}

#[test]
fn a_subscription_ends_when_told_or_after_so_many() {
    let mut server = server(Options::default());
    let [a, b] = [(); 2].map(|()| connect(&mut server));
    server.receive(a, b"SUB a 1\r\nSUB a 2\r\nUNSUB 2 2\r\nUNSUB nobody\r\n");
    for _ in 0..3 {
        server.receive(b, b"PUB a 0\r\n\r\n");
    }
    let came = hear(&mut server, a);
    assert_eq!(
        (came.matches(" 1 0").count(), came.matches(" 2 0").count()),
        (3, 2)
    );
    server.receive(a, b"UNSUB 1\r\n");
    server.receive(b, b"PUB a 0\r\n\r\n");
    assert_eq!(hear(&mut server, a), "");
    // So many since it began: that is now.
    assert_eq!(
        ask(
            &mut server,
            a,
            "SUB a 3\r\nPUB a 0\r\n\r\nUNSUB 3 1\r\nPUB a 0\r\n\r\n"
        ),
        "MSG a 3 0\r\n\r\n"
    );
}

#[test]
fn a_row_of_messages_comes_whole_and_in_order() {
    let mut server = server(Options::default());
    let [a, b, late, sender] = [(); 4].map(|()| connect(&mut server));
    for client in [a, b] {
        server.receive(client, b"SUB a 1\r\nSUB b 1x\r\n");
    }
    let row = "PUB a 1\r\n1\r\nPUB a 2\r\n22\r\nPUB b 1\r\n3\r\nPUB a 0\r\n\r\nPUB a 1\r\n5\r\n";
    let came = "MSG a 1 1\r\n1\r\nMSG a 1 2\r\n22\r\nMSG a 1 0\r\n\r\nMSG a 1 1\r\n5\r\n";
    server.receive(late, b"SUB a 9\r\nUNSUB 9 2\r\n");
    // With a third that has another name for it and wants two messages, and without.
    for (text, lates) in [
        (row.to_owned(), "MSG a 9 1\r\n1\r\nMSG a 9 2\r\n22\r\n"),
        (format!("{row}PUB a 9\r\nnot whole"), ""),
    ] {
        assert_eq!(ask(&mut server, sender, &text), "");
        for client in [a, b] {
            let heard = hear(&mut server, client);
            let (third, others) = ("MSG b 1x 1\r\n3\r\n", heard.replace("MSG b 1x 1\r\n3\r\n", ""));
            assert!(heard.contains(third));
            assert_eq!(others, came);
        }
        assert_eq!(hear(&mut server, late), lates);
    }
}

#[test]
fn what_ends_a_subscription_comes_after_the_row_before_it() {
    let mut server = server(Options::default());
    let a = connect(&mut server);
    let one = "PUB a 1\r\nx\r\n";
    let text = format!("SUB a 1\r\n{one}{one}UNSUB 1\r\n{one}SUB a 2\r\n{one}{one}UNSUB 2 3\r\n{one}{one}");
    let expected = "MSG a 1 1\r\nx\r\n".repeat(2) + &"MSG a 2 1\r\nx\r\n".repeat(3);
    assert_eq!(ask(&mut server, a, &text), expected);
    let text = format!("SUB a 1\r\n{one}{one}HELLO\r\n");
    let heard = ask(&mut server, a, &text);
    let expected = "MSG a 1 1\r\nx\r\n".repeat(2) + "-ERR 'Unknown Protocol Operation'\r\n";
    assert_eq!(heard, expected, "what was right is sent before");
}

#[test]
fn a_long_row_is_sent_in_parts() {
    let mut server = server(Options::default());
    let receivers = [(); 20].map(|()| connect(&mut server));
    for client in receivers {
        server.receive(client, b"SUB a 1\r\n");
    }
    let sender = connect(&mut server);
    server.receive(sender, "PUB a 1\r\nx\r\n".repeat(5_000).as_bytes());
    server.receive(
        sender,
        format!("PUB a 70000\r\n{}\r\n", "y".repeat(70_000))
            .repeat(2)
            .as_bytes(),
    );
    for client in receivers {
        let heard = hear(&mut server, client);
        assert_eq!(heard.matches("MSG a 1 1\r\nx\r\n").count(), 5_000);
        assert_eq!(heard.matches("MSG a 1 70000\r\ny").count(), 2);
        assert_eq!(heard.len(), 5_000 * 14 + 2 * (17 + 70_000));
    }
}

#[test]
fn messages_to_one_subject_that_come_together_go_as_one() {
    let groups = Groups::new(Options::default());
    let mut server = Rehearsal::new(groups.clone());
    let [_, hearer] = [(); 2].map(|()| connect(&mut server));
    server.receive(hearer, b"SUB * 1\r\n");
    let (mut effects, mut member) = (Effects::default(), Connection::of(&groups));
    let mut turn = Turn {
        output: &mut Vec::new(),
        full_at: usize::MAX,
        effects: &mut effects,
        clock: &mut Clock::default(),
    };
    member.received(CONNECT.as_bytes(), &mut turn);
    let said = b"PUB a 1\r\n1\r\nPUB a 1\r\n2\r\nPUB b 1\r\n3\r\n";
    member.received(said, &mut turn);
    let sent: Vec<_> = effects.messages.iter().collect();
    let counts: Vec<_> = sent.iter().map(|(_, _, parts)| parts.messages).collect();
    assert_eq!(counts, [2, 1]);
}

#[test]
fn a_row_ends_by_deliveries_by_bytes_and_where_a_subscription_is_to_end() {
    let groups = Groups::new(Options::default());
    let mut server = Rehearsal::new(groups.clone());
    for _ in 0..20 {
        let client = connect(&mut server);
        server.receive(client, b"SUB a 1\r\nSUB b 2\r\nUNSUB 2 9\r\n");
    }
    let mut io = Io {
        id: ConnectionId::new(0, 0, 0),
        output: &mut Vec::new(),
        asked: &mut Asked::default(),
        effects: &mut Effects::default(),
        clock: &mut Clock::default(),
    };
    let composed = io.compose(&[], &[]);
    let takes_more = |subject: &[u8], messages, bytes| {
        let (Reached::All(route), _) = groups.0.index.reach(subject) else {
            panic!("they are few");
        };
        let row = Row {
            route,
            composed,
            messages,
            bytes,
        };
        row.takes_more()
    };
    // 204 messages to 20 are 4,080 deliveries, and 205 are more than 4,096.
    for (messages, bytes, expected) in [
        (1, 0, true),
        (203, 0, true),
        (204, 0, false),
        (2, 65_535, true),
        (2, 65_536, false),
    ] {
        assert_eq!(
            takes_more(b"a", messages, bytes),
            expected,
            "{messages} with {bytes} bytes"
        );
    }
    assert_eq!(
        [1, 2].map(|messages| takes_more(b"b", messages, 0)),
        [false, true]
    );
}

#[test]
fn headers_come_to_those_who_know_them() {
    let mut server = server(Options::default());
    let [a, sender] = [(); 2].map(|()| connect(&mut server));
    let old = stranger(&mut server);
    for client in [a, old] {
        server.receive(client, b"CONNECT {\"verbose\":false}\r\nSUB a 1\r\n");
    }
    let headers = "NATS/1.0\r\nA: b\r\n\r\n";
    let message = format!(
        "HPUB a r {} {}\r\n{headers}hello\r\n",
        headers.len(),
        headers.len() + 5
    );
    assert_eq!(ask(&mut server, sender, &message), "");
    assert_eq!(hear(&mut server, a), message.replace("HPUB a", "HMSG a 1"));
    assert_eq!(hear(&mut server, old), "MSG a 1 r 5\r\nhello\r\n");
    assert_eq!(ask(&mut server, sender, "HPUB a 0 2\r\nhi\r\n"), "");
    for client in [a, old] {
        assert_eq!(hear(&mut server, client), "MSG a 1 2\r\nhi\r\n");
    }
    assert_eq!(
        ask(&mut server, old, &message),
        "-ERR 'message headers not supported'\r\n"
    );
    assert_eq!(server.closed(old), Some(CloseReason::Refused));
}

#[test]
fn who_asks_nobody_is_told_so() {
    let mut server = server(Options::default());
    let a = connect(&mut server);
    assert_eq!(
        ask(
            &mut server,
            a,
            "SUB in.* 1\r\nPUB nobody in.7 0\r\n\r\nPUB nobody elsewhere 0\r\n\r\n"
        ),
        "HMSG in.7 1 38 38\r\nNATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n\r\n"
    );
    let b = connect(&mut server);
    server.receive(b, b"SUB nobody 1\r\n");
    assert_eq!(ask(&mut server, a, "PUB nobody in.8 0\r\n\r\n"), "");
}

#[test]
fn a_verbose_client_hears_of_everything() {
    let mut server = server(Options::default());
    let client = stranger(&mut server);
    assert_eq!(
        ask(
            &mut server,
            client,
            "SUB a.> 1\r\nPUB a.* 0\r\n\r\nUNSUB 1\r\nPING\r\nCONNECT {\"pedantic\":false}\r\n"
        ),
        "+OK\r\n-ERR 'Invalid Publish Subject'\r\n+OK\r\nMSG a.* 1 0\r\n\r\n+OK\r\nPONG\r\n+OK\r\n"
    );
    // Also of messages of which others would be sent together, and so it is of one who wants errors alone.
    assert_eq!(
        ask(
            &mut server,
            client,
            "SUB a.> 2\r\nPUB a.b 1\r\nx\r\nPUB a.b 1\r\ny\r\n"
        ),
        "+OK\r\n+OK\r\nMSG a.b 2 1\r\nx\r\n+OK\r\nMSG a.b 2 1\r\ny\r\n"
    );
    assert_eq!(
        ask(
            &mut server,
            client,
            "CONNECT {\"verbose\":false,\"pedantic\":true}\r\nPUB a.* 0\r\n\r\n"
        ),
        "-ERR 'Invalid Publish Subject'\r\nMSG a.* 2 0\r\n\r\n"
    );
}

#[test]
fn what_is_wrong_is_said_and_only_the_worst_closes() {
    let many = format!("SUB {}x 1\r\n", "a.".repeat(128));
    let long = format!("PUB {} 1\r\n", "x".repeat(4_100));
    for (text, answer, closes) in [
        ("SUB a..b 1\r\n", "Invalid Subject", false),
        (&many, "too many tokens", false),
        ("HELLO\r\n", "Unknown Protocol Operation", true),
        ("PUB a x\r\n", "Parser Error", true),
        ("CONNECT {\r\n", "Parser Error", true),
        ("CONNECT {\"protocol\":9}\r\n", "invalid client protocol", true),
        (
            "CONNECT {\"headers\":false}\r\n",
            "no responders requires headers support",
            true,
        ),
        ("PUB a 1048577\r\n", "Maximum Payload Violation", true),
        (&long, "maximum control line exceeded", true),
    ] {
        let mut server = server(Options::default());
        let client = connect(&mut server);
        let came = ask(&mut server, client, text);
        assert!(
            came.starts_with("-ERR '") && came.contains(answer),
            "{text}: {came}"
        );
        assert_eq!(
            server.closed(client),
            closes.then_some(CloseReason::Refused),
            "{text}"
        );
    }
}

#[test]
fn the_table_of_answers_holds_in_one_piece_and_in_many() {
    for row in rows() {
        for at_once in [row.says.len(), 1.max(row.says.len() / 512)] {
            let mut server = server(Options::default());
            let client = stranger(&mut server);
            for piece in row.says.chunks(at_once) {
                server.receive(client, piece);
            }
            let told = summary(&server.take_output(client), server.closed(client).is_some());
            assert_eq!(told, row.told, "{}", row.says.escape_ascii());
        }
    }
}

#[test]
fn limits_are_for_one_and_for_all() {
    let options = Options {
        max_subscriptions: 2,
        max_connections: Some(2),
        ..Options::default()
    };
    let mut server = server(options);
    let [a, b] = [(); 2].map(|()| connect(&mut server));
    assert_eq!(
        ask(&mut server, a, "SUB a 1\r\nSUB a 2\r\nSUB a 3\r\n"),
        "-ERR 'maximum subscriptions exceeded'\r\n"
    );
    assert_eq!(
        ask(
            &mut server,
            b,
            "SUB a 1\r\nUNSUB 1\r\nSUB a 2\r\nSUB a 3\r\nPING\r\n"
        ),
        "PONG\r\n"
    );
    let third = server.connect();
    assert_eq!(
        hear(&mut server, third),
        "-ERR 'maximum connections exceeded'\r\n"
    );
    assert_eq!(server.closed(third), Some(CloseReason::Refused));
    server.end(a);
    stranger(&mut server);
}

#[test]
fn a_stranger_reaches_and_hears_nothing() {
    let access = Access::User {
        name: "anna".into(),
        password: "s3cret".into(),
    };
    let options = Options {
        access,
        ..Options::default()
    };
    let groups = Groups::new(options);
    let mut server = Rehearsal::new(groups.clone());
    let member = stranger(&mut server);
    let login = "CONNECT {\"verbose\":false,\"user\":\"anna\",\"pass\":\"s3cret\"}\r\n";
    assert_eq!(
        ask(&mut server, member, &format!("{login}SUB > 1\r\nPING\r\n")),
        "PONG\r\n"
    );
    for text in [
        "SUB > 1\r\nPUB a 1\r\nx\r\n",
        "PING\r\n",
        "PUB a 1\r\nx\r\n",
        "CONNECT {}\r\nPUB a 1\r\nx\r\n",
        "CONNECT {\"user\":\"anna\",\"pass\":\"secret\"}\r\nSUB > 1\r\nPUB a 1\r\nx\r\n",
        "CONNECT {\"auth_token\":\"s3cret\"}\r\nPUB a 1\r\nx\r\n",
    ] {
        let client = stranger(&mut server);
        assert_eq!(
            ask(&mut server, client, text),
            "-ERR 'Authorization Violation'\r\n",
            "{text}"
        );
        assert_eq!(server.closed(client), Some(CloseReason::Refused), "{text}");
    }
    assert_eq!(hear(&mut server, member), "");
    let late = stranger(&mut server);
    assert_eq!(server.alarm(late), Some(Duration::from_secs(2)));
    server.ring(late);
    assert_eq!(hear(&mut server, late), "-ERR 'Authentication Timeout'\r\n");
    let figures = groups.monitor().server();
    assert_eq!(
        (figures.violations, figures.clients, figures.subscriptions),
        (6, 1, 1)
    );
    assert_eq!(figures.published, Default::default());
}

#[test]
fn who_is_silent_is_asked_and_then_closed() {
    let mut server = server(Options::default());
    let [silent, lively] = [(); 2].map(|()| connect(&mut server));
    for client in [silent, lively] {
        server.ring(client);
        assert_eq!(ask(&mut server, client, "PONG\r\n"), "PING\r\n");
    }
    for came in ["", "PING\r\n", "PING\r\n", "-ERR 'Stale Connection'\r\n"] {
        assert_eq!(server.alarm(silent), Some(Duration::from_secs(120)));
        for client in [silent, lively] {
            server.ring(client);
        }
        assert_eq!(hear(&mut server, silent), came);
        assert_eq!(hear(&mut server, lively), "");
        server.receive(lively, b"PONG\r\n");
    }
    assert_eq!(server.closed(silent), Some(CloseReason::Refused));
    assert_eq!(server.closed(lively), None);
}

#[test]
fn who_has_connected_is_soon_asked_so_that_the_way_is_known() {
    let groups = Groups::new(Options::default());
    let mut server = Rehearsal::new(groups.clone());
    let [first, second] = [(); 2].map(|()| connect(&mut server));
    let mut waits = Vec::new();
    for client in [first, second] {
        let wait = server.alarm(client).expect("it is asked");
        assert!((2_000..=2_400).contains(&wait.as_millis()), "{wait:?}");
        waits.push(wait);
        // Whatever it does meanwhile.
        server.receive(client, b"PING\r\nSUB a 1\r\n");
        server.ring(client);
        assert_eq!(hear(&mut server, client), "PONG\r\nPING\r\n");
        server.pass(Duration::from_millis(30));
        server.receive(client, b"PONG\r\n");
        assert_eq!(server.alarm(client), Some(Duration::from_secs(120)));
    }
    assert_ne!(waits[0], waits[1]);
    let way = Some(Duration::from_millis(30));
    let clients = groups.monitor().clients(server.now());
    assert!(clients.iter().all(|client| client.round_trip == way));
    let often = Options {
        ping_interval: Duration::from_secs(1),
        access: Access::Token("t".into()),
        ..Options::default()
    };
    let mut server = Rehearsal::new(Groups::new(often));
    let client = stranger(&mut server);
    server.receive(client, b"CONNECT {\"auth_token\":\"t\"}\r\n");
    let wait = server.alarm(client).expect("it is asked");
    assert!((1_000..=1_200).contains(&wait.as_millis()), "{wait:?}");
}

#[test]
fn who_stops_says_so_and_waits_for_a_while() {
    let options = Options {
        lame_duck: Duration::from_secs(3),
        ..Options::default()
    };
    let mut server = server(options);
    let [new, other] = [(); 2].map(|()| connect(&mut server));
    let old = stranger(&mut server);
    for client in [new, other] {
        server.receive(client, TAKES_NEWS);
    }
    for client in [new, old] {
        server.receive(client, b"PING\r\nSUB a 1\r\n");
    }
    hear(&mut server, new);
    hear(&mut server, old);
    server.stop();
    assert!(hear(&mut server, new).contains("\"ldm\":true"));
    assert_eq!(hear(&mut server, old), "", "it knows no `INFO` but the first");
    assert_eq!(
        hear(&mut server, other),
        "",
        "its library waits for the first `PONG`"
    );
    let came = ask(&mut server, other, "PUB a 2\r\nhi\r\nPING\r\n");
    assert!(
        came.starts_with("PONG\r\nINFO {") && came.contains("\"ldm\":true"),
        "{came}"
    );
    assert_eq!(ask(&mut server, other, "PING\r\n"), "PONG\r\n");
    for client in [new, old] {
        assert!(hear(&mut server, client).ends_with("MSG a 1 2\r\nhi\r\n"));
        assert_eq!(server.alarm(client), Some(Duration::from_secs(3)));
        assert_eq!(server.closed(client), None);
        server.ring(client);
        assert_eq!(server.closed(client), Some(CloseReason::Finished));
    }
}

#[test]
fn what_the_server_is_follows_the_first_pong_for_those_who_take_it_then() {
    let mut server = server(Options::default());
    let [new, old] = [(); 2].map(|()| connect(&mut server));
    let late = stranger(&mut server);
    server.receive(new, TAKES_NEWS);
    let news = |came: String| came.starts_with("PONG\r\nINFO {") && came.contains("\"connect_info\":true");
    assert!(news(ask(&mut server, new, "PING\r\n")));
    assert_eq!(ask(&mut server, new, "PING\r\n"), "PONG\r\n", "once");
    assert_eq!(
        ask(&mut server, old, "PING\r\n"),
        "PONG\r\n",
        "it knows no `INFO` but the first"
    );
    assert_eq!(
        ask(&mut server, late, "PING\r\n"),
        "PONG\r\n",
        "it has not connected"
    );
    server.receive(late, CONNECT.as_bytes());
    server.receive(late, TAKES_NEWS);
    assert!(news(ask(&mut server, late, "PING\r\n")));
}

#[test]
fn who_asks_is_told_where_a_message_goes() {
    let mut server = server(Options::default());
    let [asks, hears] = [(); 2].map(|()| connect(&mut server));
    server.receive(asks, b"CONNECT {\"echo\":false}\r\nSUB to 1\r\nSUB a 2\r\n");
    server.receive(hears, b"SUB a q 1\r\n");
    for (only, comes) in [("", "HMSG a 1 "), ("Nats-Trace-Only: 1\r\n", "")] {
        let headers = format!("NATS/1.0\r\nNats-Trace-Dest: to\r\n{only}\r\n");
        let says = format!("HPUB a {0} {0}\r\n{headers}\r\n", headers.len());
        let told = ask(&mut server, asks, &says);
        let json = told.split("\r\n").nth(1).expect("a payload");
        let trace: serde_json::Value = serde_json::from_str(json).expect("JSON");
        let event = |place: usize, name: &str| trace["events"][place][name].to_string();
        assert_eq!(event(0, "subj"), "\"a\"");
        assert!(event(1, "error").contains("no echo"), "{told}");
        assert_eq!(event(2, "queue"), "\"q\"");
        let heard = hear(&mut server, hears);
        assert!(
            heard.starts_with(comes) && heard.is_empty() == comes.is_empty(),
            "{heard}"
        );
    }
}

#[test]
fn who_stops_at_once_says_nothing() {
    let mut server = server(Options::default());
    let client = connect(&mut server);
    server.receive(client, TAKES_NEWS);
    server.receive(client, b"PING\r\n");
    hear(&mut server, client);
    server.stop();
    assert_eq!(hear(&mut server, client), "");
    assert_eq!(server.closed(client), Some(CloseReason::Stopped));
}

#[test]
fn times_are_those_of_what_a_client_does_and_of_what_is_delivered_to_it() {
    let groups = Groups::new(Options::default());
    let mut server = Rehearsal::new(groups.clone());
    let begin = server.now();
    let seconds = Duration::from_secs;
    let times = |server: &Rehearsal<Groups>| {
        let clients = groups.monitor().clients(server.now());
        clients
            .iter()
            .map(|it| (it.since - begin, it.active - begin, it.round_trip))
            .collect::<Vec<_>>()
    };
    let talks = stranger(&mut server);
    server.pass(seconds(1));
    let hears = stranger(&mut server);
    assert_eq!(times(&server)[1], (seconds(1), seconds(1), None));
    for client in [talks, hears] {
        server.receive(client, CONNECT.as_bytes());
    }
    server.pass(seconds(1));
    server.receive(hears, b"SUB a 1\r\nPING\r\n");
    let none = Duration::from_nanos(1);
    assert_eq!(
        times(&server),
        [
            (seconds(0), seconds(1), Some(seconds(1))),
            (seconds(1), seconds(2), Some(none))
        ]
    );
    server.pass(seconds(1));
    server.receive(talks, b"PUB a 0\r\n\r\n");
    assert_eq!([0, 1].map(|who| times(&server)[who].1), [seconds(3); 2]);
    // To keep a connection is not to do something; the answer says how long the way is.
    server.pass(seconds(1));
    for _ in 0..2 {
        server.ring(hears);
    }
    let asked = server.now();
    server.pass(Duration::from_millis(70));
    server.receive(hears, b"PONG\r\n");
    assert_eq!(
        times(&server)[1],
        (seconds(1), seconds(3), Some(Duration::from_millis(70)))
    );
    // What was delivered is seen with a keep-alive, if nobody asks.
    server.receive(talks, b"PUB a 0\r\n\r\n");
    server.ring(hears);
    let seen = server.now();
    assert!(seen > asked);
    server.pass(seconds(5));
    assert_eq!(times(&server)[1].1, seen - begin);
}

#[test]
fn figures_add_up() {
    let groups = Groups::new(Options::default());
    let mut server = Rehearsal::new(groups.clone());
    let monitor = groups.monitor();
    let [a, b] = [(); 2].map(|()| connect(&mut server));
    server.receive(
        a,
        b"CONNECT {\"name\":\"anna\",\"lang\":\"rust\"}\r\nSUB x 1\r\nSUB x q 2\r\nUNSUB 2 1\r\n",
    );
    server.receive(b, b"PUB x 3\r\nabc\r\nPUB x 3\r\nabc\r\n");
    let clients = monitor.clients(server.now());
    assert_eq!((clients[0].name.as_str(), clients[0].subscriptions), ("anna", 1));
    let subscription = &monitor.subscriptions(clients[0].number)[0];
    assert_eq!(
        (subscription.sid.as_str(), subscription.delivered.messages),
        ("1", 2)
    );
    let before = monitor.server();
    assert_eq!((before.published.messages, before.published.bytes), (2, 6));
    assert_eq!((before.delivered.messages, before.delivered.bytes), (3, 9));
    server.end(a);
    server.lose(b);
    let after = monitor.server();
    assert_eq!(
        (after.clients, after.clients_ever, after.subscriptions),
        (0, 2, 0)
    );
    assert_eq!(
        (after.published, after.delivered),
        (before.published, before.delivered)
    );
}

#[test]
fn who_is_gone_is_remembered_with_the_reason_until_others_went() {
    let options = Options {
        max_closed_clients: 6,
        max_connections: Some(9),
        ..Options::default()
    };
    let groups = Groups::new(options);
    let monitor = groups.monitor();
    let mut server = Rehearsal::new(groups);
    let all = [(); 9].map(|()| connect(&mut server));
    server.receive(all[0], b"SUB a 1\r\nSUB b 2\r\nUNSUB 2\r\nSUB c 3\r\n");
    server.receive(all[1], b"PUB a 3\r\nabc\r\n");
    server.end(all[4]);
    connect(&mut server);
    let one_too_many = server.connect();
    assert_eq!(server.closed(one_too_many), Some(CloseReason::Refused));
    server.end(all[5]);
    server.end(all[0]);
    server.lose(all[1]);
    server.receive(all[2], b"PUB a 1048577\r\n");
    server.receive(all[6], b"HELLO\r\n");
    let closed = monitor.closed();
    let seen: Vec<_> = closed.iter().map(|it| (it.client.number, it.reason)).collect();
    let expected = [
        (11, "Maximum Connections Exceeded"),
        (6, "Client Closed"),
        (1, "Client Closed"),
        (2, "Read Error"),
        (3, "Maximum Message Payload Exceeded"),
        (7, "Protocol Violation"),
    ];
    assert_eq!(seen, expected);
    let first = &closed[2];
    assert_eq!(
        (
            first.client.subscriptions,
            first.client.delivered.messages,
            first.client.delivered.bytes
        ),
        (2, 1, 3)
    );
    assert_eq!(closed[3].client.published.bytes, 3);
    for client in &all[7..9] {
        for _ in 0..4 {
            server.ring(*client);
        }
    }
    server.stop();
    let reasons: Vec<_> = monitor.closed().iter().map(|it| it.reason).collect();
    let (stale, stopped) = ("Stale Connection", "Server Shutdown");
    assert_eq!(reasons[2..], [stale, stale, stopped, stopped]);
}

proptest! {
    #[test]
    fn bytes_split_anywhere_give_the_same(
        operations in prop::collection::vec(prop_oneof![
            "(SUB|sub) [ab]\\.[b*>] (q )?[1-3]\r\n",
            "UNSUB [1-3]( [0-3])?\r\n",
            "PUB [ab]\\.[ab] ([ab]\\.[ab] )?2\r\nhi\r\n",
            "HPUB a\\.b 3 5\r\nABChi\r\n",
            "P[IO]NG\r\n",
            "CONNECT \\{\"echo\":(true|false),\"headers\":true,\"no_responders\":true\\}\r\n",
            "[A-Z+-]{1,5}( [a-z0-9.]{0,3}){0,3}\r?\n",
        ], 0..12),
        cuts in prop::collection::vec(0usize..300, 0..8),
    ) {
        split_anywhere(|| Groups::named("same"), b"SUB a.> 1\r\nSUB a.b q 2\r\n", operations.concat().as_bytes(), &cuts);
    }
}
