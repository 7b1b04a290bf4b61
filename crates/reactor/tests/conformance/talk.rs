//! Members of a group that all talk at once, while the server is told to stop.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::client::Client;
use crate::server::Running;

/// So many talk.
pub const MEMBERS: usize = 4;

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
            scope.spawn(move || {
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
            });
        }
        while heard.load(Relaxed) < 20_000 {
            std::thread::yield_now();
        }
        server.tell_to_stop();
    });
    let counted = server.end();
    assert_eq!(counted.of("panicked") + counted.of("lost"), 0, "{counted:?}");
}
