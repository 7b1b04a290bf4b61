//! Question: how many of your own computations should run at a time, and in which order?
//!
//! A command is run once for each item of a list, as a program of its own. What each takes by itself was found out
//! before the run ([`Each::alone`](threadgauge_results::Each::alone)): orders, theory and the estimate follow from
//! that.

use std::io::Read as _;
use std::num::NonZeroUsize;
use std::process::{Command, ExitStatus, Stdio};

use threadgauge_exec::{ConcurrentExecution, Done, Mode, Times};
use threadgauge_lab::prelude::*;
use threadgauge_machine::usage_children;
use threadgauge_results::{Alone, Figure, Table};

use crate::ideal::{Phase, completions};

/// What it asks, how it measures, and the functions that do.
pub const EACH: Experiment = Experiment {
    id: "each",
    question: "How many of your own computations should run at a time, and in which order?",
    first_run: false,
    sources: &["000"],
    primary: &[ELAPSED, MEAN],
    how: "The command is run once for each item of the list, each as a program of its own, by a pool of as many threads as \
          may run at a time (threadgauge-exec), which wait for it. What programs write is thrown away. Before the run each \
          item has had the command to itself once: the orders shortest and longest first go by that. `elapsed_ns` runs \
          until the last has ended, `mean_completion_ns` is the mean over items of the time until its result is there, \
          `turnaround` of that time over what the item takes by itself; `cpu_ns` is the CPU time of all. One whose command \
          fails fails the case.",
    control: "Theory beside every figure (ideal_…): the same programs in the same order, each computing first for its CPU \
              time and then waiting for the rest of its own time, with the CPUs shared equally and at no cost.",
    traps: &[
        "What a program reads is in the page cache after the first time, and what it writes may be there already: let it \
         write to the same place each time, or nowhere.",
        "A program with several threads gains less from others beside it than theory says: theory gives it one CPU.",
        "Programs that share more than CPUs (a disk, a lock, memory bandwidth, a licence) fall behind theory.",
    ],
    source: "Source 000 was written for users with work of their own; its program could only burn and sleep.",
    calls: &["threadgauge run turnaround --each 'gzip --keep --stdout {}' --items files.txt"],
    plan,
    run,
    read,
};

const ELAPSED: Metric = metric("elapsed_ns", "ns");
const MEAN: Metric = metric("mean_completion_ns", "ns");
const TURNAROUND: Metric = metric("turnaround", "ratio");
const FIRST: Metric = metric("first_ns", "ns");
const CPU: Metric = metric("cpu_ns", "ns");
const IDEAL_ELAPSED: Metric = metric("ideal_elapsed_ns", "ns");
const IDEAL_MEAN: Metric = metric("ideal_mean_completion_ns", "ns");

/// The most items of a list.
pub const MOST_ITEMS: usize = 1_000;
/// More are not tried at a time, unless set.
const MOST_AT_A_TIME: u64 = 256;
/// Of what a program says, so much of the end is kept until it is known whether it fails, bytes.
const LAST_WORDS: usize = 1_000;

words! {
    /// In which order the items come.
    enum Order {
        /// As in the list.
        Given = "given",
        /// Those first that take the shortest time by themselves.
        Shortest = "shortest",
        /// Those first that take the longest.
        Longest = "longest",
    }
}
point! {
    /// One way to run them all.
    struct Case {
        order: Order,
        degree: u64 = 1..=1_000,
        cpus: u64 = 1..,
    }
}

impl Case {
    const fn one_after_the_other(cpus: u64) -> Self {
        Self {
            order: Order::Given,
            degree: 1,
            cpus,
        }
    }

    /// The places of the items in the list, in the order in which they come. Equal ones keep theirs.
    fn places(self, alone: &[Alone]) -> Vec<usize> {
        let mut places: Vec<usize> = (0..alone.len()).collect();
        match self.order {
            Order::Given => {}
            Order::Shortest => places.sort_by_key(|&place| alone[place].wall_ns),
            Order::Longest => places.sort_by_key(|&place| std::cmp::Reverse(alone[place].wall_ns)),
        }
        places
    }

