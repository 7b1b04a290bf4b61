//! A session that goes on when the server stops: what its client sends then is heard, or that it is not is documented.

use std::io::{Read, Write};
use std::net::TcpStream;

use threadgauge_reactor::{AtOnce, CloseReason, ConnectionId, Io, Protocol, Session};

use crate::PATIENCE;
use crate::differences::{Difference, is_documented};
use crate::round::Way;
use crate::server::Running;

/// The name of [`Stays`] for a server.
pub const STAYS: &str = "stays";

/// Sends back each byte, and one more when the server stops; ends with its client alone.
pub struct Stays;

const LEAVE: u8 = b'q';
const STOPS: &[u8] = b"!";

impl Protocol for Stays {
    type Session = Self;

    fn open(&self, _: ConnectionId) -> Self {
        Self
    }
}

impl Session for Stays {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        match input[0] {
            LEAVE => io.close(),
            byte => io.send(&[byte]),
        }
        1
    }

    fn stopping(&mut self, io: &mut Io<'_>) {
        io.send(STOPS);
    }
}

/// Where a thread or process blocks for each client, it is not heard.
fn is_heard(way: Way) -> bool {
    let design = way.design;
    let is_event_driven =
        design.about().at_once == AtOnce::Many && !design.name().ends_with("-per-connection");
    is_event_driven || !is_documented(Difference::LateInput)
}

/// One client that goes on after the stop.
///
/// # Errors
///
/// If it is not heard, or is, other than documented.
pub fn is_heard_as_documented(way: Way) -> Result<(), String> {
    let is_heard = is_heard(way);
    // Who is not heard is ended by that.
    let drain = if is_heard { PATIENCE.as_millis() } else { 1_000 };
    let mut server = Running::start(STAYS, way.design, 1, &[format!("drain_ms={drain}")]);
    let mut client = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
    let limits = client
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| client.set_write_timeout(Some(PATIENCE)));
    limits.map_err(|error| error.to_string())?;
    let mut says = |said: &[u8], hears: &[u8]| {
        // One more than it should hear at the end, which is none.
        let mut came = vec![0; hears.len().max(1)];
        let talked = client.write_all(said).and_then(|()| client.read(&mut came));
        match &talked {
            Ok(count) if came[..*count] == *hears => Ok(()),
            _ => Err(format!("it said {said:?}, and heard {talked:?} of {hears:?}")),
        }
    };
    says(b"a", b"a")?;
    server.tell_to_stop();
    says(b"", STOPS)?;
    if is_heard {
        says(b"b", b"b")?;
        says(&[LEAVE], b"")?;
    } else {
        says(b"b", b"")?;
    }
    let reason = match is_heard {
        true => CloseReason::Finished,
        false => CloseReason::DrainTime,
    };
    let counted = server.end()?;
    match counted[reason.name()] {
        1 => Ok(()),
        _ => Err(format!(
            "its end is not counted as {}: {counted:?}",
            reason.name()
        )),
    }
}
