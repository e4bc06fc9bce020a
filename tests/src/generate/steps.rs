//! Steps element by element, reductions, products and norms; and the table of all steps.

use super::{D, E, F, GREAT, H, I, J, Program, RANK, Value};
use salient_ir::op::{Curve, map::functions};
use salient_ir::{AxisId, Direction, MapOp, Op, ReduceOp};

/// A step: a new value, or nothing where it does not fit or only makes a mask.
pub(super) type Step = fn(&mut Program) -> Option<Value>;

/// Each is drawn equally often; what stands several times is drawn more often.
pub(super) const STEPS: &[Step] = &[
    Program::unary,
    Program::unary,
    Program::binary,
    Program::binary,
    Program::quotient,
    Program::choose,
    Program::choose,
    Program::choose_among,
    Program::reduction,
    Program::reduction,
    Program::average,
    Program::product,
    Program::product,
    Program::by_parameter,
    Program::by_parameter,
    Program::argmax,
    Program::running_sum,
    Program::truths,
    Program::clip,
    Program::power,
    Program::norm,
    Program::norm,
    Program::rms_norm,
    Program::combine_masks,
    Program::compare,
    Program::compare,
    Program::not_a_number,
    Program::renamed,
    Program::reversed,
    Program::shifted,
    Program::shifted,
    Program::shifted,
    Program::difference,
    Program::difference,
    Program::window,
    Program::beyond,
    Program::clamped,
    Program::wrapped,
    Program::split,
    Program::merged,
    Program::strided,
    Program::first_or_last,
    Program::gathered,
    Program::gathered_under_a_mask,
    Program::grouped,
    Program::grouped,
    Program::joined,
    Program::joined,
    Program::broadcast,
    Program::broadcast,
    Program::index_value,
    Program::counted,
    Program::index_mask,
    Program::softmax_step,
    Program::softmax_step,
    Program::attention,
    Program::attention,
    Program::attention,
    Program::attention,
    Program::heads,
    Program::heads,
    Program::log_softmax,
    Program::hand_weights,
];

/// The operators of one number that are finite for every number, each with the greatest magnitude that it has up to a bound.
fn unary(bound: f64) -> Vec<(MapOp, f64)> {
    let mut out = vec![(MapOp::Neg, bound), (MapOp::Abs, bound)];
    for row in functions() {
        let Some(curve) = row.curve.filter(Curve::is_total) else { continue };
        let ends = if curve.rises && !curve.is_bounded() {
            [-bound, bound].map(|x| (row.eval)(&[x]))
        } else {
            [curve.least, curve.greatest]
        };
        out.push((row.op, ends[0].abs().max(ends[1].abs())));
    }
    out
}

impl Program {
    fn unary(&mut self) -> Option<Value> {
        let x = self.value();
        let (op, bound) = self.one_of(&unary(x.bound));
        let node = match self.rng.u8(0..8) {
            // The sigmoid, and a gate by it.
            0 => {
                let one = self.float(1.0);
                let minus = self.map(MapOp::Neg, &[x.node]);
                let e = self.map(MapOp::Exp, &[minus]);
                let below = self.map(MapOp::Add, &[e, one]);
                let sigmoid = self.map(MapOp::Div, &[one, below]);
                if self.rng.bool() { self.map(MapOp::Mul, &[x.node, sigmoid]) } else { sigmoid }
            }
            // The logarithm of what is above zero.
            1 => {
                let (square, one) = (self.map(MapOp::Mul, &[x.node, x.node]), self.float(1.0));
                let above = self.map(MapOp::Add, &[square, one]);
                self.map(MapOp::Log, &[above])
            }
            2 => {
                let root = self.map(MapOp::Abs, &[x.node]);
                self.map(MapOp::Sqrt, &[root])
            }
            _ => self.map(op, &[x.node]),
        };
        Some(Value { node, bound: bound.max(x.bound), guards: x.guards })
    }

