//! Random programs: whatever the optimiser makes of one, it has the same values.

mod common;

use common::{Model, V, random_data};
use salient_ir::{AxisId, Bindings, DType, Graph, MapOp, ReduceOp, eval};

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

#[test]
fn random_programs_keep_their_values() {
    let bindings: Bindings = [("T", 3), ("E", 2)].map(|(n, v)| (n.into(), v)).into_iter().collect();
    let mut compared = 0;
    for seed in 0..600 {
        let g = Program::new(seed).finish(4 + (seed as usize % 12));
        let out = salient_opt::optimise(&g, &salient_opt::Options::default()).graph;
        assert_eq!(salient_ir::verify::verify(&out), Vec::<String>::new(), "seed {seed}");
        let (inputs, params) = random_data(&g, &bindings, seed);
        let data = eval::Data { inputs: &inputs, params: &params };
        let expected = eval::eval(&g, &bindings, data).unwrap();
        let found = eval::eval(&out, &bindings, data).unwrap();
        for ((name, e), (_, f)) in expected.iter().zip(&found) {
            let (e, f) = (e.to_f64_vec(), f.to_f64_vec());
            let scale = e.iter().filter(|x| x.is_finite()).fold(1e-3f64, |m, x| m.max(x.abs()));
            for (x, y) in e.iter().zip(&f) {
                // Where the source is NaN or infinite, the contract lets a number stand.
                if x.is_finite() {
                    compared += 1;
                    assert!(
                        (x - y).abs() <= 1e-5 * scale,
                        "seed {seed}, {name}: {x} became {y}\n{}\n{}",
                        salient_ir::text::print(&g),
                        salient_ir::text::print(&out)
                    );
                }
            }
        }
    }
    assert!(compared > 2000, "{compared} values compared");
}
