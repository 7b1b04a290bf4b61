//! Question: what does a switch to another thread cost, and to another process?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. `guests/c/ring.c` does it.

use std::collections::BTreeSet;
use std::process::Stdio;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, TWO_SYSTEM_CALLS, Table, units};

use crate::channels::Means::{self, Condvar, Eventfd, Futex, Tcp, Unix};
use crate::channels::{Placement, RING, Unit};
use crate::conditions::sizes_between;
use crate::guests::{Found, Guest, figures};
use crate::libraries::{Library, NOT_SHOWN};
use crate::runtimes;

use self::guests::HOP;

pub(crate) mod guests;

const SWITCHES: Metric = metric("switches_per_hop", "switches");

words! {
    /// Where the token goes.
    enum Hop { ToOther = "to-other", ToItself = "to-itself" }
}

point! {
    /// A point of the grid.
    struct Case {
        unit: Unit,
        means: Means,
        /// Units in the ring, and channels.
        ring: u64 = 2..=16_384,
        /// What a unit reads when the token comes, KiB.
        kib: u64 = 0..=1_048_576,
        hop: Hop,
        placement: Placement,
        cpus: u64 = 1..,
        /// What the program is built on, where that is another library than the machine's.
        library: Option<Library>,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "ring",
    question: "What does a switch to another thread cost, and to another process, with how many of them and how much memory?",
    first_run: true,
    sources: &["003", "004"],
    primary: &[HOP],
    how: "A token goes round a ring of threads or processes, from a small C program, which reads as lmbench's lat_ctx does: \
          whoever gets the token reads all of a private array (`kib`) and writes 8 bytes into the pipe of the next. \
          `ns_per_hop` is the time of the laps over the hops. Laps of 5 ms are the warm-up, laps of the 40 ms after \
          them are timed. A switch is the hop less the hop of a unit of the same kind that sends \
          itself the token through the same pipes (hop=to-itself), by round.",
    control: "hop=to-itself: the same reads, writes and array without a switch, the array in its cache, which is what lmbench \
              takes off. A switch therefore has in it what the caches lose. Coroutines that jump to each other are the \
              floor: the kernel knows nothing of them.",
    traps: &[
        "Placement decides: on one CPU the next unit runs when the last sleeps. Across two, one CPU has to wake the other, \
         which in a virtual machine takes ten times as long. Left to the scheduler (placement=free) it is either.",
        "A hop may be more than one switch: a unit that wakes the next may lose the CPU to it before it sleeps itself, and \
         then needs it once more (switches_per_hop, by getrusage).",
        "What lmbench takes off is measured with one array in its cache, so that with large arrays most of a switch is \
         reading memory again. Arrays are in small pages: the kernel would put those of threads, which lie side by side, \
         into huge ones.",
        "Threads have one table of descriptors, which the kernel counts users of at every read and write; a lone process \
         goes without. The baseline is of the same kind for that reason, its main thread asleep.",
        "There is one token, so that one unit runs at a time: this is the time of handing on, not what many CPUs can do.",
    ],
    source: "Source 004 made lmbench's lat_ctx pass its token among threads (lat_thread_ctx), on 1, 4 and 8 CPUs with \
             placement left to the scheduler; its figures are missing. lmbench drops results of 0 and less; here \
             what cannot be told from 0 is below resolution. Source 003 says both that threads switch faster and that \
             processes do, and measured neither.",
    calls: &[],
    plan: |site| runtimes::beside(plan(site), site, guests::plan(site)),
    run: |params, worker| match params.get("runtime") {
        Some(_) => guests::run(params, worker),
        None => run(params, worker),
    },
    read: |view| {
        let mut answer = read(view);
        guests::read(view, &mut answer);
        answer
    },
};

/// How long the laps are repeated before they are timed, and then.
const WARM: Duration = Duration::from_millis(5);
const TIMED: Duration = Duration::from_millis(40);

/// lmbench's, but for 24.
const RINGS: [u64; 8] = [2, 4, 8, 16, 32, 64, 96, 1024];
/// The largest ring of the sources.
const MOST: u64 = 96;
/// Those of the tables.
pub const TABLED: [u64; 3] = [2, 16, MOST];
const KIB: [u64; 5] = [0, 4, 16, 64, 256];
/// The sizes that a claim is about.
const CLAIMED_KIB: [u64; 2] = [0, 16];
const BOTH: [Unit; 2] = [Unit::Thread, Unit::Process];
const OTHER_MEANS: [Means; 5] = [Eventfd, Futex, Condvar, Unix, Tcp];

/// Two threads that hand on nothing but the token, on one CPU.
const THREADS: Case = Case {
    unit: Unit::Thread,
    means: Means::Pipe,
    ring: 2,
    kib: 0,
    hop: Hop::ToOther,
    placement: Placement::Same,
    cpus: 1,
    library: None,
};
const PROCESSES: Case = THREADS.unit(Unit::Process);
const COROUTINES: Case = THREADS.unit(Unit::Coroutine).means(Means::Jump);

impl Case {
    /// The same work without a switch. One unit is on one CPU, wherever the others were.
    const fn alone(self) -> Self {
        self.hop(Hop::ToItself).placement(Placement::Same).cpus(1)
    }

    const fn across(self) -> Self {
        self.placement(Placement::Across).cpus(2)
    }

    const fn free(self, cpus: u64) -> Self {
        self.placement(Placement::Free).cpus(cpus)
    }

    fn time(self) -> Statistic {
        HOP.of(self)
    }

    fn program(self) -> &'static Guest {
        self.library.map_or(&RING, Library::ring)
    }

    /// A switch: the hop without what the token itself costs.
    fn switch(self) -> Statistic {
        match self.unit {
            Unit::Coroutine => self.time(),
            _ => self.time().less(self.alone().time()),
        }
    }

    /// Reads parameters, which `--set` may have changed.
    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        let wants = |name, wanted: &str| Err(refused(params, name, wanted));
        if (case.unit == Unit::Coroutine) != (case.means == Means::Jump) {
            return wants("means", "jump for coroutines, and for them alone");
        }
        if case.library.is_some() && case.unit != Unit::Thread {
            return wants("unit", "thread, where a thread library is named");
        }
        if matches!(case.means, Means::Spin | Means::Epoll) {
            return wants("means", "one of a ring; `wake` has units that spin, and epoll");
        }
        if case.unit == Unit::Coroutine && case.placement != Placement::Same {
            return wants("placement", "same: coroutines are on one CPU");
        }
        if case.hop == Hop::ToItself && (case.unit == Unit::Coroutine || case.placement != Placement::Same) {
            return wants("hop", "to-other, but for units of the kernel with placement=same");
        }
        if case.placement == Placement::Across && case.ring % 2 != 0 {
            return wants("ring", "even, where placement is across");
        }
        case.placement.check(params).map(|()| case)
    }

    fn planned(self, site: &Site) -> PlannedCase {
        let mib = self.units() * self.kib / 1024;
        let fits = mib <= site.free_memory_mib / 2;
        let lack = || Lack::memory(2 * mib, site.free_memory_mib);
        PlannedCase {
            skip: self.program().missing().or_else(|| (!fits).then(lack)),
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, self.takes())
        }
    }

    /// What a unit reads whenever it has the token.
    const fn array_bytes(self) -> u64 {
        self.kib * 1024
    }

    const fn units(self) -> u64 {
        match self.hop {
            Hop::ToOther => self.ring,
            Hop::ToItself => 1,
        }
    }

    /// On a virtual machine with two CPUs.
    fn takes(self) -> Duration {
        let each_us = match self.unit {
            Unit::Process => 170,
            Unit::Thread | Unit::SharedProcess => 40,
            Unit::Coroutine => 1,
        };
        // Its pages, and reading them on the way of a lap or two.
        let array_us = self.kib / 4 + self.kib / 16;
        let work = WARM * 2 + TIMED * 5 / 4;
        Duration::from_micros(10_000 + self.units() * (each_us + array_us)) + work
    }
}

