//! The hidden worker: one case, once, in this process.

use std::io::{stdin, stdout};

use threadgauge_experiments::runnable;

use crate::output::{Done, Verdict};

/// Obeys the order on standard input; the sample goes to standard output.
pub fn worker() -> Done {
    threadgauge_lab::serve::serve(runnable(), stdin().lock(), stdout().lock()).map_err(anyhow::Error::msg)?;
    Ok(Verdict::Done)
}
