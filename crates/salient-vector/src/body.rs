//! What a body *is*: its types, the one table of operators, and the instructions that touch memory.
//!
//! A body is a function over pointers, integers and floats, written once for any number of lanes `L`. It is a sequence
//! of sections, each straight-line code or one loop; loops do not nest. Values are in SSA form: a value is defined
//! once and seen by everything after it, except that what is defined inside a loop is seen only there.
//!
//! It does not say how a body is built (`build`), checked (`verify`), printed (`text`), or run (`eval`).

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

/// An element as it lies in memory. Unaligned access is legal everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Elem {
    /// Four bytes, IEEE 754 binary32.
    F32,
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
            Elem::Bool => 1,
        }
    }

    /// The type of the vector that a load of such elements gives.
    pub const fn ty(self) -> Ty {
        match self {
            Elem::F32 => Ty::F32,
            Elem::I32 => Ty::I32,
            Elem::Bool => Ty::Mask,
        }
    }

    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Elem::F32 => "f32",
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

/// The operators without access to memory. [`OPS`] says what each means; no emitter may differ from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the table below documents every operator, once")]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Fma,
    Neg,
    Abs,
    Min,
    Max,
    Sqrt,
    Floor,
    Ceil,
    Nearest,
    Trunc,
    Eq,
    Ne,
    Lt,
    Le,
    And,
    Or,
    Xor,
    Not,
    Shl,
    Shr,
    ShrU,
    Select,
    ToI32,
    ToF32,
    BitsI32,
    BitsF32,
    Splat,
    LaneId,
    LaneCount,
    First,
    HSum,
    HMax,
    HMin,
    HAny,
    HAll,
}

/// How an operator is typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sig {
    /// All arguments and the result have one type out of `over`.
    Same {
        /// How many arguments.
        arity: usize,
        /// The types allowed.
        over: &'static [Ty],
    },
    /// Two arguments of one type out of the list give a mask.
    Compare(&'static [Ty]),
    /// A mask and two arguments of one vector type give that type.
    Select,
    /// One argument of a type out of `from` gives `to`.
    Convert {
        /// The types allowed.
        from: &'static [Ty],
        /// The result.
        to: Ty,
    },
    /// Exactly these arguments give this result.
    Fixed(&'static [Ty], Ty),
}

impl Sig {
    /// The number of arguments.
    pub const fn arity(self) -> usize {
        match self {
            Sig::Same { arity, .. } => arity,
            Sig::Compare(_) => 2,
            Sig::Select => 3,
            Sig::Convert { .. } => 1,
            Sig::Fixed(args, _) => args.len(),
        }
    }

    /// The type of the result for arguments of these types; `None` where they do not fit.
    pub fn result(self, args: &[Ty]) -> Option<Ty> {
        if args.len() != self.arity() {
            return None;
        }
        let alike = |args: &[Ty]| args.windows(2).all(|pair| pair[0] == pair[1]);
        match self {
            Sig::Same { over, .. } => (alike(args) && over.contains(&args[0])).then(|| args[0]),
            Sig::Compare(over) => (alike(args) && over.contains(&args[0])).then_some(Ty::Mask),
            Sig::Select => {
                (args[0] == Ty::Mask && args[1] == args[2] && args[1].is_vector()).then(|| args[1])
            }
            Sig::Convert { from, to } => from.contains(&args[0]).then_some(to),
            Sig::Fixed(want, to) => (args == want).then_some(to),
        }
    }
}

/// One row of the table of operators.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// The operator.
    pub op: Op,
    /// Its name in the text form.
    pub mnemonic: &'static str,
    /// Its typing.
    pub sig: Sig,
    /// Its meaning, per lane unless it says otherwise.
    pub doc: &'static str,
}

const FLOAT: &[Ty] = &[Ty::F32];
const INTEGER: &[Ty] = &[Ty::I32];
const NUMBER: &[Ty] = &[Ty::F32, Ty::I32];
const NUMBER_OR_INT: &[Ty] = &[Ty::F32, Ty::I32, Ty::Int];
const BITS: &[Ty] = &[Ty::Mask, Ty::I32];
const MASK: &[Ty] = &[Ty::Mask];

