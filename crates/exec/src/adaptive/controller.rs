//! What degree to use next, from what the last one brought. Pure: no clock, no thread, no lock.
//!
//! Objects are counted in *windows*, some rounds of the degree each. A window gives two figures:
//!
//! - its **throughput**, finished objects a nanosecond: what is wanted;
//! - the share of their time that its objects computed, where it is known. For as many as are at work that is the
//!   **share of the CPUs in use**. What it leaves free bounds what a higher degree can bring, as `CPUs × (1 + wait /
//!   compute)` fill them; so it says how far to go at once, and that there is nothing to look for where they are full.
//!   It is believed from a rung's second window on: the first may have missed those that wait for long.
//!
//! Degrees stand on a ladder whose rungs are a factor of 1.3 to 2 apart; each remembers its windows.
//!
//! At first the degree grows by factors while that pays. Then it climbs: it stays on the *home* rung, the lowest of those
//! within [`EQUAL`] of the best, and tries a neighbour that it does not know, or has not seen for long. Throughput
//! over the degree has one hump (it rises with the degree, flattens at a bottleneck, may fall beyond), so looking at
//! neighbours is enough (Combes and Proutière 2014, *Unimodal bandits*). If the home rung itself changes, the work has
//! changed, and all other rungs are forgotten.
//!
//! Options not taken. A gradient of service times over their least (TCP Vegas; Netflix's concurrency limits) takes any
//! rise of the service time for queueing: here objects differ in size, and the least service time is that of
//! the smallest. A wave in the degree that is looked for in the throughput (.NET's pool) never rests, and takes seconds
//! to see anything; calls here may last for thirty rounds of objects.

use std::ops::RangeInclusive;

/// The degree to begin with, where there are fewer CPUs.
const FIRST: usize = 4;
/// Up to this degree it grows by a factor of four.
const FEW: f64 = 16.0;
/// Of two rungs with throughputs as near as this, the lower is as good.
const EQUAL: f64 = 0.97;
/// CPUs in use to this share are full.
const FULL: f64 = 0.98;
/// Work that used more than the one share of the CPUs, and now less than the other, has begun to wait.
const BUSY: f64 = 0.8;
const IDLE: f64 = 0.5;
/// By what factor the degree grows at most.
const GROWTH: f64 = 2.0;
/// A window lasts at least so long, while it grows and when it is settled: shorter ones see the scheduler, not the work.
const SHORT_NS: u64 = 1_000_000;
const LONG_NS: u64 = 4_000_000;
/// A window has at most so many objects more than two rounds of the degree, however much service times vary.
const MOST_SAMPLES: f64 = 100.0;
/// Relative standard error that a settled window is to have.
const PRECISION: f64 = 0.1;
/// The same while it grows.
const ROUGHLY: f64 = 0.3;
/// A change of the throughput at home by less than this (in the logarithm) is noise.
const NOISE: f64 = 0.25;
/// Windows after which a neighbour is tried again, at first and at most.
const PATIENCE: u32 = 8;
const MOST_PATIENCE: u32 = 64;
/// Windows that a rung remembers.
const MEMORY: f64 = 6.0;

/// One degree on the ladder, and what was seen there.
#[derive(Clone, Debug)]
struct Rung {
    degree: usize,
    /// Objects a nanosecond, and in how many windows: 0 is unknown.
    rate: f64,
    weight: f64,
    /// Share of the CPUs in use, if it can be known.
    used: Option<f64>,
    /// The number of the window in which it was last seen.
    seen: u32,
    /// After how many windows it is tried again.
    patience: u32,
}

/// The objects finished at one degree.
#[derive(Clone, Debug, Default)]
struct Window {
    /// Objects started before are of another degree.
    since_ns: u64,
    opened: Option<Opened>,
    objects: usize,
    /// Sums of the service times and their squares, in seconds.
    service: f64,
    service_squared: f64,
}

#[derive(Clone, Copy, Debug)]
struct Opened {
    at_ns: u64,
    cpu_ns: u64,
}

/// Finds the degree. See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    cpus: usize,
    /// Whether the CPU time given to it means anything.
    cpu_known: bool,
    ladder: Vec<Rung>,
    /// The present rung, and the best known.
    at: usize,
    home: usize,
    window: Window,
    windows: u32,
    growing: bool,
    /// The squared coefficient of variation of the service times, of the last windows.
    variation: f64,
    /// The last window at home was not like those before.
    doubtful: bool,
    latest_ns: u64,
}

impl Controller {
    /// A degree within `bounds`, at first the number of CPUs or [`FIRST`].
    pub(crate) fn new(bounds: &RangeInclusive<usize>, cpus: usize, cpu_known: bool) -> Self {
        let ladder = ladder(bounds, cpus);
        let start = cpus.max(FIRST);
        let at = ladder.iter().rposition(|r| r.degree <= start).unwrap_or(0);
        let beginning = Opened { at_ns: 0, cpu_ns: 0 };
        Self {
            cpus,
            cpu_known,
            ladder,
            at,
            home: at,
            window: Window {
                opened: Some(beginning),
                ..Window::default()
            },
            windows: 0,
            growing: true,
            variation: 0.0,
            doubtful: false,
            latest_ns: 0,
        }
    }

