//! Settings of a server as words, each `name=value`.

use std::num::NonZeroUsize;
use std::time::Duration;

use threadgauge_reactor::{Overflow, Protocol, Server};

/// A server with these; `other` is given those that are no setting of a server.
///
/// # Panics
///
/// If a value is none.
pub fn with<P: Protocol>(
    mut server: Server<P>,
    settings: &[String],
    mut other: impl FnMut(&str, &str),
) -> Server<P> {
    // So that no test fails because the machine is slow.
    server = server.write_timeout(Duration::from_secs(3_600));
    let (mut limit, mut overflow) = (NonZeroUsize::new(1 << 20).expect("not zero"), Overflow::Wait);
    for setting in settings {
        let (name, value) = setting.split_once('=').expect("name=value");
        let number = || value.parse::<usize>().expect("a number");
        let count = || NonZeroUsize::new(number()).expect("more than 0");
        let ms = || Duration::from_millis(number() as u64);
        server = match name {
            "workers" => {
                let (least, most) = value.split_once("..").unwrap_or((value, value));
                server.workers(least.parse().expect("least")..=most.parse().expect("most"))
            }
            "readers" => server.readers(number()),
            "writers" => server.writers(number()),
            "sends" => server.sends(value.parse().expect("a way to send")),
            "max_connections" => server.max_connections(count()),
            "idle_ms" => server.idle(ms()),
            "handshake_ms" => server.handshake(ms()),
            "write_timeout_ms" => server.write_timeout(ms()),
            "drain_ms" => server.drain(ms()),
            "output_limit" => {
                limit = count();
                server
            }
            "overflow" => {
                overflow = value.parse().expect("an overflow");
                server
            }
            _ => {
                other(name, value);
                server
            }
        };
    }
    server.output_limit(limit, overflow)
}
