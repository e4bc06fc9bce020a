//! Spelling does not matter: however attention is written, the same graph comes out.

mod common;

use common::{Model, V, assert_same_values, optimised};
use salient_ir::{AxisId, Graph, MapOp};

const DIMS: &[(&str, i64)] = &[("T", 5), ("E", 4), ("F", 3)];

struct Parts {
    m: Model,
    i: AxisId,
    j: AxisId,
    e: AxisId,
    f: AxisId,
    q: V,
    k: V,
    v: V,
}

fn parts() -> Parts {
    let m = Model::new();
    let [t, e, f] = [("t", "T"), ("e", "E"), ("f", "F")].map(|(n, x)| m.axis(n, x));
    let (i, j) = (m.axis("i", "T"), m.axis("j", "T"));
    let q = m.input("q", &[t, e]).at(&[(t, i)]);
    let k = m.input("k", &[t, e]).at(&[(t, j)]);
    let v = m.input("v", &[t, f]).at(&[(t, j)]);
    Parts { m, i, j, e, f, q, k, v }
}

fn finish(p: &Parts, context: &V) -> Graph {
    p.m.output("context", &[p.i, p.f], context);
    p.m.finish()
}

fn causal(p: &Parts) -> V {
    p.m.iota(p.j).le(&p.m.iota(p.i))
}

fn minus_infinity(p: &Parts) -> V {
    p.m.num(f32::NEG_INFINITY)
}

#[test]
fn causal_attention_is_one_operator() {
    let p = parts();
    let s = (&p.q * &p.k).sum(p.e) / p.m.sqrt_of(p.e);
    let s = p.m.select(&causal(&p), &s, &minus_infinity(&p)).named("score");
    let w = p.m.softmax(p.j, &s);
    let g = finish(&p, &(w * p.v.clone()).sum(p.j));
    assert!(optimised(&g).contains("let context[t, f] = fused.attend[t.1](score[t, t.1], v[t.1, f])"));
    assert_same_values(&g, DIMS);
}
