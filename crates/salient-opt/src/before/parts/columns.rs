//! Columns beside scores: what is combined along an axis that joins scores and single columns, as a softmax over scores and a sink
//! is, is combined along the scores, and with the columns after that. `sum[c](exp(concat(s, r)[c]))` is `sum[j](exp(s[j])) + exp(r)`.
//!
//! Only where all that is made of the joined values element by element is combined along the axis or read at one part, so that
//! nothing joined is left: scores beside a column would be stored with it, for every query and key.

use crate::before::parts::reads::{Cone, Inside, Read, is_plain, joins, part};
use crate::graph::index::AffineIndex;
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, Builder, Class, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// The same model with sums and maxima over scores and columns taken apart.
pub(crate) fn columns_apart(g: &Graph) -> Graph {
    let joined = found(g);
    if joined.is_empty() {
        return g.clone();
    }
    let mut at: BTreeMap<NodeId, (usize, Option<Read>)> = BTreeMap::new();
    for (n, columns) in joined.iter().enumerate() {
        at.extend(columns.reductions.iter().map(|id| (*id, (n, None))));
        at.extend(columns.reads.iter().map(|(id, read)| (*id, (n, Some(read.clone())))));
    }
    rewrite(g, |b, new, id| {
        let (n, read) = at.get(&id)?;
        let (columns, of) = (&joined[*n], g.args(id)[0]);
        Some(match read {
            Some(read) => columns.inside(g, b, new, (of, read, Some(new[g.args(id)[1].index()]))),
            None => columns.combined(g, b, new, id),
        })
    })
    .graph
}

/// Scores and columns along one axis, and what is made of them.
struct Columns {
    axis: AxisId,
    /// The axis of the scores, and of each part where it lies.
    parts: Vec<(Option<AxisId>, Read)>,
    /// What is made of them element by element.
    cone: Cone,
    /// What combines that along the axis.
    reductions: BTreeSet<NodeId>,
    /// What reads it at one part.
    reads: BTreeMap<NodeId, Read>,
}

fn found(g: &Graph) -> Vec<Columns> {
    let (mut found, mut seen): (Vec<Columns>, BTreeSet<NodeId>) = (Vec::new(), BTreeSet::new());
    for id in g.ids() {
        if !matches!(g.op(id), Op::Concat(..)) || seen.contains(&id) {
            continue;
        }
        if let Some(columns) = Columns::of(g, id) {
            seen.extend(&columns.cone.joints);
            found.push(columns);
        }
    }
    found
}

impl Columns {
    /// What is made of a joint, if it is one of scores and columns and nothing but its parts is needed.
    fn of(g: &Graph, joint: NodeId) -> Option<Columns> {
        let Op::Concat(axis, parts) = g.op(joint) else { return None };
        let parts = places(g, *axis, parts)?;
        let mut columns = Columns {
            axis: *axis,
            parts,
            cone: Cone::default(),
            reductions: BTreeSet::new(),
            reads: BTreeMap::new(),
        };
        let (mut made, mut stack) = (BTreeSet::new(), vec![joint]);
        while let Some(id) = stack.pop() {
            if made.insert(id) {
                columns.take_in(g, id)?;
                stack.extend(columns.readers(g, id)?);
            }
        }
        columns.fits(g).then_some(columns)
    }

