//! A case: what shares how much work, in slices of which length, and how long a sample of it takes.
//!
//! Work and slices are counted in *steps* of the burner and not in time, so that every case and round does the same
//! work. Their names are in microseconds and seconds at a nominal rate; `slice_ns` is what a slice takes here.

use std::fmt;

use threadgauge_lab::point::{self, Parameter, Value};
use threadgauge_lab::prelude::*;

words! {
    /// What shares the work.
    pub(super) enum Unit { Thread = "thread", Process = "process" }
}

words! {
    /// What a unit does after a slice.
    pub(super) enum Mode {
        /// Yields the CPU.
        Yield = "yield",
        /// Continues: the control.
        Neither = "neither",
        /// Sleeps for 1 ms, as programs that wait for something do.
        Sleep = "sleep",
    }
}

/// Pieces of a sample in which units sleep after each piece. One unit alone then sleeps for a quarter of a second in
/// all.
const SLEEPING_PIECES: u64 = 256;

/// A number with up to seven decimals, as people write it: no zeros behind, none before but one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Decimal(u64);

impl Decimal {
    const DIGITS: usize = 7;
    const ONE: u64 = 10_u64.pow(Self::DIGITS as u32);

    /// So many millionths.
    pub(super) const fn millionths(n: u64) -> Self {
        Self(n * (Self::ONE / 1_000_000))
    }

    /// So many tenths of a millionth.
    pub(super) const fn tenths_of_millionths(n: u64) -> Self {
        Self(n)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / Self::ONE, self.0 % Self::ONE);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let rest = format!("{rest:0digits$}", digits = Self::DIGITS);
        write!(f, "{whole}.{}", rest.trim_end_matches('0'))
    }
}

impl Parameter for Decimal {
    fn value(&self) -> Value {
        Value::parse(&self.to_string())
    }

    fn read(value: &Value) -> Option<Self> {
        let read = match value {
            Value::Int(n) => Self(n.checked_mul(Self::ONE)?),
            Value::Text(text) => {
                let (whole, rest) = text.split_once('.')?;
                let rest: u64 = format!("{rest:0<digits$}", digits = Self::DIGITS).parse().ok()?;
                let whole: u64 = whole.parse().ok()?;
                Self(whole.checked_mul(Self::ONE)?.checked_add(rest)?)
            }
        };
        // What is written in another way would be another case of the same work.
        (Parameter::value(&read) == *value).then_some(read)
    }

    fn wanted() -> String {
        "a number, as 2 or 0.15".to_owned()
    }
}

/// The work between two moments at which a unit gives up the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slice {
    /// That at which two yielding threads on one CPU cost what the source published. Each sample finds it.
    Matched,
    /// So many nominal microseconds.
    Us(Decimal),
}

impl Slice {
    /// The slice of the switch itself: about as long as a switch.
    pub(super) const SHORT: Self = Self::tenths(16);
    const LEAST: Decimal = Decimal::millionths(100_000);
    const MOST: Decimal = Decimal::millionths(1_000_000_000_000);

    /// So many tenths of a microsecond.
    pub(super) const fn tenths(n: u64) -> Self {
        Self::Us(Decimal::millionths(n * 100_000))
    }

    /// So many microseconds.
    pub(super) const fn us(n: u64) -> Self {
        Self::tenths(n * 10)
    }

    /// Steps of the burner; none where they are found in the sample.
    pub(super) fn steps(self) -> Option<u64> {
        match self {
            Self::Matched => None,
            // 781.25 steps a microsecond.
            Self::Us(us) => Some((us.0 * 78_125 / (100 * Decimal::ONE)).max(1)),
        }
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matched => f.write_str("matched slice"),
            Self::Us(us) => write!(f, "{us} µs"),
        }
    }
}

impl Parameter for Slice {
    fn value(&self) -> Value {
        match self {
            Self::Matched => Value::from("matched"),
            Self::Us(us) => Parameter::value(us),
        }
    }

    fn read(value: &Value) -> Option<Self> {
        if Parameter::value(&Self::Matched) == *value {
            return Some(Self::Matched);
        }
        let us = <Decimal as Parameter>::read(value)?;
        (Self::LEAST <= us && us <= Self::MOST).then_some(Self::Us(us))
    }

    fn wanted() -> String {
        let (least, most) = (Self::LEAST, Self::MOST);
        format!("a number of microseconds from {least} to {most}, which is a second, or the word matched")
    }
}

