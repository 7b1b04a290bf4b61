//! `nats-py`, the official client for Python: the scenarios are in `python/scenarios.py`, a process each.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::server::{Auth, Server, Settings};
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
    ("drain", |site| play(site, "drain", Settings::default())),
];

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
