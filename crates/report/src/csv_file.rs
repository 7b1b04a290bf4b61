//! `samples.csv`: every raw value in full precision, one a row, for other tools.
//!
//! A column a parameter of the run, so that a table program can filter by it; empty where a case has none.

use std::io::Write;

use threadgauge_results::Value;

use crate::{ReportError, SampleRow, words};

const BEFORE: [&str; 2] = ["experiment", "case"];
const AFTER: [&str; 9] = [
    "round", "copy", "attempt", "status", "reason", "tags", "metric", "unit", "value",
];

/// Writes every raw value as a row of CSV, with a head: `experiment, case`, a column for each parameter
/// (`param_cpus`, …), `round, copy, attempt, status, reason, tags, metric, unit, value`. Tags are joined by spaces.
///
/// # Errors
/// When `out` refuses.
pub fn samples_csv(samples: &[SampleRow<'_>], out: impl Write) -> Result<(), ReportError> {
    let mut params: Vec<&str> = Vec::new();
    for (name, _) in samples.iter().flat_map(|s| s.params.iter()) {
        if !params.contains(&name) {
            params.push(name);
        }
    }
    let mut csv = csv::Writer::from_writer(out);
    let heads = params.iter().map(|p| format!("param_{p}"));
    let before = BEFORE.map(str::to_owned).into_iter();
    csv.write_record(before.chain(heads).chain(AFTER.map(str::to_owned)))?;
    for s in samples {
        csv.write_field(s.experiment)?;
        csv.write_field(s.case)?;
        for name in &params {
            csv.write_field(s.params.get(name).map(Value::to_string).unwrap_or_default())?;
        }
        csv.write_field(s.round.to_string())?;
        csv.write_field(s.copy.to_string())?;
        csv.write_field(s.attempt.to_string())?;
        csv.write_field(words::status(s.status))?;
        csv.write_field(s.reason.unwrap_or_default())?;
        csv.write_field(s.tags.join(" "))?;
        csv.write_field(s.metric)?;
        csv.write_field(s.unit)?;
        csv.write_field(s.value.map(|v| v.to_string()).unwrap_or_default())?;
        csv.write_record(None::<&[u8]>)?;
    }
    csv.flush()?;
    Ok(())
}