    fn binary(&mut self) -> Option<Value> {
        let (x, y) = (self.value(), self.value());
        if !self.fits(&[x.node, y.node]) {
            return None;
        }
        let (op, bound) = self.one_of(&[
            (MapOp::Add, x.bound + y.bound),
            (MapOp::Sub, x.bound + y.bound),
            (MapOp::Mul, x.bound * y.bound),
            (MapOp::Max, x.bound.max(y.bound)),
            (MapOp::Min, x.bound.max(y.bound)),
        ]);
        let other = match self.rng.u8(0..4) {
            0 => {
                let c = self.one_of(&[0.0, 1.0, -1.0, 0.5, 2.0, -0.25, 3.0]);
                self.float(c)
            }
            _ => y.node,
        };
        let node = self.map(op, &[x.node, other]);
        Some(Value { node, bound: bound.max(x.bound * 3.0), guards: Program::guards(&[&x, &y]) })
    }

    fn quotient(&mut self) -> Option<Value> {
        let (x, y) = (self.value(), self.value());
        if !self.fits(&[x.node, y.node]) {
            return None;
        }
        let one = self.float(1.0);
        let square = self.map(MapOp::Mul, &[y.node, y.node]);
        let below = self.map(MapOp::Add, &[square, one]);
        let node = self.map(MapOp::Div, &[x.node, below]);
        Some(Value { node, bound: x.bound, guards: Program::guards(&[&x, &y]) })
    }

    fn choose(&mut self) -> Option<Value> {
        let (mask, x, y) = (self.mask(), self.value(), self.closed());
        if !self.fits(&[mask, x.node, y.node]) {
            return None;
        }
        let zero = self.float(0.0);
        let other = if self.rng.bool() { zero } else { y.node };
        let node =
            if self.rarely(4) { self.select(mask, other, x.node) } else { self.select(mask, x.node, other) };
        Some(Value { node, bound: x.bound.max(y.bound), guards: x.guards })
    }

    /// One of three by two choices, the inner one in either arm.
    fn choose_among(&mut self) -> Option<Value> {
        let (first, second) = (self.mask(), self.mask());
        let (x, y, z) = (self.closed(), self.closed(), self.closed());
        if !self.fits(&[first, second, x.node, y.node, z.node]) {
            return None;
        }
        let inner = self.select(second, y.node, z.node);
        let node = if self.rng.bool() {
            self.select(first, x.node, inner)
        } else {
            self.select(first, inner, x.node)
        };
        Some(Value::free(node, x.bound.max(y.bound).max(z.bound)))
    }

    fn reduction(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let op = self.one_of(&[ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod]);
        let neutral = if self.rng.bool() { op.info().empty as f32 } else { 0.0 };
        let x = self.closed_along(x, axis, neutral);
        let (node, bound) = match op {
            ReduceOp::Sum => (x.node, 2.0 * GREAT),
            // What is multiplied is near one.
            ReduceOp::Prod => {
                let (small, one) = (self.float(0.1), self.float(1.0));
                let t = self.map(MapOp::Tanh, &[x.node]);
                let t = self.map(MapOp::Mul, &[t, small]);
                (self.map(MapOp::Add, &[t, one]), 2.0 * GREAT)
            }
            ReduceOp::Max | ReduceOp::Min | ReduceOp::Any | ReduceOp::All | ReduceOp::ArgMax => {
                (x.node, x.bound)
            }
        };
        Some(Value { node: self.reduce(op, axis, node), bound, guards: x.guards })
    }

    fn average(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let x = self.closed_along(x, axis, 0.0);
        Some(Value { node: self.mean(axis, x.node), ..x })
    }

    fn product(&mut self) -> Option<Value> {
        let (x, y) = (self.value(), self.value());
        if !self.fits(&[x.node, y.node]) {
            return None;
        }
        let axis = self.axis_of(&x)?;
        let guards = Program::guards(&[&x, &y]);
        let node = self.map(MapOp::Mul, &[x.node, y.node]);
        let both = self.closed_along(Value { node, bound: x.bound * y.bound, guards }, axis, 0.0);
        Some(Value { node: self.mean(axis, both.node), ..both })
    }

