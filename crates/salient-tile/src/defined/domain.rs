//! Conditions under which a value is defined, in conjunctive normal form, and what proves them.
//!
//! A condition is about integers that are polynomials of axes, dimensions and integers of which nothing is known (data),
//! and about truth values of the graph. Everything here is a proof or gives up: a condition that is not proved stays.

use crate::dims::{AXIS, SUBTRACTED, UNKNOWN, index_of};
use crate::index::{DEEPEST_INDEX, Ranges};
use salient_ir::remainders::{is_multiple, remainder_where};
use salient_ir::{AxisId, DType, Dim, Graph, MapOp, NodeId, Op, Range, Symbol};
use std::collections::BTreeMap;

/// What each free axis of a node stands for: a polynomial of the symbols of [`Terms`].
pub(super) type Position = BTreeMap<AxisId, Dim>;

/// One statement about a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    /// The polynomial is at least zero.
    Nonnegative(Dim),
    /// The truth value of a node at a place is `holds`.
    Truth { node: NodeId, place: Position, holds: bool },
    /// A node is defined at a place.
    Defined { node: NodeId, place: Position },
}

/// At least one of its literals holds.
pub(super) type Clause = Vec<Literal>;
/// All of its clauses hold; without any, it holds everywhere.
pub(super) type Domain = Vec<Clause>;

/// Quotients of a polynomial that are multiplied out to prove it.
const DEEPEST_QUOTIENT: usize = 2;

/// What is known where a condition holds.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Polynomials that are at least zero.
    nonnegative: Vec<Dim>,
    literals: Vec<Literal>,
}

/// The symbols of polynomials: one for each axis, and a difference of two for each integer of which nothing is known,
/// since a symbol by itself is never negative.
pub(super) struct Terms<'g> {
    g: &'g Graph,
    unknown: Vec<(NodeId, Position)>,
    /// What each of them may be, by the form of its node alone.
    ranges: Vec<Range>,
    /// What nodes may be that were asked for.
    of_nodes: BTreeMap<NodeId, Range>,
    numbers: BTreeMap<(NodeId, Position), usize>,
    /// Those that are quotients, by number: what is divided, and the positive number by which.
    quotients: BTreeMap<u32, (Dim, i64)>,
    polynomials: BTreeMap<(NodeId, Position), Dim>,
}

/// What a symbol of a polynomial stands for.
pub(super) enum Meaning<'t> {
    Axis(AxisId),
    /// An integer of the graph at a place.
    Unknown(NodeId, &'t Position),
    /// The part of an unknown integer that is subtracted; the other part stands for the whole.
    Nothing,
    Dimension,
}

impl<'g> Terms<'g> {
    pub(super) fn new(g: &'g Graph) -> Terms<'g> {
        Terms {
            g,
            unknown: Vec::new(),
            ranges: Vec::new(),
            of_nodes: BTreeMap::new(),
            numbers: BTreeMap::new(),
            quotients: BTreeMap::new(),
            polynomials: BTreeMap::new(),
        }
    }

    /// Every axis of a node as its own symbol.
    pub(super) fn own_position(&self, id: NodeId) -> Position {
        self.g.node(id).axes.iter().map(|a| (a, self.axis(a))).collect()
    }

    /// The symbol of an axis as a polynomial.
    pub(super) fn axis(&self, axis: AxisId) -> Dim {
        Dim::symbol(index_of(axis))
    }

    /// What a symbol stands for.
    pub(super) fn meaning(&self, symbol: &Symbol) -> Meaning<'_> {
        match symbol {
            Symbol::Special(UNKNOWN, n) => {
                let (node, place) = &self.unknown[*n as usize];
                Meaning::Unknown(*node, place)
            }
            Symbol::Special(SUBTRACTED, _) => Meaning::Nothing,
            Symbol::Special(AXIS, n) => match self.g.axes().nth(*n as usize) {
                Some((axis, _)) => Meaning::Axis(axis),
                None => unreachable!("an axis of this graph"),
            },
            Symbol::Special(..) | Symbol::Dimension(_) | Symbol::Variable(..) => Meaning::Dimension,
        }
    }

    /// The polynomial of an integer of which nothing is known.
    fn unknown(&mut self, id: NodeId, place: &Position) -> Dim {
        let [whole, part] = self.unknown_symbols(id, place).map(Dim::symbol);
        &whole - &part
    }

