//! One case, read from its parameters: what is printed, by whom, into what.

use threadgauge_results::{Params, Value};

use super::line::{LONGEST_PAYLOAD_BYTES, bytes_per_unit};
use threadgauge_lab::worker::CaseError;

/// A word of the grid: an enum with its names on the command line.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $word:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name { $($(#[$of])* $word),+ }

        impl $name {
            pub(super) const ALL: &[Self] = &[$(Self::$word),+];

            pub(super) const fn name(self) -> &'static str {
                match self { $(Self::$word => $text),+ }
            }

            fn read(params: &Params, key: &str) -> Result<Self, CaseError> {
                let given = params.text(key);
                Self::ALL.iter().copied().find(|word| Some(word.name()) == given).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|word| word.name()).collect();
                    refuse(params, key, &format!("use one of {}", known.join(", ")))
                })
            }
        }
    };
}

words! {
    /// Who prints.
    Unit {
        /// A child by fork, without another program.
        Process = "process",
        /// A POSIX thread with default attributes.
        Thread = "thread",
    }
}
words! {
    /// What is printed into.
    Sink {
        /// `/dev/null`: nobody reads.
        Null = "null",
        /// A pipe that a process reads to the end.
        Pipe = "pipe",
        /// A file in the page cache.
        File = "file",
        /// A pseudo-terminal whose other side a process reads to the end.
        Pty = "pty",
    }
}
words! {
    /// How lines become writes.
    Buffering {
        /// One write a line.
        Line = "line",
        /// Blocks of 4,096 bytes.
        Block = "block",
    }
}

/// One case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    pub unit: Unit,
    pub units: u64,
    pub prints: u64,
    pub payload_bytes: u64,
    pub sink: Sink,
    pub buffering: Buffering,
}

impl Setting {
    /// Reads a case.
    pub(super) fn read(params: &Params) -> Result<Self, CaseError> {
        Ok(Self {
            unit: Unit::read(params, "unit")?,
            units: number(params, "units", 1, 100_000)?,
            prints: number(params, "prints", 1, 10_000_000)?,
            payload_bytes: number(params, "payload_bytes", 1, LONGEST_PAYLOAD_BYTES)?,
            sink: Sink::read(params, "sink")?,
            buffering: Buffering::read(params, "buffering")?,
        })
    }

    /// As parameters, in the order of the case's id.
    pub(super) fn params(&self, cpus: u64) -> Params {
        Params::new()
            .with("unit", self.unit.name())
            .with("units", self.units)
            .with("prints", self.prints)
            .with("payload_bytes", self.payload_bytes)
            .with("sink", self.sink.name())
            .with("buffering", self.buffering.name())
            .with("cpus", cpus)
    }

    /// All lines of all units.
    pub(super) const fn lines(&self) -> u64 {
        self.units * self.prints
    }

    /// All bytes of all units.
    pub(super) fn bytes(&self) -> u64 {
        self.units * bytes_per_unit(self.payload_bytes, self.prints)
    }

    /// Whether a line is one write, or reaches the sink as if it were: through one buffer in order.
    pub(super) fn lines_stay_whole(&self) -> bool {
        self.buffering == Buffering::Line || self.unit == Unit::Thread
    }
}

fn number(params: &Params, key: &str, least: u64, most: u64) -> Result<u64, CaseError> {
    params
        .int(key)
        .filter(|n| (least..=most).contains(n))
        .ok_or_else(|| refuse(params, key, &format!("use a number from {least} to {most}")))
}

fn refuse(params: &Params, key: &str, hint: &str) -> CaseError {
    let given = params
        .get(key)
        .map_or_else(|| "missing".to_owned(), Value::to_string);
    CaseError::Failed(format!("print: the parameter {key} is {given}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::compat::params;

    const CASE: &str = "unit=thread,units=255,prints=100,payload_bytes=11,sink=pipe,buffering=line,cpus=1";

    #[test]
    fn a_case_survives_the_way_there_and_back() {
        let setting = Setting::read(&params(CASE)).unwrap();
        assert_eq!(setting.params(1), params(CASE));
        assert_eq!(setting.lines(), 25_500);
        assert_eq!(setting.bytes(), 255 * (10 * 15 + 90 * 16));
    }

    #[test]
    fn what_cannot_be_printed_is_refused_in_words() {
        for (key, value, says) in [
            (
                "unit",
                "fiber",
                "the parameter unit is fiber; use one of process, thread",
            ),
            ("sink", "lp0", "use one of null, pipe, file, pty"),
            ("buffering", "none", "use one of line, block"),
            (
                "units",
                "0",
                "the parameter units is 0; use a number from 1 to 100000",
            ),
            ("prints", "many", "the parameter prints is many"),
            ("payload_bytes", "481", "use a number from 1 to 480"),
        ] {
            let mut case = params(CASE);
            case.set(key, Value::parse(value));
            let error = Setting::read(&case).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let missing = Setting::read(&Params::new()).unwrap_err().to_string();
        assert!(missing.contains("unit is missing"), "{missing}");
    }
}
