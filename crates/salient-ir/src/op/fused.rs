//! The table of fused operators: each is a kind of weights of a row, perhaps with a further score beside the row, and perhaps
//! with values that are summed under the weights.

use super::map::greater;

/// An operator that only rewriting makes. Each binds one axis and has a definition in the other operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the table below documents each")]
pub enum FusedOp {
    Norm,
    Softmax,
    ExpNorm,
    Attend,
    ExpAttend,
    LogSumExp,
    SinkSoftmax,
    SinkAttend,
    WeightedSum,
    WeightedMean,
}

/// What a fused operator makes of the row of its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowWeights {
    /// The numbers themselves.
    Unnormalised,
    /// Of each number its share of their sum.
    Share,
    /// Of each exponential its share of their sum; zeros where every score is -inf.
    Softmax,
    /// Of each exponential its share of their sum; NaN where every score is -inf.
    ExpNorm,
    /// No weights, but the logarithm of the sum of the exponentials.
    LogSumExp,
}

/// The weights of a row before they are divided by their sum: a kernel divides what it has summed under them.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// One for each number of the row.
    pub numerators: Vec<f64>,
    /// What each is divided by.
    pub divisor: f64,
    /// What was subtracted from each before it was made an exponential.
    pub shift: f64,
}

impl RowWeights {
    /// The weights of a row: the definition. `round` is what arithmetic does to each of its results.
    pub fn of(self, row: &[f64], round: fn(f64) -> f64) -> Shares {
        let sum = |numbers: &[f64]| numbers.iter().fold(0.0, |sum, x| round(sum + x));
        let greatest = row.iter().copied().fold(f64::NEG_INFINITY, greater);
        let everywhere = |x: f64| Shares { numerators: vec![x; row.len()], divisor: 1.0, shift: greatest };
        match self {
            RowWeights::Unnormalised => Shares { numerators: row.to_vec(), divisor: 1.0, shift: 0.0 },
            RowWeights::Share => Shares { numerators: row.to_vec(), divisor: sum(row), shift: 0.0 },
            RowWeights::Softmax if greatest == f64::NEG_INFINITY => everywhere(0.0),
            RowWeights::ExpNorm if greatest == f64::NEG_INFINITY => everywhere(f64::NAN),
            RowWeights::LogSumExp if greatest == f64::NEG_INFINITY => everywhere(1.0),
            RowWeights::Softmax | RowWeights::ExpNorm | RowWeights::LogSumExp => {
                let exponential = |s: &f64| round(round(s - greatest).exp());
                let numerators: Vec<f64> = row.iter().map(exponential).collect();
                Shares { divisor: sum(&numerators), numerators, shift: greatest }
            }
        }
    }
}

/// A row of the table of fused operators.
#[derive(Debug)]
pub struct FusedInfo {
    /// The operator that the row describes.
    pub op: FusedOp,
    /// The name in the text form, behind `fused.`.
    pub name: &'static str,
    /// Whether the bound axis is gone from the result (as in a sum) or kept (as in a softmax).
    pub reduces: bool,
    /// What it makes of the row of its first argument.
    pub weights: RowWeights,
    /// Whether its last argument is a further score of the row, of which nothing is made but a share.
    pub sink: bool,
    /// About how many additions it takes for each score.
    pub additions: u64,
    /// The definition, with `j` the bound axis.
    pub doc: &'static str,
}

