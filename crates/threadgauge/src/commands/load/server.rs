//! The server's side of a load: started behind a limited link where one is asked for, found and watched where it is on
//! this machine, and whether there is room for so many connections.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use threadgauge_load::{CpuSecond, Link, Needs, ServerSecond, ServerWatch, Watched, preflight};
use threadgauge_machine::{Advice, Severity, is_local, listener};
use threadgauge_results::units::{count, percent, with_unit};

use crate::commands::load::commands::end_group;
use crate::commands::load::options::{LoadOptions, Watching};
use crate::commands::load::target::Target;
use crate::output::say;

/// Between two looks at the server.
const SECOND: Duration = Duration::from_secs(1);
/// Threads that are named.
const MOST_NAMED: usize = 4;
/// Until a server that was started listens.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts to reach it.
const LOOK: Duration = Duration::from_millis(20);

/// The server's side, ready to be loaded.
#[derive(Debug, Default)]
pub struct ServerSide {
    /// Before the link, so that it ends first.
    started: Option<Started>,
    link: Option<Link>,
    watched: Option<i32>,
    advice: Vec<Advice>,
}

/// A server that was started here, with all that it started. Dropped, it is ended.
#[derive(Debug)]
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        end_group(&mut self.0);
    }
}

impl ServerSide {
    /// Makes the link and starts the server behind it, finds out whom to watch, and judges whether `connections` can be
    /// made. What may disturb is said.
    ///
    /// # Errors
    ///
    /// If there is no link, the server does not listen, or so many connections cannot be made: then with `--go-on` that
    /// is said, too.
    pub fn prepare(options: &LoadOptions, target: &mut Target, connections: u64) -> Result<Self> {
        let mut side = Self::default();
        if let (Some(rate), Some(command)) = (options.link, &options.start) {
            let link = Link::new(rate)?;
            target.move_to(Link::SERVER);
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).process_group(0);
            // Standard output is for results.
            shell.stdin(Stdio::null()).stdout(Stdio::null());
            let started = side.started.insert(Started(link.start(&mut shell)?));
            link.enter()?;
            started.wait_until_it_listens(target, command)?;
            side.link = Some(link);
        }
        let at = target.address();
        let is_here = side.link.is_some() || is_local(at.ip());
        side.watched = match (options.watch, &side.started) {
            (Watching::Nobody, _) => None,
            (Watching::Process(pid), _) => Some(pid),
            (Watching::Found, Some(Started(child))) => Some(child.id().cast_signed()),
            (Watching::Found, None) if is_here => match listener(at) {
                Ok(pid) => Some(pid),
                Err(error) => {
                    say(&format!(
                        "the server is not watched: {error} (--watch PID names it)"
                    ));
                    None
                }
            },
            (Watching::Found, None) => None,
        };
        side.advice = preflight(&Needs {
            connections,
            is_local: is_here,
            server: side.watched,
        });
        for advice in &side.advice {
            let fix = advice
                .fix
                .as_ref()
                .map_or_else(String::new, |fix| format!("; {fix}"));
            let line = format!("{}: {}{fix}", advice.subject, advice.says);
            if advice.severity == Severity::Serious && !options.go_on {
                bail!("{line} (--go-on tries it all the same)");
            }
            say(&line);
        }
        Ok(side)
    }

    /// Begins to watch the server. A machine that cannot be read is said, and nothing is watched.
    pub fn watch(&self) -> Option<Arc<ServerWatch>> {
        match ServerWatch::start(self.watched?, SECOND) {
            Ok(watch) => Some(Arc::new(watch)),
            Err(error) => {
                say(&format!("the server is not watched: {error}"));
                None
            }
        }
    }

    /// What was found before the load, for programs.
    pub fn json(&self, options: &LoadOptions) -> Value {
        json!({
            "link": options.link.map(|rate| rate.to_string()),
            "preflight": self.advice,
        })
    }
}

