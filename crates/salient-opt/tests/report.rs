//! What the report says, and what the options do.

mod common;

use common::Model;
use salient_ir::{AxisId, DType, FusedOp, Graph, Name, Op};
use salient_opt::{Fp, Options, Stop, optimise};

/// Attention by hand over a mask of data or over a causal one.
fn by_hand(causal: bool, name: &str) -> Graph {
    let m = Model::new();
    let [i, j, e] = [("i", "T"), ("j", "T"), ("e", "E")].map(|(n, x)| m.axis(n, x));
    let (q, k, v) = (m.input("q", &[i, e]), m.input("k", &[j, e]), m.input("v", &[j, e]));
    let keep = if causal { m.iota(j).le(&m.iota(i)) } else { m.typed("keep", &[i, j], DType::Bool) };
    let s = m.select(&keep, &(&q * &k).sum(e), &m.num(f32::NEG_INFINITY));
    let w = m.exp_over_sum(j, &s);
    m.output("y", &[i, e], &(&w * &v).sum(j).named(name));
    m.finish()
}

#[test]
fn a_certificate_names_the_rules_that_fused() {
    let report = optimise(&by_hand(true, "context"), &Options::default()).report;
    let [certificate] = report.certificates.as_slice() else { panic!("{report:?}") };
    assert_eq!(certificate.op, FusedOp::Attend);
    assert_eq!(certificate.name, Some(Name::from("context")));
    let expected = ["softmax/norm", "softmax/exp-norm", "softmax/row-keeps-a-key", "attention/attend"];
    for rule in expected {
        assert!(certificate.rules.contains(&rule), "{rule} in {:?}", certificate.rules);
    }
    assert_eq!(certificate.not_proved, []);
    assert_eq!(report.stop, Stop::Saturated);
}

#[test]
fn a_certificate_says_which_condition_was_not_proved() {
    let report = optimise(&by_hand(false, "context"), &Options::default()).report;
    let [certificate] = report.certificates.as_slice() else { panic!("{report:?}") };
    assert_eq!(certificate.op, FusedOp::ExpAttend);
    let expected = ("attention/row-keeps-a-key", "every row of ?s along @j keeps a key".to_owned());
    assert!(certificate.not_proved.contains(&expected), "{:?}", certificate.not_proved);
}

/// A weight that may be infinite: nothing says that `exp(1 / x)` is a score of a softmax.
#[test]
fn a_region_that_stays_apart_says_why() {
    let m = Model::new();
    let (j, f) = (m.axis("j", "S"), m.axis("f", "F"));
    let (x, v) = (m.input("x", &[j]), m.input("v", &[j, f]));
    let e = x.map(salient_ir::MapOp::Recip).exp();
    let w = &e / &e.sum(j);
    m.output("y", &[f], &(&w * &v).sum(j).named("pooled"));
    let out = optimise(&m.finish(), &Options::default());
    let fused = out.graph.ids().filter(|id| matches!(out.graph.op(*id), Op::Fused(FusedOp::Attend, _)));
    assert_eq!(fused.count(), 0);
    let text = salient_ir::text::print(&out.graph);
    let [miss] = out.report.misses.as_slice() else { panic!("{:?}\n{text}", out.report) };
    assert_eq!(miss.name, Some(Name::from("pooled")));
    let expected = ("softmax/exp-norm", "?s is finite or -inf".to_owned());
    assert!(miss.not_proved.contains(&expected), "{:?}", miss.not_proved);
}

#[test]
fn strict_floats_keep_what_is_written() {
    let g = by_hand(true, "context");
    let out = optimise(&g, &Options { fp: Fp::Strict, ..Options::default() });
    let text = salient_ir::text::print(&out.graph);
    assert!(!text.contains("fused."), "{text}");
    assert!(text.contains(" / "), "{text}");
    assert!(out.report.rules.iter().all(|(name, _)| !name.starts_with("attention/")));
}

#[test]
fn limits_are_met_and_said() {
    let g = by_hand(true, "context");
    let few = optimise(&g, &Options { iteration_limit: 1, ..Options::default() });
    assert_eq!(few.report.stop, Stop::Iterations);
    let small = optimise(&g, &Options { node_limit: 10, ..Options::default() });
    assert_eq!(small.report.stop, Stop::Nodes);
    for out in [few, small] {
        assert_eq!(salient_ir::verify::verify(&out.graph), Vec::<String>::new());
    }
}

#[test]
fn the_same_graph_gives_the_same_text() {
    let first = common::optimised(&by_hand(true, "context"));
    for _ in 0..5 {
        assert_eq!(common::optimised(&by_hand(true, "context")), first);
    }
}

#[test]
fn optimising_twice_changes_nothing() {
    for causal in [true, false] {
        let once = optimise(&by_hand(causal, "context"), &Options::default()).graph;
        let text = salient_ir::text::print(&once);
        assert_eq!(common::optimised(&once), text);
    }
}

/// Parameters with initialisers and requirements are the model's interface: they stay.
#[test]
fn the_interface_of_a_model_stays() {
    let g = by_hand(false, "context");
    let out = optimise(&g, &Options::default()).graph;
    let shape = |g: &Graph, axes: &[AxisId]| g.shape(axes).iter().map(|d| d.to_string()).collect::<Vec<_>>();
    assert_eq!(g.name(), out.name());
    for (a, b) in g.inputs().iter().zip(out.inputs()) {
        assert_eq!((&a.name, a.dtype, shape(&g, &a.axes)), (&b.name, b.dtype, shape(&out, &b.axes)));
    }
    for (a, b) in g.outputs().iter().zip(out.outputs()) {
        assert_eq!((&a.name, shape(&g, &a.axes)), (&b.name, shape(&out, &b.axes)));
    }
}
