//! Advice on a workload: whether it matters at all, what to do, what it rests on, and what would change it.

use serde::Serialize;
use threadgauge_results::Verdict;
use threadgauge_results::units::{capitalised, count, counted, percent, with_unit};

use crate::choose::{Choice, Goal, MOST, choose, goetz, is_allowed, is_as_good};
use crate::costs::{Basis, Saying};
use crate::design::{Candidate, Design, Machine, PERIOD_S, USABLE_MEMORY, work_s};
use crate::predict::{Drawn, Effort, GLANCE, Prediction, SEARCH, SHOW, predict};
use crate::quantity::{Rate, time};
use crate::rules::{self, Said};
use crate::settings::{Setting, settings};
use crate::workload::{Coming, Useful, Workload};

/// All that is said of a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The workload, with what was assumed.
    pub workload: Workload,
    /// Where it runs.
    pub machine: Machine,
    /// Whether it matters at all.
    pub matters: Matters,
    /// What is made small.
    pub goal: Goal,
    /// What to do, in a sentence or two.
    pub says: String,
    /// The advised candidate with its figures; none where nothing keeps up.
    pub advised: Option<Prediction>,
    /// The others that it was chosen among, one of a kind, and what the user has now.
    pub others: Vec<Prediction>,
    /// What rules of thumb would have cost.
    pub thumbs: Vec<Thumb>,
    /// What would change the answer, the nearest first.
    pub changes: Vec<String>,
    /// What the sources' rules say of it, with figures.
    pub rules: Vec<Said>,
    /// Claims that it rests on, and what the run says of them.
    pub rests_on: Vec<Saying>,
    /// Where costs are from.
    pub costs: String,
    /// Why arithmetic is not to be trusted here, if so.
    pub doubt: Option<String>,
    /// What else would be advised within what is uncertain of the workload, if anything.
    pub undecided: Option<String>,
    /// As settings of a program.
    pub settings: Vec<Setting>,
}

/// Whether the choice of a design matters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matters {
    /// Whether it does.
    pub does: bool,
    /// In words: the first line.
    pub says: String,
    /// CPU time that is asked for, as a share of what there is; of a batch none.
    pub utilisation: Option<f64>,
    /// The least time in which a batch can be done, whatever the design, s.
    pub least_s: Option<f64>,
}

/// What a rule of thumb says here, and what following it would cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Thumb {
    /// The rule.
    pub rule: &'static str,
    /// Who said it.
    pub source: &'static str,
    /// How many it gives; none for one a task.
    pub at_once: Option<usize>,
    /// By how much worse its goal is, as a share; none where it does not keep up or does not fit into memory.
    pub regret: Option<f64>,
    /// Which 99 of 100 tasks do not exceed, s.
    pub p99_s: Option<f64>,
    /// Memory of units and tasks at work, B.
    pub memory_bytes: f64,
    /// Whether it is there.
    pub fits: bool,
}

/// What a task is called.
pub(crate) const fn noun(workload: &Workload) -> &'static str {
    match workload.connections {
        Some(_) => "message",
        None => "task",
    }
}

/// CPUs in words: *2 CPUs*, *1.5 CPUs*.
#[must_use]
pub fn cpus_in_words(cpus: f64) -> String {
    match cpus {
        1.0 => "1 CPU".to_owned(),
        cpus => format!("{} CPUs", crate::quantity::short(cpus)),
    }
}

