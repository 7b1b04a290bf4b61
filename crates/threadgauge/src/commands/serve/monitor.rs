//! The monitor: what a server of groups does, as pages over HTTP, for people, for NATS' own tools and for Prometheus.
//!
//! It is a server of its own on one reactor, in a thread of its own and with few connections, so that whoever asks
//! for pages, and however, the server itself goes on. What it reads it reads without stopping anybody. Nobody else is
//! kept out by those who connect and ask for nothing, or do not take what they asked for.

mod connz;
mod hosts;
mod metrics;
mod varz;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use rustix::param::page_size;
use serde_json::{Value, json};
use threadgauge_machine::usage_self;
use threadgauge_reactor::protocol::groups;
use threadgauge_reactor::protocol::http::{Answer, Http, Query, Request, Status};
use threadgauge_reactor::{Design, Error, Meter, Overflow, Server, Stop, Totals, Waiting, WhenFull};

pub use hosts::Hosts;

/// How many may be connected at once; the next takes the place of who has said nothing for longest.
const MOST_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(32).expect("not zero");
/// How long a request may take to come.
const REQUEST: Duration = Duration::from_secs(2);
/// How long a connection may be silent.
const IDLE: Duration = Duration::from_secs(10);

/// A monitor that serves.
pub struct Monitor {
    address: SocketAddr,
    stop: Stop,
    thread: JoinHandle<Result<Totals, Error>>,
}

