//! Attention: masks, grouped heads, few rows, reductions of scores.

use super::harness::{Case, Model, SIZES, kinds_of, long_in_turn};
use salient_ir::array::Array;
use salient_ir::{Const, DType, Dim, FusedOp, Graph, MapOp, Op, ReduceOp};
use salient_jit::target::Isa;
use salient_tile::{Kind, schedule};

/// Causal attention with an offset, as a fused operator.
pub(crate) fn causal(offset: i64, op: FusedOp) -> Graph {
    let mut m = Model::new();
    let (h, i, j, e, f) =
        (m.axis("h", "H"), m.axis("i", "Q"), m.axis("j", "K"), m.axis("e", "E"), m.axis("f", "F"));
    let (q, k, v) = (m.input("q", &[h, i, e]), m.input("k", &[h, j, e]), m.input("v", &[h, j, f]));
    let s = m.sum_of_products(e, q, k);
    let scale = m.b.constant(Const::f32(0.3));
    let s = m.map(MapOp::Mul, &[s, scale]);
    let (ii, jj, off) = (m.b.iota(i), m.b.iota(j), m.b.constant(Const::I64(offset)));
    let last = m.map(MapOp::Add, &[ii, off]);
    let keep = m.map(MapOp::Le, &[jj, last]);
    let low = m.b.constant(Const::f32(op.info().masked()));
    let s = m.map(MapOp::Select, &[keep, s, low]);
    let y = m.b.add(Op::Fused(op, j), &[s, v]).unwrap();
    m.done("context", &[h, i, f], y)
}

#[test]
fn attention_at_odd_sizes() {
    let g = causal(0, FusedOp::Attend);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    // Parts and their merge for few rows, tiles over packed keys for many.
    assert_eq!(kinds, [Kind::Attention, Kind::Attention, Kind::Pack, Kind::Attention]);
    for (n, size) in SIZES.iter().enumerate() {
        let (a, b) = (SIZES[(n + 3) % SIZES.len()], SIZES[(n + 6) % SIZES.len()]);
        Case::new(g.clone(), &[("H", 2), ("Q", *size), ("K", *size), ("E", a), ("F", b)], n as u64).check();
    }
    Case::new(g.clone(), &[("H", 2), ("Q", 70), ("K", 3), ("E", 4), ("F", 5)], 1).check();
    Case::new(g, &[("H", 2), ("Q", 3), ("K", 190), ("E", 4), ("F", 5)], 1).check();
}

/// Grouped heads with a window: query head h reads head h / (H / G), and a key is seen from at most W before.
/// Causal attention that gives its weights too.
fn with_weights() -> Graph {
    let mut m = Model::new();
    let (t, s, e) = (m.axis("t", "T"), m.axis("s", "S"), m.axis("e", "E"));
    let (q, k, v) = (m.input("q", &[t, e]), m.input("k", &[s, e]), m.input("v", &[s, e]));
    let qk = m.sum_of_products(e, q, k);
    let (i, j) = (m.b.add(Op::Iota(t), &[]).unwrap(), m.b.add(Op::Iota(s), &[]).unwrap());
    let keep = m.map(MapOp::Le, &[j, i]);
    let hidden = m.b.constant(Const::f32(f32::NEG_INFINITY));
    let score = m.map(MapOp::Select, &[keep, qk, hidden]);
    let context = m.b.add(Op::Fused(FusedOp::Attend, s), &[score, v]).unwrap();
    let weights = m.b.add(Op::Fused(FusedOp::Softmax, s), &[score]).unwrap();
    m.b.output("weights", &[t, s], weights).unwrap();
    m.done("context", &[t, e], context)
}

#[test]
fn scores_that_are_stored_are_made_once() {
    let g = with_weights();
    assert_eq!(kinds_of(&g), [Kind::Pack, Kind::Gemm, Kind::Attention, Kind::Rows]);
    for (n, size) in SIZES.iter().enumerate() {
        let (a, b) = (SIZES[(n + 2) % SIZES.len()], SIZES[(n + 5) % SIZES.len()]);
        Case::new(g.clone(), &[("T", *size), ("S", a), ("E", b)], n as u64).check();
    }
}

