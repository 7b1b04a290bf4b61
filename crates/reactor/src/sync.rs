//! What the parts between threads stand on: the standard library, or loom's model of it under `cfg(loom)`.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicU8, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicU8, Ordering},
};
