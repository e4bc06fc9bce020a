//! Arrays that need memory: making them, growing them, putting their elements into another order.
//!
//! A system without so much memory is an error, with the shape and the bytes; nothing here aborts for want of it.

use super::{Array, ArrayError, Data, element_count};
use crate::ty::DType;

/// From so many bytes on memory is asked for before it is used. Of less there is always some, as the rest of the program
/// relies on.
const LARGE: usize = 1 << 20;

/// So many copies of a value; `None` where there is no memory for them. Large zeros come from the system as pages that
/// nobody has touched, and stay so.
pub fn filled<T: Clone>(value: T, count: usize) -> Option<Vec<T>> {
    if count.checked_mul(size_of::<T>())? >= LARGE {
        let mut probe: Vec<T> = Vec::new();
        probe.try_reserve_exact(count).ok()?;
    }
    Some(vec![value; count])
}

/// The elements of an iterator that gives `count` of them; `None` where there is no memory for them.
pub fn collected<T>(count: usize, values: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let mut out = Vec::new();
    out.try_reserve_exact(count).ok()?;
    out.extend(values.take(count));
    Some(out)
}

impl Data {
    fn zeros(dtype: DType, count: usize) -> Option<Data> {
        Some(match dtype {
            DType::F32 => Data::F32(filled(0.0, count)?.into()),
            DType::F16 => Data::F16(filled(0, count)?.into()),
            DType::BF16 => Data::BF16(filled(0, count)?.into()),
            DType::I32 => Data::I32(filled(0, count)?.into()),
            DType::I64 => Data::I64(filled(0, count)?.into()),
            DType::Bool => Data::Bool(filled(false, count)?.into()),
        })
    }
}

impl ArrayError {
    /// There is no memory for elements of that dtype in that shape, which an address space would hold.
    pub fn no_memory(dtype: DType, shape: &[usize]) -> ArrayError {
        match element_count(shape, dtype) {
            Ok(count) => ArrayError::Memory { shape: shape.to_vec(), dtype, bytes: count * dtype.size() },
            Err(e) => e,
        }
    }
}

impl Array {
    /// An array of zeros (`false` for booleans).
    ///
    /// # Errors
    /// There is no memory for it, or not in any address space.
    pub fn zeros(dtype: DType, shape: Vec<usize>) -> Result<Array, ArrayError> {
        let count = element_count(&shape, dtype)?;
        match Data::zeros(dtype, count) {
            Some(data) => Ok(Array { shape, data }),
            None => Err(ArrayError::no_memory(dtype, &shape)),
        }
    }

    /// Makes the outermost axis so long: elements behind the new end are dropped, new ones are zeros. Memory grows
    /// geometrically, so that one position after the other costs no copy of all for each.
    ///
    /// # Errors
    /// There is no memory for it; the array stays as it was.
    ///
    /// # Panics
    /// The array has no axes.
    pub fn set_outermost(&mut self, length: usize) -> Result<(), ArrayError> {
        fn resized<T: Clone>(values: &mut Vec<T>, count: usize, zero: T) -> Option<()> {
            values.try_reserve(count.saturating_sub(values.len())).ok()?;
            values.resize(count, zero);
            Some(())
        }
        let before = std::mem::replace(&mut self.shape[0], length);
        let dtype = self.data.dtype();
        let result = element_count(&self.shape, dtype).and_then(|count| {
            let resized = match &mut self.data {
                Data::F32(v) => resized(v.own(), count, 0.0),
                Data::F16(v) | Data::BF16(v) => resized(v.own(), count, 0),
                Data::I32(v) => resized(v.own(), count, 0),
                Data::I64(v) => resized(v.own(), count, 0),
                Data::Bool(v) => resized(v.own(), count, false),
            };
            resized.ok_or_else(|| ArrayError::no_memory(dtype, &self.shape))
        });
        if result.is_err() {
            self.shape[0] = before;
        }
        result
    }

