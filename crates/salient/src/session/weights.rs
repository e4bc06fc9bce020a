//! The parameters of a call: arrays of a checkpoint, drawn from a seed, or both.
//!
//! Holds what the caller decides; whether it fits the model is found out when a session is made.

use salient_io::{Arrays, Coded};

/// Where the values of a model's parameters come from. Arrays are borrowed, by path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weights<'a> {
    arrays: Option<&'a Arrays>,
    coded: Option<&'a Coded>,
    seed: Option<u64>,
}

impl<'a> Weights<'a> {
    /// None: for models without parameters.
    pub fn none() -> Weights<'a> {
        Weights::default()
    }

    /// The initialisers that the source declares, drawn from a seed.
    pub fn seeded(seed: u64) -> Weights<'a> {
        Weights::none().or_seeded(seed)
    }

    /// Parameters that the arrays lack are drawn from a seed.
    pub fn or_seeded(self, seed: u64) -> Weights<'a> {
        Weights { seed: Some(seed), ..self }
    }

    /// Parameters that the arrays lack may be in blocks of few bits. What the model was not compiled to read so
    /// ([`Options::coded`](crate::Options)) is widened.
    pub fn coded(self, coded: &'a Coded) -> Weights<'a> {
        Weights { coded: Some(coded), ..self }
    }

    /// The parameters in blocks, by path.
    pub(crate) fn blocks(&self) -> Option<&'a Coded> {
        self.coded
    }

    /// The arrays.
    pub(crate) fn arrays(&self) -> Option<&'a Arrays> {
        self.arrays
    }

    /// The seed for those that are absent.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.seed
    }
}

impl<'a> From<&'a Arrays> for Weights<'a> {
    fn from(arrays: &'a Arrays) -> Weights<'a> {
        Weights { arrays: Some(arrays), ..Weights::none() }
    }
}
