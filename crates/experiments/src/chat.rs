//! Question: how many messages does a chat server pass on, by design?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. The users are
//! [`threadgauge_load`]'s; `guests/c/servers/chat_threads.c` is the server of two threads a connection.

mod case;
mod guests;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_load::codec::Chat;
use threadgauge_load::{AfterSending, Groups, Load, LoadError, Plan as Users, Tally, Users as Threads};
use threadgauge_machine::Activity;
use threadgauge_results::{Figure, Table};

use crate::conditions::sizes_between;
use crate::libraries::{Library, NOT_SHOWN};
use crate::runtimes;
use crate::servers::clients::{Addresses, has_room};
use crate::servers::cpu_since;

pub(crate) use case::SCORE;
use case::{
    BUSIEST, BUSY, Case, Clients, MANY, MEMORY, MESSAGE_BYTES, MOST_OF_THREADS, PATIENCE, ROOM, SERVER,
    SERVES_MANY, ServedBy, TIME, USERS, all_cpus, score,
};

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "chat",
    question: "How many messages a second does a chat server pass on, by design, and does giving up the CPU after each help?",
    first_run: false,
    sources: &["004"],
    primary: &[TIME],
    how: "Rooms of 20 users. Each sends 100 messages of 128 bytes to the 19 others, as fast as its socket takes them, and the \
          sample ends when each has received all. The score is that of VolanoMark: messages sent and received a second; \
          ns_per_message is the time of one. `clients=threads`: a user is two blocking threads, and all share all CPUs with \
          the server, as in the original's test on one machine: 10 rooms, 200 users. `yields=yes`: a thread gives up the CPU \
          after each message that it has sent. `clients=loop`, after the original's network test: 1,000 to 10,000 users \
          driven by one thread, four messages each, one on its way, and the server has `server_cpus` CPUs for itself. Designs are \
          those of `threadgauge serve` in which connections can reach each other, and `two-threads`: a C program with a \
          thread that receives and one that sends for each connection, as the original's server. `server_cpu_ns_per_message` \
          is the CPU time of the server's threads while all talk, without connecting. With `runtime` the server is another \
          runtime's, which is warmed up by users who talk before; `clients=same-jvm` and `other-jvm` are users in Java, in \
          the server's JVM or in one of their own, each of two units as the server's connections are.",
    control: "Every message is compared byte by byte and must reach each of the others in the room once, in order: one that \
              does not fails the sample. The users are the same program for all designs.",
    traps: &[
        "On one machine the users need more CPU time than most servers. The score is that of both; what a server needs is \
         server_cpu_ns_per_message.",
        "With clients=loop one thread speaks for all, and what it says in a turn goes out together. A server that is faster \
         than it is measured by it: where it used over 85 % of its CPU the sample is tagged `users-busy`.",
        "Designs with threads made beforehand serve as many users as they have threads: they get one for each.",
        "Without a yield a user sends many messages before anybody reads one, and the server then takes and sends many at \
         once. With it there are more, smaller system calls and more switches: what the yield changes is how messages batch, \
         more than what it costs itself.",
        "CPU time of over 256 threads is read in steps of 10 ms.",
    ],
    source: "Source 004 ran VolanoMark 2.5.0.9 on Java 1.4.2 under two thread libraries, three kernels, one CPU, four, and \
             eight by hyper-threading, and gives its findings as percentages. Here is its load without Java. Of what it compares \
             kernels and hyper-threading cannot be changed in a run; the old thread library is re-created (library=linuxthreads), \
             and a verdict on it says so. The designs, and the question what the yield \
             does, are ours.",
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

