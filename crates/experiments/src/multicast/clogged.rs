//! How many operations can be pending on one connection: a client takes nothing any more, and then says something.
//!
//! The server's own count of what waits for each client (`/connz` of its monitor) says that a write is pending on the
//! connection. What the client then says reaches another one, or not: whether a read was pending beside it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Instant;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server, free_port};

use super::case::{Case, PENDING};

/// How long anything may take that the server does at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a read may take that the server does only where it can.
const A_READ: Duration = Duration::from_secs(2);
/// How long the server may take nothing from who clogs the other: it holds that one up.
const HELD_UP: Duration = Duration::from_millis(200);
/// Of a message that clogs. The kernel takes some megabytes before any wait in the server.
const MESSAGE_BYTES: usize = 64 * 1024;
/// Of what is for the client that takes nothing, so much waits in its own socket; a fixed size does not grow.
const RECEIVE_BYTES: usize = 64 * 1024;
/// When so much waits in the server, what its own socket can still take does not take it away.
const ENOUGH_BYTES: u64 = 16 << 20;
/// What the client that takes nothing says.
const HEARD: &[u8] = b"hello\r\n";
/// Messages between two looks, and the most of them.
const STEP: usize = 64;
const MOST: usize = 4_096;

pub(super) fn run(case: Case, cpus: &Cpus, worker: &mut Worker) -> Result<(), CaseError> {
    let monitor = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let mut arguments = case.arguments();
    arguments.extend(["--monitor".to_owned(), monitor.to_string()]);
    let server = Server::ours(arguments, cpus)?;
    let mut clogged = client(&server, "SUB clogged 1\r\n")?;
    set_socket_recv_buffer_size(&clogged, RECEIVE_BYTES)
        .map_err(|error| CaseError::failed("a small buffer for a socket", error))?;
    let mut listener = client(&server, "SUB heard 1\r\n")?;
    let mut other = client(&server, "")?;
    clog(&mut other, monitor)?;
    say(&mut clogged, &[b"PUB heard 5\r\n", HEARD].concat())?;
    let reads = hears(&mut listener)?;
    let writes = waiting_bytes(&page(monitor)?)? > 0;
    if !writes {
        let says = "what waited for the client went away while nobody read it";
        return Err(CaseError::Failed(says.to_owned()));
    }
    worker.record(PENDING, f64::from(1 + u8::from(reads)));
    drop((clogged, listener, other));
    server.end()?;
    Ok(())
}

/// A client that is served.
fn client(server: &Server, subscribes: &str) -> Result<TcpStream, CaseError> {
    let mut stream = connect(server.address())?;
    let greeting = format!("CONNECT {{\"verbose\":false}}\r\n{subscribes}PING\r\n");
    say(&mut stream, greeting.as_bytes())?;
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    while !said.ends_with(b"PONG\r\n") {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => said.extend_from_slice(&buffer[..count]),
            Ok(_) => return Err(CaseError::Failed("the server ended a connection".to_owned())),
            // A read with a time is not begun anew after a signal.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(CaseError::failed("being greeted by the server", error)),
        }
    }
    Ok(stream)
}

fn connect(to: SocketAddr) -> Result<TcpStream, CaseError> {
    let made = TcpStream::connect_timeout(&to, PATIENCE).and_then(|stream| {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    });
    made.map_err(|error| CaseError::failed(format!("connecting to {to}"), error))
}

fn say(to: &mut TcpStream, bytes: &[u8]) -> Result<(), CaseError> {
    to.write_all(bytes)
        .map_err(|error| CaseError::failed("speaking to the server", error))
}

/// Sends to the client that takes nothing, until the server has enough waiting for it.
fn clog(other: &mut TcpStream, monitor: SocketAddr) -> Result<(), CaseError> {
    other
        .set_write_timeout(Some(HELD_UP))
        .map_err(|error| CaseError::failed("a time for writing", error))?;
    let mut message = format!("PUB clogged {MESSAGE_BYTES}\r\n").into_bytes();
    message.resize(message.len() + MESSAGE_BYTES, b'x');
    message.extend_from_slice(b"\r\n");
    let deadline = Instant::now() + PATIENCE;
    let mut is_held_up = false;
    for _ in (0..MOST).step_by(STEP) {
        for _ in 0..STEP {
            if is_held_up {
                break;
            }
            match other.write_all(&message) {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    is_held_up = true;
                }
                Err(error) => return Err(CaseError::failed("speaking to the server", error)),
            }
        }
        let waiting = waiting_bytes(&page(monitor)?)?;
        // Who is held up adds no more.
        if waiting >= ENOUGH_BYTES || (is_held_up && waiting > 0) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    let says = "the server has nothing waiting for a client that takes nothing";
    Err(CaseError::Failed(says.to_owned()))
}

