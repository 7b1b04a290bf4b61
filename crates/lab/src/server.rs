//! A server under test: started on CPUs of its own, waited for until it listens, watched, and ended.
//!
//! A worker whose case is about a server starts it, loads it from its own threads and ends it. Whatever becomes of the
//! worker, the [`launch`](crate::launch) ends what it left below it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};
use threadgauge_machine::{
    Activity, CpuList, allowed_cpus, cores_first, end_with_this_thread, pin_thread, smt_siblings,
    usage_children,
};
use threadgauge_results::{Lack, Need};

use crate::worker::CaseError;

/// How long it may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at something that sends no event.
const LOOK: Duration = Duration::from_millis(1);

/// How one knows that a server listens, and where: on the loopback address where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listens {
    /// It says these words and then its port.
    Says(&'static str),
    /// It says, as ours do, that it listens at this address, and its port.
    Ours(Ipv4Addr),
    /// It was told this port, and takes connections there.
    At(u16),
}

impl Listens {
    /// As ours and the C programs do on the loopback address.
    pub const OURS: Self = Self::Ours(Ipv4Addr::LOCALHOST);

    /// Where it is reached.
    const fn address(self) -> Ipv4Addr {
        match self {
            Self::Ours(address) => address,
            Self::Says(_) | Self::At(_) => Ipv4Addr::LOCALHOST,
        }
    }

    /// Its port, once it listens.
    fn port(self, said: &str) -> Option<u16> {
        match self {
            Self::Says(words) => port_in(said, words),
            Self::Ours(address) => port_in(said, &format!("listening on {address}:")),
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
pub fn free_port() -> Result<u16, CaseError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let address = listener.map_err(|e| CaseError::failed("looking for a free port", e))?;
    Ok(address.port())
}

/// Which CPUs a server has, and which those who drive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The server's.
    pub server: CpuList,
    /// Of this process and of the clients that it starts.
    pub clients: CpuList,
}

impl Cpus {
    /// The first `server` CPUs of this process, [those of different cores first](cores_first), for the server and the
    /// others for its clients. Where none is left, both
    /// have all.
    ///
    /// # Errors
    ///
    /// If the system does not say which CPUs this process may use.
    pub fn divided(server: usize) -> Result<Self, CaseError> {
        let all = allowed_cpus().map_err(|e| CaseError::failed("asking for the CPUs", e))?;
        Ok(Self::of(&all, &smt_siblings(), server))
    }

    fn of(all: &CpuList, siblings: &[CpuList], server: usize) -> Self {
        let (in_order, _) = cores_first(all, siblings);
        let (server, others) = in_order.split_at(server.min(in_order.len()));
        let list = |cpus: &[usize]| CpuList::new(cpus.iter().copied());
        Self {
            server: list(server),
            clients: if others.is_empty() {
                all.clone()
            } else {
                list(others)
            },
        }
    }
}

/// A server that listens. Dropped, it is ended.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Both its outputs.
    said: File,
    address: SocketAddr,
}

