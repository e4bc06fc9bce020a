//! Slices that part an axis: what flows into them, one behind the other, is what flows into the whole.
//!
//! The queries, keys and values of one product are its parts. What flows into each could stand under a guard where the part is,
//! and be added to the others; where the parts leave nothing out and do not overlap it is a concatenation.

use crate::adjoint::{Adjoints, Cotangent};
use crate::make::Make;
use crate::views::{self, Read, linear};
use salient_ir::{AxisId, AxisSet, Dim, Graph, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// A view of so many positions of one axis, in their order, and what flows into it.
pub(crate) struct Slice {
    /// The axis of what is read, and the place of the first position.
    axis: AxisId,
    from: Dim,
    /// The axis of the view.
    along: AxisId,
    read: Read,
}

impl Slice {
    /// The slice that a view is; or the view.
    pub(crate) fn of(a: &Adjoints<'_>, read: Read) -> Result<Slice, Read> {
        match place(a, &read) {
            Some((axis, from, along)) => Ok(Slice { axis, from, along, read }),
            None => Err(read),
        }
    }

    fn length(&self, a: &Adjoints<'_>) -> Dim {
        a.b.extent(self.along).clone()
    }
}

/// Which axis of what it reads a view has a part of, from where on, and along which axis of its own.
fn place(a: &Adjoints<'_>, read: &Read) -> Option<(AxisId, Dim, AxisId)> {
    let is_moved = |(axis, index): &&(AxisId, NodeId)| *a.b.op(*index) != Op::Iota(*axis);
    let moved: Vec<&(AxisId, NodeId)> = read.indices.iter().filter(is_moved).collect();
    let [(axis, index)] = moved[..] else { return None };
    let (from, along) = place_along(a.b, (read.base, *axis), *index, &read.domain)?;
    Some((*axis, from, along))
}

/// From where on a view of a node that is moved along one axis alone has a part of that, and along which axis of its own.
fn place_along(
    g: &Graph,
    (base, axis): (NodeId, AxisId),
    index: NodeId,
    domain: &AxisSet,
) -> Option<(Dim, AxisId)> {
    let index = linear(g, index)?;
    let (along, factor) = index.axes.iter().next().filter(|_| index.axes.len() == 1)?;
    let others: AxisSet = g.node(base).axes.iter().filter(|other| *other != axis).collect();
    let own: AxisSet = [*along].into_iter().collect();
    let fits = *factor == Dim::constant(1) && !others.contains(*along) && others.union(&own) == *domain;
    fits.then(|| (index.rest.clone(), *along))
}

/// Whether a node is one of the slices that part an axis of what they read.
pub(crate) fn is_part(g: &Graph, id: NodeId) -> bool {
    let Op::At(axis) = *g.op(id) else { return false };
    let base = g.args(id)[0];
    // Each slice from its first position up to the one behind its last.
    let slice = |view: NodeId| {
        let args = g.args(view);
        let reads = *g.op(view) == Op::At(axis) && args[0] == base;
        let place = place_along(g, (base, axis), *args.get(1)?, &g.node(view).axes).filter(|_| reads);
        place.map(|(from, along)| (from.clone(), &from + g.extent(along)))
    };
    let Some((from, to)) = slice(id) else { return false };
    let slices: BTreeSet<(Dim, Dim)> = g.users(base).into_iter().filter_map(slice).collect();
    let (mut at, mut is_met) = (Dim::constant(0), false);
    // No more of them than there are: differences of dimensions may lead back to where they began.
    for _ in 0..slices.len() {
        let Some((here, next)) = slices.iter().find(|(from, to)| *from == at && from != to) else { break };
        is_met |= (here, next) == (&from, &to);
        at = next.clone();
        if at == *g.extent(axis) {
            return is_met;
        }
    }
    false
}

/// Adds what flows into slices of a node to what flows into it.
pub(crate) fn join(a: &mut Adjoints<'_>, of: Vec<Slice>) {
    let mut by_axis: BTreeMap<AxisId, Vec<Slice>> = BTreeMap::new();
    for slice in of {
        by_axis.entry(slice.axis).or_default().push(slice);
    }
    for (axis, slices) in by_axis {
        match in_order(a, axis, slices) {
            Ok(parts) => concat(a, axis, parts),
            Err(slices) => slices.into_iter().for_each(|slice| views::invert(a, slice.read)),
        }
    }
}

/// The slices at each place, one after the other, if they are the whole axis and more than one part of it.
fn in_order(a: &Adjoints<'_>, axis: AxisId, mut slices: Vec<Slice>) -> Result<Vec<Vec<Slice>>, Vec<Slice>> {
    let (mut parts, mut at): (Vec<Vec<Slice>>, Dim) = (Vec::new(), Dim::constant(0));
    while let Some(first) = slices.iter().position(|slice| slice.from == at) {
        let length = slices[first].length(a);
        let (here, rest) =
            slices.into_iter().partition(|slice| slice.from == at && slice.length(a) == length);
        parts.push(here);
        slices = rest;
        at = &at + &length;
        // Parts without positions would go on without end.
        if length == Dim::constant(0) {
            break;
        }
    }
    if slices.is_empty() && at == *a.b.extent(axis) && parts.len() > 1 {
        return Ok(parts);
    }
    Err(parts.into_iter().flatten().chain(slices).collect())
}

/// What flows into the parts, one behind the other.
fn concat(a: &mut Adjoints<'_>, axis: AxisId, parts: Vec<Vec<Slice>>) {
    let base = parts[0][0].read.base;
    let domain = a.b.node(base).axes.clone();
    let (mut along, mut values): (Vec<AxisId>, Vec<NodeId>) = (Vec::new(), Vec::new());
    for part in parts {
        let own = part[0].along;
        let mut sum: Option<NodeId> = None;
        for slice in part {
            let Cotangent { mask, value } = slice.read.flow;
            let value = a.b.masked(mask, value);
            let here = a.b.iota(own);
            let value = a.b.moved(value, &[(slice.along, here)]);
            sum = Some(sum.map_or(value, |before| a.b.plus(before, value)));
        }
        along.push(own);
        values.extend(sum);
    }
    let value = a.b.add(Op::Concat(axis, along.into_iter().collect()), &values).expect("parts of one axis");
    a.add(base, &domain, Cotangent { mask: None, value });
}
