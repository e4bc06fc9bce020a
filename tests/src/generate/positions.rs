//! Scores of which queries and keys are positions of one sequence: a number of each row is read at the row and at the key.

use super::{D, GREAT, I, K, Program, Value};
use salient_ir::{AxisId, MapOp, NodeId, ReduceOp};

impl Program {
    /// Numbers of the rows of scores, and attentions whose scores, weights and values read these numbers at the position of the query or
    /// of the key. All are results.
    pub(super) fn numbers_at_keys(&mut self) -> Option<Vec<Value>> {
        let (q, k) = (self.with(D)?, self.with(D)?);
        if !self.has(&q, I) || !self.has(&k, I) {
            return None;
        }
        let k = self.at_keys(k);
        let (score, axis) = (self.product_over(D, &q, &k)?, self.axes[K]);
        if !self.has(&score, I) || !self.has(&score, K) {
            return None;
        }
        let score = self.closed_along(score, axis, 0.0);
        let v = self.with(K)?;
        let v = self.closed_along(v, axis, 0.0);
        if !self.fits(&[score.node, v.node]) {
            return None;
        }
        let part = if self.rng.bool() { self.map(MapOp::Tanh, &[score.node]) } else { score.node };
        let mut numbers = Vec::new();
        for _ in 0..1 + self.rng.usize(0..2) {
            let what = self.with_number_at(part, &numbers);
            let number = self.number_of_row(axis, what);
            numbers.push(number);
        }
        let mut made = Vec::new();
        for _ in 0..1 + self.rng.usize(0..2) {
            let what = self.with_number_at(part, &numbers);
            let weight = if self.rng.bool() { self.weights(axis, what) } else { what };
            let weight = self.with_number_at(weight, &numbers);
            let value = self.with_number_at(v.node, &numbers);
            if self.rarely(3) {
                made.push(self.number_of_row(axis, weight));
            }
            if self.fits(&[weight, value]) {
                let weighted = self.map(MapOp::Mul, &[weight, value]);
                made.push(self.reduce(ReduceOp::Sum, axis, weighted));
            }
        }
        if made.is_empty() || self.rng.bool() {
            made.extend(numbers);
        }
        let guards = score.guards.and(&v.guards);
        let value = |node| Value { node, bound: 4.0 * GREAT, guards: guards.clone() };
        Some(made.into_iter().map(value).collect())
    }

    /// A value of each query at the position of the key.
    fn at_keys(&mut self, x: Value) -> Value {
        let key = self.b.iota(self.axes[K]);
        self.view(x, self.axes[I], key, None)
    }

    /// The greatest of a row, or its mean.
    fn number_of_row(&mut self, axis: AxisId, part: NodeId) -> NodeId {
        if self.rng.bool() { self.reduce(ReduceOp::Max, axis, part) } else { self.mean(axis, part) }
    }

    /// A value, or it times, plus or less a number of the row at the position of the query or of the key.
    fn with_number_at(&mut self, x: NodeId, numbers: &[NodeId]) -> NodeId {
        if numbers.is_empty() || self.rarely(3) {
            return x;
        }
        let number = self.one_of(numbers);
        let is_of_query = self.b.node(x).axes.contains(self.axes[I]) && self.rng.bool();
        let key = self.b.iota(self.axes[K]);
        let number = if is_of_query { number } else { self.at(number, self.axes[I], key) };
        if !self.fits(&[x, number]) {
            return x;
        }
        let op = self.one_of(&[MapOp::Mul, MapOp::Add, MapOp::Sub]);
        self.map(op, &[x, number])
    }
}
