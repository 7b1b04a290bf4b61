//! One case: what its computations do, how long they are, in which order they come and who runs them.
//!
//! Owns the names of the parameters and the lengths that follow from them.

use threadgauge_lab::point::{Parameter, Value, refused};
use threadgauge_lab::prelude::*;

use crate::ideal::{Phase, completions};

words! {
    /// What a computation does for its length.
    pub(super) enum Kind {
        /// Computes: a fixed number of steps that use its length of CPU time.
        Cpu = "cpu",
        /// Sleeps, as the source's do.
        Io = "io",
        /// Computes and sleeps in turn, once each in 5 ms. It computes for a tenth of its length.
        Mix10 = "mix10",
        /// The same, for a quarter of its length.
        Mix25 = "mix25",
        /// The same, for half of its length.
        Mix50 = "mix50",
        /// The same, for three quarters of its length.
        Mix75 = "mix75",
        /// The same, for nine tenths of its length.
        Mix90 = "mix90",
        /// Asks a server on the loopback network, which answers after that length.
        Server = "server",
    }
}
words! {
    /// The source's word for the carrier: one after the other, or all at once.
    pub(super) enum Mode {
        /// By the caller.
        Serial = "serial",
        /// By any other carrier.
        Concurrent = "concurrent",
    }
}
words! {
    /// Who runs them.
    pub(super) enum Carrier {
        /// The caller, one after the other.
        Caller = "caller",
        /// A thread for each, all made before any begins and released in turn: the source's method.
        UpFront = "up-front",
        /// A thread for each, made when its turn comes.
        Thread = "thread",
        /// As many threads as the degree.
        Pool = "pool",
        /// As many helper processes as the degree.
        Process = "process",
    }
}
/// What the lengths are.
#[expect(clippy::large_enum_variant, reason = "cases are few, and copied")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lengths {
    /// Base × 1 … base × count.
    Steps,
    /// The base.
    Equal,
    /// Drawn evenly from 1 ms to base × count; the same draw for a count in every sample.
    Random,
    /// These, whatever the base.
    Listed(List),
}

/// Lengths of a user's own, ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct List {
    ms: [u32; Self::MOST],
    count: usize,
}

impl List {
    const MOST: usize = 64;
    /// An hour.
    const LONGEST_MS: u32 = 3_600_000;

    fn read(text: &str) -> Option<Self> {
        let mut list = Self {
            ms: [0; Self::MOST],
            count: 0,
        };
        for length in text.split('/') {
            let ms = length
                .parse()
                .ok()
                .filter(|ms| (1..=Self::LONGEST_MS).contains(ms))?;
            *list.ms.get_mut(list.count)? = ms;
            list.count += 1;
        }
        (list.count > 1).then_some(list)
    }

    pub(super) fn ms(&self) -> &[u32] {
        &self.ms[..self.count]
    }
}

impl Parameter for Lengths {
    fn value(&self) -> Value {
        match self {
            Self::Steps => Value::from("steps"),
            Self::Equal => Value::from("equal"),
            Self::Random => Value::from("random"),
            Self::Listed(list) => {
                let lengths: Vec<String> = list.ms().iter().map(u32::to_string).collect();
                Value::Text(lengths.join("/"))
            }
        }
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => [Self::Steps, Self::Equal, Self::Random]
                .into_iter()
                .find(|lengths| lengths.value() == *value)
                .or_else(|| List::read(text).map(Self::Listed)),
            Value::Int(_) => None,
        }
    }

    fn wanted() -> String {
        format!(
            "steps, equal, random, or 2 to {} lengths of 1 to {} ms as 10/20/500",
            List::MOST,
            List::LONGEST_MS
        )
    }
}
words! {
    /// In which order they come.
    pub(super) enum Order {
        /// Longest first: the worst case, and the source's.
        Descending = "descending",
        /// Shortest first.
        Ascending = "ascending",
        /// At random, drawn anew for each sample.
        Shuffled = "shuffled",
    }
}
words! {
    /// What is special about the case.
    pub(super) enum Extra {
        /// Nothing.
        None = "none",
        /// Each begins when the one before it has ended.
        Chain = "chain",
        /// Finishing each takes the base of CPU time, on the caller's thread.
        Finisher = "finisher",
    }
}

