//! Quotients of polynomials: read off where they come out even, and variables between bounds where they do not.

use super::facts::{Bound, Nature, Variable};
use super::scope::Scope;
use crate::dims::{n, var};
use salient_ir::{Dim, Symbol};
use std::collections::BTreeMap;

/// On which side of a polynomial others are.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Below,
    Above,
}

impl Scope {
    /// Upper bounds of `f` where `f * q < p`: of everything that `p` is at most, what comes out even.
    pub(super) fn quotients_below(&self, p: &Dim, q: &Dim) -> Vec<Bound> {
        let mut out = Vec::new();
        for most in self.beyond(p, Side::Above, 3) {
            let (multiple, rest) = divide(&most, q);
            let bound = if self.facts.prove(&-&rest) {
                &multiple - &n(1)
            } else if self.facts.at_most(&rest, q) {
                multiple
            } else if let Some(rounded_up) = self.known(&(&(&rest + q) - &n(1)), q) {
                &(&multiple + &rounded_up) - &n(1)
            } else {
                continue;
            };
            let bound = Bound::new(bound);
            if !out.contains(&bound) {
                out.push(bound);
            }
        }
        out
    }

    /// Lower bounds of `p // q`: of everything that `p` is at least, what comes out even.
    fn quotients_above(&self, p: &Dim, q: &Dim) -> Vec<Bound> {
        let mut out = Vec::new();
        for least in self.beyond(p, Side::Below, 3) {
            let (multiple, rest) = divide(&least, q);
            let bound = Bound::new(multiple);
            if !out.contains(&bound) && self.facts.prove(&rest) {
                out.push(bound);
            }
        }
        out
    }

    /// Polynomials that this one is at most, or at least: itself, and what bounds in the place of its last variables give.
    fn beyond(&self, p: &Dim, side: Side, depth: usize) -> Vec<Dim> {
        let mut out = vec![p.clone()];
        if depth == 0 {
            return out;
        }
        let alone = |name: Symbol| {
            let (of, rest) = p.linear_in(&name)?;
            Some((self.facts.get(&name)?, of.as_constant()?, rest))
        };
        for (variable, of, rest) in self.facts.last_first(p).into_iter().filter_map(alone).take(2) {
            let bounds = if (of > 0) == (side == Side::Above) { &variable.upper } else { &variable.lower };
            for bound in bounds.iter().filter(|bound| bound.times.as_constant() == Some(1)) {
                let next = &(&bound.than * &n(of)) + &rest;
                out.extend(self.beyond(&next, side, depth - 1));
            }
        }
        out
    }

    /// `p / q`, which comes out even.
    pub(super) fn exact(&mut self, p: &Dim, q: &Dim) -> Dim {
        let (multiple, rest) = divide(p, q);
        if rest.as_constant() == Some(0) {
            return multiple;
        }
        if let Some(known) = self.known(p, q) {
            return known;
        }
        if !self.facts.is_positive(q) {
            return self.variable(Vec::new(), Vec::new(), Nature::Data);
        }
        let is_nonnegative = self.facts.prove(p);
        // What is a multiple of something is so many times it, wherever it stands.
        if let Some(name) = p.as_symbol().filter(|name| is_nonnegative && !q.mentions(name)).cloned() {
            let part = self.name();
            let least = i64::from(self.facts.is_positive(p));
            let variable = Variable::between(part.clone(), vec![Bound::new(n(least))], Vec::new());
            self.replace(&name, vec![variable], &(&var(&part) * q));
            return var(&part);
        }
        let bound = Bound { times: q.clone(), than: p.clone() };
        let (mut lower, upper) = (vec![bound.clone()], vec![bound]);
        if is_nonnegative {
            lower.push(Bound::new(n(0)));
        }
        let value = self.variable(lower, upper, Nature::Quotient(p.clone(), q.clone()));
        self.quotients.push((p.clone(), q.clone(), value.clone()));
        value
    }

    fn known(&self, p: &Dim, q: &Dim) -> Option<Dim> {
        self.quotients.iter().find(|(a, b, _)| a == p && b == q).map(|(.., value)| value.clone())
    }