    /// The degree to use now.
    pub(crate) fn degree(&self) -> usize {
        self.ladder[self.at].degree
    }

    /// An object was started and ended at these times; `cpu_ns` is what all finished ones have used until now.
    pub(crate) fn complete(&mut self, started_ns: u64, ended_ns: u64, cpu_ns: u64) {
        self.latest_ns = self.latest_ns.max(ended_ns);
        let window = &mut self.window;
        let Some(opened) = window.opened else {
            // The change of the degree is over when an object ends that was started after it.
            if started_ns >= window.since_ns {
                window.opened = Some(Opened {
                    at_ns: self.latest_ns,
                    cpu_ns,
                });
            }
            return;
        };
        let service = (ended_ns - started_ns) as f64 / 1e9;
        window.objects += 1;
        window.service += service;
        window.service_squared += service * service;
        let took_ns = self.latest_ns - opened.at_ns;
        let least_ns = if self.growing { SHORT_NS } else { LONG_NS };
        if (window.objects < self.wanted() || took_ns < least_ns) && !self.hopeless(took_ns) {
            return;
        }
        self.close(opened, took_ns, cpu_ns);
    }

    /// How many objects the window is to have: whole rounds of the degree, and enough for the precision.
    fn wanted(&self) -> usize {
        let degree = self.degree();
        let (least, precision) = if self.growing {
            // At first all start together: one round would be timed to its slowest.
            (if self.windows == 0 { 2 * degree } else { degree }, ROUGHLY)
        } else {
            (2 * degree.max(8), PRECISION)
        };
        let variation = self.window.variation().max(self.variation);
        let enough = variation / (precision * precision);
        least.max(enough.min(MOST_SAMPLES) as usize)
    }

    /// Whether a try has already shown that it is worse than home.
    fn hopeless(&self, took_ns: u64) -> bool {
        let objects = self.window.objects as f64;
        if self.at == self.home || self.window.objects < self.degree().max(4) {
            return false;
        }
        let most = objects / took_ns as f64 * (1.0 + 2.0 * (self.window.variation() / objects).sqrt());
        most < EQUAL * self.ladder[self.home].rate
    }

    /// The window is full: what it says, and where to go.
    fn close(&mut self, opened: Opened, took_ns: u64, cpu_ns: u64) {
        self.windows += 1;
        let objects = self.window.objects as f64;
        let rate = objects / took_ns as f64;
        // From the objects, not from the window's time: those it ends amidst have used the CPUs as well.
        let computed = cpu_ns.saturating_sub(opened.cpu_ns) as f64 / (self.window.service * 1e9).max(1.0);
        let used = self
            .cpu_known
            .then(|| (computed * self.degree() as f64 / self.cpus as f64).min(1.0));
        self.variation += (self.window.variation() - self.variation) / f64::from(self.windows).min(4.0);
        if self.at == self.home {
            let noise = (4.0 * (self.variation / objects).sqrt()).max(NOISE);
            let here = &self.ladder[self.at];
            let unlike = here.known() && (rate / here.rate).ln().abs() > noise;
            // Once is chance.
            if unlike && !std::mem::replace(&mut self.doubtful, true) {
                self.again(cpu_ns);
                return;
            }
            if unlike {
                self.growing =
                    matches!((here.used, used), (Some(before), Some(now)) if before > BUSY && now < IDLE);
                self.forget();
            }
            self.doubtful = false;
        }
        self.ladder[self.at].remember(rate, used, self.windows);
        let next = self.decide();
        if next == self.at {
            self.again(cpu_ns);
        } else {
            self.at = next;
            self.window = Window {
                since_ns: self.latest_ns,
                ..Window::default()
            };
        }
    }

    /// The work has changed: no rung is known.
    fn forget(&mut self) {
        for rung in &mut self.ladder {
            rung.weight = 0.0;
            rung.patience = PATIENCE;
            rung.seen = self.windows;
        }
    }

    /// One more window at this degree.
    fn again(&mut self, cpu_ns: u64) {
        let at_ns = self.latest_ns;
        self.window = Window {
            since_ns: at_ns,
            opened: Some(Opened { at_ns, cpu_ns }),
            ..Window::default()
        };
    }

