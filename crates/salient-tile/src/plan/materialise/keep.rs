//! Which element-wise values are stored though a strip could compute them: those that several kernels read and that are
//! more expensive to compute again than to read again, such as the residual stream of a model; and those that are expensive and would be
//! computed again along further axes, such as the sines of rotary positions for every head.
//!
//! Without this, every layer would add up all layers before it. Scores of attention are not among them: they are
//! computed tile by tile wherever they are read.

use crate::defined::Defined;
use crate::dims::{index_of, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::contraction::is_matrix_product;
use crate::plan::layouts::axis_order::innermost;
use salient_ir::{AxisId, AxisSet, Class, Graph, MapOp, NodeId, Op};
use std::collections::BTreeSet;

/// Additions from which on an operator costs more than reading its result again, where that is read anew in each row: a division.
const WORTH_READING: u32 = 4;

/// The element-wise nodes that are worth their memory. Each is read by several reductions, fused operators or outputs.
/// Nothing `of_scores`, which are computed tile by tile, is stored, nothing that follows from a reduction of their rows, which the
/// kernel of an attention holds, and nothing that is undefined where nobody asks for it.
pub(crate) fn kept(g: &Graph, defined: &Defined, uses: &[Uses], of_scores: &[bool]) -> BTreeSet<NodeId> {
    let mut kept = BTreeSet::new();
    let reads_reduced = reading_reduced_scores(g, of_scores);
    // Arguments come first: what is kept of them is one value to read.
    for id in g.ids() {
        let node = g.node(id);
        let is_table = is_costly_table(g, id);
        let in_weights = is_table || repeats_in_weights(g, id);
        let repeats = in_weights || repeats_along_axes(g, uses, id);
        let candidate = (matches!(node.op, Op::Map(_)) || is_table)
            && node.dtype.is_float()
            && !node.axes.is_empty()
            && (uses[id.index()].in_several_kernels() || repeats)
            && (in_weights || !uses[id.index()].is_score)
            && !of_scores[id.index()]
            && !reads_reduced[id.index()]
            && defined.may_be_stored(id);
        if candidate {
            let mut found = Inside {
                axes: &node.axes,
                kept: &kept,
                tensors: 0,
                is_expensive: false,
                seen: BTreeSet::new(),
            };
            found.visit(g, id, true);
            if repeats || found.tensors > 1 || found.tensors == 1 && found.is_expensive {
                kept.insert(id);
            }
        }
    }
    kept
}

/// Whether each expression reads a reduction of scores. If such a one were stored, the scores would be made twice: before, for the
/// reduction, and for what reads the expression.
fn reading_reduced_scores(g: &Graph, of_scores: &[bool]) -> Vec<bool> {
    let mut out: Vec<bool> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let args = g.args(id);
        out.push(match g.op(id).class() {
            Class::Map => args.iter().any(|arg| out[arg.index()]),
            Class::Bind => of_scores[args[0].index()] && g.node(id).axes.len() < g.node(args[0]).axes.len(),
            Class::Port | Class::Leaf | Class::View | Class::Concat => false,
        });
    }
    out
}

