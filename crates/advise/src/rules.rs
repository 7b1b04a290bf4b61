//! What the sources' rules for choosing say of a workload, each with the figures that bear it out or refute it here.
//!
//! The rules are those of source 000 (a background thread, waiting, orders, dependence, synchronisation) and of source
//! 003 (processes or threads). A rule that has nothing to say of a workload is left out.

use serde::Serialize;
use threadgauge_results::units::percent;

use crate::advice::cpus_in_words;
use crate::choose::{AS_GOOD, Choice, Goal};
use crate::costs::Basis;
use crate::design::{Candidate, Design, Machine, Order};
use crate::predict::{Drawn, Prediction, SEARCH, predict};
use crate::quantity::time;
use crate::workload::{Coming, Lengths, Useful, Workload};

/// A rule of the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// First decide whether the person who waits needs a background thread.
    BackgroundFirst,
    /// Waiting for others: threads beside, or one that waits asynchronously.
    WaitingBeside,
    /// One background thread for all computing, unless turnaround is essential.
    OneForComputing,
    /// Very long computing may have a thread of its own.
    LongHasItsOwn,
    /// If turnaround is essential and lengths are known: the shortest first.
    ShortestFirst,
    /// If only ranges are known: the worst case, the longest first.
    WorstCase,
    /// Turnaround counts only where results are usable at once and lengths differ.
    TurnaroundCounts,
    /// Dependent tasks: one after the other.
    DependentSerial,
    /// The split with the least synchronisation.
    LeastSynchronisation,
    /// Some machines favour long computations without interruption.
    LongUninterrupted,
    /// Threads are a resource: only where they help.
    OnlyWhereTheyHelp,
    /// Units that come and go often: threads.
    ComeAndGo,
    /// Much computation: threads.
    MuchComputation,
    /// Strongly related: threads; weakly: processes.
    Related,
    /// Several machines: processes; several CPUs: threads.
    SeveralMachines,
    /// Else what one knows best.
    KnownBest,
    /// In practice both.
    Both,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::BackgroundFirst,
        Self::WaitingBeside,
        Self::OneForComputing,
        Self::LongHasItsOwn,
        Self::ShortestFirst,
        Self::WorstCase,
        Self::TurnaroundCounts,
        Self::DependentSerial,
        Self::LeastSynchronisation,
        Self::LongUninterrupted,
        Self::OnlyWhereTheyHelp,
        Self::ComeAndGo,
        Self::MuchComputation,
        Self::Related,
        Self::SeveralMachines,
        Self::KnownBest,
        Self::Both,
    ];
}

/// What a rule says of a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Said {
    /// The rule.
    pub rule: Rule,
    /// Whether it is right here.
    pub holds: bool,
    /// Why, with figures.
    pub says: String,
}

/// Computing that is very long for whoever waits behind it, s.
const VERY_LONG_S: f64 = 1.0;

/// A rule, whether it holds, and why.
type Line = (Rule, bool, String);

/// What rules look at.
struct Sight<'a> {
    workload: &'a Workload,
    machine: &'a Machine,
    basis: &'a Basis,
    choice: &'a Choice,
    show: &'a dyn Fn(Candidate) -> Prediction,
    goal: Goal,
}

impl Sight<'_> {
    fn value(&self, candidate: Candidate) -> f64 {
        self.goal.value(&(self.show)(candidate))
    }

    /// The smallest of a design that is about as good as the best of it.
    fn best(&self, design: Design) -> Option<Candidate> {
        let of = self
            .choice
            .predictions
            .iter()
            .filter(|prediction| prediction.candidate.design == design);
        let best = of
            .clone()
            .map(|prediction| self.goal.value(prediction))
            .fold(f64::INFINITY, f64::min);
        of.filter(|prediction| self.goal.value(prediction) <= best * (1.0 + AS_GOOD))
            .map(|prediction| prediction.candidate)
            .min()
    }

    fn mean(&self, candidate: Candidate) -> f64 {
        (self.show)(candidate)
            .mean_s
            .map_or(f64::INFINITY, |mean| mean.value)
    }

    fn advised(&self) -> Option<Candidate> {
        self.choice.advised().map(|prediction| prediction.candidate)
    }

    fn is_batch(&self) -> bool {
        matches!(self.workload.coming, Coming::Batch(_))
    }
}

