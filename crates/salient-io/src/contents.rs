//! What a file of arrays holds, without its elements: names, storage, shapes, sizes, metadata.
//!
//! Every claim of a header is checked as it is when arrays are read; elements are not looked at, so that listing a
//! checkpoint of gigabytes takes milliseconds.

use std::io::{Read, Seek};
use std::path::Path;

use crate::elements::Stored;
use crate::error::{Cause, IoError};
use crate::format::{Format, read_file, start_of};
use crate::gguf::{GgufValue, Storage, read_gguf_header};
use crate::{npy, npz, safetensors, sharded};

/// An array as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name. Of an `.npy` file, that of the file without its extension.
    pub name: String,
    /// How its elements are stored; reading may widen them.
    pub storage: Storage,
    /// The extents, outermost first.
    pub shape: Vec<usize>,
    /// The bytes that its elements take in the file, before an archive deflates them.
    pub bytes: u64,
}

/// Everything of a file of arrays but the elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The format; of an index of shards, that of the shards.
    pub format: Format,
    /// The arrays in the order of the file.
    pub entries: Vec<Entry>,
    /// What the file says beside its arrays, in its order. Formats of NumPy have none.
    pub metadata: Vec<(String, GgufValue)>,
}

impl Contents {
    /// The bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add)
    }
}

impl Entry {
    pub(crate) fn of_elements(
        name: impl Into<String>,
        stored: Stored,
        shape: Vec<usize>,
        bytes: u64,
    ) -> Entry {
        Entry { name: name.into(), storage: Storage::Elements(stored), shape, bytes }
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
