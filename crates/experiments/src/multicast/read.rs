//! What `multicast` reads off its samples: the claims of source 002, its figures with ours beside them, and the white
//! box.

use threadgauge_lab::point::Parameter as _;
use threadgauge_lab::prelude::*;
use threadgauge_results::published::dated;
use threadgauge_results::units::of_cpus;
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

mod answer;

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
        advice: seen.advice(),
        number: seen.number(),
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
    match all.saturating_sub(server_cpus) {
        0 => format!("the server and its clients together on {}", of_cpus(all)),
        others => format!(
            "the server on {} and its clients on {}",
            of_cpus(server_cpus),
            of_cpus(others).replace("one CPU", "another")
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
                format!("One reactor makes {{}} deliveries for a second of its CPU time ({on}, {CLAIMED} connections)."),
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
                "thousand deliveries a second",
                server_cpus,
                |case| rate(case).times(THOUSAND),
            ));
            charts.push(self.by_load(
                &of("efficiency"),
                &format!("What a second of the server's CPU time forwards: {on}"),
                "thousand deliveries a server CPU second",
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
                    "thousand deliveries a second",
                    server_cpus,
                    |case| rate(case.one_at_a_time()).times(THOUSAND),
                ));
            }
            charts.push(self.white_box(&of("white-box"), server_cpus));
            charts.push(self.by_cpu(&of("cpus"), server_cpus));
        }
        // With one number of CPUs there is nothing to draw a gain over.
        if self.cpus > 2 {
            charts.push(self.gains());
        }
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
                "thousand deliveries a second",
                "thousand deliveries a server CPU second",
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
mod tests;