    /// The two symbols of which such an integer is the difference.
    fn unknown_symbols(&mut self, id: NodeId, place: &Position) -> [Symbol; 2] {
        let axes = &self.g.node(id).axes;
        let place: Position =
            place.iter().filter(|(a, _)| axes.contains(**a)).map(|(a, d)| (*a, d.clone())).collect();
        let entry = (id, place.clone());
        let next = self.unknown.len();
        let n = *self.numbers.entry(entry.clone()).or_insert(next);
        if n == next {
            self.unknown.push(entry);
            let range = self.range(id);
            self.ranges.push(range);
            self.note_quotient(id, &place, n as u32);
        }
        [UNKNOWN, SUBTRACTED].map(|kind| kind.number(n as u32))
    }

    /// Notes what an unknown integer divides, if it is a quotient by a positive number.
    fn note_quotient(&mut self, id: NodeId, place: &Position, number: u32) {
        if *self.g.op(id) != Op::Map(MapOp::IntDiv) {
            return;
        }
        let args = self.g.args(id);
        let [p, q] = [0, 1].map(|n| self.polynomial(args[n], place));
        if let Some(by) = q.as_constant().filter(|by| *by > 0) {
            self.quotients.insert(number, (p, by));
        }
    }

    /// What an integer node may be anywhere: a bucket of distances lies between the numbers that it is chosen from.
    fn range(&mut self, id: NodeId) -> Range {
        if let Some(known) = self.of_nodes.get(&id) {
            return *known;
        }
        let g = self.g;
        let args = g.args(id);
        let is_deep = g.node(id).depth > DEEPEST_INDEX;
        let extent = |dim: &Dim| dim.as_constant().map_or(i128::from(i64::MAX), i128::from);
        let found = match g.op(id) {
            _ if g.node(id).dtype == DType::Bool => Range::below(2),
            Op::Map(_) | Op::At(_) if is_deep => Range::I64,
            Op::Const(c) if c.dtype().is_int() => Range::only(c.value() as i64),
            Op::Iota(axis) => Range::below(extent(g.extent(*axis))),
            Op::Extent(dim) if dim.as_constant().is_some() => Range::only(extent(dim)),
            Op::Extent(_) => Range { least: 0, ..Range::I64 },
            Op::At(_) => self.range(args[0]),
            Op::Map(op) if g.node(id).dtype.is_int() => {
                let of: Vec<Range> = args.iter().map(|arg| self.range(*arg)).collect();
                op.info().range.map_or(Range::I64, |range| range(&of))
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Map(_) | Op::Reduce(..) => Range::I64,
            Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => Range::I64,
        };
        self.of_nodes.insert(id, found);
        found
    }

    /// A polynomial that is no greater, without unknown integers: each of them at the end of its range. `None` where one has no
    /// end, or where the polynomial is not linear in it.
    fn without_unknown(&self, p: &Dim) -> Option<Dim> {
        let mut least = p.clone();
        for symbol in p.symbols() {
            let Symbol::Special(UNKNOWN, n) = symbol else { continue };
            let (slope, _) = least.linear_in(&symbol)?;
            let slope = slope.as_constant()?;
            let Range { least: low, greatest: high } = self.ranges[n as usize];
            let end = i64::try_from(if slope >= 0 { low } else { high }).ok()?;
            // What is near the ends of 64 bits says nothing.
            if end.unsigned_abs() > u64::from(u32::MAX) {
                return None;
            }
            let part = SUBTRACTED.number(n);
            least =
                least.substitute(&BTreeMap::from([(symbol, Dim::constant(end)), (part, Dim::constant(0))]));
        }
        (least != *p).then_some(least)
    }

    /// The value of an integer node at a place.
    pub(super) fn polynomial(&mut self, id: NodeId, place: &Position) -> Dim {
        let g = self.g;
        match g.op(id) {
            Op::Iota(axis) => return place.get(axis).cloned().unwrap_or_else(|| self.axis(*axis)),
            Op::Extent(dim) => return dim.clone(),
            Op::Const(c) => return Dim::constant(c.value() as i64),
            Op::Map(_) | Op::At(_) | Op::Input(_) | Op::Param(_) | Op::Reduce(..) => {}
            Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {}
        }
        if g.node(id).depth > DEEPEST_INDEX {
            return self.unknown(id, place);
        }
        let key = (id, place.clone());
        if let Some(known) = self.polynomials.get(&key) {
            return known.clone();
        }
        let found = self.composite(id, place);
        self.polynomials.insert(key, found.clone());
        found
    }

    fn composite(&mut self, id: NodeId, place: &Position) -> Dim {
        let args = self.g.args(id);
        match self.g.op(id) {
            Op::Map(MapOp::Add) => &self.polynomial(args[0], place) + &self.polynomial(args[1], place),
            Op::Map(MapOp::Sub) => &self.polynomial(args[0], place) - &self.polynomial(args[1], place),
            Op::Map(MapOp::Mul) => &self.polynomial(args[0], place) * &self.polynomial(args[1], place),
            Op::Map(MapOp::Neg) => &Dim::constant(0) - &self.polynomial(args[0], place),
            Op::Map(op @ (MapOp::IntDiv | MapOp::Mod)) => {
                let (p, q) = (self.polynomial(args[0], place), self.polynomial(args[1], place));
                let ranges = self.ranges([&p, &q]);
                let positive = q.as_constant().is_none_or(|by| by > 0);
                let quotient =
                    if positive && ranges.nonnegative(&p) { ranges.quotient(&p, &q) } else { None };
                match quotient {
                    Some(quotient) if *op == MapOp::IntDiv => quotient,
                    Some(quotient) => &p - &(&q * &quotient),
                    None => self.unknown(id, place),
                }
            }
            Op::At(axis) => {
                let inner = self.inner_position(*axis, args[1], place);
                self.polynomial(args[0], &inner)
            }
            Op::Map(_) | Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {
                self.unknown(id, place)
            }
            Op::Reduce(..) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => self.unknown(id, place),
        }
    }

    /// The place of the tensor under a view.
    fn inner_position(&mut self, axis: AxisId, index: NodeId, place: &Position) -> Position {
        let index = self.polynomial(index, place);
        let mut inner = place.clone();
        inner.insert(axis, index);
        inner
    }

    /// The condition that `sign * node + offset` is at least zero.
    pub(super) fn nonnegative(&mut self, id: NodeId, place: &Position, sign: i64, offset: &Dim) -> Domain {
        self.nonnegative_within(id, place, sign, offset, DEEPEST_EXTREMUM)
    }

    /// As [`Terms::nonnegative`], looking into so many minima, maxima and choices inside each other.
    fn nonnegative_within(
        &mut self,
        id: NodeId,
        place: &Position,
        sign: i64,
        offset: &Dim,
        depth: usize,
    ) -> Domain {
        let Some(depth) = depth.checked_sub(1) else {
            let value = &(&self.polynomial(id, place) * &Dim::constant(sign)) + offset;
            return vec![vec![Literal::Nonnegative(value)]];
        };
        let args = self.g.args(id);
        let both = |t: &mut Self| [0, 1].map(|n| t.nonnegative_within(args[n], place, sign, offset, depth));
        let found = match (self.g.op(id), sign) {
            (Op::Map(MapOp::Max), 1) | (Op::Map(MapOp::Min), -1) => either(both(self)),
            (Op::Map(MapOp::Max), _) | (Op::Map(MapOp::Min), _) => both(self).concat(),
            // A magnitude is at least zero.
            (Op::Map(MapOp::Abs), 1) if self.is_nonnegative(offset) => Domain::new(),
            (Op::Map(MapOp::Abs), _) => {
                let sides = [1, -1].map(|s| self.nonnegative_within(args[0], place, s, offset, depth));
                if sign == 1 { either(sides) } else { sides.concat() }
            }
            (Op::Map(MapOp::Mod), _) => {
                // A remainder lies in `0..divisor`.
                let divisor = self.polynomial(args[1], place);
                let least = if sign == 1 { offset.clone() } else { &(offset - &divisor) + &Dim::constant(1) };
                let value = &(&self.polynomial(id, place) * &Dim::constant(sign)) + offset;
                let bounded = divisor.is_nonnegative().then_some(Literal::Nonnegative(least));
                vec![[Literal::Nonnegative(value)].into_iter().chain(bounded).collect()]
            }
            (Op::Map(MapOp::Select), _) => {
                let arms = [1, 2].map(|n| self.nonnegative_within(args[n], place, sign, offset, depth));
                let condition = |holds| Literal::Truth { node: args[0], place: place.clone(), holds };
                let [yes, no] = arms;
                [unless(yes, condition(false)), unless(no, condition(true))].concat()
            }
            (Op::Map(MapOp::ToI64 | MapOp::ToI32), _) if self.g.node(args[0]).dtype.is_int() => {
                self.nonnegative_within(args[0], place, sign, offset, depth)
            }
            (Op::At(axis), _) => {
                let inner = self.inner_position(*axis, args[1], place);
                self.nonnegative_within(args[0], &inner, sign, offset, depth)
            }
            _ => {
                let value = &(&self.polynomial(id, place) * &Dim::constant(sign)) + offset;
                vec![vec![Literal::Nonnegative(value)]]
            }
        };
        let nothing = Facts::default();
        found.into_iter().filter(|clause| !self.proves(&nothing, clause)).collect()
    }

    /// The ranges of the axes in some polynomials.
    pub(super) fn ranges<'d>(&self, of: impl IntoIterator<Item = &'d Dim>) -> Ranges {
        let mut ranges = Ranges::default();
        for symbol in of.into_iter().flat_map(Dim::symbols) {
            if let Meaning::Axis(axis) = self.meaning(&symbol) {
                ranges.insert(&symbol, self.g.extent(axis));
            }
        }
        ranges
    }

