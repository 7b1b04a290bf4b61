//! The course of each figure over a folder of runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use threadgauge_report::{history_html, history_json, history_text};
use threadgauge_results::units::counted;
use threadgauge_results::{Results, histories};

use crate::baselines::DEFAULT_OUT;
use crate::cli::{HistoryFormat, HistoryOptions};
use crate::folder;
use crate::output::{Done, Verdict, in_one_line, print, print_json_text, say, shown, style};

/// Prints what changed from which run on, or writes it.
pub fn history(options: &HistoryOptions) -> Done {
    let dir = options.dir.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_OUT));
    let histories = histories(read(&dir)?);
    let text = match options.format {
        HistoryFormat::Text => history_text(&histories, &style()),
        HistoryFormat::Json => history_json(&histories),
        HistoryFormat::Html => history_html(&histories, &dir.display().to_string()),
    };
    match (&options.out, options.format) {
        (Some(path), _) => {
            fs::write(path, text).with_context(|| format!("{} cannot be written", shown(path)))?;
            say(&format!("Written to {}", shown(path)));
        }
        (None, HistoryFormat::Json) => print_json_text(&text)?,
        (None, _) => print(&text)?,
    }
    Ok(Verdict::Done)
}

/// What a run is called among those of a folder; the folder itself may be one, and keeps its name.
fn name_in(dir: &Path, path: &Path) -> String {
    let name = path.strip_prefix(dir).ok().filter(|name| *name != Path::new(""));
    name.unwrap_or(path).display().to_string()
}

/// Every run in a folder that can be read, by its name there; what cannot is said.
fn read(dir: &Path) -> Result<Vec<(String, Results)>> {
    let failed = || format!("{} cannot be read as a folder of runs", shown(dir));
    let paths = folder::runs_in(dir).with_context(failed)?;
    let all = paths.len();
    let mut runs = Vec::new();
    for path in paths {
        match folder::read(&path) {
            Ok(data) => {
                runs.push((name_in(dir, &path), data.results));
            }
            Err(error) => say(&format!("Left out: {}", in_one_line(&error))),
        }
    }
    if runs.is_empty() {
        match all {
            0 => bail!(
                "{} has no run in it; a history is of a folder of results folders or of files that `export` wrote",
                shown(dir)
            ),
            all => bail!("of {} in {} none can be read", counted(all, "run"), shown(dir)),
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_called_by_its_place_in_the_folder_and_the_folder_by_its_own_name() {
        let named = |dir: &str, path: &str| name_in(Path::new(dir), Path::new(path));
        assert_eq!(named("runs", "runs/2026-11-23-quick"), "2026-11-23-quick");
        assert_eq!(
            named("runs/2026-11-23-quick", "runs/2026-11-23-quick"),
            "runs/2026-11-23-quick"
        );
        assert_eq!(named(".", "."), ".");
    }
}
