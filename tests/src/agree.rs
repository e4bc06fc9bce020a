//! What counts as agreement between two ways of computing one tensor.
//!
//! The bound is the project's: an element may be off by 1e-5 of its row's scale, where a row is what lies along the last
//! axis and its scale is the greatest magnitude expected in it. NaN and each infinity agree with themselves alone.
//! Recorded outputs of other systems are compared as the command line does, with [`salient::compare`].

use salient::compare::{Tolerance, compare};
use salient::{Array, Arrays};

/// The greatest deviation of an element, relative to the scale of its row.
pub const TOLERANCE: f64 = 1e-5;

/// Whether `found` is what was expected; the error names the element that is furthest off.
///
/// # Errors
/// A dtype, a shape or an element differs.
pub fn agree(found: &Array, expected: &Array) -> Result<(), String> {
    if found.shape() != expected.shape() || found.dtype() != expected.dtype() {
        let ty = |a: &Array| format!("{}{:?}", a.dtype(), a.shape());
        return Err(format!("the type is {}, expected {}", ty(found), ty(expected)));
    }
    let (have, want) = (found.to_f64_vec(), expected.to_f64_vec());
    let width = expected.shape().last().copied().unwrap_or(1).max(1);
    let mut worst: Option<(f64, usize)> = None;
    for (row, (have, want)) in have.chunks(width).zip(want.chunks(width)).enumerate() {
        let scale = want.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
        for (column, (h, w)) in have.iter().zip(want).enumerate() {
            let off = (h - w).abs();
            if h == w || h.is_nan() && w.is_nan() || off <= TOLERANCE * scale {
                continue;
            }
            let off = if off.is_nan() { f64::INFINITY } else { off / scale };
            if worst.is_none_or(|(most, _)| off > most) {
                worst = Some((off, row * width + column));
            }
        }
    }
    match worst {
        None => Ok(()),
        Some((off, at)) => {
            Err(format!("element {at} is {}, expected {} ({off:.1e} of its row's scale)", have[at], want[at]))
        }
    }
}

/// As [`agree`], for every output of a model: the same names in the same order.
///
/// # Errors
/// Each output that differs, by name.
pub fn all_agree(found: &Arrays, expected: &Arrays) -> Result<(), String> {
    let (names, wanted): (Vec<_>, Vec<_>) = (found.names().collect(), expected.names().collect());
    if names != wanted {
        return Err(format!("the outputs are {names:?}, expected {wanted:?}"));
    }
    let faults: Vec<String> = found
        .iter()
        .zip(expected.iter())
        .filter_map(|((name, f), (_, e))| agree(f, e).err().map(|why| format!("`{name}`: {why}")))
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// Compares with outputs that another system recorded, by the default tolerance of the command line. Every output of the
/// model must have been recorded, and nothing else.
///
/// # Errors
/// Each output that deviates, by name.
pub fn matches_record(found: &Arrays, recorded: &Arrays) -> Result<(), String> {
    let mut faults = Vec::new();
    for name in found.names().filter(|n| recorded.get(n).is_none()) {
        faults.push(format!("`{name}` was not recorded"));
    }
    for (name, expected) in recorded.iter() {
        match found.get(name).map(|f| compare(f, expected, Tolerance::default())) {
            None => faults.push(format!("`{name}` is no output")),
            Some(Err(mismatch)) => faults.push(format!("`{name}`: {mismatch}")),
            Some(Ok(deviation)) if deviation.agrees() => {}
            Some(Ok(d)) => faults.push(format!("`{name}`: {} of {} deviate: {:?}", d.past, d.count, d.worst)),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// How far an element of a gradient may be from what was recorded, of the greatest in all arrays: what is added up in a row may
/// cancel, and in a whole array, as a bias of keys that no softmax sees.
const OF_GREATEST: f64 = 1e-5;

/// As [`matches_record`], for gradients.
///
/// # Errors
/// As [`matches_record`].
pub fn matches_gradients(found: &Arrays, recorded: &Arrays) -> Result<(), String> {
    let mut faults: Vec<String> = Vec::new();
    for name in found.names().filter(|n| recorded.get(n).is_none()) {
        faults.push(format!("`{name}` was not recorded"));
    }
    let greatest = recorded.iter().flat_map(|(_, array)| array.to_f64_vec());
    let greatest = greatest.fold(0.0_f64, |most, x| most.max(x.abs()));
    for (name, expected) in recorded.iter() {
        let Some(found) = found.get(name).filter(|found| found.shape() == expected.shape()) else {
            faults.push(format!("`{name}` is no output, or has another shape"));
            continue;
        };
        let (found, expected) = (found.to_f64_vec(), expected.to_f64_vec());
        let agrees = |(x, y): &(&f64, &f64)| (*x - *y).abs() <= OF_GREATEST * greatest;
        if let Some((x, y)) = found.iter().zip(&expected).find(|pair| !agrees(pair)) {
            faults.push(format!("`{name}`: {x} where {y} is recorded, of at most {greatest}"));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[usize], values: &[f32]) -> Array {
        Array::from_f32(shape.to_vec(), values.to_vec()).unwrap()
    }

    #[test]
    fn the_bound_is_relative_to_the_row() {
        let want = array(&[2, 2], &[1000.0, 0.0, 1.0, 0.0]);
        assert!(agree(&array(&[2, 2], &[1000.0, 0.009, 1.0, 0.0]), &want).is_ok());
        let fault = agree(&array(&[2, 2], &[1000.0, 0.0, 1.0, 0.009]), &want).unwrap_err();
        assert!(fault.starts_with("element 3 is 0.00"), "{fault}");
    }

    #[test]
    fn values_that_are_not_finite_agree_with_themselves_alone() {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0];
        for (n, a) in values.iter().enumerate() {
            for (m, b) in values.iter().enumerate() {
                let pair = |x: f32| array(&[2], &[x, 1e30]);
                assert_eq!(agree(&pair(*a), &pair(*b)).is_ok(), n == m, "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_row_of_zeros_must_be_zeros() {
        assert!(agree(&array(&[2], &[0.0, 1e-30]), &array(&[2], &[0.0, 0.0])).is_err());
        assert!(agree(&array(&[2], &[0.0, -0.0]), &array(&[2], &[0.0, 0.0])).is_ok());
    }

    #[test]
    fn records_must_be_complete() {
        let mut found = Arrays::new();
        found.insert("y", array(&[1], &[1.0])).unwrap();
        assert!(matches_record(&found, &found).is_ok());
        assert!(matches_record(&found, &Arrays::new()).unwrap_err().contains("was not recorded"));
        assert!(matches_record(&Arrays::new(), &found).unwrap_err().contains("is no output"));
    }
}
