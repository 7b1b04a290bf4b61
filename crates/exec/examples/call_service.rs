//! Asks a slow service many things, as many at once as it bears.
//!
//! ```text
//! cargo run -p threadgauge-exec --example call_service [-- QUESTIONS]
//! ```
//!
//! The service is a thread of this program that answers each question after 5 ms, and at most 16 at a time. Nobody
//! tells the call: its degree is adaptive.
#![allow(clippy::print_stdout)]

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use threadgauge_exec::{ConcurrentExecution, Degree};

fn main() -> io::Result<()> {
    let questions = std::env::args()
        .nth(1)
        .map_or(400, |n| n.parse().expect("a number"));
    let service = start_service()?;
    let sixty_four = NonZeroUsize::new(64).expect("not zero");
    let mut longest = (0, 0);
    let report = ConcurrentExecution::new(Degree::adaptive(..=sixty_four))
        .try_for_each(
            1..=questions,
            |n| ask(service, *n),
            |done| longest = longest.max((done.result, done.object)),
        )
        .ok()?;
    println!("{} answers in {:.0?}", report.finished, report.elapsed);
    println!(
        "the longest way to 1 is that of {}: {} steps",
        longest.1, longest.0
    );
    println!(
        "at most {} were asked at once, {} in the end",
        report.most_running, report.last_degree
    );
    Ok(())
}

fn ask(service: SocketAddr, n: u64) -> io::Result<u64> {
    let mut stream = TcpStream::connect(service)?;
    writeln!(stream, "{n}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    answer.trim().parse().map_err(io::Error::other)
}

/// How many steps a number takes to 1 (Collatz), on a port of its own, until the program ends.
fn start_service() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        // The service is a concurrent execution as well: of connections, without end.
        let sixteen = NonZeroUsize::new(16).expect("not zero");
        let connections = std::iter::from_fn(|| Some(listener.accept()));
        let _ = ConcurrentExecution::new(sixteen).for_each(
            connections,
            |connection| {
                if let Ok((stream, _)) = connection {
                    // Who hangs up gets no answer.
                    let _ = answer(stream);
                }
            },
            |_| (),
        );
    });
    Ok(address)
}

fn answer(mut stream: &TcpStream) -> io::Result<()> {
    let mut question = String::new();
    BufReader::new(stream).read_line(&mut question)?;
    thread::sleep(Duration::from_millis(5));
    let mut n: u64 = question.trim().parse().map_err(io::Error::other)?;
    let mut steps = 0;
    while n > 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    writeln!(stream, "{steps}")
}
