//! One who says numbered lines without a pause, and others who hear them: all by one thread, on sockets that do not
//! block.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_send_buffer_size;

const LINE_BYTES: usize = 16_000;
/// Then they are said again.
const LINES: usize = 1_024;
const DEADLINE: Duration = Duration::from_secs(120);
/// How much the speaker's socket holds. With little, the server stops being told soon after this thread has lost its
/// CPU, and what waits for those who should hear does not grow meanwhile.
const AHEAD_BYTES: usize = 64 << 10;

/// What those who hear do.
pub enum Next {
    /// They go on.
    GoOn,
    /// They read so many bytes from now on, and then nothing.
    Hear(usize),
    /// They hear what was said and is not heard yet; no line is begun any more.
    End,
}

/// Those who hear read nothing before the speaker is held up once more, and then as much as may wait for them: a round.
#[derive(Default)]
pub struct Rounds {
    held_up: u64,
    /// How many there were.
    pub count: usize,
}

impl Rounds {
    /// What they do now that the speaker was held up so often in all.
    pub fn next(&mut self, held_up: u64, may_wait: usize) -> Next {
        if held_up <= self.held_up {
            return Next::GoOn;
        }
        self.held_up = held_up;
        self.count += 1;
        Next::Hear(may_wait)
    }
}

/// Says lines and has them heard as `look` says, until its end. It is given how many bytes were said.
///
/// # Panics
///
/// If anything else is heard.
pub fn flood(mut speaker: &TcpStream, hearers: &[&TcpStream], mut look: impl FnMut(usize) -> Next) {
    let lines: Vec<u8> = (0..LINES)
        .flat_map(|number| format!("{number:0width$}\n", width = LINE_BYTES - 1).into_bytes())
        .collect();
    for socket in hearers.iter().copied().chain([speaker]) {
        socket.set_nonblocking(true).expect("a socket");
    }
    set_socket_send_buffer_size(speaker, AHEAD_BYTES).expect("a socket");
    let deadline = Instant::now() + DEADLINE;
    let mut said = 0;
    // What each has heard, and up to where it may hear on.
    let mut heard = vec![(0, 0); hearers.len()];
    let mut came = vec![0; 64 << 10];
    loop {
        assert!(
            Instant::now() < deadline,
            "{heard:?} heard of {said} bytes, and no more"
        );
        let next = look(said);
        if matches!(next, Next::End) && said % LINE_BYTES == 0 {
            heard.iter_mut().for_each(|(_, most)| *most = said);
            if heard.iter().all(|(heard, _)| *heard == said) {
                return;
            }
        } else {
            let from = said % lines.len();
            said += at_once(speaker.write(&lines[from..from + LINE_BYTES - from % LINE_BYTES]));
        }
        for (mut hearer, (heard, most)) in hearers.iter().copied().zip(&mut heard) {
            if let Next::Hear(more) = next {
                *most = *heard + more;
            }
            let rest = &lines[*heard % lines.len()..];
            let count = (*most - *heard).min(came.len()).min(rest.len());
            if count > 0 {
                let count = at_once(hearer.read(&mut came[..count]));
                assert!(
                    came[..count] == rest[..count],
                    "other bytes came after {heard} of {said}"
                );
                *heard += count;
            }
        }
    }
}

/// How many bytes went; none if that would block.
fn at_once(went: io::Result<usize>) -> usize {
    match went {
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Ok(0) => panic!("the server has ended it"),
        went => went.expect("the server is there"),
    }
}
