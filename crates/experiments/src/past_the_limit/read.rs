//! What a run says: who keeps serving, what becomes of those who come, how soon it is over, and what to do.

use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Table};

use super::case::{
    ANSWERED, Case, EXIT, LATE_SHARE, LONGEST, LOST, Lacking, RECOVERS, RECOVERY, REFUSED, RUNS_ON, WAITING,
};
use crate::servers::Design;

/// Of the answers to those who were there, what may be missing, or late beside the control, where they are served on.
const UNHARMED: f64 = 0.01;

impl Lacking {
    /// In the middle of a sentence.
    const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "no limit",
            Self::Descriptors => "descriptors",
            Self::Units => "threads or processes",
        }
    }
}

/// What a case came to, at the median of its rounds.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    case: Case,
    /// Whether answers to those who were there are lost, or late where those of the control are not.
    harmed: bool,
    answered: f64,
    refused: f64,
    waiting: f64,
    recovers: bool,
    runs_on: bool,
    exit: f64,
}

impl Outcome {
    fn of(view: &View<'_>, case: Case) -> Option<Self> {
        let value = |metric: Metric| view.value(&metric.of(case));
        Some(Self {
            case,
            harmed: value(LOST)? > UNHARMED || is_later(view, case),
            answered: value(ANSWERED)?,
            refused: value(REFUSED)?,
            waiting: value(WAITING)?,
            recovers: value(RECOVERS)? >= 1.0,
            runs_on: value(RUNS_ON)? >= 1.0,
            exit: value(EXIT)?,
        })
    }

    /// Whether the limit keeps anybody from an answer: of a pool more than it serves at once do not have one anyhow.
    fn is_met(&self) -> bool {
        let one = 1.0 / self.case.newcomers as f64;
        self.case.lacking != Lacking::Nothing && self.answered < self.case.servable() - 0.5 * one
    }

    fn serves_on(&self) -> bool {
        self.runs_on && !self.harmed
    }

    /// The design and what it lacks.
    fn named(&self) -> String {
        format!(
            "{} without {}",
            self.case.design.name(),
            self.case.lacking.words()
        )
    }
}

/// Whether more answers are late than without a limit: on the same design where that was measured, else on one event
/// loop. A busy machine makes both late.
fn is_later(view: &View<'_>, case: Case) -> bool {
    let without = |design| Case {
        design,
        ..case.lacking(Lacking::Nothing)
    };
    let controls = [case.design, Design::Reactor].map(without);
    let mut controls = controls.into_iter().filter(|&control| control != case);
    let Some(control) = controls.find(|&control| view.measured(&LATE_SHARE.of(control))) else {
        return false;
    };
    let later = LATE_SHARE.of(case).less(LATE_SHARE.of(control));
    view.resolved(&later) && view.value(&later).is_some_and(|later| later > UNHARMED)
}

fn outcomes<'v>(view: &'v View<'v>) -> impl Iterator<Item = Outcome> + 'v {
    let cases = view
        .planned(Params::new())
        .filter_map(|params| Case::read(params).ok());
    cases.filter_map(|case| Outcome::of(view, case))
}

pub(super) fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: sentence(view),
        advice: advice(view),
        number: slowest(view),
        facts: facts(view),
        figures: charts(view),
        tables: vec![outcomes_table(view)],
        ..Answer::default()
    }
}

fn named<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> String {
    let names: Vec<String> = outcomes.into_iter().map(Outcome::named).collect();
    names.join(", ")
}

/// Those under a limit.
fn limited(view: &View<'_>) -> Vec<Outcome> {
    outcomes(view)
        .filter(|outcome| outcome.case.lacking != Lacking::Nothing)
        .collect()
}

/// How long the slowest design takes until it serves again.
fn slowest(view: &View<'_>) -> Option<KeyNumber> {
    let number = |outcome: Outcome| {
        let of = "until a new client is answered when the others have left";
        let of = format!("{of}: {}, the slowest", outcome.named());
        view.number(of, &RECOVERY.of(outcome.case), "ns")
    };
    let recovered = limited(view)
        .into_iter()
        .filter(|outcome| outcome.is_met() && outcome.recovers);
    recovered
        .filter_map(number)
        .max_by(|a, b| a.value.total_cmp(&b.value))
}

