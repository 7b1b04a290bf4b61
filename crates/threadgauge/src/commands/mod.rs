//! One file a command.

pub mod advise;
pub mod claims;
pub mod compare;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod generate;
pub mod history;
pub mod list;
pub mod load;
pub mod observe;
pub mod report;
pub mod rerun;
pub mod run;
pub mod serve;
pub mod switch;
pub mod worker;
