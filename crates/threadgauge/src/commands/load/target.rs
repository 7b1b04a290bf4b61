//! Whom the load is for, and whether it may be.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use fluent_uri::UriRef;
use fluent_uri::component::{Authority, Host};

use crate::output::say;

/// Of a URL that names none.
const USUAL_PORT: u16 = 80;
/// How long an address has to answer where there is another.
const PATIENCE: Duration = Duration::from_secs(3);

/// A server, as it was typed and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// All addresses of the name, in the order of the system's name service; one at least.
    addresses: Vec<SocketAddr>,
    /// The one of several that answered.
    reached: OnceLock<SocketAddr>,
    /// Its name and port, as HTTP has it.
    pub host: String,
    /// What is asked for there, where a URL said it; else `/`.
    pub path: String,
}

impl Target {
    /// Reads it, and finds its addresses. May ask the system's name service.
    ///
    /// # Errors
    ///
    /// If it is none, or is another host than this one without `may`.
    pub fn read(text: &str, may: bool) -> Result<Self> {
        let Named {
            name,
            port,
            host,
            path,
        } = Named::read(text).with_context(|| {
            format!("{text} is no target, as 127.0.0.1:8080, 8080, localhost:4222 or http://localhost/ are")
        })?;
        let found = (&*name, port).to_socket_addrs();
        let found = found.with_context(|| format!("{name} is not known here"))?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        ensure!(!addresses.is_empty(), "{name} has no address");
        if let Some(other) = addresses.iter().find(|at| !at.ip().is_loopback() && !may) {
            bail!(
                "{other} is not this machine's own loopback address: load may break it. With \
                 --yes-i-may-load-this-host you say that you may load it"
            );
        }
        Ok(Self {
            addresses,
            reached: OnceLock::new(),
            host,
            path,
        })
    }

    /// The address that is connected to: the one that was [reached](Self::reach), until then the first.
    pub fn address(&self) -> SocketAddr {
        self.reached.get().copied().unwrap_or(self.addresses[0])
    }

    /// Has it be at this address, with its port.
    pub fn move_to(&mut self, ip: IpAddr) {
        self.addresses = vec![SocketAddr::new(ip, self.address().port())];
        self.reached = OnceLock::new();
    }

    /// Where the name has several addresses, takes the first that answers, in their order, and says which it is. Blocks
    /// meanwhile, for each that does not answer at all for three seconds. Once it is known, this does nothing.
    ///
    /// # Errors
    ///
    /// If none answers, with what each did.
    pub fn reach(&self) -> Result<()> {
        if self.addresses.len() == 1 || self.reached.get().is_some() {
            return Ok(());
        }
        let mut failures = Vec::new();
        for &at in &self.addresses {
            match TcpStream::connect_timeout(&at, PATIENCE) {
                Ok(_) => {
                    self.reached.get_or_init(|| at);
                    say(&format!("{}: {at} answers{}", self.host, but(&failures)));
                    return Ok(());
                }
                Err(error) => failures.push((at, error)),
            }
        }
        bail!(
            "no connection to {} was made{}; is the server started, and does it listen there?",
            self.host,
            but(&failures)
        )
    }
}

/// What those addresses did that did not answer.
fn but(failures: &[(SocketAddr, io::Error)]) -> String {
    let each = failures
        .iter()
        .map(|(at, error)| format!(", {at} does not: {error}"));
    each.collect()
}

/// A target by its name.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    /// What the name service is asked for.
    name: String,
    port: u16,
    host: String,
    path: String,
}

impl Named {
    fn read(text: &str) -> Result<Self> {
        if text.parse::<u16>().is_ok() {
            return Self::read(&format!("{}:{text}", Ipv4Addr::LOCALHOST));
        }
        let is_url = text.contains("://");
        let (plain, zone) = without_zone(text);
        // What has no scheme is read as what stands behind one.
        let plain = if is_url {
            plain
        } else {
            format!("//{plain}").into()
        };
        let url = UriRef::parse(&*plain).map_err(|error| match is_url {
            true => anyhow::anyhow!("{error}"),
            false => anyhow::anyhow!("there are characters in it that no address has"),
        })?;
        let scheme = url.scheme().map(|scheme| scheme.as_str().to_ascii_lowercase());
        match scheme.as_deref() {
            None | Some("http") => {}
            Some("https") => {
                bail!("TLS is not spoken; put a server without it there, or load what stands behind the TLS")
            }
            Some(other) => bail!("{other} is not spoken; a URL begins with http://"),
        }
        let authority = url.authority().context("there is no host")?;
        ensure!(
            !authority.has_userinfo(),
            "a name and a password are not taken from it; say --header 'Authorization: Basic …'"
        );
        let port = authority
            .port_to_u16()
            .context("a port is a number up to 65535")?;
        let (path, query) = (url.path().as_str(), url.query());
        if !is_url {
            ensure!(
                path.is_empty() && query.is_none() && !url.has_fragment(),
                "a path goes with a URL, as http://{text}"
            );
            ensure!(port.is_some(), "there is no port");
        }
        let path = if path.is_empty() { "/" } else { path };
        // What stands behind a # is for whoever shows the page.
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        Ok(Self {
            name: name(authority, zone)?,
            port: port.unwrap_or(USUAL_PORT),
            host: authority.as_str().trim_end_matches(':').to_owned(),
            path: format!("{path}{query}"),
        })
    }
}

