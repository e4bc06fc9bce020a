//! Numbers that fit all that is known: of what is negative for them there is no proof, and where an address is outside, they
//! are sizes at which it is.

use super::choice::{Choice, SAMPLES};
use super::facts::{Bound, Facts, Nature, Variable};
use crate::dims::{BODY_LANE, LANES};
use salient_ir::{Dim, Symbol};
use std::collections::BTreeSet;

impl Facts {
    /// A number for a variable that fits its bounds, beside those of a sample.
    pub(super) fn fitting(&self, variable: &Variable, choice: &Choice, sample: &[i128]) -> Option<i128> {
        self.chosen(variable, choice, sample).filter(|number| self.is_between(variable, *number, sample))
    }

    /// A number for a variable, among those that the numbers of the variables before it leave.
    fn chosen(&self, variable: &Variable, choice: &Choice, sample: &[i128]) -> Option<i128> {
        let values = |of: &[Dim]| of.iter().map(|d| self.at(d, sample)).collect::<Option<Vec<i128>>>();
        match &variable.nature {
            Nature::Least(of) => return values(of)?.into_iter().min(),
            Nature::Greatest(of) => return values(of)?.into_iter().max(),
            Nature::Quotient(p, q) => {
                let (p, q) = (self.at(p, sample)?, self.at(q, sample)?);
                return (q > 0).then(|| p.div_euclid(q));
            }
            Nature::Any | Nature::Data | Nature::Index => {}
        }
        let ends = |bounds: &[Bound], up: i128| -> Option<Vec<i128>> {
            let end = |bound: &Bound| {
                let (times, than) = (self.at(&bound.times, sample)?, self.at(&bound.than, sample)?);
                (times > 0).then(|| (than + up * (times - 1)).div_euclid(times))
            };
            bounds.iter().map(end).collect()
        };
        let least = ends(&variable.lower, 1)?.into_iter().max();
        let greatest = ends(&variable.upper, 0)?.into_iter().min();
        if variable.name == BODY_LANE {
            return if choice.ends_vector { greatest } else { least };
        }
        match (least, greatest) {
            (Some(least), Some(greatest)) if least <= greatest => {
                Some(least + (greatest - least) * choice.part.0 / choice.part.1)
            }
            (Some(_), Some(_)) => None,
            (None, None) => Some(choice.sizes[0]),
            (Some(_), None) if variable.name == LANES => Some(choice.lanes),
            (Some(least), None) => Some(least.max(choice.sizes[sample.len() % choice.sizes.len()])),
            (None, Some(greatest)) => Some(greatest.min(choice.sizes[0])),
        }
    }

    /// Whether a number is one that a variable may have beside those of a sample.
    fn is_between(&self, variable: &Variable, number: i128, sample: &[i128]) -> bool {
        let holds = |bound: &Bound, sign: i128| {
            let both = self.at(&bound.times, sample).zip(self.at(&bound.than, sample));
            both.is_some_and(|(times, than)| sign * (times * number - than) >= 0)
        };
        variable.lower.iter().all(|b| holds(b, 1)) && variable.upper.iter().all(|b| holds(b, -1))
    }

    /// The value of a polynomial for the numbers of a sample.
    pub(super) fn at(&self, p: &Dim, sample: &[i128]) -> Option<i128> {
        let mut sum = 0i128;
        for (c, of) in p.monomials()? {
            let mut product = i128::from(c);
            for name in of {
                product = product.checked_mul(*sample.get(*self.position.get(name)?)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// The quotient of two polynomials for some numbers that fit all that is known.
    pub(super) fn quotient_somewhere(&self, p: &Dim, q: &Dim) -> Option<i64> {
        let of = |sample: &Vec<i128>| self.at(p, sample).zip(self.at(q, sample));
        let (p, q) = self.samples.iter().flatten().find_map(of)?;
        i64::try_from(p.checked_div_euclid(q)?).ok()
    }

    /// Whether the polynomial is negative for some numbers that fit all that is known.
    pub(super) fn fails(&self, p: &Dim) -> bool {
        let negative = |sample: &Vec<i128>| self.at(p, sample).is_some_and(|value| value < 0);
        self.samples.iter().flatten().any(negative)
    }

    /// Numbers of all variables at which the polynomial is negative, if none of it depends on data.
    pub(super) fn witness(&self, p: &Dim) -> Option<Vec<(Symbol, i128)>> {
        if self.depends_on_data(p) {
            return None;
        }
        let negative = |sample: &&Vec<i128>| self.at(p, sample).is_some_and(|value| value < 0);
        let sample = self.samples.iter().flatten().find(negative)?;
        Some(self.variables.iter().map(|v| v.name.clone()).zip(sample.iter().copied()).collect())
    }

    /// Whether the variables of a polynomial, or what bounds them, are from memory or not understood.
    fn depends_on_data(&self, p: &Dim) -> bool {
        let mut left: Vec<Symbol> = p.symbols().into_iter().collect();
        let mut seen: BTreeSet<Symbol> = BTreeSet::new();
        while let Some(name) = left.pop() {
            let Some(variable) = self.get(&name) else { return true };
            if variable.nature == Nature::Data {
                return true;
            }
            if seen.insert(name) {
                let bounds = variable.lower.iter().chain(&variable.upper);
                left.extend(bounds.flat_map(|b| [&b.times, &b.than]).flat_map(Dim::symbols));
            }
        }
        false
    }

    /// Drops the samples that do not fit the bounds of all variables.
    pub(super) fn resample(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        let fits = |sample: &Vec<i128>| {
            let numbers = self.variables.iter().zip(sample);
            numbers.into_iter().all(|(variable, number)| self.is_between(variable, *number, sample))
        };
        self.samples = samples.into_iter().map(|sample| sample.filter(fits)).collect();
    }

    /// Looks for other numbers where those of a sample do not fit any more.
    pub(super) fn choose_again(&mut self) {
        for (at, choice) in SAMPLES.iter().enumerate() {
            if self.samples.get(at).is_some_and(Option::is_none) {
                let mut sample: Vec<i128> = Vec::with_capacity(self.variables.len());
                let all = self.variables.iter().all(|variable| {
                    let number = self.fitting(variable, choice, &sample);
                    sample.extend(number);
                    number.is_some()
                });
                let holds = |p: &Dim| self.at(p, &sample).is_some_and(|value| value >= 0);
                if all && self.learned.iter().all(holds) {
                    self.samples[at] = Some(sample);
                }
            }
        }
    }
}
