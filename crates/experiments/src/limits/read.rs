//! Reads the answer off the samples: claims, facts, charts and tables.

use threadgauge_lab::prelude::*;
use threadgauge_lab::view::{Cases, ViewCase};
use threadgauge_results::published::dated;
use threadgauge_results::{Table, claim, units};

use super::case::{
    ADDRESS_003_MIB, ALIVE, BOUND_003, Build, CENSORED, CLAIMED, CRASHED_003, Case, DEPTH, ENDS, End, GROWN,
    GUARD_KIB, HUNG, LIVED, LOCAL_BYTES, PROCESSES, RECURSION, SEGFAULTS, SIGNALS, SMALL_003_KIB,
    STACK_003_KIB, STACKS_KIB, StackBy, THREADS, Trial, UNCHECKED,
};
use crate::create::Unit;

/// As many as a run asked for, which differs by profile.
fn pattern(case: Case) -> Params {
    case.any(&["count"])
}

fn alive(case: Case) -> Statistic {
    ALIVE.of(pattern(case))
}

/// Whether a guard ended it in this run, so that the number is a lower bound.
fn is_censored(view: &View<'_>, case: Case) -> bool {
    view.value(&CENSORED.of(pattern(case)))
        .is_some_and(|censored| censored > 0.0)
}

/// What ended it in most rounds.
fn end(view: &View<'_>, case: Case) -> Option<End> {
    let ended = |end: &End| view.value(&end.metric().of(pattern(case))) == Some(1.0);
    End::ALL.into_iter().find(ended)
}

/// The parameters that runs have lacked: each of their cases had what [`THREADS`] has.
const LATER: &[&str] = &["stack_by", "guard_kib", "build"];

