//! The order in which a body's code is made, the same for every emitter: sections, instructions, loops.
//!
//! A loop over lanes takes whole vectors as long as there are any, several in a row where the body says so, and what is left
//! as a last strip of which not all lanes are active. An emitter gives the instructions and two shapes of control
//! ([`Backend`]); what the lanes of that strip do under its mask is its business.

use salient_vector::body::{Addr, Const, Inst, Loop, LoopKind, Matrix, Section};
use salient_vector::{Body, Elem, Op, Place, Value};
use std::collections::BTreeMap;

/// What an emitter gives.
pub(super) trait Backend {
    /// A value of the code that is made: a register, or a value of an IR.
    type Value: Copy;

    /// Lanes of a vector.
    fn lanes(&self) -> usize;

    /// What a value of the body is at this point of the code.
    fn get(&mut self, value: Value) -> Self::Value;
    fn set(&mut self, value: Value, is: Self::Value);

    // Computing.
    fn define(&mut self, out: Value, value: Const);
    fn operator(&mut self, out: Value, op: Op, args: &[Value]);
    fn integer(&mut self, value: i64) -> Self::Value;
    fn plus(&mut self, a: Self::Value, distance: i64) -> Self::Value;
    /// The difference, the product and the lesser of two integers.
    fn minus(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    fn times(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    fn least(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// Within the last strip, for a carried value of the body: `new` in the active lanes, `old` in the others.
    fn where_active(&mut self, of: Value, new: Self::Value, old: Self::Value) -> Self::Value;

    // Memory.
    fn address(&mut self, elem: Elem, addr: &Addr) -> Self::Value;
    fn load(&mut self, elem: Elem, place: &Place) -> Self::Value;
    fn load_int(&mut self, elem: Elem, addr: &Addr) -> Self::Value;
    fn store(&mut self, elem: Elem, place: &Place, value: Value);
    /// The address so many words after another one.
    fn after_words(&mut self, address: Self::Value, words: Self::Value) -> Self::Value;
    /// `count` times the number of whole vectors in so many elements: zero if these are fewer than lanes.
    fn times_strips(&mut self, elements: Self::Value, count: Self::Value) -> Self::Value;
    /// Copies a square of as many words as lanes each way, its rows and columns exchanged; each side is an address and the words between
    /// its rows. Gives where the row behind what was written begins.
    fn square(&mut self, from: (Self::Value, Self::Value), to: (Self::Value, Self::Value)) -> Self::Value;
    /// Copies a word.
    fn word(&mut self, from: Self::Value, to: Self::Value);
    fn prefetch(&mut self, elem: Elem, addr: &Addr);

    // Control.
    /// Steps of a loop as long as `trip` is not less than the index and a stride; gives the state behind them.
    fn while_whole(
        &mut self,
        whole: Trip<Self::Value>,
        start: State<Self::Value>,
        step: impl FnOnce(&mut Self, State<Self::Value>) -> State<Self::Value>,
    ) -> State<Self::Value>;
    /// Code that runs once if the index is less than `trip`, with the lanes below it active; gives what is carried on.
    fn if_any_left(
        &mut self,
        trip: Self::Value,
        start: State<Self::Value>,
        strip: impl FnOnce(&mut Self, State<Self::Value>) -> Vec<Self::Value>,
    ) -> Vec<Self::Value>;

    // Bookkeeping.
    /// A section begins.
    fn section(&mut self, _number: usize, _insts: &[Inst]) {}
    /// An instruction of the present section begins; `false` leaves it out.
    fn wants(&mut self, at: usize, inst: &Inst) -> bool;
    /// Whether an instruction may give something else each time that a loop comes to it, whatever it reads.
    fn varies(inst: &Inst) -> bool;
    /// A loop begins; of each value of the body whether it may differ between iterations.
    fn enter_loop(&mut self, code: &Loop, changing: Vec<bool>);
    fn leave_loop(&mut self) {}
}

/// Where a loop is: its index, and the values that it carries on, in their order.
#[derive(Clone, Debug)]
pub(super) struct State<V> {
    pub(super) index: V,
    pub(super) carried: Vec<V>,
}

impl<V: Copy> State<V> {
    /// The index first.
    pub(super) fn all(&self) -> Vec<V> {
        [self.index].into_iter().chain(self.carried.iter().copied()).collect()
    }

    pub(super) fn of(all: &[V]) -> State<V> {
        State { index: all[0], carried: all[1..].to_vec() }
    }
}

/// How far a loop goes, and how far each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trip<V> {
    pub(super) trip: V,
    pub(super) stride: i64,
}

/// Makes the code of a body's sections.
pub(super) fn sections<B: Backend>(backend: &mut B, body: &Body) {
    for (number, section) in body.sections.iter().enumerate() {
        match section {
            Section::Straight(insts) => {
                backend.section(number, insts);
                instructions(backend, insts);
            }
            Section::Loop(code) => {
                backend.section(number, &code.insts);
                repeat(backend, code, body.types.len());
            }
        }
    }
}

fn instructions<B: Backend>(backend: &mut B, insts: &[Inst]) {
    for (at, inst) in insts.iter().enumerate() {
        if backend.wants(at, inst) {
            instruction(backend, inst);
        }
    }
}

/// Makes the code of one instruction.
pub(super) fn instruction<B: Backend>(backend: &mut B, inst: &Inst) {
    let (out, value) = match inst {
        Inst::Const { out, value } => return backend.define(*out, *value),
        Inst::Op { out, op, args } => return backend.operator(*out, *op, args),
        Inst::Store { elem, place, value } => return backend.store(*elem, place, *value),
        Inst::Transpose { from, to, rows, columns } => {
            return transpose(backend, (from, to), (*rows, *columns));
        }
        Inst::Prefetch { elem, addr } => return backend.prefetch(*elem, addr),
        Inst::Address { out, elem, addr } => (out, backend.address(*elem, addr)),
        Inst::Load { out, elem, place } => (out, backend.load(*elem, place)),
        Inst::LoadInt { out, elem, addr } => (out, backend.load_int(*elem, addr)),
    };
    backend.set(*out, value);
}

/// Squares as long as there are any, if there are as many rows as lanes, and one more that ends at the last column, over some that
/// are copied already; without a square word by word.
fn transpose<B: Backend>(backend: &mut B, (from, to): (&Matrix, &Matrix), (rows, columns): (Value, Value)) {
    let [source, target] = [from, to].map(|of| backend.address(Elem::F32, &of.addr));
    let [from_row, to_row] = [from, to].map(|of| backend.get(of.row));
    let [rows, columns] = [rows, columns].map(|count| backend.get(count));
    let (none, lanes) = (backend.integer(0), backend.lanes() as i64);
    let start = State { index: none, carried: vec![source, target] };
    let whole = Trip { trip: backend.times_strips(rows, columns), stride: lanes };
    let squares = backend.while_whole(whole, start, |backend, at| {
        let (source, target) = (at.carried[0], at.carried[1]);
        let below = backend.square((source, from_row), (target, to_row));
        let beside = backend.plus(source, 4 * lanes);
        State { index: backend.plus(at.index, lanes), carried: vec![beside, below] }
    });
    // All columns where there was a square, none where there was not: the loop runs once where a square is before columns that are left.
    let behind = backend.times_strips(squares.index, columns);
    let behind = Trip { trip: backend.least(behind, columns), stride: 1 };
    let words = backend.while_whole(behind, squares, |backend, at| {
        let left = backend.minus(columns, at.index);
        let back = backend.plus(left, -lanes);
        let source = backend.after_words(at.carried[0], back);
        let rows_back = backend.times(back, to_row);
        let target = backend.after_words(at.carried[1], rows_back);
        let below = backend.square((source, from_row), (target, to_row));
        State { index: columns, carried: vec![source, below] }
    });
    backend.while_whole(Trip { trip: columns, stride: 1 }, words, |backend, at| {
        let start = State { index: none, carried: at.carried.clone() };
        backend.while_whole(Trip { trip: rows, stride: 1 }, start, |backend, at| {
            backend.word(at.carried[0], at.carried[1]);
            let below = backend.after_words(at.carried[0], from_row);
            let beside = backend.plus(at.carried[1], 4);
            State { index: backend.plus(at.index, 1), carried: vec![below, beside] }
        });
        let beside = backend.plus(at.carried[0], 4);
        let below = backend.after_words(at.carried[1], to_row);
        State { index: backend.plus(at.index, 1), carried: vec![beside, below] }
    });
}

/// Of each of so many values whether it may differ between the iterations of a loop.
fn changing(code: &Loop, values: usize, varies: fn(&Inst) -> bool) -> Vec<bool> {
    let mut changing = vec![false; values];
    let given = code.carried.iter().map(|carried| carried.param).chain([code.index]);
    given.for_each(|value| changing[value.index()] = true);
    for inst in &code.insts {
        let Some(out) = inst.out() else { continue };
        changing[out.index()] = varies(inst) || inst.uses().iter().any(|used| changing[used.index()]);
    }
    changing
}

fn repeat<B: Backend>(backend: &mut B, code: &Loop, values: usize) {
    let trip = backend.get(code.trip);
    let index = backend.integer(0);
    let carried = code.carried.iter().map(|carried| backend.get(carried.init)).collect();
    let mut state = State { index, carried };
    let changing = changing(code, values, B::varies);
    backend.enter_loop(code, changing.clone());
    if code.unroll > 1 && code.kind == LoopKind::Lanes && code.carried.is_empty() {
        state = strips_side_by_side(backend, code, trip, state, &changing);
    } else if code.unroll > 1 {
        state = whole_steps(backend, code, trip, state, code.unroll);
    }
    state = whole_steps(backend, code, trip, state, 1);
    if code.kind == LoopKind::Lanes {
        state.carried = last_strip(backend, code, trip, state.clone());
    }
    backend.leave_loop();
    for (carried, value) in code.carried.iter().zip(state.carried) {
        backend.set(carried.result, value);
    }
}

/// Whole strips of a loop over lanes that carries nothing, as many side by side as its hint says: an instruction of each, then the
/// next one, so that one strip computes while another waits for its operands. `changing` says of each value whether it is another
/// one in another strip.
fn strips_side_by_side<B: Backend>(
    backend: &mut B,
    code: &Loop,
    trip: B::Value,
    start: State<B::Value>,
    changing: &[bool],
) -> State<B::Value> {
    let lanes = backend.lanes() as i64;
    let stride = lanes * i64::from(code.unroll);
    backend.while_whole(Trip { trip, stride }, start, |backend, at| {
        let mut strips: Vec<BTreeMap<usize, B::Value>> = Vec::new();
        for copy in 0..i64::from(code.unroll) {
            let index = if copy == 0 { at.index } else { backend.plus(at.index, copy * lanes) };
            strips.push(BTreeMap::from([(code.index.index(), index)]));
        }
        for (number, inst) in code.insts.iter().enumerate() {
            for values in &mut strips {
                if !backend.wants(number, inst) {
                    continue;
                }
                for used in inst.uses() {
                    values.get(&used.index()).into_iter().for_each(|is| backend.set(used, *is));
                }
                instruction(backend, inst);
                if let Some(out) = inst.out().filter(|out| changing[out.index()]) {
                    values.insert(out.index(), backend.get(out));
                }
            }
        }
        State { index: backend.plus(at.index, stride), carried: Vec::new() }
    })
}

/// Steps of the loop, `copies` in a row, as long as all of them are whole.
fn whole_steps<B: Backend>(
    backend: &mut B,
    code: &Loop,
    trip: B::Value,
    start: State<B::Value>,
    copies: u32,
) -> State<B::Value> {
    let step = match code.kind {
        LoopKind::Count => 1,
        LoopKind::Lanes => backend.lanes() as i64,
    };
    let stride = step * i64::from(copies);
    backend.while_whole(Trip { trip, stride }, start, |backend, at| {
        let mut carried = at.carried;
        for copy in 0..i64::from(copies) {
            let index = if copy == 0 { at.index } else { backend.plus(at.index, copy * step) };
            carried = iteration(backend, code, index, &carried);
        }
        State { index: backend.plus(at.index, stride), carried }
    })
}

/// The strip that is not whole, if elements are left.
fn last_strip<B: Backend>(
    backend: &mut B,
    code: &Loop,
    trip: B::Value,
    start: State<B::Value>,
) -> Vec<B::Value> {
    backend.if_any_left(trip, start, |backend, at| {
        let next = iteration(backend, code, at.index, &at.carried);
        let kept = code.carried.iter().zip(next.into_iter().zip(at.carried));
        kept.map(|(carried, (next, old))| backend.where_active(carried.param, next, old)).collect()
    })
}

/// The code of a loop once; gives what it carries on.
fn iteration<B: Backend>(
    backend: &mut B,
    code: &Loop,
    index: B::Value,
    carried: &[B::Value],
) -> Vec<B::Value> {
    backend.set(code.index, index);
    for (carried, &value) in code.carried.iter().zip(carried) {
        backend.set(carried.param, value);
    }
    instructions(backend, &code.insts);
    code.carried.iter().map(|carried| backend.get(carried.next)).collect()
}
