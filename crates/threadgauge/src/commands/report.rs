//! The report again, from stored results alone.

use anyhow::{Result, bail};
use threadgauge_report::run_chart_svg;
use threadgauge_results::{Figure, Results};

use crate::cli::ReportOptions;
use crate::folder;
use crate::output::{Done, Verdict, print, shown};

/// Writes every report file and prints their paths, or prints a chart.
pub fn report(options: &ReportOptions) -> Done {
    let data = folder::read_whole(&options.dir)?;
    if let Some(name) = &options.chart {
        print(&run_chart_svg(&data.results, chart(&data.results, name)?))?;
        return Ok(Verdict::Done);
    }
    let files = folder::write(&data, options.out.as_ref().unwrap_or(&options.dir))?;
    let paths: Vec<String> = files.iter().map(|path| shown(path)).collect();
    print(&paths.join("\n"))?;
    Ok(Verdict::Done)
}

/// The chart of this name.
fn chart<'a>(results: &'a Results, name: &str) -> Result<&'a Figure> {
    let (id, figure) = name.split_once('/').unwrap_or((name, ""));
    let of = results.experiments.iter().find(|of| of.id == id);
    if let Some(found) = of.and_then(|of| of.figures.iter().find(|other| other.id == figure)) {
        return Ok(found);
    }
    let there: Vec<String> = match of {
        Some(of) => of
            .figures
            .iter()
            .map(|figure| format!("{id}/{}", figure.id))
            .collect(),
        None => results
            .experiments
            .iter()
            .map(|of| format!("{}/…", of.id))
            .collect(),
    };
    bail!(
        "--chart {name}: there is no such chart; {}",
        match there.is_empty() {
            true => "there is none".to_owned(),
            false => format!("there are {}", there.join(", ")),
        }
    )
}
