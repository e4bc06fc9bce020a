//! What a kernel writes, as sets: the elements from one place up to another, for all numbers of some variables.

use crate::dims::{BODY_LANE, ITERATION, LANES, OF_BODY, ceil_div, n, var};
use crate::program::kernel::{Arg, Base, BufferId, Int, Kernel, Kind, Program, Stmt};
use crate::program::text;
use crate::verify::footprint::{Def, Touch, parameter, stores};
use crate::verify::quotients::divide;
use salient_ir::{Dim, Symbol, SymbolKind};
use salient_vector::Body;
use std::collections::{BTreeMap, BTreeSet};

/// The variable of a loop, or of the items of a kernel: it takes each number of `from..to`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LoopVariable {
    pub(super) name: Symbol,
    pub(super) from: Dim,
    pub(super) to: Dim,
    /// Whether it says which item it is, or a part of that.
    pub(super) of_item: bool,
}

/// Elements from one place up to another, for all numbers of some variables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Set {
    /// The kind of the kernel that writes them.
    pub(super) kind: Kind,
    /// Each is bounded by those before it.
    pub(super) variables: Vec<LoopVariable>,
    /// Names of minima.
    pub(super) least: BTreeMap<Symbol, Vec<Dim>>,
    /// What is at least zero where anything is written.
    pub(super) when: Vec<Dim>,
    pub(super) from: Dim,
    pub(super) to: Dim,
    /// Whether all of it is written: what a loop repeats may be written never.
    pub(super) is_certain: bool,
    /// Places in `from..to` that have no value and are not written, if there are such.
    pub(super) room: Option<Room>,
}

/// What a store writes.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    pub(super) buffer: BufferId,
    pub(super) set: Set,
    /// The call, as it stands in the text of the kernel.
    pub(super) call: String,
}

/// Places that have no value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Room {
    /// Of the last panel the columns after so many.
    Columns(Dim),
    /// What a condition leaves of the rows for which there is room.
    Rows,
}

/// What a kernel writes to buffers, and why not all is known of it, if so.
pub(super) struct Found {
    pub(super) writes: Vec<Writes>,
    pub(super) unknown: Vec<(BufferId, String)>,
}

/// Everything that a kernel writes to buffers.
pub(super) fn writes(program: &Program, kernel: &Kernel) -> Found {
    let item =
        LoopVariable { name: kernel.item.clone(), from: n(0), to: kernel.items.clone(), of_item: true };
    let around = Around { variables: vec![item], ..Around::default() };
    let found = Found { writes: Vec::new(), unknown: Vec::new() };
    let mut walk = Walk { program, kernel, around, bodies: BTreeMap::new(), found };
    walk.block(&kernel.block);
    walk.found
}

/// What is bound around a statement.
#[derive(Clone, Default)]
struct Around {
    variables: Vec<LoopVariable>,
    least: BTreeMap<Symbol, Vec<Dim>>,
    when: Vec<Dim>,
    /// What is read from memory: it may be anything that conditions leave.
    read: Vec<Symbol>,
    /// What all other names stand for.
    values: BTreeMap<Symbol, Dim>,
}

impl Around {
    fn value(&self, d: &Dim) -> Dim {
        d.substitute(&self.values)
    }

    fn values(&self, of: &[Dim]) -> Vec<Dim> {
        of.iter().map(|d| self.value(d)).collect()
    }

    fn bind(&mut self, name: &Symbol, int: &Int) {
        match int {
            Int::Dim(d) => {
                let value = self.value(d);
                self.values.insert(name.clone(), value);
            }
            Int::Min(of) => {
                let of = self.values(of);
                self.least.insert(name.clone(), of);
            }
            // A maximum is a name of which nothing is known.
            Int::Max(_) => {}
        }
    }

    /// What is read from memory becomes a variable between the bounds that conditions give it, if there are two. Says whether
    /// there is one: of its numbers none may be read.
    fn bound_what_is_read(&mut self) -> bool {
        let before = self.variables.len();
        for name in std::mem::take(&mut self.read) {
            let bound = |sign: i64| {
                let of = |at: &usize| {
                    let (of, rest) = self.when[*at].linear_in(&name)?;
                    (of.as_constant() == Some(sign)).then_some((*at, rest))
                };
                (0..self.when.len()).find_map(|at| of(&at))
            };
            if let (Some((least, from)), Some((most, to))) = (bound(1), bound(-1)) {
                self.loop_variable(&name, &n(0) - &from, &to + &n(1));
                let conditions = std::mem::take(&mut self.when).into_iter().enumerate();
                let others = conditions.filter(|(at, _)| *at != least && *at != most);
                self.when = others.map(|(_, condition)| condition).collect();
            }
        }
        self.variables.len() > before
    }

