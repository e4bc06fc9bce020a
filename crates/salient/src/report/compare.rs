//! How far results are from what was expected.
//!
//! The criterion is NumPy's `allclose`: `|found - expected| <= atol + rtol * |expected|`, with NaN equal to NaN and an
//! infinity equal to itself. Does not know where either side came from.

use salient_ir::array::Array;

/// What may differ and still agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative to the magnitude of the expected element.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { rtol: 1e-4, atol: 1e-5 }
    }
}

/// How one array differs from the one that was expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// The largest `|found - expected|`; infinite where just one side is NaN or infinite; 0 for empty arrays.
    pub largest_abs: f64,
    /// The largest `|found - expected| / |expected|` over elements that are expected to be other than zero.
    pub largest_rel: f64,
    /// The elements past the tolerance.
    pub past: usize,
    /// The elements in all.
    pub count: usize,
    /// The element that is furthest past the tolerance, if one is.
    pub worst: Option<Worst>,
}

/// An element past the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// Its index along each axis.
    pub index: Vec<usize>,
    /// What was found there.
    pub found: f64,
    /// What was expected there.
    pub expected: f64,
}

/// Two arrays of different shapes, which no tolerance makes agree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shape is {found:?}, expected {expected:?}")]
pub struct ShapeMismatch {
    /// The shape of what was found.
    pub found: Vec<usize>,
    /// The shape of what was expected.
    pub expected: Vec<usize>,
}

impl Deviation {
    /// Whether every element is within the tolerance.
    pub fn agrees(&self) -> bool {
        self.past == 0
    }
}

/// Compares element by element, in f64. Dtypes may differ: the expected values may be recorded in another one.
///
/// # Errors
/// The shapes differ.
pub fn compare(found: &Array, expected: &Array, tolerance: Tolerance) -> Result<Deviation, ShapeMismatch> {
    if found.shape() != expected.shape() {
        return Err(ShapeMismatch { found: found.shape().to_vec(), expected: expected.shape().to_vec() });
    }
    let (a, b) = (found.to_f64_vec(), expected.to_f64_vec());
    let mut out = Deviation { largest_abs: 0.0, largest_rel: 0.0, past: 0, count: a.len(), worst: None };
    let mut worst: Option<(f64, usize)> = None;
    for (position, (&a, &b)) in a.iter().zip(&b).enumerate() {
        let difference = difference(a, b);
        out.largest_abs = out.largest_abs.max(difference);
        if b != 0.0 && difference > 0.0 {
            let relative = difference / b.abs();
            // Infinite over infinite: an infinity that was expected and not found.
            out.largest_rel = out.largest_rel.max(if relative.is_nan() { f64::INFINITY } else { relative });
        }
        // An infinite or absent expected value allows nothing beside itself.
        let allowed = tolerance.atol + if b.is_finite() { tolerance.rtol * b.abs() } else { 0.0 };
        if difference > allowed {
            out.past += 1;
            let excess = difference - allowed;
            if worst.is_none_or(|(most, _)| excess > most) {
                worst = Some((excess, position));
            }
        }
    }
    out.worst = worst.map(|(_, position)| Worst {
        index: index_of(position, found.shape()),
        found: a[position],
        expected: b[position],
    });
    Ok(out)
}

/// `|a - b|`, with NaN and each infinity at no distance from itself and at an infinite one from all else.
fn difference(a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    let d = (a - b).abs();
    if d.is_nan() { f64::INFINITY } else { d }
}

/// The index along each axis of a row-major position.
pub(crate) fn index_of(position: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = position;
    let mut index = vec![0; shape.len()];
    for (at, &extent) in index.iter_mut().zip(shape).rev() {
        *at = rest % extent;
        rest /= extent;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;

    fn row(values: &[f32]) -> Array {
        Array::from_f32(vec![values.len()], values.to_vec()).unwrap()
    }

    fn agrees(a: f32, b: f32) -> bool {
        compare(&row(&[a]), &row(&[b]), Tolerance { rtol: 0.25, atol: 0.5 }).unwrap().agrees()
    }

    #[test]
    fn the_criterion_is_that_of_allclose() {
        assert!(agrees(2.0, 1.25) && !agrees(2.0, 1.0), "relative to the expected side");
        assert!(agrees(-0.5, 0.0) && !agrees(0.501, 0.0), "absolute near zero");
        assert!(agrees(NAN, NAN) && !agrees(NAN, 1.0) && !agrees(1.0, NAN));
        assert!(agrees(INF, INF) && agrees(-INF, -INF) && !agrees(INF, -INF));
        assert!(!agrees(INF, 1.0) && !agrees(1e30, INF) && !agrees(NAN, INF));
    }

    #[test]
    fn the_worst_element_is_named() {
        let expected = Array::from_f32(vec![2, 3], vec![1.0, 2.0, 4.0, 0.0, -8.0, 0.0]).unwrap();
        let found = Array::from_f32(vec![2, 3], vec![1.0, 3.0, 4.0, 0.25, -4.0, 0.0]).unwrap();
        let d = compare(&found, &expected, Tolerance { rtol: 0.125, atol: 0.5 }).unwrap();
        assert_eq!((d.largest_abs, d.largest_rel, d.past, d.count), (4.0, 0.5, 2, 6));
        assert_eq!(d.worst, Some(Worst { index: vec![1, 1], found: -4.0, expected: -8.0 }));
    }

    #[test]
    fn one_sided_nan_is_infinitely_far() {
        let d = compare(&row(&[0.0, NAN]), &row(&[0.0, 2.0]), Tolerance::default()).unwrap();
        assert_eq!((d.largest_abs, d.largest_rel, d.past), (f64::INFINITY, f64::INFINITY, 1));
        let d = compare(&row(&[3.0]), &row(&[-INF]), Tolerance::default()).unwrap();
        assert_eq!((d.largest_abs, d.largest_rel), (f64::INFINITY, f64::INFINITY));
    }

    #[test]
    fn shapes_must_agree_and_dtypes_need_not() {
        let ids = Array::from_i64(vec![2], vec![1, 2]).unwrap();
        assert!(compare(&row(&[1.0, 2.0]), &ids, Tolerance::default()).unwrap().agrees());
        assert!(compare(&row(&[1.0]), &ids, Tolerance::default()).is_err());
        let empty = compare(&row(&[]), &row(&[]), Tolerance::default()).unwrap();
        assert!(empty.agrees() && empty.largest_abs == 0.0);
    }
}
