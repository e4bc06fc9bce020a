//! What is known of integers: variables between bounds, in an order in which each is usually bounded by those before it.
//! The order finds proofs; soundness does not need it.

use super::choice::SAMPLES;
use crate::dims::{n, var};
use salient_ir::{Dim, Symbol};
use std::collections::{BTreeMap, HashMap};

/// `times * v` is at least (or at most) `than`, and `times` is positive.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) times: Dim,
    pub(super) than: Dim,
}

impl Bound {
    pub(super) fn new(than: Dim) -> Bound {
        Bound { times: n(1), than }
    }

    /// What follows from it for `of * v + rest`, a sign of `of` apart: the same with the bound in place of the variable,
    /// times something positive.
    pub(super) fn put(&self, of: &Dim, rest: &Dim) -> Dim {
        if self.times.as_constant() == Some(1) {
            return &(of * &self.than) + rest;
        }
        let (part, left) = of.split_multiple(&self.times);
        if left.as_constant() == Some(0) {
            &(&part * &self.than) + rest
        } else {
            &(of * &self.than) + &(&self.times * rest)
        }
    }
}

/// What a variable is, beside its bounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Nature {
    /// Something between its bounds.
    Any,
    /// A number from memory, or one of which nothing is understood.
    Data,
    /// The index of a loop: each number between its bounds in turn.
    Index,
    /// The least of these, which are its upper bounds too.
    Least(Vec<Dim>),
    /// The greatest of these, which are its lower bounds too.
    Greatest(Vec<Dim>),
    /// The first divided by the second, rounded down.
    Quotient(Dim, Dim),
}

/// What is known of a variable.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: Symbol,
    pub(super) lower: Vec<Bound>,
    pub(super) upper: Vec<Bound>,
    pub(super) nature: Nature,
    /// A number that it is never below.
    pub(super) least: Option<i64>,
}

impl Variable {
    /// A variable between its bounds.
    pub(super) fn between(name: Symbol, lower: Vec<Bound>, upper: Vec<Bound>) -> Variable {
        Variable { name, lower, upper, nature: Nature::Any, least: None }
    }

    /// The same, of a nature.
    pub(super) fn of(self, nature: Nature) -> Variable {
        Variable { nature, ..self }
    }
}

/// What is known in one place of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// In an order in which bounds of each are usually made of those before it.
    pub(super) variables: Vec<Variable>,
    /// Where each stands among them.
    pub(super) position: HashMap<Symbol, usize>,
    /// Whether what is known contradicts itself: the place is never reached.
    pub(super) is_never: bool,
    /// What was learned: bounds say as much of it as they can.
    pub(super) learned: Vec<Dim>,
    /// For each choice the numbers of the variables, if there are such that fit all that is known.
    pub(super) samples: Vec<Option<Vec<i128>>>,
}

/// The sign of what is not negative, or not positive.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

/// Consequences of consequences of what is learned, at most.
const CONSEQUENCES: u32 = 8;

impl Facts {
    /// Adds a variable after all others.
    pub(super) fn add(&mut self, mut variable: Variable) {
        let lower = |nature: &Nature| match nature {
            // The least of some is at least what they all are.
            Nature::Least(of) => of.iter().map(|d| self.number_below(d)).min().flatten(),
            Nature::Any | Nature::Data | Nature::Index | Nature::Greatest(_) | Nature::Quotient(..) => None,
        };
        let bounds = variable.lower.iter().filter_map(|bound| self.least_of(bound));
        variable.least = bounds.max().max(lower(&variable.nature));
        self.samples.resize_with(SAMPLES.len(), || Some(Vec::new()));
        for (at, choice) in SAMPLES.iter().enumerate() {
            let number = self.samples[at].as_ref().and_then(|sample| self.fitting(&variable, choice, sample));
            match (&mut self.samples[at], number) {
                (Some(sample), Some(number)) => sample.push(number),
                (sample, _) => *sample = None,
            }
        }
        self.position.insert(variable.name.clone(), self.variables.len());
        self.variables.push(variable);
    }

    pub(super) fn get(&self, name: &Symbol) -> Option<&Variable> {
        self.position.get(name).map(|at| &self.variables[*at])
    }

