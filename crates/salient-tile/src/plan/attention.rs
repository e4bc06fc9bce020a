//! The axes of an attention by role, and the products of queries and keys inside its scores.
//!
//! Looks at the graph alone. What is decided of the loop over keys is in the files of the folder: the keys that a row visits
//! (`key_range`), how a tile is known to be masked (`probe`), what is computed once for a row (`key_loop`), and keys in parts
//! where rows are few (`split`).

pub(crate) mod beside;
pub(crate) mod key_loop;
pub(crate) mod key_range;
pub(crate) mod leaves;
pub(crate) mod mixture;
pub(crate) mod probe;
pub(crate) mod split;
pub(crate) mod whole_rows;

use crate::defined::Defined;
use crate::dims::{LANE, ROW, index_of, n, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::Layouts;
use crate::plan::attention::beside::key_sum;
use crate::plan::attention::mixture::{mixed_heads, mixture};
use crate::plan::attention::whole_rows::reductions_inside;
use crate::plan::contraction::{is_matrix_product, is_within_rows};
use crate::plan::layouts::axis_order::is_wide;
use crate::plan::layouts::panels::peel;
use crate::plan::materialise::scatter::scatter_by_data;
use salient_ir::op::RowWeights;
use salient_ir::{AxisId, Class, DType, Dim, Direction, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp, Symbol};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What the weights of a row are divided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Normaliser {
    /// Weights are exponentials of scores, divided by their sum. A row of which every key is masked is zeros if `zeros`, else
    /// NaN.
    Softmax { zeros: bool },
    /// The scores are the weights, divided by their sum.
    Sum,
    /// The scores are the weights.
    One,
    /// There are no weights: the greatest score of each row is asked for.
    Greatest,
    /// There are no weights: the running sum of the scores along each row is asked for. Only whole rows of scores have one.
    Running(Direction),
    /// There are no weights: the scores of heads are mixed at each key. Only whole rows of scores are mixed.
    Mixture,
}

/// An attention node, its axes by role.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    pub(crate) node: NodeId,
    pub(crate) normaliser: Normaliser,
    /// The score of a key that is masked.
    pub(crate) masked: f32,
    /// The axis of the keys.
    pub(crate) key: AxisId,
    /// What of queries and keys gives the weights.
    pub(crate) score: NodeId,
    /// What the weights are summed with. Without, a row comes to the log-sum-exp of its scores, to their sum or to the
    /// greatest, by the normaliser.
    pub(crate) value: Option<NodeId>,
    /// A further score of each row, which has no value.
    pub(crate) sink: Option<NodeId>,
    /// An axis of the scores alone: rows of it share the values.
    pub(crate) query: Option<AxisId>,
    /// The longest axis of the values alone: the columns of the product with them.
    pub(crate) width: Option<AxisId>,
}

impl Attention {
    /// The same over other nodes.
    pub(crate) fn moved(&self, node: &impl Fn(NodeId) -> NodeId) -> Attention {
        let [own, score] = [self.node, self.score].map(node);
        Attention { node: own, score, value: self.value.map(node), sink: self.sink.map(node), ..self.clone() }
    }
}

/// An attention node, or a reduction of scores, without the roles of its axes.
pub(crate) fn parts(g: &Graph, node: NodeId) -> Option<Attention> {
    let args = g.args(node);
    let softmax = |zeros| Normaliser::Softmax { zeros };
    let (key, normaliser, masked, value, sink) = match *g.op(node) {
        Op::Fused(op, key) => {
            let info = op.info();
            if !info.reduces {
                return None;
            }
            let normaliser = match info.weights {
                RowWeights::Unnormalised => Normaliser::One,
                RowWeights::Share => Normaliser::Sum,
                RowWeights::Softmax => softmax(!info.sink),
                RowWeights::ExpNorm | RowWeights::LogSumExp => softmax(false),
            };
            let (value, sink) = (info.has_values().then(|| args[1]), info.sink.then(|| args[args.len() - 1]));
            (key, normaliser, info.masked(), value, sink)
        }
        Op::Reduce(op, key) if g.node(node).dtype == DType::F32 => {
            let normaliser = match op {
                ReduceOp::Sum => Normaliser::Sum,
                ReduceOp::Max => Normaliser::Greatest,
                ReduceOp::Prod | ReduceOp::Min | ReduceOp::Any | ReduceOp::All | ReduceOp::ArgMax => {
                    return None;
                }
            };
            (key, normaliser, op.info().empty as f32, None, None)
        }
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => return None,
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => return None,
    };
    Some(Attention { node, normaliser, masked, key, score: args[0], value, sink, query: None, width: None })
}

