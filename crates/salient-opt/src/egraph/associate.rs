//! Associativity without rules: products of the same factors are one class, and so are conjunctions of the same parts.
//!
//! As rules, the laws of associativity and commutativity make an e-graph grow without end; as a comparison of bags they
//! make it smaller. Only classes that are there are joined, nothing is added.

use crate::facts::Classes;
use crate::lang::Tag;
use crate::options::Fp;
use egg::Id;
use salient_ir::{Const, DType, MapOp};
use std::collections::HashMap;

/// Longest product that is compared: the work is quadratic in it, and the source seldom writes longer ones.
const LONGEST: usize = 12;

/// Joins what is equal by associativity and commutativity. The e-graph is clean before and after.
pub(crate) fn join(classes: &mut Classes, fp: Fp) {
    loop {
        let before = classes.number_of_classes();
        join_chains(classes, MapOp::And);
        // Products round: bit for bit they are not associative.
        if fp == Fp::Default {
            join_chains(classes, MapOp::Mul);
        }
        if classes.number_of_classes() == before {
            return;
        }
    }
}

fn join_chains(classes: &mut Classes, op: MapOp) {
    let tag = Tag::Map(op);
    let mut all: Vec<Id> = classes.classes_for_op(&tag).into_iter().flatten().collect();
    all.sort_unstable();
    let mut chains = Chains { classes, op, bags: HashMap::new() };
    let mut known: HashMap<Vec<Id>, Id> = HashMap::new();
    let mut equal = Vec::new();
    for class in all {
        if !chains.is_chain(class) {
            continue;
        }
        match chains.bag(class) {
            Some(bag) if bag.len() == 1 => equal.push((class, bag[0])),
            Some(bag) if bag.is_empty() => {}
            Some(bag) => equal.extend(known.insert(bag, class).map(|other| (class, other))),
            None => {}
        }
    }
    for (a, b) in equal {
        classes.union(a, b);
    }
    classes.rebuild();
}

struct Chains<'a> {
    classes: &'a Classes,
    op: MapOp,
    /// The bag of each class; `None` while it is being made, and where it is too long or circular.
    bags: HashMap<Id, Option<Vec<Id>>>,
}

impl Chains<'_> {
    /// Whether a class is known as a chain alone. One that is something else too stands for itself: it may be a part of
    /// its own, as `a` is of `a and b` where `a` implies `b`.
    fn is_chain(&self, class: Id) -> bool {
        let class = &self.classes[class];
        (self.op == MapOp::And || class.data.dtype == DType::F32)
            && class.data.constant.is_none()
            && class.iter().all(|t| t.tag == Tag::Map(self.op))
    }

    /// What a class joins, sorted: for a conjunction each part once and `true` left out.
    fn bag(&mut self, class: Id) -> Option<Vec<Id>> {
        let class = self.classes.find(class);
        if !self.is_chain(class) {
            let idle = self.classes[class].data.constant == Some(Const::Bool(true));
            return Some(if idle { vec![] } else { vec![class] });
        }
        if let Some(known) = self.bags.get(&class) {
            return known.clone();
        }
        self.bags.insert(class, None);
        let terms: Vec<(Id, Id)> =
            self.classes[class].iter().map(|t| (t.children[0], t.children[1])).collect();
        for (a, b) in terms {
            let (Some(mut bag), Some(more)) = (self.bag(a), self.bag(b)) else { continue };
            bag.extend(more);
            bag.sort_unstable();
            if self.op == MapOp::And {
                bag.dedup();
            }
            if bag.len() <= LONGEST {
                self.bags.insert(class, Some(bag.clone()));
                return Some(bag);
            }
        }
        None
    }
}
