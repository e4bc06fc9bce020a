//! The grammar as a parser: the rules of `grammar/salient.pest`, made by pest. Their use is for `parse`.

use pest_derive::Parser;

#[derive(Parser)]
#[grammar = "syntax/salient.pest"]
pub(crate) struct Grammar;