/// Whether an attention sums values that have no axis of their own: numbers, with which there is no product. A kernel goes over its
/// rows, as over those of any reduction. What may have to report an index is looked at only where it is not masked, and no such
/// kernel does that.
pub(crate) fn has_scalar_values(g: &Graph, defined: &Defined, node: NodeId) -> bool {
    let Op::Fused(op, _) = *g.op(node) else { return false };
    let args = g.args(node);
    let is_number = |value: NodeId| g.node(value).axes.is_subset(&g.node(args[0]).axes);
    op.info().has_values() && is_number(args[1]) && !defined.may_report(args[1])
}

/// The products of queries and keys that need not be stored, since nobody reads them but attentions, which compute them
/// tile by tile, and if `reduced` reductions and mixtures of scores, which do too; and those mixtures.
///
/// What is `refused` is stored though a kernel might be made for all its readers.
pub(crate) fn tiled_scores(
    g: &Graph,
    defined: &Defined,
    reduced: bool,
    refused: &BTreeSet<NodeId>,
) -> TiledScores {
    let of_input = g.of_inputs();
    let is_product = |id: NodeId| g.sum_of_products(id).is_some();
    let is_stored = |id: NodeId| matches!(g.op(id).class(), Class::Bind | Class::Port) && !is_product(id);
    let of = Among { g, defined, keeps_order: true, is_stored: &is_stored };
    // A product with a parameter is that of a layer, which others read.
    let of_inputs = |id: NodeId| {
        g.sum_of_products(id).is_some_and(|(a, b, _)| of_input[a.index()] && of_input[b.index()])
    };
    let with_products = expressions_of(g, is_product, |_| false);
    let is_scan =
        |id: NodeId| reduced && matches!(g.op(id), Op::CumSum(..)) && g.node(id).dtype == DType::F32;
    // Heads are mixed by parameters.
    let is_layer = |id: NodeId| is_product(id) && !of_inputs(id);
    let with_scores = expressions_of(g, of_inputs, is_layer);
    let mut within_rows = BTreeSet::new();
    let mut found: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    let mut mixtures = BTreeSet::new();
    for id in g.ids() {
        let reduces = matches!(g.op(id), Op::Reduce(..)) || is_scan(id);
        if reduces && !reduced || has_scalar_values(g, defined, id) {
            continue;
        }
        if reduces && scatter_by_data(g, id).is_some() {
            continue;
        }
        let among = if reduces { &with_scores } else { &with_products };
        let Some((query, inside)) = query_axis(&of, id, among) else { continue };
        if reduces && is_matrix_product(g, id) {
            if refused.contains(&id) || !query.is_some_and(|row| sums_scores(&of, id, row, among)) {
                continue;
            }
            within_rows.insert(id);
        }
        if let (true, false, Some(key)) = (reduced, inside.is_empty(), g.op(id).bound()) {
            let found = reductions_inside(g, g.args(id)[0], (key, query), is_stored);
            mixtures.extend(found.into_iter().filter(|id| mixture(g, *id, key, query).is_some()));
        }
        let again = match (g.op(id), query) {
            (Op::Reduce(_, key), Some(query)) if !inside.is_empty() => {
                made_again(&of, g.args(id)[0], (*key, query))
            }
            _ => BTreeSet::new(),
        };
        for product in inside.into_iter().filter(|p| !reduces || of_inputs(*p) && !again.contains(p)) {
            found.entry(product).or_default().insert(id);
        }
    }
    let mut beside_others: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    found.retain(|product, tiled| {
        let Some(readers) = readers(g, *product, &mixtures).filter(|_| !refused.contains(product)) else {
            return false;
        };
        let others: BTreeSet<NodeId> = readers.difference(tiled).copied().collect();
        let are_made = others.is_empty()
            || reduced && others.iter().all(|reader| may_be_beside(&of, (*reader, *product), tiled));
        if are_made && !others.is_empty() {
            beside_others.insert(*product, others);
        }
        are_made
    });
    TiledScores { products: found.into_keys().collect(), mixtures, within_rows, beside_others }
}

