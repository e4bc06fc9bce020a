//! GGUF: agreement with the format's reference implementation, and files that lie.
//!
//! `data/blocks.gguf` holds random blocks of every type that is read, written by the `gguf` package of Python (0.19),
//! and `data/blocks.npz` what the same package makes of them.

mod common;

use std::io::Cursor;

use common::{gguf_bytes, gguf_tensor, gguf_text, gguf_value, small_gguf};
use salient_io::{
    Arrays, BlockType, Cause, GgufHeader, GgufValue, IoError, Storage, Stored, decode_gguf, read_arrays,
    read_gguf, read_gguf_bytes, read_gguf_header, read_gguf_quantised,
};
use salient_ir::array::ArrayError;
use salient_ir::quantised::{BLOCK, Scales};

const BLOCKS: &[u8] = include_bytes!("data/blocks.gguf");

fn header(bytes: &[u8]) -> Result<GgufHeader, IoError> {
    read_gguf_header(&mut Cursor::new(bytes))
}

fn decode(bytes: &[u8]) -> Result<Arrays, IoError> {
    decode_gguf(Cursor::new(bytes))
}

#[test]
fn every_type_agrees_with_the_reference_to_the_bit() {
    let path = |name: &str| format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let ours = read_gguf(path("blocks.gguf")).unwrap();
    let theirs = read_arrays(path("blocks.npz")).unwrap();
    common::assert_same(&ours, &theirs);
    assert_eq!(ours.len(), 11, "eight types of blocks and three of elements");
}

#[test]
fn headers_are_read_without_tensors() {
    let header = header(BLOCKS).unwrap();
    assert_eq!(header.get("general.architecture").and_then(GgufValue::as_str), Some("test"));
    assert_eq!(header.get("test.block_count").and_then(GgufValue::as_u64), Some(2));
    assert_eq!(header.get("test.big").and_then(GgufValue::as_u64), Some(u64::MAX));
    assert_eq!(header.get("test.shift"), Some(&GgufValue::Signed(-8)));
    assert_eq!(header.get("test.shift").and_then(GgufValue::as_u64), None);
    assert_eq!(header.get("test.epsilon").and_then(GgufValue::as_f64), Some(0.5));
    assert_eq!(header.get("test.pi").and_then(GgufValue::as_f64), Some(std::f64::consts::PI));
    assert_eq!(header.get("test.tied"), Some(&GgufValue::Bool(true)));
    assert_eq!(header.get("test.name").and_then(GgufValue::as_str), Some("größer"));
    let tokens: Vec<_> = header.get("test.tokens").and_then(GgufValue::as_slice).unwrap().iter().collect();
    assert_eq!(tokens.iter().map(|token| token.as_str().unwrap()).collect::<Vec<_>>(), ["a", "Ġb", ""]);
    let ids = [GgufValue::Signed(3), GgufValue::Signed(-4)];
    assert_eq!(header.get("test.ids").and_then(GgufValue::as_slice), Some(&ids[..]));
    assert_eq!(header.get("absent"), None);

    let tensor = header.tensor("Q6_K").unwrap();
    assert_eq!((&tensor.shape[..], tensor.storage), (&[2, 512][..], Storage::Blocks(BlockType::Q6K)));
    assert_eq!(tensor.bytes, 4 * 210);
    let tensor = header.tensor("F32").unwrap();
    assert_eq!((&tensor.shape[..], tensor.storage), (&[2, 3, 4][..], Storage::Elements(Stored::F32)));
}

#[test]
fn blocks_are_handed_out_as_they_are() {
    let mut source = Cursor::new(BLOCKS);
    let header = read_gguf_header(&mut source).unwrap();
    for tensor in &header.tensors {
        let bytes = read_gguf_bytes(&mut source, tensor).unwrap();
        let Storage::Blocks(blocks) = tensor.storage else { continue };
        assert_eq!(tensor.storage.to_string(), tensor.name);
        let widened = blocks.widen(&bytes).unwrap();
        let whole = decode(BLOCKS).unwrap();
        assert_eq!(Some(&widened[..]), whole.get(&tensor.name).unwrap().as_f32());
    }
}

