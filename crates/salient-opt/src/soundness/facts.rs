//! What the analysis says must be true: facts of values on hostile data, witnesses of masks at every position.

use super::trials::{OPEN, TrialData, both_sides, dims, dims_with_a_zero, hostile, instantiate, trials};
use crate::egraph::normalise::insert;
use crate::facts::{Classes, Known, Property};
use crate::options::Fp;
use crate::rules::{Guard, Rule, RuleRow, all_rules};
use salient_ir::eval::{Data, Oracle};
use salient_ir::{AxisId, AxisSet, Bindings, Builder, Const, Dim, Graph, MapOp, NodeId, Op};
use std::collections::BTreeMap;

/// What the analysis says of the values of a graph must be true of them on hostile data.
fn check_facts(graph: &Graph) {
    let mut classes = Classes::new(Known::of(graph));
    let ids = insert(graph, &mut classes, Fp::Default, &[]);
    classes.rebuild();
    let (known, params) = (&classes.analysis, BTreeMap::new());
    // A sink that depends on the axis is none, and has no value where that has no positions.
    let is_sink_of_none = |id: NodeId| {
        let Op::Fused(op, axis) = *graph.op(id) else { return false };
        op.info().sink && graph.args(id).last().is_some_and(|r| graph.node(*r).axes.contains(axis))
    };
    let zeros = dims_with_a_zero().filter(|_| !graph.ids().any(is_sink_of_none));
    let sizes = (0..4).map(|seed| (dims(), seed)).chain(zeros.map(|dims| (dims, 0)));
    for (dims, seed) in sizes {
        let inputs = hostile(graph, &dims, seed, false);
        // Of others it is assumed that they are numbers.
        let numbers = graph.inputs().iter().all(|i| !i.name.starts_with(OPEN));
        let data = Data { inputs: &inputs, params: &params };
        let oracle = Oracle::new(graph, &dims, data).unwrap();
        for id in graph.ids() {
            let facts = &classes[ids[id.index()]].data;
            let axes: Vec<AxisId> = graph.node(id).axes.iter().collect();
            let free: AxisSet = axes.iter().copied().collect();
            assert!(facts.axes.is_subset(&free));
            let values = oracle.tensor(id, &axes);
            assert!(!facts.is_total() || values.is_ok(), "an index leaves its axis");
            for x in values.into_iter().flatten().filter(|_| numbers) {
                let holds = |p: Property, so: bool| {
                    assert!(!known.is_known_at(facts.has(p), &dims) || so, "{p:?} of {x} at {dims:?}");
                };
                holds(Property::Finite, x.is_finite());
                holds(Property::Score, x.is_finite() || x == f64::NEG_INFINITY);
                holds(Property::Number, !x.is_nan());
                holds(Property::Unmasked, x != f64::NEG_INFINITY);
                holds(Property::NonNegative, x >= 0.0);
                holds(Property::Positive, x > 0.0);
                holds(Property::Unit, x == 0.0 || x == 1.0);
                if let Some(c) = facts.constant {
                    assert!(c.value() == x || (c.value() - x).abs() <= 1e-6 * x.abs(), "{c:?} of {x}");
                }
            }
        }
    }
}

#[test]
fn facts_are_true_of_values() {
    // Exponentials of scores that a factor moves apart underflow, which facts may ignore.
    let underflows = |row: &&RuleRow| row.when.iter().any(|guard| matches!(guard, Guard::Rounded(_)));
    for row in all_rules().filter(|row| !underflows(row)) {
        for trial in trials(row) {
            // So does the exponential of a sentinel.
            if trial.iter().any(|variable| variable.form == TrialData::Literal(-2e4)) {
                continue;
            }
            let Some(mut instance) = instantiate(&trial) else { continue };
            if let Ok(Some(graph)) = both_sides(&mut instance, &Rule::new(row))
                && graph.len() % 3 == 0
            {
                check_facts(&graph);
            }
        }
    }
}

/// A mask over `i` and `j` for the test of witnesses.
type Mask = fn(&mut Builder, NodeId, NodeId, NodeId) -> NodeId;

const MASKS: &[Mask] = &[
    |b, i, j, _| b.map(MapOp::Le, &[j, i]).unwrap(),
    |b, i, j, _| b.map(MapOp::Lt, &[j, i]).unwrap(),
    |b, i, j, _| b.map(MapOp::Eq, &[i, j]).unwrap(),
    |b, i, j, _| b.map(MapOp::Ne, &[i, j]).unwrap(),
    |b, i, j, n| {
        let shifted = b.map(MapOp::Add, &[i, n]).unwrap();
        b.map(MapOp::Le, &[j, shifted]).unwrap()
    },
    |b, i, j, n| {
        let gap = b.map(MapOp::Sub, &[i, j]).unwrap();
        let near = b.map(MapOp::Lt, &[gap, n]).unwrap();
        let past = b.map(MapOp::Le, &[j, i]).unwrap();
        b.map(MapOp::And, &[near, past]).unwrap()
    },
    |b, i, j, _| {
        let two = b.constant(Const::I64(2));
        let twice = b.map(MapOp::Mul, &[j, two]).unwrap();
        let le = b.map(MapOp::Le, &[twice, i]).unwrap();
        b.map(MapOp::Not, &[le]).unwrap()
    },
    |b, i, j, _| {
        let three = b.constant(Const::I64(3));
        let first = b.map(MapOp::Lt, &[j, three]).unwrap();
        let past = b.map(MapOp::Le, &[j, i]).unwrap();
        b.map(MapOp::Or, &[first, past]).unwrap()
    },
];

