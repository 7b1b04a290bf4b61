//! Drives `chat`: rooms of ten, every member has one line on its way, and sends the next when the other nine have it.
//!
//! The driver owns all members, so it knows of each line who has it. Every delivery is checked: it must be the next line
//! of a member of the same room, whole, and nobody may hear himself.

use std::io::{BufRead as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};

use super::sockets::{Readable, connect, receive};

/// Members of a room.
pub const ROOM: usize = 10;
/// Of a line, its end included.
pub const LINE_BYTES: usize = 128;

/// Fills rooms with so many connections, a multiple of ten, and comes back when at least `deliveries` were made and
/// nothing is on its way any more: how many there were.
///
/// # Errors
///
/// If a delivery is not the one that must come next, or one is missing.
pub fn drive(port: u16, connections: usize, deliveries: u64) -> Result<u64> {
    ensure!(connections.is_multiple_of(ROOM), "rooms have ten members");
    let streams = connect(port, connections)?;
    let mut readable = Readable::of(&streams)?;
    join(&streams, &mut readable)?;

    let mut hall = Hall::of(connections);
    let mut inputs = vec![Vec::new(); connections];
    let mut buffer = vec![0; 64 * 1024];
    let mut ready = Vec::new();
    let mut speakers: Vec<usize> = (0..connections).collect();
    loop {
        for speaker in speakers.drain(..) {
            (&streams[speaker]).write_all(&hall.says(speaker))?;
        }
        if hall.on_the_way == 0 {
            return Ok(hall.heard);
        }
        readable.expect(&mut ready)?;
        for &member in &ready {
            let received = receive(&streams[member], &mut buffer)?;
            each_line(&mut inputs[member], &buffer[..received], |line| {
                let speaker = hall.hears(member, line)?;
                if hall.is_heard_by_all(speaker) && hall.heard < deliveries {
                    speakers.push(speaker);
                }
                Ok(())
            })?;
        }
    }
}