fn plan(site: &Site) -> Plan {
    let all = site.cpus.len() as u64;
    let original = Case::original(all);
    let two = original.design(ServedBy::TwoThreads);
    let both = |case: Case| [case, case.yields(true)];
    let mut cases = match site.profile {
        Profile::Quick => vec![original, two, two.yields(true)],
        Profile::Standard | Profile::Paper => ServedBy::all()
            .flat_map(|design| both(original.design(design)))
            .collect(),
    };
    if site.profile != Profile::Quick {
        let alone = [ServedBy::TwoThreads, ServedBy::THREADS, ServedBy::REACTOR];
        if all > 1 {
            cases.extend(alone.map(|design| Case::original(1).design(design)));
        }
        let sizes = if all > 1 { vec![1, all] } else { vec![1] };
        for library in Library::ALL {
            cases.extend(sizes.iter().map(|&cpus| Case::on_library(cpus, library)));
        }
        let between = sizes_between(site).into_iter();
        cases.extend(between.map(|cpus| Case::original(cpus).design(ServedBy::TwoThreads)));
        let standard = [MANY[0], MANY[4]];
        let counts = site.profile.pick(&standard[..], &standard[..], &MANY[..]);
        let of_each = |design| {
            let network = Case::network(all).design(design);
            counts.iter().map(move |&n| network.connections(n))
        };
        let serve_many: Vec<ServedBy> = match site.profile {
            Profile::Paper => ServedBy::all().filter(|design| design.serves_many()).collect(),
            _ => SERVES_MANY.to_vec(),
        };
        let network = serve_many.into_iter().flat_map(of_each);
        let is_possible =
            |case: &Case| case.design != ServedBy::THREADS || case.connections <= MOST_OF_THREADS;
        cases.extend(network.filter(is_possible));
    }
    if site.profile != Profile::Paper {
        // Several seconds each.
        cases.retain(|case| !(case.cpus == 1 && case.yields && case.has_threads()));
    }
    Plan {
        cases: cases.into_iter().map(Case::planned).collect(),
        reference: original.params(),
        budget: Duration::from_secs(site.profile.pick(25, 300, 1200)),
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    has_room(case.connections, Addresses::Many)?;
    let cpus = Cpus::divided(case.server_cpus as usize)?;
    let server = serve(case, &cpus)?;
    let users = Users {
        connections: case.connections as usize,
        group_size: ROOM as usize,
        payload_bytes: MESSAGE_BYTES.into(),
        patience: PATIENCE,
    };
    let failed = |error: LoadError| CaseError::failed("the users of the chat", error);
    let (tally, before, after) = match case.clients {
        Clients::Threads => {
            let after_sending = match case.yields {
                true => AfterSending::Yield,
                false => AfterSending::GoOn,
            };
            let users = Threads::connect(server.address(), users).map_err(failed)?;
            let before = server.activity()?;
            let (users, tally) = users.talk(case.messages, after_sending).map_err(failed)?;
            let after = server.activity()?;
            drop(users);
            (tally, before, after)
        }
        Clients::Loop => {
            let mut users = Groups::connect(server.address(), &Chat, users).map_err(failed)?;
            let load = Load::Counted {
                messages: case.messages,
                outstanding: NonZeroUsize::MIN,
            };
            let before = server.activity()?;
            let tally = users.talk(load, Duration::ZERO).map_err(failed)?;
            let after = server.activity()?;
            (tally, before, after)
        }
    };
    server.end()?;
    record(worker, case, &tally, &before, &after, cpus.clients.len())
}

/// Ours or the C program.
fn serve(case: Case, cpus: &Cpus) -> Result<Server, CaseError> {
    match case.design {
        ServedBy::Ours(design) => design.serve_all("chat", case.connections, cpus),
        ServedBy::TwoThreads => {
            let design = match case.yields {
                true => "chat-threads-yield",
                false => "chat-threads",
            };
            case.program().serve(&[&design, &0], cpus)
        }
    }
}

fn record(
    worker: &mut Worker,
    case: Case,
    tally: &Tally,
    before: &Activity,
    after: &Activity,
    users_cpus: usize,
) -> Result<(), CaseError> {
    let messages = (tally.messages + tally.deliveries) as f64;
    if tally.messages != case.sent() || tally.deliveries != case.all() - case.sent() {
        let says = format!(
            "{} messages and {} deliveries instead of {} and {}",
            tally.messages,
            tally.deliveries,
            case.sent(),
            case.all() - case.sent()
        );
        return Err(CaseError::Failed(says));
    }
    let each_ns = tally.elapsed.as_nanos() as f64 / messages;
    let busy = tally.driver_share() / users_cpus as f64;
    worker.tag("cold");
    if case.clients == Clients::Loop && tally.driver_share() > BUSIEST {
        worker.tag("users-busy");
    }
    worker.record(TIME, each_ns);
    worker.record(SCORE, 1e9 / each_ns);
    // Threads that are processes are not among the server's.
    if case.library != Some(Library::LinuxThreads) {
        worker.record(SERVER, cpu_since(before, after).as_nanos() as f64 / messages);
    }
    worker.record(USERS, tally.cpu.as_nanos() as f64 / messages);
    worker.record(BUSY, busy);
    worker.record(MEMORY, after.rss_kib as f64 * 1024.0 / case.connections as f64);
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        number: key_number(view),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(view),
        figures: [designs_chart(view), connections_chart(view), cpu_chart(view)]
            .into_iter()
            .flatten()
            .collect(),
        tables: vec![designs_table(view)],
        ..Answer::default()
    }
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    let gain = |cpus| {
        let old = score(Case::on_library(cpus, Library::LinuxThreads));
        Test::from(score_on(cpus).over(old).less_one()).recreated(NOT_SHOWN)
    };
    vec![
        waiting("preemption-within-1pct-on-server"),
        waiting("smt-5-to-6pct-on-server"),
        ("nptl-server-gain-over-65pct-on-smp", on_all_cpus(view, gain)),
        ("nptl-server-gain-10pct-on-one-cpu", gain(1)),
    ]
}

