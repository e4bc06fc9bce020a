//! Reads of parts: of what is computed for each position of joined parts, and read at the positions of one part alone, that
//! part is computed by itself. `sum[j](w[i, j] * concat(v, ones)[j, c])` read at `c = E` is `sum[j](w[i, j] * ones[j])`.
//!
//! Parts are joined by a concatenation, or by a choice that asks for the position along the axis alone. Only sums that nobody reads as
//! a whole are taken apart, so that nothing is computed twice.
//!
//! The same where two axes are one for a while: what is made of `flat[n] = x[n / S, n % S]` and read at `n = i * S + j` is made of
//! `x[i, j]`.

use crate::graph::factors::Factors;
use crate::graph::index::{AffineIndex, simpler};
use crate::graph::inequalities::is_never_below_zero;
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, AxisSet, Builder, Class, Dim, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// The same model with each read of one part as a computation of that part.
pub(crate) fn reads_of_parts(g: &Graph) -> Graph {
    let (reads, cones) = found(g);
    if reads.is_empty() {
        return g.clone();
    }
    let rewritten = rewrite(g, |b, new, id| {
        let read = reads.get(&id)?;
        let of = g.args(id)[0];
        let cone = cones[&(of, read.axis)].as_ref()?;
        if !read.is_merged {
            let index = new[g.args(id)[1].index()];
            return Some(Inside { g, new, read, index, cone, made: BTreeMap::new() }.of(b, of));
        }
        // With axes of its own, which nothing inside has.
        let mut taken: AxisSet = g.axes().map(|(axis, _)| axis).collect();
        let mut fresh = |b: &mut Builder, axis: AxisId| {
            let fresh = b.fresh_axis(axis, &taken);
            taken.insert(fresh);
            (axis, fresh)
        };
        let own: Vec<(AxisId, AxisId)> = read.place.terms.keys().map(|axis| fresh(b, *axis)).collect();
        let mut place = read.place.clone();
        place.terms = own.iter().map(|(axis, fresh)| (*fresh, read.place.terms[axis].clone())).collect();
        let index = place.add_to(b, None);
        let read = Read { axis: read.axis, place, is_merged: true };
        let made = Inside { g, new, read: &read, index, cone, made: BTreeMap::new() }.of(b, of);
        own.into_iter().try_fold(made, |made, (axis, fresh)| b.rename(made, fresh, axis)).ok()
    });
    rewritten.graph
}

/// Where a view reads.
#[derive(Clone)]
pub(super) struct Read {
    pub(super) axis: AxisId,
    pub(super) place: AffineIndex,
    /// Whether the index is that of several axes in one.
    pub(super) is_merged: bool,
}

/// What is computed for each position of an axis from the place where the parts are joined.
#[derive(Default)]
pub(super) struct Cone {
    pub(super) nodes: BTreeSet<NodeId>,
    /// Where parts are joined.
    pub(super) joints: BTreeSet<NodeId>,
    /// Views by a quotient or a remainder of the axis.
    splits: BTreeSet<NodeId>,
    /// The axes that are bound inside.
    pub(super) bound: AxisSet,
}

/// What is viewed along an axis.
type Cones = BTreeMap<(NodeId, AxisId), Option<Cone>>;

/// The views that read one part of something that is read by such views alone, and what they read.
fn found(g: &Graph) -> (BTreeMap<NodeId, Read>, Cones) {
    let (mut reads, mut cones) = (BTreeMap::new(), Cones::new());
    let joined: BTreeSet<AxisId> = g.ids().filter_map(|id| joins(g, id).or_else(|| split(g, id))).collect();
    for id in g.ids() {
        let Op::At(axis) = *g.op(id) else { continue };
        if !joined.contains(&axis) {
            continue;
        }
        let [of, index] = [0, 1].map(|n| g.args(id)[n]);
        let Some(place) = AffineIndex::of(g, index) else { continue };
        let is_merged = is_merged(g, of, &place);
        if !is_merged && !is_plain(g, of, &place) {
            continue;
        }
        let read = Read { axis, place, is_merged };
        let cone = cones.entry((of, axis)).or_insert_with(|| Cone::of(g, of, axis));
        if cone.as_ref().is_some_and(|cone| cone.is_read_in_part(g, &read)) {
            reads.insert(id, read);
        }
    }
    let is_left = |of: NodeId, axis: AxisId| {
        let cone = cones[&(of, axis)].as_ref().expect("a cone of which parts are read");
        cone.is_read_by(g, of, |user| reads.contains_key(&user))
    };
    let kept: BTreeSet<NodeId> =
        reads.iter().filter(|(id, read)| is_left(g.args(**id)[0], read.axis)).map(|(id, _)| *id).collect();
    reads.retain(|id, _| kept.contains(id));
    (reads, cones)
}