    /// A product with the matrix among the parameters, with what often follows it.
    fn by_parameter(&mut self) -> Option<Value> {
        let x = self.with(D)?;
        if self.has(&x, F) {
            return None;
        }
        let x = self.closed_along(x, self.axes[D], 0.0);
        let matrix = self.values[9].node;
        let product = self.map(MapOp::Mul, &[x.node, matrix]);
        let mut node = self.reduce(ReduceOp::Sum, self.axes[D], product);
        if self.rng.bool() {
            let bias = self.b.rename(self.values[10].node, self.axes[D], self.axes[F]).expect("equally long");
            node = self.map(MapOp::Add, &[node, bias]);
        }
        if self.rng.bool() {
            node = self.b.rename(node, self.axes[F], self.axes[D]).expect("equally long");
        }
        Some(Value { node, bound: 2.0 * GREAT, guards: x.guards })
    }

    fn argmax(&mut self) -> Option<Value> {
        // Of an input mostly: between computed values a tie could fall either way, and nothing behind it is judged.
        let x = if self.rarely(6) { self.closed() } else { self.values[self.rng.usize(0..5)].clone() };
        let axis = self.axis_of(&x)?;
        let position = self.reduce(ReduceOp::ArgMax, axis, x.node);
        let node = self.map(MapOp::ToF32, &[position]);
        Some(Value::free(self.map(MapOp::Sin, &[node]), 1.0))
    }

    fn running_sum(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let x = self.closed_along(x, axis, 0.0);
        let direction = if self.rng.bool() { Direction::Forward } else { Direction::Reverse };
        let node = self.b.add(Op::CumSum(direction, axis), &[x.node]).expect("floats");
        Some(Value { node, bound: 2.0 * GREAT, guards: x.guards })
    }

    /// Truth values as numbers, and how many there are.
    fn truths(&mut self) -> Option<Value> {
        let mask = self.mask();
        let node = self.map(MapOp::ToF32, &[mask]);
        let axes: Vec<AxisId> = self.axes_of(mask).iter().collect();
        if axes.is_empty() || self.rng.bool() {
            return Some(Value::free(node, 1.0));
        }
        let axis = self.one_of(&axes);
        Some(Value::free(self.mean(axis, node), 1.0))
    }

    fn clip(&mut self) -> Option<Value> {
        let x = self.value();
        let (low, high) = (self.float(-0.5), self.float(0.75));
        let above = self.map(MapOp::Max, &[x.node, low]);
        let node = if self.rng.bool() { above } else { self.map(MapOp::Min, &[above, high]) };
        Some(Value { node, ..x })
    }

    fn power(&mut self) -> Option<Value> {
        let x = self.value();
        let exponent = self.one_of(&[2.0, 3.0, 0.5, -1.0, 1.0, 0.0]);
        let exponent = self.float(exponent);
        let near = self.map(MapOp::Tanh, &[x.node]);
        let two = self.float(2.0);
        let near = self.map(MapOp::Add, &[near, two]);
        Some(Value { node: self.map(MapOp::Pow, &[near, exponent]), bound: 27.0, guards: x.guards })
    }

    fn norm(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let x = self.closed_along(x, axis, 0.0);
        let mean = self.mean(axis, x.node);
        let centred = self.map(MapOp::Sub, &[x.node, mean]);
        let square = self.map(MapOp::Mul, &[centred, centred]);
        let variance = self.mean(axis, square);
        // A great epsilon: the row's scale must not be that of its rounding.
        let eps = self.float(0.1);
        let below = self.map(MapOp::Add, &[variance, eps]);
        let root = self.map(MapOp::Sqrt, &[below]);
        Some(Value { node: self.map(MapOp::Div, &[centred, root]), bound: GREAT, guards: x.guards })
    }

