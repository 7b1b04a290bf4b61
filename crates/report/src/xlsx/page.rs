//! A sheet's layout: columns as wide as what is in them, at most a screen together; rows as tall as their text.
//!
//! Spreadsheet programs differ in which rows they make taller by themselves, and none does so for merged cells. So each
//! height is set here, from the widths that Excel's default font has.

use std::collections::BTreeMap;

use rust_xlsxwriter::{
    Chart, Color, Format, FormatAlign, FormatBorder, FormatUnderline, Worksheet, XlsxError,
    cell_autofit_width,
};
use threadgauge_results::outside::steers;
use threadgauge_results::published::cited;
use threadgauge_results::units::Scale;

/// The sheets that others speak of.
pub(super) const OVERVIEW: &str = "Overview";
pub(super) const SUMMARIES: &str = "Summaries";
pub(super) const SAMPLES: &str = "Samples";

/// The widest that a sheet is, pixels: a screen of 1,400 without the row numbers and the scroll bar.
pub(super) const SCREEN: u32 = 1_340;
/// The most characters a cell may have.
const CELL: usize = 32_767;
/// The widest column of text, pixels.
const PROSE: u32 = 430;
/// The widest word that is not broken, pixels.
const WORD: u32 = 160;
/// The widest line that is never broken, pixels.
const SHORT: u32 = 100;
/// What a cell needs beside its text, pixels: its margins.
pub(super) const MARGIN: u32 = 7;
/// A line of text, pixels.
const LINE: u32 = 20;
/// The tallest that a row may be, pixels.
const TALLEST: u32 = 545;
/// A column of which nothing is said, pixels.
const COLUMN: u32 = 64;

/// A value with the decimals that it is shown with. The cell holds all of its digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    pub value: f64,
    pub decimals: usize,
}

/// What is in a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Nothing,
    Text(String),
    Number(Number),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Option<Number>> for Cell {
    fn from(number: Option<Number>) -> Self {
        number.map_or(Self::Nothing, Self::Number)
    }
}

/// How a text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    Bold,
    Title,
    Head,
}

impl Look {
    fn format(self) -> Format {
        let format = Format::new().set_text_wrap().set_align(FormatAlign::Top);
        match self {
            Self::Plain => format,
            Self::Bold => format.set_bold(),
            Self::Title => format.set_bold().set_font_size(14),
            Self::Head => format
                .set_bold()
                .set_background_color(Color::RGB(0xee_f1_f4))
                .set_border_bottom(FormatBorder::Thin),
        }
    }

    /// How much wider its letters are than plain ones, in a hundred.
    const fn width(self) -> u32 {
        match self {
            Self::Plain => 100,
            Self::Bold | Self::Head => 107,
            Self::Title => 135,
        }
    }

    /// How tall a line of it is, pixels.
    const fn line(self) -> u32 {
        match self {
            Self::Title => 26,
            Self::Plain | Self::Bold | Self::Head => LINE,
        }
    }
}

/// Which widths a column may have, pixels.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Widths {
    /// No word is broken.
    least: u32,
    /// No line is, within reason.
    wanted: u32,
}

impl Widths {
    /// Of a text. One that is short stays in one line.
    fn of(text: &str, look: Look) -> Self {
        let (word, line) = (widest(text.split_whitespace(), look), widest(text.lines(), look));
        Self {
            least: word.min(WORD).max(line.min(SHORT)),
            wanted: line.min(PROSE),
        }
    }

    /// Of the head of a column, which is no reason to make it wider than its longest word.
    fn of_head(text: &str) -> Self {
        let least = widest(text.split_whitespace(), Look::Head).min(WORD);
        Self { least, wanted: least }
    }

    fn and(self, other: Self) -> Self {
        Self {
            least: self.least.max(other.least),
            wanted: self.wanted.max(other.wanted),
        }
    }

    /// Of a column with this head and these cells.
    pub fn of_column(head: &str, cells: &[Cell]) -> Self {
        let of = |cell: &Cell| match cell {
            Cell::Nothing => Self::default(),
            Cell::Text(text) => Self::of(text, Look::Plain),
            Cell::Number(number) => Self::of(&number.shown(), Look::Plain),
        };
        cells.iter().map(of).fold(Self::of_head(head), Self::and)
    }
}

