//! The interpreter: runs a body at any number of lanes over checked memory, so that bodies are tested without machine code.
//!
//! It defines what emitters must do, bit by bit (but for the payloads of NaNs). Reads and writes outside a buffer are errors, and so is a write to
//! bytes that the body reads through an input. It is not fast.

use crate::apply::{Val, apply, fill};
use crate::body::{Access, Addr, Body, Elem, Inst, Loop, LoopKind, Matrix, Place, Section, Value};
use crate::text;
use crate::ty::Ty;
use half::f16;
use std::ops::Range;

pub use crate::apply::MAX_LANES;

/// What the interpreter pretends to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// `L`: a power of two, at most [`MAX_LANES`].
    pub lanes: usize,
    /// Whether `fma` rounds once.
    pub fused: bool,
}

/// An argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arg {
    /// A buffer of the memory, and a distance from its start in bytes.
    Ptr(usize, i64),
    /// An integer.
    Int(i64),
    /// A float.
    F32(f32),
}

/// Buffers, each apart from the others.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Memory {
    /// The bytes of each buffer.
    pub buffers: Vec<Vec<u8>>,
    /// Where bodies have written, if somebody wants to know: a buffer, and the bytes of it.
    pub written: Option<Vec<(usize, Range<usize>)>>,
}

impl Memory {
    /// Adds a buffer; gives the argument that points to its start.
    pub fn add(&mut self, bytes: Vec<u8>) -> Arg {
        self.buffers.push(bytes);
        Arg::Ptr(self.buffers.len() - 1, 0)
    }

    /// Adds a buffer of floats.
    pub fn add_f32(&mut self, values: &[f32]) -> Arg {
        self.add(values.iter().flat_map(|value| value.to_ne_bytes()).collect())
    }

    /// Adds a buffer of integers.
    pub fn add_i32(&mut self, values: &[i32]) -> Arg {
        self.add(values.iter().flat_map(|value| value.to_ne_bytes()).collect())
    }

    /// A whole buffer as floats.
    ///
    /// # Panics
    /// If `arg` is not a pointer into this memory.
    pub fn f32s(&self, arg: Arg) -> Vec<f32> {
        self.bytes(arg)
            .chunks_exact(4)
            .map(|word| f32::from_ne_bytes(word.try_into().expect("four bytes")))
            .collect()
    }

    /// A whole buffer as integers.
    ///
    /// # Panics
    /// If `arg` is not a pointer into this memory.
    pub fn i32s(&self, arg: Arg) -> Vec<i32> {
        self.bytes(arg)
            .chunks_exact(4)
            .map(|word| i32::from_ne_bytes(word.try_into().expect("four bytes")))
            .collect()
    }

    /// A whole buffer.
    ///
    /// # Panics
    /// If `arg` is not a pointer into this memory.
    pub fn bytes(&self, arg: Arg) -> &[u8] {
        match arg {
            Arg::Ptr(buffer, _) => &self.buffers[buffer],
            Arg::Int(_) | Arg::F32(_) => panic!("{arg:?} is no pointer"),
        }
    }
}

/// Why a body could not run to its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EvalError {
    /// The arguments are not what the parameters are.
    #[error("body `{body}` does not take these arguments: {why}")]
    Arguments {
        /// The body.
        body: String,
        /// Which, and how.
        why: String,
    },
    /// Memory was touched outside a buffer.
    #[error("body `{body}`, `{line}`: bytes {at}..{end} of buffer {buffer}, which has {size}", end = at + bytes)]
    OutOfBounds {
        /// The body.
        body: String,
        /// The instruction.
        line: String,
        /// The buffer.
        buffer: usize,
        /// The first byte touched.
        at: i64,
        /// How many bytes.
        bytes: i64,
        /// The size of the buffer.
        size: usize,
    },
    /// Memory was both read through an input and written.
    #[error(
        "body `{body}`, `{line}`: byte {at} of buffer {buffer} is both written and read through an input"
    )]
    Overlap {
        /// The body.
        body: String,
        /// The instruction.
        line: String,
        /// The buffer.
        buffer: usize,
        /// The byte.
        at: usize,
    },
}

