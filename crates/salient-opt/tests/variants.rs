//! Variants of attention and whole layers: what fuses, what does not, and what is shared.

mod common;

use common::{Model, V, assert_same_values, optimised};
use salient_ir::{AxisId, DType, Graph, MapOp, ReduceOp, Relation, Requirement};
use salient_opt::{Options, optimise};

const DIMS: &[(&str, i64)] =
    &[("B", 2), ("T", 5), ("S", 6), ("D", 6), ("E", 4), ("F", 3), ("H", 2), ("W", 2)];

fn line_with<'a>(text: &'a str, what: &str) -> Vec<&'a str> {
    text.lines().filter(|l| l.contains(what)).map(str::trim).collect()
}

fn minus_infinity(m: &Model) -> V {
    m.num(f32::NEG_INFINITY)
}

/// `x[t, d] w[o, d]` summed over `d`.
fn linear(m: &Model, x: &V, d: AxisId, name: &str, o: AxisId) -> V {
    let w = m.param(name, &[o, d]);
    (x * &w).sum(d)
}

/// Causal self-attention written twice: masked before the softmax, and after it with renormalisation.
fn causal_two_ways(keep: impl Fn(&Model, AxisId, AxisId) -> V) -> Graph {
    let m = Model::new();
    let (t, d, e) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("e", "E"));
    let (i, j) = (m.axis("i", "T"), m.axis("j", "T"));
    let x = m.input("x", &[t, d]);
    let [q, k, v] = ["W_query", "W_key", "W_value"].map(|n| linear(&m, &x, d, n, e));
    let keep = keep(&m, i, j);
    let (k, v) = (k.at(&[(t, j)]), v.at(&[(t, j)]));
    let s = (&q.at(&[(t, i)]) * &k).sum(e) / m.sqrt_of(e);
    let before = m.softmax(j, &m.select(&keep, &s, &minus_infinity(&m)));
    let after = &m.softmax(j, &s) * &keep.f32();
    m.output("masked", &[i, e], &(&before * &v).sum(j));
    let renormalised = &after / &after.sum(j);
    m.output("renormalised", &[i, e], &(&renormalised * &v).sum(j));
    m.finish()
}

#[test]
fn causal_two_ways_is_one_operator() {
    let g = causal_two_ways(|m, i, j| m.iota(j).le(&m.iota(i)));
    let out = optimise(&g, &Options::default()).graph;
    assert_eq!(out.outputs()[0].node, out.outputs()[1].node, "{}", salient_ir::text::print(&out));
    assert_eq!(line_with(&optimised(&g), "fused.").len(), 1);
    assert_same_values(&g, DIMS);
}

#[test]
fn an_arbitrary_mask_keeps_the_two_ways_apart() {
    let g = causal_two_ways(|m, i, j| m.typed("keep", &[i, j], DType::Bool));
    let text = optimised(&g);
    assert_eq!(line_with(&text, "fused.attend").len(), 1, "{text}");
    assert_eq!(line_with(&text, "fused.exp_attend").len(), 1, "{text}");
    assert_same_values(&g, DIMS);
}

/// A mask of batch, query and key.
type Mask = fn(&Model, AxisId, AxisId, AxisId) -> V;

/// Attention by hand under a mask; fused as `attend` only if each row provably keeps a key.
fn by_hand_under(keep: impl Fn(&Model, AxisId, AxisId, AxisId) -> V, keys: &str) -> Graph {
    let m = Model::new();
    let (b, t, e) = (m.axis("b", "B"), m.axis("t", "T"), m.axis("e", "E"));
    let j = m.axis("j", keys);
    let (q, k, v) = (m.input("q", &[b, t, e]), m.input("k", &[b, j, e]), m.input("v", &[b, j, e]));
    let s = (&q * &k).sum(e);
    let s = m.select(&keep(&m, b, t, j), &s, &minus_infinity(&m));
    let w = m.exp_over_sum(j, &s);
    m.output("y", &[b, t, e], &(&w * &v).sum(j));
    m.finish()
}

