//! The protocol `http`: bytes from anywhere, cut at any places, do the same as whole, and nothing panics. The first
//! byte says how many of the next are places to cut at.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadgauge_reactor::protocol::http::Http;
use threadgauge_reactor::testing::split_as_told;

fuzz_target!(|input: &[u8]| split_as_told(Http::default, b"", input));
