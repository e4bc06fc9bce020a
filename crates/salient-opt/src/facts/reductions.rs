//! The facts about what runs along an axis: reductions and fused operators.

use super::witness::Witnesses;
use super::{Facts, Properties, Property};
use crate::options::Fp;
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
    let s = args[0];
    let keeps_a_key = s.has(Score) && s.finite_at.any_along(axis);
    let none = Properties::default();
    match op {
        FusedOp::Norm => {
            let total = s.has(NonNegative) && s.positive_at.any_along(axis);
            f.properties = none
                .with_if(s.has(Finite) && total, Finite)
                .with_if(s.has(Finite) && total, NonNegative)
                .with_if(s.has(Finite) && s.has(Positive), Positive);
            f.positive_at = if s.has(Finite) && total { s.positive_at.clone() } else { Witnesses::nowhere() };
        }
        FusedOp::Softmax | FusedOp::ExpNorm => {
            let defined = if op == FusedOp::Softmax { s.has(Score) } else { keeps_a_key };
            f.properties = none
                .with_if(defined, Finite)
                .with_if(defined, NonNegative)
                .with_if(defined && s.has(Finite) && s.has(Unmasked), Positive);
            f.positive_at = if keeps_a_key { s.finite_at.clone() } else { Witnesses::nowhere() };
        }
        FusedOp::LogSumExp => {
            f.properties =
                none.with_if(s.has(Score), Score).with_if(keeps_a_key, Finite).with_if(keeps_a_key, Unmasked);
        }
        FusedOp::SinkSoftmax => {
            let defined = s.has(Score) && args[1].has(Finite);
            f.properties = none
                .with_if(defined, Finite)
                .with_if(defined, NonNegative)
                .with_if(defined && s.has(Finite) && s.has(Unmasked), Positive);
            f.positive_at = if defined { s.finite_at.clone() } else { Witnesses::nowhere() };
        }
        FusedOp::SinkAttend => {
            let defined = s.has(Score) && args[2].has(Finite) && args[1].has(Finite);
            f.properties =
                none.with_if(defined, Finite).with_if(defined && args[1].has(NonNegative), NonNegative);
        }
        FusedOp::WeightedSum => {
            let (finite, v) = (s.has(Finite) && args[1].has(Finite), args[1]);
            let signed = s.has(NonNegative) && v.has(NonNegative);
            f.properties = none.with_if(finite, Finite).with_if(finite && signed, NonNegative);
        }
        FusedOp::WeightedMean => {
            let total = s.has(Finite) && s.has(NonNegative) && s.positive_at.any_along(axis);
            let (defined, v) = (total && args[1].has(Finite), args[1]);
            f.properties = none.with_if(defined, Finite).with_if(defined && v.has(NonNegative), NonNegative);
        }
        FusedOp::Attend | FusedOp::ExpAttend => {
            let defined = if op == FusedOp::Attend { s.has(Score) } else { keeps_a_key };
            f.properties = none
                .with_if(defined && args[1].has(Finite), Finite)
                .with_if(defined && args[1].has(Finite) && args[1].has(NonNegative), NonNegative);
        }
    }
    // A sum of values under weights is a sum of products.
    let sums = op.info().arity > 1 && op.info().reduces && f.has(Finite);
    f.properties = f.properties.with_if(sums, Unmasked).with_if(sums, Property::Number);
    f
}
