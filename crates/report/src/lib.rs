//! Reports from stored results: one HTML page, a workbook, CSV, Markdown, pictures, and terminal tables.
//!
//! Data comes in as a [`Results`](threadgauge_results::Results) document and the raw
//! [`SampleRow`]s, and goes out as text and files. Nothing here measures, decides or computes a
//! statistic: a figure that is not in the document is not in the report.
#![forbid(unsafe_code)]

mod alone;
mod by_kind;
mod cases;
mod chart;
mod columns;
mod compare;
mod costs;
mod csv_file;
mod error;
mod facts;
mod files;
mod glossary;
mod history;
mod html;
mod lead;
mod markdown;
mod merged;
mod picture;
mod questions;
mod sample;
mod sayings;
mod terminal;
mod words;
mod xlsx;

pub use alone::{chart_svg, run_chart_svg};
pub use columns::{columns_json, columns_markdown, columns_text};
pub use compare::{
    comparison_badge, comparison_badge_svg, comparison_github, comparison_json, comparison_junit,
    comparison_markdown, comparison_text,
};
pub use csv_file::samples_csv;
pub use error::ReportError;
pub use files::{FILES, Missing, Written, write_all};
pub use history::{history_json, history_text};
pub use html::history::history_html;
pub use html::{columns_html, comparison_html, html};
pub use markdown::markdown;
pub use picture::{picture, picture_png};
pub use sample::SampleRow;
pub use terminal::{
    ClaimColumns, ClaimRow, Said, Style, claims_beside, claims_table, fitted, short_answer, terminal,
    terminal_screen, terminal_summary,
};
pub use threadgauge_results::units::with_unit;
pub use words::stopped;
pub use xlsx::xlsx_buffer;
