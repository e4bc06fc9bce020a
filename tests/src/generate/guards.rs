//! Values that may be used only where something holds, as `x[i - 1]` where `i > 0`.
//!
//! A value stays open while others are made from it, so that reductions, products, sums and attention stand between a view
//! and the choice that excludes what is outside.

use super::{Program, Value};
use salient_ir::{AxisId, Const, MapOp, NodeId};
use smallvec::SmallVec;

/// What must hold, from the outermost to the innermost: each may be looked at only where those before it hold.
#[derive(Clone, Debug, Default)]
pub struct Guards {
    list: SmallVec<[NodeId; 2]>,
    /// Whether one of them may not be looked at where another does not hold.
    dependent: bool,
}

impl Guards {
    /// Nothing must hold.
    pub fn none() -> Guards {
        Guards::default()
    }

    /// One condition.
    pub fn one(guard: NodeId) -> Guards {
        Guards { list: SmallVec::from_slice(&[guard]), dependent: false }
    }

    /// Both, the first looked at before the other.
    #[must_use]
    pub fn and(&self, other: &Guards) -> Guards {
        let mut list = self.list.clone();
        for guard in &other.list {
            if !list.contains(guard) {
                list.push(*guard);
            }
        }
        Guards { list, dependent: self.dependent || other.dependent }
    }
}

impl Program {
    /// The guards of several values.
    pub(super) fn guards(values: &[&Value]) -> Guards {
        values.iter().fold(Guards::none(), |g, v| g.and(&v.guards))
    }

    /// A value as it may be used anywhere: chosen where its guards hold, as one choice or as nested ones. Of several values
    /// that could stand elsewhere, `other` if it is given.
    pub(super) fn close(&mut self, value: &Value, other: Option<NodeId>) -> NodeId {
        let mut list = value.guards.list.clone();
        if list.is_empty() {
            return value.node;
        }
        if self.careless && self.rarely(4) {
            return value.node;
        }
        let other = match other {
            Some(other) => other,
            None => {
                let x = self.one_of(&[0.0, 0.0, 1.0, -0.5]);
                self.float(x)
            }
        };
        match self.rng.u8(0..3) {
            0 => {
                let mask = self.as_mask(&value.guards);
                return self.select(mask, value.node, other);
            }
            1 if !value.guards.dependent => self.rng.shuffle(&mut list),
            _ => {}
        }
        let swapped = self.rarely(4);
        let mut node = value.node;
        for guard in list.into_iter().rev() {
            node = if swapped {
                let not = self.map(MapOp::Not, &[guard]);
                self.select(not, other, node)
            } else {
                self.select(guard, node, other)
            };
        }
        node
    }

    /// The guards as one truth value: `and` where each may be looked at anywhere.
    fn as_mask(&mut self, guards: &Guards) -> NodeId {
        let mut list = guards.list.iter().rev().copied();
        let mut mask = list.next().expect("there is one");
        let never = self.b.constant(Const::Bool(false));
        for guard in list {
            mask = if guards.dependent {
                self.select(guard, mask, never)
            } else {
                self.map(MapOp::And, &[guard, mask])
            };
        }
        mask
    }

    /// A value of which an axis is about to be bound: guards that depend on that axis must be inside.
    pub(super) fn closed_along(&mut self, value: Value, axis: AxisId, other: f32) -> Value {
        let depends = value.guards.list.iter().any(|g| self.b.node(*g).axes.contains(axis));
        if !depends {
            return value;
        }
        let other = self.float(other);
        let node = self.close(&value, Some(other));
        Value::free(node, value.bound)
    }

    /// A view of a value: an axis replaced by an index that is inside where `inside` says so.
    pub(super) fn view(&mut self, x: Value, axis: AxisId, index: NodeId, inside: Option<NodeId>) -> Value {
        let mut moved = Guards { list: SmallVec::new(), dependent: x.guards.dependent };
        for guard in &x.guards.list {
            let guard = self.at(*guard, axis, index);
            moved.list.push(guard);
        }
        let node = self.at(x.node, axis, index);
        let guards = match inside {
            None => moved,
            Some(inside) => {
                let dependent = !moved.list.is_empty();
                let mut guards = Guards::one(inside).and(&moved);
                guards.dependent |= dependent;
                guards
            }
        };
        Value { node, bound: x.bound, guards }
    }
}
