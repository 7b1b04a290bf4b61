//! `/varz`: the server as a whole, under NATS' own names.
//!
//! What NATS has there and this server has not (clusters, JetStream, accounts) is left out rather than zero.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use threadgauge_reactor::CloseReason;

use super::{Pages, memory_bytes, uptime};

impl Pages {
    /// The page.
    pub(super) fn varz(&self) -> Value {
        let (server, options, totals) = (self.figures.server(), self.figures.options(), self.meter.totals());
        let now = Timestamp::now();
        json!({
            "server_id": options.server_id,
            "server_name": options.server_name,
            "version": server.version,
            "implementation": server.implementation,
            "proto": 1,
            "host": server.address.ip(),
            "port": server.address.port(),
            "auth_required": server.auth_required,
            "max_connections": self.most_connections,
            "max_subscriptions": options.max_subscriptions,
            "max_payload": options.max_payload,
            "max_control_line": options.max_control_line,
            "max_pending": self.most_waiting,
            "ping_interval": nanoseconds(options.ping_interval),
            "ping_max": options.max_pings_out,
            "auth_timeout": options.auth_timeout.as_secs_f64(),
            "lame_duck_duration": nanoseconds(options.lame_duck),
            "start": self.since.to_string(),
            "now": now.to_string(),
            "uptime": uptime(self.seconds_up(now)),
            "mem": memory_bytes(),
            "cpu": self.cpu_percent(),
            "cores": std::thread::available_parallelism().map_or(1, usize::from),
            "connections": server.clients,
            "total_connections": server.clients_ever,
            "subscriptions": server.subscriptions,
            "slow_consumers": totals.closed(CloseReason::Slow),
            "slow_consumer_stats": { "clients": totals.closed(CloseReason::Slow) },
            "stalled_clients": totals.held_up,
            "in_msgs": server.published.messages,
            "in_bytes": server.published.bytes,
            "out_msgs": server.delivered.messages,
            "out_bytes": server.delivered.bytes,
        })
    }

    pub(super) fn seconds_up(&self, now: Timestamp) -> u64 {
        u64::try_from(now.as_second() - self.since.as_second()).unwrap_or(0)
    }
}

/// As NATS writes lengths of time that are settings.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
