//! What a file of arrays holds, without its elements: names, storage, shapes, sizes, metadata.
//!
//! Every claim of a header is checked as it is when arrays are read; elements are not looked at, so that listing a
//! checkpoint of gigabytes takes milliseconds.

use crate::elements::Stored;
use crate::format::Format;
use crate::formats::gguf::{GgufValue, Storage};

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
