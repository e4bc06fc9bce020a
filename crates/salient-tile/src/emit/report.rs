//! Which lanes of a strip use an index outside its axis: they report it, with the tensor.
//!
//! An element is used where an element that reads it is: the condition of a choice with the choice, an arm where the choice
//! takes it, a tensor under a view where the index lies inside. Several ways to an element are one condition, so that
//! each element is looked at once.

use crate::dims::LANE;
use crate::emit::strip::{Strip, both};
use crate::index::{AxisValue, Env};
use crate::program::kernel::{Base, Check};
use salient_ir::{Dim, MapOp, NodeId, Op};
use salient_vector::{Builder, I32, Mask};
use std::collections::BTreeMap;

/// Lanes of a strip; `None` is all of them.
type Lanes = Option<Mask>;

/// A node at a place: the lanes that lie inside its axes and need it, and the demanded node for which it is used; `None`: it
/// is only computed.
#[derive(Clone)]
struct Use {
    env: Env,
    lanes: Lanes,
    /// Whether some of the lanes may be among them and others not.
    differ: bool,
    reported: Option<NodeId>,
}

/// The elements still to be looked at, by node.
#[derive(Default)]
struct Used {
    of: BTreeMap<NodeId, Vec<Use>>,
}

impl Used {
    /// Notes a use of a node, if that may have something to report.
    fn by(&mut self, b: &mut Builder, s: &Strip<'_, '_>, id: NodeId, of: &Use) {
        let defined = s.scope.defined;
        if !defined.may_report(id) || s.is_known(id) {
            return;
        }
        let free = &s.scope.graph.node(id).axes;
        let mut new = of.clone();
        new.env.retain(|axis, _| free.contains(*axis));
        // What is demanded is used wherever it is computed.
        new.reported =
            new.reported.into_iter().chain(defined.demanding(id)).min_by_key(|d| defined.needs(*d).len());
        let uses = self.of.entry(id).or_default();
        let needs = |of: &Use| of.reported.map(|demanded| defined.needs(demanded));
        match uses.iter_mut().find(|known| known.env == new.env && needs(known) == needs(&new)) {
            None => uses.push(new),
            Some(known) => {
                known.lanes = known.lanes.zip(new.lanes).map(|(a, c)| b.or(a, c));
                known.differ |= new.differ;
            }
        }
    }
}

impl Strip<'_, '_> {
    /// Reports what the lanes of the strip use outside its axis in computing a node, for one that is demanded; without one,
    /// only what is demanded itself.
    pub(crate) fn report(&mut self, b: &mut Builder, id: NodeId, env: &Env, demanded: Option<NodeId>) {
        let mut uses = Used::default();
        uses.by(b, self, id, &Use { env: env.clone(), lanes: None, differ: false, reported: demanded });
        // Users have greater ids than what they use.
        while let Some((id, of)) = uses.of.pop_last() {
            for one in of {
                self.report_one(b, id, &one, &mut uses);
            }
        }
    }

    /// Whether a node is not computed by the strip but read, and another kernel reports for it.
    fn is_known(&self, id: NodeId) -> bool {
        let settled = || self.scope.defined.is_settled(self.scope.graph, id);
        self.held.contains_key(&id) || self.scope.stored.contains_key(&id) && settled()
    }

