//! Drives `echo`: every connection has one message on its way, and every byte that comes back is compared.

use std::io::Write as _;
use std::net::TcpStream;

use anyhow::{Result, ensure};

use super::sockets::{Readable, receive};

/// Of one message.
pub const MESSAGE_BYTES: usize = 128;

/// Sends `messages` on these connections, one on its way on each, and comes back when all were answered.
///
/// # Errors
///
/// If an answer is not what was sent, is missing or is one too many.
pub fn exchange(streams: &[TcpStream], messages: u64) -> Result<()> {
    let mut readable = Readable::of(streams)?;
    let mut clients: Vec<Client> = (0..streams.len()).map(Client::new).collect();
    let mut unsent = messages;
    let mut on_the_way = 0;
    let mut ready: Vec<usize> = (0..streams.len()).collect();
    loop {
        for &i in &ready {
            let (client, stream) = (&mut clients[i], &streams[i]);
            if client.waits {
                if !client.receive(stream)? {
                    continue;
                }
                on_the_way -= 1;
            }
            if unsent > 0 {
                client.send(stream)?;
                unsent -= 1;
                on_the_way += 1;
            }
        }
        if on_the_way == 0 {
            return Ok(());
        }
        readable.expect(&mut ready)?;
    }
}

/// One connection.
#[derive(Debug)]
struct Client {
    name: usize,
    /// The number of its last message.
    number: u64,
    waits: bool,
    /// What has come back of it.
    answer: [u8; MESSAGE_BYTES + 1],
    received: usize,
}

impl Client {
    fn new(name: usize) -> Self {
        Self {
            name,
            number: 0,
            waits: false,
            answer: [0; MESSAGE_BYTES + 1],
            received: 0,
        }
    }

    fn send(&mut self, mut stream: &TcpStream) -> Result<()> {
        self.number += 1;
        self.waits = true;
        self.received = 0;
        Ok(stream.write_all(&message(self.name, self.number))?)
    }

    /// Whether the answer is whole now. There is room for a byte too many, so that one is seen.
    fn receive(&mut self, stream: &TcpStream) -> Result<bool> {
        self.received += receive(stream, &mut self.answer[self.received..])?;
        if self.received < MESSAGE_BYTES {
            return Ok(false);
        }
        ensure!(
            self.answer[..self.received] == message(self.name, self.number),
            "connection {}: the answer to message {} is not that message",
            self.name,
            self.number
        );
        self.waits = false;
        Ok(true)
    }
}

/// Like no other message of this or another connection.
fn message(connection: usize, number: u64) -> [u8; MESSAGE_BYTES] {
    let mut message = [0; MESSAGE_BYTES];
    message[..8].copy_from_slice(&(connection as u64).to_le_bytes());
    message[8..16].copy_from_slice(&number.to_le_bytes());
    for (i, byte) in message[16..].iter_mut().enumerate() {
        *byte = (number as u8).wrapping_add(i as u8);
    }
    message
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::thread;

    use super::super::sockets::connect;
    use super::*;

    fn drive(port: u16, messages: u64) -> Result<()> {
        exchange(&connect(port, 1)?, messages)
    }

    /// A server for one client that does with each message what `answer` does.
    fn server(answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut bytes = [0; MESSAGE_BYTES];
            while client.read_exact(&mut bytes).is_ok() && client.write_all(&answer(&bytes)).is_ok() {}
        });
        port
    }

    #[test]
    fn all_messages_come_back() {
        drive(server(|bytes| bytes.to_vec()), 100).unwrap();
    }

    #[test]
    fn a_changed_byte_and_one_too_many_are_found() {
        let flipped = server(|bytes| [&bytes[..127], &[!bytes[127]]].concat());
        assert!(drive(flipped, 1).is_err());
        let longer = server(|bytes| [bytes, b"x"].concat());
        assert!(drive(longer, 1).is_err());
    }

    #[test]
    fn no_two_messages_are_alike() {
        assert_ne!(message(1, 1), message(1, 2));
        assert_ne!(message(1, 1), message(2, 1));
    }
}