/// Those that the cases of this run lack.
fn unnamed(view: &View<'_>) -> &'static [&'static str] {
    let lacks = |params: &Params| LATER.iter().any(|name| params.get(name).is_none());
    if view.planned(Params::new()).any(lacks) {
        LATER
    } else {
        &[]
    }
}

/// The cases with the parameters of today.
fn of_today(view: &View<'_>) -> Cases {
    let own = view.cases.get(view.experiment).into_iter().flatten().cloned();
    let named = |mut case: ViewCase| {
        let today = THREADS.params();
        let before = std::mem::take(&mut case.params);
        let further = today.iter().filter(|(name, _)| before.get(name).is_none());
        case.params = further.fold(before.clone(), |params, (name, value)| {
            params.with(name, value.clone())
        });
        case
    };
    Cases::from([(view.experiment.to_owned(), own.map(named).collect())])
}

pub(super) fn read(view: &View<'_>) -> Answer {
    let cases = of_today(view);
    let today = View {
        cases: &cases,
        ..*view
    };
    answer(&today, unnamed(view))
}

fn answer(view: &View<'_>, unnamed: &[&str]) -> Answer {
    Answer {
        answer: sentence(view),
        number: key_number(view),
        claims: claims(view, unnamed),
        facts: facts(view),
        figures: [alive_chart(view), past_chart(view), depth_chart(view)]
            .into_iter()
            .filter_map(Chart::drawn)
            .collect(),
        tables: vec![alive_table(view), past_table(view)],
        ..Answer::default()
    }
}

/// A number of units; a lower bound where a guard ended it.
fn number(view: &View<'_>, case: Case) -> Option<String> {
    let alive = units::with_unit(view.value(&alive(case))?, None, "count");
    Some(if is_censored(view, case) {
        format!("at least {alive}")
    } else {
        alive
    })
}

fn key_number(view: &View<'_>) -> Option<KeyNumber> {
    let of = "threads with stacks of 8 MiB alive at once, in 3 GiB of address space";
    let of = match is_censored(view, THREADS) {
        true => format!("{of}, at least"),
        false => of.to_owned(),
    };
    view.number(of, &alive(THREADS), "count")
}

fn sentence(view: &View<'_>) -> String {
    let (threads, processes) = (number(view, THREADS), number(view, PROCESSES));
    let (Some(threads), Some(processes)) = (threads, processes) else {
        return String::new();
    };
    let ended = end(view, THREADS).map_or_else(String::new, |end| format!(", where {} ends it", end.name()));
    let free = number(view, THREADS.address_mib(0));
    let free = free.map_or_else(String::new, |free| format!("; without that limit {free} threads"));
    format!(
        "In 3 GiB of address space {threads} threads with stacks of 8 MiB can be alive{ended}, and {processes} \
         processes{free}."
    )
}

/// Claims are judged on the run as it is, so that they pick its cases without the parameters that it does not name.
fn claims(view: &View<'_>, unnamed: &[&str]) -> Vec<Claim> {
    let any_count = [&["count"], unnamed].concat();
    let per = |case: Case, count: u64| ALIVE.of(case.any(&any_count)).times(1.0 / count as f64);
    let few = THREADS.stack_kib(SMALL_003_KIB);
    let past = CRASHED_003
        .into_iter()
        .filter(|&count| count > BOUND_003)
        .map(|count| {
            let case = UNCHECKED.count(count).any(unnamed);
            (format!("{count} threads"), SEGFAULTS.of(case))
        });
    let depth = |kib| DEPTH.of(RECURSION.stack_kib(kib).any(unnamed));
    vec![
        ("processes-scale-further-than-threads", further(view, &any_count)),
        (
            "stack-size-caps-thread-count",
            unless_guarded(view, THREADS, per(THREADS, BOUND_003), f64::INFINITY),
        ),
        (
            "smaller-stack-allows-1000-threads",
            unless_guarded(view, few, per(few, CLAIMED), 1.0),
        ),
        ("exceeding-thread-limit-segfaults", each(Quote::Smallest, past)),
        (
            "small-stack-overflows-sooner",
            depth(SMALL_003_KIB).over(depth(STACK_003_KIB)).into(),
        ),
    ]
}

/// A number that a guard ended is no bound of the system. Where it is `enough`, as a share of what is claimed, it tells
/// all the same.
fn unless_guarded(view: &View<'_>, case: Case, share: Statistic, enough: f64) -> Test {
    if !is_censored(view, case) || view.value(&share).is_some_and(|share| share >= enough) {
        return share.into();
    }
    not_measured(match end(view, case) {
        Some(guard @ (End::HalfOfMemory | End::Others)) => {
            format!("{} ended the number of threads", guard.name())
        }
        _ => "a guard ended the number of threads; `threadgauge run limits --profile standard` asks for more"
            .to_owned(),
    })
}

/// Threads over processes, in the source's address space and in that of this machine.
fn further(view: &View<'_>, unnamed: &[&str]) -> Test {
    let most = claim("processes-scale-further-than-threads").map_or(1.0, |claim| claim.range().max);
    let spaces = [
        ("3 GiB of address space", ADDRESS_003_MIB),
        ("no limit on address space", 0),
    ];
    let ratio = |mib| {
        let cells = [THREADS, PROCESSES].map(|case| {
            let case = case.address_mib(mib).any(unnamed);
            [ALIVE, CENSORED].map(|metric| metric.of(case.clone()))
        });
        Statistic::function(cells.concat(), move |v| {
            known_ratio([v[0], v[2]], [v[1] > 0.0, v[3] > 0.0], most)
        })
    };
    let known = spaces.map(|(name, mib)| (name.to_owned(), ratio(mib)));
    let (known, open): (Vec<_>, Vec<_>) = known
        .into_iter()
        .partition(|(_, ratio)| view.rounds(ratio).is_ok());
    let open: Vec<String> = open.into_iter().map(|(name, _)| name).collect();
    let missing = format!(
        "with {} this run made no more threads and processes than it asks for, or than leave the machine usable",
        open.join(" and with ")
    );
    each(Quote::Largest, known).of_a_part(open.is_empty(), missing)
}

/// Threads over processes, where it can be said on which side of `most` it lies although a guard ended one number.
/// Otherwise it is not a number.
fn known_ratio([threads, processes]: [f64; 2], censored: [bool; 2], most: f64) -> f64 {
    let ratio = threads / processes;
    let is_known = match censored {
        [false, false] => true,
        // There may be more processes: the ratio is at most this.
        [false, true] => ratio <= most,
        // There may be more threads: it is at least this.
        [true, false] => ratio > most,
        [true, true] => false,
    };
    if is_known { ratio } else { f64::NAN }
}

/// Every case of this run that makes as many as there can be, in the order of the plan.
fn planned(view: &View<'_>) -> Vec<Case> {
    let of_most = view.planned(Params::new().with("trial", Trial::Most.name()));
    of_most.filter_map(|params| Case::read(params).ok()).collect()
}

/// A unit, its stack and its address space, in words.
fn words_of(case: Case) -> String {
    let unit = match case.unit {
        Unit::Thread => format!("Threads, stack of {} KiB{}", case.stack_kib, beside(case)),
        Unit::Process => "Processes".to_owned(),
    };
    let space = match case.address_mib {
        _ if case.build.is_of_32_bits() => "3 GiB of addresses".to_owned(),
        0 => "no limit on address space".to_owned(),
        mib if mib % 1024 == 0 => format!("{} GiB of address space", mib / 1024),
        mib => format!("{mib} MiB of address space"),
    };
    format!("{unit}, {space}{}", case.build.in_words())
}

/// What is said of a stack beside its size.
fn beside(case: Case) -> String {
    let by = match case.stack_by {
        StackBy::Attribute => "",
        StackBy::Ulimit => " by ulimit -s",
    };
    let guard = match case.guard_kib {
        GUARD_KIB => String::new(),
        kib => format!(" with a guard of {kib} KiB"),
    };
    format!("{by}{guard}")
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let ended = planned(view).into_iter().filter_map(|case| {
        let alive = view.estimate(&alive(case))?;
        let says = format!(
            "{}: {} alive, {}.",
            words_of(case),
            number(view, case)?,
            match end(view, case) {
                Some(End::Count) => "as many as this run asks for: the system allows more".to_owned(),
                Some(end) if end.is_guard() =>
                    format!("then {} ended it: the system allows more", end.name()),
                Some(end) => format!("then {} ended it", end.name()),
                None => "then several things ended it".to_owned(),
            }
        );
        Some(alive.fact(says, "units"))
    });
    let crashed = unchecked(view).into_iter().filter_map(|case| {
        let share = view.estimate(&SEGFAULTS.of(case))?;
        let others = [SIGNALS, HUNG, LIVED].map(|end| view.estimate(&end.of(case)));
        let others = others.map(|share| share.map_or_else(String::new, |share| share.plain("share")));
        let says = format!(
            "{} in 3 GiB of address space and does not look whether they were made is ended by \
             SIGSEGV in {} of its runs, by another signal in {}, waits for ever in {} and ends well in {}.",
            starting(case),
            share.plain("share"),
            others[0],
            others[1],
            others[2],
        );
        Some(share.fact(says, "share"))
    });
    let deep = STACKS_KIB.into_iter().filter_map(|kib| {
        let depth = view.estimate(&DEPTH.of(RECURSION.stack_kib(kib)))?;
        let says = format!(
            "A stack of {kib} KiB has room for {} calls with 256 bytes of local data.",
            depth.plain("count")
        );
        Some(depth.fact(says, "calls"))
    });
    ended
        .chain(crashed)
        .chain(deep)
        .chain(past_full_stacks(view))
        .collect()
}

/// Every case of this run that goes past the limit on threads, in the order of the plan.
fn unchecked(view: &View<'_>) -> Vec<Case> {
    let of_trial = view.planned(Params::new().with("trial", Trial::Unchecked.name()));
    of_trial.filter_map(|params| Case::read(params).ok()).collect()
}

fn starting(case: Case) -> String {
    let program = match case.build {
        Build::Bits64 => "A program",
        Build::Bits32 => "A program of 32 bits",
        Build::Bits32Legacy => "A program of 32 bits with the legacy layout",
    };
    let stacks = match beside(case).as_str() {
        "" => String::new(),
        beside => format!(" with stacks of {} KiB{beside}", case.stack_kib),
    };
    format!("{program} that starts {} threads{stacks}", case.count)
}

/// What a thread came to that is begun anew on larger stacks.
fn past_full_stacks(view: &View<'_>) -> Vec<Finding> {
    let of_trial = view.planned(Params::new().with("trial", Trial::Growing.name()));
    let growing = of_trial.filter_map(|params| Case::read(params).ok());
    let found = growing.filter_map(|case| {
        let grown = view.estimate(&GROWN.of(case))?;
        let how = if grown.value > 0.0 {
            format!(
                "a guard area below its stack and a handler of SIGSEGV on another get it out, and it is begun anew {} times, \
                 each time on a stack of twice the size at another address",
                grown.plain("count")
            )
        } else {
            "its stack is large enough".to_owned()
        };
        let says = format!(
            "A thread that begins with a stack of {} KiB makes {} calls with 256 bytes of local data: {how}.",
            case.stack_kib,
            units::with_unit(case.count as f64, None, "count"),
        );
        Some(grown.fact(says, "stacks"))
    });
    found.collect()
}

fn alive_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(view, "alive", "The most units alive")
        .x(Scale::Log, "stack of a thread, KiB")
        .y(Scale::Log, "units alive")
        .note("At least: a guard ended it, and the system would allow more. The stack of a process grows as it is used.");
    let lines = [Unit::Thread, Unit::Process]
        .map(|unit| [ADDRESS_003_MIB, 0].map(|mib| THREADS.unit(unit).address_mib(mib)));
    let of_space = |case: Case| {
        if case.address_mib == 0 {
            "no limit"
        } else {
            "3 GiB"
        }
    };
    let chart = lines.concat().into_iter().fold(chart, |chart, line| {
        let name = |kind: &str| format!("{}, {}{kind}", line.unit.name(), of_space(line));
        let points = |censored: bool| {
            let cases = STACKS_KIB.map(|kib| line.stack_kib(kib));
            let cases = cases
                .into_iter()
                .filter(move |case| is_censored(view, *case) == censored);
            cases
                .map(|case| (case.stack_kib, alive(case)))
                .collect::<Vec<_>>()
        };
        chart
            .line(name(""), points(false))
            .line(name(", at least"), points(true))
    });
    let bound = STACKS_KIB.map(|kib| (kib, Some((ADDRESS_003_MIB * 1024 / kib) as f64)));
    chart.figures("3 GiB through the stack", Origin::Ideal, bound)
}

