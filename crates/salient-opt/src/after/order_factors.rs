//! Products of several factors have one order of them.
//!
//! The rules leave the grouping of a product to the source (see `rules/README.md`, 4); here `(x * w) / r` and `x / r * w`
//! become one. What is summed over keeps its two operands: they are a contraction's.

use crate::graph::digest::digests;
use crate::graph::factors::{Factors, product_in_order};
use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use salient_ir::{DType, Graph, MapOp, NodeId, Op};

/// The same graph with the factors of every elementwise product of three or more in one order.
pub(crate) fn order_factors(g: &Graph) -> Rewritten {
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
        several.then(|| product_in_order(g, b, new, &digests, &factors))
    })
}

/// Whether a value is what a reduction or a fused operator goes over.
fn is_summed(g: &Graph, id: NodeId) -> bool {
    g.users(id).iter().any(|u| matches!(g.op(*u), Op::Reduce(..) | Op::Fused(..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Builder, Const, Dim};

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
        let texts = [0, 1, 2].map(|n| salient_ir::text::print(&order_factors(&product(n)).graph));
        assert_eq!(texts[0], texts[1]);
        assert_eq!(texts[0], texts[2]);
        assert!(texts[0].contains("x[i, j] / r[i]"), "{}", texts[0]);
    }
}
