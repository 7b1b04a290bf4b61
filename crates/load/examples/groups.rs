//! Talks in groups of ten at a server that is there already, and prints what came.
//!
//! ```text
//! cargo run --release -p threadgauge-load --example groups -- 127.0.0.1:4222 nats 1000 128 closed 1 3
//! cargo run --release -p threadgauge-load --example groups -- 127.0.0.1:4222 nats 1000 128 open 20000 3
//! ```
//!
//! Server, protocol (`nats`, `resp`, `mqtt`, `chat`, `websocket`), connections, bytes of a message, `closed` with the
//! messages that each has on their way or `open` with the deliveries a second, seconds.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use threadgauge_load::codec::{Chat, Codec, Mqtt, Nats, Resp, WebSocket};
use threadgauge_load::{Arrivals, Groups, Latency, Load, Plan, Quantile};

const WARM_UP: Duration = Duration::from_millis(300);
const USAGE: &str = "say SERVER nats|resp|mqtt|chat|websocket CONNECTIONS BYTES closed|open HOW-MANY SECONDS";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("groups: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [server, protocol, connections, bytes, kind, many, seconds] = words[..] else {
        return Err(USAGE.into());
    };
    let codec: &'static dyn Codec = match protocol {
        "nats" => &Nats::ALIKE,
        "resp" => &Resp,
        "mqtt" => &Mqtt,
        "chat" => &Chat,
        "websocket" => &WebSocket,
        _ => return Err(USAGE.into()),
    };
    let load = match kind {
        "closed" => Load::Closed {
            outstanding: many.parse()?,
        },
        "open" => Load::Open {
            deliveries_per_second: many.parse()?,
            arrivals: Arrivals::Poisson,
            seed: 1,
        },
        _ => return Err(USAGE.into()),
    };
    let plan = Plan {
        connections: connections.parse()?,
        group_size: 10,
        payload_bytes: bytes.parse()?,
        patience: Duration::from_secs(20),
    };
    let mut groups = Groups::connect(server.parse()?, codec, plan)?;
    groups.talk(load, WARM_UP)?;
    let tally = groups.talk(load, Duration::from_secs_f64(seconds.parse()?))?;
    println!(
        "{} deliveries, {:.0} a second, driver on its CPU {:.0} % of the time",
        tally.deliveries,
        tally.rate(),
        100.0 * tally.driver_share()
    );
    if tally.pace.is_some() {
        println!("latency:  {}", show(&tally.latency));
        println!("lateness: {}", show(&tally.lateness));
    }
    if let Some(reason) = tally.invalid() {
        println!("invalid: {reason}");
    }
    Ok(())
}

fn show(latency: &Latency) -> String {
    let of = |q| match latency.quantile(q) {
        Some(Quantile::Ns(ns)) => format!("{:.0} µs", ns as f64 / 1e3),
        Some(Quantile::Overflow) => "over a minute".to_owned(),
        None => "too few".to_owned(),
    };
    format!("median {}, 99 % {}, 99.9 % {}", of(0.5), of(0.99), of(0.999))
}
