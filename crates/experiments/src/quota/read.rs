//! What a run says: what a pool sized by the machine costs under a quota, what a quota does below its limit, and what
//! to do.

use threadgauge_lab::prelude::*;
use threadgauge_results::units::{counted, of_cpus};
use threadgauge_results::{Figure, Table};

use super::case::{Case, FULL, HALF, Limit, Load, MEAN, P90, P99, PER_TASK, THROTTLED, halved};

/// Of the best throughput, what a pool may lack and still be as good.
const AS_GOOD: f64 = 0.97;

pub(super) fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: answer(view),
        advice: advice(view),
        number: view.number(
            format!(
                "a thread for each CPU of the machine ÷ one for each of the quota: 99th percentile at full load, {}",
                quota_words(compared(view)[0])
            ),
            &longer_tail(view),
            "ratio",
        ),
        claims: claims(view),
        facts: facts(view),
        comparisons: comparisons(view),
        figures: charts(view),
        tables: vec![advice_table(view), half_table(view), all_table(view)],
        ..Answer::default()
    }
}

/// What the first claim compares: the pool sized by the quota, and the one sized by the machine.
fn compared(view: &View<'_>) -> [Case; 2] {
    halved(view.all_cpus().unwrap_or(1))
}

/// The 99th percentile of a pool sized by the machine over that of one sized by the quota.
fn longer_tail(view: &View<'_>) -> Statistic {
    let [by_quota, by_machine] = compared(view);
    P99.of(by_machine).over(P99.of(by_quota))
}

/// The throughput of a pool over that of another.
fn throughput(pool: Case, other: Case) -> Statistic {
    PER_TASK.of(other).over(PER_TASK.of(pool))
}

/// A case, whatever its number of tasks, which differs by profile.
fn of_any(metric: Metric, case: Case) -> Statistic {
    metric.of(case.any(&["tasks"]))
}

/// What a quota makes of the mean latency below its limit: over that of the same tasks without it.
fn slowed(case: Case) -> Statistic {
    of_any(MEAN, case).over(of_any(MEAN, case.limit(Limit::None)))
}

/// What the second claim compares: a pool sized by the machine.
fn hurt(view: &View<'_>) -> Case {
    let half = Params::new().with("load", Load::Half.name());
    let planned = view.planned(half).filter_map(|params| params.int("cpus")).max();
    HALF.cpus(planned.or(view.all_cpus()).unwrap_or(1))
        .sized_by_machine()
}

fn claims(view: &View<'_>) -> Vec<Claim> {
    vec![
        (
            "pool-beyond-quota-has-longer-tail",
            on_all_cpus(view, |_| longer_tail(view).into()),
        ),
        ("quota-hurts-below-its-limit", slowed(hurt(view)).into()),
    ]
}

/// *A quota of 0.5 CPUs*.
fn quota_words(case: Case) -> String {
    match case.quota_percent {
        100 => "a quota of one CPU".to_owned(),
        _ => format!("a quota of {} CPUs", case.quota_cpus()),
    }
}

fn threads(case: Case) -> String {
    counted(case.threads as usize, "thread")
}

fn answer(view: &View<'_>) -> String {
    let parts = [full_load(view), half_load(view)];
    let says: Vec<String> = parts.into_iter().flatten().collect();
    says.join(" ")
}

fn full_load(view: &View<'_>) -> Option<String> {
    let [by_quota, by_machine] = compared(view);
    let p99 = |case| Some(view.estimate(&P99.of(case))?.plain("ns"));
    Some(format!(
        "Under {} on {}, 99 of 100 tasks of {} ms end within {} by a thread for each CPU of the machine ({}), and within {} by a \
         pool sized by the quota ({}). The larger pool does {} times the work.",
        quota_words(by_quota),
        of_cpus(by_quota.cpus),
        by_quota.task_us as f64 / 1e3,
        p99(by_machine)?,
        threads(by_machine),
        p99(by_quota)?,
        threads(by_quota),
        view.estimate(&throughput(by_machine, by_quota))?.plain("ratio"),
    ))
}