fn grouped_window() -> Graph {
    let mut m = Model::new();
    let (h, g, i, j) = (m.axis("h", "H"), m.axis("g", "G"), m.axis("i", "T"), m.axis("j", "T"));
    let (e, f) = (m.axis("e", "E"), m.axis("f", "F"));
    let (q, k, v) = (m.input("q", &[h, i, e]), m.input("k", &[g, j, e]), m.input("v", &[g, f, j]));
    let per_group = Dim::symbol("H").exact_div(&Dim::symbol("G")).unwrap();
    let (hh, size) = (m.b.iota(h), m.b.extent_of(&per_group));
    let group = m.map(MapOp::IntDiv, &[hh, size]);
    let (k, v) = (m.b.at(k, g, group).unwrap(), m.b.at(v, g, group).unwrap());
    let s = m.sum_of_products(e, q, k);
    let (ii, jj) = (m.b.iota(i), m.b.iota(j));
    let window = m.b.extent_of(&Dim::symbol("W"));
    let distance = m.map(MapOp::Sub, &[ii, jj]);
    let (causal, near) = (m.map(MapOp::Le, &[jj, ii]), m.map(MapOp::Lt, &[distance, window]));
    let keep = m.map(MapOp::And, &[causal, near]);
    let low = m.b.constant(Const::f32(f32::NEG_INFINITY));
    let s = m.map(MapOp::Select, &[keep, s, low]);
    let y = m.b.add(Op::Fused(FusedOp::Attend, j), &[s, v]).unwrap();
    m.done("context", &[h, i, f], y)
}

#[test]
fn grouped_heads_and_windows() {
    let g = grouped_window();
    for (heads, groups, rows, window) in [(4, 2, 5, 2), (2, 1, 70, 7), (2, 2, 130, 65), (2, 1, 66, 500)] {
        let dims = [("H", heads), ("G", groups), ("T", rows), ("W", window), ("E", 3), ("F", 5)];
        Case::new(g.clone(), &dims, 9).check();
    }
}

#[test]
fn few_rows_over_many_keys() {
    for (rows, keys, wide) in [(1, 1100, 64), (3, 513, 5), (8, 512, 17), (9, 600, 3), (2, 1, 1)] {
        let dims = [("H", 3), ("Q", rows), ("K", keys), ("E", wide), ("F", wide + 1)];
        Case::new(causal(keys - rows, FusedOp::Attend), &dims, keys as u64).check();
        // The last part holds no key that any row sees.
        Case::new(causal(keys - 600, FusedOp::Attend), &dims, rows as u64).check();
    }
}

/// Which keys a query sees by numbers of both.
#[derive(Clone, Copy)]
enum Sees {
    /// Those of its own number.
    Same,
    /// Those whose number is near its own, which is moved inwards from both ends.
    Near,
}

/// A query sees the keys by their number in `a` and its own in `b`, and those before the end.
fn looked_at(sees: Sees) -> Graph {
    let mut m = Model::new();
    let (h, i, j) = (m.axis("h", "H"), m.axis("i", "Q"), m.axis("j", "K"));
    let (e, f) = (m.axis("e", "E"), m.axis("f", "F"));
    let (q, k, v) = (m.input("q", &[h, i, e]), m.input("k", &[h, j, e]), m.input("v", &[h, j, f]));
    let (a, b) = (m.b.input("a", &[j], DType::I64, None), m.b.input("b", &[i], DType::I64, None));
    let end = m.b.input("end", &[h], DType::I64, None);
    let s = m.sum_of_products(e, q, k);
    let seen = match sees {
        Sees::Same => m.map(MapOp::Eq, &[a, b]),
        Sees::Near => {
            let [least, most, reach] = [1, 200, 3].map(|n| m.b.constant(Const::I64(n)));
            let inward = m.map(MapOp::Max, &[b, least]);
            let inward = m.map(MapOp::Min, &[inward, most]);
            let minus = m.map(MapOp::Neg, &[a]);
            let away = m.map(MapOp::Add, &[inward, minus]);
            let away = m.map(MapOp::Abs, &[away]);
            m.map(MapOp::Le, &[away, reach])
        }
    };
    let jj = m.b.iota(j);
    let before = m.map(MapOp::Lt, &[jj, end]);
    let keep = m.map(MapOp::Or, &[seen, before]);
    let low = m.b.constant(Const::f32(f32::NEG_INFINITY));
    let s = m.map(MapOp::Select, &[keep, s, low]);
    let y = m.b.add(Op::Fused(FusedOp::Attend, j), &[s, v]).unwrap();
    m.done("context", &[h, i, f], y)
}

