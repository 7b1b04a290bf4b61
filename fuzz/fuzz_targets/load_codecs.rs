//! The client's side of every protocol that the load generator speaks: whatever a server sends, cut at any places, says
//! the same as whole and as read frame by frame, and nothing panics. The first byte chooses the protocol, the second
//! how long the pieces are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadgauge_load::codec::{Chat, Codec, CodecError, Event, Frames, Mqtt, Nats, Resp, WebSocket};

const CODECS: [&'static dyn Codec; 5] = [&Nats::ALIKE, &Resp, &Mqtt, &Chat, &WebSocket];

/// The payloads of all deliveries and how many other events there were, of bytes that come in pieces.
fn events<'a>(
    codec: &dyn Codec,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<(Vec<Vec<u8>>, usize), CodecError> {
    let (mut held, mut deliveries, mut others) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        held.extend_from_slice(piece);
        let mut used = 0;
        while let Some(frame) = codec.next(&held[used..])? {
            assert!(frame.bytes > 0 && used + frame.bytes <= held.len());
            match frame.event {
                Event::Delivery(payload) => deliveries.push(payload.to_vec()),
                Event::Ready | Event::Wants(_) | Event::Noise => others += 1,
            }
            used += frame.bytes;
        }
        held.drain(..used);
    }
    Ok((deliveries, others))
}

/// The same by what reads them with a look at the one before.
fn by_frames(codec: &'static dyn Codec, bytes: &[u8]) -> Result<(Vec<Vec<u8>>, usize), CodecError> {
    let (mut frames, mut deliveries, mut others) = (Frames::of(codec, bytes), Vec::new(), 0);
    while let Some(event) = frames.next_event()? {
        match event {
            Event::Delivery(payload) => deliveries.push(payload.to_vec()),
            Event::Ready | Event::Wants(_) | Event::Noise => others += 1,
        }
    }
    Ok((deliveries, others))
}

fuzz_target!(|input: &[u8]| {
    let [which, length, bytes @ ..] = input else {
        return;
    };
    let codec = CODECS[usize::from(*which) % CODECS.len()];
    let whole = events(codec, std::iter::once(bytes));
    let cut = events(codec, bytes.chunks(usize::from(*length).max(1)));
    assert_eq!(whole, by_frames(codec, bytes));
    assert_eq!(whole.is_ok(), cut.is_ok());
    if whole.is_ok() {
        assert_eq!(whole, cut);
    }
});
