//! One array of NumPy: the `.npy` format, versions 1, 2 and 3.
//!
//! A magic number, a version, the length of a header, the header (a Python dictionary with the keys `descr`,
//! `fortran_order` and `shape`), then the elements
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>). Both byte orders and both element orders
//! are read; little-endian in C order is written. Structured, string and object dtypes are refused. NumPy has no type for
//! `bf16`: such elements are written as f32, which holds them exactly.
//!
//! The header is read by a parser of its own and not as the Python literal it is: three keys need no grammar that
//! nests, and nothing that a hostile header could nest.

use std::io::{Read, Seek, Write};
use std::path::Path;

use salient_ir::array::{Array, Data};
use salient_ir::ty::DType;

use crate::elements::{ByteOrder, Stored, bytes_of, extents, write};
use crate::error::{Cause, IoError, check_claim};
use crate::format::{Format, NPY_MAGIC, describe_start};
use crate::formats::contents::Entry;
use crate::replace::replace_file;
use crate::source::{length_of, read_file, reserved};

/// NumPy's own limit on a header it reads without being told to trust it.
const MAX_HEADER: usize = 10_000;

/// NumPy's limit is 64 axes since 2.0.
const MAX_RANK: usize = 64;

/// The element types of the format, as NumPy spells them without the byte order.
const TYPES: [(&str, Stored); 12] = [
    ("f8", Stored::F64),
    ("f4", Stored::F32),
    ("f2", Stored::F16),
    ("i8", Stored::I64),
    ("i4", Stored::I32),
    ("i2", Stored::I16),
    ("i1", Stored::I8),
    ("u8", Stored::U64),
    ("u4", Stored::U32),
    ("u2", Stored::U16),
    ("u1", Stored::U8),
    ("b1", Stored::Bool),
];

/// Reads an `.npy` file.
///
/// # Errors
/// The file cannot be read, is not an npy file, is truncated, or holds elements that are not read.
pub fn read_npy(path: impl AsRef<Path>) -> Result<Array, IoError> {
    Ok(read_stored_npy(path)?.0)
}

/// Reads an `.npy` file, and how its elements are stored.
///
/// # Errors
/// As [`read_npy`].
pub fn read_stored_npy(path: impl AsRef<Path>) -> Result<(Array, Stored), IoError> {
    read_file(path.as_ref(), |source| decode_source(source).map_err(IoError::from))
}

/// Writes an `.npy` file of version 1: little-endian, C order; `bf16` as f32. The old file stays if that fails.
///
/// # Errors
/// The file cannot be written, or the array has more axes than NumPy allows.
pub fn write_npy(path: impl AsRef<Path>, array: &Array) -> Result<(), IoError> {
    replace_file(path, |mut sink| Ok(encode_into(array, &mut sink)?))
}

/// The whole of a source as one array.
pub(crate) fn decode_source(mut source: impl Read + Seek) -> Result<(Array, Stored), Cause> {
    let length = length_of(&mut source)?;
    decode_member(source, length)
}

/// Reads the bytes of an `.npy` file.
///
/// # Errors
/// As [`read_npy`].
pub fn decode_npy(bytes: &[u8]) -> Result<Array, Cause> {
    Ok(decode_member(bytes, bytes.len() as u64)?.0)
}

/// Reads the next `length` bytes of a source as an `.npy` file. The header is checked before memory is reserved for the
/// elements, and these are read one after the other.
pub(crate) fn decode_member(mut source: impl Read, length: u64) -> Result<(Array, Stored), Cause> {
    let start = start(&mut source)?;
    let (header, rest) = split_header(&start, length)?;
    header.elements(length, start.len() - rest.len())?;
    let mut elements = rest.chain(source);
    let array = header.stored.read_array(header.order, &mut elements, extents(&header.shape))?;
    // Readers of archives compare checksums at the end.
    if elements.read(&mut [0]).map_err(Cause::Read)? > 0 {
        return Err(Cause::Trailing { extra: 1 });
    }
    let array = if header.column_major { transpose_storage(array)? } else { array };
    Ok((array, header.stored))
}

