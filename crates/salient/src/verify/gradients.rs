//! Gradients against central differences of the interpreter, which computes in f64: `f(x + d) - f(x - d)` beside the sum of the
//! gradient's elements times `2 d`, along a random direction of each input and each parameter.

use super::{Drawn, Trials, seed_of, uses};
use crate::compile::pipeline::normal_form;
use crate::report::error::Error;
use crate::report::fault::{Fault, Side};
use crate::session::init::{path_key, uniform};
use salient_grad::{GradientError, LOSS, gradient_name, in_normal_form, of_results};
use salient_io::Arrays;
use salient_ir::array::Array;
use salient_ir::eval::{Data, EvalError, Oracle};
use salient_ir::stack::with_room;
use salient_ir::{Bindings, Graph, Name, NodeId, Output, Port};
use salient_opt::Fp;
use std::collections::BTreeMap;

/// The steps of a difference, of the spread of the data. A function that has a kink between its ends gives others for each.
const STEPS: [f64; 2] = [2e-3, 1e-3];

/// Shorter steps, for kinks that are near the data.
const SHORT_STEPS: [f64; 3] = [1e-4, 1e-5, 1e-6];

/// How far away other data is that is tried where the two disagree.
const NEARBY: f64 = 0.05;

/// How far a difference may be from what the gradient says, of the sum of all that it adds up.
const TOLERANCE: f64 = 1e-6;

/// What came of comparing gradients.
#[derive(Clone, Debug, Default)]
pub struct VerifiedGradients {
    /// Directions that were compared.
    pub compared: usize,
    /// Directions along which the model has a kink near its data, so that a difference says nothing.
    pub at_kinks: usize,
    /// Trials and directions in which the model has no value, or an infinite one.
    pub without_value: usize,
    /// Disagreements.
    pub findings: Vec<GradientFinding>,
}

/// A gradient that is another one than the difference.
#[derive(Clone, Debug)]
pub struct GradientFinding {
    /// The trial, from zero.
    pub trial: usize,
    /// The dimensions of the trial.
    pub dimensions: Bindings,
    /// The input or the parameter.
    pub port: Name,
    /// By how much the loss grows along the direction, as the gradient says.
    pub gradient: f64,
    /// By how much it does.
    pub difference: f64,
}

/// The data of one trial.
struct Point {
    inputs: BTreeMap<String, Array>,
    params: BTreeMap<String, Array>,
}

/// Compares the gradients of a weighted sum of a model's results with its differences.
///
/// # Errors
/// [`Error::Run`] if the model has no gradient; as [`super::verify`] otherwise.
pub fn verify_gradients(
    graph: &Graph,
    trials: Trials,
    progress: &mut dyn FnMut(usize),
) -> Result<VerifiedGradients, Error> {
    if trials.count == 0 {
        return Err(Error::Call(vec![Fault::NothingTried]));
    }
    let derived = gradients_of(graph)?;
    let uses = uses::uses(graph);
    let mut out = VerifiedGradients::default();
    for (trial, dimensions) in super::lengths::chosen(graph, trials)?.into_iter().enumerate() {
        if super::lengths::work(graph, &dimensions) > trials.most_work {
            continue;
        }
        progress(trial);
        let seed = seed_of(trials.seed, trial);
        let number = Trials { ties: false, ..trials }.data(trial);
        let data = Drawn { graph, dimensions: &dimensions, uses: &uses, trial: number, seed };
        let point = Point {
            inputs: by_name(data.arrays(graph.inputs(), Side::Input)?),
            params: by_name(data.arrays(graph.params(), Side::Param)?),
        };
        let Ok(gradients) = values(&derived, &dimensions, &point) else {
            out.without_value += 1;
            continue;
        };
        for port in graph.inputs().iter().chain(graph.params()) {
            let Some(gradient) = gradients.get(&*gradient_name(&port.name)) else { continue };
            match compared(&derived, &dimensions, &point, (port, gradient, seed)) {
                Ok(Compared::Same) => out.compared += 1,
                Ok(Compared::Kink) => out.at_kinks += 1,
                Ok(Compared::NoValue) | Err(_) => out.without_value += 1,
                // A kink that lies on the data itself is not at other data nearby.
                Ok(Compared::Other { .. }) if agrees_nearby(&derived, &dimensions, &point, (port, seed)) => {
                    out.at_kinks += 1;
                }
                Ok(Compared::Other { gradient, difference }) => {
                    let (dimensions, port) = (dimensions.clone(), port.name.clone());
                    out.findings.push(GradientFinding { trial, dimensions, port, gradient, difference });
                }
            }
        }
    }
    Ok(out)
}

/// A graph whose results are the sum that is compared and its gradients.
///
/// # Errors
/// [`Error::Run`] if the model has no gradient.
pub fn gradients_of(graph: &Graph) -> Result<Graph, Error> {
    of_results(&in_normal_form(graph, normal_form(Fp::Default))).map_err(|e| {
        Error::Run(match e {
            GradientError::NoNumber => {
                "no result of the model is a number, which could be differentiated".to_owned()
            }
            GradientError::Independent { .. } => {
                "no result of the model depends on a number that goes in".to_owned()
            }
            GradientError::NotDifferentiable { .. } | GradientError::NoDerivative { .. } => e.to_string(),
        })
    })
}

fn by_name(arrays: Arrays) -> BTreeMap<String, Array> {
    arrays.iter().map(|(name, array)| (name.to_owned(), array.clone())).collect()
}

/// How a gradient and a difference are to each other.
enum Compared {
    Same,
    Kink,
    NoValue,
    Other { gradient: f64, difference: f64 },
}

