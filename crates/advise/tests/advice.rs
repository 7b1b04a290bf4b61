//! Advice on whole workloads: the questions that users bring, and the sources' rules for choosing.

use threadgauge_advise::choose::Goal;
use threadgauge_advise::design::Design;
use threadgauge_advise::quantity::{Bytes, Count, Rate, Share, Spread};
use threadgauge_advise::rules::Rule;
use threadgauge_advise::workload::{Language, Lengths, Uncertain, Useful};
use threadgauge_advise::{Advice, Basis, Description, Machine, Workload, advise, text};

fn machine(cpus: f64) -> Machine {
    Machine {
        cpus,
        quota: None,
        memory_bytes: None,
    }
}

fn ask(said: &Description, machine: Machine) -> Advice {
    let workload = Workload::of(said).expect("it makes sense");
    advise(&workload, &machine, &Basis::shipped("No run is here"), None)
}

fn tasks(count: usize, cpu_s: f64, wait_s: f64) -> Description {
    Description {
        tasks: Some(Count(count)),
        cpu_s: Some(cpu_s),
        wait_s: Some(wait_s),
        ..Description::default()
    }
}

fn rate(per_second: f64, cpu_s: f64, wait_s: f64) -> Description {
    Description {
        rate: Some(Rate { per_second }),
        cpu_s: Some(cpu_s),
        wait_s: Some(wait_s),
        ..Description::default()
    }
}

fn design(advice: &Advice) -> Option<(Design, usize)> {
    let advised = advice.advised.as_ref()?;
    Some((advised.candidate.design, advised.candidate.at_once))
}

/// What a rule says, whether it holds.
#[track_caller]
fn said(advice: &Advice, rule: Rule) -> bool {
    let said = advice.rules.iter().find(|said| said.rule == rule);
    let said = said.unwrap_or_else(|| panic!("{rule:?} says nothing: {:#?}", advice.rules));
    assert!(
        said.says.chars().any(|c| c.is_ascii_digit()) || rule == Rule::Both || rule == Rule::TurnaroundCounts
    );
    said.holds
}

#[test]
fn thumbnails_by_the_hour_need_one_worker() {
    let advice = ask(&rate(1_000.0 / 3_600.0, 0.2, 0.03), machine(2.0));
    assert!(!advice.matters.does);
    assert_eq!(design(&advice), Some((Design::Serial, 1)));
    insta::assert_snapshot!("thumbnails", text(&advice));
}

#[test]
fn fetches_are_waited_for_at_once() {
    let said = Description {
        cpu_s: None,
        ..tasks(500, 0.0, 0.12)
    };
    let advice = ask(&said, machine(2.0));
    assert!(advice.matters.does);
    insta::assert_snapshot!("fetches", text(&advice));
}

#[test]
fn a_chat_of_5000_clients_needs_no_thread_for_each() {
    let said = Description {
        connections: Some(Count(5_000)),
        ..Description::default()
    };
    let advice = ask(&said, machine(2.0));
    assert_eq!(design(&advice), Some((Design::Loops, 1)));
    insta::assert_snapshot!("chat", text(&advice));
}

#[test]
fn a_container_is_sized_by_its_quota() {
    let said = Description {
        now: Some(Count(97)),
        language: Some(Language::Python),
        ..rate(40.0, 0.025, 0.02)
    };
    let container = Machine {
        quota: Some(1.5),
        ..machine(96.0)
    };
    let workload = Workload::of(&said).unwrap();
    let advice = advise(
        &workload,
        &container,
        &Basis::shipped("No run is here"),
        Some("gunicorn"),
    );
    let (_, at_once) = design(&advice).unwrap();
    assert!(at_once <= 6, "{at_once}");
    insta::assert_snapshot!("container", text(&advice));
}

