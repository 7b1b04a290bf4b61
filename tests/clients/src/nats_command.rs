//! The command `nats`: what a person types.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::server::{Auth, DEADLINE, Server, Settings};
use crate::wire::Wire;
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("what_is_published_is_printed", publish),
    ("a_reply_reaches_who_asked", request),
    ("a_wrong_password_is_refused", password),
    ("a_trace_shows_who_is_subscribed", trace),
    ("the_benchmark_loses_nothing", bench),
];

/// The command against a server, with these arguments.
fn nats(site: &Site, server: &Server, arguments: &[&str]) -> Command {
    let mut command = site.nats();
    command
        .args(["--server", &server.url()])
        .args(["--timeout", &format!("{}s", DEADLINE.as_secs())])
        .args(arguments)
        // A person's own contexts are no part of this.
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(Stdio::null());
    command
}

/// Runs to its good end, and gives back what it printed.
fn printed(site: &Site, server: &Server, arguments: &[&str]) -> Result<String> {
    let output = nats(site, server, arguments)
        .output()
        .context("cannot start nats")?;
    ensure!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// One that goes on by itself, and ends with the case.
struct Running(Option<Child>);

impl Running {
    fn start(site: &Site, server: &Server, arguments: &[&str]) -> Result<Self> {
        let mut command = nats(site, server, arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Ok(Self(Some(child.context("cannot start nats")?)))
    }

    /// Waits for its good end, and gives back what it printed.
    fn printed(mut self) -> Result<String> {
        let child = self.0.take().context("it runs")?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "it ended with {}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until somebody is subscribed, by empty requests: all but the last are heard by nobody.
fn until_heard(server: &Server, subject: &str) -> Result<()> {
    let options = r#"{"verbose":false,"headers":true,"no_responders":true}"#;
    let mut wire = Wire::open(server, options)?;
    wire.send(b"SUB answer 1\r\n")?;
    loop {
        wire.send(format!("PUB {subject} answer 0\r\n\r\n").as_bytes())?;
        let came = wire.settle()?;
        if !came.windows(3).any(|window| window == b"503") {
            return Ok(());
        }
        std::thread::yield_now();
    }
}

fn publish(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let subscriber = Running::start(site, &server, &["sub", "news.>", "--raw", "--count", "4"])?;
    until_heard(&server, "news.test")?;
    let goals = ["pub", "news.sport", "goal {{Count}}", "--count", "3"];
    printed(site, &server, &goals)?;
    let heard = subscriber.printed()?;
    ensure!(
        heard.lines().count() == 4 && heard.ends_with("\ngoal 1\ngoal 2\ngoal 3\n"),
        "it printed {heard:?}"
    );
    server.stop()
}

fn request(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let _replier = Running::start(site, &server, &["reply", "greet.*", "hello {{Request}}"])?;
    until_heard(&server, "greet.test")?;
    let answer = printed(site, &server, &["request", "greet.me", "world", "--raw"])?;
    ensure!(answer.trim_end() == "hello world", "the answer is {answer:?}");
    // Its own word that nobody is there goes to standard error, with a good end.
    let answer = printed(site, &server, &["request", "nobody", "x", "--raw"])?;
    ensure!(answer.is_empty(), "nobody answered {answer:?}");
    server.stop()
}

fn trace(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let mut hearer = Wire::open(&server, r#"{"verbose":false,"name":"hearer"}"#)?;
    hearer.send(b"SUB rooms.* 1\r\n")?;
    hearer.settle()?;
    let said = printed(site, &server, &["trace", "rooms.blue"])?;
    for part in ["hearer", "rooms.*"] {
        ensure!(said.contains(part), "no {part} in {said}");
    }
    ensure!(hearer.settle()?.is_empty(), "a trace alone is not delivered");
    drop(hearer);
    server.stop()
}

fn password(site: &Site) -> Result<()> {
    let auth = Auth::User("ada", "pw");
    let server = Server::start(
        &site.program,
        &Settings {
            auth,
            ..Settings::default()
        },
    )?;
    printed(
        site,
        &server,
        &["--user", "ada", "--password", "pw", "pub", "x", "y"],
    )?;
    for wrong in [&["--user", "ada", "--password", "x"][..], &[]] {
        let refused = nats(site, &server, &[wrong, &["pub", "x", "y"]].concat()).output()?;
        let said = String::from_utf8_lossy(&refused.stderr);
        ensure!(
            !refused.status.success() && said.contains("Authorization Violation"),
            "{wrong:?}: {said}"
        );
    }
    server.stop()
}

fn bench(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    // One more than is published, for the request that shows that it hears.
    let subscriber = ["bench", "sub", "load", "--msgs", "20001", "--no-progress"];
    let subscriber = Running::start(site, &server, &subscriber)?;
    until_heard(&server, "load")?;
    let publishers = [
        "bench",
        "pub",
        "load",
        "--msgs",
        "20000",
        "--clients",
        "4",
        "--no-progress",
    ];
    printed(site, &server, &publishers)?;
    // It ends when it has them all.
    subscriber.printed()?;
    server.stop()
}