/// Whether an operator is computed again for each position of further axes: in an operand of a product, if it is a transcendental
/// function, and in what strips compute, if it costs more than to read it.
fn repeats_along_axes(g: &Graph, uses: &[Uses], id: NodeId) -> bool {
    let node = g.node(id);
    let Op::Map(op) = node.op else { return false };
    let additions = op.info().additions;
    if additions < WORTH_READING || !node.dtype.is_float() {
        return false;
    }
    // The axes that the operator has where it is read are those of a view of it, if there is one.
    let (mut seen, mut stack) = (BTreeSet::new(), vec![(id, false, node.axes.clone())]);
    while let Some((at, is_repeated, own)) = stack.pop() {
        // What several kernels read is stored itself.
        let is_stored = at != id && g.op(at).class() == Class::Map && uses[at.index()].in_several_kernels();
        if !seen.insert((at, is_repeated)) || is_stored {
            continue;
        }
        let of_lanes = |axis: Option<AxisId>| axis.is_some_and(|axis| own.contains(axis));
        // A value that all lanes share is computed once for them.
        if is_repeated && g.outputs().iter().any(|out| out.node == at) && of_lanes(innermost(g, at)) {
            return true;
        }
        for user in g.users(at) {
            let mut products = g.users(user).into_iter().filter(|sum| is_matrix_product(g, *sum));
            let product = products.find_map(|sum| Some(g.sum_of_products(sum)?.2));
            match (&g.node(user).op, product) {
                // Lanes lie along what a product sums over.
                (Op::Map(_), Some(depth))
                    if is_repeated && op.info().is_costly() && of_lanes(Some(depth)) =>
                {
                    return true;
                }
                (Op::Map(_), Some(_)) => {}
                (Op::Map(_), None) => {
                    let axes = &g.node(user).axes;
                    let repeats = axes.len() > own.len() && own.is_subset(axes);
                    stack.push((user, is_repeated || repeats, own.clone()));
                }
                (Op::At(axis), _) if g.args(user)[0] == at && own.contains(*axis) => {
                    let index = &g.node(g.args(user)[1]).axes;
                    if index.len() == 1 && !reads_data(g, g.args(user)[1]) {
                        let others = own.iter().filter(|of| of != axis).chain(index.iter());
                        stack.push((user, is_repeated, others.collect()));
                    }
                }
                (Op::Reduce(_, along) | Op::CumSum(_, along), _)
                    if is_repeated && of_lanes(Some(lanes_of_reduction(g, at, *along))) =>
                {
                    return true;
                }
                (Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) | Op::At(_) | Op::Concat(..), _) => {}
                (Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_), _) => {}
            }
        }
    }
    false
}

/// Whether a value holds what is costly to compute for each distance of a row and a key, as pairs of these read it: at a place that
/// both make, along neither of which it varies.
fn is_costly_table(g: &Graph, id: NodeId) -> bool {
    if !matches!(g.op(id), Op::Map(_) | Op::At(_)) {
        return false;
    }
    let is_pair = |user: NodeId| {
        let index = g.args(user)[1];
        let axes: Vec<AxisId> = g.node(index).axes.iter().collect();
        let place: Env = axes.iter().map(|axis| (*axis, AxisValue::Poly(var(&index_of(*axis))))).collect();
        let distance = Ranges::default().evaluate(g, index, &place);
        let slope = |axis: &AxisId| distance.as_ref()?.linear_in(&index_of(*axis))?.0.as_constant();
        let slopes: Vec<Option<i64>> = axes.iter().map(slope).collect();
        let is_distance = slopes == [Some(1), Some(-1)] || slopes == [Some(-1), Some(1)];
        is_distance && axes.iter().all(|axis| !g.node(id).axes.contains(*axis))
    };
    let is_read =
        |user: &NodeId| matches!(g.op(*user), Op::At(_)) && g.args(*user)[0] == id && is_pair(*user);
    if !g.users(id).iter().any(is_read) {
        return false;
    }
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(at) = stack.pop() {
        if !seen.insert(at) || !g.node(at).dtype.is_float() {
            continue;
        }
        match *g.op(at) {
            Op::Map(op) if op.info().is_costly() => return true,
            Op::At(_) if is_looked_up(g, g.args(at)[1]) => return true,
            Op::Map(_) => stack.extend(g.args(at)),
            Op::At(_) | Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::Reduce(..) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
    }
    false
}

/// Whether an index is more than sums and products of indices.
fn is_looked_up(g: &Graph, index: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![index]);
    while let Some(id) = stack.pop() {
        match g.op(id) {
            Op::Map(MapOp::Add | MapOp::Sub | MapOp::Mul) if seen.insert(id) => stack.extend(g.args(id)),
            Op::Map(MapOp::Add | MapOp::Sub | MapOp::Mul) | Op::Iota(_) | Op::Extent(_) | Op::Const(_) => {}
            Op::Map(_) | Op::Input(_) | Op::Param(_) | Op::At(_) => return true,
            Op::Reduce(..) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => return true,
        }
    }
    false
}

