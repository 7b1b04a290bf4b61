//! Raw samples on demand: compact JSON in the page, made into a table when a case is opened.
//!
//! Values are rounded to six digits here to keep the page small; `samples.csv` has them in full.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html as markup};
use serde_json::{Value, json};
use threadgauge_results::{ExperimentResult, units};

use super::text::{clean, section_id};
use crate::cases::Cases;
use crate::{SampleRow, words};

/// A list of cases, each opening to its samples.
pub(super) fn section(e: &ExperimentResult, columns: &Cases<'_>, samples: &[SampleRow<'_>]) -> Markup {
    let rows: Vec<&SampleRow<'_>> = samples.iter().filter(|s| s.experiment == e.id).collect();
    if rows.is_empty() {
        return markup! { p.small { "No samples are stored for this experiment." } };
    }
    let id = section_id(&e.id);
    let data_id = format!("{id}-raw");
    let (data, cases) = pack(&rows);
    markup! {
        details.raw data-raw=(data_id) {
            summary {
                h4 id=(format!("{id}-samples")) {
                    "Raw samples of " (units::count(cases.len())) " " (words::plural(cases.len(), "case", "cases"))
                }
            }
            p.small { "Every value that was measured is in " code { "samples.csv" } "." }
            noscript { p.small { "Opening single cases below needs JavaScript; the file does not." } }
            @for (i, case) in cases.iter().enumerate() {
                details data-case=(i) { summary { (clean(&columns.short_id(case))) } }
            }
        }
        script type="application/json" id=(data_id) { (PreEscaped(data)) }
    }
}

/// `{"metrics": ["name, unit"], "cases": [[[round, copy, try, attempt, "status", "remark", values…]]]}` and the cases'
/// ids.
fn pack<'a>(rows: &[&SampleRow<'a>]) -> (String, Vec<&'a str>) {
    let mut metrics: Vec<String> = Vec::new();
    let mut index: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for row in rows.iter().filter(|r| !r.metric.is_empty()) {
        index.entry((row.metric, row.unit)).or_insert_with(|| {
            metrics.push(clean(&format!("{}, {}", row.metric, row.unit)));
            metrics.len() - 1
        });
    }
    let mut cases: Vec<&str> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut samples: Vec<BTreeMap<[u32; 4], Vec<Value>>> = Vec::new();
    for row in rows {
        let place = *places.entry(row.case).or_insert_with(|| {
            cases.push(row.case);
            samples.push(BTreeMap::new());
            cases.len() - 1
        });
        let sample = samples[place]
            .entry([row.round, row.copy, row.nth_try, row.attempt])
            .or_insert_with(|| {
                let remark = row
                    .reason
                    .map(str::to_owned)
                    .into_iter()
                    .chain(row.tags.iter().cloned());
                let remark = remark.collect::<Vec<_>>().join("; ");
                let head = json!([
                    row.round,
                    row.copy,
                    row.nth_try,
                    row.attempt,
                    words::status(row.status),
                    clean(&remark)
                ]);
                head.as_array().cloned().unwrap_or_default()
            });
        if let (Some(i), Some(value)) = (index.get(&(row.metric, row.unit)), row.value) {
            let at = 6 + i;
            if sample.len() <= at {
                sample.resize(at + 1, Value::Null);
            }
            sample[at] = number(value);
        }
    }
    let samples: Vec<Vec<Vec<Value>>> = samples
        .into_iter()
        .map(|by_round| by_round.into_values().collect())
        .collect();
    let text = json!({"metrics": metrics, "cases": samples}).to_string();
    // Nothing in it may end the script element or open another.
    (
        text.replace('<', "\\u003c")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029"),
        cases,
    )
}

/// Six significant digits, whole where it is whole.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return json!(value as i64);
    }
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_kept_and_whole_numbers_stay_whole() {
        assert_eq!(number(1_234.567_89).to_string(), "1234.57");
        assert_eq!(number(123_456_789.0).to_string(), "123456789");
        assert_eq!(number(f64::NAN).to_string(), "null");
    }
}
