//! What a kernel computes and reads: the expression from the node that it stores down to what is stored.

use super::{Anchor, Layouts, Tiled};
use crate::dims::{n, product};
use crate::plan::attention::Attention;
use crate::plan::attention::beside::BesideKernel;
use crate::plan::attention::whole_rows::WholeRows;
use crate::program::kernel::{Buffer, BufferId};
use salient_ir::{AxisId, Dim, Graph, NodeId, Op, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// What a kernel computes and reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expression {
    /// The nodes that it computes.
    pub(crate) computes: BTreeSet<NodeId>,
    /// The buffers that it may read.
    pub(crate) reads: BTreeSet<BufferId>,
    /// Whether it may have to report an index outside its axis.
    pub(crate) reports: bool,
}

/// Where the walk over an expression begins, and where it leaves what is stored aside.
#[derive(Default)]
struct Walk {
    roots: Vec<NodeId>,
    /// An attention that the kernel computes, wherever else it is stored.
    own: Option<NodeId>,
    /// Products with those of their operands that are read where their values are stored; the others are read in a form of
    /// their own.
    products: BTreeMap<NodeId, Vec<NodeId>>,
    /// What is read of operands in a form of their own.
    reads: BTreeSet<BufferId>,
}

impl Walk {
    fn of(node: NodeId, anchor: &Anchor) -> Walk {
        let mut walk = Walk { roots: vec![node], ..Walk::default() };
        match anchor {
            Anchor::Append(part) => walk.roots = vec![part.node],
            Anchor::Gemm(gemm) => {
                walk.reads
                    .extend([gemm.panels.id].into_iter().chain(gemm.left.rows().and_then(|r| r.buffer())));
                let left = if gemm.left.rows().is_some() { Vec::new() } else { vec![gemm.contraction.left] };
                walk.products.insert(gemm.contraction.node, left);
            }
            Anchor::Tiled(Tiled { attention, scores, .. })
            | Anchor::WholeRows(WholeRows { attention, scores, .. }) => {
                walk.own = Some(attention.node);
                walk.reads.extend(scores.iter().map(|s| s.keys.id));
                walk.products.extend(scores.iter().map(|s| (s.product, vec![s.query])));
            }
            Anchor::Beside(of) => {
                walk.roots = vec![of.root];
                walk.reads.extend(of.scores.iter().map(|s| s.keys.id));
                walk.products.extend(of.scores.iter().map(|s| (s.product, vec![s.query])));
            }
            Anchor::SumParts(of) => {
                walk.products.insert(of.sum, Vec::new());
                walk.reads.insert(of.parts);
            }
            Anchor::Merge(split) => {
                walk.products.insert(split.attention.node, split.sink.into_iter().collect());
                walk.reads.insert(split.parts.id);
            }
            Anchor::SplitKv(split) => {
                let a = &split.attention;
                walk.roots = vec![a.node];
                walk.products.insert(a.node, [a.score].into_iter().chain(a.value).collect());
            }
            Anchor::Map(_) | Anchor::Alias(_) | Anchor::Rows { .. } | Anchor::Reduction { .. } => {}
            Anchor::Columns { .. } | Anchor::Scatter(_) | Anchor::Pack(_) => {}
        }
        walk
    }
}

impl Layouts<'_> {
    /// What a kernel around an anchor computes and reads.
    pub(crate) fn expression(&self, node: NodeId, anchor: &Anchor) -> Expression {
        let (g, defined) = (self.graph, self.defined);
        let Walk { mut roots, own, products, reads } = Walk::of(node, anchor);
        let mut out = Expression { reads, ..Expression::default() };
        let mut seen = BTreeSet::new();
        while let Some(id) = roots.pop() {
            if !seen.insert(id) {
                continue;
            }
            if let Some(operands) = products.get(&id) {
                out.computes.insert(id);
                roots.extend(operands);
                continue;
            }
            match self.stored.get(&id).filter(|_| own != Some(id)) {
                Some(stored) => {
                    out.reads.extend(stored.buffer());
                    // What is stored without having been looked at is looked at by its readers.
                    if defined.may_report(id) && !defined.is_settled(g, id) {
                        out.reports = true;
                        roots.extend(g.args(id));
                    }
                }
                None => {
                    out.computes.insert(id);
                    out.reports |= defined.is_open_view(id);
                    roots.extend(g.args(id));
                }
            }
        }
        out
    }
}

