//! The types of values of a body.

use std::fmt;

/// The type of a value. The last three are vectors of `L` lanes, where `L` is the emitter's choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ty {
    /// An address of memory that nothing writes while the body runs; it can be loaded from only.
    Ptr,
    /// An address of memory that the body may read and write.
    PtrMut,
    /// A 64-bit signed integer: counts, indices and strides. Wraps.
    Int,
    /// A vector of 32-bit floats.
    F32,
    /// A vector of 32-bit signed integers. Wraps.
    I32,
    /// A vector of truth values.
    Mask,
}

impl Ty {
    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Ty::Ptr => "ptr",
            Ty::PtrMut => "mut ptr",
            Ty::Int => "int",
            Ty::F32 => "f32",
            Ty::I32 => "i32",
            Ty::Mask => "mask",
        }
    }

    /// Whether the type is a vector of `L` lanes.
    pub const fn is_vector(self) -> bool {
        match self {
            Ty::F32 | Ty::I32 | Ty::Mask => true,
            Ty::Ptr | Ty::PtrMut | Ty::Int => false,
        }
    }

    /// Whether the type is an address.
    pub const fn is_pointer(self) -> bool {
        match self {
            Ty::Ptr | Ty::PtrMut => true,
            Ty::Int | Ty::F32 | Ty::I32 | Ty::Mask => false,
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
