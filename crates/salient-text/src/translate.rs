//! Texts for texts: an encoder reads the source once, a decoder is asked for one more token of every continuation again and
//! again.
//!
//! The encoder has the input `src: i64[B, S]` and the output `memory: f32[B, S, D]`; the decoder the inputs
//! `memory: f32[B, S, D]` and `tgt: i64[B, T]` and the output `logits: f32[B, T, V]`. Either may have `keep: bool[B, S]`, false
//! at padding of the source.
//!
//! A decoder without state is given everything at every step: the source, and all tokens of the continuations. One with
//! state is given what is new: the source at the first step and nothing of it (S = 0) from then on, and the last token of
//! each continuation. What it holds is put into the order of the continuations that go on.

use crate::beam::{Beams, Hypothesis, search};
use crate::error::TextError;
use crate::signature::{KEEP, MEMORY, SRC, TGT, check_inputs, output};
use salient::{Array, Arrays, DType, Graph, Model, Session, Weights};

/// An encoder and a decoder, bound to their weights.
#[derive(Debug)]
pub struct Translator<'a> {
    encoder: Part<'a>,
    decoder: Part<'a>,
    /// The dimension that numbers the continuations, if the decoder has state.
    held: Option<String>,
}

/// One of the two models.
#[derive(Debug)]
struct Part<'a> {
    session: Session<'a>,
    has_keep: bool,
    /// The name of the output that is read.
    output: String,
}

impl<'a> Translator<'a> {
    /// Checks the models' signatures and binds their weights.
    ///
    /// # Errors
    /// [`TextError::Signature`] if a signature is another; the weights do not fit.
    pub fn new(
        (encoder, encoder_weights): (&'a Model, Weights<'a>),
        (decoder, decoder_weights): (&'a Model, Weights<'a>),
    ) -> Result<Translator<'a>, TextError> {
        check_inputs(encoder.graph(), SRC, &[KEEP])?;
        let graph = decoder.graph();
        let states = graph.states().iter().map(|s| &*graph.inputs()[s.input].name);
        check_inputs(graph, TGT, &[MEMORY, KEEP].into_iter().chain(states).collect::<Vec<_>>())?;
        let memory = graph.inputs().iter().find(|p| &*p.name == MEMORY);
        if !memory.is_some_and(|port| port.dtype == DType::F32 && port.axes.len() == 3) {
            return Err(TextError::Signature(format!(
                "the model `{}` has no input `{MEMORY}: f32[B, S, D]` for what the encoder makes",
                graph.name()
            )));
        }
        let held = if graph.states().is_empty() { None } else { Some(continued(graph)?) };
        let has_keep = |model: &Model| model.graph().inputs().iter().any(|p| &*p.name == KEEP);
        let (encoder_keeps, decoder_keeps) = (has_keep(encoder), has_keep(decoder));
        let output_of_encoder = output(encoder.graph(), MEMORY, &[3], "f32[B, S, D]")?;
        let output_of_decoder = output(graph, "logits", &[3], "f32[B, T, V]")?;
        let inputs = sources(&[0], encoder_keeps)?;
        let mut encoder = Part {
            session: encoder.session(&inputs, encoder_weights)?,
            has_keep: encoder_keeps,
            output: output_of_encoder,
        };
        // The width of what the decoder is given is the encoder's.
        let memory = encoder.call(&inputs)?;
        let inputs = continuations(memory, &[&[0]], decoder_keeps)?;
        let decoder = Part {
            session: decoder.session(&inputs, decoder_weights)?,
            has_keep: decoder_keeps,
            output: output_of_decoder,
        };
        Ok(Translator { encoder, decoder, held })
    }

    /// What the models make of a source: hypotheses, the best first.
    ///
    /// # Errors
    /// The source is empty, a model refuses the call, or logits are no numbers.
    pub fn translate(&mut self, source: &[u32], beams: &Beams) -> Result<Vec<Hypothesis>, TextError> {
        if source.is_empty() {
            return Err(TextError::Text("the source has no tokens".to_owned()));
        }
        let memory = self.encoder.call(&sources(source, self.encoder.has_keep)?)?;
        let nothing = Array::zeros(DType::F32, vec![1, 0, memory.shape()[2]]).map_err(malformed)?;
        self.decoder.session.reset();
        search(beams, &mut |rows| {
            let mut ids: Vec<&[u32]> = rows.iter().map(|row| row.ids).collect();
            let mut source = &memory;
            if let Some(dimension) = &self.held {
                let from: Vec<usize> = rows.iter().map(|row| row.from).collect();
                self.decoder.session.reorder(dimension, &from)?;
                // Continuations begin with one token: those that have more are no new ones.
                if ids[0].len() > 1 {
                    source = &nothing;
                }
                ids.iter_mut().for_each(|row| *row = &row[row.len() - 1..]);
            }
            let source = repeated(source, rows.len())?;
            let logits = self.decoder.call(&continuations(source, &ids, self.decoder.has_keep)?)?;
            let &[_, length, width] = logits.shape() else { unreachable!("the output has three axes") };
            let values = logits.as_f32().expect("its dtype was checked");
            Ok(values.chunks(length * width).map(|row| row[(length - 1) * width..].to_vec()).collect())
        })
    }
}