/// Advises on a workload on a machine, with costs; as settings of `program` where one is named. Takes less than a
/// second.
#[must_use]
pub fn advise(workload: &Workload, machine: &Machine, basis: &Basis, program: Option<&str>) -> Advice {
    let costs = &basis.costs;
    let choice = choose(workload, machine, costs, SEARCH);
    let goal = Goal::of(workload);
    let drawn = Drawn::new(workload, SHOW);
    let show = |candidate: Candidate| predict(candidate, workload, machine, costs, &drawn);
    let advised = choice.advised().map(|prediction| show(prediction.candidate));
    let others = shown(&choice, workload).into_iter().map(show).collect::<Vec<_>>();
    let serial = show(one_worker(workload));
    let fits = allowed(&choice, workload).next().is_some();
    let matters = matters(workload, machine, &serial, advised.as_ref(), basis, fits);
    let rules = rules::said(workload, machine, basis, &choice, &show);
    Advice {
        says: says(workload, machine, basis, &choice, advised.as_ref()),
        matters,
        goal,
        thumbs: advised
            .as_ref()
            .map(|advised| thumbs(workload, machine, basis, advised))
            .unwrap_or_default(),
        changes: changes(workload, machine, basis),
        rules,
        // Nothing rests on what was refuted.
        rests_on: (basis.sayings(claims(advised.as_ref())).into_iter())
            .filter(|saying| saying.verdict != Some(Verdict::DoesNotHold))
            .collect(),
        costs: basis.says(),
        doubt: doubt(workload, machine, advised.as_ref()),
        undecided: undecided(workload, machine, basis, advised.as_ref()),
        settings: program
            .zip(advised.as_ref())
            .map(|(program, advised)| settings(program, advised, workload, machine))
            .unwrap_or_default(),
        advised,
        others,
        workload: workload.clone(),
        machine: *machine,
    }
}

/// What was predicted of all that the workload allows; what does not fit into memory is not among it.
fn allowed<'a>(choice: &'a Choice, workload: &'a Workload) -> impl Iterator<Item = &'a Prediction> {
    let predictions = choice.predictions.iter();
    predictions.filter(|prediction| is_allowed(prediction.candidate, workload))
}

/// What one worker does: the way without any design.
fn one_worker(workload: &Workload) -> Candidate {
    let design = match (workload.connections, workload.interactive, workload.isolate) {
        (Some(_), ..) => Design::Loops,
        (None, _, true) => Design::Processes,
        (None, true, false) => Design::Background,
        (None, false, false) => Design::Serial,
    };
    Candidate::new(design, 1)
}

/// One of each other kind, the best of it, and what the user has now.
fn shown(choice: &Choice, workload: &Workload) -> Vec<Candidate> {
    let goal = Goal::of(workload);
    let advised = choice.advised().map(|prediction| prediction.candidate);
    let mut shown: Vec<Candidate> = Vec::new();
    let kinds = [
        Design::Serial,
        Design::Background,
        Design::Loops,
        Design::Async,
        Design::Threads,
        Design::Processes,
        Design::Stages,
        Design::ThreadEach,
        Design::ProcessEach,
    ];
    for design in kinds {
        let of_kind = choice.predictions.iter().filter(|prediction| {
            prediction.candidate.design == design && Some(prediction.candidate) != advised
        });
        let best = of_kind
            .clone()
            .map(|prediction| goal.value(prediction))
            .fold(f64::INFINITY, f64::min);
        // The smallest that is about as good as the best of its kind.
        let smallest = of_kind
            .filter(|prediction| is_as_good(goal.value(prediction), best, workload))
            .min_by_key(|prediction| (prediction.candidate.at_once, prediction.candidate.order));
        if let Some(prediction) = smallest
            && advised.is_none_or(|advised| advised.design != design)
        {
            shown.push(prediction.candidate);
        }
    }
    if let (Some(now), Some(advised)) = (workload.now, advised)
        && workload.connections.is_none()
    {
        let design = match advised.design {
            Design::Processes | Design::Stages | Design::Async => advised.design,
            _ => Design::Threads,
        };
        let own = if now == 1 {
            one_worker(workload)
        } else {
            Candidate::new(design, now)
        };
        if own != advised && !shown.contains(&own) {
            shown.push(own);
        }
    }
    shown
}