/// The bytes of an `.npy` file of version 1: little-endian, C order; `bf16` as f32.
///
/// # Errors
/// The array has more axes than NumPy allows.
pub fn encode_npy(array: &Array) -> Result<Vec<u8>, Cause> {
    let mut bytes = Vec::new();
    encode_into(array, &mut bytes)?;
    Ok(bytes)
}

/// Writes an array as an `.npy` file into any sink.
pub(crate) fn encode_into(array: &Array, sink: &mut dyn Write) -> Result<(), Cause> {
    /// NumPy aligns the elements to this for memory mapping.
    const ALIGNMENT: usize = 64;
    check_rank(array)?;
    let type_text = type_text(array.dtype());
    let extents: String = array.shape().iter().map(|extent| format!("{extent},")).collect();
    let text = format!("{{'descr': '{type_text}', 'fortran_order': False, 'shape': ({extents}), }}");
    let before = NPY_MAGIC.len() + 4;
    let total = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
    let mut header = Vec::with_capacity(total);
    header.extend_from_slice(NPY_MAGIC);
    header.extend_from_slice(&[1, 0]);
    // At most 64 extents of 20 digits: the length fits the 16 bits of version 1.
    header.extend_from_slice(&((total - before) as u16).to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header.resize(total - 1, b' ');
    header.push(b'\n');
    let widened;
    let array = if array.dtype() == DType::BF16 {
        widened = array.clone().widen()?;
        &widened
    } else {
        array
    };
    sink.write_all(&header).and_then(|()| write(array, sink)).map_err(Cause::Write)
}

/// The bytes of an array's file, without making them.
pub(crate) fn encoded_size(array: &Array) -> u64 {
    /// Past the longest header that is written.
    const HEADER: u64 = 4096;
    HEADER + array.len() as u64 * u64::from(type_text(array.dtype()).as_bytes()[2] - b'0')
}

/// Refuses what an npy file cannot hold.
pub(crate) fn check_rank(array: &Array) -> Result<(), Cause> {
    if array.rank() <= MAX_RANK {
        return Ok(());
    }
    Err(Cause::malformed("shape", format!("{} axes, NumPy has at most {MAX_RANK}", array.rank())))
}

/// How NumPy spells the elements that an array of a dtype is written as.
fn type_text(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::BF16 => "<f4",
        DType::F16 => "<f2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::Bool => "|b1",
    }
}

/// What a header says.
struct Header {
    stored: Stored,
    order: ByteOrder,
    column_major: bool,
    shape: Vec<u64>,
}

impl Header {
    /// The bytes of the elements, which must be all that are there of `length` bytes after `before` of them.
    fn elements(&self, length: u64, before: usize) -> Result<u64, Cause> {
        let available = length.saturating_sub(before as u64);
        let claimed = bytes_of(&self.shape, self.stored)
            .ok_or_else(|| salient_ir::array::ArrayError::TooLarge { shape: extents(&self.shape) })?;
        check_claim("the elements", claimed, available)?;
        if claimed < available { Err(Cause::Trailing { extra: available - claimed }) } else { Ok(claimed) }
    }
}

/// What a source that is one array says of it, without its elements.
pub(crate) fn entry(mut source: impl Read + Seek, name: String) -> Result<Entry, Cause> {
    let length = length_of(&mut source)?;
    describe(source, length, name)
}

/// What the start of `length` bytes of an `.npy` file says of its array.
pub(crate) fn describe(mut source: impl Read, length: u64, name: String) -> Result<Entry, Cause> {
    let start = start(&mut source)?;
    let (header, rest) = split_header(&start, length)?;
    let bytes = header.elements(length, start.len() - rest.len())?;
    Ok(Entry::of_elements(name, header.stored, extents(&header.shape), bytes))
}

