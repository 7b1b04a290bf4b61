//! What a server says of itself to who comes: beside `nats-server`, to which each case is played as well.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::server::{Program, Server, Settings};
use crate::wire::Wire;
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("its_version_is_one_that_clients_ask_for", version),
    ("a_second_info_follows_the_first_pong", second_info),
    ("no_second_info_for_who_knows_but_the_first", no_second_info),
];

/// The object of the next line, which is an `INFO`.
fn info(wire: &mut Wire) -> Result<Value> {
    let line = String::from_utf8(wire.until(b"\r\n")?)?;
    let json = line
        .strip_prefix("INFO ")
        .with_context(|| format!("no INFO: {line}"))?;
    Ok(serde_json::from_str(json)?)
}

fn version(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let info = info(&mut Wire::connected(&server)?)?;
    let version = info["version"].as_str().context("a text")?;
    let numbers: Vec<u32> = version
        .split('.')
        .map_while(|number| number.parse().ok())
        .collect();
    ensure!(
        numbers.len() == 3 && numbers[0] == 2 && numbers >= vec![2, 8, 2],
        "{version}"
    );
    let own = info["implementation"].as_str().unwrap_or_default();
    let is_ours = matches!(site.program, Program::Ours { .. });
    ensure!(own.starts_with("threadgauge ") == is_ours, "it is {own:?}");
    server.stop()
}

/// For clients that say that they take one at any time.
fn second_info(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let mut wire = Wire::connected(&server)?;
    let first = info(&mut wire)?;
    for name in ["connect_info", "remote_account"] {
        ensure!(first[name].is_null(), "{name} comes later: {first}");
    }
    wire.send(b"CONNECT {\"verbose\":false,\"protocol\":1}\r\nPING\r\n")?;
    ensure!(wire.until(b"\r\n")? == b"PONG\r\n", "before the second");
    let second = info(&mut wire)?;
    ensure!(
        second["connect_info"] == true && second["remote_account"] == "$G",
        "{second}"
    );
    for name in [
        "server_id",
        "version",
        "client_id",
        "port",
        "max_payload",
        "headers",
    ] {
        ensure!(
            first[name] == second[name] && !first[name].is_null(),
            "{name}: {second}"
        );
    }
    ensure!(wire.settle()?.is_empty(), "no third");
    server.stop()
}

fn no_second_info(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let mut wire = Wire::open(&server, "{\"verbose\":false}")?;
    ensure!(wire.settle()?.is_empty());
    server.stop()
}
