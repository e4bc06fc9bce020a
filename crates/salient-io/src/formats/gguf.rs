//! Checkpoints of the GGUF format, versions 2 and 3, little-endian.
//!
//! A magic number, a version, two counts, typed metadata by key, a list of tensors, then their bytes, aligned
//! (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>). The header is read without the tensors, so that a
//! caller may list a checkpoint, or read one tensor at a time: its elements ([`read_gguf_tensor`], quantised blocks
//! widened to f32) or its bytes as they are ([`read_gguf_bytes`]).
//!
//! What the metadata mean (architecture, tokenizer) is decided elsewhere. Big-endian files are refused, and so are the
//! block types that [`BlockType`] does not have. Bytes between and after the tensors belong to nobody and are allowed.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use salient_ir::array::{Array, ArrayError};
use salient_ir::quantised::Quantised;

use crate::arrays::Arrays;
use crate::elements::{ByteOrder, Stored, bytes_of, extents};
use crate::error::{Cause, IoError, check_claim};
use crate::format::{Format, GGUF_MAGIC, describe_start};
use crate::formats::blocks::BlockType;
use crate::source::{length_of, next_bytes, read_file, reserved, start_of};

/// The alignment of tensors where the metadata name none.
const DEFAULT_ALIGNMENT: u64 = 32;

/// The key of the alignment.
const ALIGNMENT_KEY: &str = "general.alignment";

/// ggml has at most four axes.
const MAX_RANK: u32 = 4;

/// How deep arrays of metadata may nest. No known writer nests them at all.
const MAX_NESTING: u32 = 4;

/// A value of the metadata. Widths are dropped: every integer and float of the format fits these.
#[derive(Clone, Debug, PartialEq)]
pub enum GgufValue {
    /// An unsigned integer of 8 to 64 bits.
    Unsigned(u64),
    /// A signed integer of 8 to 64 bits.
    Signed(i64),
    /// A float of 32 or 64 bits.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A text.
    Text(String),
    /// An array, in the file of one type.
    Array(Vec<GgufValue>),
}

impl GgufValue {
    /// The value as a count: any integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            GgufValue::Unsigned(value) => Some(*value),
            GgufValue::Signed(value) => u64::try_from(*value).ok(),
            GgufValue::Float(_) | GgufValue::Bool(_) | GgufValue::Text(_) | GgufValue::Array(_) => None,
        }
    }

    /// The value as a float, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        if let GgufValue::Float(value) = self { Some(*value) } else { None }
    }

    /// The value as a text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let GgufValue::Text(value) = self { Some(value) } else { None }
    }

    /// The elements, if it is an array.
    pub fn as_slice(&self) -> Option<&[GgufValue]> {
        if let GgufValue::Array(values) = self { Some(values) } else { None }
    }
}

/// How the elements of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// One after the other.
    Elements(Stored),
    /// In quantised blocks along the last axis.
    Blocks(BlockType),
}

impl Storage {
    /// Elements and bytes of the smallest whole piece.
    fn unit(self) -> (usize, usize) {
        match self {
            Storage::Elements(stored) => (1, stored.size()),
            Storage::Blocks(blocks) => (blocks.elements(), blocks.bytes()),
        }
    }
}

