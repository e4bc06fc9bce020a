//! The weights and the tokenizer of a published model, for commands that take texts.
//!
//! A checkpoint may hold more than a model uses (a pooler, a head for training): what is left over is named in a note and
//! passed over, but only where nothing is missing, since a tensor left over may then be one that is misspelt.

use crate::failure::{Failure, Outcome};
use crate::terminal;
use clap::Args;
use salient::{Arrays, Graph, read_arrays};
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
}

impl Checkpoint {
    /// Reads the tokenizer.
    pub(crate) fn tokenizer(&self) -> Outcome<Tokenizer> {
        if self.tokenizer.is_none() && self.weights.extension().is_none_or(|e| e != "gguf") {
            return Err(Failure::call("the weights hold no tokenizer: name one with --tokenizer"));
        }
        Ok(Tokenizer::read(self.tokenizer.as_ref().unwrap_or(&self.weights))?)
    }

    /// Reads the parameters of a model.
    pub(crate) fn weights(&self, graph: &Graph) -> Outcome<Arrays> {
        let mut all = Arrays::new();
        for (name, array) in read_arrays(&self.weights)? {
            let path = name.strip_prefix(&self.prefix).map_or_else(|| name.clone(), str::to_owned);
            all.insert(path, array)?;
        }
        let is_param = |name: &str| graph.params().iter().any(|p| &*p.name == name);
        if graph.params().iter().any(|p| all.get(&p.name).is_none()) {
            return Ok(all);
        }
        let left: Vec<String> = all.names().filter(|n| !is_param(n)).map(str::to_owned).collect();
        if left.is_empty() {
            return Ok(all);
        }
        /// Names that are shown.
        const SHOWN: usize = 6;
        let names: Vec<String> = left.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
        let more = if left.len() > SHOWN { ", …" } else { "" };
        let tensors = if left.len() == 1 { "tensor is" } else { "tensors are" };
        terminal::note(&format!(
            "note: {} {tensors} not used by the model: {}{more}\n",
            left.len(),
            names.join(", ")
        ));
        let mut used = Arrays::new();
        for (name, array) in all.into_iter().filter(|(name, _)| is_param(name)) {
            used.insert(name, array)?;
        }
        Ok(used)
    }
}

/// The lines of a file, or of standard input for `-`.
pub(crate) fn lines(path: &std::path::Path) -> Outcome<Vec<String>> {
    Ok(text(path)?.lines().map(str::to_owned).collect())
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn text(path: &std::path::Path) -> Outcome<String> {
    let read = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|e| Failure::call(format!("{}: cannot be read: {e}", path.display())))
}
