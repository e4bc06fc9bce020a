//! Steps that weigh: softmaxes of every spelling, what is done to weights, and attention.

use super::{A, D, E, GREAT, H, I, J, K, L, Program, Value};
use salient_ir::{AxisId, MapOp, NodeId, ReduceOp};

impl Program {
    /// Scores: sometimes scaled, capped or biased, sometimes under a mask, as a choice or as a sum.
    fn masked(&mut self, score: NodeId, axis: AxisId) -> Option<NodeId> {
        let mut score = score;
        match self.rng.u8(0..6) {
            0 => {
                let scale = self.float(0.37);
                score = self.map(MapOp::Mul, &[score, scale]);
            }
            1 => {
                let cap = self.float(2.5);
                let small = self.map(MapOp::Div, &[score, cap]);
                let t = self.map(MapOp::Tanh, &[small]);
                score = self.map(MapOp::Mul, &[t, cap]);
            }
            2 => {
                let bias = self.closed();
                if self.fits(&[score, bias.node]) {
                    score = self.map(MapOp::Add, &[score, bias.node]);
                }
            }
            _ => {}
        }
        let mask = if self.rarely(3) { self.mask_of(score, axis) } else { self.mask() };
        if !self.fits(&[score, mask]) {
            return None;
        }
        let low = self.float(f32::NEG_INFINITY);
        Some(match self.rng.u8(0..6) {
            0 => score,
            1 => {
                let zero = self.float(0.0);
                let bias = self.select(mask, zero, low);
                self.map(MapOp::Add, &[score, bias])
            }
            2 => {
                let sentinel = self.float(-1e9);
                self.select(mask, score, sentinel)
            }
            3 => {
                let other = self.mask();
                if !self.fits(&[score, mask, other]) {
                    return None;
                }
                let inner = self.select(other, score, low);
                self.select(mask, inner, low)
            }
            _ => self.select(mask, score, low),
        })
    }

    /// A mask of scores that reads them, or their greatest, or their mean.
    pub(super) fn mask_of(&mut self, score: NodeId, axis: AxisId) -> NodeId {
        let bound = match self.rng.u8(0..3) {
            0 => self.float(0.05),
            1 => {
                let greatest = self.reduce(ReduceOp::Max, axis, score);
                let distance = self.float(1.1);
                self.map(MapOp::Sub, &[greatest, distance])
            }
            _ => self.mean(axis, score),
        };
        self.map(MapOp::Lt, &[bound, score])
    }

    /// Weights by the library's softmax, or by hand: with the maximum or without, with one more in the sum, with the
    /// maximum kept above zero.
    pub(super) fn weights(&mut self, axis: AxisId, score: NodeId) -> NodeId {
        let (low, zero, one) = (self.float(f32::NEG_INFINITY), self.float(0.0), self.float(1.0));
        let spelling = self.rng.u8(0..10);
        match spelling {
            0..5 => {
                let greatest = self.reduce(ReduceOp::Max, axis, score);
                let empty = self.map(MapOp::Eq, &[greatest, low]);
                let shift = self.select(empty, zero, greatest);
                let shifted = self.map(MapOp::Sub, &[score, shift]);
                let e = self.map(MapOp::Exp, &[shifted]);
                let z = self.reduce(ReduceOp::Sum, axis, e);
                let none = self.map(MapOp::Eq, &[z, zero]);
                let below = self.select(none, one, z);
                self.map(MapOp::Div, &[e, below])
            }
            5 => {
                let greatest = self.reduce(ReduceOp::Max, axis, score);
                let shifted = self.map(MapOp::Sub, &[score, greatest]);
                let e = self.map(MapOp::Exp, &[shifted]);
                let z = self.reduce(ReduceOp::Sum, axis, e);
                self.map(MapOp::Div, &[e, z])
            }
            6 => {
                let e = self.map(MapOp::Exp, &[score]);
                let z = self.reduce(ReduceOp::Sum, axis, e);
                self.map(MapOp::Div, &[e, z])
            }
            7 => {
                let e = self.map(MapOp::Exp, &[score]);
                let z = self.reduce(ReduceOp::Sum, axis, e);
                let z = self.map(MapOp::Add, &[z, one]);
                self.map(MapOp::Div, &[e, z])
            }
            8 => {
                let greatest = self.reduce(ReduceOp::Max, axis, score);
                let greatest = self.map(MapOp::Max, &[greatest, zero]);
                let shifted = self.map(MapOp::Sub, &[score, greatest]);
                let e = self.map(MapOp::Exp, &[shifted]);
                let minus = self.map(MapOp::Neg, &[greatest]);
                let sink = self.map(MapOp::Exp, &[minus]);
                let z = self.reduce(ReduceOp::Sum, axis, e);
                let z = self.map(MapOp::Add, &[z, sink]);
                self.map(MapOp::Div, &[e, z])
            }
            // No exponential: squares, or what is above zero.
            _ => {
                let e = if self.rng.bool() {
                    self.map(MapOp::Mul, &[score, score])
                } else {
                    self.map(MapOp::Max, &[score, zero])
                };
                // A masked score is infinite.
                let real = self.map(MapOp::Lt, &[low, score]);
                let e = self.select(real, e, zero);
                if self.rng.bool() {
                    return e;
                }
                let z = self.reduce(ReduceOp::Sum, axis, e);
                let z = self.map(MapOp::Add, &[z, one]);
                self.map(MapOp::Div, &[e, z])
            }
        }
    }

