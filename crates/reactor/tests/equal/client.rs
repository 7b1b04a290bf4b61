//! Plays a client's part of a trace over a real socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, connect_unspec, socket_with, sockopt};

use crate::PATIENCE;
use crate::model::Ending;
use crate::trace::{After, End, Piece, Reader, Tail, Talk, WRITE_TIME};

/// A client.
pub struct Client {
    socket: TcpStream,
    pub port: u16,
}

/// What a client has heard, and how that ended.
#[derive(Debug)]
pub struct Heard {
    pub bytes: Vec<u8>,
    /// In words, if as never expected.
    pub ending: Result<Ending, String>,
}

impl Client {
    /// Connected, with the receive buffer of its reader.
    pub fn connect(address: SocketAddr, reader: &Reader) -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        if let Some(bytes) = reader.buffer {
            // Before it connects, so that no more is ever offered to the server.
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
        connect(&socket, &address)?;
        let socket = TcpStream::from(socket);
        socket.set_nodelay(true)?;
        // A server that says nothing fails the trace, and does not hang it.
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let port = socket.local_addr()?.port();
        Ok(Self { socket, port })
    }

    /// Says this, and reads as many bytes meanwhile.
    pub fn say_and_hear(&self, says: &[Piece], reader: &Reader, count: usize) -> Result<Vec<u8>, String> {
        thread::scope(|scope| {
            let saying = scope.spawn(|| self.say(says));
            let mut came = Vec::new();
            let ended = self.read(reader, count, &mut came);
            said(saying).map_err(|error| format!("it could not say all: {error}"))?;
            match ended {
                Ok(false) => Ok(came),
                Ok(true) => Err(format!("the end came after {} of {count} bytes", came.len())),
                Err(error) => Err(format!("{error} after {} of {count} bytes", came.len())),
            }
        })
    }