/// The first bytes of a source, past the longest header that is read.
fn start(source: &mut impl Read) -> Result<Vec<u8>, Cause> {
    const START: u64 = (NPY_MAGIC.len() + 6 + MAX_HEADER) as u64;
    let mut start = Vec::new();
    source.take(START).read_to_end(&mut start).map_err(Cause::Read)?;
    Ok(start)
}

/// The header of a file of `total` bytes that starts with these, and those of them that come after it.
fn split_header(bytes: &[u8], total: u64) -> Result<(Header, &[u8]), Cause> {
    if !bytes.starts_with(NPY_MAGIC) {
        return Err(Cause::NotFormat { expected: Format::Npy, found: describe_start(bytes) });
    }
    let rest = &bytes[NPY_MAGIC.len()..];
    let (length, rest) = match rest {
        [1, 0, a, b, rest @ ..] => (u32::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, 0, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]), rest),
        [] | [1..=3] | [1..=3, 0, ..] => {
            let claimed = if rest.first() == Some(&1) { 4 } else { 6 };
            return Err(Cause::Short {
                part: "the start of the header",
                claimed,
                available: rest.len() as u64,
            });
        }
        [major, ..] => {
            let minor = rest.get(1).copied().unwrap_or(0);
            return Err(Cause::malformed("header", format!("version {major}.{minor} is not known")));
        }
    };
    let length = length as usize;
    let before = (bytes.len() - rest.len()) as u64;
    check_claim("the header", length as u64, total.saturating_sub(before))?;
    if length > MAX_HEADER {
        return Err(Cause::malformed(
            "header",
            format!("{length} bytes long, NumPy reads at most {MAX_HEADER}"),
        ));
    }
    check_claim("the header", length as u64, rest.len() as u64)?;
    let (text, elements) = rest.split_at(length);
    let text = std::str::from_utf8(text).map_err(|_| Cause::malformed("header", "it is not text"))?;
    Ok((parse_header(text)?, elements))
}

/// The dictionary of a header. Each key once, in any order, and no other.
fn parse_header(text: &str) -> Result<Header, Cause> {
    let mut scan = Scan { rest: text };
    let (mut descr, mut column_major, mut shape) = (None, None, None);
    scan.expect('{')?;
    while !scan.eat('}') {
        let key = scan.string()?;
        scan.expect(':')?;
        let repeated = match key {
            "descr" => descr.replace(scan.element_type()?).is_some(),
            "fortran_order" => column_major.replace(scan.boolean()?).is_some(),
            "shape" => shape.replace(scan.shape()?).is_some(),
            _ => return Err(Cause::malformed("header", format!("unknown key `{key}`"))),
        };
        if repeated {
            return Err(Cause::malformed("header", format!("key `{key}` twice")));
        }
        if !scan.eat(',') {
            scan.expect('}')?;
            break;
        }
    }
    scan.end()?;
    let missing = |key| Cause::malformed("header", format!("no key `{key}`"));
    let (stored, order) = descr.ok_or_else(|| missing("descr"))?;
    let column_major = column_major.ok_or_else(|| missing("fortran_order"))?;
    let shape = shape.ok_or_else(|| missing("shape"))?;
    Ok(Header { stored, order, column_major, shape })
}

/// The start of a text of others, fit to be shown on a terminal.
fn excerpt(text: &str) -> String {
    text.chars().take(20).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The text of a header that is not yet read.
struct Scan<'a> {
    rest: &'a str,
}

