//! Loop programs to functions of Cranelift's IR: loops, integers, addresses and calls of bodies.
//!
//! A nest is `fn(addresses, dimensions, thread, begin, end)` with the platform's C calling convention and runs the items
//! `begin..end`. The first three point at 64-bit cells: the address of each buffer that the kernel touches, in the order of
//! [`Nest::buffers`]; the value of each dimension of the program; and of the calling thread the address of its status and of
//! each of its scratch slots. Nothing here knows what a body does.

use crate::bodies;
use crate::compile::code::{Code, Number, Op};
use crate::target::Target;
use cranelift_codegen::ir::{
    AbiParam, FuncRef, Function, InstBuilder, MemFlagsData, Signature, UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};
use salient_ir::{Dim, DimNode, Name, Symbol, SymbolKind};
use salient_tile::{Arg, Base, BufferId, Int, Kernel, LANES, Program, Stmt};
use std::collections::BTreeMap;

/// The cells of a thread, by position.
pub(crate) struct ThreadCells;

impl ThreadCells {
    /// The address of the status.
    pub(crate) const STATUS: usize = 0;

    /// The address of a scratch slot.
    pub(crate) fn slot(at: usize) -> usize {
        at + 1
    }
}

/// The loops of a kernel apart from the names of its buffers and variables, so that kernels that differ in nothing else are
/// one function: the layers of a model.
#[derive(Debug, PartialEq)]
pub(crate) struct Nest {
    item: Symbol,
    /// Buffers are numbered in the order of their first use, variables in the order in which they are bound.
    block: Vec<Stmt>,
    /// Bytes of an element of each buffer.
    sizes: Vec<i64>,
    /// The functions of the bodies.
    bodies: Vec<FuncId>,
}

impl Nest {
    /// The nest of a kernel, and the buffers that it numbers; `bodies` are the functions of the kernel's bodies.
    pub(crate) fn of(program: &Program, kernel: &Kernel, bodies: Vec<FuncId>) -> (Nest, Vec<BufferId>) {
        let mut numbers = Numbers::default();
        let item = numbers.bind(&kernel.item);
        let block = numbers.block(&kernel.block);
        let sizes = numbers.buffers.iter().map(|id| program.buffer(*id).elem().size()).collect();
        (Nest { item, block, sizes, bodies }, numbers.buffers)
    }
}

/// The variables of a nest, by the order in which they are bound.
const VARIABLE: SymbolKind = SymbolKind::new(0, "v");

/// A number for each, in the order of their decimals: 10 stands before 2. Terms are added up in the order of their variables;
/// any would do, and this is the one in which the code of kernels was measured.
fn decimals(n: u32) -> u32 {
    let digits = n.to_string().into_bytes().into_iter().chain(std::iter::repeat(b'0' - 1));
    digits.take(6).fold(0, |number, digit| number * 11 + u32::from(digit - (b'0' - 1)))
}

/// What has been numbered so far.
#[derive(Default)]
struct Numbers {
    buffers: Vec<BufferId>,
    /// The variables in sight.
    variables: BTreeMap<Symbol, Symbol>,
    bound: u32,
}

impl Numbers {
    /// A variable from here to the end of the block.
    fn bind(&mut self, var: &Symbol) -> Symbol {
        let number = VARIABLE.number(decimals(self.bound));
        self.bound += 1;
        self.variables.insert(var.clone(), number.clone());
        number
    }

    fn block(&mut self, stmts: &[Stmt]) -> Vec<Stmt> {
        let outer = self.variables.clone();
        let stmts = stmts.iter().map(|stmt| self.stmt(stmt)).collect();
        self.variables = outer;
        stmts
    }

    fn stmt(&mut self, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::For { var, from, to, step, block } => {
                let (from, to, step) = (self.dim(from), self.dim(to), self.dim(step));
                let outer = self.variables.clone();
                let var = self.bind(var);
                let block = self.block(block);
                self.variables = outer;
                Stmt::For { var, from, to, step, block }
            }
            Stmt::Let { var, value } => {
                let value = match value {
                    Int::Dim(d) => Int::Dim(self.dim(d)),
                    Int::Min(of) => Int::Min(of.iter().map(|d| self.dim(d)).collect()),
                    Int::Max(of) => Int::Max(of.iter().map(|d| self.dim(d)).collect()),
                };
                Stmt::Let { var: self.bind(var), value }
            }
            Stmt::Read { var, scratch, offset } => {
                let offset = self.dim(offset);
                Stmt::Read { var: self.bind(var), scratch: *scratch, offset }
            }
            Stmt::If { left, right, then, otherwise } => Stmt::If {
                left: self.dim(left),
                right: self.dim(right),
                then: self.block(then),
                otherwise: self.block(otherwise),
            },
            Stmt::Call { body, args } => {
                Stmt::Call { body: *body, args: args.iter().map(|arg| self.arg(arg)).collect() }
            }
        }
    }

    fn arg(&mut self, arg: &Arg) -> Arg {
        match arg {
            Arg::Int(d) => Arg::Int(self.dim(d)),
            Arg::Address { base, offset } => {
                let base = match base {
                    Base::Buffer(id) => Base::Buffer(self.buffer(*id)),
                    Base::Scratch(_) | Base::Status => *base,
                };
                Arg::Address { base, offset: self.dim(offset) }
            }
        }
    }

    fn buffer(&mut self, id: BufferId) -> BufferId {
        let at = self.buffers.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.buffers.push(id);
            self.buffers.len() - 1
        });
        BufferId(at)
    }

    fn dim(&self, d: &Dim) -> Dim {
        d.renamed(&self.variables)
    }
}