/// How many may be at work at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Degree {
    /// At most this many.
    AtMost(u64),
    /// As many as the executor finds worth it while it runs, up to the source's degree.
    Adaptive,
}

/// The source's degree of concurrency.
pub(super) const DEGREE: Degree = Degree::AtMost(SOURCES_DEGREE);
const SOURCES_DEGREE: u64 = 25;

impl Degree {
    /// The largest that it can be.
    pub(super) const fn most(self) -> u64 {
        match self {
            Self::AtMost(most) => most,
            Self::Adaptive => SOURCES_DEGREE,
        }
    }
}

impl Parameter for Degree {
    fn value(&self) -> Value {
        match self {
            Self::AtMost(most) => Value::Int(*most),
            Self::Adaptive => Value::from("adaptive"),
        }
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Int(most @ 1..) => Some(Self::AtMost(*most)),
            value => (*value == Self::Adaptive.value()).then_some(Self::Adaptive),
        }
    }

    fn wanted() -> String {
        "a number above 0 or adaptive".to_owned()
    }
}

impl Kind {
    /// What its computations are called, before the noun.
    pub(super) const fn bound(self) -> &'static str {
        match self {
            Self::Cpu => "CPU-bound",
            Self::Io => "I/O-bound",
            Self::Mix10 => "mixed (10 % CPU)",
            Self::Mix25 => "mixed (25 % CPU)",
            Self::Mix50 => "mixed (50 % CPU)",
            Self::Mix75 => "mixed (75 % CPU)",
            Self::Mix90 => "mixed (90 % CPU)",
            Self::Server => "waiting (for a server)",
        }
    }

    /// The kinds that compute and wait by turns, the least computing first.
    pub(super) const MIXES: [Self; 5] = [Self::Mix10, Self::Mix25, Self::Mix50, Self::Mix75, Self::Mix90];

    /// What share of its length it computes, per cent, where that is fixed.
    pub(super) const fn computes_percent(self) -> u64 {
        match self {
            Self::Cpu => 100,
            Self::Mix10 => 10,
            Self::Mix25 => 25,
            Self::Mix50 => 50,
            Self::Mix75 => 75,
            Self::Mix90 => 90,
            Self::Io | Self::Server => 0,
        }
    }

    /// The phases of a computation of this length: computing and waiting, in order.
    pub(super) fn phases(self, length: Duration) -> Vec<Phase> {
        let percent = self.computes_percent() as f64;
        let ns = length.as_nanos() as f64;
        match percent {
            100.0 => vec![Phase::Compute(ns)],
            0.0 => vec![Phase::Wait(ns)],
            _ => {
                let turn_ns = TURN.as_nanos() as f64;
                let turns = (ns / turn_ns).ceil() as u64;
                let lengths_ns = (0..turns).map(|i| (ns - i as f64 * turn_ns).min(turn_ns));
                let computing = |turn_ns: f64| turn_ns * percent / 100.0;
                lengths_ns
                    .flat_map(|ns| [Phase::Compute(computing(ns)), Phase::Wait(ns - computing(ns))])
                    .collect()
            }
        }
    }
}

/// How long computing and waiting once take together, where they take turns.
const TURN: Duration = Duration::from_millis(5);

point! {
    /// One case.
    pub(super) struct Case {
        kind: Kind,
        mode: Mode,
        carrier: Carrier,
        degree: Degree,
        lengths: Lengths,
        order: Order,
        extra: Extra,
        // Bounded, so that a typing error cannot overload the machine.
        count: u64 = 1..=10_000,
        base_ms: u64 = 1..,
        cpus: u64 = 1..,
    }
}

impl Case {
    /// The source's worst case on one CPU, one after the other.
    pub(super) const fn serial(kind: Kind, count: u64, base_ms: u64) -> Self {
        Self {
            kind,
            mode: Mode::Serial,
            carrier: Carrier::Caller,
            degree: Degree::AtMost(1),
            lengths: Lengths::Steps,
            order: Order::Descending,
            extra: Extra::None,
            count,
            base_ms,
            cpus: 1,
        }
    }

