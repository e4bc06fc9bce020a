//! Elements as files hold them: which types are read, as what, and back to bytes.
//!
//! The rule of reading: a type that Salient has is read as it is; a narrower integer widens (`i8`, `u8`, `i16`, `u16`
//! to `i32`, `u32` to `i64`); `u64` becomes `i64` and must fit; `f64`, NumPy's default, rounds to the nearest `f32`
//! and must stay finite. Nothing else is converted.

use std::io::{self, Read, Write};

use salient_ir::array::{Array, ArrayError, Data, element_count};
use salient_ir::ty::DType;

use crate::error::Cause;
use crate::source::reserved;

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

/// Bytes that are decoded at once; a multiple of every size.
const CHUNK: usize = 1 << 15;

/// The next `count` numbers of a source, each from its bytes.
fn numbers<T, const SIZE: usize>(
    source: &mut dyn Read,
    count: usize,
    number: impl Fn([u8; SIZE]) -> T,
) -> Result<Vec<T>, Cause> {
    let mut out = reserved(count)?;
    let mut chunk = [0; CHUNK];
    while out.len() < count {
        let bytes = &mut chunk[..(count - out.len()).saturating_mul(SIZE).min(CHUNK)];
        source.read_exact(bytes).map_err(Cause::Read)?;
        out.extend(bytes.as_chunks::<SIZE>().0.iter().map(|bytes| number(*bytes)));
    }
    Ok(out)
}

/// As [`numbers`], where not every value has a counterpart; the position is that in the file.
fn checked<T, const SIZE: usize>(
    source: &mut dyn Read,
    count: usize,
    number: impl Fn(usize, [u8; SIZE]) -> Result<T, Cause>,
) -> Result<Vec<T>, Cause> {
    let mut out = reserved(count)?;
    let mut chunk = [0; CHUNK];
    while out.len() < count {
        let bytes = &mut chunk[..(count - out.len()).saturating_mul(SIZE).min(CHUNK)];
        source.read_exact(bytes).map_err(Cause::Read)?;
        for bytes in bytes.as_chunks::<SIZE>().0 {
            out.push(number(out.len(), *bytes)?);
        }
    }
    Ok(out)
}

