//! Event loops, and how connections are given to several of them.
//!
//! [`Reactor`] is one loop over epoll, usable for anything that has a descriptor: it calls one [`Handler`] for what
//! can be read, what can be written, times, and tasks from other threads. [`ReactorManager`] says which of several
//! loops reads from a handle and which writes to it.
//!
//! The event-driven designs are made of these: `serving_loop` is the handler that serves connections, `loops` starts
//! the loops and ends them, `tasks` is what they ask of each other, and `slots` bounds how many connections there are.

mod accepting;
#[cfg(test)]
mod ahead_test;
mod arriving;
mod balance;
#[cfg(test)]
mod by_hand;
mod completions;
mod event_loop;
#[cfg(test)]
mod halves_test;
mod inbox;
mod interest;
pub(crate) mod join_handles;
pub(crate) mod loops;
mod manager;
mod moves;
mod moving;
#[cfg(test)]
mod moving_test;
mod one_handler;
#[cfg(test)]
mod one_handler_test;
#[cfg(test)]
mod order_test;
mod peer;
pub(crate) mod peer_table;
#[cfg(test)]
mod peer_table_test;
#[cfg(test)]
mod pressure_test;
mod reading;
mod serving_loop;
pub(crate) mod slots;
mod tasks;
pub(crate) mod thread_count;
pub(crate) mod timers;
mod writing;

pub(crate) use loops::Kernel;
pub(crate) use serving_loop::Acceptors;

pub use event_loop::{Handler, Mailbox, Reactor};
pub use interest::{Interest, Readiness, Token};
pub use manager::ReactorManager;