    /// The same, all at once as the source's executor does it.
    pub(super) const fn concurrent(self) -> Self {
        Self {
            mode: Mode::Concurrent,
            carrier: Carrier::UpFront,
            degree: DEGREE,
            ..self
        }
    }

    /// The same, one after the other.
    pub(super) const fn one_after_the_other(self) -> Self {
        Self {
            mode: Mode::Serial,
            carrier: Carrier::Caller,
            degree: Degree::AtMost(1),
            ..self
        }
    }

    /// Reads a case back, whose mode must be that of its carrier.
    pub(super) fn checked(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        let mode = match case.carrier {
            Carrier::Caller => Mode::Serial,
            Carrier::UpFront | Carrier::Thread | Carrier::Pool | Carrier::Process => Mode::Concurrent,
        };
        if case.mode != mode {
            let wanted = format!("{}, since the carrier is {}", mode.name(), case.carrier.name());
            return Err(refused(params, "mode", &wanted));
        }
        if let Lengths::Listed(list) = case.lengths
            && list.count as u64 != case.count
        {
            let wanted = format!("{}, since so many lengths are given", list.count);
            return Err(refused(params, "count", &wanted));
        }
        Ok(case)
    }

    /// The lengths in the order in which they come. `seed` decides a shuffled order.
    pub(super) fn given(self, seed: u64) -> Vec<Duration> {
        let base = Duration::from_millis(self.base_ms);
        let mut draw = fastrand::Rng::with_seed(self.count);
        let mut lengths: Vec<Duration> = (1..=self.count)
            .map(|i| match self.lengths {
                Lengths::Steps => Duration::from_millis(self.base_ms * i),
                Lengths::Equal => base,
                Lengths::Random => Duration::from_millis(draw.u64(1..=self.base_ms * self.count)),
                Lengths::Listed(list) => Duration::from_millis(list.ms()[as_usize(i - 1)].into()),
            })
            .collect();
        match self.order {
            Order::Ascending => lengths.sort_unstable(),
            Order::Descending => lengths.sort_unstable_by_key(|l| std::cmp::Reverse(*l)),
            Order::Shuffled => fastrand::Rng::with_seed(seed).shuffle(&mut lengths),
        }
        lengths
    }

    /// When each of these would complete after the start if nothing cost anything but the work itself, ns.
    pub(super) fn ideal(self, lengths: &[Duration]) -> Vec<f64> {
        let phases: Vec<Vec<Phase>> = lengths.iter().map(|l| self.kind.phases(*l)).collect();
        // A chain is one after the other, however many may.
        let degree = match self.extra {
            Extra::Chain => 1,
            Extra::None | Extra::Finisher => self.degree.most(),
        };
        completions(&phases, self.cpus, degree)
    }
}

