//! Which format a file is of.
//!
//! The first bytes decide, not the extension: files get renamed. Only the index of a sharded checkpoint, which is JSON
//! like any other, is known by its name.

use std::fmt;

/// The first bytes of every npy file.
pub(crate) const NPY_MAGIC: &[u8] = b"\x93NUMPY";

/// The first bytes of every GGUF file.
pub(crate) const GGUF_MAGIC: &[u8] = b"GGUF";

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
        if start.starts_with(NPY_MAGIC) {
            return Some(Format::Npy);
        }
        // A zip archive starts with a member, or with its end when it has none.
        if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            return Some(Format::Npz);
        }
        if start.starts_with(GGUF_MAGIC) {
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
