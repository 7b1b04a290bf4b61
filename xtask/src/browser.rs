//! `cargo xtask browser`: the report of a real run, opened in a headless Chromium.
//!
//! Makes the page with the command itself, a run of seconds. What must be true of it is written in
//! `tests/browser/report.test.mjs`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::{deps, shell};

/// Small counts keep it to seconds. Two rounds give no intervals, and some cases cannot be so small and
/// fail: the page must bear both.
const RUN: &[&str] = &[
    "run", "null", "create", "--rounds", "2", "--only", "cpus=1", "--set", "count=20",
];

/// Tests `page`, or the report of a run made for it, and leaves pictures of it in a folder if one is named.
pub fn run(page: Option<&Path>, pictures: Option<&Path>) -> Result<()> {
    deps::install(deps::Need::Tests)?;
    let chromium = deps::chromium()?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let page = match page {
        Some(page) => page.to_owned(),
        None => make_page(&folder.path().join("results"))?,
    };
    let page = fs::canonicalize(&page).with_context(|| format!("there is no page {}", page.display()))?;
    let mut node = shell::command("node");
    node.args(["--test", "--test-reporter=spec", "report.test.mjs"])
        .current_dir(deps::BROWSER_TESTS)
        .env("CHROMIUM", chromium)
        .env("REPORT_HTML", page);
    if let Some(pictures) = pictures {
        fs::create_dir_all(pictures).with_context(|| format!("cannot make {}", pictures.display()))?;
        node.env("SCREENSHOTS", fs::canonicalize(pictures)?);
    }
    shell::run(&mut node)
}

fn make_page(out: &Path) -> Result<std::path::PathBuf> {
    // The tests have built this already; a debug build measures badly and draws the same page.
    let threadgauge = shell::build("threadgauge", shell::Profile::Debug)?;
    shell::run(
        shell::command_at(&threadgauge)
            .args(RUN)
            .arg("--out")
            .arg(out)
            .stdout(std::process::Stdio::null()),
    )?;
    let page = out.join("report.html");
    ensure!(page.is_file(), "the run wrote no {}", page.display());
    Ok(page)
}
