//! Products: register tiles, batches, single rows, what is attached to them.

use super::attention::causal;
use super::harness::{Case, Model, SIZES, kinds_of, random};
use salient_ir::array::{Array, Data as Elements};
use salient_ir::{AxisId, Bindings, Const, DType, Dim, FusedOp, Graph, MapOp, NodeId};
use salient_jit::target::Isa;
use salient_tile::{Kind, Sizes, Tiling, schedule};
use salient_vector::tile::Shape;

pub(crate) fn product_with_bias() -> Graph {
    let mut m = Model::new();
    let (t, d, o) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("o", "O"));
    let (x, w, bias) = (m.input("x", &[t, d]), m.input("w", &[o, d]), m.input("bias", &[o]));
    let xw = m.sum_of_products(d, x, w);
    let y = m.map(MapOp::Add, &[xw, bias]);
    let zero = m.b.constant(Const::f32(0.0));
    let y = m.map(MapOp::Max, &[y, zero]);
    m.done("y", &[t, o], y)
}

#[test]
fn products_at_odd_sizes() {
    let g = product_with_bias();
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    assert_eq!(kinds, [Kind::Pack, Kind::Gemm], "bias and activation belong to the product");
    for (n, size) in SIZES.iter().enumerate() {
        let (a, b) = (SIZES[(n + 3) % SIZES.len()], SIZES[(n + 7) % SIZES.len()]);
        Case::new(g.clone(), &[("T", *size), ("D", a), ("O", b)], n as u64).check();
    }
}

/// Items of positions by a parameter, with what depends on the position behind it; the result's axes by their names.
#[test]
fn an_axis_of_one_place_costs_no_copy() {
    let mut m = Model::new();
    let (t, d, o) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("o", "O"));
    let one = m.b.axis_id("one", &Dim::constant(1));
    let (x, w) = (m.input("x", &[t, d]), m.input("w", &[o, d]));
    let y = m.sum_of_products(d, x, w);
    let g = m.done("y", &[one, t, o], y);
    assert_eq!(kinds_of(&g), [Kind::Pack, Kind::Gemm]);
    Case::new(g, &[("T", 33), ("D", 7), ("O", 65)], 6).check();
}

fn batch_by_parameter(order: [&str; 3]) -> Graph {
    let mut m = Model::new();
    let (b, t, d, o) = (m.axis("b", "B"), m.axis("t", "T"), m.axis("d", "D"), m.axis("o", "O"));
    let (x, places) = (m.input("x", &[b, t, d]), m.input("places", &[t, o]));
    let w = m.b.param("w", &[o, d], DType::F32, None, None);
    let y = m.sum_of_products(d, x, w);
    let y = m.map(MapOp::Add, &[y, places]);
    let index = m.b.iota(t);
    let index = m.map(MapOp::ToF32, &[index]);
    let y = m.map(MapOp::Sub, &[y, index]);
    let axes =
        order.map(|name| [("b", b), ("t", t), ("o", o)].into_iter().find(|(n, _)| *n == name).unwrap().1);
    m.done("y", &axes, y)
}

#[test]
fn batches_and_positions_are_rows_of_one_product() {
    let g = batch_by_parameter(["b", "t", "o"]);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    assert_eq!(kinds, [Kind::Pack, Kind::Gemm], "nothing is packed but the parameter");
    let items = |b: i64, t: i64| {
        let dims = Bindings::from([("B", b), ("T", t), ("D", 8), ("O", 40)].map(|(n, d)| (n.into(), d)));
        program.kernels[1].items.eval(&Sizes { dimensions: &dims, lanes: 16 }).unwrap()
    };
    assert_eq!(items(32, 10), items(1, 320), "short items fill the blocks of rows that one long one has");
    for order in [["b", "t", "o"], ["t", "b", "o"], ["b", "o", "t"], ["o", "t", "b"]] {
        let g = batch_by_parameter(order);
        for (n, (b, t)) in
            [(1, 1), (2, 33), (13, 5), (5, 13), (3, 64), (70, 1), (1, 70)].into_iter().enumerate()
        {
            let (d, o) = (SIZES[(n + 3) % SIZES.len()], SIZES[(n + 5) % SIZES.len()]);
            Case::new(g.clone(), &[("B", b), ("T", t), ("D", d), ("O", o)], n as u64).check();
        }
    }
}

/// Three products of one tensor, under two names of its positions, and one of the first of them.
fn products_of_one_tensor() -> Graph {
    let mut m = Model::new();
    let (b, t, d) = (m.axis("b", "B"), m.axis("t", "T"), m.axis("d", "D"));
    let (o, p, u) = (m.axis("o", "O"), m.axis("p", "P"), m.axis("u", "T"));
    let x = m.input("x", &[b, t, d]);
    let renamed = m.b.rename(x, t, u).unwrap();
    let by = |m: &mut Model, name: &str, x: NodeId, depth: AxisId, column: AxisId| {
        let w = m.b.param(name, &[column, depth], DType::F32, None, None);
        m.sum_of_products(depth, x, w)
    };
    let first = by(&mut m, "first", x, d, o);
    let second = by(&mut m, "second", renamed, d, p);
    let third = by(&mut m, "third", x, d, p);
    let third = m.map(MapOp::Exp, &[third]);
    let then = by(&mut m, "then", first, o, p);
    for (name, axes, node) in [("a", [b, t, o], first), ("c", [b, u, p], second), ("e", [b, t, p], then)] {
        m.b.output(name, &axes, node).unwrap();
    }
    m.done("d", &[b, t, p], third)
}