impl Expression {
    /// The symbols whose values a kernel needs that computes this and reads and writes these buffers.
    pub(crate) fn symbols<'b>(
        &self,
        g: &Graph,
        buffers: impl Iterator<Item = &'b Buffer>,
    ) -> BTreeSet<Symbol> {
        let mut out: BTreeSet<Symbol> = buffers.flat_map(|b| &b.shape).flat_map(Dim::symbols).collect();
        for id in &self.computes {
            out.extend(g.node(*id).axes.iter().flat_map(|a| g.extent(a).symbols()));
            out.extend(g.op(*id).axes().iter().flat_map(|a| g.extent(*a).symbols()));
            if let Op::Extent(dim) = g.op(*id) {
                out.extend(dim.symbols());
            }
        }
        out
    }
}

/// Floating-point operations of a kernel around an anchor that stores a buffer: those of its products, or else a few for each
/// element that it goes through.
pub(crate) fn flops(g: &Graph, buffer: &Buffer, anchor: &Anchor) -> Dim {
    let elements = product(&buffer.shape);
    let along = || g.op(buffer.node).bound().map_or_else(|| n(1), |axis| g.extent(axis).clone());
    match anchor {
        Anchor::Alias(_) => n(0),
        Anchor::Map(_) | Anchor::Pack(_) => elements,
        Anchor::Append(part) => product(&g.shape(&part.axes)),
        // Each term is added once.
        Anchor::Scatter(of) => {
            let around = buffer.axes.iter().filter(|axis| **axis != of.position).chain(&of.over);
            around.fold(n(1), |count, axis| &count * g.extent(*axis))
        }
        Anchor::Rows { held, .. } => {
            let reductions = held.iter().filter(|id| matches!(g.op(**id), Op::Reduce(..))).count();
            &elements * &n(reductions as i64 + 1)
        }
        Anchor::Columns { .. } | Anchor::Reduction { .. } => match g.op(buffer.node) {
            Op::Reduce(..) => &elements * &along(),
            // The greatest, a difference, an exponential, a sum; of values a product and a sum more.
            Op::Fused(op, _) if op.info().reduces => {
                &(&elements * &along()) * &n(if op.info().has_values() { 6 } else { 4 })
            }
            // And a quotient.
            Op::Fused(..) => &elements * &n(5),
            Op::CumSum(..) | Op::Map(_) | Op::At(_) | Op::Concat(..) => elements,
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => elements,
        },
        Anchor::Gemm(gemm) => &(&elements * g.extent(gemm.contraction.depth)) * &n(2),
        Anchor::Tiled(Tiled { attention: a, scores, .. })
        | Anchor::WholeRows(WholeRows { attention: a, scores, .. }) => {
            let rows = buffer.axes.iter().copied().filter(|axis| Some(*axis) != a.width);
            of_attention(g, rows, a, scores.iter().map(|s| s.product))
        }
        Anchor::SplitKv(split) => {
            let rows = split.parts.held.iter().copied().chain(split.parts.query);
            of_attention(g, rows, &split.attention, split.products.iter().copied())
        }
        Anchor::Merge(split) => &elements * &(&split.parts.count * &n(2)),
        // Of values there is a product, over the rows or the keys; else an addition or an expression.
        Anchor::Beside(BesideKernel { sum: Some(sum), .. }) if matches!(g.op(*sum), Op::Fused(..)) => {
            let over = g.op(*sum).bound().map_or_else(|| n(1), |axis| g.extent(axis).clone());
            &(&elements * &over) * &n(2)
        }
        Anchor::Beside(_) | Anchor::SumParts(_) => elements,
    }
}

/// Operations of the products of an attention, for rows at each position of these axes.
fn of_attention(
    g: &Graph,
    rows: impl Iterator<Item = AxisId>,
    a: &Attention,
    products: impl Iterator<Item = NodeId>,
) -> Dim {
    let wide = a.width.map_or_else(|| n(1), |x| g.extent(x).clone());
    let depths = products.filter_map(|id| g.op(id).bound()).fold(wide, |sum, axis| &sum + g.extent(axis));
    let rows: Vec<Dim> = rows.map(|x| g.extent(x).clone()).collect();
    &(&product(&rows) * g.extent(a.key)) * &(&depths * &n(2))
}
