//! Integers, conditions and loops of a function under construction: value numbering, constant folding and loop-invariant code motion
//! while it is emitted.
//!
//! Each sum and each product is computed once, before the outermost loop that does not change it. Addresses are long sums that
//! differ in one term: Cranelift would find that too, but is given a quarter of the instructions so.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use std::collections::BTreeMap;

/// An integer of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Number {
    Constant(i64),
    Value(Value),
}

/// What is done with two integers; sums and products wrap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Op {
    Add,
    Mul,
    /// Rounded down, of a positive divisor.
    Quotient,
    Min,
    Max,
}

/// An operator and its operands.
type Computed = (Op, Number, Number);

/// A block of statements that is being emitted.
struct Scope {
    /// For the body of a loop, the block that ends with the jump to its header; `None` for the branch of a condition.
    before: Option<Block>,
    /// What is in sight in this block only.
    computed: Vec<Computed>,
}

/// A loop whose body is being emitted.
pub(super) struct OpenLoop {
    /// The variable.
    pub(super) at: Number,
    header: Block,
    exit: Block,
}

/// A function under construction.
pub(super) struct Code<'a> {
    pub(super) b: FunctionBuilder<'a>,
    scopes: Vec<Scope>,
    known: BTreeMap<Computed, Number>,
    /// In how many scopes each value is.
    depths: SecondaryMap<Value, usize>,
}

impl<'a> Code<'a> {
    /// A function without statements; its entry is the current block.
    pub(super) fn new(b: FunctionBuilder<'a>) -> Code<'a> {
        Code { b, scopes: Vec::new(), known: BTreeMap::new(), depths: SecondaryMap::new() }
    }

    /// Begins a loop in which a number goes from one up to another.
    pub(super) fn open_loop(&mut self, from: Number, to: Number) -> OpenLoop {
        let (header, body, exit) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let at = self.b.append_block_param(header, types::I64);
        let from = self.value(from);
        let before = self.b.current_block();
        self.b.ins().jump(header, &[BlockArg::Value(from)]);
        self.b.switch_to_block(header);
        self.scopes.push(Scope { before, computed: Vec::new() });
        let at = self.emitted(at);
        let more = self.is_less(at, to);
        self.b.ins().brif(more, body, &[], exit, &[]);
        self.b.switch_to_block(body);
        OpenLoop { at, header, exit }
    }

    /// Ends it; each time the number grows by `step`.
    pub(super) fn close_loop(&mut self, of: &OpenLoop, step: Number) {
        let next = self.sum(vec![of.at, step]);
        let next = self.value(next);
        self.b.ins().jump(of.header, &[BlockArg::Value(next)]);
        self.close();
        self.b.switch_to_block(of.exit);
    }

    /// Begins the branch of a condition, in a block of its own.
    pub(super) fn open_branch(&mut self, block: Block) {
        self.b.switch_to_block(block);
        self.scopes.push(Scope { before: None, computed: Vec::new() });
    }

    /// Ends it.
    pub(super) fn close_branch(&mut self, join: Block) {
        self.close();
        self.b.ins().jump(join, &[]);
    }

    fn close(&mut self) {
        for computed in self.scopes.pop().expect("a scope is open").computed {
            self.known.remove(&computed);
        }
    }

    /// A value that has just been emitted, which stays where it is.
    pub(super) fn emitted(&mut self, value: Value) -> Number {
        self.depths[value] = self.scopes.len();
        Number::Value(value)
    }

    /// The number as a value here.
    pub(super) fn value(&mut self, number: Number) -> Value {
        materialise(&mut self.cursor(), number)
    }

    /// Whether the first is less than the second.
    pub(super) fn is_less(&mut self, x: Number, y: Number) -> Value {
        let (x, y) = (self.value(x), self.value(y));
        self.b.ins().icmp(IntCC::SignedLessThan, x, y)
    }

    /// The sum of these. What changes in outer loops is added first.
    pub(super) fn sum(&mut self, terms: Vec<Number>) -> Number {
        self.fold(Op::Add, Number::Constant(0), terms)
    }

    /// The product of these. What changes in outer loops is multiplied first.
    pub(super) fn product(&mut self, factors: Vec<Number>) -> Number {
        self.fold(Op::Mul, Number::Constant(1), factors)
    }

    fn fold(&mut self, op: Op, neutral: Number, mut numbers: Vec<Number>) -> Number {
        numbers.sort_by_key(|number| (self.depth(*number), *number));
        numbers.into_iter().fold(neutral, |whole, number| self.number(op, whole, number))
    }

    /// What an operator makes of two numbers.
    pub(super) fn number(&mut self, op: Op, x: Number, y: Number) -> Number {
        if let Some(simple) = simplified(op, x, y) {
            return simple;
        }
        let computed = match op {
            Op::Quotient => (op, x, y),
            Op::Add | Op::Mul | Op::Min | Op::Max => (op, x.min(y), x.max(y)),
        };
        if let Some(known) = self.known.get(&computed) {
            return *known;
        }
        let depth = self.depth(x).max(self.depth(y));
        let before = (depth..self.scopes.len()).find_map(|at| Some((at, self.scopes[at].before?)));
        let (mut cursor, depth) = match before {
            Some((at, before)) => (FuncCursor::new(self.b.func).at_last_inst(before), at),
            None => {
                let depth = self.scopes.len();
                (self.cursor(), depth)
            }
        };
        let value = compute(&mut cursor, computed);
        self.depths[value] = depth;
        self.known.insert(computed, Number::Value(value));
        if let Some(scope) = depth.checked_sub(1).and_then(|at| self.scopes.get_mut(at)) {
            scope.computed.push(computed);
        }
        Number::Value(value)
    }

    fn depth(&self, number: Number) -> usize {
        match number {
            Number::Constant(_) => 0,
            Number::Value(value) => self.depths[value],
        }
    }

    /// The end of the current block.
    fn cursor(&mut self) -> FuncCursor<'_> {
        self.b.ensure_inserted_block();
        let block = self.b.current_block().expect("code is emitted into a block");
        FuncCursor::new(self.b.func).at_bottom(block)
    }
}