    /// `p / q`, rounded down.
    pub(super) fn floor(&mut self, p: &Dim, q: &Dim) -> Dim {
        self.learn_divisor(p, q);
        if !self.facts.is_positive(q) {
            return self.variable(Vec::new(), Vec::new(), Nature::Data);
        }
        let (multiple, rest) = divide(p, q);
        // What it is for some numbers it may be for all.
        let guess = n(self.facts.quotient_somewhere(&rest, q).unwrap_or(0));
        let left = &rest - &(q * &guess);
        if self.facts.prove(&left) && self.facts.at_most(&left, &(q - &n(1))) {
            return &multiple + &guess;
        }
        let constant = n(multiple.constant_term());
        let (multiple, rest) = (&multiple - &constant, &rest + &(&constant * q));
        &multiple + &self.quotient(&rest, q)
    }

    /// An index below a multiple of something has no values unless that is positive.
    fn learn_divisor(&mut self, p: &Dim, q: &Dim) {
        let Some(index) = p.as_symbol().and_then(|name| self.facts.get(name)) else { return };
        let is_multiple = |bound: &Bound| {
            let (multiple, rest) = divide(&(&bound.than + &n(1)), q);
            bound.times.as_constant() == Some(1)
                && rest.as_constant() == Some(0)
                && self.facts.prove(&multiple)
                && self.facts.prove(q)
        };
        if index.upper.iter().any(is_multiple) && self.facts.prove(p) {
            self.facts.learn(&(q - &n(1)));
        }
    }

    /// `p / q`, rounded down, with `q` positive and nothing to be taken out.
    fn quotient(&mut self, p: &Dim, q: &Dim) -> Dim {
        if let Some(known) = self.known(p, q) {
            return known;
        }
        if let Some(quotient) = self.divided(p, q) {
            return quotient;
        }
        let mut lower = self.quotients_above(p, q);
        lower.push(Bound { times: q.clone(), than: &(p - q) + &n(1) });
        if self.facts.prove(p) {
            lower.push(Bound::new(n(0)));
        }
        let mut upper = self.quotients_below(&(p + &n(1)), q);
        upper.push(Bound { times: q.clone(), than: p.clone() });
        self.beside(p, q, &mut lower, &mut upper);
        let value = self.variable(lower, upper, Nature::Quotient(p.clone(), q.clone()));
        self.quotients.push((p.clone(), q.clone(), value.clone()));
        value
    }

    /// What other quotients by the same number say: `p // q` is at least `m + r // q` if `p` is at least `m * q + r`.
    fn beside(&self, p: &Dim, q: &Dim, lower: &mut Vec<Bound>, upper: &mut Vec<Bound>) {
        for (other, _, value) in self.quotients.iter().filter(|(_, by, _)| by == q) {
            let (multiple, rest) = divide(&(p - other), q);
            if self.facts.prove(&rest) {
                lower.push(Bound::new(value + &multiple));
            }
            if self.facts.at_most(&rest, q) {
                upper.push(Bound::new(&(value + &multiple) + &n(1)));
            }
        }
    }

    /// The quotient of a variable of a loop: from here on the variable is the divisor times that, and a remainder.
    fn divided(&mut self, p: &Dim, q: &Dim) -> Option<Dim> {
        let name = p.as_symbol()?.clone();
        let variable = self.facts.get(&name)?.clone();
        let is_before = self.facts.last_first(&(p + q)).first() == Some(&name);
        if variable.nature != Nature::Index || !is_before || !self.facts.prove(p) {
            return None;
        }
        let (quotient, rest) = (self.name(), self.name());
        let whole = q * &var(&quotient);
        let (mut lower, mut upper) = (vec![Bound::new(n(0))], Vec::new());
        let (mut least, mut most) = (vec![Bound::new(n(0))], vec![Bound::new(q - &n(1))]);
        for Bound { times, than } in variable.lower.iter().filter(|bound| bound.than.as_constant() != Some(0))
        {
            lower.push(Bound { times: times * q, than: than - &(times * &(q - &n(1))) });
            least.push(Bound { times: times.clone(), than: than - &(times * &whole) });
        }
        for Bound { times, than } in &variable.upper {
            if times.as_constant() == Some(1) {
                upper.extend(self.quotients_below(&(than + &n(1)), q));
            }
            upper.push(Bound { times: times * q, than: than.clone() });
            most.push(Bound { times: times.clone(), than: than - &(times * &whole) });
        }
        let into = vec![
            Variable::between(quotient.clone(), lower, upper).of(Nature::Index),
            Variable::between(rest.clone(), least, most).of(Nature::Index),
        ];
        self.replace(&name, into, &(&(q * &var(&quotient)) + &var(&rest)));
        Some(var(&quotient))
    }

