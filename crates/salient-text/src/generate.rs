//! Texts that go on: the next token from the logits of those before it, again and again.
//!
//! A model for this has the input `ids: i64[B, T]` and the output `logits`, of every position (f32[B, T, V]) or of the last
//! (f32[B, V]). If it has state, each call is given the ids that are new; if not, all of them, each time.

use crate::error::TextError;
use crate::sample::{Sampler, Sampling, no_choice};
use crate::signature::{IDS, check_inputs, output};
use crate::stop::Stops;
use crate::tokenizer::Tokenizer;
use salient::{Array, Arrays, Graph, Model, Session, Weights};
use std::time::{Duration, Instant};

/// How a text is continued and where it ends.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The most tokens that are added.
    pub max_tokens: usize,
    /// How each is chosen.
    pub sampling: Sampling,
    /// What draws repeat by.
    pub seed: u64,
    /// The text ends before the first of these.
    pub stop: Vec<String>,
    /// The text ends at one of these ids; they are not shown.
    pub ends: Vec<u32>,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has as many tokens as were asked for.
    Length,
    /// The model ended it.
    Token,
    /// A stop string.
    Stop,
    /// The caller did not want more.
    Caller,
}

/// What came of a prompt.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The tokens that were added, without one that ended the text.
    pub ids: Vec<u32>,
    /// Their text, up to a stop string.
    pub text: String,
    /// Why it ended.
    pub end: End,
    /// From the prompt to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
}

/// A model that makes logits of token ids, bound to its weights.
#[derive(Debug)]
pub struct Generator<'a> {
    session: Session<'a>,
    /// Whether the model keeps what it was given.
    has_state: bool,
    /// The ids that the states hold.
    held: Vec<u32>,
    /// The name of the output that is read.
    output: String,
}

impl<'a> Generator<'a> {
    /// Checks the model's signature and binds the weights.
    ///
    /// # Errors
    /// [`TextError::Signature`] if the signature is another; the weights do not fit.
    pub fn new(model: &'a Model, weights: Weights<'a>) -> Result<Generator<'a>, TextError> {
        let graph = model.graph();
        let output = signature(graph)?;
        let session = model.session(&inputs(&[0])?, weights)?;
        Ok(Generator { session, has_state: !graph.states().is_empty(), held: Vec::new(), output })
    }

    /// Checks a model's signature alone.
    ///
    /// # Errors
    /// [`TextError::Signature`] if the signature is another.
    pub fn check(graph: &Graph) -> Result<(), TextError> {
        signature(graph).map(drop)
    }

    /// Continues a prompt. `show` gets the text piece by piece and says whether to continue.
    ///
    /// # Errors
    /// The prompt is empty, the model refuses the call, or a logit has no token.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        tokenizer: &Tokenizer,
        settings: &Settings,
        show: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Generated, TextError> {
        if prompt.is_empty() {
            return Err(TextError::Text("the prompt has no tokens".to_owned()));
        }
        let mut sampler = Sampler::new(settings.sampling, settings.seed);
        let mut stream = tokenizer.stream();
        let mut stops = Stops::new(&settings.stop);
        let mut out = Generated {
            ids: Vec::new(),
            text: String::new(),
            end: End::Length,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
        };
        let mut all = prompt.to_vec();
        let start = Instant::now();
        while out.ids.len() < settings.max_tokens {
            let logits = self.logits(&all)?;
            if out.ids.is_empty() {
                out.prefill = start.elapsed();
            }
            let next = sampler.next(logits).and_then(|at| u32::try_from(at).ok());
            let next = next.ok_or_else(|| no_choice(logits, all.len()))?;
            if !tokenizer.has(next) {
                let (position, size) = (all.len(), tokenizer.size());
                return Err(TextError::NoSuchToken { id: next, position, size });
            }
            if settings.ends.contains(&next) {
                out.end = End::Token;
                break;
            }
            all.push(next);
            out.ids.push(next);
            let (piece, stopped) = stops.push(&stream.push(next)?);
            out.text += &piece;
            if stopped {
                show(&piece);
                out.end = End::Stop;
                break;
            }
            if !show(&piece) {
                out.end = End::Caller;
                break;
            }
        }
        out.decode = start.elapsed().saturating_sub(out.prefill);
        if matches!(out.end, End::Length | End::Token) {
            let rest = stops.rest();
            out.text += &rest;
            show(&rest);
        }
        Ok(out)
    }

    /// The logits of what follows these ids. Where the model has state and holds the first of them, it is given the others
    /// alone.
    ///
    /// # Errors
    /// There are no ids, or the model refuses the call.
    pub fn logits(&mut self, ids: &[u32]) -> Result<&[f32], TextError> {
        if !(self.has_state && ids.len() > self.held.len() && ids.starts_with(&self.held)) {
            self.session.reset();
            self.held.clear();
        }
        let new = &ids[self.held.len()..];
        let outputs = self.session.step(&inputs(new)?)?;
        if self.has_state {
            self.held.extend(new);
        }
        let logits = outputs.get(&self.output).expect("the model has that output");
        let width = logits.shape().last().copied().unwrap_or(0);
        let values = logits.as_f32().expect("its dtype was checked");
        let last =
            values.len().checked_sub(width).ok_or_else(|| TextError::Text("there are no ids".to_owned()))?;
        Ok(&values[last..])
    }
}

/// Checks the signature; gives the name of the output that is read.
fn signature(graph: &Graph) -> Result<String, TextError> {
    let states: Vec<&str> = graph.states().iter().map(|s| &*graph.inputs()[s.input].name).collect();
    check_inputs(graph, IDS, &states)?;
    output(graph, "logits", &[2, 3], "f32[B, T, V]")
}

/// One sequence of ids.
fn inputs(ids: &[u32]) -> Result<Arrays, TextError> {
    let values = ids.iter().map(|id| i64::from(*id)).collect();
    let array = Array::from_i64(vec![1, ids.len()], values).map_err(|e| TextError::Text(e.to_string()))?;
    let mut inputs = Arrays::new();
    inputs.insert(IDS, array)?;
    Ok(inputs)
}
