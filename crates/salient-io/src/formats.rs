//! The formats, a file each: what its bytes mean, checked against the bytes that are there.
//!
//! [`npy`] and its archive [`npz`]; [`safetensors`], also in [`sharded`] files; [`gguf`] with the [`blocks`] that its
//! numbers lie in. [`contents`] is what a file of any of them says of itself.

pub(crate) mod blocks;
pub(crate) mod contents;
pub(crate) mod gguf;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod safetensors;
pub(crate) mod sharded;
