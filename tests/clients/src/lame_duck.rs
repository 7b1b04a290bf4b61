//! A server that is told to stop and is a lame duck first: its clients hear it, lose nothing and go on elsewhere.

use std::future;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_nats::{Client, ConnectOptions, Event};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::python_client::scenario;
use crate::rust_client::{next, patient, settle, subscribe, within};
use crate::server::{LameDuck, Program, Server, Settings};
use crate::wire::Wire;
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("async_nats_is_told_served_on_and_moves", moves),
    ("async_nats_that_stays_is_closed_and_comes_back_elsewhere", stays),
    ("sigterm_does_not_cut_it_short", sigterm),
];

pub const PYTHON_CASES: &[Case] = &[
    ("nats_py_is_told_and_served_on", |site| {
        python(site, "lame_duck", LONG)
    }),
    ("nats_py_that_stays_is_closed_and_comes_back_elsewhere", |site| {
        python(site, "lame_duck_over", SHORT)
    }),
];

/// So long that all is over before.
const LONG: LameDuck = LameDuck {
    whole_s: 600,
    grace_s: 590,
};
/// As short as `nats-server` allows. With few clients it is over soon after the grace.
const SHORT: LameDuck = LameDuck {
    whole_s: 30,
    grace_s: 1,
};

/// The server that stops, and the one to go to.
fn servers(site: &Site, lame_duck: LameDuck) -> Result<[Server; 2]> {
    let settings = Settings {
        lame_duck: Some(lame_duck),
        ..Settings::default()
    };
    Ok([
        Server::start(&site.program, &settings)?,
        Server::start(&site.program, &Settings::default())?,
    ])
}

/// A client of the first that knows both, and what happens to it.
async fn connect(servers: &[Server; 2]) -> Result<(Client, UnboundedReceiver<Event>)> {
    let (events, mut seen) = unbounded_channel();
    let client = patient(ConnectOptions::new())
        .retain_servers_order()
        .reconnect_delay_callback(|_| Duration::from_millis(10))
        .event_callback(move |event| {
            let _ = events.send(event);
            future::ready(())
        })
        .connect(&[servers[0].url(), servers[1].url()][..])
        .await?;
    until(&mut seen, &Event::Connected).await?;
    ensure!(is_at(&client, &servers[0]), "it did not connect to the first");
    Ok((client, seen))
}

async fn until(seen: &mut UnboundedReceiver<Event>, wanted: &Event) -> Result<()> {
    while seen.recv().await.context("the client ended")? != *wanted {}
    Ok(())
}

fn is_at(client: &Client, server: &Server) -> bool {
    client.server_info().port == server.address().port()
}

/// Who comes now is refused at once, and need not wait for a server that is about to be gone.
async fn until_refused(address: SocketAddr) {
    while !matches!(TcpStream::connect(address), Err(error) if error.kind() == ErrorKind::ConnectionRefused) {
        tokio::task::yield_now().await;
    }
}

fn moves(site: &Site) -> Result<()> {
    let servers = servers(site, LONG)?;
    within(async {
        let (one, mut seen_by_one) = connect(&servers).await?;
        let (two, mut seen_by_two) = connect(&servers).await?;
        let mut heard = subscribe(&two, "room").await?;
        for number in 0..100 {
            one.publish("room", number.to_string().into()).await?;
        }
        servers[0].tell_to_leave()?;
        until(&mut seen_by_one, &Event::LameDuckMode).await?;
        until(&mut seen_by_two, &Event::LameDuckMode).await?;
        until_refused(servers[0].address()).await;
        for number in 100..300 {
            one.publish("room", number.to_string().into()).await?;
        }
        for number in 0..300 {
            let message = next(&mut heard).await?;
            ensure!(
                message.payload == number.to_string().as_bytes(),
                "{number} is {message:?}"
            );
        }
        for (client, seen) in [(&two, &mut seen_by_two), (&one, &mut seen_by_one)] {
            client.force_reconnect().await?;
            until(seen, &Event::Connected).await?;
            settle(client).await?;
            ensure!(is_at(client, &servers[1]), "it did not move");
        }
        one.publish("room", "here".into()).await?;
        ensure!(next(&mut heard).await?.payload == "here");
        Ok(())
    })?;
    let [first, second] = servers;
    // Nobody is left. nats-server waits for the end of its time all the same.
    if let Program::Ours { .. } = site.program {
        first.end()?;
    }
    second.stop()
}

fn stays(site: &Site) -> Result<()> {
    let servers = servers(site, SHORT)?;
    within(async {
        let (one, mut seen_by_one) = connect(&servers).await?;
        let (two, mut seen_by_two) = connect(&servers).await?;
        let mut heard = subscribe(&two, "room").await?;
        servers[0].tell_to_leave()?;
        for (client, seen) in [(&one, &mut seen_by_one), (&two, &mut seen_by_two)] {
            for event in [Event::LameDuckMode, Event::Disconnected, Event::Connected] {
                until(seen, &event).await?;
            }
            settle(client).await?;
            ensure!(is_at(client, &servers[1]), "it did not go elsewhere");
        }
        one.publish("room", "here".into()).await?;
        ensure!(next(&mut heard).await?.payload == "here");
        Ok(())
    })?;
    let [first, second] = servers;
    first.end()?;
    second.stop()
}

fn sigterm(site: &Site) -> Result<()> {
    let settings = Settings {
        lame_duck: Some(LONG),
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    let mut wire = Wire::open(&server, r#"{"verbose":false,"protocol":1}"#)?;
    server.tell_to_leave()?;
    // Behind the first INFO, which may come only now.
    while !String::from_utf8(wire.until(b"\r\n")?)?.contains(r#""ldm":true"#) {}
    for _ in 0..3 {
        server.tell_to_stop()?;
        server.signals_arrived()?;
        ensure!(wire.settle()?.is_empty(), "served as before");
    }
    Ok(())
}

/// The scenario tells the server itself, when its clients are ready.
fn python(site: &Site, case: &str, lame_duck: LameDuck) -> Result<()> {
    let [first, second] = servers(site, lame_duck)?;
    let (pid, signal) = first.how_to_leave();
    let (pid, signal) = (pid.to_string(), signal.to_string());
    scenario(site, &[case, &first.url(), &second.url(), &pid, &signal])?;
    if matches!(site.program, Program::Ours { .. }) || lame_duck.grace_s == SHORT.grace_s {
        first.end()?;
    }
    second.stop()
}
