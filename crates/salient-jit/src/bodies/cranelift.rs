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
use salient_vector::body::{Addr, Const, Inst, Loop};
use salient_vector::{Body, Elem, Op, Place, Ty, Value};

use super::skeleton::{self, Backend, State, Trip};
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
        changing: None,
        last_strip: None,
        elsewhere: None,
    };
    emit.entry();
    skeleton::sections(&mut emit, body);
    emit.b.ins().return_(&[]);
    emit.b.seal_all_blocks();
    emit.b.finalize(target.cranelift().frontend_config());
    function
}

/// The last strip of a loop over lanes: lane 0 is active, and the others are below a bound.
#[derive(Clone, Copy)]
struct LastStrip {
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
    /// In a loop, of each value whether it may differ between the iterations.
    changing: Option<Vec<bool>>,
    last_strip: Option<LastStrip>,
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

    fn jump(&mut self, block: Block, args: &[ir::Value]) {
        let args: Vec<BlockArg> = args.iter().map(|&value| BlockArg::Value(value)).collect();
        self.b.ins().jump(block, &args);
    }

    /// Parameters of a block, of the types of what goes in.
    fn parameters(&mut self, block: Block, like: &[ir::Value]) -> Vec<ir::Value> {
        like.iter()
            .map(|&value| {
                let ty = self.b.func.dfg.value_type(value);
                self.b.append_block_param(block, ty)
            })
            .collect()
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
}

impl Backend for Emit<'_> {
    type Value = ir::Value;

    fn lanes(&self) -> usize {
        LANES
    }

    fn get(&mut self, value: Value) -> ir::Value {
        self.values[value.index()].expect("a verified body defines values before their uses")
    }

    fn set(&mut self, value: Value, is: ir::Value) {
        self.values[value.index()] = Some(is);
    }

    fn define(&mut self, out: Value, value: Const) {
        let value = self.constant(value);
        self.set(out, value);
    }

    fn operator(&mut self, out: Value, op: Op, args: &[Value]) {
        if op == Op::First {
            self.bounds[out.index()] = Some(self.get(args[0]));
        }
        let value = self.op(op, args);
        self.set(out, value);
    }

    fn integer(&mut self, value: i64) -> ir::Value {
        self.b.ins().iconst(types::I64, value)
    }

    fn plus(&mut self, a: ir::Value, distance: i64) -> ir::Value {
        self.b.ins().iadd_imm_s(a, distance)
    }

    fn minus(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        self.b.ins().isub(a, b)
    }

    fn times(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        self.b.ins().imul(a, b)
    }

    fn least(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        let is_less = self.b.ins().icmp(IntCC::SignedLessThan, a, b);
        self.b.ins().select(is_less, a, b)
    }

    fn where_active(&mut self, _of: Value, new: ir::Value, old: ir::Value) -> ir::Value {
        let strip = self.last_strip.expect("within the last strip");
        self.select(strip.mask, new, old)
    }

    fn address(&mut self, elem: Elem, addr: &Addr) -> ir::Value {
        let (base, distance) = self.base_and_distance(addr, elem);
        self.b.ins().iadd_imm_s(base, i64::from(distance))
    }

    fn load(&mut self, elem: Elem, place: &Place) -> ir::Value {
        self.load_place(elem, place)
    }

    fn load_int(&mut self, elem: Elem, addr: &Addr) -> ir::Value {
        self.load_integer(elem, addr)
    }

    fn store(&mut self, elem: Elem, place: &Place, value: Value) {
        let value = self.get(value);
        self.store_place(elem, place, value);
    }

    fn after_words(&mut self, address: ir::Value, words: ir::Value) -> ir::Value {
        let bytes = self.scaled(words, Elem::F32);
        self.b.ins().iadd(address, bytes)
    }

    fn times_strips(&mut self, elements: ir::Value, count: ir::Value) -> ir::Value {
        let whole = self.b.ins().sshr_imm_u(elements, i64::from(LANES.trailing_zeros()));
        self.times(whole, count)
    }

    fn square(&mut self, from: (ir::Value, ir::Value), to: (ir::Value, ir::Value)) -> ir::Value {
        self.transpose_square(from, to)
    }

    fn word(&mut self, from: ir::Value, to: ir::Value) {
        let flags = MemFlagsData::new().with_notrap();
        let word = self.b.ins().load(types::I32, flags, from, 0);
        self.b.ins().store(flags, word, to, 0);
    }

    /// Cranelift has no such instruction.
    fn prefetch(&mut self, _elem: Elem, _addr: &Addr) {}

    fn while_whole(
        &mut self,
        whole: Trip<ir::Value>,
        start: State<ir::Value>,
        step: impl FnOnce(&mut Self, State<ir::Value>) -> State<ir::Value>,
    ) -> State<ir::Value> {
        let last = self.b.ins().iadd_imm_s(whole.trip, -whole.stride);
        let [header, inside, after] = [(); 3].map(|()| self.b.create_block());
        let start = start.all();
        self.jump(header, &start);

        self.b.switch_to_block(header);
        let at = State::of(&self.parameters(header, &start));
        let whole = self.b.ins().icmp(IntCC::SignedLessThanOrEqual, at.index, last);
        self.b.ins().brif(whole, inside, &[], after, &[]);

        self.b.switch_to_block(inside);
        let next = step(self, at.clone());
        self.jump(header, &next.all());

        self.b.switch_to_block(after);
        at
    }

    fn if_any_left(
        &mut self,
        trip: ir::Value,
        start: State<ir::Value>,
        strip: impl FnOnce(&mut Self, State<ir::Value>) -> Vec<ir::Value>,
    ) -> Vec<ir::Value> {
        let [inside, after] = [(); 2].map(|()| self.b.create_block());
        let active = self.b.ins().isub(trip, start.index);
        let left = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, active, 0);
        let before = start.carried.clone();
        let done: Vec<BlockArg> = before.iter().map(|&value| BlockArg::Value(value)).collect();
        self.b.ins().brif(left, inside, &[], after, &done);

        self.b.switch_to_block(inside);
        let mask = self.first(active);
        self.last_strip = Some(LastStrip { active, mask });
        let kept = strip(self, start);
        self.last_strip = None;
        self.jump(after, &kept);

        self.b.switch_to_block(after);
        self.parameters(after, &before)
    }

    fn wants(&mut self, _at: usize, _inst: &Inst) -> bool {
        true
    }

    /// What is asked for is where memory is read, not what is there.
    fn varies(_inst: &Inst) -> bool {
        false
    }

    fn enter_loop(&mut self, _code: &Loop, changing: Vec<bool>) {
        self.changing = Some(changing);
    }

    fn leave_loop(&mut self) {
        self.changing = None;
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
