//! Operators on choices between literals: what is made of a mask as a number is a choice, or a truth value, again.

use super::Normaliser;
use crate::facts::literal;
use crate::lang::Tag;
use crate::options::Fp;
use egg::Id;
use salient_ir::op::MOST_ARGUMENTS;
use salient_ir::{Const, DType, MapOp, Typing};

impl Normaliser<'_> {
    /// An operator on literals and on choices between literals by one condition: the choice that it amounts to. A truth value
    /// is a choice between true and false by itself.
    pub(super) fn folded(&mut self, op: MapOp, args: &[Id]) -> Option<Id> {
        let (condition, [yes, no]) = self.chosen(op, args)?;
        if yes == no {
            // What may refuse a call is no literal.
            return self.classes[condition].data.is_total().then(|| self.literal(yes));
        }
        match (yes, no) {
            (Const::Bool(true), _) => Some(condition),
            (Const::Bool(false), _) => Some(self.not(condition)),
            (Const::F32(_) | Const::I32(_) | Const::I64(_), _) => {
                let (yes, no) = (self.literal(yes), self.literal(no));
                Some(self.select(condition, yes, no))
            }
        }
    }

    /// The condition, and the value of the operator where it holds and where it does not.
    fn chosen(&self, op: MapOp, args: &[Id]) -> Option<(Id, [Const; 2])> {
        // These have normal forms of their own.
        if matches!(op, MapOp::Select | MapOp::Not) || !self.folds_as_it_runs(op) {
            return None;
        }
        let mut condition = None;
        let mut values = [[0.0; MOST_ARGUMENTS]; 2];
        for (n, arg) in args.iter().enumerate() {
            let (by, arms) = match self.constant(*arg) {
                Some(c) => (condition, [c, c]),
                None => {
                    let (by, arms) = self.choice(*arg)?;
                    (Some(by), arms)
                }
            };
            if condition.is_some() && by != condition {
                return None;
            }
            condition = by;
            values.iter_mut().zip(arms).for_each(|(values, arm)| values[n] = arm.value());
        }
        let dtype = literal::dtype(op, |n| self.classes[args[n]].data.dtype);
        let value = |values: &[f64; MOST_ARGUMENTS]| {
            let value = literal::value(op, dtype, &values[..args.len()])?;
            match value {
                // Adding zero makes -0 into 0: the arms of a mask are compared with literals.
                Const::F32(_) if self.fp == Fp::Default => Some(Const::f32(value.value() as f32 + 0.0)),
                Const::F32(_) | Const::I32(_) | Const::I64(_) | Const::Bool(_) => Some(value),
            }
        };
        Some((condition?, [value(&values[0])?, value(&values[1])?]))
    }

    /// Whether an operator on literals gives what compiled code gives, to the bit where that is asked for.
    fn folds_as_it_runs(&self, op: MapOp) -> bool {
        let basic = matches!(op, MapOp::Add | MapOp::Sub | MapOp::Mul) || op.info().exact;
        match op.info().typing {
            // A truth value as an integer stays one: see `choice`.
            Typing::Draw | Typing::Cast(DType::I32 | DType::I64) => false,
            Typing::Compare | Typing::Logic => true,
            Typing::Float | Typing::Arithmetic | Typing::Integer | Typing::Cast(_) | Typing::Select => {
                basic || self.fp == Fp::Default
            }
        }
    }

    /// The condition of a choice between two literals, and the literals.
    fn choice(&self, id: Id) -> Option<(Id, [Const; 2])> {
        if self.is_truth(id) {
            return Some((id, [true, false].map(Const::Bool)));
        }
        let term = self.written(id);
        let arm = |n: usize| self.constant(*term.children.get(n)?);
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is a choice")]
        match term.tag {
            Tag::Map(MapOp::Select) => Some((term.children[0], [arm(1)?, arm(2)?])),
            Tag::Map(MapOp::ToI32) if self.is_truth(term.children[0]) => {
                Some((term.children[0], [1, 0].map(Const::I32)))
            }
            Tag::Map(MapOp::ToI64) if self.is_truth(term.children[0]) => {
                Some((term.children[0], [1, 0].map(Const::I64)))
            }
            _ => None,
        }
    }

    fn is_truth(&self, id: Id) -> bool {
        self.classes[id].data.dtype == DType::Bool
    }
}
