//! Why an array with an element for every query and key is stored, as a value: in words, and what to write instead.

use super::Repetition;
use super::pairs::Side;
use super::rewriting::{self, Rewriting};
use crate::plan::Plan;
use salient_ir::{Name, NodeId, Origin, ReduceOp};
use std::collections::BTreeSet;

/// A value by its name, as plans show it, and its place in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value {
    /// The name.
    pub name: String,
    /// Where the source computes it, if that is known.
    pub origin: Option<Origin>,
}

impl Value {
    pub(super) fn of(plan: &Plan<'_>, id: NodeId) -> Value {
        let g = &plan.graph;
        let origin = g.nearest_user(id, |node| node.origin.is_some()).and_then(|node| node.origin);
        let name = named_user(plan, id).and_then(|user| plan.names[user.index()].clone());
        Value { name: name.unwrap_or_else(|| "a value".to_owned()), origin }
    }
}

/// The nearest value that plans show by a name and that is computed from a node, or the node itself.
fn named_user(plan: &Plan<'_>, id: NodeId) -> Option<NodeId> {
    let (mut next, mut seen) = (vec![id], BTreeSet::new());
    while !next.is_empty() {
        if let Some(found) = next.iter().find(|id| plan.names[id.index()].is_some()) {
            return Some(*found);
        }
        next = next.iter().flat_map(|id| plan.graph.users(*id)).filter(|id| seen.insert(*id)).collect();
    }
    None
}

/// Along which positions an array is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Along {
    /// Whole rows of it, at other queries.
    Queries,
    /// At other keys.
    Keys,
    /// At positions that mix queries and keys.
    Both,
}

impl Along {
    pub(super) fn of(side: Side) -> Along {
        match (side.queries, side.keys) {
            (true, true) => Along::Both,
            (true, false) => Along::Queries,
            (false, true) | (false, false) => Along::Keys,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Along::Queries => "queries",
            Along::Keys => "keys",
            Along::Both => "queries and keys",
        }
    }
}

/// What becomes of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Then {
    /// Values are summed under it, and it is weights: the sum may be taken first.
    Summed,
    /// Something else.
    Other,
}

/// Why an array is stored, the strongest reason first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The model returns it, under these names.
    Returned(Vec<String>),
    /// It is what a state holds after the call, under this name.
    Kept(String),
    /// A value reads it at positions that are data.
    Gathered(Value, Along, Then),
    /// A value reads it at other positions than its own, or a part of it.
    Moved(Value, Along, Then),
    /// A value has it and other arrays one after the other.
    Joined(Value),
    /// A value is its running sum.
    Running(Value, Along, Then),
    /// A value is a reduction of it that takes more of a row than sums and maxima.
    Reduced(Value, ReduceOp),
    /// A value compares elements of it with each other: of a row, or rows as a whole.
    Compared(Value),
    /// A value combines it along an axis that is neither that of the queries nor that of the keys: by a sum or otherwise.
    Mixed {
        /// The value.
        by: Value,
        /// The axis.
        along: Name,
        /// What becomes of it, if it is a sum.
        then: Then,
    },
    /// A value is a sum under it of what has an element for every query and key as well.
    ValuesOfPairs(Value),
    /// A value needs whole rows of it, and another one whole columns.
    BothWays {
        /// What needs rows.
        rows: Value,
        /// What needs columns.
        columns: Value,
        /// Whether both reduce it alone, and neither sums values under it.
        are_reductions: bool,
    },
    /// It is a sum of what is no product of a query and a key; with `true` of squares of differences, of which a softmax is
    /// taken.
    Distance {
        /// Whether squares of differences are summed.
        squares: bool,
    },
    /// A value that is stored, and has an element for every query and key too, is made of it.
    For(Value),
    /// A value is a sum over keys of it and of what has features, of which a kernel would have to make the scores again for each.
    Repeated(Value, Repetition),
    /// A value is a reduction of it, or a sum under it, in a kernel of its own.
    Apart(Value),
}

