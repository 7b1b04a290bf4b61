//! The schedule on a simulated machine: time passes only while a worker runs, and each worker's value and what disturbs it
//! are written beforehand.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::net::UnixStream;

use tempfile::TempDir;
use threadgauge_machine::CpuTimes;
use threadgauge_results::{Metric, Params, StoredExperiment};

use super::*;
use crate::experiment::Experiment;
use crate::grid::Plan;
use crate::launch::{Interrupts, Outcome};
use crate::statistic::metric;

/// Of the simulated `/proc/stat`: fine enough for a per mille of a short sample.
const TICKS_PER_SECOND: u64 = 100_000;
const SECOND: Duration = Duration::from_secs(1);

/// Experiments that only the simulated machine runs.
static FIRST: Experiment = simulated("first");
static SECOND_ONE: Experiment = simulated("second");

const fn simulated(id: &'static str) -> Experiment {
    Experiment {
        id,
        question: "What does the schedule do?",
        sources: &[],
        primary: const { &[metric("ns", "ns")] },
        how: "",
        control: "",
        traps: &[],
        source: "",
        plan: |_| unreachable!("a run has its plan"),
        run: |_, _| unreachable!("no worker is started"),
        read: |_| unreachable!("the schedule reads no answer"),
    }
}

/// What becomes of one worker.
#[derive(Clone, Copy)]
struct Fate {
    takes: Duration,
    /// What it measures; `None` where it fails.
    ns: Option<f64>,
    /// Share of the time that the hypervisor takes.
    steal: f64,
    /// CPUs' worth of work of other programs.
    foreign: f64,
    throttled: Duration,
}

/// A worker of two seconds, over which foreign load is judged, that nothing disturbs.
const QUIET: Fate = Fate {
    takes: Duration::from_secs(2),
    ns: Some(100.0),
    steal: 0.0,
    foreign: 0.0,
    throttled: Duration::ZERO,
};

/// A machine with one CPU.
struct SimulatedMachine<'a> {
    now: Reading,
    /// The fate of the n-th worker, counted from 0.
    fate: &'a mut dyn FnMut(usize, &Order) -> Fate,
    /// The cases of the workers so far.
    ran: Vec<String>,
    /// The user presses Ctrl-C while the n-th worker runs.
    stop_during: Option<usize>,
    user: UnixStream,
    interrupts: Interrupts,
}

impl<'a> SimulatedMachine<'a> {
    fn new(fate: &'a mut dyn FnMut(usize, &Order) -> Fate) -> Self {
        let (user, here) = UnixStream::pair().unwrap();
        Self {
            now: Reading {
                cpus: vec![CpuTimes::default()],
                ticks_per_second: TICKS_PER_SECOND,
                throttled_ns: Some(0),
                ..Reading::default()
            },
            fate,
            ran: Vec::new(),
            stop_during: None,
            user,
            interrupts: Interrupts::new(here).unwrap(),
        }
    }
}

impl Machine for SimulatedMachine<'_> {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now.at_ns)
    }

    fn read(&mut self) -> Result<Reading, MachineError> {
        Ok(self.now.clone())
    }

    fn run(&mut self, order: &Order, _: Duration) -> Outcome {
        let fate = (self.fate)(self.ran.len(), order);
        if self.stop_during == Some(self.ran.len()) {
            self.user.write_all(&[1]).unwrap();
        }
        self.ran.push(order.params.case_id(&order.experiment));
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
        let ticks = |share: f64| (fate.takes.as_secs_f64() * TICKS_PER_SECOND as f64 * share).round() as u64;
        let cpu = &mut self.now.cpus[0];
        cpu.user += ticks(fate.foreign);
        cpu.steal += ticks(fate.steal);
        cpu.idle += ticks(1.0 - fate.foreign - fate.steal);
        self.now.at_ns += ns(fate.takes);
        self.now.throttled_ns = self.now.throttled_ns.map(|before| before + ns(fate.throttled));
        let sample = match fate.ns {
            Some(value) => Sample {
                status: Status::Ok,
                reason: None,
                tags: Vec::new(),
                metrics: vec![Metric {
                    name: "ns".to_owned(),
                    unit: "ns".to_owned(),
                    value,
                }],
                noise: BTreeMap::new(),
            },
            None => Sample::without_figures(Status::Failed, "as the script says".to_owned()),
        };
        Outcome {
            sample: Some(sample),
            wall: fate.takes,
        }
    }

    fn interrupts(&mut self) -> &mut Interrupts {
        &mut self.interrupts
    }
}

