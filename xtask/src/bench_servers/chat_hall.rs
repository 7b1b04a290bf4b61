//! Who has said what in rooms of ten, and who has heard it: no delivery is lost, doubled, changed, misled or out of order.
//!
//! The clients of a chat server are all here, so it is known of each line who has it. A delivery must be the next line of
//! a member of the same room, whole, and nobody may hear himself.

use anyhow::{Context, Result, ensure};

/// Members of a room.
pub const ROOM: usize = 10;
/// Of a line, its end included.
pub const LINE_BYTES: usize = 128;

/// Who has said what, and who has heard it.
#[derive(Debug)]
pub struct Hall {
    members: Vec<Member>,
    /// Deliveries made.
    pub heard: u64,
    /// Deliveries to come.
    pub on_the_way: u64,
}

#[derive(Clone, Debug)]
struct Member {
    /// The number of its last line.
    said: u64,
    /// Who have yet to hear that.
    deaf: usize,
    /// By place in the room: the number of the last line that this one heard from there.
    heard: [u64; ROOM],
}

impl Hall {
    /// Nobody has said anything.
    pub fn of(members: usize) -> Self {
        let member = Member {
            said: 0,
            deaf: 0,
            heard: [0; ROOM],
        };
        Self {
            members: vec![member; members],
            heard: 0,
            on_the_way: 0,
        }
    }

    /// The next line of `speaker`, which is on its way from now on.
    pub fn says(&mut self, speaker: usize) -> [u8; LINE_BYTES] {
        let member = &mut self.members[speaker];
        member.said += 1;
        member.deaf = ROOM - 1;
        self.on_the_way += ROOM as u64 - 1;
        line_of(speaker, member.said)
    }

    /// `listener` has received `line`: who said it.
    ///
    /// # Errors
    ///
    /// If that is not the line that must come next from there.
    pub fn hears(&mut self, listener: usize, line: &[u8]) -> Result<usize> {
        let wrong = || format!("member {listener} received {:?}", String::from_utf8_lossy(line));
        let speaker = speaker_of(line).with_context(wrong)?;
        ensure!(
            speaker < self.members.len() && speaker / ROOM == listener / ROOM && speaker != listener,
            "{}, which was not for it",
            wrong()
        );
        let expected = self.members[listener].heard[speaker % ROOM] + 1;
        ensure!(
            expected <= self.members[speaker].said && line == line_of(speaker, expected),
            "{} instead of line {expected} of member {speaker}",
            wrong()
        );
        self.members[listener].heard[speaker % ROOM] = expected;
        self.members[speaker].deaf -= 1;
        self.heard += 1;
        self.on_the_way -= 1;
        Ok(speaker)
    }

    /// Whether the last line of `speaker` is with all the others.
    pub fn is_heard_by_all(&self, speaker: usize) -> bool {
        self.members[speaker].deaf == 0
    }
}

/// The line with this number of a member: both as 16 hexadecimal digits, and the rest filled up.
fn line_of(speaker: usize, number: u64) -> [u8; LINE_BYTES] {
    let mut line = [b'.'; LINE_BYTES];
    write_hex(&mut line[..16], speaker as u64);
    write_hex(&mut line[16..32], number);
    line[LINE_BYTES - 1] = b'\n';
    line
}

fn write_hex(into: &mut [u8], mut value: u64) {
    for digit in into.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

fn speaker_of(line: &[u8]) -> Option<usize> {
    usize::from_str_radix(str::from_utf8(line.get(..16)?).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_on_its_way_until_the_other_nine_have_it() {
        let mut hall = Hall::of(20);
        let line = hall.says(13);
        assert_eq!((hall.on_the_way, line.len(), line[127]), (9, 128, b'\n'));
        for listener in (10..20).filter(|&listener| listener != 13) {
            assert!(!hall.is_heard_by_all(13));
            assert_eq!(hall.hears(listener, &line).unwrap(), 13);
        }
        assert!(hall.is_heard_by_all(13));
        assert_eq!((hall.heard, hall.on_the_way), (9, 0));
    }

    #[test]
    fn a_line_twice_lost_changed_or_in_the_wrong_place_is_found() {
        let said = || {
            let mut hall = Hall::of(20);
            let line = hall.says(3);
            (hall, line)
        };
        let (mut twice, line) = said();
        twice.hears(4, &line).unwrap();
        assert!(twice.hears(4, &line).is_err());

        let (mut lost, _) = said();
        let second = lost.says(3);
        assert!(lost.hears(4, &second).is_err(), "the first has not come");

        let (mut changed, mut line) = said();
        line[100] = b'!';
        assert!(changed.hears(4, &line).is_err());

        let (mut elsewhere, line) = said();
        assert!(elsewhere.hears(14, &line).is_err(), "of another room");
        assert!(elsewhere.hears(3, &line).is_err(), "its own");
        assert!(elsewhere.hears(4, &line_of(99, 1)).is_err(), "of nobody");
        assert!(elsewhere.hears(4, &line_of(5, 1)).is_err(), "never said");
        assert!(elsewhere.hears(4, b"\n").is_err());
    }
}