/// Whether a costly operator of the keys of a fused operator would be computed again in every row of it.
fn repeats_in_weights(g: &Graph, id: NodeId) -> bool {
    let node = g.node(id);
    let Op::Map(op) = node.op else { return false };
    if op.info().additions < WORTH_READING || !node.dtype.is_float() {
        return false;
    }
    let (mut seen, mut stack) = (BTreeSet::from([id]), vec![id]);
    while let Some(at) = stack.pop() {
        for user in g.users(at) {
            if repeats_in_rows(g, id, (at, user)) {
                return true;
            }
            if g.op(user).class() == Class::Map && seen.insert(user) {
                stack.push(user);
            }
        }
    }
    false
}

/// Whether `user` is a fused operator that reads `at`, an expression of `id`, once for each row and key, `id` being the same in several
/// rows: in the scores, or in values that are one number for each of them. What an attention would store for each row is left out, since
/// an array of all pairs is what it avoids; where the weights are stored themselves, they are larger.
fn repeats_in_rows(g: &Graph, id: NodeId, (at, user): (NodeId, NodeId)) -> bool {
    let (axes, args) = (&g.node(id).axes, g.args(user));
    let Op::Fused(op, key) = *g.op(user) else { return false };
    let of_scores = &g.node(args[0]).axes;
    let value = args.get(1).copied().filter(|_| op.info().has_values());
    let wide = value.filter(|value| !g.node(*value).axes.is_subset(of_scores));
    // Beside the keys, scores share heads alone with values that have a width.
    let has_rows =
        axes.iter().any(|axis| axis != key && wide.is_none_or(|value| !g.node(value).axes.contains(axis)));
    let is_element = at == args[0] || value == Some(at) && wide.is_none();
    let is_small = !op.info().reduces || !has_rows;
    let is_shared = axes.is_subset(of_scores) && axes.len() < of_scores.len();
    axes.contains(key) && is_element && is_small && is_shared
}

/// The axis that lanes run along where an expression is reduced: that of the reduction, but for what lies in columns.
fn lanes_of_reduction(g: &Graph, root: NodeId, along: AxisId) -> AxisId {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![root]);
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        let node = g.node(id);
        match node.op.class() {
            Class::Map => stack.extend(g.args(id)),
            Class::Port | Class::Bind if g.node(root).axes.is_subset(&node.axes) => {
                let last = g.port(id).map_or_else(|| innermost(g, id), |port| port.axes.last().copied());
                return last.unwrap_or(along);
            }
            Class::Port | Class::Bind | Class::Leaf | Class::View | Class::Concat => {}
        }
    }
    along
}

/// The values of attentions that merge several axes of an array into one axis of columns, which do not lie one after the other, or
/// of which several lie side by side: what gathers them for every tile of rows takes longer than what copies them once.
pub(crate) fn gathered_values(g: &Graph, defined: &Defined) -> BTreeSet<NodeId> {
    let value = |id: NodeId| {
        let Op::Fused(op, key) = *g.op(id) else { return None };
        let args = g.args(id);
        let value = *args.get(1).filter(|_| op.info().has_values())?;
        let of_value = &g.node(value).axes;
        let has_rows = g.node(args[0]).axes.iter().any(|axis| axis != key && !of_value.contains(axis));
        let of_scores = &g.node(args[0]).axes;
        let is_joined = matches!(g.op(value), Op::Concat(columns, _) if !of_scores.contains(*columns));
        let is_copied = is_joined || is_gathered(g, value, of_scores);
        (has_rows && is_copied && defined.may_be_stored(value)).then_some(value)
    };
    g.ids().filter_map(value).collect()
}

/// The operands of products that consist of several values, one behind the other: a product reads each element many times, and would
/// ask each time which of them it is of.
pub(crate) fn joined_operands(g: &Graph, defined: &Defined) -> BTreeSet<NodeId> {
    let is_operand = |id: NodeId| {
        let (mut seen, mut views) = (BTreeSet::new(), vec![id]);
        while let Some(at) = views.pop() {
            for user in g.users(at) {
                if g.users(user).into_iter().any(|sum| is_matrix_product(g, sum)) {
                    return true;
                }
                if matches!(g.op(user), Op::At(_)) && g.args(user)[0] == at && seen.insert(user) {
                    views.push(user);
                }
            }
        }
        false
    };
    let is_joined = |id: &NodeId| matches!(g.op(*id), Op::Concat(..)) && g.node(*id).dtype.is_float();
    g.ids().filter(is_joined).filter(|id| defined.may_be_stored(*id) && is_operand(*id)).collect()
}

