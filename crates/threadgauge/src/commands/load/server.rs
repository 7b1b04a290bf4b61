//! The server's side of a load: started behind a limited link where one is asked for, found and watched where it is on
//! this machine, and whether there is room for so many connections.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use threadgauge_load::{Link, Needs, ServerSecond, ServerWatch, Watched, WatchedSecond, preflight};
use threadgauge_machine::{Advice, Severity, is_local, listener};
use threadgauge_results::units::{count, counted, percent, with_unit};

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
            target.move_to(Link::SERVER.into());
            let mut shell = link.command("sh")?;
            shell.args(["-c", command]).process_group(0);
            // Standard output is for results.
            shell.stdin(Stdio::null()).stdout(Stdio::null());
            let child = shell.spawn().context("the server cannot be started")?;
            let started = side.started.insert(Started(child));
            link.enter()?;
            started.wait_until_it_listens(target, command, PATIENCE)?;
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
    fn wait_until_it_listens(&mut self, target: &Target, command: &str, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
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
                    patience.as_secs()
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
        let (_, last) = seconds(watched).last()?;
        // The last look comes when the run ends: what is between two of them is not always a second.
        let whole_s: f64 = seconds(watched).map(|(length_s, _)| length_s).sum();
        let sum = |value: &dyn Fn(f64, &ServerSecond) -> f64| -> f64 {
            seconds(watched)
                .map(|(length_s, second)| value(length_s, second))
                .sum()
        };
        let each_second = |count: fn(&ServerSecond) -> u64| sum(&|_, second| count(second) as f64) / whole_s;
        Some(Self {
            cpus: sum(&|length_s, second| length_s * second.cpus_used) / whole_s,
            switches: each_second(|second| second.switches.total()),
            memory_bytes: last.pss_kib.unwrap_or(last.rss_kib) as f64 * 1024.0,
            threads: last.thread_count as f64,
            busiest_thread: threads(watched).first().map(|thread| thread.cpu),
            descriptors: last.descriptors.map(|count| count as f64),
            sockets: last.tcp.map(|tcp| tcp.in_use as f64),
            received_bytes: last
                .network
                .map(|_| each_second(|second| second.network.map_or(0, |bytes| bytes.received_bytes))),
            sent_bytes: last
                .network
                .map(|_| each_second(|second| second.network.map_or(0, |bytes| bytes.sent_bytes))),
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
    let mut whole_s = 0.0;
    for (length_s, second) in seconds(watched) {
        whole_s += length_s;
        for thread in &second.threads {
            let sum = sums.entry((thread.pid, thread.tid)).or_default();
            *sum = (&thread.name, sum.1 + length_s * thread.cpu_share);
        }
    }
    let mut means: Vec<_> = sums
        .into_values()
        .map(|(name, sum)| ThreadMean {
            name,
            cpu: sum / whole_s,
        })
        .collect();
    means.sort_by(|a, b| b.cpu.total_cmp(&a.cpu));
    means
}

/// Those in which the server was seen, and how long each was.
fn seconds(watched: &Watched) -> impl Iterator<Item = (f64, &ServerSecond)> {
    let all = watched.seconds.iter();
    all.filter_map(|second| Some((length_s(second), second.server.as_ref()?)))
}

/// Never nought, so that what was seen of it counts.
fn length_s(second: &WatchedSecond) -> f64 {
    (second.to_ns.saturating_sub(second.from_ns) as f64 / 1e9).max(1e-9)
}

/// What was seen of the server, for a person: the name of each row, and what it says.
pub fn rows(watched: &Watched) -> Vec<(&'static str, String)> {
    let (Some(means), Some((_, last))) = (Means::of(watched), seconds(watched).last()) else {
        return vec![("server", format!("process {}: nothing was seen", watched.pid))];
    };
    let server = format!(
        "process {}: {:.2} CPUs, {}; {} a second, {}",
        watched.pid,
        means.cpus,
        counted(last.thread_count as usize, "thread"),
        counted(means.switches as usize, "switch"),
        with_unit(means.memory_bytes, None, "bytes"),
    );
    let mut rows = vec![("server", server)];
    let threads = threads(watched);
    let named = threads.iter().take(MOST_NAMED);
    let mut named: Vec<String> = named
        .map(|thread| format!("{} {}", thread.name, percent(thread.cpu)))
        .collect();
    if threads.len() > MOST_NAMED {
        named.push(format!("{} less busy", count(threads.len() - MOST_NAMED)));
    }
    if !named.is_empty() {
        rows.push(("its threads", named.join(", ")));
    }
    if let Some(descriptors) = means.descriptors {
        rows.push(("descriptors", count(descriptors as usize)));
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
        let share = |second: &WatchedSecond| {
            let share = second.cpus.iter().find(|share| share.cpu == cpu)?;
            Some((length_s(second), share.busy()))
        };
        let (mut busy_s, mut whole_s) = (0.0, 0.0);
        for (length_s, busy) in watched.seconds.iter().filter_map(share) {
            busy_s += length_s * busy;
            whole_s += length_s;
        }
        busy_s / whole_s
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
    use std::process::Command;

    use threadgauge_load::{CpuSecond, ThreadSecond};
    use threadgauge_machine::{Switches, TcpSockets, Traffic};

    use super::*;

    #[test]
    fn a_server_that_does_not_listen_in_time_is_named() {
        let server = Command::new("sleep")
            .arg("1000")
            .process_group(0)
            .spawn()
            .unwrap();
        // Nobody listens there.
        let target = Target::read("1", false).unwrap();
        let waited = Started(server).wait_until_it_listens(&target, "sleep 1000", Duration::ZERO);
        let error = waited.unwrap_err().to_string();
        assert!(
            error.starts_with("the server `sleep 1000` does not listen at port "),
            "{error}"
        );
    }

    #[test]
    fn of_many_threads_the_busiest_are_named() {
        let thread = |tid: i32| ThreadSecond {
            tid,
            name: format!("t{tid}"),
            cpu_share: f64::from(tid) / 10.0,
            ..ThreadSecond::default()
        };
        let of = |threads: i32| {
            let server = ServerSecond {
                threads: (1..=threads).map(thread).collect(),
                ..ServerSecond::default()
            };
            let seconds = vec![WatchedSecond {
                to_ns: 1_000_000_000,
                server: Some(server),
                ..WatchedSecond::default()
            }];
            let watched = Watched {
                seconds,
                ..Watched::default()
            };
            let mut rows = rows(&watched).into_iter();
            rows.find(|row| row.0 == "its threads").map(|row| row.1)
        };
        assert_eq!(of(0), None);
        assert_eq!(of(4).as_deref(), Some("t4 40 %, t3 30 %, t2 20 %, t1 10 %"));
        assert_eq!(
            of(6).as_deref(),
            Some("t6 60 %, t5 50 %, t4 40 %, t3 30 %, 2 less busy")
        );
    }

    #[test]
    fn what_was_seen_is_means_by_thread_and_what_it_held() {
        let second = |length_ms: u64, cpus_used: f64, cpu_share: f64| WatchedSecond {
            to_ns: length_ms * 1_000_000,
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
                switches: Switches {
                    voluntary: 4,
                    involuntary: 2,
                },
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
            // The last that was seen was half of one.
            seconds: vec![
                second(1_000, 1.0, 0.5),
                second(500, 2.0, 0.9),
                WatchedSecond::default(),
            ],
            ..Watched::default()
        };
        let rows = rows(&watched);
        let row = |name: &str| rows.iter().find(|row| row.0 == name).map_or("", |row| &row.1);
        assert_eq!(
            row("server"),
            "process 7: 1.33 CPUs, 3 threads; 8 switches a second, 2.00 MiB"
        );
        // The second in which nothing was seen is none.
        assert_eq!(row("its threads"), "reactor 63 %, main 10 %");
        assert_eq!(row("descriptors"), "12");
        assert_eq!(
            row("its network"),
            "with all else there: 20 TCP sockets, 2.67 KiB a second in, 5.33 KiB out"
        );
        assert!(
            rows.iter().all(|(name, _)| name.len() <= 14),
            "what is said begins in one column"
        );
        assert_eq!(
            Means::of(&watched).and_then(|means| means.busiest_thread),
            Some(0.95 / 1.5)
        );
        let seen = Watched {
            seconds: watched.seconds[..2].to_vec(),
            ..Watched::default()
        };
        let busy = super::rows(&seen).pop();
        assert_eq!(busy, Some(("CPUs busy", "0 63 %".to_owned())));
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
