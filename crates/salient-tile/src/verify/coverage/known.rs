//! What is known of sizes and of the variables of what is written, for proofs.

use super::writes::Set;
use crate::dims::n;
use crate::verify::facts::{Bound, Nature};
use crate::verify::scope::Scope;
use salient_ir::{Dim, Symbol};

/// What is known of the sizes of a model. Nothing else is taken for granted: a loop may run never.
#[derive(Clone)]
pub(super) struct Known {
    scope: Scope,
}

impl Known {
    /// What is known where so much is.
    pub(super) fn of(scope: Scope) -> Known {
        Known { scope }
    }

    /// The same where something of sizes is at least zero; `None` if that is never so.
    pub(super) fn where_holds(&self, conditions: &[Dim]) -> Option<Known> {
        let mut scope = self.scope.clone();
        for condition in conditions {
            let value = scope.value(condition);
            scope.learn(&value);
        }
        (!scope.facts.is_never).then_some(Known { scope })
    }

    /// Whether it is proved that an integer is at least zero wherever its variables have numbers.
    pub(super) fn prove(&self, set: &Set, goal: &Dim) -> bool {
        // No size is negative.
        let is_plain =
            |(times, of): &(i64, Vec<&Symbol>)| *times >= 0 && !of.iter().any(|name| set.is_bound(name));
        if goal.monomials().is_some_and(|terms| terms.iter().all(is_plain)) {
            return true;
        }
        let mut around = Around { scope: self.scope.clone(), set };
        for condition in set.when.iter().filter(|condition| !set.varies(condition)) {
            let value = around.value(condition);
            around.scope.learn(&value);
        }
        let goal = around.value(goal);
        around.scope.facts.prove(&goal)
    }

    /// Whether it is proved that two integers are the same.
    pub(super) fn same(&self, set: &Set, a: &Dim, b: &Dim) -> bool {
        let difference = a - b;
        difference.as_constant() == Some(0)
            || difference.as_constant().is_none() && self.prove(set, &difference) && self.prove(set, &(b - a))
    }
}

/// The variables that a proof needs, each bound when it is first met.
struct Around<'w> {
    scope: Scope,
    set: &'w Set,
}

impl Around<'_> {
    fn value(&mut self, d: &Dim) -> Dim {
        d.symbols().iter().for_each(|name| self.bind(name));
        self.scope.value(d)
    }

    fn bind(&mut self, name: &Symbol) {
        if self.scope.values.contains_key(name) {
            return;
        }
        let set = self.set;
        if let Some(of) = set.least.get(name) {
            of.iter().for_each(|d| {
                self.value(d);
            });
            let of = self.scope.all(&of.iter().collect::<Vec<_>>());
            let value = self.scope.least(of);
            self.scope.bind(name, value);
        } else if let Some(variable) = set.variables.iter().find(|variable| variable.name == *name) {
            let [_, _] = [&variable.from, &variable.to].map(|d| self.value(d));
            let [from, to] = self.scope.values([&variable.from, &variable.to]);
            let (lower, upper) = (Bound::new(from), Bound::new(&to - &n(1)));
            let value = self.scope.variable(vec![lower], vec![upper], Nature::Any);
            self.scope.bind(name, value);
        }
    }
}
