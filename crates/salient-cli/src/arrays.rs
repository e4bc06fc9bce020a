//! The arrays of a call: from files named by flags to inputs, weights and expectations.
//!
//! Only gathers, and says who gives an array twice; whether arrays fit the model is the library's business.

use crate::failure::{Failure, Outcome};
use crate::options::pair;
use clap::Args;
use salient::{Array, Arrays, read_arrays, read_data, read_npy};
use std::path::{Path, PathBuf};

/// Where arrays come from.
#[derive(Args, Debug)]
pub(crate) struct Sources {
    /// An input from a .npy file; may be given several times
    #[arg(long, value_name = "NAME=FILE", value_parser = pair)]
    input: Vec<(String, String)>,
    /// Inputs by name from a .npz file
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
    /// Parameters by path from a .npz or .safetensors file
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Inputs, parameters and expected outputs from one file, named in.NAME, param.PATH and out.NAME; given several
    /// times, the model runs once on each, of whatever shapes
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// Compare the outputs with the out.NAME arrays of the data files
    #[arg(long, requires = "data")]
    check: bool,
    /// Compare the outputs with the arrays of a .npz file
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
}

/// The arrays of a call.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// By name.
    pub(crate) inputs: Arrays,
    /// By path.
    pub(crate) weights: Arrays,
    /// By name of the output; none if nothing is to be compared.
    pub(crate) expected: Option<Arrays>,
}

impl Sources {
    /// Reads every file: the arrays of one run, or of a run for each data file.
    pub(crate) fn read(&self) -> Outcome<Vec<Given>> {
        if self.data.is_empty() {
            return Ok(vec![self.read_with(None)?]);
        }
        self.data.iter().map(|path| self.read_with(Some(path.as_path()))).collect()
    }

    /// Reads every file: the arrays of the one run that a command makes.
    pub(crate) fn read_one(&self) -> Outcome<Given> {
        match self.data.as_slice() {
            [] | [_] => self.read_with(self.data.first().map(PathBuf::as_path)),
            [..] => Err(Failure::call("--data is given more than once")),
        }
    }

    fn read_with(&self, data: Option<&Path>) -> Outcome<Given> {
        let mut given = Given::default();
        if let Some(path) = data {
            let data = read_data(path)?;
            given.inputs = data.inputs;
            given.weights = data.params;
            if self.check {
                if data.outputs.is_empty() {
                    let path = path.display();
                    return Err(Failure::call(format!("{path}: has no out.NAME array to check against")));
                }
                given.expected = Some(data.outputs);
            }
        }
        if let Some(path) = &self.inputs {
            add_all(&mut given.inputs, read_arrays(path)?, "input")?;
        }
        for (name, path) in &self.input {
            add(&mut given.inputs, name, read_npy(path)?, "input")?;
        }
        if let Some(path) = &self.weights {
            add_all(&mut given.weights, read_arrays(path)?, "parameter")?;
        }
        if let Some(path) = &self.expect {
            let expected = given.expected.get_or_insert_default();
            add_all(expected, read_arrays(path)?, "expected output")?;
        }
        Ok(given)
    }
}

fn add_all(arrays: &mut Arrays, more: Arrays, what: &str) -> Outcome {
    more.into_iter().try_for_each(|(name, array)| add(arrays, &name, array, what))
}

fn add(arrays: &mut Arrays, name: &str, array: Array, what: &str) -> Outcome {
    if arrays.get(name).is_some() {
        return Err(Failure::call(format!("{what} `{name}` is given twice")));
    }
    Ok(arrays.insert(name, array)?)
}
