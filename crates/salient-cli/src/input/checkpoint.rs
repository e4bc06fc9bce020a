//! The weights and the tokenizer of a published model, for commands that take texts.
//!
//! A checkpoint may hold more than a model uses (a pooler, a head for training): what is left over is named in a note and
//! passed over, but only where nothing is missing, since a tensor left over may then be one that is misspelt.

use crate::input::arrays::{narrowed, note_narrowed};
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use clap::Args;
use salient::{Arrays, Coded, Graph, Options, Weights, read_gguf_coded, read_wanted};
use salient_text::Tokenizer;
use std::path::PathBuf;

/// Where a model's weights and its tokenizer are.
#[derive(Args, Debug)]
pub(crate) struct Checkpoint {
    /// Parameters by path from a .safetensors, .gguf or .npz file, or from the .safetensors.index.json of shards
    #[arg(long, value_name = "FILE")]
    weights: PathBuf,
    /// What the checkpoint puts before the model's paths, such as `bert.`
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// A tokenizer.json, or a .gguf file; if not given, the weights' own
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Widen weights that the file holds in blocks of few bits when they are read, which takes more memory
    #[arg(long)]
    widen: bool,
}

/// The weights of a checkpoint, under the model's paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldWeights {
    arrays: Arrays,
    coded: Coded,
}

impl HeldWeights {
    /// Options with which the model reads weights in the form that they are in.
    pub(crate) fn options(&self, options: Options) -> Options {
        options.for_coded(&self.coded)
    }

    pub(crate) fn weights(&self) -> Weights<'_> {
        Weights::from(&self.arrays).coded(&self.coded)
    }

    fn has(&self, path: &str) -> bool {
        self.arrays.get(path).is_some() || self.coded.contains_key(path)
    }
}

impl Checkpoint {
    /// Reads the tokenizer.
    pub(crate) fn tokenizer(&self) -> Outcome<Tokenizer> {
        if self.tokenizer.is_none() && self.weights.extension().is_none_or(|e| e != "gguf") {
            return Err(Failure::call("the weights hold no tokenizer: name one with --tokenizer"));
        }
        Ok(Tokenizer::read(self.tokenizer.as_ref().unwrap_or(&self.weights))?)
    }

    /// Reads the weights of these models.
    pub(crate) fn read(&self, graphs: &[&Graph]) -> Outcome<HeldWeights> {
        let path = |name: &str| name.strip_prefix(&self.prefix).unwrap_or(name).to_owned();
        let is_wanted = |name: &str| graphs.iter().any(|graph| is_param(graph, &path(name)));
        let is_gguf = self.weights.extension().is_some_and(|e| e == "gguf");
        let (arrays, coded) = if is_gguf && !self.widen {
            read_gguf_coded(&self.weights)?
        } else {
            (read_wanted(&self.weights, &is_wanted)?, Coded::new())
        };
        let arrays = arrays.renamed(|name| path(&name))?;
        note_narrowed(&narrowed("parameter", &arrays));
        let coded = coded.into_iter().map(|(name, blocks)| (path(&name), blocks)).collect();
        Ok(HeldWeights { arrays, coded })
    }
}

impl HeldWeights {
    /// The weights that a model has. Others are named in a note, unless one is missing.
    pub(crate) fn of(self, graph: &Graph) -> Outcome<HeldWeights> {
        self.note_others(&[graph]);
        self.used_by(graph)
    }

    /// Names those that none of the models has in a note, unless one is missing.
    pub(crate) fn note_others(&self, graphs: &[&Graph]) {
        /// Names that are shown.
        const SHOWN: usize = 6;
        if graphs.iter().any(|graph| !self.is_complete(graph)) {
            return;
        }
        let passed_over = self.arrays.passed_over().iter().map(String::as_str);
        let all = self.arrays.names().chain(passed_over).chain(self.coded.keys().map(String::as_str));
        let is_left = |name: &&str| !graphs.iter().any(|graph| is_param(graph, name));
        let left: Vec<String> = all.filter(is_left).map(|n| format!("`{n}`")).collect();
        if left.is_empty() {
            return;
        }
        let more = if left.len() > SHOWN { ", …" } else { "" };
        let tensors = if left.len() == 1 { "tensor is" } else { "tensors are" };
        let names = left[..left.len().min(SHOWN)].join(", ");
        terminal::note(&format!("note: {} {tensors} not used by the model: {names}{more}\n", left.len()));
    }

    /// The weights that a model has; all of them if one is missing, so that what is left over can be named beside it.
    pub(crate) fn used_by(self, graph: &Graph) -> Outcome<HeldWeights> {
        if !self.is_complete(graph) {
            return Ok(self);
        }
        let mut used = HeldWeights::default();
        let (entries, _) = self.arrays.into_parts();
        for (name, array, stored) in entries.into_iter().filter(|(name, ..)| is_param(graph, name)) {
            used.arrays.insert_stored(name, array, stored)?;
        }
        used.coded = self.coded.into_iter().filter(|(name, _)| is_param(graph, name)).collect();
        Ok(used)
    }

    fn is_complete(&self, graph: &Graph) -> bool {
        graph.params().iter().all(|p| self.has(&p.name))
    }
}

fn is_param(graph: &Graph, name: &str) -> bool {
    graph.params().iter().any(|p| &*p.name == name)
}

/// The lines of a file, or of standard input for `-`.
pub(crate) fn lines(path: &std::path::Path) -> Outcome<Vec<String>> {
    Ok(text(path)?.lines().map(str::to_owned).collect())
}

/// The most bytes of a text that a command is given.
const MOST_BYTES: u64 = 256 << 20;

/// The text of a file, or of standard input for `-`.
pub(crate) fn text(path: &std::path::Path) -> Outcome<String> {
    if path.as_os_str() != "-" {
        return Ok(salient::read_text(path, MOST_BYTES)?);
    }
    salient::decode_text(std::io::stdin(), MOST_BYTES)
        .map_err(|cause| Failure::call(format!("standard input {cause}")))
}
