//! Why connections end, in the words that the pages of the NATS server have for it.

use crate::counters::CloseReason;

const PROTOCOL: &str = "Protocol Violation";
const SHUTDOWN: &str = "Server Shutdown";
const STALE: &str = "Stale Connection";
const CONTROL_LINE: &str = "Maximum Control Line Exceeded";

/// Of a client that was told what it did wrong.
pub(super) fn refused(told: &str) -> &'static str {
    match told {
        "Authorization Violation" => "Authentication Failure",
        "Authentication Timeout" => "Authentication Timeout",
        "invalid client protocol" => "Bad Client Protocol Version",
        "no responders requires headers support" => "No Responders Requires Headers",
        "maximum connections exceeded" => "Maximum Connections Exceeded",
        "maximum control line exceeded" => CONTROL_LINE,
        "Maximum Payload Violation" => "Maximum Message Payload Exceeded",
        STALE => STALE,
        _ => PROTOCOL,
    }
}

/// Of any other.
pub(super) fn ended(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::PeerEnded => "Client Closed",
        CloseReason::Lost => "Read Error",
        CloseReason::TooLong => CONTROL_LINE,
        CloseReason::Handshake => "Authentication Timeout",
        CloseReason::Idle => STALE,
        CloseReason::MadeRoom => "Maximum Connections Exceeded",
        CloseReason::Slow => "Slow Consumer (Pending Bytes)",
        CloseReason::WriteTimeout => "Slow Consumer (Write Deadline)",
        // A session of its own accord closes as a lame duck alone.
        CloseReason::Finished | CloseReason::Stopped | CloseReason::DrainTime => SHUTDOWN,
        CloseReason::Refused => PROTOCOL,
        CloseReason::Panicked => "Internal Client",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_told_what_is_wrong_ended_for_that() {
        for (told, reason) in [
            ("maximum control line exceeded", "Maximum Control Line Exceeded"),
            ("Maximum Payload Violation", "Maximum Message Payload Exceeded"),
            ("maximum connections exceeded", "Maximum Connections Exceeded"),
            ("Authorization Violation", "Authentication Failure"),
            ("Authentication Timeout", "Authentication Timeout"),
            ("Stale Connection", "Stale Connection"),
            ("Unknown Protocol Operation", "Protocol Violation"),
        ] {
            assert_eq!(refused(told), reason, "{told}");
        }
    }
}
