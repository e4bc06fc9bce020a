//! The interpreter of programs: every kernel is run statement by statement on memory whose every access is checked.
//!
//! It says what machine code of a program must do, at any number of lanes, and finds what machine code would hide: an
//! access outside a tensor, a buffer that a kernel touches without saying so (the memory plan relies on it), scratch memory
//! that is read before it is written, items that depend on each other. It is slow, and for tests and reports of bugs.

use crate::coded::{Codes, pack_codes};
use crate::dims::LANES;
use crate::program::kernel::{Arg, Base, Buffer, BufferId, Int, Kernel, Program, Role, Section, Stmt};
use salient_ir::array::{Array, Data};
use salient_ir::{Bindings, DType, Dim, DimError, Symbol};
use salient_vector::eval::{Arg as Value, Machine, Memory, eval};
use salient_vector::{Body, Elem, Ty};
use std::collections::BTreeMap;
use std::ops::Range;

/// What symbols stand for: dimensions, lanes and the variables in sight.
type Known = BTreeMap<Symbol, i64>;

/// What memory holds that nobody has written: a NaN as a float, -1 as an integer.
const UNWRITTEN: u8 = 0xff;

/// The order in which the items of a kernel are run. They are independent, so results may not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Backward,
}

/// Why a program could not be run to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError {
    /// An array is missing, or does not have the dtype or the number of elements that the program expects.
    #[error("`{tensor}` does not fit: {why}")]
    Array {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        why: String,
    },
    /// A dimension without a value, or a negative number of elements.
    #[error("the size of `{what}`: {why}")]
    Size {
        /// A buffer, a kernel or a scratch slot.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// A statement that means nothing.
    #[error("kernel `{kernel}`: {why}")]
    Statement {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        why: String,
    },
    /// A body that touches what it may not.
    #[error("kernel `{kernel}`, {call}: {why}")]
    Body {
        /// The kernel.
        kernel: String,
        /// The body and its arguments.
        call: String,
        /// The instruction, and what is wrong with it.
        why: String,
    },
    /// An element of a result that is not written, or by more than one item of a kernel.
    #[error("byte {at} of `{buffer}` {why}")]
    Writes {
        /// The buffer.
        buffer: String,
        /// The byte.
        at: usize,
        /// What happens to it.
        why: String,
    },
    /// An index that leaves its axis: the fault of the data, not of the program.
    #[error("index {index} is outside the axis `{axis}` of length {extent} of `{tensor}`")]
    OutOfRange {
        /// The tensor that is indexed.
        tensor: String,
        /// The axis.
        axis: String,
        /// Its length.
        extent: i64,
        /// The index.
        index: i32,
    },
}

/// Runs a program on arrays in the order of the graph's inputs and parameters; gives the outputs in order.
///
/// # Errors
/// See [`EvalError`].
pub fn run(
    program: &Program,
    dimensions: &Bindings,
    machine: Machine,
    order: Order,
    inputs: &[&Array],
    params: &[&Array],
) -> Result<Vec<Array>, EvalError> {
    run_coded(program, dimensions, machine, order, inputs, params, &Codes::new())
}

