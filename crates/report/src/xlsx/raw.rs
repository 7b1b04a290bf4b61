//! Two sheets without any rounding: what each case comes to, and every raw value. In the stored units, because other
//! programs go on with them.

use std::borrow::Cow;

use rust_xlsxwriter::{Format, FormatBorder, Worksheet, XlsxError};
use threadgauge_results::Results;

use super::page::{Look, MARGIN, clip, pixels};
use crate::csv_file::{Field, Raw};
use crate::words;

/// The most rows a sheet may have.
pub(super) const ROWS: u32 = 1_048_576;
/// The widest column, pixels: such a sheet may be wider than a screen.
const WIDEST: u32 = 600;
/// A digit, pixels.
const DIGIT: u32 = 7;
/// The widest letter, pixels.
const WIDE: u32 = 13;
/// The button that filters, pixels.
const BUTTON: u32 = 20;

/// The columns of the summaries, and what is in them.
pub(super) const SUMMARIES: [(&str, &str); 17] = [
    ("experiment", "the experiment's name"),
    ("case", "the case: experiment/parameters"),
    (
        "status",
        "ok; failed: tried without success; skipped: cannot run here",
    ),
    ("metric", "what was measured"),
    (
        "unit",
        "of the figures to the right of it, but for the level and the CV",
    ),
    ("rounds", "rounds with a value"),
    ("median", "over the rounds: the figure to quote"),
    ("low", "the low end of the median's interval"),
    ("high", "its high end"),
    ("level", "the exact level of the interval, e.g. 0.984"),
    ("mean", "arithmetic mean"),
    ("trimmed mean", "mean without the largest and the smallest value"),
    ("min", "the smallest value"),
    ("max", "the largest value"),
    ("CV", "standard deviation over mean"),
    ("reason", "why there are no figures"),
    (
        "tags",
        "what is known about the case, e.g. noisy; joined by spaces",
    ),
];

/// A row for each metric of each case; of a case without any, one that says why.
pub(super) fn summaries(sheet: &mut Worksheet, results: &Results) -> Result<(), XlsxError> {
    let mut list = List::new(sheet, &SUMMARIES.map(|(name, _)| name))?;
    let number = |value: Option<f64>| value.map_or(Field::Nothing, Field::Number);
    for e in &results.experiments {
        for case in &e.cases {
            let about = || [e.id.as_str(), case.id.as_str(), words::status(case.status)].map(text);
            let why = || {
                let reason = case.reason.as_deref().unwrap_or_default();
                [text(reason), Field::Text(Cow::Owned(case.tags.join(" ")))]
            };
            for (metric, s) in &case.summaries {
                let of = [text(metric), text(&s.unit), Field::Whole(s.n as u64)];
                let figures = [
                    Some(s.median),
                    s.ci95.map(|ci| ci[0]),
                    s.ci95.map(|ci| ci[1]),
                    s.ci_level,
                    Some(s.mean),
                    s.trimmed_mean,
                    Some(s.min),
                    Some(s.max),
                    s.cv,
                ];
                list.row(
                    about()
                        .into_iter()
                        .chain(of)
                        .chain(figures.map(number))
                        .chain(why()),
                )?;
            }
            if case.summaries.is_empty() {
                let nothing = (0..SUMMARIES.len() - about().len() - why().len()).map(|_| Field::Nothing);
                list.row(about().into_iter().chain(nothing).chain(why()))?;
            }
        }
    }
    list.finish()
}

/// The table of the CSV: as many of its rows as fit into a sheet of so many.
pub(super) fn samples(sheet: &mut Worksheet, raw: &Raw<'_>, rows: u32) -> Result<(), XlsxError> {
    let mut list = List::new(sheet, &raw.heads())?;
    for row in raw.rows().take(rows.saturating_sub(1) as usize) {
        list.row(row)?;
    }
    list.finish()
}

fn text(text: &str) -> Field<'_> {
    Field::Text(Cow::Borrowed(text))
}

