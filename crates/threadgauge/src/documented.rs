//! The commands that the documents name, against the command line and the catalogue.

use std::fs;
use std::path::Path;

use clap::Parser;
use threadgauge_experiments::{CATALOGUE, runnable};
use threadgauge_lab::selection::{Selector, choose, experiments};
use threadgauge_lab::site::Site;
use threadgauge_machine::CpuList;

use crate::cli::{Cli, Command, RunOptions};

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
    let Some(Command::Run(RunOptions {
        experiments: named,
        profile,
        only,
        set,
        ..
    })) = cli.command
    else {
        return Some("it runs nothing".to_owned());
    };
    let cpus = CpuList::new(0..16);
    let site = Site::new(profile.into(), &cpus, &[], 1 << 20);
    let chosen = experiments(CATALOGUE, &named)
        .and_then(|named| choose(&named, &site, &Selector::joined(&only), &Selector::joined(&set)));
    chosen.err().map(|error| error.to_string())
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
    let text = "`threadgauge run ring --only unit=thread`\nthreadgauge run ring  # all of it\n";
    assert_eq!(of(text), [None, None]);
    for (text, says) in [
        ("`threadgauge run rings`", "rings"),
        ("`threadgauge run ring --only unit=pthread`", "pthread"),
        ("`threadgauge run ring --set sizes=2`", "sizes"),
        ("`threadgauge run ring --profil paper`", "--profil"),
    ] {
        let [Some(why)] = &of(text)[..] else {
            panic!("{text}: {:?}", of(text));
        };
        assert!(why.contains(says), "{why}");
    }
}
