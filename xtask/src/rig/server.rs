//! A server that runs: started, waited for until it listens, ended, and what CPU time it used.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;
use threadgauge_machine::{CpuList, pin_thread, usage_children};

use crate::shell;

/// How long it may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at something that sends no event.
const LOOK: Duration = Duration::from_millis(1);

/// How one knows that a server listens, on the loopback address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listens {
    /// It says these words and then its port.
    Says(&'static str),
    /// It was told this port, and takes connections there.
    At(u16),
}

impl Listens {
    /// As ours and the C programs do.
    pub const OURS: Self = Self::Says("listening on 127.0.0.1:");

    /// Its port, once it listens.
    fn port(self, said: &str) -> Option<u16> {
        match self {
            Self::Says(words) => port_in(said, words),
            // Not by connecting: it would be a client that the server counts.
            Self::At(port) => {
                let sockets = fs::read_to_string("/proc/net/tcp").ok()?;
                is_listened_at(&sockets, port).then_some(port)
            }
        }
    }
}

/// A port of the loopback address that is free now, for servers that do not take any by themselves.
///
/// # Errors
///
/// If there is none.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Which CPUs a server has, and which those who drive it.
#[derive(Clone, Debug)]
pub struct Cpus {
    /// The server's.
    pub server: CpuList,
    /// Of this program and of the clients that it starts.
    pub clients: CpuList,
}

/// A server that listens. Dropped, it is killed.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Both its outputs.
    said: NamedTempFile,
    /// Where it listens, on the loopback address.
    pub port: u16,
}

impl Server {
    /// Starts it on its CPUs, leaves the calling thread on those of the clients, and comes back when it listens.
    ///
    /// # Errors
    ///
    /// If it ends instead: with what it said.
    pub fn start(command: Command, cpus: &Cpus) -> Result<Self> {
        Self::start_that(Listens::OURS, command, cpus)
    }

    /// As [`start`](Self::start), of a server that listens so.
    ///
    /// # Errors
    ///
    /// If it ends instead: with what it said.
    pub fn start_that(listens: Listens, mut command: Command, cpus: &Cpus) -> Result<Self> {
        let said = NamedTempFile::new().context("cannot make a file for what the server says")?;
        let output = said.reopen()?;
        command.stdout(output.try_clone()?).stderr(output);
        // A child begins where its parent's thread may run.
        pin_thread(&cpus.server)?;
        let started = command.spawn();
        pin_thread(&cpus.clients)?;
        let child = started.with_context(|| format!("cannot start {}", shell::line(&command)))?;
        let mut server = Self { child, said, port: 0 };
        server.port = server.wait_for_port(listens)?;
        Ok(server)
    }

    fn wait_for_port(&mut self, listens: Listens) -> Result<u16> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.child.try_wait()?;
            let said = self.said()?;
            if let Some(port) = listens.port(&said) {
                return Ok(port);
            }
            if let Some(status) = ended {
                bail!("{}", complaint(&said, status));
            }
            ensure!(
                Instant::now() < deadline,
                "it did not listen within {PATIENCE:?}; it said {said:?}"
            );
            sleep(LOOK);
        }
    }

    fn said(&self) -> Result<String> {
        fs::read_to_string(self.said.path()).context("cannot read what the server said")
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    /// How many descriptors it has open, those of its children not counted.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn descriptors(&self) -> Result<usize> {
        let folder = format!("/proc/{}/fd", self.pid());
        let open = fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
        Ok(open.count())
    }

    fn terminate(&self) -> rustix::io::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)
    }

    /// Sends SIGTERM and waits: the CPU time of its threads, and of the children that it waited for.
    ///
    /// No other child of this process may be waited for meanwhile, since the time comes from the sum over all.
    ///
    /// # Errors
    ///
    /// If it does not end, or not with 0.
    pub fn end(mut self) -> Result<Duration> {
        let before = usage_children().cpu();
        self.terminate().context("cannot send SIGTERM to the server")?;
        let status = self.wait()?;
        let used = usage_children().cpu() - before;
        ensure!(status.success(), "{}", complaint(&self.said()?, status));
        Ok(used)
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(
                Instant::now() < deadline,
                "the server did not end within {PATIENCE:?} of SIGTERM"
            );
            sleep(LOOK);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Asked first, so that it can end its own children; fails only if it has ended.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let _ = self.terminate();
        if self.wait().is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Why it ended, as far as it said: its error, or its last line.
fn complaint(said: &str, status: ExitStatus) -> String {
    let error = said.lines().find(|line| line.starts_with("error"));
    match error.or(said.lines().last()) {
        Some(line) => format!("it ended with {status}: {line}"),
        None => format!("it ended with {status} and said nothing"),
    }
}

/// Whether the kernel's table has a socket that listens at this port of the loopback address.
fn is_listened_at(sockets: &str, port: u16) -> bool {
    // Addresses in the order in which this machine has their bytes; state 0A listens.
    let local = format!("{:08X}:{port:04X}", u32::from_ne_bytes([127, 0, 0, 1]));
    sockets.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&*local) && fields.nth(1) == Some("0A")
    })
}

/// The port after these words, in the first line that has them.
fn port_in(said: &str, words: &str) -> Option<u16> {
    // A line is whole once its end is there.
    let lines = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines
        .filter_map(|line| line.split_once(words))
        .find_map(|(_, rest)| {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn an_error_is_quoted_and_not_the_advice_after_it() {
        let complaint = |said| complaint(said, ExitStatus::from_raw(2 << 8));
        assert_eq!(
            complaint("error: no design `x`\n\nFor more, try --help.\n"),
            "it ended with exit status: 2: error: no design `x`"
        );
        assert_eq!(
            complaint("one\nbind: in use\n"),
            "it ended with exit status: 2: bind: in use"
        );
        assert_eq!(complaint(""), "it ended with exit status: 2 and said nothing");
    }

    #[test]
    fn a_socket_that_listens_is_in_the_kernels_table() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let wait_until = |listens: bool| {
            let deadline = Instant::now() + PATIENCE;
            while Listens::At(port).port("").is_some() != listens {
                assert!(Instant::now() < deadline, "it should listen: {listens}");
                sleep(LOOK);
            }
        };
        wait_until(true);
        drop(listener);
        // A child that another test is about to start has it open until it is another program.
        wait_until(false);
    }

    #[test]
    fn the_port_is_read_once_its_line_is_whole() {
        let port_in = |said| Listens::OURS.port(said);
        assert_eq!(port_in("listening on 127.0.0.1:4711\n"), Some(4711));
        assert_eq!(
            port_in("design: x\nINFO listening on 127.0.0.1:80 (echo)\nmore"),
            Some(80)
        );
        assert_eq!(port_in("listening on 127.0.0.1:47"), None);
        assert_eq!(port_in("listening on 127.0.0.1:99999\n"), None);
    }
}
