//! The schedule on a simulated machine. Its time passes only while a worker runs or a wait lasts, and what each worker
//! measures, and what disturbs it, is scripted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::net::UnixStream;

mod edges;
mod pairs;
mod plans;

use tempfile::TempDir;
use threadgauge_machine::CpuTimes;
use threadgauge_results::{Metric, Params, StoredExperiment, Times};

use super::*;
use crate::experiment::Experiment;
use crate::grid::Plan;
use crate::launch::{Interrupts, Outcome};
use crate::statistic::metric;

/// The tick of the simulated `/proc/stat`: fine enough for a thousandth of a short sample.
const TICKS_PER_SECOND: u64 = 100_000;
const SECOND: Duration = Duration::from_secs(1);

/// Experiments that only the simulated machine runs.
static FIRST: Experiment = simulated("first");
static SECOND_ONE: Experiment = simulated("second");

const fn simulated(id: &'static str) -> Experiment {
    Experiment {
        id,
        question: "What does the schedule do?",
        first_run: true,
        sources: &[],
        primary: const { &[metric("ns", "ns")] },
        how: "",
        control: "",
        traps: &[],
        source: "",
        calls: &[],
        plan: |_| unreachable!("a run has its plan"),
        run: |_, _| unreachable!("no worker is started"),
        read: |_| unreachable!("the schedule reads no answer"),
    }
}

/// What happens to one worker.
#[derive(Clone, Copy)]
struct Fate {
    takes: Duration,
    /// What it measures; `None` where it fails.
    ns: Option<f64>,
    /// Share of CPU time that the hypervisor takes.
    steal: f64,
    /// How many CPUs other programs use.
    foreign: f64,
    throttled: Duration,
    /// How long all is stopped, which the worker takes longer.
    stopped: Duration,
    /// How long the machine sleeps, which its clock does not count.
    suspended: Duration,
}

/// An undisturbed worker of two seconds, the time over which foreign load is judged.
const QUIET: Fate = Fate {
    takes: Duration::from_secs(2),
    ns: Some(100.0),
    steal: 0.0,
    foreign: 0.0,
    throttled: Duration::ZERO,
    stopped: Duration::ZERO,
    suspended: Duration::ZERO,
};

/// A machine with one CPU.
struct SimulatedMachine<'a> {
    now: Reading,
    /// What happens to the n-th worker, counted from 0.
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
        self.now.suspended_ns += ns(fate.suspended);
        self.now.at_ns += ns(fate.stopped);
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
            stopped: fate.stopped,
        }
    }

    fn wait_until(&mut self, then: Duration) {
        if self.interrupts.count() > 0 {
            return;
        }
        let waited = then.saturating_sub(self.now());
        self.now.cpus[0].idle += (waited.as_secs_f64() * TICKS_PER_SECOND as f64) as u64;
        self.now.at_ns += u64::try_from(waited.as_nanos()).unwrap();
    }

    fn interrupts(&mut self) -> &mut Interrupts {
        &mut self.interrupts
    }
}

/// What the schedule told its observer.
#[derive(Default)]
struct Heard {
    /// Round, workers done of it, time left and all of it, before each worker.
    progress: Vec<(u32, usize, Duration, Duration)>,
    /// Experiments and why they ended.
    ended: Vec<(String, String)>,
}

impl Observer for Heard {
    fn case_begins(&mut self, progress: &Progress<'_>) {
        let Progress {
            round,
            done,
            left,
            whole,
            ..
        } = *progress;
        self.progress.push((round, done, left, whole));
    }
    fn experiment_ends(&mut self, id: &str, because: &str, _: &Store) {
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
    /// Which cases continue after a look at so many rounds; 0 without one.
    goes_on: fn(&PlannedCase, rounds: u32) -> bool,
}

/// How it ended, and what it left.
struct Came {
    ending: Ending,
    heard: Heard,
    /// The cases in the order in which workers ran them.
    ran: Vec<String>,
    samples: Vec<StoredSample>,
    /// Rounds and tries of each look at the first experiment.
    looks: Vec<(u32, u32)>,
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
            goes_on: |_, _| true,
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

