//! Which process listens at an address of this machine.

use crate::children::parents;
use procfs::process::{FDTarget, all_processes};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// Why it is not known who listens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenerError {
    /// Nobody does, in this network namespace.
    #[error("no process of this machine listens at {0}, as far as this network namespace shows")]
    Nobody(SocketAddr),
    /// Somebody does, and this user may not see who.
    #[error("the process that listens at {0} belongs to another user: name it, or run as root")]
    Hidden(SocketAddr),
    /// The kernel's list cannot be read.
    #[error("cannot read who listens: {0}")]
    Unreadable(String),
}

/// The process that listens at this address, or at its port on all addresses. Where several share the socket, as a
/// parent and its children do, the one above the others. Looks at the descriptors of every process: some milliseconds,
/// more on a machine with thousands of connections.
///
/// # Errors
///
/// If nobody listens there, or it cannot be seen who does.
pub fn listener(at: SocketAddr) -> Result<i32, ListenerError> {
    let sockets = listening_sockets(at)?;
    if sockets.is_empty() {
        return Err(ListenerError::Nobody(at));
    }
    let holders = holders_of(&sockets)?;
    let parents = parents();
    topmost(&holders, |pid| parents.get(&pid).copied()).ok_or(ListenerError::Hidden(at))
}

/// The inodes of the sockets that listen there.
fn listening_sockets(at: SocketAddr) -> Result<HashSet<u64>, ListenerError> {
    let unreadable = |error: procfs::ProcError| ListenerError::Unreadable(error.to_string());
    let mut entries = procfs::net::tcp().map_err(unreadable)?;
    // A kernel without IPv6 has no such list.
    entries.extend(procfs::net::tcp6().unwrap_or_default());
    let is_there = |local: SocketAddr| {
        let ip = local.ip().to_canonical();
        let is_any = local.ip().is_unspecified() && (local.is_ipv6() || at.is_ipv4());
        local.port() == at.port() && (ip == at.ip().to_canonical() || is_any)
    };
    Ok(entries
        .into_iter()
        .filter(|entry| entry.state == procfs::net::TcpState::Listen && is_there(entry.local_address))
        .map(|entry| entry.inode)
        .collect())
}

fn holders_of(sockets: &HashSet<u64>) -> Result<HashSet<i32>, ListenerError> {
    let processes = all_processes().map_err(|error| ListenerError::Unreadable(error.to_string()))?;
    let holds = |process: &procfs::process::Process| {
        // Of another user's process they may not be read.
        let descriptors = process.fd().into_iter().flatten().flatten();
        descriptors
            .map(|descriptor| descriptor.target)
            .any(|target| matches!(target, FDTarget::Socket(inode) if sockets.contains(&inode)))
    };
    Ok(processes
        .flatten()
        .filter(holds)
        .map(|process| process.pid())
        .collect())
}

/// The first that is below no other.
fn topmost(holders: &HashSet<i32>, parent: impl Fn(i32) -> Option<i32>) -> Option<i32> {
    let is_below_none = |pid: &&i32| parent(**pid).is_none_or(|parent| !holders.contains(&parent));
    holders.iter().filter(is_below_none).min().copied()
}

/// Whether the address is one of this machine's own, so that a server there is too.
///
/// Told by asking the kernel for a socket there; nothing is sent.
pub fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || std::net::UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn own() -> i32 {
        std::process::id().cast_signed()
    }

    #[test]
    fn who_listens_is_found_on_its_address_and_on_all_addresses() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            // Without IPv6 there is nothing to find.
            let Ok(socket) = TcpListener::bind(address) else {
                continue;
            };
            let port = socket.local_addr().unwrap().port();
            let reached_by: &[&str] = match address {
                "[::1]:0" => &["::1"],
                "[::]:0" => &["127.0.0.1", "::1"],
                _ => &["127.0.0.1"],
            };
            for ip in reached_by {
                let at = SocketAddr::new(ip.parse().unwrap(), port);
                assert_eq!(listener(at), Ok(own()), "{address} by {ip}");
            }
            let elsewhere = SocketAddr::new("127.0.0.9".parse().unwrap(), port);
            let found = listener(elsewhere).is_ok();
            assert_eq!(found, matches!(address, "0.0.0.0:0" | "[::]:0"), "{address}");
        }
    }

    #[test]
    fn where_nobody_listens_the_address_is_named() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut tries = 0;
        // A child that another test starts has the socket open until it is another program.
        while listener(free).is_ok() && tries < 10_000 {
            tries += 1;
            std::thread::yield_now();
        }
        let error = listener(free).unwrap_err();
        assert_eq!(error, ListenerError::Nobody(free));
        assert!(error.to_string().contains(&free.to_string()));
    }

    #[test]
    fn of_those_who_share_a_socket_it_is_the_one_above() {
        let parent = |pid| {
            [(7, 1), (5, 7), (9, 7), (12, 9)]
                .into_iter()
                .find(|(p, _)| *p == pid)
        };
        let above = |holders: &[i32]| {
            topmost(&holders.iter().copied().collect(), |pid| {
                parent(pid).map(|(_, above)| above)
            })
        };
        assert_eq!(above(&[5, 7, 9]), Some(7));
        assert_eq!(above(&[12, 9]), Some(9));
        assert_eq!(above(&[]), None);
    }

    #[test]
    fn loopback_is_here_and_a_documentation_address_is_not() {
        assert!(is_local("127.3.4.5".parse().unwrap()) && is_local("::1".parse().unwrap()));
        assert!(!is_local("192.0.2.7".parse().unwrap()));
    }
}
