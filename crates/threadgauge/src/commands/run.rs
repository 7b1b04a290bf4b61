//! Measuring: choose, store, schedule, then report.

pub mod choice;
mod each;
pub mod guests;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use signal_hook::low_level::pipe;
use threadgauge_experiments::each::EACH;
use threadgauge_experiments::runnable;
use threadgauge_experiments::runtimes::prepare::Prepared;
use threadgauge_lab::analysis::going_on;
use threadgauge_lab::launch::{Interrupts, Launcher};
use threadgauge_lab::schedule::{
    self, BeforeTry, Chosen, Ending, Forecast, ThisMachine, expected_rounds, rule_of,
};
use threadgauge_lab::selection::{Selector, experiment};
use threadgauge_lab::site::{Profile, Site};
use threadgauge_lab::turns::{Common, Greeting, PROTOCOL, Turns};
use threadgauge_machine::{CpuList, allowed_cpus, available_memory_mib, fingerprint, smt_siblings};
use threadgauge_report::{terminal, terminal_screen, terminal_summary};
use threadgauge_results::units::counted;
use threadgauge_results::{
    LARGEST_SEED, Run, RunData, RunRecord, Store, StoreError, StoredExperiment, Times, machine_differences,
};

use crate::baselines;
use crate::cli::RunOptions;
use crate::commands::load::experiment::LOAD;
use crate::commands::observe::experiment::OBSERVE;
use crate::earlier;
use crate::folder;
use crate::output::{Done, Verdict, be_side, print, print_json, say, shown, style};
use crate::progress::{Shown, about};
use crate::signals::{self, Asked};

/// How long a run that takes turns may be at something else than a try: it stores that, and looks at its claims.
const BETWEEN_TRIES: Duration = Duration::from_secs(120);

/// Runs what was asked for, or goes on with it, and writes the report.
pub fn run(options: &RunOptions) -> Done {
    if let Some(side) = &options.side {
        be_side(side);
    }
    run_then(options, |data| show(data, options))
}

/// The same, and shows it by this.
pub fn run_then(options: &RunOptions, show: impl FnOnce(&RunData) -> Result<()>) -> Done {
    if let Some(name) = &options.baseline {
        baselines::check(name)?;
    }
    let (interrupts, asked) = interrupts()?;
    let mut launcher = Launcher::new("/proc/self/exe", ["worker"], interrupts)
        .context("this process cannot become the parent of its workers' children")?;
    let begun = match &options.resume {
        Some(dir) => resume(dir, &mut launcher)?,
        None => begin(options, &mut launcher)?,
    };
    let Some(Begun {
        dir,
        mut store,
        chosen,
        mut turns,
        before_try,
        guests: _guests,
    }) = begun
    else {
        say("Ended before anything was measured");
        return Ok(asked.verdict());
    };
    let mut forecast = forecast(&dir, &store, &chosen)?;
    let announced = options.resume.is_none().then(|| forecast.of(&chosen));
    if let Some(takes) = announced {
        // Hours, for some: the user should know before they pass.
        let beside = match options.turns {
            Some(_) => ", and as much for the other run",
            None => "",
        };
        say(&format!("Measuring takes {}{beside}", about(takes)));
    }
    say(&format!("Results go to {}", shown(&dir)));
    let machine = ThisMachine::new(launcher).context("the machine's load cannot be read")?;
    let mut machine = machine.with_before_try(before_try);
    let ending = {
        let mut shown = Shown::new(announced);
        let going_on = |store: &Store, id: &str| going_on(runnable(), store, id);
        schedule::run(
            &mut store,
            &chosen,
            &going_on,
            &mut machine,
            &mut turns,
            &mut forecast,
            &mut shown,
        )
    };
    // Whatever stopped it, what was measured is reported.
    let data = folder::from_store(&dir, &store)?;
    let closed = store.close();
    let files = match &closed {
        // In its place may be another by now.
        Err(StoreError::Moved(_)) => Ok(Vec::new()),
        _ => folder::write(&data, &dir),
    };
    let ending = ending?;
    show(&data)?;
    closed?;
    let report = files?
        .into_iter()
        .find(|f| f.extension().is_some_and(|e| e == "html"));
    if let Some(report) = report {
        say(&format!("Report: {}", shown(&report)));
    }
    if let Some(name) = &options.baseline {
        keep_as(name, &dir, &data.results.run)?;
    }
    if ending == Ending::Interrupted {
        say(&format!(
            "Interrupted; everything measured so far is kept. Go on with: threadgauge run --resume {}",
            dir.display()
        ));
    }
    Ok(match ending {
        _ if options.strict && data.results.failed_cases() > 0 => Verdict::CheckFailed,
        Ending::Interrupted => asked.verdict(),
        _ => Verdict::Done,
    })
}

