//! Claims about two states of a machine, decided by runs in both: preemption or SMT on and off, two kernels, two
//! systems.
//!
//! Owns which cases and which figure each of them is about. That the sides are two states and no more is held by
//! [`two_states`], and METHOD rule 6 by [`decide`].

use threadgauge_results::{
    ALPHA, Claim, Condition, Evidence, Finding, Lack, Need, OfStates, Params, Repeated, WaitsFor, claims,
    decide, differ_in_state, ratio_of_states, two_states, units,
};

use crate::libraries::NOT_SHOWN;

/// What a claim about two states is about: one quantity, or several that must all be so.
struct About {
    claim: &'static str,
    statistic: Statistic,
    quantities: &'static [Quantity],
}

/// A figure of some cases.
struct Quantity {
    /// In words.
    says: &'static str,
    experiment: &'static str,
    metric: &'static str,
    /// The parameters by which its cases are known.
    has: &'static [(&'static str, Is)],
    /// The thread library; none is the machine's own.
    library: Option<&'static str>,
}

/// What a parameter of a case is to be.
enum Is {
    Text(&'static str),
    Number(u64),
}

/// How the ratio of two states becomes what the claim's rule is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Statistic {
    /// Time in the second state over the first.
    Time,
    /// Speed in the second over the first: of times the other way round.
    Speed,
    /// The same, less 1.
    Gain,
    /// Time in the slower over the faster.
    Apart,
}

const MADE: Quantity = Quantity {
    says: "making and ending a thread",
    experiment: "create",
    metric: "ns_per_unit",
    has: &[("unit", Is::Text("thread")), ("method", Is::Text("pthread"))],
    library: None,
};
const SWITCH: Quantity = Quantity {
    says: "a switch",
    experiment: "ring",
    metric: "ns_per_hop",
    has: &[
        ("unit", Is::Text("thread")),
        ("means", Is::Text("pipe")),
        ("hop", Is::Text("to-other")),
        ("placement", Is::Text("same")),
    ],
    library: None,
};
const CHAT: Quantity = Quantity {
    says: "a message of the chat server",
    experiment: "chat",
    metric: "ns_per_message",
    has: &[("design", Is::Text("two-threads"))],
    library: None,
};
const LONG: &[(&str, Is)] = &[("kind", Is::Text("cpu")), ("base_ms", Is::Number(2430))];

const ABOUT: &[About] = &[
    About {
        claim: "preemption-hardly-affects-threads",
        statistic: Statistic::Time,
        quantities: &[MADE, SWITCH],
    },
    About {
        claim: "preemption-within-1pct-on-server",
        statistic: Statistic::Speed,
        quantities: &[CHAT],
    },
    About {
        claim: "kernel-upgrade-no-gain",
        statistic: Statistic::Time,
        quantities: &[
            Quantity {
                library: Some("linuxthreads"),
                ..MADE
            },
            Quantity {
                library: Some("linuxthreads"),
                ..SWITCH
            },
        ],
    },
    About {
        claim: "smt-no-effect-on-creation",
        statistic: Statistic::Time,
        quantities: &[MADE],
    },
    About {
        claim: "smt-no-effect-on-switching",
        statistic: Statistic::Time,
        quantities: &[SWITCH],
    },
    About {
        claim: "smt-5-to-6pct-on-server",
        statistic: Statistic::Gain,
        quantities: &[CHAT],
    },
    About {
        claim: "long-work-same-on-both-systems",
        statistic: Statistic::Apart,
        quantities: &[
            Quantity {
                says: "all of the long computations",
                experiment: "turnaround",
                metric: "elapsed_ns",
                has: LONG,
                library: None,
            },
            Quantity {
                says: "their turnaround",
                experiment: "turnaround",
                metric: "turnaround",
                has: LONG,
                library: None,
            },
        ],
    },
    About {
        claim: "short-concurrent-io-differs-between-systems",
        statistic: Statistic::Apart,
        quantities: &[Quantity {
            says: "all of the short waits",
            experiment: "turnaround",
            metric: "elapsed_ns",
            has: &[
                ("kind", Is::Text("io")),
                ("mode", Is::Text("concurrent")),
                ("base_ms", Is::Number(10)),
            ],
            library: None,
        }],
    },
];

impl Quantity {
    fn is_meant(&self, params: &Params) -> bool {
        let is = |(name, is): &(&str, Is)| match is {
            Is::Text(text) => params.text(name) == Some(text),
            Is::Number(number) => params.int(name) == Some(*number),
        };
        // Those of other runtimes have parameters of their own.
        params.get("runtime").is_none() && params.text("library") == self.library && self.has.iter().all(is)
    }

    fn evidence(&self, statistic: Statistic, of: Option<OfStates>) -> Evidence {
        let lacks = || {
            format!(
                "no case of `{}` that it is about has figures in every run",
                self.experiment
            )
        };
        match of {
            Some(of) => statistic.of(of),
            None => lacking(Lack::new(Need::Profile, lacks())),
        }
    }
}

const fn lacking(lack: Lack) -> Evidence {
    Evidence::Lacking { lack, measured: None }
}

/// Why a claim is open, where the unit is a run: more rounds of the same runs would narrow nothing.
fn by_runs(reason: &str) -> String {
    reason
        .replace("more rounds would", "more runs of each state would")
        .replace("too few rounds", "too few runs")
}

