use std::io;
use crate::worker::CaseError;
pub(super) fn thread(created: usize, wanted: u64, error: &io::Error) -> CaseError { CaseError::failed(format!("{created} of {wanted}"), error) }
pub(super) fn process(created: u64, wanted: u64, error: &io::Error) -> CaseError { CaseError::failed(format!("{created} of {wanted}"), error) }