/// Whether a node sums products of scores along their rows, each operand made of scores itself.
fn sums_scores(of: &Among<'_>, node: NodeId, row: AxisId, among: &[bool]) -> bool {
    let Some((a, b, key)) = of.g.sum_of_products(node).filter(|_| is_within_rows(of.g, node, row)) else {
        return false;
    };
    let has_products = |x: NodeId| among[x.index()] && !inner_products(of, row, key, x).0.is_empty();
    has_products(a) && has_products(b)
}

/// The products inside what a reduction over keys reads that its kernel would make again for each position of a further axis that is
/// long: one that they lack, as that of the features of values that differ from row to row.
fn made_again(of: &Among<'_>, score: NodeId, (key, query): (AxisId, AxisId)) -> BTreeSet<NodeId> {
    let (found, _) = inner_products(of, query, key, score);
    // The heads that are mixed, and those of each product, are all there in one tile of rows.
    let held = reductions_inside(of.g, score, (key, Some(query)), of.is_stored);
    let mut heads = mixed_heads(of.g, &held, key, query);
    if !heads.is_empty() {
        let of_product = |found: &Scores| found.heads(of.g).collect::<Vec<AxisId>>();
        heads.extend(found.iter().flat_map(of_product));
    }
    let is_apart = |axis: &AxisId| *axis != key && *axis != query && !heads.contains(axis);
    let further = |axis: &AxisId| is_apart(axis) && is_wide(of.g, *axis);
    let further: Vec<Symbol> = of.g.node(score).axes.iter().filter(further).map(index_of).collect();
    let reads = |found: &Scores, index: &Symbol| {
        found.env.values().any(|value| match value {
            AxisValue::Poly(d) | AxisValue::Loose(d) => d.mentions(index),
            AxisValue::Vector(_) => true,
        })
    };
    let lacks_one = |found: &&Scores| further.iter().any(|index| !reads(found, index));
    found.iter().filter(lacks_one).map(|found| found.node).collect()
}

/// Whether the kernel of one of these attentions, which make a product, could add up what a sum over its rows makes of that.
fn may_be_beside(of: &Among<'_>, (reader, product): (NodeId, NodeId), tiled: &BTreeSet<NodeId>) -> bool {
    let g = of.g;
    tiled.iter().any(|host| {
        let Some(a) = parts(g, *host) else { return false };
        let (Op::Reduce(ReduceOp::Sum, over) | Op::Fused(FusedOp::WeightedSum, over)) = *g.op(reader) else {
            return false;
        };
        let sum = key_sum(g, reader, (a.key, over)).filter(|_| g.node(a.score).axes.contains(over));
        let makes = |score: NodeId| {
            inner_products(of, over, a.key, score).0.iter().any(|inside| inside.node == product)
        };
        // Values of rows meet the weights of an attention that has values of its own.
        sum.is_some_and(|sum| (a.value.is_some() || sum.value.is_none()) && makes(sum.attention.score))
    })
}

/// What of the scores of attentions need not be stored.
pub(crate) struct TiledScores {
    /// The products of queries and keys.
    pub(crate) products: BTreeSet<NodeId>,
    /// The mixtures of these inside of scores.
    pub(crate) mixtures: BTreeSet<NodeId>,
    /// Sums along the keys of products of two expressions of scores of one row, which the kernels of attentions make.
    pub(crate) within_rows: BTreeSet<NodeId>,
    /// Of some products the readers whose own kernels could not make them: sums over the rows of the attentions that do. They have to
    /// be stored by the kernels of those.
    pub(crate) beside_others: BTreeMap<NodeId, BTreeSet<NodeId>>,
}

