//! Steps that read values elsewhere: renamed, shifted, split, merged, gathered and joined.

use super::{A, D, E, F, Guards, H, I, J, K, L, P, Program, RANK, Value, W};
use salient_ir::{AxisId, Const, MapOp, NodeId, Op};
use smallvec::SmallVec;

impl Program {
    pub(super) fn renamed(&mut self) -> Option<Value> {
        let (from, to) = self.one_of(&[(I, K), (K, I), (J, L), (L, J), (D, F), (F, D)]);
        let x = self.with(from)?;
        if self.has(&x, to) && self.rng.bool() {
            return None;
        }
        let index = self.b.iota(self.axes[to]);
        Some(self.view(x, self.axes[from], index, None))
    }

    pub(super) fn reversed(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let last = self.extent(axis);
        let (one, place) = (self.int(1), self.b.iota(axis));
        let last = self.map(MapOp::Sub, &[last, one]);
        let index = self.map(MapOp::Sub, &[last, place]);
        Some(self.view(x, axis, index, None))
    }

    /// One or two places before or behind, where there is something.
    pub(super) fn shifted(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let by = self.rng.i64(1..3);
        let (step, place) = (self.int(by), self.b.iota(axis));
        if self.rng.bool() {
            let index = self.map(MapOp::Sub, &[place, step]);
            let inside = if self.rng.bool() {
                self.map(MapOp::Le, &[step, place])
            } else {
                let zero = self.int(0);
                self.map(MapOp::Le, &[zero, index])
            };
            return Some(self.view(x, axis, index, Some(inside)));
        }
        let (index, end) = (self.map(MapOp::Add, &[place, step]), self.extent(axis));
        let inside = self.map(MapOp::Lt, &[index, end]);
        Some(self.view(x, axis, index, Some(inside)))
    }

    /// `x[i - k]` where `k <= i`, or `x[abs(i - k)]`.
    pub(super) fn difference(&mut self) -> Option<Value> {
        let (from, other) = self.one_of(&[(I, K), (K, I), (J, L)]);
        let x = self.with(from)?;
        if self.has(&x, other) || self.axes_of(x.node).len() >= RANK {
            return None;
        }
        let (a, b) = (self.b.iota(self.axes[from]), self.b.iota(self.axes[other]));
        let distance = self.map(MapOp::Sub, &[a, b]);
        if self.rarely(4) {
            let index = self.map(MapOp::Abs, &[distance]);
            return Some(self.view(x, self.axes[from], index, None));
        }
        let inside = self.map(MapOp::Le, &[b, a]);
        Some(self.view(x, self.axes[from], distance, Some(inside)))
    }

    /// The last few places, one axis more: `x[i - v]` where `i >= v`, or all around `x[i + v - 1]`.
    pub(super) fn window(&mut self) -> Option<Value> {
        let along = self.one_of(&[I, J, K, D]);
        let x = self.with(along)?;
        if self.has(&x, W) || self.axes_of(x.node).len() >= RANK {
            return None;
        }
        let axis = self.axes[along];
        let (place, back) = (self.b.iota(axis), self.b.iota(self.axes[W]));
        let past = self.map(MapOp::Sub, &[place, back]);
        if self.rng.bool() {
            let inside = self.map(MapOp::Le, &[back, place]);
            return Some(self.view(x, axis, past, Some(inside)));
        }
        let (one, zero, end) = (self.int(1), self.int(0), self.extent(axis));
        let index = self.map(MapOp::Add, &[past, one]);
        let (low, high) = (self.map(MapOp::Le, &[zero, index]), self.map(MapOp::Lt, &[index, end]));
        let inside = self.map(MapOp::And, &[low, high]);
        Some(self.view(x, axis, index, Some(inside)))
    }

