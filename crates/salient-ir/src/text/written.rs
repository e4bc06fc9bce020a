//! Values as they are written: a text, and what those that write it into another one have to know of it.

use crate::axis::AxisId;
use crate::op::{Binding, MapOp, Typing};
use std::collections::BTreeMap;

/// A value as it is written.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) text: String,
    /// How tightly its operators bind.
    pub(super) binding: Binding,
    /// Whether it is made of indices, dimensions and integers by arithmetic alone: in the language `/` divides these, rounding
    /// down, and no other integers.
    pub(super) of_indices: bool,
    /// Whether it is the integer zero.
    pub(super) is_zero: bool,
}

impl Written {
    /// What stands by itself.
    pub(super) fn atom(text: String) -> Written {
        Written { text, binding: Binding::Atom, of_indices: false, is_zero: false }
    }

    /// An index, a dimension or an integer, which stands by itself.
    pub(super) fn index(text: String) -> Written {
        Written { of_indices: true, ..Written::atom(text) }
    }

    /// The text, in parentheses unless no operator or a sign alone stands outside of every bracket.
    pub(super) fn as_operand(&self) -> String {
        match self.binding {
            Binding::Sign | Binding::Atom => self.text.clone(),
            Binding::Choice
            | Binding::Or
            | Binding::And
            | Binding::Not
            | Binding::Comparison
            | Binding::Sum
            | Binding::Product
            | Binding::Power => format!("({})", self.text),
        }
    }
}

/// Whether an operator of these arguments is written as its sign: `/` divides indices alone, and the quotient of other integers
/// goes by its name.
pub(super) fn has_sign(op: MapOp, args: &[Written]) -> bool {
    op.info().sign().is_some() && (op != MapOp::IntDiv || args.iter().all(|a| a.of_indices))
}

/// Whether an operator of these arguments is an index to the language.
pub(super) fn is_index(op: MapOp, args: &[Written]) -> bool {
    let keeps = match op.info().typing {
        Typing::Arithmetic | Typing::Integer => true,
        Typing::Cast(to) => to.is_int(),
        Typing::Float | Typing::Compare | Typing::Logic | Typing::Select | Typing::Draw => false,
    };
    keeps && args.iter().all(|a| a.of_indices)
}

/// What stands for an axis where a value is read.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) written: Written,
    /// Whether it is the name of an axis.
    is_axis: bool,
    /// Whether its extent is not that of the axis for which it stands.
    is_value: bool,
}

impl Index {
    /// The name of an axis.
    pub(super) fn axis(name: String) -> Index {
        Index { written: Written::index(name), is_axis: true, is_value: false }
    }

    /// An expression.
    pub(super) fn of(written: Written) -> Index {
        Index { written, is_axis: false, is_value: false }
    }

    /// The same for an axis of another extent.
    pub(super) fn made_a_value(self) -> Index {
        Index { is_value: true, ..self }
    }

    /// As it stands in the brackets behind a name: in parentheses the name of an axis is a value, and says nothing of how long
    /// the axis is for which it stands.
    pub(super) fn in_brackets(&self) -> String {
        let text = &self.written.text;
        if self.is_axis && self.is_value { format!("({text})") } else { text.clone() }
    }
}

/// What stands for each axis in the use being printed; the others go by their names.
pub(super) type Env = BTreeMap<AxisId, Index>;
