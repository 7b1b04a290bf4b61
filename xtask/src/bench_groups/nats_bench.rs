//! `nats bench`: one publisher to nine subscribers, by the command of NATS itself, where that is installed.

use std::fmt::{self, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::contenders::{Contenders, Who, stop};
use crate::rig::activity::Activity;
use crate::rig::figures::{at_least, estimate, spread};
use crate::rig::rounds::Rounds;
use crate::rig::{Part, Site};
use crate::shell;

const SUBSCRIBERS: usize = 9;
/// More than may wait for a slow subscriber (64 MiB, at every NATS server): a publisher is faster than nine programs in
/// one Go process, and is held up for them, by nats-server and by ours.
const MESSAGES: u64 = 500_000;
const SUBJECT: &str = "bench";
const BYTES: [usize; 2] = [128, 16];
/// How many times the deliveries of nats-server ours must make for each CPU second, at 128 bytes.
const TARGET: f64 = 2.0;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(1);
/// For subscriptions that were sent to be entered.
const REST: Duration = Duration::from_millis(300);
const MILLION: f64 = 1e6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    who: Who,
    bytes: usize,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} B", self.who, self.bytes)
    }
}

/// The measurement and its table, or why there is none.
pub fn measure(site: &mut Site, contenders: &Contenders) -> Result<Part> {
    let title = "## `nats bench`: one publisher to nine subscribers\n\n";
    let Some(nats) = &contenders.nats else {
        return Ok(Part {
            text: format!("{title}Not measured: the `nats` command is not on the path.\n"),
            values: serde_json::Value::Null,
        });
    };
    let messages = site.share_of(MESSAGES);
    let cpus = site.server_on(1);
    let programs = &site.programs;
    let servers: Vec<Who> = contenders
        .against_peers()
        .into_iter()
        .filter(|who| who.speaks_nats())
        .collect();
    let groups = BYTES
        .map(|bytes| servers.iter().map(|&who| Run { who, bytes }).collect())
        .to_vec();
    let measured = Rounds::measure("nats bench", groups, site.rounds, &mut site.rng, |run| {
        let server = contenders.start(run.who, programs, &cpus)?;
        let before = server.descriptors()?;
        let bench = |what: &str| {
            let mut command = shell::command_at(nats);
            command.args(["bench", what, SUBJECT, "--no-progress", "--server"]);
            command.arg(format!("nats://127.0.0.1:{}", server.port()));
            command.args([
                "--msgs",
                &messages.to_string(),
                "--size",
                &format!("{}B", run.bytes),
            ]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let mut all = bench("sub");
        all.args(["--clients", &SUBSCRIBERS.to_string()]);
        let mut subscribers = Running::start(all)?;
        wait_until("the subscribers to connect", || {
            Ok(server.descriptors()? >= before + SUBSCRIBERS)
        })?;
        sleep(REST);
        let activity = Activity::of(server.pid())?;
        let mut publisher = Running::start(bench("pub"))?;
        publisher.end()?;
        // Each ends once it has every message.
        subscribers.end()?;
        let meanwhile = Activity::of(server.pid())?.since(activity);
        stop(run.who, server)?;
        Ok((SUBSCRIBERS as u64 * messages) as f64 / (meanwhile.cpu_ns as f64 / 1e9))
    });
    let mut text = format!(
        "{title}{messages} messages, each to {SUBSCRIBERS} others; the command ends once every one has come. Server on CPU {}, the command on {}. In \
millions: median (least – most) over rounds; ratio Hodges–Lehmann [95 % interval].

| server | bytes | million deliveries a CPU second | over nats-server | ≥ {TARGET} |
|---|---:|---:|---:|---|
",
        cpus.server, cpus.clients
    );
    for bytes in BYTES {
        for &who in &servers {
            let run = Run { who, bytes };
            let ratio = measured
                .ratio(
                    run,
                    Run {
                        who: Who::NatsServer,
                        bytes,
                    },
                )
                .filter(|_| who != Who::NatsServer);
            let judged = ratio.as_ref().filter(|_| who.is_ours() && bytes == BYTES[0]);
            let _ = writeln!(
                text,
                "| {who} | {bytes} | {} | {} | {} |",
                spread(measured.spread(run), MILLION),
                estimate(ratio.as_ref()),
                at_least(judged, TARGET),
            );
        }
    }
    Ok(Part {
        text: text + &measured.missing(),
        values: measured.json(),
    })
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        ensure!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        sleep(LOOK);
    }
    Ok(())
}

/// A program that runs. Dropped, it is killed.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Result<Self> {
        let child = command.spawn();
        Ok(Self(child.with_context(|| {
            format!("cannot start {}", shell::line(&command))
        })?))
    }

    fn end(&mut self) -> Result<()> {
        let mut status = None;
        wait_until("nats bench to end", || {
            status = self.0.try_wait()?;
            Ok(status.is_some())
        })?;
        match status {
            Some(status) if status.success() => Ok(()),
            _ => bail!("nats bench ended with {status:?}"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