    /// Along an axis that is one longer: `x[p]` where `p < T`, or `x[p - 1]` where `p > 0`.
    pub(super) fn beyond(&mut self) -> Option<Value> {
        let place = self.b.iota(self.axes[P]);
        if self.rng.bool()
            && let Some(x) = self.with(P)
        {
            // And back: both are inside.
            let (i, one) = (self.b.iota(self.axes[I]), self.int(1));
            if self.has(&x, I) {
                return None;
            }
            let index = if self.rng.bool() { i } else { self.map(MapOp::Add, &[i, one]) };
            return Some(self.view(x, self.axes[P], index, None));
        }
        let x = self.with(I)?;
        if self.has(&x, P) {
            return None;
        }
        if self.rng.bool() {
            let end = self.extent(self.axes[I]);
            let inside = self.map(MapOp::Lt, &[place, end]);
            return Some(self.view(x, self.axes[I], place, Some(inside)));
        }
        let (one, zero) = (self.int(1), self.int(0));
        let (index, inside) = (self.map(MapOp::Sub, &[place, one]), self.map(MapOp::Lt, &[zero, place]));
        Some(self.view(x, self.axes[I], index, Some(inside)))
    }

    pub(super) fn clamped(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let (one, zero, place) = (self.int(1), self.int(0), self.b.iota(axis));
        let index = if self.rng.bool() {
            let before = self.map(MapOp::Sub, &[place, one]);
            self.map(MapOp::Max, &[before, zero])
        } else {
            let last = self.extent(axis);
            let last = self.map(MapOp::Sub, &[last, one]);
            let next = self.map(MapOp::Add, &[place, one]);
            self.map(MapOp::Min, &[next, last])
        };
        Some(self.view(x, axis, index, None))
    }

    /// `x[(i + 1) % T]`, `x[i / 2]` and `x[i - i % 2]`.
    pub(super) fn wrapped(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let (place, length) = (self.b.iota(axis), self.extent(axis));
        let by = self.rng.i64(1..4);
        let (by, two) = (self.int(by), self.int(2));
        let index = match self.rng.u8(0..3) {
            0 => {
                let next = self.map(MapOp::Add, &[place, by]);
                self.map(MapOp::Mod, &[next, length])
            }
            1 => self.map(MapOp::IntDiv, &[place, two]),
            _ => {
                let odd = self.map(MapOp::Mod, &[place, two]);
                self.map(MapOp::Sub, &[place, odd])
            }
        };
        Some(self.view(x, axis, index, None))
    }

    pub(super) fn split(&mut self) -> Option<Value> {
        let x = self.with(D)?;
        if self.axes_of(x.node).len() + 1 > RANK || self.has(&x, H) || self.has(&x, E) {
            return None;
        }
        let (head, feature) = (self.b.iota(self.axes[H]), self.b.iota(self.axes[E]));
        let width = self.b.extent_of(&self.half.clone());
        let start = self.map(MapOp::Mul, &[head, width]);
        let index = self.map(MapOp::Add, &[start, feature]);
        Some(self.view(x, self.axes[D], index, None))
    }

    pub(super) fn merged(&mut self) -> Option<Value> {
        let x = self.with(H)?;
        if !self.has(&x, E) || self.has(&x, D) {
            return None;
        }
        let (place, width) = (self.b.iota(self.axes[D]), self.b.extent_of(&self.half.clone()));
        let head = self.map(MapOp::IntDiv, &[place, width]);
        let feature = self.map(MapOp::Mod, &[place, width]);
        let merged = self.view(x, self.axes[H], head, None);
        Some(self.view(merged, self.axes[E], feature, None))
    }

    pub(super) fn strided(&mut self) -> Option<Value> {
        let x = self.with(D)?;
        if self.has(&x, E) {
            return None;
        }
        let odd = self.rng.i64(0..2);
        let (place, two, odd) = (self.b.iota(self.axes[E]), self.int(2), self.int(odd));
        let even = self.map(MapOp::Mul, &[place, two]);
        let index = self.map(MapOp::Add, &[even, odd]);
        Some(self.view(x, self.axes[D], index, None))
    }

    /// The first place or the last, if there is one.
    pub(super) fn first_or_last(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let (first, end) = (self.int(0), self.extent(axis));
        let one = self.int(1);
        let index = if self.rng.bool() { first } else { self.map(MapOp::Sub, &[end, one]) };
        let some = self.map(MapOp::Lt, &[first, end]);
        Some(self.view(x, axis, index, Some(some)))
    }

    pub(super) fn gathered(&mut self) -> Option<Value> {
        let x = self.with(J)?;
        Some(self.view(x, self.axes[J], self.ids, None))
    }

