//! Question: what does a page cost on nginx, beside ours and a floor in C?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print.

use std::num::NonZeroUsize;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_load::exchange::{Http, HttpRequest};
use threadgauge_load::{Arrivals, Clients, Latency, Pace, Ramp, Record, Requests};
use threadgauge_results::{Figure, Table};

use crate::servers::clients::{Addresses, Driver, WARM_UP, halved, has_room, part_of, places};
use crate::servers::nginx::{self, NGINX, Nginx, PATHS, Page};
use crate::servers::{ANSWER_FLOOR, cpu_since, pairs, times_others, without_program};

/// CPU time of all threads of the server for a request.
const CPU: Metric = metric("server_cpu_ns_per_request", "ns");
/// Wall time of a request.
const TIME: Metric = metric("ns_per_request", "ns");
/// Of answers from the intended start of their request, under a fixed rate.
const DELAY: Metric = metric("delay_ns_p50", "ns");
const DELAY_P99: Metric = metric("delay_ns_p99", "ns");
/// The share of its time that a thread of clients was on a CPU.
const CLIENTS: Metric = metric("client_cpu_share", "share");
/// All bytes of an answer, with its head.
const ANSWER: Metric = metric("bytes_per_answer", "bytes");

words! {
    /// Whose server.
    enum Who {
        /// `threadgauge serve http`, with the design that it has by itself.
        Ours = "threadgauge",
        /// The page is in its settings.
        Nginx = "nginx",
        /// The page is a file, by `sendfile`.
        NginxFile = "nginx-file",
        /// `guests/c/servers/answer_floor.c`: counts the ends of heads, and nothing else.
        Floor = "floor",
    }
}

words! {
    /// For how many requests a connection is.
    enum Reuse { Kept = "kept", New = "new" }
}

