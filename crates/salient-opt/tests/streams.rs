//! Sums under weights that no softmax makes, and weights that others read than a sum of values.

mod common;

use common::{Model, V, assert_same_values, optimised};
use salient_ir::{AxisId, Graph, MapOp, ReduceOp};
use salient_opt::{Fp, Options, optimise};

const DIMS: &[(&str, i64)] = &[("T", 5), ("S", 6), ("E", 4), ("F", 3)];

struct Parts {
    m: Model,
    i: AxisId,
    j: AxisId,
    f: AxisId,
    /// Products of queries and keys.
    s: V,
    v: V,
}

fn parts() -> Parts {
    let m = Model::new();
    let [i, j, e, f] = [("i", "T"), ("j", "S"), ("e", "E"), ("f", "F")].map(|(n, x)| m.axis(n, x));
    let (q, k, v) = (m.input("q", &[i, e]), m.input("k", &[j, e]), m.input("v", &[j, f]));
    Parts { i, j, f, s: (&q * &k).sum(e), v, m }
}

impl Parts {
    fn done(&self, context: &V) -> Graph {
        self.m.output("context", &[self.i, self.f], context);
        self.m.finish()
    }

    fn positive(&self) -> V {
        self.m.map(MapOp::Max, &[&self.s, &self.m.num(0.0)])
    }
}

#[test]
fn weights_of_scores_are_one_pass() {
    let p = parts();
    let g = p.done(&(&p.positive() * &p.v).sum(p.j));
    let text = optimised(&g);
    assert!(text.contains("fused.weighted_sum[s]("), "{text}");
    assert_same_values(&g, DIMS);
}

#[test]
fn weights_over_their_sum_are_one_pass() {
    let p = parts();
    let keep = p.m.iota(p.j).le(&p.m.iota(p.i));
    let w = p.m.select(&keep, &(&p.s * &p.s), &p.m.num(0.0));
    let g = p.done(&((&w * &p.v).sum(p.j) / w.sum(p.j)));
    let text = optimised(&g);
    assert!(text.contains("fused.weighted_mean[s]("), "{text}");
    assert_same_values(&g, DIMS);
}

/// Sums over keys do not depend on the query: they are made once.
#[test]
fn products_over_their_sum_are_products() {
    let p = parts();
    let g = p.done(&((&p.s * &p.v).sum(p.j) / p.s.sum(p.j)));
    let text = optimised(&g);
    assert!(!text.contains("fused."), "{text}");
    assert!(!text.contains("[i, j]") && !text.contains("[t, s]"), "{text}");
    assert_same_values(&g, DIMS);
}

/// Queries and keys are data: values that are parameters make no layer of this.
#[test]
fn learned_values_are_weighed_in_one_pass() {
    let p = parts();
    let learned = p.m.param("learned", &[p.j, p.f]);
    let g = p.done(&(&p.positive() * &learned).sum(p.j));
    let text = optimised(&g);
    assert!(text.contains("fused.weighted_sum[s]("), "{text}");
    assert_same_values(&g, DIMS);
}

/// `v` is a parameter: this is a layer with an activation, whose products have panels.
#[test]
fn a_layer_is_no_attention() {
    let m = Model::new();
    let [t, d, h, o] = [("t", "T"), ("d", "E"), ("h", "S"), ("o", "F")].map(|(n, x)| m.axis(n, x));
    let (x, w, u) = (m.input("x", &[t, d]), m.param("w", &[h, d]), m.param("u", &[h, o]));
    let hidden = m.map(MapOp::Max, &[&(&x * &w).sum(d), &m.num(0.0)]);
    m.output("y", &[t, o], &(&hidden * &u).sum(h));
    let text = optimised(&m.finish());
    assert!(!text.contains("fused."), "{text}");
}

/// Weights that are an output are stored anyway.
#[test]
fn what_is_stored_for_others_is_read() {
    let p = parts();
    let w = p.positive();
    p.m.output("weights", &[p.i, p.j], &w);
    let text = optimised(&p.done(&(&w * &p.v).sum(p.j)));
    assert!(!text.contains("fused."), "{text}");
}

/// Under a mask a pass reads what is stored, as no product of matrices leaves out what the mask hides.
#[test]
fn what_is_stored_for_others_is_read_by_a_pass_under_a_mask() {
    let p = parts();
    let w = p.positive();
    p.m.output("weights", &[p.i, p.j], &w);
    let keep = p.m.iota(p.j).le(&p.m.iota(p.i));
    let g = p.done(&p.m.select(&keep, &(&w * &p.v), &p.m.num(0.0)).sum(p.j));
    let text = optimised(&g);
    assert!(text.contains("fused.weighted_sum[s]("), "{text}");
    assert_same_values(&g, DIMS);
}

/// Zero by NaN stays what it is.
#[test]
fn exact_rules_alone_leave_sums_as_they_stand() {
    let p = parts();
    let g = p.done(&(&p.positive() * &p.v).sum(p.j));
    let strict = optimise(&g, &Options { fp: Fp::Strict, ..Options::default() }).graph;
    assert!(!salient_ir::text::print(&strict).contains("fused."));
}

#[test]
fn weights_summed_over_queries_need_no_matrix_of_them() {
    let p = parts();
    let w = p.m.softmax(p.j, &p.s);
    p.m.output("received", &[p.j], &w.sum(p.i));
    p.m.output("greatest", &[p.i], &p.s.reduce(ReduceOp::Max, p.j));
    let g = p.done(&(&w * &p.v).sum(p.j));
    let text = optimised(&g);
    assert!(text.contains("fused.attend[s](") && text.contains("fused.log_sum_exp[s]("), "{text}");
    assert!(!text.contains("fused.softmax"), "{text}");
    assert_same_values(&g, DIMS);
}

/// Values that differ from query to query, as scores do.
#[test]
fn a_sum_of_scores_under_their_weights_needs_no_matrix_of_them() {
    let p = parts();
    let w = p.m.softmax(p.j, &p.s);
    p.m.output("mean", &[p.i], &(&w * &p.s).sum(p.j));
    let g = p.done(&(&w * &p.v).sum(p.j));
    let text = optimised(&g);
    assert_eq!(text.matches("fused.attend").count(), 1, "{text}");
    assert!(!text.contains("fused.softmax"), "{text}");
    assert_same_values(&g, DIMS);
}
