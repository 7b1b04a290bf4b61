//! What the kernel allows of sockets: local ports, backlogs, open files of the whole machine.

use crate::source::Source;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Settings of the network namespace and of the machine that bound how many connections there can be. `None` where one
/// could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SocketLimits {
    /// The first and the last local port that the kernel gives to a connection by itself.
    pub local_ports: Option<(u16, u16)>,
    /// The most connections that wait to be accepted at one listening socket.
    pub accept_backlog: Option<u64>,
    /// The most connections of a listening socket whose handshake is not over.
    pub handshake_backlog: Option<u64>,
    /// Open files of the whole machine, and the most that there can be.
    pub files: Option<(u64, u64)>,
}

impl SocketLimits {
    /// Those of the namespace that this program is in.
    #[must_use]
    pub fn read() -> Self {
        Self::from(&Source::new(Path::new("/")))
    }

    fn from(source: &Source) -> Self {
        let numbers = |path: &str| -> Option<Vec<u64>> {
            let word = source.word(path).ok()?;
            word.split_ascii_whitespace()
                .map(|number| number.parse().ok())
                .collect()
        };
        let pair = |path: &str| match numbers(path)?[..] {
            [first, second] => Some((first, second)),
            _ => None,
        };
        Self {
            local_ports: pair("/proc/sys/net/ipv4/ip_local_port_range")
                .and_then(|(first, last)| Some((first.try_into().ok()?, last.try_into().ok()?))),
            accept_backlog: source.value("/proc/sys/net/core/somaxconn").ok(),
            handshake_backlog: source.value("/proc/sys/net/ipv4/tcp_max_syn_backlog").ok(),
            // In use, free of those allocated, the most; the second is 0 since Linux 2.6.
            files: numbers("/proc/sys/fs/file-nr").and_then(|files| match files[..] {
                [used, free, most] => Some((used.saturating_sub(free), most)),
                _ => None,
            }),
        }
    }

    /// How many local ports there are for connections to one address, of one local address.
    pub fn local_port_count(&self) -> Option<u64> {
        let (first, last) = self.local_ports?;
        Some(u64::from(last).saturating_sub(u64::from(first)) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[(&str, &str)]) -> SocketLimits {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        SocketLimits::from(&Source::new(root.path()))
    }

    #[test]
    fn each_setting_is_read_from_its_file() {
        let limits = with(&[
            ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("proc/sys/net/core/somaxconn", "128\n"),
            ("proc/sys/net/ipv4/tcp_max_syn_backlog", "256\n"),
            ("proc/sys/fs/file-nr", "1100\t100\t50000\n"),
        ]);
        assert_eq!(limits.local_ports, Some((32_768, 60_999)));
        assert_eq!(limits.local_port_count(), Some(28_232));
        assert_eq!(
            (limits.accept_backlog, limits.handshake_backlog),
            (Some(128), Some(256))
        );
        assert_eq!(limits.files, Some((1_000, 50_000)));
    }

    #[test]
    fn what_is_not_there_or_not_understood_is_not_guessed() {
        let limits = with(&[
            ("proc/sys/net/ipv4/ip_local_port_range", "32768\n"),
            ("proc/sys/net/core/somaxconn", "much\n"),
            ("proc/sys/fs/file-nr", "1 2\n"),
        ]);
        assert_eq!(limits, SocketLimits::default());
    }

    #[test]
    fn this_machine_has_ports() {
        assert!(SocketLimits::read().local_port_count().unwrap() > 0);
    }
}
