//! What a store writes for all numbers of its variables, put together to what it writes in all.
//!
//! One variable after the other goes: what is written for one number ends where what is written for the next begins, or at
//! an end that is the same for all numbers, and all of it together goes from the beginning for the first to the end for the
//! last. So every place is written for one number of the variable, and between the ends no place is left out.

use super::known::Known;
use super::writes::{LoopVariable, Room, Set, fresh};
use crate::dims::{NAMED, QUOTIENT, REST, ceil_div, n, var};
use crate::program::kernel::Kind;
use crate::verify::quotients::divide;
use salient_ir::{Dim, Factor, Symbol};
use std::collections::BTreeMap;

/// How far it goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Reach {
    /// What an item writes: which item it is stays a variable.
    Item,
    /// What all items write.
    Items,
    /// The same, with room for what is never written.
    WithRoom,
}

/// Steps after which it ends; each takes a variable, a condition or a quotient away.
const STEPS: usize = 200;

/// As much put together as is seen to fit.
pub(super) fn combined(mut set: Set, known: &Known, reach: Reach) -> Set {
    for _ in 0..STEPS {
        let mut combine = Combine { set: &mut set, known };
        if !combine.step(reach) {
            break;
        }
        set.prune();
    }
    set
}

struct Combine<'w> {
    set: &'w mut Set,
    known: &'w Known,
}