/// What the name service is asked for: it knows no brackets, no percent-encoding, and zones.
fn name(authority: Authority<'_>, zone: Option<&str>) -> Result<String> {
    let host = authority.host();
    let name = match authority.host_parsed() {
        Host::RegName(name) => {
            let name = name.decode().to_string();
            name.map_err(|_| anyhow::anyhow!("{host} is no name"))?
                .into_owned()
        }
        _ => host.trim_matches(['[', ']']).to_owned(),
    };
    ensure!(!name.is_empty(), "there is no host");
    Ok(match zone {
        Some(zone) => format!("{name}%{zone}"),
        None => name,
    })
}

/// Takes the zone out of an IPv6 address in brackets, `[fe80::1%eth0]` or, in a URL, `[fe80::1%25eth0]`: a URL has none
/// (RFC 9844), and a server is told none.
fn without_zone(text: &str) -> (Cow<'_, str>, Option<&str>) {
    let inside = text.find('[').zip(text.find(']'));
    let zone = inside.and_then(|(open, close)| {
        let at = open + text.get(open..close)?.find('%')?;
        let zone = &text[at + 1..close];
        let zone = zone
            .strip_prefix("25")
            .filter(|rest| !rest.is_empty())
            .unwrap_or(zone);
        Some((format!("{}{}", &text[..at], &text[close..]), zone))
    });
    match zone {
        Some((plain, zone)) => (plain.into(), Some(zone)),
        None => (text.into(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_a_name_and_a_url_are_targets() {
        let read = |text: &str| {
            let target = Target::read(text, false).unwrap();
            (target.address().to_string(), target.host, target.path)
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
    fn a_url_is_read_as_rfc_3986_has_it() {
        let named = |text: &str| {
            let named = Named::read(text).unwrap_or_else(|error| panic!("{text}: {error:#}"));
            (named.name, named.port, named.host, named.path)
        };
        let is = |name: &str, port: u16, host: &str, path: &str| {
            (name.to_owned(), port, host.to_owned(), path.to_owned())
        };
        // A fragment stays here, wherever it stands.
        assert_eq!(named("http://h:1/a?b#c"), is("h", 1, "h:1", "/a?b"));
        assert_eq!(named("http://h:1#x"), is("h", 1, "h:1", "/"));
        assert_eq!(named("http://h?b#x/y"), is("h", 80, "h", "/?b"));
        assert_eq!(named("HTTP://h/A%2fb"), is("h", 80, "h", "/A%2fb"));
        assert_eq!(named("http://h:/"), is("h", 80, "h", "/"));
        assert_eq!(
            named("http://local%68ost:080/"),
            is("localhost", 80, "local%68ost:080", "/")
        );
        // What goes to the server has no zone.
        for zoned in [
            "http://[fe80::1%25lo]:1/",
            "http://[fe80::1%lo]:1/",
            "[fe80::1%lo]:1",
        ] {
            assert_eq!(named(zoned), is("fe80::1%lo", 1, "[fe80::1]:1", "/"), "{zoned}");
        }
        assert_eq!(named("http://[::1]"), is("::1", 80, "[::1]", "/"));
        // A path is sent as it was typed.
        assert_eq!(named("http://h/a/../b"), is("h", 80, "h", "/a/../b"));
    }

    #[test]
    fn what_a_url_cannot_have_is_said() {
        for (text, says) in [
            ("http://me:secret@h/", "Authorization"),
            ("me@h:1", "Authorization"),
            ("ftp://h/", "ftp is not spoken"),
            ("HTTPS://h/", "TLS"),
            ("http:///a", "no host"),
            ("http://:80/", "no host"),
            ("http://h:99999/", "65535"),
            ("http://h/a b", "unexpected character"),
            ("http://h/%zz", "percent-encoded"),
            ("http://[::1/", "unexpected character"),
            ("h:1#x", "a path goes with a URL"),
            ("h:1/x", "a path goes with a URL"),
        ] {
            let refused = Target::read(text, true).unwrap_err();
            assert!(format!("{refused:#}").contains(says), "{text}: {refused:#}");
        }
    }

    #[test]
    fn of_several_addresses_the_first_that_answers_is_taken() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        // Nobody listens at that address.
        let gone: SocketAddr = format!("[::1]:{}", there.port()).parse().unwrap();
        let target = |addresses: &[SocketAddr]| Target {
            addresses: addresses.to_vec(),
            reached: OnceLock::new(),
            host: "here".to_owned(),
            path: "/".to_owned(),
        };
        for addresses in [&[gone, there][..], &[there, gone], &[there]] {
            let target = target(addresses);
            target.reach().unwrap();
            assert_eq!(target.address(), there, "{addresses:?}");
        }
        drop(listener);
        let refused = target(&[gone, there]).reach().unwrap_err().to_string();
        assert!(
            refused.contains(&gone.to_string()) && refused.contains(&there.to_string()),
            "{refused}"
        );
    }

    #[test]
    fn another_host_needs_a_word() {
        let refused = Target::read("192.0.2.1:80", false).unwrap_err().to_string();
        assert!(refused.contains("--yes-i-may-load-this-host"), "{refused}");
        assert_eq!(
            Target::read("192.0.2.1:80", true).unwrap().address().to_string(),
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