    /// From here on the polynomial is at least zero; quotients are bounded again by what that says.
    pub(super) fn learn(&mut self, p: &Dim) {
        self.facts.learn(p);
        for at in 0..self.quotients.len() {
            let (p, q, value) = self.quotients[at].clone();
            let Some(name) = value.as_symbol() else { continue };
            for bound in self.quotients_below(&(&p + &n(1)), &q) {
                self.facts.bound_above(name, bound);
            }
        }
    }

    /// Puts a polynomial of new variables in the place of a variable, everywhere.
    fn replace(&mut self, name: &Symbol, into: Vec<Variable>, value: &Dim) {
        self.facts.replace(name, into, value);
        let with = BTreeMap::from([(name.clone(), value.clone())]);
        self.values.values_mut().for_each(|d| *d = d.substitute(&with));
        for (p, q, quotient) in &mut self.quotients {
            for d in [p, q, quotient] {
                *d = d.substitute(&with);
            }
        }
        self.values.insert(name.clone(), value.clone());
    }
}

/// A multiple of `by` and a rest that make up the polynomial: what is seen to be divided, also by a sum.
pub(super) fn divide(p: &Dim, by: &Dim) -> (Dim, Dim) {
    let (mut multiple, mut rest) = p.split_multiple(by);
    let lead: Vec<Dim> = by.terms().collect();
    while let [lead, _, ..] = lead.as_slice() {
        let shorter = rest.terms().find_map(|term| {
            let (times, left) = term.split_multiple(lead);
            let less = &rest - &(&times * by);
            let divides = left.as_constant() == Some(0) && lead.as_constant().is_none();
            (divides && less.terms().count() < rest.terms().count()).then_some((times, less))
        });
        let Some((times, less)) = shorter else { break };
        (multiple, rest) = (&multiple + &times, less);
    }
    (multiple, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Relation, Requirement};

    /// The dimensions `D`, `H` and `K`, of which nothing is known but that they are no less than zero.
    fn dimensions() -> (Scope, [Dim; 3]) {
        let mut scope = Scope::default();
        let names = ["D", "H", "K"].map(Symbol::from);
        names.iter().for_each(|name| scope.dimension(name, 0));
        (scope, names.map(Dim::symbol))
    }

    #[test]
    fn a_quotient_by_what_may_be_negative_has_any_sign() {
        let (mut scope, [d, h, k]) = dimensions();
        let part = scope.exact(&d, &(&h - &k));
        assert!(!scope.facts.prove(&part));
    }

    #[test]
    fn a_quotient_of_what_may_be_negative_has_any_sign() {
        let (mut scope, [.., h, _]) = dimensions();
        scope.facts.learn(&(&h - &n(1)));
        let any = scope.variable(Vec::new(), Vec::new(), Nature::Data);
        let part = scope.exact(&any, &h);
        assert!(!scope.facts.prove(&part));
    }

    #[test]
    fn a_quotient_by_what_must_divide_is_a_part() {
        let (mut scope, [d, h, k]) = dimensions();
        let relation = Relation::Divides(d.clone(), &h - &k);
        scope.require(&Requirement { relation, message: None, origin: None });
        let part = scope.value(&d.exact_div(&(&h - &k)).expect("a quotient"));
        let whole = scope.value(&d);
        assert!(scope.facts.prove(&part) && scope.facts.at_most(&part, &whole));
    }
}
