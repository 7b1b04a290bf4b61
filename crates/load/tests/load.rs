//! The clients against servers of a few lines, honest ones and others.

#[path = "load/faulty.rs"]
mod faulty;
#[path = "load/groups.rs"]
mod groups;
#[path = "load/requests.rs"]
mod requests;
