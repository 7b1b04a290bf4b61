//! What other runtimes do when no thread can be made.
//!
//! A guest starts, a limit is set on it as on a server, and it is told to make units that wait. It says how many were
//! made and have begun, or what refused one; or it ends, or says nothing. Then it lets all go, and tries to make one
//! again. Runtimes that schedule their units themselves need threads only for those that block: the goroutine waits in
//! a system call, and the Tokio task is one for blocking calls.

use std::time::Instant;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_machine::run_as;
use threadgauge_results::Table;

use super::measure::{code, leave_units, limited_user};
use crate::guests::{figures, read as read_figures};
use crate::runtimes::talk::{Talk, TalkError};
use crate::runtimes::{self, Does, Kind, Name, Unit, guest};

/// Units that have begun.
const BEGUN: Metric = metric("begun", "units");
/// From the first that was made until one is refused, the program has ended, or all are made.
const TOOK: Metric = metric("took_ns", "ns");
/// Whether it then lets all go, makes one more and ends well.
const WORKS_ON: Metric = metric("works_on", "share");
/// How the program ended by itself: its exit code, or 128 and the signal.
const EXIT: Metric = metric("exit_code", "");
/// Before what it said, in a tag of the sample.
const SAYS: &str = "says: ";
/// The most of it that is kept, characters.
const SAID: usize = 160;
/// How long a guest has from the moment on that it is told to make units.
const PATIENCE: Duration = Duration::from_secs(5);
/// A variable with which a runtime of this kind has no more units than so many.
struct OwnBound {
    kind: &'static str,
    variable: (&'static str, &'static str),
    most: u64,
}

const OWN_BOUNDS: [OwnBound; 1] = [OwnBound {
    kind: "erlang",
    variable: ("ERL_AFLAGS", "+P 1024"),
    most: 1_024,
}];

words! {
    /// What makes no more units.
    pub(super) enum Limit {
        /// Nothing: the control.
        Nothing = "nothing",
        /// The kernel: RLIMIT_NPROC, as for servers.
        Kernel = "kernel",
        /// The runtime, told to have so few.
        Runtime = "runtime",
    }
}

words! {
    /// What a guest does then. Of a case the shares of its samples.
    pub(super) enum End {
        /// All units are made and have begun.
        GoesOn = "goes_on",
        /// All are made, and some have no thread yet: they wait for one.
        Waits = "some_units_wait",
        /// It is told by an exception.
        Told = "is_told",
        /// It ends its program.
        Ends = "ends_the_program",
        /// It neither answers nor ends.
        Hangs = "hangs",
    }
}

impl End {
    /// Whether this was it.
    const fn metric(self) -> Metric {
        metric(self.name(), "share")
    }

    /// In the table.
    const fn shown(self) -> &'static str {
        match self {
            Self::GoesOn => "goes on",
            Self::Waits => "goes on: some units wait for a free thread",
            Self::Told => "an exception",
            Self::Ends => "the program ends",
            Self::Hangs => "hangs",
        }
    }

    /// In the answer, before the names of units.
    const fn does(self) -> &'static str {
        match self {
            Self::GoesOn => "none is needed",
            Self::Waits => "units wait for a free one",
            Self::Told => "an exception is thrown",
            Self::Ends => "the program ends",
            Self::Hangs => "the program hangs",
        }
    }
}

point! {
    /// Units of a guest that are made where few more can be.
    pub(super) struct Guests {
        runtime: Name,
        unit: Name,
        limit: Limit,
        /// Of the kernel's units, what is left when the guest begins.
        room: u64 = 1..=1_000,
        count: u64 = 1..=100_000,
        cpus: u64 = 1..,
    }
}

figures! {
    /// That it waits to be told.
    struct Ready {
        made,
    }
}

figures! {
    /// What a guest answers.
    struct Past {
        made,
        begun,
        refused,
        took_ns,
        again,
    }
}

/// What became of a guest.
#[derive(Debug, PartialEq)]
struct Fate {
    end: End,
    begun: Option<u64>,
    took_ns: Option<u64>,
    works_on: bool,
    exit: Option<f64>,
    said: Option<String>,
}

impl Guests {
    const fn of(runtime: Name, unit: Name) -> Self {
        Self {
            runtime,
            unit,
            limit: Limit::Kernel,
            room: 4,
            count: 24,
            cpus: 1,
        }
    }

    fn planned(self, kind: &Kind, unit: &Unit) -> PlannedCase {
        let made = Duration::from_micros(self.count * unit.create_us);
        PlannedCase::new(self, Duration::from_millis(100 + kind.starts_ms) + made)
    }
}