#[test]
fn codes_are_handed_out_with_scales_and_offsets() {
    let mut source = Cursor::new(BLOCKS);
    let mut forms = 0;
    for tensor in &read_gguf_header(&mut source).unwrap().tensors {
        let codes = read_gguf_quantised(&mut source, tensor).unwrap();
        let blocks = match tensor.storage {
            Storage::Blocks(BlockType::Q6K) | Storage::Elements(_) => {
                assert_eq!(codes, None, "{}", tensor.name);
                continue;
            }
            Storage::Blocks(blocks) => blocks,
        };
        forms += 1;
        let bytes = read_gguf_bytes(&mut source, tensor).unwrap();
        let codes = codes.unwrap();
        assert_eq!(codes.shape()[..], tensor.shape[..], "{}", tensor.name);
        let scales = match blocks {
            BlockType::Q4K | BlockType::Q5K | BlockType::Q6K => Scales::Single,
            BlockType::Q4_0 | BlockType::Q4_1 | BlockType::Q5_0 | BlockType::Q5_1 | BlockType::Q8_0 => {
                Scales::Half
            }
        };
        assert_eq!(codes.coding().scales, scales, "{}", tensor.name);
        let widened = codes.widen().unwrap();
        for (n, (ours, theirs)) in
            widened.as_f32().unwrap().iter().zip(blocks.widen(&bytes).unwrap()).enumerate()
        {
            // One rounding against two or three, of terms as large as these.
            let block = n / BLOCK;
            let size =
                codes.scales()[block].abs() * f32::from(codes.codes()[n]) + codes.offsets()[block].abs();
            assert!(
                (ours - theirs).abs() <= size * 2.0 * f32::EPSILON,
                "{} {n}: {ours} {theirs}",
                tensor.name
            );
        }
    }
    assert_eq!(forms, 7);
}

#[test]
fn counts_and_lengths_that_lie_are_refused() {
    let short = |bytes: &[u8], expected: &str| {
        let error = header(bytes).unwrap_err();
        assert!(matches!(error.cause, Cause::Short { part, .. } if part == expected), "{expected}: {error}");
    };
    let mut bytes = small_gguf();
    bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    short(&bytes, "the list of tensors");
    let mut bytes = small_gguf();
    bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    short(&bytes, "the metadata");
    let mut bytes = small_gguf();
    bytes[24..32].copy_from_slice(&(1u64 << 40).to_le_bytes());
    short(&bytes, "a key");
    let long = [&0u32.to_le_bytes()[..], &(1u64 << 40).to_le_bytes()].concat();
    short(&gguf_bytes(&[gguf_value("k", 9, &long)], &[], &[]), "an array of the metadata");
    let tensor = gguf_tensor("w", &[1 << 40], 0, 0);
    short(&gguf_bytes(&[], &[tensor], &[0; 64]), "the tensors up to it");
    let tensor = gguf_tensor("w", &[8], 0, u64::MAX - 31);
    short(&gguf_bytes(&[], &[tensor], &[0; 64]), "the tensors up to it");
}