    /// Puts something else in the place of a variable: new ones where it stood, and a polynomial of them.
    pub(super) fn replace(&mut self, name: &Symbol, into: Vec<Variable>, value: &Dim) {
        let Some(at) = self.position.get(name).copied() else { return };
        let with = BTreeMap::from([(name.clone(), value.clone())]);
        let after = self.variables.split_off(at);
        self.position.retain(|_, position| *position < at);
        let before = std::mem::take(&mut self.samples);
        self.samples = before.iter().map(|sample| sample.as_ref().map(|s| s[..at].to_vec())).collect();
        into.into_iter().for_each(|variable| self.add(variable));
        self.learned.iter_mut().for_each(|p| *p = p.substitute(&with));
        for mut variable in after.into_iter().skip(1) {
            for bound in variable.lower.iter_mut().chain(&mut variable.upper) {
                *bound = Bound { times: bound.times.substitute(&with), than: bound.than.substitute(&with) };
            }
            match &mut variable.nature {
                Nature::Any | Nature::Data | Nature::Index => {}
                Nature::Least(of) | Nature::Greatest(of) => {
                    of.iter_mut().for_each(|d| *d = d.substitute(&with));
                }
                Nature::Quotient(p, q) => (*p, *q) = (p.substitute(&with), q.substitute(&with)),
            }
            let least = variable.least;
            self.add(variable);
            let last = self.variables.last_mut().expect("one was added");
            last.least = last.least.max(least);
        }
        // A variable that was bounded by what came after it in the order may have other numbers now.
        self.resample();
        self.choose_again();
    }

    /// What a lower bound says of the least number: what is at least a number, times something positive, is at least the
    /// sign of it.
    fn least_of(&self, bound: &Bound) -> Option<i64> {
        let least = self.number_below(&bound.than)?;
        Some(if bound.times.as_constant() == Some(1) { least } else { least.min(1) })
    }

    pub(super) fn least(&self, name: &Symbol) -> Option<i64> {
        self.position.get(name).and_then(|at| self.variables[*at].least)
    }

    /// A number that the polynomial is seen to be never below: one, zero, or itself.
    pub(super) fn number_below(&self, p: &Dim) -> Option<i64> {
        if p.as_constant().is_some() {
            return p.as_constant();
        }
        [1, 0].into_iter().find(|least| self.is_plain(&(p - &n(*least))))
    }

    /// From here on the polynomial is at least zero.
    pub(super) fn learn(&mut self, p: &Dim) {
        self.learned.push(p.clone());
        self.learn_one(p, 0);
        self.choose_again();
    }

    /// What is said of a remainder, a number less so many times its quotient, bounds the number too, though the quotient stands behind
    /// it in the order: above by what is learned, and below since no remainder is negative.
    pub(super) fn learn_remainder(&mut self, p: &Dim) {
        let names = self.last_first(p);
        let remainder = |name: &Symbol| {
            let Nature::Quotient(number, by) = &self.get(name)?.nature else { return None };
            names.iter().any(|name| number.mentions(name)).then(|| number - &(by * &var(name)))
        };
        let Some(remainder) = names.iter().find_map(remainder) else { return };
        let counted = |of: &Dim, times: i64| {
            let found = |name: &Symbol| {
                let (by, rest) = of.linear_in(name)?;
                (by.as_constant() == Some(times)).then(|| (name.clone(), rest))
            };
            let is_number =
                |name: &&Symbol| !matches!(self.get(name).map(|v| &v.nature), Some(Nature::Quotient(..)));
            names.iter().filter(is_number).find_map(found)
        };
        let (above, below) = (counted(p, -1), counted(&remainder, 1));
        if let Some((name, rest)) = above {
            self.variables[self.position[&name]].upper.push(Bound::new(rest));
        }
        if let Some((name, rest)) = below {
            self.variables[self.position[&name]].lower.push(Bound::new(-&rest));
        }
    }

