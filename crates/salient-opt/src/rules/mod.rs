//! The rules, as tables: one file a family, one row a rule.
//!
//! `README.md` beside this file is their law. A row says nothing about how it is searched or recorded
//! (`saturate`); the tests instantiate every row on random and hostile data.

mod activations;
mod attention;
mod contraction;
mod masks;
mod positions;
mod sinks;
mod softmax;
mod sums;

use crate::facts::Classes;
use crate::facts::witness::Witnesses;
use crate::facts::{Facts, Known, Proof, Property, SENTINEL, is_sentinel};
use crate::lang::{self, Tag, Term};
use egg::{ENodeOrVar, Id, Pattern, PatternAst, Subst, Var};
use salient_ir::{AxisId, DType};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Every family, in the order in which their rules are tried.
pub const FAMILIES: &[(&str, &[RuleRow])] = &[
    ("sums", sums::ROWS),
    ("masks", masks::ROWS),
    ("softmax", softmax::ROWS),
    ("positions", positions::ROWS),
    ("attention", attention::ROWS),
    ("sinks", sinks::ROWS),
    ("contraction", contraction::ROWS),
    ("activations", activations::ROWS),
];

/// Every row of every family.
pub fn all_rules() -> impl Iterator<Item = &'static RuleRow> {
    FAMILIES.iter().flat_map(|(_, rows)| rows.iter())
}

/// A rule: where the left side is found and every guard says yes, the right side equals it.
#[derive(Clone, Copy, Debug)]
pub struct RuleRow {
    /// `family/what`.
    pub name: &'static str,
    /// The left side, in the text of `lang::pattern`.
    pub left: &'static str,
    /// The right side.
    pub right: &'static str,
    /// What must be known; a guard that does not know says no.
    pub when: &'static [Guard],
    /// In what sense the sides are equal.
    pub holds: Holds,
    /// Whether the left side stays worth extracting.
    pub kind: Kind,
    /// The variables: type and the axes they may depend on, `f32[i, j]`. `@j` is the axis `j`.
    pub vars: &'static [(&'static str, &'static str)],
    /// The mathematics, in one line.
    pub why: &'static str,
}

/// In what sense the two sides of a rule are equal, under the contract of the default mode (inputs finite, overflow
/// ignored).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// Bit for bit.
    Exactly,
    /// Bit for bit, but for the sign of a zero.
    ButSigns,
    /// In real arithmetic; floats may round differently.
    Rounding,
    /// As `Rounding`, and the right side may be a number where the left is NaN or infinite.
    Refining,
}

impl Holds {
    /// The word for it in documents.
    pub fn name(self) -> &'static str {
        match self {
            Holds::Exactly => "exactly",
            Holds::ButSigns => "exactly but for signs of zeros",
            Holds::Rounding => "rounding",
            Holds::Refining => "refining",
        }
    }
}

/// Whether a rule leaves both of its sides to be chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The right side is the normal form: the left one is not extracted again.
    Directed,
    /// Either side may be chosen.
    Both,
}

