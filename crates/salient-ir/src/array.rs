//! Concrete tensors: what goes into a model and what comes out of it.
//!
//! An [`Array`] is a shape and the elements in row-major order without gaps. It is what files are read into, what the
//! reference interpreter and compiled code take and return, and what constants of a graph hold.
//!
//! It does no arithmetic and has no views or strides: the graph describes computation, and this is only its data.
//! Half-precision elements are kept as their bits and widened on request.

mod elements;
mod excerpt;
mod memory;
pub mod quantised;

pub use elements::{Elements, Memory};
pub use memory::{collected, filled};

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use thiserror::Error;

use crate::ty::DType;

/// The elements of an array, by dtype. Floats of 16 bits are held as their bits.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// IEEE binary32.
    F32(Elements<f32>),
    /// The bits of IEEE binary16.
    F16(Elements<u16>),
    /// The bits of bfloat16, the upper half of a binary32.
    BF16(Elements<u16>),
    /// 32-bit signed integers.
    I32(Elements<i32>),
    /// 64-bit signed integers.
    I64(Elements<i64>),
    /// Booleans.
    Bool(Elements<bool>),
}

impl From<Elements<f32>> for Data {
    fn from(elements: Elements<f32>) -> Data {
        Data::F32(elements)
    }
}

impl From<Elements<i32>> for Data {
    fn from(elements: Elements<i32>) -> Data {
        Data::I32(elements)
    }
}

impl From<Elements<i64>> for Data {
    fn from(elements: Elements<i64>) -> Data {
        Data::I64(elements)
    }
}

impl From<Elements<bool>> for Data {
    fn from(elements: Elements<bool>) -> Data {
        Data::Bool(elements)
    }
}

impl Data {
    /// The dtype of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Data::F32(_) => DType::F32,
            Data::F16(_) => DType::F16,
            Data::BF16(_) => DType::BF16,
            Data::I32(_) => DType::I32,
            Data::I64(_) => DType::I64,
            Data::Bool(_) => DType::Bool,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::F32(v) => v.len(),
            Data::F16(v) | Data::BF16(v) => v.len(),
            Data::I32(v) => v.len(),
            Data::I64(v) => v.len(),
            Data::Bool(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `index` in f64: exact for every dtype but `i64`, whose magnitudes past 2⁵³ round.
    fn get_f64(&self, index: usize) -> f64 {
        match self {
            Data::F32(v) => f64::from(v[index]),
            Data::F16(v) => f64::from(f16::from_bits(v[index])),
            Data::BF16(v) => f64::from(bf16::from_bits(v[index])),
            Data::I32(v) => f64::from(v[index]),
            Data::I64(v) => v[index] as f64,
            Data::Bool(v) => f64::from(u8::from(v[index])),
        }
    }
}

/// Why an array could not be made.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ArrayError {
    /// The extents multiply to more bytes than an address space holds.
    #[error("shape {} has more elements than memory can address", shape_text(.shape))]
    TooLarge {
        /// The shape that was asked for.
        shape: Vec<usize>,
    },
    /// The system does not have so much memory.
    #[error("there is no memory for {dtype}{}: {bytes} bytes", shape_text(.shape))]
    Memory {
        /// The shape that was asked for.
        shape: Vec<usize>,
        /// The dtype that was asked for.
        dtype: DType,
        /// What the elements take.
        bytes: usize,
    },
    /// The number of elements given is not the product of the shape.
    #[error("shape {} holds {expected} elements, but {found} were given", shape_text(.shape))]
    Count {
        /// The shape that was asked for.
        shape: Vec<usize>,
        /// The product of the shape.
        expected: usize,
        /// The number of elements that were given.
        found: usize,
    },
    /// A value has no counterpart in the dtype: a fraction in an integer, 2 in a boolean, 1e300 in an f32.
    #[error("element {index} is {value}, which {dtype} cannot hold")]
    Value {
        /// The row-major position of the element.
        index: usize,
        /// The value.
        value: f64,
        /// The dtype it was to be stored in.
        dtype: DType,
    },
}

