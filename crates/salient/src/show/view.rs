//! The weights of a model's attentions as further results, for pictures of them.
//!
//! The attentions are those that the optimiser finds, however they are written; a value may be asked for by its name instead. Maps of
//! long sequences are sums over tiles of queries and keys. The attention is written anew with the tiles of queries as an axis around
//! its rows, and the sums of its weights over the rows of a tile are a result beside it: its kernel makes both of the same scores,
//! and no matrix of all pairs is stored.

mod tiles;

use crate::compile::options::Options;
use crate::compile::pipeline::optimise;
use crate::report::error::Error;
use crate::session::model::Model;
use salient_front::Inner;
use salient_io::Arrays;
use salient_ir::{AxisId, Bindings, Builder, FusedOp, Graph, MapOp, NodeId, Op, Port, ReduceOp};
use std::collections::BTreeSet;

/// Rows and columns of a map, at most: more positions go in tiles.
pub const MOST_TILES: usize = 256;

/// A model that gives the weights of its attentions beside its results.
#[derive(Debug)]
pub struct Viewed {
    /// The model. Its first results are those of the model as written.
    pub model: Model,
    /// What it gives beside them.
    pub maps: Vec<WeightMap>,
}

/// The weights of an attention, or another value that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightMap {
    /// What its parameters' paths begin with, or what the value is called.
    pub name: String,
    /// The result that has it, of the shape `[others …, tiles of queries, tiles of keys]`.
    pub output: String,
    /// The queries.
    pub queries: Along,
    /// The keys.
    pub keys: Along,
}

/// The positions along a side of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Along {
    /// How many there are.
    pub positions: usize,
    /// How many of them are one row or column of the map.
    pub tile: usize,
}

impl Along {
    /// Rows or columns of the map.
    pub fn tiles(self) -> usize {
        self.positions.div_ceil(self.tile)
    }
}

/// A matrix of weights, for one head of one attention.
#[derive(Clone, Debug)]
pub struct HeadWeights {
    /// Its position along each axis beside queries and keys.
    pub position: Vec<usize>,
    /// Row by row: the mean over the queries of a tile of the sum over the keys of a tile.
    pub weights: Vec<f32>,
}

/// The attentions' weights, or, where values were asked for by [`Options::inner`], those values, as further results of a graph
/// for calls of these sizes; a state is taken to hold nothing.
///
/// # Errors
/// [`Error::Code`] where nothing is found to show, and as [`Model::from_graph`].
pub fn with_weights(
    graph: &Graph,
    inner: &[Inner],
    options: &Options,
    sizes: &Bindings,
) -> Result<Viewed, Error> {
    let mut sizes = sizes.clone();
    sizes.extend(graph.growths().into_iter().map(|growth| (growth.held, 0)));

    let graph = optimise(graph, options).graph;
    let found = if options.inner.is_empty() {
        attentions(&graph, &sizes)
    } else {
        inner.iter().map(|inner| asked_for(&graph, inner)).collect::<Result<_, _>>()?
    };
    if found.is_empty() {
        return Err(Error::Code(
            "no attention is found in this model; a `let` can be shown by its name, with --node".to_owned(),
        ));
    }
    let mut b = Builder::like(&graph);
    let mut copy = tiles::Copy::new(&graph, &sizes);
    for id in graph.ids() {
        let here = found.iter().find(|found| found.attention.is_some_and(|(node, _)| node == id));
        copy.node(&mut b, id, here)?;
    }
    // Values that were asked for stand behind all others: they are not stored as they are.
    let is_asked_for = |name: &str| inner.iter().any(|inner| *inner.path == *name);
    let added = graph.outputs().iter().rev().take_while(|output| is_asked_for(&output.name)).count();
    for output in &graph.outputs()[..graph.outputs().len() - added] {
        b.store(&output.name, output.dtype);
        b.output(&output.name, &output.axes, copy.of(output.node)).expect("a result of a verified graph");
    }
    b.states_of(&graph);
    let maps = found.iter().map(|found| copy.map(&mut b, found)).collect::<Result<_, _>>()?;
    let model = Model::from_graph(b.finish(), &Options { inner: Vec::new(), ..options.clone() })?;
    Ok(Viewed { model, maps })
}