    fn report_one(&mut self, b: &mut Builder, id: NodeId, of: &Use, uses: &mut Used) {
        let g = self.scope.graph;
        let args = g.args(id);
        match g.op(id) {
            Op::Map(MapOp::Select) => {
                uses.by(b, self, args[0], of);
                for arm in [1, 2] {
                    // What is demanded is so outside of any choice.
                    let is_quiet = of.reported.is_none() || self.scope.defined.is_guarded(id, arm);
                    if is_quiet || !self.scope.defined.may_report(args[arm]) {
                        continue;
                    }
                    let taken = self.truth(b, args[0], &of.env);
                    let taken = if arm == 1 { taken } else { b.not(taken) };
                    let lanes = Some(both(b, of.lanes, taken));
                    let differ = of.differ || self.differs(args[0], &of.env);
                    uses.by(b, self, args[arm], &Use { lanes, differ, ..of.clone() });
                }
            }
            Op::Map(_) => args.iter().for_each(|a| uses.by(b, self, *a, of)),
            Op::At(_) => self.report_view(b, id, of, uses),
            Op::Concat(axis, parts) => {
                for (env, within, arg) in self.parts(b, *axis, parts, &args, &of.env) {
                    let lanes = Some(both(b, of.lanes, within));
                    let differ = of.differ || self.bound_differs(&of.env[axis]);
                    uses.by(b, self, arg, &Use { env, lanes, differ, ..of.clone() });
                }
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
    }

    fn report_view(&mut self, b: &mut Builder, id: NodeId, of: &Use, uses: &mut Used) {
        let g = self.scope.graph;
        let (Op::At(axis), &[tensor, index]) = (g.op(id), g.args(id).as_slice()) else { return };
        let axis = *axis;
        uses.by(b, self, index, of);
        let env = self.under_view(b, axis, index, &of.env);
        let mut differ = of.differ;
        let lanes = match &env[&axis] {
            AxisValue::Poly(_) => of.lanes,
            bound @ (AxisValue::Loose(_) | AxisValue::Vector(_)) => {
                let at = self.int(b, index, &of.env);
                let inside = self.inside(b, bound, axis);
                if let Some(demanded) = of.reported {
                    let outside = b.not(inside);
                    let mut outside = both(b, of.lanes, outside);
                    for axis in self.scope.defined.needs(demanded).iter() {
                        let (extent, zero) = (self.vector(b, self.scope.graph.extent(axis)), b.i32(0));
                        let some = b.gt(extent, zero);
                        outside = b.and(outside, some);
                    }
                    self.note_outside(b, id, at, (outside, of.differ));
                }
                differ |= self.bound_differs(bound);
                Some(both(b, of.lanes, inside))
            }
        };
        uses.by(b, self, tensor, &Use { env, lanes, differ, reported: of.reported });
    }

    /// Whether a value may differ from lane to lane.
    fn differs(&self, id: NodeId, env: &Env) -> bool {
        self.scope.graph.node(id).axes.iter().any(|axis| self.bound_differs(&env[&axis]))
    }

    fn bound_differs(&self, bound: &AxisValue) -> bool {
        match bound {
            AxisValue::Poly(at) | AxisValue::Loose(at) => {
                at.linear_in(&LANE).is_none_or(|(slope, _)| slope.as_constant() != Some(0))
            }
            AxisValue::Vector(index) => self.even(*index).is_none(),
        }
    }

    /// Notes an index that leaves its axis in lanes where it is used, and whether those may be some of the lanes alone.
    fn note_outside(&mut self, b: &mut Builder, view: NodeId, index: I32, (outside, differ): (Mask, bool)) {
        let g = self.scope.graph;
        let (Op::At(axis), tensor) = (g.op(view), g.args(view)[0]) else { return };
        let (axis, placed) = (*axis, g.nearest_user(view, |node| node.origin.is_some()));
        let name = self.scope.names[tensor.index()].clone().unwrap_or_else(|| "a tensor".to_owned());
        self.scope.checks.push(Check {
            tensor: name,
            axis: g.axis(axis).name.clone(),
            extent: g.extent(axis).clone(),
            origin: placed.and_then(|node| node.origin),
        });
        let site = i32::try_from(self.scope.checks.len()).expect("fewer than 2^31 checks");
        self.written.push(Base::Status);
        let cell = self.pointer(b, Base::Status, &Dim::constant(0));
        let (site, nowhere, one) = (b.i32(site), b.i32(0), b.int(1));
        // Of several lanes that leave the axis any one is told; a store of one element is that of the first lane.
        let place = match self.even(index) {
            Some(_) if !differ => cell.at_start().one(),
            Some(_) | None => cell.at_start().indexed(nowhere, one),
        };
        b.store(place.masked(outside), site);
        b.store(place.plus(1).masked(outside), index);
    }
}
