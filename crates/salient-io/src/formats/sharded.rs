//! Checkpoints of several safetensors files with an index: `NAME.safetensors.index.json`.
//!
//! The index is an object of JSON whose `weight_map` names, for every tensor, the file beside it that holds it. Index and
//! files must agree: a tensor that is not where the index says, or that the index does not know, is an error.
//! Files of other folders are not followed, and no index is read because another one names it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};
use std::path::{Component, Path};

use salient_ir::array::Array;

use crate::arrays::Arrays;
use crate::elements::Stored;
use crate::error::{Cause, IoError};
use crate::formats::safetensors::{self, MAX_HEADER};
use crate::source::{length_of, next_bytes, read_file, without_mark};

/// What the name of an index ends with.
const SUFFIX: &str = ".safetensors.index.json";

/// Whether a file is an index, by its name: its content is JSON like any other.
pub(crate) fn is_index(path: &Path) -> bool {
    path.to_string_lossy().ends_with(SUFFIX)
}

/// Reads every tensor of a checkpoint from the path of its index: shard by shard, in the order of their names.
///
/// # Errors
/// The index or a shard cannot be read or is malformed, or they disagree.
pub fn read_sharded_safetensors(path: impl AsRef<Path>) -> Result<Arrays, IoError> {
    read_wanted(path.as_ref(), &|_| true)
}

/// Reads those tensors of a checkpoint that are wanted, by name; the others are named as passed over.
pub(crate) fn read_wanted(path: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Arrays, IoError> {
    type Found = (String, Option<(Array, Stored)>);
    let of_shard = |shard: &Path| -> Result<Vec<Found>, IoError> {
        let arrays = read_file(shard, |source| safetensors::decode_wanted(source, wanted))?;
        let (entries, others) = arrays.into_parts();
        let entries = entries.into_iter().map(|(name, array, stored)| (name, Some((array, stored))));
        Ok(entries.chain(others.into_iter().map(|name| (name, None))).collect())
    };
    let mut arrays = Arrays::new();
    for (name, found) in read_shards(path, of_shard, |(name, _)| name)? {
        match found {
            Some((array, stored)) => arrays.insert_stored(name, array, stored),
            None => arrays.pass_over(name),
        }
        .map_err(|error| error.in_file(path))?;
    }
    Ok(arrays)
}

/// What `read` finds in every shard of an index, in the order of the shards' names, each where the index places it.
pub(crate) fn read_shards<T>(
    path: &Path,
    read: impl Fn(&Path) -> Result<Vec<T>, IoError>,
    name: impl Fn(&T) -> &String,
) -> Result<Vec<T>, IoError> {
    let index = read_file(path, |source| read_index(source).map_err(IoError::from))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let shards: BTreeSet<&str> = index.values().map(String::as_str).collect();
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for shard in shards {
        for tensor in read(&folder.join(shard))? {
            let name = name(&tensor);
            if index.get(name).is_none_or(|place| place != shard) {
                let cause = Cause::Unlisted { shard: shard.to_owned() };
                return Err(cause.in_array(name.clone()).in_file(path));
            }
            names.insert(name.clone());
            found.push(tensor);
        }
    }
    for (name, shard) in &index {
        if !names.contains(name) {
            return Err(Cause::Missing { shard: shard.clone() }.in_array(name).in_file(path));
        }
    }
    Ok(found)
}

/// The tensors of an index and the names of their files.
fn read_index(mut source: impl Read + Seek) -> Result<BTreeMap<String, String>, Cause> {
    let malformed = |problem: String| Cause::malformed("index", problem);
    let length = length_of(&mut source)?;
    if length > MAX_HEADER {
        return Err(malformed(format!("{length} bytes long, at most {MAX_HEADER} are read")));
    }
    let text = next_bytes(&mut source, length)?;
    let index: serde_json::Value =
        serde_json::from_slice(without_mark(&text)).map_err(|error| malformed(error.to_string()))?;
    let map = index
        .get("weight_map")
        .and_then(serde_json::Value::as_object)
        .ok_or_else(|| malformed("it has no object `weight_map`".to_owned()))?;
    map.iter()
        .map(|(name, shard)| {
            let shard = shard.as_str().filter(|shard| is_plain_name(shard));
            let shard = shard.ok_or_else(|| malformed(format!("`{name}` is in no file of this folder")))?;
            if is_index(Path::new(shard)) {
                return Err(malformed(format!("it places `{name}` in `{shard}`, which is an index")));
            }
            Ok((name.clone(), shard.to_owned()))
        })
        .collect()
}

/// Whether a path is the name of a file and nothing else, so that it cannot lead out of its folder.
fn is_plain_name(path: &str) -> bool {
    let mut components = Path::new(path).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(name)), None) if name == path)
        && !path.contains('\\')
}