/// Weights that a graph has.
#[derive(Debug)]
struct Found {
    name: String,
    weights: Weights,
    /// The attention under them, and its operator, if that is one operator.
    attention: Option<(NodeId, FusedOp)>,
    query: AxisId,
    key: AxisId,
    /// The other axes, in order.
    others: Vec<AxisId>,
}

/// What makes weights.
#[derive(Debug)]
enum Weights {
    /// A fused operator of a row of scores, and of a score beside it.
    Of(FusedOp, NodeId, Option<NodeId>),
    /// They are a value.
    Value(NodeId),
}

impl WeightMap {
    /// The matrices of a result, one for each head, as means over tiles of queries.
    pub fn heads(&self, results: &Arrays) -> Vec<HeadWeights> {
        let Some(array) = results.get(&self.output) else { return Vec::new() };
        let (rows, columns) = (self.queries.tiles(), self.keys.tiles());
        let others = &array.shape()[..array.shape().len() - 2];
        let Some(numbers) = array.to_f32_vec() else { return Vec::new() };
        let mean = |(at, sum): (usize, &f32)| {
            let first = at / columns * self.queries.tile;
            sum / (self.queries.positions - first).min(self.queries.tile) as f32
        };
        let head = |(at, matrix): (usize, &[f32])| HeadWeights {
            position: place(at, others),
            weights: matrix.iter().enumerate().map(mean).collect(),
        };
        numbers.chunks_exact((rows * columns).max(1)).enumerate().map(head).collect()
    }
}

/// The position of an element along each axis.
fn place(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut out = vec![0; shape.len()];
    for (slot, length) in out.iter_mut().zip(shape).rev() {
        *slot = at % length;
        at /= length;
    }
    out
}

/// The attentions of an optimised graph, in the order in which they run.
fn attentions(g: &Graph, sizes: &Bindings) -> Vec<Found> {
    let mut out: Vec<Found> = Vec::new();
    for id in g.ids() {
        let Op::Fused(op, key) = *g.op(id) else { continue };
        let args = g.args(id);
        let sink = |at: usize| op.info().sink.then(|| args[at]);
        let attention = op.info().has_values().then_some((id, op));
        let (weights, values) = if attention.is_some() {
            let Some(weights) = weights_of(op) else { continue };
            (Weights::Of(weights, args[0], sink(2)), Some(args[1]))
        } else if let Some(values) = values_of(g, id, key) {
            (Weights::Of(op, args[0], sink(1)), Some(values))
        } else {
            continue;
        };
        let Some(query) = values.and_then(|values| query_of(g, (args[0], key), values, sizes)) else {
            continue;
        };
        let others = g.node(args[0]).axes.iter().filter(|axis| *axis != query && *axis != key).collect();
        let name = name_of(g, args[0]).unwrap_or_else(|| format!("attention {}", out.len()));
        out.push(Found { name, weights, attention, query, key, others });
    }
    number(&mut out);
    out
}

/// Several of one name are numbered.
fn number(found: &mut [Found]) {
    let names: Vec<String> = found.iter().map(|found| found.name.clone()).collect();
    for (at, found) in found.iter_mut().enumerate() {
        let before = names[..at].iter().filter(|name| **name == found.name).count();
        if before > 0 {
            found.name = format!("{} ({})", found.name, before + 1);
        }
    }
}

/// The operator that gives the weights under which another sums values.
fn weights_of(op: FusedOp) -> Option<FusedOp> {
    match op {
        FusedOp::Attend => Some(FusedOp::Softmax),
        FusedOp::ExpAttend => Some(FusedOp::ExpNorm),
        FusedOp::SinkAttend => Some(FusedOp::SinkSoftmax),
        FusedOp::WeightedMean => Some(FusedOp::Norm),
        // Weights that no sum divides are of any size: they are shown by their names.
        FusedOp::WeightedSum => None,
        FusedOp::Norm | FusedOp::Softmax | FusedOp::ExpNorm | FusedOp::LogSumExp | FusedOp::SinkSoftmax => {
            None
        }
    }
}

