//! The analysis: what is known of every class of the e-graph.
//!
//! Facts hold under the contract of the default mode (the head of `docs/semantics.md`): the factors of products are finite,
//! overflow and underflow are ignored. Any dimension may be zero, and a fact that takes an axis to have positions says so
//! ([`Proof`]). Facts only grow: when two terms turn out equal, what is known of either is known. Nothing is concluded from the shape of child terms, only from the facts about them.
//!
//! An input is taken to be [`Finite`](Property::Finite), which lets a rule mend what NaN or an infinity would spoil, but
//! never to be [`Unmasked`](Property::Unmasked): a rule that would be wrong for -inf, where what is written is a number,
//! asks for both. So -inf in data that are added to scores masks, whatever they are added by. A sum of products is
//! unmasked, since its factors are numbers by the contract; no score loses its fused form for want of that fact.

pub(crate) mod affine;
mod elementwise;
mod float;
mod infer;
pub(crate) mod integers;
pub(crate) mod literal;
mod proof;
mod properties;
mod reads;
mod reductions;
pub(crate) mod witness;

use crate::lang::{Tag, Term};
use crate::options::Fp;
use affine::{Affine, Assumptions};
use egg::{Analysis, DidMerge, EGraph, Id};
use proof::OpenExtents;
use salient_ir::{AxisId, AxisSet, Const, DType, Dim, Graph, Name, Relation};
use std::collections::{BTreeSet, HashSet};
use witness::{Position, Witnesses};

pub(crate) use proof::Proof;
pub(crate) use properties::Properties;
pub use properties::Property;
pub(crate) use reads::OpenReads;

/// What is known of a class.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The free axes on which the value can depend.
    pub axes: AxisSet,
    /// The element type.
    pub dtype: DType,
    /// The axis, for the class of an axis.
    pub axis: Option<AxisId>,
    /// The value, if it is a literal.
    pub constant: Option<Const>,
    /// The value of an integer as a function of indices.
    pub affine: Option<Affine>,
    /// The least and the greatest value that an integer can have.
    pub bounds: Option<(Dim, Dim)>,
    /// The reads of which an index may leave its axis, as one that is data may.
    pub open_reads: OpenReads,
    /// Those of them that are made wherever the value is read, at the same position: under no choice and in no view.
    pub unconditional_reads: OpenReads,
    /// Whether its elements are those of inputs and parameters, as they were given.
    pub given: bool,
    /// Whether its elements were rounded at their own scale already, as those of a sum are: a further factor loses no digits
    /// that are there.
    pub rounded: bool,
    /// Of an f32.
    pub properties: Properties,
    /// Where it is what it is if every axis has positions: no reduction inside of it goes over none.
    pub filled: Proof,
    /// Where it is a number if data are such that it is one when every axis has positions: in other calls a reduction over no
    /// positions may make it infinite or NaN.
    pub regular: Proof,
    /// Where a truth value is true.
    pub true_at: Witnesses,
    /// Where a truth value is false.
    pub false_at: Witnesses,
    /// Where an f32 is finite.
    pub finite_at: Witnesses,
    /// Where an f32 is above zero.
    pub positive_at: Witnesses,
    /// Set if the value is that of another class with one axis renamed to another: the class, from, to.
    pub renamed: Option<(Id, AxisId, AxisId)>,
    /// Whether it depends on an input: what depends on parameters alone is computed once.
    pub(crate) is_data: bool,
    /// The first node of the source graph in the class: it lends its name and its place.
    pub source: Option<u32>,
}

impl Facts {
    fn new(dtype: DType, axes: AxisSet) -> Facts {
        Facts {
            axes,
            dtype,
            axis: None,
            constant: None,
            affine: None,
            bounds: None,
            open_reads: OpenReads::default(),
            unconditional_reads: OpenReads::default(),
            given: false,
            rounded: false,
            properties: Properties::default(),
            filled: Proof::ALWAYS,
            regular: Proof::ALWAYS,
            true_at: Witnesses::nowhere(),
            false_at: Witnesses::nowhere(),
            finite_at: Witnesses::nowhere(),
            positive_at: Witnesses::nowhere(),
            renamed: None,
            is_data: false,
            source: None,
        }
    }

