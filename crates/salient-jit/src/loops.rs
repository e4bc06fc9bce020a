//! Loop programs to functions of Cranelift's IR: loops, integers, addresses and calls of bodies.
//!
//! A kernel is `fn(context, slots, begin, end)` with the platform's C calling convention. `context` points at 64-bit cells:
//! the address of each buffer, the value of each dimension, the address of the status. `slots` points at the address of
//! each scratch slot of the calling thread. Items `begin..end` are run. Nothing here knows what a body does.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, BlockArg, FuncRef, Function, InstBuilder, MemFlagsData, Signature, UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};
use salient_ir::{Dim, DimNode};
use salient_tile::{Arg, Base, Int, Kernel, LANES, Program, Stmt};
use std::collections::BTreeMap;

use crate::target::Target;

/// The cells of the context, by position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    buffers: usize,
    symbols: usize,
}

impl Layout {
    pub(crate) fn of(program: &Program) -> Layout {
        Layout { buffers: program.buffers.len(), symbols: program.symbols.len() }
    }

    /// The cell of a buffer's address.
    pub(crate) fn buffer(self, at: usize) -> usize {
        at
    }

    /// The cell of a dimension's value.
    pub(crate) fn symbol(self, at: usize) -> usize {
        self.buffers + at
    }

    /// The cell of the status's address.
    pub(crate) fn status(self) -> usize {
        self.buffers + self.symbols
    }

    /// How many cells there are.
    pub(crate) fn len(self) -> usize {
        self.status() + 1
    }
}

/// The signature of every kernel.
pub(crate) fn signature(target: &Target) -> Signature {
    let mut signature = Signature::new(target.cranelift().default_call_conv());
    signature.params = vec![AbiParam::new(types::I64); 4];
    signature
}

/// Makes the function of a kernel; `bodies` are the functions of its bodies.
pub(crate) fn emit(
    program: &Program,
    kernel: &Kernel,
    bodies: &[FuncId],
    lanes: usize,
    module: &mut JITModule,
    target: &Target,
) -> Function {
    let mut function = Function::with_name_signature(UserFuncName::default(), signature(target));
    let mut context = FunctionBuilderContext::new();
    let refs = bodies.iter().map(|id| module.declare_func_in_func(*id, &mut function)).collect();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let params = b.block_params(entry).to_vec();
    let mut emit = Emit {
        b,
        program,
        bodies: refs,
        lanes,
        layout: Layout::of(program),
        context: params[0],
        slots: params[1],
        bases: BTreeMap::new(),
        variables: BTreeMap::new(),
    };
    for (at, name) in program.symbols.iter().enumerate() {
        let value = emit.cell(params[0], emit.layout.symbol(at));
        emit.variables.insert(name.to_string(), value);
    }
    emit.load_bases(&kernel.block);
    emit.repeat(&kernel.item, params[2], params[3], 1, &kernel.block);
    emit.b.ins().return_(&[]);
    emit.b.seal_all_blocks();
    emit.b.finalize(target.cranelift().frontend_config());
    function
}

struct Emit<'a> {
    b: FunctionBuilder<'a>,
    program: &'a Program,
    bodies: Vec<FuncRef>,
    lanes: usize,
    layout: Layout,
    context: Value,
    slots: Value,
    /// The address of each base that the kernel uses.
    bases: BTreeMap<Base, Value>,
    /// Dimensions and the loop variables in sight.
    variables: BTreeMap<String, Value>,
}

