//! What must hold of every plan and of every loop program, whatever made them: checked in debug builds after each is made, and
//! in tests of deliberately wrong ones.
//!
//! Plans and statements are looked at in debug builds after each is made; addresses ([`bounds`]), and that every element is
//! written by one item ([`coverage`]), where it is asked for, and in tests of all examples. The interpreter of loop programs
//! checks both as it runs.

pub mod bounds;
mod choice;
pub mod coverage;
mod facts;
mod footprint;
pub mod plan;
pub mod program;
mod prove;
mod quotients;
mod rounding;
mod samples;
mod scope;
#[cfg(test)]
mod tests;
pub mod unfused;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kernel or the value.
    pub of: String,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.of, self.what)
    }
}

/// Faults as they are found.
#[derive(Default)]
struct Faults {
    found: Vec<Fault>,
}

impl Faults {
    fn unless(&mut self, holds: bool, of: &str, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(Fault { of: of.to_owned(), what: what() });
        }
    }
}