/// Whether the message comes in time. The server asks its clients by itself whether they are there.
fn hears(listener: &mut TcpStream) -> Result<bool, CaseError> {
    listener
        .set_read_timeout(Some(A_READ))
        .map_err(|error| CaseError::failed("a time for reading", error))?;
    let deadline = Instant::now() + A_READ;
    let mut said = Vec::new();
    let mut buffer = [0; 64];
    while Instant::now() < deadline {
        match listener.read(&mut buffer) {
            Ok(count) if count > 0 => said.extend_from_slice(&buffer[..count]),
            Ok(_) => break,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(CaseError::failed("listening to the server", error)),
        }
        if said.windows(HEARD.len()).any(|part| part == HEARD) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the monitor says of the server's clients.
fn page(monitor: SocketAddr) -> Result<String, CaseError> {
    let mut stream = connect(monitor)?;
    say(
        &mut stream,
        b"GET /connz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )?;
    let mut page = String::new();
    stream
        .read_to_string(&mut page)
        .map_err(|error| CaseError::failed("reading the monitor's page", error))?;
    Ok(page)
}

/// How many bytes wait for all clients; only one takes nothing.
fn waiting_bytes(page: &str) -> Result<u64, CaseError> {
    let mut waiting = page.split("\"pending_bytes\":").skip(1).peekable();
    if waiting.peek().is_none() {
        let says = format!("the monitor's page has no clients: {page:.200}");
        return Err(CaseError::Failed(says));
    }
    let digits = |rest: &str| -> String {
        let rest = rest.trim_start();
        rest.chars().take_while(char::is_ascii_digit).collect()
    };
    Ok(waiting.filter_map(|rest| digits(rest).parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;
    use std::process::Command;
    use std::thread;

    use threadgauge_lab::server::Listens;

    use super::*;

    #[test]
    fn a_server_that_ends_a_connection_instead_of_greeting_is_said() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        // What is unread when it ends would break the connection.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut lines = BufReader::new(stream.unwrap()).lines();
                lines.find(|line| line.as_ref().is_ok_and(|line| line == "PING"));
            }
        });
        let mut idle = Command::new("sleep");
        idle.arg("600");
        let server = Server::start_that(Listens::At(port), idle, &Cpus::divided(1).unwrap()).unwrap();
        let error = client(&server, "").unwrap_err().to_string();
        assert!(error.contains("the server ended a connection"), "{error}");
    }

    #[test]
    fn a_question_of_the_server_is_no_message() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"PING\r\n").unwrap();
        assert!(!hears(&mut client).unwrap());
        server.write_all(b"PING\r\nMSG heard 1 5\r\nhello\r\n").unwrap();
        assert!(hears(&mut client).unwrap());
        server.write_all(b"PING\r\n").unwrap();
        drop(server);
        assert!(!hears(&mut client).unwrap());
    }

    #[test]
    fn what_waits_is_read_off_the_monitors_page() {
        let of = |bytes: [u64; 2]| {
            let clients =
                bytes.map(|bytes| format!("{{\n \"cid\": 1,\n \"pending_bytes\": {bytes},\n \"port\": 7}}"));
            format!(
                "HTTP/1.1 200 OK\r\n\r\n{{ \"connections\": [{}] }}",
                clients.join(",")
            )
        };
        assert_eq!(waiting_bytes(&of([0, 0])).unwrap(), 0);
        assert_eq!(waiting_bytes(&of([0, 57_822_492])).unwrap(), 57_822_492);
        let error = waiting_bytes("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err();
        assert!(error.to_string().contains("404"), "{error}");
    }
}
