//! What the tests of files share: sample arrays, small files of each format, comparison.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io::{Cursor, Write};
use std::path::PathBuf;

use salient_io::{Arrays, encode_npy};
use salient_ir::array::{Array, ArrayError};

/// A path for a file that a test writes, inside the build folder.
pub(crate) fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// One small array of every dtype, hostile values among them; names as checkpoints have them.
pub(crate) fn samples() -> Result<Vec<(&'static str, Array)>, ArrayError> {
    Ok(vec![
        ("x", Array::from_f32(vec![2, 3], vec![0.0, -0.0, f32::NAN, f32::INFINITY, 1e-45, -1.5])?),
        ("layer.0/weight", Array::from_f16_bits(vec![2], vec![0x3c00, 0xfc00])?),
        ("brain", Array::from_bf16_bits(vec![1, 2], vec![0x3f80, 0x7fc0])?),
        ("ids", Array::from_i64(vec![3], vec![i64::MIN, 0, i64::MAX])?),
        ("steps", Array::from_i32(vec![], vec![-7])?),
        ("keep", Array::from_bool(vec![2, 1, 2], vec![true, false, false, true])?),
        ("none", Array::from_f32(vec![0, 4], vec![])?),
    ])
}

/// The samples as a map, without `bf16` where a format cannot hold it.
pub(crate) fn sample_arrays(with_bf16: bool) -> Arrays {
    let mut arrays = Arrays::new();
    for (name, array) in samples().expect("the samples are well formed") {
        if with_bf16 || name != "brain" {
            arrays.insert(name, array).expect("the names differ");
        }
    }
    arrays
}

/// Asserts that both hold the same arrays bit for bit, in any order.
pub(crate) fn assert_same(left: &Arrays, right: &Arrays) {
    let mut names: [Vec<&str>; 2] = [left.names().collect(), right.names().collect()];
    names.iter_mut().for_each(|names| names.sort_unstable());
    assert_eq!(names[0], names[1]);
    for (name, array) in left.iter() {
        let other = right.get(name).expect("the names are the same");
        assert!(array.same_bits(other), "{name}:\n{array}\n{other}");
    }
}

/// An npy file with this header text (padded by nothing) and these element bytes.
pub(crate) fn npy_bytes(header: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&u16::try_from(header.len()).expect("a short header").to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(elements);
    bytes
}

/// A zip archive of these members.
pub(crate) fn zip_bytes(members: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in members {
        archive.start_file(*name, options).expect("a member starts");
        archive.write_all(bytes).expect("memory can be written");
    }
    archive.finish().expect("the archive ends").into_inner()
}

/// An npz file of two small arrays.
pub(crate) fn small_npz(method: zip::CompressionMethod) -> Vec<u8> {
    let member = |values: Vec<f32>| {
        let array = Array::from_f32(vec![values.len()], values).expect("one axis of that length");
        encode_npy(&array).expect("f32 can be written")
    };
    zip_bytes(&[("a.npy", &member(vec![1.0, 2.0])), ("b.npy", &member(vec![3.0]))], method)
}

/// A safetensors file with this header text and these element bytes.
pub(crate) fn safetensors_bytes(header: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(elements);
    bytes
}

/// A safetensors file of two small tensors.
pub(crate) fn small_safetensors() -> Vec<u8> {
    safetensors_bytes(
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}}"#,
        &[0; 16],
    )
}

/// A GGUF text: its length, then its bytes.
pub(crate) fn gguf_text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// An entry of the metadata of a GGUF file: key, number of the type, bytes of the value.
pub(crate) fn gguf_value(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&gguf_text(key)[..], &kind.to_le_bytes(), value].concat()
}

/// An entry of the list of tensors of a GGUF file; extents innermost first, as the file has them.
pub(crate) fn gguf_tensor(name: &str, extents: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = gguf_text(name);
    bytes.extend_from_slice(&(extents.len() as u32).to_le_bytes());
    extents.iter().for_each(|extent| bytes.extend_from_slice(&extent.to_le_bytes()));
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&offset.to_le_bytes());
    bytes
}

/// A GGUF file of these entries, with `data` at the default alignment after them.
pub(crate) fn gguf_bytes(values: &[Vec<u8>], tensors: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\x00\x00\x00".to_vec();
    bytes.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&(values.len() as u64).to_le_bytes());
    values.iter().chain(tensors).for_each(|entry| bytes.extend_from_slice(entry));
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend_from_slice(data);
    bytes
}

/// A GGUF file with metadata and two small tensors, one of them quantised.
pub(crate) fn small_gguf() -> Vec<u8> {
    let tokens = [&8u32.to_le_bytes()[..], &2u64.to_le_bytes(), &gguf_text("a"), &gguf_text("b")].concat();
    gguf_bytes(
        &[gguf_value("n", 4, &7u32.to_le_bytes()), gguf_value("tokens", 9, &tokens)],
        &[gguf_tensor("w", &[2, 3], 0, 0), gguf_tensor("q", &[32], 2, 32)],
        &[0; 32 + 18],
    )
}
