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
    assert!(optimised(&g).contains("let context[t, f] = fused.attend[t_2](score"));
    assert_same_values(&g, DIMS);
}

/// A way of writing one variant: its name, and the context from the parts.
type Spelling = (&'static str, fn(&Parts) -> V);

/// Asserts that every spelling gives the same text, that it has the line, and that values do not change.
fn all_the_same(spellings: &[Spelling], line: &str) {
    let mut first: Option<String> = None;
    for (name, write) in spellings {
        let p = parts();
        let context = write(&p);
        let g = finish(&p, &context);
        let text = optimised(&g);
        assert!(text.contains(line), "{name} has no line\n{line}\n{text}");
        match &first {
            None => first = Some(text),
            Some(first) => assert_eq!(&text, first, "{name}"),
        }
        assert_same_values(&g, DIMS);
    }
}

fn score(p: &Parts) -> V {
    (&p.q * &p.k).sum(p.e) / p.m.sqrt_of(p.e)
}

fn attend(p: &Parts, w: V) -> V {
    (&w * &p.v).sum(p.j)
}

const PLAIN: &[Spelling] = &[
    ("softmax of scaled scores", |p| attend(p, p.m.softmax(p.j, &score(p)))),
    ("scale on q", |p| {
        let q = &p.q / &p.m.sqrt_of(p.e);
        attend(p, p.m.softmax(p.j, &(&q * &p.k).sum(p.e)))
    }),
    ("scale on k", |p| {
        let k = &p.k / &p.m.sqrt_of(p.e);
        attend(p, p.m.softmax(p.j, &(&p.q * &k).sum(p.e)))
    }),
    ("scale times the reciprocal", |p| {
        let c = &p.m.num(1.0) / &p.m.sqrt_of(p.e);
        attend(p, p.m.softmax(p.j, &(&c * &(&p.k * &p.q).sum(p.e))))
    }),
    ("scale by a power", |p| {
        let e = p.m.extent(&salient_ir::Dim::symbol("E")).f32();
        let c = p.m.map(MapOp::Pow, &[&e, &p.m.num(-0.5)]);
        attend(p, p.m.softmax(p.j, &(&(&p.q * &p.k).sum(p.e) * &c)))
    }),
    ("by hand without the maximum", |p| attend(p, p.m.exp_over_sum(p.j, &score(p)))),
    ("by hand with the maximum", |p| attend(p, p.m.shifted_exp_over_sum(p.j, &score(p)))),
    ("normalised at the end", |p| {
        let e = score(p).exp();
        &attend(p, e.clone()) / &e.sum(p.j)
    }),
    ("normalised at the end with the maximum", |p| {
        let s = score(p);
        let e = (&s - &s.reduce(salient_ir::ReduceOp::Max, p.j)).exp();
        &attend(p, e.clone()) / &e.sum(p.j)
    }),
    ("values first", |p| (&p.v * &p.m.softmax(p.j, &score(p))).sum(p.j)),
    ("shifted by a row's own value", |p| {
        let row = p.q.sum(p.e);
        attend(p, p.m.softmax(p.j, &(&score(p) + &row)))
    }),
    ("reciprocal of the sum", |p| {
        let e = score(p).exp();
        let r = e.sum(p.j).map(MapOp::Recip);
        attend(p, &e * &r)
    }),
];

#[test]
fn plain_attention() {
    all_the_same(PLAIN, "let context[t, f] = fused.attend[t_2](");
}

fn masked(p: &Parts, keep: &V, s: &V) -> V {
    p.m.select(keep, s, &minus_infinity(p))
}

const CAUSAL: &[Spelling] = &[
    ("where", |p| attend(p, p.m.softmax(p.j, &masked(p, &causal(p), &score(p))))),
    ("swapped arms", |p| {
        let drop = p.m.iota(p.i).lt(&p.m.iota(p.j));
        attend(p, p.m.softmax(p.j, &p.m.select(&drop, &minus_infinity(p), &score(p))))
    }),
    ("not", |p| {
        let drop = causal(p).not();
        attend(p, p.m.softmax(p.j, &p.m.select(&drop, &minus_infinity(p), &score(p))))
    }),
    ("added mask", |p| {
        let bias = p.m.select(&causal(p), &p.m.num(0.0), &minus_infinity(p));
        attend(p, p.m.softmax(p.j, &(&score(p) + &bias)))
    }),
    ("added mask, swapped arms", |p| {
        let bias = p.m.select(&causal(p).not(), &minus_infinity(p), &p.m.num(0.0));
        attend(p, p.m.softmax(p.j, &(&bias + &score(p))))
    }),
    ("comparison of a difference", |p| {
        let keep = p.m.int(0).le(&(&p.m.iota(p.i) - &p.m.iota(p.j)));
        attend(p, p.m.softmax(p.j, &masked(p, &keep, &score(p))))
    }),
    ("strict comparison", |p| {
        let keep = p.m.iota(p.j).lt(&(&p.m.iota(p.i) + &p.m.int(1)));
        attend(p, p.m.softmax(p.j, &masked(p, &keep, &score(p))))
    }),
    ("scale after the mask", |p| {
        let s = masked(p, &causal(p), &(&p.q * &p.k).sum(p.e));
        attend(p, p.m.softmax(p.j, &(&s / &p.m.sqrt_of(p.e))))
    }),
    ("by hand, without the maximum", |p| attend(p, p.m.exp_over_sum(p.j, &masked(p, &causal(p), &score(p))))),
    ("by hand, with the maximum", |p| {
        attend(p, p.m.shifted_exp_over_sum(p.j, &masked(p, &causal(p), &score(p))))
    }),
    ("exponentials times the mask", |p| {
        let e = &score(p).exp() * &causal(p).f32();
        attend(p, &e / &e.sum(p.j))
    }),
    ("renormalised after the mask", |p| {
        let w = &p.m.softmax(p.j, &score(p)) * &causal(p).f32();
        attend(p, &w / &w.sum(p.j))
    }),
    ("renormalised at the end", |p| {
        let w = &p.m.softmax(p.j, &score(p)) * &causal(p).f32();
        &attend(p, w.clone()) / &w.sum(p.j)
    }),
    ("renormalised after a where", |p| {
        let w = p.m.select(&causal(p), &p.m.softmax(p.j, &score(p)), &p.m.num(0.0));
        attend(p, &w / &w.sum(p.j))
    }),
    ("renormalised by hand", |p| {
        let w = &p.m.exp_over_sum(p.j, &score(p)) * &causal(p).f32();
        attend(p, &w / &w.sum(p.j))
    }),
    ("shifted by the unmasked maximum", |p| {
        let s = score(p);
        let e = (&s - &s.reduce(salient_ir::ReduceOp::Max, p.j)).exp();
        let e = p.m.select(&causal(p), &e, &p.m.num(0.0));
        attend(p, &e / &e.sum(p.j))
    }),
    ("shifted by the masked maximum", |p| {
        let s = score(p);
        let top = masked(p, &causal(p), &s).reduce(salient_ir::ReduceOp::Max, p.j);
        let e = p.m.select(&causal(p), &(&s - &top).exp(), &p.m.num(0.0));
        attend(p, &e / &e.sum(p.j))
    }),
    ("nested with itself", |p| {
        let s = masked(p, &causal(p), &score(p));
        attend(p, p.m.softmax(p.j, &masked(p, &causal(p), &s)))
    }),
    ("a sentinel for infinity", |p| {
        attend(p, p.m.softmax(p.j, &p.m.select(&causal(p), &score(p), &p.m.num(-1e9))))
    }),
    ("a sentinel, added", |p| {
        let bias = &(&p.m.num(1.0) - &causal(p).f32()) * &p.m.num(-1e9);
        attend(p, p.m.softmax(p.j, &(&score(p) + &bias)))
    }),
    ("a sentinel, chosen and added", |p| {
        let bias = p.m.select(&causal(p).not(), &p.m.num(-10000.0), &p.m.num(0.0));
        attend(p, p.m.softmax(p.j, &(&score(p) + &bias)))
    }),
];

#[test]
fn causal_attention() {
    all_the_same(CAUSAL, "let context[t, f] = fused.attend[t_2](");
}

/// A mask given as data: a row may keep no key.
fn keep(p: &Parts) -> V {
    p.m.typed("keep", &[p.i, p.j], salient_ir::DType::Bool)
}

const DATA_MASKED: &[Spelling] = &[
    ("where", |p| attend(p, p.m.softmax(p.j, &masked(p, &keep(p), &score(p))))),
    ("swapped arms", |p| {
        attend(p, p.m.softmax(p.j, &p.m.select(&keep(p).not(), &minus_infinity(p), &score(p))))
    }),
    ("added mask", |p| {
        let bias = p.m.select(&keep(p), &p.m.num(0.0), &minus_infinity(p));
        attend(p, p.m.softmax(p.j, &(&score(p) + &bias)))
    }),
    ("scale after the mask", |p| {
        let s = masked(p, &keep(p), &(&p.q * &p.k).sum(p.e));
        attend(p, p.m.softmax(p.j, &(&s / &p.m.sqrt_of(p.e))))
    }),
];

#[test]
fn attention_with_a_mask_of_data() {
    all_the_same(DATA_MASKED, "let context[t, f] = fused.attend[t_2](");
}

const DATA_MASKED_BY_HAND: &[Spelling] = &[
    ("without the maximum", |p| attend(p, p.m.exp_over_sum(p.j, &masked(p, &keep(p), &score(p))))),
    ("with the maximum", |p| attend(p, p.m.shifted_exp_over_sum(p.j, &masked(p, &keep(p), &score(p))))),
    ("renormalised after the mask", |p| {
        let w = &p.m.softmax(p.j, &score(p)) * &keep(p).f32();
        attend(p, &w / &w.sum(p.j))
    }),
    ("exponentials times the mask", |p| {
        let e = &score(p).exp() * &keep(p).f32();
        attend(p, &e / &e.sum(p.j))
    }),
    ("shifted by the masked maximum", |p| {
        let s = score(p);
        let keep = keep(p);
        let top = masked(p, &keep, &s).reduce(salient_ir::ReduceOp::Max, p.j);
        let e = p.m.select(&keep, &(&s - &top).exp(), &p.m.num(0.0));
        attend(p, &e / &e.sum(p.j))
    }),
];

/// A row without a key is NaN when written by hand and zero in the library: these are not the same program.
#[test]
fn by_hand_a_row_without_a_key_stays_nan() {
    all_the_same(DATA_MASKED_BY_HAND, "let context[t, f] = fused.exp_attend[t_2](");
}

/// The extents of positions and of features may be the same number by chance.
#[test]
fn extents_that_coincide_do_not_matter() {
    let m = Model::new();
    let [t, e, f] = ["t", "e", "f"].map(|n| m.axis(n, "4"));
    let (i, j) = (m.axis("i", "4"), m.axis("j", "4"));
    let q = m.input("q", &[t, e]).at(&[(t, i)]);
    let k = m.input("k", &[t, e]).at(&[(t, j)]);
    let v = m.input("v", &[t, f]).at(&[(t, j)]);
    let w = m.shifted_exp_over_sum(j, &(&q * &k).sum(e));
    m.output("y", &[i, f], &(&w * &v).sum(j));
    let g = m.finish();
    let text = optimised(&g);
    assert!(text.contains("let y[n4, n4_2] = fused.attend[n4_3]("), "{text}");
    assert_same_values(&g, &[]);
}
