//! The facts about what runs along an axis: reductions and fused operators.

use super::witness::Witnesses;
use super::{Facts, Properties, Property};
use crate::options::Fp;
use salient_ir::op::RowWeights;
use salient_ir::{AxisId, AxisSet, DType, FusedOp, ReduceOp};

/// A reduction along an axis.
pub(super) fn reduce(fp: Fp, op: ReduceOp, axis: AxisId, x: &Facts) -> Facts {
    use Property::{Finite, NonNegative, Number, Positive, Score, Unit, Unmasked};
    let mut axes = x.axes.clone();
    axes.remove(axis);
    let dtype = if op == ReduceOp::ArgMax { DType::I64 } else { x.dtype };
    let mut f = Facts::new(dtype, axes);
    let has = |p: Property| x.properties.has(p);
    let none = Properties::default();
    match op {
        ReduceOp::Sum if dtype == DType::F32 && fp == Fp::Strict => {
            f.properties = x.properties.and(Properties::of(&[NonNegative]));
        }
        ReduceOp::Sum if dtype == DType::F32 => {
            // One addend above zero and none below: the sum is above zero.
            let positive = has(NonNegative) && x.positive_at.any_along(axis);
            f.properties = none
                .with_if(has(Finite), Finite)
                .with_if(has(Finite), Unmasked)
                .with_if(has(Score), Score)
                .with_if(has(Score), Number)
                .with_if(has(NonNegative), NonNegative)
                .with_if(positive, Positive);
            f.finite_at = Witnesses::everywhere_if(has(Finite));
        }
        ReduceOp::Max if dtype == DType::F32 => {
            f.properties = x
                .properties
                .and(Properties::of(&[Finite, NonNegative, Number, Positive, Unit, Unmasked]))
                .with_if(has(Score) && x.finite_at.any_along(axis), Finite)
                .with_if(x.finite_at.any_along(axis), Unmasked);
            f.finite_at = x.finite_at.without(axis);
        }
        ReduceOp::Min if dtype == DType::F32 => {
            f.properties = x.properties;
        }
        ReduceOp::Any => {
            if x.true_at.any_along(axis) {
                f.true_at = Witnesses::Everywhere;
            } else {
                f.true_at = x.true_at.without(axis);
            }
        }
        ReduceOp::All => {
            if x.false_at.any_along(axis) {
                f.false_at = Witnesses::Everywhere;
            }
            f.true_at = Witnesses::everywhere_if(x.true_at == Witnesses::Everywhere);
        }
        ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax => {}
    }
    f
}

/// A fused operator along an axis.
pub(super) fn fused(op: FusedOp, axis: AxisId, args: &[&Facts]) -> Facts {
    use Property::{Finite, NonNegative, Positive, Score, Unmasked};
    let mut axes = args.iter().fold(AxisSet::new(), |s, a| s.union(&a.axes));
    if op.info().reduces {
        axes.remove(axis);
    } else {
        axes.insert(axis);
    }
    let mut f = Facts::new(DType::F32, axes);
    let (info, s) = (op.info(), args[0]);
    let keeps_a_key = s.has(Score) && s.finite_at.any_along(axis);
    let total = s.has(Finite) && s.has(NonNegative) && s.positive_at.any_along(axis);
    let none = Properties::default();
    // Whether the weights are finite numbers, and whether they are then not negative.
    let (defined, signed) = match info.weights {
        RowWeights::Unnormalised => (s.has(Finite), s.has(NonNegative)),
        RowWeights::Share => (total, true),
        RowWeights::Softmax if info.sink => (s.has(Score) && args[args.len() - 1].has(Finite), true),
        RowWeights::Softmax => (s.has(Score), true),
        RowWeights::ExpNorm => (keeps_a_key, true),
        RowWeights::LogSumExp => {
            f.properties =
                none.with_if(s.has(Score), Score).with_if(keeps_a_key, Finite).with_if(keeps_a_key, Unmasked);
            return f;
        }
    };
    if info.has_values() {
        // A sum of products.
        let (v, finite) = (args[1], defined && args[1].has(Finite));
        f.properties = none
            .with_if(finite, Finite)
            .with_if(finite && signed && v.has(NonNegative), NonNegative)
            .with_if(finite, Unmasked)
            .with_if(finite, Property::Number);
        return f;
    }
    let (positive, kept) = if info.weights == RowWeights::Share {
        (s.has(Finite) && s.has(Positive), total.then_some(&s.positive_at))
    } else {
        let kept = if info.sink { defined } else { keeps_a_key };
        (defined && s.has(Finite) && s.has(Unmasked), kept.then_some(&s.finite_at))
    };
    f.properties =
        none.with_if(defined, Finite).with_if(defined && signed, NonNegative).with_if(positive, Positive);
    f.positive_at = kept.cloned().unwrap_or_else(Witnesses::nowhere);
    f
}