fn matters(
    workload: &Workload,
    machine: &Machine,
    serial: &Prediction,
    advised: Option<&Prediction>,
    basis: &Basis,
    fits: bool,
) -> Matters {
    let goal = Goal::of(workload);
    let work_s = work_s(workload);
    let cpus = machine.effective();
    let on = cpus_in_words(cpus);
    let value = advised.map_or(f64::INFINITY, |advised| goal.value(advised));
    let in_time = match workload.goal_s {
        Some(goal_s) => serial.keeps_up && serial.p99_s.is_some_and(|p99_s| p99_s.high <= goal_s),
        None => serial.keeps_up && is_as_good(goal.value(serial), value, workload),
    };
    let does = !in_time || advised.is_none();
    match workload.coming {
        Coming::Rate(rate) => {
            let utilisation = rate * work_s / cpus;
            let (unit, unit_s) = [("a second", 1.0), ("a minute", 60.0), ("an hour", 3_600.0)]
                .into_iter()
                .find(|(_, s)| rate * s >= 20.0)
                .unwrap_or(("a day", 86_400.0));
            let asked = format!(
                "{} {unit} need {} of CPU time {unit}, {} of {on}",
                counted((rate * unit_s).round() as usize, noun(workload)),
                time(rate * unit_s * work_s),
                percent(utilisation)
            );
            let busy = serial.busy.unwrap_or(0.0);
            let worker = match workload.connections {
                Some(_) => "One event loop",
                None => "One worker",
            };
            let rest = match (advised, does) {
                (None, _) if !fits => "Nothing that it allows fits into the memory that there is".to_owned(),
                (None, _) => "Nothing here keeps up with that".to_owned(),
                (Some(_), false) => format!(
                    "{worker} keeps up, busy for {} of the time: decide by what is simplest, and by what a crash may take \
                     with it",
                    percent(busy)
                ),
                (Some(_), true) if !serial.keeps_up => format!(
                    "{worker} does not keep up: it would be busy for {} of the time",
                    percent(busy)
                ),
                (Some(advised), true) => format!(
                    "{worker} keeps up, busy for {} of the time, and a task takes {} rather than {}",
                    percent(busy),
                    serial.mean_s.map_or_else(String::new, |mean| time(mean.value)),
                    advised.mean_s.map_or_else(String::new, |mean| time(mean.value))
                ),
            };
            let word = if does { "Yes" } else { "Hardly" };
            Matters {
                does,
                says: format!("{word}: {asked}. {rest}."),
                utilisation: Some(utilisation),
                least_s: None,
            }
        }
        Coming::Batch(tasks) => {
            let least_s = least_s(workload, machine, tasks, basis);
            let word = if does { "Yes" } else { "Hardly" };
            let serial_s = serial.elapsed_s.map_or(0.0, |elapsed| elapsed.value);
            let of = match workload.useful {
                Useful::Together => String::new(),
                Useful::Each => format!(
                    ", a result being there after {} at the mean",
                    serial.mean_s.map_or_else(String::new, |mean| time(mean.value))
                ),
            };
            Matters {
                does,
                says: format!(
                    "{word}: {}{of}. The least possible is {} on {on}.",
                    match tasks {
                        1 => format!("one task takes {}", time(serial_s)),
                        _ => format!(
                            "{} one after the other take {}",
                            counted(tasks, "task"),
                            time(serial_s)
                        ),
                    },
                    time(least_s)
                ),
                utilisation: None,
                least_s: Some(least_s),
            }
        }
    }
}

/// The least time in which all can be done, s: CPUs, the lock, those for whom tasks wait, one task alone.
fn least_s(workload: &Workload, machine: &Machine, tasks: usize, basis: &Basis) -> f64 {
    let tasks = tasks as f64;
    let cpu_s = work_s(workload);
    let one_s = cpu_s / (workload.inner_threads as f64).min(machine.cpus.max(1.0)) + workload.wait_s;
    if workload.depend {
        return tasks * one_s;
    }
    let cpus = basis.costs.speed(machine.cpus).min(machine.effective());
    let of_limit = workload
        .limit
        .map_or(0.0, |limit| tasks * workload.wait_s / limit as f64);
    let of_rate = workload.limit_rate.map_or(0.0, |rate| tasks / rate);
    [
        one_s,
        tasks * cpu_s / cpus,
        tasks * cpu_s * workload.lock,
        of_limit,
        of_rate,
    ]
    .into_iter()
    .fold(0.0, f64::max)
}

/// So many at once are seldom allowed without a word.
const MANY: usize = 32;