impl Started {
    fn wait_until_it_listens(&mut self, target: &Target, command: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect_timeout(&target.address(), SECOND).is_err() {
            if let Some(status) = self.0.try_wait().context("cannot look at the server")? {
                bail!("the server `{command}` ended with {status} before it listened");
            }
            if Instant::now() > deadline {
                let port = target.address().port();
                bail!(
                    "the server `{command}` does not listen at port {port} of its end of the link ({}) after {} s: let \
                     it listen at all addresses (0.0.0.0)",
                    Link::SERVER,
                    PATIENCE.as_secs()
                );
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Ends a watch, if nobody else looks on any more.
pub fn seen(watch: Option<Arc<ServerWatch>>) -> Option<Watched> {
    let watched = Arc::into_inner(watch?)?.stop();
    for note in &watched.notes {
        say(&format!("watching the server: {note}"));
    }
    Some(watched)
}

/// What a server used, over the seconds of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Means {
    /// How many CPUs it kept busy.
    pub cpus: f64,
    /// Context switches a second.
    pub switches: f64,
    /// Memory at the end: its own share of it where that can be read, else what is resident.
    pub memory_bytes: f64,
    /// Threads at the end.
    pub threads: f64,
    /// The share of a CPU that the thread with the most used.
    pub busiest_thread: Option<f64>,
    /// Open descriptors at the end.
    pub descriptors: Option<f64>,
    /// TCP sockets at the end, in its network namespace, of all programs there.
    pub sockets: Option<f64>,
    /// Bytes a second over the interfaces of that namespace.
    pub received_bytes: Option<f64>,
    /// As `received_bytes`, the other way.
    pub sent_bytes: Option<f64>,
}

impl Means {
    /// `None` where nothing was seen.
    pub fn of(watched: &Watched) -> Option<Self> {
        let seconds: Vec<&ServerSecond> = seconds(watched).collect();
        let last = seconds.last()?;
        let mean = |value: fn(&ServerSecond) -> f64| {
            seconds.iter().map(|second| value(second)).sum::<f64>() / seconds.len() as f64
        };
        Some(Self {
            cpus: mean(|second| second.cpus_used),
            switches: mean(|second| second.switches.total() as f64),
            memory_bytes: last.pss_kib.unwrap_or(last.rss_kib) as f64 * 1024.0,
            threads: last.thread_count as f64,
            busiest_thread: threads(watched).first().map(|thread| thread.cpu),
            descriptors: last.descriptors.map(|count| count as f64),
            sockets: last.tcp.map(|tcp| tcp.in_use as f64),
            received_bytes: last
                .network
                .map(|_| mean(|second| second.network.map_or(0.0, |bytes| bytes.received_bytes as f64))),
            sent_bytes: last
                .network
                .map(|_| mean(|second| second.network.map_or(0.0, |bytes| bytes.sent_bytes as f64))),
        })
    }
}

/// A thread of the server, over the seconds of a run.
struct ThreadMean<'a> {
    name: &'a str,
    /// The share of its time that it was on a CPU.
    cpu: f64,
}

/// Those that could be looked at, the busiest first.
fn threads(watched: &Watched) -> Vec<ThreadMean<'_>> {
    let mut sums: BTreeMap<(i32, i32), (&str, f64)> = BTreeMap::new();
    for thread in seconds(watched).flat_map(|second| &second.threads) {
        let sum = sums.entry((thread.pid, thread.tid)).or_default();
        *sum = (&thread.name, sum.1 + thread.cpu_share);
    }
    let whole = seconds(watched).count().max(1) as f64;
    let mut means: Vec<_> = sums
        .into_values()
        .map(|(name, sum)| ThreadMean {
            name,
            cpu: sum / whole,
        })
        .collect();
    means.sort_by(|a, b| b.cpu.total_cmp(&a.cpu));
    means
}

/// Those in which the server was seen.
fn seconds(watched: &Watched) -> impl Iterator<Item = &ServerSecond> {
    watched.seconds.iter().filter_map(|second| second.server.as_ref())
}

/// What was seen of the server, for a person: the name of each row, and what it says.
pub fn rows(watched: &Watched) -> Vec<(&'static str, String)> {
    let (Some(means), Some(last)) = (Means::of(watched), seconds(watched).last()) else {
        return vec![("server", format!("process {}: nothing was seen", watched.pid))];
    };
    let server = format!(
        "process {}: {:.2} CPUs, {} {}; {} switches a second, {}",
        watched.pid,
        means.cpus,
        count(last.thread_count as usize),
        if last.thread_count == 1 {
            "thread"
        } else {
            "threads"
        },
        count(means.switches as usize),
        with_unit(means.memory_bytes, None, "bytes"),
    );
    let mut rows = vec![("server", server)];
    let threads = threads(watched);
    let named = threads.iter().take(MOST_NAMED);
    let mut named: Vec<String> = named
        .map(|thread| format!("{} {}", thread.name, percent(thread.cpu)))
        .collect();
    if threads.len() > MOST_NAMED {
        named.push(format!("{} others less", count(threads.len() - MOST_NAMED)));
    }
    if !named.is_empty() {
        rows.push(("its threads", named.join(", ")));
    }
    if let Some(descriptors) = means.descriptors {
        rows.push(("its descriptors", count(descriptors as usize)));
    }
    if let (Some(sockets), Some(received), Some(sent)) =
        (means.sockets, means.received_bytes, means.sent_bytes)
    {
        let [received, sent] = [received, sent].map(|bytes| with_unit(bytes, None, "bytes"));
        let says = format!(
            "with all else there: {} TCP sockets, {received} a second in, {sent} out",
            count(sockets as usize)
        );
        rows.push(("its network", says));
    }
    let of_cpu = |cpu: usize| {
        let shares = watched.seconds.iter().flat_map(|second| &second.cpus);
        let busy: Vec<f64> = shares
            .filter(|share| share.cpu == cpu)
            .map(CpuSecond::busy)
            .collect();
        busy.iter().sum::<f64>() / busy.len().max(1) as f64
    };
    let cpus = watched.seconds.last().map_or(&[][..], |second| &second.cpus[..]);
    let machine: Vec<String> = cpus
        .iter()
        .map(|cpu| format!("{} {}", cpu.cpu, percent(of_cpu(cpu.cpu))))
        .collect();
    rows.push(("CPUs busy", machine.join(", ")));
    rows
}

/// What was seen of the server, for programs.
pub fn json(watched: &Watched) -> Value {
    json!({
        "pid": watched.pid,
        "seconds": watched.seconds,
        "notes": watched.notes,
        "watcher_cpu_s": watched.cost.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use threadgauge_load::{ThreadSecond, WatchedSecond};
    use threadgauge_machine::{TcpSockets, Traffic};

    use super::*;

    #[test]
    fn what_was_seen_is_means_by_thread_and_what_it_held() {
        let second = |cpus_used: f64, cpu_share: f64| WatchedSecond {
            server: Some(ServerSecond {
                cpus_used,
                threads: vec![
                    ThreadSecond {
                        tid: 8,
                        name: "reactor".to_owned(),
                        cpu_share,
                        ..ThreadSecond::default()
                    },
                    ThreadSecond {
                        tid: 7,
                        name: "main".to_owned(),
                        cpu_share: 0.1,
                        ..ThreadSecond::default()
                    },
                ],
                thread_count: 3,
                rss_kib: 2_048,
                descriptors: Some(12),
                tcp: Some(TcpSockets {
                    in_use: 20,
                    ..TcpSockets::default()
                }),
                network: Some(Traffic {
                    received_bytes: 2_048,
                    sent_bytes: 4_096,
                }),
                ..ServerSecond::default()
            }),
            cpus: vec![CpuSecond {
                cpu: 0,
                user: cpu_share,
                idle: 1.0 - cpu_share,
                ..CpuSecond::default()
            }],
            ..WatchedSecond::default()
        };
        let watched = Watched {
            pid: 7,
            seconds: vec![second(1.0, 0.5), second(2.0, 0.9), WatchedSecond::default()],
            ..Watched::default()
        };
        let rows = rows(&watched);
        let row = |name: &str| rows.iter().find(|row| row.0 == name).map_or("", |row| &row.1);
        assert!(row("server").starts_with("process 7: 1.50 CPUs, 3 threads; "));
        // The second in which nothing was seen is none.
        assert_eq!(row("its threads"), "reactor 70 %, main 10 %");
        assert_eq!(row("its descriptors"), "12");
        assert_eq!(
            row("its network"),
            "with all else there: 20 TCP sockets, 2.00 KiB a second in, 4.00 KiB out"
        );
        assert_eq!(
            Means::of(&watched).and_then(|means| means.busiest_thread),
            Some(0.7)
        );
        let nothing = Watched {
            pid: 7,
            ..Watched::default()
        };
        assert_eq!(
            super::rows(&nothing),
            [("server", "process 7: nothing was seen".to_owned())]
        );
    }
}
