//! The crate on the machine it runs on, and on copies of others.

mod children;
mod copies;
mod fingerprint;
mod live;
mod memory;
