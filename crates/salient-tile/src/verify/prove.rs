//! Proofs that polynomials of integers are at least zero, from what is known of the integers.
//!
//! Variables stand in an order, and what bounds one is made of those before it. A proof takes the last variable of the
//! polynomial, finds the sign of what it is multiplied by, puts a bound in its place, and goes on with what is left: each
//! step gives something that is at most the polynomial. In the end no coefficient may be negative. Quotients are
//! variables: `f = p // q` lies between `(p - q + 1) / q` and `p / q`.

use crate::dims::n;
use crate::program::kernel::LANES;
use salient_ir::{Dim, Name};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The variable that is a lane of a vector.
pub(super) const LANE: &str = "%lane";

/// Steps after which a proof is given up.
const STEPS: u32 = 2000;

/// Ways of choosing numbers for all variables. Of a polynomial that is negative for numbers that fit all that is known there
/// is no proof, and none is looked for.
const SAMPLES: [Choice; 8] = [
    Choice { lanes: 1, ends_vector: false, sizes: [1, 1, 1, 1, 1], part: (0, 1) },
    Choice { lanes: 8, ends_vector: false, sizes: [12, 24, 36, 48, 60], part: (1, 1) },
    Choice { lanes: 16, ends_vector: true, sizes: [2, 4, 8, 16, 32], part: (1, 1) },
    Choice { lanes: 4, ends_vector: false, sizes: [768, 192, 64, 48, 6], part: (1, 1) },
    Choice { lanes: 8, ends_vector: true, sizes: [131, 131, 131, 131, 131], part: (1, 1) },
    Choice { lanes: 4, ends_vector: true, sizes: [5, 15, 45, 135, 405], part: (0, 1) },
    Choice { lanes: 16, ends_vector: false, sizes: [64, 64, 64, 64, 64], part: (1, 1) },
    Choice { lanes: 2, ends_vector: false, sizes: [17, 17, 17, 17, 17], part: (2, 3) },
];

/// How numbers are chosen: for dimensions one after the other, and for others a part of the way from the least to the greatest.
struct Choice {
    /// The lanes of a vector.
    lanes: i128,
    /// Whether the last of them is looked at, and not the first.
    ends_vector: bool,
    /// Of dimensions, in turn.
    sizes: [i128; 5],
    /// How far other variables are from their least to their greatest number.
    part: (i128, i128),
}

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
    fn put(&self, of: &Dim, rest: &Dim) -> Dim {
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
    pub(super) name: Name,
    pub(super) lower: Vec<Bound>,
    pub(super) upper: Vec<Bound>,
    pub(super) nature: Nature,
    /// A number that it is never below.
    least: Option<i64>,
}

