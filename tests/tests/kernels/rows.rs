//! Reductions and norms of rows.

use super::harness::{Case, Model, SIZES, kinds_of};
use salient_ir::array::Array;
use salient_ir::{AxisId, Const, DType, Dim, FusedOp, MapOp, NodeId, Op, ReduceOp};
use salient_tile::text::print_bodies;
use salient_tile::{Kind, Options, schedule};

#[test]
fn reductions_at_odd_sizes() {
    for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min, ReduceOp::ArgMax] {
        for along_last in [true, false] {
            let mut m = Model::new();
            let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
            let x = m.input("x", &[t, d]);
            let (axis, rest) = if along_last { (d, t) } else { (t, d) };
            let y = m.b.reduce(op, axis, x).unwrap();
            let g = m.done("y", &[rest], y);
            for (n, size) in SIZES.iter().enumerate() {
                let dims = [("T", *size), ("D", SIZES[(n + 4) % SIZES.len()])];
                let mut case = Case::new(g.clone(), &dims, n as u64);
                case.check();
                let values = case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap();
                let middle = values.len() / 2;
                values[middle] = f32::NAN;
                case.check();
                case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap().fill(f32::NEG_INFINITY);
                case.check();
            }
        }
    }
}

#[test]
fn normalised_rows_at_odd_sizes() {
    for op in [FusedOp::Softmax, FusedOp::ExpNorm, FusedOp::Norm] {
        let mut m = Model::new();
        let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
        let x = m.input("x", &[t, d]);
        let y = m.b.add(Op::Fused(op, d), &[x]).unwrap();
        let g = m.done("y", &[t, d], y);
        for (n, size) in SIZES.iter().enumerate() {
            let mut case = Case::new(g.clone(), &[("T", 3), ("D", *size)], n as u64);
            if op == FusedOp::Norm {
                case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap().iter_mut().for_each(|x| *x += 1.5);
            }
            case.check();
            case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap()[..*size as usize].fill(f32::NEG_INFINITY);
            case.check();
        }
    }
}

#[test]
fn what_is_the_same_along_a_strip_is_computed_before_its_loop() {
    let mut m = Model::new();
    let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
    let (x, r) = (m.input("x", &[t, d]), m.input("r", &[t]));
    let factor = m.map(MapOp::Exp, &[r]);
    let y = m.map(MapOp::Mul, &[x, factor]);
    let bodies = print_bodies(&schedule(&m.done("y", &[t, d], y), Options::default()));
    let (before, inside) = bodies.split_once("lanes ").expect("rows are visited in vectors");
    assert!(before.contains("= fma ") && !inside.contains("= fma "), "{bodies}");
}

/// A layer norm over `d` of `x`, whose axes are `b`, `t` and `d`; also its mean.
fn layer_norm(m: &mut Model, x: NodeId, d: AxisId) -> (NodeId, NodeId) {
    let sum = m.b.reduce(ReduceOp::Sum, d, x).unwrap();
    let count = m.b.extent_of(&Dim::symbol("D"));
    let count = m.map(MapOp::ToF32, &[count]);
    let mean = m.map(MapOp::Div, &[sum, count]);
    let centred = m.map(MapOp::Sub, &[x, mean]);
    let square = m.sum_of_products(d, centred, centred);
    let variance = m.map(MapOp::Div, &[square, count]);
    let small = m.b.constant(Const::f32(1e-5));
    let variance = m.map(MapOp::Add, &[variance, small]);
    let root = m.map(MapOp::Sqrt, &[variance]);
    let y = m.map(MapOp::Div, &[centred, root]);
    let gain = m.b.param("gain", &[d], DType::F32, None, None);
    (m.map(MapOp::Mul, &[y, gain]), mean)
}

#[test]
fn a_norm_is_one_kernel() {
    let axes = |m: &mut Model| [("b", "B"), ("t", "T"), ("d", "D")].map(|(name, dim)| m.axis(name, dim));
    // Read by a product and, as a residual, behind it.
    let mut m = Model::new();
    let [b, t, d] = axes(&mut m);
    let e = m.axis("e", "D");
    let x = m.input("x", &[b, t, d]);
    let (y, _) = layer_norm(&mut m, x, d);
    let w = m.b.param("w", &[d, e], DType::F32, None, None);
    let inner = m.b.rename(y, d, e).unwrap();
    let z = m.sum_of_products(e, inner, w);
    let z = m.map(MapOp::Add, &[z, y]);
    let residual = m.done("z", &[b, t, d], z);
    assert_eq!(kinds_of(&residual), [Kind::Pack, Kind::Rows, Kind::Gemm]);

    // Somebody else reads the mean: it is stored, and the rest is held.
    let mut m = Model::new();
    let [b, t, d] = axes(&mut m);
    let x = m.input("x", &[b, t, d]);
    let (y, mean) = layer_norm(&mut m, x, d);
    m.b.output("mean", &[b, t], mean).unwrap();
    let told = m.done("y", &[b, t, d], y);
    assert_eq!(kinds_of(&told).iter().filter(|kind| **kind == Kind::Rows).count(), 2);

    // Lanes run along another axis than the rows do.
    let mut m = Model::new();
    let [b, t, d] = axes(&mut m);
    let x = m.input("x", &[b, t, d]);
    let (y, _) = layer_norm(&mut m, x, d);
    let across = m.done("y", &[b, d, t], y);
    assert!(kinds_of(&across).contains(&Kind::Map));

    // One row that is all there is would be one thread's.
    let mut m = Model::new();
    let d = m.axis("d", "D");
    let x = m.input("x", &[d]);
    let (y, _) = layer_norm(&mut m, x, d);
    let alone = m.done("y", &[d], y);
    assert!(kinds_of(&alone).contains(&Kind::Map));

    for g in [residual, told, across, alone] {
        for (n, size) in SIZES.iter().enumerate() {
            let t = SIZES[(n + 4) % SIZES.len()];
            let mut case = Case::new(g.clone(), &[("B", 2), ("T", t), ("D", *size)], n as u64);
            case.check();
            let values = case.inputs.get_mut("x").unwrap().as_f32_mut().unwrap();
            values[0] = f32::NAN;
            case.check();
        }
    }
}

/// `if known[t] then norm(table[ids[t]]) + other[ids[t]] else 0`: what the norm goes over is read anyway, `other` is not.
#[test]
fn rows_that_read_more_than_their_norm_keep_their_guard() {
    let mut m = Model::new();
    let (t, d, v) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("v", "V"));
    let small = m.axis("s", "S");
    let table = m.b.param("table", &[v, d], DType::F32, None, None);
    let other = m.b.param("other", &[small, d], DType::F32, None, None);
    let ids = m.b.input("ids", &[t], DType::I64, None);
    let known = m.b.input("known", &[t], DType::Bool, None);
    let x = m.b.at(table, v, ids).unwrap();
    let (y, _) = layer_norm(&mut m, x, d);
    let more = m.b.at(other, small, ids).unwrap();
    let y = m.map(MapOp::Add, &[y, more]);
    let zero = m.b.constant(Const::f32(0.0));
    let y = m.map(MapOp::Select, &[known, y, zero]);
    let g = m.done("y", &[t, d], y);
    let mut case = Case::new(g, &[("T", 5), ("D", 33), ("V", 4), ("S", 2)], 1);
    let ids = Array::from_i64(vec![5], vec![0, 3, 1, 2, 0]).unwrap();
    let known = Array::from_bool(vec![5], vec![true, false, true, false, true]).unwrap();
    case.inputs.insert("ids".to_owned(), ids);
    case.inputs.insert("known".to_owned(), known);
    case.check();
}
