//! Text to syntax trees and back, knowing no name's meaning.
//!
//! [`grammar`] is the grammar as a parser, [`limits`] refuses what is too large or too deep before it is parsed, [`parse`]
//! makes the tree ([`ast`]), [`format()`] prints a file in the one layout, [`tokens`] looks at tokens alone, and [`slips`] and
//! [`unused`] find what parses but was hardly meant.

pub mod ast;
pub(crate) mod format;
pub(crate) mod grammar;
pub mod limits;
pub(crate) mod parse;
pub(crate) mod slips;
pub(crate) mod tokens;
pub(crate) mod unused;