/// What the schedule said while it ran.
#[derive(Default)]
struct Heard {
    /// Round, workers done of it, time left and share done, before each worker.
    progress: Vec<(u32, usize, Duration, f64)>,
    /// Experiments and why they ended.
    ended: Vec<(String, String)>,
}

impl Observer for Heard {
    fn case_begins(&mut self, progress: &Progress<'_>) {
        let Progress {
            round,
            done,
            left,
            share,
            ..
        } = *progress;
        self.progress.push((round, done, left, share));
    }
    fn experiment_ends(&mut self, id: &str, because: &str) {
        self.ended.push((id.to_owned(), because.to_owned()));
    }
    fn left_alone(&mut self) {
        unreachable!("the run is alone")
    }
}

/// A run of experiments with so many cases, each expected to take two seconds.
struct Run {
    dir: TempDir,
    profile: Profile,
    rounds: Option<u32>,
    seed: u64,
    chosen: Vec<Chosen>,
}

/// What came of it.
struct Came {
    ending: Ending,
    heard: Heard,
    /// The cases in the order in which workers ran them.
    ran: Vec<String>,
    samples: Vec<StoredSample>,
}

impl Came {
    /// Why the only experiment ended, and after how many rounds.
    fn stopped(&self) -> (&str, u32) {
        let [(_, because)] = &self.heard.ended[..] else {
            panic!("one experiment ends: {:?}", self.heard.ended)
        };
        (because, self.samples.iter().map(|s| s.round).max().unwrap())
    }
}

impl Run {
    fn new(profile: Profile, cases: u64) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            profile,
            rounds: None,
            seed: 1,
            chosen: vec![chosen(&FIRST, cases)],
        }
    }

    /// Exactly so many rounds.
    fn rounds(rounds: u32, cases: u64) -> Self {
        Self {
            rounds: Some(rounds),
            ..Self::new(Profile::Quick, cases)
        }
    }

    fn go(&self, mut fate: impl FnMut(usize, &Order) -> Fate) -> Came {
        self.go_on(&mut SimulatedMachine::new(&mut fate))
    }

    /// Begins the run, or goes on with it.
    fn go_on(&self, machine: &mut SimulatedMachine<'_>) -> Came {
        let record = RunRecord {
            id: "simulated".to_owned(),
            started: "2026-01-01T00:00:00Z".to_owned(),
            profile: self.profile.name().to_owned(),
            seed: self.seed,
            version: "0".to_owned(),
            rounds: self.rounds,
            cpus: vec![0],
            handicap_percent: 0,
            options: Vec::new(),
            in_turns_with: None,
        };
        let plan: Vec<StoredExperiment> = self.chosen.iter().map(Chosen::record).collect();
        let mut store = if self.dir.path().join(threadgauge_results::STORE_FILE).exists() {
            Store::resume(self.dir.path()).unwrap()
        } else {
            Store::create(self.dir.path(), &record, &serde_json::Value::Null, &plan).unwrap()
        };
        let mut heard = Heard::default();
        let mut turns = Turns::alone();
        let ending = run(
            &mut store,
            &self.chosen,
            self.profile,
            machine,
            &mut turns,
            &mut heard,
        )
        .unwrap();
        let samples = self
            .chosen
            .iter()
            .flat_map(|c| store.samples(c.experiment.id).unwrap());
        Came {
            ending,
            heard,
            ran: std::mem::take(&mut machine.ran),
            samples: samples.collect(),
        }
    }
}

