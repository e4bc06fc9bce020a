//! Whether the integers of a call fit compiled code, which has 32 bits for each: see [`salient_ir::integers`].
//!
//! Looks at the elements of those tensors alone from which arithmetic with integers follows; tables and indices into them
//! are not among them.

use crate::report::error::Error;
use salient_ir::array::{Array, Data};
use salient_ir::integers::{Values, Wide};
use salient_ir::range::Range;

/// The least and the greatest element.
pub(crate) fn values_of(array: &Array) -> Values {
    match array.data() {
        Data::I32(v) => {
            integers(v.iter().min().zip(v.iter().max()).map(|(a, b)| (i128::from(*a), i128::from(*b))))
        }
        Data::I64(v) => {
            integers(v.iter().min().zip(v.iter().max()).map(|(a, b)| (i128::from(*a), i128::from(*b))))
        }
        Data::Bool(_) => integers(Some((0, 1))),
        Data::F32(v) => {
            // What is not finite is no integer of any size: it counts as more than any.
            let finite = |x: &f32| if x.is_finite() { f64::from(*x) } else { f64::MAX };
            let ends = (f64::INFINITY, f64::NEG_INFINITY);
            let (least, most) = v.iter().map(finite).fold(ends, |(a, b), x| (a.min(x), b.max(x)));
            if least <= most { Values::Numbers(least, most) } else { Values::Numbers(0.0, 0.0) }
        }
        Data::F16(_) | Data::BF16(_) => Values::Numbers(f64::NEG_INFINITY, f64::INFINITY),
    }
}

/// Of a tensor without elements nothing is computed.
fn integers(ends: Option<(i128, i128)>) -> Values {
    let (least, greatest) = ends.unwrap_or((0, 0));
    Values::Integers(Range { least, greatest })
}

impl From<Wide> for Error {
    fn from(wide: Wide) -> Error {
        Error::Run(wide.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_an_array_are_found() {
        let of = |least, greatest| Values::Integers(Range { least, greatest });
        assert_eq!(
            values_of(&Array::from_i64(vec![3], vec![5, -7, i64::MAX]).unwrap()),
            of(-7, i64::MAX.into())
        );
        assert_eq!(values_of(&Array::from_i32(vec![0], Vec::new()).unwrap()), of(0, 0));
        assert_eq!(values_of(&Array::from_bool(vec![1], vec![false]).unwrap()), of(0, 1));
        let floats =
            |values: &[f32]| values_of(&Array::from_f32(vec![values.len()], values.to_vec()).unwrap());
        assert_eq!(floats(&[1.0, -1.5, 2.0]), Values::Numbers(-1.5, 2.0));
        assert_eq!(floats(&[1.0, f32::NAN]), Values::Numbers(1.0, f64::MAX));
        assert_eq!(floats(&[f32::NEG_INFINITY]), Values::Numbers(f64::MAX, f64::MAX));
        assert_eq!(floats(&[]), Values::Numbers(0.0, 0.0));
    }
}
