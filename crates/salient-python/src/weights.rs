//! Weights in the forms that callers have them in: a checkpoint's path, or a mapping from names to arrays.
//!
//! What a mapping holds is copied: weights stay what they were when the model was given them.

use crate::arrays::{Values, to_numpy, values_of};
use crate::errors::raised;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use salient::{Arrays, Coded, Graph, Options, Weights, read_gguf_coded, read_wanted};
use std::path::PathBuf;

/// The weights of a model, under its own paths.
#[derive(Debug, Default)]
pub(crate) struct Held {
    arrays: Arrays,
    coded: Coded,
    /// Parameters that are not there are drawn from it.
    seed: Option<u64>,
    /// The checkpoint and the prefix, if they come of a file.
    file: Option<(PathBuf, String)>,
}

/// What the caller says of weights.
pub(crate) struct Given<'py> {
    pub(crate) weights: Option<Bound<'py, PyAny>>,
    pub(crate) prefix: String,
    pub(crate) seed: Option<u64>,
}

impl Held {
    /// Reads the weights that a model has. A name is the model's path behind the prefix; names without it are as they are.
    pub(crate) fn of(py: Python<'_>, given: &Given<'_>, graph: &Graph) -> PyResult<Held> {
        let mut held = match &given.weights {
            None => Held::default(),
            Some(weights) => match path_of(weights)? {
                Some(path) => {
                    let prefix = given.prefix.clone();
                    py.detach(|| Held::read(path, prefix, graph)).map_err(raised)?
                }
                None => Held::copied(weights, &given.prefix, graph)?,
            },
        };
        held.seed = given.seed;
        Ok(held)
    }

    fn read(path: PathBuf, prefix: String, graph: &Graph) -> Result<Held, salient::Error> {
        let own = |name: &str| name.strip_prefix(&prefix).unwrap_or(name).to_owned();
        let is_wanted = |name: &str| is_param(graph, &own(name));
        let is_gguf = path.extension().is_some_and(|e| e == "gguf");
        let (arrays, coded) =
            if is_gguf { read_gguf_coded(&path)? } else { (read_wanted(&path, &is_wanted)?, Coded::new()) };
        let mut held = Held { file: Some((path, prefix.clone())), ..Held::default() };
        let (entries, _) = arrays.into_parts();
        for (name, array, stored) in entries.into_iter().filter(|(name, ..)| is_wanted(name)) {
            held.arrays.insert_stored(own(&name), array, stored)?;
        }
        let coded = coded.into_iter().filter(|(name, _)| is_wanted(name));
        held.coded = coded.map(|(name, blocks)| (own(&name), blocks)).collect();
        Ok(held)
    }

    fn copied(weights: &Bound<'_, PyAny>, prefix: &str, graph: &Graph) -> PyResult<Held> {
        let mut held = Held::default();
        for item in weights.call_method0("items")?.try_iter()? {
            let (name, value): (String, Bound<'_, PyAny>) = item?.extract()?;
            let path = name.strip_prefix(prefix).unwrap_or(&name);
            let Some(port) = graph.params().iter().find(|port| *port.name == *path) else { continue };
            let Values { array, .. } = values_of(&value, &format!("parameter `{path}`"), Some(port.dtype))?;
            // A clone has memory of its own.
            held.arrays.insert(path, array.clone()).map_err(|e| raised(e.into()))?;
        }
        Ok(held)
    }

    pub(crate) fn weights(&self) -> Weights<'_> {
        let weights = Weights::from(&self.arrays).coded(&self.coded);
        self.seed.map_or(weights, |seed| weights.or_seeded(seed))
    }

    /// Options with which code reads these weights in the form that they are in.
    pub(crate) fn options(&self, options: Options) -> Options {
        options.for_coded(&self.coded)
    }

    /// As [`Given`] has them, to be sent elsewhere: the path, or the arrays.
    pub(crate) fn sent<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, String, Option<u64>)> {
        if let Some((path, prefix)) = &self.file {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            return Ok((path.into_pyobject(py)?.into_any(), prefix.clone(), self.seed));
        }
        Ok((self.copies(py)?.into_any(), String::new(), self.seed))
    }

    /// The paths of the weights that are in blocks of few bits.
    pub(crate) fn in_blocks(&self) -> Vec<&str> {
        self.coded.keys().map(String::as_str).collect()
    }

    /// The arrays, by path. Those in blocks of few bits are not among them.
    pub(crate) fn copies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arrays = PyDict::new(py);
        for (name, array) in self.arrays.iter() {
            arrays.set_item(name, to_numpy(py, array.clone())?)?;
        }
        Ok(arrays)
    }
}

/// The path that weights are, if they are one.
fn path_of(weights: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if weights.is_instance_of::<PyString>() || weights.hasattr("__fspath__")? {
        return weights.extract().map(Some);
    }
    Ok(None)
}

fn is_param(graph: &Graph, name: &str) -> bool {
    graph.params().iter().any(|port| *port.name == *name)
}