    fn forecast(&self, earlier: Times) -> Forecast {
        let rule = stopping_rule(self.profile, self.rounds);
        Forecast::new(&self.chosen, self.profile, &rule, earlier)
    }

    /// Begins the run, or resumes it.
    fn go_on(&self, machine: &mut SimulatedMachine<'_>) -> Came {
        self.go_in(Turns::alone(), machine)
    }

    fn go_in(&self, mut turns: Turns, machine: &mut SimulatedMachine<'_>) -> Came {
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
            each: None,
            runtimes: Vec::new(),
        };
        let plan: Vec<StoredExperiment> = self.chosen.iter().map(Chosen::record).collect();
        let mut store = if self.dir.path().join(threadgauge_results::STORE_FILE).exists() {
            Store::resume(self.dir.path()).unwrap()
        } else {
            Store::create(self.dir.path(), &record, &serde_json::Value::Null, &plan).unwrap()
        };
        let going_on = |store: &Store, id: &str| {
            let rounds = store.looks(id)?.last().map_or(0, |look| look.rounds);
            let chosen = self.chosen.iter().find(|c| c.experiment.id == id).unwrap();
            let on = chosen
                .plan
                .cases
                .iter()
                .filter(|case| (self.goes_on)(case, rounds));
            Ok(on.map(|case| case.params.case_id(id)).collect())
        };
        let mut heard = Heard::default();
        let mut forecast = self.forecast(Times::default());
        let ending = run(
            &mut store,
            &self.chosen,
            &going_on,
            machine,
            &mut turns,
            &mut forecast,
            &mut heard,
        )
        .unwrap();
        let samples = self
            .chosen
            .iter()
            .flat_map(|c| store.samples(c.experiment.id).unwrap());
        let looks = store.looks(FIRST.id).unwrap();
        Came {
            looks: looks.iter().map(|look| (look.rounds, look.tries)).collect(),
            ending,
            heard,
            ran: std::mem::take(&mut machine.ran),
            samples: samples.collect(),
        }
    }
}

crate::point! {
    struct Case { n: u64 }
}

fn chosen(experiment: &'static Experiment, cases: u64) -> Chosen {
    let case = |n| PlannedCase::new(Case { n }, 2 * SECOND);
    Chosen {
        experiment,
        plan: Plan {
            cases: (0..cases).map(case).collect(),
            reference: Params::new(),
            budget: 100_000 * SECOND,
        },
    }
}

#[test]
fn a_run_that_is_resumed_takes_as_many_tries() {
    static PLANNED: Experiment = Experiment {
        plan: |_| Plan {
            cases: Vec::new(),
            reference: Params::new(),
            budget: Duration::ZERO,
        },
        ..simulated("planned")
    };
    for (longest_us, tries) in [(25_000, 2), (25_001, 1), (25_999, 1), (26_000, 1)] {
        let mut began = chosen(&PLANNED, 2);
        for case in &mut began.plan.cases {
            case.estimate = Duration::from_micros(longest_us);
        }
        let again = Chosen::again(
            &PLANNED,
            &began.record(),
            &crate::testing::site(Profile::Quick, 1),
        );
        assert_eq!(
            [&began, &again].map(|c| c.plan.tries()),
            [tries; 2],
            "{longest_us} µs"
        );
    }
}

/// The attempt of each stored sample, in order, and whether it is gated.
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
fn a_sample_during_which_all_was_stopped_is_marked_and_taken_again() {
    let stopped = Fate {
        stopped: 4 * SECOND,
        ..QUIET
    };
    let slept = Fate {
        suspended: 4 * SECOND,
        ..QUIET
    };
    // A deadline of the case's own may have ended it: that is no failure of the case.
    let failed = Fate { ns: None, ..stopped };
    for fate in [stopped, slept, failed] {
        let came = Run::rounds(1, 1).go(|worker, _| if worker == 0 { fate } else { QUIET });
        assert_eq!(attempts(&came), [(0, true), (0, false), (1, false)]);
        let [first, .., last] = &came.samples[..] else {
            panic!()
        };
        assert_eq!(first.sample.noise.get(STOPPED_S), Some(&4.0));
        assert_eq!(last.sample.noise.get(STOPPED_S), None);
        assert_eq!(first.wall_ns, 2_000_000_000);
    }
    let came = Run::rounds(3, 1).go(|worker, _| if worker < 2 { failed } else { QUIET });
    assert!(
        came.samples
            .iter()
            .filter(|s| s.sample.status == Status::Ok)
            .count()
            >= 6,
        "it is not given up for that"
    );
}