impl<'a> Scan<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn eat(&mut self, expected: char) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, expected: char) -> Result<(), Cause> {
        if self.eat(expected) { Ok(()) } else { Err(self.wrong(&format!("`{expected}`"))) }
    }

    fn end(&mut self) -> Result<(), Cause> {
        self.skip_space();
        if self.rest.is_empty() { Ok(()) } else { Err(self.wrong("the end")) }
    }

    fn wrong(&self, expected: &str) -> Cause {
        Cause::malformed("header", format!("expected {expected}, found `{}`", excerpt(self.rest)))
    }

    /// A quoted string. None of the format's has an escape.
    fn string(&mut self) -> Result<&'a str, Cause> {
        let quote = if self.eat('\'') {
            '\''
        } else if self.eat('"') {
            '"'
        } else {
            return Err(self.wrong("a string"));
        };
        let (inside, rest) = self.rest.split_once(quote).ok_or_else(|| self.wrong("the end of a string"))?;
        self.rest = rest;
        Ok(inside)
    }

    fn boolean(&mut self) -> Result<bool, Cause> {
        self.skip_space();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.wrong("True or False"))
    }

    /// `'<f4'` and the like; a list, which describes a structured type, is not read.
    fn element_type(&mut self) -> Result<(Stored, ByteOrder), Cause> {
        let unread = |found: String| Cause::ElementType { found, format: Format::Npy };
        self.skip_space();
        if self.rest.starts_with(['[', '(']) {
            return Err(unread("a structure".to_owned()));
        }
        let text = self.string()?;
        let known = |name: &str| TYPES.iter().find(|(known, _)| *known == name).map(|&(_, stored)| stored);
        let (mark, name) = text.split_at_checked(1).unwrap_or((text, ""));
        match (mark, known(name)) {
            ("<", Some(stored)) => Ok((stored, ByteOrder::Little)),
            (">", Some(stored)) => Ok((stored, ByteOrder::Big)),
            // "Not applicable": legal only where there is one byte.
            ("|", Some(stored)) if stored.size() == 1 => Ok((stored, ByteOrder::Little)),
            _ => Err(unread(format!("`{}`", excerpt(text)))),
        }
    }

    /// A tuple of extents; Python 2 wrote long ones with an `L`.
    fn shape(&mut self) -> Result<Vec<u64>, Cause> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.eat(')') {
            self.skip_space();
            let digits = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, rest) = self.rest.split_at(digits);
            if number.is_empty() {
                return Err(self.wrong("an extent"));
            }
            let extent = number.parse().map_err(|_| {
                Cause::malformed("header", format!("an extent of {digits} digits is no length of an axis"))
            })?;
            shape.push(extent);
            if shape.len() > MAX_RANK {
                return Err(Cause::malformed("header", format!("more than {MAX_RANK} axes")));
            }
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }
}

/// Elements that were read in column-major order, put into row-major order.
fn transpose_storage(array: Array) -> Result<Array, Cause> {
    let (shape, data) = array.into_parts();
    let data = match data {
        Data::F32(v) => Data::F32(to_row_major(&shape, &v)?.into()),
        Data::F16(v) => Data::F16(to_row_major(&shape, &v)?.into()),
        Data::BF16(v) => Data::BF16(to_row_major(&shape, &v)?.into()),
        Data::I32(v) => Data::I32(to_row_major(&shape, &v)?.into()),
        Data::I64(v) => Data::I64(to_row_major(&shape, &v)?.into()),
        Data::Bool(v) => Data::Bool(to_row_major(&shape, &v)?.into()),
    };
    Ok(Array::new(shape, data)?)
}

/// Walks the positions in row-major order and carries the column-major offset along.
fn to_row_major<T: Copy>(shape: &[usize], elements: &[T]) -> Result<Vec<T>, Cause> {
    let strides: Vec<usize> = shape
        .iter()
        .scan(1, |stride, &extent| {
            let own = *stride;
            *stride *= extent;
            Some(own)
        })
        .collect();
    let mut position = vec![0; shape.len()];
    let mut offset = 0;
    let mut out = reserved(elements.len())?;
    while out.len() < elements.len() {
        out.push(elements[offset]);
        for axis in (0..shape.len()).rev() {
            position[axis] += 1;
            offset += strides[axis];
            if position[axis] < shape[axis] {
                break;
            }
            offset -= strides[axis] * shape[axis];
            position[axis] = 0;
        }
    }
    Ok(out)
}