#[test]
fn masks_that_keep_a_key_are_proved_to() {
    let masks: &[Mask] = &[
        // A window: the diagonal is in it.
        |m, _, i, j| {
            let gap = &m.iota(i) - &m.iota(j);
            m.iota(j).le(&m.iota(i)).and(&gap.lt(&m.int(2)))
        },
        // A window on both sides of a symbolic width.
        |m, _, i, j| {
            let width = m.extent(&(&salient_ir::Dim::symbol("W") + &salient_ir::Dim::constant(1)));
            let gap = &m.iota(i) - &m.iota(j);
            gap.lt(&width).and(&(&m.int(0) - &width).lt(&gap))
        },
        // Causal and of the same document: both hold on the diagonal.
        |m, b, i, j| {
            let k = m.axis("k", "T");
            let doc = m.typed("document", &[b, k], DType::I64);
            let same = doc.at(&[(k, i)]).eq(&doc.at(&[(k, j)]));
            m.iota(j).le(&m.iota(i)).and(&same)
        },
        // Causal, or in a prefix given as data.
        |m, b, i, j| {
            let length = m.typed("prefix", &[b], DType::I64);
            let prefix = m.iota(j).lt(&length);
            m.map(MapOp::Or, &[&m.iota(j).le(&m.iota(i)), &prefix])
        },
        // The first key is always seen.
        |m, b, i, j| {
            let keep = m.typed("keep", &[b, i, j], DType::Bool);
            m.map(MapOp::Or, &[&keep, &m.iota(j).eq(&m.int(0))])
        },
    ];
    for (n, mask) in masks.iter().enumerate() {
        let g = by_hand_under(mask, "T");
        let text = optimised(&g);
        assert_eq!(line_with(&text, "fused.attend").len(), 1, "mask {n}\n{text}");
        assert_same_values(&g, DIMS);
    }
}

#[test]
fn masks_that_may_drop_every_key_are_not_assumed_to_keep_one() {
    let masks: &[Mask] = &[
        // Strictly causal: the first row is empty.
        |m, _, i, j| m.iota(j).lt(&m.iota(i)),
        // A window of a width that may be zero.
        |m, _, i, j| {
            let width = m.extent(&salient_ir::Dim::symbol("W"));
            let gap = &m.iota(i) - &m.iota(j);
            gap.lt(&width).and(&(&m.int(0) - &width).lt(&gap))
        },
        // Each keeps a key, together they keep none.
        |m, _, i, j| m.iota(j).le(&m.iota(i)).and(&m.iota(i).lt(&m.iota(j))),
        // Causal up to an offset of data, which may be negative.
        |m, _, i, j| {
            let offset = m.typed("offset", &[], DType::I64);
            m.iota(j).le(&(&m.iota(i) + &offset))
        },
        // Causal and padded by data.
        |m, b, i, j| m.iota(j).le(&m.iota(i)).and(&m.typed("pad", &[b, j], DType::Bool)),
    ];
    for (n, mask) in masks.iter().enumerate() {
        let g = by_hand_under(mask, "T");
        let text = optimised(&g);
        assert_eq!(line_with(&text, "fused.exp_attend").len(), 1, "mask {n}\n{text}");
        assert_same_values(&g, DIMS);
    }
}

/// Queries are the last T of S keys: row i sees keys up to i + S - T.
#[test]
fn an_offset_keeps_a_key_if_the_model_requires_enough_of_them() {
    let (t, s) = (salient_ir::Dim::symbol("T"), salient_ir::Dim::symbol("S"));
    let relation = Relation::AtMost(t.clone(), s.clone());
    for required in [false, true] {
        let g = by_hand_under(
            |m, _, i, j| {
                if required {
                    m.require(Requirement { relation: relation.clone(), message: None, origin: None });
                }
                let gap = m.extent(&(&s - &t));
                m.iota(j).le(&(&m.iota(i) + &gap))
            },
            "S",
        );
        let found = line_with(&optimised(&g), "fused.attend").len();
        assert_eq!(found, usize::from(required));
        assert_same_values(&g, DIMS);
    }
}

struct Heads {
    m: Model,
    b: AxisId,
    h: AxisId,
    i: AxisId,
    j: AxisId,
    e: AxisId,
    q: V,
    k: V,
    v: V,
}

