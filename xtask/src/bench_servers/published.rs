//! What Stevens measured: the column beside ours.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use crate::shell;

const FILE: &str = "crates/results/published/stevens_server_designs.csv";

/// His systems, as the file names them.
pub const SYSTEMS: [&str; 3] = ["Solaris 2.5.1", "Digital Unix 4.0B", "BSD/OS 3.0"];

/// Process-control CPU seconds by row of his table and system. A design that a system did not support has none.
#[derive(Debug)]
pub struct Published(BTreeMap<(u32, String), f64>);

impl Published {
    /// From the file that the product ships.
    pub fn read() -> Result<Self> {
        let file = shell::root()?.join(FILE);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not as it was", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns = reader.headers()?.clone();
        let column = |name: &str| {
            columns
                .iter()
                .position(|column| column == name)
                .with_context(|| format!("no column {name}"))
        };
        let (row, system, seconds) = (
            column("design_row")?,
            column("system")?,
            column("process_control_cpu_s")?,
        );
        let mut published = BTreeMap::new();
        for record in reader.records() {
            let record = record?;
            if !record[seconds].is_empty() {
                published.insert(
                    (record[row].parse()?, record[system].to_owned()),
                    record[seconds].parse()?,
                );
            }
        }
        Ok(Self(published))
    }

    /// Seconds, if he has the row and the system supported it.
    pub fn seconds(&self, row: Option<u32>, system: &str) -> Option<f64> {
        self.0.get(&(row?, system.to_owned())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_is_read() {
        let published = Published::read().unwrap();
        assert_eq!(published.seconds(Some(1), "Solaris 2.5.1"), Some(504.2));
        assert_eq!(published.seconds(Some(0), "BSD/OS 3.0"), Some(0.0));
        // Not supported, and not in his table.
        assert_eq!(published.seconds(Some(2), "Solaris 2.5.1"), None);
        assert_eq!(published.seconds(None, "Solaris 2.5.1"), None);
        let of = |system| {
            (0..=8)
                .filter(|&row| published.seconds(Some(row), system).is_some())
                .count()
        };
        assert_eq!(SYSTEMS.map(of), [8, 8, 5]);
    }

    #[test]
    fn a_file_without_its_columns_is_refused() {
        assert!(Published::parse("design_row,system\n0,BSD\n").is_err());
    }
}