/// Gives the run its name, where it is whole.
fn keep_as(name: &str, dir: &Path, run: &Run) -> Result<()> {
    if !run.complete {
        say(&format!(
            "Not called {name}, since it is not whole; threadgauge run --resume {} --baseline {name} goes on and names it",
            shown(dir)
        ));
        return Ok(());
    }
    let before = baselines::keep(name, dir, &run.id)?;
    let before = before.map_or_else(String::new, |dir| format!(", as was {}", shown(&dir)));
    say(&format!("The baseline {name} is {}{before}", shown(dir)));
    Ok(())
}

struct Begun {
    dir: PathBuf,
    store: Store,
    chosen: Vec<Chosen>,
    turns: Turns,
    before_try: Option<BeforeTry>,
    /// The folder of their programs, which is to stay until the last case has run.
    guests: Option<Prepared>,
}

/// How long a run takes, by what it has measured before, where it goes on, and by earlier runs on this machine.
fn forecast(dir: &Path, store: &Store, chosen: &[Chosen]) -> Result<Forecast> {
    let (run, machine, rule) = (store.run()?, store.machine()?, rule_of(store)?);
    let first = expected_rounds(&rule);
    let mut times = match run.each {
        None => earlier::times(dir, &run, &machine, first),
        // Another command takes another time.
        Some(_) => Times::default(),
    };
    times.learn(store, &machine, &run, first)?;
    let profile = Profile::named(&run.profile).unwrap_or(Profile::Paper);
    Ok(Forecast::new(chosen, profile, &rule, times))
}

/// Where to run: the CPUs this process may use, or those the user chose among them.
pub fn site(profile: Profile, cpus: Option<&CpuList>) -> Result<Site> {
    let cpus = usable(cpus, "--cpus")?;
    let free_memory_mib = available_memory_mib().unwrap_or(0);
    Ok(Site::new(profile, &cpus, &smt_siblings(), free_memory_mib))
}

/// All CPUs this process may use, or those of them that the user chose by this option.
pub fn usable(chosen: Option<&CpuList>, option: &str) -> Result<CpuList> {
    let allowed = allowed_cpus().context("the CPUs this process may use cannot be read")?;
    let cpus = chosen.unwrap_or(&allowed);
    if let Some(absent) = cpus.iter().find(|cpu| !allowed.contains(*cpu)) {
        bail!("{option}: CPU {absent} is not one this process may use; those are {allowed}");
    }
    Ok(cpus.clone())
}