/// The types of tensors by their numbers in the format; of those that are not read, the name.
const TYPES: [(u32, Result<Storage, &str>); 33] = [
    (0, Ok(Storage::Elements(Stored::F32))),
    (1, Ok(Storage::Elements(Stored::F16))),
    (2, Ok(Storage::Blocks(BlockType::Q4_0))),
    (3, Ok(Storage::Blocks(BlockType::Q4_1))),
    (6, Ok(Storage::Blocks(BlockType::Q5_0))),
    (7, Ok(Storage::Blocks(BlockType::Q5_1))),
    (8, Ok(Storage::Blocks(BlockType::Q8_0))),
    (9, Err("Q8_1")),
    (10, Err("Q2_K")),
    (11, Err("Q3_K")),
    (12, Ok(Storage::Blocks(BlockType::Q4K))),
    (13, Ok(Storage::Blocks(BlockType::Q5K))),
    (14, Ok(Storage::Blocks(BlockType::Q6K))),
    (15, Err("Q8_K")),
    (16, Err("IQ2_XXS")),
    (17, Err("IQ2_XS")),
    (18, Err("IQ3_XXS")),
    (19, Err("IQ1_S")),
    (20, Err("IQ4_NL")),
    (21, Err("IQ3_S")),
    (22, Err("IQ2_S")),
    (23, Err("IQ4_XS")),
    (24, Ok(Storage::Elements(Stored::I8))),
    (25, Ok(Storage::Elements(Stored::I16))),
    (26, Ok(Storage::Elements(Stored::I32))),
    (27, Ok(Storage::Elements(Stored::I64))),
    (28, Ok(Storage::Elements(Stored::F64))),
    (29, Err("IQ1_M")),
    (30, Ok(Storage::Elements(Stored::BF16))),
    (34, Err("TQ1_0")),
    (35, Err("TQ2_0")),
    (39, Err("MXFP4")),
    (40, Err("NVFP4")),
];

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Storage::Elements(stored) => stored.name(),
            Storage::Blocks(blocks) => blocks.name(),
        })
    }
}

/// One tensor of the list. Its bytes are known to be inside the file.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufTensor {
    /// The name.
    pub name: String,
    /// The extents, outermost first: the reverse of the order in the file.
    pub shape: Vec<usize>,
    /// How its elements are stored.
    pub storage: Storage,
    /// The number of bytes they take.
    pub bytes: u64,
    /// Where they start in the file.
    position: u64,
}

impl GgufTensor {
    /// How the elements are stored; those of blocks are f32 once they are widened.
    fn stored(&self) -> Stored {
        match self.storage {
            Storage::Elements(stored) => stored,
            Storage::Blocks(_) => Stored::F32,
        }
    }
}

/// Everything of a GGUF file but the bytes of its tensors.
#[derive(Clone, Debug)]
pub struct GgufHeader {
    /// The metadata in the order of the file, no key twice.
    pub metadata: Vec<(String, GgufValue)>,
    /// The tensors in the order of the file, no name twice.
    pub tensors: Vec<GgufTensor>,
}

impl GgufHeader {
    /// The metadata of that key.
    pub fn get(&self, key: &str) -> Option<&GgufValue> {
        self.metadata.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&GgufTensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }
}

/// Reads every tensor of a `.gguf` file, quantised ones widened to f32.
///
/// # Errors
/// The file cannot be read, is not of the format, is truncated, or holds a type of tensor that is not read.
pub fn read_gguf(path: impl AsRef<Path>) -> Result<Arrays, IoError> {
    read_file(path.as_ref(), decode_gguf)
}

/// The matrices of a checkpoint that are kept in blocks, by name.
pub type Coded = BTreeMap<String, Quantised>;

/// Reads every tensor of a `.gguf` file: matrices in blocks with their codes as they are, everything else as
/// [`read_gguf`] does.
///
/// # Errors
/// As [`read_gguf`].
pub fn read_gguf_coded(path: impl AsRef<Path>) -> Result<(Arrays, Coded), IoError> {
    read_file(path.as_ref(), |mut source| {
        let header = read_gguf_header(&mut source)?;
        let (mut arrays, mut coded) = (Arrays::new(), Coded::new());
        for tensor in &header.tensors {
            match read_gguf_quantised(&mut source, tensor)? {
                Some(blocks) => _ = coded.insert(tensor.name.clone(), blocks),
                None => {
                    let array = read_gguf_tensor(&mut source, tensor)?;
                    arrays.insert_stored(tensor.name.as_str(), array, tensor.stored())?;
                }
            }
        }
        Ok((arrays, coded))
    })
}

