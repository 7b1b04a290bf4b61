//! How a number is written, everywhere: one rule for the page, the Markdown and the terminal.
//!
//! Three significant digits; an interval in the unit, and to the decimals, of its median; one unit
//! for a whole column where cells are compared. Leaves out rounding for storage: `results.json`
//! and the CSV hold full numbers, and so do the cells of the workbook, which show three digits.

/// Groups the digits of large numbers; it is narrow and no line breaks at it.
const THIN: char = '\u{202f}';

use crate::outside::clean;

/// What a unit's numbers are printed in: a divisor and a name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale<'a> {
    /// One of the printed unit, in the stored one.
    pub per: f64,
    /// As printed; empty for a plain number.
    pub name: &'a str,
    kind: Kind,
}

/// Which digits a number deserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Three significant digits.
    Quantity,
    /// Two decimals, as ratios are read.
    Ratio,
    /// Whole where it is whole.
    Count,
}

const TIMES: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
const BYTES: [(f64, &str); 4] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
];
const THOUSANDS: [(f64, &str); 2] = [(1.0, "thousand"), (1e3, "million")];
const MESSAGES: [(f64, &str); 2] = [(1.0, "thousand messages/s"), (1e3, "million messages/s")];

impl<'a> Scale<'a> {
    /// The scale for one figure.
    pub fn of(unit: &'a str, value: f64) -> Self {
        Self::of_column(unit, [value])
    }

