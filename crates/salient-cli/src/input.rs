//! What a call gives: flags and the files that they name.
//!
//! [`options`] are the flags that several commands share, [`numbers`] how a flag's number is read, [`tuning`] which tuning
//! file serves, [`arrays`] inputs, weights and expectations, [`checkpoint`] a published model's weights and tokenizer,
//! [`fitting`] which of a file's models is meant, [`program`] the source, [`literal`] and [`drawn`] arrays that no file
//! holds, [`call`] all that looks at one call.

pub(crate) mod arrays;
pub(crate) mod call;
pub(crate) mod checkpoint;
pub(crate) mod drawn;
pub(crate) mod fitting;
pub(crate) mod literal;
pub(crate) mod numbers;
pub(crate) mod options;
pub(crate) mod program;
pub(crate) mod tuning;
