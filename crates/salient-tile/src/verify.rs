//! What must hold of every plan and of every loop program, whatever made them; tests make wrong ones deliberately.
//!
//! Plans and statements are looked at in debug builds after each is made, and under `--verify`; addresses ([`bounds`]), and that
//! every element is written by one item ([`coverage`]), under `--verify`, where what is shown to be wrong is a fault, and in tests
//! of all examples. The interpreter of loop programs checks both as it runs.

pub mod bounds;
mod choice;
pub mod coverage;
mod facts;
mod footprint;
pub mod plan;
pub mod program;
mod prove;
mod quotients;
mod samples;
mod scope;
#[cfg(test)]
mod tests;
pub mod unfused;

use crate::plan::Plan;
use crate::program::kernel::Program;
use salient_ir::Requirement;

/// Ends the compiler if it has made a plan with faults.
///
/// # Panics
/// If the plan has some; each is named.
pub fn assert_plan(plan: &Plan<'_>) {
    let faults: Vec<String> = plan::verify(plan).iter().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "the plan of `{}` is wrong:\n{}", plan.graph.name(), faults.join("\n"));
}

/// Ends the compiler if it has made a program with faults; where the requirements of the model are given, also if one of its
/// addresses is shown to lie outside for some dimensions, or one of its elements to be written twice or never.
///
/// # Panics
/// If the program of this name has some; each is named.
pub fn assert_program(name: &str, program: &Program, requirements: Option<&[Requirement]>) {
    let mut faults: Vec<String> = program::verify(program).iter().map(ToString::to_string).collect();
    // Addresses are walked only where everything that they name is there.
    if let (Some(requirements), true) = (requirements, faults.is_empty()) {
        let addresses = bounds::bounds(program, requirements).undecided;
        faults.extend(addresses.iter().filter(|a| a.outside.is_some()).map(ToString::to_string));
        let elements = coverage::coverage(program, requirements).open;
        faults.extend(elements.iter().filter(|e| e.shown.is_some()).map(ToString::to_string));
    }
    assert!(faults.is_empty(), "the program of `{name}` is wrong:\n{}", faults.join("\n"));
}

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
