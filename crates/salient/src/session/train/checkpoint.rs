//! What a run goes on from: all states, the number of steps, the seed, and which batches they were made with.
//!
//! A checkpoint is a `.safetensors` file, written whole or not at all: one that cannot be written leaves the one before.

use super::Trainer;
use crate::report::error::Error;
use salient_io::{Arrays, read_arrays, write_safetensors};
use salient_ir::array::{Array, Data};
use std::path::Path;

/// What a checkpoint says beside the states, each a number under this name.
const FACTS: [&str; 3] = [STEPS, SEED, DATA];
const STEPS: &str = "train.steps";
const SEED: &str = "train.seed";
const DATA: &str = "train.data";

impl Trainer<'_> {
    /// Writes a checkpoint. If that fails, the file that was there before stays as it was.
    ///
    /// # Errors
    /// [`Error::Io`] with the file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let mut all = Arrays::new();
        for (name, value) in FACTS.into_iter().zip(self.facts()) {
            let array = Array::from_i64(vec![], vec![value as i64]);
            all.insert(name, array.map_err(|e| Error::Run(format!("`{name}`: {e}")))?)?;
        }
        for (path, array) in self.session.states() {
            all.insert(path, array.clone())?;
        }
        Ok(write_safetensors(path, &all)?)
    }

    /// Goes on from a checkpoint: what follows has the bits of a run that was not interrupted.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Call`] if its states do not fit the model, and [`Error::Run`] if it is no
    /// checkpoint, or was made with another seed or other batches. The trainer stays as it was.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let refused = |why: String| Error::Run(format!("{}: {why}", path.display()));
        let (mut states, mut facts) = (Arrays::new(), Vec::new());
        for (name, array) in read_arrays(path)? {
            match FACTS.iter().position(|fact| *fact == name) {
                Some(at) => facts.push((at, fact(&array))),
                None => states.insert(name, array)?,
            }
        }
        let known = |at: usize| facts.iter().find(|(known, _)| *known == at).and_then(|(_, value)| *value);
        let (Some(made), Some(seed), Some(data)) = (known(0), known(1), known(2)) else {
            return Err(refused(
                "this is no checkpoint of training, which says how many steps were made".to_owned(),
            ));
        };
        let [_, own_seed, own_data] = self.facts();
        if seed != own_seed {
            return Err(refused(format!("the run began with the seed {seed}, and this one with {own_seed}")));
        }
        if data != own_data {
            return Err(refused(
                "the run had other data, or batches of another size: what follows would not be the same run"
                    .to_owned(),
            ));
        }
        let graph = self.model.graph();
        let paths = graph.states().iter().map(|s| &graph.inputs()[s.input].name);
        if let Some(missing) = paths.into_iter().find(|path| states.get(path).is_none()) {
            return Err(refused(format!("the state `{missing}` of this model is not in it")));
        }
        self.session.hold(&states)?;
        self.made = made;
        Ok(())
    }

    /// In the order of [`FACTS`].
    fn facts(&self) -> [u64; 3] {
        [self.made, self.course.seed, self.batches.mark()]
    }
}

fn fact(array: &Array) -> Option<u64> {
    let Data::I64(values) = array.data() else { return None };
    values.first().filter(|_| values.len() == 1).map(|value| *value as u64)
}