    fn loop_variable(&mut self, name: &Symbol, from: Dim, to: Dim) {
        self.variables.push(LoopVariable { name: name.clone(), from, to, of_item: false });
    }
}

struct Walk<'p> {
    program: &'p Program,
    kernel: &'p Kernel,
    around: Around,
    /// The stores of each body.
    bodies: BTreeMap<usize, Vec<Touch>>,
    found: Found,
}

impl Walk<'_> {
    /// Walks a block; what it binds is forgotten after it.
    fn block(&mut self, stmts: &[Stmt]) {
        let outer = self.around.clone();
        stmts.iter().for_each(|stmt| self.stmt(stmt));
        self.around = outer;
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, from, to, step, block } => {
                let outer = self.around.clone();
                let [from, to, step] = [from, to, step].map(|d| self.around.value(d));
                self.bind_loop(var, from, to, &step);
                self.block(block);
                self.around = outer;
            }
            Stmt::Let { var, value } => self.around.bind(var, value),
            Stmt::Read { var, .. } => self.around.read.push(var.clone()),
            Stmt::If { left, right, then, otherwise } => {
                let [left, right] = [left, right].map(|d| self.around.value(d));
                self.branch(&(&right - &left) - &n(1), then);
                self.branch(&left - &right, otherwise);
            }
            Stmt::Call { body, args } => {
                if let Some(code) = self.kernel.bodies.get(*body) {
                    let code = code.clone();
                    self.call(*body, &code, args);
                }
            }
        }
    }

    /// Walks a block that runs where something is at least zero.
    fn branch(&mut self, condition: Dim, block: &[Stmt]) {
        self.around.when.push(condition);
        self.block(block);
        self.around.when.pop();
    }

    fn bind_loop(&mut self, name: &Symbol, from: Dim, to: Dim, step: &Dim) {
        if step.as_constant() == Some(1) {
            return self.around.loop_variable(name, from, to);
        }
        // Without a step the number of iterations is not known, and nothing is known of the name.
        if step.as_constant().is_some_and(|step| step <= 0) {
            return;
        }
        let iteration = fresh(ITERATION, &self.around.variables);
        self.around.loop_variable(&iteration, n(0), ceil_div(&(&to - &from), step));
        self.around.values.insert(name.clone(), &from + &(&var(&iteration) * step));
    }

    fn call(&mut self, at: usize, body: &Body, args: &[Arg]) {
        let touches = self.bodies.entry(at).or_insert_with(|| stores(body)).clone();
        for touch in &touches {
            let id = match args.get(touch.pointer) {
                Some(Arg::Address { base: Base::Buffer(id), .. }) => *id,
                Some(Arg::Address { base: Base::Scratch(_) | Base::Status, .. }) => continue,
                Some(Arg::Int(_)) | None => {
                    let why = format!("`{}` writes through a pointer that may be any", body.name);
                    let all = self.kernel.writes.iter().map(|id| (*id, why.clone()));
                    self.found.unknown.extend(all);
                    continue;
                }
            };
            let call = text::call(self.program, self.kernel, body, args);
            for store in 0..touch.starts.len() {
                match self.store(id, touch, store, args) {
                    Ok(set) => self.found.writes.push(Writes { buffer: id, set, call: call.clone() }),
                    Err(why) => {
                        let line = &touch.starts[store].line;
                        self.found.unknown.push((id, format!("{call}: `{line}`: {why}")));
                    }
                }
            }
        }
    }

    /// The elements that one store of a body writes.
    fn store(&self, id: BufferId, touch: &Touch, at: usize, args: &[Arg]) -> Result<Set, String> {
        if touch.is_masked && !touch.is_of_vectors {
            return Err("a mask says which elements are written".to_owned());
        }
        let Some(Arg::Address { offset, .. }) = args.get(touch.pointer) else {
            return Err("its pointer may be any".to_owned());
        };
        let mut around = self.around.clone();
        let is_certain = !around.bound_what_is_read();
        let (start, end) = (&touch.starts[at].at, &touch.ends[at].at);
        let bytes = &(end - start);
        let start = inside(&mut around, touch, start, args)?;
        let size = n(self.program.buffer(id).elem().size());
        let (elements, rest) = divide(&start, &size);
        if *bytes != size || rest.as_constant() != Some(0) {
            return Err("it does not write whole elements of the buffer".to_owned());
        }
        let from = &around.value(offset) + &elements;
        let to = &from + &n(1);
        let Around { variables, least, when, .. } = around;
        let mut set =
            Set { kind: self.kernel.kind, variables, least, when, from, to, is_certain, room: None };
        set.prune();
        match set.unknown(self.program).into_iter().next() {
            Some(name) => Err(format!("nothing is known of `{name}`, on which it depends")),
            None => Ok(set),
        }
    }
}

