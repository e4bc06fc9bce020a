//! Several expressions that read one part of the scores: reductions of a row, weights, and sums over queries, each under a mask of
//! its own.

use super::{D, GREAT, I, J, Program, Value};
use salient_ir::{AxisId, MapOp, NodeId, ReduceOp};

impl Program {
    /// An attention of which several expressions read a part that is expensive to compute, and of now and then what each key receives, which may be a factor of
    /// its value.
    pub(super) fn readers_of_one_part(&mut self) -> Option<Vec<Value>> {
        let (q, k, v) = (self.with(D)?, self.with(D)?, self.with(J)?);
        let (score, axis) = (self.product_over(D, &q, &k)?, self.axes[J]);
        if !self.has(&score, J) || !self.has(&score, I) {
            return None;
        }
        let score = self.closed_along(score, axis, 0.0);
        let v = self.closed_along(v, axis, 0.0);
        if !self.fits(&[score.node, v.node]) {
            return None;
        }
        let part = self.expensive(score.node);
        let mut of_row = Vec::new();
        for _ in 0..1 + self.rng.usize(0..3) {
            let reduced = self.reduced_under_mask(axis, part, &of_row);
            of_row.push(reduced);
        }
        let weight = self.weight_of_part(axis, part, &of_row);
        let mut made = vec![self.summed(axis, weight, &v, &score)];
        if self.rarely(3) {
            let other = self.weight_of_part(axis, part, &of_row);
            made.push(self.summed(axis, other, &v, &score));
        }
        if self.rarely(3) {
            let received = self.reduce(ReduceOp::Sum, self.axes[I], weight);
            if self.rarely(2) {
                let factor = self.logistic(received);
                let node = self.map(MapOp::Mul, &[v.node, factor]);
                let v = Value { node, ..v.clone() };
                made.push(self.summed(axis, weight, &v, &score));
            }
            made.push(Value { node: received, bound: 4.0 * GREAT, guards: score.guards.clone() });
        }
        if self.rarely(3) {
            let number = self.one_of(&of_row);
            made.push(Value { node: number, bound: 4.0 * GREAT, guards: score.guards.clone() });
        }
        Some(made)
    }

    fn summed(&mut self, axis: AxisId, weight: NodeId, v: &Value, score: &Value) -> Value {
        let weighted = self.map(MapOp::Mul, &[weight, v.node]);
        let node = self.reduce(ReduceOp::Sum, axis, weighted);
        Value { node, bound: 4.0 * GREAT, guards: score.guards.and(&v.guards) }
    }

    /// An operator that costs more to compute than to read.
    fn expensive(&mut self, score: NodeId) -> NodeId {
        let one = self.float(1.0);
        match self.rng.u8(0..5) {
            0 => self.map(MapOp::Tanh, &[score]),
            1 => {
                let squared = self.map(MapOp::Mul, &[score, score]);
                let above = self.map(MapOp::Add, &[one, squared]);
                self.map(MapOp::Log, &[above])
            }
            2 => self.logistic(score),
            3 => self.map(MapOp::Sin, &[score]),
            _ => {
                let t = self.map(MapOp::Tanh, &[score]);
                self.map(MapOp::Exp, &[t])
            }
        }
    }

    fn logistic(&mut self, x: NodeId) -> NodeId {
        let one = self.float(1.0);
        let minus = self.map(MapOp::Neg, &[x]);
        let e = self.map(MapOp::Exp, &[minus]);
        let below = self.map(MapOp::Add, &[one, e]);
        self.map(MapOp::Div, &[one, below])
    }

    /// A mask of the pairs: one of the program, a window, both of two, or one that reads the part.
    fn pairs(&mut self, axis: AxisId, part: NodeId) -> NodeId {
        let one = self.mask_of_pairs(axis, part);
        if self.rarely(4) {
            let other = self.mask_of_pairs(axis, part);
            return self.map(MapOp::And, &[one, other]);
        }
        one
    }

    fn mask_of_pairs(&mut self, axis: AxisId, part: NodeId) -> NodeId {
        // Queries and keys, the prefix of the sequence that a query sees, and a window of it.
        let (i, j) = (self.b.iota(self.axes[I]), self.b.iota(self.axes[J]));
        match self.rng.u8(0..8) {
            0 => self.mask_of(part, axis),
            1 | 2 => {
                let distance = self.map(MapOp::Sub, &[i, j]);
                let width = self.one_of(&[1, 3, 40]);
                let width = self.int(width);
                let (behind, near) = (self.map(MapOp::Le, &[j, i]), self.map(MapOp::Lt, &[distance, width]));
                self.map(MapOp::And, &[behind, near])
            }
            3 => self.map(MapOp::Lt, &[j, i]),
            4 => {
                let mask = self.masks[0];
                if self.fits(&[mask, part]) { mask } else { self.map(MapOp::Le, &[j, i]) }
            }
            5 => self.masks[1],
            _ => self.map(MapOp::Le, &[j, i]),
        }
    }

    /// A maximum or a sum of the part under a mask, or of the part and a number of the row that is there already.
    fn reduced_under_mask(&mut self, axis: AxisId, part: NodeId, of_row: &[NodeId]) -> NodeId {
        let (low, zero) = (self.float(f32::NEG_INFINITY), self.float(0.0));
        let what = self.with_number(part, of_row);
        let mask = self.pairs(axis, part);
        if self.rng.bool() {
            let under = if self.rarely(4) { what } else { self.select(mask, what, low) };
            let greatest = self.reduce(ReduceOp::Max, axis, under);
            let empty = self.map(MapOp::Eq, &[greatest, low]);
            return self.select(empty, zero, greatest);
        }
        let what = if self.rarely(3) { self.map(MapOp::Exp, &[what]) } else { what };
        let under = if self.rarely(4) { what } else { self.select(mask, what, zero) };
        let sum = self.reduce(ReduceOp::Sum, axis, under);
        let count = self.extent(axis);
        let count = self.map(MapOp::ToF32, &[count]);
        self.map(MapOp::Div, &[sum, count])
    }

    /// The part, or the part times or less a number of its row.
    fn with_number(&mut self, part: NodeId, of_row: &[NodeId]) -> NodeId {
        if of_row.is_empty() || self.rng.bool() {
            return part;
        }
        let number = self.one_of(of_row);
        let op = self.one_of(&[MapOp::Mul, MapOp::Sub]);
        self.map(op, &[part, number])
    }

    /// Weights of the part: a softmax under a mask, what is done to it, or the part itself under a mask.
    fn weight_of_part(&mut self, axis: AxisId, part: NodeId, of_row: &[NodeId]) -> NodeId {
        let (low, zero) = (self.float(f32::NEG_INFINITY), self.float(0.0));
        let mask = self.pairs(axis, part);
        let what = self.with_number(part, of_row);
        let weight = match self.rng.u8(0..3) {
            0 => what,
            1 => self.map(MapOp::Exp, &[what]),
            _ => {
                let masked = self.select(mask, what, low);
                let weight = self.weights(axis, masked);
                return self.reweighed(axis, weight);
            }
        };
        let number = self.one_of(of_row);
        let weight = self.map(MapOp::Mul, &[weight, number]);
        if self.rarely(4) { weight } else { self.select(mask, weight, zero) }
    }
}
