//! The client's side of every protocol of requests and answers: whatever a server sends, cut at any places, says the
//! same as whole, and nothing panics. The first byte chooses the protocol, the second how long the pieces are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadgauge_load::CodecError;
use threadgauge_load::exchange::{Answer, Bytes, Echo, Exchange, Http, HttpRequest, Numbered};

/// The answers to requests 0, 1, …, of bytes that come in pieces; then the server ends the connection.
fn answers<'a, E: Exchange>(
    mut exchange: E,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<Answer>, CodecError> {
    let (mut held, mut answers, mut reading) = (Vec::new(), Vec::new(), E::Reading::default());
    for piece in pieces {
        held.extend_from_slice(piece);
        let mut used = 0;
        while used < held.len() {
            let read = exchange.read(0, answers.len() as u64, &mut reading, &held[used..])?;
            used += read.bytes;
            assert!(used <= held.len());
            match read.answer {
                Some(answer) => {
                    assert!(read.bytes > 0);
                    answers.push(answer);
                }
                None if read.bytes == 0 => break,
                None => {}
            }
        }
        held.drain(..used);
    }
    answers.extend(exchange.ended(&mut reading));
    Ok(answers)
}

/// The same cut as whole.
fn held_to_it<E: Exchange>(exchange: impl Fn() -> E, bytes: &[u8], length: usize) {
    let whole = answers(exchange(), std::iter::once(bytes));
    let cut = answers(exchange(), bytes.chunks(length));
    assert_eq!(whole.is_ok(), cut.is_ok());
    if whole.is_ok() {
        assert_eq!(whole, cut);
    }
}

fuzz_target!(|input: &[u8]| {
    let [which, length, bytes @ ..] = input else {
        return;
    };
    let length = usize::from(*length).max(1);
    let get = HttpRequest::get("here", "/");
    match which % 6 {
        0 => held_to_it(|| Echo::new(7), bytes, length),
        1 => held_to_it(|| Bytes::kept(40), bytes, length),
        2 => {
            let method = "HEAD".to_owned();
            let head = HttpRequest { method, ..get };
            held_to_it(|| Http::new(&head), bytes, length);
        }
        3 => {
            let close = HttpRequest { close: true, ..get };
            held_to_it(|| Http::new(&close), bytes, length);
        }
        4 => held_to_it(|| Numbered::new(5, 0, 1), bytes, length),
        _ => held_to_it(|| Http::new(&get), bytes, length),
    }
});
