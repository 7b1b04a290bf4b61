//! A workload of mixed clients, as a TOML file says it: classes with weights, and commands before, beside and after.
//!
//! Mstone's files had the same parts: sections with weights, a pre-test, a post-test and monitors. What the classes do
//! is `crates/load`'s.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use threadgauge_lab::selection::nearest;
use threadgauge_load::{Behaviour, Class, ClientKind, Sizes, Span};
use toml::Spanned;

/// What a class has where its file does not say it.
const THINK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(100);
const EVERY: Duration = Duration::from_secs(1);
const SLOW_BYTES_PER_SECOND: f64 = 2_048.0;
const LARGE_BYTES: usize = 8 * 1024;
const GARBAGE_BYTES: usize = 256;
/// For how long a command may run where the file does not say it.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);

/// A file, with what it left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// By name.
    pub classes: Vec<Class>,
    /// Run one after the other before any client connects; one that fails ends the run.
    pub before: Vec<String>,
    /// Run beside the load and ended with it; what they say is kept.
    pub monitor: Vec<String>,
    /// Run one after the other when the load is over.
    pub after: Vec<String>,
    /// For how long each of `before` and `after` may run.
    pub command_timeout: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    before: Vec<String>,
    #[serde(default)]
    monitor: Vec<String>,
    #[serde(default)]
    after: Vec<String>,
    command_timeout: Option<Spanned<Time>>,
    think: Option<Time>,
    class: BTreeMap<String, Settings>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Fast,
    SlowReader,
    Impatient,
    Idle,
    Large,
    SlowLoris,
    Garbage,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    kind: Kind,
    weight: Option<Spanned<f64>>,
    think: Option<Spanned<Time>>,
    patience: Option<Spanned<Time>>,
    every: Option<Spanned<Time>>,
    bytes: Option<Spanned<Bytes>>,
    bytes_per_second: Option<Spanned<f64>>,
}

/// A time as on the command line, above nothing.
#[derive(Debug, Clone, Copy)]
struct Time(Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let Span(time) = text.parse().map_err(de::Error::custom)?;
        Ok(Self(time))
    }
}

/// Sizes as on the command line, or a number.
#[derive(Debug, Clone, Copy)]
struct Bytes(Sizes);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, as 8192, or sizes, as \"4096..16384\" or \"128:90,8192:10\"")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Bytes, E> {
                self.visit_str(&bytes.to_string())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map(Bytes).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Read)
    }
}

impl Workload {
    /// That of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read or holds something else: with line and, for an unknown word, the nearest known one.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no workload", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text).map_err(|error| anyhow!(fault(text, &error)))?;
        ensure!(
            !file.class.is_empty(),
            "it has no class: one begins with a line like [class.browser] and has a kind"
        );
        let command_timeout = plain(&file.command_timeout).map_or(COMMAND_TIMEOUT, |Time(time)| time);
        ensure!(
            !command_timeout.is_zero(),
            "line {}, `command-timeout`: without any time no command would end",
            line_of(text, start(&file.command_timeout).unwrap_or(0))
        );
        let think = file.think.map_or(THINK, |Time(think)| think);
        let class = |(name, settings): (String, Settings)| {
            let class = settings.class(&name, think);
            class.map_err(|(key, what)| {
                let at = settings.given().into_iter().find(|(name, _)| *name == key);
                let at = at.and_then(|(_, at)| at).unwrap_or(0);
                anyhow!("line {}, `{key}`: {what}", line_of(text, at))
            })
        };
        Ok(Self {
            classes: file.class.into_iter().map(class).collect::<Result<_>>()?,
            before: file.before,
            monitor: file.monitor,
            after: file.after,
            command_timeout,
        })
    }

    /// All of it, what was left out too, as it stands in results.
    pub fn json(&self) -> Value {
        json!({
            "classes": self.classes.iter().map(class_json).collect::<Vec<_>>(),
            "before": self.before,
            "monitor": self.monitor,
            "after": self.after,
            "command_timeout_s": self.command_timeout.as_secs_f64(),
        })
    }
}