fn chosen(experiment: &'static Experiment, cases: u64) -> Chosen {
    let case = |n| PlannedCase::new(Params::new().with("n", n), 2 * SECOND);
    Chosen {
        experiment,
        plan: Plan {
            cases: (0..cases).map(case).collect(),
            reference: Params::new(),
            budget: 100_000 * SECOND,
        },
    }
}

/// A value that no interval is narrow around.
fn wide(worker: usize) -> Option<f64> {
    Some([100.0, 150.0, 80.0, 200.0, 120.0][worker % 5])
}

/// Attempt and gated, of the samples in the order stored.
fn attempts(came: &Came) -> Vec<(u32, bool)> {
    came.samples.iter().map(|s| (s.attempt, s.gated)).collect()
}

#[test]
fn a_sample_disturbed_beyond_a_limit_is_marked_and_taken_again() {
    let disturbed = [
        Fate {
            steal: 0.011,
            ..QUIET
        },
        Fate {
            foreign: 0.051,
            ..QUIET
        },
        Fate {
            throttled: Duration::from_nanos(1),
            ..QUIET
        },
    ];
    for fate in disturbed {
        let came = Run::rounds(1, 1).go(|worker, _| if worker == 0 { fate } else { QUIET });
        // The case, its second copy, and the case again.
        assert_eq!(attempts(&came), [(0, true), (0, false), (1, false)]);
        assert_eq!(came.samples[0].sample.tags, ["noisy"]);
        assert_eq!(came.samples[2].sample.tags, [""; 0]);
        assert_eq!(came.samples[0].copy, came.samples[2].copy);
    }
}

#[test]
fn a_sample_disturbed_within_the_limits_is_kept() {
    let allowed = [
        QUIET,
        Fate {
            steal: 0.0099,
            ..QUIET
        },
        Fate {
            foreign: 0.0499,
            ..QUIET
        },
    ];
    for fate in allowed {
        let came = Run::rounds(1, 1).go(|_, _| fate);
        assert_eq!(attempts(&came), [(0, false), (0, false)]);
    }
}

#[test]
fn a_sample_that_stays_disturbed_is_taken_three_times_and_no_more() {
    let came = Run::rounds(2, 1).go(|_, _| Fate {
        foreign: 0.5,
        ..QUIET
    });
    let of_round = [(0, true), (0, true), (1, true), (1, true), (2, true), (2, true)];
    assert_eq!(attempts(&came), [of_round, of_round].concat());
}

#[test]
fn repeats_follow_when_every_case_of_the_round_has_had_its_turn() {
    let came = Run::rounds(1, 5).go(|worker, _| Fate {
        steal: if worker == 1 { 0.5 } else { 0.0 },
        ..QUIET
    });
    assert_eq!(came.ran.len(), 7);
    assert_eq!(came.ran[6], came.ran[1]);
}

#[test]
fn foreign_load_in_a_short_sample_is_judged_over_the_two_seconds_that_end_with_it() {
    // A tick of a stranger in 50 ms is a fifth of a CPU; over two seconds it is half a per cent.
    let came = Run::rounds(1, 1).go(|worker, _| match worker {
        0 => QUIET,
        _ => Fate {
            takes: Duration::from_millis(50),
            foreign: 0.2,
            ..QUIET
        },
    });
    assert_eq!(attempts(&came), [(0, false), (0, false)]);
}

#[test]
fn a_failed_sample_is_not_repeated_for_noise_and_twice_failed_is_given_up() {
    let came = Run::rounds(3, 1).go(|_, _| Fate {
        ns: None,
        foreign: 0.5,
        ..QUIET
    });
    assert_eq!(attempts(&came), [(0, false), (0, false)]);
    let came = Run::rounds(3, 1).go(|worker, _| Fate {
        ns: (worker > 0).then_some(1.0),
        ..QUIET
    });
    assert_eq!(came.samples.len(), 6, "one that ran once may run again");
}