/// By how much a loss grows over a step, for each unit of it.
struct Slope {
    /// What the gradient says, and the sum of all that it adds up, without signs.
    predicted: f64,
    size: f64,
    /// What the difference says, and how far off it may be because the loss is rounded.
    difference: f64,
    noise: f64,
}

impl Slope {
    /// How far the difference is from what the gradient says.
    fn rest(&self) -> f64 {
        self.difference - self.predicted
    }
}

/// The slope over a step along a random direction of a port.
fn slope(
    g: &Graph,
    dimensions: &Bindings,
    point: &Point,
    (port, gradient, seed): (&Port, &[f64], u64),
    step: f64,
) -> Result<Slope, EvalError> {
    let (above, below) = (moved(point, port, seed, step), moved(point, port, seed, -step));
    let values = [&above, &below].map(|end| end.get(port).to_f64_vec());
    let (mut predicted, mut size) = (0.0, 0.0);
    for ((gradient, above), below) in gradient.iter().zip(&values[0]).zip(&values[1]) {
        let part = gradient * (above - below) / step;
        predicted += part;
        size += part.abs();
    }
    let [high, low] = [loss(g, dimensions, &above)?, loss(g, dimensions, &below)?];
    let noise = (high.abs() + low.abs()) * f64::EPSILON * 8.0 / step;
    Ok(Slope { predicted, size, difference: (high - low) / step, noise })
}

/// The gradient along a random direction of a port beside the difference there.
fn compared(
    g: &Graph,
    dimensions: &Bindings,
    point: &Point,
    of: (&Port, &[f64], u64),
) -> Result<Compared, EvalError> {
    let over = |step: f64| slope(g, dimensions, point, of, step);
    let [coarse, fine] = [over(STEPS[0])?, over(STEPS[1])?];
    let most = TOLERANCE * (1.0 + coarse.size + fine.size);
    // Of a loss that is large the difference is what was rounded.
    if !fine.difference.is_finite() || coarse.noise.max(fine.noise) > most {
        return Ok(Compared::NoValue);
    }
    // What is of third order grows fourfold with twice the step, a wrong gradient not at all.
    let grown = fine.rest() - coarse.rest();
    if (fine.rest() + grown / 3.0).abs() <= most {
        return Ok(Compared::Same);
    }
    if grown.abs() > 0.1 * fine.rest().abs() {
        return Ok(Compared::Kink);
    }
    // A kink much nearer than the ends of both steps changes both differences alike; a wrong gradient is wrong over every step.
    for step in SHORT_STEPS {
        let short = over(step)?;
        if short.rest().abs() <= most + short.noise {
            return Ok(Compared::Kink);
        }
    }
    Ok(Compared::Other { gradient: fine.predicted, difference: fine.difference })
}

/// Whether gradient and difference do not disagree where a tensor has other values close by.
fn agrees_nearby(g: &Graph, dimensions: &Bindings, point: &Point, (port, seed): (&Port, u64)) -> bool {
    let point = moved(point, port, !seed, NEARBY);
    let Ok(gradients) = values(g, dimensions, &point) else { return true };
    let gradient = &gradients[&*gradient_name(&port.name)];
    match compared(g, dimensions, &point, (port, gradient, seed)) {
        Ok(Compared::Other { .. }) => false,
        Ok(Compared::Same | Compared::Kink | Compared::NoValue) | Err(_) => true,
    }
}

impl Point {
    fn get(&self, port: &Port) -> &Array {
        let both = [&self.inputs, &self.params];
        both.into_iter().find_map(|of| of.get(&*port.name)).expect("drawn for every port")
    }
}

/// The data with one tensor moved along a direction; its elements are rounded to the type in which it is stored.
fn moved(point: &Point, port: &Port, seed: u64, step: f64) -> Point {
    let before = point.get(port);
    let key = path_key(seed, &format!("direction of {}", port.name));
    let direction = |n: usize| 2.0 * uniform(key, n as u64) - 1.0;
    let values = before.to_f64_vec().into_iter().enumerate().map(|(n, x)| x + step * direction(n));
    let values: Vec<f64> = values.collect();
    let array = Array::from_f64(port.dtype.compute(), before.shape().to_vec(), &values)
        .expect("as many as before")
        .rounded_to(port.dtype);
    let (mut inputs, mut params) = (point.inputs.clone(), point.params.clone());
    let of = if inputs.contains_key(&*port.name) { &mut inputs } else { &mut params };
    of.insert(port.name.to_string(), array);
    Point { inputs, params }
}

/// All results in f64.
fn values(g: &Graph, dimensions: &Bindings, point: &Point) -> Result<BTreeMap<Name, Vec<f64>>, EvalError> {
    evaluated(g, dimensions, point, |oracle| {
        let value = |out: &Output| Ok((out.name.clone(), oracle.tensor(out.node, &out.axes)?));
        g.outputs().iter().map(value).collect()
    })
}

fn loss(g: &Graph, dimensions: &Bindings, point: &Point) -> Result<f64, EvalError> {
    let loss: NodeId = g.outputs().iter().find(|out| &*out.name == LOSS).expect("it is a result").node;
    evaluated(g, dimensions, point, |oracle| Ok(oracle.tensor(loss, &[])?[0]))
}

fn evaluated<T: Send>(
    g: &Graph,
    dimensions: &Bindings,
    point: &Point,
    of: impl FnOnce(&Oracle<'_>) -> Result<T, EvalError> + Send,
) -> Result<T, EvalError> {
    let run = || {
        let data = Data { inputs: &point.inputs, params: &point.params };
        of(&Oracle::new(g, dimensions, data)?)
    };
    with_room(g.depth(), run).unwrap_or_else(|e| Err(EvalError::NoRoom(e.to_string())))
}