fn sentence(view: &View<'_>) -> String {
    let limited = limited(view);
    let met: Vec<&Outcome> = limited.iter().filter(|outcome| outcome.is_met()).collect();
    if limited.is_empty() {
        return String::new();
    }
    if met.is_empty() {
        return "No design of this run met its limit: all newcomers whom it serves at once were answered."
            .to_owned();
    }
    let (on, off): (Vec<&Outcome>, Vec<&Outcome>) = met.iter().partition(|outcome| outcome.serves_on());
    const SERVES: &str = "keeps serving the connections that it has when it meets its limit";
    let serving = match (on.is_empty(), off.is_empty()) {
        (_, true) => format!("Each design {SERVES}"),
        (true, false) => format!("No design {SERVES}"),
        (false, false) => format!("Each design {SERVES}, except {}", named(off.iter().copied())),
    };
    let refusing: Vec<&Outcome> = met.iter().copied().filter(|o| o.refused > 0.0).collect();
    let newcomers = match refusing.is_empty() {
        true => "Nobody is refused: who finds no room is connected and waits without a word".to_owned(),
        false => format!("Newcomers are refused by {}", named(refusing)),
    };
    format!(
        "{serving}. {newcomers}. {}{}",
        recovery(view, &met),
        ended(&limited)
    )
}

/// How soon a new client is served once there is room again: on the quickest and the slowest.
fn recovery(view: &View<'_>, met: &[&Outcome]) -> String {
    let never: Vec<&Outcome> = met.iter().copied().filter(|outcome| !outcome.recovers).collect();
    let time = |outcome: &&Outcome| Some((view.estimate(&RECOVERY.of(outcome.case))?, outcome.named()));
    let mut times: Vec<_> = met
        .iter()
        .filter(|outcome| outcome.recovers)
        .filter_map(time)
        .collect();
    times.sort_by(|(a, _), (b, _)| a.value.total_cmp(&b.value));
    let mut says = match &times[..] {
        [] => String::new(),
        [(only, of)] => format!(
            "When they have left, a new client is answered after {} by {of}.",
            only.plain("ns")
        ),
        [(first, _), .., (last, _)] if first.plain("ns") == last.plain("ns") => format!(
            "When they have left, a new client is answered after {}.",
            first.plain("ns")
        ),
        [(first, of), .., (last, by)] => format!(
            "When they have left, a new client is answered after {} ({of}) to {} ({by}).",
            first.plain("ns"),
            last.plain("ns")
        ),
    };
    if !never.is_empty() {
        says += &format!(" Within 3 s no new client is answered by {}.", named(never));
    }
    says.trim_start().to_owned()
}

/// How the servers ended.
fn ended(limited: &[Outcome]) -> String {
    let by_themselves: Vec<&Outcome> = limited.iter().filter(|outcome| !outcome.runs_on).collect();
    let badly: Vec<&Outcome> = limited
        .iter()
        .filter(|outcome| outcome.runs_on && outcome.exit != 0.0)
        .collect();
    let mut says = match by_themselves.is_empty() {
        true => " No server ended by itself.".to_owned(),
        false => format!(" By itself ended {}.", named(by_themselves)),
    };
    if !badly.is_empty() {
        says += &format!(" Asked to end, {} ended with another code than 0.", named(badly));
    }
    says
}

/// What the reader should do.
fn advice(view: &View<'_>) -> String {
    let limited = limited(view);
    let met: Vec<&Outcome> = limited.iter().filter(|outcome| outcome.is_met()).collect();
    if met.is_empty() {
        return String::new();
    }
    let harmed: Vec<&Outcome> = limited.iter().filter(|outcome| !outcome.serves_on()).collect();
    let mut says = String::new();
    if !harmed.is_empty() {
        let mut designs: Vec<&str> = harmed.iter().map(|outcome| outcome.case.design.name()).collect();
        designs.dedup();
        says = format!("Where a limit can be met, do not take {}. ", designs.join(", "));
    }
    if met.iter().any(|outcome| outcome.waiting > 0.0) {
        says += "Set --max-connections below the limits (`ulimit -n`, `ulimit -u`, pids.max), so that the server stops \
                 accepting before it must, and give clients a time-out: being connected does not mean being served.";
    }
    if met.iter().any(|outcome| outcome.case.lacking == Lacking::Units) {
        says += " Where threads or processes may run out, take a design that makes none under load.";
    }
    says.trim().to_owned()
}

