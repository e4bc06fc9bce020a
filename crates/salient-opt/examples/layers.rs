//! Time and size of optimising a decoder of N layers: `cargo run --release -p salient-opt --example layers -- 12`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Model, V};
use salient_ir::{AxisId, MapOp};
use std::time::Instant;

struct Axes {
    b: AxisId,
    t: AxisId,
    s: AxisId,
    d: AxisId,
    d2: AxisId,
    h: AxisId,
    e: AxisId,
    f: AxisId,
}

fn mean(m: &Model, x: &V, d: AxisId) -> V {
    let root = m.sqrt_of(d);
    &x.sum(d) / &(&root * &root)
}

fn layer_norm(m: &Model, a: &Axes, name: &str, x: &V) -> V {
    let c = x - &mean(m, x, a.d);
    let v = &mean(m, &(&c * &c), a.d) + &m.num(1e-5);
    let n = &c / &v.map(MapOp::Sqrt);
    &(&n * &m.param(&format!("{name}.weight"), &[a.d])) + &m.param(&format!("{name}.bias"), &[a.d])
}

fn linear(m: &Model, name: &str, x: &V, from: AxisId, to: &[AxisId]) -> V {
    let mut axes = to.to_vec();
    axes.push(from);
    let w = m.param(&format!("{name}.weight"), &axes);
    &(x * &w).sum(from) + &m.param(&format!("{name}.bias"), to)
}

fn block(m: &Model, a: &Axes, n: usize, x: &V) -> V {
    let normed = layer_norm(m, a, &format!("h.{n}.ln_1"), x);
    let [q, k, v] = ["q", "k", "v"].map(|p| linear(m, &format!("h.{n}.{p}"), &normed, a.d, &[a.h, a.e]));
    let (k, v) = (k.at(&[(a.t, a.s)]), v.at(&[(a.t, a.s)]));
    let s = (&q * &k).sum(a.e) / m.sqrt_of(a.e);
    let keep = m.iota(a.s).le(&m.iota(a.t));
    let w = m.softmax(a.s, &m.select(&keep, &s, &m.num(f32::NEG_INFINITY)));
    let y = (&w * &v).sum(a.s);
    let projection = m.param(&format!("h.{n}.proj.weight"), &[a.d, a.h, a.e]);
    let y = (&y * &projection).sum(a.e).sum(a.h);
    let x = x + &y;
    let normed = layer_norm(m, a, &format!("h.{n}.ln_2"), &x);
    let up = linear(m, &format!("h.{n}.fc"), &normed, a.d, &[a.f]);
    let gelu = {
        let cube = &(&up * &up) * &up;
        let inner = &(&up + &(&cube * &m.num(0.044715))) * &m.num(0.797_884_6);
        &(&up * &m.num(0.5)) * &(&inner.map(MapOp::Tanh) + &m.num(1.0))
    };
    let down = linear(m, &format!("h.{n}.out"), &gelu, a.f, &[a.d2]).at(&[(a.d2, a.d)]);
    &x + &down
}

fn main() {
    let layers: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let m = Model::new();
    let [b, t, s, d, d2, h, e, f] = [
        ("b", "B"),
        ("t", "T"),
        ("s", "T"),
        ("d", "768"),
        ("d2", "768"),
        ("h", "12"),
        ("e", "64"),
        ("f", "3072"),
    ]
    .map(|(n, x)| m.axis(n, x));
    let a = Axes { b, t, s, d, d2, h, e, f };
    let mut x = m.input("x", &[a.b, a.t, a.d]);
    for n in 0..layers {
        x = block(&m, &a, n, &x);
    }
    m.output("y", &[a.b, a.t, a.d], &x);
    let g = m.finish();
    for _ in 0..3 {
        let start = Instant::now();
        let out = salient_opt::optimise(&g, &salient_opt::Options::default());
        let (report, took) = (out.report, start.elapsed());
        println!(
            "{} layers: {} nodes in, {} out, {} e-nodes, {} classes, {} rounds, {:?}, {took:?}",
            layers,
            g.len(),
            out.graph.len(),
            report.nodes,
            report.classes,
            report.iterations,
            report.stop
        );
        println!("{:?}", report.rules);
        if layers == 1 {
            println!("{}", salient_ir::text::print(&out.graph));
        }
    }
}