    /// Whether it has a value at every position: no index of a read leaves its axis.
    pub fn is_total(&self) -> bool {
        self.open_reads == OpenReads::default()
    }

    /// Where a property is known of every element.
    pub fn has(&self, property: Property) -> Proof {
        self.properties.has(property)
    }

    /// Facts that follow from each other are made to agree.
    fn close(mut self) -> Facts {
        let finite = self.has(Property::Finite) & self.has(Property::Unmasked);
        self.finite_at = self.finite_at.or(&Witnesses::everywhere_if(finite));
        self.positive_at = self.positive_at.or(&Witnesses::everywhere_if(self.has(Property::Positive)));
        self
    }
}

/// A use of a rule that changed something.
#[derive(Clone, Debug)]
pub struct Application {
    /// Position of the rule in the set.
    pub rule: usize,
    /// The class of the two sides.
    pub class: Id,
    /// The classes inside the left side, the variables not counted.
    pub inside: Vec<Id>,
    /// What the variables stood for.
    pub subst: egg::Subst,
}

/// A match of a rule that a guard refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Refusal {
    /// Position of the rule in the set.
    pub rule: usize,
    /// Which of its guards.
    pub guard: usize,
    /// The class of the left side.
    pub class: Id,
}

/// The analysis, with what does not change about the model and the record of what the rules did.
#[derive(Debug, Default)]
pub struct Known {
    /// The extent of each axis.
    pub extents: Vec<Dim>,
    /// Those of them that may be zero.
    pub(crate) open: OpenExtents,
    /// Type and axes of inputs, then of parameters.
    pub ports: Vec<(DType, AxisSet)>,
    /// Number of inputs.
    pub inputs: usize,
    /// What the caller allows with floats: where only exact rules may be used, nothing is assumed.
    pub fp: Fp,
    /// Inputs that may hold what is not finite: values computed elsewhere.
    pub unsure: BTreeSet<usize>,
    /// Inputs that are computed elsewhere.
    pub computed: BTreeSet<usize>,
    /// The symbols in the extent of the second axis from the end of an input, which counts rows.
    pub rows: BTreeSet<Name>,
    /// The dimensions that occur as values.
    pub dims: Vec<Dim>,
    /// What the model requires of its dimensions.
    pub assumptions: Assumptions,
    /// Reads that the program as written makes in any case: axis, class of the index, and the axes of the read.
    pub(crate) demanded: Vec<(AxisId, Id, AxisSet)>,
    /// The uses of rules that changed something, in order.
    pub applied: Vec<Application>,
    /// The matches that guards refused.
    pub refused: HashSet<Refusal>,
    /// Left sides of directed rules that matched, with the term at the root of the right side: not to be extracted.
    pub retired: HashSet<(Term, Option<Term>)>,
}

impl Known {
    /// What the graph says about its inputs and dimensions.
    pub fn of(g: &Graph) -> Known {
        let port = |p: &salient_ir::Port| (p.dtype.compute(), p.axes.iter().copied().collect());
        let required: Vec<Dim> = g
            .requirements()
            .iter()
            .filter_map(|r| match &r.relation {
                Relation::AtMost(a, b) => Some(b - a),
                Relation::Equal(..) | Relation::Divides(..) => None,
            })
            .collect();
        let counts_rows = |p: &salient_ir::Port| p.axes.iter().rev().nth(1).copied();
        let rows = g.inputs().iter().filter_map(counts_rows).flat_map(|axis| g.extent(axis).dimensions());
        let mut known = Known {
            extents: g.axes().map(|(_, a)| a.extent.clone()).collect(),
            ports: g.inputs().iter().chain(g.params()).map(port).collect(),
            inputs: g.inputs().len(),
            rows: rows.collect(),
            assumptions: Assumptions { required },
            ..Known::default()
        };
        known.open = OpenExtents::of(&known);
        known
    }

