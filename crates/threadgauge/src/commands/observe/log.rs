//! A log that grows by a line a task: how many lines have come since it was opened.
//!
//! One that is replaced (rotated) is read to its end and the new one from its begin; one that is cut off begins anew.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::output::shown;

/// The most that is read at a look; the rest waits for the next.
const MOST_BYTES: u64 = 256 << 20;

/// A log, and the lines that have come.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    at: u64,
    lines: u64,
}

impl Log {
    /// Opens it at its end.
    ///
    /// # Errors
    ///
    /// If there is no such file, it may not be read, or is no file that can grow.
    pub fn open(path: &Path) -> Result<Self> {
        let cannot = || format!("--log: {} cannot be read", shown(path));
        // Opening a pipe would wait for somebody to write into it.
        let kind = path.metadata().with_context(cannot)?;
        ensure!(
            kind.is_file(),
            "--log: {} is no file whose lines could be counted",
            shown(path)
        );
        let mut file = File::open(path).with_context(cannot)?;
        let at = file.seek(SeekFrom::End(0)).with_context(cannot)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            at,
            lines: 0,
        })
    }

    /// How many lines have ended since it was opened. Reads what has come, without waiting.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn read(&mut self) -> Result<f64> {
        let cannot = || format!("{} cannot be read", shown(&self.path));
        let mut part = vec![0; 64 << 10];
        let of = self.file.metadata().with_context(cannot)?;
        if of.len() < self.at {
            self.at = self.file.seek(SeekFrom::Start(0)).with_context(cannot)?;
        }
        let mut left = MOST_BYTES;
        while left > 0 {
            let length = self.file.read(&mut part).with_context(cannot)?;
            if length == 0 {
                // The old one has been read to its end.
                let new = File::open(&self.path).and_then(|new| Ok((new.metadata()?, new)));
                match new {
                    Ok((kind, new)) if kind.ino() != of.ino() || kind.dev() != of.dev() => {
                        self.file = new;
                        self.at = 0;
                        // It is read from now on.
                        return Ok(self.lines as f64);
                    }
                    // While one takes the place of the other there may be none.
                    _ => break,
                }
            }
            self.at += length as u64;
            left = left.saturating_sub(length as u64);
            self.lines += part[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
        }
        Ok(self.lines as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    fn append(path: &Path, text: &str) {
        let mut file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn lines_that_come_are_counted_also_of_a_log_that_is_replaced_or_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, "before\nbefore\n");
        let mut log = Log::open(&path).unwrap();
        assert_eq!(log.read().unwrap(), 0.0);
        append(&path, "one\ntwo\nthr");
        assert_eq!(log.read().unwrap(), 2.0);
        append(&path, "ee\n");
        assert_eq!(log.read().unwrap(), 3.0);
        append(&path, "four\n");
        fs::rename(&path, dir.path().join("log.1")).unwrap();
        append(&path, "five\nsix\n");
        log.read().unwrap();
        assert_eq!(log.read().unwrap(), 6.0);
        fs::write(&path, "s\n").unwrap();
        assert_eq!(log.read().unwrap(), 7.0);
    }

    #[test]
    fn what_is_no_log_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = |path: &Path| format!("{:#}", Log::open(path).unwrap_err());
        assert!(error(dir.path()).contains("is no file"));
        assert!(error(&dir.path().join("none")).contains("none cannot be read: "));
    }
}