/// Whether a value merges axes of an input or a parameter that are not its last ones into an axis that the scores do not have.
fn is_gathered(g: &Graph, value: NodeId, of_scores: &AxisSet) -> bool {
    let (mut base, mut merged) = (value, BTreeSet::new());
    while let Op::At(axis) = *g.op(base) {
        let [of, index] = [0, 1].map(|n| g.args(base)[n]);
        if let Op::Map(MapOp::IntDiv | MapOp::Mod) = g.op(index)
            && let Op::Iota(columns) = *g.op(g.args(index)[0])
            && !of_scores.contains(columns)
        {
            merged.insert(axis);
        }
        base = of;
    }
    let Some(port) = g.port(base) else { return false };
    let last = port.axes.iter().rev().take(merged.len());
    !merged.is_empty() && !last.copied().all(|axis| merged.contains(&axis))
}

/// Where a value goes.
#[derive(Default)]
pub(crate) struct Uses {
    /// Those that read it and are stored themselves.
    readers: Readers,
    /// Whether it goes to one element-wise operator alone, which is the better one to keep.
    passes_on: bool,
    /// Whether it is part of the scores of an attention.
    pub(crate) is_score: bool,
}

/// How many nodes read a value; outputs count as nodes behind the last.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Readers {
    #[default]
    None,
    /// One alone, by position.
    One(usize),
    Several,
}

impl Readers {
    /// These and others: the same one counts once.
    fn and(self, other: Readers) -> Readers {
        match (self, other) {
            (Readers::None, some) | (some, Readers::None) => some,
            (Readers::One(a), Readers::One(b)) if a == b => self,
            (Readers::One(_) | Readers::Several, Readers::One(_) | Readers::Several) => Readers::Several,
        }
    }

    fn add(&mut self, other: Readers) {
        *self = self.and(other);
    }
}

impl Uses {
    fn in_several_kernels(&self) -> bool {
        self.readers == Readers::Several && !self.passes_on
    }
}

/// Where the value of each node goes.
pub(crate) fn uses(g: &Graph) -> Vec<Uses> {
    let mut out: Vec<Uses> = g.ids().map(|_| Uses::default()).collect();
    for (n, output) in g.outputs().iter().enumerate() {
        out[output.node.index()].readers.add(Readers::One(g.len() + n));
    }
    for id in g.ids().rev() {
        let mut uses = std::mem::take(&mut out[id.index()]);
        let users = g.users(id);
        uses.passes_on =
            uses.readers == Readers::None && users.len() == 1 && matches!(g.op(users[0]), Op::Map(_));
        for user in users {
            match g.op(user).class() {
                Class::Map | Class::View | Class::Concat => {
                    uses.readers.add(out[user.index()].readers);
                    uses.is_score |= out[user.index()].is_score;
                }
                Class::Bind => {
                    uses.readers.add(Readers::One(user.index()));
                    if let Op::Fused(op, _) = g.op(user) {
                        uses.is_score |= op.info().reduces && g.args(user)[0] == id;
                    }
                }
                Class::Port | Class::Leaf => {}
            }
        }
        out[id.index()] = uses;
    }
    out
}

/// What an expression is made of.
struct Inside<'a> {
    axes: &'a AxisSet,
    kept: &'a BTreeSet<NodeId>,
    /// Tensors that it reads of which each has all its axes.
    tensors: usize,
    /// Whether computing it takes more than arithmetic: a transcendental function, or a gather.
    is_expensive: bool,
    seen: BTreeSet<NodeId>,
}

impl Inside<'_> {
    fn visit(&mut self, g: &Graph, id: NodeId, root: bool) {
        if !self.seen.insert(id) {
            return;
        }
        let node = g.node(id);
        let whole = usize::from(self.axes.is_subset(&node.axes));
        if !root && self.kept.contains(&id) {
            self.tensors += whole;
            return;
        }
        match &node.op {
            Op::Map(op) => {
                self.is_expensive |= op.info().is_costly() && whole == 1;
                g.args(id).iter().for_each(|a| self.visit(g, *a, false));
            }
            Op::At(_) => {
                self.tensors += whole;
                self.is_expensive |= reads_data(g, g.args(id)[1]);
            }
            Op::Concat(..)
            | Op::Input(_)
            | Op::Param(_)
            | Op::Reduce(..)
            | Op::CumSum(..)
            | Op::Fused(..) => {
                self.tensors += whole;
            }
            Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
        }
    }
}