/// Reads every tensor of a GGUF source, quantised ones widened to f32, in the order of the list.
///
/// # Errors
/// As [`read_gguf`].
pub fn decode_gguf(source: impl Read + Seek) -> Result<Arrays, IoError> {
    decode_wanted(source, &|_| true)
}

/// Reads those arrays of a source that are wanted, by name; the others are named as passed over.
pub(crate) fn decode_wanted(
    mut source: impl Read + Seek,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Arrays, IoError> {
    let header = read_gguf_header(&mut source)?;
    let mut arrays = Arrays::new();
    for tensor in &header.tensors {
        let name = tensor.name.as_str();
        if wanted(name) {
            let array = read_gguf_tensor(&mut source, tensor)?;
            arrays.insert_stored(name, array, tensor.stored())?;
        } else {
            arrays.pass_over(name)?;
        }
    }
    Ok(arrays)
}

/// The elements of a tensor of a source whose header named it; quantised ones are widened to f32.
///
/// # Errors
/// The source cannot be read, or holds a value without counterpart.
pub fn read_gguf_tensor(source: &mut (impl Read + Seek), tensor: &GgufTensor) -> Result<Array, IoError> {
    let array = match tensor.storage {
        Storage::Elements(stored) => seek(source, tensor)
            .and_then(|()| stored.read_array(ByteOrder::Little, source, tensor.shape.clone())),
        Storage::Blocks(blocks) => {
            let widened = blocks.widen(&read_gguf_bytes(source, tensor)?);
            widened.and_then(|values| Ok(Array::from_f32(tensor.shape.clone(), values)?))
        }
    };
    array.map_err(|cause| cause.in_array(&tensor.name))
}

/// A matrix of a source whose header named it with its codes as they are; `None` where it is no matrix, is not stored in
/// blocks, or is stored in blocks of another form.
///
/// # Errors
/// The source cannot be read.
pub fn read_gguf_quantised(
    source: &mut (impl Read + Seek),
    tensor: &GgufTensor,
) -> Result<Option<Quantised>, IoError> {
    let (Storage::Blocks(blocks), &[rows, depth]) = (tensor.storage, tensor.shape.as_slice()) else {
        return Ok(None);
    };
    Ok(blocks.quantised(&read_gguf_bytes(source, tensor)?, [rows, depth]))
}

/// The bytes of a tensor as they are stored.
///
/// # Errors
/// The source cannot be read.
pub fn read_gguf_bytes(source: &mut (impl Read + Seek), tensor: &GgufTensor) -> Result<Vec<u8>, IoError> {
    seek(source, tensor)
        .and_then(|()| next_bytes(source, tensor.bytes))
        .map_err(|cause| cause.in_array(&tensor.name))
}

fn seek(source: &mut impl Seek, tensor: &GgufTensor) -> Result<(), Cause> {
    source.seek(SeekFrom::Start(tensor.position)).map(|_| ()).map_err(Cause::Read)
}

/// Reads the header of a GGUF source and checks every claim of it.
///
/// # Errors
/// As [`read_gguf`].
pub fn read_gguf_header(source: &mut (impl Read + Seek)) -> Result<GgufHeader, IoError> {
    let length = length_of(source)?;
    let start = start_of(source)?;
    if !start.starts_with(GGUF_MAGIC) {
        return Err(Cause::NotFormat { expected: Format::Gguf, found: describe_start(&start) }.into());
    }
    let mut scan = Scan { source, position: 0, length };
    scan.bytes("the magic number", GGUF_MAGIC.len() as u64)?;
    match scan.u32()? {
        2 | 3 => {}
        version if matches!(version.swap_bytes(), 1..=3) => {
            return Err(
                Cause::malformed("header", "it is big-endian, only little-endian files are read").into()
            );
        }
        version => return Err(Cause::malformed("header", format!("version {version} is not known")).into()),
    }
    let (tensor_count, value_count) = (scan.u64()?, scan.u64()?);
    // The least that a list entry takes: a value has the length of its key, its type and a byte.
    scan.check("the metadata", value_count, 8 + 4 + 1)?;
    let mut metadata = Vec::new();
    let mut keys = HashSet::new();
    for _ in 0..value_count {
        let key = scan.text("a key")?;
        if !keys.insert(key.clone()) {
            return Err(Cause::malformed("header", format!("key `{key}` twice")).into());
        }
        let kind = scan.u32()?;
        let value = scan.value(kind, 0)?;
        metadata.push((key, value));
    }
    let alignment = alignment(&metadata)?;
    // A tensor has the length of its name, its rank, its type and its offset.
    scan.check("the list of tensors", tensor_count, 8 + 4 + 4 + 8)?;
    let mut tensors = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..tensor_count {
        let tensor = scan.tensor(alignment)?;
        if !names.insert(tensor.name.clone()) {
            return Err(Cause::Duplicate.in_array(tensor.name));
        }
        tensors.push(tensor);
    }
    // Until here positions count from the first tensor's place, which only now is known.
    let data = scan.position.next_multiple_of(alignment);
    place(&mut tensors, data, length)?;
    Ok(GgufHeader { metadata, tensors })
}

/// The alignment that the metadata ask for.
fn alignment(metadata: &[(String, GgufValue)]) -> Result<u64, Cause> {
    let Some((_, value)) = metadata.iter().find(|(key, _)| key == ALIGNMENT_KEY) else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let usable = |alignment: &u64| *alignment != 0 && alignment.is_multiple_of(8) && *alignment <= 1 << 30;
    value.as_u64().filter(usable).ok_or_else(|| {
        Cause::malformed("header", format!("`{ALIGNMENT_KEY}` is {value:?}, not a multiple of 8"))
    })
}

/// Moves tensors from offsets to positions in the file; checks that each lies inside and none over another.
fn place(tensors: &mut [GgufTensor], data: u64, length: u64) -> Result<(), IoError> {
    let available = length.saturating_sub(data);
    for tensor in tensors.iter_mut() {
        let end = tensor.position.saturating_add(tensor.bytes);
        check_claim("the tensors up to it", end, available).map_err(|cause| cause.in_array(&tensor.name))?;
        tensor.position += data;
    }
    let mut by_position: Vec<&GgufTensor> = tensors.iter().filter(|tensor| tensor.bytes > 0).collect();
    by_position.sort_by_key(|tensor| tensor.position);
    for pair in by_position.windows(2) {
        let [before, after] = pair else { continue };
        if before.position + before.bytes > after.position {
            let problem = format!("its bytes overlap those of `{}`", before.name);
            return Err(Cause::malformed("offset", problem).in_array(&after.name));
        }
    }
    Ok(())
}

/// A source read from the front, every step checked against its length.
struct Scan<'a, R> {
    source: &'a mut R,
    position: u64,
    length: u64,
}

