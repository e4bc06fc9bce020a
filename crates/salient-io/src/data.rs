//! Data files: one archive with the inputs, parameters and expected outputs of a model.
//!
//! The prefix of a name says which it is: `in.NAME`, `param.PATH`, `out.NAME`. Nothing is compared here.

use std::path::Path;

use crate::arrays::Arrays;
use crate::error::{Cause, IoError};
use crate::read::read_wanted;

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

/// Which of the groups an array of a data file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Inputs.
    Input,
    /// Parameters.
    Param,
    /// Expected outputs.
    Output,
}

/// The groups, in the order of [`PREFIXES`].
const GROUPS: [Group; 3] = [Group::Input, Group::Param, Group::Output];

/// The group of an array, and its name there.
fn group_of(name: &str) -> Option<(Group, &str)> {
    PREFIXES.iter().zip(GROUPS).find_map(|(prefix, group)| {
        name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|rest| (group, rest))
    })
}

/// Reads a data file of any format that names its arrays.
///
/// # Errors
/// As [`read_arrays`](crate::read_arrays) and [`split_data`].
pub fn read_data(path: impl AsRef<Path>) -> Result<DataFile, IoError> {
    read_wanted_data(path, &|_, _| true)
}

/// Reads those arrays of a data file that are wanted, by group and name there; the others are named as passed over.
///
/// # Errors
/// As [`read_data`].
pub fn read_wanted_data(
    path: impl AsRef<Path>,
    wanted: &dyn Fn(Group, &str) -> bool,
) -> Result<DataFile, IoError> {
    let path = path.as_ref();
    let named = |name: &str| group_of(name).is_some_and(|(group, name)| wanted(group, name));
    read_wanted(path, &named).and_then(split_data).map_err(|error| error.in_file(path))
}

/// Sorts arrays by the prefix of their names.
///
/// # Errors
/// A name has none of the prefixes, or nothing after it.
pub fn split_data(arrays: Arrays) -> Result<DataFile, IoError> {
    let mut data = DataFile::default();
    let (entries, others) = arrays.into_parts();
    for (name, array, stored) in entries {
        let (group, name) = data.group(&name)?;
        group.insert_stored(name, array, stored)?;
    }
    for name in others {
        let (group, name) = data.group(&name)?;
        group.pass_over(name)?;
    }
    Ok(data)
}

impl DataFile {
    /// Where an array belongs, by its name, and its name there.
    fn group<'n>(&mut self, name: &'n str) -> Result<(&mut Arrays, &'n str), IoError> {
        match group_of(name) {
            Some((Group::Input, name)) => Ok((&mut self.inputs, name)),
            Some((Group::Param, name)) => Ok((&mut self.params, name)),
            Some((Group::Output, name)) => Ok((&mut self.outputs, name)),
            None => Err(Cause::Prefix { known: PREFIXES.join(", ") }.in_array(name)),
        }
    }
}
