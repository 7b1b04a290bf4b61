//! What degree to use next, from what the last one brought. Pure: no clock, no thread, no lock.
//!
//! Objects are counted in *windows*, some rounds of the degree each. A window gives two figures:
//!
//! - its **throughput**, finished objects a nanosecond: what is wanted;
//! - the share of their time that its objects computed, where it is known. For as many as are at work that is the
//!   **share of the CPUs in use**. What it leaves free bounds what a higher degree can bring, as `CPUs × (1 + wait /
//!   compute)` fill them; so it says how far to go at once, and that there is nothing to look for where they are full.
//!   It is believed from a candidate's second window on: the first may have missed those that wait for long.
//!
//! The candidate degrees are 1 to 8 and then four to each doubling. Of each it is known what it brought and from how
//! many objects, and with that and the variation of the service times, how sure that is.
//!
//! At first the degree **grows** by factors, a round of objects each, until one has clearly not paid. Such a round
//! counts from the moment of the rise: in the time that one object takes, those at work and those just started end, so
//! many as the new degree, if nothing holds them up. Then it **climbs**: it stays at the *incumbent*, the lowest of the
//! candidates within [`EQUAL`] of the best, and tries others that may be better: below, where proportion allows as
//! much; between, if the next known one above is far; and neighbours, a known one when some time has passed. Throughput
//! over the degree has one hump (it rises, flattens at a bottleneck, may fall beyond), so neighbours are enough (Combes
//! and Proutière 2014, *Unimodal bandits*). If the incumbent's own throughput changes, the work has changed, and what
//! was seen at all others is forgotten.
//!
//! A degree too high can cost more than it could ever bring, where a server thrashes. So a **rise is watched from the
//! moment it is made**, not only in the window that follows its change: as soon as clearly fewer objects have ended
//! than would have at the incumbent, it has *dropped*; the degree goes back to that, and the bad candidate, with those
//! on the way to it, is left alone for many times what the try took. What was started by then is the price: it grows
//! with the square of the step, so the call begins low.
//!
//! Options not taken. A gradient of service times over their least (TCP Vegas; Netflix's concurrency limits) takes any
//! rise of the service time for queueing: here objects differ in size, and the least service time is that of
//! the smallest. A wave in the degree that is looked for in the throughput (.NET's pool) never rests, and takes seconds
//! to see anything; calls here may last for thirty rounds of objects. One object alone first is a baseline, but of a
//! single object: it misleads more often than it helps. A degree that rises by one for each object that ends (TCP's
//! slow start) is twice what it can judge when it has to stop.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::ops::RangeInclusive;

/// The degree to begin with, where there are fewer CPUs.
const FIRST: usize = 2;
/// Of two candidates with throughputs as near as this, the lower is as good.
const EQUAL: f64 = 0.97;
/// Growth has paid if it brought this power of its factor.
const PAYS: f64 = 0.6;
/// A candidate that is so many times another is far enough above it for a look between.
const WIDE: f64 = 1.5;
/// CPUs in use to this share are full.
const FULL: f64 = 0.98;
/// Work that used more than the one share of the CPUs, and now less than the other, has begun to wait.
const BUSY: f64 = 0.8;
const IDLE: f64 = 0.5;
/// A window lasts at least so long, at a candidate of which little is known and at a well known one: shorter ones see
/// the scheduler, not the work.
const SHORT_NS: u64 = 1_000_000;
const LONG_NS: u64 = 4_000_000;
/// The relative standard error of what makes a candidate well known. Until then a window is one round.
const PRECISE: f64 = 0.1;
/// No precision is worth more objects than this.
const MOST_SAMPLES: f64 = 100.0;
/// Before so many objects are known they are taken to vary as by chance (exponentially).
const PRIOR: f64 = 4.0;
/// Standard errors that are believed: of a drop, of a change at the incumbent.
const DROP: f64 = 0.7;
const CHANGE: f64 = 4.0;
/// A change at the incumbent by less than this (in the logarithm) is noise.
const NOISE: f64 = 0.25;
/// A drop is looked for after so many rounds of the incumbent: objects that began together end together.
const ROUNDS: f64 = 1.5;
/// A candidate is tried again after so many times what its try took, at first and at most.
const BACKOFF: u64 = 14;
const LONGEST_BACKOFF: u64 = 112;
/// Objects that count for a candidate beside those of its last window.
const MEMORY: f64 = 100.0;

/// By what factor the degree grows. Out of the least a large step does little harm; the next ones are smaller, as they
/// lead too far the more often.
fn growth(degree: usize) -> f64 {
    match degree {
        0..8 => 4.0,
        8..16 => 2.0,
        16..24 => 1.5,
        _ => 2.0,
    }
}

