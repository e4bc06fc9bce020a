//! What is true of functions of one number, and what passes take from it without knowing the function.

/// What is true of a function of one number, as of an exponential or a sine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// The least number that it is defined at, from which on it is defined everywhere.
    pub from: f64,
    /// No value is less.
    pub least: f64,
    /// No value is greater.
    pub greatest: f64,
    /// Whether it never falls.
    pub rises: bool,
    /// Whether a finite number always gives one, in f32 too.
    pub finite: bool,
    /// How far compiled code may be from the value, beside two units in the last place.
    pub error: f64,
}

impl Curve {
    /// Any rising function.
    pub(super) const RISING: Curve = Curve {
        from: f64::NEG_INFINITY,
        least: f64::NEG_INFINITY,
        greatest: f64::INFINITY,
        rises: true,
        finite: true,
        error: 0.0,
    };
    /// Between -1 and 1, and rising.
    pub(super) const SIGMOID: Curve = Curve { least: -1.0, greatest: 1.0, ..Curve::RISING };
    /// Between -1 and 1, up and down.
    pub(super) const WAVE: Curve = Curve { rises: false, error: 4e-7, ..Curve::SIGMOID };

    /// An exponential.
    pub(super) const EXP: Curve = Curve { least: 0.0, finite: false, ..Curve::RISING };
    /// A logarithm.
    pub(super) const LOG: Curve = Curve { from: 0.0, finite: false, ..Curve::RISING };
    /// A root.
    pub(super) const SQRT: Curve = Curve { from: 0.0, least: 0.0, ..Curve::RISING };

    /// Whether it is defined everywhere, and finite for every finite number.
    pub fn is_total(&self) -> bool {
        self.from == f64::NEG_INFINITY && self.finite
    }

    /// Whether there is a least and a greatest value.
    pub fn is_bounded(&self) -> bool {
        self.least.is_finite() && self.greatest.is_finite()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAPS, Typing};

    /// At numbers of every magnitude, in order.
    #[test]
    fn curves_are_what_their_rows_say() {
        let magnitudes = (-40..=6).map(|e| 10f64.powf(f64::from(e) / 3.0));
        let mut numbers: Vec<f64> = magnitudes.flat_map(|m| [-m, m]).chain([0.0]).collect();
        numbers.sort_by(f64::total_cmp);
        for row in MAPS {
            let Some(curve) = row.curve else { continue };
            assert_eq!((row.arity, row.typing), (1, Typing::Float), "{}", row.name);
            let defined = numbers.iter().filter(|x| **x >= curve.from);
            let values: Vec<f64> = defined.map(|x| (row.eval)(&[*x])).collect();
            for y in &values {
                assert!(curve.least <= *y && *y <= curve.greatest, "{}: {y}", row.name);
                assert!(y.abs() <= f64::from(f32::MAX) || !curve.finite, "{}: {y}", row.name);
            }
            assert_eq!(values.is_sorted(), curve.rises, "{}", row.name);
            assert!(
                curve.from == f64::NEG_INFINITY || (row.eval)(&[curve.from - 0.1]).is_nan(),
                "{}",
                row.name
            );
        }
    }
}
