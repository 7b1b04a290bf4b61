//! The requests of one table, each answered as RFC 9112 has it: what a design makes of them is held to right values,
//! not only to what others do.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::PATIENCE;
use crate::http_requests::{requests, summary};
use crate::round::Way;
use crate::server::Running;

/// Each request by a client of its own.
///
/// # Errors
///
/// The first that is answered otherwise.
pub fn holds(way: Way) -> Result<(), String> {
    let mut server = Running::start("http", way.design, 1, &[]);
    for (request, expected) in requests() {
        let ask = || -> io::Result<Vec<u8>> {
            let mut client = TcpStream::connect(server.address)?;
            client.set_read_timeout(Some(PATIENCE))?;
            client.set_write_timeout(Some(PATIENCE))?;
            client.write_all(request.as_bytes())?;
            client.shutdown(Shutdown::Write)?;
            let mut answers = Vec::new();
            client.read_to_end(&mut answers)?;
            Ok(answers)
        };
        let answers = ask().map_err(|error| format!("{request:?}: {error}"))?;
        let said = summary(&answers);
        if said != expected {
            return Err(format!("{request:?} is answered {said}, not {expected}"));
        }
    }
    server.tell_to_stop();
    server.end().map(drop)
}
