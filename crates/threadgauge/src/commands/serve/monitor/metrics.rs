//! `/metrics`: the same for Prometheus, in its text format.

use std::fmt::{Display, Write as _};

use threadgauge_machine::usage_self;
use threadgauge_reactor::CloseReason;

use super::{Pages, memory_bytes};

impl Pages {
    /// The page.
    pub(super) fn metrics(&self) -> String {
        let (server, totals) = (self.figures.server(), self.meter.totals());
        let mut page = Page::default();
        page.gauge(
            "groups_connections",
            "Clients that are connected.",
            server.clients,
        );
        page.gauge(
            "groups_subscriptions",
            "Subscriptions of all clients.",
            server.subscriptions,
        );
        for (name, help, count) in [
            // Not `connections_total`: OpenMetrics, which knows a counter without the suffix, would have two of a name.
            ("clients_total", "Clients until now.", server.clients_ever),
            (
                "authorization_violations_total",
                "Clients that were not let in.",
                server.violations,
            ),
            (
                "slow_consumers_total",
                "Clients that were dropped because they read too slowly.",
                totals.closed(CloseReason::Slow),
            ),
            (
                "stalled_clients_total",
                "Times that a subscriber with too much waiting began to hold up a publisher, counted for each publisher.",
                totals.held_up,
            ),
            (
                "received_messages_total",
                "Messages that clients have published.",
                server.published.messages,
            ),
            (
                "received_message_bytes_total",
                "Their bytes: headers and payload.",
                server.published.bytes,
            ),
            (
                "sent_messages_total",
                "Messages to clients, each once for each who got it.",
                server.delivered.messages,
            ),
            (
                "sent_message_bytes_total",
                "Their bytes: headers and payload.",
                server.delivered.bytes,
            ),
        ] {
            page.counter(&format!("groups_{name}"), help, count);
        }
        page.head(
            "groups_closed_total",
            "counter",
            "Connections that ended, by reason.",
        );
        for reason in CloseReason::ALL {
            let name = reason.name().replace(' ', "_");
            page.sample(
                &format!("groups_closed_total{{reason=\"{name}\"}}"),
                totals.closed(reason),
            );
        }
        // Whatever the server counts, by the names it has there.
        for (name, count) in totals.each() {
            page.counter(
                &format!("groups_reactor_{name}_total"),
                "Counted by the server's loops and threads.",
                count,
            );
        }
        page.process(self.since.as_second());
        page.0
    }
}

/// A page in the making.
#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Names and labels are ours and need no escapes.
    fn sample(&mut self, name: &str, value: impl Display) {
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.sample(name, value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "counter", help);
        self.sample(name, value);
    }

    /// What Prometheus' own libraries say of every process.
    fn process(&mut self, since_s: i64) {
        self.counter(
            "process_cpu_seconds_total",
            "User and system time.",
            usage_self().cpu().as_secs_f64(),
        );
        if let Some(bytes) = memory_bytes() {
            self.gauge("process_resident_memory_bytes", "What is in memory.", bytes);
        }
        self.gauge(
            "process_start_time_seconds",
            "When the server began, in seconds since 1970.",
            since_s,
        );
    }
}