/// What the rules say of a workload of which this was chosen.
pub(crate) fn said(
    workload: &Workload,
    machine: &Machine,
    basis: &Basis,
    choice: &Choice,
    show: &dyn Fn(Candidate) -> Prediction,
) -> Vec<Said> {
    let sight = Sight {
        workload,
        machine,
        basis,
        choice,
        show,
        goal: Goal::of(workload),
    };
    // Of connections the sources' rules for computations say nothing.
    let of_tasks = workload.connections.is_none();
    let rules: [fn(&Sight<'_>) -> Vec<Line>; 5] = [person, order, dependence, units, kinds];
    let rules = rules.iter().filter(|_| of_tasks).flat_map(|rule| rule(&sight));
    rules
        .map(|(rule, holds, says)| Said { rule, holds, says })
        .collect()
}

/// Who waits meanwhile, and for what tasks wait.
fn person(sight: &Sight<'_>) -> Vec<Line> {
    let Workload { cpu_s, wait_s, .. } = *sight.workload;
    let mut said = Vec::new();
    if sight.workload.interactive {
        let blocked = match sight.workload.coming {
            Coming::Batch(tasks) => tasks as f64 * (cpu_s + wait_s),
            Coming::Rate(_) => cpu_s + wait_s,
        };
        let says = format!(
            "A person waits: done by the thread that answers them, this would keep them waiting for {}. So it leaves that \
             thread, whatever else is decided.",
            time(blocked)
        );
        said.push((Rule::BackgroundFirst, true, says));
    }
    let waiting = wait_s / (cpu_s + wait_s).max(f64::MIN_POSITIVE);
    if waiting >= 0.5 {
        let one = sight.best(Design::Async);
        let threads = sight.best(Design::Threads);
        if let (Some(one), Some(threads)) = (one, threads)
            && let (of_one, of_threads) = (sight.value(one), sight.value(threads))
            && of_one.is_finite()
            && of_threads.is_finite()
        {
            let verdict = if of_one <= of_threads * (1.0 + AS_GOOD) {
                "is as good"
            } else {
                "takes longer"
            };
            let says = format!(
                "A task waits for {} of its time, which needs no CPU: many wait at once. {}: {} with {} threads, and one \
                 thread that waits asynchronously {verdict} ({}).",
                percent(waiting),
                threadgauge_results::units::capitalised(sight.goal.words()),
                time(of_threads),
                threads.at_once,
                time(of_one)
            );
            said.push((Rule::WaitingBeside, true, says));
        }
    }
    if sight.workload.interactive && waiting < 0.1 && cpu_s >= VERY_LONG_S {
        let says = format!(
            "A task computes for {}: what came behind it in one background thread for all computing would wait for that long, \
             while a thread of its own shares the CPUs with it.",
            time(cpu_s)
        );
        said.push((Rule::LongHasItsOwn, true, says));
    }
    if sight.workload.interactive && sight.is_batch() && waiting < 0.1 {
        let one = sight.value(Candidate::new(Design::Background, 1));
        let two = sight.value(Candidate::new(Design::Threads, 2));
        let holds = two >= one * (1.0 - AS_GOOD);
        let says = match holds {
            true => format!(
                "One background thread does for all computing: two take {} where it takes {}.",
                time(two),
                time(one)
            ),
            false => format!(
                "One background thread for all computing was advice for one CPU. Here two take {} where one takes {}.",
                time(two),
                time(one)
            ),
        };
        said.push((Rule::OneForComputing, holds, says));
    }
    said
}

/// In which order.
fn order(sight: &Sight<'_>) -> Vec<Line> {
    let workload = sight.workload;
    if !sight.is_batch() {
        return Vec::new();
    }
    let advised = sight.advised().unwrap_or(Candidate::new(Design::Serial, 1));
    let ordered = |order| Candidate { order, ..advised };
    let [given, shortest, longest] =
        [Order::Given, Order::Shortest, Order::Longest].map(|order| sight.mean(ordered(order)));
    let mut said = Vec::new();
    let differs = workload.spread > 0.0;
    let counts = workload.useful == Useful::Each && differs;
    let says = match (workload.useful, differs) {
        (Useful::Together, _) => {
            "Results are of use only together: when each is there does not count, and no order of them matters.".to_owned()
        }
        (Useful::Each, false) => {
            "All tasks are as long, so no order of them has a result there sooner.".to_owned()
        }
        (Useful::Each, true) => format!(
            "Each result is of use at once and lengths differ, so the order counts: at the mean one is there after {} or \
             {}, the shortest or the longest first.",
            time(shortest),
            time(longest)
        ),
    };
    said.push((Rule::TurnaroundCounts, true, says));
    if counts && workload.lengths == Lengths::Known {
        let says = format!(
            "Lengths are known: the shortest first has a result there after {} at the mean, the order given after {}.",
            time(shortest),
            time(given)
        );
        said.push((Rule::ShortestFirst, shortest < given, says));
    }
    if counts && workload.lengths == Lengths::Range {
        let says = format!(
            "Only bounds are known: reckon with the worst case, the longest first, in which a result is there after {} at \
             the mean; {} in a usual order.",
            time(longest),
            time(given)
        );
        said.push((Rule::WorstCase, longest >= given, says));
    }
    said
}

/// What tasks need of each other.
fn dependence(sight: &Sight<'_>) -> Vec<Line> {
    let workload = sight.workload;
    let mut said = Vec::new();
    if workload.depend {
        let serial = sight.value(Candidate::new(Design::Serial, 1));
        let threads = sight.value(Candidate::new(Design::Threads, 2));
        let says = format!(
            "Each task needs the one before it: in two threads all take {}, one after the other {}.",
            time(threads),
            time(serial)
        );
        said.push((Rule::DependentSerial, threads >= serial * (1.0 - AS_GOOD), says));
    }
    if workload.lock > 0.0 {
        let half = Workload {
            lock: workload.lock / 2.0,
            ..workload.clone()
        };
        let all = sight.machine.effective().ceil().max(2.0) as usize;
        let candidate = Candidate::new(Design::Threads, all);
        let drawn = Drawn::new(&half, SEARCH);
        let of_half = predict(candidate, &half, sight.machine, &sight.basis.costs, &drawn);
        let [now_s, half_s] = [sight.value(candidate), sight.goal.value(&of_half)];
        let says = format!(
            "{} of a task's computing is under a lock, so no more than {} CPUs ever help. Split so that half of that \
             remains, {} threads take {} rather than {}.",
            percent(workload.lock),
            crate::quantity::short(1.0 / workload.lock),
            all,
            time(half_s),
            time(now_s)
        );
        said.push((Rule::LeastSynchronisation, half_s <= now_s, says));
    }
    said
}

/// Whether units help.
fn units(sight: &Sight<'_>) -> Vec<Line> {
    let workload = sight.workload;
    let costs = &sight.basis.costs;
    let mut said = Vec::new();
    let computes = workload.cpu_s >= 1e-2 && workload.wait_s <= workload.cpu_s;
    if computes {
        let switch_s = costs.thread_switch.value;
        let share = switch_s / 3e-3;
        let says = format!(
            "Some machines favour long computing without interruption: on this one an interruption costs {} of each 3 ms, {}.",
            time(switch_s),
            percent(share)
        );
        said.push((Rule::LongUninterrupted, share > 0.01, says));
    }
    said.extend(twice_as_many(sight));
    if workload.come_and_go {
        let (thread_s, process_s) = (costs.thread_make.value, costs.process_make.value);
        let says = format!(
            "Units that come and go: a thread is made and ended in {}, a process in {}.",
            time(thread_s),
            time(process_s)
        );
        said.push((Rule::ComeAndGo, thread_s < process_s, says));
    }
    said
}

/// What twice as many as are advised would bring.
fn twice_as_many(sight: &Sight<'_>) -> Option<Line> {
    let most = match sight.workload.coming {
        Coming::Batch(tasks) => tasks,
        Coming::Rate(_) => usize::MAX,
    };
    let advised = sight.advised().filter(|advised| advised.at_once < most)?;
    let double = Candidate {
        design: match advised.design {
            Design::Serial | Design::Background => Design::Threads,
            design => design,
        },
        at_once: advised.at_once.saturating_mul(2).min(most),
        ..advised
    };
    let [now_s, double_s] = [advised, double].map(|candidate| sight.value(candidate));
    let helps = double_s < now_s * (1.0 - 2.0 * AS_GOOD);
    let says = format!(
        "Threads are a resource, for where they help: twice as many, {}, would make it {} rather than {}{}.",
        double.at_once,
        time(double_s),
        time(now_s),
        if helps {
            ""
        } else {
            ", and that is too little for them"
        }
    );
    Some((Rule::OnlyWhereTheyHelp, !helps, says))
}

/// Processes or threads.
fn kinds(sight: &Sight<'_>) -> Vec<Line> {
    let workload = sight.workload;
    let mut said = Vec::new();
    let pools = [Design::Threads, Design::Processes].map(|design| sight.best(design));
    let values = pools.map(|pool| pool.map_or(f64::INFINITY, |pool| sight.value(pool)));
    let [threads_s, processes_s] = values;
    let finite = threads_s.is_finite() && processes_s.is_finite();
    let alike = finite && (processes_s / threads_s - 1.0).abs() <= AS_GOOD;
    let [of_threads, of_processes] = pools.map(|pool| {
        pool.map_or_else(String::new, |pool| {
            format!("{}: {}", pool.says(workload), time(sight.value(pool)))
        })
    });
    let computes = workload.cpu_s >= 1e-3 && workload.wait_s <= workload.cpu_s;
    if computes && finite {
        let says = format!(
            "Much computation is said to be for threads ({of_threads}) rather than for processes ({of_processes}){}.",
            if alike {
                ", so that decides nothing here"
            } else {
                ""
            }
        );
        said.push((
            Rule::MuchComputation,
            threads_s * (1.0 + AS_GOOD) < processes_s,
            says,
        ));
    }
    if workload.stages > 1 {
        let pages = workload.passes_bytes / 4096.0;
        let costs = &sight.basis.costs;
        let [thread_s, process_s] = [
            costs.thread_note.value,
            costs.process_note.value + pages * costs.process_page.value,
        ];
        let share = (process_s - thread_s) * (workload.stages - 1) as f64 / workload.cpu_s.max(1e-9);
        let weakly = workload.lock == 0.0;
        let says = match weakly {
            true => format!(
                "Stages that share nothing are weakly related, for processes: passing a task on costs {} rather than {} \
                 between threads, {} of a task's computing.",
                time(process_s),
                time(thread_s),
                percent(share.max(0.0))
            ),
            false => format!(
                "Stages that share what a lock guards are strongly related, for threads: between processes a task would be \
                 passed on for {} rather than {}, and what is shared would have to be passed, too.",
                time(process_s),
                time(thread_s)
            ),
        };
        said.push((Rule::Related, if weakly { share <= AS_GOOD } else { true }, says));
        let both = weakly
            && sight
                .advised()
                .is_some_and(|advised| advised.design == Design::Stages);
        if both {
            let says = "In practice both: a process for each stage, and threads inside of it.".to_owned();
            said.push((Rule::Both, true, says));
        }
    }
    if workload.outgrow {
        let says = format!(
            "It may outgrow this machine, and only processes can be on another. They cost {} where threads cost {}.",
            time(processes_s),
            time(threads_s)
        );
        said.push((Rule::SeveralMachines, true, says));
    } else if sight.machine.effective() > 1.0 && computes && finite {
        let one = sight.value(Candidate::new(Design::Serial, 1));
        if one.is_finite() && threads_s < one * (1.0 - AS_GOOD) {
            let says = format!(
                "Several CPUs are for threads: on {} they take {}, one {}.",
                cpus_in_words(sight.machine.effective()),
                time(threads_s),
                time(one)
            );
            said.push((Rule::SeveralMachines, true, says));
        }
    }
    if alike && !workload.isolate && !workload.outgrow && !workload.language.computes_alone() {
        let says = format!(
            "Threads ({of_threads}) and processes ({of_processes}) are about as good here: take what you know best."
        );
        said.push((Rule::KnownBest, true, says));
    }
    said
}
