//! What `multicast` reads off its samples: the claims of source 002, its figures with ours beside them, and the white
//! box.

use threadgauge_lab::point::Parameter as _;
use threadgauge_lab::prelude::*;
use threadgauge_results::published::dated;
use threadgauge_results::{Figure, Table, claim, units};

use crate::servers::clients::halved;
use crate::servers::groups::HALF;

use super::case::{
    AT_THE_LIMIT, CLAIMED, CLIENT_WANTS, CLIENTS, CPU, Case, DELAY, DELAY_P99, DESIGNS, FOUR, LEAST_CPU,
    LIMITS, LOADS, MEMORY, MOST, MOST_CPU, ORIGINAL, PENDING, REACTOR, READING, READING_WANTS, SOURCES_CPUS,
    SPLIT, TIME, USED, WINDOW, WRITING, WRITING_WANTS, all_designs, as_the_source, places,
};
use super::condition::Window;
use super::environments::Environments;
use super::statistics::{MS, THOUSAND, gain, mbits, per_cpu, rate};
use super::stored;
use super::variations::Variations;

/// Clients that use more of their CPU than this may be what is waited for.
const FULL: f64 = 0.9;

pub(super) fn read(view: &View<'_>) -> Answer {
    let cases = stored::completed(view);
    let all = View {
        cases: &cases,
        ..*view
    };
    let seen = Seen::of(&all);
    Answer {
        answer: seen.answer(),
        // Of what this run has under the names of today: cells of another condition decide nothing.
        claims: Seen::of(view).claims(),
        facts: seen.facts(),
        comparisons: stored::pairs(view, seen.comparisons()),
        rankings: stored::rankings(view, seen.rankings()),
        figures: seen.charts(),
        tables: seen.tables(),
        ..Answer::default()
    }
}

/// Who runs where.
fn placed(case: Case) -> String {
    let (server_cpus, all) = (case.server_cpus, case.cpus);
    let cpus = |n: u64| {
        if n == 1 {
            "one CPU".to_owned()
        } else {
            format!("{n} CPUs")
        }
    };
    match all.saturating_sub(server_cpus) {
        0 => format!("the server and its clients together on {}", cpus(all)),
        others => format!(
            "the server on {} and its clients on {}",
            cpus(server_cpus),
            cpus(others).replace("one CPU", "another")
        ),
    }
}

/// A run, and on how many CPUs it planned its cases.
struct Seen<'v> {
    view: &'v View<'v>,
    cpus: u64,
    /// What clients have on its way in most cells: runs from before have one message.
    window: Window,
}

impl<'v> Seen<'v> {
    fn of(view: &'v View<'v>) -> Self {
        let saturates = REACTOR.outstanding.value();
        let has_it = |params: &Params| params.get("outstanding") == Some(&saturates);
        let window = match view.planned(Params::new()).any(has_it) {
            true => Window::Saturating,
            false => Window::Messages(1),
        };
        Self {
            view,
            cpus: view.all_cpus().unwrap_or(1),
            window,
        }
    }

    /// One reactor on so many CPUs of the server.
    fn reactor(&self, server_cpus: u64) -> Case {
        let base = REACTOR.cpus(self.cpus).server_cpus(server_cpus);
        base.outstanding(self.window)
    }

    /// As claims are judged: the source's clients send all the time.
    fn claimed(&self, server_cpus: u64) -> Case {
        self.reactor(server_cpus).outstanding(Window::Saturating)
    }

    /// The source's server before its optimisations, as claims about it are judged.
    fn original(&self, server_cpus: u64) -> Case {
        as_the_source(self.claimed(1), server_cpus).original()
    }

