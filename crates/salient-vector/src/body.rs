//! What a body *is*: its types, its instructions and loops.
//!
//! A body is a function over pointers, integers and floats, written once for any number of lanes `L`. It is a sequence
//! of sections, each straight-line code or one loop; loops do not nest. Values are in SSA form: a value is defined
//! once and seen by everything after it, except that what is defined inside a loop is seen only there.
//!
//! Operators have a table of their own (`op`). It does not say how a body is built (`build`), checked (`verify`), printed (`text`), or run (`eval`).

use crate::op::Op;
use crate::ty::Ty;

/// An element as it lies in memory. Unaligned access is legal everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Elem {
    /// Four bytes, IEEE 754 binary32.
    F32,
    /// Two bytes, IEEE 754 binary16; widened exactly as it is loaded, and never stored.
    F16,
    /// Four bytes, two's complement.
    I32,
    /// One byte: zero is false, anything else true; stored as 0 or 1.
    Bool,
}

impl Elem {
    /// The size in bytes.
    pub const fn size(self) -> i64 {
        match self {
            Elem::F32 | Elem::I32 => 4,
            Elem::F16 => 2,
            Elem::Bool => 1,
        }
    }

    /// The type of the vector that a load of such elements gives.
    pub const fn ty(self) -> Ty {
        match self {
            Elem::F32 | Elem::F16 => Ty::F32,
            Elem::I32 => Ty::I32,
            Elem::Bool => Ty::Mask,
        }
    }

    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Elem::F32 => "f32",
            Elem::F16 => "f16",
            Elem::I32 => "i32",
            Elem::Bool => "bool",
        }
    }
}

/// A value of a body, by number; [`Body::types`] holds its type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Value(pub u32);

impl Value {
    /// The number as an index into tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A constant; a vector holds it in every lane.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "the variants are the types")]
pub enum Const {
    Int(i64),
    F32(f32),
    I32(i32),
    Mask(bool),
}

impl Const {
    /// Its type.
    pub const fn ty(self) -> Ty {
        match self {
            Const::Int(_) => Ty::Int,
            Const::F32(_) => Ty::F32,
            Const::I32(_) => Ty::I32,
            Const::Mask(_) => Ty::Mask,
        }
    }
}

/// An address: `base + (index + elems + lanes * L) * size of the element`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addr {
    /// A pointer.
    pub base: Value,
    /// An Int, in elements; absent means zero.
    pub index: Option<Value>,
    /// A fixed distance in elements.
    pub elems: i32,
    /// A fixed distance in vectors: column 2 of a packed panel is at `lanes = 2` whatever `L` is.
    pub lanes: i32,
}

/// Which elements the lanes touch, from an address on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Lane `l` touches element `l`.
    Unit,
    /// One element: a load gives it to every lane, a store takes it from lane 0.
    One,
    /// Lane `l` touches element `l * stride`; the stride is an Int.
    Strided(Value),
    /// Lane `l` touches element `index[l] * stride`: a gather or, in the order of lanes, a scatter.
    Indexed {
        /// An I32 vector.
        index: Value,
        /// An Int.
        stride: Value,
    },
}

/// A place in memory: where, which elements, and for which lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where lane 0 (or index 0) is.
    pub addr: Addr,
    /// How the lanes spread from there.
    pub access: Access,
    /// If present, lanes that are false touch no memory; a load gives them zero (false). For [`Access::One`] the element is
    /// loaded if any lane is true, and stored if lane 0 is.
    pub mask: Option<Value>,
}

/// A matrix of words in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Matrix {
    /// Its first word.
    pub addr: Addr,
    /// Words between its rows, an Int.
    pub row: Value,
}

impl Matrix {
    /// The values it reads.
    pub fn uses(&self) -> impl Iterator<Item = Value> + use<> {
        self.addr.uses().chain([self.row])
    }
}

/// One instruction.
///
/// In the last strip of a [`LoopKind::Lanes`] loop every place is masked by the lanes still active, on top of its own
/// mask; except `One`, which is not masked if it has no mask of its own (lane 0 is always active).
#[derive(Clone, PartialEq, Debug)]
pub enum Inst {
    /// `out` is a constant.
    Const {
        /// The value defined.
        out: Value,
        /// The constant.
        value: Const,
    },
    /// `out = op(args)`.
    Op {
        /// The value defined.
        out: Value,
        /// The operator.
        op: Op,
        /// As many as its row says.
        args: Vec<Value>,
    },
    /// `out` is an address as a pointer, of the kind that its base has.
    Address {
        /// The value defined.
        out: Value,
        /// The unit of the address.
        elem: Elem,
        /// The address.
        addr: Addr,
    },
    /// `out` is a vector from memory.
    Load {
        /// The value defined.
        out: Value,
        /// The elements in memory.
        elem: Elem,
        /// Where.
        place: Place,
    },
    /// `out` is one element from memory as an Int.
    LoadInt {
        /// The value defined.
        out: Value,
        /// `I32` (sign extended) or `Bool` (0 or 1).
        elem: Elem,
        /// Where.
        addr: Addr,
    },
    /// Writes a vector to memory.
    Store {
        /// The elements in memory.
        elem: Elem,
        /// Where; the base is a [`Ty::PtrMut`].
        place: Place,
        /// The vector written.
        value: Value,
    },
    /// Copies a matrix of words with its rows and columns exchanged: element `c` of row `r` of what is read becomes element `r` of row
    /// `c` of what is written, which lies elsewhere. Not inside of loops.
    Transpose {
        /// What is read.
        from: Matrix,
        /// What is written; the base is a [`Ty::PtrMut`].
        to: Matrix,
        /// Rows of what is read, an Int; at most `L`.
        rows: Value,
        /// Columns of what is read, an Int.
        columns: Value,
    },
    /// Says that memory will be read soon. Means nothing and never fails, wherever the address is; a target may ignore it.
    Prefetch {
        /// The unit of the address.
        elem: Elem,
        /// Somewhere in the line of the cache.
        addr: Addr,
    },
}

