//! The package for Python: models are compiled from the language, and called with arrays of NumPy, where they lie.
//!
//! The module `salient._salient` is this crate; what is written in Python, for torch, transformers, Ray and Dask, stands on
//! it. [`model`] is what Python sees, [`call`] the arrays of a call, [`bound`] a model with its weights and its sessions, [`arrays`] goes between arrays
//! of NumPy and ours, [`html`] is what notebooks show, [`lent`] is the one file with `unsafe`, [`tokenizer`] is that of checkpoints, [`weights`] takes weights in all their forms, and [`errors`]
//! says failures as exceptions.

mod arrays;
mod bound;
mod call;
mod errors;
mod html;
mod lent;
mod model;
mod tokenizer;
mod weights;

use pyo3::prelude::*;

/// Runs the command line on its arguments, the first of which is the program's name, and gives its exit code.
#[pyfunction]
fn command_line(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| salient_cli::run(arguments.into_iter().map(Into::into)))
}

#[pymodule]
fn _salient(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<model::Model>()?;
    module.add_class::<tokenizer::Tokenizer>()?;
    module.add_function(wrap_pyfunction!(model::compile, module)?)?;
    module.add_function(wrap_pyfunction!(command_line, module)?)?;
    errors::add(module)
}