/// A tensor in memory: a shape, and its elements in row-major order without gaps.
///
/// `==` compares elements as their types do, so an array that holds a NaN differs from itself;
/// [`Array::same_bits`] is the identity of representations.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    shape: Vec<usize>,
    data: Data,
}

impl Array {
    /// An array of the given shape over the given elements.
    pub fn new(shape: Vec<usize>, data: Data) -> Result<Array, ArrayError> {
        let expected = element_count(&shape, data.dtype())?;
        let found = data.len();
        if expected != found {
            return Err(ArrayError::Count { shape, expected, found });
        }
        Ok(Array { shape, data })
    }

    /// An array over elements that are held elsewhere: see [`Memory`].
    ///
    /// # Errors
    /// There are not as many elements as the shape says.
    pub fn over<T>(shape: Vec<usize>, elements: Elements<T>) -> Result<Array, ArrayError>
    where
        Data: From<Elements<T>>,
    {
        Array::new(shape, Data::from(elements))
    }

    /// Takes the elements of an array. One of the same dtype and shape is copied into the memory that is there, which may be
    /// the caller's; any other takes its place.
    pub fn fill_from(&mut self, other: Array) {
        if self.shape != other.shape {
            *self = other;
            return;
        }
        match (&mut self.data, &other.data) {
            (Data::F32(to), Data::F32(from)) => to.copy_from_slice(from),
            (Data::F16(to), Data::F16(from)) | (Data::BF16(to), Data::BF16(from)) => to.copy_from_slice(from),
            (Data::I32(to), Data::I32(from)) => to.copy_from_slice(from),
            (Data::I64(to), Data::I64(from)) => to.copy_from_slice(from),
            (Data::Bool(to), Data::Bool(from)) => to.copy_from_slice(from),
            _ => *self = other,
        }
    }

    /// An `f32` array.
    pub fn from_f32(shape: Vec<usize>, values: Vec<f32>) -> Result<Array, ArrayError> {
        Array::new(shape, Data::F32(values.into()))
    }

    /// An `f16` array from the bits of its elements.
    pub fn from_f16_bits(shape: Vec<usize>, bits: Vec<u16>) -> Result<Array, ArrayError> {
        Array::new(shape, Data::F16(bits.into()))
    }

    /// A `bf16` array from the bits of its elements.
    pub fn from_bf16_bits(shape: Vec<usize>, bits: Vec<u16>) -> Result<Array, ArrayError> {
        Array::new(shape, Data::BF16(bits.into()))
    }

    /// An `i32` array.
    pub fn from_i32(shape: Vec<usize>, values: Vec<i32>) -> Result<Array, ArrayError> {
        Array::new(shape, Data::I32(values.into()))
    }

    /// An `i64` array.
    pub fn from_i64(shape: Vec<usize>, values: Vec<i64>) -> Result<Array, ArrayError> {
        Array::new(shape, Data::I64(values.into()))
    }

    /// A `bool` array.
    pub fn from_bool(shape: Vec<usize>, values: Vec<bool>) -> Result<Array, ArrayError> {
        Array::new(shape, Data::Bool(values.into()))
    }

