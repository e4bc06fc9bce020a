//! The loss alone: a model of a model that is trained, without its step, for data that it is not trained on.

use crate::compile::options::Options;
use crate::report::error::Error;
use crate::session::model::Model;
use crate::session::weights::Weights;
use salient_front::DRAW_STEP;
use salient_io::Arrays;
use salient_ir::array::Array;
use salient_ir::{Builder, DType, Graph, NodeId, Op};

/// A model of one result of a model that is trained, to whose parameters states have become again.
#[derive(Debug)]
pub struct Evaluation {
    model: Model,
    result: String,
}

impl Evaluation {
    /// That gives a result of a model, such as `loss`, which is one number.
    ///
    /// # Errors
    /// [`Error::Run`] if the model has no such result; as [`Model::from_graph`].
    pub fn new(model: &Model, result: &str, options: &Options) -> Result<Evaluation, Error> {
        let graph = alone(model.graph(), result)?;
        Ok(Evaluation { model: Model::from_graph(graph, options)?, result: result.to_owned() })
    }

    /// The mean of the result over batches, with these parameters. What the inputs of a batch lack, `others` give.
    ///
    /// # Errors
    /// As [`Model::session`] and [`Session::run`](crate::Session::run).
    pub fn mean(&self, parameters: &Arrays, batches: &[Arrays], others: &Arrays) -> Result<f64, Error> {
        let graph = self.model.graph();
        let has = |name: &str| graph.inputs().iter().any(|port| *port.name == *name);
        // Of no step.
        let of_steps = |name: &str| ["rate", "step", DRAW_STEP].contains(&name);
        let mut weights = Arrays::new();
        for port in graph.params() {
            if let Some(array) = parameters.get(&port.name) {
                weights.insert(&*port.name, array.clone())?;
            }
        }
        let mut session: Option<crate::Session<'_>> = None;
        let mut total = 0.0;
        for batch in batches {
            let mut inputs = Arrays::new();
            for (name, array) in batch.iter().chain(others.iter()).filter(|(name, _)| has(name)) {
                inputs.insert(name, array.clone())?;
            }
            for port in graph.inputs().iter().filter(|port| of_steps(&port.name)) {
                let zero = Array::from_f64(port.dtype.compute(), vec![], &[0.0]);
                inputs.insert(&*port.name, zero.map_err(|e| Error::Run(e.to_string()))?)?;
            }
            let next = match &session {
                None => self.model.session(&inputs, Weights::from(&weights))?,
                Some(known) => known.reshaped(&inputs, &salient_ir::Bindings::new())?,
            };
            let outputs = next.call(&inputs)?;
            let value = outputs.get(&self.result).and_then(Array::as_f32).and_then(|values| values.first());
            total += f64::from(value.copied().unwrap_or(f32::NAN));
            session = Some(next);
        }
        Ok(total / batches.len() as f64)
    }
}

/// The graph of one result: states that begin with an initialiser are parameters, and what it does not read is left out.
fn alone(graph: &Graph, result: &str) -> Result<Graph, Error> {
    let found = graph.outputs().iter().find(|output| *output.name == *result);
    let Some(output) = found.filter(|output| output.axes.is_empty() && output.dtype == DType::F32) else {
        return Err(Error::Run(format!("the model `{}` has no result `{result}: f32`", graph.name())));
    };
    let mut read = vec![false; graph.len()];
    read[output.node.index()] = true;
    for id in graph.ids().rev() {
        if read[id.index()] {
            graph.args(id).iter().for_each(|arg| read[arg.index()] = true);
        }
    }
    let mut b = Builder::with_axes(graph);
    graph.requirements().iter().for_each(|requirement| b.require(requirement.clone()));
    let mut new: Vec<Option<NodeId>> = vec![None; graph.len()];
    for id in graph.ids().filter(|id| read[id.index()]) {
        let node = graph.node(id);
        let added = match &node.op {
            Op::Input(at) if graph.is_moved_parameter(*at) => {
                let port = &graph.inputs()[*at];
                b.param(&port.name, &port.axes, port.dtype, None, port.origin)
            }
            Op::Input(at) => {
                let port = &graph.inputs()[*at];
                b.input(&port.name, &port.axes, port.dtype, port.origin)
            }
            Op::Param(at) => {
                let port = &graph.params()[*at];
                b.param(&port.name, &port.axes, port.dtype, None, port.origin)
            }
            op @ (Op::Const(_)
            | Op::Iota(_)
            | Op::Extent(_)
            | Op::Map(_)
            | Op::Reduce(..)
            | Op::At(_)
            | Op::Concat(..)
            | Op::CumSum(..)
            | Op::Fused(..)) => {
                let args: Vec<NodeId> = graph
                    .args(id)
                    .iter()
                    .map(|arg| new[arg.index()].expect("arguments come first"))
                    .collect();
                b.add(op.clone(), &args).expect("a node of a verified graph")
            }
        };
        b.describe(added, node.name.as_ref(), node.origin);
        new[id.index()] = Some(added);
    }
    let node = new[output.node.index()].expect("it is read");
    b.output(result, &[], node).expect("one number");
    Ok(b.finish())
}