/// As [`run`], for a program with parameters in blocks, which are given in f32 too.
///
/// # Errors
/// See [`EvalError`].
pub fn run_coded(
    program: &Program,
    dimensions: &Bindings,
    machine: Machine,
    order: Order,
    inputs: &[&Array],
    params: &[&Array],
    codes: &Codes<'_>,
) -> Result<Vec<Array>, EvalError> {
    let dimensions = dimensions.iter().map(|(name, length)| (Symbol::from(name), *length));
    let known: Known = dimensions.chain([(LANES.clone(), machine.lanes as i64)]).collect();
    let mut memory = Memory { written: Some(Vec::new()), ..Memory::default() };
    let mut writers = Writers::default();
    for buffer in &program.buffers {
        let bytes = at_first(buffer, &shape(buffer, &known)?, inputs, params, codes)?;
        writers.of.push(vec![None; bytes.len()]);
        memory.add(bytes);
    }
    for append in &program.appends {
        let held = memory.buffers[append.input.0].clone();
        memory.buffers[append.output.0][..held.len()].copy_from_slice(&held);
        writers.of[append.output.0][..held.len()].fill(Some(Writers::HELD));
    }
    for (at, kernel) in program.kernels.iter().enumerate() {
        let items = size(&kernel.items, &known, &kernel.name)?;
        let mut run = Run {
            program,
            kernel,
            loading: program.section(Section::Load).contains(&at),
            machine,
            known: known.clone(),
            memory: &mut memory,
        };
        let status = run.memory.add_i32(&[0, 0]);
        for slot in &kernel.scratch {
            let count = size(&slot.count, &known, &slot.name)?;
            run.memory.add(vec![UNWRITTEN; count * 4]);
        }
        for turn in 0..items {
            let item = match order {
                Order::Forward => turn,
                Order::Backward => items - 1 - turn,
            };
            run.item(item)?;
            let written = run.memory.written.replace(Vec::new()).unwrap_or_default();
            writers.note(program, (at, item), written)?;
        }
        let cells = run.memory.i32s(status);
        let failed = usize::try_from(cells[0]).ok().and_then(|site| site.checked_sub(1));
        if let Some(check) = failed.and_then(|site| program.checks.get(site)) {
            return Err(EvalError::OutOfRange {
                tensor: check.tensor.clone(),
                axis: check.axis.to_string(),
                extent: size(&check.extent, &known, &check.axis)? as i64,
                index: cells[1],
            });
        }
        memory.buffers.truncate(program.buffers.len());
    }
    writers.all(program)?;
    let mut outputs: Vec<(usize, Array)> = Vec::new();
    for (buffer, bytes) in program.buffers.iter().zip(&memory.buffers) {
        if let Role::Output(k) = buffer.role {
            outputs.push((k, array(buffer, shape(buffer, &known)?, bytes)));
        }
    }
    outputs.sort_by_key(|(k, _)| *k);
    Ok(outputs.into_iter().map(|(_, array)| array).collect())
}