impl Server {
    /// Starts `threadgauge serve` with these arguments, on any free port of the loopback address, and comes back when
    /// it listens.
    ///
    /// # Errors
    ///
    /// As [`start_that`](Self::start_that).
    pub fn ours<A: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = A>,
        cpus: &Cpus,
    ) -> Result<Self, CaseError> {
        Self::ours_at(Ipv4Addr::LOCALHOST, arguments, cpus)
    }

    /// The same at another address, of the network that the calling thread is in.
    ///
    /// # Errors
    ///
    /// As [`start_that`](Self::start_that).
    pub fn ours_at<A: AsRef<OsStr>>(
        address: Ipv4Addr,
        arguments: impl IntoIterator<Item = A>,
        cpus: &Cpus,
    ) -> Result<Self, CaseError> {
        let program = std::env::current_exe().map_err(|e| CaseError::failed("looking for threadgauge", e))?;
        let command = serves(Command::new(program), address, arguments);
        Self::start_that(Listens::Ours(address), command, cpus)
    }

    /// As [`ours`](Self::ours), run by the user, and the group, of this number.
    ///
    /// # Errors
    ///
    /// As [`start_that`](Self::start_that), and skipped where this process may not start a program as another user.
    pub fn ours_as<A: AsRef<OsStr>>(
        user: u32,
        arguments: impl IntoIterator<Item = A>,
        cpus: &Cpus,
    ) -> Result<Self, CaseError> {
        // A path that any user may follow, wherever the program lies.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("threadgauge").uid(user).gid(user);
        let command = serves(command, Ipv4Addr::LOCALHOST, arguments);
        Self::start_or(Listens::OURS, command, cpus, not_started_as)
    }

    /// Starts a server that says where it listens as ours do: see [`start_that`](Self::start_that).
    ///
    /// # Errors
    ///
    /// As [`start_that`](Self::start_that).
    pub fn start(command: Command, cpus: &Cpus) -> Result<Self, CaseError> {
        Self::start_that(Listens::OURS, command, cpus)
    }

    /// Starts it on its CPUs, leaves the calling thread on those of the clients, and comes back when it listens.
    /// Blocks for some milliseconds, and at most 20 s. It ends with the calling thread at the latest.
    ///
    /// # Errors
    ///
    /// Skipped where the program is not there. Failed where it ends instead or says nothing in time: with what it said.
    pub fn start_that(listens: Listens, command: Command, cpus: &Cpus) -> Result<Self, CaseError> {
        Self::start_or(listens, command, cpus, not_started)
    }

    /// As [`start_that`](Self::start_that); `why` says why it is not there.
    fn start_or(
        listens: Listens,
        mut command: Command,
        cpus: &Cpus,
        why: fn(&Command, &io::Error) -> CaseError,
    ) -> Result<Self, CaseError> {
        let broken = |e: io::Error| CaseError::failed("starting a server", e);
        let said = memfd_create("said", MemfdFlags::CLOEXEC).map_err(|e| broken(e.into()))?;
        let said = File::from(said);
        let output = said.try_clone().map_err(broken)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(broken)?)
            .stderr(output);
        // A worker that is killed takes it along.
        end_with_this_thread(&mut command);
        // A child begins where its parent's thread may run.
        let pin = |cpus| pin_thread(cpus).map_err(|e| CaseError::failed("pinning a server", e));
        pin(&cpus.server)?;
        let started = command.spawn();
        pin(&cpus.clients)?;
        let child = started.map_err(|e| why(&command, &e))?;
        let address = SocketAddr::from((listens.address(), 0));
        let mut server = Self { child, said, address };
        let port = server.wait_for_port(listens)?;
        server.address.set_port(port);
        Ok(server)
    }

    fn wait_for_port(&mut self, listens: Listens) -> Result<u16, CaseError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.ended()?;
            let said = self.said();
            if let Some(port) = listens.port(&said) {
                return Ok(port);
            }
            if let Some(status) = ended {
                return Err(CaseError::Failed(complaint(&said, status)));
            }
            if Instant::now() >= deadline {
                let says = format!("the server did not listen within {PATIENCE:?}; it said {said:?}");
                return Err(CaseError::Failed(says));
            }
            sleep(LOOK);
        }
    }

    /// What it has said until now. It shares its offset in the file with nobody who reads.
    fn said(&self) -> String {
        let path = format!("/proc/self/fd/{}", self.said.as_raw_fd());
        fs::read_to_string(path).unwrap_or_default()
    }

    /// The port where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    /// What it and all below it have done until now, and what they hold.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn activity(&self) -> Result<Activity, CaseError> {
        Activity::of(self.pid()).map_err(|e| CaseError::failed("looking at the server", e))
    }

    /// How many descriptors it has open, those of its children not counted.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn descriptors(&self) -> Result<usize, CaseError> {
        let open = fs::read_dir(format!("/proc/{}/fd", self.pid()));
        Ok(open
            .map_err(|e| CaseError::failed("looking at the server's descriptors", e))?
            .count())
    }

    fn terminate(&self) -> rustix::io::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)
    }

    /// Sends SIGTERM and waits: the CPU time of its threads, and of the children that it waited for. Blocks until it
    /// has ended, at most 20 s.
    ///
    /// No other child of this process may be waited for meanwhile, since the time comes from the sum over all.
    ///
    /// # Errors
    ///
    /// If it does not end, or not with 0.
    pub fn end(mut self) -> Result<Duration, CaseError> {
        let before = usage_children().cpu();
        let status = self.stop()?;
        let used = usage_children().cpu() - before;
        if !status.success() {
            return Err(CaseError::Failed(complaint(&self.said(), status)));
        }
        Ok(used)
    }

    /// Sends SIGTERM, unless it has ended by itself, and waits: how it ended, whatever that is. Blocks as
    /// [`end`](Self::end) does.
    ///
    /// # Errors
    ///
    /// If it does not end.
    pub fn stop(&mut self) -> Result<ExitStatus, CaseError> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        self.terminate()
            .map_err(|e| CaseError::failed("ending the server", e))?;
        self.wait()
    }

    fn wait(&mut self) -> Result<ExitStatus, CaseError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                let says = format!("the server did not end within {PATIENCE:?} of SIGTERM");
                return Err(CaseError::Failed(says));
            }
            sleep(LOOK);
        }
    }

    /// How it ended, where it has by itself.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, CaseError> {
        let ended = self.child.try_wait();
        ended.map_err(|e| CaseError::failed("waiting for the server", e))
    }
}