impl Number {
    /// What figures of a column are shown in: what suits the one in their middle.
    pub fn scale(unit: &str, values: impl IntoIterator<Item = f64>) -> Scale<'_> {
        let mut values: Vec<f64> = values
            .into_iter()
            .filter(|v| v.is_finite() && *v != 0.0)
            .collect();
        values.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        Scale::of(unit, values.get(values.len() / 2).copied().unwrap_or(0.0))
    }

    /// A stored value as it is printed on this scale; none where there is no number.
    pub fn of(scale: &Scale<'_>, value: Option<f64>) -> Option<Self> {
        let (value, decimals) = scale.shown(value.filter(|v| v.is_finite())?);
        Some(Self { value, decimals })
    }

    /// As a cell shows it.
    fn shown(self) -> String {
        let Self { value, decimals } = self;
        format!("{value:.decimals$}")
    }

    fn format(self) -> Format {
        let Self { value, decimals } = self;
        let shown = match decimals {
            0 if value.abs() >= 9_999.5 => "#,##0".to_owned(),
            0 => "0".to_owned(),
            _ => format!("0.{}", "0".repeat(decimals)),
        };
        Format::new().set_align(FormatAlign::Top).set_num_format(shown)
    }
}

/// A sheet that is being written.
pub(super) struct Page<'s> {
    sheet: &'s mut Worksheet,
    columns: Vec<Widths>,
    /// Texts that may need more than a line.
    texts: Vec<(u32, u16, Look, String)>,
    /// Texts over the whole width.
    across: Vec<(u32, Look, String)>,
    /// The row whose cells have a button that filters.
    filter: Option<u32>,
}

impl<'s> Page<'s> {
    pub fn new(sheet: &'s mut Worksheet) -> Self {
        sheet.set_landscape().set_print_fit_to_pages(1, 0);
        Self {
            sheet,
            columns: Vec::new(),
            texts: Vec::new(),
            across: Vec::new(),
            filter: None,
        }
    }

    /// A row of heads over `rows` rows, which stays in sight and filters them.
    pub fn head<T: AsRef<str>>(&mut self, row: u32, heads: &[T], rows: u32) -> Result<(), XlsxError> {
        self.heads(row, heads)?;
        let last = u16::try_from(heads.len().saturating_sub(1)).unwrap_or(u16::MAX);
        self.sheet.autofilter(row, 0, row + rows.max(1), last)?;
        self.filter = Some(row);
        self.sheet
            .set_freeze_panes(row + 1, 0)?
            .set_repeat_rows(row, row)?;
        Ok(())
    }

    /// A row of heads.
    pub fn heads<T: AsRef<str>>(&mut self, row: u32, heads: &[T]) -> Result<(), XlsxError> {
        for (column, head) in (0..).zip(heads) {
            self.need(column, Widths::of_head(head.as_ref()));
            self.write(row, column, Look::Head, said(head.as_ref()))?;
        }
        Ok(())
    }

    /// What is in a cell.
    pub fn cell(&mut self, row: u32, column: u16, cell: &Cell) -> Result<(), XlsxError> {
        match cell {
            Cell::Nothing => Ok(()),
            Cell::Text(text) => self.text(row, column, text),
            Cell::Number(number) => {
                self.need(column, Widths::of(&number.shown(), Look::Plain));
                self.sheet
                    .write_number_with_format(row, column, number.value, &number.format())?;
                Ok(())
            }
        }
    }

    /// A text, in as many lines as it needs.
    pub fn text(&mut self, row: u32, column: u16, text: &str) -> Result<(), XlsxError> {
        let text = said(text);
        if text.is_empty() {
            return Ok(());
        }
        self.need(column, Widths::of(&text, Look::Plain));
        self.write(row, column, Look::Plain, text)
    }

    /// The name of a sheet, which leads to its cell in column A of a row.
    pub fn link(&mut self, row: u32, column: u16, (sheet, at): (&str, u32)) -> Result<(), XlsxError> {
        self.need(column, Widths::of(sheet, Look::Plain));
        let link = Format::new()
            .set_align(FormatAlign::Top)
            .set_font_color(Color::RGB(0x0b_5f_a5))
            .set_underline(FormatUnderline::Single);
        let place = format!("internal:'{sheet}'!A{}", at + 1);
        self.sheet
            .write_url_with_options(row, column, place.as_str(), sheet, "", Some(&link))?;
        Ok(())
    }

    /// A text over the whole width of the sheet, in as many lines as it needs.
    pub fn across(&mut self, row: u32, look: Look, text: &str) {
        let text = said(text);
        if !text.is_empty() {
            self.across.push((row, look, text));
        }
    }

    /// A chart with its top left corner in column A of a row.
    pub fn chart(&mut self, row: u32, chart: &Chart) -> Result<(), XlsxError> {
        self.sheet.insert_chart(row, 0, chart)?;
        Ok(())
    }

    /// How wide the sheet is at the least with these columns, by what is in it already, pixels.
    pub fn least_with(&self, columns: impl IntoIterator<Item = Widths>) -> u32 {
        let mut columns = columns.into_iter();
        let mut here = self.columns.iter().copied();
        let mut sum = 0;
        loop {
            match (columns.next(), here.next()) {
                (None, None) => return sum,
                (one, other) => sum += one.unwrap_or_default().and(other.unwrap_or_default()).least,
            }
        }
    }