/// For each kind of lack: whom it reaches, and of those the slowest to recover.
fn facts(view: &View<'_>) -> Vec<Finding> {
    let of = |lacking: Lacking| {
        let all: Vec<Outcome> = outcomes(view)
            .filter(|outcome| outcome.case.lacking == lacking)
            .collect();
        let (met, spared): (Vec<&Outcome>, Vec<&Outcome>) = all.iter().partition(|outcome| outcome.is_met());
        let names = |of: &[&Outcome]| {
            let names: Vec<&str> = of.iter().map(|outcome| outcome.case.design.name()).collect();
            names.join(", ")
        };
        let times = met.iter().map(|outcome| RECOVERY.of(outcome.case));
        let slowest = view.estimate(&Statistic::function(times.collect::<Vec<_>>(), largest));
        let mut says = match met.is_empty() {
            true => format!("A lack of {} reaches no design here", lacking.words()),
            false => format!("A lack of {} reaches {}", lacking.words(), names(&met)),
        };
        if !spared.is_empty() {
            says += &format!("; it changes nothing for {}", names(&spared));
        }
        says += ".";
        match slowest.filter(|_| !met.is_empty()) {
            Some(slowest) => {
                says += &format!(
                    " The slowest of them answers a new client {} after the newcomers have left.",
                    slowest.show("ns")
                );
                Some(slowest.fact(says, "ns"))
            }
            None => (!all.is_empty()).then(|| Finding::fact(says, None, None, "")),
        }
    };
    [Lacking::Descriptors, Lacking::Units]
        .into_iter()
        .filter_map(of)
        .collect()
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let cases: Vec<Case> = outcomes(view).map(|outcome| outcome.case).collect();
    let by_design = |id: &str, title: &str, of: fn(Case) -> Statistic| {
        let chart = Chart::new(view, id, title).x(Scale::Category, "design");
        Lacking::ALL.into_iter().fold(chart, |chart, lacking| {
            let point = |design: Design| {
                let case = cases
                    .iter()
                    .find(|case| (case.design, case.lacking) == (design, lacking));
                (design.name(), case.map(|&case| of(case)))
            };
            let name = match lacking {
                Lacking::Nothing => lacking.words().to_owned(),
                _ => format!("lack of {}", lacking.words()),
            };
            let is_there = |design: &Design| cases.iter().any(|case| case.design == *design);
            chart.line(name, Design::ALL.into_iter().filter(is_there).map(point))
        })
    };
    let charts = [
        by_design(
            "recovery",
            "From the newcomers' leaving to the next answer",
            |case| RECOVERY.of(case).times(1e-6),
        )
        .y(Scale::Log, "time, ms")
        .note("The limit stays. A server that found nothing left tries again after at most 100 ms."),
        by_design(
            "newcomers",
            "Newcomers that are answered past the limit",
            |case| ANSWERED.of(case).times(100.0),
        )
        .y(Scale::Linear, "newcomers answered, %")
        .note("The others wait, or are refused: the table says which."),
    ];
    charts.into_iter().filter_map(Chart::drawn).collect()
}