    /// An array of any dtype from values in f64, as the reference interpreter has them.
    ///
    /// Floats round to nearest, ties to even. A value that has no counterpart is an error: a finite one that would
    /// round to infinity, a fraction or an overflow in an integer dtype, anything but 0 and 1 in a boolean.
    pub fn from_f64(dtype: DType, shape: Vec<usize>, values: &[f64]) -> Result<Array, ArrayError> {
        // 2⁶³ is a double and i64::MAX is not: the upper bound is exclusive.
        const I64_END: f64 = 9_223_372_036_854_775_808.0;
        let whole = |v: f64| v.fract() == 0.0;
        let kept = |v: f64, rounded_is_finite: bool| rounded_is_finite || !v.is_finite();
        let data = match dtype {
            DType::F32 => {
                Data::F32(converted(values, dtype, |v| kept(v, (v as f32).is_finite()).then_some(v as f32))?)
            }
            DType::F16 => Data::F16(converted(values, dtype, |v| {
                let rounded = f16::from_f64(v);
                kept(v, rounded.is_finite()).then(|| rounded.to_bits())
            })?),
            DType::BF16 => Data::BF16(converted(values, dtype, |v| {
                let rounded = bf16::from_f64(v);
                kept(v, rounded.is_finite()).then(|| rounded.to_bits())
            })?),
            DType::I32 => Data::I32(converted(values, dtype, |v| {
                (whole(v) && v >= f64::from(i32::MIN) && v <= f64::from(i32::MAX)).then_some(v as i32)
            })?),
            DType::I64 => Data::I64(converted(values, dtype, |v| {
                (whole(v) && (-I64_END..I64_END).contains(&v)).then_some(v as i64)
            })?),
            DType::Bool => {
                Data::Bool(converted(values, dtype, |v| (v == 0.0 || v == 1.0).then_some(v == 1.0))?)
            }
        };
        Array::new(shape, data)
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// The extents, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there is no element (some extent is zero).
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The size of the elements in bytes.
    pub fn size_in_bytes(&self) -> usize {
        self.len() * self.dtype().size()
    }

    /// The elements.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Shape and elements, given away.
    pub fn into_parts(self) -> (Vec<usize>, Data) {
        (self.shape, self.data)
    }

    /// The same elements in another shape of the same count.
    pub fn reshape(self, shape: Vec<usize>) -> Result<Array, ArrayError> {
        Array::new(shape, self.data)
    }

    /// The elements in f64, row-major: exact for every dtype but `i64`, whose magnitudes past 2⁵³ round.
    pub fn to_f64_vec(&self) -> Vec<f64> {
        (0..self.len()).map(|i| self.data.get_f64(i)).collect()
    }

    /// The elements as f32 where that loses nothing (`f32`, `f16`, `bf16`); `None` for integers and booleans.
    pub fn to_f32_vec(&self) -> Option<Vec<f32>> {
        match &self.data {
            Data::F32(v) => Some(v.to_vec()),
            Data::F16(v) => Some(v.reinterpret_cast::<f16>().to_f32_vec()),
            Data::BF16(v) => Some(v.reinterpret_cast::<bf16>().to_f32_vec()),
            Data::I32(_) | Data::I64(_) | Data::Bool(_) => None,
        }
    }

    /// `f16` and `bf16` become `f32`; every other dtype stays what it is. Exact.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn widen(self) -> Result<Array, ArrayError> {
        let wide = |halves: &dyn Fn(&mut [f32])| {
            let mut values = collected(self.len(), std::iter::repeat_n(0.0, self.len()))?;
            halves(&mut values);
            Some(values)
        };
        let values = match &self.data {
            Data::F16(v) => wide(&|to| v.reinterpret_cast::<f16>().convert_to_f32_slice(to)),
            Data::BF16(v) => wide(&|to| v.reinterpret_cast::<bf16>().convert_to_f32_slice(to)),
            Data::F32(_) | Data::I32(_) | Data::I64(_) | Data::Bool(_) => return Ok(self),
        };
        let values = values.ok_or_else(|| ArrayError::no_memory(DType::F32, &self.shape))?;
        Ok(Array { shape: self.shape, data: Data::F32(values.into()) })
    }

