//! The arrays of a call: from files named by flags to inputs, weights and expectations.
//!
//! Only gathers, and says who gives an array twice and which are narrowed; whether arrays fit the model is the library's
//! business. Of arrays that the model does not have only the names are read.

use crate::input::literal;
use crate::input::options::pair;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use clap::Args;
use salient::{Array, Arrays, Graph, Group, Port, Stored, read_stored_npy, read_wanted, read_wanted_data};
use std::path::{Path, PathBuf};

/// Where arrays come from.
#[derive(Args, Debug)]
pub(crate) struct Sources {
    /// An input from a .npy file, or spelt out, as in `x=1,2,3` and `x=[[1,2],[3,4]]`; may be given several times
    #[arg(long, value_name = "NAME=FILE|VALUES", value_parser = pair)]
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

impl Sources {
    /// Whether nothing is given.
    pub(crate) fn is_empty(&self) -> bool {
        let has_files = self.inputs.is_some() || self.weights.is_some() || !self.data.is_empty();
        self.input.is_empty() && !has_files
    }
}

/// The arrays of a call.
#[derive(Debug, Default)]
pub(crate) struct CallArrays {
    /// By name.
    pub(crate) inputs: Arrays,
    /// By path.
    pub(crate) weights: Arrays,
    /// By name of the output; none if nothing is to be compared.
    pub(crate) expected: Option<Arrays>,
}

impl CallArrays {
    /// The inputs and parameters whose file has f64 elements, which are rounded to f32 when they are read.
    pub(crate) fn narrowed(&self) -> Vec<String> {
        let of = |what: &str, arrays: &Arrays| narrowed(what, arrays);
        [of("input", &self.inputs), of("parameter", &self.weights)].concat()
    }
}

/// The arrays whose file has f64 elements, each with what it is.
pub(crate) fn narrowed(what: &str, arrays: &Arrays) -> Vec<String> {
    let narrowed = arrays.names().filter(|name| arrays.stored(name) == Some(Stored::F64));
    narrowed.map(|name| format!("{what} `{name}`")).collect()
}

/// Says in a note which tensors are narrowed.
pub(crate) fn note_narrowed(tensors: &[String]) {
    /// Names that are shown.
    const SHOWN: usize = 6;
    if !tensors.is_empty() {
        let more = if tensors.len() > SHOWN {
            format!(" and {} more", tensors.len() - SHOWN)
        } else {
            String::new()
        };
        let names = tensors[..tensors.len().min(SHOWN)].join(", ");
        terminal::note(&format!("note: the f64 elements of {names}{more} are rounded to f32\n"));
    }
}

impl Sources {
    /// Reads of every file what the model has: the arrays of one run, or of a run for each data file.
    pub(crate) fn read(&self, graph: &Graph) -> Outcome<Vec<CallArrays>> {
        let given = if self.data.is_empty() {
            vec![self.read_with(graph, None)?]
        } else {
            let each = self.data.iter().map(|path| self.read_with(graph, Some(path.as_path())));
            each.collect::<Outcome<Vec<_>>>()?
        };
        let mut narrowed: Vec<String> = given.iter().flat_map(CallArrays::narrowed).collect();
        narrowed.sort_unstable();
        narrowed.dedup();
        note_narrowed(&narrowed);
        Ok(given)
    }

    /// As [`Sources::read`], of the one run that a command makes.
    pub(crate) fn read_one(&self, graph: &Graph) -> Outcome<CallArrays> {
        match self.data.as_slice() {
            [] | [_] => Ok(self.read(graph)?.swap_remove(0)),
            [..] => Err(Failure::call("--data is given more than once")),
        }
    }

    fn read_with(&self, graph: &Graph, data: Option<&Path>) -> Outcome<CallArrays> {
        let is_port = |ports: &[Port], name: &str| ports.iter().any(|port| *port.name == *name);
        let is_input = |name: &str| is_port(graph.inputs(), name);
        let is_param = |name: &str| is_port(graph.params(), name);
        let is_output = |name: &str| graph.outputs().iter().any(|output| *output.name == *name);
        let mut given = CallArrays::default();
        if let Some(path) = data {
            let data = read_wanted_data(path, &|group, name| match group {
                Group::Input => is_input(name),
                Group::Param => is_param(name),
                Group::Output => self.check && is_output(name),
            })?;
            given.inputs = data.inputs;
            given.weights = data.params;
            if self.check {
                if data.outputs.is_empty() && data.outputs.passed_over().is_empty() {
                    let path = path.display();
                    return Err(Failure::call(format!("{path}: has no out.NAME array to check against")));
                }
                given.expected = Some(data.outputs);
            }
        }
        if let Some(path) = &self.inputs {
            add_all(&mut given.inputs, read_wanted(path, &is_input)?, "input")?;
        }
        for (name, path) in &self.input {
            match graph.inputs().iter().find(|port| *port.name == **name && is_spelt_out(path)) {
                Some(port) => {
                    let array = literal::array(path, port.dtype);
                    let array = array.map_err(|why| Failure::call(format!("the input `{name}`: {why}")))?;
                    add_new(&given.inputs, name, "input")?;
                    given.inputs.insert(name.clone(), array)?;
                }
                None => {
                    let (array, stored) = read_stored_npy(path)?;
                    add(&mut given.inputs, (name.clone(), array, stored), "input")?;
                }
            }
        }
        if let Some(path) = &self.weights {
            add_all(&mut given.weights, read_wanted(path, &is_param)?, "parameter")?;
        }
        if let Some(path) = &self.expect {
            let expected = given.expected.get_or_insert_default();
            add_all(expected, read_wanted(path, &is_output)?, "expected output")?;
        }
        Ok(given)
    }
}

fn add_all(arrays: &mut Arrays, more: Arrays, what: &str) -> Outcome {
    let (entries, others) = more.into_parts();
    entries.into_iter().try_for_each(|entry| add(arrays, entry, what))?;
    for name in others {
        // One that nobody knows is reported once, however many files have it.
        if !arrays.passed_over().contains(&name) {
            arrays.pass_over(name)?;
        }
    }
    Ok(())
}

/// Whether a value is an array that is spelt out, and no file.
fn is_spelt_out(value: &str) -> bool {
    literal::is_literal(value) && !Path::new(value).exists()
}

/// Refuses what is there already.
fn add_new(arrays: &Arrays, name: &str, what: &str) -> Outcome {
    match arrays.get(name) {
        Some(_) => Err(Failure::call(format!("{what} `{name}` is given twice"))),
        None => Ok(()),
    }
}

fn add(arrays: &mut Arrays, (name, array, stored): (String, Array, Stored), what: &str) -> Outcome {
    add_new(arrays, &name, what)?;
    Ok(arrays.insert_stored(name, array, stored)?)
}
