//! Products of several factors, after extraction: one order of the factors, and what a product is made of.
//!
//! The rules leave the grouping of a product to the source (see `rules/README.md`, 4); here `(x * w) / r` and `x / r * w`
//! become one. What is summed over keeps its two operands: they are a contraction's.

use crate::digest::digest;
use crate::rewrite::{copy, finish, rewrite};
use salient_ir::{Builder, DType, Graph, MapOp, NodeId, Op};
use std::collections::HashMap;

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
}

/// The same graph with the factors of every elementwise product of three or more in one order, and the new id of each
/// node that is still there.
pub(crate) fn order_factors(g: &Graph) -> (Graph, Vec<Option<NodeId>>) {
    let digests = digests(g);
    let product =
        |id: NodeId| g.node(id).dtype == DType::F32 && matches!(g.op(id), Op::Map(MapOp::Mul | MapOp::Div));
    // Part of the product of its only user, which is elementwise.
    let inner = |id: NodeId| {
        let users = g.users(id);
        product(id)
            && users.len() == 1
            && product(users[0])
            && !is_summed(g, users[0])
            && g.outputs().iter().all(|o| o.node != id)
    };
    rewrite_in_order(g, |b, new, id| {
        let factors = (product(id) && !inner(id) && !is_summed(g, id)).then(|| Factors::of(g, id, &inner))?;
        let several = factors.above.len() + factors.below.len() > 2;
        several.then(|| in_order(g, b, new, &digests, &factors))
    })
}

/// As [`rewrite`], with the nodes in the order in which the outputs come to need them.
pub(crate) fn rewrite_in_order(
    g: &Graph,
    make: impl FnMut(&mut Builder, &[NodeId], NodeId) -> Option<NodeId>,
) -> (Graph, Vec<Option<NodeId>>) {
    let (graph, live) = rewrite(g, make);
    let (graph, moved) = in_order_of_use(&graph);
    let new = live.into_iter().map(|id| moved[id?.index()]).collect();
    (graph, new)
}

/// The same graph with its nodes in the order in which the outputs come to need them, which no spelling changes, and the
/// new id of each node that is still there.
fn in_order_of_use(g: &Graph) -> (Graph, Vec<Option<NodeId>>) {
    let mut b = Builder::like(g);
    let mut new: Vec<Option<NodeId>> = vec![None; g.len()];
    for out in g.outputs() {
        // With a stack of its own: models are deep.
        let mut stack = vec![out.node];
        while let Some(id) = stack.last().copied() {
            let missing: Vec<NodeId> = g.args(id).into_iter().filter(|a| new[a.index()].is_none()).collect();
            if new[id.index()].is_none() && !missing.is_empty() {
                stack.extend(missing.into_iter().rev());
                continue;
            }
            stack.pop();
            if new[id.index()].is_none() {
                let node = copy(g, &mut b, id, |arg| new[arg.index()].expect("none is missing"));
                b.describe(node, g.node(id).name.as_ref(), g.node(id).origin);
                new[id.index()] = Some(node);
            }
        }
        let node = new[out.node.index()].expect("just built");
        b.output(&out.name, &out.axes, node).expect("axes are as before");
    }
    let roots: Vec<NodeId> = b.outputs().iter().map(|o| o.node).collect();
    let (graph, moved) = finish(b, &roots);
    let new = new.into_iter().map(|id| moved[id?.index()]).collect();
    (graph, new)
}

/// Whether a value is what a reduction or a fused operator goes over.
fn is_summed(g: &Graph, id: NodeId) -> bool {
    g.users(id).iter().any(|u| matches!(g.op(*u), Op::Reduce(..) | Op::Fused(..)))
}

/// Whether a factor is a literal that makes what it stands behind smaller, and not by much.
fn shrinks(g: &Graph, (divides, id): (bool, NodeId)) -> bool {
    let Op::Const(c) = g.op(id) else { return false };
    let size = c.value().abs();
    (1e-3..1.0).contains(&if divides { size.recip() } else { size })
}