/// Runs a verified body.
///
/// # Panics
/// If the body is not verified, or the machine's lanes are not a power of two up to [`MAX_LANES`].
pub fn eval(body: &Body, machine: Machine, args: &[Arg], memory: &mut Memory) -> Result<(), EvalError> {
    assert!(machine.lanes.is_power_of_two() && machine.lanes <= MAX_LANES, "no such machine: {machine:?}");
    let marks = memory.buffers.iter().map(|bytes| vec![Mark::None; bytes.len()]).collect();
    let values = vec![Val::Int(0); body.types.len()];
    let mut run = Run { body, machine, memory, marks, values, active: [true; MAX_LANES] };
    run.bind(args)?;
    for section in &body.sections {
        match section {
            Section::Straight(insts) => run.insts(insts)?,
            Section::Loop(code) => run.repeat(code)?,
        }
    }
    Ok(())
}

/// What a body has done to a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    ReadAsInput,
    Written,
}

struct Run<'a> {
    body: &'a Body,
    machine: Machine,
    memory: &'a mut Memory,
    marks: Vec<Vec<Mark>>,
    values: Vec<Val>,
    active: [bool; MAX_LANES],
}

impl Run<'_> {
    fn bind(&mut self, args: &[Arg]) -> Result<(), EvalError> {
        let params = &self.body.params;
        let wrong = |why: String| EvalError::Arguments { body: self.body.name.clone(), why };
        if args.len() != params.len() {
            return Err(wrong(format!("{} for {} parameters", args.len(), params.len())));
        }
        for (param, &arg) in params.iter().zip(args) {
            let ty = self.body.ty(param.value);
            let value = match (ty, arg) {
                (Ty::Ptr | Ty::PtrMut, Arg::Ptr(buffer, offset)) => Val::Ptr { buffer, offset },
                (Ty::Int, Arg::Int(value)) => Val::Int(value),
                (Ty::F32, Arg::F32(value)) => Val::F32(fill(self.machine.lanes, |_| value)),
                (Ty::Ptr | Ty::PtrMut | Ty::Int | Ty::F32 | Ty::I32 | Ty::Mask, _) => {
                    return Err(wrong(format!("`{}` is {ty}, given {arg:?}", param.name)));
                }
            };
            self.values[param.value.index()] = value;
        }
        Ok(())
    }

    fn repeat(&mut self, code: &Loop) -> Result<(), EvalError> {
        let trip = self.get(code.trip).int();
        let lanes = self.machine.lanes;
        let step = match code.kind {
            LoopKind::Count => 1,
            LoopKind::Lanes => lanes as i64,
        };
        let mut state: Vec<Val> = code.carried.iter().map(|carried| self.get(carried.init)).collect();
        let mut index = 0;
        while index < trip {
            if code.kind == LoopKind::Lanes {
                self.active = fill(lanes, |l| index + (l as i64) < trip);
            }
            self.values[code.index.index()] = Val::Int(index);
            for (carried, value) in code.carried.iter().zip(&state) {
                self.values[carried.param.index()] = *value;
            }
            self.insts(&code.insts)?;
            for (carried, old) in code.carried.iter().zip(&mut state) {
                let next = self.get(carried.next);
                *old = match code.kind {
                    LoopKind::Count => next,
                    LoopKind::Lanes => next.select(&self.active, *old, lanes),
                };
            }
            index += step;
        }
        self.active = [true; MAX_LANES];
        for (carried, value) in code.carried.iter().zip(state) {
            self.values[carried.result.index()] = value;
        }
        Ok(())
    }

    fn insts(&mut self, insts: &[Inst]) -> Result<(), EvalError> {
        insts.iter().try_for_each(|inst| self.inst(inst))
    }

    fn inst(&mut self, inst: &Inst) -> Result<(), EvalError> {
        let lanes = self.machine.lanes;
        let value = match inst {
            Inst::Const { value, .. } => Val::of(*value, lanes),
            Inst::Op { op, args, .. } => {
                let args: Vec<Val> = args.iter().map(|&arg| self.get(arg)).collect();
                apply(*op, &args, lanes, self.machine.fused)
            }
            Inst::Address { elem, addr, .. } => {
                let (buffer, offset) = self.address(addr, *elem);
                Val::Ptr { buffer, offset }
            }
            Inst::Load { elem, place, .. } => self.load(*elem, place, inst)?,
            Inst::LoadInt { elem, addr, .. } => {
                let (buffer, at) = self.address(addr, *elem);
                let bits = self.read(inst, addr.base, buffer, at, *elem)?;
                Val::Int(match elem {
                    Elem::F32 | Elem::F16 | Elem::I32 => i64::from(bits as i32),
                    Elem::Bool => i64::from(bits != 0),
                })
            }
            Inst::Store { elem, place, value } => return self.store(*elem, place, *value, inst),
            Inst::Transpose { from, to, rows, columns } => {
                return self.transpose(inst, (from, to), (*rows, *columns));
            }
            Inst::Prefetch { .. } => return Ok(()),
        };
        let out = inst.out().expect("all others define a value");
        self.values[out.index()] = value;
        Ok(())
    }

    fn load(&mut self, elem: Elem, place: &Place, inst: &Inst) -> Result<Val, EvalError> {
        let lanes = self.machine.lanes;
        let active = self.lanes_of(place);
        let mut bits = [0_u32; MAX_LANES];
        let at = self.spread(elem, place);
        if place.access == Access::One {
            if active.contains(&true) {
                let (buffer, at) = at[0];
                bits = [self.read(inst, place.addr.base, buffer, at, elem)?; MAX_LANES];
            }
        } else {
            for l in (0..lanes).filter(|&l| active[l]) {
                let (buffer, at) = at[l];
                bits[l] = self.read(inst, place.addr.base, buffer, at, elem)?;
            }
        }
        let bits = fill(lanes, |l| if active[l] { bits[l] } else { 0 });
        Ok(match elem {
            Elem::F32 => Val::F32(bits.map(f32::from_bits)),
            Elem::F16 => Val::F32(bits.map(|bits| f16::from_bits(bits as u16).to_f32())),
            Elem::I32 => Val::I32(bits.map(|bits| bits as i32)),
            Elem::Bool => Val::Mask(bits.map(|bits| bits != 0)),
        })
    }

    fn store(&mut self, elem: Elem, place: &Place, value: Value, inst: &Inst) -> Result<(), EvalError> {
        let active = self.lanes_of(place);
        let at = self.spread(elem, place);
        let bits: [u32; MAX_LANES] = match self.get(value) {
            Val::F32(value) => value.map(f32::to_bits),
            Val::I32(value) => value.map(|value| value as u32),
            Val::Mask(value) => value.map(u32::from),
            other @ (Val::Ptr { .. } | Val::Int(_)) => panic!("{other:?} is no vector: not verified"),
        };
        let last = if place.access == Access::One { 1 } else { self.machine.lanes };
        for l in (0..last).filter(|&l| active[l]) {
            let (buffer, at) = at[l];
            self.write(inst, buffer, at, elem, bits[l])?;
        }
        Ok(())
    }

    /// Writes an element.
    fn write(&mut self, inst: &Inst, buffer: usize, at: i64, elem: Elem, bits: u32) -> Result<(), EvalError> {
        let at = self.bounds(inst, buffer, at, elem)?;
        let size = elem.size() as usize;
        self.mark(inst, buffer, at, size, Mark::Written)?;
        self.memory.buffers[buffer][at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        if let Some(written) = &mut self.memory.written {
            written.push((buffer, at..at + size));
        }
        Ok(())
    }

    fn transpose(
        &mut self,
        inst: &Inst,
        (from, to): (&Matrix, &Matrix),
        (rows, columns): (Value, Value),
    ) -> Result<(), EvalError> {
        let size = Elem::F32.size();
        let [(source, first), (target, start)] = [from, to].map(|of| self.address(&of.addr, Elem::F32));
        let [from_row, to_row] = [from, to].map(|of| self.get(of.row).int() * size);
        let [rows, columns] = [rows, columns].map(|count| self.get(count).int());
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let at = first + row * from_row + column * size;
            let bits = self.read(inst, from.addr.base, source, at, Elem::F32)?;
            self.write(inst, target, start + column * to_row + row * size, Elem::F32, bits)?;
        }
        Ok(())
    }

    /// The lanes for which a place touches memory. A `One` without a mask is not masked by the strip.
    fn lanes_of(&self, place: &Place) -> [bool; MAX_LANES] {
        let lanes = self.machine.lanes;
        match place.mask {
            Some(mask) => {
                let mask = self.get(mask).mask();
                fill(lanes, |l| mask[l] && self.active[l])
            }
            None if place.access == Access::One => fill(lanes, |_| true),
            None => fill(lanes, |l| self.active[l]),
        }
    }

    /// Where each lane is: a buffer and a byte.
    fn spread(&self, elem: Elem, place: &Place) -> [(usize, i64); MAX_LANES] {
        let (buffer, start) = self.address(&place.addr, elem);
        fill(self.machine.lanes, |l| {
            let elems = match place.access {
                Access::Unit => l as i64,
                Access::One => 0,
                Access::Strided(stride) => (l as i64).wrapping_mul(self.get(stride).int()),
                Access::Indexed { index, stride } => {
                    i64::from(self.get(index).i32s()[l]).wrapping_mul(self.get(stride).int())
                }
            };
            (buffer, start.wrapping_add(elems.wrapping_mul(elem.size())))
        })
    }

    fn address(&self, addr: &Addr, elem: Elem) -> (usize, i64) {
        let Val::Ptr { buffer, offset } = self.get(addr.base) else {
            panic!("v{} is no pointer: not verified", addr.base.0)
        };
        let index = addr.index.map_or(0, |index| self.get(index).int());
        let elems = index
            .wrapping_add(i64::from(addr.elems))
            .wrapping_add(i64::from(addr.lanes) * self.machine.lanes as i64);
        (buffer, offset.wrapping_add(elems.wrapping_mul(elem.size())))
    }

    fn read(
        &mut self,
        inst: &Inst,
        base: Value,
        buffer: usize,
        at: i64,
        elem: Elem,
    ) -> Result<u32, EvalError> {
        let at = self.bounds(inst, buffer, at, elem)?;
        let size = elem.size() as usize;
        if self.body.ty(base) == Ty::Ptr {
            self.mark(inst, buffer, at, size, Mark::ReadAsInput)?;
        }
        let mut bytes = [0; 4];
        bytes[..size].copy_from_slice(&self.memory.buffers[buffer][at..at + size]);
        Ok(u32::from_le_bytes(bytes))
    }

    fn mark(
        &mut self,
        inst: &Inst,
        buffer: usize,
        at: usize,
        size: usize,
        mark: Mark,
    ) -> Result<(), EvalError> {
        for at in at..at + size {
            let old = &mut self.marks[buffer][at];
            if *old != Mark::None && *old != mark {
                let line = text::line(self.body, inst);
                return Err(EvalError::Overlap { body: self.body.name.clone(), line, buffer, at });
            }
            *old = mark;
        }
        Ok(())
    }

    fn bounds(&self, inst: &Inst, buffer: usize, at: i64, elem: Elem) -> Result<usize, EvalError> {
        let size = self.memory.buffers.get(buffer).map_or(0, Vec::len);
        let fits = at >= 0 && at.checked_add(elem.size()).is_some_and(|end| end as u64 <= size as u64);
        if fits {
            return Ok(at as usize);
        }
        let line = text::line(self.body, inst);
        Err(EvalError::OutOfBounds {
            body: self.body.name.clone(),
            line,
            buffer,
            at,
            bytes: elem.size(),
            size,
        })
    }

    fn get(&self, value: Value) -> Val {
        self.values[value.index()]
    }
}