    /// Whether a polynomial is provably at least zero: an axis that a position has is not empty.
    fn is_nonnegative(&self, p: &Dim) -> bool {
        self.is_nonnegative_as_it_stands(p)
            || self.without_unknown(p).is_some_and(|least| self.is_nonnegative_as_it_stands(&least))
    }

    fn is_nonnegative_as_it_stands(&self, p: &Dim) -> bool {
        let ranges = self.ranges([p]);
        let axes = p.symbols();
        ranges.nonnegative(p)
            || axes.iter().any(|symbol| match self.meaning(symbol) {
                Meaning::Axis(axis) => ranges.nonnegative(&(&(p - self.g.extent(axis)) + &Dim::constant(1))),
                Meaning::Unknown(..) | Meaning::Nothing | Meaning::Dimension => false,
            })
    }

    /// Whether a clause holds wherever the facts do.
    pub(super) fn proves(&self, facts: &Facts, clause: &Clause) -> bool {
        clause.iter().any(|literal| match literal {
            Literal::Nonnegative(p) => self.proves_nonnegative(facts, p, DEEPEST_QUOTIENT),
            Literal::Truth { .. } | Literal::Defined { .. } => facts.literals.contains(literal),
        })
    }

    /// Whether a polynomial is at least zero wherever the facts hold, as it stands or with so many quotients multiplied out.
    fn proves_nonnegative(&self, facts: &Facts, p: &Dim, depth: usize) -> bool {
        let known = &facts.nonnegative;
        self.is_nonnegative(p)
            || known.iter().any(|f| self.is_nonnegative(&(p - f)))
            || known
                .iter()
                .enumerate()
                .any(|(n, f)| known[n + 1..].iter().any(|other| self.is_nonnegative(&(&(p - f) - other))))
            || depth.checked_sub(1).is_some_and(|depth| {
                self.multiplied_out(p).iter().any(|p| self.proves_nonnegative(facts, p, depth))
            })
    }