const fn row(op: Op, mnemonic: &'static str, sig: Sig, doc: &'static str) -> OpInfo {
    OpInfo { op, mnemonic, sig, doc }
}
const fn same(arity: usize, over: &'static [Ty]) -> Sig {
    Sig::Same { arity, over }
}
const fn convert(from: &'static [Ty], to: Ty) -> Sig {
    Sig::Convert { from, to }
}

/// The table of operators, in the order of [`Op`]. Integers wrap. Float arithmetic rounds to nearest even, keeps
/// subnormals, and never traps; the payload of a NaN is unspecified.
pub const OPS: &[OpInfo] = &[
    row(Op::Add, "add", same(2, NUMBER_OR_INT), "a + b"),
    row(Op::Sub, "sub", same(2, NUMBER_OR_INT), "a - b"),
    row(Op::Mul, "mul", same(2, NUMBER_OR_INT), "a * b"),
    row(Op::Div, "div", same(2, NUMBER), "a / b; i32 rounds toward zero, x / 0 = 0, and MIN / -1 = MIN"),
    row(
        Op::Rem,
        "rem",
        same(2, INTEGER),
        "a - (a / b) * b with the sign of a; x rem 0 = x, and MIN rem -1 = 0",
    ),
    row(Op::Fma, "fma", same(3, FLOAT), "a * b + c, rounded once where the target has it, else twice"),
    row(Op::Neg, "neg", same(1, NUMBER_OR_INT), "-a; flips the sign bit of a float, of a NaN too"),
    row(Op::Abs, "abs", same(1, NUMBER), "|a|; clears the sign bit of a float; |MIN| = MIN"),
    row(
        Op::Min,
        "min",
        same(2, NUMBER_OR_INT),
        "a if a < b, else b: where either is NaN, or both are zero, b",
    ),
    row(
        Op::Max,
        "max",
        same(2, NUMBER_OR_INT),
        "a if b < a, else b: where either is NaN, or both are zero, b",
    ),
    row(Op::Sqrt, "sqrt", same(1, FLOAT), "the square root, correctly rounded; NaN below zero"),
    row(Op::Floor, "floor", same(1, FLOAT), "rounded toward -inf"),
    row(Op::Ceil, "ceil", same(1, FLOAT), "rounded toward +inf"),
    row(Op::Nearest, "nearest", same(1, FLOAT), "rounded to the nearest integer, ties to even"),
    row(Op::Trunc, "trunc", same(1, FLOAT), "rounded toward zero"),
    row(Op::Eq, "eq", Sig::Compare(NUMBER), "a = b; false where either is NaN"),
    row(Op::Ne, "ne", Sig::Compare(NUMBER), "not (a = b); true where either is NaN"),
    row(Op::Lt, "lt", Sig::Compare(NUMBER), "a < b; false where either is NaN"),
    row(Op::Le, "le", Sig::Compare(NUMBER), "a <= b; false where either is NaN"),
    row(Op::And, "and", same(2, BITS), "a and b, bit by bit"),
    row(Op::Or, "or", same(2, BITS), "a or b, bit by bit"),
    row(Op::Xor, "xor", same(2, BITS), "exclusive or, bit by bit"),
    row(Op::Not, "not", same(1, BITS), "not a, bit by bit"),
    row(Op::Shl, "shl", Sig::Fixed(&[Ty::I32, Ty::Int], Ty::I32), "a << (n mod 32)"),
    row(Op::Shr, "shr", Sig::Fixed(&[Ty::I32, Ty::Int], Ty::I32), "a >> (n mod 32), filled with the sign"),
    row(Op::ShrU, "shru", Sig::Fixed(&[Ty::I32, Ty::Int], Ty::I32), "a >> (n mod 32), filled with zeros"),
    row(Op::Select, "select", Sig::Select, "b where the mask a is true, else c"),
    row(
        Op::ToI32,
        "to_i32",
        convert(&[Ty::F32, Ty::Mask], Ty::I32),
        "a float rounded toward zero, MIN where that is NaN or does not fit; a mask as 0 or 1",
    ),
    row(Op::ToF32, "to_f32", convert(&[Ty::I32, Ty::Mask], Ty::F32), "the nearest float; a mask as 0 or 1"),
    row(Op::BitsI32, "bits_i32", convert(FLOAT, Ty::I32), "the same bits"),
    row(Op::BitsF32, "bits_f32", convert(INTEGER, Ty::F32), "the same bits"),
    row(Op::Splat, "splat", convert(&[Ty::Int], Ty::I32), "the low 32 bits in every lane"),
    row(Op::LaneId, "lane_id", Sig::Fixed(&[], Ty::I32), "0, 1, 2, ..., L - 1"),
    row(Op::LaneCount, "lane_count", Sig::Fixed(&[], Ty::Int), "L"),
    row(Op::First, "first", Sig::Fixed(&[Ty::Int], Ty::Mask), "true in the lanes below n (none for n <= 0)"),
    row(
        Op::HSum,
        "hsum",
        same(1, NUMBER),
        "the sum over the lanes, in every lane; adds the upper half to the lower until one lane is left",
    ),
    row(
        Op::HMax,
        "hmax",
        same(1, NUMBER),
        "the maximum over the lanes, in every lane; paired as in hsum: max(low, high)",
    ),
    row(
        Op::HMin,
        "hmin",
        same(1, NUMBER),
        "the minimum over the lanes, in every lane; paired as in hsum: min(low, high)",
    ),
    row(Op::HAny, "hany", same(1, MASK), "whether any lane is true, in every lane"),
    row(Op::HAll, "hall", same(1, MASK), "whether all lanes are true, in every lane"),
];

