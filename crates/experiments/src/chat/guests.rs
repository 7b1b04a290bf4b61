//! Chat servers of other runtimes, with the users that ours have, many of one thread in paper,
//! and the load of VolanoMark as one program in Java:
//! users and server in one JVM, or in two.
//!
//! All talk twice: first while the runtime is cold, whose score stands beside, then again for the figures. Users of
//! ours number their messages from 1, so others take the places of the first for that.

use std::num::NonZeroUsize;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_load::codec::Chat;
use threadgauge_load::{AfterSending, Groups, Load, LoadError, Plan as Users, Tally, Users as Threads};
use threadgauge_machine::Activity;
use threadgauge_results::{Figure, Runtime, units};

use super::case::{
    BUSY, Case, MANY, MEMORY, MESSAGE_BYTES, MESSAGES, MESSAGES_OF_MANY, PATIENCE, ROOM, SCORE, SERVER,
    ServedBy, TIME, USERS, USERS_OF_TEN_ROOMS, all_cpus, score,
};
use crate::guests::{Found, figures};
use crate::runtimes::serving::{self, STARTUP};
use crate::runtimes::{self, Name, Serves, guest};
use crate::servers::clients::{Addresses, has_room};
use crate::servers::cpu_since;

/// Messages sent and received a second while the runtime is cold.
const COLD: Metric = metric("cold_messages_per_s", "messages/s");

/// The most users that have threads.
const MOST_WITH_THREADS: u64 = 2_000;
/// Messages of each user in quick: a server that sends line by line takes ten seconds for as many as ours have.
const FEW: u64 = 20;

words! {
    /// Who the users are.
    pub(super) enum Talkers {
        /// Ours: two blocking threads each.
        Threads = "threads",
        /// Ours: one thread for all of them, on an event loop.
        Loop = "loop",
        /// Two units each of the server's own JVM.
        SameJvm = "same-jvm",
        /// The same in a JVM of their own.
        OtherJvm = "other-jvm",
    }
}

point! {
    /// A server of a guest and its users, on the same CPUs.
    pub(super) struct Guests {
        runtime: Name,
        design: Name,
        clients: Talkers,
        connections: u64 = 20..=10_000,
        /// Of each user.
        messages: u64 = 1..=100_000,
        cpus: u64 = 1..,
    }
}

figures! {
    /// What the program in Java answers.
    struct Talked {
        wall_ns,
        first_ns,
        sent,
        received,
    }
}

impl Guests {
    const fn sent(self) -> u64 {
        self.connections * self.messages
    }

    /// Sent and received.
    const fn all(self) -> u64 {
        self.sent() * ROOM
    }

    fn planned(self, server: &Serves, starts: Duration) -> PlannedCase {
        let ns = server.chat_ns * if self.cpus == 1 { 2 } else { 1 };
        let talking = Duration::from_nanos(2 * self.all() * ns);
        let connecting = Duration::from_micros(self.connections * 150);
        let takes = Duration::from_millis(40) + starts * 2 + connecting + talking;
        PlannedCase {
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, takes)
        }
    }

    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        if !case.connections.is_multiple_of(ROOM) {
            return Err(refused(params, "connections", "a multiple of 20, a room's"));
        }
        if case.clients != Talkers::Loop && case.connections > MOST_WITH_THREADS {
            let wanted = "at most 2000, where clients is not loop";
            return Err(refused(params, "connections", wanted));
        }
        Ok(case)
    }
}