impl Settings {
    /// The keys of all settings, and where in the file those that it has stand.
    fn given(&self) -> [(&'static str, Option<usize>); 6] {
        [
            ("weight", start(&self.weight)),
            ("think", start(&self.think)),
            ("patience", start(&self.patience)),
            ("every", start(&self.every)),
            ("bytes", start(&self.bytes)),
            ("bytes-per-second", start(&self.bytes_per_second)),
        ]
    }

    /// The class, or the key that is wrong and why.
    fn class(&self, name: &str, usual_think: Duration) -> Result<Class, (&'static str, String)> {
        let weight = plain(&self.weight).unwrap_or(1.0);
        if !(weight > 0.0 && weight <= 1e6) {
            return Err((
                "weight",
                format!("{weight} is no weight: it is above 0 and at most 1,000,000"),
            ));
        }
        let of = |time: &Option<Spanned<Time>>| plain(time).map(|Time(time)| time);
        let think = of(&self.think).unwrap_or(usual_think);
        let sizes = plain(&self.bytes).map(|Bytes(sizes)| sizes);
        let bytes = |usual: usize| sizes.unwrap_or(Sizes::from(usual));
        let (behaviour, takes): (Behaviour, &[&str]) = match self.kind {
            Kind::Fast => (Behaviour::Fast { think }, &["think"]),
            Kind::Large => (
                Behaviour::Large {
                    bytes: bytes(LARGE_BYTES),
                    think,
                },
                &["bytes", "think"],
            ),
            Kind::Impatient => (
                Behaviour::Impatient {
                    patience: of(&self.patience).unwrap_or(PATIENCE),
                    think,
                },
                &["patience", "think"],
            ),
            Kind::SlowReader => (
                Behaviour::SlowReader {
                    bytes_per_second: plain(&self.bytes_per_second).unwrap_or(SLOW_BYTES_PER_SECOND),
                    think,
                },
                &["bytes-per-second", "think"],
            ),
            Kind::Idle => (Behaviour::Idle, &[]),
            Kind::SlowLoris => (
                Behaviour::SlowLoris {
                    every: of(&self.every).unwrap_or(EVERY),
                },
                &["every"],
            ),
            Kind::Garbage => (
                Behaviour::Garbage {
                    bytes: bytes(GARBAGE_BYTES).most(),
                    think,
                },
                &["bytes", "think"],
            ),
        };
        let takes_not = |key: &str| key != "weight" && !takes.contains(&key);
        let wrong = self
            .given()
            .into_iter()
            .find(|(key, at)| at.is_some() && takes_not(key));
        if let Some((key, _)) = wrong {
            let takes = match takes {
                [] => "nothing but kind and weight".to_owned(),
                takes => takes.join(" and "),
            };
            return Err((key, format!("a class of this kind has {takes}")));
        }
        let is_zero = |time: &Option<Spanned<Time>>| of(time).is_some_and(|time| time.is_zero());
        if is_zero(&self.patience) {
            return Err((
                "patience",
                "without any, nothing would ever be answered".to_owned(),
            ));
        }
        if is_zero(&self.every) {
            return Err(("every", "a byte after no time is not slow".to_owned()));
        }
        let (least, most) = sizes.map_or((1, 1), |sizes| (sizes.least(), sizes.most()));
        if most > 16 << 20 {
            return Err(("bytes", format!("{most} are too many: it is from 1 to 16777216")));
        }
        if matches!(self.kind, Kind::Garbage) && least < most {
            return Err(("bytes", "garbage is all of one size, a number".to_owned()));
        }
        let rates = 1.0..=ClientKind::MOST_OF_A_SLOW_READER;
        if plain(&self.bytes_per_second).is_some_and(|bytes| !rates.contains(&bytes)) {
            return Err((
                "bytes-per-second",
                "it is from 1 to 10,000,000: who reads faster is `fast`".to_owned(),
            ));
        }
        Ok(Class {
            name: name.to_owned(),
            weight,
            behaviour,
        })
    }
}

/// Its kind's name, as in a file.
pub fn kind(behaviour: &Behaviour) -> &'static str {
    match behaviour {
        Behaviour::Fast { .. } => "fast",
        Behaviour::Large { .. } => "large",
        Behaviour::Impatient { .. } => "impatient",
        Behaviour::SlowReader { .. } => "slow-reader",
        Behaviour::Idle => "idle",
        Behaviour::SlowLoris { .. } => "slow-loris",
        Behaviour::Garbage { .. } => "garbage",
    }
}

