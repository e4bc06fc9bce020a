//! The portable emitter: a body as a function of Cranelift's IR, with vectors of 128 bits.
//!
//! Floats are `f32x4`, integers and masks `i32x4` (a mask's lane is all ones or all zeros). Loops test at the top and hand their
//! results out through the parameters of the header: Cranelift folds loads into arithmetic only where a value has a
//! single use, and a use by an exit block besides the back edge would be a second one. A last strip is laid out as code of
//! its own, in which lanes are touched one by one and without branches. Operators are in `ops`, places in `memory`.

mod memory;
mod ops;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, Block, BlockArg, ConstantData, Function, InstBuilder, MemFlagsData, Type, types,
};
use cranelift_codegen::ir::{StackSlot, StackSlotData, StackSlotKind, UserFuncName};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use salient_vector::body::{Carried, Const, Inst, Loop, LoopKind, Section};
use salient_vector::{Body, Op, Ty, Value};

use crate::target::Target;

/// Lanes of a vector.
pub const LANES: usize = 4;

/// Makes the function of a verified body.
pub fn emit(body: &Body, target: &Target) -> Function {
    let signature = super::signature(body, target);
    let mut function = Function::with_name_signature(UserFuncName::default(), signature);
    let mut context = FunctionBuilderContext::new();
    let mut emit = Emit {
        b: FunctionBuilder::new(&mut function, &mut context),
        body,
        target,
        values: vec![None; body.types.len()],
        bounds: vec![None; body.types.len()],
        changing: vec![false; body.types.len()],
        in_loop: false,
        strip: None,
        elsewhere: None,
    };
    emit.entry();
    for section in &body.sections {
        match section {
            Section::Straight(insts) => emit.insts(insts),
            Section::Loop(code) => emit.repeat(code),
        }
    }
    emit.b.ins().return_(&[]);
    emit.b.seal_all_blocks();
    emit.b.finalize(target.cranelift().frontend_config());
    function
}

/// The last strip of a loop over lanes: lane 0 is active, and the others are below a bound.
#[derive(Clone, Copy)]
struct Strip {
    /// The number of active lanes, as i64: 1 to 3.
    active: ir::Value,
    /// The same as a mask.
    mask: ir::Value,
}

struct Emit<'a> {
    b: FunctionBuilder<'a>,
    body: &'a Body,
    target: &'a Target,
    /// What each value of the body is at this point of the code.
    values: Vec<Option<ir::Value>>,
    /// For a mask made by `first`, its bound: lanes are then told apart without taking the mask to pieces.
    bounds: Vec<Option<ir::Value>>,
    /// Whether a value may differ between the iterations of the present loop.
    changing: Vec<bool>,
    in_loop: bool,
    strip: Option<Strip>,
    /// Sixteen bytes where inactive lanes may read and write.
    elsewhere: Option<StackSlot>,
}

