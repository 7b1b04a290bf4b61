//! A length of time as a person types it: the one parser of them for every command.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;

/// A length of time as a person types it, up to a year: `500us`, `1.5ms`, `10s`, `1m30s` or `1d`; a bare number is
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    /// As good as for ever, and far from what a clock cannot add.
    const MOST: Duration = Duration::from_secs(365 * 86_400);

    pub(crate) fn of_ns(ns: f64) -> Self {
        Self(Duration::from_nanos(ns as u64))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        static PARSER: SpanParser = SpanParser::new();
        let time = match text.trim().parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            // Months and years have no length of their own.
            Err(_) => (PARSER.parse_span(text.trim()).ok())
                .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok())
                .and_then(|span| Duration::try_from(span).ok()),
        };
        time.filter(|time| *time <= Self::MOST).map(Self).ok_or_else(|| {
            format!("`{text}` is no length of time up to 365d, as 500us, 5ms, 10s, 1m30s or 1d are")
        })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match seconds {
            s if s >= 1.0 || s == 0.0 => write!(f, "{}s", trim(s)),
            s if s >= 1e-3 => write!(f, "{}ms", trim(1e3 * s)),
            s => write!(f, "{}us", trim(1e6 * s)),
        }
    }
}

/// No more digits than it needs, up to six.
pub(crate) fn trim(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_seconds_or_has_units_and_several_add_up() {
        let read = |text: &str| text.parse::<Span>().map(|span| span.0);
        assert_eq!(read("1500us"), Ok(Duration::from_micros(1500)));
        assert_eq!(read("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(read("0"), Ok(Duration::ZERO));
        assert_eq!(read("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(read("2m"), read("2min"));
        assert_eq!(read("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(read("1h 2m"), Ok(Duration::from_secs(3720)));
        assert_eq!(read("1d"), read("24h"));
        assert_eq!(read("365d"), Ok(Span::MOST));
        for wrong in [
            "", "s", "5x", "-1", "-1s", "nan", "inf", "1h30", "1mo", "366d", "1e99s",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for text in ["90s", "1.5ms", "250us", "0s", "86400s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }
}