/// The signature of every nest.
pub(crate) fn signature(target: &Target) -> Signature {
    let mut signature = Signature::new(target.cranelift().default_call_conv());
    signature.params = vec![AbiParam::new(types::I64); 5];
    signature
}

/// Makes the function of a nest of a program with these dimensions.
pub(crate) fn emit(nest: &Nest, dimensions: &[Name], module: &mut JITModule, target: &Target) -> Function {
    let mut function = Function::with_name_signature(UserFuncName::default(), signature(target));
    let mut context = FunctionBuilderContext::new();
    let bodies = nest.bodies.iter().map(|id| module.declare_func_in_func(*id, &mut function)).collect();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let [addresses, cells, thread, begin, end] = b.block_params(entry)[..] else {
        unreachable!("the signature has five parameters");
    };
    let mut emit = Emit {
        code: Code::new(b),
        sizes: &nest.sizes,
        bodies,
        lanes: bodies::lanes(target),
        addresses,
        thread,
        bases: BTreeMap::new(),
        variables: BTreeMap::new(),
    };
    for (at, name) in dimensions.iter().enumerate() {
        let value = emit.cell(cells, at);
        emit.variables.insert(name.into(), Number::Value(value));
    }
    emit.load_bases(&nest.block);
    let [begin, end] = [begin, end].map(Number::Value);
    emit.repeat(&nest.item, [begin, end, Number::Constant(1)], &nest.block);
    emit.code.b.ins().return_(&[]);
    emit.code.b.seal_all_blocks();
    emit.code.b.finalize(target.cranelift().frontend_config());
    function
}

struct Emit<'a> {
    code: Code<'a>,
    sizes: &'a [i64],
    bodies: Vec<FuncRef>,
    lanes: usize,
    addresses: Value,
    thread: Value,
    /// The address of each base that the nest uses.
    bases: BTreeMap<Base, Value>,
    /// Dimensions and the loop variables in sight.
    variables: BTreeMap<Symbol, Number>,
}

