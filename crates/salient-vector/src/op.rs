//! The one table of operators: names, typing, meaning.
//!
//! It does not compute: `apply` gives each operator its reference, emitters their code.

use crate::ty::Ty;

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
    FirstLane,
    First,
    HSum,
    HMax,
    HMin,
    HAny,
    HAll,
    PrefixSum,
    /// The sum over the lanes from each on.
    SuffixSum,
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
/// subnormals unless the caller's mode flushes them to zero, and never traps; the payload of a NaN is unspecified.
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
    row(Op::FirstLane, "first_lane", Sig::Fixed(&[Ty::I32], Ty::Int), "what lane 0 holds, sign extended"),
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
    row(
        Op::PrefixSum,
        "prefix_sum",
        same(1, NUMBER),
        "the sum over the lanes up to each; adds to each lane the one 1, 2, 4, ... before it, 0 where there is none",
    ),
    row(
        Op::SuffixSum,
        "suffix_sum",
        same(1, NUMBER),
        "the sum over the lanes from each on; adds to each lane the one 1, 2, 4, ... behind it, 0 where there is none",
    ),
];

impl Sig {
    /// The types as the document has them: `(t, t) -> t` and what `t` may be.
    fn describe(self) -> String {
        let names = |types: &[Ty], between: &str| {
            types.iter().map(|ty| ty.name()).collect::<Vec<&str>>().join(between)
        };
        let of = |args: String, to: &str, over: &[Ty]| match over {
            [ty] => {
                format!("({args}) -> {to}").replace("(t", &format!("({ty}")).replace(" t", &format!(" {ty}"))
            }
            _ => format!("({args}) -> {to}, t: {}", names(over, ", ")),
        };
        match self {
            Sig::Same { arity, over } => of(vec!["t"; arity].join(", "), "t", over),
            Sig::Compare(over) => of("t, t".to_owned(), "mask", over),
            Sig::Select => of("mask, t, t".to_owned(), "t", &[Ty::F32, Ty::I32, Ty::Mask]),
            Sig::Convert { from, to } => format!("({}) -> {}", names(from, " or "), to.name()),
            Sig::Fixed(args, to) => format!("({}) -> {}", names(args, ", "), to.name()),
        }
    }
}

/// The table as a document, for `docs/vector.md`.
pub fn document() -> String {
    let mut text = String::from(DOCUMENT);
    for info in OPS {
        text.push_str(&format!(
            "| `{}` | {} | {} |\n",
            info.mnemonic,
            info.sig.describe(),
            info.doc.replace('|', "\\|")
        ));
    }
    text
}

const DOCUMENT: &str = "\
# Operators of vector bodies

Generated from the table in `crates/salient-vector/src/op.rs`; a test compares. Vectors (`f32`, `i32`, `mask`) have `L` lanes, which
the target chooses; `int` is a scalar of 64 bits. Operators work lane by lane unless they say otherwise, never trap, and mean
the same in the interpreter and in every emitter. Memory is reached by loads and stores, which are instructions of their own.

| operator | types | result |
|---|---|---|
";

impl Op {
    /// The row of this operator.
    pub const fn info(self) -> &'static OpInfo {
        &OPS[self as usize]
    }

    /// Whether the operator mixes all lanes: legal only where all are active, that is outside [`LoopKind::Lanes`](crate::body::LoopKind::Lanes).
    /// A prefix sum is none of them: no lane of it reads one after it, and the inactive lanes come last.
    /// Nor is a suffix sum, which reads them: whoever makes one in such a loop makes them zero before.
    pub const fn is_horizontal(self) -> bool {
        matches!(self, Op::HSum | Op::HMax | Op::HMin | Op::HAny | Op::HAll)
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
        assert_eq!(Op::SuffixSum as usize + 1, OPS.len());
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
