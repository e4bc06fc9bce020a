//! From what a caller calls with to arrays of ours, and back: in place where they are arrays of NumPy as the language has them,
//! by way of `salient._interop`, which is written in Python, where they are anything else.

use crate::errors::call;
use crate::lent::{Refused, is_writable, lend, taken};
use numpy::{IxDyn, PyArray, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use salient::{Array, DType, Data};

/// An array of a call.
pub(crate) struct Values<'py> {
    /// Ours, over the memory of `numpy`.
    pub(crate) array: Array,
    /// The array of NumPy that holds the elements: the caller's, or a copy of it.
    pub(crate) numpy: Bound<'py, PyUntypedArray>,
    /// What the caller gave, if it is an array of another library.
    pub(crate) other: Option<Bound<'py, PyAny>>,
}

/// A function of the part that is written in Python.
fn interop<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let function =
        cell.get_or_try_init(py, || Ok::<_, PyErr>(py.import("salient._interop")?.getattr(name)?.unbind()))?;
    Ok(function.bind(py))
}

/// What a caller gave under that name. `dtype` is what the model declares.
pub(crate) fn values_of<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    dtype: Option<DType>,
) -> PyResult<Values<'py>> {
    if let Ok(numpy) = value.cast_exact_array()
        && let Some(found) = taken(&numpy)
    {
        return Ok(Values { array: lent(&numpy, found, false, name)?, numpy, other: None });
    }
    static AS_NUMPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let as_numpy = interop(value.py(), &AS_NUMPY, "as_numpy")?;
    let dtype = dtype.map(DType::name);
    let (numpy, is_bf16, is_other): (Bound<'py, PyAny>, bool, bool) =
        as_numpy.call1((value, name, dtype))?.extract()?;
    let numpy = numpy.cast_into::<PyUntypedArray>()?;
    let found = if is_bf16 { Some(DType::BF16) } else { taken(&numpy) };
    let found = found.ok_or_else(|| PyTypeError::new_err(format!("{name}: its elements are not taken")))?;
    let other = is_other.then(|| value.clone());
    Ok(Values { array: lent(&numpy, found, false, name)?, numpy, other })
}

/// Memory of the caller's to be written: contiguous, of that dtype and shape. Nothing is copied.
pub(crate) fn writable<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    (dtype, shape): (DType, &[usize]),
) -> PyResult<Values<'py>> {
    let numpy = match value.cast_exact_array() {
        Ok(numpy) => numpy,
        Err(_) => {
            static SHARED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let shared = interop(value.py(), &SHARED, "shared")?;
            shared.call1((value, name))?.cast_into::<PyUntypedArray>()?
        }
    };
    if !is_writable(&numpy) {
        return Err(call(format!("{name}: it may only be read")));
    }
    if numpy.shape() != shape {
        return Err(call(format!("{name}: it has the shape {:?}, expected {shape:?}", numpy.shape())));
    }
    match taken(&numpy) {
        Some(found) if found == dtype => {
            Ok(Values { array: lent(&numpy, found, true, name)?, numpy, other: None })
        }
        Some(found) => Err(call(format!("{name}: it holds {found}, expected {dtype}"))),
        None => Err(call(format!(
            "{name}: results are written to contiguous, aligned arrays of {dtype} in this machine's byte order; it holds {}",
            numpy.dtype()
        ))),
    }
}

/// New memory for a result; `None` for a dtype that NumPy does not have.
pub(crate) fn new_memory<'py>(
    py: Python<'py>,
    dtype: DType,
    shape: &[usize],
) -> PyResult<Option<Values<'py>>> {
    let numpy = match dtype {
        DType::F32 => PyArray::<f32, IxDyn>::zeros(py, shape, false).as_untyped().clone(),
        DType::I32 => PyArray::<i32, IxDyn>::zeros(py, shape, false).as_untyped().clone(),
        DType::I64 => PyArray::<i64, IxDyn>::zeros(py, shape, false).as_untyped().clone(),
        DType::Bool => PyArray::<bool, IxDyn>::zeros(py, shape, false).as_untyped().clone(),
        DType::F16 => {
            let zeros = py.import("numpy")?.getattr("zeros")?;
            zeros.call1((shape.to_vec(), "float16"))?.cast_into::<PyUntypedArray>()?
        }
        DType::BF16 => return Ok(None),
    };
    let array = lent(&numpy, dtype, true, "a result")?;
    Ok(Some(Values { array, numpy, other: None }))
}

/// An array of ours as one of NumPy, without a copy; bfloat16, which NumPy does not have, as float32.
pub(crate) fn to_numpy(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyAny>> {
    let array = if array.dtype() == DType::BF16 { array.widen() } else { Ok(array) };
    let (shape, data) = array.map_err(|e| call(e.to_string()))?.into_parts();
    let flat = match data {
        Data::F32(v) => PyArray::from_vec(py, v.into_vec()).into_any(),
        Data::I32(v) => PyArray::from_vec(py, v.into_vec()).into_any(),
        Data::I64(v) => PyArray::from_vec(py, v.into_vec()).into_any(),
        Data::Bool(v) => PyArray::from_vec(py, v.into_vec()).into_any(),
        Data::F16(v) | Data::BF16(v) => {
            PyArray::from_vec(py, v.into_vec()).call_method1("view", ("float16",))?
        }
    };
    flat.call_method1("reshape", (shape,))
}

/// A result in the kind of array that the caller called with.
pub(crate) fn like<'py>(
    other: Option<&Bound<'py, PyAny>>,
    result: Bound<'py, PyAny>,
    dtype: DType,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(other) = other else { return Ok(result) };
    static LIKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    interop(result.py(), &LIKE, "like")?.call1((other, result, dtype == DType::BF16))
}

fn lent(numpy: &Bound<'_, PyUntypedArray>, dtype: DType, writable: bool, name: &str) -> PyResult<Array> {
    lend(numpy, dtype, writable).map_err(|why| match why {
        Refused::NoTruthValue(at) => call(format!("{name}: element {at} is no truth value")),
        Refused::Array(why) => call(format!("{name}: {why}")),
        Refused::Python(error) => error,
    })
}

/// Arrays of NumPy alone: a class made of them may mean something else by its elements, as a masked array does.
trait CastExact<'py> {
    fn cast_exact_array(&self) -> Result<Bound<'py, PyUntypedArray>, ()>;
}

impl<'py> CastExact<'py> for Bound<'py, PyAny> {
    fn cast_exact_array(&self) -> Result<Bound<'py, PyUntypedArray>, ()> {
        self.cast_exact::<PyUntypedArray>().cloned().map_err(|_| ())
    }
}
