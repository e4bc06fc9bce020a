//! What the tests of the whole project share: where files are, every way of running a model, what counts as agreement.
//!
//! Decides nothing about single models: each test names its own programs and data.

pub mod agree;
pub mod case;
pub mod data;
pub mod examples;
pub mod files;
pub mod fuzz;
pub mod generate;
pub mod judge;
pub mod recorded;
pub mod ruling;
pub mod shrink;
pub mod snapshot;
pub mod soak;
pub mod sweep;
pub mod trial;
pub mod watch;
pub mod ways;
