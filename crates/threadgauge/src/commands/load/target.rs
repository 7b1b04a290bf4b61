//! Whom the load is for, and whether it may be.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs as _};

use anyhow::{Context as _, Result, bail, ensure};

/// A server, as it was typed and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The address that is connected to.
    pub address: SocketAddr,
    /// Its name and port, as HTTP has it.
    pub host: String,
    /// What is asked for there, where a URL said it; else `/`.
    pub path: String,
}

impl Target {
    /// Reads it, and finds its address. May ask the system's name service.
    ///
    /// # Errors
    ///
    /// If it is none, or is another host than this one without `may`.
    pub fn read(text: &str, may: bool) -> Result<Self> {
        ensure!(
            !text.starts_with("https://"),
            "{text}: TLS is not spoken; put a server without it there, or load what stands behind the TLS"
        );
        let (rest, is_url) = match text.strip_prefix("http://") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (host, path) = match rest.find(['/', '?']) {
            Some(at) if is_url => rest.split_at(at),
            _ => (rest, "/"),
        };
        let path = match path.strip_prefix('?') {
            Some(query) => format!("/?{query}"),
            None => path.to_owned(),
        };
        let address = address(host, is_url).with_context(|| {
            format!("{text} is no target, as 127.0.0.1:8080, 8080, localhost:4222 or http://localhost/ are")
        })?;
        if !address.ip().is_loopback() && !may {
            bail!(
                "{address} is not this machine's own loopback address: load may break it. With \
                 --yes-i-may-load-this-host you say that you may load it"
            );
        }
        let host = match host.parse::<u16>() {
            Ok(port) => format!("127.0.0.1:{port}"),
            Err(_) => host.to_owned(),
        };
        Ok(Self { address, host, path })
    }
}

/// The first address of a name with a port; of a URL the port may be left out, alone it is one of this machine.
fn address(host: &str, is_url: bool) -> Result<SocketAddr> {
    if let (false, Ok(port)) = (is_url, host.parse::<u16>()) {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let has_port = host.parse::<SocketAddr>().is_ok()
        || host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
            && !host.ends_with(']');
    let full = match has_port {
        true => host.to_owned(),
        false if is_url => format!("{host}:80"),
        false => bail!("there is no port"),
    };
    let mut all = full.to_socket_addrs()?;
    all.next().context("the name has no address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_a_name_and_a_url_are_targets() {
        let read = |text: &str| {
            let target = Target::read(text, false).unwrap();
            (target.address.to_string(), target.host, target.path)
        };
        let here = |host: &str, path: &str| ("127.0.0.1:8080".to_owned(), host.to_owned(), path.to_owned());
        assert_eq!(read("8080"), here("127.0.0.1:8080", "/"));
        assert_eq!(read("127.0.0.1:8080"), here("127.0.0.1:8080", "/"));
        assert_eq!(
            read("http://127.0.0.1:8080/a/b?c"),
            here("127.0.0.1:8080", "/a/b?c")
        );
        assert_eq!(read("http://127.0.0.1:8080?c"), here("127.0.0.1:8080", "/?c"));
        assert_eq!(read("http://127.0.0.1").0, "127.0.0.1:80");
        assert_eq!(read("[::1]:80").0, "[::1]:80");
        assert_eq!(read("http://[::1]/").0, "[::1]:80");
    }

    #[test]
    fn another_host_needs_a_word() {
        let refused = Target::read("192.0.2.1:80", false).unwrap_err().to_string();
        assert!(refused.contains("--yes-i-may-load-this-host"), "{refused}");
        assert_eq!(
            Target::read("192.0.2.1:80", true).unwrap().address.to_string(),
            "192.0.2.1:80"
        );
    }

    #[test]
    fn what_is_no_target_says_what_is() {
        for text in [
            "localhost",
            "",
            "127.0.0.1:x",
            "https://127.0.0.1/",
            "127.0.0.1:99999",
        ] {
            let refused = Target::read(text, true).unwrap_err();
            assert!(!format!("{refused:#}").is_empty(), "{text}");
        }
    }
}