    /// When each would end after the start if nothing cost anything but the work itself, ns, in the order in which they
    /// come.
    fn ideal(self, alone: &[Alone]) -> Vec<f64> {
        let phases = |place: usize| {
            let Alone { wall_ns, cpu_ns } = alone[place];
            let computes = cpu_ns.min(wall_ns);
            vec![
                Phase::Compute(computes as f64),
                Phase::Wait((wall_ns - computes) as f64),
            ]
        };
        let phases: Vec<Vec<Phase>> = self.places(alone).into_iter().map(phases).collect();
        completions(&phases, self.cpus, self.degree)
    }
}

fn plan(site: &Site) -> Plan {
    let cpus = site.cpus.len() as u64;
    let mut cases = Vec::new();
    let items = site.each.as_ref().map_or(0, |each| each.items.len() as u64);
    if items > 0 {
        let degrees = degrees(items, cpus);
        cases.extend(degrees.iter().map(|&degree| (Order::Given, degree)));
        // One after the other, and as many as there are CPUs; a longer profile has all.
        let ordered = match site.profile {
            Profile::Quick => degrees.iter().copied().filter(|&d| d == 1 || d == cpus).collect(),
            Profile::Standard | Profile::Paper => degrees,
        };
        for order in [Order::Shortest, Order::Longest] {
            cases.extend(ordered.iter().map(|&degree| (order, degree)));
        }
    }
    let alone = site.each.as_ref().map_or(&[][..], |each| &each.alone);
    let planned = |(order, degree)| {
        let case = Case { order, degree, cpus };
        PlannedCase::new(case, estimate(case, alone))
    };
    Plan {
        cases: cases.into_iter().map(planned).collect(),
        reference: Case::one_after_the_other(cpus).params(),
        // Whoever has work of their own is told how long it takes, and decides.
        budget: Duration::from_secs(7 * 24 * 60 * 60),
    }
}

/// One, and its doubles up to all; as many as there are CPUs is among them.
fn degrees(items: u64, cpus: u64) -> Vec<u64> {
    let all = items.min(MOST_AT_A_TIME);
    let doubles =
        std::iter::successors(Some(1), |degree| Some(degree * 2)).take_while(|&degree| degree < all);
    let mut degrees: Vec<u64> = doubles.chain([all]).chain((cpus < all).then_some(cpus)).collect();
    degrees.sort_unstable();
    degrees.dedup();
    degrees
}

/// What a sample takes: what theory says, and starting the worker and ending.
fn estimate(case: Case, alone: &[Alone]) -> Duration {
    let ideal_ns = case.ideal(alone).into_iter().fold(0.0, f64::max);
    Duration::from_millis(12) + Duration::from_nanos((ideal_ns * 1.03) as u64)
}

/// What begins an order that finds out what one item takes by itself.
#[must_use]
pub fn alone(cpus: u64) -> Params {
    Case::one_after_the_other(cpus).params()
}

/// What a sample of [`alone`] says of its one item.
#[must_use]
pub fn alone_of(sample: &threadgauge_results::Sample) -> Option<Alone> {
    let whole = |metric: Metric| sample.value(metric.name).map(|value| value.max(0.0) as u64);
    Some(Alone {
        wall_ns: whole(ELAPSED)?,
        cpu_ns: whole(CPU)?,
    })
}

