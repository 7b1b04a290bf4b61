//! `groups`: core NATS. A message goes to those who are subscribed, once, in order per sender, and to nobody beyond;
//! and no client, however it behaves, reaches or holds up what is not its own.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::client::Client;
use crate::groups_answers::{rows, summary};
use crate::server::{LONG_DRAIN, Running};
use crate::{Case, Pair, talk};

pub const CASES: &[Case] = &[
    (
        "all_others_of_a_group_get_each_message_once_in_its_senders_order",
        all_others,
    ),
    ("a_message_goes_to_the_right_subjects_alone", right_subjects),
    ("operations_cut_at_every_place_arrive_whole", cut_at_every_place),
    ("a_large_message_arrives_whole", large),
    ("large_and_small_messages_to_many_come_in_order", large_to_many),
    ("who_has_much_to_do_keeps_nobody_waiting", much_to_do),
    ("requests_are_answered_by_one_or_by_nobody", requests),
    ("the_table_of_answers_holds", table),
    ("a_subscription_ends_after_its_last_message", last_message),
    ("what_came_before_a_half_close_is_delivered", half_closed),
    ("a_reset_member_gets_nothing_more", reset),
    ("a_refused_member_gets_nothing_more_though_it_stays", refused),
    (
        "who_does_not_know_the_token_reaches_and_hears_nothing",
        wrong_token,
    ),
    ("too_many_connections_are_told_so", too_many),
    ("who_is_silent_for_too_long_is_closed", stale),
    ("hostile_clients_are_bounded_and_hurt_nobody", hostile),
    ("a_slow_member_is_dropped_where_that_is_asked_for", dropped),
    ("a_stop_is_announced_and_waited_for", lame_duck),
    ("who_stays_longer_than_a_lame_duck_is_closed", lame_duck_over),
    ("a_stop_while_all_talk_tears_nothing_apart", stop_while_all_talk),
];

const CONNECT: &str =
    "CONNECT {\"verbose\":false,\"echo\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1}\r\n";

/// A client that has said something, and knows that it was heard.
fn say(server: &Running, operations: &str) -> Client {
    let mut client = server.connect();
    client.expect_info();
    client.send(CONNECT);
    heard(&mut client);
    assert!(client.expect_info().contains("\"connect_info\":true"));
    client.send(operations);
    heard(&mut client);
    client
}

/// What the client said before was heard.
fn heard(client: &mut Client) {
    client.send("PING\r\n");
    client.expect("PONG\r\n");
}

fn message(subject: &str, text: &str) -> String {
    format!("PUB {subject} {}\r\n{text}\r\n", text.len())
}

/// As it is delivered.
fn delivered(subject: &str, sid: &str, text: &str) -> String {
    format!("MSG {subject} {sid} {}\r\n{text}\r\n", text.len())
}

/// Whole messages to `all`, of `SENDER NUMBER` each: how many of each sender, which are the first that it sent.
fn counted<const SENDERS: usize>(came: &str) -> [usize; SENDERS] {
    let mut texts = Vec::new();
    let mut lines = came.split("\r\n");
    while let (Some(head), Some(text)) = (lines.next(), lines.next()) {
        let length = head.strip_prefix("MSG all 1 ").expect("a message");
        if lines.clone().next().is_none() {
            // The last line of all has no end yet.
            break;
        }
        assert_eq!(length, text.len().to_string(), "{text:?}");
        texts.push(text);
    }
    talk::heard_in_order(texts)
}

fn all_others(pair: Pair) {
    let says = |own, number| message("all", &format!("{own} {number}"));
    let join = |server: &Running| say(server, "SUB all 1\r\n");
    talk::all_are_heard(pair.serve(&[]), join, says, 2, counted);
}

fn right_subjects(pair: Pair) {
    let server = pair.serve(&[]);
    let mut one = say(&server, "SUB room.1 a\r\n");
    let mut two = say(&server, "SUB room.2 b\r\n");
    let mut both = say(&server, "SUB room.* c\r\n");
    let mut speaker = say(&server, "");
    for subject in ["room.1", "room.2", "room", "room.1.x"] {
        speaker.send(message(subject, subject));
    }
    heard(&mut speaker);
    one.expect(delivered("room.1", "a", "room.1"));
    two.expect(delivered("room.2", "b", "room.2"));
    both.expect(delivered("room.1", "c", "room.1"));
    both.expect(delivered("room.2", "c", "room.2"));
    for client in [&mut one, &mut two, &mut both] {
        heard(client);
    }
    server.stop().expect("deliveries", 4);
}

