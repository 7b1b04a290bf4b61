//! `/metrics`: the same for Prometheus, in its text format or as OpenMetrics 1.0, for who asks for that.

use std::fmt::{Display, Write as _};

use threadgauge_machine::usage_self;
use threadgauge_reactor::CloseReason;
use threadgauge_reactor::protocol::http::Answer;

use super::{Pages, memory_bytes};

/// How the page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Prometheus' own format.
    Text,
    /// What became of it: a counter is known without the end of its name, and the page has an end.
    OpenMetrics,
}

impl Form {
    /// OpenMetrics where an `Accept` names it, in this version or in any: others are no better to know.
    fn liked(accept: &str) -> Self {
        let names_it = |kind: &str| {
            let mut parts = kind.split(';').map(str::trim);
            let is_it = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
            let fits = |parameter: &str| match parameter.split_once('=') {
                Some(("version", version)) => version == "1.0.0",
                Some(("q", weight)) => weight.parse() != Ok(0.0_f64),
                _ => true,
            };
            is_it && parts.all(fits)
        };
        match accept.split(',').any(names_it) {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// As `Content-Type` has it.
    fn kind(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Pages {
    /// The page, in the form that is liked best.
    pub(super) fn metrics(&self, accept: &str) -> Answer {
        let form = Form::liked(accept);
        Answer::new(form.kind(), self.scrape(form).into_bytes())
    }

    fn scrape(&self, form: Form) -> String {
        let (server, totals) = (self.figures.server(), self.meter.totals());
        let mut page = Page {
            form,
            text: String::new(),
        };
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
        if form == Form::OpenMetrics {
            page.text.push_str("# EOF\n");
        }
        page.text
    }
}

/// A page in the making.
struct Page {
    form: Form,
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let family = match self.form {
            Form::Text => name,
            Form::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        };
        let _ = writeln!(self.text, "# HELP {family} {help}\n# TYPE {family} {kind}");
    }

    /// Names and labels are ours and need no escapes.
    fn sample(&mut self, name: &str, value: impl Display) {
        let _ = writeln!(self.text, "{name} {value}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_who_names_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, form) in [
            (prometheus, Form::OpenMetrics),
            (
                "text/plain, Application/OpenMetrics-Text ; version=1.0.0",
                Form::OpenMetrics,
            ),
            ("application/openmetrics-text", Form::OpenMetrics),
            ("application/openmetrics-text;version=0.0.1", Form::Text),
            ("application/openmetrics-text;q=0.0", Form::Text),
            ("text/html,*/*;q=0.8", Form::Text),
            ("", Form::Text),
        ] {
            assert_eq!(Form::liked(accept), form, "{accept}");
        }
    }
}
