//! Keeps a load in a results folder, as every other measurement is kept: each run as soon as it is over.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use threadgauge_load::{CpuSecond, FaultKind, Latency, Watched, WatchedSecond};
use threadgauge_machine::{allowed_cpus, fingerprint};
use threadgauge_results::{
    Metric, Params, RunRecord, STORE_FILE, Sample, Status, Store, StoredCase, StoredExperiment, StoredSample,
    Value,
};

use crate::commands::load::asked::as_asked;
use crate::commands::load::experiment::{
    ACHIEVED, ANSWERED, BUSIEST_THREAD, CLASS, FAILED, FAILED_IN_ALL, INVALID, INVALID_RUNS, LOAD,
    MACHINE_CPUS, OWN_CPU, RESPONSE_P50, RESPONSE_P99, SECOND, SECOND_P50, SECOND_P99, SECONDS, SERVER_CPUS,
    SERVER_DESCRIPTORS, SERVER_MEMORY, SERVER_RECEIVED, SERVER_SENT, SERVER_SOCKETS, SERVER_SWITCHES,
    SERVER_THREADS, reason,
};
use crate::commands::load::options::LoadOptions;
use crate::commands::load::server::Means;
use crate::commands::load::show::Done;
use crate::commands::load::workload::Workload;
use crate::folder;

const SECOND_NS: u64 = 1_000_000_000;
/// The most seconds of a run that are kept; of a longer one every second one, third one and so on.
const MOST_SECONDS: u64 = 120;
/// Keeping a load that goes on takes one part in so many of the time, at most.
const PARTS: u32 = 10;

/// A results folder in which the runs of a load are kept, each as soon as it is over.
#[derive(Debug)]
pub struct Kept<'a> {
    dir: &'a Path,
    options: &'a LoadOptions,
    record: RunRecord,
    machine: serde_json::Value,
    /// Whether the runs are those of classes, in the order of their file.
    is_mixed: bool,
    /// Whether the store in the folder is this load's.
    is_begun: bool,
    /// When it was kept last, and how long that took.
    last: Option<(Instant, Duration)>,
}

/// Makes the folder, and refuses one that holds something already, before anything is measured.
pub fn check(dir: &Path) -> Result<()> {
    refuse_other_results(dir)?;
    folder::refuse_foreign_files(dir)?;
    fs::create_dir_all(dir).with_context(|| {
        format!(
            "{} cannot be made; choose a folder you may write to with --out",
            dir.display()
        )
    })
}

fn refuse_other_results(dir: &Path) -> Result<()> {
    ensure!(
        !dir.join(STORE_FILE).exists(),
        "{} already holds results; choose another --out",
        dir.display()
    );
    Ok(())
}

impl<'a> Kept<'a> {
    /// Of a load that was asked for like that, with mixed clients where there is a workload. Nothing is written yet.
    pub fn new(
        dir: &'a Path,
        options: &'a LoadOptions,
        seed: u64,
        started: &str,
        workload: Option<&Workload>,
    ) -> Result<Self> {
        let record = RunRecord {
            id: format!("{:06x}", fastrand::u32(..1 << 24)),
            started: started.to_owned(),
            profile: "quick".to_owned(),
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rounds: None,
            cpus: allowed_cpus()?.iter().collect(),
            handicap_percent: 0,
            options: as_asked(options, workload),
            in_turns_with: None,
            each: None,
            runtimes: Vec::new(),
        };
        Ok(Self {
            dir,
            options,
            record,
            machine: serde_json::to_value(fingerprint())?,
            is_mixed: workload.is_some(),
            is_begun: false,
            last: None,
        })
    }

    /// Keeps the runs that are over, as those of a load that was interrupted: it may end at any moment. Where runs are
    /// so short that this would take over a tenth of the time, some wait for the next time.
    pub fn keep(&mut self, runs: &[Done]) -> Result<()> {
        let waits = |(kept, took): (Instant, Duration)| kept.elapsed() < took * PARTS;
        if self.last.is_some_and(waits) {
            return Ok(());
        }
        let begin = Instant::now();
        self.store(runs, "interrupted")?;
        self.last = Some((Instant::now(), begin.elapsed()));
        Ok(())
    }