/// What of the workload and the machine allows the fewest tasks a second, with its options.
fn bound(workload: &Workload, machine: &Machine, basis: &Basis, most: f64) -> String {
    let work_s = work_s(workload).max(f64::MIN_POSITIVE);
    let cpus = basis.costs.speed(machine.cpus).min(machine.effective());
    let waits = |limit: usize| limit as f64 / workload.wait_s.max(f64::MIN_POSITIVE);
    let fit = |bytes: f64| (USABLE_MEMORY * bytes / workload.memory_bytes.max(1.0)).floor();
    let bounds = [
        (cpus / work_s, "CPU time (--cpu, and the CPUs that there are)"),
        (
            1.0 / (work_s * workload.lock),
            "the lock that tasks hold (--lock)",
        ),
        (
            workload.limit.map_or(f64::INFINITY, waits),
            "those for whom tasks wait (--limit)",
        ),
        (
            workload.limit_rate.unwrap_or(f64::INFINITY),
            "those for whom tasks wait (--limit-rate)",
        ),
        (
            machine.memory_bytes.map_or(f64::INFINITY, fit) / workload.alone_s(),
            "memory of tasks at work (--memory, --memory-limit)",
        ),
    ];
    let least = bounds.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    match least {
        Some((bound, what)) if *bound <= 2.0 * most => (*what).to_owned(),
        // Of what is left: pools have an end, and memory of units.
        _ => {
            format!(
                "how many can be at work at once (memory of units, --memory-limit; more than {} are not tried)",
                count(MOST)
            )
        }
    }
}

/// Why nothing is advised, and what would help.
fn nothing(workload: &Workload, machine: &Machine, basis: &Basis, choice: &Choice) -> String {
    let most = allowed(choice, workload).map(|prediction| prediction.throughput.value);
    let most = most.fold(0.0, f64::max);
    match workload.rate() {
        Some(per_second) if most > 0.0 => format!(
            "No way here does {}: the most is {}, bounded by {}. Ask for less of it, for fewer tasks, or for {} times as much \
             of it.",
            Rate { per_second }.of("tasks"),
            Rate { per_second: most }.of("tasks"),
            bound(workload, machine, basis, most),
            crate::quantity::short((per_second / most / crate::predict::BUSIEST).max(1.1))
        ),
        _ => {
            let of = if workload.isolate {
                "No way that keeps tasks apart (--isolate) fits"
            } else {
                "No way fits"
            };
            format!(
                "{of} into the memory that there is: allow more (--memory-limit), or make a task smaller (--memory)."
            )
        }
    }
}

/// That nothing meets the goal, if so: whatever did for certain would be advised.
fn missed(workload: &Workload, advised: &Prediction) -> Option<String> {
    let p99_s = advised.p99_s?;
    let goal_s = workload.goal_s.filter(|&goal_s| p99_s.high > goal_s)?;
    Some(format!(
        " Nothing here meets the goal of {} for certain: 99 of 100 are done within {}.",
        time(goal_s),
        with_unit(p99_s.value * 1e9, Some([p99_s.low * 1e9, p99_s.high * 1e9]), "ns")
    ))
}

/// What to do.
fn says(
    workload: &Workload,
    machine: &Machine,
    basis: &Basis,
    choice: &Choice,
    advised: Option<&Prediction>,
) -> String {
    let Some(advised) = advised else {
        return nothing(workload, machine, basis, choice);
    };
    let what = advised.candidate.says(workload);
    let missed = missed(workload, advised);
    let meets_goal = workload.goal_s.is_some() && missed.is_none();
    let why = match advised.candidate.design {
        Design::Serial if meets_goal => "without any thread of its own: it meets the goal",
        Design::Serial if workload.rate().is_none() => {
            "without any thread of its own: no other way is sooner by more than 5 %, or by 1 ms"
        }
        Design::Serial => "without any thread of its own: no other way is more than 5 % sooner on average",
        Design::Async if meets_goal => "the fewest at once that meet the goal",
        Design::Background => "beside the thread that answers the person, and no more",
        Design::Async => "the fewest at once that is about as good as the best",
        Design::Loops if advised.candidate.at_once == 1 => "for all clients; none of them has a thread",
        Design::Loops => "each for its part of the clients; none of them has a thread",
        Design::Threads | Design::Processes | Design::Stages if meets_goal => "the fewest that meet the goal",
        Design::Threads | Design::Processes | Design::Stages => {
            "the fewest that are about as good as the best"
        }
        Design::ThreadEach | Design::ProcessEach => "made when it comes",
    };
    let quota = match (machine.quota, advised.candidate.design) {
        (Some(quota), Design::Threads | Design::Processes) if quota < machine.cpus => format!(
            " Go by the quota of {}, not by the machine's {}.",
            cpus_in_words(quota),
            cpus_in_words(machine.cpus)
        ),
        _ => String::new(),
    };
    let asks = match workload.limit {
        None if workload.wait_s > 0.0 && (MANY..usize::MAX).contains(&advised.candidate.at_once) => format!(
            " Ask first whether those for whom tasks wait allow {} at once; if not, say how many (--limit).",
            count(advised.candidate.at_once)
        ),
        _ => String::new(),
    };
    let outgrows = if workload.outgrow && workload.connections.is_some() {
        " Where it outgrows this machine, each loop is a process that may be on another, and what goes between clients goes \
         through a broker."
    } else {
        ""
    };
    format!(
        "{} ({why}).{quota}{asks}{outgrows}{}",
        capitalised(&what),
        missed.unwrap_or_default()
    )
}

