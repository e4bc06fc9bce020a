//! Sizes and data for a program.

use crate::data::Values;
use crate::ways::Call;
use salient_ir::{Bindings, DType, Dim, Graph, Op};
use std::collections::BTreeSet;

/// What an input holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Numbers near one, small integers and truth values.
    Tame,
    /// The same with NaN, infinities, very great, very small and negative zeros among the numbers.
    Hostile,
}

/// `T`, `S` and `D`.
const SIZES: [[i64; 3]; 14] = [
    [3, 5, 4],
    [1, 1, 2],
    [17, 9, 6],
    [5, 33, 8],
    [34, 2, 2],
    [7, 3, 2],
    [2, 31, 4],
    [31, 17, 2],
    [67, 3, 4],
    [3, 67, 6],
    [5, 5, 4],
    [0, 5, 4],
    [5, 0, 4],
    [4, 3, 0],
];

/// About how many elements may be computed in a call.
const WORK: f64 = 300_000.0;

/// Numbers that are hard on a program.
const HARD: [f32; 18] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NEG_INFINITY,
    1e38,
    -1e38,
    3e38,
    1e20,
    -1e20,
    1e-20,
    1e-38,
    1e-40,
    -1e-42,
    -0.0,
    0.0,
    88.0,
    -104.0,
    1e9,
];

/// The sizes of a variant; where a program would be too much work with them, smaller ones.
pub fn sizes(graph: &Graph, variant: usize) -> Bindings {
    let sizes = of_program(SIZES[variant % SIZES.len()]);
    if work(graph, &sizes) < WORK { sizes } else { of_program(SIZES[variant % 2]) }
}

/// Those of a random program. What is held before the first call of a program with states is nothing; called by itself, it
/// holds two.
pub fn of_program([t, s, d]: [i64; 3]) -> Bindings {
    [("T".into(), t), ("S".into(), s), ("D".into(), d), ("R".into(), 2)].into()
}

/// Small sizes for any program, if some are found for which it can be called.
pub fn any_sizes(graph: &Graph, seed: u64) -> Option<Bindings> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let symbols: BTreeSet<_> = graph.axes().flat_map(|(_, a)| a.extent.dimensions()).collect();
    (0..20).find_map(|_| {
        let bindings: Bindings =
            symbols.iter().map(|s| (s.clone(), [1, 2, 3, 4, 6, 8][rng.usize(0..6)])).collect();
        let real = graph.axes().all(|(_, a)| a.extent.eval(&bindings).is_ok_and(|n| (0..4096).contains(&n)));
        let met = graph.requirements().iter().all(|r| r.check(&bindings).is_ok());
        (real && met && work(graph, &bindings) < WORK).then_some(bindings)
    })
}

/// Data of those sizes for a program. What an input holds depends on the seed and on its name alone.
pub fn call(graph: &Graph, seed: u64, sizes: &Bindings, data: Data) -> Call {
    let mut call = Call { dimensions: sizes.clone(), ..Call::default() };
    let positions = sizes.get("S").copied().unwrap_or(2).max(1) as i32;
    for (port, is_input) in
        graph.inputs().iter().map(|p| (p, true)).chain(graph.params().iter().map(|p| (p, false)))
    {
        let extent = |dim: Dim| dim.eval(&call.dimensions).expect("bound") as usize;
        let shape: Vec<usize> = graph.shape(&port.axes).into_iter().map(extent).collect();
        let key = format!("{seed}/{}", port.name);
        let values = match (port.dtype, &*port.name) {
            (DType::I64 | DType::I32, "counts") => Values::Ints(-2, 6),
            // Positions of `j`.
            (DType::I64 | DType::I32, _) => Values::Ints(0, positions),
            (DType::Bool, _) => Values::Bools(0.7),
            (DType::F32 | DType::F16 | DType::BF16, _) => Values::Floats(-1.5, 1.5),
        };
        let mut array = values.array(port.dtype, &shape, &key).expect("it fits");
        let mut rng = fastrand::Rng::with_seed(crate::data::hash(&key));
        if data == Data::Hostile && port.dtype == DType::F32 && rng.bool() {
            spoil(&mut array, &mut rng);
        }
        let to = if is_input { &mut call.inputs } else { &mut call.params };
        to.insert(&*port.name, array).expect("named once");
    }
    let symbols = graph.dimensions();
    call.dimensions.retain(|name, _| symbols.contains(name));
    call
}

/// Puts hard numbers here and there: one kind of them, or any.
fn spoil(array: &mut salient::Array, rng: &mut fastrand::Rng) {
    let one = HARD[rng.usize(0..HARD.len())];
    let any = rng.bool();
    let often = [2, 5, 20][rng.usize(0..3)];
    let Some(values) = array.as_f32_mut() else { return };
    for value in values {
        if rng.u8(0..often) == 0 {
            *value = if any { HARD[rng.usize(0..HARD.len())] } else { one };
        }
    }
}

/// About how many elements are computed.
pub fn work(graph: &Graph, bindings: &Bindings) -> f64 {
    let extent = |axis| graph.extent(axis).eval(bindings).map_or(1.0, |n| n.max(1) as f64);
    let of = |id| {
        let own: f64 = graph.node(id).axes.iter().map(extent).product();
        match graph.op(id) {
            Op::Reduce(_, axis) | Op::CumSum(_, axis) => own * extent(*axis),
            Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Iota(_)
            | Op::Extent(_)
            | Op::Map(_)
            | Op::At(_)
            | Op::Concat(..)
            | Op::Fused(..) => own,
        }
    };
    graph.ids().map(of).sum()
}
