//! Clients that make nothing of the end that they have read: nobody waits for them longer than is said.

use std::io::{Read, Write};
use std::net::TcpStream;

use threadgauge_reactor::BuiltIn;

use crate::PATIENCE;
use crate::round::Way;
use crate::server::Running;

/// More than a server throws away of one client, and than sockets hold.
const MUCH: usize = 1 << 30;
const PIECE: usize = 1 << 20;

/// The only place, in turns, of one who stays, of one who sends without end, and of a third.
///
/// # Errors
///
/// If one of them keeps the next from being served, or is never ended.
pub fn keeps_nobody(way: Way) -> Result<(), String> {
    let settings = ["max_connections=1".to_owned()];
    let mut server = Running::start(BuiltIn::Bytes.name(), way.design, 1, &settings);
    let _stays = served(&server).map_err(|error| format!("the first is not served: {error}"))?;
    let mut floods = served(&server).map_err(|error| format!("one who stays is waited for: {error}"))?;
    let piece = vec![b'x'; PIECE];
    let mut pieces = 0..MUCH / PIECE;
    if pieces.all(|_| floods.write_all(&piece).is_ok()) {
        return Err(format!("{MUCH} bytes are taken behind the end"));
    }
    served(&server).map_err(|error| format!("one who sends without end is waited for: {error}"))?;
    server.tell_to_stop();
    let counted = server.end()?;
    match counted["finished"] {
        3 => Ok(()),
        finished => Err(format!("{finished} of 3 connections have finished")),
    }
}

/// A client that has read its answer and the end.
fn served(server: &Running) -> Result<TcpStream, String> {
    let ask = || {
        let mut client = TcpStream::connect(server.address)?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.set_write_timeout(Some(PATIENCE))?;
        client.write_all(b"5\n")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        std::io::Result::Ok((client, answer))
    };
    let (client, answer) = ask().map_err(|error| error.to_string())?;
    match answer.as_str() {
        "abcde" => Ok(client),
        _ => Err(format!("it got {answer:?}")),
    }
}