fn cut_at_every_place(pair: Pair) {
    let server = pair.serve(&[]);
    let mut hearer = say(&server, "SUB a 1\r\n");
    let mut speaker = server.connect();
    speaker.expect_info();
    for byte in format!("{CONNECT}{}PING\r\n", message("a", "hello\r\n")).as_bytes() {
        speaker.send_apart(&[*byte]);
    }
    hearer.expect(delivered("a", "1", "hello\r\n"));
    speaker.expect("PONG\r\n");
    server.stop();
}

fn large(pair: Pair) {
    let server = pair.serve(&[]);
    let mut hearer = say(&server, "SUB a 1\r\n");
    let mut speaker = say(&server, "");
    let text = "x".repeat(1 << 20);
    speaker.send(message("a", &text));
    hearer.expect(delivered("a", "1", &text));
    speaker.send(message("a", &format!("{text}x")));
    speaker.expect("-ERR 'Maximum Payload Violation'\r\n");
    speaker.rest();
    server.stop().expect("deliveries", 1);
}

fn large_to_many(pair: Pair) {
    let server = pair.serve(&[]);
    let texts: Vec<String> = (0..150)
        .map(|number| format!("{number} {}", "x".repeat(number * number)))
        .collect();
    let all = |write: &dyn Fn(&String) -> String| texts.iter().map(write).collect::<String>();
    let (said, expected) = (
        all(&|text| message("all", text)),
        all(&|text| delivered("all", "1", text)),
    );
    let members: Vec<Client> = (0..4).map(|_| say(&server, "SUB all 1\r\n")).collect();
    let mut speaker = say(&server, "");
    std::thread::scope(|scope| {
        for mut member in members {
            let expected = &expected;
            scope.spawn(move || member.expect(expected));
        }
        speaker.send(said);
    });
}

/// Each message goes to thousands of subscriptions. Whoever asks for little meanwhile is answered before those who ask
/// for much, on whichever loop or thread that is: there are as many of these.
fn much_to_do(pair: Pair) {
    const PATTERNS: usize = 1 << 12;
    let server = pair.serve(&[]);
    let patterns = (0..PATTERNS).map(|sid| {
        let tokens = (0..12).map(|place| if sid >> place & 1 == 1 { "*" } else { "a" });
        format!("SUB {} {sid}\r\n", tokens.collect::<Vec<_>>().join("."))
    });
    let mut hearer = say(&server, &patterns.collect::<String>());
    let mut speakers = [(); 3].map(|()| say(&server, ""));
    let mut others = [(); 2].map(|()| say(&server, ""));
    // So much that it takes longer than this side may be kept from asking; and no more than comes in one piece.
    for messages in [50, 400, 1_500] {
        let says = message(&["a"; 12].join("."), "x").repeat(messages) + "PING\r\n";
        let heard = AtomicUsize::new(0);
        let was_first = std::thread::scope(|scope| {
            scope.spawn(|| {
                let all = 2 * messages * PATTERNS * speakers.len();
                while heard.load(Relaxed) < all {
                    let came = hearer.read(1 << 16);
                    assert!(!came.is_empty(), "the server ended");
                    heard.fetch_add(came.iter().filter(|&&byte| byte == b'\n').count(), Relaxed);
                }
            });
            for speaker in &speakers {
                speaker.clone().send(&says);
            }
            while heard.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
            for other in &mut others {
                self::heard(other);
            }
            !speakers.iter().any(Client::has_something)
        });
        for speaker in &mut speakers {
            speaker.expect("PONG\r\n");
        }
        if was_first {
            return;
        }
    }
    panic!("others waited");
}

fn requests(pair: Pair) {
    let server = pair.serve(&[]);
    let mut servants = [(); 2].map(|()| say(&server, "SUB work hands 1\r\n"));
    let mut asker = say(&server, "SUB inbox.* 9\r\n");
    for number in 0..20 {
        asker.send(format!("PUB work inbox.{number} 3\r\nask\r\n"));
        let servant = loop {
            match servants.iter_mut().find(|servant| servant.has_something()) {
                Some(servant) => break servant,
                None => std::thread::yield_now(),
            }
        };
        servant.expect(format!("MSG work 1 inbox.{number} 3\r\nask\r\n"));
        servant.send(message(&format!("inbox.{number}"), "answer"));
        asker.expect(delivered(&format!("inbox.{number}"), "9", "answer"));
    }
    for servant in &mut servants {
        servant.send("UNSUB 1\r\n");
        heard(servant);
    }
    asker.send("PUB work inbox.x 0\r\n\r\n");
    asker.expect("HMSG inbox.x 9 36 36\r\nNATS/1.0 503\r\nNats-Subject: work\r\n\r\n\r\n");
    server.stop().expect("deliveries", 40);
}