/// What a buffer holds before any kernel runs.
fn at_first(
    buffer: &Buffer,
    shape: &[usize],
    inputs: &[&Array],
    params: &[&Array],
    codes: &Codes<'_>,
) -> Result<Vec<u8>, EvalError> {
    let count = shape.iter().product();
    match buffer.role {
        Role::Input(k) => given(buffer, count, inputs.get(k).copied()),
        Role::Param(k) => given(buffer, count, params.get(k).copied()),
        Role::Output(_) | Role::Temporary | Role::Loaded => {
            Ok(vec![UNWRITTEN; count * buffer.elem().size() as usize])
        }
        Role::Coded(k) => {
            let missing = "it was not given in blocks".to_owned();
            let from = codes.get(&k).ok_or(EvalError::Array { tensor: buffer.name.clone(), why: missing })?;
            let mut words = vec![0; count];
            pack_codes(from, shape[2], &mut words);
            Ok(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
        }
    }
}

fn size(count: &Dim, known: &Known, what: &str) -> Result<usize, EvalError> {
    let wrong = |why: String| EvalError::Size { what: what.to_owned(), why };
    let count = count.eval(known).map_err(|e: DimError| wrong(e.to_string()))?;
    usize::try_from(count).map_err(|_| wrong(format!("{count} is negative")))
}

fn shape(buffer: &Buffer, known: &Known) -> Result<Vec<usize>, EvalError> {
    buffer.shape.iter().map(|d| size(d, known, &buffer.name)).collect()
}

/// The elements of an array as compiled code reads them.
fn given(buffer: &Buffer, count: usize, array: Option<&Array>) -> Result<Vec<u8>, EvalError> {
    let wrong = |why: String| EvalError::Array { tensor: buffer.name.clone(), why };
    let array = array.ok_or_else(|| wrong("it was not given".to_owned()))?;
    if array.dtype() != buffer.dtype || array.len() != count {
        let (len, dtype) = (array.len(), array.dtype());
        return Err(wrong(format!("{len} elements of {dtype}, expected {count} of {}", buffer.dtype)));
    }
    let words = |list: &mut dyn Iterator<Item = [u8; 4]>| list.flatten().collect();
    match array.data() {
        Data::F32(v) => Ok(words(&mut v.iter().map(|x| x.to_ne_bytes()))),
        Data::I32(v) => Ok(words(&mut v.iter().map(|x| x.to_ne_bytes()))),
        Data::I64(v) => {
            let narrow = |x: &i64| i32::try_from(*x).map_err(|_| wrong(format!("{x} does not fit 32 bits")));
            let narrowed: Vec<i32> = v.iter().map(narrow).collect::<Result<_, _>>()?;
            Ok(words(&mut narrowed.iter().map(|x| x.to_ne_bytes())))
        }
        Data::Bool(v) => Ok(v.iter().map(|x| u8::from(*x)).collect()),
        Data::F16(_) | Data::BF16(_) => {
            Err(wrong("16-bit floats are widened before they get here".to_owned()))
        }
    }
}

/// The inverse of [`given`].
fn array(buffer: &Buffer, shape: Vec<usize>, bytes: &[u8]) -> Array {
    let words = bytes.chunks_exact(4).map(|w| <[u8; 4]>::try_from(w).expect("four bytes"));
    let data = match buffer.dtype {
        DType::F32 | DType::F16 | DType::BF16 => Data::F32(words.map(f32::from_ne_bytes).collect()),
        DType::I32 => Data::I32(words.map(i32::from_ne_bytes).collect()),
        DType::I64 => Data::I64(words.map(|w| i64::from(i32::from_ne_bytes(w))).collect()),
        DType::Bool => Data::Bool(bytes.iter().map(|b| *b != 0).collect()),
    };
    Array::new(shape, data).expect("a buffer has as many elements as its shape says")
}

/// Who has written each byte of each buffer: a kernel and an item of it. Items run at the same time, so what two of them
/// write belongs to neither; and what nobody writes is no result.
#[derive(Default)]
struct Writers {
    of: Vec<Vec<Option<(usize, usize)>>>,
}

impl Writers {
    /// Who has written what was there before the call.
    const HELD: (usize, usize) = (usize::MAX, 0);

    /// Notes what an item has written.
    fn note(
        &mut self,
        program: &Program,
        writer: (usize, usize),
        written: Vec<(usize, Range<usize>)>,
    ) -> Result<(), EvalError> {
        for (buffer, bytes) in written {
            let Some(of) = self.of.get_mut(buffer) else { continue };
            for at in bytes {
                let before = of[at].replace(writer);
                if let Some(other) = before.filter(|other| *other != writer) {
                    let name = |(at, item): (usize, usize)| match program.kernels.get(at) {
                        Some(kernel) => format!("item {item} of `{}`", kernel.name),
                        None => "what is held".to_owned(),
                    };
                    let why = format!("is written by {} and by {}", name(other), name(writer));
                    let buffer = program.buffers[buffer].name.clone();
                    return Err(EvalError::Writes { buffer, at, why });
                }
            }
        }
        Ok(())
    }

    /// Whether every result is there as a whole.
    fn all(&self, program: &Program) -> Result<(), EvalError> {
        for (buffer, of) in program.buffers.iter().zip(&self.of) {
            let missing = of.iter().position(Option::is_none);
            if let (Role::Output(_), Some(at)) = (buffer.role, missing) {
                let why = "is not written".to_owned();
                return Err(EvalError::Writes { buffer: buffer.name.clone(), at, why });
            }
        }
        Ok(())
    }
}

struct Run<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    /// Whether the kernel is one of those that run once.
    loading: bool,
    machine: Machine,
    known: Known,
    /// The program's buffers, the status, the scratch slots.
    memory: &'a mut Memory,
}