    /// Puts other elements along an axis in the place of its own: `from[n]` becomes `n`. Elements may come several times, and
    /// not at all.
    ///
    /// # Errors
    /// There is no memory for it; the array stays as it was.
    ///
    /// # Panics
    /// The array does not have the axis, or that not the element.
    pub fn reorder(&mut self, axis: usize, from: &[usize]) -> Result<(), ArrayError> {
        fn reordered<T: Copy>(values: &mut Vec<T>, along: (usize, usize), from: &[usize]) -> Option<()> {
            let (extent, inner) = along;
            let mut out = Vec::new();
            out.try_reserve_exact((values.len() / extent.max(1)).checked_mul(from.len())?).ok()?;
            for each in values.chunks_exact((extent * inner).max(1)) {
                from.iter().for_each(|at| out.extend_from_slice(&each[at * inner..][..inner]));
            }
            *values = out;
            Some(())
        }
        let along = (self.shape[axis], self.shape[axis + 1..].iter().product());
        let done = match &mut self.data {
            Data::F32(v) => reordered(v.own(), along, from),
            Data::F16(v) | Data::BF16(v) => reordered(v.own(), along, from),
            Data::I32(v) => reordered(v.own(), along, from),
            Data::I64(v) => reordered(v.own(), along, from),
            Data::Bool(v) => reordered(v.own(), along, from),
        };
        let mut shape = self.shape.clone();
        shape[axis] = from.len();
        done.ok_or_else(|| ArrayError::no_memory(self.dtype(), &shape))?;
        self.shape = shape;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_along_an_axis_are_put_into_another_order() {
        let mut array = Array::from_i32(vec![2, 3, 2], (0..12).collect()).unwrap();
        array.reorder(1, &[2, 0, 2, 2]).unwrap();
        let want = [4, 5, 0, 1, 4, 5, 4, 5, 10, 11, 6, 7, 10, 11, 10, 11];
        assert_eq!(array, Array::from_i32(vec![2, 4, 2], want.to_vec()).unwrap());
        array.reorder(0, &[1]).unwrap();
        assert_eq!(array, Array::from_i32(vec![1, 4, 2], want[8..].to_vec()).unwrap());
        array.reorder(2, &[]).unwrap();
        assert_eq!(array.shape(), [1, 4, 0]);
        let mut none = Array::zeros(DType::F32, vec![0, 2]).unwrap();
        none.reorder(1, &[1, 1, 0]).unwrap();
        assert_eq!((none.shape(), none.len()), (&[0, 3][..], 0));
    }

    /// A petabyte: less than an address space may hold and more than any machine has.
    #[test]
    fn what_does_not_fit_is_told_with_its_bytes() {
        let shape = vec![1 << 20, 1 << 28];
        let error = Array::zeros(DType::F32, shape.clone()).unwrap_err();
        assert_eq!(error, ArrayError::Memory { shape: shape.clone(), dtype: DType::F32, bytes: 1 << 50 });
        assert_eq!(
            error.to_string(),
            "there is no memory for f32[1048576, 268435456]: 1125899906842624 bytes"
        );
        let mut array = Array::from_i64(vec![2, 1], vec![1, 2]).unwrap();
        assert!(
            matches!(array.set_outermost(1 << 47), Err(ArrayError::Memory { bytes, .. }) if bytes == 1 << 50)
        );
        assert!(matches!(array.set_outermost(1 << 62), Err(ArrayError::TooLarge { .. })));
        assert_eq!(array, Array::from_i64(vec![2, 1], vec![1, 2]).unwrap(), "it stays as it was");
        array.set_outermost(3).unwrap();
        assert_eq!(array, Array::from_i64(vec![3, 1], vec![1, 2, 0]).unwrap());
        assert_eq!(filled(0_u8, 1 << 50), None);
        assert_eq!(collected(1 << 50, std::iter::repeat(0.0)), None);
    }
}
