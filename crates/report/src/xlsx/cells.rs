//! Cells: text that fits, numbers, and heads that stay in sight.

use rust_xlsxwriter::{Format, FormatAlign, FormatBorder, Worksheet, XlsxError};

use threadgauge_results::outside::steers;

/// The most characters a cell may have.
const CELL: usize = 32_767;

/// A row of heads that stays in sight.
pub(super) fn head(sheet: &mut Worksheet, row: u32, heads: &[String]) -> Result<(), XlsxError> {
    let format = Format::new()
        .set_bold()
        .set_text_wrap()
        .set_align(FormatAlign::Top)
        .set_border_bottom(FormatBorder::Thin);
    for (column, text) in (0..).zip(heads) {
        sheet.write_with_format(row, column, clip(text), &format)?;
    }
    sheet.set_freeze_panes(row + 1, 0)?;
    Ok(())
}

pub(super) fn text(sheet: &mut Worksheet, row: u32, column: u16, text: &str) -> Result<(), XlsxError> {
    if !text.is_empty() {
        sheet.write_string(row, column, clip(text))?;
    }
    Ok(())
}

/// A number, or nothing where there is none.
pub(super) fn number(
    sheet: &mut Worksheet,
    row: u32,
    column: u16,
    value: Option<f64>,
) -> Result<(), XlsxError> {
    if let Some(value) = value.filter(|v| v.is_finite()) {
        sheet.write_number(row, column, value)?;
    }
    Ok(())
}

/// Text a cell can hold.
pub(super) fn clip(text: &str) -> String {
    text.chars()
        .filter(|c| !steers(*c) || *c == '\n')
        .take(CELL)
        .collect()
}
