//! Random programs: small graphs that are well typed, read outside an axis only under a guard, and stay near one in
//! magnitude.
//!
//! A program is made step by step from a seed, so that a shorter one with the same seed is its beginning. Every operator of
//! the graph that a source can reach has a step, but for draws; the fused ones are for the optimiser to find. What data of
//! any kind may give is judged by [`crate::judge`].

pub mod call;
mod guards;
mod integers;
mod positions;
mod readers;
mod scores;
mod source;
mod states;
mod steps;
mod views;

pub use call::{Data, call, sizes};
pub use guards::Guards;
pub use source::source;
pub use states::stateful;

use salient_ir::{AxisId, AxisSet, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use steps::STEPS;

/// Values above this bound are brought back before they are used.
const GREAT: f64 = 8.0;
/// A value with more axes than this is not made.
const RANK: usize = 4;

/// A value of the program with a bound of its magnitude, and what must hold where it is used.
#[derive(Clone)]
struct Value {
    node: NodeId,
    bound: f64,
    guards: Guards,
}

impl Value {
    fn free(node: NodeId, bound: f64) -> Value {
        Value { node, bound, guards: Guards::none() }
    }
}

struct Program {
    b: Builder,
    rng: fastrand::Rng,
    /// By the constants below.
    axes: [AxisId; 11],
    half: Dim,
    values: Vec<Value>,
    masks: Vec<NodeId>,
    /// Positions of `j` for each `i`.
    ids: NodeId,
    /// Small integers for each `i`, some below zero.
    counts: NodeId,
    /// Whether guards are forgotten now and then.
    careless: bool,
}

/// Queries: of length `T`, as `K`, and `P` is one longer.
const I: usize = 0;
const K: usize = 1;
/// Keys: of length `S`, as `L`.
const J: usize = 2;
/// Features: of length `D`, as `F`.
const D: usize = 3;
/// Heads of keys: 2.
const H: usize = 4;
/// Features of a head: `D / 2`.
const E: usize = 5;
const L: usize = 6;
const F: usize = 7;
/// Heads of queries: 4.
const A: usize = 8;
const P: usize = 9;
/// Positions in a window: 3.
const W: usize = 10;

/// Inputs of floats with their axes; those from `PARAMS` on are parameters.
const TENSORS: [(&str, &[usize]); 12] = [
    ("x", &[I, D]),
    ("y", &[J, D]),
    ("z", &[I, J]),
    ("w", &[D]),
    ("u", &[K, H, E]),
    ("c", &[]),
    ("q", &[A, I, E]),
    ("keys", &[H, J, E]),
    ("row", &[I]),
    ("matrix", &[D, F]),
    ("scale", &[D]),
    ("table", &[J, F]),
];
const PARAMS: usize = 9;

/// The program of a seed after that many steps: its outputs are its last values.
pub fn program(seed: u64, steps: usize) -> Graph {
    let mut p = Program::new(seed);
    for _ in 0..steps {
        let step = STEPS[p.rng.usize(0..STEPS.len())];
        if let Some(made) = step(&mut p) {
            p.values.push(made);
        }
    }
    p.outputs();
    p.b.finish()
}

/// A program of one attention: scores of two values, weights of them in any spelling, perhaps something done to these, and the sum
/// of a third value.
pub fn attention(seed: u64) -> Graph {
    let mut p = Program::new(seed);
    let made = loop {
        let made = if p.rng.bool() { p.heads() } else { p.attention() };
        if let Some(made) = made {
            break made;
        }
    };
    let node = p.close(&made, None);
    let axes: Vec<AxisId> = p.b.node(node).axes.iter().collect();
    p.b.output("y", &axes, node).expect("its own axes");
    p.b.finish()
}

/// A program in which several expressions read one part of the scores, each under a mask of its own: numbers of each row, weights, and
/// sums over queries. Or numbers of rows are read at keys.
pub fn readers(seed: u64) -> Graph {
    let mut p = Program::new(seed);
    let at_keys = p.rarely(3);
    let made = loop {
        if let Some(made) = if at_keys { p.numbers_at_keys() } else { p.readers_of_one_part() } {
            break made;
        }
    };
    for (n, value) in made.iter().enumerate() {
        let node = p.close(value, None);
        let axes: Vec<AxisId> = p.b.node(node).axes.iter().collect();
        p.b.output(&format!("y{n}"), &axes, node).expect("its own axes");
    }
    p.b.finish()
}

/// The program with one operator made another: what a judge should tell from it.
pub fn changed(graph: &Graph) -> Option<Graph> {
    let other = |op: &Op| match op {
        Op::Map(MapOp::Add) => Some(Op::Map(MapOp::Sub)),
        Op::Map(MapOp::Sub) => Some(Op::Map(MapOp::Add)),
        Op::Map(MapOp::Max) => Some(Op::Map(MapOp::Min)),
        Op::Map(MapOp::Lt) => Some(Op::Map(MapOp::Le)),
        Op::Map(MapOp::Sin) => Some(Op::Map(MapOp::Cos)),
        Op::Reduce(ReduceOp::Sum, axis) => Some(Op::Reduce(ReduceOp::Max, *axis)),
        Op::Reduce(ReduceOp::Max, axis) => Some(Op::Reduce(ReduceOp::Min, *axis)),
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => None,
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
    };
    let last =
        graph.ids().rev().find(|id| graph.node(*id).dtype == DType::F32 && other(graph.op(*id)).is_some())?;
    let mut b = Builder::like(graph);
    let mut ids: Vec<NodeId> = Vec::new();
    for id in graph.ids() {
        let args: Vec<NodeId> = graph.args(id).iter().map(|a| ids[a.index()]).collect();
        let op = if id == last { other(graph.op(id))? } else { graph.op(id).clone() };
        ids.push(b.add(op, &args).ok()?);
    }
    for output in graph.outputs() {
        b.output(&output.name, &output.axes, ids[output.node.index()]).ok()?;
    }
    Some(b.finish())
}

impl Program {
    fn new(seed: u64) -> Program {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut b = Builder::new("random");
        let (t, s, width) = (Dim::symbol("T"), Dim::symbol("S"), Dim::symbol("D"));
        let half = width.exact_div(&Dim::constant(2)).expect("not by zero");
        let longer = &t + &Dim::constant(1);
        let (two, three, four) = (Dim::constant(2), Dim::constant(3), Dim::constant(4));
        let axes = [
            ("i", &t),
            ("k", &t),
            ("j", &s),
            ("d", &width),
            ("h", &two),
            ("e", &half),
            ("l", &s),
            ("f", &width),
            ("a", &four),
            ("p", &longer),
            ("v", &three),
        ]
        .map(|(name, dim)| b.axis_id(name, dim));
        let mut values = Vec::new();
        for (n, (name, of)) in TENSORS.iter().enumerate() {
            let of: Vec<AxisId> = of.iter().map(|n| axes[*n]).collect();
            let dtype = match rng.u8(0..12) {
                0 => DType::F16,
                1 => DType::BF16,
                _ => DType::F32,
            };
            let node = if n < PARAMS {
                b.input(name, &of, dtype, None)
            } else {
                b.param(name, &of, dtype, None, None)
            };
            values.push(Value::free(node, 1.5));
        }
        let keep = b.input("keep", &[axes[I], axes[J]], DType::Bool, None);
        let pad = b.input("pad", &[axes[J]], DType::Bool, None);
        let ids = b.input("ids", &[axes[I]], DType::I64, None);
        let counts = b.input("counts", &[axes[I]], DType::I64, None);
        let (i, j, k) = (b.iota(axes[I]), b.iota(axes[J]), b.iota(axes[K]));
        let causal = b.map(MapOp::Le, &[j, i]).expect("integers");
        let past = b.map(MapOp::Le, &[k, i]).expect("integers");
        let masks = vec![keep, pad, causal, past];
        let careless = rng.u8(0..24) == 0;
        Program { b, rng, axes, half, values, masks, ids, counts, careless }
    }

    /// Between one and four results: the last value always, others by chance; now and then with an axis that the value
    /// lacks, at either end.
    fn outputs(&mut self) {
        let count = 1 + self.rng.usize(0..4);
        let last: Vec<Value> = self.values.iter().rev().take(6).cloned().collect();
        let mut made = 0;
        for (n, value) in last.into_iter().enumerate() {
            if made == count || n > 0 && self.rng.bool() {
                continue;
            }
            let node = self.close(&value, None);
            let mut axes: Vec<AxisId> = self.b.node(node).axes.iter().collect();
            self.rng.shuffle(&mut axes);
            if self.rng.u8(0..8) == 0 && axes.len() < RANK {
                let new = self.axes[[H, J, P][self.rng.usize(0..3)]];
                if !axes.contains(&new) {
                    axes.insert(if self.rng.bool() { 0 } else { axes.len() }, new);
                }
            }
            self.b.output(&format!("y{made}"), &axes, node).expect("its own axes");
            made += 1;
        }
        if made == 0 {
            let node = self.values[0].node;
            let axes: Vec<AxisId> = self.b.node(node).axes.iter().collect();
            self.b.output("y0", &axes, node).expect("its own axes");
        }
    }

    fn float(&mut self, x: f32) -> NodeId {
        self.b.constant(Const::f32(x))
    }

    fn int(&mut self, n: i64) -> NodeId {
        self.b.constant(Const::I64(n))
    }

    fn map(&mut self, op: MapOp, args: &[NodeId]) -> NodeId {
        self.b.map(op, args).expect("the types are right by construction")
    }

    fn reduce(&mut self, op: ReduceOp, axis: AxisId, x: NodeId) -> NodeId {
        self.b.reduce(op, axis, x).expect("the types are right by construction")
    }

    fn at(&mut self, x: NodeId, axis: AxisId, index: NodeId) -> NodeId {
        self.b.at(x, axis, index).expect("the types are right by construction")
    }

    fn select(&mut self, mask: NodeId, yes: NodeId, no: NodeId) -> NodeId {
        self.map(MapOp::Select, &[mask, yes, no])
    }

    fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.usize(0..from.len())]
    }

    /// Whether a thing happens that does once in so many times.
    fn rarely(&mut self, times: u8) -> bool {
        self.rng.u8(0..times) == 0
    }

    fn extent(&mut self, axis: AxisId) -> NodeId {
        let dim = self.b.extent(axis).clone();
        self.b.extent_of(&dim)
    }

    fn mean(&mut self, axis: AxisId, x: NodeId) -> NodeId {
        let sum = self.reduce(ReduceOp::Sum, axis, x);
        let count = self.extent(axis);
        let count = self.map(MapOp::ToF32, &[count]);
        self.map(MapOp::Div, &[sum, count])
    }

    /// A value, a recent one more often, brought back if it has grown.
    fn value(&mut self) -> Value {
        let n = self.values.len();
        let from = if self.rng.bool() { n.saturating_sub(4) } else { 0 };
        let value = self.values[self.rng.usize(from..n)].clone();
        if value.bound <= GREAT {
            return value;
        }
        Value { node: self.map(MapOp::Tanh, &[value.node]), bound: 1.0, ..value }
    }

    /// A value that may be used anywhere.
    fn closed(&mut self) -> Value {
        let value = self.value();
        let node = self.close(&value, None);
        Value::free(node, value.bound)
    }

    fn mask(&mut self) -> NodeId {
        let n = self.masks.len();
        let from = if self.rng.bool() { n.saturating_sub(3) } else { 0 };
        self.masks[self.rng.usize(from..n)]
    }

    fn axes_of(&self, node: NodeId) -> AxisSet {
        self.b.node(node).axes.clone()
    }

    fn has(&self, value: &Value, axis: usize) -> bool {
        self.axes_of(value.node).contains(self.axes[axis])
    }

    /// A value that has an axis.
    fn with(&mut self, axis: usize) -> Option<Value> {
        for _ in 0..8 {
            let value = self.value();
            if self.has(&value, axis) {
                return Some(value);
            }
        }
        None
    }

    fn axis_of(&mut self, value: &Value) -> Option<AxisId> {
        let axes: Vec<AxisId> = self.axes_of(value.node).iter().collect();
        if axes.is_empty() { None } else { Some(self.one_of(&axes)) }
    }

    fn fits(&self, nodes: &[NodeId]) -> bool {
        let axes = nodes.iter().fold(AxisSet::new(), |s, n| s.union(&self.b.node(*n).axes));
        axes.len() <= RANK
    }
}
