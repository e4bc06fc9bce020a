//! The facts about what runs along an axis: reductions and fused operators.

use super::witness::Witnesses;
use super::{Facts, Known, Proof, Properties, Property};
use crate::options::Fp;
use salient_ir::op::RowWeights;
use salient_ir::{AxisId, AxisSet, DType, FusedOp, ReduceOp};

/// A reduction along an axis.
pub(super) fn reduce(known: &Known, op: ReduceOp, axis: AxisId, x: &Facts) -> Facts {
    use Property::{Finite, NonNegative, Number, Positive, Score, Unit, Unmasked};
    let mut axes = x.axes.clone();
    axes.remove(axis);
    let dtype = if op == ReduceOp::ArgMax { DType::I64 } else { x.dtype };
    let has = |p: Property| x.properties.has(p);
    let none = Properties::default();
    let filled = known.filled(axis);
    let along = |w: &Witnesses| w.any_along(known, axis);
    let mut f = Facts::new(dtype, axes);
    f.filled = x.filled & filled;
    f.rounded = op == ReduceOp::Sum && dtype == DType::F32;
    // Without positions it is zero or one, or an infinity.
    f.regular = match op {
        ReduceOp::Max | ReduceOp::Min => x.regular & filled,
        ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Any | ReduceOp::All | ReduceOp::ArgMax => {
            x.regular.also_without(filled)
        }
    };
    match op {
        ReduceOp::Sum if dtype == DType::F32 && known.fp == Fp::Strict => {
            f.properties = x.properties.and(Properties::of(&[NonNegative])).also_without(filled);
        }
        ReduceOp::Sum if dtype == DType::F32 => {
            // One addend above zero and none below: the sum is above zero.
            let positive = has(NonNegative) & along(&x.positive_at);
            f.properties = none
                .with_if(has(Finite), Finite)
                .with_if(has(Finite), Unmasked)
                .with_if(has(Score), Score)
                .with_if(has(Score), Number)
                .with_if(has(NonNegative), NonNegative)
                .also_without(filled)
                .with_if(positive, Positive);
            f.finite_at = Witnesses::everywhere_if(f.has(Finite));
        }
        // Of no numbers it is -inf.
        ReduceOp::Max if dtype == DType::F32 => {
            let kept = x.properties.and(Properties::of(&[Finite, NonNegative, Positive, Unit, Unmasked]));
            f.properties = kept
                .only(filled)
                .with_if(has(Score), Score)
                .with_if(has(Number), Number)
                .with_if(has(Score) & along(&x.finite_at), Finite)
                .with_if(along(&x.finite_at), Unmasked);
            f.finite_at = x.finite_at.without(axis).only(filled);
        }
        // Of no numbers it is +inf.
        ReduceOp::Min if dtype == DType::F32 => {
            let kept = x.properties.and(Properties::of(&[NonNegative, Positive, Unmasked, Number]));
            f.properties = kept.or(x.properties.only(filled));
        }
        ReduceOp::Any => {
            let everywhere = Witnesses::everywhere_if(along(&x.true_at));
            f.true_at = everywhere.or(&x.true_at.without(axis).only(filled));
        }
        ReduceOp::All => {
            f.false_at = Witnesses::everywhere_if(along(&x.false_at));
            f.true_at = Witnesses::everywhere_if(x.true_at.everywhere().also_without(filled));
        }
        ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax => {}
    }
    f
}

/// A fused operator along an axis.
pub(super) fn fused(known: &Known, op: FusedOp, axis: AxisId, args: &[&Facts]) -> Facts {
    use Property::{Finite, NonNegative, Positive, Score, Unmasked};
    let mut axes = args.iter().fold(AxisSet::new(), |s, a| s.union(&a.axes));
    if op.info().reduces {
        axes.remove(axis);
    } else {
        axes.insert(axis);
    }
    let mut f = Facts::new(DType::F32, axes);
    let (info, s, filled) = (op.info(), args[0], known.filled(axis));
    // Where the axis has no positions, there is no weight, and the sum of no values is zero.
    let keeps_a_key = s.has(Score) & s.finite_at.any_along(known, axis).also_without(filled);
    let positive_somewhere = s.positive_at.any_along(known, axis).also_without(filled);
    let total = s.has(Finite) & s.has(NonNegative) & positive_somewhere;
    let all = |proof: fn(&Facts) -> Proof| args.iter().fold(Proof::ALWAYS, |all, x| all & proof(x));
    let (regular, unchanged) = (all(|x| x.regular), all(|x| x.filled));
    f.filled = unchanged & filled;
    let none = Properties::default();
    // Where the weights are finite numbers, whether they are then not negative, and where no axis without positions makes
    // NaN of them.
    let (defined, signed, divided) = match info.weights {
        RowWeights::Unnormalised => (s.has(Finite), s.has(NonNegative), Proof::ALWAYS),
        RowWeights::Share => (total, Proof::ALWAYS, total | unchanged),
        RowWeights::Softmax if info.sink => {
            (s.has(Score) & args[args.len() - 1].has(Finite), Proof::ALWAYS, Proof::ALWAYS)
        }
        RowWeights::Softmax => (s.has(Score), Proof::ALWAYS, Proof::ALWAYS),
        RowWeights::ExpNorm => (keeps_a_key, Proof::ALWAYS, keeps_a_key | unchanged),
        RowWeights::LogSumExp => {
            let keeps_a_key = keeps_a_key & filled;
            f.regular = regular & filled;
            f.properties =
                none.with_if(s.has(Score), Score).with_if(keeps_a_key, Finite).with_if(keeps_a_key, Unmasked);
            return f;
        }
    };
    f.regular = regular & divided;
    if info.has_values() {
        f.regular = f.regular.also_without(filled);
        // A sum of products.
        let (v, finite) = (args[1], defined & args[1].has(Finite));
        f.properties = none
            .with_if(finite, Finite)
            .with_if(finite & signed & v.has(NonNegative), NonNegative)
            .with_if(finite, Unmasked)
            .with_if(finite, Property::Number)
            .also_without(filled);
        return f;
    }
    let (positive, kept) = if info.weights == RowWeights::Share {
        (s.has(Finite) & s.has(Positive), s.positive_at.only(total))
    } else {
        let kept = if info.sink { defined } else { keeps_a_key };
        (defined & s.has(Finite) & s.has(Unmasked), s.finite_at.only(kept))
    };
    f.properties =
        none.with_if(defined, Finite).with_if(defined & signed, NonNegative).with_if(positive, Positive);
    f.positive_at = kept;
    f
}
