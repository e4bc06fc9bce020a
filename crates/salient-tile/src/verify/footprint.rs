//! What a vector body touches: for every pointer the first and the last byte of each access, as polynomials of the body's
//! integers.
//!
//! A body is run with polynomials instead of numbers, its loops twice: first to see what moves evenly, then to see what is
//! touched. Loops become variables, and so do lanes; pointers that move by the same distance at each turn are polynomials of
//! the turn. An integer from memory may be anything, except where a mask or the length of a strip says that a lane is active:
//! there what the mask compares is known.

mod rounding;
mod touch;

use crate::dims::{BODY_LANE, COMPUTED, LANES, PARAMETER, n, var};
use salient_ir::{Dim, Symbol};
use salient_vector::body::{
    Access, Addr, Body, Carried, Const, Elem, Inst, Loop, LoopKind, Matrix, Place, Section, Value,
};
use salient_vector::{Op, Ty};
use std::collections::{BTreeSet, HashMap, HashSet};

pub(super) use touch::{Def, Reach, Touch};

/// The variable that stands for an integer parameter.
pub(super) fn parameter(at: usize) -> Symbol {
    PARAMETER.number(at as u32)
}

/// Everything that a body touches, by its ends; what it asks for in advance is no access.
pub(super) fn footprint(body: &Body) -> Vec<Touch> {
    touches(body).into_iter().map(Touch::reduced).collect()
}

/// Every access by which a body writes, each with its beginning and its end.
pub(super) fn stores(body: &Body) -> Vec<Touch> {
    touches(body).into_iter().filter(|touch| touch.writes).collect()
}

fn touches(body: &Body) -> Vec<Touch> {
    let known = vec![Known::Other; body.types.len()];
    let mut run = Run {
        body,
        known,
        ops: HashMap::new(),
        even: HashSet::new(),
        defs: vec![(BODY_LANE.clone(), Def::Lane)],
        cells: Vec::new(),
        inside: None,
        is_trial: false,
        fresh: 0,
        touches: Vec::new(),
    };
    for (at, param) in body.params.iter().enumerate() {
        run.known[param.value.index()] = match body.ty(param.value) {
            Ty::Ptr | Ty::PtrMut => Known::Pointer(at, n(0)),
            Ty::Int => Known::Number(var(&parameter(at))),
            Ty::F32 | Ty::I32 | Ty::Mask => Known::Other,
        };
    }
    for section in &body.sections {
        match section {
            Section::Straight(insts) => run.insts(insts),
            Section::Loop(code) => run.repeat(code),
        }
    }
    run.touches
}

/// What is known of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    /// So many bytes after the pointer that is this parameter.
    Pointer(usize, Dim),
    /// An integer, or one in each lane.
    Number(Dim),
    /// A lane in which it is true has these at least zero.
    Mask(Vec<Dim>),
    /// Nothing.
    Other,
}

pub(super) struct Run<'b> {
    body: &'b Body,
    known: Vec<Known>,
    /// The operators so far, by what they define.
    pub(super) ops: HashMap<Value, (Op, Vec<Value>)>,
    /// What is the same in all lanes.
    even: HashSet<Value>,
    /// The variables so far.
    defs: Vec<(Symbol, Def)>,
    /// Integers read through inputs, which nothing writes: read again they are the same.
    cells: Vec<((usize, Dim), Dim)>,
    /// The loop that is walked: its kind, its trip count and its index.
    inside: Option<(LoopKind, Dim, Dim)>,
    /// Whether accesses are of no interest yet.
    is_trial: bool,
    fresh: u32,
    touches: Vec<Touch>,
}

fn lane() -> Dim {
    var(&BODY_LANE)
}

