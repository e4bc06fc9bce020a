//! What an expression takes along a strip: the operations of each element, by the rows of the operators, and how many elements
//! are read one by one.
//!
//! Addresses are looked at in numbers, at three places along the lanes: the first, the next and the last. Where these lie at
//! one distance the emitter has a pointer and a step; where they do not every lane has an address of its own.

use super::Priced;
use crate::plan::KernelPlan;
use salient_ir::{AxisId, Class, Graph, MapOp, NodeId, Op};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Where an axis stands along a strip.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    /// The index at the first, the second and the last lane.
    Known([i64; 3]),
    /// An index from memory that is the same along the strip.
    Even,
    /// An index from memory.
    Scattered,
}

type Places = BTreeMap<AxisId, Place>;

/// The work of one element.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Each {
    /// Operations that vectors do.
    pub(super) operations: f64,
    /// Elements that are read at addresses of their own.
    pub(super) gathered: f64,
}

/// An expression of a kernel along an axis.
pub(super) struct Strip<'p> {
    priced: &'p Priced<'p>,
    kernel: &'p KernelPlan,
    /// What lies in scratch memory or in registers.
    held: BTreeSet<NodeId>,
    /// How many lanes there are.
    width: i64,
    places: Places,
    seen: HashSet<(NodeId, Vec<(AxisId, Place)>)>,
    each: Each,
}

/// An operation on what is the same along a strip: it is done once for a vector, not once for each lane of it.
const EVEN: f64 = 1.0 / 8.0;

impl<'p> Priced<'p> {
    /// The work of one element of expressions of a kernel, lanes running along an axis, of which each part is computed once;
    /// what is held is there already.
    pub(super) fn each(
        &'p self,
        kernel: &'p KernelPlan,
        roots: &[NodeId],
        lane: Option<AxisId>,
        held: impl IntoIterator<Item = NodeId>,
    ) -> Each {
        let width = lane.and_then(|axis| self.plan.graph.extent(axis).eval(&self.numbers).ok());
        self.each_of(kernel, roots, (lane, width.unwrap_or(1)), held)
    }

    /// As [`Priced::each`], where strips are no longer than a part of the axis.
    pub(super) fn each_of(
        &'p self,
        kernel: &'p KernelPlan,
        roots: &[NodeId],
        (lane, width): (Option<AxisId>, i64),
        held: impl IntoIterator<Item = NodeId>,
    ) -> Each {
        let g = &*self.plan.graph;
        let place = |axis: AxisId| {
            if Some(axis) == lane {
                return Place::Known([0, 1.min(width - 1), width - 1]);
            }
            Place::Known([g.extent(axis).eval(&self.numbers).unwrap_or(0) / 2; 3])
        };
        let places = g.axes().map(|(axis, _)| (axis, place(axis))).collect();
        let held = held.into_iter().collect();
        let mut strip =
            Strip { priced: self, kernel, held, width, places, seen: HashSet::new(), each: Each::default() };
        for root in roots {
            let places = strip.relevant(*root, &strip.places);
            strip.visit(*root, &places);
        }
        strip.each
    }
}