fn half_load(view: &View<'_>) -> Option<String> {
    let case = hurt(view);
    let times = slowed(case);
    let estimate = view.estimate(&times)?;
    let what = format!(
        "Tasks of {} ms that want half of {}",
        case.task_us / 1_000,
        quota_words(case)
    );
    Some(match view.resolved(&times.less_one()) {
        true => format!(
            "{what} take {} times as long as without it.",
            estimate.plain("ratio")
        ),
        false => format!(
            "{what} take {} times as long as without it, so these rounds cannot tell whether it hurts.",
            estimate.show("ratio")
        ),
    })
}

/// The pools of a quota at full load, which rise, with throughput (against the first of them) and 99th percentile.
fn pools(view: &View<'_>, quota_percent: u64) -> Vec<(Case, f64, f64)> {
    let mut pools: Vec<(Case, f64, f64)> = cases(view, Load::Full, Limit::Quota)
        .filter(|case| case.quota_percent == quota_percent)
        .filter_map(|case| {
            let rate = 1.0 / view.value(&PER_TASK.of(case))?;
            Some((case, rate, view.value(&P99.of(case))?))
        })
        .collect();
    pools.sort_by_key(|(case, ..)| case.threads);
    pools
}

/// The pool to take under a quota at full load: of those that cannot be told to do less than the one that does most, as
/// far as that matters, the one with the shortest tail. None where there is no choice.
fn best(view: &View<'_>, quota_percent: u64) -> Option<Case> {
    let pools = pools(view, quota_percent);
    let (most, ..) = pools.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let does_less = |case: Case| {
        let share = view.estimate(&throughput(case, *most));
        share.is_some_and(|share| share.ci95.map_or(share.value, |[_, high]| high) < AS_GOOD)
    };
    let good = pools.iter().filter(|(case, ..)| !does_less(*case));
    let (best, ..) = good.min_by(|a, b| a.2.total_cmp(&b.2))?;
    (pools.len() > 1).then_some(*best)
}

fn advice(view: &View<'_>) -> String {
    let [by_quota, by_machine] = compared(view);
    let tail = longer_tail(view);
    let is_longer = view.value(&tail) > Some(1.0) && view.resolved(&tail.clone().less_one());
    let mut says = Vec::new();
    if let Some(times) = view.estimate(&tail).filter(|_| is_longer) {
        says.push(format!(
            "Size a pool that computes by the quota, a thread for each whole CPU of it ({}), and not by the machine ({}): its \
             99th percentile is {} times shorter.",
            threads(by_quota),
            threads(by_machine),
            times.plain("ratio")
        ));
    }
    let case = hurt(view);
    let slower = slowed(case);
    if view.value(&slower) > Some(1.0) && view.resolved(&slower.less_one()) {
        says.push(format!(
            "Where latency counts, grant a quota whose share of a period (here {} ms) is several times what comes at once, \
             or none.",
            case.quota_percent
        ));
    }
    says.join(" ")
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let [by_quota, by_machine] = compared(view);
    let work = |pool: Case| {
        let times = view.estimate(&throughput(pool, by_quota))?;
        let says = format!(
            "Under {} a pool of {} does {} times the work of {}.",
            quota_words(pool),
            threads(pool),
            times.show("ratio"),
            threads(by_quota)
        );
        Some(times.fact(says, "ratio"))
    };
    let tail = |pool: Case| {
        let times = view.estimate(&P99.of(pool).over(P99.of(by_quota)))?;
        let says = format!(
            "Under {} the slowest of a hundred tasks of a pool of {} take {} times as long as those of {}.",
            quota_words(pool),
            threads(pool),
            times.show("ratio"),
            threads(by_quota)
        );
        Some(times.fact(says, "ratio"))
    };
    let largest = by_machine.threads(4 * by_machine.cpus);
    let quotas = cases(view, Load::Half, Limit::Quota);
    let below = quotas
        .filter(|case| *case == case.sized_by_machine())
        .filter_map(|case| {
            let times = view.estimate(&slowed(case))?;
            let says = format!(
                "Tasks of {} ms that want half of {} take {} times as long as without it.",
                case.task_us as f64 / 1e3,
                quota_words(case),
                times.show("ratio")
            );
            Some(times.fact(says, "ratio"))
        });
    let full = [work(by_machine), work(largest), tail(by_machine), tail(largest)];
    full.into_iter().flatten().chain(below).collect()
}

