//! Axes without positions: a factor that is a number there leaves a sum, one that is not stays inside.

mod common;

use common::{Model, V, assert_same_values, optimised};
use salient_ir::{AxisId, Dim, Graph, MapOp, ReduceOp, Relation, Requirement};

struct Parts {
    m: Model,
    i: AxisId,
    j: AxisId,
    /// Over `i` and `j`.
    r: V,
}

/// `sum[j](r * v * c)`, where `j` is required to have so many positions.
fn program(factor: Factor, least: i64) -> Graph {
    let m = Model::new();
    let [i, j, f] = [("i", "T"), ("j", "S"), ("f", "F")].map(|(name, extent)| m.axis(name, extent));
    let (r, v) = (m.input("r", &[i, j]), m.input("v", &[j, f]));
    let p = Parts { m: m.clone(), i, j, r };
    let y = (&(&p.r * &v) * &factor(&p)).sum(j);
    m.output("y", &[i, f], &y);
    let relation = Relation::AtMost(Dim::constant(least), Dim::symbol("S"));
    m.require(Requirement { relation, message: None, origin: None });
    m.finish()
}

type Factor = fn(&Parts) -> V;

/// Infinite or NaN where `j` has no positions.
const OF_THE_AXIS: &[(&str, Factor)] = &[
    ("the greatest", |p| p.r.reduce(ReduceOp::Max, p.j)),
    ("the least", |p| p.r.reduce(ReduceOp::Min, p.j)),
    ("over a sum", |p| &p.m.num(1.0) / &(&p.r * &p.r).sum(p.j)),
    ("a logarithm", |p| p.r.exp().sum(p.j).map(MapOp::Log)),
    ("the root of a mean", |p| {
        let length = p.m.extent(&Dim::symbol("S")).f32();
        let mean = &(&p.r * &p.r).sum(p.j) / &length;
        &p.m.num(1.0) / &(&mean + &p.m.num(0.5)).map(MapOp::Sqrt)
    }),
];

/// A number however few positions `j` has.
const OF_OTHERS: &[(&str, Factor)] = &[
    ("an input", |p| p.m.input("c", &[p.i])),
    ("a sum", |p| p.r.sum(p.j)),
    ("over a sum and one", |p| &p.m.num(1.0) / &(&p.r.exp().sum(p.j) + &p.m.num(1.0))),
    ("over another length", |p| &p.m.input("c", &[p.i]) / &p.m.sqrt_of(p.m.axis("e", "E"))),
    // Where there is a result, `T` is not zero.
    ("the greatest of rows", |p| {
        p.m.input("c", &[p.m.axis("t", "T")]).reduce(ReduceOp::Max, p.m.axis("t", "T"))
    }),
];

/// Whether the factor stands outside of the sum that `y` is made of.
fn leaves(g: &Graph) -> bool {
    let out = salient_opt::optimise(g, &salient_opt::Options::default());
    let rules = out.report.rules;
    rules.iter().any(|(name, _)| *name == "sums/factor-of-product")
}

#[test]
fn a_factor_that_is_no_number_without_terms_stays_in_its_sum() {
    for (name, factor) in OF_THE_AXIS {
        let (may_be_empty, filled) = (program(*factor, 0), program(*factor, 1));
        assert!(!leaves(&may_be_empty), "{name}: {}", optimised(&may_be_empty));
        assert!(leaves(&filled), "{name}: {}", optimised(&filled));
        assert_same_values(&may_be_empty, &[("T", 3), ("S", 0), ("F", 2), ("E", 2)]);
        assert_same_values(&may_be_empty, &[("T", 3), ("S", 4), ("F", 2), ("E", 2)]);
        assert_same_values(&filled, &[("T", 3), ("S", 4), ("F", 2), ("E", 2)]);
    }
}

#[test]
fn a_factor_that_is_a_number_leaves_a_sum_that_may_have_no_terms() {
    for (name, factor) in OF_OTHERS {
        let g = program(*factor, 0);
        assert!(leaves(&g), "{name}: {}", optimised(&g));
        for keys in [0, 4] {
            assert_same_values(&g, &[("T", 3), ("S", keys), ("F", 2), ("E", 2)]);
        }
    }
}

/// The order of a product of three is free only where what moves is a number without the axis that it leaves.
#[test]
fn a_product_of_three_is_not_grouped_anew_around_the_greatest_of_no_keys() {
    let m = Model::new();
    let [i, j, e, f] =
        [("i", "T"), ("j", "S"), ("e", "E"), ("f", "F")].map(|(name, extent)| m.axis(name, extent));
    let (x, k, v) = (m.input("x", &[i, j, e]), m.input("k", &[j, e]), m.input("v", &[j, f]));
    let q = x.reduce(ReduceOp::Max, j);
    let y = (&(&q * &k).sum(e) * &v).sum(j);
    m.output("y", &[i, f], &y);
    let g = m.finish();
    for keys in [0, 3] {
        assert_same_values(&g, &[("T", 5), ("S", keys), ("E", 2), ("F", 2)]);
    }
}
