//! Pictures as SVG: what is drawn is given as plain values, and nothing here compiles or runs a model.
//!
//! [`svg`] is the one writer of SVG text, which all pictures share.

pub mod svg;
