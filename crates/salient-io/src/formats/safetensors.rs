//! Checkpoints of the safetensors format.
//!
//! Eight bytes of header length, a header in JSON (name, element type, shape and offsets of every tensor), then the
//! elements, little-endian and row-major, without gaps (<https://huggingface.co/docs/safetensors>).
//! The `safetensors` crate parses the header and checks that offsets neither overlap nor leave gaps; the tensors are
//! read one after another, so that the file is never in memory as a whole beside its arrays.
//!
//! Eight-bit floats and below are not read.

use std::cmp::Reverse;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use salient_ir::array::Array;
use salient_ir::ty::DType;

use crate::arrays::Arrays;
use crate::elements::{ByteOrder, Stored, write};
use crate::error::{Cause, IoError, check_claim};
use crate::format::{Format, describe_start};
use crate::formats::contents::{Contents, Entry};
use crate::formats::gguf::GgufValue;
use crate::replace::replace_file;
use crate::source::{length_of, next_bytes, read_file, start_of};

/// Bytes of the header's length.
const LENGTH_BYTES: u64 = 8;

/// The limit of the format's own implementation.
pub(crate) const MAX_HEADER: u64 = 100_000_000;

/// Reads a `.safetensors` file.
///
/// # Errors
/// The file cannot be read, is not of the format, is truncated, or holds elements that are not read.
pub fn read_safetensors(path: impl AsRef<Path>) -> Result<Arrays, IoError> {
    read_file(path.as_ref(), decode_safetensors)
}

/// Reads the arrays of a safetensors source, in the order of their bytes.
///
/// # Errors
/// As [`read_safetensors`].
pub fn decode_safetensors(source: impl Read + Seek) -> Result<Arrays, IoError> {
    decode_wanted(source, &|_| true)
}

/// Reads those arrays of a source that are wanted, by name; the others are named as passed over.
pub(crate) fn decode_wanted(
    mut source: impl Read + Seek,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Arrays, IoError> {
    let metadata = read_header(&mut source)?;
    let mut arrays = Arrays::new();
    for name in metadata.offset_keys() {
        let info = metadata.info(&name).expect("a name that the header lists has its entry");
        if wanted(&name) {
            let (array, stored) = read_tensor(&mut source, info).map_err(|cause| cause.in_array(&name))?;
            arrays.insert_stored(name, array, stored)?;
        } else {
            let bytes = (info.data_offsets.1 - info.data_offsets.0) as i64;
            source.seek(SeekFrom::Current(bytes)).map_err(Cause::Read)?;
            arrays.pass_over(name)?;
        }
    }
    Ok(arrays)
}

/// What a source holds: tensors in the order of their bytes, metadata sorted.
pub(crate) fn contents(mut source: impl Read + Seek) -> Result<Contents, IoError> {
    let header = read_header(&mut source)?;
    let mut entries = Vec::new();
    for name in header.offset_keys() {
        let info = header.info(&name).expect("a name that the header lists has its entry");
        let stored = stored_of(info).map_err(|cause| cause.in_array(&name))?;
        let bytes = info.data_offsets.1 - info.data_offsets.0;
        entries.push(Entry::of_elements(name, stored, info.shape.clone(), bytes as u64));
    }
    let texts = header.metadata().iter().flatten();
    let mut metadata: Vec<_> =
        texts.map(|(key, text)| (key.clone(), GgufValue::Text(text.clone()))).collect();
    metadata.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Contents { format: Format::Safetensors, entries, metadata })
}

