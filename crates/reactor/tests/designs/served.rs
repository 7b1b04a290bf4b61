//! A server in a process of its own, seen from outside: by its clients, and through /proc.

use std::io::{BufRead, BufReader, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::{Pid, Signal, kill_process};
use threadgauge_reactor::{BuiltIn, Design, Protocol, Server, Stop, Visitor};

use crate::common::counted::{self, Counted};
use crate::common::{proc, settings};
use crate::seccomp::{refuse_io_uring, refuse_threads, refuse_to_accept};

const SERVE: &str = "--serve";

/// How long anything may take before a test gives up.
const DEADLINE: Duration = Duration::from_secs(120);

/// Waits until it is true.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A running server.
pub struct Served {
    child: Child,
    pub address: SocketAddr,
}

impl Served {
    /// `settings` are words like `workers=1..4`.
    pub fn start(design: &str, protocol: &str, settings: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([SERVE, design, protocol])
            .args(settings)
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("piped");
        // One byte at a time: what comes later is for `stop`.
        while !line.ends_with('\n') {
            let mut byte = [0];
            output.read_exact(&mut byte).expect("it says where it listens");
            line.push(byte[0].into());
        }
        Self {
            child,
            address: line.trim().parse().expect("an address"),
        }
    }

    /// What a server says that does not start, of the protocol echo.
    pub fn refused(design: &str, settings: &[&str]) -> String {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args([SERVE, design, "echo"])
            .args(settings)
            .output()
            .expect("run");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("text")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its children that are not dead.
    pub fn children(&self) -> Vec<u32> {
        let mut children = proc::children(self.pid());
        children.retain(|&child| is_alive(child));
        children
    }

    /// Its threads but the first.
    pub fn other_threads(&self) -> Vec<u32> {
        let first = self.pid();
        let folder = std::fs::read_dir(format!("/proc/{first}/task")).expect("it runs");
        let threads = folder.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        threads.filter(|&thread| thread != first).collect()
    }

    /// Their names, in order.
    pub fn thread_names(&self) -> Vec<String> {
        // A thread may end between the two looks.
        let name = |thread| std::fs::read_to_string(format!("/proc/{thread}/comm")).ok();
        let names = self.other_threads().into_iter().filter_map(name);
        let mut names: Vec<_> = names.map(|name| name.trim().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// How many threads its first process has.
    pub fn threads(&self) -> usize {
        proc::number(self.pid(), "Threads").expect("it runs") as usize
    }

    /// How often each thread of its first process has given up a CPU, if they all sleep. Twice the same means that all
    /// of them slept at the same time, with nothing that could wake them, and that none has run in between.
    pub fn asleep(&self) -> Option<Vec<(u32, u64)>> {
        let threads = std::iter::once(self.pid()).chain(self.other_threads());
        let asleep = |thread| {
            // One may end between the two looks.
            let sleeps = proc::status(thread, "State")? == "S";
            let switches = proc::number(thread, "voluntary_ctxt_switches")?;
            sleeps.then_some((thread, switches))
        };
        threads.map(asleep).collect()
    }

    /// Waits until all threads of its first process sleep, and gives what [`asleep`](Self::asleep) says then.
    pub fn fall_asleep(&self) -> Vec<(u32, u64)> {
        let mut before = None;
        until("it sleeps", || {
            let last = std::mem::replace(&mut before, self.asleep());
            before.is_some() && before == last
        });
        before.expect("just seen")
    }

    /// The listening sockets that a process has on the server's port, by inode.
    pub fn listening_sockets(&self, pid: u32) -> Vec<u64> {
        const LISTENS: &str = "0A";
        let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc");
        let port = format!(":{:04X}", self.address.port());
        let inodes: Vec<u64> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| words[1].ends_with(&port) && words[3] == LISTENS)
            .map(|words| words[9].parse().expect("an inode"))
            .collect();
        let mut sockets = sockets(pid);
        sockets.retain(|inode| inodes.contains(inode));
        sockets
    }

    /// So many clients at once, each of which says something, has it echoed, and is ended.
    pub fn serve_at_once(&self, clients: usize) {
        let clients: Vec<_> = (0..clients)
            .map(|_| {
                let mut client = self.client();
                client.send("hello\n");
                client.socket().shutdown(Shutdown::Write).expect("ended");
                client
            })
            .collect();
        for mut client in clients {
            assert_eq!(client.line(), "hello\n");
            assert!(client.has_ended());
        }
    }

    /// Connects.
    pub fn client(&self) -> Client {
        let socket = TcpStream::connect(self.address).expect("connected");
        socket.set_read_timeout(Some(DEADLINE)).expect("a limit");
        Client(BufReader::new(socket))
    }

    /// Tells it to stop.
    pub fn tell_to_stop(&self) {
        kill(self.pid(), Signal::TERM);
    }

    /// Stops it, and reads what it has counted.
    pub fn stop(mut self) -> Counted {
        self.tell_to_stop();
        let mut text = String::new();
        let output = self.child.stdout.as_mut().expect("piped");
        output.read_to_string(&mut text).expect("a summary");
        assert!(self.child.wait().expect("its end").success());
        Counted::read(&text)
    }

    /// Tells it to stop, and waits for its end, whichever that is.
    pub fn end(mut self) -> ExitStatus {
        self.tell_to_stop();
        let mut ended = None;
        until("it ends", || {
            ended = self.child.try_wait().expect("it is a child");
            ended.is_some()
        });
        ended.expect("just seen")
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its end");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // After `stop` there is nobody to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that waits for what it expects.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn send(&mut self, text: &str) {
        use std::io::Write;
        self.0.get_mut().write_all(text.as_bytes()).expect("sent");
    }

    /// The next line, or what comes before the end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line
    }

    /// Takes little at a time: what is sent to it soon waits at the server.
    pub fn take_little(&self) {
        set_socket_recv_buffer_size(self.socket(), 65_536).expect("set");
    }

    /// Waits until something can be read, and leaves it there.
    pub fn peek(&self) {
        let count = self.socket().peek(&mut [0]).expect("something comes");
        assert_eq!(count, 1, "it has ended");
    }

    /// Whether something can be read at once.
    pub fn has_something(&self) -> bool {
        self.socket().set_nonblocking(true).expect("set");
        let peeked = self.socket().peek(&mut [0]);
        self.socket().set_nonblocking(false).expect("set");
        !matches!(peeked, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Sends a line and has it echoed: so it is being served.
    pub fn echo(&mut self) {
        self.send("hello\n");
        assert_eq!(self.line(), "hello\n");
    }

    /// Whether the server has ended the connection, in whichever way.
    pub fn has_ended(&mut self) -> bool {
        let mut byte = [0];
        match self.0.read(&mut byte) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Its socket.
    pub fn socket(&self) -> &TcpStream {
        self.0.get_ref()
    }
}

/// The sockets that a process has, by inode.
pub fn sockets(pid: u32) -> Vec<u64> {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    descriptors
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?;
            inode.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

/// Sends a signal.
pub fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process id");
    kill_process(pid, signal).expect("there is such a process");
}

/// The system call in which a process or thread waits, if it does.
pub fn waits_in(id: u32) -> Option<i64> {
    let call = std::fs::read_to_string(format!("/proc/{id}/syscall")).ok()?;
    call.split_whitespace().next()?.parse().ok()
}

/// Whether a process is there and not dead.
pub fn is_alive(pid: u32) -> bool {
    proc::status(pid, "State").is_some_and(|state| state != "Z" && state != "X")
}

/// The part of `main` that is the server's.
pub fn serve() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != SERVE {
        return None;
    }
    let design = arguments.next()?.parse::<Design>().expect("a design");
    let protocol = arguments.next()?.parse::<BuiltIn>().expect("a protocol");
    Some(protocol.visit(Serve {
        design,
        settings: arguments.collect(),
    }))
}

struct Serve {
    design: Design,
    settings: Vec<String>,
}

impl Visitor for Serve {
    type Output = ExitCode;

    fn visit<P: Protocol>(self, protocol: P) -> ExitCode {
        let server = Server::new(protocol).design(self.design);
        let server = settings::with(server, &self.settings, |name, value| match (name, value) {
            ("io_uring", "refused") => refuse_io_uring(),
            ("accept", "refused") => refuse_to_accept(),
            ("threads", "refused") => refuse_threads(),
            ("threads", count) => {
                for _ in 0..count.parse().expect("a number") {
                    std::thread::spawn(std::thread::park);
                }
            }
            _ => panic!("there is no setting {name}={value}"),
        });
        let stop = Stop::new().expect("a pipe");
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, stop.trigger().expect("a pipe"))
            .expect("a handler");
        let bound = server.bind("127.0.0.1:0").expect("bound");
        println!("{}", bound.local_addr());
        match bound.run(&stop) {
            Ok(totals) => {
                counted::report(&totals);
                let own = std::process::id();
                counted::say("left", proc::children(own).len() as u64);
                counted::say("descriptors", proc::descriptors(own) as u64);
                counted::say("threads", 1 + proc::threads_left());
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        }
    }
}