    /// One scale for figures that are read together: the largest unit in which the smallest of
    /// them is at least 1.
    pub fn of_column(unit: &'a str, values: impl IntoIterator<Item = f64>) -> Self {
        let smallest = values
            .into_iter()
            .map(f64::abs)
            .filter(|v| v.is_finite() && *v > 0.0)
            .reduce(f64::min);
        let pick = |ladder: &'static [(f64, &'static str)], base: f64, least: f64| {
            let smallest = smallest.unwrap_or(0.0) * base;
            let fits = ladder.iter().rev().find(|(per, _)| smallest >= per * least);
            let (per, name) = fits.unwrap_or(&ladder[0]);
            Self {
                per: per / base,
                name,
                kind: Kind::Quantity,
            }
        };
        let plain = |name, kind| Self { per: 1.0, name, kind };
        match unit {
            "ns" => pick(&TIMES, 1.0, 0.9995),
            "us" | "µs" => pick(&TIMES, 1e3, 0.9995),
            "ms" => pick(&TIMES, 1e6, 0.9995),
            "s" => pick(&TIMES, 1e9, 0.9995),
            "bytes" | "byte" | "B" => pick(&BYTES, 1.0, 1.0),
            "thousand" => pick(&THOUSANDS, 1.0, 0.9995),
            "thousand messages/s" => pick(&MESSAGES, 1.0, 0.9995),
            "ratio" | "" => plain("", Kind::Ratio),
            // Parts of a whole, and what something is more than a whole: people say both in per cent.
            "share" | "gain" | "overhead" | "slowdown" | "difference" => Self {
                per: 0.01,
                name: "%",
                kind: Kind::Quantity,
            },
            "percent" | "%" => plain("%", Kind::Quantity),
            "count" => plain("", Kind::Count),
            other => plain(other, Kind::Count),
        }
    }

    /// The number alone.
    pub fn number(&self, value: f64) -> String {
        let (value, decimals) = self.shown(value);
        fixed(value, decimals)
    }

    /// The number in this unit, and to how many decimals it is written.
    pub fn shown(&self, value: f64) -> (f64, usize) {
        let value = value / self.per;
        (value, self.decimals(value))
    }

    /// The number with its unit.
    pub fn quantity(&self, value: f64) -> String {
        self.named(self.number(value))
    }

    /// Bounds that somebody set, joined by "to", with no more digits than they need: `0 to 180 µs`, `−5 to 12 %`.
    /// The name of a plain number, such as `computations`, is left out.
    pub fn bounds(unit: &str, bounds: &[f64]) -> String {
        let scale = Scale::of_column(unit, bounds.iter().copied());
        let numbers: Vec<String> = bounds.iter().map(|bound| trimmed(bound / scale.per)).collect();
        let text = numbers.join(" to ");
        if scale.kind == Kind::Quantity {
            scale.named(text)
        } else {
            text
        }
    }

    /// The number that stands beside its interval: no finer than the interval makes sense of.
    pub fn number_beside(&self, median: f64, ci95: Option<[f64; 2]>) -> String {
        fixed(median / self.per, self.shared_decimals(median, ci95))
    }

    /// The number that stands beside its interval, with its unit.
    pub fn quantity_beside(&self, median: f64, ci95: Option<[f64; 2]>) -> String {
        self.named(self.number_beside(median, ci95))
    }

    /// The interval alone, to the decimals of its median: `[12.1, 12.8]`.
    pub fn interval(&self, median: f64, ci95: [f64; 2]) -> String {
        let decimals = self.shared_decimals(median, Some(ci95));
        let [low, high] = ci95.map(|v| fixed(v / self.per, decimals));
        format!("[{low}, {high}]")
    }

    /// Those of the median; more, within reason, where an interval that is not empty would look empty.
    fn shared_decimals(&self, median: f64, ci95: Option<[f64; 2]>) -> usize {
        let mut decimals = self.own_decimals(median, ci95);
        let Some([low, high]) = ci95.map(|ends| ends.map(|end| end / self.per)) else {
            return decimals;
        };
        while low < high && decimals < 4 && fixed(low, decimals) == fixed(high, decimals) {
            decimals += 1;
        }
        decimals
    }

    /// Three digits of the median, but for one near zero in a wide interval: its digits are noise.
    fn own_decimals(&self, median: f64, ci95: Option<[f64; 2]>) -> usize {
        let of_median = self.decimals(median / self.per);
        let Some(ci) = ci95 else { return of_median };
        let widest = ci.into_iter().map(f64::abs).fold(median.abs(), f64::max);
        let of_widest = if widest.is_finite() {
            significant(widest / self.per)
        } else {
            0
        };
        let of_median = if median == 0.0 { of_widest } else { of_median };
        of_median.min(of_widest + 1)
    }

    /// Median, interval and unit: `12.4 [12.1, 12.8] µs`.
    pub fn estimate(&self, median: f64, ci95: Option<[f64; 2]>) -> String {
        self.named(self.estimate_number(median, ci95))
    }

    /// Median and interval without the unit, for a column whose head has it.
    pub fn estimate_number(&self, median: f64, ci95: Option<[f64; 2]>) -> String {
        match ci95 {
            Some(ci) => format!(
                "{} {}",
                self.number_beside(median, ci95),
                self.interval(median, ci)
            ),
            None => self.number(median),
        }
    }

    /// Median and the wider half of its interval in percent, where space is short: `12.4 ±3 %`.
    pub fn estimate_short(&self, median: f64, ci95: Option<[f64; 2]>) -> String {
        match ci95.and_then(|ci| half_width(median, ci)) {
            Some(half) => format!("{} ±{}", self.number(median), percent(half)),
            None => self.number(median),
        }
    }

    fn named(&self, number: String) -> String {
        if self.name.is_empty() {
            number
        } else {
            format!("{number} {}", clean(self.name))
        }
    }

    fn decimals(&self, value: f64) -> usize {
        match self.kind {
            Kind::Quantity => significant(value),
            Kind::Ratio if value.abs() < 0.095 => significant(value),
            Kind::Ratio => significant(value).min(2),
            Kind::Count if value.fract() == 0.0 => 0,
            Kind::Count => significant(value),
        }
    }
}

/// A figure with its interval and unit, in the unit that suits it.
///
/// ```
/// let text = threadgauge_results::units::with_unit(12_430.0, Some([12_100.0, 12_800.0]), "ns");
/// assert_eq!(text, "12.4 [12.1, 12.8] µs");
/// ```
#[must_use]
pub fn with_unit(value: f64, ci95: Option<[f64; 2]>, unit: &str) -> String {
    Scale::of(unit, value).estimate(value, ci95)
}

/// A number that somebody published, to its own digits: `134.127`.
#[must_use]
pub fn published(value: f64) -> String {
    trimmed(value)
}

