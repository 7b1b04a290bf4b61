//! A server in a process of its own: ours on one design, or `nats-server`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long a server, or a client, may take for what it is waited for.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Stands for the design that is taken where none is named.
pub const DEFAULT: &str = "default";

/// What `nats-server --signal ldm` sends.
const LEAVE: Signal = Signal::USR2;

/// What serves.
#[derive(Clone, Debug)]
pub enum Program {
    /// `threadgauge serve groups` on a design, or on [`DEFAULT`].
    Ours { threadgauge: PathBuf, design: String },
    /// The server that the clients were made for: what passes against it is right about NATS.
    Nats { nats_server: PathBuf },
}

impl Program {
    /// As cases are named.
    pub fn name(&self) -> &str {
        match self {
            Self::Ours { design, .. } => design,
            Self::Nats { .. } => "nats-server",
        }
    }
}

/// Who may connect.
#[derive(Clone, Copy, Debug, Default)]
pub enum Auth {
    #[default]
    Anyone,
    Token(&'static str),
    User(&'static str, &'static str),
}

/// What is asked of a server; the rest is at its defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    pub auth: Auth,
    /// How long a client may take to say who it is; as long as a test waits without it.
    pub auth_timeout_s: Option<u64>,
    /// The most bytes of a message.
    pub max_payload: Option<usize>,
    /// The most bytes that may wait for a client.
    pub max_pending: Option<usize>,
    /// A port that was free a moment ago, or any.
    pub port: Option<u16>,
    /// How many threads serve, where the design asks for that.
    pub workers: Option<usize>,
    /// With the monitor's pages.
    pub monitor: bool,
    /// How it [leaves](Server::tell_to_leave).
    pub lame_duck: Option<LameDuck>,
    /// The most clients.
    pub max_connections: Option<usize>,
    /// The most subscriptions of one client.
    pub max_subscriptions: Option<usize>,
    /// After how many silent seconds a client is asked whether it is there.
    pub ping_interval_s: Option<u32>,
    /// How often it is asked in vain before it is closed.
    pub ping_max: Option<u32>,
}

impl Settings {
    fn auth_timeout(&self) -> u64 {
        self.auth_timeout_s.unwrap_or(DEADLINE.as_secs())
    }

    /// What is a number for both: its name on our command line, its name in the file of `nats-server`, the number
    /// there.
    fn numbers(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let numbers = [
            ("--max-payload", "max_payload", self.max_payload.map(|n| n as u64)),
            (
                "--output-limit",
                "max_pending",
                self.max_pending.map(|n| n as u64),
            ),
            (
                "--max-connections",
                "max_connections",
                self.max_connections.map(|n| n as u64),
            ),
            (
                "--max-subscriptions",
                "max_subscriptions",
                self.max_subscriptions.map(|n| n as u64),
            ),
            (
                "--ping-interval",
                "ping_interval",
                self.ping_interval_s.map(u64::from),
            ),
            ("--ping-max", "ping_max", self.ping_max.map(u64::from)),
        ];
        numbers
            .into_iter()
            .filter_map(|(ours, theirs, number)| Some((ours, theirs, number?)))
    }
}

/// How long clients may stay once the server leaves, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct LameDuck {
    pub whole_s: u32,
    /// How long of it nobody is closed.
    pub grace_s: u32,
}

/// A server that runs, and is killed when dropped.
pub struct Server {
    child: Child,
    said: Option<BufReader<ChildStderr>>,
    address: SocketAddr,
    monitor: Option<SocketAddr>,
    /// Where `nats-server` has its settings and writes its port.
    _folder: tempfile::TempDir,
}

impl Server {
    /// Started, and listening.
    pub fn start(program: &Program, settings: &Settings) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        match program {
            Program::Ours { threadgauge, design } => ours(threadgauge, design, settings, folder),
            Program::Nats { nats_server } => nats(nats_server, settings, folder),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its pages are, if they were asked for.
    pub fn monitor(&self) -> Result<SocketAddr> {
        self.monitor.context("the server has no pages")
    }

    /// The same, as clients are told.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// A plain connection, on which every wait has its deadline.
    pub fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.address).context("a connection to the server")?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Tells it to stop. Does not wait.
    pub fn tell_to_stop(&self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("the server does not run")
    }

