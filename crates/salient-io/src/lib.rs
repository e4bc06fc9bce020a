//! Arrays and checkpoints: bytes of others, trusted in nothing.
//!
//! Reads and writes the files that tensors travel in: `.npy` and `.npz` (NumPy), `.safetensors` (also in
//! shards with an index), and `.gguf` (read only).
//! Every claim of a file (lengths, shapes, offsets, counts) is checked against the bytes that are there before memory
//! is reserved for it; a file that is not what it says is an [`IoError`] that names the file, the array and the cause,
//! never a panic.
//!
//! Nothing here knows about models: which array is which parameter is decided elsewhere. Files are read into memory;
//! none is mapped.

mod arrays;
mod data;
mod elements;
mod error;
mod format;
mod formats;
mod read;
mod replace;
mod source;

pub use arrays::Arrays;
pub use data::{DataFile, Group, read_data, read_wanted_data, split_data};
pub use elements::Stored;
pub use error::{Cause, IoError};
pub use format::Format;
pub use formats::blocks::BlockType;
pub use formats::contents::{Contents, Entry};
pub use formats::gguf::{
    Coded, GgufHeader, GgufTensor, GgufValue, Storage, decode_gguf, read_gguf, read_gguf_bytes,
    read_gguf_coded, read_gguf_header, read_gguf_quantised, read_gguf_tensor,
};
pub use formats::npy::{decode_npy, encode_npy, read_npy, read_stored_npy, write_npy};
pub use formats::npz::{decode_npz, read_npz, write_npz};
pub use formats::safetensors::{decode_safetensors, read_safetensors, write_safetensors};
pub use formats::sharded::read_sharded_safetensors;
pub use read::{decode_arrays, decode_contents, format_of, read_arrays, read_contents, read_wanted};
pub use replace::{Sink, replace_file, replace_text};
pub use source::{decode_text, read_bytes, read_text, without_mark};
