//! Pictures as SVG: what is drawn is given as plain values, and nothing here compiles or runs a model.
//!
//! [`graph`] draws graphs, [`heat`] matrices, [`chart`] lines, [`bars`] bars, [`page`] a whole report; [`svg`] is the one writer of SVG text, which all pictures share.

pub mod bars;
pub mod chart;
pub mod graph;
pub mod heat;
pub mod page;
pub mod svg;