#[test]
fn the_time_budget_does_not_count_the_time_for_which_all_was_stopped() {
    // Eight rounds of a case and its second copy take 32 s.
    let mut run = Run::new(Profile::Standard, 1);
    run.chosen[0].plan.budget = 35 * SECOND;
    let came = run.go(|worker, _| Fate {
        stopped: if worker == 3 {
            1000 * SECOND
        } else {
            Duration::ZERO
        },
        ..QUIET
    });
    // There is no time for the repeat.
    assert_eq!(came.stopped(), ("time-budget", 8));
    assert!(
        came.heard
            .progress
            .iter()
            .all(|(_, _, left, _)| *left < 100 * SECOND)
    );
}

#[test]
fn what_a_quota_took_is_stored_and_is_not_called_a_stop() {
    let came = Run::rounds(1, 1).go(|worker, _| Fate {
        throttled: if worker == 0 { SECOND } else { Duration::ZERO },
        stopped: if worker == 0 { SECOND / 2 } else { Duration::ZERO },
        ..QUIET
    });
    let noise = &came.samples[0].sample.noise;
    assert_eq!((noise.get(THROTTLED_S), noise.get(STOPPED_S)), (Some(&1.0), None));
    assert!(came.samples[0].gated);
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
fn a_try_that_stays_disturbed_is_taken_three_times_and_no_more() {
    let came = Run::rounds(2, 8).go(|_, order| Fate {
        foreign: if order.params.int("n") == Some(1) {
            0.5
        } else {
            0.0
        },
        ..QUIET
    });
    for round in [1, 2] {
        let of_round = came.samples.iter().filter(|s| s.gated && s.round == round);
        assert_eq!(of_round.map(|s| s.attempt).collect::<Vec<_>>(), [0, 1, 2]);
    }
    assert_eq!(came.samples.len(), 2 * (9 + 2));
}

/// When each try ended, by the simulated clock, if a worker takes so long.
fn ends(came: &Came, takes: Duration, attempt: u32) -> Vec<Duration> {
    let places = (1..)
        .zip(&came.samples)
        .filter(|(_, s)| s.attempt == attempt && (s.gated || attempt > 0));
    places.map(|(place, _)| takes * place).collect()
}

#[test]
fn a_repeat_comes_later_than_the_window_that_marked_it() {
    // Half a second of foreign load marks all short samples in the two seconds after it.
    let short = Duration::from_millis(100);
    let came = Run::rounds(6, 14).go(|worker, _| Fate {
        takes: short,
        foreign: if (25..30).contains(&worker) { 0.8 } else { 0.0 },
        ..QUIET
    });
    let (marked, repeated) = (ends(&came, short, 0), ends(&came, short, 1));
    assert!(
        marked.len() > 15 && marked.len() == repeated.len(),
        "{marked:?} {repeated:?}"
    );
    for (marked, repeated) in marked.iter().zip(&repeated) {
        assert!(*repeated >= *marked + WINDOW, "{marked:?} {repeated:?}");
    }
    assert!(
        came.samples.iter().all(|s| s.attempt == 0 || !s.gated),
        "none was hit again"
    );
}

#[test]
fn a_repeat_at_the_end_waits_until_the_window_is_over() {
    let came = Run::rounds(1, 1).go(|worker, _| Fate {
        takes: Duration::from_millis(1200),
        foreign: if worker == 1 { 0.5 } else { 0.0 },
        ..QUIET
    });
    assert_eq!(attempts(&came), [(0, false), (0, true), (1, false)]);
    assert_eq!(came.looks, [(1, 3)], "the look comes after it");
}

#[test]
fn when_half_of_the_last_twenty_are_disturbed_nothing_is_repeated() {
    let came = Run::rounds(4, 9).go(|worker, _| Fate {
        foreign: if worker < 30 { 0.5 } else { 0.0 },
        ..QUIET
    });
    let repeats: Vec<usize> = (0..came.samples.len())
        .filter(|i| came.samples[*i].attempt > 0)
        .collect();
    assert!(repeats.iter().all(|i| *i < 10 || *i > 30), "{repeats:?}");
    assert!(
        repeats.iter().any(|i| *i > 30),
        "it begins again when the load has gone: {repeats:?}"
    );
}

#[test]
fn foreign_load_in_a_short_sample_is_judged_over_the_two_seconds_that_end_with_it() {
    // One tick of another program in 50 ms is a fifth of a CPU; over two seconds it is half a per cent.
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
fn a_long_sample_is_judged_by_its_own_span() {
    let came = Run::rounds(1, 1).go(|worker, _| Fate {
        takes: Duration::from_millis(1100),
        foreign: if worker == 0 { 0.5 } else { 0.0 },
        ..QUIET
    });
    assert_eq!(attempts(&came), [(0, true), (0, false), (1, false)]);
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
    let measured: BTreeSet<_> = run.chosen[0].measured().collect();
    let cases: BTreeSet<_> = came.samples.iter().map(|s| (s.case.clone(), 2)).collect();
    assert_eq!(measured, cases);
}

#[test]
fn an_experiment_ends_at_the_look_after_which_no_case_goes_on() {
    for (profile, because, looks) in [
        (Profile::Quick, "decided", [7, 10]),
        (Profile::Standard, "precision", [10, 15]),
        (Profile::Paper, "precision", [10, 20]),
    ] {
        for last in looks {
            let mut run = Run::new(profile, 2);
            run.goes_on = if last == looks[0] {
                |_, _| false
            } else {
                |_, rounds| ![10, 15, 20].contains(&rounds) || rounds == 10
            };
            if profile == Profile::Quick && last == 10 {
                run.goes_on = |_, rounds| rounds < 10;
            }
            let came = run.go(|_, _| QUIET);
            assert_eq!(came.stopped(), (because, last));
            assert_eq!(came.looks.last().unwrap().0, last);
        }
    }
}

#[test]
fn after_a_look_only_the_cases_that_are_needed_go_on_and_the_reference_twice() {
    let mut run = Run::new(Profile::Quick, 4);
    run.goes_on =
        |case, rounds| case.params.int("n") == Some(2) || (rounds < 10 && case.params.int("n") == Some(3));
    let came = run.go(|_, _| QUIET);
    assert_eq!(came.stopped(), ("rounds", 14));
    let of_round = |round| {
        let of_round = came.samples.iter().filter(|s| s.round == round);
        of_round.map(|s| (&s.case[..], s.copy)).collect::<BTreeSet<_>>()
    };
    let reference = [("first/n=0", 0), ("first/n=0", 1)];
    assert_eq!(of_round(7).len(), 5);
    assert_eq!(
        of_round(8),
        [&reference[..], &[("first/n=2", 0), ("first/n=3", 0)]]
            .concat()
            .into_iter()
            .collect()
    );
    assert_eq!(
        of_round(11),
        [&reference[..], &[("first/n=2", 0)]]
            .concat()
            .into_iter()
            .collect()
    );
    assert_eq!(came.looks, [(7, 35), (10, 47), (14, 59)]);
}

#[test]
fn a_run_that_is_resumed_after_a_look_does_not_look_again() {
    let whole = {
        let mut run = Run::new(Profile::Quick, 3);
        run.goes_on = |case, _| case.params.int("n") == Some(2);
        run.go(|_, _| QUIET)
    };
    // During the last worker before the first look, and during the second after it.
    for stop_during in [27, 29] {
        let mut run = Run::new(Profile::Quick, 3);
        run.goes_on = |case, _| case.params.int("n") == Some(2);
        let mut quiet = |_: usize, _: &Order| QUIET;
        let mut machine = SimulatedMachine::new(&mut quiet);
        machine.stop_during = Some(stop_during);
        let first = run.go_on(&mut machine);
        let second = run.go(|_, _| QUIET);
        assert_eq!(
            [first.ran, second.ran].concat(),
            whole.ran,
            "stopped during {stop_during}"
        );
        assert_eq!(second.looks, whole.looks);
    }
}

#[test]
fn the_time_budget_ends_an_experiment_but_not_before_it_has_an_interval() {
    // A round of a case and its second copy takes four seconds.
    for (budget_s, rounds) in [(1, 7), (28, 7), (32, 8), (35, 8), (36, 9)] {
        let mut run = Run::new(Profile::Standard, 1);
        run.chosen[0].plan.budget = budget_s * SECOND;
        let came = run.go(|_, _| QUIET);
        assert_eq!(came.stopped(), ("time-budget", rounds), "{budget_s} s");
    }
}

#[test]
fn what_a_late_round_takes_is_that_of_the_cases_that_go_on() {
    // Seven rounds of eight cases and A′ take 126 s, and each late one of two and A′ six.
    let mut run = Run::new(Profile::Quick, 8);
    run.chosen[0].plan.budget = 140 * SECOND;
    run.goes_on = |case, _| case.params.int("n") == Some(1);
    assert_eq!(run.go(|_, _| QUIET).stopped(), ("time-budget", 9));
}

#[test]
fn without_time_until_a_second_look_none_is_taken_and_what_claims_need_goes_on() {
    // Seven rounds of eight cases and A′ take 126 s, half of three rounds of six cases and A′ 21 s, a round of them 14.
    let run = |budget_s| {
        let mut run = Run::new(Profile::Quick, 8);
        run.chosen[0].plan.budget = budget_s * SECOND;
        run.goes_on = |case, _| case.params.int("n").is_some_and(|n| n < 6);
        run
    };
    let whole = run(146).go(|_, _| QUIET);
    assert_eq!((whole.stopped(), whole.looks.len()), (("time-budget", 8), 0));
    assert_eq!(whole.samples.iter().filter(|s| s.round == 8).count(), 7);
    let looks = run(147).go(|_, _| QUIET).looks;
    assert_eq!(looks.iter().map(|look| look.0).collect::<Vec<_>>(), [7]);
    // A number of rounds that was asked for has its look, whatever the time.
    let mut asked = run(1);
    asked.rounds = Some(8);
    assert_eq!(asked.go(|_, _| QUIET).looks.len(), 1);

    // Resumed within the round after the first look would have been.
    let resumed = run(146);
    let mut quiet = |_: usize, _: &Order| QUIET;
    let mut machine = SimulatedMachine::new(&mut quiet);
    machine.stop_during = Some(66);
    let first = resumed.go_on(&mut machine);
    let second = resumed.go(|_, _| QUIET);
    assert_eq!([first.ran, second.ran].concat(), whole.ran);
    assert!(second.looks.is_empty());
}

#[test]
fn a_disturbed_try_of_the_last_round_is_repeated_before_the_only_look() {
    let mut run = Run::new(Profile::Quick, 2);
    run.chosen[0].plan.budget = 47 * SECOND;
    // Seven rounds of two cases and A′ take 42 s, and the repeat of the 21st try two, and two of waiting.
    let disturbed = |worker: usize| if worker == 20 { 0.2 } else { 0.0 };
    let came = run.go(|worker, _| Fate {
        foreign: disturbed(worker),
        ..QUIET
    });
    assert_eq!(came.stopped(), ("time-budget", 7));
    assert_eq!((came.looks.len(), attempts(&came).last()), (0, Some(&(1, false))));
}

#[test]
fn repeats_end_with_the_time_that_the_first_rounds_need() {
    let disturbed = |budget_s| {
        let mut run = Run::new(Profile::Quick, 3);
        run.chosen[0].plan.budget = budget_s * SECOND;
        let came = run.go(|_, order| Fate {
            foreign: if order.params.int("n") == Some(1) {
                0.5
            } else {
                0.0
            },
            ..QUIET
        });
        came.samples.iter().filter(|s| s.attempt > 0).count()
    };
    // Seven rounds of three cases and A′ take 56 s; two of the seven repeats have time in 60 s, and none in 56.
    assert_eq!([56, 60].map(disturbed), [0, 2]);
    assert!(disturbed(1000) >= 14);
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
    run.goes_on = |case, _| case.params.int("of") == Some(2);
    run.chosen[1].plan.cases[0].params = Params::new().with("of", 2);
    let came = run.go(|_, _| QUIET);
    let ended: Vec<&str> = came.heard.ended.iter().map(|(_, because)| &**because).collect();
    assert_eq!(ended, ["precision", "time-budget"]);
    let of_second = came.samples.iter().filter(|s| s.experiment == "second");
    assert_eq!(of_second.map(|s| s.round).max(), Some(9));
}

#[test]
fn the_profile_has_a_time_for_all_experiments_together() {
    // A round of eight cases and A′ takes 18 s, so fourteen take 252, and of two experiments more than quick has.
    let rounds = |experiments: &[&'static Experiment]| {
        let mut run = Run::new(Profile::Quick, 8);
        run.chosen = experiments.iter().map(|e| chosen(e, 8)).collect();
        run.chosen.iter_mut().for_each(|c| c.plan.budget = 300 * SECOND);
        let mut quiet = |_: usize, _: &Order| QUIET;
        let mut machine = SimulatedMachine::new(&mut quiet);
        let came = run.go_on(&mut machine);
        assert!(machine.now() <= Profile::Quick.most(), "{:?}", machine.now());
        let of = |e: &&'static Experiment| {
            came.samples
                .iter()
                .filter(|s| s.experiment == e.id)
                .map(|s| s.round)
                .max()
        };
        experiments.iter().map(of).map(Option::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(rounds(&[&SECOND_ONE]), [14]);
    // Of 420 s the first rounds take 252. The first has half of the rest, and the second what the first leaves of that.
    assert_eq!(rounds(&[&FIRST, &SECOND_ONE]), [11, 12]);
}

#[test]
fn time_that_an_experiment_takes_more_is_taken_from_later_ones() {
    let mut run = Run::new(Profile::Standard, 1);
    run.chosen.push(chosen(&SECOND_ONE, 1));
    // Seven rounds of four seconds.
    run.chosen[0].plan.budget = 28 * SECOND;
    run.chosen[1].plan.budget = 44 * SECOND;
    // Those of the first take six, 14 s more in all; the second has time for seven rounds instead of eleven.
    let came = run.go(|_, order| Fate {
        takes: if order.experiment == "first" { 3 } else { 2 } * SECOND,
        ..QUIET
    });
    let rounds = |id| {
        let of = came.samples.iter().filter(|s| s.experiment == id);
        of.map(|s| s.round).max()
    };
    assert_eq!((rounds("first"), rounds("second")), (Some(7), Some(7)));
}

#[test]
fn a_run_ends_within_twice_its_time_however_slow_the_machine() {
    for (times, rounds) in [(1, 7), (2, 7), (3, 4), (5, 2)] {
        let mut run = Run::new(Profile::Quick, 1);
        run.chosen[0].plan.budget = 28 * SECOND;
        run.chosen.push(chosen(&SECOND_ONE, 1));
        run.chosen[1].plan.budget = 28 * SECOND;
        // The last try of every round is disturbed, and the look would wait for its repeat.
        let mut fate = |worker: usize, _: &Order| Fate {
            takes: times * 2 * SECOND,
            foreign: if worker % 7 == 6 { 0.5 } else { 0.0 },
            ..QUIET
        };
        let mut machine = SimulatedMachine::new(&mut fate);
        let came = run.go_on(&mut machine);
        assert!(machine.now() <= 2 * 56 * SECOND, "{times}: {:?}", machine.now());
        let of_first = came.samples.iter().filter(|s| s.experiment == "first");
        assert_eq!(
            of_first.map(|s| s.round).max(),
            Some(rounds),
            "{times} times as slow"
        );
        let because: BTreeSet<&str> = came.heard.ended.iter().map(|(_, because)| &**because).collect();
        assert_eq!(because, BTreeSet::from(["time-budget"]));
    }
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
        // The running worker may finish; what ran is stored.
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
    // They are estimated at two seconds each, and take six.
    let came = Run::rounds(3, 2).go(|_, _| Fate {
        takes: 6 * SECOND,
        ..QUIET
    });
    assert_eq!(came.heard.progress[0], (1, 0, 18 * SECOND, 18 * SECOND));
    assert_eq!(came.heard.progress[3], (2, 0, 36 * SECOND, 54 * SECOND));
    assert_eq!(came.heard.progress[8], (3, 2, 6 * SECOND, 54 * SECOND));
}

/// Whether one is within 20 % of the other.
#[track_caller]
fn near(told: Duration, truth: Duration) {
    let ratio = told.as_secs_f64() / truth.as_secs_f64();
    assert!((0.8..=1.2).contains(&ratio), "{told:?} for {truth:?}");
}

#[test]
fn an_estimate_is_learned_from_the_first_rounds_and_from_earlier_runs() {
    // Cases that take two and six times as long as the plan says; one goes on after the first look.
    let new = || {
        let mut run = Run::new(Profile::Quick, 3);
        run.chosen.push(chosen(&SECOND_ONE, 2));
        run.goes_on = |case, rounds| rounds < 10 && case.params.int("n").is_some_and(|n| n < 1);
        run
    };
    let fate = |_: usize, order: &Order| Fate {
        takes: SECOND * if order.params.int("n") == Some(1) { 12 } else { 4 },
        ..QUIET
    };
    let run = new();
    let mut of_all = fate;
    let mut machine = SimulatedMachine::new(&mut of_all);
    let came = run.go_on(&mut machine);
    let took = machine.now();
    assert!(came.samples.iter().any(|s| s.round > 7));
    // From the second round on, and at no moment before the end there is nothing left.
    let told = &came.heard.progress;
    for (at, (.., left, whole)) in told.iter().enumerate().filter(|(_, told)| told.0 > 1) {
        near(*whole, took);
        assert!(*left >= SECOND, "worker {at} of {}: {left:?}", told.len());
    }
    // The next run knows it before it begins, by the plan alone it would not.
    let store = Store::read(run.dir.path()).unwrap();
    let mut earlier = Times::default();
    let first = expected_rounds(&stopping_rule(Profile::Quick, None));
    let (record, machine) = (store.run().unwrap(), store.machine().unwrap());
    assert!(earlier.learn(&store, &machine, &record, first).unwrap());
    let next = new();
    near(next.forecast(earlier).of(&next.chosen), took);
    let by_plan = next.forecast(Times::default()).of(&next.chosen);
    assert!(by_plan < took / 2, "{by_plan:?} for {took:?}");
    // Another setting tells nothing.
    let mut other = Times::default();
    let quick = RunRecord {
        rounds: Some(3),
        ..record
    };
    assert!(!other.learn(&store, &machine, &quick, first).unwrap());
    assert_eq!(next.forecast(other).of(&next.chosen), by_plan);
}

#[test]
fn a_longer_profile_is_expected_to_use_its_time() {
    let mut run = Run::new(Profile::Standard, 2);
    run.chosen[0].plan.budget = 100 * SECOND;
    // Ten rounds of six seconds, then as many as have time.
    assert_eq!(run.forecast(Times::default()).of(&run.chosen), 100 * SECOND);
    let came = run.go(|_, _| QUIET);
    assert_eq!(came.stopped(), ("time-budget", 16));
    run.chosen[0].plan.budget = 1000 * SECOND;
    assert_eq!(run.forecast(Times::default()).of(&run.chosen), 120 * SECOND);
}