/// The sizes of rings of a profile.
fn rings(profile: Profile) -> &'static [u64] {
    profile.pick(&[2, 16, MOST], &RINGS[..7], &RINGS)
}

fn plan(site: &Site) -> Plan {
    let profile = site.profile;
    let all_cpus = (site.cpus.len() as u64).max(2);
    let sizes = profile.pick(&CLAIMED_KIB[..], &KIB, &KIB);
    let mut cases = Vec::new();
    // With and without a switch.
    let mut both_hops = |case: Case| cases.extend([case, case.alone()]);
    for unit in BOTH {
        for &kib in sizes {
            for &ring in rings(profile) {
                both_hops(THREADS.unit(unit).kib(kib).ring(ring));
            }
        }
    }
    for &ring in profile.pick(&[2][..], &[2, 16, MOST], &RINGS) {
        both_hops(THREADS.unit(Unit::SharedProcess).ring(ring));
    }
    for unit in profile.pick(&BOTH[..1], &BOTH, &BOTH) {
        let rings = profile.pick(&[2, MOST][..], rings(profile), rings(profile));
        cases.extend(
            rings
                .iter()
                .map(|&ring| THREADS.unit(*unit).ring(ring).free(all_cpus)),
        );
    }
    for cpus in sizes_between(site) {
        cases.extend(TABLED.map(|ring| THREADS.ring(ring).free(cpus)));
    }
    cases.extend(BOTH.map(|unit| THREADS.unit(unit).across()));
    for library in profile.pick(&[][..], &Library::ALL, &Library::ALL) {
        for case in TABLED.map(|ring| THREADS.ring(ring).library(Some(*library))) {
            cases.extend([case, case.alone(), case.free(all_cpus)]);
        }
    }
    for &ring in profile.pick(&[2][..], rings(profile), rings(profile)) {
        cases.push(COROUTINES.ring(ring));
    }
    for means in profile.pick(&[][..], &OTHER_MEANS, &OTHER_MEANS) {
        for unit in BOTH {
            let case = THREADS.unit(unit).means(*means);
            cases.extend([case, case.across()]);
        }
    }
    Plan {
        cases: cases.into_iter().map(|case| case.planned(site)).collect(),
        reference: THREADS.params(),
        budget: Duration::from_secs(profile.pick(20, 300, 2 * 3600)),
    }
}

