//! Many at once, and those who do not behave: each message reaches the right members, once, whole and in order.

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use threadgauge_load::codec::Nats;
use threadgauge_load::{Groups, Load, Plan};

use crate::server::{DEADLINE, Program, Server, Settings};
use crate::wire::Wire;
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("each_hears_the_other_nine_once_and_in_order", many),
    ("who_is_paused_killed_or_half_closed_harms_nobody", misbehaved),
    ("a_stop_in_the_middle_breaks_no_frame", stopped),
];

/// How long a crowd talks: each of it says at least one thing in this time, however busy the machine is, since all
/// that was begun is waited for.
const SPAN: Duration = Duration::from_millis(300);

/// How many there may be: where a connection costs a thread, fewer.
fn connections(site: &Site) -> usize {
    let many = if site.deep { 10_000 } else { 1_000 };
    match &site.program {
        Program::Ours { design, .. } if design.starts_with("prethreaded") => 100,
        Program::Ours { design, .. } if design == "thread-per-connection" => many.min(2_000),
        _ => many,
    }
}

fn serve(site: &Site) -> Result<Server> {
    let settings = Settings {
        // More than one at once, where that is not as many as come.
        workers: matches!(&site.program, Program::Ours { design, .. } if design.starts_with("prethreaded"))
            .then_some(120),
        ..Settings::default()
    };
    Server::start(&site.program, &settings)
}

fn plan(connections: usize, payload_bytes: usize) -> Plan {
    Plan {
        connections,
        group_size: 10,
        payload_bytes: payload_bytes.into(),
        patience: DEADLINE,
    }
}

/// The crowd holds every delivery to who must get it, in which order and with which bytes.
fn many(site: &Site) -> Result<()> {
    let server = serve(site)?;
    let connections = connections(site);
    let mut groups = Groups::connect(server.address(), &Nats::ALIKE, plan(connections, 128))?;
    for outstanding in [1, 8] {
        let outstanding = NonZeroUsize::new(outstanding).context("not zero")?;
        let tally = groups.talk(Load::Closed { outstanding }, SPAN)?;
        ensure!(
            tally.deliveries == 9 * tally.messages && tally.messages >= connections as u64,
            "{tally:?}"
        );
    }
    drop(groups);
    server.stop()
}

/// Beside well-behaved members of the same groups.
fn misbehaved(site: &Site) -> Result<()> {
    let server = serve(site)?;
    let mut groups = Groups::connect(server.address(), &Nats::ALIKE, plan(50, 1_024))?;
    let talk = |groups: &mut Groups| {
        let outstanding = NonZeroUsize::new(8).context("not zero")?;
        let tally = groups.talk(Load::Closed { outstanding }, SPAN)?;
        ensure!(tally.deliveries == 9 * tally.messages, "{tally:?}");
        anyhow::Ok(())
    };
    let listener = || {
        let mut wire = Wire::open(&server, r#"{"verbose":false}"#)?;
        // Every group there is.
        wire.send(b"SUB > 1\r\n")?;
        wire.settle()?;
        anyhow::Ok(wire)
    };
    talk(&mut groups)?;
    // Never reads.
    let paused = listener()?;
    // Says that it sends no more, and reads on: it hears whole messages until the server closes.
    let mut half_closed = listener()?;
    half_closed.stream().shutdown(std::net::Shutdown::Write)?;
    // Says half a message, and nothing more.
    let mut torn = listener()?;
    torn.send(b"PUB somewhere 100\r\nhalf of i")?;
    talk(&mut groups)?;
    let (_, closed) = half_closed.frames_until(|_| false)?;
    ensure!(closed, "what is half closed is answered and closed");
    // Gone with much unread, which resets the connection.
    drop((paused, torn));
    talk(&mut groups)?;
    // Come and gone while others talk.
    for _ in 0..20 {
        drop(listener()?);
    }
    talk(&mut groups)?;
    drop(groups);
    server.stop()
}

fn stopped(site: &Site) -> Result<()> {
    const LISTENERS: usize = 20;
    let server = serve(site)?;
    let mut listeners = Vec::new();
    for _ in 0..LISTENERS {
        let mut wire = Wire::open(&server, r#"{"verbose":false}"#)?;
        wire.send(b"SUB flood 1\r\n")?;
        wire.settle()?;
        listeners.push(wire);
    }
    let mut speaker = Wire::open(&server, r#"{"verbose":false}"#)?;
    let mouth = speaker.stream().try_clone()?;
    let message = [&b"PUB flood 5000\r\n"[..], &[b'x'; 5_000], b"\r\n"].concat();
    std::thread::scope(|scope| {
        // Until it is cut off in the middle.
        let speaker = scope.spawn(move || while speaker.send(&message).is_ok() {});
        let heard = stop_listened_to(&server, &mut listeners);
        // Or it would flood the server for ever, if that was never told to stop.
        let _ = mouth.shutdown(std::net::Shutdown::Both);
        speaker.join().ok().context("the speaker panicked")?;
        heard
    })?;
    server.end()
}

/// Tells a server to stop of which these hear a flood, and listens on to its end.
fn stop_listened_to(server: &Server, listeners: &mut [Wire]) -> Result<()> {
    // Not before everybody has heard something.
    for listener in &mut *listeners {
        listener.frames_until(|frame| !frame.is("PING"))?;
    }
    server.tell_to_stop()?;
    for listener in listeners {
        // Which fails where a frame is broken off.
        let (_, closed) = listener.frames_until(|_| false)?;
        ensure!(closed, "the server goes on");
    }
    Ok(())
}
