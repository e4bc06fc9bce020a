//! Checkpoints in shards: read whole, and refused where index and shards disagree.

mod common;

use std::path::{Path, PathBuf};

use common::{assert_same, scratch};
use salient_io::{Arrays, Cause, IoError, read_arrays, read_contents, write_safetensors};
use salient_ir::array::Array;

/// A folder of its own with two shards (`a`, `b` in the first, `c` in the second) and this index.
fn checkpoint(folder: &str, index: &str) -> PathBuf {
    let folder = scratch(folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (shard, names) in [("one.safetensors", &["a", "b"][..]), ("two.safetensors", &["c"])] {
        let mut arrays = Arrays::new();
        for name in names {
            arrays.insert(*name, tensor(name)).unwrap();
        }
        write_safetensors(folder.join(shard), &arrays).unwrap();
    }
    let path = folder.join("model.safetensors.index.json");
    std::fs::write(&path, index).unwrap();
    path
}

fn tensor(name: &str) -> Array {
    Array::from_f32(vec![2], vec![f32::from(name.as_bytes()[0]), -1.0]).unwrap()
}

const INDEX: &str = r#"{"metadata": {"total_size": 24},
    "weight_map": {"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"}}"#;

#[test]
fn shards_are_read_as_one_checkpoint() {
    let path = checkpoint("shards_whole", INDEX);
    let mut expected = Arrays::new();
    for name in ["a", "b", "c"] {
        expected.insert(name, tensor(name)).unwrap();
    }
    assert_same(&read_arrays(&path).unwrap(), &expected);
}

fn refused(folder: &str, index: &str) -> (PathBuf, IoError) {
    let path = checkpoint(folder, index);
    let error = read_arrays(&path).unwrap_err();
    (path, error)
}

#[test]
fn disagreement_is_named() {
    let (path, error) =
        refused("shards_missing", &INDEX.replace("\"c\"", "\"d\": \"one.safetensors\", \"c\""));
    assert!(matches!(error.cause, Cause::Missing { .. }));
    let expected = "array `d`: is not in `one.safetensors`, where the index places it";
    assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));

    let (_, error) = refused("shards_unlisted", &INDEX.replace("\"b\": \"one.safetensors\",", ""));
    assert!(matches!(error.cause, Cause::Unlisted { .. }));
    assert_eq!(error.array.as_deref(), Some("b"));

    let (_, error) = refused("shards_swapped", &INDEX.replace("\"b\": \"one", "\"b\": \"two"));
    assert!(matches!(error.cause, Cause::Unlisted { .. }), "{error}");

    let (path, error) = refused("shards_absent", &INDEX.replace("two", "three"));
    assert!(matches!(error.cause, Cause::Read(_)));
    assert_eq!(error.file.as_deref(), Some(&*path.with_file_name("three.safetensors")), "the shard is named");
}

#[test]
fn malformed_indices_are_refused() {
    for (number, index) in ["", "{", "[]", "{}", "{\"weight_map\": []}"].into_iter().enumerate() {
        let (_, error) = refused(&format!("shards_malformed_{number}"), index);
        assert!(matches!(error.cause, Cause::Malformed { part: "index", .. }), "{index}: {error}");
    }
    let absolute = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one.safetensors");
    let outside =
        ["../one.safetensors", "x/../one.safetensors", "./one.safetensors", "..", "", "x\\\\one.safetensors"];
    for place in outside.into_iter().chain([absolute.to_str().unwrap()]) {
        let (_, error) = refused("shards_outside", &INDEX.replace("one.safetensors", place));
        assert!(matches!(error.cause, Cause::Malformed { part: "index", .. }), "{place}: {error}");
    }
    let (_, error) = refused("shards_number", &INDEX.replace("\"two.safetensors\"", "7"));
    assert!(error.to_string().contains("`c` is in no file of this folder"), "{error}");
}

#[test]
fn an_index_that_names_an_index_is_refused() {
    for index in ["model.safetensors.index.json", "other.safetensors.index.json"] {
        let path = checkpoint("shards_of_indices", &INDEX.replace("one.safetensors", index));
        std::fs::write(path.with_file_name("other.safetensors.index.json"), INDEX).unwrap();
        for error in [read_arrays(&path).unwrap_err(), read_contents(&path).unwrap_err()] {
            let problem = format!("it places `a` in `{index}`, which is an index");
            assert!(error.to_string().ends_with(&problem), "{error}");
        }
    }
    // By a link, an index is no file of tensors.
    let path = checkpoint("shards_of_links", &INDEX.replace("two.safetensors", "link"));
    let link = path.with_file_name("link");
    drop(std::fs::remove_file(&link));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for error in [read_arrays(&path).unwrap_err(), read_contents(&path).unwrap_err()] {
        assert_eq!(error.file.as_deref(), Some(link.as_path()), "{error}");
    }
}

#[test]
fn an_index_may_begin_with_a_byte_order_mark() {
    let path = checkpoint("shards_marked", &format!("\u{feff}{INDEX}"));
    assert_eq!(read_arrays(&path).unwrap().len(), 3);
}