impl TiledScores {
    /// The products that a node reads and that the kernel of another one makes.
    pub(crate) fn made_for(&self, reader: NodeId) -> impl Iterator<Item = NodeId> {
        self.beside_others
            .iter()
            .filter(move |(_, readers)| readers.contains(&reader))
            .map(|(product, _)| *product)
    }

    /// Whether each node is one of the products, or an expression or a mixture of them.
    pub(crate) fn expressions(&self, g: &Graph) -> Vec<bool> {
        expressions_of(g, |id| self.products.contains(&id), |id| self.mixtures.contains(&id))
    }
}

/// Whether each node is one of those, or an expression of them that a strip computes on the way, also behind nodes that pass.
fn expressions_of(g: &Graph, is_one: impl Fn(NodeId) -> bool, passes: impl Fn(NodeId) -> bool) -> Vec<bool> {
    let mut out: Vec<bool> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let passes = matches!(g.op(id), Op::Map(_) | Op::At(_) | Op::Concat(..)) || passes(id);
        out.push(is_one(id) || passes && g.args(id).iter().any(|a| out[a.index()]));
    }
    out
}

/// The nodes that read a value, as the first argument alone, through what is computed on the way and through mixtures; `None` if
/// an output does.
fn readers(g: &Graph, id: NodeId, mixtures: &BTreeSet<NodeId>) -> Option<BTreeSet<NodeId>> {
    let (mut out, mut passed, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        for (reader, read) in g.readers(id, |op| matches!(op, Op::Map(_) | Op::At(_) | Op::Concat(..)))? {
            if g.args(reader)[1..].contains(&read) {
                return None;
            }
            if !mixtures.contains(&reader) {
                out.insert(reader);
            } else if passed.insert(reader) {
                stack.push(reader);
            }
        }
    }
    Some(out)
}

/// The axis whose positions are the rows of a tile, and the products inside the scores that it allows to be computed tile
/// by tile: of the axes that the scores have and the values lack, the one that allows most. `None` if `node` is no attention.
/// Only the scores `among` are looked at for products.
pub(crate) fn query_axis(
    of: &Among<'_>,
    node: NodeId,
    among: &[bool],
) -> Option<(Option<AxisId>, Vec<NodeId>)> {
    let g = of.g;
    let Attention { key, score, value, .. } = parts(g, node).or_else(|| whole_rows::running_sum(g, node))?;
    let of_value = |a: AxisId| value.is_some_and(|v| g.node(v).axes.contains(a));
    let candidates = g.node(score).axes.iter().filter(|a| *a != key && !of_value(*a));
    let inside = |a: AxisId| {
        if among[score.index()] { inner_products(of, a, key, score).0 } else { Vec::new() }
    };
    let tried = candidates.map(|a| (Some(a), inside(a).into_iter().map(|s| s.node).collect::<Vec<NodeId>>()));
    // Of a mixture of heads the products that are mixed, and not the mixture as one of its coefficients with those.
    let innermost = |inside: &[NodeId]| Reverse(inside.iter().max().copied());
    Some(tried.max_by_key(|(a, inside)| (inside.len(), innermost(inside), *a)).unwrap_or_default())
}

/// The roles of the axes of an attention node whose result is laid out in `order`.
pub(crate) fn attention(
    g: &Graph,
    node: NodeId,
    query: Option<AxisId>,
    order: &[AxisId],
) -> Option<Attention> {
    let a = parts(g, node)?;
    let of_value = |x: &AxisId| {
        a.value.is_some_and(|v| g.node(v).axes.contains(*x)) && !g.node(a.score).axes.contains(*x)
    };
    // The longest, since scores are computed for each position of the others; of several as long as each other the innermost.
    let length = |axis: &AxisId| g.extent(*axis).as_constant().unwrap_or(i64::MAX);
    let width = order.iter().copied().filter(of_value).max_by_key(length);
    Some(Attention { query, width, ..a })
}

