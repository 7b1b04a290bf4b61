//! The commands that the documents name, against the command line and the catalogue.

use std::fs;
use std::path::Path;

use clap::Parser;
use threadgauge_experiments::runnable;
use threadgauge_experiments::runtimes::prepare::Asked;
use threadgauge_experiments::runtimes::{KINDS, Kind};
use threadgauge_lab::site::Site;
use threadgauge_machine::CpuList;
use threadgauge_results::Runtime;

use crate::cli::{Cli, Command};
use crate::commands::run::{choice, guests};

/// Each `threadgauge run …` of a text: between backticks or in a line of its own, to a comment or to what follows in a
/// shell.
fn runs(text: &str) -> Vec<&str> {
    const RUN: &str = "threadgauge run ";
    let is_whole = |at: usize| text[..at].ends_with(['`', '\n', ' ']);
    let found = text
        .match_indices(RUN)
        .map(|(at, _)| at)
        .filter(|at| is_whole(*at));
    found
        .map(|at| {
            let rest = &text[at..];
            let ends = ["`", "\n", "  #", " &", ";"].map(|end| rest.find(end).unwrap_or(rest.len()));
            rest[..ends.into_iter().min().unwrap_or(rest.len())].trim_end()
        })
        .collect()
}

/// Why it is no command that measures anything on a machine with CPUs and memory for all, if so.
fn wrong(command: &str) -> Option<String> {
    let words = shlex::split(command)?;
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return Some(error.to_string()),
    };
    let Some(Command::Run(options)) = cli.command else {
        return Some("it runs nothing".to_owned());
    };
    let cpus = CpuList::new(0..16);
    let mut site = Site::new(options.profile.into(), &cpus, &[], 1 << 20);
    match guests::asked(&options) {
        Ok(asked) => site.runtimes = asked.iter().flat_map(found).collect(),
        Err(error) => return Some(error.to_string()),
    }
    let chosen = choice::named(&options).and_then(|named| choice::cases(&named, &site, &options));
    chosen.err().map(|error| error.to_string())
}

/// Of a machine on which every runtime is found, in a version that has all units.
fn found(asked: &Asked) -> Vec<Runtime> {
    let names = match asked {
        Asked::All => KINDS.map(|kind| kind.name.to_owned()).to_vec(),
        Asked::One { name, .. } => vec![name.clone()],
    };
    let of = |name: String| Runtime {
        kind: Kind::of(&name).map_or_else(String::new, |kind| kind.name.to_owned()),
        name,
        version: "99".to_owned(),
        program: String::new(),
        command: Vec::new(),
        lack: None,
    };
    names.into_iter().map(of).collect()
}

#[test]
fn every_run_that_a_document_or_an_experiment_names_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).unwrap();
    let pages = docs.map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|ext| ext == "md"));
    let pages = pages.chain([root.join("README.md")]);
    let texts = pages.map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap()));
    let catalogue = runnable();
    let calls = catalogue
        .iter()
        .map(|e| (e.id.to_owned(), format!("\n{}\n", e.calls.join("\n"))));
    let mut seen = 0;
    let mut wrong_ones = Vec::new();
    for (name, text) in texts.chain(calls) {
        for command in runs(&text) {
            // `EXPERIMENT` stands for one.
            if command.contains("run EXPERIMENT") {
                continue;
            }
            seen += 1;
            wrong_ones.extend(wrong(command).map(|why| format!("{name}: {command}: {why}")));
        }
    }
    assert!(wrong_ones.is_empty(), "{}", wrong_ones.join("\n"));
    assert!(seen > 40, "{seen}");
}

#[test]
fn a_run_that_is_none_is_noticed() {
    let of = |text: &str| runs(text).into_iter().map(wrong).collect::<Vec<_>>();
    let text = "`threadgauge run ring --only unit=thread`\nthreadgauge run ring  # all of it\n\
                `threadgauge run runtimes` `threadgauge run create --only runtime=java-25`\n\
                `threadgauge run null --case what=clock,cpus=1`";
    assert_eq!(of(text), [None, None, None, None, None]);
    for (text, says) in [
        ("`threadgauge run rings`", "rings"),
        ("`threadgauge run ring --only unit=pthread`", "pthread"),
        ("`threadgauge run ring --set sizes=2`", "sizes"),
        ("`threadgauge run ring --runtime ruby`", "ruby"),
        ("`threadgauge run null --only runtime=go`", "runtime"),
        ("`threadgauge run ring --profil paper`", "--profil"),
        ("`threadgauge run null --case what=clocks`", "what=clocks"),
    ] {
        let [Some(why)] = &of(text)[..] else {
            panic!("{text}: {:?}", of(text));
        };
        assert!(why.contains(says), "{why}");
    }
}