impl Emit<'_> {
    /// A cell of a table that does not change while the kernel runs.
    fn cell(&mut self, table: Value, at: usize) -> Value {
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        self.b.ins().load(types::I64, flags, table, (at * 8) as i32)
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
            Base::Buffer(id) => (self.context, self.layout.buffer(id.0)),
            Base::Scratch(slot) => (self.slots, slot),
            Base::Status => (self.context, self.layout.status()),
        };
        let value = self.cell(table, at);
        self.bases.insert(base, value);
    }

    /// Bytes of an element of a base.
    fn size(&self, base: Base) -> i64 {
        match base {
            Base::Buffer(id) => self.program.buffer(id).elem().size(),
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
                let (from, to) = (self.dim(from), self.dim(to));
                match step.as_constant() {
                    Some(step) => self.repeat(var, from, to, step, block),
                    None => {
                        let step = self.dim(step);
                        self.repeat_by(var, from, to, step, block);
                    }
                }
            }
            Stmt::Let { var, value } => {
                let value = self.int(value);
                self.variables.insert(var.to_string(), value);
            }
            Stmt::Read { var, scratch, offset } => {
                let address = self.address(Base::Scratch(*scratch), offset);
                let value = self.b.ins().load(types::I32, MemFlagsData::trusted(), address, 0);
                let value = self.b.ins().sextend(types::I64, value);
                self.variables.insert(var.to_string(), value);
            }
            Stmt::If { left, right, then, otherwise } => {
                let (left, right) = (self.dim(left), self.dim(right));
                let holds = self.b.ins().icmp(IntCC::SignedLessThan, left, right);
                let (yes, no, join) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
                self.b.ins().brif(holds, yes, &[], no, &[]);
                for (block, stmts) in [(yes, then), (no, otherwise)] {
                    self.b.switch_to_block(block);
                    self.block(stmts);
                    self.b.ins().jump(join, &[]);
                }
                self.b.switch_to_block(join);
            }
            Stmt::Call { body, args } => {
                let args: Vec<Value> = args
                    .iter()
                    .map(|arg| match arg {
                        Arg::Address { base, offset } => self.address(*base, offset),
                        Arg::Int(d) => self.dim(d),
                    })
                    .collect();
                self.b.ins().call(self.bodies[*body], &args);
            }
        }
    }

    fn repeat(&mut self, var: &str, from: Value, to: Value, step: i64, block: &[Stmt]) {
        let step = self.b.ins().iconst(types::I64, step);
        self.repeat_by(var, from, to, step, block);
    }

    fn repeat_by(&mut self, var: &str, from: Value, to: Value, step: Value, stmts: &[Stmt]) {
        let (header, body, exit) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let at = self.b.append_block_param(header, types::I64);
        self.b.ins().jump(header, &[BlockArg::Value(from)]);
        self.b.switch_to_block(header);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, at, to);
        self.b.ins().brif(more, body, &[], exit, &[]);
        self.b.switch_to_block(body);
        let before = self.variables.insert(var.to_owned(), at);
        self.block(stmts);
        match before {
            Some(value) => self.variables.insert(var.to_owned(), value),
            None => self.variables.remove(var),
        };
        let next = self.b.ins().iadd(at, step);
        self.b.ins().jump(header, &[BlockArg::Value(next)]);
        self.b.switch_to_block(exit);
    }

    fn address(&mut self, base: Base, offset: &Dim) -> Value {
        let start = self.bases[&base];
        if offset.as_constant() == Some(0) {
            return start;
        }
        let elements = self.dim(offset);
        let size = self.size(base);
        let size = self.b.ins().iconst(types::I64, size);
        let bytes = self.b.ins().imul(elements, size);
        self.b.ins().iadd(start, bytes)
    }

    fn int(&mut self, int: &Int) -> Value {
        let (list, least) = match int {
            Int::Dim(d) => return self.dim(d),
            Int::Min(list) => (list, true),
            Int::Max(list) => (list, false),
        };
        let mut values: Vec<Value> = list.iter().map(|d| self.dim(d)).collect();
        let mut out = values.pop().expect("the least or greatest of at least one");
        for value in values {
            out = if least { self.b.ins().smin(out, value) } else { self.b.ins().smax(out, value) };
        }
        out
    }

    fn dim(&mut self, d: &Dim) -> Value {
        self.node(&d.to_node())
    }

    fn node(&mut self, node: &DimNode) -> Value {
        match node {
            DimNode::Constant(n) => self.b.ins().iconst(types::I64, *n),
            DimNode::Symbol(name) if &**name == LANES => self.b.ins().iconst(types::I64, self.lanes as i64),
            DimNode::Symbol(name) => match self.variables.get(&**name) {
                Some(value) => *value,
                None => unreachable!("`{name}` is bound before it is used"),
            },
            DimNode::Add(x, y) => {
                let (x, y) = (self.node(x), self.node(y));
                self.b.ins().iadd(x, y)
            }
            DimNode::Mul(x, y) => {
                let (x, y) = (self.node(x), self.node(y));
                self.b.ins().imul(x, y)
            }
            DimNode::Div(x, y) => {
                // Rounded down, for a positive divisor.
                let (x, y) = (self.node(x), self.node(y));
                let q = self.b.ins().sdiv(x, y);
                let product = self.b.ins().imul(q, y);
                let rest = self.b.ins().isub(x, product);
                let shift = self.b.ins().iconst(types::I64, 63);
                let below = self.b.ins().sshr(rest, shift);
                self.b.ins().iadd(q, below)
            }
        }
    }
}