/// `None` if the user ended it before.
fn begin(options: &RunOptions, launcher: &mut Launcher) -> Result<Option<Begun>> {
    choice::check(options)?;
    let (profile, rounds) = (choice::profile(options), choice::rounds(options));
    let mut named = choice::named(options)?;
    let started = Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let id = format!("{:06x}", fastrand::u32(..1 << 24));
    let dir = options
        .out
        .clone()
        .unwrap_or_else(|| folder::default_out(&started, &id));
    folder::refuse_foreign_files(&dir)?;
    // Before anything is planned, since a state may have CPUs of its own; and before the other run is met: from then on
    // the state is now the one's and now the other's.
    let Some((before_try, machine)) = in_its_state(options.before_try.as_deref(), launcher)? else {
        return Ok(None);
    };
    let mut site = site(profile, options.cpus.as_ref())?;
    if let (Some(command), Some(items)) = (&options.each, &options.items) {
        if options.experiments != ["turnaround"] {
            bail!("--each is for one experiment: threadgauge run turnaround --each '{command}' --items …");
        }
        site.each = Some(each::typed(command, items)?);
        named = vec![&EACH];
    }
    let guests = guests::prepared(&guests::asked(options)?)?;
    if launcher.interrupts().count() > 0 {
        return Ok(None);
    }
    if let Some(guests) = &guests {
        site.runtimes.clone_from(&guests.runtimes);
    }
    let mut chosen = choice::cases(&named, &site, options)?;
    if let Some(typed) = site.each.take() {
        site.each = each::by_themselves(typed, launcher, &site.cpus)?;
        if site.each.is_none() {
            return Ok(None);
        }
        chosen = choice::cases(&named, &site, options)?;
    }
    let (turns, seed, in_turns_with) = match &options.turns {
        Some(at) => {
            // Both sides of a `--switch` are started by it.
            if options.side.is_none() {
                say(&format!(
                    "Takes turns with the run that is given the same --turns {}, and waits for it",
                    at.display()
                ));
            }
            let state_cpus = options.side.as_ref().map(|_| site.cpus.len() as u64);
            let greeting = Greeting {
                protocol: PROTOCOL,
                id: id.clone(),
                seed: options.seed,
                proposed: random_seed(),
                profile: (profile.name().to_owned(), rounds),
                plan: match state_cpus {
                    Some(cpus) => chosen.iter().flat_map(|of| of.cases_in_state(cpus)).collect(),
                    None => chosen.iter().flat_map(Chosen::measured).collect(),
                },
                references: state_cpus.map(|cpus| {
                    let references = chosen.iter().filter_map(|of| of.reference_in_state(cpus));
                    references.collect()
                }),
            };
            let longest = chosen.iter().map(Chosen::longest_try).max().unwrap_or_default();
            let met = Turns::meet(at, &greeting, longest + BETWEEN_TRIES, launcher.interrupts())?;
            say(&format!("Takes turns with run {}, {}", met.id, met.who));
            if let Some(common) = &met.common {
                keep(&mut chosen, common, site.cpus.len() as u64);
            }
            (met.turns, met.seed, Some(met.id))
        }
        None => (Turns::alone(), options.seed.unwrap_or_else(random_seed), None),
    };
    let record = RunRecord {
        id,
        started,
        profile: profile.name().to_owned(),
        seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rounds,
        cpus: site.cpus.clone(),
        handicap_percent: options.handicap,
        options: typed(options),
        in_turns_with,
        each: site.each,
        runtimes: site.runtimes,
    };
    let plan: Vec<StoredExperiment> = chosen.iter().map(Chosen::record).collect();
    let store = Store::create(&dir, &record, &machine, &plan)?;
    Ok(Some(Begun {
        dir,
        store,
        chosen,
        turns,
        before_try,
        guests,
    }))
}

/// Leaves out what the other state does not have, and says so.
fn keep(chosen: &mut [Chosen], common: &Common, cpus: u64) {
    let left_out: usize = chosen.iter_mut().map(|of| of.keep(common, cpus)).sum();
    if left_out > 0 {
        say(&format!(
            "Leaves out {}, which the other state does not have",
            counted(left_out, "case")
        ));
    }
}

/// What brings about the state that a run is in, and the machine's fingerprint in it. `None` if the user ended it
/// before.
fn in_its_state(
    command: Option<&str>,
    launcher: &mut Launcher,
) -> Result<Option<(Option<BeforeTry>, serde_json::Value)>> {
    let interrupts = launcher.interrupts();
    let first = |command: &str| BeforeTry::new(command).run_first(|| interrupts.count() > 0);
    let before_try = command.map(first).transpose();
    if interrupts.count() > 0 {
        return Ok(None);
    }
    Ok(Some((before_try?, serde_json::to_value(fingerprint())?)))
}

fn random_seed() -> u64 {
    fastrand::u64(..=LARGEST_SEED)
}

/// How the command before a try is kept among a run's options.
const BEFORE_TRY: &str = "--before-try";

/// The choices that change what is measured, as typed; two runs that differ in them are not alike.
pub fn typed(options: &RunOptions) -> Vec<String> {
    let selectors =
        |name: &str, all: &[Selector]| -> Vec<String> { all.iter().map(|s| format!("{name} {s}")).collect() };
    let mut typed = options.experiments.clone();
    typed.extend(selectors("--only", &options.only));
    typed.extend(options.case.iter().map(|id| format!("--case {id}")));
    typed.extend(selectors("--set", &options.set));
    typed.extend(options.runtime.iter().map(|asked| format!("--runtime {asked}")));
    typed.extend(options.each.as_ref().map(|command| format!("--each '{command}'")));
    typed.extend(
        options
            .items
            .as_ref()
            .map(|list| format!("--items {}", list.display())),
    );
    typed.extend(options.rounds.map(|n| format!("--rounds {n}")));
    typed.extend(options.cpus.as_ref().map(|c| format!("--cpus {c}")));
    typed.extend(
        options
            .before_try
            .as_ref()
            .map(|command| format!("{BEFORE_TRY} {command}")),
    );
    typed.extend((options.handicap > 0).then(|| format!("--handicap {}", options.handicap)));
    typed
}