    /// An `f32` array in one of the types of 16 bits, rounded to the nearest, ties to even; what is too large becomes an
    /// infinity, as in IEEE 754. For every other pair of types the array as it is.
    pub fn rounded_to(self, dtype: DType) -> Array {
        let data = match (&self.data, dtype) {
            (Data::F32(v), DType::F16) => {
                let mut bits = vec![0; v.len()];
                bits.reinterpret_cast_mut::<f16>().convert_from_f32_slice(v);
                Data::F16(bits.into())
            }
            (Data::F32(v), DType::BF16) => {
                let mut bits = vec![0; v.len()];
                bits.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(v);
                Data::BF16(bits.into())
            }
            _ => return self,
        };
        Array { shape: self.shape, data }
    }

    /// Whether both have one dtype, one shape and the same bits in every element: NaNs equal themselves, 0 is not −0.
    pub fn same_bits(&self, other: &Array) -> bool {
        if self.shape != other.shape {
            return false;
        }
        match (&self.data, &other.data) {
            (Data::F32(a), Data::F32(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.to_bits() == y.to_bits())
            }
            (a, b) => a == b,
        }
    }
}

/// The typed accessors: the elements as a slice when the dtype is that one, `None` otherwise.
macro_rules! typed_access {
    ($($variant:ident, $get:ident, $get_mut:ident, $element:ty, $what:literal;)*) => {
        impl Array {
            $(
                #[doc = concat!("The elements if they are ", $what, ", row-major; `None` for any other dtype.")]
                pub fn $get(&self) -> Option<&[$element]> {
                    if let Data::$variant(v) = &self.data { Some(v) } else { None }
                }

                #[doc = concat!("The elements if they are ", $what, ", to be changed in place; `None` for any other dtype.")]
                pub fn $get_mut(&mut self) -> Option<&mut [$element]> {
                    if let Data::$variant(v) = &mut self.data { Some(v) } else { None }
                }
            )*
        }
    };
}

typed_access! {
    F32, as_f32, as_f32_mut, f32, "`f32`";
    F16, as_f16_bits, as_f16_bits_mut, u16, "the bits of `f16`";
    BF16, as_bf16_bits, as_bf16_bits_mut, u16, "the bits of `bf16`";
    I32, as_i32, as_i32_mut, i32, "`i32`";
    I64, as_i64, as_i64_mut, i64, "`i64`";
    Bool, as_bool, as_bool_mut, bool, "`bool`";
}

/// The number of elements of a shape, if the array would fit an address space.
///
/// Zero extents are left out of the check's product, so that `[0, huge, huge]` is refused as well: sizes of sub-blocks
/// and strides of every accepted shape stay below `isize::MAX` bytes.
pub fn element_count(shape: &[usize], dtype: DType) -> Result<usize, ArrayError> {
    let bytes = shape
        .iter()
        .filter(|&&extent| extent != 0)
        .try_fold(dtype.size(), |product, &extent| product.checked_mul(extent))
        .filter(|&bytes| bytes <= isize::MAX as usize);
    match bytes {
        None => Err(ArrayError::TooLarge { shape: shape.to_vec() }),
        Some(_) if shape.contains(&0) => Ok(0),
        Some(bytes) => Ok(bytes / dtype.size()),
    }
}

fn converted<T>(
    values: &[f64],
    dtype: DType,
    narrow: impl Fn(f64) -> Option<T>,
) -> Result<Elements<T>, ArrayError> {
    let mut out = Vec::new();
    out.try_reserve_exact(values.len()).map_err(|_| ArrayError::no_memory(dtype, &[values.len()]))?;
    for (index, &value) in values.iter().enumerate() {
        out.push(narrow(value).ok_or(ArrayError::Value { index, value, dtype })?);
    }
    Ok(out.into())
}

