//! The clients against servers of a few lines, honest ones and others.

#[path = "load/faulty.rs"]
mod faulty;
#[path = "load/groups.rs"]
mod groups;
#[path = "load/hostile.rs"]
mod hostile;
#[path = "load/requests.rs"]
mod requests;

use std::net::{Ipv4Addr, TcpListener};

/// That accepts nobody, and of which the kernel makes so many connections.
fn accepts_nobody(backlog: i32) -> TcpListener {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    rustix::net::listen(&listener, backlog).unwrap();
    listener
}

/// Whether to go on: no when it is asked for the `last` time, after which it is not to be asked again.
fn goes_on_until(last: usize) -> impl FnMut() -> bool {
    let mut asked = 0;
    move || {
        asked += 1;
        assert!(asked <= last, "it is asked again");
        asked < last
    }
}