fn table(pair: Pair) {
    let server = pair.serve(&[]);
    for row in rows() {
        let mut client = server.connect();
        client.expect_info();
        let closes = row.told.ends_with("closed");
        client.send(&row.says);
        let told = match closes {
            true => client.rest(),
            false => {
                client.send("PING\r\n");
                // One that it asks for itself comes first.
                let pongs = 1 + row.told.matches("PONG").count();
                let mut told = String::new();
                while told.matches("PONG\r\n").count() < pongs {
                    told += &client.line();
                }
                told.replacen("PONG\r\n", "", 1).into_bytes()
            }
        };
        assert_eq!(summary(&told, closes), row.told, "{}", row.says.escape_ascii());
    }
    server.stop();
}

fn last_message(pair: Pair) {
    let server = pair.serve(&[]);
    let mut hearer = say(&server, "SUB a 1\r\nUNSUB 1 3\r\n");
    let mut speaker = say(&server, "");
    for _ in 0..10 {
        speaker.send(message("a", "x"));
    }
    heard(&mut speaker);
    hearer.expect(delivered("a", "1", "x").repeat(3));
    heard(&mut hearer);
    server.stop().expect("deliveries", 3);
}

fn half_closed(pair: Pair) {
    let server = pair.serve(&[]);
    let mut hearer = say(&server, "SUB a 1\r\n");
    let mut speaker = say(&server, "");
    speaker.send(format!("{}PUB a 9\r\nnot", message("a", "last words")));
    speaker.end();
    speaker.expect_end();
    hearer.expect(delivered("a", "1", "last words"));
    heard(&mut hearer);
    server.stop().expect("ended by client", 1);
}

fn reset(pair: Pair) {
    let server = pair.serve(&[]);
    let [mut a, mut c] = [(); 2].map(|()| say(&server, "SUB x 1\r\n"));
    server.until_closed(say(&server, "SUB x 1\r\n").reset());
    for _ in 0..50 {
        a.send(message("x", "still here"));
        c.expect(delivered("x", "1", "still here"));
    }
    let counted = server.stop();
    assert_eq!((counted.of("lost"), counted.of("deliveries")), (1, 50));
}

fn refused(pair: Pair) {
    let server = pair.serve(&[]);
    let mut wrong = say(&server, "SUB work 1\r\n");
    let mut asker = say(&server, "SUB inbox 9\r\n");
    wrong.send("WRONG\r\n");
    wrong.expect("-ERR 'Unknown Protocol Operation'\r\n");
    asker.send("PUB work inbox 0\r\n\r\n");
    asker.expect("HMSG inbox 9 36 36\r\nNATS/1.0 503\r\nNats-Subject: work\r\n\r\n\r\n");
    wrong.expect_end();
    server.stop().expect("deliveries", 0);
}

fn wrong_token(pair: Pair) {
    let server = pair.serve(&["groups.token=s3cret", "groups.auth_timeout_ms=290000"]);
    let mut member = server.connect();
    let greeting = member.expect_info();
    assert!(greeting.contains("\"auth_required\":true") && !greeting.contains("s3cret"));
    member.send("CONNECT {\"verbose\":false,\"auth_token\":\"s3cret\"}\r\nSUB > 1\r\n");
    heard(&mut member);
    for wrong in ["", "CONNECT {}\r\n", "CONNECT {\"auth_token\":\"secret\"}\r\n"] {
        let mut stranger = server.connect();
        stranger.expect_info();
        stranger.send(format!("{wrong}SUB > 1\r\n{}PING\r\n", message("a", "x")));
        assert_eq!(stranger.rest(), b"-ERR 'Authorization Violation'\r\n", "{wrong}");
    }
    heard(&mut member);
    let counted = server.stop();
    assert_eq!((counted.of("refused"), counted.of("deliveries")), (3, 0));
}

fn too_many(pair: Pair) {
    let server = pair.serve(&["groups.max_connections=2"]);
    let mut members = [(); 2].map(|()| say(&server, ""));
    for _ in 0..3 {
        let mut third = server.connect();
        assert_eq!(third.rest(), b"-ERR 'maximum connections exceeded'\r\n");
    }
    members.iter_mut().for_each(heard);
    server.stop().expect("refused", 3);
}