impl Statistic {
    fn of(self, OfStates { ratio, ci, .. }: OfStates) -> Evidence {
        let inverse = || (1.0 / ratio, ci.map(|[low, high]| [1.0 / high, 1.0 / low]));
        let (value, ci95) = match self {
            Self::Time => (ratio, ci),
            Self::Speed => inverse(),
            Self::Gain => {
                let (speed, ci) = inverse();
                (speed - 1.0, ci.map(|ends| ends.map(|end| end - 1.0)))
            }
            // Which is the slower one may be open: then the interval begins at no difference.
            Self::Apart => {
                let (value, ci) = if ratio < 1.0 { inverse() } else { (ratio, ci) };
                (value, ci.map(|[low, high]| [low.max(1.0), high.max(1.0 / low)]))
            }
        };
        Evidence::Estimate { value, ci95 }
    }
}

/// What runs in two states say of a claim about them.
#[derive(Debug, Clone, PartialEq)]
pub struct ByStates {
    /// The claim.
    pub claim: &'static Claim,
    /// Its verdict, with the spread between runs of a state in its interval.
    pub finding: Finding,
    /// By which runs, and of how many cases; none where no two sides are the states.
    pub by: Option<String>,
}

/// What runs of several states say of each claim that waits for two: by the two sides, among all, that are the states
/// it is about. Of a claim without such sides the finding says what the two lack for it that come nearest: those that
/// differ in the state, else the first two. Empty for one side.
#[must_use]
pub fn decided_by_states(sides: &[Repeated]) -> Vec<ByStates> {
    if sides.len() < 2 {
        return Vec::new();
    }
    let pairs = || {
        let of = |i: usize| sides[i + 1..].iter().map(move |other| (&sides[i], other));
        (0..sides.len()).flat_map(of)
    };
    let found = |claim: &'static Claim| {
        let about = ABOUT.iter().find(|about| about.claim == claim.id)?;
        let states = pairs().find_map(|(a, b)| two_states(claim.waits_for, a, b).ok());
        Some(match states {
            Some(states) => about.decided(claim, states),
            None => ByStates {
                claim,
                finding: {
                    let mut lack = nearest_lack(claim.waits_for, pairs())?;
                    if let Some(needs) = claim.waits_for.lacks().filter(|_| lack.of == Need::System) {
                        lack.says += &format!("; the claim {needs}");
                    }
                    decide(claim, &claim.unit, &lacking(lack), ALPHA)
                },
                by: None,
            },
        })
    };
    claims().iter().filter_map(found).collect()
}

/// What two sides lack for being the states: of the first pair that differs in the state and in nothing else, else of
/// the first that differs in it, else of the first.
fn nearest_lack<'a>(
    waits: WaitsFor,
    pairs: impl Iterator<Item = (&'a Repeated, &'a Repeated)>,
) -> Option<Lack> {
    let lacks = pairs.filter_map(|(a, b)| {
        let lack = two_states(waits, a, b).err()?;
        let distance = (!differ_in_state(waits, a, b), lack.of == Need::System);
        Some((distance, lack))
    });
    // Of equals it is the first.
    lacks.min_by_key(|(distance, _)| *distance).map(|(_, lack)| lack)
}

impl About {
    fn decided(&self, claim: &'static Claim, sides: [&Repeated; 2]) -> ByStates {
        // Each of several may refute the claim, so each has its share of the error.
        let alpha = ALPHA / self.quantities.len() as f64;
        let of = |quantity: &'static Quantity| {
            let Quantity {
                experiment, metric, ..
            } = quantity;
            let is_meant = |params: &Params| quantity.is_meant(params);
            (
                quantity,
                ratio_of_states(sides, experiment, metric, alpha, is_meant),
            )
        };
        let measured: Vec<_> = self.quantities.iter().map(of).collect();
        let mut evidence = measured
            .iter()
            .map(|(quantity, of)| quantity.evidence(self.statistic, *of));
        let main = evidence.next().expect("a claim is about something");
        let also = evidence
            .zip(&self.quantities[1..])
            .map(|(evidence, quantity)| Condition {
                says: format!("the same of {}", quantity.says),
                rule: claim.range().of(&claim.unit),
                evidence,
            });
        let also: Vec<Condition> = also.collect();
        let mut all = match also.is_empty() {
            true => main,
            false => Evidence::With {
                main: Box::new(main),
                also,
            },
        };
        if self.quantities[0].library.is_some() {
            all = Evidence::Recreated {
                of: Box::new(all),
                says: NOT_SHOWN.to_owned(),
            };
        }
        let counted = measured.iter().filter_map(|(quantity, of)| {
            let cases = units::counted((*of)?.cases, "case");
            Some(format!("{} in {cases}", quantity.says))
        });
        let counted: Vec<String> = counted.collect();
        let [first, second] = sides;
        let mut finding = decide(claim, &claim.unit, &all, ALPHA);
        if sides.iter().any(|side| side.runs.len() > 1) {
            finding.reason = finding.reason.as_deref().map(by_runs);
        }
        ByStates {
            claim,
            finding,
            by: Some(format!(
                "{} of {} and {} of {}: {}",
                units::counted(first.runs.len(), "run"),
                first.name,
                second.runs.len(),
                second.name,
                counted.join(", ")
            ))
            .filter(|_| !counted.is_empty()),
        }
    }
}

#[cfg(test)]
#[path = "states_test.rs"]
mod tests;