/// What needs no instruction.
fn simplified(op: Op, x: Number, y: Number) -> Option<Number> {
    use Number::Constant;
    match (op, x, y) {
        (Op::Add, Constant(a), Constant(b)) => Some(Constant(a.wrapping_add(b))),
        (Op::Mul, Constant(a), Constant(b)) => Some(Constant(a.wrapping_mul(b))),
        (Op::Quotient, Constant(a), Constant(b)) if b > 0 => Some(Constant(a.div_euclid(b))),
        (Op::Min, Constant(a), Constant(b)) => Some(Constant(a.min(b))),
        (Op::Max, Constant(a), Constant(b)) => Some(Constant(a.max(b))),
        (Op::Add, Constant(0), other) | (Op::Add, other, Constant(0)) => Some(other),
        (Op::Mul, Constant(0), _) | (Op::Mul, _, Constant(0)) => Some(Constant(0)),
        (Op::Mul, Constant(1), other) | (Op::Mul, other, Constant(1)) => Some(other),
        (Op::Quotient, of, Constant(1)) => Some(of),
        (Op::Min | Op::Max, x, y) if x == y => Some(x),
        (Op::Add | Op::Mul | Op::Quotient | Op::Min | Op::Max, ..) => None,
    }
}

fn materialise(cursor: &mut FuncCursor<'_>, number: Number) -> Value {
    match number {
        Number::Constant(n) => cursor.ins().iconst(types::I64, n),
        Number::Value(value) => value,
    }
}

