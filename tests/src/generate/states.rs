//! Random programs with states: a cache that grows, and values of a fixed shape.

use super::{D, F, I, Program, Value};
use crate::generate::steps::STEPS;
use salient_ir::{AxisId, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use smallvec::SmallVec;

/// What is declared as a state when the program is finished: the input, its axes before and after, and the value after.
struct Kept {
    input: usize,
    before: Vec<AxisId>,
    after: Vec<AxisId>,
    node: NodeId,
}

/// A program that keeps what it has seen between calls, as keys and values that grow and as a sum of a fixed shape.
pub fn stateful(seed: u64, steps: usize) -> Graph {
    let mut p = Program::new(seed);
    p.grow(steps / 2);
    let mut kept = Vec::new();
    let cached = p.cached(&mut kept);
    p.values.push(cached);
    if p.rng.bool() {
        let sum = p.remembered(&mut kept);
        p.values.push(sum);
    }
    p.grow(steps / 2);
    p.outputs();
    for k in kept {
        p.b.state(k.input, &k.before, &k.after, k.node).expect("the same shape but where it grows");
    }
    p.b.finish()
}

impl Program {
    fn grow(&mut self, steps: usize) {
        for _ in 0..steps {
            let step = STEPS[self.rng.usize(0..STEPS.len())];
            if let Some(made) = step(self) {
                self.values.push(made);
            }
        }
    }

    /// A value of queries and features.
    fn tokens(&mut self) -> NodeId {
        for _ in 0..8 {
            let node = self.closed().node;
            let axes = self.axes_of(node);
            if axes.len() == 2 && axes.contains(self.axes[I]) && axes.contains(self.axes[D]) {
                return node;
            }
        }
        self.values[0].node
    }

    /// What is held with what is new behind it, along an axis of both.
    fn appended(&mut self, name: &str, kept: &mut Vec<Kept>) -> (NodeId, AxisId) {
        let held = Dim::symbol("R");
        let r = self.b.axis_id("r", &held);
        let total = &held + self.b.extent(self.axes[I]);
        let all = self.b.axis_id("all", &total);
        let input = self.b.inputs().len();
        let before = self.b.input(name, &[r, self.axes[D]], DType::F32, None);
        let new = self.tokens();
        let parts: SmallVec<[AxisId; 2]> = SmallVec::from_slice(&[r, self.axes[I]]);
        let node = self.b.add(Op::Concat(all, parts), &[before, new]).expect("floats");
        let (d, f) = (self.axes[D], self.axes[F]);
        debug_assert!(d != f, "features of keys are not those of others");
        kept.push(Kept { input, before: vec![r, d], after: vec![all, d], node });
        (node, all)
    }

    /// Attention over all that was seen, each query over what is not behind it.
    fn cached(&mut self, kept: &mut Vec<Kept>) -> Value {
        let (keys, all) = self.appended("held_keys", kept);
        let (values, _) = if self.rng.bool() { self.appended("held_values", kept) } else { (keys, all) };
        let queries = self.tokens();
        let product = self.map(MapOp::Mul, &[queries, keys]);
        let score = self.reduce(ReduceOp::Sum, self.axes[D], product);
        let (i, place) = (self.b.iota(self.axes[I]), self.b.iota(all));
        let held = self.b.extent_of(&Dim::symbol("R"));
        let now = self.map(MapOp::Add, &[i, held]);
        let past = self.map(MapOp::Le, &[place, now]);
        let low = self.float(f32::NEG_INFINITY);
        let score = if self.rarely(4) { score } else { self.select(past, score, low) };
        let weight = self.weights(all, score);
        let weighted = self.map(MapOp::Mul, &[weight, values]);
        Value::free(self.reduce(ReduceOp::Sum, all, weighted), 4.0 * super::GREAT)
    }

    /// A state of a fixed shape: what it was, less of it, and what is new.
    fn remembered(&mut self, kept: &mut Vec<Kept>) -> Value {
        let d = self.axes[D];
        let input = self.b.inputs().len();
        let before = self.b.input("memory", &[d], DType::F32, None);
        let new = self.tokens();
        let sum = self.mean(self.axes[I], new);
        let half = self.float(0.5);
        let less = self.map(MapOp::Mul, &[before, half]);
        let after = self.map(MapOp::Add, &[less, sum]);
        kept.push(Kept { input, before: vec![d], after: vec![d], node: after });
        Value::free(if self.rng.bool() { before } else { after }, super::GREAT)
    }
}
