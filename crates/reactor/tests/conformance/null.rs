//! `null`: accepts and closes.

use crate::{Case, Pair};

pub const CASES: &[Case] = &[("every_connection_is_closed_at_once", closed_at_once)];

fn closed_at_once(pair: Pair) {
    let server = pair.serve(&[]);
    for _ in 0..100 {
        server.connect().expect_end();
    }
    let counted = server.stop();
    assert_eq!((counted.of("accepted"), counted.of("finished")), (100, 100));
    assert_eq!((counted.of("bytes_in"), counted.of("bytes_out")), (0, 0));
}
