//! What clients make a server hold goes back once they have left.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use threadgauge_reactor::{AtOnce, Design, Memory};

use super::children;
use super::serve::{DEADLINE, Served};

const CLIENTS: usize = 300;
const WORKERS: &str = "16";
const ROUNDS: usize = 10;
/// As much as a client sends at once: far more is answered than may wait for it.
const REQUESTS_BYTES: usize = 64 << 10;
/// What a server may use more than before.
const MORE_KIB: u64 = 10 << 10;

#[test]
fn what_a_server_held_for_those_who_read_nothing_goes_back_when_they_leave() {
    let page = "GET /16384 HTTP/1.1\r\nHost: x\r\n\r\n";
    let requests = page.repeat(REQUESTS_BYTES / page.len());
    let dir = tempfile::tempdir().unwrap();
    for design in Design::ALL {
        let about = design.about();
        let mut arguments = vec!["http", "--design", design.name(), "--listen", "127.0.0.1:0"];
        let answered = match about.at_once {
            AtOnce::One => 1,
            AtOnce::Workers => {
                arguments.extend(["--workers", WORKERS]);
                WORKERS.parse().unwrap()
            }
            AtOnce::Many => CLIENTS,
        };
        let server = Served::start(dir.path(), &arguments);
        if about.memory == Memory::Separate && about.at_once == AtOnce::Workers {
            while processes(&server).len() <= answered {
                thread::sleep(Duration::from_millis(1));
            }
        }
        is_served(&server, page);
        let before = used_kib(&server);
        for round in 1..=ROUNDS {
            ask_and_leave(&server, &requests, answered);
            // Nobody else needs to come for it.
            let until = Instant::now() + DEADLINE;
            while used_kib(&server) > before + MORE_KIB {
                let more = used_kib(&server).saturating_sub(before);
                assert!(
                    Instant::now() < until,
                    "{}: {more} KiB more after {round}",
                    design.name()
                );
                thread::sleep(Duration::from_millis(10));
            }
            is_served(&server, page);
        }
    }
}

/// Somebody is, to the end.
fn is_served(server: &Served, page: &str) {
    let mut client = TcpStream::connect(&server.address).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = page.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > 16_384, "{}", String::from_utf8_lossy(&answer));
}

/// Clients ask for much, and leave without having read once so many have an answer: then as much as may waits for them.
fn ask_and_leave(server: &Served, requests: &str, answered: usize) {
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
    let has_answer = |client: &&TcpStream| client.peek(&mut [0]).is_ok_and(|count| count > 0);
    while clients.iter().filter(has_answer).count() < answered {
        assert!(Instant::now() < until, "nobody is answered");
        thread::sleep(Duration::from_millis(1));
    }
}

fn processes(server: &Served) -> Vec<String> {
    let (mut all, mut below) = (Vec::new(), vec![server.child.id().to_string()]);
    while !below.is_empty() {
        let next = children(&below);
        all.append(&mut below);
        below = next;
    }
    all
}

/// What its processes have for themselves, not of files.
fn used_kib(server: &Served) -> u64 {
    let all = processes(server);
    // One that has just ended has nothing.
    let maps = all
        .iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok());
    let of_each = maps.filter_map(|map| {
        let line = map
            .lines()
            .find_map(|line| line.strip_prefix("Anonymous:").map(str::to_owned))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    of_each.sum()
}
