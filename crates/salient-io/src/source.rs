//! Files as sources of bytes: the one place where files of others are opened, for arrays and for texts alike.
//!
//! A file is read only if it is one: a directory, a device, a socket or a named pipe is refused before it is opened, since
//! a device may have no end and a pipe no writer. A pipe that is open already (`/dev/stdin`, `/dev/fd/N`, which is what
//! `<(command)` of a shell makes) may be read as a text, up to the limit that texts have; arrays need a file, since their
//! readers go back and forth.

use std::fs::{File, FileType, Metadata};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Cause, IoError};

/// Opens a file to be decoded, with failures named by it.
pub(crate) fn read_file<T>(
    path: &Path,
    decode: impl FnOnce(BufReader<File>) -> Result<T, IoError>,
) -> Result<T, IoError> {
    open(path, &Metadata::is_file)
        .map_err(IoError::from)
        .and_then(|file| decode(BufReader::new(file)))
        .map_err(|error| error.in_file(path))
}

/// The bytes of a file, or of a pipe that is open already, if they are at most so many.
///
/// # Errors
/// The file cannot be read, is no file, or is longer.
pub fn read_bytes(path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, IoError> {
    let path = path.as_ref();
    let is_read = |found: &Metadata| found.is_file() || is_pipe(found.file_type()) && is_open_already(path);
    open(path, &is_read)
        .and_then(|file| bytes_of(file, most))
        .map_err(|cause| IoError::from(cause).in_file(path))
}

/// The text of a file, or of a pipe that is open already, without a byte order mark.
///
/// # Errors
/// As [`read_bytes`]; the file is not UTF-8.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> Result<String, IoError> {
    let path = path.as_ref();
    read_bytes(path, most).and_then(|bytes| Ok(text_of(bytes)?)).map_err(|error: IoError| error.in_file(path))
}

/// The text of a source, as [`read_text`] reads it.
///
/// # Errors
/// As [`read_text`].
pub fn decode_text(source: impl Read, most: u64) -> Result<String, Cause> {
    text_of(bytes_of(source, most)?)
}

/// Bytes without the mark that editors of some systems put before a text.
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn bytes_of(source: impl Read, most: u64) -> Result<Vec<u8>, Cause> {
    let mut bytes = Vec::new();
    // One byte past the limit is enough to refuse what is longer.
    source.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(Cause::Read)?;
    if bytes.len() as u64 > most { Err(Cause::TooLong { most }) } else { Ok(bytes) }
}

fn text_of(bytes: Vec<u8>) -> Result<String, Cause> {
    let mut text =
        String::from_utf8(bytes).map_err(|e| Cause::NotText { at: e.utf8_error().valid_up_to() })?;
    let mark = text.len() - without_mark(text.as_bytes()).len();
    text.drain(..mark);
    Ok(text)
}

/// Opens what is a file by `is_read`; looks before it opens.
fn open(path: &Path, is_read: &dyn Fn(&Metadata) -> bool) -> Result<File, Cause> {
    let found = std::fs::metadata(path).map_err(Cause::Read)?;
    if is_read(&found) {
        File::open(path).map_err(Cause::Read)
    } else {
        Err(Cause::NotFile { found: kind(found.file_type()) })
    }
}

/// Whether a path stands for what the process has opened already, so that opening it waits for nobody.
pub(crate) fn is_open_already(path: &Path) -> bool {
    let open = ["/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];
    open.iter().any(|open| path.starts_with(open))
}

#[cfg(unix)]
fn is_pipe(found: FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&found)
}

#[cfg(not(unix))]
fn is_pipe(_: FileType) -> bool {
    false
}

/// What is not a file, in words.
fn kind(found: FileType) -> &'static str {
    match (found.is_dir(), is_pipe(found)) {
        (true, _) => "a directory",
        (false, true) => "a pipe",
        (false, false) => "a device or a socket",
    }
}

/// Memory for so many elements, without any yet.
pub(crate) fn reserved<T>(count: usize) -> Result<Vec<T>, Cause> {
    let mut out = Vec::new();
    let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
    out.try_reserve_exact(count).map_err(|_| Cause::Memory { bytes })?;
    Ok(out)
}

/// The next `count` bytes of a source, which are known to be there.
pub(crate) fn next_bytes(source: &mut impl Read, count: u64) -> Result<Vec<u8>, Cause> {
    let mut bytes = reserved(usize::try_from(count).map_err(|_| Cause::Memory { bytes: count })?)?;
    bytes.resize(count as usize, 0);
    source.read_exact(&mut bytes).map_err(Cause::Read)?;
    Ok(bytes)
}

/// The length of a source in bytes; leaves it at the start.
pub(crate) fn length_of(source: &mut impl Seek) -> Result<u64, Cause> {
    let length = source.seek(SeekFrom::End(0)).map_err(Cause::Read)?;
    source.seek(SeekFrom::Start(0)).map_err(Cause::Read)?;
    Ok(length)
}

/// The bytes at the start of a source, as many as tell its format; leaves it at the start.
pub(crate) fn start_of(source: &mut (impl Read + Seek)) -> Result<Vec<u8>, Cause> {
    let mut start = Vec::new();
    source.by_ref().take(16).read_to_end(&mut start).map_err(Cause::Read)?;
    source.seek(SeekFrom::Start(0)).map_err(Cause::Read)?;
    Ok(start)
}