figures! {
    /// What `guests/c/ring.c` answers.
    struct Laps {
        wall_ns,
        hops,
        all_hops,
        switches,
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let found: Found<Laps> = case.program().ask(
        worker,
        Stdio::null(),
        &[
            &case.unit.name(),
            &case.means.name(),
            &case.ring,
            &case.array_bytes(),
            &case.hop.name(),
            &case.placement.pinned()?,
            &WARM.as_nanos(),
            &TIMED.as_nanos(),
        ],
        PlannedCase::new(case, case.takes()).deadline(),
        case.unit.made_by(),
    )?;
    let laps = found.figures;
    worker.record(HOP, laps.wall_ns as f64 * found.stretch / laps.hops as f64);
    worker.record(SWITCHES, laps.switches as f64 / laps.all_hops as f64);
    Ok(())
}

/// A switch to another thread, by pipe on one CPU, ns.
pub fn thread_switch() -> Statistic {
    THREADS.switch()
}

/// A whole hop between two threads, by pipe on one CPU, ns.
pub fn thread_hop() -> Statistic {
    THREADS.time()
}

/// The same between two processes.
pub fn process_hop() -> Statistic {
    PROCESSES.time()
}

/// A switch in a ring of so many threads on so many CPUs, with nothing to read and placement left to the scheduler, ns:
/// source 004's `lat_thread_ctx`.
pub(crate) fn switch_on(library: Option<Library>, ring: u64, cpus: u64) -> Statistic {
    let case = THREADS.ring(ring).library(library);
    let case = if cpus == 1 { case } else { case.free(cpus) };
    case.switch()
}

/// A switch to another thread of this library, ns.
fn on_library(library: Library) -> Statistic {
    THREADS.library(Some(library)).switch()
}

/// Whether the interval of a switch leaves 0 out, or its figure where there are too few rounds for one.
pub fn is_above_0(switch: &Estimate) -> bool {
    switch.ci95.map_or(switch.value, |[low, _]| low) > 0.0
}

/// A switch to another process over one to another thread: for claims about all that a process costs.
pub fn process_over_thread() -> Statistic {
    PROCESSES.switch().over(thread_switch())
}

/// The same of processes that share memory.
pub fn shared_process_over_thread() -> Statistic {
    let shared = THREADS.unit(Unit::SharedProcess);
    shared.switch().over(thread_switch())
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view
            .number(
                "a switch to another process ÷ to another thread: one CPU",
                &process_over_thread(),
                "ratio",
            )
            .filter(|_| resolved(view, THREADS).is_some()),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: vec![parts(view)],
        costs: costs(view),
        ..Answer::default()
    }
}

