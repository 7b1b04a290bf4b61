//! A point in an experiment's parameter grid: named values in the order the experiment gives them.
//!
//! Owns the text form of a case (`unit=thread,count=10000`) that ids, `--only` and `--set` share.
//! Knows nothing of what a parameter means.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The value of one parameter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A count, a size or a duration; the unit is in the parameter's name.
    Int(u64),
    /// A word.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => write!(f, "{n}"),
            Self::Text(s) => f.write_str(s),
        }
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Int(n)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::Text(s.to_owned())
    }
}

impl Value {
    /// Reads a value as the command line writes it: digits are a number, everything else a word.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::from(text), Self::Int)
    }
}

/// Parameters that not every case of an experiment has: `library`, where it is another than the C library's own
/// threads, `runtime`, where it is another than C, and `waits_by`, where it is asked how a loop waits. Cases that have
/// one are beside the others: a pattern that does not name it picks none of them, so that what was read off a run
/// before there were such cases is read off one with them alike.
pub const OPTIONAL: [&str; 3] = ["library", "runtime", "waits_by"];

/// Named values, in the order they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Params(Vec<(String, Value)>);

impl Params {
    /// No parameters.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The same parameters with `name` set to `value`: replaced where it stands, else appended.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets `name` to `value`: replaced where it stands, else appended.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some((_, v)) => *v = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The number under `name`; `None` where it is missing or a word.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Int(n) => Some(*n),
            Value::Text(_) => None,
        }
    }

    /// The word under `name`; `None` where it is missing or a number.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(s) => Some(s),
            Value::Int(_) => None,
        }
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v))
    }

    /// Whether every value of `wanted` is here, and no [optional](OPTIONAL) one that it does not name.
    #[must_use]
    pub fn matches(&self, wanted: &Self) -> bool {
        wanted.iter().all(|(n, v)| self.get(n) == Some(v)) && self.has_only_what(|n| wanted.get(n).is_some())
    }

    /// Whether every [optional](OPTIONAL) parameter that is here is one of those that are `named`.
    pub fn has_only_what(&self, named: impl Fn(&str) -> bool) -> bool {
        OPTIONAL.into_iter().all(|n| self.get(n).is_none() || named(n))
    }

    /// The id of the case of `experiment` with these parameters, `experiment/a=1,b=2`.
    #[must_use]
    pub fn case_id(&self, experiment: &str) -> String {
        format!("{experiment}/{self}")
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = Params;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of parameter names and values")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params, A::Error> {
                let mut params = Params::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    params.set(&name, value);
                }
                Ok(params)
            }
        }
        deserializer.deserialize_map(Ordered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_id_keeps_the_order_of_its_parameters() {
        let params = Params::new()
            .with("unit", "thread")
            .with("method", "pthread")
            .with("count", 10_000);
        assert_eq!(
            params.case_id("create"),
            "create/unit=thread,method=pthread,count=10000"
        );
    }

    #[test]
    fn json_keeps_order_and_types() {
        let params = Params::new().with("z", 1).with("a", "two");
        let json = serde_json::to_string(&params).unwrap();
        assert_eq!(json, r#"{"z":1,"a":"two"}"#);
        assert_eq!(serde_json::from_str::<Params>(&json).unwrap(), params);
        let refused = serde_json::from_str::<Params>("[1]").unwrap_err().to_string();
        assert!(
            refused.contains("expected an object of parameter names and values"),
            "{refused}"
        );
    }

    #[test]
    fn a_number_is_no_word_and_a_word_no_number() {
        let params = Params::new().with("unit", "thread").with("cpus", 3);
        assert_eq!((params.int("cpus"), params.text("cpus")), (Some(3), None));
        assert_eq!((params.int("unit"), params.text("unit")), (None, Some("thread")));
        assert_eq!((params.int("count"), params.text("count")), (None, None));
    }

    #[test]
    fn matching_asks_only_for_what_is_wanted() {
        let params = Params::new().with("unit", "thread").with("cpus", 1);
        assert!(params.matches(&Params::new().with("cpus", 1)));
        assert!(!params.matches(&Params::new().with("cpus", 2)));
        assert!(!params.matches(&Params::new().with("payload", 2)));
    }

    #[test]
    fn a_case_with_an_optional_parameter_is_picked_by_who_names_it_alone() {
        let usual = Params::new().with("unit", "thread");
        for optional in OPTIONAL {
            let other = usual.clone().with(optional, "some");
            assert!(usual.matches(&usual) && other.matches(&other));
            assert!(!other.matches(&usual) && !other.matches(&Params::new()));
            assert!(!usual.matches(&other));
            assert!(other.matches(&Params::new().with(optional, "some")));
            assert!(!other.matches(&Params::new().with(optional, "another")));
        }
    }
}