/// What must be known of a match. Variables are named as in the sides of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The value does not depend on the axis.
    Free(&'static str, &'static str),
    /// The value depends on the axis.
    Along(&'static str, &'static str),
    /// The value depends on no axis on which the other one does not depend.
    Within(&'static str, &'static str),
    /// The value depends on fewer axes than the other one, each of them one on which that depends.
    Narrower(&'static str, &'static str),
    /// The value depends on an axis on which the other one does not depend.
    Beyond(&'static str, &'static str),
    /// The value depends on no axis.
    Scalar(&'static str),
    /// The value depends on some axis.
    Tensor(&'static str),
    /// The value depends on an input of the model, not on parameters alone.
    Data(&'static str),
    /// The value is there at every position: no index inside of it leaves its axis. What one side computes where the
    /// other does not must be so.
    Total(&'static str),
    /// As [`Guard::Total`], or the axis is not empty: what one side computes only where the axis has positions must be so.
    TotalOrFilled(&'static str, &'static str),
    /// Where the axis has no positions the value is a number all the same: it is no maximum over that axis and not divided by
    /// a sum over it. What the right side multiplies there and the left one does not must be so.
    NumberWithout(&'static str, &'static str),
    /// Every read inside of the value of which an index may leave its axis is made wherever the other one is read, which
    /// stays: a call that the left side refuses is refused without the value too.
    Covered(&'static str, &'static str),
    /// The left side does not look at the value: a choice that is decided leaves it out.
    Unread(&'static str),
    /// The value is a factor of the left side, which the rule multiplies with others in another grouping. Of the match
    /// nothing is asked but that it is no literal NaN or infinity: by the contract such values are numbers, and their
    /// products stay within the range of floats in any grouping. The harness holds every other rule to all magnitudes.
    Factor(&'static str),
    /// The value was rounded at its own scale already, as a sum is: a factor that it is given before something cancels, and not
    /// behind that, loses no digits that are there.
    Rounded(&'static str),
    /// Every element has the property.
    Is(&'static str, Property),
    /// Every row along the axis has an element that is not masked: a finite one among finite ones and -inf.
    KeepsKey(&'static str, &'static str),
    /// The mask lets a key through in every row along the axis.
    LetsThrough(&'static str, &'static str),
    /// The axis has one position.
    One(&'static str),
    /// The axis is not empty.
    Filled(&'static str),
    /// A sentinel: a finite literal that stands for -inf.
    Sentinel(&'static str),
    /// Both values are literals, and their product rounds to one.
    Reciprocals(&'static str, &'static str),
}

impl Guard {
    /// The variable that it is about, and the axis or the other variable if it names one.
    pub(crate) fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Guard::Within(x, y) | Guard::Narrower(x, y) | Guard::Beyond(x, y) => (x, Some(y)),
            Guard::Covered(x, y) | Guard::Reciprocals(x, y) => (x, Some(y)),
            Guard::Free(x, a) | Guard::Along(x, a) | Guard::TotalOrFilled(x, a) => (x, Some(a)),
            Guard::NumberWithout(x, a) | Guard::KeepsKey(x, a) | Guard::LetsThrough(x, a) => (x, Some(a)),
            Guard::Scalar(x)
            | Guard::Tensor(x)
            | Guard::Data(x)
            | Guard::Total(x)
            | Guard::Unread(x)
            | Guard::Factor(x)
            | Guard::Rounded(x)
            | Guard::Is(x, _)
            | Guard::One(x)
            | Guard::Filled(x)
            | Guard::Sentinel(x) => (x, None),
        }
    }

    /// Whether it is known to hold of values with these facts, the variable it is about and the other one it names, wherever
    /// the axes `filled` have positions.
    fn holds(self, known: &Known, x: &Facts, other: Option<&Facts>, filled: &[AxisId]) -> bool {
        let axis = other.and_then(|o| o.axis);
        let along = |w: &Witnesses| axis.map_or(Proof::NONE, |a| w.any_along(known, a));
        let shown = |proof: Proof| known.is_shown(proof, filled);
        match self {
            Guard::Free(..) => axis.is_some_and(|a| !x.axes.contains(a)),
            Guard::Along(..) => axis.is_some_and(|a| x.axes.contains(a)),
            Guard::Within(..) => other.is_some_and(|y| x.axes.is_subset(&y.axes)),
            Guard::Narrower(..) => {
                other.is_some_and(|y| x.axes.is_subset(&y.axes) && x.axes.len() < y.axes.len())
            }
            Guard::Beyond(..) => other.is_some_and(|y| !x.axes.is_subset(&y.axes)),
            Guard::Scalar(_) => x.axes.is_empty(),
            Guard::Tensor(_) => !x.axes.is_empty(),
            Guard::Data(_) => x.is_data,
            Guard::Total(_) => x.is_total(),
            Guard::TotalOrFilled(..) => x.is_total() || axis.is_some_and(|a| known.is_filled(a)),
            Guard::NumberWithout(..) => {
                axis.is_some_and(|a| known.is_filled(a) || known.is_number_without(x, a, filled))
            }
            Guard::Covered(..) => other.is_some_and(|y| x.open_reads.is_within(&y.unconditional_reads)),
            Guard::Unread(_) => true,
            Guard::Factor(_) => x.constant.is_none_or(|c| c.value().is_finite()),
            Guard::Rounded(_) => x.rounded,
            Guard::Is(_, property) => shown(x.has(property)),
            Guard::KeepsKey(..) => shown(x.has(Property::Score) & along(&x.finite_at)),
            Guard::LetsThrough(..) => shown(along(&x.true_at)),
            Guard::One(_) => x.axis.is_some_and(|a| known.extents[a.index()].as_constant() == Some(1)),
            Guard::Filled(_) => x.axis.is_some_and(|a| known.is_filled(a)),
            Guard::Sentinel(_) => x.dtype == DType::F32 && x.constant.is_some_and(|c| is_sentinel(c.value())),
            Guard::Reciprocals(..) => x.dtype == DType::F32 && other.is_some_and(|y| are_reciprocals(x, y)),
        }
    }

    /// Whether it asks for a property of values. The others say what the pattern matches: that they fail is no news.
    pub fn asks_for_proof(self) -> bool {
        match self {
            Guard::Is(..) | Guard::KeepsKey(..) | Guard::LetsThrough(..) => true,
            Guard::Total(_) | Guard::TotalOrFilled(..) | Guard::Covered(..) | Guard::Filled(_) => true,
            Guard::NumberWithout(..) => true,
            Guard::Free(..)
            | Guard::Along(..)
            | Guard::Within(..)
            | Guard::Narrower(..)
            | Guard::Beyond(..)
            | Guard::Scalar(_)
            | Guard::Tensor(_)
            | Guard::Data(_)
            | Guard::Unread(_)
            | Guard::Factor(_)
            | Guard::Rounded(_)
            | Guard::One(_)
            | Guard::Sentinel(_)
            | Guard::Reciprocals(..) => false,
        }
    }

    /// The guard in words, for documents and for saying why something did not fuse.
    pub fn text(self) -> String {
        match self {
            Guard::Free(x, a) => format!("{x} does not depend on {a}"),
            Guard::Along(x, a) => format!("{x} depends on {a}"),
            Guard::Within(x, y) => format!("{x} depends on no axis on which {y} does not"),
            Guard::Narrower(x, y) => format!("{x} depends on fewer axes than {y}, and on no other"),
            Guard::Beyond(x, y) => format!("{x} depends on an axis on which {y} does not"),
            Guard::Scalar(x) => format!("{x} is a scalar"),
            Guard::Tensor(x) => format!("{x} is not a scalar"),
            Guard::Data(x) => format!("{x} depends on an input"),
            Guard::Total(x) => format!("every index inside of {x} stays within its axis"),
            Guard::TotalOrFilled(x, a) => {
                format!("every index inside of {x} stays within its axis, or {a} is not empty")
            }
            Guard::NumberWithout(x, a) => format!("{x} is a number where {a} is empty, or {a} is not empty"),
            Guard::Covered(x, y) => {
                format!("every read inside of {x} that may leave its axis is made wherever {y} is read")
            }
            Guard::Unread(x) => format!("{x} is not looked at"),
            Guard::Factor(x) => format!("{x} is a factor, a number within the bounds of the contract"),
            Guard::Rounded(x) => format!("{x} was rounded at its own scale, as a sum is"),
            Guard::Is(x, Property::Finite) => format!("{x} is finite"),
            Guard::Is(x, Property::Score) => format!("{x} is finite or -inf"),
            Guard::Is(x, Property::NonNegative) => format!("{x} is at least zero"),
            Guard::Is(x, Property::Positive) => format!("{x} is above zero"),
            Guard::Is(x, Property::Number) => format!("{x} is nowhere NaN"),
            Guard::Is(x, Property::Unmasked) => format!("{x} is nowhere -inf"),
            Guard::Is(x, Property::Unit) => format!("{x} is zero or one"),
            Guard::KeepsKey(s, a) => format!("every row of {s} along {a} keeps a key"),
            Guard::LetsThrough(m, a) => format!("{m} lets a key through in every row along {a}"),
            Guard::One(a) => format!("{a} has one position"),
            Guard::Filled(a) => format!("{a} is not empty"),
            Guard::Sentinel(x) => format!("{x} is a finite literal at or below {SENTINEL:e}"),
            Guard::Reciprocals(x, y) => format!("{x} and {y} are literals whose product rounds to one"),
        }
    }
}

/// Whether two values are literals whose product is one in 32 bits, as the factor to another base and the one back are.
fn are_reciprocals(x: &Facts, y: &Facts) -> bool {
    let (Some(x), Some(y)) = (x.constant, y.constant) else { return false };
    (x.value() as f32) * (y.value() as f32) == 1.0
}

/// A row made ready to be searched.
#[derive(Debug)]
pub struct Rule {
    /// Its row.
    pub row: RuleRow,
    /// The left side.
    pub left: Pattern<Term>,
    /// The operators of the left side, each once.
    tags: BTreeSet<Tag>,
    /// The right side.
    pub right: PatternAst<Term>,
    /// The variables of each guard, and the axes along which both sides run wherever they read the first.
    guards: Vec<(Guard, Var, Option<Var>, Vec<Var>)>,
}

impl Rule {
    /// Parses a row.
    ///
    /// # Panics
    /// If a side does not parse, or the right side or a guard has a variable that the left side does not bind.
    pub fn new(row: &RuleRow) -> Rule {
        let (left, right) = (Pattern::new(lang::pattern(row.left)), lang::pattern(row.right));
        let bound: Vec<Var> = left.vars();
        let check = |var: Var| {
            assert!(bound.contains(&var), "{}: {var} is not bound on the left", row.name);
            var
        };
        for part in right.iter() {
            if let ENodeOrVar::Var(var) = part {
                check(*var);
            }
        }
        let guards = row.when.iter().map(|guard| {
            let (x, other) = guard.names();
            let x = check(lang::variable(x));
            let mut around = Vec::new();
            for side in [&left.ast, &right] {
                bound_around(side, Id::from(side.len() - 1), x, &mut Vec::new(), &mut around);
            }
            let first = around.first().cloned().unwrap_or_default();
            let along = first.into_iter().filter(|axis| around.iter().all(|axes| axes.contains(axis)));
            (*guard, x, other.map(|y| check(lang::variable(y))), along.collect())
        });
        let guards = guards.collect();
        let tag = |part: &ENodeOrVar<Term>| match part {
            ENodeOrVar::ENode(term) => Some(term.tag),
            ENodeOrVar::Var(_) => None,
        };
        let tags = left.ast.iter().filter_map(tag).collect();
        Rule { row: *row, left, tags, right, guards }
    }

    /// Whether all operators of the left side occur: where one is missing nothing is to be found.
    pub(crate) fn may_be_found(&self, classes: &Classes) -> bool {
        self.tags.iter().all(|tag| classes.classes_for_op(tag).is_some())
    }

    /// The position of the first guard that does not know that it holds for the match, of which `root` is the left side. What
    /// is asked of a value has to hold where the sides read it: there the axes of the match and those that both sides bind
    /// around it have positions.
    pub fn refused_by(&self, classes: &Classes, root: Id, subst: &Subst) -> Option<usize> {
        let facts = |var: Var| &classes[subst[var]].data;
        let own = classes[root].data.axes.as_slice();
        self.guards.iter().position(|(guard, x, other, along)| {
            let bound = along.iter().filter_map(|axis| facts(*axis).axis);
            let filled: SmallVec<[AxisId; 8]> = own.iter().copied().chain(bound).collect();
            !guard.holds(&classes.analysis, facts(*x), other.map(facts), &filled)
        })
    }
}

/// The variable of the axis along which a term of a side runs.
pub(crate) fn axis_of(ast: &PatternAst<Term>, term: &Term) -> Var {
    let ENodeOrVar::Var(axis) = ast[term.children[0]] else { panic!("an axis is a variable") };
    axis
}

/// Adds for each place where a part of a side reads a variable the axes that are bound around it.
fn bound_around(ast: &PatternAst<Term>, part: Id, var: Var, bound: &mut Vec<Var>, found: &mut Vec<Vec<Var>>) {
    match &ast[part] {
        ENodeOrVar::Var(read) => found.extend((*read == var).then(|| bound.clone())),
        ENodeOrVar::ENode(term) => {
            for (n, child) in term.children.iter().enumerate() {
                let outside = bound.len();
                bound.extend(term.combines(n).then(|| axis_of(ast, term)));
                bound_around(ast, *child, var, bound, found);
                bound.truncate(outside);
            }
        }
    }
}

/// The element type and the axes in the declaration of a variable, `f32[i, j]`.
///
/// # Panics
/// If the text is no such declaration.
pub fn declared(text: &str) -> (DType, Vec<&str>) {
    let (dtype, rest) = text.split_once('[').unwrap_or_else(|| panic!("`{text}` is no declaration"));
    let dtype = DType::from_name(dtype).unwrap_or_else(|| panic!("`{dtype}` is no type"));
    let axes = rest.trim_end_matches(']').split(',').map(str::trim).filter(|a| !a.is_empty()).collect();
    (dtype, axes)
}

/// The tables as a document, for `docs/rules.md`.
pub fn document() -> String {
    let mut out = String::from(
        "# The rules\n\nGenerated from the tables in `crates/salient-opt/src/rules`; a test compares.\n\n\
         A rule holds *exactly* (to the bit), *exactly but for signs of zeros*, by *rounding* (equal in real arithmetic) or by *refining* (as rounding, and \
         a number may stand where the left side is NaN or infinite). `--fp strict` keeps the exact ones. A rule marked \
         with an arrow `=>` is directed: its left side is not extracted again.\n",
    );
    for (family, rows) in FAMILIES {
        out.push_str(&format!("\n## {family}\n"));
        for row in *rows {
            let arrow = match row.kind {
                Kind::Directed => "=>",
                Kind::Both => "<=>",
            };
            out.push_str(&format!("\n**{}** ({}): {}\n\n", row.name, row.holds.name(), row.why));
            let left = row.left.split_whitespace().collect::<Vec<_>>().join(" ");
            out.push_str(&format!("    {left}\n    {arrow} {}\n", row.right));
            for guard in row.when {
                out.push_str(&format!("    where {}\n", guard.text()));
            }
        }
    }
    out
}