fn stale(pair: Pair) {
    let server = pair.serve(&["groups.ping_interval_ms=20"]);
    let mut silent = server.connect();
    silent.expect_info();
    assert_eq!(silent.rest(), b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n");
    let mut fell_silent = server.connect();
    fell_silent.expect_info();
    fell_silent.send(CONNECT);
    // It may have been asked before it spoke.
    let came = fell_silent.rest();
    assert!(
        came.ends_with(b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n"),
        "{came:?}"
    );
    server.stop().expect("refused", 2);
}

fn hostile(pair: Pair) {
    let server = pair.serve(&["groups.max_subscriptions=2000"]);
    let mut hearer = say(&server, "SUB a 1\r\n");
    let mut speaker = say(&server, "");
    // An endless line, in several ways.
    for byte in [b' ', b'x'] {
        let mut endless = say(&server, "");
        endless.send("PUB ");
        endless.send_without_end(byte);
    }
    // Lengths beyond all memory.
    for (size, told) in [
        ("999999999", "Maximum Payload Violation"),
        ("4294967296", "Parser Error"),
        ("99999999999999999999999999", "Parser Error"),
    ] {
        let mut liar = say(&server, "");
        liar.send(format!("PUB a {size}\r\nxxx"));
        assert_eq!(liar.rest(), format!("-ERR '{told}'\r\n").as_bytes());
    }
    // Wildcards as deep as a line is long, and a tree of them.
    let mut deep = say(&server, "");
    deep.send(format!("SUB {}> 1\r\n", "*.".repeat(2_000)));
    assert!(deep.line().ends_with("too many tokens'\r\n"));
    let mut tree = String::new();
    for number in 0..1_000u32 {
        tree += "SUB ";
        for bit in 0..100 {
            tree += if number >> (bit % 10) & 1 == 1 { "*." } else { "a." };
        }
        tree += &format!("> {number}\r\n");
    }
    deep.send(tree);
    heard(&mut deep);
    // More subscriptions than may be: each further one is told so.
    let mut greedy = say(&server, "");
    let many: String = (0..3_000).map(|sid| format!("SUB b.{sid} {sid}\r\n")).collect();
    greedy.send(many);
    greedy.expect("-ERR 'maximum subscriptions exceeded'\r\n".repeat(1_000));
    heard(&mut greedy);
    let long_subject = "a.".repeat(1_500) + "a";
    speaker.send(message(&long_subject, ""));
    // Nobody else has noticed.
    for _ in 0..50 {
        speaker.send(message("a", "hello"));
        hearer.expect(delivered("a", "1", "hello"));
    }
    server.held_little(1 << 32);
    let counted = server.stop();
    assert_eq!(counted.of("panicked") + counted.of("lost"), 0, "{counted:?}");
}

fn dropped(pair: Pair) {
    let server = pair.serve(&["output_limit=65536", "overflow=drop"]);
    let slow = say(&server, "SUB a 1\r\n");
    slow.take_little();
    let mut speaker = say(&server, "");
    let mut hearer = say(&server, "SUB a 1\r\n");
    let text = "x".repeat(40_000);
    // One at a time, so that nobody else is slow; more than sockets and limit can hold.
    for _ in 0..500 {
        speaker.send(message("a", &text));
        hearer.expect(delivered("a", "1", &text));
    }
    server.held_little(500 * text.len());
    drop(slow);
    server.stop().expect("too slow", 1);
}

fn lame_duck(pair: Pair) {
    // Longer than a case may take: it ends because all have left.
    let server = pair.serve(&["groups.lame_duck_ms=100000", "drain_ms=100000"]);
    let mut hearer = say(&server, "SUB a 1\r\n");
    let mut speaker = say(&server, "");
    server.tell_to_stop();
    for client in [&mut hearer, &mut speaker] {
        assert!(client.expect_info().contains("\"ldm\":true"));
    }
    server.until_refused();
    for number in 0..50 {
        let goodbye = format!("goodbye {number}");
        speaker.send(message("a", &goodbye));
        hearer.expect(delivered("a", "1", &goodbye));
    }
    drop((hearer, speaker));
    let counted = server.end();
    assert_eq!(counted.of("drain time over"), 0, "{counted:?}");
}

fn lame_duck_over(pair: Pair) {
    let server = pair.serve(&[
        "groups.lame_duck_ms=40",
        "groups.lame_duck_grace_ms=20",
        "drain_ms=100000",
    ]);
    let members = [(); 3].map(|()| say(&server, "SUB a 1\r\n"));
    server.tell_to_stop();
    for mut member in members {
        assert!(member.expect_info().contains("\"ldm\":true"));
        member.expect_end();
    }
    server.end().expect("finished", 3);
}

fn stop_while_all_talk(pair: Pair) {
    let server = pair.serve(&[LONG_DRAIN]);
    let members = [(); talk::MEMBERS].map(|()| say(&server, "SUB all 1\r\n"));
    let says = |own, number| message("all", &format!("{own} {number}"));
    talk::until_the_stop(server, members, says, |own, came| {
        let came = String::from_utf8(came).unwrap();
        // What the server says of its stop comes between messages.
        let messages = came.split("INFO {").next().unwrap();
        let next: [usize; talk::MEMBERS] = counted(messages);
        assert_eq!(next[own], 0, "nobody hears himself");
    });
}
