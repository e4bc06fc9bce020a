//! Which values have a line of their own in the text of a graph, and which of them go by its name.

use crate::axis::AxisId;
use crate::graph::demand::stays_checked;
use crate::graph::{Graph, NodeId};
use crate::op::{Class, Op};
use std::collections::BTreeSet;

/// Whether a node has a line of its own.
pub(super) fn has_line(op: &Op) -> bool {
    matches!(op.class(), Class::Map | Class::Concat | Class::Bind)
}

/// The views of what is the same everywhere along the axis of the index.
fn views_of_repeated(g: &Graph) -> BTreeSet<NodeId> {
    g.ids().filter(|id| matches!(g.op(*id), Op::At(_)) && !repeated(g, *id).is_empty()).collect()
}

/// The parts of concatenations in which the part's axis stands in the index of a view only, and not where the length of
/// an axis could be read off.
fn parts_with_lines(g: &Graph) -> BTreeSet<NodeId> {
    let mut out = BTreeSet::new();
    for id in g.ids() {
        let Op::Concat(_, parts) = g.op(id) else { continue };
        for (arg, part) in g.args(id).into_iter().zip(parts) {
            if matches!(g.op(arg), Op::At(_)) && g.node(arg).axes.contains(*part) && !shows(g, arg, *part) {
                out.insert(arg);
            }
        }
    }
    out
}

/// Of a concatenation the parts, by place, that are the same everywhere along it and longer than one; of a view the tensor,
/// if it is the same everywhere along the axis of the index. How long that axis is stands nowhere in the tensor.
pub(super) fn repeated(g: &Graph, id: NodeId) -> Vec<(usize, NodeId, AxisId)> {
    if let Op::At(axis) = g.op(id) {
        let of = g.args(id)[0];
        return if g.node(of).axes.contains(*axis) { Vec::new() } else { vec![(0, of, *axis)] };
    }
    let Op::Concat(_, parts) = g.op(id) else { return Vec::new() };
    let all = g.args(id).into_iter().zip(parts).enumerate().map(|(place, (arg, part))| (place, arg, *part));
    let is_repeated = |arg, part| !g.node(arg).axes.contains(part) && g.extent(part).as_constant() != Some(1);
    all.filter(|(_, arg, part)| is_repeated(*arg, *part)).collect()
}

/// Whether the use of a node shows how long an axis of it is: it stands by itself where a tensor has that axis.
fn shows(g: &Graph, mut id: NodeId, mut axis: AxisId) -> bool {
    while let Op::At(replaced) = g.op(id) {
        let (of, index) = (g.args(id)[0], g.args(id)[1]);
        if *g.op(index) == Op::Iota(axis) && g.is_renamed(*replaced, index) {
            axis = *replaced;
        } else if *replaced == axis {
            return false;
        }
        id = of;
    }
    g.node(id).axes.contains(axis)
}

fn is_view_of_view(g: &Graph, id: NodeId) -> bool {
    matches!(g.op(id), Op::At(_)) && matches!(g.op(g.args(id)[0]), Op::At(_))
}

/// Whether a view of a view is read back as one view: its index is the name of an axis, or is checked in the other one too.
pub(super) fn is_one_view(g: &Graph, id: NodeId) -> bool {
    let Op::At(axis) = g.op(id) else { return false };
    let [of, index] = g.args(id)[..] else { return false };
    g.is_renamed(*axis, index) || stays_checked(g, of, *axis)
}

/// Words of an index that are written out in place, at most; a larger one goes by the name of its line.
const LONGEST: usize = 64;
/// The same for a view of views, each of which is written into the next.
const LONGEST_VIEW: usize = 1 << 12;

/// Which values have a line of their own, and which of them go by its name.
pub(super) struct Lines {
    /// Views that go by the name of their line: of what is repeated, and what would be too long.
    pub(super) views: BTreeSet<NodeId>,
    /// Views with a line for some of their readers: concatenations of which they are parts that would not show how long they are,
    /// and views at an index that would not be checked if it were written into them.
    pub(super) named: BTreeSet<NodeId>,
    /// Whether an index goes by the name of its line.
    pub(super) by_name: Vec<bool>,
    /// Whether a value is written out, of indices and dimensions alone.
    pub(super) of_indices: Vec<bool>,
}

impl Lines {
    /// Whether a view has a line.
    pub(super) fn is_view(&self, id: NodeId) -> bool {
        self.views.contains(&id) || self.named.contains(&id)
    }

    pub(super) fn of(g: &Graph) -> Lines {
        let (views, named) = (views_of_repeated(g), parts_with_lines(g));
        let mut lines = Lines { views, named, by_name: Vec::new(), of_indices: Vec::new() };
        let mut words: Vec<usize> = Vec::with_capacity(g.len());
        for id in g.ids() {
            let args = g.args(id);
            let (mut length, mut by_name, mut of_indices) = (1, false, false);
            match g.op(id).class() {
                Class::Leaf => of_indices = true,
                Class::Map => {
                    length = args.iter().fold(1, |sum: usize, a| sum.saturating_add(words[a.index()]));
                    by_name = length > LONGEST;
                    of_indices = !by_name && args.iter().all(|a| lines.of_indices[a.index()]);
                }
                Class::View if !lines.views.contains(&id) => {
                    let [mut of, index] = [0, 1].map(|n| words[args[n].index()]);
                    if is_view_of_view(g, id) && !is_one_view(g, id) {
                        lines.named.insert(args[0]);
                        of = 1;
                    }
                    length = of.saturating_mul(1 + index);
                    if length > LONGEST_VIEW {
                        lines.views.insert(id);
                        length = 1;
                    }
                }
                Class::View | Class::Port | Class::Concat | Class::Bind => {}
            }
            words.push(if by_name { 1 } else { length });
            lines.by_name.push(by_name);
            lines.of_indices.push(of_indices);
        }
        lines
    }
}
