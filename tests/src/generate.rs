//! Random programs: small graphs that are well typed, never read outside an axis, and stay near one in magnitude.
//!
//! A program is made step by step from a seed, so that a shorter one with the same seed is its beginning. Every operator of
//! the graph that a source can reach has a step, but for draws; the fused ones are for the optimiser to find.

use crate::data::Values;
use crate::ways::Call;
use salient_ir::{AxisId, Bindings, Builder, Const, DType, Dim, Graph, MapOp, NodeId, ReduceOp};
use smallvec::SmallVec;

/// Values above this bound are brought back before they are used.
const GREAT: f64 = 8.0;
/// A value with more axes than this is not made.
const RANK: usize = 4;

/// A value of the program with a bound of its magnitude.
#[derive(Clone, Copy)]
struct Value {
    node: NodeId,
    bound: f64,
}

struct Program {
    b: Builder,
    rng: fastrand::Rng,
    /// `i` and `k` of `T`, `j` of `S`, `d` of `D`, `h` of 2, `e` of `D / 2`.
    axes: [AxisId; 6],
    half: Dim,
    values: Vec<Value>,
    masks: Vec<NodeId>,
    ids: NodeId,
}

const I: usize = 0;
const K: usize = 1;
const J: usize = 2;
const D: usize = 3;
const H: usize = 4;
const E: usize = 5;

/// The names of the steps, by which each is drawn equally often.
#[derive(Clone, Copy, Debug)]
enum Step {
    Unary,
    Binary,
    Quotient,
    Choose,
    Reduce,
    Mean,
    Product,
    ArgMax,
    CumSum,
    Rename,
    Reverse,
    Shift,
    Clamp,
    Split,
    Merge,
    Stride,
    Fix,
    Gather,
    Concat,
    Softmax,
    Attention,
    Norm,
    Mask,
}

const STEPS: &[Step] = &[
    Step::Unary,
    Step::Binary,
    Step::Quotient,
    Step::Choose,
    Step::Reduce,
    Step::Mean,
    Step::Product,
    Step::ArgMax,
    Step::CumSum,
    Step::Rename,
    Step::Reverse,
    Step::Shift,
    Step::Clamp,
    Step::Split,
    Step::Merge,
    Step::Stride,
    Step::Fix,
    Step::Gather,
    Step::Concat,
    Step::Softmax,
    Step::Attention,
    Step::Norm,
    Step::Mask,
];

/// The program of a seed after that many steps: its outputs are its last values.
pub fn program(seed: u64, steps: usize) -> Graph {
    let mut p = Program::new(seed);
    for _ in 0..steps {
        let step = STEPS[p.rng.usize(0..STEPS.len())];
        if let Some(made) = p.step(step) {
            p.values.push(made);
        }
    }
    let last: Vec<Value> = p.values.iter().rev().take(2).copied().collect();
    for (n, value) in last.into_iter().enumerate() {
        let axes: Vec<AxisId> = p.b.node(value.node).axes.iter().collect();
        p.b.output(&format!("y{n}"), &axes, value.node).expect("its own axes");
    }
    p.b.finish()
}

/// The program with one of its nodes as the only output, for each node that is a tensor of floats: what to try when the
/// whole fails, from the first to the last.
pub fn parts(graph: &Graph) -> impl Iterator<Item = Graph> + '_ {
    graph.ids().filter(|id| graph.node(*id).dtype == DType::F32).map(|id| {
        let mut b = Builder::like(graph);
        let mut ids: Vec<NodeId> = Vec::new();
        for id in graph.ids() {
            let args: Vec<NodeId> = graph.args(id).iter().map(|a| ids[a.index()]).collect();
            ids.push(b.add(graph.op(id).clone(), &args).expect("a node of a verified graph"));
        }
        let axes: Vec<AxisId> = graph.node(id).axes.iter().collect();
        b.output("y", &axes, ids[id.index()]).expect("its own axes");
        b.finish()
    })
}

