//! `samples.csv`: every raw value in full precision, one a row, for other tools.
//!
//! A column a parameter of the run, so that a table program can filter by it; empty where a case has none.

use std::io::Write;

use threadgauge_results::outside::clean;
use threadgauge_results::{Figure, Origin, Value};

use crate::{ReportError, SampleRow, words};

const BEFORE: [&str; 2] = ["experiment", "case"];
const AFTER: [&str; 10] = [
    "round", "copy", "try", "attempt", "status", "reason", "tags", "metric", "unit", "value",
];

/// Writes every raw value as a row of CSV, with a head: `experiment, case`, a column for each parameter
/// (`param_cpus`, …), `round, copy, try, attempt, status, reason, tags, metric, unit, value`. Tags are joined by
/// spaces. Text that a spreadsheet would take for a formula (it begins with `=`, `+`, `-` or `@`) has `'` before it.
///
/// ```
/// use threadgauge_report::{SampleRow, samples_csv};
/// use threadgauge_results::{Params, Status};
///
/// let params = Params::new().with("cpus", 1);
/// let sample = SampleRow {
///     experiment: "create", case: "create/cpus=1", params: &params, round: 1, copy: 0, nth_try: 0, attempt: 0,
///     status: Status::Ok, reason: None, tags: &[], metric: "elapsed", unit: "ns", value: Some(12.5),
/// };
/// let mut out = Vec::new();
/// samples_csv(&[sample], &mut out)?;
/// assert!(String::from_utf8_lossy(&out).ends_with("create,create/cpus=1,1,1,0,0,0,ok,,,elapsed,ns,12.5\n"));
/// # Ok::<(), threadgauge_report::ReportError>(())
/// ```
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
    let heads = params.iter().map(|p| clean(&format!("param_{p}")));
    let before = BEFORE.map(str::to_owned).into_iter();
    csv.write_record(before.chain(heads).chain(AFTER.map(str::to_owned)))?;
    for s in samples {
        csv.write_field(text(s.experiment))?;
        csv.write_field(text(s.case))?;
        for name in &params {
            let value = s.params.get(name).map(Value::to_string);
            csv.write_field(text(&value.unwrap_or_default()))?;
        }
        csv.write_field(s.round.to_string())?;
        csv.write_field(s.copy.to_string())?;
        csv.write_field(s.nth_try.to_string())?;
        csv.write_field(s.attempt.to_string())?;
        csv.write_field(words::status(s.status))?;
        csv.write_field(text(s.reason.unwrap_or_default()))?;
        csv.write_field(text(&s.tags.join(" ")))?;
        csv.write_field(text(s.metric))?;
        csv.write_field(text(s.unit))?;
        csv.write_field(s.value.map(|v| v.to_string()).unwrap_or_default())?;
        csv.write_record(None::<&[u8]>)?;
    }
    csv.flush()?;
    Ok(())
}

/// Every point of a figure as a row of CSV, with a head.
pub(crate) fn figure_csv(figure: &Figure) -> Result<Vec<u8>, ReportError> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let [x, y] = [&figure.x, &figure.y].map(|axis| text(&axis.label));
    csv.write_record(["series", "of", &x, &y, "95 % from", "95 % to"])?;
    for series in &figure.series {
        let origin = match series.origin {
            Origin::Measured => "measured",
            Origin::Published => "published",
            Origin::Ideal => "theory",
        };
        for point in &series.points {
            let place = point.label.clone().unwrap_or_else(|| point.x.to_string());
            let ends = point.ci95.map(|ends| ends.map(|end| end.to_string()));
            let [low, high] = ends.unwrap_or_default();
            let place = if point.label.is_some() {
                text(&place)
            } else {
                place
            };
            csv.write_record([
                &text(&series.name),
                origin,
                &place,
                &point.y.to_string(),
                &low,
                &high,
            ])?;
        }
    }
    csv.into_inner().map_err(|error| error.into_error().into())
}

/// A cell that stays text.
fn text(text: &str) -> String {
    let text = clean(text);
    match text.trim_start().starts_with(['=', '+', '-', '@']) {
        true => format!("'{text}"),
        false => text,
    }
}