impl Monitor {
    /// Starts it, in a thread of its own.
    ///
    /// # Errors
    ///
    /// If the address cannot be had.
    pub fn start(pages: Pages, address: &str) -> Result<Self> {
        let stop = Stop::new().context("the monitor cannot be made stoppable")?;
        let pages = Http::new(move |request| pages.get(request).no_store().not_sniffed());
        let bound = Server::new(pages)
            .design(Design::Reactor)
            .max_connections(MOST_CONNECTIONS)
            .when_full(WhenFull::OldestGoes)
            .handshake(REQUEST)
            .idle(IDLE)
            // What one has asked for and does not take is in memory once.
            .output_limit(NonZeroUsize::MIN, Overflow::Wait)
            .drain(Duration::from_secs(1))
            .bind(address)
            .context("the monitor cannot listen")?;
        let (address, until) = (bound.local_addr(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(move || bound.run(&until))
            .context("no thread for the monitor")?;
        Ok(Self {
            address,
            stop,
            thread,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// Why it has not served to the end.
    pub fn end(self) -> Result<()> {
        self.stop.stop();
        let ended = self.thread.join();
        ended
            .map_err(|_| anyhow!("the monitor panicked"))?
            .context("the monitor failed")?;
        Ok(())
    }
}

/// Where the pages have their figures from.
pub struct Pages {
    /// Clients and their messages.
    pub figures: groups::Monitor,
    /// What the server counts.
    pub meter: Meter,
    /// How many bytes wait for each client.
    pub waiting: Waiting,
    /// How many may.
    pub most_waiting: NonZeroUsize,
    /// The names under which they are asked for.
    pub hosts: Hosts,
    /// The server's own.
    pub stop: Stop,
    /// How many clients may be there at once.
    pub most_connections: usize,
    /// Since when it serves.
    pub since: Timestamp,
    /// The same by the clock that is never set.
    pub began: Instant,
    /// What CPU time it had used at which time, when that was last asked.
    pub used: Mutex<Option<(Instant, Duration)>>,
}

impl Pages {
    /// The page at `path`.
    fn get(&self, request: Request<'_>) -> Answer {
        let Request {
            path, query, host, ..
        } = request;
        if !self.hosts.include(host) {
            return Answer::text(OTHER_HOST.as_bytes()).status(Status::Misdirected);
        }
        match path {
            "/" => Answer::new("text/html; charset=utf-8", INDEX.as_bytes()),
            "/varz" => json_page(&self.varz()),
            "/connz" => match self.connz(query) {
                Ok(page) => json_page(&page),
                Err(wrong) => Answer::text(wrong.into_bytes()).status(Status::BadRequest),
            },
            "/healthz" => self.healthz(),
            "/metrics" => self.metrics(request.accept),
            _ => Answer::text(b"404 page not found").status(Status::NotFound),
        }
    }

    /// A time since it serves, as others read it: the same on each page.
    fn written(&self, at: Instant) -> String {
        (self.since + at.saturating_duration_since(self.began)).to_string()
    }

    /// How much of one CPU it has used since this was last asked, in percent.
    fn cpu_percent(&self) -> f64 {
        let (now, used) = (Instant::now(), usage_self().cpu());
        let mut last = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, before) = last.replace((now, used)).unwrap_or((self.began, Duration::ZERO));
        percent(used.saturating_sub(before), now.saturating_duration_since(since))
    }

    /// Whether new clients are served: once it stops they are not.
    fn healthz(&self) -> Answer {
        match self.stop.is_stopped() {
            false => json_page(&json!({ "status": "ok" })),
            true => json_page(&json!({ "status": "unavailable", "error": "the server is stopping" }))
                .status(Status::Unavailable),
        }
    }
}

/// A page for programs.
fn json_page(page: &Value) -> Answer {
    Answer::new("application/json", format!("{page:#}").into_bytes())
}

const OTHER_HOST: &str = "This server does not know that name as its own: see its option --monitor-hosts.\n";

const INDEX: &str = "<!DOCTYPE html>
<html lang=\"en\"><meta charset=\"utf-8\"><title>groups</title>
<h1>groups</h1>
<ul>
<li><a href=\"varz\">varz</a>: the server
<li><a href=\"connz\">connz</a>: its clients
<li><a href=\"connz?subs=1\">connz?subs=1</a>: and what they are subscribed to
<li><a href=\"healthz\">healthz</a>: whether it serves
<li><a href=\"metrics\">metrics</a>: for Prometheus
</ul>
</html>
";

/// A length of time as NATS writes it: years, days, hours, minutes and seconds, from the first that is not zero.
fn uptime(seconds: u64) -> String {
    let (minutes, hours, days, years) = (
        seconds / 60,
        seconds / 3_600,
        seconds / 86_400,
        seconds / 31_536_000,
    );
    let (s, m, h, d) = (seconds % 60, minutes % 60, hours % 24, days % 365);
    match (years, days, hours, minutes) {
        (1.., ..) => format!("{years}y{d}d{h}h{m}m{s}s"),
        (_, 1.., ..) => format!("{d}d{h}h{m}m{s}s"),
        (_, _, 1.., _) => format!("{h}h{m}m{s}s"),
        (_, _, _, 1..) => format!("{m}m{s}s"),
        _ => format!("{s}s"),
    }
}

/// How much of one CPU was used in this time, in percent with one digit: as NATS has it; more would only seem exact.
fn percent(used: Duration, time: Duration) -> f64 {
    let percent = 100.0 * used.as_secs_f64() / time.as_secs_f64().max(1e-3);
    (10.0 * percent).round() / 10.0
}

/// What the process has in memory now; none where the kernel does not say.
fn memory_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(resident * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_it_is_up_begins_with_what_is_not_zero() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m0s"),
            (3_661, "1h1m1s"),
            (90_000, "1d1h0m0s"),
            (31_536_000 + 86_400, "1y1d0h0m0s"),
        ] {
            assert_eq!(uptime(seconds), text);
        }
    }

    #[test]
    fn cpu_time_is_a_share_of_the_time_with_one_digit() {
        let of = |used_ms, time_ms| percent(Duration::from_millis(used_ms), Duration::from_millis(time_ms));
        assert_eq!(of(1_000, 3_000), 33.3);
        assert_eq!(of(5_000, 2_000), 250.0);
        assert_eq!(of(0, 0), 0.0);
    }

    #[test]
    fn memory_is_in_pages_of_which_there_are_many() {
        let bytes = memory_bytes().expect("there is a kernel that says it");
        assert!(bytes > 100_000, "{bytes}");
        assert_eq!(bytes % page_size() as u64, 0, "{bytes}");
    }
}