/// The cases of each server of the runtimes that were asked for.
pub(super) fn plan(site: &Site) -> Vec<PlannedCase> {
    let all = site.cpus.len() as u64;
    let of_server = |(runtime, server, lack): (&Runtime, &'static Serves, Option<Lack>)| {
        let starts = serving::starts(runtime);
        let case = Guests {
            runtime: Name::new(&runtime.name),
            design: Name::new(server.design),
            clients: Talkers::Threads,
            connections: USERS_OF_TEN_ROOMS,
            messages: site.profile.pick(FEW, MESSAGES, MESSAGES),
            cpus: all,
        };
        let in_java: &[Talkers] = match (server.talks, site.profile) {
            (None, _) => &[],
            (Some(_), Profile::Quick) => &[Talkers::SameJvm],
            (Some(_), _) => &[Talkers::SameJvm, Talkers::OtherJvm],
        };
        let in_java = in_java.iter().map(move |&clients| case.clients(clients));
        let many = case
            .clients(Talkers::Loop)
            .connections(MANY[0])
            .messages(MESSAGES_OF_MANY);
        let many = (site.profile == Profile::Paper).then_some(many);
        let planned = move |case: Guests| PlannedCase {
            skip: lack.clone(),
            ..case.planned(server, starts)
        };
        std::iter::once(case).chain(in_java).chain(many).map(planned)
    };
    serving::servers(&site.runtimes).flat_map(of_server).collect()
}

/// Runs the case with these parameters.
///
/// # Errors
///
/// Those of [`serving`] and [`guest::ask`]; failed where a message is lost, changed or out of order.
pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Guests::possible(params)?;
    let (runtime, server) = serving::begin(params, case.design, worker)?;
    has_room(case.connections, Addresses::Many)?;
    match case.clients {
        Talkers::Threads | Talkers::Loop => with_ours(case, &runtime, server, worker),
        Talkers::SameJvm | Talkers::OtherJvm => in_java(case, &runtime, server, params, worker),
    }
}

fn with_ours(case: Guests, runtime: &Runtime, server: &Serves, worker: &mut Worker) -> Result<(), CaseError> {
    let cpus = Cpus::divided(case.cpus as usize)?;
    let server = serving::start(runtime, server, "chat", &cpus, worker)?;
    let plan = || Users {
        connections: case.connections as usize,
        group_size: ROOM as usize,
        payload_bytes: MESSAGE_BYTES.into(),
        patience: PATIENCE,
    };
    let failed = |error: LoadError| CaseError::failed("the users of the chat", error);
    let by_threads = || -> Result<(Tally, [Activity; 2]), CaseError> {
        let users = Threads::connect(server.address(), plan()).map_err(failed)?;
        let before = server.activity()?;
        let (users, tally) = users.talk(case.messages, AfterSending::GoOn).map_err(failed)?;
        let after = server.activity()?;
        drop(users);
        Ok((tally, [before, after]))
    };
    let by_loop = || -> Result<(Tally, [Activity; 2]), CaseError> {
        let mut users = Groups::connect(server.address(), &Chat, plan()).map_err(failed)?;
        let load = Load::Counted {
            messages: case.messages,
            outstanding: NonZeroUsize::MIN,
        };
        let before = server.activity()?;
        let tally = users.talk(load, Duration::ZERO).map_err(failed)?;
        Ok((tally, [before, server.activity()?]))
    };
    let talked = || match case.clients {
        Talkers::Loop => by_loop(),
        _ => by_threads(),
    };
    let (cold, _) = talked()?;
    let (tally, [before, after]) = talked()?;
    serving::end(server)?;
    let of_each = |time: Duration| time.as_nanos() as f64 / case.all() as f64;
    told(
        case,
        worker,
        of_each(tally.elapsed),
        of_each(cold.elapsed),
        counts(&tally),
    )?;
    worker.record(SERVER, of_each(cpu_since(&before, &after)));
    worker.record(USERS, of_each(tally.cpu));
    worker.record(BUSY, tally.driver_share() / cpus.clients.len() as f64);
    worker.record(MEMORY, after.rss_kib as f64 * 1024.0 / case.connections as f64);
    Ok(())
}

const fn counts(tally: &Tally) -> [u64; 2] {
    [tally.messages, tally.deliveries]
}

