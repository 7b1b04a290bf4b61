//! What clients make `serve` hold goes back to the system once they have left. `equal`, a test of the library, tries
//! all designs with malloc told to give back; that the command tells it is seen here, by the design that needs it most.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::serve::{DEADLINE, Served};

const CLIENTS: usize = 300;
/// As much as a client sends at once: far more is answered than may wait for it.
const REQUESTS_BYTES: usize = 64 << 10;
const MORE_KIB: u64 = 10 << 10;

#[test]
fn what_a_server_held_for_those_who_read_nothing_goes_back_when_they_leave() {
    let page = "GET /16384 HTTP/1.1\r\nHost: x\r\n\r\n";
    let requests = page.repeat(REQUESTS_BYTES / page.len());
    let dir = tempfile::tempdir().unwrap();
    let server = Served::start(
        dir.path(),
        &[
            "http",
            "--design",
            "thread-per-connection",
            "--listen",
            "127.0.0.1:0",
        ],
    );
    let before = used_kib(&server);
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut client = TcpStream::connect(&server.address).unwrap();
            client.set_nonblocking(true).unwrap();
            // What the kernel takes of it is enough.
            let _ = client.write(requests.as_bytes());
            client
        })
        .collect();
    let until = Instant::now() + DEADLINE;
    let waits = |met: &dyn Fn() -> bool| {
        while !met() {
            assert!(Instant::now() < until, "{} KiB after {before}", used_kib(&server));
            thread::sleep(Duration::from_millis(10));
        }
    };
    waits(&|| used_kib(&server) > before + MORE_KIB);
    drop(clients);
    waits(&|| used_kib(&server) < before + MORE_KIB);
}

/// What it has for itself, not of files.
fn used_kib(server: &Served) -> u64 {
    let map = fs::read_to_string(format!("/proc/{}/smaps_rollup", server.child.id())).unwrap();
    let anonymous = map.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = anonymous.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.trim().parse().unwrap()
}
