//! What several tests of this crate need.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::record::Watch;

/// For what comes, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A server of a thread for each connection, for as long as the tests run.
pub(crate) fn serve(with: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let with = with.clone();
            thread::spawn(move || with(stream));
        }
    });
    at
}

/// Goes on until a condition holds.
pub(crate) struct Until<F> {
    enough: F,
    deadline: Instant,
}

impl<F: FnMut() -> bool> Until<F> {
    pub(crate) fn new(enough: F) -> Self {
        Self {
            enough,
            deadline: Instant::now() + PATIENCE,
        }
    }
}

impl<F: FnMut() -> bool> Watch for Until<F> {
    fn goes_on(&mut self) -> bool {
        assert!(
            Instant::now() < self.deadline,
            "what was waited for does not come"
        );
        !(self.enough)()
    }
}
