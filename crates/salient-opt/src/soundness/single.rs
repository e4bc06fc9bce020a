//! A graph in single precision, as compiled code computes it: each operator and each step of a sum rounds to f32. The
//! fused operators are computed by their kernels' method: weights are not divided before values are summed under them.

use salient_ir::array::Array;
use salient_ir::op::RowWeights;
use salient_ir::{AxisId, Bindings, DType, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::BTreeMap;

/// The values of every node at every position of its axes, row-major.
pub(super) struct Single<'g> {
    g: &'g Graph,
    extents: Vec<usize>,
    values: Vec<Vec<f64>>,
}

fn round(x: f64) -> f64 {
    f64::from(x as f32)
}

fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, x| round(sum + x))
}

impl<'g> Single<'g> {
    /// Evaluates a graph whose inputs are all given and that has no parameters.
    pub(super) fn new(g: &'g Graph, dims: &Bindings, inputs: &BTreeMap<String, Array>) -> Single<'g> {
        let extents = g.axes().map(|(_, a)| a.extent.eval(dims).unwrap() as usize).collect();
        let mut s = Single { g, extents, values: Vec::with_capacity(g.len()) };
        for id in g.ids() {
            let axes: Vec<AxisId> = g.node(id).axes.iter().collect();
            let input = if let Op::Input(n) = g.op(id) { Some(&g.inputs()[*n].name) } else { None };
            let given = input.map(|name| inputs[&**name].to_f64_vec());
            let mut at = vec![0; s.extents.len()];
            let count: usize = axes.iter().map(|a| s.extents[a.index()]).product();
            let values = (0..count).map(|flat| {
                s.go_to(&axes, flat, &mut at);
                let x = match &given {
                    Some(values) => values[s.flat(&g.port(id).expect("an input").axes, &at)],
                    None => s.compute(id, &mut at),
                };
                if g.node(id).dtype == DType::F32 { round(x) } else { x }
            });
            let values = values.collect();
            s.values.push(values);
        }
        s
    }

    /// The values of an output, row-major by its axes.
    pub(super) fn output(&self, n: usize) -> Vec<f64> {
        let out = &self.g.outputs()[n];
        let count: usize = out.axes.iter().map(|a| self.extents[a.index()]).product();
        let mut at = vec![0; self.extents.len()];
        let value = |flat| {
            self.go_to(&out.axes, flat, &mut at);
            self.value(out.node, &at)
        };
        (0..count).map(value).collect()
    }

    fn go_to(&self, axes: &[AxisId], mut flat: usize, at: &mut [usize]) {
        for axis in axes.iter().rev() {
            at[axis.index()] = flat % self.extents[axis.index()];
            flat /= self.extents[axis.index()];
        }
    }

    fn flat(&self, axes: &[AxisId], at: &[usize]) -> usize {
        axes.iter().fold(0, |flat, a| flat * self.extents[a.index()] + at[a.index()])
    }

    fn value(&self, id: NodeId, at: &[usize]) -> f64 {
        let axes: Vec<AxisId> = self.g.node(id).axes.iter().collect();
        self.values[id.index()][self.flat(&axes, at)]
    }

    fn along(&self, x: NodeId, axis: AxisId, at: &mut [usize]) -> Vec<f64> {
        let before = at[axis.index()];
        let value = |k| {
            at[axis.index()] = k;
            self.value(x, at)
        };
        let values = (0..self.extents[axis.index()]).map(value).collect();
        at[axis.index()] = before;
        values
    }

    fn compute(&self, id: NodeId, at: &mut [usize]) -> f64 {
        let args = self.g.args(id);
        match self.g.op(id) {
            Op::Input(_) | Op::Param(_) | Op::Extent(_) => unreachable!("given, or not in a rule"),
            Op::Const(c) => c.value(),
            Op::Iota(axis) => at[axis.index()] as f64,
            // What is multiplied by a reciprocal is divided: see `egraph/raise.rs`.
            Op::Map(MapOp::Mul) if self.reciprocal(&args).is_some() => {
                let (x, y) = self.reciprocal(&args).expect("just seen");
                self.value(x, at) / self.value(y, at)
            }
            Op::Map(op) => {
                let values: Vec<f64> = args.iter().map(|a| self.value(*a, at)).collect();
                (op.info().eval)(&values)
            }
            Op::Reduce(op, axis) => {
                let values = self.along(args[0], *axis, at);
                let step = op.info().step.expect("no rule looks for a position");
                let rounds = *op == ReduceOp::Sum || *op == ReduceOp::Prod;
                let all = values.into_iter();
                all.fold(op.info().empty, |a, x| if rounds { round(step(a, x)) } else { step(a, x) })
            }
            Op::At(axis) => {
                let index = self.value(args[1], at) as usize;
                let before = std::mem::replace(&mut at[axis.index()], index);
                let value = self.value(args[0], at);
                at[axis.index()] = before;
                value
            }
            Op::Concat(axis, parts) => {
                let mut index = at[axis.index()];
                for (part, arg) in parts.iter().zip(&args) {
                    if index < self.extents[part.index()] {
                        at[part.index()] = index;
                        return self.value(*arg, at);
                    }
                    index -= self.extents[part.index()];
                }
                unreachable!("parts fill the axis")
            }
            Op::CumSum(direction, axis) => {
                let own = at[axis.index()];
                sum(direction.part(&self.along(args[0], *axis, at), own).iter().copied())
            }
            Op::Fused(op, axis) => self.fused(*op, *axis, &args, at),
        }
    }

    /// What is divided by what, where one factor is a reciprocal.
    fn reciprocal(&self, args: &[NodeId]) -> Option<(NodeId, NodeId)> {
        let below = |id: NodeId| (*self.g.op(id) == Op::Map(MapOp::Recip)).then(|| self.g.args(id)[0]);
        below(args[1]).map(|y| (args[0], y)).or_else(|| below(args[0]).map(|y| (args[1], y)))
    }

    fn fused(&self, op: FusedOp, axis: AxisId, args: &[NodeId], at: &mut [usize]) -> f64 {
        let here = at[axis.index()];
        let x = self.along(args[0], axis, at);
        let info = op.info();
        let mut row = x.clone();
        row.extend(info.sink.then(|| self.value(args[args.len() - 1], at)));
        let shares = info.weights.of(&row, round);
        if info.weights == RowWeights::LogSumExp {
            return round(shares.shift + round(shares.divisor.ln()));
        }
        if !info.reduces {
            return round(shares.numerators[here] / shares.divisor);
        }
        let masked = f64::from(info.masked());
        let values = self.along(args[1], axis, at);
        let of_weights = shares.numerators.iter().zip(&x).zip(values);
        let all = sum(of_weights.filter(|((_, x), _)| **x != masked).map(|((w, _), v)| round(w * v)));
        let undefined = shares.numerators.iter().any(|w| w.is_nan());
        if undefined { f64::NAN } else { round(all / shares.divisor) }
    }
}