/// Sizes and data for a program. `variant` chooses among small sizes, sizes around tiles, and extents of one.
pub fn call(graph: &Graph, seed: u64, variant: usize) -> Call {
    let [t, s, d] = [[3, 5, 4], [1, 1, 2], [17, 9, 6], [5, 33, 8], [34, 2, 2]][variant % 5];
    let dimensions = Bindings::from([("T".into(), t), ("S".into(), s), ("D".into(), d)]);
    let mut call = Call { dimensions, ..Call::default() };
    for port in graph.inputs() {
        let extent = |dim: Dim| dim.eval(&call.dimensions).expect("bound") as usize;
        let shape: Vec<usize> = graph.shape(&port.axes).into_iter().map(extent).collect();
        let values = match port.dtype {
            // Positions of `j`.
            DType::I64 => Values::Ints(0, s as i32),
            DType::Bool => Values::Bools(0.7),
            DType::F32 | DType::F16 | DType::BF16 | DType::I32 => Values::Floats(-1.5, 1.5),
        };
        let array = values.array(port.dtype, &shape, &format!("{seed}/{}", port.name)).expect("it fits");
        call.inputs.insert(&*port.name, array).expect("named once");
    }
    let symbols = crate::generate::symbols(graph);
    call.dimensions.retain(|name, _| symbols.contains(name));
    call
}

fn symbols(graph: &Graph) -> std::collections::BTreeSet<salient_ir::Name> {
    graph.axes().flat_map(|(_, a)| a.extent.symbols()).collect()
}