    /// Writes the store of a load that is over, and every report from it: the path of the one to open.
    pub fn write(&mut self, runs: &[Done], interrupted: bool) -> Result<PathBuf> {
        self.store(runs, if interrupted { "interrupted" } else { "rounds" })?;
        folder::write(&folder::read(self.dir)?, self.dir)?;
        Ok(self.dir.join("report.html"))
    }

    /// Puts a store of these runs in the place of the one that is there.
    ///
    /// It is written anew each time, since a store has all its cases from its beginning, and those of a load show as it
    /// goes on: the rates of a search, the seconds that a run really took.
    fn store(&mut self, runs: &[Done], because: &str) -> Result<()> {
        let beside = tempfile::Builder::new()
            .prefix(".unfinished.")
            .tempdir_in(self.dir)
            .with_context(|| format!("no store can be made in {}", self.dir.display()))?;
        self.fill(beside.path(), runs, because)?;
        if !self.is_begun {
            refuse_other_results(self.dir)?;
        }
        fs::rename(beside.path().join(STORE_FILE), self.dir.join(STORE_FILE))?;
        self.is_begun = true;
        Ok(())
    }

    /// Makes a store of these runs in a folder of its own.
    fn fill(&self, dir: &Path, runs: &[Done], because: &str) -> Result<()> {
        let mut loads = Vec::new();
        let mut seconds = Vec::new();
        // Rounds are shuffled, which a reader need not see.
        let mut runs: Vec<&Done> = runs.iter().collect();
        if !self.is_mixed {
            let load = |run: &Done| (run.rate.unwrap_or(0.0), run.wanted);
            runs.sort_by(|a, b| load(a).partial_cmp(&load(b)).unwrap_or(Ordering::Equal));
        }
        for run in runs {
            let params = self.params(run);
            for (params, sample) in by_second(&params, run, self.options.ramp().total()) {
                // Their time is the load's.
                seconds.push((params, sample, 0));
            }
            loads.push((params, sample(run), run.record.elapsed.as_nanos() as u64));
        }
        let rounds = loads.iter().map(|(params, ..)| params);
        let rounds = rounds
            .clone()
            .map(|one| rounds.clone().filter(|other| *other == one).count());
        let record = RunRecord {
            rounds: rounds.max().and_then(|rounds| u32::try_from(rounds).ok()),
            ..self.record.clone()
        };
        let kept = [(LOAD.id, loads), (SECONDS.id, seconds)];
        stored(dir, &record, &self.machine, kept, because)
    }

    /// The case that a run was a round of.
    fn params(&self, run: &Done) -> Params {
        let options = self.options;
        let mut params = Params::new()
            .with("protocol", options.protocol.name())
            .with("loop", options.loop_name())
            .with("connections", run.wanted as u64);
        if let Some(rate) = run.rate {
            params.set("rate", Value::parse(&format!("{rate:.3}").replace(".000", "")));
        }
        if let Some(class) = &run.class {
            // Its name is the user's: what separates parameters may be in it.
            params.set(CLASS, &*class.name.replace([',', '='], "_"));
        }
        if options.pipeline.get() > 1 {
            params.set("pipeline", options.pipeline.get() as u64);
        }
        // What is as usual is left out, so that a case has few parameters.
        if let Some(sizes) = &options.payload {
            params.set("payload", Value::parse(&sizes.to_string().replace(',', "+")));
        }
        if let Some(think) = &options.think {
            params.set("think", &*think.to_string());
        }
        if options.protocol.is_group() && options.group_size.get() != LoadOptions::USUAL_GROUP_SIZE {
            params.set("group_size", options.group_size.get() as u64);
        }
        if options.own_echo {
            params.set("own_echo", "yes");
        }
        if options.close {
            params.set("close", "yes");
        }
        params
    }
}

/// A sample with its case, and how long it took, ns.
pub type Timed = (Params, Sample, u64);

