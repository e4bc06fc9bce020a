//! What a run is given: loaded parameters, arrays, and where their elements lie.

use crate::call::region::Region;
use crate::error::RunError;
use salient_ir::DType;
use salient_ir::array::{Array, Data};
use salient_tile::Buffer;

/// What was computed from the parameters of a program, at the dimensions that their shapes fix.
#[derive(Debug)]
pub struct Loaded {
    /// Tells it from all others.
    pub(crate) id: u64,
    pub(crate) compiled: u64,
    /// Symbols of the program, by position, and the values that this holds for.
    pub(crate) dimensions: Vec<(usize, i64)>,
    pub(crate) region: Region,
    /// Bytes from the start of the region, by buffer.
    pub(crate) offsets: Vec<Option<usize>>,
    pub(crate) bytes: usize,
}

impl Loaded {
    /// Bytes that it takes beside the parameters themselves.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What a run reads.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    pub(crate) loaded: &'a Loaded,
    pub(crate) inputs: Inputs<'a>,
    pub(crate) params: &'a [&'a Array],
}

/// The inputs of a run.
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// Every input.
    All(&'a [&'a Array]),
    /// Those that are not there are states to which the program appends, and lie in their outputs already: the first
    /// elements of the output are the state ([`Compiled::appends`](crate::Compiled::appends)).
    InPlace(&'a [Option<&'a Array>]),
}

impl<'a> Inputs<'a> {
    pub(crate) fn get(self, k: usize) -> Option<&'a Array> {
        match self {
            Inputs::All(list) => list.get(k).copied(),
            Inputs::InPlace(list) => list.get(k).copied().flatten(),
        }
    }

    pub(crate) fn in_place(self, k: usize) -> bool {
        match self {
            Inputs::All(_) => false,
            Inputs::InPlace(list) => list.get(k).is_some_and(Option::is_none),
        }
    }
}

/// 64-bit integers as compiled code sees them.
pub(crate) fn narrow(buffer: &Buffer, from: &[i64], to: &mut [i32]) -> Result<(), RunError> {
    for (to, value) in to.iter_mut().zip(from) {
        *to = i32::try_from(*value)
            .map_err(|_| RunError::TooLarge { tensor: buffer.name.clone(), value: *value })?;
    }
    Ok(())
}

/// An array that has the elements which the buffer stands for.
pub(crate) fn checked<'a>(
    buffer: &Buffer,
    count: usize,
    array: Option<&'a Array>,
) -> Result<&'a Array, RunError> {
    let why = match array {
        None => "it was not given".to_owned(),
        // A narrower element would be read past its end.
        Some(a) if a.dtype() != buffer.dtype.compute() => {
            format!("it holds {}, expected {}", a.dtype(), buffer.dtype.compute())
        }
        Some(a) if a.len() != count => format!("it has {} elements, expected {count}", a.len()),
        Some(a) => return Ok(a),
    };
    Err(RunError::Mismatch { tensor: buffer.name.clone(), why })
}

/// The address of an array's elements.
pub(crate) fn elements(array: &Array) -> *const u8 {
    match array.data() {
        Data::F32(v) => v.as_ptr().cast(),
        Data::I32(v) => v.as_ptr().cast(),
        Data::I64(v) => v.as_ptr().cast(),
        Data::F16(v) | Data::BF16(v) => v.as_ptr().cast(),
        Data::Bool(v) => v.as_ptr().cast(),
    }
}

/// As [`elements`], to be written.
pub(crate) fn elements_mut(array: &mut Array) -> *mut u8 {
    match array.dtype() {
        DType::F32 => array.as_f32_mut().map(|v| v.as_mut_ptr().cast()),
        DType::I32 => array.as_i32_mut().map(|v| v.as_mut_ptr().cast()),
        DType::Bool => array.as_bool_mut().map(|v| v.as_mut_ptr().cast()),
        // Written by way of a narrowed copy; 16-bit floats are never computed.
        DType::I64 | DType::F16 | DType::BF16 => None,
    }
    .unwrap_or(std::ptr::null_mut())
}
