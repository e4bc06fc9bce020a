//! Accuracy as a property of rules: both sides in f32, over magnitudes that reach from one end of the range of floats to
//! the other, and far from zero.

use super::single::Single;
use super::trials::{Trial, TrialData, dims, hostile};
use crate::rules::{Guard, Holds, RuleRow, declared};
use salient_ir::array::Array;
use salient_ir::eval::{Data, Oracle};
use salient_ir::{DType, Graph};
use std::collections::BTreeMap;

/// Whether all variables of a trial have numbers of every magnitude, over the axes that they are declared with: accuracy
/// is compared on those.
pub(super) fn is_ordinary(row: &RuleRow, trial: &Trial) -> bool {
    let declares = |name: &str, own: &[&str]| {
        row.vars.iter().any(|(known, text)| *known == name && declared(text).1 == own)
    };
    trial.iter().all(|variable| has_magnitudes(variable.form) && declares(variable.name, &variable.axes))
}

fn has_magnitudes(form: TrialData) -> bool {
    match form {
        TrialData::Plain
        | TrialData::Summed
        | TrialData::Masked
        | TrialData::SummedMasked
        | TrialData::Causal
        | TrialData::Positive
        | TrialData::NonNegative => true,
        TrialData::Literal(_) | TrialData::Always(_) | TrialData::Index => true,
        TrialData::NotFinite
        | TrialData::Infinite
        | TrialData::Open
        | TrialData::Outside
        | TrialData::Within
        | TrialData::Over(..) => false,
    }
}

/// What inputs are multiplied by, and what is added: the range of floats with little to spare, and numbers far from zero.
const MAGNITUDES: &[(f64, f64)] = &[
    (1.0, 0.0),
    (1e-30, 0.0),
    (1e-39, 0.0),
    (1e-10, 0.0),
    (1e4, 0.0),
    (1e10, 0.0),
    (1e30, 0.0),
    (3e38, 0.0),
    (1.0, 1e6),
    (0.0, -1e9),
];

/// The same for factors: as far from one as the contract says.
const FACTORS: &[(f64, f64)] = &[(1.0, 0.0), (1e-9, 0.0), (1e9, 0.0), (1.0, 1e6)];

/// What the inputs of a graph are multiplied by and what is added: one list element for each, by the turn.
fn sizes(row: &RuleRow, graph: &Graph, turn: usize) -> Vec<(f64, f64)> {
    let bound = row.when.iter().any(|guard| matches!(guard, Guard::Factor(_)));
    let list = if bound { FACTORS } else { MAGNITUDES };
    // At first all are of one size, then each of its own.
    let mut rng = fastrand::Rng::with_seed(turn as u64);
    let mut size = || if turn < list.len() { turn } else { rng.usize(0..list.len()) };
    graph.inputs().iter().map(|_| list[size()]).collect()
}

/// Values of the given sizes for every input; exponents are between -1 and 1.
fn sized(graph: &Graph, sizes: &[(f64, f64)], seed: u64) -> BTreeMap<String, Array> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut inputs = hostile(graph, &dims(), 0, false);
    for (port, (times, plus)) in graph.inputs().iter().zip(sizes) {
        let array = inputs.get_mut(&*port.name).expect("every input has values");
        if array.dtype() == DType::F32 {
            let (times, plus) = if port.name.starts_with("log_") { (1.0, 0.0) } else { (*times, *plus) };
            let values: Vec<f64> =
                array.to_f64_vec().iter().map(|_| f64::from(rng.f32() * 2.0 - 1.0) * times + plus).collect();
            *array = Array::from_f64(DType::F32, array.shape().to_vec(), &values).unwrap();
        }
    }
    inputs
}

/// Errors that a rule may add, in steps of f32 at the scale of the row.
const STEPS: f64 = 16.0;
/// Values of the same sizes that are tried: the left side may be lucky with some.
const DRAWS: u64 = 3;

/// Both sides in f32, at every size.
pub(super) fn compare(row: &RuleRow, graph: &Graph) -> Result<(), String> {
    (0..MAGNITUDES.len() * 2).try_for_each(|turn| compare_at(row, graph, turn))
}

/// Both sides in f32, against f64: the right one must be no worse than the left one is at that size, but for a few steps,
/// and finite where the left one is. What is true is what either side gives in f64, which may cancel too.
fn compare_at(row: &RuleRow, graph: &Graph, turn: usize) -> Result<(), String> {
    let (sizes, dims, params) = (sizes(row, graph, turn), dims(), BTreeMap::new());
    let out = &graph.outputs()[0];
    let mut draws = Vec::new();
    for draw in 0..DRAWS {
        let inputs = sized(graph, &sizes, turn as u64 * DRAWS + draw);
        let oracle = Oracle::new(graph, &dims, Data { inputs: &inputs, params: &params }).unwrap();
        let truth = |n: usize| oracle.tensor(graph.outputs()[n].node, &out.axes);
        let (Ok(first), Ok(second)) = (truth(0), truth(1)) else { return Ok(()) };
        let single = Single::new(graph, &dims, &inputs);
        draws.extend(first.into_iter().zip(second).zip(single.output(0)).zip(single.output(1)));
    }
    // The scale is that of all rows of these sizes: in one of them what is summed may cancel. Below the normal numbers
    // steps are all of one length.
    let truths = draws.iter().flat_map(|(((t, u), _), _)| [*t, *u]).filter(|x| x.is_finite());
    let scale = truths.fold(f64::from(f32::MIN_POSITIVE), |m, x| m.max(x.abs()));
    let off = |found: f64, truth: f64| (found - truth).abs() / scale;
    let (mut usual, mut found) = (0.0f64, Vec::new());
    for (((t, u), l), r) in draws {
        if l.is_finite() && t.is_finite() {
            usual = usual.max(off(l, t));
            found.push((off(r, t).min(off(r, u)), format!("in f32 {l} became {r}, in truth {t}")));
        } else if l == f64::NEG_INFINITY && t == l {
            let kept = r == l || row.holds == Holds::Refining && r.is_finite();
            found.push((if kept { 0.0 } else { f64::NAN }, format!("in f32 {l} became {r}")));
        }
    }
    let allowed = 4.0 * usual + STEPS * f64::from(f32::EPSILON);
    let worse = found.into_iter().find(|(off, _)| off.is_nan() || *off > allowed);
    worse.map_or(Ok(()), |(_, what)| Err(format!("{what}; the sizes are {sizes:?}")))
}
