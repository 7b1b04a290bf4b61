//! What an experiment declares of a published claim: the statistic that its rule is about.
//!
//! A [`Test`] is data: which statistics decide, and in which way. Reading it against a run gives the [`Evidence`] that
//! [`decide`] turns into a verdict. Where figures are lacking, the type of the lack alone decides. What this machine
//! can never have makes a claim not testable. Cells that this run did not plan make it not measured. Cells without
//! figures leave it open.

use threadgauge_results::{
    Claim as Published, Condition, Evidence, Lack, Need, Quote, Range, Rule, Verdict, WaitsFor, claim,
    decide, units,
};

use crate::statistic::{Estimate, Form, Statistic};
use crate::view::View;

/// A claim's id in `claims.csv`, and what decides it.
pub type Claim = (&'static str, Test);

/// What decides a claim.
#[derive(Debug, Clone)]
pub enum Test {
    /// One statistic.
    One(Statistic),
    /// Several, by name: each must satisfy the rule.
    Each(Quote, Vec<(String, Statistic)>),
    /// A test under the claim's rule, and a second condition that must hold too.
    Also {
        /// The test under the claim's rule.
        main: Box<Test>,
        /// The second condition, in words.
        says: String,
        /// The range in which the second condition holds.
        rule: Rule,
        /// The test of the second condition.
        test: Box<Test>,
    },
    /// A test over a part of what the claim is about: it can refute the claim but not confirm it.
    Part {
        /// The test, over what was measured.
        test: Box<Test>,
        /// What is missing, in words.
        missing: String,
    },
    /// A test that holds where its statistics lie wholly outside of a range, whatever bounds the claim has.
    Outside {
        /// What is to lie outside.
        test: Box<Test>,
        /// Of this range.
        range: Range,
    },
    /// A test on something that no longer exists and was written again from its description.
    Recreated {
        /// The test.
        test: Box<Test>,
        /// What the re-creation cannot show, to follow "which cannot show".
        says: String,
    },
    /// Nothing decides it here.
    Lacking {
        /// What is missing.
        lack: Lack,
        /// A figure to quote all the same.
        figure: Option<Statistic>,
    },
    /// An estimate computed elsewhere, e.g. by a bootstrap over rounds.
    Given(Estimate),
}

/// Each of several statistics must satisfy the rule; `quote` says which stands for all in the text.
pub fn each(quote: Quote, cells: impl IntoIterator<Item = (String, Statistic)>) -> Test {
    Test::Each(quote, cells.into_iter().collect())
}

/// A claim that no run of one state of a machine decides: `claims.csv` says what it waits for.
///
/// # Panics
///
/// When there is no such claim, or it waits for nothing of the kind; a test of the catalogue reads them all.
#[must_use]
pub fn waiting(id: &'static str) -> Claim {
    let waits_for = claim(id).map(|of| of.waits_for);
    let lacks = waits_for.and_then(WaitsFor::lacks);
    (id, not_testable(lacks.expect("the claim waits for a state")))
}

/// A claim that this machine can never decide.
#[must_use]
pub fn not_testable(reason: impl Into<String>) -> Test {
    Lack::new(Need::System, reason).into()
}

/// A claim that a larger profile or another selection decides. `reason` names the command.
#[must_use]
pub fn not_measured(reason: impl Into<String>) -> Test {
    Lack::new(Need::Profile, reason).into()
}

/// A test that needs several CPUs: `test`, given the number of CPUs of the run, where the run planned cases on more
/// than one CPU and could run them.
pub fn on_all_cpus(view: &View<'_>, test: impl FnOnce(u64) -> Test) -> Test {
    let Some(all) = view.all_cpus() else {
        return not_measured(format!(
            "this run planned no case on several CPUs; `threadgauge run {}` does, where there are several",
            view.experiment
        ));
    };
    match view.lacks_cpus(all) {
        Some(lack) => lack.clone().into(),
        None => test(all),
    }
}

impl From<Statistic> for Test {
    fn from(statistic: Statistic) -> Self {
        Self::One(statistic)
    }
}

impl From<Lack> for Test {
    fn from(lack: Lack) -> Self {
        Self::Lacking { lack, figure: None }
    }
}

impl Test {
    /// This test, with the second condition that `test` lies within the range of `rule`. `says` is the condition in
    /// words.
    #[must_use]
    pub fn also(self, says: impl Into<String>, rule: Rule, test: impl Into<Self>) -> Self {
        Self::Also {
            main: Box::new(self),
            says: says.into(),
            rule,
            test: Box::new(test.into()),
        }
    }

    /// Holds where this lies wholly outside of `range`.
    #[must_use]
    pub fn outside(self, range: Range) -> Self {
        Self::Outside {
            test: Box::new(self),
            range,
        }
    }

    /// This test, which is on a re-creation: `says` is what that cannot show, to follow "which cannot show".
    #[must_use]
    pub fn recreated(self, says: impl Into<String>) -> Self {
        Self::Recreated {
            test: Box::new(self),
            says: says.into(),
        }
    }

    /// This test, where it is `complete`: over all that the claim is about. Otherwise it can refute the claim but not
    /// confirm it, and `missing` says what was not measured.
    #[must_use]
    pub fn of_a_part(self, complete: bool, missing: impl Into<String>) -> Self {
        if complete {
            return self;
        }
        Self::Part {
            test: Box::new(self),
            missing: missing.into(),
        }
    }

    /// Every statistic of the test.
    #[must_use]
    pub fn statistics(&self) -> Vec<&Statistic> {
        match self {
            Self::One(statistic) => vec![statistic],
            Self::Each(_, cells) => cells.iter().map(|(_, statistic)| statistic).collect(),
            Self::Also { main, test, .. } => [main.statistics(), test.statistics()].concat(),
            Self::Part { test, .. } | Self::Outside { test, .. } | Self::Recreated { test, .. } => {
                test.statistics()
            }
            Self::Lacking { figure, .. } => figure.iter().collect(),
            Self::Given(_) => Vec::new(),
        }
    }

    /// What a run says of `claim`.
    #[must_use]
    pub fn evidence(&self, view: &View<'_>, claim: &Published) -> Evidence {
        match self {
            Self::One(statistic) => one(view, statistic).unwrap_or_else(Evidence::from),
            Self::Each(_, cells) if cells.is_empty() => {
                let says = format!(
                    "no cell that this needs was measured; `threadgauge run {} --profile standard` has them",
                    view.experiment
                );
                Lack::new(Need::Profile, says).into()
            }
            Self::Each(quote, cells) => {
                let (read, lacks): (Vec<_>, Vec<_>) = cells
                    .iter()
                    .map(|(name, statistic)| view.evidence(statistic).map(|of| (name.clone(), of)))
                    .partition(Result::is_ok);
                match lacks.into_iter().find_map(Result::err) {
                    None => {
                        let evidence = Evidence::Each {
                            quote: *quote,
                            cells: read.into_iter().flatten().collect(),
                        };
                        marked(view, cells.iter().map(|(_, statistic)| statistic), evidence)
                    }
                    // Some of the cells were measured.
                    Some(lack) if !read.is_empty() => Lack::new(Need::Figures, lack.says).into(),
                    Some(lack) => lack.into(),
                }
            }
            Self::Also {
                main,
                says,
                rule,
                test,
            } => Evidence::With {
                main: Box::new(main.evidence(view, claim)),
                also: vec![Condition {
                    says: says.clone(),
                    rule: *rule,
                    evidence: test.evidence(view, claim),
                }],
            },
            Self::Part { test, missing } => {
                let evidence = test.evidence(view, claim);
                if matches!(evidence, Evidence::Lacking { .. }) {
                    return evidence;
                }
                let so_far = decide(claim, &claim.unit, &evidence, view.alpha);
                if so_far.verdict == Some(Verdict::DoesNotHold) {
                    return evidence;
                }
                let figure = so_far.measured.map_or_else(String::new, |m| {
                    format!("; so far {}", units::with_unit(m, None, &claim.unit))
                });
                Lack::new(Need::Figures, format!("{missing}{figure}")).into()
            }
            Self::Outside { test, range } => Evidence::Outside {
                of: Box::new(test.evidence(view, claim)),
                range: *range,
            },
            Self::Recreated { test, says } => match test.evidence(view, claim) {
                // Where nothing was measured it makes no difference on what it would have been.
                lacking @ Evidence::Lacking { .. } => lacking,
                of => Evidence::Recreated {
                    of: Box::new(of),
                    says: says.clone(),
                },
            },
            Self::Lacking { lack, figure } => Evidence::Lacking {
                lack: lack.clone(),
                measured: figure.as_ref().and_then(|figure| view.value(figure)),
            },
            Self::Given(estimate) => given(*estimate),
        }
    }
}

fn one(view: &View<'_>, statistic: &Statistic) -> Result<Evidence, Lack> {
    let evidence = match &statistic.form {
        Form::ByRound { .. } => Evidence::Rounds(view.evidence(statistic)?),
        Form::Unpaired { .. } => given(view.estimated(statistic)?),
        Form::Crossing { points, between } => Evidence::Curve(view.curve(points, *between)?),
    };
    Ok(marked(view, [statistic], evidence))
}

/// Marks evidence for which disturbed rounds count in any of its statistics.
fn marked<'a>(
    view: &View<'_>,
    statistics: impl IntoIterator<Item = &'a Statistic>,
    evidence: Evidence,
) -> Evidence {
    let disturbances = statistics
        .into_iter()
        .filter_map(|statistic| view.disturbance(statistic));
    match disturbances.reduce(|all, alike| all && alike) {
        Some(alike) => Evidence::Disturbed {
            evidence: Box::new(evidence),
            alike,
        },
        None => evidence,
    }
}