/// The work of all units together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work(Decimal);

impl Work {
    const LEAST: Decimal = Decimal::millionths(1_000);
    const MOST: Decimal = Decimal::millionths(36_000_000_000);

    /// So many milliseconds.
    pub(super) const fn ms(n: u64) -> Self {
        Self(Decimal::millionths(n * 1_000))
    }

    pub(super) fn steps(self) -> u64 {
        // 781,250,000 a second.
        self.0.0 * 78_125 / (Decimal::ONE / 10_000)
    }
}

impl Parameter for Work {
    fn value(&self) -> Value {
        Parameter::value(&self.0)
    }

    fn read(value: &Value) -> Option<Self> {
        let seconds = <Decimal as Parameter>::read(value)?;
        (Self::LEAST <= seconds && seconds <= Self::MOST).then_some(Self(seconds))
    }

    fn wanted() -> String {
        let (least, most) = (Self::LEAST, Self::MOST);
        format!("a number of seconds from {least} to {most}, which is ten hours")
    }
}

point! {
    /// One case.
    pub(super) struct Case {
        unit: Unit,
        mode: Mode,
        count: u64 = 1..,
        cpus: u64 = 1..,
        /// The work between two yields.
        slice_us: Slice,
        /// The work of all units together, on one CPU.
        work_s: Work,
    }
}

impl Case {
    /// Reads a case that can be run.
    pub(super) fn to_run(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        let slice = case.slice_us.steps().filter(|_| case.mode != Mode::Sleep);
        if case.share() >= slice.unwrap_or(1) {
            return Ok(case);
        }
        let wanted = format!(
            "at least {:.7}, so that each of {} units has a slice of {}",
            case.count as f64 * slice.unwrap_or(1) as f64 / Work::ms(1_000).steps() as f64,
            case.count,
            case.slice_us
        );
        Err(point::refused(params, "work_s", &wanted))
    }

    /// Steps of each unit's share of the work.
    pub(super) fn share(self) -> u64 {
        self.work_s.steps() / self.count
    }

    /// Steps between two moments at which a unit gives up the CPU, given those of a slice.
    ///
    /// Sleeping units divide the same work into fewer, longer pieces, since one sleep a slice of one unit alone would
    /// add up to many seconds. There are 256 pieces in all, or one per unit where there are more units.
    pub(super) fn piece(self, slice: u64) -> u64 {
        let share = self.share();
        match self.mode {
            Mode::Yield | Mode::Neither => slice.clamp(1, share),
            Mode::Sleep => share.div_ceil((SLEEPING_PIECES / self.count).max(1)),
        }
    }

