//! Elements as files hold them: which types are read, as what, and back to bytes.
//!
//! The rule of reading: a type that Salient has is read as it is; a narrower integer widens (`i8`, `u8`, `i16`, `u16`
//! to `i32`, `u32` to `i64`); `u64` becomes `i64` and must fit; `f64`, NumPy's default, rounds to the nearest `f32`
//! and must stay finite. Nothing else is converted.

use salient_ir::array::{Array, Data};
use salient_ir::ty::DType;

use crate::error::Cause;

/// The types of elements that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// 64-bit signed integers.
    I64,
    /// 32-bit signed integers.
    I32,
    /// 16-bit signed integers.
    I16,
    /// 8-bit signed integers.
    I8,
    /// 64-bit unsigned integers.
    U64,
    /// 32-bit unsigned integers.
    U32,
    /// 16-bit unsigned integers.
    U16,
    /// 8-bit unsigned integers.
    U8,
    /// A byte that is 0 or 1.
    Bool,
}

/// The order of the bytes within an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

/// The elements of a byte slice, as an iterator over a primitive type.
macro_rules! read {
    ($bytes:expr, $order:expr, $primitive:ty) => {
        $bytes.as_chunks::<{ size_of::<$primitive>() }>().0.iter().map(move |chunk| match $order {
            ByteOrder::Little => <$primitive>::from_le_bytes(*chunk),
            ByteOrder::Big => <$primitive>::from_be_bytes(*chunk),
        })
    };
}

impl Stored {
    /// The name, spelled as dtypes are.
    pub fn name(self) -> &'static str {
        match self {
            Stored::F64 => "f64",
            Stored::F32 => "f32",
            Stored::F16 => "f16",
            Stored::BF16 => "bf16",
            Stored::I64 => "i64",
            Stored::I32 => "i32",
            Stored::I16 => "i16",
            Stored::I8 => "i8",
            Stored::U64 => "u64",
            Stored::U32 => "u32",
            Stored::U16 => "u16",
            Stored::U8 => "u8",
            Stored::Bool => "bool",
        }
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Stored::F64 | Stored::I64 | Stored::U64 => 8,
            Stored::F32 | Stored::I32 | Stored::U32 => 4,
            Stored::F16 | Stored::BF16 | Stored::I16 | Stored::U16 => 2,
            Stored::I8 | Stored::U8 | Stored::Bool => 1,
        }
    }

    /// The elements of a byte slice whose length is a multiple of the size.
    pub(crate) fn decode(self, order: ByteOrder, bytes: &[u8]) -> Result<Data, Cause> {
        Ok(match self {
            Stored::F64 => {
                let values: Vec<f64> = read!(bytes, order, f64).collect();
                Array::from_f64(DType::F32, vec![values.len()], &values)?.into_parts().1
            }
            Stored::F32 => Data::F32(read!(bytes, order, f32).collect()),
            Stored::F16 => Data::F16(read!(bytes, order, u16).collect()),
            Stored::BF16 => Data::BF16(read!(bytes, order, u16).collect()),
            Stored::I64 => Data::I64(read!(bytes, order, i64).collect()),
            Stored::I32 => Data::I32(read!(bytes, order, i32).collect()),
            Stored::I16 => Data::I32(read!(bytes, order, i16).map(i32::from).collect()),
            Stored::I8 => Data::I32(read!(bytes, order, i8).map(i32::from).collect()),
            Stored::U64 => Data::I64(
                read!(bytes, order, u64)
                    .enumerate()
                    .map(|(index, value)| i64::try_from(value).map_err(|_| Cause::Integer { index, value }))
                    .collect::<Result<_, _>>()?,
            ),
            Stored::U32 => Data::I64(read!(bytes, order, u32).map(i64::from).collect()),
            Stored::U16 => Data::I32(read!(bytes, order, u16).map(i32::from).collect()),
            Stored::U8 => Data::I32(bytes.iter().copied().map(i32::from).collect()),
            Stored::Bool => Data::Bool(
                bytes
                    .iter()
                    .enumerate()
                    .map(|(index, &byte)| match byte {
                        0 => Ok(false),
                        1 => Ok(true),
                        _ => Err(Cause::Boolean { index, byte }),
                    })
                    .collect::<Result<_, _>>()?,
            ),
        })
    }
}

/// The elements as little-endian bytes, row-major.
pub(crate) fn encode(array: &Array) -> Vec<u8> {
    match array.data() {
        Data::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::F16(v) | Data::BF16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::I32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::I64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::Bool(v) => v.iter().map(|&x| u8::from(x)).collect(),
    }
}

/// The bytes that elements of a shape take in a file, or `None` past 2⁶⁴.
pub(crate) fn bytes_of(shape: &[u64], stored: Stored) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(stored.size() as u64, |product, &extent| product.checked_mul(extent))
}

/// Extents of a file as extents in memory; one past the address space becomes the largest, which no array accepts.
pub(crate) fn extents(shape: &[u64]) -> Vec<usize> {
    shape.iter().map(|&extent| usize::try_from(extent).unwrap_or(usize::MAX)).collect()
}