    /// What is done to weights: gates, masks, thresholds, powers, and their sum made one again.
    pub(super) fn reweighed(&mut self, axis: AxisId, weight: NodeId) -> NodeId {
        if self.rng.bool() {
            return weight;
        }
        let (zero, small) = (self.float(0.0), self.float(0.05));
        let out = match self.rng.u8(0..8) {
            0 => {
                let gate = self.closed();
                let gate = self.map(MapOp::Tanh, &[gate.node]);
                self.map(MapOp::Mul, &[weight, gate])
            }
            1 => {
                let mask = self.mask();
                self.select(mask, weight, zero)
            }
            2 => {
                let mask = self.mask();
                let kept = self.map(MapOp::ToF32, &[mask]);
                self.map(MapOp::Mul, &[weight, kept])
            }
            3 => {
                let keep = self.map(MapOp::Lt, &[small, weight]);
                self.select(keep, weight, zero)
            }
            4 => {
                let above = self.map(MapOp::Sub, &[weight, small]);
                self.map(MapOp::Max, &[above, zero])
            }
            5 => {
                let exponent = self.one_of(&[2.0, 0.5, 3.0]);
                let exponent = self.float(exponent);
                self.map(MapOp::Pow, &[weight, exponent])
            }
            6 => {
                let less = self.float(0.9);
                let less = self.map(MapOp::Mul, &[weight, less]);
                self.map(MapOp::Add, &[less, small])
            }
            _ => {
                let same = self.map(MapOp::Eq, &[weight, weight]);
                self.select(same, weight, zero)
            }
        };
        let out = if self.fits(&[out]) { out } else { weight };
        if self.rarely(3) {
            let z = self.reduce(ReduceOp::Sum, axis, out);
            let eps = self.float(0.01);
            let z = self.map(MapOp::Add, &[z, eps]);
            return self.map(MapOp::Div, &[out, z]);
        }
        out
    }

    pub(super) fn softmax_step(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let x = self.closed_along(x, axis, f32::NEG_INFINITY);
        let score = self.masked(x.node, axis)?;
        let weight = self.weights(axis, score);
        let node = self.reweighed(axis, weight);
        Some(Value { node, bound: GREAT, guards: x.guards })
    }

    pub(super) fn log_softmax(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let x = self.closed_along(x, axis, -1.0);
        let greatest = self.reduce(ReduceOp::Max, axis, x.node);
        let shifted = self.map(MapOp::Sub, &[x.node, greatest]);
        let e = self.map(MapOp::Exp, &[shifted]);
        let z = self.reduce(ReduceOp::Sum, axis, e);
        let z = self.map(MapOp::Log, &[z]);
        let node = if self.rng.bool() {
            self.map(MapOp::Sub, &[shifted, z])
        } else {
            self.map(MapOp::Add, &[z, greatest])
        };
        Some(Value { node, bound: 3.0 * GREAT, guards: x.guards })
    }

