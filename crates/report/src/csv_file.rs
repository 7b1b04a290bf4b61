//! `samples.csv`: every raw value in full precision, one a row, for other tools.
//!
//! A column a parameter of the run, so that a table program can filter by it; empty where a case has none.

use std::borrow::Cow;
use std::io::Write;

use threadgauge_results::outside::clean;
use threadgauge_results::{Figure, Origin, Value};

use crate::{ReportError, SampleRow, words};

/// The columns before the parameters, and what is in them.
const BEFORE: [(&str, &str); 2] = [
    ("experiment", "the experiment's name"),
    ("case", "the case: experiment/parameters"),
];
/// The columns after them.
const AFTER: [(&str, &str); 10] = [
    ("round", "which pass over all cases, from 1"),
    ("copy", "0, or 1 for the second copy of the reference case"),
    ("try", "which of the sample's tries, from 0"),
    (
        "attempt",
        "0, or counted up where a try was disturbed and repeated",
    ),
    (
        "status",
        "ok; failed: tried without success; skipped: cannot run here",
    ),
    ("reason", "why there is no value"),
    (
        "tags",
        "what is known about the try, e.g. disturbed; joined by spaces",
    ),
    ("metric", "what was measured"),
    ("unit", "of the value"),
    ("value", "the figure, with all of its digits"),
];
/// What stands before the name of a parameter in the head of its column.
const PARAMETER: &str = "param_";

/// The columns, and what is in each: one entry for all parameters.
pub(crate) fn meanings() -> Vec<(String, &'static str)> {
    let parameters = (
        format!("{PARAMETER}…"),
        "a parameter of the case; empty where it has none",
    );
    let named = |(name, meaning): (&str, &'static str)| (name.to_owned(), meaning);
    (BEFORE.map(named).into_iter())
        .chain([parameters])
        .chain(AFTER.map(named))
        .collect()
}

/// The table of raw values: its columns and rows, of which the CSV and the workbook are made.
pub(crate) struct Raw<'a> {
    params: Vec<&'a str>,
    samples: &'a [SampleRow<'a>],
}

/// A value of the table.
pub(crate) enum Field<'a> {
    Text(Cow<'a, str>),
    Whole(u64),
    Number(f64),
    Nothing,
}

impl<'a> Raw<'a> {
    pub fn of(samples: &'a [SampleRow<'a>]) -> Self {
        let mut params: Vec<&str> = Vec::new();
        for (name, _) in samples.iter().flat_map(|s| s.params.iter()) {
            if !params.contains(&name) {
                params.push(name);
            }
        }
        Self { params, samples }
    }

    pub fn heads(&self) -> Vec<String> {
        let name = |(name, _): (&str, &str)| name.to_owned();
        let params = self.params.iter().map(|p| clean(&format!("{PARAMETER}{p}")));
        (BEFORE.map(name).into_iter())
            .chain(params)
            .chain(AFTER.map(name))
            .collect()
    }

    /// The rows, each as long as the heads.
    pub fn rows(&self) -> impl Iterator<Item = Vec<Field<'a>>> {
        self.samples.iter().map(|s| self.row(s))
    }

    fn row(&self, s: &'a SampleRow<'a>) -> Vec<Field<'a>> {
        let text = |text: &'a str| Field::Text(Cow::Borrowed(text));
        let mut row = vec![text(s.experiment), text(s.case)];
        row.extend(self.params.iter().map(|name| match s.params.get(name) {
            Some(Value::Int(n)) => Field::Whole(*n),
            Some(Value::Text(word)) => text(word),
            None => Field::Nothing,
        }));
        row.extend([s.round, s.copy, s.nth_try, s.attempt].map(|n| Field::Whole(n.into())));
        row.extend([
            text(words::status(s.status)),
            text(s.reason.unwrap_or_default()),
            Field::Text(Cow::Owned(s.tags.join(" "))),
            text(s.metric),
            text(s.unit),
            s.value.map_or(Field::Nothing, Field::Number),
        ]);
        row
    }
}

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
    let raw = Raw::of(samples);
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(raw.heads())?;
    for row in raw.rows() {
        for field in row {
            csv.write_field(match field {
                Field::Text(of) => text(&of),
                Field::Whole(n) => n.to_string(),
                Field::Number(value) => value.to_string(),
                Field::Nothing => String::new(),
            })?;
        }
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
