//! Machine code of bodies against the interpreter, on every emitter and target that this machine can run: every operator
//! on hostile data, every access, every length around the number of lanes, random bodies, with guard pages around all memory.

#![allow(unsafe_code, reason = "the machine code under test is called directly")]

mod harness;
mod loops;
mod math;
mod ops;
mod places;
mod pressure;
mod random;
mod tiles;
