//! Data files: one archive with the inputs, parameters and expected outputs of a model.
//!
//! The prefix of a name says which it is: `in.NAME`, `param.PATH`, `out.NAME`. Nothing is compared here.

use std::path::Path;

use crate::arrays::Arrays;
use crate::error::{Cause, IoError};
use crate::read::read_arrays;

/// The prefixes, in the order of the fields of [`DataFile`].
const PREFIXES: [&str; 3] = ["in.", "param.", "out."];

/// The arrays of a data file by what they are, named without their prefix.
#[derive(Clone, Debug, Default)]
pub struct DataFile {
    /// `in.NAME`: the inputs of the model.
    pub inputs: Arrays,
    /// `param.PATH`: its parameters, under the paths a checkpoint holds them at.
    pub params: Arrays,
    /// `out.NAME`: the outputs that are expected.
    pub outputs: Arrays,
}

/// Reads a data file of any format that names its arrays.
///
/// # Errors
/// As [`read_arrays`] and [`split_data`].
pub fn read_data(path: impl AsRef<Path>) -> Result<DataFile, IoError> {
    let path = path.as_ref();
    read_arrays(path).and_then(split_data).map_err(|error| error.in_file(path))
}

/// Sorts arrays by the prefix of their names.
///
/// # Errors
/// A name has none of the prefixes, or nothing after it.
pub fn split_data(arrays: Arrays) -> Result<DataFile, IoError> {
    let mut data = DataFile::default();
    for (name, array) in arrays {
        let DataFile { inputs, params, outputs } = &mut data;
        let group = PREFIXES.iter().zip([inputs, params, outputs]).find_map(|(prefix, group)| {
            name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|rest| (group, rest))
        });
        match group {
            Some((group, rest)) => group.insert(rest, array)?,
            None => return Err(Cause::Prefix { known: PREFIXES.join(", ") }.in_array(name)),
        }
    }
    Ok(data)
}