/// A shape as it is written everywhere: `[2, 3]`.
fn shape_text(shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", extents.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn construction_checks_the_count_and_the_size() {
        assert!(Array::from_f32(vec![2, 3], vec![0.0; 6]).is_ok());
        assert_eq!(
            Array::from_f32(vec![2, 3], vec![0.0; 5]),
            Err(ArrayError::Count { shape: vec![2, 3], expected: 6, found: 5 })
        );
        assert_eq!(Array::from_f32(vec![], vec![1.5]).unwrap().len(), 1, "a scalar has one element");
        let huge = vec![usize::MAX, 2];
        assert_eq!(
            Array::zeros(DType::F32, huge.clone()),
            Err(ArrayError::TooLarge { shape: huge }),
            "the product overflows"
        );
        let huge = vec![0, usize::MAX, usize::MAX];
        assert_eq!(Array::zeros(DType::F32, huge.clone()), Err(ArrayError::TooLarge { shape: huge }));
        let bytes = vec![isize::MAX as usize / 4 + 1];
        assert!(element_count(&bytes, DType::F32).is_err(), "elements fit a usize, their bytes an isize not");
        assert_eq!(element_count(&[3, 0, 5], DType::F32), Ok(0));
    }

    #[test]
    fn access_is_by_dtype() {
        let mut array = Array::from_i64(vec![2], vec![1, -2]).unwrap();
        assert_eq!(array.as_i64(), Some(&[1, -2][..]));
        assert_eq!(array.as_f32(), None);
        array.as_i64_mut().unwrap()[0] = 7;
        assert_eq!(array.to_f64_vec(), [7.0, -2.0]);
        assert_eq!((array.dtype(), array.size_in_bytes(), array.rank()), (DType::I64, 16, 1));
        assert_eq!(array.to_f32_vec(), None);
    }

    #[test]
    fn halves_are_bits_and_widen_exactly() {
        let half = Array::from_f16_bits(vec![3], vec![0x3c00, 0xc000, 0x0001]).unwrap();
        assert_eq!(half.to_f64_vec(), [1.0, -2.0, 2f64.powi(-24)]);
        assert_eq!(half.widen().unwrap().as_f32(), Some(&[1.0, -2.0, 2f32.powi(-24)][..]));
        let brain = Array::from_bf16_bits(vec![2], vec![0x3f80, 0xff80]).unwrap();
        assert_eq!(brain.to_f32_vec(), Some(vec![1.0, f32::NEG_INFINITY]));
    }

    #[test]
    fn values_in_f64_are_stored_or_refused_never_bent() {
        let refused = |dtype, value| {
            let error = Array::from_f64(dtype, vec![2], &[0.0, value]).unwrap_err();
            assert_eq!(error, ArrayError::Value { index: 1, value, dtype });
        };
        refused(DType::F32, 1e300);
        refused(DType::F16, 65520.0);
        refused(DType::BF16, 3.4e38);
        refused(DType::I32, 0.5);
        refused(DType::I32, 2147483648.0);
        refused(DType::I64, 9223372036854775808.0);
        refused(DType::I64, f64::INFINITY);
        refused(DType::Bool, 2.0);
        let kept = |dtype, value: f64| {
            let back = Array::from_f64(dtype, vec![1], &[value]).unwrap().to_f64_vec()[0];
            assert!(back == value || back.is_nan() && value.is_nan(), "{dtype}: {value} became {back}");
        };
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for value in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1.5] {
                kept(dtype, value);
            }
        }
        kept(DType::F16, 65504.0);
        kept(DType::I32, -2147483648.0);
        kept(DType::I64, -9223372036854775808.0);
        kept(DType::Bool, 1.0);
    }

    #[test]
    fn sameness_is_of_bits() {
        let nan = Array::from_f32(vec![1], vec![f32::NAN]).unwrap();
        assert!(nan.same_bits(&nan.clone()));
        assert_ne!(nan, nan.clone());
        let zero = |v: f32| Array::from_f32(vec![1], vec![v]).unwrap();
        assert!(!zero(0.0).same_bits(&zero(-0.0)));
        assert!(!zero(0.0).same_bits(&Array::zeros(DType::I32, vec![1]).unwrap()));
        assert!(!zero(0.0).same_bits(&Array::zeros(DType::F32, vec![1, 1]).unwrap()));
    }
}