/// The cases of each unit of the runtimes that were asked for; quick leaves out those that meet no limit.
pub(super) fn plan(site: &Site) -> Vec<PlannedCase> {
    runtimes::plan(site, Does::Past, |runtime, kind, unit| {
        let case = Guests::of(runtime, Name::new(unit.name));
        let own = own_bound(kind).map(|own| case.limit(Limit::Runtime).count(2 * own.most));
        let control = (site.profile != Profile::Quick).then(|| case.limit(Limit::Nothing));
        let cases = [Some(case), own, control].into_iter().flatten();
        cases.map(|case| case.planned(kind, unit))
    })
}

fn own_bound(kind: &Kind) -> Option<&'static OwnBound> {
    OWN_BOUNDS.iter().find(|own| own.kind == kind.name)
}

pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Guests::read(params)?;
    let (runtime, kind, unit) = guest::begin(params, case.unit, worker)?;
    let arguments: [&dyn ToString; 3] = [&"past", &unit.name, &case.count];
    let mut command = guest::command(&runtime, &arguments).map_err(TalkError::of_case)?;
    let user = match case.limit {
        Limit::Kernel => limited_user()?,
        Limit::Nothing => None,
        Limit::Runtime => {
            let wanted = "nothing or kernel, where the runtime has no such bound";
            let own = own_bound(kind).ok_or_else(|| refused(params, "limit", wanted))?;
            command.envs([own.variable]);
            None
        }
    };
    if let Some(user) = user {
        run_as(&mut command, user);
    }
    let deadline = case.planned(kind, unit).deadline();
    let mut talk = Talk::begin(&mut command, deadline).map_err(|error| not_started(error, user))?;
    let Ready { made } = talk.told("ready").map_err(TalkError::of_case)?;
    if made > 0 {
        let says = format!("the guest has made {made} units before it was told to");
        return Err(CaseError::Failed(says));
    }
    if case.limit == Limit::Kernel {
        leave_units(case.room, user)?;
    }
    talk.allow(PATIENCE);
    let begun = Instant::now();
    let heard = talk.whole_or_hung().map_err(TalkError::of_case)?;
    let fate = fate(case, heard, begun.elapsed())?;
    worker.tag("cold");
    tell(worker, &fate);
    Ok(())
}

/// Where a superuser may not become another user, that is what is lacking.
fn not_started(error: TalkError, user: Option<u32>) -> CaseError {
    match error {
        TalkError::NotStarted { error, .. } if user.is_some() => {
            let says = format!("a guest cannot be started as a user of its own here: {error}");
            CaseError::Skipped(Lack::new(Need::System, says))
        }
        error => error.of_case(),
    }
}

/// What became of a guest that answered, ended or did neither within this time.
fn fate(
    case: Guests,
    (status, output, complaint): (Option<std::process::ExitStatus>, String, String),
    after: Duration,
) -> Result<Fate, CaseError> {
    let answer = output.lines().find_map(|line| line.strip_prefix("done "));
    let others = output
        .lines()
        .filter(|line| !line.starts_with("done ") && !line.starts_with("ready "));
    let said = complaint.lines().chain(others).map(str::trim);
    let said = said.filter(|line| !line.is_empty()).map(shortened).next();
    let ended = |end, status: Option<_>| Fate {
        end,
        begun: None,
        took_ns: status.map(|_| after.as_nanos() as u64),
        works_on: false,
        exit: status.map(code),
        said: said.clone(),
    };
    let Some(answer) = answer else {
        let end = if status.is_some() { End::Ends } else { End::Hangs };
        return Ok(ended(end, status));
    };
    let wrong = |why: String| CaseError::Failed(format!("the guest: it answered {answer:?}: {why}"));
    let past: Past = read_figures(answer).map_err(wrong)?;
    let is_sound = past.begun <= past.made && past.made <= case.count;
    if !is_sound || (past.refused == 0) != (past.made == case.count) {
        return Err(wrong(format!("of {} units", case.count)));
    }
    let end = match (past.refused, past.begun < past.made) {
        (1.., _) => End::Told,
        (0, true) => End::Waits,
        (0, false) => End::GoesOn,
    };
    let ended_well = status.is_some_and(|status| status.success());
    Ok(Fate {
        begun: Some(past.begun),
        took_ns: Some(past.took_ns),
        works_on: past.again > 0 && ended_well,
        ..ended(end, None)
    })
}

/// A line without what a log has before its words.
fn shortened(line: &str) -> String {
    let mut words = line;
    while let Some((_, rest)) = words.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        words = rest.trim_start();
    }
    words.chars().take(SAID).collect()
}