    /// The rung for the next window.
    fn decide(&mut self) -> usize {
        let best = self
            .ladder
            .iter()
            .filter(|r| r.known())
            .map(|r| r.rate)
            .fold(0.0, f64::max);
        let home = self
            .ladder
            .iter()
            .position(|r| r.known() && r.rate >= EQUAL * best)
            .unwrap_or(self.at);
        let before = std::mem::replace(&mut self.home, home);
        if self.at != home {
            // Tried in vain: less often from now on.
            let tried = &mut self.ladder[self.at];
            tried.patience = (tried.patience * 2).min(MOST_PATIENCE);
        }
        // By what factor the CPUs allow more.
        let sure = self.ladder[home].weight > 1.0;
        let free = match self.ladder[home].used {
            Some(used) if sure => 1.0 / used.max(1e-3),
            _ => f64::INFINITY,
        };
        if free > 1.0 / FULL && home + 1 < self.ladder.len() {
            let above_is_known = self.ladder[home + 1..].iter().any(Rung::known);
            // A step up that has paid starts it growing again.
            let climbed = home > before && !above_is_known;
            self.growing = home == self.at && (self.growing && self.paid(home) || climbed);
            if self.growing {
                return self.grown(home, free);
            }
            if self.worth_a_look(home + 1, above_is_known) {
                return home + 1;
            }
        }
        self.growing = false;
        self.lower(home, best).unwrap_or(home)
    }

    /// The next rung while it grows: what would fill the CPUs, but no more than a factor.
    fn grown(&self, home: usize, free: f64) -> usize {
        let degree = self.ladder[home].degree as f64;
        let most = (degree * GROWTH).max((degree * GROWTH * GROWTH).min(FEW));
        self.rung_of((degree * free).min(most)).max(home + 1)
    }

    /// Whether the last growth brought at least half of what it could.
    fn paid(&self, home: usize) -> bool {
        let here = &self.ladder[home];
        let below = self.ladder[..home].iter().rev().find(|r| r.known());
        below.is_none_or(|below| {
            (here.rate / below.rate).ln() >= 0.5 * (here.degree as f64 / below.degree as f64).ln()
        })
    }

    /// Whether a neighbour of the home rung is unknown, or was seen too long ago. If one beyond it is known to be no
    /// better, an unknown one can wait as well.
    fn worth_a_look(&self, rung: usize, bounded: bool) -> bool {
        let rung = &self.ladder[rung];
        !rung.known() && !bounded || self.windows - rung.seen > rung.patience
    }

    /// A rung below home that may be as good, if there is one: half-way to the next that is known not to be.
    fn lower(&self, home: usize, best: f64) -> Option<usize> {
        let floor = (0..home).rev().find(|r| self.ladder[*r].known());
        let lower = match floor {
            Some(floor) if floor + 1 == home => floor,
            Some(floor) => floor.midpoint(home),
            None => home.checked_sub(2).or_else(|| home.checked_sub(1))?,
        };
        let degree = self.ladder[lower].degree as f64;
        // No more than in proportion to a lower degree, and no more than the CPUs give.
        let by_floor = floor.map_or(f64::INFINITY, |f| {
            self.ladder[f].rate * degree / self.ladder[f].degree as f64
        });
        let here = &self.ladder[home];
        let by_cpu = here.used.map_or(f64::INFINITY, |used| {
            here.rate * degree / (used.max(1e-3) * self.cpus as f64)
        });
        let known = floor == Some(lower);
        let may_do = known || by_floor.min(by_cpu) >= EQUAL * best;
        (may_do && by_cpu >= EQUAL * best && self.worth_a_look(lower, false)).then_some(lower)
    }

    fn rung_of(&self, degree: f64) -> usize {
        self.ladder
            .iter()
            .position(|r| r.degree as f64 >= degree - 1e-6)
            .unwrap_or(self.ladder.len() - 1)
    }
}

impl Rung {
    fn known(&self) -> bool {
        self.weight > 0.0
    }

    fn remember(&mut self, rate: f64, used: Option<f64>, window: u32) {
        self.weight = (self.weight + 1.0).min(MEMORY);
        let new = 1.0 / self.weight;
        self.rate += new * (rate - self.rate);
        self.used = used.map(|now| self.used.map_or(now, |before| before + new * (now - before)));
        self.seen = window;
    }
}

impl Window {
    /// The squared coefficient of variation of the service times.
    fn variation(&self) -> f64 {
        let n = self.objects as f64;
        let mean = self.service / n;
        if mean > 0.0 {
            (self.service_squared / n / (mean * mean) - 1.0).max(0.0)
        } else {
            0.0
        }
    }
}

/// 1, 2, 3, 4, 6, 8, 12, 16, … within the bounds, with the bounds themselves and the number of CPUs.
fn ladder(bounds: &RangeInclusive<usize>, cpus: usize) -> Vec<Rung> {
    let (least, most) = (*bounds.start(), *bounds.end());
    let doubled = (0..usize::BITS - 1).flat_map(|bit| [1 << bit, (1 << bit) + (1_usize << bit) / 2]);
    let mut degrees: Vec<usize> = doubled
        .chain([least, most, cpus])
        .filter(|d| bounds.contains(d))
        .collect();
    degrees.sort_unstable();
    degrees.dedup();
    degrees
        .into_iter()
        .map(|degree| Rung {
            degree,
            rate: 0.0,
            weight: 0.0,
            used: None,
            seen: 0,
            patience: PATIENCE,
        })
        .collect()
}