/// What is past the limit in the source's address space.
const PAST: &str = "3 GiB of address space, stacks of 8 MiB: room for 384 at most.";

fn past_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(
        view,
        "unchecked",
        "What becomes of programs that do not look whether a thread was made",
    )
    .x(Scale::Linear, "threads asked for")
    .y(Scale::Linear, "% of the programs")
    .note(format!(
        "{PAST} The source's program crashed at each of these. Each program's array of handles holds something else."
    ));
    let ended = |end: Metric| CRASHED_003.map(|count| (count, end.of(UNCHECKED.count(count)).times(100.0)));
    let chart = ENDS
        .into_iter()
        .fold(chart, |chart, (name, end)| chart.line(name, ended(end)));
    chart.figures(
        format!("{}: crashed", dated("003")),
        Origin::Published,
        CRASHED_003.map(|count| (count, Some(100.0))),
    )
}

fn depth_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let depth = |kib: u64| DEPTH.of(RECURSION.stack_kib(kib));
    let room = |kib: u64| Some((kib * 1024 / LOCAL_BYTES) as f64);
    Chart::new(view, "depth", "Calls until the stack is used up")
        .x(Scale::Log, "stack, KiB")
        .y(Scale::Log, "calls")
        .note("A call keeps more than its local data: registers, and what the compiler aligns.")
        .line("this machine", STACKS_KIB.map(|kib| (kib, depth(kib))))
        .figures(
            "stack through local data",
            Origin::Ideal,
            STACKS_KIB.map(|kib| (kib, room(kib))),
        )
}