impl Addr {
    /// The values it reads.
    pub fn uses(&self) -> impl Iterator<Item = Value> + use<> {
        [Some(self.base), self.index].into_iter().flatten()
    }
}

impl Place {
    /// The values it reads.
    pub fn uses(&self) -> impl Iterator<Item = Value> + use<> {
        let spread = match self.access {
            Access::Unit | Access::One => [None, None],
            Access::Strided(stride) => [Some(stride), None],
            Access::Indexed { index, stride } => [Some(index), Some(stride)],
        };
        self.addr.uses().chain(spread.into_iter().flatten()).chain(self.mask)
    }
}

impl Inst {
    /// The value it defines.
    pub fn out(&self) -> Option<Value> {
        match self {
            Inst::Const { out, .. }
            | Inst::Op { out, .. }
            | Inst::Address { out, .. }
            | Inst::Load { out, .. }
            | Inst::LoadInt { out, .. } => Some(*out),
            Inst::Store { .. } | Inst::Transpose { .. } | Inst::Prefetch { .. } => None,
        }
    }

    /// The values it reads, in the order of the text form.
    pub fn uses(&self) -> Vec<Value> {
        match self {
            Inst::Const { .. } => Vec::new(),
            Inst::Op { args, .. } => args.clone(),
            Inst::Address { addr, .. } | Inst::LoadInt { addr, .. } | Inst::Prefetch { addr, .. } => {
                addr.uses().collect()
            }
            Inst::Load { place, .. } => place.uses().collect(),
            Inst::Store { place, value, .. } => place.uses().chain([*value]).collect(),
            Inst::Transpose { from, to, rows, columns } => {
                from.uses().chain(to.uses()).chain([*rows, *columns]).collect()
            }
        }
    }
}

/// How often a loop runs, and what its index is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopKind {
    /// Once for each index 0, 1, 2, ... below the trip count; every lane is active.
    Count,
    /// Over the elements 0 .. trip count, `L` at a time: the index is the first element of a strip. The last strip may
    /// have inactive lanes: they touch no memory, and carried values keep in them what they had. Carried values must be
    /// vectors, and operators that mix lanes are not allowed inside.
    Lanes,
}

/// A value carried around a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Its value at the start of an iteration; seen inside the loop.
    pub param: Value,
    /// Its value before the first iteration.
    pub init: Value,
    /// Its value for the next iteration; defined inside the loop or before it.
    pub next: Value,
    /// Its value after the loop (the initial one, if the loop ran no times).
    pub result: Value,
}

/// A loop over straight-line code.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    /// What it counts.
    pub kind: LoopKind,
    /// The trip count, an Int; zero or less runs nothing.
    pub trip: Value,
    /// The index, an Int; seen inside the loop.
    pub index: Value,
    /// What goes around.
    pub carried: Vec<Carried>,
    /// The code.
    pub insts: Vec<Inst>,
    /// A hint: how many iterations (strips) an emitter may lay out in a row, or side by side if a loop over lanes carries nothing. At
    /// least 1.
    pub unroll: u32,
}

/// A part of a body.
#[derive(Clone, PartialEq, Debug)]
pub enum Section {
    /// Runs once.
    Straight(Vec<Inst>),
    /// Runs in a loop.
    Loop(Loop),
}

/// A parameter. `F32` is passed as one float and arrives in every lane; `I32` and `Mask` cannot be passed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Its name, unique in the body.
    pub name: String,
    /// The value that it defines.
    pub value: Value,
}

/// A body. See the module for the rules; `verify` checks them.
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    /// Names it in dumps and symbols; not its identity.
    pub name: String,
    /// In the order in which arguments are passed.
    pub params: Vec<Param>,
    /// In the order in which they run.
    pub sections: Vec<Section>,
    /// The type of each value.
    pub types: Vec<Ty>,
}

impl Body {
    /// The type of a value.
    pub fn ty(&self, value: Value) -> Ty {
        self.types[value.index()]
    }

    /// The parameters from which on elements are read or written one after the other along the lanes, by position, each with those
    /// elements.
    pub fn contiguous_params(&self) -> Vec<(usize, Elem)> {
        let insts = self.sections.iter().flat_map(|section| match section {
            Section::Straight(insts) => insts,
            Section::Loop(l) => &l.insts,
        });
        let mut out = Vec::new();
        for inst in insts {
            let (Inst::Load { elem, place, .. } | Inst::Store { elem, place, .. }) = inst else { continue };
            let param = self.params.iter().position(|param| param.value == place.addr.base);
            if let (Access::Unit, Some(at)) = (place.access, param)
                && !out.contains(&(at, *elem))
            {
                out.push((at, *elem));
            }
        }
        out
    }
}
