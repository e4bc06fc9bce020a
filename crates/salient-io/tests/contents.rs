//! Listing a file says of its arrays what reading them shows.

mod common;

use std::io::Cursor;

use common::{sample_arrays, scratch, small_gguf};
use salient_io::{
    Contents, Format, GgufValue, Storage, Stored, decode_contents, read_arrays, read_contents, write_npy,
    write_npz, write_safetensors,
};

/// The listing of a file, compared with its arrays: names, shapes, sizes. Returned for what is particular to the format.
fn listed(path: &std::path::Path, format: Format) -> Contents {
    let (contents, arrays) = (read_contents(path).unwrap(), read_arrays(path).unwrap());
    assert_eq!(contents.format, format);
    let names: Vec<&str> = contents.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, arrays.names().collect::<Vec<_>>());
    for (entry, (_, array)) in contents.entries.iter().zip(arrays.iter()) {
        assert_eq!(entry.shape, array.shape(), "{}", entry.name);
        assert_eq!(entry.bytes, array.size_in_bytes() as u64, "{}", entry.name);
        assert_eq!(entry.storage.to_string(), array.dtype().name(), "{}", entry.name);
    }
    contents
}

#[test]
fn every_format_lists_what_it_holds() {
    let path = scratch("listed.npz");
    write_npz(&path, &sample_arrays(false)).unwrap();
    listed(&path, Format::Npz);

    let path = scratch("listed.safetensors");
    write_safetensors(&path, &sample_arrays(true)).unwrap();
    let contents = listed(&path, Format::Safetensors);
    assert_eq!(contents.bytes(), 6 * 4 + 2 * 2 + 2 * 2 + 3 * 8 + 4 + 4);

    let path = scratch("listed.npy");
    write_npy(&path, sample_arrays(false).get("x").unwrap()).unwrap();
    assert_eq!(listed(&path, Format::Npy).entries[0].name, "listed");

    let path = scratch("listed.gguf");
    std::fs::write(&path, small_gguf()).unwrap();
    let contents = read_contents(&path).unwrap();
    let arrays = read_arrays(&path).unwrap();
    assert_eq!(contents.entries.len(), arrays.len());
}

#[test]
fn shards_are_listed_as_one_checkpoint() {
    let folder = scratch("listed_shards");
    std::fs::create_dir_all(&folder).unwrap();
    write_safetensors(folder.join("one.safetensors"), &sample_arrays(true)).unwrap();
    let map: Vec<String> =
        sample_arrays(true).names().map(|n| format!("\"{n}\": \"one.safetensors\"")).collect();
    let path = folder.join("model.safetensors.index.json");
    std::fs::write(&path, format!("{{\"weight_map\": {{{}}}}}", map.join(","))).unwrap();
    listed(&path, Format::Safetensors);

    std::fs::write(&path, "{\"weight_map\": {\"x\": \"one.safetensors\"}}").unwrap();
    let error = read_contents(&path).unwrap_err().to_string();
    assert!(error.ends_with("is in `one.safetensors`, where the index does not place it"), "{error}");
}

#[test]
fn metadata_and_storage_are_listed_as_they_are() {
    let text = "{\"__metadata__\":{\"b\":\"2\",\"a\":\"1\"},\"w\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]}}";
    let bytes = common::safetensors_bytes(text, &[0, 0]);
    let contents = decode_contents(Cursor::new(bytes), "").unwrap();
    let texts = [("a", "1"), ("b", "2")].map(|(k, v)| (k.to_owned(), GgufValue::Text(v.to_owned())));
    assert_eq!(contents.metadata, texts);
    assert_eq!(contents.entries[0].storage, Storage::Elements(Stored::BF16));

    let blocks = std::fs::read(format!("{}/tests/data/blocks.gguf", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let contents = decode_contents(Cursor::new(blocks), "").unwrap();
    let of = |name: &str| contents.entries.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!((of("Q6_K").storage.to_string().as_str(), of("Q6_K").bytes), ("Q6_K", 4 * 210));
}