/// Has it serve, at any free port of this address.
fn serves<A: AsRef<OsStr>>(
    mut command: Command,
    address: Ipv4Addr,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    command
        .arg("serve")
        .args(arguments)
        .args(["--listen", &format!("{address}:0")]);
    command
}

/// Why it is not there as another user's.
fn not_started_as(_: &Command, error: &io::Error) -> CaseError {
    let says = format!("a server cannot be started as a user of its own here: {error}");
    CaseError::Skipped(Lack::new(Need::System, says))
}

/// Why it is not there.
fn not_started(command: &Command, error: &io::Error) -> CaseError {
    let program = command.get_program().display();
    match error.kind() {
        io::ErrorKind::NotFound => {
            let says = format!("needs the program {program}, which is not here");
            CaseError::Skipped(Lack::new(Need::Program, says))
        }
        _ => CaseError::failed(format!("starting {program}"), error),
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
        Some(line) => format!("the server ended with {status}: {line}"),
        None => format!("the server ended with {status} and said nothing"),
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

    /// A shell in a server's place.
    fn started(script: &str) -> Result<Server, CaseError> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Server::start(command, &Cpus::divided(1).unwrap())
    }

    #[test]
    fn a_server_is_waited_for_watched_and_ended() {
        let server =
            started("echo listening on 127.0.0.1:4711; trap 'exit 0' TERM; while :; do sleep 0.01; done")
                .unwrap();
        assert_eq!([server.port(), server.address().port()], [4711; 2]);
        assert!(server.activity().unwrap().thread_count >= 1);
        let pid = server.pid();
        assert!(server.end().unwrap() > Duration::ZERO);
        assert!(Activity::of(pid).is_err());
    }

    #[test]
    fn a_server_that_nobody_ended_ends_with_what_holds_it() {
        let server = started("echo listening on 127.0.0.1:4711; while :; do sleep 0.01; done").unwrap();
        let pid = server.pid();
        drop(server);
        assert!(Activity::of(pid).is_err());
    }

    #[test]
    fn how_one_ends_is_told_whether_it_was_asked_or_not() {
        let mut by_itself = started("echo listening on 127.0.0.1:4711; exit 3").unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        let ended = loop {
            if let Some(status) = by_itself.ended().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it has ended");
            sleep(LOOK);
        };
        assert_eq!(ended.code(), Some(3));
        assert_eq!(by_itself.stop().unwrap().code(), Some(3));
        let script = "trap 'exit 5' TERM; echo listening on 127.0.0.1:4711; while :; do sleep 0.01; done";
        let mut asked = started(script).unwrap();
        assert_eq!(asked.ended().unwrap(), None);
        assert_eq!(asked.stop().unwrap().code(), Some(5));
    }

    #[test]
    fn a_server_that_may_not_be_another_users_is_lacking_and_not_wrong() {
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let why = not_started_as(&Command::new("threadgauge"), &refused);
        assert!(matches!(why, CaseError::Skipped(lack) if lack.of == Need::System));
    }

    #[test]
    fn one_that_cannot_listen_is_quoted_and_one_that_is_not_there_skipped() {
        let failed = started("echo 'error: the port is in use' >&2; exit 3").unwrap_err();
        assert!(matches!(failed, CaseError::Failed(_)), "{failed:?}");
        assert_eq!(
            failed.to_string(),
            "the server ended with exit status: 3: error: the port is in use"
        );
        let gone = Server::start(Command::new("/no/server"), &Cpus::divided(1).unwrap());
        assert!(matches!(gone, Err(CaseError::Skipped(lack)) if lack.says.contains("/no/server")));
    }

    #[test]
    fn clients_have_what_the_server_leaves_or_share() {
        let all = CpuList::new(0..4);
        let of = |server| Cpus::of(&all, &[], server);
        assert_eq!([of(1).server.len(), of(1).clients.len()], [1, 3]);
        assert!(!of(3).clients.contains(2) && of(3).server.contains(2));
        assert_eq!((of(4).server, of(4).clients), (all.clone(), all.clone()));
        let cores = [CpuList::new([0, 1]), CpuList::new([2, 3])];
        let two = Cpus::of(&all, &cores, 2);
        assert_eq!(
            (two.server, two.clients),
            (CpuList::new([0, 2]), CpuList::new([1, 3]))
        );
    }

    #[test]
    fn an_error_is_quoted_and_not_the_advice_after_it() {
        let complaint = |said| complaint(said, ExitStatus::from_raw(2 << 8));
        assert_eq!(
            complaint("error: no design `x`\n\nFor more, try --help.\n"),
            "the server ended with exit status: 2: error: no design `x`"
        );
        assert_eq!(
            complaint("one\nbind: in use\n"),
            "the server ended with exit status: 2: bind: in use"
        );
        assert_eq!(
            complaint(""),
            "the server ended with exit status: 2 and said nothing"
        );
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
