//! What memory a server and its children have, as far as it is theirs: read from `/proc` while they live.

use std::fs;

use anyhow::{Context, Result};

use super::activity::tree;

/// The proportional set size of the process and all below it, in KiB: what it shares is divided by those who share it.
///
/// # Errors
///
/// If the process has gone or may not be looked at.
pub fn pss_kib(process: i32) -> Result<f64> {
    let of = |process: i32| {
        let file = format!("/proc/{process}/smaps_rollup");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        parse(&text).with_context(|| format!("{file} is not as it was"))
    };
    tree(process)?.into_iter().map(of).sum()
}

fn parse(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_proportional_size_is_read() {
        let text = "55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss:    2000 kB\nPss:                1234 kB\nPss_Anon: 7 kB\n";
        assert_eq!(parse(text), Some(1234.0));
        assert_eq!(parse("Rss: 1 kB\n"), None);
    }

    #[test]
    fn a_process_that_takes_memory_has_more() {
        let holding = |bytes: usize| {
            let script = format!("held=$(head -c {bytes} /dev/zero | tr '\\0' x); echo ready; read line");
            let mut shell = Command::new("sh")
                .args(["-c", &script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut ready = String::new();
            BufReader::new(shell.stdout.take().unwrap())
                .read_line(&mut ready)
                .unwrap();
            assert_eq!(ready, "ready\n");
            let pss = pss_kib(i32::try_from(shell.id()).unwrap()).unwrap();
            drop(shell.stdin.take());
            shell.wait().unwrap();
            pss
        };
        assert!(holding(20 << 20) > holding(1) + 16.0 * 1024.0);
    }
}
