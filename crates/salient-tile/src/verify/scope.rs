//! The integers in sight at a place of a program, over variables of which something is known.
//!
//! What a program computes becomes polynomials of variables: a quotient is a variable between its bounds, and a loop
//! variable that is divided by something is replaced by its quotient and its remainder, which are independent of each other.

use super::facts::{Bound, Facts, Nature, Variable};
use crate::dims::{PROVED, n, var};
use crate::program::kernel::Int;
use salient_ir::{Dim, Factor, Relation, Requirement, Symbol};
use std::collections::HashMap;

/// What is in sight.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) facts: Facts,
    /// What the names of the program stand for.
    pub(super) values: HashMap<Symbol, Dim>,
    /// Quotients that were looked at before.
    pub(super) quotients: Vec<(Dim, Dim, Dim)>,
    fresh: u32,
}

impl Scope {
    /// Dimensions of a model, none of which is negative.
    pub(super) fn dimension(&mut self, name: &Symbol, least: i64) {
        self.facts.add(Variable::between(name.clone(), vec![Bound::new(n(least))], Vec::new()));
    }

    /// A name that nothing has.
    pub(super) fn name(&mut self) -> Symbol {
        self.fresh += 1;
        PROVED.number(self.fresh)
    }

    /// A variable of which nothing is known but its bounds; gives its value.
    pub(super) fn variable(&mut self, lower: Vec<Bound>, upper: Vec<Bound>, nature: Nature) -> Dim {
        let name = self.name();
        self.facts.add(Variable::between(name.clone(), lower, upper).of(nature));
        var(&name)
    }

    /// Binds a name of the program.
    pub(super) fn bind(&mut self, name: &Symbol, value: Dim) {
        self.values.insert(name.clone(), value);
    }

    /// Binds a name to what is read from memory: it may be anything.
    pub(super) fn bind_any(&mut self, name: &Symbol) {
        let value = self.variable(Vec::new(), Vec::new(), Nature::Data);
        self.bind(name, value);
    }

    /// Binds a name to a number of `0..count`, all of which it becomes.
    pub(super) fn bind_below(&mut self, name: &Symbol, count: &Dim) {
        self.facts.learn(&(count - &n(1)));
        let value = self.variable(vec![Bound::new(n(0))], vec![Bound::new(count - &n(1))], Nature::Index);
        self.bind(name, value);
    }

    /// What the program calls so, as a polynomial of variables.
    pub(super) fn value(&mut self, d: &Dim) -> Dim {
        let value = d.replaced(&mut |factor| match factor {
            Factor::Symbol(name) => self.of_name(name),
            Factor::Exact(p, q) => {
                let [p, q] = self.values([p, q]);
                self.exact(&p, &q)
            }
            Factor::Floor(p, q) => {
                let [p, q] = self.values([p, q]);
                self.floor(&p, &q)
            }
        });
        self.current(value)
    }

    fn of_name(&self, name: &Symbol) -> Dim {
        self.values.get(name).cloned().unwrap_or_else(|| var(name))
    }

    /// The same where variables have been replaced by others meanwhile.
    fn current(&self, mut d: Dim) -> Dim {
        while d.symbols().iter().any(|name| self.values.contains_key(name)) {
            d = d.replaced(&mut |factor| match factor {
                Factor::Symbol(name) => self.of_name(name),
                Factor::Exact(..) | Factor::Floor(..) => unreachable!("a variable stands for every quotient"),
            });
        }
        d
    }

    /// The values of several integers, over the same variables.
    pub(super) fn values<const N: usize>(&mut self, of: [&Dim; N]) -> [Dim; N] {
        let values = of.map(|d| self.value(d));
        values.map(|d| self.current(d))
    }

    /// As [`Scope::values`].
    pub(super) fn all(&mut self, of: &[&Dim]) -> Vec<Dim> {
        let values: Vec<Dim> = of.iter().map(|d| self.value(d)).collect();
        values.into_iter().map(|d| self.current(d)).collect()
    }

    /// The value of what a statement binds.
    pub(super) fn int(&mut self, int: &Int) -> Dim {
        match int {
            Int::Dim(d) => self.value(d),
            Int::Min(of) => {
                let of = self.all(&of.iter().collect::<Vec<_>>());
                self.least(of)
            }
            Int::Max(of) => {
                let of = self.all(&of.iter().collect::<Vec<_>>());
                self.greatest(of)
            }
        }
    }

    /// The least of some.
    pub(super) fn least(&mut self, of: Vec<Dim>) -> Dim {
        let is_least = |d: &&Dim| of.iter().all(|other| self.facts.at_most(d, other));
        if let Some(least) = of.iter().find(is_least) {
            return least.clone();
        }
        let lower = self.below_all(&of).into_iter().map(Bound::new).collect();
        let upper = of.iter().cloned().map(Bound::new).collect();
        self.variable(lower, upper, Nature::Least(of))
    }

    /// What all of them are greater than, and one of them is up to a term: the beginning of the last block of something.
    fn below_all(&self, of: &[Dim]) -> Vec<Dim> {
        let mut out = Vec::new();
        for d in of {
            for term in d.terms() {
                let least = &(d - &term) + &n(1);
                if d.as_constant().is_none() && of.iter().all(|other| self.facts.at_most(&least, other)) {
                    out.push(least);
                }
            }
        }
        out
    }

    /// The greatest of some.
    pub(super) fn greatest(&mut self, of: Vec<Dim>) -> Dim {
        let is_greatest = |d: &&Dim| of.iter().all(|other| self.facts.at_most(other, d));
        if let Some(greatest) = of.iter().find(is_greatest) {
            return greatest.clone();
        }
        let lower = of.iter().cloned().map(Bound::new).collect();
        self.variable(lower, Vec::new(), Nature::Greatest(of))
    }

    /// Binds a loop variable in the body of its loop, which runs.
    pub(super) fn bind_loop(&mut self, name: &Symbol, from: &Dim, to: &Dim, step: &Dim) {
        self.facts.learn(&(&(to - from) - &n(1)));
        let value = if step.as_constant() == Some(1) {
            let (lower, upper) = (Bound::new(from.clone()), Bound::new(to - &n(1)));
            self.variable(vec![lower], vec![upper], Nature::Index)
        } else if self.facts.is_positive(step) {
            let mut upper = self.quotients_below(&(to - from), step);
            upper.push(Bound { times: step.clone(), than: &(to - from) - &n(1) });
            let turn = self.variable(vec![Bound::new(n(0))], upper, Nature::Index);
            from + &(&turn * step)
        } else {
            self.variable(vec![Bound::new(from.clone())], vec![Bound::new(to - &n(1))], Nature::Any)
        };
        self.bind(name, value);
    }

    /// A relation that the model requires.
    pub(super) fn require(&mut self, requirement: &Requirement) {
        match &requirement.relation {
            Relation::Equal(a, b) => {
                let [a, b] = self.values([a, b]);
                self.facts.learn(&(&a - &b));
                self.facts.learn(&(&b - &a));
            }
            Relation::Divides(a, b) => {
                let [a, b] = self.values([a, b]);
                self.facts.learn(&(&b - &n(1)));
                self.exact(&a, &b);
            }
            Relation::AtMost(a, b) => {
                let [a, b] = self.values([a, b]);
                self.facts.learn(&(&b - &a));
            }
        }
    }
}
