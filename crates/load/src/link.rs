//! A limited link between clients and a server of this machine, as source 002 had a network of 100 Mbit a second.
//!
//! Two network namespaces that this program makes, joined by a pair of virtual interfaces; what leaves either end goes
//! through a token bucket of the kernel (`tbf`). So it is full duplex, as a switched network is. Nothing outside of the
//! two is changed.
//!
//! Both ends are gone when this program is, however it ends, and with them all that was started there, whatever that
//! has become: each end is a namespace of processes, too, which the kernel ends as a whole with its first process. That
//! one waits for its standard input to close, which this program holds open. A signal at the death of the parent would
//! not do: it is of the thread that started a child, and what the child starts has none.
//!
//! Takes the programs `unshare`, `nsenter`, `ip` and `tc`, and the permission to use them. What lacks is the reason of
//! the refusal.

mod owner;

use std::env;
use std::fmt;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::str::FromStr;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use self::owner::{Owner, end_orphans};

/// The addresses of both ends, of a network that is for tests of devices.
const CLIENTS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const INTERFACE: &str = "link0";
/// How long a packet waits at most before it is dropped: the buffer of a small switch.
const QUEUE: &str = "50ms";
/// What may go at once: several whole packets at least.
const LEAST_BURST_BYTES: u64 = 16 * 1024;

/// How much a link carries in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRate(u64);

/// Not a rate of bits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no rate of a link: it is a whole number with kbit, mbit or gbit, as in 100mbit, up to 100gbit"
)]
pub struct BitRateError(String);

impl BitRate {
    /// Bits a second.
    pub fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for BitRate {
    type Err = BitRateError;

    /// As `tc` writes it: `100mbit` are 100,000,000 bits a second.
    fn from_str(text: &str) -> Result<Self, BitRateError> {
        const MOST: u64 = 100_000_000_000;
        let error = || BitRateError(text.to_owned());
        let units = [("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];
        let (digits, bits) = units
            .into_iter()
            .find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)))
            .ok_or_else(error)?;
        let number: u64 = digits.parse().map_err(|_| error())?;
        let rate = number.checked_mul(bits).filter(|rate| (1..=MOST).contains(rate));
        rate.map(Self).ok_or_else(error)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("gbit", 1_000_000_000), ("mbit", 1_000_000)];
        let whole = units.into_iter().find(|(_, bits)| self.0.is_multiple_of(*bits));
        let (unit, bits) = whole.unwrap_or(("kbit", 1_000));
        write!(f, "{}{unit}", self.0 / bits)
    }
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// A program is not installed, or cannot be started.
    #[error("a limited link needs the program `{program}`, which cannot be started: {source}")]
    Program {
        /// Its name.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A program was refused what it was to do.
    #[error(
        "no limited link here: `{command}` was refused: {says}; it takes root and a kernel with veth and tbf"
    )]
    Refused {
        /// What was tried.
        command: String,
        /// What it said.
        says: String,
    },
    /// A namespace cannot be entered.
    #[error("no limited link here: a network namespace cannot be entered: {0}; it takes root")]
    Enter(io::Error),
}

/// Two network namespaces with a limited link between them. Dropped, both are gone, with all that was started there.
#[derive(Debug)]
pub struct Link {
    clients: Namespace,
    server: Namespace,
}

impl Link {
    /// Where the server is reached, from the clients' end.
    pub const SERVER: Ipv4Addr = SERVER;

    /// Makes both ends and what is between them. Blocks for some ten milliseconds. What may be left of the links of
    /// processes that are no more is ended first.
    ///
    /// # Errors
    ///
    /// If a program lacks or is refused; nothing is left behind then.
    pub fn new(rate: BitRate) -> Result<Self, LinkError> {
        end_orphans();
        let link = Self {
            clients: Namespace::new()?,
            server: Namespace::new()?,
        };
        let other = link.server.holder.id().to_string();
        let (bits, burst) = (
            format!("{}bit", rate.0),
            LEAST_BURST_BYTES.max(rate.0 / 8 / 1_000),
        );
        link.clients.run(&[&[
            "ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", &other,
        ]])?;
        for (end, address) in [(&link.clients, CLIENTS), (&link.server, SERVER)] {
            let (address, burst) = (format!("{address}/30"), burst.to_string());
            end.run(&[
                &["ip", "link", "set", "lo", "up"],
                &["ip", "address", "add", &address, "dev", INTERFACE],
                &["ip", "link", "set", INTERFACE, "up"],
                &[
                    "tc", "qdisc", "add", "dev", INTERFACE, "root", "tbf", "rate", &bits, "burst", &burst,
                    "latency", QUEUE,
                ],
            ])?;
        }
        Ok(link)
    }

