//! The facts about a term from the facts about its children: one function for each class of operators.

use super::affine::Affine;
use super::elementwise::map;
use super::float::is_factor;
use super::reductions::{fused, reduce};
use super::witness::Witnesses;
use super::{Classes, Facts, Known, OpenReads, Proof, Properties, Property};
use crate::lang::{Tag, Term};
use crate::options::Fp;
use salient_ir::{AxisId, AxisSet, Const, DType, Dim, MapOp};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The facts about a term, from those about its children.
pub(super) fn infer(egraph: &Classes, term: &Term) -> Facts {
    let mut facts = by_operator(egraph, term);
    let child = |n: usize| &egraph[term.children[n]].data;
    let is_open = term.tag == Tag::At
        && !egraph.analysis.is_inside(child(2), axis_of(child(0)))
        && !is_demanded(egraph, term, &facts.axes);
    let own = if !is_open { OpenReads::default() } else { OpenReads::one(digest(term)) };
    facts.open_reads = (0..term.children.len()).fold(own.clone(), |all, n| all.and(&child(n).open_reads));
    if !facts.is_total() {
        // What may refuse a call is no literal.
        facts.constant = None;
        facts.unconditional_reads = unconditional_reads(&egraph.analysis, term, own, &facts.axes, &child);
    }
    facts
}

/// The reads that may leave their axes and are made at every position at which the term is read; `own` is the term's.
fn unconditional_reads<'a>(
    known: &Known,
    term: &Term,
    own: OpenReads,
    axes: &AxisSet,
    child: &impl Fn(usize) -> &'a Facts,
) -> OpenReads {
    match term.tag {
        Tag::Axis(_) | Tag::Input(_) | Tag::Param(_) | Tag::Const(_) | Tag::Extent(_) | Tag::Iota => own,
        Tag::Map(MapOp::Select) => child(0)
            .unconditional_reads
            .and(&child(1).unconditional_reads.common(&child(2).unconditional_reads)),
        Tag::Map(_) => (0..term.children.len()).fold(own, |all, n| all.and(&child(n).unconditional_reads)),
        // The tensor is read elsewhere.
        Tag::At => own.and(&child(2).unconditional_reads),
        Tag::Reduce(_) | Tag::Fused(_) => {
            let along = axis_of(child(0));
            if !axes.contains(along) && !known.is_filled(along) {
                return own;
            }
            (1..term.children.len()).fold(own, |all, n| all.and(&child(n).unconditional_reads))
        }
        // A position reads one part, or those before it.
        Tag::Concat | Tag::CumSum(_) => own,
    }
}

/// Whether the program as written refuses any call in which the index of a read leaves its axis.
fn is_demanded(egraph: &Classes, read: &Term, axes: &AxisSet) -> bool {
    let (axis, index) = (axis_of(&egraph[read.children[0]].data), egraph.find(read.children[2]));
    let demanded = &egraph.analysis.demanded;
    demanded
        .iter()
        .any(|(along, at, needed)| *along == axis && egraph.find(*at) == index && needed.is_subset(axes))
}

/// A number for a term by what it is made of.
fn digest(term: &Term) -> u64 {
    let mut hasher = DefaultHasher::new();
    term.hash(&mut hasher);
    hasher.finish()
}

fn axis_of(facts: &Facts) -> AxisId {
    facts.axis.expect("an axis stands where an axis belongs")
}

fn by_operator(egraph: &Classes, term: &Term) -> Facts {
    let known = &egraph.analysis;
    let child = |n: usize| &egraph[term.children[n]].data;
    let axis = |n: usize| axis_of(child(n));
    let scalar = AxisSet::new;
    match term.tag {
        Tag::Axis(axis) => Facts { axis: Some(axis), ..Facts::new(DType::I64, scalar()) },
        Tag::Input(n) => stored(known, n as usize),
        Tag::Param(n) => stored(known, known.inputs + n as usize),
        Tag::Const(c) => literal(c),
        Tag::Extent(n) => Facts {
            affine: Some(Affine::dim(known.dims[n as usize].clone())),
            bounds: Some((known.dims[n as usize].clone(), known.dims[n as usize].clone())),
            filled: known.counted(&known.dims[n as usize]),
            ..Facts::new(DType::I64, scalar())
        },
        Tag::Iota => {
            let axis = axis(0);
            Facts {
                affine: Some(Affine::index(axis)),
                bounds: Some((Dim::constant(0), known.extent(axis) - &Dim::constant(1))),
                ..Facts::new(DType::I64, [axis].into_iter().collect())
            }
        }
        Tag::Map(op) => {
            let args: Vec<&Facts> = (0..term.children.len()).map(child).collect();
            map(egraph, op, &args, &term.children)
        }
        Tag::Reduce(op) => reduce(known, op, axis(0), child(1)),
        Tag::At => at(term, axis(0), child(1), child(2)),
        Tag::Concat => concat(term, &child),
        Tag::CumSum(_) => {
            let (axis, x) = (axis(0), child(1));
            let mut axes = x.axes.clone();
            axes.insert(axis);
            let kept = match known.fp {
                Fp::Default => Properties::of(&[Property::Finite, Property::NonNegative, Property::Unmasked]),
                Fp::Strict => Properties::of(&[Property::NonNegative]),
            };
            let properties = x.properties.and(kept);
            let rounded = x.dtype == DType::F32;
            Facts { properties, rounded, filled: x.filled, regular: x.regular, ..Facts::new(x.dtype, axes) }
        }
        Tag::Fused(op) => {
            let args: Vec<&Facts> = (1..term.children.len()).map(child).collect();
            fused(known, op, axis(0), &args)
        }
    }
}