/// A product of queries and keys inside a score.
pub(crate) struct Scores {
    pub(crate) node: NodeId,
    pub(crate) query: NodeId,
    pub(crate) key: NodeId,
    /// The axis summed over.
    pub(crate) depth: AxisId,
    /// The product's own axes that stand for the row and for the key.
    pub(crate) row_axis: AxisId,
    pub(crate) key_axis: AxisId,
    /// What its axes stand for where it is used.
    pub(crate) env: Env,
    /// What it is scaled by, if that can be done to the queries.
    pub(crate) scale: Option<Scale>,
    /// Where the axis that stands for the key does so at a distance that falls by one from row to row: the distance. The rows of
    /// a tile then read a band of columns, each row one column further left (Dai et al., "Transformer-XL", 2019).
    pub(crate) shift: Option<Dim>,
}

impl Scores {
    /// The node whose value the product is once the queries are scaled.
    pub(crate) fn scaled(&self) -> NodeId {
        self.scale.map_or(self.node, |s| s.node)
    }

    /// The axes that number products of rows and keys: queries and keys have them both.
    pub(crate) fn heads<'g>(&'g self, g: &'g Graph) -> impl Iterator<Item = AxisId> + 'g {
        let of = |x: NodeId| &g.node(x).axes;
        let is_head = move |axis: &AxisId| of(self.query).contains(*axis) && of(self.key).contains(*axis);
        g.node(self.node).axes.iter().filter(is_head)
    }

    /// What the axes of the keys stand for where they are packed, and the ranges of the variables in that: the axis itself is the
    /// lane.
    pub(crate) fn packing(&self, g: &Graph, ranges: &Ranges) -> (Env, Ranges) {
        let (mut env, mut ranges) = (self.env.clone(), ranges.clone());
        if self.shift.is_some() {
            env.insert(self.key_axis, AxisValue::Poly(var(&LANE)));
            ranges.insert(&LANE, g.extent(self.key_axis));
        }
        (env, ranges)
    }
}

/// A graph of which some nodes are stored.
pub(crate) struct Among<'a> {
    pub(crate) g: &'a Graph,
    pub(crate) defined: &'a Defined,
    /// Whether every product is taken as written: see [`Options`](crate::Options).
    pub(crate) keeps_order: bool,
    pub(crate) is_stored: &'a dyn Fn(NodeId) -> bool,
}

/// The products inside the scores of an attention that need not be stored: each is a sum of a factor of the row by a
/// factor of the key; and the ranges of the variables in their environments.
pub(crate) fn inner_products(
    of: &Among<'_>,
    query: AxisId,
    key: AxisId,
    score: NodeId,
) -> (Vec<Scores>, Ranges) {
    let (mut env, mut ranges) = any_place(of.g, score);
    env.insert(query, AxisValue::Poly(var(&ROW)));
    env.insert(key, AxisValue::Poly(var(&LANE)));
    ranges.insert(&ROW, of.g.extent(query));
    ranges.insert(&LANE, of.g.extent(key));
    (find_scores(of, &ranges, score, &env, &ROW), ranges)
}

/// Every free axis of a node at a position of which nothing is known but that it lies inside.
fn any_place(g: &Graph, node: NodeId) -> (Env, Ranges) {
    let (mut env, mut ranges) = (Env::new(), Ranges::default());
    for axis in g.node(node).axes.iter() {
        let name = index_of(axis);
        ranges.insert(&name, g.extent(axis));
        env.insert(axis, AxisValue::Poly(var(&name)));
    }
    (env, ranges)
}

/// The products inside an expression whose axes `env` binds, the variable `row` standing for the row. A product that the
/// expression reads at several places is none of them.
pub(crate) fn find_scores(
    of: &Among<'_>,
    ranges: &Ranges,
    id: NodeId,
    env: &Env,
    row: &Symbol,
) -> Vec<Scores> {
    let (seen, refused) = (BTreeMap::new(), BTreeSet::new());
    let mut finder =
        Finder { of, ranges: Cow::Borrowed(ranges), root: env, row, seen, refused, found: Vec::new() };
    finder.visit(id, env);
    finder.found
}