pub(super) fn as_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(lengths: &[Duration]) -> Vec<u128> {
        lengths.iter().map(Duration::as_millis).collect()
    }

    #[test]
    fn lengths_of_ones_own_are_a_list_of_as_many_as_computations() {
        let case = |lengths: &str, count| {
            let case = Case::serial(Kind::Io, count, 10);
            Case::checked(&case.params().with("lengths", lengths))
        };
        let listed = case("10/500/20", 3).unwrap();
        assert_eq!(ms(&listed.given(1)), [500, 20, 10]);
        assert_eq!(listed.params().text("lengths"), Some("10/500/20"));
        let says = |lengths, count| case(lengths, count).unwrap_err().to_string();
        assert_eq!(
            says("10/500/20", 5),
            "the parameter count is 5; it must be 3, since so many lengths are given"
        );
        let many = ["1"; 65].join("/");
        for bad in ["10/0", "10/", "/", "10/x", "10/3600001", "-1/2", "stairs", &many] {
            let says = says(bad, 2);
            let wanted =
                "it must be steps, equal, random, or 2 to 64 lengths of 1 to 3600000 ms as 10/20/500";
            assert!(says.ends_with(wanted), "{says}");
        }
    }

    #[test]
    fn the_worst_case_of_the_source() {
        let case = Case::serial(Kind::Cpu, 5, 30);
        assert_eq!(ms(&case.given(1)), [150, 120, 90, 60, 30]);
        let ascending = Case {
            order: Order::Ascending,
            ..case
        };
        assert_eq!(ms(&ascending.given(1)), [30, 60, 90, 120, 150]);
        let equal = Case {
            lengths: Lengths::Equal,
            ..case
        };
        assert_eq!(ms(&equal.given(1)), [30; 5]);
    }

    #[test]
    fn chance_is_drawn_from_the_seed_and_lengths_from_the_count_alone() {
        let shuffled = Case {
            order: Order::Shuffled,
            ..Case::serial(Kind::Cpu, 17, 10)
        };
        assert_eq!(shuffled.given(3), shuffled.given(3));
        assert_ne!(shuffled.given(3), shuffled.given(4));
        let random = Case {
            lengths: Lengths::Random,
            ..Case::serial(Kind::Cpu, 17, 10)
        };
        assert_eq!(random.given(3), random.given(4));
        assert!(ms(&random.given(3)).iter().all(|l| (1..=170).contains(l)));
        assert!(random.given(3).windows(2).all(|pair| pair[0] >= pair[1]));
    }

    #[test]
    fn a_case_is_read_back() {
        let case = Case {
            kind: Kind::Io,
            order: Order::Shuffled,
            ..Case::serial(Kind::Cpu, 8, 90).concurrent()
        };
        assert_eq!(Case::checked(&case.params()).unwrap(), case);
        let adaptive = Case {
            degree: Degree::Adaptive,
            ..case
        };
        assert_eq!(Case::checked(&adaptive.params()).unwrap(), adaptive);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let refused = |name: &str, value: Value| {
            let params = Case::serial(Kind::Cpu, 2, 10)
                .concurrent()
                .params()
                .with(name, value);
            Case::checked(&params).unwrap_err().to_string()
        };
        assert_eq!(
            refused("order", Value::parse("worst")),
            "the parameter order is worst; it must be one of descending, ascending, shuffled"
        );
        assert_eq!(
            refused("degree", Value::Int(0)),
            "the parameter degree is 0; it must be a number above 0 or adaptive"
        );
        assert_eq!(
            refused("carrier", Value::parse("caller")),
            "the parameter mode is concurrent; it must be serial, since the carrier is caller"
        );
        assert!(refused("count", Value::Int(1 << 40)).contains("from 1 to 10000"));
    }

    #[test]
    fn a_mix_computes_and_waits_by_turns() {
        use Phase::{Compute, Wait};
        assert_eq!(
            Kind::Mix25.phases(Duration::from_millis(12)),
            [
                Compute(1.25e6),
                Wait(3.75e6),
                Compute(1.25e6),
                Wait(3.75e6),
                Compute(0.5e6),
                Wait(1.5e6)
            ]
        );
        assert_eq!(Kind::Cpu.phases(Duration::from_millis(12)), [Compute(12e6)]);
        assert_eq!(Kind::Server.phases(Duration::from_millis(12)), [Wait(12e6)]);
    }

    #[test]
    fn the_ideal_of_the_source() {
        let ideal = |case: Case| {
            let lengths = case.given(1);
            let ns = case.ideal(&lengths);
            ns.iter().map(|ns| ns / 1e6).collect::<Vec<_>>()
        };
        assert_eq!(ideal(Case::serial(Kind::Cpu, 2, 10)), [20.0, 30.0]);
        assert_eq!(ideal(Case::serial(Kind::Cpu, 2, 10).concurrent()), [30.0, 20.0]);
        assert_eq!(ideal(Case::serial(Kind::Io, 2, 10).concurrent()), [20.0, 10.0]);
        let chain = Case {
            extra: Extra::Chain,
            ..Case::serial(Kind::Cpu, 2, 10).concurrent()
        };
        assert_eq!(ideal(chain), [20.0, 30.0]);
    }
}