#[test]
fn what_was_observed_widens_the_intervals_and_may_leave_the_answer_open() {
    let told = Workload::of(&rate(10.0, 0.001, 0.001)).unwrap();
    let of = |uncertain| {
        let workload = Workload {
            uncertain,
            ..told.clone()
        };
        advise(&workload, &machine(2.0), &Basis::shipped("No run is here"), None)
    };
    let observed = |cpu: [f64; 2], most_wait_s| {
        of(Some(Uncertain {
            cpu,
            wait: [0.5, 1.5],
            most_wait_s,
        }))
    };
    let [surely, little] = [of(None), observed([0.9, 1.1], Some(0.002))];
    let widths = [&surely, &little].map(|advice| {
        let mean_s = advice.advised.as_ref().unwrap().mean_s.unwrap();
        mean_s.high - mean_s.low
    });
    assert!(widths[1] > 3.0 * widths[0], "{widths:?}");
    assert_eq!(design(&surely), design(&little));
    assert_eq!((&surely.undecided, &little.undecided), (&None, &None));
    let undecided = |advice: &Advice| advice.undecided.clone().unwrap_or_default();
    let by_wait = observed([0.9, 1.1], Some(0.05));
    let says = undecided(&by_wait);
    assert!(says.contains("50.0 ms of waiting for each task: "), "{says}");
    assert!(text(&by_wait).contains(&says), "{}", text(&by_wait));
    let by_cpu = observed([0.9, 300.0], None);
    let says = undecided(&by_cpu);
    assert!(
        says.contains("300 ms of CPU time") && says.contains("no design keeps up"),
        "{says}"
    );
}

#[test]
fn who_asks_for_more_than_there_is_is_told_how_much_there_is() {
    let advice = ask(&rate(100.0, 0.05, 0.0), machine(2.0));
    assert_eq!(design(&advice), None);
    assert!(
        advice
            .says
            .contains("No way here does 100 tasks a second: the most is"),
        "{}",
        advice.says
    );
    assert!(
        advice.matters.says.contains("Nothing here keeps up"),
        "{}",
        advice.matters.says
    );
    let _ = text(&advice);
}

#[test]
fn a_goal_is_met_by_the_fewest_that_meet_it() {
    let of = |goal_s| {
        let said = Description {
            goal_s: Some(goal_s),
            ..rate(20.0, 0.02, 0.1)
        };
        ask(&said, machine(4.0))
    };
    let (loose, strict) = (of(2.0), of(0.2));
    assert_eq!(loose.goal, Goal::InTime);
    let [few, many] = [&loose, &strict].map(|advice| advice.advised.as_ref().unwrap());
    assert!(few.candidate.at_once < many.candidate.at_once, "{few:?} {many:?}");
    assert!(few.p99_s.unwrap().high <= 2.0);
}

#[test]
fn isolation_memory_and_languages_decide_what_may_be_advised() {
    let isolated = Description {
        isolate: true,
        ..tasks(40, 0.1, 0.0)
    };
    assert_eq!(
        design(&ask(&isolated, machine(2.0))),
        Some((Design::Processes, 2))
    );
    let python = Description {
        language: Some(Language::Python),
        ..tasks(40, 0.1, 0.0)
    };
    assert_eq!(design(&ask(&python, machine(2.0))), Some((Design::Processes, 2)));
    let large = Description {
        memory: Some(Bytes(1e9)),
        ..tasks(400, 0.001, 0.1)
    };
    let small_machine = Machine {
        memory_bytes: Some(4e9),
        ..machine(2.0)
    };
    let (_, at_once) = design(&ask(&large, small_machine)).unwrap();
    assert_eq!(at_once, 3);
}

#[test]
fn limits_of_others_bound_how_many_help() {
    let limited = Description {
        limit: Some(Count(10)),
        ..tasks(500, 0.001, 0.1)
    };
    let advice = ask(&limited, machine(2.0));
    let (_, at_once) = design(&advice).unwrap();
    assert!((10..=16).contains(&at_once), "{at_once}");
    // 500 × 100 ms, ten at once.
    assert!((advice.matters.least_s.unwrap() - 5.0).abs() < 1e-9);
}

#[test]
fn a_rule_of_thumb_is_charged_what_it_costs() {
    // 8 threads on a quota of 1 CPU, at work all the time, share periods of 100 ms with each other.
    let container = Machine {
        quota: Some(1.0),
        ..machine(8.0)
    };
    let advice = ask(&rate(30.0, 0.03, 0.0), container);
    let cpus = advice
        .thumbs
        .iter()
        .find(|thumb| thumb.at_once == Some(8))
        .unwrap();
    assert!(cpus.p99_s.is_some());
    let alone = ask(&tasks(200, 0.001, 0.1), machine(2.0));
    let cpus = alone
        .thumbs
        .iter()
        .find(|thumb| thumb.rule == "as many as CPUs")
        .unwrap();
    assert!(cpus.regret.unwrap() > 1.0, "{:?}", alone.thumbs);
}

