//! The threadgauge command.
fn main() {}
