//! Where what is stored lies: the distances in memory between the elements of an expression.

pub(crate) mod alias;
pub(crate) mod axis_order;
pub(crate) mod panels;
pub(crate) mod parts;

use super::{MapOrder, Options};
use crate::defined::Defined;
use crate::dims::{LANE, index_of, n, row_major, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::program::kernel::{Base, Buffer, BufferId};
use salient_ir::quantised::Coding;
use salient_ir::{AxisId, AxisSet, Class, DType, Dim, Graph, NodeId, Op};
use salient_vector::body::Elem;
use std::collections::{BTreeMap, BTreeSet};

/// Where the value of a node lies: element `offset + sum of index * stride` from the base.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) base: Base,
    pub(crate) elem: Elem,
    pub(crate) offset: Dim,
    pub(crate) strides: Vec<(AxisId, Dim)>,
}

impl Stored {
    /// The place of an element, where no axis stands for an index computed in a body.
    pub(crate) fn at(&self, env: &Env) -> Option<(Base, Dim)> {
        let mut at = self.offset.clone();
        for (axis, stride) in &self.strides {
            match env.get(axis)? {
                AxisValue::Poly(d) => at = &at + &(d * stride),
                AxisValue::Loose(_) | AxisValue::Vector(_) => return None,
            }
        }
        Some((self.base, at))
    }
}

impl Stored {
    /// The buffer, if it lies in one.
    pub(crate) fn buffer(&self) -> Option<BufferId> {
        match self.base {
            Base::Buffer(id) => Some(id),
            Base::Scratch(_) | Base::Status => None,
        }
    }

    /// The same in another buffer.
    pub(crate) fn in_buffer(&self, buffer: &impl Fn(BufferId) -> BufferId) -> Stored {
        let base = match self.base {
            Base::Buffer(id) => Base::Buffer(buffer(id)),
            Base::Scratch(_) | Base::Status => self.base,
        };
        Stored { base, ..self.clone() }
    }
}

/// A buffer as a stored value.
pub(crate) fn stored(id: BufferId, buffer: &Buffer) -> Stored {
    Stored {
        base: Base::Buffer(id),
        elem: buffer.elem(),
        offset: n(0),
        strides: row_major(&buffer.axes, &buffer.shape),
    }
}

/// An operand that is read in place, row by row: rows at a fixed distance, each contiguous.
#[derive(Clone, Debug)]
pub(crate) struct StridedRows {
    pub(crate) base: Base,
    /// Elements from the base to the first row.
    pub(crate) start: Dim,
    /// Elements between rows.
    pub(crate) row: Dim,
}

/// What is stored so far and how it lies, with what never changes: all that decisions are made from.
#[derive(Clone, Debug)]
pub(crate) struct Layouts<'g> {
    pub(crate) graph: &'g Graph,
    /// Where its values are defined.
    pub(crate) defined: &'g Defined,
    /// Names of nodes in dumps.
    pub(crate) names: &'g [Option<String>],
    pub(crate) options: Options<'g>,
    pub(crate) stored: BTreeMap<NodeId, Stored>,
}