    /// The position of a dimension in the list of those that occur.
    pub fn dim(&mut self, dim: &Dim) -> u32 {
        let at = self.dims.iter().position(|d| d == dim).unwrap_or_else(|| {
            self.dims.push(dim.clone());
            self.dims.len() - 1
        });
        u32::try_from(at).expect("fewer than 2^32 dimensions")
    }

    fn extent(&self, axis: AxisId) -> &Dim {
        &self.extents[axis.index()]
    }

    /// Whether an axis is proved to have a position.
    pub(crate) fn is_filled(&self, axis: AxisId) -> bool {
        let last = self.extent(axis) - &Dim::constant(1);
        self.assumptions.is_nonnegative(&last, [].into_iter())
    }

    /// Whether an index is proved to be a position of the axis wherever it has a value.
    pub(crate) fn is_inside(&self, index: &Facts, axis: AxisId) -> bool {
        let last = self.extent(axis) - &Dim::constant(1);
        let filled = || index.axes.as_slice().iter().map(|a| self.extent(*a));
        let affine = index.affine.as_ref().is_some_and(|at| {
            let proved = |v: &Affine| self.assumptions.never_negative(v, filled(), |a| self.extent(a));
            proved(at) && Affine::dim(last.clone()).plus(at, -1).is_some_and(|rest| proved(&rest))
        });
        affine
            || index
                .bounds
                .as_ref()
                .is_some_and(|bounds| self.lie_inside(bounds, &index.axes, self.extent(axis)))
    }

    /// Whether what lies between these bounds, and depends on these axes, is proved to lie in `0..extent`.
    pub(crate) fn lie_inside(&self, (least, most): &(Dim, Dim), along: &AxisSet, extent: &Dim) -> bool {
        let last = extent - &Dim::constant(1);
        self.is_nonnegative_along(least, along) && self.is_nonnegative_along(&(&last - most), along)
    }

    /// Whether a dimension is proved to be at least zero where axes have positions.
    fn is_nonnegative_along(&self, dim: &Dim, along: &AxisSet) -> bool {
        self.assumptions.is_nonnegative(dim, along.as_slice().iter().map(|a| self.extent(*a)))
    }

    /// Where `0 <= value` holds, as witnesses for each axis that occurs in it.
    fn nonnegative_at(&self, value: &Affine) -> Witnesses {
        let filled = || value.terms.iter().map(|(a, _)| self.extent(*a));
        let proved = |v: &Affine| self.assumptions.never_negative(v, filled(), |a| self.extent(a));
        if proved(value) {
            return Witnesses::everywhere_if(true);
        }
        let mut found = Witnesses::nowhere();
        for (axis, position, at) in self.candidates(value) {
            if value.substitute(axis, &at).is_some_and(|v| proved(&v)) {
                found = found.or(&Witnesses::at([(axis, position)]));
            }
        }
        found
    }

    /// Positions worth trying: for each axis of the value its ends and the positions along the other axes.
    fn candidates(&self, value: &Affine) -> Vec<(AxisId, Position, Affine)> {
        let mut out = Vec::new();
        for (axis, _) in &value.terms {
            let extent = self.extent(*axis);
            out.push((*axis, Position::First, Affine::dim(Dim::constant(0))));
            out.push((*axis, Position::Last, Affine::dim(extent - &Dim::constant(1))));
            for (other, _) in value.terms.iter().filter(|(a, _)| a != axis) {
                let gap = extent - self.extent(*other);
                let mut at = Affine::index(*other);
                if gap == Dim::constant(0) {
                    out.push((*axis, Position::Along(*other), at));
                } else if self.assumptions.is_nonnegative(&gap, [].into_iter()) {
                    at.offset = gap;
                    out.push((*axis, Position::FromEnd(*other), at));
                }
            }
        }
        out
    }
}

/// The greatest sentinel: a finite literal at or below it stands for -inf in scores.
pub(crate) const SENTINEL: f64 = -1e4;

/// Whether a literal is a sentinel.
pub(crate) fn is_sentinel(literal: f64) -> bool {
    literal.is_finite() && literal <= SENTINEL
}

