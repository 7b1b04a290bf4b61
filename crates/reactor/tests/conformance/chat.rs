//! `chat`: a line goes to everyone else in the room, once, in order per sender, and to nobody beyond.

use std::io::Write;

use crate::any::stop_while_it_lingers;
use crate::client::Client;
use crate::server::{LONG_DRAIN, Running};
use crate::{Case, Pair, talk};

pub const CASES: &[Case] = &[
    ("a_stop_waits_for_no_socket_that_lingers", stop_while_it_lingers),
    (
        "everyone_else_gets_each_line_once_in_its_senders_order",
        everyone_else,
    ),
    ("a_line_stays_in_its_room", stays_in_its_room),
    ("lines_cut_at_every_place_arrive_whole", cut_at_every_place),
    ("a_join_and_lines_in_one_piece_are_understood", in_one_piece),
    ("what_came_before_a_half_close_is_delivered", half_closed),
    ("a_reset_member_leaves_the_room", reset),
    ("who_does_not_join_is_refused", refused),
    ("an_endless_line_is_cut_off_and_nobody_hears_of_it", endless),
    ("a_slow_member_is_waited_for", waited_for),
    ("a_slow_member_is_dropped_where_that_is_asked_for", dropped),
    ("a_stop_while_all_talk_tears_nothing_apart", stop_while_all_talk),
];

fn join(server: &Running, room: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("join {room}\n"));
    client.expect(format!("joined {room}\n"));
    client
}

fn everyone_else(pair: Pair) {
    let says = |own, line| format!("{own} {line}\n");
    let join = |server: &Running| join(server, "all");
    talk::all_are_heard(pair.serve(&[]), join, says, 1, |came| {
        talk::heard_in_order(came.lines())
    });
}

fn stays_in_its_room(pair: Pair) {
    let server = pair.serve(&[]);
    let [mut a, mut b] = [(); 2].map(|()| join(&server, "one"));
    let [mut c, mut d] = [(); 2].map(|()| join(&server, "two"));
    for _ in 0..20 {
        a.send("in one\n");
        c.send("in two\n");
        b.expect("in one\n");
        d.expect("in two\n");
    }
    for client in [&a, &b, &c, &d] {
        assert!(!client.has_something());
    }
    server.stop().expect("deliveries", 40);
}

fn cut_at_every_place(pair: Pair) {
    let server = pair.serve(&[]);
    let mut hearer = join(&server, "x");
    let mut speaker = server.connect();
    let text = b"join x\nhello\r\n";
    for byte in text {
        speaker.send_apart(&[*byte]);
    }
    speaker.expect("joined x\n");
    hearer.expect("hello\r\n");
    server.stop();
}

fn in_one_piece(pair: Pair) {
    let server = pair.serve(&[]);
    let mut hearer = join(&server, "x");
    let mut speaker = server.connect();
    let lines: String = (0..500).map(|line| format!("line {line}\n")).collect();
    speaker.send(format!("join x\n{lines}"));
    hearer.expect(lines);
    speaker.expect("joined x\n");
    server.stop();
}

fn half_closed(pair: Pair) {
    let server = pair.serve(&[]);
    let mut hearer = join(&server, "x");
    let mut speaker = join(&server, "x");
    speaker.send("last words\nnot whole");
    speaker.end();
    speaker.expect_end();
    hearer.expect("last words\n");
    assert!(!hearer.has_something());
    server.stop().expect("ended by client", 1);
}

fn reset(pair: Pair) {
    let server = pair.serve(&[]);
    let [mut a, mut c] = [(); 2].map(|()| join(&server, "x"));
    server.until_closed(join(&server, "x").reset());
    for _ in 0..50 {
        a.send("still here\n");
        c.expect("still here\n");
    }
    let counted = server.stop();
    assert_eq!((counted.of("lost"), counted.of("deliveries")), (1, 50));
}

fn refused(pair: Pair) {
    let server = pair.serve(&[]);
    let mut member = join(&server, "x");
    for wrong in ["hello\n", "join \n", "\n"] {
        let mut client = server.connect();
        client.send(wrong);
        assert!(client.rest().starts_with(b"refused: "));
    }
    assert!(!member.has_something());
    member.end();
    member.expect_end();
    server.stop().expect("refused", 3);
}

fn endless(pair: Pair) {
    let server = pair.serve(&[]);
    let mut hearer = join(&server, "x");
    join(&server, "x").send_without_end(b'x');
    let mut next = join(&server, "x");
    next.send("hello\n");
    hearer.expect("hello\n");
    server.stop().expect("message too long", 1);
}

/// Lines of 1,000 bytes, more than sockets and limit can hold together.
fn much() -> Vec<u8> {
    let mut much = Vec::new();
    // All of a line that is alike at once: a number that is padded is written digit by digit.
    let zeros = "0".repeat(994);
    for line in 0..18_000 {
        writeln!(much, "{zeros}{line:05}").unwrap();
    }
    much
}

fn waited_for(pair: Pair) {
    let server = pair.serve(&["output_limit=65536"]);
    let mut slow = join(&server, "x");
    slow.take_little();
    let mut speaker = join(&server, "x");
    let much = much();
    let mut sent = 0;
    let mut read = 0;
    while read < much.len() {
        let went = speaker.send_at_once(&much[sent..]);
        sent += went;
        if went == 0 {
            let came = slow.read(100_000);
            assert!(
                much[read..].starts_with(&came) && !came.is_empty(),
                "other bytes after {read}"
            );
            read += came.len();
        }
    }
    server.held_little(much.len());
    let counted = server.stop();
    assert_eq!((counted.of("too slow"), counted.of("undeliverable")), (0, 0));
}

fn dropped(pair: Pair) {
    let server = pair.serve(&["output_limit=65536", "overflow=drop"]);
    let slow = join(&server, "x");
    slow.take_little();
    let [mut speaker, mut hearer] = [(); 2].map(|()| join(&server, "x"));
    // One line at a time, so that nobody else is slow.
    let much = much();
    for line in much.chunks(50_000) {
        speaker.send(line);
        hearer.expect(line);
    }
    server.held_little(much.len());
    drop(slow);
    let counted = server.stop();
    assert_eq!(counted.of("too slow"), 1);
    assert!(counted.of("undeliverable") < 18_000, "{counted:?}");
}

fn stop_while_all_talk(pair: Pair) {
    let server = pair.serve(&[LONG_DRAIN]);
    let members = [(); talk::MEMBERS].map(|()| join(&server, "all"));
    let says = |own, line| format!("{own} {line}\n");
    talk::until_the_stop(server, members, says, |own, came| {
        // A reset may cut the last line off, since this client was sending still.
        let whole = came.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
        let whole = std::str::from_utf8(&came[..whole]).unwrap();
        let next: [usize; talk::MEMBERS] = talk::heard_in_order(whole.lines());
        assert_eq!(next[own], 0, "nobody hears himself");
    });
}
