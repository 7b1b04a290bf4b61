//! A server in a process of its own, and how a case holds it.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, kill_process_group, setrlimit, waitpgid,
};
use signal_hook::consts::SIGTERM;
use threadgauge_reactor::protocol::chat::Chat;
use threadgauge_reactor::protocol::echo::Echo;
use threadgauge_reactor::protocol::groups::{Access, Groups, Options};
use threadgauge_reactor::{AtOnce, BuiltIn, Design, Protocol, Server, Setting, Stop, Visitor};

use crate::Pair;
use crate::client::{Client, LeftOpen};
use crate::common::counted::{Counted, report};
use crate::common::proc::{self, children, descriptors};
use crate::common::settings;
use crate::panics::{Panics, Place};
use crate::processes::{family, has_socket, seen};

const SERVER: &str = "--server";

/// How many processes or threads serve where each has one connection.
pub const WORKERS: usize = 8;

/// How long a server may live.
const DEADLINE: Duration = Duration::from_secs(300);

/// So that a stop cuts nobody off, however long it takes to finish what has begun.
pub const LONG_DRAIN: &str = "drain_ms=290000";

/// The part of `main` that is a server's: `--server PROTOCOL DESIGN KEY=VALUE…`.
pub fn child() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (SERVER, [protocol, design, settings @ ..]) = (arguments.first()?.as_str(), &arguments[1..]) else {
        return None;
    };
    let protocol: BuiltIn = protocol.parse().expect("a protocol");
    let serve = Serve {
        design: design.parse().expect("a design"),
        settings,
    };
    let panics = Place::among(settings);
    Some(match (protocol, panics) {
        (BuiltIn::Groups, _) => serve.visit(groups(settings)),
        (BuiltIn::Chat, Some(place)) => serve.visit(Panics::new(Chat::default(), place)),
        (_, Some(place)) => serve.visit(Panics::new(Echo, place)),
        (protocol, None) => protocol.visit(serve),
    })
}

/// With those settings that begin with `groups.`.
fn groups(settings: &[String]) -> Groups {
    let mut options = Options {
        // A case that takes longer than usual hears what it expects, and nothing else.
        first_ping: Duration::from_secs(3_600),
        ..Options::default()
    };
    for setting in settings {
        let Some((key, value)) = setting.strip_prefix(GROUPS).and_then(|it| it.split_once('=')) else {
            continue;
        };
        let number = || value.parse::<usize>().expect("a number");
        match key {
            "token" => options.access = Access::Token(value.to_owned()),
            "max_connections" => options.max_connections = Some(number()),
            "max_subscriptions" => options.max_subscriptions = number(),
            "auth_timeout_ms" => options.auth_timeout = Duration::from_millis(number() as u64),
            "ping_interval_ms" => options.ping_interval = Duration::from_millis(number() as u64),
            "lame_duck_ms" => options.lame_duck = Duration::from_millis(number() as u64),
            "lame_duck_grace_ms" => options.lame_duck_grace = Duration::from_millis(number() as u64),
            _ => panic!("groups has no setting {key}"),
        }
    }
    Groups::new(options)
}

const GROUPS: &str = "groups.";

struct Serve<'a> {
    design: Design,
    settings: &'a [String],
}

impl Visitor for Serve<'_> {
    type Output = ExitCode;

    fn visit<P: Protocol>(self, protocol: P) -> ExitCode {
        let stop = Stop::new().expect("a pipe");
        let trigger = stop.trigger().expect("a descriptor");
        signal_hook::low_level::pipe::register(SIGTERM, trigger).expect("a handler");
        let mut server = Server::new(protocol).design(self.design);
        if self.design.uses(Setting::Workers) {
            let workers = match self.design.about().at_once {
                AtOnce::Workers => WORKERS,
                _ => 3,
            };
            server = server.workers(workers..=workers);
        }
        if self.design.uses(Setting::Readers) {
            server = server.readers(2);
        }
        if self.design.uses(Setting::Writers) {
            server = server.writers(2);
        }
        server = settings::with(server, self.settings, |name, value| {
            let number = || value.parse().expect("a number");
            match name {
                "descriptors" => limit(Resource::Nofile, number()),
                "more_memory" => {
                    let now = proc::number(std::process::id(), "VmSize").expect("a size") * 1024;
                    limit(Resource::As, now + number());
                }
                "panics" => {}
                _ => assert!(name.starts_with(GROUPS), "there is no setting {name}"),
            }
        });
        let before = descriptors(std::process::id());
        let bound = server.bind("127.0.0.1:0").expect("a free port");
        println!("{}", bound.local_addr());
        let totals = bound.run(&stop).expect("it serves");
        report(&totals);
        left_over(before)
    }
}

fn limit(resource: Resource, most: u64) {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(resource, limit).expect("a lower limit is allowed");
}

/// A server that has returned has what it had before.
fn left_over(descriptors_before: usize) -> ExitCode {
    let own = std::process::id();
    let left = (
        descriptors(own).saturating_sub(descriptors_before),
        proc::threads_left(),
        children(own).len(),
    );
    if left == (0, 0, 0) {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "left over: {} descriptors, {} threads, {} processes",
        left.0, left.1, left.2
    );
    ExitCode::FAILURE
}

