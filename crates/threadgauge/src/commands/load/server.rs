//! The server's side of a load: started behind a limited link where one is asked for, found and watched where it is on
//! this machine, and whether there is room for so many connections.

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
            target.address.set_ip(Link::SERVER);
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).process_group(0);
            // Standard output is for results.
            shell.stdin(Stdio::null()).stdout(Stdio::null());
            let started = side.started.insert(Started(link.start(&mut shell)?));
            link.enter()?;
            started.wait_until_it_listens(target, command)?;
            side.link = Some(link);
        }
        let at = target.address;
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
        while TcpStream::connect_timeout(&target.address, SECOND).is_err() {
            if let Some(status) = self.0.try_wait().context("cannot look at the server")? {
                bail!("the server `{command}` ended with {status} before it listened");
            }
            if Instant::now() > deadline {
                let port = target.address.port();
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
        })
    }
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
    let busiest = seconds(watched)
        .filter_map(|second| second.threads.first())
        .max_by(|a, b| a.cpu_share.total_cmp(&b.cpu_share))
        .map_or_else(String::new, |thread| {
            format!(
                "; its busiest thread {} at most {}",
                thread.name,
                percent(thread.cpu_share)
            )
        });
    let server = format!(
        "process {}: {:.2} CPUs, {} {}{busiest}; {} switches a second, {}",
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
    vec![("server", server), ("CPUs busy", machine.join(", "))]
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

    use super::*;

    #[test]
    fn what_was_seen_is_two_rows_of_means_and_the_busiest_thread() {
        let second = |cpus_used: f64, cpu_share: f64| WatchedSecond {
            server: Some(ServerSecond {
                cpus_used,
                threads: vec![ThreadSecond {
                    name: "reactor".to_owned(),
                    cpu_share,
                    ..ThreadSecond::default()
                }],
                thread_count: 3,
                rss_kib: 2_048,
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
        assert!(
            rows[0]
                .1
                .starts_with("process 7: 1.50 CPUs, 3 threads; its busiest thread reactor at most 90")
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
