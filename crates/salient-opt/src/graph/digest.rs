//! Digests of texts: what breaks ties, the same for the same program however it was written down.

use salient_ir::{Graph, MapOp, NodeId, Op};
use std::collections::HashMap;

/// A digest of a text and of the digests of what is below it, in that order. FNV-1a: stable across versions of the
/// compiler, unlike the standard library's hasher.
pub(crate) fn digest(text: &str, below: impl Iterator<Item = u64>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut feed = |bytes: &[u8]| {
        for b in bytes {
            hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    feed(text.as_bytes());
    below.for_each(|b| feed(&b.to_le_bytes()));
    hash
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
        Op::CumSum(direction, a) => format!("{} {}", direction.name(), name(a)),
        Op::Fused(op, a) => format!("fused {} {}", op.info().name, name(a)),
    }
}