/// Whether each position of the view is another one of what it reads, so that nothing is computed more often than it was.
pub(super) fn is_plain(g: &Graph, of: NodeId, place: &AffineIndex) -> bool {
    let unit = |times: &Dim| matches!(times.as_constant(), Some(1 | -1));
    let is_new = |axis: &AxisId| !g.node(of).axes.contains(*axis);
    place.terms.len() < 2 && place.terms.iter().all(|(axis, times)| unit(times) && is_new(axis))
}

/// Whether an index is that of several axes in one, each of whose positions is another one: `i * S + j` where `j` is below `S`, which
/// is the span of what has been looked at before `i`.
fn is_merged(g: &Graph, of: NodeId, place: &AffineIndex) -> bool {
    let mut left = place.terms.clone();
    let mut span = Dim::constant(1);
    while !left.is_empty() {
        let next = left.iter().find(|(_, times)| span.provably_le(times));
        let Some((axis, times)) = next.map(|(axis, times)| (*axis, times.clone())) else { return false };
        if g.node(of).axes.contains(axis) {
            return false;
        }
        span = &times * g.extent(axis);
        left.remove(&axis);
    }
    place.terms.len() > 1
}

/// The axis of which a view reads a quotient or a remainder.
fn split(g: &Graph, id: NodeId) -> Option<AxisId> {
    let Op::At(_) = g.op(id) else { return None };
    let (mut stack, mut looks) = (vec![g.args(id)[1]], 16usize);
    while let Some(index) = stack.pop() {
        looks = looks.checked_sub(1)?;
        let args = g.args(index);
        match g.op(index) {
            Op::Map(MapOp::IntDiv | MapOp::Mod) => {
                let place = AffineIndex::of(g, args[0])?;
                let mut axes = place.terms.keys();
                return axes.next().copied().filter(|_| place.terms.len() == 1);
            }
            Op::Map(_) => stack.extend(args),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
    }
    None
}

/// The axis along which a node joins parts.
pub(super) fn joins(g: &Graph, id: NodeId) -> Option<AxisId> {
    match g.op(id) {
        Op::Concat(axis, _) => Some(*axis),
        Op::Map(MapOp::Select) => {
            let condition = g.args(id)[0];
            let mut axes = g.node(condition).axes.iter();
            let (Some(axis), None) = (axes.next(), axes.next()) else { return None };
            compares_places(g, condition).then_some(axis)
        }
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => None,
        Op::Reduce(..) | Op::At(_) | Op::CumSum(..) | Op::Fused(..) => None,
    }
}

/// Whether a condition compares places: one that asks for data is decided nowhere.
fn compares_places(g: &Graph, condition: NodeId) -> bool {
    let args = g.args(condition);
    match g.op(condition) {
        Op::Map(MapOp::And | MapOp::Or | MapOp::Not) => args.iter().all(|arg| compares_places(g, *arg)),
        Op::Map(MapOp::Le | MapOp::Lt | MapOp::Eq | MapOp::Ne) => {
            args.iter().all(|arg| AffineIndex::of(g, *arg).is_some())
        }
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => false,
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => false,
    }
}

impl Cone {
    /// What a value is computed by for each position of an axis; none if it is computed across positions, or element by element.
    fn of(g: &Graph, root: NodeId, axis: AxisId) -> Option<Cone> {
        let mut cone = Cone::default();
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            if !g.node(id).axes.contains(axis) || !cone.nodes.insert(id) {
                continue;
            }
            if joins(g, id) == Some(axis) {
                cone.joints.insert(id);
                continue;
            }
            if split(g, id) == Some(axis) {
                cone.splits.insert(id);
            }
            match g.op(id) {
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
                Op::Map(_) => stack.extend(g.args(id)),
                Op::Reduce(_, bound) => {
                    cone.bound.insert(*bound);
                    stack.extend(g.args(id));
                }
                Op::CumSum(_, along) if *along != axis => {
                    cone.bound.insert(*along);
                    stack.extend(g.args(id));
                }
                Op::At(_) if !is_moved(g, id, axis) => stack.push(g.args(id)[1]),
                Op::At(replaced) => {
                    cone.bound.insert(*replaced);
                    stack.extend(g.args(id));
                }
                Op::CumSum(..) | Op::Concat(..) | Op::Fused(..) => return None,
            }
        }
        let combines = |id: &NodeId| g.op(*id).class() == Class::Bind;
        let is_joined = !cone.joints.is_empty() && cone.nodes.iter().any(combines);
        (is_joined || !cone.splits.is_empty()).then_some(cone)
    }

    /// Whether of all joined parts one is read, or of an axis that is split all parts at once, and no axis of the index is bound
    /// inside.
    fn is_read_in_part(&self, g: &Graph, read: &Read) -> bool {
        if self.splits.is_empty() == read.is_merged || read.is_merged && !self.repeats_nothing(g, read.axis) {
            return false;
        }
        let is_free = read.is_merged || read.place.terms.keys().all(|axis| !self.bound.contains(*axis));
        is_free && self.joints.iter().all(|joint| part(g, *joint, read).is_some())
    }

    /// Whether nothing that is computed would be needed again for each part of a split axis: what is summed with values along it
    /// varies along it too, or is there as it is.
    fn repeats_nothing(&self, g: &Graph, axis: AxisId) -> bool {
        let is_there = |id: &NodeId| g.node(*id).axes.contains(axis) || !is_computed(g, *id);
        let sums = self.nodes.iter().filter(|id| g.op(**id).class() == Class::Bind);
        sums.flat_map(|id| g.args(*id)).all(|summed| {
            let factors = Factors::of(g, summed, &|_| true);
            factors.above.iter().chain(&factors.below).all(is_there)
        })
    }

    /// Whether all that computes something of the parts is there for such reads of the root alone.
    fn is_read_by(&self, g: &Graph, root: NodeId, is_read: impl Fn(NodeId) -> bool) -> bool {
        let computes = |id: &&NodeId| g.node(**id).dtype.is_float() && !self.joints.contains(id);
        let is_output = |id: NodeId| g.outputs().iter().any(|out| out.node == id);
        self.nodes.iter().filter(computes).all(|id| {
            let users = g.users(*id);
            let ends = |user: &NodeId| if *id == root { is_read(*user) } else { self.nodes.contains(user) };
            !is_output(*id) && users.iter().all(|user| ends(user) || self.nodes.contains(user))
        })
    }
}

