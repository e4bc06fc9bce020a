//! Files as sources of bytes: opened with failures named, measured, and looked at from the start.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Cause, IoError};

/// Opens a file to be decoded, with failures named by it.
pub(crate) fn read_file<T>(
    path: &Path,
    decode: impl FnOnce(BufReader<File>) -> Result<T, IoError>,
) -> Result<T, IoError> {
    File::open(path)
        .map_err(|error| Cause::Read(error).into())
        .and_then(|file| decode(BufReader::new(file)))
        .map_err(|error: IoError| error.in_file(path))
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