impl Emit<'_> {
    /// A cell of a table that does not change while the nest runs.
    fn cell(&mut self, table: Value, at: usize) -> Value {
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        self.code.b.ins().load(types::I64, flags, table, (at * 8) as i32)
    }

    /// Loads every address once, before any loop.
    fn load_bases(&mut self, block: &[Stmt]) {
        for stmt in block {
            match stmt {
                Stmt::For { block, .. } => self.load_bases(block),
                Stmt::If { then, otherwise, .. } => {
                    self.load_bases(then);
                    self.load_bases(otherwise);
                }
                Stmt::Read { scratch, .. } => self.load_base(Base::Scratch(*scratch)),
                Stmt::Call { args, .. } => {
                    for arg in args {
                        if let Arg::Address { base, .. } = arg {
                            self.load_base(*base);
                        }
                    }
                }
                Stmt::Let { .. } => {}
            }
        }
    }

    fn load_base(&mut self, base: Base) {
        if self.bases.contains_key(&base) {
            return;
        }
        let (table, at) = match base {
            Base::Buffer(id) => (self.addresses, id.0),
            Base::Scratch(slot) => (self.thread, ThreadCells::slot(slot)),
            Base::Status => (self.thread, ThreadCells::STATUS),
        };
        let value = self.cell(table, at);
        self.bases.insert(base, value);
    }

    /// Bytes of an element of a base.
    fn size(&self, base: Base) -> i64 {
        match base {
            Base::Buffer(id) => self.sizes[id.0],
            Base::Scratch(_) | Base::Status => 4,
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        // What a block binds is out of sight after it.
        let before = self.variables.clone();
        for stmt in stmts {
            self.stmt(stmt);
        }
        self.variables = before;
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, from, to, step, block } => {
                let range = [from, to, step].map(|d| self.dim(d));
                self.repeat(var, range, block);
            }
            Stmt::Let { var, value } => {
                let value = self.int(value);
                self.variables.insert(var.clone(), value);
            }
            Stmt::Read { var, scratch, offset } => {
                let address = self.address(Base::Scratch(*scratch), offset);
                let address = self.code.value(address);
                let value = self.code.b.ins().load(types::I32, MemFlagsData::trusted(), address, 0);
                let value = self.code.b.ins().sextend(types::I64, value);
                let number = self.code.emitted(value);
                self.variables.insert(var.clone(), number);
            }
            Stmt::If { left, right, then, otherwise } => self.branch((left, right), then, otherwise),
            Stmt::Call { body, args } => {
                let args: Vec<Number> = (args.iter())
                    .map(|arg| match arg {
                        Arg::Address { base, offset } => self.address(*base, offset),
                        Arg::Int(d) => self.dim(d),
                    })
                    .collect();
                let args: Vec<Value> = args.into_iter().map(|arg| self.code.value(arg)).collect();
                self.code.b.ins().call(self.bodies[*body], &args);
            }
        }
    }

    fn branch(&mut self, (left, right): (&Dim, &Dim), then: &[Stmt], otherwise: &[Stmt]) {
        let (left, right) = (self.dim(left), self.dim(right));
        let holds = self.code.is_less(left, right);
        let [yes, no, join] = [(); 3].map(|()| self.code.b.create_block());
        self.code.b.ins().brif(holds, yes, &[], no, &[]);
        for (block, stmts) in [(yes, then), (no, otherwise)] {
            self.code.open_branch(block);
            self.block(stmts);
            self.code.close_branch(join);
        }
        self.code.b.switch_to_block(join);
    }

    /// A block for each value of a variable, from one number up to another by steps.
    fn repeat(&mut self, var: &Symbol, [from, to, step]: [Number; 3], stmts: &[Stmt]) {
        let of = self.code.open_loop(from, to);
        let before = self.variables.insert(var.clone(), of.at);
        self.block(stmts);
        match before {
            Some(value) => self.variables.insert(var.clone(), value),
            None => self.variables.remove(var),
        };
        self.code.close_loop(&of, step);
    }

    fn address(&mut self, base: Base, offset: &Dim) -> Number {
        let (start, size) = (self.bases[&base], self.size(base));
        let mut terms = self.terms(&offset.to_node(), size);
        terms.push(Number::Value(start));
        self.code.sum(terms)
    }

    fn int(&mut self, int: &Int) -> Number {
        let (list, op) = match int {
            Int::Dim(d) => return self.dim(d),
            Int::Min(list) => (list, Op::Min),
            Int::Max(list) => (list, Op::Max),
        };
        let values: Vec<Number> = list.iter().map(|d| self.dim(d)).collect();
        let least = values.into_iter().reduce(|x, y| self.code.number(op, x, y));
        least.expect("the least or greatest of at least one")
    }

    fn dim(&mut self, d: &Dim) -> Number {
        self.node(&d.to_node())
    }

    fn node(&mut self, node: &DimNode) -> Number {
        let terms = self.terms(node, 1);
        self.code.sum(terms)
    }

    /// The terms of a sum, each so many times.
    fn terms(&mut self, node: &DimNode, times: i64) -> Vec<Number> {
        let mut sum = vec![node];
        let mut terms = Vec::new();
        while let Some(node) = sum.pop() {
            if let DimNode::Add(x, y) = node {
                sum.extend([&**x, &**y]);
            } else {
                let mut factors = vec![Number::Constant(times)];
                self.factors(node, &mut factors);
                terms.push(self.code.product(factors));
            }
        }
        terms
    }

    /// Adds the factors of a product.
    fn factors(&mut self, node: &DimNode, to: &mut Vec<Number>) {
        match node {
            DimNode::Constant(n) => to.push(Number::Constant(*n)),
            DimNode::Symbol(symbol) if *symbol == LANES => to.push(Number::Constant(self.lanes as i64)),
            DimNode::Symbol(symbol) => match self.variables.get(symbol) {
                Some(value) => to.push(*value),
                None => unreachable!("`{symbol}` is bound before it is used"),
            },
            DimNode::Add(..) => to.push(self.node(node)),
            DimNode::Mul(x, y) => {
                self.factors(x, to);
                self.factors(y, to);
            }
            DimNode::Div(x, y) => {
                let (x, y) = (self.node(x), self.node(y));
                // Zero divides only where an axis is empty, and nothing is done with the quotient; but it must not trap.
                let y = self.code.number(Op::Max, y, Number::Constant(1));
                to.push(self.code.number(Op::Quotient, x, y));
            }
        }
    }
}
