//! x
use anyhow::Result;
/// Options
#[derive(clap::Args)]
pub struct Options {}
pub fn run(_: &Options) -> Result<()> {
    Ok(())
}