impl Emit<'_> {
    fn entry(&mut self) {
        let entry = self.b.create_block();
        self.b.append_block_params_for_function_params(entry);
        self.b.switch_to_block(entry);
        for (at, param) in self.body.params.iter().enumerate() {
            let mut value = self.b.block_params(entry)[at];
            if self.body.ty(param.value) == Ty::F32 {
                value = self.b.ins().splat(types::F32X4, value);
            }
            self.set(param.value, value);
        }
    }

    fn insts(&mut self, insts: &[Inst]) {
        for inst in insts {
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: &Inst) {
        if let Some(out) = inst.out() {
            self.changing[out.index()] =
                self.in_loop && inst.uses().iter().any(|used| self.changing[used.index()]);
        }
        match inst {
            Inst::Const { out, value } => {
                let value = self.constant(*value);
                self.set(*out, value);
            }
            Inst::Op { out, op, args } => {
                if *op == Op::First {
                    self.bounds[out.index()] = Some(self.get(args[0]));
                }
                let value = self.op(*op, args);
                self.set(*out, value);
            }
            Inst::Address { out, elem, addr } => {
                let (base, distance) = self.address(addr, *elem);
                let value = self.b.ins().iadd_imm_s(base, i64::from(distance));
                self.set(*out, value);
            }
            Inst::Load { out, elem, place } => {
                let value = self.load(*elem, place);
                self.set(*out, value);
            }
            Inst::LoadInt { out, elem, addr } => {
                let value = self.load_int(*elem, addr);
                self.set(*out, value);
            }
            Inst::Store { elem, place, value } => {
                let value = self.get(*value);
                self.store(*elem, place, value);
            }
            // Cranelift has no such instruction.
            Inst::Prefetch { .. } => {}
        }
    }

    fn repeat(&mut self, code: &Loop) {
        let trip = self.get(code.trip);
        let mut index = self.b.ins().iconst(types::I64, 0);
        let mut state: Vec<ir::Value> = code.carried.iter().map(|carried| self.get(carried.init)).collect();
        let step = match code.kind {
            LoopKind::Count => 1,
            LoopKind::Lanes => LANES as i64,
        };
        self.changing.fill(false);
        self.changing[code.index.index()] = true;
        for carried in &code.carried {
            self.changing[carried.param.index()] = true;
        }
        self.in_loop = true;
        if code.unroll > 1 {
            (index, state) = self.whole_steps(code, trip, index, state, step, code.unroll);
        }
        (index, state) = self.whole_steps(code, trip, index, state, step, 1);
        if code.kind == LoopKind::Lanes {
            state = self.last_strip(code, trip, index, state);
        }
        self.in_loop = false;
        for (carried, value) in code.carried.iter().zip(state) {
            self.set(carried.result, value);
        }
    }

    /// Steps of the loop, `copies` in a row, as long as all of them are whole. Gives the index and the state after.
    fn whole_steps(
        &mut self,
        code: &Loop,
        trip: ir::Value,
        index: ir::Value,
        state: Vec<ir::Value>,
        step: i64,
        copies: u32,
    ) -> (ir::Value, Vec<ir::Value>) {
        let stride = step * i64::from(copies);
        let last = self.b.ins().iadd_imm_s(trip, -stride);
        let [header, inside, after] = [(); 3].map(|()| self.b.create_block());
        let mut args = vec![index];
        args.extend(state);
        self.jump(header, &args);

        self.b.switch_to_block(header);
        let index = self.b.append_block_param(header, types::I64);
        let state = self.carry_params(header, &code.carried);
        let goes_on = self.b.ins().icmp(IntCC::SignedLessThanOrEqual, index, last);
        self.b.ins().brif(goes_on, inside, &[], after, &[]);

        self.b.switch_to_block(inside);
        let mut next = state.clone();
        for copy in 0..i64::from(copies) {
            let at = if copy == 0 { index } else { self.b.ins().iadd_imm_s(index, copy * step) };
            next = self.iteration(code, at, &next);
        }
        let mut args = vec![self.b.ins().iadd_imm_s(index, stride)];
        args.extend(next);
        self.jump(header, &args);

        self.b.switch_to_block(after);
        (index, state)
    }

    /// The strip that is not whole, if elements are left.
    fn last_strip(
        &mut self,
        code: &Loop,
        trip: ir::Value,
        index: ir::Value,
        state: Vec<ir::Value>,
    ) -> Vec<ir::Value> {
        let [inside, after] = [(); 2].map(|()| self.b.create_block());
        let active = self.b.ins().isub(trip, index);
        let left = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, active, 0);
        let done: Vec<BlockArg> = state.iter().map(|&value| BlockArg::Value(value)).collect();
        self.b.ins().brif(left, inside, &[], after, &done);

        self.b.switch_to_block(inside);
        let mask = self.first(active);
        self.strip = Some(Strip { active, mask });
        let next = self.iteration(code, index, &state);
        self.strip = None;
        let kept: Vec<ir::Value> =
            next.into_iter().zip(&state).map(|(next, &old)| self.select(mask, next, old)).collect();
        self.jump(after, &kept);

        self.b.switch_to_block(after);
        self.carry_params(after, &code.carried)
    }

    /// The code of a loop once; gives what it carries on.
    fn iteration(&mut self, code: &Loop, index: ir::Value, state: &[ir::Value]) -> Vec<ir::Value> {
        self.set(code.index, index);
        for (carried, &value) in code.carried.iter().zip(state) {
            self.set(carried.param, value);
        }
        self.insts(&code.insts);
        code.carried.iter().map(|carried| self.get(carried.next)).collect()
    }

    fn carry_params(&mut self, block: Block, carried: &[Carried]) -> Vec<ir::Value> {
        carried
            .iter()
            .map(|carried| self.b.append_block_param(block, clif(self.body.ty(carried.param))))
            .collect()
    }

    fn jump(&mut self, block: Block, args: &[ir::Value]) {
        let args: Vec<BlockArg> = args.iter().map(|&value| BlockArg::Value(value)).collect();
        self.b.ins().jump(block, &args);
    }

    fn constant(&mut self, value: Const) -> ir::Value {
        match value {
            Const::Int(value) => self.b.ins().iconst(types::I64, value),
            Const::F32(value) => self.lanes_of(types::F32X4, [value.to_bits(); LANES]),
            Const::I32(value) => self.lanes_of(types::I32X4, [value as u32; LANES]),
            Const::Mask(value) => self.lanes_of(types::I32X4, [if value { u32::MAX } else { 0 }; LANES]),
        }
    }

    /// A vector constant.
    fn lanes_of(&mut self, ty: Type, lanes: [u32; LANES]) -> ir::Value {
        let bytes: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
        let data = self.b.func.dfg.constants.insert(ConstantData::from(&bytes[..]));
        self.b.ins().vconst(ty, data)
    }

    /// The same bits as another vector type.
    fn cast(&mut self, to: Type, value: ir::Value) -> ir::Value {
        if self.b.func.dfg.value_type(value) == to {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(ir::Endianness::Little);
        self.b.ins().bitcast(to, flags, value)
    }

    /// The address of the sixteen bytes that inactive lanes may touch.
    fn elsewhere(&mut self) -> ir::Value {
        let slot = *self.elsewhere.get_or_insert_with(|| {
            self.b.func.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 4))
        });
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    fn get(&self, value: Value) -> ir::Value {
        self.values[value.index()].expect("a verified body defines values before their uses")
    }

    fn set(&mut self, value: Value, is: ir::Value) {
        self.values[value.index()] = Some(is);
    }
}

/// The type in Cranelift's IR.
fn clif(ty: Ty) -> Type {
    match ty {
        Ty::Ptr | Ty::PtrMut | Ty::Int => types::I64,
        Ty::F32 => types::F32X4,
        Ty::I32 | Ty::Mask => types::I32X4,
    }
}