/// A share of 1 in percent: `1.23 %`, and `0 %` for nothing.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    let decimals = if value.abs() >= 9.95 {
        0
    } else {
        usize::from(value != 0.0)
    };
    format!("{} %", fixed(value, decimals))
}

/// The label of a tick: no more digits than it needs, powers of ten where there are many.
pub fn tick(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-3..1e6).contains(&magnitude) {
        let exponent = (magnitude.log10() + 1e-9).floor();
        let mantissa = magnitude / 10f64.powf(exponent);
        let sign = if value < 0.0 { "−" } else { "" };
        let power: String = format!("{exponent}").chars().map(superscript).collect();
        let mantissa = trimmed(mantissa);
        return if mantissa == "1" {
            format!("{sign}10{power}")
        } else {
            format!("{sign}{mantissa}·10{power}")
        };
    }
    trimmed(value)
}

/// Up to four decimals, without the zeros at the end.
fn trimmed(value: f64) -> String {
    let text = fixed(value, 4);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn superscript(c: char) -> char {
    match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0' | '4'..='9' => char::from_u32(0x2070 + u32::from(c) - u32::from('0')).unwrap_or(c),
        other => other,
    }
}

/// A whole number with its digits grouped.
pub fn count(n: usize) -> String {
    group(&n.to_string())
}

/// *One CPU*, *2 CPUs*.
#[must_use]
pub fn of_cpus(n: u64) -> String {
    match n {
        1 => "one CPU".to_owned(),
        n => counted(n as usize, "CPU"),
    }
}