/// The stored plan again, with the experiments of this version to run it. `None` if the user ended it before.
fn resume(dir: &Path, launcher: &mut Launcher) -> Result<Option<Begun>> {
    let mut store = Store::resume(dir)?;
    let record = store.run()?;
    let stored = store.experiments()?;
    if stored.iter().any(|of| of.id == OBSERVE.id) {
        bail!(
            "{} holds what was observed, which cannot go on: begin it again with `threadgauge observe`",
            dir.display()
        );
    }
    if stored.iter().any(|of| of.id == LOAD.id) {
        bail!(
            "{} holds a load, which cannot go on: begin it again with `threadgauge load`",
            dir.display()
        );
    }
    if record.version != env!("CARGO_PKG_VERSION") {
        bail!(
            "{} was begun by threadgauge {}; going on with {} would mix two programs' figures",
            dir.display(),
            record.version,
            env!("CARGO_PKG_VERSION")
        );
    }
    let profile = Profile::named(&record.profile)
        .with_context(|| format!("{} has the unknown profile {}", dir.display(), record.profile))?;
    let mut options = record.options.iter();
    let command = options.find_map(|option| option.strip_prefix(BEFORE_TRY));
    let Some((before_try, machine)) = in_its_state(command.map(str::trim_start), launcher)? else {
        return Ok(None);
    };
    let differences = machine_differences(&store.machine()?, &machine);
    if !differences.is_empty() {
        bail!(
            "{} was begun on another machine or kernel, or under other settings ({}); its figures cannot be mixed with these: begin a new run",
            dir.display(),
            differences.join("; ")
        );
    }
    let mut site = site(profile, Some(&CpuList::new(record.cpus.iter().copied())))
        .context("the run cannot go on on the CPUs it was begun on")?;
    let guests = guests::again(dir, &record.runtimes)?;
    if let Some(guests) = &guests {
        site.runtimes.clone_from(&guests.runtimes);
    }
    let chosen = store
        .experiments()?
        .iter()
        .filter(|e| e.stopped_because.is_none())
        .map(|stored| Ok(Chosen::again(experiment(runnable(), &stored.id)?, stored, &site)))
        .collect::<Result<Vec<_>>>()?;
    if (record.in_turns_with.is_some() || guests.is_some()) && !chosen.is_empty() {
        // From here on it is alone, and its rounds are nobody's pairs; and its guests are in another folder.
        store.set_run(&RunRecord {
            in_turns_with: None,
            runtimes: site.runtimes,
            ..record
        })?;
    }
    Ok(Some(Begun {
        dir: dir.to_owned(),
        store,
        chosen,
        turns: Turns::alone(),
        before_try,
        guests,
    }))
}

/// What asks to end, as bytes on a stream: once is "finish the case", twice "stop now".
pub fn interrupts() -> Result<(Interrupts, Asked)> {
    let (read, write) = UnixStream::pair()?;
    let asked = signals::ask_to_end(|signal| pipe::register(signal, write.try_clone()?).map(drop))?;
    Ok((Interrupts::new(read)?, asked))
}

fn show(data: &RunData, options: &RunOptions) -> Result<()> {
    if options.json {
        return print_json(&data.results);
    }
    let style = style();
    if !options.tables {
        return print(&terminal_screen(&data.results, &style));
    }
    for experiment in &data.results.experiments {
        print(&terminal(experiment, &style))?;
    }
    print(&terminal_summary(&data.results, &style))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn what_changes_what_is_measured_is_kept_as_typed() {
        let typed_of = |more: &str| {
            let words = format!("threadgauge run {more}");
            match Cli::parse_from(words.split(' ')).command {
                Some(Command::Run(options)) => typed(&options).join(" "),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(typed_of("null --out elsewhere --seed 3"), "null");
        let all = "null --only what=clock --runtime go --runtime java-21=/opt/java --rounds 3 --cpus 0 --handicap 15";
        assert_eq!(typed_of(all), all);
        let cases = "null --case what=clock --case null/what=burn";
        assert_eq!(typed_of(cases), cases);
    }
}
