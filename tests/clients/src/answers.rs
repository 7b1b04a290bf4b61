//! What a server answers, line by line: ours as the table says, `nats-server` the same, or what the table says that it
//! answers otherwise; and each such difference has its row in the document.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::groups_answers::{Difference, Row, rows, summary};
use crate::monitor;
use crate::server::{Program, Server, Settings};
use crate::wire::Wire;
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("the_table_of_answers_holds", table),
    ("a_client_is_called_what_it_says", names),
    ("each_difference_is_named", named),
];

/// The version that ours is compared with, and calls itself: with another, `nats-server` may differ less.
const COMPARED: &str = "2.15.2";

fn table(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let mut wrong = String::new();
    for row in rows() {
        let (told, version) = play(&server, &row)?;
        let is_right = match (&site.program, row.difference) {
            (Program::Nats { .. }, Some(Difference { theirs, .. })) => {
                theirs.is_none_or(|theirs| told == theirs) || (told == row.told && version != COMPARED)
            }
            _ => told == row.told,
        };
        if !is_right {
            write!(
                wrong,
                "\n{}\n  was told {told:?}, not as in {row:?}",
                row.says.escape_ascii()
            )?;
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    server.stop()
}

/// What the server tells, and its version.
fn play(server: &Server, row: &Row) -> Result<(String, String)> {
    let mut wire = Wire::connected(server)?;
    let info = String::from_utf8(wire.until(b"\r\n")?)?;
    let info: Value = serde_json::from_str(info.strip_prefix("INFO ").context("a greeting")?)?;
    let version = info["version"].as_str().context("a text")?.to_owned();
    // In one piece, so that what is closed in the middle has been read to the end; and no `PING` where the line before
    // is not whole.
    let is_whole = row.says.ends_with(b"\n");
    let mut says = row.says.clone();
    says.extend_from_slice(if is_whole { b"PING\r\n" } else { b"" });
    wire.send(&says)?;
    // It may ask for some itself.
    let mut pongs = 1 + row.told.matches("PONG").count();
    let mut told = Vec::new();
    let (told, closed) = loop {
        let Some(line) = wire.next_line()? else {
            break (told, true);
        };
        pongs -= usize::from(line == b"PONG\r\n");
        if pongs == 0 {
            break (told, false);
        }
        // Whether the client is there, it may be asked at any time.
        if line != b"PING\r\n" {
            told.extend(line);
        }
    };
    Ok((summary(&told, closed), version))
}

/// What a `CONNECT` calls the client, and what it is called then.
const NAMES: &[(&[u8], &str)] = &[
    (b"{\"name\":\"a\"}", "a"),
    (b"{\"NAME\":\"a\",\"name\":null}", "a"),
    (b"{\"name\":\"a\",\"Name\":\"b\"}", "b"),
    (b"{\"name\":\"\\u00e4\\ud83d\\ude00\"}", "\u{e4}\u{1f600}"),
    (b"{\"name\":\"\\ud800\"}", "\u{fffd}"),
    (b"{\"name\":\"\\udc00\\ud800x\"}", "\u{fffd}\u{fffd}x"),
    (b"{\"name\":\"a\xffb\"}", "a\u{fffd}b"),
    (b"{\"name\":\"\xe2\x82\"}", "\u{fffd}\u{fffd}"),
    (b"{\"name\":\"\xed\xa0\x80\"}", "\u{fffd}\u{fffd}\u{fffd}"),
];

fn names(site: &Site) -> Result<()> {
    let settings = Settings {
        monitor: true,
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    for &(json, expected) in NAMES {
        let mut wire = Wire::greeted(&server)?;
        wire.send(&[b"CONNECT ", json, b"\r\n"].concat())?;
        wire.settle()?;
        let page = monitor::json(server.monitor()?, "/connz?sort=cid")?;
        let clients = page["connections"].as_array().context("a list")?;
        let last = clients.last().context("a client")?;
        ensure!(last["name"] == expected, "{}: {last}", json.escape_ascii());
    }
    server.stop()
}

/// The same document whatever is played.
fn named(_: &Site) -> Result<()> {
    const DOCUMENT: &str = include_str!("../../../docs/groups.md");
    /// Met by what takes more than a row.
    const ELSEWHERE: &[&str] = &["More than 100,000 subscriptions"];
    let (_, differs) = DOCUMENT
        .split_once("\n## Where it differs from the NATS server\n")
        .context("the document has a section of that name")?;
    // Without its head.
    let documented: Vec<&str> = differs
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .skip(1)
        .collect();
    let table = rows();
    let tried = table
        .iter()
        .filter_map(|row| row.difference)
        .map(|difference| difference.named);
    let tried: Vec<&str> = tried.chain(ELSEWHERE.iter().copied()).collect();
    for named in &tried {
        ensure!(
            documented.iter().any(|row| row.starts_with(named)),
            "no row of docs/groups.md begins with {named:?}"
        );
    }
    for row in documented {
        ensure!(
            tried.iter().any(|named| row.starts_with(named)),
            "nobody tries {row:?}"
        );
    }
    Ok(())
}