impl Layouts<'_> {
    /// Whether a node is stored.
    pub(crate) fn is_stored(&self, id: NodeId) -> bool {
        self.stored.contains_key(&id)
    }

    /// How the blocks of a parameter that is in blocks are stored.
    pub(crate) fn coding(&self, node: NodeId) -> Option<Coding> {
        let Op::Param(n) = self.graph.op(node) else { return None };
        self.options.coded.get(n).copied()
    }

    /// The distance in memory between neighbours of `node` along an axis, `other` being fixed: that of the first stored tensor that
    /// it reads, of those with both axes if there are such; `ranges` are those of the variables in `env`.
    pub(crate) fn slope(
        &self,
        ranges: &Ranges,
        node: NodeId,
        env: &Env,
        axis: Option<AxisId>,
        other: Option<AxisId>,
    ) -> Option<Dim> {
        let mut env = env.clone();
        if let Some(other) = other {
            env.insert(other, AxisValue::Poly(n(0)));
        }
        env.insert(axis?, AxisValue::Poly(var(&LANE)));
        let of: Vec<AxisSet> =
            [axis, other].into_iter().flatten().map(|axis| AxisSet::from_iter([axis])).collect();
        let address = self.leaf(ranges, (node, &of), &env, &mut BTreeSet::new())?;
        address.linear_in(&LANE).map(|(slope, _)| slope)
    }

    /// The address of the first stored tensor that an expression reads; operands that vary with all of these come before others, each
    /// of which is given as the axes of the operand that do.
    ///
    /// A node in `without` was asked before and had none: a graph shares nodes, and its paths are far more than its nodes.
    fn leaf(
        &self,
        ranges: &Ranges,
        (node, of): (NodeId, &[AxisSet]),
        env: &Env,
        without: &mut BTreeSet<NodeId>,
    ) -> Option<Dim> {
        let g = self.graph;
        if !without.insert(node) {
            return None;
        }
        if let Some((_, at)) = self.stored_view(ranges, node, env) {
            return Some(at);
        }
        let args = g.args(node);
        if let Some((axis, inner)) = self.inside_view(ranges, node, env) {
            // As if the view were around what its expression reads.
            let by = &g.node(args[1]).axes;
            let moved = |of: &AxisSet| {
                let varies = of.iter().any(|a| by.contains(a));
                of.iter().filter(|a| *a != axis).chain(varies.then_some(axis)).collect()
            };
            let of: Vec<AxisSet> = of.iter().map(moved).collect();
            return self.leaf(ranges, (args[0], &of), &inner, without);
        }
        let has_all = |id: &NodeId| of.iter().all(|of| of.iter().any(|a| g.node(*id).axes.contains(a)));
        let with_axes = args.iter().copied().filter(|a| !g.node(*a).axes.is_empty());
        let (first, rest): (Vec<NodeId>, Vec<NodeId>) = with_axes.partition(has_all);
        first.into_iter().chain(rest).find_map(|a| self.leaf(ranges, (a, of), env, without))
    }

    /// A node as rows along `along`, one for each position of `by`; `ranges` are those of the variables in `env`.
    pub(crate) fn strided_rows(
        &self,
        ranges: &Ranges,
        node: NodeId,
        env: &Env,
        along: AxisId,
        by: AxisId,
    ) -> Option<StridedRows> {
        // What lies along `along` is told by the address itself: what `node` is computed from may lie otherwise.
        let (mut env, mut ranges, row_of) = (env.clone(), ranges.clone(), index_of(by));
        for (axis, variable) in [(along, &LANE), (by, &row_of)] {
            ranges.insert(variable, self.graph.extent(axis));
            env.insert(axis, AxisValue::Poly(var(variable)));
        }
        let (base, at) = self.stored_view(&ranges, node, &env)?;
        let (step, first) = at.linear_in(&LANE)?;
        if step != n(1) {
            return None;
        }
        let (row, start) = first.linear_in(&row_of)?;
        Some(StridedRows { base, start, row })
    }

    /// Each axis of a node as the variable of its index.
    fn indices(&self, node: NodeId) -> (Env, Ranges) {
        let (mut env, mut ranges) = (Env::new(), Ranges::default());
        for axis in self.graph.node(node).axes.iter() {
            let index = index_of(axis);
            ranges.insert(&index, self.graph.extent(axis));
            env.insert(axis, AxisValue::Poly(var(&index)));
        }
        (env, ranges)
    }

    /// Whether a node is a view of a tensor of 32-bit floats that is contiguous along `along` and not along `last`.
    pub(crate) fn lies_across(&self, node: NodeId, along: AxisId, last: AxisId) -> bool {
        let is_float = |of: NodeId| self.stored[&of].elem == Elem::F32;
        let (env, ranges) = self.indices(node);
        let lies = |along, by| self.strided_rows(&ranges, node, &env, along, by).is_some();
        self.viewed(node).is_some_and(is_float) && lies(along, last) && !lies(last, along)
    }

    /// Whether an expression is one of 32-bit floats and of the stored tensors that it reads more are contiguous along `along` than
    /// along `last`: computed along the first, and turned by squares, it reads whole lines of the cache.
    pub(crate) fn is_computed_across(&self, node: NodeId, along: AxisId, last: AxisId) -> bool {
        axis_order::is_wide(self.graph, along)
            && axis_order::is_wide(self.graph, last)
            && is_nearer(&self.read_by(node), along, last)
    }

    /// In which order a map computes a node whose axes lie so.
    pub(crate) fn map_order(&self, node: NodeId, axes: &[AxisId]) -> MapOrder {
        let Some((last, rows)) = axes.split_last() else { return MapOrder::Rows };
        let find = |is_one: &dyn Fn(AxisId) -> bool| rows.iter().copied().find(|axis| is_one(*axis));
        if let Some(along) = find(&|axis| self.lies_across(node, axis, *last)) {
            return MapOrder::Squares { along, computed: false };
        }
        let is_wide = |axis: AxisId| axis_order::is_wide(self.graph, axis);
        if !is_wide(*last) || !rows.iter().any(|axis| is_wide(*axis)) {
            return MapOrder::Rows;
        }
        let read = self.read_by(node);
        let moves_by_more =
            |at: &Dim| at.linear_in(&index_of(*last)).is_some_and(|(step, _)| ![n(0), n(1)].contains(&step));
        if !read.iter().any(moves_by_more) {
            return MapOrder::Rows;
        }
        find(&|axis| is_wide(axis) && is_nearer(&read, axis, *last))
            .map_or(MapOrder::Rows, |along| MapOrder::Squares { along, computed: true })
    }

    /// The places of the stored tensors that an expression of 32-bit floats reads, by the indices of its axes; none where it may
    /// report an error, whose order would change, and where it is stored itself.
    fn read_by(&self, node: NodeId) -> Vec<Dim> {
        let g = self.graph;
        let is_expression = self.viewed(node).is_none()
            && g.op(node).class() == Class::Map
            && g.node(node).dtype == DType::F32
            && !self.defined.may_report(node);
        let (env, ranges) = self.indices(node);
        let (mut read, mut seen) = (Vec::new(), BTreeSet::new());
        let mut stack = if is_expression { vec![node] } else { Vec::new() };
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            if self.viewed(id).is_none() && g.op(id).class() == Class::Map {
                stack.extend(g.args(id));
            } else if g.node(id).axes.len() > 1 {
                read.extend(self.stored_view(&ranges, id, &env).map(|(_, at)| at));
            }
        }
        read
    }

    /// The stored node that a node is, or is a view of.
    pub(crate) fn viewed(&self, node: NodeId) -> Option<NodeId> {
        if self.is_stored(node) {
            return Some(node);
        }
        let Op::At(_) = self.graph.op(node) else { return None };
        self.viewed(self.graph.args(node)[0])
    }

    /// Where a node lies that is stored, or a view of what is stored; `ranges` are those of the variables in `env`.
    pub(crate) fn stored_view(&self, ranges: &Ranges, node: NodeId, env: &Env) -> Option<(Base, Dim)> {
        let g = self.graph;
        if let Some(stored) = self.stored.get(&node) {
            return stored.at(env);
        }
        let (_, inner) = self.inside_view(ranges, node, env)?;
        self.stored_view(ranges, g.args(node)[0], &inner)
    }

    /// The axis that a view replaces, and what axes stand for inside of it, if its index stays within that axis.
    fn inside_view(&self, ranges: &Ranges, node: NodeId, env: &Env) -> Option<(AxisId, Env)> {
        let g = self.graph;
        let Op::At(axis) = *g.op(node) else { return None };
        let index = ranges.evaluate(g, g.args(node)[1], env)?;
        // What a guard would have to exclude is not read without one.
        if !ranges.inside(&index, g.extent(axis)) {
            return None;
        }
        let mut inner = env.clone();
        inner.insert(axis, AxisValue::Poly(index));
        Some((axis, inner))
    }
}