    /// Polynomials that are at least zero where this one is, and only there, each with one quotient less: `r + a // q >= 0` where
    /// `a + q r >= 0`, and `r - a // q >= 0` where `q r + q - 1 - a >= 0`.
    fn multiplied_out(&self, p: &Dim) -> Vec<Dim> {
        let without = |quotient: &Dim, (a, q): (&Dim, i64), times: i64| {
            let rest = &(p - &(quotient * &Dim::constant(times))) * &Dim::constant(q);
            match times {
                1 => Some(&rest + a),
                -1 => Some(&(&rest + &Dim::constant(q - 1)) - a),
                _ => None,
            }
        };
        let of_symbol = |symbol: &Symbol| {
            let Symbol::Special(UNKNOWN, n) = symbol else { return None };
            let (a, q) = self.quotients.get(n)?;
            let quotient = &Dim::symbol(symbol.clone()) - &Dim::symbol(SUBTRACTED.number(*n));
            without(&quotient, (a, *q), p.linear_in(symbol)?.0.as_constant()?)
        };
        let of_term = |(a, q, times): (Dim, Dim, i64)| {
            without(&a.floor_div(&q)?, (&a, q.as_constant().filter(|q| *q > 0)?), times)
        };
        let symbols = p.symbols();
        let unknown = symbols.iter().filter_map(of_symbol);
        unknown.chain(p.quotient_terms().into_iter().filter_map(of_term)).collect()
    }