impl Variable {
    /// A variable between its bounds.
    pub(super) fn between(name: Name, lower: Vec<Bound>, upper: Vec<Bound>) -> Variable {
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
    /// In order: bounds of each are made of those before it.
    variables: Vec<Variable>,
    place: HashMap<Name, usize>,
    /// Whether what is known contradicts itself: the place is never reached.
    is_never: bool,
    /// For each choice the numbers of the variables, if there are such that fit all that is known.
    samples: Vec<Option<Vec<i128>>>,
}

/// The way of a proof so far.
#[derive(Default)]
struct Search {
    steps: u32,
    known: HashMap<Dim, bool>,
}

/// The sign of what is not negative, or not positive.
#[derive(Clone, Copy, PartialEq)]
enum Sign {
    Plus,
    Minus,
}

fn negative(p: &Dim) -> Dim {
    p * &n(-1)
}

impl Facts {
    /// Adds a variable after all others.
    pub(super) fn add(&mut self, mut variable: Variable) {
        let lower = |nature: &Nature| match nature {
            // The least of some is at least what they all are.
            Nature::Least(of) => of.iter().map(|d| self.number_below(d)).min().flatten(),
            Nature::Any | Nature::Data | Nature::Index | Nature::Greatest(_) | Nature::Quotient(..) => None,
        };
        let bounds = variable.lower.iter().filter_map(|bound| {
            let least = self.number_below(&bound.than)?;
            // What is at least a number, times something positive, is at least the sign of it.
            Some(if bound.times.as_constant() == Some(1) { least } else { least.min(1) })
        });
        variable.least = bounds.max().max(lower(&variable.nature));
        self.samples.resize_with(SAMPLES.len(), || Some(Vec::new()));
        for (at, choice) in SAMPLES.iter().enumerate() {
            let fits = |number: &i128| {
                let sample = self.samples[at].as_ref();
                sample.is_some_and(|sample| self.is_between(&variable, *number, sample))
            };
            let number = self.samples[at].as_ref().and_then(|sample| self.chosen(&variable, choice, sample));
            let number = number.filter(fits);
            match (&mut self.samples[at], number) {
                (Some(sample), Some(number)) => sample.push(number),
                (sample, _) => *sample = None,
            }
        }
        self.place.insert(variable.name.clone(), self.variables.len());
        self.variables.push(variable);
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
        if *variable.name == *LANE {
            return if choice.ends_vector { greatest } else { least };
        }
        match (least, greatest) {
            (Some(least), Some(greatest)) if least <= greatest => {
                Some(least + (greatest - least) * choice.part.0 / choice.part.1)
            }
            (Some(_), Some(_)) => None,
            (None, None) => Some(choice.sizes[0]),
            (Some(_), None) if *variable.name == *LANES => Some(choice.lanes),
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
    fn at(&self, p: &Dim, sample: &[i128]) -> Option<i128> {
        let mut sum = 0i128;
        for (c, of) in p.monomials()? {
            let mut product = i128::from(c);
            for name in of {
                product = product.checked_mul(*sample.get(*self.place.get(name)?)?)?;
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

    pub(super) fn get(&self, name: &Name) -> Option<&Variable> {
        self.place.get(name).map(|at| &self.variables[*at])
    }

    /// Whether the place is never reached.
    pub(super) fn is_never(&self) -> bool {
        self.is_never
    }

    /// Numbers of all variables at which the polynomial is negative, if none of it depends on data.
    pub(super) fn witness(&self, p: &Dim) -> Option<Vec<(Name, i128)>> {
        if self.depends_on_data(p) {
            return None;
        }
        let negative = |sample: &&Vec<i128>| self.at(p, sample).is_some_and(|value| value < 0);
        let sample = self.samples.iter().flatten().find(negative)?;
        Some(self.variables.iter().map(|v| v.name.clone()).zip(sample.iter().copied()).collect())
    }

    /// Whether the variables of a polynomial, or what bounds them, are from memory or not understood.
    fn depends_on_data(&self, p: &Dim) -> bool {
        let mut left: Vec<Name> = p.symbols().into_iter().collect();
        let mut seen: BTreeSet<Name> = BTreeSet::new();
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

    /// Puts something else in the place of a variable: new ones where it stood, and a polynomial of them.
    pub(super) fn split(&mut self, name: &Name, into: Vec<Variable>, value: &Dim) {
        let Some(at) = self.place.get(name).copied() else { return };
        let with = BTreeMap::from([(name.clone(), value.clone())]);
        let after = self.variables.split_off(at);
        self.place.retain(|_, place| *place < at);
        let before = std::mem::take(&mut self.samples);
        self.samples = before.iter().map(|sample| sample.as_ref().map(|s| s[..at].to_vec())).collect();
        into.into_iter().for_each(|variable| self.add(variable));
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

    /// Drops the samples that do not fit the bounds of all variables.
    fn resample(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        let fits = |sample: &Vec<i128>| {
            let numbers = self.variables.iter().zip(sample);
            numbers.into_iter().all(|(variable, number)| self.is_between(variable, *number, sample))
        };
        self.samples = samples.into_iter().map(|sample| sample.filter(fits)).collect();
    }

    /// The variables of a polynomial, the last first.
    pub(super) fn last_first(&self, p: &Dim) -> Vec<Name> {
        let mut all: Vec<Name> = p.symbols().into_iter().collect();
        all.sort_by_key(|name| std::cmp::Reverse(self.place.get(name)));
        all
    }

    fn least(&self, name: &str) -> Option<i64> {
        self.place.get(name).and_then(|at| self.variables[*at].least)
    }

    /// A number that the polynomial is seen to be never below: one, zero, or itself.
    fn number_below(&self, p: &Dim) -> Option<i64> {
        if p.as_constant().is_some() {
            return p.as_constant();
        }
        [1, 0].into_iter().find(|least| self.is_plain(&(p - &n(*least))))
    }

    /// Whether the polynomial is seen to be at least zero: no coefficient is negative once every variable is counted from the
    /// least number that it can be.
    fn is_plain(&self, p: &Dim) -> bool {
        let has_sign = |p: &Dim| {
            let terms = p.monomials();
            terms.is_some_and(|terms| {
                terms.iter().all(|(c, of)| {
                    *c >= 0 && of.iter().all(|name| self.least(name).is_some_and(|least| least >= 0))
                })
            })
        };
        if p.limit().is_some() {
            return false;
        }
        if has_sign(p) {
            return true;
        }
        let Some(terms) = p.monomials() else { return false };
        let mut more: BTreeMap<Name, Dim> = BTreeMap::new();
        for name in terms.iter().flat_map(|(_, of)| of) {
            match self.least(name) {
                Some(0) => {}
                Some(least) if least > 0 => {
                    more.insert((*name).clone(), &Dim::symbol(name) + &n(least));
                }
                Some(_) | None => return false,
            }
        }
        // Counted from its least number, a variable is at least zero.
        !more.is_empty() && {
            let moved = p.substitute(&more);
            moved.monomials().is_some_and(|terms| terms.iter().all(|(c, _)| *c >= 0))
        }
    }

    /// Whether it is proved that the polynomial is at least zero.
    pub(super) fn prove(&self, p: &Dim) -> bool {
        self.is_never || self.search(p, &mut Search::default())
    }

    /// Whether it is proved that the one is at most the other.
    pub(super) fn at_most(&self, p: &Dim, q: &Dim) -> bool {
        self.prove(&(q - p))
    }

    /// Whether it is proved that the polynomial is at least one.
    pub(super) fn is_positive(&self, p: &Dim) -> bool {
        self.prove(&(p - &n(1)))
    }

    fn search(&self, p: &Dim, search: &mut Search) -> bool {
        if let Some(value) = p.as_constant() {
            return value >= 0;
        }
        if let Some(known) = search.known.get(p) {
            return *known;
        }
        if self.is_plain(p) {
            return true;
        }
        search.steps += 1;
        if search.steps > STEPS || p.limit().is_some() || self.fails(p) {
            search.known.insert(p.clone(), false);
            return false;
        }
        // While it is looked for it does not follow from itself.
        search.known.insert(p.clone(), false);
        let found = self.last_first(p).iter().find_map(|name| self.without(name, p, search)) == Some(true);
        search.known.insert(p.clone(), found);
        found
    }

    /// Proves it with bounds in place of a variable; `None` if it is not known on which side they would have to be.
    fn without(&self, name: &Name, p: &Dim, search: &mut Search) -> Option<bool> {
        let (variable, (of, rest)) = (self.get(name)?, p.linear_in(name)?);
        let (bounds, of_all) = match (self.sign(&of, search)?, &variable.nature) {
            (Sign::Plus, Nature::Least(all)) => (&variable.lower, Some(all)),
            (Sign::Plus, _) => (&variable.lower, None),
            (Sign::Minus, Nature::Greatest(all)) => (&variable.upper, Some(all)),
            (Sign::Minus, _) => (&variable.upper, None),
        };
        // Where more cancels, more was meant to.
        let mut left: Vec<Dim> = bounds.iter().map(|bound| bound.put(&of, &rest)).collect();
        left.sort_by_cached_key(|p| p.monomials().map(|terms| terms.len()));
        let by_one = left.iter().any(|p| self.search(p, search));
        Some(
            by_one
                || of_all.is_some_and(|all| all.iter().all(|d| self.search(&(&(&of * d) + &rest), search))),
        )
    }

    fn sign(&self, of: &Dim, search: &mut Search) -> Option<Sign> {
        let minus = negative(of);
        if self.is_plain(of) {
            Some(Sign::Plus)
        } else if self.is_plain(&minus) {
            Some(Sign::Minus)
        } else if of.as_constant().is_some() {
            None
        } else if self.search(of, search) {
            Some(Sign::Plus)
        } else if self.search(&minus, search) {
            Some(Sign::Minus)
        } else {
            None
        }
    }

    /// From here on the polynomial is at least zero.
    pub(super) fn learn(&mut self, p: &Dim) {
        self.learn_one(p);
        self.choose_again();
    }

    /// Looks for other numbers where those of a sample do not fit any more.
    fn choose_again(&mut self) {
        for (at, choice) in SAMPLES.iter().enumerate() {
            if self.samples.get(at).is_some_and(Option::is_none) {
                let mut sample: Vec<i128> = Vec::with_capacity(self.variables.len());
                let all = self.variables.iter().all(|variable| {
                    let number = self.chosen(variable, choice, &sample);
                    let number = number.filter(|number| self.is_between(variable, *number, &sample));
                    sample.extend(number);
                    number.is_some()
                });
                if all {
                    self.samples[at] = Some(sample);
                }
            }
        }
    }

    fn learn_one(&mut self, p: &Dim) {
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
            return factors.iter().for_each(|name| self.learn_least(name));
        }
        for name in self.last_first(p) {
            let Some((of, rest)) = p.linear_in(&name) else { continue };
            if self.is_positive(&of) {
                return self.bound(&name, Sign::Plus, Bound { times: of, than: negative(&rest) });
            }
            if self.is_positive(&negative(&of)) {
                return self.bound(&name, Sign::Minus, Bound { times: negative(&of), than: rest });
            }
        }
    }

    /// The variables of a product that is at least one, none of which is negative.
    fn product_of_positives(&self, p: &Dim) -> Option<Vec<Name>> {
        let terms = p.monomials()?;
        let (constant, products): (Vec<_>, Vec<_>) = terms.into_iter().partition(|(_, of)| of.is_empty());
        let ([(less, _)], [(times, of)]) = (constant.as_slice(), products.as_slice()) else { return None };
        let is_one = *less < 0 && *times > 0 && (of.len() > 1 || *times >= -*less);
        let signs = of.iter().all(|name| self.least(name).is_some_and(|least| least >= 0));
        (is_one && signs).then(|| of.iter().map(|name| (*name).clone()).collect())
    }

    /// What is at least something is at most what is no less: what a new bound says about the others of its variable.
    fn learn_between(&mut self, at: usize, side: Sign, than: &Dim) {
        let variable = &self.variables[at];
        let others = if side == Sign::Plus { &variable.upper } else { &variable.lower };
        let plain = others.iter().filter(|bound| bound.times.as_constant() == Some(1));
        let gap = |bound: &Bound| if side == Sign::Plus { &bound.than - than } else { than - &bound.than };
        let gaps: Vec<Dim> = plain.map(gap).collect();
        gaps.iter().for_each(|gap| self.learn_one(gap));
    }

    /// The variable is at most that.
    pub(super) fn bound_above(&mut self, name: &Name, bound: Bound) {
        let Some(at) = self.place.get(name) else { return };
        if !self.variables[*at].upper.contains(&bound) {
            self.variables[*at].upper.insert(0, bound);
        }
    }

    /// A variable is at least one.
    fn learn_least(&mut self, name: &Name) {
        self.bound(name, Sign::Plus, Bound::new(n(1)));
    }

    /// A bound of a variable, below it (plus) or above it, and what follows for what the variable is made of.
    fn bound(&mut self, name: &Name, side: Sign, bound: Bound) {
        let Some(at) = self.place.get(name).copied() else { return };
        let one = bound.times.as_constant() == Some(1);
        let least = self.number_below(&bound.than);
        let variable = &mut self.variables[at];
        let nature = variable.nature.clone();
        match side {
            Sign::Plus => {
                if one {
                    variable.least = variable.least.max(least);
                } else if least.is_some_and(|least| least >= 0) {
                    variable.least = variable.least.max(least.map(|l| l.min(1)));
                }
                variable.lower.insert(0, bound.clone());
            }
            Sign::Minus => variable.upper.insert(0, bound.clone()),
        }
        let Bound { times, than } = bound;
        if one {
            self.learn_between(at, side, &than);
        }
        match (side, nature) {
            (Sign::Plus, Nature::Least(of)) => {
                of.iter().for_each(|d| self.learn_one(&(&(&times * d) - &than)))
            }
            (Sign::Minus, Nature::Greatest(of)) => {
                of.iter().for_each(|d| self.learn_one(&(&than - &(&times * d))));
            }
            // `p // q` is at least a number if `p` is at least so many times `q`.
            (Sign::Plus, Nature::Quotient(p, q)) if one => self.learn_one(&(&p - &(&q * &than))),
            (Sign::Plus | Sign::Minus, _) => {}
        }
    }
}