impl<R: Read> Scan<'_, R> {
    /// Refuses `count` entries of at least `size` bytes where fewer bytes are left.
    fn check(&self, part: &'static str, count: u64, size: u64) -> Result<(), Cause> {
        check_claim(part, count.saturating_mul(size), self.length - self.position)
    }

    fn bytes(&mut self, part: &'static str, count: u64) -> Result<Vec<u8>, Cause> {
        self.check(part, count, 1)?;
        let bytes = next_bytes(self.source, count)?;
        self.position += count;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Cause> {
        self.check("a number of the header", N as u64, 1)?;
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(Cause::Read)?;
        self.position += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, Cause> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Cause> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self, part: &'static str) -> Result<String, Cause> {
        let length = self.u64()?;
        String::from_utf8(self.bytes(part, length)?)
            .map_err(|_| Cause::malformed("header", format!("{part} is not UTF-8")))
    }

    /// A value of the metadata of the type of that number.
    fn value(&mut self, kind: u32, nesting: u32) -> Result<GgufValue, Cause> {
        use GgufValue::{Array, Bool, Float, Signed, Text, Unsigned};
        Ok(match kind {
            0 => Unsigned(u8::from_le_bytes(self.array()?).into()),
            1 => Signed(i8::from_le_bytes(self.array()?).into()),
            2 => Unsigned(u16::from_le_bytes(self.array()?).into()),
            3 => Signed(i16::from_le_bytes(self.array()?).into()),
            4 => Unsigned(self.u32()?.into()),
            5 => Signed(i32::from_le_bytes(self.array()?).into()),
            6 => Float(f32::from_le_bytes(self.array()?).into()),
            7 => match self.array()? {
                [0] => Bool(false),
                [1] => Bool(true),
                [byte] => return Err(Cause::malformed("header", format!("a boolean is the byte {byte}"))),
            },
            8 => Text(self.text("a text")?),
            9 if nesting == MAX_NESTING => {
                return Err(Cause::malformed("header", format!("arrays nest deeper than {MAX_NESTING}")));
            }
            9 => {
                let kind = self.u32()?;
                let count = self.u64()?;
                // The least that a value takes is a byte; texts and arrays are checked as they come.
                self.check("an array of the metadata", count, 1)?;
                // As many values as bytes are left at most; each takes more in memory.
                let mut values = reserved(count as usize)?;
                for _ in 0..count {
                    values.push(self.value(kind, nesting + 1)?);
                }
                Array(values)
            }
            10 => Unsigned(self.u64()?),
            11 => Signed(i64::from_le_bytes(self.array()?)),
            12 => Float(f64::from_le_bytes(self.array()?)),
            _ => return Err(Cause::malformed("header", format!("no value has type {kind}"))),
        })
    }

    /// An entry of the list of tensors; its position counts from the first tensor's place.
    fn tensor(&mut self, alignment: u64) -> Result<GgufTensor, IoError> {
        let name = self.text("the name of a tensor")?;
        self.tensor_info(alignment)
            .map(|(shape, storage, bytes, position)| GgufTensor {
                name: name.clone(),
                shape,
                storage,
                bytes,
                position,
            })
            .map_err(|cause| cause.in_array(name))
    }

    fn tensor_info(&mut self, alignment: u64) -> Result<(Vec<usize>, Storage, u64, u64), Cause> {
        let rank = self.u32()?;
        if rank > MAX_RANK {
            return Err(Cause::malformed(
                "header",
                format!("{rank} axes, the format has at most {MAX_RANK}"),
            ));
        }
        let mut shape: Vec<u64> = (0..rank).map(|_| self.u64()).collect::<Result<_, _>>()?;
        shape.reverse();
        let number = self.u32()?;
        let unread = |found| Cause::ElementType { found, format: Format::Gguf };
        let storage = match TYPES.iter().find(|(known, _)| *known == number) {
            Some((_, Ok(storage))) => *storage,
            Some((_, Err(name))) => return Err(unread((*name).to_owned())),
            None => return Err(unread(format!("number {number}"))),
        };
        let (unit_elements, unit_bytes) = storage.unit();
        let row = shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(unit_elements as u64) {
            let problem = format!("rows of {row} elements in blocks of {unit_elements}");
            return Err(Cause::malformed("shape", problem));
        }
        let too_large = || ArrayError::TooLarge { shape: extents(&shape) };
        let elements = bytes_of(&shape, Stored::U8).ok_or_else(too_large)?;
        let bytes = (elements / unit_elements as u64).checked_mul(unit_bytes as u64).ok_or_else(too_large)?;
        let offset = self.u64()?;
        if !offset.is_multiple_of(alignment) {
            let problem = format!("{offset} is not a multiple of the alignment {alignment}");
            return Err(Cause::malformed("offset", problem));
        }
        Ok((extents(&shape), storage, bytes, offset))
    }
}
