//! A chat: `chat DESIGN`. A client names a room in its first line; each further line goes to everyone else there.
#![allow(clippy::print_stderr)]
use threadgauge_reactor::protocol::first_line;
use threadgauge_reactor::{ConnectionId, Io, Member, Protocol, Rooms, Server, Session, Stop};

#[derive(Default)]
struct Chat {
    rooms: Rooms,
}

struct ChatSession {
    rooms: Rooms,
    member: Option<Member>, // leaves the room when the session is dropped
}

impl Protocol for Chat {
    type Session = ChatSession;
    const SHARED: bool = true; // designs that keep connections apart refuse it
    const MAX_FRAME: usize = 4_096; // longer lines end a connection

    fn open(&self, _: ConnectionId) -> ChatSession {
        ChatSession {
            rooms: self.rooms.clone(),
            member: None,
        }
    }
}

impl Session for ChatSession {
    fn opened(&mut self, io: &mut Io<'_>) {
        io.send(b"which room?\n");
    }

    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        let Some((line, length)) = first_line(input) else {
            return 0; // not whole yet: it comes again, with more behind it
        };
        match &self.member {
            Some(member) => member.send_to_others(io, &input[..length]),
            None => {
                let member = self.rooms.join(line, io);
                io.send(format!("{} here\n", member.count()).as_bytes());
                self.member = Some(member);
            }
        }
        length
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let design = std::env::args().nth(1).unwrap_or("reactor".into());
    let stop = Stop::new()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, stop.trigger()?)?;
    let server = Server::new(Chat::default()).design(design.parse()?);
    let server = server.bind("127.0.0.1:0")?;
    eprintln!("listening on {}", server.local_addr());
    let totals = server.run(&stop)?; // until SIGTERM
    eprintln!("{} lines, {} deliveries", totals.messages, totals.deliveries);
    Ok(())
}