impl Strip<'_> {
    fn graph(&self) -> &Graph {
        &self.priced.plan.graph
    }

    fn relevant(&self, id: NodeId, places: &Places) -> Places {
        let axes = &self.graph().node(id).axes;
        axes.iter().filter_map(|axis| Some((axis, *places.get(&axis)?))).collect()
    }

    fn visit(&mut self, id: NodeId, places: &Places) {
        let places = self.relevant(id, places);
        if !self.seen.insert((id, places.iter().map(|(a, p)| (*a, *p)).collect())) {
            return;
        }
        let often = if places.values().all(|p| self.is_even(*p)) { EVEN } else { 1.0 };
        if self.held.contains(&id) {
            self.each.operations += often;
            return;
        }
        if self.is_read(id) {
            self.read(id, &places);
            return;
        }
        let args = self.graph().args(id);
        match self.graph().op(id).clone() {
            Op::Map(op) => {
                // What the emitter knows as a polynomial takes nothing.
                if self.index(id, &places).is_some_and(|index| self.is_line(index)) {
                    return;
                }
                self.each.operations += often * f64::from(op.info().additions);
                args.iter().for_each(|arg| self.visit(*arg, &places));
            }
            Op::At(axis) => {
                let place = self.place_of(args[1], &places);
                if !matches!(place, Place::Known(index) if self.is_line(index)) {
                    self.visit(args[1], &places);
                }
                let mut inner = places.clone();
                inner.insert(axis, place);
                self.visit(args[0], &inner);
            }
            Op::Concat(axis, parts) => {
                for (part, arg) in parts.iter().zip(&args) {
                    // Which part an element is of, and what it is.
                    self.each.operations += 2.0 * often;
                    let mut inner = places.clone();
                    inner.insert(*part, places.get(&axis).copied().unwrap_or(Place::Even));
                    self.visit(*arg, &inner);
                }
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            // Held by a loop of its own, or stored.
            Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) => self.each.operations += often,
        }
    }

    /// Whether the kernel reads the value and does not compute it.
    fn is_read(&self, id: NodeId) -> bool {
        let stored = self.priced.homes.get(&id);
        stored.is_some_and(|home| *home != self.kernel.buffer && self.kernel.reads().contains(home))
            && !self.kernel.expression.computes.contains(&id)
            || self.graph().op(id).class() == Class::Port
    }

    fn read(&mut self, id: NodeId, places: &Places) {
        let Some(home) = self.priced.homes.get(&id) else { return };
        let buffer = &self.priced.plan.buffers[home.0];
        let (mut at, mut stride) = ([0; 3], 1i64);
        for (axis, extent) in buffer.axes.iter().zip(&buffer.shape).rev() {
            match places.get(axis) {
                Some(Place::Known(index)) => {
                    for lane in 0..3 {
                        at[lane] = stride.saturating_mul(index[lane]).saturating_add(at[lane]);
                    }
                }
                Some(Place::Scattered) => {
                    self.each.gathered += 1.0;
                    return;
                }
                Some(Place::Even) | None => {}
            }
            stride = stride.saturating_mul(extent.eval(&self.priced.numbers).unwrap_or(1));
        }
        match at[1].saturating_sub(at[0]) {
            0 if self.is_line(at) => self.each.operations += EVEN,
            1 if self.is_line(at) => self.each.operations += 1.0,
            _ => self.each.gathered += 1.0,
        }
    }

    fn is_even(&self, place: Place) -> bool {
        match place {
            Place::Known([a, b, c]) => a == b && b == c,
            Place::Even => true,
            Place::Scattered => false,
        }
    }

    /// Whether the lanes lie at one distance.
    fn is_line(&self, [first, second, last]: [i64; 3]) -> bool {
        let step = second.saturating_sub(first);
        last.saturating_sub(first) == step.saturating_mul(self.width.saturating_sub(1))
    }

    /// The place that an index gives.
    fn place_of(&self, index: NodeId, places: &Places) -> Place {
        if let Some(known) = self.index(index, places).filter(|_| self.is_polynomial(index)) {
            return Place::Known(known);
        }
        // An integer that is read once for the strip moves the pointer; one that is computed is computed for each lane.
        let even = self.relevant(index, places).values().all(|place| self.is_even(*place));
        if even && self.is_read(index) { Place::Even } else { Place::Scattered }
    }

    /// Whether an index is one that the emitter knows as a polynomial.
    fn is_polynomial(&self, id: NodeId) -> bool {
        let g = self.graph();
        let all = || g.args(id).iter().all(|arg| self.is_polynomial(*arg));
        match g.op(id) {
            Op::Iota(_) | Op::Extent(_) | Op::Const(_) => true,
            Op::Map(MapOp::Add | MapOp::Sub | MapOp::Mul | MapOp::Neg | MapOp::IntDiv | MapOp::Mod) => all(),
            Op::At(_) => all(),
            Op::Map(_) | Op::Input(_) | Op::Param(_) | Op::Reduce(..) => false,
            Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => false,
        }
    }

    /// The value of an integer of indices at three lanes, if nothing from memory is in it.
    fn index(&self, id: NodeId, places: &Places) -> Option<[i64; 3]> {
        let g = self.graph();
        if !g.node(id).dtype.is_int() || self.is_read(id) {
            return None;
        }
        match g.op(id) {
            Op::Iota(axis) => match places.get(axis)? {
                Place::Known(index) => Some(*index),
                Place::Even | Place::Scattered => None,
            },
            Op::Extent(dim) => Some([dim.eval(&self.priced.numbers).ok()?; 3]),
            Op::Const(c) => Some([c.value() as i64; 3]),
            Op::Map(op) => {
                let args = g.args(id);
                let args: Vec<[i64; 3]> =
                    args.iter().map(|arg| self.index(*arg, places)).collect::<Option<_>>()?;
                let of = |lane: usize| {
                    let numbers: Vec<f64> = args.iter().map(|arg| arg[lane] as f64).collect();
                    (op.info().eval)(&numbers) as i64
                };
                Some([of(0), of(1), of(2)])
            }
            Op::At(axis) => {
                let args = g.args(id);
                let mut inner = places.clone();
                inner.insert(*axis, Place::Known(self.index(args[1], places)?));
                self.index(args[0], &inner)
            }
            Op::Input(_) | Op::Param(_) | Op::Reduce(..) | Op::Concat(..) => None,
            Op::CumSum(..) | Op::Fused(..) => None,
        }
    }
}
