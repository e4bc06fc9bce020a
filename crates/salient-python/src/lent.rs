//! Memory of arrays of NumPy as memory that a call reads and writes: the one file of the crate with `unsafe`.
//!
//! Why this is sound:
//!
//! - An array is taken only if its elements lie one after the other, aligned, in this machine's byte order and of the type
//!   that is asked for: [`taken`] looks. Anything else is copied before, or refused.
//! - The memory stays where it is: the array is kept alive by a reference, and NumPy resizes no array to which there is a weak
//!   reference, whatever the caller says of references. Memory of another library under an array of NumPy is
//!   kept by that library as its protocol promises.
//! - What is written is lent to nothing else: [`overlap`] is asked before a call begins.
//! - Bytes of truth values are looked at before: any but 0 and 1 are refused.
//!
//! A thread that writes to an input while a call runs gets results of no meaning, as with every function of NumPy that runs
//! without the lock. Kernels read each element for themselves and compare each index after they have read it, so that it reads or
//! writes nothing outside of its arrays.
#![allow(
    unsafe_code,
    reason = "memory of Python's arrays is lent to calls here, and nowhere else in the crate"
)]

use numpy::npyffi::{NPY_ARRAY_WRITEABLE, NPY_TYPES};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use salient::{Array, ArrayError, DType, Data, Elements, Memory};
use std::ptr::NonNull;

/// Elements of an array of NumPy, which stay where they are as long as this lives.
struct Lent<T> {
    start: NonNull<T>,
    count: usize,
    writable: bool,
    /// Keeps the array.
    _array: Py<PyUntypedArray>,
    /// Keeps it from being resized.
    _weak: Py<PyWeakrefReference>,
}

// SAFETY: what is lent is plain numbers; the references to Python's objects may go to other threads.
unsafe impl<T: Send> Send for Lent<T> {}
// SAFETY: as above; sharing it gives out shared slices alone.
unsafe impl<T: Sync> Sync for Lent<T> {}

impl<T: Send + Sync> Memory<T> for Lent<T> {
    fn elements(&self) -> &[T] {
        // SAFETY: `lend` has checked that so many aligned elements of this type begin here; the array is kept and not resized.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    fn elements_mut(&mut self) -> Option<&mut [T]> {
        // SAFETY: as above; and nothing else is lent that overlaps memory which is written (`overlap`).
        self.writable.then(|| unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) })
    }
}

/// The dtype of an array whose elements can be lent as they lie; `None` where they have to be copied, or cannot be had.
pub(crate) fn taken(array: &Bound<'_, PyUntypedArray>) -> Option<DType> {
    let descr = array.dtype();
    if !array.is_c_contiguous() || !array.is_aligned() || descr.is_native_byteorder() == Some(false) {
        return None;
    }
    let is = |kind: NPY_TYPES| descr.num() == kind as std::ffi::c_int;
    match descr.kind() {
        b'f' if is(NPY_TYPES::NPY_FLOAT) => Some(DType::F32),
        b'f' if is(NPY_TYPES::NPY_HALF) => Some(DType::F16),
        // Several types of C are integers of one width.
        b'i' if descr.itemsize() == 4 => Some(DType::I32),
        b'i' if descr.itemsize() == 8 => Some(DType::I64),
        b'b' => Some(DType::Bool),
        _ => None,
    }
}

/// Whether an array may be written.
pub(crate) fn is_writable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: the pointer is to an array, which is alive.
    let flags = unsafe { (*array.as_array_ptr()).fields.flags };
    flags & NPY_ARRAY_WRITEABLE != 0
}

/// Where the elements of a contiguous array begin.
fn start(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: as above.
    unsafe { (*array.as_array_ptr()).fields.data }.cast()
}

/// The addresses of the bytes of a contiguous array.
fn addresses(array: &Bound<'_, PyUntypedArray>) -> std::ops::Range<usize> {
    let start = start(array) as usize;
    start..start + array.len() * array.dtype().itemsize()
}

/// Whether two contiguous arrays have bytes in common.
pub(crate) fn overlap(one: &Bound<'_, PyUntypedArray>, other: &Bound<'_, PyUntypedArray>) -> bool {
    let (one, other) = (addresses(one), addresses(other));
    one.start.max(other.start) < one.end.min(other.end)
}

/// Why an array is not lent.
pub(crate) enum Refused {
    /// A byte that is no truth value, by its position.
    NoTruthValue(usize),
    /// It is of the wrong size or type.
    Array(ArrayError),
    /// An exception of Python's.
    Python(PyErr),
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Refused {
        Refused::Python(error)
    }
}

/// An array of ours over the memory of an array of NumPy of that dtype, which [`taken`] has found to be so. `bf16`: elements
/// of 16 bits are bfloat16.
pub(crate) fn lend(
    array: &Bound<'_, PyUntypedArray>,
    dtype: DType,
    writable: bool,
) -> Result<Array, Refused> {
    let shape = array.shape().to_vec();
    if dtype == DType::Bool {
        // SAFETY: so many bytes begin there; they are looked at as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(filled_start(array), array.len()) };
        if let Some(at) = bytes.iter().position(|byte| *byte > 1) {
            return Err(Refused::NoTruthValue(at));
        }
    }
    let data = match dtype {
        DType::F32 => Data::F32(elements(array, writable)?),
        DType::F16 => Data::F16(elements(array, writable)?),
        DType::BF16 => Data::BF16(elements(array, writable)?),
        DType::I32 => Data::I32(elements(array, writable)?),
        DType::I64 => Data::I64(elements(array, writable)?),
        DType::Bool => Data::Bool(elements(array, writable)?),
    };
    Array::new(shape, data).map_err(Refused::Array)
}

/// Where the elements begin; somewhere that may be pointed to where there are none.
fn filled_start(array: &Bound<'_, PyUntypedArray>) -> *const u8 {
    if array.is_empty() { NonNull::dangling().as_ptr() } else { start(array) }
}

fn elements<T: Clone + Send + Sync + 'static>(
    array: &Bound<'_, PyUntypedArray>,
    writable: bool,
) -> PyResult<Elements<T>> {
    assert_eq!(array.dtype().itemsize(), size_of::<T>(), "the array is of the type that was found");
    assert!(array.is_c_contiguous() && array.is_aligned(), "its elements lie one after the other");
    let start = NonNull::new(start(array).cast()).filter(|_| !array.is_empty());
    Ok(Elements::held(Lent {
        start: start.unwrap_or(NonNull::dangling()),
        count: array.len(),
        writable,
        _weak: PyWeakrefReference::new(array)?.unbind(),
        _array: array.clone().unbind(),
    }))
}
