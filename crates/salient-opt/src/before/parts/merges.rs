//! Operators before merges: what an operator computes of values of which two axes were merged into one, as of the heads and the
//! channels of a context, it computes of the values themselves, and its result is merged. `exp(x[n / E, n % E])` is `exp(x)` read
//! there. So a division or a gate behind merged heads is done where the heads are made.

use crate::graph::index::AffineIndex;
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, AxisSet, Builder, Dim, Graph, MapOp, NodeId, Op};

/// The same model with operators before merges.
pub(crate) fn merges_last(g: &Graph) -> Graph {
    let rewritten = rewrite(g, |b, new, id| {
        let Op::Map(op) = *g.op(id) else { return None };
        let args: Vec<NodeId> = g.args(id).iter().map(|arg| new[arg.index()]).collect();
        let merge = args.iter().find_map(|arg| Merge::of(b, *arg))?;
        let merged = Merged::of(b, &merge, &args)?;
        merged.build(b, &merge, op)
    });
    rewritten.graph
}

/// How an axis is made of two: its positions over so many are those of the first, the remainders those of the second.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Merge {
    axis: AxisId,
    width: Dim,
}

impl Merge {
    /// What a view merges.
    fn of(g: &Graph, view: NodeId) -> Option<Merge> {
        let Op::At(_) = g.op(view) else { return None };
        Some(part(g, g.args(view)[1])?.0)
    }
}

/// Which of two merged axes an index is the position of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Quotient,
    Remainder,
}

/// The merge that an index takes a part of.
fn part(g: &Graph, index: NodeId) -> Option<(Merge, Part)> {
    let args = g.args(index);
    let part = match g.op(index) {
        Op::Map(MapOp::IntDiv) => Part::Quotient,
        Op::Map(MapOp::Mod) => Part::Remainder,
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => return None,
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => return None,
    };
    let Op::Iota(axis) = *g.op(args[0]) else { return None };
    let by = AffineIndex::of(g, args[1]).filter(|by| by.terms.is_empty())?;
    Some((Merge { axis, width: by.offset }, part))
}

/// What an operator reads before the merge.
struct Merged {
    /// Each argument, and its own names of the two axes.
    args: Vec<(NodeId, [Option<AxisId>; 2])>,
    /// The names of the two axes for all of them.
    parts: [Option<AxisId>; 2],
}

impl Merged {
    /// None if one of the arguments varies along the merged axis in another way, if there are not as many positions before, or if
    /// none reads the second axis: what repeats each value so often merges nothing.
    fn of(b: &mut Builder, merge: &Merge, args: &[NodeId]) -> Option<Merged> {
        let args: Vec<_> = args.iter().map(|arg| before(b, merge, *arg)).collect::<Option<_>>()?;
        let named = |part: usize| args.iter().find_map(|(_, parts)| parts[part]);
        let parts = [named(0), named(1)];
        let (first, _) = (parts[0]?, parts[1]?);
        let fits = |axis: Option<AxisId>, extent: &Dim| axis.is_none_or(|axis| b.extent(axis) == extent);
        let is_whole = b.extent(first) * &merge.width == *b.extent(merge.axis);
        let extents = [b.extent(first).clone(), merge.width.clone()];
        let is_equal = args
            .iter()
            .all(|(_, parts)| parts.iter().zip(&extents).all(|(axis, extent)| fits(*axis, extent)));
        if !is_whole || !is_equal {
            return None;
        }
        let clashes = |(arg, own): &(NodeId, [Option<AxisId>; 2])| {
            let others = [0, 1].into_iter().filter(|part| own[*part] != parts[*part]);
            others.filter_map(|part| parts[part]).any(|axis| b.node(*arg).axes.contains(axis))
        };
        if parts[0] != parts[1] && !args.iter().any(clashes) {
            return Some(Merged { args, parts });
        }
        let mut taken: AxisSet = b.axes().map(|(axis, _)| axis).collect();
        let fresh = parts.map(|axis| {
            let fresh = b.fresh_axis(axis?, &taken);
            taken.insert(fresh);
            Some(fresh)
        });
        Some(Merged { args, parts: fresh })
    }

    /// The operator, and the merge of its result.
    fn build(&self, b: &mut Builder, merge: &Merge, op: MapOp) -> Option<NodeId> {
        let mut args = Vec::with_capacity(self.args.len());
        for (arg, own) in &self.args {
            let names = own.iter().zip(&self.parts).filter_map(|(own, part)| Some(((*own)?, (*part)?)));
            let renamed = names.filter(|(own, part)| own != part);
            args.push(renamed.into_iter().try_fold(*arg, |arg, (own, part)| b.rename(arg, own, part)).ok()?);
        }
        let mut made = b.map(op, &args).ok()?;
        let position = b.iota(merge.axis);
        let width = b.extent_of(&merge.width);
        for (part, op) in self.parts.into_iter().zip([MapOp::IntDiv, MapOp::Mod]) {
            let Some(part) = part else { continue };
            let index = b.map(op, &[position, width]).ok()?;
            made = b.at(made, part, index).ok()?;
        }
        Some(made)
    }
}

/// A value as it is before a merge, and its names of the two axes. None if it varies along the merged axis in another way.
fn before(g: &Graph, merge: &Merge, value: NodeId) -> Option<(NodeId, [Option<AxisId>; 2])> {
    let (mut at, mut own) = (value, [None; 2]);
    while let Op::At(axis) = *g.op(at) {
        let [of, index] = [0, 1].map(|n| g.args(at)[n]);
        let Some((_, part)) = part(g, index).filter(|(found, _)| found == merge) else { break };
        let slot = match part {
            Part::Quotient => 0,
            Part::Remainder => 1,
        };
        if own[slot].replace(axis).is_some() {
            return None;
        }
        at = of;
    }
    (!g.node(at).axes.contains(merge.axis)).then_some((at, own))
}