    /// The planned case.
    fn planned(&self, case: Case) -> Option<&'v Params> {
        self.view.planned(case.any(&["span_ms"])).next()
    }

    /// Who runs where, with so many CPUs for the server.
    fn placed(&self, server_cpus: u64) -> String {
        placed(self.reactor(server_cpus))
    }

    // Claims.

    fn claims(&self) -> Vec<Claim> {
        let [one, two, four] = SOURCES_CPUS.map(|server_cpus| self.original(server_cpus));
        let split = |case: Case| case.design(SPLIT.design);
        // Not estimated as a ratio: the least may be nothing.
        let uneven = Statistic::function([LEAST_CPU, MOST_CPU].map(|metric| split(four).of(metric)), |v| {
            v[0] / v[1]
        });
        // The source's example has three writes for a read.
        let pool = four.sized_pool().group(FOUR);
        let on_one = four.with_clients_kept(1);
        vec![
            (
                "single-thread-gains-nothing-from-cpus",
                on_all_cpus(self.view, |_| self.more_cpus()),
            ),
            ("one-reactor-allows-one-operation-per-connection", self.pending()),
            (
                "split-reactors-gain-10pct-on-two-cpus",
                self.over_loads(Quote::Smallest, two, split),
            ),
            (
                "equal-reactor-split-leaves-cpus-idle",
                self.apart(4, uneven.clone(), || uneven.into()),
            ),
            (
                "ratio-sized-pool-fills-all-cpus",
                self.apart(4, pool.of(LEAST_CPU), || pool.of(LEAST_CPU).into()),
            ),
            (
                "pool-equal-on-one-cpu",
                self.over_loads(Quote::Smallest, one, Case::sized_pool),
            ),
            (
                "pool-doubles-on-two-cpus",
                self.over_loads(Quote::Smallest, two, Case::sized_pool),
            ),
            (
                "pool-quadruples-on-four-cpus",
                self.over_loads(Quote::Smallest, four, Case::sized_pool),
            ),
            (
                "unoptimised-server-does-not-scale",
                self.apart(4, gain(four, on_one), || gain(four, on_one).into()),
            ),
        ]
    }

    /// What one reactor gains from all CPUs, its clients on the last one in both cells.
    fn gain_from_cpus(&self) -> Statistic {
        let on = |server_cpus| self.claimed(1).with_clients_on_last(server_cpus);
        gain(on(self.cpus), on(1))
    }

    /// The same as a test. Where the one CPU of the clients is full, the rate is theirs and no gain can show.
    fn more_cpus(&self) -> Test {
        let clients = self
            .view
            .estimate(&self.claimed(1).with_clients_on_last(1).of(CLIENTS));
        let Some(clients) = clients.filter(|clients| clients.value > FULL) else {
            return self.gain_from_cpus().into();
        };
        let used = clients.show("CPUs");
        let says = format!(
            "the clients used {used} of their one: the rate is theirs, and no gain of the server shows"
        );
        Test::Lacking {
            lack: Lack::new(Need::Figures, says),
            figure: Some(self.gain_from_cpus()),
        }
    }

    /// A test that is worth something only where the clients have CPUs of their own.
    fn apart(&self, server_cpus: u64, figure: Statistic, test: impl FnOnce() -> Test) -> Test {
        if self.cpus > server_cpus {
            return test();
        }
        let needed = server_cpus + 1;
        let here = self.cpus;
        let says = match here.cmp(&server_cpus) {
            std::cmp::Ordering::Equal => format!(
                "needs {needed} CPUs, this run has {here}: on the server's own CPUs the clients would take what is compared"
            ),
            _ => format!("needs {needed} CPUs, this run has {here}"),
        };
        Test::Lacking {
            lack: Lack::new(Need::Cpus, says),
            figure: Some(figure),
        }
    }

    /// The rate of another design over that of the source's server, at each of the source's loads.
    fn over_loads(&self, quote: Quote, base: Case, design: impl Fn(Case) -> Case) -> Test {
        let of = |load: u64| {
            let base = base.connections(load);
            (design(base), base)
        };
        let ratio = |load| {
            let (case, base) = of(load);
            gain(case, base)
        };
        self.apart(base.server_cpus, ratio(CLAIMED), || {
            let is_planned = |load: &u64| {
                let (case, base) = of(*load);
                self.planned(case).is_some() && self.planned(base).is_some()
            };
            let loads: Vec<u64> = LOADS.into_iter().filter(is_planned).collect();
            let cells = loads
                .iter()
                .map(|&load| (format!("{load} connections"), ratio(load)));
            each(quote, cells).of_a_part(
                loads.len() == LOADS.len(),
                "`threadgauge run multicast --profile standard` has all five loads",
            )
        })
    }

    /// How many operations the source's server had pending on a connection; more where two reactors had fewer than two.
    fn pending(&self) -> Test {
        let cases = [ORIGINAL, SPLIT].map(|case| case.cpus(self.cpus));
        let both = cases.map(|case| case.clogged().of(PENDING));
        let shown = |of: &Statistic| Some(units::with_unit(self.view.value(of)?, None, "count"));
        let counts = match both.each_ref().map(shown) {
            [Some(one), Some(two)] => format!("{one} pending with one reactor and {two} with two"),
            _ => "one reactor and two".to_owned(),
        };
        let of_one = Statistic::function(both, |v| v[0] + (2.0 - v[1]).max(0.0));
        each(Quote::Largest, [(counts, of_one)])
    }

    fn variations(&self) -> Variations<'v> {
        Variations::of(self.view, self.claimed(1))
    }

    // What is said.

    fn answer(&self) -> String {
        let base = self.reactor(1);
        let Some(forwards) = self.view.estimate(&rate(base).times(THOUSAND)) else {
            return String::new();
        };
        let mut says = format!(
            "With {}, one reactor forwards {} messages a second to groups of ten, {CLAIMED} connections{}",
            self.placed(1),
            forwards.plain("thousand"),
            match self.window {
                Window::Saturating => " that send all the time",
                Window::Messages(_) => "",
            }
        );
        if let Some(each) = self.view.estimate(&per_cpu(base).times(THOUSAND)) {
            says += &format!(", {} a second of its CPU time", each.plain("thousand"));
        }
        says += ".";
        let others = all_designs(base).into_iter().filter(|case| *case != base);
        let gains = others.filter_map(|case| Some((self.view.value(&gain(case, base))?, case)));
        let mut gains: Vec<(f64, Case)> = gains.collect();
        gains.sort_by(|a, b| b.0.total_cmp(&a.0));
        if let [(most, best), .., (least, worst)] = gains[..] {
            says += &format!(
                " Of the other designs {} forwards most, {} times as many, and {} least, {} times.",
                best.label(),
                units::with_unit(most, None, "ratio"),
                worst.label(),
                units::with_unit(least, None, "ratio"),
            );
        }
        says
    }

    fn facts(&self) -> Vec<Finding> {
        let fact = |of: Statistic, unit: &str, says: String| {
            let figure = self.view.estimate(&of)?;
            Some(figure.fact(says.replace("{}", &figure.show(unit)), unit))
        };
        let mut facts = Vec::new();
        for server_cpus in places(self.cpus) {
            let base = self.reactor(server_cpus);
            let on = self.placed(server_cpus);
            facts.push(fact(
                per_cpu(base).times(THOUSAND),
                "thousand",
                format!("One reactor forwards {{}} messages for a second of its CPU time ({on}, {CLAIMED} connections)."),
            ));
            let pools = all_designs(base).into_iter().filter(|case| case.readers > 0);
            for pool in pools {
                facts.push(fact(
                    gain(pool, base),
                    "ratio",
                    format!(
                        "A pool of {}:{} forwards {{}} times as much as one reactor ({on}, {CLAIMED} connections).",
                        pool.readers, pool.writers
                    ),
                ));
            }
            facts.push(fact(
                gain(base.original(), base),
                "ratio",
                format!(
                    "{} forwards {{}} times as much as one reactor that waits to read and to write at once ({on}, {CLAIMED} \
                     connections).",
                    ORIGINAL.design.name()
                ),
            ));
        }
        if self.cpus > 1 {
            facts.push(fact(
                self.gain_from_cpus(),
                "ratio",
                format!(
                    "One reactor on all {} CPUs forwards {{}} times as much as on the first, its clients on the last in \
                     both, {CLAIMED} connections.",
                    self.cpus
                ),
            ));
        }
        facts.extend(self.variations().facts(&self.placed(1)));
        facts.extend(self.at_the_limit());
        for design in DESIGNS {
            let case = self.reactor(1).design(design).clogged();
            let says = format!(
                "On one connection of {}, {{}} operations were pending at once: a write, since its client took nothing{}.",
                design.name(),
                match self.view.value(&case.of(PENDING)) {
                    Some(1.0) => ", and no read",
                    _ => ", and a read, since what that client said was heard",
                }
            );
            facts.push(fact(case.of(PENDING), "count", says));
        }
        facts.into_iter().flatten().collect()
    }

    /// What many more connections than the source's change.
    fn at_the_limit(&self) -> Vec<Option<Finding>> {
        let ratio = |of: Statistic, says: String| {
            let figure = self.view.estimate(&of)?;
            Some(figure.fact(says.replace("{}", &figure.show("ratio")), "ratio"))
        };
        let mut facts = Vec::new();
        for (design, load) in AT_THE_LIMIT
            .iter()
            .flat_map(|design| LIMITS.map(|load| (*design, load)))
        {
            let [most, limit] = [MOST, load].map(|load| self.reactor(1).design(design).connections(load));
            let name = design.name();
            facts.push(ratio(
                most.of(CPU).over(limit.of(CPU)),
                format!("With {load} connections {name} forwards {{}} times as many messages a server CPU second as with {MOST}."),
            ));
            facts.push(ratio(
                limit.of(DELAY_P99).over(most.of(DELAY_P99)),
                format!("With {load} connections to {name} the delay's 99th percentile is {{}} times that with {MOST}."),
            ));
            let memory = self.view.estimate(&limit.of(MEMORY));
            facts.push(memory.map(|bytes| {
                let says = format!(
                    "Each of {load} connections adds {} to the memory of {name}.",
                    bytes.show("B")
                );
                bytes.fact(says, "B")
            }));
        }
        facts
    }

    fn comparisons(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for server_cpus in places(self.cpus) {
            for load in LOADS {
                let base = self.reactor(server_cpus).connections(load);
                for case in all_designs(base) {
                    let planned = (self.planned(base), self.planned(case));
                    if let (Some(a), Some(b)) = planned
                        && a != b
                    {
                        pairs.push(Pair {
                            a: a.clone(),
                            b: b.clone(),
                        });
                    }
                }
            }
        }
        pairs
    }

    fn rankings(&self) -> Vec<(String, Vec<Params>)> {
        let of = |server_cpus: u64| {
            let cases = all_designs(self.reactor(server_cpus)).into_iter();
            let cases: Vec<Params> = cases.filter_map(|case| self.planned(case).cloned()).collect();
            let title = format!(
                "Time of a delivery, {}, {CLAIMED} connections",
                self.placed(server_cpus)
            );
            (cases.len() > 2).then_some((title, cases))
        };
        places(self.cpus).into_iter().filter_map(of).collect()
    }

    // Charts.

    fn charts(&self) -> Vec<Figure> {
        let mut charts = Vec::new();
        for server_cpus in places(self.cpus) {
            let of = |name: &str| format!("{name}-{server_cpus}");
            let on = self.placed(server_cpus);
            charts.push(self.by_load(
                &of("throughput"),
                &format!("Throughput (the source's figure 7): {on}"),
                "thousand messages forwarded a second",
                server_cpus,
                |case| rate(case).times(THOUSAND),
            ));
            charts.push(self.by_load(
                &of("efficiency"),
                &format!("What a second of the server's CPU time forwards: {on}"),
                "thousand messages a server CPU second",
                server_cpus,
                |case| per_cpu(case).times(THOUSAND),
            ));
            charts.push(self.by_load(
                &of("delay"),
                &format!("Delay (the source's figure 8): {on}"),
                "until the last of the others has it, 99th percentile, ms",
                server_cpus,
                |case| case.of(DELAY_P99).times(MS),
            ));
            if self.window == Window::Saturating {
                charts.push(self.by_load(
                    &of("one-at-a-time"),
                    &format!("Throughput where each waits until all have its message: {on}"),
                    "thousand messages forwarded a second",
                    server_cpus,
                    |case| rate(case.one_at_a_time()).times(THOUSAND),
                ));
            }
            charts.push(self.white_box(&of("white-box"), server_cpus));
            charts.push(self.by_cpu(&of("cpus"), server_cpus));
        }
        charts.insert(0, self.gains());
        charts.extend(Environments::of(self.view, self.reactor(1)).charts());
        charts.into_iter().filter_map(Chart::drawn).collect()
    }

    fn by_load(
        &self,
        id: &str,
        title: &str,
        axis: &str,
        server_cpus: u64,
        of: impl Fn(Case) -> Statistic,
    ) -> Chart<'v> {
        let mut note =
            "The source printed its curves as pictures without numbers; its loads are the same.".to_owned();
        if server_cpus == self.cpus {
            note += " Server and clients share these CPUs: what a server with more threads gains it takes from them.";
        }
        let chart = Chart::new(self.view, id, title)
            .note(note)
            .x(Scale::Linear, "connections")
            .y(Scale::Log, axis)
            .at_least(2);
        let designs = all_designs(self.reactor(server_cpus)).into_iter();
        designs.fold(chart, |chart, case| {
            let loads = LOADS.into_iter().chain(LIMITS);
            chart.line(case.label(), loads.map(|load| (load, of(case.connections(load)))))
        })
    }

    /// What the source says of its figure 7 in words, ours beside it.
    fn gains(&self) -> Chart<'v> {
        let published = [
            (1, "pool-equal-on-one-cpu"),
            (2, "pool-doubles-on-two-cpus"),
            (4, "pool-quadruples-on-four-cpus"),
        ];
        let published = published.map(|(cpus, id)| (cpus, claim(id).and_then(|c| c.published_statistic_low)));
        let ours = |load: u64| {
            [1, 2, 4].into_iter().filter_map(move |server_cpus| {
                let base = self.original(server_cpus).connections(load);
                // On the clients' own CPUs it would be another measurement.
                (server_cpus < self.cpus).then(|| (server_cpus, gain(base.sized_pool(), base)))
            })
        };
        let chart = Chart::new(self.view, "gain", "What a pool of reactors gains over the source's server before")
            .note("Where the clients have CPUs of their own. The source states about 1, 2 and 4 times for all its loads.")
            .x(Scale::Log, "CPUs of the server")
            .y(Scale::Log, "rate of the pool over that of the server before");
        let chart = LOADS.into_iter().fold(chart, |chart, load| {
            chart.line(format!("pool, {load} connections"), ours(load))
        });
        chart.figures(dated("002"), Origin::Published, published)
    }

    /// The chart that the source lost: who used the CPUs.
    fn white_box(&self, id: &str, server_cpus: u64) -> Chart<'v> {
        let title = format!(
            "Who used the CPUs (the source's lost white box): {}",
            self.placed(server_cpus)
        );
        let chart = Chart::new(self.view, id, title)
            .note(
                "The source drew, for four CPUs and without figures of a test, 100, 50, 0 and 0 % for one thread that writes and \
                 one that reads, and four times 100 % for a pool.",
            )
            .x(Scale::Category, "design")
            .y(Scale::Linear, "CPUs used");
        let cases = all_designs(self.reactor(server_cpus));
        let lines = [
            ("server: reads, or does both", READING),
            ("server: only writes", WRITING),
            ("clients", CLIENTS),
        ];
        lines.into_iter().fold(chart, |chart, (name, metric)| {
            chart.line(name, cases.iter().map(|case| (case.label(), case.of(metric))))
        })
    }

    /// Which CPUs were used, as the source's chart had it.
    fn by_cpu(&self, id: &str, server_cpus: u64) -> Chart<'v> {
        let title = format!(
            "How much each CPU was used (the source's figure 10): {}",
            self.placed(server_cpus)
        );
        let note = match server_cpus == self.cpus {
            true => {
                "By the kernel's ticks, which do not tell whose the time was: server and clients share these CPUs."
            }
            false => "By the kernel's ticks.",
        };
        let chart = Chart::new(self.view, id, title)
            .note(if self.cpus as usize > USED.len() {
                format!("{note} Of the first {} CPUs.", USED.len())
            } else {
                note.to_owned()
            })
            .x(Scale::Category, "design")
            .y(Scale::Linear, "share of the time that a CPU was not idle");
        let cases = all_designs(self.reactor(server_cpus));
        let cpus = (1..=self.cpus).zip(USED);
        cpus.fold(chart, |chart, (cpu, metric)| {
            let whose = match cpu {
                _ if server_cpus == self.cpus => "shared",
                _ if cpu <= server_cpus => "the server's",
                _ => "the clients'",
            };
            chart.line(
                format!("CPU {cpu}, {whose}"),
                cases.iter().map(|case| (case.label(), case.of(metric))),
            )
        })
    }

    // Tables.

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.by_design()];
        tables.extend(Environments::of(self.view, self.reactor(1)).table());
        tables.extend(self.source_gains());
        tables.extend(self.variations().table(&self.placed(1)));
        tables.extend(self.halved());
        tables
    }

    /// Whether the clients are a part of what is measured.
    fn halved(&self) -> Option<Table> {
        let halves = all_designs(self.reactor(1)).into_iter();
        let of = |case: Case| (case.label(), case.connections(HALF).of(CPU), case.of(CPU));
        halved(self.view, ("design", "delivery"), HALF, halves.map(of))
    }

    /// Rates, who used which CPU, and where the bottleneck is.
    fn by_design(&self) -> Table {
        let mut rows = Vec::new();
        for server_cpus in places(self.cpus) {
            for load in LOADS.into_iter().chain(LIMITS) {
                for case in all_designs(self.reactor(server_cpus).connections(load)) {
                    if self.view.measured(&case.of(TIME)) {
                        rows.push(self.row(case));
                    }
                }
            }
        }
        table(
            "white-box",
            "Who used what, and who was waited for",
            "The busiest is the thread that ran or waited for a CPU for the largest share of the time: of the server those that read (or \
             do both) and those that only write, or a client. On CPUs that all share, everyone waits.",
            [
                "design",
                "connections",
                "CPUs",
                "messages on their way, each client",
                "thousand messages a second",
                "thousand a server CPU second",
                "delay, median",
                "delay, 99 %",
                "server's CPUs: reading",
                "writing",
                "clients' CPUs",
                "busiest",
                "memory a connection",
                "network, Mbit/s",
            ],
            rows,
        )
    }

    fn row(&self, case: Case) -> Vec<String> {
        let view = self.view;
        let shown = |of: Statistic, unit: &str| {
            let estimate = view.estimate(&of);
            estimate.map_or_else(String::new, |estimate| estimate.plain(unit))
        };
        vec![
            case.label(),
            case.connections.to_string(),
            self.placed(case.server_cpus),
            match case.outstanding {
                Window::Saturating => shown(case.of(WINDOW), "count"),
                Window::Messages(window) => window.to_string(),
            },
            view.shown(&rate(case).times(THOUSAND), ""),
            view.shown(&per_cpu(case).times(THOUSAND), ""),
            shown(case.of(DELAY), "ns"),
            shown(case.of(DELAY_P99), "ns"),
            shown(case.of(READING), ""),
            shown(case.of(WRITING), ""),
            shown(case.of(CLIENTS), ""),
            self.busiest(case),
            shown(case.of(MEMORY), "B"),
            shown(mbits(case), "count"),
        ]
    }

    /// The thread that wanted to run most, and for which share of the time.
    fn busiest(&self, case: Case) -> String {
        let wanted = [
            ("reading", READING_WANTS),
            ("writing", WRITING_WANTS),
            ("a client", CLIENT_WANTS),
        ];
        // Without the server's threads one by one nobody knows.
        if !self.view.measured(&case.of(READING_WANTS)) {
            return "unknown".to_owned();
        }
        let shares = wanted
            .into_iter()
            .filter_map(|(who, metric)| Some((who, self.view.value(&case.of(metric))?)));
        let most = shares.max_by(|a, b| a.1.total_cmp(&b.1));
        most.map_or_else(String::new, |(who, share)| {
            format!("{who}, {}", units::percent(share))
        })
    }

    /// What the source states of its figure 7 beside what was found here; none where nothing was.
    fn source_gains(&self) -> Option<Table> {
        let stated = [
            ("pool-equal-on-one-cpu", 1, "pool over the server before"),
            (
                "split-reactors-gain-10pct-on-two-cpus",
                2,
                "one reactor for reading and one for writing, over the server before",
            ),
            ("pool-doubles-on-two-cpus", 2, "pool over the server before"),
            ("pool-quadruples-on-four-cpus", 4, "pool over the server before"),
        ];
        let row = |(id, server_cpus, what): (&str, u64, &str)| {
            let base = self.original(server_cpus);
            let pool = match id {
                "split-reactors-gain-10pct-on-two-cpus" => base.design(SPLIT.design),
                _ => base.sized_pool(),
            };
            let ours = LOADS.map(|load| {
                let ratio = gain(pool.connections(load), base.connections(load));
                let ratio = self.view.estimate(&ratio).filter(|_| self.cpus >= server_cpus);
                ratio.map_or_else(String::new, |ratio| ratio.show("ratio"))
            });
            let is_measured = ours.iter().any(|cell| !cell.is_empty());
            let published = claim(id)?.published_statistic_low?;
            let mut row = vec![
                what.to_owned(),
                if self.cpus < server_cpus {
                    format!("{server_cpus} CPUs of a server")
                } else {
                    placed(base)
                },
                units::with_unit(published, None, "ratio"),
            ];
            row.extend(ours);
            is_measured.then_some(row)
        };
        let rows: Vec<Vec<String>> = stated.into_iter().filter_map(row).collect();
        let columns = ["rate of", "CPUs", "source 002, about"].map(str::to_owned);
        let loads = LOADS.map(|load| format!("ours, {load} connections"));
        let note = format!(
            "The source: {}. Its text has these ratios for all loads together.",
            dated("002")
        );
        (!rows.is_empty()).then(|| {
            table(
                "gain",
                "What the source's optimisations gain, its figure and ours",
                note,
                columns.into_iter().chain(loads),
                rows,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::{Verdict, decide};

    use super::super::EXPERIMENT;
    use super::super::case::{Load, NETWORK, plan};
    use super::*;

    /// All cases of a profile on so many CPUs, each with seven rounds of the figures that `of` gives.
    fn view(profile: Profile, cpus: usize, of: impl Fn(Case) -> Vec<(Metric, f64)>) -> View<'static> {
        let cases = plan(&testing::site(profile, cpus)).cases;
        let case = |params: Params| {
            let figures = of(Case::possible(&params).unwrap());
            testing::case(
                params,
                figures
                    .into_iter()
                    .map(|(metric, value)| (metric, vec![value; 7])),
            )
        };
        let cases = cases.into_iter().map(|planned| case(planned.params));
        testing::view(EXPERIMENT.id, profile, cases.collect())
    }

    /// The source's machine: one reactor uses one CPU, a pool as many as it has reactors or the server CPUs.
    fn as_published(case: Case) -> Vec<(Metric, f64)> {
        let is_two = case.readers > 0 || case.design == SPLIT.design;
        let ns = match (is_two, case.server_cpus) {
            (true, 2) if case.readers == 0 => 1_000.0 / 1.1,
            (true, cpus) => 1_000.0 / cpus as f64,
            _ => 1_000.0,
        };
        let (least, most) = if case.readers == 0 { (0.0, 1.0) } else { (1.0, 1.0) };
        vec![
            (TIME, ns),
            (CPU, 1_000.0),
            (LEAST_CPU, least),
            (MOST_CPU, most),
            (PENDING, if is_two { 2.0 } else { 1.0 }),
        ]
    }

    fn verdicts(view: &View<'_>) -> Vec<(&'static str, Verdict)> {
        let claims = read(view).claims.into_iter();
        claims
            .map(|(id, test)| (id, testing::verdict(&test, id, view).unwrap()))
            .collect()
    }

    #[test]
    fn on_the_sources_machine_all_its_claims_hold() {
        for (id, verdict) in verdicts(&view(Profile::Paper, 5, as_published)) {
            assert_eq!(verdict, Verdict::Holds, "{id}");
        }
    }

    #[test]
    fn where_nothing_gains_they_do_not_hold() {
        let flat = |case: Case| {
            let mut figures = as_published(case);
            figures[0] = (TIME, 1_000.0);
            figures[2] = (LEAST_CPU, 0.8);
            figures[4] = (PENDING, 2.0);
            figures
        };
        let holds = |id: &str| {
            [
                "single-thread-gains-nothing-from-cpus",
                "pool-equal-on-one-cpu",
                "unoptimised-server-does-not-scale",
            ]
            .contains(&id)
        };
        for (id, verdict) in verdicts(&view(Profile::Paper, 5, flat)) {
            let expected = if holds(id) {
                Verdict::Holds
            } else {
                Verdict::DoesNotHold
            };
            assert_eq!(verdict, expected, "{id}");
        }
    }

    #[test]
    fn with_two_cpus_none_is_decided_that_needs_others_for_the_clients() {
        let found = verdicts(&view(Profile::Standard, 2, as_published));
        let of = |id: &str| found.iter().find(|(of, _)| *of == id).unwrap().1;
        assert_eq!(of("pool-equal-on-one-cpu"), Verdict::Holds);
        assert_eq!(of("single-thread-gains-nothing-from-cpus"), Verdict::Holds);
        for id in [
            "unoptimised-server-does-not-scale",
            "split-reactors-gain-10pct-on-two-cpus",
            "pool-doubles-on-two-cpus",
            "pool-quadruples-on-four-cpus",
        ] {
            assert_eq!(of(id), Verdict::NotTestable, "{id}");
        }
        // The figure is quoted all the same.
        let answer = read(&view(Profile::Standard, 2, as_published));
        assert!(
            answer.tables[1]
                .rows
                .iter()
                .any(|row| row[1].starts_with("the server and its clients together"))
        );
    }

    #[test]
    fn one_reactor_on_all_cpus_is_set_against_one_whose_clients_have_as_many() {
        // Nothing but the clients' CPUs makes a difference.
        let by_clients = |case: Case| {
            let clients = match (case.load, case.cpus - case.server_cpus) {
                (Load::TalkFromLast, _) => 1,
                (_, 0) => case.cpus,
                (_, others) => others,
            };
            vec![(TIME, 1_000.0 / clients as f64)]
        };
        for profile in Profile::ALL {
            for cpus in [2, 3, 4, 5, 8] {
                let found = verdicts(&view(profile, cpus, by_clients));
                let of = |id: &str| found.iter().find(|(of, _)| *of == id).unwrap().1;
                let says = format!("{} on {cpus}", profile.name());
                assert_eq!(
                    of("single-thread-gains-nothing-from-cpus"),
                    Verdict::Holds,
                    "{says}"
                );
                let expected = match (cpus, profile) {
                    (..5, _) => Verdict::NotTestable,
                    (_, Profile::Quick) => Verdict::NotMeasured,
                    _ => Verdict::Holds,
                };
                assert_eq!(of("unoptimised-server-does-not-scale"), expected, "{says}");
            }
        }
    }

    #[test]
    fn where_the_clients_cpu_is_full_no_gain_is_judged() {
        for (used, expected) in [(0.8, Verdict::Holds), (0.95, Verdict::Inconclusive)] {
            let found = verdicts(&view(Profile::Quick, 2, |_| {
                vec![(TIME, 1_000.0), (CLIENTS, used)]
            }));
            let of = |id: &str| found.iter().find(|(of, _)| *of == id).unwrap().1;
            assert_eq!(of("single-thread-gains-nothing-from-cpus"), expected, "{used}");
        }
    }

    #[test]
    fn what_was_pending_is_told_as_two_counts() {
        let of = |pending: [f64; 2]| {
            let figures =
                move |case: Case| vec![(PENDING, pending[usize::from(case.design == SPLIT.design)])];
            let view = view(Profile::Quick, 2, figures);
            let id = "one-reactor-allows-one-operation-per-connection";
            let claims = read(&view).claims.into_iter();
            let (_, test) = claims.into_iter().find(|(of, _)| *of == id).unwrap();
            let claim = claim(id).unwrap();
            decide(claim, &claim.unit, &test.evidence(&view, claim), testing::ALPHA)
        };
        for (pending, verdict) in [
            ([1.0, 2.0], Verdict::Holds),
            ([2.0, 2.0], Verdict::DoesNotHold),
            ([1.0, 1.0], Verdict::DoesNotHold),
            ([2.0, 1.0], Verdict::DoesNotHold),
        ] {
            assert_eq!(of(pending).verdict, Some(verdict), "{pending:?}");
        }
        let told = of([2.0, 2.0]);
        assert!(
            told.says.contains(": 2 [2, 2] here; the rule asks for 1."),
            "{}",
            told.says
        );
        let both = "2 pending with one reactor and 2 with two: 2 [2, 2]";
        assert_eq!(told.reason.as_deref(), Some(both));
    }

    #[test]
    fn standard_has_all_loads_of_claims_about_them_and_one_load_refutes_and_does_not_confirm() {
        let id = "pool-doubles-on-two-cpus";
        let of = |view: &View<'_>| verdicts(view).into_iter().find(|(of, _)| *of == id).unwrap().1;
        let whole = || view(Profile::Standard, 5, as_published);
        for (id, verdict) in verdicts(&whole()) {
            assert_eq!(verdict, Verdict::Holds, "{id}");
        }
        let of_one_load = |view| {
            testing::changed(view, |cases| {
                cases.retain(|case| Case::possible(&case.params).unwrap().connections <= CLAIMED);
            })
        };
        assert_eq!(of(&of_one_load(whole())), Verdict::Inconclusive);
        let flat = |case| vec![(TIME, 1_000.0), (CPU, 1.0), (as_published(case)[2].0, 0.0)];
        let flat = view(Profile::Standard, 5, flat);
        assert_eq!(of(&of_one_load(flat)), Verdict::DoesNotHold);
    }

    #[test]
    fn a_delivery_that_costs_another_time_with_half_the_connections_is_told() {
        let of = |half_ns: f64| -> Vec<String> {
            let ns = |case: Case| {
                if case.connections == HALF {
                    half_ns
                } else {
                    1_000.0
                }
            };
            let view = view(Profile::Standard, 2, |case| vec![(CPU, ns(case))]);
            let tables = read(&view).tables.into_iter();
            let rows = tables
                .filter(|table| table.id == "halved")
                .flat_map(|table| table.rows);
            rows.map(|row| row[2].clone()).collect()
        };
        assert_eq!(of(1_010.0), ["yes"; 8]);
        assert_eq!(of(1_100.0), ["no"; 8]);
    }

    #[test]
    fn the_sources_curves_are_drawn_on_all_cpus_too_and_say_who_runs_where() {
        let figures = |case| [as_published(case), vec![(DELAY_P99, 1e6)]].concat();
        let found = read(&view(Profile::Standard, 2, figures)).figures;
        for id in ["throughput-2", "efficiency-2", "delay-2"] {
            let figure = found.iter().find(|figure| figure.id == id).unwrap();
            assert!(
                figure
                    .title
                    .ends_with("the server and its clients together on 2 CPUs"),
                "{}",
                figure.title
            );
            assert!(figure.note.contains("share these CPUs"), "{}", figure.note);
            let points = |name: &str| {
                let line = figure.series.iter().find(|series| series.name == name);
                line.unwrap().points.len()
            };
            let lines = ["one-handler-reactor", "reactor", "pool 1:1"];
            assert_eq!(lines.map(points), [2, 2, 2], "{id}");
        }
    }

    #[test]
    fn each_cpu_is_drawn_with_who_has_it() {
        let figures = |_| vec![(USED[0], 0.9), (USED[1], 0.6)];
        let found = read(&view(Profile::Standard, 2, figures)).figures;
        let lines = |id: &str| -> Vec<(String, f64, usize)> {
            let figure = found.iter().find(|figure| figure.id == id).unwrap();
            let line = |of: &threadgauge_results::Series| (of.name.clone(), of.points[0].y, of.points.len());
            figure.series.iter().map(line).collect()
        };
        let line = |name: &str, share| (name.to_owned(), share, 8);
        assert_eq!(
            lines("cpus-1"),
            [line("CPU 1, the server's", 0.9), line("CPU 2, the clients'", 0.6)]
        );
        assert_eq!(
            lines("cpus-2"),
            [line("CPU 1, shared", 0.9), line("CPU 2, shared", 0.6)]
        );
    }

    #[test]
    fn the_busiest_is_who_wanted_most() {
        let of = |reading, writing, client| {
            let figures = move |_| {
                vec![
                    (TIME, 1e3),
                    (CPU, 5e2),
                    (READING_WANTS, reading),
                    (WRITING_WANTS, writing),
                    (CLIENT_WANTS, client),
                ]
            };
            let view = view(Profile::Quick, 2, figures);
            let table = &read(&view).tables[0];
            (table.rows[0][4].clone(), table.rows[0][11].clone())
        };
        let (rate, busiest) = of(0.4, 0.97, 0.9);
        assert!(
            rate.starts_with("1000") && busiest == "writing, 97 %",
            "{rate}, {busiest}"
        );
        assert_eq!(of(0.4, 0.5, 0.9).1, "a client, 90 %");
    }

    #[test]
    fn claims_that_compare_with_the_sources_server_hang_on_its_design_and_on_clients_that_send_all_the_time()
    {
        // The pool gains as published over one that waits for both, and over one message at a time; over the source's
        // server nothing.
        let over_others = |case: Case| {
            let is_one_at_a_time = case.load != Load::Clogged && case.outstanding == Window::Messages(1);
            let is_original = case.design == ORIGINAL.design && !is_one_at_a_time;
            let mut figures = as_published(case);
            if is_original {
                figures[0] = (TIME, 1_000.0 / case.server_cpus as f64);
                figures[4] = (PENDING, 2.0);
            }
            figures
        };
        let found = verdicts(&view(Profile::Standard, 5, over_others));
        for id in [
            "one-reactor-allows-one-operation-per-connection",
            "split-reactors-gain-10pct-on-two-cpus",
            "pool-doubles-on-two-cpus",
            "pool-quadruples-on-four-cpus",
            "unoptimised-server-does-not-scale",
        ] {
            let (_, verdict) = found.iter().find(|(of, _)| *of == id).unwrap();
            assert_eq!(*verdict, Verdict::DoesNotHold, "{id}");
        }
    }

    #[test]
    fn the_six_environments_have_a_table_and_three_charts() {
        let figures = |case: Case| {
            let cpus = case.server_cpus as f64;
            let white_box = [
                (READING, 0.5),
                (WRITING, cpus / 2.0),
                (CLIENTS, 0.7),
                (WINDOW, 4.0),
            ];
            [
                as_published(case),
                white_box.to_vec(),
                vec![(DELAY_P99, 1e6 * cpus)],
            ]
            .concat()
        };
        let found = read(&view(Profile::Standard, 5, figures));
        let names: Vec<String> = [1, 2, 4]
            .into_iter()
            .flat_map(|cpus| ['B', 'O'].map(|version| format!("CPU-{cpus}-JAWS-{version}")))
            .collect();
        for (id, last) in [("environment-throughput", 4_000.0), ("environment-delay", 4.0)] {
            let figure = found.figures.iter().find(|figure| figure.id == id).unwrap();
            let lines: Vec<&String> = figure.series.iter().map(|line| &line.name).collect();
            assert_eq!(lines, names.iter().collect::<Vec<_>>());
            assert!(figure.series.iter().all(|line| line.points.len() == 5), "{id}");
            let y = figure.series[5].points[4].y;
            assert!((y - last).abs() < 1e-6, "{id}: {y}");
        }
        let white_box = found
            .figures
            .iter()
            .find(|figure| figure.id == "environment-white-box");
        let lines = &white_box.unwrap().series;
        assert_eq!(
            lines.iter().map(|line| line.points.len()).collect::<Vec<_>>(),
            [6, 6, 6]
        );
        assert_eq!(lines[1].points[5].y, 2.0);
        let table = found
            .tables
            .iter()
            .find(|table| table.id == "environments")
            .unwrap();
        assert_eq!(table.rows.len(), 30);
        assert_eq!(
            table.rows[4][..3],
            ["CPU-4-JAWS-B", "one-handler-reactor", "1000"]
        );
        assert_eq!(table.rows[5][..4], ["CPU-4-JAWS-O", "pool 1:3", "1000", "4"]);
        // The pool of one and of two CPUs is the same, in another environment.
        assert_eq!(table.rows[1][1], table.rows[3][1]);

        let fewer = read(&view(Profile::Standard, 4, figures));
        let of_them = |id: &str| id.starts_with("environment");
        assert!(!fewer.figures.iter().any(|figure| of_them(&figure.id)));
        assert!(!fewer.tables.iter().any(|table| of_them(&table.id)));
    }

    #[test]
    fn other_conditions_stand_beside_those_of_claims() {
        let found = read(&view(Profile::Standard, 2, |case: Case| {
            vec![
                (TIME, 1_000.0),
                (CPU, 900.0),
                (WINDOW, 4.0),
                (NETWORK, case.group as f64),
            ]
        }));
        let table = found
            .tables
            .iter()
            .find(|table| table.id == "variations")
            .unwrap();
        assert_eq!(table.rows.len(), 12);
        let says = [
            "as claims are judged",
            "one message at a time",
            "groups of four: a read, three writes",
            "a link of 100 Mbit/s",
        ];
        for (rows, says) in table.rows.chunks(3).zip(says) {
            assert!(rows.iter().all(|row| row[0] == says), "{rows:?}");
            let designs: Vec<&str> = rows.iter().map(|row| &*row[1]).collect();
            assert_eq!(designs, ["one-handler-reactor", "reactor", "pool 1:1"]);
        }
        let says: Vec<&str> = found.facts.iter().map(|fact| &*fact.says).collect();
        assert!(
            says.iter()
                .any(|says| says.starts_with("4 ") && says.contains("saturate one-handler-reactor"))
        );
        assert!(
            says.iter()
                .any(|says| says.contains("waits until all have its message"))
        );
    }

    #[test]
    fn runs_from_before_are_shown_under_their_own_names_and_decide_no_claim() {
        let today = view(Profile::Standard, 2, as_published);
        let before = testing::changed(today, |cases| {
            cases.retain(|case| {
                let case = Case::possible(&case.params).unwrap();
                let is_new = case.design == ORIGINAL.design || case.outstanding == Window::Saturating;
                !is_new && case.group == REACTOR.group && case.link == REACTOR.link
            });
            for case in cases {
                case.params = Case::possible(&case.params).unwrap().any(&["group", "link"]);
            }
        });
        let found = read(&before);
        assert!(found.figures.iter().any(|figure| figure.id == "throughput-1"));
        assert!(
            found.answer.contains("1.00 million messages a second"),
            "{}",
            found.answer
        );
        assert!(!found.comparisons.is_empty());
        for Pair { a, b } in &found.comparisons {
            assert!(
                [a, b]
                    .iter()
                    .all(|params| before.planned((*params).clone()).count() == 1)
            );
        }
        for (id, verdict) in verdicts(&before) {
            assert!(
                [Verdict::NotMeasured, Verdict::NotTestable].contains(&verdict),
                "{id}: {verdict:?}"
            );
        }
    }

    #[test]
    fn the_answer_and_the_charts_have_what_there_is() {
        let whole = read(&view(Profile::Standard, 2, as_published));
        let says = "With the server on one CPU and its clients on another, one reactor forwards 1.00 million messages a second to groups of ten, \
                    1000 connections that send all the time, 1.00 million a second of its CPU time.";
        assert!(whole.answer.starts_with(says), "{}", whole.answer);
        assert!(whole.figures.iter().any(|figure| figure.id == "throughput-1"));
        assert!(
            whole
                .facts
                .iter()
                .any(|fact| fact.says.contains("A pool of 1:3 forwards"))
        );
        let nothing = read(&testing::view(EXPERIMENT.id, Profile::Quick, Vec::new()));
        assert!(nothing.figures.is_empty() && nothing.facts.is_empty() && nothing.rankings.is_empty());
        assert!(nothing.answer.is_empty());
    }
}