    fn learn_one(&mut self, p: &Dim, depth: u32) {
        if depth > CONSEQUENCES {
            return;
        }
        if let Some(value) = p.as_constant() {
            self.is_never |= value < 0;
            return;
        }
        if self.is_plain(p) {
            return;
        }
        let samples = std::mem::take(&mut self.samples);
        let fits = |sample: &Vec<i128>| self.at(p, sample).is_some_and(|value| value >= 0);
        self.samples = samples.into_iter().map(|sample| sample.filter(fits)).collect();
        if let Some(factors) = self.product_of_positives(p) {
            return factors.iter().for_each(|name| self.learn_least(name, depth));
        }
        for name in self.last_first(p) {
            let Some((of, rest)) = p.linear_in(&name) else { continue };
            if self.is_positive(&of) {
                return self.bound(&name, Sign::Plus, Bound { times: of, than: -&rest }, depth);
            }
            if self.is_positive(&-&of) {
                return self.bound(&name, Sign::Minus, Bound { times: -&of, than: rest }, depth);
            }
        }
    }

    /// The variables of a product that is at least one, none of which is negative.
    fn product_of_positives(&self, p: &Dim) -> Option<Vec<Symbol>> {
        let terms = p.monomials()?;
        let (constant, products): (Vec<_>, Vec<_>) = terms.into_iter().partition(|(_, of)| of.is_empty());
        let ([(less, _)], [(times, of)]) = (constant.as_slice(), products.as_slice()) else { return None };
        let is_one = *less < 0 && *times > 0 && (of.len() > 1 || *times >= -*less);
        let signs = of.iter().all(|name| self.least(name).is_some_and(|least| least >= 0));
        (is_one && signs).then(|| of.iter().map(|name| (*name).clone()).collect())
    }

    /// What is at least something is at most what is no less: what a new bound says about the others of its variable.
    fn learn_between(&mut self, at: usize, side: Sign, than: &Dim, depth: u32) {
        let variable = &self.variables[at];
        let others = if side == Sign::Plus { &variable.upper } else { &variable.lower };
        let plain = others.iter().filter(|bound| bound.times.as_constant() == Some(1));
        let gap = |bound: &Bound| if side == Sign::Plus { &bound.than - than } else { than - &bound.than };
        let gaps: Vec<Dim> = plain.map(gap).collect();
        gaps.iter().for_each(|gap| self.learn_one(gap, depth + 1));
    }

    /// The variable is at most that.
    pub(super) fn bound_above(&mut self, name: &Symbol, bound: Bound) {
        let Some(at) = self.position.get(name) else { return };
        if !self.variables[*at].upper.contains(&bound) {
            self.variables[*at].upper.insert(0, bound);
        }
    }

    /// A variable is at least one.
    fn learn_least(&mut self, name: &Symbol, depth: u32) {
        self.bound(name, Sign::Plus, Bound::new(n(1)), depth);
    }

    /// A bound of a variable, below it (plus) or above it, and what follows for what the variable is made of.
    fn bound(&mut self, name: &Symbol, side: Sign, bound: Bound, depth: u32) {
        let Some(at) = self.position.get(name).copied() else { return };
        let one = bound.times.as_constant() == Some(1);
        let least = self.least_of(&bound);
        let variable = &mut self.variables[at];
        let nature = variable.nature.clone();
        match side {
            Sign::Plus => {
                variable.least = variable.least.max(least);
                variable.lower.insert(0, bound.clone());
            }
            Sign::Minus => variable.upper.insert(0, bound.clone()),
        }
        let Bound { times, than } = bound;
        if one {
            self.learn_between(at, side, &than, depth);
        }
        match (side, nature) {
            (Sign::Plus, Nature::Least(of)) => {
                of.iter().for_each(|d| self.learn_one(&(&(&times * d) - &than), depth + 1))
            }
            (Sign::Minus, Nature::Greatest(of)) => {
                of.iter().for_each(|d| self.learn_one(&(&than - &(&times * d)), depth + 1));
            }
            // `p // q` is at least a number if `p` is at least so many times `q`, and at most one if `p` is below one time more.
            (Sign::Plus, Nature::Quotient(p, q)) if one => self.learn_one(&(&p - &(&q * &than)), depth + 1),
            (Sign::Minus, Nature::Quotient(p, q)) if one => {
                self.learn_one(&(&(&(&q * &than) + &(&q - &n(1))) - &p), depth + 1);
            }
            (Sign::Plus | Sign::Minus, _) => {}
        }
    }
}
