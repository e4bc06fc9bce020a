//! Reading a file whatever format it is of: its arrays, or what it says of them.

use std::io::{Read, Seek};
use std::path::Path;

use crate::arrays::Arrays;
use crate::error::{Cause, IoError};
use crate::format::Format;
use crate::formats::contents::{Contents, Entry};
use crate::formats::gguf::{self, read_gguf_header};
use crate::formats::{npy, npz, safetensors, sharded};
use crate::source::{read_file, start_of};

/// Reads every array of a file of any supported format.
///
/// The one array of an `.npy` file gets the name of the file without its extension.
///
/// # Errors
/// The file cannot be read, is of no known format, or is not what it claims to be.
pub fn read_arrays(path: impl AsRef<Path>) -> Result<Arrays, IoError> {
    read_wanted(path, &|_| true)
}

/// Reads those arrays of a file that are wanted, by name. Of the others only their names are known: see
/// [`Arrays::passed_over`].
///
/// # Errors
/// As [`read_arrays`].
pub fn read_wanted(path: impl AsRef<Path>, wanted: &dyn Fn(&str) -> bool) -> Result<Arrays, IoError> {
    let path = path.as_ref();
    if sharded::is_index(path) {
        return sharded::read_wanted(path, wanted);
    }
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    read_file(path, |source| decode_wanted(source, &stem, wanted))
}

/// Reads every array from bytes of any supported format; `name` is that of the array if there is only one, unnamed.
///
/// # Errors
/// As [`read_arrays`].
pub fn decode_arrays(source: impl Read + Seek, name: &str) -> Result<Arrays, IoError> {
    decode_wanted(source, name, &|_| true)
}

fn decode_wanted(
    mut source: impl Read + Seek,
    name: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Arrays, IoError> {
    let start = start_of(&mut source)?;
    match Format::of_start(&start) {
        Some(Format::Npy) => {
            let mut arrays = Arrays::new();
            if wanted(name) {
                let (array, stored) = npy::decode_source(source)?;
                arrays.insert_stored(name, array, stored)?;
            } else {
                arrays.pass_over(name)?;
            }
            Ok(arrays)
        }
        Some(Format::Npz) => npz::decode_wanted(source, wanted),
        Some(Format::Safetensors) => safetensors::decode_wanted(source, wanted),
        Some(Format::Gguf) => gguf::decode_wanted(source, wanted),
        None => Err(Cause::UnknownFormat.into()),
    }
}

/// The format of a file by its first bytes; none if it is of no format that arrays are read from.
///
/// # Errors
/// The file cannot be read.
pub fn format_of(path: impl AsRef<Path>) -> Result<Option<Format>, IoError> {
    read_file(path.as_ref(), |mut source| Ok(Format::of_start(&start_of(&mut source)?)))
}

/// Reads what a file of any supported format holds, or all shards of an index of safetensors files.
///
/// # Errors
/// The file cannot be read, is of no known format, or is not what it claims to be.
pub fn read_contents(path: impl AsRef<Path>) -> Result<Contents, IoError> {
    let path = path.as_ref();
    if sharded::is_index(path) {
        let contents = |shard: &Path| read_file(shard, safetensors::contents).map(|found| found.entries);
        let entries = sharded::read_shards(path, contents, |entry| &entry.name)?;
        return Ok(Contents { format: Format::Safetensors, entries, metadata: Vec::new() });
    }
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    read_file(path, |source| decode_contents(source, &stem))
}

/// Reads what bytes of any supported format hold; `name` is that of the array if there is only one, unnamed.
///
/// # Errors
/// As [`read_contents`].
pub fn decode_contents(mut source: impl Read + Seek, name: &str) -> Result<Contents, IoError> {
    let start = start_of(&mut source)?;
    let format = Format::of_start(&start).ok_or(Cause::UnknownFormat)?;
    let (entries, metadata) = match format {
        Format::Npy => (vec![npy::entry(source, name.to_owned())?], Vec::new()),
        Format::Npz => (npz::entries(source)?, Vec::new()),
        Format::Safetensors => return safetensors::contents(source),
        Format::Gguf => {
            let header = read_gguf_header(&mut source)?;
            let entries = header.tensors.into_iter().map(|t| Entry {
                name: t.name,
                storage: t.storage,
                shape: t.shape,
                bytes: t.bytes,
            });
            (entries.collect(), header.metadata)
        }
    };
    Ok(Contents { format, entries, metadata })
}