/// The table of fused operators, in the order of [`FusedOp`].
pub const FUSED: &[FusedInfo] = &[
    FusedInfo {
        op: FusedOp::Norm,
        name: "norm",
        reduces: false,
        weights: RowWeights::Share,
        sink: false,
        additions: 3,
        doc: "x / sum[j](x).",
    },
    FusedInfo {
        op: FusedOp::Softmax,
        name: "softmax",
        reduces: false,
        weights: RowWeights::Softmax,
        sink: false,
        additions: 8,
        doc: "exp(s) / sum[j](exp(s)), computed from s - max[j](s); zeros where every s is -inf.",
    },
    FusedInfo {
        op: FusedOp::ExpNorm,
        name: "exp_norm",
        reduces: false,
        weights: RowWeights::ExpNorm,
        sink: false,
        additions: 8,
        doc: "exp(s) / sum[j](exp(s)), computed from s - max[j](s); NaN where every s is -inf.",
    },
    FusedInfo {
        op: FusedOp::Attend,
        name: "attend",
        reduces: true,
        weights: RowWeights::Softmax,
        sink: false,
        additions: 6,
        doc: "sum[j](softmax[j](s) * v), in one pass over j; a key of score -inf contributes nothing.",
    },
    FusedInfo {
        op: FusedOp::ExpAttend,
        name: "exp_attend",
        reduces: true,
        weights: RowWeights::ExpNorm,
        sink: false,
        additions: 6,
        doc: "sum[j](exp_norm[j](s) * v), in one pass over j; NaN where every s is -inf.",
    },
    FusedInfo {
        op: FusedOp::LogSumExp,
        name: "log_sum_exp",
        reduces: true,
        weights: RowWeights::LogSumExp,
        sink: false,
        additions: 6,
        doc: "log(sum[j](exp(s))), computed from s - max[j](s); -inf where every s is -inf.",
    },
    FusedInfo {
        op: FusedOp::SinkSoftmax,
        name: "sink_softmax",
        reduces: false,
        weights: RowWeights::Softmax,
        sink: true,
        additions: 8,
        doc: "exp(s) / (sum[j](exp(s)) + exp(r)), computed from s - max(max[j](s), r); r is finite and does not depend on j.",
    },
    FusedInfo {
        op: FusedOp::SinkAttend,
        name: "sink_attend",
        reduces: true,
        weights: RowWeights::Softmax,
        sink: true,
        additions: 6,
        doc: "Of s, v and r: sum[j](sink_softmax[j](s, r) * v), in one pass over j; a key of score -inf contributes nothing.",
    },
    FusedInfo {
        op: FusedOp::WeightedSum,
        name: "weighted_sum",
        reduces: true,
        weights: RowWeights::Unnormalised,
        sink: false,
        additions: 1,
        doc: "Of w and v: sum[j](w * v), in one pass over j; a key of weight zero contributes nothing.",
    },
    FusedInfo {
        op: FusedOp::WeightedMean,
        name: "weighted_mean",
        reduces: true,
        weights: RowWeights::Share,
        sink: false,
        additions: 1,
        doc: "Of w and v: sum[j](w * v) / sum[j](w), in one pass over j; a key of weight zero contributes nothing.",
    },
];

impl FusedInfo {
    /// Number of arguments: the row, values if it sums some, and a further score if it has one.
    pub fn arity(&self) -> usize {
        1 + usize::from(self.has_values()) + usize::from(self.sink)
    }

    /// The first argument of a position that is masked: where the operator sums values, such a position adds nothing,
    /// whatever its value.
    pub fn masked(&self) -> f32 {
        match self.weights {
            RowWeights::Unnormalised | RowWeights::Share => 0.0,
            RowWeights::Softmax | RowWeights::ExpNorm | RowWeights::LogSumExp => f32::NEG_INFINITY,
        }
    }

    /// Whether its second argument is values, which are summed under the weights.
    pub fn has_values(&self) -> bool {
        self.reduces && self.weights != RowWeights::LogSumExp
    }
}

impl FusedOp {
    /// The operator's row.
    pub fn info(self) -> &'static FusedInfo {
        &FUSED[self as usize]
    }

    /// The operator with that name.
    pub fn from_name(name: &str) -> Option<FusedOp> {
        FUSED.iter().find(|row| row.name == name).map(|row| row.op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_operator() {
        for (at, row) in FUSED.iter().enumerate() {
            assert_eq!(row.op as usize, at, "{}", row.name);
            assert_eq!(FusedOp::from_name(row.name), Some(row.op));
        }
    }

    #[test]
    fn a_row_without_a_score_has_weights_of_zero_or_nan() {
        let none = [f64::NEG_INFINITY; 2];
        let exactly = |x: f64| x;
        assert_eq!(RowWeights::Softmax.of(&none, exactly).numerators, [0.0, 0.0]);
        assert!(RowWeights::ExpNorm.of(&none, exactly).numerators[0].is_nan());
        let large = RowWeights::Softmax.of(&[1000.0, 1000.0], exactly);
        assert_eq!((large.numerators, large.divisor), (vec![1.0, 1.0], 2.0));
        let sum = RowWeights::LogSumExp.of(&none, exactly);
        assert_eq!(sum.shift + sum.divisor.ln(), f64::NEG_INFINITY);
    }
}
