//! Data for random graphs: ordinary numbers, and what is hostile.

use crate::facts::is_sentinel;
use salient_ir::array::Array;
use salient_ir::{Bindings, DType, Graph, MapOp, Op, Port};
use std::collections::BTreeMap;

/// A kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataKind {
    /// Numbers around one. With every other kind masks keep nothing of some row.
    Ordinary,
    /// The same, many of them zeros of either sign.
    Zeros,
    /// Factors of very different magnitudes, one for each tensor.
    Magnitudes,
    /// What is added to scores holds -inf, whole rows of it too.
    Masked,
    /// Indices that leave their axis.
    Outside,
    /// NaN and infinities anywhere.
    NotFinite,
}

impl DataKind {
    pub(super) const ALL: [DataKind; 6] = [
        DataKind::Ordinary,
        DataKind::Zeros,
        DataKind::Magnitudes,
        DataKind::Masked,
        DataKind::Outside,
        DataKind::NotFinite,
    ];
}

/// Lengths of the dimensions: nearly all different; one of everything; an empty one.
pub(super) const SIZES: [[(&str, i64); 5]; 6] = [
    [("T", 4), ("S", 6), ("D", 2), ("E", 3), ("V", 5)],
    [("T", 1), ("S", 1), ("D", 1), ("E", 1), ("V", 1)],
    [("T", 0), ("S", 2), ("D", 2), ("E", 3), ("V", 5)],
    [("T", 2), ("S", 0), ("D", 2), ("E", 3), ("V", 5)],
    [("T", 2), ("S", 3), ("D", 0), ("E", 1), ("V", 5)],
    [("T", 2), ("S", 3), ("D", 2), ("E", 0), ("V", 5)],
];

/// Inputs and parameters by name.
pub(super) struct Arrays {
    pub(super) inputs: BTreeMap<String, Array>,
    pub(super) params: BTreeMap<String, Array>,
}

/// Whether a graph has a literal that stands for -inf.
pub(super) fn has_sentinel(g: &Graph) -> bool {
    g.ids().any(|id| matches!(g.op(id), Op::Const(c) if is_sentinel(c.value())))
}

/// The powers of ten that tensors are multiplied by. An exponential makes a factor of what rounding is at the scale of a score, and
/// sentinels stand for -inf beside scores of some thousands.
fn reach(g: &Graph) -> i32 {
    let exponential = |op: &Op| matches!(op, Op::Map(MapOp::Exp) | Op::Fused(..));
    let has_exponential = g.ids().any(|id| exponential(g.op(id)));
    match (has_sentinel(g), has_exponential) {
        (true, _) => 0,
        (false, true) => 2,
        (false, false) => 9,
    }
}

/// Data of a kind for every port of a graph.
pub(super) fn arrays(g: &Graph, sizes: &Bindings, kind: DataKind, seed: u64) -> Arrays {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5a1e);
    let reach = if kind == DataKind::Magnitudes { reach(g) } else { 0 };
    let mut fill = |port: &Port| {
        let scale = 10f64.powi(rng.i32(-reach..=reach));
        (port.name.to_string(), array(g, port, sizes, (kind, scale), &mut rng))
    };
    Arrays {
        inputs: g.inputs().iter().map(&mut fill).collect(),
        params: g.params().iter().map(&mut fill).collect(),
    }
}

fn array(
    g: &Graph,
    port: &Port,
    sizes: &Bindings,
    (kind, scale): (DataKind, f64),
    rng: &mut fastrand::Rng,
) -> Array {
    let extent = |axis| g.extent(axis).eval(sizes).expect("every dimension has a size") as usize;
    let shape: Vec<usize> = port.axes.iter().map(|a| extent(*a)).collect();
    let count = shape.iter().product();
    let row = shape.last().copied().unwrap_or(1).max(1);
    let empty_row = rng.usize(0..count / row + 1);
    let mut value = |n: usize| match port.dtype {
        DType::Bool => {
            f64::from(u8::from(rng.bool() && !(kind != DataKind::Ordinary && n / row == empty_row)))
        }
        DType::I32 | DType::I64 if kind == DataKind::Outside && rng.u8(0..4) == 0 => 7.0,
        DType::I32 | DType::I64 => (rng.u8(0..5) as i64 % sizes["V"].max(1)) as f64,
        DType::F32 | DType::F16 | DType::BF16 => {
            let x = f64::from(rng.f32() * 4.0 - 2.0) * scale;
            let masks = kind == DataKind::Masked && *port.name == *"bias";
            match (kind, rng.u8(0..16)) {
                (DataKind::Zeros | DataKind::NotFinite, 0..3) => 0.0,
                (DataKind::Zeros | DataKind::NotFinite, 3..6) => -0.0,
                (DataKind::NotFinite, 6) => f64::NAN,
                (DataKind::NotFinite, 7) => f64::INFINITY,
                (DataKind::NotFinite, 8) => f64::NEG_INFINITY,
                (_, dice) if masks && (dice < 5 || n / row == empty_row) => f64::NEG_INFINITY,
                _ => x,
            }
        }
    };
    let values: Vec<f64> = (0..count).map(&mut value).collect();
    Array::from_f64(port.dtype, shape, &values).expect("as many values as positions")
}