/// A plain table, written row by row.
struct List<'s> {
    sheet: &'s mut Worksheet,
    widths: Vec<u32>,
    last: u32,
}

impl<'s> List<'s> {
    fn new<T: AsRef<str>>(sheet: &'s mut Worksheet, heads: &[T]) -> Result<Self, XlsxError> {
        let format = Format::new().set_bold().set_border_bottom(FormatBorder::Thin);
        let mut widths = Vec::new();
        for (column, head) in (0..).zip(heads) {
            let head = clip(head.as_ref());
            widths.push(pixels(&head, Look::Head) + MARGIN + BUTTON);
            sheet.write_string_with_format(0, column, head, &format)?;
        }
        sheet.set_freeze_panes(1, 0)?;
        Ok(Self {
            sheet,
            widths,
            last: 0,
        })
    }

    fn row<'a>(&mut self, fields: impl IntoIterator<Item = Field<'a>>) -> Result<(), XlsxError> {
        self.last += 1;
        for (column, field) in (0..).zip(fields) {
            match field {
                Field::Nothing => {}
                Field::Whole(n) => self.number(column, n as f64)?,
                Field::Number(value) if value.is_finite() => self.number(column, value)?,
                // There is no cell for it.
                Field::Number(value) => self.text(column, &value.to_string())?,
                Field::Text(of) => self.text(column, &of)?,
            }
        }
        Ok(())
    }

    fn number(&mut self, column: u16, value: f64) -> Result<(), XlsxError> {
        // A cell without a format shows so many digits as it has room for, at most eleven characters.
        self.widen(column, 11, || value.to_string().len().min(11) as u32 * DIGIT);
        self.sheet.write_number(self.last, column, value)?;
        Ok(())
    }

    fn text(&mut self, column: u16, text: &str) -> Result<(), XlsxError> {
        if !text.is_empty() {
            let text = clip(text);
            self.widen(column, text.len(), || pixels(&text, Look::Plain));
            self.sheet.write_string(self.last, column, text)?;
        }
        Ok(())
    }

    /// For so many characters, or bytes, that are so wide. Most are no wider than what came before, and not measured.
    fn widen(&mut self, column: u16, most: usize, pixels: impl Fn() -> u32) {
        let width = &mut self.widths[usize::from(column)];
        if *width < WIDEST && *width < most as u32 * WIDE + MARGIN {
            *width = (pixels() + MARGIN).min(WIDEST).max(*width);
        }
    }

    fn finish(self) -> Result<(), XlsxError> {
        let last = u16::try_from(self.widths.len().saturating_sub(1)).unwrap_or(u16::MAX);
        self.sheet.autofilter(0, 0, self.last.max(1), last)?;
        for (column, width) in (0..).zip(&self.widths) {
            self.sheet.set_column_width_pixels(column, *width)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use rust_xlsxwriter::Workbook;
    use threadgauge_results::{Params, Status};

    use super::*;
    use crate::SampleRow;

    #[test]
    fn a_sheet_holds_so_many_rows_and_no_more() {
        let params = Params::new().with("cpus", 1);
        let row = SampleRow {
            experiment: "create",
            case: "create/cpus=1",
            params: &params,
            round: 1,
            copy: 0,
            nth_try: 0,
            attempt: 0,
            status: Status::Ok,
            reason: None,
            tags: &[],
            metric: "elapsed",
            unit: "ns",
            value: Some(f64::NAN),
        };
        for (values, rows, held) in [(3, 9, 3), (3, 4, 3), (3, 3, 2)] {
            let values = vec![row; values];
            let mut workbook = Workbook::new();
            samples(workbook.add_worksheet(), &Raw::of(&values), rows).unwrap();
            let bytes = Cursor::new(workbook.save_to_buffer().unwrap());
            let mut parts = zip::ZipArchive::new(bytes).unwrap();
            let sheet = parts.by_name("xl/worksheets/sheet1.xml").unwrap();
            let sheet = std::io::read_to_string(sheet).unwrap();
            assert_eq!(sheet.matches("<row ").count(), held + 1);
        }
    }
}