fn class_json(class: &Class) -> Value {
    let mut all = json!({"name": class.name, "kind": kind(&class.behaviour), "weight": class.weight});
    let mut set = |key: &str, value: Value| all[key] = value;
    let seconds = |time: Duration| json!(time.as_secs_f64());
    match class.behaviour {
        Behaviour::Fast { think } => set("think_s", seconds(think)),
        Behaviour::Large { bytes, think } => {
            set("bytes", json!(bytes));
            set("think_s", seconds(think));
        }
        Behaviour::Garbage { bytes, think } => {
            set("bytes", json!(bytes));
            set("think_s", seconds(think));
        }
        Behaviour::Impatient { patience, think } => {
            set("patience_s", seconds(patience));
            set("think_s", seconds(think));
        }
        Behaviour::SlowReader {
            bytes_per_second,
            think,
        } => {
            set("bytes_per_second", json!(bytes_per_second));
            set("think_s", seconds(think));
        }
        Behaviour::Idle => {}
        Behaviour::SlowLoris { every } => set("every_s", seconds(every)),
    }
    all
}

/// What is wrong in a file, with its line and the nearest known word.
fn fault(text: &str, error: &toml::de::Error) -> String {
    let line = line_of(text, error.span().map_or(0, |span| span.start));
    let message = error.message();
    let suggestion = match message.starts_with("unknown ") {
        true => {
            let words: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
            let known: Vec<String> = words.iter().skip(1).map(|word| (*word).to_owned()).collect();
            nearest(&known, words.first().unwrap_or(&""))
        }
        false => String::new(),
    };
    format!("line {line}: {}{suggestion}", message.trim_end())
}

/// The line of a place in a file, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or("").matches('\n').count() + 1
}

fn start<T>(of: &Option<Spanned<T>>) -> Option<usize> {
    of.as_ref().map(|of| of.span().start)
}