    /// Moves the calling thread to the clients' end for good: sockets and threads that it makes from now on are there.
    ///
    /// # Errors
    ///
    /// If that is not permitted.
    pub fn enter(&self) -> Result<(), LinkError> {
        self.clients.enter()
    }

    /// Moves the calling thread to the server's end: what it starts from now on is there, until it
    /// [enters](Self::enter) the other.
    ///
    /// # Errors
    ///
    /// If that is not permitted.
    pub fn enter_server(&self) -> Result<(), LinkError> {
        self.server.enter()
    }

    /// To start `program` at the server's end, in the current folder: what is added are its arguments. Its process ids
    /// are others there. It ends with the link, as all that it starts.
    ///
    /// # Errors
    ///
    /// If there is no current folder.
    pub fn command(&self, program: &str) -> Result<Command, LinkError> {
        self.server.command(program).map_err(|source| LinkError::Program {
            program: program.to_owned(),
            source,
        })
    }

    /// How many packets were held back at the clients' end since the link was made, and at the server's.
    ///
    /// # Errors
    ///
    /// If the kernel's counters cannot be read.
    pub fn held_back(&self) -> Result<[u64; 2], LinkError> {
        let of = |end: &Namespace| {
            let said = end.run(&[&["tc", "-s", "qdisc", "show", "dev", INTERFACE]])?;
            Ok(overlimits(&said).unwrap_or(0))
        };
        Ok([of(&self.clients)?, of(&self.server)?])
    }
}