/// What is multiplied with weights and summed over the keys, if the weights are used so.
fn values_of(g: &Graph, weights: NodeId, key: AxisId) -> Option<NodeId> {
    let mut products = g.users(weights).into_iter().filter(|user| *g.op(*user) == Op::Map(MapOp::Mul));
    let summed =
        |product: &NodeId| g.users(*product).iter().any(|sum| *g.op(*sum) == Op::Reduce(ReduceOp::Sum, key));
    let product = products.find(summed)?;
    g.args(product).into_iter().find(|arg| *arg != weights && g.node(*arg).axes.contains(key))
}

/// The axis of the queries: of those that the scores have and the values have not, the longest; of equally long ones the last.
fn query_of(g: &Graph, (scores, key): (NodeId, AxisId), values: NodeId, sizes: &Bindings) -> Option<AxisId> {
    let of_values = &g.node(values).axes;
    let candidates = g.node(scores).axes.iter().filter(|axis| *axis != key && !of_values.contains(*axis));
    candidates.max_by_key(|axis| g.extent(*axis).eval(sizes).ok())
}

/// What the paths of the parameters begin with that are nearest to the products of queries and keys; where there are none, to the
/// scores.
fn name_of(g: &Graph, scores: NodeId) -> Option<String> {
    let is_product = |id: NodeId| matches!(g.op(id), Op::Reduce(ReduceOp::Sum, _));
    let product = nearest(g, scores, &is_product).first().copied();
    let is_param = |id: NodeId| matches!(g.op(id), Op::Param(_));
    let paths: Vec<&Port> =
        nearest(g, product.unwrap_or(scores), &is_param).into_iter().filter_map(|id| g.port(id)).collect();
    let mut shared: Vec<&str> = paths.first()?.name.split('.').collect();
    shared.pop();
    for port in &paths {
        let equal = shared.iter().zip(port.name.split('.')).take_while(|(a, b)| **a == *b).count();
        shared.truncate(equal);
    }
    (!shared.is_empty()).then(|| shared.join("."))
}

/// The nodes of a kind that the fewest steps lead to from a node.
fn nearest(g: &Graph, from: NodeId, is: &dyn Fn(NodeId) -> bool) -> Vec<NodeId> {
    let (mut seen, mut front) = (BTreeSet::from([from]), vec![from]);
    while !front.is_empty() {
        let found: Vec<NodeId> = front.iter().copied().filter(|id| is(*id)).collect();
        if !found.is_empty() {
            return found;
        }
        front = front.iter().flat_map(|id| g.args(*id)).filter(|arg| seen.insert(*arg)).collect();
    }
    Vec::new()
}

/// A value that was asked for by its name: its last two axes are queries and keys.
fn asked_for(g: &Graph, inner: &Inner) -> Result<Found, Error> {
    let output = g.outputs().iter().find(|output| output.name == inner.path).expect("it is a result");
    let [others @ .., query, key] = output.axes.as_slice() else {
        return Err(Error::Code(format!("`{}` is no matrix: a map has queries and keys", inner.path)));
    };
    let weights = Weights::Value(output.node);
    let (name, query, key, others) = (inner.path.to_string(), *query, *key, others.to_vec());
    Ok(Found { name, weights, attention: None, query, key, others })
}

/// The lengths of a graph's dimensions, as settings that make them constants.
#[must_use]
pub fn settings(graph: &Graph, sizes: &Bindings) -> Vec<(String, String)> {
    let grown: Vec<_> = graph.growths().into_iter().map(|growth| growth.held).collect();
    let sizes = sizes.iter().filter(|(name, _)| !grown.contains(name));
    sizes.map(|(name, length)| (name.to_string(), length.to_string())).collect()
}