    /// Takes in a value and what it reads along the axis, down to where parts are joined; `None` if something of that is neither there
    /// nor computed element by element.
    fn take_in(&mut self, g: &Graph, id: NodeId) -> Option<()> {
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            if !self.cone.nodes.insert(id) {
                continue;
            }
            if joins(g, id) == Some(self.axis) {
                self.cone.joints.insert(id);
                continue;
            }
            match g.op(id).class() {
                Class::Map => {
                    let along = |x: &NodeId| g.node(*x).axes.contains(self.axis);
                    stack.extend(g.args(id).into_iter().filter(along));
                }
                Class::View => stack.push(self.renamed(g, id)?),
                Class::Leaf | Class::Port => {}
                Class::Concat | Class::Bind => return None,
            }
        }
        Some(())
    }

    /// What a view reads under another name of an axis, if it is not that of the parts.
    fn renamed(&mut self, g: &Graph, view: NodeId) -> Option<NodeId> {
        let Op::At(axis) = *g.op(view) else { return None };
        let [of, index] = [0, 1].map(|n| g.args(view)[n]);
        let is_one = axis != self.axis && g.is_renamed(axis, index) && g.node(of).axes.contains(self.axis);
        self.cone.bound.insert(axis);
        (is_one && !g.node(index).axes.contains(self.axis)).then_some(of)
    }

    /// What computes element by element of a value; what combines it along the axis and what reads a part of it is noted. `None` if
    /// it is read otherwise.
    fn readers(&mut self, g: &Graph, id: NodeId) -> Option<Vec<NodeId>> {
        if g.outputs().iter().any(|out| out.node == id) {
            return None;
        }
        let mut out = Vec::new();
        for user in g.users(id) {
            match *g.op(user) {
                Op::Map(_) => out.push(user),
                Op::At(axis) if axis != self.axis && g.args(user)[0] == id => out.push(user),
                Op::Reduce(ReduceOp::Sum | ReduceOp::Max, axis) if axis == self.axis => {
                    self.reductions.insert(user);
                }
                Op::At(axis) if axis == self.axis && g.args(user)[0] == id && g.args(user)[1] != id => {
                    let place = AffineIndex::of(g, g.args(user)[1]).filter(|place| is_plain(g, id, place))?;
                    self.reads.insert(user, Read { axis, place, is_merged: false });
                }
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => return None,
                Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => return None,
            }
        }
        Some(out)
    }

    /// Whether something is combined, and each joint is told apart at every place that is looked at.
    fn fits(&self, g: &Graph) -> bool {
        let mut places = self.parts.iter().map(|(_, read)| read).chain(self.reads.values());
        let is_apart = |read: &Read| self.cone.joints.iter().all(|joint| part(g, *joint, read).is_some());
        // The axis of the scores is bound by what combines them, and no axis of an index is bound on the way to what it reads.
        let own = self.parts.iter().filter_map(|(axis, _)| *axis);
        let read = self.reads.values().flat_map(|read| read.place.terms.keys().copied());
        let is_free = |axis: AxisId| self.cone.nodes.iter().all(|id| !g.node(*id).axes.contains(axis));
        let is_bound = |axis: AxisId| self.cone.bound.contains(axis);
        !self.reductions.is_empty()
            && places.all(is_apart)
            && own.into_iter().all(|axis| is_free(axis) && !is_bound(axis))
            && !read.into_iter().any(is_bound)
    }

    /// A value where a view reads, or where a part lies.
    fn inside(
        &self,
        g: &Graph,
        b: &mut Builder,
        new: &[NodeId],
        (of, read, index): (NodeId, &Read, Option<NodeId>),
    ) -> NodeId {
        let index = index.unwrap_or_else(|| read.place.add_to(b, None));
        Inside { g, new, read, index, cone: &self.cone, made: BTreeMap::new() }.of(b, of)
    }

    /// A sum or a maximum along the axis: that over the scores, and each column.
    fn combined(&self, g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> NodeId {
        let is_greatest = *g.op(id) == Op::Reduce(ReduceOp::Max, self.axis);
        let (op, with) = if is_greatest { (ReduceOp::Max, MapOp::Max) } else { (ReduceOp::Sum, MapOp::Add) };
        let mut part = |axis: Option<AxisId>, read: &Read| {
            let inside = self.inside(g, b, new, (g.args(id)[0], read, None));
            axis.map_or(inside, |axis| b.reduce(op, axis, inside).expect("numbers"))
        };
        let (scores, columns): (Vec<_>, Vec<_>) = self.parts.iter().partition(|(axis, _)| axis.is_some());
        let parts: Vec<NodeId> =
            scores.into_iter().chain(columns).map(|(axis, read)| part(*axis, read)).collect();
        let all = parts.into_iter().reduce(|all, part| b.map(with, &[all, part]).expect("numbers"));
        all.expect("a joint has parts")
    }
}

/// Where each part lies, if one of them is of any length and all others are single columns.
fn places(g: &Graph, axis: AxisId, parts: &[AxisId]) -> Option<Vec<(Option<AxisId>, Read)>> {
    let mut from = Dim::constant(0);
    let mut out: Vec<(Option<AxisId>, Read)> = Vec::new();
    for part in parts {
        let is_column = g.extent(*part).as_constant() == Some(1);
        let mut place = AffineIndex::fixed(from.clone());
        if !is_column {
            place.terms.insert(*part, Dim::constant(1));
        }
        out.push(((!is_column).then_some(*part), Read { axis, place, is_merged: false }));
        from = &from + g.extent(*part);
    }
    let scores = out.iter().filter(|(axis, _)| axis.is_some()).count();
    (scores == 1 && out.len() > 1).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Const, DType};

    /// Whether scores and a sink are still joined where `softmax(concat(s, r))` is read at the scores and summed over all of it; if
    /// `whole`, where it is a result as well, and with so many columns.
    fn stays_joined(whole: bool, columns: i64) -> bool {
        let mut b = Builder::new("m");
        let keys = Dim::symbol("S");
        let all = &keys + &Dim::constant(columns);
        let mut axis = |name: &str, extent: &Dim| b.axis_id(name, extent);
        let (i, j) = (axis("i", &Dim::symbol("T")), axis("j", &keys));
        let (u, c) = (axis("u", &Dim::constant(columns)), axis("c", &all));
        let [s, r] =
            [("s", [i, j]), ("r", [i, u])].map(|(name, axes)| b.input(name, &axes, DType::F32, None));
        let joined = b.add(Op::Concat(c, [j, u].into_iter().collect()), &[s, r]).unwrap();
        let weight = b.map(MapOp::Exp, &[joined]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, c, weight).unwrap();
        let weight = b.map(MapOp::Div, &[weight, sum]).unwrap();
        let half = b.constant(Const::f32(0.5));
        let weight = b.map(MapOp::Mul, &[weight, half]).unwrap();
        let place = b.iota(j);
        let read = b.at(weight, c, place).unwrap();
        b.output("y", &[i, j], read).unwrap();
        if whole {
            b.output("weight", &[i, c], weight).unwrap();
        }
        let g = columns_apart(&b.finish());
        g.ids().any(|id| matches!(g.op(id), Op::Concat(..)))
    }

    #[test]
    fn columns_come_apart_from_scores_where_nothing_joined_is_left() {
        assert!(!stays_joined(false, 1));
        assert!(stays_joined(true, 1));
        // Two sequences after each other are one row of scores.
        assert!(stays_joined(false, 2));
    }
}