/// What rules of thumb give, and what following them costs.
fn thumbs(workload: &Workload, machine: &Machine, basis: &Basis, advised: &Prediction) -> Vec<Thumb> {
    let goal = Goal::of(workload);
    let best = goal.value(advised);
    let drawn = Drawn::new(workload, SEARCH);
    let again = goal.value(&predict(
        advised.candidate,
        workload,
        machine,
        &basis.costs,
        &drawn,
    ));
    let processes = advised.candidate.design.has_processes();
    let thumb = |rule, source, candidate: Candidate| {
        let prediction = predict(candidate, workload, machine, &basis.costs, &drawn);
        let value = goal.value(&prediction);
        let regret = (prediction.fits && value.is_finite() && best.is_finite()).then(|| value / again - 1.0);
        Thumb {
            rule,
            source,
            at_once: (candidate.at_once != usize::MAX && !candidate.design.comes_and_goes())
                .then_some(candidate.at_once),
            // What is drawn by chance makes some a little better than nothing.
            regret,
            p99_s: prediction.p99_s.map(|p99_s| p99_s.value),
            memory_bytes: prediction.memory_bytes.value,
            fits: prediction.fits,
        }
    };
    let (pool, each) = match processes {
        true => (Design::Processes, Design::ProcessEach),
        false => (Design::Threads, Design::ThreadEach),
    };
    let all = match workload.coming {
        Coming::Batch(tasks) => tasks,
        Coming::Rate(_) => usize::MAX,
    };
    let one_each = match (workload.connections, processes) {
        (Some(_), _) => "a thread for each client",
        (None, false) => "a thread for each task",
        (None, true) => "a process for each task",
    };
    let last = thumb(one_each, "", Candidate::new(each, all));
    if workload.connections.is_some() {
        return vec![last];
    }
    let cpus = (machine.cpus.round() as usize).max(1);
    vec![
        thumb("as many as CPUs", "the usual default", Candidate::new(pool, cpus)),
        thumb(
            "2 × CPUs + 1",
            "gunicorn's manual",
            Candidate::new(pool, 2 * cpus + 1),
        ),
        thumb(
            "CPUs × (1 + wait / compute)",
            "Goetz 2006",
            Candidate::new(pool, goetz(workload, machine)),
        ),
        last,
    ]
}

/// What can change, by which factor.
struct Dimension {
    change: fn(&mut Workload, &mut Machine, f64),
    /// Of the changed workload, beside that of the user.
    says: fn(&Workload, &Machine, &Workload) -> String,
    applies: fn(&Workload) -> bool,
}