/// By how much a switch among threads grows from the smallest ring to the largest of the sources.
fn growth(placed: impl Fn(Case) -> Case) -> Statistic {
    let of = |ring| placed(THREADS.ring(ring)).switch();
    of(MOST).over(of(2))
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let cells: Vec<(u64, u64)> = CLAIMED_KIB
        .into_iter()
        .flat_map(|kib| rings(view.profile).iter().map(move |&ring| (ring, kib)))
        .filter(|(ring, _)| *ring <= MOST)
        .collect();
    let of_each = |over: Unit, under: Unit| {
        let cell = |&(ring, kib): &(u64, u64)| {
            let of = |unit| THREADS.unit(unit).ring(ring).kib(kib).switch();
            (format!("ring={ring},kib={kib}"), of(over).over(of(under)))
        };
        each(Quote::Smallest, cells.iter().map(cell))
    };
    vec![
        (
            "thread-switch-cheaper-than-process-switch",
            of_each(Unit::Process, Unit::Thread),
        ),
        (
            "process-switch-faster-than-thread-switch",
            of_each(Unit::Thread, Unit::Process),
        ),
        (
            "switch-cost-steep-on-one-cpu-gentle-on-smp",
            on_all_cpus(view, |all| {
                growth(|case| case).over(growth(|case| case.free(all))).into()
            }),
        ),
        ("libraries-switch-alike", libraries_alike()),
        waiting("smt-no-effect-on-switching"),
    ]
}

/// A switch under the old library over one under the machine's, by ring, on one CPU.
fn libraries_alike() -> Test {
    let cell = |ring| {
        let of = |library| THREADS.ring(ring).library(library).switch();
        (
            format!("ring={ring}"),
            of(Some(Library::LinuxThreads)).over(of(None)),
        )
    };
    each(Quote::Largest, TABLED.map(cell)).recreated(NOT_SHOWN)
}

/// The figure of a switch, unless it may be 0.
fn resolved(view: &View<'_>, case: Case) -> Option<Estimate> {
    view.estimate(&case.switch()).filter(is_above_0)
}

/// The same as text.
fn shown(view: &View<'_>, case: Case) -> String {
    match resolved(view, case) {
        Some(switch) => switch.show("ns"),
        None if view.measured(&case.switch()) => "below resolution".to_owned(),
        None => String::new(),
    }
}

