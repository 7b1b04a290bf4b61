//! What clients of `stages` say, and what they accept as its answer: the protocol of `guests/c/servers/stages.c`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use threadgauge_load::exchange::{Answer, Read, Worth};
use threadgauge_load::{CodecError, Exchange};
use threadgauge_machine::clock::monotonic_ns;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Add = 1,
    Crash = 2,
    Answer = 3,
    Refusal = 4,
}

fn checksum(bytes: &[u8]) -> u32 {
    let add = |sum: u32, &byte: &u8| (sum ^ u32::from(byte)).wrapping_mul(16_777_619);
    bytes.iter().fold(2_166_136_261, add)
}

/// Appends a message of so many bytes.
pub(super) fn write(into: &mut Vec<u8>, kind: Kind, account: u64, amount: u64, bytes: usize) {
    let begin = into.len();
    into.extend_from_slice(&(bytes as u32).to_be_bytes());
    into.extend_from_slice(&(kind as u32).to_be_bytes());
    for number in [account, amount, 0] {
        into.extend_from_slice(&number.to_be_bytes());
    }
    into.resize(begin + bytes - 4, b'.');
    let sum = checksum(&into[begin..]);
    into.extend_from_slice(&sum.to_be_bytes());
}

/// The sum that a whole answer to such a message has; a refusal's, or a changed one's, worth.
fn sum_of(answer: &[u8], account: u64, amount: u64) -> Result<u64, Worth> {
    let word = |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().expect("four bytes"));
    let number = |at: usize| u64::from_be_bytes(answer[at..at + 8].try_into().expect("eight bytes"));
    let end = answer.len() - 4;
    if word(end) != checksum(&answer[..end]) {
        return Err(Worth::Changed);
    }
    if word(4) == Kind::Refusal as u32 {
        return Err(Worth::Refusal(Kind::Refusal as u16));
    }
    let is_right = word(0) as usize == answer.len()
        && word(4) == Kind::Answer as u32
        && [number(8), number(16)] == [account, amount]
        && answer[32..end].iter().all(|&byte| byte == b'.');
    match is_right {
        true => Ok(number(24)),
        false => Err(Worth::Changed),
    }
}

/// When answers came: the longest time without one. And how many connections the server ended.
#[derive(Debug, Default)]
pub(super) struct Silence {
    ended: AtomicU64,
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
}

// One thread alone reads and writes it.
impl Silence {
    pub(super) fn begin(&self) {
        self.last_ns.store(monotonic_ns(), Ordering::Relaxed);
        self.longest_ns.store(0, Ordering::Relaxed);
        self.ended.store(0, Ordering::Relaxed);
    }

    fn heard(&self, now_ns: u64) {
        let silent_ns = now_ns.saturating_sub(self.last_ns.swap(now_ns, Ordering::Relaxed));
        self.longest_ns.fetch_max(silent_ns, Ordering::Relaxed);
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn longest_ns(&self) -> u64 {
        self.longest_ns.load(Ordering::Relaxed)
    }
}

/// Adds to an account a connection, and checks its sum.
#[derive(Debug)]
pub(super) struct Transfers {
    bytes: usize,
    /// Of each connection: the number of the last answer, from 1 on, and the sum in it.
    known: Vec<(u64, u64)>,
    silence: Arc<Silence>,
}

impl Transfers {
    pub(super) fn new(bytes: usize, connections: usize, silence: Arc<Silence>) -> Self {
        Self {
            bytes,
            known: vec![(0, 0); connections],
            silence,
        }
    }
}

const fn amount(number: u64) -> u64 {
    number % 7 + 1
}

impl Exchange for Transfers {
    type Reading = ();

    fn name(&self) -> &'static str {
        "transfers"
    }

    fn is_single(&self) -> bool {
        false
    }

    fn request(&mut self, connection: usize, number: u64, into: &mut Vec<u8>) {
        write(into, Kind::Add, connection as u64, amount(number), self.bytes);
    }

    fn read(&mut self, connection: usize, number: u64, _: &mut (), input: &[u8]) -> Result<Read, CodecError> {
        let Some(answer) = input.get(..self.bytes) else {
            return Ok(Read::default());
        };
        self.silence.heard(monotonic_ns());
        let added = amount(number);
        let (last, sum) = self.known[connection];
        let worth = match sum_of(answer, connection as u64, added) {
            // A server that has begun anew has no sums; one before that was not answered may be in it.
            Ok(now) if now == sum + added || now == added || last < number => {
                self.known[connection] = (number + 1, now);
                Worth::Good
            }
            Ok(_) => Worth::Changed,
            Err(worth) => worth,
        };
        Ok(Read {
            bytes: self.bytes,
            answer: Some(Answer {
                worth,
                ..Answer::GOOD
            }),
        })
    }

    fn ended(&mut self, (): &mut ()) -> Option<Answer> {
        self.silence.ended.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(account: u64, amount: u64, sum: u64) -> Vec<u8> {
        let mut made = Vec::new();
        write(&mut made, Kind::Answer, account, amount, 64);
        made[24..32].copy_from_slice(&sum.to_be_bytes());
        let sum = checksum(&made[..60]);
        made[60..].copy_from_slice(&sum.to_be_bytes());
        made
    }

    fn worth(of: &mut Transfers, number: u64, answer: &[u8]) -> Option<Worth> {
        Some(of.read(0, number, &mut (), answer).unwrap().answer?.worth)
    }

    #[test]
    fn an_answer_is_good_that_has_the_sum_of_all_before_or_of_a_server_begun_anew() {
        let mut of = Transfers::new(64, 1, Arc::default());
        assert_eq!(worth(&mut of, 0, &answer(0, 1, 1)), Some(Worth::Good));
        assert_eq!(worth(&mut of, 1, &answer(0, 2, 4)), Some(Worth::Changed));
        assert_eq!(worth(&mut of, 1, &answer(0, 2, 3)), Some(Worth::Good));
        assert_eq!(worth(&mut of, 2, &answer(0, 3, 3)), Some(Worth::Good));
        // The one before was never answered: whether it was added is not known.
        assert_eq!(worth(&mut of, 4, &answer(0, 5, 12)), Some(Worth::Good));
        assert_eq!(worth(&mut of, 5, &answer(0, 6, 17)), Some(Worth::Changed));
    }

    #[test]
    fn other_bytes_than_asked_for_and_a_refusal_are_no_good_answers() {
        let mut of = Transfers::new(64, 1, Arc::default());
        let good = answer(0, 1, 1);
        assert_eq!(worth(&mut of, 0, &good[..63]), None);
        for at in 0..64 {
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert_eq!(worth(&mut of, 0, &changed), Some(Worth::Changed), "byte {at}");
        }
        for wrong in [answer(1, 1, 1), answer(0, 2, 2)] {
            assert_eq!(worth(&mut of, 0, &wrong), Some(Worth::Changed));
        }
        let mut refusal = Vec::new();
        write(&mut refusal, Kind::Refusal, 0, 1, 64);
        assert_eq!(worth(&mut of, 0, &refusal), Some(Worth::Refusal(4)));
    }

    #[test]
    fn the_longest_time_without_an_answer_is_kept() {
        let silence = Silence::default();
        silence.begin();
        let begun_ns = silence.last_ns.load(Ordering::Relaxed);
        for after_ns in [5, 105, 115] {
            silence.heard(begun_ns + after_ns);
        }
        assert_eq!(silence.longest_ns(), 100);
        silence.begin();
        assert_eq!(silence.longest_ns(), 0);
    }
}
