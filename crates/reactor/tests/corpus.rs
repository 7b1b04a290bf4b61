//! What the fuzz targets have found worth keeping, replayed: one file an input, as a fuzzer writes it.

use std::fs;

use threadgauge_reactor::protocol::bytes::Bytes;
use threadgauge_reactor::protocol::chat::Chat;
use threadgauge_reactor::protocol::groups::Groups;
use threadgauge_reactor::protocol::http::Http;
use threadgauge_reactor::protocol::numbered::Numbered;
use threadgauge_reactor::testing::split_as_told;

/// Replays what is recorded for a protocol.
fn replay(protocol: &str, run: impl Fn(&[u8])) {
    let folder = format!("{}/tests/corpus/{protocol}", env!("CARGO_MANIFEST_DIR"));
    let mut replayed = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is there") {
        let path = entry.expect("a file").path();
        let told = fs::read(&path).expect("it can be read");
        // A failure quotes the input itself.
        run(&told);
        replayed += 1;
    }
    assert!(replayed > 0, "{folder} is empty");
}

#[test]
fn bytes_that_were_recorded_do_the_same_cut_and_whole() {
    replay("bytes", |told| split_as_told(|| Bytes, b"", told));
}

#[test]
fn requests_for_pages_that_were_recorded_do_the_same_cut_and_whole() {
    replay("http", |told| split_as_told(Http::default, b"", told));
}

#[test]
fn numbered_requests_that_were_recorded_do_the_same_cut_and_whole() {
    replay("numbered", |told| {
        split_as_told(|| Numbered::with_step(|_| ()), b"", told);
    });
}

#[test]
fn chats_that_were_recorded_do_the_same_cut_and_whole() {
    replay("chat", |told| split_as_told(Chat::default, b"join x\n", told));
}

#[test]
fn groups_that_were_recorded_do_the_same_cut_and_whole() {
    replay("groups", |told| {
        split_as_told(|| Groups::named("fuzz"), b"SUB a.> 1\r\nSUB * q 2\r\n", told);
    });
}