fn answer(view: &View<'_>) -> String {
    let plain = |case: Case| Some(resolved(view, case)?.plain("ns"));
    let (Some(thread), Some(process)) = (plain(THREADS), plain(PROCESSES)) else {
        let measured = [THREADS, PROCESSES]
            .iter()
            .all(|case| view.measured(&case.switch()));
        let unresolved = "On one CPU a switch to another thread or process costs no more than passing the token on, as far as \
                          these rounds can tell.";
        if measured {
            return unresolved.to_owned();
        }
        let whole = |case: Case| Some(view.estimate(&case.time())?.plain("ns"));
        return match (whole(THREADS), whole(PROCESSES)) {
            (Some(thread), Some(process)) => format!(
                "On one CPU a whole hop, the token with its switch, takes {thread} between threads and {process} between \
                 processes."
            ),
            _ => String::new(),
        };
    };
    let of = process_over_thread();
    let times = view.estimate(&of).map_or_else(String::new, |times| {
        let times = times.plain("ratio");
        match view.resolved(&of.less_one()) {
            true => format!(", {times} times as much"),
            false => format!(" ({times} times as much: these rounds show no difference)"),
        }
    });
    let mut says =
        format!("On one CPU a switch to another thread takes {thread}, to another process {process}{times}.");
    if let Some(across) = view.estimate(&THREADS.across().time()) {
        says += &format!(
            " Handing the token to a thread on another CPU takes {}.",
            across.plain("ns")
        );
    }
    says
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let fact = |of: Statistic, unit: &str, says: &str| {
        let figure = view.estimate(&of)?;
        Some(figure.fact(says.replace("{}", &figure.show(unit)), unit))
    };
    let few = [
        fact(
            THREADS.alone().time(),
            "ns",
            "Of a hop between threads on one CPU, {} is the token itself: the same read and write without a switch. lmbench \
             takes that off, and so do the claims.",
        ),
        fact(
            PROCESSES.time().over(THREADS.time()),
            "ratio",
            "With the token's own cost left in, a hop between two processes takes {} times as long as one between two \
             threads.",
        ),
        fact(
            SWITCHES.of(THREADS.ring(16)),
            "ratio",
            "In a ring of 16 threads on one CPU a hop is {} switches: a unit that is woken may run before the one that woke \
             it sleeps.",
        ),
        fact(
            shared_process_over_thread(),
            "ratio",
            "A switch between processes that share their memory, as threads did before NPTL, takes {} times as long as \
             between threads.",
        ),
        fact(
            on_library(Library::LinuxThreads).over(thread_switch()),
            "ratio",
            "A switch between threads of LinuxThreads, the library before NPTL, re-created on this kernel, takes {} times as \
             long as between threads of this machine's C library.",
        ),
        fact(
            on_library(Library::Musl).over(thread_switch()),
            "ratio",
            "A switch between threads of the C library musl takes {} times as long as of this machine's.",
        ),
        fact(
            thread_switch().over(COROUTINES.time()),
            "ratio",
            "A switch between threads on one CPU takes {} times as long as a jump between two coroutines, the floor.",
        ),
    ];
    let unresolved = BOTH
        .into_iter()
        .flat_map(|unit| KIB.map(|kib| THREADS.unit(unit).kib(kib)));
    let unresolved =
        unresolved.filter(|&case| view.measured(&case.switch()) && resolved(view, case).is_none());
    let unresolved = unresolved.map(|case| {
        let says = format!(
            "A switch between two units of kind {} that read {} KiB each is below resolution: it cannot be told from 0.",
            case.unit.name(),
            case.kib
        );
        Finding::fact(says, None, None, "ns")
    });
    few.into_iter().flatten().chain(unresolved).collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let mut pairs = Vec::from(BOTH.map(|unit| (THREADS.unit(unit), THREADS.unit(unit).across())));
    for kib in KIB {
        let by_kind = |ring| {
            let threads = THREADS.kib(kib).ring(ring);
            (threads, threads.unit(Unit::Process))
        };
        pairs.extend(RINGS.map(by_kind));
    }
    pairs.extend(OTHER_MEANS.map(|means| (THREADS, THREADS.means(means))));
    let is_planned = |case: Case| view.planned(case).next().is_some();
    pairs.retain(|(a, b)| is_planned(*a) && is_planned(*b));
    let pair = |(a, b): (Case, Case)| Pair::of(&a.time(), &b.time());
    pairs.into_iter().map(pair).collect()
}

/// The same on one CPU and on each larger number that was planned; and where that is, in words.
fn placed(view: &View<'_>, case: Case) -> Vec<(String, Case)> {
    let free = THREADS.free(1).any(&["unit", "ring", "cpus"]);
    let cpus: BTreeSet<u64> = view
        .planned(free)
        .filter_map(|params| params.int("cpus"))
        .collect();
    let mut all = vec![("one CPU".to_owned(), case)];
    all.extend(
        cpus.into_iter()
            .map(|cpus| (format!("{cpus} CPUs"), case.free(cpus))),
    );
    all
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let line = |case: Case| RINGS.map(move |ring| (ring, case.ring(ring).switch().times(1e-3)));
    let over_ring = |id: &str, title: &str| {
        Chart::new(view, id, title)
            .x(Scale::Log, "units in the ring")
            .y(Scale::Linear, "time of a switch, µs")
    };
    let by_size = BOTH.map(|unit| {
        let title = format!("A switch to another {} on one CPU, by the memory each reads", unit.name());
        let note = "A hop less the token's own cost. The figures of source 004, by lmbench's lat_ctx and its form for threads, \
                    have these axes; their data are missing.";
        KIB.into_iter().fold(
            over_ring(&format!("sizes-{}", unit.name()), &title).note(note).at_least(2),
            |chart, kib| chart.line(format!("{kib} KiB"), line(THREADS.unit(unit).kib(kib))),
        )
    });
    let mut kinds = over_ring(
        "kinds",
        "A switch with nothing to read, on one CPU and on several",
    )
    .note("On several CPUs placement is left to the scheduler, as the sources left it.")
    .at_least(2);
    for unit in BOTH {
        for (on, case) in placed(view, THREADS.unit(unit)) {
            kinds = kinds.line(format!("{} on {on}", unit.name()), line(case));
        }
    }
    kinds = kinds.line("coroutines", line(COROUTINES));
    let mut means = Chart::new(
        view,
        "means",
        "Handing a token to one other, by means and placement",
    )
    .note("The whole hop, with what the token itself costs; two units.")
    .x(Scale::Category, "means")
    .y(Scale::Log, "time of a hop, µs");
    for unit in BOTH {
        for (on, placed) in [
            ("the same CPU", THREADS.unit(unit)),
            ("two CPUs", THREADS.unit(unit).across()),
        ] {
            let of = |means: Means| (means.name(), placed.means(means).time().times(1e-3));
            let all = [&[Means::Pipe][..], &OTHER_MEANS].concat();
            means = means.line(format!("{} on {on}", unit.name()), all.into_iter().map(of));
        }
    }
    let [threads, processes] = by_size;
    [kinds, threads, processes, means]
        .into_iter()
        .filter_map(Chart::drawn)
        .collect()
}