/// So many of what a noun names: `1 case`, `2 cases`, `3 processes`, `4 tries`.
///
/// ```
/// use threadgauge_results::units::counted;
///
/// assert_eq!([counted(1, "case"), counted(0, "case")], ["1 case", "0 cases"]);
/// assert_eq!([counted(2, "process"), counted(3, "try")], ["2 processes", "3 tries"]);
/// assert_eq!(counted(2, "switch"), "2 switches");
/// ```
pub fn counted(n: usize, noun: &str) -> String {
    let nouns = match noun {
        _ if n == 1 => noun.to_owned(),
        _ if ["s", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        _ => noun
            .strip_suffix('y')
            .map_or_else(|| format!("{noun}s"), |stem| format!("{stem}ies")),
    };
    format!("{} {nouns}", count(n))
}

/// The head of a metric's column: `ns_per_unit` reads `time per unit`.
pub fn metric_name(metric: &str) -> String {
    let name = match metric.strip_prefix("ns_per_") {
        Some(rest) => format!("time per {rest}"),
        None => metric.replace("_ns_per_", "_time_per_"),
    };
    let name = name.strip_suffix("_ns").map(str::to_owned).unwrap_or(name);
    let name = name.replace("_ns_", "_");
    clean(&name).replace('_', " ").replace("cpu ", "CPU ")
}

/// The wider half of an interval, relative to its median.
fn half_width(median: f64, [low, high]: [f64; 2]) -> Option<f64> {
    let half = (high - median).max(median - low) / median.abs();
    half.is_finite().then_some(half)
}

/// Decimals that leave three significant digits.
fn significant(value: f64) -> usize {
    let magnitude = value.abs();
    if !magnitude.is_finite() || magnitude == 0.0 {
        return 0;
    }
    // 99.95 and not 100, because rounding carries: 9.996 is 10.0, not 10.00.
    let (mut decimals, mut shown) = (0, magnitude);
    while shown < 99.95 && decimals < 12 {
        shown *= 10.0;
        decimals += 1;
    }
    decimals
}

fn fixed(value: f64, decimals: usize) -> String {
    if value.is_nan() {
        return "not a number".to_owned();
    }
    if value.is_infinite() {
        return if value.is_sign_positive() { "∞" } else { "−∞" }.to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let negative = value < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b));
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut out = if negative { "−".to_owned() } else { String::new() };
    out.push_str(&group(whole));
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Thin separators between groups of three, from five digits on: `8192` needs none.
fn group(digits: &str) -> String {
    if digits.len() < 5 {
        return digits.to_owned();
    }
    let mut out = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thousands_become_millions_where_there_are_so_many() {
        for (unit, value, says) in [
            ("thousand", 672.4, "672 thousand"),
            ("thousand", 999.4, "999 thousand"),
            ("thousand", 13_425.0, "13.4 million"),
            ("thousand messages/s", 1000.0, "1.00 million messages/s"),
        ] {
            assert_eq!(with_unit(value, None, unit), says);
        }
        let interval = Some([10_716.0, 17_773.0]);
        assert_eq!(
            with_unit(13_472.0, interval, "thousand"),
            "13.5 [10.7, 17.8] million"
        );
    }

    #[test]
    fn times_are_printed_in_the_unit_that_suits_them() {
        assert_eq!(
            with_unit(12_430.0, Some([12_100.0, 12_800.0]), "ns"),
            "12.4 [12.1, 12.8] µs"
        );
        assert_eq!(with_unit(999.6, None, "ns"), "1.00 µs");
        assert_eq!(with_unit(32.0e6, None, "ns"), "32.0 ms");
        assert_eq!(with_unit(2.0, None, "s"), "2.00 s");
        assert_eq!(with_unit(0.0, None, "ns"), "0 ns");
    }

    #[test]
    fn the_smallest_figure_that_is_one_has_the_unit_of_its_column() {
        let name = |values: &[f64]| Scale::of_column("ns", values.iter().copied()).name;
        assert_eq!(name(&[0.0, 5e9, -5e3, f64::NEG_INFINITY, f64::NAN]), "µs");
        assert_eq!(name(&[0.0]), "ns");
        // A time that three digits would round to the next unit has that.
        assert_eq!([999.4, 999.6].map(|ns| name(&[ns])), ["ns", "µs"]);
        assert_eq!(Scale::of("bytes", 1023.9).name, "B");
        for (unit, quantity) in [
            ("us", "2.50 ms"),
            ("ms", "2.50 s"),
            ("B", "2.44 KiB"),
            ("switches", "2500 switches"),
        ] {
            assert_eq!(Scale::of(unit, 2_500.0).quantity(2_500.0), quantity);
        }
    }

    #[test]
    fn ratios_have_two_decimals_and_small_ones_keep_their_digits() {
        assert_eq!(with_unit(1.0, Some([0.994, 1.006]), "ratio"), "1.00 [0.99, 1.01]");
        assert_eq!(with_unit(13.1, None, "ratio"), "13.1");
        assert_eq!(with_unit(0.001_234, None, "ratio"), "0.00123");
    }

    #[test]
    fn counts_are_grouped_and_stay_whole() {
        assert_eq!(with_unit(123_456.0, None, "switches"), "123\u{202f}456 switches");
        assert_eq!(with_unit(8192.0, None, "count"), "8192");
        assert_eq!(with_unit(2.5, None, "lines"), "2.50 lines");
    }

    #[test]
    fn shares_are_percents_and_bytes_are_binary() {
        assert_eq!(with_unit(0.123, None, "share"), "12.3 %");
        assert_eq!(with_unit(1_572_864.0, None, "bytes"), "1.50 MiB");
        assert_eq!(percent(0.0321), "3.2 %");
        assert_eq!(percent(0.321), "32 %");
    }

    #[test]
    fn negative_numbers_have_a_minus_and_zero_has_none() {
        assert_eq!(with_unit(-0.0231, None, "share"), "−2.31 %");
        assert_eq!(
            Scale::of("ratio", 1.0).interval(1.0, [-0.001, 1.0]),
            "[0.00, 1.00]"
        );
    }

    #[test]
    fn a_median_lost_in_its_interval_has_no_digits_to_spare() {
        assert_eq!(
            with_unit(0.001_3, Some([-3.809, 2.9]), "%"),
            "0.001 [−3.809, 2.900] %"
        );
        assert_eq!(with_unit(0.0, Some([0.0, 0.0]), "units"), "0 [0, 0] units");
        assert_eq!(with_unit(92.3, Some([89.9, 103.1]), "%"), "92.3 [89.9, 103.1] %");
    }

    #[test]
    fn a_narrow_interval_does_not_look_empty() {
        assert_eq!(
            Scale::of("ns", 12.4).interval(12.4, [12.41, 12.43]),
            "[12.41, 12.43]"
        );
        // Within reason: to four decimals. One that is empty may look so.
        let of = |ends| Scale::of("ns", 12.4).interval(12.4, ends);
        assert_eq!(of([12.400_01, 12.400_02]), "[12.4000, 12.4000]");
        assert_eq!(of([12.4, 12.4]), "[12.4, 12.4]");
    }

    #[test]
    fn where_space_is_short_the_wider_half_of_an_interval_is_said() {
        let short = |value: f64, ci| Scale::of("ns", value).estimate_short(value, ci);
        assert_eq!(short(12_400.0, Some([12_000.0, 13_020.0])), "12.4 ±5.0 %");
        assert_eq!(short(-12_400.0, Some([-13_640.0, -12_000.0])), "−12.4 ±10 %");
        assert_eq!(short(0.0, Some([-1.0, 1.0])), "0");
        assert_eq!(short(12_400.0, None), "12.4");
    }

    #[test]
    fn what_is_no_finite_number_says_so() {
        let texts = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(published);
        assert_eq!(texts, ["∞", "−∞", "not a number"]);
    }

    #[test]
    fn a_tick_has_no_more_digits_than_it_needs() {
        let ticks = [0.0, 0.5, 1.0, 8192.0, 50_000.0, 1e6, 2e9, 1e-5, -20.0, -3e7];
        let texts = ticks.map(tick);
        assert_eq!(
            texts,
            [
                "0",
                "0.5",
                "1",
                "8192",
                "50\u{202f}000",
                "10⁶",
                "2·10⁹",
                "10⁻⁵",
                "−20",
                "−3·10⁷"
            ]
        );
    }

    #[test]
    fn a_metric_reads_as_words() {
        assert_eq!(metric_name("ns_per_unit"), "time per unit");
        assert_eq!(metric_name("cpu_ns_per_unit"), "CPU time per unit");
        assert_eq!(metric_name("elapsed"), "elapsed");
        assert_eq!(metric_name("worker_start_ns"), "worker start");
        assert_eq!(metric_name("create_ns_median"), "create median");
    }

    fn read(text: &str) -> f64 {
        text.replace(THIN, "").replace('−', "-").parse().unwrap()
    }

    proptest! {
        #[test]
        fn a_printed_number_is_within_its_last_digit(value in 1e-3f64..1e15, unit in prop::sample::select(vec!["ns", "ratio", "share", "bytes", "switches"])) {
            let scale = Scale::of(unit, value);
            let printed = read(&scale.number(value)) * scale.per;
            prop_assert!((printed / value - 1.0).abs() <= 0.0051, "{value} {unit} was printed as {printed}");
        }

        #[test]
        fn a_time_shows_three_significant_digits(value in 1.0f64..1e12) {
            let text = Scale::of("ns", value).number(value);
            let digits = text.chars().filter(char::is_ascii_digit).count();
            prop_assert!(digits >= 3, "{text}");
            prop_assert!(value >= 999.5e9 || digits == 3, "{text}");
        }

        #[test]
        fn grouping_loses_nothing(n in 0usize..usize::MAX) {
            prop_assert_eq!(count(n).replace(THIN, ""), n.to_string());
        }

        #[test]
        fn an_interval_stays_in_order(median in 1.0f64..1e9, below in 0.0f64..0.5, above in 0.0f64..2.0) {
            let ci = [median * (1.0 - below), median * (1.0 + above)];
            let text = Scale::of("ns", median).interval(median, ci);
            let (low, high) = text.trim_matches(['[', ']']).split_once(", ").unwrap();
            prop_assert!(read(low) <= read(high), "{text}");
        }

        #[test]
        fn nothing_makes_it_panic(value in any::<f64>(), low in any::<f64>(), high in any::<f64>(), unit in ".{0,8}") {
            let text = with_unit(value, Some([low, high]), &unit);
            prop_assert!(!text.is_empty());
        }
    }
}
