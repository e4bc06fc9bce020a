//! The facts about a term from the facts about its children: one function for each class of operators.

use super::affine::Affine;
use super::witness::{Position, Witnesses};
use super::{Classes, Facts, Known, OpenReads, Properties, Property, integers};
use crate::fp::Fp;
use crate::lang::{Tag, Term};
use egg::Id;
use salient_ir::op::{Curve, Weights};
use salient_ir::{AxisId, AxisSet, Const, DType, Dim, FusedOp, MapOp, ReduceOp, Typing};
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
        Tag::Concat | Tag::CumSum => own,
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
        Tag::Reduce(op) => reduce(known.fp, op, axis(0), child(1)),
        Tag::At => at(term, axis(0), child(1), child(2)),
        Tag::Concat => concat(term, &child),
        Tag::CumSum => {
            let (axis, x) = (axis(0), child(1));
            let mut axes = x.axes.clone();
            axes.insert(axis);
            let kept = match known.fp {
                Fp::Default => Properties::of(&[Property::Finite, Property::NonNegative, Property::Unmasked]),
                Fp::Strict => Properties::of(&[Property::NonNegative]),
            };
            let properties = x.properties.and(kept);
            Facts { properties, ..Facts::new(x.dtype, axes) }
        }
        Tag::Fused(op) => {
            let args: Vec<&Facts> = (1..term.children.len()).map(child).collect();
            fused(op, axis(0), &args)
        }
    }
}