fn heads() -> Heads {
    let m = Model::new();
    let [b, h, i, j, e] =
        [("b", "B"), ("h", "H"), ("i", "T"), ("j", "S"), ("e", "E")].map(|(n, x)| m.axis(n, x));
    let (q, k, v) = (m.input("q", &[b, h, i, e]), m.input("k", &[b, h, j, e]), m.input("v", &[b, h, j, e]));
    Heads { m, b, h, i, j, e, q, k, v }
}

/// A score as a function of the raw one: each variant is one streaming pass.
type Score = fn(&Heads, V) -> V;

const VARIANTS: &[(&str, Score)] = &[
    ("soft cap", |p, s| {
        let c = p.m.num(30.0);
        &(&s / &c).map(MapOp::Tanh) * &c
    }),
    ("soft cap, then a mask", |p, s| {
        let c = p.m.num(30.0);
        let capped = &c * &(&s / &c).map(MapOp::Tanh);
        let keep = p.m.iota(p.j).le(&p.m.iota(p.i));
        p.m.select(&keep, &capped, &minus_infinity(&p.m))
    }),
    ("ALiBi", |p, s| {
        let slope = p.m.input("slope", &[p.h]);
        let distance = &p.m.iota(p.i) - &p.m.iota(p.j);
        &s - &(&slope * &distance.f32())
    }),
    ("a bias and padding", |p, s| {
        let bias = p.m.input("bias", &[p.h, p.i, p.j]);
        let keep = p.m.typed("keep", &[p.b, p.j], DType::Bool);
        &p.m.select(&keep, &s, &minus_infinity(&p.m)) + &bias
    }),
    ("two masks, one inside the other", |p, s| {
        let keep = p.m.typed("keep", &[p.b, p.j], DType::Bool);
        let causal = p.m.iota(p.j).le(&p.m.iota(p.i));
        let inner = p.m.select(&causal, &s, &minus_infinity(&p.m));
        p.m.select(&keep, &inner, &minus_infinity(&p.m))
    }),
    ("a temperature for each head", |p, s| {
        let temperature = p.m.input("temperature", &[p.h]);
        &s * &temperature
    }),
];

#[test]
fn variants_are_one_operator() {
    for (name, score) in VARIANTS {
        let p = heads();
        let s = score(&p, (&p.q * &p.k).sum(p.e));
        let w = p.m.softmax(p.j, &s);
        p.m.output("y", &[p.b, p.h, p.i, p.e], &(&w * &p.v).sum(p.j));
        let g = p.m.finish();
        let text = optimised(&g);
        assert_eq!(line_with(&text, "fused.").len(), 1, "{name}\n{text}");
        assert!(text.contains("let y[b, h, t, e] = fused.attend["), "{name}\n{text}");
        assert_same_values(&g, DIMS);
    }
}

#[test]
fn nested_and_joined_masks_are_the_same() {
    let build = |nested: bool| {
        let p = heads();
        let s = (&p.q * &p.k).sum(p.e);
        let keep = p.m.typed("keep", &[p.b, p.j], DType::Bool);
        let causal = p.m.iota(p.j).le(&p.m.iota(p.i));
        let full = p.m.typed("full", &[p.i, p.j], DType::Bool);
        let no = minus_infinity(&p.m);
        let s = if nested {
            p.m.select(&full, &p.m.select(&keep, &p.m.select(&causal, &s, &no), &no), &no)
        } else {
            p.m.select(&causal.and(&keep.and(&full)), &s, &no)
        };
        let w = p.m.softmax(p.j, &s);
        p.m.output("y", &[p.b, p.h, p.i, p.e], &(&w * &p.v).sum(p.j));
        optimised(&p.m.finish())
    };
    assert_eq!(build(true), build(false));
}