impl Combine<'_> {
    /// Whether something was done.
    fn step(&mut self, reach: Reach) -> bool {
        self.condition()
            || self.quotient()
            || self.only_one()
            || self.each(|combine, variable| combine.join(variable, reach))
            || self.each(|combine, variable| combine.repeat(variable))
            || reach >= Reach::Items && self.each(|combine, variable| combine.blocks(variable))
            || reach == Reach::WithRoom && self.each(|combine, variable| combine.room(variable))
            || reach >= Reach::Items && self.each(|combine, variable| combine.one_by_proof(variable))
    }

    /// Tries the variables from the innermost to the outermost.
    fn each(&mut self, try_one: impl Fn(&mut Self, &LoopVariable) -> bool) -> bool {
        let variables = self.set.variables.clone();
        variables.iter().rev().any(|variable| try_one(self, variable))
    }

    /// A condition on a variable becomes a bound of it.
    fn condition(&mut self) -> bool {
        for at in 0..self.set.when.len() {
            let condition = self.set.when[at].clone();
            let last = self.set.variables.iter().rposition(|t| self.set.depends(&condition, &t.name));
            let Some(last) = last else { continue };
            let variable = self.set.variables[last].clone();
            let Some((of, rest)) = condition.linear_in(&variable.name) else { continue };
            if self.set.depends(&rest, &variable.name) {
                continue;
            }
            let (from, to) = match of.as_constant() {
                Some(1) => (self.greater(&variable.from, &(&n(0) - &rest)), Some(variable.to)),
                Some(-1) => (Some(variable.from), self.lesser(&variable.to, &(&rest + &n(1)))),
                Some(_) | None => continue,
            };
            if let (Some(from), Some(to)) = (from, to) {
                self.set.variables[last] = LoopVariable { from, to, ..variable };
                self.set.when.remove(at);
                return true;
            }
        }
        false
    }

    fn greater(&self, a: &Dim, b: &Dim) -> Option<Dim> {
        [(a, b), (b, a)].into_iter().find_map(|(a, b)| self.prove(&(a - b)).then(|| a.clone()))
    }

    fn lesser(&self, a: &Dim, b: &Dim) -> Option<Dim> {
        [(a, b), (b, a)].into_iter().find_map(|(a, b)| self.prove(&(b - a)).then(|| a.clone()))
    }

    fn prove(&self, goal: &Dim) -> bool {
        self.known.prove(self.set, goal)
    }

    fn same(&self, a: &Dim, b: &Dim) -> bool {
        self.known.same(self.set, a, b)
    }

    /// A variable that is one number only is that.
    fn only_one(&mut self) -> bool {
        let one = |variable: &&LoopVariable| variable.to == &variable.from + &n(1);
        let Some(LoopVariable { name, from, .. }) = self.set.variables.iter().find(one).cloned() else {
            return false;
        };
        self.set.put(&name, &from);
        true
    }

    /// The same where that takes a proof.
    fn one_by_proof(&mut self, variable: &LoopVariable) -> bool {
        let is_one = self.same(&variable.to, &(&variable.from + &n(1)));
        if is_one {
            self.set.put(&variable.name, &variable.from);
        }
        is_one
    }

    /// A quotient of a variable is read off, or the variable becomes its quotient and its remainder.
    fn quotient(&mut self) -> bool {
        let mut all: Vec<(Dim, Dim)> = Vec::new();
        for d in self.set.dims() {
            quotients(d, &mut all);
        }
        all.retain(|(p, _)| self.set.varies(p));
        // Where one divisor is a multiple of another, it comes first.
        let is_inner = |(p, q): &(Dim, Dim)| {
            let is_multiple = |(a, b): &(Dim, Dim)| a == p && b != q && even(b, q).is_some();
            all.iter().any(is_multiple)
        };
        let outer: Vec<&(Dim, Dim)> = all.iter().filter(|quotient| !is_inner(quotient)).collect();
        outer.into_iter().any(|(p, q)| self.count_from_zero(p) || self.read_off(p, q) || self.divide(p, q))
    }

    /// A variable that is divided is counted from zero, if its beginning is the same for all others.
    fn count_from_zero(&mut self, p: &Dim) -> bool {
        let begins = |variable: &&LoopVariable| {
            p.mentions(&variable.name)
                && variable.from.as_constant() != Some(0)
                && !self.set.varies(&variable.from)
        };
        let Some(LoopVariable { name, from, .. }) = self.set.variables.iter().find(begins).cloned() else {
            return false;
        };
        let with = BTreeMap::from([(name.clone(), &from + &var(&name))]);
        self.set.change(&mut |d| d.substitute(&with));
        let variable =
            self.set.variables.iter_mut().find(|variable| variable.name == name).expect("it was found");
        (variable.from, variable.to) = (n(0), &variable.to - &from);
        true
    }

    /// `p // q` where a multiple of `q` is left, or where it is zero.
    fn read_off(&mut self, p: &Dim, q: &Dim) -> bool {
        let (multiple, rest) = divided(p, q);
        let value = if self.prove(&rest) && self.prove(&(&(q - &rest) - &n(1))) {
            multiple
        } else if multiple.as_constant() != Some(0) {
            match rest.floor_div(q) {
                Some(left) => &multiple + &left,
                None => return false,
            }
        } else {
            return false;
        };
        self.set.change(&mut |d| with_quotient(d, (p, q), &value));
        true
    }

    /// A variable in `0 .. b * q` that is divided by `q` becomes `q` times a number below `b`, and a number below `q`.
    fn divide(&mut self, p: &Dim, q: &Dim) -> bool {
        let Some(at) = self.set.variables.iter().position(|variable| p.as_symbol() == Some(&variable.name))
        else {
            return false;
        };
        let variable = self.set.variables[at].clone();
        let is_before = self.set.variables[at..].iter().all(|t| !self.set.depends(q, &t.name));
        let Some(count) =
            even(&variable.to, q).filter(|_| variable.from.as_constant() == Some(0) && is_before)
        else {
            return false;
        };
        if !self.prove(&count) || !self.prove(q) {
            return false;
        }
        let (quotient, rest) = (fresh(QUOTIENT, &self.set.variables), fresh(REST, &self.set.variables));
        self.set.change(&mut |d| with_quotient(d, (p, q), &var(&quotient)));
        self.set.put(&variable.name, &(&(q * &var(&quotient)) + &var(&rest)));
        let of_item = variable.of_item;
        let into = [(quotient, count), (rest, q.clone())];
        let into = into.map(|(name, to)| LoopVariable { name, from: n(0), to, of_item });
        self.set.variables.splice(at..at, into);
        true
    }

    /// What goes from `lo` to `hi` for each number of a variable, for all of them: where it begins and where it ends.
    fn telescope(&self, variable: &LoopVariable, lo: &Dim, hi: &Dim) -> Option<(Dim, Dim)> {
        let at = |value: &Dim| lo.substitute(&BTreeMap::from([(variable.name.clone(), value.clone())]));
        let (first, next, last) = (at(&variable.from), at(&(&var(&variable.name) + &n(1))), at(&variable.to));
        if self.set.depends(&last, &variable.name) || self.set.depends(&first, &variable.name) {
            return None;
        }
        let is_in_order = || self.prove(&(&variable.to - &variable.from)) && self.prove(&(&next - lo));
        if self.same(hi, &next) {
            return is_in_order().then_some((first, last));
        }
        // It ends where the next begins, or at an end that is the same for all.
        self.set.least.iter().filter(|(name, _)| hi.mentions(name)).find_map(|(name, of)| {
            let (times, rest) = hi.linear_in(name)?;
            let ends: Vec<Dim> = of.iter().map(|d| &(&times * d) + &rest).collect();
            let (nexts, others): (Vec<&Dim>, Vec<&Dim>) = ends.iter().partition(|end| self.same(end, &next));
            let [end] = others.as_slice() else { return None };
            let fits = !nexts.is_empty() && !self.set.depends(end, &variable.name) && self.prove(&times);
            let whole = fits && self.prove(&(&last - *end)) && self.prove(&(*end - &first));
            (whole && is_in_order()).then(|| (first.clone(), (*end).clone()))
        })
    }

    /// Whether nothing but the places themselves depends on a variable.
    fn is_innermost(&self, variable: &LoopVariable) -> bool {
        let others = self.set.variables.iter().filter(|other| other.name != variable.name);
        let mut fixed = others.flat_map(|other| [&other.from, &other.to]).chain(&self.set.when);
        !fixed.any(|d| self.set.depends(d, &variable.name))
    }

    /// What is written for all numbers of a variable, one after the other.
    fn join(&mut self, variable: &LoopVariable, reach: Reach) -> bool {
        let may = !variable.of_item || reach >= Reach::Items;
        if !may || !self.set.depends(&self.set.from, &variable.name) || !self.is_innermost(variable) {
            return false;
        }
        let Some((from, to)) = self.telescope(variable, &self.set.from, &self.set.to) else { return false };
        self.set.variables.retain(|other| other.name != variable.name);
        (self.set.from, self.set.to) = (from, to);
        true
    }

    /// What a loop of an item writes again and again.
    fn repeat(&mut self, variable: &LoopVariable) -> bool {
        let is_free = |d: &Dim| !self.set.depends(d, &variable.name);
        let places = [&self.set.from, &self.set.to];
        if variable.of_item || !self.is_innermost(variable) || !places.into_iter().all(is_free) {
            return false;
        }
        self.set.is_certain &= self.prove(&(&(&variable.to - &variable.from) - &n(1)));
        self.set.variables.retain(|other| other.name != variable.name);
        true
    }

    /// A variable of blocks, and one that goes through each block, are one that goes through all.
    fn blocks(&mut self, block: &LoopVariable) -> bool {
        let depends = |d: &Dim| self.set.depends(d, &block.name);
        let within = |variable: &LoopVariable| depends(&variable.from) || depends(&variable.to);
        let mut inner = (0..self.set.variables.len()).filter(|at| within(&self.set.variables[*at]));
        let (Some(at), None) = (inner.next(), inner.next()) else { return false };
        let mut others = self.set.when.iter().chain([&self.set.from, &self.set.to]);
        if others.any(depends) {
            return false;
        }
        let variable = self.set.variables[at].clone();
        let Some((from, to)) = self.telescope(block, &variable.from, &variable.to) else { return false };
        let of_item = block.of_item || variable.of_item;
        self.set.variables[at] = LoopVariable { from, to, of_item, ..variable };
        self.set.variables.retain(|other| other.name != block.name);
        true
    }

    /// What is written for all numbers of a variable, with places between that have no value.
    fn room(&mut self, variable: &LoopVariable) -> bool {
        let (from, to) = (self.set.from.clone(), self.set.to.clone());
        let depends = self.set.depends(&from, &variable.name);
        if self.set.room.is_some() || !depends || !self.is_innermost(variable) {
            return false;
        }
        let at = |value: &Dim| from.substitute(&BTreeMap::from([(variable.name.clone(), value.clone())]));
        let (first, next, last) = (at(&variable.from), at(&(&var(&variable.name) + &n(1))), at(&variable.to));
        let Some(room) = self.room_between(&to, &next) else { return false };
        let in_order = [&next - &to, &next - &from, &variable.to - &variable.from];
        if !in_order.iter().all(|d| self.prove(d)) {
            return false;
        }
        self.set.variables.retain(|other| other.name != variable.name);
        (self.set.from, self.set.to) = (first, last);
        self.set.room = Some(room);
        true
    }

    /// What the places from one to another are, if it is known why they have no value.
    fn room_between(&self, to: &Dim, next: &Dim) -> Option<Room> {
        match self.set.kind {
            Kind::Pack => self.columns_left(to, next).map(Room::Columns),
            Kind::Attention | Kind::Gemm | Kind::Rows | Kind::Map => {
                self.set.leaves_rows(&(next - to)).then_some(Room::Rows)
            }
        }
    }

    /// How many columns panels hold where it is they that end in the last panel, and are as many as the panels are for.
    fn columns_left(&self, to: &Dim, next: &Dim) -> Option<Dim> {
        let width = next - &self.set.from;
        self.set.least.iter().find_map(|(name, of)| {
            let (times, rest) = to.linear_in(name)?;
            let ends: Vec<Dim> = of.iter().map(|d| &(&times * d) + &rest).collect();
            let end = ends.iter().find(|end| *end != next)?;
            if !ends.contains(next) {
                return None;
            }
            // In a panel there are left so many.
            let left = end - &self.set.from;
            self.set.variables.iter().find_map(|panel| {
                let columns = &left + &(&width * &var(&panel.name));
                let is_all = panel.from.as_constant() == Some(0) && panel.to == ceil_div(&columns, &width);
                (is_all && !self.set.varies(&columns)).then_some(columns)
            })
        })
    }
}