fn run(case: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::read(case)?;
    let each = worker.each().cloned();
    let each = each.ok_or_else(|| {
        CaseError::Failed("there is no command for it: begin again with --each and --items".to_owned())
    })?;
    // Until that is known, in the order of the list.
    let first = each.alone.is_empty();
    let places = match first {
        true => (0..each.items.len()).collect(),
        false => case.places(&each.alone),
    };
    let commands: Vec<(usize, Vec<String>)> = places
        .iter()
        .map(|&place| (place, each.of(&each.items[place])))
        .collect();
    let mut ended_ns = vec![0.0; places.len()];
    let mut failure: Option<String> = None;
    let cpu_ns = || usage_children().cpu().as_nanos() as f64;
    let before_ns = cpu_ns();
    let watch = worker.stopwatch();
    let degree = usize::try_from(case.degree).ok().and_then(NonZeroUsize::new);
    let execution = ConcurrentExecution::new(degree.unwrap_or(NonZeroUsize::MIN)).mode(Mode::FreeCaller);
    let processor = |(place, command): &mut (usize, Vec<String>)| {
        one(command, first).map_err(|why| format!("item {} (`{}`): {why}", *place + 1, each.items[*place]))
    };
    let mut finish = |index: usize, times: Times, result: Result<(), String>| {
        ended_ns[index] = times.completion().as_nanos() as f64;
        if let Err(why) = result {
            failure.get_or_insert(why);
        }
    };
    let finisher = |done: Done<_, Result<(), String>>| finish(done.index, done.times, done.result);
    match case.degree {
        1 => drop(execution.serial(commands, processor, finisher)),
        _ => drop(execution.for_each(commands, processor, finisher)),
    }
    let lap = watch.stop();
    if let Some(why) = failure {
        return Err(CaseError::Failed(why));
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    worker.record(ELAPSED, lap.wall_ns as f64);
    worker.record(MEAN, mean(&ended_ns));
    worker.record(FIRST, ended_ns.iter().copied().fold(f64::INFINITY, f64::min));
    worker.record(CPU, cpu_ns() - before_ns);
    if !first {
        let by_itself = |&place: &usize| each.alone[place].wall_ns.max(1) as f64;
        let over: Vec<f64> = ended_ns
            .iter()
            .zip(places.iter().map(by_itself))
            .map(|(ended, alone)| ended / alone)
            .collect();
        let ideal = case.ideal(&each.alone);
        worker.record(TURNAROUND, mean(&over));
        worker.record(IDEAL_ELAPSED, ideal.iter().copied().fold(0.0, f64::max));
        worker.record(IDEAL_MEAN, mean(&ideal));
    }
    Ok(())
}

/// Runs a program to its end. Its last words are kept where `listens`; elsewhere they are thrown away unheard, so that
/// hearing them costs nothing.
fn one(command: &[String], listens: bool) -> Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("there is no program")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(if listens { Stdio::piped() } else { Stdio::null() })
        .spawn()
        .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    let mut last = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        let mut piece = vec![0; 64 << 10];
        while let Ok(count @ 1..) = stderr.read(&mut piece) {
            last.extend_from_slice(&piece[..count]);
            last.drain(..last.len().saturating_sub(LAST_WORDS));
        }
    }
    let status = child.wait().map_err(|error| format!("it is lost: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(in_words(status, &String::from_utf8_lossy(&last))),
    }
}

fn in_words(status: ExitStatus, last: &str) -> String {
    match last.trim() {
        "" => format!("`{status}`; run it by itself to see why"),
        last => format!("`{status}`, with the last words: {last}"),
    }
}

fn read(view: &View<'_>) -> Answer {
    let cases = cases(view);
    Answer {
        answer: answer(view, &cases),
        number: key_number(view, &cases),
        facts: [computing(view, &cases), theory(view, &cases)]
            .into_iter()
            .flatten()
            .collect(),
        figures: [
            chart(
                view,
                &cases,
                "each-elapsed",
                "How long all take",
                ELAPSED,
                IDEAL_ELAPSED,
            ),
            chart(
                view,
                &cases,
                "each-result",
                "How long it takes until a result is there, at the mean",
                MEAN,
                IDEAL_MEAN,
            ),
        ]
        .into_iter()
        .flatten()
        .collect(),
        tables: table_of(view, &cases).into_iter().collect(),
        ..Answer::default()
    }
}

/// Those that have figures, in plan order.
fn cases(view: &View<'_>) -> Vec<Case> {
    let cases = view
        .planned(Params::new())
        .filter_map(|params| Case::read(params).ok());
    cases.filter(|&case| view.measured(&ELAPSED.of(case))).collect()
}

/// The first of `cases`, the fewest at a time first, than which no other has a lower figure that these rounds could
/// tell.
fn enough(view: &View<'_>, cases: &[Case], metric: Metric) -> Option<Case> {
    let value = |case: &Case| view.value(&metric.of(*case));
    let lowest = *cases
        .iter()
        .filter(|case| value(case).is_some())
        .min_by(|a, b| f64::total_cmp(&value(a).unwrap_or(f64::MAX), &value(b).unwrap_or(f64::MAX)))?;
    let mut all = cases.to_vec();
    // As given before an order for which somebody has to know the lengths.
    all.sort_by_key(|case| (case.degree, case.order != Order::Given));
    let as_low =
        |case: &Case| *case == lowest || !view.resolved(&metric.of(lowest).over(metric.of(*case)).less_one());
    all.into_iter().find(as_low)
}

/// One after the other, in the order given.
fn serial(cases: &[Case]) -> Option<Case> {
    let is_serial = |case: &&Case| case.degree == 1 && case.order == Order::Given;
    cases.iter().find(is_serial).copied()
}