#[test]
fn products_of_one_operand_are_one_kernel() {
    let g = products_of_one_tensor();
    let program = schedule(&g, salient_tile::Options::default());
    let products: Vec<usize> =
        program.kernels.iter().filter(|k| k.kind == Kind::Gemm).map(|k| k.writes.len()).collect();
    assert_eq!(products, [3, 1], "what reads a result waits for it");
    for (n, (b, t)) in [(1, 1), (2, 33), (13, 5), (3, 64), (0, 4)].into_iter().enumerate() {
        let (d, o, p) = (SIZES[n + 1], SIZES[(n + 5) % SIZES.len()], SIZES[(n + 8) % SIZES.len()]);
        Case::new(g.clone(), &[("B", b), ("T", t), ("D", d), ("O", o), ("P", p)], n as u64).check();
    }
}

/// Equal items give equal bits, whichever rows of tiles and blocks they fall on.
#[test]
fn a_row_gives_the_same_bits_anywhere_in_a_batch() {
    let (b, t, d, o) = (27, 5, 70, 33);
    let mut case =
        Case::new(batch_by_parameter(["b", "t", "o"]), &[("B", b), ("T", t), ("D", d), ("O", o)], 7);
    let item =
        random(&mut fastrand::Rng::with_seed(8), vec![t as usize, d as usize], DType::F32).to_f64_vec();
    let all = (0..b).flat_map(|_| item.iter().map(|v| *v as f32)).collect();
    let x = Array::new(vec![b as usize, t as usize, d as usize], Elements::F32(all)).unwrap();
    case.inputs.insert("x".to_owned(), x);
    for isa in Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect()) {
        let y = case.compiled(isa, true, 2)[0].to_f64_vec();
        let items: Vec<&[f64]> = y.chunks_exact((t * o) as usize).collect();
        assert!(items.iter().all(|other| *other == items[0]), "items differ on {isa}");
    }
}

/// One row, whose axis is not there: of data and a parameter, computed on the way.
fn row_by_parameter() -> Graph {
    let mut m = Model::new();
    let (d, o) = (m.axis("d", "D"), m.axis("o", "O"));
    let (x, gain) = (m.input("x", &[d]), m.input("gain", &[d]));
    let w = m.b.param("w", &[o, d], DType::F32, None, None);
    let scaled = m.map(MapOp::Mul, &[x, gain]);
    let y = m.sum_of_products(d, scaled, w);
    m.done("y", &[o], y)
}

#[test]
fn a_single_row_is_a_product_with_packed_parameters() {
    let g = row_by_parameter();
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    assert_eq!(kinds, [Kind::Pack, Kind::Map, Kind::Gemm], "the parameter is packed, the row stored");
    for (n, size) in SIZES.iter().enumerate() {
        let other = SIZES[(n + 5) % SIZES.len()];
        Case::new(g.clone(), &[("D", *size), ("O", other)], n as u64).check();
    }
}

/// The inner index is taken in blocks; what is left over of them counts too.
#[test]
fn products_deeper_than_a_block() {
    let g = product_with_bias();
    for depth in [191, 192, 193, 512, 513, 1025] {
        Case::new(g.clone(), &[("T", 7), ("D", depth), ("O", 35)], depth as u64).check();
    }
}

/// Two layers: what follows the first product belongs to its kernel, and its rows are read where they lie.
#[test]
fn an_activation_between_products_belongs_to_the_first() {
    let mut m = Model::new();
    let (t, d, o, p) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("o", "O"), m.axis("p", "P"));
    let (x, w, v) = (m.input("x", &[t, d]), m.input("w", &[o, d]), m.input("v", &[p, o]));
    let hidden = m.sum_of_products(d, x, w);
    let active = m.map(MapOp::Tanh, &[hidden]);
    let y = m.sum_of_products(o, active, v);
    let g = m.done("y", &[t, p], y);
    let program = schedule(&g, salient_tile::Options::default());
    let kinds: Vec<Kind> = program.kernels.iter().map(|k| k.kind).collect();
    assert_eq!(kinds, [Kind::Pack, Kind::Gemm, Kind::Pack, Kind::Gemm]);
    for (rows, depth, width) in [(1, 5, 3), (9, 33, 17), (70, 3, 130)] {
        Case::new(g.clone(), &[("T", rows), ("D", depth), ("O", width), ("P", 19)], 6).check();
    }
}

#[test]
fn any_register_tile_will_do() {
    let case =
        Case::new(causal(0, FusedOp::Attend), &[("H", 1), ("Q", 150), ("K", 150), ("E", 3), ("F", 37)], 4);
    let expected = case.compiled(Isa::detect(), true, 1);
    for (rows, vectors) in [(1, 1), (1, 8), (3, 5), (7, 2)] {
        let shape = Shape { rows, vectors };
        let tiling = Tiling::of(shape);
        let program = schedule(&case.graph, salient_tile::Options { tiling, ..Default::default() });
        for (a, b) in expected.iter().zip(case.run(program, Isa::detect(), 1)) {
            let (a, b) = (a.to_f64_vec(), b.to_f64_vec());
            assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5), "{shape:?}");
        }
    }
}
