//! Element types.
//!
//! Does not know about layouts or storage: see [`crate::array`].

use std::fmt;

/// The type of a tensor's elements.
///
/// Arithmetic is done in `F32`, in integers and in `Bool`. `F16` and `BF16` are storage only: an input or a
/// parameter may be declared with them, and reading it widens to `F32`; an output that is declared with them is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16 (storage).
    F16,
    /// The upper half of a binary32 (storage).
    BF16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer: indices, identifiers, dimensions.
    I64,
    /// `true` or `false`, one byte.
    Bool,
}

impl DType {
    /// Every type, in the order of their declaration.
    pub const ALL: [DType; 6] = [DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64, DType::Bool];

    /// The name in the language and in messages: `f32`, `bool`, …
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bool => "bool",
        }
    }

    /// The type with that name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::I64 => 8,
            DType::Bool => 1,
        }
    }

    /// The type in which values of this type are computed with: storage types widen to `F32`.
    pub fn compute(self) -> DType {
        match self {
            DType::F32 | DType::F16 | DType::BF16 => DType::F32,
            DType::I32 => DType::I32,
            DType::I64 => DType::I64,
            DType::Bool => DType::Bool,
        }
    }

    /// Whether it is one of the floating-point types.
    pub fn is_float(self) -> bool {
        self.compute() == DType::F32
    }

    /// Whether it is one of the integer types (`Bool` is none).
    pub fn is_int(self) -> bool {
        matches!(self, DType::I32 | DType::I64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
