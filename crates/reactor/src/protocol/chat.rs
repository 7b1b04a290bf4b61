//! Lines to everyone else in the room.
//!
//! A client's first line is `join ROOM`, answered with `joined ROOM`: from then on it hears the others. A room's name
//! has 1 to 64 bytes, none of them a control character, and a room has as many members as come. Each further line
//! goes to every other member, as it came and without the sender's name; no longer than 16 KiB. A last line without
//! its end is no line.

use crate::catalogue::About;
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::protocol::line::first_line;
use crate::protocol::{Io, Protocol, Session};
use crate::rooms::{Member, Rooms};

pub(crate) const ABOUT: About = About {
    name: "chat",
    summary: "join ROOM, then each line goes to everyone else in the room",
};

/// The most bytes of a room's name.
const MOST_NAME_BYTES: usize = 64;

/// Sends each line to everyone else in the room.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    rooms: Rooms,
}

/// The session of one client: a member of a room, or one who has yet to join.
#[derive(Debug)]
pub struct ChatSession {
    rooms: Rooms,
    /// Leaves the room when the session is gone.
    member: Option<Member>,
}

impl Protocol for Chat {
    type Session = ChatSession;
    const SHARED: bool = true;
    const MAX_FRAME: usize = 16 * 1024;

    fn open(&self, _: ConnectionId) -> ChatSession {
        ChatSession {
            rooms: self.rooms.clone(),
            member: None,
        }
    }
}

impl Session for ChatSession {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        let Some((line, length)) = first_line(input) else {
            return 0;
        };
        match (&self.member, room_name(line)) {
            (Some(member), _) => member.send_to_others(io, &input[..length]),
            (None, Some(name)) => {
                self.member = Some(self.rooms.join(name, io));
                io.send(&[b"joined ", name, b"\n"].concat());
            }
            (None, None) => {
                io.send(b"refused: first join ROOM, with a name of 1 to 64 bytes\n");
                io.refuse();
            }
        }
        length
    }

    fn closed(&mut self, _: CloseReason, _: &mut Io<'_>) {
        self.member = None;
    }
}

fn room_name(line: &[u8]) -> Option<&[u8]> {
    let name = line.strip_prefix(b"join ")?;
    let good = (1..=MOST_NAME_BYTES).contains(&name.len()) && !name.iter().any(u8::is_ascii_control);
    good.then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::CloseReason;
    use crate::testing::{Rehearsal, split_anywhere};

    /// A server and its clients, all in one room.
    fn room<const CLIENTS: usize>(server: &mut Rehearsal<Chat>, name: &str) -> [ConnectionId; CLIENTS] {
        std::array::from_fn(|_| {
            let client = server.connect();
            server.receive(client, format!("join {name}\r\n").as_bytes());
            assert_eq!(server.take_output(client), format!("joined {name}\n").as_bytes());
            client
        })
    }

    #[test]
    fn a_line_goes_to_everyone_else_in_the_room_and_to_nobody_beyond() {
        let mut server = Rehearsal::new(Chat::default());
        let [a, b, c] = room(&mut server, "x");
        let [other] = room(&mut server, "y");
        server.receive(a, b"hello\nhow are you\r\n\nnot whole");
        assert_eq!(server.take_output(b), b"hello\nhow are you\r\n\n");
        assert_eq!(server.take_output(c), b"hello\nhow are you\r\n\n");
        assert_eq!(server.take_output(a), b"");
        assert_eq!(server.take_output(other), b"");
    }

    #[test]
    fn who_is_gone_hears_nothing_and_an_empty_room_is_gone() {
        let chat = Chat::default();
        let mut server = Rehearsal::new(chat.clone());
        let [a, b, c] = room(&mut server, "x");
        server.lose(b);
        server.end(c);
        server.receive(a, b"anybody?\n");
        assert_eq!(server.take_output(b), b"");
        assert_eq!(server.take_output(c), b"");
        assert_eq!(server.undeliverable(), 0);
        assert_eq!(server.closed(c), Some(CloseReason::PeerEnded));
        server.end(a);
        assert_eq!(chat.rooms.count(), 0);
    }

    #[test]
    fn a_second_join_is_a_line_like_any_other() {
        let mut server = Rehearsal::new(Chat::default());
        let [a, b] = room(&mut server, "x");
        server.receive(a, b"join y\n");
        assert_eq!(server.take_output(b), b"join y\n");
    }

    #[test]
    fn who_does_not_join_is_refused() {
        let long = format!("join {}", "x".repeat(65));
        for wrong in ["hello", "join", "join ", "JOIN x", "join a\tb", &long] {
            let mut server = Rehearsal::new(Chat::default());
            let client = server.connect();
            server.receive(client, format!("{wrong}\njoin x\n").as_bytes());
            assert!(server.take_output(client).starts_with(b"refused: "), "{wrong:?}");
            assert_eq!(server.closed(client), Some(CloseReason::Refused), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_split_anywhere_give_the_same(
            input in "(join [xy]{0,2}\r?\n)?([a-z ]{0,9}\r?\n){0,5}[a-z]{0,9}",
            cuts in prop::collection::vec(0usize..100, 0..8),
        ) {
            split_anywhere(Chat::default, b"join x\n", input.as_bytes(), &cuts);
        }
    }
}
