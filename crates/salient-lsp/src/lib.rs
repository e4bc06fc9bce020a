//! The language server: what editors ask about a program, answered from what the front end knows of it.
//!
//! [`serve`] speaks the protocol over a connection. `documents` are the texts that the editor has open, `program` is what is
//! known of one, `worker` compiles beside the conversation, and `answers` has a file for each kind of question. Nothing is
//! decided here about the language: names, shapes and diagnostics are the front end's, the layout is the formatter's, and what
//! fuses is said by the facts of the plan.

mod answers;
mod documents;
mod lines;
mod program;
mod server;
mod uri;
mod worker;

pub use server::{Ended, serve, serve_stdio};
