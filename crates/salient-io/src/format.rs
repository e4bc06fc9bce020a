//! Which format a file is of, and reading one whatever it is.
//!
//! The first bytes decide, not the extension: files get renamed. Only the index of a sharded checkpoint, which is JSON
//! like any other, is known by its name.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::arrays::Arrays;
use crate::error::{Cause, IoError};
use crate::{gguf, npy, npz, safetensors, sharded};

/// The formats that arrays are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One array of NumPy.
    Npy,
    /// An archive of arrays of NumPy.
    Npz,
    /// A checkpoint of the safetensors format.
    Safetensors,
    /// A checkpoint of the GGUF format.
    Gguf,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 4] = [Format::Npy, Format::Npz, Format::Safetensors, Format::Gguf];

    /// The name of the format, which is also its extension.
    pub fn name(self) -> &'static str {
        match self {
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Safetensors => "safetensors",
            Format::Gguf => "gguf",
        }
    }

    /// The formats as a list for messages.
    pub(crate) fn list() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// The format whose files start like this.
    pub fn of_start(start: &[u8]) -> Option<Format> {
        if start.starts_with(npy::MAGIC) {
            return Some(Format::Npy);
        }
        // A zip archive starts with a member, or with its end when it has none.
        if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            return Some(Format::Npz);
        }
        if start.starts_with(gguf::MAGIC) {
            return Some(Format::Gguf);
        }
        // Safetensors has no magic number: eight bytes of header length, then the header, an object of JSON.
        (start.get(8) == Some(&b'{')).then_some(Format::Safetensors)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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

/// What the start of a file that is not of the expected format looks like.
pub(crate) fn describe_start(start: &[u8]) -> String {
    match (start.is_empty(), Format::of_start(start)) {
        (true, _) => "it is empty".to_owned(),
        (false, Some(format)) => format!("it looks like {format}"),
        (false, None) => {
            let bytes: Vec<String> = start.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            format!("it starts with the bytes {}", bytes.join(" "))
        }
    }
}

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
