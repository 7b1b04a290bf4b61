//! Question: how many messages a second does a server forward to groups, by design, load and CPUs?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print.
//!
//! `case` has the grid with the `condition`s of the source, `measure` takes a sample at a `saturating` window,
//! `clogged` counts pending operations, `read` reads the answer, with the source's `environments`, and from `stored`
//! runs, too.

mod case;
mod clogged;
mod condition;
mod environments;
mod measure;
mod read;
mod saturating;
mod statistics;
mod stored;
mod variations;

use threadgauge_lab::prelude::*;

use case::{CPU, TIME};

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "multicast",
    question: "How many messages a second does a server forward to groups of ten, by design, connections and CPUs, and what is the \
               bottleneck?",
    first_run: false,
    sources: &["002"],
    primary: &[TIME, CPU],
    how: "`threadgauge serve groups` runs on the first `server_cpus` of the case's CPUs; the clients are threads of the worker, one \
          on each of the others. Where none is left, both run on all, the clients in half as many threads. In \
          load=talk-from-last-cpu the clients have the last CPU alone, which may be the server's too. Clients form groups \
          of ten (`group`), and each sends all the time: a message goes to all others of its group. With \
          outstanding=saturating each sample finds how many messages of each client saturate the server: twice as many \
          until that brings less than 5 % more deliveries a second, or 32 MiB would be on their way. Claims are judged \
          there. With a number, so many are on their way, and the next follows when all have the oldest. Every delivery \
          is checked: its sender, its number, every byte; a lost one fails the sample. After 100 ms of warm-up, \
          `span_ms` of talking are counted: messages forwarded are deliveries. The server's CPU time is that of all its \
          threads; by thread it is split into those that read (or do both) and those that only write. The delay goes from \
          sending until the last of the others has the message. `link` is the loopback interface, or a link of such a rate \
          between two network namespaces, which takes root. In load=clogged one client takes nothing until the \
          server's own count says that something waits for it, and then says something itself: if that reaches \
          another client, a read and a write were pending on one connection at once. Beyond the source's \
          loads there are 19,000 and 50,000 connections, from several loopback addresses, where descriptors suffice.",
    control: "One reactor on one CPU, twice a round. Deliveries a second of the server's CPU time stand beside every rate: that \
              figure does not depend on how fast the clients are. Beyond the quick profile, half the connections: where a delivery then \
              takes other CPU time of the server, the figure depends on the clients and is quoted with their number.",
    traps: &[
        "Server and clients share one machine. Where the clients run on the server's CPUs too, a design with more threads only \
         takes from the clients what it gains. So claims about two or four CPUs of a server are decided only where the \
         clients have others, and one reactor on all CPUs is compared with one on a single CPU where the clients have the last CPU \
         in both (load=talk-from-last-cpu).",
        "Server or clients may be what is waited for, also where the server is saturated: the table of who used the CPUs says \
         which (samples are tagged clients-were-busiest).",
        "The source's server before its optimisations (JAWS-B) is one-handler-reactor: a handle has one handler, so a \
         connection waits to be read or to be written. The source does not say what becomes of a message for a client that \
         waits to be read. Here it takes the place of the read, and the client is read again when nothing waits for it: \
         that reading is ours. It costs two changes of what is waited for. One reactor that waits for both stands beside it.",
        "More than saturates the server waits in queues and lengthens the delay. The source's clients sent all the time, and \
         it does not say how much was on its way. One message at a time is a curve beside.",
        "The source counts reactors nowhere. Its rule (one that reads for three that write, as many as CPUs) gives one of each on \
         one and two CPUs, which is split-reactor under another name, and 1:3 on four.",
        "With many connections a turn of the server finds more to do: what it sends to one client then goes out in one call.",
        "A thread for each connection is looked at as a whole where there are more than 256: by the kernel's ticks of 10 ms, and \
         without a division into reading and writing.",
    ],
    source: "Source 002 drove JAWS, a framework for servers, from five machines over a network of 100 Mbit/s: with one reactor, and \
             with a pool, on one, two and four CPUs, at 1,000 to 10,000 connections. Its figures 7 (throughput) and 8 (delay) have \
             no numbers in the text, which says about 1, 2 and 4 times; its white-box result is empty. Its machine with four CPUs \
             had eight times the memory of the others. Ours is one machine over loopback; a link of 100 Mbit/s is a variation. \
             On five CPUs or more the six environments (JAWS-B and JAWS-O, the server on one, two and four CPUs) are in one run, \
             in which the clients have the same CPUs. Groups of ten are the source's test, nine writes for a read; groups of \
             four are its example of three.",
    calls: &[
        "threadgauge run multicast --only load=talk --set outstanding=1,4,16",
        "threadgauge run multicast --only load=talk --set link=100mbit",
        "threadgauge run multicast --only load=talk --set group=4,20 --set connections=1000",
    ],
    plan: case::plan,
    run: measure::run,
    read: read::read,
};

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::case::{Case, FOUR, ORIGINAL, REACTOR, SPLIT, environments, ratios, sized};
    use super::condition::Window;
    use super::*;

    #[test]
    fn a_pool_is_sized_by_the_sources_rule_and_has_every_ratio_that_fits() {
        assert_eq!(
            [1, 2, 4, 8, 16].map(sized),
            [(1, 1), (1, 1), (1, 3), (2, 6), (4, 12)]
        );
        assert_eq!(ratios(1), [(1, 1), (1, 3)]);
        assert_eq!(ratios(4), [(1, 1), (1, 3), (2, 2), (3, 1)]);
        let eight = (1..8).map(|readers| (readers, 8 - readers));
        assert!(
            eight.clone().all(|ratio| ratios(8).contains(&ratio)),
            "{:?}",
            ratios(8)
        );
        assert_eq!(ratios(8).len(), eight.count() + 2);
        for server_cpus in 1..=64 {
            assert!(ratios(server_cpus).contains(&sized(server_cpus)), "{server_cpus}");
            assert!(
                ratios(server_cpus)
                    .iter()
                    .all(|&(readers, writers)| readers > 0 && writers > 0)
            );
        }
    }

    #[test]
    fn every_ratio_is_measured_once_and_some_under_every_load() {
        let pools = |profile| {
            let plan = case::plan(&testing::site(profile, 8)).cases.into_iter();
            let cases = plan.map(|planned| Case::read(&planned.params).unwrap());
            let of_all = cases.filter(|case| case.readers > 0 && case.server_cpus == 8 && case.cpus == 8);
            let of = of_all.map(|case| (case.connections, (case.readers, case.writers)));
            of.collect::<Vec<_>>()
        };
        let at = |profile, load| pools(profile).into_iter().filter(|of| of.0 == load).count();
        assert_eq!(at(Profile::Paper, case::CLAIMED), ratios(8).len());
        assert_eq!(at(Profile::Paper, case::MOST), 5);
        assert_eq!(at(Profile::Standard, case::CLAIMED), 1);
    }

    #[test]
    fn a_server_is_told_its_design_and_has_room_for_a_group_more() {
        for (case, told) in [
            (
                REACTOR.connections(1_000),
                "groups --design reactor --max-connections 1010",
            ),
            (
                REACTOR.pool((1, 3)).connections(20),
                "groups --design reactor-pool --max-connections 30 --readers 1 --writers 3",
            ),
        ] {
            assert_eq!(case.arguments().join(" "), told);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (case, says) in [
            (
                REACTOR.design(crate::servers::Design::PreforkedAccept),
                "design is preforked-accept; it must be one whose",
            ),
            (
                REACTOR.readers(1),
                "readers is 1; it must be 0, but in a reactor-pool",
            ),
            (REACTOR.pool((1, 0)), "writers is 0; it must be at least 1"),
            (
                REACTOR.connections(1_001),
                "connections is 1001; it must be a multiple of 10",
            ),
            (
                REACTOR.group(FOUR).connections(1_002),
                "connections is 1002; it must be a multiple of 4",
            ),
            (
                REACTOR.outstanding(Window::Messages(0)),
                "outstanding is 0; it must be a number from 1 to 64, or the word saturating",
            ),
            (
                REACTOR.clogged().on_its_network(),
                "link is 100mbit; it must be loopback, where load is clogged",
            ),
            (
                REACTOR.server_cpus(3),
                "server_cpus is 3; it must be at most 2, as cpus",
            ),
            (
                REACTOR.payload_bytes(1),
                "payload_bytes is 1; it must be a number from",
            ),
        ] {
            let sample = testing::sample(&EXPERIMENT, &case.params());
            let reason = sample.reason.unwrap();
            assert!(reason.contains(says), "{reason}");
        }
    }

    #[test]
    fn quick_has_what_claims_about_one_load_need_and_standard_all_loads_on_one_cpu() {
        let cases = |profile, cpus| -> Vec<Case> {
            let plan = (EXPERIMENT.plan)(&testing::site(profile, cpus));
            let case = |case: &PlannedCase| Case::possible(&case.params).unwrap();
            // Each profile has its span.
            plan.cases
                .iter()
                .map(|planned| case(planned).span_ms(REACTOR.span_ms))
                .collect()
        };
        let quick = cases(Profile::Quick, 2);
        let expected = [
            REACTOR,
            REACTOR.with_clients_on_last(2),
            ORIGINAL.clogged(),
            SPLIT.clogged(),
        ];
        assert_eq!(quick, expected);
        let standard = cases(Profile::Standard, 2);
        for load in case::LOADS {
            for case in [ORIGINAL, REACTOR.pool((1, 1))] {
                assert!(standard.contains(&case.connections(load)), "{load}");
            }
        }
        let paper = cases(Profile::Paper, 2);
        assert!(standard.iter().all(|case| paper.contains(case)));
    }

    #[test]
    fn beside_the_claims_are_one_message_groups_of_four_and_the_sources_network() {
        for profile in [Profile::Standard, Profile::Paper] {
            let plan = case::plan(&testing::site(profile, 2)).cases.into_iter();
            let planned: Vec<Params> = plan.map(|case| case.params).collect();
            for case in [ORIGINAL, REACTOR, REACTOR.pool((1, 1))] {
                for varied in [case.one_at_a_time(), case.group(FOUR), case.on_its_network()] {
                    let pattern = varied.any(&["span_ms"]);
                    assert!(planned.iter().any(|of| of.matches(&pattern)), "{pattern}");
                }
            }
        }
    }

    #[test]
    fn the_six_environments_are_one_run_where_four_cpus_leave_one_to_the_clients() {
        let of = |case: Case| (case.design.name(), case.server_cpus, case.cpus - case.server_cpus);
        let expected = |clients| {
            [1, 2, 4]
                .map(|cpus| ["one-handler-reactor", "reactor-pool"].map(|design| (design, cpus, clients)))
        };
        for (cpus, clients) in [(5, 1), (16, 12)] {
            let six = environments(REACTOR.cpus(cpus));
            let pools = six.iter().filter(|case| case.readers > 0);
            let pools: Vec<_> = pools.map(|case| (case.readers, case.writers)).collect();
            assert_eq!(pools, [(1, 1), (1, 1), (1, 3)]);
            let six: Vec<_> = six.into_iter().map(of).collect();
            assert_eq!(six, expected(clients).concat());
            for profile in [Profile::Standard, Profile::Paper] {
                let plan = case::plan(&testing::site(profile, cpus as usize))
                    .cases
                    .into_iter();
                let planned: Vec<Params> = plan.map(|case| case.params).collect();
                for load in case::LOADS {
                    for case in environments(REACTOR.cpus(cpus).connections(load)) {
                        let pattern = case.any(&["span_ms"]);
                        let found = planned.iter().filter(|of| of.matches(&pattern)).count();
                        assert_eq!(found, 1, "{pattern}");
                    }
                }
            }
        }
        assert!(environments(REACTOR.cpus(4)).is_empty());
    }
}
