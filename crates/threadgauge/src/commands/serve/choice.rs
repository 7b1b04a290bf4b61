//! What `groups` is served on where nobody says it: the design that was measured best, as far as the kernel allows it.
//!
//! Of all designs the reactor that sends by io_uring delivered most for a CPU second in groups of ten with one message
//! outstanding, on one CPU and on two (`runs/2026-11-21-groups.md`). `proactor` is as good on one CPU, and on two
//! behind even the plain reactor, since most of its deliveries go from one loop to another.

use threadgauge_reactor::{Design, Error, Sends};

/// How the best design sends here, and why: a sentence for the person who named none.
pub fn best(io_uring: Result<(), Error>) -> (Sends, String) {
    let design = Design::default().name();
    let chosen = |sends: Sends, why: &str| {
        let name = sends.name();
        (
            sends,
            format!("chosen, since no --design is given: {design} with --sends {name}{why}"),
        )
    };
    match io_uring {
        Ok(()) => chosen(
            Sends::IoUring,
            ", which delivered most for a CPU second of all that were measured",
        ),
        Err(Error::NoIoUring { source, why, .. }) => chosen(
            Sends::Call,
            &format!(
                "; io_uring would deliver more for a CPU second, but the kernel refuses it ({source}): {why}"
            ),
        ),
        Err(other) => chosen(
            Sends::Call,
            &format!("; io_uring would deliver more for a CPU second, but it fails: {other}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_is_chosen_is_what_the_kernel_allows_and_why_is_said() {
        let (sends, said) = best(Ok(()));
        assert_eq!(sends, Sends::IoUring);
        assert!(
            said.contains("reactor with --sends io_uring, which delivered most"),
            "{said}"
        );
        let refused = Error::NoIoUring {
            source: io::ErrorKind::PermissionDenied.into(),
            why: "it is switched off",
            instead: "",
        };
        let (sends, said) = best(Err(refused));
        assert_eq!(sends, Sends::Call);
        assert!(
            said.contains("reactor with --sends call; ")
                && said.ends_with("(permission denied): it is switched off"),
            "{said}"
        );
    }
}
