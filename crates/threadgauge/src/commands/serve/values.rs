//! The values of settings, as they are typed on the command line and written in a file.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::num::{IntErrorKind, NonZeroUsize};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{self, Visitor};
use threadgauge_load::Span;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen(pub String);

impl Listen {
    /// A port of 127.0.0.1.
    pub fn here(port: u16) -> Self {
        Self(format!("127.0.0.1:{port}"))
    }

    /// Of the name `localhost`: the first address that it stands for, and 127.0.0.1, where clients look that know no
    /// other.
    pub fn localhost(&self) -> Option<Vec<SocketAddr>> {
        let (name, port) = self.0.rsplit_once(':')?;
        if !name.eq_ignore_ascii_case("localhost") {
            return None;
        }
        let here = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.parse().ok()?);
        let first = self.0.to_socket_addrs().ok().and_then(|mut all| all.next());
        Some(
            first
                .filter(|first| *first != here)
                .into_iter()
                .chain([here])
                .collect(),
        )
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self::here(port));
        }
        // Colons within a host are those of an IPv6 address, which needs its brackets.
        let name = text.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.contains(':') && port.parse::<u16>().is_ok()
        });
        match name || text.parse::<SocketAddr>().is_ok() {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "`{text}` is no address with a port, as 127.0.0.1:7000, [::1]:7000 or 7000 are"
            )),
        }
    }
}

/// Names of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl FromStr for Names {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            !name.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let name = |name: &str| match name.trim() {
            name if is_name(name) => Ok(name.to_owned()),
            other => Err(format!(
                "`{other}` is no name of a host, as groups.example.org is"
            )),
        };
        text.split(',').map(name).collect::<Result<_, _>>().map(Self)
    }
}

/// A whole number above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole(pub NonZeroUsize);

impl FromStr for Whole {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error| match error.kind() {
            IntErrorKind::PosOverflow => format!("`{text}` is more than this machine counts"),
            _ => format!("`{text}` is no whole number above 0"),
        })
    }
}

impl Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

/// How many serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers(pub RangeInclusive<usize>);

impl FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        match (least.parse(), most.parse()) {
            (Ok(least), Ok(most)) => Ok(Self(least..=most)),
            _ => Err(format!("`{text}` is neither a number nor MIN..MAX, as in 2..8")),
        }
    }
}

/// A length of time: a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Span(time) = text.parse()?;
        match time >= Duration::from_millis(1) {
            true => Ok(Self(time)),
            false => Err(format!("`{text}` is less than 1ms")),
        }
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}

/// A length of time that may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain(pub Duration);

impl FromStr for Drain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            Span(Duration::ZERO) => Ok(Self(Duration::ZERO)),
            _ => text
                .parse()
                .map(|Seconds(time)| Self(time))
                .map_err(|error| format!("{error}, nor 0")),
        }
    }
}

impl Display for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&Seconds(self.0), f)
    }
}

/// A value in a file that is written as on the command line, or as a number where it is one.
pub fn as_typed<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    from.deserialize_any(AsTyped(PhantomData)).map(Some)
}

struct AsTyped<T>(PhantomData<T>);

impl<T: FromStr<Err: Display>> Visitor<'_> for AsTyped<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    /// Of a number with too many digits for the others.
    fn visit_i128<E: de::Error>(self, number: i128) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_listened_on_where_clients_look_for_it() {
        for name in ["localhost:7000", "LocalHost:7000"] {
            let addresses = Listen(name.to_owned()).localhost().unwrap();
            let here: SocketAddr = "127.0.0.1:7000".parse().unwrap();
            assert_eq!(addresses.last(), Some(&here));
            assert!(addresses.iter().all(|address| address.ip().is_loopback()));
            assert!(addresses.len() < 3, "{addresses:?}");
        }
        for other in ["127.0.0.1:7000", "localhost.example:7000", "[::1]:7000"] {
            assert_eq!(Listen(other.to_owned()).localhost(), None);
        }
    }

    #[test]
    fn names_have_no_ports_and_no_scheme() {
        let names = |all: &[&str]| Ok(Names(all.iter().map(|&name| name.to_owned()).collect()));
        assert_eq!("a.example, b".parse(), names(&["a.example", "b"]));
        for wrong in ["", "a,", "a:80", "http://a", "a b", "*", "[::1]"] {
            assert!(wrong.parse::<Names>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_have_a_port() {
        for right in ["127.0.0.1:0", "[::1]:7000", "localhost:7000", "0.0.0.0:80"] {
            assert_eq!(right.parse(), Ok(Listen(right.to_owned())));
        }
        for wrong in [
            "",
            "localhost",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:65536",
            ":7000",
            "::1",
            "fe80::1",
        ] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}