/// Emits the instructions of an operator.
fn compute(cursor: &mut FuncCursor<'_>, (op, x, y): Computed) -> Value {
    if let (Op::Quotient, Number::Constant(by)) = (op, y)
        && by > 0
        && by & (by - 1) == 0
    {
        // Shifting rounds down whatever the sign.
        let x = materialise(cursor, x);
        return cursor.ins().sshr_imm_u(x, i64::from(by.trailing_zeros()));
    }
    let (x, y) = (materialise(cursor, x), materialise(cursor, y));
    match op {
        Op::Add => cursor.ins().iadd(x, y),
        Op::Mul => cursor.ins().imul(x, y),
        Op::Min => cursor.ins().smin(x, y),
        Op::Max => cursor.ins().smax(x, y),
        Op::Quotient => {
            let q = cursor.ins().sdiv(x, y);
            let product = cursor.ins().imul(q, y);
            let rest = cursor.ins().isub(x, product);
            let below = cursor.ins().sshr_imm_u(rest, 63);
            cursor.ins().iadd(q, below)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::{AbiParam, Function, Opcode, Signature};
    use cranelift_codegen::isa::CallConv;
    use cranelift_codegen::settings::{Flags, builder};
    use cranelift_codegen::verify_function;
    use cranelift_frontend::FunctionBuilderContext;

    /// A function of two integers whose statements `write` adds.
    fn function(write: impl FnOnce(&mut Code<'_>, Number, Number)) -> Function {
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params = vec![AbiParam::new(types::I64); 2];
        let mut function = Function::with_name_signature(Default::default(), signature);
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut function, &mut context);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let [x, y] = b.block_params(entry)[..] else { unreachable!("there are two") };
        let mut code = Code::new(b);
        write(&mut code, Number::Value(x), Number::Value(y));
        code.b.ins().return_(&[]);
        code.b.seal_all_blocks();
        code.b.finalize(crate::target::Target::oldest().unwrap().cranelift().frontend_config());
        verify_function(&function, &Flags::new(builder())).unwrap();
        function
    }

    /// In which blocks an instruction stands, by position.
    fn blocks_of(function: &Function, opcode: Opcode) -> Vec<usize> {
        let blocks = function.layout.blocks().enumerate();
        let all =
            blocks.flat_map(|(at, block)| function.layout.block_insts(block).map(move |inst| (at, inst)));
        all.filter(|(_, inst)| function.dfg.insts[*inst].opcode() == opcode).map(|(at, _)| at).collect()
    }

    const LOOPS: [Number; 2] = [Number::Constant(0), Number::Constant(9)];

    #[test]
    fn what_loops_do_not_change_is_computed_once_and_before_them() {
        let made = function(|code, x, y| {
            for _ in 0..2 {
                let outer = code.open_loop(LOOPS[0], LOOPS[1]);
                let inner = code.open_loop(LOOPS[0], LOOPS[1]);
                let product = code.product(vec![y, Number::Constant(3), x]);
                code.sum(vec![inner.at, product]);
                code.close_loop(&inner, Number::Constant(1));
                code.close_loop(&outer, Number::Constant(1));
            }
        });
        // Two factors and a constant, in the entry.
        assert_eq!(blocks_of(&made, Opcode::Imul), [0, 0], "{made}");
    }

    #[test]
    fn what_changes_in_a_loop_stays_in_it() {
        let made = function(|code, x, y| {
            let outer = code.open_loop(LOOPS[0], LOOPS[1]);
            let inner = code.open_loop(LOOPS[0], LOOPS[1]);
            code.product(vec![inner.at, y, outer.at, x]);
            code.close_loop(&inner, Number::Constant(1));
            code.close_loop(&outer, Number::Constant(1));
        });
        // `x * y` before both loops, `outer` in the body of the outer, `inner` in that of the inner.
        assert_eq!(blocks_of(&made, Opcode::Imul), [0, 2, 4], "{made}");
    }

    #[test]
    fn a_branch_does_not_see_what_another_computes() {
        let made = function(|code, x, y| {
            let holds = code.is_less(x, y);
            let [yes, no, join] = [(); 3].map(|()| code.b.create_block());
            code.b.ins().brif(holds, yes, &[], no, &[]);
            for block in [yes, no] {
                code.open_branch(block);
                code.product(vec![x, y]);
                code.close_branch(join);
            }
            code.b.switch_to_block(join);
            code.product(vec![x, y]);
        });
        assert_eq!(blocks_of(&made, Opcode::Imul), [1, 2, 3], "{made}");
    }

    #[test]
    fn constants_need_no_instruction() {
        let made = function(|code, x, _| {
            let (two, seven) = (Number::Constant(2), Number::Constant(-7));
            assert_eq!(code.number(Op::Quotient, seven, two), Number::Constant(-4));
            assert_eq!(code.number(Op::Max, seven, two), two);
            assert_eq!(code.product(vec![x, Number::Constant(0)]), Number::Constant(0));
            assert_eq!(code.sum(vec![x, seven, Number::Constant(7)]), x);
        });
        assert_eq!(made.layout.block_insts(made.layout.entry_block().unwrap()).count(), 1, "{made}");
    }
}
