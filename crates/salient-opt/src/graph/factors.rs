//! What values are made of: the arguments of an operator, and the factors of a product, whatever its grouping.

use salient_ir::{Args, Builder, Const, Graph, MapOp, NodeId, Op};

/// Factors into which a product is taken apart, at most.
const MOST: usize = 256;

/// What a value is the product and the quotient of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Factors {
    /// What is multiplied.
    pub(crate) above: Vec<NodeId>,
    /// What divides.
    pub(crate) below: Vec<NodeId>,
}

impl Factors {
    /// The factors of a value, products and quotients for which `inner` says yes being taken apart, as long as there are
    /// not too many: a product of a product by itself has as many as it likes.
    pub(crate) fn of(g: &Graph, id: NodeId, inner: &impl Fn(NodeId) -> bool) -> Factors {
        let mut out = Factors::default();
        let mut stack = vec![(id, false)];
        while let Some((at, divides)) = stack.pop() {
            let quotient = *g.op(at) == Op::Map(MapOp::Div);
            let product = quotient || *g.op(at) == Op::Map(MapOp::Mul);
            let few = out.above.len() + out.below.len() + stack.len() < MOST;
            if product && few && (at == id || inner(at)) {
                let args = g.args(at);
                stack.extend([(args[1], divides != quotient), (args[0], divides)]);
            } else if divides {
                out.below.push(at);
            } else {
                out.above.push(at);
            }
        }
        out
    }

    /// Takes others in.
    pub(crate) fn take(&mut self, others: &Factors) {
        self.above.extend(&others.above);
        self.below.extend(&others.below);
    }
}

/// The arguments of a value, if this operator makes it.
pub(crate) fn args_of(g: &Graph, id: NodeId, op: MapOp) -> Option<Args> {
    (*g.op(id) == Op::Map(op)).then(|| g.args(id))
}

/// The arguments of an operator of which a sum may be taken term by term.
pub(crate) fn linear_in(g: &Graph, id: NodeId) -> &'static [usize] {
    let zero = Op::Const(Const::f32(0.0));
    match *g.op(id) {
        Op::Map(MapOp::Mul) => &[0, 1],
        Op::Map(MapOp::Neg | MapOp::Div) => &[0],
        Op::Map(MapOp::Select) if *g.op(g.args(id)[2]) == zero => &[1],
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => &[],
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => &[],
    }
}

/// Whether a factor is a literal that makes what it stands behind smaller, and not by much.
fn shrinks(g: &Graph, (divides, id): (bool, NodeId)) -> bool {
    let Op::Const(c) = g.op(id) else { return false };
    let size = c.value().abs();
    (1e-3..1.0).contains(&if divides { size.recip() } else { size })
}

/// The factors with more axes first, dividing where they divide: `x / r * w`. A half stands where it halves what would
/// otherwise overflow: `x * 0.5 * (1 + erf(x))`.
pub(crate) fn product_in_order(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    digests: &[u64],
    factors: &Factors,
) -> NodeId {
    let above = factors.above.iter().map(|id| (false, *id));
    let mut all: Vec<(bool, NodeId)> = above.chain(factors.below.iter().map(|id| (true, *id))).collect();
    let rank = |id: NodeId| std::cmp::Reverse(g.node(id).axes.len());
    all.sort_by_key(|(divides, id)| (rank(*id), !*divides, digests[id.index()]));
    // What divides needs something to divide.
    let first = all.iter().position(|(divides, _)| !divides).expect("something is multiplied");
    let (_, first) = all.remove(first);
    let grows = all.iter().any(|(_, id)| !g.node(*id).axes.is_empty());
    all.sort_by_key(|factor| !(grows && shrinks(g, *factor)));
    all.into_iter().fold(new[first.index()], |product, (divides, id)| {
        let op = if divides { MapOp::Div } else { MapOp::Mul };
        b.map(op, &[product, new[id.index()]]).expect("numbers as before")
    })
}
