//! What a computation does, and what must be ready before the clock starts.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use threadgauge_exec::process::Processor;
use threadgauge_machine::{Burner, clock};

use super::case::Kind;
use super::server::Server;
use crate::ideal::Phase;
use threadgauge_lab::worker::CaseError;

/// What a case's computations need. Dropping it ends the server, where there is one.
#[derive(Debug)]
pub(super) struct Means {
    kind: Kind,
    burner: Burner,
    server: Option<Server>,
}

/// A computation, made ready.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Computation {
    /// Fixed amounts of work: being interrupted makes it late, never shorter.
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Piece {
    Burn { steps: u64 },
    Sleep(Duration),
    Ask(Duration),
}

impl Means {
    /// Opens and calibrates what computations of `kind` need.
    pub(super) fn of(kind: Kind, burner: Burner) -> Result<Self, CaseError> {
        Ok(Self {
            kind,
            burner,
            server: (kind == Kind::Server)
                .then(Server::start)
                .transpose()
                .map_err(|e| CaseError::failed("starting the server on the loopback network", e))?,
        })
    }

    /// A computation of this length.
    pub(super) fn computation(&self, length: Duration) -> Computation {
        let whole = |ns: f64| Duration::from_nanos(ns.round() as u64);
        let piece = |phase: &Phase| match (*phase, self.kind) {
            (Phase::Compute(ns), _) => Piece::Burn {
                steps: self.burner.iterations(whole(ns)),
            },
            (Phase::Wait(ns), Kind::Server) => Piece::Ask(whole(ns)),
            (Phase::Wait(ns), _) => Piece::Sleep(whole(ns)),
        };
        let pieces = self.kind.phases(length).iter().map(piece).collect();
        Computation { pieces }
    }

    /// Does the computation, and returns the CPU time that took this thread, ns.
    ///
    /// # Errors
    ///
    /// What the server refused, in words.
    pub(super) fn run(&self, computation: &Computation) -> Result<u64, String> {
        computation.run(self.server.as_ref())
    }
}

/// A computation in a helper process, which has no server.
pub(crate) static IN_A_HELPER: Processor<(usize, Computation), Result<u64, String>> =
    Processor::new("turnaround computation", |(_, computation)| computation.run(None));

impl Computation {
    fn run(&self, server: Option<&Server>) -> Result<u64, String> {
        let before_ns = clock::thread_cpu_ns();
        for piece in &self.pieces {
            match (piece, server) {
                (Piece::Burn { steps }, _) => Burner::burn_units(*steps),
                (Piece::Ask(after), Some(server)) => server.ask(*after)?,
                (Piece::Sleep(length), _) => thread::sleep(*length),
                (Piece::Ask(_), None) => {
                    return Err("it was made for other means than these".to_owned());
                }
            }
        }
        Ok(clock::thread_cpu_ns() - before_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computation_is_a_fixed_amount_of_work() {
        let burner = Burner::calibrate();
        let means = Means::of(Kind::Mix50, burner).unwrap();
        let computation = means.computation(Duration::from_millis(5));
        assert_eq!(
            computation.pieces,
            [
                Piece::Burn {
                    steps: burner.iterations(Duration::from_micros(2_500))
                },
                Piece::Sleep(Duration::from_micros(2_500))
            ]
        );
        let used_ns = means.run(&computation).unwrap();
        // Half of it was computed, half slept. A crowded machine computes more slowly, not less.
        assert!(used_ns >= 1_000_000, "{used_ns}");
    }

    #[test]
    fn a_server_is_asked_and_answers() {
        let means = Means::of(Kind::Server, Burner::calibrate()).unwrap();
        let begun_ns = clock::monotonic_ns();
        means.run(&means.computation(Duration::from_millis(20))).unwrap();
        assert!(clock::monotonic_ns() - begun_ns >= 20_000_000);
    }
}