    /// By data that may lie outside, under a mask that says where it does not.
    pub(super) fn gathered_under_a_mask(&mut self) -> Option<Value> {
        let along = self.one_of(&[J, D, K]);
        let x = self.with(along)?;
        let (zero, end) = (self.int(0), self.extent(self.axes[along]));
        let low = self.map(MapOp::Le, &[zero, self.counts]);
        let high = self.map(MapOp::Lt, &[self.counts, end]);
        if self.rng.bool() {
            let inside = self.map(MapOp::And, &[low, high]);
            return Some(self.view(x, self.axes[along], self.counts, Some(inside)));
        }
        let mut out = self.view(x, self.axes[along], self.counts, Some(low));
        out.guards = Guards::one(high).and(&out.guards);
        Some(out)
    }

    /// Heads of queries read those of keys: by quotient or by remainder.
    pub(super) fn grouped(&mut self) -> Option<Value> {
        let x = self.with(H)?;
        if self.has(&x, A) {
            return None;
        }
        let (head, two) = (self.b.iota(self.axes[A]), self.int(2));
        let op = self.one_of(&[MapOp::IntDiv, MapOp::Mod]);
        let index = self.map(op, &[head, two]);
        Some(self.view(x, self.axes[H], index, None))
    }

    /// Two values one after the other, also read across the seam, or parts of it.
    pub(super) fn joined(&mut self) -> Option<Value> {
        let (first, second) = self.one_of(&[(I, J), (J, I), (D, H), (E, D), (I, K)]);
        let (x, y) = (self.with(first)?, self.with(second)?);
        let (x, y) = (Value::free(self.close(&x, None), x.bound), Value::free(self.close(&y, None), y.bound));
        if self.has(&x, second) || self.has(&y, first) || !self.fits(&[x.node, y.node]) {
            return None;
        }
        let parts: SmallVec<[AxisId; 2]> = SmallVec::from_slice(&[self.axes[first], self.axes[second]]);
        let total = self.b.extent(parts[0]) + self.b.extent(parts[1]);
        let whole = self.b.axis_id("whole", &total);
        let node = self.b.add(Op::Concat(whole, parts), &[x.node, y.node]).expect("floats");
        let bound = x.bound.max(y.bound);
        match self.rng.u8(0..3) {
            0 => Some(Value::free(node, bound)),
            1 => {
                // What stands behind the first few, across the seam.
                let (place, length) = (self.b.iota(self.axes[first]), self.extent(self.axes[second]));
                let index = self.map(MapOp::Add, &[place, length]);
                Some(Value::free(self.at(node, whole, index), bound))
            }
            _ => {
                let back = self.one_of(&[first, second]);
                let index = self.b.iota(self.axes[back]);
                Some(Value::free(self.at(node, whole, index), bound))
            }
        }
    }

    /// A mask of places: a window, a band, every other, a block.
    pub(super) fn index_mask(&mut self) -> Option<Value> {
        let (a, b) = self.one_of(&[(I, J), (I, K), (K, J), (D, E), (I, D)]);
        let (a, b) = (self.b.iota(self.axes[a]), self.b.iota(self.axes[b]));
        let (zero, two, by) = (self.int(0), self.int(2), self.rng.i64(1..6));
        let by = self.int(by);
        let distance = self.map(MapOp::Sub, &[a, b]);
        let mask: NodeId = match self.rng.u8(0..6) {
            0 => self.map(MapOp::Lt, &[distance, by]),
            1 => {
                let far = self.map(MapOp::Abs, &[distance]);
                self.map(MapOp::Le, &[far, by])
            }
            2 => {
                let odd = self.map(MapOp::Mod, &[distance, two]);
                self.map(MapOp::Eq, &[odd, zero])
            }
            3 => {
                let (a, b) = (self.map(MapOp::IntDiv, &[a, by]), self.map(MapOp::IntDiv, &[b, by]));
                self.map(MapOp::Eq, &[a, b])
            }
            4 => {
                let past = self.map(MapOp::Le, &[b, a]);
                let near = self.map(MapOp::Lt, &[distance, by]);
                self.map(MapOp::And, &[past, near])
            }
            _ => self.b.constant(Const::Bool(false)),
        };
        self.masks.push(mask);
        None
    }
}