/// A server that runs, until it is stopped or dropped.
pub struct Running {
    child: Child,
    /// The memory that it had used when it began to listen.
    began_kib: u64,
    out: BufReader<ChildStdout>,
    address: SocketAddr,
    clients: Mutex<Vec<LeftOpen>>,
    watch: Option<Watch>,
}

/// Kills the server at its deadline, so that whoever waits for it fails.
struct Watch {
    done: Sender<()>,
    thread: JoinHandle<Option<String>>,
}

impl Running {
    /// Started and listening.
    pub fn start(pair: Pair, settings: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([SERVER, pair.protocol.name(), pair.design.name()])
            .args(settings)
            // An arena for each thread would count as 64 MiB against a limit of memory, used or not.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = child.id();
        let (done, over) = channel();
        let thread = std::thread::spawn(move || match over.recv_timeout(DEADLINE) {
            Err(RecvTimeoutError::Timeout) => {
                let seen = seen(pid);
                kill(pid);
                Some(seen)
            }
            _ => None,
        });
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut address = String::new();
        out.read_line(&mut address).unwrap();
        Self {
            // The program itself takes more or less, as it was built.
            began_kib: proc::number(pid, "VmHWM").unwrap_or(0),
            child,
            out,
            address: address.trim_end().parse().expect("the server did not start"),
            clients: Mutex::default(),
            watch: Some(Watch { done, thread }),
        }
    }

    /// A client of it.
    pub fn connect(&self) -> Client {
        let client = Client::connect(self.address);
        self.clients.lock().unwrap().push(client.left_open());
        client
    }

    /// Tells it to stop. Does not wait.
    pub fn tell_to_stop(&self) {
        kill_process(raw(self.child.id()), Signal::TERM).expect("it runs");
    }

    /// Waits until nobody can connect any more: who tries is refused at once, rather than kept waiting.
    pub fn until_refused(&self) {
        while !matches!(TcpStream::connect(self.address), Err(error) if error.kind() == ErrorKind::ConnectionRefused)
        {
            std::thread::yield_now();
        }
    }

    /// # Panics
    ///
    /// If one of its processes has used more memory since it listens than a server of a few clients does that bounds
    /// what waits for each. `much` is what it would have held without a bound.
    pub fn held_little(&self, much: usize) {
        const LITTLE_KIB: u64 = 16 << 10;
        assert!(much as u64 >> 10 > LITTLE_KIB, "that little can be held");
        let used = self.peak_kib().saturating_sub(self.began_kib);
        assert!(used < LITTLE_KIB, "{used} KiB for slow clients");
    }

    /// The most memory that one of its processes has used until now, in KiB.
    fn peak_kib(&self) -> u64 {
        let peaks = family(self.child.id())
            .into_iter()
            .filter_map(|pid| proc::number(pid, "VmHWM"));
        peaks.max().expect("it runs")
    }

    /// Waits until none of its processes has this socket any more.
    pub fn until_closed(&self, inode: u32) {
        let pid = self.child.id();
        while family(pid).into_iter().any(|pid| has_socket(pid, inode)) {
            std::thread::yield_now();
        }
    }

    /// Tells it to stop, waits for its end, and checks what must be true of any: it ends well with nothing left over,
    /// and every connection that it accepted has ended for one reason.
    pub fn stop(self) -> Counted {
        self.tell_to_stop();
        self.end()
    }

    /// [`stop`](Self::stop), once it was told to.
    pub fn end(mut self) -> Counted {
        for client in self.clients.get_mut().unwrap() {
            client.end_with_the_server();
        }
        let mut out = String::new();
        self.out.read_to_string(&mut out).unwrap();
        let code = self.child.wait().unwrap();
        let overdue = self.watch.take().and_then(Watch::end);
        assert_eq!(overdue, None, "the server did not end in time");
        assert!(code.success(), "the server ended with {code}: {out}");
        let counted = Counted::read(&out);
        assert_eq!(counted.of("accepted"), counted.of("closed"), "{counted:?}");
        counted
    }
}

impl Watch {
    fn end(self) -> Option<String> {
        let _ = self.done.send(());
        self.thread.join().expect("it only waits")
    }
}

/// A case that has failed leaves no server behind.
impl Drop for Running {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            let group = self.child.id();
            kill(group);
            let _ = self.child.wait();
            // What it had forked has become ours, and has ended with it.
            while let Ok(Some(_)) = waitpgid(raw(group), WaitOptions::empty()) {}
            if let Some(seen) = watch.end() {
                eprintln!("the server was killed at its deadline: {seen}");
            }
        }
    }
}

fn kill(group: u32) {
    let _ = kill_process_group(raw(group), Signal::KILL);
}

fn raw(pid: u32) -> Pid {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.expect("a process id")
}

impl Counted {
    /// # Panics
    ///
    /// If it is another number, with all there are.
    pub fn expect(&self, name: &str, count: u64) {
        assert_eq!(self.of(name), count, "{name}, in {self:?}");
    }
}