fn outcomes_table(view: &View<'_>) -> Table {
    let row = |outcome: Outcome| {
        let case = outcome.case;
        let shown = |metric: Metric| view.shown(&metric.of(case), metric.unit);
        let usual = Case::of(case.design, case.lacking, case.cpus);
        let lacks = match case == usual.server_cpus(case.server_cpus) {
            true => case.lacking.name().to_owned(),
            false => format!(
                "{}: room for {}, {} there, {} come",
                case.lacking.name(),
                case.room,
                case.connections,
                case.newcomers
            ),
        };
        let place = [case.design.name().to_owned(), lacks];
        let recovery = match outcome.recovers {
            true => shown(RECOVERY),
            false => "not within 3 s".to_owned(),
        };
        let figures = [LOST, LATE_SHARE, LONGEST, ANSWERED, REFUSED, WAITING].map(shown);
        let end = match outcome.runs_on {
            true => format!("when asked, with {}", outcome.exit),
            false => format!("by itself, with {}", outcome.exit),
        };
        place.into_iter().chain(figures).chain([recovery, end]).collect()
    };
    table(
        "outcomes",
        "What each design does past the limit",
        "Answers are those to the connections that were there before. Unless said otherwise eight were there, 24 came, and there \
         was room for four more.",
        [
            "design",
            "lacks",
            "answers lost",
            "answers late",
            "longest answer",
            "newcomers answered",
            "refused",
            "waiting",
            "new client answered after",
            "ended",
        ],
        outcomes(view).map(row).collect(),
    )
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::super::EXPERIMENT;
    use super::super::case::plan;
    use super::*;

    /// What becomes of a case.
    #[derive(Clone, Copy)]
    struct Made {
        answered: f64,
        refused: f64,
        lost: f64,
        late: f64,
        recovery_ms: Option<f64>,
        runs_on: bool,
        exit: f64,
    }

    /// As many are answered as there is room for, and nothing else happens.
    fn well(case: Case) -> Made {
        let makes_units = [Design::ThreadPerConnection, Design::ProcessPerConnection].contains(&case.design);
        let meets = match case.lacking {
            Lacking::Nothing => false,
            Lacking::Descriptors => case.design != Design::PreforkedAccept,
            Lacking::Units => makes_units,
        };
        let room = if meets { 4.0 / 24.0 } else { 1.0 };
        Made {
            answered: case.servable().min(room),
            refused: 0.0,
            lost: 0.0,
            late: 0.0,
            recovery_ms: Some(if case.design == Design::Reactor { 2.0 } else { 50.0 }),
            runs_on: true,
            exit: 0.0,
        }
    }

    fn run_of(profile: Profile, made: impl Fn(Case) -> Made) -> View<'static> {
        let cases = plan(&testing::site(profile, 2)).cases.into_iter().map(|planned| {
            let case = Case::read(&planned.params).unwrap();
            let made = made(case);
            let share = |is_so: bool| f64::from(u8::from(is_so));
            let figures = [
                (LOST, Some(made.lost)),
                (LATE_SHARE, Some(made.late)),
                (LONGEST, Some(1e6)),
                (ANSWERED, Some(made.answered)),
                (REFUSED, Some(made.refused)),
                (WAITING, Some(1.0 - made.answered - made.refused)),
                (RECOVERS, Some(share(made.recovery_ms.is_some()))),
                (RECOVERY, made.recovery_ms.map(|ms| ms * 1e6)),
                (RUNS_ON, Some(share(made.runs_on))),
                (EXIT, Some(made.exit)),
            ];
            let figures = figures.into_iter();
            let figures = figures.filter_map(|(metric, value)| Some((metric, vec![value?; 7])));
            testing::case(planned.params, figures)
        });
        testing::view(EXPERIMENT.id, profile, cases.collect())
    }

    /// The answer with what to do.
    fn said(view: &View<'_>) -> String {
        [sentence(view), advice(view)].join(" ").trim().to_owned()
    }

    #[test]
    fn where_all_keep_serving_the_answer_says_so_and_what_to_do() {
        insta::assert_snapshot!(
            said(&run_of(Profile::Standard, well)),
            @"Each design keeps serving the connections that it has when it meets its limit. Nobody is refused: who finds no room is connected and waits without a word. When they have left, a new client is answered after 2.00 ms (reactor without descriptors) to 50.0 ms (proactor without descriptors). No server ended by itself. Set --max-connections below the limits (`ulimit -n`, `ulimit -u`, pids.max), so that the server stops accepting before it must, and give clients a time-out: being connected does not mean being served. Where threads or processes may run out, take a design that makes none under load."
        );
    }

    #[test]
    fn who_loses_answers_refuses_or_ends_is_named() {
        let made = |case: Case| match (case.design, case.lacking) {
            (Design::Reactor, Lacking::Descriptors) => Made {
                lost: 0.4,
                runs_on: false,
                exit: 139.0,
                recovery_ms: None,
                ..well(case)
            },
            (Design::ThreadPerConnection, Lacking::Units) => Made {
                refused: 0.5,
                ..well(case)
            },
            (Design::Proactor, _) => Made {
                exit: 1.0,
                ..well(case)
            },
            _ => well(case),
        };
        insta::assert_snapshot!(
            said(&run_of(Profile::Standard, made)),
            @"Each design keeps serving the connections that it has when it meets its limit, except reactor without descriptors. Newcomers are refused by thread-per-connection without threads or processes. When they have left, a new client is answered after 50.0 ms. Within 3 s no new client is answered by reactor without descriptors. By itself ended reactor without descriptors. Asked to end, proactor without descriptors ended with another code than 0. Where a limit can be met, do not take reactor. Set --max-connections below the limits (`ulimit -n`, `ulimit -u`, pids.max), so that the server stops accepting before it must, and give clients a time-out: being connected does not mean being served. Where threads or processes may run out, take a design that makes none under load."
        );
        let table = outcomes_table(&run_of(Profile::Quick, made));
        let ends: Vec<&[String]> = table.rows[1..].iter().map(|row| &row[8..]).collect();
        assert_eq!(
            ends,
            [
                ["not within 3 s", "by itself, with 139"],
                ["50.0 [50.0, 50.0] ms", "when asked, with 0"]
            ]
        );
    }

    #[test]
    fn answers_are_late_for_a_limit_where_they_are_not_without_one() {
        let late = |of: fn(Case) -> bool| {
            let made = move |case: Case| Made {
                late: if of(case) { 0.2 } else { 0.0 },
                ..well(case)
            };
            said(&run_of(Profile::Standard, made))
        };
        let named = "except thread-per-connection without threads or processes.";
        assert!(
            late(|case| case.lacking == Lacking::Units && case.design == Design::ThreadPerConnection)
                .contains(named)
        );
        // A busy machine makes all late, the control too.
        assert!(!late(|_| true).contains("except"));
    }

    #[test]
    fn a_pool_meets_a_limit_only_where_that_leaves_it_less_than_it_serves_at_once() {
        let case = Case::of(Design::PreforkedAccept, Lacking::Descriptors, 1);
        let outcome = |case: Case, answered: f64| Outcome {
            case,
            harmed: false,
            answered,
            refused: 0.0,
            waiting: 1.0 - answered,
            recovers: true,
            runs_on: true,
            exit: 0.0,
        };
        assert!(!outcome(case, 7.0 / 24.0).is_met());
        assert!(outcome(case, 6.0 / 24.0).is_met());
        assert!(outcome(case.design(Design::Reactor), 7.0 / 24.0).is_met());
        assert!(!outcome(case.lacking(Lacking::Nothing), 0.0).is_met());
    }

    #[test]
    fn a_lack_says_whom_it_reaches_and_whom_not() {
        let found = facts(&run_of(Profile::Paper, well));
        let says: Vec<&str> = found.iter().map(|fact| fact.says.as_str()).collect();
        assert!(
            says[1].starts_with(
                "A lack of threads or processes reaches process-per-connection, thread-per-connection;"
            ),
            "{says:?}"
        );
        assert!(
            says[0].contains("it changes nothing for preforked-accept."),
            "{says:?}"
        );
        assert_eq!(found[1].measured, Some(5e7));
        let charts = charts(&run_of(Profile::Paper, well));
        assert_eq!([charts[0].series.len(), charts[1].series.len()], [3, 3]);
        assert_eq!(charts[0].series[0].points.len(), Design::ALL.len() - 2);
    }

    #[test]
    fn a_value_of_the_users_own_has_a_row_that_names_it() {
        let case = Case::of(Design::Reactor, Lacking::Descriptors, 1).room(1);
        let figures = [
            LOST, LATE_SHARE, ANSWERED, REFUSED, WAITING, RECOVERS, RUNS_ON, EXIT,
        ];
        let figures = figures.map(|metric| (metric, vec![1.0; 7]));
        let view = testing::view(EXPERIMENT.id, Profile::Quick, vec![testing::case(case, figures)]);
        let rows = outcomes_table(&view).rows;
        assert_eq!(rows[0][1], "descriptors: room for 1, 8 there, 24 come");
    }

    #[test]
    fn without_figures_and_without_a_limit_that_is_met_nothing_is_claimed() {
        let empty = testing::view(EXPERIMENT.id, Profile::Quick, Vec::new());
        assert_eq!(sentence(&empty), "");
        assert!(facts(&empty).is_empty() && charts(&empty).is_empty());
        let all = |case| Made {
            answered: 1.0,
            ..well(case)
        };
        assert!(sentence(&run_of(Profile::Quick, all)).starts_with("No design of this run met its limit"));
    }
}
