//! How many messages each member has on their way when the server is saturated: so many that twice as many bring no
//! more deliveries a second.
//!
//! The source's clients sent all the time, and it does not say how much was on its way. More than saturates a server
//! waits in queues, and lengthens the delay alone.

use std::time::Duration;

use threadgauge_lab::worker::CaseError;

use super::condition::Window;

/// What may be on its way at once in all queues, of the server, the kernel and the clients together.
const MOST_BYTES: u64 = 32 << 20;
/// What the protocol adds to a message.
const HEAD_BYTES: u64 = 24;
/// Twice as many are not worth it where they bring less than this.
const MORE: f64 = 1.05;
/// Each is tried for so long, and until all is delivered.
pub(super) const TRY: Duration = Duration::from_millis(30);

/// What one message of each client comes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneOfEach {
    /// Deliveries of all of them.
    pub deliveries: u64,
    /// Of one, without what the protocol adds.
    pub payload_bytes: u64,
}

impl OneOfEach {
    /// What is tried in turn: twice as many each time, while they fit into the memory; one message in any case.
    fn windows(self) -> impl Iterator<Item = u64> {
        let bytes = self.deliveries * (self.payload_bytes + HEAD_BYTES);
        let most = (MOST_BYTES / bytes.max(1)).clamp(1, Window::MOST);
        std::iter::successors(Some(1), |window| Some(window * 2)).take_while(move |&window| window <= most)
    }

    /// The smallest of the windows at which the server is saturated, or the largest that fits; `rate` tries one, in
    /// deliveries a second.
    ///
    /// # Errors
    ///
    /// As `rate`.
    pub(super) fn saturating(
        self,
        mut rate: impl FnMut(u64) -> Result<f64, CaseError>,
    ) -> Result<u64, CaseError> {
        let mut found = (1, 0.0);
        for window in self.windows() {
            let now = rate(window)?;
            if now < found.1 * MORE {
                break;
            }
            found = (window, now);
        }
        Ok(found.0)
    }

    /// What finding it takes on a virtual machine with two CPUs, where the third try is the last and a delivery takes a
    /// microsecond.
    pub(super) fn takes(self) -> Duration {
        let tries = self.windows().take(3);
        tries
            .map(|window| TRY.max(Duration::from_micros(self.deliveries * window)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many clients in groups of ten.
    fn of(clients: u64) -> OneOfEach {
        OneOfEach {
            deliveries: clients * 9,
            payload_bytes: 128,
        }
    }

    #[test]
    fn it_is_the_first_that_twice_as_many_do_not_beat() {
        let found = |rates: &'static [f64]| {
            let mut tried = rates.iter();
            let found = of(1_000).saturating(|_| Ok(*tried.next().expect("no more is tried")));
            (found.unwrap(), tried.len())
        };
        assert_eq!(found(&[100.0, 104.0]), (1, 0));
        assert_eq!(found(&[100.0, 106.0, 110.0]), (2, 0));
        assert_eq!(found(&[100.0, 200.0, 400.0, 399.0]), (4, 0));
        let refused = of(1_000).saturating(|_| Err(CaseError::Failed("no".to_owned())));
        assert!(refused.is_err());
    }

    #[test]
    fn more_than_the_memory_is_not_tried() {
        let windows = |clients| of(clients).windows().collect::<Vec<_>>();
        assert_eq!(windows(10), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(windows(1_000), [1, 2, 4, 8, 16]);
        assert_eq!(windows(10_000), [1, 2]);
        assert_eq!(windows(50_000), [1]);
        // However it rises.
        assert_eq!(
            of(1_000).saturating(|window| Ok(window as f64 * 1e3)).unwrap(),
            16
        );
    }
}