const DIMENSIONS: [Dimension; 4] = [
    Dimension {
        change: |workload, _, factor| match &mut workload.coming {
            Coming::Batch(tasks) => *tasks = ((*tasks as f64 * factor).round() as usize).max(1),
            Coming::Rate(rate) => {
                *rate *= factor;
                if let Some(connections) = &mut workload.connections {
                    connections.messages *= factor;
                }
            }
        },
        says: |workload, _, usual| match (workload.coming, workload.connections) {
            (Coming::Batch(tasks), _) => format!("with {}", counted(tasks, "task")),
            (Coming::Rate(per_second), None) => {
                let like = Rate {
                    per_second: usual.rate().unwrap_or(per_second),
                };
                format!("with {}", Rate { per_second }.of_like(like, "tasks"))
            }
            (_, Some(connections)) => {
                let of_each = Rate {
                    per_second: connections.messages,
                };
                format!("with {} of each client", of_each.of("messages"))
            }
        },
        applies: |_| true,
    },
    Dimension {
        change: |workload, _, factor| workload.cpu_s *= factor,
        says: |workload, _, _| {
            format!(
                "with {} of CPU time for each {}",
                time(workload.cpu_s),
                noun(workload)
            )
        },
        applies: |workload| workload.cpu_s > 0.0,
    },
    Dimension {
        change: |workload, _, factor| workload.wait_s *= factor,
        says: |workload, _, _| format!("with {} of waiting for each task", time(workload.wait_s)),
        applies: |workload| workload.wait_s > 0.0,
    },
    Dimension {
        change: |_, machine, factor| {
            // Where a quota bounds it, that changes; CPUs are whole.
            match &mut machine.quota {
                Some(quota) => *quota = (*quota * factor).min(machine.cpus),
                None => machine.cpus = (machine.cpus * factor).round().max(1.0),
            }
        },
        says: |_, machine, _| format!("on {}", cpus_in_words(machine.effective())),
        applies: |_| true,
    },
];

/// Of more than that the answer is another question.
const FACTORS: [f64; 7] = [1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0];
/// So many are told.
const CHANGES: usize = 3;