fn alive_table(view: &View<'_>) -> Table {
    let published = |case: Case| {
        let in_3_gib = case.address_mib == ADDRESS_003_MIB || case.build.is_of_32_bits();
        match (case.unit, case.stack_kib) {
            _ if !in_3_gib => "",
            (Unit::Thread, STACK_003_KIB) => "fewer than 384; 255 worked, 350 crashed",
            (Unit::Thread, SMALL_003_KIB) | (Unit::Process, _) => "1000 worked",
            _ => "",
        }
    };
    let row = |case: Case| {
        let end = end(view, case).map_or("", End::name);
        Some(vec![
            words_of(case),
            number(view, case)?,
            end.to_owned(),
            published(case).to_owned(),
        ])
    };
    table(
        "alive",
        "The most units alive, and what ended it",
        "Published: source 003, 32 bits, Linux 2.6.9. Where mappings begin at a third of its 3 GiB (the legacy layout), a \
         program of 32 bits has room for some 250 stacks of 8 MiB: there it is no wonder that the source's ran with 255 and \
         crashed with 350, below the bound of 384 that it computes.",
        ["units", "alive", "ended by", "published"],
        planned(view).into_iter().filter_map(row).collect(),
    )
}

fn past_table(view: &View<'_>) -> Table {
    let of_count = CRASHED_003.map(|count| UNCHECKED.count(count));
    let further = unchecked(view)
        .into_iter()
        .filter(|case| !of_count.contains(case));
    let row = |case: Case| {
        let shares = ENDS.map(|(_, end)| view.shown(&end.of(case), "share"));
        let published = match case.count {
            255 => "worked",
            count if CRASHED_003.contains(&count) => "crashed",
            _ => "",
        };
        let mut row = vec![format!("{}{}{}", case.count, case.build.in_words(), beside(case))];
        row.extend(shares);
        row.push(published.to_owned());
        row
    };
    let ends = ENDS.map(|(name, _)| name);
    table(
        "unchecked",
        "Threads started and joined without looking whether they were made",
        PAST,
        [["threads asked for"].as_slice(), &ends, &["published"]].concat(),
        of_count.into_iter().chain(further).map(row).collect(),
    )
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Verdict;

    use super::super::case::GROWING;
    use super::*;

    #[test]
    fn a_run_from_before_had_stacks_by_attribute_and_64_bits() {
        let cells = [
            cell(THREADS, 383.0, End::AddressSpace),
            cell(PROCESSES, 1_000.0, End::Count),
        ];
        let today = view(cells.clone());
        let before = view(cells.map(|mut cell| {
            cell.params = Case::read(&cell.params).unwrap().any(LATER);
            cell
        }));
        assert_eq!(read(&before).answer, read(&today).answer);
        for (id, test) in read(&before).claims {
            assert_eq!(testing::verdict(&test, id, &before), verdict(&today, id), "{id}");
        }
        assert_eq!(
            verdict(&today, "stack-size-caps-thread-count"),
            Some(Verdict::Holds)
        );
    }

    #[test]
    fn a_thread_on_larger_stacks_and_a_stack_with_a_guard_are_said_in_words() {
        let grown = |calls: u64, stacks: f64| testing::case(GROWING.count(calls), [(GROWN, vec![stacks; 7])]);
        let ends = ENDS.map(|(_, end)| (end, vec![0.25; 7]));
        let guarded = testing::case(UNCHECKED.count(350).guard_kib(1024), ends);
        let says: Vec<String> = facts(&view([grown(10, 0.0), grown(20_000, 7.0), guarded]))
            .into_iter()
            .map(|fact| fact.says)
            .collect();
        for (says, expected) in says.iter().zip([
            "A program that starts 350 threads with stacks of 8192 KiB with a guard of 1024 KiB in 3 GiB of address space",
            "A thread that begins with a stack of 64 KiB makes 10 calls with 256 bytes of local data: its stack is large",
            "A thread that begins with a stack of 64 KiB makes 20\u{202f}000 calls with 256 bytes of local data: a guard area",
        ]) {
            assert!(says.starts_with(expected), "{says}");
        }
        assert_eq!(says.len(), 3);
        assert!(says[2].contains("begun anew 7 times"), "{}", says[2]);
    }

    #[test]
    fn a_ratio_is_known_only_on_the_side_to_which_a_guard_leaves_room() {
        let known = |counts, censored| {
            let ratio = known_ratio(counts, censored, 0.95);
            (!ratio.is_nan()).then_some(ratio)
        };
        assert_eq!(known([300.0, 1_000.0], [false, false]), Some(0.3));
        assert_eq!(known([300.0, 1_000.0], [false, true]), Some(0.3));
        assert_eq!(known([1_000.0, 1_000.0], [false, true]), None);
        assert_eq!(known([300.0, 1_000.0], [true, false]), None);
        assert_eq!(known([2_000.0, 1_000.0], [true, false]), Some(2.0));
        assert_eq!(known([300.0, 1_000.0], [true, true]), None);
    }

    /// A case whose units were so many in seven rounds, until `end`.
    fn cell(case: Case, alive: f64, end: End) -> ViewCase {
        let of = |value: f64| vec![value; 7];
        let censored = f64::from(u8::from(end.is_guard()));
        testing::case(
            case,
            [
                (ALIVE, of(alive)),
                (CENSORED, of(censored)),
                (end.metric(), of(1.0)),
            ],
        )
    }

    fn view(cases: impl IntoIterator<Item = ViewCase>) -> View<'static> {
        testing::view("limits", Profile::Quick, cases.into_iter().collect())
    }

    fn verdict(view: &View<'_>, id: &str) -> Option<Verdict> {
        let (_, test) = claims(view, unnamed(view))
            .into_iter()
            .find(|(of, _)| *of == id)
            .unwrap();
        testing::verdict(&test, id, view)
    }

    #[test]
    fn what_the_guard_ended_decides_no_more_than_it_can() {
        let id = "processes-scale-further-than-threads";
        let in_3_gib = [
            cell(THREADS, 383.0, End::AddressSpace),
            cell(PROCESSES, 1_000.0, End::Count),
        ];
        let free = |threads, end, processes, other_end| {
            let [of_threads, of_processes] = [THREADS, PROCESSES].map(|case| case.address_mib(0));
            [
                cell(of_threads, threads, end),
                cell(of_processes, processes, other_end),
            ]
        };
        let both_guarded = free(1_000.0, End::Count, 1_000.0, End::Count);
        let fewer_threads = free(300.0, End::MaxMapCount, 1_000.0, End::Count);
        let more_threads = free(1_000.0, End::Count, 300.0, End::Nproc);
        for (other, expected) in [
            (both_guarded, Verdict::Inconclusive),
            (fewer_threads, Verdict::Holds),
            (more_threads, Verdict::DoesNotHold),
        ] {
            let view = view(in_3_gib.clone().into_iter().chain(other));
            assert_eq!(verdict(&view, id), Some(expected));
        }
    }

    #[test]
    fn the_claims_about_stacks_are_decided_from_the_sources_address_space() {
        let (bound, small) = (
            "stack-size-caps-thread-count",
            "smaller-stack-allows-1000-threads",
        );
        let few = THREADS.stack_kib(SMALL_003_KIB);
        let source = view([
            cell(THREADS, 383.0, End::AddressSpace),
            cell(few, 1_000.0, End::Count),
        ]);
        assert_eq!(verdict(&source, bound), Some(Verdict::Holds));
        assert_eq!(verdict(&source, small), Some(Verdict::Holds));
        let guarded = view([
            cell(THREADS, 383.0, End::HalfOfMemory),
            cell(few, 500.0, End::AddressSpace),
        ]);
        assert_eq!(verdict(&guarded, bound), Some(Verdict::NotMeasured));
        assert_eq!(verdict(&guarded, small), Some(Verdict::DoesNotHold));
        let in_little_memory = view([cell(few, 626.0, End::HalfOfMemory)]);
        assert_eq!(verdict(&in_little_memory, small), Some(Verdict::NotMeasured));
    }

    #[test]
    fn the_answer_says_what_ended_it_and_what_is_a_lower_bound() {
        let view = view([
            cell(THREADS, 383.0, End::AddressSpace),
            cell(PROCESSES, 1_000.0, End::Count),
            cell(THREADS.address_mib(0), 1_000.0, End::Count),
        ]);
        assert_eq!(
            sentence(&view),
            "In 3 GiB of address space 383 threads with stacks of 8 MiB can be alive, where address space (RLIMIT_AS) ends \
             it, and at least 1000 processes; without that limit at least 1000 threads."
        );
        assert_eq!(
            facts(&view)[0].says,
            "Threads, stack of 8192 KiB, 3 GiB of address space: 383 alive, then address space (RLIMIT_AS) ended it."
        );
    }

    #[test]
    fn what_lies_past_a_limit_is_drawn_beside_the_source_and_theory() {
        let shares = [0.2, 0.0, 0.3, 0.5];
        let ends = || {
            ENDS.into_iter()
                .zip(shares)
                .map(|((_, end), share)| (end, vec![share; 7]))
        };
        let past = CRASHED_003.map(|n| testing::case(UNCHECKED.count(n), ends()));
        let deep =
            STACKS_KIB.map(|kib| testing::case(RECURSION.stack_kib(kib), [(DEPTH, vec![kib as f64; 7])]));
        let figures = read(&view(past.into_iter().chain(deep))).figures;
        let drawn: Vec<_> = figures
            .iter()
            .map(|figure| {
                let ends = figure
                    .series
                    .iter()
                    .map(|line| (line.points.len(), line.points[3].y));
                (figure.id.as_str(), ends.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(
            drawn,
            [
                (
                    "unchecked",
                    vec![(4, 20.0), (4, 0.0), (4, 30.0), (4, 50.0), (4, 100.0)]
                ),
                ("depth", vec![(4, 8192.0), (4, 32_768.0)])
            ]
        );
    }
}