    /// What a sample takes on a quiet virtual machine with two CPUs, including the start of the worker.
    pub(super) fn estimate(self) -> Duration {
        const WORKER_US: f64 = 5_000.0;
        // What a step and a switch take there, and the matched slice.
        const STEP_NS: f64 = 1.32;
        const MATCHED_US: f64 = 100.0;
        const FINDING_IT_US: f64 = 40_000.0;
        let count = self.count as f64;
        let slice = self
            .slice_us
            .steps()
            .unwrap_or_else(|| Slice::us(MATCHED_US as u64).steps().unwrap_or(1));
        let pieces = count * self.share().div_ceil(self.piece(slice)) as f64;
        // The more units there are, the colder are a unit's stack and kernel data when it runs again.
        let piece_us = match self.mode {
            Mode::Neither | Mode::Sleep => count / 3_000.0,
            Mode::Yield if self.count <= self.cpus => 0.6,
            Mode::Yield => 1.5 + count.min(1_024.0) * 0.003,
        };
        // Several CPUs share the work well, but not the switching of a thousand units.
        let at_once = (self.cpus.min(self.count) as f64).max(1.0);
        let work_us =
            self.work_s.steps() as f64 * STEP_NS / 1_000.0 / at_once * if at_once > 1.0 { 1.1 } else { 1.0 };
        let switching_us = pieces * piece_us / if at_once > 1.0 { 1.2 } else { 1.0 };
        let sleeping_us = match self.mode {
            Mode::Sleep => pieces / count * 1_100.0,
            Mode::Yield | Mode::Neither => 0.0,
        };
        let start_and_end_us = match self.unit {
            Unit::Thread => 26.0 + count / 400.0,
            Unit::Process => 210.0,
        };
        let finding_us = match (self.mode, self.slice_us) {
            (Mode::Yield, Slice::Matched) => FINDING_IT_US,
            _ => 0.0,
        };
        let all_us = WORKER_US + work_us + switching_us + sleeping_us + count * start_and_end_us + finding_us;
        Duration::from_micros(all_us as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::planned;
    use super::*;

    const CASE: Case = Case {
        unit: Unit::Thread,
        mode: Mode::Yield,
        count: 64,
        cpus: 1,
        slice_us: Slice::SHORT,
        work_s: Work::ms(26),
    };

    fn with(name: &str, value: &str) -> Params {
        CASE.params().with(name, Value::parse(value))
    }

    #[test]
    fn slices_and_work_are_written_as_people_do_and_read_back() {
        assert_eq!(
            CASE.params().to_string(),
            "unit=thread,mode=yield,count=64,cpus=1,slice_us=1.6,work_s=0.026"
        );
        for (name, values) in [
            ("slice_us", &["matched", "1.6", "0.1", "50", "1000000"][..]),
            ("work_s", &["0.026", "0.0262144", "2", "10", "36000", "0.001"]),
        ] {
            for value in values {
                let case = Case::read(&with(name, value)).unwrap();
                assert_eq!(case.params(), with(name, value));
            }
        }
        assert_eq!(Slice::us(1_000).to_string(), "1000 µs");
    }

    #[test]
    fn steps_are_a_nominal_rate_whatever_the_machine() {
        assert_eq!(Slice::SHORT.steps(), Some(1_250));
        assert_eq!(Slice::us(1_000_000).steps(), Some(781_250_000));
        assert_eq!(Slice::Matched.steps(), None);
        assert_eq!(Work::ms(1_000).steps(), 781_250_000);
        assert_eq!(Work::ms(36_000_000).steps(), 36_000 * 781_250_000);
        // 16,384 slices of 1,250 steps, as runs had before slices had a length.
        let old = Case::read(&with("work_s", "0.0262144")).unwrap();
        assert_eq!(old.work_s.steps(), 16_384 * 1_250);
    }

    #[test]
    fn what_cannot_be_run_is_refused_in_words() {
        let of_slices =
            "a number of microseconds from 0.1 to 1000000, which is a second, or the word matched";
        let of_work = "a number of seconds from 0.001 to 36000, which is ten hours";
        for (name, value, wanted) in [
            ("slice_us", "0", of_slices),
            ("slice_us", "3600000000", of_slices),
            ("slice_us", "0.05", of_slices),
            ("slice_us", "1.60", of_slices),
            ("slice_us", "long", of_slices),
            ("slice_us", "0.12345678", of_slices),
            ("work_s", "0", of_work),
            ("work_s", "86400", of_work),
            ("work_s", "18446744073709551615", of_work),
            ("work_s", "some.", of_work),
            ("count", "0", "a number from 1 on"),
            (
                "slice_us",
                "1000",
                "at least 0.0640000, so that each of 64 units has a slice of 1000 µs",
            ),
        ] {
            let params = with(name, value);
            let says = Case::to_run(&params).unwrap_err().to_string();
            assert!(
                (planned(CASE).check)(&params).is_err(),
                "it is not planned either: {says}"
            );
            let (name, value) = match wanted.starts_with("at least") {
                true => ("work_s", "0.026"),
                false => (name, value),
            };
            assert_eq!(
                says,
                format!("the parameter {name} is {value}; it must be {wanted}")
            );
        }
        // Those that never give up the CPU, or sleep in pieces of their own, need no slice.
        let sleeping = Case::to_run(&with("slice_us", "1000").with("mode", "sleep"));
        assert!(sleeping.is_ok());
    }

    #[test]
    fn more_work_and_shorter_slices_take_longer() {
        let seconds = |slice_us, ms| {
            CASE.slice_us(slice_us)
                .work_s(Work::ms(ms))
                .estimate()
                .as_secs_f64()
        };
        let hours = seconds(Slice::us(50), 36_000_000) / 3_600.0;
        assert!((10.0..12.0).contains(&hours), "{hours}");
        assert!(seconds(Slice::SHORT, 1_000) > 1.8 * seconds(Slice::us(1_000), 1_000));
        assert!(seconds(Slice::Matched, 1_000) > 1.0);
    }
}
