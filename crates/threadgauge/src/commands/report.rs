//! The report again, from stored results alone.

use crate::cli::ReportOptions;
use crate::folder;
use crate::output::{Done, Verdict, print, shown};

/// Writes every report file and prints their paths.
pub fn report(options: &ReportOptions) -> Done {
    let data = folder::read_whole(&options.dir)?;
    let files = folder::write(&data, options.out.as_ref().unwrap_or(&options.dir))?;
    let paths: Vec<String> = files.iter().map(|path| shown(path)).collect();
    print(&paths.join("\n"))?;
    Ok(Verdict::Done)
}
