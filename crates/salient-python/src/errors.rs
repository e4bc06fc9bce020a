//! Failures of the library as exceptions of Python. Messages are the library's.

use pyo3::exceptions::{PyException, PyOSError};
use pyo3::prelude::*;
use salient::Error;

pyo3::create_exception!(salient, SalientError, PyException, "Anything that goes wrong in Salient.");
pyo3::create_exception!(
    salient,
    SourceError,
    SalientError,
    "A source is refused; the message shows the lines, with carets."
);
pyo3::create_exception!(
    salient,
    CallError,
    SalientError,
    "Arrays or weights do not fit the model; the message names every one of them."
);
pyo3::create_exception!(
    salient,
    RunError,
    SalientError,
    "The model has no value on this data, or there is no code or memory for it."
);

/// Makes the exceptions known to Python.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("SalientError", py.get_type::<SalientError>())?;
    module.add("SourceError", py.get_type::<SourceError>())?;
    module.add("CallError", py.get_type::<CallError>())?;
    module.add("RunError", py.get_type::<RunError>())
}

/// The exception for a failure of the library.
pub(crate) fn raised(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Unreadable { .. } | Error::Io(_) => PyOSError::new_err(message),
        Error::Source(_) | Error::Unfused(_) | Error::Plan(_) => SourceError::new_err(message),
        Error::Call(_) | Error::Tuning(_) | Error::Target(_) => CallError::new_err(message),
        Error::Code(_) | Error::Run(_) => RunError::new_err(message),
    }
}

/// A call that is wrong.
pub(crate) fn call(message: impl Into<String>) -> PyErr {
    CallError::new_err(message.into())
}