/// Messages a second of the original's server and its 200 users, which share so many CPUs: source 004's figure 9.
fn score_on(cpus: u64) -> Statistic {
    score_of(None, cpus)
}

/// The same of the server on this thread library; of none: of the machine's.
pub(crate) fn score_of(library: Option<Library>, cpus: u64) -> Statistic {
    score(Case::original(cpus).design(ServedBy::TwoThreads).library(library))
}

fn key_number(view: &View<'_>) -> Option<KeyNumber> {
    let original = Case::original(all_cpus(view));
    let [reactor, threads] =
        [ServedBy::REACTOR, ServedBy::TwoThreads].map(|design| score(original.design(design)));
    let of = "one event loop ÷ two threads a connection: messages a second, 200 users";
    view.number(of, &reactor.over(threads), "ratio")
}

fn answer(view: &View<'_>) -> String {
    let original = Case::original(all_cpus(view));
    let of = |design| {
        let thousands = score(original.design(design)).times(1e-3);
        Some(view.estimate(&thousands)?.plain("thousand messages/s"))
    };
    let (Some(threads), Some(reactor)) = (of(ServedBy::TwoThreads), of(ServedBy::REACTOR)) else {
        return String::new();
    };
    let gain = gain_of_yield(original.design(ServedBy::TwoThreads));
    let yields = view.estimate(&gain).map_or_else(String::new, |times| {
        let helps = match view.resolved(&gain.less_one()) {
            true if times.value > 1.0 => "Giving up the CPU after each message helps two threads a connection",
            true => "Giving up the CPU after each message harms two threads a connection",
            false => {
                "Whether giving up the CPU after each message helps two threads a connection these rounds do not show"
            }
        };
        format!(" {helps}: they are {} times as fast as without.", times.plain("ratio"))
    });
    format!(
        "With 200 users in ten rooms on the same CPUs, two threads a connection pass on {threads} and one event loop \
         {reactor}.{yields}"
    )
}