#[test]
fn what_ends_within_the_first_periods_of_a_quota_is_doubted() {
    let quota = Machine {
        quota: Some(0.36),
        ..machine(1.0)
    };
    let short = ask(&tasks(53, 0.000_6, 0.016), quota);
    assert!(
        short
            .doubt
            .is_some_and(|doubt| doubt.contains("of what the quota allows"))
    );
    assert_eq!(ask(&tasks(530, 0.000_6, 0.016), quota).doubt, None);
}

#[test]
fn what_misses_its_goal_or_does_not_fit_says_so() {
    let goal = Description {
        goal_s: Some(0.05),
        ..rate(40.0, 0.025, 0.02)
    };
    let one_and_a_half = Machine {
        quota: Some(1.5),
        ..machine(2.0)
    };
    let missed = ask(&goal, one_and_a_half).says;
    assert!(
        missed.contains("Nothing here meets the goal of 50.0 ms"),
        "{missed}"
    );
    let easy = Description {
        goal_s: Some(5.0),
        ..goal
    };
    let easy = ask(&easy, one_and_a_half).says;
    assert!(
        !easy.contains("Nothing here") && easy.contains("the fewest that meet the goal"),
        "{easy}"
    );
    let large = Description {
        isolate: true,
        memory: Some(Bytes(3e9)),
        ..rate(20.0, 0.02, 0.0)
    };
    let small = Machine {
        memory_bytes: Some(2e9),
        ..machine(2.0)
    };
    let large = ask(&large, small);
    assert!(large.says.contains("(--isolate) fits"), "{}", large.says);
    assert!(large.matters.says.contains("memory"), "{}", large.matters.says);
    let seldom = Description {
        limit_rate: Some(Rate { per_second: 1.0 }),
        ..rate(5.0, 0.001, 0.002)
    };
    let seldom = ask(&seldom, machine(2.0));
    assert!(seldom.says.contains("--limit-rate"), "{}", seldom.says);
}

#[test]
fn who_keeps_nobody_waiting_is_no_answer_and_nothing_rests_on_what_was_refuted() {
    let over = Description {
        isolate: true,
        language: Some(Language::Node),
        ..rate(50.0, 0.02, 0.08)
    };
    let text = text(&ask(&over, machine(0.5)));
    assert!(!text.contains('∞'), "{text}");
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../../runs/2026-11-24-standard");
    let basis = Basis::read(std::path::Path::new(run), None).unwrap();
    let of_all = basis.sayings(&["process-cpu-use-lower"]);
    assert_eq!(of_all[0].verdict, Some(threadgauge_results::Verdict::DoesNotHold));
    let advice = advise(&Workload::of(&over).unwrap(), &machine(2.0), &basis, None);
    assert_eq!(design(&advice).map(|(design, _)| design), Some(Design::Processes));
    assert!(
        advice
            .rests_on
            .iter()
            .all(|saying| saying.claim != "process-cpu-use-lower")
    );
    assert!(!advice.rests_on.is_empty());
}

#[test]
fn processes_take_what_their_language_takes() {
    let of = |language| {
        let said = Description {
            language: Some(language),
            isolate: true,
            ..tasks(40, 0.02, 0.0)
        };
        let advice = ask(&said, machine(2.0));
        advice.advised.expect("something keeps up").memory_bytes.value
    };
    assert!(of(Language::Python) > 10.0 * of(Language::C));
}

#[test]
fn something_would_change_most_answers() {
    let advice = ask(&rate(1_000.0 / 3_600.0, 0.2, 0.03), machine(2.0));
    assert!(!advice.changes.is_empty());
}