    /// Gives columns their widths and rows their heights.
    pub fn finish(mut self) -> Result<(), XlsxError> {
        let widths = fitted(&self.columns, SCREEN);
        for (column, width) in (0..).zip(&widths) {
            self.sheet.set_column_width_pixels(column, *width)?;
        }
        let mut lines: BTreeMap<u32, u32> = BTreeMap::new();
        let mut takes = |row: u32, text: &str, look: Look, width: u32| {
            let tall = height(text, look, width);
            let row = lines.entry(row).or_default();
            *row = tall.max(*row);
        };
        for (row, column, look, text) in &self.texts {
            takes(*row, text, *look, widths[usize::from(*column)]);
        }
        let (last, wide) = whole(&widths);
        for (row, look, text) in std::mem::take(&mut self.across) {
            takes(row, &text, look, wide);
            if last == 0 {
                self.sheet.write_with_format(row, 0, text, &look.format())?;
            } else {
                self.sheet.merge_range(row, 0, row, last, &text, &look.format())?;
            }
        }
        if let Some(tall) = self.filter.and_then(|row| lines.get_mut(&row)) {
            // The button stands below the text.
            *tall += LINE;
        }
        for (row, tall) in lines {
            if tall > LINE {
                self.sheet.set_row_height_pixels(row, tall)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, row: u32, column: u16, look: Look, text: String) -> Result<(), XlsxError> {
        self.sheet
            .write_string_with_format(row, column, &text, &look.format())?;
        self.texts.push((row, column, look, text));
        Ok(())
    }

    fn need(&mut self, column: u16, widths: Widths) {
        let at = usize::from(column);
        if self.columns.len() <= at {
            self.columns.resize(at + 1, Widths::default());
        }
        self.columns[at] = self.columns[at].and(widths);
    }
}

/// The width of each column: what it wants where all have room together, else the widest are made narrower, and none
/// so narrow that words break.
fn fitted(columns: &[Widths], room: u32) -> Vec<u32> {
    let at_most = |most: u32| -> Vec<u32> {
        let width = |c: &Widths| c.wanted.min(most).max(c.least).max(MARGIN);
        columns.iter().map(width).collect()
    };
    let fits = |most: &u32| at_most(*most).iter().sum::<u32>() <= room;
    at_most((0..=PROSE).rev().find(fits).unwrap_or(0))
}

/// The last of the columns that fill a screen, and how wide they are together.
fn whole(widths: &[u32]) -> (u16, u32) {
    let used = widths.iter().sum::<u32>();
    let more = SCREEN.saturating_sub(used) / COLUMN;
    let columns = (widths.len() as u32 + more).max(1);
    let last = u16::try_from(columns - 1).unwrap_or(u16::MAX);
    (last, (used + more * COLUMN).max(COLUMN))
}

/// How wide a column must be for the widest of these texts, pixels.
fn widest<'t>(texts: impl Iterator<Item = &'t str>, look: Look) -> u32 {
    texts.map(|text| pixels(text, look)).max().unwrap_or(0) + MARGIN
}

/// How wide a text is in one line, pixels: by the library's widths of Excel's letters, which are whole numbers and
/// together some 6 % more than the text takes, so that fonts may differ by a little.
pub(super) fn pixels(text: &str, look: Look) -> u32 {
    // The function stops to count at 233 characters.
    let mut parts = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(200).map_or(rest.len(), |(at, _)| at);
        let (part, after) = rest.split_at(end);
        parts += cell_autofit_width(part) - cell_autofit_width("");
        rest = after;
    }
    (parts * look.width()).div_ceil(100)
}

/// How tall a text is in a column of this width, pixels.
fn height(text: &str, look: Look, width: u32) -> u32 {
    let room = width.saturating_sub(MARGIN).max(1);
    let lines: u32 = text.split('\n').map(|line| broken(line, look, room)).sum();
    (lines * look.line()).min(TALLEST)
}

/// How many lines a line becomes in so much room.
fn broken(line: &str, look: Look, room: u32) -> u32 {
    let blank = pixels(" ", look);
    let (mut lines, mut used) = (1, 0);
    for word in line.split_whitespace() {
        let wide = pixels(word, look);
        let with_blank = if used == 0 { wide } else { used + blank + wide };
        if with_blank <= room {
            used = with_blank;
            continue;
        }
        lines += u32::from(used > 0);
        // A word without room is broken in its middle.
        lines += wide.saturating_sub(1) / room;
        used = wide % room;
    }
    lines
}

/// Words for a reader that a cell can hold, with sources by their names.
pub(super) fn said(text: &str) -> String {
    clip(&cited(text))
}

/// Text a cell can hold.
pub(super) fn clip(text: &str) -> String {
    text.chars()
        .filter(|c| !steers(*c) || *c == '\n')
        .take(CELL)
        .collect()
}
