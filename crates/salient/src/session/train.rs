//! Training: a session whose parameters are states, steps over batches that are drawn by seed, and what is kept of them.
//!
//! The model says what a step is; nothing here knows of gradients. [`batches`] draws the inputs of a step, [`schedule`] says its
//! rate, [`evaluation`] makes a model of the loss alone, [`checkpoint`] writes and reads all that a run goes on from.

pub(crate) mod batches;
pub(crate) mod checkpoint;
pub(crate) mod evaluation;
pub(crate) mod schedule;

use self::batches::Batches;
use self::schedule::Schedule;
use crate::report::error::Error;
use crate::session::init::initial;
use crate::session::model::Model;
use crate::session::weights::Weights;
use crate::session::{Session, states};
use salient_io::Arrays;
use salient_ir::array::{Array, Data};
use salient_ir::{Bindings, DType};

/// What a run of training is told, beside the model and the data.
#[derive(Clone, Debug)]
pub struct Course {
    /// Draws batches, and the parameters that no weights give.
    pub seed: u64,
    /// The rate of each step, for models with the input `rate`.
    pub schedule: Schedule,
    /// Inputs that are the same at every step.
    pub inputs: Arrays,
    /// Dimensions that no tensor determines.
    pub dimensions: Bindings,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The number of the step, from 0.
    pub step: u64,
    /// The rate that it had.
    pub rate: f64,
    /// The results of the model that are numbers, by name.
    pub numbers: Vec<(String, f32)>,
}

impl Progress {
    /// The result of that name.
    pub fn number(&self, name: &str) -> Option<f32> {
        self.numbers.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

/// A model that is trained: see [`Trainer::step`].
///
/// Inputs go by their names: `rate` is the rate of the step, `step` the number of steps that have been made, and the others are what
/// [`Batches`] draw. What follows from a seed is the same for any number of threads, and a run that goes on from a checkpoint gives
/// the bits of one that was not interrupted.
///
/// ```
/// use salient::{Course, Model, Options, Schedule, TokenBatches, Trainer, Weights};
///
/// let source = "model bigram[V = 4](ids: i64[B, T], labels: i64[B, T], rate: f32) -> (loss: f32) {
///     let loss = cross_entropy(embedding[V, V](ids) as table, labels)
///     for p, d in grad(loss, parameters) {
///         p = sgd(p, d, rate) as opt.{p}
///     }
///     return loss
/// }";
/// let model = Model::compile(source, &Options::default())?;
/// let tokens: Vec<u32> = (0..100).map(|n| n % 4).collect();
/// let batches = TokenBatches::new(tokens.into(), 2, 8, 1)?;
/// let course = Course::new(1, Schedule::constant(5.0));
/// let mut trainer = Trainer::new(&model, Weights::none(), &batches, course)?;
/// let first = trainer.step()?.number("loss").unwrap();
/// for _ in 0..50 {
///     trainer.step()?;
/// }
/// assert!(trainer.step()?.number("loss").unwrap() < 0.1 * first);
/// # Ok::<(), salient::Error>(())
/// ```
pub struct Trainer<'a> {
    model: &'a Model,
    weights: Weights<'a>,
    batches: &'a dyn Batches,
    course: Course,
    session: Session<'a>,
    made: u64,
}

impl Course {
    /// With the inputs that batches give, `rate` and `step` alone.
    pub fn new(seed: u64, schedule: Schedule) -> Course {
        Course { seed, schedule, inputs: Arrays::new(), dimensions: Bindings::new() }
    }
}

impl<'a> Trainer<'a> {
    /// Begins with weights; what they do not give is drawn by the seed.
    ///
    /// # Errors
    /// [`Error::Call`] with everything that does not fit; [`Error::Run`] if the model moves no parameter, or there is no batch.
    pub fn new(
        model: &'a Model,
        weights: Weights<'a>,
        batches: &'a dyn Batches,
        course: Course,
    ) -> Result<Trainer<'a>, Error> {
        if states::begun(model.graph()).next().is_none() {
            return Err(Error::Run(format!(
                "the model `{}` moves no parameter: a step is `for p, d in grad(loss, parameters) {{ p = … }}`",
                model.graph().name()
            )));
        }
        let weights = if weights.seed().is_some() { weights } else { weights.or_seeded(course.seed) };
        let inputs = inputs(model, batches, &course, 0)?;
        let session = model.session_with(&inputs, weights, &course.dimensions)?;
        let mut trainer = Trainer { model, weights, batches, course, session, made: 0 };
        trainer.session.hold(&Arrays::new())?;
        Ok(trainer)
    }