/// A degree that may be tried, and what was seen there.
#[derive(Clone, Debug)]
struct Candidate {
    degree: usize,
    /// Objects a nanosecond.
    rate: f64,
    /// From how many objects: 0 is unknown. And windows.
    objects: f64,
    windows: u32,
    /// Share of the CPUs in use, if it can be known.
    used: Option<f64>,
    /// When it may be tried again.
    again_ns: u64,
    /// How long that is put off, in times what a try took.
    backoff: u64,
}

/// The objects finished at one degree.
#[derive(Clone, Debug, Default)]
struct Window {
    /// The change to this degree: objects started before are of another one.
    since_ns: u64,
    /// It was a rise.
    rise: bool,
    /// Objects ended since, whenever started.
    ended: usize,
    opened: Option<Opened>,
    /// Of the open window.
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
    /// By rising degree.
    candidates: Vec<Candidate>,
    /// The present one, and the incumbent.
    at: usize,
    incumbent: usize,
    window: Window,
    growing: bool,
    /// The squared coefficient of variation of the service times, and from how many objects.
    variation: f64,
    varied: f64,
    /// The last window at the incumbent was not like those before.
    doubtful: bool,
    latest_ns: u64,
}

impl Controller {
    /// A degree within `bounds`, at first the number of CPUs or [`FIRST`].
    pub(crate) fn new(bounds: &RangeInclusive<usize>, cpus: usize, cpu_known: bool) -> Self {
        let candidates = candidates(bounds, cpus);
        let start = cpus.max(FIRST);
        let at = candidates
            .iter()
            .rposition(|candidate| candidate.degree <= start)
            .unwrap_or(0);
        let beginning = Opened { at_ns: 0, cpu_ns: 0 };
        Self {
            cpus,
            cpu_known,
            candidates,
            at,
            incumbent: at,
            window: Window {
                opened: Some(beginning),
                ..Window::default()
            },
            growing: true,
            variation: 1.0,
            varied: PRIOR,
            doubtful: false,
            latest_ns: 0,
        }
    }

    /// The degree to use now.
    pub(crate) fn degree(&self) -> usize {
        self.candidates[self.at].degree
    }

    /// An object was started and ended at these times; `cpu_ns` is what all finished ones have used until now.
    pub(crate) fn complete(&mut self, started_ns: u64, ended_ns: u64, cpu_ns: u64) {
        self.latest_ns = self.latest_ns.max(ended_ns);
        self.window.ended += 1;
        if self.dropped() {
            self.leave_dropped(cpu_ns);
            return;
        }
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
        let (objects, least_ns) = self.wanted();
        if self.window.objects >= objects && took_ns >= least_ns || self.hopeless(took_ns) {
            self.close(opened, took_ns, cpu_ns);
        }
    }

    /// Objects and nanoseconds that the window is to have: a round of the degree, or at a well known candidate enough
    /// to keep the precision.
    fn wanted(&self) -> (usize, u64) {
        let degree = self.degree();
        let samples = (self.variation() / (PRECISE * PRECISE)).min(MOST_SAMPLES);
        if !self.growing && self.candidates[self.at].objects >= samples {
            ((2 * degree.max(8)).max(samples as usize), LONG_NS)
        } else {
            (degree, SHORT_NS)
        }
    }

    /// The squared coefficient of variation of the service times, with those of this window.
    fn variation(&self) -> f64 {
        let new = self.window.objects as f64;
        (self.variation * self.varied + self.window.variation() * new) / (self.varied + new)
    }

    /// Whether so many objects in so long are clearly fewer than at the incumbent.
    fn fewer_than_at_incumbent(&self, objects: usize, took_ns: u64) -> bool {
        let incumbent = &self.candidates[self.incumbent];
        let expected = incumbent.rate * took_ns as f64;
        let error = (self.variation() * (expected + expected * expected / incumbent.objects)).sqrt();
        objects as f64 + DROP * error < EQUAL * expected
    }

    /// Whether a rise has already shown that it does harm.
    fn dropped(&self) -> bool {
        if !self.window.rise || self.at <= self.incumbent {
            return false;
        }
        let took_ns = self.latest_ns - self.window.since_ns;
        let incumbent = &self.candidates[self.incumbent];
        took_ns >= SHORT_NS
            && incumbent.rate * took_ns as f64 >= ROUNDS * incumbent.degree as f64
            && self.fewer_than_at_incumbent(self.window.ended, took_ns)
    }