/// Writes a store of what two experiments kept, each with the reason why it ended. Of samples of one case the first is
/// of round 1, the next of round 2.
///
/// # Errors
///
/// If it cannot be written.
pub fn stored(
    dir: &Path,
    record: &RunRecord,
    machine: &serde_json::Value,
    kept: [(&str, Vec<Timed>); 2],
    because: &str,
) -> Result<()> {
    let plan: Vec<StoredExperiment> = kept.iter().map(|(id, samples)| planned(id, samples)).collect();
    let mut store = Store::create(dir, record, machine, &plan)?;
    for (id, samples) in kept {
        let mut rounds: BTreeMap<String, u32> = BTreeMap::new();
        for (params, sample, wall_ns) in samples {
            let case = params.case_id(id);
            let round = rounds.entry(case.clone()).or_default();
            *round += 1;
            store.add(&StoredSample {
                experiment: id.to_owned(),
                case,
                round: *round,
                copy: 0,
                nth_try: 0,
                attempt: 0,
                gated: false,
                started: record.started.clone(),
                wall_ns,
                sample,
            })?;
        }
        store.set_stopped(id, Some(because))?;
    }
    Ok(store.close()?)
}

/// The cases of these samples, each once, in order.
fn planned(id: &str, samples: &[Timed]) -> StoredExperiment {
    let mut cases: Vec<StoredCase> = Vec::new();
    for (params, _, wall_ns) in samples {
        let case = params.case_id(id);
        if cases.iter().all(|known| known.id != case) {
            cases.push(StoredCase {
                id: case,
                params: params.clone(),
                estimate_ms: u32::try_from(wall_ns / 1_000_000).unwrap_or(u32::MAX),
                skip: None,
            });
        }
    }
    StoredExperiment {
        id: id.to_owned(),
        reference: None,
        stopped_because: None,
        cases,
    }
}

/// A figure of a declared metric.
pub fn measured(metric: threadgauge_lab::statistic::Metric, value: f64) -> Metric {
    named(metric.name, metric.unit, value)
}

fn named(name: impl Into<String>, unit: &str, value: f64) -> Metric {
    Metric {
        name: name.into(),
        unit: unit.to_owned(),
        value,
    }
}

/// All that a run measured.
fn sample(run: &Done) -> Sample {
    let record = &run.record;
    let wants_answers = run
        .class
        .as_ref()
        .is_none_or(|class| class.behaviour.wants_answers());
    if record.answered == 0 && wants_answers {
        return Sample::without_figures(Status::Failed, "nothing was answered well");
    }
    let reasons = run.invalid_because();
    let mut metrics = vec![
        measured(OWN_CPU, record.cpu_share()),
        measured(INVALID, f64::from(u8::from(!reasons.is_empty()))),
        measured(FAILED_IN_ALL, record.failures.total() as f64),
    ];
    metrics.extend(INVALID_RUNS.map(|of| measured(reason(of), f64::from(u8::from(reasons.contains(&of))))));
    if let Some(achieved) = record.held.achieved.filter(|_| wants_answers) {
        metrics.push(measured(ACHIEVED, achieved));
    }
    let quantile = |metric, q: f64| record.response.ns(q).map(|ns| measured(metric, ns as f64));
    metrics.extend(quantile(RESPONSE_P50, 0.5));
    metrics.extend(quantile(RESPONSE_P99, 0.99));
    let none = Latency::default();
    for (name, latency) in [
        ("service", &record.service),
        ("last", record.last.as_ref().unwrap_or(&none)),
        ("lag", &record.lag),
    ] {
        for (q, which) in [(0.5, "p50"), (0.99, "p99")] {
            metrics.extend(
                latency
                    .ns(q)
                    .map(|ns| named(format!("{name}_{which}_ns"), "ns", ns as f64)),
            );
        }
    }
    let counts = [
        ("sent", record.sent),
        ("answered_in_all", record.answered),
        ("unfinished", record.unfinished),
        ("connects", record.connects),
    ];
    metrics.extend(counts.map(|(name, count)| named(name, "count", count as f64)));
    metrics.extend(
        record
            .failures
            .each()
            .map(|(kind, count)| named(kind.name(), "count", count as f64)),
    );
    if let Some(faults) = &record.faults {
        metrics.extend(FaultKind::ALL.map(|kind| named(kind.name(), "count", faults.count(kind) as f64)));
    }
    let server = run.server.as_ref().and_then(Means::of);
    metrics.extend(server.into_iter().flat_map(|means| {
        let seen = [
            (SERVER_CPUS, Some(means.cpus)),
            (BUSIEST_THREAD, means.busiest_thread),
            (SERVER_THREADS, Some(means.threads)),
            (SERVER_SWITCHES, Some(means.switches)),
            (SERVER_MEMORY, Some(means.memory_bytes)),
            (SERVER_DESCRIPTORS, means.descriptors),
            (SERVER_SOCKETS, means.sockets),
            (SERVER_RECEIVED, means.received_bytes),
            (SERVER_SENT, means.sent_bytes),
        ];
        seen.into_iter()
            .filter_map(|(metric, value)| Some(measured(metric, value?)))
    }));
    metrics.push(named("bytes_in", "bytes", record.bytes_in as f64));
    metrics.push(named("bytes_out", "bytes", record.bytes_out as f64));
    Sample {
        status: Status::Ok,
        reason: None,
        tags: reasons
            .into_iter()
            .map(|reason| reason.name().to_owned())
            .collect(),
        metrics,
        noise: BTreeMap::new(),
    }
}