/// The nearest workloads at which another design, or half or twice as many, is advised.
fn changes(workload: &Workload, machine: &Machine, basis: &Basis) -> Vec<String> {
    let now = answer(workload, machine, basis, GLANCE);
    let mut found: Vec<(f64, String)> = Vec::new();
    for dimension in DIMENSIONS
        .iter()
        .filter(|dimension| (dimension.applies)(workload))
    {
        for up in [true, false] {
            let changed = FACTORS.iter().find_map(|&factor| {
                let (mut other, mut machine) = (workload.clone(), *machine);
                let factor_so = if up { factor } else { 1.0 / factor };
                (dimension.change)(&mut other, &mut machine, factor_so);
                let then = answer(&other, &machine, basis, GLANCE);
                differs(now, then).then(|| {
                    (
                        factor,
                        format!(
                            "{}: {}",
                            (dimension.says)(&other, &machine, workload),
                            answer_says(then, &other)
                        ),
                    )
                })
            });
            found.extend(changed);
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.truncate(CHANGES);
    found.into_iter().map(|(_, says)| says).collect()
}

/// What is advised.
fn answer(workload: &Workload, machine: &Machine, basis: &Basis, effort: Effort) -> Option<Candidate> {
    let choice = choose(workload, machine, &basis.costs, effort);
    choice.advised().map(|prediction| prediction.candidate)
}

fn answer_says(answer: Option<Candidate>, workload: &Workload) -> String {
    answer.map_or_else(
        || "no design keeps up".to_owned(),
        |candidate| candidate.says(workload),
    )
}

fn differs(now: Option<Candidate>, then: Option<Candidate>) -> bool {
    let (Some(now), Some(then)) = (now, then) else {
        return now.is_some() != then.is_some();
    };
    let [few, many] = [now.at_once.min(then.at_once), now.at_once.max(then.at_once)];
    now.design != then.design || many >= few.saturating_mul(2) && many > few
}

/// What else would be advised at the ends of what was observed, and with the most that a task may wait.
fn undecided(
    workload: &Workload,
    machine: &Machine,
    basis: &Basis,
    advised: Option<&Prediction>,
) -> Option<String> {
    let uncertain = workload.uncertain?;
    let now = advised.map(|advised| advised.candidate);
    let ends = uncertain.ends().into_iter();
    let ends = ends.map(|[cpu, wait]| (true, workload.known(cpu, wait)));
    let most = uncertain.most_wait_s.map(|wait_s| Workload {
        wait_s,
        ..workload.known(1.0, 1.0)
    });
    let mut others: Vec<(Option<Candidate>, String)> = Vec::new();
    let mut can_be_observed = false;
    for (is_end, other) in ends.chain(most.map(|most| (false, most))) {
        let then = answer(&other, machine, basis, SEARCH);
        if !differs(now, then) {
            continue;
        }
        can_be_observed |= is_end;
        if others.iter().all(|(said, _)| *said != then) {
            let says = format!(
                "With {} of CPU time and {} of waiting for each task: {}.",
                time(other.cpu_s),
                time(other.wait_s),
                answer_says(then, &other)
            );
            others.push((then, says));
        }
    }
    let says: Vec<String> = others.into_iter().map(|(_, says)| says).collect();
    let what_to_do = match can_be_observed {
        true => {
            "Observe it for longer (`threadgauge observe PID --for 10m --rate …`), and say what that tells or you know (--cpu, \
             --wait)."
        }
        false => "Observing tells no more of it: say for how long a task waits (--wait).",
    };
    (!says.is_empty()).then(|| {
        format!(
            "It is not decided: what was observed of a task allows other answers, too. {} {what_to_do}",
            says.join(" ")
        )
    })
}

/// The claims on which advice for a design rests.
fn claims(advised: Option<&Prediction>) -> &'static [&'static str] {
    match advised.map(|prediction| prediction.candidate.design) {
        None => &[],
        Some(Design::Serial) => &["threads-are-not-free", "one-thread-gains-nothing-from-second-cpu"],
        Some(Design::Background) => &[
            "background-work-keeps-foreground-responsive",
            "one-background-thread-for-cpu-work",
        ],
        Some(Design::Async) => &["async-io-rivals-io-threads", "io-threads-do-not-slow-others"],
        Some(Design::Loops) => &["threads-are-not-free", "fork-per-client-dearest"],
        Some(Design::Threads) => &[
            "cpu-concurrent-faster-on-smp",
            "io-threads-do-not-slow-others",
            "two-threads-optimal-on-two-cpus",
        ],
        Some(Design::ThreadEach) => &["process-create-destroy-over-10x-thread", "threads-are-not-free"],
        Some(Design::Processes | Design::ProcessEach) => &[
            "crashing-process-spares-others",
            "process-memory-heavier-than-thread",
            "process-cpu-use-lower",
        ],
        Some(Design::Stages) => &["thread-sharing-faster-than-ipc", "crashing-process-spares-others"],
    }
}

/// Of fewer periods of a quota it matters how much of the first one is left.
const FEW_PERIODS: f64 = 2.0;
/// Who waits for others for a larger part of the time has a queue of which nobody can say how long it gets.
const MOST_QUEUEING: f64 = 0.5;

/// Why arithmetic alone is no answer, if so.
fn doubt(workload: &Workload, machine: &Machine, advised: Option<&Prediction>) -> Option<String> {
    let advised = advised?;
    let overhead = advised.overhead;
    let periods = match (workload.coming, machine.quota) {
        (Coming::Batch(tasks), Some(quota)) if quota < machine.cpus => {
            tasks as f64 * work_s(workload) / (quota * PERIOD_S)
        }
        _ => f64::INFINITY,
    };
    let reason = if periods < FEW_PERIODS {
        format!(
            "all of it needs {} of what the quota allows in its period of 100 ms, so whether it is stopped until the next one \
             hangs on what else the group did",
            percent(periods)
        )
    } else if overhead > 0.2 {
        format!(
            "what units cost is {} of a task's own work, and costs under load differ from those alone",
            percent(overhead)
        )
    } else if advised.queueing > MOST_QUEUEING {
        format!(
            "tasks wait for each other for {} of their time, and for how long hangs on when the scheduler changes between \
             them",
            percent(advised.queueing)
        )
    } else if workload.lock > 0.05 {
        "how threads fight for a lock depends on how long it is held and by whom".to_owned()
    } else if workload.inner_threads > 1 {
        "a library's own threads seldom share work equally".to_owned()
    } else {
        return None;
    };
    let instead = match (workload.connections, workload.lacks_twin()) {
        (_, None) => "Use --measure",
        (Some(_), _) => "Measure a server with `threadgauge load`",
        (None, Some(_)) => "Measure the program itself: --measure knows no limit of others and no dependence",
    };
    Some(format!("Arithmetic is not trusted here: {reason}. {instead}."))
}
