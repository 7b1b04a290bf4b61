//! `cargo xtask browser`: the report of a real run, and pages of several, opened in a headless Chromium.
//!
//! The page is made by today's code from the newest standard run of all under `runs/`: real samples, enough
//! rounds for intervals, and the same on a busy machine as on a quiet one. Where there is none, from a run
//! of seconds, whose charts a busy machine may leave empty. What must be true of it is written in `tests/browser`:
//! `report.test.mjs` what any reader needs, `everyone.test.mjs` whom axe-core and a keyboard stand for, `save.test.mjs`
//! what is saved from it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{env, fs};

use anyhow::{Context, Result, anyhow, ensure};

use crate::{deps, runs, shell};

/// Seconds: no large parent, nobody computing beside. Two rounds give no intervals.
const RUN: &[&str] = &[
    "run",
    "create",
    "--rounds",
    "2",
    "--only",
    "cpus=1,parent_mib=0,busy=0",
];

/// Stored runs of experiments that the two above leave out, for their charts.
const MORE: [&str; 5] = ["computing", "contention", "keeping", "ring", "wake"];

/// Stored runs beside one another on a page, of machines of two sizes, with a source's table.
const SIDES: [&str; 3] = [
    "golden/computing",
    "2026-11-27-contention-servers-16",
    "golden/server-designs",
];

/// Stored runs that have a course.
const COURSE: [&str; 1] = ["2026-11-28-gate"];

/// Stored runs of other kinds of pages: one that begins with what its experiments answer, one with failed cases and a
/// warning. A load is the third, of which no run is stored.
const KINDS: [&str; 2] = ["stages", "refused"];

/// Seconds, at rates that a debug build reaches on a busy machine.
const LOAD: &str = "load echo --connections 8 --steps 100,200,400 --duration 1s --target";

/// Tests of the page, each file by a browser of its own, two of them at a time.
const TESTS: [&str; 3] = ["report.test.mjs", "everyone.test.mjs", "save.test.mjs"];

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
    let quick = match runs::newest("quick")? {
        Some(run) => report(&run, &folder.path().join("quick"))?,
        None => page.clone(),
    };
    let golden = |names: &[&str]| -> Result<Vec<PathBuf>> {
        let golden = Path::new(runs::RUNS).join("golden");
        let made = names
            .iter()
            .map(|name| report(&golden.join(name), &folder.path().join(name)));
        made.collect()
    };
    let of_several = [("compare", &SIDES[..]), ("history", &COURSE[..])];
    let of_several = of_several.map(|(command, of)| printed(command, of, &folder.path().join(command)));
    let of_several: Result<Vec<PathBuf>> = of_several.into_iter().collect();
    let more = env::join_paths(golden(&MORE)?.into_iter().chain(of_several?))?;
    let load = make_load(&folder.path().join("load"))?;
    let kinds = env::join_paths(golden(&KINDS)?.into_iter().chain([load]))?;
    let mut node = shell::command("node");
    node.args(["--test", "--test-reporter=spec", "--test-concurrency=2"])
        .args(TESTS)
        .current_dir(deps::BROWSER_TESTS)
        .env("CHROMIUM", chromium)
        .env("REPORT_HTML", page)
        .env("QUICK_HTML", quick)
        .env("MORE_HTML", more)
        .env("KINDS_HTML", kinds);
    if let Some(pictures) = pictures {
        fs::create_dir_all(pictures).with_context(|| format!("cannot make {}", pictures.display()))?;
        node.env("SCREENSHOTS", fs::canonicalize(pictures)?);
    }
    shell::run(&mut node)
}

fn make_page(out: &Path) -> Result<PathBuf> {
    match runs::newest("standard")? {
        Some(run) => report(&run, out),
        None => make(RUN, out),
    }
}

/// The report of a stored run, by today's code.
fn report(run: &Path, out: &Path) -> Result<PathBuf> {
    let run = run.to_str().context("the name of a stored run is not text")?;
    make(&["report", run], out)
}

/// The page that a command prints of several stored runs, by today's code.
fn printed(command: &str, of: &[&str], out: &Path) -> Result<PathBuf> {
    let threadgauge = shell::build(shell::Profile::Debug)?;
    let mut print = shell::command_at(&threadgauge);
    print.arg(command).args(["--format", "html"]);
    print.args(of.iter().map(|run| Path::new(runs::RUNS).join(run)));
    let html = shell::output(&mut print)?;
    let page = out.join("page.html");
    fs::create_dir_all(out).and_then(|()| fs::write(&page, html))?;
    Ok(page)
}

/// The report of a load on a server of ours.
fn make_load(out: &Path) -> Result<PathBuf> {
    let threadgauge = shell::build(shell::Profile::Debug)?;
    let mut server = shell::command_at(&threadgauge)
        .args(["serve", "echo", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a server for the page of a load")?;
    let lines = server.stderr.take().map(|stream| BufReader::new(stream).lines());
    let first = lines.and_then(|mut lines| lines.next()?.ok()).unwrap_or_default();
    let page = match first.strip_prefix("listening on ") {
        Some(target) => make(&LOAD.split(' ').chain([target]).collect::<Vec<_>>(), out),
        None => Err(anyhow!("the server for the page of a load said {first:?}")),
    };
    server.kill().and_then(|()| server.wait())?;
    page
}

fn make(arguments: &[&str], out: &Path) -> Result<PathBuf> {
    // The tests have built this already; a debug build measures badly and draws the same page.
    let threadgauge = shell::build(shell::Profile::Debug)?;
    let mut make = shell::command_at(&threadgauge);
    make.args(arguments);
    let status = make.arg("--out").arg(out).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start {}", shell::line(&make)))?;
    let page = out.join("report.html");
    // A load that had no CPU for a while says so by exit code 1, and its page is as good.
    ensure!(
        matches!(status.code(), Some(0 | 1)) && page.is_file(),
        "{} ended with {status}; its page is {}",
        shell::line(&make),
        page.display()
    );
    Ok(page)
}
