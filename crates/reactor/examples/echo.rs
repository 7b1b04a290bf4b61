//! An echo server: `echo 127.0.0.1:7000`, or without an address on a free port.
#![allow(clippy::print_stderr)]
use threadgauge_reactor::{ConnectionId, Design, Io, Protocol, Server, Session, Stop};

struct Echo;

impl Protocol for Echo {
    type Session = Echo;
    fn open(&self, _: ConnectionId) -> Echo {
        Echo
    }
}

impl Session for Echo {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        io.send(input);
        input.len()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:0".into());
    let stop = Stop::new()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, stop.trigger()?)?;
    let server = Server::new(Echo).design(Design::Reactor).bind(address)?;
    eprintln!("listening on {}", server.local_addr());
    let totals = server.run(&stop)?; // until SIGTERM
    eprintln!("{} bytes came back", totals.bytes_out);
    Ok(())
}