const fn given(Estimate { value, ci95 }: Estimate) -> Evidence {
    Evidence::Estimate { value, ci95 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use threadgauge_results::{Params, RanBeside};

    use super::*;
    use crate::site::Profile;
    use crate::statistic::{Metric, metric};
    use crate::testing;
    use crate::view::ViewCase;

    const TIME: Metric = metric("elapsed_ns", "ns");

    fn on(cpus: u64) -> Params {
        Params::new().with("cpus", cpus)
    }

    fn any() -> &'static Published {
        &threadgauge_results::claims()[0]
    }

    fn gain() -> Test {
        TIME.of(on(1)).over(TIME.of(on(2))).into()
    }

    #[test]
    fn what_is_lacking_comes_through_as_it_is_whatever_the_words() {
        let measured = testing::case(on(1), [(TIME, vec![2.0; 7])]);
        for (of, words) in [
            (Need::Cpus, "one is all there is"),
            (Need::Program, "no compiler"),
            (Need::Figures, "needs 2 CPUs, this run has 1"),
        ] {
            let cases = vec![measured.clone(), testing::lacking(on(2), Lack::new(of, words))];
            let evidence = gain().evidence(&testing::view("x", Profile::Quick, cases), any());
            let Evidence::Lacking { lack, measured: None } = evidence else {
                panic!("{evidence:?}");
            };
            assert!(lack.of == of && lack.says.ends_with(words), "{lack:?}");
        }
    }

    #[test]
    fn a_cell_that_this_run_did_not_plan_comes_with_the_least_profile_that_has_it() {
        let of = |profile, most: u64| (1..=most).map(move |cpus| ("x", profile, on(cpus)));
        let planned = of(Profile::Quick, 1)
            .chain(of(Profile::Standard, 2))
            .chain(of(Profile::Paper, 3));
        let planned: Vec<_> = planned.chain([("y", Profile::Quick, on(4))]).collect();
        let view = View {
            planned: &planned,
            ..testing::view("x", Profile::Quick, Vec::new())
        };
        for (cpus, says) in [
            (1, "; `threadgauge run x --profile quick` has it"),
            (2, "; `threadgauge run x --profile standard` has it"),
            (3, "; `threadgauge run x --profile paper` has it"),
            (4, ""),
        ] {
            let evidence = Test::from(TIME.of(on(cpus))).evidence(&view, any());
            let Evidence::Lacking { lack, measured: None } = evidence else {
                panic!("{evidence:?}");
            };
            assert_eq!(lack.of, Need::Profile);
            assert_eq!(
                lack.says,
                format!("needs x/cpus={cpus}, which this run did not plan{says}")
            );
        }
    }

    #[test]
    fn of_several_cells_those_measured_leave_it_open_and_none_says_what_is_lacking() {
        let lack = Lack::new(Need::Cpus, "there is one");
        let of = |measured: u64| {
            let case = |cpus| match cpus <= measured {
                true => testing::case(on(cpus), [(TIME, vec![2.0; 7])]),
                false => testing::lacking(on(cpus), lack.clone()),
            };
            let view = testing::view("x", Profile::Quick, (1..=2).map(case).collect());
            let cells = [1, 2].map(|cpus| (cpus.to_string(), TIME.of(on(cpus))));
            match each(Quote::Largest, cells).evidence(&view, any()) {
                Evidence::Lacking { lack, .. } => Some(lack.of),
                _ => None,
            }
        };
        assert_eq!([0, 1, 2].map(of), [Some(Need::Cpus), Some(Need::Figures), None]);
    }

    #[test]
    fn several_cells_were_disturbed_alike_where_each_was() {
        let alike = |loads: [f64; 3]| {
            let case = |(cpus, load)| {
                let mut case = testing::case(on(cpus), [(TIME, vec![2.0; 7])]);
                // Of no round there is an undisturbed figure.
                case.values.values_mut().for_each(BTreeMap::clear);
                case.ran_beside = RanBeside {
                    foreign_cpus: load,
                    ..RanBeside::default()
                };
                case
            };
            let view = testing::view("x", Profile::Quick, (1..).zip(loads).map(case).collect());
            let ratios = [2, 3].map(|cpus| (cpus.to_string(), TIME.of(on(cpus)).over(TIME.of(on(1)))));
            match each(Quote::Largest, ratios).evidence(&view, any()) {
                Evidence::Disturbed { alike, .. } => alike,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            [0.40, 0.90].map(|third| alike([0.40, 0.41, third])),
            [true, false]
        );
    }

    #[test]
    fn a_part_refutes_its_claim_and_does_not_confirm_it() {
        let at_least = claim("small-jobs-threads-faster").unwrap();
        let of = |ratio: f64| {
            let cases = [(1, ratio), (2, 1.0)].map(|(cpus, time)| {
                let rounds = (0..9).map(|round| time * (1.0 + 0.001 * f64::from(round % 3)));
                testing::case(on(cpus), [(TIME, rounds.collect())])
            });
            let view = testing::view("x", Profile::Quick, cases.to_vec());
            let part = Test::Part {
                test: Box::new(gain()),
                missing: "the rest".to_owned(),
            };
            matches!(part.evidence(&view, at_least), Evidence::Lacking { .. })
        };
        assert_eq!([1.5, 0.5].map(of), [true, false]);
    }

    #[test]
    fn what_is_decided_on_a_recreation_says_so_and_what_is_lacking_is_lacking() {
        let claim = claim("nptl-create-destroy-6x-cheaper").unwrap();
        let told = |second: ViewCase| {
            let first = testing::case(on(1), [(TIME, vec![6.0; 7])]);
            let view = testing::view("x", Profile::Quick, vec![first, second]);
            let test = gain().recreated("the old scheduler");
            assert_eq!(test.statistics().len(), 1);
            decide(claim, &claim.unit, &test.evidence(&view, claim), testing::ALPHA)
        };
        let measured = told(testing::case(on(2), [(TIME, vec![1.0; 7])]));
        assert_eq!(measured.verdict, Some(Verdict::Holds));
        assert_eq!(measured.recreated.as_deref(), Some("the old scheduler"));
        let says = " Re-created on this kernel, which cannot show the old scheduler.";
        assert!(measured.says.ends_with(says), "{measured:?}");
        let lack = Lack::new(Need::Program, "no compiler");
        let lacking = told(testing::lacking(on(2), lack));
        assert_eq!(
            (lacking.verdict, lacking.recreated),
            (Some(Verdict::NotTestable), None)
        );
    }

    #[test]
    fn a_claim_over_two_experiments_is_an_unpaired_ratio() {
        let test: Test = TIME.of(on(1)).over(TIME.of(on(2)).in_experiment("other")).into();
        let mut cases = testing::view(
            "x",
            Profile::Quick,
            vec![testing::case(
                on(1),
                [(TIME, vec![6.0, 6.1, 5.9, 6.0, 6.2, 5.8, 6.0])],
            )],
        )
        .cases
        .clone();
        let other = vec![testing::case(
            on(2),
            [(TIME, vec![2.0, 2.1, 1.9, 2.0, 2.0, 2.1, 1.9, 2.0])],
        )];
        cases.insert("other".to_owned(), other);
        let view = View {
            experiment: "x",
            cases: &cases,
            ..testing::view("x", Profile::Quick, Vec::new())
        };
        let Evidence::Estimate { value, ci95 } = test.evidence(&view, any()) else {
            panic!("{:?}", test.evidence(&view, any()));
        };
        let [low, high] = ci95.unwrap();
        assert!(
            (value - 3.0).abs() < 0.05 && low > 2.8 && high < 3.2,
            "{value} [{low}, {high}]"
        );
    }
}