    /// Sums of values under weights that are normalised behind them, or not at all.
    pub(super) fn hand_weights(&mut self) -> Option<Value> {
        let keys = self.one_of(&[J, J, K, D]);
        let axis = self.axes[keys];
        let x = self.with(keys)?;
        let x = self.closed_along(x, axis, 0.0);
        let score = self.masked(x.node, axis)?;
        let e = self.map(MapOp::Exp, &[score]);
        let v = self.with(keys)?;
        let v = self.closed_along(v, axis, 0.0);
        if !self.fits(&[e, v.node]) {
            return None;
        }
        let weighted = self.map(MapOp::Mul, &[e, v.node]);
        let above = self.reduce(ReduceOp::Sum, axis, weighted);
        let z = self.reduce(ReduceOp::Sum, axis, e);
        let eps = self.float(0.5);
        let below = self.map(MapOp::Add, &[z, eps]);
        let node = self.map(MapOp::Div, &[above, below]);
        Some(Value { node, bound: 2.0 * GREAT, guards: Program::guards(&[&x, &v]) })
    }

    /// Scores of two values, weights of them, and a third value's sum under these.
    pub(super) fn attention(&mut self) -> Option<Value> {
        let (q, k) = (self.with(D)?, self.with(D)?);
        let score = self.product_over(D, &q, &k)?;
        let keys = self.one_of(&[J, J, J, K, I, L]);
        if self.has(&score, keys) { self.attended(score, keys) } else { None }
    }

    /// The sum of the products of two values along an axis.
    pub(super) fn product_over(&mut self, axis: usize, q: &Value, k: &Value) -> Option<Value> {
        let guards = Program::guards(&[q, k]);
        let product = self.map(MapOp::Mul, &[q.node, k.node]);
        if !self.fits(&[product]) {
            return None;
        }
        let both = self.closed_along(Value { node: product, bound: GREAT, guards }, self.axes[axis], 0.0);
        let node = self.reduce(ReduceOp::Sum, self.axes[axis], both.node);
        Some(Value { node, ..both })
    }

    /// As `attention`, with heads: those of queries read those of keys by quotient or remainder, or there are two.
    pub(super) fn heads(&mut self) -> Option<Value> {
        let (q, keys) = if self.rng.bool() {
            (self.values[6].clone(), self.values[7].clone())
        } else {
            (self.with(E)?, self.with(E)?)
        };
        let keys = if self.has(&q, A) && self.has(&keys, H) {
            let (head, two) = (self.b.iota(self.axes[A]), self.int(2));
            let op = self.one_of(&[MapOp::IntDiv, MapOp::Mod]);
            let index = self.map(op, &[head, two]);
            self.view(keys, self.axes[H], index, None)
        } else {
            keys
        };
        let score = self.product_over(E, &q, &keys)?;
        let along = if self.has(&score, J) { J } else { K };
        if self.has(&score, along) { self.attended(score, along) } else { None }
    }

    /// What scores make of a value along the keys.
    fn attended(&mut self, score: Value, keys: usize) -> Option<Value> {
        let axis = self.axes[keys];
        let score = self.closed_along(score, axis, f32::NEG_INFINITY);
        let node = self.masked(score.node, axis)?;
        if self.rarely(5) {
            self.values.push(Value { node: score.node, bound: 2.0 * GREAT, guards: score.guards.clone() });
        }
        let weight = self.weights(axis, node);
        let weight = self.reweighed(axis, weight);
        let v = self.with(keys)?;
        if !self.fits(&[weight, v.node]) {
            return None;
        }
        let guards = score.guards.and(&v.guards);
        let weighted = self.map(MapOp::Mul, &[weight, v.node]);
        let weighted = self.closed_along(Value { node: weighted, bound: v.bound, guards }, axis, 0.0);
        if self.rarely(5) {
            // The weights are a value too.
            self.values.push(Value { node: weight, bound: GREAT, guards: score.guards.clone() });
        }
        let node = self.reduce(ReduceOp::Sum, axis, weighted.node);
        let node =
            if self.rarely(5) && self.has(&v, I) { self.map(MapOp::Add, &[node, v.node]) } else { node };
        Some(Value { node, bound: 4.0 * GREAT, guards: weighted.guards })
    }
}