#[test]
fn witnesses_are_true_positions() {
    use crate::facts::witness::{Places, Position};
    // The extents of `i` and `j`, and a number for the mask.
    for (rows, keys) in [(3, 3), (2, 5), (5, 2), (1, 1)] {
        for number in [-1, 0, 2] {
            for mask in MASKS {
                let mut b = Builder::new("mask");
                let (ai, aj) = (b.axis_id("i", &Dim::constant(rows)), b.axis_id("j", &Dim::constant(keys)));
                let (i, j, n) = (b.iota(ai), b.iota(aj), b.constant(Const::I64(number)));
                let m = mask(&mut b, i, j, n);
                b.output("m", &[ai, aj], m).unwrap();
                let g = b.finish();
                let mut classes = Classes::new(Known::of(&g));
                let ids = insert(&g, &mut classes, Fp::Default, &[]);
                classes.rebuild();
                let out = &g.outputs()[0];
                let facts = &classes[ids[out.node.index()]].data;
                let (none, dims) = (BTreeMap::new(), Bindings::new());
                let oracle = Oracle::new(&g, &dims, Data { inputs: &none, params: &none }).unwrap();
                let values = oracle.tensor(out.node, &out.axes).unwrap();
                let value = |at: &[(AxisId, i64); 2]| {
                    let of = |a: AxisId| at.iter().find(|(b, _)| *b == a).expect("both axes").1;
                    values[(of(ai) * keys + of(aj)) as usize]
                };
                for (list, truth) in [(&facts.true_at, 1.0), (&facts.false_at, 0.0)] {
                    let Places::At(list) = list.places() else {
                        assert!(values.iter().all(|v| *v == truth));
                        continue;
                    };
                    for (axis, position) in list {
                        let (other, count) = if *axis == aj { (ai, rows) } else { (aj, keys) };
                        let extent = rows + keys - count;
                        for at in 0..count {
                            let here = match position {
                                Position::First => 0,
                                Position::Last => extent - 1,
                                Position::Along(_) => at,
                                Position::FromEnd(_) => extent - count + at,
                            };
                            assert!((0..extent).contains(&here));
                            assert_eq!(value(&[(*axis, here), (other, at)]), truth);
                        }
                    }
                }
            }
        }
    }
}

/// Indices into an axis of the extent T: which are proved to stay inside of it.
#[test]
fn indices_that_stay_within_their_axis_are_proved_to() {
    // The extent of the index's own axis, what is made of it, and whether it is a position of an axis of `n` elements.
    type Make = fn(&mut Builder, NodeId, NodeId) -> NodeId;
    let cases: &[(i64, i64, Make, bool)] = &[
        (3, 3, |_, i, _| i, true),
        (3, 2, |_, i, _| i, false),
        (3, 4, |b, i, one| b.map(MapOp::Add, &[i, one]).unwrap(), true),
        (3, 3, |b, i, one| b.map(MapOp::Add, &[i, one]).unwrap(), false),
        (3, 3, |b, i, one| b.map(MapOp::Sub, &[i, one]).unwrap(), false),
        (
            6,
            3,
            |b, i, one| {
                let two = b.map(MapOp::Add, &[one, one]).unwrap();
                b.map(MapOp::IntDiv, &[i, two]).unwrap()
            },
            true,
        ),
        (
            7,
            3,
            |b, i, one| {
                let two = b.map(MapOp::Add, &[one, one]).unwrap();
                b.map(MapOp::IntDiv, &[i, two]).unwrap()
            },
            false,
        ),
        (
            9,
            2,
            |b, i, one| {
                let two = b.map(MapOp::Add, &[one, one]).unwrap();
                b.map(MapOp::Mod, &[i, two]).unwrap()
            },
            true,
        ),
        (
            9,
            1,
            |b, i, one| {
                let two = b.map(MapOp::Add, &[one, one]).unwrap();
                b.map(MapOp::Mod, &[i, two]).unwrap()
            },
            false,
        ),
        (9, 2, |b, i, one| b.map(MapOp::Min, &[i, one]).unwrap(), true),
        (
            9,
            9,
            |b, i, one| {
                let back = b.map(MapOp::Sub, &[i, one]).unwrap();
                let zero = b.map(MapOp::Sub, &[one, one]).unwrap();
                b.map(MapOp::Max, &[back, zero]).unwrap()
            },
            true,
        ),
    ];
    for (n, (own, extent, make, inside)) in cases.iter().enumerate() {
        let mut b = Builder::new("m");
        let (i, j) = (b.axis_id("i", &Dim::constant(*own)), b.axis_id("j", &Dim::constant(*extent)));
        let x = b.input("x", &[j], salient_ir::DType::F32, None);
        let (at, one) = (b.iota(i), b.constant(Const::I64(1)));
        let index = make(&mut b, at, one);
        let y = b.at(x, j, index).unwrap();
        let axes: Vec<AxisId> = b.node(y).axes.iter().collect();
        b.output("y", &axes, y).unwrap();
        let g = b.finish();
        let mut classes = Classes::new(Known::of(&g));
        let ids = insert(&g, &mut classes, Fp::Default, &[]);
        classes.rebuild();
        assert_eq!(classes[ids[g.outputs()[0].node.index()]].data.is_total(), *inside, "case {n}");
    }
}
