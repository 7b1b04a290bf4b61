//! Quantities as a person types them: rates, shares, memory and lengths that differ.

use std::str::FromStr;

/// A time in words.
pub(crate) fn time(s: f64) -> String {
    threadgauge_results::units::with_unit(s * 1e9, None, "ns")
}

/// How often something happens, as a person says it: `50/s`, `1000/h`, `90/min`, `2k/s`; a bare number is a second's.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate {
    /// Times a second.
    pub per_second: f64,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no rate; it is a number and a time, as 50/s, 1000/h, 90/min or 2k/s are");
        let (number, per) = text.trim().split_once('/').unwrap_or((text.trim(), "s"));
        let per_s = match per.trim() {
            "s" | "sec" | "second" => 1.0,
            "m" | "min" | "minute" => 60.0,
            "h" | "hour" => 3_600.0,
            "d" | "day" => 86_400.0,
            _ => return Err(wrong()),
        };
        let per_second = number_of(number).ok_or_else(wrong)? / per_s;
        match per_second {
            rate if rate > 0.0 && rate <= 1e9 => Ok(Self { per_second }),
            0.0 => Err(format!("`{text}`: nothing would ever happen; as 50/s or 1000/h")),
            _ => Err(wrong()),
        }
    }
}

/// Times in which a rate is said, with their lengths, s.
static UNITS: [(&str, f64); 4] = [
    ("a second", 1.0),
    ("a minute", 60.0),
    ("an hour", 3_600.0),
    ("a day", 86_400.0),
];

impl Rate {
    /// From so many on a rate is well read in a unit: below, a fraction would matter.
    const WELL_READ: f64 = 20.0;

    /// So many of what a noun in the plural names: `16.7 tasks a minute`, `1 task a second`. In the unit in which it is
    /// at least 1, where there is one.
    #[must_use]
    pub fn of(self, nouns: &str) -> String {
        self.in_unit(self.first_unit(0.999_999_9), nouns)
    }

    /// The same in the unit in which `like` is well read, so that the two can be compared at a glance: beside
    /// 1000 an hour, twice as much is `2000 tasks an hour`.
    ///
    /// ```
    /// use threadgauge_advise::quantity::Rate;
    ///
    /// let [twice, own]: [Rate; 2] = ["2000/h", "1000/h"].map(|text| text.parse().unwrap());
    /// assert_eq!(twice.of("tasks"), "33.3 tasks a minute");
    /// assert_eq!(twice.of_like(own, "tasks"), "2000 tasks an hour");
    /// ```
    #[must_use]
    pub fn of_like(self, like: Self, nouns: &str) -> String {
        self.in_unit(like.first_unit(Self::WELL_READ), nouns)
    }

    /// The shortest unit in which it is at least so many; else the longest.
    fn first_unit(self, least: f64) -> (&'static str, f64) {
        let fits = UNITS.iter().find(|(_, s)| self.per_second * s >= least);
        *fits.unwrap_or(&UNITS[3])
    }

    fn in_unit(self, (unit, s): (&str, f64), nouns: &str) -> String {
        let number = short(self.per_second * s);
        let nouns = match &number[..] {
            "1" => nouns.trim_end_matches('s'),
            _ => nouns,
        };
        format!("{number} {nouns} {unit}")
    }
}

/// A part of a whole: `30%` or `0.3`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
            None => text.parse(),
        };
        match share {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err(format!("`{text}` is no share from 0 to 100 %, as 30% or 0.3 are")),
        }
    }
}

/// By how much tasks differ: `50%` is the standard deviation over the mean, 0 where all are alike. Above 1000 % nobody
/// can be advised.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Spread(pub f64);

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let spread = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
            None => text.parse(),
        };
        match spread {
            Ok(spread) if (0.0..=10.0).contains(&spread) => Ok(Self(spread)),
            _ => Err(format!(
                "`{text}` is no spread from 0 to 1000 %: it is the standard deviation over the mean, as 50% or 0.5 are"
            )),
        }
    }
}

/// Memory: `64MiB`, `2GiB`, `512k`; a bare number is bytes.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Bytes(pub f64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.to_ascii_lowercase();
        let power = match unit.trim_end_matches("ib").trim_end_matches('b') {
            "" => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            _ => return Err(wrong_bytes(text)),
        };
        match number.trim().parse::<f64>() {
            Ok(number) if number >= 0.0 && number.is_finite() => Ok(Self(number * 1024_f64.powi(power))),
            _ => Err(wrong_bytes(text)),
        }
    }
}

fn wrong_bytes(text: &str) -> String {
    format!("`{text}` is no amount of memory, as 64MiB, 2GiB or 512k are")
}