/// Where a store begins, in bytes from its pointer, with the loops of its body as variables.
fn inside(around: &mut Around, touch: &Touch, start: &Dim, args: &[Arg]) -> Result<Dim, String> {
    let mut with: BTreeMap<Symbol, Dim> = BTreeMap::new();
    for (at, arg) in args.iter().enumerate() {
        if let Arg::Int(d) = arg {
            with.insert(parameter(at), around.value(d));
        }
    }
    let mut start = start.clone();
    let lane = var(&BODY_LANE);
    for (at, (name, def)) in touch.defs.iter().enumerate() {
        let own = OF_BODY.number(at as u32);
        match def {
            Def::LoopIndex(trip) => {
                let strip = &(&(trip - &var(name)) - &lane) - &n(1);
                if touch.facts.contains(&strip) {
                    start = along_strip(&start, name)?;
                }
                let trip = trip.substitute(&with);
                around.loop_variable(&own, n(0), trip);
            }
            Def::Lane => around.loop_variable(&own, n(0), var(&LANES)),
            Def::Least(of) => {
                around.least.insert(own.clone(), of.iter().map(|d| d.substitute(&with)).collect());
            }
            Def::Quotient(p, q) => {
                let quotient = p.substitute(&with).floor_div(&q.substitute(&with));
                with.insert(name.clone(), quotient.unwrap_or_else(|| n(0)));
                continue;
            }
            // Unknown: what depends on it is reported.
            Def::Data | Def::Greatest(_) => continue,
        }
        with.insert(name.clone(), var(&own));
    }
    let start = start.substitute(&with);
    let is_of_body = |variable: &LoopVariable| variable.name.is_of(OF_BODY);
    let is_used = |variable: &LoopVariable| start.mentions(&variable.name);
    // Loops of a body do not nest. Where the place does not say which it is, it may be each that runs where the store does.
    let is_known = around.variables.iter().any(|variable| is_of_body(variable) && is_used(variable));
    if touch.is_of_vectors && is_known {
        return Err("it writes one element of each vector".to_owned());
    }
    let runs = |variable: &LoopVariable| {
        touch.facts.iter().any(|fact| fact.substitute(&with) == &variable.to - &n(1))
    };
    around
        .variables
        .retain(|variable| !is_of_body(variable) || is_used(variable) || !is_known && runs(variable));
    Ok(start)
}

/// The start of a store in a strip, whose element is the first one of its vector and its lane together.
fn along_strip(start: &Dim, index: &Symbol) -> Result<Dim, String> {
    let split = start.linear_in(&BODY_LANE).and_then(|(lanes, rest)| {
        let (strip, _) = rest.linear_in(index)?;
        (strip == lanes).then_some(rest)
    });
    split.ok_or_else(|| "its lanes do not go on where its vectors do".to_owned())
}

/// A variable of that kind that none of these is.
pub(super) fn fresh(kind: SymbolKind, variables: &[LoopVariable]) -> Symbol {
    let numbers = variables.iter().filter_map(|variable| match &variable.name {
        Symbol::Special(of, number) if *of == kind => Some(number + 1),
        Symbol::Special(..) | Symbol::Dimension(_) | Symbol::Variable(..) => None,
    });
    kind.number(numbers.max().unwrap_or(0))
}

impl Set {
    /// No elements.
    pub(super) fn nothing() -> Set {
        Set {
            kind: Kind::Map,
            variables: Vec::new(),
            least: BTreeMap::new(),
            when: Vec::new(),
            from: n(0),
            to: n(0),
            is_certain: true,
            room: None,
        }
    }