/// Those in the order given.
fn given(cases: &[Case]) -> Vec<Case> {
    let is_given = |case: &&Case| case.order == Order::Given;
    cases.iter().filter(is_given).copied().collect()
}

fn key_number(view: &View<'_>, cases: &[Case]) -> Option<KeyNumber> {
    let (serial, last) = (serial(cases)?, enough(view, &given(cases), ELAPSED)?);
    let of = format!(
        "{} ÷ one after the other: time until all are done",
        at_a_time(last)
    );
    let number = view.number(of, &ELAPSED.of(last).over(ELAPSED.of(serial)), "ratio");
    number.filter(|_| last != serial)
}

fn answer(view: &View<'_>, cases: &[Case]) -> String {
    let Some(serial) = serial(cases) else {
        return "Without the figures of one after the other, nothing can be said.".to_owned();
    };
    let has_intervals = view
        .estimate(&ELAPSED.of(serial))
        .is_some_and(|of| of.ci95.is_some());
    let given = given(cases);
    let (Some(last), Some(each)) = (enough(view, &given, ELAPSED), enough(view, cases, MEAN)) else {
        return "Without figures nothing can be said.".to_owned();
    };
    if !has_intervals {
        return "With 6 rounds or more it is said what to do.".to_owned();
    }
    let change = |case: Case, metric: Metric| {
        let shown = |case| {
            view.estimate(&metric.of(case))
                .map_or_else(String::new, |of| of.plain("ns"))
        };
        let ratio = view.shown(&metric.of(case).over(metric.of(serial)), "ratio");
        format!(
            "after {} rather than {} ({ratio} of that)",
            shown(case),
            shown(serial)
        )
    };
    let all = match last == serial {
        true => "Run them one after the other: more at a time ends no sooner".to_owned(),
        false => format!("Run {}: all are done {}", at_a_time(last), change(last, ELAPSED)),
    };
    let result = match each == serial {
        true => "No order and no number at a time has a result there sooner, at the mean".to_owned(),
        false if each == last => format!("A result is there {}, at the mean", change(each, MEAN)),
        false => format!(
            "If each result counts when it is there, run {}: at the mean it is there {}",
            at_a_time(each),
            change(each, MEAN)
        ),
    };
    format!("{all}. {result}.")
}

fn at_a_time(case: Case) -> String {
    let order = match case.order {
        Order::Given => "in the order given",
        Order::Shortest => "the shortest first",
        Order::Longest => "the longest first",
    };
    match case.degree {
        1 => format!("one after the other, {order}"),
        degree => format!("{degree} at a time, {order}"),
    }
}

/// What share of the time they compute.
fn computing(view: &View<'_>, cases: &[Case]) -> Option<Finding> {
    let serial = *cases.iter().find(|case| case.degree == 1)?;
    let share = view.estimate(&CPU.of(serial).over(ELAPSED.of(serial)))?;
    let percent = share.value * 100.0;
    let more = match share.value > 0.9 {
        true => "so more at a time than there are CPUs have nothing to gain",
        false => "so more at a time than there are CPUs may gain: one computes while others wait",
    };
    let says = format!("One after the other, they compute for {percent:.0} % of the time, {more}.");
    Some(share.fact(says, "share"))
}

/// How far the best is from theory.
fn theory(view: &View<'_>, cases: &[Case]) -> Option<Finding> {
    let best = enough(view, cases, ELAPSED).filter(|case| case.degree > 1)?;
    let over = view.estimate(&ELAPSED.of(best).over(IDEAL_ELAPSED.of(best)))?;
    let says = format!(
        "Run {}, they take {} times as long as theory says: what is above 1 they cost each other, beyond their share of the \
         CPUs.",
        at_a_time(best),
        over.show("ratio"),
    );
    Some(over.fact(says, "ratio"))
}

fn chart(
    view: &View<'_>,
    cases: &[Case],
    id: &str,
    title: &str,
    metric: Metric,
    ideal: Metric,
) -> Option<Figure> {
    let of = |order: Order, metric: Metric| {
        let of_order = cases.iter().filter(move |case| case.order == order);
        of_order.map(move |&case| (case.degree, metric.of(case).times(1e-9)))
    };
    let mut chart = Chart::new(view, id, title)
        .note("Theory shares the CPUs equally at no cost.")
        .x(Scale::Log, "at a time")
        .y(Scale::Linear, "s");
    for (order, name) in [
        (Order::Given, "in the order given"),
        (Order::Shortest, "the shortest first"),
        (Order::Longest, "the longest first"),
    ] {
        chart = chart.line(name, of(order, metric));
    }
    chart
        .theory("in the order given at no cost", of(Order::Given, ideal))
        .drawn()
}

