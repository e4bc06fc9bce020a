//! The graph after each pass of the table: a graph of the same model, and after the last pass what optimising gives.

mod common;

use common::{Model, V, assert_same};
use salient_ir::{AxisId, Bindings, Graph, text, verify};
use salient_opt::{Fp, Options, PASSES, optimise, trace};

struct Axes {
    t: AxisId,
    s: AxisId,
    d: AxisId,
    e: AxisId,
}

/// A causal attention over what the block before gives, added to it.
fn block(m: &Model, a: &Axes, n: usize, x: &V) -> V {
    let normed = x / &(&(x * x).sum(a.d) + &m.num(0.5));
    let project = |name: &str| (&normed * &m.param(&format!("h.{n}.{name}"), &[a.d, a.e])).sum(a.d);
    let (q, k, v) = (project("q"), project("k").at(&[(a.t, a.s)]), project("v").at(&[(a.t, a.s)]));
    let keep = m.iota(a.s).le(&m.iota(a.t));
    let s = m.select(&keep, &(&q * &k).sum(a.e), &m.num(f32::NEG_INFINITY));
    let context = (&m.softmax(a.s, &s) * &v).sum(a.s);
    x + &(&context * &m.param(&format!("h.{n}.o"), &[a.e, a.d])).sum(a.e)
}

/// A model of so many layers.
fn layers(count: usize) -> Graph {
    let m = Model::new();
    let a = Axes { t: m.axis("t", "T"), s: m.axis("s", "T"), d: m.axis("d", "D"), e: m.axis("e", "E") };
    let x = m.input("x", &[a.t, a.d]);
    let y = (0..count).fold(x, |x, n| block(&m, &a, n, &x));
    m.output("y", &[a.t, a.d], &y);
    m.finish()
}

/// One layer is optimised as it stands, five as one block and what surrounds it.
#[test]
fn the_graph_after_each_pass_is_one_of_the_same_model() {
    let sizes: Bindings =
        [("T", 3), ("D", 2), ("E", 4)].map(|(name, n)| (name.into(), n)).into_iter().collect();
    for (count, fp) in [(1, Fp::Default), (5, Fp::Default), (5, Fp::Strict)] {
        let (g, options) = (layers(count), Options { fp, ..Options::default() });
        let optimised = optimise(&g, &options);
        assert_eq!(optimised.report.repeated.len(), usize::from(count > 1));
        let steps = trace(&g, &options);
        assert_eq!(steps.len(), PASSES.len());
        let mut last = String::new();
        for (pass, after) in steps {
            let [after] = after.as_slice() else {
                panic!("the blocks do not fit together after {}", pass.name)
            };
            assert_eq!(verify::verify(after), Vec::<String>::new(), "{}", pass.name);
            assert_same(&g, after, &sizes, 7);
            last = text::print(after);
        }
        assert_eq!(last, text::print(&optimised.graph));
    }
}