/// Whether an index is looked up.
pub(crate) fn reads_data(g: &Graph, id: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        match g.op(id).class() {
            Class::Leaf => {}
            Class::Map if seen.insert(id) => stack.extend(g.args(id)),
            Class::Map => {}
            Class::Port | Class::View | Class::Concat | Class::Bind => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defined::defined;
    use salient_ir::{Builder, DType, Dim, FusedOp, ReduceOp};

    /// `x + x w`, the sum over another name of the features.
    fn residual(b: &mut Builder, x: NodeId, (d, e): (AxisId, AxisId), name: &str) -> NodeId {
        let w = b.param(name, &[d, e], DType::F32, None, None);
        let inner = b.rename(x, d, e).unwrap();
        let product = b.map(MapOp::Mul, &[inner, w]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, e, product).unwrap();
        b.map(MapOp::Add, &[x, sum]).unwrap()
    }

    /// What is kept where no scores are tiled.
    fn kept_of(g: &Graph) -> BTreeSet<NodeId> {
        kept(g, &defined(g).1, &uses(g), &vec![false; g.len()])
    }

    #[test]
    fn a_residual_is_read_and_not_added_up_again() {
        let mut b = Builder::new("m");
        let (big, wide) = (Dim::symbol("T"), Dim::symbol("D"));
        let (t, d, e) = (b.axis_id("t", &big), b.axis_id("d", &wide), b.axis_id("e", &wide));
        let mut x = b.input("x", &[t, d], DType::F32, None);
        let mut stream = BTreeSet::new();
        for name in ["w.0", "w.1", "w.2"] {
            x = residual(&mut b, x, (d, e), name);
            stream.insert(x);
        }
        b.output("y", &[t, d], x).unwrap();
        // The last one is an output and has no other reader.
        stream.remove(&x);
        assert_eq!(kept_of(&b.finish()), stream);
    }

    #[test]
    fn sines_of_positions_are_not_computed_for_every_head() {
        let mut b = Builder::new("m");
        let (h, t, s) = ("H", "T", "S");
        let [h, t, s] = [("h", h), ("t", t), ("s", s)].map(|(name, of)| b.axis_id(name, &Dim::symbol(of)));
        let e = b.axis_id("e", &Dim::symbol("E"));
        let [q, k] = [("q", t), ("k", s)].map(|(name, row)| b.input(name, &[h, row, e], DType::F32, None));
        let angle = b.input("angle", &[t, e], DType::F32, None);
        let gate = b.input("gate", &[h, t], DType::F32, None);
        let sine = b.map(MapOp::Sin, &[angle]).unwrap();
        // A number of each row is computed once for the lanes along it.
        let gate = b.map(MapOp::Tanh, &[gate]).unwrap();
        let turned = b.map(MapOp::Mul, &[q, sine]).unwrap();
        let gated = b.map(MapOp::Mul, &[turned, gate]).unwrap();
        let factors = b.map(MapOp::Mul, &[gated, k]).unwrap();
        let score = b.reduce(ReduceOp::Sum, e, factors).unwrap();
        b.output("score", &[h, t, s], score).unwrap();
        assert_eq!(kept_of(&b.finish()), BTreeSet::from([sine]));
    }

    #[test]
    fn sines_that_are_read_under_another_name_are_not_computed_for_every_head() {
        let mut b = Builder::new("m");
        let [h, t, s, e] = [("h", "H"), ("t", "T"), ("s", "T"), ("e", "E")]
            .map(|(name, of)| b.axis_id(name, &Dim::symbol(of)));
        let [q, k] = [("q", t), ("k", s)].map(|(name, row)| b.input(name, &[h, row, e], DType::F32, None));
        let angle = b.input("angle", &[t, e], DType::F32, None);
        let sine = b.map(MapOp::Sin, &[angle]).unwrap();
        let of_keys = b.rename(sine, t, s).unwrap();
        let keys = b.map(MapOp::Mul, &[k, of_keys]).unwrap();
        let factors = b.map(MapOp::Mul, &[q, keys]).unwrap();
        let score = b.reduce(ReduceOp::Sum, e, factors).unwrap();
        b.output("score", &[h, t, s], score).unwrap();
        assert_eq!(kept_of(&b.finish()), BTreeSet::from([sine]));
    }

    #[test]
    fn what_a_product_reads_of_several_values_is_stored_once() {
        let joined = |is_multiplied: bool| {
            let mut b = Builder::new("m");
            let t = b.axis_id("t", &Dim::symbol("T"));
            let [p, q, f] = ["P", "Q", "F"].map(|d| b.axis_id(&d.to_lowercase(), &Dim::symbol(d)));
            let both = b.axis_id("both", &(b.extent(p) + b.extent(q)));
            let [x, y] = [("x", p), ("y", q)].map(|(name, axis)| b.input(name, &[t, axis], DType::F32, None));
            let w = b.input("w", &[both, f], DType::F32, None);
            let joined = b.add(Op::Concat(both, [p, q].into_iter().collect()), &[x, y]).unwrap();
            let op = if is_multiplied { MapOp::Mul } else { MapOp::Add };
            let terms = b.map(op, &[joined, w]).unwrap();
            let sum = b.reduce(ReduceOp::Sum, both, terms).unwrap();
            b.output("sum", &[t, f], sum).unwrap();
            let g = b.finish();
            (joined_operands(&g, &defined(&g).1), joined)
        };
        let (stored, concat) = joined(true);
        assert_eq!(stored, BTreeSet::from([concat]));
        assert_eq!(joined(false).0, BTreeSet::new());
    }

    /// Whether the hyperbolic tangent of a tensor over those axes is stored, where it is a score of an attention over heads, rows and keys
    /// whose values lie over heads, keys and features.
    fn is_kept_in_scores(axes: &[&str]) -> bool {
        let mut b = Builder::new("m");
        let all: Vec<(&str, AxisId)> = ["h", "t", "s", "e"]
            .map(|name| (name, b.axis_id(name, &Dim::symbol(&*name.to_uppercase()))))
            .to_vec();
        let of = |names: &[&str]| -> Vec<AxisId> {
            all.iter().filter(|(name, _)| names.contains(name)).map(|(_, axis)| *axis).collect()
        };
        let bias = b.input("bias", &of(axes), DType::F32, None);
        let score = b.input("score", &of(&["h", "t", "s"]), DType::F32, None);
        let v = b.input("v", &of(&["h", "s", "e"]), DType::F32, None);
        let bent = b.map(MapOp::Tanh, &[bias]).unwrap();
        let sum = b.map(MapOp::Add, &[score, bent]).unwrap();
        let context = b.add(Op::Fused(FusedOp::Attend, of(&["s"])[0]), &[sum, v]).unwrap();
        b.output("context", &of(&["h", "t", "e"]), context).unwrap();
        kept_of(&b.finish()).contains(&bent)
    }

    #[test]
    fn what_depends_on_keys_alone_is_not_computed_in_every_row() {
        assert!(is_kept_in_scores(&["s"]) && is_kept_in_scores(&["h", "s"]));
        // An array of all pairs is not stored, nor what a row computes once.
        assert!(!is_kept_in_scores(&["t", "s"]) && !is_kept_in_scores(&["h", "t"]));
    }

    #[test]
    fn scores_are_not_kept_for_several_attentions() {
        let mut b = Builder::new("m");
        let (i, j) = (b.axis_id("i", &Dim::symbol("T")), b.axis_id("j", &Dim::symbol("S")));
        let [p, q] = ["p", "q"].map(|name| b.input(name, &[i, j], DType::F32, None));
        let v = b.input("v", &[j], DType::F32, None);
        let score = b.map(MapOp::Add, &[p, q]).unwrap();
        let context = b.add(Op::Fused(FusedOp::Attend, j), &[score, v]).unwrap();
        let lse = b.add(Op::Fused(FusedOp::LogSumExp, j), &[score]).unwrap();
        b.output("context", &[i], context).unwrap();
        b.output("lse", &[i], lse).unwrap();
        assert_eq!(kept_of(&b.finish()), BTreeSet::new());
    }
}
