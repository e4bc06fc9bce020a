//! Where the axes of values come from: positions of sequences, features that are given, or widths that parameters make.

use super::pairs::goes_over;
use salient_ir::{AxisId, Dim, Graph, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// What an axis of an input counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Features of a position: the last axis of floats.
    Feature,
    /// Positions, heads or batches.
    Position,
}

/// What is known of an axis of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    kind: Kind,
    /// How long the axes of inputs are that it goes along.
    lengths: BTreeSet<Dim>,
}

/// For each node the axes that come from inputs. Those that parameters alone have are widths, and are left out.
pub(super) struct Positions {
    of: Vec<BTreeMap<AxisId, Source>>,
}

impl Positions {
    pub(super) fn of(g: &Graph) -> Positions {
        let mut out = Positions { of: Vec::with_capacity(g.len()) };
        for id in g.ids() {
            let found = match g.op(id) {
                Op::Input(n) => given(g, *n),
                Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => BTreeMap::new(),
                Op::At(axis) => out.read(g, id, *axis),
                Op::Concat(whole, parts) => {
                    let mut found = BTreeMap::new();
                    for (arg, part) in g.args(id).iter().zip(parts) {
                        for (axis, source) in &out.of[arg.index()] {
                            join(&mut found, if axis == part { *whole } else { *axis }, source);
                        }
                    }
                    found
                }
                Op::Map(_) | Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) => {
                    let mut found = BTreeMap::new();
                    for arg in g.args(id) {
                        out.of[arg.index()].iter().for_each(|(axis, source)| join(&mut found, *axis, source));
                    }
                    found.retain(|axis, _| g.node(id).axes.contains(*axis));
                    found
                }
            };
            out.of.push(found);
        }
        out
    }

    /// The axes of a view: those of the index stand for the axis that is read at it.
    fn read(&self, g: &Graph, id: NodeId, read: AxisId) -> BTreeMap<AxisId, Source> {
        let args = g.args(id);
        let mut found = self.of[args[1].index()].clone();
        for (axis, source) in &self.of[args[0].index()] {
            if *axis == read {
                g.node(args[1]).axes.iter().for_each(|axis| join(&mut found, axis, source));
            } else {
                join(&mut found, *axis, source);
            }
        }
        found
    }

    /// What an axis of a value counts, if it comes from an input.
    pub(super) fn kind(&self, id: NodeId, axis: AxisId) -> Option<Kind> {
        self.of[id.index()].get(&axis).map(|source| source.kind)
    }

    /// Whether an axis grows with the inputs of one of the values, and is no part of fixed length of one that does.
    pub(super) fn grows(&self, g: &Graph, values: &[NodeId], axis: AxisId) -> bool {
        let sources = values.iter().filter_map(|id| self.of[id.index()].get(&axis));
        sources.flat_map(|source| &source.lengths).any(|length| goes_over(g.extent(axis), length))
    }
}

/// The axes of an input.
fn given(g: &Graph, input: usize) -> BTreeMap<AxisId, Source> {
    let port = &g.inputs()[input];
    let is_feature = |at: usize| port.dtype.is_float() && at + 1 == port.axes.len();
    let source = |(at, axis): (usize, &AxisId)| {
        let kind = if is_feature(at) { Kind::Feature } else { Kind::Position };
        (*axis, Source { kind, lengths: BTreeSet::from([g.extent(*axis).clone()]) })
    };
    port.axes.iter().enumerate().map(source).collect()
}

/// An axis that comes from here as well: positions where one of the two is.
fn join(found: &mut BTreeMap<AxisId, Source>, axis: AxisId, source: &Source) {
    match found.get_mut(&axis) {
        Some(known) => {
            known.kind = known.kind.max(source.kind);
            known.lengths.extend(source.lengths.iter().cloned());
        }
        None => {
            found.insert(axis, source.clone());
        }
    }
}