    /// Whether a try has already shown that it is worse than the incumbent.
    fn hopeless(&self, took_ns: u64) -> bool {
        self.at != self.incumbent
            && self.window.objects >= self.degree().max(4)
            && self.fewer_than_at_incumbent(self.window.objects, took_ns)
    }

    /// Back to the incumbent from a rise that did harm.
    fn leave_dropped(&mut self, cpu_ns: u64) {
        let took_ns = self.latest_ns - self.window.since_ns;
        let ended = self.window.ended as f64;
        let used = self.candidates[self.incumbent].used;
        self.candidates[self.at].remember(ended / took_ns as f64, ended, used);
        self.growing = false;
        self.decide();
        // Nor the candidates on the way there soon.
        let again_ns = self.candidates[self.at].again_ns;
        for index in self.incumbent + 1..self.at {
            self.candidates[index].again_ns = self.candidates[index].again_ns.max(again_ns);
        }
        self.go(self.incumbent, cpu_ns);
    }

    /// The window is full: what it says, and where to go.
    fn close(&mut self, opened: Opened, took_ns: u64, cpu_ns: u64) {
        let objects = self.window.objects as f64;
        let rate = objects / took_ns as f64;
        // From the objects, not from the window's time: those it ends amidst have used the CPUs as well.
        let computed = cpu_ns.saturating_sub(opened.cpu_ns) as f64 / (self.window.service * 1e9).max(1.0);
        let used = self
            .cpu_known
            .then(|| (computed * self.degree() as f64 / self.cpus as f64).min(1.0));
        self.variation = self.variation();
        self.varied = (self.varied + objects).min(MEMORY);
        let here = &self.candidates[self.at];
        if self.at == self.incumbent && here.known() {
            let error = (self.variation * (1.0 / objects + 1.0 / here.objects)).sqrt();
            let unlike = (rate / here.rate).ln().abs() > (CHANGE * error).max(NOISE);
            // Once is chance.
            if unlike && !std::mem::replace(&mut self.doubtful, true) {
                self.go(self.at, cpu_ns);
                return;
            }
            if unlike {
                self.growing =
                    matches!((here.used, used), (Some(before), Some(now)) if before > BUSY && now < IDLE);
                self.forget();
            }
            self.doubtful = false;
        }
        self.candidates[self.at].remember(rate, objects, used);
        let next = self.decide();
        self.go(next, cpu_ns);
    }

    /// The work has changed: nothing is known of any candidate.
    fn forget(&mut self) {
        for candidate in &mut self.candidates {
            (candidate.objects, candidate.windows) = (0.0, 0);
            (candidate.backoff, candidate.again_ns) = (BACKOFF, self.latest_ns);
        }
    }

    /// Another window, at this candidate or at another.
    fn go(&mut self, next: usize, cpu_ns: u64) {
        let now_ns = self.latest_ns;
        // The change of the degree counts with the window where the degree grows: see the head of this file.
        let at_once = next == self.at || self.growing && next > self.at;
        self.window = Window {
            since_ns: now_ns,
            rise: next > self.at,
            opened: at_once.then_some(Opened {
                at_ns: now_ns,
                cpu_ns,
            }),
            ..Window::default()
        };
        self.at = next;
    }

    /// The index of the candidate for the next window, after one at this.
    fn decide(&mut self) -> usize {
        let (now_ns, at) = (self.latest_ns, self.at);
        let took_ns = now_ns - self.window.since_ns;
        let tried = &mut self.candidates[at];
        tried.again_ns = now_ns + tried.backoff * took_ns.max(LONG_NS);
        let known = || {
            self.candidates
                .iter()
                .enumerate()
                .filter(|(_, candidate)| candidate.known())
        };
        let best = known().map(|(_, candidate)| candidate.rate).fold(0.0, f64::max);
        let incumbent = known()
            .find(|(_, candidate)| candidate.rate >= EQUAL * best)
            .map_or(at, |(incumbent, _)| incumbent);
        let before = std::mem::replace(&mut self.incumbent, incumbent);
        if at != incumbent {
            // Tried in vain: less often from now on.
            let tried = &mut self.candidates[at];
            tried.backoff = (tried.backoff * 2).min(LONGEST_BACKOFF);
        }
        // By what factor the CPUs allow more.
        let free = match self.candidates[incumbent].used {
            Some(used) if self.candidates[incumbent].windows > 1 => 1.0 / used.max(1e-3),
            _ => f64::INFINITY,
        };
        let room = free > 1.0 / FULL && incumbent + 1 < self.candidates.len();
        let above = (incumbent + 1..self.candidates.len()).find(|index| self.candidates[*index].known());
        // A step up that has paid starts it growing again.
        self.growing =
            room && at == incumbent && above.is_none() && (self.growing || incumbent > before) && self.paid();
        if self.growing {
            let degree = self.candidates[incumbent].degree;
            return self
                .index_of(degree as f64 * free.min(growth(degree)))
                .max(incumbent + 1);
        }
        if let Some(lower) = self.lower(best) {
            return lower;
        }
        if room && let Some(between) = above.and_then(|above| self.between(above)) {
            return between;
        }
        if room && self.candidates[incumbent + 1].again_ns < now_ns {
            return incumbent + 1;
        }
        incumbent
    }