/// Those seconds of a run that are kept, each as a sample of its own case. The load was to last for `total`.
fn by_second(of: &Params, run: &Done, total: Duration) -> Vec<(Params, Sample)> {
    let record = &run.record;
    let ended_early = record.interrupted || record.ended_early || record.bounded;
    let lasted = match ended_early {
        true => record.elapsed,
        false => record.elapsed.max(total),
    };
    let step = (record.series.len() as u64).div_ceil(MOST_SECONDS).max(1);
    let kept = record
        .series
        .iter()
        .filter(|second| second.at_s.is_multiple_of(step));
    kept.map(|second| {
        let mut metrics = vec![measured(FAILED, second.failed as f64)];
        // What came in a part of a second is no rate.
        if second.at_s < lasted.as_secs() {
            metrics.push(measured(ANSWERED, second.answered as f64));
        }
        metrics.extend(second.p50_ns.map(|ns| measured(SECOND_P50, ns as f64)));
        metrics.extend(second.p99_ns.map(|ns| measured(SECOND_P99, ns as f64)));
        let from_ns = record.started_ns + second.at_s * SECOND_NS;
        metrics.extend(run.server.iter().flat_map(|watched| busy(watched, from_ns)));
        let sample = Sample {
            status: Status::Ok,
            reason: None,
            tags: Vec::new(),
            metrics,
            noise: BTreeMap::new(),
        };
        (of.clone().with(SECOND, second.at_s), sample)
    })
    .collect()
}