fn table_of(view: &View<'_>, cases: &[Case]) -> Option<Table> {
    let serial = *cases.iter().find(|case| case.degree == 1)?;
    let row = |case: &Case| {
        let text = |statistic: Statistic, unit| {
            view.estimate(&statistic)
                .map_or_else(String::new, |of| of.plain(unit))
        };
        vec![
            at_a_time(*case),
            text(ELAPSED.of(*case), "ns"),
            view.shown(&ELAPSED.of(*case).over(ELAPSED.of(serial)), "ratio"),
            text(IDEAL_ELAPSED.of(*case), "ns"),
            text(FIRST.of(*case), "ns"),
            text(MEAN.of(*case), "ns"),
            text(TURNAROUND.of(*case), "ratio"),
            text(CPU.of(*case), "ns"),
        ]
    };
    Some(table(
        "each",
        "Your own computations",
        "Medians over rounds. Turnaround is the time until a result is there over what its item takes by itself.",
        [
            "how",
            "all done",
            "ratio to one after the other",
            "by theory",
            "first result",
            "mean result",
            "mean turnaround",
            "CPU time",
        ],
        cases.iter().map(row).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_results::{Each, ITEM, Status};

    const fn alone(wall_ms: u64, cpu_ms: u64) -> Alone {
        Alone {
            wall_ns: wall_ms * 1_000_000,
            cpu_ns: cpu_ms * 1_000_000,
        }
    }

    const fn case(order: Order, degree: u64) -> Case {
        Case {
            order,
            degree,
            cpus: 2,
        }
    }

    fn shell(script: &str, items: &[&str], alone: &[Alone]) -> Each {
        Each {
            command: ["sh", "-c", script, "x", ITEM].map(str::to_owned).to_vec(),
            items: items.iter().map(ToString::to_string).collect(),
            alone: alone.to_vec(),
        }
    }

    fn planned(profile: Profile, cpus: usize, items: usize) -> Vec<(&'static str, u64, u128)> {
        let site = Site {
            each: Some(shell("", &vec!["x"; items], &vec![alone(100, 50); items])),
            ..testing::site(profile, cpus)
        };
        let cases = plan(&site).cases.into_iter();
        cases
            .map(|planned| {
                let case = Case::read(&planned.params).unwrap();
                assert_eq!(case.cpus, cpus as u64);
                (case.order.name(), case.degree, planned.estimate.as_millis())
            })
            .collect()
    }

    #[test]
    fn the_plan_is_one_its_doubles_the_cpus_and_all_and_knows_how_long_each_takes() {
        // 512 ms of CPU time and as much of waiting, one after the other; then two at a time, and so on.
        let ways = planned(Profile::Quick, 3, 10);
        let (given, ordered) = ways.split_at(6);
        let degrees = |ways: &[(&str, u64, u128)]| ways.iter().map(|way| way.1).collect::<Vec<_>>();
        assert_eq!(degrees(given), [1, 2, 3, 4, 8, 10]);
        assert_eq!((given[0].2, given[1].2, given[5].2), (1_042, 527, 235));
        assert_eq!(
            ordered.iter().map(|way| (way.0, way.1)).collect::<Vec<_>>(),
            [("shortest", 1), ("shortest", 3), ("longest", 1), ("longest", 3)]
        );
        assert_eq!(planned(Profile::Standard, 3, 10).len(), 18);
        assert_eq!(degrees(&planned(Profile::Quick, 64, 5)), [1, 2, 4, 5, 1, 1]);
        assert_eq!(
            degrees(&planned(Profile::Quick, 1, 1_000))[..9].last(),
            Some(&256)
        );
        assert_eq!(plan(&testing::site(Profile::Paper, 4)).cases.len(), 0);
    }

    #[test]
    fn orders_go_by_what_each_takes_by_itself() {
        let times = [alone(20, 0), alone(10, 0), alone(30, 0), alone(10, 0)];
        assert_eq!(case(Order::Given, 1).places(&times), [0, 1, 2, 3]);
        assert_eq!(case(Order::Shortest, 1).places(&times), [1, 3, 0, 2]);
        assert_eq!(case(Order::Longest, 1).places(&times), [2, 0, 1, 3]);
    }

    #[test]
    fn theory_has_one_cpu_for_each_and_all_share_them() {
        let ideal_ms = |degree, times: &[Alone]| -> Vec<f64> {
            let ideal = case(Order::Given, degree).ideal(times);
            ideal.iter().map(|ns| (ns / 1e6).round()).collect()
        };
        let computing = [alone(40, 40); 4];
        assert_eq!(ideal_ms(1, &computing), [40.0, 80.0, 120.0, 160.0]);
        assert_eq!(ideal_ms(2, &computing), [40.0, 40.0, 80.0, 80.0]);
        assert_eq!(ideal_ms(4, &computing), [80.0; 4]);
        assert_eq!(ideal_ms(4, &[alone(40, 0); 4]), [40.0; 4]);
        // Several threads of a program: no more than its own time.
        assert_eq!(ideal_ms(1, &[alone(40, 70)]), [40.0]);
    }

    fn sample(case: Case, each: Each) -> threadgauge_results::Sample {
        let mut worker = Worker::new(&threadgauge_lab::worker::Order {
            experiment: EACH.id.to_owned(),
            params: case.params(),
            cpus: vec![0],
            handicap_percent: 0,
            launched_ns: 0,
            seed: 0,
            each: Some(each),
            runtime: None,
        });
        let result = run(&case.params(), &mut worker);
        worker.finish(result)
    }

    #[test]
    fn every_item_is_run_once_in_its_order() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let script = format!("echo \"$1\" >> '{}'; echo much; echo more >&2", log.display());
        let items = ["b c", "a", "$(touch d)"];
        let times = [alone(20, 0), alone(30, 0), alone(10, 0)];
        let longest = sample(case(Order::Longest, 1), shell(&script, &items, &times));
        assert_eq!(longest.status, Status::Ok, "{:?}", longest.reason);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "a\nb c\n$(touch d)\n");
        let of = |metric: Metric| longest.value(metric.name).unwrap();
        assert_eq!(of(IDEAL_ELAPSED), 60e6);
        assert_eq!(of(IDEAL_MEAN), (30.0 + 50.0 + 60.0) / 3.0 * 1e6);
        assert!(of(FIRST) < of(MEAN) && of(MEAN) < of(ELAPSED) && of(CPU) > 0.0);
        std::fs::remove_file(&log).unwrap();
        let at_once = sample(case(Order::Given, 3), shell(&script, &items, &times));
        assert_eq!(at_once.status, Status::Ok, "{:?}", at_once.reason);
        let mut lines: Vec<String> = std::fs::read_to_string(&log)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        assert_eq!(lines, ["$(touch d)", "a", "b c"]);
    }

    #[test]
    fn what_an_item_takes_by_itself_is_read_back() {
        let before = sample(case(Order::Given, 1), shell("exit 0", &["a"], &[]));
        let known = alone_of(&before).unwrap();
        assert!(known.wall_ns > 0 && known.cpu_ns > 0, "{known:?}");
        assert_eq!(before.value(IDEAL_ELAPSED.name), None);
    }

    #[test]
    fn a_command_that_fails_says_for_which_item_and_its_last_words_where_somebody_listens() {
        let script = "test \"$1\" = good || { echo no such luck >&2; exit 3; }";
        let why = |each| {
            let sample = sample(case(Order::Given, 1), each);
            assert_eq!(sample.status, Status::Failed);
            sample.reason.unwrap()
        };
        assert_eq!(
            why(shell(script, &["good", "bad", "worse"], &[])),
            "item 2 (`bad`): `exit status: 3`, with the last words: no such luck"
        );
        assert_eq!(
            why(shell(script, &["good", "bad"], &[alone(1, 1); 2])),
            "item 2 (`bad`): `exit status: 3`; run it by itself to see why"
        );
        // What it says before is no more than memory for a moment.
        let much = "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1";
        let why_much = why(shell(much, &["a"], &[]));
        assert!(why_much.ends_with("xxxx") && why_much.len() < 1_100);
        let absent = Each {
            command: vec!["threadgauge-is-no-such-program".to_owned(), ITEM.to_owned()],
            ..shell("", &["a"], &[])
        };
        assert!(why(absent).contains("cannot be started: No such file"));
    }

    /// One after the other takes 10 s, with a result after 5 s at the mean.
    fn view(cells: &[(Order, u64, f64, f64)]) -> View<'static> {
        let serial = [(Order::Given, 1, 10.0, 5.0)];
        let cells = serial
            .iter()
            .chain(cells)
            .map(|&(order, degree, elapsed_s, mean_s)| {
                let scattered = |s: f64| {
                    (0..7)
                        .map(|i| s * 1e9 * (1.0 + f64::from(i - 3) * 1e-3))
                        .collect()
                };
                let figures = [
                    (ELAPSED, scattered(elapsed_s)),
                    (MEAN, scattered(mean_s)),
                    (CPU, scattered(9.6)),
                    (IDEAL_ELAPSED, vec![elapsed_s * 0.8e9; 7]),
                    (IDEAL_MEAN, vec![mean_s * 0.8e9; 7]),
                    (FIRST, scattered(1.0)),
                    (TURNAROUND, scattered(2.0)),
                ];
                testing::case(case(order, degree), figures)
            });
        testing::view(EACH.id, Profile::Quick, cells.collect())
    }

    #[test]
    fn the_answer_is_how_many_at_a_time_and_in_which_order() {
        let two = view(&[
            (Order::Given, 2, 5.0, 3.0),
            // Rounds cannot tell it from two.
            (Order::Given, 4, 5.001, 4.0),
            (Order::Shortest, 2, 5.5, 2.0),
        ]);
        insta::assert_snapshot!(answer(&two, &cases(&two)), @"Run 2 at a time, in the order given: all are done after 5.00 s rather than 10.0 s (0.50 [0.50, 0.50] of that). If each result counts when it is there, run 2 at a time, the shortest first: at the mean it is there after 2.00 s rather than 5.00 s (0.40 [0.40, 0.40] of that).");
        let both = view(&[(Order::Given, 2, 5.0, 3.0)]);
        insta::assert_snapshot!(answer(&both, &cases(&both)), @"Run 2 at a time, in the order given: all are done after 5.00 s rather than 10.0 s (0.50 [0.50, 0.50] of that). A result is there after 3.00 s rather than 5.00 s (0.60 [0.60, 0.60] of that), at the mean.");
        let none = view(&[(Order::Given, 2, 11.0, 6.0)]);
        insta::assert_snapshot!(answer(&none, &cases(&none)), @"Run them one after the other: more at a time ends no sooner. No order and no number at a time has a result there sooner, at the mean.");
        let few = testing::view(
            EACH.id,
            Profile::Quick,
            vec![testing::case(
                case(Order::Given, 1),
                [(ELAPSED, vec![1.0]), (MEAN, vec![1.0])],
            )],
        );
        assert_eq!(
            answer(&few, &cases(&few)),
            "With 6 rounds or more it is said what to do."
        );
        let empty = testing::view(EACH.id, Profile::Quick, Vec::new());
        assert!(answer(&empty, &cases(&empty)).starts_with("Without the figures"));
    }

    #[test]
    fn what_they_compute_and_what_theory_says_stand_beside() {
        let two = view(&[(Order::Given, 2, 5.0, 3.0), (Order::Shortest, 1, 10.0, 4.0)]);
        let read = read(&two);
        let says: Vec<&str> = read.facts.iter().map(|fact| fact.says.as_str()).collect();
        insta::assert_snapshot!(says.join("\n"), @"
        One after the other, they compute for 96 % of the time, so more at a time than there are CPUs have nothing to gain.
        Run 2 at a time, in the order given, they take 1.250 [1.247, 1.252] times as long as theory says: what is above 1 they cost each other, beyond their share of the CPUs.
        ");
        let lines =
            |figure: &Figure| -> Vec<String> { figure.series.iter().map(|line| line.name.clone()).collect() };
        let drawn = [
            "in the order given",
            "the shortest first",
            "in the order given at no cost",
        ];
        assert!(read.figures.len() == 2 && read.figures.iter().all(|figure| lines(figure) == drawn));
        let [table] = &read.tables[..] else { panic!() };
        let ways: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(
            ways,
            [
                "one after the other, in the order given",
                "2 at a time, in the order given",
                "one after the other, the shortest first",
            ]
        );
        assert_eq!(table.rows[1][1..4], ["5.00 s", "0.50 [0.50, 0.50]", "4.00 s"]);
    }
}
