//! The class `salient.Tokenizer`: texts to tokens as a checkpoint's own tokenizer makes them.

use crate::errors::call;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::PathBuf;

/// A tokenizer of a `tokenizer.json` or of a GGUF file.
#[pyclass(frozen, module = "salient")]
pub(crate) struct Tokenizer {
    path: PathBuf,
    max_tokens: Option<usize>,
    inner: salient_text::Tokenizer,
}

#[pymethods]
impl Tokenizer {
    /// Reads a file. Texts are cut to `max_tokens`; if it is not given, as the file says.
    #[new]
    #[pyo3(signature = (path, max_tokens = None))]
    fn new(path: PathBuf, max_tokens: Option<usize>) -> PyResult<Tokenizer> {
        let mut inner = salient_text::Tokenizer::read(&path).map_err(|e| call(e.to_string()))?;
        if max_tokens.is_some() {
            inner.truncate(max_tokens).map_err(|e| call(e.to_string()))?;
        }
        Ok(Tokenizer { path, max_tokens, inner })
    }

    /// The tokens of each text.
    fn encode(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Vec<Vec<u32>>> {
        let encode = |text: &String| self.inner.encode(text).map(|encoded| encoded.ids);
        py.detach(|| texts.iter().map(encode).collect::<Result<_, _>>()).map_err(|e| call(e.to_string()))
    }

    /// The text of some tokens.
    fn decode(&self, ids: Vec<u32>) -> PyResult<String> {
        self.inner.decode(&ids).map_err(|e| call(e.to_string()))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class = py.get_type::<Tokenizer>().into_any();
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        Ok((class, (path, self.max_tokens).into_pyobject(py)?))
    }
}
