//! A model with its weights, and the sessions for the shapes that it has been called with.
//!
//! Knows nothing of Python: threads call it while they hold no lock of Python's.

use crate::weights::Held;
use salient::{Array, Arrays, Bindings, Error, Model, Session};
use std::sync::{Arc, Mutex, PoisonError};

/// Sessions that are kept, for the shapes that were called with last.
const KEPT: usize = 16;

/// What sessions borrow.
pub(crate) struct Owner {
    pub(crate) model: Arc<Model>,
    pub(crate) weights: Arc<Held>,
}

/// The shapes of the inputs of a call, in the order of the model's.
type Shapes = Vec<Option<Vec<usize>>>;

/// Sessions of one model and one set of weights.
pub(crate) struct Sessions<'a> {
    /// The last one that was used comes last.
    known: Mutex<Vec<(Shapes, Arc<Session<'a>>)>>,
    /// The one that steps, and holds states between them.
    stream: Mutex<Option<Session<'a>>>,
}

self_cell::self_cell!(
    /// Sessions beside what they borrow.
    pub(crate) struct Bound {
        owner: Owner,
        #[not_covariant]
        dependent: Sessions,
    }
);

impl Bound {
    /// Binds weights, for inputs of these shapes first.
    pub(crate) fn bind(model: Arc<Model>, weights: Arc<Held>, inputs: &Arrays) -> Result<Bound, Error> {
        Bound::try_new(Owner { model, weights }, |owner| {
            let session = owner.model.session(inputs, owner.weights.weights())?;
            let known = Mutex::new(vec![(shapes(&owner.model, inputs), Arc::new(session))]);
            Ok(Sessions { known, stream: Mutex::new(None) })
        })
    }

    /// Calls `then` with a session for inputs of these shapes.
    pub(crate) fn with_session<R>(
        &self,
        inputs: &Arrays,
        then: impl FnOnce(&Session<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.with_dependent(|owner, sessions| then(&*sessions.of(&owner.model, inputs)?))
    }

    /// One step, which begins with the states that the step before left; gives the results.
    pub(crate) fn step(&self, inputs: &Arrays) -> Result<Vec<(String, Array)>, Error> {
        self.with_dependent(|_, sessions| {
            let mut stream = sessions.stream.lock().unwrap_or_else(PoisonError::into_inner);
            let stream = match &mut *stream {
                Some(stream) => stream,
                none => none.insert(sessions.any().reshaped(inputs, &Bindings::new())?),
            };
            stream.step(inputs)?;
            stream.take_results()
        })
    }

    /// The states that are held, by path.
    pub(crate) fn states(&self) -> Vec<(String, Array)> {
        self.with_dependent(|_, sessions| {
            let stream = sessions.stream.lock().unwrap_or_else(PoisonError::into_inner);
            let states = stream.iter().flat_map(Session::states);
            states.map(|(name, array)| (name.to_owned(), array.clone())).collect()
        })
    }

    /// Forgets the states.
    pub(crate) fn reset(&self) {
        self.with_dependent(|_, sessions| {
            *sessions.stream.lock().unwrap_or_else(PoisonError::into_inner) = None;
        });
    }
}

impl<'a> Sessions<'a> {
    fn any(&self) -> Arc<Session<'a>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.last().expect("there is one from the beginning").1.clone()
    }

    /// A session for inputs of these shapes: one that is known, or a new one that shares its weights.
    fn of(&self, model: &Model, inputs: &Arrays) -> Result<Arc<Session<'a>>, Error> {
        let shapes = shapes(model, inputs);
        let all_are_inputs = shapes.iter().flatten().count() == inputs.len();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(at)) = (all_are_inputs, known.iter().rposition(|(known, _)| *known == shapes)) {
            let found = known[at].1.clone();
            if at + 1 < known.len() {
                let entry = known.remove(at);
                known.push(entry);
            }
            return Ok(found);
        }
        let nearest = known.last().expect("there is one from the beginning").1.clone();
        drop(known);
        let session = Arc::new(nearest.reshaped(inputs, &Bindings::new())?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push((shapes, session.clone()));
        Ok(session)
    }
}

fn shapes(model: &Model, inputs: &Arrays) -> Shapes {
    let ports = model.graph().inputs().iter();
    ports.map(|port| inputs.get(&port.name).map(|array| array.shape().to_vec())).collect()
}
