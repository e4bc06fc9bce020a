//! The arrays of a call: what a model is given, and the memory that it writes its results to.

use crate::arrays::{Values, like, new_memory, to_numpy, values_of, writable};
use crate::errors::{call, raised};
use crate::lent::overlap;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use salient::{Array, Arrays, DType, Graph};

/// The arrays of a call.
pub(crate) struct Inputs<'py> {
    pub(crate) arrays: Arrays,
    kept: Vec<(String, Bound<'py, PyUntypedArray>)>,
    /// The first that is an array of another library.
    pub(crate) other: Option<Bound<'py, PyAny>>,
}

/// The memory of the results of a call, by position among the model's outputs.
pub(crate) struct Results<'py> {
    pub(crate) memory: Vec<Array>,
    names: Vec<(usize, String)>,
    numpy: Vec<Option<Bound<'py, PyAny>>>,
}

/// The outputs that are no states, by position.
pub(crate) fn results(graph: &Graph) -> impl Iterator<Item = (usize, &str)> {
    let outputs = graph.outputs().iter().enumerate();
    let others = outputs.filter(|(at, _)| graph.states().iter().all(|state| state.output != *at));
    others.map(|(at, output)| (at, &*output.name))
}

impl<'py> Inputs<'py> {
    /// The arrays that were given by position and by name.
    pub(crate) fn given(
        graph: &Graph,
        args: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Inputs<'py>> {
        let ports = graph.inputs();
        let mut given = Inputs { arrays: Arrays::new(), kept: Vec::new(), other: None };
        if args.len() > ports.len() {
            let (most, found) = (ports.len(), args.len());
            return Err(PyTypeError::new_err(format!("the model has {most} inputs, and was given {found}")));
        }
        for (value, port) in args.iter().zip(ports) {
            given.take(&port.name, &value, Some(port.dtype))?;
        }
        for (name, value) in named.into_iter().flatten() {
            let name = name.extract::<String>()?;
            if given.arrays.get(&name).is_some() {
                return Err(PyTypeError::new_err(format!("input `{name}` was given twice")));
            }
            given.take(&name, &value, ports.iter().find(|p| *p.name == *name).map(|p| p.dtype))?;
        }
        Ok(given)
    }

    fn take(&mut self, name: &str, value: &Bound<'py, PyAny>, dtype: Option<DType>) -> PyResult<()> {
        let what = format!("input `{name}`");
        let Values { array, numpy, other } = values_of(value, &what, dtype)?;
        self.arrays.insert(name, array).map_err(|e| raised(e.into()))?;
        self.kept.push((what, numpy));
        if self.other.is_none() {
            self.other = other;
        }
        Ok(())
    }
}

impl<'py> Results<'py> {
    /// Memory for the outputs: the caller's, or new.
    pub(crate) fn memory(
        py: Python<'py>,
        (graph, types): (&Graph, &[(DType, Vec<usize>)]),
        out: Option<&Bound<'py, PyAny>>,
        given: &Inputs<'py>,
    ) -> PyResult<Results<'py>> {
        let names: Vec<(usize, String)> = results(graph).map(|(at, name)| (at, name.to_owned())).collect();
        let mut to = out.map(|out| named_memory(out, &names)).transpose()?;
        let mut results = Results { memory: Vec::new(), names: Vec::new(), numpy: Vec::new() };
        let mut written: Vec<(String, Bound<'py, PyUntypedArray>)> = Vec::new();
        for (at, (dtype, shape)) in types.iter().enumerate() {
            let name = names.iter().find(|(known, _)| *known == at).map(|(_, name)| name.as_str());
            let memory = match (name, &mut to) {
                (Some(name), Some(to)) => {
                    let what = format!("output `{name}`");
                    let values = writable(&to.remove(0), &what, (*dtype, shape))?;
                    let others = given.kept.iter().chain(&written);
                    if let Some((other, _)) = others.into_iter().find(|(_, a)| overlap(a, &values.numpy)) {
                        return Err(call(format!("{what} has memory in common with {other}")));
                    }
                    written.push((what, values.numpy.clone()));
                    Some(values)
                }
                (Some(_), None) => new_memory(py, *dtype, shape)?,
                (None, _) => None,
            };
            match memory {
                Some(Values { array, numpy, .. }) => {
                    results.memory.push(array);
                    results.numpy.push(Some(numpy.into_any()));
                }
                None => {
                    let zeros = Array::zeros(*dtype, shape.clone());
                    results.memory.push(zeros.map_err(|e| call(e.to_string()))?);
                    results.numpy.push(None);
                }
            }
        }
        results.names = names;
        Ok(results)
    }

    /// What the caller gets: `out`, if it was given; else a result or all of them, by name.
    pub(crate) fn give(
        self,
        py: Python<'py>,
        out: Option<&Bound<'py, PyAny>>,
        other: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(out) = out {
            return Ok(out.clone());
        }
        let mut memory: Vec<Option<Array>> = self.memory.into_iter().map(Some).collect();
        let mut numpy = self.numpy;
        let mut named = Vec::new();
        for (at, name) in self.names {
            let array = memory[at].take().expect("each output has one name");
            let dtype = array.dtype();
            let result = match numpy[at].take() {
                Some(result) => result,
                None => to_numpy(py, array)?,
            };
            named.push((name, like(other, result, dtype)?));
        }
        one_or_all(py, named)
    }
}

/// The memory that a caller gives for each result, in order.
fn named_memory<'py>(out: &Bound<'py, PyAny>, names: &[(usize, String)]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let Ok(all) = out.cast::<PyDict>() else {
        if names.len() == 1 {
            return Ok(vec![out.clone()]);
        }
        return Err(PyTypeError::new_err("the model has several results: `out` is a dictionary of them"));
    };
    let of = |(_, name): &(usize, String)| {
        all.get_item(name)?.ok_or_else(|| call(format!("`out` has no memory for output `{name}`")))
    };
    let found = names.iter().map(of).collect::<PyResult<Vec<_>>>()?;
    if all.len() != names.len() {
        return Err(call(format!(
            "`out` has {} arrays, and the model has {} results",
            all.len(),
            names.len()
        )));
    }
    Ok(found)
}

/// A result that is the only one by itself, several as a dictionary.
pub(crate) fn one_or_all<'py>(
    py: Python<'py>,
    mut named: Vec<(String, Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyAny>> {
    if named.len() == 1 {
        return Ok(named.remove(0).1);
    }
    let all = PyDict::new(py);
    for (name, result) in named {
        all.set_item(name, result)?;
    }
    Ok(all.into_any())
}
