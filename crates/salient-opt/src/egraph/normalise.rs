//! From a graph to terms, in normal forms that need no search.
//!
//! Differences become sums and quotients products (unless the source must be kept to the bit), comparisons of affine
//! indices get one form whatever they were written as, negations sink into comparisons, and a masked value stands in
//! the first arm of its `select`. What needs a proof or a choice is the rules' business.

mod choices;
mod complements;
mod extremes;

use crate::facts::affine::Affine;
use crate::facts::{Classes, Property};
use crate::graph::demanded::DemandedRead;
use crate::lang::{Tag, Term};
use crate::options::Fp;
use egg::Id;
use salient_ir::{AxisId, Const, DType, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::HashMap;

/// How many operators deep the sign of a value is looked for: those of a softmax.
const SIGN_DEPTH: usize = 6;

/// Every node of the graph as a class; the result gives the class of each node. `demanded` are reads that are made in any case.
pub(crate) fn insert(g: &Graph, classes: &mut Classes, fp: Fp, demanded: &[DemandedRead]) -> Vec<Id> {
    let mut n =
        Normaliser { classes, fp, axes: HashMap::new(), negations: HashMap::new(), integral: HashMap::new() };
    let mut ids: Vec<Id> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let args: Vec<Id> = g.args(id).iter().map(|a| ids[a.index()]).collect();
        let class = n.node(g, id, &args);
        let class = n.classes.find(class);
        let reads = demanded.iter().filter(|read| read.index == id);
        n.classes.analysis.demanded.extend(reads.map(|read| (read.axis, class, read.axes.clone())));
        // The name is kept by the class and does not feed any other fact, so it may be written directly.
        if g.node(id).name.is_some() || g.node(id).origin.is_some() {
            let source = u32::try_from(id.index()).expect("fewer than 2^32 nodes");
            n.classes[class].data.source.get_or_insert(source);
        }
        ids.push(class);
    }
    ids
}

/// The float that is nearest to the root of 2 / pi.
const SQRT_2_OVER_PI: f32 = (std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2) as f32;

struct Normaliser<'a> {
    classes: &'a mut Classes,
    fp: Fp,
    axes: HashMap<AxisId, Id>,
    /// What conjunctions and disjunctions are when they do not hold.
    negations: HashMap<Id, Id>,
    /// Numbers that are made of indices, as functions of them.
    integral: HashMap<Id, Affine>,
}