fn plain<T: Copy>(of: &Option<Spanned<T>>) -> Option<T> {
    of.as_ref().map(|of| *of.get_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
before = ['true']
monitor = ['vmstat 1']
think = '20ms'

[class.browser]
kind = 'fast'
weight = 7

[class.modem]
kind = 'slow-reader'
bytes-per-second = 1000
think = '1s'

[class.crawler]
kind = 'idle'
";

    #[test]
    fn a_file_has_classes_and_commands_and_what_it_leaves_out_is_filled_in() {
        let workload = Workload::parse(WHOLE).unwrap();
        assert_eq!(
            (
                workload.before.len(),
                workload.monitor.len(),
                workload.after.len()
            ),
            (1, 1, 0)
        );
        let classes: Vec<_> = workload
            .classes
            .iter()
            .map(|class| (class.name.as_str(), class.weight))
            .collect();
        assert_eq!(classes, [("browser", 7.0), ("crawler", 1.0), ("modem", 1.0)]);
        let think = Duration::from_millis(20);
        assert_eq!(workload.classes[0].behaviour, Behaviour::Fast { think });
        assert_eq!(
            workload.json()["classes"][2],
            json!({"name": "modem", "kind": "slow-reader", "weight": 1.0, "bytes_per_second": 1000.0, "think_s": 1.0})
        );
    }

    #[test]
    fn every_kind_can_be_named() {
        for (kind_name, setting) in [
            ("fast", "think = '0s'"),
            ("large", "bytes = 100000"),
            ("large", "bytes = '100..5000'"),
            ("large", "bytes = '128:90,8192:10'"),
            ("impatient", "patience = '5ms'"),
            ("slow-reader", "bytes-per-second = 10"),
            ("idle", "weight = 0.5"),
            ("slow-loris", "every = '10s'"),
            ("garbage", "bytes = 1"),
        ] {
            let workload = Workload::parse(&format!("[class.x]\nkind = '{kind_name}'\n{setting}")).unwrap();
            assert_eq!(kind(&workload.classes[0].behaviour), kind_name);
        }
    }

    #[test]
    fn large_requests_have_8_kib_where_the_file_does_not_say_it() {
        let workload = Workload::parse("[class.x]\nkind = 'large'").unwrap();
        let usual = Behaviour::Large {
            bytes: 8_192.into(),
            think: THINK,
        };
        assert_eq!(workload.classes[0].behaviour, usual);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_the_nearest_word() {
        for (text, parts) in [
            (
                "monitors = ['x']\n[class.a]\nkind = 'fast'",
                &["line 1", "`monitors`", "did you mean `monitor`?"][..],
            ),
            (
                "[class.a]\nkind = 'fast'\nwieght = 3",
                &["line 3", "did you mean `weight`?"],
            ),
            (
                "[class.a]\nkind = 'imaptient'",
                &["line 2", "did you mean `impatient`?"],
            ),
            (
                "[class.a]\nkind = 'fast'\n\n[class.b]\nkind = 'idle'\nthink = '1s'",
                &["line 6, `think`", "nothing but"],
            ),
            (
                "[class.a]\nkind = 'fast'\nbytes = 3",
                &["line 3, `bytes`", "has think"],
            ),
            (
                "[class.a]\nkind = 'fast'\nthink = 'soon'",
                &["line 3", "`soon` is no length of time"],
            ),
            ("[class.a]\nweight = 1", &["line 1", "missing field `kind`"]),
            (
                "[class.a]\nkind = 'fast'\nweight = 0",
                &["line 3, `weight`", "above 0"],
            ),
            (
                "[class.a]\nkind = 'fast'\nweight = nan",
                &["line 3, `weight`", "above 0"],
            ),
            (
                "[class.a]\nkind = 'impatient'\npatience = '0s'",
                &["line 3, `patience`"],
            ),
            (
                "[class.a]\nkind = 'garbage'\nbytes = 0",
                &["line 3", "`0` is no size"],
            ),
            (
                "[class.a]\nkind = 'large'\nbytes = 17000000",
                &["line 3, `bytes`", "from 1 to"],
            ),
            (
                "[class.a]\nkind = 'large'\nbytes = '9..5'",
                &["line 3", "as in 5..9"],
            ),
            (
                "[class.a]\nkind = 'large'\nbytes = 1.5",
                &["line 3", "a number of bytes, as 8192"],
            ),
            (
                "[class.a]\nkind = 'garbage'\nbytes = '5..9'",
                &["line 3, `bytes`", "one size"],
            ),
            (
                "[class.a]\nkind = 'slow-reader'\nbytes-per-second = 0",
                &["line 3, `bytes-per-second`"],
            ),
            (
                "[class.ab]\nkind = 'fast'\nweight = 2\n\n[class.a]\nkind = 'fast'\nweight = 0",
                &["line 7, `weight`"],
            ),
            (
                "class.a.kind = 'fast'\nclass.\"b c\".kind = 'fast'\nclass.a.weight = 1\nclass.\"b c\".weight = 0",
                &["line 4, `weight`"],
            ),
            (
                "think = '1s'\ncommand-timeout = '0s'\n[class.a]\nkind = 'fast'",
                &["line 2, `command-timeout`"],
            ),
            ("class = {}", &["no class", "[class.browser]"]),
            ("", &["missing field `class`"]),
            ("[class.a]\nkind 'fast'", &["line 2"]),
        ] {
            let error = Workload::parse(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{text:?}: {part:?} is not in {error:?}");
            }
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = format!("{:#}", Workload::read(Path::new("/no/such.toml")).unwrap_err());
        assert!(error.contains("/no/such.toml"), "{error}");
    }
}