impl Program {
    fn new(seed: u64) -> Program {
        let mut b = Builder::new("random");
        let width = Dim::symbol("D");
        let half = width.exact_div(&Dim::constant(2)).expect("not by zero");
        let t = Dim::symbol("T");
        let axes = [
            ("i", &t),
            ("k", &t),
            ("j", &Dim::symbol("S")),
            ("d", &width),
            ("h", &Dim::constant(2)),
            ("e", &half),
        ]
        .map(|(name, dim)| b.axis_id(name, dim));
        let mut values = Vec::new();
        for (name, of) in
            [("x", &[I, D][..]), ("y", &[J, D]), ("z", &[I, J]), ("w", &[D]), ("u", &[K, H, E]), ("c", &[])]
        {
            let of: Vec<AxisId> = of.iter().map(|n| axes[*n]).collect();
            values.push(Value { node: b.input(name, &of, DType::F32, None), bound: 1.5 });
        }
        let keep = b.input("keep", &[axes[I], axes[J]], DType::Bool, None);
        let pad = b.input("pad", &[axes[J]], DType::Bool, None);
        let ids = b.input("ids", &[axes[I]], DType::I64, None);
        let (i, j) = (b.iota(axes[I]), b.iota(axes[J]));
        let causal = b.map(MapOp::Le, &[j, i]).expect("integers");
        Program {
            b,
            rng: fastrand::Rng::with_seed(seed),
            axes,
            half,
            values,
            masks: vec![keep, pad, causal],
            ids,
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

    /// A value, a recent one more often, brought back if it has grown.
    fn value(&mut self) -> Value {
        let n = self.values.len();
        let from = if self.rng.bool() { n.saturating_sub(4) } else { 0 };
        let value = self.values[self.rng.usize(from..n)];
        if value.bound <= GREAT {
            return value;
        }
        Value { node: self.map(MapOp::Tanh, &[value.node]), bound: 1.0 }
    }

    fn has(&self, value: Value, axis: usize) -> bool {
        self.b.node(value.node).axes.contains(self.axes[axis])
    }

    /// A value that has an axis.
    fn with(&mut self, axis: usize) -> Option<Value> {
        for _ in 0..8 {
            let value = self.value();
            if self.has(value, axis) {
                return Some(value);
            }
        }
        None
    }

    fn axis_of(&mut self, value: Value) -> Option<AxisId> {
        let axes: Vec<AxisId> = self.b.node(value.node).axes.iter().collect();
        if axes.is_empty() { None } else { Some(axes[self.rng.usize(0..axes.len())]) }
    }

    fn fits(&self, nodes: &[NodeId]) -> bool {
        let axes = nodes.iter().fold(salient_ir::AxisSet::new(), |s, n| s.union(&self.b.node(*n).axes));
        axes.len() <= RANK
    }

    fn step(&mut self, step: Step) -> Option<Value> {
        let made = |node, bound| Some(Value { node, bound });
        let (x, y) = (self.value(), self.value());
        let mask = self.masks[self.rng.usize(0..self.masks.len())];
        match step {
            Step::Unary => {
                let (op, bound) = [
                    (MapOp::Neg, x.bound),
                    (MapOp::Abs, x.bound),
                    (MapOp::Tanh, 1.0),
                    (MapOp::Erf, 1.0),
                    (MapOp::Sin, 1.0),
                    (MapOp::Cos, 1.0),
                ][self.rng.usize(0..6)];
                made(self.map(op, &[x.node]), bound)
            }
            Step::Binary => {
                if !self.fits(&[x.node, y.node]) {
                    return None;
                }
                let (op, bound) = [
                    (MapOp::Add, x.bound + y.bound),
                    (MapOp::Sub, x.bound + y.bound),
                    (MapOp::Mul, x.bound * y.bound),
                    (MapOp::Max, x.bound.max(y.bound)),
                    (MapOp::Min, x.bound.max(y.bound)),
                ][self.rng.usize(0..5)];
                made(self.map(op, &[x.node, y.node]), bound)
            }
            Step::Quotient => {
                if !self.fits(&[x.node, y.node]) {
                    return None;
                }
                let one = self.float(1.0);
                let square = self.map(MapOp::Mul, &[y.node, y.node]);
                let below = self.map(MapOp::Add, &[square, one]);
                made(self.map(MapOp::Div, &[x.node, below]), x.bound)
            }
            Step::Choose => {
                if !self.fits(&[mask, x.node, y.node]) {
                    return None;
                }
                let zero = self.float(0.0);
                let other = if self.rng.bool() { zero } else { y.node };
                made(self.map(MapOp::Select, &[mask, x.node, other]), x.bound.max(y.bound))
            }
            Step::Reduce => {
                let axis = self.axis_of(x)?;
                let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min][self.rng.usize(0..3)];
                let bound = if op == ReduceOp::Sum { 2.0 * GREAT } else { x.bound };
                made(self.reduce(op, axis, x.node), bound)
            }
            Step::Mean => {
                let axis = self.axis_of(x)?;
                made(self.mean(axis, x.node), x.bound)
            }
            Step::Product => {
                if !self.fits(&[x.node, y.node]) {
                    return None;
                }
                let axis = self.axis_of(x)?;
                let product = self.map(MapOp::Mul, &[x.node, y.node]);
                made(self.mean(axis, product), x.bound * y.bound)
            }
            Step::ArgMax => {
                // Of an input: between computed values a tie could fall either way.
                let x = self.values[self.rng.usize(0..5)];
                let axis = self.axis_of(x)?;
                let position = self.reduce(ReduceOp::ArgMax, axis, x.node);
                let node = self.map(MapOp::ToF32, &[position]);
                made(self.map(MapOp::Sin, &[node]), 1.0)
            }
            Step::CumSum => {
                let axis = self.axis_of(x)?;
                let op = salient_ir::Op::CumSum(axis);
                made(self.b.add(op, &[x.node]).expect("floats"), 2.0 * GREAT)
            }
            Step::Rename => {
                let (from, to) = if self.rng.bool() { (I, K) } else { (K, I) };
                let x = self.with(from)?;
                made(self.b.rename(x.node, self.axes[from], self.axes[to]).expect("equally long"), x.bound)
            }
            Step::Reverse => {
                let axis = self.axis_of(x)?;
                let last = self.extent(axis);
                let (one, place) = (self.int(1), self.b.iota(axis));
                let last = self.map(MapOp::Sub, &[last, one]);
                let index = self.map(MapOp::Sub, &[last, place]);
                made(self.at(x.node, axis, index), x.bound)
            }
            Step::Shift => {
                let axis = self.axis_of(x)?;
                let by = self.rng.i64(1..3);
                let by = self.int(by);
                let place = self.b.iota(axis);
                let index = self.map(MapOp::Sub, &[place, by]);
                let inside = self.map(MapOp::Le, &[by, place]);
                let shifted = self.at(x.node, axis, index);
                let zero = self.float(0.0);
                made(self.map(MapOp::Select, &[inside, shifted, zero]), x.bound)
            }
            Step::Clamp => {
                let axis = self.axis_of(x)?;
                let (one, zero, place) = (self.int(1), self.int(0), self.b.iota(axis));
                let before = self.map(MapOp::Sub, &[place, one]);
                let index = self.map(MapOp::Max, &[before, zero]);
                made(self.at(x.node, axis, index), x.bound)
            }
            Step::Split => {
                let x = self.with(D)?;
                if self.b.node(x.node).axes.len() + 1 > RANK || self.has(x, H) || self.has(x, E) {
                    return None;
                }
                let (head, feature, width) = (
                    self.b.iota(self.axes[H]),
                    self.b.iota(self.axes[E]),
                    self.b.extent_of(&self.half.clone()),
                );
                let start = self.map(MapOp::Mul, &[head, width]);
                let index = self.map(MapOp::Add, &[start, feature]);
                made(self.at(x.node, self.axes[D], index), x.bound)
            }
            Step::Merge => {
                let x = self.with(H)?;
                if !self.has(x, E) || self.has(x, D) {
                    return None;
                }
                let (place, width) = (self.b.iota(self.axes[D]), self.b.extent_of(&self.half.clone()));
                let head = self.map(MapOp::IntDiv, &[place, width]);
                let feature = self.map(MapOp::Mod, &[place, width]);
                let merged = self.at(x.node, self.axes[H], head);
                made(self.at(merged, self.axes[E], feature), x.bound)
            }
            Step::Stride => {
                let x = self.with(D)?;
                if self.has(x, E) {
                    return None;
                }
                let odd = self.rng.i64(0..2);
                let (place, two, odd) = (self.b.iota(self.axes[E]), self.int(2), self.int(odd));
                let even = self.map(MapOp::Mul, &[place, two]);
                let index = self.map(MapOp::Add, &[even, odd]);
                made(self.at(x.node, self.axes[D], index), x.bound)
            }
            Step::Fix => {
                let axis = self.axis_of(x)?;
                let first = self.int(0);
                made(self.at(x.node, axis, first), x.bound)
            }
            Step::Gather => {
                let x = self.with(J)?;
                made(self.at(x.node, self.axes[J], self.ids), x.bound)
            }
            Step::Concat => {
                let (x, y) = (self.with(I)?, self.with(J)?);
                if self.has(x, J) || self.has(y, I) || !self.fits(&[x.node, y.node]) {
                    return None;
                }
                let parts: SmallVec<[AxisId; 2]> = SmallVec::from_slice(&[self.axes[I], self.axes[J]]);
                let total = self.b.extent(self.axes[I]) + self.b.extent(self.axes[J]);
                let whole = self.b.axis_id("whole", &total);
                let node =
                    self.b.add(salient_ir::Op::Concat(whole, parts), &[x.node, y.node]).expect("floats");
                if self.rng.bool() {
                    // Read across the seam.
                    let (place, length) = (self.b.iota(self.axes[I]), self.extent(self.axes[J]));
                    let index = self.map(MapOp::Add, &[place, length]);
                    return made(self.at(node, whole, index), x.bound.max(y.bound));
                }
                made(node, x.bound.max(y.bound))
            }
            Step::Softmax => {
                let axis = self.axis_of(x)?;
                let score = self.masked(x.node, mask)?;
                made(self.softmax(axis, score)?, 1.0)
            }
            Step::Attention => {
                let (q, k) = (self.with(D)?, self.with(D)?);
                let product = self.map(MapOp::Mul, &[q.node, k.node]);
                if !self.fits(&[product]) {
                    return None;
                }
                let score = self.reduce(ReduceOp::Sum, self.axes[D], product);
                let keys = if self.rng.u8(0..4) == 0 { I } else { J };
                if !self.b.node(score).axes.contains(self.axes[keys]) {
                    return None;
                }
                let score = self.masked(score, mask)?;
                let weight = self.softmax(self.axes[keys], score)?;
                let v = self.with(keys)?;
                if !self.fits(&[weight, v.node]) {
                    return None;
                }
                let weighted = self.map(MapOp::Mul, &[weight, v.node]);
                made(self.reduce(ReduceOp::Sum, self.axes[keys], weighted), v.bound)
            }
            Step::Norm => {
                let axis = self.axis_of(x)?;
                let mean = self.mean(axis, x.node);
                let centred = self.map(MapOp::Sub, &[x.node, mean]);
                let square = self.map(MapOp::Mul, &[centred, centred]);
                let variance = self.mean(axis, square);
                // A great epsilon: the row's scale must not be that of its rounding.
                let eps = self.float(0.1);
                let below = self.map(MapOp::Add, &[variance, eps]);
                let root = self.map(MapOp::Sqrt, &[below]);
                made(self.map(MapOp::Div, &[centred, root]), GREAT)
            }
            Step::Mask => {
                let other = self.masks[self.rng.usize(0..self.masks.len())];
                let op = [MapOp::And, MapOp::Or][self.rng.usize(0..2)];
                let both = match self.rng.bool() {
                    true => self.map(op, &[mask, other]),
                    false => self.map(MapOp::Not, &[mask]),
                };
                self.masks.push(both);
                None
            }
        }
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

    /// Scores: sometimes scaled, sometimes under a mask, as a choice or as a sum.
    fn masked(&mut self, score: NodeId, mask: NodeId) -> Option<NodeId> {
        if !self.fits(&[score, mask]) {
            return None;
        }
        let score = match self.rng.u8(0..3) {
            0 => {
                let scale = self.float(0.37);
                self.map(MapOp::Mul, &[score, scale])
            }
            _ => score,
        };
        let low = self.float(f32::NEG_INFINITY);
        Some(match self.rng.u8(0..4) {
            0 => score,
            1 => {
                let zero = self.float(0.0);
                let bias = self.map(MapOp::Select, &[mask, zero, low]);
                self.map(MapOp::Add, &[score, bias])
            }
            _ => self.map(MapOp::Select, &[mask, score, low]),
        })
    }

    /// The library's softmax.
    fn softmax(&mut self, axis: AxisId, score: NodeId) -> Option<NodeId> {
        if !self.b.node(score).axes.contains(axis) {
            return None;
        }
        let (low, zero, one) = (self.float(f32::NEG_INFINITY), self.float(0.0), self.float(1.0));
        let greatest = self.reduce(ReduceOp::Max, axis, score);
        let empty = self.map(MapOp::Eq, &[greatest, low]);
        let shift = self.map(MapOp::Select, &[empty, zero, greatest]);
        let shifted = self.map(MapOp::Sub, &[score, shift]);
        let e = self.map(MapOp::Exp, &[shifted]);
        let z = self.reduce(ReduceOp::Sum, axis, e);
        let none = self.map(MapOp::Eq, &[z, zero]);
        let below = self.map(MapOp::Select, &[none, one, z]);
        Some(self.map(MapOp::Div, &[e, below]))
    }
}
