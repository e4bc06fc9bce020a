//! Every address that a program reads or writes lies in its buffer or its scratch slot, for all sizes that the model allows.
//!
//! The loops are walked once, with what is known of their variables; each call of a body is its footprint over the values of
//! its arguments. What is taken for granted: sizes of buffers are not negative, what a graph requires holds, and integers of
//! lanes stay within 32 bits ([`Limit`](crate::Limit)); all of it is checked when a call binds its dimensions.

use super::facts::{Bound, Facts, Nature, Variable};
use super::footprint::{Def, Reach, Touch, footprint, parameter};
use super::scope::Scope;
use crate::dims::{LANES, n, var};
use crate::program::kernel::{Arg, Base, Kernel, Program, Stmt};
use crate::program::text;
use salient_ir::{Dim, Requirement, Symbol};
use salient_vector::Body;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// An address that is not proved to lie where it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// The kernel.
    pub kernel: String,
    /// The call, as it stands in the text of the kernel.
    pub call: String,
    /// The instruction of the body.
    pub line: String,
    /// Which of the two ends is not proved.
    pub end: End,
    /// Where the proof ended.
    pub why: String,
    /// Sizes at which it is known to lie outside, if there are such.
    pub outside: Option<String>,
}

/// An end of what an access touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It may begin before the first element.
    First,
    /// It may end after the last.
    Last,
}

impl std::fmt::Display for Undecided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Undecided { kernel, call, line, why, .. } = self;
        let (proved, found) = match self.end {
            End::First => ("begins at or after the first element", "begins before the first element"),
            End::Last => ("ends at or before the last element", "ends after the last element"),
        };
        match &self.outside {
            Some(at) => write!(f, "{kernel}: {call}: `{line}` {found} at {at}"),
            None => write!(f, "{kernel}: {call}: it is not proved that `{line}` {proved}: {why}"),
        }
    }
}

/// What a walk over all addresses found.
#[derive(Clone, Debug, Default)]
pub struct AddressReport {
    /// How many ends of accesses were looked at.
    pub looked_at: usize,
    /// Those that are not proved.
    pub undecided: Vec<Undecided>,
}

/// Looks at every address of a program; kernels that are copies of others are left out.
pub fn bounds(program: &Program, requirements: &[Requirement]) -> AddressReport {
    let scope = scope_of(program, requirements);
    let (mut found, mut bodies) = (AddressReport::default(), HashMap::new());
    for (at, kernel) in program.kernels.iter().enumerate() {
        if program.copies.get(at).is_none_or(Option::is_none) {
            let scope = scope.clone();
            Walk { program, kernel, scope, bodies: &mut bodies, found: &mut found }.kernel();
        }
    }
    found
}

/// What is known of the dimensions of a program.
pub(super) fn scope_of(program: &Program, requirements: &[Requirement]) -> Scope {
    let mut scope = Scope::default();
    scope.dimension(&LANES, 1);
    for symbol in &program.dimensions {
        scope.dimension(&symbol.into(), 0);
    }
    for requirement in requirements {
        scope.require(requirement);
    }
    for extent in program.buffers.iter().flat_map(|buffer| &buffer.shape) {
        if extent.as_constant().is_none() && extent.as_symbol().is_none() {
            let extent = scope.value(extent);
            scope.facts.learn(&extent);
        }
    }
    scope
}

type Bodies = HashMap<*const Body, Arc<Vec<Touch>>>;

struct Walk<'p> {
    program: &'p Program,
    kernel: &'p Kernel,
    scope: Scope,
    bodies: &'p mut Bodies,
    found: &'p mut AddressReport,
}