/// Whether a value is computed of data by more than views.
fn is_computed(g: &Graph, id: NodeId) -> bool {
    let mut at = id;
    while let Op::At(_) = g.op(at) {
        at = g.args(at)[0];
    }
    matches!(g.op(at).class(), Class::Map | Class::Bind | Class::Concat) && !g.node(at).axes.is_empty()
}

/// Whether what a view reads has positions along an axis, other than by the index of the view.
fn is_moved(g: &Graph, view: NodeId, axis: AxisId) -> bool {
    *g.op(view) != Op::At(axis) && g.node(g.args(view)[0]).axes.contains(axis)
}

/// The part of a joint that is read: the node, and of a concatenation its own axis and the place along that.
pub(super) fn part(g: &Graph, joint: NodeId, read: &Read) -> Option<(NodeId, Option<(AxisId, AffineIndex)>)> {
    let args = g.args(joint);
    let Op::Concat(_, parts) = g.op(joint) else {
        let arm = if truth(g, args[0], read)? { args[1] } else { args[2] };
        return Some((arm, None));
    };
    let mut from = Dim::constant(0);
    for (part, arg) in parts.iter().zip(&args) {
        let mut within = read.place.clone();
        within.offset = &within.offset - &from;
        let mut left = AffineIndex::fixed(g.extent(*part) - &Dim::constant(1));
        left = left.less(&within);
        if is_never_below_zero(g, &within) && is_never_below_zero(g, &left) {
            return Some((*arg, Some((*part, within))));
        }
        from = &from + g.extent(*part);
    }
    None
}