/// The header, checked against the length of the source, which is left at the first element.
fn read_header(source: &mut (impl Read + Seek)) -> Result<Metadata, Cause> {
    let length = length_of(source)?;
    let start = start_of(source)?;
    check_claim("the length of the header", LENGTH_BYTES, length)?;
    if Format::of_start(&start).is_some_and(|format| format != Format::Safetensors) {
        return Err(Cause::NotFormat { expected: Format::Safetensors, found: describe_start(&start) });
    }
    let mut bytes = [0; LENGTH_BYTES as usize];
    source.read_exact(&mut bytes).map_err(Cause::Read)?;
    let header_length = u64::from_le_bytes(bytes);
    check_claim("the header", header_length, length - LENGTH_BYTES)?;
    if header_length > MAX_HEADER {
        return Err(Cause::malformed(
            "header",
            format!("{header_length} bytes long, the format allows {MAX_HEADER}"),
        ));
    }
    let text = next_bytes(source, header_length)?;
    let metadata: Metadata =
        serde_json::from_slice(&text).map_err(|error| Cause::malformed("header", error.to_string()))?;
    let claimed = metadata.data_len() as u64;
    let available = length - LENGTH_BYTES - header_length;
    check_claim("the elements", claimed, available)?;
    if claimed < available {
        return Err(Cause::Trailing { extra: available - claimed });
    }
    Ok(metadata)
}

/// The next tensor of the source. Its bytes are known to be there.
fn read_tensor(source: &mut impl Read, info: &TensorInfo) -> Result<(Array, Stored), Cause> {
    let stored = stored_of(info)?;
    Ok((stored.read_array(ByteOrder::Little, source, info.shape.clone())?, stored))
}

/// The element types of the format that are read. (The enum of the crate is open: no match on it is complete.)
const TYPES: [(Dtype, Stored); 13] = [
    (Dtype::F64, Stored::F64),
    (Dtype::F32, Stored::F32),
    (Dtype::F16, Stored::F16),
    (Dtype::BF16, Stored::BF16),
    (Dtype::I64, Stored::I64),
    (Dtype::I32, Stored::I32),
    (Dtype::I16, Stored::I16),
    (Dtype::I8, Stored::I8),
    (Dtype::U64, Stored::U64),
    (Dtype::U32, Stored::U32),
    (Dtype::U16, Stored::U16),
    (Dtype::U8, Stored::U8),
    (Dtype::BOOL, Stored::Bool),
];

fn stored_of(info: &TensorInfo) -> Result<Stored, Cause> {
    let known = TYPES.iter().find(|(dtype, _)| *dtype == info.dtype);
    let unread = || Cause::ElementType { found: info.dtype.to_string(), format: Format::Safetensors };
    known.map(|&(_, stored)| stored).ok_or_else(unread)
}

/// Writes a `.safetensors` file: wider elements first, so that all are aligned, else in the order of the map. The old file
/// stays if that fails.
///
/// # Errors
/// The file cannot be written.
pub fn write_safetensors(path: impl AsRef<Path>, arrays: &Arrays) -> Result<(), IoError> {
    replace_file(path, |sink| Ok(encode_safetensors(sink, arrays)?))
}

/// Writes the checkpoint into any sink.
fn encode_safetensors(mut sink: impl Write, arrays: &Arrays) -> Result<(), Cause> {
    let mut order: Vec<(&str, &Array)> = arrays.iter().collect();
    order.sort_by_key(|(_, array)| Reverse(array.dtype().size()));
    let mut end = 0;
    let infos = order.iter().map(|(name, array)| {
        let start = end;
        end += array.size_in_bytes();
        let (dtype, shape) = (dtype_of(array.dtype()), array.shape().to_vec());
        ((*name).to_owned(), TensorInfo { dtype, shape, data_offsets: (start, end) })
    });
    let malformed = |problem: String| Cause::malformed("header", problem);
    let metadata = Metadata::new(None, infos.collect()).map_err(|error| malformed(error.to_string()))?;
    let mut header = serde_json::to_vec(&metadata).map_err(|error| malformed(error.to_string()))?;
    // Spaces after the object keep the elements aligned in a mapped file.
    header.resize(header.len().next_multiple_of(LENGTH_BYTES as usize), b' ');
    let start = [&(header.len() as u64).to_le_bytes(), header.as_slice()].concat();
    sink.write_all(&start).map_err(Cause::Write)?;
    order.iter().try_for_each(|(_, array)| write(array, &mut sink)).map_err(Cause::Write)
}

fn dtype_of(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::Bool => Dtype::BOOL,
    }
}