impl Run<'_> {
    fn item(&mut self, item: usize) -> Result<(), EvalError> {
        let first = self.slot(0);
        self.memory.buffers[first..].iter_mut().for_each(|slot| slot.fill(UNWRITTEN));
        let kernel = self.kernel;
        self.bound(&kernel.item, item as i64, &kernel.block)
    }

    /// Where the memory of a scratch slot is.
    fn slot(&self, at: usize) -> usize {
        self.program.buffers.len() + 1 + at
    }

    fn wrong(&self, why: String) -> EvalError {
        EvalError::Statement { kernel: self.kernel.name.clone(), why }
    }

    /// Runs a block with one more variable; what the block binds is out of sight after it.
    fn bound(&mut self, var: &Symbol, value: i64, block: &[Stmt]) -> Result<(), EvalError> {
        let outer = self.known.clone();
        self.known.insert(var.clone(), value);
        let result = block.iter().try_for_each(|stmt| self.stmt(stmt));
        self.known = outer;
        result
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), EvalError> {
        match stmt {
            Stmt::For { var, from, to, step, block } => {
                let (mut at, to, step) = (self.dim(from)?, self.dim(to)?, self.dim(step)?);
                if step <= 0 {
                    return Err(self.wrong(format!("the loop over `{var}` steps by {step}")));
                }
                while at < to {
                    self.bound(var, at, block)?;
                    at += step;
                }
            }
            Stmt::Let { var, value } => {
                let value = match value {
                    Int::Dim(d) => self.dim(d)?,
                    Int::Min(of) => self.dims(var, of)?.into_iter().fold(i64::MAX, i64::min),
                    Int::Max(of) => self.dims(var, of)?.into_iter().fold(i64::MIN, i64::max),
                };
                self.known.insert(var.clone(), value);
            }
            Stmt::Read { var, scratch, offset } => {
                let (slot, offset) = (self.slot(*scratch), self.dim(offset)?);
                let cells = self.memory.buffers.get(slot).map_or(&[][..], Vec::as_slice);
                let cell = usize::try_from(offset).ok().and_then(|at| cells.chunks_exact(4).nth(at));
                let Some(cell) = cell else {
                    let len = cells.len() / 4;
                    return Err(self.wrong(format!("`{var}` is element {offset} of scratch memory of {len}")));
                };
                let value = i32::from_ne_bytes(cell.try_into().expect("four bytes"));
                self.known.insert(var.clone(), i64::from(value));
            }
            Stmt::If { left, right, then, otherwise } => {
                let block = if self.dim(left)? < self.dim(right)? { then } else { otherwise };
                let outer = self.known.clone();
                let result = block.iter().try_for_each(|stmt| self.stmt(stmt));
                self.known = outer;
                result?;
            }
            Stmt::Call { body, args } => self.call(*body, args)?,
        }
        Ok(())
    }

    fn dims(&self, var: &Symbol, of: &[Dim]) -> Result<Vec<i64>, EvalError> {
        if of.is_empty() {
            return Err(self.wrong(format!("`{var}` is the least or greatest of nothing")));
        }
        of.iter().map(|d| self.dim(d)).collect()
    }

    fn dim(&self, d: &Dim) -> Result<i64, EvalError> {
        d.eval(&self.known).map_err(|e| self.wrong(e.to_string()))
    }

    fn call(&mut self, body: usize, args: &[Arg]) -> Result<(), EvalError> {
        let Some(body) = self.kernel.bodies.get(body) else {
            return Err(self.wrong(format!("there is no body {body}")));
        };
        let mut values = Vec::new();
        for arg in args {
            values.push(match arg {
                Arg::Int(d) => Value::Int(self.dim(d)?),
                Arg::Address { base, offset } => {
                    let (buffer, elem) = match base {
                        Base::Buffer(id) => (id.0, self.program.buffer(*id).elem()),
                        Base::Status => (self.program.buffers.len(), Elem::I32),
                        Base::Scratch(slot) => (self.slot(*slot), Elem::F32),
                    };
                    Value::Ptr(buffer, self.dim(offset)?.saturating_mul(elem.size()))
                }
            });
        }
        self.declared(body, args)?;
        eval(body, self.machine, &values, self.memory).map_err(|e| EvalError::Body {
            kernel: self.kernel.name.clone(),
            call: crate::program::text::call(self.program, self.kernel, body, args),
            why: format!("{e}; {values:?}"),
        })
    }

    /// A kernel says which buffers it reads and writes; the lives of temporaries are worked out from that.
    fn declared(&self, body: &Body, args: &[Arg]) -> Result<(), EvalError> {
        let (reads, writes) = (&self.kernel.reads, &self.kernel.writes);
        for (param, arg) in body.params.iter().zip(args) {
            let Arg::Address { base: Base::Buffer(id), .. } = arg else { continue };
            let said = match body.ty(param.value) {
                Ty::PtrMut => writes.contains(id),
                Ty::Ptr | Ty::Int | Ty::F32 | Ty::I32 | Ty::Mask => reads.contains(id) || writes.contains(id),
            };
            let input = match self.program.buffer(*id).role {
                Role::Input(_) | Role::Param(_) | Role::Coded(_) => writes.contains(id),
                Role::Loaded => writes.contains(id) && !self.loading,
                Role::Output(_) | Role::Temporary => false,
            };
            if !said || input {
                let BufferId(at) = *id;
                let name = &self.program.buffers[at].name;
                return Err(self.wrong(format!("`{}` touches `{name}`, which it may not", body.name)));
            }
        }
        Ok(())
    }
}
