//! Steps with integers: places and counts as numbers.

use super::{D, I, J, K, P, Program, Value};
use salient_ir::{MapOp, NodeId, ReduceOp};

impl Program {
    /// A small integer expression of places, dimensions and data.
    fn integer(&mut self, depth: usize) -> NodeId {
        if depth == 0 || self.rarely(4) {
            return match self.rng.u8(0..6) {
                0 => {
                    let n = self.rng.i64(-3..8);
                    self.int(n)
                }
                1 => self.counts,
                2 => self.ids,
                3 => self.extent(self.axes[J]),
                _ => {
                    let axis = self.one_of(&[I, J, K, D, P]);
                    self.b.iota(self.axes[axis])
                }
            };
        }
        let a = self.integer(depth - 1);
        let op = self.one_of(&[
            MapOp::Add,
            MapOp::Sub,
            MapOp::Mul,
            MapOp::IntDiv,
            MapOp::Mod,
            MapOp::Min,
            MapOp::Max,
            MapOp::Abs,
            MapOp::Neg,
        ]);
        if op.info().arity == 1 {
            return self.map(op, &[a]);
        }
        let b = if matches!(op, MapOp::IntDiv | MapOp::Mod) {
            let n = self.one_of(&[2, 3, 5, -2, 7]);
            self.int(n)
        } else {
            self.integer(depth - 1)
        };
        if self.fits(&[a, b]) { self.map(op, &[a, b]) } else { a }
    }

    /// An integer expression as a number near one.
    pub(super) fn index_value(&mut self) -> Option<Value> {
        let depth = self.rng.usize(1..4);
        let mut n = self.integer(depth);
        if self.rarely(4) {
            let axes: Vec<_> = self.axes_of(n).iter().collect();
            if let Some(axis) = self.rng.choice(&axes).copied() {
                let op = self.one_of(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]);
                // The extremes of nothing are infinite, which no integer is.
                let floor = self.int(-100);
                n = self.reduce(op, axis, n);
                n = self.map(MapOp::Max, &[n, floor]);
            }
        }
        let small = self.int(11);
        let n = self.map(MapOp::Mod, &[n, small]);
        let (node, scale) = (self.map(MapOp::ToF32, &[n]), self.float(0.1));
        Some(Value::free(self.map(MapOp::Mul, &[node, scale]), 1.0))
    }

    /// A value read at an integer expression of places, where that is inside; or a mask of integers.
    pub(super) fn counted(&mut self) -> Option<Value> {
        let index = self.integer(2);
        let x = self.value();
        let axis = self.axis_of(&x)?;
        if self.rng.bool() {
            let other = self.integer(1);
            if self.fits(&[index, other]) {
                let op = self.one_of(&[MapOp::Lt, MapOp::Le, MapOp::Eq, MapOp::Ne]);
                let mask = self.map(op, &[index, other]);
                self.masks.push(mask);
            }
            return None;
        }
        if !self.fits(&[index, x.node]) {
            return None;
        }
        let (zero, end) = (self.int(0), self.extent(axis));
        let (low, high) = (self.map(MapOp::Le, &[zero, index]), self.map(MapOp::Lt, &[index, end]));
        let inside = self.map(MapOp::And, &[low, high]);
        Some(self.view(x, axis, index, Some(inside)))
    }
}