    fn rms_norm(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis_of(&x)?;
        let x = self.closed_along(x, axis, 0.0);
        let square = self.map(MapOp::Mul, &[x.node, x.node]);
        let square = self.mean(axis, square);
        let eps = self.float(0.01);
        let below = self.map(MapOp::Add, &[square, eps]);
        let root = self.map(MapOp::Sqrt, &[below]);
        let mut node = self.map(MapOp::Div, &[x.node, root]);
        if axis == self.axes[D] && self.rng.bool() {
            node = self.map(MapOp::Mul, &[node, self.values[10].node]);
        }
        Some(Value { node, bound: GREAT, guards: x.guards })
    }

    fn combine_masks(&mut self) -> Option<Value> {
        let (mask, other) = (self.mask(), self.mask());
        if !self.fits(&[mask, other]) {
            return None;
        }
        let op = self.one_of(&[MapOp::And, MapOp::Or]);
        let node = match self.rng.u8(0..3) {
            0 => self.map(MapOp::Not, &[mask]),
            1 => {
                let axes: Vec<AxisId> = self.axes_of(mask).iter().collect();
                let axis = self.rng.choice(&axes).copied()?;
                let op = self.one_of(&[ReduceOp::Any, ReduceOp::All]);
                self.reduce(op, axis, mask)
            }
            _ => self.map(op, &[mask, other]),
        };
        self.masks.push(node);
        None
    }

    /// A mask that reads values: scores, norms, whatever there is.
    fn compare(&mut self) -> Option<Value> {
        let (x, y) = (self.closed(), self.closed());
        if !self.fits(&[x.node, y.node]) {
            return None;
        }
        let other = match self.rng.u8(0..4) {
            0 => y.node,
            1 => {
                // Near the greatest of its row.
                let axis = self.axis_of(&x)?;
                let greatest = self.reduce(ReduceOp::Max, axis, x.node);
                let distance = self.float(0.7);
                self.map(MapOp::Sub, &[greatest, distance])
            }
            _ => {
                let c = self.one_of(&[0.0, 0.1, -0.3, 0.9]);
                self.float(c)
            }
        };
        let op = self.one_of(&[MapOp::Lt, MapOp::Le]);
        let mask =
            if self.rng.bool() { self.map(op, &[x.node, other]) } else { self.map(op, &[other, x.node]) };
        self.masks.push(mask);
        None
    }

    /// Zero where a value is NaN.
    fn not_a_number(&mut self) -> Option<Value> {
        let x = self.value();
        let same = self.map(MapOp::Eq, &[x.node, x.node]);
        let zero = self.float(0.0);
        Some(Value { node: self.select(same, x.node, zero), ..x })
    }

    /// A value with an axis more: by a place along it, by a truth value, or by a value that has it alone.
    fn broadcast(&mut self) -> Option<Value> {
        let x = self.value();
        let new = self.one_of(&[I, J, D, H, E, super::P, super::W]);
        let axis = self.axes[new];
        if self.axes_of(x.node).contains(axis) || self.axes_of(x.node).len() >= RANK {
            return None;
        }
        let place = self.b.iota(axis);
        let node = match self.rng.u8(0..3) {
            0 => {
                let two = self.int(2);
                let late = self.map(MapOp::Lt, &[place, two]);
                let zero = self.float(0.0);
                self.select(late, x.node, zero)
            }
            1 => {
                let place = self.map(MapOp::ToF32, &[place]);
                let wave = self.map(MapOp::Sin, &[place]);
                self.map(MapOp::Mul, &[x.node, wave])
            }
            _ => {
                let place = self.map(MapOp::ToF32, &[place]);
                let zero = self.float(0.0);
                let nothing = self.map(MapOp::Mul, &[place, zero]);
                self.map(MapOp::Add, &[x.node, nothing])
            }
        };
        Some(Value { node, ..x })
    }
}
