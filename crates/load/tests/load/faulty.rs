//! A server of NATS' protocol, of a few lines, that makes one kind of mistake in one of so many messages.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use threadgauge_load::FaultKind;

/// What it does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    None,
    /// One of the others does not get the message.
    Lose,
    /// One of the others gets it twice.
    Duplicate,
    /// One of the others gets it after the sender's next one.
    Swap,
    /// One of the others gets it with another byte, at a place that changes from mistake to mistake.
    Corrupt,
    /// One of the others gets it without its last byte.
    Shorten,
    /// Its sender gets it too.
    Echo,
    /// One member of the other group gets it too.
    Mislead,
    /// Instead of it all others get a complaint.
    Complain,
}

impl Mistake {
    /// What a client should call it.
    pub fn is(self) -> Option<FaultKind> {
        Some(match self {
            Self::None | Self::Complain => return None,
            Self::Lose => FaultKind::Lost,
            Self::Duplicate => FaultKind::Duplicated,
            Self::Swap => FaultKind::Reordered,
            Self::Corrupt | Self::Shorten => FaultKind::Corrupted,
            Self::Echo | Self::Mislead => FaultKind::Misdelivered,
        })
    }
}

/// It serves while the test runs.
pub struct Server {
    pub at: SocketAddr,
    room: Arc<Mutex<Room>>,
}

impl Server {
    /// With a mistake in one of so many messages.
    pub fn start(mistake: Mistake, every: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let room = Arc::new(Mutex::new(Room {
            members: Vec::new(),
            published: 0,
            due: false,
            mistakes: 0,
            held: None,
            mistake,
            every,
        }));
        let of_clients = Arc::clone(&room);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let room = Arc::clone(&of_clients);
                thread::spawn(move || serve(&client, &room));
            }
        });
        Self { at, room }
    }

    /// How many deliveries were not as they should have been.
    pub fn mistakes(&self) -> u64 {
        self.room.lock().unwrap().mistakes
    }
}

/// Who is there, and what was said.
struct Room {
    /// The group, the port and the way there.
    members: Vec<(String, u16, TcpStream)>,
    published: u64,
    /// A mistake is to be made at the next occasion.
    due: bool,
    mistakes: u64,
    /// What the client at the second port gets after the next message of the client at the first one.
    held: Option<(u16, u16, Vec<u8>)>,
    mistake: Mistake,
    every: u64,
}

fn frame(group: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("MSG {group} 1 {}\r\n", payload.len());
    [head.as_bytes(), payload, b"\r\n"].concat()
}

impl Room {
    /// A message of the client at this port; `more` says that its next one is here already.
    fn publish(&mut self, group: &str, own: u16, payload: &[u8], more: bool) {
        self.published += 1;
        self.due |= self.published.is_multiple_of(self.every);
        // One after which nothing comes cannot change places with the next.
        let now = self.due && (self.mistake != Mistake::Swap || more);
        let mistake = if now { self.mistake } else { Mistake::None };
        self.due &= !now;
        self.mistakes += u64::from(mistake != Mistake::None);
        let right = frame(group, payload);
        let late = self.held.take_if(|(sender, ..)| *sender == own);
        // For the first of those that it concerns.
        let mut wrong = match mistake {
            Mistake::None | Mistake::Echo | Mistake::Mislead => None,
            Mistake::Complain => Some(b"-ERR 'Slow Consumer'\r\n".to_vec()),
            Mistake::Duplicate => Some(right.repeat(2)),
            Mistake::Lose | Mistake::Swap => Some(Vec::new()),
            Mistake::Shorten => Some(frame(group, &payload[..payload.len() - 1])),
            Mistake::Corrupt => {
                let mut changed = payload.to_vec();
                let place = self.mistakes as usize * 7 % changed.len();
                changed[place] ^= 1;
                Some(frame(group, &changed))
            }
        };
        let mut misled = mistake == Mistake::Mislead;
        for (of, port, stream) in &mut self.members {
            let mut bytes = match (of == group, *port == own) {
                (true, false) => wrong.take().unwrap_or_else(|| right.clone()),
                (true, true) if mistake == Mistake::Echo => right.clone(),
                (false, _) if std::mem::take(&mut misled) => right.clone(),
                _ => continue,
            };
            if mistake == Mistake::Swap && bytes.is_empty() {
                self.held = Some((own, *port, right.clone()));
            }
            if let Some((_, _, late)) = late.as_ref().filter(|(_, to, _)| to == port) {
                bytes.extend_from_slice(late);
            }
            // A client that has seen enough is gone.
            let _ = stream.write_all(&bytes);
        }
    }
}

/// Until the client has gone.
fn serve(mut client: &TcpStream, room: &Mutex<Room>) -> Option<()> {
    let own = client.peer_addr().ok()?.port();
    let mut input = BufReader::new(client.try_clone().ok()?);
    client.write_all(b"INFO {}\r\n").ok()?;
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["CONNECT", _] => {}
            ["SUB", group, _] => {
                let member = (group.to_owned(), own, client.try_clone().ok()?);
                room.lock().unwrap().members.push(member);
            }
            // Wants to know that the client is there, too.
            ["PING"] => client.write_all(b"PING\r\nPONG\r\n").ok()?,
            ["PONG"] => {}
            ["PUB", group, bytes] => {
                let mut payload = vec![0; bytes.parse::<usize>().unwrap() + 2];
                input.read_exact(&mut payload).ok()?;
                let payload = &payload[..payload.len() - 2];
                let more = input.buffer().starts_with(b"PUB ");
                room.lock().unwrap().publish(group, own, payload, more);
            }
            _ => panic!("the driver said {line:?}"),
        }
    }
}
