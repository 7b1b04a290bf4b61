//! What goes over the channel: frames of a length (eight bytes, little endian) and as many bytes, which are a value in
//! postcard's encoding.

use std::io::{self, Read};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const HEADER: usize = size_of::<u64>();
/// Answers other than results are smaller than this, whatever the largest frame is.
pub(super) const ROOM: usize = 8 << 10;
/// What is read at once.
const CHUNK: usize = 64 << 10;

/// A helper's answer: one when it is ready, then one for each object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer<R> {
    Ready,
    /// It has no processor of that name.
    Unregistered,
    /// Times in ns of the monotonic clock, which all processes share.
    Done {
        started_ns: u64,
        ended_ns: u64,
        result: R,
    },
    Panicked(String),
    /// The object could not be read.
    Object(String),
    /// The result could not be encoded.
    Result(String),
    TooLarge(usize),
}

/// Why a value has no frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unsendable {
    Encoding(String),
    /// So many bytes.
    TooLarge(usize),
}

/// The frame of a value.
pub(super) fn encode<T: Serialize>(value: &T, largest: usize) -> Result<Vec<u8>, Unsendable> {
    let content = postcard::to_allocvec(value).map_err(|e| Unsendable::Encoding(e.to_string()))?;
    if content.len() > largest {
        return Err(Unsendable::TooLarge(content.len()));
    }
    let mut frame = Vec::with_capacity(HEADER + content.len());
    frame.extend((content.len() as u64).to_le_bytes());
    frame.extend(content);
    Ok(frame)
}

/// The value of a frame's content.
pub(super) fn decode<T: DeserializeOwned>(content: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(content) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes too many", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

/// The content of the next frame from a reader that blocks; none at its end. Memory is taken for what comes, not for
/// what is announced.
pub(super) fn read(from: &mut impl Read, largest: usize) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER];
    match from.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u64::from_le_bytes(header);
    if length > largest as u64 {
        return Err(io::Error::other(format!(
            "a frame of {length} bytes is announced, more than the largest of {largest}"
        )));
    }
    let mut content = Vec::new();
    if from.take(length).read_to_end(&mut content)? as u64 == length {
        Ok(Some(content))
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// What an [`Inbox`] has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    Frame(Vec<u8>),
    /// Not a whole frame yet.
    Nothing,
    /// And there will be no more.
    Closed,
    /// A frame of so many bytes is said to come, which is too many.
    TooLarge(usize),
}

/// Collects the frames of a reader that does not block. Never more than the largest frame and a chunk.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    largest: usize,
}

impl Inbox {
    pub(super) fn new(largest: usize) -> Self {
        Self {
            bytes: Vec::new(),
            largest,
        }
    }

    /// Reads until there is a whole frame, or as far as it goes.
    pub(super) fn receive(&mut self, from: &mut impl Read) -> Received {
        let mut chunk = [0; CHUNK];
        loop {
            if let Some(header) = self.bytes.first_chunk::<HEADER>() {
                let length = usize::try_from(u64::from_le_bytes(*header)).unwrap_or(usize::MAX);
                if length > self.largest {
                    return Received::TooLarge(length);
                }
                if self.bytes.len() >= HEADER + length {
                    let rest = self.bytes.split_off(HEADER + length);
                    let mut frame = std::mem::replace(&mut self.bytes, rest);
                    frame.drain(..HEADER);
                    return Received::Frame(frame);
                }
            }
            match from.read(&mut chunk) {
                Ok(0) => return Received::Closed,
                Ok(n) => self.bytes.extend_from_slice(&chunk[..n]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Received::Nothing,
                    io::ErrorKind::Interrupted => {}
                    // A reset: the other end has gone without reading all.
                    _ => return Received::Closed,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives its bytes in pieces, between which it has none, and is interrupted by a signal.
    struct Pieces(
        Vec<Vec<u8>>,
        std::iter::Cycle<std::vec::IntoIter<Option<io::ErrorKind>>>,
    );

    impl Pieces {
        fn of(pieces: Vec<Vec<u8>>) -> Self {
            let between = vec![
                Some(io::ErrorKind::WouldBlock),
                Some(io::ErrorKind::Interrupted),
                None,
            ];
            Self(pieces, between.into_iter().cycle())
        }
    }

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if let Some(between) = self.1.next().flatten() {
                return Err(between.into());
            }
            let Some(piece) = self.0.first_mut() else {
                return Ok(0);
            };
            let n = piece.len().min(into.len());
            into[..n].copy_from_slice(&piece[..n]);
            piece.drain(..n);
            if piece.is_empty() {
                self.0.remove(0);
            }
            Ok(n)
        }
    }

    proptest! {
        #[test]
        fn frames_arrive_whole_however_they_are_cut(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
            cut in 1_usize..50,
        ) {
            let stream: Vec<u8> = values.iter().flat_map(|v| encode(v, 1000).unwrap()).collect();
            let mut reader = Pieces::of(stream.chunks(cut).map(<[u8]>::to_vec).collect());
            let (mut inbox, mut got) = (Inbox::new(1000), Vec::new());
            loop {
                match inbox.receive(&mut reader) {
                    Received::Frame(content) => got.push(decode::<Vec<u8>>(&content).unwrap()),
                    Received::Nothing => {}
                    Received::Closed => break,
                    Received::TooLarge(n) => panic!("{n}"),
                }
            }
            prop_assert_eq!(got, values);
        }

        #[test]
        fn any_bytes_are_a_frame_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut inbox = Inbox::new(100);
            if let Received::Frame(content) = inbox.receive(&mut &bytes[..]) {
                prop_assert!(content.len() <= 100);
                let _ = decode::<Answer<Vec<String>>>(&content);
            }
        }
    }

    #[test]
    fn too_large_a_frame_is_refused_before_it_is_read() {
        assert_eq!(encode(&vec![7_u8; 99], 99), Err(Unsendable::TooLarge(100)));
        let mut inbox = Inbox::new(99);
        let announced = 100_u64.to_le_bytes();
        assert_eq!(inbox.receive(&mut &announced[..]), Received::TooLarge(100));
        let announced = u64::MAX.to_le_bytes();
        assert_eq!(
            Inbox::new(99).receive(&mut &announced[..]),
            Received::TooLarge(usize::MAX)
        );
    }

    #[test]
    fn no_memory_is_taken_for_what_is_only_announced() {
        for announced in [u64::MAX, 1 << 60, 100] {
            let refused = read(&mut &announced.to_le_bytes()[..], 99).unwrap_err();
            assert!(
                refused.to_string().contains("more than the largest of 99"),
                "{refused}"
            );
        }
        let cut_short = read(&mut &(1_u64 << 60).to_le_bytes()[..], usize::MAX).unwrap_err();
        assert_eq!(cut_short.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn half_a_frame_is_the_end() {
        let frame = encode(&String::from("whole"), 99).unwrap();
        assert_eq!(Inbox::new(99).receive(&mut &frame[..5]), Received::Closed);
        assert!(read(&mut &frame[..9], 99).is_err());
        assert!(read(&mut &frame[..0], 99).unwrap().is_none());
        assert_eq!(
            read(&mut &frame[..], 99).unwrap().unwrap().len(),
            frame.len() - HEADER
        );
        assert!(decode::<u8>(&[1, 2]).is_err());
    }
}