point! {
    /// A point of the grid.
    struct Case {
        who: Who,
        reuse: Reuse,
        connections: u64 = 1..=10_000,
        /// Requests that each connection has on their way.
        outstanding: u64 = 1..=64,
        /// Requests a second; 0 as fast as possible.
        rate: u64 = 0..=1_000_000,
        page_bytes: u64 = 1..=16_384,
        span_ms: u64 = 1..=60_000,
        cpus: u64 = 1..,
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "http",
    question: "What does a page over HTTP cost on nginx, beside ours?",
    first_run: false,
    sources: &[],
    primary: &[CPU],
    how: "Each server runs alone on one CPU with one thread of work, and the clients, threads of the worker, on the others, one on \
          each. All answer a GET of HTTP/1.1 with a page of 1,024 bytes; the paper profile has a page of 16,384 and 5,000 \
          connections, too. nginx has one worker, no log, nothing in a head that can be left out, and the page twice: in its \
          settings, so from memory, as ours and the floor have it, and as a file with open_file_cache. A file is read and sent \
          with its head, which is faster for such pages; with 16 requests on their way by sendfile, which is faster there. \
          Connections are kept, or made anew for each request, and no server defers accepting (TCP_DEFER_ACCEPT). As fast as \
          possible, each has 1 or 16 requests on their way; under a fixed rate requests start at random times whatever becomes \
          of those before, and the delay counts from the intended start. The figure is the server's CPU time for a request, \
          after 100 ms of warm-up.",
    control: "floor: a plain C program, one loop that counts the ends of heads and sends an answer made beforehand. Beyond the quick \
              profile, half the connections: where a request then costs a server another CPU time, its figure is of these clients \
              and not of the server alone.",
    traps: &[
        "nginx does more than ours: it reads settings for each path, filters answers and has a log, which is off here. What is \
         compared is what one page costs, not what the servers can do.",
        "Answers differ by some bytes (bytes_per_answer): nginx has five headers, of a file seven, ours and the floor three.",
        "nginx' settings decide: with sendfile a file of 1 KiB takes a fifth more, and where nginx defers accepting a new \
         connection costs it less than ours.",
        "How much one turn of a server finds to do depends on how fast the clients are. One that waits for its clients is woken \
         more often, which is dearest for the fastest: on 64 connections the floor waits. Elapsed times say little; CPU time for \
         a request is the server's own.",
        "Over the loopback address the kernel does much of the receiver's work in the sender's time.",
        "Under a fixed rate a sample fails where under 99 % of the rate was reached, or a thread of clients used over 85 % of its CPU.",
        "Where nginx is neither on the path nor in /usr/sbin its cases are skipped, and a claim about it is not testable. Its \
         version is a tag of its samples.",
    ],
    source: "No source compared its server with others: source 002 describes a web server and measured its framework with group messages. The \
             bounds are targets of this project. Those against nginx (no dearer, and six times with requests on their way) were \
             set after first runs.",
    calls: &[],
    plan,
    run,
    read,
};

/// Connections that are kept; the most of them in the paper profile alone.
const LOADS: [u64; 3] = [64, 1_000, 5_000];
/// The first in the paper profile alone.
const RATES: [u64; 2] = [5_000, 20_000];
const PIPELINED: u64 = 16;
/// Of the control: half of the first load.
const HALF: u64 = LOADS[0] / 2;
const LARGE_PAGE: u64 = 16_384;
/// How long a server may leave one request without an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ours with the fewest connections, each with one request on its way.
const OURS: Case = Case {
    who: Who::Ours,
    reuse: Reuse::Kept,
    connections: LOADS[0],
    outstanding: 1,
    rate: 0,
    page_bytes: 1024,
    span_ms: 250,
    cpus: 2,
};
const PIPELINED_OURS: Case = OURS.outstanding(PIPELINED);
const NEW_FOR_EACH: Case = OURS.reuse(Reuse::New);

impl Who {
    const fn is_nginx(self) -> bool {
        matches!(self, Self::Nginx | Self::NginxFile)
    }

    fn missing(self) -> Option<Lack> {
        match self {
            Self::Ours => None,
            Self::Nginx | Self::NginxFile => without_program(NGINX),
            Self::Floor => ANSWER_FLOOR.missing(),
        }
    }
}

impl Case {
    fn of(self, metric: Metric) -> Statistic {
        metric.of(self.any(&["span_ms", "cpus"]))
    }

    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        if case.reuse == Reuse::New && case.outstanding > 1 {
            let wanted = "1, since a connection is for one request";
            return Err(refused(params, "outstanding", wanted));
        }
        Ok(case)
    }

    fn planned(self) -> PlannedCase {
        PlannedCase {
            skip: self.who.missing(),
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, self.takes())
        }
    }

    /// On a virtual machine with two CPUs.
    fn takes(self) -> Duration {
        let connecting = Duration::from_micros(40 * self.connections);
        WARM_UP + Duration::from_millis(50 + self.span_ms) + connecting
    }

    /// Its load, in words.
    fn words(self) -> String {
        let pace = match (self.rate, self.outstanding) {
            (0, 1) => String::new(),
            (0, outstanding) => format!(", {outstanding} on their way on each"),
            (rate, _) => format!(", {rate} requests a second"),
        };
        let page = match self.page_bytes {
            usual if usual == OURS.page_bytes => String::new(),
            bytes => format!(", {bytes} bytes"),
        };
        let connections = match self.reuse {
            Reuse::Kept => "connections",
            Reuse::New => "connections at a time, one for each request",
        };
        format!("{} {connections}{pace}{page}", self.connections)
    }
}

/// Every load of any profile.
fn levels() -> Vec<Case> {
    let kept = LOADS.map(|load| OURS.connections(load)).into_iter();
    let rates = RATES.map(|rate| OURS.rate(rate));
    kept.chain([PIPELINED_OURS, NEW_FOR_EACH, OURS.page_bytes(LARGE_PAGE)])
        .chain(rates)
        .chain([OURS.connections(HALF)])
        .collect()
}