    /// Whether it is over the same variables, under the same conditions.
    pub(super) fn has_same_variables(&self, other: &Set) -> bool {
        let mut minima = self.least.iter();
        let are_same = minima.all(|(name, of)| other.least.get(name).is_none_or(|others| others == of));
        (&self.variables, &self.when) == (&other.variables, &other.when) && are_same
    }

    /// Whether it is the same elements, for each number of the same variables.
    pub(super) fn is_same(&self, other: &Set) -> bool {
        self.has_same_variables(other) && (&self.from, &self.to) == (&other.from, &other.to)
    }

    /// Whether elements, so many, are of the rows that a condition leaves out: attention of few rows keeps its states where
    /// there is room for the most rows that are few, and of these none is left.
    pub(super) fn leaves_rows(&self, elements: &Dim) -> bool {
        let none_for_most = |condition: &Dim| {
            let rows = condition.symbols().into_iter().next()?;
            let (of, most) = condition.linear_in(&rows)?;
            let most = most.as_constant().filter(|_| of.as_constant() == Some(-1))?;
            Some(elements.substitute(&BTreeMap::from([(rows, n(most))])).as_constant() == Some(0))
        };
        self.kind == Kind::Attention && self.when.iter().any(|c| none_for_most(c) == Some(true))
    }

    /// Every integer in it.
    pub(super) fn dims(&self) -> impl Iterator<Item = &Dim> {
        let ranges = self.variables.iter().flat_map(|variable| [&variable.from, &variable.to]);
        ranges.chain(self.least.values().flatten()).chain(&self.when).chain([&self.from, &self.to])
    }

    /// Changes every integer in it.
    pub(super) fn change(&mut self, with: &mut dyn FnMut(&Dim) -> Dim) {
        let ranges = self.variables.iter_mut().flat_map(|variable| [&mut variable.from, &mut variable.to]);
        let minima = self.least.values_mut().flatten();
        let all = ranges.chain(minima).chain(&mut self.when).chain([&mut self.from, &mut self.to]);
        all.for_each(|d| *d = with(d));
    }

    /// Puts a value in the place of a variable, which is one no more.
    pub(super) fn put(&mut self, name: &Symbol, value: &Dim) {
        let with = BTreeMap::from([(name.clone(), value.clone())]);
        self.variables.retain(|variable| variable.name != *name);
        self.change(&mut |d| d.substitute(&with));
    }

    /// Whether an integer depends on a name, by itself or by a minimum in it.
    pub(super) fn depends(&self, d: &Dim, on: &Symbol) -> bool {
        d.mentions(on)
            || self.least.iter().any(|(name, of)| d.mentions(name) && of.iter().any(|d| self.depends(d, on)))
    }

    /// Whether an integer depends on any of the variables.
    pub(super) fn varies(&self, d: &Dim) -> bool {
        self.variables.iter().any(|variable| self.depends(d, &variable.name))
    }

    /// Whether a name is a variable or a minimum, and no size.
    pub(super) fn is_bound(&self, name: &Symbol) -> bool {
        self.least.contains_key(name) || self.variables.iter().any(|variable| variable.name == *name)
    }

    /// Forgets minima that nothing mentions.
    pub(super) fn prune(&mut self) {
        loop {
            let used: BTreeSet<Symbol> = self.dims().flat_map(Dim::symbols).collect();
            let before = self.least.len();
            self.least.retain(|name, _| used.contains(name));
            if self.least.len() == before {
                return;
            }
        }
    }

    /// Names that are neither dimensions nor variables nor minima.
    fn unknown(&self, program: &Program) -> BTreeSet<Symbol> {
        let mut all: BTreeSet<Symbol> = self.dims().flat_map(Dim::symbols).collect();
        all.retain(|name| {
            let is_dimension = name.as_dimension().is_some_and(|name| program.dimensions.contains(name));
            !is_dimension && *name != LANES && !self.is_bound(name)
        });
        all
    }
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "elements {} .. {}", self.from, self.to)?;
        for (at, LoopVariable { name, from, to, .. }) in self.variables.iter().enumerate() {
            write!(f, "{} `{name}` in {from} .. {to}", if at == 0 { " for" } else { "," })?;
        }
        let least = self.least.iter();
        least.into_iter().try_for_each(|(name, of)| {
            let of: Vec<String> = of.iter().map(Dim::to_string).collect();
            write!(f, ", where `{name}` is min({})", of.join(", "))
        })
    }
}
