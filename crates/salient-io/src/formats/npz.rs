//! Archives of arrays of NumPy: the `.npz` format, a zip archive with one `.npy` a member.
//!
//! Members may be stored (`numpy.savez`) or deflated (`numpy.savez_compressed`); stored ones are written, so that equal
//! arrays make equal files. Encrypted members and other compressions are refused.
//!
//! A deflated member can take a thousand times its bytes in the file. Only members that are asked for are inflated, once
//! and straight into their arrays, after their headers have been compared with the sizes in the directory; and those of one
//! archive take at most [`MAX_INFLATED`] bytes together.

use std::io::{self, Read, Seek};
use std::path::Path;

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::arrays::Arrays;
use crate::error::{Cause, IoError, check_claim};
use crate::format::{Format, describe_start};
use crate::formats::contents::Entry;
use crate::formats::npy::{check_rank, decode_member, describe, encode_into, encoded_size};
use crate::replace::{Sink, replace_file};
use crate::source::{length_of, read_file, start_of};

/// The bytes that the deflated members that are read of one archive may take together: 4 GiB.
pub(crate) const MAX_INFLATED: u64 = 4 << 30;

/// Deflate cannot expand more than this: 258 bytes from a match of two bits.
const MAX_EXPANSION: u64 = 1032;

/// What a member's name ends with; the name of its array does not have it.
const MEMBER_SUFFIX: &str = ".npy";

/// Reads an `.npz` file.
///
/// # Errors
/// The file cannot be read, is not an archive, or a member is not an array that is read.
pub fn read_npz(path: impl AsRef<Path>) -> Result<Arrays, IoError> {
    read_file(path.as_ref(), decode_npz)
}

/// Reads the arrays of an `.npz` archive, in the order of its directory.
///
/// # Errors
/// As [`read_npz`].
pub fn decode_npz(source: impl Read + Seek) -> Result<Arrays, IoError> {
    decode_wanted(source, &|_| true)
}

/// Reads those arrays of an archive that are wanted, by name; the others are named as passed over.
pub(crate) fn decode_wanted(
    source: impl Read + Seek,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Arrays, IoError> {
    let mut archive = Archive::open(source)?;
    let mut left = MAX_INFLATED;
    archive.each_member(|member, _| {
        if member.is_deflated && wanted(member.name) {
            left = left.checked_sub(member.size).ok_or(Cause::Unpacked { most: MAX_INFLATED })?;
        }
        Ok(())
    })?;
    let mut arrays = Arrays::new();
    archive.each_member(|member, bytes| {
        if !wanted(member.name) {
            return arrays.pass_over(member.name);
        }
        // One byte past the size that is claimed: a longer member is not cut short silently.
        let (array, stored) = decode_member(bytes.take(member.size.saturating_add(1)), member.size)?;
        arrays.insert_stored(member.name, array, stored)
    })?;
    Ok(arrays)
}

/// What an archive says of its arrays, in the order of its directory.
pub(crate) fn entries(source: impl Read + Seek) -> Result<Vec<Entry>, IoError> {
    let mut entries: Vec<Entry> = Vec::new();
    Archive::open(source)?.each_member(|member, bytes| {
        if entries.iter().any(|entry| entry.name == member.name) {
            return Err(Cause::Duplicate.in_array(member.name));
        }
        entries.push(describe(bytes, member.size, member.name.to_owned())?);
        Ok(())
    })?;
    Ok(entries)
}

/// An archive whose directory has been read.
struct Archive<S> {
    inner: ZipArchive<S>,
    /// Bytes of the file.
    length: u64,
}

/// A member as the directory has it.
struct Member<'n> {
    /// Of the array.
    name: &'n str,
    /// Bytes, unpacked.
    size: u64,
    is_deflated: bool,
}

impl<S: Read + Seek> Archive<S> {
    fn open(mut source: S) -> Result<Archive<S>, Cause> {
        let length = length_of(&mut source)?;
        let start = start_of(&mut source)?;
        if Format::of_start(&start) != Some(Format::Npz) {
            return Err(Cause::NotFormat { expected: Format::Npz, found: describe_start(&start) });
        }
        let inner = ZipArchive::new(source).map_err(archive_cause)?;
        if inner.has_duplicate_names() { Err(Cause::DuplicateMember) } else { Ok(Archive { inner, length }) }
    }

    /// Calls a function with every member and its bytes, which are unpacked as they are read; its failures are named by the
    /// member.
    fn each_member(
        &mut self,
        mut visit: impl FnMut(&Member<'_>, &mut dyn Read) -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        for position in 0..self.inner.len() {
            let mut bytes = self.inner.by_index(position).map_err(archive_cause)?;
            let name = bytes.name().map_err(archive_cause)?.into_owned();
            let name = name.strip_suffix(MEMBER_SUFFIX).unwrap_or(&name);
            let is_deflated = bytes.compression() != CompressionMethod::Stored;
            let member = Member { name, size: bytes.size(), is_deflated };
            let expansion = if is_deflated { MAX_EXPANSION } else { 1 };
            check_claim("a member", member.size, self.length.saturating_mul(expansion))
                .map_err(IoError::from)
                .and_then(|()| visit(&member, &mut bytes))
                .map_err(|error| {
                    let array = error.array.or_else(|| Some(name.to_owned()));
                    IoError { file: error.file, array, cause: member_cause(error.cause) }
                })?;
        }
        Ok(())
    }
}

/// Writes an `.npz` file of stored members, in the order of the map; `bf16` as f32. The old file stays if that fails.
///
/// # Errors
/// The file cannot be written, or an array has more axes than NumPy allows.
pub fn write_npz(path: impl AsRef<Path>, arrays: &Arrays) -> Result<(), IoError> {
    replace_file(path, |sink| encode_npz(sink, arrays))
}

/// Writes the archive into any sink.
fn encode_npz(sink: &mut dyn Sink, arrays: &Arrays) -> Result<(), IoError> {
    let mut archive = ZipWriter::new(sink);
    for (name, array) in arrays.iter() {
        check_rank(array).map_err(|cause| cause.in_array(name))?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(encoded_size(array) > u64::from(u32::MAX));
        archive
            .start_file(format!("{name}{MEMBER_SUFFIX}"), options)
            .map_err(|error| Cause::Write(io::Error::from(error)).in_array(name))?;
        encode_into(array, &mut archive).map_err(|cause| cause.in_array(name))?;
    }
    archive.finish().map_err(|error| Cause::Write(io::Error::from(error)))?;
    Ok(())
}

fn archive_cause(error: ZipError) -> Cause {
    Cause::malformed("archive", error.to_string())
}

/// Reading a member fails on its bytes (checksum, deflate stream, early end) far more often than on the device.
fn member_cause(cause: Cause) -> Cause {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    if let Cause::Read(error) = &cause
        && [InvalidData, InvalidInput, Other, UnexpectedEof].contains(&error.kind())
    {
        return Cause::malformed("member", error.to_string());
    }
    cause
}
