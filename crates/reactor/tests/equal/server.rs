//! A server in a process of its own, which says what its sessions have seen and, at any time, what it has counted.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use signal_hook::consts::SIGTERM;
use threadgauge_reactor::{
    AtOnce, BuiltIn, CloseReason, Design, Protocol, Server, Setting, Stop, Totals, Visitor,
};

use crate::PATIENCE;
use crate::beside::Beside;
use crate::model::{Counted, Counts};
use crate::settings;
use crate::staying::{STAYS, Stays};
use crate::watched::{Seen, Watched};

const SERVER: &str = "--server";

// What a line of a server begins with.
const LISTENS: &str = "listens ";
const SEEN: &str = "seen ";
const NOW: &str = "now ";
const IN_ALL: &str = "in all ";

/// The part of `main` that is a server's: `--server PROTOCOL DESIGN WORKERS KEY=VALUE…`.
pub fn child() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [word, protocol, design, workers, settings @ ..] = &arguments[..] else {
        return None;
    };
    (word == SERVER).then(|| {
        let serve = Serve {
            design: design.parse().expect("a design"),
            workers: workers.parse().expect("a number"),
            settings,
        };
        match protocol.as_str() {
            STAYS => serve.visit(Stays),
            built_in => built_in.parse::<BuiltIn>().expect("a protocol").visit(serve),
        }
    })
}

struct Serve<'a> {
    design: Design,
    workers: usize,
    settings: &'a [String],
}

impl Visitor for Serve<'_> {
    type Output = ExitCode;

    fn visit<P: Protocol>(self, protocol: P) -> ExitCode {
        let stop = Stop::new().expect("a pipe");
        let trigger = stop.trigger().expect("a descriptor");
        signal_hook::low_level::pipe::register(SIGTERM, trigger).expect("a handler");
        let watched = Watched::new(protocol, |seen| say(SEEN, &seen.to_line()));
        let mut server = Server::new(watched).design(self.design);
        if self.design.uses(Setting::Workers) {
            let workers = match self.design.about().at_once {
                AtOnce::Workers => self.workers,
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
        let server = settings::with(server, self.settings, |name, _| {
            panic!("there is no setting {name}")
        });
        let bound = server.bind("127.0.0.1:0").expect("a free port");
        say(LISTENS, &bound.local_addr().to_string());
        let meter = bound.meter();
        let beside = Beside::start(|| say(NOW, &in_words(&meter.totals())));
        let totals = bound.run(&stop).expect("it serves");
        beside.end();
        say(IN_ALL, &in_words(&totals));
        ExitCode::SUCCESS
    }
}

/// A line by one call, so that those of several processes do not mix.
fn say(kind: &str, what: &str) {
    let line = format!("{kind}{what}\n");
    let written = rustix::io::write(rustix::stdio::stdout(), line.as_bytes());
    assert_eq!(written, Ok(line.len()), "the test reads");
}

fn in_words(totals: &Totals) -> String {
    let reasons = CloseReason::ALL.map(|reason| (reason.name(), totals.closed(reason)));
    let counts = totals
        .each()
        .chain(reasons)
        .chain([("closed", totals.all_closed())]);
    let words: Vec<String> = counts.map(|(name, count)| format!("{name}={count}")).collect();
    words.join(";")
}

/// A server that runs, until it is stopped or dropped.
pub struct Running {
    child: Child,
    /// Whatever is written there is answered with what was counted.
    ask: Option<ChildStdin>,
    lines: Receiver<String>,
    pub address: SocketAddr,
    /// What sessions have seen, by the ports of their clients.
    seen: HashMap<u16, Seen>,
}

impl Running {
    /// Started and listening, with so many workers where each has one connection.
    pub fn start(protocol: &str, design: Design, workers: usize, settings: &[String]) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([SERVER, protocol, design.name(), &workers.to_string()])
            .args(settings)
            // So that what is freed goes back to the system, as the README says.
            .env("MALLOC_MMAP_THRESHOLD_", "32768")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("started");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // Nobody hears it any more once the test is done.
                let _ = sender.send(line);
            }
        });
        let mut running = Self {
            ask: child.stdin.take(),
            child,
            lines,
            address: SocketAddr::from(([0; 4], 0)),
            seen: HashMap::new(),
        };
        let address = running.next(LISTENS).expect("it listens");
        running.address = address.parse().expect("an address");
        running
    }

    /// The next line of this kind; what sessions have seen is noted meanwhile.
    fn next(&mut self, kind: &str) -> Result<String, String> {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).map_err(|error| match error {
                RecvTimeoutError::Timeout => format!("the server does not say {kind:?} in time"),
                RecvTimeoutError::Disconnected => format!("the server ended without {kind:?}"),
            })?;
            if let Some(seen) = line.strip_prefix(SEEN) {
                let seen = Seen::from_line(seen);
                self.seen.insert(seen.port, seen);
            } else if let Some(said) = line.strip_prefix(kind) {
                return Ok(said.to_owned());
            } else {
                return Err(format!("the server says {line:?} instead of {kind:?}"));
            }
        }
    }

    /// What it has counted until now.
    fn now(&mut self) -> Result<Counted, String> {
        let mut ask = self.ask.as_ref().expect("it was not stopped");
        ask.write_all(b"?")
            .map_err(|error| format!("the server cannot be asked: {error}"))?;
        Ok(counted(&self.next(NOW)?))
    }

    /// Waits until it has counted as much as this.
    ///
    /// # Errors
    ///
    /// What it has counted instead for a long time.
    pub fn until(&mut self, counts: &Counts) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let now = self.now()?;
            match counts.differ(&now) {
                None => return Ok(()),
                Some(differs) if began.elapsed() > PATIENCE => return Err(differs),
                Some(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to stop. Does not wait.
    pub fn tell_to_stop(&self) {
        kill_process(raw(self.pid()), Signal::TERM).expect("it runs");
    }

    /// Waits for its end, once it was told to stop: what it has counted in all.
    ///
    /// # Errors
    ///
    /// If it does not end well.
    pub fn end(&mut self) -> Result<Counted, String> {
        // The process beside it ends, too.
        self.ask = None;
        let totals = self.next(IN_ALL)?;
        let code = self.child.wait().map_err(|error| error.to_string())?;
        match code.success() {
            true => Ok(counted(&totals)),
            false => Err(format!("the server ended with {code}")),
        }
    }

    /// Ends it at once, so that nobody waits for it in vain.
    pub fn kill(&self) {
        let _ = kill_process_group(raw(self.pid()), Signal::KILL);
    }

    /// What the session of the client at this port has seen, once the server has ended.
    pub fn seen(&self, port: u16) -> Option<Seen> {
        self.seen.get(&port).copied()
    }
}

/// What [`in_words`] has said.
fn counted(words: &str) -> Counted {
    let counts = words.split(';').filter_map(|word| word.split_once('='));
    counts
        .map(|(name, count)| (name.to_owned(), count.parse().expect("a count")))
        .collect()
}

/// A round that has failed leaves no server behind.
impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

fn raw(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).expect("a process id")
}