#[test]
fn grouped_queries_read_their_own_head() {
    let m = Model::new();
    let [b, h, g, i, j, e] =
        [("b", "B"), ("h", "4"), ("g", "2"), ("i", "T"), ("j", "S"), ("e", "E")].map(|(n, x)| m.axis(n, x));
    let (q, k, v) = (m.input("q", &[b, h, i, e]), m.input("k", &[b, g, j, e]), m.input("v", &[b, g, j, e]));
    let group = m.map(MapOp::IntDiv, &[&m.iota(h), &m.int(2)]);
    let (k, v) = (k.at_index(g, &group), v.at_index(g, &group));
    let w = m.softmax(j, &(&q * &k).sum(e));
    m.output("y", &[b, h, i, e], &(&w * &v).sum(j));
    let graph = m.finish();
    assert_eq!(line_with(&optimised(&graph), "fused.attend").len(), 1);
    assert_same_values(&graph, DIMS);
}

#[test]
fn weights_that_are_returned_are_still_there() {
    let p = heads();
    let w = p.m.softmax(p.j, &(&p.q * &p.k).sum(p.e)).named("weights");
    p.m.output("weights", &[p.b, p.h, p.i, p.j], &w);
    p.m.output("y", &[p.b, p.h, p.i, p.e], &(&w * &p.v).sum(p.j));
    let g = p.m.finish();
    let text = optimised(&g);
    assert_eq!(text, optimised(&g));
    assert!(text.contains("let weights[b, h, t, s] = fused.softmax[s]("), "{text}");
    assert_same_values(&g, DIMS);
}

#[test]
fn differential_attention_is_two_passes() {
    let p = heads();
    let (q2, k2) = (p.m.input("q2", &[p.b, p.h, p.i, p.e]), p.m.input("k2", &[p.b, p.h, p.j, p.e]));
    let lambda = p.m.input("lambda", &[p.h]);
    let first = p.m.softmax(p.j, &(&p.q * &p.k).sum(p.e));
    let second = p.m.softmax(p.j, &(&q2 * &k2).sum(p.e));
    let w = &first - &(&lambda * &second);
    p.m.output("y", &[p.b, p.h, p.i, p.e], &(&w * &p.v).sum(p.j));
    let g = p.m.finish();
    let text = optimised(&g);
    assert_eq!(line_with(&text, "fused.attend").len(), 2, "{text}");
    assert_same_values(&g, DIMS);
}

#[test]
fn a_norm_that_is_read_twice_is_computed_once() {
    let m = Model::new();
    let (t, d, e) = (m.axis("t", "T"), m.axis("d", "D"), m.axis("e", "E"));
    let (i, j) = (m.axis("i", "T"), m.axis("j", "T"));
    let x = m.input("x", &[t, d]);
    let square = (&x * &x).sum(d);
    let x = &x / &(&square + &m.num(1e-5)).map(MapOp::Sqrt);
    // Keys and values are read at `j` before they are projected, queries after.
    let q = linear(&m, &x, d, "q", e).at(&[(t, i)]);
    let xj = x.at(&[(t, j)]);
    let (k, v) = (linear(&m, &xj, d, "k", e), linear(&m, &xj, d, "v", e));
    let w = m.softmax(j, &(&q * &k).sum(e));
    m.output("y", &[i, e], &(&w * &v).sum(j));
    let g = m.finish();
    let text = optimised(&g);
    assert_eq!(line_with(&text, "sqrt(").len(), 1, "{text}");
    assert_same_values(&g, DIMS);
}

#[test]
fn a_sum_of_unshifted_exponentials_never_replaces_a_shifted_one() {
    let p = heads();
    let s = (&p.q * &p.k).sum(p.e);
    let top = s.reduce(ReduceOp::Max, p.j);
    let e = (&s - &top).exp();
    let log_sum = &e.sum(p.j).map(MapOp::Log) + &top;
    p.m.output("log_sum_exp", &[p.b, p.h, p.i], &log_sum);
    p.m.output("y", &[p.b, p.h, p.i, p.e], &(&(&e / &e.sum(p.j)) * &p.v).sum(p.j));
    let g = p.m.finish();
    let text = optimised(&g);
    assert_eq!(line_with(&text, "fused.attend").len(), 1, "{text}");
    // The log-sum-exp has a stable form of its own; no exponential is left that is not shifted.
    assert_eq!(line_with(&text, "fused.log_sum_exp").len(), 1, "{text}");
    assert!(!text.contains("exp("), "{text}");
    assert_same_values(&g, DIMS);
}

