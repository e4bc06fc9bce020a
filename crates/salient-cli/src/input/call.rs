//! The arrays of a call that is made to look at a model: from files, from a text, or drawn.

use crate::input::arrays::{CallArrays, Sources};
use crate::input::drawn::{self, Drawing};
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{Array, Arrays, Bindings, DType, Graph, Weights, listed};
use salient_text::Tokenizer;
use std::path::{Path, PathBuf};

/// Where the arrays of a call are from.
#[derive(clap::Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    arrays: Sources,
    /// A text for the input `ids`, through the tokenizer; its tokens are the labels
    #[arg(long, value_name = "TEXT", requires = "tokenizer")]
    text: Option<String>,
    /// A tokenizer.json, or a .gguf file
    #[arg(long, value_name = "FILE", requires = "text")]
    tokenizer: Option<PathBuf>,
    #[command(flatten)]
    drawing: Drawing,
}

/// The arrays of a call.
pub(crate) struct Given {
    pub(crate) arrays: CallArrays,
    /// The tokens of a text.
    pub(crate) tokens: Option<Vec<String>>,
    /// Parameters that nothing gives are drawn with this seed.
    seed: Option<u64>,
}

impl Given {
    /// The parameters.
    pub(crate) fn weights(&self) -> Weights<'_> {
        let weights = Weights::from(&self.arrays.weights);
        match self.seed {
            Some(seed) => weights.or_seeded(seed),
            None => weights,
        }
    }
}

impl CallArgs {
    /// The arrays for a graph; of dimensions that nothing gives the lengths where inputs are drawn are the usual ones, if they are there.
    pub(crate) fn given(&self, graph: &Graph, usual: &Bindings) -> Outcome<Given> {
        let mut arrays = self.arrays.read_one(graph)?;
        let tokens = match (&self.text, &self.tokenizer) {
            (Some(text), Some(path)) => {
                arrays.weights = without_others(std::mem::take(&mut arrays.weights))?;
                Some(give_text(graph, &mut arrays.inputs, text, path)?)
            }
            (None, _) | (_, None) => None,
        };
        if let Some(seed) = self.drawing.random {
            drawn::fill(graph, &mut arrays, (seed, &self.drawing.draw), usual)?;
        }
        Ok(Given { arrays, tokens, seed: self.drawing.seed() })
    }

    /// As [`given`](CallArgs::given), where everything is drawn that nothing gives.
    pub(crate) fn given_or_drawn(&self, graph: &Graph, usual: &Bindings) -> Outcome<Given> {
        let mut given = self.given(graph, usual)?;
        if self.drawing.random.is_none() {
            drawn::fill(graph, &mut given.arrays, (SEED, &self.drawing.draw), usual)?;
        }
        given.seed = given.seed.or(Some(SEED));
        Ok(given)
    }

    /// Where the elements are from, in words.
    pub(crate) fn words(&self) -> String {
        match (&self.text, self.arrays.is_empty()) {
            (Some(text), _) => format!("run on the text “{text}”"),
            (None, false) => "run on the arrays of files".to_owned(),
            (None, true) => "run on arrays that were drawn at random".to_owned(),
        }
    }
}

/// The seed of what is drawn where none is given.
const SEED: u64 = 1;

/// The parameters of a checkpoint that the model has; the others are named in a note.
pub(crate) fn without_others(weights: Arrays) -> Outcome<Arrays> {
    let (entries, others) = weights.into_parts();
    if !others.is_empty() {
        let names = listed(others.iter().map(String::as_str));
        terminal::note(&format!("note: of the checkpoint the model does not use {names}\n"));
    }
    let mut used = Arrays::new();
    entries.into_iter().try_for_each(|(name, array, stored)| used.insert_stored(name, array, stored))?;
    Ok(used)
}

/// Gives a text to the input `ids`, and to `keep` that none of it is padding; its tokens.
fn give_text(graph: &Graph, inputs: &mut Arrays, text: &str, tokenizer: &Path) -> Outcome<Vec<String>> {
    let tokenizer = Tokenizer::read(tokenizer)?;
    let ids = tokenizer.encode(text)?.ids;
    let port = |name: &str| graph.inputs().iter().find(|port| *port.name == *name);
    let shape = |rank: usize| match rank {
        1 => Ok(vec![ids.len()]),
        2 => Ok(vec![1, ids.len()]),
        _ => Err(Failure::call("the input `ids` has neither one axis nor two")),
    };
    let Some(of_ids) = port("ids").filter(|port| port.dtype == DType::I64) else {
        return Err(Failure::call(format!(
            "the model `{}` has no input `ids: i64[B, T]` for a text",
            graph.name()
        )));
    };
    let numbers = ids.iter().map(|id| i64::from(*id)).collect();
    inputs.insert("ids", array(Array::from_i64(shape(of_ids.axes.len())?, numbers))?)?;
    if let Some(keep) = port("keep").filter(|port| port.dtype == DType::Bool) {
        inputs.insert("keep", array(Array::from_bool(shape(keep.axes.len())?, vec![true; ids.len()]))?)?;
    }
    ids.iter().map(|id| Ok(tokenizer.decode(&[*id])?)).collect()
}

fn array<E: std::fmt::Display>(made: Result<Array, E>) -> Outcome<Array> {
    made.map_err(|why| Failure::call(why.to_string()))
}
