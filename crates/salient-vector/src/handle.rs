//! Typed names of values, of which the builder's operators are made, and the places in memory that pointers lead to.
//!
//! A handle says nothing but which value is meant and of which type it is, so that a wrong type is an error of the Rust
//! compiler. How they come together is for [`build`](crate::build).

use crate::body::{Access, Addr, Elem, Place, Value};

/// A typed name of a value.
pub trait Handle: Copy {
    /// The name of `value`, whose type the caller vouches for.
    fn from_value(value: Value) -> Self;
    /// The value named.
    fn value(self) -> Value;
}

/// Handles of vectors that can be loaded and stored.
pub trait Vector: Handle {
    /// The element that [`load`](crate::Builder::load) and [`store`](crate::Builder::store) use.
    const ELEM: Elem;
}

/// Handles with arithmetic: [`F32`], [`I32`], [`Int`].
pub trait Number: Handle {}

/// Handles of vectors of numbers: [`F32`], [`I32`].
pub trait VectorNumber: Number + Vector {}

/// Handles of bits: [`Mask`], [`I32`].
pub trait Bits: Handle {}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(Value);

        impl Handle for $name {
            fn from_value(value: Value) -> Self {
                $name(value)
            }
            fn value(self) -> Value {
                self.0
            }
        }

        impl Carry for $name {
            fn give(&self, out: &mut Vec<Value>) {
                out.push(self.0);
            }
            fn take(&self, from: &mut dyn Iterator<Item = Value>) -> Self {
                $name(from.next().expect("as many values come out as went in"))
            }
        }
    )*};
}

handles! {
    /// A vector of floats.
    F32;
    /// A vector of 32-bit integers.
    I32;
    /// A vector of truth values.
    Mask;
    /// A 64-bit integer.
    Int;
    /// A pointer, of either kind ([`Ty::Ptr`](crate::Ty::Ptr), [`Ty::PtrMut`](crate::Ty::PtrMut)).
    Ptr;
}

impl Vector for F32 {
    const ELEM: Elem = Elem::F32;
}
impl Vector for I32 {
    const ELEM: Elem = Elem::I32;
}
impl Vector for Mask {
    const ELEM: Elem = Elem::Bool;
}
impl Number for F32 {}
impl Number for I32 {}
impl Number for Int {}
impl VectorNumber for F32 {}
impl VectorNumber for I32 {}
impl Bits for Mask {}
impl Bits for I32 {}

/// What a loop can carry: handles, and tuples, arrays, vectors and options of what can be carried; `()` for nothing.
pub trait Carry: Sized {
    /// Appends its values.
    fn give(&self, out: &mut Vec<Value>);
    /// The same shape over the next values.
    fn take(&self, from: &mut dyn Iterator<Item = Value>) -> Self;
}

impl Carry for () {
    fn give(&self, _: &mut Vec<Value>) {}
    fn take(&self, _: &mut dyn Iterator<Item = Value>) -> Self {}
}

impl<T: Carry, const N: usize> Carry for [T; N] {
    fn give(&self, out: &mut Vec<Value>) {
        self.iter().for_each(|item| item.give(out));
    }
    fn take(&self, from: &mut dyn Iterator<Item = Value>) -> Self {
        std::array::from_fn(|at| self[at].take(from))
    }
}

impl<T: Carry> Carry for Option<T> {
    fn give(&self, out: &mut Vec<Value>) {
        self.iter().for_each(|item| item.give(out));
    }
    fn take(&self, from: &mut dyn Iterator<Item = Value>) -> Self {
        self.as_ref().map(|item| item.take(from))
    }
}

impl<T: Carry> Carry for Vec<T> {
    fn give(&self, out: &mut Vec<Value>) {
        self.iter().for_each(|item| item.give(out));
    }
    fn take(&self, from: &mut dyn Iterator<Item = Value>) -> Self {
        self.iter().map(|item| item.take(from)).collect()
    }
}

macro_rules! carry_tuple {
    ($($part:ident)*) => {
        impl<$($part: Carry),*> Carry for ($($part,)*) {
            #[allow(non_snake_case, reason = "one identifier per type parameter")]
            fn give(&self, out: &mut Vec<Value>) {
                let ($($part,)*) = self;
                $($part.give(out);)*
            }
            #[allow(non_snake_case, reason = "one identifier per type parameter")]
            fn take(&self, from: &mut dyn Iterator<Item = Value>) -> Self {
                let ($($part,)*) = self;
                ($($part.take(from),)*)
            }
        }
    };
}
carry_tuple!(A);
carry_tuple!(A B);
carry_tuple!(A B C);
carry_tuple!(A B C D);

impl Ptr {
    /// The place `index` elements after the pointer.
    pub fn at(self, index: Int) -> Place {
        Place { addr: Addr { index: Some(index.0), ..self.start() }, access: Access::Unit, mask: None }
    }

    /// The place at the pointer.
    pub fn at_start(self) -> Place {
        Place { addr: self.start(), access: Access::Unit, mask: None }
    }

    fn start(self) -> Addr {
        Addr { base: self.0, index: None, elems: 0, lanes: 0 }
    }
}

impl From<Ptr> for Place {
    fn from(ptr: Ptr) -> Place {
        ptr.at_start()
    }
}

impl Place {
    /// Moves by a fixed number of elements.
    pub fn plus(mut self, elems: i32) -> Place {
        self.addr.elems += elems;
        self
    }

    /// Moves by a fixed number of whole vectors (`L` elements each).
    pub fn lanes(mut self, vectors: i32) -> Place {
        self.addr.lanes += vectors;
        self
    }

    /// One element for all lanes: a broadcast load, or a store of lane 0.
    pub fn one(self) -> Place {
        Place { access: Access::One, ..self }
    }

    /// Lane `l` is at element `l * stride`.
    pub fn strided(self, stride: Int) -> Place {
        Place { access: Access::Strided(stride.0), ..self }
    }

    /// Lane `l` is at element `index[l] * stride`.
    pub fn indexed(self, index: I32, stride: Int) -> Place {
        Place { access: Access::Indexed { index: index.0, stride: stride.0 }, ..self }
    }

    /// Only lanes where `mask` is true touch memory; a load gives zero (false) in the others.
    pub fn masked(self, mask: Mask) -> Place {
        Place { mask: Some(mask.0), ..self }
    }
}