/// The next numbers of a primitive type, each put through a function; a code path for each byte order, so that nothing is
/// decided for each of them.
macro_rules! read {
    ($source:expr, $order:expr, $count:expr, $primitive:ty, $convert:expr) => {
        match $order {
            ByteOrder::Little => {
                numbers($source, $count, |bytes| $convert(<$primitive>::from_le_bytes(bytes)))
            }
            ByteOrder::Big => numbers($source, $count, |bytes| $convert(<$primitive>::from_be_bytes(bytes))),
        }
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

    /// The name, with that which NumPy has for it where the language has none.
    pub fn described(self) -> String {
        match self {
            Stored::F64 => "f64 (NumPy's float64)".to_owned(),
            Stored::I16 | Stored::I8 => format!("{} (NumPy's int{})", self.name(), 8 * self.size()),
            Stored::U64 | Stored::U32 | Stored::U16 | Stored::U8 => {
                format!("{} (NumPy's uint{})", self.name(), 8 * self.size())
            }
            Stored::F32 | Stored::F16 | Stored::BF16 | Stored::I64 | Stored::I32 | Stored::Bool => {
                self.name().to_owned()
            }
        }
    }

    /// The dtype that elements are read as.
    pub fn read_as(self) -> DType {
        match self {
            Stored::F64 | Stored::F32 => DType::F32,
            Stored::F16 => DType::F16,
            Stored::BF16 => DType::BF16,
            Stored::I64 | Stored::U64 | Stored::U32 => DType::I64,
            Stored::I32 | Stored::I16 | Stored::I8 | Stored::U16 | Stored::U8 => DType::I32,
            Stored::Bool => DType::Bool,
        }
    }

    /// How elements of a dtype are stored where nothing was converted.
    pub fn of(dtype: DType) -> Stored {
        match dtype {
            DType::F32 => Stored::F32,
            DType::F16 => Stored::F16,
            DType::BF16 => Stored::BF16,
            DType::I32 => Stored::I32,
            DType::I64 => Stored::I64,
            DType::Bool => Stored::Bool,
        }
    }

    /// The next `count` elements of a source, as an array of this shape. The bytes are not held beside the elements.
    pub(crate) fn read_array(
        self,
        order: ByteOrder,
        source: &mut dyn Read,
        shape: Vec<usize>,
    ) -> Result<Array, Cause> {
        let count = element_count(&shape, self.read_as())?;
        Ok(Array::new(shape, self.read(order, source, count)?)?)
    }

    fn read(self, order: ByteOrder, source: &mut dyn Read, count: usize) -> Result<Data, Cause> {
        Ok(match self {
            Stored::F64 => Data::F32(
                checked(source, count, |index, bytes| {
                    let value = order.f64(bytes);
                    let rounded = value as f32;
                    if rounded.is_finite() || !value.is_finite() {
                        return Ok(rounded);
                    }
                    Err(ArrayError::Value { index, value, dtype: DType::F32 }.into())
                })?
                .into(),
            ),
            Stored::F32 => Data::F32(read!(source, order, count, f32, |x| x)?.into()),
            Stored::F16 => Data::F16(read!(source, order, count, u16, |bits| bits)?.into()),
            Stored::BF16 => Data::BF16(read!(source, order, count, u16, |bits| bits)?.into()),
            Stored::I64 => Data::I64(read!(source, order, count, i64, |n| n)?.into()),
            Stored::I32 => Data::I32(read!(source, order, count, i32, |n| n)?.into()),
            Stored::I16 => Data::I32(read!(source, order, count, i16, i32::from)?.into()),
            Stored::I8 => Data::I32(read!(source, order, count, i8, i32::from)?.into()),
            Stored::U64 => Data::I64(
                checked(source, count, |index, bytes| {
                    let value = order.u64(bytes);
                    i64::try_from(value).map_err(|_| Cause::Integer { index, value })
                })?
                .into(),
            ),
            Stored::U32 => Data::I64(read!(source, order, count, u32, i64::from)?.into()),
            Stored::U16 => Data::I32(read!(source, order, count, u16, i32::from)?.into()),
            Stored::U8 => Data::I32(read!(source, order, count, u8, i32::from)?.into()),
            Stored::Bool => Data::Bool(
                checked(source, count, |index, [byte]| match byte {
                    0 => Ok(false),
                    1 => Ok(true),
                    _ => Err(Cause::Boolean { index, byte }),
                })?
                .into(),
            ),
        })
    }
}

impl ByteOrder {
    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }

    fn f64(self, bytes: [u8; 8]) -> f64 {
        f64::from_bits(self.u64(bytes))
    }
}

/// Writes the elements as little-endian bytes, row-major.
pub(crate) fn write(array: &Array, sink: &mut dyn Write) -> io::Result<()> {
    match array.data() {
        Data::F32(v) => write_each(v, sink, |x| x.to_le_bytes()),
        Data::F16(v) | Data::BF16(v) => write_each(v, sink, |x| x.to_le_bytes()),
        Data::I32(v) => write_each(v, sink, |x| x.to_le_bytes()),
        Data::I64(v) => write_each(v, sink, |x| x.to_le_bytes()),
        Data::Bool(v) => write_each(v, sink, |x| [u8::from(x)]),
    }
}

/// Writes elements a chunk at a time, so that their bytes are never in memory beside them.
fn write_each<T: Copy, const SIZE: usize>(
    elements: &[T],
    sink: &mut dyn Write,
    bytes: impl Fn(T) -> [u8; SIZE],
) -> io::Result<()> {
    let mut chunk = Vec::with_capacity(CHUNK);
    for elements in elements.chunks(CHUNK / SIZE) {
        chunk.clear();
        elements.iter().for_each(|element| chunk.extend_from_slice(&bytes(*element)));
        sink.write_all(&chunk)?;
    }
    Ok(())
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