/// How much faster with a yield after each message.
fn gain_of_yield(case: Case) -> Statistic {
    case.time().over(case.yields(true).time())
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let all = all_cpus(view);
    let fact = |of: &Statistic, says: String| {
        let figure = view.estimate(of)?;
        Some(figure.fact(says.replace("{}", &figure.show("ratio")), "ratio"))
    };
    let two = |cpus| Case::original(cpus).design(ServedBy::TwoThreads);
    let designs = ServedBy::all().filter(|design| *design != ServedBy::TwoThreads);
    let over_two = designs.map(|design| {
        let case = Case::original(all).design(design);
        let faster = two(all).time().over(case.time());
        fact(
            &faster,
            format!(
                "The score of {} is {{}} times that of two threads a connection.",
                design.name()
            ),
        )
    });
    let yields = ServedBy::all().map(|design| {
        let case = Case::original(all).design(design);
        fact(
            &gain_of_yield(case),
            format!(
                "With a yield after each message {} is {{}} times as fast as without.",
                design.name()
            ),
        )
    });
    let cpus = (all > 1).then(|| {
        fact(
            &two(1).time().over(two(all).time()),
            format!("Two threads a connection are {{}} times as fast on {all} CPUs as on one."),
        )
    });
    over_two.chain(yields).chain(cpus).flatten().collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let all = all_cpus(view);
    let mut pairs = Vec::new();
    for cpus in if all > 1 { vec![all, 1] } else { vec![1] } {
        let original = Case::original(cpus);
        for design in ServedBy::all() {
            let case = original.design(design);
            pairs.push((original.design(ServedBy::TwoThreads), case));
            pairs.push((case, case.yields(true)));
        }
    }
    for connections in MANY {
        let many = Case::network(all).connections(connections);
        pairs.extend(ServedBy::all().map(|design| (many, many.design(design))));
    }
    let is_planned = |case: Case| view.planned(case).next().is_some();
    pairs.retain(|(a, b)| a != b && is_planned(*a) && is_planned(*b));
    pairs
        .into_iter()
        .map(|(a, b)| Pair::of(&a.time(), &b.time()))
        .collect()
}

fn designs_chart(view: &View<'_>) -> Option<Figure> {
    let all = all_cpus(view);
    let line = |case: Case| {
        ServedBy::all().map(move |design| (design.name(), score(case.design(design)).times(1e-3)))
    };
    Chart::new(
        view,
        "designs",
        "200 users in ten rooms, on the same CPUs as the server",
    )
    .note("Messages sent and received: VolanoMark's score.")
    .x(Scale::Category, "design of the server")
    .y(Scale::Linear, "thousand messages a second")
    .line("no yield", line(Case::original(all)))
    .line(
        "a yield after each message",
        line(Case::original(all).yields(true)),
    )
    .drawn()
}

fn connections_chart(view: &View<'_>) -> Option<Figure> {
    many(
        view,
        "connections",
        "Many users of one thread, the server on CPUs of its own",
        |case| score(case).times(1e-3),
    )
    .y(Scale::Linear, "thousand messages a second")
    .drawn()
}

fn cpu_chart(view: &View<'_>) -> Option<Figure> {
    many(view, "server-cpu", "What a message costs the server", |case| {
        SERVER.of(case).times(1e-3)
    })
    .y(Scale::Linear, "CPU time of the server for each message, µs")
    .drawn()
}

fn many<'v>(view: &'v View<'v>, id: &str, title: &str, of: impl Fn(Case) -> Statistic) -> Chart<'v> {
    let network = Case::network(all_cpus(view));
    let chart = Chart::new(view, id, title)
        .x(Scale::Log, "connections")
        .note("Each user has one message on its way.");
    ServedBy::all().fold(chart, |chart, design| {
        let points = MANY.map(|n| (n, of(network.design(design).connections(n))));
        chart.line(design.name(), points)
    })
}

