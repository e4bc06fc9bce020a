//! The language of the e-graph: the operators of `salient-ir` as terms, with axes as leaf children.
//!
//! Names are the mnemonics of the operator tables, so that rules are text: `(sum @j (mul ?x ?y))`. An `@` marks a
//! variable that stands for an axis, and an integer ends in `i`. Nothing here knows what an operator means.

use egg::{FromOp, Id, Language, PatternAst};
use salient_ir::{AxisId, Const, Direction, FusedOp, MapOp, ReduceOp};
use smallvec::SmallVec;
use std::fmt;

/// The operator of a term. It is also the key by which egg indexes classes, so it holds everything but the children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tag {
    /// An axis, as a child of the operators that bind or mention one.
    Axis(AxisId),
    /// The input with that position.
    Input(u32),
    /// The parameter with that position.
    Param(u32),
    /// A literal.
    Const(Const),
    /// The dimension with that position in [`Facts`](crate::facts::Known)' list, as a value.
    Extent(u32),
    /// `(iota @i)`: the index along the axis.
    Iota,
    /// A scalar operator over its children.
    Map(MapOp),
    /// `(sum @j ?x)`.
    Reduce(ReduceOp),
    /// `(at @i ?x ?index)`.
    At,
    /// The axis, then the axis of each part, then the parts.
    Concat,
    /// `(cumsum @j ?x)`, `(reverse_cumsum @j ?x)`.
    CumSum(Direction),
    /// `(fused.attend @j ?s ?v)`.
    Fused(FusedOp),
}

/// A term of the e-graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    /// What it does.
    pub tag: Tag,
    /// Axes first, then values.
    pub children: SmallVec<[Id; 4]>,
}

impl Term {
    /// A term.
    pub fn new(tag: Tag, children: &[Id]) -> Term {
        Term { tag, children: SmallVec::from_slice(children) }
    }

    /// Whether it reads a child at the positions of its axis and combines what it reads there: where there are none, it does
    /// not read it. A sink is read once.
    pub(crate) fn combines(&self, child: usize) -> bool {
        match self.tag {
            Tag::Reduce(_) => true,
            Tag::Fused(op) => op.info().reduces && !(op.info().sink && child + 1 == self.children.len()),
            Tag::Axis(_) | Tag::Input(_) | Tag::Param(_) | Tag::Const(_) | Tag::Extent(_) => false,
            Tag::Iota | Tag::Map(_) | Tag::At | Tag::Concat | Tag::CumSum(_) => false,
        }
    }
}

impl Language for Term {
    type Discriminant = Tag;

    fn discriminant(&self) -> Tag {
        self.tag
    }

    fn matches(&self, other: &Term) -> bool {
        self.tag == other.tag && self.children.len() == other.children.len()
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}

/// Prefix of a reduction in the parsed text: `max` and `min` are scalar operators too.
const REDUCE: &str = "reduce.";
const FUSED: &str = "fused.";

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tag::Axis(a) => write!(f, "@{}", a.index()),
            Tag::Input(n) => write!(f, "input.{n}"),
            Tag::Param(n) => write!(f, "param.{n}"),
            Tag::Const(Const::F32(bits)) => write!(f, "{:?}", f32::from_bits(*bits)),
            Tag::Const(c @ (Const::I32(_) | Const::I64(_) | Const::Bool(_))) => write!(f, "{c:?}"),
            Tag::Extent(n) => write!(f, "extent.{n}"),
            Tag::Iota => f.write_str("iota"),
            Tag::Map(op) => f.write_str(op.info().name),
            Tag::Reduce(op) => write!(f, "{REDUCE}{}", op.info().name),
            Tag::At => f.write_str("at"),
            Tag::Concat => f.write_str("concat"),
            Tag::CumSum(direction) => f.write_str(direction.name()),
            Tag::Fused(op) => write!(f, "{FUSED}{}", op.info().name),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tag.fmt(f)
    }
}

/// Why a word of a rule is no operator.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` with {1} arguments is no operator")]
pub struct UnknownOperator(String, usize);

impl FromOp for Term {
    type Error = UnknownOperator;

    fn from_op(op: &str, children: Vec<Id>) -> Result<Term, UnknownOperator> {
        let (tag, arity) = if let Some(name) = op.strip_prefix(REDUCE) {
            (ReduceOp::from_name(name).map(Tag::Reduce), 2)
        } else if let Some(name) = op.strip_prefix(FUSED) {
            let fused = FusedOp::from_name(name);
            (fused.map(Tag::Fused), fused.map_or(0, |op| 1 + op.info().arity()))
        } else if let Some(map) = MapOp::from_name(op) {
            (Some(Tag::Map(map)), map.info().arity)
        } else {
            match op {
                "iota" => (Some(Tag::Iota), 1),
                "at" => (Some(Tag::At), 3),
                "cumsum" => (Some(Tag::CumSum(Direction::Forward)), 2),
                "reverse_cumsum" => (Some(Tag::CumSum(Direction::Reverse)), 2),
                // Two parts: the axis, that of each part, the parts.
                "concat" => (Some(Tag::Concat), 5),
                "true" => (Some(Tag::Const(Const::Bool(true))), 0),
                "false" => (Some(Tag::Const(Const::Bool(false))), 0),
                index if index.ends_with('i') => {
                    (index[..index.len() - 1].parse().ok().map(|n| Tag::Const(Const::I64(n))), 0)
                }
                number => (number.parse().ok().map(|x| Tag::Const(Const::f32(x))), 0),
            }
        };
        match tag {
            Some(tag) if children.len() == arity => Ok(Term { tag, children: children.into() }),
            _ => Err(UnknownOperator(op.to_owned(), children.len())),
        }
    }
}

/// What a side of a rule spells.
///
/// # Panics
/// If the text is no pattern: rules are written by us and each is parsed in a test.
pub(crate) fn pattern(text: &str) -> PatternAst<Term> {
    // A reduction is followed by the axis that it binds, which no scalar operator of its name is.
    let mut spelled = String::with_capacity(2 * text.len());
    for (at, part) in text.split('(').enumerate() {
        let (name, rest) = part.split_once(' ').unwrap_or((part, ""));
        let is_reduction = at > 0 && rest.starts_with('@') && ReduceOp::from_name(name).is_some();
        spelled.extend([if at > 0 { "(" } else { "" }, if is_reduction { REDUCE } else { "" }, part]);
    }
    spelled.replace('@', "?@").parse().unwrap_or_else(|e| panic!("the pattern `{text}`: {e}"))
}

/// The variable of that name, with its `?` or `@`.
pub(crate) fn variable(name: &str) -> egg::Var {
    name.replace('@', "?@").parse().unwrap_or_else(|e| panic!("the variable `{name}`: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_text_in_the_names_of_the_operator_tables() {
        let p = pattern("(fused.attend @j (max ?s (max @j ?s)) (at @i ?v (iota @j)))");
        assert_eq!(p.to_string(), "(fused.attend ?@j (max ?s (reduce.max ?@j ?s)) (at ?@i ?v (iota ?@j)))");
    }

    #[test]
    fn a_wrong_arity_is_no_pattern() {
        assert!("(mul ?x)".parse::<egg::Pattern<Term>>().is_err());
        assert!("(unheard_of ?x)".parse::<egg::Pattern<Term>>().is_err());
    }
}