/// An e-graph over our terms, with what is known of each class.
pub(crate) type Classes = EGraph<Term, Known>;

/// The free axes of a term, over those of its children's classes.
pub(crate) fn free_axes(egraph: &Classes, term: &Term) -> AxisSet {
    infer::infer(egraph, term).axes
}

impl Analysis<Term> for Known {
    type Data = Facts;

    fn make(egraph: &mut Classes, term: &Term, _id: Id) -> Facts {
        let mut facts = infer::infer(egraph, term);
        // A literal is known by its value alone: an exponential that underflows is above zero only by the contract.
        if let Some(c) = facts.constant {
            facts = infer::literal(c);
        }
        let from_input = matches!(term.tag, Tag::Input(_));
        let is_data =
            facts.constant.is_none() && (from_input || term.children.iter().any(|c| egraph[*c].data.is_data));
        Facts { is_data, ..facts }.close()
    }

    fn merge(&mut self, a: &mut Facts, b: Facts) -> DidMerge {
        let mut did = DidMerge(false, false);
        let mut note = |ours: bool, theirs: bool| {
            did.0 |= ours;
            did.1 |= theirs;
        };
        let axes = a.axes.intersection(&b.axes);
        note(axes != a.axes, axes != b.axes);
        a.axes = axes;
        let properties = a.properties.or(b.properties);
        note(properties != a.properties, properties != b.properties);
        a.properties = properties;
        for (ours, theirs) in [(&mut a.filled, b.filled), (&mut a.regular, b.regular)] {
            let both = *ours | theirs;
            note(both != *ours, both != theirs);
            *ours = both;
        }
        for (ours, theirs) in [
            (&mut a.true_at, &b.true_at),
            (&mut a.false_at, &b.false_at),
            (&mut a.finite_at, &b.finite_at),
            (&mut a.positive_at, &b.positive_at),
        ] {
            let both = ours.or(theirs);
            note(both != *ours, both != *theirs);
            *ours = both;
        }
        note(a.constant.is_none() && b.constant.is_some(), a.constant.is_some() && b.constant.is_none());
        a.constant = a.constant.or(b.constant);
        note(a.affine.is_none() && b.affine.is_some(), a.affine.is_some() && b.affine.is_none());
        a.affine = a.affine.take().or(b.affine);
        note(a.renamed.is_none() && b.renamed.is_some(), a.renamed.is_some() && b.renamed.is_none());
        a.renamed = a.renamed.or(b.renamed);
        note(a.bounds.is_none() && b.bounds.is_some(), a.bounds.is_some() && b.bounds.is_none());
        a.bounds = a.bounds.take().or(b.bounds);
        // Either term may be extracted: this fact is of all of them.
        let reads = a.open_reads.and(&b.open_reads);
        note(reads != a.open_reads, reads != b.open_reads);
        a.open_reads = reads;
        // Terms that are equal are defined at the same positions.
        let reads = a.unconditional_reads.and(&b.unconditional_reads);
        note(reads != a.unconditional_reads, reads != b.unconditional_reads);
        a.unconditional_reads = reads;
        note(!a.given && b.given, a.given && !b.given);
        a.given |= b.given;
        note(!a.rounded && b.rounded, a.rounded && !b.rounded);
        a.rounded |= b.rounded;
        note(a.is_data && !b.is_data, !a.is_data && b.is_data);
        a.is_data &= b.is_data;
        // The name does not feed any other fact, so nothing needs to be told about it.
        a.source = match (a.source, b.source) {
            (Some(x), Some(y)) => Some(x.min(y)),
            (x, y) => x.or(y),
        };
        did
    }

    fn modify(egraph: &mut Classes, id: Id) {
        if let Some(constant) = egraph[id].data.constant {
            let literal = egraph.add(Term::new(Tag::Const(constant), &[]));
            egraph.union(id, literal);
            // Nothing else of the class is worth finding: 0 = 0 * 0 would be taken apart for ever.
            egraph[id].nodes.retain(|term| term.children.is_empty());
        }
    }
}