impl Normaliser<'_> {
    fn node(&mut self, g: &Graph, id: NodeId, args: &[Id]) -> Id {
        let position = |n: usize| u32::try_from(n).expect("fewer than 2^32 ports");
        match g.op(id) {
            Op::Input(n) => self.add(Tag::Input(position(*n)), &[]),
            Op::Param(n) => self.add(Tag::Param(position(*n)), &[]),
            Op::Const(c) => self.literal(*c),
            Op::Iota(axis) => self.along(Tag::Iota, *axis, &[]),
            Op::Extent(dim) => self.extent(dim),
            Op::Map(op) => self.map(*op, args),
            Op::Reduce(op, axis) => self.along(Tag::Reduce(*op), *axis, args),
            Op::At(axis) => {
                let known = &self.classes.analysis;
                let [of, index] = [0, 1].map(|n| &self.classes[args[n]].data);
                // What is the same everywhere along the axis is so at any of its positions.
                if !of.axes.contains(*axis) && known.is_inside(index, *axis) {
                    return args[0];
                }
                let read = self.along(Tag::At, *axis, args);
                self.note_read(*axis, args, read);
                read
            }
            Op::Concat(axis, parts) => {
                let mut children = vec![self.axis(*axis)];
                children.extend(parts.iter().map(|p| self.axis(*p)));
                children.extend(args);
                self.add(Tag::Concat, &children)
            }
            Op::CumSum(direction, axis) => self.along(Tag::CumSum(*direction), *axis, args),
            Op::Fused(op, axis) => self.along(Tag::Fused(*op), *axis, args),
        }
    }

    fn add(&mut self, tag: Tag, children: &[Id]) -> Id {
        self.classes.add(Term::new(tag, children))
    }

    fn axis(&mut self, axis: AxisId) -> Id {
        let classes = &mut *self.classes;
        *self.axes.entry(axis).or_insert_with(|| classes.add(Term::new(Tag::Axis(axis), &[])))
    }

    fn along(&mut self, tag: Tag, axis: AxisId, args: &[Id]) -> Id {
        let mut children = vec![self.axis(axis)];
        children.extend(args);
        self.add(tag, &children)
    }

    fn literal(&mut self, c: Const) -> Id {
        self.add(Tag::Const(c), &[])
    }

    fn extent(&mut self, dim: &Dim) -> Id {
        match dim.as_constant() {
            Some(n) => self.literal(Const::I64(n)),
            None => {
                let at = self.classes.analysis.dim(dim);
                self.add(Tag::Extent(at), &[])
            }
        }
    }

    fn constant(&self, id: Id) -> Option<Const> {
        self.classes[id].data.constant
    }

    fn is_float(&self, id: Id) -> bool {
        self.classes[id].data.dtype == DType::F32
    }

    fn map(&mut self, op: MapOp, args: &[Id]) -> Id {
        if let Some(folded) = self.folded(op, args) {
            return folded;
        }
        let made = self.in_normal_form(op, args);
        self.note_integral(op, args, made);
        made
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others stand as they were written")]
    fn in_normal_form(&mut self, op: MapOp, args: &[Id]) -> Id {
        let plain = |n: &mut Self| n.add(Tag::Map(op), args);
        match op {
            MapOp::Sub if self.is_float(args[0]) => {
                let negative = self.map(MapOp::Neg, &args[1..]);
                self.map(MapOp::Add, &[args[0], negative])
            }
            MapOp::Neg if self.is_float(args[0]) => {
                let minus_one = self.literal(Const::f32(-1.0));
                self.map(MapOp::Mul, &[args[0], minus_one])
            }
            MapOp::Div if self.fp == Fp::Default => {
                let recip = self.add(Tag::Map(MapOp::Recip), &args[1..]);
                self.map(MapOp::Mul, &[args[0], recip])
            }
            MapOp::Pow => self.pow(args),
            // Rounded quotients have rounded roots: this one is written as a literal too, by every GELU.
            MapOp::Sqrt if self.fp == Fp::Default && self.is_two_over_pi(args[0]) => {
                self.literal(Const::f32(SQRT_2_OVER_PI))
            }
            MapOp::ToF32 => self.number(args[0]),
            MapOp::Min | MapOp::Max if let Some(step) = self.step(op, args) => step,
            MapOp::Add if let Some(left) = self.left_over(args) => left,
            MapOp::Add if let Some(left) = self.complement(args) => left,
            MapOp::Add | MapOp::Mul | MapOp::Min | MapOp::Max | MapOp::And | MapOp::Or => {
                // A literal stands second.
                if self.constant(args[0]).is_some() && self.constant(args[1]).is_none() {
                    self.add(Tag::Map(op), &[args[1], args[0]])
                } else {
                    plain(self)
                }
            }
            MapOp::Eq | MapOp::Ne | MapOp::Lt | MapOp::Le => self.compare(op, args[0], args[1]),
            MapOp::Not => self.not(args[0]),
            MapOp::Select => self.select(args[0], args[1], args[2]),
            _ => plain(self),
        }
    }

    /// An integer as a number. A distance of indices has one sign: the first axis counts up.
    fn number(&mut self, x: Id) -> Id {
        let affine = self.classes[x].data.affine.clone();
        // The opposite of zero is -0.
        let free = self.fp == Fp::Default;
        let Some(affine) = affine.filter(|a| free && a.terms.len() > 1) else {
            return self.add(Tag::Map(MapOp::ToF32), &[x]);
        };
        let negative = affine.terms[0].1 < 0;
        let up = if negative { Affine::dim(Dim::constant(0)).plus(&affine, -1) } else { Some(affine) };
        let Some(up) = up else { return self.add(Tag::Map(MapOp::ToF32), &[x]) };
        let above = self.sum_of(up.terms.iter().filter(|(_, c)| *c > 0).copied(), &up.offset);
        let below: Vec<(AxisId, i64)> =
            up.terms.iter().filter(|(_, c)| *c < 0).map(|(a, c)| (*a, -c)).collect();
        let mut sum = above;
        if !below.is_empty() {
            let below = self.sum_of(below.into_iter(), &Dim::constant(0));
            sum = self.add(Tag::Map(MapOp::Sub), &[above, below]);
        }
        let number = self.add(Tag::Map(MapOp::ToF32), &[sum]);
        if negative { self.map(MapOp::Neg, &[number]) } else { number }
    }

    fn is_two_over_pi(&self, id: Id) -> bool {
        let near = |c: Const| (c.value() - std::f64::consts::FRAC_2_PI).abs() < f64::from(f32::EPSILON);
        self.constant(id).is_some_and(near)
    }

    /// Small powers by what they abbreviate.
    fn pow(&mut self, args: &[Id]) -> Id {
        let exponent = match self.constant(args[1]) {
            Some(Const::F32(bits)) if self.fp == Fp::Default => Some(f32::from_bits(bits)),
            Some(Const::F32(_) | Const::I32(_) | Const::I64(_) | Const::Bool(_)) | None => None,
        };
        // The root of a negative number is NaN either way, that of -0 differs in its sign only, and of -inf the power is a
        // number.
        let data = &self.classes[args[0]].data;
        let rooted = data.has(Property::NonNegative) | data.has(Property::Unmasked);
        let rooted = self.classes.analysis.is_shown(rooted, data.axes.as_slice())
            || self.is_never_negative(args[0], SIGN_DEPTH);
        let root = |n: &mut Self| n.add(Tag::Map(MapOp::Sqrt), &args[..1]);
        match exponent {
            Some(1.0) => args[0],
            Some(2.0) => self.add(Tag::Map(MapOp::Mul), &[args[0], args[0]]),
            Some(3.0) => {
                let square = self.add(Tag::Map(MapOp::Mul), &[args[0], args[0]]);
                self.add(Tag::Map(MapOp::Mul), &[square, args[0]])
            }
            Some(0.5) if rooted => root(self),
            Some(-0.5) if rooted => {
                let root = root(self);
                self.add(Tag::Map(MapOp::Recip), &[root])
            }
            Some(-1.0) => self.add(Tag::Map(MapOp::Recip), &args[..1]),
            Some(_) => self.add(Tag::Map(MapOp::Pow), args),
            None => self.exponential(args).unwrap_or_else(|| self.add(Tag::Map(MapOp::Pow), args)),
        }
    }

    /// Whether every element is zero, positive or NaN, and none is -0, of which the reciprocal is -inf: by how the value is written, so
    /// many operators deep. [`Property::NonNegative`] is for numbers alone, which weights of any data need not be.
    fn is_never_negative(&self, id: Id, depth: usize) -> bool {
        let term = self.written(id);
        let all = |args: &[Id]| depth > 0 && args.iter().all(|arg| self.is_never_negative(*arg, depth - 1));
        #[expect(clippy::wildcard_enum_match_arm, reason = "others may be negative")]
        match term.tag {
            Tag::Const(c) => c.value().is_sign_positive(),
            Tag::Map(MapOp::Exp | MapOp::Abs) => true,
            Tag::Map(MapOp::Add | MapOp::Mul | MapOp::Div | MapOp::Recip | MapOp::Sqrt) => {
                all(&term.children)
            }
            Tag::Map(MapOp::Select) => all(&term.children[1..]),
            Tag::Reduce(ReduceOp::Sum) => all(&term.children[1..]),
            _ => false,
        }
    }

    /// A power of a literal is an exponential. An exponent that is no data, as that of a frequency, keeps all of its digits; one to
    /// the power of -inf is one.
    fn exponential(&mut self, args: &[Id]) -> Option<Id> {
        let base = self.constant(args[0])?.value();
        let is_base = base > 0.0 && base.is_finite() && base != 1.0;
        if !is_base || self.fp == Fp::Strict || !self.classes[args[1]].data.is_data {
            return None;
        }
        let rate = self.literal(Const::f32(base.ln() as f32));
        let exponent = self.map(MapOp::Mul, &[args[1], rate]);
        Some(self.add(Tag::Map(MapOp::Exp), &[exponent]))
    }

    /// Comparisons of affine values become `0 <= difference` with every term on the side where it is positive.
    fn compare(&mut self, op: MapOp, a: Id, b: Id) -> Id {
        if let Some(truth) = self.compares_extreme(op, a, b) {
            return truth;
        }
        let gap = |n: &Self, a: Id, b: Id, by: i64| {
            let mut gap = n.integral(b)?.plus(&n.integral(a)?, -1)?;
            gap.offset = &gap.offset + &Dim::constant(by);
            // Numbers without an index stay what a division is guarded by.
            (!n.is_float(a) || !gap.terms.is_empty()).then_some(gap)
        };
        let by = if op == MapOp::Lt { -1 } else { 0 };
        let Some(mut gap) = gap(self, a, b, by) else {
            // A literal stands second where the order is free.
            let swap = op.info().commutative && self.constant(a).is_some() && self.constant(b).is_none();
            let (a, b) = if swap { (b, a) } else { (a, b) };
            return self.add(Tag::Map(op), &[a, b]);
        };
        let order = if matches!(op, MapOp::Eq | MapOp::Ne) {
            // Both signs mean the same: the first axis is the positive one.
            if gap.terms.first().is_some_and(|(_, c)| *c < 0) {
                gap = Affine::dim(Dim::constant(0)).plus(&gap, -1).unwrap_or(gap);
            }
            op
        } else {
            MapOp::Le
        };
        let below =
            self.sum_of(gap.terms.iter().filter(|(_, c)| *c < 0).map(|(a, c)| (*a, -c)), &Dim::constant(0));
        let above = self.sum_of(gap.terms.iter().filter(|(_, c)| *c > 0).copied(), &gap.offset);
        self.add(Tag::Map(order), &[below, above])
    }

    fn sum_of(&mut self, terms: impl Iterator<Item = (AxisId, i64)>, offset: &Dim) -> Id {
        let mut sum: Option<Id> = None;
        for (axis, c) in terms {
            let mut term = self.along(Tag::Iota, axis, &[]);
            if c != 1 {
                let c = self.literal(Const::I64(c));
                term = self.add(Tag::Map(MapOp::Mul), &[term, c]);
            }
            sum = Some(match sum {
                None => term,
                Some(sum) => self.add(Tag::Map(MapOp::Add), &[sum, term]),
            });
        }
        match sum {
            Some(sum) if offset.as_constant() == Some(0) => sum,
            Some(sum) => {
                let offset = self.extent(offset);
                self.add(Tag::Map(MapOp::Add), &[sum, offset])
            }
            None => self.extent(offset),
        }
    }

    /// The term of a class as it was inserted: classes have one until the rules run.
    fn written(&self, id: Id) -> Term {
        self.classes[id].nodes[0].clone()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the negation of others stands as it is")]
    fn not(&mut self, x: Id) -> Id {
        let term = self.written(x);
        let child = |n: usize| term.children[n];
        let Tag::Map(op) = term.tag else { return self.add(Tag::Map(MapOp::Not), &[x]) };
        let integers = || !self.is_float(term.children[0]);
        match op {
            MapOp::Not => child(0),
            MapOp::Le if integers() => self.compare(MapOp::Lt, child(1), child(0)),
            MapOp::Lt if integers() => self.compare(MapOp::Le, child(1), child(0)),
            MapOp::Eq => self.compare(MapOp::Ne, child(0), child(1)),
            MapOp::Ne => self.compare(MapOp::Eq, child(0), child(1)),
            MapOp::And | MapOp::Or => {
                if let Some(known) = self.negations.get(&x) {
                    return *known;
                }
                let (a, b) = (self.not(child(0)), self.not(child(1)));
                let dual = if op == MapOp::And { MapOp::Or } else { MapOp::And };
                let negation = self.map(dual, &[a, b]);
                self.negations.insert(x, negation);
                negation
            }
            _ => self.add(Tag::Map(MapOp::Not), &[x]),
        }
    }

    /// What masks (-inf, zero, a literal) stands in the second arm, what is masked in the first.
    fn select(&mut self, c: Id, yes: Id, no: Id) -> Id {
        if let Some((x, zero)) = self.positive_part(c, yes, no) {
            return self.add(Tag::Map(MapOp::Max), &[x, zero]);
        }
        let masks = |n: &Self, id: Id| n.constant(id).is_some();
        if masks(self, yes) && !masks(self, no) && !self.guards_itself(c, yes, no) {
            let c = self.not(c);
            return self.add(Tag::Map(MapOp::Select), &[c, no, yes]);
        }
        // Between two literals the greater is what is let through: an additive mask is `select(keep, 0, -inf)`.
        if let (Some(a), Some(b)) = (self.constant(yes), self.constant(no))
            && a.value() < b.value()
        {
            let c = self.not(c);
            return self.add(Tag::Map(MapOp::Select), &[c, no, yes]);
        }
        self.add(Tag::Map(MapOp::Select), &[c, yes, no])
    }

    /// `if x > 0 then x else 0` is no mask but the greater of the two: the value, and zero.
    fn positive_part(&self, c: Id, yes: Id, no: Id) -> Option<(Id, Id)> {
        let term = self.written(c);
        if !matches!(term.tag, Tag::Map(MapOp::Lt | MapOp::Le)) {
            return None;
        }
        let is_zero = |id: Id| self.constant(id) == Some(Const::f32(0.0));
        let (less, more) = (term.children[0], term.children[1]);
        let above = is_zero(less) && more == yes && is_zero(no);
        let below = is_zero(more) && less == no && is_zero(yes);
        let found = if above { (yes, no) } else { (no, yes) };
        // Of NaN the choice is zero and the greater is NaN; of -0 it is either zero.
        let data = &self.classes[found.0].data;
        let number = self.classes.analysis.is_shown(data.has(Property::Number), data.axes.as_slice());
        ((above || below) && number && self.fp == Fp::Default).then_some(found)
    }

    /// `if z == 0 then 1 else z`: the idiom that guards a division keeps its form.
    fn guards_itself(&self, c: Id, yes: Id, no: Id) -> bool {
        let term = self.written(c);
        let one = self.constant(yes).is_some_and(|c| c.value() == 1.0);
        term.tag == Tag::Map(MapOp::Eq)
            && term.children[0] == no
            && one
            && !self.classes[no].data.has(Property::Unit).is_some()
    }
}