fn stored(known: &Known, port: usize) -> Facts {
    let (dtype, axes) = known.ports[port].clone();
    let assumed = known.fp == Fp::Default && !known.unsure.contains(&port);
    let properties = Properties::default().with_if(assumed && dtype == DType::F32, Property::Finite);
    Facts { properties, given: true, ..Facts::new(dtype, axes) }
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

fn map(egraph: &Classes, op: MapOp, args: &[&Facts], ids: &[Id]) -> Facts {
    let known = &egraph.analysis;
    let dtype = match op.info().typing {
        Typing::Float => DType::F32,
        Typing::Arithmetic | Typing::Integer => args[0].dtype,
        Typing::Compare | Typing::Logic => DType::Bool,
        Typing::Select => args[1].dtype,
        Typing::Cast(to) => to,
        Typing::Draw => DType::F32,
    };
    let axes = args.iter().fold(AxisSet::new(), |s, a| s.union(&a.axes));
    let mut f = Facts::new(dtype, axes);
    f.constant = fold(op, dtype, args);
    match dtype {
        DType::F32 => {
            float(op, args, known, &mut f);
            let square = op == MapOp::Mul && egraph.find(ids[0]) == egraph.find(ids[1]);
            f.properties =
                f.properties.with_if(square && args[0].has(Property::Score), Property::NonNegative);
            f.properties = f.properties.with_if(is_number(op, args, f.properties), Property::Number);
            if known.fp == Fp::Strict && !op.info().exact {
                // It may overflow and underflow: what is at least zero stays so.
                f.properties = f.properties.and(Properties::of(&[Property::NonNegative]));
                (f.finite_at, f.positive_at) = (Witnesses::nowhere(), Witnesses::nowhere());
            }
            f.given = matches!(op, MapOp::Select) && args[1..].iter().all(|a| is_factor(a));
        }
        DType::I32 | DType::I64 => {
            f.affine = integers::affine(op, args);
            f.bounds = integers::bounds(known, &f.axes, op, |n| args[n].bounds.clone());
        }
        DType::Bool => {
            truth(egraph, op, args, ids, &mut f);
            let always = f.true_at == Witnesses::Everywhere;
            if always || f.false_at == Witnesses::Everywhere {
                f.constant = Some(Const::Bool(always));
            }
        }
        DType::F16 | DType::BF16 => unreachable!("storage types are widened where they are read"),
    }
    f
}

/// The value of an operator on literals.
fn fold(op: MapOp, dtype: DType, args: &[&Facts]) -> Option<Const> {
    let mut values = [0.0; 3];
    for (v, arg) in values.iter_mut().zip(args) {
        *v = arg.constant?.value();
    }
    let x = (op.info().eval)(&values[..args.len()]);
    let exact = x.fract() == 0.0 && x.abs() < 9.0e15;
    match dtype {
        DType::F32 => (!x.is_nan()).then(|| Const::f32(x as f32)),
        DType::I64 => exact.then_some(Const::I64(x as i64)),
        DType::I32 if exact => i32::try_from(x as i64).ok().map(Const::I32),
        DType::Bool => Some(Const::Bool(x != 0.0)),
        DType::I32 | DType::F16 | DType::BF16 => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "nothing is known of other operators")]
fn truth(egraph: &Classes, op: MapOp, args: &[&Facts], ids: &[Id], f: &mut Facts) {
    let known = &egraph.analysis;
    // `b - a + by`, of which the sign decides a comparison of `a` with `b`.
    let gap = |a: usize, b: usize, by: i64| -> Option<Affine> {
        let mut gap = args[b].affine.as_ref()?.plus(args[a].affine.as_ref()?, -1)?;
        gap.offset = &gap.offset + &Dim::constant(by);
        Some(gap)
    };
    let at_least_zero = |gap: Option<Affine>| gap.map(|g| known.nonnegative_at(&g)).unwrap_or_default();
    match op {
        MapOp::Le => {
            f.true_at = at_least_zero(gap(0, 1, 0));
            f.false_at = at_least_zero(gap(1, 0, -1));
        }
        MapOp::Lt => {
            f.true_at = at_least_zero(gap(0, 1, -1));
            f.false_at = at_least_zero(gap(1, 0, 0));
        }
        MapOp::Eq | MapOp::Ne => {
            let both = at_least_zero(gap(0, 1, 0)).and(&at_least_zero(gap(1, 0, 0)));
            let equal = both.or(&equal_where_renamed(egraph, args, ids));
            let apart = at_least_zero(gap(0, 1, -1)).or(&at_least_zero(gap(1, 0, -1)));
            (f.true_at, f.false_at) = if op == MapOp::Eq { (equal, apart) } else { (apart, equal) };
        }
        MapOp::And => {
            f.true_at = args[0].true_at.and(&args[1].true_at);
            f.false_at = args[0].false_at.or(&args[1].false_at);
        }
        MapOp::Or => {
            f.true_at = args[0].true_at.or(&args[1].true_at);
            f.false_at = args[0].false_at.and(&args[1].false_at);
        }
        MapOp::Not => {
            f.true_at = args[0].false_at.clone();
            f.false_at = args[0].true_at.clone();
        }
        MapOp::Select => {
            let [c, a, b] = args else { unreachable!("select takes three arguments") };
            let arms =
                |yes: &Witnesses, no: &Witnesses| c.true_at.and(yes).or(&c.false_at.and(no)).or(&yes.and(no));
            f.true_at = arms(&a.true_at, &b.true_at);
            f.false_at = arms(&a.false_at, &b.false_at);
        }
        // Nothing is known of others.
        _ => {}
    }
}

/// `document[i] == document[j]` holds at `j = i`.
fn equal_where_renamed(egraph: &Classes, args: &[&Facts], ids: &[Id]) -> Witnesses {
    let mut out = Witnesses::nowhere();
    for (n, m) in [(0, 1), (1, 0)] {
        if let Some((base, from, to)) = args[n].renamed
            && egraph.find(base) == egraph.find(ids[m])
            && args[n].dtype != DType::F32
        {
            let both = [(from, Position::Along(to)), (to, Position::Along(from))];
            let mut at = Witnesses::At(both.into_iter().collect());
            if let Witnesses::At(list) = &mut at {
                list.sort();
            }
            out = out.or(&at);
        }
    }
    out
}

/// Whether a value with these properties is NaN only where a factor is.
fn is_number(op: MapOp, args: &[&Facts], known: Properties) -> bool {
    let number = |a: &&Facts| a.dtype != DType::F32 || a.has(Property::Number);
    let product = op == MapOp::Mul && args.iter().all(|a| a.constant.is_none() && (a.given || number(a)));
    // What is not known to be finite or -inf may be NaN by itself.
    known.has(Property::Score) && (product || args.iter().all(number))
}

/// What may stand in a product by the contract: numbers as they were given, and what is known not to be -inf.
fn is_factor(x: &Facts) -> bool {
    x.given || x.has(Property::Unmasked)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of other operators their rows say what is known")]
fn float(op: MapOp, args: &[&Facts], known: &Known, f: &mut Facts) {
    use Property::{Finite, NonNegative, Positive, Score, Unit, Unmasked};
    let has = |n: usize, p: Property| args[n].properties.has(p);
    let all = |p: Property| args.iter().all(|a| a.properties.has(p));
    let finite_at = || args.iter().fold(Witnesses::Everywhere, |w, a| w.and(&a.finite_at));
    let factors_finite_at = || {
        let number = |a: &Facts| is_factor(a) && a.has(Finite);
        let of = |a: &Facts| if number(a) { Witnesses::Everywhere } else { a.finite_at.clone() };
        args.iter().fold(Witnesses::Everywhere, |w, a| w.and(&of(a)))
    };
    let positive_at = || args.iter().fold(Witnesses::Everywhere, |w, a| w.and(&a.positive_at));
    let none = Properties::default();
    match op {
        MapOp::Neg => {
            // What is at most -inf's opposite: +inf is outside of the contract.
            f.properties = none.with_if(has(0, Finite), Finite).with_if(has(0, Finite), Unmasked);
            f.finite_at = finite_at();
        }
        MapOp::Floor => {
            f.properties = none.with_if(has(0, Finite), Finite).with_if(has(0, Unmasked), Unmasked);
            f.finite_at = finite_at();
        }
        MapOp::Abs => {
            f.properties =
                none.with_if(has(0, Finite), Finite).with_if(has(0, Score), NonNegative).with(Unmasked);
            f.finite_at = finite_at();
        }
        MapOp::Recip => {
            f.properties =
                none.with_if(has(0, Positive) && has(0, Finite), Positive).with_if(has(0, Positive), Finite);
            f.properties = f.properties.with_if(has(0, Positive), Unmasked);
        }
        MapOp::Exp => {
            f.properties = none
                .with_if(has(0, Score), Finite)
                .with_if(has(0, Score), NonNegative)
                .with_if(has(0, Finite) && has(0, Unmasked), Positive)
                .with(Unmasked);
            f.finite_at = finite_at();
            f.positive_at = finite_at();
        }
        MapOp::Log => {
            let number = has(0, Positive) && has(0, Finite);
            f.properties = none.with_if(number, Finite).with_if(number, Unmasked);
        }
        MapOp::Sqrt => {
            f.properties = none
                .with(Unmasked)
                .with_if(has(0, NonNegative) && has(0, Finite), Finite)
                .with_if(has(0, NonNegative), NonNegative)
                .with_if(has(0, Positive), Positive);
        }
        MapOp::ToF32 if args[0].dtype == DType::Bool => {
            f.properties = none.with(Unit);
            f.positive_at = args[0].true_at.clone();
        }
        MapOp::ToF32 => {
            let at_least = |by: i64| {
                args[0].affine.as_ref().is_some_and(|v| {
                    let mut v = v.clone();
                    v.offset = &v.offset - &Dim::constant(by);
                    // A number made of a dimension is one of the contract: that of a filled axis.
                    let filled = known.extents.iter();
                    known.assumptions.never_negative(&v, filled, |a| known.extent(a))
                })
            };
            f.properties = none
                .with(Finite)
                .with(Unmasked)
                .with_if(at_least(0), NonNegative)
                .with_if(at_least(1), Positive);
        }
        MapOp::Add => {
            f.properties = none
                .with_if(all(Finite), Finite)
                .with_if(all(Score), Score)
                .with_if(all(Unmasked), Unmasked)
                .with_if(all(NonNegative), NonNegative)
                .with_if(all(NonNegative) && (has(0, Positive) || has(1, Positive)), Positive);
            f.finite_at = finite_at();
        }
        MapOp::Sub => {
            f.properties = none
                .with_if(all(Finite), Finite)
                .with_if(has(0, Score) && has(1, Finite), Score)
                .with_if(has(0, Unmasked) && has(1, Finite), Unmasked);
            f.finite_at = finite_at();
        }
        MapOp::Mul => {
            let scales = |a: usize, b: usize| has(a, Score) && has(b, Positive) && has(b, Finite);
            // A value and a literal are no product: -inf stays what it is, and becomes +inf by a negative one.
            let literal = |n: usize| args[n].constant.map(Const::value);
            let unmasked = match (literal(0), literal(1)) {
                (None, None) => args.iter().all(|a| is_factor(a)),
                (Some(c), _) => (c < 0.0 || has(1, Unmasked)) && c != 0.0,
                (None, Some(c)) => (c < 0.0 || has(0, Unmasked)) && c != 0.0,
            };
            f.properties = none
                .with_if(all(Finite), Finite)
                .with_if(all(Finite) && unmasked, Unmasked)
                .with_if(scales(0, 1) || scales(1, 0), Score)
                .with_if(all(Finite) && all(NonNegative), NonNegative)
                .with_if(all(Finite) && all(Positive), Positive)
                .with_if(all(Unit), Unit);
            f.finite_at = match (literal(0), literal(1)) {
                (None, None) => factors_finite_at(),
                (Some(_), _) | (None, Some(_)) => finite_at(),
            };
            f.positive_at = if all(Finite) { positive_at() } else { Witnesses::nowhere() };
        }
        MapOp::Div => {
            let safe = has(0, Finite) && has(1, Positive);
            f.properties = none
                .with_if(safe, Finite)
                .with_if(safe && is_factor(args[0]), Unmasked)
                .with_if(safe && has(0, NonNegative), NonNegative);
        }
        MapOp::Min | MapOp::Max => {
            // The greater of -inf and a number is a number.
            let lifts = |a: usize, b: usize| op == MapOp::Max && has(a, Score) && has(b, Finite);
            let kept = op == MapOp::Max && (has(0, Unmasked) || has(1, Unmasked));
            f.properties = args[0]
                .properties
                .and(args[1].properties)
                .with_if(lifts(0, 1) || lifts(1, 0), Finite)
                .with_if(kept, Unmasked);
            f.finite_at = finite_at();
            f.positive_at = positive_at();
        }
        MapOp::Select => {
            let [c, a, b] = args else { unreachable!("select takes three arguments") };
            f.properties = a.properties.and(b.properties);
            let arms =
                |yes: &Witnesses, no: &Witnesses| c.true_at.and(yes).or(&c.false_at.and(no)).or(&yes.and(no));
            f.finite_at = arms(&a.finite_at, &b.finite_at);
            f.positive_at = arms(&a.positive_at, &b.positive_at);
        }
        _ => {
            // What the row says of a function that is defined everywhere; of others nothing is known.
            if let Some(curve) = op.info().curve.filter(Curve::is_total) {
                f.properties = none
                    .with_if(has(0, Finite), Finite)
                    .with_if(curve.least.is_finite(), Unmasked)
                    .with_if(curve.least >= 0.0 && has(0, Score), NonNegative);
                f.finite_at = finite_at();
            }
        }
    }
}

fn reduce(fp: Fp, op: ReduceOp, axis: AxisId, x: &Facts) -> Facts {
    use Property::{Finite, NonNegative, Number, Positive, Score, Unit, Unmasked};
    let mut axes = x.axes.clone();
    axes.remove(axis);
    let dtype = if op == ReduceOp::ArgMax { DType::I64 } else { x.dtype };
    let mut f = Facts::new(dtype, axes);
    let has = |p: Property| x.properties.has(p);
    let none = Properties::default();
    match op {
        ReduceOp::Sum if dtype == DType::F32 && fp == Fp::Strict => {
            f.properties = x.properties.and(Properties::of(&[NonNegative]));
        }
        ReduceOp::Sum if dtype == DType::F32 => {
            // One addend above zero and none below: the sum is above zero.
            let positive = has(NonNegative) && x.positive_at.any_along(axis);
            f.properties = none
                .with_if(has(Finite), Finite)
                .with_if(has(Finite), Unmasked)
                .with_if(has(Score), Score)
                .with_if(has(Score), Number)
                .with_if(has(NonNegative), NonNegative)
                .with_if(positive, Positive);
            f.finite_at = Witnesses::everywhere_if(has(Finite));
        }
        ReduceOp::Max if dtype == DType::F32 => {
            f.properties = x
                .properties
                .and(Properties::of(&[Finite, NonNegative, Number, Positive, Unit, Unmasked]))
                .with_if(has(Score) && x.finite_at.any_along(axis), Finite)
                .with_if(x.finite_at.any_along(axis), Unmasked);
            f.finite_at = x.finite_at.without(axis);
        }
        ReduceOp::Min if dtype == DType::F32 => {
            f.properties = x.properties;
        }
        ReduceOp::Any => {
            if x.true_at.any_along(axis) {
                f.true_at = Witnesses::Everywhere;
            } else {
                f.true_at = x.true_at.without(axis);
            }
        }
        ReduceOp::All => {
            if x.false_at.any_along(axis) {
                f.false_at = Witnesses::Everywhere;
            }
            f.true_at = Witnesses::everywhere_if(x.true_at == Witnesses::Everywhere);
        }
        ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax => {}
    }
    f
}

fn at(term: &Term, axis: AxisId, x: &Facts, index: &Facts) -> Facts {
    let mut axes = x.axes.clone();
    axes.remove(axis);
    let mut f = Facts::new(x.dtype, axes.union(&index.axes));
    f.properties = x.properties;
    f.constant = x.constant;
    f.bounds = x.bounds.clone();
    f.given = x.given;
    let everywhere = |w: &Witnesses| Witnesses::everywhere_if(*w == Witnesses::Everywhere);
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
    let mut given = true;
    for n in 0..count {
        let part = axis_of(child(1 + n));
        let x = child(1 + count + n);
        let mut free = x.axes.clone();
        free.remove(part);
        axes = axes.union(&free);
        properties = properties.and(x.properties);
        given &= is_factor(x);
    }
    Facts { properties, given, ..Facts::new(child(1 + count).dtype, axes) }
}

fn fused(op: FusedOp, axis: AxisId, args: &[&Facts]) -> Facts {
    use Property::{Finite, NonNegative, Positive, Score, Unmasked};
    let mut axes = args.iter().fold(AxisSet::new(), |s, a| s.union(&a.axes));
    if op.info().reduces {
        axes.remove(axis);
    } else {
        axes.insert(axis);
    }
    let mut f = Facts::new(DType::F32, axes);
    let (info, s) = (op.info(), args[0]);
    let keeps_a_key = s.has(Score) && s.finite_at.any_along(axis);
    let total = s.has(Finite) && s.has(NonNegative) && s.positive_at.any_along(axis);
    let none = Properties::default();
    // Whether the weights are finite numbers, and whether they are then not negative.
    let (defined, signed) = match info.weights {
        Weights::Given => (s.has(Finite), s.has(NonNegative)),
        Weights::Share => (total, true),
        Weights::Softmax if info.sink => (s.has(Score) && args[args.len() - 1].has(Finite), true),
        Weights::Softmax => (s.has(Score), true),
        Weights::ExpNorm => (keeps_a_key, true),
        Weights::LogSumExp => {
            f.properties =
                none.with_if(s.has(Score), Score).with_if(keeps_a_key, Finite).with_if(keeps_a_key, Unmasked);
            return f;
        }
    };
    if info.has_values() {
        // A sum of products.
        let (v, finite) = (args[1], defined && args[1].has(Finite));
        f.properties = none
            .with_if(finite, Finite)
            .with_if(finite && signed && v.has(NonNegative), NonNegative)
            .with_if(finite, Unmasked)
            .with_if(finite, Property::Number);
        return f;
    }
    let (positive, kept) = if info.weights == Weights::Share {
        (s.has(Finite) && s.has(Positive), total.then_some(&s.positive_at))
    } else {
        let kept = if info.sink { defined } else { keeps_a_key };
        (defined && s.has(Finite) && s.has(Unmasked), kept.then_some(&s.finite_at))
    };
    f.properties =
        none.with_if(defined, Finite).with_if(defined && signed, NonNegative).with_if(positive, Positive);
    f.positive_at = kept.cloned().unwrap_or_else(Witnesses::nowhere);
    f
}