    /// Tells it to stop as a lame duck: to tell its clients, and to serve on for a while. Does not wait.
    pub fn tell_to_leave(&self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), LEAVE).context("the server does not run")
    }

    /// Waits until no signal is on its way to it.
    pub fn signals_arrived(&self) -> Result<()> {
        let pending = |status: &str| {
            let mut sets = status
                .lines()
                .filter(|line| line.starts_with("SigPnd") || line.starts_with("ShdPnd"))
                .filter_map(|line| line.split_whitespace().nth(1));
            sets.any(|set| set.contains(|digit| digit != '0'))
        };
        let deadline = Instant::now() + DEADLINE;
        let status = format!("/proc/{}/status", self.child.id());
        while pending(&std::fs::read_to_string(&status)?) {
            ensure!(Instant::now() < deadline, "a signal does not arrive");
            std::thread::yield_now();
        }
        Ok(())
    }

    /// How somebody else can tell it that: its process id, and the signal's number.
    pub fn how_to_leave(&self) -> (u32, i32) {
        (self.child.id(), LEAVE.as_raw())
    }

    /// The most memory that it has used until now, in KiB.
    pub fn peak_kib(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.context("Linux says so")?.parse()?)
    }

    /// Stops it, and holds it to a good end.
    pub fn stop(self) -> Result<()> {
        self.tell_to_stop()?;
        self.end()
    }

    /// Waits for a good end, once it was told to stop.
    pub fn end(mut self) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(Instant::now() < deadline, "the server did not end after SIGTERM");
            std::thread::yield_now();
        };
        let mut said = String::new();
        if let Some(mut pipe) = self.said.take() {
            pipe.read_to_string(&mut said)?;
        }
        // nats-server ends by the signal's number where it was told to stop.
        ensure!(
            matches!(status.code(), Some(0 | 1)) && !said.contains("panic"),
            "the server ended with {status}: {said}"
        );
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ours(threadgauge: &Path, design: &str, settings: &Settings, folder: tempfile::TempDir) -> Result<Server> {
    let mut command = Command::new(threadgauge);
    command.args(["serve", "groups"]);
    if design != DEFAULT {
        command.args(["--design", design]);
    }
    command.args(["--listen", &settings.port.unwrap_or(0).to_string()]);
    match settings.auth {
        Auth::Anyone => {}
        Auth::Token(token) => {
            command.args(["--token", token]);
        }
        Auth::User(user, password) => {
            command.args(["--user", user, "--password", password]);
        }
    }
    command.args(["--auth-timeout", &settings.auth_timeout().to_string()]);
    for (name, _, number) in settings.numbers() {
        command.args([name, &number.to_string()]);
    }
    if let Some(count) = settings.workers {
        command.args(["--workers", &count.to_string()]);
    }
    if settings.monitor {
        command.args(["--monitor", "0"]);
    }
    match settings.lame_duck {
        Some(LameDuck { whole_s, grace_s }) => {
            command.args(["--lame-duck", &whole_s.to_string()]);
            command.args(["--lame-duck-grace", &grace_s.to_string()]);
        }
        // A stop cuts nobody off, however long it takes to finish what has begun.
        None => {
            command.args(["--drain", &DEADLINE.as_secs().to_string()]);
        }
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", threadgauge.display()))?;
    let mut said = BufReader::new(child.stderr.take().context("it was piped")?);
    let mut first = String::new();
    said.read_line(&mut first)?;
    let Some(address) = first.strip_prefix("listening on ") else {
        said.read_to_string(&mut first)?;
        let _ = child.wait();
        bail!("the server did not start: {first}");
    };
    let monitor = match settings.monitor {
        true => Some(monitor_in(&mut said)?),
        false => None,
    };
    Ok(Server {
        monitor,
        address: address.trim_end().parse()?,
        child,
        said: Some(said),
        _folder: folder,
    })
}

/// It says where among other things.
fn monitor_in(said: &mut impl BufRead) -> Result<SocketAddr> {
    for line in said.lines() {
        if let Some(address) = line?.strip_prefix("monitor on http://") {
            return Ok(address.parse()?);
        }
    }
    bail!("the server does not say where its pages are")
}

fn nats(nats_server: &Path, settings: &Settings, folder: tempfile::TempDir) -> Result<Server> {
    let mut file = tempfile::NamedTempFile::new_in(folder.path())?;
    let timeout = settings.auth_timeout();
    match settings.auth {
        Auth::Anyone => {}
        Auth::Token(token) => {
            writeln!(file, "authorization {{ token: \"{token}\", timeout: {timeout} }}")?;
        }
        Auth::User(user, password) => {
            writeln!(
                file,
                "authorization {{ user: \"{user}\", password: \"{password}\", timeout: {timeout} }}"
            )?;
        }
    }
    for (_, name, number) in settings.numbers() {
        writeln!(file, "{name}: {number}")?;
    }
    if let Some(LameDuck { whole_s, grace_s }) = settings.lame_duck {
        writeln!(
            file,
            "lame_duck_duration: \"{whole_s}s\"\nlame_duck_grace_period: \"{grace_s}s\""
        )?;
    }
    let port = settings.port.map_or(-1, i32::from);
    let mut command = Command::new(nats_server);
    if settings.monitor {
        command.args(["--http_port", "-1"]);
    }
    let child = command
        .arg("--config")
        .arg(file.path())
        .args([
            "--addr",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--ports_file_dir",
        ])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", nats_server.display()))?;
    let mut server = Server {
        child,
        said: None,
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        monitor: None,
        _folder: folder,
    };
    let name = nats_server.file_name().unwrap_or_default().to_string_lossy();
    let ports = server
        ._folder
        .path()
        .join(format!("{name}_{}.ports", server.child.id()));
    let deadline = Instant::now() + DEADLINE;
    server.address = loop {
        let written = std::fs::read_to_string(&ports).unwrap_or_default();
        if let Some(address) = address_in(&written, "nats") {
            server.monitor = address_in(&written, "monitoring");
            break address;
        }
        if let Some(status) = server.child.try_wait()? {
            bail!("nats-server ended at once with {status}");
        }
        ensure!(
            Instant::now() < deadline,
            "nats-server wrote no {}",
            ports.display()
        );
        std::thread::yield_now();
    };
    Ok(server)
}

fn address_in(ports: &str, what: &str) -> Option<SocketAddr> {
    let ports: serde_json::Value = serde_json::from_str(ports).ok()?;
    let (_, address) = ports[what][0].as_str()?.split_once("://")?;
    address.parse().ok()
}
