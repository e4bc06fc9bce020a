//! Tables of sines and cosines, as those of rotary positions, computed once for queries and keys.
//!
//! Both read one table under two names of the positions. Rules move names to what the angles are made of, and order the factors of
//! angles as they come, so that each reader comes to have a table of its own. Here sines and cosines that are the same along the first
//! axes of the graph that have their extents are computed along these, and read under their own names.
//!
//! A table that is read in parts stays one for each part: where a part ends within a vector, reads of it would be masked, which takes
//! longer in every head than a second table takes in all (rotary halves of 64 features: a twentieth of causal attention).

use crate::graph::rewrite::{Rewritten, copy, rewrite};
use salient_ir::{AxisId, Builder, Class, Graph, MapOp, NodeId, Op};
use std::collections::BTreeMap;

/// Operators of an angle that are looked at, at most.
const LARGEST: usize = 64;

/// The same graph with tables that differ in names alone computed once.
pub(crate) fn tables(g: &Graph) -> Rewritten {
    let shared = shared(g);
    if shared.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite(g, |b, new, id| {
        let names = shared.get(&id)?;
        let table = Table::of(b, g, new, id, names)?;
        let back: Vec<(AxisId, NodeId)> = names.iter().map(|name| (name.own, b.iota(name.axis))).collect();
        b.at_all(table, &back).ok()
    })
}

/// The sines and cosines that are another one under the names of their tables, and those names.
fn shared(g: &Graph) -> BTreeMap<NodeId, Vec<Name>> {
    let is_table = |id: &NodeId| matches!(g.op(*id), Op::Map(MapOp::Sin | MapOp::Cos));
    let found: Vec<NodeId> = g.ids().filter(is_table).collect();
    let mut readers: BTreeMap<NodeId, Vec<(NodeId, Vec<Name>)>> = BTreeMap::new();
    if found.len() < 2 {
        return BTreeMap::new();
    }
    let mut b = Builder::like(g);
    let mut same: Vec<NodeId> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let node = copy(g, &mut b, id, |arg| same[arg.index()]);
        same.push(node);
    }
    for id in found {
        let names = own_names(g, id);
        if let Some(table) = Table::of(&mut b, g, &same, id, &names) {
            readers.entry(table).or_default().push((id, names));
        }
    }
    readers.into_values().filter(|of| of.len() > 1).flatten().collect()
}

/// An axis of a sine or cosine, and that of the table in its place.
struct Name {
    axis: AxisId,
    own: AxisId,
}

/// The names of the axes of a table: each is the first of the graph with its extent that no other one is.
fn own_names(g: &Graph, node: NodeId) -> Vec<Name> {
    let mut out: Vec<Name> = Vec::new();
    for axis in g.node(node).axes.iter() {
        let is_free =
            |own: &AxisId| g.extent(*own) == g.extent(axis) && out.iter().all(|name| name.own != *own);
        let own = g.axes().map(|(own, _)| own).find(is_free).unwrap_or(axis);
        out.push(Name { axis, own });
    }
    out
}

/// What stands for the index of each axis.
type Indices = Vec<(AxisId, NodeId)>;

/// Tables as they are made again.
struct Table<'a> {
    g: &'a Graph,
    /// What the nodes of the graph have become.
    new: &'a [NodeId],
    /// How many operators may still be looked at: an expression that shares its parts is large.
    looks: usize,
}

impl Table<'_> {
    /// A sine or cosine under the names of its table.
    fn of(b: &mut Builder, g: &Graph, new: &[NodeId], id: NodeId, names: &[Name]) -> Option<NodeId> {
        let own: Indices = names.iter().map(|name| (name.axis, b.iota(name.own))).collect();
        Table { g, new, looks: LARGEST }.made(b, id, &own)
    }

    fn made(&mut self, b: &mut Builder, id: NodeId, at: &Indices) -> Option<NodeId> {
        self.looks = self.looks.checked_sub(1)?;
        let args = self.g.args(id);
        match *self.g.op(id) {
            Op::Map(op) => {
                let mut parts: Vec<NodeId> = Vec::new();
                for arg in args {
                    parts.push(self.made(b, arg, at)?);
                }
                if op.info().commutative {
                    parts.sort_unstable();
                }
                b.map(op, &parts).ok()
            }
            Op::Iota(axis) => at.iter().find(|(of, _)| *of == axis).map(|(_, index)| *index),
            // What is computed from an index alone is computed from that at which it is read.
            Op::At(axis) if self.is_of_indices(args[0]) => {
                let index = self.made(b, args[1], at)?;
                let others = at.iter().copied().filter(|(of, _)| *of != axis);
                let at: Indices = others.chain([(axis, index)]).collect();
                self.made(b, args[0], &at)
            }
            Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Extent(_)
            | Op::At(_)
            | Op::Reduce(..)
            | Op::Concat(..)
            | Op::CumSum(..)
            | Op::Fused(..) => b.at_all(self.new[id.index()], at).ok(),
        }
    }

    /// Whether an expression reads no array.
    fn is_of_indices(&mut self, id: NodeId) -> bool {
        let Some(looks) = self.looks.checked_sub(1) else { return false };
        self.looks = looks;
        match self.g.op(id).class() {
            Class::Leaf => true,
            Class::Map => self.g.args(id).into_iter().all(|arg| self.is_of_indices(arg)),
            Class::Port | Class::View | Class::Concat | Class::Bind => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{DType, Dim};

    /// The sines left of two over these positions, each of the position times a frequency, in one order and the other.
    fn sines(rows: [&str; 2]) -> usize {
        let mut b = Builder::new("m");
        let e = b.axis_id("e", &Dim::symbol("E"));
        let frequency = b.input("frequency", &[e], DType::F32, None);
        let [i, j] = [("i", rows[0]), ("j", rows[1])].map(|(name, of)| b.axis_id(name, &Dim::symbol(of)));
        for (name, row, is_first) in [("x", i, true), ("y", j, false)] {
            let position = b.iota(row);
            let position = b.map(MapOp::ToF32, &[position]).unwrap();
            let factors = if is_first { [position, frequency] } else { [frequency, position] };
            let angle = b.map(MapOp::Mul, &factors).unwrap();
            let sine = b.map(MapOp::Sin, &[angle]).unwrap();
            b.output(name, &[row, e], sine).unwrap();
        }
        let after = tables(&b.finish()).graph;
        after.ids().filter(|id| *after.op(*id) == Op::Map(MapOp::Sin)).count()
    }

    #[test]
    fn queries_and_keys_read_one_table() {
        assert_eq!((sines(["T", "T"]), sines(["T", "S"])), (1, 2));
    }
}