/// A multiple of `q` and a rest that make up the integer: what is seen to be divided.
fn divided(p: &Dim, q: &Dim) -> (Dim, Dim) {
    let (multiple, rest) = divide(p, q);
    if rest.as_constant() == Some(0) {
        return (multiple, rest);
    }
    // A sum is divided by a sum where both are of names: quotients get some.
    let mut named: BTreeMap<Dim, Symbol> = BTreeMap::new();
    let [p, q] = [p, q].map(|d| in_names(d, &mut named));
    let back = named.into_iter().map(|(value, name)| (name, value)).collect();
    let (multiple, rest) = divide(&p, &q);
    (multiple.substitute(&back), rest.substitute(&back))
}

/// The same with a name for each quotient.
fn in_names(d: &Dim, named: &mut BTreeMap<Dim, Symbol>) -> Dim {
    d.replaced(&mut |factor| {
        let quotient = match factor {
            Factor::Symbol(name) => return var(name),
            Factor::Floor(p, q) => p.floor_div(q),
            Factor::Exact(p, q) => p.exact_div(q),
        };
        let next = NAMED.number(named.len() as u32);
        var(named.entry(quotient.unwrap_or_else(|| n(0))).or_insert(next))
    })
}

/// How often an integer is in another, if that comes out even.
fn even(p: &Dim, q: &Dim) -> Option<Dim> {
    let (multiple, rest) = divided(p, q);
    (rest.as_constant() == Some(0)).then_some(multiple)
}

/// The quotients that are rounded down in an integer, inner ones first, each once.
fn quotients(d: &Dim, out: &mut Vec<(Dim, Dim)>) {
    let _ = d.replaced(&mut |factor| {
        if let Factor::Floor(p, q) | Factor::Exact(p, q) = factor {
            quotients(p, out);
            quotients(q, out);
        }
        if let Factor::Floor(p, q) = factor {
            let quotient = (p.clone(), q.clone());
            if !out.contains(&quotient) {
                out.push(quotient);
            }
        }
        n(0)
    });
}

/// The same with a value in the place of a quotient.
fn with_quotient(d: &Dim, of: (&Dim, &Dim), value: &Dim) -> Dim {
    d.replaced(&mut |factor| match factor {
        Factor::Symbol(name) => var(name),
        Factor::Floor(p, q) if (p, q) == of => value.clone(),
        Factor::Floor(p, q) => {
            let [p, q] = [p, q].map(|d| with_quotient(d, of, value));
            p.floor_div(&q).unwrap_or_else(|| n(0))
        }
        Factor::Exact(p, q) => {
            let [p, q] = [p, q].map(|d| with_quotient(d, of, value));
            p.exact_div(&q).unwrap_or_else(|| n(0))
        }
    })
}
