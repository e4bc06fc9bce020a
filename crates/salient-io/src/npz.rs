//! Archives of arrays of NumPy: the `.npz` format, a zip archive with one `.npy` a member.
//!
//! Members may be stored (`numpy.savez`) or deflated (`numpy.savez_compressed`); stored ones are written, so that equal
//! arrays make equal files. Encrypted members and other compressions are refused.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::Path;

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::arrays::Arrays;
use crate::contents::Entry;
use crate::error::{Cause, IoError, check_claim};
use crate::format::{Format, describe_start};
use crate::npy::{decode_npy, describe, encode_npy, type_text};
use crate::source::{length_of, read_file, start_of};

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
    let mut arrays = Arrays::new();
    each_member(source, |name, size, member| {
        let mut bytes = Vec::new();
        // One byte past the size that is claimed: a longer member is not cut short silently.
        member.take(size.saturating_add(1)).read_to_end(&mut bytes).map_err(member_cause)?;
        let array = decode_npy(&bytes).map_err(|cause| cause.in_array(name))?;
        arrays.insert(name, array)
    })?;
    Ok(arrays)
}

/// What an archive says of its arrays, in the order of its directory.
pub(crate) fn entries(source: impl Read + Seek) -> Result<Vec<Entry>, IoError> {
    let mut entries: Vec<Entry> = Vec::new();
    each_member(source, |name, size, member| {
        if entries.iter().any(|entry| entry.name == name) {
            return Err(Cause::Duplicate.in_array(name));
        }
        entries.push(describe(member, size, name.to_owned())?);
        Ok(())
    })?;
    Ok(entries)
}

/// Calls a function with the name, the claimed size and the bytes of every member; its failures are named by the member.
fn each_member(
    mut source: impl Read + Seek,
    mut visit: impl FnMut(&str, u64, &mut dyn Read) -> Result<(), IoError>,
) -> Result<(), IoError> {
    let length = length_of(&mut source)?;
    let start = start_of(&mut source)?;
    if Format::of_start(&start) != Some(Format::Npz) {
        return Err(Cause::NotFormat { expected: Format::Npz, found: describe_start(&start) }.into());
    }
    let mut archive = ZipArchive::new(source).map_err(archive_cause)?;
    if archive.has_duplicate_names() {
        return Err(Cause::DuplicateMember.into());
    }
    for position in 0..archive.len() {
        let mut member = archive.by_index(position).map_err(archive_cause)?;
        let name = member.name().map_err(archive_cause)?.into_owned();
        let name = name.strip_suffix(MEMBER_SUFFIX).unwrap_or(&name);
        let size = member.size();
        check_claim("a member", size, length.saturating_mul(MAX_EXPANSION))
            .map_err(IoError::from)
            .and_then(|()| visit(name, size, &mut member))
            .map_err(|error| IoError { array: error.array.or_else(|| Some(name.to_owned())), ..error })?;
    }
    Ok(())
}

/// Writes an `.npz` file of stored members, in the order of the map.
///
/// # Errors
/// The file cannot be written, or an array is `bf16`, which NumPy has no name for.
pub fn write_npz(path: impl AsRef<Path>, arrays: &Arrays) -> Result<(), IoError> {
    let path = path.as_ref();
    // Before the file is created: what cannot be written must not replace what was there.
    for (name, array) in arrays.iter() {
        type_text(array).map_err(|cause| cause.in_array(name).in_file(path))?;
    }
    File::create(path)
        .map_err(|error| Cause::Write(error).into())
        .and_then(|file| encode_npz(BufWriter::new(file), arrays))
        .map_err(|error| error.in_file(path))
}

/// Writes the archive into any sink.
fn encode_npz(sink: impl Write + Seek, arrays: &Arrays) -> Result<(), IoError> {
    let mut archive = ZipWriter::new(sink);
    for (name, array) in arrays.iter() {
        let bytes = encode_npy(array).map_err(|cause| cause.in_array(name))?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(bytes.len() as u64 > u64::from(u32::MAX));
        archive
            .start_file(format!("{name}{MEMBER_SUFFIX}"), options)
            .map_err(|error| Cause::Write(io::Error::from(error)).in_array(name))?;
        archive.write_all(&bytes).map_err(|error| Cause::Write(error).in_array(name))?;
    }
    let mut sink = archive.finish().map_err(|error| Cause::Write(io::Error::from(error)))?;
    Ok(sink.flush().map_err(Cause::Write)?)
}

fn archive_cause(error: ZipError) -> Cause {
    Cause::malformed("archive", error.to_string())
}

/// Reading a member fails on its bytes (checksum, deflate stream, early end) far more often than on the device.
fn member_cause(error: io::Error) -> Cause {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    if [InvalidData, InvalidInput, Other, UnexpectedEof].contains(&error.kind()) {
        Cause::malformed("member", error.to_string())
    } else {
        Cause::Read(error)
    }
}