#[test]
fn masks_that_are_looked_at_agree_with_the_oracle() {
    let sizes = [(300, 300, 130), (70, 1030, 500), (4, 1030, 512), (65, 129, 1)];
    for (sees, (rows, keys, block)) in [Sees::Same, Sees::Near].iter().flat_map(|s| sizes.map(|of| (*s, of)))
    {
        // Masks of both kinds are decided from the ends of a tile, in one look.
        let looks = |k: &salient_tile::Kernel| k.bodies.iter().any(|body| body.name == "look");
        assert!(schedule(&looked_at(sees), salient_tile::Options::default()).kernels.iter().any(looks));
        let dims = [("H", 2), ("Q", rows), ("K", keys), ("E", 3), ("F", 5)];
        let mut case = Case::new(looked_at(sees), &dims, rows as u64);
        let numbers =
            |n: i64| Array::from_i64(vec![n as usize], (0..n).map(|k| k / block).collect()).unwrap();
        case.inputs.insert("a".to_owned(), numbers(keys));
        case.inputs.insert("b".to_owned(), numbers(rows));
        case.inputs.insert("end".to_owned(), Array::from_i64(vec![2], vec![0, keys / 2]).unwrap());
        case.check();
    }
}

/// Where no softmax makes the weights, the scores are the weights: all of them, or divided by their sum.
#[test]
fn weights_without_a_softmax() {
    for op in [FusedOp::WeightedSum, FusedOp::WeightedMean] {
        for dims in long_in_turn(&["H", "Q", "K", "E", "F"]) {
            let mut case = Case::new(causal(3, op), &dims, 2);
            // Sums of weights stay away from zero.
            for name in ["q", "k"] {
                case.inputs
                    .get_mut(name)
                    .unwrap()
                    .as_f32_mut()
                    .unwrap()
                    .iter_mut()
                    .for_each(|x| *x = x.abs());
            }
            case.check();
        }
        // Rows without keys: zeros, and zero by zero.
        Case::new(causal(-80, op), &[("H", 1), ("Q", 90), ("K", 90), ("E", 4), ("F", 3)], 5).check();
        // Few rows: parts of keys, of which the last holds none that any row sees.
        for (rows, keys) in [(1, 1100), (8, 600)] {
            let dims = [("H", 3), ("Q", rows), ("K", keys), ("E", 6), ("F", 7)];
            Case::new(causal(keys - 600, FusedOp::WeightedSum), &dims, rows as u64).check();
        }
    }
}

/// Of scores that only reductions read none is stored, and they are made once.
#[test]
fn scores_are_reduced_where_they_are_made() {
    let mut m = Model::new();
    let (h, i, j, e) = (m.axis("h", "H"), m.axis("i", "Q"), m.axis("j", "K"), m.axis("e", "E"));
    let (q, k) = (m.input("q", &[h, i, e]), m.input("k", &[h, j, e]));
    let product = m.sum_of_products(e, q, k);
    let (ii, jj) = (m.b.iota(i), m.b.iota(j));
    let keep = m.map(MapOp::Le, &[jj, ii]);
    let (low, zero) = (m.b.constant(Const::f32(f32::NEG_INFINITY)), m.b.constant(Const::f32(0.0)));
    let score = m.map(MapOp::Select, &[keep, product, low]);
    let greatest = m.b.reduce(ReduceOp::Max, j, score).unwrap();
    let lse = m.b.add(Op::Fused(FusedOp::LogSumExp, j), &[score]).unwrap();
    let squares = m.map(MapOp::Mul, &[product, product]);
    let seen = m.map(MapOp::Select, &[keep, squares, zero]);
    let received = m.b.reduce(ReduceOp::Sum, i, seen).unwrap();
    m.b.output("greatest", &[h, i], greatest).unwrap();
    m.b.output("lse", &[h, i], lse).unwrap();
    let g = m.done("received", &[h, j], received);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).filter(|k| *k != Kind::Pack).collect();
    assert_eq!(kinds, [Kind::Attention, Kind::Rows], "the parts of a sum over rows are added up");
    for (rows, keys) in [(1, 1), (5, 70), (130, 33), (70, 300), (500, 40)] {
        Case::new(g.clone(), &[("H", 2), ("Q", rows), ("K", keys), ("E", 3)], 4).check();
    }
    // A NaN is the greatest of its row, wherever it stands.
    let mut case = Case::new(g, &[("H", 1), ("Q", 300), ("K", 300), ("E", 2)], 4);
    case.inputs.get_mut("k").unwrap().as_f32_mut().unwrap()[3] = f32::NAN;
    let greatest = case.compiled(Isa::detect(), true, 1)[0].to_f64_vec();
    assert!(greatest[0].is_finite() && greatest[1..].iter().all(|x| x.is_nan()));
}