/// Server and users in Java.
fn in_java(
    case: Guests,
    runtime: &Runtime,
    server: &Serves,
    params: &Params,
    worker: &mut Worker,
) -> Result<(), CaseError> {
    let unit = server.talks.ok_or_else(|| {
        let wanted = format!("threads or loop, where the server is {}", server.design);
        refused(params, "clients", &wanted)
    })?;
    let deadline = case.planned(server, serving::starts(runtime)).deadline();
    let apart = match case.clients {
        Talkers::OtherJvm => {
            let cpus = Cpus::divided(case.cpus as usize)?;
            Some(serving::start(runtime, server, "chat", &cpus, worker)?)
        }
        _ => None,
    };
    let rooms = case.connections / ROOM;
    let port = apart.as_ref().map_or(0, threadgauge_lab::server::Server::port);
    let arguments: [&dyn ToString; 7] = [
        &"talk",
        &unit,
        &rooms,
        &ROOM,
        &case.messages,
        &MESSAGE_BYTES,
        &port,
    ];
    let Found {
        figures: talked,
        ran_ns,
        stretch,
    } = guest::ask::<Talked>(runtime, worker, &arguments, deadline)?;
    let of_each = |ns: u64| ns as f64 * stretch / case.all() as f64;
    told(
        case,
        worker,
        of_each(talked.wall_ns),
        of_each(talked.first_ns),
        [talked.sent, talked.received],
    )?;
    match apart {
        Some(server) => serving::end(server)?,
        None => {
            let start = ran_ns.saturating_sub(talked.wall_ns + talked.first_ns);
            worker.record(STARTUP, start as f64 * stretch);
        }
    }
    Ok(())
}

/// Records what a message took, where all were sent and received.
fn told(
    case: Guests,
    worker: &mut Worker,
    each_ns: f64,
    cold_ns: f64,
    counts: [u64; 2],
) -> Result<(), CaseError> {
    let expected = [case.sent(), case.all() - case.sent()];
    if counts != expected || each_ns <= 0.0 || cold_ns <= 0.0 {
        let says = format!(
            "{} messages and {} deliveries instead of {} and {}",
            counts[0], counts[1], expected[0], expected[1]
        );
        return Err(CaseError::Failed(says));
    }
    worker.record(TIME, each_ns);
    worker.record(SCORE, 1e9 / each_ns);
    worker.record(COLD, 1e9 / cold_ns);
    Ok(())
}

fn label(case: Guests) -> String {
    let server = serving::label(case.runtime, case.design);
    match case.clients {
        Talkers::Threads => server,
        Talkers::Loop => format!(
            "{server}, {} of one loop",
            units::counted(case.connections as usize, "user")
        ),
        Talkers::SameJvm => format!("{server}, one JVM"),
        Talkers::OtherJvm => format!("{server}, two JVMs"),
    }
}

/// What guests add to the answer; nothing where there are none.
pub(super) fn read(view: &View<'_>, answer: &mut Answer) {
    let cases = runtimes::cases::<Guests>(view);
    let shown = |name: String, of: &dyn Fn(Metric) -> Statistic| {
        let score = view.estimate(&of(SCORE))?.show(SCORE.unit);
        let others = [COLD, SERVER, USERS, MEMORY, STARTUP].map(|m| view.shown(&of(m), m.unit));
        Some([name, score].into_iter().chain(others).collect::<Vec<_>>())
    };
    let guests: Vec<Vec<String>> = cases
        .iter()
        .filter_map(|&case| shown(label(case), &|metric| metric.of(case)))
        .collect();
    if guests.is_empty() {
        return;
    }
    // As many messages as the guests' users have.
    let original = Case::original(all_cpus(view)).messages(cases[0].messages);
    let beside = [ServedBy::TwoThreads, ServedBy::REACTOR, ServedBy::THREADS];
    let beside = beside.map(|design| original.design(design));
    let own = beside
        .iter()
        .filter_map(|&case| shown(name_of(case.design).to_owned(), &|metric| metric.of(case)));
    answer.tables.push(table(
        "guests",
        "The chat by runtime",
        "200 users in ten rooms, on the same CPUs as the server; the score is of both. A runtime is warm: cold is the score \
         of the first talk. Users are ours, two threads each, unless the name says that they are of one loop or in Java, where each is two \
         units as the server's are: VolanoMark's load in one program. Start: until the server listens; of users and server \
         in one JVM, all that is no talking.",
        [
            "server",
            "score",
            "cold",
            "server, a message",
            "users, a message",
            "memory a connection",
            "start",
        ],
        own.chain(guests).collect(),
    ));
    // Of many users the original's network test is the measure, and it has another load.
    let cases: Vec<Guests> = cases
        .into_iter()
        .filter(|case| case.clients != Talkers::Loop)
        .collect();
    answer.facts.extend(facts(view, &cases));
    answer.figures.extend(chart(view, &cases, &beside));
}