impl Layouts<'_> {
    /// The products of queries and keys inside a score that are made tile by tile, the variable `row` standing for the row;
    /// `ranges` are those of the variables in `env`.
    pub(crate) fn find_scores(&self, ranges: &Ranges, score: NodeId, env: &Env, row: &Symbol) -> Vec<Scores> {
        self.among(|among| find_scores(among, ranges, score, env, row))
    }

    /// The products inside a score for rows along an axis, at any place; and the ranges of the variables in their environments.
    pub(crate) fn inner_products(&self, query: AxisId, key: AxisId, score: NodeId) -> (Vec<Scores>, Ranges) {
        self.among(|among| inner_products(among, query, key, score))
    }

    pub(in crate::plan) fn among<T>(&self, look: impl FnOnce(&Among<'_>) -> T) -> T {
        let is_stored = |id: NodeId| self.is_stored(id);
        let keeps_order = self.options.keeps_order;
        look(&Among { g: self.graph, defined: self.defined, keeps_order, is_stored: &is_stored })
    }
}

/// A product of queries and keys times, or over, what no key changes: the queries are packed so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The scaled product.
    pub(crate) node: NodeId,
    /// Multiplication or division.
    pub(crate) op: MapOp,
    /// What by.
    pub(crate) by: NodeId,
}

/// The literals by which queries are multiplied or divided before the product, which neither overflow nor leave the normal
/// numbers by it where scores do not. Other scales are of data or of dimensions: factors, of which the contract of the
/// default mode (the head of `docs/semantics.md`) says that they may be multiplied in any order.
const SMALL: std::ops::RangeInclusive<f64> = 1e-4..=1.0;

fn may_go_into_queries(g: &Graph, op: MapOp, by: NodeId) -> bool {
    let Op::Const(c) = g.op(by) else { return true };
    let size = c.value().abs();
    SMALL.contains(&if op == MapOp::Div { size.recip() } else { size })
}

/// The scale of the product `scores`, which `user` reads, if nothing else does.
pub(crate) fn scale(g: &Graph, user: NodeId, scores: &Scores, row: &Symbol) -> Option<Scale> {
    let Op::Map(op @ (MapOp::Mul | MapOp::Div)) = *g.op(user) else { return None };
    let args = g.args(user);
    let by = if args[0] == scores.node { args[1] } else { args[0] };
    if op == MapOp::Div && args[0] != scores.node {
        return None;
    }
    let fixed = |axis: AxisId| match scores.env.get(&axis) {
        Some(AxisValue::Poly(d)) => axis == scores.row_axis || !d.mentions(row) && !d.mentions(&LANE),
        Some(AxisValue::Loose(_) | AxisValue::Vector(_)) | None => false,
    };
    let alone = g.users(scores.node) == [user] && by != scores.node;
    (alone && may_go_into_queries(g, op, by) && g.node(by).axes.iter().all(fixed)).then_some(Scale {
        node: user,
        op,
        by,
    })
}

/// A walk over an expression: every node once for each place at which it is read.
struct Finder<'a> {
    of: &'a Among<'a>,
    ranges: Cow<'a, Ranges>,
    /// What axes stand for at the root of the expression.
    root: &'a Env,
    row: &'a Symbol,
    seen: BTreeMap<NodeId, Vec<Env>>,
    /// Products that have to be stored.
    refused: BTreeSet<NodeId>,
    found: Vec<Scores>,
}

