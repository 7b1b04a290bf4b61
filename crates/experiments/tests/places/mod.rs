//! Where tests look for runtimes.

use std::path::Path;

use threadgauge_experiments::runtimes::find::Places;

/// This machine's places, and the Java that `cargo xtask deps` fetches where none of these has virtual threads.
pub fn with_newer_java() -> Places {
    let mut places = Places::here();
    let fetched = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/newer-java/jdk");
    places.jdks.push(Path::new(fetched).to_owned());
    places
}
