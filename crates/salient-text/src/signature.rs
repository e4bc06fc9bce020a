//! The signatures of models that texts go through: which input takes ids, which output is read.
//!
//! Checks types and names alone; sizes are found out when the model runs.

use crate::error::TextError;
use salient::{DType, Graph, Port};

/// The name of the input that takes ids: `ids: i64[B, T]`.
pub(crate) const IDS: &str = "ids";

/// The name of the input that says which ids are no padding: `keep: bool[B, T]`.
pub(crate) const KEEP: &str = "keep";

/// The name of an encoder's input that takes ids: `src: i64[B, S]`.
pub(crate) const SRC: &str = "src";

/// The name of a decoder's input that takes ids: `tgt: i64[B, T]`.
pub(crate) const TGT: &str = "tgt";

/// The name of what an encoder gives and a decoder takes: `memory: f32[B, S, D]`.
pub(crate) const MEMORY: &str = "memory";

/// Whether the model has the input `tokens: i64[B, T]` and no inputs but that and those in `others`.
pub(crate) fn check_inputs(graph: &Graph, tokens: &str, others: &[&str]) -> Result<(), TextError> {
    let name = graph.name();
    let unknown = graph.inputs().iter().find(|p| &*p.name != tokens && !others.contains(&&*p.name));
    if let Some(port) = unknown {
        let known: Vec<String> = std::iter::once(&tokens).chain(others).map(|n| format!("`{n}`")).collect();
        return Err(TextError::Signature(format!(
            "the model `{name}` has the input `{}`, which text has no value for; inputs of text are {}",
            port.name,
            known.join(" and ")
        )));
    }
    let is_matrix = |port: &Port, dtype: DType| port.dtype == dtype && port.axes.len() == 2;
    match graph.inputs().iter().find(|p| &*p.name == tokens) {
        Some(port) if is_matrix(port, DType::I64) => {}
        Some(_) | None => {
            return Err(TextError::Signature(format!(
                "the model `{name}` has no input `{tokens}: i64[B, T]` for tokens"
            )));
        }
    }
    match graph.inputs().iter().find(|p| &*p.name == KEEP) {
        Some(port) if !is_matrix(port, DType::Bool) => {
            Err(TextError::Signature(format!("the input `{KEEP}` of the model `{name}` is not bool[B, T]")))
        }
        Some(_) | None => Ok(()),
    }
}

/// The name of the output `name`, or of the only one: f32, with one of these numbers of axes. States are no outputs here.
pub(crate) fn output(graph: &Graph, name: &str, ranks: &[usize], wanted: &str) -> Result<String, TextError> {
    let is_state = |at: usize| graph.states().iter().any(|s| s.output == at);
    let own = graph.outputs().iter().enumerate().filter(|(at, _)| !is_state(*at)).map(|(_, o)| o);
    let own: Vec<_> = own.collect();
    let found =
        own.iter().find(|o| &*o.name == name).or(if let [one] = own.as_slice() { Some(one) } else { None });
    let fits = found.filter(|o| o.dtype == DType::F32 && ranks.contains(&o.axes.len()));
    fits.map(|o| o.name.to_string()).ok_or_else(|| {
        TextError::Signature(format!("the model `{}` has no output `{name}: {wanted}`", graph.name()))
    })
}