#[test]
fn rows_without_keys_are_zeros_or_nan() {
    for op in [FusedOp::Attend, FusedOp::ExpAttend] {
        Case::new(causal(-3, op), &[("H", 1), ("Q", 9), ("K", 9), ("E", 4), ("F", 3)], 5).check();
        Case::new(causal(-80, op), &[("H", 1), ("Q", 90), ("K", 90), ("E", 4), ("F", 3)], 5).check();
    }
}

#[test]
fn masked_keys_add_nothing_whatever_they_hold() {
    let not_finite = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let ops = [FusedOp::Attend, FusedOp::WeightedSum];
    for (value, op) in not_finite.into_iter().flat_map(|value| ops.map(|op| (value, op))) {
        let mut case = Case::new(causal(0, op), &[("H", 1), ("Q", 70), ("K", 70), ("E", 5), ("F", 6)], 2);
        for (name, width) in [("k", 5), ("v", 6)] {
            let values = case.inputs.get_mut(name).unwrap().as_f32_mut().unwrap();
            // The last keys are seen by the last rows alone.
            values[66 * width..].fill(value);
        }
        let out = case.compiled(Isa::detect(), true, 1)[0].to_f64_vec();
        assert!(out[..66 * 6].iter().all(|x| x.is_finite()), "{value} leaks into rows that do not see it");
        assert!(out[66 * 6..].iter().all(|x| !x.is_finite()), "{value} is lost in rows that see it");
    }
}

#[test]
fn heads_split_and_merge_without_copies() {
    let mut m = Model::new();
    let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
    let (heads, model) = (Dim::symbol("H"), Dim::symbol("D"));
    let width = model.exact_div(&heads).unwrap();
    let (h, e, j) = (m.axis("h", "H"), m.b.axis_id("e", &width), m.axis("j", "T"));
    let o = m.axis("o", "O");
    let (x, w) = (m.input("x", &[t, d]), m.input("w", &[o, d]));
    let (hh, ee, wide) = (m.b.iota(h), m.b.iota(e), m.b.extent_of(&width));
    let at = m.map(MapOp::Mul, &[hh, wide]);
    let at = m.map(MapOp::Add, &[at, ee]);
    let split = m.b.at(x, d, at).unwrap();
    let keys = m.b.rename(split, t, j).unwrap();
    let s = m.sum_of_products(e, split, keys);
    let f = m.b.axis_id("f", &width);
    let values = m.b.rename(keys, e, f).unwrap();
    let context = m.b.add(Op::Fused(FusedOp::Attend, j), &[s, values]).unwrap();
    let dd = m.b.iota(d);
    let (head, place) = (m.map(MapOp::IntDiv, &[dd, wide]), m.map(MapOp::Mod, &[dd, wide]));
    let merged = m.b.at(context, h, head).unwrap();
    let merged = m.b.at(merged, f, place).unwrap();
    let y = m.sum_of_products(d, merged, w);
    let g = m.done("y", &[t, o], y);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    // Few rows are split over keys, many go over packed keys; whichever it is, values are read where they lie.
    let attention = [Kind::Attention, Kind::Attention, Kind::Pack, Kind::Attention];
    assert_eq!(kinds, [attention.as_slice(), &[Kind::Pack, Kind::Gemm]].concat());
    for (heads, model, rows) in [(1, 4, 5), (2, 6, 17), (3, 12, 70), (4, 64, 33)] {
        Case::new(g.clone(), &[("T", rows), ("D", model), ("H", heads), ("O", 5)], 3).check();
    }
}