fn designs_table(view: &View<'_>) -> Table {
    let all = all_cpus(view);
    let mut rows = Vec::new();
    let mut add = |case: Case| {
        let figures = [SCORE, SERVER, USERS, BUSY, MEMORY].map(|of| view.shown(&of.of(case), of.unit));
        if figures.iter().all(String::is_empty) {
            return;
        }
        let yields = if case.yields { "yes" } else { "" };
        let place = [
            case.design.name().to_owned(),
            case.connections.to_string(),
            yields.to_owned(),
            match case.server_cpus == case.cpus {
                true => format!("{}, shared", case.cpus),
                false => format!("{} of {}", case.server_cpus, case.cpus),
            },
        ];
        rows.push(place.into_iter().chain(figures).collect());
    };
    let planned = view
        .planned(Params::default())
        .filter_map(|params| params.int("cpus"));
    let sizes: BTreeSet<u64> = planned.collect();
    for design in ServedBy::all() {
        for &cpus in sizes.iter().rev() {
            let case = Case::original(cpus).design(design);
            add(case);
            add(case.yields(true));
        }
    }
    for connections in MANY {
        for design in ServedBy::all() {
            add(Case::network(all).design(design).connections(connections));
        }
    }
    table(
        "designs",
        "Every design",
        "The score is of server and users together. Memory is what is resident while all are connected.",
        [
            "design",
            "connections",
            "yields",
            "server's CPUs",
            "score",
            "server, a message",
            "users, a message",
            "users' CPUs busy",
            "memory a connection",
        ],
        rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_results::{Verdict, claim, decide};

    /// One room in which each says three things, at the C program: the command itself is not in the tests of this
    /// crate.
    const SMALL: Case = Case {
        design: ServedBy::TwoThreads,
        connections: ROOM,
        messages: 3,
        ..Case::original(1)
    };

    #[test]
    fn all_that_is_said_is_heard_and_counted() {
        for case in [
            SMALL,
            SMALL.yields(true),
            SMALL.clients(Clients::Loop).connections(40),
        ] {
            let sample = testing::sample(&EXPERIMENT, &case.params());
            assert_eq!(sample.reason, None, "{case:?}");
            let value = |metric: Metric| sample.value(metric.name).unwrap();
            assert!((value(TIME) * value(SCORE) - 1e9).abs() < 1.0, "{sample:?}");
            assert!(value(USERS) > 0.0 && value(MEMORY) > 0.0, "{sample:?}");
        }
    }

    #[test]
    fn times_are_of_each_message_sent_and_received() {
        let case = SMALL.clients(Clients::Loop);
        // 60 messages sent, and each to the 19 others of its room.
        let tally = Tally {
            messages: 60,
            deliveries: 1_140,
            elapsed: Duration::from_millis(3),
            cpu: Duration::from_micros(1_500),
            ..Tally::default()
        };
        let seen = |cpu_us, rss_kib| Activity {
            cpu: Duration::from_micros(cpu_us),
            rss_kib,
            ..Activity::default()
        };
        let recorded = |tally: &Tally| {
            let mut worker = testing::worker(&EXPERIMENT, &case.params());
            let result = record(&mut worker, case, tally, &seen(100, 10), &seen(700, 400), 2);
            worker.finish(result)
        };
        let sample = recorded(&tally);
        let figures =
            [TIME, SCORE, SERVER, USERS, BUSY, MEMORY].map(|metric| sample.value(metric.name).unwrap());
        assert_eq!(figures, [2_500.0, 4e5, 500.0, 1_250.0, 0.25, 20_480.0]);
        assert_eq!(sample.tags, ["cold"]);
        let busy = recorded(&Tally {
            cpu: tally.elapsed,
            ..tally.clone()
        });
        assert_eq!(busy.tags, ["cold", "users-busy"]);
        for (messages, deliveries) in [(59, 1_140), (60, 1_139)] {
            let reason = recorded(&Tally {
                messages,
                deliveries,
                ..tally.clone()
            })
            .reason;
            let says = format!("{messages} messages and {deliveries} deliveries instead of 60 and 1140");
            assert!(
                reason.as_ref().is_some_and(|reason| reason.contains(&says)),
                "{reason:?}"
            );
        }
    }

    /// A run of a profile on two CPUs in which two threads a connection take 4 µs a message, others 2, with a yield
    /// half of that and on the old library twice as much.
    fn run_of(profile: Profile) -> View<'static> {
        let cases = plan(&testing::site(profile, 2)).cases.into_iter().map(|planned| {
            let case = Case::possible(&planned.params).unwrap();
            let us = if case.design == ServedBy::TwoThreads {
                4.0
            } else {
                2.0
            };
            let us = if case.yields { us / 2.0 } else { us };
            let us = match case.library {
                Some(Library::LinuxThreads) => us * 2.0,
                Some(Library::Musl) | None => us,
            };
            let rounds = |value: f64| vec![value; 7];
            let figures = [
                (TIME, rounds(us * 1e3)),
                (SCORE, rounds(1e6 / us)),
                (SERVER, rounds(us * 400.0)),
                (MEMORY, rounds(1024.0)),
            ];
            testing::case(planned.params, figures)
        });
        testing::view("chat", profile, cases.collect())
    }

    #[test]
    fn what_is_read_off_has_its_figures() {
        let view = run_of(Profile::Standard);
        let says = answer(&view);
        assert!(
            says.contains("helps two threads a connection: they are 2.00 times as fast as without"),
            "{says}"
        );
        let facts = facts(&view);
        let of = |says: &str| {
            facts
                .iter()
                .find(|fact| fact.says.contains(says))
                .and_then(|fact| fact.measured)
        };
        assert_eq!(of("score of reactor is"), Some(2.0));
        assert_eq!(of("each message reactor is"), Some(2.0));
        assert_eq!(of("on 2 CPUs as on one"), Some(1.0));
        let charts = [designs_chart(&view), connections_chart(&view), cpu_chart(&view)];
        let lines = charts.map(|chart| chart.unwrap().series.len());
        assert_eq!(lines, [2, SERVES_MANY.len(), SERVES_MANY.len()]);
        let quick = run_of(Profile::Quick);
        assert!(connections_chart(&quick).is_none() && designs_chart(&quick).is_some());
        assert_eq!(designs_table(&quick).rows.len(), 3);
        assert!(!comparisons(&quick).is_empty());
    }

    #[test]
    fn the_old_library_is_judged_as_it_was_recreated_and_what_needs_another_system_is_not_testable_here() {
        let verdicts = |profile| {
            let view = run_of(profile);
            let of_each = claims(&view).into_iter().map(|(id, test)| {
                let claim = claim(id).expect("a published claim");
                let found = decide(claim, &claim.unit, &test.evidence(&view, claim), testing::ALPHA);
                (id, found.verdict.unwrap(), found.recreated.is_some())
            });
            of_each.collect::<Vec<_>>()
        };
        let elsewhere = [
            ("preemption-within-1pct-on-server", Verdict::NotTestable, false),
            ("smt-5-to-6pct-on-server", Verdict::NotTestable, false),
        ];
        let [several, one] = [
            "nptl-server-gain-over-65pct-on-smp",
            "nptl-server-gain-10pct-on-one-cpu",
        ];
        let standard = verdicts(Profile::Standard);
        assert_eq!(standard[..2], elsewhere);
        assert_eq!(
            standard[2..],
            [(several, Verdict::Holds, true), (one, Verdict::DoesNotHold, true)]
        );
        let quick = verdicts(Profile::Quick);
        assert_eq!(
            quick[2..],
            [
                (several, Verdict::NotMeasured, false),
                (one, Verdict::NotMeasured, false)
            ]
        );
    }
}