    /// Adds what follows if a truth value at a place is `holds`.
    pub(super) fn learn(&mut self, id: NodeId, place: &Position, holds: bool, facts: &mut Facts) {
        let (g, args) = (self.g, self.g.args(id));
        let literal = Literal::Truth { node: id, place: place.clone(), holds };
        if facts.literals.len() >= MOST_FACTS || facts.literals.contains(&literal) {
            return;
        }
        facts.literals.push(literal);
        match (g.op(id), holds) {
            (Op::Map(MapOp::And), true) | (Op::Map(MapOp::Or), false) => {
                args.iter().for_each(|a| self.learn(*a, place, holds, facts));
            }
            (Op::Map(MapOp::Not), _) => self.learn(args[0], place, !holds, facts),
            (Op::Map(op @ (MapOp::Lt | MapOp::Le)), _) if g.node(args[0]).dtype.is_int() => {
                let strict = (*op == MapOp::Lt) == holds;
                let (less, more) = if holds { (args[0], args[1]) } else { (args[1], args[0]) };
                self.learn_order(less, more, strict, place, facts);
            }
            (Op::Map(MapOp::Eq), true) | (Op::Map(MapOp::Ne), false) if g.node(args[0]).dtype.is_int() => {
                self.learn_order(args[0], args[1], false, place, facts);
                self.learn_order(args[1], args[0], false, place, facts);
                self.learn_remainder((args[0], args[1]), true, place, facts);
                self.learn_remainder((args[1], args[0]), true, place, facts);
            }
            (Op::Map(MapOp::Eq), false) | (Op::Map(MapOp::Ne), true) if g.node(args[0]).dtype.is_int() => {
                self.learn_remainder((args[0], args[1]), false, place, facts);
                self.learn_remainder((args[1], args[0]), false, place, facts);
            }
            (Op::At(axis), _) => {
                let inner = self.inner_position(*axis, args[1], place);
                self.learn(args[0], &inner, holds, facts);
            }
            _ => {}
        }
    }

    /// `p % q` is `rest`, or is not: the least and the greatest position for which that is so.
    fn learn_remainder(
        &mut self,
        (remainder, rest): (NodeId, NodeId),
        holds: bool,
        place: &Position,
        facts: &mut Facts,
    ) {
        let args = self.g.args(remainder);
        if *self.g.op(remainder) != Op::Map(MapOp::Mod) {
            return;
        }
        let [p, q, rest] = [args[0], args[1], rest].map(|id| self.polynomial(id, place));
        let (Some(q), Some(rest)) = (q.as_constant(), rest.as_constant()) else { return };
        if !(0..q).contains(&rest) || !self.is_nonnegative(&p) {
            return;
        }
        let known = remainder_where(q, rest, holds);
        let least = known.unwrap_or(i64::from(rest == 0));
        facts.nonnegative.push(&p - &Dim::constant(least));
        let (Some(known), Some(symbol)) = (known, p.as_symbol()) else { return };
        if let Meaning::Axis(axis) = self.meaning(symbol) {
            let extent = self.g.extent(axis);
            if is_multiple(self.g, extent, q) {
                facts.nonnegative.push(&(extent - &p) - &Dim::constant(q - known));
            }
        }
    }

    /// `less <= more`, or `less < more`: also of the arguments of minima, maxima and magnitudes.
    fn learn_order(&mut self, less: NodeId, more: NodeId, strict: bool, place: &Position, facts: &mut Facts) {
        let (below, above) =
            (self.bounded_by(less, MapOp::Max, place), self.bounded_by(more, MapOp::Min, place));
        let gap = Dim::constant(i64::from(strict));
        for a in &below {
            facts.nonnegative.extend(above.iter().map(|b| &(b - a) - &gap));
        }
    }

