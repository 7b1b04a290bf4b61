//! Drives `chat`: rooms of ten, every member has one line on its way, and sends the next when the other nine have it.
//!
//! What is said and heard is kept, and checked, in a [`Hall`].

use std::io::{BufRead as _, Write as _};
use std::net::TcpStream;

use anyhow::{Result, ensure};

use super::chat_hall::{Hall, ROOM};
use super::sockets::{Readable, connect, receive};

/// Rooms that are full.
pub struct Rooms {
    streams: Vec<TcpStream>,
    readable: Readable,
}

impl Rooms {
    /// Connects so many, a multiple of ten, and comes back when all have joined and were told so: then everyone hears
    /// everything.
    ///
    /// # Errors
    ///
    /// If a connection fails or joining is answered with something else.
    pub fn fill(port: u16, connections: usize) -> Result<Self> {
        ensure!(connections.is_multiple_of(ROOM), "rooms have ten members");
        let streams = connect(port, connections)?;
        let readable = Readable::of(&streams)?;
        let mut rooms = Self { streams, readable };
        for (member, mut stream) in rooms.streams.iter().enumerate() {
            stream.write_all(format!("join {}\n", member / ROOM).as_bytes())?;
        }
        let mut ears = Ears::of(connections);
        let mut missing = connections;
        while missing > 0 {
            rooms.hear(&mut ears, |member, line| {
                let expected = format!("joined {}\n", member / ROOM);
                ensure!(
                    line == expected.as_bytes(),
                    "member {member} joined and was answered {:?}",
                    String::from_utf8_lossy(line)
                );
                missing -= 1;
                Ok(())
            })?;
        }
        Ok(rooms)
    }

    /// Everyone talks until at least so many deliveries were made and nothing is on its way any more: how many there
    /// were.
    ///
    /// # Errors
    ///
    /// If a delivery is not the one that must come next, or one is missing.
    pub fn talk(&mut self, deliveries: u64) -> Result<u64> {
        let mut hall = Hall::of(self.streams.len());
        let mut ears = Ears::of(self.streams.len());
        let mut speakers: Vec<usize> = (0..self.streams.len()).collect();
        loop {
            for speaker in speakers.drain(..) {
                (&self.streams[speaker]).write_all(&hall.says(speaker))?;
            }
            if hall.on_the_way == 0 {
                return Ok(hall.heard);
            }
            self.hear(&mut ears, |listener, line| {
                let speaker = hall.hears(listener, line)?;
                if hall.is_heard_by_all(speaker) && hall.heard < deliveries {
                    speakers.push(speaker);
                }
                Ok(())
            })?;
        }
    }

    /// Waits until something comes, and calls `hear` with each line and the member that it came to.
    fn hear(&mut self, ears: &mut Ears, mut hear: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        self.readable.expect(&mut ears.ready)?;
        for &member in &ears.ready {
            let received = receive(&self.streams[member], &mut ears.buffer)?;
            each_line(&mut ears.rests[member], &ears.buffer[..received], |line| {
                hear(member, line)
            })?;
        }
        Ok(())
    }
}

/// What was received, and how far it has been heard.
#[derive(Debug)]
struct Ears {
    ready: Vec<usize>,
    buffer: Vec<u8>,
    /// By member: of a line that is not whole.
    rests: Vec<Vec<u8>>,
}

impl Ears {
    fn of(members: usize) -> Self {
        Self {
            ready: Vec::new(),
            buffer: vec![0; 64 * 1024],
            rests: vec![Vec::new(); members],
        }
    }
}

/// Calls `hear` with every line that is whole now, its end included; what is left of the last stays in `rest`.
fn each_line(
    rest: &mut Vec<u8>,
    mut received: &[u8],
    mut hear: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    while !received.is_empty() {
        let (part, others) = received.split_at(first_line(received));
        received = others;
        match (part.ends_with(b"\n"), rest.is_empty()) {
            (true, true) => hear(part)?,
            (true, false) => {
                rest.extend_from_slice(part);
                hear(rest)?;
                rest.clear();
            }
            (false, _) => rest.extend_from_slice(part),
        }
    }
    Ok(())
}

/// The length of the first line, or of all where it has no end.
fn first_line(mut bytes: &[u8]) -> usize {
    // Searches several bytes at a time. Reading from memory cannot fail.
    bytes.skip_until(b'\n').unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::BufReader;
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use super::*;

    /// By name of a room: everyone in it, each with a number of his own.
    type Guests = Arc<Mutex<HashMap<String, Vec<(usize, TcpStream)>>>>;

    /// A chat server that delivers a line to those of its room that `hears` chooses, by names of speaker and listener.
    fn server(hears: fn(usize, usize) -> bool) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let guests = Guests::default();
        thread::spawn(move || {
            for (name, client) in listener.incoming().map_while(Result::ok).enumerate() {
                let guests = Arc::clone(&guests);
                thread::spawn(move || serve(name, &client, &guests, hears));
            }
        });
        port
    }

    fn serve(
        name: usize,
        mut client: &TcpStream,
        guests: &Guests,
        hears: fn(usize, usize) -> bool,
    ) -> Option<()> {
        let mut lines = BufReader::new(client.try_clone().ok()?);
        let mut first = String::new();
        lines.read_line(&mut first).ok()?;
        let room = first.strip_prefix("join ")?.to_owned();
        let joins = (name, client.try_clone().ok()?);
        guests
            .lock()
            .unwrap()
            .entry(room.clone())
            .or_default()
            .push(joins);
        client.write_all(format!("joined {room}").as_bytes()).ok()?;
        let mut line = String::new();
        while lines.read_line(&mut line).ok()? > 0 {
            for (listener, mut stream) in guests.lock().unwrap()[&room]
                .iter()
                .map(|(name, stream)| (*name, stream))
            {
                if hears(name, listener) {
                    stream.write_all(line.as_bytes()).ok()?;
                }
            }
            line.clear();
        }
        Some(())
    }

    #[test]
    fn rooms_of_ten_hear_each_other_until_there_are_enough_deliveries() {
        let deliveries = Rooms::fill(server(|speaker, listener| speaker != listener), 20)
            .and_then(|mut rooms| rooms.talk(500))
            .unwrap();
        assert!((500..500 + 20 * 9).contains(&deliveries) && deliveries.is_multiple_of(9));
    }

    #[test]
    fn a_server_that_answers_the_speaker_is_found_out() {
        let error = Rooms::fill(server(|_, _| true), 10)
            .and_then(|mut rooms| rooms.talk(500))
            .unwrap_err();
        assert!(error.to_string().contains("not for it"), "{error}");
    }

    #[test]
    fn lines_are_cut_at_their_ends_however_they_come() {
        let mut rest = Vec::new();
        let mut whole = Vec::new();
        for part in ["on", "e\ntwo\nth", "r", "ee\n", "\n"] {
            each_line(&mut rest, part.as_bytes(), |line| {
                whole.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(whole, ["one\n", "two\n", "three\n", "\n"]);
        assert_eq!(rest, b"");
    }
}