fn stored(known: &Known, port: usize) -> Facts {
    let (dtype, axes) = known.ports[port].clone();
    let assumed = known.fp == Fp::Default && !known.unsure.contains(&port);
    let properties = Properties::default().with_if(assumed && dtype == DType::F32, Property::Finite);
    let elsewhere = if known.computed.contains(&port) { known.all_filled() } else { Proof::ALWAYS };
    Facts { properties, filled: elsewhere, regular: elsewhere, given: true, ..Facts::new(dtype, axes) }
}

pub(super) fn literal(c: Const) -> Facts {
    let x = c.value();
    let mut f = Facts { constant: Some(c), ..Facts::new(c.dtype(), AxisSet::new()) };
    match c {
        Const::F32(_) => {
            f.properties = Properties::default()
                .with_if(x.is_finite(), Property::Finite)
                .with_if(x.is_finite(), Property::Unmasked)
                .with_if(!x.is_nan(), Property::Number)
                .with_if(x.is_finite() || x == f64::NEG_INFINITY, Property::Score)
                .with_if(x >= 0.0, Property::NonNegative)
                .with_if(x > 0.0, Property::Positive)
                .with_if(x == 0.0 || x == 1.0, Property::Unit);
        }
        Const::I32(_) | Const::I64(_) => {
            let n = Dim::constant(x as i64);
            f.affine = Some(Affine::dim(n.clone()));
            f.bounds = Some((n.clone(), n));
        }
        Const::Bool(b) => {
            f.true_at = Witnesses::everywhere_if(b);
            f.false_at = Witnesses::everywhere_if(!b);
        }
    }
    f
}

fn at(term: &Term, axis: AxisId, x: &Facts, index: &Facts) -> Facts {
    let mut axes = x.axes.clone();
    axes.remove(axis);
    let mut f = Facts::new(x.dtype, axes.union(&index.axes));
    f.properties = x.properties;
    (f.filled, f.regular) = (x.filled & index.filled, x.regular);
    f.constant = x.constant;
    f.bounds = x.bounds.clone();
    (f.given, f.rounded) = (x.given, x.rounded);
    let everywhere = |w: &Witnesses| Witnesses::everywhere_if(w.everywhere());
    f.true_at = everywhere(&x.true_at);
    f.false_at = everywhere(&x.false_at);
    if let Some(index) = &index.affine {
        f.affine = x.affine.as_ref().and_then(|v| v.substitute(axis, index));
        if let ([(to, 1)], Some(0)) = (index.terms.as_slice(), index.offset.as_constant()) {
            f.renamed = Some((term.children[1], axis, *to));
        }
    }
    f
}

fn concat<'a>(term: &Term, child: &impl Fn(usize) -> &'a Facts) -> Facts {
    let count = (term.children.len() - 1) / 2;
    let axis = axis_of(child(0));
    let mut axes: AxisSet = [axis].into_iter().collect();
    let mut properties = child(1 + count).properties;
    let (mut filled, mut regular, mut given) = (Proof::ALWAYS, Proof::ALWAYS, true);
    for n in 0..count {
        let part = axis_of(child(1 + n));
        let x = child(1 + count + n);
        let mut free = x.axes.clone();
        free.remove(part);
        axes = axes.union(&free);
        properties = properties.and(x.properties);
        (filled, regular) = (filled & x.filled, regular & x.regular);
        given &= is_factor(x) == Proof::ALWAYS;
    }
    Facts { properties, filled, regular, given, ..Facts::new(child(1 + count).dtype, axes) }
}
