//! Parameters of `multicast` that are a number, or the source's own condition: how much clients have on its way, and
//! over what.

use std::fmt;

use threadgauge_lab::point::{Parameter, Value};
use threadgauge_load::BitRate;

/// Messages that each member has on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// As many as saturate the server. Each sample finds them.
    Saturating,
    /// So many.
    Messages(u64),
}

impl Window {
    /// The most that are tried, or told.
    pub(super) const MOST: u64 = 64;
}

impl Parameter for Window {
    fn value(&self) -> Value {
        match self {
            Self::Saturating => Value::from("saturating"),
            Self::Messages(count) => Value::Int(*count),
        }
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Int(count) => (1..=Self::MOST).contains(count).then_some(Self::Messages(*count)),
            Value::Text(_) => Some(Self::Saturating).filter(|window| window.value() == *value),
        }
    }

    fn wanted() -> String {
        format!("a number from 1 to {}, or the word saturating", Self::MOST)
    }
}

/// Between the clients and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// The loopback interface, which has no limit.
    Loopback,
    /// A link that carries so much in each direction.
    Limited(BitRate),
}

impl Network {
    /// The source's.
    pub(super) fn hundred_mbit() -> Self {
        Self::Limited("100mbit".parse().expect("a rate"))
    }
}

/// For the end of a sentence.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => f.write_str("loopback"),
            Self::Limited(rate) => write!(f, "{rate}"),
        }
    }
}

impl Parameter for Network {
    fn value(&self) -> Value {
        Value::from(&*self.to_string())
    }

    fn read(value: &Value) -> Option<Self> {
        let Value::Text(text) = value else { return None };
        if Self::Loopback.value() == *value {
            return Some(Self::Loopback);
        }
        // What is written in another way would be another case of the same link.
        let limited = Self::Limited(text.parse().ok()?);
        (limited.value() == *value).then_some(limited)
    }

    fn wanted() -> String {
        "loopback, or what a link carries in each direction, as 100mbit or 1gbit".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_written_as_people_do_and_read_back() {
        for text in ["saturating", "1", "64"] {
            let window = Window::read(&Value::parse(text)).unwrap();
            assert_eq!(window.value(), Value::parse(text));
        }
        for text in ["loopback", "100mbit", "1gbit"] {
            let network = Network::read(&Value::parse(text)).unwrap();
            assert_eq!(network.value(), Value::parse(text));
        }
        assert_eq!(Network::hundred_mbit().to_string(), "100mbit");
    }

    #[test]
    fn what_is_none_is_not_read() {
        for text in ["0", "65", "saturated", ""] {
            assert_eq!(Window::read(&Value::parse(text)), None, "{text}");
        }
        for text in ["100", "100mb", "1000mbit", "0mbit", "lo", ""] {
            assert_eq!(Network::read(&Value::parse(text)), None, "{text}");
        }
    }
}
