//! Texts to vectors, in batches of texts of about one length.
//!
//! A model for this has the inputs `ids: i64[B, T]` and, unless all texts are of one length, `keep: bool[B, T]` (false at
//! padding), and the output `embedding: f32[B, D]`.

use crate::error::TextError;
use crate::signature::{IDS, KEEP, check_inputs, output};
use salient::{Array, Arrays, Graph, Model, Session, Weights};

/// A model that makes vectors of token ids, bound to its weights.
#[derive(Debug)]
pub struct Embedder<'a> {
    session: Session<'a>,
    has_keep: bool,
    /// The name of the output that is read.
    output: String,
}

impl<'a> Embedder<'a> {
    /// Checks the model's signature and binds the weights.
    ///
    /// # Errors
    /// [`TextError::Signature`] if the signature is another; the weights do not fit.
    pub fn new(model: &'a Model, weights: Weights<'a>) -> Result<Embedder<'a>, TextError> {
        let graph = model.graph();
        let output = signature(graph)?;
        let has_keep = graph.inputs().iter().any(|p| &*p.name == KEEP);
        let session = model.session(&inputs(&[&[0]], 1, has_keep)?, weights)?;
        Ok(Embedder { session, has_keep, output })
    }

    /// Checks a model's signature alone.
    ///
    /// # Errors
    /// [`TextError::Signature`] if the signature is another.
    pub fn check(graph: &Graph) -> Result<(), TextError> {
        signature(graph).map(drop)
    }

    /// A vector for each text, f32[N, D] in the texts' order. Batches hold at most `batch` texts (at least one), the longest
    /// first, padded with zeros to the longest of the batch; `progress` is called with how many texts are done.
    ///
    /// # Errors
    /// A text has no tokens, or the model refuses the call.
    pub fn embed(
        &mut self,
        texts: &[Vec<u32>],
        batch: usize,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Array, TextError> {
        if let Some(at) = texts.iter().position(Vec::is_empty) {
            return Err(TextError::Text(format!("text {} has no tokens", at + 1)));
        }
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|at| (std::cmp::Reverse(texts[*at].len()), *at));
        let mut rows: Vec<Vec<f32>> = vec![Vec::new(); texts.len()];
        let mut done = 0;
        while done < order.len() {
            let length = texts[order[done]].len();
            let most = order.len().min(done + batch.max(1));
            // Where the model cannot leave padding out, texts of other lengths wait for a batch of their own.
            let ends = |at: &usize| !self.has_keep && texts[order[*at]].len() != length;
            let end = (done..most).find(ends).unwrap_or(most);
            let members = &order[done..end];
            let batch: Vec<&[u32]> = members.iter().map(|at| texts[*at].as_slice()).collect();
            let outputs = self.session.step(&inputs(&batch, length, self.has_keep)?)?;
            let vectors = outputs.get(&self.output).expect("the model has that output");
            let values = vectors.as_f32().expect("its dtype was checked");
            let width = values.len() / members.len();
            for (at, row) in members.iter().zip(values.chunks(width.max(1))) {
                rows[*at] = row.to_vec();
            }
            done = end;
            progress(done);
        }
        let width = rows.first().map_or(0, Vec::len);
        Array::from_f32(vec![rows.len(), width], rows.concat()).map_err(|e| TextError::Text(e.to_string()))
    }
}

/// Checks the signature; gives the name of the output that is read.
fn signature(graph: &Graph) -> Result<String, TextError> {
    check_inputs(graph, IDS, &[KEEP])?;
    output(graph, "embedding", &[2], "f32[B, D]")
}

/// The inputs for texts of at most `length` tokens, padded with zeros that do not count.
fn inputs(texts: &[&[u32]], length: usize, has_keep: bool) -> Result<Arrays, TextError> {
    let shape = vec![texts.len(), length];
    let positions = || texts.iter().flat_map(|text| (0..length).map(|at| text.get(at).copied()));
    let refused = |e: &dyn std::fmt::Display| TextError::Text(e.to_string());
    let ids = positions().map(|id| id.map_or(0, i64::from)).collect();
    let mut inputs = Arrays::new();
    inputs.insert(IDS, Array::from_i64(shape.clone(), ids).map_err(|e| refused(&e))?)?;
    if has_keep {
        let keep = positions().map(|id| id.is_some()).collect();
        inputs.insert(KEEP, Array::from_bool(shape, keep).map_err(|e| refused(&e))?)?;
    }
    Ok(inputs)
}