/// Whether more of these places move by one with the index of `along`, row by row of `last`, than the other way round.
fn is_nearer(read: &[Dim], along: AxisId, last: AxisId) -> bool {
    let moves = |at: &Dim, along: AxisId, by: AxisId| {
        let (step, first) = at.linear_in(&index_of(along))?;
        let (row, _) = first.linear_in(&index_of(by))?;
        Some(step == n(1) && row != n(0))
    };
    let moves = |at: &Dim, along, by| i32::from(moves(at, along, by) == Some(true));
    read.iter().map(|at| moves(at, along, last) - moves(at, last, along)).sum::<i32>() > 0
}

/// The axis along which the operand of a reduction is contiguous, if that is not the bound one and the result's innermost.
pub(crate) fn column(layouts: &Layouts<'_>, order: &[AxisId], along: AxisId, x: NodeId) -> Option<AxisId> {
    let column = *order.last()?;
    let (env, ranges) = layouts.indices(x);
    let near = |axis: AxisId, other: AxisId| {
        let mut ranges = ranges.clone();
        ranges.insert(&LANE, layouts.graph.extent(axis));
        layouts.slope(&ranges, x, &env, Some(axis), Some(other)) == Some(n(1))
    };
    (near(column, along) && !near(along, column)).then_some(column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defined::defined;
    use crate::program::kernel::Role;
    use salient_ir::{Builder, DType, MapOp};

    /// The elements between rows of values, one for each position, of a head: `d[h E + e, t]`, where `d` is computed from a tensor
    /// over positions, heads and features, and is stored with its rows or its columns in front.
    fn row_of_values(is_by_rows: bool) -> Option<Dim> {
        let mut b = Builder::new("m");
        let [t, h, e, c] = [("t", Dim::symbol("T")), ("h", n(2)), ("e", n(8)), ("c", n(16))]
            .map(|(name, extent)| b.axis_id(name, &extent));
        let u = b.input("u", &[t, h, e], DType::F32, None);
        let (at, wide) = (b.iota(c), b.extent_of(&n(8)));
        let [head, place] = [MapOp::IntDiv, MapOp::Mod].map(|op| b.map(op, &[at, wide]).unwrap());
        let merged = b.at_all(u, &[(h, head), (e, place)]).unwrap();
        let d = b.map(MapOp::Add, &[merged, merged]).unwrap();
        let (heads, features) = (b.iota(h), b.iota(e));
        let first = b.map(MapOp::Mul, &[heads, wide]).unwrap();
        let column = b.map(MapOp::Add, &[first, features]).unwrap();
        let values = b.at(d, c, column).unwrap();
        b.output("d", &[t, c], d).unwrap();
        b.output("values", &[t, h, e], values).unwrap();
        let g = b.finish();
        let [d, values] = [0, 1].map(|at| g.outputs()[at].node);
        let (g, defined) = defined(&g);
        let names = vec![None; g.len()];
        let axes = if is_by_rows { [t, c] } else { [c, t] };
        let place = |at: usize, node: NodeId, axes: &[AxisId]| {
            let (role, shape, axes) = (Role::Temporary, g.shape(axes), axes.to_vec());
            stored(BufferId(at), &Buffer { name: String::new(), role, dtype: DType::F32, axes, shape, node })
        };
        let input = g.ids().find(|id| g.op(*id).is_source()).expect("it is there");
        let known = BTreeMap::from([(input, place(0, input, &[t, h, e])), (d, place(1, d, &axes))]);
        let layouts = Layouts {
            graph: &g,
            defined: &defined,
            names: &names,
            options: Options::default(),
            stored: known,
        };
        let (mut env, mut ranges) = (Env::new(), Ranges::default());
        ranges.insert(&index_of(h), &n(2));
        env.insert(h, AxisValue::Poly(var(&index_of(h))));
        layouts.strided_rows(&ranges, values, &env, e, t).map(|rows| rows.row)
    }

    #[test]
    fn how_rows_lie_is_told_by_where_they_are_stored_and_not_by_what_they_are_computed_from() {
        assert_eq!(row_of_values(true), Some(n(16)));
        assert_eq!(row_of_values(false), None);
    }
}