fn tell(worker: &mut Worker, fate: &Fate) {
    let share = |is_so: bool| f64::from(u8::from(is_so));
    for end in End::ALL {
        worker.record(end.metric(), share(fate.end == end));
    }
    worker.record(WORKS_ON, share(fate.works_on));
    let figures = [
        (BEGUN, fate.begun.map(|begun| begun as f64)),
        (TOOK, fate.took_ns.map(|ns| ns as f64)),
        (EXIT, fate.exit),
    ];
    for (metric, figure) in figures {
        if let Some(figure) = figure {
            worker.record(metric, figure);
        }
    }
    if let Some(said) = &fate.said {
        worker.tag(&format!("{SAYS}{said}"));
    }
}

/// What most samples of a case came to.
fn end(view: &View<'_>, case: Guests) -> Option<End> {
    let share = |end: &End| view.summary(end.metric().of(case).cells()[0]).map(|of| of.mean);
    let known = End::ALL.into_iter().filter_map(|end| Some((share(&end)?, end)));
    known.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, end)| end)
}

/// What guests add to the answer; nothing where there are none.
pub(super) fn read(view: &View<'_>, answer: &mut Answer) {
    let cases = runtimes::cases::<Guests>(view);
    let limited = cases.iter().filter(|case| case.limit == Limit::Kernel);
    let limited: Vec<(Guests, End)> = limited
        .filter_map(|&case| Some((case, end(view, case)?)))
        .collect();
    let of_end = |end: End| {
        let names = limited.iter().filter(|(_, of)| *of == end);
        let names: Vec<String> = names
            .map(|(case, _)| runtimes::label(case.runtime, case.unit))
            .collect();
        (!names.is_empty()).then(|| format!("{} ({})", end.does(), names.join(", ")))
    };
    let ends: Vec<String> = [End::Ends, End::Hangs, End::Told, End::Waits, End::GoesOn]
        .into_iter()
        .filter_map(of_end)
        .collect();
    if !ends.is_empty() {
        let says = format!("Where other runtimes can make no thread, {}.", ends.join("; "));
        answer.answer = [answer.answer.trim(), &says].join(" ").trim().to_owned();
    }
    answer.tables.extend(table_of(view, &cases));
}

