//! `nats-py`, the official client for Python: the scenarios are in `python/scenarios.py`, a process each.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::server::{Auth, DEADLINE, Server, Settings};
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("publish_and_subscribe", |site| {
        play(site, "publish_and_subscribe", Settings::default())
    }),
    ("wildcards", |site| play(site, "wildcards", Settings::default())),
    ("queue", |site| play(site, "queue", Settings::default())),
    ("requests", |site| play(site, "requests", Settings::default())),
    ("no_responders", |site| {
        play(site, "no_responders", Settings::default())
    }),
    ("headers", |site| play(site, "headers", Settings::default())),
    ("room", |site| play(site, "room", Settings::default())),
    ("token", |site| {
        let auth = Auth::Token("s3cret");
        play(
            site,
            "token",
            Settings {
                auth,
                ..Settings::default()
            },
        )
    }),
    ("user_and_password", |site| {
        let auth = Auth::User("ada", "pw");
        play(
            site,
            "user_and_password",
            Settings {
                auth,
                ..Settings::default()
            },
        )
    }),
    ("maximum_payload", |site| {
        let max_payload = Some(2_000);
        play(
            site,
            "maximum_payload",
            Settings {
                max_payload,
                ..Settings::default()
            },
        )
    }),
    ("slow_consumer", |site| {
        let max_pending = Some(1 << 20);
        play(
            site,
            "slow_consumer",
            Settings {
                max_pending,
                ..Settings::default()
            },
        )
    }),
    ("unsubscribe_after", |site| {
        play(site, "unsubscribe_after", Settings::default())
    }),
    ("the_page_in_docs_is_true", page),
    ("drain", |site| play(site, "drain", Settings::default())),
];

/// What `docs/groups.md` shows runs, and does what it says.
fn page(site: &Site) -> Result<()> {
    let page = include_str!("../../../docs/groups.md");
    let block = |language: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n"))?;
        rest.split_once("```").map(|(block, _)| block)
    };
    ensure!(
        block("rust,ignore") == Some(include_str!("../examples/room.rs")),
        "the page does not show examples/room.rs"
    );
    let server = Server::start(&site.program, &Settings::default())?;
    let mut program = block("python").context("a program in Python")?.to_owned();
    let patience = format!("timeout={}", DEADLINE.as_secs());
    // Another server, and more patience than the client has unasked: a second or two.
    for (shown, run) in [
        ("nats://127.0.0.1:4222", server.url()),
        ("no_echo=True", format!("no_echo=True, connect_{patience}")),
        ("request(\"x\")", format!("request(\"x\", {patience})")),
        ("next_msg()", format!("next_msg({patience})")),
    ] {
        ensure!(program.contains(shown), "the page has no {shown}");
        program = program.replace(shown, &run);
    }
    let output = site
        .python_at("-c".as_ref())
        .arg(program)
        .stdin(Stdio::null())
        .output()
        .context("cannot start Python")?;
    ensure!(
        output.stdout == b"hello, everybody\n".repeat(9),
        "it printed {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    server.stop()
}

fn play(site: &Site, case: &str, settings: Settings) -> Result<()> {
    let server = Server::start(&site.program, &settings)?;
    let output = site
        .python("scenarios.py")
        .args([case, &server.url()])
        .stdin(Stdio::null())
        .output()
        .context("cannot start Python")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    server.stop()
}