impl Walk<'_> {
    fn kernel(mut self) {
        let kernel = self.kernel;
        let items = self.scope.value(&kernel.items);
        self.scope.bind_below(&kernel.item, &items);
        self.block(&kernel.block);
    }

    /// Walks a block; what it binds and what is learned for it is forgotten after it.
    fn block(&mut self, stmts: &[Stmt]) {
        let outer = self.scope.clone();
        for stmt in stmts {
            if !self.scope.facts.is_never {
                self.stmt(stmt);
            }
        }
        self.scope = outer;
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, from, to, step, block } => {
                let outer = self.scope.clone();
                let [from, to, step] = self.scope.values([from, to, step]);
                self.scope.bind_loop(var, &from, &to, &step);
                self.block(block);
                self.scope = outer;
            }
            Stmt::Let { var, value } => {
                let value = self.scope.int(value);
                self.scope.bind(var, value);
            }
            Stmt::Read { var, scratch, offset } => {
                self.element(var, *scratch, offset);
                self.scope.bind_any(var);
            }
            Stmt::If { left, right, then, otherwise } => {
                let [left, right] = self.scope.values([left, right]);
                let outer = self.scope.clone();
                self.scope.learn(&(&(&right - &left) - &n(1)));
                self.block(then);
                self.scope = outer.clone();
                self.scope.learn(&(&left - &right));
                self.block(otherwise);
                self.scope = outer;
            }
            Stmt::Call { body, args } => {
                if let Some(code) = self.kernel.bodies.get(*body) {
                    self.call(code, args);
                }
            }
        }
    }

    /// The element of scratch memory that a statement reads.
    fn element(&mut self, var: &Symbol, slot: usize, offset: &Dim) {
        let Some(scratch) = self.kernel.scratch.get(slot) else { return };
        let [offset, count] = self.scope.values([offset, &scratch.count]);
        let call = format!("let {var} = {}[{offset}]", scratch.name);
        let facts = self.scope.facts.clone();
        self.end(&facts, &offset, End::First, &call, ("the statement", true));
        self.end(&facts, &(&(&count - &offset) - &n(1)), End::Last, &call, ("the statement", true));
    }

    fn call(&mut self, body: &Arc<Body>, args: &[Arg]) {
        let touches = self.bodies.entry(Arc::as_ptr(body)).or_insert_with(|| Arc::new(footprint(body)));
        let touches = touches.clone();
        let call = text::call(self.program, self.kernel, body, args);
        let offset = |arg| match arg {
            &Arg::Int(ref offset) | &Arg::Address { ref offset, .. } => offset.clone(),
        };
        let extents: Vec<(Dim, i64)> = args.iter().map(|arg| self.extent(arg)).collect();
        let dims: Vec<Dim> =
            args.iter().map(offset).chain(extents.iter().map(|(count, _)| count.clone())).collect();
        let values = self.scope.all(&dims.iter().collect::<Vec<_>>());
        let (values, counts) = values.split_at(args.len());
        let ints = args.iter().zip(values).enumerate().filter(|(_, (arg, _))| matches!(arg, Arg::Int(_)));
        let with: BTreeMap<Symbol, Dim> =
            ints.map(|(at, (_, value))| (parameter(at), value.clone())).collect();
        for touch in touches.iter() {
            let Some((_, size)) = extents.get(touch.pointer) else {
                let why = "its pointer may be any".to_owned();
                self.undecided(End::First, &call, &touch.starts[0].line, why, None);
                continue;
            };
            let (count, size) = (&counts[touch.pointer], *size);
            let offset = &values[touch.pointer] * &n(size);
            let mut with = with.clone();
            let facts = inside(&self.scope, touch, &mut with);
            for Reach { at, line } in &touch.starts {
                let start = &offset + &at.substitute(&with);
                self.end(&facts, &start, End::First, &call, (line, !touch.is_masked));
            }
            for Reach { at, line } in &touch.ends {
                let end = &offset + &at.substitute(&with);
                self.end(&facts, &(&(count * &n(size)) - &end), End::Last, &call, (line, !touch.is_masked));
            }
        }
    }

    /// How many elements there are where an argument points, and the bytes of one.
    fn extent(&self, arg: &Arg) -> (Dim, i64) {
        match arg {
            Arg::Int(_) => (n(0), 4),
            Arg::Address { base: Base::Buffer(id), .. } => {
                let buffer = self.program.buffer(*id);
                (buffer.count(), buffer.elem().size())
            }
            Arg::Address { base: Base::Scratch(slot), .. } => {
                (self.kernel.scratch.get(*slot).map_or(n(0), |scratch| scratch.count.clone()), 4)
            }
            // Which check has failed, and the index.
            Arg::Address { base: Base::Status, .. } => (n(2), 4),
        }
    }

    fn end(&mut self, facts: &Facts, goal: &Dim, end: End, call: &str, (line, is_certain): (&str, bool)) {
        self.found.looked_at += 1;
        if facts.prove(goal) {
            return;
        }
        let is_size = |name: &Symbol| *name == LANES || name.as_dimension().is_some();
        let witness = facts.witness(goal).filter(|_| is_certain);
        let outside = witness.map(|numbers| {
            let sizes = numbers.iter().filter(|(name, _)| is_size(name));
            sizes.map(|(name, number)| format!("{name} = {number}")).collect::<Vec<_>>().join(", ")
        });
        self.undecided(end, call, line, format!("{goal} is not seen to be at least zero"), outside);
    }

    fn undecided(&mut self, end: End, call: &str, line: &str, why: String, outside: Option<String>) {
        let kernel = self.kernel.name.clone();
        let (call, line) = (call.to_owned(), line.to_owned());
        self.found.undecided.push(Undecided { kernel, call, line, end, why, outside });
    }
}

/// What is known where a body touches memory, over the values of its arguments; what its own quotients are is added to them.
pub(super) fn inside(scope: &Scope, touch: &Touch, with: &mut BTreeMap<Symbol, Dim>) -> Facts {
    let mut around = scope.clone();
    for (name, def) in &touch.defs {
        let put = |d: &Dim| d.substitute(with);
        let all = |of: &[Dim]| of.iter().map(put).collect::<Vec<Dim>>();
        let zero = || vec![Bound::new(n(0))];
        let bounds = |of: &[Dim]| of.iter().map(|d| Bound::new(put(d))).collect::<Vec<_>>();
        let (lower, upper, nature) = match def {
            Def::LoopIndex(trip) => (zero(), vec![Bound::new(&put(trip) - &n(1))], Nature::Any),
            Def::Lane => (zero(), vec![Bound::new(&var(&LANES) - &n(1))], Nature::Any),
            Def::Data => (Vec::new(), Vec::new(), Nature::Data),
            Def::Least(of) => (Vec::new(), bounds(of), Nature::Least(all(of))),
            Def::Greatest(of) => (bounds(of), Vec::new(), Nature::Greatest(all(of))),
            Def::Quotient(p, q) => {
                let (p, q) = (put(p), put(q));
                learn(&mut around.facts, touch, with);
                with.insert(name.clone(), around.floor(&p, &q));
                continue;
            }
        };
        around.facts.add(Variable::between(name.clone(), lower, upper).of(nature));
    }
    learn(&mut around.facts, touch, with);
    around.facts
}

/// What holds wherever memory is touched, as far as it is about variables that are there.
fn learn(facts: &mut Facts, touch: &Touch, with: &BTreeMap<Symbol, Dim>) {
    for fact in &touch.facts {
        let fact = fact.substitute(with);
        if fact.symbols().iter().all(|name| facts.get(name).is_some()) && !facts.prove(&fact) {
            facts.learn(&fact);
            facts.learn_remainder(&fact);
        }
    }
}