/// Whether a condition that asks for the position along the axis holds where the view reads, if that is decided.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing is decided of others")]
fn truth(g: &Graph, condition: NodeId, read: &Read) -> Option<bool> {
    let args = g.args(condition);
    let Op::Map(op) = *g.op(condition) else { return None };
    // `a - b - less`, at least zero everywhere.
    let exceeds = |a: usize, b: usize, less: i64| {
        let [a, b] = [a, b].map(|n| AffineIndex::of(g, args[n]));
        let mut gap = a?.with(read.axis, &read.place).less(&b?.with(read.axis, &read.place));
        gap.offset = &gap.offset - &Dim::constant(less);
        Some(is_never_below_zero(g, &gap))
    };
    let decided = |yes: Option<bool>, no: Option<bool>| match (yes?, no?) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        (false, false) => None,
    };
    if args.iter().any(|arg| g.node(*arg).dtype.is_float()) {
        return None;
    }
    let known = |n: usize| truth(g, args[n], read);
    match op {
        MapOp::Le => decided(exceeds(1, 0, 0), exceeds(0, 1, 1)),
        MapOp::Lt => decided(exceeds(1, 0, 1), exceeds(0, 1, 0)),
        MapOp::Eq | MapOp::Ne => {
            let equal = Some(exceeds(0, 1, 0)? && exceeds(1, 0, 0)?);
            let apart = Some(exceeds(0, 1, 1)? || exceeds(1, 0, 1)?);
            decided(equal, apart).map(|holds| holds == (op == MapOp::Eq))
        }
        MapOp::Not => known(0).map(|holds| !holds),
        MapOp::And => Some(known(0)? && known(1)?),
        MapOp::Or => Some(known(0)? || known(1)?),
        _ => None,
    }
}

/// The inside of what a view reads.
pub(super) struct Inside<'g> {
    pub(super) g: &'g Graph,
    pub(super) new: &'g [NodeId],
    pub(super) read: &'g Read,
    /// The index of the view.
    pub(super) index: NodeId,
    pub(super) cone: &'g Cone,
    pub(super) made: BTreeMap<NodeId, NodeId>,
}

impl Inside<'_> {
    /// A value where the view reads.
    pub(super) fn of(&mut self, b: &mut Builder, id: NodeId) -> NodeId {
        if let Some(made) = self.made.get(&id) {
            return *made;
        }
        let made = self.make(b, id);
        b.describe(made, self.g.node(id).name.as_ref(), self.g.node(id).origin);
        self.made.insert(id, made);
        made
    }

    fn make(&mut self, b: &mut Builder, id: NodeId) -> NodeId {
        let (g, axis) = (self.g, self.read.axis);
        if !g.node(id).axes.contains(axis) {
            return self.new[id.index()];
        }
        let found = if joins(g, id) == Some(axis) { part(g, id, self.read) } else { None };
        match found {
            Some((arm, None)) => return self.of(b, arm),
            Some((part, Some((own, place)))) => {
                let index = place.add_to(b, None);
                return b.at(self.new[part.index()], own, index).expect("an index");
            }
            None => {}
        }
        let args = g.args(id);
        // An index, or what is computed where the view reads; the parts themselves are there.
        let is_index = |id| matches!(g.op(id), Op::Map(_)) && !g.node(id).dtype.is_float();
        let is_inside = |id| self.cone.nodes.contains(&id) && !self.cone.joints.contains(&id) || is_index(id);
        let moved = |id| is_moved(g, id, axis);
        let is_free = |replaced| !self.read.place.terms.contains_key(replaced);
        match g.op(id) {
            Op::Iota(_) => self.index,
            Op::Map(op) if is_index(id) => {
                let args: Vec<NodeId> = args.iter().map(|arg| self.of(b, *arg)).collect();
                simpler(b, *op, &args).unwrap_or_else(|| b.map(*op, &args).expect("as before at one place"))
            }
            Op::Map(_) | Op::Reduce(..) | Op::CumSum(..) if is_inside(id) => {
                let args: Vec<NodeId> = args.iter().map(|arg| self.of(b, *arg)).collect();
                b.add(g.op(id).clone(), &args).expect("as before at one place")
            }
            Op::At(replaced) if !moved(id) || is_free(replaced) => {
                let of = if moved(id) { self.of(b, args[0]) } else { self.new[args[0].index()] };
                let index = self.of(b, args[1]);
                let index = AffineIndex::of(b, index).map_or(index, |place| place.add_to(b, None));
                b.at(of, *replaced, index).expect("an index")
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Extent(_) | Op::Concat(..) => self.view(b, id),
            Op::Map(_) | Op::Reduce(..) | Op::CumSum(..) | Op::At(_) | Op::Fused(..) => self.view(b, id),
        }
    }

    /// A value that is there as a whole, read at the index.
    fn view(&self, b: &mut Builder, id: NodeId) -> NodeId {
        b.at(self.new[id.index()], self.read.axis, self.index).expect("an index")
    }
}