/// What the server and the machine were busy with in the second that begins then: seconds of the watch do not begin
/// with those of the run, so each counts by what it has in common with it. Nothing where that is less than half of it.
fn busy(watched: &Watched, from_ns: u64) -> Vec<Metric> {
    let common_ns = |second: &WatchedSecond| {
        let ends_ns = second.to_ns.min(from_ns + SECOND_NS);
        ends_ns.saturating_sub(second.from_ns.max(from_ns)) as f64
    };
    let mean = |of: &dyn Fn(&WatchedSecond) -> Option<f64>| {
        let parts: Vec<(f64, f64)> = watched
            .seconds
            .iter()
            .filter_map(|second| Some((of(second)?, common_ns(second))))
            .collect();
        let whole_ns: f64 = parts.iter().map(|(_, ns)| ns).sum();
        let sum: f64 = parts.iter().map(|(value, ns)| value * ns).sum();
        (whole_ns >= SECOND_NS as f64 / 2.0).then(|| sum / whole_ns)
    };
    let server = mean(&|second| Some(second.server.as_ref()?.cpus_used));
    let thread = mean(&|second| Some(second.server.as_ref()?.threads.first()?.cpu_share));
    let machine = mean(&|second| Some(second.cpus.iter().map(CpuSecond::busy).sum()));
    [
        (SERVER_CPUS, server),
        (BUSIEST_THREAD, thread),
        (MACHINE_CPUS, machine),
    ]
    .into_iter()
    .filter_map(|(metric, value)| Some(measured(metric, value?)))
    .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use threadgauge_load::{Behaviour, Class, Record, Second, ServerSecond};

    use super::*;
    use crate::cli::{Cli, Command};

    /// `threadgauge load` as typed.
    fn asked(arguments: &[&str]) -> LoadOptions {
        let words = ["threadgauge", "load"].iter().chain(arguments);
        match Cli::parse_from(words).command {
            Some(Command::Load(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    /// A run that was answered, of so many milliseconds, in each second of which 7 were answered.
    fn run(rate: Option<f64>, wanted: usize, elapsed_ms: u64) -> Done {
        let second = |at_s: u64| Second {
            at_s,
            answered: 7,
            ..Second::default()
        };
        Done {
            wanted,
            rate,
            connections: wanted,
            round: 1,
            is_group: false,
            record: Record {
                answered: 7,
                elapsed: Duration::from_millis(elapsed_ms),
                series: (0..=elapsed_ms / 1_000).map(second).collect(),
                ..Record::default()
            },
            slo: None,
            server: None,
            class: None,
        }
    }

    /// The cases of the loads that are stored of these runs, and how long each took.
    fn stored(options: &LoadOptions, is_mixed: bool, runs: &[Done]) -> Vec<(String, u32)> {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::new(dir.path(), options, 1, "2026-01-01T00:00:00Z", None).unwrap();
        let kept = Kept { is_mixed, ..kept };
        kept.fill(dir.path(), runs, "rounds").unwrap();
        let loads = Store::read(dir.path()).unwrap().experiments().unwrap();
        let cases = loads.into_iter().find(|of| of.id == LOAD.id).unwrap().cases;
        cases
            .into_iter()
            .map(|case| (case.id, case.estimate_ms))
            .collect()
    }

    #[test]
    fn loads_are_kept_by_rate_and_connections_and_classes_as_the_file_has_them() {
        let options = asked(&["echo", "--target", "1"]);
        let runs = [
            run(Some(200.0), 4, 2_500),
            run(Some(50.5), 8, 1_250),
            run(Some(50.5), 4, 1_000),
            run(Some(200.0), 4, 2_600),
        ];
        let case = |case: &str, ms| (format!("load/protocol=echo,loop=open,{case}"), ms);
        let by_rate = [
            case("connections=4,rate=50.500", 1_000),
            case("connections=8,rate=50.500", 1_250),
            case("connections=4,rate=200", 2_500),
        ];
        assert_eq!(stored(&options, false, &runs), by_rate);

        let of = |name: &str, wanted| Done {
            class: Some(Class {
                name: name.to_owned(),
                weight: 1.0,
                behaviour: Behaviour::Idle,
            }),
            ..run(None, wanted, 1_000)
        };
        let as_in_the_file = [
            case("connections=9,class=b", 1_000),
            case("connections=3,class=a_c", 1_000),
        ];
        assert_eq!(
            stored(&options, true, &[of("b", 9), of("a,c", 3)]),
            as_in_the_file
        );
    }

    #[test]
    fn a_run_has_as_many_rounds_as_the_load_that_was_made_most_often() {
        let options = asked(&["echo", "--target", "1"]);
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::new(dir.path(), &options, 1, "2026-01-01T00:00:00Z", None).unwrap();
        let runs = [4, 8, 16, 4].map(|connections| run(None, connections, 1_000));
        kept.fill(dir.path(), &runs, "rounds").unwrap();
        assert_eq!(Store::read(dir.path()).unwrap().run().unwrap().rounds, Some(2));
    }

    #[test]
    fn a_case_says_what_is_not_as_usual() {
        let case = |arguments: &[&str]| {
            stored(&asked(arguments), false, &[run(None, 10, 1_000)])
                .remove(0)
                .0
        };
        let usual = "load/protocol=groups,loop=open,connections=10";
        let mut groups = vec!["groups", "--target", "1"];
        assert_eq!(case(&groups), usual);
        groups.extend([
            "--group-size",
            "5",
            "--own-echo",
            "--pipeline",
            "2",
            "--payload",
            "16..99",
        ]);
        let more = "pipeline=2,payload=16..99,group_size=5,own_echo=yes";
        assert_eq!(case(&groups), format!("{usual},{more}"));
        let echo = ["echo", "--target", "1", "--loop", "closed", "--think", "5ms"];
        assert_eq!(
            case(&echo),
            "load/protocol=echo,loop=closed,connections=10,think=5ms"
        );
        let http = ["http", "--target", "1", "--loop", "fast", "--close"];
        assert_eq!(
            case(&http),
            "load/protocol=http,loop=fast,connections=10,close=yes"
        );
    }

    /// What was answered in each second, where that is a rate.
    fn answered(run: &Done, total_ms: u64) -> Vec<Option<f64>> {
        let seconds = by_second(&Params::new(), run, Duration::from_millis(total_ms));
        let of = |(_, sample): (Params, Sample)| {
            let mut metrics = sample.metrics.into_iter();
            metrics.find(|of| of.name == ANSWERED.name).map(|of| of.value)
        };
        seconds.into_iter().map(of).collect()
    }

    #[test]
    fn what_came_in_a_part_of_a_second_is_no_rate() {
        let whole = Some(7.0);
        let early = run(None, 1, 2_000);
        assert_eq!(
            answered(&early, 3_000),
            [whole; 3],
            "all were answered before its end"
        );
        let ends: [fn(&mut Record) -> &mut bool; 3] = [
            |record| &mut record.interrupted,
            |record| &mut record.ended_early,
            |record| &mut record.bounded,
        ];
        for ended in ends {
            let mut ended_early = run(None, 1, 2_000);
            *ended(&mut ended_early.record) = true;
            assert_eq!(answered(&ended_early, 3_000), [whole, whole, None]);
        }
        assert_eq!(answered(&run(None, 1, 2_900), 2_900), [whole, whole, None]);
    }

    #[test]
    fn of_a_long_run_every_second_second_is_kept() {
        let run = run(None, 1, 120_000);
        let at: Vec<Option<u64>> = by_second(&Params::new(), &run, Duration::ZERO)
            .iter()
            .map(|(params, _)| params.int(SECOND))
            .collect();
        let even: Vec<Option<u64>> = (0..=120).step_by(2).map(Some).collect();
        assert_eq!(at, even);
    }

    #[test]
    fn a_second_has_what_the_server_used_in_it_by_the_clock_of_both() {
        let second = |from_ns: u64, cpus_used: f64| WatchedSecond {
            from_ns,
            to_ns: from_ns + SECOND_NS,
            server: Some(ServerSecond {
                cpus_used,
                ..ServerSecond::default()
            }),
            cpus: vec![CpuSecond {
                user: 1.0,
                ..CpuSecond::default()
            }],
        };
        let watched = Watched {
            seconds: vec![second(0, 1.0), second(SECOND_NS, 3.0)],
            ..Watched::default()
        };
        let of = |from_ns: u64| -> Vec<(String, f64)> {
            let metrics = busy(&watched, from_ns).into_iter();
            metrics.map(|metric| (metric.name, metric.value)).collect()
        };
        let both = |server: f64| {
            vec![
                ("server_cpus".to_owned(), server),
                ("machine_cpus".to_owned(), 1.0),
            ]
        };
        assert_eq!(of(0), both(1.0));
        assert_eq!(of(SECOND_NS / 4), both(1.5));
        assert_eq!(of(3 * SECOND_NS / 2), both(3.0), "half of it was watched");
        assert_eq!(of(7 * SECOND_NS / 4), []);
    }
}
