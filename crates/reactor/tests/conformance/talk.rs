//! Members of a group that all talk at once: each says who it is and the number of its message. What they hear, whether
//! they are let finish or the server is told to stop meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;

use crate::client::Client;
use crate::server::Running;

/// So many talk while the server is told to stop.
pub const MEMBERS: usize = 4;

/// How many messages of each sender are in these texts, `SENDER NUMBER` each.
///
/// # Panics
///
/// If they are not its first, in order.
pub fn heard_in_order<'a, const SENDERS: usize>(
    texts: impl IntoIterator<Item = &'a str>,
) -> [usize; SENDERS] {
    let mut next = [0; SENDERS];
    for text in texts {
        let (from, number) = text.split_once(' ').expect("two words");
        let from: usize = from.parse().expect("a sender");
        assert_eq!(number, next[from].to_string(), "the next of {from}");
        next[from] += 1;
    }
    next
}

/// Six say 300 messages each, as `says` has it of a member and a number, and each hears all of the others, in order and
/// once. A message that is heard has so many lines; `count` says how many of each sender are among them.
pub fn all_are_heard(
    server: Running,
    join: impl Fn(&Running) -> Client,
    says: impl Fn(usize, usize) -> String + Sync,
    lines: usize,
    count: impl Fn(&str) -> [usize; 6] + Sync,
) {
    const MESSAGES: usize = 300;
    let members = [(); 6].map(|()| join(&server));
    let all = members.len();
    std::thread::scope(|scope| {
        for (own, mut member) in members.into_iter().enumerate() {
            let mut sender = member.clone();
            let (says, count) = (&says, &count);
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    sender.send(says(own, number));
                }
            });
            scope.spawn(move || {
                let mut came = String::new();
                while came.matches('\n').count() < lines * MESSAGES * (all - 1) {
                    let more = member.read(65_536);
                    assert!(!more.is_empty(), "the server ended after {came}");
                    came += std::str::from_utf8(&more).expect("text");
                }
                let mut expected = [MESSAGES; 6];
                expected[own] = 0;
                assert_eq!(count(&came), expected, "from each, as {own} has heard them");
                // Open until the others have sent: a member that leaves is no part of this.
                member
            });
        }
    });
    let counted = server.stop();
    assert_eq!(
        counted.of("deliveries") + counted.of("undeliverable"),
        (MESSAGES * all * (all - 1)) as u64
    );
}

/// Everyone sends what `says` of himself and the number of his message, until the server stops in the midst of it.
/// `check` is given who heard what.
pub fn until_the_stop(
    server: Running,
    members: [Client; MEMBERS],
    says: impl Fn(usize, usize) -> String + Sync,
    check: impl Fn(usize, Vec<u8>) + Sync,
) {
    let heard = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let mut hearers = Vec::new();
        for (own, mut member) in members.into_iter().enumerate() {
            let mut sender = member.clone();
            let (says, check, heard) = (&says, &check, &heard);
            scope.spawn(move || {
                for number in 0.. {
                    let message = says(own, number);
                    if !matches!(sender.try_send(message.as_bytes()), Ok(sent) if sent == message.len()) {
                        break;
                    }
                }
            });
            hearers.push(scope.spawn(move || {
                let mut came = Vec::new();
                loop {
                    let more = member.read(65_536);
                    if more.is_empty() {
                        break;
                    }
                    heard.fetch_add(more.len(), Relaxed);
                    came.extend(more);
                }
                check(own, came);
            }));
        }
        // Nor longer than anybody hears anything.
        while heard.load(Relaxed) < 20_000 && !hearers.iter().all(ScopedJoinHandle::is_finished) {
            std::thread::yield_now();
        }
        server.tell_to_stop();
    });
    let counted = server.end();
    assert_eq!(counted.of("panicked") + counted.of("lost"), 0, "{counted:?}");
}