#[test]
fn each_rule_of_the_sources_is_said_of_a_workload_or_refuted() {
    let interactive = Description {
        interactive: true,
        ..tasks(20, 0.1, 0.0)
    };
    let one_cpu = ask(&interactive, machine(1.0));
    assert!(said(&one_cpu, Rule::BackgroundFirst));
    assert!(said(&one_cpu, Rule::OneForComputing));
    assert_eq!(design(&one_cpu), Some((Design::Background, 1)));
    // On two CPUs the rule of one background thread is refuted by figures.
    let two_cpus = ask(&interactive, machine(2.0));
    assert!(!said(&two_cpus, Rule::OneForComputing));
    assert_eq!(design(&two_cpus), Some((Design::Threads, 2)));

    let long = Description {
        interactive: true,
        ..tasks(3, 10.0, 0.0)
    };
    assert!(said(&ask(&long, machine(1.0)), Rule::LongHasItsOwn));

    let waits = ask(&tasks(500, 0.001, 0.12), machine(2.0));
    assert!(said(&waits, Rule::WaitingBeside));
    assert!(design(&waits).unwrap().1 > 10);

    let each = |lengths| Description {
        spread: Some(Spread(0.8)),
        useful: Some(Useful::Each),
        lengths: Some(lengths),
        ..tasks(40, 2.0, 0.0)
    };
    let known = ask(&each(Lengths::Known), machine(1.0));
    assert!(said(&known, Rule::ShortestFirst) && said(&known, Rule::TurnaroundCounts));
    assert!(
        known
            .advised
            .as_ref()
            .unwrap()
            .says
            .contains("the shortest first"),
        "{}",
        known.says
    );
    assert_eq!(design(&known), Some((Design::Serial, 1)));
    let range = ask(&each(Lengths::Range), machine(1.0));
    assert!(said(&range, Rule::WorstCase));
    let together = Description {
        useful: Some(Useful::Together),
        ..each(Lengths::Unknown)
    };
    assert!(said(&ask(&together, machine(1.0)), Rule::TurnaroundCounts));

    let depend = Description {
        depend: true,
        ..tasks(40, 0.1, 0.0)
    };
    let dependent = ask(&depend, machine(4.0));
    assert!(said(&dependent, Rule::DependentSerial));
    assert_eq!(design(&dependent), Some((Design::Serial, 1)));

    let locked = Description {
        lock: Some(Share(0.6)),
        ..tasks(200, 0.005, 0.0)
    };
    let locked = ask(&locked, machine(4.0));
    assert!(said(&locked, Rule::LeastSynchronisation));
    assert!(locked.doubt.is_some());

    let computes = ask(&tasks(40, 0.1, 0.0), machine(2.0));
    // An interruption costs too little here for this to hold.
    assert!(!said(&computes, Rule::LongUninterrupted));
    // Processes compute as well.
    assert!(!said(&computes, Rule::MuchComputation));
    assert!(said(&computes, Rule::SeveralMachines) && said(&computes, Rule::KnownBest));
    assert!(said(&computes, Rule::OnlyWhereTheyHelp));

    let comes = Description {
        come_and_go: true,
        ..rate(2_000.0, 0.000_2, 0.0)
    };
    let comes = ask(&comes, machine(2.0));
    assert!(said(&comes, Rule::ComeAndGo));
    assert_eq!(design(&comes).map(|(design, _)| design), Some(Design::ThreadEach));

    let stages = Description {
        stages: Some(Count(3)),
        passes: Some(Bytes(65_536.0)),
        ..rate(80.0, 0.02, 0.0)
    };
    let weakly = ask(&stages, machine(4.0));
    assert!(said(&weakly, Rule::Related) && said(&weakly, Rule::Both));
    assert_eq!(design(&weakly).map(|(design, _)| design), Some(Design::Stages));
    let strongly = Description {
        lock: Some(Share(0.1)),
        ..stages
    };
    let strongly = ask(&strongly, machine(4.0));
    assert!(said(&strongly, Rule::Related));
    assert_eq!(design(&strongly).map(|(design, _)| design), Some(Design::Threads));

    let outgrows = Description {
        outgrow: true,
        ..tasks(40, 0.1, 0.0)
    };
    let outgrows = ask(&outgrows, machine(2.0));
    assert!(said(&outgrows, Rule::SeveralMachines));
    assert_eq!(design(&outgrows), Some((Design::Processes, 2)));
}

/// So that a list of rules and the test above cannot part.
#[test]
fn each_rule_is_in_the_test_above() {
    let test = include_str!("advice.rs");
    for rule in Rule::ALL {
        assert!(test.contains(&format!("Rule::{rule:?})")), "{rule:?}");
    }
}

#[test]
fn the_same_question_has_the_same_answer_and_an_answer_is_json() {
    let said = rate(10.0, 0.02, 0.05);
    let [a, b] = [(); 2].map(|()| ask(&said, machine(2.0)));
    assert_eq!(a, b);
    let json = serde_json::to_value(&a).unwrap();
    assert_eq!(json.pointer("/goal").unwrap(), "response");
    assert!(json.pointer("/advised/mean_s/value").is_some());
}