fn plan(site: &Site) -> Plan {
    let profile = site.profile;
    let cpus = (site.cpus.len() as u64).clamp(1, 4);
    let sized = |level: Case| {
        let span_ms = match level.rate {
            0 => profile.pick(120, 120, 1_000),
            _ => profile.pick(120, 800, 3_000),
        };
        level.cpus(cpus).span_ms(span_ms)
    };
    let levels = match profile {
        Profile::Quick => vec![OURS, PIPELINED_OURS],
        Profile::Standard => {
            let of_paper = [
                OURS.connections(LOADS[2]),
                OURS.page_bytes(LARGE_PAGE),
                OURS.rate(RATES[0]),
            ];
            let levels = levels().into_iter();
            levels.filter(|level| !of_paper.contains(level)).collect()
        }
        Profile::Paper => levels(),
    };
    let cases = levels
        .into_iter()
        .flat_map(|level| Who::ALL.map(|who| sized(level).who(who)));
    Plan {
        cases: cases.map(Case::planned).collect(),
        reference: sized(OURS).params(),
        budget: Duration::from_secs(profile.pick(25, 110, 1200)),
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let cpus = Cpus::divided(1)?;
    has_room(case.connections, Addresses::One)?;
    let running = Running::start(case, &cpus)?;
    let server = running.server();
    let drivers = Drivers::connect(case, server, &cpus)?;
    drivers.ask(0, WARM_UP)?;
    let before = server.activity()?;
    let asked = drivers.ask(case.rate, Duration::from_millis(case.span_ms))?;
    let after = server.activity()?;
    let answers = asked.answered as f64;
    worker.record(CPU, cpu_since(&before, &after).as_nanos() as f64 / answers);
    worker.record(TIME, asked.elapsed.as_nanos() as f64 / answers);
    worker.record(ANSWER, asked.bytes as f64 / answers);
    let share = asked.cpu.as_secs_f64() / asked.elapsed.as_secs_f64() / drivers.0.len() as f64;
    worker.record(CLIENTS, share);
    for (metric, q) in [(DELAY, 0.5), (DELAY_P99, 0.99)] {
        if let Some(ns) = asked.latency.ns(q).filter(|_| case.rate > 0) {
            worker.record(metric, ns as f64);
        }
    }
    drop(drivers);
    if let Some(version) = case.who.is_nginx().then(nginx::version).flatten() {
        worker.tag(&version);
    }
    running.end()
}

/// A server that listens. Dropped, it is ended.
enum Running {
    /// Ours, or the floor.
    One(Server),
    Nginx(Nginx),
}

impl Running {
    fn start(case: Case, cpus: &Cpus) -> Result<Self, CaseError> {
        let one = match (case.who, case.reuse) {
            (Who::Ours, _) => {
                let most = (case.connections + 64).to_string();
                Server::ours(["http", "--max-connections", &most], cpus)?
            }
            (Who::Floor, Reuse::Kept) => ANSWER_FLOOR.serve(&[&0, &case.page_bytes], cpus)?,
            (Who::Floor, Reuse::New) => ANSWER_FLOOR.serve(&[&0, &case.page_bytes, &"close"], cpus)?,
            (Who::Nginx | Who::NginxFile, _) => {
                let text: String = ('a'..='z').cycle().take(case.page_bytes as usize).collect();
                let page = Page {
                    text: &text,
                    sendfile: case.outstanding > 1,
                };
                return Ok(Self::Nginx(Nginx::start(page, case.connections, cpus)?));
            }
        };
        Ok(Self::One(one))
    }

    const fn server(&self) -> &Server {
        match self {
            Self::One(server) => server,
            Self::Nginx(nginx) => &nginx.server,
        }
    }

    /// Ends it. How somebody else's ends is its own affair.
    fn end(self) -> Result<(), CaseError> {
        match self {
            Self::One(server) => server.end().map(drop),
            Self::Nginx(_) => Ok(()),
        }
    }
}

impl Case {
    /// Where the server has the page.
    fn path(self) -> String {
        let [memory, file] = PATHS;
        match self.who {
            Who::Nginx => memory.to_owned(),
            Who::NginxFile => file.to_owned(),
            Who::Ours | Who::Floor => format!("/{}", self.page_bytes),
        }
    }
}

/// The clients.
struct Drivers(Vec<Driver<(Pace, Duration), Record>>);

/// What all of them came to.
#[derive(Debug, Default)]
struct Asked {
    answered: u64,
    bytes: u64,
    /// Of the one that took longest.
    elapsed: Duration,
    cpu: Duration,
    latency: Latency,
}

impl Drivers {
    fn connect(case: Case, server: &Server, cpus: &Cpus) -> Result<Self, CaseError> {
        let connections = case.connections as usize;
        let places = places(cpus, connections);
        let threads = places.len();
        let at = |part: usize| Clients {
            target: server.address(),
            connections: NonZeroUsize::new(part_of(connections, part, threads)).unwrap_or(NonZeroUsize::MIN),
            pipeline: NonZeroUsize::new(case.outstanding as usize).unwrap_or(NonZeroUsize::MIN),
            timeout: PATIENCE,
            go_on: false,
        };
        let request = HttpRequest {
            close: case.reuse == Reuse::New,
            ..HttpRequest::get(server.address().to_string(), case.path())
        };
        let start = |(part, cpus)| {
            let (clients, http) = (at(part), Http::new(&request));
            let connect = move || {
                let made = Requests::connect(http, clients);
                made.map_err(|error| CaseError::failed("connecting the clients", error))
            };
            Driver::start(cpus, connect, ask)
        };
        let drivers: Vec<_> = places
            .into_iter()
            .enumerate()
            .map(start)
            .collect::<Result<_, _>>()?;
        drivers.iter().try_for_each(Driver::connected)?;
        Ok(Self(drivers))
    }

    /// All of them ask for `span` at a rate, 0 as fast as possible, and until all is answered. Blocks meanwhile.
    fn ask(&self, rate: u64, span: Duration) -> Result<Asked, CaseError> {
        for (driver, seed) in self.0.iter().zip(1..) {
            let pace = match rate {
                0 => Pace::FAST,
                rate => Pace::Open {
                    per_second: rate as f64 / self.0.len() as f64,
                    arrivals: Arrivals::Poisson,
                    // Each has a schedule of its own.
                    seed,
                },
            };
            driver.ask((pace, span));
        }
        let mut all = Asked::default();
        for driver in &self.0 {
            let record = driver.told()?;
            all.answered += record.answered;
            all.bytes += record.bytes_in;
            all.elapsed = all.elapsed.max(record.elapsed);
            all.cpu += record.cpu;
            all.latency.merge(&record.response);
        }
        Ok(all)
    }
}

/// Every request must be answered well.
fn ask(requests: &mut Requests<Http>, (pace, span): (Pace, Duration)) -> Result<Record, CaseError> {
    let record = requests
        .run(pace, Ramp::hold(span), u64::MAX, &mut ())
        .map_err(|error| CaseError::failed("asking for pages", error))?;
    if let Some((kind, count)) = record.failures.each().next() {
        let says = format!("{count} of {} requests failed: {}", record.sent, kind.name());
        return Err(CaseError::Failed(says));
    }
    // Where the clients stood still the lab itself sees that, and takes the sample again.
    let reasons = record.invalid_because(None);
    match reasons.iter().find(|reason| !reason.is_standstill()) {
        Some(reason) => Err(CaseError::Failed(format!("the load is not valid: {reason}"))),
        None => Ok(record),
    }
}

/// How many times as many requests a CPU second ours answers: by CPU time of one, so the other way round.
fn gain(level: Case, who: Who) -> Statistic {
    level.who(who).of(CPU).over(level.of(CPU))
}

/// Requests for a second of the server's CPU time, in thousands.
fn per_cpu(case: Case) -> Statistic {
    Statistic::function([case.of(CPU)], |v| 1e6 / v[0])
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: view.number(
            format!(
                "nginx from memory ÷ ours: CPU time of a request, {} connections",
                OURS.connections
            ),
            &gain(OURS, Who::Nginx),
            "ratio",
        ),
        claims: claims(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: [Some(levels_table(view)), halved_table(view)]
            .into_iter()
            .flatten()
            .collect(),
        ..Answer::default()
    }
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let over = |levels: &[Case], whos: &[Who]| -> Test {
        let lack = |who: &Who| view.estimated(&gain(OURS, *who)).err();
        let lacks_program = |lack: &Lack| lack.of == Need::Program;
        if let Some(lack) = whos.iter().filter_map(lack).find(lacks_program) {
            return lack.into();
        }
        let cells = levels
            .iter()
            .flat_map(|&level| whos.iter().map(move |&who| (level, who)));
        let is_planned = |&(level, who): &(Case, Who)| {
            let case = level.who(who).any(&["span_ms", "cpus"]);
            view.planned(case).next().is_some()
        };
        if !cells.clone().all(|cell| is_planned(&cell)) {
            return not_measured("`threadgauge run http --profile standard` has all loads");
        }
        let named =
            |(level, who): (Case, Who)| (format!("{}, {}", who.name(), level.words()), gain(level, who));
        each(Quote::Smallest, cells.map(named))
    };
    let [few, many] = [LOADS[0], LOADS[1]].map(|load| OURS.connections(load));
    let nginx = [Who::Nginx, Who::NginxFile];
    vec![
        ("http-as-good-as-nginx-of-few", over(&[few], &nginx)),
        ("http-as-good-as-nginx-of-many", over(&[many], &nginx)),
        ("http-pipelined-6-times-nginx", over(&[PIPELINED_OURS], &nginx)),
        (
            "http-new-connections-as-good-as-nginx",
            over(&[NEW_FOR_EACH], &nginx),
        ),
        (
            "http-fixed-rate-as-good-as-nginx",
            over(&[OURS.rate(RATES[1])], &nginx),
        ),
        ("http-near-a-floor-in-c", over(&[few, many], &[Who::Floor])),
    ]
}

fn answer(view: &View<'_>) -> String {
    let Some(ours) = view.estimate(&per_cpu(OURS)) else {
        return String::new();
    };
    let others = [
        (Who::Nginx, "nginx from memory"),
        (Who::NginxFile, "nginx from a file"),
        (Who::Floor, "a loop in C"),
    ];
    let beside = times_others(view, others.map(|(who, name)| (gain(OURS, who), name)));
    format!(
        "On {} connections ours answers {} requests for a second of its CPU time{beside}.",
        OURS.connections,
        ours.plain("thousand")
    )
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let others = [Who::Nginx, Who::NginxFile, Who::Floor];
    let beside = |level: Case| others.map(|who| (level.who(who), level));
    pairs(view, &["span_ms", "cpus"], levels().into_iter().flat_map(beside))
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let mut efficiency = Chart::new(view, "efficiency", "What a second of a server's CPU time answers")
        .note("Connections that are kept, each with one request on its way. The server on one CPU, the clients on others.")
        .x(Scale::Log, "connections")
        .y(Scale::Log, "thousand requests a server CPU second");
    let mut delay = Chart::new(view, "delay", "Delay under a fixed rate")
        .note("From the intended start of a request until its answer is there; 64 connections. 99th percentile.")
        .x(Scale::Log, "requests a second")
        .y(Scale::Log, "delay, ms");
    for who in Who::ALL {
        let loads = LOADS.map(|load| (load, per_cpu(OURS.who(who).connections(load))));
        efficiency = efficiency.line(who.name(), loads);
        let rates = RATES.map(|rate| (rate, OURS.rate(rate).who(who).of(DELAY_P99).times(1e-6)));
        delay = delay.line(who.name(), rates);
    }
    // One rate alone is no curve: the table has it.
    let rates = view.measured(&OURS.rate(RATES[0]).of(DELAY_P99));
    let charts = [Some(efficiency), rates.then_some(delay)];
    charts.into_iter().flatten().filter_map(Chart::drawn).collect()
}

fn levels_table(view: &View<'_>) -> Table {
    let cases = levels()
        .into_iter()
        .flat_map(|level| Who::ALL.map(|who| (level, who)));
    let measured = cases.filter(|&(level, who)| view.measured(&level.who(who).of(CPU)));
    let rows = measured.map(|(level, who)| {
        let case = level.who(who);
        let rate = Statistic::function([case.of(TIME)], |v| 1e6 / v[0]);
        let times = match who {
            Who::Ours => String::new(),
            _ => view.shown(&gain(level, who), "ratio"),
        };
        vec![
            level.words(),
            who.name().to_owned(),
            view.shown(&per_cpu(case), ""),
            view.shown(&rate, ""),
            times,
            view.shown(&case.of(CLIENTS), "share"),
            view.shown(&case.of(ANSWER), "bytes"),
            view.shown(&case.of(DELAY), "ns"),
            view.shown(&case.of(DELAY_P99), "ns"),
        ]
    });
    table(
        "servers",
        "Ours beside nginx",
        "A ratio above 1: ours answers more for a second of its CPU time.",
        [
            "load",
            "server",
            "thousand requests a CPU second",
            "thousand a second",
            "ours over it",
            "clients' CPU",
            "an answer",
            "delay, median",
            "delay, 99 %",
        ],
        rows.collect(),
    )
}

/// Whether the clients are a part of what is measured.
fn halved_table(view: &View<'_>) -> Option<Table> {
    let halves = Who::ALL.map(|who| {
        let of = |connections| OURS.who(who).connections(connections).of(CPU);
        (who.name().to_owned(), of(HALF), of(2 * HALF))
    });
    halved(view, ("server", "request"), HALF, halves)
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::{Status, Verdict};

    use super::*;

    #[test]
    fn each_load_is_answered_and_what_is_not_here_is_skipped() {
        let base = OURS.connections(20).span_ms(20);
        let loads = [
            base,
            base.outstanding(PIPELINED),
            base.reuse(Reuse::New),
            base.page_bytes(LARGE_PAGE),
            base.rate(2_000),
        ];
        for case in loads.into_iter().flat_map(|load| {
            let others = [Who::Floor, Who::Nginx, Who::NginxFile];
            others.map(|who| load.who(who))
        }) {
            if let Some(lack) = case.who.missing() {
                assert!(lack.says.contains("needs the program nginx"), "{lack:?}");
                continue;
            }
            // On a busy machine a rate is reached only over a longer time.
            let spans = [20, 100, 500, 2_500].map(|ms| case.span_ms(ms).params());
            let sampled = spans.iter().map(|params| testing::sample(&EXPERIMENT, params));
            let mut failed = Vec::new();
            let served = sampled
                .map(|sample| match sample.status {
                    Status::Ok => Ok(sample),
                    _ => Err(sample.reason),
                })
                .find_map(|sample| sample.map_err(|reason| failed.push(reason)).ok());
            let served = served.unwrap_or_else(|| panic!("{case:?} failed over any time: {failed:?}"));
            let value = |metric: Metric| served.value(metric.name);
            assert!(value(CPU).unwrap() > 0.0, "{served:?}");
            // The page and a head.
            let head = value(ANSWER).unwrap() - case.page_bytes as f64;
            assert!((50.0..300.0).contains(&head), "{head} bytes: {case:?}");
            assert_eq!(value(DELAY).is_some(), case.rate > 0, "{case:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let sample = testing::sample(&EXPERIMENT, &NEW_FOR_EACH.outstanding(2).params());
        let reason = sample.reason.unwrap();
        assert!(
            reason.contains("outstanding is 2; it must be 1, since a connection is for one request"),
            "{reason}"
        );
    }

    /// All cases of a profile: ours takes 1 µs of CPU time for a request, the others so many times that.
    fn view(profile: Profile, times: f64) -> View<'static> {
        let cases = plan(&testing::site(profile, 2)).cases.into_iter();
        let case = |planned: PlannedCase| {
            let ns = match Case::possible(&planned.params).unwrap().who {
                Who::Ours => 1_000.0,
                _ => 1_000.0 * times,
            };
            let figures = [CPU, TIME, DELAY_P99].map(|metric| (metric, vec![ns; 7]));
            testing::case(planned.params, figures)
        };
        testing::view(EXPERIMENT.id, profile, cases.map(case).collect())
    }

    fn verdicts(view: &View<'_>) -> Vec<(&'static str, Option<Verdict>)> {
        let claims = read(view).claims.into_iter();
        claims
            .map(|(id, test)| (id, testing::verdict(&test, id, view)))
            .collect()
    }

    #[test]
    fn our_targets_are_met_where_others_take_more_and_missed_where_they_take_less() {
        let all = |verdict: Verdict, view: View<'_>| {
            for (id, found) in verdicts(&view) {
                assert_eq!(found, Some(verdict), "{id}");
            }
        };
        for profile in [Profile::Standard, Profile::Paper] {
            all(Verdict::Holds, view(profile, 7.0));
            all(Verdict::DoesNotHold, view(profile, 0.5));
        }
        // The others are about loads that it has not.
        let in_quick = ["http-as-good-as-nginx-of-few", "http-pipelined-6-times-nginx"];
        for (id, found) in verdicts(&view(Profile::Quick, 7.0)) {
            let expected = match in_quick.contains(&id) {
                true => Verdict::Holds,
                false => Verdict::NotMeasured,
            };
            assert_eq!(found, Some(expected), "{id}");
        }
    }

    #[test]
    fn without_nginx_the_floor_alone_is_judged() {
        for profile in Profile::ALL {
            let without = testing::changed(view(profile, 7.0), |cases| {
                for case in cases {
                    if matches!(Case::read(&case.params).unwrap().who, Who::Nginx | Who::NginxFile) {
                        let lack = Lack::new(Need::Program, "needs a program that is not here");
                        *case = testing::lacking(case.params.clone(), lack);
                    }
                }
            });
            for (id, found) in verdicts(&without) {
                let expected = match id {
                    "http-near-a-floor-in-c" if profile == Profile::Quick => Verdict::NotMeasured,
                    "http-near-a-floor-in-c" => Verdict::Holds,
                    _ => Verdict::NotTestable,
                };
                assert_eq!(found, Some(expected), "{id}");
            }
        }
    }

    #[test]
    fn the_answer_the_tables_and_the_charts_have_the_figures() {
        let whole = read(&view(Profile::Standard, 2.0));
        assert_eq!(
            whole.answer,
            "On 64 connections ours answers 1.00 million requests for a second of its CPU time: 2.00 times nginx from \
             memory, 2.00 times nginx from a file, 2.00 times a loop in C."
        );
        assert_eq!(whole.figures.len(), 1);
        assert_eq!(read(&view(Profile::Paper, 2.0)).figures.len(), 2);
        let [servers, halved] = &whole.tables[..] else {
            panic!("{:?}", whole.tables)
        };
        assert_eq!(servers.rows[1][4], "2.00 [2.00, 2.00]");
        assert_eq!(servers.rows.len(), (levels().len() - 3) * Who::ALL.len());
        assert!(halved.rows.iter().all(|row| row[2] == "yes"), "{:?}", halved.rows);
        let nothing = read(&testing::view(EXPERIMENT.id, Profile::Quick, Vec::new()));
        assert!(nothing.answer.is_empty() && nothing.figures.is_empty());
        assert_eq!(nothing.tables.len(), 1);
    }
}