#[test]
fn headers_that_break_the_format_are_refused() {
    let malformed = |bytes: &[u8], problem: &str| {
        let error = header(bytes).unwrap_err();
        assert!(matches!(error.cause, Cause::Malformed { .. }), "{problem}: {error}");
        assert!(error.to_string().contains(problem), "{problem}: {error}");
    };
    let with_version = |version: [u8; 4]| {
        let mut bytes = small_gguf();
        bytes[4..8].copy_from_slice(&version);
        bytes
    };
    malformed(&with_version([0, 0, 0, 3]), "it is big-endian");
    malformed(&with_version([1, 0, 0, 0]), "version 1 is not known");
    malformed(&with_version([9, 0, 0, 0]), "version 9 is not known");
    assert!(decode(&with_version([2, 0, 0, 0])).is_ok(), "version 2 differs in byte order only");

    let values = |values: &[Vec<u8>]| gguf_bytes(values, &[], &[]);
    malformed(&values(&[gguf_value("k", 13, &[0])]), "no value has type 13");
    malformed(&values(&[gguf_value("k", 7, &[2])]), "a boolean is the byte 2");
    malformed(&values(&[gguf_value("k", 0, &[1]), gguf_value("k", 0, &[1])]), "key `k` twice");
    let text = [&1u64.to_le_bytes()[..], &[0xff]].concat();
    malformed(&values(&[gguf_value("k", 8, &text)]), "a text is not UTF-8");
    // Arrays of one array each, as deep as a recursive reader has no stack for.
    let nested = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat().repeat(100_000);
    malformed(&values(&[gguf_value("k", 9, &nested)]), "arrays nest deeper than 4");
    for (kind, alignment) in [(4, &[0u8, 0, 0, 0][..]), (4, &[7, 0, 0, 0]), (5, &[0xff; 4]), (6, &[0; 4])] {
        let value = gguf_value("general.alignment", kind, alignment);
        malformed(&values(&[value]), "not a multiple of 8");
    }

    let tensors = |tensors: &[Vec<u8>]| gguf_bytes(&[], tensors, &[0; 256]);
    malformed(&tensors(&[gguf_tensor("w", &[1; 5], 0, 0)]), "5 axes");
    malformed(&tensors(&[gguf_tensor("w", &[33, 32], 8, 0)]), "rows of 33 elements in blocks of 32");
    malformed(&tensors(&[gguf_tensor("w", &[], 8, 0)]), "rows of 1 elements in blocks of 32");
    malformed(&tensors(&[gguf_tensor("w", &[8], 0, 8)]), "8 is not a multiple of the alignment 32");
    let overlapping = [gguf_tensor("b", &[8], 0, 32), gguf_tensor("a", &[9], 0, 0)];
    let error = header(&tensors(&overlapping)).unwrap_err().to_string();
    assert_eq!(error, "array `b`: has a malformed offset: its bytes overlap those of `a`");
}

#[test]
fn tensors_that_cannot_be_read_are_named() {
    let cause = |tensor: Vec<u8>| decode(&gguf_bytes(&[], &[tensor], &[0; 256])).unwrap_err();
    let error = cause(gguf_tensor("w", &[256], 11, 0)).to_string();
    assert_eq!(
        error,
        "array `w`: has elements of type Q3_K, which are not read from gguf files; convert them to float32 first"
    );
    let error = cause(gguf_tensor("w", &[256], 1000, 0)).to_string();
    assert!(error.contains("of type number 1000"), "{error}");
    for extents in [&[1 << 32, 1 << 32, 1 << 32][..], &[0, u64::MAX, u64::MAX], &[u64::MAX]] {
        let error = cause(gguf_tensor("w", extents, 0, 0));
        assert!(matches!(error.cause, Cause::Array(ArrayError::TooLarge { .. })), "{extents:?}: {error}");
    }
    let twice = [gguf_tensor("w", &[1], 0, 0), gguf_tensor("w", &[1], 0, 32)];
    let error = decode(&gguf_bytes(&[], &twice, &[0; 64])).unwrap_err();
    assert_eq!(error.to_string(), "array `w`: is there twice");
    // A name that would be split wrongly if lengths were characters.
    let arrays = decode(&gguf_bytes(&[], &[gguf_tensor("größe", &[1], 0, 0)], &[0; 4])).unwrap();
    assert_eq!(arrays.names().collect::<Vec<_>>(), ["größe"]);
    assert_eq!(gguf_text("größe").len(), 8 + 7);
}