/// The factors with more axes first, dividing where they divide: `x / r * w`. A half stands where it halves what would
/// otherwise overflow: `x * 0.5 * (1 + erf(x))`.
pub(crate) fn in_order(
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

/// A digest of each node down to the leaves that no order or grouping of factors or addends changes.
pub(crate) fn digests(g: &Graph) -> Vec<u64> {
    let mix = |text: &str, below: &[u64]| digest(text, below.iter().copied());
    let mut out: Vec<u64> = Vec::with_capacity(g.len());
    // The sum over the factors of each product; what divides counts as another factor.
    let mut bags: HashMap<NodeId, u64> = HashMap::new();
    for id in g.ids() {
        let args = g.args(id);
        let bag = |out: &[u64], arg: NodeId| {
            bags.get(&arg).copied().unwrap_or_else(|| mix("factor", &[out[arg.index()]]))
        };
        let factors = if let Op::Map(MapOp::Mul) = g.op(id) {
            Some(args.iter().fold(0u64, |sum, a| sum.wrapping_add(bag(&out, *a))))
        } else if let Op::Map(MapOp::Div) = g.op(id) {
            Some(bag(&out, args[0]).wrapping_sub(bag(&out, args[1])))
        } else {
            None
        };
        let digest = match factors {
            Some(sum) => {
                bags.insert(id, sum);
                mix("product", &[sum])
            }
            None => {
                let mut below: Vec<u64> = args.iter().map(|a| out[a.index()]).collect();
                if let Op::Map(op) = g.op(id)
                    && op.info().commutative
                {
                    below.sort_unstable();
                }
                mix(&described(g, g.op(id)), &below)
            }
        };
        out.push(digest);
    }
    out
}

/// An operator in words: axes by name, so that no numbering shows.
fn described(g: &Graph, op: &Op) -> String {
    let name = |axis: &salient_ir::AxisId| g.axis(*axis).name.to_string();
    match op {
        Op::Input(n) => format!("input {}", g.inputs()[*n].name),
        Op::Param(n) => format!("param {}", g.params()[*n].name),
        Op::Const(c) => format!("{c:?}"),
        Op::Iota(a) => format!("iota {}", name(a)),
        Op::Extent(dim) => format!("extent {dim}"),
        Op::Map(op) => op.info().name.to_owned(),
        Op::Reduce(op, a) => format!("reduce {} {}", op.info().name, name(a)),
        Op::At(a) => format!("at {}", name(a)),
        Op::Concat(a, parts) => {
            format!("concat {} {}", name(a), parts.iter().map(name).collect::<Vec<_>>().join(" "))
        }
        Op::CumSum(a) => format!("cumsum {}", name(a)),
        Op::Fused(op, a) => format!("fused {} {}", op.info().name, name(a)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Const, Dim};

    /// `x / r * w * 2` over `i, j`, grouped in one of three ways.
    fn product(grouping: usize) -> Graph {
        let mut b = Builder::new("m");
        let (i, j) = (b.axis_id("i", &Dim::symbol("I")), b.axis_id("j", &Dim::symbol("J")));
        let x = b.input("x", &[i, j], DType::F32, None);
        let r = b.input("r", &[i], DType::F32, None);
        let w = b.input("w", &[j], DType::F32, None);
        let two = b.constant(Const::f32(2.0));
        let mut map = |op, x, y| b.map(op, &[x, y]).unwrap();
        let y = match grouping {
            0 => {
                let (quotient, doubled) = (map(MapOp::Div, x, r), map(MapOp::Mul, two, w));
                map(MapOp::Mul, quotient, doubled)
            }
            1 => {
                let xw = map(MapOp::Mul, w, x);
                let doubled = map(MapOp::Mul, xw, two);
                map(MapOp::Div, doubled, r)
            }
            _ => {
                let gain = map(MapOp::Div, w, r);
                let doubled = map(MapOp::Mul, two, x);
                map(MapOp::Mul, gain, doubled)
            }
        };
        b.output("y", &[i, j], y).unwrap();
        b.finish()
    }

    #[test]
    fn the_grouping_of_a_product_does_not_matter() {
        let texts = [0, 1, 2].map(|n| salient_ir::text::print(&order_factors(&product(n)).0));
        assert_eq!(texts[0], texts[1]);
        assert_eq!(texts[0], texts[2]);
        assert!(texts[0].contains("x[i, j] / r[i]"), "{}", texts[0]);
    }
}