const fn name_of(design: ServedBy) -> &'static str {
    match design {
        ServedBy::TwoThreads => "C, two threads",
        ServedBy::THREADS => "threadgauge, threads",
        _ => "threadgauge, one loop",
    }
}

fn facts(view: &View<'_>, cases: &[Guests]) -> Vec<Finding> {
    let in_c = Case::original(all_cpus(view)).design(ServedBy::TwoThreads);
    let over_c = cases.iter().filter_map(|&case| {
        let in_c = score(in_c.messages(case.messages));
        let figure = view.estimate(&SCORE.of(case).over(in_c))?;
        let says = format!(
            "The score of {} is {} times that of two threads a connection in C.",
            label(case),
            figure.show("ratio")
        );
        Some(figure.fact(says, "ratio"))
    });
    let virtual_over_platform = cases
        .iter()
        .filter(|case| case.clients == Talkers::SameJvm && case.design.name().starts_with("virtual"))
        .filter_map(|&case| {
            let platform = case.design(Name::new("platform-thread-per-connection"));
            let figure = view.estimate(&SCORE.of(case).over(SCORE.of(platform)))?;
            let says = format!(
                "VolanoMark's load in one JVM has {} times as many messages a second on virtual threads as on platform \
                 threads ({}).",
                figure.show("ratio"),
                case.runtime.name()
            );
            Some(figure.fact(says, "ratio"))
        });
    over_c.chain(virtual_over_platform).collect()
}

