//! What the kernel of an attention over whole rows of scores stores beside it: numbers of each row, as the log-sum-exp and the
//! entropy, and sums over the rows for each key, as the weight that a key receives. The scores are made once for all of them.

use super::key_loop::KeyLoop;
use super::whole_rows::without_values;
use super::{Attention, Normaliser};
use crate::plan::PackedScores;
use crate::program::kernel::BufferId;
use salient_ir::{AxisId, DType, Graph, NodeId, Op, ReduceOp};

/// A further result that a kernel is to store, before that is planned: of a sum over rows that.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) node: NodeId,
    pub(crate) buffer: BufferId,
    pub(crate) sum: Option<Attention>,
}

/// A further result of the rows of an attention.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    /// What is stored, and where.
    pub(crate) node: NodeId,
    pub(crate) buffer: BufferId,
    pub(crate) of: BesideOf,
}

/// What a further result is of.
#[derive(Clone, Debug)]
pub(crate) enum BesideOf {
    /// An expression of what is held of each row.
    Row,
    /// A sum over rows, for each key. The rows go in parts, and the buffer has a sum for each of them.
    Key(KeySum),
}

/// A sum over the rows of an attention, for each key.
#[derive(Clone, Debug)]
pub(crate) struct KeySum {
    /// The sum, as an attention without values whose rows and keys are those of the attention beside it.
    pub(crate) attention: Attention,
    pub(crate) key_loop: KeyLoop,
}

impl Beside {
    /// The same over other nodes and buffers.
    pub(crate) fn moved(
        &self,
        node: &impl Fn(NodeId) -> NodeId,
        buffer: &impl Fn(BufferId) -> BufferId,
    ) -> Beside {
        let of = match &self.of {
            BesideOf::Row => BesideOf::Row,
            BesideOf::Key(sum) => BesideOf::Key(KeySum {
                attention: sum.attention.moved(node),
                key_loop: sum.key_loop.moved(node),
            }),
        };
        Beside { node: node(self.node), buffer: buffer(self.buffer), of }
    }

    /// The sum over rows, if it is one.
    pub(crate) fn key_sum(&self) -> Option<&KeySum> {
        match &self.of {
            BesideOf::Row => None,
            BesideOf::Key(sum) => Some(sum),
        }
    }
}

/// A node as a sum of scores over the rows of an attention, if it is one: see [`KeySum`].
pub(crate) fn key_sum(g: &Graph, node: NodeId, (key, query): (AxisId, AxisId)) -> Option<Attention> {
    let Op::Reduce(ReduceOp::Sum, over) = *g.op(node) else { return None };
    let score = g.args(node)[0];
    let axes = &g.node(score).axes;
    let is_number = g.node(node).dtype == DType::F32;
    let is_one = over == query && axes.contains(query) && axes.contains(key) && is_number;
    is_one.then(|| without_values(node, Normaliser::Sum, key, score, Some(query)))
}

/// The kernel that stores a further result, as it is seen from that result: the attention that it runs with, and what of the
/// expression is made there.
#[derive(Clone, Debug)]
pub(crate) struct BesideKernel {
    /// Where the attention is stored.
    pub(crate) host: BufferId,
    /// The sum over rows, if it is one.
    pub(crate) sum: Option<NodeId>,
    /// The products of queries and keys that the kernel makes.
    pub(crate) scores: Vec<PackedScores>,
}

/// The parts of a sum over the rows of an attention, to be added up.
#[derive(Clone, Debug)]
pub(crate) struct SumParts {
    /// The sum.
    pub(crate) sum: NodeId,
    /// Where its parts are: for each position of the axes around, each part, each key.
    pub(crate) parts: BufferId,
    /// How many parts there are.
    pub(crate) count: i64,
    pub(crate) outer: Vec<AxisId>,
    pub(crate) key: AxisId,
}