#[test]
fn a_product_of_three_is_computed_in_the_cheaper_order() {
    // Of 64 features and many positions, keys times values come first; over 4 positions, scores do.
    for (positions, score_first) in [("4096", false), ("2", true)] {
        let mut texts = Vec::new();
        for left_first in [true, false] {
            let m = Model::new();
            let [i, j, e, f] =
                [("i", positions), ("j", positions), ("e", "8"), ("f", "8")].map(|(n, x)| m.axis(n, x));
            let (q, k, v) = (m.input("q", &[i, e]), m.input("k", &[j, e]), m.input("v", &[j, f]));
            let y =
                if left_first { (&(&q * &k).sum(e) * &v).sum(j) } else { (&q * &(&k * &v).sum(j)).sum(e) };
            m.output("y", &[i, f], &y);
            let g = m.finish();
            if score_first {
                assert_same_values(&g, &[]);
            }
            texts.push(optimised(&g));
        }
        assert_eq!(texts[0], texts[1]);
        let last = texts[0].lines().rfind(|l| l.contains("= sum[")).unwrap();
        let over_keys = last.contains(&format!("sum[n{positions}"));
        assert_eq!(over_keys, score_first, "{}", texts[0]);
    }
}

#[test]
fn a_sum_over_heads_and_features_is_one_sum() {
    let mut texts = Vec::new();
    for heads_first in [true, false] {
        let m = Model::new();
        let [t, h, e, d] = [("t", "T"), ("h", "H"), ("e", "E"), ("d", "D")].map(|(n, x)| m.axis(n, x));
        let (x, w) = (m.input("x", &[t, h, e]), m.param("w", &[h, e, d]));
        let (first, second) = if heads_first { (h, e) } else { (e, h) };
        m.output("y", &[t, d], &(&x * &w).sum(first).sum(second));
        let g = m.finish();
        texts.push(optimised(&g));
        assert_same_values(&g, DIMS);
    }
    assert_eq!(texts[0], texts[1]);
    assert_eq!(line_with(&texts[0], "= sum[").len(), 1, "{}", texts[0]);
}

#[test]
fn a_slope_times_a_distance_has_one_sign() {
    type Spelling = fn(&Model, &V, &V, &V, &V) -> V;
    let spellings: &[Spelling] = &[
        |_, s, slope, i, j| s - &(slope * &(i - j).f32()),
        |_, s, slope, i, j| s + &(slope * &(j - i).f32()),
        |m, s, slope, i, j| s + &(&(&(i - j).f32() * slope) * &m.num(-1.0)),
        |m, s, slope, i, j| s + &(&m.map(MapOp::Neg, &[slope]) * &(i - j).f32()),
    ];
    let texts: Vec<String> = spellings
        .iter()
        .map(|spelling| {
            let p = heads();
            let slope = p.m.input("slope", &[p.h]);
            let s = (&p.q * &p.k).sum(p.e);
            let s = spelling(&p.m, &s, &slope, &p.m.iota(p.i), &p.m.iota(p.j));
            let w = p.m.softmax(p.j, &s);
            p.m.output("y", &[p.b, p.h, p.i, p.e], &(&w * &p.v).sum(p.j));
            let g = p.m.finish();
            assert_same_values(&g, DIMS);
            optimised(&g)
        })
        .collect();
    texts.iter().for_each(|t| assert_eq!(*t, texts[0]));
}

#[test]
fn a_scale_by_a_quotient_of_dimensions_is_positive() {
    let m = Model::new();
    let width = salient_ir::Dim::symbol("D").exact_div(&salient_ir::Dim::symbol("H")).unwrap();
    let (i, j, e) = (m.axis("i", "T"), m.axis("j", "S"), m.axis_of("e", &width));
    let (q, k, v) = (m.input("q", &[i, e]), m.input("k", &[j, e]), m.input("v", &[j, e]));
    let w = m.exp_over_sum(j, &((&q * &k).sum(e) / m.sqrt_of(e)));
    m.output("y", &[i, e], &(&w * &v).sum(j));
    let g = m.finish();
    assert_eq!(line_with(&optimised(&g), "fused.attend").len(), 1);
    assert_same_values(&g, DIMS);
}