    /// The value of a node, and of each argument where it is the given extremum of them.
    fn bounded_by(&mut self, id: NodeId, extremum: MapOp, place: &Position) -> Vec<Dim> {
        let args = self.g.args(id);
        let mut out = vec![self.polynomial(id, place)];
        if *self.g.op(id) == Op::Map(extremum) {
            out.extend(args.iter().map(|a| self.polynomial(*a, place)));
        }
        if *self.g.op(id) == Op::Map(MapOp::Abs) && extremum == MapOp::Max {
            let value = self.polynomial(args[0], place);
            out.extend([&Dim::constant(0) - &value, value]);
        }
        out
    }

    /// The condition with an axis standing for something else.
    pub(super) fn substitute(&mut self, domain: &Domain, axis: AxisId, index: &Dim) -> Domain {
        domain.iter().map(|clause| self.substitute_clause(clause, axis, index)).collect()
    }

    pub(super) fn substitute_clause(&mut self, clause: &[Literal], axis: AxisId, index: &Dim) -> Clause {
        let literals = clause.iter().map(|literal| match literal {
            Literal::Nonnegative(p) => Literal::Nonnegative(self.moved(p, axis, index)),
            Literal::Truth { node, place, holds } => {
                Literal::Truth { node: *node, place: self.moved_position(place, axis, index), holds: *holds }
            }
            Literal::Defined { node, place } => {
                Literal::Defined { node: *node, place: self.moved_position(place, axis, index) }
            }
        });
        literals.collect()
    }

    fn moved_position(&mut self, place: &Position, axis: AxisId, index: &Dim) -> Position {
        place.iter().map(|(a, d)| (*a, self.moved(d, axis, index))).collect()
    }

    /// A polynomial with an axis standing for something else, in the places of unknown integers too.
    fn moved(&mut self, p: &Dim, axis: AxisId, index: &Dim) -> Dim {
        if !self.depends_on(p, axis) {
            return p.clone();
        }
        let mut with = BTreeMap::from([(index_of(axis), index.clone())]);
        for symbol in p.symbols() {
            let Symbol::Special(UNKNOWN, n) = symbol else { continue };
            let (node, place) = self.unknown[n as usize].clone();
            let place = self.moved_position(&place, axis, index);
            let moved = self.unknown_symbols(node, &place).map(Dim::symbol);
            with.extend([UNKNOWN, SUBTRACTED].map(|kind| kind.number(n)).into_iter().zip(moved));
        }
        p.substitute(&with)
    }

    /// Whether a polynomial depends on an axis.
    fn depends_on(&self, p: &Dim, axis: AxisId) -> bool {
        p.symbols().iter().any(|symbol| match self.meaning(symbol) {
            Meaning::Axis(own) => own == axis,
            Meaning::Unknown(_, place) => place.values().any(|d| self.depends_on(d, axis)),
            Meaning::Nothing | Meaning::Dimension => false,
        })
    }

    /// How much a polynomial grows from each position of an axis to the next, where that is the same constant everywhere.
    pub(super) fn slope(&self, p: &Dim, axis: AxisId) -> Option<i64> {
        let of_unknown = p.symbols().iter().any(|symbol| match self.meaning(symbol) {
            Meaning::Unknown(_, place) => place.values().any(|d| self.depends_on(d, axis)),
            Meaning::Axis(_) | Meaning::Nothing | Meaning::Dimension => false,
        });
        let (slope, _) = p.linear_in(&index_of(axis))?;
        slope.as_constant().filter(|_| !of_unknown)
    }

    /// Whether a clause depends on the axis.
    pub(super) fn mentions(&self, clause: &[Literal], axis: AxisId) -> bool {
        clause.iter().any(|literal| match literal {
            Literal::Nonnegative(p) => self.depends_on(p, axis),
            Literal::Truth { place, .. } | Literal::Defined { place, .. } => {
                place.values().any(|d| self.depends_on(d, axis))
            }
        })
    }
}

/// Minima, maxima, choices and views inside each other that are looked into.
const DEEPEST_EXTREMUM: usize = 6;

/// Parts of a condition that are looked at.
const MOST_FACTS: usize = 16;

/// One of two conditions.
fn either([a, b]: [Domain; 2]) -> Domain {
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| [x.as_slice(), y].concat()));
    pairs.collect()
}

/// The condition, unless the literal holds.
pub(super) fn unless(domain: Domain, literal: Literal) -> Domain {
    domain
        .into_iter()
        .map(|mut clause| {
            clause.push(literal.clone());
            clause
        })
        .collect()
}