impl Finder<'_> {
    fn visit(&mut self, id: NodeId, env: &Env) {
        let g = self.of.g;
        if (self.of.is_stored)(id) {
            return;
        }
        let mut env = env.clone();
        env.retain(|axis, _| g.node(id).axes.contains(*axis));
        let places = self.seen.entry(id).or_default();
        if places.contains(&env) {
            return;
        }
        places.push(env.clone());
        let args = g.args(id);
        match g.op(id) {
            Op::Map(_) => {
                for arg in args {
                    let known = self.found.len();
                    self.visit(arg, &env);
                    if let Some(new) = self.found.get_mut(known)
                        && new.node == arg
                    {
                        let scale = scale(g, id, new, self.row).filter(|_| !self.of.keeps_order);
                        new.scale = scale.filter(|scale| !self.of.defined.may_report(scale.by));
                    }
                }
            }
            Op::At(axis) => match self.ranges.evaluate(g, args[1], &env) {
                Some(index) => {
                    let inside = self.ranges.inside(&index, g.extent(*axis));
                    let mut inner = env.clone();
                    inner
                        .insert(*axis, if inside { AxisValue::Poly(index) } else { AxisValue::Loose(index) });
                    self.visit(args[0], &inner);
                }
                None => self.refuse_all(args[0]),
            },
            Op::Concat(..) => args.iter().for_each(|a| self.refuse_all(*a)),
            Op::Reduce(..) => self.product(id, &env),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::CumSum(..) | Op::Fused(..) => {}
        }
    }

    fn product(&mut self, id: NodeId, env: &Env) {
        if let Some((of, over)) = as_mixture(self.of.g, &self.ranges, id, env, self.row) {
            let mut inner = env.clone();
            let index = index_of(over);
            self.ranges.to_mut().insert(&index, self.of.g.extent(over));
            let place = self.root.get(&over).cloned().unwrap_or(AxisValue::Poly(var(&index)));
            inner.insert(over, place);
            return self.visit(of, &inner);
        }
        let elsewhere = self.seen[&id].len() > 1;
        let scores = if elsewhere { None } else { as_scores(self.of.g, &self.ranges, id, env, self.row) };
        match scores.filter(|_| !self.refused.contains(&id)) {
            Some(scores) => self.found.push(scores),
            None => self.refuse(id),
        }
    }

    fn refuse(&mut self, id: NodeId) {
        self.refused.insert(id);
        self.found.retain(|s| s.node != id);
    }

    /// Refuses every product of an expression.
    fn refuse_all(&mut self, id: NodeId) {
        let (g, mut stack, mut seen) = (self.of.g, vec![id], BTreeSet::new());
        while let Some(id) = stack.pop() {
            if (self.of.is_stored)(id) || !seen.insert(id) {
                continue;
            }
            match g.op(id).class() {
                Class::Bind => {
                    if matches!(g.op(id), Op::Reduce(..)) {
                        self.refuse(id);
                    }
                }
                Class::Map | Class::View | Class::Concat => stack.extend(g.args(id)),
                Class::Port | Class::Leaf => {}
            }
        }
    }
}

/// Whether the operand of a product varies with the row, and whether with the key.
fn role(g: &Graph, ranges: &Ranges, (x, depth): (NodeId, AxisId), env: &Env, row: &Symbol) -> (bool, bool) {
    // A head that rows share is one place, however its view is written.
    let x = peel(g, ranges, x, depth, env);
    let mentions = |symbol: &Symbol| {
        g.node(x.node).axes.iter().filter(|k| *k != depth).any(|k| match x.env.get(&k) {
            Some(AxisValue::Poly(d) | AxisValue::Loose(d)) => d.mentions(symbol),
            Some(AxisValue::Vector(_)) | None => true,
        })
    };
    (mentions(row), mentions(&LANE))
}

/// What is mixed, and over which axis, if a node is a mixture of scores.
fn as_mixture(g: &Graph, ranges: &Ranges, node: NodeId, env: &Env, row: &Symbol) -> Option<(NodeId, AxisId)> {
    let (a, b, over) = g.sum_of_products(node)?;
    let role = |x: NodeId| role(g, ranges, (x, over), env, row);
    match (role(a), role(b)) {
        ((true, true), (false, false)) => Some((a, over)),
        ((false, false), (true, true)) => Some((b, over)),
        _ => None,
    }
}

