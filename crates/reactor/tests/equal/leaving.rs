//! What clients make a server hold goes back once they have left.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use threadgauge_reactor::AtOnce;

use crate::PATIENCE;
use crate::proc::children;
use crate::round::Way;
use crate::server::Running;

const CLIENTS: usize = 300;
const WORKERS: usize = 16;
const ROUNDS: usize = 3;
/// As much as a client sends at once: far more is answered than may wait for it.
const REQUESTS_BYTES: usize = 64 << 10;
const PAGE: &str = "GET /16384 HTTP/1.1\r\nHost: x\r\n\r\n";
const LAST_PAGE: &str = "GET /16384 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
/// What a server may use more than before: the C library keeps stacks and arenas of as many threads as there were at
/// once. What a round leaves is 19 MiB, and so two are too many.
const MORE_KIB: u64 = 20 << 10;

/// Many ask for much, read nothing of it and leave, again and again.
///
/// # Errors
///
/// If what was held for them does not go back, though nobody else comes for it.
pub fn leaves_nothing(way: Way) -> Result<(), String> {
    let sends = way.sends.map(|sends| format!("sends={}", sends.name()));
    let settings: Vec<String> = sends.into_iter().collect();
    let mut server = Running::start("http", way.design, WORKERS, &settings);
    let answered = match way.design.about().at_once {
        AtOnce::One => 1,
        AtOnce::Workers => WORKERS,
        AtOnce::Many => CLIENTS,
    };
    is_served(&server)?;
    let before = used_kib(&server);
    for round in 1..=ROUNDS {
        ask_and_leave(&server, answered)?;
        let until = Instant::now() + PATIENCE;
        while used_kib(&server) > before + MORE_KIB {
            if Instant::now() > until {
                let more = used_kib(&server).saturating_sub(before);
                return Err(format!(
                    "{more} KiB more are used after {round} rounds of clients that left"
                ));
            }
            thread::sleep(Duration::from_millis(10));
        }
        is_served(&server)?;
    }
    server.tell_to_stop();
    server.end().map(drop)
}

/// Somebody is, to the end.
fn is_served(server: &Running) -> Result<(), String> {
    let ask = || {
        let mut client = TcpStream::connect(server.address)?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.write_all(LAST_PAGE.as_bytes())?;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer)
    };
    match ask() {
        Ok(bytes) if bytes > 16_384 => Ok(()),
        got => Err(format!("who comes after those who left gets {got:?} bytes")),
    }
}

/// They leave once so many have an answer: then as much as may waits for them.
fn ask_and_leave(server: &Running, answered: usize) -> Result<(), String> {
    let requests = PAGE.repeat(REQUESTS_BYTES / PAGE.len());
    let ask = || {
        let mut client = TcpStream::connect(server.address)?;
        client.set_nonblocking(true)?;
        // What the kernel takes of it is enough.
        match client.write(requests.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(client),
        }
    };
    let clients = (0..CLIENTS).map(|_| ask()).collect::<Result<Vec<_>, _>>();
    let clients = clients.map_err(|error| error.to_string())?;
    let until = Instant::now() + PATIENCE;
    let mut waiting: Vec<&TcpStream> = clients.iter().collect();
    loop {
        waiting.retain(|client| !client.peek(&mut [0]).is_ok_and(|count| count > 0));
        if CLIENTS - waiting.len() >= answered {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("of {CLIENTS} clients fewer than {answered} are answered"));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// What its processes have for themselves, not of files.
fn used_kib(server: &Running) -> u64 {
    let mut used = 0;
    let mut processes = vec![server.pid()];
    while let Some(pid) = processes.pop() {
        processes.extend(children(pid));
        // One that has just ended has nothing.
        let map = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let anonymous = map.lines().find_map(|line| line.strip_prefix("Anonymous:"));
        let kib = anonymous.and_then(|said| said.trim().strip_suffix(" kB"));
        used += kib.map_or(0, |kib| kib.trim().parse::<u64>().expect("a number"));
    }
    used
}
