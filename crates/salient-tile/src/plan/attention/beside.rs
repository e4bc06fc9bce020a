//! What the kernel of an attention over whole rows of scores stores beside it: numbers of each row, as the log-sum-exp and the
//! entropy; weighted sums of other values over the keys, as the gradient by the queries of another score; and sums over the rows for each
//! key: of scores, as the weight that a key receives, or of values of the rows under scores, as the gradients by keys and values; or for
//! each distance of a key from its row, as the gradient of a bias by distance. The scores are made once for all of them.

use super::key_loop::KeyLoop;
use super::whole_rows::without_values;
use super::{Attention, Normaliser};
use crate::dims::{ROW, index_of, n, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::PackedScores;
use crate::program::kernel::BufferId;
use salient_ir::{AxisId, Const, DType, Dim, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};

/// A further result that a kernel is to store, before its loops over keys are planned.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) node: NodeId,
    pub(crate) buffer: BufferId,
    pub(crate) of: StoreOf,
}

/// What a further result is of: see [`BesideOf`].
#[derive(Clone, Debug)]
pub(crate) enum StoreOf {
    Row,
    Key(Box<SumOverRows>),
    Values(Attention),
}

impl StoreOf {
    /// The sum over rows, if it is one.
    pub(crate) fn sum(&self) -> Option<&SumOverRows> {
        match self {
            StoreOf::Key(sum) => Some(sum),
            StoreOf::Row | StoreOf::Values(_) => None,
        }
    }

    /// The sum whose terms are scores or are weighted by them, over the rows or the keys.
    pub(crate) fn attention(&self) -> Option<&Attention> {
        match self {
            StoreOf::Row => None,
            StoreOf::Key(sum) => Some(&sum.attention),
            StoreOf::Values(attention) => Some(attention),
        }
    }
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
    /// A sum over rows, for each key or each distance. The rows go in parts, and the buffer has a sum for each of them.
    Key(Box<KeySum>),
    /// An expression of a weighted sum over the keys of each row, which is not divided by the sum of its weights.
    Values(Box<ValueSum>),
}

/// A weighted sum of values over the keys of each row of an attention, of which it is not the result.
#[derive(Clone, Debug)]
pub(crate) struct ValueSum {
    pub(crate) attention: Attention,
    pub(crate) key_loop: KeyLoop,
}

/// A sum over the rows of an attention, for each key or each distance of a key from its row.
#[derive(Clone, Debug)]
pub(crate) struct KeySum {
    pub(crate) of: SumOverRows,
    pub(crate) key_loop: KeyLoop,
}

/// What is added up over rows.
#[derive(Clone, Debug)]
pub(crate) struct SumOverRows {
    /// The scores, as those of an attention without values whose rows and keys are those of the attention beside it.
    pub(crate) attention: Attention,
    /// The value of each row, of which the scores are the weights; without it the scores themselves are added up.
    pub(crate) value: Option<RowValue>,
    /// The distances for each of which there is a sum; without them there is one for each key.
    pub(crate) distances: Option<Distances>,
}

/// Places of an axis that stand for distances of keys from rows: that of a key is `key - row + origin`, which lies inside the axis for
/// every key and row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Distances {
    pub(crate) axis: AxisId,
    pub(crate) origin: Dim,
}

impl SumOverRows {
    /// The axis of what there is a sum for.
    pub(crate) fn axis(&self) -> AxisId {
        self.distances.as_ref().map_or(self.attention.key, |distances| distances.axis)
    }

    /// The node that is the sum.
    pub(crate) fn node(&self) -> NodeId {
        self.attention.node
    }

    /// The axes around the rows, heads that are mixed among them.
    pub(crate) fn around(&self, g: &Graph) -> Vec<AxisId> {
        let own = [Some(self.axis()), self.width()];
        g.node(self.node()).axes.iter().filter(|axis| !own.contains(&Some(*axis))).collect()
    }

    /// The axes of all sums in the order in which they are written, those around the rows first.
    pub(crate) fn axes(&self, g: &Graph) -> Vec<AxisId> {
        self.around(g).into_iter().chain([self.axis()]).chain(self.width()).collect()
    }

    /// The axis of the columns of what each row has.
    pub(crate) fn width(&self) -> Option<AxisId> {
        self.value.map(|value| value.width)
    }
}

