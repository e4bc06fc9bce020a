//! Whether the integers of a call fit compiled code, which has 32 bits for each: see [`salient_ir::integers`].
//!
//! Looks at the elements of those tensors alone from which arithmetic with integers follows; tables and indices into them
//! are not among them.

use crate::error::Error;
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
            let ends = v.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
            let (least, most) = if ends.0 <= ends.1 { ends } else { (0.0, 0.0) };
            Values::Numbers(f64::from(least), f64::from(most))
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
        let floats = Array::from_f32(vec![3], vec![f32::NAN, -1.5, 2.0]).unwrap();
        assert_eq!(values_of(&floats), Values::Numbers(-1.5, 2.0));
        let none = Array::from_f32(vec![1], vec![f32::NAN]).unwrap();
        assert_eq!(values_of(&none), Values::Numbers(0.0, 0.0));
    }
}