#[test]
fn each_round_has_an_order_of_its_own_and_all_cases() {
    let came = Run::rounds(4, 8).go(|_, _| QUIET);
    let orders: BTreeSet<&[String]> = came.ran.chunks(9).collect();
    assert_eq!((came.ran.len(), orders.len()), (36, 4));
    for order in orders {
        let cases: BTreeSet<&String> = order.iter().collect();
        assert_eq!(
            cases.len(),
            8,
            "the reference case twice, every other once: {order:?}"
        );
    }
}

#[test]
fn the_order_is_that_of_the_seed() {
    let order = |seed| {
        let run = Run {
            seed,
            ..Run::rounds(2, 8)
        };
        run.go(|_, _| QUIET).ran
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn two_experiments_of_one_run_have_different_orders() {
    let mut run = Run::rounds(1, 8);
    run.chosen.push(chosen(&SECOND_ONE, 8));
    let ran = run.go(|_, _| QUIET).ran;
    let cases: Vec<&str> = ran.iter().map(|id| id.split_once('/').unwrap().1).collect();
    assert_ne!(cases[..9], cases[9..]);
}

#[test]
fn the_reference_case_has_a_second_copy_in_every_round() {
    let mut run = Run::rounds(2, 3);
    run.chosen[0].plan.reference = Params::new().with("n", 1);
    let came = run.go(|_, _| QUIET);
    let copies: Vec<(&str, u32)> = came
        .samples
        .iter()
        .filter(|s| s.copy == 1)
        .map(|s| (&*s.case, s.round))
        .collect();
    assert_eq!(copies, [("first/n=1", 1), ("first/n=1", 2)]);
}

#[test]
fn every_sample_has_the_same_number_of_tries_and_all_are_stored() {
    let mut run = Run::rounds(2, 2);
    for case in &mut run.chosen[0].plan.cases {
        case.estimate = Duration::from_millis(20);
    }
    let came = run.go(|worker, _| Fate {
        ns: Some(100.0 + ((worker * 7) % 5) as f64),
        ..QUIET
    });
    let places = |of: &StoredSample| (of.round, of.case.clone(), of.copy, of.nth_try);
    let stored: BTreeSet<_> = came.samples.iter().map(places).collect();
    // Two rounds of two cases and A′, each in two tries.
    assert_eq!((stored.len(), came.samples.len(), came.ran.len()), (12, 12, 12));
    assert!(came.samples.iter().all(|s| s.nth_try < 2));
    assert!(run.chosen[0].measured().all(|(_, tries)| tries == 2));
}

#[test]
fn precision_ends_an_experiment_at_a_look() {
    let came = Run::new(Profile::Standard, 2).go(|_, _| QUIET);
    assert_eq!(came.stopped(), ("precision", 10));
    let came = Run::new(Profile::Paper, 2).go(|_, _| QUIET);
    assert_eq!(came.stopped(), ("precision", 10));
    // Of ten values two that lie far off are one too many for a narrow interval; of fifteen they are not.
    let came = Run::new(Profile::Standard, 1).go(|worker, _| Fate {
        ns: Some(if worker < 4 { 200.0 } else { 100.0 }),
        ..QUIET
    });
    assert_eq!(came.stopped(), ("precision", 15));
}

#[test]
fn one_wide_case_keeps_an_experiment_going_to_its_last_round() {
    let of_one = |worker, order: &Order| Fate {
        ns: if order.params.int("n") == Some(1) {
            wide(worker)
        } else {
            Some(100.0)
        },
        ..QUIET
    };
    assert_eq!(
        Run::new(Profile::Standard, 3).go(of_one).stopped(),
        ("rounds", 20)
    );
    assert_eq!(Run::new(Profile::Quick, 3).go(of_one).stopped(), ("rounds", 7));
}

#[test]
fn without_undisturbed_values_nothing_is_precise() {
    let came = Run::new(Profile::Standard, 1).go(|_, _| Fate {
        foreign: 0.5,
        ..QUIET
    });
    assert_eq!(came.stopped(), ("rounds", 20));
}

#[test]
fn the_time_budget_ends_an_experiment_but_not_before_it_has_an_interval() {
    // A round of a case and its second copy takes four seconds.
    for (budget_s, rounds) in [(1, 6), (24, 6), (32, 8), (35, 8), (36, 9)] {
        let mut run = Run::new(Profile::Standard, 1);
        run.chosen[0].plan.budget = budget_s * SECOND;
        let came = run.go(|worker, _| Fate {
            ns: wide(worker),
            ..QUIET
        });
        assert_eq!(came.stopped(), ("time-budget", rounds), "{budget_s} s");
    }
}

#[test]
fn rounds_that_were_asked_for_are_taken_whatever_the_time_budget() {
    let mut run = Run::rounds(9, 1);
    run.chosen[0].plan.budget = SECOND;
    let came = run.go(|_, _| QUIET);
    assert_eq!(came.stopped(), ("rounds", 9));
}

#[test]
fn unused_time_budget_passes_to_the_next_experiment() {
    let mut run = Run::new(Profile::Standard, 1);
    run.chosen.push(chosen(&SECOND_ONE, 1));
    run.chosen[0].plan.budget = 44 * SECOND;
    run.chosen[1].plan.budget = 32 * SECOND;
    // The first ends after ten rounds of four seconds; the second has its 32 s and the 4 s that were left.
    let came = run.go(|worker, _| Fate {
        ns: if worker < 20 { Some(1.0) } else { wide(worker) },
        ..QUIET
    });
    let ended: Vec<&str> = came.heard.ended.iter().map(|(_, because)| &**because).collect();
    assert_eq!(ended, ["precision", "time-budget"]);
    let of_second = came.samples.iter().filter(|s| s.experiment == "second");
    assert_eq!(of_second.map(|s| s.round).max(), Some(9));
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_goes_on_where_it_was() {
    let run = Run::rounds(3, 3);
    let whole = Run::rounds(3, 3).go(|_, _| QUIET);
    for stop_during in [0, 3, 4, 11] {
        let run = Run {
            dir: tempfile::tempdir().unwrap(),
            chosen: vec![chosen(&FIRST, 3)],
            ..run
        };
        let mut quiet = |_: usize, _: &Order| QUIET;
        let mut machine = SimulatedMachine::new(&mut quiet);
        machine.stop_during = Some(stop_during);
        let first = run.go_on(&mut machine);
        // The worker under way is let finish; what is stored is what ran.
        assert_eq!(
            (first.ran.len(), first.samples.len()),
            (stop_during + 1, stop_during + 1)
        );
        let is_over = stop_during + 1 == whole.ran.len();
        assert_eq!(
            first.ending,
            if is_over {
                Ending::Complete
            } else {
                Ending::Interrupted
            }
        );
        let second = run.go(|_, _| QUIET);
        assert_eq!(
            [first.ran, second.ran.clone()].concat(),
            whole.ran,
            "stopped during {stop_during}"
        );
        assert_eq!(
            (second.ending, second.stopped()),
            (Ending::Complete, ("rounds", 3))
        );
    }
}

#[test]
fn what_is_left_follows_the_pace_of_the_workers() {
    // Expected to take two seconds each; they take six.
    let came = Run::rounds(3, 2).go(|_, _| Fate {
        takes: 6 * SECOND,
        ..QUIET
    });
    let (round, done, left, share) = came.heard.progress[0];
    assert_eq!((round, done, left, share), (1, 0, 18 * SECOND, 0.0));
    let (round, done, left, share) = came.heard.progress[3];
    assert_eq!((round, done, left), (2, 0, 36 * SECOND));
    assert!((share - 1.0 / 3.0).abs() < 1e-9, "{share}");
}