/// A vector for each row: the node, and the axis of its columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowValue {
    pub(crate) node: NodeId,
    pub(crate) width: AxisId,
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
            BesideOf::Values(sum) => BesideOf::Values(Box::new(ValueSum {
                attention: sum.attention.moved(node),
                key_loop: sum.key_loop.moved(node),
            })),
            BesideOf::Key(sum) => {
                let SumOverRows { attention, value, distances } = &sum.of;
                BesideOf::Key(Box::new(KeySum {
                    of: SumOverRows {
                        attention: attention.moved(node),
                        value: value.map(|value| RowValue { node: node(value.node), ..value }),
                        distances: distances.clone(),
                    },
                    key_loop: sum.key_loop.moved(node),
                }))
            }
        };
        Beside { node: node(self.node), buffer: buffer(self.buffer), of }
    }

    /// The sum over rows, if it is one.
    pub(crate) fn key_sum(&self) -> Option<&KeySum> {
        match &self.of {
            BesideOf::Row | BesideOf::Values(_) => None,
            BesideOf::Key(sum) => Some(sum),
        }
    }

    /// The weighted sum over keys, if it is one.
    pub(crate) fn value_sum(&self) -> Option<&ValueSum> {
        match &self.of {
            BesideOf::Row | BesideOf::Key(_) => None,
            BesideOf::Values(sum) => Some(sum),
        }
    }

    /// What a pass over the keys of each row is for: a sum over rows or a weighted sum over keys.
    pub(crate) fn member(&self) -> Option<(&Attention, &KeyLoop)> {
        match &self.of {
            BesideOf::Row => None,
            BesideOf::Key(sum) => Some((&sum.of.attention, &sum.key_loop)),
            BesideOf::Values(sum) => Some((&sum.attention, &sum.key_loop)),
        }
    }

    /// The same, where scores are the weights of values.
    pub(crate) fn weighted(&self) -> Option<(&Attention, &KeyLoop)> {
        self.member().filter(|_| self.key_sum().is_none_or(|sum| sum.of.value.is_some()))
    }
}

/// A node as a sum over the rows of an attention, if it is one: see [`KeySum`].
pub(crate) fn key_sum(g: &Graph, node: NodeId, (key, query): (AxisId, AxisId)) -> Option<SumOverRows> {
    if let Some(sum) = sum_by_distance(g, node, (key, query)) {
        return Some(sum);
    }
    let args = g.args(node);
    let (over, value) = if let Op::Reduce(ReduceOp::Sum, over) = *g.op(node) {
        (over, None)
    } else if let Op::Fused(FusedOp::WeightedSum, over) = *g.op(node) {
        (over, Some(row_value(g, &args, (key, query))?))
    } else {
        return None;
    };
    let axes = &g.node(args[0]).axes;
    let is_number = g.node(node).dtype == DType::F32;
    let is_one = over == query && axes.contains(query) && axes.contains(key) && is_number;
    let attention = without_values(node, Normaliser::Sum, key, args[0], Some(query));
    is_one.then_some(SumOverRows { attention, value, distances: None })
}