fn table_of(view: &View<'_>, cases: &[Guests]) -> Option<Table> {
    let row = |&case: &Guests| {
        let end = end(view, case)?;
        let said = view.tags(case).find_map(|tag| tag.strip_prefix(SAYS));
        let shown = |metric: Metric| view.shown(&metric.of(case), metric.unit);
        let begun = view.value(&BEGUN.of(case));
        let exit = view
            .value(&EXIT.of(case))
            .map(|code| format!("no: ended with {code}"));
        let works_on = view.value(&WORKS_ON.of(case)).is_some_and(|share| share >= 1.0);
        let limit = match case.limit {
            Limit::Nothing => "none".to_owned(),
            Limit::Kernel => format!("room for {}", case.room),
            Limit::Runtime => "its own".to_owned(),
        };
        Some(vec![
            runtimes::label(case.runtime, case.unit),
            limit,
            end.shown().to_owned(),
            said.unwrap_or_default().to_owned(),
            begun.map_or_else(String::new, |begun| format!("{begun} of {}", case.count)),
            shown(TOOK),
            match works_on {
                true => "yes".to_owned(),
                false => exit.unwrap_or_else(|| "no".to_owned()),
            },
        ])
    };
    let rows: Vec<Vec<String>> = cases.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| {
        table(
            "guests",
            "What other runtimes do when no thread can be made",
            "As many units as asked for are made at once and wait; a goroutine waits in a system call, and a Tokio task is one \
             for blocking calls. said: its first line. after: until it was refused one, ended, or had made all. works on: \
             whether it makes a unit again once the others have ended. Its own limit is the most processes that Erlang was told \
             to have.",
            ["unit", "limit", "what it does", "said", "begun", "after", "works on"],
            rows,
        )
    })
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    use super::*;
    use crate::past_the_limit::EXPERIMENT;
    use crate::runtimes::guest::testing::{sample, script};

    fn case(runtime: &str, unit: &str) -> Guests {
        Guests::of(Name::new(runtime), Name::new(unit))
    }

    const READY: &str = "echo ready made=0; cat;";
    const ALL: &str = "echo done made=24 begun=24 refused=0 took_ns=7 again=1";

    #[test]
    fn what_becomes_of_a_guest_is_told_apart() {
        let told = "echo Error: no more >&2; echo done made=4 begun=4 refused=1 took_ns=7 again=1";
        let waits = "echo done made=24 begun=3 refused=0 took_ns=7 again=1";
        let ends = "echo '[1s][warning] a: b'; exit 3";
        for (text, end, works_on, said) in [
            (ALL, End::GoesOn, 1.0, None),
            (waits, End::Waits, 1.0, None),
            (told, End::Told, 1.0, Some("says: Error: no more")),
            (ends, End::Ends, 0.0, Some("says: a: b")),
            ("kill -9 $$", End::Ends, 0.0, None),
        ] {
            let script = script("go", "1.26", &format!("{READY} {text}"));
            let case = case("go", "goroutine").limit(Limit::Nothing);
            let sample = sample(&EXPERIMENT, &case.params(), Some(script));
            assert_eq!(sample.status, Status::Ok, "{text}: {:?}", sample.reason);
            let is = |of: End| sample.value(of.metric().name);
            assert_eq!(
                End::ALL.map(is),
                End::ALL.map(|of| Some(f64::from(u8::from(of == end)))),
                "{text}"
            );
            assert_eq!(sample.value(WORKS_ON.name), Some(works_on), "{text}");
            let tag = sample.tags.iter().find(|tag| tag.starts_with(SAYS));
            assert_eq!(tag.map(String::as_str), said, "{text}");
        }
        let said = (None, "ready made=0\n".to_owned(), "stuck\n".to_owned());
        let hung = fate(case("go", "goroutine"), said, PATIENCE).unwrap();
        let of_hung = (hung.end, hung.took_ns, hung.said.as_deref());
        assert_eq!(of_hung, (End::Hangs, None, Some("stuck")));
    }

    #[test]
    fn what_cannot_be_is_no_figure() {
        for text in [
            "echo done made=24 begun=25 refused=0 took_ns=7 again=1",
            "echo done made=4 begun=4 refused=0 took_ns=7 again=1",
            "echo done made=24 begun=24 refused=1 took_ns=7 again=1",
            "echo done made=x",
        ] {
            let script = script("go", "1.26", &format!("{READY} {text}"));
            let case = case("go", "goroutine").limit(Limit::Nothing);
            let sample = sample(&EXPERIMENT, &case.params(), Some(script));
            assert_eq!(sample.status, Status::Failed, "{text}");
        }
        let own = case("go", "goroutine").limit(Limit::Runtime);
        let sample = sample(&EXPERIMENT, &own.params(), Some(script("go", "1.26", ALL)));
        assert!(sample.reason.unwrap().contains("limit is runtime"));
    }

    #[test]
    fn each_unit_meets_the_kernels_limit_and_from_standard_on_none() {
        let planned = |profile| {
            let site = Site {
                runtimes: vec![script("python", "3.11", ""), script("erlang", "25", "")],
                ..testing::site(profile, 2)
            };
            let cases = plan(&site).into_iter();
            let limits = cases.map(|case| Guests::read(&case.params).unwrap().limit);
            limits.collect::<Vec<_>>()
        };
        let (kernel, own) = (Limit::Kernel, Limit::Runtime);
        assert_eq!(planned(Profile::Quick), [kernel, kernel, kernel, kernel, own]);
        assert_eq!(planned(Profile::Standard).len(), 9);
        assert!(plan(&testing::site(Profile::Paper, 2)).is_empty());
    }

    #[test]
    fn the_answer_names_who_ends_and_the_table_what_was_said() {
        let made = |case: Guests, end: End, said: &str| {
            let share = |is_so: bool| vec![f64::from(u8::from(is_so)); 7];
            let ends = End::ALL.map(|of| (of.metric(), share(of == end)));
            let figures = [
                (BEGUN, vec![4.0; 7]),
                (TOOK, vec![3e6; 7]),
                (WORKS_ON, share(end != End::Ends)),
            ];
            let mut made = testing::case(case, ends.into_iter().chain(figures));
            made.tags = [format!("{SAYS}{said}")].into();
            made
        };
        let cases = vec![
            made(case("java", "platform"), End::Told, "OutOfMemoryError"),
            made(case("go", "goroutine"), End::Ends, "newosproc"),
            made(case("erlang", "process"), End::GoesOn, ""),
        ];
        let view = testing::view(EXPERIMENT.id, Profile::Standard, cases);
        let mut answer = Answer::default();
        read(&view, &mut answer);
        insta::assert_snapshot!(answer.answer, @"Where other runtimes can make no thread, the program ends (goroutine); an exception is thrown (Java thread); none is needed (Erlang process).");
        let rows = &answer.tables[0].rows;
        assert_eq!(rows[0][2..5], ["an exception", "OutOfMemoryError", "4 of 24"]);
        assert_eq!([&*rows[0][6], &*rows[1][6]], ["yes", "no"]);
        let mut nothing = Answer::default();
        read(
            &testing::view(EXPERIMENT.id, Profile::Quick, Vec::new()),
            &mut nothing,
        );
        assert!(nothing.answer.is_empty() && nothing.tables.is_empty());
    }
}