/// A number above 0, which may end in `k` or `M`: `500`, `5k`, `2M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub usize);

impl Count {
    /// More is not told apart from it.
    const MOST: f64 = 1e12;
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match number_of(text) {
            Some(number) if number >= 1.0 && number.fract() == 0.0 && number <= Self::MOST => {
                Ok(Self(number as usize))
            }
            Some(number) if number > Self::MOST => Err(format!(
                "`{text}` is too many: the most is 1,000,000M, a million millions"
            )),
            _ => Err(format!(
                "`{text}` is no whole number from 1 on, as 500, 5k or 2M are"
            )),
        }
    }
}

/// A number that may have thousands (`k`) or millions (`M`) and commas between groups.
fn number_of(text: &str) -> Option<f64> {
    let text = text.trim().replace(',', "");
    let (digits, times) = match text.chars().last() {
        Some('k') => (&text[..text.len() - 1], 1e3),
        Some('M') => (&text[..text.len() - 1], 1e6),
        _ => (&text[..], 1.0),
    };
    digits
        .parse::<f64>()
        .ok()
        .map(|number| number * times)
        .filter(|number| number.is_finite())
}

/// No more digits than it needs, up to three significant ones; whole numbers whole.
pub(crate) fn short(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1e3 {
        return threadgauge_results::units::count(value.round() as usize);
    }
    let text = format!("{value:.*}", if value >= 10.0 { 1 } else { 2 });
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_time() {
        let read = |text: &str| text.parse::<Rate>().map(|rate| rate.per_second);
        assert_eq!(read("50"), Ok(50.0));
        assert_eq!(read("1,800/h"), Ok(0.5));
        assert_eq!([read("90/min"), read("1.5/s")], [Ok(1.5), Ok(1.5)]);
        assert_eq!(read("2k/s"), Ok(2_000.0));
        for wrong in ["", "x", "5/x", "-1/s", "0/h", "nan", "1e99/s", "inf"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let shown = |text: &str| text.parse::<Rate>().unwrap().of("tasks");
        assert_eq!(shown("1000/h"), "16.7 tasks a minute");
        assert_eq!(
            [shown("2k/s"), shown("1/d")],
            ["2000 tasks a second", "1 task a day"]
        );
    }

    #[test]
    fn a_rate_beside_another_is_said_in_the_unit_of_that() {
        let read = |text: &str| text.parse::<Rate>().unwrap();
        let beside = |text: &str, like: &str| read(text).of_like(read(like), "tasks");
        assert_eq!(beside("2000/h", "1000/h"), "2000 tasks an hour");
        assert_eq!(beside("60/s", "40/s"), "60 tasks a second");
        assert_eq!(beside("10/s", "5/s"), "600 tasks a minute");
        assert_eq!(
            [beside("1/h", "1000/h"), beside("33/d", "1/d")],
            ["1 task an hour", "33 tasks a day"]
        );
    }

    #[test]
    fn shares_and_spreads_are_in_percent_or_of_one() {
        assert_eq!("30%".parse(), Ok(Share(0.3)));
        assert_eq!("0.3".parse(), Ok(Share(0.3)));
        assert!(
            ["101%", "-1", "x", ""]
                .iter()
                .all(|text| text.parse::<Share>().is_err())
        );
        assert_eq!(["150 %".parse(), "0".parse()], [Ok(Spread(1.5)), Ok(Spread(0.0))]);
        assert!(
            ["1001%", "-1%", "nan"]
                .iter()
                .all(|text| text.parse::<Spread>().is_err())
        );
    }

    #[test]
    fn memory_is_counted_in_powers_of_1024() {
        assert_eq!("64MiB".parse(), Ok(Bytes(67_108_864.0)));
        assert_eq!(
            ["2k".parse(), "2 KB".parse(), "2048".parse()],
            [const { Ok(Bytes(2_048.0)) }; 3]
        );
        assert!(
            ["", "MiB", "-1k", "5x", "nanM"]
                .iter()
                .all(|text| text.parse::<Bytes>().is_err())
        );
    }

    #[test]
    fn a_count_is_whole_and_above_nothing() {
        assert_eq!(
            ["5k".parse(), "5,000".parse(), "5000".parse()],
            [const { Ok(Count(5_000)) }; 3]
        );
        assert!(
            ["0", "-1", "1.5", "", "k", "1e13", "nan"]
                .iter()
                .all(|text| text.parse::<Count>().is_err())
        );
        let refused = |text: &str| text.parse::<Count>().unwrap_err();
        assert!(refused("99999999999999").contains("the most is 1,000,000M"));
        assert_eq!("1,000,000M".parse(), Ok(Count(1_000_000_000_000)));
        assert!(refused("0").contains("from 1 on"));
    }
}
