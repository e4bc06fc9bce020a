//! What must hold of a loop program: names are bound before they are used, steps go forward, calls fit their bodies, a kernel
//! touches what it says it does, and scratch memory is written before it is read.

use super::{Fault, Faults};
use crate::dims::{LANE, LANES};
use crate::program::kernel::{Arg, Base, BufferId, Int, Kernel, Program, Role, Stmt};
use salient_ir::{Dim, Symbol};
use salient_vector::{Body, Ty};
use std::collections::BTreeSet;

/// The faults of a program.
pub fn verify(program: &Program) -> Vec<Fault> {
    let mut faults = Faults::default();
    let early = &program.kernels[..program.loads.min(program.kernels.len())];
    faults.unless(program.loads <= program.kernels.len(), "program", || {
        "more runs once than there is".to_owned()
    });
    for kernel in early {
        let fixed = kernel.writes.iter().all(|id| {
            program.buffers.get(id.0).is_some_and(|b| matches!(b.role, Role::Temporary | Role::Loaded))
        });
        faults.unless(fixed, &kernel.name, || "a result is stored once for all calls".to_owned());
    }
    for (at, of) in program.copies.iter().enumerate() {
        let Some(of) = of else { continue };
        let fits = *of < at
            && program
                .kernels
                .get(at)
                .zip(program.kernels.get(*of))
                .is_some_and(|(a, b)| a.reads.len() == b.reads.len() && a.writes.len() == b.writes.len());
        faults.unless(fits, "program", || format!("kernel {at} is no copy of kernel {of}"));
    }
    for kernel in &program.kernels {
        Walk::new(program, kernel, &mut faults).kernel();
    }
    faults.found
}

struct Walk<'p> {
    program: &'p Program,
    kernel: &'p Kernel,
    faults: &'p mut Faults,
    /// The names in sight.
    bound: BTreeSet<Symbol>,
    /// The slots of scratch memory that something has been written to.
    written: BTreeSet<usize>,
    touched: BTreeSet<BufferId>,
}

impl<'p> Walk<'p> {
    fn new(program: &'p Program, kernel: &'p Kernel, faults: &'p mut Faults) -> Walk<'p> {
        let mut bound: BTreeSet<Symbol> = program.dimensions.iter().map(Symbol::from).collect();
        bound.extend([LANES.clone(), kernel.item.clone()]);
        let (written, touched) = (BTreeSet::new(), BTreeSet::new());
        Walk { program, kernel, faults, bound, written, touched }
    }

    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.faults.unless(holds, &self.kernel.name, what);
    }

    fn kernel(mut self) {
        let kernel = self.kernel;
        let buffers = self.program.buffers.len();
        for id in kernel.reads.iter().chain(&kernel.writes) {
            self.unless(id.0 < buffers, || format!("there is no buffer {}", id.0));
            let is_given = self
                .program
                .buffers
                .get(id.0)
                .is_some_and(|b| matches!(b.role, Role::Input(_) | Role::Param(_) | Role::Coded(_)));
            let writes = kernel.writes.contains(id);
            self.unless(!(is_given && writes), || "it writes what is given".to_owned());
        }
        let item = kernel.items.mentions(&kernel.item) || kernel.items.mentions(&LANE);
        self.unless(!item, || "its number of items depends on the item".to_owned());
        self.dim(&kernel.items);
        kernel.scratch.iter().for_each(|slot| self.dim(&slot.count));
        self.block(&kernel.block);
        let touched = std::mem::take(&mut self.touched);
        for id in &kernel.writes {
            self.unless(touched.contains(id), || format!("it never writes buffer {}", id.0));
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        let outer = self.bound.clone();
        stmts.iter().for_each(|stmt| self.stmt(stmt));
        self.bound = outer;
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, from, to, step, block } => {
                [from, to, step].into_iter().for_each(|d| self.dim(d));
                let forward =
                    (&Dim::constant(0) - step).provably_le(&Dim::constant(-1)) || step.mentions(&LANES);
                let forward = forward || step.as_constant().is_none() && !step.symbols().is_empty();
                self.unless(forward, || format!("the loop over `{var}` does not go forward"));
                let outer = self.bound.clone();
                self.bind(var);
                self.block(block);
                self.bound = outer;
            }
            Stmt::Let { var, value } => {
                match value {
                    Int::Dim(d) => self.dim(d),
                    Int::Min(of) | Int::Max(of) => {
                        self.unless(!of.is_empty(), || format!("`{var}` is the least of nothing"));
                        of.iter().for_each(|d| self.dim(d));
                    }
                }
                self.bind(var);
            }
            Stmt::Read { var, scratch, offset } => {
                self.dim(offset);
                let written = self.written.contains(scratch);
                self.unless(written, || format!("`{var}` is read from scratch memory before it is written"));
                self.bind(var);
            }
            Stmt::If { left, right, then, otherwise } => {
                [left, right].into_iter().for_each(|d| self.dim(d));
                let before = self.written.clone();
                self.block(then);
                let after = std::mem::replace(&mut self.written, before);
                self.block(otherwise);
                // What one of two arms writes may be there.
                self.written.extend(after);
            }
            Stmt::Call { body, args } => match self.kernel.bodies.get(*body) {
                Some(body) => self.call(body, args),
                None => self.unless(false, || format!("there is no body {body}")),
            },
        }
    }

    fn bind(&mut self, var: &Symbol) {
        let is_new = self.bound.insert(var.clone());
        self.unless(is_new, || format!("`{var}` is bound twice"));
    }

    fn dim(&mut self, d: &Dim) {
        for symbol in d.symbols() {
            let known = self.bound.contains(&symbol);
            self.unless(known, || format!("`{symbol}` is not bound"));
        }
        self.unless(d.limit().is_none(), || "an integer has left its limits".to_owned());
    }

    fn call(&mut self, body: &Body, args: &[Arg]) {
        self.unless(body.params.len() == args.len(), || format!("`{}` takes other arguments", body.name));
        let mut writes = BTreeSet::new();
        for (param, arg) in body.params.iter().zip(args) {
            let ty = body.ty(param.value);
            let fits = match arg {
                Arg::Address { .. } => matches!(ty, Ty::Ptr | Ty::PtrMut),
                Arg::Int(_) => matches!(ty, Ty::Int),
            };
            self.unless(fits, || format!("`{}` of `{}` is of another type", param.name, body.name));
            let (Arg::Int(offset) | Arg::Address { offset, .. }) = arg;
            self.dim(offset);
            let Arg::Address { base, .. } = arg else { continue };
            match base {
                Base::Buffer(id) => self.buffer(*id, ty),
                Base::Scratch(slot) => {
                    let is_there = *slot < self.kernel.scratch.len();
                    self.unless(is_there, || format!("there is no scratch slot {slot}"));
                    if ty == Ty::PtrMut {
                        writes.insert(*slot);
                    } else {
                        let written = self.written.contains(slot);
                        let name = self.kernel.scratch.get(*slot).map_or("", |s| &s.name);
                        self.unless(written, || {
                            format!("`{}` reads `{name}` before it is written", body.name)
                        });
                    }
                }
                Base::Status => {}
            }
        }
        self.written.extend(writes);
    }

    fn buffer(&mut self, id: BufferId, ty: Ty) {
        let may = if ty == Ty::PtrMut {
            self.kernel.writes.contains(&id)
        } else {
            self.kernel.reads.contains(&id) || self.kernel.writes.contains(&id)
        };
        self.unless(may, || format!("it touches buffer {} and does not say so", id.0));
        self.touched.insert(id);
    }
}