/// The number after `overlimits`.
fn overlimits(statistics: &str) -> Option<u64> {
    let (_, rest) = statistics.split_once("overlimits ")?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// A network namespace and one of processes, which are there as long as the process that holds them.
#[derive(Debug)]
struct Namespace {
    /// It waits for the first process inside.
    holder: Child,
}

/// The first process inside. What loses its parent there is its child, of which it takes no notice.
const FIRST: &str = "trap '' CHLD; echo held; exec cat";

impl Namespace {
    fn new() -> Result<Self, LinkError> {
        let line = [
            "unshare",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            FIRST,
        ];
        let mut command = command(&line);
        // Ctrl-C is for this program alone.
        command.stdin(Stdio::piped()).process_group(0);
        if let Some(this) = Owner::this() {
            this.mark(&mut command);
        }
        let start = |source| LinkError::Program {
            program: line[0].to_owned(),
            source,
        };
        let mut holder = command.spawn().map_err(start)?;
        // It says so once it is inside, or ends without a word.
        let mut said = [0; 5];
        let mut output = holder.stdout.take().expect("it is piped");
        if io::Read::read_exact(&mut output, &mut said).is_ok() {
            return Ok(Self { holder });
        }
        let output = holder.wait_with_output().map_err(start)?;
        Err(refused(&line, &output))
    }

    fn enter(&self) -> Result<(), LinkError> {
        let file = File::open(format!("/proc/{}/ns/net", self.holder.id())).map_err(LinkError::Enter)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| LinkError::Enter(error.into()))
    }

    fn command(&self, program: &str) -> io::Result<Command> {
        let mut command = Command::new("nsenter");
        for (kind, file) in [("net", "net"), ("pid", "pid_for_children"), ("mount", "mnt")] {
            command.arg(format!("--{kind}=/proc/{}/ns/{file}", self.holder.id()));
        }
        // In another namespace of mounts it is at the root.
        command.args(["sh", "-c", "cd -- \"$0\" && exec \"$@\""]);
        command.arg(env::current_dir()?).arg(program);
        if let Some(this) = Owner::this() {
            this.mark(&mut command);
        }
        Ok(command)
    }

    /// On a thread that is inside and then ends, since a thread has no way back that is sure.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LinkError> {
        thread::scope(|scope| {
            let inside = thread::Builder::new().spawn_scoped(scope, || {
                self.enter()?;
                Ok(work())
            });
            inside
                .map_err(LinkError::Enter)?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs these, one after the other, and gives back what they said.
    fn run(&self, lines: &[&[&str]]) -> Result<String, LinkError> {
        self.inside(|| {
            let mut said = String::new();
            for line in lines {
                let output = command(line).output().map_err(|source| LinkError::Program {
                    program: line[0].to_owned(),
                    source,
                })?;
                if !output.status.success() {
                    return Err(refused(line, &output));
                }
                said.push_str(&String::from_utf8_lossy(&output.stdout));
            }
            Ok(said)
        })?
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It ends by itself when its input is closed, and is waited for so that it leaves no zombie.
        self.holder.stdin = None;
        let _ = self.holder.wait();
    }
}

fn command(line: &[&str]) -> Command {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn refused(line: &[&str], output: &Output) -> LinkError {
    let said = String::from_utf8_lossy(&output.stderr);
    let says = said
        .lines()
        .next()
        .map_or_else(|| output.status.to_string(), str::to_owned);
    LinkError::Refused {
        command: line.join(" "),
        says,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{IpAddr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_rate_is_read_and_shown_as_tc_writes_it() {
        for (text, bits) in [
            ("100mbit", 100_000_000),
            ("64kbit", 64_000),
            ("10gbit", 10_000_000_000),
        ] {
            let rate: BitRate = text.parse().unwrap();
            assert_eq!((rate.bits_per_second(), rate.to_string().as_str()), (bits, text));
        }
        for wrong in [
            "",
            "100",
            "mbit",
            "0mbit",
            "1.5mbit",
            "-1mbit",
            "101gbit",
            "99999999999999999999kbit",
        ] {
            let error = wrong.parse::<BitRate>().unwrap_err().to_string();
            assert!(
                error.contains("100mbit") && error.contains(&format!("`{wrong}`")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_was_held_back_is_read_from_the_statistics() {
        let said = "qdisc tbf 8001: root\n Sent 9 bytes 1 pkt (dropped 0, overlimits 27 requeues 0)\n";
        assert_eq!(overlimits(said), Some(27));
        assert_eq!(overlimits("qdisc noqueue"), None);
    }

    /// Either the link limits, or the refusal says what lacks.
    #[test]
    fn bytes_cross_the_link_held_back_by_its_rate_or_the_reason_is_said() {
        let link = match Link::new("20mbit".parse().unwrap()) {
            Ok(link) => link,
            Err(refusal) => {
                let refusal = refusal.to_string();
                assert!(refusal.contains("limited link"), "{refusal}");
                return;
            }
        };
        let listener = thread::scope(|scope| {
            let at_the_server = scope.spawn(|| {
                link.enter_server().unwrap();
                TcpListener::bind((SERVER, 0)).unwrap()
            });
            at_the_server.join().unwrap()
        });
        let at = listener.local_addr().unwrap();
        const BYTES: usize = 1 << 20;
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut client, from) = listener.accept().unwrap();
                assert_eq!(from.ip(), IpAddr::V4(CLIENTS));
                client.write_all(&vec![7; BYTES]).unwrap();
            });
            scope.spawn(|| {
                link.enter().unwrap();
                let mut received = Vec::new();
                TcpStream::connect(at)
                    .unwrap()
                    .read_to_end(&mut received)
                    .unwrap();
                assert_eq!(received.len(), BYTES);
            });
        });
        let [_, of_server] = link.held_back().unwrap();
        assert!(of_server > 0, "a megabyte in one burst was not held back");
        for end in [&link.clients, &link.server] {
            let said = end.run(&[&["tc", "qdisc", "show", "dev", INTERFACE]]).unwrap();
            assert!(said.contains("rate 20Mbit"), "{said}");
        }
        // From outside there is no such network.
        assert!(TcpListener::bind((SERVER, 0)).is_err());
    }

    #[test]
    fn a_program_at_the_servers_end_sees_that_network_alone() {
        let Ok(link) = Link::new("1gbit".parse().unwrap()) else {
            return;
        };
        let mut list = link.command("ip").unwrap();
        let said = list.args(["-brief", "address"]).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let names: Vec<&str> = said
            .lines()
            .filter_map(|line| line.split(['@', ' ']).next())
            .collect();
        assert_eq!(names, ["lo", INTERFACE], "{said}");
        assert!(said.contains("198.18.0.1/30"), "{said}");
        let mut place = link.command("sh").unwrap();
        let said = place.args(["-c", "pwd; ls -d /proc/$$/fd"]).output().unwrap();
        let here = env::current_dir().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.starts_with(&format!("{}\n/proc/", here.display())), "{said}");
        let missing = link.command("no-such-program").unwrap().output().unwrap();
        let says = String::from_utf8(missing.stderr).unwrap();
        assert!(
            !missing.status.success() && says.contains("no-such-program"),
            "{says}"
        );
    }

    #[test]
    fn both_ends_are_gone_with_the_link() {
        let Ok(link) = Link::new("1gbit".parse().unwrap()) else {
            return;
        };
        // One that has gone into a session of its own, and whose parent has ended.
        let mut shell = link.command("sh").unwrap();
        let mut started = shell
            .args(["-c", "setsid sleep 1000 & echo started"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = started.stdout.take().unwrap();
        said.read_exact(&mut [0; 8]).unwrap();
        started.wait().unwrap();
        let holders = [link.clients.holder.id(), link.server.holder.id()];
        drop(link);
        for holder in holders {
            assert!(!std::path::Path::new(&format!("/proc/{holder}")).exists());
        }
        // It has our pipe until it ends.
        said.read_to_end(&mut Vec::new()).unwrap();
    }
}
