//! What the programs of tests share whose servers are processes of their own: words for the settings of a server, what
//! it has counted, and what `/proc` says of it.

pub mod counted;
pub mod proc;
pub mod settings;
