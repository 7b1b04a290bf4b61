//! What a run of `multicast` says in a sentence: one reactor's figure, what other designs change, and what to take.

use threadgauge_lab::prelude::*;
use threadgauge_results::units;

use super::super::case::{CLAIMED, CLIENT_WANTS, Case, READING_WANTS, all_designs, places};
use super::super::condition::Window;
use super::super::statistics::{THOUSAND, gain, per_cpu, rate};
use super::{FULL, Seen};

impl Seen<'_> {
    pub(super) fn number(&self) -> Option<KeyNumber> {
        let forwards = rate(self.reactor(1)).times(THOUSAND);
        let of = format!("deliveries a second by one reactor to groups of ten: {CLAIMED} connections");
        self.view.number(of, &forwards, "thousand")
    }

    pub(super) fn answer(&self) -> String {
        let base = self.reactor(1);
        let Some(forwards) = self.view.estimate(&rate(base).times(THOUSAND)) else {
            return String::new();
        };
        let mut says = format!(
            "With {}, one reactor makes {} deliveries a second to groups of ten, nine of each message, for {CLAIMED} \
             connections{}",
            self.placed(1),
            forwards.plain("thousand"),
            match self.window {
                Window::Saturating => " that send all the time",
                Window::Messages(_) => "",
            }
        );
        if let Some(each) = self.view.estimate(&per_cpu(base).times(THOUSAND)) {
            says += &format!(", {} a second of its CPU time", each.plain("thousand"));
        }
        says += ".";
        says += &self.differing().unwrap_or_default();
        says
    }

    /// The other designs by what they forward over one reactor, the most first: those that differ by more than these
    /// rounds' spread. None without any figure of another.
    fn others(&self, server_cpus: u64) -> Option<Vec<(f64, Case)>> {
        let base = self.reactor(server_cpus);
        let others = all_designs(base).into_iter().filter(|case| *case != base);
        let measured: Vec<(f64, Case)> = others
            .filter_map(|case| Some((self.view.value(&gain(case, base))?, case)))
            .collect();
        if measured.is_empty() {
            return None;
        }
        let differs = |(_, case): &(f64, Case)| self.view.resolved(&gain(*case, base).less_one());
        let mut differing: Vec<(f64, Case)> = measured.into_iter().filter(differs).collect();
        differing.sort_by(|a, b| b.0.total_cmp(&a.0));
        Some(differing)
    }

    /// Which of the other designs forward more or fewer.
    fn differing(&self) -> Option<String> {
        let times = |times: &f64| units::with_unit(*times, None, "ratio");
        Some(match self.others(1)?.as_slice() {
            [] => " Of no other design do these rounds show that it makes more or fewer.".to_owned(),
            [(of_one, one)] => format!(
                " Of the other designs these rounds show one to differ: {} makes {} times as many.",
                one.label(),
                times(of_one)
            ),
            [(of_most, most), .., (of_least, least)] => format!(
                " Of the other designs that these rounds show to differ, {} makes the most, {} times as many, and {} the \
                 least, {} times.",
                most.label(),
                times(of_most),
                least.label(),
                times(of_least)
            ),
        })
    }

    /// What to take by the server's CPUs, and what one reactor waits for on one.
    pub(super) fn advice(&self) -> String {
        let take = |server_cpus: u64| {
            let others = self.others(server_cpus)?;
            Some((
                server_cpus,
                others.into_iter().next().filter(|(times, _)| *times > 1.0),
            ))
        };
        let all: Vec<_> = places(self.cpus).into_iter().filter_map(take).collect();
        if all.is_empty() {
            return String::new();
        }
        let better = all.iter().filter_map(|(server_cpus, more)| {
            let (times, case) = more.as_ref()?;
            let times = units::with_unit(*times, None, "ratio");
            let placed = self.placed(*server_cpus);
            Some(format!(
                " With {placed} take {}: it makes {times} times as many deliveries.",
                case.label()
            ))
        });
        let better: String = better.collect();
        let take = match better.as_str() {
            "" => {
                "Take one reactor for groups: it is the simplest, and these rounds show no design that makes more."
            }
            _ => "Take one reactor for groups, the simplest, but where another makes more.",
        };
        let base = self.reactor(1);
        let waits = [(READING_WANTS, "the server's thread"), (CLIENT_WANTS, "a client")];
        let full = waits.map(|(metric, who)| {
            let share = self.view.estimate(&base.of(metric))?;
            (share.value > FULL).then(|| {
                format!(
                    "{who} runs or waits for a CPU in {} of the time",
                    share.plain("share")
                )
            })
        });
        let full: Vec<String> = full.into_iter().flatten().collect();
        let limit = match full.as_slice() {
            [] => String::new(),
            full => format!(" What limits one reactor on one CPU: {}.", full.join(", and ")),
        };
        format!("{take}{better}{limit}")
    }
}