impl Reason {
    /// The reason in words that follow "because".
    pub fn text(&self) -> String {
        match self {
            Reason::Returned(names) => format!("the model returns it as `{}`", names.join("` and `")),
            Reason::Kept(state) => format!("the state `{state}` keeps it for the next call"),
            Reason::Gathered(by, along, _) => {
                format!("`{}` reads it at {} that are data", by.name, along.name())
            }
            Reason::Moved(by, Along::Both, _) => {
                format!("`{}` reads it at positions that mix queries and keys", by.name)
            }
            Reason::Moved(by, along, _) => {
                format!("`{}` reads it at other {} than its own", by.name, along.name())
            }
            Reason::Joined(by) => format!("`{}` holds it and other arrays one after the other", by.name),
            Reason::Running(by, along, _) => {
                format!("`{}` is its running sum along the {}", by.name, along.name())
            }
            Reason::Reduced(by, op) => format!(
                "`{}` is the {} of it, which no kernel finds while it makes scores",
                by.name,
                op.info().name
            ),
            Reason::Compared(by) => format!("`{}` sets elements of it beside each other", by.name),
            Reason::Mixed { by, along, .. } => {
                format!("`{}` combines it along `{along}`, which counts neither queries nor keys", by.name)
            }
            Reason::ValuesOfPairs(by) => {
                format!("`{}` sums under it what has an element for every query and key as well", by.name)
            }
            Reason::BothWays { rows, columns, .. } => {
                format!("`{}` needs whole rows of it, and `{}` whole columns", rows.name, columns.name)
            }
            Reason::Distance { squares: true } => {
                "it sums squares of differences, which are no products of queries and keys".to_owned()
            }
            Reason::Distance { squares: false } => {
                "it sums a function of query and key, which is no product of the two".to_owned()
            }
            Reason::For(by) => format!("`{}`, which is stored too, is computed from it", by.name),
            Reason::Repeated(by, repetition) => repetition.text(&format!("`{}`", by.name)),
            Reason::Apart(by) => format!("`{}` is computed from it by a kernel of its own", by.name),
        }
    }

    /// The value that reads the array.
    pub fn reader(&self) -> Option<&Value> {
        match self {
            Reason::Gathered(by, ..) | Reason::Moved(by, ..) | Reason::Running(by, ..) => Some(by),
            Reason::Joined(by) | Reason::Compared(by) | Reason::Reduced(by, _) | Reason::Mixed { by, .. } => {
                Some(by)
            }
            Reason::ValuesOfPairs(by)
            | Reason::BothWays { columns: by, .. }
            | Reason::For(by)
            | Reason::Repeated(by, _)
            | Reason::Apart(by) => Some(by),
            Reason::Returned(_) | Reason::Kept(_) | Reason::Distance { .. } => None,
        }
    }

    /// What to write instead, where something that fuses is known.
    pub fn rewriting(&self) -> Option<&'static Rewriting> {
        match self {
            Reason::Gathered(_, Along::Queries, Then::Summed) => Some(&rewriting::GATHER_SUMS),
            Reason::Gathered(_, Along::Keys, Then::Summed) => Some(&rewriting::GATHER_KEYS),
            Reason::Moved(_, Along::Queries, Then::Summed) => Some(&rewriting::MOVE_SUMS),
            Reason::Moved(_, Along::Keys, Then::Summed) => Some(&rewriting::MOVE_VALUES),
            Reason::Running(_, Along::Queries, Then::Summed) => Some(&rewriting::RUN_OVER_SUMS),
            Reason::Running(_, Along::Keys, Then::Summed) => Some(&rewriting::RUN_OVER_VALUES),
            Reason::Reduced(_, ReduceOp::ArgMax) => Some(&rewriting::FIRST_GREATEST),
            Reason::Mixed { then: Then::Summed, .. } => Some(&rewriting::ALL_VALUES),
            Reason::BothWays { are_reductions: true, .. } => Some(&rewriting::LOGARITHMS),
            Reason::Distance { squares: true } => Some(&rewriting::EXPAND_DISTANCES),
            Reason::Gathered(..) | Reason::Moved(..) | Reason::Running(..) | Reason::Mixed { .. } => None,
            Reason::Returned(_) | Reason::Kept(_) | Reason::Joined(_) | Reason::Reduced(..) => None,
            Reason::Compared(_) | Reason::ValuesOfPairs(_) => None,
            Reason::BothWays { are_reductions: false, .. } | Reason::Distance { squares: false } => None,
            Reason::Repeated(_, repetition) => repetition.rewriting(),
            Reason::For(_) | Reason::Apart(_) => None,
        }
    }
}
