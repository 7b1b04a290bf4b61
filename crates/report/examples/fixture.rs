//! Writes every report of the tests' made-up run into a folder, to look at while their looks are worked on:
//! `cargo run -p threadgauge-report --example fixture -- DIR`.

#[allow(dead_code, reason = "tests use all of it")]
#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("name the folder to write to")?;
    let results = fixture::results();
    threadgauge_report::write_all(&results, &fixture::samples(&results), Path::new(&dir))?;
    Ok(())
}
