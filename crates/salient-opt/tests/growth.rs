//! Programs that read what they have computed twice, again and again, and programs of many steps: every pass goes over what is
//! shared once, and none as deep as its stack. As trees these graphs have more than 2^40 nodes: a pass that forgets does not
//! end.

use salient_ir::{AxisId, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use salient_opt::{Options, optimise};

/// Inputs over one axis: two of numbers, two of truth values.
struct Inputs {
    t: AxisId,
    x: NodeId,
    v: NodeId,
    k: NodeId,
    l: NodeId,
}

fn graph(build: impl Fn(&mut Builder, &Inputs) -> NodeId) -> Graph {
    let mut b = Builder::new("m");
    let t = b.axis_id("t", &Dim::symbol("T"));
    let [x, v] = ["x", "v"].map(|name| b.input(name, &[t], DType::F32, None));
    let [k, l] = ["k", "l"].map(|name| b.input(name, &[t], DType::Bool, None));
    let y = build(&mut b, &Inputs { t, x, v, k, l });
    let axes: Vec<AxisId> = b.node(y).axes.iter().collect();
    b.output("y", &axes, y).unwrap();
    b.finish()
}

/// The optimised graph is well-formed and larger than the one it is made of by a factor, not by a power.
fn stays_small(g: &Graph) {
    let fused = optimise(g, &Options::default()).graph;
    assert_eq!(salient_ir::verify::verify(&fused), Vec::<String>::new());
    assert!(fused.len() < 8 * g.len(), "{} nodes of {}", fused.len(), g.len());
}

/// So many rounds of an operator on a value and itself.
fn rounds(b: &mut Builder, op: MapOp, from: NodeId) -> NodeId {
    (0..44).fold(from, |y, _| b.map(op, &[y, y]).unwrap())
}

fn map(b: &mut Builder, op: MapOp, args: &[NodeId]) -> NodeId {
    b.map(op, args).unwrap()
}

#[test]
fn products_of_themselves_are_taken_apart_once() {
    stays_small(&graph(|b, i| {
        let squared = rounds(b, MapOp::Mul, i.x);
        let sum = b.reduce(ReduceOp::Sum, i.t, squared).unwrap();
        let weights = map(b, MapOp::Div, &[squared, sum]);
        let weighted = map(b, MapOp::Mul, &[weights, i.v]);
        b.reduce(ReduceOp::Sum, i.t, weighted).unwrap()
    }));
}

#[test]
fn scores_that_read_themselves_twice_are_looked_through_once() {
    stays_small(&graph(|b, i| {
        let mut y = i.x;
        for _ in 0..44 {
            let turned = map(b, MapOp::Tanh, &[y]);
            y = map(b, MapOp::Add, &[y, turned]);
        }
        let e = map(b, MapOp::Exp, &[y]);
        let sum = b.reduce(ReduceOp::Sum, i.t, e).unwrap();
        let weights = map(b, MapOp::Div, &[e, sum]);
        let weighted = map(b, MapOp::Mul, &[weights, i.v]);
        let mixed = b.reduce(ReduceOp::Sum, i.t, weighted).unwrap();
        map(b, MapOp::Add, &[mixed, y])
    }));
}

#[test]
fn parts_that_read_themselves_twice_are_looked_through_once() {
    stays_small(&graph(|b, i| {
        let whole = b.axis_id("c", &(&Dim::symbol("T") * &Dim::constant(2)));
        let [first, second] = [i.x, i.v].map(|from| rounds(b, MapOp::Add, from));
        b.add(Op::Concat(whole, [i.t, i.t].into_iter().collect()), &[first, second]).unwrap()
    }));
}

#[test]
fn masks_that_read_themselves_twice_are_negated_once() {
    stays_small(&graph(|b, i| {
        let mut keep = i.k;
        for _ in 0..44 {
            let (either, both) = (map(b, MapOp::Or, &[keep, i.l]), map(b, MapOp::And, &[keep, i.l]));
            keep = map(b, MapOp::And, &[either, both]);
        }
        let masked = map(b, MapOp::Not, &[keep]);
        let zero = b.constant(Const::f32(0.0));
        map(b, MapOp::Select, &[masked, i.x, zero])
    }));
}

#[test]
fn indices_that_read_themselves_twice_are_followed_once() {
    stays_small(&graph(|b, i| {
        let index = b.iota(i.t);
        let (zero, by) = (b.constant(Const::I64(0)), b.extent_of(&Dim::symbol("T")));
        let chosen = map(b, MapOp::Select, &[i.k, index, zero]);
        let sum = rounds(b, MapOp::Add, chosen);
        let place = map(b, MapOp::Mod, &[sum, by]);
        b.at(i.x, i.t, place).unwrap()
    }));
}

#[test]
fn guarded_indices_that_read_themselves_twice_are_followed_once() {
    stays_small(&graph(|b, i| {
        let u = b.axis_id("u", &Dim::symbol("T"));
        let (row, key) = (b.iota(i.t), b.iota(u));
        let [zero, one] = [0, 1].map(|n| b.constant(Const::I64(n)));
        let distance = map(b, MapOp::Sub, &[row, key]);
        let mut index = map(b, MapOp::Max, &[distance, zero]);
        for _ in 0..44 {
            let next = map(b, MapOp::Add, &[index, one]);
            index = map(b, MapOp::Min, &[index, next]);
        }
        let keep = map(b, MapOp::Le, &[key, row]);
        let read = b.at(i.x, i.t, index).unwrap();
        let nothing = b.constant(Const::f32(0.0));
        map(b, MapOp::Select, &[keep, read, nothing])
    }));
}

#[test]
fn heads_that_are_mixed_again_and_again_are_looked_through_once() {
    let mut b = Builder::new("m");
    let [t, u, e, f] = ["T", "U", "E", "F"].map(|name| b.axis_id(&name.to_lowercase(), &Dim::symbol(name)));
    let [h, g] = ["h", "g"].map(|name| b.axis_id(name, &Dim::symbol("H")));
    let q = b.input("q", &[h, t, e], DType::F32, None);
    let k = b.input("k", &[h, u, e], DType::F32, None);
    let v = b.input("v", &[h, u, f], DType::F32, None);
    let w = b.input("w", &[h, g], DType::F32, None);
    let sum_of = |b: &mut Builder, x: NodeId, y: NodeId, axis: AxisId| {
        let product = map(b, MapOp::Mul, &[x, y]);
        b.reduce(ReduceOp::Sum, axis, product).unwrap()
    };
    let mut y = sum_of(&mut b, q, k, e);
    for round in 0..24 {
        let turned = map(&mut b, MapOp::Tanh, &[y]);
        let both = map(&mut b, MapOp::Add, &[y, turned]);
        y = sum_of(&mut b, both, w, if round % 2 == 0 { h } else { g });
    }
    let y = sum_of(&mut b, y, v, u);
    b.output("y", &[h, t, f], y).unwrap();
    stays_small(&b.finish());
}

#[test]
fn ten_thousand_operators_in_a_row_do_not_overflow_the_stack() {
    for op in [MapOp::Add, MapOp::Mul, MapOp::Max] {
        stays_small(&graph(|b, i| (0..10_000).fold(i.x, |y, _| map(b, op, &[y, i.v]))));
    }
}
