//! An expression with other places in place of the indices of some of its axes, down to what it is made of: `at(f(x[i, j]), j := i - d)`
//! becomes `f(x[i, i - d])`.

use super::LARGEST;
use crate::graph::index::AffineIndex;
use crate::graph::inequalities::is_never_below_zero;
use salient_ir::{AxisId, AxisSet, Builder, Class, Const, DType, Dim, Graph, MapOp, NodeId, Op};
use std::collections::BTreeMap;

/// Where each of some axes is read, in the indices of the axes that take their places.
pub(super) type Places = BTreeMap<AxisId, AffineIndex>;

/// A walk over an expression, whose parts may stand in it over and over.
pub(super) struct Mover<'g> {
    g: &'g Graph,
    /// What the nodes of the graph have become.
    new: &'g [NodeId],
    made: BTreeMap<(NodeId, Places), NodeId>,
}

impl<'g> Mover<'g> {
    pub(super) fn new(g: &'g Graph, new: &'g [NodeId]) -> Mover<'g> {
        Mover { g, new, made: BTreeMap::new() }
    }

    /// The expression at those places; `None` if it is large.
    pub(super) fn moved(&mut self, b: &mut Builder, id: NodeId, places: &Places) -> Option<NodeId> {
        let g = self.g;
        let own = |(axis, place): (&AxisId, &AffineIndex)| {
            g.node(id).axes.contains(*axis).then(|| (*axis, place.clone()))
        };
        let places: Places = places.iter().filter_map(own).collect();
        if places.is_empty() {
            return Some(self.new[id.index()]);
        }
        let key = (id, places);
        if let Some(made) = self.made.get(&key) {
            return Some(*made);
        }
        if self.made.len() >= LARGEST {
            return None;
        }
        let made = self.make(b, id, &key.1)?;
        self.made.insert(key, made);
        Some(made)
    }

    fn make(&mut self, b: &mut Builder, id: NodeId, places: &Places) -> Option<NodeId> {
        let (g, args) = (self.g, self.g.args(id));
        // Of a stored tensor every index that leaves its axis is an error.
        let is_of_port = |id: NodeId| g.op(places_of(g, id).0).class() == Class::Port;
        match g.op(id) {
            Op::Iota(axis) => Some(places[axis].add_to(b, None)),
            Op::Map(op @ (MapOp::Le | MapOp::Lt)) if g.node(args[0]).dtype == DType::I64 => {
                let sides = [0, 1].map(|n| AffineIndex::of(g, args[n]));
                let [Some(least), Some(most)] = sides else { return self.same(b, id, places) };
                let less = AffineIndex::fixed(Dim::constant(i64::from(*op == MapOp::Lt)));
                Some(at_least_zero(b, &within(&most.less(&least).less(&less), places)))
            }
            Op::Map(_) => self.same(b, id, places),
            Op::Reduce(op, axis) => {
                // What is bound has another name where a place would be captured.
                let mut inner = places.clone();
                let named: AxisSet = places.values().flat_map(|place| place.terms.keys().copied()).collect();
                let over = if named.contains(*axis) {
                    let other = b.fresh_axis(*axis, &named.union(&g.node(args[0]).axes));
                    inner.insert(*axis, AffineIndex::own(other));
                    other
                } else {
                    *axis
                };
                let inside = self.moved(b, args[0], &inner)?;
                b.reduce(*op, over, inside).ok()
            }
            // An index that leaves its axis is an error of this view, unless it leaves an axis of a tensor; what is a name does not.
            Op::At(axis) => match AffineIndex::of(g, args[1]) {
                Some(index) => {
                    let place = within(&index, places);
                    let is_named = [&index, &place].into_iter().any(|index| is_name(b, *axis, index));
                    if !is_named && !is_of_port(id) {
                        return self.views(b, id, places);
                    }
                    let mut inner: Places = places.clone();
                    inner.insert(*axis, place);
                    self.moved(b, args[0], &inner)
                }
                None => self.views(b, id, places),
            },
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Extent(_) => self.views(b, id, places),
            Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => self.views(b, id, places),
        }
    }

    /// The same operator of its arguments at those places; of a choice that is decided the arm.
    fn same(&mut self, b: &mut Builder, id: NodeId, places: &Places) -> Option<NodeId> {
        let args = self.g.args(id);
        let first = self.moved(b, args[0], places)?;
        if *self.g.op(id) == Op::Map(MapOp::Select)
            && let Op::Const(Const::Bool(holds)) = *b.op(first)
        {
            return self.moved(b, args[if holds { 1 } else { 2 }], places);
        }
        let rest = args[1..].iter().map(|arg| self.moved(b, *arg, places));
        let args: Option<Vec<NodeId>> = std::iter::once(Some(first)).chain(rest).collect();
        b.add(self.g.op(id).clone(), &args?).ok()
    }

    /// Views of the value, one after the other: none may replace an axis in the place of one before it.
    fn views(&self, b: &mut Builder, id: NodeId, places: &Places) -> Option<NodeId> {
        let (mut read, mut left) = (self.new[id.index()], places.clone());
        while !left.is_empty() {
            let is_free = |axis: &AxisId, place: &AffineIndex| {
                place.terms.keys().all(|other| other == axis || !left.contains_key(other))
            };
            let next = left.iter().find(|(axis, place)| is_free(axis, place)).map(|(axis, _)| *axis)?;
            let index = left.remove(&next)?.add_to(b, None);
            read = b.at(read, next, index).ok()?;
        }
        Some(read)
    }
}

