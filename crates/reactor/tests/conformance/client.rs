//! Clients, good and bad.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Weak};

use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};

use crate::dates::undated;
use crate::diag::{self, End};

/// A connection to a server. What it reads it waits for; a server that is killed at its deadline ends the wait.
pub struct Client {
    socket: Arc<TcpStream>,
    /// The address of the server's end and its own, also when the connection is no more.
    ends: [SocketAddr; 2],
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_nodelay(true).unwrap();
        Self {
            ends: [socket.peer_addr(), socket.local_addr()].map(Result::unwrap),
            socket: Arc::new(socket),
        }
    }

    /// To close it with, if the case still has it then.
    pub fn left_open(&self) -> LeftOpen {
        LeftOpen(Arc::downgrade(&self.socket))
    }

    /// Takes little at a time: what is sent to it soon waits at the server.
    pub fn take_little(&self) {
        set_socket_recv_buffer_size(&*self.socket, 65_536).unwrap();
    }

    /// A second hand on the same connection, for another thread.
    pub fn clone(&self) -> Self {
        Self {
            socket: Arc::clone(&self.socket),
            ends: self.ends,
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        (&*self.socket)
            .write_all(bytes.as_ref())
            .expect("the server receives");
    }

    /// Sends what a server may not want to hear to the end; how many bytes went.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.socket).write(bytes)
    }

    /// Sends a megabyte without the end of a line, or what the server wants of it, and goes when the server has ended.
    pub fn send_without_end(mut self, byte: u8) {
        let _ = (&*self.socket).write_all(&vec![byte; 1 << 20]);
        self.rest();
    }

    /// Sends, and waits until the server has taken the bytes from its socket: what is sent next comes apart.
    pub fn send_apart(&mut self, bytes: &[u8]) {
        self.send(bytes);
        while self.server_end().unread > 0 {
            std::thread::yield_now();
        }
    }

    fn server_end(&self) -> End {
        let [server, own] = self.ends;
        diag::end(server, own).expect("the server is connected")
    }

    /// Reads exactly what is expected, but for a date.
    pub fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let mut came = vec![0; bytes.len()];
        let mut filled = 0;
        while filled < came.len() {
            match (&*self.socket).read(&mut came[filled..]) {
                Ok(0) | Err(_) => break,
                Ok(count) => filled += count,
            }
        }
        undated(&mut came[..filled]);
        if came[..filled] != *bytes {
            panic!("expected {}, got {}", shown(bytes), shown(&came[..filled]));
        }
    }

    /// Reads a line with its end, or what there is of it.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            match self.read(1) {
                byte if byte.is_empty() => break,
                byte => line.extend(byte),
            }
        }
        String::from_utf8(line).expect("text")
    }

    /// Reads how a server of groups greets, or says that it stops.
    pub fn expect_info(&mut self) -> String {
        let line = self.line();
        assert!(
            line.starts_with("INFO {") && line.ends_with("} \r\n"),
            "{line:?} is no greeting"
        );
        line
    }

    /// Reads up to `most` bytes; none at the end or after a reset.
    pub fn read(&mut self, most: usize) -> Vec<u8> {
        let mut came = vec![0; most];
        let count = (&*self.socket).read(&mut came).unwrap_or(0);
        came.truncate(count);
        came
    }

    /// Reads so many bytes, or what there is of them before the end.
    pub fn read_up_to(&mut self, count: usize) -> Vec<u8> {
        let mut came = Vec::new();
        while came.len() < count {
            match self.read(count - came.len()) {
                more if more.is_empty() => break,
                more => came.extend(more),
            }
        }
        came
    }

    /// Reads until the server ends. A reset ends it too.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = (&*self.socket).read_to_end(&mut rest);
        rest
    }

    /// The server has ended, with nothing more to say.
    pub fn expect_end(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "nothing more was expected, got {}", shown(&rest));
    }

    /// Whether something can be read at once.
    pub fn has_something(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).unwrap();
        !matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Sends as much as goes at once.
    pub fn send_at_once(&mut self, bytes: &[u8]) -> usize {
        match self.try_send_at_once(bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("the server receives: {error}"),
        }
    }

    /// The same, where the server may have closed the connection; nothing goes where that would block.
    pub fn try_send_at_once(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_nonblocking(true).unwrap();
        let sent = (&*self.socket).write(bytes);
        self.socket.set_nonblocking(false).unwrap();
        sent
    }

    /// Waits until the kernel has nothing of the connection any more at the server's end.
    pub fn expect_no_server(&self) {
        let [server, own] = self.ends;
        while diag::end(server, own).is_some() {
            std::thread::yield_now();
        }
    }

    /// Waits until the server has received all that was sent, or the connection is no more.
    pub fn until_received(&self) {
        let [server, own] = self.ends;
        while diag::end(own, server).is_some_and(|end| end.unsent > 0)
            || diag::end(server, own).is_some_and(|end| end.unread > 0)
        {
            std::thread::yield_now();
        }
    }

    /// Sends nothing more, and reads on.
    pub fn end(&self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }

    /// Goes without a word: the server sees a reset. What its socket can be known by.
    pub fn reset(self) -> u32 {
        let inode = self.server_end().inode;
        set_socket_linger(&*self.socket, Some(std::time::Duration::ZERO)).unwrap();
        inode
    }
}

/// A client that a case has, or not any more.
pub struct LeftOpen(Weak<TcpStream>);

impl LeftOpen {
    /// Does what clients do: when the server ends, so does it.
    pub fn end_with_the_server(&self) {
        if let Some(socket) = self.0.upgrade() {
            let _ = io::copy(&mut &*socket, &mut io::sink());
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    format!("{} bytes {start:?}", bytes.len())
}

/// Bytes in which each place can be told from its neighbours.
pub fn pattern(count: usize) -> Vec<u8> {
    let words = (1..=count as u64 / 8 + 1).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(count);
    bytes
}
