//! What measurements of servers share: the site, the rounds, a server's life, what it used, how figures are written.
//!
//! A measurement is parts; each is measured alone and written down when it is done. What is compared belongs to
//! `bench_groups`.

pub mod activity;
pub mod change;
pub mod figures;
pub mod memory;
pub mod programs;
pub mod rounds;
pub mod worker;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use fastrand::Rng;
use serde_json::{Map, Value, json};
use threadgauge_machine::{CpuList, Reading, allowed_cpus, fingerprint, noise_between};

use crate::shell;
use programs::Programs;
use threadgauge_lab::server::Cpus;

/// How much to measure, and where to put it.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Options {
    /// Rounds; each runs every server once. An interval takes six
    #[arg(long, default_value_t = 7, value_name = "N")]
    rounds: usize,
    /// Three rounds of a twentieth of the work: to see that everything runs, not to be believed
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Measure this `threadgauge` instead of building the release
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Instead of what is otherwise measured: every design beside that of this `threadgauge`, built from another commit
    #[arg(long, value_name = "PATH")]
    pub before: Option<PathBuf>,
    /// Of the order of runs; it is written down
    #[arg(long, default_value_t = 0x5EED)]
    seed: u64,
    /// Where the tables (.md) and every value (.json) go; a folder of its own in `target` without it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What a part came to.
#[derive(Debug)]
pub struct Part {
    /// Its tables, in Markdown.
    pub text: String,
    /// Every value.
    pub values: Value,
}

/// What the parts measure with.
#[derive(Debug)]
pub struct Site {
    pub programs: Programs,
    pub cpus: CpuList,
    pub rounds: usize,
    /// One of so many parts of the work is done.
    pub share: u64,
    pub rng: Rng,
}

impl Site {
    /// Builds what is measured.
    pub fn new(options: &Options) -> Result<Self> {
        let (rounds, share) = if options.quick {
            (3, 20)
        } else {
            (options.rounds, 1)
        };
        ensure!(rounds > 0, "no round measures nothing: use --rounds 7");
        Ok(Self {
            programs: Programs::build(options.server.as_deref())?,
            cpus: allowed_cpus()?,
            rounds,
            share,
            rng: Rng::with_seed(options.seed),
        })
    }

    /// How much of `work` is to be done.
    pub fn share_of(&self, work: u64) -> u64 {
        work / self.share
    }

    /// Servers and clients wherever they like.
    pub fn everywhere(&self) -> Cpus {
        Cpus {
            server: self.cpus.clone(),
            clients: self.cpus.clone(),
        }
    }

    /// The server alone on the last `count` CPUs; on all, clients too, where there are no more.
    pub fn server_on(&self, count: usize) -> Cpus {
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

/// Starts the optimised build of this program with the same arguments, where this is not one: the clients are in it,
/// and must not be what a server waits for. Whether it did.
///
/// # Errors
///
/// If a server that is named is not there, before anything is built; or as that build ends.
pub fn ran_optimised(options: &Options) -> Result<bool> {
    for given in [&options.server, &options.before] {
        given.as_deref().map(shell::given).transpose()?;
    }
    if !cfg!(debug_assertions) {
        return Ok(false);
    }
    let optimised = shell::build("xtask", shell::Profile::Release)?;
    shell::run(shell::command_at(&optimised).args(std::env::args_os().skip(1)))?;
    Ok(true)
}

/// Measures the parts asked for, all where none is, prints their tables, and writes `NAME.md` and `NAME.json` anew
/// after each.
pub fn measure_parts<P: ValueEnum + PartialEq>(
    name: &str,
    title: &str,
    options: &Options,
    only: &[P],
    site: &mut Site,
    measure: impl Fn(&P, &mut Site) -> Result<Part>,
) -> Result<()> {
    let out = match &options.out {
        Some(out) => out.clone(),
        None => PathBuf::from(format!("target/bench-{name}")),
    };
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let write = |extension: &str, content: &str| {
        let file = out.join(name).with_extension(extension);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
    };
    let mut text = heading(title, site, options);
    print!("{text}");
    let mut values = Map::new();
    for part in P::value_variants() {
        if !only.is_empty() && !only.contains(part) {
            continue;
        }
        let before = Reading::take();
        let Part {
            text: tables,
            values: of_part,
        } = measure(part, site)?;
        let mut tables = format!("\n{}\n", tables.trim_end());
        if let (Ok(before), Ok(after)) = (before, Reading::take()) {
            let foreign = noise_between(&before, &after, None).foreign_cpus;
            let _ = writeln!(tables, "\nOther programs used {foreign:.2} of a CPU meanwhile.");
        }
        print!("{tables}");
        text.push_str(&tables);
        let key = part.to_possible_value().context("no part is hidden")?;
        values.insert(key.get_name().to_owned(), of_part);
        let document =
            json!({"rounds": site.rounds, "share": site.share, "seed": options.seed, "parts": values});
        write("md", &text)?;
        write("json", &format!("{document:#}\n"))?;
    }
    eprintln!("written: {name}.md and {name}.json in {}", out.display());
    Ok(())
}

fn heading(title: &str, site: &Site, options: &Options) -> String {
    let machine = fingerprint();
    let or_unknown = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_owned());
    let mut text = format!(
        "# {title}\n\n{} interleaved rounds, orders from seed {}. {}, {} CPUs of which {} are used, Linux {}.\n",
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
            rng: Rng::with_seed(1),
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