/// What a view of views is of, and the places at which it is read; as far as an index that leaves an axis between two views leaves one
/// of the tensor, too: what is read there is an error then as before.
pub(super) fn places_of(g: &Graph, id: NodeId) -> (NodeId, Places) {
    let (mut of, mut places) = (id, Places::new());
    while let Op::At(axis) = *g.op(of)
        && let Some(index) = AffineIndex::of(g, g.args(of)[1])
    {
        let place = within(&index, &places);
        of = g.args(of)[0];
        let goes_on = leaves_with(g, of, axis, &place);
        places.insert(axis, place);
        if !goes_on {
            break;
        }
    }
    (of, places)
}

/// Whether an index is that of another axis, of the same length: it leaves the axis nowhere.
fn is_name(g: &Graph, axis: AxisId, index: &AffineIndex) -> bool {
    let is_one =
        |(own, times): (&AxisId, &Dim)| times.as_constant() == Some(1) && g.extent(*own) == g.extent(axis);
    index.terms.len() == 1 && index.offset.as_constant() == Some(0) && index.terms.iter().all(is_one)
}

/// Whether an index leaves the axis of a view of a view only where that leaves an axis of what it is of.
fn leaves_with(g: &Graph, view: NodeId, axis: AxisId, place: &AffineIndex) -> bool {
    if is_name(g, axis, place) {
        return true;
    }
    let (mut of, last) = (view, g.extent(axis) - &Dim::constant(1));
    while let Op::At(inner) = *g.op(of)
        && let Some(place) = AffineIndex::of(g, g.args(of)[1])
    {
        // Positions of the axis at which the inner one is read at its first and at its last.
        let length = g.extent(inner) - &Dim::constant(1);
        let ends = match place.terms.get(&axis).and_then(Dim::as_constant) {
            Some(1) => Some((&Dim::constant(0) - &place.offset, &length - &place.offset)),
            Some(-1) => Some((&place.offset - &length, place.offset.clone())),
            Some(_) | None => None,
        };
        if let Some((first, end)) = ends
            && place.terms.len() == 1
        {
            return first.is_nonnegative() && end.provably_le(&last);
        }
        if inner == axis {
            return false;
        }
        of = g.args(of)[0];
    }
    // It is an axis of the tensor itself.
    g.node(of).axes.contains(axis)
}

/// An index at those places, each axis being replaced in the index as it was.
fn within(index: &AffineIndex, places: &Places) -> AffineIndex {
    let kept = index.terms.iter().filter(|(axis, _)| !places.contains_key(axis));
    let mut out = AffineIndex {
        terms: kept.map(|(axis, times)| (*axis, times.clone())).collect(),
        offset: index.offset.clone(),
    };
    for (axis, place) in places {
        let alone =
            |times: &Dim| AffineIndex { terms: [(*axis, times.clone())].into(), offset: Dim::constant(0) };
        if let Some(times) = index.terms.get(axis) {
            let minus = &Dim::constant(0) - times;
            out = out.less(&alone(&minus).with(*axis, place));
        }
    }
    out
}

/// Whether an index is at least zero: decided where that is proved either way.
pub(super) fn at_least_zero(b: &mut Builder, index: &AffineIndex) -> NodeId {
    if is_never_below_zero(b, index) {
        return b.constant(Const::Bool(true));
    }
    let below = AffineIndex::fixed(Dim::constant(-1)).less(index);
    if is_never_below_zero(b, &below) {
        return b.constant(Const::Bool(false));
    }
    // What is taken off stands on the other side.
    let (mut least, mut most) =
        (AffineIndex::fixed(Dim::constant(0)), AffineIndex::fixed(index.offset.clone()));
    for (axis, times) in &index.terms {
        if times.is_nonnegative() {
            most.terms.insert(*axis, times.clone());
        } else {
            least.terms.insert(*axis, &Dim::constant(0) - times);
        }
    }
    let [least, most] = [least, most].map(|side| side.add_to(b, None));
    b.map(MapOp::Le, &[least, most]).expect("integers")
}
