//! For whom the pages are.
//!
//! Whoever reaches the address may read them, but a page of somebody else may not have a reader's browser do that: its
//! name can be made to stand for this machine a moment later (DNS rebinding), and then the browser takes the two for
//! one. That name is in `Host`, which such a page cannot change.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The names of this host.
pub struct Hosts(Vec<String>);

impl Hosts {
    /// `localhost`, what the system calls this host, and these.
    pub fn new(others: &[String]) -> Self {
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let names = ["localhost".to_owned(), own].into_iter();
        Self(names.chain(others.iter().cloned()).collect())
    }

    /// Whether `host` is one of them, or an address. Who names none is no browser.
    pub fn include(&self, host: &str) -> bool {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_address = match address {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => host.parse::<Ipv4Addr>().is_ok(),
        };
        let name = host.strip_suffix('.').unwrap_or(host);
        host.is_empty() || is_address || self.0.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_the_hosts_own_names_are_for_this_host() {
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let hosts = Hosts::new(&["Groups.example.org".to_owned()]);
        for host in [
            "",
            "127.0.0.1",
            "192.0.2.7",
            "[::1]",
            "[2001:db8::7]",
            "localhost",
            "LOCALHOST.",
            &own,
            "groups.example.ORG",
            "groups.example.org.",
        ] {
            assert!(hosts.include(host), "{host:?}");
        }
        for other in [
            "x",
            "rebound.example",
            "localhost.example",
            "sub.localhost",
            "127.0.0.1.example",
            "127.0.0.256",
            "127.1",
            "2130706433",
            "0x7f000001",
            "::1",
            "[127.0.0.1]",
            "org",
            ".",
        ] {
            assert!(!hosts.include(other), "{other:?}");
        }
    }
}