fn as_scores(g: &Graph, ranges: &Ranges, node: NodeId, env: &Env, row: &Symbol) -> Option<Scores> {
    let (a, b, depth) = g.sum_of_products(node)?;
    let role = |x: NodeId| role(g, ranges, (x, depth), env, row);
    let shifted = |query: NodeId, key: NodeId| shifted(g, (query, key, depth), env, row);
    let (query, key, axes) = match (role(a), role(b)) {
        ((true, false), (false, true)) => (a, b, plain_axes(g, node, env, row)?),
        ((false, true), (true, false)) => (b, a, plain_axes(g, node, env, row)?),
        ((true, false), (true, true)) => (a, b, shifted(a, b)?),
        ((true, true), (true, false)) => (b, a, shifted(b, a)?),
        _ => return None,
    };
    let (row_axis, key_axis, shift) = axes;
    // Heads that may lie outside of their axis have no keys to be read.
    let is_inside = |axis| axis == key_axis || matches!(env.get(&axis), Some(AxisValue::Poly(_)) | None);
    if !g.node(node).axes.iter().all(is_inside) {
        return None;
    }
    Some(Scores { node, query, key, depth, row_axis, key_axis, env: env.clone(), scale: None, shift })
}

/// The axes of a product that go through rows and keys one by one.
fn plain_axes(g: &Graph, node: NodeId, env: &Env, row: &Symbol) -> Option<(AxisId, AxisId, Option<Dim>)> {
    let step_by_step = |symbol: &Symbol| {
        let along = |k: &AxisId| matches!(env.get(k), Some(AxisValue::Poly(d)) if d.mentions(symbol));
        let axes: Vec<AxisId> = g.node(node).axes.iter().filter(along).collect();
        match axes.as_slice() {
            [one] => match env.get(one) {
                Some(AxisValue::Poly(d)) => {
                    d.linear_in(symbol).filter(|(slope, _)| *slope == n(1)).map(|_| *one)
                }
                Some(AxisValue::Loose(_) | AxisValue::Vector(_)) | None => None,
            },
            _ => None,
        }
    };
    let (row_axis, key_axis) = (step_by_step(row)?, step_by_step(&LANE)?);
    (env.get(&key_axis) == Some(&AxisValue::Poly(var(&LANE)))).then_some((row_axis, key_axis, None))
}

/// The axes of a product of a query with what lies at a distance from it: the axis of the distances is the key's, and stands for
/// the key at a distance that falls by one from row to row.
fn shifted(
    g: &Graph,
    (query, key, depth): (NodeId, NodeId, AxisId),
    env: &Env,
    row: &Symbol,
) -> Option<(AxisId, AxisId, Option<Dim>)> {
    let mentions = |k: &AxisId, symbol: &Symbol| match env.get(k) {
        Some(AxisValue::Poly(d) | AxisValue::Loose(d)) => d.mentions(symbol),
        Some(AxisValue::Vector(_)) | None => true,
    };
    let of = |x: NodeId| g.node(x).axes.iter().filter(|k| *k != depth).collect::<Vec<AxisId>>();
    let one = |found: Vec<AxisId>| if let [one] = found.as_slice() { Some(*one) } else { None };
    let row_axis = one(of(query).into_iter().filter(|k| mentions(k, row)).collect())?;
    let key_axis = one(of(key).into_iter().filter(|k| mentions(k, row) || mentions(k, &LANE)).collect())?;
    let Some(AxisValue::Poly(own)) = env.get(&row_axis) else { return None };
    let (AxisValue::Poly(place) | AxisValue::Loose(place)) = env.get(&key_axis)? else { return None };
    let (along_rows, _) = own.linear_in(row)?;
    let (along_keys, shift) = place.linear_in(&LANE)?;
    let (falls, _) = shift.linear_in(row)?;
    let fits = along_rows == n(1) && along_keys == n(1) && falls == n(-1);
    (fits && !g.node(query).axes.contains(key_axis)).then_some((row_axis, key_axis, Some(shift)))
}
