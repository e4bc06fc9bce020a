//! Random programs in the style of attention: products, sums, masks and softmaxes in several spellings.
#![allow(unreachable_pub, missing_docs, reason = "each user takes its part")]

use super::model::{Model, V};
use salient_ir::{AxisId, DType, Graph, MapOp, ReduceOp};

/// A random program of so many steps.
pub fn random_program(seed: u64, steps: usize) -> Graph {
    Program::new(seed).finish(steps)
}

struct Program {
    m: Model,
    rng: fastrand::Rng,
    axes: [AxisId; 4],
    values: Vec<V>,
    masks: Vec<V>,
}

impl Program {
    fn new(seed: u64) -> Program {
        let m = Model::new();
        let axes = [("i", "T"), ("j", "T"), ("e", "E"), ("f", "E")].map(|(n, x)| m.axis(n, x));
        let [i, j, e, f] = axes;
        let values = vec![
            m.input("q", &[i, e]),
            m.input("k", &[j, e]),
            m.input("v", &[j, f]),
            m.input("b", &[i, j]),
            m.param("w", &[e, f]),
            m.param("c", &[]),
        ];
        let keep = m.typed("keep", &[i, j], DType::Bool);
        let pad = m.typed("pad", &[j], DType::Bool);
        let (ii, jj) = (m.iota(i), m.iota(j));
        let masks = vec![jj.le(&ii), jj.lt(&ii), keep, pad, jj.le(&(&ii + &m.int(1)))];
        Program { m, rng: fastrand::Rng::with_seed(seed), axes, values, masks }
    }

    fn value(&mut self) -> V {
        // Recent values more often, so that programs grow deep.
        let n = self.values.len();
        let from = if self.rng.bool() { n.saturating_sub(4) } else { 0 };
        self.values[self.rng.usize(from..n)].clone()
    }

    fn mask(&mut self) -> V {
        let n = self.rng.usize(0..self.masks.len());
        self.masks[n].clone()
    }

    fn axis_of(&mut self, x: &V) -> Option<AxisId> {
        let axes = x.axes();
        if axes.is_empty() { None } else { Some(axes[self.rng.usize(0..axes.len())]) }
    }

    fn step(&mut self) {
        let (x, y, keep) = (self.value(), self.value(), self.mask());
        let m = self.m.clone();
        let axis = self.axis_of(&x);
        let [i, j, _, _] = self.axes;
        let made = match self.rng.u8(0..24) {
            0..3 => &x * &y,
            3..5 => &x + &y,
            5 => &x - &y,
            6 => &x / &(&(&y * &y) + &m.num(0.5)),
            7 => x.map(MapOp::Tanh),
            8 => (&x.map(MapOp::Tanh) * &m.num(2.0)).exp(),
            9 => &x * &keep.f32(),
            10 => m.select(&keep, &x, &y),
            11 => m.select(&keep, &x, &m.num(0.0)),
            12 => {
                let add = &keep.f32() - &m.num(1.0);
                &x * &(&add * &m.num(-1.0))
            }
            13 => self.masks_and(&keep, &x),
            14..18 => match axis {
                Some(a) => (&x * &y).sum(a),
                None => x.map(MapOp::Neg),
            },
            18 => match axis {
                Some(a) => x.reduce(ReduceOp::Max, a),
                None => x,
            },
            // A softmax along an axis, in one of its spellings, of masked or plain scores.
            _ => {
                let Some(a) = axis else { return };
                let s = &x.map(MapOp::Tanh) * &m.num(4.0);
                let s = match self.rng.u8(0..4) {
                    0 => m.select(&keep, &s, &m.num(f32::NEG_INFINITY)),
                    1 => m.select(&keep, &s, &m.num(-1e9)),
                    2 => &s + &m.select(&keep.not(), &m.num(f32::NEG_INFINITY), &m.num(0.0)),
                    _ => s,
                };
                let w = match self.rng.u8(0..3) {
                    0 => m.softmax(a, &s),
                    1 => m.exp_over_sum(a, &s),
                    _ => m.shifted_exp_over_sum(a, &s),
                };
                let masked = &w * &keep.f32();
                match self.rng.u8(0..4) {
                    0 => (&w * &y).sum(a),
                    1 => &masked / &masked.sum(a),
                    2 => &(&w * &y).sum(a) / &w.sum(a),
                    _ => w,
                }
            }
        };
        // Queries and keys change names, one for the other or both for one.
        let made = match self.rng.u8(0..6) {
            0 => made.at(&[(i, j)]),
            1 => made.at(&[(i, j), (j, i)]),
            _ => made,
        };
        self.values.push(made);
    }

    fn masks_and(&mut self, keep: &V, x: &V) -> V {
        let other = self.mask();
        let both = keep.and(&other);
        self.masks.push(both.clone());
        self.m.select(&both, x, &self.m.num(0.0))
    }

    fn finish(mut self, steps: usize) -> Graph {
        for _ in 0..steps {
            self.step();
        }
        let n = self.values.len();
        for (name, v) in [("last", n - 1), ("other", n - 2)] {
            let v = &self.values[v];
            self.m.output(name, &v.axes(), v);
        }
        self.m.finish()
    }
}
