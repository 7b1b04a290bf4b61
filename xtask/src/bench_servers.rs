//! `cargo xtask bench-servers`: `threadgauge serve` beside plain C programs of the same designs.
//!
//! Owns the order of things: build, measure each part in interleaved rounds, write down what came. What is compared is in
//! [`designs`]; a part is a file: [`bytes`], [`echo`], [`idle`], [`chat`]. The C programs are in `guests/c/servers`.

mod activity;
mod bytes;
mod chat;
mod chat_driver;
mod chat_hall;
mod designs;
mod echo;
mod echo_driver;
mod figures;
mod idle;
mod profile;
mod programs;
mod published;
mod rounds;
mod server;
mod sockets;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use threadgauge_machine::{CpuList, allowed_cpus, fingerprint};

use crate::dice::Dice;
use crate::foreign::Reading;
use crate::shell;
use programs::Programs;
use server::Cpus;

/// How much to measure, of what, and where to put it.
#[derive(Args)]
pub struct Options {
    /// Rounds; each runs every server once. An interval takes six
    #[arg(long, default_value_t = 7, value_name = "N")]
    rounds: usize,
    /// Three rounds of a twentieth of the work: to see that everything runs, not to be believed
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Only these parts; all without it
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    only: Vec<What>,
    /// Measure this `threadgauge` instead of building the release
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Of the order of runs; it is written down
    #[arg(long, default_value_t = 0x5EED)]
    seed: u64,
    /// Where servers.md and servers.json (every value) go
    #[arg(long, value_name = "DIR", default_value = "target/bench-servers")]
    out: PathBuf,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Every design under Stevens' client, beside its C twin
    Bytes,
    /// CPU a message, over a single loop in C
    Echo,
    /// A thousand connections on which nothing happens
    Idle,
    /// Deliveries in rooms of ten, by split of reading and writing
    Chat,
}

/// What a part came to.
#[derive(Debug)]
struct Part {
    /// Its tables, in Markdown.
    text: String,
    /// Every value.
    values: Value,
}

/// What the parts measure with.
#[derive(Debug)]
struct Site {
    programs: Programs,
    cpus: CpuList,
    rounds: usize,
    /// One of so many parts of the work is done.
    share: u64,
    dice: Dice,
}

impl Site {
    /// How much of `work` is to be done.
    fn share_of(&self, work: u64) -> u64 {
        work / self.share
    }

    /// Servers and clients wherever they like.
    fn everywhere(&self) -> Cpus {
        Cpus {
            server: self.cpus.clone(),
            clients: self.cpus.clone(),
        }
    }

    /// The server alone on the last `count` CPUs; on all, clients too, where there are no more.
    fn server_on(&self, count: usize) -> Cpus {
        let clients = self.cpus.first(self.cpus.len().saturating_sub(count));
        if clients.is_empty() {
            return self.everywhere();
        }
        let server = self.cpus.iter().filter(|&cpu| !clients.contains(cpu));
        Cpus {
            server: CpuList::new(server),
            clients,
        }
    }
}

/// Measures, prints the tables, writes the files.
pub fn run(options: &Options) -> Result<()> {
    if cfg!(debug_assertions) {
        // The clients are in this program, and must not be what a server waits for.
        let optimised = shell::build("xtask", shell::Profile::Release)?;
        return shell::run(shell::command_at(&optimised).args(std::env::args_os().skip(1)));
    }
    let (rounds, share) = if options.quick {
        (3, 20)
    } else {
        (options.rounds, 1)
    };
    ensure!(rounds > 0, "no round measures nothing: use --rounds 7");
    let mut site = Site {
        programs: Programs::build(options.server.as_deref())?,
        cpus: allowed_cpus()?,
        rounds,
        share,
        dice: Dice::new(options.seed),
    };
    let mut text = heading(&site, options);
    let mut values = Map::new();
    for &what in What::value_variants() {
        if !options.only.is_empty() && !options.only.contains(&what) {
            continue;
        }
        let before = Reading::take();
        let (name, part) = match what {
            What::Bytes => ("bytes", bytes::measure(&mut site)?),
            What::Echo => ("echo", echo::measure(&mut site)?),
            What::Idle => ("idle", idle::measure(&mut site)?),
            What::Chat => ("chat", chat::measure(&mut site)?),
        };
        let _ = writeln!(text, "\n{}", part.text.trim_end());
        if let Some((after, before)) = Reading::take().zip(before) {
            let share = 100.0 * after.foreign_since(before);
            let _ = writeln!(
                text,
                "\nCPU time that others had meanwhile: {share:.1} % of all CPUs."
            );
        }
        values.insert(name.to_owned(), part.values);
    }

    fs::create_dir_all(&options.out).with_context(|| format!("cannot make {}", options.out.display()))?;
    let write = |name: &str, content: &str| {
        let file = options.out.join(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    };
    let document = json!({"rounds": rounds, "share": share, "seed": options.seed, "parts": values});
    write("servers.md", &text)?;
    write("servers.json", &format!("{document:#}\n"))?;
    println!("{text}");
    eprintln!(
        "written: servers.md and servers.json in {}",
        options.out.display()
    );
    Ok(())
}

fn heading(site: &Site, options: &Options) -> String {
    let machine = fingerprint();
    let or_unknown = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_owned());
    let mut text = format!(
        "# Servers beside plain C programs of the same designs\n\n{} interleaved rounds, orders from seed {}. {}, {} CPUs of which {} are used, Linux {}.\n",
        site.rounds,
        options.seed,
        or_unknown(machine.cpu_model),
        or_unknown(machine.cpus.map(|cpus| cpus.to_string())),
        site.cpus,
        or_unknown(machine.kernel),
    );
    if site.share > 1 {
        let _ = writeln!(
            text,
            "\n**Quick: a {}th of the work. These figures are not to be believed.**",
            site.share
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn site(cpus: &str) -> Site {
        Site {
            programs: programs::tests::c_programs(Path::new("/tmp"), &[]),
            cpus: cpus.parse().unwrap(),
            rounds: 7,
            share: 20,
            dice: Dice::new(1),
        }
    }

    #[test]
    fn a_server_has_its_cpus_to_itself_while_there_are_enough() {
        let places = |cpus: &str, count| {
            let Cpus { server, clients } = site(cpus).server_on(count);
            (server.to_string(), clients.to_string())
        };
        let of = |server: &str, clients: &str| (server.to_owned(), clients.to_owned());
        assert_eq!(places("0-1", 1), of("1", "0"));
        assert_eq!(places("0-1", 2), of("0-1", "0-1"));
        assert_eq!(places("0-3", 2), of("2-3", "0-1"));
        assert_eq!(places("3", 1), of("3", "3"));
    }

    #[test]
    fn a_quick_run_does_a_share() {
        assert_eq!(site("0").share_of(1000), 50);
    }
}