/// A hop with and without what lmbench takes off.
fn parts(view: &View<'_>) -> Table {
    let mut rows = Vec::new();
    let shared = THREADS.unit(Unit::SharedProcess);
    for base in [THREADS, PROCESSES, shared, COROUTINES] {
        for kib in KIB {
            for ring in TABLED {
                let case = base.kib(kib).ring(ring);
                if view.measured(&case.time()) {
                    rows.push(vec![
                        base.unit.name().to_owned(),
                        ring.to_string(),
                        kib.to_string(),
                        view.shown(&case.time(), "ns"),
                        view.shown(&case.alone().time(), "ns"),
                        shown(view, case),
                        view.value(&SWITCHES.of(case))
                            .map_or_else(String::new, |n| units::with_unit(n, None, "ratio")),
                    ]);
                }
            }
        }
    }
    table(
        "parts",
        "A hop on one CPU, and what of it is the switch",
        "alone: the hop of a unit that sends itself the token, its array in its cache, which lmbench takes off. times: \
         switches for each hop.",
        ["unit", "ring", "KiB", "hop", "alone", "switch", "times"],
        rows,
    )
}

fn costs(view: &View<'_>) -> Vec<Cost> {
    const SWITCH: &str = "switch, one CPU";
    const HAND_OVER: &str = "hand over a token to another CPU";
    let switch = |case: Case| {
        resolved(view, case)?;
        let how = "a ring of 2, less the token's own cost";
        view.cost((SWITCH, case.unit.kind()), how, &case.switch(), "ns")
    };
    let across = |unit: Unit| {
        let case = THREADS.unit(unit).across();
        view.cost((HAND_OVER, unit.kind()), "by pipe", &case.time(), "ns")
    };
    let listed = |name: &str, cost: Option<Cost>| Some(cost?.named(name));
    let costs = [
        listed("switch to another thread", switch(THREADS)),
        listed("switch to another process", switch(PROCESSES)),
        switch(THREADS.unit(Unit::SharedProcess)),
        switch(COROUTINES),
        across(Unit::Thread),
        across(Unit::Process),
        view.cost(
            (TWO_SYSTEM_CALLS, "thread"),
            "by pipe, to itself",
            &THREADS.alone().time(),
            "ns",
        ),
    ];
    costs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_lab::view::ViewCase;
    use threadgauge_results::{Need, Verdict};

    #[test]
    fn the_token_goes_round_by_every_unit_and_means() {
        let alone = [THREADS.alone(), PROCESSES.kib(4).alone()];
        let by_means = BOTH
            .into_iter()
            .flat_map(|unit| OTHER_MEANS.map(|means| THREADS.unit(unit).means(means).ring(3)));
        let others = [
            THREADS.ring(5).kib(4),
            PROCESSES.free(2),
            THREADS.unit(Unit::SharedProcess),
            COROUTINES.ring(7).kib(4),
        ];
        for case in by_means.chain(alone).chain(others) {
            let sample = testing::measured(&EXPERIMENT, &case.params());
            let value = |metric: Metric| sample.value(metric.name).unwrap();
            assert!(value(HOP) > 0.0, "{case:?}");
            let switches = case.hop == Hop::ToOther && case.unit != Unit::Coroutine;
            assert_eq!(value(SWITCHES) > 0.2, switches, "{case:?}: {sample:?}");
        }
    }

    #[test]
    fn it_goes_round_by_threads_of_other_libraries() {
        for library in Library::ALL {
            let case = THREADS.ring(3).library(Some(library));
            for case in [case, case.alone()] {
                let sample = testing::sample(&EXPERIMENT, &case.params());
                match case.program().missing() {
                    None => assert!(sample.value(HOP.name).unwrap_or_default() > 0.0, "{sample:?}"),
                    Some(lack) => assert_eq!(sample.reason, Some(lack.says)),
                }
            }
        }
    }

    #[test]
    fn an_array_is_of_kibibytes() {
        assert_eq!(THREADS.array_bytes(), 0);
        assert_eq!(THREADS.kib(4).array_bytes(), 4096);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (params, says) in [
            (
                THREADS.means(Means::Jump).params(),
                "means is jump; it must be jump for coroutines, and for them alone",
            ),
            (
                THREADS.means(Means::Spin).params(),
                "means is spin; it must be one of a ring",
            ),
            (
                COROUTINES.across().params(),
                "placement is across; it must be same: coroutines",
            ),
            (
                COROUTINES.hop(Hop::ToItself).params(),
                "hop is to-itself; it must be to-other",
            ),
            (
                THREADS.across().hop(Hop::ToItself).params(),
                "hop is to-itself; it must be to-other",
            ),
            (
                THREADS.cpus(2).params(),
                "cpus is 2; it must be 1, where placement is same",
            ),
            (
                THREADS.across().cpus(4).params(),
                "cpus is 4; it must be 2, where placement is across",
            ),
            (THREADS.across().ring(3).params(), "ring is 3; it must be even"),
            (THREADS.ring(1).params(), "ring is 1; it must be a number from 2"),
        ] {
            let error = Case::possible(&params).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_the_machine_lacks_is_said_and_the_rest_is_planned() {
        let site = Site {
            free_memory_mib: 300,
            ..testing::site(Profile::Paper, 1)
        };
        let mut plan = plan(&site);
        plan.fit(&site);
        let lacks = |need| {
            plan.cases
                .iter()
                .filter(|c| c.skip.as_ref().is_some_and(|l| l.of == need))
                .count()
        };
        let elsewhere = |c: &&PlannedCase| c.params.int("cpus") != Some(1);
        assert_eq!(lacks(Need::Cpus), plan.cases.iter().filter(elsewhere).count());
        // 1,024 arrays of 256 KiB, of threads and of processes.
        assert_eq!(lacks(Need::Memory), 2);
        assert!(plan.cases.len() > 100);
    }

    const NOISE: [f64; 7] = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995];

    /// A hop of so many ns, 1,000 of which are the token's, of both kinds, on one CPU and on two.
    fn run_of(hop_ns: impl Fn(Case) -> f64) -> View<'static> {
        let cases = plan(&testing::site(Profile::Quick, 2)).cases;
        let of = |planned: PlannedCase| -> ViewCase {
            let case = Case::possible(&planned.params).unwrap();
            let ns = match case.hop {
                Hop::ToItself => 1000.0,
                Hop::ToOther => hop_ns(case),
            };
            testing::case(planned.params, [(HOP, NOISE.map(|n| n * ns).to_vec())])
        };
        testing::view("ring", Profile::Quick, cases.into_iter().map(of).collect())
    }

    fn verdict(view: &View<'_>, id: &str) -> Verdict {
        let claims = claims(view);
        let (_, test) = claims.iter().find(|(of, _)| *of == id).unwrap();
        testing::verdict(test, id, view).unwrap()
    }

    const CHEAPER: &str = "thread-switch-cheaper-than-process-switch";
    const DEARER: &str = "process-switch-faster-than-thread-switch";
    const STEEP: &str = "switch-cost-steep-on-one-cpu-gentle-on-smp";

    #[test]
    fn claims_compare_switches_and_not_hops() {
        let hops = |process_ns: f64| {
            run_of(move |case| {
                if case.unit == Unit::Process {
                    process_ns
                } else {
                    2000.0
                }
            })
        };
        // Switches of 2,500 and 1,000; hops of 3,500 and 2,000.
        assert_eq!(verdict(&hops(3500.0), CHEAPER), Verdict::Holds);
        assert_eq!(verdict(&hops(3500.0), DEARER), Verdict::DoesNotHold);
        assert_eq!(verdict(&hops(2100.0), CHEAPER), Verdict::DoesNotHold);
        assert_eq!(verdict(&hops(1700.0), DEARER), Verdict::Holds);
    }

    #[test]
    fn one_cell_that_does_not_satisfy_it_refutes_a_claim_about_each() {
        let view = run_of(|case| match (case.unit, case.ring) {
            (Unit::Process, MOST) => 2100.0,
            (Unit::Process, _) => 3500.0,
            _ => 2000.0,
        });
        assert_eq!(verdict(&view, CHEAPER), Verdict::DoesNotHold);
    }

    #[test]
    fn growth_is_set_against_growth_elsewhere_and_needs_several_cpus() {
        let steep = run_of(|case| match (case.ring, case.cpus) {
            (MOST, 1) => 5000.0,
            _ => 2000.0,
        });
        assert_eq!(verdict(&steep, STEEP), Verdict::Holds);
        let alike = run_of(|case| if case.ring == MOST { 5000.0 } else { 2000.0 });
        assert_eq!(verdict(&alike, STEEP), Verdict::DoesNotHold);
        let one = testing::changed(steep, |cases| {
            for case in cases.iter_mut().filter(|c| c.params.int("cpus") == Some(2)) {
                *case = testing::lacking(case.params.clone(), Lack::cpus(2, 1));
            }
        });
        assert_eq!(verdict(&one, STEEP), Verdict::NotTestable);
    }

    #[test]
    fn a_switch_that_cannot_be_told_from_0_is_below_resolution_and_no_cost() {
        let view = run_of(|case| if case.unit == Unit::Thread { 1000.0 } else { 2000.0 });
        let view = testing::changed(view, |cases| {
            let own = THREADS.params();
            let case = cases.iter_mut().find(|c| c.params == own).unwrap();
            let around = NOISE.iter().rev().map(|n| n * 1000.0).collect();
            *case = testing::case(own, [(HOP, around)]);
        });
        assert_eq!(shown(&view, THREADS), "below resolution");
        assert!(
            shown(&view, PROCESSES).contains("µs"),
            "{}",
            shown(&view, PROCESSES)
        );
        let costs = costs(&view);
        let switches: Vec<&str> = costs
            .iter()
            .filter(|c| c.what == "switch, one CPU")
            .map(|c| c.kind.as_str())
            .collect();
        assert_eq!(switches, ["process", "process in shared memory", "coroutine"]);
        let few = testing::changed(view, |cases| {
            for case in cases {
                let first_two = case.values.values_mut();
                first_two.for_each(|rounds| rounds.retain(|round, _| *round <= 2));
                case.all.clone_from(&case.values);
            }
        });
        let process = shown(&few, PROCESSES);
        assert!(process.contains("µs") && !process.contains('['), "{process}");
        assert!(facts(&view).iter().any(|f| {
            f.says
                .contains("kind thread that read 0 KiB each is below resolution")
        }));
    }

    #[test]
    fn without_figures_every_claim_has_a_verdict_and_the_answer_says_so() {
        let nothing = testing::view("ring", Profile::Quick, Vec::new());
        for id in [CHEAPER, DEARER, STEEP] {
            assert_eq!(verdict(&nothing, id), Verdict::NotMeasured, "{id}");
        }
        assert!(answer(&nothing).is_empty());
        assert!(charts(&nothing).is_empty());
    }

    #[test]
    fn without_what_the_token_costs_alone_the_answer_is_of_whole_hops() {
        let of = |case: Case, ns: f64| testing::case(case.params(), [(HOP, vec![ns; 7])]);
        let view = testing::view("ring", Profile::Quick, vec![of(THREADS, 5e3), of(PROCESSES, 6e3)]);
        assert_eq!(
            answer(&view),
            "On one CPU a whole hop, the token with its switch, takes 5.00 µs between threads and 6.00 µs between processes."
        );
    }
}
