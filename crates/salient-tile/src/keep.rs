//! Which element-wise values are stored though a strip could compute them: those that several kernels read and that are
//! dearer to compute again than to read again, such as the residual stream of a model.
//!
//! Without this, every layer would add up all layers before it. Scores of attention are never stored: they are computed
//! tile by tile wherever they are read.

use salient_ir::{AxisSet, Graph, NodeId, Op};
use std::collections::BTreeSet;

/// Additions from which on an operator is dearer than reading its result: the transcendental functions.
const DEAR: u32 = 10;

/// The element-wise nodes that are worth their memory. Each is read by several reductions, fused operators or outputs.
/// Nothing of the products `tiled`, which are computed tile by tile, is stored.
pub(crate) fn kept(g: &Graph, tiled: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let uses = uses(g);
    let of_scores = of_scores(g, tiled);
    let mut kept = BTreeSet::new();
    // Arguments come first: what is kept of them is one value to read.
    for id in g.ids() {
        let node = g.node(id);
        let candidate = matches!(node.op, Op::Map(_))
            && node.dtype.is_float()
            && !node.axes.is_empty()
            && uses[id.index()].in_several_kernels()
            && !uses[id.index()].is_score
            && !of_scores[id.index()];
        if candidate {
            let mut found =
                Inside { axes: &node.axes, kept: &kept, tensors: 0, is_dear: false, seen: BTreeSet::new() };
            found.visit(g, id, true);
            if found.tensors > 1 || found.tensors == 1 && found.is_dear {
                kept.insert(id);
            }
        }
    }
    kept
}

/// Whether each node is an expression of the products `tiled`.
pub(crate) fn of_scores(g: &Graph, tiled: &BTreeSet<NodeId>) -> Vec<bool> {
    let mut out: Vec<bool> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let passes = matches!(g.op(id), Op::Map(_) | Op::At(_) | Op::Concat(..));
        out.push(tiled.contains(&id) || passes && g.args(id).iter().any(|a| out[a.index()]));
    }
    out
}

/// Where a value goes.
#[derive(Default)]
pub(crate) struct Uses {
    /// The nodes that read it and are stored themselves; outputs count as nodes behind the last.
    readers: BTreeSet<usize>,
    /// Whether it goes to one element-wise operator alone, which is the better one to keep.
    passes_on: bool,
    /// Whether it is part of the scores of an attention.
    pub(crate) is_score: bool,
}

impl Uses {
    fn in_several_kernels(&self) -> bool {
        self.readers.len() > 1 && !self.passes_on
    }
}

/// Where the value of each node goes.
pub(crate) fn uses(g: &Graph) -> Vec<Uses> {
    let mut out: Vec<Uses> = g.ids().map(|_| Uses::default()).collect();
    for id in g.ids().rev() {
        let mut uses = Uses::default();
        let users = g.users(id);
        for (n, output) in g.outputs().iter().enumerate() {
            if output.node == id {
                uses.readers.insert(g.len() + n);
            }
        }
        uses.passes_on = uses.readers.is_empty() && users.len() == 1 && matches!(g.op(users[0]), Op::Map(_));
        for user in users {
            match g.op(user) {
                Op::Map(_) | Op::At(_) | Op::Concat(..) => {
                    uses.readers.extend(&out[user.index()].readers);
                    uses.is_score |= out[user.index()].is_score;
                }
                Op::Fused(op, _) => {
                    uses.readers.insert(user.index());
                    uses.is_score |= op.info().reduces && g.args(user)[0] == id;
                }
                Op::Reduce(..) | Op::CumSum(_) => {
                    uses.readers.insert(user.index());
                }
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
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
    is_dear: bool,
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
                self.is_dear |= op.additions() >= DEAR && whole == 1;
                g.args(id).iter().for_each(|a| self.visit(g, *a, false));
            }
            Op::At(_) => {
                self.tensors += whole;
                self.is_dear |= reads_data(g, g.args(id)[1]);
            }
            Op::Concat(..) | Op::Input(_) | Op::Param(_) | Op::Reduce(..) | Op::CumSum(_) | Op::Fused(..) => {
                self.tensors += whole;
            }
            Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
        }
    }
}

/// Whether an index is looked up.
fn reads_data(g: &Graph, id: NodeId) -> bool {
    match g.op(id) {
        Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
        Op::Map(_) => g.args(id).iter().any(|a| reads_data(g, *a)),
        Op::Input(_) | Op::Param(_) | Op::Reduce(..) | Op::At(_) => true,
        Op::Concat(..) | Op::CumSum(_) | Op::Fused(..) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{AxisId, Builder, DType, Dim, FusedOp, MapOp, ReduceOp};

    /// `x + x w`, the sum over another name of the features.
    fn residual(b: &mut Builder, x: NodeId, (d, e): (AxisId, AxisId), name: &str) -> NodeId {
        let w = b.param(name, &[d, e], DType::F32, None, None);
        let inner = b.rename(x, d, e).unwrap();
        let product = b.map(MapOp::Mul, &[inner, w]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, e, product).unwrap();
        b.map(MapOp::Add, &[x, sum]).unwrap()
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
        assert_eq!(kept(&b.finish(), &BTreeSet::new()), stream);
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
        assert_eq!(kept(&b.finish(), &BTreeSet::new()), BTreeSet::new());
    }
}