impl Run<'_> {
    pub(super) fn define(&mut self, def: Def) -> Dim {
        self.fresh += 1;
        let name = COMPUTED.number(self.fresh);
        self.defs.push((name.clone(), def));
        var(&name)
    }

    pub(super) fn get(&self, value: Value) -> &Known {
        &self.known[value.index()]
    }

    fn set(&mut self, value: Value, known: Known) {
        self.known[value.index()] = known;
    }

    /// A number, or a variable that may be anything.
    pub(super) fn number(&mut self, value: Value) -> Dim {
        match self.get(value).clone() {
            Known::Number(d) => d,
            Known::Pointer(..) | Known::Mask(_) | Known::Other => {
                let any = self.define(Def::Data);
                self.set(value, Known::Number(any.clone()));
                any
            }
        }
    }

    /// Runs a loop twice: first to see what moves evenly, then to see what is touched.
    fn repeat(&mut self, code: &Loop) {
        let trip = self.number(code.trip);
        let index = self.define(Def::LoopIndex(trip.clone()));
        let init: Vec<Known> = code.carried.iter().map(|c| self.get(c.init).clone()).collect();
        let steps = self.steps(code, &index, &init);
        self.inside = Some((code.kind, trip.clone(), index.clone()));
        self.set(code.index, Known::Number(index.clone()));
        let turns = self.define(Def::Greatest(vec![trip, n(0)]));
        for ((carried, init), step) in code.carried.iter().zip(&init).zip(&steps) {
            self.set(carried.param, advanced(init, step.as_ref(), &index));
        }
        self.insts(&code.insts);
        self.inside = None;
        for ((carried, init), step) in code.carried.iter().zip(&init).zip(&steps) {
            self.set(carried.result, advanced(init, step.as_ref(), &turns));
        }
    }

    /// How far each carried value moves at every turn, in bytes or as a number, if it is the same for all.
    fn steps(&mut self, code: &Loop, index: &Dim, init: &[Known]) -> Vec<Option<Dim>> {
        // All but the index, which was defined last.
        let before = &self.defs[..self.defs.len() - 1];
        let before: BTreeSet<Symbol> = before.iter().map(|(name, _)| name.clone()).collect();
        self.is_trial = true;
        self.inside = Some((code.kind, index.clone(), index.clone()));
        self.set(code.index, Known::Number(index.clone()));
        let mut starts = Vec::new();
        for (carried, init) in code.carried.iter().zip(init) {
            let start = self.define(Def::Data);
            let param = match init {
                Known::Pointer(at, _) => Known::Pointer(*at, start.clone()),
                Known::Number(_) => Known::Number(start.clone()),
                Known::Mask(_) | Known::Other => Known::Other,
            };
            self.set(carried.param, param);
            starts.push(start);
        }
        self.insts(&code.insts);
        let is_fixed = |d: &Dim| {
            d.symbols().iter().all(|name| before.contains(name) || name.is_of(PARAMETER) || *name == LANES)
        };
        let step = |(carried, start): (&Carried, &Dim)| {
            let step = match (self.get(carried.param), self.get(carried.next)) {
                (Known::Pointer(a, _), Known::Pointer(b, next)) if a == b => next - start,
                (Known::Number(_), Known::Number(next)) => next - start,
                _ => return None,
            };
            is_fixed(&step).then_some(step)
        };
        let steps = code.carried.iter().zip(&starts).map(step).collect();
        self.is_trial = false;
        steps
    }

    /// Whether what an instruction gives is the same in all lanes, as far as that is told by what it is computed from.
    fn is_even(&self, inst: &Inst) -> bool {
        match inst {
            Inst::Const { .. } | Inst::LoadInt { .. } | Inst::Address { .. } => true,
            Inst::Op { op: Op::LaneId | Op::First | Op::PrefixSum | Op::SuffixSum, .. } => false,
            Inst::Op { args, .. } => {
                args.iter().all(|arg| self.body.ty(*arg) == Ty::Int || self.even.contains(arg))
            }
            Inst::Load { place, .. } => place.access == Access::One && place.mask.is_none(),
            Inst::Store { .. } | Inst::Transpose { .. } | Inst::Prefetch { .. } => false,
        }
    }

    fn insts(&mut self, insts: &[Inst]) {
        for inst in insts {
            if let Some(out) = inst.out().filter(|_| self.is_even(inst)) {
                self.even.insert(out);
            }
            let known = match inst {
                Inst::Const { value, .. } => match *value {
                    Const::Int(c) => Known::Number(n(c)),
                    Const::I32(c) => Known::Number(n(i64::from(c))),
                    Const::Mask(true) => Known::Mask(Vec::new()),
                    Const::Mask(false) => Known::Mask(vec![n(-1)]),
                    Const::F32(_) => Known::Other,
                },
                Inst::Op { out, op, args } => {
                    self.ops.insert(*out, (*op, args.clone()));
                    self.rounded_down(*out).unwrap_or_else(|| self.op(*op, args))
                }
                Inst::Address { elem, addr, .. } => match self.address(addr, *elem) {
                    Some((pointer, at)) => Known::Pointer(pointer, at),
                    None => Known::Other,
                },
                Inst::Load { elem, place, .. } => {
                    self.touch(inst, *elem, place, false);
                    self.loaded(*elem, place)
                }
                Inst::LoadInt { elem, addr, .. } => {
                    let place = Place { addr: *addr, access: Access::One, mask: None };
                    self.touch(inst, *elem, &place, false);
                    self.loaded(*elem, &place)
                }
                Inst::Store { elem, place, .. } => {
                    self.touch(inst, *elem, place, true);
                    continue;
                }
                Inst::Transpose { from, to, rows, columns } => {
                    self.transposed(inst, (from, to), (*rows, *columns));
                    continue;
                }
                Inst::Prefetch { .. } => continue,
            };
            if let Some(out) = inst.out() {
                self.set(out, known);
            }
        }
    }

    /// What a load gives. One integer of an input is the same however often it is read.
    fn loaded(&mut self, elem: Elem, place: &Place) -> Known {
        match elem {
            Elem::F32 | Elem::F16 => return Known::Other,
            Elem::Bool => return Known::Mask(Vec::new()),
            Elem::I32 => {}
        }
        let address = self.address(&place.addr, elem);
        let is_input = self.body.ty(place.addr.base) == Ty::Ptr;
        let is_cell = is_input && place.access == Access::One && place.mask.is_none();
        let Some(cell) = address.filter(|_| is_cell) else { return Known::Number(self.define(Def::Data)) };
        if let Some((_, value)) = self.cells.iter().find(|(known, _)| *known == cell) {
            return Known::Number(value.clone());
        }
        let value = self.define(Def::Data);
        self.cells.push((cell, value.clone()));
        Known::Number(value)
    }

    fn op(&mut self, op: Op, args: &[Value]) -> Known {
        let numbers = |run: &mut Self| -> Option<Vec<Dim>> {
            let is_number = |v: &Value| matches!(run.body.ty(*v), Ty::Int | Ty::I32);
            args.iter().all(is_number).then(|| args.iter().map(|v| run.number(*v)).collect())
        };
        let masks = |run: &Self| -> Vec<Option<Vec<Dim>>> {
            let mask = |v: &Value| match run.get(*v) {
                Known::Mask(facts) => Some(facts.clone()),
                Known::Pointer(..) | Known::Number(_) | Known::Other => None,
            };
            args.iter().map(mask).collect()
        };
        let is_mask = args.first().is_some_and(|v| self.body.ty(*v) == Ty::Mask);
        if op == Op::LaneId {
            return Known::Number(lane());
        } else if op == Op::LaneCount {
            return Known::Number(var(&LANES));
        } else if op == Op::And && is_mask {
            return Known::Mask(masks(self).into_iter().flatten().flatten().collect());
        } else if op == Op::Not && is_mask {
            // Of one comparison the opposite is known, of several not which of them fails.
            return match masks(self).as_slice() {
                [Some(facts)] if facts.len() == 1 => Known::Mask(vec![&-&facts[0] - &n(1)]),
                _ => Known::Other,
            };
        }
        let Some(of) = numbers(self) else { return Known::Other };
        match (op, of.as_slice()) {
            (Op::Add, [a, b]) => Known::Number(a + b),
            (Op::Sub, [a, b]) => Known::Number(a - b),
            (Op::Mul, [a, b]) => Known::Number(a * b),
            (Op::Neg, [a]) => Known::Number(-a),
            (Op::Splat, [a]) => Known::Number(a.clone()),
            (Op::FirstLane, [a]) if self.even.contains(&args[0]) => Known::Number(a.clone()),
            (Op::Min, _) => Known::Number(self.define(Def::Least(of))),
            (Op::Max, _) => Known::Number(self.define(Def::Greatest(of))),
            (Op::Lt, [a, b]) => Known::Mask(vec![&(b - a) - &n(1)]),
            (Op::Le, [a, b]) => Known::Mask(vec![b - a]),
            (Op::Eq, [a, b]) => Known::Mask(vec![b - a, a - b]),
            (Op::First, [a]) => Known::Mask(vec![&(a - &lane()) - &n(1)]),
            _ => Known::Other,
        }
    }

    /// A pointer, and so many bytes after it.
    fn address(&mut self, addr: &Addr, elem: Elem) -> Option<(usize, Dim)> {
        let Known::Pointer(pointer, bytes) = self.get(addr.base).clone() else { return None };
        let index = addr.index.map_or(n(0), |index| self.number(index));
        let fixed = &n(i64::from(addr.elems)) + &(&n(i64::from(addr.lanes)) * &var(&LANES));
        Some((pointer, &bytes + &(&(&index + &fixed) * &n(elem.size()))))
    }

    fn touch(&mut self, inst: &Inst, elem: Elem, place: &Place, writes: bool) {
        let spread = match place.access {
            Access::Unit => lane(),
            Access::One => n(0),
            Access::Strided(stride) => &lane() * &self.number(stride),
            Access::Indexed { index, stride } => &self.number(index) * &self.number(stride),
        };
        self.touch_spread(inst, elem, (place, &spread), writes);
    }

    /// The words of a matrix, one by one.
    fn transposed(&mut self, inst: &Inst, (from, to): (&Matrix, &Matrix), (rows, columns): (Value, Value)) {
        let [row, column] = [rows, columns].map(|count| {
            let count = self.number(count);
            self.define(Def::LoopIndex(count))
        });
        let [from_row, to_row] = [from, to].map(|of| self.number(of.row));
        let sides = [(from, &(&row * &from_row) + &column, false), (to, &(&column * &to_row) + &row, true)];
        for (of, spread, writes) in sides {
            let place = Place { addr: of.addr, access: Access::One, mask: None };
            self.touch_spread(inst, Elem::F32, (&place, &spread), writes);
        }
    }

    /// Notes an access, the elements of a place lying so far after its first.
    fn touch_spread(&mut self, inst: &Inst, elem: Elem, (place, spread): (&Place, &Dim), writes: bool) {
        if self.is_trial {
            return;
        }
        let (pointer, at) = self.address(&place.addr, elem).unwrap_or((usize::MAX, n(0)));
        let start = &at + &(spread * &n(elem.size()));
        let end = &start + &n(elem.size());
        let mut facts = match place.mask.map(|mask| self.get(mask)) {
            Some(Known::Mask(facts)) => facts.clone(),
            Some(Known::Pointer(..) | Known::Number(_) | Known::Other) | None => Vec::new(),
        };
        let is_of_strip = place.mask.is_some() || place.access != Access::One;
        match &self.inside {
            Some((LoopKind::Lanes, trip, index)) if is_of_strip => {
                facts.push(&(&(trip - index) - &lane()) - &n(1));
            }
            Some(_) | None => {}
        }
        // In a loop that runs, its index has a value.
        if let Some((_, trip, _)) = &self.inside {
            facts.insert(0, trip - &n(1));
        }
        let line = salient_vector::text::line(self.body, inst);
        let (start, end) = (Reach { at: start, line: line.clone() }, Reach { at: end, line });
        // Of a strip that goes by vectors, what one lane reads for all is read at multiples of them alone.
        let is_of_vectors = matches!(self.inside, Some((LoopKind::Lanes, ..))) && place.access == Access::One;
        let is_masked = place.mask.is_some() || is_of_vectors;
        let is_of_vectors = is_of_vectors && place.mask.is_none();
        let same = |t: &&mut Touch| {
            let kind = (t.pointer, t.writes, t.is_masked, t.is_of_vectors);
            kind == (pointer, writes, is_masked, is_of_vectors) && t.facts == facts
        };
        match self.touches.iter_mut().find(same) {
            Some(touch) => {
                touch.starts.push(start);
                touch.ends.push(end);
                touch.defs.clone_from(&self.defs);
            }
            None => self.touches.push(Touch {
                pointer,
                writes,
                is_masked,
                is_of_vectors,
                defs: self.defs.clone(),
                facts,
                starts: vec![start],
                ends: vec![end],
            }),
        }
    }
}

/// What it is after so many turns.
fn advanced(init: &Known, step: Option<&Dim>, turns: &Dim) -> Known {
    match (init, step) {
        (Known::Pointer(at, from), Some(step)) => Known::Pointer(*at, from + &(step * turns)),
        (Known::Number(from), Some(step)) => Known::Number(from + &(step * turns)),
        (Known::Pointer(..) | Known::Number(_), None) | (Known::Mask(_) | Known::Other, _) => Known::Other,
    }
}