impl Op {
    /// The row of this operator.
    pub const fn info(self) -> &'static OpInfo {
        &OPS[self as usize]
    }

    /// Whether the operator mixes lanes: legal only where all lanes are active, that is outside [`LoopKind::Lanes`].
    pub const fn is_horizontal(self) -> bool {
        matches!(self, Op::HSum | Op::HMax | Op::HMin | Op::HAny | Op::HAll)
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
            Inst::Store { .. } => None,
        }
    }

    /// The values it reads, in the order of the text form.
    pub fn uses(&self) -> Vec<Value> {
        match self {
            Inst::Const { .. } => Vec::new(),
            Inst::Op { args, .. } => args.clone(),
            Inst::Address { addr, .. } | Inst::LoadInt { addr, .. } => addr.uses().collect(),
            Inst::Load { place, .. } => place.uses().collect(),
            Inst::Store { place, value, .. } => place.uses().chain([*value]).collect(),
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
    /// A hint: how many iterations (strips) an emitter may lay out in a row. At least 1.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_names_are_unique() {
        for (at, info) in OPS.iter().enumerate() {
            assert_eq!(info.op as usize, at, "{}", info.mnemonic);
            assert_eq!(OPS.iter().filter(|other| other.mnemonic == info.mnemonic).count(), 1);
            assert!(!info.doc.is_empty());
        }
        assert_eq!(Op::HAll as usize + 1, OPS.len());
    }

    #[test]
    fn typing_follows_the_table() {
        let result = |op: Op, args: &[Ty]| op.info().sig.result(args);
        assert_eq!(result(Op::Add, &[Ty::Int, Ty::Int]), Some(Ty::Int));
        assert_eq!(result(Op::Add, &[Ty::Int, Ty::I32]), None);
        assert_eq!(result(Op::Add, &[Ty::F32]), None);
        assert_eq!(result(Op::Lt, &[Ty::F32, Ty::F32]), Some(Ty::Mask));
        assert_eq!(result(Op::Select, &[Ty::Mask, Ty::I32, Ty::I32]), Some(Ty::I32));
        assert_eq!(result(Op::Select, &[Ty::Mask, Ty::Int, Ty::Int]), None);
        assert_eq!(result(Op::LaneId, &[]), Some(Ty::I32));
    }
}