    /// The rest of a talk, up to its end: it gets `count` bytes.
    pub fn finish(&self, talk: &Talk, count: usize) -> Heard {
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let saying = scope.spawn(|| {
                match talk.end {
                    End::Dribble => self.dribble(&talk.last, &has_ended)?,
                    _ => self.say(&last_with_tail(talk))?,
                }
                match talk.end {
                    End::HalfClose | End::Slow => self.socket.shutdown(Shutdown::Write),
                    _ => Ok(()),
                }
            });
            let mut bytes = Vec::new();
            if talk.end == End::Deaf {
                let ended = self
                    .until_cut_off()
                    .and_then(|()| self.read(&talk.reader, usize::MAX, &mut bytes));
                // It is cut off while it speaks, or after: the first call hears of the reset.
                let ended = said(saying).and(ended);
                return Heard {
                    bytes,
                    ending: ending(ended),
                };
            }
            sleep(talk.reader.first);
            let ended = match talk.end {
                End::Reset => self.read(&talk.reader, count, &mut bytes),
                End::Slow => self.read_slowly(&talk.reader, &mut bytes),
                _ => self.read(&talk.reader, usize::MAX, &mut bytes),
            };
            has_ended.store(true, Relaxed);
            let said = said(saying);
            let mut ending = match said {
                Err(error) if ended.is_ok() => Err(format!("it could not say all: {error}")),
                _ if talk.end == End::Reset && matches!(ended, Ok(false)) => {
                    self.reset().map(|()| Ending::Own)
                }
                _ => ending(ended),
            };
            if let (Ok(Ending::End), Some(tail)) =
                (&ending, talk.tail.filter(|tail| tail.after == After::TheEnd))
            {
                ending = match self.say(&[tail_of(tail)]) {
                    Ok(()) => ending,
                    Err(error) => Err(format!("after the end it could not say more: {error}")),
                };
            }
            Heard { bytes, ending }
        })
    }

    /// Says this, hears `count` bytes meanwhile, and then says and hears the end.
    pub fn say_hear_and_leave(&self, says: &[Piece], reader: &Reader, count: usize) -> Heard {
        let heard = self.say_and_hear(says, reader, count);
        let mut bytes = match heard {
            Ok(bytes) => bytes,
            Err(error) => {
                return Heard {
                    bytes: Vec::new(),
                    ending: Err(error),
                };
            }
        };
        let left = self.socket.shutdown(Shutdown::Write);
        let ended = left.and_then(|()| self.read(reader, usize::MAX, &mut bytes));
        Heard {
            bytes,
            ending: ending(ended),
        }
    }

    /// It says no more, as clients do that have read the end.
    pub fn leave(&self) {
        // It can only fail if it was reset, which is seen later.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Whether a reset has come after all, when the server has ended.
    pub fn was_reset(&self) -> bool {
        !matches!(self.socket.take_error(), Ok(None))
    }

    fn say(&self, pieces: &[Piece]) -> io::Result<()> {
        for piece in pieces {
            (&self.socket).write_all(&piece.bytes)?;
            sleep(piece.pause);
        }
        Ok(())
    }

    /// Says it until the end was read.
    fn dribble(&self, pieces: &[Piece], has_ended: &AtomicBool) -> io::Result<()> {
        let mut pieces = pieces.iter().take_while(|_| !has_ended.load(Relaxed));
        pieces.try_for_each(|piece| self.say(std::slice::from_ref(piece)))
    }

    /// Reads as a reader does until it has so many bytes. Whether the end came.
    fn read(&self, reader: &Reader, most: usize, into: &mut Vec<u8>) -> io::Result<bool> {
        let mut room = vec![0; reader.piece];
        let begin = into.len();
        while into.len() - begin < most {
            let piece = room.len().min(most - (into.len() - begin));
            match (&self.socket).read(&mut room[..piece]) {
                Ok(0) => return Ok(true),
                Ok(count) => into.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            sleep(reader.pause);
        }
        Ok(false)
    }

    /// Reads as a slow reader does for twice the time in which one may read nothing, and then the rest.
    fn read_slowly(&self, reader: &Reader, into: &mut Vec<u8>) -> io::Result<bool> {
        let began = Instant::now();
        while began.elapsed() < 2 * WRITE_TIME {
            if self.read(reader, reader.piece, into)? {
                return Ok(true);
            }
        }
        let quick = Reader {
            piece: 65_536,
            pause: Duration::ZERO,
            ..*reader
        };
        self.read(&quick, usize::MAX, into)
    }

    /// Waits until the server has ended it with a reset, and reads nothing.
    fn until_cut_off(&self) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::empty())];
        let patience = Timespec::try_from(PATIENCE).expect("in range");
        match poll(&mut fds, Some(&patience)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes without a word.
    fn reset(&self) -> Result<(), String> {
        connect_unspec(&self.socket).map_err(|error| error.to_string())
    }
}

/// What is said last, and what is said behind it unless that waits for the end.
fn last_with_tail(talk: &Talk) -> Vec<Piece> {
    let mut pieces = talk.last.clone();
    let Some(tail) = talk.tail else { return pieces };
    match (tail.after, pieces.last_mut()) {
        (After::TheEnd, _) => {}
        // By one call.
        (After::TheLast, Some(last)) => last.bytes.extend(tail_of(tail).bytes),
        (After::TheLast, None) => pieces.push(tail_of(tail)),
        (After::Pause(pause), last) => {
            last.into_iter().for_each(|last| last.pause = pause);
            pieces.push(tail_of(tail));
        }
    }
    pieces
}

fn tail_of(tail: Tail) -> Piece {
    Piece {
        bytes: vec![b'x'; tail.count],
        pause: Duration::ZERO,
    }
}

fn said(saying: ScopedJoinHandle<'_, io::Result<()>>) -> io::Result<()> {
    saying.join().expect("it only writes")
}

fn ending(ended: io::Result<bool>) -> Result<Ending, String> {
    match ended {
        Ok(true) => Ok(Ending::End),
        Ok(false) => Err("more came than expected".to_owned()),
        // The second is what a client hears of a reset to which it was writing.
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
            Ok(Ending::CutOff)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err("nothing came for a long time".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