/// Everyone joins, and is told so: then everyone hears everything.
fn join(streams: &[TcpStream], readable: &mut Readable) -> Result<()> {
    for (member, mut stream) in streams.iter().enumerate() {
        writeln!(stream, "join {}", member / ROOM)?;
    }
    let mut inputs = vec![Vec::new(); streams.len()];
    let mut buffer = [0; 1024];
    let mut missing = streams.len();
    let mut ready = Vec::new();
    while missing > 0 {
        readable.expect(&mut ready)?;
        for &member in &ready {
            let received = receive(&streams[member], &mut buffer)?;
            each_line(&mut inputs[member], &buffer[..received], |line| {
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
    }
    Ok(())
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

/// Who has said what, and who has heard it.
#[derive(Debug)]
struct Hall {
    members: Vec<Member>,
    /// Deliveries made.
    heard: u64,
    /// Deliveries to come.
    on_the_way: u64,
}

#[derive(Clone, Debug)]
struct Member {
    /// The number of its last line.
    said: u64,
    /// Who have yet to hear that.
    deaf: usize,
    /// By place in the room: the number of the last line that this one heard from there.
    heard: [u64; ROOM],
}

impl Hall {
    fn of(members: usize) -> Self {
        let member = Member {
            said: 0,
            deaf: 0,
            heard: [0; ROOM],
        };
        Self {
            members: vec![member; members],
            heard: 0,
            on_the_way: 0,
        }
    }

    /// The next line of `speaker`, which is on its way from now on.
    fn says(&mut self, speaker: usize) -> [u8; LINE_BYTES] {
        let member = &mut self.members[speaker];
        member.said += 1;
        member.deaf = ROOM - 1;
        self.on_the_way += ROOM as u64 - 1;
        line_of(speaker, member.said)
    }

    /// `listener` has received `line`: who said it.
    fn hears(&mut self, listener: usize, line: &[u8]) -> Result<usize> {
        let wrong = || format!("member {listener} received {:?}", String::from_utf8_lossy(line));
        let speaker = speaker_of(line).with_context(wrong)?;
        ensure!(
            speaker < self.members.len() && speaker / ROOM == listener / ROOM && speaker != listener,
            "{}, which was not for it",
            wrong()
        );
        let expected = self.members[listener].heard[speaker % ROOM] + 1;
        ensure!(
            expected <= self.members[speaker].said && line == line_of(speaker, expected),
            "{} instead of line {expected} of member {speaker}",
            wrong()
        );
        self.members[listener].heard[speaker % ROOM] = expected;
        self.members[speaker].deaf -= 1;
        self.heard += 1;
        self.on_the_way -= 1;
        Ok(speaker)
    }

    fn is_heard_by_all(&self, speaker: usize) -> bool {
        self.members[speaker].deaf == 0
    }
}

/// The line with this number of a member: both as 16 hexadecimal digits, and the rest filled up.
fn line_of(speaker: usize, number: u64) -> [u8; LINE_BYTES] {
    let mut line = [b'.'; LINE_BYTES];
    write_hex(&mut line[..16], speaker as u64);
    write_hex(&mut line[16..32], number);
    line[LINE_BYTES - 1] = b'\n';
    line
}

fn write_hex(into: &mut [u8], mut value: u64) {
    for digit in into.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

fn speaker_of(line: &[u8]) -> Option<usize> {
    usize::from_str_radix(str::from_utf8(line.get(..16)?).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::BufReader;
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use super::*;

    /// Everyone in a room, each with a name of its own.
    type Rooms = Arc<Mutex<HashMap<String, Vec<(usize, TcpStream)>>>>;

    /// A chat server that delivers a line to those of its room that `hears` chooses, by names of speaker and listener.
    fn server(hears: fn(usize, usize) -> bool) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let rooms = Rooms::default();
        thread::spawn(move || {
            for (name, client) in listener.incoming().map_while(Result::ok).enumerate() {
                let rooms = Arc::clone(&rooms);
                thread::spawn(move || serve(name, &client, &rooms, hears));
            }
        });
        port
    }

    fn serve(
        name: usize,
        mut client: &TcpStream,
        rooms: &Rooms,
        hears: fn(usize, usize) -> bool,
    ) -> Option<()> {
        let mut lines = BufReader::new(client.try_clone().ok()?);
        let mut first = String::new();
        lines.read_line(&mut first).ok()?;
        let room = first.strip_prefix("join ")?.to_owned();
        let joins = (name, client.try_clone().ok()?);
        rooms.lock().unwrap().entry(room.clone()).or_default().push(joins);
        client.write_all(format!("joined {room}").as_bytes()).ok()?;
        let mut line = String::new();
        while lines.read_line(&mut line).ok()? > 0 {
            for (listener, mut stream) in rooms.lock().unwrap()[&room]
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
        let deliveries = drive(server(|speaker, listener| speaker != listener), 20, 500).unwrap();
        assert!((500..500 + 20 * 9).contains(&deliveries) && deliveries.is_multiple_of(9));
    }

    #[test]
    fn a_server_that_answers_the_speaker_is_found_out() {
        let error = drive(server(|_, _| true), 10, 500).unwrap_err();
        assert!(error.to_string().contains("not for it"), "{error}");
    }

    #[test]
    fn a_line_is_on_its_way_until_the_other_nine_have_it() {
        let mut hall = Hall::of(20);
        let line = hall.says(13);
        assert_eq!((hall.on_the_way, line.len(), line[127]), (9, 128, b'\n'));
        for listener in (10..20).filter(|&listener| listener != 13) {
            assert!(!hall.is_heard_by_all(13));
            assert_eq!(hall.hears(listener, &line).unwrap(), 13);
        }
        assert!(hall.is_heard_by_all(13));
        assert_eq!((hall.heard, hall.on_the_way), (9, 0));
    }

    #[test]
    fn a_line_twice_lost_changed_or_in_the_wrong_place_is_found() {
        let said = || {
            let mut hall = Hall::of(20);
            let line = hall.says(3);
            (hall, line)
        };
        let (mut twice, line) = said();
        twice.hears(4, &line).unwrap();
        assert!(twice.hears(4, &line).is_err());

        let (mut lost, _) = said();
        let second = lost.says(3);
        assert!(lost.hears(4, &second).is_err(), "the first has not come");

        let (mut changed, mut line) = said();
        line[100] = b'!';
        assert!(changed.hears(4, &line).is_err());

        let (mut elsewhere, line) = said();
        assert!(elsewhere.hears(14, &line).is_err(), "of another room");
        assert!(elsewhere.hears(3, &line).is_err(), "its own");
        assert!(elsewhere.hears(4, &line_of(99, 1)).is_err(), "of nobody");
        assert!(elsewhere.hears(4, &line_of(5, 1)).is_err(), "never said");
        assert!(elsewhere.hears(4, b"\n").is_err());
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