    /// How many steps have been made.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// The session, for reports.
    pub fn session(&self) -> &Session<'a> {
        &self.session
    }

    /// Makes a step.
    ///
    /// # Errors
    /// As [`Session::step`]; and [`Error::Run`] if a result or a state is NaN or infinite after it, with the first value that is,
    /// its line and its index. In any case all is as it was before the step.
    pub fn step(&mut self) -> Result<Progress, Error> {
        let inputs = inputs(self.model, self.batches, &self.course, self.made)?;
        let graph = self.model.graph();
        let made = self.made;
        let results = self.session.step(&inputs).map_err(|e| at_step(made, e))?;
        let mut numbers = Vec::new();
        for (at, output) in graph.outputs().iter().enumerate() {
            if output.axes.is_empty() && !graph.states().iter().any(|s| s.output == at) {
                let value = results.get(&output.name).and_then(number);
                numbers.extend(value.map(|value| (output.name.to_string(), value)));
            }
        }
        let broken = numbers.iter().find(|(_, value)| !value.is_finite()).map(|(name, _)| name.clone());
        let broken = broken.or_else(|| {
            let states = self.session.states();
            let broken = states.filter(|(_, array)| !is_finite(array)).map(|(path, _)| path.to_owned());
            broken.into_iter().next()
        });
        if let Some(name) = broken {
            return Err(self.broken(&name, &inputs));
        }
        let step = self.made;
        self.made += 1;
        Ok(Progress { step, rate: self.course.schedule.rate(step), numbers })
    }

    /// What broke at a step that is taken back.
    fn broken(&mut self, name: &str, inputs: &Arrays) -> Error {
        let first = self.session.take_back().and_then(|()| {
            let mut outputs = self.session.outputs()?;
            self.session.run_finite(inputs, &mut outputs)
        });
        let why = match first {
            Err(why) => why.to_string(),
            Ok(()) => "looked at one by one, all values are finite".to_owned(),
        };
        Error::Run(format!("step {}: `{name}` is not finite: {why}", self.made))
    }

    /// The parameters as they are now, those that no step moves too, by path.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn parameters(&self) -> Result<Arrays, Error> {
        let graph = self.model.graph();
        let mut out = Arrays::new();
        for (path, array) in self.session.states().filter(|(path, _)| states::is_begun(graph, path)) {
            out.insert(path, array.clone())?;
        }
        for port in graph.params() {
            let given = self.weights.arrays().and_then(|arrays| arrays.get(&port.name)).cloned();
            let drawn = || initial(graph, port, self.session.dimensions(), self.weights.seed().unwrap_or(0));
            let array = match given {
                Some(array) => Some(array),
                None => drawn().map_err(|e| Error::Run(format!("parameter `{}`: {e}", port.name)))?,
            };
            if let Some(array) = array {
                out.insert(&*port.name, array)?;
            }
        }
        Ok(out)
    }
}

fn at_step(step: u64, why: Error) -> Error {
    if let Error::Run(why) = why { Error::Run(format!("step {step}: {why}")) } else { why }
}

/// The inputs of a step.
fn inputs(model: &Model, batches: &dyn Batches, course: &Course, step: u64) -> Result<Arrays, Error> {
    let graph = model.graph();
    let has = |name: &str| graph.inputs().iter().find(|port| *port.name == *name);
    let mut out = Arrays::new();
    for (name, array) in batches.draw(step)? {
        if has(&name).is_some() {
            out.insert(name, array)?;
        }
    }
    for (name, array) in course.inputs.iter() {
        out.insert(name, array.clone())?;
    }
    let one = |dtype: DType, value: f64| Array::from_f64(dtype, vec![], &[value]);
    for (name, value) in [("rate", course.schedule.rate(step)), ("step", step as f64)] {
        if let Some(port) = has(name)
            && out.get(name).is_none()
        {
            let array = one(port.dtype.compute(), value).map_err(|e| Error::Run(format!("`{name}`: {e}")))?;
            out.insert(name, array)?;
        }
    }
    Ok(out)
}

/// The value of an array of one number.
fn number(array: &Array) -> Option<f32> {
    match array.data() {
        Data::F32(values) => values.first().copied(),
        Data::I64(values) => values.first().map(|n| *n as f32),
        Data::I32(values) => values.first().map(|n| *n as f32),
        Data::F16(_) | Data::BF16(_) | Data::Bool(_) => None,
    }
}

/// Whether no number is NaN or infinite.
fn is_finite(array: &Array) -> bool {
    let Some(values) = array.as_f32() else { return true };
    // Without branches, so that it goes as fast as memory does.
    values.chunks(4096).all(|part| part.iter().fold(true, |all, x| all & x.is_finite()))
}