fn chart(view: &View<'_>, cases: &[Guests], beside: &[Case]) -> Option<Figure> {
    let own = beside.iter().map(|case| {
        let of = |metric: Metric| metric.of(*case);
        (name_of(case.design).to_owned(), of(SCORE), None)
    });
    let guests = cases
        .iter()
        .map(|case| (label(*case), SCORE.of(*case), Some(COLD.of(*case))));
    let all: Vec<(String, Statistic, Option<Statistic>)> = own.chain(guests).collect();
    let warm = all
        .iter()
        .map(|(name, warm, _)| (&**name, Some(warm.clone().times(1e-3))));
    let cold = all
        .iter()
        .map(|(name, _, cold)| (&**name, cold.clone().map(|cold| cold.times(1e-3))));
    Chart::new(view, "guests", "200 users in ten rooms, by runtime")
        .note(
            "Messages sent and received: VolanoMark's score. Users are ours, but in Java with one JVM, which is the server's, \
             and with two.",
        )
        .x(Scale::Category, "server")
        .y(Scale::Linear, "thousand messages a second")
        .line("warm", warm.collect::<Vec<_>>())
        .line("cold", cold.collect::<Vec<_>>())
        .drawn()
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    use super::*;
    use crate::chat::EXPERIMENT;
    use crate::runtimes::guest::testing::{sample, script};

    fn in_java() -> Guests {
        Guests {
            runtime: Name::new("java"),
            design: Name::new("platform-thread-per-connection"),
            clients: Talkers::SameJvm,
            connections: 2 * ROOM,
            messages: 5,
            cpus: 1,
        }
    }

    #[test]
    fn what_the_program_in_java_tells_becomes_the_score_of_all_messages() {
        // It is told the rooms, and that the server is to be its own.
        let tells = "[ \"$*\" = 'talk platform 2 20 5 127 0' ] && echo done wall_ns=8000000 first_ns=16000000 sent=200 \
                     received=3800";
        let told = sample(
            &EXPERIMENT,
            &in_java().params(),
            Some(script("java", "21", tells)),
        );
        assert_eq!(told.status, Status::Ok, "{:?}", told.reason);
        let value = |metric: Metric| told.value(metric.name).unwrap();
        // At least: a worker beside others is stretched.
        assert!(value(TIME) >= 2_000.0 && value(COLD) <= 250_000.0, "{told:?}");
        assert!((value(SCORE) / value(COLD) - 2.0).abs() < 1e-9, "{told:?}");
        let lost = "echo done wall_ns=8000000 first_ns=16000000 sent=200 received=3799";
        let lost = sample(&EXPERIMENT, &in_java().params(), Some(script("java", "21", lost)));
        let reason = lost.reason.unwrap();
        assert_eq!(reason, "200 messages and 3799 deliveries instead of 200 and 3800");
        let wrong = script(
            "java",
            "21",
            "echo error message 3 of user 7 is out of order; exit 1",
        );
        let wrong = sample(&EXPERIMENT, &in_java().params(), Some(wrong));
        assert!(wrong.reason.unwrap().contains("out of order"));
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let refused = |case: Guests, runtime| {
            let sample = sample(&EXPERIMENT, &case.params(), runtime);
            assert_eq!(sample.status, Status::Failed);
            sample.reason.unwrap()
        };
        let says = refused(in_java().connections(30), None);
        assert!(
            says.contains("connections is 30; it must be a multiple of 20"),
            "{says}"
        );
        let selector = in_java().design(Name::new("selector"));
        let says = refused(selector, Some(script("java", "21", "")));
        assert!(
            says.contains("clients is same-jvm; it must be threads or loop"),
            "{says}"
        );
    }

    #[test]
    fn servers_are_planned_where_they_were_asked_for() {
        let site = |profile| Site {
            runtimes: vec![script("java", "21", ""), script("node", "20", "")],
            ..testing::site(profile, 2)
        };
        let count = |profile| plan(&site(profile)).len();
        assert_eq!(Profile::ALL.map(count), [6, 8, 12]);
        assert!(plan(&testing::site(Profile::Paper, 2)).is_empty());
    }

    #[test]
    fn scores_stand_beside_two_threads_in_c() {
        let rounds = |value: f64| vec![value; 7];
        let platform = in_java().messages(MESSAGES).cpus(2);
        let on_virtual = platform.design(Name::new("virtual-thread-per-connection"));
        let of = |case: Guests, score: f64| {
            let figures = [(SCORE, rounds(score)), (COLD, rounds(score / 4.0))];
            testing::case(case.params(), figures)
        };
        let in_c = Case::original(2).design(ServedBy::TwoThreads);
        let in_c = testing::case(in_c.params(), [(SCORE, rounds(4e5))]);
        let cases = vec![in_c, of(platform, 2e5), of(on_virtual, 8e5)];
        let view = testing::view("chat", Profile::Quick, cases);
        let mut answer = Answer::default();
        read(&view, &mut answer);
        let names: Vec<&str> = answer.tables[0].rows.iter().map(|row| &*row[0]).collect();
        let own = ["platform", "virtual"].map(|unit| format!("Java, {unit} threads, one JVM"));
        assert_eq!(names, ["C, two threads", &own[0], &own[1]]);
        let measured = |says: &str| {
            let fact = answer.facts.iter().find(|fact| fact.says.contains(says)).unwrap();
            fact.measured.map(|times| (times * 100.0).round() / 100.0)
        };
        assert_eq!(measured("The score of Java, platform threads"), Some(0.5));
        assert_eq!(measured("on virtual threads as on platform threads"), Some(4.0));
        assert_eq!(answer.figures[0].series.len(), 2);
        let mut nothing = Answer::default();
        read(&testing::view("chat", Profile::Quick, Vec::new()), &mut nothing);
        assert!(nothing.tables.is_empty() && nothing.facts.is_empty());
    }
}