impl Part<'_> {
    fn call(&mut self, inputs: &Arrays) -> Result<Array, TextError> {
        let outputs = self.session.step(inputs)?;
        Ok(outputs.get(&self.output).expect("the model has that output").clone())
    }
}

/// The dimension of a decoder that numbers continuations: the outer axis of its tokens, and an axis of each of its states.
fn continued(graph: &Graph) -> Result<String, TextError> {
    let axes = |input: usize| graph.shape(&graph.inputs()[input].axes);
    let tokens = graph.inputs().iter().position(|p| &*p.name == TGT).expect("its signature was checked");
    let outer = &axes(tokens)[0];
    let strange = graph.states().iter().find(|s| !axes(s.input).contains(outer));
    match (outer.as_dimension(), strange) {
        (Some(name), None) => Ok(name.to_string()),
        (None, _) => Err(TextError::Signature(format!(
            "the model `{}` takes {outer} continuations, and not any number",
            graph.name()
        ))),
        (_, Some(state)) => Err(TextError::Signature(format!(
            "the state `{}` of the model `{}` has no axis of {outer} continuations",
            graph.inputs()[state.input].name,
            graph.name()
        ))),
    }
}

/// The encoder's inputs for one source.
fn sources(ids: &[u32], has_keep: bool) -> Result<Arrays, TextError> {
    let mut inputs = Arrays::new();
    inputs.insert(SRC, tokens(&[ids])?)?;
    if has_keep {
        inputs.insert(KEEP, kept(1, ids.len())?)?;
    }
    Ok(inputs)
}

/// The decoder's inputs for continuations that are given equally many tokens each, and what of the source they are given.
fn continuations(memory: Array, rows: &[&[u32]], has_keep: bool) -> Result<Arrays, TextError> {
    let mut inputs = Arrays::new();
    if has_keep {
        inputs.insert(KEEP, kept(rows.len(), memory.shape()[1])?)?;
    }
    inputs.insert(MEMORY, memory)?;
    inputs.insert(TGT, tokens(rows)?)?;
    Ok(inputs)
}

/// The source for so many continuations.
fn repeated(memory: &Array, rows: usize) -> Result<Array, TextError> {
    let &[_, length, width] = memory.shape() else { unreachable!("the output has three axes") };
    let values = memory.as_f32().expect("its dtype was checked").repeat(rows);
    Array::from_f32(vec![rows, length, width], values).map_err(malformed)
}

fn tokens(rows: &[&[u32]]) -> Result<Array, TextError> {
    let values = rows.iter().flat_map(|row| row.iter().map(|id| i64::from(*id))).collect();
    Array::from_i64(vec![rows.len(), rows[0].len()], values).map_err(malformed)
}

/// Nothing is padding.
fn kept(rows: usize, length: usize) -> Result<Array, TextError> {
    Array::from_bool(vec![rows, length], vec![true; rows * length]).map_err(malformed)
}

fn malformed(error: impl std::fmt::Display) -> TextError {
    TextError::Text(error.to_string())
}
