//! Gradients of a whole model, for those who check them.

use crate::error::GradientError;
use crate::gradients_where;
use crate::make::Make;
use salient_ir::{Builder, DType, Graph, MapOp, NodeId, Op, Port};

/// The result that [`of_results`] calls the loss.
pub const LOSS: &str = "loss";

/// What [`of_results`] calls the gradient by an input or a parameter.
#[must_use]
pub fn gradient_name(port: &str) -> String {
    format!("d_{port}")
}

/// A graph whose results are a weighted sum of all numbers that a model gives, and the gradients of this sum by each input and each
/// parameter on which it depends. The weights are made of the positions, and f32 holds them exactly: neighbours count differently, all
/// count, and none counts more than once.
///
/// # Errors
/// As [`crate::gradients`]; if the model gives no numbers, or none that depends on a number that goes in.
pub fn of_results(graph: &Graph) -> Result<Graph, GradientError> {
    let mut b = Builder::like(graph);
    // A state is an input here, and the loss all that comes out.
    b.states_of(&Builder::new(graph.name()).finish());
    let mut loss: Option<NodeId> = None;
    for (at, output) in graph.outputs().iter().enumerate() {
        let value = b.copy(graph, output.node);
        if b.node(value).dtype != DType::F32 {
            continue;
        }
        let part = weighted(&mut b, value, at);
        loss = Some(loss.map_or(part, |sum| b.plus(sum, part)));
    }
    differentiated(b, graph, loss.ok_or(GradientError::NoNumber)?, true)
}

/// The backward pass of a model: a graph with a further input for each number that the model gives, its cotangent, called as
/// [`gradient_name`] says, whose results are those of the model and the gradients by each input and each parameter that counts.
///
/// # Errors
/// As [`of_results`].
pub fn backward(graph: &Graph) -> Result<Graph, GradientError> {
    let mut b = Builder::like(graph);
    b.states_of(&Builder::new(graph.name()).finish());
    let mut loss: Option<NodeId> = None;
    for output in graph.outputs() {
        let value = b.copy(graph, output.node);
        b.output(&output.name, &output.axes, value).expect("a result of the model");
        if b.node(value).dtype == DType::F32 {
            let cotangent = b.input(&gradient_name(&output.name), &output.axes, DType::F32, None);
            let product = b.times(cotangent, value);
            let part = output.axes.iter().fold(product, |sum, axis| b.sum(*axis, sum));
            loss = Some(loss.map_or(part, |sum| b.plus(sum, part)));
        }
    }
    differentiated(b, graph, loss.ok_or(GradientError::NoNumber)?, false)
}

/// With the gradients by each port on which the loss depends as results.
fn differentiated(
    mut b: Builder,
    graph: &Graph,
    loss: NodeId,
    shows_loss: bool,
) -> Result<Graph, GradientError> {
    let ports = ports(&mut b, graph);
    let numbers = ports.into_iter().filter(|(node, _)| b.node(*node).dtype == DType::F32);
    let ports: Vec<(NodeId, &Port)> = numbers.collect();
    let targets: Vec<NodeId> = ports.iter().map(|(node, _)| *node).collect();
    let found = gradients_where(&mut b, loss, &targets)?;
    if found.iter().all(Option::is_none) {
        return Err(GradientError::Independent { target: 0 });
    }
    let listed = "a gradient has the axes of its port";
    if shows_loss {
        b.output(LOSS, &[], loss).expect("one number");
    }
    for ((_, port), gradient) in ports.iter().zip(found) {
        let Some(gradient) = gradient else { continue };
        b.output(&gradient_name(&port.name), &port.axes, gradient).expect(listed);
    }
    Ok(b.finish())
}

/// The inputs and parameters of a graph, as nodes of another one that declares the same.
fn ports<'g>(b: &mut Builder, graph: &'g Graph) -> Vec<(NodeId, &'g Port)> {
    let inputs = graph.inputs().iter().enumerate().map(|(at, port)| (Op::Input(at), port));
    let params = graph.params().iter().enumerate().map(|(at, port)| (Op::Param(at), port));
    let node = |op: Op| b.add(op, &[]).expect("a port that is declared");
    let all: Vec<(Op, &Port)> = inputs.chain(params).collect();
    let nodes: Vec<NodeId> = all.iter().map(|(op, _)| op.clone()).map(node).collect();
    nodes.into_iter().zip(all.into_iter().map(|(_, port)| port)).collect()
}

/// What positions are counted by, along each axis in turn, and the number of weights, a prime.
const STEPS: [i64; 4] = [389, 613, 157, 839];
const WEIGHTS: i64 = 1021;

/// The sum of the elements of a result, each with a weight of its own: an odd number of 1024ths, which f32 holds exactly.
fn weighted(b: &mut Builder, value: NodeId, at: usize) -> NodeId {
    let mut place = b.integer(310 + 101 * at as i64);
    let axes = b.node(value).axes.clone();
    for (n, axis) in axes.iter().enumerate() {
        let (index, step) = (b.iota(axis), b.integer(STEPS[n % STEPS.len()] + n as i64));
        let steps = b.times(index, step);
        place = b.plus(place, steps);
    }
    let (two, all) = (b.integer(2), b.integer(WEIGHTS));
    let rest = b.apply(MapOp::Mod, &[place, all]);
    let doubled = b.times(rest, two);
    let odd = b.apply(MapOp::Sub, &[doubled, all]);
    let (odd, unit) = (b.apply(MapOp::ToF32, &[odd]), b.number(1.0 / 1024.0));
    let weight = b.times(odd, unit);
    let product = b.times(value, weight);
    axes.iter().fold(product, |sum, axis| b.sum(axis, sum))
}
