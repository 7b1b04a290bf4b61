//! The dated measurements that are kept: which one a chore takes when none is named.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// Where they are.
pub const RUNS: &str = "runs";

/// Of the folders whose results say that it was a run of this profile, and whose store is there, those with the most
/// experiments, and the last of them by name: a run of one experiment alone is no picture of all.
///
/// # Errors
///
/// If a file of results cannot be read as JSON.
pub fn newest(profile: &str) -> Result<Option<PathBuf>> {
    newest_of(Path::new(RUNS), profile)
}

fn newest_of(runs: &Path, profile: &str) -> Result<Option<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(runs).into_iter().flatten() {
        let folder = entry?.path();
        let Ok(results) = fs::read_to_string(folder.join("results.json")) else {
            continue;
        };
        let results: Value = serde_json::from_str(&results)
            .with_context(|| format!("{}/results.json is not JSON", folder.display()))?;
        if results["run"]["profile"] == profile && folder.join("results.sqlite").is_file() {
            let experiments = results["experiments"].as_array().map_or(0, Vec::len);
            found.push((experiments, folder));
        }
    }
    Ok(found.into_iter().max().map(|(_, folder)| folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_standard_run_of_all_with_its_store_will_do() {
        let runs = tempfile::tempdir().unwrap();
        assert_eq!(newest_of(runs.path(), "standard").unwrap(), None);
        for (name, profile, experiments) in [
            ("2025-12-31", "standard", 2),
            ("2026-01-01", "standard", 2),
            ("2026-01-02", "standard", 2),
            ("2026-01-03", "quick", 3),
            ("2026-01-04", "standard", 1),
        ] {
            let folder = runs.path().join(name);
            fs::create_dir(&folder).unwrap();
            let experiments = vec![json!({}); experiments];
            fs::write(
                folder.join("results.json"),
                json!({"run": {"profile": profile}, "experiments": experiments}).to_string(),
            )
            .unwrap();
            fs::write(folder.join("results.sqlite"), "").unwrap();
        }
        fs::remove_file(runs.path().join("2026-01-02/results.sqlite")).unwrap();
        assert!(
            newest_of(runs.path(), "standard")
                .unwrap()
                .unwrap()
                .ends_with("2026-01-01")
        );
    }
}
