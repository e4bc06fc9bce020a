//! Reading a file whatever format it is of: its arrays, or what it says of them.

use std::io::{Read, Seek};
use std::path::Path;

use crate::arrays::Arrays;
use crate::contents::{Contents, Entry};
use crate::error::{Cause, IoError};
use crate::format::Format;
use crate::gguf::{self, read_gguf_header};
use crate::source::{read_file, start_of};
use crate::{npy, npz, safetensors, sharded};

/// Reads every array of a file of any supported format.
///
/// The one array of an `.npy` file gets the name of the file without its extension.
///
/// # Errors
/// The file cannot be read, is of no known format, or is not what it claims to be.
pub fn read_arrays(path: impl AsRef<Path>) -> Result<Arrays, IoError> {
    let path = path.as_ref();
    if sharded::is_index(path) {
        return sharded::read_sharded_safetensors(path);
    }
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    read_file(path, |source| decode_arrays(source, &stem))
}

/// Reads every array from bytes of any supported format; `name` is that of the array if there is only one, unnamed.
///
/// # Errors
/// As [`read_arrays`].
pub fn decode_arrays(mut source: impl Read + Seek, name: &str) -> Result<Arrays, IoError> {
    let start = start_of(&mut source)?;
    match Format::of_start(&start) {
        Some(Format::Npy) => {
            let array = npy::decode_source(source)?;
            let mut arrays = Arrays::new();
            arrays.insert(name, array)?;
            Ok(arrays)
        }
        Some(Format::Npz) => npz::decode_npz(source),
        Some(Format::Safetensors) => safetensors::decode_safetensors(source),
        Some(Format::Gguf) => gguf::decode_gguf(source),
        None => Err(Cause::UnknownFormat.into()),
    }
}

/// Reads what a file of any supported format holds, or all shards of an index of safetensors files.
///
/// # Errors
/// The file cannot be read, is of no known format, or is not what it claims to be.
pub fn read_contents(path: impl AsRef<Path>) -> Result<Contents, IoError> {
    let path = path.as_ref();
    if sharded::is_index(path) {
        let contents = |shard: &Path| read_contents(shard).map(|contents| contents.entries);
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