fn comparisons(view: &View<'_>) -> Vec<Pair> {
    let is_planned = |case: &Case| view.planned(*case).next().is_some();
    let free = cases(view, Load::Half, Limit::None).map(|free| [free, free.limit(Limit::Quota)]);
    let pairs = [compared(view)].into_iter().chain(free);
    pairs
        .filter(|pair| pair.iter().all(is_planned))
        .map(|[a, b]| Pair::of(&MEAN.of(a), &MEAN.of(b)))
        .collect()
}

/// The planned cases of a load, in plan order.
fn cases<'v>(view: &'v View<'_>, load: Load, limit: Limit) -> impl Iterator<Item = Case> + 'v {
    let all = view
        .planned(Params::new())
        .filter_map(|params| Case::read(params).ok());
    all.filter(move |case| case.load == load && case.limit == limit)
}

/// What several cases have in common, each once and in order.
fn distinct<T: Ord>(cases: impl Iterator<Item = Case>, of: impl Fn(Case) -> T) -> Vec<T> {
    let mut all: Vec<T> = cases.map(of).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The quotas of a load, in percent of a CPU, which rise.
fn quotas(view: &View<'_>, load: Load) -> Vec<u64> {
    distinct(cases(view, load, Limit::Quota), |case| case.quota_percent)
}

/// A chart over the pool's threads with a line for each quota.
fn by_pool<'v>(view: &View<'_>, chart: Chart<'v>, load: Load, of: impl Fn(Case) -> Statistic) -> Chart<'v> {
    let chart = chart.x(Scale::Log, "threads of the pool").at_least(2);
    quotas(view, load).into_iter().fold(chart, |chart, quota| {
        let of_quota = cases(view, load, Limit::Quota).filter(|case| case.quota_percent == quota);
        let mut pools: Vec<Case> = of_quota
            .filter(|case| load == Load::Full || case.task_us == HALF.task_us)
            .collect();
        pools.sort_by_key(|case| case.threads);
        let name = quota_words(FULL.quota_percent(quota));
        chart.line(name, pools.into_iter().map(|case| (case.threads, of(case))))
    })
}

fn charts(view: &View<'_>) -> Vec<Figure> {
    let cpus = of_cpus(view.all_cpus().unwrap_or(1));
    let ms = |metric: Metric| move |case| metric.of(case).times(1e-6);
    let per_second = |case| Statistic::function([PER_TASK.of(case)], |v| 1e9 / v[0]);
    let tail = by_pool(
        view,
        Chart::new(
            view,
            "tail",
            "The slowest of a hundred tasks, by the size of the pool",
        ),
        Load::Full,
        ms(P99),
    );
    let rate = by_pool(
        view,
        Chart::new(view, "throughput", "Throughput, by the size of the pool"),
        Load::Full,
        per_second,
    );
    let half = by_pool(
        view,
        Chart::new(
            view,
            "half",
            "Mean latency at half of a quota, by the size of the pool",
        ),
        Load::Half,
        ms(MEAN),
    );
    let charts = [
        tail.y(Scale::Log, "99th percentile, ms").note(format!(
            "Always busy, tasks that compute 1 ms, {cpus}. Beyond the quota's CPUs all threads stand still together until the \
             next period."
        )),
        rate.y(Scale::Linear, "tasks a second").note(format!(
            "Always busy, tasks that compute 1 ms, {cpus}. More threads than the quota has CPUs do no more work."
        )),
        half.y(Scale::Log, "mean latency, ms").note(format!(
            "Tasks that compute {} ms, half as many as the quota grants, {cpus}.",
            HALF.task_us / 1_000
        )),
        by_length(view),
    ];
    charts.into_iter().filter_map(Chart::drawn).collect()
}

/// What a quota does below its limit, by how long a task computes.
fn by_length<'v>(view: &'v View<'v>) -> Chart<'v> {
    let of = hurt(view);
    let like = cases(view, Load::Half, Limit::Quota)
        .filter(|case| case.quota_percent == of.quota_percent && case.threads == of.threads);
    let mut lengths: Vec<Case> = like.collect();
    lengths.sort_by_key(|case| case.task_us);
    let ms = |case: Case| case.task_us as f64 / 1e3;
    let line = |limit| {
        lengths
            .iter()
            .map(move |case| (ms(*case), MEAN.of(case.limit(limit)).times(1e-6)))
    };
    Chart::new(view, "length", "Half of a quota, by how long a task computes")
        .note(format!(
            "{}, of which the tasks want half, by {}. Its share of a period is {} ms.",
            threadgauge_results::units::capitalised(&quota_words(of)),
            threads(of),
            of.quota_percent
        ))
        .x(Scale::Log, "a task computes, ms")
        .y(Scale::Log, "mean latency, ms")
        .at_least(2)
        .line("with the quota", line(Limit::Quota))
        .line("without", line(Limit::None))
}

/// What to do under each quota.
fn advice_table(view: &View<'_>) -> Table {
    let row = |quota: u64| {
        let pools = pools(view, quota);
        let any = pools.first()?.0;
        let figures = |case: Case| {
            let per_second = Statistic::function([PER_TASK.of(case)], |v| 1e9 / v[0]);
            let rate = view
                .value(&per_second)
                .map_or_else(String::new, |rate| format!("{rate:.0}"));
            let p99 = view
                .estimate(&P99.of(case))
                .map_or_else(String::new, |of| of.plain("ns"));
            match (rate.is_empty(), p99.is_empty()) {
                (true, true) => String::new(),
                _ => format!("{}: {rate} tasks/s, {p99}", threads(case)),
            }
        };
        let what = best(view, quota).map_or_else(String::new, |case| format!("take {}", threads(case)));
        let quota = quota_words(any).replacen("a quota of ", "", 1);
        Some(vec![
            quota,
            figures(any.sized_by_quota()),
            figures(any.sized_by_machine()),
            what,
        ])
    };
    table(
        "size",
        "The pool to take under a quota",
        "Always busy, tasks that compute 1 ms: throughput and 99th percentile. Taken is the pool with the shortest tail of those \
         that cannot be told to do less than 97 % of the most work.",
        [
            "quota",
            "sized by the quota",
            "sized by the machine",
            "what to do",
        ],
        quotas(view, Load::Full).into_iter().filter_map(row).collect(),
    )
}

/// What a quota does below its limit.
fn half_table(view: &View<'_>) -> Table {
    let mut half: Vec<Case> = cases(view, Load::Half, Limit::Quota).collect();
    half.sort_by_key(|case| (case.quota_percent, case.task_us, case.threads));
    let has_p90 = half.iter().any(|case| view.measured(&P90.of(*case)));
    let rows = half.into_iter().map(|case| {
        let shown = |metric: Metric, case: Case| view.shown(&metric.of(case), metric.unit);
        let mut row = vec![
            quota_words(case).replacen("a quota of ", "", 1),
            format!("{} ms", case.task_us as f64 / 1e3),
            threads(case),
            shown(MEAN, case),
            shown(MEAN, case.limit(Limit::None)),
            shown(THROTTLED, case),
        ];
        row.extend(has_p90.then(|| shown(P90, case)));
        row
    });
    let columns = [
        "quota",
        "a task computes",
        "pool",
        "mean latency",
        "without the quota",
        "periods throttled",
    ];
    table(
        "half",
        "Half of what a quota grants",
        "Tasks come at random times; latency is from when one was due.",
        columns.into_iter().chain(has_p90.then_some("90th percentile")),
        rows.filter(|row| row[3..].iter().any(|cell| !cell.is_empty()))
            .collect(),
    )
}

/// Every pool at full load.
fn all_table(view: &View<'_>) -> Table {
    let mut full: Vec<Case> = cases(view, Load::Full, Limit::Quota).collect();
    full.sort_by_key(|case| (case.quota_percent, case.threads));
    let rows = full.into_iter().map(|case| {
        let shown = |metric: Metric| view.shown(&metric.of(case), metric.unit);
        vec![
            quota_words(case).replacen("a quota of ", "", 1),
            threads(case),
            shown(PER_TASK),
            shown(MEAN),
            shown(P99),
            shown(THROTTLED),
        ]
    });
    table(
        "full",
        "Always busy",
        "Tasks that compute 1 ms; latency is from when a thread takes one.",
        [
            "quota",
            "pool",
            "time per task",
            "mean latency",
            "99th percentile",
            "periods throttled",
        ],
        rows.filter(|row| row[2..].iter().any(|cell| !cell.is_empty()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::EXPERIMENT;
    use super::super::case::plan;
    use super::*;
    use threadgauge_lab::testing::{self, verdict};
    use threadgauge_lab::view::ViewCase;
    use threadgauge_results::Verdict;

    /// What a case takes by arithmetic: threads that compute stand still together once a period's time is used up.
    fn by_arithmetic(case: Case) -> Vec<(Metric, f64)> {
        let busy = case.threads.min(case.cpus) as f64;
        let stops = case.limit == Limit::Quota && busy > case.quota_cpus();
        let still_ns = if stops {
            1e8 * (1.0 - case.quota_cpus() / busy)
        } else {
            0.0
        };
        let task_ns = case.task_us as f64 * 1e3;
        match case.load {
            Load::Full => vec![
                (PER_TASK, task_ns / case.quota_cpus().min(busy)),
                (MEAN, task_ns * case.threads as f64 / case.quota_cpus().min(busy)),
                (P99, task_ns + still_ns),
                (THROTTLED, if stops { 1.0 } else { 0.0 }),
            ],
            Load::Half => vec![
                (MEAN, task_ns + if task_ns > 1e7 { still_ns / 2.0 } else { 0.0 }),
                (THROTTLED, 0.1),
            ],
        }
    }

    fn view_of(profile: Profile, cpus: usize, figures: impl Fn(Case) -> Vec<(Metric, f64)>) -> View<'static> {
        let cases = plan(&testing::site(profile, cpus))
            .cases
            .into_iter()
            .map(|planned| {
                let case = Case::read(&planned.params).unwrap();
                let spread = |value: f64| {
                    (0..10)
                        .map(|round| value * (1.0 + 0.001 * f64::from(round)))
                        .collect()
                };
                let figures = figures(case)
                    .into_iter()
                    .map(|(metric, value)| (metric, spread(value)));
                testing::case(planned.params, figures.collect::<Vec<(Metric, Vec<f64>)>>())
            });
        testing::view("quota", profile, cases.collect::<Vec<ViewCase>>())
    }

    fn verdicts(view: &View<'_>) -> [Option<Verdict>; 2] {
        let answer = read(view);
        let of = |at: usize| {
            let (id, test) = &answer.claims[at];
            verdict(test, id, view)
        };
        [of(0), of(1)]
    }

    #[test]
    fn on_two_cpus_the_tail_of_a_pool_by_the_machine_is_half_a_period_longer() {
        let view = view_of(Profile::Standard, 2, by_arithmetic);
        let Answer {
            answer,
            advice,
            number,
            ..
        } = read(&view);
        insta::assert_snapshot!(answer, @"Under a quota of one CPU on 2 CPUs, 99 of 100 tasks of 1 ms end within 51.2 ms by a thread for each CPU of the machine (2 threads), and within 1.00 ms by a pool sized by the quota (1 thread). The larger pool does 1.00 times the work. Tasks of 20 ms that want half of a quota of 0.5 CPUs take 2.88 times as long as without it.");
        insta::assert_snapshot!(advice, @"Size a pool that computes by the quota, a thread for each whole CPU of it (1 thread), and not by the machine (2 threads): its 99th percentile is 51.0 times shorter. Where latency counts, grant a quota whose share of a period (here 50 ms) is several times what comes at once, or none.");
        assert!((number.unwrap().value - 51.0).abs() < 0.1);
        assert_eq!(verdicts(&view), [Some(Verdict::Holds); 2]);
    }

    #[test]
    fn where_a_quota_does_nothing_both_sayings_are_refuted_and_nothing_is_advised() {
        let as_if_none = |case: Case| by_arithmetic(case.limit(Limit::None).quota_percent(100 * case.cpus));
        let view = view_of(Profile::Standard, 2, as_if_none);
        assert_eq!(verdicts(&view), [Some(Verdict::DoesNotHold); 2]);
        assert_eq!(read(&view).advice, "");
        assert!(
            read(&view)
                .answer
                .ends_with("so these rounds cannot tell whether it hurts.")
        );
    }

    #[test]
    fn quick_decides_the_first_and_one_cpu_cannot_test_it() {
        let quick = view_of(Profile::Quick, 2, by_arithmetic);
        assert_eq!(
            verdicts(&quick),
            [Some(Verdict::Holds), Some(Verdict::NotMeasured)]
        );
        let one = testing::changed(view_of(Profile::Standard, 1, by_arithmetic), |cases| {
            for case in cases.iter_mut().filter(|case| case.params.int("cpus") == Some(2)) {
                *case = testing::lacking(case.params.clone(), Lack::cpus(2, 1));
            }
        });
        assert_eq!(verdicts(&one)[0], Some(Verdict::NotTestable));
        assert!(verdicts(&one)[1].is_some_and(|verdict| verdict != Verdict::NotTestable));
    }

    #[test]
    fn without_a_group_neither_can_be_tested() {
        let lacking = testing::changed(view_of(Profile::Standard, 2, by_arithmetic), |cases| {
            for case in cases.iter_mut() {
                *case = testing::lacking(case.params.clone(), Lack::new(Need::System, "no group"));
            }
        });
        assert_eq!(verdicts(&lacking), [Some(Verdict::NotTestable); 2]);
        let Answer {
            answer,
            advice,
            figures,
            ..
        } = read(&lacking);
        assert_eq!((&*answer, &*advice, figures.len()), ("", "", 0));
    }

    #[test]
    fn each_quota_has_a_line_and_a_row_that_ends_in_what_to_do() {
        let answer = read(&view_of(Profile::Standard, 2, by_arithmetic));
        let tail = &answer.figures[0];
        let lines: Vec<&str> = tail.series.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(
            lines,
            ["a quota of 0.5 CPUs", "a quota of one CPU", "a quota of 2 CPUs"]
        );
        let pools: Vec<f64> = tail.series[1].points.iter().map(|point| point.x).collect();
        assert_eq!(pools, [1.0, 2.0, 4.0, 8.0]);
        assert!((tail.series[1].points[1].y - 51.0).abs() < 0.5);
        let rows: Vec<String> = answer.tables[0].rows.iter().map(|row| row.join(" | ")).collect();
        insta::assert_snapshot!(rows.join("\n"), @r"
        0.5 CPUs | 1 thread: 498 tasks/s, 51.2 ms | 2 threads: 498 tasks/s, 76.3 ms | take 1 thread
        one CPU | 1 thread: 996 tasks/s, 1.00 ms | 2 threads: 996 tasks/s, 51.2 ms | take 1 thread
        2 CPUs | 2 threads: 1991 tasks/s, 1.00 ms | 2 threads: 1991 tasks/s, 1.00 ms | take 2 threads
        ");
    }

    #[test]
    fn a_pool_that_does_less_is_not_taken_for_its_shorter_tail() {
        let view = view_of(Profile::Standard, 2, by_arithmetic);
        // One thread cannot use two CPUs, and more than two need no more.
        assert_eq!(best(&view, 200).map(|case| case.threads), Some(2));
        assert_eq!(best(&view, 100).map(|case| case.threads), Some(1));
    }

    #[test]
    fn the_texts_are_those_of_the_grid() {
        let all = [EXPERIMENT.how, EXPERIMENT.traps.join(" ").as_str()].join(" ");
        assert!(all.contains("100 ms") && all.contains("five at least"));
        assert_eq!(threadgauge_machine::QUOTA_PERIOD, Duration::from_millis(100));
        assert_eq!(
            (FULL.task_us, HALF.task_us),
            (1_000, 20_000),
            "as notes of charts say"
        );
    }
}