/// A node as a sum over rows for each distance: `sum[i](if 0 <= j and j < J then s[i, j] else 0)`, read at `j = i + d - origin`.
fn sum_by_distance(g: &Graph, node: NodeId, (key, query): (AxisId, AxisId)) -> Option<SumOverRows> {
    let Op::Reduce(ReduceOp::Sum, over) = *g.op(node) else { return None };
    let chosen = g.args(node)[0];
    let Op::Map(MapOp::Select) = *g.op(chosen) else { return None };
    let [inside, read, zero] = [0, 1, 2].map(|at| g.args(chosen)[at]);
    let Op::At(along) = *g.op(read) else { return None };
    let [score, index] = [0, 1].map(|at| g.args(read)[at]);
    let axes = &g.node(score).axes;
    let has_both = axes.contains(query) && axes.contains(key);
    let is_number = g.node(node).dtype == DType::F32 && *g.op(zero) == Op::Const(Const::f32(0.0));
    if (over, along) != (query, key) || !has_both || !is_number {
        return None;
    }
    let mut others = g.node(index).axes.iter().filter(|axis| *axis != query && !axes.contains(*axis));
    let axis = others.next().filter(|_| others.next().is_none())?;
    let env: Env = [(query, ROW.clone()), (axis, index_of(axis))]
        .into_iter()
        .map(|(axis, name)| (axis, AxisValue::Poly(var(&name))))
        .collect();
    let place = Ranges::default().evaluate(g, index, &env)?;
    let origin = &(&var(&ROW) + &var(&index_of(axis))) - &place;
    let [rows, keys, count] = [query, key, axis].map(|axis| g.extent(axis));
    // The least and the greatest place of a key: that of the first key and the last row, and the other way round.
    let least = &(&origin + &n(1)) - rows;
    let beyond_greatest = &(count - keys) - &origin;
    let covers = least.is_nonnegative() && beyond_greatest.is_nonnegative();
    let is_fixed = !origin.mentions(&ROW) && !origin.mentions(&index_of(axis));
    if !covers || !is_fixed || !says_inside(g, inside, &env, (&place, keys)) {
        return None;
    }
    let attention = without_values(node, Normaliser::Sum, key, score, Some(query));
    Some(SumOverRows { attention, value: None, distances: Some(Distances { axis, origin }) })
}

/// Whether a condition says that an index lies inside an extent, and nothing else.
fn says_inside(g: &Graph, condition: NodeId, env: &Env, (index, extent): (&Dim, &Dim)) -> bool {
    // `a <= b` and `a < b` as the difference that is not negative.
    let difference = |id: NodeId| {
        let Op::Map(op @ (MapOp::Le | MapOp::Lt)) = *g.op(id) else { return None };
        let [a, b] = [0, 1].map(|at| Ranges::default().evaluate(g, g.args(id)[at], env));
        Some(&(&b? - &a?) - &n(i64::from(op == MapOp::Lt)))
    };
    let Op::Map(MapOp::And) = *g.op(condition) else { return false };
    let found: Vec<Option<Dim>> = g.args(condition).iter().map(|id| difference(*id)).collect();
    let wanted = [index.clone(), &(extent - index) - &n(1)];
    found.len() == wanted.len() && wanted.iter().all(|wanted| found.contains(&Some(wanted.clone())))
}

/// The values of a sum over rows, if each row has its own and they have one axis of columns.
fn row_value(g: &Graph, args: &[NodeId], (key, query): (AxisId, AxisId)) -> Option<RowValue> {
    let (of_scores, axes) = (&g.node(args[0]).axes, &g.node(args[1]).axes);
    let mut columns = axes.iter().filter(|axis| !of_scores.contains(*axis));
    let width = columns.next()?;
    let is_one = columns.next().is_none() && axes.contains(query) && !axes.contains(key);
    is_one.then_some(RowValue { node: args[1], width })
}

/// The kernel that stores a further result, as it is seen from that result: the attention that it runs with, and what of the
/// expression is made there.
#[derive(Clone, Debug)]
pub(crate) struct BesideKernel {
    /// Where the attention is stored.
    pub(crate) host: BufferId,
    /// The value that the kernel makes: the result, or the sum over rows that it is an expression of.
    pub(crate) root: NodeId,
    /// The sum over rows, or the weighted sum over keys, if it is one.
    pub(crate) sum: Option<NodeId>,
    /// The products of queries and keys that the kernel makes.
    pub(crate) scores: Vec<PackedScores>,
}

/// The parts of a sum over the rows of an attention, to be added up.
#[derive(Clone, Debug)]
pub(crate) struct SumParts {
    /// The sum.
    pub(crate) sum: NodeId,
    /// Where its parts are: for each position of the axes around, each part, each key, each column.
    pub(crate) parts: BufferId,
    /// How many parts there are.
    pub(crate) count: Dim,
    pub(crate) outer: Vec<AxisId>,
    /// The axis of the keys or of the distances.
    pub(crate) axis: AxisId,
    /// The axis of the columns that the sum has for each key, if it has several.
    pub(crate) width: Option<AxisId>,
}

impl SumParts {
    /// The axes of the sum, the outermost first.
    pub(crate) fn axes(&self) -> impl Iterator<Item = AxisId> + '_ {
        self.outer.iter().copied().chain([self.axis]).chain(self.width)
    }
}