    /// Whether the growth that led to the incumbent may have brought what it should.
    fn paid(&self) -> bool {
        let here = &self.candidates[self.incumbent];
        let below = self.candidates[..self.incumbent]
            .iter()
            .rev()
            .find(|candidate| candidate.known());
        below.is_none_or(|below| {
            let error = (self.variation * (1.0 / here.objects + 1.0 / below.objects)).sqrt();
            let factor = here.degree as f64 / below.degree as f64;
            (here.rate / below.rate).ln() + error >= PAYS * factor.ln()
        })
    }

    /// The candidate half-way to the next known one above, if that is far: the top may lie between.
    fn between(&self, above: usize) -> Option<usize> {
        let (here, there) = (&self.candidates[self.incumbent], &self.candidates[above]);
        let far = there.degree as f64 > WIDE * here.degree as f64 && above > self.incumbent + 1;
        far.then(|| self.incumbent.midpoint(above))
    }

    /// A candidate below the incumbent that may be as good, if there is one and it is due.
    fn lower(&self, best: f64) -> Option<usize> {
        let incumbent = self.incumbent;
        let floor = (0..incumbent).rev().find(|index| self.candidates[*index].known());
        // A lower degree brings no more than in proportion to one lower still, and no more than the CPUs give.
        let as_good = |index: usize| {
            let degree = self.candidates[index].degree as f64;
            let by_floor = floor.map_or(f64::INFINITY, |floor| {
                let floor = &self.candidates[floor];
                floor.rate * degree / floor.degree as f64
            });
            let here = &self.candidates[incumbent];
            let by_cpu = here.used.map_or(f64::INFINITY, |used| {
                here.rate * degree / (used.max(1e-3) * self.cpus as f64)
            });
            (by_floor >= EQUAL * best || floor == Some(index)) && by_cpu >= EQUAL * best
        };
        let lower = match floor {
            Some(floor) if floor + 1 == incumbent => floor,
            // The lowest that proportion allows.
            Some(floor) => {
                let floor_candidate = &self.candidates[floor];
                self.index_of(floor_candidate.degree as f64 * EQUAL * best / floor_candidate.rate)
                    .clamp(floor + 1, incumbent - 1)
            }
            None => incumbent.checked_sub(2).or_else(|| incumbent.checked_sub(1))?,
        };
        let candidate = &self.candidates[lower];
        (as_good(lower) && (!candidate.known() || candidate.again_ns < self.latest_ns)).then_some(lower)
    }

    /// The lowest candidate of at least this degree, or the last.
    fn index_of(&self, degree: f64) -> usize {
        self.candidates
            .iter()
            .position(|candidate| candidate.degree as f64 >= degree - 1e-6)
            .unwrap_or(self.candidates.len() - 1)
    }
}

impl Candidate {
    fn known(&self) -> bool {
        self.objects > 0.0
    }

    fn remember(&mut self, rate: f64, objects: f64, used: Option<f64>) {
        self.windows += 1;
        self.objects = self.objects.min(MEMORY) + objects;
        let new = objects / self.objects;
        self.rate += new * (rate - self.rate);
        self.used = used.map(|now| self.used.map_or(now, |before| before + new * (now - before)));
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

/// 1 to 8, then four to each doubling, within the bounds, with the bounds themselves and the number of CPUs.
fn candidates(bounds: &RangeInclusive<usize>, cpus: usize) -> Vec<Candidate> {
    let quarters = (0..usize::BITS - 3).flat_map(|doubling| (4..8).map(move |quarter| quarter << doubling));
    let mut degrees: Vec<usize> = [1, 2, 3, *bounds.start(), *bounds.end(), cpus]
        .into_iter()
        .chain(quarters)
        .filter(|degree| bounds.contains(degree))
        .collect();
    degrees.sort_unstable();
    degrees.dedup();
    degrees
        .into_iter()
        .map(|degree| Candidate {
            degree,
            rate: 0.0,
            objects: 0.0,
            windows: 0,
            used: None,
            again_ns: 0,
            backoff: BACKOFF,
        })
        .collect()
}
