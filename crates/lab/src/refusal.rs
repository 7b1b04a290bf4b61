//! A case that the system refused another process or thread, with the limit behind it.

use std::{fmt, io};

use threadgauge_machine::why_refused;

use crate::worker::CaseError;

/// The failure of a case in which `what` (say "thread 501 by pthread") was refused with `error`. Call it
/// before the units that were made are ended: it looks at what is in use.
pub fn refused(what: impl fmt::Display, error: &io::Error) -> CaseError {
    CaseError::Failed(told("self", what, error).0)
}

/// The same for the `number`th unit, counted from 1, of another process; `process` is its name in `/proc`.
pub fn refused_in(process: &str, unit: &str, number: u64, error: &io::Error) -> CaseError {
    let (says, limit) = told(process, format_args!("{unit} {number}"), error);
    let made = number.saturating_sub(1);
    CaseError::Refused { says, made, limit }
}

/// What to say of a refusal, and the limit that was reached.
fn told(process: &str, what: impl fmt::Display, error: &io::Error) -> (String, Option<String>) {
    let (why, limit) = why_refused(process, error);
    (format!("{what} was refused: {error}{why}"), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_error_is_told_as_it_is() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let says = refused("process 3 by fork", &error).to_string();
        assert_eq!(says, format!("process 3 by fork was refused: {error}"));
    }
}
